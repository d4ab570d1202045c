/*-------------------------------------------------------------------------
 *
 * index_only.c
 *	  Index-only scans: whether an entry can still be trusted.
 *
 * No lock is held between calls; the metapage is not pinned (lsm_guard_entry).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "storage/predicate.h"
#include "utils/memutils.h"

#include "am/row_notes.h"
#include "index/scan.h"

static void
note_known(LsmScan *so, BlockNumber block)
{
	LsmKnownBlocks *word;

	if (so->index_only.known == NULL)
		so->index_only.known = MemoryContextAllocZero(so->context,
												 LSM_KNOWN_WORDS * sizeof(LsmKnownBlocks));
	word = &so->index_only.known[(block / LSM_BLOCKS_PER_WORD) % LSM_KNOWN_WORDS];
	if (word->number != block / LSM_BLOCKS_PER_WORD || word->walk != so->index_only.walk)
	{
		word->number = block / LSM_BLOCKS_PER_WORD;
		word->walk = so->index_only.walk;
		word->bits = 0;
	}
	word->bits |= UINT64CONST(1) << (block % LSM_BLOCKS_PER_WORD);
}

void
lsm_guard_take_stamp(LsmScan *so)
{
	so->index_only.walk++;
	if (so->index_only.guarded)
		lsm_stamp_take(so->tree, LSM_INDEX_VACUUM_DIGEST, &so->index_only.stamp);
	else if (!so->dead.stable_tids)	/* kill_heap_entry() needs the counter only */
		(void) lsm_stamp_peek(so->tree, LSM_INDEX_VACUUM_DIGEST, &so->index_only.stamp);
}

/* See scan.h. */
bool
lsm_look_at_row(IndexScanDesc scan, ItemPointer entry_tid, LsmLook look, bool *dead)
{
	LsmScan    *so = scan->opaque;
	IndexFetchTableData *fetch = scan->xs_heapfetch;
	ItemPointerData tid = *entry_tid;
	bool		call_again = false;
	bool		visible;

	if (so->index_only.slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(so->context);

		so->index_only.slot = table_slot_create(scan->heapRelation, NULL);
		if (!so->dead.stable_tids)
			so->index_only.fetch = table_index_fetch_begin(scan->heapRelation, SO_NONE);
		MemoryContextSwitchTo(old);
	}
	if (so->dead.stable_tids)
		((LsmRowFetch *) fetch)->looking = look;
	else
		fetch = so->index_only.fetch;
	visible = table_index_fetch_tuple(fetch, &tid, scan->xs_snapshot, so->index_only.slot, &call_again,
									  dead);
	if (so->dead.stable_tids)
		((LsmRowFetch *) fetch)->looking = LSM_LOOK_NOT;
	if (look == LSM_LOOK_VISIBLE)
		ExecClearTuple(so->index_only.slot);
	return visible;
}

/*
 * May the entry be given to an index-only scan?  The executor will look at the
 * visibility map and, if the block is all-visible, believe the entry.  But
 * VACUUM may have deleted the entry since we read it, then freed the dead row
 * and marked the block all-visible.  nbtree keeps VACUUM from finishing, by a
 * pin on the leaf page; we must not block anyone between calls.
 *
 * Instead we look first.  If the block is all-visible now and VACUUM has not
 * finished deleting entries since before we read this one, then its row was
 * not among those: it is visible.  Otherwise look at the row itself.  Either
 * way the row is visible to our snapshot and stays so, whatever the executor
 * finds in the map a moment later.
 *
 * What was found of a block of an lsm table holds for its other entries, until
 * the scan is positioned anew: they name rows that all saw then, and that our
 * snapshot goes on to see, for row numbers are not used again.
 *
 * A serializable transaction locks before it looks: who ends a row clears the
 * map before he looks for such locks.
 *
 * lsm_guard_block() is the first of these two looks; false: nothing is known.
 *
 * *dead: false was returned, and the row is dead to everyone.
 */
bool
lsm_guard_block(IndexScanDesc scan, BlockNumber block)
{
	LsmScan    *so = scan->opaque;
	LsmStamp	now;

	if (so->index_only.serializable)
		PredicateLockPage(scan->heapRelation, block, scan->xs_snapshot);
	else if (lsm_guard_knows(so, block))
		return true;
	if (!VM_ALL_VISIBLE(scan->heapRelation, block, &so->index_only.vm_buffer))
		return false;
	pg_read_barrier();			/* the map before the counter */
	(void) lsm_stamp_peek(so->tree, LSM_INDEX_VACUUM_DIGEST, &now);
	if (now.key_counter == so->index_only.stamp.key_counter)
	{
		if (so->dead.stable_tids)
			note_known(so, block);
		return true;
	}
	so->reposition = true;		/* with a new stamp */
	return false;
}

bool
lsm_guard_entry(IndexScanDesc scan, ItemPointer tid, bool *dead)
{
	*dead = false;
	if (!lsm_guard_block(scan, ItemPointerGetBlockNumber(tid)))
		return lsm_look_at_row(scan, tid, LSM_LOOK_VISIBLE, dead);
	lsm_doubt_bit(scan, tid);
	return true;
}
