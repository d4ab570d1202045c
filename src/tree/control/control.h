/*-------------------------------------------------------------------------
 *
 * control.h
 *	  What processes share about a tree (its control block), and a process's
 *	  handle on it: entering and leaving, key locks, settings, worker latches.
 *
 * Lock order, outermost first:
 *	 1. heavyweight locks: database, relation, keyspace
 *	 2. key lock (lsm_key_lock)
 *	 3. LsmTreeShared.lock
 *	 4. LsmLogSlot.lock
 *	 5. LsmTreeLog.chain_lock, then LsmTreePages.alloc_lock
 *	 6. buffer content locks: metapage before manifest pages; a log page is
 *		never locked together with those
 *	 7. control table lock, lsm_elastic->lock, a memtable's link lock (deferred_link.c),
 *		a slot's lock (gaps.c), arena spinlock, epoch; only the epoch is used under lsm_elastic->lock
 * File I/O is allowed under none of 2..5 and 7 (page I/O through the buffer
 * manager is allowed under 3..5).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CONTROL_H
#define LSM_CONTROL_H

#include "access/transam.h"
#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/buf.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

#include "tree/memtable/memtable.h"

/* ======================================================================
 * control.c: one control block per tree in shared memory, by keyspace id
 * ====================================================================== */

#define LSM_LOG_SLOTS		4
#define LSM_MAX_SEALED		4	/* sealed memtables waiting for a flush */
#define LSM_L0_COMPACT_RUNS	4	/* compaction is due */
#define LSM_L0_MAX_RUNS		8	/* ... into level 1, whatever that costs */
#define LSM_L0_RELIEF_RUNS	8	/* ... before all that can wait */
#define LSM_L0_STOP_RUNS	20	/* writers stall */

typedef enum LsmTreeState
{
	LSM_STATE_UNLOADED = 0,		/* log pages only: no memtable */
	LSM_STATE_LOADING,
	LSM_STATE_LOADED,
	LSM_STATE_STANDBY,			/* loaded in recovery: can be read, and redo
								 * feeds it; the first use after recovery
								 * unloads it */
	LSM_STATE_INCOMPLETE		/* loaded without what was lost of the log: can
								 * be read, under lsm.ignore_missing_files; who
								 * comes without that unloads it */
} LsmTreeState;

/* Its memtables are those that the fields say. */
static inline bool
lsm_state_is_loaded(LsmTreeState state)
{
	return state == LSM_STATE_LOADED || state == LSM_STATE_STANDBY ||
		state == LSM_STATE_INCOMPLETE;
}

/* What one process writes and others read or write apart begins a cache line */
#define LSM_LINE_BYTES		64
#define LSM_LINE_START		pg_attribute_aligned(LSM_LINE_BYTES)

typedef struct LsmLogSlot
{
	LWLock		lock LSM_LINE_START;	/* held while appending to the slot's page */
	BlockNumber block;			/* InvalidBlockNumber: none open */
	uint32		room;			/* left in that page */
	uint64		generation;		/* of that page */
	uint64		last_seq;		/* of the page's last entry */
	Buffer		recent_buffer;	/* where it was last; a hint */
} LsmLogSlot;

/*
 * What jobs and stalled writers count, and what the list of files amounts to.
 * All of it is written seldom; without a lock, unless said otherwise.
 */
typedef struct LsmTreeWork
{
	pg_atomic_uint64 stalls[LSM_NSTALLS];
	pg_atomic_uint64 stall_us[LSM_NSTALLS];
	pg_atomic_uint64 delays[LSM_NDELAYS];
	pg_atomic_uint64 delay_us[LSM_NDELAYS];
	pg_atomic_uint64 jobs[LSM_WORK_ROWS][LSM_NWORK];
	pg_atomic_uint64 values_dropped;	/* lsm_tree_values_dropped() */

	/* under ctl->lock */
	bool		known;			/* the fields below are */
	uint32		level_files[LSM_MAX_LEVELS];
	uint64		level_bytes[LSM_MAX_LEVELS];
	uint64		mapped_filter_bytes;
	uint64		pending_bytes;
	NameData	schemaname;		/* when a transaction last opened the tree */
	NameData	relname;
} LsmTreeWork;

/* Levels by their bits */
#define LSM_LEVEL_BIT(level) (1u << (level))
#define LSM_ALL_LEVELS		(LSM_LEVEL_BIT(LSM_MAX_LEVELS) - 1)

