/*-------------------------------------------------------------------------
 *
 * compact.c
 *	  Leveled compaction: doing what plan.c says is due, and requests for more.
 *
 * Who compacts which levels, and why the files that a step reads stay: claim.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/compaction/plan.h"
#include "tree/control/clock.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"
#include "tree/read/merge.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

#define FILES_PER_PUSH		16	/* of one level in a step of a full compaction */
#define PAUSE_EVERY_BYTES	(4 * 1024 * 1024)	/* of output: flushes may go first */
#define LOOK_EVERY_MS		1000	/* whether the relation is still there */

/* ======================================================================
 * Doing it
 * ====================================================================== */

static void
edit_from_plan(LsmPlan *plan, LsmEdit *edit)
{
	memset(edit, 0, sizeof(LsmEdit));
	edit->removed = palloc(plan->nfiles * sizeof(uint64));
	for (int i = 0; i < plan->nfiles; i++)
		edit->removed[edit->nremoved++] = plan->files[i]->number;
	if (!plan->move)
		return;
	edit->added = palloc_extended(plan->nfiles * sizeof(LsmFileMeta),
								  MCXT_ALLOC_HUGE);
	for (int i = 0; i < plan->nfiles; i++)
	{
		LsmFileMeta *meta = &edit->added[edit->nadded++];

		lsm_file_meta(plan->files[i], meta);
		meta->level = plan->out_level;
		meta->run = 0;
	}
}

/*
 * Let flushes through, and others to the disk.  So many bytes have been read
 * since the last time.
 */
static void
compact_pause(LsmJob *job, uint64 read_bytes, uint64 *paused_at)
{
	uint64		written = lsm_job_written_bytes(job);
	bool		file_ended = job->output.bytes > *paused_at;	/* a part of one was */

	lsm_job_pace(job, read_bytes);
	if (!file_ended && written < *paused_at + PAUSE_EVERY_BYTES)
		return;
	*paused_at = written;
	if (lsm_compact_pause_hook != NULL)
		lsm_compact_pause_hook();
}

/*
 * Is the result still wanted?  The block tells of moves.  Of a dropped relation
 * it knows nothing: that has lost its main fork, which is looked for once in a
 * while.
 */
static bool
compact_wanted(LsmJob *job, TimestampTz *next_look)
{
	LsmTree    *tree = job->tree;
	TimestampTz now;

	if (!lsm_job_current(job))
		return false;
	now = lsm_monotonic_now();
	if (now < *next_look)
		return true;
	*next_look = TimestampTzPlusMilliseconds(now, LOOK_EVERY_MS);
	return lsm_fork_exists(tree->rlocator, tree->backend);
}

/*
 * Merge the plan's files into new ones.  False: the tree was dropped or has
 * moved.
 */
static bool
compact_merge(LsmJob *job, LsmPlan *plan)
{
	LsmMerge   *merge = lsm_merge_open(job->tree, plan->sequences,
									   plan->nsequences);
	LsmSlice	key;
	LsmSlice	value;
	uint64		entries = 0;
	uint64		read_bytes = 0;
	uint64		paused_at = 0;
	TimestampTz next_look = 0;
	int			nfiles = 0;

	while (lsm_merge_next(merge, &key, &value))
	{
		read_bytes += key.len + value.len;
		if (job->input.drops != NULL && job->input.drops(job->input.drops_state, key, value))
			job->input.dropped = true;
		else
			lsm_job_entry(job, key, value);
		if (++entries % 1000 == 0)
		{
			CHECK_FOR_INTERRUPTS();
			lsm_job_report_entries(job, lsm_merge_entries(merge));
			if (!compact_wanted(job, &next_look))
				return false;
		}
		if (entries % 1000 == 0 || job->output.nfiles != nfiles)
		{
			nfiles = job->output.nfiles;
			compact_pause(job, read_bytes, &paused_at);
			read_bytes = 0;
		}
	}
	lsm_job_report_entries(job, lsm_merge_entries(merge));
	lsm_job_finish(job);
	return true;
}

/* The work begins. */
static void
compact_report_begin(LsmJob *job, const LsmPlan *plan)
{
	LsmJobInput input = {.level = LSM_MAX_LEVELS,.files = plan->nfiles};

	for (int i = 0; i < plan->nfiles; i++)
	{
		input.level = Min(input.level, plan->files[i]->level);
		input.entries += plan->files[i]->entries;
		input.bytes += plan->files[i]->file_bytes;
	}
	lsm_job_report_begin(job, LSM_PROGRESS_COMPACT, &input);
}

