/*-------------------------------------------------------------------------
 *
 * publish.c
 *	  How written files become part of a tree.
 *
 * Publishing order: relation locked; edit logged (version_no changes); the
 * flushed memtable leaves the set (set_stamp changes); it is retired; the edit
 * is flushed to disk; removed files wait for the epochs and are unlinked.
 * Readers go the other way (epoch, set, version), so they see each entry at
 * least once.
 *
 * Locking: the relation's lock (publish_lock.c); then the metapage, in the
 * edit; then ctl->lock, exclusive, for the set.  None of the latter two is held
 * while the other is taken.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "miscadmin.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/compaction/plan.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"
#include "tree/memtable/memtable.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

void
lsm_publish_hints(LsmTree *tree, LsmVersion *version)
{
	LsmTreeShared *ctl = tree->ctl;
	double		score = lsm_compaction_score(tree, version);
	bool		due = score >= 1.0;
	uint64		pending_bytes = due ? lsm_pending_bytes(tree, version) : 0;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		pg_atomic_read_u64(&ctl->files.version_no) == version->place.version_no)
	{
		pg_atomic_write_u32(&ctl->files.level0_runs, version->level0_runs);
		pg_atomic_write_u32(&ctl->files.compaction_due, due ? (uint32) (Min(score, 1e6) * 100) : 0);
		pg_atomic_write_u64(&ctl->files.scan_price, ctl->local ? 0 : lsm_scan_price(tree, version));
		pg_atomic_write_u32(&ctl->files.pending_memtables,
							(uint32) Min(pending_bytes / lsm_tree_base_bytes(tree), 1e9));
		lsm_level_facts_set(ctl, version, pending_bytes);
	}
	LWLockRelease(&ctl->lock);
	if (due && !ctl->local)
		lsm_worker_wake();
}

/* The memtable whose entries are in files now leaves the set. */
static void
publish_set(LsmJob *job, LsmMemtable *flushed)
{
	LsmTreeShared *ctl = job->ctl;
	bool		removed = false;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id)
	{
		lsm_set_change_begin(ctl);
		if (flushed != NULL && ctl->memory.nsealed > 0 && ctl->memory.sealed[0] == flushed)
		{
			ctl->memory.nsealed--;
			memmove(&ctl->memory.sealed[0], &ctl->memory.sealed[1],
					ctl->memory.nsealed * sizeof(LsmMemtable *));
			ctl->memory.sealed[ctl->memory.nsealed] = NULL;
			removed = true;
		}
		lsm_set_change_end(ctl);
	}
	LWLockRelease(&ctl->lock);

	if (removed)
		lsm_memtable_retire(flushed);
	ConditionVariableBroadcast(&ctl->cv);
}

static void
publish_crash_point(LsmJob *job, bool after)
{
#ifdef LSM_TESTING
	static const char *const names[3][2] = {
		{"flush_before_edit", "flush_after_edit"},
		{"compact_before_edit", "compact_after_edit"},
		{"build_before_edit", "build_after_edit"}
	};

	LSM_CRASH_POINT(names[job->type][after]);
#endif
}

/* Newest xid whose rows are in none of the job's files any more. */
static TransactionId
newest_removed(LsmJob *job, LsmMemtable *flushed)
{
	TransactionId removed = job->entry.fate.newest_removed_xid;
	TransactionId forgotten = InvalidTransactionId;

	if (flushed != NULL)
		forgotten = pg_atomic_read_u32(&flushed->pruned_xid);
	if (!TransactionIdIsValid(removed) ||
		(TransactionIdIsValid(forgotten) && TransactionIdFollows(forgotten, removed)))
		return forgotten;
	return removed;
}

/*
 * The edit fits the list: nothing goes that is not there, nor twice, nothing
 * comes that is.  The list is read on for that, from where this process knows it.  Who
 * else may change it meanwhile adds files of other numbers (a flush), or changes
 * levels that we have not claimed.
 */
static void
check_edit(const LsmJob *job, const LsmEdit *edit)
{
	LsmVersion *version = lsm_version_refresh(job->tree);
	uint64	   *removed = palloc(Max(edit->nremoved, 1) * sizeof(uint64));
	uint32		levels PG_USED_FOR_ASSERTS_ONLY = 0;

	for (int i = 0; i < edit->nremoved; i++)
	{
		const LsmFile *file = lsm_version_find_file(version, edit->removed[i]);

		if (file != NULL)
			levels |= LSM_LEVEL_BIT(file->level);
		else
			elog(ERROR, "lsm edit removes file " UINT64_FORMAT ", which is not there",
				 edit->removed[i]);
		removed[i] = edit->removed[i];
	}
	qsort(removed, edit->nremoved, sizeof(uint64), lsm_number_compare);
	for (int i = 1; i < edit->nremoved; i++)
	{
		if (removed[i] == removed[i - 1])
			elog(ERROR, "lsm edit removes file " UINT64_FORMAT " twice", removed[i]);
	}
	for (int i = 0; i < edit->nadded; i++)
	{
		uint64		number = edit->added[i].number;

		if (job->type != LSM_JOB_FLUSH)
			levels |= LSM_LEVEL_BIT(edit->added[i].level);
		if (lsm_version_has(version, number) &&
			bsearch(&number, removed, edit->nremoved, sizeof(uint64), lsm_number_compare) == NULL)
			elog(ERROR, "lsm edit adds file " UINT64_FORMAT ", which is there already",
				 number);
	}
	pfree(removed);
	Assert(levels == 0 || lsm_claim_covers(job->ctl, levels));
}

bool
lsm_publish(LsmJob *job, LsmEdit *edit, LsmMemtable *flushed)
{
	LsmTree    *tree = job->tree;
	XLogRecPtr	lsn;

	Assert(!lsm_epoch_inside());
	lsm_job_report_phase(job, LSM_PHASE_PUBLISHING);
	lsm_unlink_reserve(edit->nremoved);
	if (!lsm_publish_lock(tree))
		return false;
	if (!lsm_job_current(job))
	{
		/*
		 * only in a worker: a backend has had the relation's lock all the time
		 */
		lsm_publish_unlock(tree);
		if (!lsm_in_worker())
			lsm_job_report_replaced(job);
		return false;
	}
	Assert(tree->ctl == job->ctl && tree->keyspace_id == job->keyspace_id);

	check_edit(job, edit);
	lsm_elastic_publish_prepare(job, edit);
	publish_crash_point(job, false);
	edit->conflict_xid = newest_removed(job, flushed);
	lsn = lsm_manifest_edit(tree, edit);

	/* nothing that can fail or be interrupted until the set is in order */
	job->published = true;
	publish_crash_point(job, true);

	/* before who waits for the flush can see that it is done */
	pg_atomic_fetch_add_u64(&job->ctl->work.values_dropped, job->input.nvalues_dropped);
	publish_set(job, flushed);
	if (job->type == LSM_JOB_FLUSH)
		LSM_CRASH_POINT("flush_after_retire");

	if (!XLogRecPtrIsInvalid(lsn))
		XLogFlush(lsn);
	lsm_unlink_enqueue(job, edit);
	lsm_elastic_publish_finish(job, edit);
	lsm_publish_hints(tree, lsm_version_refresh(tree));
	lsm_publish_unlock(tree);

	/* a worker does not wait: it tries again at its next round */
	lsm_unlink_drain(!lsm_in_worker());
	if (job->type == LSM_JOB_COMPACT)
		LSM_CRASH_POINT("compact_after_unlink");
	return true;
}
