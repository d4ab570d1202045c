/*-------------------------------------------------------------------------
 *
 * row_range.c
 *	  Index conditions of whole rows, in the finished plan.
 *
 * Before planning, row_compare.c has added what (a, b) > (x, y) says about its
 * first column, and the planner has made the index condition a >= x of it.  On
 * an index over (a, b) the comparison says more: the entries from (x, y) on.
 * ExecIndexBuildScanKeys takes row comparisons for btree only.  But it hands
 * the array of a >= ANY (array) to every index that takes arrays, as it is.  So
 * the condition becomes a > ANY (ARRAY[ROW(x, y)]), whose array of records no
 * query could have there, and index/scankeys.c makes the bound of
 * it.
 *
 * What the executor evaluates, and EXPLAIN shows, becomes the row comparison
 * itself, as with btree: a bound never takes away a row for which it is true,
 * and entries within it may have nulls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "executor/hooks.h"
#include "index/index.h"

/* A scan of one index, as far as it matters here */
typedef struct IndexConditions
{
	Relation	index;
	Index		table;			/* its number in the range table */
	bool		index_only;		/* expressions are about the index's columns */
	List	   *expressions;	/* of the index, about `table` */
} IndexConditions;

static Node *
strip_relabel(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/* The comparison with its sides changed; NULL: an operator has no commutator. */
static RowCompareExpr *
commute_compare(const RowCompareExpr *compare)
{
	RowCompareExpr *result = makeNode(RowCompareExpr);
	ListCell   *lc;

	*result = *compare;
	result->opnos = NIL;
	foreach(lc, compare->opnos)
	{
		Oid			op = get_commutator(lfirst_oid(lc));

		if (!OidIsValid(op))
			return NULL;
		result->opnos = lappend_oid(result->opnos, op);
	}
	result->lsm_row_cmptype = (BTMaxStrategyNumber + 1) - compare->lsm_row_cmptype;
	result->largs = compare->rargs;
	result->rargs = compare->largs;
	return result;
}

/* Do both say that the column is less, or both that it is greater? */
static bool
same_direction(const RowCompareExpr *compare, const OpExpr *bound)
{
	int			strategy = get_op_opfamily_strategy(bound->opno, linitial_oid(compare->opfamilies));

	return strategy != 0 && (strategy <= BTLessEqualStrategyNumber) ==
		((int) compare->lsm_row_cmptype <= BTLessEqualStrategyNumber);
}

/*
 * The comparison with the column of the condition on its left, if that may come
 * from it; else NULL.
 */
static RowCompareExpr *
match_compare(RowCompareExpr *compare, const OpExpr *bound)
{
	if (equal(linitial(compare->rargs), linitial(bound->args)) &&
		equal(linitial(compare->largs), lsecond(bound->args)))
		compare = commute_compare(compare);
	if (compare != NULL &&
		equal(linitial(compare->largs), linitial(bound->args)) &&
		equal(linitial(compare->rargs), lsecond(bound->args)) &&
		same_direction(compare, bound))
		return compare;
	return NULL;
}

/* Is it the index's key column, counted from 0? */
static bool
is_index_column(const IndexConditions *conditions, Node *node, int column)
{
	AttrNumber	attno = conditions->index->rd_index->indkey.values[column];
	int			nexpressions = 0;
	Var		   *var;

	node = strip_relabel(node);
	var = (Var *) node;
	if (conditions->index_only)
		return IsA(var, Var) && var->varno == INDEX_VAR && var->varattno == column + 1;
	if (attno != 0)
		return IsA(var, Var) && var->varno == conditions->table && var->varattno == attno;
	for (int i = 0; i < column; i++)
		nexpressions += conditions->index->rd_index->indkey.values[i] == 0;
	return equal(node, strip_relabel(list_nth(conditions->expressions, nexpressions)));
}

bool
lsm_type_is_taken(Oid declared, Oid type)
{
	switch (declared)
	{
		case ANYENUMOID:
			return type_is_enum(type);
		case ANYARRAYOID:
			return OidIsValid(get_element_type(type));
		case ANYRANGEOID:
			return type_is_range(type);
		case ANYMULTIRANGEOID:
			return type_is_multirange(type);
		case RECORDOID:
			return type == RECORDOID || type_is_rowtype(type);
		default:
			return declared == type;
	}
}

/* Does the comparison's member, counted from 0, bound the column? */
static bool
member_bounds_column(const IndexConditions *conditions, const RowCompareExpr *compare,
					 int member, int column)
{
	Relation	index = conditions->index;
	Node	   *right = list_nth(compare->rargs, member);
	Oid			op = list_nth_oid(compare->opnos, member);
	Oid			collation = index->rd_indcollation[column];
	Oid			left_type;
	Oid			right_type;
	int			strategy;

	if (!is_index_column(conditions, list_nth(compare->largs, member), column) ||
		!op_in_opfamily(op, index->rd_opfamily[column]))
		return false;
	get_op_opfamily_properties(op, index->rd_opfamily[column], false,
							   &strategy, &left_type, &right_type);
	/* a record in the array that stands for the row would be taken for it */
	if (strategy != (int) compare->lsm_row_cmptype || right_type == RECORDOID ||
		!lsm_type_is_taken(right_type, exprType(right)))
		return false;
	if (OidIsValid(collation) && collation != list_nth_oid(compare->inputcollids, member))
		return false;
	return !contain_var_clause(right) && !contain_volatile_functions(right);
}

/* The leading members that bound the index's columns from `column` on */
static int
count_members(const IndexConditions *conditions, const RowCompareExpr *compare, int column)
{
	int			nkeys = conditions->index->rd_index->indnkeyatts;
	int			n = 0;

	while (n < list_length(compare->largs) && column + n < nkeys &&
		   member_bounds_column(conditions, compare, n, column + n))
		n++;
	return n;
}

/*
 * What the first `n` members of the comparison say by themselves: ties are
 * decided by the others.  NULL: an operator family has no such operator.
 */
static RowCompareExpr *
truncate_compare(const RowCompareExpr *compare, int n)
{
	RowCompareExpr *result = makeNode(RowCompareExpr);

	*result = *compare;
	result->lsm_row_cmptype = compare->lsm_row_cmptype <= COMPARE_LE ? COMPARE_LE : COMPARE_GE;
	result->opnos = NIL;
	for (int i = 0; i < n; i++)
	{
		Oid			family = list_nth_oid(compare->opfamilies, i);
		int			strategy;
		Oid			left_type;
		Oid			right_type;
		Oid			op;

		get_op_opfamily_properties(list_nth_oid(compare->opnos, i), family, false,
								   &strategy, &left_type, &right_type);
		op = get_opfamily_member(family, left_type, right_type, result->lsm_row_cmptype);
		if (!OidIsValid(op))
			return NULL;
		result->opnos = lappend_oid(result->opnos, op);
	}
	result->opfamilies = list_truncate(list_copy(compare->opfamilies), n);
	result->inputcollids = list_truncate(list_copy(compare->inputcollids), n);
	result->largs = list_truncate(list_copy(compare->largs), n);
	result->rargs = list_truncate(list_copy(compare->rargs), n);
	return result;
}

/* column <operator> ANY (ARRAY[ROW(...)]), the array of records */
static Node *
range_condition(const RowCompareExpr *compare, Node *column)
{
	ScalarArrayOpExpr *condition = makeNode(ScalarArrayOpExpr);
	ArrayExpr  *array = makeNode(ArrayExpr);
	RowExpr    *row = makeNode(RowExpr);

	row->args = copyObject(compare->rargs);
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_EXPLICIT_CALL;
	for (int i = 1; i <= list_length(row->args); i++)
		row->colnames = lappend(row->colnames, makeString(psprintf("f%d", i)));
	row->location = -1;

	array->array_typeid = RECORDARRAYOID;
	array->element_typeid = RECORDOID;
	array->elements = list_make1(row);
	array->location = -1;

	condition->opno = linitial_oid(compare->opnos);
	condition->opfuncid = get_opcode(condition->opno);
	condition->useOr = true;
	condition->inputcollid = linitial_oid(compare->inputcollids);
	condition->args = list_make2(column, array);
	condition->location = LSM_ADDED_LOCATION;
	return (Node *) condition;
}

/*
 * The comparison among the quals that takes the place of the condition on its
 * first column, and how many members bound the index's columns; NULL: there is
 * none.  `*qual` is what it is in the list.
 *
 * A comparison that leaks was not to be evaluated before quals of security
 * barriers.  If the condition was, it comes from one that does not leak.  Else
 * it comes from the first one that fits: quals are in the order of their levels.
 */
static RowCompareExpr *
find_compare(const IndexConditions *conditions, List *quals, const List *used,
			 const OpExpr *bound, int column, bool may_leak, Node **qual, int *n)
{
	ListCell   *lc;

	foreach(lc, quals)
	{
		RowCompareExpr *compare;

		*qual = lfirst(lc);
		if (!IsA(*qual, RowCompareExpr) || list_member_ptr(used, *qual))
			continue;
		compare = match_compare((RowCompareExpr *) *qual, bound);
		if (compare == NULL || (!may_leak && contain_leaked_vars(*qual)))
			continue;
		*n = count_members(conditions, compare, column);
		if (*n >= 2)
			return compare;
		may_leak = false;
	}
	return NULL;
}

/*
 * One condition of an index scan: `asked` is what the index gets, `evaluated`
 * the same for the executor.  `quals`: of the scan of the table, `used` those
 * among them that conditions were made of.  Returns the qual that the condition
 * says all of now, or NULL.
 */
static Node *
tighten_condition(const IndexConditions *conditions, ListCell *asked,
				  ListCell *evaluated, List *quals, List **used)
{
	OpExpr	   *bound = lfirst(asked);
	Node	   *qual;
	Var		   *column;
	RowCompareExpr *compare;
	int			n;

	if (!IsA(bound, OpExpr) || !LSM_IS_ADDED(bound->location))
		return NULL;
	column = (Var *) strip_relabel(linitial(bound->args));
	if (!IsA(column, Var) || column->varno != INDEX_VAR)
		return NULL;
	compare = find_compare(conditions, quals, *used, lfirst(evaluated), column->varattno - 1,
						   bound->location != LSM_ADDED_LEAKPROOF_LOCATION, &qual, &n);
	if (compare == NULL)
		return NULL;
	*used = lappend(*used, qual);
	if (n < list_length(compare->largs))
	{
		qual = NULL;
		compare = truncate_compare(compare, n);
		if (compare == NULL)
			return NULL;
	}
	lfirst(asked) = range_condition(compare, linitial(bound->args));
	lfirst(evaluated) = compare;
	return qual;
}

/* All conditions of an index scan.  Returns the quals less what they say. */
static List *
tighten_conditions(Oid index, Index table, bool index_only, List *asked,
				   List *evaluated, List *quals)
{
	IndexConditions conditions;
	List	   *used = NIL;
	ListCell   *a;
	ListCell   *e;

	Assert(list_length(asked) == list_length(evaluated));
	conditions.index = index_open(index, AccessShareLock);
	conditions.table = table;
	conditions.index_only = index_only;
	conditions.expressions = copyObject(RelationGetIndexExpressions(conditions.index));
	ChangeVarNodes((Node *) conditions.expressions, 1, table, 0);
	forboth(a, asked, e, evaluated)
	{
		Node	   *qual = tighten_condition(&conditions, a, e, quals, &used);

		if (qual != NULL)
			quals = list_delete_ptr(quals, qual);
	}
	index_close(conditions.index, AccessShareLock);
	return quals;
}

static bool
has_added_condition(List *asked)
{
	ListCell   *lc;

	foreach(lc, asked)
	{
		OpExpr	   *bound = lfirst(lc);

		if (IsA(bound, OpExpr) && LSM_IS_ADDED(bound->location))
			return true;
	}
	return false;
}

/*
 * The index scans below a BitmapHeapScan.  What they say is evaluated by the
 * heap scan, whose recheck condition has the conditions of each index that all
 * rows come from.
 */
static void
tighten_bitmap(BitmapHeapScan *heap, Plan *plan)
{
	ListCell   *lc;

	if (IsA(plan, BitmapAnd))
		foreach(lc, ((BitmapAnd *) plan)->bitmapplans)
			tighten_bitmap(heap, lfirst(lc));
	else if (IsA(plan, BitmapIndexScan))
	{
		BitmapIndexScan *scan = (BitmapIndexScan *) plan;
		List	   *before = list_copy(scan->indexqualorig);
		List	   *quals;
		ListCell   *b;
		ListCell   *e;

		if (!has_added_condition(scan->indexqual))
			return;
		quals = tighten_conditions(scan->indexid, scan->scan.scanrelid, false,
								   scan->indexqual, scan->indexqualorig,
								   list_copy(heap->scan.plan.qual));
		forboth(b, before, e, scan->indexqualorig)
		{
			if (lfirst(b) == lfirst(e))
				continue;
			foreach(lc, heap->bitmapqualorig)
				if (equal(lfirst(lc), lfirst(b)))
					break;
			if (lc == NULL)
				return;			/* the heap scan goes on filtering */
			lfirst(lc) = lfirst(e);
		}
		heap->scan.plan.qual = quals;
	}
}

void
lsm_row_range_tighten(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_IndexScan:
			{
				IndexScan  *scan = (IndexScan *) plan;

				if (has_added_condition(scan->indexqual))
					plan->qual = tighten_conditions(scan->indexid, scan->scan.scanrelid,
													false, scan->indexqual,
													scan->indexqualorig, plan->qual);
				break;
			}
		case T_IndexOnlyScan:
			{
				IndexOnlyScan *scan = (IndexOnlyScan *) plan;

				if (has_added_condition(scan->indexqual))
					plan->qual = tighten_conditions(scan->indexid, scan->scan.scanrelid,
													true, scan->indexqual,
													scan->recheckqual, plan->qual);
				break;
			}
		case T_BitmapHeapScan:
			tighten_bitmap((BitmapHeapScan *) plan, plan->lefttree);
			break;
		default:
			break;
	}
}

