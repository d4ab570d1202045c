/*-------------------------------------------------------------------------
 *
 * scankeys.c
 *	  From the executor's scan keys to points, bounds and operators to call.
 *
 * Each key narrows what its column may be, in terms of codes:
 *
 *		=, = ANY, IS NULL		points; several of them intersect
 *		<, <=, >=, >			a bound; the narrowest counts
 *		others					an operator to be called for each entry: ranges
 *								over columns whose codes are not in the operator's order,
 *								constants that cannot be converted (constant.c)
 *
 * Where codes give the order of groups only, a range is bounded by the group of
 * its constant, and the operator is called for what is in that group.
 *
 * Leading columns that have points make the prefix of the scan; the bounds of
 * the column after it limit the walk; all else is compared entry by entry, by
 * codes where possible.
 *
 * Everything lives in the caller's memory context.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "index/quals.h"

/* ======================================================================
 * Narrowing a column
 * ====================================================================== */

static void
add_lower(LsmColumnQuals *column, LsmSlice code, bool inclusive)
{
	int			c = column->has_lower ? lsm_slice_compare(code, column->lower) : 1;

	if (c > 0)
	{
		column->has_lower = true;
		column->lower = code;
		column->lower_inclusive = inclusive;
	}
	else if (c == 0)
		column->lower_inclusive &= inclusive;
}

static void
add_upper(LsmColumnQuals *column, LsmSlice code, bool inclusive)
{
	int			c = column->has_upper ? lsm_slice_compare(code, column->upper) : -1;

	if (c < 0)
	{
		column->has_upper = true;
		column->upper = code;
		column->upper_inclusive = inclusive;
	}
	else if (c == 0)
		column->upper_inclusive &= inclusive;
}

/* A bound in the order of values; DESC turns it round. */
static void
add_bound(LsmColumnQuals *column, const LsmColumnSpec *spec, bool is_lower,
		  LsmSlice code, bool inclusive)
{
	if (is_lower != spec->descending)
		add_lower(column, code, inclusive);
	else
		add_upper(column, code, inclusive);
}

/* `points` becomes the column's; sorted here. */
static void
add_points(LsmColumnQuals *column, LsmSlice *points, int n)
{
	int			kept = 0;
	int			i = 0;

	n = lsm_points_sort(points, n);
	if (!column->has_points)
	{
		column->has_points = true;
		column->points = points;
		column->npoints = n;
		return;
	}

	/* both are sorted: intersect into what is there */
	for (int k = 0; k < column->npoints; k++)
	{
		LsmSlice	point = column->points[k];

		while (i < n && lsm_slice_compare(points[i], point) < 0)
			i++;
		if (i < n && lsm_slice_compare(points[i], point) == 0)
			column->points[kept++] = point;
	}
	column->npoints = kept;
}

static void
add_point(LsmColumnQuals *column, LsmSlice code)
{
	LsmSlice   *point = palloc(sizeof(LsmSlice));

	*point = code;
	add_points(column, point, 1);
}

static LsmOperatorQual *
add_operator(LsmColumnQuals *column, ScanKey key, Datum *args, int nargs)
{
	LsmOperatorQual *qual = palloc0(sizeof(LsmOperatorQual));

	qual->key = key;
	qual->args = args;
	qual->nargs = nargs;
	qual->next = column->operators;
	column->operators = qual;
	return qual;
}

/*
 * The bound in the order of values that "column <strategy> constant" means, for
 * a strategy that is not equality.  False: there is none, nothing matches.
 */
static bool
constant_bound(const LsmConstant *constant, StrategyNumber strategy,
			   bool *is_lower, LsmSlice *code, bool *inclusive)
{
	*is_lower = strategy == BTGreaterEqualStrategyNumber ||
		strategy == BTGreaterStrategyNumber;
	if (constant->kind == LSM_CONSTANT_EXACT)
	{
		*code = constant->value;
		*inclusive = strategy == BTLessEqualStrategyNumber ||
			strategy == BTGreaterEqualStrategyNumber;
		return true;
	}
	Assert(constant->kind == LSM_CONSTANT_GAP);
	*code = *is_lower ? constant->above : constant->below;
	*inclusive = true;
	return *is_lower ? constant->has_above : constant->has_below;
}

