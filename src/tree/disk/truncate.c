/*-------------------------------------------------------------------------
 *
 * truncate.c
 *	  Free pages at the end of a tree's main fork go back to the file system.
 *
 * Bulk loads fill log pages of several generations, and later all of them are
 * free: reused by the next writers, and of no use where none come.  VACUUM
 * gives them back, as it does with a heap's empty end.
 *
 * RelationTruncate() is not used, for it takes blocks of the visibility map
 * for blocks of the main fork, and here they are blocks of row numbers.  Nor is
 * its WAL record, which says where the fork ends and not which blocks go.
 *
 * A reader of WAL for the blocks that have changed (pg_rewind) has to find
 * them.  A page becomes free by an edit, which does not name it; then it may be
 * cut away, and be a page again that the fork is extended by, which is not
 * logged before its first use.  That page is zero, where another server that
 * has not come to the edit still has entries.  So a block leaves the fork by a
 * record that refers to it: to as many blocks, from the end, as a record may,
 * and each record is a truncation by itself.  Were the blocks named first and
 * cut by a record of its own, a checkpoint and the end of the common history
 * could come between the two.  With heap, the record by which a block lost its
 * last row has named it.
 *
 * Locking: AccessExclusiveLock on the relation, tried for, never waited for
 * beyond `patience`.  All who read or write the fork hold a lock on the
 * relation: sessions always, workers where they load a tree or change its list
 * of files (publish_lock.c).  So nobody holds a page that goes, and no slot of
 * the log (LsmLogSlot) speaks of one: a slot is looked at only if its
 * generation is the active one, whose pages are not free.
 *
 * The list of files is in the way as a rule: its first page was allocated behind
 * the log pages of the first generation.  It moves to the front first.
 *
 * Crash rules: a page is free by an edit whose record comes before that of the
 * truncation.  Redo that begins in between finds what it needs, or pages that
 * later records make anew (they are written with WILL_INIT).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"
#include "tree/disk/wal.h"

/* As VACUUM of a heap: milliseconds */
#define LOCK_RETRY_MS		50
#define LOCK_PATIENCE_MS	5000
#define WAITERS_CHECK_MS	20

/* Pages looked at between two looks at the clock */
#define PAGES_PER_CHECK		32

/* What keeps a block where it is */
typedef enum Keeps
{
	KEEPS_NOTHING,				/* it is free */
	KEEPS_LIST,					/* it is of the list of files, which can move */
	KEEPS_ENTRIES				/* of a memtable; or who knows */
} Keeps;

static Keeps
what_keeps(LsmTree *tree, BlockNumber block, const LsmMetaPage *meta)
{
	Buffer		buffer = lsm_page_read(tree, block);
	Page		page = BufferGetPage(buffer);
	Keeps		result = KEEPS_ENTRIES;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (lsm_page_is_free(page, meta->flushed_generation, meta->manifest_id,
						 pg_atomic_read_u64(&tree->ctl->files.manifest_pending)))
		result = KEEPS_NOTHING;
	else if (PageGetSpecialSize(page) == MAXALIGN(sizeof(LsmPageOpaque)) &&
			 lsm_page_opaque(page)->type == LSM_PAGE_MANIFEST)
		result = KEEPS_LIST;
	UnlockReleaseBuffer(buffer);
	return result;
}

/*
 * Behind the result all blocks are free, or (*last_of_list) the list's; that is
 * the last block of the list that was met, or 0.  With `exclusive`, the search
 * ends early when others wait for the relation.
 */
static BlockNumber
find_end(LsmTree *tree, bool exclusive, BlockNumber *last_of_list)
{
	BlockNumber end = smgrnblocks(RelationGetSmgr(tree->rel), MAIN_FORKNUM);
	Buffer		buffer;
	LsmMetaPage *stored;
	LsmMetaPage meta;
	instr_time	last;
	instr_time	now;
	Keeps		keeps;

	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &stored);
	meta = *stored;
	UnlockReleaseBuffer(buffer);

	*last_of_list = 0;
	INSTR_TIME_SET_CURRENT(last);
	while (end > 1)
	{
		if (end % PAGES_PER_CHECK == 0)
		{
			CHECK_FOR_INTERRUPTS();
			INSTR_TIME_SET_CURRENT(now);
			INSTR_TIME_SUBTRACT(now, last);
			if (exclusive && INSTR_TIME_GET_MILLISEC(now) >= WAITERS_CHECK_MS)
			{
				if (LockHasWaitersRelation(tree->rel, AccessExclusiveLock))
					break;
				INSTR_TIME_SET_CURRENT(last);
			}
		}
		keeps = what_keeps(tree, end - 1, &meta);
		if (keeps == KEEPS_ENTRIES)
			break;
		if (keeps == KEEPS_LIST && *last_of_list == 0)
			*last_of_list = end - 1;
		end--;
	}
	return end;
}

