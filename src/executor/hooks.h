/*-------------------------------------------------------------------------
 *
 * hooks.h
 *	  What hangs into the planner, the executor and utility commands.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_HOOKS_H
#define LSM_HOOKS_H

#include "executor/execdesc.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

#include "compat.h"

/* ---- hooks.c ---- */

extern void lsm_hooks_init(void);

/* ---- on_conflict.c ---- */

extern void lsm_on_conflict_plan(Query *query);

/* ---- on_conflict_indexes.c ---- */

#if LSM_CORE_ASKS_FOR_EQUALITY
#define lsm_on_conflict_prepare(query_desc, eflags) ((void) 0)
#else
extern void lsm_on_conflict_prepare(QueryDesc *query_desc, int eflags);
#endif

/* ---- insert_select.c ---- */

/*
 * lsm.insert_batching; decides when a statement begins, not when it is planned
 */
extern bool lsm_insert_batching;

extern bool lsm_insert_select_plan(Query *query);
extern void lsm_insert_select_mark(PlannedStmt *plan);
extern void lsm_insert_select_prepare(QueryDesc *query_desc, int eflags);

/* ---- index_only_rows.c ---- */

/* After ExecutorStart */
extern void lsm_index_only_rows_prepare(IndexOnlyScanState *node);

/* ---- row_compare.c ---- */

extern bool lsm_row_compare_plan(Query *query);
extern bool lsm_row_compare_plan_table(PlannerInfo *root, const RelOptInfo *rel);
extern void lsm_row_compare_clean(PlannedStmt *plan);

/* ---- row_range.c ---- */

/* The node's index conditions, which may have clauses of ours */
extern void lsm_row_range_tighten(Plan *plan);

/* May a value of the type be where an operator declares the other type? */
extern bool lsm_type_is_taken(Oid declared, Oid type);

/*
 * EXPLAIN shows what an index-only scan asks of its index.  Is that a row in
 * one of the plan's scans?  Then a copy of the plan, which is not executed any
 * more, can be made to show the row comparison.
 */
extern bool lsm_row_range_is_hidden(PlannedStmt *plan);
extern void lsm_row_range_show(PlannedStmt *plan);

/* ---- plan_visit.c ---- */

typedef void (*LsmPlanVisit) (Plan *plan, void *context);

extern void lsm_plan_visit(PlannedStmt *plan, LsmPlanVisit visit, void *context);

/* ---- explain.c ---- */

extern void lsm_explain_init(void);

/* EXPLAIN EXECUTE as ExplainOneQuery_hook gets to see it; else the same. */
extern PlannedStmt *lsm_explain_statement(PlannedStmt *pstmt);

#endif							/* LSM_HOOKS_H */
