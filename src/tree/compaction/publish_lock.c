/*-------------------------------------------------------------------------
 *
 * publish_lock.c
 *	  The relation's lock, for who makes files part of a tree or takes numbers for
 *	  them: that the relation cannot go away meanwhile.
 *
 * Workers and forks that go.  A worker is attached to no database and cannot
 * look at pg_class.  It locks the relation and looks at the main fork.  But a
 * transaction that drops a relation unlinks the fork only after it has released
 * its locks (CommitTransaction), and so does one that is rolled back with a
 * fork of its own (AbortTransaction, AbortSubTransaction).  What a worker logged
 * there in between would come after the record that removes the fork: redo
 * fails.  So while the transaction still holds its locks, it clears
 * relid_confirmed in the control block (publish_xact_callback), and a worker
 * that has the relation's lock looks at relid_confirmed.  A transaction that
 * drops a relation whose fork another relation has taken clears
 * relid_confirmed, too: the fork's users no longer lock the old OID.  Likewise
 * one that is rolled back after it has taken a fork over.
 *
 * relid_confirmed is raised by who opens the tree through the relation, if the
 * relation and its fork stay whatever becomes of the transaction
 * (lsm_fork_may_roll_back).
 *
 * Locking: database and relation lock, heavyweight, RowExclusive, never waited
 * for by a worker; ctl->lock to read or clear relid_confirmed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/page.h"
#include "tree/memtable/memtable.h"

/*
 * For so long writers do not count on workers that could not have the lock: a
 * bit longer than until these try again.
 */
#define REST_AFTER_LOCK_MS	1000

static void
publish_lock_tags(LsmTree *tree, Oid relid, LOCKTAG *database, LOCKTAG *relation)
{
	SET_LOCKTAG_OBJECT(*database, InvalidOid, DatabaseRelationId,
					   tree->rlocator.dbOid, 0);
	SET_LOCKTAG_RELATION(*relation, tree->rlocator.dbOid, relid);
}

/* The relation OID to lock, or invalid if a worker has to keep off. */
static Oid
publish_relid(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	Oid			relid = InvalidOid;

	LWLockAcquire(&ctl->lock, LW_SHARED);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		ctl->relid_confirmed)
		relid = ctl->relid;
	LWLockRelease(&ctl->lock);
	return relid;
}

/*
 * OID that this process has locked for publishing, and how often: loading a
 * tree under the lock may flush and publish.
 */
static Oid	locked_relid = InvalidOid;
static int	locked_depth = 0;

