/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Reading the table for an index: build and validation.
 *
 * An index needs an entry for every row of which someone may still see a version,
 * with the columns of its newest one.  Which those are, whom to wait for and what
 * counts as a live row is decided as in heapam_index_build_range_scan.  A row's
 * versions are to us what a HOT chain is to heap: all have the same columns in
 * every index that there was when they were written, but not in one that is made
 * now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "table/versions.h"

/* What to do about a version; see judge() */
typedef struct Verdict
{
	bool		index_it;
	bool		alive;			/* for the uniqueness check */
	bool		count;			/* in reltuples */
	TransactionId xwait;		/* valid: wait for it and judge again */
} Verdict;

/* What is needed to judge rows without a snapshot */
typedef struct Judge
{
	Relation	rel;
	IndexInfo  *index_info;
	TransactionId OldestXmin;
	bool		anyvisible;
	bool		unique;
	Buffer		vm_buffer;
	StringInfoData value;		/* a row that was read again */
} Judge;

static void
begin_judging(Judge *judge, Relation rel, IndexInfo *index_info, TransactionId OldestXmin,
			  bool anyvisible)
{
	judge->rel = rel;
	judge->index_info = index_info;
	judge->OldestXmin = OldestXmin;
	judge->anyvisible = anyvisible;
	judge->unique = index_info->ii_Unique || index_info->ii_ExclusionOps != NULL;
	judge->vm_buffer = InvalidBuffer;
	initStringInfo(&judge->value);
	Assert(!(anyvisible && judge->unique));
}

static void
end_judging(Judge *judge)
{
	if (BufferIsValid(judge->vm_buffer))
		ReleaseBuffer(judge->vm_buffer);
	pfree(judge->value.data);
}

/*
 * Judge a version without a snapshot.  With a unique index, indexing a row whose
 * transaction runs could report, or miss, a duplicate.
 *
 * Horizons go backward: VACUUM takes no notice of transactions in other
 * databases, and may have set the bit of a block with a row that was dead to all
 * and has stayed in its file; the snapshot that we run under holds such a row
 * to be recently dead.  The bit promises that no entry names it.  It is still
 * true that nobody sees the row: who ends one takes the bit away.  And nobody
 * does so, or sets one, meanwhile: we hold a lock that conflicts with both.
 */
static Verdict
judge_version(Judge *judge, uint64 row, const LsmRow *version, HTSV_Result status)
{
	Verdict		v = {false, false, false, InvalidTransactionId};

	switch (status)
	{
		case HEAPTUPLE_DEAD:
			break;
		case HEAPTUPLE_LIVE:
			v.index_it = v.alive = v.count = true;
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			/* for old snapshots */
			v.index_it = !VM_ALL_VISIBLE(judge->rel, (BlockNumber) (row >> 16), &judge->vm_buffer);
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			v.index_it = v.alive = true;
			v.count = judge->anyvisible || TransactionIdIsCurrentTransactionId(version->xmin);
			if (!v.count)
			{
				elog(WARNING, "concurrent insert in progress within table \"%s\"",
					 RelationGetRelationName(judge->rel));
				if (judge->unique)
					v.xwait = version->xmin;
			}
			break;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			v.index_it = true;
			v.count = judge->anyvisible || !TransactionIdIsCurrentTransactionId(version->xmax);
			if (v.count && !judge->anyvisible)
			{
				elog(WARNING, "concurrent delete in progress within table \"%s\"",
					 RelationGetRelationName(judge->rel));
				if (judge->unique)
					v.xwait = version->xmax;
			}
			break;
	}
	return v;
}

/*
 * The row has an entry with the columns of its newest version.  Who sees an older
 * one would look for it under those of that version, so must not use the index
 * (indcheckxmin).  If the update that ended the older one runs, which of them
 * stays is not known: wait for the xid that is returned.
 */
