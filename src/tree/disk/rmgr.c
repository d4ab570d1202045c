/*-------------------------------------------------------------------------
 *
 * rmgr.c
 *	  The resource manager "lsmam": redo, description, consistency masks.
 *
 * Redo needs no catalog and never opens a sorted file.  Redo recreates
 * directories that are missing and does not mind files that are: whatever is
 * missing is removed by a later record.
 *
 * Redo brings pages and files up to date.  The control blocks are empty until
 * the first use after recovery, but for those of trees that queries read on a
 * hot standby: standby.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/rmgr.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "storage/standby.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/chunk.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/disk/standby.h"
#include "tree/disk/wal.h"

static void
lsm_redo_corrupt(const char *record, BlockNumber block)
{
	elog(PANIC, "lsm %s record does not fit block %u", record, block);
}

/*
 * The struct that the record's main data begin with; returns how many bytes
 * follow it.
 */
static uint32
lsm_redo_header(XLogReaderState *record, void *header, uint32 bytes)
{
	uint32		total = XLogRecGetDataLen(record);

	if (total < bytes)
		elog(PANIC, "lsm record of type %02X has %u bytes of data instead of %u",
			 XLogRecGetInfo(record) & ~XLR_INFO_MASK, total, bytes);
	memcpy(header, XLogRecGetData(record), bytes);
	return total - bytes;
}

/* The metapage, block reference 0, as the record has it; locked. */
static Buffer
lsm_redo_meta(XLogReaderState *record)
{
	Buffer		buffer = XLogInitBufferForRedo(record, 0);
	Page		page = BufferGetPage(buffer);
	LsmMetaPage meta;
	Size		len;
	char	   *data = XLogRecGetBlockData(record, 0, &len);

	if (data == NULL || len > sizeof(meta) || len < LSM_META_OLD_BYTES)
		lsm_redo_corrupt("metapage", 0);
	memset(&meta, 0, sizeof(meta));
	memcpy(&meta, data, len);
	lsm_meta_init(page, &meta);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buffer);
	return buffer;
}

/* ---- log append ---- */

static BlockNumber
lsm_redo_block(XLogReaderState *record, int block_id)
{
	BlockNumber block;

	if (block_id > XLogRecMaxBlockId(record))
		return InvalidBlockNumber;
	XLogRecGetBlockTag(record, block_id, NULL, NULL, &block);
	return block;
}

