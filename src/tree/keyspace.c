/*-------------------------------------------------------------------------
 *
 * keyspace.c
 *	  Keyspaces: a directory pg_lsm/<id> with the sorted files of one tree, and
 *	  the metapage that names it.  Creation, reset, copy, change of owner.
 *
 * Order of creation: directory, owner file (both durable), then the record
 * KEYSPACE_CREATE with the metapage.  A crash or checkpoint in between leaves
 * a directory that no metapage names: the sweep's business.  A metapage
 * that names a keyspace without a directory cannot come about, since the
 * directory was durable before the record existed.
 *
 * The owner file lists forks that may name the keyspace, one per line:
 * "<database> <tablespace> <relfilenode> <backend>".  It is a hint that
 * spares the sweep the look at every relation, not the truth: ALTER INDEX SET
 * TABLESPACE and CREATE DATABASE copy forks without asking anyone.
 *
 * A keyspace belongs to one fork.  A copy made inside a transaction that can still roll back gets
 * a keyspace of its own whose files are hard links (sorted
 * files are immutable): if both forks shared one, edits of the new one would
 * unlink files that the old one, back after a rollback, still names.
 *
 * Locking: everything here is done by whoever has the relation to himself,
 * but for lsm_meta_adopt(), which takes the relation's page lock (a heavyweight
 * lock, of page 0), and lsm_meta_assign(), which decides races by the metapage's
 * content lock.  No file I/O under an LWLock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "tree/manifest.h"
#include "tree/tree_private.h"
#include "tree/wal.h"

#define LSM_OWNER_FILE		"owner"
#define LSM_OWNER_MAX_BYTES	65536

/* ---- names ---- */

void
lsm_keyspace_dir(uint64 keyspace_id, char *path)
{
	snprintf(path, MAXPGPATH, "%s/%016" PRIx64, LSM_DIR, keyspace_id);
}

