/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  What the planner is told about indexes and scans of them.
 *
 * The main fork of an index holds the log and the list of files, not the
 * entries, so the planner's idea of its size is replaced
 * (lsm_index_adjust_info). PostgreSQL knows "ordered" as a property of the
 * access method; indexes with a key column whose order scans cannot make are
 * made unordered there as well.
 *
 * IndexOptInfo.tree_height, which core uses for btree alone, carries the
 * number of levels, places in which a range scan has to look, and how many
 * leading columns filters know, which spare it some of them.
 *
 * IndexOptInfo.opfamily names btree's family where ours mirrors it: proofs of
 * uniqueness compare families with those of merge joins, and "WHERE b" becomes
 * an index qual for btree's bool family only.  The executor looks operators up
 * in the index's own family, with the same result.  IndexOptInfo.relam stays
 * true: it would get RowCompareExpr quals made, which ExecIndexBuildScanKeys
 * refuses (executor/row_compare.c has what they get instead).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_statistic.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/catcache.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"
#include "utils/syscache.h"

#include "index/quals.h"

/* CPU cost of looking a key up, in cpu_operator_cost: as btree's descent */
#define LOOKUP_OPERATORS	100.0
/* and of positioning in one level */
#define SEEK_OPERATORS		50.0

/*
 * Fetching a row of an lsm table is a lookup in its tree, for which core
 * charges no more than for a tuple on a heap page: in the order of TIDs the
 * block is at hand already, else it is found, decompressed and searched.
 * Measured against the sequential scan of a table of 1 M rows; tables of few
 * pages are in memory or nearly so.
 */
#define FETCH_OPERATORS		2.0
#define SCATTERED_FETCH_OPERATORS	60.0
#define SMALL_TABLE_PAGES	1000.0

/* Of a level's entries to those of the one above, about */
#define LEVEL_RATIO		10.0

/* Whether fewer tuples are read in groups is not worth asking the catalogs. */
#define MANY_TUPLES			1000.0

/* TID, lengths and tag of an entry in a sorted file, about */
#define ENTRY_OVERHEAD_BYTES	12

/* ======================================================================
 * build_simple_rel_hook
 * ====================================================================== */

/*
 * What the codes of its strings consist of, the index knows.  That makes a
 * difference for columns whose order is not that of bytes.  `index`: NULL if it is
 * hypothetical.
 */
static LsmOrder
column_order(Relation index, Oid family, Oid opcintype, Oid collation, int column)
{
	Oid			type = lsm_class_code_type(family, opcintype);
	LsmColumnType kind = lsm_class_column_type(family, opcintype);
	Oid			order_proc = get_opfamily_proc(family, opcintype, opcintype, 1);
	LsmColumnSpec spec;
	LsmStrings	strings;
	LsmOrder	order;

	if (kind == LSM_COLUMN_INVALID || lsm_type_is_composed(kind))
	{
		if (index == NULL)
			return LSM_ORDER_NONE;
		lsm_column_spec(index, column, &spec);
		return spec.order;
	}
	order = lsm_scalar_order(type, collation, order_proc,
							 lsm_strings_of(type, collation, order_proc, LSM_KEY_RULES_CURRENT));
	if (index != NULL &&
		lsm_scalar_order(type, collation, order_proc, LSM_STRINGS_BYTES) != order)
		order = lsm_index_strings(index, column, &strings) ?
			lsm_scalar_order(type, collation, order_proc, strings) : LSM_ORDER_NONE;
	return lsm_class_order(family, opcintype, order);
}

/* By the index's own operator family: adjust_families() may have put btree's here. */
static LsmOrder
info_column_order(const IndexOptInfo *info, int column)
{
	Relation	index = info->hypothetical ? NULL : index_open(info->indexoid, NoLock);
	LsmOrder	order;

	order = column_order(index, index != NULL ? index->rd_opfamily[column] : info->opfamily[column],
						 info->opcintype[column], info->indexcollations[column], column);
	if (index != NULL)
		index_close(index, NoLock);
	return order;
}

/*
 * Does a range of the column limit the walk?  Labels of an enum in the first
 * column are walked one by one (labels.c); behind it all are one group.
 */
