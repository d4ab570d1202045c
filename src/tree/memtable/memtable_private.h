/*-------------------------------------------------------------------------
 *
 * memtable_private.h
 *	  What the files of a memtable share: alloc.c (memory), retire.c (its end),
 *	  node.c (nodes and values), skiplist.c, digest_index.c, deferred_link.c
 *	  (nodes linked later), insert.c and memtable.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MEMTABLE_PRIVATE_H
#define LSM_MEMTABLE_PRIVATE_H

#include "port/atomics.h"
#include "port/pg_bswap.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/palloc.h"

#include "tree/memtable/memtable.h"

StaticAssertDecl(sizeof(void *) == 8, "lsmam needs 64-bit pointers");

#define MEM_MAX_HEIGHT		20	/* 2^20 nodes; more make it slower, no more */
#define MEM_FIRST_BUCKETS	256
#define MEM_SEGMENT_BUCKETS	((uint64) LSM_CHUNK_BYTES / sizeof(uint64))
#define MEM_MAX_INDEXES		5
#define MEM_LOAD_FACTOR		2	/* entries per bucket before a table is added */

/*
 * A node as reserved: this struct, `height` links, room for the key, aligned
 * room for one LsmMemValue.  If the key turns out to have a node
 * already, only the value's room is used (and rarely the index entry).
 *
 * Searches wait for memory: what one looks at in a node lies together.  It
 * comes to a node on its highest level as a rule and goes down from there, so
 * the links are in that order, behind prefix and height.
 */
struct LsmMemNode
{
	LsmDigest	digest;
	uint64		hash_next;		/* next in the chain, with its summary */
	uint64		same;			/* next node with the digest; digest_index.c */
	uint64		value;			/* newest LsmMemValue, tagged with a counter */
	union
	{
		uint32		value_room; /* before insertion: bytes for the value */
		int32		late;		/* if MEM_LATE: node.c */
	};
	uint16		key_bytes;		/* before insertion: room for the key */
	uint8		height;			/* 0: an index entry only, not in the skiplist */
	uint8		state;			/* MEM_LINKED and others */
	uint64		prefix;			/* first 8 bytes of the key, big-endian, zero
								 * padded: decides most comparisons */
	struct LsmMemNode *next[FLEXIBLE_ARRAY_MEMBER]; /* mem_link() */
	/* key bytes follow */
};

/*
 * LINKED: the node is in the skiplist, or its inserter is about to link it;
 * without that, it is in the list of nodes to be linked.  DEAD: removed; who
 * links nodes passes it over.  INDEXED: it is in the digest index (those
 * inserted many at a time may be there without saying so).  DELETED: one of its
 * values is or was a DELETE, so that something may lie below which no newer
 * value says anything about.  LATE: `late` says how far from the node, in units
 * of MAXIMUM_ALIGNOF, one of its values is.  None is ever taken back.
 */
#define MEM_LINKED			1
#define MEM_DEAD			2
#define MEM_INDEXED			4
#define MEM_DELETED			8
#define MEM_LATE			16

/* The node's link on a level below its height */
#define mem_link(node, level) ((node)->next[(node)->height - 1 - (level)])

typedef struct MemIndex
{
	uint64		mask;			/* buckets - 1 */
	uint64		nsegments;		/* needed */
	uint64		nfilled;		/* allocated so far */
	uint64	   *segments[FLEXIBLE_ARRAY_MEMBER];	/* MEM_SEGMENT_BUCKETS
													 * buckets each */
} MemIndex;

typedef struct MemChunk
{
	struct MemChunk *next;
} MemChunk;

/*
 * Between what is written often and what is read often, so that they share no
 * cache line
 */
#define MEM_LINE_BYTES		64

typedef struct SkipList
{
	LsmMemtable pub;			/* first */

	/* read-mostly */
	LsmMemNode *head;			/* no key; full height */
	uint32		max_height;		/* of any node: where searches start */
	uint32		nindexes;
	MemIndex   *indexes[MEM_MAX_INDEXES];
	MemoryContext context;		/* local only */

	/*
	 * Bounds of all keys: nodes (NULL: no key) and their prefixes, which are
	 * all that most questions need.  Raised by whoever inserts beyond them.
	 */
	char		line1[MEM_LINE_BYTES];
	uint64		min_prefix;
	uint64		max_prefix;
	LsmMemNode *min_node;
	LsmMemNode *max_node;
	char		line2[MEM_LINE_BYTES];

	/* written by inserters */
	uint64		index_entries;
	uint64		tail_prefix;	/* of tail[0], to see at a glance who is
								 * beyond it */
	LsmMemNode *tail[MEM_MAX_HEIGHT];	/* hints: last node of each level */

	/* deferred_link.c */
	uint64		unlinked;		/* newest of the nodes to be linked, with their
								 * number */
	uint64		link_at;		/* how many entries: a writer links them */
	uint64		patience;		/* of that writer: entries until the next time */
	bool		linking;		/* someone has taken nodes off `unlinked` */
	LWLock		link_lock;		/* of who links */

	/* under the spinlock */
	slock_t		mutex;
	bool		growing;		/* someone is at pending_index */
	MemIndex   *pending_index;	/* next table, being allocated */
	MemChunk   *chunks;			/* all chunks but those of index segments */
	char	   *free;			/* where the next allocation goes */
	uint32		left;			/* bytes from there to the chunk's end */
} SkipList;

