/*-------------------------------------------------------------------------
 *
 * manifest.c
 *	  The list of a tree's sorted files, kept in pages of its main fork.
 *
 * The manifest is a stream of records (fileset.c) cut into pages without
 * regard to record boundaries: a chain from meta->manifest_root by `next`, all
 * pages marked with the manifest's id.
 *
 * An edit appends a record to the tail and updates the metapage in one WAL
 * record.  When the chain has become long for what it says, the new state is
 * written as a snapshot into a chain of its own, page by page, each with its
 * own WAL record and reachable from nowhere, and one EDIT record flips the
 * root. Until then pages of the new chain are kept from the allocator by
 * ctl->files.manifest_pending; should the rewrite fail, the next one takes a
 * higher id and they are free.  (After a crash in a rewrite the same id may be used
 * again; then the abandoned pages stay unused until the rewrite after that
 * one.  They are in no chain, which goes by `next` alone.)
 *
 * Checkpoints: every change of the reachable manifest is a single record, and
 * the files it names were durable before, so any redo start is consistent.
 *
 * Locking: the metapage's content lock, exclusive from the reading of the old
 * state to the end of the edit, serialises edits; readers hold it shared while
 * they read the chain, so no page of it is reused under them.
 *
 * Neither a reader nor an edit reads the whole chain if it need not.  A reader
 * goes on from where it came to last time, as long as the chain has the same
 * id: what is in a chain does not change, and no two chains that a process may
 * see have one id.  An edit reads the chain only to see what a snapshot would
 * be: at first, and when the chain has come to ctl->files.manifest_limit pages,
 * so that a chain which only grows is looked at each time that it has doubled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/fileset.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"
#include "tree/disk/wal.h"

/* A longer edit is written as a new snapshot, which has no limit */
#define LSM_EDIT_NEW_PAGES	8

/* A chain is not rewritten below this length */
#define LSM_CHAIN_MIN_PAGES	4

/* File numbers reserved ahead, so that edits mostly do it by the way */
#define LSM_FILE_RANGE		64

/* ---- reading ---- */

/*
 * What the metapage says of the chain sizes memory and bounds loops.  Up to
 * version 4 nothing else vouches for it.  REQUIRES: metapage locked.
 */
static void
lsm_manifest_check_bounds(LsmTree *tree, const LsmMetaPage *meta)
{
	SMgrRelation smgr = smgropen(tree->rlocator, tree->backend);
	BlockNumber nblocks = smgrnblocks(smgr, MAIN_FORKNUM);
	bool		empty = meta->manifest_root == InvalidBlockNumber;

	if (empty != (meta->manifest_pages == 0) || meta->manifest_pages >= nblocks ||
		(!empty && (meta->manifest_root == 0 || meta->manifest_root >= nblocks ||
					meta->manifest_tail == 0 || meta->manifest_tail >= nblocks)) ||
		meta->manifest_files > (uint64) meta->manifest_pages * LSM_PAGE_BYTES / LSM_FILE_RECORD_LEAST)
		lsm_manifest_corrupt(tree, "block 0 contradicts it");
}

/*
 * The chain's bytes, or those behind `place`, which then moves to the end.
 * False: that place is not in the chain.  REQUIRES: metapage locked.
 */
