/*-------------------------------------------------------------------------
 *
 * explain_nodes.c
 *	  EXPLAIN (ANALYZE) of PostgreSQL 18 shows what each node of the plan has
 *	  cost in the trees.
 *
 * When an instrumented query has started, ExecProcNodeReal of each node becomes
 * ours, which calls the node's own and takes the difference of this process's
 * counters, without what the nodes below have taken.  Some nodes are not run
 * through it: a bitmap index scan's counts are those of the node that asks for
 * the bitmap.  A function's statements count for the node that calls the
 * function.  Parallel workers count for themselves: their counts are in the
 * statement's total only, so nodes below a Gather show the leader's, and say
 * so.
 *
 * auto_explain (log_analyze) shows them, too.
 *
 * The counts live in the query's memory, and are forgotten with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/explain_counters.h"

#if PG_VERSION_NUM >= 180000

#include "access/parallel.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

struct Watched;

typedef struct NodeCounts
{
	PlanState  *node;			/* NULL: there is none with this number */
	struct Watched *query;
	ExecProcNodeMtd proc;		/* its own */
	uint64		used[LSM_NCOUNTERS];
} NodeCounts;

/* A query whose nodes are counted */
typedef struct Watched
{
	struct Watched *next;
	EState	   *estate;
	int			nnodes;
	NodeCounts *nodes;			/* by plan_node_id */
	MemoryContextCallback callback;
} Watched;

/* Innermost first */
static Watched *watched_queries = NULL;

/*
 * Where a node that runs adds what it has taken, for the node above it, if that
 * is of the same query
 */
static uint64 *below = NULL;
static Watched *below_query = NULL;

static explain_per_node_hook_type prev_per_node = NULL;

static NodeCounts *
find_counts(const PlanState *node)
{
	for (Watched *watched = watched_queries; watched != NULL; watched = watched->next)
	{
		int			id = node->plan->plan_node_id;

		if (watched->estate != node->state)
			continue;
		return id < watched->nnodes && watched->nodes[id].node == node ? &watched->nodes[id] : NULL;
	}
	return NULL;
}

/*
 * Of nodes that are watched.  An error may be caught by a function that a node
 * of another query calls, which goes on.
 */
static TupleTableSlot *
count_node(PlanState *node)
{
	NodeCounts *counts = find_counts(node);
	Watched    *query = counts->query;
	uint64	   *above = below;
	Watched    *above_query = below_query;
	uint64		before[LSM_NCOUNTERS];
	uint64		after[LSM_NCOUNTERS];
	uint64		of_others[LSM_NCOUNTERS] = {0};
	TupleTableSlot *slot;

	lsm_counters_own(before);
	below = of_others;
	below_query = query;
	PG_TRY();
	{
		slot = counts->proc(node);
	}
	PG_FINALLY();
	{
		below = above;
		below_query = above_query;
	}
	PG_END_TRY();
	lsm_counters_own(after);
	for (int i = 0; i < LSM_NCOUNTERS; i++)
	{
		uint64		used = after[i] - before[i];

		counts->used[i] += used - of_others[i];
		if (above_query == query)
			above[i] += used;
	}
	return slot;
}

static bool
find_last_number(PlanState *node, void *context)
{
	int		   *last = (int *) context;

	*last = Max(*last, node->plan->plan_node_id);
	return planstate_tree_walker(node, find_last_number, context);
}

static bool
watch_node(PlanState *node, void *context)
{
	Watched    *watched = (Watched *) context;
	NodeCounts *counts = &watched->nodes[node->plan->plan_node_id];

	if (counts->node == NULL && node->ExecProcNodeReal != NULL)
	{
		counts->node = node;
		counts->query = watched;
		counts->proc = node->ExecProcNodeReal;
		node->ExecProcNodeReal = count_node;
	}
	return planstate_tree_walker(node, watch_node, context);
}

/* The query's memory goes away.  No node of it is running any more. */
static void
forget(void *arg)
{
	Watched    *watched = (Watched *) arg;

	for (Watched **link = &watched_queries; *link != NULL; link = &(*link)->next)
	{
		if (*link == watched)
		{
			*link = watched->next;
			break;
		}
	}
}

void
lsm_explain_nodes_watch(QueryDesc *query_desc)
{
	EState	   *estate = query_desc->estate;
	Watched    *watched;
	int			last = -1;

	if (query_desc->instrument_options == 0 || query_desc->planstate == NULL ||
		IsParallelWorker() || (estate->es_top_eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
		return;
	(void) find_last_number(query_desc->planstate, &last);
	foreach_ptr(PlanState, subplan, estate->es_subplanstates)
	{
		if (subplan != NULL)
			(void) find_last_number(subplan, &last);
	}
	watched = MemoryContextAllocZero(estate->es_query_cxt, sizeof(Watched));
	watched->estate = estate;
	watched->nnodes = last + 1;
	watched->nodes = MemoryContextAllocZero(estate->es_query_cxt,
											sizeof(NodeCounts) * watched->nnodes);
	(void) watch_node(query_desc->planstate, watched);
	foreach_ptr(PlanState, subplan, estate->es_subplanstates)
	{
		if (subplan != NULL)
			(void) watch_node(subplan, watched);
	}
	watched->callback.func = forget;
	watched->callback.arg = watched;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &watched->callback);
	watched->next = watched_queries;
	watched_queries = watched;
}

static bool
is_below_gather(List *ancestors)
{
	foreach_ptr(Node, ancestor, ancestors)
	{
		if (IsA(ancestor, Gather) || IsA(ancestor, GatherMerge))
			return true;
	}
	return false;
}

static void
explain_node(PlanState *node, List *ancestors, const char *relationship,
			 const char *plan_name, ExplainState *es)
{
	NodeCounts *counts = find_counts(node);

	if (prev_per_node)
		prev_per_node(node, ancestors, relationship, plan_name, es);
	if (counts == NULL || !lsm_explain_any(counts->used))
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		lsm_explain_text(es, is_below_gather(ancestors) ? "LSM (leader):" : "LSM:",
						 counts->used, false);
		return;
	}
	ExplainOpenGroup("LSM", "LSM", true, es);
	ExplainPropertyBool("Leader Only", is_below_gather(ancestors), es);
	lsm_explain_properties(es, counts->used);
	ExplainCloseGroup("LSM", "LSM", true, es);
}

void
lsm_explain_nodes_init(void)
{
	prev_per_node = explain_per_node_hook;
	explain_per_node_hook = explain_node;
}

#else

void
lsm_explain_nodes_watch(QueryDesc *query_desc)
{
}

void
lsm_explain_nodes_init(void)
{
}

#endif
