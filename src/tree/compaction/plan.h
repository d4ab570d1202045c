/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  Which files to compact or to move (plan.c).
 *
 * Plans are palloc'd and point into the version, which has to outlive them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PLAN_H
#define LSM_PLAN_H

#include "tree/read/merge.h"

typedef struct LsmPlan
{
	int			out_level;
	uint64		out_run;		/* of level 0 */
	int			below;			/* the version's runs from this on may hold
								 * older entries of the same keys */
	bool		move;			/* only change the level */
	int			nsequences;
	LsmSequence *sequences;		/* newest first */
	int			nfiles;
	LsmFile   **files;			/* all inputs */
} LsmPlan;

/* Bytes a level >= 1 may hold. */
extern double lsm_level_target(LsmTree *tree, int level);

/* The oldest file of level 0, which must not be empty. */
extern int	lsm_plan_oldest_level0(LsmVersion *version);

/* Any level below has keys in the file's range. */
extern bool lsm_plan_overlaps_below(const LsmVersion *version, int level,
									const LsmFile *file);

/*
 * The next step that takes none of these levels; NULL: no such is due.
 * REQUIRES: the claim of a planner.
 */
extern LsmPlan *lsm_plan_due(LsmTree *tree, LsmVersion *version, uint32 others_levels);

/* The levels that the plan takes files from or puts files into, by bits */
extern uint32 lsm_plan_levels(const LsmPlan *plan);

/*
 * scan_debt.c: how many entries scans have to merge before the next step is
 * worth it to them, 0: there is none; and that step, if they have, whose price
 * is taken off then.  NULL: they have not.  REQUIRES: the claim of a planner, and
 * that nobody else has one.
 */
extern uint64 lsm_scan_price(const LsmTree *tree, const LsmVersion *version);
extern LsmPlan *lsm_plan_paid(LsmTree *tree, LsmVersion *version);

/*
 * Level 0 into level 1, the files connected with `seed`.  `rewrite`: do not
 * just move.
 */
extern LsmPlan *lsm_plan_level0(LsmVersion *version, int seed, bool rewrite);

/*
 * Files of level 0 that overlap nothing in levels 0 and 1; NULL: there is none.
 */
extern LsmPlan *lsm_plan_level0_moves(LsmVersion *version);

/* Files first..last of a level >= 1 into the next one. */
extern LsmPlan *lsm_plan_push(LsmVersion *version, int level, int first, int last);

/*
 * Level 0 into level 1, if it is so deep that who owns the compaction for long
 * has to see to that first; else NULL.  NULL, too, after some such steps in a
 * row: the owner's own work goes on, however fast others write.  *in_a_row
 * counts them, and is 0 at first.
 */
extern LsmPlan *lsm_plan_relief(LsmVersion *version, int *in_a_row);

/*
 * Files first..last of a run, rewritten where they are, and with them those
 * that have to be: the order of the others stays right.
 */
extern LsmPlan *lsm_plan_rewrite(LsmVersion *version, LsmRun *run, int first, int last);

#endif							/* LSM_PLAN_H */