static bool
lsm_manifest_read_chain(LsmTree *tree, const LsmMetaPage *meta, LsmManifestPlace *place,
						StringInfo chain)
{
	bool		amid = place->block != InvalidBlockNumber;
	BlockNumber block = amid ? place->block : meta->manifest_root;
	uint32		npages = amid ? place->pages - 1 : 0;

	initStringInfo(chain);
	while (block != InvalidBlockNumber)
	{
		uint32		start = amid ? place->offset : LSM_PAGE_START;
		Buffer		buffer;
		Page		page;
		LsmPageOpaque *opaque;

		if (++npages > meta->manifest_pages)
			lsm_manifest_corrupt(tree, "too many pages");
		buffer = lsm_page_read(tree, block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		opaque = lsm_page_check(tree, page, block, LSM_PAGE_MANIFEST);
		if (opaque->owner != meta->manifest_id || ((PageHeader) page)->pd_lower < start)
		{
			UnlockReleaseBuffer(buffer);
			if (amid)
				return false;
			lsm_manifest_corrupt(tree, "a page of another list");
		}
		appendBinaryStringInfo(chain, (char *) page + start,
							   ((PageHeader) page)->pd_lower - start);
		place->block = block;
		place->offset = ((PageHeader) page)->pd_lower;
		block = opaque->next;
		amid = false;
		UnlockReleaseBuffer(buffer);
	}
	if (npages != meta->manifest_pages || place->block != meta->manifest_tail)
		lsm_manifest_corrupt(tree, "pages are missing");
	place->manifest_id = meta->manifest_id;
	place->version_no = meta->version_no;
	place->pages = npages;
	place->files = meta->manifest_files;
	return true;
}

static const LsmManifestPlace nowhere = {.block = InvalidBlockNumber};

/* All of it.  REQUIRES: metapage locked. */
static void
lsm_manifest_read_all(LsmTree *tree, const LsmMetaPage *meta, LsmManifestPlace *place,
					  StringInfo chain)
{
	*place = nowhere;
	(void) lsm_manifest_read_chain(tree, meta, place, chain);
}

static void
lsm_manifest_check_keyspace(const LsmTree *tree, const LsmMetaPage *meta)
{
	if (!lsm_meta_names(meta, tree, RecoveryInProgress()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation %s has been replaced while it was in use",
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));
}

/* Does the reader who came to `place` need no more than what follows? */
static bool
lsm_manifest_goes_on(const LsmMetaPage *meta, const LsmManifestPlace *place)
{
	return place->manifest_id == meta->manifest_id &&
		place->version_no <= meta->version_no &&
		place->pages > 0 && place->pages <= meta->manifest_pages;
}

/* See manifest.h.  ERRORs: DATA_CORRUPTED. */
void
lsm_manifest_read_change(LsmTree *tree, const LsmManifestPlace *since,
						 LsmManifestChange *change)
{
	MemoryContext result_context = CurrentMemoryContext;
	MemoryContext context;
	LsmMetaPage *page;
	LsmMetaPage meta;
	StringInfoData chain;
	LsmFileSet	set;
	Buffer		buffer;

	context = AllocSetContextCreate(CurrentMemoryContext, "lsm manifest",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	memset(change, 0, sizeof(*change));

	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	meta = *page;
	lsm_manifest_check_keyspace(tree, &meta);
	lsm_manifest_check_bounds(tree, &meta);
	change->flushed_generation = meta.flushed_generation;
	change->place = *since;
	change->whole = !lsm_manifest_goes_on(&meta, since) ||
		!lsm_manifest_read_chain(tree, &meta, &change->place, &chain);
	if (change->whole)
		lsm_manifest_read_all(tree, &meta, &change->place, &chain);
	UnlockReleaseBuffer(buffer);

	lsm_fileset_init(&set, change->whole ? meta.manifest_files : 0, !change->whole);
	lsm_fileset_decode(tree, &chain, &set);
	if ((int64) (change->whole ? 0 : since->files) + set.nfiles - set.nremoved !=
		meta.manifest_files)
		lsm_manifest_corrupt(tree, "wrong number of files");

	MemoryContextSwitchTo(result_context);
	change->files = lsm_fileset_files(tree, &set);
	change->nfiles = set.nfiles;
	change->nremoved = set.nremoved;
	change->removed = palloc_extended(Max(set.nremoved, 1) * sizeof(uint64),
									  MCXT_ALLOC_HUGE);
	if (set.nremoved > 0)
		memcpy(change->removed, set.removed, set.nremoved * sizeof(uint64));
	MemoryContextDelete(context);
}

LsmFileMeta *
lsm_manifest_read(LsmTree *tree, int *nfiles)
{
	LsmManifestChange change;

	lsm_manifest_read_change(tree, &nowhere, &change);
	pfree(change.removed);
	*nfiles = change.nfiles;
	return change.files;
}

/* ---- file numbers ---- */

/*
 * See manifest.h, and control.c for why a number is never handed out twice.
 * The record need not be flushed: the pieces of a file of that number and the
 * edit that adds it come behind it, and a file of which no record is left
 * after a crash is a stray.
 */
void
lsm_manifest_reserve(LsmTree *tree, uint64 n)
{
	LsmTreeShared *ctl = tree->ctl;
	LsmMetaPage *page;
	LsmMetaPage meta;
	Buffer		buffer;
	uint64		limit;

	if (pg_atomic_read_u64(&ctl->files.next_file) + n <= pg_atomic_read_u64(&ctl->files.file_limit))
		return;
	Assert(ctl->state != LSM_STATE_UNLOADED);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);
	meta = *page;
	lsm_manifest_check_keyspace(tree, &meta);
	Assert(meta.next_file == pg_atomic_read_u64(&ctl->files.file_limit));
	limit = pg_atomic_read_u64(&ctl->files.next_file) + n + LSM_FILE_RANGE;
	if (meta.next_file < limit)
	{
		meta.next_file = limit;
		lsm_meta_store(buffer, &meta, XLOG_LSM_META, tree->rlocator, tree->backend,
					   tree->relpersistence);
		LSM_CRASH_POINT("numbers_reserved");
	}
	pg_atomic_write_u64(&ctl->files.file_limit, meta.next_file);
	UnlockReleaseBuffer(buffer);
}

/* ---- editing ---- */

/* Numbers removed for good: not those that only move; palloc'd. */
static uint64 *
lsm_edit_unlinked(const LsmEdit *edit, int *nunlinked)
{
	uint64	   *numbers = palloc(Max(edit->nremoved, 1) * sizeof(uint64));
	int			n = 0;
	int			i;
	int			j;

	for (i = 0; i < edit->nremoved; i++)
	{
		for (j = 0; j < edit->nadded; j++)
		{
			if (edit->added[j].number == edit->removed[i])
				break;
		}
		if (j == edit->nadded)
			numbers[n++] = edit->removed[i];
	}
	*nunlinked = n;
	return numbers;
}

/* Append bytes to a manifest page.  REQUIRES: critical section. */
static void
lsm_manifest_fill(Page page, const char *data, uint32 bytes)
{
	PageHeader	header = (PageHeader) page;

	Assert(CritSectionCount > 0);
	memcpy((char *) page + header->pd_lower, data, bytes);
	header->pd_lower += bytes;
	Assert(header->pd_lower <= header->pd_upper);
}

static void
lsm_manifest_register(uint8 block_id, Buffer buffer, bool fresh,
					  LsmWalManifestBlock *block)
{
	XLogRegisterBuffer(block_id, buffer,
					   REGBUF_STANDARD | (fresh ? REGBUF_WILL_INIT : 0));
	XLogRegisterBufData(block_id, (char *) block, sizeof(*block));
	if (block->bytes > 0)
		XLogRegisterBufData(block_id,
							(char *) BufferGetPage(buffer) + block->offset,
							block->bytes);
}

/*
 * Write `snapshot` as a new chain, last page first so that each knows its
 * successor, and point `meta` (a copy) to it.
 */
static void
lsm_manifest_write_chain(LsmTree *tree, LsmMetaPage *meta, StringInfo snapshot)
{
	LsmTreeShared *ctl = tree->ctl;
	uint64		id = Max(meta->manifest_id,
						 pg_atomic_read_u64(&ctl->files.manifest_pending)) + 1;
	int			npages = (snapshot->len + LSM_PAGE_BYTES - 1) / LSM_PAGE_BYTES;
	BlockNumber next = InvalidBlockNumber;
	int			i;

	pg_atomic_write_u64(&ctl->files.manifest_pending, id);
	pg_memory_barrier();

	meta->manifest_id = id;
	meta->manifest_pages = npages;
	meta->manifest_tail = InvalidBlockNumber;
	for (i = npages - 1; i >= 0; i--)
	{
		Buffer		buffer = lsm_page_allocate(tree);
		Page		page = BufferGetPage(buffer);
		LsmWalManifestBlock block;

		block.next = next;
		block.offset = LSM_PAGE_START;
		block.bytes = Min(snapshot->len - i * LSM_PAGE_BYTES, LSM_PAGE_BYTES);

		START_CRIT_SECTION();
		lsm_page_init(page, LSM_PAGE_MANIFEST, id, 0, next);
		lsm_manifest_fill(page, snapshot->data + i * LSM_PAGE_BYTES, block.bytes);
		MarkBufferDirty(buffer);
		if (lsm_tree_needs_wal(tree))
		{
			LsmWalManifestPage record;
			XLogRecPtr	lsn;	/* PageSetLSN() evaluates it twice */

			record.keyspace_id = tree->keyspace_id;
			record.manifest_id = id;
			XLogBeginInsert();
			XLogRegisterData((char *) &record, sizeof(record));
			lsm_manifest_register(0, buffer, true, &block);
			lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_MANIFEST_PAGE);
			PageSetLSN(page, lsn);
		}
		END_CRIT_SECTION();

		next = BufferGetBlockNumber(buffer);
		if (i == npages - 1)
			meta->manifest_tail = next;
		UnlockReleaseBuffer(buffer);
		LSM_CRASH_POINT("manifest_rewrite_pages");
	}
	meta->manifest_root = next;
}

