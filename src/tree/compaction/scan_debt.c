/*-------------------------------------------------------------------------
 *
 * scan_debt.c
 *	  Compactions that scans have paid for.
 *
 * An index that is written no more keeps the runs that it has, and each scan
 * merges them again.  How often it will be scanned nobody knows.  As with the
 * skis that one can rent each day or buy: who buys once the rents paid come to
 * the price pays at most twice what he would if he knew.  Scans count the
 * entries that they have merged from several runs (lsm_count_merged); when
 * merging them has cost as much as a step of compaction would, the step is
 * made, and its price is taken off.  So scans never cause more work than they
 * have done themselves.
 *
 * The topmost level goes down first: that is the cheapest step, and takes most
 * runs away.
 *
 * Locking: none; the caller's version.  The counter is atomic.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/compaction/output_job.h"
#include "tree/compaction/plan.h"
#include "tree/control/control.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/*
 * Writing an entry anew costs as much as merging this many costs more than
 * reading them from one run (docs/decisions.md, "Compactions that scans have
 * paid for"); and a step as much as writing this many entries.
 */
#define MERGED_PER_WRITTEN	30
#define STEP_ENTRIES		100000

/*
 * The level to go down next, and about how many entries the step writes.
 * False: there are no two runs.
 */
static bool
next_step(const LsmVersion *version, int *level, double *entries)
{
	if (version->nruns < 2)
		return false;
	*entries = 0;
	if (version->level0_runs > 0)
	{
		*level = 0;
		for (int i = 0; i < version->level0_runs; i++)
			*entries += version->runs[i].entries;
		if (version->levels[1] != NULL)
			*entries += version->levels[1]->entries;
		return true;
	}
	for (int i = 1; i < version->deepest; i++)
	{
		const LsmRun *run = version->levels[i];
		const LsmRun *next = version->levels[i + 1];

		if (run == NULL)
			continue;
		*level = i;
		*entries = (double) run->entries / run->nfiles +
			(next != NULL ? (double) next->entries / run->nfiles : 0);
		return true;
	}
	return false;
}

static uint64
price_of(double entries)
{
	return (uint64) ((entries + STEP_ENTRIES) * MERGED_PER_WRITTEN);
}

uint64
lsm_scan_price(const LsmTree *tree, const LsmVersion *version)
{
	int			level;
	double		entries;

	if (tree->kind != LSM_KIND_INDEX || !next_step(version, &level, &entries))
		return 0;
	return price_of(entries);
}

/*
 * Take the price off.  What is left is not more than the price: who scans while
 * nothing can be compacted does not pay in advance for a hundred steps.
 */
static bool
pay(LsmTreeShared *ctl, uint64 price)
{
	uint64		merged = pg_atomic_read_u64(&ctl->merged);

	do
	{
		if (merged < price)
			return false;
	} while (!pg_atomic_compare_exchange_u64(&ctl->merged, &merged, Min(merged - price, price)));
	return true;
}

LsmPlan *
lsm_plan_paid(LsmTree *tree, LsmVersion *version)
{
	uint64		price = lsm_scan_price(tree, version);
	LsmPlan    *plan;
	int			level;
	double		entries;

	if (price == 0 || !lsm_compaction_by_scans || !next_step(version, &level, &entries) || !pay(tree->ctl, price))
		return NULL;
	if (level > 0)
		return lsm_plan_push(version, level, 0, 0);
	plan = lsm_plan_level0_moves(version);
	return plan != NULL ? plan : lsm_plan_level0(version, lsm_plan_oldest_level0(version), false);
}
