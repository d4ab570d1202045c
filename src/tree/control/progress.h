/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  Jobs in progress (progress.c): what the tree's own files need beside
 *	  facts.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PROGRESS_H
#define LSM_PROGRESS_H

#include "tree/tree.h"

extern Size lsm_progress_shmem_bytes(void);
extern void lsm_progress_shmem_init(void);

/* From the abort of a (sub)transaction. */
extern void lsm_progress_abort(void);

#endif							/* LSM_PROGRESS_H */
