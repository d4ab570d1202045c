/*-------------------------------------------------------------------------
 *
 * filter_plan.c
 *	  Which filter a file gets that a job has written: by the place of the file
 *	  in the tree and by the sizes of the tree's runs, where
 *	  lsm.filter_allocation and lsm.bottom_filter ask for that.
 *
 * The sizes are those that the version which the job started from will have
 * when the job is published: without the job's inputs, with its output.  Files
 * of the same run may be written at different times and get different bits;
 * what is written next is right again.  So that the numbers depend little on
 * the moment, and the average is not exceeded when the upper levels fill, these
 * are reckoned with as they are most of the time:
 *
 * - level 0 has LSM_L0_COMPACT_RUNS runs at least, of a flush each, but together
 *	 not more than level 1 is smaller than level 2;
 * - a level above the deepest one has what it may hold at least, but not more
 *	 than its share of the deepest one at the tree's size ratio.
 *
 * Where a file will be.  A file that overlaps nothing below it is not written
 * again on its way down (plan.c): rows that are inserted in the order of their
 * keys are written once.  Such a file has the filter that it is to have at the
 * bottom, from the beginning.  A file that was moved all the same has the
 * filter of where it was written, with more bits than are due to its level,
 * until a compaction writes it again.
 *
 * Keys are reckoned in entries.  A tree's filters have about as many keys for
 * each entry in one run as in another, leading parts among them, and only
 * ratios count.  The bits are then given to each key of the filter.
 *
 * No locks: options are words, as in lsm_tree_filter_params().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "tree/compaction/output_job.h"
#include "tree/compaction/plan.h"
#include "tree/control/control.h"
#include "tree/disk/manifest.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* What a flush writes is smaller than the memtable by about this */
#define FLUSH_SHARE			0.25

/* Any number will do */
#define BUILD_ENTRIES		1000000

/* Entries by run, and where the file at hand is among them */
typedef struct Shape
{
	int			nlevel0;
	uint64	   *level0;
	uint64		levels[LSM_MAX_LEVELS]; /* [0] unused */
	int			deepest;		/* 0: nothing below level 0 */
	int			own_level;
	int			own_run;		/* in level0, if own_level is 0 */
} Shape;

static bool
is_source(const LsmJob *job, const LsmFile *file)
{
	for (int i = 0; i < job->input.nfiles; i++)
	{
		if (job->input.files[i] == file)
			return true;
	}
	return false;
}

/* Does the run have a file besides the job's inputs in the file's range? */
static bool
run_overlaps(const LsmJob *job, const LsmRun *run, const LsmFileMeta *meta)
{
	LsmSlice	low = lsm_slice(meta->smallest, meta->smallest_bytes);
	LsmSlice	high = lsm_slice(meta->largest, meta->largest_bytes);

	for (int i = lsm_run_find(run, low); i < run->nfiles; i++)
	{
		const LsmFile *file = &run->files[i];

		if (lsm_file_after(file, high) &&
			!((meta->flags & LSM_FILE_LARGEST_CUT) && lsm_slice_has_prefix(file->smallest, high)))
			return false;
		if (file->number != meta->number && !is_source(job, file))
			return true;
	}
	return false;
}

/* Nothing in the file's way down: see the head of the file. */
static bool
sinks(const LsmJob *job, const LsmFileMeta *meta)
{
	const LsmVersion *version = job->version;

	for (int i = 0; i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];

		if ((run->level > meta->level || (run->level == 0 && meta->level == 0 &&
										  run->run < meta->run)) &&
			run_overlaps(job, run, meta))
			return false;
	}
	return true;
}

/*
 * A build: its files are all there is, at the bottom.  How many they will be is
 * not known, but only ratios count: one level and level 0 lie above.
 */
static void
shape_build(const LsmJob *job, Shape *shape)
{
	uint64		ratio = lsm_tree_size_ratio(job->tree);

	memset(shape, 0, sizeof(Shape));
	shape->deepest = shape->own_level = 2;
	shape->levels[2] = ratio * ratio * BUILD_ENTRIES;
	shape->levels[1] = ratio * BUILD_ENTRIES;
	shape->level0 = palloc(LSM_L0_COMPACT_RUNS * sizeof(uint64));
	while (shape->nlevel0 < LSM_L0_COMPACT_RUNS)
		shape->level0[shape->nlevel0++] = BUILD_ENTRIES / LSM_L0_COMPACT_RUNS;
}