static bool
needs_operator(const LsmColumnSpec *spec, StrategyNumber strategy,
			   const LsmConstant *constant)
{
	return constant->kind == LSM_CONSTANT_NEAR ||
		constant->kind == LSM_CONSTANT_OPAQUE ||
		(spec->order != LSM_ORDER_CODES && strategy != BTEqualStrategyNumber);
}

/* A range over groups, its constant a value of the column */
static bool
is_group_range(const LsmColumnSpec *spec, StrategyNumber strategy,
			   const LsmConstant *constant)
{
	return spec->order == LSM_ORDER_GROUPS && strategy != BTEqualStrategyNumber &&
		constant->kind == LSM_CONSTANT_EXACT;
}

static LsmSlice
constant_group(const LsmColumnSpec *spec, const LsmConstant *constant)
{
	return lsm_slice(constant->value.data, lsm_code_group(spec, constant->value));
}

/*
 * Bounds around what may compare as asked to a constant of kind NEAR, or where
 * codes give the order of groups.
 */
static void
add_near_bounds(LsmColumnQuals *column, const LsmColumnSpec *spec,
				StrategyNumber strategy, const LsmConstant *constant)
{
	bool		is_less = strategy <= BTLessEqualStrategyNumber;
	bool		is_greater = strategy >= BTGreaterEqualStrategyNumber;

	if (is_group_range(spec, strategy, constant))
	{
		add_bound(column, spec, is_greater, constant_group(spec, constant), true);
		return;
	}
	if (constant->kind != LSM_CONSTANT_NEAR || spec->order != LSM_ORDER_CODES)
		return;
	if (!is_greater && constant->has_above)
		add_bound(column, spec, false, constant->above, true);
	if (!is_less && constant->has_below)
		add_bound(column, spec, true, constant->below, true);
}

/* ======================================================================
 * Kinds of keys
 * ====================================================================== */

/* column <strategy> *argument, which the operator decides */
static void
prepare_operator(LsmQuals *quals, const LsmColumnSpec *spec, ScanKey key,
				 Datum *argument, const LsmConstant *constant)
{
	LsmColumnQuals *column = &quals->columns[key->sk_attno - 1];
	LsmOperatorQual *qual;

	if (spec->opaque)
	{
		quals->recheck = true;	/* an entry's key does not have the value */
		return;
	}
	qual = add_operator(column, key, argument, 1);
	add_near_bounds(column, spec, key->sk_strategy, constant);
	if (is_group_range(spec, key->sk_strategy, constant))
		qual->group = constant_group(spec, constant);
}

/* column <strategy> constant.  False: contradiction. */
static bool
prepare_scalar(LsmQuals *quals, const LsmColumnSpec *spec, ScanKey key)
{
	LsmColumnQuals *column = &quals->columns[key->sk_attno - 1];
	LsmConstant constant;
	bool		is_lower;
	bool		inclusive;
	LsmSlice	code;

	if (key->sk_flags & SK_ISNULL)
		return false;			/* the operators are strict */
	column->not_null = true;

	lsm_constant_convert(spec, key->sk_subtype, key->sk_argument, &constant);
	if (needs_operator(spec, key->sk_strategy, &constant))
	{
		prepare_operator(quals, spec, key, &key->sk_argument, &constant);
		return true;
	}
	if (key->sk_strategy == BTEqualStrategyNumber)
	{
		if (constant.kind != LSM_CONSTANT_EXACT)
			return false;
		add_point(column, constant.value);
		return true;
	}
	if (!constant_bound(&constant, key->sk_strategy, &is_lower, &code, &inclusive))
		return false;
	add_bound(column, spec, is_lower, code, inclusive);
	return true;
}

/*
 * The loosest of the bounds that elements mean: for ANY, one of them is enough.
 */
typedef struct LoosestBound
{
	bool		found;			/* else no element can match */
	bool		is_lower;
	LsmSlice	code;
	bool		inclusive;
} LoosestBound;

