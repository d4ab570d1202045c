/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  Writing to a memtable: memory for entries, and insertion.
 *
 * Range: the nodes with the smallest and the largest key ever inserted
 * (min_node, max_node) answer many questions for absent keys: a memtable whose
 * keys all lie elsewhere needs no look into its digest index.  Removed nodes
 * stay bounds.
 *
 * What insert promises: when it returns, the key's node is in the skiplist, or
 * in the list of those to be linked before anyone looks at that
 * (deferred_link.c), its key in the range, the digest in the index, and the
 * value is the node's newest one, hidden by a newer one, or the base of a
 * newer PARTIAL.
 *
 * Locking: none, but for the memtable's spinlock while memory is reserved, and
 * its link lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

static int
mem_random_height(void)
{
	uint64		bits = pg_prng_uint64(&pg_global_prng_state);
	int			height = 1;

	while (height < MEM_MAX_HEIGHT && (bits & 1) == 0)
	{
		height++;
		bits >>= 1;
	}
	return height;
}

static inline Size
entry_bytes(int height, uint32 key_bytes, uint32 value_bytes)
{
	Assert(key_bytes <= LSM_MAX_KEY_BYTES);
	Assert((uint64) key_bytes + value_bytes <= LSM_MAX_ENTRY_BYTES);
	return MAXALIGN(MEM_NODE_BYTES(height, key_bytes) +
					offsetof(LsmMemValue, data) + value_bytes);
}

static inline void
node_label(LsmMemNode *node, int height, uint32 key_bytes, uint32 value_bytes)
{
	node->height = (uint8) height;
	node->key_bytes = (uint16) key_bytes;
	node->value_room = value_bytes;
}

/*
 * Memory for an entry of at most this many bytes, for lsm_memtable_insert().
 * NULL if the arena is full.  REQUIRES: the memtable cannot go away, that is,
 * the caller is registered as a writer (or has the memtable to itself).
 */
void *
lsm_memtable_reserve(LsmMemtable *memtable, uint32 key_bytes, uint32 value_bytes)
{
	SkipList   *m = (SkipList *) memtable;
	int			height = mem_random_height();
	LsmMemNode *node;

	lsm_digest_index_make_room(m);
	node = lsm_memtable_allocate(m, entry_bytes(height, key_bytes, value_bytes));
	if (node != NULL)
		node_label(node, height, key_bytes, value_bytes);
	return node;
}

/*
 * Memory for many entries, for lsm_memtable_insert_many(): their lengths are
 * read, their nodes set.  False: not for all of them.
 */
bool
lsm_memtable_reserve_many(LsmMemtable *memtable, LsmEntry *entries, int n)
{
	SkipList   *m = (SkipList *) memtable;
	uint8		heights[LSM_MAX_WRITE_ENTRIES];
	Size		bytes[LSM_MAX_WRITE_ENTRIES];
	int			got;

	Assert(n <= LSM_MAX_WRITE_ENTRIES);
	lsm_digest_index_make_room(m);
	for (int i = 0; i < n; i++)
	{
		heights[i] = (uint8) mem_random_height();
		bytes[i] = entry_bytes(heights[i], entries[i].key.len, entries[i].value.len);
	}
	for (int first = 0; first < n; first += got)
	{
		char	   *p = lsm_memtable_allocate_run(m, bytes + first, n - first, &got);

		if (p == NULL)
			return false;
		for (int i = first; i < first + got; i++)
		{
			entries[i].node = p;
			node_label((LsmMemNode *) p, heights[i], entries[i].key.len,
					   entries[i].value.len);
			p += bytes[i];
		}
	}
	return true;
}

/*
 * Nodes between these two are in the list: widen the range.  Bounds' prefixes
 * come last: who finds his key's prefix between them looks at nothing else,
 * a search that finds it equal to one looks at the node, which is there.
 */
static inline void
range_add(SkipList *m, LsmMemNode *min, LsmMemNode *max)
{
	uint64		prefix = mem_load(&m->max_prefix);
	LsmMemNode *bound;

	if (max->prefix >= prefix)
	{
		bound = mem_load(&m->max_node);
		while ((bound == NULL || node_compare(bound, max->prefix, lsm_memnode_key(max)) < 0) &&
			   !mem_cas(&m->max_node, &bound, max))
			 /* try again */ ;
		while (max->prefix > prefix && !mem_cas(&m->max_prefix, &prefix, max->prefix))
			 /* try again */ ;
	}
	prefix = mem_load(&m->min_prefix);
	if (min->prefix <= prefix)
	{
		bound = mem_load(&m->min_node);
		while ((bound == NULL || node_compare(bound, min->prefix, lsm_memnode_key(min)) > 0) &&
			   !mem_cas(&m->min_node, &bound, min))
			 /* try again */ ;
		while (min->prefix < prefix && !mem_cas(&m->min_prefix, &prefix, min->prefix))
			 /* try again */ ;
	}
}

