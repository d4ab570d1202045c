/*-------------------------------------------------------------------------
 *
 * keyspace.c
 *	  Keyspaces: a directory pg_lsm/<id> with the sorted files of one tree, and
 *	  the owner file that says who may name it.
 *
 * Order of creation: directory, owner file, then the record KEYSPACE_CREATE with
 * the metapage.  A crash or checkpoint in between leaves a directory that no
 * metapage names: the sweep's business.
 *
 * The directory of a fork that goes away if the transaction is rolled back is
 * made durable before the transaction's commit record, one fsync for all of them
 * (keyspace_xact_callback).  So a metapage that names a keyspace without a
 * directory comes about in one case: a checkpoint has come between the record and
 * the commit, and then a crash, so that redo begins behind the record and does
 * not make the directory again.  That fork is nobody's, as its transaction has
 * not committed.  All other directories are durable before the record exists.
 *
 * The owner file lists forks that may name the keyspace, one per line:
 * "<database> <tablespace> <relfilenode> <backend>".  It is a hint that
 * spares the sweep the look at every relation, not the truth: ALTER INDEX SET
 * TABLESPACE and CREATE DATABASE copy forks without asking anyone.  A first owner
 * is not synced: where a power failure loses it, every relation is looked at,
 * until the tree's next flush has written it again.
 *
 * Locking: everything here is done by whoever has the relation to himself, but
 * for the owner file, which whoever flushes the tree may write.
 * From before its directory is made until a fork names it, a keyspace is locked
 * by its maker: a heavyweight lock on the id, which removal and unlinking take
 * as well, and never wait for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/smgr.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/wal.h"

void		(*lsm_file_gone_hook) (uint64 keyspace_id, uint64 number) = NULL;

#define LSM_OWNER_FILE		"owner"
#define LSM_OWNER_TEMPORARY	LSM_OWNER_FILE ".tmp."	/* and a pid */
#define LSM_OWNER_MAX_BYTES	65536

/* ---- names ---- */

bool
lsm_keyspace_parse(const char *name, uint64 *keyspace_id)
{
	char	   *end;

	if (strncmp(name, PG_TEMP_FILE_PREFIX, strlen(PG_TEMP_FILE_PREFIX)) == 0)
		name += strlen(PG_TEMP_FILE_PREFIX);
	if (strlen(name) != 16 || strspn(name, "0123456789abcdef") != 16)
		return false;
	*keyspace_id = strtou64(name, &end, 16);
	return *keyspace_id != 0;
}

/* ---- the lock ---- */

/*
 * Nobody else has locks of this type: contrib/userlock, for which it is
 * reserved, went with PostgreSQL 8.2.  pg_locks shows ours as "userlock", with
 * the id's halves as classid and objid.
 */
static void
lsm_keyspace_lock_tag(uint64 keyspace_id, LOCKTAG *tag)
{
	memset(tag, 0, sizeof(*tag));
	tag->locktag_field2 = (uint32) (keyspace_id >> 32);
	tag->locktag_field3 = (uint32) keyspace_id;
	tag->locktag_type = LOCKTAG_USERLOCK;
	tag->locktag_lockmethodid = DEFAULT_LOCKMETHOD;
}

