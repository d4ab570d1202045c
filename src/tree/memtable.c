/*-------------------------------------------------------------------------
 *
 * memtable.c
 *	  One generation's entries in memory: a skiplist ordered by key and a hash
 *	  index by digest, both with lock-free readers and concurrent writers.
 *
 * Nothing is ever removed from a memtable, which makes lock freedom simple:
 * a node once linked stays where it is, a search may go on from
 * any node it has reached, and a failed compare-and-swap only means walking
 * further.  All memory goes away at once when the memtable is destroyed.
 *
 * Skiplist: W. Pugh, "Skip lists: a probabilistic alternative to balanced
 * trees" (1990), branching 4; insertion by compare-and-swap from the
 * bottom level up (M. Herlihy, N. Shavit, "The Art of Multiprocessor
 * Programming", 14.4, without deletion).  A node is reachable on level l only
 * after it was linked on all levels below, so a descent never gets
 * stuck.  The compare-and-swap on level 0 decides who creates a key's node.
 *
 * Digest index: a list of hash tables, each 8 to 16 times larger than the one before.
 * An entry is added to the newest table and never moves; a lookup
 * probes all tables.  That is cheap because the older tables are small (they
 * stay in the CPU's cache) and because the unused upper 16 bits of a bucket's
 * head pointer summarise the chain: one bit per entry, chosen by the digest, so that
 * most lookups of absent digests end at the bucket.  The index has one
 * entry per digest, not per key: many keys of an index tree
 * share one digest.  A node whose key is not the entry's is found through the
 * skiplist.
 *
 * What insert promises: when it returns, the key's node is in the
 * skiplist, the digest in the index, and the value is the node's newest one,
 * hidden by a newer one, or the base of a newer PARTIAL.
 *
 * Values of a node: see node_add_value().
 *
 * Memory is bump-allocated from chunks under a spinlock that is never held
 * while waiting; the memtable's own struct, the head node and the first hash
 * table are in the first chunk, where more than 29 kB remain for entries.
 *
 * Locking: the spinlocks here are leaves.  lsm_memtable_insert() takes none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "port/atomics.h"
#include "port/pg_bswap.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/memutils.h"

#include "tree/tree_private.h"

StaticAssertDecl(sizeof(void *) == 8, "lsmam needs 64-bit pointers");

#define MEM_MAX_HEIGHT		12	/* 4^12 nodes */
#define MEM_FIRST_BUCKETS	256
#define MEM_SEGMENT_BUCKETS	((uint64) LSM_CHUNK_BYTES / sizeof(uint64))
#define MEM_MAX_INDEXES		5
#define MEM_LOAD_FACTOR		2	/* entries per bucket before a table is added */

/* Buckets of table i: 256, 4096 (one chunk), then 8 times more each */
static const uint64 mem_index_buckets[MEM_MAX_INDEXES] = {
	MEM_FIRST_BUCKETS,
	MEM_SEGMENT_BUCKETS,
	MEM_SEGMENT_BUCKETS * 8,
	MEM_SEGMENT_BUCKETS * 64,
	MEM_SEGMENT_BUCKETS * 512
};

/*
 * A node as reserved: this struct, `height` links, room for the key, aligned
 * room for one LsmMemValue.  If the key turns out to have a node
 * already, only the value's room is used (and rarely the index entry).
 */
struct LsmMemNode
{
	uint64		prefix;			/* first 8 bytes of the key, big-endian, zero
								 * padded: decides most comparisons */
	uint64		value;			/* newest LsmMemValue, tagged with a counter */
	struct LsmMemNode *hash_next;
	LsmDigest	digest;
	uint16		key_bytes;		/* before insertion: room for the key */
	uint8		height;			/* 0: an index entry only, not in the skiplist */
	uint32		value_room;		/* bytes reserved for the value */
	struct LsmMemNode *next[FLEXIBLE_ARRAY_MEMBER];
	/* key bytes follow */
};

typedef struct MemIndex
{
	uint64		mask;			/* buckets - 1 */
	uint64		nsegments;		/* needed */
	uint64		nfilled;		/* allocated so far */
	uint64	   *segments[FLEXIBLE_ARRAY_MEMBER];	/* MEM_SEGMENT_BUCKETS
													 * buckets each */
} MemIndex;

