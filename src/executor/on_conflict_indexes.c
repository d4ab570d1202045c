/*-------------------------------------------------------------------------
 *
 * on_conflict_indexes.c
 *	  INSERT ... ON CONFLICT on tables with unique indexes of lsm_index, in
 *	  executors before PostgreSQL 18.
 *
 * The executor checks for conflicts through IndexInfo: for each unique index
 * the equality operators of its columns.  BuildSpeculativeIndexInfo() fills
 * them in.  Since PostgreSQL 18 it asks the access method, and nothing of this
 * file is compiled there.  Before, it knows btree only and raises an internal
 * error for any other access method.  It is called when the executor opens the
 * indexes of a result relation, which it does when it first needs them, and
 * not at all if they are open by then.  So we open them, as for an INSERT
 * without ON CONFLICT, and fill the operators in.  lsm_index has btree's
 * strategies: equality is number 3 for both.
 *
 * The result relation of an INSERT into a plain table is there when
 * ExecutorStart returns.  Partitions are initialized when the first row is
 * routed to them.  We see each row before that: the plan below the ModifyTable
 * node gets an ExecProcNode of ours, which routes the row it returns with a
 * copy of the node that has no ON CONFLICT.  A partition that is initialized
 * by this has its indexes open, and lacks what the executor adds for ON
 * CONFLICT: we add that.  The executor's own routing, a moment later, finds
 * the partition initialized.
 *
 * Locks: those that the executor would take, RowExclusiveLock on partitions
 * and indexes, in its order.  They are released with the executor's state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "nodes/makefuncs.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/am.h"
#include "executor/hooks.h"

#if !LSM_CORE_ASKS_FOR_EQUALITY

/* A ModifyTable node whose rows we route first */
typedef struct RoutedInsert
{
	struct RoutedInsert *next;
	PlanState  *source;			/* plan below the node */
	ExecProcNodeMtd source_proc;	/* its own */
	ModifyTableState *modify;
	ModifyTableState *plain;	/* `modify` without ON CONFLICT */
	ModifyTable *plain_plan;
	JunkFilter *junk;			/* NULL if the plan's rows have no junk
								 * columns */
	MemoryContextCallback callback;
} RoutedInsert;

/* Of the statements being executed, innermost first */
static RoutedInsert *routed_inserts = NULL;

/* ======================================================================
 * Indexes
 * ====================================================================== */

/* What BuildSpeculativeIndexInfo does for btree. */
static void
fill_unique_operators(Relation index, IndexInfo *info)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);

	info->ii_UniqueOps = palloc(sizeof(Oid) * nkeys);
	info->ii_UniqueProcs = palloc(sizeof(Oid) * nkeys);
	info->ii_UniqueStrats = palloc(sizeof(uint16) * nkeys);
	for (int i = 0; i < nkeys; i++)
	{
		Oid			type = index->rd_opcintype[i];
		Oid			operator = get_opfamily_member(index->rd_opfamily[i], type,
												   type, BTEqualStrategyNumber);

		if (!OidIsValid(operator))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator family %u of index \"%s\" has no equality operator for type %s",
							index->rd_opfamily[i], RelationGetRelationName(index),
							format_type_be(type))));
		info->ii_UniqueOps[i] = operator;
		info->ii_UniqueProcs[i] = get_opcode(operator);
		info->ii_UniqueStrats[i] = BTEqualStrategyNumber;
	}
}

/*
 * The indexes are open, but not for ON CONFLICT.  A table without any counts
 * as open, too: CREATE INDEX CONCURRENTLY may add one before the executor
 * looks.  It waits for this statement, which need not know of it.
 */
static void
prepare_indexes(ResultRelInfo *rri)
{
	if (rri->ri_IndexRelationDescs == NULL)
		rri->ri_IndexRelationDescs = palloc0(sizeof(Relation));
	for (int i = 0; i < rri->ri_NumIndices; i++)
	{
		Relation	index = rri->ri_IndexRelationDescs[i];
		IndexInfo  *info = rri->ri_IndexRelationInfo[i];

		if (!info->ii_Unique)
			continue;
		if (index->rd_rel->relam == lsm_index_am_oid())
			fill_unique_operators(index, info);
		else
			BuildSpeculativeIndexInfo(index, info);
	}
}

/* ======================================================================
 * Partitions
 * ====================================================================== */

/*
 * The partition's indexes that belong to the arbiters of the partitioned table.
 */
