/*-------------------------------------------------------------------------
 *
 * tree_private.h
 *	  What the files of src/tree share.  Grouped by the file that owns it.
 *
 * Lock order, outermost first:
 *	 1. heavyweight locks: database, relation
 *	 2. key lock (lsm_key_lock)
 *	 3. LsmTreeShared.lock
 *	 4. LsmLogSlot.lock
 *	 5. LsmTreeShared.alloc_lock
 *	 6. buffer content locks: metapage before manifest pages; a log page is
 *		never locked together with those
 *	 7. control table lock, lsm_elastic->lock, a memtable's link lock (memlink.c),
 *		arena spinlock, epoch; only the epoch is used under lsm_elastic->lock
 * File I/O is allowed under none of 2..5 and 7 (page I/O through the buffer
 * manager is allowed under 3..5).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_PRIVATE_H
#define LSM_TREE_PRIVATE_H

#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

#include "tree/page.h"
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

/* NULL: none free (after an attempt to reclaim what is retired). */
extern void *lsm_arena_allocate_chunk(void);
extern void lsm_arena_free_chunk(void *chunk);
extern int	lsm_arena_free_chunks(void);
extern int	lsm_arena_total_chunks(void);

/* ======================================================================
 * epoch.c: readers announce, reclaimers wait
 *
 * A thing unlinked from shared memory (a memtable, a control block) or from
 * the version (a file) at epoch e may be freed when every announced epoch is
 * greater than e.  lsm_epoch_enter nests; announced only inside one call of
 * the tree's door and never across a wait.
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
 * memtable.c: one generation's entries
 *
 * A skiplist ordered by key with lock-free readers and concurrent writers
 * (CAS), plus a hash index from the digest of the filter key to the nodes.
 * One node per key; the node points to its newest value.  A PARTIAL value keeps
 * a pointer (base) to the newest non-partial value of the same key in this memtable, if any, so
 * that no chain grows on a hot row.  Values are immutable once linked
 * (but for base, see lsm_memtable_insert); space of replaced
 * values is not reused.
 *
 * Memory: chunks of the arena, or of backend memory (temporary tables).
 * ====================================================================== */

typedef struct LsmMemValue
{
	uint64		seq;
	struct LsmMemValue *base;	/* PARTIAL only; may be NULL */
	uint32		len;
	char		data[FLEXIBLE_ARRAY_MEMBER];	/* tag byte first */
} LsmMemValue;

typedef struct LsmMemNode LsmMemNode;	/* private to memtable.c */

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
	pg_atomic_uint32 forgotten_xid; /* newest whose deletion lsm_tree_forget()
									 * made final, or invalid: set before the
									 * removal */
	/* retirement (owned by lsm_memtable_retire) */
	uint64		retire_epoch;
	struct LsmMemtable *retire_next;

	/*
	 * private to memtable.c from here on: skiplist head, chunk list, digest
	 * index; declared there as a struct that starts with this one
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
 * Memory for one entry; NULL if the arena is full.  Not freed but with
 * the memtable.  Thread of control may be lost afterwards (an error): leaks until
 * the flush.
 */
extern void *lsm_memtable_reserve(LsmMemtable *memtable, uint32 key_bytes,
								  uint32 value_bytes);

/*
 * Insert with reserved memory; cannot fail.  `fresh`: nobody else writes the key at the same
 * time, and it will hardly be there.  Entries may arrive in any
 * order of seq (replay): an older one never hides a newer one, an older
 * PUT or DELETE becomes the base of a newer PARTIAL if it is newer than
 * the present base.
 */
extern void lsm_memtable_insert(LsmMemtable *memtable, void *reserved,
								uint64 seq, LsmSlice key, LsmSlice value,
								LsmDigest digest, bool fresh);

