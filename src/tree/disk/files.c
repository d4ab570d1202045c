/*-------------------------------------------------------------------------
 *
 * files.c
 *	  The files of a keyspace as far as the tree handles them whole: names,
 *	  logging their bytes, redo of that, copies, unlinking.
 *
 * A file is complete and durable before its bytes are logged, and logged
 * before the edit that publishes it.  So redo that starts amid the chunks of a
 * file (crash recovery, a backup) finds the rest of it in place, and writes
 * again what it says already.
 *
 * Nothing keeps checkpoints away meanwhile.  A restartpoint whose replay would
 * begin between two chunks makes the first ones durable (sync.c).
 *
 * No two keyspaces share a file.  We would not mind, as we never write to one
 * but what it says already.  Others write here, too: pg_rewind and pgBackRest
 * open a file that is there, empty it and write what another server has of that
 * name, or had a moment ago.  So a copied tree gets copies.  Links there are
 * all the same: of older versions, until they are parted (unshare.c), and to
 * a cluster that pg_upgrade --link has left behind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/proc.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/chunk.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"
#include "tree/disk/wal.h"

/* ---- names ---- */

void
lsm_keyspace_file_path(uint64 keyspace_id, uint64 number, bool filter, char *path)
{
	char		dir[MAXPGPATH];

	lsm_keyspace_dir(keyspace_id, dir);
	snprintf(path, MAXPGPATH, "%.900s/%06" PRIu64 ".%s", dir, number,
			 filter ? "flt" : "sst");
}

void
lsm_file_path(const LsmTree *tree, uint64 number, bool filter, char *path)
{
	lsm_keyspace_file_path(tree->keyspace_id, number, filter, path);
}

/* A filter that is being built again, beside the damaged one. */
void
lsm_filter_temporary_path(const LsmTree *tree, uint64 number, char *path)
{
	char		final[MAXPGPATH];

	lsm_file_path(tree, number, true, final);
	snprintf(path, MAXPGPATH, "%.1000s.tmp", final);
}

/* See disk.h. */
bool
lsm_file_parse(const char *name, uint64 *number, bool *filter)
{
	size_t		digits = strspn(name, "0123456789");
	char	   *end;

	if (digits < 6 || digits > 20 ||
		(strcmp(name + digits, ".sst") != 0 && strcmp(name + digits, ".flt") != 0))
		return false;
	*filter = strcmp(name + digits, ".flt") == 0;
	errno = 0;
	*number = strtou64(name, &end, 10);
	return errno == 0;
}

/* ---- logging ---- */

/*
 * WAL of files that is not flushed yet may be a quarter of WAL's buffers, and
 * no more than this
 */
#define LSM_MAX_UNFLUSHED_BYTES		(1024 * 1024)

/*
 * A process that logs a file flushes it on the way, and leaves that to nobody.
 * A file may be larger than WAL's buffers many times.  Writers would wait
 * amid their insertions for a buffer, behind whoever writes all of it out, and
 * commits behind the fsync of all of it.  So they wait for a piece at most.
 */
static void
lsm_chunk_flush(XLogRecPtr end, XLogRecPtr *flushed)
{
	uint64		most = Min((uint64) XLOGbuffers * XLOG_BLCKSZ / 4, LSM_MAX_UNFLUSHED_BYTES);

	if (end - *flushed < most)
		return;
	XLogFlush(end);
	*flushed = end;
}

static XLogRecPtr
lsm_chunk_log(LsmWalChunk *chunk, char *data, char *scratch)
{
	uint32		compressed = lsm_chunk_pack(data, chunk->bytes, scratch);

	if (compressed > 0)
		chunk->flags |= LSM_CHUNK_LZ4;
	XLogBeginInsert();
	XLogRegisterData((char *) chunk, sizeof(*chunk));
	if (compressed > 0)
		XLogRegisterData(scratch, compressed);
	else if (chunk->bytes > 0)
		XLogRegisterData(data, chunk->bytes);
	return XLogInsert(LSM_RMGR_ID, compressed > 0 ? XLOG_LSM_FILE_CHUNK_LZ4 : XLOG_LSM_FILE_CHUNK);
}

