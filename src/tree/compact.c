/*-------------------------------------------------------------------------
 *
 * compact.c
 *	  Leveled compaction: what to do next, and doing it.
 *
 * Level 0 is measured in runs, level i >= 1 in bytes against memtable size *
 * T^i; the highest score goes first (as in LevelDB and RocksDB).  A step takes
 * files of one level with everything they overlap in the next one; files that
 * overlap nothing move down without being rewritten.
 *
 * One compactor per tree: ctl->compact_pid, under ctl->lock.  Only the
 * compactor removes files from the version, so the files it reads stay.
 * Flushes go on meanwhile: they only add to level 0, and what they add is newer
 * than everything the step has taken.
 *
 * What may leave level 0: a file can go down only together with every older
 * file of level 0 that overlaps it.  We take whole sets of files connected by
 * overlap, which is more than needed and simple.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"

#include "tree/filecache.h"
#include "tree/job.h"

#define MOVES_PER_EDIT		64
#define FILES_PER_PUSH		16	/* of one level in a step of a full compaction */

typedef struct Plan
{
	int			out_level;
	bool		move;			/* only change the level */
	int			nsequences;
	LsmSequence *sequences;		/* newest first */
	int			nfiles;
	LsmFile   **files;			/* all inputs */
} Plan;

typedef struct Range
{
	bool		any;
	LsmSlice	low;
	LsmSlice	high;
	bool		high_cut;
} Range;

/* ======================================================================
 * Ranges
 * ====================================================================== */

static void
range_add(Range *range, const LsmFile *file)
{
	bool		cut = (file->flags & LSM_FILE_LARGEST_CUT) != 0;
	int			c;

	if (!range->any || lsm_slice_compare(file->smallest, range->low) < 0)
		range->low = file->smallest;
	c = range->any ? lsm_slice_compare(file->largest, range->high) : 1;
	if (c > 0)
		range->high_cut = cut;
	else if (c == 0)
		range->high_cut |= cut;
	if (c > 0)
		range->high = file->largest;
	range->any = true;
}

/* Touching at a cut fence counts as overlap. */
static bool
range_overlaps(const Range *range, const LsmFile *file)
{
	if (!range->any || lsm_file_before(file, range->low))
		return false;
	if (lsm_slice_compare(range->high, file->smallest) >= 0)
		return true;
	return range->high_cut && lsm_slice_has_prefix(file->smallest, range->high);
}

static bool
overlaps_level(const LsmVersion *version, int level, const Range *range)
{
	const LsmRun *run = level < LSM_MAX_LEVELS ? version->levels[level] : NULL;

	for (int i = 0; run != NULL && i < run->nfiles; i++)
	{
		if (range_overlaps(range, &run->files[i]))
			return true;
	}
	return false;
}

static bool
overlaps_below(const LsmVersion *version, int level, const Range *range)
{
	for (int i = level + 1; i < LSM_MAX_LEVELS; i++)
	{
		if (overlaps_level(version, i, range))
			return true;
	}
	return false;
}

/* ======================================================================
 * Plans
 * ====================================================================== */

static Plan *
plan_begin(LsmVersion *version, int out_level)
{
	Plan	   *plan = palloc0(sizeof(Plan));

	plan->out_level = out_level;
	plan->files = palloc(Max(version->nfiles, 1) * sizeof(LsmFile *));
	plan->sequences = palloc(Max(version->nruns, 1) * sizeof(LsmSequence));
	return plan;
}

/*
 * The files of the version marked in picked[], run by run, newest data first (the order of
 * version->files).
 */
static Plan *
plan_from_marks(LsmVersion *version, const bool *picked, int out_level)
{
	Plan	   *plan = plan_begin(version, out_level);

	for (int r = 0; r < version->nruns; r++)
	{
		LsmRun	   *run = &version->runs[r];
		LsmSequence *sequence = &plan->sequences[plan->nsequences];

		sequence->files = &plan->files[plan->nfiles];
		sequence->nfiles = 0;
		for (int i = 0; i < run->nfiles; i++)
		{
			if (picked[&run->files[i] - version->files])
			{
				plan->files[plan->nfiles++] = &run->files[i];
				sequence->nfiles++;
			}
		}
		if (sequence->nfiles > 0)
			plan->nsequences++;
	}
	return plan;
}

