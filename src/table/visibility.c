/*-------------------------------------------------------------------------
 *
 * visibility.c
 *	  Who sees a row version.  The rules are heapam_visibility.c's, for a
 *	  header in which xmax is always an updater or deleter and row locks are
 *	  kept apart.
 *
 * Locks: none are held or needed.  A decoded row is a copy, so nothing changes
 * under us.  As everywhere: ask TransactionIdIsInProgress (or the snapshot)
 * before TransactionIdDidCommit, because a transaction sets clog before it
 * leaves the procarray.
 *
 * Readers never write hints.  Flush and compaction do (kind.c); until
 * then transam.c's cache of the last xid asked serves runs of rows of one
 * transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/predicate.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

#include "table/table.h"

#define XMIN_KNOWN_GOOD	(LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)

static inline LsmMaker
xmin_state(const LsmRow *row)
{
	if (row->flags & XMIN_KNOWN_GOOD)
		return LSM_MAKER_COMMITTED;
	if (row->flags & LSM_ROW_KILLED)
		return LSM_MAKER_DEAD;
	if (TransactionIdIsCurrentTransactionId(row->xmin))
		return LSM_MAKER_OURS;
	if (TransactionIdIsInProgress(row->xmin))
		return LSM_MAKER_RUNNING;
	if (TransactionIdDidCommit(row->xmin))
		return LSM_MAKER_COMMITTED;
	return LSM_MAKER_DEAD;		/* aborted or crashed */
}

LsmMaker
lsm_row_maker(const LsmRow *row)
{
	return xmin_state(row);
}

/* Did xmax end the row as far as our own transaction's changes go? */
static inline bool
xmax_is_ours(const LsmRow *row)
{
	return (row->flags & LSM_ROW_HAS_XMAX) &&
		!(row->flags & LSM_ROW_XMAX_COMMITTED) &&
		TransactionIdIsCurrentTransactionId(row->xmax);
}

bool
lsm_xid_running(TransactionId xid)
{
	return TransactionIdIsCurrentTransactionId(xid) || TransactionIdIsInProgress(xid);
}

/* What became of the transaction that ended the row, where it is not ours */
typedef enum XmaxState
{
	XMAX_NONE,					/* there is none, or it aborted or crashed */
	XMAX_RUNNING,
	XMAX_GONE					/* it has committed, or is ours */
} XmaxState;

/* REQUIRES: the row's maker has committed. */
static inline XmaxState
xmax_state(const LsmRow *row)
{
	if (!(row->flags & LSM_ROW_HAS_XMAX))
		return XMAX_NONE;
	if ((row->flags & LSM_ROW_XMAX_COMMITTED) ||
		TransactionIdIsCurrentTransactionId(row->xmax))
		return XMAX_GONE;
	if (TransactionIdIsInProgress(row->xmax))
		return XMAX_RUNNING;
	return TransactionIdDidCommit(row->xmax) ? XMAX_GONE : XMAX_NONE;
}

static bool
visible_self(const LsmRow *row)
{
	switch (xmin_state(row))
	{
		case LSM_MAKER_OURS:
			/* an xmax that is not ours is an aborted subtransaction's */
			return !xmax_is_ours(row);
		case LSM_MAKER_RUNNING:
		case LSM_MAKER_DEAD:
			return false;
		case LSM_MAKER_COMMITTED:
			break;
	}
	return xmax_state(row) != XMAX_GONE;
}

/*
 * TOAST values are found through rows that were visible: only a dead maker
 * matters.
 */
static bool
visible_toast(const LsmRow *row)
{
	return !(row->flags & LSM_ROW_KILLED);
}

static bool
visible_dirty(const LsmRow *row, Snapshot snapshot)
{
	XmaxState	end;

	snapshot->xmin = snapshot->xmax = InvalidTransactionId;
	snapshot->speculativeToken = 0;

	switch (xmin_state(row))
	{
		case LSM_MAKER_OURS:
			return !xmax_is_ours(row);
		case LSM_MAKER_RUNNING:
			if (row->flags & LSM_ROW_SPECULATIVE)
			{
				snapshot->speculativeToken = row->token;
				Assert(snapshot->speculativeToken != 0);
			}
			snapshot->xmin = row->xmin;
			return true;
		case LSM_MAKER_DEAD:
			return false;
		case LSM_MAKER_COMMITTED:
			break;
	}
	end = xmax_state(row);
	if (end == XMAX_RUNNING)
		snapshot->xmax = row->xmax;
	return end != XMAX_GONE;
}

