/*-------------------------------------------------------------------------
 *
 * sync.c
 *	  What was written under pg_lsm becomes durable.
 *
 * At once, but for redo, which leaves it to the next restartpoint, as it does
 * with PostgreSQL's own files.  Until then replay begins before the records that
 * the files come from, and writes them again.  So a file is synced once however
 * many records are about it, and not at all if a later one removes it.
 *
 * Another process makes a restartpoint, and does not ask us.  It makes it at
 * the last checkpoint record that the startup process has replayed.  So what is
 * owed is settled before that record is: RM_XLOG_ID's redo is wrapped, for want
 * of a hook.  After recovery checkpoints are of WAL behind its end, so what is
 * owed then is settled before that.
 *
 * No locks: what is owed is the startup process's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/rmgr.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_control.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/hsearch.h"

#include "sst/sst.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/wal.h"

/* This many files at most are owed: a promotion waits for them. */
#define LSM_OWED_MAX		4096

/* All names below LSM_DIR are shorter. */
#define LSM_OWED_PATH_BYTES	96

typedef struct Owed
{
	char		path[LSM_OWED_PATH_BYTES];	/* hash key */
	bool		dir;
} Owed;

static HTAB *owed = NULL;		/* of Owed; NULL: nothing is put off */
static void (*xlog_redo_next) (XLogReaderState *record) = NULL;

static void
show_sync(bool begins)
{
	if (begins)
		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_SYNC);
	else
		pgstat_report_wait_end();
}

void
lsm_sync_init(void)
{
	lsm_sst_sync_hook = show_sync;
}

/* pg_fsync() that pg_stat_activity shows */
static int
sync_fd(int fd)
{
	int			result;

	show_sync(true);
	result = pg_fsync(fd);
	show_sync(false);
	return result;
}

/* ---- what is owed ---- */

/* A file that is gone was removed by a later record: nothing is owed. */
static int
open_owed(const Owed *it)
{
	int			fd = OpenTransientFile(it->path, (it->dir ? O_RDONLY : O_RDWR) | PG_BINARY);

	if (fd < 0 && errno != ENOENT)
		ereport(data_sync_elevel(ERROR),
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", it->path)));
	return fd;
}

/* Written out, without waiting: the kernel may do that for all of them together. */
static void
begin_writing(void)
{
	HASH_SEQ_STATUS scan;
	Owed	   *it;

	hash_seq_init(&scan, owed);
	while ((it = hash_seq_search(&scan)) != NULL)
	{
		struct stat st;
		int			fd = it->dir ? -1 : open_owed(it);

		if (fd < 0)
			continue;
		if (fstat(fd, &st) == 0 && st.st_size > 0)
			pg_flush_data(fd, 0, st.st_size);
		CloseTransientFile(fd);
	}
}

/*
 * Files first, then the directories that name them.  Some file systems cannot
 * sync directories, as fsync_fname_ext() has it.
 */
static void
sync_owed(bool dirs)
{
	HASH_SEQ_STATUS scan;
	Owed	   *it;

	hash_seq_init(&scan, owed);
	while ((it = hash_seq_search(&scan)) != NULL)
	{
		int			fd;

		if (it->dir != dirs)
			continue;
		fd = open_owed(it);
		if (fd >= 0)
		{
			if (sync_fd(fd) != 0 && !(dirs && (errno == EBADF || errno == EINVAL)))
				ereport(data_sync_elevel(ERROR),
						(errcode_for_file_access(),
						 errmsg("could not fsync file \"%s\": %m", it->path)));
			CloseTransientFile(fd);
		}
		(void) hash_search(owed, it->path, HASH_REMOVE, NULL);
	}
}

static void
settle(void)
{
	if (owed == NULL || hash_get_num_entries(owed) == 0)
		return;
	if (enableFsync)
		begin_writing();
	sync_owed(false);
	LSM_CRASH_POINT("redo_sync_files");
	sync_owed(true);
	Assert(hash_get_num_entries(owed) == 0);
}

static void
owe(const char *path, bool dir)
{
	Owed	   *it;
	bool		found;

	Assert(strlen(path) < LSM_OWED_PATH_BYTES);
	if (hash_get_num_entries(owed) >= LSM_OWED_MAX)
		settle();
	it = hash_search(owed, path, HASH_ENTER, &found);
	it->dir = dir;
}

/* ---- for all ---- */

/* See disk.h. */
void
lsm_sync_file(int fd, const char *path)
{
	if (owed != NULL)
		owe(path, false);
	else if (sync_fd(fd) != 0)
		ereport(data_sync_elevel(ERROR),
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", path)));
}

/* See disk.h. */
void
lsm_sync_dir(const char *path)
{
	if (owed != NULL)
		owe(path, true);
	else
		fsync_fname(path, true);
}

/* ---- redo ---- */

static void
xlog_redo_settled(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (info == XLOG_CHECKPOINT_ONLINE || info == XLOG_CHECKPOINT_SHUTDOWN)
		settle();
	xlog_redo_next(record);
}

/* See wal.h. */
void
lsm_sync_rmgr_register(void)
{
	xlog_redo_next = RmgrTable[RM_XLOG_ID].rm_redo;
	RmgrTable[RM_XLOG_ID].rm_redo = xlog_redo_settled;
}

/* See wal.h. */
void
lsm_sync_redo_begins(void)
{
	HASHCTL		ctl = {.keysize = LSM_OWED_PATH_BYTES,.entrysize = sizeof(Owed)};

	owed = hash_create("lsm files to be synced", 64, &ctl, HASH_ELEM | HASH_STRINGS);

	/*
	 * What an earlier redo has made is not made again.  After a crash core has
	 * synced all (SyncDataDirectory), but not after a shutdown.
	 */
	owe(LSM_DIR, true);
	owe(".", true);
}

/* See wal.h. */
void
lsm_sync_redo_ends(void)
{
	settle();
	hash_destroy(owed);
	owed = NULL;
}
