/*-------------------------------------------------------------------------
 *
 * readahead.h
 *	  Rows that were read ahead and are like the last one: what most rows of a
 *	  sequential scan need, to be inlined (readahead.c, scan.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TABLE_READAHEAD_H
#define LSM_TABLE_READAHEAD_H

#include "access/htup_details.h"

#include "table/table.h"

/* Headers with more null flags than this are made one by one */
#define MODEL_HEADER_BYTES	MAXALIGN(SizeofHeapTupleHeader)

/* The batch keeps the tuple: it is good until the next one is read. */
static inline void
lsm_ahead_keep(LsmBatch *batch, LsmSstEntry *entry, HeapTuple tuple)
{
	entry->value_offset = (char *) tuple - batch->bytes.data;
	entry->value_bytes = 0;
}

static inline void
lsm_ahead_store_kept(HeapTuple tuple, uint64 packed, TupleTableSlot *slot)
{
	HeapTupleTableSlot *heap_slot = (HeapTupleTableSlot *) slot;

	/* ExecStoreHeapTuple(tuple, slot, false) */
	if (TTS_SHOULDFREE(slot))
		ExecClearTuple(slot);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	lsm_tid_unpack(packed, &slot->tts_tid);
	slot->tts_tableOid = tuple->t_tableOid;
	heap_slot->tuple = tuple;
	heap_slot->off = 0;
}

/*
 * As lsm_row_form_in_place() for a row that begins like the model, and whose data
 * are aligned, or may be moved.  NULL, and the value untouched, for others.
 * *packed: the row's TID, then the version's.
 */
static pg_attribute_always_inline HeapTuple
lsm_ahead_form_alike(const LsmRowModel *model, char *value, uint32 value_bytes,
					 bool may_move, uint64 *packed, Oid relid)
{
	char	   *data = value + model->data_offset;
	char	   *to = may_move ? (char *) TYPEALIGN_DOWN(MAXIMUM_ALIGNOF, data) : data;
	uint64		start[2];
	TransactionId xmin = model->header.t_choice.t_heap.t_xmin;
	HeapTupleHeader header;
	HeapTuple	tuple;

	if (unlikely(value_bytes < model->least_bytes || (char *) MAXALIGN(to) != to))
		return NULL;
	memcpy(start, value, sizeof(start));
	if (unlikely((((start[0] ^ model->start[0]) & model->mask[0]) |
				  ((start[1] ^ model->start[1]) & model->mask[1])) != 0))
		return NULL;
	if (model->own)
	{
		memcpy(&xmin, (char *) start + LSM_ROW_XMIN_OFFSET, sizeof(xmin));
		if (unlikely(TransactionIdIsValid(model->before)) &&
			!NormalTransactionIdPrecedes(xmin, model->before))
			return NULL;
		if (model->own_version)
		{
			uint32		version;

			memcpy(&version, (char *) start + LSM_ROW_VERSION_OFFSET, sizeof(version));
			*packed = lsm_tid_of(*packed, version);
		}
	}
	header = (HeapTupleHeader) (to - MODEL_HEADER_BYTES);
	tuple = (HeapTuple) ((char *) header - HEAPTUPLESIZE);
	memcpy(header, &model->header, sizeof(model->header));
	header->t_choice.t_heap.t_xmin = xmin;
	lsm_tid_unpack(*packed, &header->t_ctid);
	tuple->t_len = MODEL_HEADER_BYTES + (value_bytes - model->data_offset);
	lsm_tid_unpack(*packed, &tuple->t_self);
	tuple->t_tableOid = relid;
	tuple->t_data = header;
	if (to != data)
		memmove(to, data, value_bytes - model->data_offset);
	return tuple;
}

/*
 * Put the next row into the slot, if it is like the last one, and step over
 * it.  False: nothing has changed.
 */
static inline bool
lsm_ahead_next_alike(LsmAhead *ahead, Oid relid, TupleTableSlot *slot)
{
	LsmBatch   *batch = ahead->batch;
	LsmSstEntry *entry = &batch->entries[ahead->next];
	uint64		packed = lsm_ahead_key(ahead, ahead->next);
	HeapTuple	tuple;

	if (unlikely(entry->key_bytes != LSM_TID_BYTES || !TTS_IS_HEAPTUPLE(slot)))
		return false;
	tuple = lsm_ahead_form_alike(ahead->model, batch->bytes.data + entry->value_offset,
								 entry->value_bytes, false, &packed, relid);
	if (unlikely(tuple == NULL))
		return false;
	lsm_ahead_keep(batch, entry, tuple);
	lsm_ahead_store_kept(tuple, packed, slot);
	ahead->next++;
	return true;
}

#endif							/* LSM_TABLE_READAHEAD_H */
