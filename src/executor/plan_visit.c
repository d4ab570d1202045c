/*-------------------------------------------------------------------------
 *
 * plan_visit.c
 *	  All nodes of a finished plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/plannodes.h"

#include "executor/hooks.h"

static void visit_plan(Plan *plan, LsmPlanVisit visit, void *context);

static void
visit_plans(List *plans, LsmPlanVisit visit, void *context)
{
	ListCell   *lc;

	foreach(lc, plans)
		visit_plan(lfirst(lc), visit, context);
}

static void
visit_plan(Plan *plan, LsmPlanVisit visit, void *context)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	visit(plan, context);
	switch (nodeTag(plan))
	{
		case T_Append:
			visit_plans(((Append *) plan)->appendplans, visit, context);
			break;
		case T_MergeAppend:
			visit_plans(((MergeAppend *) plan)->mergeplans, visit, context);
			break;
		case T_SubqueryScan:
			visit_plan(((SubqueryScan *) plan)->subplan, visit, context);
			break;
		case T_CustomScan:
			visit_plans(((CustomScan *) plan)->custom_plans, visit, context);
			break;
		default:
			break;
	}
	visit_plan(plan->lefttree, visit, context);
	visit_plan(plan->righttree, visit, context);
}

void
lsm_plan_visit(PlannedStmt *plan, LsmPlanVisit visit, void *context)
{
	visit_plan(plan->planTree, visit, context);
	visit_plans(plan->subplans, visit, context);
}
