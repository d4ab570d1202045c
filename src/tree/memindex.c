/*-------------------------------------------------------------------------
 *
 * memindex.c
 *	  The digest index of a memtable: lock-free readers, concurrent writers.
 *
 * Digest index: a list of hash tables, each 8 to 16 times larger than the one before.
 * An entry is added to the newest table and never moves; a lookup
 * probes all tables.  That is cheap because the older tables are small (they
 * stay in the CPU's cache) and because the unused upper 16 bits of a bucket's
 * head pointer summarise the chain: one bit per entry, chosen by the digest, so that
 * most lookups of absent digests end at the bucket.  So do those of an entry's pointer to the next
 * one, for the rest of the chain: where the bucket's lie, mostly one entry is looked at.  The index has one
 * entry per digest, not per key: many keys of an index tree
 * share one digest.  A node whose key is not the entry's is found through the
 * skiplist.
 *
 * Digests of a table tree's rows lie in the order of their rows: see lsm_memtable_digest().
 *
 * Locking: none, but for the memtable's spinlock while a table is added.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/memtable.h"

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
 * The bits of a bucket's summary that stand for the digest.  Three of 16: of the
 * buckets with two entries, one in 30 then says yes to a digest that it does not
 * have, where a single bit would make it one in 8.
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
 * Entry with the digest, or NULL if it was never added.  Nearly always one miss
 * of the cache per table, so all are fetched at once.
 */
LsmMemNode *
lsm_memindex_search(Memtable *m, LsmDigest digest)
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

/*
 * Make sure that the digest is in the index, with `entry` if it is not there
 * yet (true, and the caller counts it: lsm_memindex_count).  A digest that two processes add at the same time to different tables is there
 * twice, which does no harm.
 */
bool
lsm_memindex_add(Memtable *m, LsmMemNode *entry, LsmDigest digest)
{
	uint64	   *bucket = index_bucket(m->indexes[mem_load(&m->nindexes) - 1], digest);
	uint64		head = mem_load(bucket);

	do
	{
		if (index_chain_search(head, digest) != NULL)
			return false;
		entry->hash_next = head;
		MEM_RACE_POINT();
	} while (!mem_cas(bucket, &head,
					  mem_word(entry) | mem_tag(head) | index_summary(digest)));
	return true;
}

/* So many entries were added. */
void
lsm_memindex_count(Memtable *m, int n)
{
	__atomic_fetch_add(&m->index_entries, n, __ATOMIC_RELAXED);
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
		index = lsm_memtable_allocate(m, offsetof(MemIndex, segments) +
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
		uint64	   *segment = (uint64 *) lsm_memtable_allocate_chunk(m);

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

/*
 * To be called before each insertion.
 */
void
lsm_memindex_make_room(Memtable *m)
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
	Memtable   *m = (Memtable *) memtable;
	uint32		n = mem_load(&m->nindexes);

	for (uint32 i = 0; i < n; i++)
		__builtin_prefetch(index_bucket(m->indexes[i], digest));
}

/* As far as a new entry is concerned. */
void
lsm_memtable_prefetch_newest(LsmMemtable *memtable, LsmDigest digest)
{
	Memtable   *m = (Memtable *) memtable;

	__builtin_prefetch(index_bucket(m->indexes[mem_load(&m->nindexes) - 1], digest), 1);
}
