/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Reading the table for an index: build and validation.
 *
 * An index needs an entry for every version that someone may still see, under
 * the version's own TID.  Which those are, whom to wait for and what counts as
 * a live row is decided as in heapam_index_build_range_scan; there are no
 * HOT chains to care for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "table/table.h"

/* What to do about a version; see judge() */
typedef struct Verdict
{
	bool		index_it;
	bool		alive;			/* for the uniqueness check */
	bool		count;			/* in reltuples */
	TransactionId xwait;		/* valid: wait for it and judge again */
} Verdict;

/*
 * Judge a version without a snapshot.  `unique`: indexing a row whose
 * transaction runs could report, or miss, a duplicate.
 */
static Verdict
judge(Relation rel, const LsmRow *row, TransactionId OldestXmin, bool anyvisible,
	  bool unique)
{
	Verdict		v = {false, false, false, InvalidTransactionId};

	switch (lsm_row_vacuum_status(row, OldestXmin))
	{
		case HEAPTUPLE_DEAD:
			break;
		case HEAPTUPLE_LIVE:
			v.index_it = v.alive = v.count = true;
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			v.index_it = true;	/* for old snapshots */
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			v.index_it = v.alive = true;
			v.count = anyvisible || TransactionIdIsCurrentTransactionId(row->xmin);
			if (!v.count)
			{
				elog(WARNING, "concurrent insert in progress within table \"%s\"",
					 RelationGetRelationName(rel));
				if (unique)
					v.xwait = row->xmin;
			}
			break;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			v.index_it = true;
			v.count = anyvisible || !TransactionIdIsCurrentTransactionId(row->xmax);
			if (v.count && !anyvisible)
			{
				elog(WARNING, "concurrent delete in progress within table \"%s\"",
					 RelationGetRelationName(rel));
				if (unique)
					v.xwait = row->xmax;
			}
			break;
	}
	return v;
}

/*
 * Judge until there is no one to wait for.  After a wait the version is read
 * again, into *value: its header may have changed meanwhile.
 */
static Verdict
judge_and_wait(Relation rel, uint64 packed, LsmRow *row, StringInfo value,
			   TransactionId OldestXmin, bool anyvisible, bool unique)
{
	for (;;)
	{
		Verdict		v = judge(rel, row, OldestXmin, anyvisible, unique);
		ItemPointerData tid;

		if (!TransactionIdIsValid(v.xwait))
			return v;
		lsm_tid_unpack(packed, &tid);
		XactLockTableWait(v.xwait, rel, &tid, XLTW_InsertIndexUnique);
		CHECK_FOR_INTERRUPTS();
		if (!lsm_fetch_row(rel, lsm_table_tree(rel), packed, value, row))
		{
			v.index_it = v.alive = v.count = false;
			return v;
		}
	}
}

double
lsm_index_build_range_scan(Relation table_rel, Relation index_rel,
						   IndexInfo *index_info, bool allow_sync, bool anyvisible,
						   bool progress, BlockNumber start_blockno,
						   BlockNumber numblocks, IndexBuildCallback callback,
						   void *callback_state, TableScanDesc sscan)
{
	LsmTableScan *scan;
	bool		unique = index_info->ii_Unique || index_info->ii_ExclusionOps != NULL;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	double		reltuples = 0;
	ExprState  *predicate;
	TupleTableSlot *slot;
	EState	   *estate;
	ExprContext *econtext;
	Snapshot	snapshot;
	bool		own_snapshot = false;
	TransactionId OldestXmin = InvalidTransactionId;
	BlockNumber reported = InvalidBlockNumber;
	StringInfoData value;
	uint64		packed;
	LsmRow		row;

	Assert(OidIsValid(index_rel->rd_rel->relam));
	Assert(!(anyvisible && unique));

	estate = CreateExecutorState();
	econtext = GetPerTupleExprContext(estate);
	slot = table_slot_create(table_rel, NULL);
	econtext->ecxt_scantuple = slot;
	predicate = ExecPrepareQual(index_info->ii_Predicate, estate);
	initStringInfo(&value);

	/*
	 * A normal build indexes what anyone may see, a concurrent one what its
	 * snapshot sees.  A parallel one has its scan, and snapshot, already.
	 */
	if (!IsBootstrapProcessingMode() && !index_info->ii_Concurrent)
		OldestXmin = GetOldestNonRemovableTransactionId(table_rel);
	if (!sscan)
	{
		if (TransactionIdIsValid(OldestXmin))
			snapshot = SnapshotAny;
		else
		{
			snapshot = RegisterSnapshot(GetTransactionSnapshot());
			own_snapshot = true;
		}
		sscan = table_beginscan_strat(table_rel, snapshot, 0, NULL, true, allow_sync);
	}
	else
		snapshot = sscan->rs_snapshot;
	scan = (LsmTableScan *) sscan;
	Assert(snapshot == SnapshotAny || IsMVCCSnapshot(snapshot));
	Assert((snapshot == SnapshotAny) == TransactionIdIsValid(OldestXmin));
	Assert(snapshot == SnapshotAny || !anyvisible);

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL,
									 lsm_scan_total_blocks(scan));
	if (start_blockno != 0 || numblocks != InvalidBlockNumber)
	{
		uint64		end = numblocks == InvalidBlockNumber ? scan->nblocks :
		Min((uint64) start_blockno + numblocks, scan->nblocks);

		Assert(!allow_sync);
		if (end <= start_blockno)
			lsm_scan_set_range(scan, 1, 0);
		else
			lsm_scan_set_range(scan, (uint64) start_blockno << 16,
							   ((end - 1) << 16) | 0xFFFF);
	}

	while (lsm_scan_step(scan, ForwardScanDirection, &packed, &row))
	{
		Verdict		v;

		if (progress && reported != lsm_scan_blocks_done(scan))
		{
			reported = lsm_scan_blocks_done(scan);
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, reported);
		}
		if (snapshot == SnapshotAny)
			v = judge_and_wait(table_rel, packed, &row, &value, OldestXmin,
							   anyvisible, unique);
		else
		{
			v.index_it = v.alive = v.count = lsm_row_visible(&row, snapshot);
			lsm_check_conflict_out(table_rel, &row, v.index_it, snapshot);
		}
		if (v.count)
			reltuples += 1;
		if (!v.index_it)
			continue;

		MemoryContextReset(econtext->ecxt_per_tuple_memory);
		lsm_row_store(table_rel, &row, packed, slot);
		if (predicate != NULL && !ExecQual(predicate, econtext))
			continue;
		FormIndexDatum(index_info, slot, estate, values, isnull);
		callback(index_rel, &slot->tts_tid, values, isnull, v.alive, callback_state);
	}

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE,
									 lsm_scan_total_blocks(scan));
	table_endscan(sscan);
	if (own_snapshot)
		UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	FreeExecutorState(estate);
	pfree(value.data);

	/* these pointed into the estate */
	index_info->ii_ExpressionsState = NIL;
	index_info->ii_PredicateState = NULL;
	return reltuples;
}

