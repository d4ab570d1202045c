/*-------------------------------------------------------------------------
 *
 * alloc.c
 *	  Memory of memtables: chunks, and bump allocation from them.
 *
 * Memory is bump-allocated from chunks under a spinlock that is never held
 * while waiting; the memtable's own struct, the head node and the first hash
 * table are in the first chunk, where more than 29 kB remain for entries.
 * Nothing is freed before the memtable is.
 *
 * Locking: the memtable's spinlock, a leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

void *
lsm_memtable_shared_chunk(void)
{
	void	   *chunk = lsm_arena_allocate_chunk();

	if (chunk == NULL && lsm_memtable_reclaim() > 0)
		chunk = lsm_arena_allocate_chunk();
	return chunk;
}

void *
lsm_memtable_allocate_chunk(SkipList *m)
{
	void	   *chunk;

	if (m->pub.local)
		chunk = MemoryContextAlloc(m->context, LSM_CHUNK_BYTES);
	else
		chunk = lsm_memtable_shared_chunk();
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
