/*-------------------------------------------------------------------------
 *
 * rate.c
 *	  lsm.compaction_rate: how much compactions may write per second, all
 *	  together.
 *
 * One word of shared memory says until when what was written so far has been
 * paid for.  Who has written something moves it on by the time that this takes
 * at the server's rate, and sleeps until the time that it said before.  What
 * nobody used is lost, but for a tenth of a second (the virtual scheduling
 * algorithm of ITU-T I.371).
 *
 * A session may have set another rate.  With a higher one it moves the word on
 * by less.  With a lower one it has to wait besides for a word of its own: what
 * one user takes for slow is not to keep all others waiting.
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
#include "postmaster/interrupt.h"
#include "storage/shmem.h"
#include "utils/guc.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/compaction/pace.h"
#include "tree/control/clock.h"
#include "tree/control/control.h"

int			lsm_compaction_rate_kb = 0;

void		(*lsm_compact_pause_hook) (void) = NULL;

#define LSM_RATE_BURST_US	100000
#define LSM_RATE_NAP_US		10000

typedef struct RateShared
{
	pg_atomic_uint64 paid_until_us;
	pg_atomic_uint32 server_rate_kb;	/* as workers have it; 0: no limit */
} RateShared;

static RateShared *rate = NULL;

/* Of this process, by a rate that is lower than the server's */
static uint64 own_paid_until_us = 0;
static int	own_rate_kb = 0;

Size
lsm_rate_shmem_bytes(void)
{
	return sizeof(RateShared);
}

/* REQUIRES: AddinShmemInitLock held. */
void
lsm_rate_shmem_init(void)
{
	bool		found;

	rate = ShmemInitStruct("lsmam compaction rate", lsm_rate_shmem_bytes(), &found);
	if (found)
		return;
	pg_atomic_init_u64(&rate->paid_until_us, 0);
	pg_atomic_init_u32(&rate->server_rate_kb, lsm_compaction_rate_kb);
}

/* See output_job.h. */
void
lsm_rate_note_server(void)
{
	if (pg_atomic_read_u32(&rate->server_rate_kb) != (uint32) lsm_compaction_rate_kb)
		pg_atomic_write_u32(&rate->server_rate_kb, lsm_compaction_rate_kb);
}

/* instr_time would not do: PostgreSQL 19's is good for intervals of one process. */
static uint64
now_us(void)
{
	return (uint64) lsm_monotonic_now();
}

static uint64
cost_us(uint64 bytes, int rate_kb)
{
	return (uint64) ((double) bytes * 1e6 / ((double) rate_kb * 1024));
}

/* What was not used before is lost, but for a short time. */
static uint64
start_after(uint64 paid_until)
{
	uint64		now = now_us();

	return Max(paid_until, now > LSM_RATE_BURST_US ? now - LSM_RATE_BURST_US : 0);
}

/* Take the time that these bytes need; returns when they may begin. */
static uint64
rate_take(uint64 bytes, int rate_kb)
{
	int			server_rate_kb = (int) pg_atomic_read_u32(&rate->server_rate_kb);
	uint64		start = 0;

	if (server_rate_kb > 0)
	{
		uint64		cost = cost_us(bytes, Max(rate_kb, server_rate_kb));
		uint64		before = pg_atomic_read_u64(&rate->paid_until_us);

		do
			start = start_after(before);
		while (!pg_atomic_compare_exchange_u64(&rate->paid_until_us, &before, start + cost));
	}
	if (server_rate_kb == 0 || rate_kb < server_rate_kb)
	{
		uint64		own_start;

		/* what was taken at another rate, perhaps for a job that was canceled */
		if (own_rate_kb != rate_kb)
			own_paid_until_us = 0;
		own_rate_kb = rate_kb;
		own_start = start_after(own_paid_until_us);
		own_paid_until_us = own_start + cost_us(bytes, rate_kb);
		start = Max(start, own_start);
	}
	return start;
}

static inline bool
rate_applies(LsmJob *job)
{
	return job->pace.limited && lsm_compaction_rate_kb > 0 &&
		pg_atomic_read_u32(&job->ctl->files.level0_runs) < LSM_L0_STOP_RUNS;
}

/* See pace.h. */
void
lsm_rate_wait(LsmJob *job, uint64 written)
{
	int			rate_kb = lsm_compaction_rate_kb;
	uint64		start;

	if (!rate_applies(job))
	{
		job->pace.paid_bytes = written;
		return;
	}
	if (written <= job->pace.paid_bytes)
		return;
	start = rate_take(written - job->pace.paid_bytes, rate_kb);
	job->pace.paid_bytes = written;
	while (now_us() < start && rate_applies(job) && lsm_job_current(job))
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
			lsm_rate_note_server();
			pg_atomic_write_u64(&rate->paid_until_us, now_us());
			own_paid_until_us = 0;
			return;
		}
	}
}
