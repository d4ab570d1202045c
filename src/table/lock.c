/*-------------------------------------------------------------------------
 *
 * lock.c
 *	  Row locks: SELECT FOR UPDATE .. FOR KEY SHARE, foreign keys, ON CONFLICT,
 *	  and the versions that EvalPlanQual looks for.
 *
 * A row lock is an (xid, mode) in the header of the row's newest version, written
 * and logged as an override.  It counts for all versions of the row, as long as
 * its transaction runs; no one takes it off, whoever writes a header next drops
 * what has ended.  An updater is an xmax, which amounts to a lock too and outlives
 * its transaction.
 *
 *				KeyShare  Share  NoKeyExcl  Excl
 *	KeyShare								  x
 *	Share							x		  x
 *	NoKeyExcl			   x		x		  x
 *	Excl		   x	   x		x		  x
 *
 * Waiting: first the heavyweight tuple lock of that strength, so that waiters
 * queue, then the transactions that are in the way.  See README.tuplock of
 * heap: the order is the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

#include "table/versions.h"

static const LOCKMODE heavyweight_mode[] = {
	[LockTupleKeyShare] = AccessShareLock,
	[LockTupleShare] = RowShareLock,
	[LockTupleNoKeyExclusive] = ExclusiveLock,
	[LockTupleExclusive] = AccessExclusiveLock,
};

bool
lsm_lock_modes_conflict(LockTupleMode a, LockTupleMode b)
{
	return DoLockModesConflict(heavyweight_mode[a], heavyweight_mode[b]);
}

LockTupleMode
lsm_row_xmax_mode(const LsmRow *row)
{
	return (row->flags & LSM_ROW_KEYS_UPDATED) ? LockTupleExclusive :
		LockTupleNoKeyExclusive;
}

void
lsm_row_find_conflict(const LsmRow *row, LockTupleMode mode, LsmConflict *conflict)
{
	int			i;

	conflict->xid = InvalidTransactionId;
	conflict->own = false;
	conflict->own_enough = false;
	for (i = 0; i < row->nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode held;

		lsm_row_locker(row, i, &xid, &held);
		if (TransactionIdIsCurrentTransactionId(xid))
		{
			conflict->own = true;
			if (held >= mode)
				conflict->own_enough = true;
		}
		else if (!TransactionIdIsValid(conflict->xid) &&
				 lsm_lock_modes_conflict(held, mode) &&
				 TransactionIdIsInProgress(xid))
			conflict->xid = xid;
	}
}

static void
lock_not_available(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on row in relation \"%s\"",
					RelationGetRelationName(rel))));
}

bool
lsm_tuplock_acquire(Relation rel, ItemPointer tid, LockTupleMode mode,
					LockWaitPolicy policy, bool *held)
{
	if (*held)
		return true;
	switch (policy)
	{
		case LockWaitBlock:
			LockTuple(rel, tid, heavyweight_mode[mode]);
			break;
		case LockWaitSkip:
			if (!ConditionalLockTuple(rel, tid, heavyweight_mode[mode], false))
				return false;
			break;
		case LockWaitError:
			if (!ConditionalLockTuple(rel, tid, heavyweight_mode[mode], log_lock_failures))
				lock_not_available(rel);
			break;
	}
	*held = true;
	return true;
}

void
lsm_tuplock_release(Relation rel, ItemPointer tid, LockTupleMode mode, bool held)
{
	if (held)
		UnlockTuple(rel, tid, heavyweight_mode[mode]);
}

/* Wait for a transaction as the policy says; false: policy is skip. */
static bool
wait_for_xid(Relation rel, ItemPointer tid, TransactionId xid, LockWaitPolicy policy,
			 XLTW_Oper oper)
{
	switch (policy)
	{
		case LockWaitBlock:
			XactLockTableWait(xid, rel, tid, oper);
			break;
		case LockWaitSkip:
			return ConditionalXactLockTableWait(xid, false);
		case LockWaitError:
			if (!ConditionalXactLockTableWait(xid, log_lock_failures))
				lock_not_available(rel);
			break;
	}
	return true;
}

/*
 * lsm_header_add_locker - note that `xid` holds the row in `mode`.
 *
 * Locks of the parent transactions stay: they must survive this
 * subtransaction's abort.  An xid has one entry, its strongest.
 */
