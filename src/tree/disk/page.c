/*-------------------------------------------------------------------------
 *
 * page.c
 *	  Pages of a tree's main fork: access and allocation.
 *
 * Trees are also worked on by a process without relcache (the worker), so
 * pages are read by relfilenode; only temporary trees, whose buffers are
 * local to their backend, go through the relation.
 *
 * Allocation.  Whether a page is free follows from its opaque data together
 * with the control block's copies of the metapage's flushed generation and
 * manifest id; no free list exists on disk.  A cursor goes round the fork, one
 * lap after each edit that may have freed pages, and looks at a bounded
 * number of candidates per call; the fork is extended when the lap is over.
 *
 * Locking: alloc_lock serialises allocation and extension.  Its holder never
 * waits for a buffer content lock (candidates are locked conditionally, a new
 * page is known to no one), so a caller may hold content locks of its own: the
 * metapage's and those of pages it has just been given.  That is the one
 * exception to the order in disk.h.
 *
 * Reuse needs no precaution against crashes.  A page is free only by an edit
 * whose WAL record has been inserted; the record that initialises it for its
 * new use comes later in the WAL, and the page cannot reach the disk before
 * that record is flushed, hence not before the edit is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/smgr.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"

/* Candidates looked at per allocation before the fork is extended instead */
#define LSM_ALLOCATE_LOOKS	64

bool
lsm_tree_needs_wal(const LsmTree *tree)
{
	return tree->relpersistence == RELPERSISTENCE_PERMANENT;
}

/*
 * Pinned page of the tree, not locked.  ERRORs as ReadBuffer().
 */
Buffer
lsm_page_read(LsmTree *tree, BlockNumber block)
{
	if (tree->relpersistence == RELPERSISTENCE_TEMP)
	{
		Assert(tree->rel != NULL);
		return ReadBuffer(tree->rel, block);
	}
	return ReadBufferWithoutRelcache(tree->rlocator, MAIN_FORKNUM, block,
									 RBM_NORMAL, NULL,
									 tree->relpersistence == RELPERSISTENCE_PERMANENT);
}

/*
 * Make `page` an empty page.  For critical sections and redo: cannot fail.
 */
void
lsm_page_init(Page page, uint16 type, uint64 owner, uint16 flags, BlockNumber next)
{
	LsmPageOpaque *opaque;

	PageInit(page, BLCKSZ, sizeof(LsmPageOpaque));
	opaque = lsm_page_opaque(page);
	opaque->owner = owner;
	opaque->next = next;
	opaque->flags = flags;
	opaque->type = type;
}

static bool
lsm_page_sound(Page page)
{
	PageHeader	header = (PageHeader) page;

	return !PageIsNew(page) &&
		PageGetSpecialSize(page) == MAXALIGN(sizeof(LsmPageOpaque)) &&
		header->pd_lower >= LSM_PAGE_START &&
		header->pd_lower <= header->pd_upper &&
		header->pd_upper == header->pd_special &&
		(lsm_page_head(page) == NULL ||
		 header->pd_lower >= LSM_PAGE_START + sizeof(LsmLogHead));
}

bool
lsm_page_valid(Page page, uint16 type)
{
	return lsm_page_sound(page) && lsm_page_opaque(page)->type == type;
}

LsmPageOpaque *
lsm_page_check(const LsmTree *tree, Page page, BlockNumber block, uint16 type)
{
	if (!lsm_page_valid(page, type))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of relation %s is not a valid lsm %s page",
						block,
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM),
						type == LSM_PAGE_LOG ? "log" : "manifest"),
				 errhint("Rebuild the index with REINDEX, or restore the table from a backup.")));
	return lsm_page_opaque(page);
}

bool
lsm_page_is_free(Page page, uint64 flushed_generation, uint64 manifest_id, uint64 manifest_pending)
{
	LsmPageOpaque *opaque;

	if (PageIsNew(page))
		return true;
	if (!lsm_page_sound(page))
		return false;
	opaque = lsm_page_opaque(page);
	switch (opaque->type)
	{
		case LSM_PAGE_LOG:
			return opaque->owner <= flushed_generation;
		case LSM_PAGE_MANIFEST:

			/*
			 * A rewrite sets manifest_pending before it writes its first page
			 * and manifest_id after the root has flipped, so that pages of
			 * neither chain look free in between.
			 */
			return opaque->owner != manifest_id && opaque->owner != manifest_pending;
		default:
			return false;
	}
}

/*
 * Look on in the current lap; InvalidBuffer if the lap is over or enough
 * candidates were looked at.  Each candidate uses up one of free_pages, found
 * free or not: that bounds a lap to the pages the fork had when it began, and
 * guarantees that no page is handed out twice within one (its new owner may
 * not have initialised it yet).  REQUIRES: alloc_lock.
 */
