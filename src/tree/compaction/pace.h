/*-------------------------------------------------------------------------
 *
 * pace.h
 *	  What slows background work down: for pace.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PACE_H
#define LSM_PACE_H

#include "tree/compaction/output_job.h"

/* rate.c: the job has written these bytes in all; sleeps if that was too fast. */
extern void lsm_rate_wait(LsmJob *job, uint64 written);

/*
 * give_way.c.  To be called after each millisecond of work or so.  Where sessions
 * want the processors, a worker or autovacuum naps, as lsm.background_share has it
 * and as far as the work is not urgent.  NULL: it is not.  REQUIRES: outside the
 * epoch, no LWLock.
 */
extern void lsm_give_way(LsmJob *job);

#endif							/* LSM_PACE_H */
