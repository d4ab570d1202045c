/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  Finding and removing keyspaces that no relation names any more.
 *
 * Nothing tells an access method about DROP, TRUNCATE or REINDEX of a
 * relfilenode, nor about a creation that was rolled back.  A keyspace is an
 * orphan if
 *	- no fork listed in its owner file names it in block 0 (nor might: an
 *	  all-zero block 0 has not reached the disk yet; a temporary fork is
 *	  trusted as long as it exists), and
 *	- no main fork of any database names it in block 0 (copies made by ALTER
 *	  INDEX SET TABLESPACE and CREATE DATABASE, which we do not hear of), and
 *	- nobody is making it, and
 *	- that was so at each of at least three looks, between the first and
 *	  the last of which the redo pointer has moved twice.
 *
 * The redo pointer moves when a checkpoint begins.  Two moves after the first
 * look mean that a whole checkpoint lies between the first look and the last,
 * so that block 0 of every permanent fork there was at the first look is on
 * disk at the last: reading files instead of buffers overlooks nothing.  Where
 * nobody writes there are no further checkpoints, so the sweep asks for them.
 * Unlogged and temporary trees write their metapage through at once
 * (metapage.c).  A fork that is moved from one place to the other while we read
 * both could be missed once, but not at three looks.
 *
 * A keyspace that is being made has a directory, and no fork names it.  That
 * takes any number of checkpoints: all its files may be logged meanwhile (SET
 * TABLESPACE).  Its maker has it locked, from before there is a directory until
 * block 0 names it, in a buffer at least (keyspace.c).  A look at a keyspace
 * that is locked is none, and those before it are forgotten.  So at the first
 * look that counts block 0 was what it is.  The redo pointer is watched from
 * then on: at that look it is read behind the lock, at later ones before the
 * files are.
 *
 * When in doubt, keep: a fork or directory that cannot be read (a WARNING)
 * ends the pass without removal, since it may name any keyspace, and so does
 * any error; a keyspace whose owner file cannot be read is none of ours.
 *
 * Runs in the worker, which has no database: reads files only.  What is
 * remembered between passes is local; after a restart it begins anew.
 *
 * Locking: the keyspace's lock, if it is free, for a look and for the removal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_tablespace_d.h"
#include "common/controldata_utils.h"
#include "common/hashfn.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "postmaster/bgwriter.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "tree/control/clock.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"

/*
 * A pass opens a file for each tree.  With very many trees passes become rarer,
 * so that they take half a percent of a processor; removal waits for two
 * checkpoints in any case.  Tests wait for removal, on slow machines, too.
 */
#ifdef LSM_TESTING
#define LSM_SWEEP_INTERVAL_MS	2000
#define LSM_SWEEP_REST			10
#else
#define LSM_SWEEP_INTERVAL_MS	10000
#define LSM_SWEEP_REST			200
#endif
#define LSM_SWEEP_MAX_INTERVAL_MS	300000

/* Looks, first and last included */
#define LSM_SWEEP_LOOKS			3
/* Moves of the redo pointer */
#define LSM_SWEEP_MOVES			2

/* A keyspace that looked like an orphan at every look so far */
typedef struct LsmSuspect
{
	uint64		keyspace_id;	/* key */
	XLogRecPtr	redo;			/* as of the last look */
	int			moves;			/* of the redo pointer since the first */
	int			looks;
	uint64		pass;			/* last pass that found it so */
} LsmSuspect;

static HTAB *suspects = NULL;	/* TopMemoryContext */
static uint64 sweep_pass = 0;
static TimestampTz sweep_next = 0;

typedef enum LsmForkState
{
	LSM_FORK_GONE,				/* missing or empty */
	LSM_FORK_UNSURE,			/* block 0 not written yet */
	LSM_FORK_UNREADABLE,
	LSM_FORK_OTHER,				/* not an lsm tree */
	LSM_FORK_TREE				/* names a keyspace */
} LsmForkState;

static HTAB *
lsm_id_table(const char *name, Size entry_bytes, MemoryContext context)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = entry_bytes;
	ctl.hcxt = context;
	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* WARNING about what errno says.  The same again after a while only. */
