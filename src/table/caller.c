/*-------------------------------------------------------------------------
 *
 * caller.c
 *	  Who asks for a table's size, or for a slot: code that takes the table for
 *	  heap.
 *
 * C code of extensions may go past the access method.  Nothing tells us, but
 * before it does harm it asks for the table's size, which is in TID blocks
 * (relation.c), and uses it for the main fork:
 *
 *	- heap_insert() and its company look for a page with free space.  They
 *	  would find log pages, and destroy them.
 *	- pg_visibility looks for rows in all pages.  Log pages have bytes of any
 *	  kind there.
 *	- pg_prewarm and pageinspect want pages, whatever is in them.  They get the
 *	  number of pages that the fork has.
 *
 * pglogical's workers delete rows with simple_heap_delete(), which asks for
 * nothing.  They make a slot before.
 *
 * The stack says who it is.  A size is asked for a few times in a statement at
 * most, so a walk up the stack is not too expensive.  Where the C library has no
 * backtrace(), all callers are taken for those that know what they ask.
 *
 * Locks: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef HAVE_BACKTRACE_SYMBOLS
#include <dlfcn.h>
#include <execinfo.h>
#endif

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "table/table.h"

#ifdef HAVE_BACKTRACE_SYMBOLS

/* Our own, those of core that ask us, and the callers of these */
#define MAX_FRAMES	6

typedef struct Frame
{
	const char *library;		/* base name; never NULL */
	const char *function;		/* if it is exported, else "" */
} Frame;

/* dladdr() looks through all names of a library, and libraries stay. */
static struct
{
	void	   *address;		/* NULL: none */
	Frame		frame;
}			known_frames[64];

/* Good until the next call. */
static const Frame *
look_up_frame(void *address)
{
	int			slot = (uintptr_t) address / 4 % lengthof(known_frames);
	Frame	   *frame = &known_frames[slot].frame;
	Dl_info		info;

	if (known_frames[slot].address == address)
		return frame;
	known_frames[slot].address = address;
	frame->library = "";
	frame->function = "";
	/* the return address may be the next function's, if this one's call is its end */
	if (dladdr((char *) address - 1, &info) == 0)
		return frame;
	if (info.dli_fname != NULL)
		frame->library = last_dir_separator(info.dli_fname) != NULL ?
			last_dir_separator(info.dli_fname) + 1 : info.dli_fname;
	if (info.dli_sname != NULL)
		frame->function = info.dli_sname;
	return frame;
}

static bool
is_one_of(const char *name, const char *const *names)
{
	for (; *names != NULL; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

static void
refuse_heap_writer(Relation rel, const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot write to lsm table \"%s\" as to a heap table",
					RelationGetRelationName(rel)),
			 errdetail("An extension calls %s(), which goes past the table's access method.",
					   function),
			 errhint("Use ALTER TABLE ... SET ACCESS METHOD heap.")));
}

/*
 * Does the caller of RelationGetNumberOfBlocks() want the blocks of the main
 * fork?  ERRORs if it would take them for heap's.
 */
bool
lsm_main_fork_is_read(Relation rel)
{
	static const char *const writers[] = {
		"RelationGetBufferForTuple", "heap_insert", "heap_multi_insert", "heap_update", NULL
	};
	static const char *const fork_readers[] = {"pg_prewarm.so", "pageinspect.so", NULL};
	static const char *const row_seekers[] = {
		"pg_visibility", "pg_visibility_rel", "pg_check_frozen", "pg_check_visible", NULL
	};
	void	   *frames[MAX_FRAMES];
	int			nframes = backtrace(frames, MAX_FRAMES);

	for (int i = 1; i < nframes; i++)
	{
		const Frame *frame = look_up_frame(frames[i]);

		if (is_one_of(frame->function, writers))
			refuse_heap_writer(rel, frame->function);
		if (is_one_of(frame->library, fork_readers))
			return true;
		if (strcmp(frame->library, "pg_visibility.so") == 0 && is_one_of(frame->function, row_seekers))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot read lsm table \"%s\" as a heap table",
							RelationGetRelationName(rel)),
					 errdetail("%s() looks for rows in the table's main fork, where there are none.",
							   frame->function),
					 errhint("Use pg_visibility_map(), or lsm_verify() to check the table.")));
	}
	return false;
}

/*
 * A slot is asked for.  Only background workers of pglogical are looked at.
 * ERRORs if it is pglogical itself, and not a statement or trigger there.
 */
void
lsm_refuse_pglogical(Relation rel)
{
	void	   *frames[MAX_FRAMES];
	int			nframes;

	if (likely(MyBgworkerEntry == NULL) ||
		strcmp(MyBgworkerEntry->bgw_library_name, "pglogical") != 0)
		return;
	nframes = backtrace(frames, MAX_FRAMES);
	for (int i = 1; i < nframes; i++)
	{
		const Frame *frame = look_up_frame(frames[i]);

		if (strcmp(frame->library, "pglogical.so") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("pglogical cannot write to lsm table \"%s\"",
							RelationGetRelationName(rel)),
					 errdetail("It deletes rows as those of heap tables."),
					 errhint("Use CREATE SUBSCRIPTION, or a heap table.")));
	}
}

#else

bool
lsm_main_fork_is_read(Relation rel)
{
	return false;
}

void
lsm_refuse_pglogical(Relation rel)
{
}

#endif
