/*-------------------------------------------------------------------------
 *
 * readahead.c
 *	  Rows read ahead of those who ask for them, in batches of copies.
 *
 * A row's state at that moment is as good for an MVCC snapshot as its state
 * when it is returned: what the snapshot sees had happened before it was
 * taken, and changes by later commands of our own carry a cmin or cmax that
 * hides them.  Those who go on to change or lock a row read it again by its
 * TID. Snapshots that want the present state, and serializable transactions,
 * whose conflicts are looked for in what is there when a row is returned, do
 * without.
 *
 * Sequential scans read ahead from the start (scan.c).  Index scans do when
 * the TIDs that they ask for turn out to be neighbours, as they are where rows
 * were written in the order of the index: a fetch then costs a step instead of
 * a lookup.  They take a batch's word only for rows they see: an index entry
 * may be younger than the batch, so that a row that is not in it says nothing.
 *
 * Locks: none are held between calls, see cursor.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "utils/memutils.h"

#include "table/readahead.h"

/* Rows of the first batch: a LIMIT should not pay for a full one */
#define FIRST_BATCH_ROWS	4

/*
 * Fetches of neighbours in a row before an index scan reads ahead; TIDs that
 * are no farther apart than NEAR_ROWS are neighbours.  Reading past a row
 * costs less than a tenth of a lookup.
 */
#define AHEAD_FETCHES		2
#define NEAR_ROWS			8
/* After a batch of which too little was used: so many fetches without */
#define BACKOFF_FETCHES		64

bool
lsm_snapshot_reads_ahead(Snapshot snapshot)
{
	return snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC &&
		!IsolationIsSerializable();
}

void
lsm_ahead_reset(LsmAhead *ahead)
{
	ahead->next = 0;
	ahead->visible_xmin = InvalidTransactionId;
	ahead->model.data_offset = 0;
	ahead->size = FIRST_BATCH_ROWS;
	if (ahead->batch)
		ahead->batch->n = 0;
}

void
lsm_ahead_free(LsmAhead *ahead)
{
	if (ahead->batch == NULL)
		return;
	pfree(ahead->again.data);
	pfree(ahead->batch->bytes.data);
	pfree(ahead->batch);
	ahead->batch = NULL;
}

/*
 * lsm_ahead_fill - read the next batch from where the cursor stands, up to
 * the TID `high`.  False: there is no row.
 */
bool
lsm_ahead_fill(LsmAhead *ahead, LsmCursor *cursor, uint64 high, MemoryContext context)
{
	char		limit[LSM_TID_BYTES];

	if (ahead->batch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		LsmBatch   *batch = palloc0(sizeof(LsmBatch));

		initStringInfo(&ahead->again);
		initStringInfo(&batch->bytes);
		batch->headroom = LSM_ROW_HEADROOM;
		ahead->batch = batch;
		MemoryContextSwitchTo(old);
	}
	lsm_key_encode(high, limit);
	ahead->next = 0;
	if (!lsm_cursor_fill(cursor, ForwardScanDirection, lsm_slice(limit, sizeof(limit)), ahead->size,
						 ahead->batch))
		return false;
	ahead->size = Min(ahead->size * 4, LSM_BATCH_ENTRIES);
	return true;
}

/*
 * Is the clog of one of the row's transactions gone, and the row does not say
 * what became of it?
 */
static bool
outlived_clog(const LsmRow *row)
{
	TransactionId oldest = TransamVariables->oldestClogXid;

	if (!(row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN | LSM_ROW_KILLED)) &&
		TransactionIdPrecedes(row->xmin, oldest))
		return true;
	return (row->flags & LSM_ROW_HAS_XMAX) && !(row->flags & LSM_ROW_XMAX_COMMITTED) &&
		TransactionIdPrecedes(row->xmax, oldest);
}

/*
 * A cursor may rest for days on what it has read ahead.  Its snapshot does not
 * keep the clog of transactions before it, once VACUUM has frozen their rows
 * and those of all other tables.  The tree has the row with what became of it.
 * False: the row is gone, so the snapshot does not see it; *row is one that
 * nobody has to remove.
 */
