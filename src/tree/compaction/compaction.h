/*-------------------------------------------------------------------------
 *
 * compaction.h
 *	  Flushes and compactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPACTION_H
#define LSM_COMPACTION_H

#include "tree/read/read.h"

/* ======================================================================
 * flush.c, compact.c; output_job.c, publish_lock.c
 * ====================================================================== */

/*
 * Flush the oldest sealed memtable, or wait for whoever does.  True if one was
 * flushed (by anyone) or none is sealed; false if the relation could not be
 * locked (`conditional`: worker).  Errors (disk full) are the caller's.
 */
extern bool lsm_flush_oldest(LsmTree *tree, bool conditional);

/*
 * Flush entries of a generation which are not in shared memory (loader): a
 * local memtable.  Publishes flushed_generation = memtable->generation.
 *
 * The loader calls it with state LOADING: it owns the tree, ctl's counters
 * (seq, row_limit, next_file, version_no) are set, its memtables are not.  So: no
 * lsm_tree_enter(), no lock on the relation (the caller has one of any mode, which
 * is enough to keep DROP and TRUNCATE away), and no claim of the job: the load has
 * one.  The memtable may be an arena one that no set contains; it stays the
 * caller's.
 */
extern void lsm_flush_memtable(LsmTree *tree, LsmMemtable *memtable);

/*
 * claim.c: this process works on these levels of the tree; and no longer.
 * Whether it may is for the caller to know.  REQUIRES: ctl->lock, exclusive; to
 * take one, a level at least is nobody's.
 */
extern LsmClaim *lsm_claim_take(LsmTreeShared *ctl, uint32 levels);
extern void lsm_claim_give_up(LsmClaim **claim);

typedef enum LsmCompactResult
{
	LSM_COMPACT_DONE,
	LSM_COMPACT_NOTHING,		/* is due that can be done beside others */
	LSM_COMPACT_NOT_NOW			/* who plans, who waits for all levels, or who
								 * has the relation's lock is in the way */
} LsmCompactResult;

/* Do one due step of compaction.  `conditional`: worker. */
extern LsmCompactResult lsm_compact_once(LsmTree *tree, bool conditional);

/* A writer found level 0 too deep: compact or wait. */
extern void lsm_compact_stall(LsmTree *tree);

/*
 * After an error: give up claims, remove unfinished files.
 */
extern void lsm_flush_abort(void);

/* wal_offload.c */
extern Size lsm_rate_shmem_bytes(void);
extern void lsm_rate_shmem_init(void);
extern Size lsm_wal_offload_shmem_bytes(void);
extern void lsm_wal_offload_shmem_init(void);

/* Called between the output files of a compaction, if not NULL. */
extern void (*lsm_compact_pause_hook) (void);

/* From postmaster start: keep workers off relations that are being dropped. */
extern void lsm_publish_register(void);

/* This transaction drops the relation; the database. */
extern void lsm_publish_note_drop(Oid relid);
extern void lsm_publish_note_database_drop(Oid dboid);

/*
 * The tree is from now on known as this relation's, which the transaction may
 * have made of another one.
 */
extern void lsm_publish_note_taken(Oid relid);

/* Each process that publishes: at its first job, if not before. */
extern void lsm_unlink_register(void);

#endif							/* LSM_COMPACTION_H */
