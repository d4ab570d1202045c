/*-------------------------------------------------------------------------
 *
 * order_check.c
 *	  Whether the order of codes is that of groups of values.
 *
 * That primary weights of libc say which of two strings comes first rests on
 * what strcoll() and strxfrm() of glibc do (collation.c).  Who reads a whole
 * index in the order of codes looks whether it is so: each string must come
 * behind the last one of the group before.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "index/index.h"

/* Of one column: codes as of the entry before */
typedef struct ColumnCheck
{
	StringInfoData before;		/* of the columns before this one */
	StringInfoData code;
	uint32		group;			/* bytes of the code that its group begins with */
	StringInfoData greatest;	/* of the code's group */
	StringInfoData bound;		/* greatest of the group before; empty: none */
} ColumnCheck;

struct LsmOrderCheck
{
	const LsmKeySpec *spec;
	MemoryContext work;			/* reset for each entry */
	ColumnCheck columns[INDEX_MAX_KEYS];
};

static inline bool
is_checked(const LsmColumnSpec *spec)
{
	return spec->order == LSM_ORDER_GROUPS && lsm_strings_are_libc(spec->strings);
}

LsmOrderCheck *
lsm_order_check_begin(const LsmKeySpec *spec)
{
	LsmOrderCheck *check = NULL;

	for (int i = 0; i < spec->nkeys; i++)
	{
		if (!is_checked(&spec->columns[i]))
			continue;
		if (check == NULL)
			check = palloc0(sizeof(LsmOrderCheck));
		lsm_buffer_init(&check->columns[i].before, 64);
		lsm_buffer_init(&check->columns[i].code, 64);
		lsm_buffer_init(&check->columns[i].greatest, 64);
		lsm_buffer_init(&check->columns[i].bound, 64);
	}
	if (check != NULL)
	{
		check->spec = spec;
		check->work = AllocSetContextCreate(CurrentMemoryContext, "lsm_index order",
											ALLOCSET_SMALL_SIZES);
	}
	return check;
}

static void
set(StringInfo buf, LsmSlice s)
{
	resetStringInfo(buf);
	lsm_buffer_append(buf, s.data, s.len);
}

static inline LsmSlice
slice(const StringInfoData *buf)
{
	return lsm_slice(buf->data, buf->len);
}

static bool
check_column(ColumnCheck *c, const LsmColumnSpec *spec, LsmSlice before, LsmSlice code)
{
	bool		same_before = lsm_slice_compare(before, slice(&c->before)) == 0;

	if (same_before && lsm_slice_compare(code, slice(&c->code)) == 0)
		return true;
	if (!same_before)
	{
		set(&c->before, before);
		resetStringInfo(&c->bound);
		set(&c->greatest, code);
	}
	else if (lsm_bound_compare(code, lsm_slice(c->code.data, c->group)) != 0)
	{
		set(&c->bound, slice(&c->greatest));
		set(&c->greatest, code);
	}
	else if (lsm_code_compare(spec, slice(&c->greatest), code) < 0)
		set(&c->greatest, code);
	set(&c->code, code);
	c->group = lsm_code_group(spec, code);
	return c->bound.len == 0 || lsm_code_compare(spec, slice(&c->bound), code) < 0;
}

bool
lsm_order_check_next(LsmOrderCheck *check, LsmSlice columns)
{
	MemoryContext old = MemoryContextSwitchTo(check->work);
	bool		in_order = true;
	uint32		at = 0;

	for (int i = 0; i < check->spec->nkeys; i++)
	{
		const LsmColumnSpec *spec = &check->spec->columns[i];
		LsmSlice	rest = lsm_slice(columns.data + at, columns.len - at);
		LsmSlice	code = lsm_slice(rest.data, lsm_code_length(spec, rest));

		if (is_checked(spec))
			in_order &= check_column(&check->columns[i], spec,
									 lsm_slice(columns.data, at), code);
		at += code.len;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(check->work);
	return in_order;
}
