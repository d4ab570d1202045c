/*-------------------------------------------------------------------------
 *
 * readahead.c
 *	  Rows read ahead of those who ask for them, in batches of copies.
 *
 * A row's state at that moment is as good for an MVCC snapshot as its state
 * when it is returned: what the snapshot sees had happened before it was
 * taken, and changes by later commands of our own carry a cmin or cmax that
 * hides them.  Of a row's versions those are read that the snapshot wants.  Those
 * who go on to change or lock a row read it again by its TID.  Snapshots that
 * want the present state, and serializable transactions, whose conflicts are
 * looked for in what is there when a row is returned, do without.
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
#include "table/versions.h"

/* Rows of the first batch: a LIMIT should not pay for a full one */
#define FIRST_BATCH_ROWS	4

/*
 * Fetches of neighbours in a row before an index scan reads ahead; TIDs that
 * are no farther apart than NEAR_ROWS are neighbours.  Reading past a row
 * costs less than a tenth of a lookup.
 */
#define AHEAD_FETCHES		2
#define NEAR_ROWS			8
/*
 * After this many models rows are taken for those of many transactions, which need
 * not have the model's xmin.
 */
#define FEW_MODELS			4

/* After a batch of which too little was used: this many fetches without */
#define BACKOFF_FETCHES		64

bool
lsm_snapshot_reads_ahead(Snapshot snapshot)
{
	return snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC &&
		!IsolationIsSerializable();
}

static void
forget_model(LsmRowModel *model)
{
	memset(model, 0, sizeof(LsmRowModel));
	model->least_bytes = PG_UINT32_MAX;
}

void
lsm_ahead_reset(LsmAhead *ahead)
{
	ahead->next = 0;
	ahead->nmodels = ahead->moved = 0;
	ahead->model = &ahead->models[0];
	forget_model(&ahead->models[0]);
	forget_model(&ahead->models[1]);
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

	/* align this batch to what most rows of the last one were like */
	if (ahead->moved > ahead->batch->n / 2)
		ahead->batch->aligned = ahead->moved_offset;
	ahead->moved = 0;
	if (!lsm_cursor_fill(cursor, ForwardScanDirection, lsm_slice(limit, sizeof(limit)), ahead->size,
						 ahead->batch))
		return false;
	ahead->size = Min(ahead->size * 4, LSM_BATCH_ENTRIES);
	return true;
}

/*
 * Is the clog of one of the version's transactions gone, and it does not say what
 * became of it?
 */
static bool
outlived_clog(const LsmRow *version)
{
	TransactionId oldest = TransamVariables->oldestClogXid;

	if (!(version->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN | LSM_ROW_KILLED)) &&
		TransactionIdPrecedes(version->xmin, oldest))
		return true;
	return (version->flags & LSM_ROW_HAS_XMAX) && !(version->flags & LSM_ROW_XMAX_COMMITTED) &&
		TransactionIdPrecedes(version->xmax, oldest);
}

/* The same of one of several versions: none has been looked up yet. */
static bool
chain_outlived_clog(Relation rel, uint64 row, LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element;
	LsmRow		version;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		if (lsm_value_tag(element) == LSM_TAG_DELETE)
			continue;
		lsm_row_decode(rel, row, element, &version);
		if (outlived_clog(&version))
			return true;
	}
	return false;
}

/*
 * A cursor may rest for days on what it has read ahead.  Its snapshot does not
 * keep the clog of transactions before it, once VACUUM has frozen their rows
 * and those of all other tables.  The tree has the row with what became of it.
 * Empty: the row is gone, so the snapshot does not see it, and nobody has to
 * remove it.
 */
static LsmSlice
read_again(LsmAhead *ahead, Relation rel, uint64 row)
{
	LsmTree    *tree = lsm_table_tree(rel);
	char		data[LSM_TID_BYTES];
	LsmSlice	key = lsm_slice(data, sizeof(data));
	LsmProbe	probe;

	lsm_key_encode(row, data);
	lsm_probe_begin(tree, &probe, key);
	if (!lsm_tree_get_until(tree, key, &probe, &ahead->enough, &ahead->again, NULL))
		return lsm_slice(NULL, 0);
	return lsm_slice(ahead->again.data, ahead->again.len);
}

/*
 * The version that the snapshot sees, where it is not one like the last one.
 * False: there is none, in *value.
 */
static bool
find_version(LsmAhead *ahead, Relation rel, uint64 row, Snapshot snapshot, LsmSlice *value,
			 LsmRow *version, uint64 *packed)
{
	if (likely(lsm_value_tag(*value) <= LSM_TAG_VERSION))
	{
		lsm_row_decode(rel, row, *value, version);
		if (likely(!outlived_clog(version)))
		{
			*packed = lsm_tid_of(row, version->version);
			return lsm_row_visible(version, snapshot);
		}
		*value = read_again(ahead, rel, row);
	}
	else if (unlikely(chain_outlived_clog(rel, row, *value)))
		*value = read_again(ahead, rel, row);
	return value->len > 0 &&
		lsm_versions_for_snapshot(rel, row, *value, snapshot, version, packed);
}

