/*-------------------------------------------------------------------------
 *
 * ended_rows.c
 *	  Which rows have been ended, and by whom, as index scans of this backend
 *	  have found out.
 *
 * Who takes the first row of an index and deletes it, again and again in one
 * transaction, passes over all the rows that it has deleted so far.  So does
 * everybody, while an old snapshot keeps deleted rows from being removed.  The
 * entries of such rows cannot leave the index.  What a scan has found out about
 * them is remembered here, so that the next scan passes over them without a
 * lookup.
 *
 * What is remembered are facts, which hold for every snapshot:
 *
 * - A row's newest version was ended by a transaction that has committed.  No
 *   row is brought back: a snapshot that does not take that transaction for
 *   running does not see the row, whoever has made it, and no older version.
 * - It was ended by a command of our own transaction.  Nobody else changes
 *   such a row, and neither do we, until the subtransaction is rolled back or
 *   the transaction ends.  Then its xid is no longer one of ours.  As long as
 *   it is, a snapshot of a later command does not see the row.  A transaction
 *   that gets the same xid after a wraparound has another epoch.
 *
 * The tree is named by the life of its control block: row numbers are not used
 * again in one life.
 *
 * Memory: a hash table of the session, within work_mem.  If that is full, rows
 * take the places of others.  Nothing is removed, as nothing becomes wrong.
 *
 * Serializable transactions look at each row: the rows that they do not see
 * tell of conflicts.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "table/table.h"

/* Powers of 2, as their number always is */
#define FIRST_PLACES	256
#define MAX_PLACES		262144	/* 6 MB */
/* A row is in one of this many places from the one that its hash leads to. */
#define ROW_PLACES		16

#define COMMITTED		InvalidCommandId

/* TIDs have 48 bits: above them is the epoch of the transaction, if it is ours. */
#define TID_MASK		(PG_UINT64_MAX >> 16)

typedef struct EndedRow
{
	uint64		life;			/* of the tree's control block; 0: none is here */
	uint64		row;			/* its TID, packed, and see TID_MASK */
	TransactionId xid;			/* who ended it */
	CommandId	cid;			/* COMMITTED, or the command of ours */
} EndedRow;

static EndedRow *ended = NULL;
static uint32 nplaces = 0;

static inline uint64
own_epoch(void)
{
	return (uint64) EpochFromFullTransactionId(GetTopFullTransactionIdIfAny()) << 48;
}

static inline bool
is_row(const EndedRow *place, uint64 life, uint64 row)
{
	return (place->row & TID_MASK) == row && place->life == life;
}

static inline uint32
row_hash(uint64 life, uint64 row)
{
	return murmurhash32((uint32) lsm_tid_number(row) + (uint32) life * 0x9E3779B9);
}

/* Its place, or a free one for it; NULL: all are taken. */
static inline EndedRow *
find_place(uint64 life, uint64 row)
{
	uint32		hash = row_hash(life, row);

	for (uint32 i = 0; i < ROW_PLACES; i++)
	{
		EndedRow   *place = &ended[(hash + i) & (nplaces - 1)];

		if (place->life == 0 || is_row(place, life, row))
			return place;
	}
	return NULL;
}

/* False: there is no memory for more. */
static bool
enlarge(void)
{
	EndedRow   *old = ended;
	uint32		nold = nplaces;
	uint32		n = Max(nold * 2, FIRST_PLACES);

	if (nold > 0 &&
		(n > MAX_PLACES || n * sizeof(EndedRow) > (Size) work_mem * 1024))
		return false;
	ended = MemoryContextAllocZero(TopMemoryContext, n * sizeof(EndedRow));
	nplaces = n;
	for (uint32 i = 0; i < nold; i++)
	{
		EndedRow   *place = old[i].life == 0 ? NULL :
			find_place(old[i].life, old[i].row & TID_MASK);

		if (place != NULL)
			*place = old[i];
	}
	if (old != NULL)
		pfree(old);
	return true;
}

/*
 * lsm_ended_note - the row, of which the snapshot does not see any version, may
 * have been ended, if its newest version was: then that is remembered.
 *
 * REQUIRES: lsm_snapshot_reads_ahead(), for this and what follows.
 */
void
lsm_ended_note(LsmTree *tree, uint64 row, const LsmRow *newest, Snapshot snapshot)
{
	uint64		life = lsm_tree_life(tree);
	bool		own;
	EndedRow   *place;

	if (!(newest->flags & LSM_ROW_HAS_XMAX))
		return;
	own = !(newest->flags & LSM_ROW_XMAX_COMMITTED) &&
		TransactionIdIsCurrentTransactionId(newest->xmax);
	if (!own && !(newest->flags & LSM_ROW_XMAX_COMMITTED) &&
		(XidInMVCCSnapshot(newest->xmax, snapshot) || !TransactionIdDidCommit(newest->xmax)))
		return;

	place = nplaces > 0 ? find_place(life, row) : NULL;
	while (place == NULL && enlarge())
		place = find_place(life, row);
	if (place == NULL)
		place = &ended[row_hash(life, row) & (nplaces - 1)];
	place->life = life;
	place->row = row | (own ? own_epoch() : 0);
	place->xid = newest->xmax;
	place->cid = own ? newest->cmax : COMMITTED;
}

/* The row will be asked for soon. */
void
lsm_ended_prefetch(LsmTree *tree, uint64 row)
{
	if (nplaces > 0)
		__builtin_prefetch(&ended[row_hash(lsm_tree_life(tree), row) & (nplaces - 1)]);
}

/*
 * lsm_ended_hides - is it known that the row has been ended, and that the
 * snapshot does not see it for that reason?
 *
 * Not of a row that is dead to everyone by now: who looks at it removes its
 * entry from the index, so that nobody passes over it any more.  (A standby
 * removes nothing, and knows no horizon.)
 */
bool
lsm_ended_hides(Relation rel, LsmTree *tree, uint64 row, Snapshot snapshot)
{
	const EndedRow *place;

	if (nplaces == 0)
		return false;
	place = find_place(lsm_tree_life(tree), row);
	if (place == NULL || place->life == 0)
		return false;
	if (place->cid == COMMITTED)
		return !XidInMVCCSnapshot(place->xid, snapshot) &&
			(RecoveryInProgress() || !lsm_xid_removable(rel, place->xid));
	return place->cid < snapshot->curcid &&
		TransactionIdIsCurrentTransactionId(place->xid) &&
		(place->row & ~TID_MASK) == own_epoch();
}
