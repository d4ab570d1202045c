/*-------------------------------------------------------------------------
 *
 * memlink.c
 *	  Nodes that enter a memtable's skiplist later, many at once.
 *
 * Most of what inserting a random key costs is the search for its place: a dozen steps through
 * the skiplist, each of which waits for memory that the next one needs.  Nobody needs that place
 * before someone asks for an order, and point lookups do not: they ask the digest index.  So a new
 * node only goes to a list of nodes to be linked (m->unlinked), and into the digest index.
 * When there are enough of them the one who comes last searches the places of many at the same
 * time, a step of each in turn, so that what they wait for arrives meanwhile.
 *
 * Everything that looks at the order (seek, first, last, next, prev, removal, the search for
 * a key whose digest another key has taken) begins with lsm_memlink_settle(), which links what is
 * there.  So every ordered operation meets every node whose insertion was over when it began,
 * as if nodes were linked at once.
 *
 * Who links holds m->link_lock, and says so (m->linking) before taking the nodes off the list.
 * Whoever finds the list empty and then m->linking off has either come before the nodes, or
 * finds them linked; otherwise it waits for the lock.  Nothing in between can fail, and a process that
 * dies there takes all of shared memory with it: no node is lost between list and skiplist.
 *
 * What must not happen is that a key gets a node in the skiplist while an older one of it is in
 * the list.  Writes of one key come one after the other (tree_private.h), so a
 * later one finds the digest in the index: it adds its value to the node that is there, linked
 * or not, or, if the digest stands for another key, settles and searches the skiplist.  Should two nodes of a key
 * meet nevertheless, the one that is linked gets both values.
 *
 * Readers that come between the insertions of one row each, as in OLTP, find a few nodes
 * each time.  They would pay for the lock and gain nothing, so the next insertions link at once.
 *
 * Locking: m->link_lock, a leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"

#include "tree/memtable.h"

/* So many nodes are linked by the writer that adds the last of them */
#ifndef MEM_MAX_UNLINKED
#define MEM_MAX_UNLINKED	256
#endif

/* Searches going on at the same time */
#define GROUP		16

/* A reader that finds fewer has so many insertions link at once */
#define FEW_UNLINKED	16
#define LINK_AT_ONCE	256

/* The search for a node's place: a state between two waits for memory */
typedef struct Descent
{
	LsmMemNode *target;
	LsmMemNode *node;			/* last one that is known to be smaller */
	LsmMemNode *next;			/* to be looked at: it is on its way */
	LsmMemNode *bigger;			/* known not to be smaller */
	LsmMemNode *hint;			/* where the search began, or NULL: the head */
	int			at;				/* number of the node */
	int			level;
	int			patience;
	bool		done;			/* preds are known from the beginning */
	LsmMemNode *preds[MEM_MAX_HEIGHT];
} Descent;

/* Down to the next node that has to be looked at; false: there is none, the place is known. */
static inline bool
descent_fetch(Descent *d)
{
	for (;;)
	{
		LsmMemNode *next = link_node(mem_load(&mem_link(d->node, d->level)));

		if (next != NULL && next != d->bigger)
		{
			mem_prefetch_node(next);
			d->next = next;
			return true;
		}
		d->preds[d->level] = d->node;
		if (d->level-- == 0)
			return false;
	}
}

static inline void
descent_begin(Memtable *m, Descent *d, LsmMemNode *target, LsmMemNode *hint, int at)
{
	LsmSlice	key = lsm_memnode_key(target);

	d->at = at;
	d->target = target;
	if (hint != NULL && !lsm_memhint_good(hint, target->prefix, key))
		hint = lsm_memhint_before(m, target->prefix, key, target->height);
	d->hint = hint;
	d->node = d->hint != NULL ? d->hint : m->head;
	d->level = (int) (d->hint != NULL ? d->hint->height : mem_load(&m->max_height)) - 1;
	d->bigger = NULL;
	d->patience = MEM_STEPS_FROM_HINT;
	for (int i = d->level + 1; i < target->height; i++)
		d->preds[i] = m->head;
	d->done = !descent_fetch(d);
}

/* One step; false: the place is known. */
static inline bool
descent_step(Memtable *m, Descent *d)
{
	LsmMemNode *target = d->target;
	LsmMemNode *next = d->next;
	LsmMemNode *after;

	if (d->done)
		return false;
	after = mem_load(&mem_link(next, d->level));

	/* whoever links behind d->node unlinks it first (list_link) */
	while (unlikely(link_marked(after)))
	{
		next = link_node(after);
		if (next == NULL)
			break;
		after = mem_load(&mem_link(next, d->level));
	}
	if (next != NULL && next != d->bigger &&
		node_compare(next, target->prefix, lsm_memnode_key(target)) < 0)
	{
		d->node = next;
		if (d->hint != NULL && d->level == d->hint->height - 1 && --d->patience == 0)
		{
			/* far away: not worth it */
			lsm_memhint_failed(m);
			d->hint = NULL;
			d->node = m->head;
			d->level = (int) mem_load(&m->max_height) - 1;
			d->bigger = NULL;
			for (int i = d->level + 1; i < target->height; i++)
				d->preds[i] = m->head;
		}
	}
	else
	{
		d->bigger = next;
		d->preds[d->level] = d->node;
		if (d->level-- == 0)
			return false;
	}
	return descent_fetch(d);
}

