/*-------------------------------------------------------------------------
 *
 * facts.h
 *	  Part of tree.h: what the planner and SQL functions ask a tree about
 *	  itself, and its statistics.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_FACTS_H
#define LSM_TREE_FACTS_H

#ifndef LSM_TREE_H
#error "tree/tree.h includes this header"
#endif

/* ---- facts (for SQL functions, planner) ---- */

typedef struct LsmFileInfo
{
	int			level;
	uint64		run;
	uint64		number;
	uint64		entries;
	uint64		file_bytes;
	uint64		filter_bytes;
	int			filter_scheme;
	int			compression;	/* LsmCompression, -1 not known */
	TransactionId min_xid;
	LsmSlice	smallest;
	LsmSlice	largest;
	bool		smallest_cut;	/* these are the first bytes of it only */
	bool		largest_cut;
} LsmFileInfo;

/* Files of the current version, newest level first; palloc'd copy. */
extern LsmFileInfo *lsm_tree_files(LsmTree *tree, int *nfiles);

/*
 * One segment of a file with an elastic filter; files of other schemes have
 * none.  What the units cost and gain is in shared memory, the same for all
 * sessions.
 */
typedef struct LsmSegmentInfo
{
	uint64		file;			/* number, as in LsmFileInfo */
	int			level;
	uint32		segment;		/* 0-based, in key order */
	uint64		keys;			/* distinct filter keys */
	int			units;			/* in the filter file */
	int			units_on;		/* in memory and asked; 0 also if not tracked */
	bool		tracked;		/* it has state in shared memory; false: no
								 * session has used the file since the start,
								 * or there is no room (lsm.elastic_memory) */
	double		accesses;		/* its hotness f: how often it was asked for a
								 * key, older accesses counting less and less */
	double		bits_per_key;	/* of the units that are on */
	double		expected_fpr;	/* of the units that are on; 1 with none */
	double		measured_fpr;	/* the same, as far as accesses have shown it:
								 * what the policy reckons with; if there were
								 * any */
} LsmSegmentInfo;

/* Segments of the current version, in the order of lsm_tree_files(); palloc'd.
 * (elastic_facts.c) */
extern LsmSegmentInfo *lsm_tree_segments(LsmTree *tree, int *nsegments);

/* Elastic filters of all trees together. */
typedef struct LsmElasticStats
{
	uint64		budget_bytes;	/* lsm.elastic_memory, as far as it is
								 * reserved */
	uint64		used_bytes;		/* units on */
	uint64		taken_bytes;	/* these, and units that are coming or going */
	uint64		reserved_bytes; /* at the start: what the budget can grow to */
	uint64		state_bytes;	/* of segments, not part of the budget */
	uint64		units_on;
	uint64		units_wanted;
	uint64		segments;		/* tracked */
	uint64		accesses;		/* keys asked for that segments did not have */
	uint64		promotions;
	uint64		demotions;
	uint64		loads;
	double		extra_io;		/* sum of f_i * r_i, with the units wanted */
} LsmElasticStats;

extern void lsm_elastic_read_stats(LsmElasticStats *stats);

/* Units that are on, of one file's filter */
typedef struct LsmElasticUse
{
	uint64		keyspace_id;
	uint64		bytes;
} LsmElasticUse;

/* Of all files that have state; palloc'd. */
extern LsmElasticUse *lsm_elastic_uses(int *n);

typedef struct LsmTreeSize
{
	uint64		file_bytes;		/* .sst and .flt */
	uint64		file_entries;
	uint64		memtable_entries;
	uint64		memtable_bytes;
	uint64		levels;
} LsmTreeSize;

extern void lsm_tree_size(LsmTree *tree, LsmTreeSize *size);

/* Bytes of all files in pg_lsm/ that are the database's (database_size.c) */
extern uint64 lsm_database_bytes(Oid dboid);

typedef void (*LsmProblem) (void *arg, const char *object, const char *problem);

