/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Bulk build: sorted entries straight into files, without log or memtable.
 *
 * REQUIRES the tree to be empty and exclusively ours, so there is nothing to
 * lock.  The files become part of the tree in lsm_build_finish(); an error
 * before removes them (lsm_flush_abort).  Should the server stop between two
 * edits of a large build, the half-built tree belongs to a relation whose
 * transaction did not commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/gaps.h"
#include "tree/disk/manifest.h"
#include "tree/read/version.h"

#define FILES_PER_EDIT		64

/*
 * A file is logged by an idle worker while the next one is written
 * (wal_offload.c).  What is built is cut into this many files, about, so that
 * little is left to do at the end.
 */
#define FILES_OF_BUILD		12
#define MIN_FILE_BYTES		(2 * 1024 * 1024)

struct LsmBuild
{
	LsmJob	   *job;
	uint64		entries;
};

LsmBuild *
lsm_build_begin(LsmTree *tree, uint64 expected_bytes)
{
	const LsmJobInput input = {LSM_PROGRESS_UNKNOWN, LSM_PROGRESS_UNKNOWN, LSM_PROGRESS_UNKNOWN,
	LSM_PROGRESS_UNKNOWN};
	LsmBuild   *build = palloc0(sizeof(LsmBuild));

	/* loaded, and not to be evicted: the edit needs the shared counters */
	build->job = lsm_compact_own(tree, LSM_JOB_BUILD);
	if (expected_bytes > 0)
		build->job->output.cut_bytes = Min(build->job->output.target_bytes,
									Max(expected_bytes / FILES_OF_BUILD, MIN_FILE_BYTES));
	if (lsm_version_refresh(tree)->nfiles > 0)
		elog(ERROR, "lsm tree to be built is not empty");
	lsm_job_report_begin(build->job, LSM_PROGRESS_BUILD, &input);
	lsm_job_report_phase(build->job, LSM_PHASE_WRITING);
	return build;
}

void
lsm_build_add(LsmBuild *build, LsmSlice key, LsmSlice value)
{
	lsm_job_add(build->job, key, value);
	if (++build->entries % 1000 == 0)
	{
		CHECK_FOR_INTERRUPTS();
		lsm_job_report_entries(build->job, (int64) build->entries);
	}
}

/* The level whose size the files fit, so that nothing is due right away. */
static int
build_level(LsmTree *tree, uint64 bytes)
{
	double		target = lsm_tree_base_bytes(tree);
	int			level = 0;

	do
	{
		level++;
		target *= lsm_tree_size_ratio(tree);
	} while (level < LSM_MAX_LEVELS - 1 && bytes > target);
	return level;
}

void
lsm_build_finish(LsmBuild *build)
{
	LsmJob	   *job = build->job;
	LsmTree    *tree = job->tree;
	int			level;

	lsm_job_report_entries(job, (int64) build->entries);
	lsm_job_finish(job);
	level = build_level(tree, job->output.bytes);
	for (int i = 0; i < job->output.nfiles; i++)
		job->output.files[i].level = level;

	for (int i = 0; i < job->output.nfiles; i += FILES_PER_EDIT)
	{
		LsmEdit		edit = {0};

		edit.added = &job->output.files[i];
		edit.nadded = Min(FILES_PER_EDIT, job->output.nfiles - i);
		if (!lsm_publish(job, &edit, NULL))
			elog(ERROR, "could not lock the relation of an lsm tree for a build");
	}
	lsm_gaps_forget(tree);		/* these entries have passed no memtable */
	lsm_job_end(job);
	build->job = NULL;
	pfree(build);
}