/* A cut fence leaves open where one file ends and the next begins. */
static bool
touches_next(const LsmRun *run, int at)
{
	return at + 1 < run->nfiles &&
		(run->files[at].flags & LSM_FILE_LARGEST_CUT) &&
		lsm_slice_has_prefix(run->files[at + 1].smallest, run->files[at].largest);
}

/*
 * Mark the files of a level >= 1 that touch marked ones, too.  The order of
 * files with equal fences is that of their numbers, so they have to be
 * rewritten together.
 */
static void
mark_touching(LsmVersion *version, int level, bool *picked)
{
	LsmRun	   *run = version->levels[level];
	bool	   *marks = run != NULL ? &picked[run->files - version->files] : NULL;

	for (int i = 0; run != NULL && i + 1 < run->nfiles; i++)
	{
		if (marks[i] && touches_next(run, i))
			marks[i + 1] = true;
	}
	for (int i = run != NULL ? run->nfiles - 2 : -1; i >= 0; i--)
	{
		if (marks[i + 1] && touches_next(run, i))
			marks[i] = true;
	}
}

/* Mark what the range overlaps in the level of the output; is there anything? */
static bool
mark_level(LsmVersion *version, int level, const Range *range, bool *picked)
{
	LsmRun	   *run = version->levels[level];
	bool		any = false;

	for (int i = 0; run != NULL && i < run->nfiles; i++)
	{
		if (range_overlaps(range, &run->files[i]))
		{
			picked[&run->files[i] - version->files] = true;
			any = true;
		}
	}
	mark_touching(version, level, picked);
	return any;
}

/* Mark the level 0 files connected with `seed` by overlap. */
static int
mark_connected(LsmVersion *version, LsmFile *seed, bool *picked, Range *range)
{
	int			n = 1;
	bool		again = true;

	picked[seed - version->files] = true;
	range_add(range, seed);
	while (again)
	{
		again = false;
		for (int i = 0; i < version->level_files[0]; i++)
		{
			if (picked[i] || !range_overlaps(range, &version->files[i]))
				continue;
			picked[i] = true;
			range_add(range, &version->files[i]);
			n++;
			again = true;
		}
	}
	return n;
}

/*
 * Level 0 into level 1, the files connected with `seed`.  `rewrite`: do not just move.
 */
static Plan *
plan_level0(LsmVersion *version, LsmFile *seed, bool rewrite)
{
	bool	   *picked = palloc0(version->nfiles * sizeof(bool));
	Range		range = {0};
	int			n = mark_connected(version, seed, picked, &range);
	bool		below = mark_level(version, 1, &range, picked);
	Plan	   *plan = plan_from_marks(version, picked, 1);

	plan->move = n == 1 && !below && !rewrite;
	return plan;
}

/*
 * All level 0 files that overlap nothing in levels 0 and 1: move them together.
 * NULL if there is none.  Two that only touch are not moved in one edit.
 */
static Plan *
plan_level0_moves(LsmVersion *version)
{
	Plan	   *plan = plan_begin(version, 1);

	for (int i = 0; i < version->level_files[0]; i++)
	{
		LsmFile    *file = &version->files[i];
		Range		range = {0};
		bool		alone = true;

		range_add(&range, file);
		for (int j = 0; j < version->level_files[0] && alone; j++)
			alone = j == i || !range_overlaps(&range, &version->files[j]);
		if (alone && !overlaps_level(version, 1, &range))
			plan->files[plan->nfiles++] = file;
		if (plan->nfiles == MOVES_PER_EDIT)
			break;
	}
	plan->move = true;
	return plan->nfiles > 0 ? plan : NULL;
}

/* The oldest file of level 0. */
static LsmFile *
oldest_level0(LsmVersion *version)
{
	return &version->files[version->level_files[0] - 1];
}

