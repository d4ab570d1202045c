/*-------------------------------------------------------------------------
 *
 * output_job.h
 *	  A flush, compaction or build in progress: what it owns and the files it
 *	  has written; and how its result becomes part of the tree (publish.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_OUTPUT_JOB_H
#define LSM_OUTPUT_JOB_H

#include "executor/instrument.h"
#include "utils/pg_rusage.h"

#include "tree/compaction/filter_builder.h"
#include "tree/read/merge.h"

typedef enum LsmJobType
{
	LSM_JOB_FLUSH,
	LSM_JOB_COMPACT,
	LSM_JOB_BUILD
} LsmJobType;

/* Files that wait for being logged, of all jobs together (wal_offload.c) */
#define LSM_HELP_SLOTS	16

/* Is the entry to be left out?  Asked about each that a compaction reads. */
typedef bool (*LsmJobDrops) (void *state, LsmSlice key, LsmSlice value);

struct LsmPlan;

/* pace.c, rate.c */
typedef struct JobPace
{
	bool		limited;		/* lsm.compaction_rate applies ... */
	uint64		paid_bytes;		/* ... and has been asked for these */
	uint64		charged_bytes;	/* written, that VACUUM has been charged for */
} JobPace;

/* job_entry.c: deciding about entries */
typedef struct JobEntries
{
	LsmFateContext fate;
	StringInfoData rewritten;
	int			nbelow;			/* runs that may hold older entries */
	const LsmRun **below;
	int		   *below_at;		/* first file not entirely before the last key */
} JobEntries;

/* compact.c: the files that are read, whose filters may be merged */
typedef struct JobInput
{
	int			nfiles;
	LsmFile   **files;
	LsmJobDrops drops;			/* NULL: nothing is left out but for its fate */
	void	   *drops_state;
	uint64		nvalues_dropped;	/* rows that no one can see any more */
	bool		dropped;		/* an entry was, since the last file was
								 * finished */
	bool		finishing;		/* all of them have been read */
} JobInput;

/* output_job.c: the files that are written */
typedef struct JobOutput
{
	int			level;
	uint64		run;
	LsmFilterBuilder filter;	/* of the file at hand */
	LsmCompression compression;
	LsmCompression bottom_compression;	/* of files with nothing below them */
	uint32		written_as;		/* filter and compression */
	uint32		bottom_written_as;	/* filter and bottom_compression */
	bool		keeps_scheme;	/* filters are of the builder's scheme, wherever
								 * the file is */
	uint64		target_bytes;	/* of a file of full size */
	uint64		cut_bytes;		/* files end at this size, or before */
	LsmSstWriter *writer;		/* NULL: no file open */
	Size		unmeasured_bytes;	/* added since the file's size was looked
									 * at */
	StringInfoData last_key;	/* of the file that is being finished */
	uint64		ndeletes;		/* of the open file */
	LsmFileMeta *files;			/* finished ones, then the one being written */
	int			nfiles;			/* finished */
	int			nstarted;
	bool		logged;			/* files are in WAL, or parts of them */
	int			max_files;
	uint64		bytes;			/* of finished files and filters */
} JobOutput;

/* wal_offload.c: output files that others may log */
typedef struct JobOffload
{
	struct
	{
		int			at;			/* in the job's output */
		int			slot;
	}			files[LSM_HELP_SLOTS];
	int			nfiles;
	bool	   *logged;			/* of the job's output: others have; so many: */
	int			nlogged;
} JobOffload;

/* job_report.c: what is shown, counted and logged of it */
typedef struct JobReport
{
	LsmProgress progress;
	int			number;
	instr_time	begun;
	PGRUsage	usage;			/* then */
	WalUsage	wal_usage;
} JobReport;

/* A member for each file that looks after something of a job. */
typedef struct LsmJob
{
	LsmJobMark	mark;			/* among the process's active jobs */
	int			nest_level;		/* subtransaction it belongs to */
	MemoryContext cxt;
	MemoryContext entry_cxt;	/* reset now and then */
	MemoryContextCallback callback;

	LsmJobType	type;
	LsmTree    *tree;
	LsmTreeShared *ctl;
	uint64		keyspace_id;
	LsmClaim   *claim;			/* in ctl, or NULL */
	uint32		others_levels;	/* claimed by others when this one was */
	bool		published;		/* the files belong to the tree */
	LsmVersion *version;		/* pinned, or NULL */

	JobInput	input;
	JobEntries	entry;
	JobOutput	output;
	JobPace		pace;
	JobOffload	offload;
	struct LsmInheritance *inheritance; /* elastic_inherit.c */
	JobReport	report;
} LsmJob;

