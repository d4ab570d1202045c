/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Scans in TID order: sequential, parallel, TID range.  (Bitmaps:
 *	  bitmap_scan.c.)
 *
 * A scan walks a range of rows with a tree cursor, and shows the version of each
 * that its snapshot sees.  The range ends at the row limit of the scan's start:
 * later rows are invisible to its snapshot, and a command that inserts into the
 * table it scans must not meet its own rows forever.
 *
 * Sequential scans with an MVCC snapshot read ahead, see readahead.c; others
 * go row by row.
 *
 * Parallel scans share a counter of TID blocks; each process takes pieces of
 * the TID space from it.
 *
 * Scans of large tables are synchronized, as heap's are: one starts where
 * another is, or the last one stopped, and comes to the rows before that when
 * it has reached the end (syncscan.c of PostgreSQL).  So they read the same
 * blocks of files at about the same time.  Parallel scans are not.
 *
 * Serializable: the SIREAD lock, of the relation or of a page, is taken before the
 * rows are read (see modify.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/skey.h"
#include "access/syncscan.h"
#include "access/valid.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "table/readahead.h"
#include "table/versions.h"
#include "tree/facts.h"

/*
 * ss_report_location() keeps multiples of this only, which are few enough with
 * heap's blocks.  Ours hold more rows: each is to be kept.
 */
#define SYNC_SCALE			16

/* Shared state of a parallel scan */
typedef struct LsmParallelScan
{
	ParallelTableScanDescData base; /* must be first */
	uint64		row_limit;
	BlockNumber chunk;			/* blocks handed out at a time */
	pg_atomic_uint64 next_block;
} LsmParallelScan;

/* A parallel scan is cut into about this many pieces, within these bounds */
#define PARALLEL_PIECES			512
#define PARALLEL_MIN_BLOCKS		8
#define PARALLEL_MAX_BLOCKS		1024

SnapshotData lsm_snapshot_any = {.snapshot_type = SNAPSHOT_ANY};

/* All versions of each row? */
static inline bool
sees_all(Snapshot snapshot)
{
	return snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_ANY;
}

/*
 * The scan's cursor, opened in the scan's memory when it is needed first.  It
 * reads the versions that the snapshot wants, which may be another one by now.
 */
static LsmCursor *
scan_cursor(LsmTableScan *scan)
{
	Snapshot	snapshot = scan->base.rs_snapshot;

	if (scan->cursor == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->context);

		scan->cursor = lsm_cursor_open(scan->tree);
		MemoryContextSwitchTo(old);
	}
	scan->ahead.enough = snapshot == NULL ? lsm_enough_newest() :
		lsm_enough_for_snapshot(snapshot);
	lsm_cursor_enough(scan->cursor, sees_all(snapshot) ? NULL : &scan->ahead.enough);
	return scan->cursor;
}

void
lsm_scan_set_range(LsmTableScan *scan, uint64 low, uint64 high)
{
	scan->low = low;
	scan->high = high;
	scan->positioned = false;
	scan->in_row = false;
	scan->ahead.next = 0;
	if (scan->ahead.batch)
		scan->ahead.batch->n = 0;
}

/* Range of a scan over everything; an empty one if there is nothing. */
static void
set_whole_range(LsmTableScan *scan)
{
	if (scan->row_limit == 0)
		lsm_scan_set_range(scan, 1, 0);
	else
		lsm_scan_set_range(scan, 0, lsm_number_pack(scan->row_limit - 1));
}

/* Is it one of several that divide a range among them? */
static inline bool
is_parallel(const LsmTableScan *scan)
{
	return scan->base.rs_parallel != NULL &&
		(scan->base.rs_flags & (SO_TYPE_SEQSCAN | SO_TYPE_TIDRANGESCAN)) != 0;
}

/* ---- synchronized scans ---- */

/*
 * Is the table large?  As for heap: its files take more than a quarter of
 * shared_buffers.  They are not read through these, but that is the size up to
 * which a DBA expects scans to find tables in memory, and in one order.
 */
static bool
is_large(LsmTableScan *scan)
{
	uint64		large_bytes = (uint64) (NBuffers / 4) * BLCKSZ;
	LsmTreeSize size;

	/* so few rows cannot be */
	if (scan->row_limit * BLCKSZ <= large_bytes)
		return false;
	lsm_tree_size(scan->tree, &size);
	return size.file_bytes + size.memtable_bytes > large_bytes;
}