static bool
range_limits_walk(const IndexOptInfo *info, int column)
{
	if (lsm_column_type(info->opcintype[column]) == LSM_COLUMN_ENUM)
		return column == 0;
	return info_column_order(info, column) != LSM_ORDER_NONE;
}

typedef struct MirrorKey
{
	Oid			family;
	Oid			type;
} MirrorKey;

typedef struct FamilyMirror
{
	MirrorKey	key;			/* hash key */
	Oid			btree_family;	/* InvalidOid: not mirrored */
} FamilyMirror;

/* Of this backend; emptied, and that counted, when an operator family changes */
static HTAB *family_mirrors = NULL;
static uint64 mirrors_stamp = 0;

static void
forget_mirrors(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS status;
	FamilyMirror *mirror;

	mirrors_stamp++;
	hash_seq_init(&status, family_mirrors);
	while ((mirror = hash_seq_search(&status)) != NULL)
		(void) hash_search(family_mirrors, &mirror->key, HASH_REMOVE, NULL);
}

/*
 * Is each search operator of btree's family one of ours, with the same meaning?
 */
static bool
family_covers(Oid family, Oid btree_family)
{
	CatCList   *members = SearchSysCacheList1(AMOPSTRATEGY,
											  ObjectIdGetDatum(btree_family));
	bool		covered = members->n_members > 0;

	for (int i = 0; i < members->n_members && covered; i++)
	{
		Form_pg_amop op = (Form_pg_amop) GETSTRUCT(&members->members[i]->tuple);

		covered = op->amoppurpose != AMOP_SEARCH ||
			get_op_opfamily_strategy(op->amopopr, family) == op->amopstrategy;
	}
	ReleaseSysCacheList(members);
	return covered;
}

/*
 * btree's family of the same order, if ours has all its operators: an operator
 * that someone added to btree's family alone must not become a scan key.
 */
static Oid
mirrored_family(Oid family, Oid type)
{
	MirrorKey	key = {family, type};
	FamilyMirror *mirror;
	uint64		stamp;
	Oid			less;
	Oid			btree_family;
	Oid			btree_type;
	CompareType comparison;

	if (family_mirrors == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(MirrorKey), .entrysize = sizeof(FamilyMirror)};

		family_mirrors = hash_create("lsm operator families", 64, &ctl,
									 HASH_ELEM | HASH_BLOBS);
		CacheRegisterSyscacheCallback(AMOPOPID, forget_mirrors, (Datum) 0);
	}
	mirror = hash_search(family_mirrors, &key, HASH_FIND, NULL);
	if (mirror != NULL)
		return mirror->btree_family;

	stamp = mirrors_stamp;
	less = get_opfamily_member(family, type, type, BTLessStrategyNumber);
	if (!OidIsValid(less) ||
		!get_ordering_op_properties(less, &btree_family, &btree_type, &comparison) ||
		comparison != COMPARE_LT ||
		get_opfamily_method(btree_family) != BTREE_AM_OID ||
		!family_covers(family, btree_family))
		btree_family = InvalidOid;

	if (stamp == mirrors_stamp)
	{
		mirror = hash_search(family_mirrors, &key, HASH_ENTER, NULL);
		mirror->btree_family = btree_family;
	}
	return btree_family;
}

static void
adjust_families(IndexOptInfo *info)
{
	for (int i = 0; i < info->nkeycolumns; i++)
	{
		Oid			family = mirrored_family(info->opfamily[i], info->opcintype[i]);

		if (OidIsValid(family))
			info->opfamily[i] = family;
	}
}

/* ---- IndexOptInfo.tree_height ---- */

#define HEIGHT_LEVELS_BITS	8

static int
set_height(int levels, int leading)
{
	return levels | leading << HEIGHT_LEVELS_BITS;
}

static int
height_levels(const IndexOptInfo *info)
{
	return Max(info->tree_height & ((1 << HEIGHT_LEVELS_BITS) - 1), 1);
}

static int
height_leading(const IndexOptInfo *info)
{
	return info->tree_height < 0 ? 0 : info->tree_height >> HEIGHT_LEVELS_BITS;
}