/*
 * The same for at most LSM_MAX_WRITE_ENTRIES entries: sets their nodes, false if the arena is
 * full.  They get sequence numbers from `seq` on.
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
 * The nodes of all keys with the digest (the filter key's), in no order; a key may be there twice while
 * its nodes are being merged.  Returns their number, or -1 if the index does not know them all: then the order
 * has to be asked.
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
extern void lsm_memtable_announce(LsmMemtable *memtable, LsmSlice key, bool second);
extern LsmMemNode *lsm_memtable_seek(LsmMemtable *memtable, LsmSlice key);	/* first >= */
extern LsmMemNode *lsm_memtable_seek_last(LsmMemtable *memtable, LsmSlice key); /* last <= */
extern LsmMemNode *lsm_memtable_first(LsmMemtable *memtable);
extern LsmMemNode *lsm_memtable_last(LsmMemtable *memtable);
extern LsmMemNode *lsm_memtable_next(LsmMemtable *memtable, LsmMemNode *node);

/* Unlinks the node.  A value added at the same time is lost. */
extern void lsm_memtable_remove(LsmMemtable *memtable, LsmMemNode *node);
extern LsmMemNode *lsm_memtable_prev(LsmMemtable *memtable, LsmMemNode *node);
extern LsmSlice lsm_memnode_key(LsmMemNode *node);
extern LsmDigest lsm_memnode_digest(LsmMemNode *node);

/* Newest value; never NULL for a linked node. */
extern LsmMemValue *lsm_memnode_value(LsmMemNode *node);

/* ======================================================================
 * forget.c
 * ====================================================================== */

/* Entries deleted by `xid` (invalid: seen by no one) will be missing in the memtable. */
extern void lsm_memtable_note_forgotten(LsmMemtable *memtable, TransactionId xid);

/* ======================================================================
 * control.c: one control block per tree in shared memory, by keyspace id
 * ====================================================================== */

#define LSM_LOG_SLOTS		4
#define LSM_MAX_SEALED		4	/* sealed memtables waiting for a flush */
#define LSM_L0_COMPACT_RUNS	4	/* compaction is due */
#define LSM_L0_MAX_RUNS		8	/* ... into level 1, whatever that costs */
#define LSM_L0_STOP_RUNS	20	/* writers stall */

typedef enum LsmTreeState
{
	LSM_STATE_UNLOADED = 0,		/* log pages only: no memtable; the fields
								 * below "loaded" mean nothing */
	LSM_STATE_LOADING,
	LSM_STATE_LOADED
} LsmTreeState;

/* What one process writes and others read or write apart begins a cache line */
#define LSM_LINE_BYTES		64
#define LSM_LINE_START		pg_attribute_aligned(LSM_LINE_BYTES)

typedef struct LsmLogSlot
{
	LWLock		lock LSM_LINE_START;	/* held while appending to the slot's page */
	BlockNumber block;			/* InvalidBlockNumber: none open */
	uint64		generation;		/* of that page */
	uint64		last_seq;		/* of the page's last entry */
	Buffer		recent_buffer;	/* where it was last; a hint */
} LsmLogSlot;

/*
 * In the order of who writes it how often, so that reading a tree takes no
 * cache line from those who write to it.
 */