typedef struct MemChunk
{
	struct MemChunk *next;
} MemChunk;

typedef struct Memtable
{
	LsmMemtable pub;			/* first */

	/* read-mostly */
	LsmMemNode *head;			/* no key; full height */
	uint32		max_height;		/* of any node: where searches start */
	uint32		nindexes;
	MemIndex   *indexes[MEM_MAX_INDEXES];
	MemoryContext context;		/* local only */

	/* written by inserters */
	uint64		index_entries;

	/* under the spinlock */
	slock_t		mutex;
	bool		growing;		/* someone is at pending_index */
	MemIndex   *pending_index;	/* next table, being allocated */
	MemChunk   *chunks;			/* all chunks but those of index segments */
	char	   *free;			/* where the next allocation goes */
	uint32		left;			/* bytes from there to the chunk's end */
} Memtable;

#define MEM_CHUNK_HEADER	MAXALIGN(sizeof(MemChunk))
#define MEM_NODE_BYTES(height, key_bytes) \
	MAXALIGN(offsetof(LsmMemNode, next) + \
			 sizeof(LsmMemNode *) * (height) + (key_bytes))
#define MEM_HEAD_BYTES		MEM_NODE_BYTES(MEM_MAX_HEIGHT, 0)
#define MEM_FIRST_INDEX_BYTES \
	MAXALIGN(offsetof(MemIndex, segments) + sizeof(uint64 *) + \
			 sizeof(uint64) * MEM_FIRST_BUCKETS)
#define MEM_PREAMBLE_BYTES \
	(MEM_CHUNK_HEADER + MAXALIGN(sizeof(Memtable)) + MEM_HEAD_BYTES + \
	 MEM_FIRST_INDEX_BYTES)

/* The largest entry fits into a chunk, and even into the first one. */
StaticAssertDecl(MEM_PREAMBLE_BYTES + MEM_NODE_BYTES(MEM_MAX_HEIGHT, 0) +
				 offsetof(LsmMemValue, data) + LSM_MAX_ENTRY_BYTES +
				 2 * MAXIMUM_ALIGNOF <= LSM_CHUNK_BYTES,
				 "a chunk must hold the largest entry");

/* Retired memtables of shared memory */
typedef struct MemRetired
{
	slock_t		mutex;
	LsmMemtable *first;
} MemRetired;

static MemRetired *mem_retired = NULL;

/* Local ones that were retired inside an epoch */
static LsmMemtable *mem_retired_local = NULL;

/* ----------------------------------------------------------------------
 * atomic access to pointers and words shared with other processes
 *
 * Stores release, loads acquire: whoever finds a node sees it complete.
 * Everything a proof below calls an order between two different words uses
 * sequentially consistent operations.
 * ---------------------------------------------------------------------- */