/* Codes of a list, side by side: an allocation takes more than most of them. */
#define CODES_BYTES	8192

typedef struct Codes
{
	char	   *room;
	uint32		left;
} Codes;

static LsmSlice
keep_code(Codes *codes, LsmSlice code)
{
	LsmSlice	kept;

	if (codes->left < code.len)
	{
		codes->left = Max(CODES_BYTES, code.len);
		codes->room = palloc(codes->left);
	}
	memcpy(codes->room, code.data, code.len);
	kept = lsm_slice(codes->room, code.len);
	codes->room += code.len;
	codes->left -= code.len;
	return kept;
}

/*
 * The element that "column <strategy> ANY (elements)" means, for a strategy that
 * is not equality: the greatest or the least, as the index's class compares.
 */
static int
loosest_element(const LsmColumnSpec *spec, ScanKey key, const Datum *elements, int n)
{
	bool		least = key->sk_strategy >= BTGreaterEqualStrategyNumber;
	int			best = 0;

	for (int i = 1; i < n; i++)
	{
		int			c = DatumGetInt32(FunctionCall2Coll(spec->compare, spec->collation,
														elements[i], elements[best]));

		CHECK_FOR_INTERRUPTS();
		if (least ? c < 0 : c > 0)
			best = i;
	}
	return best;
}

static void
loosen_bound(LoosestBound *bound, Codes *codes, const LsmColumnSpec *spec,
			 StrategyNumber strategy, const LsmConstant *constant)
{
	LsmSlice	code;
	bool		inclusive;
	int			c;

	if (!constant_bound(constant, strategy, &bound->is_lower, &code, &inclusive))
		return;
	c = bound->found ? lsm_slice_compare(code, bound->code) : 0;
	if (bound->is_lower != spec->descending)
		c = -c;					/* the least is the loosest */
	if (!bound->found || c > 0)
	{
		bound->code = keep_code(codes, code);
		bound->inclusive = inclusive;
	}
	else if (c == 0)
		bound->inclusive |= inclusive;
	bound->found = true;
}

/* Elements whose constants are kept until the next ones come */
#define CONSTANTS_PER_RESET	64

/*
 * column <strategy> ANY (the elements, which are ours from now on).  False:
 * contradiction.
 */
static bool
prepare_elements(LsmQuals *quals, const LsmColumnSpec *spec, ScanKey key, Oid type,
				 Datum *elements, const bool *nulls, int nelements)
{
	LsmColumnQuals *column = &quals->columns[key->sk_attno - 1];
	bool		equality = key->sk_strategy == BTEqualStrategyNumber;
	Oid			subtype = key->sk_subtype;
	int			n = 0;
	bool		ask = false;
	LoosestBound bound = {0};
	Codes		codes = {0};
	LsmSlice   *points = NULL;
	int			npoints = 0;
	MemoryContext work;

	column->not_null = true;
	if (!OidIsValid(subtype) && lsm_column_type(type) != LSM_COLUMN_INVALID)
		subtype = type;

	if (equality)
		points = palloc_extended(sizeof(LsmSlice) * Max(nelements, 1), MCXT_ALLOC_HUGE);
	work = AllocSetContextCreate(CurrentMemoryContext, "lsm_index constants",
								 ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < nelements; i++)
	{
		LsmConstant constant;
		MemoryContext old;

		if (nulls[i])
			continue;			/* column = NULL: not true */
		if (n % CONSTANTS_PER_RESET == 0)
		{
			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(work);
		}
		elements[n] = elements[i];
		old = MemoryContextSwitchTo(work);
		lsm_constant_convert(spec, subtype, elements[n++], &constant);
		MemoryContextSwitchTo(old);
		ask = ask || needs_operator(spec, key->sk_strategy, &constant);
		if (ask)
			continue;
		if (!equality)
			loosen_bound(&bound, &codes, spec, key->sk_strategy, &constant);
		else if (constant.kind == LSM_CONSTANT_EXACT)
			points[npoints++] = keep_code(&codes, constant.value);
	}
	MemoryContextDelete(work);

	if (n == 0)
		return false;
	if (ask && spec->opaque)
	{
		quals->recheck = true;
		return true;
	}
	if (ask && !equality && subtype == spec->opcintype)
	{
		int			i = loosest_element(spec, key, elements, n);
		LsmConstant constant;

		lsm_constant_convert(spec, subtype, elements[i], &constant);
		prepare_operator(quals, spec, key, &elements[i], &constant);
		return true;
	}
	if (ask)
	{
		add_operator(column, key, elements, n);
		return true;
	}
	pfree(elements);
	if (equality)
		add_points(column, points, npoints);
	else if (bound.found)
		add_bound(column, spec, bound.is_lower, bound.code, bound.inclusive);
	return equality || bound.found;
}

