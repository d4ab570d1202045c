/*-------------------------------------------------------------------------
 *
 * give_way.c
 *	  Background jobs leave the processors to sessions.
 *
 * A flush, a compaction, and what autovacuum does to a tree compute for tenths
 * of a second up to minutes.  Where sessions keep all processors busy, whoever
 * does that takes a fair share of one, and transactions queue up behind him;
 * though there would be time enough, were he to spread his work.  So he works
 * for lsm.background_share percent of the time only, and naps for the rest of
 * it, in pieces of some milliseconds.
 *
 * Naps help nobody while a processor is idle.  That a process was preempted
 * shows that another process wanted its processor (though that may have been the
 * kernel): only then, and for a while after it, do we nap.  (Priorities of the
 * kernel would do the same, but nice(2) is ignored among processes that are
 * leaders of sessions, as PostgreSQL's are, if the kernel groups by session; and
 * nobody may take it back for himself when work becomes urgent.)
 *
 * Work becomes urgent, and the share grows up to all of the time, as the tree
 * comes near to where writers are slowed down (pacing.h).  The share is all of
 * it, too, if anyone waits for what the tree's jobs do.
 *
 * Locking: ctl->lock and the mutex of ctl->cv for a moment.  Who naps may hold
 * a pinned version, no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>
#include <time.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/interrupt.h"
#include "storage/proc.h"
#include "storage/proclist.h"
#include "storage/spin.h"
#include "utils/guc.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/compaction/pace.h"
#include "tree/control/control.h"
#include "tree/memtable/memtable.h"

int			lsm_background_share = 25;

#define BURST_US		1000	/* work between two looks, at least */
#define REMEMBER_US		50000	/* for so long a preemption counts */
#define NAP_US			10000	/* between two looks whether it is urgent */
#define NAPS_MAX		20		/* after one burst */

/*
 * Urgent from this many percent of compaction_due on: twice what makes a step
 * due, eight runs in level 0
 */
#define URGENT_SCORE	200

/* What this process has used, when it looked last */
static uint64 looked_cpu_us = 0;
static long looked_preemptions = 0;
static uint64 last_preempted_us = 0;

static uint64
clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/*
 * CPU time since the last nap or since the last look that had nothing to nap
 * for.  0: too little to care, or nobody else wants the processor.
 */
static uint64
burst_to_pay_us(void)
{
	uint64		cpu_us = clock_us(CLOCK_PROCESS_CPUTIME_ID);
	uint64		burst_us = cpu_us - looked_cpu_us;
	uint64		now_us;
	struct rusage usage;

	if (burst_us < BURST_US)
		return 0;
	looked_cpu_us = cpu_us;
	now_us = clock_us(CLOCK_MONOTONIC);
	getrusage(RUSAGE_SELF, &usage);
	if (usage.ru_nivcsw != looked_preemptions)
		last_preempted_us = now_us;
	looked_preemptions = usage.ru_nivcsw;
	return now_us - last_preempted_us < REMEMBER_US ? burst_us : 0;
}

/* Does anyone wait for a flush or compaction of this tree? */
static bool
waited_for(LsmTreeShared *ctl)
{
	bool		result;

	SpinLockAcquire(&ctl->cv.mutex);
	result = !proclist_is_empty(&ctl->cv.wakeup);
	SpinLockRelease(&ctl->cv.mutex);
	return result;
}

/* What waits in all trees together: a worker is not one tree's alone. */
typedef struct Waiting
{
	uint64		looked_us;
	int			nflushes;		/* trees of which a memtable is sealed */
	int			nsealed;		/* memtables of one tree, at most */
	int			ncompactions;	/* trees of which a step is due */
	uint32		score;			/* the highest compaction_due */
} Waiting;