/* The memtables, as if they were one more level: a flush, or a load */
#define LSM_MEMTABLES_BIT	LSM_LEVEL_BIT(LSM_MAX_LEVELS)

/* No two have a level in common, but for one who plans */
#define LSM_MAX_CLAIMS		(LSM_MAX_LEVELS + 1)

/* What a process is at work on (compaction/claim.c); pid 0: none */
typedef struct LsmClaim
{
	int			pid;
	uint32		levels;			/* bits */
} LsmClaim;

/* Why workers leave a tree alone for a while */
typedef enum LsmRest
{
	LSM_REST_LOCK,				/* they could not lock its relation */
	LSM_REST_FLUSH,				/* a flush has failed */
	LSM_REST_COMPACT,			/* a compaction has failed */
	LSM_NRESTS
} LsmRest;

/*
 * The set of memtables.  Written under ctl->lock; memtable_set.c reads it
 * without.
 */
typedef struct LsmTreeMemory
{
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
	pg_atomic_uint32 memtable_kb;	/* lsm.memtable_size of the session that
									 * sealed last; 0: none since the start */
} LsmTreeMemory;

/*
 * The list of files: manifest.c writes it, under the metapage's buffer lock, and
 * publish.c the hints, under ctl->lock.  Anyone may read them.
 */
typedef struct LsmTreeFiles
{
	pg_atomic_uint64 version_no;	/* = metapage's, after each edit */
#ifdef USE_ASSERT_CHECKING
	pg_atomic_uint64 settled_version;	/* one that was there when set_stamp
										 * last changed */
#endif
	pg_atomic_uint64 flushed_generation;
	pg_atomic_uint64 next_file; /* next file number; below file_limit ... */
	pg_atomic_uint64 file_limit;	/* ... which the metapage's next_file is; 0:
									 * not loaded yet */
	pg_atomic_uint32 level0_runs;	/* hint for stalls */
	pg_atomic_uint32 compaction_due;	/* hint for workers: 0, or the score in
										 * percent */
	pg_atomic_uint32 pending_memtables; /* hint for delays: what compactions
										 * will read, in memtables */
	pg_atomic_uint64 scan_price;	/* hint: how many merged entries pay for a
									 * compaction; 0: there is none to pay for */
	pg_atomic_uint64 manifest_id;	/* = metapage's; pages of other manifests
									 * are free ... */
	pg_atomic_uint64 manifest_pending;	/* ... but for one being written */
	uint32		manifest_limit; /* pages of the chain from which on a snapshot
								 * is worth a look; 0: unknown; and ... */
	uint32		manifest_looked;	/* ... files at the last look */
	bool		strays_removed; /* false in a block just taken; set by the
								 * first load */
} LsmTreeFiles;

/* Who is at work, and who is to wait: claim.c, under ctl->lock. */
typedef struct LsmTreeJobs
{
	LsmClaim	claims[LSM_MAX_CLAIMS]; /* compaction/claim.c */
	TimestampTz whole_wanted;	/* until then a request waits for all levels */
	uint64		compact_cursor[LSM_MAX_LEVELS]; /* file number last compacted;
												 * who plans has it */
	pg_atomic_uint64 rests[LSM_NRESTS]; /* until when: worker_help.c, no lock */
} LsmTreeJobs;

/* What is known about all rows of a table, or entries of an index: no lock. */
typedef struct LsmTreeRows
{
	pg_atomic_uint64 replaced;	/* rows that have a newer version, about */
	pg_atomic_uint64 map_blocks;	/* no bit of the visibility map is set for
									 * a block from here on */
	pg_atomic_uint32 churned;	/* what lsm_tree_note_churn() was told last */
	pg_atomic_uint32 pruned_xid;	/* newest whose deletion lsm_tree_prune()
									 * made final in any memtable */
	pg_atomic_uint32 vacuumed_xmin; /* rows deleted before it were dead to all
									 * when VACUUM or a writer's seal came last */
	pg_atomic_uint32 freeze_limit;	/* changes of rows freeze inserters before
									 * it; invalid: none */
} LsmTreeRows;