/* How many leading columns the filters of new files know. */
static int
filter_columns(Relation index)
{
	return (int) lsm_tree_filter_params(lsm_index_open_tree(index)).leading;
}

static void
adjust_size(IndexOptInfo *info, Relation index, RelOptInfo *rel)
{
	LsmTreeSize size;
	uint64		pages;
	uint64		entry_bytes = ENTRY_OVERHEAD_BYTES;

	for (int i = 0; i < info->nkeycolumns; i++)
		entry_bytes += get_typavgwidth(info->opcintype[i], -1);
	lsm_tree_size(lsm_index_open_tree(index), &size);

	/* a memtable grows in large pieces: as they will be in a file */
	pages = (size.file_bytes +
			 Min(size.memtable_bytes, size.memtable_entries * entry_bytes) +
			 BLCKSZ - 1) / BLCKSZ;
	info->pages = (BlockNumber) Min(Max(pages, 1), (uint64) MaxBlockNumber);
	info->tuples = rel->tuples;
	if (info->indpred != NIL)
		info->tuples = Min(rel->tuples,
						   (double) size.file_entries + size.memtable_entries);
	info->tree_height = set_height(size.levels, filter_columns(index));
}

/* An index that scans could not use is none to the planner. */
static bool
has_codes(PlannerInfo *root, const IndexOptInfo *info)
{
	Relation	index = index_open(info->indexoid, NoLock);
	bool		result = lsm_columns_have_codes(index);

	if (!result)
		lsm_index_warn_of_making(index);

	/* a column more, and it may be in order no more: the plan is made again */
	root->glob->relationOids = list_concat(root->glob->relationOids,
										   lsm_index_row_types(index));
	index_close(index, NoLock);
	return result;
}

/*
 * Where the values of a column begin and end by now, the planner looks up in an
 * index; up to PostgreSQL 17 it does so in btree indexes only.
 */
static bool
knows_ends(PlannerInfo *root, const IndexOptInfo *info)
{
#ifdef LSM_ENDS_FROM_BTREE_ONLY
	Relation	table;
	bool		stable;

	if (info->sortopfamily == NULL || info->indpred != NIL || !info->canreturn[0] ||
		info_column_order(info, 0) != LSM_ORDER_CODES)
		return false;

	/* rows of others are looked at again, which would be an error here */
	table = table_open(planner_rt_fetch(info->rel->relid, root)->relid, NoLock);
	stable = lsm_tids_are_stable(table);
	table_close(table, NoLock);
	return stable;
#else
	return false;
#endif
}

/*
 * The index once more, as a btree, of which no path can be made: it has no
 * operators, and has to have some.
 */
static IndexOptInfo *
make_ends(const IndexOptInfo *info)
{
	IndexOptInfo *ends = makeNode(IndexOptInfo);

	memcpy(ends, info, sizeof(IndexOptInfo));
	ends->relam = BTREE_AM_OID;
	ends->ncolumns = ends->nkeycolumns = 1;
	ends->opfamily = palloc0(sizeof(Oid));
	ends->unique = false;
	ends->amoptionalkey = false;
	ends->amsearchnulls = false;
	ends->amcanorderbyop = false;
	ends->amhasgettuple = false;
	ends->amhasgetbitmap = false;
	ends->amcanparallel = false;
	return ends;
}

/*
 * Called for each relation the planner looks at, after core has filled in
 * `rel`.  Its indexes are open and locked by the planner.
 */
void
lsm_index_adjust_info(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *lc;

	List	   *ends = NIL;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *info = lfirst_node(IndexOptInfo, lc);
		Relation	index;

		if (info->amcostestimate != lsm_index_cost_estimate || info->hypothetical)
			continue;
		if (!has_codes(root, info))
		{
			rel->indexlist = foreach_delete_current(rel->indexlist, lc);
			continue;
		}
		for (int i = 0; i < info->nkeycolumns; i++)
			if (info_column_order(info, i) == LSM_ORDER_NONE)
			{
				info->sortopfamily = NULL;
				info->reverse_sort = NULL;
				info->nulls_first = NULL;
				break;
			}
		adjust_families(info);
		index = index_open(info->indexoid, NoLock);
		if (!RELATION_IS_OTHER_TEMP(index))
			adjust_size(info, index, rel);
		index_close(index, NoLock);
		if (knows_ends(root, info))
			ends = lappend(ends, make_ends(info));
	}
	rel->indexlist = list_concat(rel->indexlist, ends);
}