/*
 * Make a node of reserved memory.  Its key and value are in it from here on;
 * no one sees it yet.
 */
static inline void
node_fill(LsmMemNode *node, uint64 seq, LsmSlice key, LsmSlice value, LsmDigest digest)
{
	LsmMemValue *v = (LsmMemValue *)
		((char *) node + MEM_NODE_BYTES(node->height, node->key_bytes));

	Assert(node->height > 0);
	Assert(key.len > 0 && key.len <= node->key_bytes);
	Assert(value.len > 0 && value.len <= node->value_room);

	v->seq = seq;
	v->base = NULL;
	v->len = value.len;
	memcpy(v->data, value.data, value.len);

	node->state = MEM_LINKED | (value.data[0] == LSM_TAG_DELETE ? MEM_DELETED : 0);
	node->prefix = key_prefix(key);
	node->key_bytes = (uint16) key.len;
	node->digest = digest;
	node->value = mem_word(v);
	memcpy((char *) &node->next[node->height], key.data, key.len);
	for (int i = 0; i < node->height; i++)
		node->next[i] = NULL;
}

/*
 * Link a filled node, or add its value to the one that has its key already.
 * Returns the node that has the key now.
 */
static inline LsmMemNode *
node_link(SkipList *m, LsmMemNode *node)
{
	LsmMemNode *place = lsm_memlist_insert(m, node, lsm_memnode_key(node));

	MEM_RACE_POINT();
	if (place != node)
		lsm_memnode_add_value(place, mem_pointer(node->value));
	return place;
}

/*
 * Into the digest index, once its key is in the list and in the range.
 *
 * If another process has created the key's node but not yet added it to the
 * index, do not wait for that: our readers must find the key now.  Our own
 * node's memory serves as an entry that says "look into the skiplist".  Where
 * so many share the digest that it was the skiplist that knew of the key, its
 * node mostly is in the index.
 */
static inline bool
node_index(SkipList *m, LsmMemNode *node, LsmMemNode *place)
{
	if (place != node)
	{
		if ((mem_load(&place->state) & MEM_INDEXED) != 0)
			return false;
		node->height = 0;
	}
	return lsm_digest_index_add(m, node, node->digest);
}

/*
 * A key that is not there: its node will be linked later (deferred_link.c).
 * It gets into the index first: should another node of the key be found when
 * it is linked, the index says so (merge_node).
 */
static void
insert_unlinked(SkipList *m, LsmMemNode *node)
{
	uint64		entries;

	/* before anyone comes to it by the skiplist */
	node->state = MEM_INDEXED | (node->state & MEM_DELETED);
	range_add(m, node, node);
	entries = pg_atomic_add_fetch_u64(&m->pub.entries, 1);
	if (lsm_digest_index_add(m, node, node->digest))
		lsm_digest_index_count(m, 1);
	MEM_RACE_POINT();
	lsm_deferred_push(m, node);
	lsm_deferred_added(m, entries);
}

/*
 * Insert the entry into its node.  Cannot fail.  `alone`: no one else writes
 * the key at the same time, so that the skiplist can wait.
 */
static void
insert_entry(SkipList *m, const LsmEntry *entry, uint64 seq, bool alone)
{
	LsmMemNode *node = entry->node;
	LsmMemNode *place;
	bool		later;

	Assert(entry->probably_new || !entry->known_new);
	node_fill(node, seq, entry->key, entry->value, entry->digest);
	later = alone && lsm_deferred_later(m, node->prefix);
	if (entry->known_new && later)
	{
		insert_unlinked(m, node);
		return;
	}
	if (!entry->known_new && (!entry->probably_new || later || lsm_deferred_pending(m)))
	{
		bool		complete;

		/* an update of a key that has a node: no descent needed */
		place = lsm_digest_index_find(m, entry->digest, node->prefix, entry->key, &complete);
		if (place != NULL)
		{
			lsm_memnode_add_value(place, mem_pointer(node->value));
			return;
		}
		if (complete && later)
		{
			insert_unlinked(m, node);
			return;
		}

		/* the key's node may be one that is to be linked */
		if (!complete)
			lsm_deferred_link_all(m);
	}
	place = node_link(m, node);
	if (place == node)
		pg_atomic_fetch_add_u64(&m->pub.entries, 1);
	range_add(m, place, place);
	if (node_index(m, node, place))
		lsm_digest_index_count(m, 1);
	if (place == node)
		(void) node_set_state(node, MEM_INDEXED);
}

