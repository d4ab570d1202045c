/*-------------------------------------------------------------------------
 *
 * server.h
 *	  What tests that include files of the product need of the server: errors,
 *	  memory contexts, StringInfo.
 *
 * One thread.  An ERROR jumps to CATCH(), or ends the test.  Memory that is
 * freed is given back at once, so that sanitizers see who uses it later.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_H
#define SERVER_H

#include "postgres.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* the real ones: libpgport is not linked */
#undef printf
#undef vprintf
#undef fprintf
#undef sprintf
#undef snprintf
#undef vsnprintf
#undef qsort

#include "assertion.h"

volatile sig_atomic_t InterruptPending = false;
volatile uint32 CritSectionCount = 0;

void
ProcessInterrupts(void)
{
}

/* Where random numbers begin: what repeats a run is printed. */
static inline uint64
test_seed(void)
{
	const char *given = getenv("LSM_SEED");
	uint64		seed = given != NULL ? strtoull(given, NULL, 10) : (uint64) time(NULL);

	printf("# LSM_SEED=%llu\n", (unsigned long long) seed);
	return seed;
}

/* ---- errors ---- */

static char error_text[1024];
sigjmp_buf *PG_exception_stack = NULL;
ErrorContextCallback *error_context_stack = NULL;

/* Did the statements fail?  Then error_text has the message. */
#define CATCH(statements, failed) \
	do { \
		sigjmp_buf	here; \
		(failed) = sigsetjmp(here, 0) != 0; \
		if (!(failed)) \
		{ \
			PG_exception_stack = &here; \
			statements; \
		} \
		PG_exception_stack = NULL; \
	} while (0)

bool
errstart(int elevel, const char *domain)
{
	return elevel >= ERROR;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	if (PG_exception_stack != NULL)
		siglongjmp(*PG_exception_stack, 1);
	printf("Bail out! ERROR: %s (%s:%d)\n", error_text, filename, lineno);
	exit(1);
}

int
errcode(int sqlerrcode)
{
	return 0;
}

#define ERROR_TEXT_FUNCTION(name) \
	int \
	name(const char *fmt, ...) \
	{ \
		va_list args; \
\
		va_start(args, fmt); \
		vsnprintf(error_text, sizeof(error_text), fmt, args); \
		va_end(args); \
		return 0; \
	}

ERROR_TEXT_FUNCTION(errmsg)
ERROR_TEXT_FUNCTION(errmsg_internal)

int
errdetail(const char *fmt,...)
{
	return 0;
}

int
errhint(const char *fmt,...)
{
	return 0;
}

/* ---- memory: a context is a list of blocks ---- */

typedef struct TestBlock
{
	struct TestBlock *next;
	struct TestBlock **link;
	struct TestContext *context;
	Size		bytes;
} TestBlock;

StaticAssertDecl(sizeof(TestBlock) % MAXIMUM_ALIGNOF == 0, "memory behind it is aligned");

typedef struct TestContext
{
	MemoryContextData data;
	TestBlock  *blocks;
} TestContext;

static TestContext top_context;
MemoryContext TopMemoryContext = &top_context.data;
MemoryContext CurrentMemoryContext = &top_context.data;

static void
link_block(TestBlock *block)
{
	TestContext *context = block->context;

	block->next = context->blocks;
	block->link = &context->blocks;
	if (block->next != NULL)
		block->next->link = &block->next;
	context->blocks = block;
}

static void
unlink_block(TestBlock *block)
{
	*block->link = block->next;
	if (block->next != NULL)
		block->next->link = block->link;
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	TestBlock  *block = malloc(sizeof(TestBlock) + Max(size, 1));

	if (block == NULL)
		abort();
	block->context = (TestContext *) context;
	block->bytes = size;
	/* who relies on zeroes is found out */
	memset(block + 1, 0x7f, size);
	link_block(block);
	return block + 1;
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return memset(MemoryContextAlloc(context, size), 0, size);
}

void *
MemoryContextAllocZeroAligned(MemoryContext context, Size size)
{
	return MemoryContextAllocZero(context, size);
}

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	return MemoryContextAlloc(context, size);
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	return (flags & MCXT_ALLOC_ZERO) ? MemoryContextAllocZero(context, size) :
		MemoryContextAlloc(context, size);
}

