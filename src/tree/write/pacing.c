/*-------------------------------------------------------------------------
 *
 * pacing.c
 *	  How long a write has to wait for how much debt.
 *
 * Flushes and compactions work off what writers leave behind.  Where writers
 * are faster, something has to slow them down; if that is nothing but a stop
 * when all room is used up, some of them wait for as long as a whole flush or
 * compaction takes.  So each write waits a little from a soft limit on, the
 * longer the nearer the stop is, until writers and workers are as fast as each
 * other (as RocksDB's write controller and Pebble's pacing have it).
 *
 * The wait is in proportion to the bytes that are written: who brings more
 * pays more, and writers share the debt without knowing of each other.  The
 * share s of the way from the soft limit to the stop that is used up gives
 * 	  us per kB = LSM_DELAY_US_PER_KB * s / (1 - s).
 * Nobody has to know how fast the workers are: s settles where the rates are
 * equal, near 0 with fast workers and near 1 with slow ones.  Since the fill
 * of the active memtable counts, s moves in small steps.
 *
 * Locking: none, no state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/write/pacing.h"

/* At half of the way: 25 MB per second and writer */
#define LSM_DELAY_US_PER_KB		40.0

/* The way never ends, or the wait would be infinite */
#define LSM_MOST_SHARE			0.98

/*
 * Compactions alone never stop writers: at this many times the soft limit their
 * debt counts as this.
 */
#define LSM_HARD_PENDING		4
#define LSM_MOST_PENDING_SHARE	0.9

static inline double
share_between(double value, double soft, double hard)
{
	return value <= soft ? 0.0 : Min((value - soft) / (hard - soft), 1.0);
}

double
lsm_debt_share(const LsmDebt *debt, LsmDelay *reason)
{
	double		shares[LSM_NDELAYS];
	double		spare = (double) debt->total_chunks / LSM_SOFT_ARENA_PART;
	double		most = 0.0;

	/* below the soft limit the memtable's fill is nobody's debt */
	shares[LSM_DELAY_LEVEL0] = debt->level0_runs < LSM_SOFT_LEVEL0_RUNS ? 0.0 :
		share_between(debt->level0_runs + debt->fill, LSM_SOFT_LEVEL0_RUNS, LSM_L0_STOP_RUNS);
	shares[LSM_DELAY_FLUSH] = debt->nsealed < LSM_SOFT_SEALED ? 0.0 :
		share_between(debt->nsealed + debt->fill, LSM_SOFT_SEALED, LSM_MAX_SEALED + 1);
	shares[LSM_DELAY_MEMORY] = share_between(-debt->free_chunks, -spare, 0.0);
	shares[LSM_DELAY_PENDING] = LSM_MOST_PENDING_SHARE *
		share_between(debt->pending_memtables, LSM_SOFT_MEMTABLES,
					  LSM_HARD_PENDING * LSM_SOFT_MEMTABLES);

	*reason = LSM_DELAY_LEVEL0;
	for (int i = 0; i < LSM_NDELAYS; i++)
	{
		if (shares[i] > most)
		{
			most = shares[i];
			*reason = (LsmDelay) i;
		}
	}
	return most;
}

double
lsm_debt_us(double share, uint64 bytes)
{
	share = Min(share, LSM_MOST_SHARE);
	return LSM_DELAY_US_PER_KB * share / (1.0 - share) * (double) bytes / 1024;
}