static void
lsm_sweep_unreadable(const char *path)
{
	int			save_errno = errno;

	if (!lsm_warn_about_file(hash_bytes_extended((const unsigned char *) path, strlen(path), 0), 0))
		return;
	errno = save_errno;
	ereport(WARNING,
			(errcode_for_file_access(),
			 errmsg("could not read \"%s\": %m", path),
			 errdetail("Files of dropped LSM trees are not removed as long as this is so.")));
}

/* So often a block is read that looks damaged */
#define DAMAGED_TRIES	5

/* What is read of block 0 */
typedef union ForkHead
{
	char		data[MAXALIGN(SizeOfPageHeaderData) + LSM_META_BYTES];
	PageHeaderData header;
	int64		align;
} ForkHead;

/*
 * Is it a damaged metapage, or one that is being written?  It might name any
 * keyspace: the one that is its own must not be given up for that.  Of the magic
 * number, one bit may be wrong.
 */
static bool
lsm_sweep_is_damaged(const ForkHead *head)
{
	const LsmMetaPage *meta = (const LsmMetaPage *)
		(head->data + MAXALIGN(SizeOfPageHeaderData));

	if (meta->magic != LSM_META_MAGIC)
		return pg_popcount32(meta->magic ^ LSM_META_MAGIC) == 1;
	return !lsm_meta_intact((const char *) meta);
}

/* What block 0 of a file in this database says. */
static LsmForkState
lsm_sweep_read_fork(const char *path, Oid dboid, uint64 *keyspace_id)
{
	ForkHead	head;
	LsmMetaPage meta;
	ssize_t		got;
	int			fd;

	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0)
	{
		if (errno == ENOENT || errno == ENOTDIR)
			return LSM_FORK_GONE;
		lsm_sweep_unreadable(path);
		return LSM_FORK_UNREADABLE;
	}
	for (int tries = 0; tries < DAMAGED_TRIES; tries++)
	{
		got = pg_pread(fd, head.data, sizeof(head.data), 0);
		if (got < (ssize_t) sizeof(head.data) || head.header.pd_upper == 0 ||
			!lsm_sweep_is_damaged(&head))
			break;
		if (tries + 1 == DAMAGED_TRIES)
		{
			got = -1;
			errno = EIO;
		}
		else
			pg_usleep(1000L);	/* it may be being written */
	}
	if (got < 0 && errno != EISDIR)
	{
		lsm_sweep_unreadable(path);
		CloseTransientFile(fd);
		return LSM_FORK_UNREADABLE;
	}
	CloseTransientFile(fd);
	if (got < 0)
		return LSM_FORK_OTHER;

	if (got == 0)
		return LSM_FORK_GONE;
	if (got < sizeof(head.data) || head.header.pd_upper == 0)
		return LSM_FORK_UNSURE;
	memcpy(&meta, head.data + MAXALIGN(SizeOfPageHeaderData), sizeof(meta));
	if (meta.magic != LSM_META_MAGIC)
		return LSM_FORK_OTHER;
	*keyspace_id = lsm_meta_keyspace(&meta, dboid);
	return LSM_FORK_TREE;
}

/*
 * A tablespace has its directory as long as it is in pg_tblspc.  If it has not,
 * its file system is not mounted, or is another one: what it holds is not known,
 * and nobody's to give up.
 */
static bool
lsm_sweep_tablespace_is_away(Oid spcoid)
{
	char		link[MAXPGPATH];
	char		path[MAXPGPATH];
	struct stat st;

	if (spcoid == DEFAULTTABLESPACE_OID || spcoid == GLOBALTABLESPACE_OID)
		return false;
	snprintf(link, sizeof(link), "pg_tblspc/%u", spcoid);
	snprintf(path, sizeof(path), "%s/%s", link, TABLESPACE_VERSION_DIRECTORY);
	return lstat(link, &st) == 0 && stat(path, &st) != 0;
}