static List *
partition_arbiters(ResultRelInfo *root, ResultRelInfo *partition)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (root->ri_onConflictArbiterIndexes == NIL)
		return NIL;
	for (int i = 0; i < partition->ri_NumIndices; i++)
	{
		Oid			index = RelationGetRelid(partition->ri_IndexRelationDescs[i]);
		List	   *ancestors = get_partition_ancestors(index);

		foreach(lc, ancestors)
		{
			if (list_member_oid(root->ri_onConflictArbiterIndexes, lfirst_oid(lc)))
				result = lappend_oid(result, index);
		}
		list_free(ancestors);
	}
	if (list_length(result) != list_length(root->ri_onConflictArbiterIndexes))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition \"%s\" does not have all indexes that ON CONFLICT needs",
						RelationGetRelationName(partition->ri_RelationDesc))));
	return result;
}

/*
 * An expression of DO UPDATE with its columns of the partitioned table and of
 * EXCLUDED, which has the same columns, numbered as in the partition.
 */
static List *
map_expression(ResultRelInfo *root, ResultRelInfo *partition, AttrMap *map,
			   Node *expr)
{
	Oid			row_type = partition->ri_RelationDesc->rd_rel->reltype;
	bool		whole_row;
	Node	   *node = copyObject(expr);

	node = map_variable_attnos(node, INNER_VAR, 0, map, row_type, &whole_row);
	node = map_variable_attnos(node, root->ri_RangeTableIndex, 0, map, row_type,
							   &whole_row);
	return (List *) node;
}

/* State of DO UPDATE for a partition whose columns are numbered differently. */
static void
map_do_update(ModifyTableState *modify, ResultRelInfo *root,
			  ResultRelInfo *partition, OnConflictSetState *state)
{
	ModifyTable *plan = (ModifyTable *) modify->ps.plan;
	EState	   *estate = modify->ps.state;
	TupleDesc	desc = RelationGetDescr(partition->ri_RelationDesc);
	AttrMap    *map = build_attrmap_by_name(desc,
											RelationGetDescr(root->ri_RelationDesc), false);
	AttrMap    *colno_map = ExecGetChildToRootMap(partition)->attrMap;
	List	   *colnos = NIL;
	ListCell   *lc;

	foreach(lc, plan->onConflictCols)
	{
		int			attno = lfirst_int(lc);

		Assert(attno > 0 && attno <= colno_map->maplen &&
			   colno_map->attnums[attno - 1] != 0);
		colnos = lappend_int(colnos, colno_map->attnums[attno - 1]);
	}
	state->oc_ProjSlot = table_slot_create(partition->ri_RelationDesc,
										   &estate->es_tupleTable);
	state->oc_ProjInfo =
		ExecBuildUpdateProjection(map_expression(root, partition, map,
												 (Node *) plan->onConflictSet),
								  true, colnos, desc, modify->ps.ps_ExprContext,
								  state->oc_ProjSlot, &modify->ps);
	if (plan->onConflictWhere != NULL)
		state->oc_WhereClause =
			ExecInitQual(map_expression(root, partition, map, plan->onConflictWhere),
						 &modify->ps);
}

static void
prepare_do_update(ModifyTableState *modify, ResultRelInfo *root,
				  ResultRelInfo *partition)
{
	OnConflictSetState *state = makeNode(OnConflictSetState);

	CheckCmdReplicaIdentity(partition->ri_RelationDesc, CMD_UPDATE);

	/* a slot of its own: the partition's access method may be another one */
	state->oc_Existing = table_slot_create(partition->ri_RelationDesc,
										   &modify->ps.state->es_tupleTable);
	if (ExecGetRootToChildMap(partition, modify->ps.state) == NULL)
	{
		state->oc_ProjSlot = root->ri_onConflict->oc_ProjSlot;
		state->oc_ProjInfo = root->ri_onConflict->oc_ProjInfo;
		state->oc_WhereClause = root->ri_onConflict->oc_WhereClause;
	}
	else
		map_do_update(modify, root, partition, state);
	partition->ri_onConflict = state;
}

/* What the executor adds for ON CONFLICT when it initializes a partition. */
static void
prepare_partition(RoutedInsert *routed, ResultRelInfo *partition)
{
	ModifyTableState *modify = routed->modify;
	ModifyTable *plan = (ModifyTable *) modify->ps.plan;
	EState	   *estate = modify->ps.state;
	FdwRoutine *fdw = partition->ri_FdwRoutine;
	ResultRelInfo *root = modify->rootResultRelInfo;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	/* a foreign table has been told that there is no ON CONFLICT */
	if (fdw != NULL && fdw->BeginForeignInsert != NULL)
	{
		if (fdw->EndForeignInsert != NULL)
			fdw->EndForeignInsert(estate, partition);
		partition->ri_FdwState = NULL;
		fdw->BeginForeignInsert(modify, partition);
	}
	prepare_indexes(partition);
	partition->ri_onConflictArbiterIndexes = partition_arbiters(root, partition);
	if (plan->onConflictAction == ONCONFLICT_UPDATE)
		prepare_do_update(modify, root, partition);
	MemoryContextSwitchTo(old);
}

