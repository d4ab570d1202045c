/*-------------------------------------------------------------------------
 *
 * finger.c
 *	  Where in a memtable's skiplist a search may begin.
 *
 * A descent from the head waits for memory some dozen times once the list is larger than the
 * CPU's cache: that is most of what inserting a random key costs.  So the range of
 * keys is divided into buckets, by their prefixes, and each bucket names a node: the tallest
 * that was inserted into it.  A search begins at the one in or shortly before its own
 * bucket, a few nodes away.
 *
 * A hint is as good as any other node with a smaller key that was not removed when we looked
 * (as with the last nodes, memtable.c), but for two things.  It has to be as tall as the levels on
 * which the caller wants to know the predecessors.  And it may be far away, since keys need
 * not be spread evenly: then the caller gives up soon and says so, and if many do, hints are
 * not used any more.
 *
 * There are up to three tables, each 8 times larger than the one before, made when that has 4 nodes per
 * bucket; the range is that of the keys at that time.  Who inserts at the end has no use for
 * hints and does not bring one about.
 *
 * Locking: none, but for the memtable's spinlock while a table is added.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

/* So many buckets are looked at, downwards */
#define BUCKETS_BACK	16

/* Tables in chunks; the first is worth it from so many nodes on */
#define FIRST_SEGMENTS	1
#ifndef FIRST_NODES
#define FIRST_NODES		(MEM_SEGMENT_BUCKETS / 2)
#endif

static inline uint64 *
hint_bucket(MemHints *hints, uint64 bucket)
{
	return &hints->segments[bucket / MEM_SEGMENT_BUCKETS][bucket % MEM_SEGMENT_BUCKETS];
}

/* REQUIRES: prefix >= hints->base */
static inline uint64
bucket_of(const MemHints *hints, uint64 prefix)
{
	return Min((prefix - hints->base) >> hints->shift, hints->nbuckets - 1);
}

/*
 * Bucket: a node, with its height and some bits of its prefix in place of the
 * upper bits of the pointer; 0: none.  These bits, the ones behind those that
 * choose the bucket, mostly tell whether the node is smaller without a look at
 * it, which would be a wait for memory.
 */
#define HINT_HEIGHT_BITS	5
#define HINT_PREFIX_BITS	11

StaticAssertDecl(MEM_MAX_HEIGHT < 1 << HINT_HEIGHT_BITS &&
				 HINT_HEIGHT_BITS + HINT_PREFIX_BITS + MEM_POINTER_BITS == 64,
				 "a word has too few bits");

static inline int
hint_height(uint64 word)
{
	return (int) (word >> MEM_POINTER_BITS) & ((1 << HINT_HEIGHT_BITS) - 1);
}

static inline uint64
hint_prefix_bits(uint64 word)
{
	return word >> (MEM_POINTER_BITS + HINT_HEIGHT_BITS);
}

/* REQUIRES: prefix >= hints->base */
static inline uint64
prefix_bits_of(const MemHints *hints, uint64 prefix)
{
	uint64		mask = (1 << HINT_PREFIX_BITS) - 1;
	uint64		distance = prefix - hints->base;

	if (distance >> hints->shift >= hints->nbuckets)
		return mask;			/* all of these are in the last bucket */
	if (hints->shift < HINT_PREFIX_BITS)
		return (distance << (HINT_PREFIX_BITS - hints->shift)) & mask;
	return (distance >> (hints->shift - HINT_PREFIX_BITS)) & mask;
}

static inline bool
hints_mislead(SkipList *m)
{
	uint64		failures = __atomic_load_n(&m->hint_failures, __ATOMIC_RELAXED);

	return failures > 1000 &&
		failures > __atomic_load_n(&m->searched, __ATOMIC_RELAXED) / 8;
}

bool
lsm_finger_good(LsmMemNode *node, uint64 prefix, LsmSlice key)
{
	return node_compare(node, prefix, key) < 0 &&
		!link_marked(mem_load(&mem_link(node, node->height - 1)));
}

/* A hint of the table; `key`: only a good one. */
static LsmMemNode *
search_table(MemHints *hints, uint64 prefix, const LsmSlice *key, int height)
{
	uint64		own = bucket_of(hints, prefix);
	uint64		last = own - Min(own, BUCKETS_BACK - 1);
	uint64		limit = prefix_bits_of(hints, prefix);

	for (uint64 bucket = own;; bucket--)
	{
		uint64		word = mem_load(hint_bucket(hints, bucket));
		LsmMemNode *node = mem_pointer(word);

		if (hint_height(word) >= height &&
			(bucket < own || hint_prefix_bits(word) <= limit) &&
			(key == NULL || lsm_finger_good(node, prefix, *key)))
			return node;
		if (bucket == last)
			return NULL;
	}
}

static LsmMemNode *
search_hints(SkipList *m, uint64 prefix, const LsmSlice *key, int height)
{
	uint32		n = mem_load(&m->nhints);
	LsmMemNode *node = NULL;

	if (n == 0 || hints_mislead(m))
		return NULL;
	while (n-- > 0 && node == NULL)
	{
		if (prefix >= m->hints[n]->base)
			node = search_table(m->hints[n], prefix, key, height);
	}
	return node;
}