/*
 * Where to start.  A scan that starts over keeps its start, so that a cursor
 * that is rewound shows the same rows again.
 */
static void
choose_start(LsmTableScan *scan, bool again)
{
	Relation	rel = scan->base.rs_rd;

	scan->synchronized = scan->batched && synchronize_seqscans &&
		scan->base.rs_parallel == NULL && (scan->base.rs_flags & SO_ALLOW_SYNC) != 0 &&
		!RelationUsesLocalBuffers(rel) && scan->nblocks < MaxBlockNumber / SYNC_SCALE &&
		is_large(scan);
	if (!again)
		scan->start_block = scan->synchronized ?
			ss_get_location(rel, scan->nblocks * SYNC_SCALE) / SYNC_SCALE : 0;
	/* a TRUNCATE may have come between */
	if (scan->start_block >= scan->nblocks)
		scan->start_block = 0;
	scan->told_block = scan->start_block;
}

/* We are about to read this block: others may start here. */
static inline void
tell_block(LsmTableScan *scan, BlockNumber block)
{
	if (!scan->synchronized || block == scan->told_block)
		return;
	ss_report_location(scan->base.rs_rd, block * SYNC_SCALE);
	scan->told_block = block;
}

/* Range of the first or the second round. */
static void
set_round(LsmTableScan *scan, bool second)
{
	Assert(scan->start_block > 0);
	set_whole_range(scan);
	lsm_scan_set_range(scan, second ? 0 : (uint64) scan->start_block << 16,
					   second ? ((uint64) scan->start_block << 16) - 1 : scan->high);
	scan->in_second = second;
}

static void
start_scan(LsmTableScan *scan, ScanKey key, bool again)
{
	LsmParallelScan *shared = (LsmParallelScan *) scan->base.rs_parallel;

	if (key != NULL && scan->base.rs_nkeys > 0)
		memcpy(scan->base.rs_key, key, scan->base.rs_nkeys * sizeof(ScanKeyData));

	scan->row_limit = shared ? shared->row_limit : lsm_tree_row_limit(scan->tree);
	scan->nblocks = lsm_limit_blocks(scan->row_limit);
	scan->block = 0;
	scan->met_hidden = false;
	scan->sample_block = InvalidBlockNumber;
	if (lsm_reads_dead_heap_row(scan->base.rs_snapshot) && scan->base.rs_parallel == NULL)
		scan->row_limit = 0;
	set_whole_range(scan);
	scan->first_shared = scan->low;
	scan->last_shared = scan->high;
	choose_start(scan, again);
	lsm_ahead_reset(&scan->ahead);
	if (scan->base.rs_flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(scan->base.rs_rd);
}

TableScanDesc
lsm_scan_begin(Relation rel, Snapshot snapshot, int nkeys, ScanKey key,
			   ParallelTableScanDesc pscan, uint32 flags)
{
	LsmTableScan *scan;

	RelationIncrementReferenceCount(rel);
	scan = palloc0(sizeof(LsmTableScan));
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = pscan;
	if (nkeys > 0)
		scan->base.rs_key = palloc(sizeof(ScanKeyData) * nkeys);
	scan->context = scan->tombstones.context = CurrentMemoryContext;
	scan->tree = lsm_table_tree(rel);
	scan->sample_scale = 1.0;
	scan->batched = (flags & SO_TYPE_SEQSCAN) && lsm_snapshot_reads_ahead(snapshot);

	/* these will read everything: one lock for all */
	if (flags & (SO_TYPE_SEQSCAN | SO_TYPE_SAMPLESCAN | SO_TYPE_TIDRANGESCAN))
	{
		Assert(snapshot);
		PredicateLockRelation(rel, snapshot);
	}
	start_scan(scan, key, false);
	return &scan->base;
}

/*
 * What note_hidden() has gathered.  The snapshot is that of the running query.
 */
static void
write_tombstones(LsmTableScan *scan)
{
	if (scan->tombstones.n > 0)
		lsm_tombstones_write(&scan->tombstones, lsm_table_tree(scan->base.rs_rd));
}

void
lsm_scan_rescan(TableScanDesc sscan, ScanKey key, bool set_params, bool allow_strat,
				bool allow_sync, bool allow_pagemode)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;

	write_tombstones(scan);
	if (scan->sample_context)
		MemoryContextReset(scan->sample_context);
	scan->sample_rows = NULL;
	scan->bitmap_ntids = 0;
	start_scan(scan, key, true);
}

