/*-------------------------------------------------------------------------
 *
 * unshare.c
 *	  Files that two keyspaces share are parted.
 *
 * What writes here and is not PostgreSQL must not change one tree by writing to
 * another's file (files.c).  Version 1.0 gave copied trees hard links.  One worker
 * looks for them once in its life, and gives all but one of the keyspaces that
 * share a file a copy under the same name.
 *
 * Links that lead out of pg_lsm are none of ours: pg_upgrade --link makes them,
 * and the cluster at their other end is not to be started again.
 *
 * The copy is durable before it is renamed to where the file is.  Its bytes are
 * the same, so a process that has the file mapped goes on with that, and WAL
 * need not know.  From then on the other keyspace does not empty a file that it
 * removes (lsm_control_note_parted).  What a crash leaves is a stray.
 *
 * Locking: the keyspace's lock, exclusive and if it is free, for a file: who
 * unlinks what edits took out waits, and a keyspace that is made again under a
 * dropped one's id.  A process that ends unlinks without it.  If it does so just
 * before the renaming, the file comes back as a stray, for the next load.  In
 * recovery nothing is parted: redo writes to files piece by piece.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "tree/control/clock.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"

/* Until the next look, if a file could not be parted at this one */
#ifdef LSM_TESTING
#define AGAIN_MS		2000
#else
#define AGAIN_MS		60000
#endif

/* This part of the file system stays free: WAL may be there, too. */
#define ROOM_LEFT		10

typedef struct Inode
{
	dev_t		device;
	ino_t		number;
} Inode;

typedef struct SharedFile
{
	uint64		keyspace_id;
	uint64		number;
	bool		filter;
} SharedFile;

static MemoryContext unshare_context = NULL;
static List *shared = NIL;		/* of SharedFile: those that get copies */
static bool look_due = true;	/* or a file was left as it is */
static TimestampTz next_look = 0;

/* The file, if one that we have met before is the same. */
static void
note_shared(uint64 keyspace_id, const char *dir, const char *name, HTAB *inodes)
{
	SharedFile	file = {.keyspace_id = keyspace_id};
	char		path[MAXPGPATH];
	struct stat st;
	Inode		inode;
	bool		found;

	if (!lsm_file_parse(name, &file.number, &file.filter))
		return;
	snprintf(path, sizeof(path), "%.700s/%.300s", dir, name);
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink == 1)
		return;
	memset(&inode, 0, sizeof(inode));
	inode.device = st.st_dev;
	inode.number = st.st_ino;
	(void) hash_search(inodes, &inode, HASH_ENTER, &found);
	if (found)
	{
		SharedFile *noted = palloc(sizeof(SharedFile));

		*noted = file;
		shared = lappend(shared, noted);
	}
}

static void
look_into_keyspace(uint64 keyspace_id, HTAB *inodes)
{
	char		path[MAXPGPATH];
	DIR		   *dir;
	struct dirent *de;

	lsm_keyspace_dir(keyspace_id, path);
	dir = AllocateDir(path);
	while (dir != NULL && (de = ReadDirExtended(dir, path, LOG)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		note_shared(keyspace_id, path, de->d_name, inodes);
	}
	FreeDir(dir);
}

static void
look_for_shared(void)
{
	HASHCTL		ctl = {.keysize = sizeof(Inode),.entrysize = sizeof(Inode)};
	HTAB	   *inodes;
	DIR		   *dir;
	struct dirent *de;
	MemoryContext old;

	if (unshare_context == NULL)
		unshare_context = AllocSetContextCreate(TopMemoryContext, "lsm shared files",
												ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(unshare_context);
	shared = NIL;
	old = MemoryContextSwitchTo(unshare_context);
	ctl.hcxt = unshare_context;
	inodes = hash_create("lsm inodes", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	dir = AllocateDir(LSM_DIR);
	while (dir != NULL && (de = ReadDirExtended(dir, LSM_DIR, LOG)) != NULL)
	{
		uint64		id;

		if (lsm_keyspace_parse(de->d_name, &id))
			look_into_keyspace(id, inodes);
	}
	FreeDir(dir);
	hash_destroy(inodes);
	MemoryContextSwitchTo(old);
}

/* WARNING if not, once in a while. */
static bool
there_is_room(const char *path, uint64 bytes)
{
	struct statvfs fs;

	if (statvfs(path, &fs) != 0 ||
		(uint64) fs.f_bavail * fs.f_frsize >= bytes + (uint64) fs.f_blocks * fs.f_frsize / ROOM_LEFT)
		return true;
	if (lsm_warn_about_file(0, 0))
		ereport(WARNING,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("file \"%s\" is shared with another LSM tree, and there is no room for a copy", path),
				 errdetail("A tenth of the file system is to stay free."),
				 errhint("Do not use pg_rewind on this data directory, nor restore a backup into it, before it has copies.")));
	return false;
}

/* REQUIRES: the keyspace is locked.  True: it is no more shared. */
static bool
part_locked(const SharedFile *file)
{
	char		path[MAXPGPATH];
	char		copy[MAXPGPATH];
	char		dir[MAXPGPATH];
	struct stat st;
	struct stat now;
	bool		copied;

	lsm_keyspace_file_path(file->keyspace_id, file->number, file->filter, path);
	if (stat(path, &st) != 0 || st.st_nlink == 1)
		return true;
	if (!there_is_room(path, st.st_size))
		return false;
	snprintf(copy, sizeof(copy), "%.1000s" LSM_COPY_SUFFIX, path);
	(void) unlink(copy);
	PG_TRY();
	{
		copied = lsm_file_copy(path, copy, WARNING);
	}
	PG_CATCH();
	{
		(void) unlink(copy);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!copied)
		return false;
	LSM_CRASH_POINT("unshare_copied");

	/* gone, or a filter that was built again */
	if (stat(path, &now) != 0 || now.st_ino != st.st_ino)
	{
		(void) unlink(copy);
		return true;
	}
	lsm_control_note_parted();
	if (rename(copy, path) != 0)
		return false;			/* a load took the copy for a stray */
	LSM_CRASH_POINT("unshare_renamed");
	lsm_keyspace_dir(file->keyspace_id, dir);
	lsm_sync_dir(dir);
	return true;
}

/* See disk.h. */
bool
lsm_unshare_one_file(void)
{
	SharedFile	file;
	bool		was_due;

	if (RecoveryInProgress())
		return false;
	if (shared == NIL)
	{
		TimestampTz now;

		if (!look_due || (now = lsm_monotonic_now()) < next_look)
			return false;
		next_look = TimestampTzPlusMilliseconds(now, AGAIN_MS);
		look_for_shared();
		look_due = false;
		if (shared == NIL)
			return false;
	}
	file = *(SharedFile *) llast(shared);
	shared = list_delete_last(shared);
	was_due = look_due;
	look_due = true;			/* should it fail */
	if (lsm_keyspace_lock_if_free(file.keyspace_id, ExclusiveLock))
	{
		if (part_locked(&file))
			look_due = was_due;
		lsm_keyspace_unlock(file.keyspace_id, ExclusiveLock);
	}
	return true;
}