#define MEM_CHUNK_HEADER	MAXALIGN(sizeof(MemChunk))
#define MEM_NODE_BYTES(height, key_bytes) \
	MAXALIGN(offsetof(LsmMemNode, next) + \
			 sizeof(LsmMemNode *) * (height) + (key_bytes))
#define MEM_HEAD_BYTES		MEM_NODE_BYTES(MEM_MAX_HEIGHT, 0)
#define MEM_FIRST_INDEX_BYTES \
	MAXALIGN(offsetof(MemIndex, segments) + sizeof(uint64 *) + \
			 sizeof(uint64) * MEM_FIRST_BUCKETS)
#define MEM_PREAMBLE_BYTES \
	(MEM_CHUNK_HEADER + MAXALIGN(sizeof(SkipList)) + MEM_HEAD_BYTES + \
	 MEM_FIRST_INDEX_BYTES)

/* The largest entry fits into a chunk, and even into the first one. */
StaticAssertDecl(MEM_PREAMBLE_BYTES + MEM_NODE_BYTES(MEM_MAX_HEIGHT, 0) +
				 offsetof(LsmMemValue, data) + LSM_MAX_ENTRY_BYTES +
				 2 * MAXIMUM_ALIGNOF <= LSM_CHUNK_BYTES,
				 "a chunk must hold the largest entry");

/* ----------------------------------------------------------------------
 * atomic access to pointers and words shared with other processes
 *
 * Stores release, loads acquire: whoever finds a node sees it complete.
 * Everything a proof below calls an order between two different words uses
 * sequentially consistent operations.
 * ---------------------------------------------------------------------- */

