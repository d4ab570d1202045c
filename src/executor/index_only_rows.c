/*-------------------------------------------------------------------------
 *
 * index_only_rows.c
 *	  Index-only scans of lsm_index: values go from the entry straight into the
 *	  executor's slot.
 *
 * The access method's own way is a tuple, which the executor takes apart again,
 * after it has looked at the visibility map that the index has looked at.  Here
 * the node asks the index first.  Whatever is not the plain case (the first
 * row, the end of a batch, NULLs, blocks that are not all-visible, a row that
 * EvalPlanQual puts in) is left to the node's own function, for that row.  Both
 * leave the scan at the entry returned last, so either can go on after the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/nodeIndexonlyscan.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"

#include "executor/hooks.h"
#include "index/index.h"

/* ExecIndexOnlyScan(), which is static; NULL until it was asked for */
static ExecProcNodeMtd core_proc = NULL;

/* The scan's next row is in the slot; false: ask the node's own function. */
static inline bool
next_row(IndexOnlyScanState *node, ScanDirection direction, TupleTableSlot *slot)
{
	(void) ExecClearTuple(slot);
	if (!lsm_index_next_row(node->ioss_ScanDesc, direction, slot->tts_values))
		return false;
	memset(slot->tts_isnull, false, slot->tts_tupleDescriptor->natts * sizeof(bool));
	(void) ExecStoreVirtualTuple(slot);
	return true;
}

/* As ExecScan() with what ExecIndexOnlyScan() gives it */
static TupleTableSlot *
index_only_rows(PlanState *state)
{
	IndexOnlyScanState *node = castNode(IndexOnlyScanState, state);
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *econtext = state->ps_ExprContext;
	ScanDirection direction = state->state->es_direction;

	if (ScanDirectionIsBackward(castNode(IndexOnlyScan, state->plan)->indexorderdir))
		direction = ScanDirectionIsForward(direction) ? BackwardScanDirection : ForwardScanDirection;
	if (state->state->es_epq_active != NULL || node->ioss_ScanDesc == NULL ||
		(node->ioss_NumRuntimeKeys != 0 && !node->ioss_RuntimeKeysReady))
		return core_proc(state);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (state->qual == NULL && state->ps_ProjInfo == NULL)
			return next_row(node, direction, slot) ? slot : core_proc(state);

		ResetExprContext(econtext);
		if (!next_row(node, direction, slot))
			return core_proc(state);
		econtext->ecxt_scantuple = slot;
		if (ExecQual(state->qual, econtext))
			return state->ps_ProjInfo != NULL ? ExecProject(state->ps_ProjInfo) : slot;
		InstrCountFiltered1(node, 1);
	}
}

/* Are columns of the index as wide as those of the slot? */
static bool
slot_fits(Relation index, const TupleTableSlot *slot)
{
	TupleDesc	from = RelationGetDescr(index);
	TupleDesc	to = slot->tts_tupleDescriptor;

	if (slot->tts_ops != &TTSOpsVirtual || from->natts != to->natts)
		return false;
	for (int i = 0; i < to->natts; i++)
	{
		if (TupleDescAttr(from, i)->attlen != TupleDescAttr(to, i)->attlen ||
			TupleDescAttr(from, i)->attbyval != TupleDescAttr(to, i)->attbyval)
			return false;
	}
	return true;
}

/*
 * Which function core gives to a node.  What is found in a node that is there
 * may be another extension's, so a node is made for this: one without columns
 * and conditions, which opens no index and ends with the executor's state.
 */
static ExecProcNodeMtd
find_core_proc(const IndexOnlyScanState *node)
{
	const IndexOnlyScan *plan = castNode(IndexOnlyScan, node->ss.ps.plan);
	EState	   *estate = node->ss.ps.state;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	IndexOnlyScan *bare = makeNode(IndexOnlyScan);
	IndexOnlyScanState *made;

	bare->scan.scanrelid = plan->scan.scanrelid;
	bare->indexid = plan->indexid;
	bare->indextlist = plan->indextlist;
	made = ExecInitIndexOnlyScan(bare, estate, EXEC_FLAG_EXPLAIN_ONLY);
	MemoryContextSwitchTo(old);
	return made->ss.ps.ExecProcNode;
}

/*
 * A node whose function another extension has replaced is left alone.
 */
void
lsm_index_only_rows_prepare(IndexOnlyScanState *node)
{
	PlanState  *state = &node->ss.ps;

	if (node->ioss_RelationDesc == NULL || !lsm_relation_is_index(node->ioss_RelationDesc) ||
		!slot_fits(node->ioss_RelationDesc, node->ss.ss_ScanTupleSlot))
		return;
	if (core_proc == NULL)
		core_proc = find_core_proc(node);
	if (state->ExecProcNodeReal == core_proc)
		ExecSetExecProcNode(state, index_only_rows);
}