typedef struct LsmTreeShared
{
	/*
	 * What operations write.  The lock protects what follows behind this line,
	 * unless said otherwise.
	 */
	LWLock		lock LSM_LINE_START;
	pg_atomic_uint64 seq;		/* last one given */
	pg_atomic_uint64 row_limit; /* next row number */
	pg_atomic_uint64 last_used; /* for eviction: a clock */

	/*
	 * identity: set when the block is taken, under the control table lock;
	 * keyspace_id 0 = block is free
	 */
	pg_atomic_uint64 keyspace_id LSM_LINE_START;
	bool		local;			/* a temporary tree's, in backend memory */
	RelFileLocator rlocator;
	LsmKind		kind;
	char		relpersistence;

	/*
	 * relation OID, for the worker's lock.  Confirmed once a transaction
	 * other than the creating one has opened the tree through the relation:
	 * before, the worker keeps its hands off and writers flush for
	 * themselves.
	 */
	Oid			relid;
	bool		relid_confirmed;
	LsmTreeOptions options;

	LsmTreeState state;

	/* ---- loaded ---- */

	/*
	 * Odd while the set of memtables or the version is being changed (under
	 * lock), even otherwise; lock-free readers copy the set between two equal
	 * even readings (lsm_set_take).
	 */
	pg_atomic_uint64 set_stamp;
	LsmMemtable *active;		/* may be NULL: created by the next writer */
	uint64		active_generation;
	int			nsealed;
	LsmMemtable *sealed[LSM_MAX_SEALED];	/* oldest first */

	pg_atomic_uint64 version_no;	/* = metapage's, after each edit */
	pg_atomic_uint64 flushed_generation;
	pg_atomic_uint64 next_file; /* next file number; below file_limit ... */
	pg_atomic_uint64 file_limit;	/* ... which the metapage's next_file is; 0:
									 * not loaded yet */
	pg_atomic_uint32 level0_runs;	/* hint for stalls */
	pg_atomic_uint32 compaction_due;	/* hint for workers */
	pg_atomic_uint32 memtable_kb;	/* lsm.memtable_size of the session that
									 * sealed last; 0: none since the start */

	int			loader_pid;

	/* one flusher, one compactor; 0 = none.  Reset by lsm_tree_abort_cleanup */
	int			flush_pid;
	int			compact_pid;
	uint64		compact_cursor[8];	/* per level: file number last compacted */
	pg_atomic_uint64 replaced;	/* rows that have a newer version, about */
	pg_atomic_uint32 churned;	/* what lsm_tree_note_churn() was told last */
	ConditionVariable cv;		/* broadcast on any change of state, flush or
								 * compaction ownership */

	LWLock		alloc_lock;		/* page allocation in the main fork */
	BlockNumber nblocks;		/* of the main fork */
	BlockNumber alloc_cursor;	/* where the search for a free page goes on */
	int64		free_pages;		/* candidates still to look at in this lap of
								 * the cursor; 0 = extend.  A new lap starts
								 * when an edit has freed pages */
	pg_atomic_uint64 manifest_id;	/* = metapage's; pages of other manifests
									 * are free ... */
	pg_atomic_uint64 manifest_pending;	/* ... but for one being written */
	bool		strays_removed; /* false in a block just taken; set by the
								 * first load */

	LsmLogSlot	slots[LSM_LOG_SLOTS];

	/* reader/writer of counters need no lock */
	pg_atomic_uint64 counters[LSM_NCOUNTERS] LSM_LINE_START;
} LsmTreeShared;

/*
 * What survives an eviction (state UNLOADED, same keyspace): seq and row_limit,
 * because numbers may be in the hands of somebody who has not logged them, and
 * next_file with its limit.  The loader takes the larger of the first two and of what it
 * reads; of file numbers a block begins a range of its own (control.c).
 * The state may become LOADED only in or after the change (lsm_set_change_end)
 * that puts the whole set of memtables in place.
 *
 * A transaction that has opened the tree (or a worker attached to it) pins the
 * block; a pinned block is never given to another keyspace.  Whoever holds
 * only a pointer from lsm_control_nth/find: take ctl->lock, then
 * check keyspace_id.
 */
extern Size lsm_control_shmem_bytes(void);
extern void lsm_control_shmem_init(void);

/* False: not in shared_preload_libraries. */
extern bool lsm_control_ready(void);

/* False, and not pinned, if the block is not (any more) this keyspace's. */
extern bool lsm_control_pin(LsmTreeShared *ctl, uint64 keyspace_id);
extern void lsm_control_unpin(LsmTreeShared *ctl);

/* The block was used now (least recently used order). */
extern void lsm_control_touch(LsmTreeShared *ctl);

/* Identity, read under the control table lock; false if the block is free. */
extern bool lsm_control_identity(LsmTreeShared *ctl, uint64 *keyspace_id,
								 RelFileLocator *rlocator, LsmKind *kind,
								 char *relpersistence);

/* The keyspace's log lives in this fork; a block that says otherwise is dropped. */
extern void lsm_control_move(uint64 keyspace_id, RelFileLocator rlocator);

/* Counts drops and reuses of blocks, for backends that cache handles. */
extern uint64 lsm_control_drops(void);

/* i-th local block of this backend (temporary trees), NULL past the end. */
extern LsmTreeShared *lsm_control_nth_local(int i);

/* Find or take the block of a keyspace; evicts idle trees when all are taken.  A
 * new block is UNLOADED.  ERROR if none can be had (hint: lsm.max_trees). */
extern LsmTreeShared *lsm_control_get(uint64 keyspace_id, RelFileLocator rlocator,
									  LsmKind kind, char relpersistence);

