/*-------------------------------------------------------------------------
 *
 * create.c
 *	  Creation and reset of a tree, and forks that were copied and get a
 *	  keyspace of their own.
 *
 * A keyspace belongs to one fork.  A copy made inside a transaction that can
 * still roll back gets a keyspace of its own with copies of the files: if both
 * forks shared one, edits of the new one would unlink files that the old one,
 * back after a rollback, still names.
 *
 * Locking: everything here is done by whoever has the relation to himself, but
 * for lsm_meta_adopt(), which takes the relation's page lock (a heavyweight
 * lock, of page 0), and lsm_meta_assign(), which decides races by the
 * metapage's content lock.  No file I/O under an LWLock.  A new keyspace is
 * locked until block 0 names it (lsm_keyspace_reserve()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"
#include "tree/disk/wal.h"
#include "tree/memtable/memtable.h"

/* ---- creation ---- */

static void
lsm_meta_template(LsmMetaPage *meta, RelFileLocator rlocator, LsmKind kind,
				  const LsmKeyMaking *making, uint64 keyspace_id)
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
	if (making != NULL)
	{
		meta->rules = making->rules;
		meta->origin = making->origin;
	}
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

/* See page.h. */
void
lsm_log_fork_end(RelFileLocator rlocator)
{
	xl_smgr_truncate record;

	memset(&record, 0, sizeof(record));
	record.blkno = smgrnblocks(smgropen(rlocator, INVALID_PROC_NUMBER), MAIN_FORKNUM);
	record.rlocator = rlocator;
	record.flags = SMGR_TRUNCATE_HEAP;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	(void) XLogInsert(RM_SMGR_ID, XLOG_SMGR_TRUNCATE | XLR_SPECIAL_REL_UPDATE);
}

void
lsm_tree_create(RelFileLocator rlocator, ProcNumber backend, Oid relid,
				char relpersistence, LsmKind kind, const LsmKeyMaking *making)
{
	SMgrRelation smgr = smgropen(rlocator, backend);
	LsmMetaPage meta;
	uint64		id;

	/*
	 * pg_upgrade transfers relation files only: the main fork will name
	 * sorted files that someone else has to transfer
	 */
	if (IsBinaryUpgrade && lsm_pg_upgrade[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pg_upgrade by itself cannot transfer lsm tables and indexes"),
				 errhint("Run lsm_pg_upgrade in its place.")));
	if (smgrnblocks(smgr, MAIN_FORKNUM) != 0)
		elog(ERROR, "main fork of relation %u (%s) is not empty", relid,
			 lsm_relpath(rlocator, backend, MAIN_FORKNUM));
	lsm_control_drop_fork(rlocator, backend);

	/* the fork is the transaction's, or that of a temporary relation */
	id = lsm_keyspace_new(rlocator, backend, true);
	lsm_meta_template(&meta, rlocator, kind, making, id);
	if (relpersistence == RELPERSISTENCE_TEMP)
	{
		PGIOAlignedBlock block;

		/* no local buffer knows the page yet, and there is no Relation here */
		lsm_temporary_remember(id, rlocator, backend);
		lsm_meta_init((Page) block.data, &meta);
		PageSetChecksum((Page) block.data, 0);
		smgrextend(smgr, MAIN_FORKNUM, 0, block.data, true);
	}
	else
	{
		Buffer		buffer;

		if (relpersistence == RELPERSISTENCE_PERMANENT)
			lsm_log_fork_end(rlocator);
		buffer = lsm_extend_fork(rlocator, relpersistence);
		if (BufferGetBlockNumber(buffer) != 0)
			elog(ERROR, "main fork of relation %u was extended by someone else", relid);
		lsm_meta_store(buffer, &meta, XLOG_LSM_KEYSPACE_CREATE, rlocator, backend,
					   relpersistence);
		UnlockReleaseBuffer(buffer);
	}
	lsm_keyspace_unlock(id, ExclusiveLock);
	LSM_CRASH_POINT("create_logged");
}

/*
 * Like other access methods' ambuildempty: written past the buffers, logged,
 * and synced, because the checkpoint that would do it may come after the crash
 * that needs it.
 */
void
lsm_tree_create_init_fork(RelFileLocator rlocator, LsmKind kind, const LsmKeyMaking *making)
{
	SMgrRelation smgr = smgropen(rlocator, INVALID_PROC_NUMBER);
	PGIOAlignedBlock block;
	LsmMetaPage meta;

	if (!smgrexists(smgr, INIT_FORKNUM))
	{
		smgrcreate(smgr, INIT_FORKNUM, false);
		log_smgrcreate(&rlocator, INIT_FORKNUM);
	}
	lsm_meta_template(&meta, rlocator, kind, making, 0);
	lsm_meta_init((Page) block.data, &meta);
	log_newpage(&rlocator, INIT_FORKNUM, 0, (Page) block.data, true);
	PageSetChecksum((Page) block.data, 0);
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
		if (lsm_meta_valid(BufferGetPage(buffer)) &&
			meta->dboid == rel->rd_locator.dbOid &&
			meta->relfilenode == rel->rd_locator.relNumber)
			old_id = meta->keyspace_id;
		UnlockReleaseBuffer(buffer);
		RelationTruncate(rel, 0);
	}
	LSM_CRASH_POINT("reset_truncated");
	lsm_tree_create(rel->rd_locator, rel->rd_backend, RelationGetRelid(rel),
					relpersistence, kind, NULL);
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

