/*-------------------------------------------------------------------------
 *
 * log_read.c
 *	  The log read back: pages of generations that are not flushed, and the
 *	  entries in them.
 *
 * The pages are those of a generation that nobody appends to: of a tree that
 * is being loaded, or of one that a standby's redo feeds.  What cannot be
 * right is an ERROR (DATA_CORRUPTED), or is left out with a WARNING, if the
 * session wants what is left (lsm.ignore_missing_files; salvage.c).
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
#include "tree/disk/disk.h"
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
lsm_load_add_page(LsmLogScan *scan, Page page, BlockNumber block)
{
	const LsmLogHead *head = lsm_page_head(page);
	LsmLogPageRef *ref;

	if (scan->npages == scan->room)
	{
		scan->room = scan->room == 0 ? 256 : scan->room * 2;
		if (scan->pages == NULL)
			scan->pages = palloc(scan->room * sizeof(LsmLogPageRef));
		else
			scan->pages = repalloc_huge(scan->pages, scan->room * sizeof(LsmLogPageRef));
	}
	ref = &scan->pages[scan->npages++];
	memset(ref, 0, sizeof(*ref));
	ref->generation = lsm_page_opaque(page)->owner;
	ref->block = block;
	ref->headed = head != NULL;
	if (head != NULL)
		ref->head = *head;
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
lsm_load_scan(LsmTree *tree, BlockNumber nblocks, LsmLogScan *scan)
{
	uint64		flushed = pg_atomic_read_u64(&tree->ctl->files.flushed_generation);
	BlockNumber block;

	for (block = 1; block < nblocks; block++)
	{
		Buffer		buffer = lsm_load_read_page(tree, block, scan->strategy);
		Page		page = BufferGetPage(buffer);

		if (PageIsNew(page) || lsm_page_valid(page, LSM_PAGE_MANIFEST))
			 /* nothing of ours */ ;
		else if (!lsm_page_valid(page, LSM_PAGE_LOG))
			lsm_log_damage(tree, scan, block, "it is not a valid lsm log page");
		else if (lsm_page_opaque(page)->owner > flushed &&
				 (lsm_page_opaque(page)->flags & LSM_PAGE_CONTINUES) == 0)
			lsm_load_add_page(scan, page, block);
		UnlockReleaseBuffer(buffer);
	}
	if (scan->npages > 1)
		qsort(scan->pages, scan->npages, sizeof(LsmLogPageRef), lsm_log_page_compare);
}

bool
lsm_log_entries_intact(Page page, BlockNumber block, const char *entries, Size bytes)
{
	const LsmLogHead *head = lsm_page_head(page);

	return head == NULL ||
		lsm_log_crc_add(lsm_log_crc_begin(lsm_page_opaque(page)->owner, block, head),
						entries, bytes) == head->crc;
}

bool
lsm_log_page_intact(Page page, BlockNumber block)
{
	const char *entries = lsm_page_entries(page);

	return lsm_log_entries_intact(page, block, entries,
								  (char *) page + ((PageHeader) page)->pd_lower - entries);
}

bool
lsm_log_page_continues(Page page, uint64 generation)
{
	return lsm_page_valid(page, LSM_PAGE_LOG) &&
		lsm_page_opaque(page)->owner == generation &&
		(lsm_page_opaque(page)->flags & LSM_PAGE_CONTINUES) != 0 &&
		((PageHeader) page)->pd_lower > LSM_PAGE_START;
}

/* ---- damage ---- */

static void
lsm_log_report(int elevel, LsmTree *tree, BlockNumber block, const char *what)
{
	ereport(elevel,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("corrupted log page in block %u of relation %s: %s", block,
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM), what),
			 elevel < ERROR ? 0 : tree->kind == LSM_KIND_INDEX ?
			 errhint("Rebuild the index with REINDEX.") :
			 errhint("Restore the table from a backup. What is left of it can be read with lsm.ignore_missing_files.")));
}

void
lsm_log_corrupt(LsmTree *tree, BlockNumber block, const char *what)
{
	lsm_log_report(ERROR, tree, block, what);
}

void
lsm_log_damage(LsmTree *tree, LsmLogScan *scan, BlockNumber block, const char *what)
{
	lsm_log_report(scan->lenient ? WARNING : ERROR, tree, block, what);
	scan->incomplete = true;

	/* so that this session is not told twice (version.c) */
	(void) lsm_warn_about_file(tree->keyspace_id, LSM_LOST_LOG_PAGES);
}

