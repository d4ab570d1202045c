/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  What standbys are told before something goes, and the limit for freezing
 *	  that VACUUM leaves in the control block for those who change rows later.
 *	  (What may go: removable.c.)
 *
 * Locking: none; the limit is atomic.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"

#include "tree/control/control.h"
#include "tree/disk/wal.h"
#include "tree/write/write.h"

/* See writes.h. */
void
lsm_horizon_log(LsmTree *tree, TransactionId xid, bool vacuumed)
{
	LsmWalHorizon horizon;

	if (!XLogStandbyInfoActive() || !lsm_tree_needs_wal(tree) ||
		(!TransactionIdIsNormal(xid) && !vacuumed))
		return;
	horizon.keyspace_id = tree->keyspace_id;
	horizon.rlocator = tree->rlocator;
	horizon.xid = xid;
	horizon.flags = vacuumed ? LSM_HORIZON_VACUUMED : 0;
	XLogBeginInsert();
	XLogRegisterData((char *) &horizon, sizeof(horizon));
	(void) XLogInsert(LSM_RMGR_ID, XLOG_LSM_HORIZON);
}

/* See writes.h. */
void
lsm_tree_note_freeze_limit(LsmTree *tree, TransactionId limit)
{
	TransactionId newest = limit;

	if (TransactionIdIsValid(limit))
	{
		TransactionIdRetreat(newest);
		lsm_horizon_log(tree, newest, false);
	}
	lsm_tree_enter(tree);
	pg_atomic_write_u32(&tree->ctl->rows.freeze_limit, limit);
	lsm_tree_exit(tree);
}

/*
 * See writes.h.  A limit that nobody has replaced for 2^31 xids seems to be one
 * to come.
 */
bool
lsm_tree_freezes(LsmTree *tree, TransactionId xid)
{
	TransactionId limit;

	lsm_tree_enter(tree);
	limit = pg_atomic_read_u32(&tree->ctl->rows.freeze_limit);
	lsm_tree_exit(tree);
	return TransactionIdIsNormal(limit) && TransactionIdIsNormal(xid) &&
		TransactionIdPrecedes(xid, limit) &&
		TransactionIdPrecedesOrEquals(limit, ReadNextTransactionId());
}