/* Pages of the main fork: page.c, under its own lock. */
typedef struct LsmTreePages
{
	LWLock		alloc_lock;
	BlockNumber nblocks;		/* of the main fork */
	BlockNumber alloc_cursor;	/* where the search for a free page goes on */
	int64		free_pages;		/* candidates still to look at in this lap of
								 * the cursor; 0 = extend.  A new lap starts
								 * when an edit has freed pages */
} LsmTreePages;

/* The log in those pages: log.c. */
typedef struct LsmTreeLog
{
	LWLock		chain_lock;		/* the ends of generations' lists of pages
								 * (LsmMemtable.log_first, log_last) */
	pg_atomic_uint32 wanted_log_bytes;	/* hint for workers: what need not be
										 * logged and has found no room */
	LsmLogSlot	slots[LSM_LOG_SLOTS];
} LsmTreeLog;

/*
 * A member for each of those who look after something of the tree; the others are
 * control.c's.  take.c resets them.  Members mean little in a tree that is not
 * loaded.  In the order of who writes them how often, so that reading a tree takes
 * no cache line from those who write to it.
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
	uint64		life;			/* another one of all blocks whenever it is
								 * taken, or freed */
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
	bool		load_cut_off;	/* the last one that began to load it did not
								 * end */
	bool		fed;			/* redo adds to the memtables: LOADING in
								 * recovery, and STANDBY */

	LsmTreeMemory memory;
	LsmTreeFiles files;
	LsmTreeJobs jobs;
	LsmTreeRows rows;
	pg_atomic_uint32 has_gaps;	/* there may be gaps of the tree: gaps.c */
	pg_atomic_uint32 format_version;	/* the metapage's, as far as who has
										 * required one knows; 0: unknown */
	ConditionVariable cv;		/* broadcast on any change of state or of
								 * claims */
	LsmTreePages pages;
	LsmTreeLog	log;

	/* reader/writer of counters need no lock */
	pg_atomic_uint64 counters[LSM_NCOUNTERS] LSM_LINE_START;
	pg_atomic_uint64 merged;	/* entries that scans have merged from several
								 * runs, and not yet spent: scan_debt.c */
	LsmTreeWork work;
} LsmTreeShared;

/*
 * Levels that are being worked on, and LSM_MEMTABLES_BIT.  REQUIRES: ctl->lock,
 * or a block that nobody can reach.
 */
static inline uint32
lsm_claimed_levels(const LsmTreeShared *ctl)
{
	uint32		levels = 0;

	for (int i = 0; i < LSM_MAX_CLAIMS; i++)
		levels |= ctl->jobs.claims[i].levels;
	return levels;
}

/*
 * What survives an eviction (state UNLOADED, same keyspace): seq and
 * row_limit, because numbers may be in the hands of somebody who has not
 * logged them, and next_file with its limit.  The loader takes the larger of
 * the first two and of what it reads; of file numbers a block begins a range
 * of its own (control.c).  The state may become LOADED only in or after the
 * change (lsm_set_change_end) that puts the whole set of memtables in place.
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

/* Is it?  If not, an error or a message of this level says so. */
extern bool lsm_control_require(int elevel);

/*
 * False, and not pinned, if the block is not (any more) this keyspace's; or if
 * lsm_control_recycle() has just taken its identity away, and gives it back: it
 * holds the table lock meanwhile, so that lsm_control_find() knows afterwards.
 */
extern bool lsm_control_pin(LsmTreeShared *ctl, uint64 keyspace_id);
extern void lsm_control_unpin(LsmTreeShared *ctl);

/* The block was used now (least recently used order). */
extern void lsm_control_touch(LsmTreeShared *ctl);

/* Identity, read under the control table lock; false if the block is free. */
extern bool lsm_control_identity(LsmTreeShared *ctl, uint64 *keyspace_id,
								 RelFileLocator *rlocator, LsmKind *kind,
								 char *relpersistence);

/*
 * Has the block been the same keyspace's all the time since its `life` was this?
 * Needs no pin.
 */
extern bool lsm_control_lives(LsmTreeShared *ctl, uint64 life);

/*
 * The keyspace's log lives in this fork; a block that says otherwise is
 * dropped.
 */
extern void lsm_control_move(uint64 keyspace_id, RelFileLocator rlocator);

/* Counts drops and reuses of blocks, for backends that cache handles. */
extern uint64 lsm_control_drops(void);

/*
 * Files that two keyspaces shared have been parted since the server started:
 * sessions may have the one keyspace's old file mapped, which is the other's.
 */
