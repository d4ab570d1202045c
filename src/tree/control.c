/*-------------------------------------------------------------------------
 *
 * control.c
 *	  Control blocks: what processes share about a tree, by keyspace id.
 *
 * A fixed array of lsm.max_trees blocks in shared memory with a hash table over
 * it.  A temporary tree's block is in backend memory and known to this
 * process only.
 *
 * Life of a block.  Taken by lsm_control_get(); loaded by lsm_tree_load() with
 * the first use; evicted (its memtables retired, the block kept) when the arena
 * is short of memory; freed when the tree is dropped or, if
 * nobody has it pinned, when another tree needs a block.  A freed block waits in a queue
 * until every epoch it was freed in has passed, all pins are gone and
 * whoever still flushes, compacts or loads it has noticed.
 *
 * Pins and freeing (lsm_control_pin, control_recycle): the pinner counts
 * itself first and then checks the identity; the recycler clears the identity first
 * and then checks the count, with full barriers between.  At least one
 * of them sees the other.
 *
 * Eviction and readers.  A reader that found the tree loaded may take the set
 * of memtables only after the tree was evicted.  Its epoch protects the memtables but
 * they are no longer in the set, so an eviction leaves a copy of
 * the last set in the block ("parted"), which lsm_set_take() uses while the
 * state is not LOADED.  Readers that enter later see the state and load the tree
 * first.
 *
 * Locking: the control table lock protects the hash table, identities, and the
 * queue of free blocks.  It is taken inside LsmTreeShared.lock; while it is
 * held, LsmTreeShared.lock is only acquired conditionally.  Memtables are retired
 * after both are released.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "tree/tree_private.h"

#define CONTROL_MAX_SET		(1 + LSM_MAX_SEALED)
#define CONTROL_NONE		(-1)

/* Candidates looked at together; bounds the work under the table lock. */
#define CONTROL_BATCH		32

typedef struct ControlBlock
{
	LsmTreeShared tree;			/* first */

	pg_atomic_uint32 pins;

	/* under the control table lock, while free */
	int			free_next;
	uint64		free_epoch;
	bool		free_busy;		/* somebody was using the memtables */

	/* set of memtables as of the last eviction, newest first; changes
	 * within a change of the set */
	int			nparted;
	LsmMemtable *parted[CONTROL_MAX_SET];
} ControlBlock;

typedef struct ControlEntry
{
	uint64		keyspace_id;	/* hash key */
	int			index;
} ControlEntry;

typedef struct ControlShared
{
	int			tree_tranche;
	int			alloc_tranche;
	int			slot_tranche;
	int			nblocks;
	pg_atomic_uint32 nused;		/* blocks ever used: the first ones */
	pg_atomic_uint64 clock;		/* for last_used */
	pg_atomic_uint64 drops;

	/* under the control table lock */
	int			free_first;		/* freed blocks, oldest first */
	int			free_last;
	int			nbusy_free;		/* of these, with free_busy */

	ControlBlock blocks[FLEXIBLE_ARRAY_MEMBER];
} ControlShared;

static ControlShared *control = NULL;
static HTAB *control_hash = NULL;
static LWLock *control_lock = NULL;

/* Temporary trees: blocks are reused but never freed. */
static ControlBlock **local_blocks = NULL;
static int	nlocal_blocks = 0;
static int	local_capacity = 0;

/* Memtables to retire once all locks are released */
typedef struct ControlRetirees
{
	int			n;
	LsmMemtable *tables[CONTROL_BATCH * CONTROL_MAX_SET];
} ControlRetirees;

/* ----------------------------------------------------------------------
 * shared memory
 * ---------------------------------------------------------------------- */

Size
lsm_control_shmem_bytes(void)
{
	Size		bytes = offsetof(ControlShared, blocks);

	bytes = add_size(bytes, mul_size(lsm_max_trees, sizeof(ControlBlock)));
	return add_size(bytes, hash_estimate_size(lsm_max_trees, sizeof(ControlEntry)));
}

/*
 * Create or attach.  REQUIRES: AddinShmemInitLock held; the tranche "lsmam"
 * requested with one lock (lsm_tree_shmem_request).
 */