bool
lsm_compact_run(LsmJob *job, LsmPlan *plan)
{
	LsmEdit		edit;
	uint32		levels PG_USED_FOR_ASSERTS_ONLY = lsm_plan_levels(plan);

	/* claim.c: nothing passes a level that another has */
	Assert(lsm_claim_covers(job->ctl, levels));
	Assert((levels & ~(LSM_LEVEL_BIT(plan->out_level) | LSM_LEVEL_BIT(plan->out_level) >> 1)) == 0);
	LSM_CRASH_POINT("compact_started");
	job->output.level = plan->out_level;
	job->output.run = plan->out_run;
	edit_from_plan(plan, &edit);
	compact_report_begin(job, plan);
#ifdef LSM_TESTING
	if (plan->out_level > 2)
		LSM_CRASH_POINT("compact_started_deep");
#endif
	if (!plan->move)
	{
		lsm_job_report_phase(job, LSM_PHASE_WRITING);
		lsm_job_set_below(job, plan->below);
		job->input.nfiles = plan->nfiles;
		job->input.files = plan->files;
		if (!compact_merge(job, plan))
			return false;
		edit.nadded = job->output.nfiles;
		edit.added = job->output.files;
	}
	if (!lsm_publish(job, &edit, NULL))
		return false;
	lsm_count(job->tree, LSM_COUNT_COMPACTIONS, 1);
	lsm_count(job->tree, LSM_COUNT_BYTES_COMPACTED, job->output.bytes);
	lsm_job_report_done(job, plan->move ? plan->nfiles : 0);
	return true;
}

LsmJob *
lsm_compact_own(LsmTree *tree, LsmJobType type)
{
	Assert(!lsm_epoch_inside());
	for (;;)
	{
		LsmJob	   *job;

		lsm_tree_enter(tree);
		lsm_tree_exit(tree);
		lsm_tree_require_files(tree);
		ConditionVariablePrepareToSleep(&tree->ctl->cv);
		job = lsm_job_begin(tree, type, 1, 0);
		if (lsm_claim_whole(job))
		{
			ConditionVariableCancelSleep();
			return job;
		}
		lsm_job_end(job);
		(void) ConditionVariableTimedSleep(&tree->ctl->cv, 1000, LSM_WAIT_EVENT("LsmCompaction"));
		ConditionVariableCancelSleep();
		CHECK_FOR_INTERRUPTS();
	}
}

static uint64
plan_bytes(const LsmPlan *plan)
{
	uint64		bytes = 0;

	for (int i = 0; i < plan->nfiles; i++)
		bytes += plan->files[i]->file_bytes;
	return bytes;
}

/* The next step, and what it takes; NULL: none is due. */
static LsmPlan *
plan_step(LsmJob *job)
{
	LsmTree    *tree = job->tree;
	LsmPlan    *plan;

	lsm_job_set_version(job, lsm_version_refresh(tree));

	/* beside others: the one who published last has set them */
	if (job->others_levels == 0)
		lsm_publish_hints(tree, job->version);
	plan = lsm_plan_due(tree, job->version, job->others_levels);
	if (plan == NULL && job->others_levels == 0)
		plan = lsm_plan_paid(tree, job->version);
	if (plan != NULL)
		lsm_claim_keep(job, lsm_plan_levels(plan));
	if (plan != NULL && !plan->move)
		lsm_job_reserve(job, plan_bytes(plan));
	return plan;
}

/* One due step.  REQUIRES: job has the claim of a planner. */
static LsmCompactResult
compact_due(LsmJob *job)
{
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	LsmCompactResult result = LSM_COMPACT_NOT_NOW;

	Assert(job->claim != NULL && job->claim->levels == LSM_ALL_LEVELS);
	/* also to see whether publishing will be possible */
	if (lsm_publish_lock(job->tree))
	{
		LsmPlan    *plan = plan_step(job);

		lsm_publish_unlock(job->tree);
		if (plan == NULL)
			result = LSM_COMPACT_NOTHING;
		else if (lsm_compact_run(job, plan))
			result = LSM_COMPACT_DONE;
	}
	MemoryContextSwitchTo(old);
	return result;
}

LsmCompactResult
lsm_compact_once(LsmTree *tree, bool conditional)
{
	LsmJob	   *job;
	LsmCompactResult result = LSM_COMPACT_NOT_NOW;

	Assert(!lsm_epoch_inside());
	job = lsm_job_begin(tree, LSM_JOB_COMPACT, 1, 0);
	job->pace.limited = conditional;
	if (lsm_claim_plan(job))
		result = compact_due(job);
	lsm_job_end(job);
	return result;
}

