/*-------------------------------------------------------------------------
 *
 * deferred_link.c
 *	  Nodes that enter a memtable's skiplist later, many at once.
 *
 * Most of what inserting a random key costs is the search for its place: a
 * dozen steps through the skiplist, each of which waits for memory that the
 * next one needs.  Nobody needs that place before someone asks for an order,
 * and point lookups do not: they ask the digest index.  So a new node only
 * goes to a list of nodes to be linked (m->unlinked), and into the digest
 * index. When there are enough of them the one who comes last links them.
 *
 * How many are enough?  Whoever wants an order waits until they are linked,
 * and the more there are the cheaper is each: half as many as are in the
 * skiplist, or more, are sorted and linked one behind the other, at a fraction
 * of what searches would cost.  So a memtable that nobody has read in order
 * keeps all its nodes for the flush.  Once it has been read, writers link some
 * hundred at a time, and search the places of many at the same time, a step of
 * each in turn, so that what they wait for arrives meanwhile; each time no one
 * has come in between, they wait for twice as many.  When that would be more
 * than one writer should pay for, they leave all of them to the next reader or
 * to the flush.  A reader thus waits a small part of the time that the
 * insertions since the last one took, and a writer never for long.
 *
 * Everything that looks at the order (seek, first, last, next, prev, the
 * search for a key whose digest too many others have) begins with
 * lsm_deferred_link_all(), which links what is there.  So every ordered
 * operation meets every node whose insertion was over when it began, as if
 * nodes were linked at once.
 *
 * A node that is removed before it was linked is never linked.  Most entries of
 * rows that soon move end this way.  The remover sets MEM_DEAD; if
 * MEM_LINKED is set, the remover also unlinks the node.  The linker sets
 * MEM_LINKED; if MEM_DEAD is set, the linker unlinks the node again.  Each
 * sets its own flag and reads the other's in one atomic step, so at least one
 * of the two sees both flags.
 *
 * The linker holds m->link_lock, and sets m->linking before it takes the nodes
 * off the list.  A reader looks at the list first and at m->linking second.
 * If the list is empty and m->linking is off, all older nodes are linked;
 * otherwise the reader waits for the lock.  Nothing can fail between list and
 * skiplist, and if a process dies there, the server discards all shared
 * memory: no node is lost.
 *
 * A key must not get a node in the skiplist while an older node of the key is
 * in the list.  Writes of one key come one after the other, so a later write
 * asks the digest index for the key (unless the entry is known_new).  If the
 * index has a node of the key, linked or not, the write adds its value to that
 * node.  If the index cannot tell for the digest, the write links the list and
 * searches the skiplist.  Should two nodes of a key meet nevertheless, the
 * linked node gets the values of both (merge_node).
 *
 * Locking: m->link_lock, a leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

/*
 * After a reader has linked all nodes: the writer that adds this many nodes
 * links them
 */
#ifndef MEM_MAX_UNLINKED
#define MEM_MAX_UNLINKED	256
#endif

/*
 * No writer links more: one statement would pay for many.  Where that many come
 * between two readers, the later one links them.
 */
#ifndef MEM_MOST_UNLINKED
#define MEM_MOST_UNLINKED	4096
#endif

/* Patience without end */
#define UNTIL_READ		(UINT64CONST(1) << 62)

/* Fewer are not worth sorting */
#ifndef SORT_FROM
#define SORT_FROM	1024
#endif

/* Nodes fetched ahead of the one that is being linked, in their order */
#define NODES_AHEAD		8

/* Searches going on at the same time */
#define GROUP		16

/* The search for a node's place: a state between two waits for memory */
typedef struct Descent
{
	LsmMemNode *target;
	LsmMemNode *node;			/* last one that is known to be smaller */
	LsmMemNode *next;			/* to be looked at: it is on its way */
	LsmMemNode *bigger;			/* known not to be smaller */
	int			at;				/* number of the node */
	int			level;
	bool		done;			/* preds are known from the beginning */
	LsmMemNode *preds[MEM_MAX_HEIGHT];
} Descent;

/*
 * Down to the next node that has to be looked at; false: there is none, the
 * place is known.
 */
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
descent_begin(SkipList *m, Descent *d, LsmMemNode *target, int at)
{
	d->at = at;
	d->target = target;
	d->node = m->head;
	d->level = (int) mem_load(&m->max_height) - 1;
	d->bigger = NULL;
	for (int i = d->level + 1; i < target->height; i++)
		d->preds[i] = m->head;
	d->done = !descent_fetch(d);
}

