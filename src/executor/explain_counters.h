/*-------------------------------------------------------------------------
 *
 * explain_counters.h
 *	  What EXPLAIN shows of the counters, for a statement and for a node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_EXPLAIN_COUNTERS_H
#define LSM_EXPLAIN_COUNTERS_H

#include "commands/explain.h"
#include "executor/execdesc.h"

#include "tree/tree.h"

struct ExplainState;

/* ---- explain_counters.c ---- */

/* Is there anything to show?  counters: LSM_NCOUNTERS of them, here and below. */
extern bool lsm_explain_any(const uint64 *counters);

/* One line; `all`: also what is 0. */
extern void lsm_explain_text(struct ExplainState *es, const char *title, const uint64 *counters,
							 bool all);

/* One property each, within the caller's group. */
extern void lsm_explain_properties(struct ExplainState *es, const uint64 *counters);

/* ---- explain_nodes.c ---- */

extern void lsm_explain_nodes_init(void);

/*
 * ExecutorStart has made the plan's states: count for each node, if the query
 * is instrumented and what is counted can be shown.
 */
extern void lsm_explain_nodes_watch(QueryDesc *query_desc);

#endif							/* LSM_EXPLAIN_COUNTERS_H */