/* True: all of the file is logged. */
static bool
lsm_file_log_chunks(int elevel, int fd, const char *path, LsmWalChunk *chunk, bool filter,
					bool (*abandoned) (void))
{
	char	   *data = palloc(LSM_CHUNK_PIECE_BYTES);
	char	   *scratch = palloc(LSM_CHUNK_PIECE_BYTES);
	XLogRecPtr	flushed = GetXLogInsertRecPtr();	/* before is others' */
	bool		last = false;

	while (!last && (abandoned == NULL || !abandoned()))
	{
		ssize_t		got;

		CHECK_FOR_INTERRUPTS();
		chunk->bytes = Min(chunk->file_bytes - chunk->offset, LSM_CHUNK_PIECE_BYTES);
		last = chunk->offset + chunk->bytes == chunk->file_bytes;
		chunk->flags = (filter ? LSM_CHUNK_FILTER : 0) | (last ? LSM_CHUNK_LAST : 0);
		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_READ);
		got = pg_pread(fd, data, chunk->bytes, chunk->offset);
		pgstat_report_wait_end();
		if (got < 0)
			ereport(elevel,
					(errcode_for_file_access(),
					 errmsg("could not read file \"%s\": %m", path)));
		else if (got != chunk->bytes)
			ereport(elevel,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("could not read file \"%s\": read only %zd of %u bytes",
							path, got, chunk->bytes)));
		if (got != chunk->bytes)
		{
			last = false;
			break;
		}
		lsm_chunk_flush(lsm_chunk_log(chunk, data, scratch), &flushed);
		chunk->offset += chunk->bytes;
		LSM_CRASH_POINT("chunk_logged");
	}
	pfree(data);
	pfree(scratch);
	return last;
}

/*
 * As lsm_keyspace_log_file(); what cannot be read is reported with `elevel`,
 * and then false.
 */
static bool
lsm_keyspace_log_file_as(int elevel, uint64 keyspace_id, uint64 number, bool filter,
						 bool (*abandoned) (void))
{
	char		path[MAXPGPATH];
	LsmWalChunk chunk;
	struct stat st;
	bool		all;
	int			fd;

	lsm_keyspace_file_path(keyspace_id, number, filter, path);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0 && errno == ENOENT)
		return false;
	if (fd < 0 || fstat(fd, &st) < 0)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
		if (fd >= 0)
			CloseTransientFile(fd);
		return false;
	}

	memset(&chunk, 0, sizeof(chunk));
	chunk.keyspace_id = keyspace_id;
	chunk.number = number;
	chunk.file_bytes = st.st_size;
	all = lsm_file_log_chunks(elevel, fd, path, &chunk, filter, abandoned);
	CloseTransientFile(fd);
	return all;
}

/* See disk.h. */
bool
lsm_keyspace_log_file(uint64 keyspace_id, uint64 number, bool filter, bool (*abandoned) (void))
{
	return lsm_keyspace_log_file_as(ERROR, keyspace_id, number, filter, abandoned);
}

/* The same; that there is no such file is an error, too. */
static void
lsm_file_log_present(uint64 keyspace_id, uint64 number, bool filter)
{
	if (!lsm_keyspace_log_file(keyspace_id, number, filter, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("file " UINT64_FORMAT " of keyspace %016" PRIx64 " does not exist",
						number, keyspace_id)));
}

bool
lsm_file_needs_log(const LsmTree *tree)
{
	return lsm_tree_needs_wal(tree) && XLogIsNeeded();
}

/*
 * See disk.h.  REQUIRES: the file is complete and durable.  ERRORs if it
 * cannot be read.
 */
void
lsm_file_log(LsmTree *tree, uint64 number, bool filter)
{
	if (lsm_file_needs_log(tree))
		lsm_file_log_present(tree->keyspace_id, number, filter);
}

/* ---- redo ---- */

/*
 * The bytes of a piece of a file as they are logged, `logged_bytes` behind the
 * header: themselves, or palloc'd.  ERRORs if they are not what the header
 * says.
 */
