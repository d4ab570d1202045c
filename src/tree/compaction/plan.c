/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Leveled compaction: what to do next.
 *
 * Level 0 is measured in runs, level i >= 1 in bytes against memtable size *
 * T^i; the highest score goes first (as in LevelDB and RocksDB).  A step takes
 * files of one level with everything they overlap in the next one; files that
 * overlap nothing move down without being rewritten.
 *
 * With random keys, going from level 0 to level 1 rewrites level 1, which is
 * worth it only if level 0 brings much.  Until then its small runs are merged
 * among themselves into a larger one, which stays in level 0 (size-tiered, as
 * in Bigtable and Cassandra): a fourth of the runs that a lookup would have to
 * ask otherwise, for one more writing of what they hold.
 *
 * Files of which many entries are DELETEs go down out of turn, until they have
 * met what they delete: scans walk both, and find nothing.  (RocksDB marks such
 * files for compaction, too.)
 *
 * Files that move down are as small as they were flushed, and where keys only
 * grow, that would be all that ever happens to them: small files that stand side
 * by side are written together where they are, in tiers.
 *
 * What may leave level 0: a file can go down only together with every older
 * file of level 0 that overlaps it.  We take whole sets of files connected by
 * overlap, which is more than needed and simple.
 *
 * Locking: none.  The version is the caller's; files that a plan names stay as
 * long as the caller has claimed their levels (claim.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/compaction/output_job.h"
#include "tree/compaction/plan.h"
#include "tree/control/control.h"
#include "tree/disk/manifest.h"
#include "tree/read/merge.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

#define MOVES_PER_EDIT		64

/* Level 0 goes down when level 1 is at most this many times larger */
#define LEVEL0_DOWN_RATIO	3

/* Runs of level 0 are alike up to this ratio of their sizes */
#define TIER_RATIO			2.0

/*
 * What a flush writes is smaller than the memtable by about this, so runs
 * below are alike
 */
#define TIER_FLOOR			0.25

/* This many small files are worth one, if none has more than a fourth of it. */
#define SMALL_FILES		8
#define SMALL_SHARE		4

/* Before a step of the owner's own */
#define RELIEFS_IN_A_ROW	1

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

/*
 * The first file of the run that the range overlaps, or nfiles.  Those that it
 * overlaps stand side by side.
 */
static int
first_overlap(const LsmRun *run, const Range *range)
{
	int			at = range->any ? lsm_run_find(run, range->low) : run->nfiles;

	return at < run->nfiles && range_overlaps(range, &run->files[at]) ? at : run->nfiles;
}

/* Levels >= 1. */
static bool
overlaps_level(const LsmVersion *version, int level, const Range *range)
{
	const LsmRun *run = level < LSM_MAX_LEVELS ? version->levels[level] : NULL;

	return run != NULL && first_overlap(run, range) < run->nfiles;
}

bool
lsm_plan_overlaps_below(const LsmVersion *version, int level, const LsmFile *file)
{
	Range		range = {0};

	range_add(&range, file);
	for (int i = level + 1; i < LSM_MAX_LEVELS; i++)
	{
		if (overlaps_level(version, i, &range))
			return true;
	}
	return false;
}

/* ======================================================================
 * Plans
 * ====================================================================== */

static LsmPlan *
plan_begin(LsmVersion *version, int out_level)
{
	LsmPlan    *plan = palloc0(sizeof(LsmPlan));

	plan->out_level = out_level;
	plan->files = palloc(Max(version->nfiles, 1) * sizeof(LsmFile *));
	plan->sequences = palloc(Max(version->nruns, 1) * sizeof(LsmSequence));
	return plan;
}

/*
 * The files of the version marked in picked[], run by run, newest data first.
 */
static LsmPlan *
plan_from_marks(LsmVersion *version, const bool *picked, int out_level)
{
	LsmPlan    *plan = plan_begin(version, out_level);

	for (int r = 0; r < version->nruns; r++)
	{
		LsmRun	   *run = &version->runs[r];
		LsmSequence *sequence = &plan->sequences[plan->nsequences];

		sequence->files = &plan->files[plan->nfiles];
		sequence->nfiles = 0;
		for (int i = 0; i < run->nfiles; i++)
		{
			if (picked[run->first + i])
			{
				plan->files[plan->nfiles++] = &run->files[i];
				sequence->nfiles++;
			}
		}
		if (sequence->nfiles > 0)
		{
			plan->nsequences++;
			plan->below = r + 1;
		}
	}

	/* in the output's own level, only what stays in level 0 lies over others */
	while (out_level > 0 && plan->below < version->nruns &&
		   version->runs[plan->below].level <= out_level)
		plan->below++;
	return plan;
}

uint32
lsm_plan_levels(const LsmPlan *plan)
{
	uint32		levels = LSM_LEVEL_BIT(plan->out_level);

	for (int i = 0; i < plan->nfiles; i++)
		levels |= LSM_LEVEL_BIT(plan->files[i]->level);
	return levels;
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
	bool	   *marks = run != NULL ? &picked[run->first] : NULL;

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

/*
 * Mark what the range overlaps in the level of the output; is there anything?
 */
static bool
mark_level(LsmVersion *version, int level, const Range *range, bool *picked)
{
	LsmRun	   *run = version->levels[level];
	bool		any = false;

	for (int i = run != NULL ? first_overlap(run, range) : 0;
		 run != NULL && i < run->nfiles && range_overlaps(range, &run->files[i]); i++)
	{
		picked[run->first + i] = true;
		any = true;
	}
	mark_touching(version, level, picked);
	return any;
}

/* Mark the level 0 files connected with the seed-th by overlap. */
static int
mark_connected(LsmVersion *version, int seed, bool *picked, Range *range)
{
	int			n = 1;
	bool		again = true;

	picked[seed] = true;
	range_add(range, lsm_version_file(version, seed));
	while (again)
	{
		again = false;
		for (int i = 0; i < version->level_files[0]; i++)
		{
			LsmFile    *file = lsm_version_file(version, i);

			if (picked[i] || !range_overlaps(range, file))
				continue;
			picked[i] = true;
			range_add(range, file);
			n++;
			again = true;
		}
	}
	return n;
}

/*
 * Level 0 into level 1, the files connected with the seed-th one.  `rewrite`:
 * do not just move.
 */
LsmPlan *
lsm_plan_level0(LsmVersion *version, int seed, bool rewrite)
{
	bool	   *picked = palloc0(version->nfiles * sizeof(bool));
	Range		range = {0};
	int			n = mark_connected(version, seed, picked, &range);
	bool		below = mark_level(version, 1, &range, picked);
	LsmPlan    *plan = plan_from_marks(version, picked, 1);

	plan->move = n == 1 && !below && !rewrite;
	return plan;
}

/*
 * All level 0 files that overlap nothing in levels 0 and 1: move them together.
 * NULL if there is none.  Two that only touch are not moved in one edit.
 */
LsmPlan *
lsm_plan_level0_moves(LsmVersion *version)
{
	LsmPlan    *plan = plan_begin(version, 1);

	for (int i = 0; i < version->level_files[0]; i++)
	{
		LsmFile    *file = lsm_version_file(version, i);
		Range		range = {0};
		bool		alone = true;

		range_add(&range, file);
		for (int r = 0; r < version->level0_runs && alone; r++)
		{
			LsmRun	   *run = &version->runs[r];
			int			at = first_overlap(run, &range);

			/* of its own run it overlaps itself, and one that it touches */
			if (run->first + at == i)
				at++;
			alone = at >= run->nfiles || !range_overlaps(&range, &run->files[at]);
		}
		if (alone && !overlaps_level(version, 1, &range))
			plan->files[plan->nfiles++] = file;
		if (plan->nfiles == MOVES_PER_EDIT)
			break;
	}
	plan->move = true;
	return plan->nfiles > 0 ? plan : NULL;
}

/* The newest runs of level 0 into one. */
static LsmPlan *
plan_level0_together(LsmVersion *version, int nruns)
{
	bool	   *picked = palloc0(version->nfiles * sizeof(bool));
	LsmPlan    *plan;

	for (int r = 0; r < nruns; r++)
	{
		LsmRun	   *run = &version->runs[r];

		for (int i = 0; i < run->nfiles; i++)
			picked[run->first + i] = true;
	}
	plan = plan_from_marks(version, picked, 0);
	plan->out_run = version->runs[0].run;
	return plan;
}

/* The oldest file of level 0. */
int
lsm_plan_oldest_level0(LsmVersion *version)
{
	return version->level_files[0] - 1;
}

/* Files first..last of a level >= 1 into the next one. */
LsmPlan *
lsm_plan_push(LsmVersion *version, int level, int first, int last)
{
	bool	   *picked = palloc0(version->nfiles * sizeof(bool));
	LsmRun	   *run = version->levels[level];
	Range		range = {0};
	bool		below;
	LsmPlan    *plan;

	for (int i = first; i <= last; i++)
	{
		picked[run->first + i] = true;
		range_add(&range, &run->files[i]);
	}
	below = mark_level(version, level + 1, &range, picked);
	plan = plan_from_marks(version, picked, level + 1);
	/* DELETEs with nothing below are left out */
	plan->move = !below && !run->many_deletes;
	return plan;
}

/*
 * See plan.h.  Writers must not stand still for as long as the owner works, and
 * the owner must not work for as long as they write.
 */
LsmPlan *
lsm_plan_relief(LsmVersion *version, int *in_a_row)
{
	LsmPlan    *plan;

	if (version->level0_runs < LSM_L0_RELIEF_RUNS || *in_a_row >= RELIEFS_IN_A_ROW)
	{
		*in_a_row = 0;
		return NULL;
	}
	(*in_a_row)++;
	plan = lsm_plan_level0_moves(version);
	if (plan == NULL)
		plan = lsm_plan_level0(version, lsm_plan_oldest_level0(version), false);
	return plan;
}

/*
 * Files first..last of a run, rewritten where they are.  At levels >= 1 those
 * they touch are rewritten with them, in level 0 the whole run.
 */
LsmPlan *
lsm_plan_rewrite(LsmVersion *version, LsmRun *run, int first, int last)
{
	bool	   *picked = palloc0(version->nfiles * sizeof(bool));
	bool	   *marks = &picked[run->first];
	LsmPlan    *plan;

	if (run->level == 0)
		memset(marks, true, run->nfiles * sizeof(bool));
	else
	{
		memset(marks + first, true, (last - first + 1) * sizeof(bool));
		mark_touching(version, run->level, picked);
	}
	plan = plan_from_marks(version, picked, run->level);
	plan->out_run = run->run;
	return plan;
}

/* ======================================================================
 * What is due
 * ====================================================================== */

/* Bytes a level >= 1 may hold. */
double
lsm_level_target(LsmTree *tree, int level)
{
	double		bytes = lsm_tree_base_bytes(tree);
	int			ratio = lsm_tree_size_ratio(tree);

	for (int i = 0; i < level; i++)
		bytes *= ratio;
	return bytes;
}

/* How many of the newest runs of level 0 are of about the same size. */
static int
level0_tier(LsmTree *tree, LsmVersion *version)
{
	double		largest = lsm_tree_base_bytes(tree) * TIER_FLOOR;
	int			n;

	for (n = 0; n < version->level0_runs; n++)
	{
		double		bytes = version->runs[n].file_bytes;

		if (bytes > largest * TIER_RATIO)
			break;
		largest = Max(largest, bytes);
	}
	return n;
}

/*
 * Level 0 brings enough to level 1, or has more runs than lookups should have
 * to ask.
 */
static bool
level0_goes_down(const LsmVersion *version)
{
	return version->level0_runs >= LSM_L0_MAX_RUNS ||
		version->level_bytes[0] * LEVEL0_DOWN_RATIO >= version->level_bytes[1];
}

/* Is level 0 to go down for the DELETEs that it has? */
static bool
level0_has_deletes(const LsmVersion *version)
{
	if (!level0_goes_down(version))
		return false;
	for (int i = 0; i < version->level0_runs; i++)
	{
		if (version->runs[i].many_deletes)
			return true;
	}
	return false;
}

/* The level has such files, and what they delete may lie below. */
static bool
level_has_deletes(const LsmVersion *version, int level)
{
	return level < version->deepest && version->levels[level] != NULL &&
		version->levels[level]->many_deletes;
}

static double
level0_score(LsmTree *tree, LsmVersion *version)
{
	int			runs = version->level0_runs;

	if (level0_has_deletes(version))
		return Max(1.0, (double) runs / LSM_L0_COMPACT_RUNS);

	if (runs >= LSM_L0_COMPACT_RUNS && !level0_goes_down(version))
		runs = level0_tier(tree, version);
	return (double) runs / LSM_L0_COMPACT_RUNS;
}

/*
 * How many files of the run from this one on are to become one, 0: none.  Each
 * entry is written again for each time that what it is in has grown to four
 * times its size at least, until it is in a file of half the size wanted.
 * Files that touch others would be written with these, whatever their size.
 */
static int
small_files_from(const LsmRun *run, int first)
{
	uint64		target_bytes = (uint64) lsm_target_file_size_kb * 1024;
	uint64		bytes = 0;
	uint64		largest = 0;
	int			n = 0;

	if (first > 0 && touches_next(run, first - 1))
		return 0;
	for (int i = first; i < run->nfiles; i++)
	{
		uint64		file_bytes = run->files[i].file_bytes;

		if (file_bytes > target_bytes / 2 || bytes + file_bytes > target_bytes)
			break;
		bytes += file_bytes;
		largest = Max(largest, file_bytes);
		if (i - first + 1 >= SMALL_FILES && largest * SMALL_SHARE <= bytes &&
			!touches_next(run, i))
			n = i - first + 1;
	}
	return n;
}

/* Of levels >= 1 that others do not have; NULL: there are none. */
static LsmRun *
find_small_files(const LsmVersion *version, uint32 others_levels, int *first, int *last)
{
	for (int r = version->level0_runs; r < version->nruns; r++)
	{
		LsmRun	   *run = &version->runs[r];

		if (others_levels & LSM_LEVEL_BIT(run->level))
			continue;
		for (int i = 0; i + SMALL_FILES <= run->nfiles; i++)
		{
			int			n = small_files_from(run, i);

			if (n == 0)
				continue;
			*first = i;
			*last = i + n - 1;
			return run;
		}
	}
	return NULL;
}

/* As the sizes of levels have it; 1.0 or more: a step is due.  Returns the most. */
static double
score_levels(LsmTree *tree, LsmVersion *version, double *scores)
{
	double		most = level0_score(tree, version);

	memset(scores, 0, LSM_MAX_LEVELS * sizeof(double));
	scores[0] = most;
	for (int i = 1; i < LSM_MAX_LEVELS - 1; i++)
	{
		scores[i] = version->level_bytes[i] / lsm_level_target(tree, i);
		if (level_has_deletes(version, i))
			scores[i] = Max(scores[i], 1.0);
		most = Max(most, scores[i]);
	}
	return most;
}

double
lsm_compaction_score(LsmTree *tree, LsmVersion *version)
{
	double		scores[LSM_MAX_LEVELS];
	double		most = score_levels(tree, version, scores);
	int			first;
	int			last;

	if (most < 1.0 && find_small_files(version, 0, &first, &last) != NULL)
		return 1.0;
	return most;
}

/*
 * What goes down meets its share of the next level, and what is then too much
 * there goes down further.
 */
uint64
lsm_pending_bytes(LsmTree *tree, LsmVersion *version)
{
	const uint64 *level_bytes = version->level_bytes;
	double		pending = 0;
	double		arriving = 0;

	if (level0_score(tree, version) >= 1.0)
	{
		if (level0_goes_down(version))
		{
			arriving = level_bytes[0];
			pending = arriving + level_bytes[1];
		}
		else
		{
			for (int i = 0; i < level0_tier(tree, version); i++)
				pending += version->runs[i].file_bytes;
		}
	}
	for (int i = 1; i < LSM_MAX_LEVELS - 1; i++)
	{
		double		bytes = level_bytes[i] + arriving;

		arriving = Max(bytes - lsm_level_target(tree, i), 0.0);
		if (arriving > 0)
			pending += arriving * (1.0 + level_bytes[i + 1] / bytes);
	}
	return (uint64) pending;
}

/* The file of the level whose turn it is, by its number. */
static int
next_in_turn(const LsmRun *run, uint64 cursor)
{
	int			next = lsm_run_number_after(run, cursor);

	return run->number_at[next < run->nfiles ? next : 0];
}

/* REQUIRES: there is one with many DELETEs. */
static int
first_with_deletes(const LsmRun *run)
{
	int			at = 0;

	while (!(run->files[at].flags & LSM_FILE_MANY_DELETES))
		at++;
	return at;
}

/*
 * Files of the level that overlap nothing in the next one, until the level
 * fits; NULL if the one whose turn it is does.
 */
static LsmPlan *
plan_level_moves(LsmTree *tree, LsmVersion *version, int level, uint64 *cursor)
{
	LsmRun	   *run = version->levels[level];
	LsmPlan    *plan = plan_begin(version, level + 1);
	double		bytes = version->level_bytes[level];
	double		target = lsm_level_target(tree, level);

	plan->move = true;
	while (bytes > target && plan->nfiles < Min(MOVES_PER_EDIT, run->nfiles))
	{
		int			at = next_in_turn(run, *cursor);
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

/* The levels that the next step of this one takes. */
static uint32
step_levels(LsmVersion *version, int level)
{
	if (level == 0 && !level0_goes_down(version) && lsm_plan_level0_moves(version) == NULL)
		return LSM_LEVEL_BIT(0);
	return LSM_LEVEL_BIT(level) | LSM_LEVEL_BIT(level + 1);
}

/*
 * The level whose step is due and the most urgent of those that can be made
 * beside others; -1: there is none.  A step that has to wait for one of its
 * levels comes next: what is less urgent may not get in its way.  Else two
 * processes that each go on with their levels would keep it off for good.  But
 * a deep level 0 does not wait for that: writers would stand still.
 */
static int
choose_level(LsmVersion *version, double *scores, uint32 others_levels)
{
	bool		relief = version->level0_runs >= LSM_L0_RELIEF_RUNS;
	uint32		taken = others_levels;

	for (;;)
	{
		int			best = 0;
		uint32		levels;

		for (int i = 1; i < LSM_MAX_LEVELS - 1; i++)
		{
			if (scores[i] > scores[best])
				best = i;
		}
		if (scores[best] < 1.0)
			return -1;
		levels = step_levels(version, best);
		if ((levels & (best == 0 && relief ? others_levels : taken)) == 0)
			return best;

		/* all of its levels are taken: it is being made */
		if ((levels & others_levels) != levels)
			taken |= levels;
		scores[best] = 0;
	}
}

static LsmPlan *
plan_level0_due(LsmTree *tree, LsmVersion *version)
{
	bool		deletes = level0_has_deletes(version);
	LsmPlan    *plan = NULL;

	if (!deletes)
		plan = lsm_plan_level0_moves(version);
	if (plan == NULL && !deletes && !level0_goes_down(version))
		plan = plan_level0_together(version, level0_tier(tree, version));
	if (plan == NULL)
		plan = lsm_plan_level0(version, lsm_plan_oldest_level0(version), deletes);
	return plan;
}

static LsmPlan *
plan_level_due(LsmTree *tree, LsmVersion *version, int level)
{
	uint64	   *cursor = &tree->ctl->jobs.compact_cursor[level];
	LsmRun	   *run = version->levels[level];
	bool		deletes = level_has_deletes(version, level);
	LsmPlan    *plan = NULL;
	int			at;

	if (!deletes)
		plan = plan_level_moves(tree, version, level, cursor);
	if (plan != NULL)
		return plan;
	at = deletes ? first_with_deletes(run) : next_in_turn(run, *cursor);
	*cursor = run->files[at].number;
	return lsm_plan_push(version, level, at, at);
}

/* See plan.h. */
LsmPlan *
lsm_plan_due(LsmTree *tree, LsmVersion *version, uint32 others_levels)
{
	double		scores[LSM_MAX_LEVELS];
	LsmPlan    *plan = NULL;

	if (score_levels(tree, version, scores) >= 1.0)
	{
		int			level = choose_level(version, scores, others_levels);

		if (level >= 0)
			plan = level == 0 ? plan_level0_due(tree, version) : plan_level_due(tree, version, level);
	}
	else
	{
		int			first;
		int			last;
		LsmRun	   *run = find_small_files(version, others_levels, &first, &last);

		if (run != NULL)
			plan = lsm_plan_rewrite(version, run, first, last);
	}
	Assert(plan == NULL || (lsm_plan_levels(plan) & others_levels) == 0);
	return plan;
}