/* The next TID that the index has; false: no more. */
static bool
next_indexed(ValidateIndexState *state, uint64 *packed)
{
	ItemPointerData tid;
	Datum		datum;
	bool		isnull;

	if (!tuplesort_getdatum(state->tuplesort, true, &datum, &isnull, NULL))
		return false;
	Assert(!isnull);
	itemptr_decode(&tid, DatumGetInt64(datum));
	*packed = lsm_tid_pack(&tid);
	return true;
}

/*
 * lsm_index_validate_scan - second pass of CREATE INDEX CONCURRENTLY: insert
 * entries for the rows that the snapshot sees and the index does not have.
 *
 * state->tuplesort has the TIDs in the index, sorted; so is our scan: a merge.
 */
void
lsm_index_validate_scan(Relation table_rel, Relation index_rel, IndexInfo *index_info,
						Snapshot snapshot, ValidateIndexState *state)
{
	TableScanDesc sscan;
	LsmTableScan *scan;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	ExprState  *predicate;
	TupleTableSlot *slot;
	EState	   *estate;
	ExprContext *econtext;
	BlockNumber reported = InvalidBlockNumber;
	uint64		indexed = 0;
	bool		more;
	uint64		packed;
	LsmRow		row;

	Assert(OidIsValid(index_rel->rd_rel->relam));
	estate = CreateExecutorState();
	econtext = GetPerTupleExprContext(estate);
	slot = table_slot_create(table_rel, NULL);
	econtext->ecxt_scantuple = slot;
	predicate = ExecPrepareQual(index_info->ii_Predicate, estate);

	sscan = table_beginscan_strat(table_rel, snapshot, 0, NULL, true, false);
	scan = (LsmTableScan *) sscan;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, lsm_scan_total_blocks(scan));
	more = next_indexed(state, &indexed);

	while (lsm_scan_step(scan, ForwardScanDirection, &packed, &row))
	{
		bool		visible = lsm_row_visible(&row, snapshot);

		lsm_check_conflict_out(table_rel, &row, visible, snapshot);
		if (!visible)
			continue;
		state->htups += 1;
		if (reported != lsm_scan_blocks_done(scan))
		{
			reported = lsm_scan_blocks_done(scan);
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, reported);
		}

		while (more && indexed < packed)
			more = next_indexed(state, &indexed);
		if (more && indexed == packed)
			continue;

		MemoryContextReset(econtext->ecxt_per_tuple_memory);
		lsm_row_store(table_rel, &row, packed, slot);
		if (predicate != NULL && !ExecQual(predicate, econtext))
			continue;
		FormIndexDatum(index_info, slot, estate, values, isnull);
		index_insert(index_rel, values, isnull, &slot->tts_tid, table_rel,
					 index_info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 false, index_info);
		state->tups_inserted += 1;
	}

	table_endscan(sscan);
	ExecDropSingleTupleTableSlot(slot);
	FreeExecutorState(estate);
	index_info->ii_ExpressionsState = NIL;
	index_info->ii_PredicateState = NULL;
}
