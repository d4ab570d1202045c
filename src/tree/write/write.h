/*-------------------------------------------------------------------------
 *
 * write.h
 *	  Writing: log pages, memtables, and the way back from the log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WRITE_H
#define LSM_WRITE_H

#include "tree/compaction/compaction.h"

/* ======================================================================
 * log.c, load.c, write.c: entries in log pages (format: log_entry.h)
 * ====================================================================== */

/*
 * Load the log into memtables: UNLOADED -> LOADED.  Generations that the arena
 * has no room for are flushed from backend memory.  Waits for another loader.
 * Not inside an epoch.
 */
extern void lsm_tree_load(LsmTree *tree);

/*
 * After an error: gives up this backend's registration as a writer and its load
 * in progress (state back to UNLOADED, memtables built so far freed).
 * Idempotent.  REQUIRES: LWLocks released.  lsm_tree_abort_cleanup() calls it.
 */
extern void lsm_write_abort(void);
extern void lsm_load_abort(void);	/* part of lsm_write_abort */

/*
 * Append entries from `first` on to the log: one WAL record; returns how many
 * it took (at least one; 0 if the write is optional and there is no room),
 * after inserting them into write->memtable.
 */
extern int	lsm_log_append(LsmWrite *write, int first);

/* Fetch the page that it will most likely go to. */
extern void lsm_log_prefetch(const LsmTree *tree);

/*
 * An optional write whose first entry takes this many bytes
 * (lsm_log_entry_room()) might find room.  A hint: nothing is locked.
 */
extern bool lsm_log_has_room(LsmTree *tree, uint32 bytes);

/*
 * This many bytes that need not be written have found no room: may a worker
 * give them some (background.c).
 */
extern void lsm_log_want_room(LsmTree *tree, uint32 bytes);

/*
 * lsm_write_apply() of DELETE entries: they are logged, and those that hide an
 * entry of the write's memtable, and nothing below, leave the memtable together
 * with it, so that no scan walks over them.  REQUIRES: nobody PUTs these keys
 * meanwhile.  (prune.c)
 */
extern void lsm_write_apply_deletes(LsmWrite *write);

#endif							/* LSM_WRITE_H */