static Buffer
lsm_page_find_free(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	int			looks;

	Assert(LWLockHeldByMeInMode(&ctl->pages.alloc_lock, LW_EXCLUSIVE));
	for (looks = 0; looks < LSM_ALLOCATE_LOOKS && ctl->pages.free_pages > 0; looks++)
	{
		BlockNumber block = ctl->pages.alloc_cursor;
		Buffer		buffer;

		if (block == 0 || block >= ctl->pages.nblocks)
			block = 1;
		if (block >= ctl->pages.nblocks)
		{
			ctl->pages.free_pages = 0;	/* nothing but the metapage */
			break;
		}
		ctl->pages.alloc_cursor = block + 1;
		ctl->pages.free_pages--;

		buffer = lsm_page_read(tree, block);
		if (!ConditionalLockBuffer(buffer))
		{
			ReleaseBuffer(buffer);
			continue;
		}
		if (lsm_page_is_free(BufferGetPage(buffer),
							 pg_atomic_read_u64(&ctl->files.flushed_generation),
							 pg_atomic_read_u64(&ctl->files.manifest_id),
							 pg_atomic_read_u64(&ctl->files.manifest_pending)))
			return buffer;
		UnlockReleaseBuffer(buffer);
	}
	return InvalidBuffer;
}

/* REQUIRES: alloc_lock.  ERRORs with disk full. */
static Buffer
lsm_page_extend(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	Buffer		buffer;
	BlockNumber block;

	Assert(LWLockHeldByMeInMode(&ctl->pages.alloc_lock, LW_EXCLUSIVE));
	if (tree->relpersistence == RELPERSISTENCE_TEMP)
		buffer = ReadBufferExtended(tree->rel, MAIN_FORKNUM, P_NEW,
									RBM_ZERO_AND_LOCK, NULL);
	else
		buffer = lsm_extend_fork(tree->rlocator, tree->relpersistence);
	block = BufferGetBlockNumber(buffer);
	if (block == 0)
		elog(ERROR, "main fork of lsm relation %s has no metapage",
			 lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM));
	if (block >= ctl->pages.nblocks)
		ctl->pages.nblocks = block + 1;
	return buffer;
}

/*
 * n free pages, pinned and exclusively locked, content undefined.  The caller
 * initialises all of them, or none: an error before leaves them free.  ERRORs:
 * whatever reading or extending raises, disk full among them.  REQUIRES: no
 * content lock held but the metapage's, the manifest tail's and those of pages
 * allocated before; tree loaded or being loaded by the caller.
 */
void
lsm_page_allocate_many(LsmTree *tree, int n, Buffer *buffers)
{
	LsmTreeShared *ctl = tree->ctl;
	int			i;

	LWLockAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE);
	for (i = 0; i < n; i++)
	{
		buffers[i] = lsm_page_find_free(tree);
		if (!BufferIsValid(buffers[i]))
			buffers[i] = lsm_page_extend(tree);
	}
	LWLockRelease(&ctl->pages.alloc_lock);
}

Buffer
lsm_page_allocate(LsmTree *tree)
{
	Buffer		buffer;

	lsm_page_allocate_many(tree, 1, &buffer);
	return buffer;
}

Buffer
lsm_page_reuse(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	Buffer		buffer;

	if (!LWLockConditionalAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE))
		return InvalidBuffer;
	buffer = lsm_page_find_free(tree);
	LWLockRelease(&ctl->pages.alloc_lock);
	return buffer;
}

/* Pages that are added before others may allocate again */
#define LSM_ADD_BATCH	16

/*
 * They are the rest of the lap: behind the cursor, or it goes on with them.
 * REQUIRES: alloc_lock.
 */
static void
lsm_page_add_batch(LsmTree *tree, int n)
{
	LsmTreeShared *ctl = tree->ctl;
	BlockNumber first = InvalidBlockNumber;

	for (int i = 0; i < n; i++)
	{
		Buffer		buffer = lsm_page_extend(tree);

		if (i == 0)
			first = BufferGetBlockNumber(buffer);
		UnlockReleaseBuffer(buffer);
	}
	if (ctl->pages.free_pages == 0)
		ctl->pages.alloc_cursor = first;
	ctl->pages.free_pages += n;
}

void
lsm_page_add_free(LsmTree *tree, int n)
{
	LsmTreeShared *ctl = tree->ctl;
	bool		wanted;

	LWLockAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE);
	wanted = ctl->pages.free_pages == 0;
	for (int batch; wanted && n > 0; n -= batch)
	{
		batch = Min(n, LSM_ADD_BATCH);
		lsm_page_add_batch(tree, batch);
		LWLockRelease(&ctl->pages.alloc_lock);
		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE);
	}
	LWLockRelease(&ctl->pages.alloc_lock);
}

void
lsm_page_search_from(LsmTree *tree, BlockNumber block)
{
	LsmTreeShared *ctl = tree->ctl;

	LWLockAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE);
	ctl->pages.alloc_cursor = block;
	ctl->pages.free_pages = ctl->pages.nblocks > 1 ? (int64) ctl->pages.nblocks - 1 : 0;
	LWLockRelease(&ctl->pages.alloc_lock);
}

void
lsm_page_restart_search(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;

	LWLockAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE);
	ctl->pages.free_pages = ctl->pages.nblocks > 1 ? (int64) ctl->pages.nblocks - 1 : 0;
	LWLockRelease(&ctl->pages.alloc_lock);
}