/*
 * Log pages that are not flushed.  False: there are problems for which the tree
 * cannot be loaded, and it is not.
 */
extern bool lsm_tree_verify_log(LsmTree *tree, LsmProblem report, void *arg);

/* See LsmKindOps.check_row. */
extern char *lsm_tree_check_row(LsmTree *tree, Relation rel, LsmSlice key, LsmSlice value,
								Snapshot snapshot, bool *hidden);

/*
 * Is the list of files in order?  The number of files, their numbers in a
 * palloc'd array.
 */
extern int	lsm_tree_verify_list(LsmTree *tree, LsmProblem report, void *arg,
								 uint64 **numbers);

/*
 * Read all of a file and its filter.  One that the list does not have any more
 * has no problems.
 */
extern void lsm_tree_verify_file(LsmTree *tree, uint64 number, LsmProblem report, void *arg);

extern uint64 lsm_tree_keyspace(const LsmTree *tree);

/*
 * The same number for all who have the tree, as long as its control block is the
 * tree's; after that never again.  (The keyspace's id comes again with the OID
 * of a copied database.)  REQUIRES: the tree has been used.
 */
extern uint64 lsm_tree_life(const LsmTree *tree);

/*
 * A number that the handle keeps for row_directory.c: lookups in a row for
 * whose key no row was noted.
 */
extern int *lsm_tree_directory_misses(LsmTree *tree);

/* ---- jobs in progress (progress.c) ---- */

typedef enum LsmProgressCommand
{
	LSM_PROGRESS_NONE,
	LSM_PROGRESS_FLUSH,
	LSM_PROGRESS_COMPACT,
	LSM_PROGRESS_BUILD,			/* what CREATE INDEX, REINDEX, CLUSTER and
								 * VACUUM FULL write */
	LSM_PROGRESS_REPAIR,		/* of a filter */
	LSM_PROGRESS_LOAD,			/* of memtables, from log pages */
	LSM_PROGRESS_VERIFY
} LsmProgressCommand;

typedef enum LsmProgressPhase
{
	LSM_PHASE_STARTING,
	LSM_PHASE_WAITING_WRITERS,
	LSM_PHASE_WRITING,
	LSM_PHASE_LOGGING,			/* files to the WAL */
	LSM_PHASE_PUBLISHING,
	LSM_PHASE_READING,
	LSM_PHASE_CHECKING_FILES,
	LSM_PHASE_COMPARING_SCAN,	/* an index with its table: rows, sorted */
	LSM_PHASE_COMPARING_ENTRIES,
	LSM_PHASE_COMPARING_ROWS	/* looked up */
} LsmProgressPhase;

/* A job; -1: there is no such number, or it is not known. */
typedef struct LsmProgress
{
	LsmProgressCommand command;
	LsmProgressPhase phase;
	Oid			dboid;
	Oid			relid;
	int			level_from;
	int			level_to;
	int64		started_at;		/* TimestampTz */
	int64		files_total;	/* to read */
	int64		files_done;
	int64		entries_total;
	int64		entries_done;
	int64		bytes_total;
	int64		bytes_done;
	int64		files_written;
	int64		bytes_written;
} LsmProgress;

#define LSM_PROGRESS_UNKNOWN	(-1)

/* All numbers unknown. */
extern void lsm_progress_init(LsmProgress *job, LsmProgressCommand command,
							  Oid dboid, Oid relid);

/*
 * Show a job of this process.  Returns its number for the calls that follow,
 * which is negative if there is no room to show it.  `ends_itself`: its owner
 * calls lsm_progress_end() after an error, too.  Else the abort of the
 * (sub)transaction does.
 */
extern int	lsm_progress_begin(const LsmProgress *job, bool ends_itself);
extern void lsm_progress_update(int number, const LsmProgress *job);
extern void lsm_progress_end(int number);