/*
 * An xid before the snapshot's xmin is finished for it, and is not ours either:
 * our own xids are running.  That saves the walk of our subtransactions for
 * nearly every row.
 */
static inline bool
xid_is_ours_for(TransactionId xid, Snapshot snapshot)
{
	return !TransactionIdPrecedes(xid, snapshot->xmin) &&
		TransactionIdIsCurrentTransactionId(xid);
}

static bool
visible_mvcc(const LsmRow *row, Snapshot snapshot)
{
	if (row->flags & XMIN_KNOWN_GOOD)
	{
		/* committed, but maybe not for our snapshot */
		if (!(row->flags & LSM_ROW_XMIN_FROZEN) &&
			XidInMVCCSnapshot(row->xmin, snapshot))
			return false;
	}
	else if (row->flags & LSM_ROW_KILLED)
		return false;
	else if (xid_is_ours_for(row->xmin, snapshot))
	{
		if (row->cmin >= snapshot->curcid)
			return false;		/* inserted after the scan started */
		if (!xmax_is_ours(row))
			return true;
		return row->cmax >= snapshot->curcid;
	}
	else if (XidInMVCCSnapshot(row->xmin, snapshot))
		return false;
	else if (!TransactionIdDidCommit(row->xmin))
		return false;

	/* the maker has committed, for this snapshot too */
	if (!(row->flags & LSM_ROW_HAS_XMAX))
		return true;
	if (!(row->flags & LSM_ROW_XMAX_COMMITTED) &&
		xid_is_ours_for(row->xmax, snapshot))
		return row->cmax >= snapshot->curcid;
	if (XidInMVCCSnapshot(row->xmax, snapshot))
		return true;
	if (row->flags & LSM_ROW_XMAX_COMMITTED)
		return false;
	return !TransactionIdDidCommit(row->xmax);
}

/* See row.h. */
bool
lsm_row_made_for(const LsmRow *row, Snapshot snapshot)
{
	if (row->flags & LSM_ROW_XMIN_FROZEN)
		return true;
	if (row->flags & LSM_ROW_KILLED)
		return false;
	if (!(row->flags & LSM_ROW_XMIN_COMMITTED) && xid_is_ours_for(row->xmin, snapshot))
		return row->cmin < snapshot->curcid;
	return !XidInMVCCSnapshot(row->xmin, snapshot) &&
		((row->flags & LSM_ROW_XMIN_COMMITTED) || TransactionIdDidCommit(row->xmin));
}

/*
 * lsm_row_vacuum_horizon - could anyone still see the row?
 *
 * For RECENTLY_DEAD, *dead_after is the xid that must precede all horizons for
 * it to be DEAD (HeapTupleSatisfiesVacuumHorizon).
 */
HTSV_Result
lsm_row_vacuum_horizon(const LsmRow *row, TransactionId *dead_after)
{
	*dead_after = InvalidTransactionId;

	switch (xmin_state(row))
	{
		case LSM_MAKER_OURS:
			return xmax_is_ours(row) ? HEAPTUPLE_DELETE_IN_PROGRESS :
				HEAPTUPLE_INSERT_IN_PROGRESS;
		case LSM_MAKER_RUNNING:
			return HEAPTUPLE_INSERT_IN_PROGRESS;
		case LSM_MAKER_DEAD:
			return HEAPTUPLE_DEAD;
		case LSM_MAKER_COMMITTED:
			break;
	}
	if (!(row->flags & LSM_ROW_HAS_XMAX))
		return HEAPTUPLE_LIVE;
	if (!(row->flags & LSM_ROW_XMAX_COMMITTED))
	{
		if (TransactionIdIsInProgress(row->xmax))
			return HEAPTUPLE_DELETE_IN_PROGRESS;
		if (!TransactionIdDidCommit(row->xmax))
			return HEAPTUPLE_LIVE;
	}
	*dead_after = row->xmax;
	return HEAPTUPLE_RECENTLY_DEAD;
}

HTSV_Result
lsm_row_vacuum_status(const LsmRow *row, TransactionId oldest_xmin)
{
	TransactionId dead_after;
	HTSV_Result status = lsm_row_vacuum_horizon(row, &dead_after);

	if (status == HEAPTUPLE_RECENTLY_DEAD &&
		TransactionIdPrecedes(dead_after, oldest_xmin))
		status = HEAPTUPLE_DEAD;
	return status;
}

/*
 * Who deleted a row that is dead to everyone: what a standby's snapshot has to
 * be compared with.  Invalid if its inserter was rolled back.
 */
TransactionId
lsm_row_deleter(const LsmRow *row)
{
	TransactionId dead_after;

	(void) lsm_row_vacuum_horizon(row, &dead_after);
	return dead_after;
}

