/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  EXPLAIN (ANALYZE) shows what the statement has cost in the trees.
 *
 * ExecutorStart notes the counters for each instrumented query that may be the
 * one that is explained.  When its plan has been printed, and before the
 * query's group is closed, the difference is printed.  ExplainPrintPlan() has
 * left the plan in es->pstmt, which tells the query.
 *
 * PostgreSQL 18 has a hook at that place, explain_per_plan_hook.  Older ones do
 * not, but ExecutorEnd runs there.  So:
 *
 *	- ExplainOneQuery_hook notes the ExplainState (a "capture"); queries that
 *	  start under it are noted.
 *	- ExecutorEnd prints, if the query that ends is the one whose plan the
 *	  capture's EXPLAIN has printed last.
 *	- EXPLAIN EXECUTE (also below CREATE TABLE AS) does not come through
 *	  ExplainOneQuery_hook.  The statement is wrapped into an empty query that
 *	  does, and the hook unwraps it.
 *
 * Since PostgreSQL 18 each node of the plan has its own counts, too
 * (explain_nodes.c).
 *
 * The copy of a plan that is explained is changed where it would show what no
 * user can know (row_range.c): after it has run, which is when ExecutorFinish
 * returns, and at once if it is not to run.  PostgreSQL 18 does not tell who
 * instruments a query, so there it is changed for auto_explain, too, if that
 * is loaded after us.
 *
 * Counts of parallel workers are included (tree/read/statistics.c).  Those of
 * statements inside functions are included, too, as in BUFFERS.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"

#include "executor/explain_counters.h"
#include "executor/hooks.h"
#include "tree/tree.h"

static ExecutorStart_hook_type prev_executor_start = NULL;
static ExecutorFinish_hook_type prev_executor_finish = NULL;

/* A query that may be explained */
typedef struct Started
{
	struct Started *next;
	QueryDesc  *query_desc;
	PlannedStmt *plan;
	bool		shows_ranges;	/* before it is printed (row_range.c) */
	LsmTotals	before;
	MemoryContextCallback callback;
} Started;

/* Innermost first; they live as long as the executor's state */
static Started *started_queries = NULL;

#if PG_VERSION_NUM >= 180000
static explain_per_plan_hook_type prev_per_plan = NULL;
#else

/* EXPLAIN at work; they nest, through functions */
typedef struct Capture
{
	ExplainState *es;
	struct Capture *outer;
} Capture;

static Capture *capture = NULL;

static ExecutorEnd_hook_type prev_executor_end = NULL;
static ExplainOneQuery_hook_type prev_explain_one_query = NULL;
#endif

/* ======================================================================
 * Output
 * ====================================================================== */

/* False if nothing was counted in between. */
static bool
totals_subtract(const LsmTotals *after, const LsmTotals *before, LsmTotals *used)
{
	bool		any;

	for (int i = 0; i < LSM_NCOUNTERS; i++)
		used->counters[i] = after->counters[i] - before->counters[i];
	any = lsm_explain_any(used->counters);
	for (int i = 0; i < LSM_MAX_LEVELS; i++)
	{
		const LsmFilterCounts *a = &after->levels[i];
		const LsmFilterCounts *b = &before->levels[i];

		used->levels[i].negatives = a->negatives - b->negatives;
		used->levels[i].true_positives = a->true_positives - b->true_positives;
		used->levels[i].false_positives = a->false_positives - b->false_positives;
	}
	return any;
}

static void
print_text(ExplainState *es, const LsmTotals *used)
{
	lsm_explain_text(es, "LSM:", used->counters, true);
	for (int i = 0; i < LSM_MAX_LEVELS; i++)
	{
		const LsmFilterCounts *level = &used->levels[i];

		if (lsm_filter_counts_probes(level) == 0)
			continue;
		appendStringInfoSpaces(es->str, (es->indent + 1) * 2);
		appendStringInfo(es->str,
						 "Level %d: filter probes=" UINT64_FORMAT " negatives=" UINT64_FORMAT
						 " true positives=" UINT64_FORMAT " false positives=" UINT64_FORMAT "\n",
						 i, lsm_filter_counts_probes(level), level->negatives,
						 level->true_positives, level->false_positives);
	}
}

static void
print_structured(ExplainState *es, const LsmTotals *used)
{
	ExplainOpenGroup("LSM", "LSM", true, es);
	lsm_explain_properties(es, used->counters);
	ExplainOpenGroup("Levels", "Levels", false, es);
	for (int i = 0; i < LSM_MAX_LEVELS; i++)
	{
		const LsmFilterCounts *level = &used->levels[i];

		if (lsm_filter_counts_probes(level) == 0)
			continue;
		ExplainOpenGroup("Level", NULL, true, es);
		ExplainPropertyInteger("Level", NULL, i, es);
		ExplainPropertyUInteger("Filter Probes", NULL,
								lsm_filter_counts_probes(level), es);
		ExplainPropertyUInteger("Filter Negatives", NULL, level->negatives, es);
		ExplainPropertyUInteger("Filter True Positives", NULL,
								level->true_positives, es);
		ExplainPropertyUInteger("Filter False Positives", NULL,
								level->false_positives, es);
		ExplainCloseGroup("Level", NULL, true, es);
	}
	ExplainCloseGroup("Levels", "Levels", false, es);
	ExplainCloseGroup("LSM", "LSM", true, es);
}