static TransactionId
look_at_older(Judge *judge, uint64 row, LsmSlice value, const LsmRow *newest)
{
	LsmVersions versions;
	LsmRow		older;
	uint64		packed;

	lsm_versions_begin(&versions, judge->rel, row, value);
	if (!lsm_versions_next(&versions, false, &older, &packed) ||
		older.version != newest->version)
		return newest->xmin;	/* it has just been rolled back */
	if (!lsm_versions_next(&versions, false, &older, &packed))
		return InvalidTransactionId;
	switch (lsm_row_vacuum_status(&older, judge->OldestXmin))
	{
		case HEAPTUPLE_DEAD:
			return InvalidTransactionId;
		case HEAPTUPLE_RECENTLY_DEAD:
			break;
		default:
			/* or it has just been rolled back, and the row is to be read again */
			if (!TransactionIdIsCurrentTransactionId(older.xmax))
				return older.xmax;
			break;
	}
	judge->index_info->ii_BrokenHotChain = true;
	return InvalidTransactionId;
}

/*
 * Judge the row by its newest version, until there is no one to wait for.  After
 * a wait the row is read again: its header may have changed meanwhile.
 */
static Verdict
judge_row(Judge *judge, uint64 row, LsmSlice value, LsmRow *version)
{
	for (;;)
	{
		TransactionId deleter;
		HTSV_Result status = lsm_versions_vacuum_status(judge->rel, row, value,
														judge->OldestXmin, version, &deleter);
		Verdict		v = judge_version(judge, row, version, status);
		ItemPointerData tid;

		if (v.index_it && !TransactionIdIsValid(v.xwait) && !judge->anyvisible &&
			unlikely(lsm_value_tag(value) != LSM_TAG_PUT))
			v.xwait = look_at_older(judge, row, value, version);
		if (!TransactionIdIsValid(v.xwait))
			return v;
		lsm_tid_unpack(row, &tid);
		XactLockTableWait(v.xwait, judge->rel, &tid, XLTW_InsertIndexUnique);
		CHECK_FOR_INTERRUPTS();
		if (!lsm_fetch_versions(lsm_table_tree(judge->rel), row, &judge->value))
			return (Verdict) {false, false, false, InvalidTransactionId};
		value = lsm_slice(judge->value.data, judge->value.len);
	}
}

/* What is needed to form index entries from rows */
typedef struct EntryMaker
{
	IndexInfo  *index_info;
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *predicate;
	TupleTableSlot *slot;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
} EntryMaker;

static void
begin_entries(EntryMaker *maker, Relation table_rel, IndexInfo *index_info)
{
	maker->index_info = index_info;
	maker->estate = CreateExecutorState();
	maker->econtext = GetPerTupleExprContext(maker->estate);
	maker->slot = table_slot_create(table_rel, NULL);
	maker->econtext->ecxt_scantuple = maker->slot;
	maker->predicate = ExecPrepareQual(index_info->ii_Predicate, maker->estate);
}

/*
 * The row's entry into values and isnull; false: the index does not want the
 * row.
 */
static bool
make_entry(EntryMaker *maker, Relation table_rel, const LsmRow *row, uint64 packed)
{
	MemoryContextReset(maker->econtext->ecxt_per_tuple_memory);
	lsm_row_store(table_rel, row, packed, maker->slot);
	if (maker->predicate != NULL && !ExecQual(maker->predicate, maker->econtext))
		return false;
	FormIndexDatum(maker->index_info, maker->slot, maker->estate,
				   maker->values, maker->isnull);
	return true;
}

static void
end_entries(EntryMaker *maker)
{
	ExecDropSingleTupleTableSlot(maker->slot);
	FreeExecutorState(maker->estate);

	/* these pointed into the estate */
	maker->index_info->ii_ExpressionsState = NIL;
	maker->index_info->ii_PredicateState = NULL;
}

