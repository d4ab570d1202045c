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
 * A version is valid if its maker has committed, is running, or is ours.  One that
 * runs may be rolled back at any time; then an older one is what the row is.  So
 * whether a row is dead, or none of its versions is seen, is never found out by
 * looking at its newest valid version a second time: ask
 * lsm_versions_vacuum_horizon(), lsm_versions_for_snapshot().
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
 * more that anybody sees.  (Not for SnapshotSelf: if the maker of one that it does
 * not see commits before the next one is looked at, it sees neither.)
 */
extern bool lsm_versions_next(LsmVersions *versions, bool any, LsmRow *row, uint64 *tid);

/* ---- questions ---- */

/*
 * The newest version that the snapshot sees, of whatever kind it is (a dirty
 * one's output fields are set).  False: *version, *tid are the newest valid
 * version, as lsm_versions_newest() has it, for lsm_ended_note().
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
 * lsm_row_vacuum_horizon() of the row: of its newest valid version, which is
 * *version.  DEAD: all makers were rolled back.  Older versions do not count: one
 * that is followed is dead, or will be, without anybody's help.
 */
extern HTSV_Result lsm_chain_vacuum_horizon(Relation rel, uint64 row, LsmSlice value,
											LsmRow *version, uint64 *tid,
											TransactionId *dead_after);

static inline HTSV_Result
lsm_versions_vacuum_horizon(Relation rel, uint64 row, LsmSlice value, LsmRow *version,
							uint64 *tid, TransactionId *dead_after)
{
	if (unlikely(lsm_value_tag(value) != LSM_TAG_PUT))
		return lsm_chain_vacuum_horizon(rel, row, value, version, tid, dead_after);
	lsm_row_decode(rel, row, value, version);
	*tid = lsm_tid_of(row, version->version);
	return lsm_row_vacuum_horizon(version, dead_after);
}

/* lsm_row_vacuum_status() of the row */
extern HTSV_Result lsm_versions_vacuum_status(Relation rel, uint64 row, LsmSlice value,
											  TransactionId oldest_xmin, LsmRow *version,
											  TransactionId *deleter);

/*
 * lsm_row_surely_dead() of the row.  *deleter: who ended it, or invalid, if all
 * makers were rolled back.
 */
extern bool lsm_versions_surely_dead(Relation rel, uint64 row, LsmSlice value,
									 TransactionId *deleter);

/*
 * The version at `tid`, packed: the newest valid one of that number; with
 * SnapshotAny, the newest one, valid or not; with another snapshot, the newest
 * valid one that the snapshot sees.  snapshot NULL: valid, and no more.  False:
 * there is none.
 *
 * *newest, if it is not NULL and the answer is true: the newest valid version, as
 * lsm_versions_newest() has it.  REQUIRES: not SnapshotAny then.
 */
extern bool lsm_versions_exact(Relation rel, uint64 tid, LsmSlice value, Snapshot snapshot,
							   LsmRow *version, LsmRow *newest);

/*
 * The same of a lone PUT, of which it is not found out who made it: is that the
 * version at `tid`?
 */
static inline bool
lsm_lone_version(Relation rel, uint64 tid, LsmSlice value, LsmRow *version)
{
	lsm_row_decode(rel, lsm_tid_row(tid), value, version);
	return lsm_tid_of(lsm_tid_row(tid), version->version) == tid;
}

/* ---- when a lookup has enough ---- */

/*
 * Each says so at a version whose state no other transaction changes: makers that
 * run may yet be rolled back, between the lookup and the answer.  So the answer
 * is in the value.  Ours may, too: who keeps a value over the end of a
 * subtransaction must not have it from a snapshot that sees what that has made.
 */

/* For lsm_versions_for_snapshot() */
extern LsmEnough lsm_enough_for_snapshot(Snapshot snapshot);

/* For lsm_versions_newest(), and for whether the row is dead */
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
