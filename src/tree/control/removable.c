/*-------------------------------------------------------------------------
 *
 * removable.c
 *	  What may be removed from a tree: the only place that asks PostgreSQL for
 *	  a horizon.
 *
 * A version whose deleter has committed is dead to everyone once no snapshot,
 * of now or later, takes the deleter for running.  A horizon is an xid such that
 * this holds for all deleters before it: those are xids of the tree's own
 * database, for no other database writes into the tree.
 *
 * procarray.c takes the oldest of the xids and of the snapshots' xmins that it
 * finds in the database at some moment.  So at that moment each xid of the
 * database before the horizon has ended, and each snapshot in it knows that.
 * Snapshots that come later find them ended, too.  What may be removed once may
 * therefore be removed for ever, which is why a horizon can be kept (below),
 * though horizons, taken as numbers, go backward:
 *
 * - A snapshot's xmin is the oldest xid that runs in any database.  One that is
 *	 taken after the horizon may have an older xmin than the horizon.  All it
 *	 takes for running before the horizon are xids of other databases.  (So
 *	 nobody may conclude from its own xmin what is still needed.)
 * - A standby without a slot comes back with an older xmin.  PostgreSQL promises
 *	 it nothing for the time when it was away.  What a horizon of that time
 *	 allows to remove, VACUUM and pruning of a heap may have removed, and a
 *	 session's GlobalVisState goes on allowing.  Here a kept horizon allows it
 *	 until the control block goes, but nothing that was deleted after the
 *	 horizon was computed.  Queries of the standby that would miss something are
 *	 canceled: whatever is removed is logged with its deleter.  The horizon that
 *	 VACUUM has kept must not be given up for them, since entries and values of
 *	 those rows are gone.
 * - vacuum_defer_cleanup_age is raised: the same, without harm.
 *
 * Which horizon is asked for:
 *
 * - A table that is permanent or unlogged: that of its database.  It takes
 *	 notice of prepared transactions (by their xid), of replication slots' xmin,
 *	 and of walsenders with hot_standby_feedback.  It takes none of VACUUM's
 *	 snapshots and xids, which no row of a table has.
 * - A user catalog table with wal_level = logical: that of the catalogs, held
 *	 back by slots' catalog_xmin, too.  It is older than need be, as logical
 *	 decoding cannot read lsm tables.
 * - A process without a database, or one that does not have the relation at
 *	 hand: that of all databases, and of the catalogs, which is older than each
 *	 of the others.
 * - A temporary table: what this session still needs.  No one else reads it,
 *	 cursors WITH HOLD have their rows elsewhere, and no transaction with one
 *	 can be prepared.
 * - A relation that this transaction has made (rd_createSubid): PostgreSQL
 *	 answers as for a temporary one, which is true as long as nobody else can
 *	 open it.  But a kept horizon outlives the transaction, and CLUSTER, VACUUM
 *	 FULL and ALTER TABLE swap what they have made with what others know.  Rows
 *	 of transactions that run meanwhile, or that old snapshots see, precede that
 *	 horizon.  So it is asked for as by one without the relation: in a
 *	 transaction's own table there is little to remove.  For new storage of an
 *	 old relation (rd_newRelfilelocatorSubid), PostgreSQL answers as for any.
 * - In recovery nothing is removed but by redo.
 *
 * With assertions, each horizon that is computed and each deleter of what is
 * removed is held against those who are running.
 *
 * Locking: none; the horizon in the control block is atomic.  Assertions take
 * ProcArrayLock, shared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "tree/control/control.h"

/*
 * The relation to ask PostgreSQL for, or NULL: all that there is.  Indexes have
 * no xids, and it takes none.
 */
static inline Relation
asked_for(Relation table)
{
	if (table == NULL || table->rd_rel->relkind == RELKIND_INDEX)
		return NULL;
	return RELATION_IS_LOCAL(table) && !RelationUsesLocalBuffers(table) ? NULL : table;
}

#ifdef USE_ASSERT_CHECKING

/* A process may be between two states, or may hold a snapshot for no purpose */
#define LOOK_AGAIN_TIMES	200
#define LOOK_AGAIN_US		10000

typedef struct Snapshotter
{
	int			pid;
	TransactionId xmin;
} Snapshotter;

/* Not those that neither snapshots nor horizons take notice of */
static bool
counts(const PGPROC *proc, Oid database)
{
	return proc->databaseId == database &&
		(proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)) == 0;
}

/* All that there are, prepared transactions included */
static int
nprocs(void)
{
	return (int) ProcGlobal->allProcCount + max_prepared_xacts;
}

/* REQUIRES: ProcArrayLock. */
static bool
runs_in(Oid database, TransactionId xid)
{
	for (int i = 0; i < nprocs(); i++)
	{
		if (ProcGlobal->allProcs[i].xid == xid && counts(&ProcGlobal->allProcs[i], database))
			return true;
	}
	return false;
}

/*
 * Has somebody in the database a snapshot whose xmin is not after `xid`?
 * `needs_it`: and is it certain that the snapshot takes an xid of this database
 * up to `xid` for running?  It is if its xmin is `xid`, or runs in the database.
 */