/* The page before in the generation's list says which one comes next. */
static void
lsm_redo_link(XLogReaderState *record, int block_id)
{
	Buffer		buffer;

	if (XLogReadBufferForRedo(record, block_id, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);

		if (lsm_page_head(page) == NULL)
			lsm_redo_corrupt("log append", lsm_redo_block(record, block_id));
		lsm_page_head(page)->next = lsm_redo_block(record, 0);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

static void
lsm_redo_append_fresh(XLogReaderState *record, const LsmWalAppend *append, const char *data,
					  uint32 left)
{
	bool		headed = (XLogRecGetInfo(record) & ~XLR_INFO_MASK) == XLOG_LSM_LOG_APPEND_HEADED;
	bool		linked = headed && (append->fresh & LSM_APPEND_LINKED) != 0;
	uint32		head_bytes = headed ? sizeof(LsmLogHead) : 0;
	const char *entries = data + sizeof(uint64);
	uint32		entry_bytes = left - sizeof(uint64);
	LsmStandbyAppend standby = {0};
	RelFileLocator rlocator;
	uint64		generation = 0;
	int			last = XLogRecMaxBlockId(record) - (linked ? 1 : 0);
	Buffer		buffer = InvalidBuffer;

	if (left < sizeof(generation) + head_bytes || last < 0)
		lsm_redo_corrupt("log append", lsm_redo_block(record, 0));
	XLogRecGetBlockTag(record, 0, &rlocator, NULL, NULL);
	memcpy(&generation, data, sizeof(generation));
	if (entry_bytes > (last + 1) * LSM_PAGE_BYTES || entry_bytes <= last * LSM_PAGE_BYTES)
		lsm_redo_corrupt("log append", lsm_redo_block(record, 0));

	/*
	 * The first page last: a reader in recovery follows it to those that
	 * continue it.  It stays locked until the page before it names it, as on the
	 * primary: who finds it finds it in the list.
	 */
	for (int i = last; i >= 0; i--)
	{
		uint32		start = i * LSM_PAGE_BYTES;
		uint32		bytes = Min(entry_bytes - start, LSM_PAGE_BYTES);
		Page		page;

		buffer = XLogInitBufferForRedo(record, i);
		page = BufferGetPage(buffer);
		lsm_page_init(page, LSM_PAGE_LOG, generation,
					  i > 0 ? LSM_PAGE_CONTINUES : headed ? LSM_PAGE_HEADED : 0,
					  i < last ? lsm_redo_block(record, i + 1) : InvalidBlockNumber);
		memcpy((char *) page + LSM_PAGE_START, entries + start, bytes);
		((PageHeader) page)->pd_lower = LSM_PAGE_START + bytes;
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
		if (i == 0)
			break;
		UnlockReleaseBuffer(buffer);
		LSM_CRASH_POINT("redo_fresh_page");
	}
	(void) lsm_standby_note_append(&standby, &rlocator, BufferGetPage(buffer), LSM_PAGE_START);
	if (linked)
		lsm_redo_link(record, last + 1);
	UnlockReleaseBuffer(buffer);
	lsm_standby_append(&standby, entries + head_bytes, entry_bytes - head_bytes);
	LSM_CRASH_POINT("redo_append_fed");
}

/* Notes are for logical decoding: how many bytes to pass over. */
static uint32
lsm_redo_notes(XLogReaderState *record, const char *data, uint32 left)
{
	LsmWalNotes notes;

	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) == XLOG_LSM_LOG_APPEND)
		return 0;
	if (left < sizeof(notes))
		lsm_redo_corrupt("log append", lsm_redo_block(record, 0));
	memcpy(&notes, data, sizeof(notes));
	if (left - sizeof(notes) < notes.bytes)
		lsm_redo_corrupt("log append", lsm_redo_block(record, 0));
	return sizeof(notes) + notes.bytes;
}

static void
lsm_redo_append(XLogReaderState *record)
{
	LsmWalAppend append;
	const char *data = XLogRecGetData(record) + sizeof(append);
	uint32		bytes = lsm_redo_header(record, &append, sizeof(append));
	uint32		notes_bytes = lsm_redo_notes(record, data, bytes);
	LsmStandbyAppend standby = {0};
	XLogRedoAction action;
	RelFileLocator rlocator;
	Buffer		buffer;

	data += notes_bytes;
	bytes -= notes_bytes;
	if (append.fresh)
	{
		lsm_redo_append_fresh(record, &append, data, bytes);
		return;
	}

	XLogRecGetBlockTag(record, 0, &rlocator, NULL, NULL);
	action = XLogReadBufferForRedo(record, 0, &buffer);
	if (action == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);
		PageHeader	header = (PageHeader) page;

		if (header->pd_lower != append.offset ||
			bytes > header->pd_upper - header->pd_lower)
			lsm_redo_corrupt("log append", lsm_redo_block(record, 0));
		memcpy((char *) page + append.offset, data, bytes);
		if (lsm_page_head(page) != NULL)
			lsm_page_head(page)->crc = lsm_log_crc_add(lsm_page_head(page)->crc, data, bytes);
		header->pd_lower += bytes;
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}

	/* a page that is newer than the record comes before there are readers */
	if (action == BLK_NEEDS_REDO || action == BLK_RESTORED)
		(void) lsm_standby_note_append(&standby, &rlocator, BufferGetPage(buffer), append.offset);
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	LSM_CRASH_POINT("redo_append_page");
	lsm_standby_append(&standby, data, bytes);
	LSM_CRASH_POINT("redo_append_fed");
}

/* ---- conflicts ---- */

/* Rows go that were deleted by `xid` or before. */
static void
lsm_redo_conflict(TransactionId xid, RelFileLocator rlocator)
{
	if (InHotStandby && TransactionIdIsNormal(xid))
		ResolveRecoveryConflictWithSnapshot(xid, false, rlocator);
}

