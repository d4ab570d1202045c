/*-------------------------------------------------------------------------
 *
 * memtable.c
 *	  One generation's entries in memory: a skiplist ordered by key, with lock-free readers and
 *	  concurrent writers, and an index by digest (memindex.c).
 *
 * Skiplist: W. Pugh, "Skip lists: a probabilistic alternative to balanced
 * trees" (1990), branching 2; insertion by compare-and-swap from the
 * bottom level up, removal by marking a node's links from the top level down
 * (M. Herlihy, N. Shavit, "The Art of Multiprocessor Programming", 14.4).  A
 * node is reachable on level l only after it was linked on all levels below,
 * so a descent never gets stuck.  The compare-and-swap on level 0 decides who
 * creates a key's node, and the mark on level 0 who removes it.
 *
 * All memory goes away at once when the memtable is destroyed, which
 * spares us the hard part of lock-free removal: a removed node stays readable,
 * its marked links are frozen, and a pointer never means two things.  No one
 * descends or links behind a marked node: searches step over it, and those that are about
 * to link unlink it first.
 *
 * Digest index: memindex.c.
 *
 * Range: the nodes with the smallest and the largest key ever inserted (min_node, max_node)
 * answer many questions for absent keys: a memtable whose keys all lie elsewhere needs no look
 * into its digest index.  Removed nodes stay bounds.
 *
 * What insert promises: when it returns, the key's node is in the
 * skiplist, its key in the range, the digest in the index, and the value is the node's newest one,
 * hidden by a newer one, or the base of a newer PARTIAL.
 *
 * Values of a node: see node_add_value().
 *
 * Locking: none, but for the memtable's spinlock while memory is reserved.
 * lsm_memtable_insert() and the readers take no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "port/pg_bswap.h"

#include "tree/memtable.h"

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

/* What a search looks at in a node that it comes to. */
static inline void
mem_prefetch_node(const LsmMemNode *node)
{
	if (node != NULL)
		__builtin_prefetch(&node->prefix);
}

/* A link with the mark says that the node it belongs to is being removed. */
#define LINK_MARK			((uintptr_t) 1)
#define link_marked(link)	(((uintptr_t) (link) & LINK_MARK) != 0)
#define link_node(link)		((LsmMemNode *) ((uintptr_t) (link) & ~LINK_MARK))
#define link_with_mark(link) ((LsmMemNode *) ((uintptr_t) (link) | LINK_MARK))

/* Removed for good?  (Its links above level 0 may be marked a little before.) */
static inline bool
node_removed(LsmMemNode *node)
{
	return link_marked(mem_load(&mem_link(node, 0)));
}

/*
 * The first node after `node` on the level that is not being removed; with
 * `unlink`, those in between are unlinked.  *retry is set if `node` itself
 * is being removed and the caller wanted to unlink.
 */
static inline LsmMemNode *
list_next(LsmMemNode *node, int level, bool unlink, bool *retry)
{
	LsmMemNode *link = mem_load(&mem_link(node, level));
	LsmMemNode *next = link_node(link);

	MEM_RACE_POINT();
	if (unlink && link_marked(link))
	{
		*retry = true;
		return NULL;
	}
	while (next != NULL)
	{
		LsmMemNode *after = mem_load(&mem_link(next, level));

		if (!link_marked(after))
			break;
		if (unlink)
		{
			LsmMemNode *expected = next;

			MEM_RACE_POINT();
			/* fails if something was linked in between, or node marked */
			if (!mem_cas(&mem_link(node, level), &expected, link_node(after)))
			{
				if (link_marked(expected))
				{
					*retry = true;
					return NULL;
				}
				next = expected;
				continue;
			}
		}
		next = link_node(after);
	}
	return next;
}

/*
 * Keys that ascend, such as row identifiers, are inserted at the end: a search
 * for one starts at the last node of each level instead of walking there.
 *
 * The last nodes are hints.  Whatever node of the level with a smaller key is
 * as good a place as any to go on from, if it was not removed when we looked:
 * the case is the same as that of a node which is removed when a search has just
 * reached it.
 */
static inline LsmMemNode *
skip_to_tail(Memtable *m, int level, LsmMemNode *node, uint64 prefix, LsmSlice key)
{
	LsmMemNode *tail = mem_load(&m->tail[level]);

	if (tail == NULL || tail == node ||
		node_compare(tail, prefix, key) >= 0 ||
		link_marked(mem_load(&mem_link(tail, level))) ||
		(node != m->head &&
		 node_compare(node, tail->prefix,
					  lsm_slice(node_key_data(tail), tail->key_bytes)) > 0))
		return node;
	return tail;
}

/*
 * The places for a node that will be the last one, without a search.  False: it
 * is none such, or a hint is missing.  (`preds` are hints like the tails: list_link()
 * goes on from them.)
 */
