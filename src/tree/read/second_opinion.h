/*-------------------------------------------------------------------------
 *
 * second_opinion.h
 *	  Answers that say "not here", "dead" or "same", derived again the slow way:
 *	  in builds with assertions, for one in lsm.second_opinion of them.
 *
 * What a shortcut's name is: docs/read-path.md has a table of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SECOND_OPINION_H
#define LSM_SECOND_OPINION_H

#include "tree/control/gaps.h"
#include "tree/read/merge.h"

#ifdef USE_ASSERT_CHECKING

struct LsmSource;

/*
 * No key with the probe's filter key is in any memtable or file.  REQUIRES, as
 * do all that get a set and a version: the caller has entered the epoch that
 * these are of, and the answer was made from them.
 */
extern void lsm_opinion_absent(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
							   const LsmProbe *probe, const char *shortcut);

/* Nor one that begins with `low`, or `high`, or lies between. */
extern void lsm_opinion_vacant(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
							   LsmSlice low, LsmSlice high, const char *shortcut);

/*
 * The key's values, folded, are those of `fold`.  `again`: the same question to
 * the shortcut, once more.
 */
typedef void (*LsmOpinionAgain) (void *arg, LsmFold *fold);
extern void lsm_opinion_value(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
							  LsmSlice key, const LsmFold *fold, LsmOpinionAgain again,
							  void *arg, const char *shortcut);

/*
 * What a point cursor has just left out has nothing for it; asked_now: from its
 * place on.
 */
extern void lsm_opinion_points(struct LsmCursor *cursor, bool forward, bool asked_now);

/* What a limited cursor has left out has nothing within its limit. */
extern void lsm_opinion_limit(struct LsmCursor *cursor);

/* A source of files stands at the entry next to the cursor's place. */
extern void lsm_opinion_position(struct LsmCursor *cursor, const struct LsmSource *source,
								 bool forward);

/*
 * The tree has no entry from `low` to before `high` but of dead rows (see
 * lsm_cursor_doubt_gaps).  Outside of epochs.
 */
extern void lsm_opinion_gap(struct LsmCursor *cursor, LsmSlice low, const LsmGapKey *high);

/* No file of these runs has the key. */
extern void lsm_opinion_bottom(LsmTree *tree, const LsmRun *const *runs, int n, LsmSlice key);

/*
 * The active memtable's entry of the key, if it has one, lies over no other.
 * Outside of epochs.
 */
extern void lsm_opinion_whole(LsmTree *tree, LsmSlice key);

#endif

#endif							/* LSM_SECOND_OPINION_H */