#define mem_load(p)			__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define mem_load_seq(p)		__atomic_load_n((p), __ATOMIC_SEQ_CST)
#define mem_store(p, v)		__atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define mem_store_seq(p, v)	__atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define mem_exchange(p, v)	__atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#define mem_cas(p, expected, desired) \
	__atomic_compare_exchange_n((p), (expected), (desired), false, \
								__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Where another process may come in between; the unit test yields here. */
#ifndef MEM_RACE_POINT
#define MEM_RACE_POINT()	((void) 0)
#endif

/* User space addresses have at most 48 bits; the rest of a word is a tag. */
#define MEM_POINTER_BITS	48
#define MEM_POINTER_MASK	((UINT64CONST(1) << MEM_POINTER_BITS) - 1)
#define mem_pointer(word)	((void *) (uintptr_t) ((word) & MEM_POINTER_MASK))
#define mem_tag(word)		((word) & ~MEM_POINTER_MASK)

static inline uint64
mem_word(const void *pointer)
{
	Assert(((uint64) (uintptr_t) pointer & ~MEM_POINTER_MASK) == 0);
	return (uint64) (uintptr_t) pointer;
}

/* ---- nodes ---- */

static inline const char *
node_key_data(LsmMemNode *node)
{
	return (const char *) &node->next[node->height];
}

static inline uint64
key_prefix(LsmSlice key)
{
	uint64		prefix = 0;

	lsm_bytes_copy((char *) &prefix, key.data, Min(key.len, sizeof(prefix)));
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

/* A link with the mark says that the node it belongs to is being removed. */
#define LINK_MARK			((uintptr_t) 1)
#define link_marked(link)	(((uintptr_t) (link) & LINK_MARK) != 0)
#define link_node(link)		((LsmMemNode *) ((uintptr_t) (link) & ~LINK_MARK))
#define link_with_mark(link) ((LsmMemNode *) ((uintptr_t) (link) | LINK_MARK))

/*
 * Taken out of the skiplist?  (Its links above level 0 may be marked a little
 * before.)
 */
static inline bool
node_unlinked(LsmMemNode *node)
{
	return link_marked(mem_load(&mem_link(node, 0)));
}

/* Removed?  If it is in the skiplist, its links are marked a little later. */
static inline bool
node_dead(const LsmMemNode *node)
{
	return (mem_load(&node->state) & MEM_DEAD) != 0;
}

/* Returns what the state was. */
static inline uint8
node_set_state(LsmMemNode *node, uint8 flag)
{
	return __atomic_fetch_or(&node->state, flag, __ATOMIC_SEQ_CST);
}

/* What a search looks at in a node that it comes to. */
static inline void
mem_prefetch_node(const LsmMemNode *node)
{
	if (node != NULL)
		__builtin_prefetch(&node->prefix);
}

/* ---- node.c ---- */

/* Give the value its place among the node's values. */
extern void lsm_memnode_add_value(LsmMemNode *node, LsmMemValue *value);

/* ---- skiplist.c ---- */

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
 * The last node with a key < the argument (or the head); *found is the node
 * after it, NULL at the end.
 */
extern LsmMemNode *lsm_memlist_search(SkipList *m, uint64 prefix, LsmSlice key,
									  LsmMemNode **found);

/* The last such node of a level, or of the highest one. */
extern LsmMemNode *lsm_memlist_search_level(SkipList *m, uint64 prefix, LsmSlice key,
											int level);

/* Link the node, or return the one that has its key already. */
extern LsmMemNode *lsm_memlist_insert(SkipList *m, LsmMemNode *node, LsmSlice key);

/*
 * The same, if `preds` are the last nodes before the key on the node's levels,
 * or were a moment ago, or are nodes before these.
 */
extern LsmMemNode *lsm_memlist_insert_behind(SkipList *m, LsmMemNode *node, LsmSlice key,
											 LsmMemNode **preds);

/* Take a node that is dead out of the skiplist.  REQUIRES: it is linked. */
extern void lsm_memlist_unlink(SkipList *m, LsmMemNode *node);

/* ---- deferred_link.c ---- */

/*
 * Is a new node with this prefix to be linked later?  Keys that ascend need no
 * search for their place.
 */
static inline bool
lsm_deferred_later(SkipList *m, uint64 prefix)
{
	return prefix < mem_load(&m->tail_prefix);
}

/* Note the node as one to be linked. */
extern void lsm_deferred_push(SkipList *m, LsmMemNode *node);

/*
 * To be called when the node is in the digest index, too, with the number of
 * entries that the memtable has with it: links the nodes if there are enough.
 */
extern void lsm_deferred_added(SkipList *m, uint64 entries);

/* Of a new memtable, which nobody has read. */
extern void lsm_deferred_init(SkipList *m);

/* Link many nodes now: as lsm_memlist_insert() for each. */
extern void lsm_deferred_many(SkipList *m, LsmMemNode **nodes, int n, LsmMemNode **places);
extern void lsm_deferred_wait(SkipList *m);

/* Is there anything that is not in the skiplist, or not yet for certain? */
static inline bool
lsm_deferred_pending(SkipList *m)
{
	return unlikely(mem_load_seq(&m->unlinked) != 0) || unlikely(mem_load_seq(&m->linking));
}

/* All nodes whose insertion is over get into the skiplist. */
static inline void
lsm_deferred_link_all(SkipList *m)
{
	if (lsm_deferred_pending(m))
		lsm_deferred_wait(m);
}

/* ---- digest_index.c ---- */

/* Entry with the digest, or NULL if no node with it was ever added. */
extern LsmMemNode *lsm_digest_index_search(SkipList *m, LsmDigest digest);

/*
 * The key's node, or NULL.  *complete: if it is NULL, then there is none, in
 * the skiplist or to be linked.
 */
extern LsmMemNode *lsm_digest_index_find(SkipList *m, LsmDigest digest, uint64 prefix, LsmSlice key,
									 bool *complete);

/* lsm_memtable_find_all(), whatever the range of keys */
extern int	lsm_digest_index_find_all(SkipList *m, LsmDigest digest, LsmMemNode **nodes);

/*
 * True: the digest is new, and the caller counts it (lsm_digest_index_count).
 */
extern bool lsm_digest_index_add(SkipList *m, LsmMemNode *node, LsmDigest digest);

/* From now on, who looks for a key with the digest searches the skiplist. */
extern void lsm_digest_index_give_up(SkipList *m, LsmDigest digest);
extern void lsm_digest_index_count(SkipList *m, int n);
extern void lsm_digest_index_make_room(SkipList *m);

/* ---- alloc.c ---- */

/*
 * `bytes` of chunk memory, aligned, content undefined; NULL: no chunk to be
 * had.
 */
extern void *lsm_memtable_allocate(SkipList *m, Size bytes);

/*
 * Memory for as many of n allocations as fit together, one behind the other,
 * at least one: *got.  `bytes` are aligned.
 */
extern char *lsm_memtable_allocate_run(SkipList *m, const Size *bytes, int n, int *got);

/* A whole chunk, which the caller has to keep track of; NULL as above. */
extern void *lsm_memtable_allocate_chunk(SkipList *m);

/*
 * A chunk of the arena.  NULL if none is free, also after destroying the
 * retired memtables that no reader can see.
 */
extern void *lsm_memtable_shared_chunk(void);

/* ---- retire.c ---- */

/* of memtables' link_lock */
extern int	lsm_memtable_tranche(void);

#endif							/* LSM_MEMTABLE_PRIVATE_H */
