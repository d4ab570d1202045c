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

/* ======================================================================
 * counters.c, statistics.c, filestats.c: what happened
 * ====================================================================== */

/*
 * A scan has merged this many entries from several runs.  REQUIRES: outside the
 * epoch.
 */
extern void lsm_count_merged(LsmTree *tree, int n);

/* All this process has counted since it started, ... */
extern uint64 lsm_session_counters[LSM_NCOUNTERS];

/* ... and by level, as far as it is published */
extern LsmFilterCounts lsm_level_counts[LSM_MAX_LEVELS];

/* Part of lsm_counters_publish(). */
extern void lsm_counters_publish_trees(void);

/* Move one handle's counts to its control block; the handle goes away. */
extern void lsm_counters_forget(LsmTree *tree);

/* statistics.c */
extern Size lsm_counters_shmem_bytes(void);
extern void lsm_counters_shmem_init(void);

/* filestats.c */
extern Size lsm_filestats_shmem_bytes(void);
extern void lsm_filestats_shmem_init(void);
extern void lsm_filestats_publish(void);

extern void lsm_filestats_reset(Oid dboid);

/* ======================================================================
 * version.c, filecache.c: a backend's view of the files
 * ====================================================================== */

typedef struct LsmVersion LsmVersion;	/* in version.h */

/* Drop the handle's cached version. */
extern void lsm_version_release(LsmTree *tree);

/*
 * ERROR if files that are missing were left out of the version (salvage.c), or
 * if log pages were (`incomplete`: the tree is loaded so).
 */
extern void lsm_salvage_forbid(LsmTree *tree, const LsmVersion *version, bool incomplete);

#endif							/* LSM_READ_H */