/* One step; false: the place is known. */
static inline bool
descent_step(SkipList *m, Descent *d)
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
		d->node = next;
	else
	{
		d->bigger = next;
		d->preds[d->level] = d->node;
		if (d->level-- == 0)
			return false;
	}
	return descent_fetch(d);
}

void
lsm_deferred_many(SkipList *m, LsmMemNode **nodes, int n, LsmMemNode **places)
{
	Descent		descents[GROUP];
	int			nactive = Min(n, GROUP);
	int			begun = 0;

	for (; begun < nactive; begun++)
		descent_begin(m, &descents[begun], nodes[begun], begun);
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
				descent_begin(m, d, nodes[begun], begun);
				begun++;
			}
			else
				*d = descents[--nactive];
		}
		MEM_RACE_POINT();
	}
}

/* ---- sorting nodes ---- */

typedef struct SortItem
{
	uint64		prefix;
	LsmMemNode *node;
} SortItem;

static inline int
item_compare(const SortItem *a, const SortItem *b)
{
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return lsm_slice_compare(lsm_memnode_key(a->node), lsm_memnode_key(b->node));
}

#define ST_SORT compare_items
#define ST_ELEMENT_TYPE SortItem
#define ST_COMPARE(a, b) item_compare(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

#define RADIX_SORT				sort_items
#define RADIX_ELEMENT			SortItem
#define RADIX_WORD(e)			((e).prefix)
#define RADIX_FEW				32
#define RADIX_SORT_FEW(e, n)	compare_items(e, n)
#include "filter/radix.h"

/* ---- the list of nodes to be linked ---- */

/*
 * m->unlinked: the newest node, and in the upper bits how many there are, or
 * that there are many
 */
#define unlinked_count(word)	((int) ((word) >> MEM_POINTER_BITS))
#define MAX_COUNT				((int) (UINT64_MAX >> MEM_POINTER_BITS))

void
lsm_deferred_push(SkipList *m, LsmMemNode *node)
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
}

/*
 * Oldest first: so each becomes the newest one, if `place` has none of later.
 * Readers who stand on one of them find all that is older in both nodes.
 */
static void
merge_values(LsmMemNode *node, LsmMemNode *place)
{
	LsmMemValue *newest = lsm_memnode_value(node);
	LsmMemValue *done = NULL;

	while (done != newest)
	{
		LsmMemValue *value = newest;
		LsmMemValue *older;

		while ((older = lsm_memvalue_older(value)) != NULL && older != done)
			value = older;
		lsm_memnode_add_value(place, value);
		done = value;
	}
}

/* The node's key has another node, in the skiplist: that gets its values. */
static void
merge_node(SkipList *m, LsmMemNode *node, LsmMemNode *place)
{
	if (lsm_memnode_had_delete(node))
		(void) node_set_state(place, MEM_DELETED);
	merge_values(node, place);

	/* a reader that finds it in the digest index goes on to the skiplist */
	lsm_digest_index_give_up(m, node->digest);

	/* unless it was counted as removed meanwhile */
	if ((node_set_state(node, MEM_DEAD) & MEM_DEAD) == 0)
		pg_atomic_fetch_sub_u64(&m->pub.entries, 1);
}

/*
 * places[i] is nodes[i] if that node was linked, else the node of the same key
 * that was in the skiplist already: merge the two.
 */
static inline void
finish_nodes(SkipList *m, LsmMemNode **nodes, LsmMemNode **places, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (unlikely(places[i] != nodes[i]))
			merge_node(m, nodes[i], places[i]);
		else if (unlikely((node_set_state(nodes[i], MEM_LINKED) & MEM_DEAD) != 0))
			lsm_memlist_unlink(m, nodes[i]);
	}
}

/* The nodes from here on.  REQUIRES: m->link_lock, m->linking set. */
static void
link_list(SkipList *m, LsmMemNode *node)
{
	LsmMemNode *nodes[MEM_MAX_UNLINKED];
	LsmMemNode *places[MEM_MAX_UNLINKED];

	while (node != NULL)
	{
		int			n = 0;

		for (; n < MEM_MAX_UNLINKED && node != NULL; node = mem_link(node, 0))
		{
			if (!node_dead(node))
				nodes[n++] = node;
		}
		MEM_RACE_POINT();
		lsm_deferred_many(m, nodes, n, places);
		finish_nodes(m, nodes, places, n);
	}
}