void
lsm_control_shmem_init(void)
{
	bool		found;
	HASHCTL		info;

	control = (ControlShared *)
		ShmemInitStruct("lsmam trees",
						add_size(offsetof(ControlShared, blocks),
								 mul_size(lsm_max_trees, sizeof(ControlBlock))),
						&found);
	if (!found)
	{
		/* blocks are initialised when first taken */
		control->tree_tranche = LWLockNewTrancheId();
		control->alloc_tranche = LWLockNewTrancheId();
		control->slot_tranche = LWLockNewTrancheId();
		control->nblocks = lsm_max_trees;
		pg_atomic_init_u32(&control->nused, 0);
		pg_atomic_init_u64(&control->clock, 1);
		pg_atomic_init_u64(&control->drops, 0);
		control->free_first = control->free_last = CONTROL_NONE;
		control->nbusy_free = 0;
	}
	LWLockRegisterTranche(control->tree_tranche, "lsm_tree");
	LWLockRegisterTranche(control->alloc_tranche, "lsm_alloc");
	LWLockRegisterTranche(control->slot_tranche, "lsm_log_slot");
	control_lock = &GetNamedLWLockTranche("lsmam")[0].lock;

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(uint64);
	info.entrysize = sizeof(ControlEntry);
	control_hash = ShmemInitHash("lsmam trees by keyspace", lsm_max_trees,
								 lsm_max_trees, &info, HASH_ELEM | HASH_BLOBS);
}

bool
lsm_control_ready(void)
{
	return control != NULL;
}

/*
 * First use of a block's memory.
 */
static void
control_block_construct(ControlBlock *block)
{
	LsmTreeShared *ctl = &block->tree;

	memset(block, 0, sizeof(ControlBlock));
	pg_atomic_init_u32(&block->pins, 0);
	block->free_next = CONTROL_NONE;

	pg_atomic_init_u64(&ctl->keyspace_id, 0);
	LWLockInitialize(&ctl->lock, control->tree_tranche);
	LWLockInitialize(&ctl->alloc_lock, control->alloc_tranche);
	for (int i = 0; i < LSM_LOG_SLOTS; i++)
		LWLockInitialize(&ctl->slots[i].lock, control->slot_tranche);
	ConditionVariableInit(&ctl->cv);
	pg_atomic_init_u64(&ctl->set_stamp, 0);
	pg_atomic_init_u64(&ctl->version_no, 0);
	pg_atomic_init_u64(&ctl->flushed_generation, 0);
	pg_atomic_init_u64(&ctl->seq, 0);
	pg_atomic_init_u64(&ctl->row_limit, 0);
	pg_atomic_init_u64(&ctl->next_file, 0);
	pg_atomic_init_u32(&ctl->level0_runs, 0);
	pg_atomic_init_u32(&ctl->compaction_due, 0);
	pg_atomic_init_u64(&ctl->last_used, 0);
	pg_atomic_init_u64(&ctl->manifest_id, 0);
	pg_atomic_init_u64(&ctl->manifest_pending, 0);
	for (int i = 0; i < LSM_NCOUNTERS; i++)
		pg_atomic_init_u64(&ctl->counters[i], 0);
}

static void
control_close_slots(LsmTreeShared *ctl)
{
	for (int i = 0; i < LSM_LOG_SLOTS; i++)
	{
		ctl->slots[i].block = InvalidBlockNumber;
		ctl->slots[i].generation = 0;
	}
}

/*
 * Give a free block to a keyspace, UNLOADED.  REQUIRES: nobody can reach the
 * block, control table lock held exclusively (shared blocks).
 */