/* The job's files are in the shape; those it was made of are not. */
static void
shape_read(const LsmJob *job, const LsmFileMeta *meta, Shape *shape)
{
	const LsmVersion *version = job->version;
	uint64		output = job->report.progress.entries_total > 0 ? job->report.progress.entries_total :
		meta->entries;

	memset(shape, 0, sizeof(Shape));
	shape->level0 = palloc0((version->level0_runs + LSM_L0_COMPACT_RUNS + 1) * sizeof(uint64));
	for (int i = 0; i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];
		uint64		entries = 0;

		for (int j = 0; j < run->nfiles; j++)
		{
			if (run->files[j].number != meta->number && !is_source(job, &run->files[j]))
				entries += run->files[j].entries;
		}
		if (run->level > 0)
			shape->levels[run->level] = entries;
		else if (entries > 0)
			shape->level0[shape->nlevel0++] = entries;
		if (entries > 0)
			shape->deepest = Max(shape->deepest, run->level);
	}
	shape->own_level = meta->level;
	if (sinks(job, meta))
		shape->own_level = Max(Max(shape->deepest, meta->level), 1);
	shape->deepest = Max(shape->deepest, shape->own_level);
	shape->own_run = shape->nlevel0;
	if (shape->own_level == 0)
		shape->level0[shape->nlevel0++] = output;
	else
		shape->levels[shape->own_level] += output;
}

/* Reckon with levels above the deepest as they are most of the time. */
static void
shape_fill(const LsmJob *job, Shape *shape)
{
	const LsmVersion *version = job->version;
	double		bottom = (double) shape->levels[shape->deepest];
	int			ratio = lsm_tree_size_ratio(job->tree);
	double		entries = 0;
	double		bytes = 0;
	double		per_byte;
	double		share = bottom;
	double		flush;

	if (shape->deepest == 0)
		return;
	for (int i = 0; i < version->nruns; i++)
	{
		entries += (double) version->runs[i].entries;
		bytes += (double) version->runs[i].file_bytes;
	}
	per_byte = bytes > 0 ? entries / bytes : 0;
	for (int level = shape->deepest - 1; level >= 1; level--)
	{
		uint64		usual;

		share /= ratio;
		usual = (uint64) Min(share, lsm_level_target(job->tree, level) * per_byte);
		shape->levels[level] = Max(shape->levels[level], usual);
	}
	flush = lsm_tree_base_bytes(job->tree) * FLUSH_SHARE * per_byte;
	flush = Min(flush, share / ratio / LSM_L0_COMPACT_RUNS);
	while (shape->nlevel0 < LSM_L0_COMPACT_RUNS && flush >= 1)
		shape->level0[shape->nlevel0++] = (uint64) flush;
}

/* Bits of the file's run among those of all runs. */
static void
allocate(const Shape *shape, LsmFilterScheme upper, LsmFilterScheme bottom,
		 LsmFilterParams *params)
{
	LsmFilterRun *runs = palloc0((shape->nlevel0 + LSM_MAX_LEVELS) * sizeof(LsmFilterRun));
	int			own = shape->own_run;
	int			n = 0;

	for (int i = 0; i < shape->nlevel0; i++)
	{
		runs[n].keys = shape->level0[i];
		runs[n++].scheme = upper;
	}
	for (int level = 1; level <= shape->deepest; level++)
	{
		if (level == shape->own_level)
			own = n;
		runs[n].keys = shape->levels[level];
		runs[n++].scheme = level == shape->deepest ? bottom : upper;
	}
	lsm_filter_allocate(runs, n, params->bits_per_key);

	/* a tenth of a bit is enough, and easier to read */
	params->bits_per_key = rint(runs[own].bits_per_key * 10) / 10;
	params->scheme = runs[own].scheme;
	pfree(runs);
}

void
lsm_job_plan_filter(const LsmJob *job, const LsmFileMeta *meta, LsmFilterParams *params)
{
	LsmTree    *tree = job->tree;
	bool		monkey = lsm_tree_filter_allocation(tree) == LSM_ALLOCATION_MONKEY &&
		lsm_filter_scheme_allocates(params->scheme);
	LsmFilterScheme bottom = lsm_tree_bottom_scheme(tree, params->scheme);
	LsmFilterScheme given = params->scheme;
	Shape		shape;

	if (!monkey && bottom == given)
		return;
	if (job->output.keeps_scheme)
		bottom = given;
	if (job->version != NULL)
		shape_read(job, meta, &shape);
	else
		shape_build(job, &shape);
	if (monkey)
	{
		if (job->version != NULL)
			shape_fill(job, &shape);
		allocate(&shape, given, bottom, params);
		if (job->output.keeps_scheme)
			params->scheme = given;
	}
	else if (shape.own_level == shape.deepest && shape.deepest > 0)
		params->scheme = bottom;
	pfree(shape.level0);
}