bool
lsm_keyspace_parse(const char *name, uint64 *keyspace_id)
{
	char	   *end;

	if (strlen(name) != 16 || strspn(name, "0123456789abcdef") != 16)
		return false;
	*keyspace_id = strtou64(name, &end, 16);
	return *keyspace_id != 0;
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

/*
 * False if the keyspace's directory is there already.  The directory itself is
 * durable on return, its content is not.
 */
static bool
lsm_keyspace_make_dir(uint64 keyspace_id)
{
	char		path[MAXPGPATH];

	if (lsm_make_directory(LSM_DIR))
		fsync_fname(".", true);
	lsm_keyspace_dir(keyspace_id, path);
	if (!lsm_make_directory(path))
		return false;
	fsync_fname(LSM_DIR, true);
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

/* See tree_private.h. */
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

/*
 * Replace the owner file, durably.
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
	snprintf(tmp, sizeof(tmp), "%.900s/%s.tmp.%d", dir, LSM_OWNER_FILE, MyProcPid);
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
	if (pg_fsync(fd) != 0)
		ereport(data_sync_elevel(ERROR),
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", tmp)));
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", tmp)));
	(void) durable_rename(tmp, path, ERROR);
	pfree(text.data);
}

/* Add a line if it is not there. */
static void
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

void
lsm_keyspace_ensure(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend)
{
	(void) lsm_keyspace_make_dir(keyspace_id);
	lsm_owner_add(keyspace_id, rlocator, backend);
}

/* A directory with an owner file under a new random id; durable. */
static uint64
lsm_keyspace_new(RelFileLocator rlocator, ProcNumber backend)
{
	uint64		id;

	do
	{
		do
		{
			if (!pg_strong_random(&id, sizeof(id)))
				ereport(ERROR,
						(errcode(ERRCODE_INTERNAL_ERROR),
						 errmsg("could not generate a random keyspace id")));
		} while (id == 0);
	} while (!lsm_keyspace_make_dir(id));
	LSM_CRASH_POINT("create_dir_made");
	lsm_owner_add(id, rlocator, backend);
	LSM_CRASH_POINT("create_owner_written");
	return id;
}

/* ---- removal ---- */

/*
 * Failures are WARNINGs: what remains is an orphan that the sweep finds again.
 */
void
lsm_keyspace_remove(uint64 keyspace_id)
{
	char		path[MAXPGPATH];
	struct stat st;

	lsm_elastic_forget(keyspace_id, 0);
	lsm_keyspace_dir(keyspace_id, path);
	if (stat(path, &st) < 0 && errno == ENOENT)
		return;
	(void) rmtree(path, true);
}

/*
 * The record is flushed first: what it says will be done on a standby, too,
 * before any change that relies on it.  A crash between the two leaves an orphan.
 */
void
lsm_keyspace_remove_logged(uint64 keyspace_id)
{
	LsmWalRemove record;
	XLogRecPtr	lsn;

	record.keyspace_id = keyspace_id;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_KEYSPACE_REMOVE);
	XLogFlush(lsn);
	lsm_control_drop(keyspace_id);
	lsm_control_wait_jobs(keyspace_id);
	lsm_keyspace_remove(keyspace_id);
}

/* ---- creation ---- */

static void
lsm_meta_template(LsmMetaPage *meta, RelFileLocator rlocator, LsmKind kind, uint64 keyspace_id)
{
	memset(meta, 0, sizeof(*meta));
	meta->magic = LSM_META_MAGIC;
	meta->format_version = LSM_META_VERSION;
	meta->keyspace_id = keyspace_id;
	meta->dboid = rlocator.dbOid;
	meta->spcoid = rlocator.spcOid;
	meta->relfilenode = rlocator.relNumber;
	meta->kind = kind;
	meta->seq_limit = 1;
	meta->next_file = 1;
	meta->version_no = 1;
	meta->manifest_id = 1;
	meta->manifest_root = InvalidBlockNumber;
	meta->manifest_tail = InvalidBlockNumber;
}

/*
 * Log the metapage together with the keyspace it names.  REQUIRES: critical
 * section; `buffer` invalid: without metapage.
 */
static void
lsm_keyspace_log(uint8 info, uint64 keyspace_id, RelFileLocator rlocator,
				 ProcNumber backend, Buffer buffer, const LsmMetaPage *meta)
{
	LsmWalKeyspace record;
	XLogRecPtr	lsn;

	memset(&record, 0, sizeof(record));
	record.keyspace_id = keyspace_id;
	record.rlocator = rlocator;
	record.backend = backend;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	if (BufferIsValid(buffer))
	{
		XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT | REGBUF_STANDARD);
		XLogRegisterBufData(0, (char *) meta, sizeof(*meta));
	}
	lsn = XLogInsert(LSM_RMGR_ID, info);
	if (BufferIsValid(buffer))
		PageSetLSN(BufferGetPage(buffer), lsn);
}

/* See tree_private.h. */
void
lsm_keyspace_log_new(uint64 keyspace_id, RelFileLocator rlocator)
{
	START_CRIT_SECTION();
	lsm_keyspace_log(XLOG_LSM_KEYSPACE_CREATE, keyspace_id, rlocator, INVALID_PROC_NUMBER,
					 InvalidBuffer, NULL);
	END_CRIT_SECTION();
}

/*
 * See page.h.  An unlogged tree's goes to the file at once: checkpoints leave unlogged
 * buffers alone, and the sweep reads block 0 from the file.
 */
void
lsm_meta_store(Buffer buffer, const LsmMetaPage *meta, uint8 info,
			   RelFileLocator rlocator, ProcNumber backend, char relpersistence)
{
	START_CRIT_SECTION();
	lsm_meta_init(BufferGetPage(buffer), meta);
	MarkBufferDirty(buffer);
	if (relpersistence == RELPERSISTENCE_PERMANENT)
		lsm_keyspace_log(info, meta->keyspace_id, rlocator, backend, buffer, meta);
	END_CRIT_SECTION();
	if (relpersistence == RELPERSISTENCE_UNLOGGED)
		FlushOneBuffer(buffer);
}

