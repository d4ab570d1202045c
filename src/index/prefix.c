/*-------------------------------------------------------------------------
 *
 * prefix.c
 *	  The prefix of a scan: how many of the leading columns that are bound to
 *	  points it has, and in which order their points come.
 *
 * For each combination of the prefix's points there is one walk, so that several
 * lists cost the product of their lengths, whatever there is in the index.  Where
 * that is much, a few combinations are looked for.  If the entry that comes next
 * is far away, that is, many combinations behind, then the entries are fewer than
 * the combinations.  The last column leaves the prefix then.  Its points, from
 * the first to the last, become bounds of the walks that are left, entries are
 * compared with its points, and what lies between two points is jumped over
 * where that pays (skip.c).  This goes on as long as combinations are many and
 * entries are few.
 *
 * The points of a column that has left the prefix are in the order of codes, for
 * they are searched.
 *
 * The processes of a parallel scan take the prefix that the first one has
 * chosen: they share its walks.
 *
 * No lock or pin is held between calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "index/scan.h"

/* Fewer walks are not worth a look. */
#define MANY_WALKS		1024

#define SAMPLES			7

/*
 * Combinations from one that is looked for to the next entry's, from which on
 * entries are few.  Where the prefix is the whole key, filters answer for most
 * combinations; else each one costs as much as a look.
 */
#define FEW_WHOLE_KEYS	32
#define FEW_PREFIXES	4

/* ======================================================================
 * How many columns
 * ====================================================================== */

/* Columns before this one keep their points in another order than codes. */
static inline int
first_sampled(const LsmQuals *quals)
{
	return quals->by_labels ? 1 : 0;
}

/*
 * Combinations of the sampled columns between the one in `point` and the first
 * that is not before the key.
 */
static double
combinations_to(const LsmScan *so, const int *point, LsmSlice key)
{
	const LsmQuals *quals = &so->quals;
	LsmSlice	rest = lsm_key_columns(key);
	bool		equal = true;
	double		distance = 0;

	for (int i = 0; i < quals->nprefix; i++)
	{
		const LsmColumnQuals *column = &quals->columns[i];
		LsmSlice	code = {rest.data, lsm_code_length(&so->spec->columns[i], rest)};
		int			at = 0;

		if (i < first_sampled(quals))
			equal = lsm_slice_compare(code, column->points[point[i]]) == 0;
		else
		{
			if (equal)
				at = lsm_points_find(column->points, column->npoints, code);
			else if (i == first_sampled(quals))
				at = column->npoints;	/* behind all of this label */
			equal = equal && at < column->npoints &&
				lsm_slice_compare(column->points[at], code) == 0;
			distance = distance * column->npoints + at - point[i];
		}
		rest.data += code.len;
		rest.len -= code.len;
	}
	return distance;
}

/* One combination out of all */
static double
sample_distance(LsmScan *so, int sample)
{
	const LsmQuals *quals = &so->quals;
	int			point[INDEX_MAX_KEYS];
	StringInfoData seek;
	LsmSlice	key;
	LsmSlice	value;
	double		distance = 0;

	lsm_buffer_init(&seek, 64);
	for (int i = 0; i < quals->nprefix; i++)
	{
		const LsmColumnQuals *column = &quals->columns[i];
		uint32		hash = hash_combine(murmurhash32(sample), murmurhash32(i));

		point[i] = hash % column->npoints;
		lsm_buffer_append(&seek, column->points[point[i]].data, column->points[point[i]].len);
	}
	(*so->searches)++;
	lsm_cursor_seek(so->cursor, lsm_slice(seek.data, Min(seek.len, LSM_MAX_KEY_BYTES)), false,
					ForwardScanDirection);
	if (lsm_cursor_step(so->cursor, ForwardScanDirection, &key, &value))
		distance = combinations_to(so, point, key);
	else
	{
		for (int i = first_sampled(quals); i < quals->nprefix; i++)
			distance = distance * quals->columns[i].npoints +
				(i == first_sampled(quals) ? quals->columns[i].npoints : 0) - point[i];
	}
	pfree(seek.data);
	return distance;
}

static bool
entries_are_few(LsmScan *so)
{
	double		few = so->quals.nprefix == so->spec->nkeys ? FEW_WHOLE_KEYS : FEW_PREFIXES;
	int			nfar = 0;

	lsm_walk_need_cursor(so);
	lsm_cursor_limit(so->cursor, lsm_slice(NULL, 0), 0);
	for (int i = 0; i < SAMPLES; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (sample_distance(so, i) >= few)
			nfar++;
	}
	return nfar > SAMPLES / 2;
}