/* NULL if the keyspace has none. */
extern LsmTreeShared *lsm_control_find(uint64 keyspace_id);

/* The tree is gone (dropped, truncated): memtables retired, block freed. */
extern void lsm_control_drop(uint64 keyspace_id);

/* The same for this block, if it is still the keyspace's.  REQUIRES: pinned. */
extern void lsm_control_drop_block(LsmTreeShared *ctl, uint64 keyspace_id);

/* All blocks of a database that was moved or dropped. */
extern void lsm_control_drop_database(Oid dboid);

/*
 * A job begins and ends to write files in the keyspace's directory: evict.c.
 * REQUIRES: pinned until the job's end.
 */
extern void lsm_control_job_begin(LsmTreeShared *ctl);
extern void lsm_control_job_end(LsmTreeShared *ctl);

/* Somebody has a job in the keyspace's directory, by its block or a former one, or is loading it. */
extern bool lsm_control_busy(uint64 keyspace_id);

/* Dropped: wait until the last job has ended. */
extern void lsm_control_wait_jobs(uint64 keyspace_id);

/* i-th block, NULL past the end; may be free (keyspace_id 0). */
extern LsmTreeShared *lsm_control_nth(int i);

/*
 * Evict idle trees' memtables (no registered writer, not loading): their log
 * pages remain, the next use loads them again.  Least recently used first,
 * never `except`.  Returns chunks that will come free.
 */
extern int	lsm_control_evict(LsmTreeShared *except, int want_chunks);

/* Change of the memtable set or version.  REQUIRES: ctl->lock exclusive. */
static inline void
lsm_set_change_begin(LsmTreeShared *ctl)
{
	Assert((pg_atomic_read_u64(&ctl->set_stamp) & 1) == 0);
	pg_atomic_fetch_add_u64(&ctl->set_stamp, 1);
	pg_write_barrier();
}

static inline void
lsm_set_change_end(LsmTreeShared *ctl)
{
	pg_write_barrier();
	pg_atomic_fetch_add_u64(&ctl->set_stamp, 1);
	Assert((pg_atomic_read_u64(&ctl->set_stamp) & 1) == 0);
}

/* An even set_stamp; waits (briefly) while it is odd.  No lock on ctl held. */
extern uint64 lsm_set_stamp_read(LsmTreeShared *ctl);

/* A reader's copy of the set.  Newest first. */
typedef struct LsmMemtableSet
{
	uint64		stamp;
	int			n;
	LsmMemtable *tables[1 + LSM_MAX_SEALED];
} LsmMemtableSet;

/* REQUIRES: inside an epoch, tree loaded when it was entered (an eviction
 * since then is harmless: the set as of the eviction is returned). */
extern void lsm_set_take(LsmTreeShared *ctl, LsmMemtableSet *set);

/* ======================================================================
 * tree.c: handles
 * ====================================================================== */

struct LsmTree
{
	RelFileLocator rlocator;	/* hash key, with backend */
	ProcNumber	backend;
	char		relpersistence;
	LsmKind		kind;
	Oid			relid;
	uint64		keyspace_id;
	LsmTreeShared *ctl;			/* checked against keyspace_id at every enter */
	const LsmKindOps *ops;
	Relation	rel;			/* of the current call; used by temporary
								 * trees only (local buffers need it) */
	char		dir[MAXPGPATH]; /* "pg_lsm/0123456789abcdef", relative to
								 * PGDATA */
	struct LsmVersion *version; /* cached; version.c */
	int			memtable_rate;	/* of lookups that memtables answer: lookup.c */
	int			newest_misses;	/* lookups in a row without a row noted:
								 * newest.c */
	LsmTreeOptions options;
	uint64		counters[LSM_NCOUNTERS];	/* not yet published */
	bool		counters_pending;
	dlist_node	counters_node;
};

/* Handle for a tree known only by its control block (worker).  NULL if the
 * block is free by now.  Outside a transaction a process is attached to one
 * tree at a time: the one before is unpinned. */
extern LsmTree *lsm_tree_attach(LsmTreeShared *ctl);