/* See disk.h. */
void
lsm_keyspace_lock(uint64 keyspace_id)
{
	LOCKTAG		tag;

	lsm_keyspace_lock_tag(keyspace_id, &tag);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* See disk.h. */
bool
lsm_keyspace_lock_if_free(uint64 keyspace_id, LOCKMODE mode)
{
	LOCKTAG		tag;

	lsm_keyspace_lock_tag(keyspace_id, &tag);

	/* a lock table that is full says no, too */
	return lsm_lock_if_free(&tag, mode) != LOCKACQUIRE_NOT_AVAIL;
}

/* See disk.h. */
void
lsm_keyspace_unlock(uint64 keyspace_id, LOCKMODE mode)
{
	LOCKTAG		tag;

	lsm_keyspace_lock_tag(keyspace_id, &tag);
	(void) LockRelease(&tag, mode, false);
}

/* ---- directory and owner file ---- */

/* False if it exists. */
static bool
lsm_make_directory(const char *path)
{
	if (MakePGDirectory(path) == 0)
		return true;
	if (errno != EEXIST)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", path)));
	return false;
}

/* This transaction has made directories that are not durable yet. */
static bool directories_owed = false;

/* Locks are held, and there is no commit record yet. */
static void
keyspace_xact_callback(XactEvent event, void *arg)
{
	if (directories_owed && (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE))
	{
		LSM_CRASH_POINT("create_unsynced");
		lsm_sync_dir(LSM_DIR);
		LSM_CRASH_POINT("create_synced");
	}

	/* a rollback leaves the sweep what it does */
	if (event != XACT_EVENT_PARALLEL_PRE_COMMIT)
		directories_owed = false;
}

static void
keyspace_owe_directory(void)
{
	static bool registered = false;

	Assert(IsTransactionState());
	if (!registered)
		RegisterXactCallback(keyspace_xact_callback, NULL);
	registered = true;
	directories_owed = true;
}

/*
 * False if the keyspace's directory is there already.  The directory itself is
 * durable on return, or when the transaction commits (`at_commit`); its content
 * is not.
 */
static bool
lsm_keyspace_make_dir(uint64 keyspace_id, bool at_commit)
{
	char		path[MAXPGPATH];

	if (lsm_make_directory(LSM_DIR))
		lsm_sync_dir(".");
	lsm_keyspace_dir(keyspace_id, path);
	if (!lsm_make_directory(path))
		return false;
	if (!at_commit)
		lsm_sync_dir(LSM_DIR);
	else if (keyspace_id < LSM_TEMPORARY_KEYSPACES)
		keyspace_owe_directory();	/* no crash leaves a temporary one */
	return true;
}

/* It is a hint: that it cannot be read is no error. */
static int
owners_unreadable(uint64 keyspace_id, const char *path)
{
	if (lsm_warn_about_file(keyspace_id, 0))
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", path),
				 errdetail("Nothing that might be needed is removed as long as this is so.")));
	return LSM_OWNERS_UNREADABLE;
}

/* See disk.h. */
int
lsm_keyspace_owners(uint64 keyspace_id, LsmOwner **owners)
{
	char		path[MAXPGPATH];
	char		dir[MAXPGPATH];
	char	   *data;
	char	   *at;
	int			fd;
	int			bytes;
	int			n = 0;
	int			room = 4;

	*owners = NULL;
	lsm_keyspace_dir(keyspace_id, dir);
	snprintf(path, sizeof(path), "%.900s/%s", dir, LSM_OWNER_FILE);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0)
		return errno == ENOENT ? LSM_OWNERS_NONE : owners_unreadable(keyspace_id, path);
	data = palloc(LSM_OWNER_MAX_BYTES + 1);
	bytes = read(fd, data, LSM_OWNER_MAX_BYTES);
	if (bytes < 0)
	{
		int			save_errno = errno;

		CloseTransientFile(fd);
		pfree(data);
		errno = save_errno;
		return owners_unreadable(keyspace_id, path);
	}
	CloseTransientFile(fd);
	data[bytes] = '\0';

	*owners = palloc(room * sizeof(LsmOwner));
	for (at = data; *at != '\0';)
	{
		LsmOwner	owner;
		char	   *eol = strchr(at, '\n');

		if (eol == NULL ||
			sscanf(at, "%u %u %u %d", &owner.rlocator.dbOid, &owner.rlocator.spcOid,
				   &owner.rlocator.relNumber, &owner.backend) != 4)
		{
			n = LSM_OWNERS_NONE;	/* torn, or not an owner file */
			break;
		}
		if (n == room)
		{
			room *= 2;
			*owners = repalloc(*owners, room * sizeof(LsmOwner));
		}
		(*owners)[n++] = owner;
		at = eol + 1;
	}
	pfree(data);
	return n > 0 ? n : LSM_OWNERS_NONE;
}

/* See disk.h. */
bool
lsm_owner_is_temporary(const char *name)
{
	return strncmp(name, LSM_OWNER_TEMPORARY, strlen(LSM_OWNER_TEMPORARY)) == 0;
}