/*
 * Write the list of files again, from `block` on, where all blocks are free or
 * the list's.  REQUIRES: AccessExclusiveLock.
 */
static void
move_list(LsmTree *tree, BlockNumber block)
{
	LsmEdit		edit = {.rewrite = true};

	lsm_page_search_from(tree, block);
	(void) lsm_manifest_edit(tree, &edit);
	LSM_CRASH_POINT("truncate_list_moved");
}

/* REQUIRES: critical section, XLogEnsureRecordSpace(XLR_MAX_BLOCK_ID). */
static void
log_cut(const LsmTree *tree, BlockNumber old, BlockNumber end)
{
	static PGAlignedBlock no_page;	/* for wal_consistency_checking */
	LsmWalCut	record = {tree->keyspace_id};
	RelFileLocator rlocator = tree->rlocator;
	XLogRecPtr	lsn = InvalidXLogRecPtr;

	while (old > end)
	{
		int			n = Min(old - end, XLR_MAX_BLOCK_ID + 1);

		old -= n;
		XLogBeginInsert();
		XLogRegisterData((char *) &record, sizeof(record));
		for (int i = 0; i < n; i++)
			XLogRegisterBlock(i, &rlocator, MAIN_FORKNUM, old + i, no_page.data,
							  REGBUF_WILL_INIT);
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_CUT);
	}
	XLogFlush(lsn);
}

/* REQUIRES: AccessExclusiveLock; all blocks from `end` on are free. */
static void
cut_fork(LsmTree *tree, BlockNumber end)
{
	LsmTreeShared *ctl = tree->ctl;
	Relation	rel = tree->rel;
	SMgrRelation smgr = RelationGetSmgr(rel);
	ForkNumber	fork = MAIN_FORKNUM;
	BlockNumber old = smgrnblocks(smgr, MAIN_FORKNUM);

	Assert(end >= 1 && end < old);
	smgr->smgr_targblock = InvalidBlockNumber;
	RelationPreTruncate(rel);
	XLogEnsureRecordSpace(XLR_MAX_BLOCK_ID, 0);

	LWLockAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE);

	/* why both: RelationTruncate() */
	Assert((MyProc->delayChkptFlags & (DELAY_CHKPT_START | DELAY_CHKPT_COMPLETE)) == 0);
	MyProc->delayChkptFlags |= DELAY_CHKPT_START | DELAY_CHKPT_COMPLETE;
	START_CRIT_SECTION();
	if (lsm_tree_needs_wal(tree))
	{
		log_cut(tree, old, end);
		LSM_CRASH_POINT("truncate_logged");
	}
	smgrtruncate(smgr, &fork, 1, &old, &end);
	END_CRIT_SECTION();
	MyProc->delayChkptFlags &= ~(DELAY_CHKPT_START | DELAY_CHKPT_COMPLETE);

	ctl->pages.nblocks = Min(ctl->pages.nblocks, end);
	ctl->pages.free_pages = Min(ctl->pages.free_pages, (int64) ctl->pages.nblocks);
	LWLockRelease(&ctl->pages.alloc_lock);
	LSM_CRASH_POINT("truncate_done");
}

static bool
lock_relation(Relation rel, bool patient)
{
	for (int waited = 0;; waited += LOCK_RETRY_MS)
	{
		if (ConditionalLockRelation(rel, AccessExclusiveLock))
			return true;
		if (!patient || waited >= LOCK_PATIENCE_MS)
			return false;
		CHECK_FOR_INTERRUPTS();
		pgstat_report_wait_start(WAIT_EVENT_VACUUM_TRUNCATE);
		pg_usleep(LOCK_RETRY_MS * 1000L);
		pgstat_report_wait_end();
	}
}

BlockNumber
lsm_fork_truncate(LsmTree *tree, BlockNumber least, bool patient)
{
	Relation	rel = tree->rel;
	BlockNumber old = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	BlockNumber end;
	BlockNumber list;

	/* a lock of this kind takes a transaction id: not to be had in parallel mode */
	if (tree->relpersistence == RELPERSISTENCE_TEMP || IsInParallelMode() ||
		old < 1 + least)
		return 0;
	lsm_tree_enter(tree);		/* loads the tree; its block is pinned */
	lsm_tree_exit(tree);
	if (old - find_end(tree, false, &list) < least || !lock_relation(rel, patient))
		return 0;

	/* others may have been here before */
	old = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	end = find_end(tree, true, &list);
	if (list != 0 && old - end >= least)
	{
		move_list(tree, end);
		end = find_end(tree, true, &list);
	}
	if (list != 0)
		end = list + 1;
	old = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	if (end < old)
		cut_fork(tree, end);

	/* who locks the relation from now on learns of it by an invalidation */
	UnlockRelation(rel, AccessExclusiveLock);
	return old - end;
}
