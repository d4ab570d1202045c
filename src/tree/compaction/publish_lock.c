/*-------------------------------------------------------------------------
 *
 * publish_lock.c
 *	  The relation's lock, for who makes files part of a tree or takes numbers for
 *	  them: that the relation cannot go away meanwhile.
 *
 * Workers and dropped relations.  A worker is attached to no database and
 * cannot look at pg_class.  It locks the relation and looks at the main fork.
 * But a transaction that drops a relation unlinks the fork only after it has
 * released its locks (CommitTransaction).  So while the transaction still
 * holds its locks, it clears relid_confirmed in the control block
 * (publish_xact_callback), and a worker that has the relation's lock looks at
 * relid_confirmed.  A transaction that drops a relation whose fork another
 * relation has taken clears relid_confirmed, too: the fork's users no longer
 * lock the old OID.
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
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/page.h"
#include "tree/memtable/memtable.h"

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
		return false;
	if (LockAcquire(&relation, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		LockRelease(&database, RowExclusiveLock, false);
		return false;
	}
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

/* Of this transaction, in its memory */
static List *dropped_relids = NIL;

/*
 * Relations about to be dropped: workers must not touch their trees any more.
 * At PRE_COMMIT the locks are still held; should the transaction abort after
 * all, the next user of the relation confirms it again.
 */
static void
publish_xact_callback(XactEvent event, void *arg)
{
	RelFileLocator *rlocators = NULL;
	List	   *relids = dropped_relids;
	int			n;

	/* its memory goes with the transaction */
	dropped_relids = NIL;
	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE)
		return;
	if (lsm_in_worker())
		return;
	n = smgrGetPendingDeletes(true, &rlocators);
	if (n == 0 && relids == NIL)
		return;
	for (int i = 0;; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		bool		ends;

		if (ctl == NULL)
			break;
		if (pg_atomic_read_u64(&ctl->keyspace_id) == 0)
			continue;

		/* our lock on the relation keeps its block's identity as it is */
		ends = ctl->rlocator.dbOid == MyDatabaseId && list_member_oid(relids, ctl->relid);
		for (int j = 0; j < n && !ends; j++)
			ends = RelFileLocatorEquals(ctl->rlocator, rlocators[j]);
		if (ends)
		{
			LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
			ctl->relid_confirmed = false;
			LWLockRelease(&ctl->lock);
		}
	}
	if (rlocators != NULL)
		pfree(rlocators);
}

/*
 * This transaction drops the relation, though perhaps not its fork: ALTER
 * TABLE drops an index and gives the index's fork to a new index if the fork
 * can be used as it is.
 */
void
lsm_publish_note_drop(Oid relid)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	dropped_relids = lappend_oid(dropped_relids, relid);
	MemoryContextSwitchTo(old);
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
 * Committed, and visible to all: but files of dropped relations are still
 * there.
 */
static void
publish_release_callback(ResourceReleasePhase phase, bool is_commit,
						 bool is_top_level, void *arg)
{
	if (phase == RESOURCE_RELEASE_AFTER_LOCKS && is_commit && is_top_level &&
		!lsm_in_worker())
		LSM_CRASH_POINT("locks_released");
}
#endif

/* In the postmaster: inherited by every backend. */
void
lsm_publish_register(void)
{
	static bool registered = false;

	if (registered)
		return;
	RegisterXactCallback(publish_xact_callback, NULL);
#ifdef LSM_TESTING
	RegisterResourceReleaseCallback(publish_release_callback, NULL);
#endif
	registered = true;
}
