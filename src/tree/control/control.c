/*-------------------------------------------------------------------------
 *
 * control.c
 *	  Control blocks: what processes share about a tree, by keyspace id.
 *
 * A fixed array of lsm.max_trees blocks in shared memory with a hash table
 * over it.  A temporary tree's block is in backend memory and known to this
 * process only.
 *
 * Life of a block, and who may do what to it:
 *
 *	- Taken by lsm_control_get(), for a session that has opened the relation
 *	  and so holds a lock on it.  Workers take no blocks.
 *	- Loaded by lsm_tree_load() with the first use: by one process, the loader,
 *	  while there are neither writers nor jobs.
 *	- Evicted, that is, its memtables are retired and the block stays: by
 *	  anybody who is short of memory, while no writer is registered and nobody
 *	  flushes, compacts or loads it (control_memtables_idle, claims).
 *	- Recycled for another tree: by who needs a block, if nobody has it pinned.
 *	  All who write or have a job have it pinned.
 *	- Dropped, in use or not: by who knows that its fork is gone or is not the
 *	  keyspace's any more.  That is who has replaced the fork's content
 *	  (lsm_tree_create, lsm_tree_reset), who opens the fork that the keyspace
 *	  has moved to (lsm_control_move), who removes the keyspace (sweep.c,
 *	  drop.c), who moves or drops the whole database and has it locked, and a
 *	  worker that has locked the relation and found the fork gone.  The worker
 *	  means the block it has pinned and no other.
 *
 * A dropped block is never again the keyspace's as long as anybody has it
 * pinned.  So pointer and keyspace id together, checked while the block is
 * pinned, say which of its lives is meant.  Those who held the block when it
 * was dropped:
 *
 *	- Writers, readers and jobs of sessions hold the relation's lock, which the
 *	  command that moved or replaced the fork has waited for.
 *	- Jobs of workers hold no lock while they write files.  They look for the
 *	  loss of their block (lsm_job_current), publish only what they find
 *	  current under the relation's lock, and end otherwise, removing their
 *	  files.
 *	- The unlink queue (unlink_queue.c) holds no block but the keyspace's id and
 *	  file numbers, which mean the same file for ever.
 *
 * A freed block waits in a queue until every epoch it was freed in has
 * passed, all pins are gone and whoever still flushes, compacts or loads it
 * has noticed.
 *
 * One block with jobs, and with writers.  As long as a job of its former block
 * goes on, or a writer is registered there, a keyspace gets no new block
 * (lsm_control_get waits).  So all who hand out numbers and pages do so by one
 * block, all who compact in the directory have their claims in one block, the
 * files they read stay, and what the first load finds in the directory, but not
 * in the list of files, is nobody's.
 *
 * File numbers.  A number is handed out once in the life of a keyspace.  What
 * is handed out is below the metapage's next_file.  Only the keyspace's block
 * raises that, with the relation locked, hence never while the fork is being
 * copied; and every block begins where the metapage says, with a range of its
 * own.  So two blocks, or a copied fork and its original, never own the same
 * number, and neither does what runs before and after a crash: the record that
 * raises next_file comes before any record of a file of these numbers.
 * Numbers left over are lost, which happens with each new block. Files are
 * made with O_EXCL all the same: what exists is skipped.
 *
 * Pins and freeing (lsm_control_pin, lsm_control_recycle): the pinner counts
 * itself first and then checks the identity; the recycler clears the identity
 * first and then checks the count, with full barriers between.  At least one
 * of them sees the other; if both do, both step back, and the block stays what it
 * was: a pinner for whom that makes a difference looks once more.
 *
 * Locking: the control table lock protects the hash table, identities, and the
 * queue of free blocks.  It is taken inside LsmTreeShared.lock; while it is
 * held, LsmTreeShared.lock is only acquired conditionally.  Memtables are
 * retired after both are released.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/control_private.h"
#include "tree/memtable/memtable.h"

ControlShared *lsm_control = NULL;
HTAB	   *lsm_control_hash = NULL;
LWLock	   *lsm_control_lock = NULL;

/* Temporary trees: blocks are reused but never freed. */
static ControlBlock **local_blocks = NULL;
static int	nlocal_blocks = 0;
static int	local_capacity = 0;

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

	lsm_control = (ControlShared *)
		ShmemInitStruct("lsmam trees",
						add_size(offsetof(ControlShared, blocks),
								 mul_size(lsm_max_trees, sizeof(ControlBlock))),
						&found);
	if (!found)
	{
		/* blocks are initialised when first taken */
		lsm_control->tree_tranche = LWLockNewTrancheId("lsm_tree");
		lsm_control->alloc_tranche = LWLockNewTrancheId("lsm_alloc");
		lsm_control->slot_tranche = LWLockNewTrancheId("lsm_log_slot");
		lsm_control->nblocks = lsm_max_trees;
		pg_atomic_init_u32(&lsm_control->nused, 0);
		pg_atomic_init_u64(&lsm_control->clock, 1);
		pg_atomic_init_u64(&lsm_control->drops, 0);
		pg_atomic_init_u32(&lsm_control->parted, 0);
		pg_atomic_init_u64(&lsm_control->fed_changes, 0);
		pg_atomic_init_u64(&lsm_control->lives, 0);
		lsm_control->free_first = lsm_control->free_last = CONTROL_NONE;
		lsm_control->nbusy_free = 0;
	}
	lsm_control_lock = &GetNamedLWLockTranche("lsmam")[0].lock;

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(uint64);
	info.entrysize = sizeof(ControlEntry);
	lsm_control_hash = ShmemInitHash("lsmam trees by keyspace", lsm_max_trees,
									 &info, HASH_ELEM | HASH_BLOBS);
}

