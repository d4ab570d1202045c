/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  New row versions: insert, COPY, speculative insert.
 *
 * A new version gets a fresh TID, so no one can know of it before it is
 * written: it needs no lock.  Only the completion of a speculative insert
 * changes a version that others can see; it goes through LsmRowChange
 * (row_change.c).
 *
 * Serializable transactions: written first, checked then (see modify.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/predicate.h"

#include "table/table.h"

static void
forbid_parallel_insert(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot insert tuples in a parallel worker")));
}

/* The relation's tuple as it will be stored: itself, or a toasted copy. */
static HeapTuple
toast_new_tuple(Relation rel, HeapTuple tuple, int options)
{
	if (rel->rd_rel->relkind != RELKIND_RELATION &&
		rel->rd_rel->relkind != RELKIND_MATVIEW)
		return tuple;
	if (HeapTupleHasExternal(tuple) || tuple->t_len > TOAST_TUPLE_THRESHOLD)
		return heap_toast_insert_or_update(rel, tuple, NULL, options);
	return tuple;
}

void
lsm_header_of_new_row(LsmRow *header, TransactionId xid, CommandId cid, bool frozen)
{
	memset(header, 0, sizeof(LsmRow));
	ItemPointerSetInvalid(&header->next);
	header->xmin = xid;
	header->cmin = cid;
	if (frozen)
		lsm_row_freeze(header);
}

/* Let the caller's tuple and slot say what was stored: RETURNING shows it. */
void
lsm_label_tuple(Relation rel, HeapTuple tuple, TupleTableSlot *slot,
				const LsmRow *header, uint64 packed)
{
	lsm_tid_unpack(packed, &tuple->t_self);
	tuple->t_tableOid = RelationGetRelid(rel);
	lsm_row_label_tuple(header, tuple);
	slot->tts_tid = tuple->t_self;
	slot->tts_tableOid = tuple->t_tableOid;
}

/*
 * Write new rows, given their values; returns their packed TIDs.  TIDs
 * are taken when the write has begun, so that a flush waits for them.
 */
static void
write_new_rows(Relation rel, LsmTree *tree, LsmEntry *entries, int n, uint64 *packed)
{
	char		keys[LSM_MAX_WRITE_ENTRIES][LSM_TID_BYTES];
	LsmWrite	write;
	uint64		number;
	int			i;

	Assert(n > 0 && n <= LSM_MAX_WRITE_ENTRIES);
	lsm_relation_check_room(rel, tree, n);
	for (i = 0; i < n; i++)
	{
		entries[i].key = lsm_slice(keys[i], LSM_TID_BYTES);
		entries[i].probably_new = true;
		entries[i].known_new = true;
	}
	lsm_write_begin(tree, &write, entries, n);
	number = lsm_write_allocate_rows(&write, n);
	for (i = 0; i < n; i++)
	{
		packed[i] = lsm_number_pack(number + i);
		lsm_key_encode(packed[i], keys[i]);
	}
	lsm_write_apply(&write);
}

static void
insert_one(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
		   uint32 token)
{
	TransactionId xid = GetCurrentTransactionId();
	LsmTree    *tree;
	bool		should_free = true;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, true, &should_free);
	HeapTuple	stored;
	LsmRow		header;
	StringInfoData value;
	LsmEntry	entry;
	uint64		packed;

	forbid_parallel_insert();
	slot->tts_tableOid = RelationGetRelid(rel);
	tuple->t_tableOid = slot->tts_tableOid;

	stored = toast_new_tuple(rel, tuple, options);
	lsm_row_check_size(stored);
	lsm_header_of_new_row(&header, xid, cid, (options & TABLE_INSERT_FROZEN) != 0);
	if (token != 0)
	{
		header.flags |= LSM_ROW_SPECULATIVE;
		header.token = token;
	}
	lsm_row_value_init(&value, &header, stored);

	tree = lsm_table_tree(rel);
	memset(&entry, 0, sizeof(entry));
	entry.value = lsm_slice(value.data, value.len);
	if (!(options & TABLE_INSERT_NO_LOGICAL))
		entry.note = lsm_note_plain(rel, token != 0 ? LSM_CHANGE_SPECULATIVE :
									LSM_CHANGE_INSERT);
	write_new_rows(rel, tree, &entry, 1, &packed);

	lsm_label_tuple(rel, tuple, slot, &header, packed);
	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
	pgstat_count_heap_insert(rel, 1);

	pfree(value.data);
	if (stored != tuple)
		heap_freetuple(stored);
	if (should_free)
		pfree(tuple);
}

void
lsm_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, uint32 options,
				 BulkInsertState bistate)
{
	insert_one(rel, slot, cid, options, 0);
}

void
lsm_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
							 uint32 options, BulkInsertState bistate, uint32 token)
{
	Assert(token != 0);
	insert_one(rel, slot, cid, options, token);
}