void *
palloc(Size size)
{
	return MemoryContextAlloc(CurrentMemoryContext, size);
}

void *
palloc0(Size size)
{
	return MemoryContextAllocZero(CurrentMemoryContext, size);
}

void *
palloc_extended(Size size, int flags)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, size, flags);
}

void *
repalloc(void *pointer, Size size)
{
	TestBlock  *old = (TestBlock *) pointer - 1;
	void	   *new = MemoryContextAlloc(&old->context->data, size);

	memcpy(new, pointer, Min(old->bytes, size));
	unlink_block(old);
	free(old);
	return new;
}

void *
repalloc_huge(void *pointer, Size size)
{
	return repalloc(pointer, size);
}

void
pfree(void *pointer)
{
	TestBlock  *block = (TestBlock *) pointer - 1;

	unlink_block(block);
	free(block);
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size minContextSize, Size initBlockSize,
							  Size maxBlockSize)
{
	TestContext *context = calloc(1, sizeof(TestContext));

	context->data.name = name;
	MemoryContextSetParent(&context->data, parent);
	return &context->data;
}

void
MemoryContextSetParent(MemoryContext context, MemoryContext new_parent)
{
	if (context->prevchild != NULL)
		context->prevchild->nextchild = context->nextchild;
	else if (context->parent != NULL)
		context->parent->firstchild = context->nextchild;
	if (context->nextchild != NULL)
		context->nextchild->prevchild = context->prevchild;
	context->prevchild = NULL;
	context->nextchild = NULL;
	context->parent = new_parent;
	if (new_parent == NULL)
		return;
	context->nextchild = new_parent->firstchild;
	if (context->nextchild != NULL)
		context->nextchild->prevchild = context;
	new_parent->firstchild = context;
}

void
MemoryContextRegisterResetCallback(MemoryContext context, MemoryContextCallback *cb)
{
	cb->next = context->reset_cbs;
	context->reset_cbs = cb;
}

void
MemoryContextDeleteChildren(MemoryContext context)
{
	while (context->firstchild != NULL)
		MemoryContextDelete(context->firstchild);
}

void
MemoryContextReset(MemoryContext context)
{
	TestContext *test = (TestContext *) context;

	MemoryContextDeleteChildren(context);
	while (context->reset_cbs != NULL)
	{
		MemoryContextCallback *cb = context->reset_cbs;

		context->reset_cbs = cb->next;
		cb->func(cb->arg);
	}
	while (test->blocks != NULL)
		pfree(test->blocks + 1);
}

void
MemoryContextDelete(MemoryContext context)
{
	Assert(context != CurrentMemoryContext && context != TopMemoryContext);
	MemoryContextReset(context);
	MemoryContextSetParent(context, NULL);
	free(context);
}

/* ---- StringInfo ---- */

void
resetStringInfo(StringInfo str)
{
	str->data[0] = '\0';
	str->len = 0;
	str->cursor = 0;
}

void
initStringInfo(StringInfo str)
{
	str->maxlen = 1024;
	str->data = palloc(str->maxlen);
	resetStringInfo(str);
}

StringInfo
makeStringInfo(void)
{
	StringInfo	str = palloc(sizeof(StringInfoData));

	initStringInfo(str);
	return str;
}

void
enlargeStringInfo(StringInfo str, int needed)
{
	int			want = str->len + needed + 1;

	if (want <= str->maxlen)
		return;
	str->maxlen = Max(want, 2 * str->maxlen);
	str->data = repalloc(str->data, str->maxlen);
}

void
appendStringInfoChar(StringInfo str, char ch)
{
	enlargeStringInfo(str, 1);
	str->data[str->len++] = ch;
	str->data[str->len] = '\0';
}

/* its type is another one in each version */
static inline void
append_bytes(StringInfo str, const void *data, int bytes)
{
	enlargeStringInfo(str, bytes);
	if (bytes > 0)
		memcpy(str->data + str->len, data, bytes);
	str->len += bytes;
	str->data[str->len] = '\0';
}

#define appendBinaryStringInfo(str, data, bytes) append_bytes(str, data, bytes)

#endif							/* SERVER_H */
