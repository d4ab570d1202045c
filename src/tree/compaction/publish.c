/*-------------------------------------------------------------------------
 *
 * publish.c
 *	  How written files become part of a tree and removed ones disappear.
 *
 * Publishing order: relation locked; edit logged (version_no changes); the
 * flushed memtable leaves the set (set_stamp changes); it is retired; the edit
 * is flushed to disk; removed files wait for the epochs and are unlinked.
 * Readers go the other way (epoch, set, version), so they see each entry at
 * least once.
 *
 * A removed file is cut to nothing before it is unlinked: a process that
 * sleeps on an old version may have it mapped, which would hold the disk space
 * for as long as it sleeps.  No one reads such a mapping again: every call
 * compares version_no first.
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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"
#include "tree/memtable/memtable.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* ======================================================================
 * The relation's lock
 * ====================================================================== */

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

/* ======================================================================
 * Files to unlink
 * ====================================================================== */

/* How long a process that ends waits for readers: a second */
#define EXIT_TRIES		200
#define EXIT_NAP_US		5000

typedef struct Unlinked
{
	uint64		keyspace_id;
	uint64		number;
	uint64		epoch;
} Unlinked;

/*
 * Process-local.  What a process that ends cannot wait for becomes a stray:
 * the keyspace's next first load removes it.
 */
static Unlinked *unlink_queue = NULL;
static int	unlink_queued = 0;
static int	unlink_max = 0;

/* Room for n more, so that queueing after the edit cannot fail. */
static void
unlink_reserve(int n)
{
	if (unlink_queued + n > unlink_max)
	{
		int			max = Max(64, (unlink_queued + n) * 2);

		if (unlink_queue == NULL)
			unlink_queue = MemoryContextAlloc(TopMemoryContext, max * sizeof(Unlinked));
		else
			unlink_queue = repalloc(unlink_queue, max * sizeof(Unlinked));
		unlink_max = max;
	}
}

static void
unlink_one(const Unlinked *file)
{
	char		path[MAXPGPATH];
	struct stat st;

	for (int filter = 0; filter < 2; filter++)
	{
		lsm_keyspace_file_path(file->keyspace_id, file->number, filter, path);

		/* failures do not matter: the unlink below reports what does */
		if (stat(path, &st) == 0 && st.st_nlink == 1 && truncate(path, 0) != 0)
			continue;
	}
	lsm_keyspace_unlink_file(file->keyspace_id, file->number);
}

/*
 * While a copy of the relation (SET TABLESPACE) is not committed, two forks
 * name the keyspace, and the older one may need the file again.
 */
static bool
keyspace_is_shared(uint64 keyspace_id)
{
	LsmOwner   *owners = NULL;
	int			n = lsm_keyspace_owners(keyspace_id, &owners);
	int			alive = 0;

	/* the files wait until it can be told, or become strays */
	if (n == LSM_OWNERS_UNREADABLE)
		return true;
	for (int i = 0; i < n; i++)
	{
		if (lsm_fork_exists(owners[i].rlocator, owners[i].backend))
			alive++;
	}
	if (owners != NULL)
		pfree(owners);
	return alive > 1;
}

void
lsm_unlink_drain(bool wait)
{
	uint64		checked = 0;	/* keyspace whose owners were looked at */
	bool		shared = false;
	int			kept = 0;

	if (unlink_queued == 0)
		return;
	Assert(!lsm_epoch_inside());
	if (wait)
		lsm_epoch_wait(unlink_queue[unlink_queued - 1].epoch);

	LSM_CRASH_POINT("unlink_queue");
	for (int i = 0; i < unlink_queued; i++)
	{
		Unlinked	file = unlink_queue[i];

		if (file.keyspace_id != checked)
		{
			shared = keyspace_is_shared(file.keyspace_id);
			checked = file.keyspace_id;
		}
		if (!shared && lsm_epoch_passed(file.epoch))
			unlink_one(&file);
		else
			unlink_queue[kept++] = file;
	}
	unlink_queued = kept;
}

static void
unlink_at_exit(int code, Datum arg)
{
	/* announcements last microseconds, unless a reader waits for storage */
	for (int tries = 0; tries < EXIT_TRIES && unlink_queued > 0 &&
		 !lsm_epoch_passed(unlink_queue[unlink_queued - 1].epoch); tries++)
		pg_usleep(EXIT_NAP_US);

	for (int i = 0; i < unlink_queued; i++)
	{
		if (lsm_epoch_passed(unlink_queue[i].epoch) &&
			!keyspace_is_shared(unlink_queue[i].keyspace_id))
			unlink_one(&unlink_queue[i]);
	}
	unlink_queued = 0;
}

/*
 * Queue what the edit removed and did not add again.  REQUIRES: room reserved.
 */