/*
 * Begin the scan of a build.
 *
 * A normal build indexes what anyone may see, a concurrent one what its
 * snapshot sees: then *own_snapshot has to be unregistered.  OldestXmin: valid
 * for a normal build.  The scan is not synchronized, whatever the caller
 * allows: it may be limited to some blocks.
 */
static TableScanDesc
begin_build_scan(Relation table_rel, TransactionId OldestXmin, Snapshot *own_snapshot)
{
	Snapshot	snapshot = &lsm_snapshot_any;

	if (!TransactionIdIsValid(OldestXmin))
		snapshot = *own_snapshot = RegisterSnapshot(GetTransactionSnapshot());
	return table_beginscan_strat(table_rel, snapshot, 0, NULL, true, false);
}

/* Only the rows of some TID blocks (BRIN). */
static void
limit_to_blocks(LsmTableScan *scan, BlockNumber start, BlockNumber numblocks)
{
	uint64		end = scan->nblocks;

	if (start == 0 && numblocks == InvalidBlockNumber)
		return;
	if (numblocks != InvalidBlockNumber)
		end = Min((uint64) start + numblocks, end);
	if (end <= start)
		lsm_scan_set_range(scan, 1, 0);
	else
		lsm_scan_set_range(scan, (uint64) start << 16, ((end - 1) << 16) | 0xFFFF);
}

static void
report_blocks_done(LsmTableScan *scan, BlockNumber *reported)
{
	BlockNumber done = lsm_scan_blocks_done(scan);

	if (*reported == done)
		return;
	*reported = done;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, done);
}

/* What a build hands entries to */
typedef struct Build
{
	Relation	table_rel;
	Relation	index_rel;
	EntryMaker	maker;
	IndexBuildCallback callback;
	void	   *callback_state;
} Build;

static inline void
hand_over(Build *build, uint64 row, const LsmRow *version, bool alive)
{
	EntryMaker *maker = &build->maker;

	if (make_entry(maker, build->table_rel, version, row))
		build->callback(build->index_rel, &maker->slot->tts_tid, maker->values,
						maker->isnull, alive, build->callback_state);
}

/*
 * The older versions that somebody may see, for a summary: it serves all
 * snapshots, too many values do it no harm, and it is not made anew when the
 * older versions are gone.
 */
static void
hand_over_older(Build *build, Judge *judge, uint64 row, LsmSlice value, const LsmRow *newest)
{
	LsmVersions versions;
	LsmRow		version;
	uint64		packed;

	lsm_versions_begin(&versions, build->table_rel, row, value);
	while (lsm_versions_next(&versions, false, &version, &packed))
	{
		Verdict		v;

		if (version.version >= newest->version)
			continue;
		v = judge_version(judge, row, &version,
						  lsm_row_vacuum_status(&version, judge->OldestXmin));
		if (!v.index_it)
			break;
		hand_over(build, row, &version, v.alive);
	}
}

/*
 * Hand the entries of all rows of the scan to the callback; returns the number
 * of live rows.
 */
static double
build_from_scan(Build *build, IndexInfo *index_info, LsmTableScan *scan,
				TransactionId OldestXmin, bool anyvisible, bool progress)
{
	Snapshot	snapshot = scan->base.rs_snapshot;
	BlockNumber reported = InvalidBlockNumber;
	double		reltuples = 0;
	Judge		judge;
	uint64		row;
	LsmSlice	value;

	begin_judging(&judge, build->table_rel, index_info, OldestXmin, anyvisible);
	begin_entries(&build->maker, build->table_rel, index_info);
	while (lsm_scan_step(scan, ForwardScanDirection, &row, &value))
	{
		LsmRow		version;
		uint64		packed;
		Verdict		v;

		if (progress)
			report_blocks_done(scan, &reported);
		if (snapshot->snapshot_type == SNAPSHOT_ANY)
			v = judge_row(&judge, row, value, &version);
		else
			v.index_it = v.alive = v.count =
				lsm_scan_visible(scan, snapshot, row, value, &version, &packed);
		if (v.count)
			reltuples += 1;
		if (v.index_it)
			hand_over(build, row, &version, v.alive);
		if (anyvisible && unlikely(lsm_value_tag(value) != LSM_TAG_PUT))
			hand_over_older(build, &judge, row, value, &version);
	}
	end_entries(&build->maker);
	end_judging(&judge);
	return reltuples;
}