/*
 * Control blocks that still say they live in this fork: of a tree that core has
 * truncated away under us (index rebuilt in the transaction that
 * created it), or of one whose relfilenode is used again.
 */
static void
lsm_control_drop_fork(RelFileLocator rlocator, ProcNumber backend)
{
	LsmTreeShared *ctl;
	int			i;

	for (i = 0;
		 (ctl = backend == INVALID_PROC_NUMBER ? lsm_control_nth(i) : lsm_control_nth_local(i)) != NULL;
		 i++)
	{
		uint64		id;
		RelFileLocator its;
		LsmKind		kind;
		char		relpersistence;

		if (ctl->rlocator.relNumber != rlocator.relNumber ||
			!lsm_control_identity(ctl, &id, &its, &kind, &relpersistence) ||
			!RelFileLocatorEquals(its, rlocator) ||
			(relpersistence == RELPERSISTENCE_TEMP) != (backend != INVALID_PROC_NUMBER))
			continue;
		lsm_control_drop(id);
		if (backend != INVALID_PROC_NUMBER)
			i = -1;				/* the local ones may have moved up */
	}
}

/*
 * Say in the WAL that the fork is empty.  Below wal_level replica core does not log
 * that it truncates a relation created in the same transaction, while we log
 * everything: redo would bring back log pages of the tree that was there
 * before, and a load could not tell them from those of the new one.
 */
static void
lsm_log_empty_fork(RelFileLocator rlocator)
{
	xl_smgr_truncate record;

	memset(&record, 0, sizeof(record));
	record.blkno = 0;
	record.rlocator = rlocator;
	record.flags = SMGR_TRUNCATE_HEAP;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	(void) XLogInsert(RM_SMGR_ID, XLOG_SMGR_TRUNCATE | XLR_SPECIAL_REL_UPDATE);
}

void
lsm_tree_create(RelFileLocator rlocator, ProcNumber backend, Oid relid,
				char relpersistence, LsmKind kind)
{
	SMgrRelation smgr = smgropen(rlocator, backend);
	LsmMetaPage meta;
	uint64		id;

	/*
	 * pg_upgrade transfers relation files only: the main fork would name
	 * sorted files that stay behind
	 */
	if (IsBinaryUpgrade)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pg_upgrade cannot transfer lsm tables and indexes"),
				 errhint("Use pg_dumpall or pg_dump, or change the tables to heap and drop the lsm indexes in the old cluster first.")));
	if (smgrnblocks(smgr, MAIN_FORKNUM) != 0)
		elog(ERROR, "main fork of relation %u (%s) is not empty", relid,
			 lsm_relpath(rlocator, backend, MAIN_FORKNUM));
	lsm_control_drop_fork(rlocator, backend);

	id = lsm_keyspace_new(rlocator, backend);
	lsm_meta_template(&meta, rlocator, kind, id);
	if (relpersistence == RELPERSISTENCE_TEMP)
	{
		PGAlignedBlock block;

		/* no local buffer knows the page yet, and there is no Relation here */
		lsm_temporary_remember(id, rlocator, backend);
		lsm_meta_init((Page) block.data, &meta);
		PageSetChecksumInplace((Page) block.data, 0);
		smgrextend(smgr, MAIN_FORKNUM, 0, block.data, true);
	}
	else
	{
		Buffer		buffer;

		if (relpersistence == RELPERSISTENCE_PERMANENT && !XLogIsNeeded())
			lsm_log_empty_fork(rlocator);
		buffer = ReadBufferWithoutRelcache(rlocator, MAIN_FORKNUM, P_NEW,
										   RBM_ZERO_AND_LOCK, NULL,
										   relpersistence == RELPERSISTENCE_PERMANENT);
		if (BufferGetBlockNumber(buffer) != 0)
			elog(ERROR, "main fork of relation %u was extended by someone else", relid);
		lsm_meta_store(buffer, &meta, XLOG_LSM_KEYSPACE_CREATE, rlocator, backend,
					   relpersistence);
		UnlockReleaseBuffer(buffer);
	}
	LSM_CRASH_POINT("create_logged");
}