/* ======================================================================
 * amcostestimate
 * ====================================================================== */

/* What the quals do to the walk through the index */
typedef struct BoundQuals
{
	List	   *quals;			/* those that limit it */
	List	   *behind;			/* of the first column behind a gap; NIL: none */
	int			gap_from;		/* first and last column of the gap */
	int			gap_to;
	int			equal_columns;	/* leading columns bound by = or IS NULL */
	bool		found_array;
	bool		found_is_null;
	double		scans;			/* walks, because of arrays */
} BoundQuals;

/* Strategy of an operator qual, 0 for others. */
static int
qual_strategy(PlannerInfo *root, const IndexOptInfo *info, int column,
			  Expr *clause, BoundQuals *bound, double *elements)
{
	Oid			op;

	*elements = 1;
	if (IsA(clause, OpExpr))
		op = ((OpExpr *) clause)->opno;
	else if (IsA(clause, RowCompareExpr))
		op = linitial_oid(((RowCompareExpr *) clause)->opnos);
	else if (IsA(clause, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *array = (ScalarArrayOpExpr *) clause;

		op = array->opno;
		bound->found_array = true;
		*elements = Max(estimate_array_length(root, lsecond(array->args)), 1);
	}
	else
		return 0;
	return get_op_opfamily_strategy(op, info->opfamily[column]);
}

/*
 * Columns without equality before the first one whose quals tell a walk where
 * to go on (skip.c)
 */
static void
find_gap(const IndexOptInfo *info, const IndexPath *path, int from, int column,
		 BoundQuals *bound)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, path->indexclauses)
	{
		IndexClause *iclause = lfirst_node(IndexClause, lc);

		if (iclause->indexcol != column)
			continue;
		foreach(lc2, iclause->indexquals)
		{
			RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc2);
			Expr	   *clause = rinfo->clause;
			bool		equal = (IsA(clause, OpExpr) &&
								 get_op_opfamily_strategy(((OpExpr *) clause)->opno,
														  info->opfamily[column]) == BTEqualStrategyNumber) ||
				(IsA(clause, ScalarArrayOpExpr) &&
				 get_op_opfamily_strategy(((ScalarArrayOpExpr *) clause)->opno,
										  info->opfamily[column]) == BTEqualStrategyNumber) ||
				(IsA(clause, NullTest) &&
				 ((NullTest *) clause)->nulltesttype == IS_NULL);

			if (equal || info_column_order(info, column) == LSM_ORDER_CODES)
				bound->behind = lappend(bound->behind, rinfo);
		}
	}
	bound->gap_from = from;
	bound->gap_to = column - 1;
}

/* Entries that a walk looks at where it goes on, beside those that match */
#define PLACE_ENTRIES	4

/*
 * A walk passes over what cannot match in each group of values of the columns
 * in the gap.  Returns the groups, 0 if it does not, and what is looked at: in
 * few groups the entries that show that passing pays (skip.c).
 */
static double
skipped_groups(PlannerInfo *root, IndexOptInfo *info, const BoundQuals *bound,
			   double *tuples)
{
	List	   *quals;
	double		groups = 1;
	double		looked_at;

	if (bound->behind == NIL || *tuples <= LSM_SKIP_ENTRIES)
		return 0;

	/* not estimate_num_groups(): that is for the rows that the query finds */
	for (int i = bound->gap_from; i <= bound->gap_to; i++)
	{
		VariableStatData variable;
		bool		is_default;

		examine_variable(root, (Node *) list_nth_node(TargetEntry, info->indextlist, i)->expr,
						 0, &variable);
		groups *= get_variable_numdistinct(&variable, &is_default);
		ReleaseVariableStats(variable);
		if (is_default)
			return 0;
	}
	quals = add_predicate_to_index_quals(info, list_concat_copy(bound->quals, bound->behind));
	looked_at = clauselist_selectivity(root, quals, info->rel->relid, JOIN_INNER, NULL) *
		info->rel->tuples / bound->scans + groups * PLACE_ENTRIES +
		(log2(Max(groups, 1)) + 1) * LSM_SKIP_ENTRIES;
	/* half of a group may lie between two matches, and the entries that show it */
	if (groups * 2 * LSM_SKIP_ENTRIES >= *tuples || looked_at >= *tuples)
		return 0;
	*tuples = looked_at;
	return groups;
}