/* Who has a job. */
typedef struct LsmProgressOwner
{
	int			pid;
	int			leader_pid;		/* of a parallel worker; else 0 */
	Oid			roleid;			/* session's; invalid: none */
} LsmProgressOwner;

/* The next job of any process; false at the end.  *iter starts at 0. */
extern bool lsm_progress_next(int *iter, LsmProgressOwner *owner, LsmProgress *job);

/* ---- statistics ---- */

typedef enum LsmCounter
{
	LSM_COUNT_LOOKUPS,
	LSM_COUNT_DIGESTS,
	LSM_COUNT_FILTER_PROBES,
	LSM_COUNT_FILTER_NEGATIVES,
	LSM_COUNT_FILTER_TRUE_POSITIVES,
	LSM_COUNT_FILTER_FALSE_POSITIVES,
	LSM_COUNT_UNIT_PROBES,
	LSM_COUNT_BLOCKS_READ,
	LSM_COUNT_MEMTABLE_HITS,
	LSM_COUNT_FLUSHES,
	LSM_COUNT_COMPACTIONS,
	LSM_COUNT_BYTES_FLUSHED,
	LSM_COUNT_BYTES_COMPACTED,
	LSM_COUNT_STALL_US,
	LSM_COUNT_DIRECTORY_LOOKUPS,
	LSM_COUNT_DIRECTORY_HITS,
	LSM_COUNT_DIRECTORY_MISLED,
	LSM_NCOUNTERS
} LsmCounter;

/* Count an event of the tree n times (counters.c). */
extern void lsm_count(LsmTree *tree, LsmCounter counter, uint64 n);

#define LSM_MAX_LEVELS		8	/* 0..7 */

/* Why a writer had to wait */
typedef enum LsmStall
{
	LSM_STALL_LEVEL0,			/* too many runs in level 0 */
	LSM_STALL_FLUSH,			/* its memtables wait for a flush */
	LSM_STALL_MEMORY,			/* no memory for memtables */
	LSM_NSTALLS
} LsmStall;

/* Why a writer was delayed before it came to that */
typedef enum LsmDelay
{
	LSM_DELAY_LEVEL0,			/* level 0 has many runs */
	LSM_DELAY_FLUSH,			/* several of its memtables wait for a flush */
	LSM_DELAY_MEMORY,			/* memory for memtables runs short */
	LSM_DELAY_PENDING,			/* compactions have very much to do */
	LSM_NDELAYS
} LsmDelay;

/* Flushes and compactions of a tree, by the level that they wrote to */
typedef enum LsmWork
{
	LSM_WORK_JOBS,				/* that wrote files */
	LSM_WORK_MOVED,				/* files that only changed their level */
	LSM_WORK_BYTES_IN,			/* of sorted files, or of memtables */
	LSM_WORK_BYTES_OUT,			/* of sorted files and filters */
	LSM_WORK_DROPPED,			/* entries read and not written */
	LSM_WORK_US,
	LSM_NWORK
} LsmWork;

#define LSM_WORK_FLUSHES	LSM_MAX_LEVELS	/* their row; compactions have that
											 * of their level */
#define LSM_WORK_ROWS		(LSM_MAX_LEVELS + 1)

/* What became of the questions asked of filters. */
typedef struct LsmFilterCounts
{
	uint64		negatives;		/* "no": the file was not read */
	uint64		true_positives;
	uint64		false_positives;	/* "maybe", and the file was read for
									 * nothing */
} LsmFilterCounts;

static inline uint64
lsm_filter_counts_probes(const LsmFilterCounts *counts)
{
	return counts->negatives + counts->true_positives + counts->false_positives;
}

/* Counts over all trees */
typedef struct LsmTotals
{
	uint64		counters[LSM_NCOUNTERS];
	LsmFilterCounts levels[LSM_MAX_LEVELS]; /* filters by level of their file */
} LsmTotals;