extern void lsm_control_note_parted(void);
extern bool lsm_control_has_parted(void);

/* i-th local block of this backend (temporary trees), NULL past the end. */
extern LsmTreeShared *lsm_control_nth_local(int i);

/*
 * Find or take the block of a keyspace; evicts idle trees when all are taken.
 * A new block is UNLOADED.  ERROR if none can be had (hint: lsm.max_trees).
 */
extern LsmTreeShared *lsm_control_get(uint64 keyspace_id, RelFileLocator rlocator,
									  LsmKind kind, char relpersistence);

/* NULL if the keyspace has none. */
extern LsmTreeShared *lsm_control_find(uint64 keyspace_id);

/* The tree is gone (dropped, truncated): memtables retired, block freed. */
extern void lsm_control_drop(uint64 keyspace_id);

/* Drops this block, if it is still the keyspace's.  REQUIRES: pinned. */
extern void lsm_control_drop_block(LsmTreeShared *ctl, uint64 keyspace_id);

/* All blocks of a database that was moved or dropped. */
extern void lsm_control_drop_database(Oid dboid);

/* A job of this process: jobs.c. */
typedef struct LsmJobMark
{
	dlist_node	node;
	LsmTree    *tree;
	LsmTreeShared *ctl;
	uint64		keyspace_id;
} LsmJobMark;

extern dlist_head lsm_job_marks;

/*
 * A job begins to write files in the keyspace's directory; it lets go of its
 * handle; it has ended: the keyspace may get another block.  REQUIRES: the
 * block is pinned until the job's end.
 */
extern void lsm_control_job_begin(LsmJobMark *mark, LsmTree *tree);
extern void lsm_control_job_release(LsmJobMark *mark);
extern void lsm_control_job_end(LsmTreeShared *ctl);

/* This process has a job that relies on the handle as it is. */
extern bool lsm_job_uses(const LsmTree *tree);

#ifdef LSM_TESTING
/* The relation whose tree this process has a job of; invalid if it has none. */
extern Oid	lsm_job_relid(void);
#endif

/*
 * Somebody has a job in the keyspace's directory, by its block or a former
 * one, or is loading it.
 */
extern bool lsm_control_busy(uint64 keyspace_id);

/* Dropped: wait until the last job has ended. */
extern void lsm_control_wait_jobs(uint64 keyspace_id);

/* i-th block, NULL past the end; may be free (keyspace_id 0). */
extern LsmTreeShared *lsm_control_nth(int i);

/*
 * Evict idle trees' memtables (no registered writer, not loading): their log
 * pages remain, the next use loads them again.  Least recently used first,
 * never `except`, nor what was used lately and holds more than this many bytes
 * (which would all be read back soon, and take their memory from others).
 * Returns chunks that will come free.
 */
extern int	lsm_control_evict(LsmTreeShared *except, int want_chunks, uint64 lately_bytes);

/* It is at least `value` then, whoever else raises it. */
static inline void
lsm_counter_raise(pg_atomic_uint64 *counter, uint64 value)
{
	uint64		old = pg_atomic_read_u64(counter);

	while (old < value && !pg_atomic_compare_exchange_u64(counter, &old, value))
		 /* try again */ ;
}

/*
 * Trees that are fed in recovery (disk/standby.c): their number of changes; a
 * change, to be counted after ctl->fed is set and before a page is read; no
 * more feeding, and no readers before the tree is loaded again.
 */
extern uint64 lsm_control_fed_changes(void);
extern void lsm_control_count_fed(void);
extern void lsm_control_stop_feeding(LsmTreeShared *ctl, uint64 keyspace_id);

/* Change of the memtable set or version.  REQUIRES: ctl->lock exclusive. */
static inline void
lsm_set_change_begin(LsmTreeShared *ctl)
{
	Assert(LWLockHeldByMeInMode(&ctl->lock, LW_EXCLUSIVE));
	Assert((pg_atomic_read_u64(&ctl->memory.set_stamp) & 1) == 0);
	pg_atomic_fetch_add_u64(&ctl->memory.set_stamp, 1);
	pg_write_barrier();
#ifdef USE_ASSERT_CHECKING
	pg_atomic_write_u64(&ctl->files.settled_version, pg_atomic_read_u64(&ctl->files.version_no));
#endif
}

