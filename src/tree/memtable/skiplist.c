/*-------------------------------------------------------------------------
 *
 * skiplist.c
 *	  The skiplist of a memtable, ordered by key: lock-free readers, concurrent
 *	  writers.
 *
 * W. Pugh, "Skip lists: a probabilistic alternative to balanced trees" (1990),
 * branching 2; insertion by compare-and-swap from the bottom level up, removal
 * by marking a node's links from the top level down (M. Herlihy, N. Shavit,
 * "The Art of Multiprocessor Programming", 14.4).  A node is reachable on
 * level l only after it was linked on all levels below, so a descent never gets
 * stuck.  The compare-and-swap on level 0 decides who creates a key's node, and
 * the mark on level 0 who removes it.
 *
 * All memory goes away at once when the memtable is destroyed, which spares us
 * the hard part of lock-free removal: a removed node stays readable, its
 * marked links are frozen, and a pointer never means two things.  No one
 * descends or links behind a marked node: searches step over it, and those
 * that are about to link unlink it first.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

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
 * Descend to the last node of the level `lowest` (or of the highest one, if
 * that is below) with a key < the argument, or the head; *found is the node
 * after it on that level, NULL at the end.  If `preds` is given it receives the
 * last node before the key on the first `height` levels, or more; levels
 * nobody uses yet get the head.  With `preds`, nodes being removed are
 * unlinked on the way.
 */
static LsmMemNode *
list_search(SkipList *m, uint64 prefix, LsmSlice key, LsmMemNode **found,
			LsmMemNode **preds, int height, int lowest)
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
		if (level <= lowest)
			break;
		level--;
	}
	*found = bigger;
	return node;
}

/* For readers, who unlink nothing. */
LsmMemNode *
lsm_memlist_search(SkipList *m, uint64 prefix, LsmSlice key, LsmMemNode **found)
{
	return list_search(m, prefix, key, found, NULL, 1, 0);
}

LsmMemNode *
lsm_memlist_search_level(SkipList *m, uint64 prefix, LsmSlice key, int level)
{
	LsmMemNode *found;

	return list_search(m, prefix, key, &found, NULL, 1, level);
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
			(void) list_search(m, node->prefix, key, &found, preds, node->height, 0);
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
			(void) list_search(m, node->prefix, key, &found, preds, node->height, 0);
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
		(void) list_search(m, node->prefix, key, &found, preds, node->height, 0);
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
	(void) list_search(m, node->prefix, lsm_memnode_key(node), &found, preds, node->height, 0);
}
