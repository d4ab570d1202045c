/*-------------------------------------------------------------------------
 *
 * rate.c
 *	  lsm.compaction_rate: how much compactions may write per second, all
 *	  together.
 *
 * One word of shared memory says until when what was written so far has been
 * paid for.  Who has written something moves it on by the time that this takes
 * at the rate (his own, should a session have set another), and sleeps until
 * the time that it said before.  What nobody used is lost, but for a tenth of
 * a second (the virtual scheduling algorithm of ITU-T I.371).
 *
 * Two rules keep the limit from doing harm.  It does not hold for a tree whose
 * level 0 is so deep that its writers stand still: the sooner that ends the
 * better.  And who sleeps lets flushes through, as between two pieces of work.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "storage/shmem.h"
#include "utils/guc.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"

int			lsm_compaction_rate_kb = 0;

void		(*lsm_compact_pause_hook) (void) = NULL;

#define LSM_RATE_BURST_US	100000
#define LSM_RATE_NAP_US		10000

static pg_atomic_uint64 *paid_until_us = NULL;

Size
lsm_rate_shmem_bytes(void)
{
	return sizeof(pg_atomic_uint64);
}

/* REQUIRES: AddinShmemInitLock held. */
void
lsm_rate_shmem_init(void)
{
	bool		found;

	paid_until_us = ShmemInitStruct("lsmam compaction rate", lsm_rate_shmem_bytes(), &found);
	if (!found)
		pg_atomic_init_u64(paid_until_us, 0);
}

/* Of a clock that all processes share */
static uint64
now_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

/* Take the time that so many bytes need; returns when they may begin. */
static uint64
rate_take(uint64 bytes, int rate_kb)
{
	uint64		cost = (uint64) ((double) bytes * 1e6 / ((double) rate_kb * 1024));
	uint64		before = pg_atomic_read_u64(paid_until_us);
	uint64		start;

	do
	{
		uint64		now = now_us();

		start = Max(before, now > LSM_RATE_BURST_US ? now - LSM_RATE_BURST_US : 0);
	} while (!pg_atomic_compare_exchange_u64(paid_until_us, &before, start + cost));
	return start;
}

static inline bool
rate_applies(LsmJob *job)
{
	return job->limited && lsm_compaction_rate_kb > 0 &&
		pg_atomic_read_u32(&job->ctl->level0_runs) < LSM_L0_STOP_RUNS;
}

/*
 * The job has written so many bytes in all.  Sleeps if that was too fast.
 */
void
lsm_rate_wait(LsmJob *job, uint64 written)
{
	int			rate_kb = lsm_compaction_rate_kb;
	uint64		start;

	if (!rate_applies(job))
	{
		job->paid_bytes = written;
		return;
	}
	if (written <= job->paid_bytes)
		return;
	start = rate_take(written - job->paid_bytes, rate_kb);
	job->paid_bytes = written;
	while (now_us() < start && rate_applies(job))
	{
		CHECK_FOR_INTERRUPTS();
		LSM_NAP(LSM_RATE_NAP_US, "LsmCompactionRate");
		if (lsm_compact_pause_hook != NULL)
			lsm_compact_pause_hook();

		/* a worker would see a new rate when the compaction is over */
		if (lsm_in_worker() && ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (lsm_compaction_rate_kb != rate_kb)
		{
			/* what was taken was taken at another rate */
			pg_atomic_write_u64(paid_until_us, now_us());
			return;
		}
	}
}