/* Somebody compacts level 0, or the one that it goes down to, or plans. */
static bool
level0_busy(LsmTree *tree, LsmTreeShared *ctl)
{
	bool		busy;

	LWLockAcquire(&ctl->lock, LW_SHARED);
	busy = pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		(lsm_claimed_levels(ctl) & (LSM_LEVEL_BIT(0) | LSM_LEVEL_BIT(1))) != 0;
	LWLockRelease(&ctl->lock);
	return busy;
}

/*
 * Called by a writer that found level 0 too deep, before it registers.  Returns
 * when level 0 has become shallower, or when there is nothing more to do.
 */
void
lsm_compact_stall(LsmTree *tree)
{
	Assert(!lsm_key_lock_is_held());
	for (;;)
	{
		LsmTreeShared *ctl;
		bool		busy;

		CHECK_FOR_INTERRUPTS();
		lsm_tree_enter(tree);
		ctl = tree->ctl;
		lsm_tree_exit(tree);
		if (lsm_version_refresh(tree)->level0_runs < LSM_L0_STOP_RUNS)
		{
			lsm_publish_hints(tree, tree->version);
			return;
		}

		ConditionVariablePrepareToSleep(&ctl->cv);
		busy = level0_busy(tree, ctl);
		if (busy)
			(void) ConditionVariableTimedSleep(&ctl->cv, 1000, LSM_WAIT_EVENT("LsmCompaction"));
		ConditionVariableCancelSleep();

		/* nobody is at it: do it here.  False: nothing due, or lost a race */
		if (!busy && lsm_compact_once(tree, false) != LSM_COMPACT_DONE &&
			!level0_busy(tree, ctl))
			return;
	}
}

/* ======================================================================
 * Requests: full compaction, freezing, dropping dead entries
 * ====================================================================== */

/*
 * A request walks the levels downwards once.  At each level it deals with the
 * files that were there when the level's turn came.
 */
typedef struct Request
{
	const LsmCompactRequest *what;
	uint64		start;			/* files from this number on are ours or newer */
	int			level;
	uint64		mark;			/* files from this number on came after the
								 * level's turn began */
	int			last;			/* full: everything goes to this level */
	int			reliefs;		/* steps in a row that are not the request's */
	uint32		written_as;		/* full: so shall every file be */
} Request;

static bool
request_wants(const Request *request, const LsmFile *file)
{
	const LsmCompactRequest *what = request->what;
	const uint8 unfinished = LSM_FILE_HAS_PARTIAL | LSM_FILE_HAS_DELETE;

	if (file->number >= request->mark)
		return false;

	/* in the last level everything is written for it, also what was moved */
	if (what->full && request->level == request->last &&
		(!(file->flags & LSM_FILE_HAS_CHECKS) || file->written_as != request->written_as))
		return true;

	/*
	 * What this request has written already needs another look only if
	 * something in it may go once the level below has been seen.
	 */
	if (file->number >= request->start && !(file->flags & unfinished))
		return false;
	if (what->full && (!(file->flags & LSM_FILE_HAS_CHECKS) ||
					   file->written_as != request->written_as))
		return true;
	if ((what->drop_dead || what->full) &&
		(file->flags & (unfinished | LSM_FILE_HAS_DYING)))
		return true;
	return TransactionIdIsValid(what->freeze_limit) &&
		TransactionIdIsValid(file->min_xid) &&
		TransactionIdPrecedes(file->min_xid, what->freeze_limit);
}

static LsmPlan *
request_plan_level0(Request *request, LsmVersion *version)
{
	/* oldest first */
	for (int i = version->level_files[0] - 1; i >= 0; i--)
	{
		LsmFile    *file = lsm_version_file(version, i);
		bool		wanted = request_wants(request, file);

		if (wanted || (request->what->full && file->number < request->mark))
			return lsm_plan_level0(version, i, wanted);
	}
	return NULL;
}

/*
 * A level >= 1 of a full compaction that is not the last: push some files down.
 */
static LsmPlan *
request_plan_push(Request *request, LsmVersion *version, int level)
{
	LsmRun	   *run = version->levels[level];

	for (int i = 0; run != NULL && i < run->nfiles; i++)
	{
		int			last = i;

		if (run->files[i].number >= request->mark)
			continue;
		while (last + 1 < run->nfiles && last + 1 < i + FILES_PER_PUSH &&
			   run->files[last + 1].number < request->mark)
			last++;
		return lsm_plan_push(version, level, i, last);
	}
	return NULL;
}