bool
lsm_control_ready(void)
{
	return lsm_control != NULL;
}

/*
 * See control.h.  The library was preloaded (_PG_init), so a process without
 * shared memory is one whose postmaster has not called our hook.
 */
bool
lsm_control_require(int elevel)
{
	if (likely(lsm_control_ready()))
		return true;
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("lsmam has no shared memory"),
			 errdetail("A library after lsmam in shared_preload_libraries does not call the shmem_startup_hook that it finds."),
			 errhint("Name lsmam last in shared_preload_libraries, and restart the server.")));
	return false;
}

/*
 * First use of a block's memory.  Counters and hints begin with zeros; an atomic
 * variable needs no more, not even one that has a lock where the processor lacks
 * 64-bit operations: zero is unlocked there.
 */
void
lsm_control_construct(ControlBlock *block)
{
	LsmTreeShared *ctl = &block->tree;

	memset(block, 0, sizeof(ControlBlock));
	block->free_next = CONTROL_NONE;

	LWLockInitialize(&ctl->lock, lsm_control->tree_tranche);
	LWLockInitialize(&ctl->log.chain_lock, lsm_control->alloc_tranche);
	LWLockInitialize(&ctl->pages.alloc_lock, lsm_control->alloc_tranche);
	for (int i = 0; i < LSM_LOG_SLOTS; i++)
		LWLockInitialize(&ctl->log.slots[i].lock, lsm_control->slot_tranche);
	ConditionVariableInit(&ctl->cv);
	/* a tree that goes from block to block never has an old stamp again */
	pg_atomic_init_u64(&ctl->memory.set_stamp, pg_atomic_add_fetch_u64(&lsm_control->lives, 1) << 32);
	lsm_work_init(&ctl->work);
}

/* ----------------------------------------------------------------------
 * finding blocks
 * ---------------------------------------------------------------------- */

ControlBlock *
lsm_control_find_local(uint64 keyspace_id)
{
	for (int i = 0; i < nlocal_blocks; i++)
	{
		if (pg_atomic_read_u64(&local_blocks[i]->tree.keyspace_id) == keyspace_id)
			return local_blocks[i];
	}
	return NULL;
}