static void
route(RoutedInsert *routed, TupleTableSlot *slot)
{
	ModifyTableState *modify = routed->modify;
	EState	   *estate = modify->ps.state;
	int			nbefore = list_length(estate->es_tuple_routing_result_relations);
	ResultRelInfo *partition;

	if (routed->junk != NULL)
		slot = ExecFilterJunk(routed->junk, slot);

	/*
	 * expressions of partitions point to `plain` and add their subplans to it
	 */
	*routed->plain = *modify;
	routed->plain->ps.plan = (Plan *) routed->plain_plan;
	partition = ExecFindPartition(routed->plain, modify->rootResultRelInfo,
								  modify->mt_partition_tuple_routing, slot, estate);
	modify->ps.subPlan = routed->plain->ps.subPlan;
	if (list_length(estate->es_tuple_routing_result_relations) > nbefore)
		prepare_partition(routed, partition);
}

static TupleTableSlot *
routing_exec_proc(PlanState *source)
{
	RoutedInsert *routed = routed_inserts;
	TupleTableSlot *slot;

	while (routed->source != source)
		routed = routed->next;
	slot = routed->source_proc(source);
	if (!TupIsNull(slot))
		route(routed, slot);
	return slot;
}

static void
forget_routed_insert(void *arg)
{
	RoutedInsert **link = &routed_inserts;

	while (*link != arg)
		link = &(*link)->next;
	*link = (*link)->next;
}

/* All of this lives as long as the executor's state. */
static void
prepare_routing(ModifyTableState *modify)
{
	EState	   *estate = modify->ps.state;
	PlanState  *source = outerPlanState(modify);
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	RoutedInsert *routed = palloc0(sizeof(RoutedInsert));
	ListCell   *lc;

	routed->source = source;
	routed->source_proc = source->ExecProcNodeReal;
	routed->modify = modify;
	routed->plain = palloc(sizeof(ModifyTableState));
	routed->plain_plan = palloc(sizeof(ModifyTable));
	*routed->plain_plan = *(ModifyTable *) modify->ps.plan;
	routed->plain_plan->onConflictAction = ONCONFLICT_NONE;
	foreach(lc, source->plan->targetlist)
	{
		if (lfirst_node(TargetEntry, lc)->resjunk)
		{
			routed->junk = ExecInitJunkFilter(source->plan->targetlist,
											  ExecInitExtraTupleSlot(estate, NULL,
																	 &TTSOpsVirtual));
			break;
		}
	}

	routed->callback.func = forget_routed_insert;
	routed->callback.arg = routed;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &routed->callback);
	routed->next = routed_inserts;
	routed_inserts = routed;
	ExecSetExecProcNode(source, routing_exec_proc);
	MemoryContextSwitchTo(old);
}

/* ======================================================================
 * ExecutorStart
 * ====================================================================== */

static void
prepare_node(PlanState *state)
{
	ModifyTableState *modify;
	ResultRelInfo *rri;

	if (state == NULL || !IsA(state, ModifyTableState))
		return;
	modify = (ModifyTableState *) state;
	if (((ModifyTable *) state->plan)->onConflictAction == ONCONFLICT_NONE)
		return;

	Assert(modify->mt_nrels == 1);
	rri = modify->resultRelInfo;
	if (modify->mt_partition_tuple_routing != NULL)
		prepare_routing(modify);
	else if (rri->ri_IndexRelationDescs == NULL &&
			 rri->ri_RelationDesc->rd_rel->relkind == RELKIND_RELATION)
	{
		/* also where no index is ours, yet */
		ExecOpenIndices(rri, false);
		prepare_indexes(rri);
	}
}

/*
 * After ExecutorStart: prepare the ON CONFLICTs of the statement.
 */
void
lsm_on_conflict_prepare(QueryDesc *query_desc, int eflags)
{
	EState	   *estate = query_desc->estate;
	MemoryContext old;
	ListCell   *lc;

	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 ||
		(query_desc->plannedstmt->commandType != CMD_INSERT &&
		 !query_desc->plannedstmt->hasModifyingCTE) ||
		!OidIsValid(lsm_index_am_oid()))
		return;

	old = MemoryContextSwitchTo(estate->es_query_cxt);
	prepare_node(query_desc->planstate);
	foreach(lc, estate->es_subplanstates)
	{
		prepare_node(lfirst(lc));
	}
	MemoryContextSwitchTo(old);
}

#endif							/* !LSM_CORE_ASKS_FOR_EQUALITY */