/* Files first..last of a level >= 1 into the next one. */
static Plan *
plan_push(LsmVersion *version, int level, int first, int last)
{
	bool	   *picked = palloc0(version->nfiles * sizeof(bool));
	LsmRun	   *run = version->levels[level];
	Range		range = {0};
	bool		below;
	Plan	   *plan;

	for (int i = first; i <= last; i++)
	{
		picked[&run->files[i] - version->files] = true;
		range_add(&range, &run->files[i]);
	}
	below = mark_level(version, level + 1, &range, picked);
	plan = plan_from_marks(version, picked, level + 1);
	plan->move = !below;
	return plan;
}

/* A file rewritten at its level, together with those it touches. */
static Plan *
plan_in_place(LsmVersion *version, int level, int at)
{
	bool	   *picked = palloc0(version->nfiles * sizeof(bool));

	picked[&version->levels[level]->files[at] - version->files] = true;
	mark_touching(version, level, picked);
	return plan_from_marks(version, picked, level);
}

/* ======================================================================
 * What is due
 * ====================================================================== */

/* Bytes a level >= 1 may hold. */
static double
level_target(LsmTree *tree, int level)
{
	double		bytes = lsm_tree_base_bytes(tree);
	int			ratio = lsm_tree_size_ratio(tree);

	for (int i = 0; i < level; i++)
		bytes *= ratio;
	return bytes;
}

double
lsm_compaction_score(LsmTree *tree, LsmVersion *version, int *level)
{
	double		best = (double) version->level0_runs / LSM_L0_COMPACT_RUNS;

	*level = 0;
	for (int i = 1; i < LSM_MAX_LEVELS - 1; i++)
	{
		double		score = version->level_bytes[i] / level_target(tree, i);

		if (score > best)
		{
			best = score;
			*level = i;
		}
	}
	return best;
}

/* The file of the level to compact next: round robin by number. */
static int
next_in_turn(LsmTree *tree, LsmRun *run, uint64 cursor)
{
	int			next = -1;
	int			lowest = 0;

	for (int i = 0; i < run->nfiles; i++)
	{
		uint64		number = run->files[i].number;

		if (number < run->files[lowest].number)
			lowest = i;
		if (number > cursor && (next < 0 || number < run->files[next].number))
			next = i;
	}
	return next >= 0 ? next : lowest;
}

/*
 * Files of the level that overlap nothing in the next one, until the level
 * fits; NULL if the one whose turn it is does.
 */
static Plan *
plan_level_moves(LsmTree *tree, LsmVersion *version, int level, uint64 *cursor)
{
	LsmRun	   *run = version->levels[level];
	Plan	   *plan = plan_begin(version, level + 1);
	double		bytes = version->level_bytes[level];
	double		target = level_target(tree, level);

	plan->move = true;
	while (bytes > target && plan->nfiles < Min(MOVES_PER_EDIT, run->nfiles))
	{
		int			at = next_in_turn(tree, run, *cursor);
		LsmFile    *file = &run->files[at];
		Range		range = {0};

		range_add(&range, file);
		if (overlaps_level(version, level + 1, &range))
			break;
		plan->files[plan->nfiles++] = file;
		bytes -= file->file_bytes;
		*cursor = file->number;
	}
	return plan->nfiles > 0 ? plan : NULL;
}

/* NULL: nothing is due.  REQUIRES: compaction owned. */
static Plan *
plan_due(LsmTree *tree, LsmVersion *version)
{
	uint64	   *cursors = tree->ctl->compact_cursor;
	Plan	   *plan;
	int			level;

	if (lsm_compaction_score(tree, version, &level) < 1.0)
		return NULL;
	if (level == 0)
	{
		plan = plan_level0_moves(version);
		if (plan == NULL)
			plan = plan_level0(version, oldest_level0(version), false);
	}
	else
	{
		plan = plan_level_moves(tree, version, level, &cursors[level]);
		if (plan == NULL)
		{
			LsmRun	   *run = version->levels[level];
			int			at = next_in_turn(tree, run, cursors[level]);

			cursors[level] = run->files[at].number;
			plan = plan_push(version, level, at, at);
		}
	}
	return plan;
}

/* ======================================================================
 * Doing it
 * ====================================================================== */

