/*-------------------------------------------------------------------------
 *
 * take.c
 *	  Taking a control block for a keyspace: a free one, or one that is recycled.
 *
 * How blocks live: control.c.
 *
 * Locking: the control table lock, exclusive while a block is taken and
 * assigned; released before memtables are retired, and before any wait.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "tree/control/control.h"
#include "tree/control/control_private.h"
#include "tree/memtable/memtable.h"

/* Naps of 10 ms for blocks that are all in use: a second */
#define CONTROL_TRIES		100

/*
 * Of each member that has an owner: nothing is there, nothing is known.  Locks
 * stay.  Who still reads a block that was freed finds hints, old or none, and
 * looks at the identity afterwards.
 */
static void
control_reset_members(LsmTreeShared *ctl)
{
	LsmTreeMemory *memory = &ctl->memory;
	LsmTreePages *pages = &ctl->pages;
	LsmTreeCounts counts;

	/* an old stamp must not hold for the new tree */
	pg_atomic_fetch_add_u64(&memory->set_stamp, 2);
	memory->active = NULL;
	memory->active_generation = 0;
	memory->nsealed = 0;
	pg_atomic_write_u32(&memory->memtable_kb, 0);

	memset(&ctl->files, 0, sizeof(ctl->files));
	memset(&ctl->jobs, 0, sizeof(ctl->jobs));
	memset(&ctl->rows, 0, sizeof(ctl->rows));

	pages->nblocks = 0;
	pages->alloc_cursor = 0;
	pages->free_pages = 0;

	control_close_slots(ctl);
	pg_atomic_write_u32(&ctl->log.wanted_log_bytes, 0);

	lsm_work_counts(ctl, &counts, true);
	ctl->work.known = false;
	ctl->work.pending_bytes = 0;
	memset(&ctl->work.schemaname, 0, sizeof(NameData));
	memset(&ctl->work.relname, 0, sizeof(NameData));
}

/*
 * Give a free block to a keyspace, UNLOADED.  REQUIRES: nobody can reach the
 * block, control table lock held exclusively (shared blocks).
 */
static void
control_block_assign(ControlBlock *block, uint64 keyspace_id, RelFileLocator rlocator,
					 LsmKind kind, char relpersistence, bool local)
{
	static const LsmTreeOptions unset = LSM_TREE_OPTIONS_UNSET;
	LsmTreeShared *ctl = &block->tree;

	Assert(local || LWLockHeldByMeInMode(lsm_control_lock, LW_EXCLUSIVE));
	Assert(pg_atomic_read_u64(&ctl->keyspace_id) == 0);
	Assert(pg_atomic_read_u32(&block->jobs) == 0);
	Assert(lsm_claimed_levels(ctl) == 0);
	ctl->life = pg_atomic_add_fetch_u64(&lsm_control->lives, 1);
	ctl->local = local;
	ctl->rlocator = rlocator;
	ctl->kind = kind;
	ctl->relpersistence = relpersistence;
	ctl->relid = InvalidOid;
	ctl->relid_confirmed = false;
	ctl->options = unset;
	ctl->state = LSM_STATE_UNLOADED;
	ctl->fed = false;
	ctl->load_cut_off = false;
	block->nparted = 0;
	block->former_id = 0;
	block->free_busy = false;

	pg_atomic_write_u64(&ctl->seq, 0);
	pg_atomic_write_u64(&ctl->row_limit, 0);
	pg_atomic_write_u64(&ctl->merged, 0);
	pg_atomic_write_u32(&ctl->has_gaps, 0);
	pg_atomic_write_u32(&ctl->format_version, 0);
	control_note_use(ctl);
	control_reset_members(ctl);

	/* last, with a full barrier: from here on the block is the keyspace's */
	pg_atomic_exchange_u64(&ctl->keyspace_id, keyspace_id);
}

/*
 * Is the freed block fit for reuse?  What is read here without ctl->lock only
 * changes towards rest in a free block.
 */
static bool
control_reusable(ControlBlock *block)
{
	LsmTreeShared *ctl = &block->tree;

	return !block->free_busy &&
		pg_atomic_read_u32(&block->pins) == 0 &&
		pg_atomic_read_u32(&block->jobs) == 0 &&
		lsm_claimed_levels(ctl) == 0 &&
		lsm_epoch_passed(block->free_epoch);
}

/*
 * A block to assign, or NULL.  REQUIRES: control table lock exclusive.
 */
static ControlBlock *
control_take_free(void)
{
	int			before = CONTROL_NONE;
	uint32		nused;

	Assert(LWLockHeldByMeInMode(lsm_control_lock, LW_EXCLUSIVE));
	for (int i = lsm_control->free_first; i != CONTROL_NONE;)
	{
		ControlBlock *block = &lsm_control->blocks[i];
		int			next = block->free_next;

		if (control_reusable(block))
		{
			if (before == CONTROL_NONE)
				lsm_control->free_first = next;
			else
				lsm_control->blocks[before].free_next = next;
			if (lsm_control->free_last == i)
				lsm_control->free_last = before;
			block->free_next = CONTROL_NONE;
			return block;
		}
		before = i;
		i = next;
	}

	nused = pg_atomic_read_u32(&lsm_control->nused);
	if (nused < lsm_control->nblocks)
	{
		ControlBlock *block = &lsm_control->blocks[nused];

		lsm_control_construct(block);
		pg_write_barrier();
		pg_atomic_write_u32(&lsm_control->nused, nused + 1);
		return block;
	}
	return NULL;
}

