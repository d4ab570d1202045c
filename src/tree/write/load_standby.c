/*-------------------------------------------------------------------------
 *
 * load_standby.c
 *	  Loading a tree in recovery: the log pages that redo has written before it
 *	  began to feed the tree.
 *
 * The memtables are in the control block from the start, and the startup
 * process adds to them, seals and drops them meanwhile (disk/standby.c).  An
 * entry that both know comes with the same sequence number and goes in once.
 * Nothing is flushed: that is the primary's business.
 *
 * Locking: content locks one at a time, a page copied before its entries go to
 * the memtables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/log_entry.h"
#include "tree/disk/page.h"
#include "tree/disk/standby.h"
#include "tree/memtable/memtable.h"
#include "tree/write/load.h"

/* How often a loader in recovery asks for memory, milliseconds apart */
#define LSM_LOAD_TRIES	5000

/*
 * One entry; redo may be adding others to the same memtable, or be dropping
 * the memtable.
 */
static void
lsm_load_feed(LsmTree *tree, uint64 generation, const LsmLogHeader *header, uint64 seq,
			  const char *data)
{
	LsmTreeShared *ctl = tree->ctl;
	LsmSlice	key = lsm_slice(data + header->header_bytes, header->key_bytes);
	LsmSlice	value = lsm_slice(key.data + key.len, header->value_bytes);

	for (int tries = 0;; tries++)
	{
		LsmFed		fed;

		lsm_epoch_enter();
		fed = lsm_standby_feed(ctl, tree->keyspace_id, generation, seq, key, value);
		lsm_epoch_exit();
		if (fed != LSM_FED_FULL)
			return;
		if (tries > LSM_LOAD_TRIES)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 tree->rel != NULL ?
					 errmsg("no memory for the entries of relation \"%s\" could be had",
							RelationGetRelationName(tree->rel)) :
					 errmsg("no memory for the entries of relation %s could be had",
							lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM)),
					 errhint("Increase lsm.memtable_memory on this server: it should be no less than the primary's.")));
		CHECK_FOR_INTERRUPTS();
		(void) lsm_control_evict(ctl, 16, PG_UINT64_MAX);
		if (lsm_memtable_reclaim() == 0)
			LSM_NAP(1000L, "LsmMemory");
	}
}

/*
 * The rest of an entry that is longer than its first page.  False: the pages
 * are used again, because the generation has been flushed meanwhile.
 */
static bool
lsm_load_feed_spanning(LsmTree *tree, uint64 generation, BlockNumber block, BlockNumber next,
					   uint32 total, BufferAccessStrategy strategy, StringInfo entry)
{
	while (entry->len < total)
	{
		Buffer		buffer;
		Page		page;
		bool		fits;

		if (next == InvalidBlockNumber || next == block)
			lsm_log_corrupt(tree, block, "an entry is cut off");
		buffer = lsm_load_read_page(tree, next, strategy);
		page = BufferGetPage(buffer);
		fits = lsm_log_page_continues(page, generation);
		block = next;
		if (fits)
		{
			appendBinaryStringInfo(entry, (char *) page + LSM_PAGE_START,
								   ((PageHeader) page)->pd_lower - LSM_PAGE_START);
			next = lsm_page_opaque(page)->next;
		}
		UnlockReleaseBuffer(buffer);
		if (!fits)
		{
			if (pg_atomic_read_u64(&tree->ctl->files.flushed_generation) < generation)
				lsm_log_corrupt(tree, block, "not the continuation it should be");
			return false;
		}
	}
	return true;
}

/*
 * The page in the block is one of the generation's list, and is as it was when
 * `crc` was written, if that is not NULL.  Redo writes a page before anything
 * names it (rmgr.c).  If the generation is flushed meanwhile, the page may be
 * used again.
 */
static void
lsm_load_check_named(LsmTree *tree, uint64 generation, BlockNumber block, const pg_crc32c *crc,
					 BufferAccessStrategy strategy)
{
	BlockNumber nblocks = smgrnblocks(smgropen(tree->rlocator, tree->backend), MAIN_FORKNUM);
	bool		there = false;
	bool		same = false;

	if (block < nblocks)
	{
		Buffer		buffer = lsm_load_read_page(tree, block, strategy);
		Page		page = BufferGetPage(buffer);

		there = lsm_page_valid(page, LSM_PAGE_LOG) && lsm_page_head(page) != NULL &&
			lsm_page_opaque(page)->owner == generation;
		same = there && (crc == NULL || EQ_CRC32C(lsm_page_head(page)->crc, *crc));
		UnlockReleaseBuffer(buffer);
	}
	if (!same && pg_atomic_read_u64(&tree->ctl->files.flushed_generation) < generation)
		lsm_log_corrupt(tree, block,
						there ? "it is not as it was written last" : "its entries are lost");
}

