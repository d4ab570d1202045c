/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  TABLESAMPLE and ANALYZE: rows of chosen TID blocks.
 *
 * ANALYZE chooses among the blocks that lsm_table_size() told it of.  These are
 * not TID blocks, for a table whose rows come and go has few rows in many of
 * those: a queue of 1,000 rows through which 100 million have gone would be
 * taken for empty.  It is told of as many blocks as its entries would fill, and
 * each of them stands for a stretch of the TID space.  What is empty in it costs
 * nothing.
 *
 * Before PostgreSQL 17 it prefetches the blocks that it chose from the main
 * fork, which has nothing to do with them.  Blocks of the first segment are
 * harmless (prefetching beyond the end of a file does nothing), later ones raise
 * an error.  So it is told of at most one segment's worth.  Where there are more
 * entries, a part of each stretch is read, somewhere in it, and its rows are
 * counted as many times as the part fits into the stretch.
 *
 * Nor are more rows read than a sample needs.  ANALYZE asks for a block per row
 * of its sample, since a block of a heap is read as a whole or not at all; a
 * block of ours has several times as many rows.  While it reads them, its
 * snapshot keeps dead rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tsmapi.h"
#include "access/xact.h"
#include "commands/vacuum.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "utils/memutils.h"

#include "table/versions.h"
#include "tree/visibility_map.h"

/* ---- TABLESAMPLE ---- */

/* Read the visible rows of scan->sample_block into scan->sample_rows. */
static void
load_block(LsmTableScan *scan)
{
	Relation	rel = scan->base.rs_rd;
	uint64		block = scan->sample_block;
	MemoryContext old;
	uint64		row;
	LsmSlice	value;

	if (scan->sample_context == NULL)
		scan->sample_context = AllocSetContextCreate(scan->context,
													 "lsm sample block",
													 ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(scan->sample_context);
	old = MemoryContextSwitchTo(scan->sample_context);
	scan->sample_rows = palloc0(sizeof(HeapTuple) * LSM_TID_OFFSETS);
	MemoryContextSwitchTo(old);

	lsm_scan_set_range(scan, block << 16,
					   Min((block << 16) | LSM_TID_OFFSETS,
						   lsm_number_pack(scan->row_limit - 1)));
	while (lsm_scan_step(scan, ForwardScanDirection, &row, &value))
	{
		OffsetNumber offset = lsm_tid_offset(row);
		LsmRow		version;
		uint64		packed;

		if (!lsm_scan_visible(scan, scan->base.rs_snapshot, row, value, &version, &packed) ||
			offset < 1 || offset > LSM_TID_OFFSETS)
			continue;
		/* the cursor's memory belongs to the scan, the rows to the block */
		old = MemoryContextSwitchTo(scan->sample_context);
		scan->sample_rows[offset - 1] =
			lsm_row_form_tuple(&version, packed, RelationGetRelid(rel));
		MemoryContextSwitchTo(old);
	}
}

bool
lsm_scan_sample_next_block(TableScanDesc sscan, SampleScanState *scanstate)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;
	TsmRoutine *tsm = scanstate->tsmroutine;
	BlockNumber block;

	if (scan->nblocks == 0)
		return false;
	if (tsm->NextSampleBlock)
		block = tsm->NextSampleBlock(scanstate, scan->nblocks);
	else if (scan->sample_block == InvalidBlockNumber)
		block = 0;
	else
		block = scan->sample_block + 1 < scan->nblocks ?
			scan->sample_block + 1 : InvalidBlockNumber;

	scan->sample_block = block;
	if (!BlockNumberIsValid(block))
		return false;
	load_block(scan);
	return true;
}

