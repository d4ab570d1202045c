/*-------------------------------------------------------------------------
 *
 * memtable.c
 *	  One generation's entries in memory: making a memtable, reading it, and
 *	  removing what is dead.
 *
 * A memtable has a skiplist ordered by key (skiplist.c), and an index by digest
 * (digest_index.c).  Nodes that are linked later: deferred_link.c.  What
 * insertion does with all of them: insert.c.
 *
 * Locking: none, but for that of deferred_link.c at the beginning of whatever
 * looks at the order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

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
		chunk = (MemChunk *) lsm_memtable_shared_chunk();
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
	m->pub.log_first = m->pub.log_last = InvalidBlockNumber;
	m->pub.log_rooted = false;
	m->context = context;
	SpinLockInit(&m->mutex);
	LWLockInitialize(&m->link_lock, lsm_memtable_tranche());
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

/*
 * Take the node out of the list: readers that come later do not meet it, those
 * that stand on it find their way on.  A value that someone adds to the node
 * at this moment is lost, so: only for a key that no one will write at the same
 * time, or whose further writes mean nothing.  The digest index keeps its entry.
 *
 * A process that finds someone else doing it need not wait for that: the node
 * is dead.
 */
void
lsm_memtable_remove(LsmMemtable *memtable, LsmMemNode *node)
{
	SkipList   *m = (SkipList *) memtable;
	uint8		state = node_set_state(node, MEM_DEAD);

	if ((state & MEM_DEAD) != 0)
		return;
	pg_atomic_fetch_add_u64(&m->pub.removed, 1);
	MEM_RACE_POINT();
	if ((state & MEM_LINKED) != 0)
		lsm_memlist_unlink(m, node);
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
	SkipList   *m = (SkipList *) memtable;
	uint64		prefix = key_prefix(key);
	LsmMemNode *node;
	bool		complete;

	if (!lsm_memtable_may_hold(memtable, key))
		return NULL;
	node = lsm_digest_index_find(m, digest, prefix, key, &complete);
	if (node != NULL || complete)
		return node;

	/* many keys have the digest */
	lsm_deferred_link_all(m);
	(void) lsm_memlist_search(m, prefix, key, &node);
	if (node != NULL && !node_dead(node) && node_compare(node, prefix, key) == 0)
		return node;
	return NULL;
}

/*
 * True if some key has this digest: the filter key's.
 */
bool
lsm_memtable_has_digest(LsmMemtable *memtable, LsmDigest digest, LsmSlice filter_key)
{
	return lsm_memtable_may_hold(memtable, filter_key) &&
		lsm_digest_index_search((SkipList *) memtable, digest) != NULL;
}

int
lsm_memtable_find_all(LsmMemtable *memtable, LsmDigest digest, LsmSlice filter_key,
					  LsmMemNode **nodes)
{
	if (!lsm_memtable_may_hold(memtable, filter_key))
		return 0;
	return lsm_digest_index_find_all((SkipList *) memtable, digest, nodes);
}

/*
 * False: all keys are smaller than any that begins with `low`, or greater than
 * any that begins with `high`.  Of equal length, or something that begins with
 * a prefix of `high` would lie between them and escape.
 */
bool
lsm_memtable_may_hold_between(LsmMemtable *memtable, LsmSlice low, LsmSlice high)
{
	SkipList   *m = (SkipList *) memtable;
	uint64		first = key_prefix(low);
	uint64		last = key_prefix(high);
	uint64		max_prefix = mem_load(&m->max_prefix);
	uint64		min_prefix = mem_load(&m->min_prefix);
	LsmMemNode *max;
	LsmMemNode *min;

	/* the greatest prefix of what begins with it */
	if (high.len < sizeof(last))
		last |= PG_UINT64_MAX >> (8 * high.len);
	if (first > max_prefix || last < min_prefix)
		return false;
	if (first < max_prefix && last > min_prefix)
		return true;

	max = mem_load(&m->max_node);
	min = mem_load(&m->min_node);
	if (max == NULL || min == NULL)
		return false;
	return lsm_bytes_compare(low.data, node_key_data(max), Min(low.len, max->key_bytes)) <= 0 &&
		lsm_bytes_compare(high.data, node_key_data(min), Min(high.len, min->key_bytes)) >= 0;
}

bool
lsm_memtable_may_hold(LsmMemtable *memtable, LsmSlice filter_key)
{
	return lsm_memtable_may_hold_between(memtable, filter_key, filter_key);
}

/*
 * First node with a key >= the argument, or NULL.
 */
LsmMemNode *
lsm_memtable_seek(LsmMemtable *memtable, LsmSlice key)
{
	LsmMemNode *found;

	lsm_deferred_link_all((SkipList *) memtable);
	(void) lsm_memlist_search((SkipList *) memtable, key_prefix(key), key, &found);
	return found;
}

/*
 * The nodes of one level, the highest that has enough of them.  A level has
 * about half as many as the one below, so what is read of all levels is little
 * more than what is returned.
 */