void
lsm_header_add_locker(LsmRow *header, TransactionId xid, LockTupleMode mode)
{
	char	   *lockers;
	int			i;

	for (i = 0; i < header->nlockers; i++)
	{
		TransactionId other;
		LockTupleMode held;

		lsm_row_locker(header, i, &other, &held);
		if (other != xid)
			continue;
		if (held < mode)
			lsm_locker_put(unconstify(char *, header->lockers) + i * LSM_LOCKER_BYTES,
						   xid, mode);
		return;
	}
	if (header->nlockers >= LSM_MAX_LOCKERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many transactions hold a lock on the same row"),
				 errdetail("An lsm table row can be locked by %d transactions at once.",
						   LSM_MAX_LOCKERS),
				 errhint("Try again when some of them have ended.")));
	lockers = palloc((header->nlockers + 1) * LSM_LOCKER_BYTES);
	if (header->nlockers > 0)
		memcpy(lockers, header->lockers, header->nlockers * LSM_LOCKER_BYTES);
	lsm_locker_put(lockers + header->nlockers * LSM_LOCKER_BYTES, xid, mode);
	if (header->lockers)
		pfree(unconstify(char *, header->lockers));
	header->lockers = lockers;
	header->nlockers++;
}

static TM_Result
ended_by(const LsmRow *row)
{
	return (row->flags & (LSM_ROW_HAS_NEXT | LSM_ROW_MOVED)) ? TM_Updated : TM_Deleted;
}

/*
 * Can this later version be locked now?  TM_Ok: yes; TM_SelfModified: our own
 * transaction has it already; TM_BeingModified: wait for *xwait;
 * TM_Updated, TM_Deleted: a committed change is in the way.
 */
static TM_Result
check_later_version(const LsmRow *row, LockTupleMode mode, TransactionId *xwait)
{
	LsmConflict conflict;

	*xwait = InvalidTransactionId;
	lsm_row_find_conflict(row, mode, &conflict);
	if (conflict.own)
		return TM_SelfModified;
	if (TransactionIdIsValid(conflict.xid))
	{
		*xwait = conflict.xid;
		return TM_BeingModified;
	}
	if (!(row->flags & LSM_ROW_HAS_XMAX))
		return TM_Ok;
	if (!(row->flags & LSM_ROW_XMAX_COMMITTED))
	{
		if (TransactionIdIsCurrentTransactionId(row->xmax))
			return TM_SelfModified;
		if (TransactionIdIsInProgress(row->xmax))
		{
			if (!lsm_lock_modes_conflict(lsm_row_xmax_mode(row), mode))
				return TM_Ok;
			*xwait = row->xmax;
			return TM_BeingModified;
		}
		if (!TransactionIdDidCommit(row->xmax))
			return TM_Ok;
	}
	return lsm_lock_modes_conflict(lsm_row_xmax_mode(row), mode) ? ended_by(row) : TM_Ok;
}

/*
 * Can the row's versions that are newer than the target's, and with `itself` that
 * one, be locked in `mode`?  As check_later_version(), of the oldest that cannot.
 * What our own transaction has done to them is in nobody's way.
 */
static TM_Result
check_versions(const LsmRowChange *target, bool itself, LockTupleMode mode,
			   TransactionId *xwait)
{
	TM_Result	result = TM_Ok;
	bool		more = true;
	LsmVersions versions;
	LsmRow		row;
	uint64		packed;

	*xwait = InvalidTransactionId;
	lsm_versions_begin(&versions, target->rel, target->row_tid,
					   lsm_slice(target->value.data, target->value.len));
	while (more && lsm_versions_next(&versions, false, &row, &packed))
	{
		TM_Result	one;
		TransactionId its_xwait;

		more = row.body != target->row.body;
		if (!more && !itself)
			break;
		one = check_later_version(&row, mode, &its_xwait);
		if (one == TM_Ok || one == TM_SelfModified)
			continue;
		result = one;
		*xwait = its_xwait;
	}
	return result;
}

/* The row that the target's row was moved to, as far as is known. */
static bool
row_was_moved(const LsmRowChange *target, ItemPointer next, TransactionId *xmax)
{
	const LsmRow *newest = target->newest;

	if (!(newest->flags & LSM_ROW_HAS_NEXT) ||
		(!(newest->flags & LSM_ROW_XMAX_COMMITTED) && !lsm_xid_running(newest->xmax) &&
		 !TransactionIdDidCommit(newest->xmax)))
		return false;
	*next = newest->next;
	*xmax = newest->xmax;
	return true;
}

/* Write our lock into the row.  False: read again. */
static bool
write_lock(LsmRowChange *target, TransactionId xid, LockTupleMode mode)
{
	LsmRow		header;
	bool		written;

	lsm_row_change_header(target, InvalidTransactionId, mode, &header);
	lsm_header_add_locker(&header, xid, mode);
	written = lsm_row_change_override(target, &header, lsm_slice(NULL, 0));
	lsm_header_free(&header);
	return written;
}

/*
 * Lock the rows that one was moved to by updates, so that the lock holds for what
 * the row has become (heap_lock_updated_tuple).  Each has one list of locks, for
 * all of its versions.
 *
 * `xmax` is the transaction that made the version at `next`.
 */