char *
lsm_chunk_content(const LsmWalChunk *chunk, char *logged, uint32 logged_bytes)
{
	if (lsm_chunk_sound(chunk, logged_bytes))
	{
		char	   *data;

		if ((chunk->flags & LSM_CHUNK_LZ4) == 0)
			return logged;
		data = palloc(chunk->bytes);
		if (lsm_chunk_unpack(chunk, logged, logged_bytes, data))
			return data;
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("lsm file chunk record of %u bytes is not the %u bytes at " UINT64_FORMAT " of file " UINT64_FORMAT " of keyspace %016" PRIx64,
					logged_bytes, chunk->bytes, chunk->offset, chunk->number,
					chunk->keyspace_id)));
	return NULL;				/* keep compiler quiet */
}

/* For reading and writing; made if need be, with its directory. */
static int
lsm_redo_open(uint64 keyspace_id, const char *path)
{
	char		dir[MAXPGPATH];
	int			fd = OpenTransientFile(path, O_RDWR | O_CREAT | PG_BINARY);

	if (fd < 0 && errno == ENOENT)
	{
		/* the directory went away later in the WAL, or came with no backup */
		lsm_keyspace_dir(keyspace_id, dir);
		if (MakePGDirectory(LSM_DIR) == 0)
			lsm_sync_dir(".");
		if (MakePGDirectory(dir) == 0)
			lsm_sync_dir(LSM_DIR);
		fd = OpenTransientFile(path, O_RDWR | O_CREAT | PG_BINARY);
	}
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	return fd;
}

static void
lsm_redo_write(int fd, const char *path, uint64 offset, const char *data, uint32 bytes)
{
	uint32		done = 0;

	while (done < bytes)
	{
		ssize_t		put;

		errno = 0;
		put = pg_pwrite(fd, data + done, bytes - done, offset + done);
		if (put <= 0)
		{
			if (put < 0 && errno == EINTR)
				continue;
			if (errno == 0)
				errno = ENOSPC;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write file \"%s\": %m", path)));
		}
		done += put;
	}
}

/*
 * A filter file grows under another name until it is complete: readers of a
 * standby may have the one that it takes the place of.  If redo began behind
 * the first chunk and there is no file of that name, the filter is complete in
 * its place.
 */
void
lsm_file_write_chunk(uint64 keyspace_id, uint64 number, bool filter,
					 uint64 offset, const char *data, uint32 bytes,
					 bool last, uint64 file_bytes)
{
	char		dir[MAXPGPATH];
	char		final[MAXPGPATH];
	char		path[MAXPGPATH];
	bool		renamed;
	int			fd;

	lsm_keyspace_dir(keyspace_id, dir);
	lsm_keyspace_file_path(keyspace_id, number, filter, final);
	snprintf(path, sizeof(path), "%.1000s" LSM_REDO_SUFFIX, final);
	renamed = filter && (offset == 0 || access(path, F_OK) == 0);
	if (!renamed)
		strlcpy(path, final, sizeof(path));
	if (offset == 0 && unlink(path) < 0 && errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
	fd = lsm_redo_open(keyspace_id, path);
	LSM_CRASH_POINT("redo_chunk_opened");
	lsm_redo_write(fd, path, offset, data, bytes);
	if (last && ftruncate(fd, file_bytes) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not truncate file \"%s\": %m", path)));

	lsm_sync_file(fd, last ? final : path);
	if (!last)
		pg_flush_data(fd, offset, bytes);
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
	if (renamed && last && rename(path, final) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\" to \"%s\": %m", path, final)));

	/* what was loaded of the one before */
	if (renamed && last && lsm_file_gone_hook != NULL)
		lsm_file_gone_hook(keyspace_id, number);

	if (last || offset == 0)
		lsm_sync_dir(dir);
}

/* ---- copies ---- */