/* Are the walks too many to be begun without a look? */
static bool
walks_are_many(const LsmScan *so)
{
	const LsmQuals *quals = &so->quals;
	double		walks = 1;
	int			nlists = 0;

	for (int i = 0; i < quals->nprefix; i++)
	{
		if (likely(quals->columns[i].npoints == 1))
			continue;
		walks *= quals->columns[i].npoints;
		nlists++;
	}
	/* a list of whole keys costs no more than it is long */
	return nlists > 0 && walks >= MANY_WALKS &&
		(nlists > 1 || quals->nprefix < so->spec->nkeys);
}

/* The prefix's last column leaves it. */
static void
drop_last_column(LsmQuals *quals)
{
	LsmColumnQuals *column = &quals->columns[--quals->nprefix];

	column->has_lower = column->has_upper = true;
	column->lower = column->points[0];
	column->upper = column->points[column->npoints - 1];
	column->lower_inclusive = column->upper_inclusive = true;
}

/* ======================================================================
 * The order of points
 * ====================================================================== */

/* Codes that are compared as values are decoded into the context. */
typedef struct ValueOrder
{
	const LsmColumnSpec *spec;
	MemoryContext context;
	int			ncompared;		/* since it was reset */
} ValueOrder;

#define COMPARED_PER_RESET	100

static int
compare_point_values(const void *a, const void *b, void *state)
{
	ValueOrder *order = (ValueOrder *) state;
	MemoryContext old = MemoryContextSwitchTo(order->context);
	int			c = lsm_code_compare(order->spec, *(const LsmSlice *) a, *(const LsmSlice *) b);

	MemoryContextSwitchTo(old);
	if (++order->ncompared == COMPARED_PER_RESET)
	{
		MemoryContextReset(order->context);
		order->ncompared = 0;
		CHECK_FOR_INTERRUPTS();
	}
	return c;
}

/* False: they were in order. */
static bool
order_by_value(LsmSlice *points, int npoints, const LsmColumnSpec *spec)
{
	ValueOrder	order = {spec};
	bool		sorted = true;

	order.context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index points",
										  ALLOCSET_DEFAULT_SIZES);
	for (int i = 1; i < npoints && sorted; i++)
		sorted = compare_point_values(&points[i - 1], &points[i], &order) < 0;
	if (!sorted)
		qsort_arg(points, npoints, sizeof(LsmSlice), compare_point_values, &order);
	MemoryContextDelete(order.context);
	return !sorted;
}

/*
 * Put the points of the prefix's columns, which are sorted by code, into the
 * order of values.
 */
static void
order_points(LsmQuals *quals, const LsmKeySpec *spec)
{
	for (int i = 0; i < quals->nprefix; i++)
	{
		LsmColumnQuals *column = &quals->columns[i];
		const LsmColumnSpec *each = &spec->columns[i];

		if (each->order != LSM_ORDER_GROUPS || (i == 0 && quals->by_labels))
			continue;
		if (order_by_value(column->points, column->npoints, each) && i == quals->nprefix - 1)
			quals->by_groups = true;
	}
}

/* ======================================================================
 * All
 * ====================================================================== */

/* What lsm_quals_match() has to look at */
static void
set_walk(LsmQuals *quals, const LsmKeySpec *spec)
{
	for (int i = 0; i < spec->nkeys; i++)
	{
		LsmColumnQuals *column = &quals->columns[i];

		if (column->operators != NULL || (i >= quals->nprefix && column->has_points) ||
			(i > quals->nprefix && lsm_column_has_bounds(column)))
			quals->nwalk = i + 1;
	}

	/* a label is not in a range of codes */
	quals->row_group_walk = lsm_has_row_ends(quals, quals->row_group_column) &&
		spec->columns[quals->row_group_column].type == LSM_COLUMN_ENUM &&
		!(quals->by_labels && quals->row_group_column == 0);
	if (quals->row_group_walk)
		quals->nwalk = Max(quals->nwalk, quals->row_group_column + 1);
}

/* See scan.h. */
void
lsm_prefix_prepare(LsmScan *so, int most)
{
	LsmQuals   *quals = &so->quals;

	if (quals->never)
		return;
	if (most < 0)
	{
		while (quals->nprefix > first_sampled(quals) && walks_are_many(so) && entries_are_few(so))
			drop_last_column(quals);
	}
	while (most >= 0 && quals->nprefix > most)
		drop_last_column(quals);
	if (quals->labels != NULL)
		order_points(quals, so->spec);
	set_walk(quals, so->spec);
}
