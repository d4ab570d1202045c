/*-------------------------------------------------------------------------
 *
 * row_compare.c
 *	  Row comparisons, (a, b) > (x, y), as index ranges.
 *
 * PostgreSQL gives row comparisons to btree only.  So what follows from one is
 * added beside it: lsmam_row_bound(a, x, operator), which means a >= x or a <= x.
 * That is done before planning, for subqueries that stay what they are, and once
 * more when the planner has pulled up what it can and made parameters of
 * subqueries that are evaluated once, as x may be.  To the planner it is
 * a function (row_bound.c) whose support function says that it takes away no
 * row, for the row comparison stays: it is the filter, and estimates the rows.
 * For lsm indexes the support function makes the index condition a >= x of it.
 * The operator itself would be counted twice in every estimate.
 *
 * The function is not leakproof, so that it waits for quals of security
 * barriers: the operator may not be.  If nothing of the comparison leaks, so that
 * the planner lets it pass before such quals, it is lsmam_row_bound_leakproof().
 * For the whole comparison takes the bound's place, its other members' functions,
 * too.  In the finished plan the conditions become those
 * of whole rows where the index has more of its columns (row_range.c), and what
 * is left of the clauses is taken out, since the row comparison says more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "executor/hooks.h"
#include "index/index.h"

/* ======================================================================
 * Adding the clauses
 * ====================================================================== */

/* The function beside the handler of the access method, if that is ours. */
static Oid
bound_function(Oid access_method, bool leakproof)
{
	Oid			types[] = {ANYOID, ANYOID, OIDOID};
	const char *wanted;
	HeapTuple	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(access_method));
	Oid			handler;
	char	   *name;
	Oid			function;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler;
	ReleaseSysCache(tuple);
	name = get_func_name(handler);
	if (name == NULL)
		return InvalidOid;
	if (strcmp(name, "lsmam_index_handler") == 0)
		wanted = leakproof ? "lsmam_row_bound_leakproof" : "lsmam_row_bound";
	else if (strcmp(name, "lsm_index_handler") == 0)	/* version 1.0 */
		wanted = leakproof ? "lsm_row_bound_leakproof" : "lsm_row_bound";
	else
		return InvalidOid;
	function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							   CStringGetDatum(wanted),
							   PointerGetDatum(buildoidvector(types, lengthof(types))),
							   ObjectIdGetDatum(get_func_namespace(handler)));
	if (!OidIsValid(function) || !OidIsValid(get_func_support(function)))
		return InvalidOid;
	return function;
}

/*
 * The function, if an lsm index of the table has the column in its key;
 * `column` 0: an expression.
 */
static Oid
function_for_column(Oid relid, AttrNumber column, bool leakproof)
{
	Relation	table = table_open(relid, NoLock);
	Oid			function = InvalidOid;
	List	   *indexes = RelationGetIndexList(table);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		for (int i = 0; i < form->indnkeyatts && !OidIsValid(function); i++)
			if (form->indkey.values[i] == column)
				function = bound_function(index->rd_rel->relam, leakproof);
		index_close(index, AccessShareLock);
		if (OidIsValid(function))
			break;
	}
	list_free(indexes);
	table_close(table, NoLock);
	return function;
}

/*
 * Of a table that others inherit from, which may have indexes where
 * it has none.  They are locked as planning will lock them.
 */
static Oid
function_for_tree(const RangeTblEntry *rte, AttrNumber column, bool leakproof)
{
	Oid			function = function_for_column(rte->relid, column, leakproof);
	const char *name;
	List	   *tables;
	ListCell   *lc;

	if (OidIsValid(function) || !rte->inh || rte->relkind != RELKIND_RELATION ||
		!has_subclass(rte->relid))
		return function;
	name = column != 0 ? get_attname(rte->relid, column, false) : NULL;
	tables = find_all_inheritors(rte->relid, rte->rellockmode, NULL);
	foreach(lc, tables)
	{
		Oid			relid = lfirst_oid(lc);

		CHECK_FOR_INTERRUPTS();
		if (OidIsValid(function) || relid == rte->relid ||
			get_rel_relkind(relid) != RELKIND_RELATION)
			continue;
		function = function_for_column(relid, name != NULL ? get_attnum(relid, name) : 0,
									   leakproof);
	}
	list_free(tables);
	return function;
}

static Node *
strip_labels(Node *node)
{
	for (;;)
	{
		if (node != NULL && IsA(node, RelabelType))
			node = (Node *) ((RelabelType *) node)->arg;
		else if (node != NULL && IsA(node, CollateExpr))
			node = (Node *) ((CollateExpr *) node)->arg;
		else
			return node;
	}
}

/*
 * Of an expression: the column may be a view's or a join's, and an
 * index may be on an expression.
 */