static bool
read_again(LsmAhead *ahead, Relation rel, uint64 packed, LsmRow *row)
{
	LsmTree    *tree = lsm_table_tree(rel);
	char		data[LSM_TID_BYTES];
	LsmSlice	key = lsm_slice(data, sizeof(data));
	LsmProbe	probe;

	lsm_key_encode(packed, data);
	lsm_probe_begin(tree, &probe, key);
	if (lsm_tree_get(tree, key, &probe, &ahead->again))
	{
		lsm_row_decode(rel, packed, lsm_slice(ahead->again.data, ahead->again.len), row);
		return true;
	}
	row->flags = LSM_ROW_XMIN_FROZEN;
	return false;
}

static void
set_model(LsmRowModel *model, const char *value, uint32 data_offset, HeapTuple tuple)
{
	StaticAssertStmt(sizeof(model->header) == MODEL_HEADER_BYTES,
					 "a model's header is not padded as a tuple's");
	model->data_offset = 0;
	if (tuple->t_data->t_hoff != MODEL_HEADER_BYTES || data_offset > sizeof(model->start))
		return;
	memset(model->start, 0, sizeof(model->start));
	memset(model->mask, 0, sizeof(model->mask));
	memcpy(model->start, value, data_offset);
	memset(model->mask, 0xFF, data_offset);
	model->own_xmin = HeapTupleHeaderXminFrozen(tuple->t_data) &&
		TransactionIdIsNormal(HeapTupleHeaderGetRawXmin(tuple->t_data));
	if (model->own_xmin)
		memset((char *) model->mask + LSM_ROW_XMIN_OFFSET, 0, sizeof(TransactionId));
	memcpy(&model->header, tuple->t_data, sizeof(model->header));
	model->data_offset = data_offset;
}

/*
 * lsm_ahead_store - if the snapshot sees the next row, put it into the slot.
 *
 * Nearly all rows become tuples where they are, in the batch: no allocation,
 * no copy.  An entry of that kind has value_bytes 0 from then on, and its
 * offset is the tuple's.  So a slot is good until the scan reads on, and no
 * longer than the scan.
 */
LsmAheadResult
lsm_ahead_store(LsmAhead *ahead, Relation rel, Snapshot snapshot, TupleTableSlot *slot,
				LsmRow *row)
{
	LsmBatch   *batch = ahead->batch;
	LsmSstEntry *entry = &batch->entries[ahead->next];
	uint64		packed = lsm_ahead_key(ahead, ahead->next);
	char	   *value = batch->bytes.data + entry->value_offset;
	uint32		data_offset = batch->aligned;
	HeapTuple	tuple;

	if (unlikely(entry->key_bytes != LSM_TID_BYTES))
		return LSM_AHEAD_MALFORMED;
	if (entry->value_bytes == 0)
	{
		lsm_ahead_store_kept((HeapTuple) value, packed, slot);
		return LSM_AHEAD_STORED;
	}
	if (likely(TTS_IS_HEAPTUPLE(slot)))
	{
		tuple = lsm_ahead_form_alike(&ahead->model, value, entry->value_bytes, packed, RelationGetRelid(rel));
		if (unlikely(tuple == NULL))
		{
			char		start[sizeof(ahead->model.start)];
			uint32		start_bytes = Min(entry->value_bytes, sizeof(start));

			/* the tuple's header overwrites it */
			memcpy(start, value, start_bytes);
			tuple = lsm_row_form_in_place(value, entry->value_bytes, packed, RelationGetRelid(rel),
										  snapshot, ahead->visible_xmin, &data_offset);
			if (tuple != NULL)
				set_model(&ahead->model, start, data_offset, tuple);
		}
		if (likely(tuple != NULL))
		{
			lsm_ahead_keep(batch, entry, tuple);
			lsm_ahead_store_kept(tuple, packed, slot);
			return LSM_AHEAD_STORED;
		}
	}

	lsm_row_decode(rel, packed, lsm_slice(value, entry->value_bytes), row);
	if (unlikely(outlived_clog(row)) && !read_again(ahead, rel, packed, row))
		return LSM_AHEAD_HIDDEN;
	if (!lsm_row_visible(row, snapshot))
		return LSM_AHEAD_HIDDEN;
	/* the next batch will be aligned to rows like this one */
	batch->aligned = data_offset;
	if (TransactionIdIsNormal(row->xmin) && NormalTransactionIdPrecedes(row->xmin, snapshot->xmin))
		ahead->visible_xmin = row->xmin;
	lsm_row_store(rel, row, packed, slot);
	return LSM_AHEAD_STORED;
}

