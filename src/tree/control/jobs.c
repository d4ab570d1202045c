/*-------------------------------------------------------------------------
 *
 * jobs.c
 *	  Who has a job of a tree: a flush or a compaction that writes files.
 *
 * A block counts its jobs, and each process has a list of its own.  As long as
 * a job of its former block goes on, a keyspace gets no new block (control.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"

#include "tree/control/control.h"
#include "tree/control/control_private.h"
#include "tree/memtable/memtable.h"

dlist_head	lsm_job_marks = DLIST_STATIC_INIT(lsm_job_marks);

/*
 * The job counts itself first, then checks the block's identity under
 * ctl->lock (flush_claim, claim.c), before it makes a file.  The
 * identity is cleared under that lock, and the count looked at later.  So
 * either the job sees that the block was dropped, or who takes the keyspace's
 * next block sees the job.
 */
void
lsm_control_job_begin(LsmJobMark *mark, LsmTree *tree)
{
	ControlBlock *block = (ControlBlock *) tree->ctl;

	Assert(!lsm_epoch_inside());
	Assert(pg_atomic_read_u32(&block->pins) > 0);
	pg_atomic_fetch_add_u32(&block->jobs, 1);
	mark->tree = tree;
	mark->ctl = tree->ctl;
	mark->keyspace_id = tree->keyspace_id;
	dlist_push_head(&lsm_job_marks, &mark->node);
}

void
lsm_control_job_release(LsmJobMark *mark)
{
	dlist_delete(&mark->node);
}

void
lsm_control_job_end(LsmTreeShared *ctl)
{
	Assert(pg_atomic_read_u32(&((ControlBlock *) ctl)->jobs) > 0);
	pg_atomic_fetch_sub_u32(&((ControlBlock *) ctl)->jobs, 1);
}

/* This process has a job that writes files of the keyspace. */
static bool
job_writes(uint64 keyspace_id)
{
	dlist_iter	iter;

	dlist_foreach(iter, &lsm_job_marks)
	{
		if (dlist_container(LsmJobMark, node, iter.cur)->keyspace_id == keyspace_id)
			return true;
	}
	return false;
}

bool
lsm_job_uses(const LsmTree *tree)
{
	dlist_iter	iter;

	dlist_foreach(iter, &lsm_job_marks)
	{
		if (dlist_container(LsmJobMark, node, iter.cur)->tree == tree)
			return true;
	}
	return false;
}

#ifdef LSM_TESTING
/* The relation whose tree this process has a job of; invalid if it has none. */
Oid
lsm_job_relid(void)
{
	if (dlist_is_empty(&lsm_job_marks))
		return InvalidOid;
	return dlist_head_element(LsmJobMark, node, &lsm_job_marks)->ctl->relid;
}
#endif

bool
lsm_control_former_busy(uint64 keyspace_id)
{
	Assert(LWLockHeldByMe(lsm_control_lock));
	for (int i = lsm_control->free_first; i != CONTROL_NONE;
		 i = lsm_control->blocks[i].free_next)
	{
		ControlBlock *block = &lsm_control->blocks[i];

		if (block->former_id == keyspace_id &&
			(pg_atomic_read_u32(&block->jobs) > 0 || control_has_writers(&block->tree)))
			return true;
	}
	return false;
}

bool
lsm_control_busy(uint64 keyspace_id)
{
	LsmTreeShared *ctl = lsm_control_find(keyspace_id);
	bool		busy = false;

	if (ctl != NULL)
	{
		LWLockAcquire(&ctl->lock, LW_SHARED);
		busy = pg_atomic_read_u64(&ctl->keyspace_id) == keyspace_id &&
			(pg_atomic_read_u32(&((ControlBlock *) ctl)->jobs) > 0 ||
			 lsm_claimed_levels(ctl) != 0);
		LWLockRelease(&ctl->lock);
	}
	if (!busy)
	{
		LWLockAcquire(lsm_control_lock, LW_SHARED);
		busy = lsm_control_former_busy(keyspace_id);
		LWLockRelease(lsm_control_lock);
	}
	return busy;
}

/*
 * Jobs look for the loss of their block every thousand entries and between
 * files, so this takes milliseconds, or as long as one file takes to be made
 * durable.  Writers wait for nothing but LWLocks.  REQUIRES: no lock of src/tree held, not inside an epoch.
 */
void
lsm_control_wait_jobs(uint64 keyspace_id)
{
	bool		busy = true;

	Assert(!lsm_epoch_inside() && !LWLockHeldByMe(lsm_control_lock));
	if (job_writes(keyspace_id))
		elog(ERROR, "an lsm tree was replaced while this session was writing its files");
	while (busy)
	{
		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(lsm_control_lock, LW_SHARED);
		busy = lsm_control_former_busy(keyspace_id);
		LWLockRelease(lsm_control_lock);
		if (busy)
		{
			LSM_NAP(1000L, "LsmJobEnd");
		}
	}
}