static void
edit_from_plan(Plan *plan, LsmEdit *edit)
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

/* Merge the plan's files into new ones. */
static void
compact_merge(LsmJob *job, Plan *plan)
{
	LsmMerge   *merge = lsm_merge_open(job->tree, plan->sequences,
									   plan->nsequences);
	LsmSlice	key;
	LsmSlice	value;
	uint64		entries = 0;
	int			written = 0;

	while (lsm_merge_next(merge, &key, &value))
	{
		lsm_job_entry(job, key, value);
		if (++entries % 1000 == 0)
			CHECK_FOR_INTERRUPTS();
		if (job->nfiles != written)
		{
			/* a file was finished: let flushes through */
			written = job->nfiles;
			lsm_worker_yield();
		}
	}
	lsm_job_finish(job);
}

/* False: the relation could not be locked for publishing (worker). */
static bool
compact_run(LsmJob *job, Plan *plan)
{
	LsmEdit		edit;

	LSM_CRASH_POINT("compact_started");
	job->level = plan->out_level;
	edit_from_plan(plan, &edit);
	if (!plan->move)
	{
		lsm_job_set_below(job, plan->out_level + 1);
		job->nsources = plan->nfiles;
		job->sources = plan->files;
		compact_merge(job, plan);
		edit.nadded = job->nfiles;
		edit.added = job->files;
	}
	if (!lsm_publish(job, &edit, NULL))
		return false;
	lsm_count(job->tree, LSM_COUNT_COMPACTIONS, 1);
	lsm_count(job->tree, LSM_COUNT_BYTES_COMPACTED, job->bytes);
	return true;
}

/*
 * Become the compactor.  False: someone else is, or the tree is not loaded (any
 * more).
 */
static bool
compact_claim(LsmJob *job)
{
	LsmTreeShared *ctl = job->ctl;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id &&
		ctl->state == LSM_STATE_LOADED && ctl->compact_pid == 0)
	{
		ctl->compact_pid = MyProcPid;
		job->owns_compaction = true;
	}
	LWLockRelease(&ctl->lock);
	return job->owns_compaction;
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
		ConditionVariablePrepareToSleep(&tree->ctl->cv);
		job = lsm_job_begin(tree, type, 1, 0);
		if (compact_claim(job))
		{
			ConditionVariableCancelSleep();
			return job;
		}
		lsm_job_end(job);
		(void) ConditionVariableTimedSleep(&tree->ctl->cv, 1000, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
		CHECK_FOR_INTERRUPTS();
	}
}

/* One due step.  REQUIRES: job owns the compaction. */
static bool
compact_due(LsmJob *job)
{
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	LsmTree    *tree = job->tree;
	Plan	   *plan;
	bool		done = false;

	/* also to see whether publishing will be possible */
	if (lsm_publish_lock(tree))
	{
		lsm_job_set_version(job, lsm_version_refresh(tree));
		lsm_publish_hints(tree, job->version);
		plan = plan_due(tree, job->version);
		lsm_publish_unlock(tree);
		if (plan != NULL)
			done = compact_run(job, plan);
	}
	MemoryContextSwitchTo(old);
	return done;
}

bool
lsm_compact_once(LsmTree *tree, bool conditional)
{
	LsmJob	   *job;
	bool		done = false;

	Assert(!lsm_epoch_inside());
	job = lsm_job_begin(tree, LSM_JOB_COMPACT, 1, 0);
	if (compact_claim(job))
		done = compact_due(job);
	lsm_job_end(job);
	return done;
}

/*
 * Called by a writer that found level 0 too deep, before it registers.  Returns
 * when level 0 has become shallower, or when there is nothing more to do.
 */
