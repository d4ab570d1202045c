/*-------------------------------------------------------------------------
 *
 * evict.c
 *	  Unloading, recycling and dropping control blocks.  Who may do what:
 *	  control.c.
 *
 * Locking: as in control.c.  The control table lock is taken inside
 * LsmTreeShared.lock; while it is held, LsmTreeShared.lock is only acquired
 * conditionally.  Memtables are retired after both are released.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/procarray.h"

#include "tree/control/control.h"
#include "tree/control/control_private.h"
#include "tree/memtable/memtable.h"

/* ----------------------------------------------------------------------
 * unloading and freeing
 * ---------------------------------------------------------------------- */

/*
 * LOADED -> UNLOADED: takes the memtables out, for the caller to retire after
 * it has released its locks.  Returns the number of chunks they have.
 * REQUIRES: ctl->lock exclusive, memtables idle.
 */
static int
control_unload(ControlBlock *block, ControlRetirees *retirees)
{
	LsmTreeShared *ctl = &block->tree;
	uint64		bytes = 0;
	int			n = 0;

	Assert(LWLockHeldByMeInMode(&ctl->lock, LW_EXCLUSIVE));
	Assert(control_memtables_idle(ctl));

	lsm_set_change_begin(ctl);
	if (control_memtable_count(ctl) > 0 || lsm_state_is_loaded(ctl->state))
	{
		if (ctl->memory.active != NULL)
			block->parted[n++] = ctl->memory.active;
		for (int i = ctl->memory.nsealed - 1; i >= 0; i--)
			block->parted[n++] = ctl->memory.sealed[i];
		block->nparted = n;
		for (int i = 0; i < n; i++)
		{
			bytes += pg_atomic_read_u64(&block->parted[i]->bytes);
			retirees->tables[retirees->n++] = block->parted[i];
		}
		Assert(retirees->n <= lengthof(retirees->tables));
	}
	ctl->state = LSM_STATE_UNLOADED;
	ctl->fed = false;
	ctl->memory.active = NULL;
	ctl->memory.nsealed = 0;
	control_close_slots(ctl);
	lsm_set_change_end(ctl);

	return (int) (bytes / LSM_CHUNK_BYTES);
}

void
lsm_control_retire(ControlRetirees *retirees)
{
	for (int i = 0; i < retirees->n; i++)
		lsm_memtable_retire(retirees->tables[i]);
	retirees->n = 0;
}

/*
 * Clear the identity and queue the block for reuse.  REQUIRES: control table
 * lock and ctl->lock exclusive, identity still set in the hash table.
 */
static void
control_block_free(ControlBlock *block, uint64 keyspace_id)
{
	LsmTreeShared *ctl = &block->tree;
	int			index = block - lsm_control->blocks;

	Assert(LWLockHeldByMeInMode(&ctl->lock, LW_EXCLUSIVE));
	Assert(LWLockHeldByMeInMode(lsm_control_lock, LW_EXCLUSIVE));
	if (hash_search(lsm_control_hash, &keyspace_id, HASH_REMOVE, NULL) == NULL)
		elog(PANIC, "lsmam control table is corrupted");
	/* not that of a relation that was dropped, or was rolled back */
	if (ctl->relid_confirmed)
		lsm_former_keep(ctl);
	ctl->life = pg_atomic_add_fetch_u64(&lsm_control->lives, 1);
	pg_atomic_exchange_u64(&ctl->keyspace_id, 0);
	LSM_FULL_BARRIER_AFTER_ATOMIC();
	pg_atomic_fetch_add_u64(&lsm_control->drops, 1);
	block->former_id = keyspace_id;

	block->free_busy = !control_memtables_idle(ctl);
	if (block->free_busy)
		lsm_control->nbusy_free++;
	block->free_epoch = lsm_epoch_advance();
	block->free_next = CONTROL_NONE;
	if (lsm_control->free_last == CONTROL_NONE)
		lsm_control->free_first = index;
	else
		lsm_control->blocks[lsm_control->free_last].free_next = index;
	lsm_control->free_last = index;
}

