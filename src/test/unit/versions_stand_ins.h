/*-------------------------------------------------------------------------
 *
 * versions_stand_ins.h
 *	  What the files that versions_test.c includes need of the server and of
 *	  other rooms, beside transactions.  Nothing here is called, or as little as
 *	  possible.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSIONS_STAND_INS_H
#define VERSIONS_STAND_INS_H

#include "executor/tuptable.h"
#include "storage/itemptr.h"

#include "sst/sst.h"
#include "tree/disk/disk.h"
#include "tree/read/filecache.h"

const TupleTableSlotOps TTSOpsHeapTuple;
bool		lsm_ignore_missing_files = false;

bool
TransactionIdPrecedes(TransactionId a, TransactionId b)
{
	/* special ones are before all others */
	if (!TransactionIdIsNormal(a) || !TransactionIdIsNormal(b))
		return a < b;
	return (int32) (a - b) < 0;
}

bool
ItemPointerEquals(ItemPointer a, ItemPointer b)
{
	abort();
}

TupleTableSlot *
ExecStoreHeapTuple(HeapTuple tuple, TupleTableSlot *slot, bool should_free)
{
	abort();
}

void
ExecForceStoreHeapTuple(HeapTuple tuple, TupleTableSlot *slot, bool should_free)
{
	abort();
}

FullTransactionId
ReadNextFullTransactionId(void)
{
	/* in the epoch after the first: xids cross the end of their range */
	return FullTransactionIdFromEpochAndXid(2, next_xid());
}

char *
psprintf(const char *fmt, ...)
{
	char	   *text = palloc(512);
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, 512, fmt, args);
	va_end(args);
	return text;
}

void
lsm_row_decode_change(struct LogicalDecodingContext *ctx, struct XLogRecordBuffer *buf,
					  const RelFileLocator *relation, LsmSlice value, LsmSlice note)
{
	abort();
}

bool
lsm_row_is_changed(LsmSlice value, TransactionId xid)
{
	abort();
}

/* ---- files, which merge.c reads ---- */

LsmSstReader *
lsm_file_open_sorted(LsmTree *tree, const LsmFile *file)
{
	abort();
}

LsmSstStatus
lsm_sst_iter_open(LsmSstReader *reader, LsmSstIter **iter, LsmSstError *err)
{
	abort();
}

LsmSstStatus
lsm_sst_iter_first(LsmSstIter *iter, LsmSstError *err)
{
	abort();
}

LsmSstStatus
lsm_sst_iter_step(LsmSstIter *iter, LsmSstView *entry, LsmSstError *err)
{
	abort();
}

bool
lsm_sst_iter_valid(const LsmSstIter *iter)
{
	abort();
}

const void *
lsm_sst_iter_key(const LsmSstIter *iter, size_t *len)
{
	abort();
}

const void *
lsm_sst_iter_value(const LsmSstIter *iter, size_t *len)
{
	abort();
}

void
lsm_sst_iter_close(LsmSstIter *iter)
{
	abort();
}

void
lsm_sst_close(LsmSstReader *reader)
{
	abort();
}

void
lsm_sst_report(int elevel, const LsmSstError *err)
{
	abort();
}

/* ---- what is removed ---- */

const char	lsm_delete_value[1] = {LSM_TAG_DELETE};

static int	removable_asserted = 0;

/* What goes is dead to all who have a snapshot. */
void
lsm_assert_removable(Oid database, TransactionId xid)
{
	removable_asserted++;
	Assert(lsm_xid_removable(NULL, xid));
}

/* FNV-1a */
LsmDigest
lsm_digest_key(const void *key, size_t bytes)
{
	LsmDigest	digest = UINT64CONST(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes; i++)
		digest = (digest ^ ((const unsigned char *) key)[i]) * UINT64CONST(0x100000001b3);
	return digest;
}

#endif							/* VERSIONS_STAND_INS_H */