/* Unlocked: a hint, and not looked at anew within REMEMBER_US. */
static const Waiting *
look_at_all(void)
{
	static Waiting all;
	uint64		now_us = clock_us(CLOCK_MONOTONIC);

	if (all.looked_us != 0 && now_us - all.looked_us < REMEMBER_US)
		return &all;
	memset(&all, 0, sizeof(all));
	all.looked_us = now_us;
	for (int i = 0;; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		uint32		score;

		if (ctl == NULL)
			break;

		/* a block that is free, or not loaded, has what it had before */
		if (pg_atomic_read_u64(&ctl->keyspace_id) == 0 || ctl->state != LSM_STATE_LOADED ||
			ctl->local)
			continue;
		score = pg_atomic_read_u32(&ctl->files.compaction_due);
		all.score = Max(all.score, score);
		all.ncompactions += score >= 100;
		all.nflushes += ctl->memory.nsealed > 0;
		all.nsealed = Max(all.nsealed, ctl->memory.nsealed);
	}
	return &all;
}

/*
 * How urgent a flush is, 0 to 1: it had better be over when the memtable that
 * is being filled is half full.
 */
static double
flush_need(LsmJob *job)
{
	LsmTreeShared *ctl = job->ctl;
	double		fill = 1.0;

	if (lsm_arena_free_chunks() < lsm_arena_total_chunks() / 4)
		return 1.0;
	LWLockAcquire(&ctl->lock, LW_SHARED);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id && ctl->memory.nsealed == 1 &&
		ctl->memory.active != NULL)
		fill = (double) pg_atomic_read_u64(&ctl->memory.active->bytes) /
			lsm_tree_base_bytes(job->tree);
	LWLockRelease(&ctl->lock);
	return Min(2 * fill + Max(look_at_all()->nflushes - 1, 0) / 4.0, 1.0);
}

/* How urgent compactions are, 0 to 1. */
static double
compaction_need(void)
{
	const Waiting *all = look_at_all();

	if (all->score >= URGENT_SCORE)
		return 1.0;
	return Min((all->score > 100 ? (all->score - 100) / 100.0 : 0.0) +
			   Max(all->ncompactions - 1, 0) / 4.0, 1.0);
}

/* Whoever has both to do has to think of what waits behind the one, too. */
static double
need(LsmJob *job)
{
	bool		one_worker = !lsm_compaction_worker_runs();

	if (job == NULL)
		return 0.0;
	if (waited_for(job->ctl) || (one_worker && look_at_all()->nsealed > 1))
		return 1.0;
	if (job->type == LSM_JOB_FLUSH)
		return one_worker ? Max(flush_need(job), compaction_need()) : flush_need(job);
	return compaction_need();
}

/*
 * Autovacuum that has to be over before xids run out does not give way.
 * ANALYZE does not either: it has a snapshot, for which dead rows have to stay.
 * A row that is updated all the time has thousands of versions after some
 * seconds, which its next updates go past.
 */
static bool
gives_way(void)
{
	return lsm_in_worker() ||
		(AmAutoVacuumWorkerProcess() &&
		 (MyProc->statusFlags & (PROC_IN_VACUUM | PROC_VACUUM_FOR_WRAPAROUND)) == PROC_IN_VACUUM);
}

/* See pace.h. */
void
lsm_give_way(LsmJob *job)
{
	double		share = lsm_background_share / 100.0;
	uint64		burst_us;

	if (lsm_background_share >= 100 || !gives_way())
		return;
	burst_us = burst_to_pay_us();
	for (int i = 0; burst_us > 0 && i < NAPS_MAX; i++)
	{
		double		part = share + (1.0 - share) * need(job);
		uint64		nap_us = burst_us * (1.0 - part) / part;

		if (nap_us <= (uint64) i * NAP_US)
			break;
		nap_us = Min(nap_us - (uint64) i * NAP_US, NAP_US);
		CHECK_FOR_INTERRUPTS();
		LSM_NAP(nap_us, "LsmGiveWay");
	}

	/* a worker would see a new share when the job is over */
	if (burst_us > 0 && lsm_in_worker() && ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}