/*
 * Like other access methods' ambuildempty: written past the buffers, logged, and
 * synced, because the checkpoint that would do it may come after the crash that needs it.
 */
void
lsm_tree_create_init_fork(RelFileLocator rlocator, LsmKind kind)
{
	SMgrRelation smgr = smgropen(rlocator, INVALID_PROC_NUMBER);
	PGAlignedBlock block;
	LsmMetaPage meta;

	if (!smgrexists(smgr, INIT_FORKNUM))
	{
		smgrcreate(smgr, INIT_FORKNUM, false);
		log_smgrcreate(&rlocator, INIT_FORKNUM);
	}
	lsm_meta_template(&meta, rlocator, kind, 0);
	lsm_meta_init((Page) block.data, &meta);
	log_newpage(&rlocator, INIT_FORKNUM, 0, (Page) block.data, true);
	PageSetChecksumInplace((Page) block.data, 0);
	if (smgrnblocks(smgr, INIT_FORKNUM) == 0)
		smgrextend(smgr, INIT_FORKNUM, 0, block.data, true);
	else
		smgrwrite(smgr, INIT_FORKNUM, 0, block.data, true);
	smgrimmedsync(smgr, INIT_FORKNUM);
}

/* ---- reset ---- */

/*
 * Not transactional, as in heap: legal only for a relation (or relfilenode)
 * that goes away if the transaction aborts.  So nothing is lost
 * whatever step a crash comes after: the fork is dropped then, and
 * directories without a fork are swept.
 */
void
lsm_tree_reset(Relation rel, LsmKind kind)
{
	char		relpersistence = rel->rd_rel->relpersistence;
	uint64		old_id = 0;

	if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) > 0)
	{
		Buffer		buffer = ReadBuffer(rel, 0);
		LsmMetaPage *meta;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		meta = (LsmMetaPage *) PageGetContents(BufferGetPage(buffer));
		if (!PageIsNew(BufferGetPage(buffer)) && lsm_meta_known(meta) &&
			meta->dboid == rel->rd_locator.dbOid &&
			meta->relfilenode == rel->rd_locator.relNumber)
			old_id = meta->keyspace_id;
		UnlockReleaseBuffer(buffer);
		RelationTruncate(rel, 0);
	}
	LSM_CRASH_POINT("reset_truncated");
	lsm_tree_create(rel->rd_locator, rel->rd_backend, RelationGetRelid(rel),
					relpersistence, kind);
	LSM_CRASH_POINT("reset_created");
	if (old_id != 0)
	{
		if (relpersistence == RELPERSISTENCE_PERMANENT)
			lsm_keyspace_remove_logged(old_id);
		else
		{
			lsm_control_drop(old_id);
			lsm_control_wait_jobs(old_id);
			lsm_keyspace_remove(old_id);
		}
	}
	LSM_CRASH_POINT("reset_removed");
}

/* ---- copies of forks ---- */

/*
 * Copy one page of the old fork to the new one; those of the (flushed) log
 * become zero pages, which need no WAL: redo of a later block brings them
 * about, and no one misses them at the end of the fork.
 */
