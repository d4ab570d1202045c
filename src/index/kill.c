/*-------------------------------------------------------------------------
 *
 * kill.c
 *	  Entries of dead rows that a scan has met.
 *
 * They leave the memtable at once, where that is allowed (prune.c), or are
 * deleted together at the scan's end, or when they are many (tombstone.c).
 *
 * Standbys have to know who deleted the rows: their snapshots that still see
 * these are in the way.  A transaction that is too new would cancel queries
 * that lose nothing, hot_standby_feedback or not.  An lsm table tells who it
 * was.  A heap table is asked as its own pruning asks it.
 *
 * Locking: a share lock of one heap page at a time; for the rest, as prune.c
 * and tombstone.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/index.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "index/scan.h"

/*
 * The newest transaction that deleted a row of the chain that begins at the
 * TID, all of whose rows are dead; invalid if none did, or if whoever pruned
 * the chain has told the standbys.  Of a TID that has become another row's
 * meanwhile it may be anything: VACUUM has been there, and the entry is not
 * deleted (tombstone.c).
 */
static TransactionId
heap_chain_deleter(Relation table, ItemPointer tid)
{
	Buffer		buffer = ReadBuffer(table, ItemPointerGetBlockNumber(tid));
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);
	TransactionId deleter = InvalidTransactionId;
	TransactionId inserter = InvalidTransactionId;
	Page		page;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	while (offset >= FirstOffsetNumber && offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleHeader row;

		if (ItemIdIsRedirected(item) && !TransactionIdIsValid(inserter))
		{
			offset = ItemIdGetRedirect(item);
			item = PageGetItemId(page, offset);
		}
		if (!ItemIdIsNormal(item))
			break;
		row = (HeapTupleHeader) PageGetItem(page, item);
		if (TransactionIdIsValid(inserter) &&
			!TransactionIdEquals(inserter, HeapTupleHeaderGetXmin(row)))
			break;
		HeapTupleHeaderAdvanceConflictHorizon(row, &deleter);
		if (!HeapTupleHeaderIsHotUpdated(row))
			break;
		offset = ItemPointerGetOffsetNumber(&row->t_ctid);
		inserter = HeapTupleHeaderGetUpdateXid(row);
	}
	UnlockReleaseBuffer(buffer);
	return deleter;
}

/*
 * Of an index of a heap table.  Entries that were read before another VACUUM
 * than this one can no longer be trusted.  Where VACUUM has been since the scan
 * was positioned, or somebody who shares its counter, the scan reads on from a
 * new position, now and then, or a long one would never delete again.
 */
static void
kill_heap_entry(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	LsmTombstones *tombstones = &so->dead.tombstones;
	LsmStamp	now;

	if (scan->heapRelation->rd_tableam != GetHeapamTableAmRoutine())
		return;
	if (tombstones->vacuums != so->index_only.stamp.key_counter)
		lsm_tombstones_forget(tombstones);
	(void) lsm_stamp_peek(so->tree, LSM_INDEX_VACUUM_DIGEST, &now);
	if (now.key_counter != so->index_only.stamp.key_counter)
	{
		if (so->dead.nstale++ % LSM_MAX_TOMBSTONES == 0 && !so->sorts)
			so->reposition = true;
		return;
	}
	tombstones->tids_reused = true;
	tombstones->vacuums = so->index_only.stamp.key_counter;
	lsm_tombstones_add(tombstones, lsm_buffer_slice(&so->position.current),
					   heap_chain_deleter(scan->heapRelation, tid));
}

void
lsm_write_killed(LsmScan *so)
{
	if (so->dead.tombstones.n > 0)
		lsm_tombstones_write(&so->dead.tombstones, so->tree);
}

/* Of an index of an lsm table */
static void
kill_entry(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	TransactionId xid;

	if (so->one_row.try_directory)
		lsm_row_directory_forget(so->tree, so->one_row.probe.digest, tid);
	if (!lsm_notes_get_deleter(scan->heapRelation, tid, &xid))
		return;
	if (!lsm_tree_prune(so->tree, lsm_buffer_slice(&so->position.current), xid))
		lsm_tombstones_add(&so->dead.tombstones, lsm_buffer_slice(&so->position.current), xid);
}

#ifdef USE_ASSERT_CHECKING
/*
 * See scan.h.  A bitmap scan does not know the table, which its executor node
 * has open.  Entries of a heap table's dead rows do not come back.
 */
void
lsm_doubt_gap(void *arg, LsmSlice key)
{
	IndexScanDesc scan = arg;
	Oid			table_id = IndexGetRelation(RelationGetRelid(scan->indexRelation), false);
	Relation	table = table_open(table_id, NoLock);
	ItemPointerData tid;

	lsm_decode_tid(key, &tid);
	if (!lsm_tids_are_stable(table))
		lsm_opinion_differ(((LsmScan *) scan->opaque)->tree, "lsm_gaps_find()", key,
						   "it has an entry");
	lsm_table_doubt_dead(table, &tid, "lsm_gaps_find()");
	table_close(table, NoLock);
}
#endif

void
lsm_kill_entry(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;

	if (scan->xactStartedInRecovery)
		return;
	Assert(lsm_is_row_tid(tid));
	lsm_copy_current(so);
	LSM_DOUBT(so->dead.stable_tids, lsm_table_doubt_dead(scan->heapRelation, tid, "lsm_kill_entry()"));
	if (so->dead.stable_tids)
		kill_entry(scan, tid);
	else
		kill_heap_entry(scan, tid);
	if (lsm_tombstones_full(&so->dead.tombstones))
		lsm_write_killed(so);
}
