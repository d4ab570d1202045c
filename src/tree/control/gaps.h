/*-------------------------------------------------------------------------
 *
 * gaps.h
 *	  Gaps: ranges of keys in which an index has no entry, as far as scans have
 *	  found out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_GAPS_H
#define LSM_GAPS_H

#include "tree/control/control.h"
#include "tree/control/crash_point.h"

/* Longer keys are cut, or not remembered. */
#define LSM_GAP_KEY_BYTES	112

typedef struct LsmGapKey
{
	uint32		len;
	char		data[LSM_GAP_KEY_BYTES];
} LsmGapKey;

extern Size lsm_gaps_shmem_bytes(void);
extern void lsm_gaps_shmem_init(void);

/* May the tree have gaps?  False is certain. */
static inline bool
lsm_gaps_any(LsmTreeShared *ctl)
{
	return pg_atomic_read_u32(&ctl->has_gaps) != 0;
}

/*
 * Is the key in a gap?  *high: the first key behind the gap.
 */
extern bool lsm_gaps_find(LsmTree *tree, LsmSlice key, LsmGapKey *high);

/*
 * A scan is about to read all keys from `low` on: writes of keys are noted from
 * now on.  Returns the watch, 0 if there is none to be had.  REQUIRES: sources
 * are positioned after this call; not in recovery; the tree is shared.
 */
extern uint64 lsm_gaps_watch(LsmTree *tree, LsmSlice low);

/*
 * The scan has read all keys from the watch's `low` up to before `high`, and
 * none of them had an entry.  Ends the watch.
 */
extern void lsm_gaps_learn(LsmTree *tree, uint64 watch, LsmSlice high);

/* The watch ends without a result. */
extern void lsm_gaps_unwatch(LsmTree *tree, uint64 watch);

/* Nothing is known any more, watches come to nothing. */
extern void lsm_gaps_forget(LsmTree *tree);

extern void lsm_gaps_note(LsmTree *tree, const LsmEntry *entries, int n);

/*
 * These entries are in the memtable.  To be called by the writer before it
 * tells anyone.
 */
static inline void
lsm_gaps_written(LsmTree *tree, const LsmEntry *entries, int n)
{
	if (tree->kind != LSM_KIND_INDEX)
		return;
	/* the entries are seen, or the watch is: gaps.c */
	pg_memory_barrier();
	if (unlikely(lsm_gaps_any(tree->ctl)) && !LSM_LIE("gap"))
		lsm_gaps_note(tree, entries, n);
}

#endif							/* LSM_GAPS_H */