#define mem_load(p)			__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define mem_load_seq(p)		__atomic_load_n((p), __ATOMIC_SEQ_CST)
#define mem_store(p, v)		__atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define mem_cas(p, expected, desired) \
	__atomic_compare_exchange_n((p), (expected), (desired), false, \
								__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Where another process may come in between; the unit test yields here. */
#ifndef MEM_RACE_POINT
#define MEM_RACE_POINT()	((void) 0)
#endif

/* User space addresses have at most 48 bits; the rest of a word is a tag. */
#define MEM_POINTER_BITS	48
#define MEM_POINTER_MASK	((UINT64CONST(1) << MEM_POINTER_BITS) - 1)
#define mem_pointer(word)	((void *) (uintptr_t) ((word) & MEM_POINTER_MASK))
#define mem_tag(word)		((word) & ~MEM_POINTER_MASK)

static inline uint64
mem_word(const void *pointer)
{
	Assert(((uint64) (uintptr_t) pointer & ~MEM_POINTER_MASK) == 0);
	return (uint64) (uintptr_t) pointer;
}

/* ----------------------------------------------------------------------
 * memory
 * ---------------------------------------------------------------------- */

static void *
mem_chunk_allocate(Memtable *m)
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
mem_chunk_free(Memtable *m, void *chunk)
{
	pg_atomic_fetch_sub_u64(&m->pub.bytes, LSM_CHUNK_BYTES);
	if (m->pub.local)
		pfree(chunk);
	else
		lsm_arena_free_chunk(chunk);
}

/*
 * `bytes` of chunk memory, aligned; NULL if there is no chunk to be had.
 */
static void *
mem_allocate(Memtable *m, Size bytes)
{
	MemChunk   *chunk;
	char	   *p = NULL;
	uint32		rest;

	bytes = MAXALIGN(bytes);
	Assert(bytes <= LSM_CHUNK_BYTES - MEM_CHUNK_HEADER);

	SpinLockAcquire(&m->mutex);
	if (m->left >= bytes)
	{
		p = m->free;
		m->free += bytes;
		m->left -= bytes;
	}
	SpinLockRelease(&m->mutex);
	if (p != NULL)
		return p;

	chunk = (MemChunk *) mem_chunk_allocate(m);
	if (chunk == NULL)
		return NULL;

	SpinLockAcquire(&m->mutex);
	if (m->left >= bytes)
	{
		/* someone else has opened a chunk meanwhile */
		p = m->free;
		m->free += bytes;
		m->left -= bytes;
		SpinLockRelease(&m->mutex);
		mem_chunk_free(m, chunk);
		return p;
	}
	chunk->next = m->chunks;
	m->chunks = chunk;
	p = (char *) chunk + MEM_CHUNK_HEADER;

	/*
	 * Go on in whichever chunk has more room left: a large entry gets a chunk for
	 * itself and small ones continue to fill the present one.
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

/*
 * A new, empty memtable with one reference: the caller's.  `local`: in backend
 * memory.  NULL if the arena has no chunk.
 */
LsmMemtable *
lsm_memtable_create(uint64 generation, bool local)
{
	MemoryContext context = NULL;
	MemChunk   *chunk;
	Memtable   *m;
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

	m = (Memtable *) p;
	p += MAXALIGN(sizeof(Memtable));
	m->pub.generation = generation;
	m->pub.local = local;
	pg_atomic_init_u32(&m->pub.writers, 0);
	pg_atomic_init_u64(&m->pub.bytes, LSM_CHUNK_BYTES);
	pg_atomic_init_u64(&m->pub.entries, 0);
	m->context = context;
	SpinLockInit(&m->mutex);

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
mem_destroy(Memtable *m)
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
	(void) mem_destroy((Memtable *) memtable);
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
	if (found)
		return;
	SpinLockInit(&mem_retired->mutex);
	mem_retired->first = NULL;
}

/*
 * The memtable was unlinked from its tree, and no writer is registered:
 * destroy it when no reader can see it any more.
 */
void
lsm_memtable_retire(LsmMemtable *memtable)
{
	Assert(pg_atomic_read_u32(&memtable->writers) == 0);

	if (memtable->local)
	{
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

		nchunks += mem_destroy((Memtable *) dead);
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

/* ----------------------------------------------------------------------
 * digest index
 * ---------------------------------------------------------------------- */

static inline uint64 *
index_bucket(MemIndex *index, LsmDigest digest)
{
	uint64		bucket = digest & index->mask;

	return &index->segments[bucket / MEM_SEGMENT_BUCKETS][bucket % MEM_SEGMENT_BUCKETS];
}

/* The bit of a bucket's summary that stands for the digest */
static inline uint64
index_summary(LsmDigest digest)
{
	return UINT64CONST(1) << (MEM_POINTER_BITS + (digest >> 60));
}

/* Entry with the digest in the chain, or NULL. */
static inline LsmMemNode *
index_chain_search(uint64 head, LsmDigest digest)
{
	LsmMemNode *node;

	if ((head & index_summary(digest)) == 0)
		return NULL;
	for (node = mem_pointer(head); node != NULL; node = node->hash_next)
	{
		if (node->digest == digest)
			return node;
	}
	return NULL;
}

/* Entry with the digest, or NULL if it was never added. */
static LsmMemNode *
index_search(Memtable *m, LsmDigest digest)
{
	uint32		n = mem_load(&m->nindexes);

	while (n-- > 0)
	{
		LsmMemNode *node;

		node = index_chain_search(mem_load(index_bucket(m->indexes[n], digest)), digest);
		if (node != NULL)
			return node;
	}
	return NULL;
}

/*
 * Make sure that the digest is in the index, with `entry` if it is not there
 * yet.  A digest that two processes add at the same time to different tables is there
 * twice, which does no harm.
 */
static void
index_add(Memtable *m, LsmMemNode *entry, LsmDigest digest)
{
	uint64	   *bucket = index_bucket(m->indexes[mem_load(&m->nindexes) - 1], digest);
	uint64		head = mem_load(bucket);

	do
	{
		if (index_chain_search(head, digest) != NULL)
			return;
		entry->hash_next = mem_pointer(head);
		MEM_RACE_POINT();
	} while (!mem_cas(bucket, &head,
					  mem_word(entry) | mem_tag(head) | index_summary(digest)));

	__atomic_fetch_add(&m->index_entries, 1, __ATOMIC_RELAXED);
}

/*
 * Add a larger table if the newest one is full.  Optional: without memory the
 * chains get longer, and the next reservation tries again.
 */
static void
index_grow(Memtable *m)
{
	uint32		n = mem_load(&m->nindexes);
	uint64		nsegments;
	MemIndex   *index;
	bool		mine;

	if (n == MEM_MAX_INDEXES)
		return;
	nsegments = mem_index_buckets[n] / MEM_SEGMENT_BUCKETS;

	/* leave the last chunks to entries */
	if (!m->pub.local && lsm_arena_free_chunks() < 2 * nsegments)
		return;

	SpinLockAcquire(&m->mutex);
	mine = !m->growing && m->nindexes == n;
	if (mine)
		m->growing = true;
	SpinLockRelease(&m->mutex);
	if (!mine)
		return;

	/*
	 * If a local allocation raises an error, `growing` stays set and the
	 * memtable lives on with the tables that it has.
	 */
	index = m->pending_index;
	if (index == NULL)
	{
		index = mem_allocate(m, offsetof(MemIndex, segments) +
							 nsegments * sizeof(uint64 *));
		if (index != NULL)
		{
			index->mask = mem_index_buckets[n] - 1;
			index->nsegments = nsegments;
			index->nfilled = 0;
			m->pending_index = index;
		}
	}
	while (index != NULL && index->nfilled < nsegments)
	{
		uint64	   *segment = (uint64 *) mem_chunk_allocate(m);

		if (segment == NULL)
			break;
		memset(segment, 0, LSM_CHUNK_BYTES);
		index->segments[index->nfilled++] = segment;
	}
	if (index != NULL && index->nfilled == nsegments)
	{
		m->pending_index = NULL;
		m->indexes[n] = index;
		mem_store(&m->nindexes, n + 1);
	}

	SpinLockAcquire(&m->mutex);
	m->growing = false;
	SpinLockRelease(&m->mutex);
}

/* ----------------------------------------------------------------------
 * skiplist
 * ---------------------------------------------------------------------- */

static inline const char *
node_key_data(LsmMemNode *node)
{
	return (const char *) &node->next[node->height];
}

static inline uint64
key_prefix(LsmSlice key)
{
	uint64		prefix = 0;

	memcpy(&prefix, key.data, Min(key.len, sizeof(prefix)));
	return pg_ntoh64(prefix);
}

/* Order of the node's key and the key: < 0, 0, > 0 */
static inline int
node_compare(LsmMemNode *node, uint64 prefix, LsmSlice key)
{
	/*
	 * Zero padding is harmless: if the prefixes differ, either in two key
	 * bytes or in a key byte and padding, the shorter key being the smaller.
	 */
	if (node->prefix != prefix)
		return node->prefix < prefix ? -1 : 1;
	return lsm_slice_compare(lsm_slice(node_key_data(node), node->key_bytes), key);
}

/*
 * Descend to the last node with a key < the argument (or the head); *found is
 * the node after it, NULL at the end.  If `preds` is given it receives
 * the last node before the key on every level; levels nobody uses yet get the
 * head.
 */
static LsmMemNode *
list_search(Memtable *m, uint64 prefix, LsmSlice key, LsmMemNode **found,
			LsmMemNode **preds)
{
	int			level = (int) mem_load(&m->max_height) - 1;
	LsmMemNode *node = m->head;
	LsmMemNode *bigger = NULL;	/* known to be >= the key */

	if (preds != NULL)
	{
		for (int i = level + 1; i < MEM_MAX_HEIGHT; i++)
			preds[i] = m->head;
	}
	for (;;)
	{
		LsmMemNode *next = mem_load(&node->next[level]);

		if (next != NULL && next != bigger && node_compare(next, prefix, key) < 0)
		{
			node = next;
			continue;
		}
		bigger = next;
		if (preds != NULL)
			preds[level] = node;
		if (level == 0)
			break;
		level--;
	}
	*found = bigger;
	return node;
}

/*
 * Link the node between *pred, or a later node, and its successor on a level.
 * On level 0, a node with the same key is returned instead if there is one.
 */
static LsmMemNode *
list_link(LsmMemNode *node, int level, LsmMemNode *pred, LsmSlice key)
{
	LsmMemNode *next = mem_load(&pred->next[level]);

	for (;;)
	{
		while (next != NULL)
		{
			int			c = node_compare(next, node->prefix, key);

			if (c == 0 && level == 0)
				return next;
			Assert(c != 0);
			if (c > 0)
				break;
			pred = next;
			next = mem_load(&pred->next[level]);
		}
		mem_store(&node->next[level], next);
		/* failure: `next` is what someone else has just linked after pred */
		if (mem_cas(&pred->next[level], &next, node))
			return node;
	}
}

/*
 * Insert the node, or return the one that has its key already.
 */
static LsmMemNode *
list_insert(Memtable *m, LsmMemNode *node, LsmSlice key)
{
	LsmMemNode *preds[MEM_MAX_HEIGHT];
	LsmMemNode *found;
	uint32		max_height;

	(void) list_search(m, node->prefix, key, &found, preds);
	if (found != NULL && node_compare(found, node->prefix, key) == 0)
		return found;

	MEM_RACE_POINT();
	found = list_link(node, 0, preds[0], key);
	if (found != node)
		return found;
	pg_atomic_fetch_add_u64(&m->pub.entries, 1);

	for (int level = 1; level < node->height; level++)
		(void) list_link(node, level, preds[level], key);

	/* a search that starts too low is slower, not wrong */
	max_height = mem_load(&m->max_height);
	while (max_height < node->height &&
		   !mem_cas(&m->max_height, &max_height, (uint32) node->height))
		 /* try again */ ;
	return node;
}

/* ----------------------------------------------------------------------
 * values
 * ---------------------------------------------------------------------- */

static inline LsmTag
value_tag(const LsmMemValue *value)
{
	return (LsmTag) (unsigned char) value->data[0];
}

/*
 * `value`, a PUT or DELETE, is older than a PARTIAL that is the node's newest
 * value: make it the PARTIAL's base unless that has a newer one.
 *
 * The difficulty is a process B that at this moment replaces the PARTIAL P by a newer
 * PARTIAL Q: it copies P's base to Q's before it swaps the node's pointer,
 * and could miss ours.  So the node's word carries a counter beside the pointer,
 * and we raise it after P's base has been set.  If B read the word before that, its swap
 * fails and it starts over, now finding our base.  If B's swap comes
 * first, our raising fails and we repeat with Q.  We return only after the raise has
 * succeeded (also if another process has set a newer base: its own
 * raise may still be to come) or the newest value no longer needs a base;
 * hence from our return on, every PARTIAL in place has a base not older than
 * `value`.  The counter wraps after 65536 late PUTs within one such
 * window of B, each with a lower sequence number than P, which cannot happen.
 */
static void
node_raise_base(LsmMemNode *node, LsmMemValue *value)
{
	uint64		word = mem_load_seq(&node->value);

	for (;;)
	{
		LsmMemValue *newest = mem_pointer(word);
		LsmMemValue *base;

		/* the newest value never gets older */
		Assert(newest->seq >= value->seq);
		if (value_tag(newest) != LSM_TAG_PARTIAL || newest->seq == value->seq)
			return;

		base = mem_load_seq(&newest->base);
		MEM_RACE_POINT();
		while ((base == NULL || base->seq < value->seq) &&
			   !mem_cas(&newest->base, &base, value))
			 /* try again */ ;

		MEM_RACE_POINT();
		/* on failure, word is reread by the swap */
		if (mem_cas(&node->value, &word,
					word + (UINT64CONST(1) << MEM_POINTER_BITS)))
			return;
	}
}

/*
 * Give the value its place among the node's values.
 *
 * Newer than the node's newest: it takes its place, a PARTIAL inheriting the newest
 * PUT or DELETE as its base.  Older: PUT and DELETE may be the base of the newest;
 * a PARTIAL is hidden by any newer value.  The same sequence
 * number: the same entry, replayed twice.
 */
static void
node_add_value(LsmMemNode *node, LsmMemValue *value)
{
	uint64		word = mem_load_seq(&node->value);

	for (;;)
	{
		LsmMemValue *newest = mem_pointer(word);

		if (newest->seq == value->seq)
			return;
		if (newest->seq > value->seq)
		{
			if (value_tag(value) != LSM_TAG_PARTIAL)
				node_raise_base(node, value);
			return;
		}

		if (value_tag(value) == LSM_TAG_PARTIAL)
		{
			/* after the word was read: see node_raise_base() */
			if (value_tag(newest) == LSM_TAG_PARTIAL)
				value->base = mem_load_seq(&newest->base);
			else
				value->base = newest;
		}
		MEM_RACE_POINT();
		if (mem_cas(&node->value, &word, mem_word(value)))
			return;
	}
}

/* ----------------------------------------------------------------------
 * writing
 * ---------------------------------------------------------------------- */

static int
mem_random_height(void)
{
	uint64		bits = pg_prng_uint64(&pg_global_prng_state);
	int			height = 1;

	while (height < MEM_MAX_HEIGHT && (bits & 3) == 0)
	{
		height++;
		bits >>= 2;
	}
	return height;
}

/*
 * Memory for an entry of at most so many bytes, for lsm_memtable_insert().
 * NULL if the arena is full.  REQUIRES: the memtable cannot go away, that is,
 * the caller is registered as a writer (or has the memtable to itself).
 */
void *
lsm_memtable_reserve(LsmMemtable *memtable, uint32 key_bytes, uint32 value_bytes)
{
	Memtable   *m = (Memtable *) memtable;
	int			height = mem_random_height();
	LsmMemNode *node;

	Assert(key_bytes <= LSM_MAX_KEY_BYTES);
	Assert((uint64) key_bytes + value_bytes <= LSM_MAX_ENTRY_BYTES);

	if (__atomic_load_n(&m->index_entries, __ATOMIC_RELAXED) >=
		MEM_LOAD_FACTOR * mem_index_buckets[mem_load(&m->nindexes) - 1])
		index_grow(m);

	node = mem_allocate(m, MEM_NODE_BYTES(height, key_bytes) +
						offsetof(LsmMemValue, data) + value_bytes);
	if (node == NULL)
		return NULL;
	node->height = (uint8) height;
	node->key_bytes = (uint16) key_bytes;
	node->value_room = value_bytes;
	return node;
}

/*
 * Insert the entry, using the memory reserved for it.  Cannot fail and takes no
 * lock: fit for a critical section.  `digest` is that of the filter key.
 */
void
lsm_memtable_insert(LsmMemtable *memtable, void *reserved, uint64 seq,
					LsmSlice key, LsmSlice value, LsmDigest digest)
{
	Memtable   *m = (Memtable *) memtable;
	LsmMemNode *node = (LsmMemNode *) reserved;
	LsmMemValue *v;
	LsmMemNode *entry;
	LsmMemNode *place;

	Assert(node->height > 0);
	Assert(key.len > 0 && key.len <= node->key_bytes);
	Assert(value.len > 0 && value.len <= node->value_room);

	v = (LsmMemValue *) ((char *) node + MEM_NODE_BYTES(node->height, node->key_bytes));
	v->seq = seq;
	v->base = NULL;
	v->len = value.len;
	memcpy(v->data, value.data, value.len);

	node->prefix = key_prefix(key);

	/* an update of a key that has a node: no descent needed */
	entry = index_search(m, digest);
	if (entry != NULL && entry->height > 0 &&
		node_compare(entry, node->prefix, key) == 0)
	{
		node_add_value(entry, v);
		return;
	}

	node->key_bytes = (uint16) key.len;
	node->digest = digest;
	node->value = mem_word(v);
	memcpy((char *) &node->next[node->height], key.data, key.len);
	for (int i = 0; i < node->height; i++)
		node->next[i] = NULL;

	place = list_insert(m, node, key);
	MEM_RACE_POINT();
	if (place != node)
		node_add_value(place, v);

	if (entry == NULL)
	{
		/*
		 * If another process has created the key's node but not yet added it
		 * to the index, do not wait for that: our readers must find the key
		 * now.  Our own node's memory serves as an entry that says "look into the
		 * skiplist".
		 */
		if (place != node)
			node->height = 0;
		index_add(m, node, digest);
	}
}

/* ----------------------------------------------------------------------
 * reading
 * ---------------------------------------------------------------------- */

/*
 * The key's node, or NULL.  `digest`: of the key's filter key.
 */
LsmMemNode *
lsm_memtable_find(LsmMemtable *memtable, LsmDigest digest, LsmSlice key)
{
	Memtable   *m = (Memtable *) memtable;
	uint64		prefix;
	LsmMemNode *node = index_search(m, digest);

	if (node == NULL)
		return NULL;

	prefix = key_prefix(key);
	if (node->height > 0 && node_compare(node, prefix, key) == 0)
		return node;

	/* another key with the same digest */
	(void) list_search(m, prefix, key, &node, NULL);
	if (node != NULL && node_compare(node, prefix, key) == 0)
		return node;
	return NULL;
}

/*
 * True if some key has this digest.
 */
bool
lsm_memtable_has_digest(LsmMemtable *memtable, LsmDigest digest)
{
	return index_search((Memtable *) memtable, digest) != NULL;
}

/*
 * First node with a key >= the argument, or NULL.
 */
LsmMemNode *
lsm_memtable_seek(LsmMemtable *memtable, LsmSlice key)
{
	LsmMemNode *found;

	(void) list_search((Memtable *) memtable, key_prefix(key), key, &found, NULL);
	return found;
}

/*
 * Last node with a key <= the argument, or NULL.
 */
LsmMemNode *
lsm_memtable_seek_last(LsmMemtable *memtable, LsmSlice key)
{
	Memtable   *m = (Memtable *) memtable;
	uint64		prefix = key_prefix(key);
	LsmMemNode *found;
	LsmMemNode *before = list_search(m, prefix, key, &found, NULL);

	if (found != NULL && node_compare(found, prefix, key) == 0)
		return found;
	return before == m->head ? NULL : before;
}

LsmMemNode *
lsm_memtable_first(LsmMemtable *memtable)
{
	return mem_load(&((Memtable *) memtable)->head->next[0]);
}

LsmMemNode *
lsm_memtable_last(LsmMemtable *memtable)
{
	Memtable   *m = (Memtable *) memtable;
	int			level = (int) mem_load(&m->max_height) - 1;
	LsmMemNode *node = m->head;

	for (;;)
	{
		LsmMemNode *next = mem_load(&node->next[level]);

		if (next != NULL)
			node = next;
		else if (level-- == 0)
			break;
	}
	return node == m->head ? NULL : node;
}

LsmMemNode *
lsm_memtable_next(LsmMemNode *node)
{
	return mem_load(&node->next[0]);
}

/*
 * The node before, or NULL.  There are no links back: a search.
 */
LsmMemNode *
lsm_memtable_prev(LsmMemtable *memtable, LsmMemNode *node)
{
	Memtable   *m = (Memtable *) memtable;
	LsmMemNode *found;
	LsmMemNode *before;

	before = list_search(m, node->prefix, lsm_memnode_key(node), &found, NULL);
	return before == m->head ? NULL : before;
}

LsmSlice
lsm_memnode_key(LsmMemNode *node)
{
	return lsm_slice(node_key_data(node), node->key_bytes);
}

LsmDigest
lsm_memnode_digest(LsmMemNode *node)
{
	return node->digest;
}

/*
 * The newest value.  For a PARTIAL, value->base is to be read once: it may be
 * replaced by a newer one.
 */
LsmMemValue *
lsm_memnode_value(LsmMemNode *node)
{
	return mem_pointer(mem_load_seq(&node->value));
}