/* Are the pages there that this one and the metapage name? */
static void
lsm_load_check_head(LsmTree *tree, Page page, BufferAccessStrategy strategy)
{
	const LsmLogHead *head = lsm_page_head(page);
	uint64		generation = lsm_page_opaque(page)->owner;

	if (head == NULL)
		return;
	if (head->before != InvalidBlockNumber)
		lsm_load_check_named(tree, generation, head->before, &head->before_crc, strategy);
	if (head->next != InvalidBlockNumber)
		lsm_load_check_named(tree, generation, head->next, NULL, strategy);
}

static void
lsm_load_check_roots(LsmTree *tree, BufferAccessStrategy strategy)
{
	LsmMetaPage *page;
	LsmMetaPage meta;
	Buffer		buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);

	meta = *page;
	UnlockReleaseBuffer(buffer);
	for (int i = 0; i < LSM_LOG_ROOTS; i++)
	{
		if (meta.log_roots[i].generation > meta.flushed_generation)
			lsm_load_check_named(tree, meta.log_roots[i].generation, meta.log_roots[i].block,
								 NULL, strategy);
	}
}

/* REQUIRES: `page` is a copy. */
static void
lsm_load_feed_page(LsmTree *tree, BlockNumber block, Page page, BufferAccessStrategy strategy,
				   StringInfo spanning)
{
	LsmPageOpaque *opaque = lsm_page_opaque(page);
	const char *data = lsm_page_entries(page);
	const char *end = (char *) page + ((PageHeader) page)->pd_lower;
	uint64		seq = 0;
	LsmLogHeader header;

	if (lsm_log_page_spans(tree, page, &header))
	{
		resetStringInfo(spanning);
		appendBinaryStringInfo(spanning, data, end - data);
		if (!lsm_load_feed_spanning(tree, opaque->owner, block, opaque->next,
									lsm_log_header_total(&header), strategy, spanning))
			return;
		if (!lsm_log_entries_intact(page, block, spanning->data, spanning->len))
			lsm_log_corrupt(tree, block, "wrong checksum of a long entry");
		lsm_load_feed(tree, opaque->owner, &header, header.seq_step, spanning->data);
		return;
	}
	if (!lsm_log_page_intact(page, block))
		lsm_log_corrupt(tree, block, "wrong checksum");
	while (data < end)
	{
		if (!lsm_log_read_header(tree, data, end, &header))
			lsm_log_corrupt(tree, block, "impossible entry header");
		if (lsm_log_header_total(&header) > end - data)
			lsm_log_corrupt(tree, block, "an entry is cut off");
		seq += header.seq_step;
		lsm_load_feed(tree, opaque->owner, &header, seq, data);
		data += lsm_log_header_total(&header);
	}
}

void
lsm_load_standby(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	PGAlignedBlock copy;
	StringInfoData spanning;
	BlockNumber nblocks;

	initStringInfo(&spanning);
	nblocks = smgrnblocks(smgropen(tree->rlocator, tree->backend), MAIN_FORKNUM);
	for (BlockNumber block = 1; block < nblocks; block++)
	{
		Buffer		buffer = lsm_load_read_page(tree, block, strategy);
		Page		page = BufferGetPage(buffer);
		bool		wanted = false;

		if (!PageIsNew(page) &&
			(PageGetSpecialSize(page) != MAXALIGN(sizeof(LsmPageOpaque)) ||
			 lsm_page_opaque(page)->type != LSM_PAGE_MANIFEST))
		{
			LsmPageOpaque *opaque = lsm_page_check(tree, page, block, LSM_PAGE_LOG);

			wanted = opaque->owner > pg_atomic_read_u64(&ctl->files.flushed_generation) &&
				(opaque->flags & LSM_PAGE_CONTINUES) == 0;
		}
		if (wanted)
			memcpy(copy.data, page, BLCKSZ);
		UnlockReleaseBuffer(buffer);
		if (wanted)
		{
			LSM_CRASH_POINT("standby_load_page");
			lsm_load_feed_page(tree, block, copy.data, strategy, &spanning);
			lsm_load_check_head(tree, copy.data, strategy);
		}
	}
	lsm_load_check_roots(tree, strategy);
}