/* Pages an append touches: the tail, then new ones */
typedef struct LsmAppend
{
	int			npages;
	bool		has_tail;		/* buffers[0] is the present tail */
	Buffer		buffers[1 + LSM_EDIT_NEW_PAGES];
	LsmWalManifestBlock blocks[1 + LSM_EDIT_NEW_PAGES];
} LsmAppend;

/*
 * Room in the tail, or 0 without one.  REQUIRES: metapage locked exclusively.
 */
static uint32
lsm_manifest_tail_room(LsmTree *tree, const LsmMetaPage *meta)
{
	Buffer		buffer;
	Page		page;
	uint32		room;

	if (meta->manifest_root == InvalidBlockNumber)
		return 0;
	buffer = lsm_page_read(tree, meta->manifest_tail);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	(void) lsm_page_check(tree, page, meta->manifest_tail, LSM_PAGE_MANIFEST);
	room = ((PageHeader) page)->pd_upper - ((PageHeader) page)->pd_lower;
	UnlockReleaseBuffer(buffer);
	return room;
}

/*
 * Lock the pages that `bytes` more bytes need, and point `meta` (a copy) to the
 * chain as it will be.
 */
static void
lsm_append_prepare(LsmTree *tree, LsmMetaPage *meta, uint32 bytes, uint32 room,
				   LsmAppend *append)
{
	int			nnew = bytes > room ?
		(bytes - room + LSM_PAGE_BYTES - 1) / LSM_PAGE_BYTES : 0;
	int			i;

	Assert(nnew <= LSM_EDIT_NEW_PAGES);
	append->npages = 0;
	append->has_tail = bytes > 0 && meta->manifest_root != InvalidBlockNumber;
	if (nnew > 0)
		lsm_page_allocate_many(tree, nnew, &append->buffers[append->has_tail ? 1 : 0]);
	if (append->has_tail)
	{
		append->buffers[0] = lsm_page_read(tree, meta->manifest_tail);
		LockBuffer(append->buffers[0], BUFFER_LOCK_EXCLUSIVE);
		append->npages++;
	}
	append->npages += nnew;

	for (i = 0; i < append->npages; i++)
	{
		LsmWalManifestBlock *block = &append->blocks[i];
		bool		tail = append->has_tail && i == 0;
		uint32		space = tail ? room : LSM_PAGE_BYTES;

		block->next = i + 1 < append->npages ?
			BufferGetBlockNumber(append->buffers[i + 1]) : InvalidBlockNumber;
		block->offset = tail ?
			((PageHeader) BufferGetPage(append->buffers[0]))->pd_lower : LSM_PAGE_START;
		block->bytes = Min(space, bytes);
		bytes -= block->bytes;
	}
	Assert(bytes == 0);

	if (nnew > 0)
	{
		if (!append->has_tail)
			meta->manifest_root = BufferGetBlockNumber(append->buffers[0]);
		meta->manifest_tail = BufferGetBlockNumber(append->buffers[append->npages - 1]);
		meta->manifest_pages += nnew;
	}
}

