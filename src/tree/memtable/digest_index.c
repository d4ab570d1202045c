/*-------------------------------------------------------------------------
 *
 * digest_index.c
 *	  The digest index of a memtable: lock-free readers, concurrent writers.
 *
 * Digest index: a list of hash tables, each 8 to 16 times larger than the one
 * before. An entry is added to the newest table and never moves; a lookup
 * probes all tables.  That is cheap because the older tables are small (they
 * stay in the CPU's cache) and because the unused upper 16 bits of a bucket's
 * head pointer summarise the chain: one bit per entry, chosen by the digest,
 * so that most lookups of absent digests end at the bucket.  So do those of an
 * entry's pointer to the next one, for the rest of the chain: where the
 * bucket's lie, mostly one entry is looked at.  The index has one entry per
 * digest, not per key: many keys of an index tree share one digest.
 *
 * Nodes that have an entry's digest, too, are in a list that begins at the
 * entry (node->same), the newest first, so that whoever wants all entries of
 * one column value has no need of the skiplist, nor does who removes one of
 * them: a row that is updated often gets its new index entries, and loses the
 * old ones, without a search.  Nodes are put in front, and who does that drops
 * dead ones from the list.  That takes no lock: a node's place is never
 * changed, only what is dead is passed over, so a link that was written late
 * leads to the same living nodes as before. Its length is noted at the entry,
 * with dead ones that no one has dropped; while it is longer than SAME_WALKED
 * the skiplist is searched instead, and now and then someone looks whether it
 * still has to be (behind an old snapshot, or after a restart, a row may have
 * thousands of versions that soon go).  The list is given up for good
 * (SAME_GIVEN_UP) if a node of the key is in the skiplist whose inserter has
 * not yet come here, or if very many live.
 *
 * So, when an insertion is over, the node is an entry, or in the list of an
 * entry with its digest, or that list is given up.
 *
 * Digests of a table tree's rows lie in the order of their rows: see
 * lsm_memtable_digest().
 *
 * Locking: none, but for the memtable's spinlock while a table is added.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

/* Buckets of table i: 256, 4096 (one chunk), then 8 times more each */
static const uint64 mem_index_buckets[MEM_MAX_INDEXES] = {
	MEM_FIRST_BUCKETS,
	MEM_SEGMENT_BUCKETS,
	MEM_SEGMENT_BUCKETS * 8,
	MEM_SEGMENT_BUCKETS * 64,
	MEM_SEGMENT_BUCKETS * 512
};

static inline uint64 *
index_bucket(MemIndex *index, LsmDigest digest)
{
	uint64		bucket = digest & index->mask;

	return &index->segments[bucket / MEM_SEGMENT_BUCKETS][bucket % MEM_SEGMENT_BUCKETS];
}

/*
 * The bits of a bucket's summary that stand for the digest.  Three of 16: of
 * the buckets with two entries, one in 30 then says yes to a digest that it
 * does not have, where a single bit would make it one in 8.
 */
static inline uint64
index_summary(LsmDigest digest)
{
	uint64		bits = (UINT64CONST(1) << (digest >> 60)) |
		(UINT64CONST(1) << ((digest >> 56) & 15)) |
		(UINT64CONST(1) << ((digest >> 52) & 15));

	return bits << MEM_POINTER_BITS;
}

/* Entry with the digest in the chain, or NULL. */
static inline LsmMemNode *
index_chain_search(uint64 head, LsmDigest digest)
{
	uint64		summary = index_summary(digest);

	while ((head & summary) == summary)
	{
		LsmMemNode *node = mem_pointer(head);

		if (node->digest == digest)
			return node;
		head = node->hash_next;
	}
	return NULL;
}

/*
 * Nearly always one miss of the cache per table, so all are fetched at once.
 */
LsmMemNode *
lsm_digest_index_search(SkipList *m, LsmDigest digest)
{
	uint32		n = mem_load(&m->nindexes);
	uint64	   *buckets[MEM_MAX_INDEXES];

	for (uint32 i = 0; i < n; i++)
	{
		buckets[i] = index_bucket(m->indexes[i], digest);
		__builtin_prefetch(buckets[i]);
	}
	while (n-- > 0)
	{
		LsmMemNode *node = index_chain_search(mem_load(buckets[n]), digest);

		if (node != NULL)
			return node;
	}
	return NULL;
}

/* ---- nodes with the same digest ---- */

/*
 * An entry's word `same`: the first node of the list, how many they are, and:
 * others may have the digest, too
 */
#define SAME_GIVEN_UP		(UINT64CONST(1) << 63)
#define chain_count(word)	((int) (((word) & ~SAME_GIVEN_UP) >> MEM_POINTER_BITS))
#define same_word(node, n)	(mem_word(node) | ((uint64) (n) << MEM_POINTER_BITS))

/* With this many that live it is given up */
#define SAME_MOST			(1 << 14)

/* A longer list is not worth going through */
#define SAME_WALKED			128

/*
 * A writer that puts a node in front of a longer one does not look what is
 * dead, but when it is twice as long
 */
#define SAME_PRUNED			16