/*
 * Replace the owner file; durably, if it had owners before.  What a crash or an
 * error leaves of it is a stray (strays.c).
 */
static void
lsm_owner_write(uint64 keyspace_id, const LsmOwner *owners, int n)
{
	char		dir[MAXPGPATH];
	char		path[MAXPGPATH];
	char		tmp[MAXPGPATH];
	StringInfoData text;
	int			fd;
	int			i;

	lsm_keyspace_dir(keyspace_id, dir);
	snprintf(path, sizeof(path), "%.900s/%s", dir, LSM_OWNER_FILE);
	snprintf(tmp, sizeof(tmp), "%.900s/" LSM_OWNER_TEMPORARY "%d", dir, MyProcPid);
	initStringInfo(&text);
	for (i = 0; i < n; i++)
		appendStringInfo(&text, "%u %u %u %d\n", owners[i].rlocator.dbOid,
						 owners[i].rlocator.spcOid, owners[i].rlocator.relNumber,
						 owners[i].backend);

	fd = OpenTransientFile(tmp, O_RDWR | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", tmp)));
	errno = 0;
	if (write(fd, text.data, text.len) != text.len)
	{
		/* if write didn't set errno, assume problem is no disk space */
		if (errno == 0)
			errno = ENOSPC;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", tmp)));
	}
	if (n > 1)
		lsm_sync_file(fd, path);
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", tmp)));
	if (rename(tmp, path) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\" to \"%s\": %m", tmp, path)));
	if (n > 1)
		lsm_sync_dir(dir);
	pfree(text.data);
}

/* Add a line if it is not there. */
void
lsm_owner_add(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend)
{
	LsmOwner   *owners = NULL;
	LsmOwner   *all;
	int			n = lsm_keyspace_owners(keyspace_id, &owners);
	int			i;

	n = Max(n, 0);
	for (i = 0; i < n; i++)
	{
		if (RelFileLocatorEquals(owners[i].rlocator, rlocator) && owners[i].backend == backend)
			return;
	}
	all = palloc((n + 1) * sizeof(LsmOwner));
	if (n > 0)
		memcpy(all, owners, n * sizeof(LsmOwner));
	all[n].rlocator = rlocator;
	all[n].backend = backend;
	lsm_owner_write(keyspace_id, all, n + 1);
	pfree(all);
}

/* See disk.h. */
void
lsm_owner_restore(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend)
{
	char		dir[MAXPGPATH];
	char		path[MAXPGPATH];
	struct stat st;

	lsm_keyspace_dir(keyspace_id, dir);
	snprintf(path, sizeof(path), "%.900s/%s", dir, LSM_OWNER_FILE);
	if (lstat(path, &st) < 0 ? errno == ENOENT : S_ISREG(st.st_mode) && st.st_size == 0)
		lsm_owner_add(keyspace_id, rlocator, backend);
}

void
lsm_keyspace_ensure(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend)
{
	(void) lsm_keyspace_make_dir(keyspace_id, false);
	lsm_owner_add(keyspace_id, rlocator, backend);
}