/*
 * Freed blocks that were busy (being flushed or loaded) when their tree was
 * dropped: take out the memtables of those that are idle by now.
 * REQUIRES: control table lock exclusive.  Returns the number of chunks.
 */
int
lsm_control_reap(ControlRetirees *retirees)
{
	int			nchunks = 0;
	int			i = lsm_control->free_first;

	Assert(LWLockHeldByMeInMode(lsm_control_lock, LW_EXCLUSIVE));
	while (i != CONTROL_NONE && lsm_control->nbusy_free > 0 &&
		   retirees->n + CONTROL_MAX_SET <= lengthof(retirees->tables))
	{
		ControlBlock *block = &lsm_control->blocks[i];
		LsmTreeShared *ctl = &block->tree;

		i = block->free_next;
		if (!block->free_busy ||
			!LWLockConditionalAcquire(&ctl->lock, LW_EXCLUSIVE))
			continue;
		if (control_memtables_idle(ctl))
		{
			nchunks += control_unload(block, retirees);
			block->free_busy = false;
			lsm_control->nbusy_free--;
		}
		LWLockRelease(&ctl->lock);
	}
	return nchunks;
}

/* ----------------------------------------------------------------------
 * least recently used order
 * ---------------------------------------------------------------------- */

typedef struct ControlCandidate
{
	uint64		last_used;
	ControlBlock *block;
} ControlCandidate;

/*
 * The (at most CONTROL_BATCH) least recently used blocks that may be evicted
 * (`evict`) or recycled and were used after `after`, in that order.  Reads
 * without locks: the caller checks again.
 */
static int
control_candidates(ControlCandidate *list, bool evict, uint64 after,
				   LsmTreeShared *except)
{
	int			n = 0;
	int			nused = (int) pg_atomic_read_u32(&lsm_control->nused);

	for (int i = 0; i < nused; i++)
	{
		ControlBlock *block = &lsm_control->blocks[i];
		LsmTreeShared *ctl = &block->tree;
		uint64		last_used = pg_atomic_read_u64(&ctl->last_used);
		int			j;

		if (last_used <= after || ctl == except ||
			pg_atomic_read_u64(&ctl->keyspace_id) == 0)
			continue;
		if (evict ? (!lsm_state_is_loaded(ctl->state) || control_memtable_count(ctl) == 0)
			: pg_atomic_read_u32(&block->pins) != 0)
			continue;
		if (n == CONTROL_BATCH && list[n - 1].last_used <= last_used)
			continue;

		if (n < CONTROL_BATCH)
			n++;
		for (j = n - 1; j > 0 && list[j - 1].last_used > last_used; j--)
			list[j] = list[j - 1];
		list[j].last_used = last_used;
		list[j].block = block;
	}
	return n;
}

/*
 * Free the blocks of some trees that nobody has pinned.  Their logs
 * remain, like after an eviction.  Returns how many.
 * REQUIRES: control table lock exclusive.
 */
int
lsm_control_recycle(ControlRetirees *retirees)
{
	ControlCandidate list[CONTROL_BATCH];
	int			n = control_candidates(list, false, 0, NULL);
	int			nfreed = 0;

	Assert(LWLockHeldByMeInMode(lsm_control_lock, LW_EXCLUSIVE));
	for (int i = 0; i < n; i++)
	{
		ControlBlock *block = list[i].block;
		LsmTreeShared *ctl = &block->tree;
		uint64		keyspace_id;

		if (retirees->n + CONTROL_MAX_SET > lengthof(retirees->tables))
			break;
		if (!LWLockConditionalAcquire(&ctl->lock, LW_EXCLUSIVE))
			continue;
		keyspace_id = pg_atomic_read_u64(&ctl->keyspace_id);
		if (keyspace_id != 0 && lsm_claimed_levels(ctl) == 0 &&
			control_memtables_idle(ctl))
		{
			/* order against lsm_control_pin(): see control.c */
			pg_atomic_exchange_u64(&ctl->keyspace_id, 0);
			LSM_FULL_BARRIER_AFTER_ATOMIC();
			if (pg_atomic_read_u32(&block->pins) == 0)
			{
				/* whoever has a job has the block pinned */
				Assert(pg_atomic_read_u32(&block->jobs) == 0);
				(void) control_unload(block, retirees);
				control_block_free(block, keyspace_id);
				nfreed++;
			}
			else
				pg_atomic_exchange_u64(&ctl->keyspace_id, keyspace_id);
		}
		LWLockRelease(&ctl->lock);
	}
	return nfreed;
}