static inline bool
tail_preds(Memtable *m, LsmMemNode *node, LsmSlice key, LsmMemNode **preds)
{
	if (node->prefix < mem_load(&m->tail_prefix))
		return false;
	for (int level = 0; level < node->height; level++)
	{
		LsmMemNode *tail = mem_load(&m->tail[level]);

		if (tail == NULL || node_compare(tail, node->prefix, key) >= 0 ||
			link_marked(mem_load(&mem_link(tail, level))))
			return false;
		preds[level] = tail;
	}
	return true;
}

/* The node was linked on the level; is it the last one? */
static inline void
note_tail(Memtable *m, LsmMemNode *node, int level)
{
	if (mem_load(&mem_link(node, level)) != NULL)
		return;
	mem_store(&m->tail[level], node);
	if (level == 0)
		mem_store(&m->tail_prefix, node->prefix);
}

/* How many levels down the search fetches */
#define LEVELS_AHEAD	3

/*
 * Descend to the last node with a key < the argument (or the head); *found is
 * the node after it, NULL at the end.  If `preds` is given it receives
 * the last node before the key on every level; levels nobody uses yet get the
 * head.  With `preds`, nodes being removed are unlinked on the way.
 */
static LsmMemNode *
list_search(Memtable *m, uint64 prefix, LsmSlice key, LsmMemNode **found,
			LsmMemNode **preds)
{
	int			level;
	LsmMemNode *node;
	LsmMemNode *bigger;			/* known to be >= the key */
	LsmMemNode *fetched_of = NULL;	/* node whose links were fetched ahead */
	int			fetched = 0;	/* from this level on up */
	bool		retry;
	bool		at_end = prefix >= mem_load(&m->tail_prefix);

restart:
	level = (int) mem_load(&m->max_height) - 1;
	node = m->head;
	bigger = NULL;
	retry = false;
	if (preds != NULL)
	{
		for (int i = level + 1; i < MEM_MAX_HEIGHT; i++)
			preds[i] = m->head;
	}
	for (;;)
	{
		LsmMemNode *next;

		if (at_end)
			node = skip_to_tail(m, level, node, prefix, key);

		/*
		 * where this node's lower links lead is looked at next, mostly in
		 * turn
		 */
		if (node != fetched_of)
		{
			fetched_of = node;
			fetched = level;
		}
		while (fetched > 0 && fetched > level - LEVELS_AHEAD)
			mem_prefetch_node(link_node(mem_load(&mem_link(node, --fetched))));
		next = list_next(node, level, preds != NULL, &retry);
		if (retry)
		{
			at_end = false;
			goto restart;
		}

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
 * Link the node between pred, or a later node, and its successor on a level.
 * On level 0, a node with the same key is returned instead if there is one.
 * NULL: the place has to be searched again, because pred is being removed;
 * or, above level 0, because the node itself is.
 */
static LsmMemNode *
list_link(LsmMemNode *node, int level, LsmMemNode *pred, LsmSlice key)
{
	for (;;)
	{
		bool		retry = false;
		LsmMemNode *next = list_next(pred, level, true, &retry);
		LsmMemNode *old;

		if (retry)
			return NULL;
		if (next != NULL)
		{
			int			c = node_compare(next, node->prefix, key);

			if (c == 0 && (level == 0 || next == node))
				return next;
			if (c < 0)
			{
				pred = next;
				continue;
			}
			/* above level 0: an equal one is a removed node's successor */
		}

		/* not a plain store: a remover may have marked the link */
		old = mem_load(&mem_link(node, level));
		if (link_marked(old) || !mem_cas(&mem_link(node, level), &old, next))
			return NULL;
		MEM_RACE_POINT();
		old = next;
		if (mem_cas(&mem_link(pred, level), &old, node))
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
	bool		at_tail = tail_preds(m, node, key, preds);

	do
	{
		found = NULL;
		if (!at_tail)
			(void) list_search(m, node->prefix, key, &found, preds);
		at_tail = false;
		if (found != NULL && node_compare(found, node->prefix, key) == 0)
			return found;
		MEM_RACE_POINT();
		found = list_link(node, 0, preds[0], key);
	} while (found == NULL);
	if (found != node)
		return found;
	note_tail(m, node, 0);
	pg_atomic_fetch_add_u64(&m->pub.entries, 1);

	/*
	 * A search that starts too low is slower, not wrong; but the cleanup
	 * below and that of a remover have to see all levels.
	 */
	max_height = mem_load(&m->max_height);
	while (max_height < node->height &&
		   !mem_cas(&m->max_height, &max_height, (uint32) node->height))
		 /* try again */ ;

	for (int level = 1; level < node->height; level++)
	{
		while (!link_marked(mem_load(&mem_link(node, level))) &&
			   list_link(node, level, preds[level], key) == NULL)
			(void) list_search(m, node->prefix, key, &found, preds);
		note_tail(m, node, level);
	}

	/* removed while we were linking: leave no link that was made too late */
	if (node_removed(node))
		(void) list_search(m, node->prefix, key, &found, preds);
	return node;
}

/* The node is in the list: widen the range. */
static inline void
range_add(Memtable *m, LsmMemNode *node, LsmSlice key)
{
	LsmMemNode *bound = mem_load(&m->max_node);

	while ((bound == NULL || node_compare(bound, node->prefix, key) < 0) &&
		   !mem_cas(&m->max_node, &bound, node))
		 /* try again */ ;
	bound = mem_load(&m->min_node);
	while ((bound == NULL || node_compare(bound, node->prefix, key) > 0) &&
		   !mem_cas(&m->min_node, &bound, node))
		 /* try again */ ;
}

/*
 * Take the node out of the list: readers that come later do not meet it,
 * those that stand on it find their way on.  A value that someone adds to the node at this
 * moment is lost, so: only for a key that no one will write again, or whose further
 * writes mean nothing.  The digest index keeps its entry.
 */
void
lsm_memtable_remove(LsmMemtable *memtable, LsmMemNode *node)
{
	Memtable   *m = (Memtable *) memtable;
	LsmMemNode *preds[MEM_MAX_HEIGHT];
	LsmMemNode *found;

	for (int level = node->height - 1; level >= 0; level--)
	{
		LsmMemNode *link = mem_load(&mem_link(node, level));

		while (!link_marked(link))
		{
			if (mem_cas(&mem_link(node, level), &link, link_with_mark(link)))
			{
				if (level == 0)
					pg_atomic_fetch_add_u64(&m->pub.removed, 1);
				break;
			}
		}
		MEM_RACE_POINT();
	}
	(void) list_search(m, node->prefix, lsm_memnode_key(node), &found, preds);
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

	while (height < MEM_MAX_HEIGHT && (bits & 1) == 0)
	{
		height++;
		bits >>= 1;
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

	lsm_memindex_make_room(m);

	node = lsm_memtable_allocate(m, MEM_NODE_BYTES(height, key_bytes) +
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
 * `fresh`: the key will hardly be there, so do not look into the digest index
 * first.  (If it is, or another key with the digest, that may get there twice,
 * in different tables.)
 */
void
lsm_memtable_insert(LsmMemtable *memtable, void *reserved, uint64 seq,
					LsmSlice key, LsmSlice value, LsmDigest digest, bool fresh)
{
	Memtable   *m = (Memtable *) memtable;
	LsmMemNode *node = (LsmMemNode *) reserved;
	LsmMemValue *v;
	LsmMemNode *entry = NULL;
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
	if (!fresh)
		entry = lsm_memindex_search(m, digest);
	if (entry != NULL && entry->height > 0 && !node_removed(entry) &&
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
	range_add(m, place, key);
	if (place != node)
		node_add_value(place, v);

	if (entry == NULL)
	{
		/*
		 * If another process has created the key's node but not yet added it
		 * to the index, do not wait for that: our readers must find the key
		 * now.  Our own node's memory serves as an entry that says "look into
		 * the skiplist".
		 */
		if (place != node)
			node->height = 0;
		lsm_memindex_add(m, node, digest);
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
	uint64		prefix = key_prefix(key);
	LsmMemNode *node;

	if (!lsm_memtable_may_hold(memtable, key) ||
		(node = lsm_memindex_search(m, digest)) == NULL)
		return NULL;
	if (node->height > 0 && !node_removed(node) &&
		node_compare(node, prefix, key) == 0)
		return node;

	/* another key with the same digest */
	(void) list_search(m, prefix, key, &node, NULL);
	if (node != NULL && node_compare(node, prefix, key) == 0)
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
		lsm_memindex_search((Memtable *) memtable, digest) != NULL;
}

/*
 * False: all keys are smaller or greater than any that begins with `filter_key`.
 */
bool
lsm_memtable_may_hold(LsmMemtable *memtable, LsmSlice filter_key)
{
	Memtable   *m = (Memtable *) memtable;
	LsmMemNode *max = mem_load(&m->max_node);
	LsmMemNode *min = mem_load(&m->min_node);

	if (max == NULL || min == NULL)
		return false;
	return memcmp(filter_key.data, node_key_data(max),
				  Min(filter_key.len, max->key_bytes)) <= 0 &&
		memcmp(filter_key.data, node_key_data(min),
			   Min(filter_key.len, min->key_bytes)) >= 0;
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
	return list_next(((Memtable *) memtable)->head, 0, false, NULL);
}

LsmMemNode *
lsm_memtable_last(LsmMemtable *memtable)
{
	Memtable   *m = (Memtable *) memtable;
	int			level = (int) mem_load(&m->max_height) - 1;
	LsmMemNode *node = m->head;

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
 * The node after, or NULL.  A removed node's own link is frozen and may pass over
 * what was inserted since: then a search.
 */
LsmMemNode *
lsm_memtable_next(LsmMemtable *memtable, LsmMemNode *node)
{
	while (unlikely(node_removed(node)))
	{
		LsmSlice	key = lsm_memnode_key(node);
		LsmMemNode *found;

		(void) list_search((Memtable *) memtable, node->prefix, key, &found, NULL);
		if (found == NULL || node_compare(found, node->prefix, key) != 0)
			return found;
		node = found;			/* its key has got a new node */
	}
	return list_next(node, 0, false, NULL);
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
