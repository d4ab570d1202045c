/*-------------------------------------------------------------------------
 *
 * skip.c
 *	  Walks that pass over entries which cannot match.
 *
 * WHERE b = 5 on an index over (a, b): the entries with b = 5 lie together for
 * each a.  A walk that has looked at many entries in a row that do not match,
 * and is still in the group of equal leading columns, goes on where the first
 * of the quals that fails may hold again.  If that is as far behind as entries
 * that cost as much as finding the place, at most half of the work is wasted.
 * PostgreSQL 18 does this in btree.
 *
 * Where that has paid, the next groups are probably alike: the walk goes on from
 * the first entry that does not match, twice as often each time, and then looks
 * at entries one by one again, to see whether it still pays.  Where large groups
 * and small ones take turns, that can be wrong: places in the batch that was read
 * are gone to there, which makes small groups cheap (walk.c), but groups of ten or
 * twenty entries cost a seek each, at most MOST_TRUST in a row.
 *
 *		a b		WHERE b = 5
 *		1 5		matches
 *		1 6		b has no more: a has to be another one.  Codes of a fixed length
 *				are numbers, so the place is the one of 2 5
 *		2 5		is there; else the walk stands at 2 6, or 3 1, and goes on from
 *				that
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

/*
 * Places that are gone to at once, at most, before it is seen again that it pays.
 * Odd, as is what comes before it (1, 3, 7 ...): a group may take two seeks, of
 * which the one that has paid was the first, and entries are to be looked at from
 * a match on, where a whole group is to come.
 */
#define MOST_TRUST		63

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

/* The code next to this one in the direction.  False: that is not to be told. */
static bool
append_next_code(StringInfo out, const LsmColumnSpec *spec, LsmSlice code, bool forward)
{
	uint8		over = forward ? 0xFF : 0;
	int			i = code.len - 1;
	char	   *copy;

	if (code.len != spec->fixed_bytes)
		return false;
	while (i > 0 && (uint8) code.data[i] == over)
		i--;
	if (i == 0)
		return false;
	lsm_buffer_append(out, code.data, code.len);
	copy = out->data + out->len - code.len;
	for (int k = i + 1; k < (int) code.len; k++)
		copy[k] = (char) ~over;
	copy[i] += forward ? 1 : -1;
	return true;
}

/*
 * Where the columns from this one on may hold, if those before are given: points,
 * up to the first column that has none.  *inclusive: that place itself.
 */
static void
append_near_ends(LsmScan *so, int column, bool forward, bool *inclusive)
{
	static const char not_null = LSM_CODE_NOT_NULL;
	StringInfo	target = &so->skip.target;

	for (; column < so->quals.nwalk; column++)
	{
		const LsmColumnQuals *quals = &so->quals.columns[column];
		LsmSlice	end;

		if (quals->has_points)
		{
			end = quals->points[forward ? 0 : quals->npoints - 1];
			lsm_buffer_append(target, end.data, end.len);
			continue;
		}
		if (forward ? quals->has_lower : quals->has_upper)
		{
			end = forward ? quals->lower : quals->upper;
			*inclusive = forward ? quals->lower_inclusive : quals->upper_inclusive;
			lsm_buffer_append(target, end.data, end.len);
		}
		else if (quals->not_null)
			lsm_buffer_append(target, &not_null, 1);
		return;
	}
}

/*
 * Nothing else matches that has the key's columns up to this one: what comes next
 * goes to so->skip.target.  `*beyond`: behind all that begin so.
 */
static void
leave_group(LsmScan *so, const LsmSlice *codes, int column, bool forward, bool *beyond)
{
	StringInfo	target = &so->skip.target;
	const char *key = codes[0].data;
	bool		inclusive = true;

	for (;; column--)
	{
		const LsmColumnQuals *quals = &so->quals.columns[column];
		LsmSlice	code = codes[column];

		resetStringInfo(target);
		lsm_buffer_append(target, key, code.data - key);
		if (column >= so->quals.nprefix && quals->has_points)
		{
			int			at = lsm_points_find(quals->points, quals->npoints, code);
			bool		equal = at < quals->npoints &&
				lsm_slice_compare(quals->points[at], code) == 0;

			at = forward ? at + equal : at - 1;
			if (at >= 0 && at < quals->npoints)
			{
				lsm_buffer_append(target, quals->points[at].data, quals->points[at].len);
				break;
			}
			if (column > so->quals.nprefix)
				continue;
		}
		else if (column >= so->quals.nprefix &&
				 append_next_code(target, &so->spec->columns[column], code, forward))
			break;
		lsm_buffer_append(target, code.data, code.len);
		*beyond = true;
		return;
	}
	append_near_ends(so, column + 1, forward, &inclusive);
	*beyond = !inclusive;
}