/*
 * The block was used: see lsm_control_evict().  Cheap enough for every
 * operation, so it leaves small differences alone.
 */
void
lsm_control_touch(LsmTreeShared *ctl)
{
	uint64		small = Min(256, lsm_arena_total_chunks() / 32);

	if (control_now() - pg_atomic_read_u64(&ctl->last_used) > small)
		control_note_use(ctl);
}

/*
 * Has it been used since an eighth of the arena was handed out?  If so, it will
 * most likely be used again soon.
 */
static bool
used_lately(uint64 last_used)
{
	return (int64) (control_now() - last_used) <= lsm_arena_total_chunks() / 8;
}

/* ----------------------------------------------------------------------
 * dropping
 * ---------------------------------------------------------------------- */

/*
 * Free the block, if it is the keyspace's and, with `moved_to`, says that it
 * lives in another fork.
 *
 * The identity is cleared at once: whoever holds the block finds that out by
 * keyspace_id, under ctl->lock, before it publishes anything.  A flush, load
 * or write in progress keeps the memtables until it has ended; they are
 * retired by a later call here or by an eviction.
 */
static void
control_drop(LsmTreeShared *ctl, uint64 keyspace_id, const RelFileLocator *moved_to)
{
	ControlBlock *block = (ControlBlock *) ctl;
	ControlRetirees retirees;

	Assert(!lsm_epoch_inside());
	Assert(!LWLockHeldByMe(&ctl->lock) && !LWLockHeldByMe(lsm_control_lock));
	retirees.n = 0;
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) != keyspace_id ||
		(moved_to != NULL && RelFileLocatorEquals(ctl->rlocator, *moved_to)))
	{
		LWLockRelease(&ctl->lock);
		return;
	}

	/* a drop has seen to that, but for redo, which may feed it */
	Assert(!control_has_writers(ctl) || RecoveryInProgress());
	if (control_memtables_idle(ctl))
		(void) control_unload(block, &retirees);
	if (ctl->local)
	{
		/* only this process could be using it, and it has come here */
		pg_atomic_exchange_u64(&ctl->keyspace_id, 0);
		LSM_FULL_BARRIER_AFTER_ATOMIC();
		block->free_epoch = lsm_epoch_advance();
	}
	else
	{
		LWLockAcquire(lsm_control_lock, LW_EXCLUSIVE);
		control_block_free(block, keyspace_id);
		(void) lsm_control_reap(&retirees);
		LWLockRelease(lsm_control_lock);
	}
	LWLockRelease(&ctl->lock);

	ConditionVariableBroadcast(&ctl->cv);
	lsm_control_retire(&retirees);
}

/*
 * The tree is gone: dropped (its main fork has vanished) or its content
 * replaced by a new keyspace.  No-op if the keyspace has no block.  REQUIRES:
 * no lock of src/tree held.
 */
void
lsm_control_drop(uint64 keyspace_id)
{
	LsmTreeShared *ctl = lsm_control_find(keyspace_id);

	if (ctl != NULL)
		control_drop(ctl, keyspace_id, NULL);
}

/*
 * For who has found that the fork of this very block is gone, or does not name
 * the keyspace yet.  The keyspace may have another block by now, in another
 * fork: that one is none of the caller's business.  The caller's pin keeps the
 * block from being given to the keyspace again.  REQUIRES: as lsm_control_drop.
 */
void
lsm_control_drop_block(LsmTreeShared *ctl, uint64 keyspace_id)
{
	Assert(pg_atomic_read_u32(&((ControlBlock *) ctl)->pins) > 0);
	control_drop(ctl, keyspace_id, NULL);
}

/*
 * The keyspace's log is in the main fork `rlocator`.  If the block was taken
 * for another fork (before a SET TABLESPACE, or before such a transaction was
 * rolled back), its pages and slots mean nothing: free it, the next use loads
 * from the right one.  REQUIRES: as lsm_control_drop.
 */
