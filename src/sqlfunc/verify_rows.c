/*-------------------------------------------------------------------------
 *
 * verify_rows.c
 *	  lsm_verify(): the rows of an lsm table, and its visibility map.
 *
 *	- Each row can be decoded, and fits the table and the transactions that
 *	  there have been.
 *	- In blocks that are all-visible the present snapshot sees each row that is
 *	  not deleted, and none that is, and no entry of an index that index-only scans use names
 *	  a row that the present snapshot does not see.  (Of lsm indexes,
 *	  verify_index.c looks at that.)
 *
 * A block may become all-visible meanwhile, but not one with a row that this
 * snapshot does not see, or sees though it is deleted: who sets the bit has found
 * that every snapshot in the database knows the row's maker, or its deleter, to
 * have ended.  (The snapshot's xmin says less: other databases' xids are in it.)
 * A deleted row that it does not see is found by the entries that name it.  While
 * an index scan stands at an entry, VACUUM cannot have removed it, nor set the
 * block's bit.
 *
 * Locking: the table is locked by who calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "catalog/pg_am_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/am.h"
#include "sqlfunc/functions.h"
#include "sqlfunc/verify.h"

static void
note_row(LsmVerify *verify, LsmVerifyStage stage, const char *problem)
{
	lsm_verify_note(&verify->notes, 0, stage, RelationGetRelationName(verify->table), problem);
}

/* The bit of the row's block: read after the row was. */
static const char *
check_hidden(LsmVerify *verify, LsmSlice key, Buffer *vm_buffer)
{
	uint32		block;
	uint16		offset;

	lsm_tid_read(key.data, &block, &offset);
	if (!VM_ALL_VISIBLE(verify->table, block, vm_buffer))
		return NULL;
	return psprintf("block %u is marked all-visible, but row (%u,%u) is not visible to all",
					block, block, offset);
}

/* What is wrong with a row as it was read; or NULL */
static const char *
check_value(LsmVerify *verify, LsmSlice key, LsmSlice value, Buffer *vm_buffer)
{
	bool		hidden;
	const char *problem = lsm_tree_check_row(lsm_relation_tree(verify->table), verify->table, key,
											 value, verify->snapshot, &hidden);

	if (problem == NULL && hidden)
		return check_hidden(verify, key, vm_buffer);
	return problem;
}

/* The row as it is now; false: it is gone. */
static bool
read_again(LsmVerify *verify, LsmSlice key, StringInfo value)
{
	LsmCursor  *cursor = lsm_cursor_open(lsm_relation_tree(verify->table));
	LsmSlice	found;
	LsmSlice	now;
	bool		there;

	lsm_cursor_seek(cursor, key, false, ForwardScanDirection);
	there = lsm_cursor_step(cursor, ForwardScanDirection, &found, &now) &&
		lsm_slice_compare(found, key) == 0;
	if (there)
		appendBinaryStringInfo(value, now.data, now.len);
	lsm_cursor_close(cursor);
	return there;
}

/*
 * The cursor may have read the row long ago, from files that are no more the
 * tree's: since then its maker may have ended and VACUUM removed it, or frozen
 * it and forgotten the transaction.  What is said of a row must be true of it
 * when it is read again and is still the same.
 */
static void
check_row(LsmVerify *verify, LsmSlice key, LsmSlice value, Buffer *vm_buffer)
{
	const char *problem = check_value(verify, key, value, vm_buffer);
	bool		same = false;

	while (problem != NULL && !same)
	{
		StringInfoData now;

		CHECK_FOR_INTERRUPTS();
		initStringInfo(&now);
		if (!read_again(verify, key, &now))
			return;
		same = lsm_slice_compare(lsm_slice(now.data, now.len), value) == 0;
		value = lsm_slice(now.data, now.len);
		problem = check_value(verify, key, value, vm_buffer);
	}
	if (problem != NULL)
		note_row(verify, LSM_VERIFY_TABLE, problem);
}

void
lsm_verify_rows(LsmVerify *verify)
{
	LsmCursor  *cursor = lsm_cursor_open(lsm_relation_tree(verify->table));
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "lsm verify row",
											  ALLOCSET_SMALL_SIZES);
	Buffer		vm_buffer = InvalidBuffer;
	LsmSlice	key;
	LsmSlice	value;

	lsm_cursor_seek(cursor, lsm_slice(NULL, 0), false, ForwardScanDirection);
	while (lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(cxt);
		old = MemoryContextSwitchTo(cxt);
		check_row(verify, key, value, &vm_buffer);
		MemoryContextSwitchTo(old);
	}
	lsm_cursor_close(cursor);
	if (BufferIsValid(vm_buffer))
		ReleaseBuffer(vm_buffer);
	MemoryContextDelete(cxt);
}

/*
 * Can what an index-only scan returns be compared?  Only a btree's scan pins the
 * page of its entry; GiST and SP-GiST look at a copy, whose entries VACUUM may
 * have removed.
 */
static bool
serves_index_only_scans(Relation index, Snapshot snapshot)
{
	return index->rd_rel->relam == BTREE_AM_OID &&
		lsm_index_is_comparable(index, snapshot);
}

static void
check_entries_of(LsmVerify *verify, Relation index)
{
	IndexScanDesc scan = index_beginscan(verify->table, index, verify->snapshot, NULL, 0, 0, SO_NONE);
	TupleTableSlot *slot = table_slot_create(verify->table, NULL);
	Buffer		vm_buffer = InvalidBuffer;
	ItemPointer tid;

	scan->xs_want_itup = true;
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		ItemPointerData its = *tid;

		CHECK_FOR_INTERRUPTS();
		if (VM_ALL_VISIBLE(verify->table, ItemPointerGetBlockNumber(&its), &vm_buffer) &&
			!index_fetch_heap(scan, slot))
		{
			char	   *problem = psprintf("block %u is marked all-visible, but index \"%s\" has an entry of row (%u,%u), which is not visible",
										   ItemPointerGetBlockNumber(&its), RelationGetRelationName(index),
										   ItemPointerGetBlockNumber(&its), ItemPointerGetOffsetNumber(&its));

			note_row(verify, LSM_VERIFY_MAP, problem);
			pfree(problem);		/* there may be one for each entry */
		}
	}
	if (BufferIsValid(vm_buffer))
		ReleaseBuffer(vm_buffer);
	ExecDropSingleTupleTableSlot(slot);
	index_endscan(scan);
}

void
lsm_verify_map(LsmVerify *verify)
{
	List	   *oids = RelationGetIndexList(verify->table);
	ListCell   *lc;

	foreach(lc, oids)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (!lsm_relation_is_index(index) && serves_index_only_scans(index, verify->snapshot))
			check_entries_of(verify, index);
		index_close(index, AccessShareLock);
	}
	list_free(oids);
}
