/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  What PostgreSQL has no access method callback for.
 *
 *	- DDL that concerns keys and their indexes: constraints.c, btree_keys.c,
 *	  index_order.c.
 *	- ON CONFLICT with lsm_index: on_conflict.c, on_conflict_indexes.c.
 *	- INSERT of many rows: insert_select.c.
 *	- Row comparisons as index ranges: row_compare.c.
 *	- Rows of index-only scans without a tuple in between: index_only_rows.c.
 *	- Copies of tables that pg_repack makes: file_swap.c.
 *	- Tables of extensions: extension_tables.c.
 *	- pg_upgrade: ddl/upgrade.c.
 *	- Bitmap heap scans do not prefetch blocks of lsm tables: their block
 *	  numbers do not address the main fork.
 *	- Counters are published at the end of each statement.
 *	- Files of dropped relations stay while CREATE DATABASE copies.
 *	- Databases that are moved or dropped.
 *
 * Every hook calls the one installed before it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/am.h"
#include "am/row_notes.h"
#include "ddl/ddl.h"
#include "executor/hooks.h"
#include "index/index.h"
#include "tree/tree.h"

static ProcessUtility_hook_type prev_process_utility = NULL;
static ExecutorStart_hook_type prev_executor_start = NULL;
static ExecutorRun_hook_type prev_executor_run = NULL;
static ExecutorEnd_hook_type prev_executor_end = NULL;
static build_simple_rel_hook_type prev_build_simple_rel = NULL;
static planner_hook_type prev_planner = NULL;
static object_access_hook_type prev_object_access = NULL;

/* ======================================================================
 * DDL
 * ====================================================================== */

/*
 * CREATE DATABASE has copied the template's files, trees' main forks among
 * them.
 */
static void
clone_trees(CreatedbStmt *stmt)
{
	const char *template = "template1";
	Oid			from;
	Oid			to;
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "template") == 0 && def->arg != NULL)
			template = defGetString(def);
	}
	CommandCounterIncrement();
	from = get_database_oid(template, false);
	to = get_database_oid(stmt->dbname, false);
	lsm_tree_clone_database(from, to);
}

static void
next_process_utility(PlannedStmt *pstmt, const char *query_string,
					 bool read_only_tree, ProcessUtilityContext context,
					 ParamListInfo params, QueryEnvironment *query_env,
					 DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_process_utility)
		prev_process_utility(pstmt, query_string, read_only_tree, context,
							 params, query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context,
								params, query_env, dest, qc);
}