/*
 * A level >= 1: the next wanted file.  Where older entries may lie below,
 * values that are not complete have to meet them; else it is rewritten where
 * it is.
 */
static LsmPlan *
request_plan_wanted(Request *request, LsmVersion *version, int level)
{
	LsmRun	   *run = version->levels[level];

	for (int i = 0; run != NULL && i < run->nfiles; i++)
	{
		LsmFile    *file = &run->files[i];

		if (!request_wants(request, file))
			continue;
		if (level < LSM_MAX_LEVELS - 1 &&
			(file->flags & (LSM_FILE_HAS_PARTIAL | LSM_FILE_HAS_DELETE)) &&
			lsm_plan_overlaps_below(version, level, file))
			return lsm_plan_push(version, level, i, i);
		return lsm_plan_rewrite(version, run, i, i);
	}
	return NULL;
}

/* The next step, or NULL at the end. */
static LsmPlan *
request_plan(LsmTree *tree, Request *request, LsmVersion *version)
{
	for (; request->level < LSM_MAX_LEVELS; request->level++)
	{
		int			level = request->level;
		LsmPlan    *plan;

		if (request->mark == 0)
			request->mark = pg_atomic_read_u64(&tree->ctl->files.next_file);

		plan = level > 0 ? lsm_plan_relief(version, &request->reliefs) : NULL;
		if (plan != NULL)
			return plan;
		if (level == 0)
			plan = request_plan_level0(request, version);
		else if (request->what->full && level < request->last)
			plan = request_plan_push(request, version, level);
		else
			plan = request_plan_wanted(request, version, level);
		if (plan != NULL)
			return plan;
		request->mark = 0;
	}
	return NULL;
}

/* The level that everything fits in. */
static int
request_last_level(LsmTree *tree, LsmVersion *version)
{
	int			last = Max(version->deepest, 1);
	double		bytes = 0;

	for (int i = 0; i < LSM_MAX_LEVELS; i++)
		bytes += version->level_bytes[i];
	while (last < LSM_MAX_LEVELS - 1 && bytes > lsm_level_target(tree, last))
		last++;
	return last;
}

/* One step of a request; false at its end.  `relief`: for writers only. */
static bool
request_step(LsmTree *tree, Request *request, bool relief)
{
	LsmJob	   *job = lsm_job_begin(tree, LSM_JOB_COMPACT, 1, 0);
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	LsmPlan    *plan;

	lsm_job_set_version(job, lsm_version_refresh(tree));
	if (request->last == 0)
		request->last = request_last_level(tree, job->version);
	plan = relief ? lsm_plan_relief(job->version, &request->reliefs) :
		request_plan(tree, request, job->version);
	if (plan != NULL)
	{
		job->entry.fate.freeze_limit = request->what->freeze_limit;
		job->pace.limited = !request->what->urgent;
		if (!lsm_compact_run(job, plan))
			elog(ERROR, "could not lock the relation of an lsm tree for a compaction");
	}
	MemoryContextSwitchTo(old);
	lsm_job_end(job);
	return plan != NULL;
}

/* Of all files that there are now, one after the other */
static void
request_filters(LsmTree *tree, Request *request)
{
	LsmVersion *version = lsm_version_refresh(tree);
	int			n = version->nfiles;
	uint64	   *numbers = palloc(Max(n, 1) * sizeof(uint64));

	for (int i = 0; i < n; i++)
		numbers[i] = lsm_version_file(version, i)->number;
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		lsm_repair_file(tree, numbers[i]);
		(void) request_step(tree, request, true);
	}
	pfree(numbers);
}

void
lsm_tree_compact(LsmTree *tree, const LsmCompactRequest *what)
{
	Request		request = {0};
	LsmJob	   *owner;

	/* own the compaction from the first to the last step */
	owner = lsm_compact_own(tree, LSM_JOB_COMPACT);
	request.what = what;
	request.start = pg_atomic_read_u64(&tree->ctl->files.next_file);
	request.written_as = lsm_tree_written_as(tree, lsm_tree_bottom_compression(tree));
	while (request_step(tree, &request, false))
		CHECK_FOR_INTERRUPTS();
	if (what->full)
		request_filters(tree, &request);
	lsm_job_end(owner);
}