LsmMemNode *
lsm_finger_before(SkipList *m, uint64 prefix, LsmSlice key, int height)
{
	return search_hints(m, prefix, &key, height);
}

LsmMemNode *
lsm_finger_guess(SkipList *m, uint64 prefix, int height)
{
	return search_hints(m, prefix, NULL, height);
}

/* A node that has been linked on all of its levels. */
void
lsm_finger_note(SkipList *m, LsmMemNode *node)
{
	uint32		n = mem_load(&m->nhints);
	MemHints   *hints;
	uint64	   *bucket;

	/* not exact, but without a locked instruction */
	__atomic_store_n(&m->searched, __atomic_load_n(&m->searched, __ATOMIC_RELAXED) + 1,
					 __ATOMIC_RELAXED);
	if (n == 0)
		return;
	hints = m->hints[n - 1];
	if (node->prefix < hints->base)
		return;
	bucket = hint_bucket(hints, bucket_of(hints, node->prefix));

	/* of two at the same time one gets lost: no harm */
	if (hint_height(mem_load(bucket)) < node->height)
		mem_store(bucket, mem_word(node) |
				  ((uint64) node->height << MEM_POINTER_BITS) |
				  (prefix_bits_of(hints, node->prefix) << (MEM_POINTER_BITS + HINT_HEIGHT_BITS)));
}

void
lsm_finger_failed(SkipList *m)
{
	__atomic_fetch_add(&m->hint_failures, 1, __ATOMIC_RELAXED);
}

/*
 * Fetch what a search for the key will look at first: the bucket, or when
 * that is there, the node that it names.
 */
void
lsm_finger_prefetch(SkipList *m, uint64 prefix, bool node)
{
	uint32		n = mem_load(&m->nhints);
	MemHints   *hints = n > 0 ? m->hints[n - 1] : NULL;
	uint64	   *bucket;

	if (hints == NULL || prefix < hints->base)
		return;
	bucket = hint_bucket(hints, bucket_of(hints, prefix));
	if (node)
		mem_prefetch_node(mem_pointer(mem_load(bucket)));
	else
		__builtin_prefetch(bucket);
}

/*
 * The table's range and the width of its buckets; false: keys lie too close
 * together.
 */
static bool
hints_arrange(SkipList *m, uint64 nbuckets, uint64 *base, int *shift)
{
	LsmMemNode *min = mem_load(&m->min_node);
	LsmMemNode *max = mem_load(&m->max_node);
	uint64		range;

	if (min == NULL || max == NULL)
		return false;
	range = max->prefix - min->prefix;
	if (range < nbuckets)
		return false;
	*base = min->prefix;
	*shift = pg_leftmost_one_pos64(range) + 1 - pg_leftmost_one_pos64(nbuckets);
	return true;
}

/*
 * Optional, as index_grow(): without memory, the next reservation tries again.
 */
static void
hints_grow(SkipList *m, uint32 n, uint64 nsegments)
{
	MemHints   *hints;
	uint64		base;
	int			shift;
	bool		mine;

	if (!hints_arrange(m, nsegments * MEM_SEGMENT_BUCKETS, &base, &shift))
	{
		mem_store(&m->no_hints, true);
		return;
	}
	if (!m->pub.local && lsm_arena_free_chunks() < 4 * nsegments)
		return;
	SpinLockAcquire(&m->mutex);
	mine = !m->hints_growing && m->nhints == n;
	if (mine)
		m->hints_growing = true;
	SpinLockRelease(&m->mutex);
	if (!mine)
		return;

	hints = m->pending_hints;
	if (hints == NULL)
	{
		hints = lsm_memtable_allocate(m, offsetof(MemHints, segments) +
									  nsegments * sizeof(uint64 *));
		if (hints != NULL)
		{
			hints->nbuckets = nsegments * MEM_SEGMENT_BUCKETS;
			hints->nfilled = 0;
			m->pending_hints = hints;
		}
	}
	while (hints != NULL && hints->nfilled < nsegments)
	{
		uint64	   *segment = (uint64 *) lsm_memtable_allocate_chunk(m);

		if (segment == NULL)
			break;
		memset(segment, 0, LSM_CHUNK_BYTES);
		hints->segments[hints->nfilled++] = segment;
	}
	if (hints != NULL && hints->nfilled == nsegments)
	{
		hints->base = base;
		hints->shift = shift;
		m->pending_hints = NULL;
		m->hints[n] = hints;
		mem_store(&m->nhints, n + 1);
	}

	SpinLockAcquire(&m->mutex);
	m->hints_growing = false;
	SpinLockRelease(&m->mutex);
}

/* To be called before each insertion. */
void
lsm_finger_make_room(SkipList *m)
{
	uint32		n = mem_load(&m->nhints);

	if (n < MEM_MAX_HINTS && !mem_load(&m->no_hints) &&
		__atomic_load_n(&m->searched, __ATOMIC_RELAXED) >= (uint64) FIRST_NODES << (3 * n) &&
		!hints_mislead(m))
		hints_grow(m, n, (uint64) FIRST_SEGMENTS << (3 * n));
}
