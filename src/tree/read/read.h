/*-------------------------------------------------------------------------
 *
 * read.h
 *	  Counters, and a process's view of the files (version.h, filecache.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_READ_H
#define LSM_READ_H

#include "tree/disk/disk.h"

extern void lsm_count(LsmTree *tree, LsmCounter counter, uint64 n);

/* This process' counts by level, as far as they are published. */
extern LsmFilterCounts lsm_level_counts[LSM_MAX_LEVELS];

/* Move one handle's counts to its control block; the handle goes away. */
extern void lsm_counters_forget(LsmTree *tree);

/* ======================================================================
 * version.c, filecache.c: a backend's view of the files
 * ====================================================================== */

typedef struct LsmVersion LsmVersion;	/* in version.h */

/* Drop the handle's cached version. */
extern void lsm_version_release(LsmTree *tree);

/* counters.c */
extern Size lsm_counters_shmem_bytes(void);
extern void lsm_counters_shmem_init(void);

/* filestats.c */
extern Size lsm_filestats_shmem_bytes(void);
extern void lsm_filestats_shmem_init(void);
extern void lsm_filestats_publish(void);

extern void lsm_filestats_reset(Oid dboid);

/* ERROR if files that are missing were left out of the version (salvage.c). */
extern void lsm_salvage_forbid(LsmTree *tree, const LsmVersion *version);

#endif							/* LSM_READ_H */