/*
 * Enter the tree: epoch announced, control block valid, tree loaded (loads
 * it if need be, outside the epoch).  Pair with lsm_tree_exit.  Nothing that
 * waits in between.
 */
extern void lsm_tree_enter(LsmTree *tree);
extern void lsm_tree_exit(LsmTree *tree);

static inline uint32
lsm_filter_key_bytes(LsmKind kind, uint32 key_bytes)
{
	return kind == LSM_KIND_INDEX ? key_bytes - 6 : key_bytes;
}

static inline LsmSlice
lsm_filter_key(const LsmTree *tree, LsmSlice key)
{
	return lsm_slice(key.data, lsm_filter_key_bytes(tree->kind, key.len));
}

/* A table tree's key: block (4 bytes) and offset (2 bytes), both big-endian */
#define LSM_ROW_KEY_BYTES	6

/* Number of the row that a table tree's key stands for, plus one. */
static inline uint64
lsm_row_key_limit(LsmSlice key)
{
	const unsigned char *k = (const unsigned char *) key.data;
	uint64		block = ((uint64) k[0] << 24) | ((uint64) k[1] << 16) | ((uint64) k[2] << 8) | k[3];
	uint64		offset = ((uint64) k[4] << 8) | k[5];

	return block * LSM_TID_OFFSETS + offset;	/* offsets start at 1 */
}

/*
 * The digest under which memtables know the key.  That of a row ends in its number: rows
 * written or read one after the other are neighbours in the digest index.
 */
static inline LsmDigest
lsm_memtable_digest(const LsmTree *tree, LsmSlice filter_key, LsmDigest digest)
{
	if (tree->kind != LSM_KIND_TABLE || filter_key.len != LSM_ROW_KEY_BYTES)
		return digest;
	return (digest & ~(uint64) PG_UINT32_MAX) | (uint32) lsm_row_key_limit(filter_key);
}

extern void lsm_count(LsmTree *tree, LsmCounter counter, uint64 n);

/* This process' counts by level, as far as they are published. */
extern LsmFilterCounts lsm_level_counts[LSM_MAX_LEVELS];

/* Move one handle's counts to its control block; the handle goes away. */
extern void lsm_counters_forget(LsmTree *tree);

/* options.c; ERROR if the kind was never registered */
extern const LsmKindOps *lsm_kind_ops(LsmKind kind);

/* keylock.c */
extern Size lsm_keylock_shmem_bytes(void);
extern void lsm_keylock_shmem_init(void);
extern void lsm_key_prefetch(LsmTree *tree, LsmDigest lock_digest);

/* A stamp for who has taken a set of memtables (its stamp) and will read them now. */
extern void lsm_stamp_of_set(LsmTree *tree, LsmDigest lock_digest, uint64 set_stamp, LsmStamp *stamp);

extern int	lsm_tree_size_ratio(LsmTree *tree);
extern LsmCompression lsm_tree_compression(LsmTree *tree);

/* Stands for the settings above that shape a file: equal settings, equal number. */
extern uint32 lsm_tree_written_as(LsmTree *tree);

/* What a memtable of the tree holds, bytes: level i is due at this * T^i.  The last
 * writer's lsm.memtable_size, which need not be the worker's. */
extern double lsm_tree_base_bytes(LsmTree *tree);

/* ======================================================================
 * salvage.c: tables of which files are missing
 * ====================================================================== */

struct LsmFileMeta;
struct LsmVersion;

/* How many of the listed files are not there.  ERRORs if that cannot be told. */
extern int	lsm_salvage_count_missing(const LsmTree *tree, const struct LsmFileMeta *files,
									  int nfiles);

/*
 * Files are missing: what the list does not name stays, and neither file numbers nor row numbers are
 * handed out again that are in any file.  REQUIRES: as lsm_keyspace_remove_strays().
 */
extern void lsm_salvage_keep(LsmTree *tree);

/*
 * For lsm.ignore_missing_files: if files of a table are missing, the list becomes one of what is there
 * (palloc'd anew), each file a run of level 0, and the result is true.  WARNINGs.
 */
extern bool lsm_salvage_list(LsmTree *tree, struct LsmFileMeta **files, int *nfiles);

/* ERROR if the version was made so. */
extern void lsm_salvage_forbid(LsmTree *tree, const struct LsmVersion *version);