void
lsm_control_move(uint64 keyspace_id, RelFileLocator rlocator)
{
	LsmTreeShared *ctl = lsm_control_find(keyspace_id);

	if (ctl != NULL)
		control_drop(ctl, keyspace_id, &rlocator);
}

/*
 * ALTER DATABASE SET TABLESPACE has copied all forks, DROP DATABASE removed
 * them.  Neither tells relation by relation, and files of the old place may
 * stay for good (a failure to remove them is a warning).  REQUIRES: as
 * lsm_control_drop; nobody is in the database or can come in: core has locked it,
 * and counted.
 */
void
lsm_control_drop_database(Oid dboid)
{
	LsmTreeShared *ctl;

	Assert(CountDBBackends(dboid) == 0);
	for (int i = 0; (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		uint64		id;
		RelFileLocator rlocator;
		LsmKind		kind;
		char		relpersistence;

		if (lsm_control_identity(ctl, &id, &rlocator, &kind, &relpersistence) &&
			rlocator.dbOid == dboid)
			control_drop(ctl, id, NULL);
	}
}

/* ----------------------------------------------------------------------
 * evicting
 * ---------------------------------------------------------------------- */

/*
 * Retire the memtables of idle trees until about `want_chunks` chunks will
 * come free; returns how many really will (once the epochs have passed; what
 * has passed already is free on return).
 *
 * A tree is idle if no writer is registered, and it is not being loaded,
 * flushed or compacted.  Its unflushed entries remain in the log; the next
 * use loads them.  Least recently used first, and of those that were used
 * lately none that holds more than `lately_bytes`.  REQUIRES: not inside an
 * epoch; no lock of src/tree held but that of `except` (may be NULL).
 */
int
lsm_control_evict(LsmTreeShared *except, int want_chunks, uint64 lately_bytes)
{
	ControlRetirees retirees;
	uint64		after = 0;
	int			nchunks = 0;

	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	retirees.n = 0;
	if (*(volatile int *) &lsm_control->nbusy_free > 0)
	{
		LWLockAcquire(lsm_control_lock, LW_EXCLUSIVE);
		nchunks = lsm_control_reap(&retirees);
		LWLockRelease(lsm_control_lock);
		lsm_control_retire(&retirees);
	}

	while (nchunks < want_chunks)
	{
		ControlCandidate list[CONTROL_BATCH];
		int			n = control_candidates(list, true, after, except);

		for (int i = 0; i < n && nchunks < want_chunks; i++)
		{
			LsmTreeShared *ctl = &list[i].block->tree;

			if (!LWLockConditionalAcquire(&ctl->lock, LW_EXCLUSIVE))
				continue;
			if (pg_atomic_read_u64(&ctl->keyspace_id) != 0 &&
				lsm_state_is_loaded(ctl->state) &&
				lsm_claimed_levels(ctl) == 0 &&
				control_memtables_idle(ctl) &&
				(lsm_memtables_bytes(ctl) <= lately_bytes ||
				 !used_lately(list[i].last_used)))
				nchunks += control_unload(list[i].block, &retirees);
			LWLockRelease(&ctl->lock);
			lsm_control_retire(&retirees);
		}
		if (n < CONTROL_BATCH)
			break;
		after = list[n - 1].last_used;
	}
	return nchunks;
}

/*
 * Of a tree that was loaded in recovery, or without what was lost of its log.  A
 * loader in recovery that is at work finds out when it has finished, and starts
 * over.  REQUIRES: no lock held; in the startup process, or recovery has ended.
 */
void
lsm_control_stop_feeding(LsmTreeShared *ctl, uint64 keyspace_id)
{
	ControlRetirees retirees;

	retirees.n = 0;
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == keyspace_id)
	{
		ctl->fed = false;
		if (ctl->state == LSM_STATE_STANDBY || ctl->state == LSM_STATE_INCOMPLETE)
		{
			Assert(control_memtables_idle(ctl));
			(void) control_unload((ControlBlock *) ctl, &retirees);
		}
	}
	LWLockRelease(&ctl->lock);
	lsm_control_retire(&retirees);
}