/*
 * A reader that finds it too long goes, on average, so far through it to see
 * whether it still is
 */
#define SAME_LOOKED			4

/* What lives from `node` on in the list.  Counts, and drops what is dead. */
static LsmMemNode *
chain_live(LsmMemNode *node, int *nlive)
{
	LsmMemNode *first = NULL;
	LsmMemNode *last = NULL;
	bool		dropped = false;

	*nlive = 0;
	for (; node != NULL; node = mem_pointer(mem_load(&node->same)))
	{
		if (node_dead(node))
		{
			dropped = true;
			continue;
		}
		if (last == NULL)
			first = node;
		else if (dropped)
			mem_store(&last->same, mem_word(node));
		MEM_RACE_POINT();
		last = node;
		dropped = false;
		++*nlive;
	}
	if (dropped && last != NULL)
		mem_store(&last->same, 0);
	return first;
}

/*
 * Is the entry's list of no use?  If it is too long, one in this many callers
 * drops what is dead.  None does where fewer nodes of the memtable were
 * removed than this list has too many: lists can be very long.
 */
static bool
chain_useless(SkipList *m, LsmMemNode *entry)
{
	uint64		head = mem_load(&entry->same);
	int			n = chain_count(head);

	if ((head & SAME_GIVEN_UP) != 0)
		return true;
	if (likely(n <= SAME_WALKED))
		return false;
	if (pg_atomic_read_u64(&m->pub.removed) >= (uint64) (n - SAME_WALKED) &&
		pg_prng_uint64(&pg_global_prng_state) % (n / SAME_LOOKED) == 0)
	{
		LsmMemNode *first;

		/* when others put nodes in front meanwhile, the second time is short */
		do
		{
			first = chain_live(mem_pointer(head), &n);
			MEM_RACE_POINT();
		} while ((head & SAME_GIVEN_UP) == 0 &&
				 !mem_cas(&entry->same, &head, same_word(first, n)));
	}
	return true;
}

static inline bool
chain_given_up(LsmMemNode *entry)
{
	return (mem_load(&entry->same) & SAME_GIVEN_UP) != 0;
}

static void
chain_give_up(LsmMemNode *entry)
{
	__atomic_fetch_or(&entry->same, SAME_GIVEN_UP, __ATOMIC_SEQ_CST);
}

/* Put the node into the entry's list. */
static void
chain_push(LsmMemNode *entry, LsmMemNode *node)
{
	uint64		head = mem_load(&entry->same);
	int			n;

	do
	{
		LsmMemNode *first = mem_pointer(head);

		if ((head & SAME_GIVEN_UP) != 0)
			return;
		n = chain_count(head);
		if (n < SAME_PRUNED || (n & (n - 1)) == 0)
			first = chain_live(first, &n);
		if (node->height == 0 || n >= SAME_MOST)
		{
			chain_give_up(entry);
			return;
		}
		node->same = mem_word(first);
		MEM_RACE_POINT();
	} while (!mem_cas(&entry->same, &head, same_word(node, n + 1)));
}

/*
 * Make sure that the node is found by its digest: as its entry, if there is
 * none yet, or in that one's list.  A digest that two processes add at the same
 * time to different tables has two entries: a search for all nodes looks for
 * both.  A node of height 0 stands for one that someone else has linked, and
 * will add.
 */
bool
lsm_digest_index_add(SkipList *m, LsmMemNode *node, LsmDigest digest)
{
	uint64	   *bucket = index_bucket(m->indexes[mem_load(&m->nindexes) - 1], digest);
	uint64		head = mem_load(bucket);

	do
	{
		LsmMemNode *entry = index_chain_search(head, digest);

		if (entry != NULL)
		{
			chain_push(entry, node);
			return false;
		}
		node->hash_next = head;
		node->same = node->height == 0 ? SAME_GIVEN_UP : 0;
		MEM_RACE_POINT();
	} while (!mem_cas(bucket, &head,
					  mem_word(node) | mem_tag(head) | index_summary(digest)));
	return true;
}

/* The buckets of all tables; returns their number. */
static inline uint32
index_buckets(SkipList *m, LsmDigest digest, uint64 **buckets)
{
	uint32		n = mem_load(&m->nindexes);

	for (uint32 i = 0; i < n; i++)
	{
		buckets[i] = index_bucket(m->indexes[i], digest);
		__builtin_prefetch(buckets[i]);
	}
	return n;
}

void
lsm_digest_index_give_up(SkipList *m, LsmDigest digest)
{
	uint64	   *buckets[MEM_MAX_INDEXES];
	uint32		n = index_buckets(m, digest, buckets);

	while (n-- > 0)
	{
		LsmMemNode *entry = index_chain_search(mem_load(buckets[n]), digest);

		if (entry != NULL)
			chain_give_up(entry);
	}
}