/* ======================================================================
 * fork.c, decoding.c
 * ====================================================================== */

/* ERROR that says what is in the fork, if it does not begin with a metapage of ours */
extern void lsm_fork_check(Relation rel, LsmKind kind);

struct LogicalDecodingContext;
struct XLogRecordBuffer;
extern void lsm_decode(struct LogicalDecodingContext *ctx, struct XLogRecordBuffer *buf);

/* ======================================================================
 * log.c, load.c, write.c: entries in log pages (format: log_entry.h)
 * ====================================================================== */

/* Load the log into memtables: UNLOADED -> LOADED.  Generations that the arena has no room for are
 * flushed from backend memory.  Waits for another loader.  Not inside an epoch. */
extern void lsm_tree_load(LsmTree *tree);

/* Seal the active memtable if it is `expected` (or any, if NULL) and not
 * empty; false if too many are sealed already. */
extern bool lsm_tree_seal(LsmTree *tree, LsmMemtable *expected);

/* Number of generations that wait for a flush. */
extern int	lsm_tree_nsealed(LsmTree *tree);

/*
 * After an error: gives up this backend's registration as a writer and its load
 * in progress (state back to UNLOADED, memtables built so far freed).
 * Idempotent.  REQUIRES: LWLocks released.  lsm_tree_abort_cleanup() calls it.
 */
extern void lsm_write_abort(void);
extern void lsm_load_abort(void);	/* part of lsm_write_abort */

/*
 * Append entries from `first` on to the log: one WAL record; returns how many it
 * took (at least one; 0 if the write is optional and there is no room), after inserting
 * them into write->memtable.
 */
extern int	lsm_log_append(LsmWrite *write, int first);

/* Fetch the page that it will most likely go to. */
extern void lsm_log_prefetch(const LsmTree *tree);

/* An optional write might find room.  A hint: nothing is locked. */
extern bool lsm_log_has_room(LsmTree *tree);

/* After an error: undo this backend's registration, if any (write.c). */
extern void lsm_write_abort(void);

/* Wait until no writer is registered.  REQUIRES: sealed. */
extern void lsm_memtable_wait_writers(LsmMemtable *memtable);

/* ======================================================================
 * keyspace.c: directories, owner files, paths, file chunks; sweep.c: orphans
 * ====================================================================== */

typedef struct LsmFileMeta LsmFileMeta; /* in manifest.h */

#define LSM_DIR		"pg_lsm"

extern void lsm_keyspace_dir(uint64 keyspace_id, char *path);	/* MAXPGPATH */
/* Number of "000042.sst" or "000042.flt"; false for any other name. */
extern bool lsm_file_parse(const char *name, uint64 *number, bool *filter);
extern void lsm_file_path(const LsmTree *tree, uint64 number, bool filter, char *path);
extern void lsm_filter_temporary_path(const LsmTree *tree, uint64 number, char *path);
extern void lsm_keyspace_file_path(uint64 keyspace_id, uint64 number, bool filter,
								   char *path);

/* Main fork of that name exists and is not empty; also if that cannot be told.  Never an error. */
extern bool lsm_fork_exists(RelFileLocator rlocator, ProcNumber backend);

/* Directory and owner file, durable; existing ones are fine (redo). */
extern void lsm_keyspace_ensure(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend);

/* redo of a piece of a file: durable when it returns */
extern void lsm_file_write_chunk(uint64 keyspace_id, uint64 number, bool filter,
								 uint64 offset, const char *data, uint32 bytes,
								 bool last, uint64 file_bytes);
extern void lsm_keyspace_unlink_file(uint64 keyspace_id, uint64 number);

/* Lines of the owner file: one per fork that may name the keyspace. */
typedef struct LsmOwner
{
	RelFileLocator rlocator;
	ProcNumber	backend;
} LsmOwner;

/*
 * palloc'd; their number.  NONE: there is no owner file, or it says nothing of
 * use.  UNREADABLE: there is one, and there was a WARNING; so do nothing that relies on there being
 * no owner.
 */
#define LSM_OWNERS_NONE			(-1)
#define LSM_OWNERS_UNREADABLE	(-2)
extern int	lsm_keyspace_owners(uint64 keyspace_id, LsmOwner **owners);

