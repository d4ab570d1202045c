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
#include "nodes/parsenodes.h"

#include "compat.h"

/* ---- hooks.c ---- */

extern void lsm_hooks_init(void);

/* ---- upgrade.c ---- */

extern void lsm_upgrade_check(const char *query_string);

/* ---- on_conflict.c ---- */

extern void lsm_on_conflict_plan(Query *query);
extern void lsm_on_conflict_prepare(QueryDesc *query_desc, int eflags);

/* ---- insert_select.c ---- */

/*
 * lsm.insert_batching; decides when a statement begins, not when it is planned
 */
extern bool lsm_insert_batching;

extern bool lsm_insert_select_plan(Query *query);
extern void lsm_insert_select_mark(PlannedStmt *plan);
extern void lsm_insert_select_prepare(QueryDesc *query_desc, int eflags);

/* ---- row_compare.c ---- */

extern bool lsm_row_compare_plan(Query *query);
extern void lsm_row_compare_clean(PlannedStmt *plan);

/* ---- explain.c ---- */

extern void lsm_explain_init(void);

/* EXPLAIN EXECUTE as ExplainOneQuery_hook gets to see it; else the same. */
extern PlannedStmt *lsm_explain_statement(PlannedStmt *pstmt);

#endif							/* LSM_HOOKS_H */
