/*-------------------------------------------------------------------------
 *
 * quals.h
 *	  Conditions of a scan: the executor's keys, digested to points, bounds and
 *	  operators per column, and what asks an entry's codes for them.
 *
 * Locks: none.  All is memory of the scan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_INDEX_QUALS_H
#define LSM_INDEX_QUALS_H

#include "access/skey.h"

#include "index/index.h"

/* ---- scankeys.c ---- */

/*
 * An operator to be called for an entry; true if it is for one of the arguments
 */
typedef struct LsmOperatorQual
{
	struct LsmOperatorQual *next;
	ScanKey		key;
	int			nargs;
	Datum	   *args;
	LsmSlice	group;			/* of the one argument; only codes in it need
								 * the operator.  len 0: all do */
} LsmOperatorQual;

/* All that must hold for one column, in the order of codes (DESC applied) */
typedef struct LsmColumnQuals
{
	bool		not_null;
	bool		has_points;
	bool		has_lower;
	bool		has_upper;
	bool		lower_inclusive;
	bool		upper_inclusive;
	int			npoints;
	LsmSlice   *points;			/* codes; sorted, distinct */
	LsmSlice	lower;
	LsmSlice	upper;
	LsmOperatorQual *operators;
} LsmColumnQuals;

/* Bounds may be groups, which codes begin with. */
static inline bool
lsm_column_has_bounds(const LsmColumnQuals *column)
{
	return column->not_null || column->has_lower || column->has_upper;
}

/* The labels of an enum, in its order, as of the beginning of a scan */
typedef struct LsmLabels
{
	MemoryContext context;		/* of the scan */
	int			n;				/* -1: not read yet */
	Oid		   *oids;
} LsmLabels;

/*
 * One end of a row comparison whose first column is in order as far as groups:
 * rows with the first member's value are compared by the columns behind it.
 */
typedef struct LsmRowEnd
{
	int			column;			/* of the member */
	LsmSlice	value;			/* its code; len 0: no such end */
	LsmSlice	rest;			/* bound of the codes behind; len 0: none */
	bool		inclusive;		/* of `rest` */
	struct LsmRowEnd *next;		/* of the member that `rest` has the group of,
								 * or NULL */

	/* of row_inner_lower and row_inner_upper */
	int			first;			/* column of the row's first member */
	LsmSlice	before;			/* the codes of those before this one */
} LsmRowEnd;

typedef struct LsmQuals
{
	bool		never;			/* contradictory: no entry matches */
	bool		recheck;		/* entries found may not match */
	int			nprefix;		/* leading columns that have points, and whose
								 * combinations are walked one by one */
	int			nwalk;			/* leading columns lsm_quals_match must look
								 * at */
	LsmColumnQuals *columns;	/* the caller's, one per key column */
	bool		by_labels;		/* points of the first column are in the order
								 * of its enum, not of codes */
	bool		all_labels;		/* ... and not what was asked for */
	bool		by_groups;		/* points of the prefix's last column are not
								 * in the order of codes */
	LsmLabels  *labels;			/* the caller's; NULL: order does not matter */

	/*
	 * From a row comparison: bounds of the codes of row_column and those
	 * after it.  That column has the row's first member as its own bound,
	 * too.  len 0: none.
	 */
	int			row_column;
	LsmSlice	row_lower;
	LsmSlice	row_upper;
	bool		row_lower_inclusive;
	bool		row_upper_inclusive;

	/* The same, where row_group_column is in order as far as groups */
	int			row_group_column;
	LsmRowEnd	row_group_lower;
	LsmRowEnd	row_group_upper;
	bool		row_group_walk; /* lsm_quals_match must look at that column */

	/*
	 * The same, where a later member is the first one that is in order as far
	 * as groups: for entries that have the members before it
	 */
	LsmRowEnd	row_inner_lower;
	LsmRowEnd	row_inner_upper;
} LsmQuals;

/* Has a row comparison such ends, the column its first? */
static inline bool
lsm_has_row_ends(const LsmQuals *quals, int column)
{
	return column == quals->row_group_column &&
		(quals->row_group_lower.value.len > 0 || quals->row_group_upper.value.len > 0);
}

/*
 * Is a code of the ends' column within them, whatever is behind it?  NULL: no
 * such end.
 */
extern bool lsm_row_ends_admit(const LsmRowEnd *lower, const LsmRowEnd *upper,
							   const LsmColumnSpec *spec, LsmSlice code);

static inline bool
lsm_row_admits(const LsmQuals *quals, const LsmColumnSpec *spec, LsmSlice code)
{
	return lsm_row_ends_admit(&quals->row_group_lower, &quals->row_group_upper, spec, code);
}

/*
 * Is the key a row comparison?  btree's kind, or the array of a record that
 * executor/row_range.c makes.
 */
extern bool lsm_key_is_row(ScanKey key);

/*
 * Digest the executor's keys.  Results live in the current memory context and
 * point into `keys`.  The prefix has all leading columns with points, in the
 * order of codes, and nothing is set of what lsm_quals_match() has to look at:
 * see lsm_prefix_prepare().
 */
extern void lsm_quals_prepare(LsmQuals *quals, const LsmKeySpec *spec,
							  ScanKey keys, int nkeys);

/* ---- match.c ---- */

/*
 * Whether an entry within the bounds that the scan walks (points of the prefix,
 * range of the next column) matches the rest.  Leaks into the current context.
 */
extern bool lsm_quals_match(const LsmQuals *quals, const LsmKeySpec *spec,
							LsmSlice key);

/* Of one column: is the code within the bounds, is it a point, ... */
extern bool lsm_code_within(const LsmColumnQuals *column, LsmSlice code);
extern bool lsm_is_point(const LsmColumnQuals *column, LsmSlice code);
extern bool lsm_operators_hold(const LsmColumnQuals *column, const LsmColumnSpec *spec,
							   LsmSlice code);

/* ---- skip.c ---- */

/*
 * This many entries that do not match cost about as much as finding a place: a
 * walk passes over the rest of their group then.
 */
#define LSM_SKIP_ENTRIES	128

/* ---- labels.c ---- */

/*
 * Make the first column's points, or all its labels if it has none, the points
 * of a scan in the order of its enum.  False: none is left.
 */
extern bool lsm_quals_order_labels(LsmQuals *quals, const LsmKeySpec *spec);

/* ---- groups.c ---- */

typedef struct LsmGroups LsmGroups;

/* ---- multi_point.c ---- */

/*
 * Points of = ANY that were looked for together: a run of the prefix's last
 * column
 */
typedef struct LsmPoints
{
	int			n;				/* 0: nothing is known */
	int			resting;		/* groups to come that are looked up one by one */
	int			outer[INDEX_MAX_KEYS];	/* the other columns' points */
	int			first;
	LsmProbe	probes[LSM_GROUP_KEYS];
	bool		absent[LSM_GROUP_KEYS];
	StringInfoData keys;		/* of the probes */
} LsmPoints;

/* Sorted, each value once: how many are left. */
extern int	lsm_points_sort(LsmSlice *points, int n);

/* The number of the first one that is not less; they are in order. */
extern int	lsm_points_find(const LsmSlice *points, int n, LsmSlice code);
extern bool lsm_points_pay(const LsmQuals *quals, const LsmKeySpec *spec);
extern LsmPoints *lsm_points_create(void);
extern const LsmProbe *lsm_points_probe(LsmPoints *group, LsmTree *tree, const LsmQuals *quals,
										const int *point);

#endif							/* LSM_INDEX_QUALS_H */