/* ---- copied forks ---- */

/*
 * The fork that ours was copied from is still there: the move is not
 * committed, or it is and its process has not come to delete the old fork.
 * Nobody edits the list of files in either: workers keep off the old fork from
 * before the commit (publish_xact_callback), and ours is not open yet.  The
 * directory stays as long as our metapage names it (sweep.c), which the
 * caller's lock ensures.  `named`: by the metapage; `source`: whose directory
 * has the files.  The new keyspace's id is reserved.
 */
static void
lsm_meta_own_keyspace(LsmTree *tree, uint64 named, uint64 source, uint64 id)
{
	LsmTree		reading = *tree;
	LsmFileMeta *files;
	int			nfiles;

	lsm_keyspace_make(id, tree->rlocator, tree->backend, false);
	if (tree->relpersistence == RELPERSISTENCE_TEMP)
		lsm_temporary_remember(id, tree->rlocator, tree->backend);
	reading.keyspace_id = named;
	files = lsm_manifest_read(&reading, &nfiles);
	lsm_keyspace_copy_files(source, id, files, nfiles, lsm_tree_needs_wal(tree));
	pfree(files);
	LSM_CRASH_POINT("adopt_copied");
}

/*
 * Make the keyspace that a copied fork is to have the fork's own; `new_id` if
 * it is to have another one.  REQUIRES: the locks of lsm_meta_adopt.
 */
static void
meta_adopt_locked(LsmTree *tree, uint64 new_id)
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
	 * database we do not know where that came from.  Nor may we go by the
	 * fork that is named, if the move can still roll back: when nobody opens
	 * the index between two moves, it is the one from before the first.
	 */
	if (old.relNumber != tree->rlocator.relNumber &&
		(id != meta.keyspace_id || lsm_fork_exists(old, tree->backend) ||
		 lsm_fork_may_roll_back(tree->rel)))
	{
		lsm_meta_own_keyspace(tree, meta.keyspace_id, id, new_id);
		id = new_id;
	}
	else
	{
		lsm_owner_add(id, tree->rlocator, tree->backend);
		if (tree->relpersistence == RELPERSISTENCE_TEMP)
			lsm_temporary_remember(id, tree->rlocator, tree->backend);
	}
	if (lsm_tree_needs_wal(tree))
		lsm_log_fork_end(tree->rlocator);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);
	Assert(page->keyspace_id == meta.keyspace_id && !lsm_meta_is_own(tree, page));
	meta = *page;
	meta.keyspace_id = id;
	meta.dboid = tree->rlocator.dbOid;
	meta.spcoid = tree->rlocator.spcOid;
	meta.relfilenode = tree->rlocator.relNumber;
	lsm_meta_store(buffer, &meta, XLOG_LSM_META, tree->rlocator, tree->backend,
				   tree->relpersistence);

	/* the lock goes; on disk the fork may name another keyspace (sweep.c) */
	if (id == new_id && tree->relpersistence == RELPERSISTENCE_PERMANENT)
		FlushOneBuffer(buffer);
	UnlockReleaseBuffer(buffer);
	lsm_control_move(id, tree->rlocator);
	LSM_CRASH_POINT("adopted");
}

/*
 * See disk.h.  Sessions that open the fork at the same time do this one after
 * the other: the second finds it done.  Were they to overlap, the second would
 * copy files of a directory that nobody names any more.  The id of the keyspace
 * that may have to be made is locked first: a process that has locked a page
 * takes no other heavyweight lock.
 */
void
lsm_meta_adopt(LsmTree *tree)
{
	uint64		new_id;

	Assert(!lsm_epoch_inside());
	new_id = lsm_keyspace_reserve(tree->backend);
	LockPage(tree->rel, 0, ExclusiveLock);
	meta_adopt_locked(tree, new_id);
	UnlockPage(tree->rel, 0, ExclusiveLock);
	lsm_keyspace_unlock(new_id, ExclusiveLock);
}

/* See disk.h. */
void
lsm_meta_assign(LsmTree *tree)
{
	LsmMetaPage *page;
	LsmMetaPage meta;
	LsmKeyMaking making;
	Buffer		buffer;
	uint64		id;

	Assert(tree->relpersistence == RELPERSISTENCE_UNLOGGED);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	id = page->keyspace_id;
	UnlockReleaseBuffer(buffer);
	if (id != 0)
		return;

	id = lsm_keyspace_new(tree->rlocator, tree->backend, false);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);
	if (page->keyspace_id != 0)
	{
		UnlockReleaseBuffer(buffer);
		lsm_keyspace_remove(id);
		lsm_keyspace_unlock(id, ExclusiveLock);
		return;
	}
	making.rules = page->rules;
	making.origin = page->origin;
	lsm_meta_template(&meta, tree->rlocator, (LsmKind) page->kind, &making, id);
	lsm_meta_store(buffer, &meta, XLOG_LSM_META, tree->rlocator, tree->backend,
				   tree->relpersistence);
	UnlockReleaseBuffer(buffer);
	lsm_keyspace_unlock(id, ExclusiveLock);
}
