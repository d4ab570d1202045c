/*-------------------------------------------------------------------------
 *
 * memtable.c
 *	  One generation's entries in memory: a skiplist ordered by key, with
 *	  lock-free readers and concurrent writers, and an index by digest
 *	  (digest_index.c).
 *
 * Skiplist: W. Pugh, "Skip lists: a probabilistic alternative to balanced
 * trees" (1990), branching 2; insertion by compare-and-swap from the
 * bottom level up, removal by marking a node's links from the top level down
 * (M. Herlihy, N. Shavit, "The Art of Multiprocessor Programming", 14.4).  A
 * node is reachable on level l only after it was linked on all levels below,
 * so a descent never gets stuck.  The compare-and-swap on level 0 decides who
 * creates a key's node, and the mark on level 0 who removes it.
 *
 * All memory goes away at once when the memtable is destroyed, which spares us
 * the hard part of lock-free removal: a removed node stays readable, its
 * marked links are frozen, and a pointer never means two things.  No one
 * descends or links behind a marked node: searches step over it, and those
 * that are about to link unlink it first.
 *
 * Digest index: digest_index.c.  Nodes that are linked later: deferred_link.c.
 * What insertion does with all of them: insert.c.
 *
 * Locking: none, but for that of deferred_link.c at the beginning of whatever
 * looks at the order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

/* ----------------------------------------------------------------------
 * skiplist
 * ---------------------------------------------------------------------- */

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
 * the case is the same as that of a node which is removed when a search has
 * just reached it.
 */
static inline LsmMemNode *
skip_to_tail(SkipList *m, int level, LsmMemNode *node, uint64 prefix, LsmSlice key)
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
 * The places for a node that will be the last one, without a search.  False:
 * it is none such, or a hint is missing.  (`preds` are hints like the tails:
 * list_link() goes on from them.)
 */
static inline bool
tail_preds(SkipList *m, LsmMemNode *node, LsmSlice key, LsmMemNode **preds)
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
note_tail(SkipList *m, LsmMemNode *node, int level)
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
 * the node after it, NULL at the end.  If `preds` is given it receives the
 * last node before the key on the first `height` levels, or more; levels
 * nobody uses yet get the head.  With `preds`, nodes being removed are
 * unlinked on the way.
 */
static LsmMemNode *
list_search(SkipList *m, uint64 prefix, LsmSlice key, LsmMemNode **found,
			LsmMemNode **preds, int height)
{
	int			level;
	LsmMemNode *node;
	LsmMemNode *bigger;			/* known to be >= the key */
	LsmMemNode *fetched_of = NULL;	/* node whose links were fetched ahead */
	int			fetched = 0;	/* from this level on up */
	bool		retry;
	bool		at_end = prefix >= mem_load(&m->tail_prefix);

restart:
	node = m->head;
	level = (int) mem_load(&m->max_height) - 1;
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

		/*
		 * Until it is linked on level 0 no one else writes the node's links
		 * (though node_unlinked() may read one). Above, a remover may have
		 * marked the link.
		 */
		if (level == 0)
			mem_store(&mem_link(node, 0), next);
		else
		{
			old = mem_load(&mem_link(node, level));
			if (link_marked(old) ||
				(old != next && !mem_cas(&mem_link(node, level), &old, next)))
				return NULL;
		}
		MEM_RACE_POINT();
		old = next;
		if (mem_cas(&mem_link(pred, level), &old, node))
			return node;
	}
}

/*
 * Insert the node behind `preds`, or search for them first (!known).  Returns
 * the node that has its key already if there is one.  A dead one is not meant:
 * who removed it may consider that done, while it has yet to be unlinked by
 * another one who removes it, or who has just linked it.
 */
static pg_attribute_always_inline LsmMemNode *
list_insert(SkipList *m, LsmMemNode *node, LsmSlice key, LsmMemNode **preds, bool known)
{
	LsmMemNode *found;
	uint32		max_height;

	do
	{
		found = NULL;
		if (!known)
			(void) list_search(m, node->prefix, key, &found, preds, node->height);
		known = false;
		if (found == NULL || node_compare(found, node->prefix, key) != 0)
		{
			MEM_RACE_POINT();
			found = list_link(node, 0, preds[0], key);
		}
		if (found != NULL && found != node && unlikely(node_dead(found)))
		{
			lsm_memlist_unlink(m, found);
			found = NULL;
		}
	} while (found == NULL);
	if (found != node)
		return found;
	note_tail(m, node, 0);

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
			(void) list_search(m, node->prefix, key, &found, preds, node->height);
		note_tail(m, node, level);
	}
	return node;
}

/* Removed while we were linking it: leave no link that was made too late. */
static inline void
list_undo_removed(SkipList *m, LsmMemNode *node, LsmSlice key)
{
	LsmMemNode *preds[MEM_MAX_HEIGHT];
	LsmMemNode *found;

	if (node_unlinked(node))
		(void) list_search(m, node->prefix, key, &found, preds, node->height);
}

LsmMemNode *
lsm_memlist_insert(SkipList *m, LsmMemNode *node, LsmSlice key)
{
	LsmMemNode *preds[MEM_MAX_HEIGHT];
	bool		at_tail = tail_preds(m, node, key, preds);
	LsmMemNode *place = list_insert(m, node, key, preds, at_tail);

	if (place != node)
		return place;
	list_undo_removed(m, node, key);
	return node;
}

LsmMemNode *
lsm_memlist_insert_behind(SkipList *m, LsmMemNode *node, LsmSlice key, LsmMemNode **preds)
{
	LsmMemNode *place = list_insert(m, node, key, preds, true);

	if (place != node)
		return place;
	list_undo_removed(m, node, key);
	return node;
}

void
lsm_memlist_unlink(SkipList *m, LsmMemNode *node)
{
	LsmMemNode *preds[MEM_MAX_HEIGHT];
	LsmMemNode *found;

	for (int level = node->height - 1; level >= 0; level--)
	{
		LsmMemNode *link = mem_load(&mem_link(node, level));

		while (!link_marked(link) &&
			   !mem_cas(&mem_link(node, level), &link, link_with_mark(link)))
			 /* try again */ ;
		MEM_RACE_POINT();
	}
	(void) list_search(m, node->prefix, lsm_memnode_key(node), &found, preds, node->height);
}

/*
 * Take the node out of the list: readers that come later do not meet it, those
 * that stand on it find their way on.  A value that someone adds to the node
 * at this moment is lost, so: only for a key that no one will write again, or
 * whose further writes mean nothing.  The digest index keeps its entry.
 *
 * Who finds that someone else is doing it need not wait for that: the node is
 * dead.
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
	(void) list_search(m, prefix, key, &node, NULL, 1);
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
	return memcmp(low.data, node_key_data(max), Min(low.len, max->key_bytes)) <= 0 &&
		memcmp(high.data, node_key_data(min), Min(high.len, min->key_bytes)) >= 0;
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
	(void) list_search((SkipList *) memtable, key_prefix(key), key, &found, NULL, 1);
	return found;
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
	before = list_search(m, prefix, key, &found, NULL, 1);
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

		(void) list_search((SkipList *) memtable, node->prefix, key, &found, NULL, 1);
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
	SkipList   *m = (SkipList *) memtable;
	LsmMemNode *found;
	LsmMemNode *before;

	lsm_deferred_link_all(m);
	before = list_search(m, node->prefix, lsm_memnode_key(node), &found, NULL, 1);
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