/* One value of a row comparison, for its column of the index */
typedef struct RowMember
{
	Oid			type;
	Datum		value;
	bool		isnull;
} RowMember;

/* Another bound of the row's columns; the narrowest counts. */
static void
add_row_bound(LsmQuals *quals, int column, bool is_lower, LsmSlice code, bool inclusive)
{
	LsmSlice   *bound = is_lower ? &quals->row_lower : &quals->row_upper;
	bool	   *bound_inclusive = is_lower ? &quals->row_lower_inclusive : &quals->row_upper_inclusive;

	if (quals->row_lower.len == 0 && quals->row_upper.len == 0)
		quals->row_column = column;
	if (quals->row_column == column &&
		(bound->len == 0 ||
		 lsm_bound_is_narrower(is_lower, code, inclusive, *bound, *bound_inclusive)))
	{
		*bound = code;
		*bound_inclusive = inclusive;
	}
}

/*
 * Members of the row, beginning with number `from`, as one bound of codes: as
 * far as its columns are in the same direction, codes give the order of values,
 * and the members are values of the columns.  Members behind the bound decide
 * ties.  Nothing compares to a null, so of the rows that are equal before it
 * none matches.  Returns whether the bound is inclusive.  *group: the member of
 * which it has the group only, and ends there; or -1.
 */
static bool
put_row_bound(const LsmKeySpec *spec, int column, StrategyNumber strategy,
			  const RowMember *members, int from, int n, StringInfo code, int *group)
{
	const LsmColumnSpec *first = &spec->columns[column];
	bool		greater = strategy >= BTGreaterEqualStrategyNumber;
	bool		inclusive = strategy == BTLessEqualStrategyNumber ||
		strategy == BTGreaterEqualStrategyNumber;

	*group = -1;
	for (int i = from; i < n; i++)
	{
		const LsmColumnSpec *each = &spec->columns[column + i];
		LsmConstant constant;
		LsmSlice	part;

		if (i > 0 && members[i].isnull)
		{
			inclusive = false;
			break;
		}
		if (column + i >= spec->nkeys || each->descending != first->descending)
		{
			inclusive = true;
			break;
		}
		lsm_constant_convert(each, members[i].type, members[i].value, &constant);
		if (each->order == LSM_ORDER_NONE ||
			(constant.kind != LSM_CONSTANT_EXACT && constant.kind != LSM_CONSTANT_GAP))
		{
			inclusive = true;
			break;
		}
		if (constant.kind == LSM_CONSTANT_GAP)
		{
			/* no value is equal: from the one after it on, or from none */
			inclusive = greater ? constant.has_above : constant.has_below;
			part = greater ? constant.above : constant.below;
			if (inclusive)
				lsm_buffer_append(code, part.data, part.len);
			break;
		}
		if (each->order == LSM_ORDER_GROUPS)
		{
			part = constant_group(each, &constant);
			lsm_buffer_append(code, part.data, part.len);
			inclusive = true;
			if (constant.kind == LSM_CONSTANT_EXACT)
				*group = i;
			break;
		}
		lsm_buffer_append(code, constant.value.data, constant.value.len);
	}
	return inclusive;
}