void
lsm_scan_end(TableScanDesc sscan)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;

	write_tombstones(scan);
	if (scan->cursor)
		lsm_cursor_close(scan->cursor);
	lsm_ahead_free(&scan->ahead);
	if (scan->tombstones.keys)
		pfree(scan->tombstones.keys);
	if (scan->value.data)
		pfree(scan->value.data);
	if (scan->versions)
		pfree(scan->versions);
	if (scan->sample_context)
		MemoryContextDelete(scan->sample_context);
	RelationDecrementReferenceCount(scan->base.rs_rd);
	if (scan->base.rs_key)
		pfree(scan->base.rs_key);
	if (scan->base.rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(scan->base.rs_snapshot);
	pfree(scan);
}

/* ---- parallel ---- */

Size
lsm_parallelscan_estimate(Relation rel)
{
	return MAXALIGN(sizeof(LsmParallelScan));
}

static void
parallel_reset(Relation rel, LsmParallelScan *shared)
{
	BlockNumber blocks;

	shared->row_limit = lsm_tree_row_limit(lsm_table_tree(rel));
	blocks = lsm_limit_blocks(shared->row_limit);
	shared->chunk = Min(Max(blocks / PARALLEL_PIECES, PARALLEL_MIN_BLOCKS),
						PARALLEL_MAX_BLOCKS);
}

Size
lsm_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan)
{
	LsmParallelScan *shared = (LsmParallelScan *) pscan;

	/* before the limit is read: who inserts behind it finds the lock */
	if (ActiveSnapshotSet())
		PredicateLockRelation(rel, GetActiveSnapshot());
#if PG_VERSION_NUM >= 180000
	shared->base.phs_locator = rel->rd_locator;
#else
	shared->base.phs_relid = RelationGetRelid(rel);
#endif
	shared->base.phs_syncscan = false;
	parallel_reset(rel, shared);
	pg_atomic_init_u64(&shared->next_block, 0);
	return MAXALIGN(sizeof(LsmParallelScan));
}

/* The leader has shut the workers down: no one else looks. */
void
lsm_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan)
{
	LsmParallelScan *shared = (LsmParallelScan *) pscan;

	parallel_reset(rel, shared);
	pg_atomic_write_u64(&shared->next_block, 0);
}

/* Take the next piece of a parallel scan; false: all are taken. */
static bool
parallel_next_range(LsmTableScan *scan)
{
	LsmParallelScan *shared = (LsmParallelScan *) scan->base.rs_parallel;
	uint64		first = (scan->first_shared >> 16) +
		pg_atomic_fetch_add_u64(&shared->next_block, shared->chunk);
	uint64		last = first + shared->chunk - 1;

	if (scan->first_shared > scan->last_shared || first > scan->last_shared >> 16)
		return false;
	lsm_scan_set_range(scan, first << 16, Min((last << 16) | 0xFFFF, scan->last_shared));
	return true;
}

BlockNumber
lsm_scan_total_blocks(LsmTableScan *scan)
{
	return scan->nblocks;
}

BlockNumber
lsm_scan_blocks_done(LsmTableScan *scan)
{
	LsmParallelScan *shared = (LsmParallelScan *) scan->base.rs_parallel;

	if (shared)
		return (BlockNumber) Min(pg_atomic_read_u64(&shared->next_block),
								 (uint64) scan->nblocks);
	return scan->block;
}

/* ---- walking ---- */

static void
position(LsmTableScan *scan, ScanDirection direction)
{
	char		key[LSM_TID_BYTES];

	lsm_key_encode(ScanDirectionIsForward(direction) ? scan->low : scan->high, key);
	lsm_cursor_seek(scan_cursor(scan), lsm_slice(key, sizeof(key)), false, direction);
	scan->positioned = true;
}

/*
 * The round at hand has ended.  If there is another in this direction, go to
 * its beginning.
 */
static bool
next_round(LsmTableScan *scan, ScanDirection direction)
{
	bool		second = ScanDirectionIsForward(direction);

	if (scan->start_block == 0 || scan->in_second == second)
		return false;
	set_round(scan, second);
	position(scan, direction);
	return true;
}

