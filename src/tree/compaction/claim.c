/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Which levels of a tree a process compacts: claims.
 *
 * Several processes may compact one tree, as long as no two have a level in
 * common.  A step of compaction takes files of one level and of the next one,
 * and puts files into the latter; so its claim has two levels (one, where files
 * are written together where they are).  Only who has a level in his claim
 * removes files from it or changes their level, so the files that a step reads
 * stay.  Flushes need no claim: they only add to level 0, and what they add is
 * newer than everything that a step has taken.
 *
 * Why a step may decide about its entries by the version that it began with,
 * though others go on: it leaves out a DELETE, or a value that is not complete,
 * where no level below its output has an older entry of the key
 * (job_at_bottom).  Other steps move entries down, never up.  What lies below
 * the output later has lain below it in that version, or has come from the
 * levels of the step itself, which are its own.  In between nothing comes from
 * above: for that, a step would have to have the output's level.
 *
 * Who plans has all levels but those that others have: two who plan at the same
 * time might choose the same.  The planner keeps what its plan takes.  Requests
 * (lsm_tree_compact, purges, builds) need all levels for themselves.  While one
 * waits, workers begin nothing.  Writers that would stand still do: a request
 * would make that step first, too (lsm_plan_relief).
 *
 * Locking: claims are taken and given up under ctl->lock, exclusive.  A
 * process reads its own without.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "tree/compaction/output_job.h"
#include "tree/control/control.h"

/*
 * How long a request that waits keeps workers from beginning a step; it asks
 * again before.  Should it die, nobody has to tidy up after it.
 */
#define WANTED_MS		2000

/* A request waits.  (If the clock was set back, it does not.)  Under ctl->lock */
static bool
whole_wanted(const LsmTreeShared *ctl)
{
	TimestampTz now = GetCurrentTimestamp();

	return now < ctl->whole_wanted &&
		ctl->whole_wanted <= TimestampTzPlusMilliseconds(now, WANTED_MS);
}

/* There is one: one level at least is in no claim.  Under ctl->lock */
static LsmClaim *
claim_slot(LsmTreeShared *ctl)
{
	int			i = 0;

	while (ctl->claims[i].pid != 0)
	{
		i++;
		Assert(i < LSM_MAX_CLAIMS);
	}
	return &ctl->claims[i];
}

/* See output_job.h. */
bool
lsm_claim_plan(LsmJob *job)
{
	LsmTreeShared *ctl = job->ctl;
	uint32		others;

	Assert(job->claim == NULL);
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	others = lsm_claimed_levels(ctl);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id &&
		ctl->state == LSM_STATE_LOADED && others != LSM_ALL_LEVELS &&
		!(job->limited && whole_wanted(ctl)))
	{
		job->claim = claim_slot(ctl);
		job->claim->pid = MyProcPid;
		job->claim->levels = LSM_ALL_LEVELS;
		job->others_levels = others;
	}
	LWLockRelease(&ctl->lock);
	return job->claim != NULL;
}

/* See output_job.h. */
void
lsm_claim_keep(LsmJob *job, uint32 levels)
{
	LsmTreeShared *ctl = job->ctl;

	Assert(job->claim != NULL && job->claim->pid == MyProcPid);
	Assert(levels != 0 && (levels & job->others_levels) == 0);
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	job->claim->levels = levels;
	LWLockRelease(&ctl->lock);

	/* another one may find something in the others */
	ConditionVariableBroadcast(&ctl->cv);
	if (!ctl->local && pg_atomic_read_u32(&ctl->compaction_due) != 0)
		lsm_worker_wake();
}

/* See output_job.h. */
bool
lsm_claim_whole(LsmJob *job)
{
	LsmTreeShared *ctl = job->ctl;

	Assert(job->claim == NULL);
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id &&
		ctl->state == LSM_STATE_LOADED)
	{
		if (lsm_claimed_levels(ctl) == 0)
		{
			job->claim = &ctl->claims[0];
			job->claim->pid = MyProcPid;
			job->claim->levels = LSM_ALL_LEVELS;
			job->others_levels = 0;
			ctl->whole_wanted = 0;
		}
		else
			ctl->whole_wanted = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WANTED_MS);
	}
	LWLockRelease(&ctl->lock);
	return job->claim != NULL;
}

/* See output_job.h. */
void
lsm_claim_release(LsmJob *job)
{
	if (job->claim == NULL)
		return;
	Assert(LWLockHeldByMeInMode(&job->ctl->lock, LW_EXCLUSIVE));
	Assert(job->claim->pid == MyProcPid);
	job->claim->levels = 0;
	job->claim->pid = 0;
	job->claim = NULL;
}

#ifdef USE_ASSERT_CHECKING
bool
lsm_claim_covers(const LsmTreeShared *ctl, uint32 levels)
{
	for (int i = 0; i < LSM_MAX_CLAIMS; i++)
	{
		if (ctl->claims[i].pid == MyProcPid)
			return (levels & ~ctl->claims[i].levels) == 0;
	}
	return false;
}
#endif