/* The end at a member whose column's order is that of groups */
static void
put_row_end(const LsmKeySpec *spec, int column, StrategyNumber strategy,
			const RowMember *members, int member, int n, LsmRowEnd *end)
{
	LsmConstant constant;
	StringInfoData rest;
	int			group;

	lsm_constant_convert(&spec->columns[column + member], members[member].type,
						 members[member].value, &constant);
	Assert(constant.kind == LSM_CONSTANT_EXACT);
	lsm_buffer_init(&rest, 64);
	end->column = column + member;
	end->value = constant.value;
	end->inclusive = put_row_bound(spec, column, strategy, members, member + 1, n, &rest, &group);
	end->rest = lsm_slice(rest.data, rest.len);
	end->next = NULL;
	if (group >= 0)
	{
		end->next = palloc0(sizeof(LsmRowEnd));
		put_row_end(spec, column, strategy, members, group, n, end->next);
	}
}

/*
 * The end at a later member, for entries that have the members before it.  Of
 * several such comparisons the first counts; the executor checks all.
 */
static void
make_inner_end(const LsmKeySpec *spec, int column, StrategyNumber strategy,
			   const RowMember *members, int group, int n, LsmRowEnd *end)
{
	StringInfoData before;
	int			unused;

	if (end->value.len > 0)
		return;
	lsm_buffer_init(&before, 64);
	(void) put_row_bound(spec, column, strategy, members, 0, group, &before, &unused);
	put_row_end(spec, column, strategy, members, group, n, end);
	end->first = column;
	end->before = lsm_slice(before.data, before.len);
}

static void
make_row_bound(LsmQuals *quals, const LsmKeySpec *spec, int column, StrategyNumber strategy,
			   const RowMember *members, int n)
{
	bool		greater = strategy >= BTGreaterEqualStrategyNumber;
	bool		is_lower = greater != spec->columns[column].descending;
	StringInfoData code;
	bool		inclusive;
	int			group;

	lsm_buffer_init(&code, 64);
	inclusive = put_row_bound(spec, column, strategy, members, 0, n, &code, &group);
	if (code.len > 0)
		add_row_bound(quals, column, is_lower, lsm_slice(code.data, code.len), inclusive);
	if (group > 0)
		make_inner_end(spec, column, strategy, members, group, n,
					   is_lower ? &quals->row_inner_lower : &quals->row_inner_upper);
}

/*
 * Likewise, where the first column's order is that of groups.  Of several such
 * comparisons the first counts; the executor checks all.
 */
static void
make_row_end(LsmQuals *quals, const LsmKeySpec *spec, int column, StrategyNumber strategy,
			 const RowMember *members, int n)
{
	bool		greater = strategy >= BTGreaterEqualStrategyNumber;
	LsmRowEnd  *end = greater != spec->columns[column].descending ?
		&quals->row_group_lower : &quals->row_group_upper;

	if (quals->row_group_lower.value.len == 0 && quals->row_group_upper.value.len == 0)
		quals->row_group_column = column;
	if (quals->row_group_column == column && end->value.len == 0)
		put_row_end(spec, column, strategy, members, 0, n, end);
}

/*
 * ROW(a, b) <strategy> ROW(x, y): a bound on the first column, one on both for
 * walks over the first, and the executor checks the rest.  False:
 * contradiction.
 */
static bool
prepare_row(LsmQuals *quals, const LsmKeySpec *spec, int i, StrategyNumber strategy,
			const RowMember *members, int n)
{
	LsmColumnQuals *column = &quals->columns[i];
	LsmConstant constant;
	StrategyNumber loose = strategy;
	bool		is_lower;
	bool		inclusive;
	LsmSlice	code;

	Assert(i >= 0 && i < spec->nkeys && n > 0);
	quals->recheck = true;
	if (members[0].isnull)
		return false;
	column->not_null = true;

	/* ties on the first column are decided by the others */
	if (strategy == BTLessStrategyNumber)
		loose = BTLessEqualStrategyNumber;
	else if (strategy == BTGreaterStrategyNumber)
		loose = BTGreaterEqualStrategyNumber;

	lsm_constant_convert(&spec->columns[i], members[0].type, members[0].value, &constant);
	if (needs_operator(&spec->columns[i], loose, &constant))
	{
		add_near_bounds(column, &spec->columns[i], loose, &constant);
		if (is_group_range(&spec->columns[i], loose, &constant))
			make_row_end(quals, spec, i, strategy, members, n);
		return true;
	}
	if (!constant_bound(&constant, loose, &is_lower, &code, &inclusive))
		return false;
	add_bound(column, &spec->columns[i], is_lower, code, inclusive);
	if (n > 1)
		make_row_bound(quals, spec, i, strategy, members, n);
	return true;
}

