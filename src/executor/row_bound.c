/*-------------------------------------------------------------------------
 *
 * row_bound.c
 *	  The functions that row_compare.c adds to row comparisons, and what the
 *	  planner makes of them.
 *
 *	- lsmam_row_bound(a, x, operator) is a >= x or a <= x.
 *	- lsmam_row_bound_leakproof() is the same for leakproof operators.
 *	- lsmam_row_bound_support() makes the index condition of either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "executor/hooks.h"
#include "index/index.h"

PG_FUNCTION_INFO_V1(lsm_row_bound);
PG_FUNCTION_INFO_V1(lsm_row_bound_leakproof);
PG_FUNCTION_INFO_V1(lsm_row_bound_support);

/* ======================================================================
 * The function
 * ====================================================================== */

/*
 * Are these the types of what the operator takes?  Two records may be of
 * different types, of which their comparison makes an error if need be.
 */
static bool
operator_takes(Oid op, Oid column, Oid bound)
{
	Oid			left;
	Oid			right;

	op_input_types(op, &left, &right);
	return lsm_type_is_taken(left, column) && lsm_type_is_taken(right, bound) &&
		(left == column || left != right || left == RECORDOID || column == bound);
}

/* Of a call: the operator it has checked */
typedef struct BoundCall
{
	Oid			op;
	bool		refused;		/* the answer is NULL */
	FmgrInfo	function;
} BoundCall;

/* Is it a >= or <= of btree's? */
static bool
operator_bounds(Oid op)
{
	List	   *meanings = get_op_index_interpretation(op);
	ListCell   *lc;

	foreach(lc, meanings)
	{
		CompareType type = ((OpIndexInterpretation *) lfirst(lc))->lsm_op_cmptype;

		if (type == COMPARE_LE || type == COMPARE_GE)
			return true;
	}
	return false;
}

/* Is it one that a row comparison of these types could name? */
static bool
operator_fits(Oid op, Oid column, Oid bound)
{
	return RegProcedureIsValid(get_opcode(op)) && operator_bounds(op) &&
		operator_takes(op, column, bound);
}

static void
report_unfit(Oid op)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("operator %s does not bound values of these types", format_operator(op))));
}

static bool
may_execute(RegProcedure code)
{
	return object_aclcheck(ProcedureRelationId, code, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}

static void
require_execute(RegProcedure code)
{
	if (!may_execute(code))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(code));
}

/* `refused`: the operator may not exist. */
static BoundCall *
remember_call(FunctionCallInfo fcinfo, Oid op, bool refused)
{
	BoundCall  *call = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(BoundCall));

	call->op = op;
	call->refused = refused;
	if (!refused)
	{
		fmgr_info_cxt(get_opcode(op), &call->function, fcinfo->flinfo->fn_mcxt);
		fmgr_info_set_expr(fcinfo->flinfo->fn_expr, &call->function);
	}
	fcinfo->flinfo->fn_extra = call;
	return call;
}

/*
 * Anybody may call it, with any operator: so it is one that a row comparison
 * could name, and that the caller could call himself.
 */
static BoundCall *
prepare_call(FunctionCallInfo fcinfo, Oid op)
{
	BoundCall  *call = fcinfo->flinfo->fn_extra;

	if (call != NULL && call->op == op)
		return call;
	if (!operator_fits(op, get_fn_expr_argtype(fcinfo->flinfo, 0),
					   get_fn_expr_argtype(fcinfo->flinfo, 1)))
		report_unfit(op);
	require_execute(get_opcode(op));
	return remember_call(fcinfo, op, false);
}

/* The operator says NULL where FunctionCall2Coll() would make an error. */
static Datum
compare_with(FunctionCallInfo fcinfo, BoundCall *call)
{
	LOCAL_FCINFO(compare, 2);
	Datum		result;

	InitFunctionCallInfoData(*compare, &call->function, 2, PG_GET_COLLATION(), NULL, NULL);
	compare->args[0] = fcinfo->args[0];
	compare->args[1] = fcinfo->args[1];
	result = FunctionCallInvoke(compare);
	if (compare->isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

Datum
lsm_row_bound(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	return compare_with(fcinfo, prepare_call(fcinfo, PG_GETARG_OID(2)));
}

/* ======================================================================
 * The leakproof function
 *
 * It runs before quals of security barriers, behind others that run before
 * them.  An error while rows are read would tell that there is a row that has
 * come so far, whatever its text.  So errors are made in planning only, when
 * no row is known, and a call that planning has not refused and that will not
 * do is NULL.
 * ====================================================================== */

/* ERROR if the call will not do whatever the rows are. */
static void
check_leakproof_call(List *args)
{
	Const	   *constant = (Const *) lthird(args);
	Oid			op;
	RegProcedure code;

	if (!IsA(constant, Const))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("third argument of lsmam_row_bound_leakproof() must be a constant")));
	if (constant->constisnull)
		return;
	op = DatumGetObjectId(constant->constvalue);
	code = get_opcode(op);
	if (RegProcedureIsValid(code) && !get_func_leakproof(code))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("operator %s is not leakproof", format_operator(op))));
	if (!operator_fits(op, exprType(linitial(args)), exprType(lsecond(args))))
		report_unfit(op);
}