static void
lsm_redo_horizon(XLogReaderState *record)
{
	LsmWalHorizon horizon;

	(void) lsm_redo_header(record, &horizon, sizeof(horizon));
	lsm_redo_conflict(horizon.xid, horizon.rlocator);
	LSM_CRASH_POINT("redo_horizon");

	/*
	 * Before any row identifier comes again, and any page of the table is
	 * found all-visible: those records come behind this one.
	 */
	if (horizon.flags & LSM_HORIZON_VACUUMED)
		lsm_key_changed_in(horizon.keyspace_id, LSM_INDEX_VACUUM_DIGEST);
}

/* Before a reader finds a block all-visible: see lsm_redo_visible(). */
static void
lsm_redo_map(XLogReaderState *record)
{
	LsmWalVisible visible;
	LsmWalInvisible invisible;
	RelFileLocator rlocator;

	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) == XLOG_LSM_INVISIBLE)
	{
		(void) lsm_redo_header(record, &invisible, sizeof(invisible));
		lsm_redo_invisible(record, &invisible);
		return;
	}
	(void) lsm_redo_header(record, &visible, sizeof(visible));
	XLogRecGetBlockTag(record, 0, &rlocator, NULL, NULL);
	lsm_redo_conflict(visible.newest_xmin, rlocator);
	lsm_redo_visible(record, &visible);
}

/* ---- manifest ---- */

static void
lsm_redo_manifest_block(XLogReaderState *record, int block_id, uint64 manifest_id)
{
	LsmWalManifestBlock block;
	Buffer		buffer;
	Page		page;
	PageHeader	header;
	Size		len;
	char	   *data;
	bool		fresh = (XLogRecGetBlock(record, block_id)->flags & BKPBLOCK_WILL_INIT) != 0;

	if (fresh)
		buffer = XLogInitBufferForRedo(record, block_id);
	else if (XLogReadBufferForRedo(record, block_id, &buffer) != BLK_NEEDS_REDO)
	{
		if (BufferIsValid(buffer))
			UnlockReleaseBuffer(buffer);
		return;
	}

	data = XLogRecGetBlockData(record, block_id, &len);
	if (data == NULL || len < sizeof(block))
		lsm_redo_corrupt("manifest", lsm_redo_block(record, block_id));
	memcpy(&block, data, sizeof(block));
	page = BufferGetPage(buffer);
	if (fresh)
		lsm_page_init(page, LSM_PAGE_MANIFEST, manifest_id, 0, block.next);
	header = (PageHeader) page;
	if (len != sizeof(block) + block.bytes || header->pd_lower != block.offset ||
		block.bytes > header->pd_upper - header->pd_lower)
		lsm_redo_corrupt("manifest", lsm_redo_block(record, block_id));
	lsm_page_opaque(page)->next = block.next;
	memcpy((char *) page + block.offset, data + sizeof(block), block.bytes);
	header->pd_lower += block.bytes;
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buffer);
	UnlockReleaseBuffer(buffer);
}

/*
 * A fork that is missing has been removed by an earlier record: builds up to
 * 1.0 let workers add to the list of files of a fork after the record of the
 * rollback that removes it.  Or a later record removes it, and has done so before
 * a crash.  Either way nobody will look at the list, and no standby should end
 * because of it: what is missing is left out.  A fork is made by a record before
 * its first metapage, so a metapage does not make one, either.
 */
static bool
lsm_redo_fork_is_missing(XLogReaderState *record)
{
	RelFileLocator rlocator;
	ForkNumber	fork;

	XLogRecGetBlockTag(record, 0, &rlocator, &fork, NULL);
	return !smgrexists(smgropen(rlocator, INVALID_PROC_NUMBER), fork);
}

static void
lsm_redo_unlink(uint64 keyspace_id, const char *numbers, uint32 n)
{
	for (uint32 i = 0; i < n; i++)
	{
		uint64		number;

		memcpy(&number, numbers + i * sizeof(uint64), sizeof(uint64));
		lsm_standby_unlink(keyspace_id, number);
	}
	lsm_standby_unlink_drain();
}