static TM_Result
lock_later_rows(Relation rel, LsmTree *tree, const ItemPointerData *next,
				TransactionId xmax, TransactionId xid, LockTupleMode mode)
{
	ItemPointerData tid = *next;
	TM_Result	result = TM_Ok;
	bool		more = true;

	while (more)
	{
		LsmRowChange	target;

		lsm_row_change_init(&target, rel, tree, &tid);
		for (;;)
		{
			LsmConflict conflict;
			TransactionId xwait;

			/* gone, or made by someone else: the chain ends before it */
			if (!lsm_row_change_read(&target) || target.row.xmin != xmax ||
				(!lsm_xid_running(xmax) && !TransactionIdDidCommit(xmax)))
			{
				result = TM_Ok;
				more = false;
				break;
			}
			lsm_row_find_conflict(&target.row, mode, &conflict);
			result = conflict.own ? TM_Ok : check_versions(&target, true, mode, &xwait);
			if (result == TM_BeingModified)
			{
				XactLockTableWait(xwait, rel, &target.tid, XLTW_LockUpdated);
				continue;
			}
			if (result != TM_Ok)
			{
				more = false;
				break;
			}
			if (conflict.own || write_lock(&target, xid, mode))
			{
				more = row_was_moved(&target, &tid, &xmax);
				break;
			}
		}
		lsm_row_change_free(&target);
	}
	return result;
}

/*
 * What follows a version of the target's row, which the caller has
 * read, and will lock.  TM_BeingModified: we have waited, read it again.
 */
static TM_Result
lock_later_versions(LsmRowChange *target, TransactionId xid, LockTupleMode mode)
{
	ItemPointerData next;
	TransactionId xwait;
	TransactionId xmax;
	TM_Result	result = TM_Ok;

	if (!lsm_row_change_is_newest(target))
		result = check_versions(target, false, mode, &xwait);
	if (result == TM_BeingModified)
		XactLockTableWait(xwait, target->rel, &target->tid, XLTW_LockUpdated);
	else if (result == TM_Ok && row_was_moved(target, &next, &xmax))
		result = lock_later_rows(target->rel, target->tree, &next, xmax, xid, mode);
	return result;
}

/*
 * What stands in the way of locking the version in `mode`?
 *
 * TM_Ok: nothing; TM_BeingModified: the running *xwait; TM_Updated and
 * TM_Deleted: a committed change; TM_Invisible and TM_SelfModified as in
 * lsm_row_changeable().  *held: we have the lock already.  *updated: there is a
 * later version, made by a running or committed transaction.
 */
static TM_Result
check_lock(const LsmRowChange *target, CommandId cid, LockTupleMode mode, bool *held,
		   bool *own, bool *updated, TransactionId *xwait)
{
	const LsmRow *row = &target->row;
	TM_Result	result = lsm_row_changeable(row, cid);
	LsmConflict conflict;
	bool		xmax_conflicts;

	*held = false;
	*own = false;
	*updated = false;
	*xwait = InvalidTransactionId;
	if (result == TM_Invisible || result == TM_SelfModified)
		return result;

	lsm_row_find_conflict(row, mode, &conflict);
	*own = conflict.own;
	xmax_conflicts = result != TM_Ok &&
		lsm_lock_modes_conflict(lsm_row_xmax_mode(row), mode);

	/*
	 * Ours may be a lock of a later version, taken when the change of this one
	 * had been committed.
	 */
	if (conflict.own_enough &&
		(lsm_row_change_is_newest(target) || !xmax_conflicts || result == TM_BeingModified))
	{
		/* whatever else is going on: waiting for it could only deadlock */
		*held = true;
		return TM_Ok;
	}
	*updated = result != TM_Ok && (row->flags & LSM_ROW_HAS_NEXT) != 0;

	if (xmax_conflicts && result != TM_BeingModified)
		return result;			/* committed: waiting will not help */
	if (xmax_conflicts)
		*xwait = row->xmax;
	else
		*xwait = conflict.xid;
	return TransactionIdIsValid(*xwait) ? TM_BeingModified : TM_Ok;
}

/*
 * Lock one version (heap_lock_tuple).  *found: there is such a row, and it has
 * been put into the slot, whatever the result.
 */