void
lsm_compact_stall(LsmTree *tree)
{
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
		LWLockAcquire(&ctl->lock, LW_SHARED);
		busy = pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
			ctl->compact_pid != 0;
		LWLockRelease(&ctl->lock);
		if (busy)
			(void) ConditionVariableTimedSleep(&ctl->cv, 1000, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();

		/* nobody is at it: do it here.  False: nothing due, or lost a race */
		if (!busy && !lsm_compact_once(tree, false))
		{
			LWLockAcquire(&ctl->lock, LW_SHARED);
			busy = ctl->compact_pid != 0;
			LWLockRelease(&ctl->lock);
			if (!busy)
				return;
		}
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
	uint32		written_as;		/* full: so shall every file be */
} Request;

static bool
request_wants(const Request *request, const LsmFile *file)
{
	const LsmCompactRequest *what = request->what;
	const uint8 unfinished = LSM_FILE_HAS_PARTIAL | LSM_FILE_HAS_DELETE;

	if (file->number >= request->mark)
		return false;

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

static Plan *
request_plan_level0(Request *request, LsmVersion *version)
{
	/* oldest first */
	for (int i = version->level_files[0] - 1; i >= 0; i--)
	{
		LsmFile    *file = &version->files[i];
		bool		wanted = request_wants(request, file);

		if (wanted || (request->what->full && file->number < request->mark))
			return plan_level0(version, file, wanted);
	}
	return NULL;
}

/* A level >= 1 of a full compaction that is not the last: push some files down. */
static Plan *
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
		return plan_push(version, level, i, last);
	}
	return NULL;
}

/*
 * A level >= 1: the next wanted file.  Where older entries may lie below, values
 * that are not complete have to meet them; else it is rewritten where it is.
 */
static Plan *
request_plan_wanted(Request *request, LsmVersion *version, int level)
{
	LsmRun	   *run = version->levels[level];

	for (int i = 0; run != NULL && i < run->nfiles; i++)
	{
		LsmFile    *file = &run->files[i];
		Range		range = {0};

		if (!request_wants(request, file))
			continue;
		range_add(&range, file);
		if (level < LSM_MAX_LEVELS - 1 &&
			(file->flags & (LSM_FILE_HAS_PARTIAL | LSM_FILE_HAS_DELETE)) &&
			overlaps_below(version, level, &range))
			return plan_push(version, level, i, i);
		return plan_in_place(version, level, i);
	}
	return NULL;
}

/* The next step, or NULL at the end. */
static Plan *
request_plan(LsmTree *tree, Request *request, LsmVersion *version)
{
	for (; request->level < LSM_MAX_LEVELS; request->level++)
	{
		int			level = request->level;
		Plan	   *plan;

		if (request->mark == 0)
			request->mark = pg_atomic_read_u64(&tree->ctl->next_file);

		/* writers must not stall for as long as this takes */
		if (level > 0 && version->level0_runs >= 2 * LSM_L0_COMPACT_RUNS)
		{
			plan = plan_level0_moves(version);
			if (plan == NULL)
				plan = plan_level0(version, oldest_level0(version), false);
			return plan;
		}

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
	while (last < LSM_MAX_LEVELS - 1 && bytes > level_target(tree, last))
		last++;
	return last;
}

/* One step of a request; false at its end. */
static bool
request_step(LsmTree *tree, Request *request)
{
	LsmJob	   *job = lsm_job_begin(tree, LSM_JOB_COMPACT, 1, 0);
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	Plan	   *plan;

	lsm_job_set_version(job, lsm_version_refresh(tree));
	if (request->last == 0)
		request->last = request_last_level(tree, job->version);
	plan = request_plan(tree, request, job->version);
	if (plan != NULL)
	{
		job->fate.freeze_limit = request->what->freeze_limit;
		if (!compact_run(job, plan))
			elog(ERROR, "could not lock the relation of an lsm tree for a compaction");
	}
	MemoryContextSwitchTo(old);
	lsm_job_end(job);
	return plan != NULL;
}

void
lsm_tree_compact(LsmTree *tree, const LsmCompactRequest *what)
{
	Request		request = {0};
	LsmJob	   *owner;

	/* own the compaction from the first to the last step */
	owner = lsm_compact_own(tree, LSM_JOB_COMPACT);
	request.what = what;
	request.start = pg_atomic_read_u64(&tree->ctl->next_file);
	request.written_as = lsm_tree_written_as(tree);
	while (request_step(tree, &request))
		CHECK_FOR_INTERRUPTS();
	lsm_job_end(owner);
}
