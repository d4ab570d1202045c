/*-------------------------------------------------------------------------
 *
 * readahead.c
 *	  Rows read ahead of those who ask for them, in batches of copies.
 *
 * A row's state at that moment is as good for an MVCC snapshot as its state when
 * it is returned: what the snapshot sees had happened before it was taken, and
 * changes by later commands of our own carry a cmin or cmax that hides
 * them.  Those who go on to change or lock a row read it again by its TID.
 * Snapshots that want the present state, and serializable transactions, whose
 * conflicts are looked for in what is there when a row is returned, do without.
 *
 * Sequential scans read ahead from the start (scan.c).  Index scans do when the
 * TIDs that they ask for turn out to be neighbours, as they are where rows were
 * written in the order of the index: a fetch then costs a step instead of a
 * lookup.  They take a batch's word only for rows they see: an index entry may be younger
 * than the batch, so that a row that is not in it says nothing.
 *
 * Locks: none are held between calls, see cursor.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "utils/memutils.h"

#include "table/table.h"

/* Rows of the first batch: a LIMIT should not pay for a full one */
#define FIRST_BATCH_ROWS	4

/*
 * Fetches of neighbours in a row before an index scan reads ahead; TIDs that are
 * no farther apart than NEAR_ROWS are neighbours.  Reading past a row costs less
 * than a tenth of a lookup.
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
	ahead->size = FIRST_BATCH_ROWS;
	if (ahead->batch)
		ahead->batch->n = 0;
}

void
lsm_ahead_free(LsmAhead *ahead)
{
	if (ahead->batch == NULL)
		return;
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
	char		limit[LSM_TID_KEY_BYTES];

	if (ahead->batch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		LsmBatch   *batch = palloc0(sizeof(LsmBatch));

		initStringInfo(&batch->bytes);
		ahead->batch = batch;
		MemoryContextSwitchTo(old);
	}
	lsm_key_encode(high, limit);
	ahead->next = 0;
	if (!lsm_cursor_fill(cursor, lsm_slice(limit, sizeof(limit)), ahead->size, ahead->batch))
		return false;
	ahead->size = Min(ahead->size * 2, LSM_BATCH_ENTRIES);
	return true;
}

/* ---- index scans ---- */

static inline bool
same_snapshot(const LsmFetchAhead *fetch, Snapshot snapshot)
{
	return fetch->snapshot == snapshot && fetch->curcid == snapshot->curcid &&
		fetch->xmin == snapshot->xmin && fetch->xmax == snapshot->xmax;
}

static inline uint64
row_number(uint64 packed)
{
	return (packed >> 16) * LSM_TID_OFFSETS + (packed & 0xFFFF) - 1;
}

static inline bool
is_near(uint64 packed, uint64 last)
{
	return packed > last && row_number(packed) - row_number(last) <= NEAR_ROWS;
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
		char		key[LSM_TID_KEY_BYTES];

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

static inline uint64
batch_key(const LsmBatch *batch, int i)
{
	return lsm_key_decode(batch->bytes.data + batch->entries[i].key_offset);
}

/*
 * lsm_fetch_from_ahead - the value of the row at the TID if it has been read ahead, or
 * is now.  False says nothing about the row.
 *
 * What was read ahead stays good as long as the snapshot is the same, across
 * rescans, too.
 */
bool
lsm_fetch_from_ahead(LsmFetchAhead *fetch, LsmTree *tree, uint64 packed, Snapshot snapshot,
					 MemoryContext context, LsmSlice *value)
{
	LsmBatch   *batch = fetch->ahead.batch;
	bool		near = is_near(packed, fetch->last);
	LsmSlice	key;
	int			n;

	fetch->last = packed;
	if (!near)
		fetch->run = Min(fetch->run, 0);
	else if (fetch->run < AHEAD_FETCHES)
		fetch->run++;

	if (batch != NULL && batch->n > 0 && !same_snapshot(fetch, snapshot))
		lsm_ahead_reset(&fetch->ahead);
	n = batch != NULL ? batch->n : 0;
	if (n == 0 || packed > batch_key(batch, n - 1))
	{
		if (fetch->run < AHEAD_FETCHES || !lsm_snapshot_reads_ahead(snapshot) ||
			!fetch_fill(fetch, tree, packed,
						n > 0 && is_near(packed, batch_key(batch, n - 1)), context))
			return false;
		fetch->snapshot = snapshot;
		fetch->curcid = snapshot->curcid;
		fetch->xmin = snapshot->xmin;
		fetch->xmax = snapshot->xmax;
		batch = fetch->ahead.batch;
	}
	if (packed < batch_key(batch, 0))
		return false;
	if (fetch->ahead.next >= batch->n || packed < batch_key(batch, fetch->ahead.next))
		fetch->ahead.next = 0;
	while (fetch->ahead.next < batch->n && batch_key(batch, fetch->ahead.next) < packed)
		fetch->ahead.next++;
	if (fetch->ahead.next == batch->n || batch_key(batch, fetch->ahead.next) != packed)
		return false;
	lsm_batch_entry(batch, fetch->ahead.next, &key, value);
	fetch->hits++;
	return true;
}

void
lsm_fetch_ahead_free(LsmFetchAhead *fetch)
{
	if (fetch->cursor)
		lsm_cursor_close(fetch->cursor);
	lsm_ahead_free(&fetch->ahead);
}
