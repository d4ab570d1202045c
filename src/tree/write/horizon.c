/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  What VACUUM and writers leave in the control block for those who flush,
 *	  build indexes or change rows later, and what standbys are told of it.
 *
 * Locking: none; the values are atomic.
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
lsm_tree_note_horizon(LsmTree *tree, TransactionId oldest_xmin)
{
	uint32		noted;

	lsm_tree_enter(tree);
	noted = pg_atomic_read_u32(&tree->ctl->vacuumed_xmin);
	while (lsm_control_later_horizon(tree->ctl, oldest_xmin) == oldest_xmin &&
		   !pg_atomic_compare_exchange_u32(&tree->ctl->vacuumed_xmin, &noted, oldest_xmin))
		 /* try again */ ;
	lsm_tree_exit(tree);
}

/* See writes.h. */
TransactionId
lsm_tree_horizon(LsmTree *tree, TransactionId oldest_xmin)
{
	TransactionId later;

	lsm_tree_enter(tree);
	later = lsm_control_later_horizon(tree->ctl, oldest_xmin);
	lsm_tree_exit(tree);
	return later;
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
	pg_atomic_write_u32(&tree->ctl->freeze_limit, limit);
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
	limit = pg_atomic_read_u32(&tree->ctl->freeze_limit);
	lsm_tree_exit(tree);
	return TransactionIdIsNormal(limit) && TransactionIdIsNormal(xid) &&
		TransactionIdPrecedes(xid, limit) &&
		TransactionIdPrecedesOrEquals(limit, ReadNextTransactionId());
}