double
lsm_index_build_range_scan(Relation table_rel, Relation index_rel,
						   IndexInfo *index_info, bool allow_sync, bool anyvisible,
						   bool progress, BlockNumber start_blockno,
						   BlockNumber numblocks, IndexBuildCallback callback,
						   void *callback_state, TableScanDesc sscan)
{
	Build		build = {
		.table_rel = table_rel,
		.index_rel = index_rel,
		.callback = callback,
		.callback_state = callback_state
	};
	LsmTableScan *scan;
	Snapshot	own_snapshot = NULL;
	TransactionId OldestXmin = InvalidTransactionId;
	bool		any PG_USED_FOR_ASSERTS_ONLY;
	double		reltuples;

	Assert(OidIsValid(index_rel->rd_rel->relam));
	lsm_tree_require_files(lsm_table_tree(table_rel));
	if (!IsBootstrapProcessingMode() && !index_info->ii_Concurrent)
		OldestXmin = lsm_tree_horizon(lsm_table_tree(table_rel));

	/* a parallel build has its scan, and snapshot, already */
	if (!sscan)
		sscan = begin_build_scan(table_rel, OldestXmin, &own_snapshot);
	scan = (LsmTableScan *) sscan;
	any = sscan->rs_snapshot->snapshot_type == SNAPSHOT_ANY;
	Assert(any || IsMVCCSnapshot(sscan->rs_snapshot));
	Assert(any == TransactionIdIsValid(OldestXmin));
	Assert(any || !anyvisible);

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL,
									 lsm_scan_total_blocks(scan));
	limit_to_blocks(scan, start_blockno, numblocks);
	reltuples = build_from_scan(&build, index_info, scan, OldestXmin, anyvisible, progress);
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE,
									 lsm_scan_total_blocks(scan));
	table_endscan(sscan);
	if (own_snapshot)
		UnregisterSnapshot(own_snapshot);
	return reltuples;
}

/* The next TID that the index has; false: no more. */
static bool
next_indexed(ValidateIndexState *state, uint64 *packed)
{
	ItemPointerData tid;
	Datum		datum;
	bool		isnull;

	if (!tuplesort_getdatum(state->tuplesort, true, true, &datum, &isnull, NULL))
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
	EntryMaker	maker;
	BlockNumber reported = InvalidBlockNumber;
	uint64		indexed = 0;
	bool		more;
	uint64		row;
	LsmSlice	value;

	Assert(OidIsValid(index_rel->rd_rel->relam));
	lsm_tree_require_files(lsm_table_tree(table_rel));
	begin_entries(&maker, table_rel, index_info);
	sscan = table_beginscan_strat(table_rel, snapshot, 0, NULL, true, false);
	scan = (LsmTableScan *) sscan;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, lsm_scan_total_blocks(scan));
	more = next_indexed(state, &indexed);

	while (lsm_scan_step(scan, ForwardScanDirection, &row, &value))
	{
		LsmRow		version;
		uint64		packed;

		if (!lsm_scan_visible(scan, snapshot, row, value, &version, &packed))
			continue;
		state->htups += 1;
		report_blocks_done(scan, &reported);

		while (more && indexed < row)
			more = next_indexed(state, &indexed);
		if ((more && indexed == row) || !make_entry(&maker, table_rel, &version, row))
			continue;
		index_insert(index_rel, maker.values, maker.isnull, &maker.slot->tts_tid,
					 table_rel,
					 index_info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 false, index_info);
		state->tups_inserted += 1;
	}

	table_endscan(sscan);
	end_entries(&maker);
}
