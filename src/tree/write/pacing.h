/*-------------------------------------------------------------------------
 *
 * pacing.h
 *	  How long a write has to wait for how much debt: a policy without
 *	  PostgreSQL, to be tested by itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PACING_H
#define LSM_PACING_H

#include "tree/facts.h"

/* What flushes and compactions of a tree have yet to do, and what room is left */
typedef struct LsmDebt
{
	int			level0_runs;
	int			nsealed;
	double		fill;			/* of the active memtable, 0 to 1 */
	int			free_chunks;	/* of the arena */
	int			total_chunks;
	double		pending_memtables;	/* bytes to be compacted, in memtables */
} LsmDebt;

/*
 * 0: writers need not wait, to 1: they will have to stop.  Grows with each of
 * the debts; *reason is the one that is largest.
 */
extern double lsm_debt_share(const LsmDebt *debt, LsmDelay *reason);

/* What a write of this many bytes waits at this share, microseconds */
extern double lsm_debt_us(double share, uint64 bytes);

/* Limits from which on there is a debt, for the quick look */
#define LSM_SOFT_LEVEL0_RUNS	12
#define LSM_SOFT_SEALED			3
#define LSM_SOFT_ARENA_PART		16	/* free memory: total / this */
#define LSM_SOFT_MEMTABLES		1024

#endif							/* LSM_PACING_H */
