/*-------------------------------------------------------------------------
 *
 * arena.c
 *	  Fixed shared memory for memtables, handed out in equal chunks.
 *
 * The size is lsm.memtable_memory, set at server start; nothing here ever
 * grows.  Free chunks form a lock-free stack (Treiber, "Systems Programming:
 * Coping with Parallelism", 1986): the head packs a chunk number with a tag
 * that changes at every operation, so that a chunk popped and pushed back
 * between another process's read and compare-and-swap does not fool it.  The
 * links are kept outside the chunks because a popped chunk's content belongs
 * to its new owner while a slow competitor may still read the link.
 *
 * Locking: none.  May be called in any context, also in a critical section
 * (freeing) and with locks held; never waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>

#include "port/atomics.h"
#include "storage/shmem.h"

#include "tree/memtable/memtable.h"

int			lsm_memtable_memory_kb = 256 * 1024;

typedef struct ArenaShared
{
	pg_atomic_uint64 head;		/* tag << 32 | (chunk number + 1), 0 = empty */
	pg_atomic_uint32 nfree;
	uint32		nchunks;
	pg_atomic_uint64 taken;		/* chunks ever handed out */
	char	   *chunks;			/* start of the first chunk */
	uint32		links[FLEXIBLE_ARRAY_MEMBER];	/* chunk number + 1 of the
												 * next free chunk */
} ArenaShared;

static ArenaShared *arena = NULL;

#define ARENA_HEAD(tag, link)	(((uint64) (tag) << 32) | (uint64) (link))
#define ARENA_TAG(head)			((uint32) ((head) >> 32))
#define ARENA_LINK(head)		((uint32) (head))

static uint32
arena_chunk_count(void)
{
	uint64		chunks = (uint64) lsm_memtable_memory_kb * 1024 / LSM_CHUNK_BYTES;

	/* a tree needs one chunk to accept a write at all */
	return (uint32) Max(chunks, 16);
}

static Size
arena_header_bytes(uint32 nchunks)
{
	Size		bytes = offsetof(ArenaShared, links);

	bytes = add_size(bytes, mul_size(nchunks, sizeof(uint32)));
	return TYPEALIGN(PG_CACHE_LINE_SIZE, bytes);
}

/*
 * Shared memory the arena needs, bytes.
 */
Size
lsm_arena_shmem_bytes(void)
{
	uint32		nchunks = arena_chunk_count();
	Size		bytes = arena_header_bytes(nchunks);

	bytes = add_size(bytes, LSM_CHUNK_BYTES);	/* alignment of chunks */
	return add_size(bytes, mul_size(nchunks, LSM_CHUNK_BYTES));
}

/*
 * Create the arena or attach to it.  REQUIRES: AddinShmemInitLock held.
 */
void
lsm_arena_shmem_init(void)
{
	bool		found;
	uint32		nchunks = arena_chunk_count();

	arena = (ArenaShared *) ShmemInitStruct("lsmam arena",
											lsm_arena_shmem_bytes(), &found);
	if (found)
		return;

	arena->nchunks = nchunks;
	arena->chunks = (char *) TYPEALIGN(LSM_CHUNK_BYTES,
									   (char *) arena + arena_header_bytes(nchunks));

	/* lowest addresses first, so that a small load touches little memory */
	for (uint32 i = 0; i < nchunks; i++)
		arena->links[i] = (i + 1 < nchunks) ? i + 2 : 0;
	pg_atomic_init_u32(&arena->nfree, nchunks);
	pg_atomic_init_u64(&arena->taken, 0);
	pg_atomic_init_u64(&arena->head, ARENA_HEAD(0, nchunks > 0 ? 1 : 0));
}

static void *
arena_pop(void)
{
	uint64		head = pg_atomic_read_u64(&arena->head);

	for (;;)
	{
		uint32		link = ARENA_LINK(head);
		uint32		next;

		if (link == 0)
			return NULL;

		/*
		 * The link may be overwritten by a competitor at this moment; then
		 * the tag has changed and the swap below fails.
		 */
		pg_read_barrier();
		next = *(volatile uint32 *) &arena->links[link - 1];
		if (pg_atomic_compare_exchange_u64(&arena->head, &head,
										   ARENA_HEAD(ARENA_TAG(head) + 1, next)))
		{
			pg_atomic_fetch_sub_u32(&arena->nfree, 1);
			pg_atomic_fetch_add_u64(&arena->taken, 1);
			return arena->chunks + (Size) (link - 1) * LSM_CHUNK_BYTES;
		}
	}
}

/*
 * Map the pages of a chunk at once, instead of by a fault each.  Now that they
 * exist, Linux maps all of them into any other process, too, when that one
 * first reads in the chunk; were it to write first, it would get one page only
 * (mem_touch() in alloc.c).  All this is about speed: older kernels refuse.
 */
static void
arena_map_chunk(void *chunk)
{
#ifdef MADV_POPULATE_WRITE
	static bool refused = false;
	int			save_errno = errno;

	if (!refused && madvise(chunk, LSM_CHUNK_BYTES, MADV_POPULATE_WRITE) != 0)
		refused = true;
	errno = save_errno;
#endif
}

/*
 * A chunk of LSM_CHUNK_BYTES bytes, content undefined.  NULL if none is free.
 */
void *
lsm_arena_allocate_chunk(void)
{
	void	   *chunk = arena_pop();

	if (chunk != NULL)
		arena_map_chunk(chunk);
	return chunk;
}

/*
 * Give back a chunk that nobody refers to any more.
 */
void
lsm_arena_free_chunk(void *chunk)
{
	Size		offset = (char *) chunk - arena->chunks;
	uint32		link = (uint32) (offset / LSM_CHUNK_BYTES) + 1;
	uint64		head = pg_atomic_read_u64(&arena->head);

	Assert(offset % LSM_CHUNK_BYTES == 0 && link <= arena->nchunks);

	/* count first: never counts more chunks as used than there are */
	pg_atomic_fetch_add_u32(&arena->nfree, 1);
	do
	{
		*(volatile uint32 *) &arena->links[link - 1] = ARENA_LINK(head);
		pg_write_barrier();
	} while (!pg_atomic_compare_exchange_u64(&arena->head, &head,
											 ARENA_HEAD(ARENA_TAG(head) + 1, link)));
}

/*
 * Free chunks at this moment, without those of retired memtables.
 */
int
lsm_arena_free_chunks(void)
{
	return (int) pg_atomic_read_u32(&arena->nfree);
}

int
lsm_arena_total_chunks(void)
{
	return (int) arena->nchunks;
}

/* See memtable.h. */
uint64
lsm_arena_taken_chunks(void)
{
	return pg_atomic_read_u64(&arena->taken);
}

/* See memtable.h. */
bool
lsm_arena_is_short(void)
{
	return lsm_arena_free_chunks() < lsm_arena_total_chunks() / 10;
}

uint64
lsm_arena_large_bytes(void)
{
	return (uint64) lsm_arena_total_chunks() * LSM_CHUNK_BYTES / 64;
}