int
lsm_memtable_sample(LsmMemtable *memtable, LsmSlice low, LsmSlice high, int max,
					LsmMemNode **nodes, double *each)
{
	SkipList   *m = (SkipList *) memtable;
	LsmMemNode *before = m->head;
	uint64		low_prefix = key_prefix(low);
	int			n = 0;

	*each = 1;
	lsm_deferred_link_all(m);
	for (int level = (int) mem_load(&m->max_height) - 1; level >= 0 && n < max / 2; level--)
	{
		LsmMemNode *node = list_next(before, level, false, NULL);
		uint64		stride = 1;

		while (node != NULL && low.len > 0 && node_compare(node, low_prefix, low) < 0)
		{
			before = node;
			node = list_next(node, level, false, NULL);
		}
		n = 0;
		for (uint64 i = 0; node != NULL; i++)
		{
			if (high.len > 0 && node_compare(node, key_prefix(high), high) >= 0)
				break;
			if (n == max)
			{
				/* every second one */
				for (n = 0; n < max / 2; n++)
					nodes[n] = nodes[2 * n];
				stride *= 2;
			}
			if (i % stride == 0)
				nodes[n++] = node;
			node = list_next(node, level, false, NULL);
		}
		*each = (double) (UINT64CONST(1) << level) * stride;
	}
	return n;
}

/*
 * Last node with a key <= the argument, or NULL.
 */
LsmMemNode *
lsm_memtable_seek_last(LsmMemtable *memtable, LsmSlice key)
{
	SkipList   *m = (SkipList *) memtable;
	uint64		prefix = key_prefix(key);
	LsmMemNode *found;
	LsmMemNode *before;

	lsm_deferred_link_all(m);
	before = lsm_memlist_search(m, prefix, key, &found);
	if (found != NULL && node_compare(found, prefix, key) == 0)
		return found;
	return before == m->head ? NULL : before;
}

LsmMemNode *
lsm_memtable_first(LsmMemtable *memtable)
{
	lsm_deferred_link_all((SkipList *) memtable);
	return list_next(((SkipList *) memtable)->head, 0, false, NULL);
}

LsmMemNode *
lsm_memtable_last(LsmMemtable *memtable)
{
	SkipList   *m = (SkipList *) memtable;
	int			level;
	LsmMemNode *node = m->head;

	lsm_deferred_link_all(m);
	level = (int) mem_load(&m->max_height) - 1;
	for (;;)
	{
		LsmMemNode *next = list_next(node, level, false, NULL);

		if (next != NULL)
			node = next;
		else if (level-- == 0)
			break;
	}
	return node == m->head ? NULL : node;
}

/*
 * Nodes lie in memory in the order of their insertion: who goes on will wait
 * for each, unless it was asked for while the one before was worked on.
 */
static inline void
fetch_behind(LsmMemNode *node)
{
	const char *behind = (const char *) link_node(mem_load(&mem_link(node, 0)));

	__builtin_prefetch(behind);
	__builtin_prefetch(behind + 64);
}

/*
 * The node after, or NULL.  A removed node's own link is frozen and may pass
 * over what was inserted since, or it has never been linked: then a search.
 */
LsmMemNode *
lsm_memtable_next(LsmMemtable *memtable, LsmMemNode *node)
{
	lsm_deferred_link_all((SkipList *) memtable);
	while (unlikely((mem_load(&node->state) & MEM_LINKED) == 0) || unlikely(node_unlinked(node)))
	{
		LsmSlice	key = lsm_memnode_key(node);
		LsmMemNode *found;

		(void) lsm_memlist_search((SkipList *) memtable, node->prefix, key, &found);
		if (found == NULL || node_compare(found, node->prefix, key) != 0)
			return found;
		node = found;			/* its key has got a new node */
	}
	node = list_next(node, 0, false, NULL);
	if (node != NULL)
		fetch_behind(node);
	return node;
}

/*
 * There are no links back.  What lies some levels up a little before the node
 * is the place to begin with; from there nodes are walked forward, and the last
 * ones kept.  What is linked on the way may be missed, as it would be by who
 * has passed it.
 */
int
lsm_memtable_prev_many(LsmMemtable *memtable, LsmMemNode *node, int level,
					   LsmMemNode **nodes, int max)
{
	SkipList   *m = (SkipList *) memtable;
	LsmSlice	key = lsm_memnode_key(node);
	LsmMemNode *passed[LSM_MEMTABLE_MAX_PREV];
	LsmMemNode *at;
	int			n = 0;

	Assert(max > 0 && max <= LSM_MEMTABLE_MAX_PREV);
	lsm_deferred_link_all(m);
	at = lsm_memlist_search_level(m, node->prefix, key, level);
	if (at == m->head)
		at = list_next(at, 0, false, NULL);
	while (at != NULL && node_compare(at, node->prefix, key) < 0)
	{
		fetch_behind(at);
		passed[n++ % max] = at;
		at = list_next(at, 0, false, NULL);
	}
	for (int i = 0; i < Min(n, max); i++)
		nodes[i] = passed[(n - 1 - i) % max];
	return Min(n, max);
}

/* The node before, or NULL. */
LsmMemNode *
lsm_memtable_prev(LsmMemtable *memtable, LsmMemNode *node)
{
	LsmMemNode *before;

	return lsm_memtable_prev_many(memtable, node, 0, &before, 1) > 0 ? before : NULL;
}