/* One of the forks the owner file lists names the keyspace, or might. */
bool
lsm_sweep_owner_alive(uint64 keyspace_id)
{
	LsmOwner   *owners = NULL;
	int			n = lsm_keyspace_owners(keyspace_id, &owners);
	int			i;

	if (n == LSM_OWNERS_UNREADABLE)
		return true;
	for (i = 0; i < n; i++)
	{
		char	   *path = lsm_relpath(owners[i].rlocator, owners[i].backend,
									   MAIN_FORKNUM);
		uint64		named = 0;
		LsmForkState state = lsm_sweep_read_fork(path, owners[i].rlocator.dbOid, &named);

		if (state == LSM_FORK_GONE && lsm_sweep_tablespace_is_away(owners[i].rlocator.spcOid))
			state = LSM_FORK_UNREADABLE;

		pfree(path);
		if (state == LSM_FORK_UNSURE || state == LSM_FORK_UNREADABLE ||
			(state == LSM_FORK_TREE && named == keyspace_id) ||
			(state != LSM_FORK_GONE && owners[i].backend != INVALID_PROC_NUMBER))
			return true;
	}
	return false;
}

/* ---- the look at every relation ---- */

/*
 * First segment of a main fork: "16384", or "t3_16384" of a temporary relation
 */
static bool
lsm_sweep_is_main_fork(const char *name)
{
	const char *digits = "0123456789";
	size_t		n;

	if (name[0] == 't')
	{
		n = strspn(name + 1, digits);
		if (n == 0 || name[1 + n] != '_')
			return false;
		name += n + 2;
	}
	n = strspn(name, digits);
	return n > 0 && name[n] == '\0';
}

static bool
lsm_sweep_is_number(const char *name)
{
	return name[0] != '\0' && strspn(name, "0123456789") == strlen(name);
}

/* See disk.h. */
bool
lsm_sweep_may_be_tree(const char *name, const char *path, Oid dboid)
{
	uint64		id;
	LsmForkState state;

	if (!lsm_sweep_is_number(name))
		return false;
	state = lsm_sweep_read_fork(path, dboid, &id);
	return state != LSM_FORK_GONE && state != LSM_FORK_OTHER;
}

/* False: it cannot be read.  A directory that is gone by now has no entries. */
static bool
lsm_sweep_open_dir(const char *path, DIR **dir)
{
	*dir = AllocateDir(path);
	if (*dir != NULL || errno == ENOENT || errno == ENOTDIR)
		return true;
	lsm_sweep_unreadable(path);
	return false;
}

/* The looks return false if something could not be read. */
static bool
lsm_sweep_scan_database(const char *path, Oid dboid, HTAB *named)
{
	DIR		   *dir;
	struct dirent *de;
	bool		complete = lsm_sweep_open_dir(path, &dir);

	while (dir != NULL && (de = ReadDir(dir, path)) != NULL)
	{
		char		file[MAXPGPATH];
		uint64		id = 0;
		LsmForkState state;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_sweep_is_main_fork(de->d_name))
			continue;
		snprintf(file, sizeof(file), "%.700s/%.300s", path, de->d_name);
		state = lsm_sweep_read_fork(file, dboid, &id);
		if (state == LSM_FORK_TREE)
			hash_search(named, &id, HASH_ENTER, NULL);
		else if (state == LSM_FORK_UNREADABLE)
			complete = false;
	}
	FreeDir(dir);
	return complete;
}

/* All databases in one tablespace's directory */
static bool
lsm_sweep_scan_tablespace(const char *path, HTAB *named)
{
	DIR		   *dir;
	struct dirent *de;
	bool		complete = lsm_sweep_open_dir(path, &dir);

	while (dir != NULL && (de = ReadDir(dir, path)) != NULL)
	{
		char		database[MAXPGPATH];

		if (!lsm_sweep_is_number(de->d_name))
			continue;
		snprintf(database, sizeof(database), "%.700s/%.300s", path, de->d_name);
		complete &= lsm_sweep_scan_database(database, atooid(de->d_name), named);
	}
	FreeDir(dir);
	return complete;
}