bool
lsm_scan_sample_next_tuple(TableScanDesc sscan, SampleScanState *scanstate,
						   TupleTableSlot *slot)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;
	TsmRoutine *tsm = scanstate->tsmroutine;
	uint64		first = (uint64) scan->sample_block * LSM_TID_OFFSETS;
	OffsetNumber last = (OffsetNumber) Min(scan->row_limit - first,
										   (uint64) LSM_TID_OFFSETS);

	for (;;)
	{
		OffsetNumber offset;
		HeapTuple	tuple;

		CHECK_FOR_INTERRUPTS();
		offset = tsm->NextSampleTuple(scanstate, scan->sample_block, last);
		if (!OffsetNumberIsValid(offset))
		{
			ExecClearTuple(slot);
			return false;
		}
		tuple = offset <= LSM_TID_OFFSETS ? scan->sample_rows[offset - 1] : NULL;
		if (tuple == NULL)
			continue;

		/*
		 * good until the next block is read, and the slot is cleared before
		 * that
		 */
		if (TTS_IS_HEAPTUPLE(slot))
			ExecStoreHeapTuple(tuple, slot, false);
		else
			ExecForceStoreHeapTuple(tuple, slot, false);
		slot->tts_tid = tuple->t_self;
		slot->tts_tableOid = tuple->t_tableOid;
		pgstat_count_heap_getnext(scan->base.rs_rd);
		return true;
	}
}

/* ---- ANALYZE ---- */

/*
 * What ANALYZE was told of last: it begins a scan of that relation, after that.
 */
static struct
{
	Oid			relid;
	BlockNumber told;
	BlockNumber nblocks;		/* TID blocks */
	double		part;			/* of each stretch that is read */
	bool		unmarked;		/* its visibility map */
}			analyzed;

/* Rows read for each of the sample: it should not come from few stretches */
#define READ_PER_SAMPLED	16

/*
 * Rows of the sample for the table's columns (std_typanalyze): ANALYZE does not
 * tell.
 */
static double
sample_rows(Relation rel)
{
	int			target = default_statistics_target;

	for (int i = 0; i < RelationGetDescr(rel)->natts; i++)
		target = Max(target, lsm_statistics_target(rel, i + 1));
	return 300.0 * target;
}

/* How many of the table's TID blocks ANALYZE is told of. */
BlockNumber
lsm_analyze_tell_blocks(Relation rel, BlockNumber nblocks)
{
	LsmTreeSize size;
	double		entries;
	double		full_blocks;
	double		wanted;
	double		read;

	lsm_tree_size(lsm_table_tree(rel), &size);
	entries = (double) size.file_entries + (double) size.memtable_entries;
	full_blocks = ceil(entries / LSM_TID_OFFSETS);
	full_blocks = Min(Max(full_blocks, 1), (double) nblocks);
	analyzed.relid = RelationGetRelid(rel);
	analyzed.nblocks = nblocks;
	analyzed.unmarked = false;
	analyzed.told = (BlockNumber) Min(full_blocks, (double) LSM_ANALYZE_MAX_BLOCKS);
	wanted = sample_rows(rel);

	/*
	 * if the blocks that it asks for are read as a whole; entries that are
	 * dead are in no sample
	 */
	if (rel->rd_rel->reltuples >= 0)
		entries = Min(entries, rel->rd_rel->reltuples);
	read = Max(entries * Min(wanted / analyzed.told, 1), 1);
	analyzed.part = Min(READ_PER_SAMPLED * wanted / read, 1);
	/* reltuples may be old: no stretch has more rows than a full block, then */
	analyzed.part = Min(analyzed.part, analyzed.told / Max(full_blocks, 1));
	return analyzed.told;
}

/*
 * ANALYZE of PostgreSQL 18 counts the bits "all frozen", which are VACUUM's
 * marks.  With its own lock of the table it keeps VACUUM out; of a parent's
 * children it has a lesser one.
 */
static void
unmark_map(Relation rel)
{
#if PG_VERSION_NUM >= 180000
	if (!analyzed.unmarked && !RelationUsesLocalBuffers(rel) &&
		CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true))
		lsm_vm_unmark(rel);
#endif
	analyzed.unmarked = true;
}

