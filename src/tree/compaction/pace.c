/*-------------------------------------------------------------------------
 *
 * pace.c
 *	  The one place where background work sleeps for the sake of others.
 *
 * What it is slowed down by:
 *	lsm.background_share	processors that sessions want: give_way.c
 *	lsm.compaction_rate		bytes that are written per second: rate.c
 *	vacuum_cost_delay		pages that VACUUM and ANALYZE pay for: here
 * How writers are slowed down is another matter (write/pacing.c), and so is when a
 * compaction is due (plan.c, scan_debt.c).
 *
 * Each ends where others would wait for the work itself: give_way.c knows how
 * urgent it is, rate.c whether writers stand still.  VACUUM owns a tree's
 * compaction while it rewrites files; where level 0 becomes deep meanwhile, it is
 * the one who has to deal with that (plan.c, lsm_plan_relief), and does not sleep.
 * For a flush, which nobody else can make meanwhile, it does not pay.  Where it is
 * in a hurry and pays nothing (no delay is set, or xids run out), it does not give
 * way either.
 *
 * PostgreSQL charges VACUUM and ANALYZE for the pages that they ask the buffer
 * manager for.  Sorted files do not come through the buffer manager, so what is
 * read and written of them is charged here: like pages of a heap that were not in
 * shared buffers, and that had to be written.
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
#include "tree/compaction/pace.h"
#include "tree/control/control.h"

/*
 * VACUUM's writers must not wait for it; of what a cursor reads (NULL), none
 * does.
 */
static bool
vacuum_is_waited_for(const LsmJob *job)
{
	return job != NULL && pg_atomic_read_u32(&job->ctl->files.level0_runs) >= LSM_L0_RELIEF_RUNS;
}

/*
 * VacuumCostBalance grows by what these bytes cost.  vacuum_delay_point()
 * sleeps for four times vacuum_cost_delay at most, whatever the balance, so a
 * large sum is paid in parts.
 */
static void
pay(uint64 read_bytes, uint64 written_bytes, LsmJob *job)
{
	static uint64 rest = 0;		/* in bytes times cost of a page */
	uint64		cost;

	rest += read_bytes * VacuumCostPageMiss + written_bytes * VacuumCostPageDirty;
	cost = rest / BLCKSZ;
	rest %= BLCKSZ;
	while (cost > 0)
	{
		int			part = (int) Min(cost, (uint64) Max(vacuum_cost_limit, 1));

		if (vacuum_is_waited_for(job))
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
	if (!VacuumCostActive)
		return;
	lsm_give_way(NULL);
	pay(read_bytes, 0, NULL);
}

/* See output_job.h. */
void
lsm_job_pace(LsmJob *job, uint64 read_bytes)
{
	uint64		written = lsm_job_written_bytes(job);
	bool		pays = VacuumCostActive && job->type != LSM_JOB_FLUSH;

	if (pays ? !vacuum_is_waited_for(job) : lsm_in_worker() || job->type == LSM_JOB_FLUSH)
		lsm_give_way(job);
	lsm_rate_wait(job, written);
	if (pays)
		pay(read_bytes, written - Min(written, job->pace.charged_bytes), job);
	job->pace.charged_bytes = written;
}
