/*-------------------------------------------------------------------------
 *
 * versions.h
 *	  The versions of a row, as a lookup or a cursor has found them
 *	  (versions.c).
 *
 * `row` is the row's TID, packed: the tree's key, and what indexes know.  A
 * version's TID is the row's with the low bits of the version's number; the
 * first version has the TID of the row.  `value` is what lsm_tree_get_until(),
 * a cursor or a batch has returned for the key: all versions, or those down to
 * the one with which the lookup had enough.
 *
 * What is returned points into the value, and is as a reader knows it: flags,
 * xmax, cmax and next of a version that another one follows say so, and lockers
 * are the row's, the same for all its versions.
 *
 * A version is valid if its maker has committed, is running, or is ours.
 *
 * No locks.  All of them ERROR (DATA_CORRUPTED) if the value is malformed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VERSIONS_H
#define LSM_VERSIONS_H

#include "table/table.h"

/* ---- one after the other ---- */

typedef struct LsmVersions
{
	Relation	rel;
	uint64		row;
	LsmChain	chain;			/* what is still to be decoded */
	bool		begun;
	bool		closed;			/* nobody sees what follows */

	/* of the newest value */
	int			nlockers;
	const char *lockers;

	/* the valid version that was returned last: it ends the next one */
	bool		followed;
	uint16		end_flags;
	TransactionId xmax;
	CommandId	cmax;
	ItemPointerData next;
} LsmVersions;

extern void lsm_versions_begin(LsmVersions *versions, Relation rel, uint64 row, LsmSlice value);

/*
 * The next older valid version, newest first; with `any`, also those that came to
 * nothing, which end none.  *tid: the version's, packed.  False: there is no
 * more that anybody sees.
 */
extern bool lsm_versions_next(LsmVersions *versions, bool any, LsmRow *row, uint64 *tid);

/* ---- questions ---- */

/*
 * The newest version that the snapshot sees, of whatever kind it is (a dirty
 * one's output fields are set).  False: *version, *tid are the newest valid
 * version, as lsm_versions_newest() has it.
 */
extern bool lsm_chain_for_snapshot(Relation rel, uint64 row, LsmSlice value, Snapshot snapshot,
								   LsmRow *version, uint64 *tid);

static inline bool
lsm_versions_for_snapshot(Relation rel, uint64 row, LsmSlice value, Snapshot snapshot,
						  LsmRow *version, uint64 *tid)
{
	if (unlikely(lsm_value_tag(value) != LSM_TAG_PUT))
		return lsm_chain_for_snapshot(rel, row, value, snapshot, version, tid);
	lsm_row_decode(rel, row, value, version);
	*tid = lsm_tid_of(row, version->version);
	return lsm_row_visible(version, snapshot);
}

/*
 * The newest valid version, which none follows.  False: there is none, so the
 * row is dead; *version is the oldest that there is, whose maker was rolled back.
 * Of a lone PUT it is not found out who made it: true.
 */
extern bool lsm_chain_newest(Relation rel, uint64 row, LsmSlice value, LsmRow *version,
							 uint64 *tid);

static inline bool
lsm_versions_newest(Relation rel, uint64 row, LsmSlice value, LsmRow *version, uint64 *tid)
{
	if (unlikely(lsm_value_tag(value) != LSM_TAG_PUT))
		return lsm_chain_newest(rel, row, value, version, tid);
	lsm_row_decode(rel, row, value, version);
	*tid = lsm_tid_of(row, version->version);
	return true;
}

/*
 * The version at `tid`, packed: the newest valid one of that number; with
 * SnapshotAny, the newest one, valid or not; with another snapshot, the newest
 * valid one that the snapshot sees.  snapshot NULL: valid, and no more.  False:
 * there is none.
 *
 * *newest, if it is not NULL and the answer is true: the newest valid version, as
 * lsm_versions_newest() has it.
 */
extern bool lsm_versions_exact(Relation rel, uint64 tid, LsmSlice value, Snapshot snapshot,
							   LsmRow *version, LsmRow *newest);

/* ---- when a lookup has enough ---- */

/*
 * Each says so at a version whose state no other transaction changes: makers that
 * run may yet be rolled back, between the lookup and the answer.  So the answer
 * is in the value.  Ours may, too: who keeps a value over the end of a
 * subtransaction must not have it from a snapshot that sees what that has made.
 */

/* For lsm_versions_for_snapshot() */
extern LsmEnough lsm_enough_for_snapshot(Snapshot snapshot);

/* For lsm_versions_newest() */
extern LsmEnough lsm_enough_newest(void);

/* For lsm_versions_exact(); the caller's, for as long as it is used */
typedef struct LsmExact
{
	uint64		tid;
	Snapshot	snapshot;
} LsmExact;

extern LsmEnough lsm_enough_exact(LsmExact *exact);

/*
 * Nobody who respects the horizon sees what is older than this version, which is
 * valid: its maker has committed before *oldest_xmin, or it is frozen.
 */
extern bool lsm_row_closes(const LsmRow *version, TransactionId oldest_xmin);
extern LsmEnough lsm_enough_closed(TransactionId *oldest_xmin);

#endif							/* LSM_VERSIONS_H */
