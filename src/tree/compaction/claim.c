/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Who works on what of a tree: claims.
 *
 * A claim is a process and the levels that are its own; the memtables count as
 * one more level.
 *
 *	flush			the memtables: one process at a time
 *	load			the memtables; while the state is LOADING, nothing else begins
 *	compaction		the step's levels
 *	plan			all levels but those that others have
 *	request			all levels (lsm_tree_compact, purges, builds)
 *
 * Redo feeds the memtables of a standby without a claim: there are no flushes.
 *
 * Several processes may compact one tree, as long as no two have a level in
 * common.  A step of compaction takes files of one level and of the next one,
 * and puts files into the latter; so its claim has two levels (one, where files
 * are written together where they are).  Only who has a level in his claim
 * removes files from it or changes their level, so the files that a step reads
 * stay.  A flush needs no level: it only adds to level 0, and what it adds is
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
 * A planner has all levels but those that others have: two planners at the same
 * time might choose the same.  The planner keeps what its plan takes.  While a
 * request waits, workers begin nothing.  Writers that would stand still do: a
 * request would make that step first, too (lsm_plan_relief).
 *
 * Locking: claims are taken and given up under ctl->lock, exclusive.  A
 * process reads its own without.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "tree/compaction/compaction.h"
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

	return now < ctl->jobs.whole_wanted &&
		ctl->jobs.whole_wanted <= TimestampTzPlusMilliseconds(now, WANTED_MS);
}

/* See compaction.h. */
LsmClaim *
lsm_claim_take(LsmTreeShared *ctl, uint32 levels)
{
	LsmClaim   *claim = ctl->jobs.claims;

	Assert(LWLockHeldByMeInMode(&ctl->lock, LW_EXCLUSIVE));
	Assert(levels != 0);
	while (claim->pid != 0)
	{
		claim++;
		Assert(claim < ctl->jobs.claims + LSM_MAX_CLAIMS);
	}
	claim->pid = MyProcPid;
	claim->levels = levels;
	return claim;
}

/* See compaction.h. */
void
lsm_claim_give_up(LsmClaim **claim)
{
	Assert((*claim)->pid == MyProcPid && (*claim)->levels != 0);
	(*claim)->levels = 0;
	(*claim)->pid = 0;
	*claim = NULL;
}

/* See output_job.h. */
bool
lsm_claim_plan(LsmJob *job)
{
	LsmTreeShared *ctl = job->ctl;
	uint32		others;

	Assert(job->claim == NULL);
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	others = lsm_claimed_levels(ctl) & LSM_ALL_LEVELS;
	if (pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id &&
		ctl->state == LSM_STATE_LOADED && others != LSM_ALL_LEVELS &&
		!(job->pace.limited && whole_wanted(ctl)))
	{
		job->claim = lsm_claim_take(ctl, LSM_ALL_LEVELS);
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
	if (!ctl->local && pg_atomic_read_u32(&ctl->files.compaction_due) != 0)
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
		if ((lsm_claimed_levels(ctl) & LSM_ALL_LEVELS) == 0)
		{
			job->claim = lsm_claim_take(ctl, LSM_ALL_LEVELS);
			job->others_levels = 0;
			ctl->jobs.whole_wanted = 0;
		}
		else
			ctl->jobs.whole_wanted = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WANTED_MS);
	}
	LWLockRelease(&ctl->lock);
	return job->claim != NULL;
}

#ifdef USE_ASSERT_CHECKING
bool
lsm_claim_covers(const LsmTreeShared *ctl, uint32 levels)
{
	for (int i = 0; i < LSM_MAX_CLAIMS; i++)
	{
		if (ctl->jobs.claims[i].pid == MyProcPid)
			levels &= ~ctl->jobs.claims[i].levels;
	}
	return levels == 0;
}
#endif