/* Read the next batch; false: there is none up to the end of the last round. */
static bool
fill_ahead(LsmTableScan *scan)
{
	LsmAhead   *ahead = &scan->ahead;

	while (!lsm_ahead_fill(ahead, scan->cursor, scan->high, scan->context))
	{
		if (!next_round(scan, ForwardScanDirection))
		{
			/* the next one starts where this one did */
			tell_block(scan, scan->start_block);
			return false;
		}
	}
	if (ahead->batch->entries[0].key_bytes == LSM_TID_BYTES)
		tell_block(scan, (BlockNumber) (lsm_ahead_key(ahead, 0) >> 16));
	return true;
}

/* The next entry of the batch; false: there is none. */
static bool
batch_step(LsmTableScan *scan, LsmSlice *key, LsmSlice *value)
{
	LsmAhead   *ahead = &scan->ahead;

	if (lsm_ahead_empty(ahead) && !fill_ahead(scan))
		return false;
	lsm_batch_entry(ahead->batch, ahead->next++, key, value);
	return true;
}

/*
 * A step backward inside of a batch: put the cursor to the row returned last,
 * and forget what was read ahead.
 */
static void
batch_leave(LsmTableScan *scan)
{
	LsmBatch   *batch = scan->ahead.batch;

	if (batch == NULL || batch->n == 0)
		return;
	if (scan->positioned && scan->ahead.next > 0)
	{
		LsmSlice	key;
		LsmSlice	value;

		lsm_batch_entry(batch, scan->ahead.next - 1, &key, &value);
		lsm_cursor_seek(scan->cursor, key, true, BackwardScanDirection);
	}
	batch->n = 0;
	scan->ahead.next = 0;
}

/* The next entry of the range in the direction, from where the scan stands. */
static inline bool
step_entry(LsmTableScan *scan, ScanDirection direction, LsmSlice *key, LsmSlice *value)
{
	if (scan->batched)
	{
		if (ScanDirectionIsForward(direction))
			return batch_step(scan, key, value);
		batch_leave(scan);
	}
	return lsm_cursor_step(scan->cursor, direction, key, value);
}

bool
lsm_scan_step(LsmTableScan *scan, ScanDirection direction, uint64 *row, LsmSlice *value)
{
	bool		parallel = is_parallel(scan);

	Assert(!parallel || ScanDirectionIsForward(direction));
	CHECK_FOR_INTERRUPTS();
	for (;;)
	{
		LsmSlice	key;

		if (!scan->positioned)
		{
			if (parallel && !parallel_next_range(scan))
				return false;
			if (scan->start_block > 0)
				set_round(scan, !ScanDirectionIsForward(direction));
			if (scan->low > scan->high)
				return false;
			position(scan, direction);
		}
		if (step_entry(scan, direction, &key, value))
		{
			if (key.len != LSM_TID_BYTES)
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg("table \"%s\" has a key of %u bytes",
								RelationGetRelationName(scan->base.rs_rd), key.len),
						 errhint("Run lsm_verify() on the table.")));
			*row = lsm_key_decode(key.data);
			if (*row >= scan->low && *row <= scan->high)
			{
				scan->block = (BlockNumber) (*row >> 16);
				return true;
			}
		}

		if (next_round(scan, direction))
			continue;
		/* the end; a step the other way starts from there */
		scan->positioned = false;
		if (!parallel)
			return false;
	}
}

bool
lsm_scan_visible(LsmTableScan *scan, Snapshot snapshot, uint64 row, LsmSlice value,
				 LsmRow *version, uint64 *packed)
{
	Relation	rel = scan->base.rs_rd;
	bool		visible = lsm_versions_for_snapshot(rel, row, value, snapshot, version, packed);

	lsm_check_row_conflict_out(rel, row, value, version, visible, snapshot);
	return visible;
}

/*
 * The row is not visible.  If it is dead to everyone, spare later scans the
 * trouble: forget it, or delete it if it is in a sorted file and we write
 * anyway (write_tombstones).
 */
static void
note_hidden(LsmTableScan *scan, uint64 row, LsmSlice value)
{
	char		key[LSM_TID_BYTES];
	TransactionId deleter;

	if (value.len == 0 ||
		lsm_row_prune(scan->base.rs_rd, scan->tree, row, value, &deleter) != LSM_PRUNE_IN_FILE ||
		!scan->batched)
		return;
	lsm_key_encode(row, key);
	lsm_tombstones_add(&scan->tombstones, lsm_slice(key, sizeof(key)), deleter);
}

/*
 * The next row if it has been read ahead, or can be.  LSM_AHEAD_MALFORMED: it
 * is for lsm_scan_step(), if there is one.  LSM_AHEAD_END: there is none, in
 * no range.
 */
