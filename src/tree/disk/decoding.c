/*-------------------------------------------------------------------------
 *
 * decoding.c
 *	  Logical decoding of our WAL records.
 *
 * Rows come as entries with notes (log_notes.h), in records of their own type.
 * What an entry and its note mean, the kind of the tree knows: it queues the
 * changes.  The rules by which a record counts are those of core's decode.c.
 *
 * An append without notes is of no concern to decoding: entries of indexes, row
 * locks, hints.  But before there were notes, rows were logged that way, too.
 * A decoder that meets such a row, in WAL that an older release has written, is
 * told so, once per slot in a process.  It is a warning and no error: the slot
 * may be there for other tables.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "replication/snapbuild.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/log_notes.h"
#include "tree/disk/wal.h"

/* The content of an append's record */
typedef struct AppendReader
{
	RelFileLocator relation;
	int			nentries;		/* still to come */
	bool		noted;			/* there are notes */
	LsmNoteReader notes;
	const char *next;			/* entry */
	const char *end;
} AppendReader;

static void
malformed(XLogReaderState *record)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("lsm log append record at %X/%X is malformed",
					LSN_FORMAT_ARGS(record->ReadRecPtr))));
}

/* REQUIRES: an append of any type */
static void
begin_append(AppendReader *reader, XLogReaderState *record)
{
	const char *p = XLogRecGetData(record);
	const char *end = p + XLogRecGetDataLen(record);
	LsmSlice	notes = lsm_slice(NULL, 0);
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	LsmWalAppend append;
	uint32		before_entries;

	if (end - p < (ptrdiff_t) sizeof(append))
		malformed(record);
	memcpy(&append, p, sizeof(append));
	p += sizeof(append);
	if (info != XLOG_LSM_LOG_APPEND)
	{
		LsmWalNotes header;

		if (end - p < (ptrdiff_t) sizeof(header))
			malformed(record);
		memcpy(&header, p, sizeof(header));
		p += sizeof(header);
		if ((uint64) (end - p) < header.bytes)
			malformed(record);
		notes = lsm_slice(p, header.bytes);
		p += header.bytes;
	}
	before_entries = (append.fresh ? sizeof(uint64) : 0) +
		(info == XLOG_LSM_LOG_APPEND_HEADED ? sizeof(LsmLogHead) : 0);
	if ((uint64) (end - p) < before_entries)
		malformed(record);

	XLogRecGetBlockTag(record, 0, &reader->relation, NULL, NULL);
	reader->nentries = append.nentries;
	reader->noted = notes.len > 0;
	lsm_note_reader_init(&reader->notes, notes);
	reader->next = p + before_entries;
	reader->end = end;
}

static bool
is_noted(XLogReaderState *record)
{
	AppendReader reader;

	begin_append(&reader, record);
	return reader.noted;
}

static bool
next_entry(AppendReader *reader, XLogReaderState *record, LsmEntry *entry)
{
	LsmLogHeader header;

	if (reader->nentries == 0)
		return false;
	if (!lsm_log_header_get(reader->next, reader->end, &header) ||
		lsm_log_header_total(&header) > (uint64) (reader->end - reader->next) ||
		!lsm_note_next(&reader->notes, &entry->note))
		malformed(record);
	reader->nentries--;
	entry->key = lsm_slice(reader->next + header.header_bytes, header.key_bytes);
	entry->value = lsm_slice(entry->key.data + header.key_bytes, header.value_bytes);
	reader->next += lsm_log_header_total(&header);
	return true;
}

/* The output plugin does not want changes of this origin. */
static bool
filtered_by_origin(LogicalDecodingContext *ctx, ReplOriginId origin)
{
	return ctx->callbacks.filter_by_origin_cb != NULL &&
		filter_by_origin_cb_wrapper(ctx, origin);
}

/*
 * A worker of REPACK takes all changes for those of its table, which is none of
 * ours.
 */
static void
decode_append(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	const LsmKindOps *ops = lsm_kind_ops(LSM_KIND_TABLE);
	AppendReader reader;
	LsmEntry	entry;

	if (AmRepackWorker())
		return;
	begin_append(&reader, buf->record);
	if (reader.relation.dbOid != ctx->slot->data.database ||
		filtered_by_origin(ctx, XLogRecGetOrigin(buf->record)))
		return;
	while (next_entry(&reader, buf->record, &entry))
	{
		if (entry.note.len > 0)
			ops->decode(ctx, buf, &reader.relation, entry.value, entry.note);
	}
}

/*
 * Does a record without notes change a row?  Only those of older releases do.
 * Keys of rows have a length of their own.
 */
static bool
changes_rows(LogicalDecodingContext *ctx, XLogReaderState *record)
{
	const LsmKindOps *ops = lsm_kind_ops(LSM_KIND_TABLE);
	AppendReader reader;
	LsmEntry	entry;

	begin_append(&reader, record);
	if (reader.relation.dbOid != ctx->slot->data.database)
		return false;
	while (next_entry(&reader, record, &entry))
	{
		if (entry.key.len != LSM_TID_BYTES)
			return false;
		if (ops->changes_row(entry.value, XLogRecGetXid(record)))
			return true;
	}
	return false;
}

static void
warn_of_old_rows(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	static NameData warned;

	if (strcmp(NameStr(warned), NameStr(ctx->slot->data.name)) == 0 ||
		SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_CONSISTENT ||
		SnapBuildXactNeedsSkip(ctx->snapshot_builder, buf->origptr) ||
		!changes_rows(ctx, buf->record))
		return;
	warned = ctx->slot->data.name;
	ereport(WARNING,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("logical decoding passes over changes of lsm tables that lsmam 1.0 has logged"),
			 errdetail("Replication slot \"%s\" has come to one at %X/%X. Later changes, and those of other tables, are decoded.",
					   NameStr(ctx->slot->data.name), LSN_FORMAT_ARGS(buf->origptr)),
			 errhint("Nothing is to be done unless the changes of an lsm table are expected: then copy the table anew.")));
}

void
lsm_decode(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	TransactionId xid = XLogRecGetXid(buf->record);

	/* it may come behind the end of its transaction */
	if ((XLogRecGetInfo(buf->record) & ~XLR_INFO_MASK) == XLOG_LSM_FILES_REMOVE)
		return;
	ReorderBufferProcessXid(ctx->reorder, xid, buf->origptr);

	if (SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_FULL_SNAPSHOT)
		return;
	switch (XLogRecGetInfo(buf->record) & ~XLR_INFO_MASK)
	{
		case XLOG_LSM_LOG_APPEND_HEADED:
			/* one without notes may have no xid to give a snapshot to */
			if (!is_noted(buf->record))
				break;
			pg_fallthrough;
		case XLOG_LSM_LOG_APPEND_LOGICAL:
			/* the base snapshot is built in fast-forward mode, too */
			if (SnapBuildProcessChange(ctx->snapshot_builder, xid, buf->origptr) &&
				!ctx->fast_forward)
				decode_append(ctx, buf);
			break;
		case XLOG_LSM_LOG_APPEND:
			if (!ctx->fast_forward)
				warn_of_old_rows(ctx, buf);
			break;
		default:
			break;
	}
}