static uint64
lsm_keyspace_random_id(bool temporary)
{
	uint64		id;

	do
	{
		if (!pg_strong_random(&id, sizeof(id)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random keyspace id")));
		if (temporary)
			id |= LSM_TEMPORARY_KEYSPACES;
	} while (id == 0 || (id >= LSM_TEMPORARY_KEYSPACES && !temporary));
	return id;
}

/* See disk.h. */
bool
lsm_keyspace_exists(uint64 keyspace_id)
{
	char		path[MAXPGPATH];
	struct stat st;

	lsm_keyspace_dir(keyspace_id, path);
	if (stat(path, &st) == 0)
		return true;
	if (errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", path)));
	return false;
}

/* See disk.h. */
uint64
lsm_keyspace_reserve(ProcNumber backend)
{
	for (;;)
	{
		uint64		id = lsm_keyspace_random_id(backend != INVALID_PROC_NUMBER);

		lsm_keyspace_lock(id);
		if (!lsm_keyspace_exists(id))
			return id;
		lsm_keyspace_unlock(id, ExclusiveLock);
	}
}

/* See disk.h. */
void
lsm_keyspace_make(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend,
				  bool at_commit)
{
	if (!lsm_keyspace_make_dir(keyspace_id, at_commit))
		elog(ERROR, "keyspace %016" PRIx64 " exists already", keyspace_id);
	LSM_CRASH_POINT("create_dir_made");
	lsm_owner_add(keyspace_id, rlocator, backend);
	LSM_CRASH_POINT("create_owner_written");
}

/* See disk.h. */
uint64
lsm_keyspace_new(RelFileLocator rlocator, ProcNumber backend, bool at_commit)
{
	uint64		id = lsm_keyspace_reserve(backend);

	lsm_keyspace_make(id, rlocator, backend, at_commit);
	return id;
}

/* ---- removal ---- */

/*
 * pg_basebackup does not mind that a file goes away, but ends in an error if a
 * directory does so between lstat() and opendir().  So a base backup's
 * duration is none to remove directories in; they are emptied only.  Who has
 * kept one removes it with the next one, and the sweep finds the others.
 * Directories of temporary trees no backup looks into.
 */
#define KEPT_DIRECTORIES	1024
static uint64 kept[KEPT_DIRECTORIES];
static int	nkept = 0;

/*
 * It is on its way from before its checkpoint to the end of its connection.
 * That it begins just now matters only if it comes to the directory before the
 * caller does.
 */
static bool
base_backup_runs(void)
{
	bool		runs = false;

	for (int i = 0; WalSndCtl != NULL && i < max_wal_senders && !runs; i++)
	{
		WalSnd	   *sender = &WalSndCtl->walsnds[i];

		if (sender->pid == 0)
			continue;
		SpinLockAcquire(&sender->mutex);
		runs = sender->pid != 0 && sender->state == WALSNDSTATE_BACKUP;
		SpinLockRelease(&sender->mutex);
	}
	return runs;
}

/* See disk.h. */
void
lsm_keyspace_remove_kept(void)
{
	bool		locks = IsTransactionState();

	if (nkept == 0 || base_backup_runs())
		return;
	while (nkept > 0)
	{
		uint64		id = kept[--nkept];
		char		path[MAXPGPATH];

		/* somebody makes it again; else the sweep will find it (redo is alone) */
		if (locks && !lsm_keyspace_lock_if_free(id, ExclusiveLock))
			continue;
		lsm_keyspace_dir(id, path);
		(void) rmdir(path);
		if (locks)
			lsm_keyspace_unlock(id, ExclusiveLock);
	}
}

/*
 * Failures are WARNINGs: what remains is an orphan that the sweep finds again.
 */
void
lsm_keyspace_remove(uint64 keyspace_id)
{
	bool		keep = keyspace_id < LSM_TEMPORARY_KEYSPACES && base_backup_runs();
	char		path[MAXPGPATH];
	struct stat st;

	if (lsm_file_gone_hook != NULL)
		lsm_file_gone_hook(keyspace_id, 0);
	lsm_keyspace_remove_kept();
	lsm_keyspace_dir(keyspace_id, path);
	if (stat(path, &st) < 0 && errno == ENOENT)
		return;
	(void) rmtree(path, !keep);
	if (keep && nkept < KEPT_DIRECTORIES)
		kept[nkept++] = keyspace_id;
}

/*
 * Jobs end first: what they log of their files would make the directory again
 * when it is replayed behind the record.  The record is flushed before the
 * removal: what it says will be done on a standby, too, before any change that
 * relies on it.  A crash between the two leaves an orphan.
 */
void
lsm_keyspace_remove_logged(uint64 keyspace_id)
{
	LsmWalRemove record;
	XLogRecPtr	lsn;

	lsm_control_drop(keyspace_id);
	lsm_control_wait_jobs(keyspace_id);
	record.keyspace_id = keyspace_id;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_KEYSPACE_REMOVE);
	XLogFlush(lsn);
	lsm_keyspace_remove(keyspace_id);
}