/* ---- output_job.c ---- */

/* Output goes to `level` (0: as run `run`).  ERROR leaves nothing behind. */
extern LsmJob *lsm_job_begin(LsmTree *tree, LsmJobType type, int level, uint64 run);

/* The version the job starts from; pinned until it ends. */
extern void lsm_job_set_version(LsmJob *job, LsmVersion *version);

/*
 * Is the block that the job began with still the tree's?  If not, the tree
 * was dropped or has moved: nothing can be published, and others wait for
 * the job's end.
 */
static inline bool
lsm_job_current(const LsmJob *job)
{
	return pg_atomic_read_u64(&job->ctl->keyspace_id) == job->keyspace_id;
}

/*
 * Numbers for output of this many bytes.  REQUIRES: the relation locked for
 * publishing.
 */
extern void lsm_job_reserve(LsmJob *job, uint64 bytes);

/* ERROR: the job's block is not the tree's any more. */
pg_noreturn extern void lsm_job_report_replaced(LsmJob *job);

/* All that it has written so far */
static inline uint64
lsm_job_written_bytes(const LsmJob *job)
{
	return job->output.bytes +
		(job->output.writer != NULL ? lsm_sst_writer_bytes(job->output.writer) : 0);
}

/* Write an entry as it is.  Ascending keys. */
extern void lsm_job_add(LsmJob *job, LsmSlice key, LsmSlice value);

/*
 * End the file at hand if it is large enough, which is written to disk then.
 * REQUIRES: outside the epoch.
 */
extern void lsm_job_cut(LsmJob *job);

/*
 * The filter of the builder's keys; freed with *chunk.  *scheme is its scheme.
 * REQUIRES: meta has the file's range.
 */
extern void *lsm_job_filter_image(LsmJob *job, const LsmFileMeta *meta, LsmFilterScheme *scheme,
								  Size *image_bytes, void **chunk);

/* Finish the last file; make all of them durable and log them. */
extern void lsm_job_finish(LsmJob *job);

/* Gives up ownership, removes files that were not published.  Never fails. */
extern void lsm_job_end(LsmJob *job);

/* ---- job_entry.c ---- */

/*
 * Entries older than the job's can lie in the version's runs from `first` on.
 */
extern void lsm_job_set_below(LsmJob *job, int first);

/*
 * Decide about an entry (fate) and write what is left of it.  Ascending keys.
 */
extern void lsm_job_entry(LsmJob *job, LsmSlice key, LsmSlice value);

/* The same of a memtable's: its values, folded as far as one of them counts. */
extern void lsm_job_node(LsmJob *job, LsmMemNode *node, StringInfo scratch);

/* ---- job_report.c ---- */

/* What the job reads; LSM_PROGRESS_UNKNOWN where that is not known. */
typedef struct LsmJobInput
{
	int			level;			/* unknown: memtables */
	int64		files;
	int64		entries;
	int64		bytes;
} LsmJobInput;

/* The work begins: from here on the job is seen in pg_stat_lsm_progress. */
extern void lsm_job_report_begin(LsmJob *job, LsmProgressCommand command,
								 const LsmJobInput *input);
extern void lsm_job_report_phase(LsmJob *job, LsmProgressPhase phase);

/* This many entries have been read.  Not for each of them. */
extern void lsm_job_report_entries(LsmJob *job, int64 entries_done);

/* Published: count it, and log it if it took long.  `moved` files. */
extern void lsm_job_report_done(LsmJob *job, int moved);

/* The job's end, whatever the outcome.  Never fails. */
extern void lsm_job_report_end(LsmJob *job);

/* ---- wal_offload.c ---- */

/* Have a finished file of the job's output logged by a worker, if one has time. */
extern void lsm_wal_offload_offer(LsmJob *job, int at);

/*
 * For each file, wanted or not: is it still to be logged by the job?  If not,
 * wait for it.
 */
extern bool lsm_wal_offload_reclaim(LsmJob *job, int at);
extern bool lsm_wal_offload_wait(LsmJob *job, int at);
extern void lsm_wal_offload_end(LsmJob *job);

/* Workers: log one of these files. */
extern bool lsm_wal_offload_run(void);

/* ---- mergefilter.c ---- */

/*
 * Write the filter of the file that is being finished from those of the files
 * it was made of.  0: cannot be done; else bytes used of the image.
 */
extern Size lsm_job_merge_filters(LsmJob *job, const LsmFileMeta *meta,
								  const LsmFilterParams *params,
								  void *image, Size image_bytes);