static void
unlink_enqueue(LsmJob *job, const LsmEdit *edit)
{
	uint64		epoch = lsm_epoch_advance();

	for (int i = 0; i < edit->nremoved; i++)
	{
		bool		moved = false;

		for (int j = 0; j < edit->nadded && !moved; j++)
			moved = edit->added[j].number == edit->removed[i];
		if (!moved)
		{
			Assert(unlink_queued < unlink_max);
			unlink_queue[unlink_queued].keyspace_id = job->keyspace_id;
			unlink_queue[unlink_queued].number = edit->removed[i];
			unlink_queue[unlink_queued].epoch = epoch;
			unlink_queued++;
		}
	}
}

/* ======================================================================
 * Publishing
 * ====================================================================== */

void
lsm_publish_hints(LsmTree *tree, LsmVersion *version)
{
	LsmTreeShared *ctl = tree->ctl;
	int			level;
	bool		due = lsm_compaction_score(tree, version, &level) >= 1.0;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		pg_atomic_read_u64(&ctl->version_no) == version->version_no)
	{
		pg_atomic_write_u32(&ctl->level0_runs, version->level0_runs);
		pg_atomic_write_u32(&ctl->compaction_due, due ? 1 : 0);
	}
	LWLockRelease(&ctl->lock);
	if (due && !ctl->local)
		lsm_worker_wake();
}

/* The memtable whose entries are in files now leaves the set. */
static void
publish_set(LsmJob *job, LsmMemtable *flushed)
{
	LsmTreeShared *ctl = job->ctl;
	bool		removed = false;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id)
	{
		lsm_set_change_begin(ctl);
		if (flushed != NULL && ctl->nsealed > 0 && ctl->sealed[0] == flushed)
		{
			ctl->nsealed--;
			memmove(&ctl->sealed[0], &ctl->sealed[1],
					ctl->nsealed * sizeof(LsmMemtable *));
			ctl->sealed[ctl->nsealed] = NULL;
			removed = true;
		}
		lsm_set_change_end(ctl);
	}
	LWLockRelease(&ctl->lock);

	if (removed)
		lsm_memtable_retire(flushed);
	ConditionVariableBroadcast(&ctl->cv);
}

static void
publish_crash_point(LsmJob *job, bool after)
{
#ifdef LSM_TESTING
	static const char *const names[3][2] = {
		{"flush_before_edit", "flush_after_edit"},
		{"compact_before_edit", "compact_after_edit"},
		{"build_before_edit", "build_after_edit"}
	};

	LSM_CRASH_POINT(names[job->type][after]);
#endif
}

/* Newest xid whose rows are in none of the job's files any more. */
static TransactionId
newest_removed(LsmJob *job, LsmMemtable *flushed)
{
	TransactionId removed = job->fate.newest_removed_xid;
	TransactionId forgotten = InvalidTransactionId;

	if (flushed != NULL)
		forgotten = pg_atomic_read_u32(&flushed->pruned_xid);
	if (!TransactionIdIsValid(removed) ||
		(TransactionIdIsValid(forgotten) && TransactionIdFollows(forgotten, removed)))
		return forgotten;
	return removed;
}

bool
lsm_publish(LsmJob *job, LsmEdit *edit, LsmMemtable *flushed)
{
	LsmTree    *tree = job->tree;
	XLogRecPtr	lsn;

	Assert(!lsm_epoch_inside());
	unlink_reserve(edit->nremoved);
	if (!lsm_publish_lock(tree))
		return false;
	if (!lsm_job_current(job))
	{
		/*
		 * only in a worker: a backend has had the relation's lock all the time
		 */
		lsm_publish_unlock(tree);
		if (!lsm_in_worker())
			lsm_job_report_replaced(job);
		return false;
	}
	Assert(tree->ctl == job->ctl && tree->keyspace_id == job->keyspace_id);

	lsm_elastic_publish_prepare(job, edit);
	publish_crash_point(job, false);
	edit->conflict_xid = newest_removed(job, flushed);
	lsn = lsm_manifest_edit(tree, edit);

	/* nothing that can fail or be interrupted until the set is in order */
	job->published = true;
	publish_crash_point(job, true);
	publish_set(job, flushed);
	if (job->type == LSM_JOB_FLUSH)
		LSM_CRASH_POINT("flush_after_retire");

	if (!XLogRecPtrIsInvalid(lsn))
		XLogFlush(lsn);
	unlink_enqueue(job, edit);
	lsm_elastic_publish_finish(job, edit);
	lsm_publish_hints(tree, lsm_version_refresh(tree));
	lsm_publish_unlock(tree);

	/* a worker does not wait: it tries again at its next round */
	lsm_unlink_drain(!lsm_in_worker());
	if (job->type == LSM_JOB_COMPACT)
		LSM_CRASH_POINT("compact_after_unlink");
	return true;
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

/* Each process that publishes: at its first job. */
void
lsm_publish_at_exit(void)
{
	static bool registered = false;

	if (registered)
		return;
	before_shmem_exit(unlink_at_exit, (Datum) 0);
	registered = true;
}