/*
 * Leading columns bound by equality, and the ranges of the column after
 * them: as in btcostestimate(), but for columns whose codes are not ordered a
 * range limits nothing.  Quals come in the order of columns.
 */
static void
find_bound_quals(PlannerInfo *root, IndexPath *path, BoundQuals *bound)
{
	IndexOptInfo *info = path->indexinfo;
	int			column = 0;
	bool		equal = false;
	ListCell   *lc;
	ListCell   *lc2;

	memset(bound, 0, sizeof(*bound));
	bound->scans = 1;
	foreach(lc, path->indexclauses)
	{
		IndexClause *iclause = lfirst_node(IndexClause, lc);

		if (iclause->indexcol != column)
		{
			if (!equal || iclause->indexcol != column + 1)
			{
				find_gap(info, path, equal ? column + 1 : column, iclause->indexcol, bound);
				break;
			}
			column++;
			equal = false;
		}
		foreach(lc2, iclause->indexquals)
		{
			RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc2);
			double		elements;
			int			strategy = qual_strategy(root, info, column, rinfo->clause,
												 bound, &elements);

			if (IsA(rinfo->clause, NullTest) &&
				((NullTest *) rinfo->clause)->nulltesttype == IS_NULL)
			{
				bound->found_is_null = true;
				equal = true;
			}
			else if (strategy == BTEqualStrategyNumber)
			{
				equal = true;
				bound->scans *= elements;
			}
			else if (strategy != 0 && !range_limits_walk(info, column))
				continue;
			bound->quals = lappend(bound->quals, rinfo);
		}
		bound->equal_columns = equal ? column + 1 : column;
	}
}

/*
 * Correlation of the first column's order with the table's, from the column's
 * statistics; as in btcostestimate().
 */
static double
index_correlation(PlannerInfo *root, const IndexOptInfo *info)
{
	RangeTblEntry *rte = planner_rt_fetch(info->rel->relid, root);
	double		correlation = 0;
	HeapTuple	stats;
	AttStatsSlot slot;
	Oid			less;

	if (info->sortopfamily == NULL)
		return 0;
	if (info->indexkeys[0] != 0)
		stats = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(rte->relid),
								Int16GetDatum(info->indexkeys[0]),
								BoolGetDatum(rte->inh));
	else
		stats = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(info->indexoid),
								Int16GetDatum(1), BoolGetDatum(false));
	if (!HeapTupleIsValid(stats))
		return 0;

	less = get_opfamily_member(info->opfamily[0], info->opcintype[0],
							   info->opcintype[0], BTLessStrategyNumber);
	if (OidIsValid(less) &&
		get_attstatsslot(&slot, stats, STATISTIC_KIND_CORRELATION, less,
						 ATTSTATSSLOT_NUMBERS))
	{
		correlation = slot.numbers[0];
		if (info->reverse_sort[0])
			correlation = -correlation;
		if (info->nkeycolumns > 1)
			correlation *= 0.75;
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(stats);
	return correlation;
}

/*
 * What core does not know about fetching the rows that the index scan finds;
 * an index-only scan does not fetch those of all-visible blocks
 */
static Cost
fetch_cost(PlannerInfo *root, const IndexPath *path, Selectivity selectivity,
		   double correlation)
{
	const IndexOptInfo *info = path->indexinfo;
	double		fetched = path->path.pathtype == T_IndexOnlyScan ?
		1 - info->rel->allvisfrac : 1;
	RangeTblEntry *rte = planner_rt_fetch(info->rel->relid, root);
	Relation	table = table_open(rte->relid, NoLock);
	bool		ours = lsm_tids_are_stable(table);
	double		scattered = 1 - correlation * correlation;
	double		pages = info->rel->pages;

	table_close(table, NoLock);
	if (!ours || pages <= SMALL_TABLE_PAGES)
		return 0;
	return (1 - SMALL_TABLE_PAGES / pages) *
		fetched * selectivity * info->rel->tuples * cpu_operator_cost *
		(FETCH_OPERATORS + scattered * (SCATTERED_FETCH_OPERATORS - FETCH_OPERATORS));
}