static void
control_block_assign(ControlBlock *block, uint64 keyspace_id, RelFileNode rnode,
					 LsmKind kind, char relpersistence, bool local)
{
	static const LsmTreeOptions unset = LSM_TREE_OPTIONS_UNSET;
	LsmTreeShared *ctl = &block->tree;

	ctl->local = local;
	ctl->rnode = rnode;
	ctl->kind = kind;
	ctl->relpersistence = relpersistence;
	ctl->relid = InvalidOid;
	ctl->relid_confirmed = false;
	ctl->options = unset;
	ctl->state = LSM_STATE_UNLOADED;
	ctl->loader_pid = 0;

	/* an old stamp must not hold for the new tree */
	pg_atomic_fetch_add_u64(&ctl->set_stamp, 2);
	ctl->active = NULL;
	ctl->active_generation = 0;
	ctl->nsealed = 0;
	block->nparted = 0;
	block->free_busy = false;

	pg_atomic_write_u64(&ctl->version_no, 0);
	pg_atomic_write_u64(&ctl->flushed_generation, 0);
	pg_atomic_write_u64(&ctl->seq, 0);
	pg_atomic_write_u64(&ctl->row_limit, 0);
	pg_atomic_write_u64(&ctl->next_file, 0);
	pg_atomic_write_u32(&ctl->level0_runs, 0);
	pg_atomic_write_u32(&ctl->compaction_due, 0);
	pg_atomic_write_u64(&ctl->last_used,
						pg_atomic_fetch_add_u64(&control->clock, 1) + 1);

	ctl->nblocks = 0;
	ctl->alloc_cursor = 0;
	ctl->free_pages = 0;
	pg_atomic_write_u64(&ctl->manifest_id, 0);
	pg_atomic_write_u64(&ctl->manifest_pending, 0);
	ctl->strays_removed = false;
	control_close_slots(ctl);
	ctl->flush_pid = 0;
	ctl->compact_pid = 0;
	memset(ctl->compact_cursor, 0, sizeof(ctl->compact_cursor));
	for (int i = 0; i < LSM_NCOUNTERS; i++)
		pg_atomic_write_u64(&ctl->counters[i], 0);

	/* last, with a full barrier: from here on the block is the keyspace's */
	pg_atomic_exchange_u64(&ctl->keyspace_id, keyspace_id);
}

/* ----------------------------------------------------------------------
 * unloading and freeing
 * ---------------------------------------------------------------------- */

static int
control_memtable_count(LsmTreeShared *ctl)
{
	return ctl->nsealed + (ctl->active != NULL ? 1 : 0);
}

/*
 * True if nobody is using the memtables by other right than an epoch.
 * REQUIRES: ctl->lock exclusive (writers register under it).
 */
static bool
control_memtables_idle(LsmTreeShared *ctl)
{
	if (ctl->flush_pid != 0 || ctl->loader_pid != 0 ||
		ctl->state == LSM_STATE_LOADING)
		return false;
	if (ctl->active != NULL && pg_atomic_read_u32(&ctl->active->writers) != 0)
		return false;
	for (int i = 0; i < ctl->nsealed; i++)
	{
		if (pg_atomic_read_u32(&ctl->sealed[i]->writers) != 0)
			return false;
	}
	return true;
}

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
	if (control_memtable_count(ctl) > 0 || ctl->state == LSM_STATE_LOADED)
	{
		if (ctl->active != NULL)
			block->parted[n++] = ctl->active;
		for (int i = ctl->nsealed - 1; i >= 0; i--)
			block->parted[n++] = ctl->sealed[i];
		block->nparted = n;
		for (int i = 0; i < n; i++)
		{
			bytes += pg_atomic_read_u64(&block->parted[i]->bytes);
			retirees->tables[retirees->n++] = block->parted[i];
		}
		Assert(retirees->n <= lengthof(retirees->tables));
	}
	ctl->state = LSM_STATE_UNLOADED;
	ctl->active = NULL;
	ctl->nsealed = 0;
	control_close_slots(ctl);
	lsm_set_change_end(ctl);

	return (int) (bytes / LSM_CHUNK_BYTES);
}

static void
control_retire(ControlRetirees *retirees)
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
	int			index = block - control->blocks;

	if (hash_search(control_hash, &keyspace_id, HASH_REMOVE, NULL) == NULL)
		elog(PANIC, "lsmam control table is corrupted");
	pg_atomic_exchange_u64(&ctl->keyspace_id, 0);
	pg_atomic_fetch_add_u64(&control->drops, 1);

	block->free_busy = !control_memtables_idle(ctl);
	if (block->free_busy)
		control->nbusy_free++;
	block->free_epoch = lsm_epoch_advance();
	block->free_next = CONTROL_NONE;
	if (control->free_last == CONTROL_NONE)
		control->free_first = index;
	else
		control->blocks[control->free_last].free_next = index;
	control->free_last = index;
}