/* Metapage and list of files, and what readers know of them */
static void
lsm_redo_edit_pages(XLogReaderState *record, const LsmWalEdit *edit)
{
	LsmTreeShared *ctl;
	Buffer		meta_buffer;

	/* metapage locked until the chain it describes is there */
	meta_buffer = lsm_redo_meta(record);
	for (int i = 1; i <= XLogRecMaxBlockId(record); i++)
	{
		LSM_CRASH_POINT("redo_edit_locked");
		lsm_redo_manifest_block(record, i, edit->manifest_id);
	}
	ctl = lsm_standby_edit((LsmMetaPage *) ((char *) BufferGetPage(meta_buffer) + LSM_PAGE_START));
	UnlockReleaseBuffer(meta_buffer);
	LSM_CRASH_POINT("redo_edit_set");
	if (ctl != NULL)
		lsm_standby_drop_flushed(ctl, edit->keyspace_id);
	LSM_CRASH_POINT("redo_edit_dropped");
}

static void
lsm_redo_edit(XLogReaderState *record)
{
	LsmWalEdit	edit;
	const char *numbers = XLogRecGetData(record) + sizeof(edit);
	uint32		rest = lsm_redo_header(record, &edit, sizeof(edit));
	RelFileLocator rlocator;

	if (rest / sizeof(uint64) < edit.nunlink)
		lsm_redo_corrupt("edit", lsm_redo_block(record, 0));

	/* rows were dropped or frozen that queries here may still see */
	XLogRecGetBlockTag(record, 0, &rlocator, NULL, NULL);
	lsm_redo_conflict(edit.conflict_xid, rlocator);
	LSM_CRASH_POINT("redo_edit_conflict");

	if (!lsm_redo_fork_is_missing(record))
		lsm_redo_edit_pages(record, &edit);

	lsm_standby_unlink_drain();
	if (edit.nunlink == 0)
		return;

	/*
	 * Unlinking cannot be undone: recovery must not be able to call itself
	 * consistent before this record (compare smgr_redo's truncation).
	 */
	XLogFlush(record->EndRecPtr);
	LSM_CRASH_POINT("redo_edit_unlinks");
	lsm_redo_unlink(edit.keyspace_id, numbers, edit.nunlink);
	LSM_CRASH_POINT("redo_edit_done");
}

/* ---- the end of the fork ---- */

/* As smgr_redo() does it, which has the reasons. */
static void
lsm_redo_cut(XLogReaderState *record)
{
	ForkNumber	fork = MAIN_FORKNUM;
	LsmWalCut	cut;
	RelFileLocator rlocator;
	SMgrRelation smgr;
	BlockNumber end = lsm_redo_block(record, 0);
	BlockNumber old;

	(void) lsm_redo_header(record, &cut, sizeof(cut));
	if (end == InvalidBlockNumber)
		elog(PANIC, "lsm cut record names no block");
	XLogRecGetBlockTag(record, 0, &rlocator, NULL, NULL);
	smgr = smgropen(rlocator, INVALID_PROC_NUMBER);
	smgrcreate(smgr, MAIN_FORKNUM, true);
	XLogFlush(record->EndRecPtr);
	XLogTruncateRelation(rlocator, MAIN_FORKNUM, end);
	old = smgrnblocks(smgr, MAIN_FORKNUM);
	if (end >= old)
		return;
	START_CRIT_SECTION();
	smgrtruncate(smgr, &fork, 1, &old, &end);
	END_CRIT_SECTION();
	LSM_CRASH_POINT("redo_cut");
}

/* ---- files and keyspaces ---- */

static void
lsm_redo_chunk(XLogReaderState *record)
{
	LsmWalChunk chunk;
	char	   *logged = XLogRecGetData(record) + sizeof(chunk);
	uint32		logged_bytes = lsm_redo_header(record, &chunk, sizeof(chunk));
	char	   *content = lsm_chunk_content(&chunk, logged, logged_bytes);

	lsm_file_write_chunk(chunk.keyspace_id, chunk.number,
						 (chunk.flags & LSM_CHUNK_FILTER) != 0, chunk.offset,
						 content, chunk.bytes,
						 (chunk.flags & LSM_CHUNK_LAST) != 0, chunk.file_bytes);
	if (content != logged)
		pfree(content);
	LSM_CRASH_POINT("redo_chunk");
}

