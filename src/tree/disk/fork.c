/*-------------------------------------------------------------------------
 *
 * fork.c
 *	  What a main fork holds when it is not, or not certainly, one of ours.
 *
 * Tools that rewrite tables beside their users exchange the files of two
 * relations in pg_class (pg_repack), and not their access methods.  Then an
 * access method meets pages of another one.  We say whose they are and how to
 * read them; heap, given our pages, crashes, so such an exchange has to be
 * found before it commits (src/ddl/file_swap.c).  And whether a fork is a
 * transaction's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/parallel.h"
#include "catalog/pg_am_d.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "tree/disk/disk.h"
#include "tree/disk/page.h"

/*
 * See disk.h.  A parallel worker has built its relcache anew, without what the
 * leader has done in the transaction: it takes nothing for committed.
 */
bool
lsm_fork_may_roll_back(Relation rel)
{
	return IsParallelWorker() ||
		rel->rd_createSubid != InvalidSubTransactionId ||
		rel->rd_newRelfilelocatorSubid != InvalidSubTransactionId ||
		rel->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
}

/*
 * A damaged metapage of ours must not be taken for a heap page, which has no
 * special space either: the rows would be given up.  So every line pointer has
 * to make sense.
 */
static bool
looks_like_heap(Page page)
{
	PageHeader	header = (PageHeader) page;
	OffsetNumber items;
	int			tuples = 0;

	if (header->pd_special != BLCKSZ || header->pd_upper > BLCKSZ ||
		header->pd_lower < SizeOfPageHeaderData || header->pd_lower > header->pd_upper ||
		(header->pd_lower - SizeOfPageHeaderData) % sizeof(ItemIdData) != 0)
		return false;
	items = PageGetMaxOffsetNumber(page);
	for (OffsetNumber i = FirstOffsetNumber; i <= items; i++)
	{
		ItemId		item = PageGetItemId(page, i);

		if (ItemIdIsNormal(item))
		{
			if (ItemIdGetOffset(item) < header->pd_upper ||
				ItemIdGetOffset(item) != MAXALIGN(ItemIdGetOffset(item)) ||
				ItemIdGetLength(item) < SizeofHeapTupleHeader ||
				ItemIdGetOffset(item) + ItemIdGetLength(item) > BLCKSZ)
				return false;
			tuples++;
		}
		else if (ItemIdHasStorage(item) ||
				 (ItemIdIsRedirected(item) ? ItemIdGetRedirect(item) > items : ItemIdGetOffset(item) != 0))
			return false;
	}
	return tuples > 0 || (items == 0 && header->pd_upper == BLCKSZ);
}

static LsmForkContent
page_content(Page page)
{
	PageHeader	header = (PageHeader) page;

	if (PageIsNew(page))
		return LSM_FORK_ZERO;
	if (header->pd_lower >= MAXALIGN(SizeOfPageHeaderData) + sizeof(uint32) &&
		((LsmMetaPage *) PageGetContents(page))->magic == LSM_META_MAGIC)
		return LSM_FORK_OURS;
	if (PageGetPageLayoutVersion(page) != PG_PAGE_LAYOUT_VERSION)
		return LSM_FORK_UNKNOWN;
	if (PageGetSpecialSize(page) == MAXALIGN(sizeof(BTPageOpaqueData)) &&
		BTPageGetMeta(page)->btm_magic == BTREE_MAGIC)
		return LSM_FORK_BTREE;

	return looks_like_heap(page) ? LSM_FORK_HEAP : LSM_FORK_UNKNOWN;
}

/* See tree.h. */
LsmForkContent
lsm_fork_content(Relation rel)
{
	LsmForkContent content;
	Buffer		buffer;

	if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) == 0)
		return LSM_FORK_EMPTY;
	buffer = ReadBuffer(rel, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	content = page_content(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	return content;
}

/* ---- what to tell the user ---- */

static int
errdetail_fork(LsmForkContent content)
{
	switch (content)
	{
		case LSM_FORK_EMPTY:
			return errdetail("The file is empty.");
		case LSM_FORK_ZERO:
			return errdetail("The first page of the file is empty.");
		case LSM_FORK_HEAP:
			return errdetail("The file has pages of a heap table: the file was exchanged, but not the access method, as some tools do that rewrite tables.");
		case LSM_FORK_BTREE:
			return errdetail("The file is that of a btree index.");
		default:
			return errdetail("The file has pages of an unknown kind.");
	}
}

/*
 * ERROR (DATA_CORRUPTED) unless the relation's fork begins with a metapage of
 * ours, if it is one that can be read at all.  Nothing is changed: what is in
 * the file may be all there is.
 */
void
lsm_fork_check(Relation rel, LsmKind kind)
{
	LsmForkContent content = lsm_fork_content(rel);
	const char *path;

	if (likely(content == LSM_FORK_OURS))
		return;
	path = lsm_relpath(rel->rd_locator, rel->rd_backend, MAIN_FORKNUM);
	if (kind == LSM_KIND_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block 0 of file \"%s\" of index \"%s\" is not a valid lsm metapage",
						path, RelationGetRelationName(rel)),
				 errdetail_fork(content),
				 errhint("Rebuild the index with REINDEX.")));
	if (content == LSM_FORK_HEAP)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block 0 of file \"%s\" of table \"%s\" is not a valid lsm metapage",
						path, RelationGetRelationName(rel)),
				 errdetail_fork(content),
				 errhint("The rows in the file can be read as a heap table: as superuser, run SET allow_system_table_mods = on; UPDATE pg_catalog.pg_class SET relam = %u WHERE oid = %u; REINDEX TABLE. Then ALTER TABLE ... SET ACCESS METHOD lsm.",
						 HEAP_TABLE_AM_OID, RelationGetRelid(rel))));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block 0 of file \"%s\" of table \"%s\" is not a valid lsm metapage",
					path, RelationGetRelationName(rel)),
			 errdetail_fork(content),
			 errhint("Restore the table from a backup.")));
}