/* As btree's scans get it */
static bool
prepare_row_header(LsmQuals *quals, const LsmKeySpec *spec, ScanKey key)
{
	ScanKey		first = (ScanKey) DatumGetPointer(key->sk_argument);
	RowMember	members[INDEX_MAX_KEYS];
	int			n = 0;

	for (;;)
	{
		ScanKey		member = &first[n];

		Assert(member->sk_flags & SK_ROW_MEMBER);
		if (member->sk_attno != first->sk_attno + n)
			break;
		members[n].type = member->sk_subtype;
		members[n].value = member->sk_argument;
		members[n++].isnull = (member->sk_flags & SK_ISNULL) != 0;
		if (member->sk_flags & SK_ROW_END)
			return prepare_row(quals, spec, first->sk_attno - 1, key->sk_strategy, members, n);
	}

	/* what is left decides ties */
	return prepare_row(quals, spec, first->sk_attno - 1,
					   key->sk_strategy <= BTLessEqualStrategyNumber ?
					   BTLessEqualStrategyNumber : BTGreaterEqualStrategyNumber, members, n);
}

/* As executor/row_range.c gives it: the only element of an array of records */
static bool
prepare_row_value(LsmQuals *quals, const LsmKeySpec *spec, ScanKey key, Datum row)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(row);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
											  HeapTupleHeaderGetTypMod(header));
	HeapTupleData tuple;
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	RowMember	members[INDEX_MAX_KEYS];
	int			n = desc->natts;

	if (n > INDEX_MAX_KEYS || n > spec->nkeys - (key->sk_attno - 1))
		elog(ERROR, "row of %d values for an index with %d columns", n, spec->nkeys);
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	heap_deform_tuple(&tuple, desc, values, nulls);
	for (int i = 0; i < n; i++)
	{
		members[i].type = TupleDescAttr(desc, i)->atttypid;
		members[i].value = values[i];
		members[i].isnull = nulls[i];
	}
	ReleaseTupleDesc(desc);
	return prepare_row(quals, spec, key->sk_attno - 1, key->sk_strategy, members, n);
}

/* column <strategy> ANY (array).  False: contradiction. */
static bool
prepare_array(LsmQuals *quals, const LsmKeySpec *spec, ScanKey key)
{
	ArrayType  *array;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *elements;
	bool	   *nulls;
	int			nelements;
	bool		possible;

	if (key->sk_flags & SK_ISNULL)
		return false;
	array = DatumGetArrayTypeP(key->sk_argument);
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign,
					  &elements, &nulls, &nelements);
	if (ARR_ELEMTYPE(array) == RECORDOID && key->sk_subtype != RECORDOID)
	{
		Assert(nelements == 1 && !nulls[0]);
		return prepare_row_value(quals, spec, key, elements[0]);
	}
	possible = prepare_elements(quals, &spec->columns[key->sk_attno - 1], key,
								ARR_ELEMTYPE(array), elements, nulls, nelements);
	pfree(nulls);
	return possible;
}

/* See index.h. */
bool
lsm_key_is_row(ScanKey key)
{
	if (key->sk_flags & SK_ROW_HEADER)
		return true;
	return (key->sk_flags & SK_SEARCHARRAY) != 0 && (key->sk_flags & SK_ISNULL) == 0 &&
		key->sk_subtype != RECORDOID &&
		ARR_ELEMTYPE(DatumGetArrayTypeP(key->sk_argument)) == RECORDOID;
}