static void
lsm_copy_page(Relation rel, SMgrRelation dst, BlockNumber block,
			  const LsmMetaPage *new_meta)
{
	PGAlignedBlock data;
	Page		page = (Page) data.data;

	smgrread(RelationGetSmgr(rel), MAIN_FORKNUM, block, data.data);
	if (!lsm_page_is_verified(page, block, rel->rd_locator.dbOid))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid page in block %u of relation %s", block,
						lsm_relpath(rel->rd_locator, rel->rd_backend, MAIN_FORKNUM))));
	if (block == 0)
		lsm_meta_init(page, new_meta);
	else if (!PageIsNew(page) &&
			 PageGetSpecialSize(page) == MAXALIGN(sizeof(LsmPageOpaque)) &&
			 lsm_page_opaque(page)->type == LSM_PAGE_LOG &&
			 lsm_page_opaque(page)->owner <= new_meta->flushed_generation)
		memset(page, 0, BLCKSZ);

	/* whatever wal_level is: permanent trees always log (DESIGN section 4) */
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT && !PageIsNew(page))
		log_newpage(&dst->smgr_rlocator.locator, MAIN_FORKNUM, block, page, true);
	PageSetChecksumInplace(page, block);
	smgrextend(dst, MAIN_FORKNUM, block, data.data, true);
}

/*
 * See tree.h; an unlogged relation's init fork is the caller's.  The copy gets a keyspace of its own with hard links to the
 * files, so either fork can live on when the transaction ends; the other's
 * directory is then an orphan.
 */
void
lsm_tree_copy(Relation rel, LsmKind kind, RelFileLocator new_rlocator)
{
	LsmTree    *tree = lsm_tree_open(rel, kind, NULL);
	char		relpersistence = rel->rd_rel->relpersistence;
	SMgrRelation dst;
	LsmFileMeta *files;
	LsmMetaPage *page;
	LsmMetaPage meta;
	Buffer		buffer;
	BlockNumber nblocks;
	BlockNumber block;
	uint64		id;
	int			nfiles;

	lsm_tree_flush(tree);
	FlushRelationBuffers(rel);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	meta = *page;
	UnlockReleaseBuffer(buffer);
	files = lsm_manifest_read(tree, &nfiles, NULL);

	id = lsm_keyspace_new(new_rlocator, rel->rd_backend);
	if (relpersistence == RELPERSISTENCE_TEMP)
		lsm_temporary_remember(id, new_rlocator, rel->rd_backend);
	if (relpersistence == RELPERSISTENCE_PERMANENT)
		lsm_keyspace_log_new(id, new_rlocator);
	lsm_keyspace_link_files(meta.keyspace_id, id, files, nfiles,
							relpersistence == RELPERSISTENCE_PERMANENT);
	pfree(files);

	meta.keyspace_id = id;
	meta.dboid = new_rlocator.dbOid;
	meta.spcoid = new_rlocator.spcOid;
	meta.relfilenode = new_rlocator.relNumber;
	dst = smgropen(new_rlocator, rel->rd_backend);
	nblocks = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	for (block = 0; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		lsm_copy_page(rel, dst, block, &meta);
	}

	/* they were written past the buffers: no checkpoint knows of them */
	if (relpersistence != RELPERSISTENCE_TEMP)
		smgrimmedsync(dst, MAIN_FORKNUM);
}

static bool
lsm_meta_is_own(const LsmTree *tree, const LsmMetaPage *meta)
{
	return meta->dboid == tree->rlocator.dbOid &&
		meta->spcoid == tree->rlocator.spcOid &&
		meta->relfilenode == tree->rlocator.relNumber;
}

/*
 * The fork that ours was copied from is still there: the move is not committed,
 * or it is and its process has not come to delete the old fork.  Nobody edits the
 * list of files in either: workers keep off the old fork from before the commit
 * (publish_xact_callback), and ours is not open yet.  The directory stays as
 * long as our metapage names it (sweep.c), which the caller's lock ensures.
 * `named`: by the metapage; `source`: whose directory has the files.
 */
static uint64
lsm_meta_own_keyspace(LsmTree *tree, uint64 named, uint64 source)
{
	LsmFileMeta *files;
	int			nfiles;
	uint64		saved_id;
	uint64		id = lsm_keyspace_new(tree->rlocator, tree->backend);

	if (tree->relpersistence == RELPERSISTENCE_TEMP)
		lsm_temporary_remember(id, tree->rlocator, tree->backend);
	saved_id = tree->keyspace_id;
	tree->keyspace_id = named;
	files = lsm_manifest_read(tree, &nfiles, NULL);
	tree->keyspace_id = saved_id;
	lsm_keyspace_link_files(source, id, files, nfiles, lsm_tree_needs_wal(tree));
	pfree(files);
	return id;
}

