/*-------------------------------------------------------------------------
 *
 * drop.c
 *	  The short way from a DROP or TRUNCATE to the free disk space.
 *
 * An access method is not told that a relfilenode goes away, but a transaction
 * about to end can be asked which ones it will remove (smgrGetPendingDeletes).
 * Their keyspaces are handed to the worker, which removes those that nobody
 * names any more, within seconds.  What this misses (subtransactions, prepared
 * transactions, DROP DATABASE, a crash in between, a full ring) is left to the
 * sweep, which relies on nothing and takes two checkpoints.
 *
 * What the sweep guards against by waiting for checkpoints is a copy of the
 * fork that is not on disk yet.  Here:
 *	- ALTER INDEX SET TABLESPACE copies through the file system and in the same
 *	  transaction: its new fork is looked at before the keyspace is handed
 *	  over;
 *	- CREATE DATABASE may copy through shared buffers: while one copies, and
 *	  until the redo pointer has moved twice since, everything is left to the
 *	  sweep.  One that is refused copies nothing, and one that fails has
 *	  removed what it copied, buffers and files, before its transaction has
 *	  ended and let go of its locks (drop_resources_release).
 *	  For all others the look at every main fork on disk, twice, is the proof.
 *	  The fork's removal was made durable by the commit record before we look
 *	  (a commit that deletes files flushes its record whatever
 *	  synchronous_commit says).
 *
 * Worker 0 looks.  If there is none (max_worker_processes), the next transaction
 * that drops trees does, or VACUUM of a table, for those of earlier ones.
 *
 * Locking: a spinlock for the ring; the keyspace's lock, if it is free, for a
 * look and for the removal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/storage.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/lmgr.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "tree/control/clock.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"

#define DROP_RING			1024
#define DROP_PER_TRANSACTION	256
/* Forks looked at for them: heap's are among them, each costs a file read */
#define DROP_FORKS			1024
#define DROP_LOOKS			2
#define DROP_GIVE_UP_MS		60000
#define DROP_INTERVAL_MS	1000
/* Something cannot be read: it will hardly change soon */
#define DROP_BLIND_MS		30000
/* A pass may take this part of the worker's time */
#define DROP_DUTY			20

typedef struct DropShared
{
	slock_t		mutex;
	int			n;
	uint64		ids[DROP_RING];
	pg_atomic_uint32 copies_running;	/* CREATE DATABASE */
	pg_atomic_uint32 copies_made;	/* counted before it stops running */
} DropShared;

static DropShared *shared = NULL;

/* The database that this backend's CREATE DATABASE may have begun to make */
static Oid	copying = InvalidOid;

/* of the ending transaction */
static uint64 ending[DROP_PER_TRANSACTION];
static int	nending = 0;

/* Trees' forks that go if it commits */
static RelFileLocator leaving[DROP_PER_TRANSACTION];
static int	nleaving = 0;

/* ---- shared memory ---- */

static void drop_xact_callback(XactEvent event, void *arg);
static void drop_resources_release(ResourceReleasePhase phase, bool is_commit,
								   bool is_top_level, void *arg);

Size
lsm_drop_shmem_bytes(void)
{
	return MAXALIGN(sizeof(DropShared));
}

/* REQUIRES: AddinShmemInitLock held; in the postmaster. */
void
lsm_drop_shmem_init(void)
{
	static bool registered = false;
	bool		found;

	if (!registered)
	{
		RegisterXactCallback(drop_xact_callback, NULL);
		RegisterResourceReleaseCallback(drop_resources_release, NULL);
		registered = true;
	}
	shared = ShmemInitStruct("lsmam dropped keyspaces", lsm_drop_shmem_bytes(), &found);
	if (found)
		return;
	SpinLockInit(&shared->mutex);
	shared->n = 0;
	pg_atomic_init_u32(&shared->copies_running, 0);
	pg_atomic_init_u32(&shared->copies_made, 0);
}

/* ---- copies of databases ---- */

/*
 * See tree.h.  The lock keeps others from making a database of that OID before
 * this transaction has removed what it copied, should it abort.
 */