/* Point the scan at what stands behind a block that ANALYZE chose. */
static bool
analyze_block(LsmTableScan *scan, BlockNumber blockno)
{
	uint64		first;
	uint64		stretch;
	uint64		length;

	if (analyzed.relid != RelationGetRelid(scan->base.rs_rd))
		elog(ERROR, "ANALYZE has not asked for the size of table \"%s\"",
			 RelationGetRelationName(scan->base.rs_rd));
	unmark_map(scan->base.rs_rd);
	if (blockno >= analyzed.told)
		return false;			/* cannot be */

	/* the stretch of row numbers that this one stands for */
	first = (uint64) blockno * analyzed.nblocks / analyzed.told;
	stretch = (uint64) (blockno + 1) * analyzed.nblocks / analyzed.told - first;
	Assert(stretch >= 1);
	first *= LSM_TID_OFFSETS;
	stretch *= LSM_TID_OFFSETS;
	length = Max((uint64) rint(stretch * analyzed.part), 1);
	if (length < stretch)
		first += pg_prng_uint64_range(&pg_global_prng_state, 0, stretch - length);
	scan->sample_scale = (double) stretch / length;
	lsm_scan_set_range(scan, lsm_number_pack(first), lsm_number_pack(first + length - 1));
	return true;
}

bool
lsm_scan_analyze_next_block(TableScanDesc sscan, LSM_ANALYZE_BLOCK_PARAMETERS)
{
#if PG_VERSION_NUM >= 170000
	BufferAccessStrategy strategy;
	BlockNumber blockno;

	/* the stream reads nothing ahead: only its numbers are asked for */
	blockno = read_stream_next_block(stream, &strategy);
	if (!BlockNumberIsValid(blockno))
		return false;
#endif
	return analyze_block((LsmTableScan *) sscan, blockno);
}

/*
 * Does the version count as live?  See heapam_scan_analyze_next_tuple.
 * *older: it does not, but what it replaces may.
 */
static bool
is_live(const LsmRow *version, bool *dead, bool *older)
{
	TransactionId dead_after;

	*dead = *older = false;
	switch (lsm_row_vacuum_horizon(version, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			return true;
		case HEAPTUPLE_DEAD:
		case HEAPTUPLE_RECENTLY_DEAD:
			*dead = true;
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			*older = !TransactionIdIsCurrentTransactionId(version->xmin);
			return !*older;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			*dead = TransactionIdIsCurrentTransactionId(version->xmax);
			return !*dead;
	}
	return false;
}

/*
 * The version of the row that counts as live.  The row is dead if its newest
 * version is; older ones count as nothing, for VACUUM has nothing to do for them.
 * (Those that a running update has not replaced yet are live.)
 */
static bool
find_live(Relation rel, uint64 row, LsmSlice value, LsmRow *version, uint64 *packed,
		  bool *dead)
{
	LsmVersions versions;
	bool		older;

	if (likely(lsm_value_tag(value) == LSM_TAG_PUT))
	{
		lsm_row_decode(rel, row, value, version);
		*packed = lsm_tid_of(row, version->version);
		return is_live(version, dead, &older);
	}
	*dead = true;				/* if there is no valid version */
	lsm_versions_begin(&versions, rel, row, value);
	while (lsm_versions_next(&versions, false, version, packed))
	{
		if (is_live(version, dead, &older))
			return true;
		if (!older)
			break;
	}
	return false;
}

bool
lsm_scan_analyze_next_tuple(TableScanDesc sscan, double *liverows,
							double *deadrows, TupleTableSlot *slot)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;
	uint64		row;
	LsmSlice	value;

	while (lsm_scan_step(scan, ForwardScanDirection, &row, &value))
	{
		LsmRow		version;
		uint64		packed;
		bool		dead;

		lsm_vacuum_pay(value.len);
		if (!find_live(scan->base.rs_rd, row, value, &version, &packed, &dead))
		{
			if (dead)
				*deadrows += scan->sample_scale;
			continue;
		}
		*liverows += scan->sample_scale;
		lsm_row_store(scan->base.rs_rd, &version, packed, slot);
		return true;
	}
	/* an exhausted range must not start over */
	lsm_scan_set_range(scan, 1, 0);
	ExecClearTuple(slot);
	return false;
}
