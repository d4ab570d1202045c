/*-------------------------------------------------------------------------
 *
 * row_cost.c
 *	  Row comparisons, (a, b) > (x, y), in the estimates of index scans.
 *
 * The index condition that stands for a row comparison during planning is about
 * its first column alone: a >= x.  An index over (a, b) is asked all of it in
 * the end (executor/row_range.c), and walks from (x, y) on.  Where many rows
 * have the same a that is much less, so such an index is estimated with the
 * comparison itself, as core does for btree.  To an index that goes on with
 * other columns it is a >= x, to core, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/lsyscache.h"

#include "index/index.h"

/* The comparison's members on the index's side and on the other */
typedef struct Sides
{
	List	   *columns;
	List	   *bounds;
	bool		commuted;		/* the index is on the right */
} Sides;

/* Is it the comparison that the condition on its first column comes from? */
static bool
is_origin(const RowCompareExpr *compare, const OpExpr *condition, Sides *sides)
{
	Node	   *column = linitial(condition->args);
	Node	   *bound = lsecond(condition->args);
	int			strategy;

	sides->commuted = !equal(linitial(compare->largs), column) ||
		!equal(linitial(compare->rargs), bound);
	sides->columns = sides->commuted ? compare->rargs : compare->largs;
	sides->bounds = sides->commuted ? compare->largs : compare->rargs;
	if (sides->commuted &&
		(!equal(linitial(sides->columns), column) || !equal(linitial(sides->bounds), bound)))
		return false;

	/* both say that the column is less, or both that it is greater */
	strategy = get_op_opfamily_strategy(condition->opno, linitial_oid(compare->opfamilies));
	return strategy != 0 && (strategy <= BTLessEqualStrategyNumber) ==
		(((int) compare->lsm_row_cmptype <= BTLessEqualStrategyNumber) != sides->commuted);
}

/* Do the comparison's members bound the index's columns from `column` on? */
static bool
bounds_columns(PlannerInfo *root, const IndexOptInfo *info, const RowCompareExpr *compare,
			   const Sides *sides, int column)
{
	int			n = list_length(sides->columns);
	int			wanted = compare->lsm_row_cmptype;

	if (column + n > info->nkeycolumns)
		return false;
	if (sides->commuted)
		wanted = BTMaxStrategyNumber + 1 - wanted;
	for (int i = 0; i < n; i++)
	{
		Oid			op = list_nth_oid(compare->opnos, i);
		Oid			collation = info->indexcollations[column + i];
		Oid			left;
		Oid			right;

		if (sides->commuted)
			op = get_commutator(op);
		if (!OidIsValid(op))
			return false;
		op_input_types(op, &left, &right);
		/* the index is not asked about records within the row (row_range.c) */
		if (right == RECORDOID ||
			get_op_opfamily_strategy(op, info->opfamily[column + i]) != wanted ||
			!match_index_to_operand(list_nth(sides->columns, i), column + i,
									(IndexOptInfo *) info) ||
			(OidIsValid(collation) && collation != list_nth_oid(compare->inputcollids, i)) ||
			bms_is_member(info->rel->relid, pull_varnos(root, list_nth(sides->bounds, i))))
			return false;
	}
	return true;
}

/* The clause of the whole row among these, but those used before, or NULL. */
static RestrictInfo *
find_whole_row(PlannerInfo *root, const IndexOptInfo *info, List *clauses, const List *used,
			   const OpExpr *condition, int column)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		RowCompareExpr *compare = (RowCompareExpr *) rinfo->clause;
		Sides		sides;

		if (IsA(compare, RowCompareExpr) && !list_member_ptr(used, rinfo) && is_origin(compare, condition, &sides) &&
			bounds_columns(root, info, compare, &sides, column))
			return rinfo;
	}
	return NULL;
}

/* The same, for an index clause of the path; NULL if it is not one of ours. */
static RestrictInfo *
whole_row_of(PlannerInfo *root, const IndexPath *path, const List *used,
			 const IndexClause *iclause)
{
	const IndexOptInfo *info = path->indexinfo;
	OpExpr	   *condition;
	RestrictInfo *found;

	if (list_length(iclause->indexquals) != 1)
		return NULL;
	condition = (OpExpr *) linitial_node(RestrictInfo, iclause->indexquals)->clause;
	if (!IsA(condition, OpExpr) || !LSM_IS_ADDED(condition->location))
		return NULL;
	found = find_whole_row(root, info, info->rel->baserestrictinfo, used, condition, iclause->indexcol);
	if (found == NULL && path->path.param_info != NULL)
		found = find_whole_row(root, info, path->path.param_info->ppi_clauses, used,
							   condition, iclause->indexcol);
	return found;
}

/* See index.h. */
IndexPath *
lsm_path_of_whole_rows(PlannerInfo *root, IndexPath *path)
{
	List	   *clauses = NIL;
	List	   *used = NIL;
	IndexPath  *result;
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		IndexClause *iclause = lfirst_node(IndexClause, lc);
		RestrictInfo *row = whole_row_of(root, path, used, iclause);

		if (row != NULL)
		{
			IndexClause *whole = makeNode(IndexClause);

			*whole = *iclause;
			whole->indexquals = list_make1(row);
			iclause = whole;
			used = lappend(used, row);
		}
		clauses = lappend(clauses, iclause);
	}
	if (used == NIL)
		return path;
	result = makeNode(IndexPath);
	*result = *path;
	result->indexclauses = clauses;
	return result;
}