/* ---- filter_plan.c ---- */

/*
 * Scheme and bits per key that the filter of the file is to have, where they
 * differ by the file's place in the tree.  *params are what the tree's settings
 * say.
 */
extern void lsm_job_plan_filter(const LsmJob *job, const LsmFileMeta *meta,
								LsmFilterParams *params);

/* ---- publish_lock.c ---- */

/*
 * Make sure that the relation cannot go away: a backend has its lock already;
 * a worker takes database and relation lock, without waiting.  False: not now.
 */
extern bool lsm_publish_lock(LsmTree *tree);
extern void lsm_publish_unlock(LsmTree *tree);

/* After an error: the locks went with the transaction. */
extern void lsm_publish_abort(void);

/* ---- publish.c ---- */

/*
 * Publish: edit, then `flushed` (if any) leaves the set.  False: the relation
 * could not be locked (worker), nothing was done.
 */
extern bool lsm_publish(LsmJob *job, LsmEdit *edit, LsmMemtable *flushed);

/* The hints for writers and workers, after the version changed. */
extern void lsm_publish_hints(LsmTree *tree, LsmVersion *version);

/* ---- pace.c ---- */

/*
 * To be called after each millisecond of work or so: the job has read this many
 * bytes since the last time.  May sleep.  REQUIRES: outside the epoch, no LWLock.
 */
extern void lsm_job_pace(LsmJob *job, uint64 read_bytes);

/* ---- rate.c ---- */

/* For workers: the rate in the configuration file is this process's. */
extern void lsm_rate_note_server(void);

/* ---- unlink_queue.c ---- */

/* Room for n more, so that queueing after the edit cannot fail. */
extern void lsm_unlink_reserve(int n);

/*
 * Queue what the edit removed and did not add again.  REQUIRES: room reserved.
 */
extern void lsm_unlink_enqueue(LsmJob *job, const LsmEdit *edit);

/*
 * Unlink what is queued and whose epoch has passed; `wait`: until all have.
 * REQUIRES: in a transaction; outside the epoch, no LWLock.
 */
extern void lsm_unlink_drain(bool wait);

/* ---- claim.c ---- */

/*
 * For planning a step: all levels but job->others_levels, those that others
 * have.  False: somebody has all of them or plans, a request waits (and the job
 * is `limited`), or the tree is not loaded (any more).
 */
extern bool lsm_claim_plan(LsmJob *job);

/* The step has been planned: it takes these levels. */
extern void lsm_claim_keep(LsmJob *job, uint32 levels);

/* All levels.  False: somebody has one; then workers hold back for a while. */
extern bool lsm_claim_whole(LsmJob *job);

#ifdef USE_ASSERT_CHECKING
/* This process has claimed these levels (for this job, or one around it). */
extern bool lsm_claim_covers(const LsmTreeShared *ctl, uint32 levels);
#endif

/* ---- compact.c ---- */

/* 1.0 or more: a step of compaction is due; the more, the more urgent. */
extern double lsm_compaction_score(LsmTree *tree, LsmVersion *version);

/*
 * What compactions will have to read, about, until none is due.  REQUIRES: one
 * is due.
 */
extern uint64 lsm_pending_bytes(LsmTree *tree, LsmVersion *version);

/*
 * Do what the plan says.  False: the relation could not be locked for
 * publishing, or the tree was dropped or has moved (worker).  REQUIRES: this
 * process has claimed the plan's levels; the plan is of the job's version.
 */
extern bool lsm_compact_run(LsmJob *job, struct LsmPlan *plan);

/*
 * A job that has all levels, waiting for who has some.  As long as it lasts,
 * the tree stays loaded.
 */
extern LsmJob *lsm_compact_own(LsmTree *tree, LsmJobType type);

/* ---- repair.c ---- */

/*
 * Look at the filter of a file, and build it again if it is missing or damaged.
 * REQUIRES: a job of this process has claimed the file's level, if there is such
 * a file.
 */
extern void lsm_repair_file(LsmTree *tree, uint64 number);

/* ---- elastic_inherit.c ---- */

/*
 * Around publishing.  `prepare` registers the job's new files with what they
 * inherit, before anyone can open them; `finish`, when the edit is done, lets
 * the old ones go and gives the new ones their units.  Nothing here fails for
 * lack of anything: then files begin without hotness.
 */
extern void lsm_elastic_publish_prepare(LsmJob *job, const LsmEdit *edit);
extern void lsm_elastic_publish_finish(LsmJob *job, const LsmEdit *edit);

#endif							/* LSM_OUTPUT_JOB_H */