/* "0123456789abcdef" to an id; false if it is something else */
extern bool lsm_keyspace_parse(const char *name, uint64 *keyspace_id);

/* Log the removal, then remove directory and control block. */
extern void lsm_keyspace_remove_logged(uint64 keyspace_id);

/* A record KEYSPACE_CREATE without metapage.  REQUIRES: directory and owner durable. */
extern void lsm_keyspace_log_new(uint64 keyspace_id, RelFileLocator rlocator);

/* clone.c: the keyspace that takes the named one's place in a copied database */
extern uint64 lsm_keyspace_derive(uint64 keyspace_id, Oid dboid);

/* What the metapage of a fork in that database names; 0: none yet. */
extern uint64 lsm_meta_keyspace(const struct LsmMetaPage *meta, Oid dboid);

/* Its directory is there. */
extern bool lsm_keyspace_exists(uint64 keyspace_id);

/* files.c: hard links (or copies) of the files in another keyspace; durable, and
 * logged if `log`. */
extern void lsm_keyspace_link_files(uint64 from, uint64 to, const LsmFileMeta *files,
									int nfiles, bool log);

/* If XLogIsNeeded() and the tree is permanent: the file's bytes as
 * file-chunk records. */
extern void lsm_file_log(LsmTree *tree, uint64 number, bool filter);
extern bool lsm_file_needs_log(const LsmTree *tree);

/*
 * In any case.  forsaken(), unless NULL, is asked before each piece; if it says yes, no more is logged.
 * False: not all was, or there is no such file.
 */
extern bool lsm_keyspace_log_file(uint64 keyspace_id, uint64 number, bool filter,
								  bool (*forsaken) (void));

/*
 * warned.c: may this process say again that something is wrong with the file (0: the owner file)?  Then
 * not for a while.
 */
extern bool lsm_warn_about_file(uint64 keyspace_id, uint64 number);

/* Unlink both files of a number; ENOENT is fine, others WARNING. */
extern void lsm_file_unlink(const LsmTree *tree, uint64 number);

/* Remove directory and content.  For temporary trees and the sweep. */
extern void lsm_keyspace_remove(uint64 keyspace_id);

/* Files in the directory that no version names; after recovery, at load. */
extern void lsm_keyspace_remove_strays(LsmTree *tree);

/* Called by the worker now and then. */
extern void lsm_sweep_orphans(void);

/* A fork listed in the keyspace's owner file names it, or might. */
extern bool lsm_sweep_owner_alive(uint64 keyspace_id);

/*
 * Keyspaces named by any main fork on disk: a set of ids in the current context.  NULL if
 * one of the forks could not be read (there was a WARNING).
 */
extern struct HTAB *lsm_sweep_scan_cluster(void);

/*
 * The main fork of this name is not that of anything else but an lsm tree, as far as
 * the file tells: its metapage may be in a buffer only.  Temporary ones not included.
 */
extern bool lsm_sweep_may_be_tree(const char *name, const char *path, Oid dboid);

/* drop.c: keyspaces of relations that an ended transaction has dropped */

/*
 * What block 0 of a main fork's file says; false if that is no lsm tree or cannot
 * be read.  Never an error.
 */
extern bool lsm_fork_read_keyspace(const char *path, Oid dboid, uint64 *keyspace_id);
extern Size lsm_drop_shmem_bytes(void);
extern void lsm_drop_shmem_init(void);

/* Called by worker 0 in every round. */
extern void lsm_drop_keyspaces(void);

/* temporary.c: trees of this backend's temporary relations */

/* The keyspace is in this fork now; one that was there before goes at once. */
extern void lsm_temporary_remember(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend);

/* Release those whose fork is gone.  Never fails. */
extern void lsm_temporary_release_gone(void);

/* A subtransaction was rolled back: its forks go in a moment. */
extern void lsm_temporary_note_abort(void);

/* Backend exit: remove directories of this backend's temporary trees. */
extern void lsm_temporary_release_all(void);

/* tree.c: nobody will use the temporary tree in this fork again. */
extern void lsm_tree_forget_fork(RelFileLocator rlocator, ProcNumber backend);