/* REQUIRES: control table lock. */
ControlBlock *
lsm_control_find_shared(uint64 keyspace_id)
{
	ControlEntry *entry;

	Assert(LWLockHeldByMe(lsm_control_lock));
	entry = (ControlEntry *) hash_search(lsm_control_hash, &keyspace_id, HASH_FIND, NULL);
	return entry != NULL ? &lsm_control->blocks[entry->index] : NULL;
}

/*
 * The block of a keyspace, or NULL if it has none.
 */
LsmTreeShared *
lsm_control_find(uint64 keyspace_id)
{
	ControlBlock *block = lsm_control_find_local(keyspace_id);

	Assert(keyspace_id != 0);
	if (block == NULL)
	{
		LWLockAcquire(lsm_control_lock, LW_SHARED);
		block = lsm_control_find_shared(keyspace_id);
		LWLockRelease(lsm_control_lock);
	}
	return block != NULL ? &block->tree : NULL;
}

/* A block more for temporary trees, free. */
ControlBlock *
lsm_control_add_local(void)
{
	ControlBlock *block;

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
	/* kept for good; aligned as the type wants it */
	block = (ControlBlock *)
		TYPEALIGN(LSM_LINE_BYTES, MemoryContextAlloc(TopMemoryContext, sizeof(ControlBlock) + LSM_LINE_BYTES));
	lsm_control_construct(block);
	local_blocks[nlocal_blocks++] = block;
	return block;
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

	pg_atomic_fetch_add_u32(&block->pins, 1);
	LSM_FULL_BARRIER_AFTER_ATOMIC();
	if (pg_atomic_read_u64(&ctl->keyspace_id) != keyspace_id)
	{
		pg_atomic_fetch_sub_u32(&block->pins, 1);
		return false;
	}

	/*
	 * The last few need no order: as long as no others come, transactions of
	 * all backends only read the clock.
	 */
	if (control_now() - pg_atomic_read_u64(&ctl->last_used) >= CONTROL_RECENT)
		control_note_use(ctl);
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
					 RelFileLocator *rlocator, LsmKind *kind, char *relpersistence)
{
	LWLockAcquire(lsm_control_lock, LW_SHARED);
	*keyspace_id = pg_atomic_read_u64(&ctl->keyspace_id);
	*rlocator = ctl->rlocator;
	*kind = ctl->kind;
	*relpersistence = ctl->relpersistence;
	LWLockRelease(lsm_control_lock);
	return *keyspace_id != 0;
}

/* See control.h. */
bool
lsm_control_lives(LsmTreeShared *ctl, uint64 life)
{
	return *(volatile uint64 *) &ctl->life == life;
}

/*
 * i-th block, NULL past the last one that was ever used; may be free.
 */
LsmTreeShared *
lsm_control_nth(int i)
{
	if (i < 0 || i >= (int) pg_atomic_read_u32(&lsm_control->nused))
		return NULL;
	pg_read_barrier();
	return &lsm_control->blocks[i].tree;
}

LsmTreeShared *
lsm_control_nth_local(int i)
{
	return i >= 0 && i < nlocal_blocks ? &local_blocks[i]->tree : NULL;
}

uint64
lsm_control_drops(void)
{
	return pg_atomic_read_u64(&lsm_control->drops);
}

/* See control.h. */
void
lsm_control_note_parted(void)
{
	/* the exchange is a full barrier: before the file gets its new name */
	pg_atomic_exchange_u32(&lsm_control->parted, 1);
	LSM_FULL_BARRIER_AFTER_ATOMIC();
}

/* See control.h. */
bool
lsm_control_has_parted(void)
{
	pg_memory_barrier();
	return pg_atomic_read_u32(&lsm_control->parted) != 0;
}

uint64
lsm_control_fed_changes(void)
{
	return pg_atomic_read_u64(&lsm_control->fed_changes);
}

void
lsm_control_count_fed(void)
{
	pg_atomic_fetch_add_u64(&lsm_control->fed_changes, 1);
}
