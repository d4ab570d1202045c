/*-------------------------------------------------------------------------
 *
 * alloc.c
 *	  Memory of memtables: creation, bump allocation from chunks, retirement
 *	  and destruction.
 *
 * Memory is bump-allocated from chunks under a spinlock that is never held
 * while waiting; the memtable's own struct, the head node and the first hash
 * table are in the first chunk, where more than 29 kB remain for entries.
 * Nothing is freed before the memtable is.
 *
 * A retired memtable of shared memory waits in a list until its epoch has
 * passed; whoever needs memory destroys those that have.  Memtables of backend
 * memory are only waiting for the end of their own process's epoch.
 *
 * Locking: the spinlocks here are leaves.
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

/* ----------------------------------------------------------------------
 * memory
 * ---------------------------------------------------------------------- */

void *
lsm_memtable_allocate_chunk(SkipList *m)
{
	void	   *chunk;

	if (m->pub.local)
		chunk = MemoryContextAlloc(m->context, LSM_CHUNK_BYTES);
	else
		chunk = lsm_arena_allocate_chunk();
	if (chunk != NULL)
		pg_atomic_fetch_add_u64(&m->pub.bytes, LSM_CHUNK_BYTES);
	return chunk;
}

static void
mem_chunk_free(SkipList *m, void *chunk)
{
	pg_atomic_fetch_sub_u64(&m->pub.bytes, LSM_CHUNK_BYTES);
	if (m->pub.local)
		pfree(chunk);
	else
		lsm_arena_free_chunk(chunk);
}

/*
 * Memory about to be written, in a chunk that another process may have opened:
 * a page fault of a read maps all pages of the chunk, that of a write only one
 * (arena.c).
 */
static inline void
mem_touch(const char *p)
{
	(void) *(const volatile char *) p;
}

/* From the present chunk; NULL if too little is left.  REQUIRES: spinlock. */
static inline char *
mem_take(SkipList *m, Size bytes)
{
	char	   *p = m->free;

	if (m->left < bytes)
		return NULL;
	m->free += bytes;
	m->left -= bytes;
	return p;
}

void *
lsm_memtable_allocate(SkipList *m, Size bytes)
{
	MemChunk   *chunk;
	char	   *p;
	uint32		rest;

	bytes = MAXALIGN(bytes);
	Assert(bytes <= LSM_CHUNK_BYTES - MEM_CHUNK_HEADER);

	SpinLockAcquire(&m->mutex);
	p = mem_take(m, bytes);
	SpinLockRelease(&m->mutex);
	if (p != NULL)
	{
		mem_touch(p);
		return p;
	}

	chunk = (MemChunk *) lsm_memtable_allocate_chunk(m);
	if (chunk == NULL)
		return NULL;

	SpinLockAcquire(&m->mutex);
	p = mem_take(m, bytes);
	if (p != NULL)
	{
		/* someone else has opened a chunk meanwhile */
		SpinLockRelease(&m->mutex);
		mem_chunk_free(m, chunk);
		return p;
	}
	chunk->next = m->chunks;
	m->chunks = chunk;
	p = (char *) chunk + MEM_CHUNK_HEADER;

	/*
	 * Go on in whichever chunk has more room left: a large entry gets a chunk
	 * for itself and small ones continue to fill the present one.
	 */
	rest = LSM_CHUNK_BYTES - MEM_CHUNK_HEADER - bytes;
	if (rest > m->left)
	{
		m->free = p + bytes;
		m->left = rest;
	}
	SpinLockRelease(&m->mutex);
	return p;
}

char *
lsm_memtable_allocate_run(SkipList *m, const Size *bytes, int n, int *got)
{
	char	   *p;
	int			i = 0;

	SpinLockAcquire(&m->mutex);
	p = m->free;
	while (i < n && mem_take(m, bytes[i]) != NULL)
		i++;
	SpinLockRelease(&m->mutex);
	if (i == 0)
	{
		p = lsm_memtable_allocate(m, bytes[0]);
		i = 1;
	}
	else
		mem_touch(p);
	*got = i;
	return p;
}

/*
 * A new, empty memtable with one reference: the caller's.  `local`: in backend
 * memory.  NULL if the arena has no chunk.
 */
LsmMemtable *
lsm_memtable_create(uint64 generation, bool local)
{
	MemoryContext context = NULL;
	MemChunk   *chunk;
	SkipList   *m;
	MemIndex   *index;
	char	   *p;

	if (local)
	{
		context = AllocSetContextCreate(TopMemoryContext, "lsmam memtable",
										ALLOCSET_SMALL_SIZES);
		chunk = (MemChunk *) MemoryContextAlloc(context, LSM_CHUNK_BYTES);
	}
	else
	{
		chunk = (MemChunk *) lsm_arena_allocate_chunk();
		if (chunk == NULL)
			return NULL;
	}

	memset(chunk, 0, MEM_PREAMBLE_BYTES);
	p = (char *) chunk + MEM_CHUNK_HEADER;

	m = (SkipList *) p;
	p += MAXALIGN(sizeof(SkipList));
	m->pub.generation = generation;
	m->pub.local = local;
	pg_atomic_init_u32(&m->pub.writers, 0);
	pg_atomic_init_u64(&m->pub.bytes, LSM_CHUNK_BYTES);
	pg_atomic_init_u64(&m->pub.entries, 0);
	pg_atomic_init_u64(&m->pub.removed, 0);
	pg_atomic_init_u32(&m->pub.pruned_xid, InvalidTransactionId);
	m->context = context;
	SpinLockInit(&m->mutex);
	LWLockInitialize(&m->link_lock, mem_retired->tranche);
	m->min_prefix = PG_UINT64_MAX;
	lsm_deferred_init(m);

	m->head = (LsmMemNode *) p;
	m->head->height = MEM_MAX_HEIGHT;
	m->max_height = 1;
	p += MEM_HEAD_BYTES;

	index = (MemIndex *) p;
	index->mask = MEM_FIRST_BUCKETS - 1;
	index->nsegments = index->nfilled = 1;
	index->segments[0] = (uint64 *) (p + offsetof(MemIndex, segments) + sizeof(uint64 *));
	m->indexes[0] = index;
	m->nindexes = 1;
	p += MEM_FIRST_INDEX_BYTES;

	m->chunks = chunk;
	m->free = p;
	m->left = (char *) chunk + LSM_CHUNK_BYTES - p;

	return &m->pub;
}

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

/* ----------------------------------------------------------------------
 * retirement
 * ---------------------------------------------------------------------- */

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
		mem_retired->tranche = LWLockNewTrancheId();
		SpinLockInit(&mem_retired->mutex);
		mem_retired->first = NULL;
	}
	LWLockRegisterTranche(mem_retired->tranche, "lsm_memtable");
}

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
