/*-------------------------------------------------------------------------
 *
 * row_compare.c
 *	  Row comparisons, (a, b) > (x, y), as index ranges.
 *
 * PostgreSQL gives row comparisons to btree only.  So what follows from one is
 * added beside it before planning: lsmam_row_bound(a, x, operator), which means
 * a >= x or a <= x.  If x comes of a subquery, which would be planned twice, it
 * is added once the planner has made a parameter of that.  To the planner it is
 * a function (row_bound.c) whose support function says that it takes away no
 * row, for the row comparison stays: it is the filter, and estimates the rows.
 * For lsm indexes the support function makes the index condition a >= x of it.
 * The operator itself would be counted twice in every estimate.
 *
 * The function is not leakproof, so that it waits for quals of security
 * barriers: the operator may not be.  If all operators of the comparison are,
 * so that the planner lets it pass before such quals, it is
 * lsmam_row_bound_leakproof().  In the finished plan the conditions become those
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

/*
 * As contain_leaked_vars() takes it, but for the arguments' own functions.  The
 * operator that bounds may be none of the comparison's.
 */
static bool
is_leakproof(const RowCompareExpr *compare, Oid bound_op)
{
	ListCell   *lc;

	foreach(lc, compare->opnos)
		if (!get_func_leakproof(get_opcode(lfirst_oid(lc))))
			return false;
	return get_func_leakproof(get_opcode(bound_op));
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
	if (checkExprHasSubLink(left) || checkExprHasSubLink(right) ||
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

	leakproof = is_leakproof(compare, op);
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

/*
 * Likewise within the arms of ORs, each of which may be the scan of an index.
 * The condition on the first column is all that they get: which comparison it
 * comes from is not to be told in the finished plan, where it could be another
 * arm's.
 */
static bool
add_to_arms(Query *query, Node *quals)
{
	bool		added = false;
	ListCell   *lc;

	if (quals == NULL)
		return false;
	check_stack_depth();
	if (IsA(quals, List))
		foreach(lc, (List *) quals)
			added |= add_to_arms(query, lfirst(lc));
	else if (is_andclause(quals))
		added = add_to_arms(query, (Node *) ((BoolExpr *) quals)->args);
	else if (is_orclause(quals))
	{
		foreach(lc, ((BoolExpr *) quals)->args)
		{
			List	   *clauses = bound_clauses(query, lfirst(lc), NIL);

			added |= add_to_arms(query, lfirst(lc));
			if (clauses == NIL)
				continue;
			lfirst(lc) = makeBoolExpr(AND_EXPR, lcons(lfirst(lc), clauses), -1);
			added = true;
		}
	}
	return added;
}

static bool
add_to_quals(Query *query, Node **quals)
{
	List	   *clauses = bound_clauses(query, *quals, NIL);
	bool		added = add_to_arms(query, *quals);

	if (clauses == NIL)
		return added;
	*quals = (Node *) makeBoolExpr(AND_EXPR, lcons(*quals, clauses), -1);
	return true;
}

/* Is there a parameter of the executor's, as subqueries become? */
static bool
has_exec_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXEC;
	return expression_tree_walker(node, has_exec_param, context);
}

/* The same in the midst of planning: quals are lists, subqueries parameters. */
static bool
add_to_planned_quals(Query *query, Node **quals)
{
	List	   *list = (List *) *quals;
	List	   *clauses = NIL;
	ListCell   *lc;

	if (list == NIL || !IsA(list, List))
		return false;
	foreach(lc, list)
	{
		RowCompareExpr *compare = lfirst(lc);
		Node	   *clause;

		if (!IsA(compare, RowCompareExpr) ||
			!(has_exec_param(linitial(compare->largs), NULL) ||
			  has_exec_param(linitial(compare->rargs), NULL)) ||
			contain_subplans(linitial(compare->largs)) ||
			contain_subplans(linitial(compare->rargs)))
			continue;
		clause = bound_clause(query, compare);

		/* equal() does not look at where a clause stood */
		if (clause != NULL && !list_member(list, clause))
			clauses = lappend(clauses, clause);
	}
	*quals = (Node *) list_concat(list, clauses);
	return clauses != NIL;
}

typedef bool (*AddToQuals) (Query *query, Node **quals);

static bool
add_to_jointree(Query *query, Node *node, AddToQuals add)
{
	bool		added = false;
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;

		foreach(lc, from->fromlist)
			added |= add_to_jointree(query, lfirst(lc), add);
		added |= add(query, &from->quals);
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		added |= add_to_jointree(query, join->larg, add);
		added |= add_to_jointree(query, join->rarg, add);
		added |= add(query, &join->quals);
	}
	return added;
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
			*added |= add_to_jointree(query, (Node *) query->jointree, add_to_quals);
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

/*
 * When a table of the query becomes known to the planner: quals have not been
 * given to tables yet, but subqueries that are evaluated once are parameters,
 * which may stand in a clause twice.  True: lsm_row_compare_clean() has
 * something to do.
 */
bool
lsm_row_compare_plan_params(Query *query)
{
	return add_to_jointree(query, (Node *) query->jointree, add_to_planned_quals);
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