/*
 * Is there a block that no transaction and no job holds?  It can be had soon:
 * what it may still wait for is an epoch, a lock, or somebody else who is just
 * taking it.  Reads without ctl->lock.  REQUIRES: control table lock.
 */
static bool
control_any_unpinned(void)
{
	Assert(LWLockHeldByMe(lsm_control_lock));
	for (int i = 0; i < lsm_control->nblocks; i++)
	{
		ControlBlock *block = &lsm_control->blocks[i];

		if (i >= (int) pg_atomic_read_u32(&lsm_control->nused) ||
			(pg_atomic_read_u32(&block->pins) == 0 &&
			 pg_atomic_read_u32(&block->jobs) == 0))
			return true;
	}
	return false;
}

static LsmTreeShared *
control_get_local(uint64 keyspace_id, RelFileLocator rlocator, LsmKind kind)
{
	ControlBlock *block = lsm_control_find_local(keyspace_id);
	LsmTreeShared *ctl;

	if (block != NULL)
		return &block->tree;

	for (int i = 0; block == NULL && (ctl = lsm_control_nth_local(i)) != NULL; i++)
	{
		if (pg_atomic_read_u64(&ctl->keyspace_id) == 0 &&
			control_reusable((ControlBlock *) ctl))
			block = (ControlBlock *) ctl;
	}
	if (block == NULL)
		block = lsm_control_add_local();
	control_block_assign(block, keyspace_id, rlocator, kind, RELPERSISTENCE_TEMP, true);
	return &block->tree;
}

/*
 * A free block for the keyspace, or NULL if there is none.  REQUIRES: control
 * table lock exclusive; neither a job nor a write of the keyspace's former block
 * goes on.
 */
static ControlBlock *
control_take_for(uint64 keyspace_id, RelFileLocator rlocator, LsmKind kind,
				 char relpersistence)
{
	ControlBlock *block = control_take_free();
	ControlEntry *entry;

	Assert(LWLockHeldByMeInMode(lsm_control_lock, LW_EXCLUSIVE));
	if (block == NULL)
		return NULL;

	/* all entries are preallocated, so there is one for each block */
	entry = (ControlEntry *) hash_search(lsm_control_hash, &keyspace_id,
										 HASH_ENTER_NULL, NULL);
	if (entry == NULL)
		elog(PANIC, "lsmam control table is corrupted");
	entry->index = block - lsm_control->blocks;
	control_block_assign(block, keyspace_id, rlocator, kind, relpersistence, false);
	return block;
}

static void
control_report_full(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many LSM trees are in use at the same time"),
			 errdetail("All %d control blocks belong to trees that running transactions use.",
					   lsm_control->nblocks),
			 errhint("Increase the configuration parameter \"lsm.max_trees\", or use fewer tables and indexes in one transaction.")));
}

/*
 * Find or take the block of a keyspace.  A new block is UNLOADED.  When all
 * are taken, recycles those of trees that no transaction is using; sleeps, if
 * need be, until their epoch has passed, which takes as long as it takes: who
 * is inside an epoch may wait for a page or for WAL.  Blocks that transactions
 * use are waited for for a second.  The caller pins the block and checks
 * that it is still the keyspace's (lsm_control_pin).
 *
 * A keyspace gets a new block only when the jobs of its former one have
 * ended.  They have lost their block, look for that all the time and give up
 * then; until they have, we wait.  They wait for nothing that we might hold: a
 * worker's job takes heavyweight locks only if they are to be had, and a
 * backend's has the relation's lock, so that the fork cannot have moved.  A
 * writer has that lock, too: on a primary there is none, but redo may be adding
 * an entry to the former block.
 *
 * ERROR (ERRCODE_CONFIGURATION_LIMIT_EXCEEDED) if all blocks are in use.
 * REQUIRES: not inside an epoch, no lock held.
 */
LsmTreeShared *
lsm_control_get(uint64 keyspace_id, RelFileLocator rlocator, LsmKind kind,
				char relpersistence)
{
	ControlBlock *block;
	int			tries = 0;

	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	Assert(keyspace_id != 0);
	if (relpersistence == RELPERSISTENCE_TEMP)
		return control_get_local(keyspace_id, rlocator, kind);

	LWLockAcquire(lsm_control_lock, LW_SHARED);
	block = lsm_control_find_shared(keyspace_id);
	LWLockRelease(lsm_control_lock);

	while (block == NULL)
	{
		ControlRetirees retirees;
		int			nfreed = 0;
		bool		busy;

		retirees.n = 0;
		LWLockAcquire(lsm_control_lock, LW_EXCLUSIVE);
		block = lsm_control_find_shared(keyspace_id);
		busy = block == NULL && lsm_control_former_busy(keyspace_id);
		if (block == NULL && !busy &&
			(block = control_take_for(keyspace_id, rlocator, kind, relpersistence)) == NULL)
		{
			(void) lsm_control_reap(&retirees);
			nfreed = lsm_control_recycle(&retirees);
			tries = nfreed > 0 || control_any_unpinned() ? 0 : tries + 1;
		}
		LWLockRelease(lsm_control_lock);
		lsm_control_retire(&retirees);

		if (block != NULL)
			break;
		if (busy)
		{
			lsm_control_wait_jobs(keyspace_id);
			continue;
		}
		if (tries >= CONTROL_TRIES)
			control_report_full();
		CHECK_FOR_INTERRUPTS();
		if (nfreed > 0)
			lsm_epoch_wait(lsm_epoch_advance());
		else
			LSM_NAP(10000L, "LsmTrees");
	}
	return &block->tree;
}