void
lsm_tree_database_copy(Oid dboid)
{
	if (shared == NULL)
		return;
	Assert(!OidIsValid(copying));
	LockSharedObject(DatabaseRelationId, dboid, 0, AccessExclusiveLock);
	copying = dboid;
	pg_atomic_fetch_add_u32(&shared->copies_running, 1);
}

static void
drop_copy_ends(bool made)
{
	if (made)
		pg_atomic_fetch_add_u32(&shared->copies_made, 1);
	pg_atomic_fetch_sub_u32(&shared->copies_running, 1);
	copying = InvalidOid;
	lsm_clone_forget();
}

/*
 * An error in an abort is met by another abort, until the server gives up: what
 * cannot be removed stays.
 */
static void
drop_copy_failed(void)
{
	MemoryContext old = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;

	PG_TRY();
	{
		lsm_clone_failed(copying);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		LWLockReleaseAll();
		InterruptHoldoffCount = holdoff;
		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		FlushErrorState();
		ereport(WARNING,
				(errmsg("some useless files of database %u may be left behind: %s", copying,
						error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();
	drop_copy_ends(false);
}

/*
 * The transaction that made a database aborts.  Pins are released, its own among
 * them, with which buffers could not be dropped; locks are not.
 */
static void
drop_resources_release(ResourceReleasePhase phase, bool is_commit,
					   bool is_top_level, void *arg)
{
	if (OidIsValid(copying) && phase == RESOURCE_RELEASE_BEFORE_LOCKS && !is_commit &&
		is_top_level && CurrentResourceOwner == TopTransactionResourceOwner)
		drop_copy_failed();
}

/* ---- the transaction's side ---- */

static bool
drop_read_file(RelFileLocator rlocator, uint64 *keyspace_id)
{
	char	   *path = lsm_relpath(rlocator, INVALID_PROC_NUMBER, MAIN_FORKNUM);
	bool		is_tree = lsm_fork_read_keyspace(path, rlocator.dbOid, keyspace_id);

	pfree(path);
	return is_tree;
}

/* The keyspace of the tree in that fork, from shared memory or its file. */
static bool
drop_find_keyspace(RelFileLocator rlocator, uint64 *keyspace_id)
{
	LsmTreeShared *ctl;

	for (int i = 0; (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		RelFileLocator its;
		LsmKind		kind;
		char		relpersistence;

		if (ctl->rlocator.relNumber == rlocator.relNumber &&
			lsm_control_identity(ctl, keyspace_id, &its, &kind, &relpersistence) &&
			RelFileLocatorEquals(its, rlocator))
			return true;
	}
	return drop_read_file(rlocator, keyspace_id);
}

/* ---- forks that stay ---- */

typedef struct StayingFork
{
	uint64		keyspace_id;
	RelFileLocator rlocator;
} StayingFork;

static int
compare_staying(const void *a, const void *b)
{
	uint64		left = ((const StayingFork *) a)->keyspace_id;
	uint64		right = ((const StayingFork *) b)->keyspace_id;

	return left < right ? -1 : left > right;
}

/*
 * The trees that this transaction has made, in the order of keyspaces, palloc'd:
 * a fork is read once, however many go away.
 */
static StayingFork *
read_staying(int *n)
{
	RelFileLocator *made;
	int			nmade = smgrGetPendingDeletes(false, &made);
	StayingFork *staying;

	*n = 0;
	if (nmade == 0)
		return NULL;
	staying = palloc_extended(nmade * sizeof(StayingFork), MCXT_ALLOC_HUGE);
	for (int i = 0; i < nmade; i++)
	{
		staying[*n].rlocator = made[i];
		if (drop_read_file(made[i], &staying[*n].keyspace_id))
			(*n)++;
	}
	pfree(made);
	qsort(staying, *n, sizeof(StayingFork), compare_staying);
	return staying;
}

/* Does another fork, which stays, name the keyspace? */
static bool
keyspace_stays(const StayingFork *staying, int n, uint64 keyspace_id, RelFileLocator going)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (staying[middle].keyspace_id < keyspace_id)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < n && staying[low].keyspace_id == keyspace_id; low++)
		if (!RelFileLocatorEquals(staying[low].rlocator, going))
			return true;
	return false;
}

/*
 * Keyspaces whose fork goes away with this transaction's end, but for those
 * that a fork which stays names as well.
 */
static void
drop_collect(bool commit)
{
	RelFileLocator *going;
	StayingFork *staying = NULL;
	int			ngoing = smgrGetPendingDeletes(commit, &going);
	int			nstaying = 0;

	nending = nleaving = 0;
	if (ngoing == 0)
		return;
	if (commit)
		staying = read_staying(&nstaying);
	for (int i = 0; i < Min(ngoing, DROP_FORKS) && nending < DROP_PER_TRANSACTION; i++)
	{
		uint64		id;

		if (!drop_find_keyspace(going[i], &id))
			continue;
		if (commit && nleaving < DROP_PER_TRANSACTION)
			leaving[nleaving++] = going[i];
		if (!keyspace_stays(staying, nstaying, id, going[i]))
			ending[nending++] = id;
	}
	pfree(going);
	if (staying != NULL)
		pfree(staying);
	if (commit && nending > 0)
		lsm_tree_remove_dropped();
}

/* To the ring; what does not fit is the sweep's. */
static void
drop_post(void)
{
	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < nending && shared->n < DROP_RING; i++)
		shared->ids[shared->n++] = ending[i];
	SpinLockRelease(&shared->mutex);
	nending = 0;
	lsm_worker_wake();
}

/*
 * This process's handles of the forks that have just gone.  The worker will
 * drop their control blocks, and lsm_handle_trim() throws away what has lost
 * its block, but a session that goes on making trees is faster: each would
 * leave it a version.  Cursors have been closed by the end of a transaction that
 * commits.
 */
static void
drop_forget_handles(void)
{
	for (int i = 0; i < nleaving; i++)
		lsm_tree_forget_fork(leaving[i], INVALID_PROC_NUMBER);
	nleaving = 0;
}

static void
drop_xact_callback(XactEvent event, void *arg)
{
	if (shared == NULL || RecoveryInProgress())
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			drop_collect(true);
			break;
		case XACT_EVENT_COMMIT:
			if (OidIsValid(copying))
				drop_copy_ends(true);
			drop_forget_handles();
			if (nending > 0)
				drop_post();
			break;
		case XACT_EVENT_ABORT:
			drop_collect(false);
			if (nending > 0)
				drop_post();
			break;
		default:
			nending = nleaving = 0;
			break;
	}
}

/* ---- who looks ---- */

typedef struct Dropped
{
	uint64		keyspace_id;
	int			looks;			/* that found it without a fork */
	TimestampTz give_up;
} Dropped;

static Dropped *dropped = NULL; /* DROP_RING entries, TopMemoryContext */
static int	ndropped = 0;
static TimestampTz drop_next = 0;

/*
 * A CREATE DATABASE copies, or has copied less than two moves of the redo
 * pointer ago.
 */
static bool
drop_copies_about(void)
{
	static uint32 seen = 0;
	static int	moves = 2;
	static XLogRecPtr redo = InvalidXLogRecPtr;
	uint32		running = pg_atomic_read_u32(&shared->copies_running);
	uint32		made;
	XLogRecPtr	now = GetRedoRecPtr();

	/* what no longer runs has been counted as made */
	pg_read_barrier();
	made = pg_atomic_read_u32(&shared->copies_made);
	if (made != seen)
	{
		seen = made;
		moves = 0;
		redo = now;
	}
	else if (now != redo)
	{
		redo = now;
		moves++;
	}
	return moves < 2 || running != 0;
}

static void
drop_take(void)
{
	uint64		ids[DROP_RING];
	TimestampTz give_up = TimestampTzPlusMilliseconds(lsm_monotonic_now(), DROP_GIVE_UP_MS);
	int			n;

	if (dropped == NULL)
		dropped = MemoryContextAlloc(TopMemoryContext, DROP_RING * sizeof(Dropped));
	SpinLockAcquire(&shared->mutex);
	n = Min(shared->n, DROP_RING - ndropped);
	memcpy(ids, shared->ids, n * sizeof(uint64));
	memmove(shared->ids, shared->ids + n, (shared->n - n) * sizeof(uint64));
	shared->n -= n;
	SpinLockRelease(&shared->mutex);
	for (int i = 0; i < n; i++)
	{
		dropped[ndropped].keyspace_id = ids[i];
		dropped[ndropped].looks = 0;
		dropped[ndropped].give_up = give_up;
		ndropped++;
	}
}

/* One look at all; those that stay on the list are moved to its front. */
static void
drop_look(HTAB *named)
{
	TimestampTz now = lsm_monotonic_now();
	int			kept = 0;

	for (int i = 0; i < ndropped; i++)
	{
		Dropped    *it = &dropped[i];
		bool		locked = lsm_keyspace_lock_if_free(it->keyspace_id, ExclusiveLock);
		bool		gone = locked && !lsm_sweep_owner_alive(it->keyspace_id) &&
			!lsm_control_busy(it->keyspace_id);
		bool		removed = false;

		/*
		 * A copy that lives, which is never ours to remove; or the fork
		 * itself, which went after it was scanned: its transaction posts
		 * before it removes files.  The next look tells.
		 */
		if (hash_search(named, &it->keyspace_id, HASH_FIND, NULL) != NULL)
			gone = false;
		it->looks = gone ? it->looks + 1 : 0;
		if (it->looks >= DROP_LOOKS)
		{
			LSM_CRASH_POINT("drop_before_remove");
			lsm_keyspace_remove_logged(it->keyspace_id);
			removed = true;
		}
		if (locked)
			lsm_keyspace_unlock(it->keyspace_id, ExclusiveLock);
		if (!removed && it->give_up > now)
			dropped[kept++] = *it;
	}
	ndropped = kept;
}

/* One look, in memory of its own.  False: something cannot be read. */
static bool
drop_scan_and_look(void)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm drop",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int			n = ndropped;
	HTAB	   *named;

	ndropped = 0;				/* should an error end the look */
	named = lsm_sweep_scan_cluster();
	ndropped = n;
	if (named != NULL)
		drop_look(named);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return named != NULL;
}