/*
 * `digest`: that of the filter key.  `fresh`: no one else writes the key at
 * the same time, and it will hardly be there, so the skiplist can wait, or the
 * digest index need not be searched first.  (If it is there, or another key
 * with the digest, that may get into the index twice, in different tables.)
 */
void
lsm_memtable_insert(LsmMemtable *memtable, void *reserved, uint64 seq,
					LsmSlice key, LsmSlice value, LsmDigest digest, bool fresh)
{
	LsmEntry	entry = {
		.key = key,
		.value = value,
		.digest = digest,
		.node = reserved,
		.probably_new = fresh
	};

	insert_entry((SkipList *) memtable, &entry, seq, fresh && value.data[0] == LSM_TAG_PUT);
}

static inline bool
all_fresh(const LsmEntry *entries, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (!entries[i].probably_new)
			return false;
	}
	return true;
}

/*
 * Link filled nodes, as node_link() for each: those at the end one by one,
 * others all at the same time.
 */
static void
link_entries(SkipList *m, const LsmEntry *entries, int n, LsmMemNode **places)
{
	LsmMemNode *nodes[LSM_MAX_WRITE_ENTRIES];
	int			i;

	for (i = 0; i < n; i++)
	{
		nodes[i] = entries[i].node;
		if (nodes[i]->prefix < mem_load(&m->tail_prefix))
			break;
		places[i] = node_link(m, nodes[i]);
	}
	if (i == n)
		return;
	for (int rest = i; rest < n; rest++)
		nodes[rest] = entries[rest].node;
	lsm_deferred_many(m, nodes + i, n - i, places + i);
	for (; i < n; i++)
	{
		if (places[i] != nodes[i])
			lsm_memnode_add_value(places[i], mem_pointer(nodes[i]->value));
	}
}

/*
 * Insert entries with ascending sequence numbers from `seq` on, using the
 * memory reserved for each.  Otherwise as lsm_memtable_insert(); of fresh
 * entries none need be found before the call returns, while an update's go one
 * after the other: who sees the end of the old version finds the new one.
 *
 * What takes turns with other processes (locked instructions, which wait until
 * everything written before is in the cache) is done after all nodes are
 * filled, and once for all where that is possible.
 */
void
lsm_memtable_insert_many(LsmMemtable *memtable, const LsmEntry *entries, int n, uint64 seq)
{
	SkipList   *m = (SkipList *) memtable;
	LsmMemNode *places[LSM_MAX_WRITE_ENTRIES];
	LsmMemNode *min = NULL;
	LsmMemNode *max = NULL;
	int			created = 0;
	int			indexed = 0;

	Assert(n <= LSM_MAX_WRITE_ENTRIES);
	if (n == 1 || !all_fresh(entries, n) || lsm_deferred_pending(m))
	{
		for (int i = 0; i < n; i++)
			insert_entry(m, &entries[i], seq + i, entries[i].probably_new || entries[i].key_locked);
		return;
	}
	for (int i = 0; i < n; i++)
		node_fill(entries[i].node, seq + i, entries[i].key, entries[i].value,
				  entries[i].digest);
	link_entries(m, entries, n, places);
	for (int i = 0; i < n; i++)
	{
		LsmSlice	key = entries[i].key;

		if (places[i] == entries[i].node)
			created++;
		if (max == NULL || node_compare(max, key_prefix(key), key) < 0)
			max = places[i];
		if (min == NULL || node_compare(min, key_prefix(key), key) > 0)
			min = places[i];
	}
	pg_atomic_fetch_add_u64(&m->pub.entries, created);
	range_add(m, min, max);
	for (int i = 0; i < n; i++)
		indexed += node_index(m, entries[i].node, places[i]);
	lsm_digest_index_count(m, indexed);
}