/* REQUIRES: critical section. */
static void
lsm_append_apply(const LsmMetaPage *meta, const char *data, LsmAppend *append)
{
	int			i;

	Assert(CritSectionCount > 0);
	for (i = 0; i < append->npages; i++)
	{
		Page		page = BufferGetPage(append->buffers[i]);

		if (append->has_tail && i == 0)
			lsm_page_opaque(page)->next = append->blocks[i].next;
		else
			lsm_page_init(page, LSM_PAGE_MANIFEST, meta->manifest_id, 0,
						  append->blocks[i].next);
		lsm_manifest_fill(page, data, append->blocks[i].bytes);
		data += append->blocks[i].bytes;
		MarkBufferDirty(append->buffers[i]);
	}
}

/*
 * The one record of an edit.  REQUIRES: critical section, everything applied to
 * the pages.
 */
static XLogRecPtr
lsm_edit_log(LsmTree *tree, const LsmMetaPage *meta, const LsmEdit *edit,
			 const uint64 *unlinked, int nunlinked, Buffer meta_buffer,
			 LsmAppend *append)
{
	LsmWalEdit	record;
	XLogRecPtr	lsn;
	int			i;

	Assert(CritSectionCount > 0);
	memset(&record, 0, sizeof(record));
	record.keyspace_id = tree->keyspace_id;
	record.manifest_id = meta->manifest_id;
	record.flushed_generation = meta->flushed_generation;
	record.conflict_xid = edit->conflict_xid;
	record.nunlink = nunlinked;

	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	if (nunlinked > 0)
		XLogRegisterData((char *) unlinked, nunlinked * sizeof(uint64));
	XLogRegisterBuffer(0, meta_buffer, REGBUF_WILL_INIT | REGBUF_STANDARD);
	XLogRegisterBufData(0, (char *) meta, sizeof(*meta));
	for (i = 0; i < append->npages; i++)
		lsm_manifest_register(i + 1, append->buffers[i],
							  !(append->has_tail && i == 0), &append->blocks[i]);
	lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_EDIT);

	PageSetLSN(BufferGetPage(meta_buffer), lsn);
	for (i = 0; i < append->npages; i++)
		PageSetLSN(BufferGetPage(append->buffers[i]), lsn);
	return lsn;
}