static bool
find_snapshot(Oid database, TransactionId xid, bool needs_it, Snapshotter *who)
{
	bool		found = false;

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < nprocs() && !found; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		TransactionId xmin = *(volatile TransactionId *) &proc->xmin;

		if (!TransactionIdIsNormal(xmin) || TransactionIdFollows(xmin, xid) ||
			!counts(proc, database) ||
			(needs_it && xmin != xid && !runs_in(database, xmin)))
			continue;
		who->pid = proc->pid;
		who->xmin = xmin;
		found = true;
	}
	LWLockRelease(ProcArrayLock);
	return found;
}

/*
 * A horizon that was just computed is not after the xmin of anyone in the
 * database.  Who has taken a snapshot since may have an older one, because of
 * another database's xid: then a horizon that is computed now is not after it,
 * either.  A walsender's xmin belongs to no database: it may have come back.
 */
static void
check_horizon(Relation table, Oid database, TransactionId horizon)
{
	Snapshotter who;

	for (int i = 0; i < LOOK_AGAIN_TIMES; i++)
	{
		TransactionId last = horizon;

		TransactionIdRetreat(last);
		if (!find_snapshot(database, last, false, &who))
			return;
		horizon = GetOldestNonRemovableTransactionId(table);
		if (TransactionIdPrecedesOrEquals(horizon, who.xmin))
			return;
		pg_usleep(LOOK_AGAIN_US);
	}
	elog(LOG, "horizon %u of lsm tree in database %u follows xmin %u of process %d",
		 horizon, database, who.xmin, who.pid);
	Assert(false);
}

/*
 * See writes.h.  At the moment of the horizon that allows the removal, no xid of
 * the database up to `xid` was running, nor taken for running.  So no snapshot
 * that is there now has such an xid for its xmin, whenever it was taken, or
 * imported from another transaction.  That of another database it may have, of
 * which nobody can tell when it has ended; then nothing is found out.  A session
 * that is about to connect holds a snapshot for a moment from before it had a
 * database, and reads nothing with it.
 */
void
lsm_assert_removable(Oid database, TransactionId xid)
{
	static TransactionId last_xid = InvalidTransactionId;
	Snapshotter who;

	Assert(!RecoveryInProgress());
	if (!TransactionIdIsNormal(xid) || xid == last_xid)
		return;
	for (int i = 0; i < LOOK_AGAIN_TIMES; i++)
	{
		if (!find_snapshot(database, xid, true, &who))
		{
			last_xid = xid;
			return;
		}
		pg_usleep(LOOK_AGAIN_US);
	}
	elog(LOG, "what transaction %u of database %u has deleted is removed, but process %d has xmin %u",
		 xid, database, who.pid, who.xmin);
	Assert(false);
}

#endif

/* See writes.h. */
TransactionId
lsm_tree_horizon_now(LsmTree *tree)
{
	Relation	table = asked_for(tree->rel);
	TransactionId horizon = GetOldestNonRemovableTransactionId(table);

#ifdef USE_ASSERT_CHECKING
	if (table == NULL || !RelationUsesLocalBuffers(table))
		check_horizon(table, tree->rlocator.dbOid, horizon);
#endif
	return horizon;
}

/*
 * See control.h.  With nothing noted for a thousand million xids, it may be one
 * that is to come.
 */
TransactionId
lsm_control_later_horizon(const LsmTree *tree, TransactionId now)
{
	TransactionId noted = pg_atomic_read_u32(&tree->ctl->rows.vacuumed_xmin);

	return TransactionIdIsNormal(noted) && TransactionIdFollows(noted, now) &&
		noted - now < (uint32) 1 << 30 ? noted : now;
}

/* See writes.h. */
TransactionId
lsm_tree_horizon(LsmTree *tree)
{
	TransactionId horizon = lsm_tree_horizon_now(tree);

	lsm_tree_enter(tree);
	horizon = lsm_control_later_horizon(tree, horizon);
	lsm_tree_exit(tree);
	return horizon;
}

/* See writes.h. */
void
lsm_tree_note_horizon(LsmTree *tree, TransactionId horizon)
{
	uint32		noted;

	Assert(tree->kind == LSM_KIND_TABLE);
	lsm_tree_enter(tree);
	noted = pg_atomic_read_u32(&tree->ctl->rows.vacuumed_xmin);
	while (lsm_control_later_horizon(tree, horizon) == horizon &&
		   !pg_atomic_compare_exchange_u32(&tree->ctl->rows.vacuumed_xmin, &noted, horizon))
		 /* try again */ ;
	lsm_tree_exit(tree);
}

/* See writes.h. */
bool
lsm_xid_removable(Relation table, TransactionId xid)
{
	if (!GlobalVisTestIsRemovableXid(GlobalVisTestFor(asked_for(table)), xid, true))
		return false;
#ifdef USE_ASSERT_CHECKING
	if (!RelationUsesLocalBuffers(table))
		lsm_assert_removable(table->rd_locator.dbOid, xid);
#endif
	return true;
}