/* ---- index scans ---- */

static inline bool
same_snapshot(const LsmFetchAhead *fetch, Snapshot snapshot)
{
	return fetch->snapshot == snapshot && fetch->curcid == snapshot->curcid &&
		fetch->xmin == snapshot->xmin && fetch->xmax == snapshot->xmax;
}

static inline bool
is_near(uint64 packed, uint64 last)
{
	return packed > last && lsm_tid_number(packed) - lsm_tid_number(last) <= NEAR_ROWS;
}

/* Start a batch at the TID, or go on behind the last one. */
static bool
fetch_fill(LsmFetchAhead *fetch, LsmTree *tree, uint64 packed, bool go_on,
		   MemoryContext context)
{
	LsmBatch   *batch = fetch->ahead.batch;

	if (fetch->cursor == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		fetch->cursor = lsm_cursor_open(tree);
		MemoryContextSwitchTo(old);
	}
	if (batch != NULL && fetch->hits * NEAR_ROWS < batch->n)
	{
		lsm_ahead_reset(&fetch->ahead);
		fetch->run = -BACKOFF_FETCHES;
		return false;
	}
	if (!go_on)
	{
		char		key[LSM_TID_BYTES];

		lsm_ahead_reset(&fetch->ahead);
		lsm_key_encode(packed, key);
		lsm_cursor_seek(fetch->cursor, lsm_slice(key, sizeof(key)), false,
						ForwardScanDirection);
	}
	fetch->hits = 0;
	if (!lsm_ahead_fill(&fetch->ahead, fetch->cursor, ~UINT64CONST(0) >> 16, context))
	{
		lsm_ahead_reset(&fetch->ahead);
		return false;
	}
	return true;
}

/* Go to the entry of the TID; false: the batch has none. */
static bool
ahead_find(LsmAhead *ahead, uint64 packed)
{
	LsmBatch   *batch = ahead->batch;

	if (packed < lsm_ahead_key(ahead, 0))
		return false;
	if (ahead->next >= batch->n || packed < lsm_ahead_key(ahead, ahead->next))
		ahead->next = 0;
	while (ahead->next < batch->n && lsm_ahead_key(ahead, ahead->next) < packed)
		ahead->next++;
	return ahead->next < batch->n && lsm_ahead_key(ahead, ahead->next) == packed;
}

/*
 * lsm_fetch_from_ahead - the row at the TID if it has been read ahead, or is
 * now, and is visible.  False says nothing about the row.
 *
 * What was read ahead stays good as long as the snapshot is the same, across
 * rescans, too.
 */
bool
lsm_fetch_from_ahead(LsmFetchAhead *fetch, Relation rel, LsmTree *tree, uint64 packed,
					 Snapshot snapshot, MemoryContext context, TupleTableSlot *slot)
{
	LsmAhead   *ahead = &fetch->ahead;
	bool		near = is_near(packed, fetch->last);
	LsmRow		row;
	int			n;

	fetch->last = packed;
	if (!near)
		fetch->run = Min(fetch->run, 0);
	else if (fetch->run < AHEAD_FETCHES)
		fetch->run++;

	n = ahead->batch != NULL ? ahead->batch->n : 0;
	if (n > 0 && !same_snapshot(fetch, snapshot))
	{
		lsm_ahead_reset(ahead);
		n = 0;
	}
	if (n == 0 || packed > lsm_ahead_key(ahead, n - 1))
	{
		if (fetch->run < AHEAD_FETCHES || !lsm_snapshot_reads_ahead(snapshot) ||
			!fetch_fill(fetch, tree, packed,
						n > 0 && is_near(packed, lsm_ahead_key(ahead, n - 1)), context))
			return false;
		fetch->snapshot = snapshot;
		fetch->curcid = snapshot->curcid;
		fetch->xmin = snapshot->xmin;
		fetch->xmax = snapshot->xmax;
	}
	if (!ahead_find(ahead, packed))
		return false;
	fetch->hits++;
	return lsm_ahead_store(ahead, rel, snapshot, slot, &row) == LSM_AHEAD_STORED;
}

void
lsm_fetch_ahead_free(LsmFetchAhead *fetch)
{
	if (fetch->cursor)
		lsm_cursor_close(fetch->cursor);
	lsm_ahead_free(&fetch->ahead);
}