/* What is still there, others may look for. */
static void
drop_give_back(void)
{
	SpinLockAcquire(&shared->mutex);
	while (ndropped > 0 && shared->n < DROP_RING)
		shared->ids[shared->n++] = dropped[--ndropped].keyspace_id;
	SpinLockRelease(&shared->mutex);
	ndropped = 0;
}

/* See tree.h. */
void
lsm_tree_remove_dropped(void)
{
	TimestampTz now = lsm_monotonic_now();

	if (shared == NULL || shared->n == 0 || lsm_worker_runs(0) || now < drop_next ||
		drop_copies_about())
		return;
	drop_take();
	for (int looks = 0; looks < DROP_LOOKS && ndropped > 0; looks++)
	{
		if (!drop_scan_and_look())
			break;
	}
	drop_give_back();
	drop_next = TimestampTzPlusMilliseconds(now, DROP_INTERVAL_MS) +
		DROP_DUTY * (lsm_monotonic_now() - now);
}

/*
 * Remove keyspaces of relations dropped a moment ago.  Worker 0 only.
 */
void
lsm_drop_keyspaces(void)
{
	TimestampTz now = lsm_monotonic_now();
	bool		complete;

	if (shared == NULL || RecoveryInProgress() || now < drop_next)
		return;
	lsm_keyspace_remove_kept();
	if (drop_copies_about())
	{
		drop_next = TimestampTzPlusMilliseconds(now, DROP_INTERVAL_MS);
		ndropped = 0;
		SpinLockAcquire(&shared->mutex);
		shared->n = 0;
		SpinLockRelease(&shared->mutex);
		return;
	}
	if (ndropped == 0 && shared->n == 0)
		return;
	drop_take();
	complete = drop_scan_and_look();

	/* looking costs time that grows with the number of relations */
	drop_next = TimestampTzPlusMilliseconds(now, complete ? DROP_INTERVAL_MS : DROP_BLIND_MS) +
		DROP_DUTY * (lsm_monotonic_now() - now);
}