/* What the metapage says besides the chain. */
static void
lsm_edit_update_meta(LsmTreeShared *ctl, const LsmEdit *edit, LsmMetaPage *meta)
{
	uint64		next_file;

	meta->format_version = LSM_META_VERSION;
	/* limits never go back, also not if ctl was never loaded */
	meta->flushed_generation = Max(meta->flushed_generation, edit->flushed_generation);
	meta->seq_limit = Max(meta->seq_limit, pg_atomic_read_u64(&ctl->seq) + 1);
	meta->row_limit = Max(meta->row_limit, pg_atomic_read_u64(&ctl->row_limit));
	next_file = pg_atomic_read_u64(&ctl->files.next_file);
	Assert(pg_atomic_read_u64(&ctl->files.file_limit) == meta->next_file);
	Assert(next_file > 0);
	/* salvage.c may have gone beyond the limit */
	if (meta->next_file < next_file + LSM_FILE_RANGE / 2)
		meta->next_file = next_file + LSM_FILE_RANGE;
	meta->version_no++;
}

/*
 * Is there anything to be said for a snapshot, with this many pages of a chain?
 * Whoever knows nothing of the chain looks.
 */
static bool
lsm_chain_due(LsmTreeShared *ctl, const LsmMetaPage *meta, uint32 pages)
{
	return ctl->files.manifest_limit == 0 || pages > ctl->files.manifest_limit ||
		meta->manifest_files < ctl->files.manifest_looked / 2;
}

/*
 * What a snapshot of the list would be, with the edit's record.
 */
static void
lsm_manifest_snapshot(LsmTree *tree, const LsmMetaPage *meta, StringInfo record,
					  StringInfo snapshot)
{
	LsmManifestPlace place;
	StringInfoData chain;
	LsmFileSet	set;

	lsm_manifest_read_all(tree, meta, &place, &chain);
	appendBinaryStringInfo(&chain, record->data, record->len);
	lsm_fileset_init(&set, meta->manifest_files, false);
	lsm_fileset_decode(tree, &chain, &set);
	if (set.nfiles != meta->manifest_files)
		lsm_manifest_corrupt(tree, "wrong number of files");
	initStringInfo(snapshot);
	if (set.nfiles > 0)
		lsm_fileset_put_snapshot(snapshot, &set);
}

/*
 * The edit's record into *data and places for it at the end of the chain.
 * False: that would leave too long a chain, and a snapshot has been written
 * instead.
 */
