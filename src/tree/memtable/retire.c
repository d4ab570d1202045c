/*-------------------------------------------------------------------------
 *
 * retire.c
 *	  The end of a memtable: retirement and destruction.
 *
 * A retired memtable of shared memory waits in a list until its epoch has
 * passed; whoever needs memory destroys those that have.  Memtables of backend
 * memory are only waiting for the end of their own process's epoch, which
 * destroys them (epoch.c).
 *
 * Locking: the spinlock of the list, a leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/shmem.h"
#include "utils/memutils.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

/* Retired memtables of shared memory */
typedef struct MemRetired
{
	int			tranche;		/* of memtables' link_lock */
	slock_t		mutex;
	LsmMemtable *first;
} MemRetired;

static MemRetired *mem_retired = NULL;

/* Local ones that were retired inside an epoch */
static LsmMemtable *mem_retired_local = NULL;

/* ---- shared memory ---- */

Size
lsm_memtable_shmem_bytes(void)
{
	return MAXALIGN(sizeof(MemRetired));
}

/*
 * Create or attach to the list of retired memtables.  REQUIRES:
 * AddinShmemInitLock held.
 */
void
lsm_memtable_shmem_init(void)
{
	bool		found;

	mem_retired = (MemRetired *) ShmemInitStruct("lsmam retired memtables",
												 sizeof(MemRetired), &found);
	if (!found)
	{
		mem_retired->tranche = LWLockNewTrancheId("lsm_memtable");
		SpinLockInit(&mem_retired->mutex);
		mem_retired->first = NULL;
	}
}

int
lsm_memtable_tranche(void)
{
	return mem_retired->tranche;
}

/* ---- destruction ---- */

static void
mem_free_segments(MemIndex *index)
{
	for (uint64 i = 0; i < index->nfilled; i++)
		lsm_arena_free_chunk(index->segments[i]);
}

/* Returns the number of arena chunks freed. */
static int
mem_destroy(SkipList *m)
{
	int			nchunks;
	MemChunk   *chunk;

	Assert(pg_atomic_read_u32(&m->pub.writers) == 0);

	if (m->pub.local)
	{
		MemoryContextDelete(m->context);
		return 0;
	}

	nchunks = (int) (pg_atomic_read_u64(&m->pub.bytes) / LSM_CHUNK_BYTES);

	/* the directories are inside the chunks: segments first */
	for (uint32 i = 1; i < m->nindexes; i++)
		mem_free_segments(m->indexes[i]);
	if (m->pending_index != NULL)
		mem_free_segments(m->pending_index);

	/* *m is in one of them */
	chunk = m->chunks;
	while (chunk != NULL)
	{
		MemChunk   *next = chunk->next;

		lsm_arena_free_chunk(chunk);
		chunk = next;
	}
	return nchunks;
}

/*
 * Free all memory of a memtable.  REQUIRES: nobody else can reach it.
 */
void
lsm_memtable_destroy(LsmMemtable *memtable)
{
	(void) mem_destroy((SkipList *) memtable);
}

/* ---- retirement ---- */

/*
 * The memtable was unlinked from its tree: destroy it when no reader can see
 * it any more.  No writer is registered, or (a loader in recovery) the writer
 * is inside an epoch, which keeps the memtable like a reader's.
 */
void
lsm_memtable_retire(LsmMemtable *memtable)
{
	if (memtable->local)
	{
		Assert(pg_atomic_read_u32(&memtable->writers) == 0);

		/* the only possible reader is this process */
		if (lsm_epoch_inside())
		{
			memtable->retire_next = mem_retired_local;
			mem_retired_local = memtable;
		}
		else
			lsm_memtable_destroy(memtable);
		return;
	}

	memtable->retire_epoch = lsm_epoch_advance();
	SpinLockAcquire(&mem_retired->mutex);
	memtable->retire_next = mem_retired->first;
	mem_retired->first = memtable;
	SpinLockRelease(&mem_retired->mutex);

	/* often nobody is looking; frees this one, and others that had to wait */
	(void) lsm_memtable_reclaim();
}

/*
 * Destroy retired memtables whose epoch has passed; returns the number of
 * chunks freed.
 */
int
lsm_memtable_reclaim(void)
{
	uint64		safe;
	LsmMemtable *dead = NULL;
	LsmMemtable **link;
	int			nchunks = 0;

	/* a stale answer only delays */
	if (*(LsmMemtable *volatile *) &mem_retired->first == NULL)
		return 0;

	safe = lsm_epoch_safe();
	SpinLockAcquire(&mem_retired->mutex);
	link = &mem_retired->first;
	while (*link != NULL)
	{
		LsmMemtable *memtable = *link;

		if (memtable->retire_epoch <= safe)
		{
			*link = memtable->retire_next;
			memtable->retire_next = dead;
			dead = memtable;
		}
		else
			link = &memtable->retire_next;
	}
	SpinLockRelease(&mem_retired->mutex);

	while (dead != NULL)
	{
		LsmMemtable *next = dead->retire_next;

		nchunks += mem_destroy((SkipList *) dead);
		dead = next;
	}
	return nchunks;
}

/*
 * This process has left its epoch.
 */
void
lsm_memtable_reclaim_local(void)
{
	while (mem_retired_local != NULL)
	{
		LsmMemtable *memtable = mem_retired_local;

		mem_retired_local = memtable->retire_next;
		lsm_memtable_destroy(memtable);
	}
}