static Oid
function_for_expression(Query *query, Node *node, bool leakproof)
{
	bool		is_column = true;

	for (;;)
	{
		Var		   *var;
		RangeTblEntry *rte;
		TargetEntry *target;

		node = strip_labels(node);
		if (node != NULL && !IsA(node, Var))
		{
			List	   *vars = pull_vars_of_level(node, 0);

			is_column = false;
			node = vars == NIL ? NULL : linitial(vars);
		}
		var = (Var *) node;
		if (var == NULL || !IsA(var, Var) || var->varlevelsup != 0 || var->varattno <= 0)
			return InvalidOid;
		rte = rt_fetch(var->varno, query->rtable);
		if (rte->rtekind == RTE_RELATION)
		{
			if (rte->relkind != RELKIND_RELATION &&
				rte->relkind != RELKIND_MATVIEW &&
				rte->relkind != RELKIND_PARTITIONED_TABLE)
				return InvalidOid;
			return function_for_tree(rte, is_column ? var->varattno : 0, leakproof);
		}
		if (rte->rtekind == RTE_JOIN)
			node = list_nth(rte->joinaliasvars, var->varattno - 1);
		else if (rte->rtekind == RTE_SUBQUERY)
		{
			query = rte->subquery;
			target = get_tle_by_resno(query->targetList, var->varattno);
			if (target == NULL)
				return InvalidOid;
			node = (Node *) target->expr;
		}
		else
			return InvalidOid;
	}
}

/* What is to be added for the clause, or NULL. */
static Node *
bound_clause(Query *query, RowCompareExpr *compare)
{
	Node	   *left = linitial(compare->largs);
	Node	   *right = linitial(compare->rargs);
	Oid			family = linitial_oid(compare->opfamilies);
	int			strategy;
	Oid			left_type;
	Oid			right_type;
	Oid			op;
	bool		leakproof;
	Oid			function;
	FuncExpr   *clause;

	if (compare->lsm_row_cmptype == COMPARE_NE || compare->lsm_row_cmptype == COMPARE_EQ)
		return NULL;
	if (contain_subplans(left) || contain_subplans(right) ||
		contain_volatile_functions(left) || contain_volatile_functions(right))
		return NULL;
	get_op_opfamily_properties(linitial_oid(compare->opnos), family, false,
							   &strategy, &left_type, &right_type);
	op = get_opfamily_member(family, left_type, right_type,
							 strategy <= BTLessEqualStrategyNumber ?
							 BTLessEqualStrategyNumber :
							 BTGreaterEqualStrategyNumber);
	if (!OidIsValid(op))
		return NULL;

	/* the operator that bounds may be none of the comparison's */
	leakproof = !contain_leaked_vars((Node *) compare) && get_func_leakproof(get_opcode(op));
	function = function_for_expression(query, left, leakproof);
	if (!OidIsValid(function))
		function = function_for_expression(query, right, leakproof);
	if (!OidIsValid(function))
		return NULL;
	clause = makeFuncExpr(function, BOOLOID,
						  list_make3(copyObject(left), copyObject(right),
									 makeConst(OIDOID, -1, InvalidOid, sizeof(Oid),
											   ObjectIdGetDatum(op), false, true)),
						  InvalidOid, linitial_oid(compare->inputcollids),
						  COERCE_EXPLICIT_CALL);
	clause->location = LSM_ADDED_LOCATION;
	return (Node *) clause;
}

/* Clauses for the row comparisons at AND level. */
static List *
bound_clauses(Query *query, Node *quals, List *clauses)
{
	ListCell   *lc;

	if (quals == NULL)
		return clauses;
	check_stack_depth();
	if (IsA(quals, List))
		foreach(lc, (List *) quals)
			clauses = bound_clauses(query, lfirst(lc), clauses);
	else if (is_andclause(quals))
		clauses = bound_clauses(query, (Node *) ((BoolExpr *) quals)->args, clauses);
	else if (IsA(quals, RowCompareExpr))
	{
		Node	   *clause = bound_clause(query, (RowCompareExpr *) quals);

		if (clause != NULL)
			clauses = lappend(clauses, clause);
	}
	return clauses;
}

/* The quals with what their row comparisons say and they do not say yet */
static Node *
with_bounds(Query *query, Node *quals, bool *added)
{
	List	   *clauses = bound_clauses(query, quals, NIL);
	List	   *present;

	if (clauses == NIL)
		return quals;
	/* no AND within an AND: the planner may have made them flat */
	present = IsA(quals, List) ? (List *) quals :
		is_andclause(quals) ? ((BoolExpr *) quals)->args : list_make1(quals);
	/* equal() does not look at where a clause stood */
	clauses = list_difference(clauses, present);
	if (clauses == NIL)
		return quals;
	*added = true;
	clauses = list_concat(list_copy(present), clauses);
	return IsA(quals, List) ? (Node *) clauses : (Node *) makeBoolExpr(AND_EXPR, clauses, -1);
}

/*
 * Likewise within the arms of ORs, each of which may be the scan of an index.
 * The condition on the first column is all that they get: which comparison it
 * comes from is not to be told in the finished plan, where it could be another
 * arm's.
 */