static void
lsm_redo_keyspace(XLogReaderState *record)
{
	LsmWalKeyspace keyspace;
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	(void) lsm_redo_header(record, &keyspace, sizeof(keyspace));

	/* a metapage alone would make it a fork again, for an edit that follows */
	if (info == XLOG_LSM_META && lsm_redo_fork_is_missing(record))
		return;
	if (info == XLOG_LSM_KEYSPACE_CREATE)
		lsm_standby_unlink_forget(keyspace.keyspace_id);
	lsm_keyspace_ensure(keyspace.keyspace_id, keyspace.rlocator, keyspace.backend);
	LSM_CRASH_POINT("redo_keyspace");
	if (XLogRecHasBlockRef(record, 0))
	{
		RelFileLocator rlocator;

		UnlockReleaseBuffer(lsm_redo_meta(record));
		XLogRecGetBlockTag(record, 0, &rlocator, NULL, NULL);
		LSM_CRASH_POINT("redo_keyspace_meta");
		lsm_standby_keyspace(&rlocator, keyspace.keyspace_id);
	}
}

static void
lsm_redo_remove(XLogReaderState *record)
{
	LsmWalRemove remove;

	(void) lsm_redo_header(record, &remove, sizeof(remove));
	XLogFlush(record->EndRecPtr);	/* as in lsm_redo_edit */
	LSM_CRASH_POINT("redo_remove");
	if (InHotStandby)
		lsm_control_drop(remove.keyspace_id);
	lsm_standby_unlink_forget(remove.keyspace_id);
	lsm_keyspace_remove(remove.keyspace_id);
	LSM_CRASH_POINT("redo_removed");
}

/*
 * A stray may be a file that an earlier edit took out, and that a query here
 * still reads.
 */
static void
lsm_redo_files_remove(XLogReaderState *record)
{
	LsmWalFilesRemove remove;
	uint32		rest = lsm_redo_header(record, &remove, sizeof(remove));

	if (rest / sizeof(uint64) < remove.nfiles)
		elog(PANIC, "lsm record about files to be removed is too short");
	XLogFlush(record->EndRecPtr);	/* as in lsm_redo_edit */
	lsm_redo_unlink(remove.keyspace_id, XLogRecGetData(record) + sizeof(remove), remove.nfiles);
}

/* What one record takes; reset after each. */
static MemoryContext redo_context = NULL;

static void
lsm_redo_startup(void)
{
	(void) lsm_control_require(FATAL);
	redo_context = AllocSetContextCreate(TopMemoryContext, "lsmam redo",
										 ALLOCSET_DEFAULT_SIZES);
	lsm_primary_memory_compare();
	lsm_sync_redo_begins();
}

static void
lsm_redo_cleanup(void)
{
	lsm_standby_unlink_drain();
	lsm_sync_redo_ends();
	MemoryContextDelete(redo_context);
	redo_context = NULL;
}