/* DROP TABLESPACE removes the directory, and then the link. */
#define DROP_TABLESPACE_US	100000

/* False: it is away. */
static bool
lsm_sweep_tablespace_there(Oid spcoid, const char *path)
{
	if (!lsm_sweep_tablespace_is_away(spcoid))
		return true;
	LSM_NAP(DROP_TABLESPACE_US, "LsmSweep");
	if (!lsm_sweep_tablespace_is_away(spcoid))
		return true;
	errno = ENOENT;
	lsm_sweep_unreadable(path);
	return false;
}

/* See disk.h. */
HTAB *
lsm_sweep_scan_cluster(void)
{
	HTAB	   *named = lsm_id_table("lsm named keyspaces", sizeof(uint64),
									 CurrentMemoryContext);
	DIR		   *dir;
	struct dirent *de;
	bool		complete;

	complete = lsm_sweep_scan_tablespace("base", named);
	complete &= lsm_sweep_open_dir("pg_tblspc", &dir);
	while (dir != NULL && (de = ReadDir(dir, "pg_tblspc")) != NULL)
	{
		char		path[MAXPGPATH];

		if (!lsm_sweep_is_number(de->d_name))
			continue;
		snprintf(path, sizeof(path), "pg_tblspc/%.300s/%s", de->d_name,
				 TABLESPACE_VERSION_DIRECTORY);
		complete &= lsm_sweep_tablespace_there(atooid(de->d_name), path) &&
			lsm_sweep_scan_tablespace(path, named);
	}
	FreeDir(dir);
	if (complete)
		return named;
	hash_destroy(named);
	return NULL;
}

/* ---- passes ---- */

/* Keyspaces without a living owner; palloc'd. */
static uint64 *
lsm_sweep_list(int *n)
{
	int			room = 16;
	uint64	   *ids = palloc(room * sizeof(uint64));
	DIR		   *dir;
	struct dirent *de;

	*n = 0;
	(void) lsm_sweep_open_dir(LSM_DIR, &dir);
	while (dir != NULL && (de = ReadDir(dir, LSM_DIR)) != NULL)
	{
		uint64		id;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_keyspace_parse(de->d_name, &id) || lsm_sweep_owner_alive(id) ||
			lsm_control_busy(id))
			continue;
		if (*n == room)
		{
			room *= 2;
			ids = repalloc_huge(ids, room * sizeof(uint64));
		}
		ids[(*n)++] = id;
	}
	FreeDir(dir);
	return ids;
}

/*
 * Has nothing been logged since the record of the last checkpoint?  Then
 * CreateCheckPoint() does nothing, unless it is forced to.  (What was logged
 * between that checkpoint's redo pointer and its record may not be on disk.)
 */
static bool
lsm_sweep_log_rests(void)
{
	XLogRecPtr last = GetLastImportantRecPtr(); /* before what it is compared with */
	ControlFileData *control;
	bool crc_ok;
	bool rests;

	LWLockAcquire(ControlFileLock, LW_SHARED);
	control = get_controlfile(DataDir, &crc_ok);
	LWLockRelease(ControlFileLock);
	rests = crc_ok && control->checkPoint == last;
	pfree(control);
	return rests;
}

/* Keyspaces wait for the redo pointer to move, which it will not do by itself. */
static bool
lsm_sweep_waits(void)
{
	HASH_SEQ_STATUS scan;
	LsmSuspect *suspect;
	bool		waits = false;

	hash_seq_init(&scan, suspects);
	while ((suspect = hash_seq_search(&scan)) != NULL)
		waits |= suspect->moves < LSM_SWEEP_MOVES;
	return waits && lsm_sweep_log_rests();
}

/*
 * Note that the keyspace looks like an orphan; true if often enough.  `redo`:
 * from before the look.  REQUIRES: the keyspace is locked.
 */