static void
add_to_arms(Query *query, Node *quals, bool *added)
{
	ListCell   *lc;

	if (quals == NULL)
		return;
	check_stack_depth();
	if (IsA(quals, List))
		foreach(lc, (List *) quals)
			add_to_arms(query, lfirst(lc), added);
	else if (is_andclause(quals))
		add_to_arms(query, (Node *) ((BoolExpr *) quals)->args, added);
	else if (is_orclause(quals))
	{
		foreach(lc, ((BoolExpr *) quals)->args)
		{
			add_to_arms(query, lfirst(lc), added);
			lfirst(lc) = with_bounds(query, lfirst(lc), added);
		}
	}
}

static void
add_to_quals(Query *query, Node **quals, bool *added)
{
	add_to_arms(query, *quals, added);
	*quals = with_bounds(query, *quals, added);
}

static void
add_to_jointree(Query *query, Node *node, bool *added)
{
	ListCell   *lc;

	if (node == NULL)
		return;
	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;

		foreach(lc, from->fromlist)
			add_to_jointree(query, lfirst(lc), added);
		add_to_quals(query, &from->quals, added);
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		add_to_jointree(query, join->larg, added);
		add_to_jointree(query, join->rarg, added);
		add_to_quals(query, &join->quals, added);
	}
}

static bool
add_walker(Node *node, bool *added)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		if (query->commandType != CMD_UTILITY)
			add_to_jointree(query, (Node *) query->jointree, added);
		return query_tree_walker(query, add_walker, added, 0);
	}
	return expression_tree_walker(node, add_walker, added);
}

static bool
has_row_compare(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RowCompareExpr))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_row_compare, context, 0);
	return expression_tree_walker(node, has_row_compare, context);
}

/* Before planning; true: lsm_row_compare_clean() has something to do. */
bool
lsm_row_compare_plan(Query *query)
{
	bool		added = false;

	if (has_row_compare((Node *) query, NULL))
		(void) add_walker((Node *) query, &added);
	return added;
}

/* Is this the first table of the query that the planner gets to know? */
static bool
is_first_table(PlannerInfo *root, const RelOptInfo *rel)
{
	if (rel->reloptkind != RELOPT_BASEREL)
		return false;
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		const RelOptInfo *other = root->simple_rel_array[i];

		if (other != NULL && other != rel && other->reloptkind == RELOPT_BASEREL &&
			other->rtekind == RTE_RELATION)
			return false;
	}
	return true;
}

/*
 * When a table of the query becomes known to the planner.  What was not there
 * before planning is there now: WITH queries and functions that have become
 * subqueries and were pulled up, and parameters in place of subqueries that are
 * evaluated once, which may stand in a clause twice.  Quals have not been given to
 * tables yet.  True: lsm_row_compare_clean() has something to do.
 */
bool
lsm_row_compare_plan_table(PlannerInfo *root, const RelOptInfo *rel)
{
	bool		added = false;

	if (is_first_table(root, rel))
		add_to_jointree(root->parse, (Node *) root->parse->jointree, &added);
	return added;
}

/* ======================================================================
 * Taking them out of the plan
 * ====================================================================== */

static inline bool
is_bound_clause(Node *node)
{
	return IsA(node, FuncExpr) && ((FuncExpr *) node)->location == LSM_ADDED_LOCATION;
}

static List *without_bounds(List *quals);

/*
 * The clause without them; NULL: nothing is left, which is true.  An OR with
 * such an arm, which recheck conditions may have, is true as well.
 */
static Node *
without_bound(Node *clause)
{
	List	   *args = NIL;
	ListCell   *lc;

	check_stack_depth();
	if (is_bound_clause(clause))
		return NULL;
	if (is_andclause(clause))
	{
		args = without_bounds(((BoolExpr *) clause)->args);
		return args == NIL ? NULL : (Node *) make_ands_explicit(args);
	}
	if (!is_orclause(clause))
		return clause;
	foreach(lc, ((BoolExpr *) clause)->args)
	{
		Node	   *arm = without_bound(lfirst(lc));

		if (arm == NULL)
			return NULL;
		args = lappend(args, arm);
	}
	return (Node *) makeBoolExpr(OR_EXPR, args, ((BoolExpr *) clause)->location);
}

static List *
without_bounds(List *quals)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, quals)
	{
		Node	   *clause = without_bound(lfirst(lc));

		if (clause != NULL)
			result = lappend(result, clause);
	}
	return result;
}

static void
clean_node(Plan *plan, void *context)
{
	plan->qual = without_bounds(plan->qual);
	lsm_row_range_tighten(plan);
	switch (nodeTag(plan))
	{
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			((Join *) plan)->joinqual = without_bounds(((Join *) plan)->joinqual);
			break;
		case T_BitmapHeapScan:
			((BitmapHeapScan *) plan)->bitmapqualorig =
				without_bounds(((BitmapHeapScan *) plan)->bitmapqualorig);
			break;
		case T_Result:
			((Result *) plan)->resconstantqual = (Node *)
				without_bounds((List *) ((Result *) plan)->resconstantqual);
			break;
		default:
			break;
	}
}

void
lsm_row_compare_clean(PlannedStmt *plan)
{
	lsm_plan_visit(plan, clean_node, NULL);
}
