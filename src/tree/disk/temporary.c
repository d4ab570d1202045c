/*-------------------------------------------------------------------------
 *
 * temporary.c
 *	  Trees of this backend's temporary relations: what they hold is given back
 *	  with the fork.
 *
 * No worker and no sweep looks after a temporary tree while its backend lives.
 * So the backend keeps a list of its keyspaces, each with the fork that names
 * it, and when forks may have gone it looks which are no longer there: the
 * truth is the file system's, whatever has removed the fork (DROP, ON COMMIT
 * DROP, TRUNCATE, a rewrite, DISCARD, a rollback).  Core removes forks after
 * it has called the transaction callbacks, but before it deletes the
 * transaction's memory.  Hence the look is made by a reset callback of
 * TopTransactionContext.  Contexts below have been deleted by then, cursors
 * with them.
 *
 * The look costs a stat() for each temporary tree.  It is made at the end of
 * transactions that created a temporary tree (a rollback, or what a TRUNCATE
 * has replaced) or dropped any relation. A subtransaction that is rolled back
 * has no such moment: the next creation looks, or the transaction's end.
 *
 * A fork that core has copied (ALTER INDEX ... SET TABLESPACE) names the
 * keyspace that the original has, until the index is next opened
 * (lsm_meta_adopt).  From the first such statement on, this backend's
 * temporary forks are read before anything is released.
 *
 * No lock: all of this is private to the process.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"

typedef struct Temporary
{
	uint64		keyspace_id;
	RelFileLocator rlocator;	/* fork that names it */
	ProcNumber	backend;
} Temporary;

static Temporary *temporaries = NULL;	/* TopMemoryContext */
static int	ntemporaries = 0;
static int	max_temporaries = 0;

static bool look_at_end = false;	/* a callback is registered */
static bool look_now = false;	/* a subtransaction was rolled back */
static bool forks_copied = false;


/* ---- releasing ---- */

static void
release(const Temporary *it)
{
	LSM_CRASH_POINT("temporary_gone");
	lsm_tree_forget_fork(it->rlocator, it->backend);
	lsm_control_drop(it->keyspace_id);
	lsm_keyspace_remove(it->keyspace_id);
}

/*
 * Does a temporary fork of this backend in the directory name the keyspace?
 * Errors: it might.
 */
static bool
named_in_directory(const char *path, uint64 keyspace_id)
{
	char		prefix[32];
	DIR		   *dir = AllocateDir(path);
	struct dirent *de;
	bool		named = dir == NULL && errno != ENOENT && errno != ENOTDIR;

	snprintf(prefix, sizeof(prefix), "t%d_", ProcNumberForTempRelations());
	while (dir != NULL && !named && (de = ReadDirExtended(dir, path, LOG)) != NULL)
	{
		char		file[MAXPGPATH];
		uint64		id;

		if (strncmp(de->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(file, sizeof(file), "%.700s/%.300s", path, de->d_name);
		errno = 0;
		named = lsm_fork_read_keyspace(file, MyDatabaseId, &id) ? id == keyspace_id :
			errno != 0 && errno != ENOENT;
	}
	if (dir != NULL)
		FreeDir(dir);
	return named;
}

static bool
named_by_copy(uint64 keyspace_id)
{
	char		path[MAXPGPATH];
	DIR		   *dir;
	struct dirent *de;
	bool		named;

	snprintf(path, sizeof(path), "base/%u", MyDatabaseId);
	named = named_in_directory(path, keyspace_id);
	dir = AllocateDir("pg_tblspc");
	while (dir != NULL && !named && (de = ReadDirExtended(dir, "pg_tblspc", LOG)) != NULL)
	{
		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "pg_tblspc/%.300s/%s/%u", de->d_name,
				 TABLESPACE_VERSION_DIRECTORY, MyDatabaseId);
		named = named_in_directory(path, keyspace_id);
	}
	if (dir != NULL)
		FreeDir(dir);
	return named;
}

void
lsm_temporary_release_gone(void)
{
	int			kept = 0;

	look_now = false;
	for (int i = 0; i < ntemporaries; i++)
	{
		Temporary	it = temporaries[i];

		if (lsm_fork_exists(it.rlocator, it.backend) ||
			(forks_copied && named_by_copy(it.keyspace_id)))
			temporaries[kept++] = it;
		else
			release(&it);
	}
	ntemporaries = kept;
}

void
lsm_temporary_release_all(void)
{
	while (ntemporaries > 0)
		lsm_keyspace_remove(temporaries[--ntemporaries].keyspace_id);
}

/* ---- when to look ---- */

/*
 * The transaction has ended, and an error would be one in its commit or abort,
 * which ends in a PANIC.  What fails, for want of memory or descriptors, is left
 * to the next look.
 */
static void
transaction_memory_goes(void *arg)
{
	MemoryContext old = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;

	look_at_end = false;
	PG_TRY();
	{
		lsm_temporary_release_gone();
	}
	PG_CATCH();
	{
		/* nobody else holds any here; an error also lets interrupts in */
		LWLockReleaseAll();
		InterruptHoldoffCount = holdoff;
		MemoryContextSwitchTo(old);
		FlushErrorState();
		look_now = true;
	}
	PG_END_TRY();
}

static void
look_at_end_of_transaction(void)
{
	MemoryContextCallback *callback;

	if (look_at_end || !IsTransactionState())
		return;
	callback = MemoryContextAllocZero(TopTransactionContext, sizeof(MemoryContextCallback));
	callback->func = transaction_memory_goes;
	MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	look_at_end = true;
}

void
lsm_temporary_note_abort(void)
{
	look_now = ntemporaries > 0;
}

void
lsm_tree_note_fork_copies(void)
{
	forks_copied = true;
}

void
lsm_temporary_note_drop(void)
{
	if (ntemporaries > 0)
		look_at_end_of_transaction();
}

/*
 * For sessions that created temporary trees and used none: the others' handles
 * are gone by now, and so are their directories.  Before shared memory is
 * left: locks are taken.
 */
static void
temporary_at_exit(int code, Datum arg)
{
	/* FATAL may come with locks held; the transaction is aborted later */
	LWLockReleaseAll();
	lsm_temporary_release_all();
}

/* ---- remembering ---- */

static void
make_room(void)
{
	if (temporaries == NULL)
	{
		max_temporaries = 16;
		temporaries = MemoryContextAlloc(TopMemoryContext,
										 max_temporaries * sizeof(Temporary));
		before_shmem_exit(temporary_at_exit, (Datum) 0);
	}
	else if (ntemporaries == max_temporaries)
	{
		temporaries = repalloc_huge(temporaries, max_temporaries * 2 * sizeof(Temporary));
		max_temporaries *= 2;
	}
}

void
lsm_temporary_remember(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend)
{
	Temporary	now = {keyspace_id, rlocator, backend};
	int			kept = 0;

	if (look_now)
		lsm_temporary_release_gone();
	make_room();
	look_at_end_of_transaction();

	for (int i = 0; i < ntemporaries; i++)
	{
		Temporary	it = temporaries[i];

		if (it.keyspace_id == keyspace_id)
			continue;			/* it has moved */
		if (RelFileLocatorEquals(it.rlocator, rlocator) && it.backend == backend)
			release(&it);		/* the fork was emptied */
		else
			temporaries[kept++] = it;
	}
	temporaries[kept++] = now;
	ntemporaries = kept;
}