/* ---- entries ---- */

bool
lsm_log_read_header(const LsmTree *tree, const char *data, const char *end, LsmLogHeader *header)
{
	return lsm_log_header_get(data, end, header) &&
		header->key_bytes > 0 && header->value_bytes > 0 && /* a value has a tag */
		header->key_bytes + header->value_bytes <= LSM_MAX_ENTRY_BYTES &&
		(tree->kind != LSM_KIND_INDEX || header->key_bytes >= LSM_TID_BYTES) &&
		header->seq_step > 0;
}

bool
lsm_log_page_spans(const LsmTree *tree, Page page, LsmLogHeader *header)
{
	const char *data = lsm_page_entries(page);
	const char *end = (char *) page + ((PageHeader) page)->pd_lower;

	return lsm_log_read_header(tree, data, end, header) &&
		lsm_log_header_total(header) > end - data;
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
 * Put together an entry that is longer than its first page.  False: it is
 * damaged, as is noted.  REQUIRES: `first` is a copy of that page.
 */
static bool
lsm_load_spanning(LsmTree *tree, const LsmLogPageRef *ref, Page first, uint32 total,
				  LsmLogScan *scan)
{
	const char *entries = lsm_page_entries(first);
	BlockNumber block = ref->block;
	BlockNumber next = lsm_page_opaque(first)->next;
	StringInfo	entry = &scan->spanning;

	resetStringInfo(entry);
	appendBinaryStringInfo(entry, entries,
						   (char *) first + ((PageHeader) first)->pd_lower - entries);
	while (entry->len < total)
	{
		Buffer		buffer;
		Page		page;

		if (next == InvalidBlockNumber || next == block)
		{
			lsm_log_damage(tree, scan, block, "an entry is cut off");
			return false;
		}
		buffer = lsm_load_read_page(tree, next, scan->strategy);
		page = BufferGetPage(buffer);
		block = next;
		if (!lsm_log_page_continues(page, ref->generation))
		{
			UnlockReleaseBuffer(buffer);
			lsm_log_damage(tree, scan, block, "not the continuation it should be");
			return false;
		}
		next = lsm_page_opaque(page)->next;
		appendBinaryStringInfo(entry, (char *) page + LSM_PAGE_START,
							   ((PageHeader) page)->pd_lower - LSM_PAGE_START);
		UnlockReleaseBuffer(buffer);
	}
	if (lsm_log_entries_intact(first, ref->block, entry->data, entry->len))
		return true;
	lsm_log_damage(tree, scan, ref->block, "wrong checksum of a long entry");
	return false;
}

/* Those of the page alone.  REQUIRES: it is intact. */
static bool
lsm_load_entries(LsmTree *tree, LsmMemtable *memtable, BlockNumber block, Page page,
				 LsmLogScan *scan)
{
	const char *data = lsm_page_entries(page);
	const char *end = (char *) page + ((PageHeader) page)->pd_lower;
	uint64		seq = 0;

	while (data < end)
	{
		LsmLogHeader header;

		if (!lsm_log_read_header(tree, data, end, &header))
		{
			lsm_log_damage(tree, scan, block, "impossible entry header");
			break;
		}
		if (lsm_log_header_total(&header) > end - data)
		{
			lsm_log_damage(tree, scan, block, "an entry is cut off");
			break;
		}
		seq += header.seq_step;
		if (!lsm_load_entry(tree, memtable, &header, seq, data))
			return false;
		data += lsm_log_header_total(&header);
	}
	return true;
}

bool
lsm_load_page(LsmTree *tree, LsmMemtable *memtable, const LsmLogPageRef *ref, LsmLogScan *scan)
{
	Buffer		buffer = lsm_load_read_page(tree, ref->block, scan->strategy);
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;
	LsmLogHeader header;

	memcpy(page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	if (!lsm_page_valid(page, LSM_PAGE_LOG))
	{
		lsm_log_damage(tree, scan, ref->block, "it is not a valid lsm log page");
		return true;
	}
	if (lsm_log_page_spans(tree, page, &header))
		return !lsm_load_spanning(tree, ref, page, lsm_log_header_total(&header), scan) ||
			lsm_load_entry(tree, memtable, &header, header.seq_step, scan->spanning.data);
	if (!lsm_log_page_intact(page, ref->block))
	{
		lsm_log_damage(tree, scan, ref->block, "wrong checksum");
		return true;
	}
	return lsm_load_entries(tree, memtable, ref->block, page, scan);
}