/*
 * Freed blocks that were busy (being flushed or loaded) when their tree was
 * dropped: take out the memtables of those that are idle by now.
 * REQUIRES: control table lock exclusive.  Returns the number of chunks.
 */
static int
control_reap(ControlRetirees *retirees)
{
	int			nchunks = 0;
	int			i = control->free_first;

	Assert(LWLockHeldByMeInMode(control_lock, LW_EXCLUSIVE));
	while (i != CONTROL_NONE && control->nbusy_free > 0 &&
		   retirees->n + CONTROL_MAX_SET <= lengthof(retirees->tables))
	{
		ControlBlock *block = &control->blocks[i];
		LsmTreeShared *ctl = &block->tree;

		i = block->free_next;
		if (!block->free_busy ||
			!LWLockConditionalAcquire(&ctl->lock, LW_EXCLUSIVE))
			continue;
		if (control_memtables_idle(ctl))
		{
			nchunks += control_unload(block, retirees);
			block->free_busy = false;
			control->nbusy_free--;
		}
		LWLockRelease(&ctl->lock);
	}
	return nchunks;
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
		ctl->flush_pid == 0 && ctl->compact_pid == 0 && ctl->loader_pid == 0 &&
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

	for (int i = control->free_first; i != CONTROL_NONE;)
	{
		ControlBlock *block = &control->blocks[i];
		int			next = block->free_next;

		if (control_reusable(block))
		{
			if (before == CONTROL_NONE)
				control->free_first = next;
			else
				control->blocks[before].free_next = next;
			if (control->free_last == i)
				control->free_last = before;
			block->free_next = CONTROL_NONE;
			return block;
		}
		before = i;
		i = next;
	}

	nused = pg_atomic_read_u32(&control->nused);
	if (nused < control->nblocks)
	{
		ControlBlock *block = &control->blocks[nused];

		control_block_construct(block);
		pg_write_barrier();
		pg_atomic_write_u32(&control->nused, nused + 1);
		return block;
	}
	return NULL;
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
	int			nused = (int) pg_atomic_read_u32(&control->nused);

	for (int i = 0; i < nused; i++)
	{
		ControlBlock *block = &control->blocks[i];
		LsmTreeShared *ctl = &block->tree;
		uint64		last_used = pg_atomic_read_u64(&ctl->last_used);
		int			j;

		if (last_used <= after || ctl == except ||
			pg_atomic_read_u64(&ctl->keyspace_id) == 0)
			continue;
		if (evict ? (ctl->state != LSM_STATE_LOADED ||
					 control_memtable_count(ctl) == 0)
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
 * remain, like after an eviction; their counters are lost.  Returns how many.
 * REQUIRES: control table lock exclusive.
 */
static int
control_recycle(ControlRetirees *retirees)
{
	ControlCandidate list[CONTROL_BATCH];
	int			n = control_candidates(list, false, 0, NULL);
	int			nfreed = 0;

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
		if (keyspace_id != 0 && ctl->compact_pid == 0 &&
			control_memtables_idle(ctl))
		{
			/* order against lsm_control_pin(): see the head of this file */
			pg_atomic_exchange_u64(&ctl->keyspace_id, 0);
			if (pg_atomic_read_u32(&block->pins) == 0)
			{
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
	uint64		now = pg_atomic_read_u64(&control->clock);

	if (now - pg_atomic_read_u64(&ctl->last_used) > 256)
		pg_atomic_write_u64(&ctl->last_used,
							pg_atomic_fetch_add_u64(&control->clock, 1) + 1);
}

/* ----------------------------------------------------------------------
 * finding and taking blocks
 * ---------------------------------------------------------------------- */

static ControlBlock *
control_find_local(uint64 keyspace_id)
{
	for (int i = 0; i < nlocal_blocks; i++)
	{
		if (pg_atomic_read_u64(&local_blocks[i]->tree.keyspace_id) == keyspace_id)
			return local_blocks[i];
	}
	return NULL;
}

/* REQUIRES: control table lock. */
static ControlBlock *
control_find_shared(uint64 keyspace_id)
{
	ControlEntry *entry;

	Assert(LWLockHeldByMe(control_lock));
	entry = (ControlEntry *) hash_search(control_hash, &keyspace_id, HASH_FIND, NULL);
	return entry != NULL ? &control->blocks[entry->index] : NULL;
}

/*
 * The block of a keyspace, or NULL if it has none.
 */
LsmTreeShared *
lsm_control_find(uint64 keyspace_id)
{
	ControlBlock *block = control_find_local(keyspace_id);

	Assert(keyspace_id != 0);
	if (block == NULL)
	{
		LWLockAcquire(control_lock, LW_SHARED);
		block = control_find_shared(keyspace_id);
		LWLockRelease(control_lock);
	}
	return block != NULL ? &block->tree : NULL;
}

static LsmTreeShared *
control_get_local(uint64 keyspace_id, RelFileNode rnode, LsmKind kind)
{
	ControlBlock *block = control_find_local(keyspace_id);

	if (block != NULL)
		return &block->tree;

	for (int i = 0; i < nlocal_blocks && block == NULL; i++)
	{
		if (pg_atomic_read_u64(&local_blocks[i]->tree.keyspace_id) == 0 &&
			control_reusable(local_blocks[i]))
			block = local_blocks[i];
	}
	if (block == NULL)
	{
		if (nlocal_blocks == local_capacity)
		{
			int			capacity = Max(8, local_capacity * 2);

			if (local_blocks == NULL)
				local_blocks = MemoryContextAlloc(TopMemoryContext,
												  capacity * sizeof(ControlBlock *));
			else
				local_blocks = repalloc(local_blocks,
										capacity * sizeof(ControlBlock *));
			local_capacity = capacity;
		}
		block = MemoryContextAlloc(TopMemoryContext, sizeof(ControlBlock));
		control_block_construct(block);
		local_blocks[nlocal_blocks++] = block;
	}
	control_block_assign(block, keyspace_id, rnode, kind, RELPERSISTENCE_TEMP, true);
	return &block->tree;
}

/*
 * Find or take the block of a keyspace.  A new block is UNLOADED.  When all
 * are taken, recycles those of trees that no transaction is using; sleeps, if
 * need be, until their epoch has passed.  The caller pins the block and checks
 * that it is still the keyspace's (lsm_control_pin).
 *
 * ERROR (ERRCODE_CONFIGURATION_LIMIT_EXCEEDED) if all blocks are in use.
 * REQUIRES: not inside an epoch, no lock held.
 */
LsmTreeShared *
lsm_control_get(uint64 keyspace_id, RelFileNode rnode, LsmKind kind,
				char relpersistence)
{
	ControlBlock *block;

	Assert(keyspace_id != 0);
	if (relpersistence == RELPERSISTENCE_TEMP)
		return control_get_local(keyspace_id, rnode, kind);

	LWLockAcquire(control_lock, LW_SHARED);
	block = control_find_shared(keyspace_id);
	LWLockRelease(control_lock);

	for (int tries = 0; block == NULL; tries++)
	{
		ControlRetirees retirees;
		int			nfreed = 0;
		bool		waiting;

		retirees.n = 0;
		LWLockAcquire(control_lock, LW_EXCLUSIVE);
		block = control_find_shared(keyspace_id);
		if (block == NULL && (block = control_take_free()) != NULL)
		{
			ControlEntry *entry;

			/* all entries are preallocated, so there is one for each block */
			entry = (ControlEntry *) hash_search(control_hash, &keyspace_id,
												 HASH_ENTER_NULL, NULL);
			if (entry == NULL)
				elog(PANIC, "lsmam control table is corrupted");
			entry->index = block - control->blocks;
			control_block_assign(block, keyspace_id, rnode, kind,
								 relpersistence, false);
		}
		else if (block == NULL)
		{
			(void) control_reap(&retirees);
			nfreed = control_recycle(&retirees);
		}
		waiting = control->free_first != CONTROL_NONE;
		LWLockRelease(control_lock);
		control_retire(&retirees);

		if (block != NULL)
			break;

		/*
		 * What was freed just now needs its epoch to pass; older free blocks may be
		 * waiting for a transaction to end, and we do not wait for that long.
		 */
		if ((nfreed == 0 && !waiting) || tries >= 100)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many LSM trees are in use at the same time"),
					 errdetail("All %d control blocks belong to trees that running transactions use.",
							   control->nblocks),
					 errhint("Increase the configuration parameter \"lsm.max_trees\", or use fewer tables and indexes in one transaction.")));
		CHECK_FOR_INTERRUPTS();
		if (nfreed > 0)
			lsm_epoch_wait(lsm_epoch_advance());
		else
			pg_usleep(10000L);
	}
	return &block->tree;
}

/*
 * Pin the block if it is the keyspace's: from then on it is not given to
 * another tree (it may still be dropped, which clears its identity).
 * Not counted per process: every pin needs its unpin, also after errors.
 */
bool
lsm_control_pin(LsmTreeShared *ctl, uint64 keyspace_id)
{
	ControlBlock *block = (ControlBlock *) ctl;

	pg_atomic_fetch_add_u32(&block->pins, 1);	/* full barrier */
	if (pg_atomic_read_u64(&ctl->keyspace_id) != keyspace_id)
	{
		pg_atomic_fetch_sub_u32(&block->pins, 1);
		return false;
	}
	pg_atomic_write_u64(&ctl->last_used,
						pg_atomic_fetch_add_u64(&control->clock, 1) + 1);
	return true;
}

void
lsm_control_unpin(LsmTreeShared *ctl)
{
	ControlBlock *block = (ControlBlock *) ctl;

	Assert(pg_atomic_read_u32(&block->pins) > 0);
	pg_atomic_fetch_sub_u32(&block->pins, 1);
}

/*
 * What the block is, consistently.  False if it is free.
 */
bool
lsm_control_identity(LsmTreeShared *ctl, uint64 *keyspace_id,
					 RelFileNode *rnode, LsmKind *kind, char *relpersistence)
{
	LWLockAcquire(control_lock, LW_SHARED);
	*keyspace_id = pg_atomic_read_u64(&ctl->keyspace_id);
	*rnode = ctl->rnode;
	*kind = ctl->kind;
	*relpersistence = ctl->relpersistence;
	LWLockRelease(control_lock);
	return *keyspace_id != 0;
}

/*
 * i-th block, NULL past the last one that was ever used; may be free.
 */
LsmTreeShared *
lsm_control_nth(int i)
{
	if (i < 0 || i >= (int) pg_atomic_read_u32(&control->nused))
		return NULL;
	pg_read_barrier();
	return &control->blocks[i].tree;
}

LsmTreeShared *
lsm_control_nth_local(int i)
{
	return i >= 0 && i < nlocal_blocks ? &local_blocks[i]->tree : NULL;
}

uint64
lsm_control_drops(void)
{
	return pg_atomic_read_u64(&control->drops);
}

/* ----------------------------------------------------------------------
 * dropping and evicting
 * ---------------------------------------------------------------------- */

/*
 * Free the keyspace's block, if it has one and, with `moved_to`, if that says it
 * lives in another fork.
 *
 * The identity is cleared at once: whoever holds the block finds that out by
 * keyspace_id, under ctl->lock, before it publishes anything.  A flush, load or
 * write in progress keeps the memtables until it has ended; they are retired by a
 * later call here or by an eviction.
 */
static void
control_drop(uint64 keyspace_id, const RelFileNode *moved_to)
{
	LsmTreeShared *ctl = lsm_control_find(keyspace_id);
	ControlBlock *block = (ControlBlock *) ctl;
	ControlRetirees retirees;

	if (ctl == NULL)
		return;

	retirees.n = 0;
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) != keyspace_id ||
		(moved_to != NULL && RelFileNodeEquals(ctl->rnode, *moved_to)))
	{
		LWLockRelease(&ctl->lock);
		return;
	}

	if (control_memtables_idle(ctl))
		(void) control_unload(block, &retirees);
	if (ctl->local)
	{
		/* only this process could be using it, and it has come here */
		pg_atomic_exchange_u64(&ctl->keyspace_id, 0);
		block->free_epoch = lsm_epoch_advance();
	}
	else
	{
		LWLockAcquire(control_lock, LW_EXCLUSIVE);
		control_block_free(block, keyspace_id);
		(void) control_reap(&retirees);
		LWLockRelease(control_lock);
	}
	LWLockRelease(&ctl->lock);

	ConditionVariableBroadcast(&ctl->cv);
	control_retire(&retirees);
}

/*
 * The tree is gone: dropped (its main fork has vanished) or its content
 * replaced by a new keyspace.  No-op if the keyspace has no block.  REQUIRES:
 * no lock of src/tree held.
 */
void
lsm_control_drop(uint64 keyspace_id)
{
	control_drop(keyspace_id, NULL);
}

/*
 * The keyspace's log is in the main fork `rnode`.  If the block was taken for
 * another fork (before a SET TABLESPACE, or before such a transaction was rolled back),
 * its pages and slots mean nothing: free it, the next use loads from the right
 * one.  REQUIRES: as lsm_control_drop.
 */
void
lsm_control_move(uint64 keyspace_id, RelFileNode rnode)
{
	control_drop(keyspace_id, &rnode);
}

/*
 * Retire the memtables of idle trees until about `want_chunks` chunks will
 * come free; returns how many really will (once the epochs have passed; what
 * has passed already is free on return).
 *
 * A tree is idle if no writer is registered, and it is not being loaded,
 * flushed or compacted.  Its unflushed entries remain in the log; the next
 * use loads them.  Least recently used first.  REQUIRES: not inside an epoch;
 * no lock of src/tree held but that of `except` (may be NULL).
 */
int
lsm_control_evict(LsmTreeShared *except, int want_chunks)
{
	ControlRetirees retirees;
	uint64		after = 0;
	int			nchunks = 0;

	retirees.n = 0;
	if (*(volatile int *) &control->nbusy_free > 0)
	{
		LWLockAcquire(control_lock, LW_EXCLUSIVE);
		nchunks = control_reap(&retirees);
		LWLockRelease(control_lock);
		control_retire(&retirees);
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
				ctl->state == LSM_STATE_LOADED && ctl->compact_pid == 0 &&
				control_memtables_idle(ctl))
				nchunks += control_unload(list[i].block, &retirees);
			LWLockRelease(&ctl->lock);
			control_retire(&retirees);
		}
		if (n < CONTROL_BATCH)
			break;
		after = list[n - 1].last_used;
	}
	return nchunks;
}