/*
 * The nodes, sorted: each is searched from where the one before is, unless
 * they have the same key.
 */
static void
link_sorted(SkipList *m, const SortItem *items, int64 n)
{
	LsmMemNode *preds[MEM_MAX_HEIGHT];
	LsmMemNode *before = NULL;

	for (int i = 0; i < MEM_MAX_HEIGHT; i++)
		preds[i] = m->head;
	for (int64 i = 0; i < n; i++)
	{
		LsmMemNode *node = items[i].node;
		LsmMemNode *place;

		if (i + NODES_AHEAD < n)
			mem_prefetch_node(items[i + NODES_AHEAD].node);
		if (before != NULL && item_compare(&items[i - 1], &items[i]) != 0)
		{
			for (int level = 0; level < before->height; level++)
				preds[level] = before;
		}
		place = lsm_memlist_insert_behind(m, node, lsm_memnode_key(node), preds);
		finish_nodes(m, &node, &place, 1);
		before = place == node ? node : NULL;
	}
}

/* Are these nodes more than a few, beside the entries in the memtable? */
static inline bool
worth_sorting(uint64 n, uint64 entries)
{
	return n >= SORT_FROM && n >= (entries - Min(n, entries)) / 2;
}

/*
 * The nodes from here on, which are many.  Without memory to sort them they
 * are linked as any others: what calls us cannot fail.
 */
static void
link_long_list(SkipList *m, LsmMemNode *node)
{
	uint64		room = Max(pg_atomic_read_u64(&m->pub.entries), 1);
	SortItem   *items = malloc(room * sizeof(SortItem));
	LsmMemNode *rest = node;
	uint64		n = 0;

	for (; items != NULL && n < room && rest != NULL; rest = mem_link(rest, 0))
	{
		if (node_dead(rest))
			continue;
		items[n].prefix = rest->prefix;
		items[n++].node = rest;
	}
	if (worth_sorting(n, room))
	{
		sort_items(items, n, 56);
		link_sorted(m, items, (int64) n);
		node = rest;
	}
	free(items);
	link_list(m, node);
}

static void
link_all(SkipList *m)
{
	uint64		word;

	mem_store_seq(&m->linking, true);
	MEM_RACE_POINT();
	while (mem_pointer(word = mem_exchange(&m->unlinked, 0)) != NULL)
	{
		int			count = unlinked_count(word);

		MEM_RACE_POINT();
		if (count == MAX_COUNT || worth_sorting(count, pg_atomic_read_u64(&m->pub.entries)))
			link_long_list(m, mem_pointer(word));
		else
			link_list(m, mem_pointer(word));
	}
	mem_store(&m->linking, false);
}

/*
 * How many more entries come before a writer links.  Not exact, but without a
 * locked instruction.
 */
static inline void
set_patience(SkipList *m, uint64 entries)
{
	__atomic_store_n(&m->patience, entries, __ATOMIC_RELAXED);
	__atomic_store_n(&m->link_at, pg_atomic_read_u64(&m->pub.entries) + entries,
					 __ATOMIC_RELAXED);
}

void
lsm_deferred_init(SkipList *m)
{
	set_patience(m, UNTIL_READ);
}

void
lsm_deferred_wait(SkipList *m)
{
	LWLockAcquire(&m->link_lock, LW_EXCLUSIVE);
	link_all(m);
	LWLockRelease(&m->link_lock);
	set_patience(m, MEM_MAX_UNLINKED);
}

void
lsm_deferred_added(SkipList *m, uint64 entries)
{
	uint64		patience;

	if (entries < __atomic_load_n(&m->link_at, __ATOMIC_RELAXED) ||
		!LWLockConditionalAcquire(&m->link_lock, LW_EXCLUSIVE))
		return;
	link_all(m);
	patience = 2 * __atomic_load_n(&m->patience, __ATOMIC_RELAXED);
	set_patience(m, patience > MEM_MOST_UNLINKED ? UNTIL_READ : patience);
	LWLockRelease(&m->link_lock);
}
