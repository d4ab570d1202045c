/*-------------------------------------------------------------------------
 *
 * log_read.c
 *	  The log read back: pages of generations that are not flushed, and the
 *	  entries in them.
 *
 * The pages are those of a generation that nobody appends to: of a tree that
 * is being loaded, or of one that a standby's redo feeds.  What cannot be
 * right is an ERROR (DATA_CORRUPTED).
 *
 * Locking: content locks, shared, one at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "tree/control/control.h"
#include "tree/disk/log_entry.h"
#include "tree/disk/page.h"
#include "tree/memtable/memtable.h"
#include "tree/write/load.h"

/* ---- pages ---- */

Buffer
lsm_load_read_page(LsmTree *tree, BlockNumber block, BufferAccessStrategy strategy)
{
	Buffer		buffer;

	CHECK_FOR_INTERRUPTS();
	buffer = ReadBufferWithoutRelcache(tree->rlocator, MAIN_FORKNUM, block,
									   RBM_NORMAL, strategy,
									   tree->relpersistence == RELPERSISTENCE_PERMANENT);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	return buffer;
}

static void
lsm_load_add_page(LsmLogScan *scan, uint64 generation, BlockNumber block)
{
	if (scan->npages == scan->room)
	{
		scan->room = scan->room == 0 ? 256 : scan->room * 2;
		if (scan->pages == NULL)
			scan->pages = palloc(scan->room * sizeof(LsmLogPageRef));
		else
			scan->pages = repalloc_huge(scan->pages, scan->room * sizeof(LsmLogPageRef));
	}
	scan->pages[scan->npages].generation = generation;
	scan->pages[scan->npages].block = block;
	scan->npages++;
}

static int
lsm_log_page_compare(const void *a, const void *b)
{
	const LsmLogPageRef *l = a;
	const LsmLogPageRef *r = b;

	if (l->generation != r->generation)
		return l->generation < r->generation ? -1 : 1;
	return (l->block > r->block) - (l->block < r->block);
}

void
lsm_load_scan(LsmTree *tree, BlockNumber nblocks, LsmLogScan *scan,
			  BufferAccessStrategy strategy)
{
	uint64		flushed = pg_atomic_read_u64(&tree->ctl->flushed_generation);
	BlockNumber block;

	memset(scan, 0, sizeof(*scan));
	for (block = 1; block < nblocks; block++)
	{
		Buffer		buffer = lsm_load_read_page(tree, block, strategy);
		Page		page = BufferGetPage(buffer);

		if (!PageIsNew(page))
		{
			LsmPageOpaque *opaque;

			if (PageGetSpecialSize(page) == MAXALIGN(sizeof(LsmPageOpaque)) &&
				lsm_page_opaque(page)->type == LSM_PAGE_MANIFEST)
				opaque = lsm_page_check(tree, page, block, LSM_PAGE_MANIFEST);
			else
			{
				opaque = lsm_page_check(tree, page, block, LSM_PAGE_LOG);
				if (opaque->owner > flushed &&
					(opaque->flags & LSM_PAGE_CONTINUES) == 0)
					lsm_load_add_page(scan, opaque->owner, block);
			}
		}
		UnlockReleaseBuffer(buffer);
	}
	if (scan->npages > 1)
		qsort(scan->pages, scan->npages, sizeof(LsmLogPageRef), lsm_log_page_compare);
}

/* ---- entries ---- */

void
lsm_log_corrupt(LsmTree *tree, BlockNumber block, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("corrupted log page in block %u of relation %s: %s", block,
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM), what),
			 errhint("Rebuild the index with REINDEX, or restore the table from a backup.")));
}

void
lsm_log_read_header(LsmTree *tree, BlockNumber block, const char *data, const char *end,
					LsmLogHeader *header)
{
	if (!lsm_log_header_get(data, end, header) ||
		header->key_bytes == 0 || header->value_bytes == 0 ||	/* a value has a tag */
		header->key_bytes + header->value_bytes > LSM_MAX_ENTRY_BYTES ||
		(tree->kind == LSM_KIND_INDEX && header->key_bytes < LSM_TID_BYTES) ||
		header->seq_step == 0)
		lsm_log_corrupt(tree, block, "impossible entry header");
}