static void
print_used(ExplainState *es, const Started *started)
{
	LsmTotals now;
	LsmTotals used;

	lsm_counters_session(&now);
	if (!totals_subtract(&now, &started->before, &used))
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
		print_text(es, &used);
	else
		print_structured(es, &used);
}

/* ======================================================================
 * Executor
 * ====================================================================== */

/* The query's memory goes away. */
static void
forget_started(void *arg)
{
	Started **link = &started_queries;

	while (*link != arg)
		link = &(*link)->next;
	*link = (*link)->next;
}

/* Can a query that starts be explained?  PostgreSQL 18 does not tell more. */
static bool
explain_is_possible(void)
{
#if PG_VERSION_NUM >= 180000
	return !IsParallelWorker();
#else
	return capture != NULL;
#endif
}

static void
explain_executor_start(QueryDesc *query_desc, int eflags)
{
	bool		explain_only = (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0;

	/*
	 * EXPLAIN ANALYZE always instruments; functions' queries as a rule are
	 * not
	 */
	bool		shown = explain_is_possible() &&
		(explain_only || query_desc->instrument_options != 0);
	bool noted = shown && !explain_only;
	bool		shows_ranges = false;
	LsmTotals before;

	if (shown && lsm_row_range_is_hidden(query_desc->plannedstmt))
	{
		/* the original may be a prepared statement's */
		query_desc->plannedstmt = copyObject(query_desc->plannedstmt);
		if (explain_only)
			lsm_row_range_show(query_desc->plannedstmt);
		shows_ranges = !explain_only;
	}
	if (noted)
		lsm_counters_session(&before);

	if (prev_executor_start)
		prev_executor_start(query_desc, eflags);
	else
		standard_ExecutorStart(query_desc, eflags);

	if (noted)
	{
		MemoryContext cxt = query_desc->estate->es_query_cxt;
		Started *started = MemoryContextAlloc(cxt, sizeof(Started));

		started->query_desc = query_desc;
		started->plan = query_desc->plannedstmt;
		started->shows_ranges = shows_ranges;
		started->before = before;
		started->callback.func = forget_started;
		started->callback.arg = started;
		MemoryContextRegisterResetCallback(cxt, &started->callback);
		started->next = started_queries;
		started_queries = started;
	}
	lsm_explain_nodes_watch(query_desc);
}

/* NULL: there is none */
static Started *
find_started(const QueryDesc *query_desc)
{
	Started *started = started_queries;

	while (started != NULL && started->query_desc != query_desc)
		started = started->next;
	return started;
}

/* The query, and its parallel workers, have done their work. */
static void
explain_executor_finish(QueryDesc *query_desc)
{
	Started *started;

	if (prev_executor_finish)
		prev_executor_finish(query_desc);
	else
		standard_ExecutorFinish(query_desc);

	started = find_started(query_desc);
	if (started != NULL && started->shows_ranges)
		lsm_row_range_show(query_desc->plannedstmt);
}

/* ======================================================================
 * EXPLAIN of PostgreSQL 18
 * ====================================================================== */

#if PG_VERSION_NUM >= 180000

/*
 * `plan` may be the original of the copy that was executed.  A plan that is
 * executed within itself, by functions, is explained innermost first.
 */
static void
explain_plan(PlannedStmt *plan, IntoClause *into, ExplainState *es,
			 const char *query_string, ParamListInfo params,
			 QueryEnvironment *query_env)
{
	if (prev_per_plan)
		prev_per_plan(plan, into, es, query_string, params, query_env);
	if (!es->analyze)
		return;
	for (Started *started = started_queries; started != NULL; started = started->next)
	{
		if (started->plan == es->pstmt)
		{
			print_used(es, started);
			break;
		}
	}
}

PlannedStmt *
lsm_explain_statement(PlannedStmt *pstmt)
{
	return pstmt;
}

static void
explain_hooks_init(void)
{
	prev_per_plan = explain_per_plan_hook;
	explain_per_plan_hook = explain_plan;
}

#else

/* ======================================================================
 * EXPLAIN before PostgreSQL 18
 * ====================================================================== */

static void
explain_executor_end(QueryDesc *query_desc)
{
	if (capture != NULL)
	{
		Started    *started = find_started(query_desc);

		if (started != NULL && capture->es->pstmt == query_desc->plannedstmt)
			print_used(capture->es, started);
	}

	if (prev_executor_end)
		prev_executor_end(query_desc);
	else
		standard_ExecutorEnd(query_desc);
}

/* As ExplainOneQuery does without a hook. */
static void
explain_standard(Query *query, int cursor_options, IntoClause *into,
				 ExplainState *es, const char *query_string,
				 ParamListInfo params, QueryEnvironment *query_env)
{
#if PG_VERSION_NUM >= 170000
	standard_ExplainOneQuery(query, cursor_options, into, es, query_string, params, query_env);
#else
	PlannedStmt *plan;
	instr_time	start;
	instr_time	duration;
	BufferUsage usage_start;
	BufferUsage usage;

	if (es->buffers)
		usage_start = pgBufferUsage;
	INSTR_TIME_SET_CURRENT(start);
	plan = pg_plan_query(query, query_string, cursor_options, params);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	if (es->buffers)
	{
		memset(&usage, 0, sizeof(BufferUsage));
		BufferUsageAccumDiff(&usage, &pgBufferUsage, &usage_start);
	}
	ExplainOnePlan(plan, into, es, query_string, params, query_env, &duration,
				   es->buffers ? &usage : NULL);
#endif
}

/* A query of wrap_execute()'s: no planner ever sees it. */
static bool
is_wrapped(const Query *query)
{
	return query->commandType == CMD_SELECT && query->utilityStmt != NULL;
}

static void
explain_captured(Query *query, int cursor_options, IntoClause *into,
				 ExplainState *es, const char *query_string,
				 ParamListInfo params, QueryEnvironment *query_env)
{
	if (is_wrapped(query))
	{
		ParseState *pstate = make_parsestate(NULL);

		pstate->p_sourcetext = query_string;
		pstate->p_queryEnv = query_env;
		ExplainOneUtility(query->utilityStmt, into, es, pstate, params);
		free_parsestate(pstate);
	}
	else if (prev_explain_one_query)
		prev_explain_one_query(query, cursor_options, into, es, query_string,
							   params, query_env);
	else
		explain_standard(query, cursor_options, into, es, query_string, params,
						 query_env);
}

static void
explain_one_query(Query *query, int cursor_options, IntoClause *into,
				  ExplainState *es, const char *query_string,
				  ParamListInfo params, QueryEnvironment *query_env)
{
	Capture mine = {es, capture};

	capture = &mine;
	PG_TRY();
	{
		explain_captured(query, cursor_options, into, es, query_string, params,
						 query_env);
	}
	PG_FINALLY();
	{
		capture = mine.outer;
	}
	PG_END_TRY();
}

/* Is this EXECUTE, or CREATE TABLE AS EXECUTE? */
static bool
is_execute(Node *statement)
{
	Query	   *query = (Query *) statement;

	if (query == NULL || !IsA(query, Query) || query->commandType != CMD_UTILITY)
		return false;
	if (IsA(query->utilityStmt, CreateTableAsStmt))
		return is_execute(((CreateTableAsStmt *) query->utilityStmt)->query);
	return IsA(query->utilityStmt, ExecuteStmt);
}

/*
 * EXPLAIN EXECUTE, with the EXECUTE dressed up as a query without anything in
 * it, which the rewriter passes through and ExplainOneQuery() hands to the
 * hook.  The original is not changed.
 */
static PlannedStmt *
wrap_execute(PlannedStmt *pstmt)
{
	ExplainStmt *explain = makeNode(ExplainStmt);
	PlannedStmt *result = makeNode(PlannedStmt);
	Query	   *original;
	Query	   *query = makeNode(Query);

	*result = *pstmt;
	*explain = *(ExplainStmt *) pstmt->utilityStmt;
	original = castNode(Query, explain->query);
	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->utilityStmt = original->utilityStmt;
	query->jointree = makeFromExpr(NIL, NULL);
	query->stmt_location = original->stmt_location;
	query->stmt_len = original->stmt_len;
	explain->query = (Node *) query;
	result->utilityStmt = (Node *) explain;
	return result;
}

PlannedStmt *
lsm_explain_statement(PlannedStmt *pstmt)
{
	/* another extension's hook in front of ours would not know what it got */
	if (IsA(pstmt->utilityStmt, ExplainStmt) &&
		ExplainOneQuery_hook == explain_one_query &&
		is_execute(((ExplainStmt *) pstmt->utilityStmt)->query))
		return wrap_execute(pstmt);
	return pstmt;
}

static void
explain_hooks_init(void)
{
	prev_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = explain_executor_end;
	prev_explain_one_query = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_one_query;
}

#endif

void
lsm_explain_init(void)
{
	lsm_explain_nodes_init();
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = explain_executor_start;
	prev_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = explain_executor_finish;
	explain_hooks_init();
}