/*
 * Levels above the last one in which a range of this many entries is looked
 * for.  A level has a tenth of the next one's entries, or less.  So of few
 * entries few levels have any, which filters tell that know the columns before
 * the range.
 */
static double
levels_beside_last(const IndexOptInfo *info, const BoundQuals *bound, double entries)
{
	double		others = height_levels(info) - 1;
	int			leading = height_leading(info);

	if (leading > 0 && bound->equal_columns >= leading)
		others *= Min(entries / LEVEL_RATIO, 1.0);
	return others;
}

/*
 * A scan sorts within groups of values, of the columns that are not fixed.  Of
 * two indexes about as good the one without is preferred.
 */
static bool
reads_groups(const IndexOptInfo *info, int equal_columns)
{
	for (int i = equal_columns; i < info->nkeycolumns; i++)
		if (info_column_order(info, i) == LSM_ORDER_GROUPS)
			return true;
	return false;
}

void
lsm_index_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count,
						Cost *startup_cost, Cost *total_cost,
						Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *info = path->indexinfo;
	BoundQuals	bound;
	GenericCosts costs = {0};
	Cost		seek;
	bool		one_row;
	double		groups = 0;

	path = lsm_path_of_whole_rows(root, path);
	find_bound_quals(root, path, &bound);
	one_row = info->unique && bound.equal_columns == info->nkeycolumns &&
		!bound.found_array && !bound.found_is_null;
	if (one_row)
		costs.numIndexTuples = 1;
	else
	{
		List	   *quals = add_predicate_to_index_quals(info, bound.quals);

		costs.numIndexTuples = rint(clauselist_selectivity(root, quals, info->rel->relid,
														   JOIN_INNER, NULL) *
									info->rel->tuples / bound.scans);
		groups = skipped_groups(root, info, &bound, &costs.numIndexTuples);
	}
	/* zero would make it forget about bounds */
	costs.numIndexTuples = Max(costs.numIndexTuples, 1);
	genericcostestimate(root, path, loop_count, &costs);

	/*
	 * A lookup by the whole key hashes it once; filters then spare it nearly
	 * all files that do not have it.  A range has to be looked for in each
	 * level, of which the last holds most entries; those above are likely in
	 * memory, or half of them.
	 */
	if (bound.equal_columns == info->nkeycolumns)
		seek = LOOKUP_OPERATORS * cpu_operator_cost;
	else
	{
		double		others = levels_beside_last(info, &bound, costs.numIndexTuples);

		seek = (others + 2) * SEEK_OPERATORS * cpu_operator_cost;
		costs.indexTotalCost += others * 0.5 * costs.spc_random_page_cost;
	}
	costs.indexStartupCost += seek;
	costs.indexTotalCost += costs.num_sa_scans * seek;
	if (costs.numIndexTuples > MANY_TUPLES && reads_groups(info, bound.equal_columns))
		costs.indexTotalCost += costs.numIndexTuples * cpu_operator_cost;
	if (groups > 0)
	{
		/* an index that bounds the walk is preferred to one about as good */
		costs.indexTotalCost *= 1.1;
		groups *= bound.scans;
		costs.indexTotalCost += groups * seek +
			Min(groups, info->pages) * costs.spc_random_page_cost;
	}

	*startup_cost = costs.indexStartupCost;
	*selectivity = costs.indexSelectivity;

	*correlation = index_correlation(root, info);
	*total_cost = costs.indexTotalCost +
		fetch_cost(root, path, *selectivity, *correlation);
	/*
	 * one row is on one page, though it be a large part of a table with more
	 * pages than rows
	 */
	if (one_row)
		*correlation = 0;
	*pages = costs.numIndexPages;
}