/* Into the memtable and the counters; false: no memory. */
static bool
lsm_load_entry(LsmTree *tree, LsmMemtable *memtable, const LsmLogHeader *header,
			   uint64 seq, const char *data)
{
	LsmTreeShared *ctl = tree->ctl;
	LsmSlice	key = lsm_slice(data + header->header_bytes, header->key_bytes);
	LsmSlice	value = lsm_slice(key.data + key.len, header->value_bytes);
	LsmSlice	filter_key;
	void	   *reserved;

	filter_key = lsm_filter_key(tree, key);

	reserved = lsm_memtable_reserve(memtable, key.len, value.len);
	if (reserved == NULL)
		return false;

	/* nobody else has the memtable yet: nodes can be linked all at once */
	lsm_memtable_insert(memtable, reserved, seq, key, value,
						lsm_memtable_digest(tree, key,
											lsm_digest_key(filter_key.data, filter_key.len)),
						true);

	if (seq > pg_atomic_read_u64(&ctl->seq))
		pg_atomic_write_u64(&ctl->seq, seq);
	if (tree->kind == LSM_KIND_TABLE && key.len == LSM_TID_BYTES)
	{
		uint64		limit = lsm_row_key_limit(key);

		if (limit > pg_atomic_read_u64(&ctl->row_limit))
			pg_atomic_write_u64(&ctl->row_limit, limit);
	}
	return true;
}

/*
 * Put together an entry that is longer than its first page.  `buffer`, locked,
 * is that page; it is released.
 */
static void
lsm_load_spanning(LsmTree *tree, uint64 generation, Buffer buffer,
				  BufferAccessStrategy strategy, uint32 total, StringInfo entry)
{
	BlockNumber block = BufferGetBlockNumber(buffer);

	resetStringInfo(entry);
	for (;;)
	{
		Page		page = BufferGetPage(buffer);
		LsmPageOpaque *opaque = lsm_page_opaque(page);
		BlockNumber next = opaque->next;

		appendBinaryStringInfo(entry, (char *) page + LSM_PAGE_START,
							   ((PageHeader) page)->pd_lower - LSM_PAGE_START);
		UnlockReleaseBuffer(buffer);
		if (entry->len >= total)
			break;
		if (next == InvalidBlockNumber || next == block)
			lsm_log_corrupt(tree, block, "an entry is cut off");

		buffer = lsm_load_read_page(tree, next, strategy);
		opaque = lsm_page_check(tree, BufferGetPage(buffer), next, LSM_PAGE_LOG);
		if (opaque->owner != generation || (opaque->flags & LSM_PAGE_CONTINUES) == 0 ||
			((PageHeader) BufferGetPage(buffer))->pd_lower == LSM_PAGE_START)
			lsm_log_corrupt(tree, next, "not the continuation it should be");
		block = next;
	}
}

bool
lsm_load_page(LsmTree *tree, LsmMemtable *memtable, LsmLogPageRef ref,
			  BufferAccessStrategy strategy, StringInfo spanning)
{
	Buffer		buffer = lsm_load_read_page(tree, ref.block, strategy);
	Page		page = BufferGetPage(buffer);
	const char *data = (char *) page + LSM_PAGE_START;
	const char *end;
	uint64		seq = 0;
	bool		ok = true;

	(void) lsm_page_check(tree, page, ref.block, LSM_PAGE_LOG);
	end = (char *) page + ((PageHeader) page)->pd_lower;
	while (ok && data < end)
	{
		LsmLogHeader header;

		lsm_log_read_header(tree, ref.block, data, end, &header);
		if (lsm_log_header_total(&header) > end - data)
		{
			if (data != (char *) page + LSM_PAGE_START)
				lsm_log_corrupt(tree, ref.block, "an entry is cut off");
			lsm_load_spanning(tree, ref.generation, buffer, strategy,
							  lsm_log_header_total(&header), spanning);
			return lsm_load_entry(tree, memtable, &header, header.seq_step, spanning->data);
		}
		seq += header.seq_step;
		ok = lsm_load_entry(tree, memtable, &header, seq, data);
		data += lsm_log_header_total(&header);
	}
	UnlockReleaseBuffer(buffer);
	return ok;
}