bool
lsm_publish_lock(LsmTree *tree)
{
	LOCKTAG		database;
	LOCKTAG		relation;
	Oid			relid;

	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	if (!lsm_in_worker())
		return true;

	if (locked_depth > 0)
	{
		Assert(locked_relid == tree->ctl->relid);
		locked_depth++;
		return true;
	}
	relid = publish_relid(tree);
	if (!OidIsValid(relid))
		return false;

	/*
	 * Never wait: whoever holds the lock may be waiting for a flush.  An
	 * error releases the locks with the worker's transaction.
	 */
	publish_lock_tags(tree, relid, &database, &relation);
	if (LockAcquire(&database, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		lsm_worker_rests(tree->ctl, LSM_REST_LOCK, REST_AFTER_LOCK_MS);
		return false;
	}
	if (LockAcquire(&relation, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		LockRelease(&database, RowExclusiveLock, false);
		lsm_worker_rests(tree->ctl, LSM_REST_LOCK, REST_AFTER_LOCK_MS);
		return false;
	}

	/*
	 * As LockRelationOid() does: the fork may have been cut since this process
	 * has opened its segments, and where it ends is found out from these.
	 */
	AcceptInvalidationMessages();
	lsm_worker_rests(tree->ctl, LSM_REST_LOCK, 0);
	locked_relid = relid;
	locked_depth = 1;

	if (publish_relid(tree) != relid)
	{
		lsm_publish_unlock(tree);
		return false;
	}
	LSM_CRASH_POINT("publish_locked");
	if (!lsm_meta_current(tree))
	{
		lsm_publish_unlock(tree);
		lsm_control_drop_block(tree->ctl, tree->keyspace_id);
		return false;
	}
	return true;
}

void
lsm_publish_unlock(LsmTree *tree)
{
	LOCKTAG		database;
	LOCKTAG		relation;

	if (locked_depth == 0 || --locked_depth > 0)
		return;
	publish_lock_tags(tree, locked_relid, &database, &relation);
	locked_relid = InvalidOid;
	LockRelease(&relation, RowExclusiveLock, false);
	LockRelease(&database, RowExclusiveLock, false);
}

void
lsm_publish_abort(void)
{
	/* the locks themselves go with the transaction */
	locked_relid = InvalidOid;
	locked_depth = 0;
}

/* The transaction's, in its memory */
static List *dropped_relids = NIL;
static List *taken_relids = NIL;	/* first known as those of a tree */
static List *dropped_databases = NIL;
static bool registered = false;

static List *
publish_note(List *oids, Oid oid)
{
	MemoryContext old;

	/* without callbacks nobody would forget it */
	if (!registered || lsm_in_worker())
		return NIL;
	old = MemoryContextSwitchTo(TopTransactionContext);
	oids = lappend_oid(oids, oid);
	MemoryContextSwitchTo(old);
	return oids;
}

/*
 * This transaction drops the relation, though perhaps not its fork: ALTER
 * TABLE drops an index and gives the index's fork to a new index if the fork
 * can be used as it is.
 */
void
lsm_publish_note_drop(Oid relid)
{
	dropped_relids = publish_note(dropped_relids, relid);
}

/* See compaction.h. */
void
lsm_publish_note_taken(Oid relid)
{
	taken_relids = publish_note(taken_relids, relid);
}

/* See compaction.h. */
void
lsm_publish_note_database_drop(Oid dboid)
{
	dropped_databases = publish_note(dropped_databases, dboid);
}

/*
 * The relation stays, and gets another tree, or is dropped (which a rollback to a
 * savepoint may have taken back).  Called before it is sure that this happens:
 * control/former.c.
 */
static void
publish_keep_counts(LsmTreeShared *ctl, RelFileLocator rlocator, const List *dropped)
{
	if (list_member_oid(dropped, ctl->relid) &&
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(ctl->relid)))
		lsm_former_forget(rlocator.dbOid, ctl->relid);
	else
		lsm_former_keep_of_fork(ctl, rlocator);
}

static void
publish_keep_off(LsmTreeShared *ctl)
{
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	ctl->relid_confirmed = false;
	LWLockRelease(&ctl->lock);
}

/*
 * Workers keep off the trees in forks that go if the transaction commits or, if
 * not `commit`, is rolled back, and off those that are known to be the
 * relations'.  Also called in an abort, where nothing may fail: core has just
 * asked for the same list.  REQUIRES: the locks on these relations, which also
 * keep their blocks' identities.
 */
static void
publish_keep_off_ending(bool commit, const List *relids)
{
	RelFileLocator *rlocators = NULL;
	LsmTreeShared *ctl;
	int			n = smgrGetPendingDeletes(commit, &rlocators);

	if (commit && n > 0)
		lsm_counters_publish();
	for (int i = 0; (n > 0 || relids != NIL) && (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		bool		ends;

		/* without an identity it may be free, or get it back (lsm_control_recycle) */
		ends = ctl->rlocator.dbOid == MyDatabaseId && list_member_oid(relids, ctl->relid);
		for (int j = 0; j < n; j++)
		{
			if (!RelFileLocatorEquals(ctl->rlocator, rlocators[j]))
				continue;
			ends = true;
			if (commit && pg_atomic_read_u64(&ctl->keyspace_id) != 0)
				publish_keep_counts(ctl, rlocators[j], relids);
			break;
		}
		if (ends)
			publish_keep_off(ctl);
	}
	if (rlocators != NULL)
		pfree(rlocators);
}

/*
 * DROP DATABASE has failed, perhaps after it has thrown away the database's
 * buffers: pages on disk may be older than the log says, and nobody may add to
 * them.  Core lets nobody in then.  If it has not come so far, the database's
 * sessions confirm their relations again.
 */
static void
publish_keep_off_databases(void)
{
	LsmTreeShared *ctl;

	for (int i = 0; dropped_databases != NIL && (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		if (list_member_oid(dropped_databases, ctl->rlocator.dbOid))
			publish_keep_off(ctl);
	}
}

/*
 * Locks are held in all of these, those of an aborted transaction, too.  Should
 * a transaction abort after PRE_COMMIT, the next user of a relation that it
 * would have dropped confirms it again.
 */
static void
publish_xact_callback(XactEvent event, void *arg)
{
	ListCell   *lc;

	if (lsm_in_worker())
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			publish_keep_off_ending(true, dropped_relids);

			/* the files are gone, and nobody can connect */
			foreach(lc, dropped_databases)
			{
				lsm_control_drop_database(lfirst_oid(lc));
				lsm_former_forget_database(lfirst_oid(lc));
			}
			return;
		case XACT_EVENT_PRE_PREPARE:
			publish_keep_off_ending(true, dropped_relids);
			publish_keep_off_ending(false, taken_relids);
			return;
		case XACT_EVENT_ABORT:
			publish_keep_off_ending(false, taken_relids);
			publish_keep_off_databases();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
		default:
			return;
	}

	/* their memory goes with the transaction */
	dropped_relids = taken_relids = dropped_databases = NIL;
}

static void
publish_subxact_callback(SubXactEvent event, SubTransactionId mySubid,
						 SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && !lsm_in_worker())
		publish_keep_off_ending(false, taken_relids);
}

/*
 * The relation, other than `rel`, whose lock workers take for the fork that
 * `rel` has now; invalid if there is none.
 */
static Oid
publish_former_relation(Relation rel)
{
	LsmTreeShared *ctl;
	Oid			former = InvalidOid;

	for (int i = 0; !OidIsValid(former) && (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		LWLockAcquire(&ctl->lock, LW_SHARED);
		if (pg_atomic_read_u64(&ctl->keyspace_id) != 0 && ctl->relid_confirmed &&
			RelFileLocatorEquals(ctl->rlocator, rel->rd_locator) &&
			ctl->relid != RelationGetRelid(rel))
			former = ctl->relid;
		LWLockRelease(&ctl->lock);
	}
	return former;
}

/*
 * See tree.h.  While both relations are locked, no worker publishes in either
 * of the two forks: it would hold one of these locks from its look at
 * relid_confirmed on.  Afterwards workers keep off both forks until somebody
 * opens them as the relations that have them now.
 */
void
lsm_tree_take_over(Relation rel)
{
	Oid			former = publish_former_relation(rel);
	LsmTreeShared *ctl;

	if (!OidIsValid(former))
		return;
	LockRelationOid(former, AccessExclusiveLock);
	for (int i = 0; (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
		if (pg_atomic_read_u64(&ctl->keyspace_id) != 0 &&
			ctl->rlocator.dbOid == rel->rd_locator.dbOid &&
			(RelFileLocatorEquals(ctl->rlocator, rel->rd_locator) ||
			 ctl->relid == RelationGetRelid(rel)))
			ctl->relid_confirmed = false;
		LWLockRelease(&ctl->lock);
	}
}

#ifdef LSM_TESTING
/*
 * Committed, and visible to all, or rolled back: but files that go are still
 * there.  Owners of portals are released in the midst of a transaction.
 */
static void
publish_release_callback(ResourceReleasePhase phase, bool is_commit,
						 bool is_top_level, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || lsm_in_worker() || IsTransactionState())
		return;
	if (is_commit && is_top_level)
		LSM_CRASH_POINT("locks_released");
	else if (!is_commit)
		LSM_CRASH_POINT("abort_locks_released");
}
#endif

/* In the postmaster: inherited by every backend. */
void
lsm_publish_register(void)
{
	if (registered)
		return;
	RegisterXactCallback(publish_xact_callback, NULL);
	RegisterSubXactCallback(publish_subxact_callback, NULL);
#ifdef LSM_TESTING
	RegisterResourceReleaseCallback(publish_release_callback, NULL);
#endif
	registered = true;
}