static BoundCall *
prepare_leakproof_call(FunctionCallInfo fcinfo)
{
	FuncExpr   *expr = (FuncExpr *) fcinfo->flinfo->fn_expr;
	Const	   *constant;
	Oid			op;
	RegProcedure code;

	if (expr == NULL || !IsA(expr, FuncExpr) || list_length(expr->args) != 3)
		return remember_call(fcinfo, InvalidOid, true);
	constant = (Const *) lthird(expr->args);
	if (!IsA(constant, Const) || constant->constisnull)
		return remember_call(fcinfo, InvalidOid, true);
	op = DatumGetObjectId(constant->constvalue);
	code = get_opcode(op);
	return remember_call(fcinfo, op,
						 !RegProcedureIsValid(code) || !get_func_leakproof(code) ||
						 !operator_fits(op, exprType(linitial(expr->args)),
										exprType(lsecond(expr->args))) ||
						 !may_execute(code));
}

Datum
lsm_row_bound_leakproof(PG_FUNCTION_ARGS)
{
	BoundCall  *call = fcinfo->flinfo->fn_extra;

	if (call == NULL)
		call = prepare_leakproof_call(fcinfo);
	if (call->refused || PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	return compare_with(fcinfo, call);
}

/* ======================================================================
 * The support function
 * ====================================================================== */

/* The index condition that the clause stands for, or NIL. */
static List *
index_condition(SupportRequestIndexCondition *req)
{
	FuncExpr   *clause = (FuncExpr *) req->node;
	Oid			op;
	Expr	   *column;
	Expr	   *bound;
	OpExpr	   *condition;

	if (!IsA(clause, FuncExpr) || list_length(clause->args) != 3 ||
		req->indexarg > 1 || !IsA(lthird(clause->args), Const) ||
		((Const *) lthird(clause->args))->constisnull ||
		req->index->amcostestimate != lsm_index_cost_estimate)
		return NIL;
	op = DatumGetObjectId(((Const *) lthird(clause->args))->constvalue);
	column = list_nth(clause->args, req->indexarg);
	bound = list_nth(clause->args, 1 - req->indexarg);
	if (req->indexarg == 1)
		op = get_commutator(op);
	if (!OidIsValid(op) || !op_in_opfamily(op, req->opfamily) ||
		(get_func_leakproof(req->funcid) && !get_func_leakproof(get_opcode(op))) ||
		!operator_takes(op, exprType((Node *) column), exprType((Node *) bound)) ||
		(OidIsValid(req->indexcollation) &&
		 req->indexcollation != clause->inputcollid) ||
		!is_pseudo_constant_for_index(req->root, (Node *) bound, req->index))
		return NIL;
	condition = (OpExpr *) make_opclause(op, BOOLOID, false, copyObject(column),
										 copyObject(bound), InvalidOid,
										 clause->inputcollid);
	condition->location = !LSM_IS_ADDED(clause->location) ? clause->location :
		get_func_leakproof(req->funcid) ? LSM_ADDED_LEAKPROOF_LOCATION : LSM_ADDED_LOCATION;
	return list_make1(condition);
}

Datum
lsm_row_bound_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestSelectivity))
	{
		((SupportRequestSelectivity *) request)->selectivity = 1.0;
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestSimplify))
	{
		FuncExpr   *call = ((SupportRequestSimplify *) request)->fcall;

		if (get_func_leakproof(call->funcid) && list_length(call->args) == 3)
			check_leakproof_call(call->args);
		PG_RETURN_POINTER(NULL);
	}
	if (IsA(request, SupportRequestIndexCondition))
	{
		SupportRequestIndexCondition *req = (SupportRequestIndexCondition *) request;
		List	   *condition = index_condition(req);

		/* nothing is left to ask of rows: the clause itself is true */
		if (condition != NIL)
			req->lossy = false;
		PG_RETURN_POINTER(condition);
	}
	PG_RETURN_POINTER(NULL);
}