LsmMemNode *
lsm_digest_index_find(SkipList *m, LsmDigest digest, uint64 prefix, LsmSlice key, bool *complete)
{
	uint64	   *buckets[MEM_MAX_INDEXES];
	uint32		n = index_buckets(m, digest, buckets);

	*complete = true;
	while (n-- > 0)
	{
		LsmMemNode *entry = index_chain_search(mem_load(buckets[n]), digest);
		bool		useless = entry != NULL && chain_useless(m, entry);

		for (LsmMemNode *node = entry; node != NULL; node = mem_pointer(mem_load(&node->same)))
		{
			MEM_RACE_POINT();
			if (node->height > 0 && !node_dead(node) && node_compare(node, prefix, key) == 0)
				return node;
			if (useless)
				break;
		}

		/*
		 * behind them: a node that we found dead may have been merged, which
		 * says so first
		 */
		if (useless || (entry != NULL && chain_given_up(entry)))
			*complete = false;
	}
	return NULL;
}

int
lsm_digest_index_find_all(SkipList *m, LsmDigest digest, LsmMemNode **nodes)
{
	uint64	   *buckets[MEM_MAX_INDEXES];
	uint32		n = index_buckets(m, digest, buckets);
	int			nnodes = 0;

	while (n-- > 0)
	{
		LsmMemNode *entry = index_chain_search(mem_load(buckets[n]), digest);

		if (entry == NULL)
			continue;
		if (chain_useless(m, entry))
			return -1;
		for (LsmMemNode *node = entry; node != NULL; node = mem_pointer(mem_load(&node->same)))
		{
			MEM_RACE_POINT();
			if (node_dead(node))
				continue;
			if (nnodes == LSM_MEMTABLE_MAX_SAME)
				return -1;
			nodes[nnodes++] = node;
		}
		/* again, as above */
		if (chain_given_up(entry))
			return -1;
	}
	return nnodes;
}

/* This many entries were added. */
void
lsm_digest_index_count(SkipList *m, int n)
{
	__atomic_fetch_add(&m->index_entries, n, __ATOMIC_RELAXED);
}

/*
 * Segments of a table that one call allocates: a large table is made by many
 * writers, since its pages are touched for the first time.
 */
#define SEGMENTS_AT_ONCE	4

/*
 * A table is not begun while it would be more than this part of the memtable:
 * one that is about to be sealed needs none.
 */
#define LARGEST_PART		4

/*
 * Add a larger table if the newest one is full.  Optional: without memory the
 * chains get longer, and the next reservation tries again.
 */
static void
index_grow(SkipList *m)
{
	uint32		n = mem_load(&m->nindexes);
	uint64		nsegments;
	MemIndex   *index;
	bool		mine;

	if (n == MEM_MAX_INDEXES)
		return;
	nsegments = mem_index_buckets[n] / MEM_SEGMENT_BUCKETS;
	if (mem_load(&m->pending_index) == NULL && nsegments > 1 &&
		pg_atomic_read_u64(&m->pub.bytes) < LARGEST_PART * nsegments * LSM_CHUNK_BYTES)
		return;

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
	index = mem_load(&m->pending_index);
	if (index == NULL)
	{
		index = lsm_memtable_allocate(m, offsetof(MemIndex, segments) +
									  nsegments * sizeof(uint64 *));
		if (index != NULL)
		{
			index->mask = mem_index_buckets[n] - 1;
			index->nsegments = nsegments;
			index->nfilled = 0;
			mem_store(&m->pending_index, index);
		}
	}
	for (int i = 0; i < SEGMENTS_AT_ONCE && index != NULL && index->nfilled < nsegments; i++)
	{
		uint64	   *segment = (uint64 *) lsm_memtable_allocate_chunk(m);

		if (segment == NULL)
			break;
		memset(segment, 0, LSM_CHUNK_BYTES);
		index->segments[index->nfilled++] = segment;
	}
	if (index != NULL && index->nfilled == nsegments)
	{
		mem_store(&m->pending_index, NULL);
		m->indexes[n] = index;
		mem_store(&m->nindexes, n + 1);
	}

	SpinLockAcquire(&m->mutex);
	m->growing = false;
	SpinLockRelease(&m->mutex);
}

/*
 * To be called before each insertion.
 */
void
lsm_digest_index_make_room(SkipList *m)
{
	if (__atomic_load_n(&m->index_entries, __ATOMIC_RELAXED) >=
		MEM_LOAD_FACTOR * mem_index_buckets[mem_load(&m->nindexes) - 1])
		index_grow(m);
}

/*
 * Fetch what the next call with this digest will look at.  A miss in a large
 * index is the dearest part of an insert or of a search for an absent key.
 */
void
lsm_memtable_prefetch(LsmMemtable *memtable, LsmDigest digest)
{
	SkipList   *m = (SkipList *) memtable;
	uint32		n = mem_load(&m->nindexes);

	for (uint32 i = 0; i < n; i++)
		__builtin_prefetch(index_bucket(m->indexes[i], digest));
}

/* As far as a new entry is concerned. */
void
lsm_memtable_prefetch_newest(LsmMemtable *memtable, LsmDigest digest)
{
	SkipList   *m = (SkipList *) memtable;

	__builtin_prefetch(index_bucket(m->indexes[mem_load(&m->nindexes) - 1], digest), 1);
}