static TM_Result
lock_version(Relation rel, LsmTree *tree, ItemPointer tid, TupleTableSlot *slot,
			 CommandId cid, LockTupleMode mode, LockWaitPolicy policy,
			 bool follow_updates, TM_FailureData *tmfd, bool *found)
{
	TransactionId xid;
	LsmRowChange	target;
	TM_Result	result;
	bool		have_tuple_lock = false;

	lsm_row_change_init(&target, rel, tree, tid);
	for (;;)
	{
		TransactionId xwait;
		bool		held;
		bool		own;
		bool		updated;

		*found = lsm_row_change_read(&target);
		if (!*found)
		{
			tmfd->ctid = *tid;
			tmfd->xmax = InvalidTransactionId;
			tmfd->cmax = InvalidCommandId;
			result = TM_Deleted;
			break;
		}
		result = check_lock(&target, cid, mode, &held, &own, &updated, &xwait);
		if (held || result == TM_Invisible)
			break;
		if (result == TM_BeingModified)
		{
			/* strengthening a lock: do not queue up behind those we block */
			if ((!own && !lsm_tuplock_acquire(rel, &target.tid, mode, policy,
											  &have_tuple_lock)) ||
				!wait_for_xid(rel, &target.tid, xwait, policy, XLTW_Lock))
			{
				result = TM_WouldBlock;
				lsm_row_change_failure(&target, result, tmfd);
				break;
			}
			continue;
		}
		if (result != TM_Ok)
		{
			lsm_row_change_failure(&target, result, tmfd);
			break;
		}

		xid = GetCurrentTransactionId();
		if (follow_updates && updated)
		{
			/* the later versions first: they may not let us */
			result = lock_later_versions(&target, xid, mode);
			if (result == TM_BeingModified)
				continue;
			if (result != TM_Ok)
			{
				lsm_row_change_failure(&target, result, tmfd);
				break;
			}
		}
		if (write_lock(&target, xid, mode))
			break;
	}

	if (*found)
		lsm_row_store(rel, &target.row, target.packed, slot);
	lsm_tuplock_release(rel, &target.tid, mode, have_tuple_lock);
	lsm_row_change_free(&target);
	return result;
}

/*
 * Find the version to lock next, following an update (heapam_tuple_lock).
 *
 * *tid and *prior_xmax: a version and the transaction that must have made it.
 * TM_Ok: *tid is live, lock it; else the final result.
 */
static TM_Result
find_last_version(Relation rel, LsmTree *tree, ItemPointer tid, CommandId cid,
				  TransactionId prior_xmax, LockWaitPolicy policy,
				  TM_FailureData *tmfd)
{
	StringInfoData value;
	SnapshotData dirty;

	initStringInfo(&value);
	InitDirtySnapshot(dirty);
	for (;;)
	{
		LsmRow		row;

		CHECK_FOR_INTERRUPTS();
		if (ItemPointerIndicatesMovedPartitions(tid))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));

		/* not what prior_xmax made: the row was deleted further on */
		if (!lsm_fetch_row(rel, tree, lsm_tid_pack(tid), &value, &row) ||
			row.xmin != prior_xmax)
			break;

		if (lsm_row_visible(&row, &dirty))
		{
			if (TransactionIdIsValid(dirty.xmin))
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg_internal("xmin %u is uncommitted in row (%u,%u) to be updated in table \"%s\"",
										 dirty.xmin,
										 ItemPointerGetBlockNumber(tid),
										 ItemPointerGetOffsetNumber(tid),
										 RelationGetRelationName(rel))));
			if (TransactionIdIsValid(dirty.xmax))
			{
				if (!wait_for_xid(rel, tid, dirty.xmax, policy, XLTW_FetchUpdated))
				{
					pfree(value.data);
					return TM_WouldBlock;
				}
				continue;
			}

			/* our own command made it: it must not see it */
			if (TransactionIdIsCurrentTransactionId(prior_xmax) && row.cmin >= cid)
			{
				tmfd->xmax = prior_xmax;
				tmfd->cmax = row.cmin;
				pfree(value.data);
				return TM_SelfModified;
			}
			pfree(value.data);
			return TM_Ok;
		}

		/* updated or deleted by a committed transaction or our own */
		if (row.flags & LSM_ROW_MOVED)
			ItemPointerSetMovedPartitions(tid);
		else if (row.flags & LSM_ROW_HAS_NEXT)
			*tid = row.next;
		else
			break;
		prior_xmax = row.xmax;
	}
	pfree(value.data);
	return TM_Deleted;
}

TM_Result
lsm_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
			   TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
			   LockWaitPolicy wait_policy, uint8 flags, TM_FailureData *tmfd)
{
	LsmTree    *tree = lsm_table_tree(rel);
	bool		follow = (flags & TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS) != 0;

	tmfd->traversed = false;
	for (;;)
	{
		TM_Result	result;
		TransactionId prior_xmax;
		bool		found;

		result = lock_version(rel, tree, tid, slot, cid, mode, wait_policy, follow,
							  tmfd, &found);
		if (!found)
		{
			ExecClearTuple(slot);
			return result;
		}
		if (result != TM_Updated || !(flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION))
			return result;
		Assert(!ItemPointerEquals(&tmfd->ctid, tid));

		*tid = tmfd->ctid;
		prior_xmax = tmfd->xmax;
		tmfd->traversed = true;
		result = find_last_version(rel, tree, tid, cid, prior_xmax, wait_policy, tmfd);
		if (result != TM_Ok)
			return result;
	}
}