/*
 * `value`: what it began with, so many bytes as there are in a model, or all.
 * `before`: invalid, or rows with other xmins than that are to be like it, too, as
 * long as these precede it.
 */
static void
set_model(LsmRowModel *model, const char *value, uint32 data_offset, HeapTuple tuple,
		  TransactionId before)
{
	const uint32 version_bytes = sizeof(uint32);
	const uint32 older_bytes = sizeof(uint8) + sizeof(uint16);
	uint16		flags;
	bool		has_xmin;
	bool		own_xmin;

	StaticAssertStmt(sizeof(model->header) == MODEL_HEADER_BYTES,
					 "a model's header is not padded as a tuple's");
	forget_model(model);
	memcpy(&flags, value + 1, sizeof(flags));
	has_xmin = (flags & (LSM_ROW_XMIN_FROZEN | LSM_ROW_XMIN_KEPT)) != LSM_ROW_XMIN_FROZEN;
	if (tuple->t_data->t_hoff != MODEL_HEADER_BYTES || data_offset > sizeof(model->start) ||
		((flags & LSM_ROW_VERSION) && !has_xmin))
		return;
	memcpy(model->start, value, data_offset);
	memset(model->mask, 0xFF, data_offset);
	model->own_version = (flags & LSM_ROW_VERSION) != 0;
	own_xmin = has_xmin && (flags & LSM_ROW_XMIN_FROZEN);
	if ((flags & LSM_ROW_XMIN_COMMITTED) && TransactionIdIsValid(before))
	{
		model->before = before;
		own_xmin = true;
	}
	model->own = own_xmin || model->own_version;
	if (own_xmin)
		memset((char *) model->mask + LSM_ROW_XMIN_OFFSET, 0, sizeof(TransactionId));
	if (model->own_version)
		memset((char *) model->mask + LSM_ROW_VERSION_OFFSET, 0,
			   version_bytes + (value[0] == LSM_TAG_VERSION ? older_bytes : 0));
	memcpy(&model->header, tuple->t_data, sizeof(model->header));
	model->least_bytes = sizeof(model->start);
	model->data_offset = data_offset;
}

/* The model that is not the last row's */
static inline LsmRowModel *
other_model(LsmAhead *ahead)
{
	return &ahead->models[ahead->model == &ahead->models[0] ? 1 : 0];
}

/*
 * A row like that has been met, whose data were there in the value.  The next ones
 * are expected to be like it, unless its data had to be moved.
 */
static inline void
note_model(LsmAhead *ahead, LsmRowModel *model, const char *value, uint32 data_offset)
{
	if (likely((const char *) MAXALIGN(value + data_offset) == value + data_offset))
		ahead->model = model;
	else
	{
		ahead->moved++;
		ahead->moved_offset = data_offset;
	}
}

/* The row, if it is like one of the models */
static HeapTuple
form_known(LsmAhead *ahead, char *value, uint32 value_bytes, uint64 row, Oid relid)
{
	LsmRowModel *model = ahead->model;

	for (int i = 0; i < lengthof(ahead->models); i++)
	{
		HeapTuple	tuple = lsm_ahead_form_alike(model, value, value_bytes, true, &row, relid);

		if (tuple != NULL)
		{
			note_model(ahead, model, value, model->data_offset);
			return tuple;
		}
		model = other_model(ahead);
	}
	return NULL;
}

/*
 * The row, if it is plain and the snapshot sees it.  It becomes a model in place of
 * the other one.
 */