static inline void
lsm_set_change_end(LsmTreeShared *ctl)
{
	pg_write_barrier();
	pg_atomic_fetch_add_u64(&ctl->memory.set_stamp, 1);
	Assert((pg_atomic_read_u64(&ctl->memory.set_stamp) & 1) == 0);
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
	char		dir[LSM_KEYSPACE_DIR_BYTES];	/* relative to PGDATA */
	struct LsmVersion *version; /* cached; version.c */
	int			memtable_rate;	/* of lookups that memtables answer: lookup.c */
	int			nfolded;		/* by the last lookup: lsm_tree_folded() */
	int			directory_misses;	/* lookups in a row without a row noted:
									 * row_directory.c */
	LsmTreeOptions options;
	uint64		counters[LSM_NCOUNTERS];	/* not yet published */
	uint32		merged;			/* nor these: LsmTreeShared.merged */
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

/*
 * The later of what was noted (lsm_tree_note_horizon) and of one's own.
 * REQUIRES: the block is the tree's and stays so.
 */
extern TransactionId lsm_control_later_horizon(const LsmTree *tree, TransactionId now);

static inline uint32
lsm_filter_key_bytes(LsmKind kind, uint32 key_bytes)
{
	return kind == LSM_KIND_INDEX ? key_bytes - LSM_TID_BYTES : key_bytes;
}

static inline LsmSlice
lsm_filter_key(const LsmTree *tree, LsmSlice key)
{
	return lsm_slice(key.data, lsm_filter_key_bytes(tree->kind, key.len));
}

/* Number of the row that a table tree's key stands for, plus one. */
static inline uint64
lsm_row_key_limit(LsmSlice key)
{
	uint32		block;
	uint16		offset;

	lsm_tid_read(key.data, &block, &offset);
	return (uint64) block * LSM_TID_OFFSETS + offset;	/* offsets start at 1 */
}

/*
 * The digest under which memtables know the key.  That of a row ends in its
 * number: rows written or read one after the other are neighbours in the
 * digest index.
 */
static inline LsmDigest
lsm_memtable_digest(const LsmTree *tree, LsmSlice filter_key, LsmDigest digest)
{
	if (tree->kind != LSM_KIND_TABLE || filter_key.len != LSM_TID_BYTES)
		return digest;
	return (digest & ~(uint64) PG_UINT32_MAX) | (uint32) lsm_row_key_limit(filter_key);
}

/* options.c; ERROR if the kind was never registered */
extern const LsmKindOps *lsm_kind_ops(LsmKind kind);

/* keylock.c */
extern Size lsm_keylock_shmem_bytes(void);
extern void lsm_keylock_shmem_init(void);
extern void lsm_key_prefetch(LsmTree *tree, LsmDigest lock_digest);
extern void lsm_key_changed_in(uint64 keyspace_id, LsmDigest lock_digest);

/* For assertions: any key's lock is held by this process; this key's is. */
extern bool lsm_key_lock_is_held(void);
extern bool lsm_key_is_locked(LsmTree *tree, LsmDigest lock_digest);

/*
 * A stamp for who has taken a set of memtables (its stamp) and will read them
 * now.
 */
extern void lsm_stamp_of_set(LsmTree *tree, LsmDigest lock_digest, uint64 set_stamp, LsmStamp *stamp);

extern int	lsm_tree_size_ratio(LsmTree *tree);
extern LsmCompression lsm_tree_compression(LsmTree *tree);

/* Of files that have nothing below them */
extern LsmCompression lsm_tree_bottom_compression(LsmTree *tree);

/*
 * Stands for the settings above that shape a file, and for its compression:
 * equal settings, equal number.
 */
extern uint32 lsm_tree_written_as(LsmTree *tree, LsmCompression compression);

/*
 * What a memtable of the tree holds, bytes: level i is due at this * T^i.  The
 * last writer's lsm.memtable_size, which need not be the worker's.
 */
extern double lsm_tree_base_bytes(LsmTree *tree);

/* Seal the active memtable if it is `expected` (or any, if NULL) and not
 * empty; false if too many are sealed already. */
extern bool lsm_tree_seal(LsmTree *tree, LsmMemtable *expected);

/* Number of generations that wait for a flush. */
extern int	lsm_tree_nsealed(LsmTree *tree);

/* tree.c: nobody will use the temporary tree in this fork again. */
extern void lsm_tree_forget_fork(RelFileLocator rlocator, ProcNumber backend);

/*
 * work.c.  REQUIRES: the block is pinned.  `row`: the level that files were
 * written to, or LSM_WORK_FLUSHES.
 */
extern void lsm_work_init(LsmTreeWork *work);

/* All that the tree has counted; `take`: it begins with zero from here on. */
extern void lsm_work_counts(LsmTreeShared *ctl, LsmTreeCounts *counts, bool take);
extern void lsm_work_count_job(LsmTreeShared *ctl, int row, const uint64 work[LSM_NWORK]);
extern void lsm_work_count_stall(LsmTreeShared *ctl, LsmStall reason, uint64 us);
extern void lsm_work_count_delay(LsmTreeShared *ctl, LsmDelay reason, uint64 us);

/* All memtables of the tree.  REQUIRES: ctl->lock, shared. */
extern uint64 lsm_memtables_bytes(LsmTreeShared *ctl);

/* False: the block is not the keyspace's any more.  No lock held. */
extern bool lsm_work_read(LsmTreeShared *ctl, uint64 keyspace_id, LsmTreeStats *stats);

/* former.c */
extern Size lsm_former_shmem_bytes(void);
extern void lsm_former_shmem_init(void);

/*
 * The block's relation gets another tree, or the tree another block: what it
 * has counted is kept for the relation.  REQUIRES: control table lock,
 * exclusive; the block's relid is known.
 */
extern void lsm_former_keep(LsmTreeShared *ctl);

/* The same, for who has no lock, if the block is in this fork. */
extern void lsm_former_keep_of_fork(LsmTreeShared *ctl, RelFileLocator rlocator);

/* The relation is dropped; all of the database's are, or begin with zero. */
extern void lsm_former_forget(Oid dboid, Oid relid);
extern void lsm_former_forget_database(Oid dboid);

/* worker_latch.c */
extern Size lsm_worker_shmem_bytes(void);
extern void lsm_worker_shmem_init(void);

/* Wake worker(s): flush or compaction is due. */
extern void lsm_worker_wake(void);

/* Wake worker 0 only. */
extern void lsm_worker_wake_first(void);

/* Of this process; -1: it is no worker. */
extern int	lsm_worker_number(void);

/* This one; one that compacts (worker 0 does, if there is no other). */
extern bool lsm_worker_runs(int worker_no);
extern bool lsm_compaction_worker_runs(void);

/*
 * worker_help.c: can a worker flush, or compact, the tree now?  Whoever makes a
 * writer wait for workers has to ask.
 */
typedef struct LsmWorkerHelp
{
	bool		flush;
	bool		compact;
} LsmWorkerHelp;

/* REQUIRES: ctl->lock, shared; the block is the tree's. */
extern LsmWorkerHelp lsm_worker_help(LsmTreeShared *ctl);

/* Workers leave the tree alone for so long; 0: they do not. */
extern void lsm_worker_rests(LsmTreeShared *ctl, LsmRest why, int ms);

/* Is the control block this transaction's, and still the tree's? */
extern bool lsm_tree_is_pinned(LsmTree *tree);

/* This process is a background worker: attached to no database. */
#define lsm_in_worker()		(!OidIsValid(MyDatabaseId))

/*
 * A memtable without entries is sealed when cancelled writes have left this
 * much in it
 */
#define LSM_EMPTY_SEAL_BYTES	(8 * LSM_CHUNK_BYTES)

/* Nothing in it worth a generation of its own */
static inline bool
lsm_memtable_vacant(LsmMemtable *memtable)
{
	return pg_atomic_read_u64(&memtable->entries) == 0 &&
		pg_atomic_read_u64(&memtable->bytes) < LSM_EMPTY_SEAL_BYTES;
}

/*
 * Keyspaces of temporary trees have ids with these first 24 bits.  Their
 * directories have names that base backups and pg_rewind leave out, as they
 * leave out temporary relations.
 */
#define LSM_TEMPORARY_KEYSPACES	UINT64CONST(0xffffff0000000000)

/* A keyspace's directory, relative to PGDATA; LSM_KEYSPACE_DIR_BYTES. */
extern void lsm_keyspace_dir(uint64 keyspace_id, char *path);

#endif							/* LSM_CONTROL_H */