bool
lsm_row_surely_dead(const LsmRow *row, Relation table)
{
	TransactionId dead_after;
	HTSV_Result status = lsm_row_vacuum_horizon(row, &dead_after);

	return status == HEAPTUPLE_DEAD ||
		(status == HEAPTUPLE_RECENTLY_DEAD && lsm_xid_removable(table, dead_after));
}

/* By a test that PostgreSQL has chosen, who removes nothing by it */
static bool
visible_non_vacuumable(const LsmRow *row, Snapshot snapshot)
{
	TransactionId dead_after;
	HTSV_Result status = lsm_row_vacuum_horizon(row, &dead_after);

	return status != HEAPTUPLE_DEAD &&
		(status != HEAPTUPLE_RECENTLY_DEAD ||
		 !GlobalVisTestIsRemovableXid(snapshot->vistest, dead_after, true));
}

/*
 * lsm_row_visible - does the snapshot see the row?
 *
 * A dirty snapshot's output fields are set.  ERRORs for a historic one, as an
 * output plugin of logical decoding has: it would have to know which command of
 * the decoded transaction has made a row.
 */
bool
lsm_row_visible(const LsmRow *row, Snapshot snapshot)
{
	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			return visible_mvcc(row, snapshot);
		case SNAPSHOT_SELF:
			return visible_self(row);
		case SNAPSHOT_ANY:
			return true;
		case SNAPSHOT_TOAST:
			return visible_toast(row);
		case SNAPSHOT_DIRTY:
			return visible_dirty(row, snapshot);
		case SNAPSHOT_NON_VACUUMABLE:
			return visible_non_vacuumable(row, snapshot);
		case SNAPSHOT_HISTORIC_MVCC:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("logical decoding cannot read lsm tables"),
					 errhint("Use heap tables for user catalogs.")));
	}
	return false;				/* keep compiler quiet */
}

/*
 * lsm_row_changeable - HeapTupleSatisfiesUpdate without the row locks.
 *
 * curcid is the command that wants to change the row.
 */
TM_Result
lsm_row_changeable(const LsmRow *row, CommandId curcid)
{
	switch (xmin_state(row))
	{
		case LSM_MAKER_OURS:
			if (row->cmin >= curcid)
				return TM_Invisible;	/* inserted after the scan started */
			if (!xmax_is_ours(row))
				return TM_Ok;
			return row->cmax >= curcid ? TM_SelfModified : TM_Invisible;
		case LSM_MAKER_RUNNING:
		case LSM_MAKER_DEAD:
			return TM_Invisible;
		case LSM_MAKER_COMMITTED:
			break;
	}
	if (!(row->flags & LSM_ROW_HAS_XMAX))
		return TM_Ok;
	if (!(row->flags & LSM_ROW_XMAX_COMMITTED))
	{
		if (TransactionIdIsCurrentTransactionId(row->xmax))
			return row->cmax >= curcid ? TM_SelfModified : TM_Invisible;
		if (TransactionIdIsInProgress(row->xmax))
			return TM_BeingModified;
		if (!TransactionIdDidCommit(row->xmax))
			return TM_Ok;
	}
	if (row->flags & (LSM_ROW_HAS_NEXT | LSM_ROW_MOVED))
		return TM_Updated;
	return TM_Deleted;
}

/*
 * lsm_check_conflict_out - a serializable transaction has read this row:
 * does it conflict with the one that made or ended it?
 * (HeapCheckForSerializableConflictOut)
 */
void
lsm_check_conflict_out(Relation rel, const LsmRow *row, bool visible, Snapshot snapshot)
{
	TransactionId xid;

	if (likely(!CheckForSerializableConflictOutNeeded(rel, snapshot)))
		return;

	switch (lsm_row_vacuum_status(row, TransactionXmin))
	{
		case HEAPTUPLE_LIVE:
			if (visible)
				return;
			xid = row->xmin;
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			xid = visible ? row->xmax : row->xmin;
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			xid = row->xmin;
			break;
		case HEAPTUPLE_DEAD:
		default:
			return;
	}

	/* too old to be a conflict, or ourselves */
	if (!TransactionIdIsNormal(xid) || TransactionIdPrecedes(xid, TransactionXmin))
		return;
	if (TransactionIdEquals(xid, GetTopTransactionIdIfAny()))
		return;
	xid = SubTransGetTopmostTransaction(xid);
	if (TransactionIdPrecedes(xid, TransactionXmin))
		return;
	CheckForSerializableConflictOut(rel, xid, snapshot);
}