/* ======================================================================
 * EXPLAIN
 * ====================================================================== */

static inline bool
is_range_condition(ScalarArrayOpExpr *condition)
{
	return IsA(condition, ScalarArrayOpExpr) && condition->location == LSM_ADDED_LOCATION;
}

static void
look_for_range(Plan *plan, void *context)
{
	bool	   *found = context;
	ListCell   *lc;

	if (IsA(plan, IndexOnlyScan))
		foreach(lc, ((IndexOnlyScan *) plan)->indexqual)
			*found |= is_range_condition(lfirst(lc));
}

bool
lsm_row_range_is_hidden(PlannedStmt *plan)
{
	bool		found = false;

	lsm_plan_visit(plan, look_for_range, &found);
	return found;
}

static void
show_range(Plan *plan, void *context)
{
	IndexOnlyScan *scan = (IndexOnlyScan *) plan;
	ListCell   *asked;
	ListCell   *evaluated;

	if (!IsA(plan, IndexOnlyScan))
		return;
	forboth(asked, scan->indexqual, evaluated, scan->recheckqual)
		if (is_range_condition(lfirst(asked)))
			lfirst(asked) = lfirst(evaluated);
}

void
lsm_row_range_show(PlannedStmt *plan)
{
	lsm_plan_visit(plan, show_range, NULL);
}