/* Hints of the next nodes, which are on their way */
#define hint_of(hints, at)	((hints)[(at) % GROUP])

/*
 * What the search for the place of one of the next nodes will begin with: first where that is
 * noted, then itself.
 */
static inline void
look_ahead(Memtable *m, LsmMemNode **nodes, int n, LsmMemNode **hints, int at)
{
	int			next = at + GROUP;

	if (next + GROUP < n)
		lsm_memhint_prefetch(m, nodes[next + GROUP]->prefix, false);
	if (next >= 0 && next < n)
	{
		hint_of(hints, next) = lsm_memhint_guess(m, nodes[next]->prefix, nodes[next]->height);
		mem_prefetch_node(hint_of(hints, next));
	}
}

void
lsm_memlink_many(Memtable *m, LsmMemNode **nodes, int n, LsmMemNode **places)
{
	Descent		descents[GROUP];
	LsmMemNode *hints[GROUP];
	int			nactive = Min(n, GROUP);
	int			begun = 0;

	for (int at = -2 * GROUP; at < 0; at++)
		look_ahead(m, nodes, n, hints, at);
	for (; begun < nactive; begun++)
	{
		descent_begin(m, &descents[begun], nodes[begun], hint_of(hints, begun), begun);
		look_ahead(m, nodes, n, hints, begun);
	}
	while (nactive > 0)
	{
		for (int i = 0; i < nactive; i++)
		{
			Descent    *d = &descents[i];

			if (descent_step(m, d))
				continue;
			places[d->at] = lsm_memlist_insert_behind(m, d->target, lsm_memnode_key(d->target),
													  d->preds);
			if (begun < n)
			{
				descent_begin(m, d, nodes[begun], hint_of(hints, begun), begun);
				look_ahead(m, nodes, n, hints, begun++);
			}
			else
				*d = descents[--nactive];
		}
		MEM_RACE_POINT();
	}
}

/* ---- the list of nodes to be linked ---- */

/* m->unlinked: the newest node, and in the upper bits how many there are */
#define unlinked_count(word)	((int) ((word) >> MEM_POINTER_BITS))
#define MAX_COUNT				((int) (UINT64_MAX >> MEM_POINTER_BITS))

int
lsm_memlink_push(Memtable *m, LsmMemNode *node)
{
	uint64		word = mem_load(&m->unlinked);
	int			count;

	do
	{
		/* until it is linked, its link on level 0 is free for this */
		mem_link(node, 0) = mem_pointer(word);
		count = Min(unlinked_count(word) + 1, MAX_COUNT);
		MEM_RACE_POINT();
	} while (!mem_cas(&m->unlinked, &word,
					  mem_word(node) | ((uint64) count << MEM_POINTER_BITS)));
	return count;
}

/* The nodes from here on.  REQUIRES: m->link_lock, m->linking set. */
static void
link_list(Memtable *m, LsmMemNode *node)
{
	LsmMemNode *nodes[MEM_MAX_UNLINKED];
	LsmMemNode *places[MEM_MAX_UNLINKED];

	while (node != NULL)
	{
		int			n = 0;

		for (; n < MEM_MAX_UNLINKED && node != NULL; node = mem_link(node, 0))
			nodes[n++] = node;
		lsm_memlink_many(m, nodes, n, places);
		for (int i = 0; i < n; i++)
		{
			if (unlikely(places[i] != nodes[i]))
				lsm_memnode_merge(m, nodes[i], places[i]);
		}
	}
}

/* Returns how many there were. */
static int
link_all(Memtable *m)
{
	uint64		word;
	int			n = 0;

	mem_store_seq(&m->linking, true);
	MEM_RACE_POINT();
	while (mem_pointer(word = mem_exchange(&m->unlinked, 0)) != NULL)
	{
		MEM_RACE_POINT();
		link_list(m, mem_pointer(word));
		n += unlinked_count(word);
	}
	mem_store(&m->linking, false);
	return n;
}

void
lsm_memlink_wait(Memtable *m)
{
	int			n;

	LWLockAcquire(&m->link_lock, LW_EXCLUSIVE);
	n = link_all(m);
	LWLockRelease(&m->link_lock);
	if (n > 0 && n < FEW_UNLINKED)
		__atomic_store_n(&m->at_once, LINK_AT_ONCE, __ATOMIC_RELAXED);
}

bool
lsm_memlink_later(Memtable *m, uint64 prefix)
{
	int			at_once;

	/* keys that ascend need no search */
	if (prefix >= mem_load(&m->tail_prefix))
		return false;
	at_once = __atomic_load_n(&m->at_once, __ATOMIC_RELAXED);
	if (at_once == 0)
		return true;
	/* not exact, but without a locked instruction */
	__atomic_store_n(&m->at_once, at_once - 1, __ATOMIC_RELAXED);
	return false;
}

void
lsm_memlink_added(Memtable *m, int count)
{
	if (count < MEM_MAX_UNLINKED || !LWLockConditionalAcquire(&m->link_lock, LW_EXCLUSIVE))
		return;
	(void) link_all(m);
	LWLockRelease(&m->link_lock);
}