/* Add what this backend counted since the last call to shared memory: at
 * statement end (executor hooks, utility hook, transaction end). */
extern void lsm_counters_publish(void);

/*
 * Running totals of this backend and of the parallel workers that have worked
 * for it (for EXPLAIN: take, run, take again, subtract).
 */
extern void lsm_counters_session(LsmTotals *totals);

/* This process's own, all trees together, LSM_NCOUNTERS of them; cheap. */
extern void lsm_counters_own(uint64 *counters);

/* The filter of a file and what became of the questions asked of it. */
typedef struct LsmFilterInfo
{
	int			level;
	uint64		run;			/* of level 0 */
	uint64		number;			/* of the file */
	bool		known;			/* false: of a newer release, says "maybe" */
	bool		current;		/* it is what the tree's settings ask for now */
	uint32		scheme;
	uint32		leading;		/* leading columns that it knows */
	uint64		keys;			/* distinct filter keys and leading parts;
								 * scheme none: entries */
	uint64		filter_bytes;
	double		bits_per_key;	/* as it came out */
	double		expected_fpr;	/* elastic: with all units on */
	LsmFilterCounts counts;		/* of all sessions since the start, the last
								 * reset, or since the file had to take
								 * another's place (filestats.c).  Scheme
								 * none: reads */
} LsmFilterInfo;

/*
 * In the order of lsm_tree_files(); palloc'd.  ERRORs naming a damaged filter.
 */
extern LsmFilterInfo *lsm_tree_filters(LsmTree *tree, int *nfilters);

/* Published counts of the tree. */
extern void lsm_tree_counters(LsmTree *tree, uint64 counters[LSM_NCOUNTERS]);

/* What files written from now on get. */
extern LsmFilterParams lsm_tree_filter_params(LsmTree *tree);
extern LsmFilterAllocation lsm_tree_filter_allocation(LsmTree *tree);

/* ... in the deepest level, if they have that scheme above it */
extern LsmFilterScheme lsm_tree_bottom_scheme(LsmTree *tree, LsmFilterScheme scheme);

/* What is counted of a tree: nothing but uint64. */
typedef struct LsmTreeCounts
{
	uint64		counters[LSM_NCOUNTERS];
	uint64		stalls[LSM_NSTALLS];	/* writes that waited */
	uint64		stall_us[LSM_NSTALLS];
	uint64		delays[LSM_NDELAYS];	/* writes that were delayed */
	uint64		delay_us[LSM_NDELAYS];
	uint64		work[LSM_WORK_ROWS][LSM_NWORK];
} LsmTreeCounts;

typedef struct LsmTreeStats
{
	Oid			dboid;
	Oid			relfilenode;
	Oid			spcoid;
	Oid			relid;			/* of a relation's former trees alone */
	LsmTreeCounts counts;
	uint64		keyspace_id;

	/* as of the last change of the list of files that was seen */
	bool		known;			/* else none was since the start */
	uint32		level_files[LSM_MAX_LEVELS];
	uint64		level_bytes[LSM_MAX_LEVELS];	/* of sorted files */
	uint32		level0_runs;
	uint64		mapped_filter_bytes;	/* of filters that are in memory as a
										 * whole */
	uint64		pending_bytes;	/* that compactions will read */

	uint64		memtable_bytes; /* now */
	bool		workers_help;	/* now: else writers do all the work */
} LsmTreeStats;

/*
 * The next tree that is known to shared memory: *iter starts at 0.
 *
 * Counts are a relation's, as those of pg_stat_user_tables are.  What its former
 * trees have counted (before TRUNCATE, VACUUM FULL and their like) is not in its
 * tree's: *n palloc'd rows, of relations whose tree counts on.
 */
extern bool lsm_stats_next(int *iter, LsmTreeStats *stats);
extern LsmTreeStats *lsm_stats_former(int *n);
extern void lsm_stats_reset(Oid dboid);

#endif							/* LSM_TREE_FACTS_H */
