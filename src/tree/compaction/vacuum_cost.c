/*-------------------------------------------------------------------------
 *
 * vacuum_cost.c
 *	  Cost-based delay of VACUUM and ANALYZE.
 *
 * PostgreSQL charges them for the pages that they ask the buffer manager for,
 * and has them sleep when vacuum_cost_limit is reached.  Sorted files do not
 * come through the buffer manager, so what is read and written of them is
 * charged here: like pages of a heap that were not in shared buffers, and that
 * had to be written.  Autovacuum then leaves writers the machine as it does
 * beside a heap, with the settings that people know.
 *
 * VACUUM owns a tree's compaction while it rewrites files.  Where level 0
 * becomes deep meanwhile, it is the one who has to deal with that (plan.c,
 * lsm_plan_relief), and does not sleep.
 *
 * Locking: none.  What sleeps may hold a pinned version, no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/vacuum.h"
#include "miscadmin.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"

/*
 * VacuumCostBalance grows by what so many bytes cost.  vacuum_delay_point()
 * sleeps for four times vacuum_cost_delay at most, whatever the balance, so a
 * large sum is paid in parts.  NULL: no tree whose level 0 matters.
 */
static void
pay(uint64 read_bytes, uint64 written_bytes, LsmJob *job)
{
	static uint64 rest = 0;		/* in bytes times cost of a page */
	LsmTreeShared *ctl = job != NULL ? job->ctl : NULL;
	uint64		cost;

	if (!VacuumCostActive)
		return;
	if (ctl == NULL || pg_atomic_read_u32(&ctl->level0_runs) < LSM_L0_RELIEF_RUNS)
		lsm_give_way(job);
	rest += read_bytes * VacuumCostPageMiss + written_bytes * VacuumCostPageDirty;
	cost = rest / BLCKSZ;
	rest %= BLCKSZ;
	while (cost > 0)
	{
		int			part = (int) Min(cost, (uint64) Max(vacuum_cost_limit, 1));

		if (ctl != NULL && pg_atomic_read_u32(&ctl->level0_runs) >= LSM_L0_RELIEF_RUNS)
		{
			VacuumCostBalance = 0;
			return;
		}
		VacuumCostBalance += part;
		cost -= part;
		vacuum_delay_point(false);
	}
}

/* See tree.h. */
void
lsm_vacuum_pay(uint64 read_bytes)
{
	pay(read_bytes, 0, NULL);
}

/* See output_job.h. */
void
lsm_vacuum_pay_job(LsmJob *job, uint64 read_bytes, uint64 written_bytes)
{
	uint64		written = written_bytes - Min(written_bytes, job->charged_bytes);

	job->charged_bytes = written_bytes;
	pay(read_bytes, written, job);
}