/*
 * The first column of the key that cannot match: where its quals may hold again
 * goes to so->skip.target.  False: there is none.  `*beyond`: not there, but
 * behind all that begin so.  `*prefix_bytes`: of the columns that the entries
 * which are passed over have in common.
 */
static bool
find_place(LsmScan *so, ScanDirection direction, LsmSlice key, int *prefix_bytes,
		   bool *beyond)
{
	bool		forward = ScanDirectionIsForward(direction);
	LsmSlice	rest = lsm_key_columns(key);
	LsmSlice	codes[INDEX_MAX_KEYS];

	for (int i = 0; i < so->quals.nwalk; i++)
	{
		const LsmColumnQuals *column = &so->quals.columns[i];
		LsmSlice	code = {rest.data, lsm_code_length(&so->spec->columns[i], rest)};
		LsmSlice	next;
		bool		inclusive = true;
		Next		what = NEXT_UNKNOWN;

		codes[i] = code;
		if (i >= so->quals.nprefix && column->has_points)
			what = next_point(column, code, forward, &next);
		else if (i > so->quals.nprefix)
			what = next_bound(column, code, forward, &next, &inclusive);
		if (what == NEXT_UNKNOWN && code_fails(so, i, code))
		{
			/* equal values are alike */
			lsm_scan_buffer(so, &so->skip.target);
			*prefix_bytes = code.data + code.len - key.data;
			leave_group(so, codes, i, forward, beyond);
			return true;
		}
		if (what == NEXT_NONE && i == 0)
			return false;
		if (what != NEXT_UNKNOWN)
		{
			resetStringInfo(lsm_scan_buffer(so, &so->skip.target));
			*prefix_bytes = code.data - key.data;
			if (what == NEXT_NONE)
				leave_group(so, codes, i - 1, forward, beyond);
			else
			{
				lsm_buffer_append(&so->skip.target, key.data, *prefix_bytes);
				lsm_buffer_append(&so->skip.target, next.data, next.len);
				if (column->has_points)
					append_near_ends(so, i + 1, forward, &inclusive);
				*beyond = !inclusive;
			}
			return true;
		}
		rest.data += code.len;
		rest.len -= code.len;
	}
	return false;
}

#ifdef USE_ASSERT_CHECKING
/* The place comes after the key, or the walk would never end. */
static bool
goes_on(const LsmScan *so, ScanDirection direction, LsmSlice key, bool beyond)
{
	int			c = lsm_bound_compare(key, lsm_buffer_slice(&so->skip.target));

	return (c == 0 && beyond) || (ScanDirectionIsForward(direction) ? c < 0 : c > 0);
}
#endif

bool
lsm_walk_missed(LsmScan *so, ScanDirection direction, LsmSlice key, bool *beyond)
{
	ScanSkip   *skip = &so->skip;
	int			prefix_bytes;
	bool		pays;

	if (skip->trusted > 0)
	{
		skip->misses = 0;
		pays = find_place(so, direction, key, &prefix_bytes, beyond);
		Assert(!pays || goes_on(so, direction, key, *beyond));
		return pays;
	}
	if (++skip->misses == LOOK_ENTRIES)
	{
		resetStringInfo(lsm_scan_buffer(so, &skip->missed));
		lsm_buffer_append(&skip->missed, key.data, key.len);
	}
	if (skip->misses < LSM_SKIP_ENTRIES)
		return false;
	skip->misses = 0;
	pays = find_place(so, direction, key, &prefix_bytes, beyond) &&
		skip->missed.len >= prefix_bytes &&
		lsm_bytes_compare(skip->missed.data, key.data, prefix_bytes) == 0;
	Assert(!pays || goes_on(so, direction, key, *beyond));
	skip->trust = pays ? Min(2 * skip->trust + 1, MOST_TRUST) : 0;
	skip->trusted = skip->trust;
	return pays;
}

void
lsm_walk_matched(LsmScan *so)
{
	ScanSkip   *skip = &so->skip;

	/* it was found before a skip would have paid */
	if (skip->misses > 0 && skip->trusted == 0)
		skip->trust = 0;
	skip->misses = 0;
}