/* Rows that COPY FROM writes together are known to the indexes together. */
static void
copy_from(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
		  ProcessUtilityContext context, ParamListInfo params,
		  QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	LsmRowGroup group;

	lsm_row_group_begin(&group, true);
	PG_TRY();
	{
		next_process_utility(pstmt, query_string, read_only_tree, context,
							 params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		lsm_row_group_end(&group);
	}
	PG_END_TRY();
}

/*
 * An index that was asked for and has no order is worth a NOTICE.  ALTER TABLE
 * may have made an index out of the file of an old one.
 */
static void
make_indexes(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	LsmCreated	created = {CurrentMemoryContext, NIL};
	LsmCreated *before = lsm_watch_created(&created);

	PG_TRY();
	{
		next_process_utility(pstmt, query_string, read_only_tree, context,
							 params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		(void) lsm_watch_created(before);
	}
	PG_END_TRY();
	if (IsA(pstmt->utilityStmt, AlterTableStmt))
		lsm_check_altered(&created);
	else
		lsm_notice_unordered(castNode(IndexStmt, pstmt->utilityStmt), &created);
}

static bool
sets_tablespace(Node *stmt)
{
	ListCell   *lc;

	if (!IsA(stmt, AlterTableStmt))
		return false;
	foreach(lc, castNode(AlterTableStmt, stmt)->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype == AT_SetTableSpace)
			return true;
	}
	return false;
}

static void
lsm_process_utility(PlannedStmt *pstmt, const char *query_string,
					bool read_only_tree, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *query_env,
					DestReceiver *dest, QueryCompletion *qc)
{
	List	   *former_keys = NIL;
	CreatedbStmt *createdb = NULL;
	CreateOpClassStmt *opclass = NULL;
	bool		asked_for = lsm_index_is_asked_for(pstmt->utilityStmt);
	int			nest_level;

	lsm_before_concurrent_repack(pstmt->utilityStmt);
	nest_level = lsm_extension_tables_begin(pstmt->utilityStmt);
	pstmt = lsm_explain_statement(pstmt);
	pstmt = lsm_default_index_before(pstmt, query_string,
									 context == PROCESS_UTILITY_SUBCOMMAND);
	if (lsm_constraints_concern(pstmt->utilityStmt))
	{
		if (read_only_tree)
		{
			pstmt = copyObject(pstmt);
			read_only_tree = false;
		}
		former_keys = lsm_constraints_before(pstmt->utilityStmt);
	}

	if (IsA(pstmt->utilityStmt, CreateTableAsStmt))
	{
		if (read_only_tree)
		{
			pstmt = copyObject(pstmt);
			read_only_tree = false;
		}
		lsm_file_swap_prepare_copy((CreateTableAsStmt *) pstmt->utilityStmt);
	}
	if (sets_tablespace(pstmt->utilityStmt))
		lsm_tree_note_fork_copies();
	if (IsA(pstmt->utilityStmt, CreatedbStmt))
		createdb = copyObject((CreatedbStmt *) pstmt->utilityStmt);
	if (IsA(pstmt->utilityStmt, CreateOpClassStmt) && !creating_extension)
		opclass = copyObject((CreateOpClassStmt *) pstmt->utilityStmt);

	/*
	 * Not to be touched from here on: CALL of a procedure that rolls back lets
	 * go of the cached plan that it is in.
	 */
	if (IsA(pstmt->utilityStmt, CopyStmt) && castNode(CopyStmt, pstmt->utilityStmt)->is_from)
		copy_from(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	else if (asked_for || IsA(pstmt->utilityStmt, AlterTableStmt))
		make_indexes(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	else
		next_process_utility(pstmt, query_string, read_only_tree, context,
							 params, query_env, dest, qc);
	lsm_extension_tables_end(nest_level);
	if (createdb != NULL)
		clone_trees(createdb);
	if (opclass != NULL)
		lsm_notice_class_order(opclass);

	lsm_constraints_after(former_keys);
	lsm_counters_publish();
}

/* pg_database.dattablespace as the snapshot sees it; invalid if there is none */
static Oid
database_tablespace(Relation catalog, Oid dboid, Snapshot snapshot)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			tablespace = InvalidOid;

	ScanKeyInit(&key, Anum_pg_database_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(dboid));
	scan = systable_beginscan(catalog, DatabaseOidIndexId, true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tablespace = ((Form_pg_database) GETSTRUCT(tuple))->dattablespace;
	systable_endscan(scan);
	return tablespace;
}

/*
 * The command in progress has changed the database's row: the tablespace, too?
 * movedb() does that when it has copied the files, and holds its lock on the
 * database until it has removed the old ones.  Other commands that alter a
 * database do not keep its sessions out.
 */
static bool
database_moves(Oid dboid)
{
	Relation	catalog = table_open(DatabaseRelationId, AccessShareLock);
	Oid			before = database_tablespace(catalog, dboid, NULL);
	Oid			after = database_tablespace(catalog, dboid, SnapshotSelf);

	table_close(catalog, AccessShareLock);
	return before != after;
}

/*
 * createdb() tells of the new database when all that could refuse the
 * statement has been looked at, and before the first file is copied; dropdb()
 * of the database that goes when it has the lock on it, and before it has
 * looked at most of what could refuse the statement.
 */
static void
object_access_database(ObjectAccessType access, Oid dboid)
{
	switch (access)
	{
		case OAT_POST_CREATE:
			lsm_tree_require_memory();
			lsm_tree_database_copy(dboid);
			break;
		case OAT_POST_ALTER:
			if (database_moves(dboid))
				lsm_tree_note_database_move(dboid);
			break;
		case OAT_DROP:
			lsm_tree_note_database_drop(dboid);
			break;
		default:
			break;
	}
}

static void
lsm_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
				  void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if (class_id == DatabaseRelationId && sub_id == 0)
		object_access_database(access, object_id);
	if (class_id == RelationRelationId && sub_id == 0)
	{
		if (access == OAT_DROP)
			lsm_tree_note_drop(object_id);
		else if (access == OAT_POST_CREATE)
			lsm_index_order_note_created(object_id);
	}
}

/* ======================================================================
 * Executor
 * ====================================================================== */

/*
 * A bitmap heap scan prefetches the blocks of its TIDs with PrefetchBuffer.
 * Those of an lsm table are virtual: there may be no such block in the main
 * fork, and from segment 2 on that is an error.
 */
static void
stop_bitmap_prefetch(BitmapHeapScanState *scan)
{
	Relation	rel = scan->ss.ss_currentRelation;

	if (rel != NULL && lsm_relation_is_table(rel))
		lsm_stop_bitmap_prefetch(scan);
}

static bool
adjust_scan(PlanState *state, void *context)
{
	if (state == NULL)
		return false;
	if (IsA(state, BitmapHeapScanState))
		stop_bitmap_prefetch((BitmapHeapScanState *) state);
	else if (IsA(state, IndexOnlyScanState))
		lsm_index_only_rows_prepare((IndexOnlyScanState *) state);
	return planstate_tree_walker(state, adjust_scan, context);
}

static void
lsm_executor_start(QueryDesc *query_desc, int eflags)
{
	lsm_upgrade_check(query_desc->sourceText, query_desc->plannedstmt->stmt_location);
	if (prev_executor_start)
		prev_executor_start(query_desc, eflags);
	else
		standard_ExecutorStart(query_desc, eflags);

	/* scans first: the others wrap what a node's function is by then */
	(void) adjust_scan(query_desc->planstate, NULL);
	lsm_on_conflict_prepare(query_desc, eflags);
	lsm_insert_select_prepare(query_desc, eflags);
}

/*
 * In the extended protocol the portal, and with it the executor, may live on
 * after the statement has ended, until the next one or the end of the
 * transaction: what it has counted must not wait for that.
 */
static void
lsm_executor_run(QueryDesc *query_desc, ScanDirection direction,
				 uint64 count EXECUTE_ONCE_PARAMETER)
{
	if (prev_executor_run)
		prev_executor_run(query_desc, direction, count EXECUTE_ONCE);
	else
		standard_ExecutorRun(query_desc, direction, count EXECUTE_ONCE);

	lsm_counters_publish();
}

static void
lsm_executor_end(QueryDesc *query_desc)
{
	if (prev_executor_end)
		prev_executor_end(query_desc);
	else
		standard_ExecutorEnd(query_desc);

	lsm_counters_publish();
}

/* ======================================================================
 * Planner, start-up
 * ====================================================================== */

/* The planner at work has been given bounds of row comparisons. */
static bool bounds_added = false;

static void
lsm_build_simple_rel(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	if (prev_build_simple_rel)
		prev_build_simple_rel(root, rel, rte);
	if (rel->rtekind != RTE_RELATION)
		return;
	lsm_index_adjust_info(root, rel);
	bounds_added |= lsm_row_compare_plan_table(root, rel);
}

static PlannedStmt *
next_planner(Query *parse, const char *query_string, int cursor_options,
			 ParamListInfo params, ExplainState *es)
{
	return prev_planner ?
		prev_planner(parse, query_string, cursor_options, params, es) :
		standard_planner(parse, query_string, cursor_options, params, es);
}

/*
 * Functions are planned amid planning, and may catch an error of it.
 */
static PlannedStmt *
lsm_planner(Query *parse, const char *query_string, int cursor_options,
			ParamListInfo params, ExplainState *es)
{
	bool		together = lsm_insert_select_plan(parse);
	bool		outer_bounds = bounds_added;
	PlannedStmt *plan;

	PG_TRY();
	{
		bounds_added = lsm_row_compare_plan(parse);
		lsm_on_conflict_plan(parse);
		plan = next_planner(parse, query_string, cursor_options, params, es);
		if (bounds_added)
			lsm_row_compare_clean(plan);
	}
	PG_FINALLY();
	{
		bounds_added = outer_bounds;
	}
	PG_END_TRY();
	if (together)
		lsm_insert_select_mark(plan);
	return plan;
}

void
lsm_hooks_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = lsm_process_utility;
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = lsm_executor_start;
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = lsm_executor_run;
	prev_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = lsm_executor_end;
	prev_build_simple_rel = build_simple_rel_hook;
	build_simple_rel_hook = lsm_build_simple_rel;
	prev_planner = planner_hook;
	planner_hook = lsm_planner;
	prev_object_access = object_access_hook;
	object_access_hook = lsm_object_access;
}