static bool
lsm_sweep_suspect(uint64 id, XLogRecPtr redo)
{
	LsmSuspect *suspect;
	bool		found;

	suspect = hash_search(suspects, &id, HASH_ENTER, &found);
	if (!found)
	{
		/* a checkpoint that began amid the look may know less than we do */
		suspect->redo = GetRedoRecPtr();
		suspect->moves = 0;
		suspect->looks = 0;
	}
	else if (redo > suspect->redo)
	{
		suspect->redo = redo;
		suspect->moves++;
	}
	suspect->looks++;
	suspect->pass = sweep_pass;
	return suspect->looks >= LSM_SWEEP_LOOKS && suspect->moves >= LSM_SWEEP_MOVES;
}

/*
 * One look at a keyspace that no fork on disk names; it is removed if that was
 * the last.
 */
static void
lsm_sweep_look(uint64 id, XLogRecPtr redo)
{
	if (!lsm_keyspace_lock_if_free(id, ExclusiveLock))
		return;

	/* a database of that OID may have been copied since the files were read */
	if (lsm_sweep_suspect(id, redo) && !lsm_sweep_owner_alive(id))
	{
		LSM_CRASH_POINT("sweep_before_remove");
		lsm_keyspace_remove_logged(id);
		ereport(DEBUG1,
				(errmsg_internal("removed orphaned keyspace %016" PRIx64, id)));
		LSM_CRASH_POINT("sweep_after_remove");

		/*
		 * what could not be removed is tried again after two more checkpoints
		 */
		(void) hash_search(suspects, &id, HASH_REMOVE, NULL);
	}
	lsm_keyspace_unlock(id, ExclusiveLock);
}

/* Those that no longer look like orphans, or are gone, or are being made. */
static void
lsm_sweep_clear_suspects(void)
{
	HASH_SEQ_STATUS scan;
	LsmSuspect *suspect;

	hash_seq_init(&scan, suspects);
	while ((suspect = hash_seq_search(&scan)) != NULL)
	{
		if (suspect->pass != sweep_pass)
			hash_search(suspects, &suspect->keyspace_id, HASH_REMOVE, NULL);
	}
}

/* Of this process, so far */
static long
lsm_sweep_cpu_ms(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000L +
		(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/*
 * When the next pass may begin, this one having taken so much of a processor.
 * Time counts for nothing: a pass that has waited for a slow disk, or removed
 * much, need not rest for it.
 */
static TimestampTz
lsm_sweep_after(long cpu_ms)
{
	long		ms = Min(cpu_ms, LSM_SWEEP_MAX_INTERVAL_MS / LSM_SWEEP_REST) * LSM_SWEEP_REST;

	return TimestampTzPlusMilliseconds(lsm_monotonic_now(), Max(ms, LSM_SWEEP_INTERVAL_MS));
}

/*
 * One pass, at most every LSM_SWEEP_INTERVAL_MS.
 */
void
lsm_sweep_orphans(void)
{
	TimestampTz now = lsm_monotonic_now();
	long		begin_cpu_ms;
	MemoryContext context;
	MemoryContext old;
	XLogRecPtr	redo;
	uint64	   *ids;
	HTAB	   *named = NULL;
	int			n;
	int			i;

	if (now < sweep_next || RecoveryInProgress())
		return;
	sweep_next = TimestampTzPlusMilliseconds(now, LSM_SWEEP_INTERVAL_MS);
	begin_cpu_ms = lsm_sweep_cpu_ms();
	if (suspects == NULL)
		suspects = lsm_id_table("lsm suspects", sizeof(LsmSuspect), TopMemoryContext);

	context = AllocSetContextCreate(CurrentMemoryContext, "lsm sweep",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	sweep_pass++;

	redo = GetRedoRecPtr();
	ids = lsm_sweep_list(&n);
	if (n > 0)
		named = lsm_sweep_scan_cluster();
	for (i = 0; i < n && named != NULL; i++)
	{
		if (hash_search(named, &ids[i], HASH_FIND, NULL) == NULL)
			lsm_sweep_look(ids[i], redo);
	}
	lsm_sweep_clear_suspects();
	if (lsm_sweep_waits())
		RequestCheckpoint(CHECKPOINT_FORCE);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	sweep_next = lsm_sweep_after(lsm_sweep_cpu_ms() - begin_cpu_ms);
}
