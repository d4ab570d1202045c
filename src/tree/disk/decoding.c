/*-------------------------------------------------------------------------
 *
 * decoding.c
 *	  Logical decoding meets our WAL records.
 *
 * It makes nothing of them.  Publications refuse lsm tables
 * (src/ddl/publications.c), but any output plugin may be asked for whatever a
 * slot has passed, so whoever decodes past a row of an lsm table is told, once
 * per slot in a process.  A warning and no error: the slot may be there for
 * other tables.  Entries of indexes are no one's loss: their tables are
 * decoded, or warn.
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
#include "tree/disk/log_entry.h"
#include "tree/disk/wal.h"

/*
 * Does the record write a row, as opposed to an index entry?  Keys of rows
 * have a length of their own.
 */
static bool
writes_row(XLogReaderState *record)
{
	const char *data = XLogRecGetData(record);
	const char *end = data + XLogRecGetDataLen(record);
	LsmWalAppend append;
	LsmLogHeader header;

	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) != XLOG_LSM_LOG_APPEND ||
		end - data < sizeof(append))
		return false;
	memcpy(&append, data, sizeof(append));
	data += sizeof(append) + (append.fresh ? sizeof(uint64) : 0);
	return data < end && lsm_log_header_get(data, end, &header) &&
		header.key_bytes == LSM_TID_BYTES;
}

void
lsm_decode(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	static NameData warned;
	XLogReaderState *record = buf->record;
	RelFileLocator rlocator;

	/* what is done for records of resource managers that decode nothing */
	ReorderBufferProcessXid(ctx->reorder, XLogRecGetXid(record), buf->origptr);

	if (ctx->fast_forward || strcmp(NameStr(warned), NameStr(ctx->slot->data.name)) == 0 ||
		SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_CONSISTENT ||
		SnapBuildXactNeedsSkip(ctx->snapshot_builder, buf->origptr) ||
		!writes_row(record) ||
		!XLogRecGetBlockTagExtended(record, 0, &rlocator, NULL, NULL, NULL) ||
		rlocator.dbOid != ctx->slot->data.database)
		return;
	warned = ctx->slot->data.name;
	ereport(WARNING,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("logical decoding passes over changes of lsm tables"),
			 errdetail("Replication slot \"%s\" has come to one. Changes of other tables are decoded.",
					   NameStr(ctx->slot->data.name)),
			 errhint("Nothing is to be done unless the changes of an lsm table are expected: then it has to be a heap table.")));
}