static bool
lsm_append_edit(LsmTree *tree, const LsmEdit *edit, LsmMetaPage *meta, StringInfo data,
				LsmAppend *append)
{
	LsmTreeShared *ctl = tree->ctl;
	uint32		room = lsm_manifest_tail_room(tree, meta);
	uint32		after;

	lsm_fileset_put_record(data, edit->removed, edit->nremoved, edit->added, edit->nadded);
	after = data->len > room ? (data->len - room + LSM_PAGE_BYTES - 1) / LSM_PAGE_BYTES : 0;
	if (edit->rewrite || after > LSM_EDIT_NEW_PAGES ||
		lsm_chain_due(ctl, meta, meta->manifest_pages + after))
	{
		StringInfoData snapshot;
		uint64		limit;

		lsm_manifest_snapshot(tree, meta, data, &snapshot);
		limit = Max(LSM_CHAIN_MIN_PAGES,
					2 * ((uint64) snapshot.len / LSM_PAGE_BYTES + 1));
		ctl->files.manifest_limit = (uint32) limit;
		ctl->files.manifest_looked = meta->manifest_files;
		if (edit->rewrite || after > LSM_EDIT_NEW_PAGES ||
			meta->manifest_pages + after > limit)
		{
			lsm_manifest_write_chain(tree, meta, &snapshot);
			return false;
		}
	}
	lsm_append_prepare(tree, meta, data->len, room, append);
	return true;
}

/*
 * See disk.h.  Nothing has changed if it ERRORs (disk full, corrupt
 * manifest).  Locks held throughout: the metapage, exclusively; page
 * allocation takes alloc_lock inside (page.c explains why that is safe).
 */
XLogRecPtr
lsm_manifest_edit(LsmTree *tree, const LsmEdit *edit)
{
	LsmTreeShared *ctl = tree->ctl;
	MemoryContext old = CurrentMemoryContext;
	MemoryContext context;
	LsmMetaPage *page;
	LsmMetaPage meta;
	StringInfoData data;
	LsmAppend	append;
	Buffer		meta_buffer;
	uint64	   *unlinked;
	int			nunlinked;
	XLogRecPtr	lsn = InvalidXLogRecPtr;
	bool		rewrite = false;
	int			i;

	Assert(ctl->state != LSM_STATE_UNLOADED);
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm edit",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	append.npages = 0;
	append.has_tail = false;
	unlinked = lsm_edit_unlinked(edit, &nunlinked);

	meta_buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);
	meta = *page;
	lsm_manifest_check_keyspace(tree, &meta);
	lsm_manifest_check_bounds(tree, &meta);
	if (edit->nremoved - edit->nadded > (int64) meta.manifest_files)
		elog(ERROR, "lsm edit removes more files than there are");
	meta.manifest_files += edit->nadded - edit->nremoved;

	initStringInfo(&data);
	if (edit->nadded > 0 || edit->nremoved > 0 || edit->rewrite)
		rewrite = !lsm_append_edit(tree, edit, &meta, &data, &append);
	XLogEnsureRecordSpace(1 + append.npages, 4 + 2 * append.npages);

	lsm_edit_update_meta(ctl, edit, &meta);
	LSM_CRASH_POINT("edit_before_wal");

	START_CRIT_SECTION();
	lsm_append_apply(&meta, data.data, &append);
	lsm_meta_init(BufferGetPage(meta_buffer), &meta);
	MarkBufferDirty(meta_buffer);
	if (lsm_tree_needs_wal(tree))
		lsn = lsm_edit_log(tree, &meta, edit, unlinked, nunlinked, meta_buffer, &append);
	END_CRIT_SECTION();

	pg_atomic_write_u64(&ctl->files.manifest_id, meta.manifest_id);
	pg_atomic_write_u64(&ctl->files.flushed_generation, meta.flushed_generation);
	pg_atomic_write_u64(&ctl->files.version_no, meta.version_no);
	pg_atomic_write_u64(&ctl->files.file_limit, meta.next_file);
	for (i = 0; i < append.npages; i++)
		UnlockReleaseBuffer(append.buffers[i]);
	UnlockReleaseBuffer(meta_buffer);

	/* pages became free: those of a flushed generation or of the old chain */
	if (edit->flushed_generation != 0 || rewrite)
		lsm_page_restart_search(tree);
	LSM_CRASH_POINT("edit_after_wal");
	if (rewrite)
		LSM_CRASH_POINT("manifest_rewrite_flip");

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return lsn;
}