static inline LsmAheadResult
next_ahead(LsmTableScan *scan, TupleTableSlot *slot, uint64 *row, LsmSlice *value)
{
	LsmAhead   *ahead = &scan->ahead;
	LsmAheadResult result;
	LsmRow		version;

	if (!scan->positioned)
		return LSM_AHEAD_MALFORMED;
	if (lsm_ahead_empty(ahead) && !fill_ahead(scan))
	{
		scan->positioned = false;
		return scan->base.rs_parallel == NULL ? LSM_AHEAD_END : LSM_AHEAD_MALFORMED;
	}
	result = lsm_ahead_store(ahead, scan->base.rs_rd, scan->base.rs_snapshot, slot, value,
							 &version);
	if (result == LSM_AHEAD_MALFORMED)
		return result;
	*row = lsm_ahead_key(ahead, ahead->next++);
	scan->block = (BlockNumber) (*row >> 16);
	return result;
}

static bool
passes_keys(LsmTableScan *scan, TupleTableSlot *slot)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, NULL);

	return HeapKeyTest(tuple, RelationGetDescr(scan->base.rs_rd),
					   scan->base.rs_nkeys, scan->base.rs_key);
}

/*
 * The scan is at its end.  Under a snapshot that sees what is there now, a row
 * that was updated after the scan's start is gone, and its successor may be
 * above the limit: go on there, as scans of indexes begin once more (present.c).
 * That ends when nobody updates rows beside us; what we change ourselves does
 * not bring us here, for who scans like this writes nothing meanwhile.
 */
static bool
look_further(LsmTableScan *scan)
{
	uint64		before = scan->row_limit;

	if (!scan->met_hidden || scan->base.rs_parallel != NULL)
		return false;
	scan->met_hidden = false;
	scan->row_limit = lsm_tree_row_limit(scan->tree);
	scan->nblocks = lsm_limit_blocks(scan->row_limit);
	if (scan->row_limit == before)
		return false;
	Assert(scan->start_block == 0);
	lsm_scan_set_range(scan, lsm_number_pack(before), lsm_number_pack(scan->row_limit - 1));
	return true;
}

/*
 * May the snapshot see several versions of the row?  A dirty one sees the version
 * that a running update has made, and the one that it is about to end.
 */
static inline bool
sees_several(Snapshot snapshot, LsmSlice value)
{
	return sees_all(snapshot) ||
		(snapshot->snapshot_type == SNAPSHOT_DIRTY && lsm_value_tag(value) != LSM_TAG_PUT);
}

/*
 * The next version of the row at hand that the snapshot sees, newest first.
 * SnapshotAny sees those that were rolled back, too.
 */
static bool
next_of_row(LsmTableScan *scan, TupleTableSlot *slot)
{
	Snapshot	snapshot = scan->base.rs_snapshot;
	LsmRow		version;
	uint64		packed;

	while (scan->in_row)
	{
		scan->in_row = lsm_versions_next(scan->versions, sees_all(snapshot), &version, &packed);
		if (scan->in_row && lsm_row_visible(&version, snapshot))
		{
			lsm_row_store(scan->base.rs_rd, &version, packed, slot);
			return true;
		}
	}
	return false;
}

/* A row of which several versions may be seen.  Its value stays until the next step. */
static void
enter_row(LsmTableScan *scan, uint64 row, LsmSlice value)
{
	if (scan->versions == NULL)
		scan->versions = MemoryContextAlloc(scan->context, sizeof(LsmVersions));
	lsm_versions_begin(scan->versions, scan->base.rs_rd, row, value);
	scan->in_row = true;
}

/*
 * The same as next_ahead(), of a row that has not been read ahead.  A snapshot of
 * the present that does not see it may see a row that came meanwhile.
 */