/* ======================================================================
 * version.c, filecache.c: a backend's view of the files
 * ====================================================================== */

typedef struct LsmVersion LsmVersion;	/* in version.h */

/* Drop the handle's cached version. */
extern void lsm_version_release(LsmTree *tree);

/* ======================================================================
 * flush.c, compact.c, publish.c
 * ====================================================================== */

/*
 * Flush the oldest sealed memtable, or wait for whoever does.  True if one was flushed (by
 * anyone) or none is sealed; false if the relation could not be
 * locked (`conditional`: worker).  Errors (disk full) are the caller's.
 */
extern bool lsm_flush_oldest(LsmTree *tree, bool conditional);

/* Flush entries of a generation which are not in shared memory (loader): a local memtable.
 * Publishes flushed_generation = memtable->generation.
 *
 * The loader calls it with state LOADING: it owns the tree, ctl's counters (seq,
 * row_limit, next_file, version_no) are set, ctl->active and sealed[] are not.  So: no
 * lsm_tree_enter(), no lock on the relation (the caller has one of any mode, which is
 * enough to keep DROP and TRUNCATE away), no flush_pid.  The memtable may be an arena one that
 * no set contains; it stays the caller's. */
extern void lsm_flush_memtable(LsmTree *tree, LsmMemtable *memtable);

/* Do one due compaction; false if none is due or someone else is at it. */
extern bool lsm_compact_once(LsmTree *tree, bool conditional);

/* A writer found level 0 too deep: compact or wait. */
extern void lsm_compact_stall(LsmTree *tree);

/* After an error: give up flush and compaction ownership, remove unfinished files. */
extern void lsm_flush_abort(void);

/* repair.c: have the file's filter looked at, and built again if it is damaged.  Never fails. */
extern void lsm_repair_request(uint64 keyspace_id, uint64 number);
extern Size lsm_repair_shmem_bytes(void);
extern void lsm_repair_shmem_init(void);

/* counters.c */
extern Size lsm_counters_shmem_bytes(void);
extern void lsm_counters_shmem_init(void);

/* filestats.c */
extern Size lsm_newest_shmem_bytes(void);
extern void lsm_newest_shmem_init(void);
extern Size lsm_filestats_shmem_bytes(void);
extern void lsm_filestats_shmem_init(void);
extern void lsm_filestats_publish(void);

/* tree.c: is the control block this transaction's, and still the tree's? */
extern bool lsm_tree_is_pinned(LsmTree *tree);
extern void lsm_filestats_reset(Oid dboid);

/* background.c: worker latches and the queue of files to unlink */
extern Size lsm_worker_shmem_bytes(void);
extern void lsm_worker_shmem_init(void);
extern Size lsm_loghelp_shmem_bytes(void);
extern void lsm_loghelp_shmem_init(void);

/* Wake worker(s): flush or compaction is due. */
extern void lsm_worker_wake(void);

/* ereport a failure of src/sst with the proper SQLSTATE. */
extern void lsm_sst_report(int elevel, const LsmSstError *err);

/* ======================================================================
 * elastic.c: units of elastic filters in shared memory (elastic.h)
 * ====================================================================== */

extern Size lsm_elastic_shmem_bytes(void);
extern void lsm_elastic_shmem_init(void);

/* The file (number 0: the keyspace) is gone: drop its state.  Never fails. */
extern void lsm_elastic_forget(uint64 keyspace_id, uint64 number);

/* Hand over what this backend has noted. */
extern void lsm_elastic_end_statement(void);

/* The worker's part: settings, then units to load; true if there were any. */
extern bool lsm_elastic_round(void);

/* Wake worker 0 only. */
extern void lsm_worker_wake_first(void);

/* ======================================================================
 * crash points (test builds: -DLSM_TESTING)
 * ====================================================================== */

#ifdef LSM_TESTING
/* options.c: GUC lsm.crash_point; kills the process group's postmaster when
 * the name matches. */
extern char *lsm_crash_point_name;
extern void lsm_crash_point_hit(const char *name);
#define LSM_CRASH_POINT(name) lsm_crash_point_hit(name)
#else
#define LSM_CRASH_POINT(name) ((void) 0)
#endif

#endif							/* LSM_TREE_PRIVATE_H */
