/*-------------------------------------------------------------------------
 *
 * memtable.h
 *	  Memtables, the shared memory they are in, and the epochs that say when
 *	  it comes free.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MEMTABLE_H
#define LSM_MEMTABLE_H

#include "port/atomics.h"

#include "tree/tree.h"

/* ======================================================================
 * arena.c: fixed shared memory for memtables, in equal chunks
 *
 * A chunk holds at least one entry of LSM_MAX_ENTRY_BYTES with its node.
 * Pointers into the arena are plain pointers: the main shared memory segment
 * is mapped at the same address in every process.
 * ====================================================================== */

#define LSM_CHUNK_BYTES		(32 * 1024)

extern Size lsm_arena_shmem_bytes(void);
extern void lsm_arena_shmem_init(void);

/* NULL: none free. */
extern void *lsm_arena_allocate_chunk(void);
extern void lsm_arena_free_chunk(void *chunk);
extern int	lsm_arena_free_chunks(void);
extern int	lsm_arena_total_chunks(void);

/* Handed out since the server started: a clock of how memory is used up. */
extern uint64 lsm_arena_taken_chunks(void);

/*
 * Memory has to be freed.  A memtable of more than the large bytes, or at least
 * of more than the small ones, is worth a flush for that.
 */
extern bool lsm_arena_is_short(void);
extern uint64 lsm_arena_large_bytes(void);
#define LSM_SMALL_BYTES		(2 * LSM_CHUNK_BYTES)

/* ======================================================================
 * epoch.c: readers announce, reclaimers wait
 *
 * A thing unlinked from shared memory (a memtable, a control block) or from
 * the version (a file) at epoch e may be freed when every announced epoch is
 * greater than e.  lsm_epoch_enter nests; announced only inside one call of
 * the tree's door and never across a wait, but for locks and pages in
 * lsm_write_apply_deletes.
 * ====================================================================== */

extern Size lsm_epoch_shmem_bytes(void);
extern void lsm_epoch_shmem_init(void);
extern void lsm_epoch_enter(void);
extern void lsm_epoch_exit(void);
extern void lsm_epoch_abort(void);	/* after an error: nesting back to zero */
extern bool lsm_epoch_inside(void);

/* Advances the global epoch; what was unlinked before the call is free once
 * lsm_epoch_passed(result). */
extern uint64 lsm_epoch_advance(void);
extern bool lsm_epoch_passed(uint64 epoch);

/* Largest epoch that has passed for certain: one scan for many questions. */
extern uint64 lsm_epoch_safe(void);

/* Sleeps (interruptibly) until passed.  REQUIRES: not inside, no lock held. */
extern void lsm_epoch_wait(uint64 epoch);

/* ======================================================================
 * memtable.c and what is below it: one generation's entries
 *
 * A skiplist ordered by key with lock-free readers and concurrent writers
 * (CAS), plus a hash index from the digest of the filter key to the nodes.
 * One node per key; the node points to its newest value, and each value to the
 * next older one that counts (node.c): PUT and DELETE hide all that is older, a
 * PARTIAL hides a PARTIAL, so that no list grows on a row that is locked again
 * and again.  Values are immutable once linked (but for base, see
 * lsm_memtable_insert); space of replaced values is not reused.
 *
 * Memory: chunks of the arena, or of backend memory (temporary tables).
 * ====================================================================== */

typedef struct LsmMemValue
{
	uint64		seq;
	struct LsmMemValue *base;	/* next older one that counts, or NULL */
	uint32		len;
	char		data[FLEXIBLE_ARRAY_MEMBER];	/* tag byte first */
} LsmMemValue;

typedef struct LsmMemNode LsmMemNode;	/* in memtable_private.h */

typedef struct LsmMemtable
{
	uint64		generation;
	bool		local;			/* backend memory */
	pg_atomic_uint32 writers;	/* registered, not yet finished */
	pg_atomic_uint64 bytes;		/* reserved so far, overhead included */
	pg_atomic_uint64 entries;	/* nodes ever made: never goes down to 0,
								 * which says that the generation's log is
								 * empty */
	pg_atomic_uint64 removed;	/* of these, by lsm_memtable_remove() */
	pg_atomic_uint32 pruned_xid; /* newest whose deletion lsm_tree_prune()
									 * made final, or invalid: set before the
									 * removal */

	/*
	 * The generation's list of log pages: its ends, under
	 * ctl->log.chain_lock, and whether the metapage says where it begins.
	 * Invalid: there is none yet
	 */
	BlockNumber log_first;
	BlockNumber log_last;
	bool		log_rooted;

	/* retirement (owned by lsm_memtable_retire) */
	uint64		retire_epoch;
	struct LsmMemtable *retire_next;

	/*
	 * private to this room from here on: skiplist head, chunk list, digest
	 * index; SkipList (memtable_private.h) starts with this struct
	 */
} LsmMemtable;

extern Size lsm_memtable_shmem_bytes(void);
extern void lsm_memtable_shmem_init(void);

/* NULL if the arena has no chunk (local: never NULL). */
extern LsmMemtable *lsm_memtable_create(uint64 generation, bool local);

/* REQUIRES: no one else can reach it. */
extern void lsm_memtable_destroy(LsmMemtable *memtable);

/* Unlinked from its tree: destroy once the epoch has passed. */
extern void lsm_memtable_retire(LsmMemtable *memtable);