static LsmAheadResult
next_step(LsmTableScan *scan, ScanDirection direction, TupleTableSlot *slot, uint64 *row,
		  LsmSlice *value)
{
	Relation	rel = scan->base.rs_rd;
	Snapshot	snapshot = scan->base.rs_snapshot;
	LsmRow		version;
	uint64		packed;
	bool		visible;

	if (next_of_row(scan, slot))
		return LSM_AHEAD_STORED;
	if (!lsm_scan_step(scan, direction, row, value))
	{
		*value = lsm_slice(NULL, 0);
		return look_further(scan) ? LSM_AHEAD_HIDDEN : LSM_AHEAD_END;
	}
	if (sees_several(snapshot, *value))
	{
		enter_row(scan, *row, *value);
		if (next_of_row(scan, slot))
			return LSM_AHEAD_STORED;
		if (sees_all(snapshot))
			*value = lsm_slice(NULL, 0);
		else
			scan->met_hidden = true;
		return LSM_AHEAD_HIDDEN;
	}
	visible = lsm_versions_for_snapshot(rel, *row, *value, snapshot, &version, &packed);
	if (!scan->batched)			/* else not serializable */
		lsm_check_row_conflict_out(rel, *row, *value, &version, visible, snapshot);
	if (visible)
	{
		lsm_row_store(rel, &version, packed, slot);
		return LSM_AHEAD_STORED;
	}
	scan->met_hidden |= snapshot->snapshot_type == SNAPSHOT_DIRTY ||
		snapshot->snapshot_type == SNAPSHOT_SELF;
	return LSM_AHEAD_HIDDEN;
}

/* The next visible row of the range that passes the scan keys. */
static bool
next_visible(LsmTableScan *scan, ScanDirection direction, TupleTableSlot *slot)
{
	for (;;)
	{
		LsmAheadResult result = LSM_AHEAD_MALFORMED;
		uint64		row;
		LsmSlice	value;

		CHECK_FOR_INTERRUPTS();
		if (scan->batched && ScanDirectionIsForward(direction))
			result = next_ahead(scan, slot, &row, &value);
		if (result == LSM_AHEAD_MALFORMED)
			result = next_step(scan, direction, slot, &row, &value);
		if (result == LSM_AHEAD_END)
			break;
		if (result == LSM_AHEAD_HIDDEN)
			note_hidden(scan, row, value);
		else if (scan->base.rs_nkeys == 0 || passes_keys(scan, slot))
			return true;
	}
	ExecClearTuple(slot);
	return false;
}

/* Apart, so that lsm_scan_getnextslot() saves no registers for it. */
static pg_noinline bool
scan_next_slot(LsmTableScan *scan, ScanDirection direction, TupleTableSlot *slot)
{
	if (ScanDirectionIsNoMovement(direction))
		return !TTS_EMPTY(slot);
	if (!next_visible(scan, direction, slot))
		return false;
	pgstat_count_heap_getnext(scan->base.rs_rd);
	return true;
}

/*
 * lsm_scan_getnextslot - the next row of a sequential scan.
 *
 * All that most rows need is here, in one function: nothing is called for them.
 */
bool
lsm_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;

	if (likely(scan->batched && ScanDirectionIsForward(direction) && scan->positioned &&
			   scan->base.rs_nkeys == 0 && !lsm_ahead_empty(&scan->ahead)) &&
		lsm_ahead_next_alike(&scan->ahead, RelationGetRelid(scan->base.rs_rd), slot))
	{
		pgstat_count_heap_getnext(scan->base.rs_rd);
		return true;
	}
	return scan_next_slot(scan, direction, slot);
}

/*
 * Any TIDs are fine: those beyond the rows there are just find nothing.  TIDs of
 * versions are all over their block, so blocks are walked.
 */
void
lsm_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid, ItemPointer maxtid)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;

	scan->first_tid = lsm_tid_pack(mintid);
	scan->last_tid = lsm_tid_pack(maxtid);
	set_whole_range(scan);
	lsm_scan_set_range(scan, Max(scan->low, scan->first_tid & ~UINT64CONST(0xFFFF)),
					   Min(scan->high, scan->last_tid | 0xFFFF));
	scan->first_shared = scan->low;
	scan->last_shared = scan->high;
}

bool
lsm_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction,
							  TupleTableSlot *slot)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;
	uint64		row;
	LsmSlice	value;

	if (ScanDirectionIsNoMovement(direction))
		return !TTS_EMPTY(slot);
	while (lsm_scan_step(scan, direction, &row, &value))
	{
		LsmRow		version;
		uint64		packed;

		if (!lsm_scan_visible(scan, scan->base.rs_snapshot, row, value, &version, &packed) ||
			packed < scan->first_tid || packed > scan->last_tid)
			continue;
		lsm_row_store(scan->base.rs_rd, &version, packed, slot);
		pgstat_count_heap_getnext(scan->base.rs_rd);
		return true;
	}
	ExecClearTuple(slot);
	return false;
}