/* ----------------------------------------------------------------------
 * the set of memtables
 * ---------------------------------------------------------------------- */

/*
 * An even reading of the set's stamp.  Who changes the set holds ctl->lock and
 * does a few stores, so this spins; after a while it sleeps, interruptibly.
 * REQUIRES: ctl->lock not held by us exclusively within a change.
 */
uint64
lsm_set_stamp_read(LsmTreeShared *ctl)
{
	for (int spins = 0;; spins++)
	{
		uint64		stamp = pg_atomic_read_u64(&ctl->set_stamp);

		if ((stamp & 1) == 0)
		{
			pg_read_barrier();
			return stamp;
		}
		if (spins < 1000)
			pg_spin_delay();
		else
		{
			CHECK_FOR_INTERRUPTS();
			pg_usleep(100L);
		}
	}
}

/*
 * The tree's memtables at one moment, newest first.  REQUIRES: inside an epoch
 * (which keeps them), and the tree was loaded when it was entered.
 */
void
lsm_set_take(LsmTreeShared *ctl, LsmMemtableSet *set)
{
	ControlBlock *block = (ControlBlock *) ctl;

	Assert(lsm_epoch_inside());
	for (;;)
	{
		int			n = 0;

		set->stamp = lsm_set_stamp_read(ctl);
		if (*(volatile LsmTreeState *) &ctl->state == LSM_STATE_LOADED)
		{
			LsmMemtable *active = *(LsmMemtable *volatile *) &ctl->active;
			int			nsealed = *(volatile int *) &ctl->nsealed;

			if (active != NULL)
				set->tables[n++] = active;
			for (int i = Min(nsealed, LSM_MAX_SEALED) - 1; i >= 0; i--)
				set->tables[n++] = *(LsmMemtable *volatile *) &ctl->sealed[i];
		}
		else
		{
			n = *(volatile int *) &block->nparted;
			n = Min(n, CONTROL_MAX_SET);
			for (int i = 0; i < n; i++)
				set->tables[i] = *(LsmMemtable *volatile *) &block->parted[i];
		}
		set->n = n;

		pg_read_barrier();
		if (pg_atomic_read_u64(&ctl->set_stamp) == set->stamp)
			return;
	}
}