static HeapTuple
form_first(LsmAhead *ahead, char *value, uint32 value_bytes, uint64 row, Oid relid,
		   Snapshot snapshot)
{
	LsmRowModel *model = other_model(ahead);
	char		start[sizeof(model->start)];
	uint32		data_offset;
	LsmRow		version;
	HeapTuple	tuple;

	if (!lsm_row_parse_plain(lsm_slice(value, value_bytes), &version) ||
		outlived_clog(&version) || !lsm_row_visible(&version, snapshot))
		return NULL;
	data_offset = lsm_row_data_offset(value, &version);

	/* the tuple's header overwrites it */
	memcpy(start, value, Min(value_bytes, sizeof(start)));
	tuple = lsm_row_form_in_place(value, value_bytes, &version, lsm_tid_of(row, version.version),
								  relid);
	set_model(model, start, data_offset, tuple,
			  ahead->nmodels++ < FEW_MODELS ? InvalidTransactionId : snapshot->xmin);
	note_model(ahead, model, value, data_offset);
	return tuple;
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
				LsmSlice *seen, LsmRow *version)
{
	LsmBatch   *batch = ahead->batch;
	LsmSstEntry *entry = &batch->entries[ahead->next];
	uint64		row = lsm_ahead_key(ahead, ahead->next);
	char	   *value = batch->bytes.data + entry->value_offset;
	HeapTuple	tuple;
	uint64		packed;

	if (unlikely(entry->key_bytes != LSM_TID_BYTES))
		return LSM_AHEAD_MALFORMED;
	if (entry->value_bytes == 0)
	{
		tuple = (HeapTuple) value;
		lsm_ahead_store_kept(tuple, lsm_tid_pack(&tuple->t_self), slot);
		return LSM_AHEAD_STORED;
	}
	if (likely(TTS_IS_HEAPTUPLE(slot)))
	{
		tuple = form_known(ahead, value, entry->value_bytes, row,
									 RelationGetRelid(rel));
		if (unlikely(tuple == NULL))
			tuple = form_first(ahead, value, entry->value_bytes, row, RelationGetRelid(rel),
							   snapshot);
		if (likely(tuple != NULL))
		{
			lsm_ahead_keep(batch, entry, tuple);
			lsm_ahead_store_kept(tuple, lsm_tid_pack(&tuple->t_self), slot);
			return LSM_AHEAD_STORED;
		}
	}

	*seen = lsm_slice(value, entry->value_bytes);
	if (!find_version(ahead, rel, row, snapshot, seen, version, &packed))
		return LSM_AHEAD_HIDDEN;
	lsm_row_store(rel, version, packed, slot);
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
is_near(uint64 row, uint64 last)
{
	return row > last && lsm_tid_number(row) - lsm_tid_number(last) <= NEAR_ROWS;
}

/* Start a batch at the row, or go on behind the last one. */
static bool
fetch_fill(LsmFetchAhead *fetch, LsmTree *tree, uint64 row, Snapshot snapshot, bool go_on,
		   MemoryContext context)
{
	LsmBatch   *batch = fetch->ahead.batch;

	if (fetch->cursor == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		fetch->cursor = lsm_cursor_open(tree);
		lsm_cursor_enough(fetch->cursor, &fetch->ahead.enough);
		MemoryContextSwitchTo(old);
	}
	if (batch != NULL && fetch->hits * NEAR_ROWS < batch->n)
	{
		lsm_ahead_reset(&fetch->ahead);
		fetch->run = -BACKOFF_FETCHES;
		return false;
	}
	fetch->ahead.enough = lsm_enough_for_snapshot(snapshot);
	if (!go_on)
	{
		char		key[LSM_TID_BYTES];

		lsm_ahead_reset(&fetch->ahead);
		lsm_key_encode(row, key);
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

/* Go to the entry of the row; false: the batch has none. */
static bool
ahead_find(LsmAhead *ahead, uint64 row)
{
	LsmBatch   *batch = ahead->batch;

	if (row < lsm_ahead_key(ahead, 0))
		return false;
	if (ahead->next >= batch->n || row < lsm_ahead_key(ahead, ahead->next))
		ahead->next = 0;
	while (ahead->next < batch->n && lsm_ahead_key(ahead, ahead->next) < row)
		ahead->next++;
	return ahead->next < batch->n && lsm_ahead_key(ahead, ahead->next) == row;
}

/*
 * lsm_fetch_from_ahead - the row if it has been read ahead, or is now, and is
 * visible.  False says nothing about the row.
 *
 * What was read ahead stays good as long as the snapshot is the same, across
 * rescans, too.
 */
bool
lsm_fetch_from_ahead(LsmFetchAhead *fetch, Relation rel, LsmTree *tree, uint64 row,
					 Snapshot snapshot, MemoryContext context, TupleTableSlot *slot)
{
	LsmAhead   *ahead = &fetch->ahead;
	bool		near = is_near(row, fetch->last);
	LsmSlice	value;
	LsmRow		version;
	int			n;

	fetch->last = row;
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
	if (n == 0 || row > lsm_ahead_key(ahead, n - 1))
	{
		if (fetch->run < AHEAD_FETCHES || !lsm_snapshot_reads_ahead(snapshot) ||
			!fetch_fill(fetch, tree, row, snapshot,
						n > 0 && is_near(row, lsm_ahead_key(ahead, n - 1)), context))
			return false;
		fetch->snapshot = snapshot;
		fetch->curcid = snapshot->curcid;
		fetch->xmin = snapshot->xmin;
		fetch->xmax = snapshot->xmax;
	}
	if (!ahead_find(ahead, row))
		return false;
	fetch->hits++;
	return lsm_ahead_store(ahead, rel, snapshot, slot, &value, &version) == LSM_AHEAD_STORED;
}

void
lsm_fetch_ahead_free(LsmFetchAhead *fetch)
{
	if (fetch->cursor)
		lsm_cursor_close(fetch->cursor);
	lsm_ahead_free(&fetch->ahead);
}
