/*-------------------------------------------------------------------------
 *
 * skip.c
 *	  Walks that pass over entries which cannot match.
 *
 * WHERE b = 5 on an index over (a, b): the entries with b = 5 lie together for
 * each a.  A walk that has looked at many entries in a row that do not match,
 * and is still in the group of equal leading columns, goes on where the first
 * of the quals that fails may hold again.  If that is as far behind as entries
 * that cost as much as finding the place, at most half of the work is wasted,
 * whatever the groups are like.  PostgreSQL 18 does this in btree.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index/scan.h"

/*
 * Entries without a match before the walk looks where it is, and before it
 * goes elsewhere
 */
#define LOOK_ENTRIES	(LSM_SKIP_ENTRIES / 8)

/* What a column's quals say of codes before, or behind, one of them */
typedef enum Next
{
	NEXT_UNKNOWN,				/* this one may match, or operators decide */
	NEXT_CODE,					/* none up to the one given */
	NEXT_NONE					/* none at all */
} Next;

/* The point next to the code in the direction */
static Next
next_point(const LsmColumnQuals *column, LsmSlice code, bool forward, LsmSlice *next)
{
	int			low = lsm_points_find(column->points, column->npoints, code);

	if (low < column->npoints && lsm_slice_compare(column->points[low], code) == 0)
		return NEXT_UNKNOWN;
	if (!forward)
		low--;
	if (low < 0 || low >= column->npoints)
		return NEXT_NONE;
	*next = column->points[low];
	return NEXT_CODE;
}

/* The bound that the code has to reach yet in the direction, or has passed */
static Next
next_bound(const LsmColumnQuals *column, LsmSlice code, bool forward, LsmSlice *next,
		   bool *inclusive)
{
	static const char not_null = LSM_CODE_NOT_NULL;
	bool		has_near = forward ? column->has_lower : column->has_upper;
	int			c;

	if (lsm_code_within(column, code))
		return NEXT_UNKNOWN;
	*next = forward ? column->lower : column->upper;
	*inclusive = forward ? column->lower_inclusive : column->upper_inclusive;
	if (!has_near && column->not_null)
	{
		*next = lsm_slice(&not_null, 1);
		*inclusive = true;
		has_near = true;
	}
	if (!has_near)
		return NEXT_NONE;
	c = lsm_bound_compare(code, *next);
	if (!forward)
		c = -c;
	return c < 0 || (c == 0 && !*inclusive) ? NEXT_CODE : NEXT_NONE;
}

/* Does a function have to say whether the code matches, and say that it does not? */
static bool
code_fails(LsmScan *so, int column, LsmSlice code)
{
	const LsmQuals *quals = &so->quals;
	const LsmColumnSpec *spec = &so->spec->columns[column];
	bool		operators = quals->columns[column].operators != NULL;
	bool		row = quals->row_group_walk && column == quals->row_group_column;
	MemoryContext old;
	bool		holds;

	if (!operators && !row)
		return false;
	old = MemoryContextSwitchTo(so->entry_context);
	holds = (!operators || lsm_operators_hold(&quals->columns[column], spec, code)) &&
		(!row || lsm_row_admits(quals, spec, code));
	MemoryContextSwitchTo(old);
	MemoryContextReset(so->entry_context);
	return !holds;
}

/*
 * The first column of the key that cannot match: where its quals may hold again
 * goes to so->skip.target, with the columns before it.  False: there is none.
 * `*beyond`: not there, but behind all that begin so.
 */
static bool
find_place(LsmScan *so, ScanDirection direction, LsmSlice key, int *prefix_bytes,
		   bool *beyond)
{
	bool		forward = ScanDirectionIsForward(direction);
	LsmSlice	rest = lsm_key_columns(key);

	for (int i = 0; i < so->quals.nwalk; i++)
	{
		const LsmColumnQuals *column = &so->quals.columns[i];
		LsmSlice	code = {rest.data, lsm_code_length(&so->spec->columns[i], rest)};
		LsmSlice	next;
		bool		inclusive = true;
		Next		what = NEXT_UNKNOWN;

		if (i >= so->quals.nprefix && column->has_points)
			what = next_point(column, code, forward, &next);
		else if (i > so->quals.nprefix)
			what = next_bound(column, code, forward, &next, &inclusive);
		if (what == NEXT_UNKNOWN && code_fails(so, i, code))
		{
			/* equal values are alike */
			resetStringInfo(lsm_scan_buffer(so, &so->skip.target));
			*prefix_bytes = code.data + code.len - key.data;
			lsm_buffer_append(&so->skip.target, key.data, *prefix_bytes);
			*beyond = true;
			return true;
		}
		if (what != NEXT_UNKNOWN)
		{
			resetStringInfo(lsm_scan_buffer(so, &so->skip.target));
			*prefix_bytes = code.data - key.data;
			lsm_buffer_append(&so->skip.target, key.data, *prefix_bytes);
			if (what == NEXT_CODE)
				lsm_buffer_append(&so->skip.target, next.data, next.len);
			*beyond = what == NEXT_NONE || !inclusive;
			return true;
		}
		rest.data += code.len;
		rest.len -= code.len;
	}
	return false;
}

bool
lsm_walk_missed(LsmScan *so, ScanDirection direction, LsmSlice key, bool *beyond)
{
	int			prefix_bytes;

	if (++so->skip.misses == LOOK_ENTRIES)
	{
		resetStringInfo(lsm_scan_buffer(so, &so->skip.missed));
		lsm_buffer_append(&so->skip.missed, key.data, key.len);
	}
	if (so->skip.misses < LSM_SKIP_ENTRIES)
		return false;
	so->skip.misses = 0;
	return find_place(so, direction, key, &prefix_bytes, beyond) &&
		so->skip.missed.len >= prefix_bytes &&
		lsm_bytes_compare(so->skip.missed.data, key.data, prefix_bytes) == 0;
}