/*
 * Make the keyspace that a copied fork is to have the fork's own.  REQUIRES:
 * the page lock of lsm_meta_adopt.
 */
static void
meta_adopt_locked(LsmTree *tree)
{
	LsmMetaPage *page;
	LsmMetaPage meta;
	RelFileLocator old;
	Buffer		buffer;
	uint64		id;

	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	meta = *page;
	UnlockReleaseBuffer(buffer);
	if (meta.keyspace_id == 0 || lsm_meta_is_own(tree, &meta))
		return;
	old.dbOid = meta.dboid;
	old.spcOid = meta.spcoid;
	old.relNumber = meta.relfilenode;
	id = lsm_meta_keyspace(&meta, tree->rlocator.dbOid);
	LSM_CRASH_POINT("adopting");

	/*
	 * The same relfilenode elsewhere is a database that was copied, with a
	 * keyspace made for it (clone.c), or moved (ALTER DATABASE SET
	 * TABLESPACE); another one is ALTER INDEX SET TABLESPACE.  In a copied
	 * database we do not know where that came from.
	 */
	if (old.relNumber != tree->rlocator.relNumber &&
		(id != meta.keyspace_id || lsm_fork_exists(old, tree->backend)))
		id = lsm_meta_own_keyspace(tree, meta.keyspace_id, id);
	else
	{
		lsm_owner_add(id, tree->rlocator, tree->backend);
		if (tree->relpersistence == RELPERSISTENCE_TEMP)
			lsm_temporary_remember(id, tree->rlocator, tree->backend);
	}
	buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);
	Assert(page->keyspace_id == meta.keyspace_id && !lsm_meta_is_own(tree, page));
	meta = *page;
	meta.keyspace_id = id;
	meta.dboid = tree->rlocator.dbOid;
	meta.spcoid = tree->rlocator.spcOid;
	meta.relfilenode = tree->rlocator.relNumber;
	lsm_meta_store(buffer, &meta, XLOG_LSM_META, tree->rlocator, tree->backend,
				   tree->relpersistence);
	UnlockReleaseBuffer(buffer);
	lsm_control_move(id, tree->rlocator);
	LSM_CRASH_POINT("adopted");
}

/*
 * See tree_private.h.  Sessions that open the fork at the same time do this one
 * after the other: the second finds it done.  Were they to overlap, the second
 * would link files of a directory that nobody names any more.
 */
void
lsm_meta_adopt(LsmTree *tree)
{
	Assert(!lsm_epoch_inside());
	LockPage(tree->rel, 0, ExclusiveLock);
	meta_adopt_locked(tree);
	UnlockPage(tree->rel, 0, ExclusiveLock);
}

/* See tree_private.h. */
void
lsm_meta_assign(LsmTree *tree)
{
	LsmMetaPage *page;
	LsmMetaPage meta;
	Buffer		buffer;
	uint64		id;

	Assert(tree->relpersistence == RELPERSISTENCE_UNLOGGED);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	id = page->keyspace_id;
	UnlockReleaseBuffer(buffer);
	if (id != 0)
		return;

	id = lsm_keyspace_new(tree->rlocator, tree->backend);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);
	if (page->keyspace_id != 0)
	{
		UnlockReleaseBuffer(buffer);
		lsm_keyspace_remove(id);
		return;
	}
	lsm_meta_template(&meta, tree->rlocator, (LsmKind) page->kind, id);
	lsm_meta_store(buffer, &meta, XLOG_LSM_META, tree->rlocator, tree->backend,
				   tree->relpersistence);
	UnlockReleaseBuffer(buffer);
}
