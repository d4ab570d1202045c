/*-------------------------------------------------------------------------
 *
 * copy.c
 *	  A tree in a new fork: SET TABLESPACE of a table.
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

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"

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
	PGIOAlignedBlock data;
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

	/* whatever wal_level is: permanent trees always log */
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT && !PageIsNew(page))
		log_newpage(&dst->smgr_rlocator.locator, MAIN_FORKNUM, block, page, true);
	PageSetChecksum(page, block);
	smgrextend(dst, MAIN_FORKNUM, block, data.data, true);
}

/*
 * See tree.h; an unlogged relation's init fork is the caller's.  The copy gets
 * a keyspace of its own with copies of the files, so either fork can live
 * on when the transaction ends; the other's directory is then an orphan.  It is
 * locked until the new fork names it: logging large files takes any number of
 * checkpoints.
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
	files = lsm_manifest_read(tree, &nfiles);

	id = lsm_keyspace_new(new_rlocator, rel->rd_backend, true);
	if (relpersistence == RELPERSISTENCE_TEMP)
		lsm_temporary_remember(id, new_rlocator, rel->rd_backend);
	if (relpersistence == RELPERSISTENCE_PERMANENT)
		lsm_keyspace_log_new(id, new_rlocator);
	lsm_keyspace_copy_files(meta.keyspace_id, id, files, nfiles,
							relpersistence == RELPERSISTENCE_PERMANENT);
	pfree(files);
	LSM_CRASH_POINT("copy_copied");

	meta.format_version = LSM_META_VERSION;
	meta.keyspace_id = id;
	meta.dboid = new_rlocator.dbOid;
	meta.spcoid = new_rlocator.spcOid;
	meta.relfilenode = new_rlocator.relNumber;
	if (relpersistence == RELPERSISTENCE_PERMANENT)
		lsm_log_fork_end(new_rlocator);
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
	lsm_keyspace_unlock(id, ExclusiveLock);
}