/*
 * lsm_tuple_complete_speculative - the arbiter indexes have spoken.
 *
 * Confirmed rows lose the token.  Others are killed: dead to everyone at
 * once, without the transaction's end, so that those who wait for the
 * token do not deadlock with us.
 */
void
lsm_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token,
							   bool succeeded)
{
	TransactionId xid = GetCurrentTransactionId();
	LsmTree    *tree = lsm_table_tree(rel);
	LsmRowChange	target;
	LsmRow		header;
	LsmSlice	note = lsm_note_plain(rel, succeeded ? LSM_CHANGE_CONFIRM : LSM_CHANGE_ABORT);

	lsm_row_change_init(&target, rel, tree, &slot->tts_tid);
	do
	{
		if (!lsm_row_change_read(&target))
			elog(ERROR, "speculatively inserted row is missing");
		if (target.row.xmin != xid)
			elog(ERROR, "attempted to complete a row inserted by another transaction");
		if (!(target.row.flags & LSM_ROW_SPECULATIVE) || target.row.token != token)
			elog(ERROR, "attempted to complete a non-speculative row");

		header = target.row;
		header.flags &= ~LSM_ROW_SPECULATIVE;
		header.token = 0;
		if (!succeeded)
		{
			header.flags &= ~LSM_ROW_XMIN_COMMITTED;
			header.flags |= LSM_ROW_KILLED;
			header.xmin = InvalidTransactionId;
			header.cmin = 0;
		}
	} while (!lsm_row_change_override(&target, &header, note));

	if (!succeeded)
	{
		if (lsm_row_has_external(&target.row))
		{
			HeapTuple	tuple = lsm_row_form_tuple(&target.row, target.packed,
												   RelationGetRelid(rel));

			heap_toast_delete(rel, tuple, true);
			heap_freetuple(tuple);
		}
		/* the insertion was counted too */
		pgstat_count_heap_delete(rel);
	}
	lsm_row_change_free(&target);
}

/*
 * lsm_multi_insert - insert many rows with few log records.
 *
 * Rows are toasted and encoded first, so that a row that is too big fails
 * before anything is written.
 */
void
lsm_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
				 uint32 options, BulkInsertState bistate)
{
	TransactionId xid = GetCurrentTransactionId();
	LsmTree    *tree;
	LsmRow		header;
	StringInfoData buf;
	int		   *offsets;
	uint64	   *packed;
	int			first;
	int			i;

	if (nslots <= 0)
		return;
	forbid_parallel_insert();
	offsets = palloc((nslots + 1) * sizeof(int));
	packed = palloc(nslots * sizeof(uint64));
	lsm_header_of_new_row(&header, xid, cid, (options & TABLE_INSERT_FROZEN) != 0);
	initStringInfo(&buf);
	for (i = 0; i < nslots; i++)
	{
		HeapTuple	tuple;
		HeapTuple	stored;

		tuple = ExecFetchSlotHeapTuple(slots[i], true, NULL);
		slots[i]->tts_tableOid = RelationGetRelid(rel);
		tuple->t_tableOid = slots[i]->tts_tableOid;
		stored = toast_new_tuple(rel, tuple, options);
		lsm_row_check_size(stored);
		offsets[i] = buf.len;
		lsm_row_encode_tuple(&buf, &header, stored);
		if (stored != tuple)
			heap_freetuple(stored);
	}
	offsets[nslots] = buf.len;

	tree = lsm_table_tree(rel);
	for (first = 0; first < nslots; first = i)
	{
		LsmEntry	entries[LSM_MAX_WRITE_ENTRIES];
		uint32		bytes = 0;

		memset(entries, 0, sizeof(entries));
		for (i = first; i < nslots && i - first < LSM_MAX_WRITE_ENTRIES; i++)
		{
			bytes += LSM_TID_BYTES + offsets[i + 1] - offsets[i];
			if (bytes > LSM_MAX_ENTRY_BYTES && i > first)
				break;
			entries[i - first].value = lsm_slice(buf.data + offsets[i],
												 offsets[i + 1] - offsets[i]);
			if (!(options & TABLE_INSERT_NO_LOGICAL))
				entries[i - first].note = i == nslots - 1 ?
					lsm_note_plain(rel, LSM_CHANGE_INSERT) : lsm_note_insert_more(rel);
		}
		write_new_rows(rel, tree, entries, i - first, &packed[first]);
		CHECK_FOR_INTERRUPTS();
	}

	for (i = 0; i < nslots; i++)
		lsm_label_tuple(rel, ExecFetchSlotHeapTuple(slots[i], true, NULL), slots[i],
						&header, packed[i]);
	lsm_row_group_set(rel, slots, nslots, cid);
	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
	pgstat_count_heap_insert(rel, nslots);
	pfree(buf.data);
	pfree(offsets);
	pfree(packed);
}