static void
lsm_redo(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	MemoryContext old = MemoryContextSwitchTo(redo_context);

	switch (info)
	{
		case XLOG_LSM_LOG_APPEND:
		case XLOG_LSM_LOG_APPEND_HEADED:
		case XLOG_LSM_LOG_APPEND_LOGICAL:
			lsm_redo_append(record);
			break;
		case XLOG_LSM_EDIT:
			lsm_redo_edit(record);
			break;
		case XLOG_LSM_MANIFEST_PAGE:
			{
				LsmWalManifestPage page;

				(void) lsm_redo_header(record, &page, sizeof(page));
				if (!lsm_redo_fork_is_missing(record))
					lsm_redo_manifest_block(record, 0, page.manifest_id);
				LSM_CRASH_POINT("redo_manifest_page");
				break;
			}
		case XLOG_LSM_FILE_CHUNK:
		case XLOG_LSM_FILE_CHUNK_LZ4:
			lsm_redo_chunk(record);
			break;
		case XLOG_LSM_KEYSPACE_CREATE:
		case XLOG_LSM_META:
			lsm_redo_keyspace(record);
			break;
		case XLOG_LSM_KEYSPACE_REMOVE:
			lsm_redo_remove(record);
			break;
		case XLOG_LSM_FILES_REMOVE:
			lsm_redo_files_remove(record);
			break;
		case XLOG_LSM_CUT:
			lsm_redo_cut(record);
			break;
		case XLOG_LSM_HORIZON:
			lsm_redo_horizon(record);
			break;
		case XLOG_LSM_MEMORY:
			{
				LsmWalMemory memory;

				(void) lsm_redo_header(record, &memory, sizeof(memory));
				lsm_primary_memory_redo(&memory);
				break;
			}
		case XLOG_LSM_VISIBLE:
		case XLOG_LSM_INVISIBLE:
			lsm_redo_map(record);
			break;
		default:
			elog(PANIC, "lsm_redo: unknown op code %u", info);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(redo_context);
}

/* ---- description ---- */

static void
lsm_desc(StringInfo buf, XLogReaderState *record)
{
	char	   *data = XLogRecGetData(record);
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (info != XLOG_LSM_LOG_APPEND && info != XLOG_LSM_LOG_APPEND_HEADED &&
		info != XLOG_LSM_LOG_APPEND_LOGICAL && info != XLOG_LSM_MEMORY)
	{
		uint64		keyspace_id;

		/* the others begin with it */
		memcpy(&keyspace_id, data, sizeof(keyspace_id));
		appendStringInfo(buf, "keyspace %016" PRIx64, keyspace_id);
	}
	switch (info)
	{
		case XLOG_LSM_LOG_APPEND:
		case XLOG_LSM_LOG_APPEND_HEADED:
		case XLOG_LSM_LOG_APPEND_LOGICAL:
			{
				LsmWalAppend append;
				LsmWalNotes notes = {0};
				uint32		bytes = XLogRecGetDataLen(record) - sizeof(append);

				memcpy(&append, data, sizeof(append));
				if (info != XLOG_LSM_LOG_APPEND)
				{
					memcpy(&notes, data + sizeof(append), sizeof(notes));
					bytes -= sizeof(notes) + notes.bytes;
				}
				appendStringInfo(buf, "%u entries, %u bytes at offset %u%s",
								 append.nentries, bytes,
								 append.offset, append.fresh ? " of new page" : "");
				if (append.fresh & LSM_APPEND_LINKED)
					appendStringInfoString(buf, " that follows another");
				if (notes.bytes > 0)
					appendStringInfo(buf, "; %u bytes of notes", notes.bytes);
				break;
			}
		case XLOG_LSM_EDIT:
			{
				LsmWalEdit	edit;

				memcpy(&edit, data, sizeof(edit));
				appendStringInfo(buf, " manifest " UINT64_FORMAT " flushed " UINT64_FORMAT " conflict xid %u; unlinks %u",
								 edit.manifest_id, edit.flushed_generation,
								 edit.conflict_xid, edit.nunlink);
				break;
			}
		case XLOG_LSM_MANIFEST_PAGE:
			{
				LsmWalManifestPage page;

				memcpy(&page, data, sizeof(page));
				appendStringInfo(buf, " manifest " UINT64_FORMAT, page.manifest_id);
				break;
			}
		case XLOG_LSM_FILE_CHUNK:
		case XLOG_LSM_FILE_CHUNK_LZ4:
			{
				LsmWalChunk chunk;

				memcpy(&chunk, data, sizeof(chunk));
				appendStringInfo(buf, " file " UINT64_FORMAT ".%s: %u bytes at " UINT64_FORMAT "%s",
								 chunk.number,
								 (chunk.flags & LSM_CHUNK_FILTER) ? "flt" : "sst",
								 chunk.bytes, chunk.offset,
								 (chunk.flags & LSM_CHUNK_LAST) ? ", last" : "");
				if (chunk.flags & LSM_CHUNK_LZ4)
					appendStringInfo(buf, ", compressed to %u",
									 (uint32) (XLogRecGetDataLen(record) - sizeof(chunk)));
				break;
			}
		case XLOG_LSM_KEYSPACE_CREATE:
		case XLOG_LSM_META:
			{
				LsmWalKeyspace keyspace;

				memcpy(&keyspace, data, sizeof(keyspace));
				appendStringInfo(buf, " owner %u/%u/%u", keyspace.rlocator.spcOid,
								 keyspace.rlocator.dbOid, keyspace.rlocator.relNumber);
				break;
			}
		case XLOG_LSM_FILES_REMOVE:
			{
				LsmWalFilesRemove remove;

				memcpy(&remove, data, sizeof(remove));
				appendStringInfo(buf, " unlinks %u", remove.nfiles);
				break;
			}
		case XLOG_LSM_HORIZON:
			{
				LsmWalHorizon horizon;

				memcpy(&horizon, data, sizeof(horizon));
				appendStringInfo(buf, " owner %u/%u/%u conflict xid %u%s",
								 horizon.rlocator.spcOid, horizon.rlocator.dbOid,
								 horizon.rlocator.relNumber, horizon.xid,
								 (horizon.flags & LSM_HORIZON_VACUUMED) ? ", vacuumed" : "");
				break;
			}
		case XLOG_LSM_MEMORY:
			{
				LsmWalMemory memory;

				memcpy(&memory, data, sizeof(memory));
				appendStringInfo(buf, "memtable_memory " UINT64_FORMAT " kB",
								 memory.memtable_memory_kb);
				break;
			}
		case XLOG_LSM_VISIBLE:
			{
				LsmWalVisible visible;

				memcpy(&visible, data, sizeof(visible));
				appendStringInfo(buf, " bytes %u to %u, newest xmin %u", visible.first,
								 visible.first + visible.bytes, visible.newest_xmin);
				break;
			}
		case XLOG_LSM_INVISIBLE:
			{
				LsmWalInvisible invisible;

				memcpy(&invisible, data, sizeof(invisible));
				appendStringInfo(buf, " block %u of the page", invisible.number);
				break;
			}
		default:
			break;
	}
}

static const char *
lsm_identify(uint8 info)
{
	switch (info & ~XLR_INFO_MASK)
	{
		case XLOG_LSM_LOG_APPEND:
			return "LOG_APPEND";
		case XLOG_LSM_LOG_APPEND_HEADED:
			return "LOG_APPEND_HEADED";
		case XLOG_LSM_LOG_APPEND_LOGICAL:
			return "LOG_APPEND_LOGICAL";
		case XLOG_LSM_EDIT:
			return "EDIT";
		case XLOG_LSM_MANIFEST_PAGE:
			return "MANIFEST_PAGE";
		case XLOG_LSM_FILE_CHUNK:
			return "FILE_CHUNK";
		case XLOG_LSM_FILE_CHUNK_LZ4:
			return "FILE_CHUNK_LZ4";
		case XLOG_LSM_KEYSPACE_CREATE:
			return "KEYSPACE_CREATE";
		case XLOG_LSM_KEYSPACE_REMOVE:
			return "KEYSPACE_REMOVE";
		case XLOG_LSM_FILES_REMOVE:
			return "FILES_REMOVE";
		case XLOG_LSM_META:
			return "META";
		case XLOG_LSM_CUT:
			return "CUT";
		case XLOG_LSM_HORIZON:
			return "HORIZON";
		case XLOG_LSM_MEMORY:
			return "MEMORY";
		case XLOG_LSM_VISIBLE:
			return "VISIBLE";
		case XLOG_LSM_INVISIBLE:
			return "INVISIBLE";
		default:
			return NULL;
	}
}

/*
 * wal_consistency_checking: all our pages are standard ones, without hints.  Of
 * a page of the visibility map, all but the header counts as unused: VACUUM's
 * marks are not logged.
 */
static void
lsm_mask(char *pagedata, BlockNumber blkno)
{
	mask_page_lsn_and_checksum((Page) pagedata);
	mask_unused_space((Page) pagedata);
}

void
lsm_tree_rmgr_register(void)
{
	static RmgrData rmgr = {
		.rm_name = LSM_RMGR_NAME,
		.rm_redo = lsm_redo,
		.rm_desc = lsm_desc,
		.rm_identify = lsm_identify,
		.rm_startup = lsm_redo_startup,
		.rm_cleanup = lsm_redo_cleanup,
		.rm_mask = lsm_mask,
		.rm_decode = lsm_decode,
	};

	RegisterCustomRmgr(LSM_RMGR_ID, &rmgr);
	lsm_sync_rmgr_register();
}