/* Destroy what is retired and passed; returns the number of chunks freed. */
extern int	lsm_memtable_reclaim(void);

/* The epoch ended: destroy local memtables retired inside it (epoch.c). */
extern void lsm_memtable_reclaim_local(void);

/*
 * Memory for one entry; NULL if the arena is full.  Not freed but with the
 * memtable.  Thread of control may be lost afterwards (an error): leaks until
 * the flush.
 */
extern void *lsm_memtable_reserve(LsmMemtable *memtable, uint32 key_bytes,
								  uint32 value_bytes);

/*
 * Insert with reserved memory; cannot fail.  `fresh`: nobody else writes the
 * key at the same time, and it will hardly be there.  Entries may arrive in
 * any order of seq (replay): an older one never hides a newer one, and gets its
 * place among the key's values.
 */
extern void lsm_memtable_insert(LsmMemtable *memtable, void *reserved,
								uint64 seq, LsmSlice key, LsmSlice value,
								LsmDigest digest, bool fresh);

/*
 * Reserves at most LSM_MAX_WRITE_ENTRIES entries: sets their nodes, false
 * if the arena is full.  They get sequence numbers from `seq` on.
 */
extern bool lsm_memtable_reserve_many(LsmMemtable *memtable, LsmEntry *entries, int n);
extern void lsm_memtable_insert_many(LsmMemtable *memtable, const LsmEntry *entries,
									 int n, uint64 seq);

/* Readers: inside an epoch (or with the memtable to themselves). */
extern LsmMemNode *lsm_memtable_find(LsmMemtable *memtable, LsmDigest digest,
									 LsmSlice key); /* by the hash index */
extern bool lsm_memtable_has_digest(LsmMemtable *memtable, LsmDigest digest,
									LsmSlice filter_key);

/*
 * The nodes of all keys with the digest (the filter key's), in no order; a key
 * may be there twice while its nodes are being merged.  Returns their number,
 * or -1 if the index does not know them all: then the order has to be asked.
 */
#define LSM_MEMTABLE_MAX_SAME	128
extern int	lsm_memtable_find_all(LsmMemtable *memtable, LsmDigest digest, LsmSlice filter_key,
								  LsmMemNode **nodes);

/* False: certainly no key that begins with it. */
extern bool lsm_memtable_may_hold(LsmMemtable *memtable, LsmSlice filter_key);

/* False: nor with any between these two, which are equally long. */
extern bool lsm_memtable_may_hold_between(LsmMemtable *memtable, LsmSlice low, LsmSlice high);
extern void lsm_memtable_prefetch(LsmMemtable *memtable, LsmDigest digest);
extern void lsm_memtable_prefetch_newest(LsmMemtable *memtable, LsmDigest digest);
extern LsmMemNode *lsm_memtable_seek(LsmMemtable *memtable, LsmSlice key);	/* first >= */
extern LsmMemNode *lsm_memtable_seek_last(LsmMemtable *memtable, LsmSlice key); /* last <= */

/*
 * Some of the nodes with keys from `low` up to `high` (empty: without end), in
 * order and about evenly spread: at most `max`, and not many fewer if there
 * are so many.  *each: how many nodes each of them stands for.
 */
extern int	lsm_memtable_sample(LsmMemtable *memtable, LsmSlice low, LsmSlice high,
								int max, LsmMemNode **nodes, double *each);
extern LsmMemNode *lsm_memtable_first(LsmMemtable *memtable);
extern LsmMemNode *lsm_memtable_last(LsmMemtable *memtable);
extern LsmMemNode *lsm_memtable_next(LsmMemtable *memtable, LsmMemNode *node);

/* Unlinks the node.  A value added at the same time is lost. */
extern void lsm_memtable_remove(LsmMemtable *memtable, LsmMemNode *node);
extern LsmMemNode *lsm_memtable_prev(LsmMemtable *memtable, LsmMemNode *node);

/*
 * Those before, the nearest first: 2^level of them, more or less, and at most
 * `max`; returns how many, 0 if there is none.  One search in place of many.
 */
#define LSM_MEMTABLE_MAX_PREV	16
extern int	lsm_memtable_prev_many(LsmMemtable *memtable, LsmMemNode *node, int level,
								   LsmMemNode **nodes, int max);
extern LsmSlice lsm_memnode_key(LsmMemNode *node);
extern LsmDigest lsm_memnode_digest(LsmMemNode *node);

/* Has one of its values been a DELETE? */
extern bool lsm_memnode_had_delete(LsmMemNode *node);

/* Has it been removed?  It leaves the list a little later. */
extern bool lsm_memnode_removed(const LsmMemNode *node);

/* Newest value; never NULL for a linked node. */
extern LsmMemValue *lsm_memnode_value(LsmMemNode *node);

/*
 * The next older value that counts, or NULL.  One that comes late may be linked
 * between the two at any time.
 */
static inline LsmMemValue *
lsm_memvalue_older(const LsmMemValue *value)
{
	return __atomic_load_n(&value->base, __ATOMIC_ACQUIRE);
}

/* Has the node all of an entry: does the list of its values end with a PUT? */
extern bool lsm_memnode_is_whole(LsmMemNode *node);

/*
 * Is there a VERSION among its values?  The log may have a DELTA of it, which what
 * is older is needed for; so may a memtable that is made of the log.
 */
extern bool lsm_memnode_has_version(LsmMemNode *node);

#endif							/* LSM_MEMTABLE_H */