static void
copy_named_file(uint64 from, uint64 to, uint64 number, bool filter)
{
	char		source[MAXPGPATH];
	char		target[MAXPGPATH];
	struct stat st;

	lsm_keyspace_file_path(from, number, filter, source);
	lsm_keyspace_file_path(to, number, filter, target);
	if (filter && (stat(source, &st) < 0 || !S_ISREG(st.st_mode)))
		return;
	(void) lsm_file_copy(source, target, filter ? WARNING : ERROR);
}

static void
copy_and_log(uint64 from, uint64 to, const LsmFileMeta *files, int nfiles, bool log)
{
	char		dir[MAXPGPATH];

	for (int i = 0; i < nfiles; i++)
	{
		copy_named_file(from, to, files[i].number, false);
		LSM_CRASH_POINT("clone_begun");
		copy_named_file(from, to, files[i].number, true);
	}
	lsm_keyspace_dir(to, dir);
	lsm_sync_dir(dir);

	if (!log || !XLogIsNeeded())
		return;
	for (int i = 0; i < nfiles; i++)
	{
		lsm_file_log_present(to, files[i].number, false);
		if (files[i].filter_bytes > 0)
			(void) lsm_keyspace_log_file_as(WARNING, to, files[i].number, true, NULL);
	}
}

/*
 * Give keyspace `to` the files of `from`; durable on return, and logged like
 * new files if `log` (a standby or a restored backup cannot rely on `from`
 * being there when it replays this).  `files` is what the copy's list says: a
 * sorted file of it that is missing is an error.  A filter file that is missing
 * or cannot be read is not: a reader of the copy finds that out, and has it
 * built again.  The room that copies take is given back at an error: it may be
 * for want of room.
 */
void
lsm_keyspace_copy_files(uint64 from, uint64 to, const LsmFileMeta *files,
						int nfiles, bool log)
{
	PG_TRY();
	{
		copy_and_log(from, to, files, nfiles, log);
	}
	PG_CATCH();
	{
		for (int i = 0; i < nfiles; i++)
			lsm_keyspace_unlink_file(to, files[i].number);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* ---- removal ---- */

/* One record has this many numbers at most */
#define LSM_MAX_REMOVED		1024

/* See disk.h. */
void
lsm_files_log_removal(uint64 keyspace_id, const uint64 *numbers, int n)
{
	XLogRecPtr	lsn = InvalidXLogRecPtr;

	/* what an error, or the end of the process, has cut short */
	XLogResetInsertion();
	for (int first = 0; first < n; first += LSM_MAX_REMOVED)
	{
		LsmWalFilesRemove record = {0};

		record.keyspace_id = keyspace_id;
		record.nfiles = Min(n - first, LSM_MAX_REMOVED);
		XLogBeginInsert();
		XLogRegisterData((char *) &record, sizeof(record));
		XLogRegisterData((char *) (numbers + first), record.nfiles * sizeof(uint64));
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_FILES_REMOVE);
	}

	/*
	 * Before the files go: should the record be lost, the first load finds
	 * them here as strays, and says so again.
	 */
	if (n > 0)
		XLogFlush(lsn);
}

/* The filter of a file, if who logged it did not come to its end. */
static void
unlink_half_redone(uint64 keyspace_id, uint64 number)
{
	char		final[MAXPGPATH];
	char		path[MAXPGPATH];

	lsm_keyspace_file_path(keyspace_id, number, true, final);
	snprintf(path, sizeof(path), "%.1000s" LSM_REDO_SUFFIX, final);
	if (unlink(path) < 0 && errno != ENOENT)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
}

void
lsm_keyspace_unlink_file(uint64 keyspace_id, uint64 number)
{
	int			filter;

	if (lsm_file_gone_hook != NULL)
		lsm_file_gone_hook(keyspace_id, number);
	LSM_CRASH_POINT("unlink_before");
	for (filter = 0; filter < 2; filter++)
	{
		char		path[MAXPGPATH];

		lsm_keyspace_file_path(keyspace_id, number, filter != 0, path);
		if (unlink(path) < 0 && errno != ENOENT)
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", path)));
		if (filter == 0)
			LSM_CRASH_POINT("unlink_after_first");
	}
	if (RecoveryInProgress())
		unlink_half_redone(keyspace_id, number);
}
