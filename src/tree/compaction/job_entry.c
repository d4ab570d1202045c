/*-------------------------------------------------------------------------
 *
 * job_entry.c
 *	  What becomes of an entry that a flush or compaction meets.
 *
 * Of a key's versions those go behind which nobody needs anything, so that a row
 * which has been updated is one plain PUT again, as soon as no old snapshot is
 * there.  What lies below the job's output is hidden by that PUT, and goes when
 * the two meet.  Nothing may be taken for the only value of its key because it is a
 * PUT: what may lie below is told by the files' ranges alone.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"
#include "tree/read/merge.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

void
lsm_job_set_below(LsmJob *job, int first)
{
	LsmVersion *version = job->version;

	job->entry.below = MemoryContextAlloc(job->cxt,
									Max(version->nruns, 1) * sizeof(LsmRun *));
	job->entry.below_at = MemoryContextAllocZero(job->cxt,
										   Max(version->nruns, 1) * sizeof(int));
	job->entry.nbelow = 0;
	for (int i = first; i < version->nruns; i++)
		job->entry.below[job->entry.nbelow++] = &version->runs[i];
}

/*
 * No run below the output can hold an older entry of the key.  Ascending keys.
 */
static bool
job_at_bottom(LsmJob *job, LsmSlice key)
{
	for (int i = 0; i < job->entry.nbelow && !LSM_LIE("bottom"); i++)
	{
		const LsmRun *run = job->entry.below[i];
		int			at = job->entry.below_at[i];

		while (at < run->nfiles && lsm_file_before(&run->files[at], key))
			at++;
		job->entry.below_at[i] = at;
		if (at < run->nfiles && !lsm_file_after(&run->files[at], key))
			return false;
	}
	LSM_DOUBT(true, lsm_opinion_bottom(job->tree, job->entry.below, job->entry.nbelow, key));
	return true;
}

/* The callback's decision; *value becomes what it has rewritten. */
static LsmFate
decide(LsmJob *job, LsmSlice key, LsmSlice *value)
{
	MemoryContext old;
	LsmFate		fate;

	if (!job->entry_cxt->isReset)
		MemoryContextReset(job->entry_cxt);
	old = MemoryContextSwitchTo(job->entry_cxt);
	resetStringInfo(&job->entry.rewritten);
	job->entry.fate.dying = false;
	job->entry.fate.gone = false;
	fate = job->tree->ops->fate(&job->entry.fate, key, *value, &job->entry.rewritten);
	MemoryContextSwitchTo(old);
	if (fate == LSM_FATE_REWRITE)
		*value = lsm_slice(job->entry.rewritten.data, job->entry.rewritten.len);
	return fate;
}

void
lsm_job_entry(LsmJob *job, LsmSlice key, LsmSlice value)
{
	LsmFate		fate;

	if (job->tree->ops->puts_stay && (uint8) value.data[0] == LSM_TAG_PUT)
	{
		lsm_job_add(job, key, value);
		return;
	}
	job->entry.fate.bottom = job_at_bottom(job, key);

	/* nothing left to hide or to complete */
	if (job->entry.fate.bottom && (uint8) value.data[0] != LSM_TAG_PUT)
		value = lsm_chain_rows(value);
	if (value.len == 0)
	{
		job->input.dropped = true;
		return;
	}

	fate = decide(job, key, &value);
	job->input.nvalues_dropped += job->entry.fate.gone;
	if (fate == LSM_FATE_DROP)
	{
		job->input.dropped = true;
		return;
	}
	lsm_job_add(job, key, value);
	if (job->entry.fate.dying)
		job->output.files[job->output.nfiles].flags |= LSM_FILE_HAS_DYING;
}

/* LsmEnough */
static bool
closes(void *arg, LsmSlice element)
{
	LsmJob	   *job = arg;

	return job->tree->ops->closes(&job->entry.fate, element);
}

void
lsm_job_node(LsmJob *job, LsmMemNode *node, StringInfo scratch)
{
	LsmMemValue *newest = lsm_memnode_value(node);
	LsmSlice	value = lsm_slice(newest->data, newest->len);

	if (value.data[0] != LSM_TAG_PUT && value.data[0] != LSM_TAG_DELETE)
	{
		LsmEnough	enough = {closes, job};
		LsmFold		fold;

		lsm_fold_begin(&fold, job->tree->ops, scratch);
		if (job->tree->ops->closes != NULL)
			fold.enough = &enough;
		(void) lsm_fold_add_memvalue(&fold, newest);
		value = lsm_slice(scratch->data, scratch->len);
	}
	lsm_job_entry(job, lsm_memnode_key(node), value);
}