/* Points of a row comparison's first column that are beyond its ends go. */
static void
drop_points_beyond_row(LsmQuals *quals, const LsmKeySpec *spec)
{
	LsmColumnQuals *column;
	int			n = 0;

	if (!lsm_has_row_ends(quals, quals->row_group_column))
		return;
	column = &quals->columns[quals->row_group_column];
	if (!column->has_points)
		return;
	for (int i = 0; i < column->npoints; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (lsm_row_admits(quals, &spec->columns[quals->row_group_column], column->points[i]))
			column->points[n++] = column->points[i];
	}
	column->npoints = n;
}

static bool
prepare_key(LsmQuals *quals, const LsmKeySpec *spec, ScanKey key)
{
	int			i = key->sk_attno - 1;
	LsmColumnQuals *column = &quals->columns[i];

	Assert(i >= 0 && i < spec->nkeys);
	if (key->sk_flags & SK_ROW_HEADER)
		return prepare_row_header(quals, spec, key);
	if (key->sk_flags & SK_SEARCHNULL)
	{
		StringInfoData buf;

		lsm_buffer_init(&buf, 2);
		lsm_encode_column(&spec->columns[i], (Datum) 0, true, &buf);
		add_point(column, lsm_slice(buf.data, buf.len));
		return true;
	}
	if (key->sk_flags & SK_SEARCHNOTNULL)
	{
		column->not_null = true;
		return true;
	}
	if (key->sk_strategy < BTLessStrategyNumber ||
		key->sk_strategy > BTGreaterStrategyNumber)
		elog(ERROR, "invalid strategy number %d", key->sk_strategy);
	if (key->sk_flags & SK_SEARCHARRAY)
		return prepare_array(quals, spec, key);
	return prepare_scalar(quals, &spec->columns[i], key);
}

/* ======================================================================
 * Putting it together
 * ====================================================================== */

/*
 * Points within the bounds, bounds that leave something.  False: contradiction.
 */
static bool
finish_column(LsmColumnQuals *column)
{
	int			kept = 0;
	int			c;

	if (!column->has_points)
	{
		if (!column->has_lower || !column->has_upper)
			return true;
		c = lsm_slice_compare(column->lower, column->upper);
		return c < 0 || (c == 0 && column->lower_inclusive && column->upper_inclusive);
	}
	if (!lsm_column_has_bounds(column))
		return column->npoints > 0;
	for (int i = 0; i < column->npoints; i++)
		if (lsm_code_within(column, column->points[i]))
			column->points[kept++] = column->points[i];
	column->npoints = kept;
	return kept > 0;
}

void
lsm_quals_prepare(LsmQuals *quals, const LsmKeySpec *spec, ScanKey keys, int nkeys)
{
	quals->never = false;
	quals->recheck = false;
	quals->by_labels = false;
	quals->all_labels = false;
	quals->by_groups = false;
	quals->nprefix = 0;
	quals->nwalk = 0;
	quals->row_lower = quals->row_upper = lsm_slice(NULL, 0);
	quals->row_column = quals->row_group_column = -1;
	memset(&quals->row_group_lower, 0, sizeof(LsmRowEnd));
	memset(&quals->row_group_upper, 0, sizeof(LsmRowEnd));
	memset(&quals->row_inner_lower, 0, sizeof(LsmRowEnd));
	memset(&quals->row_inner_upper, 0, sizeof(LsmRowEnd));
	memset(quals->columns, 0, sizeof(LsmColumnQuals) * spec->nkeys);

	for (int i = 0; i < nkeys; i++)
		if (!prepare_key(quals, spec, &keys[i]))
		{
			quals->never = true;
			return;
		}
	drop_points_beyond_row(quals, spec);
	for (int i = 0; i < spec->nkeys; i++)
		if (!finish_column(&quals->columns[i]))
		{
			quals->never = true;
			return;
		}

	if (quals->labels != NULL && spec->columns[0].type == LSM_COLUMN_ENUM &&
		!lsm_quals_order_labels(quals, spec))
	{
		quals->never = true;
		return;
	}

	while (quals->nprefix < spec->nkeys && quals->columns[quals->nprefix].has_points)
		quals->nprefix++;
}
