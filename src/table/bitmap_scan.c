/*-------------------------------------------------------------------------
 *
 * bitmap_scan.c
 *	  The rows of a bitmap's pages: bitmaps come from indexes, so their TIDs are
 *	  rows, of which the version is wanted that the snapshot sees.
 *
 * Locks: none are held between calls.  Serializable: the SIREAD lock of a page
 * that is walked is taken before its rows are read; rows that are looked up one by
 * one are locked as fetch.c does it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "table/table.h"

/* Pages with at least this many exact TIDs are walked, not probed */
#define BITMAP_WALK_TIDS	24

/*
 * Prepare for the rows of one bitmap page, offsets[0 .. ntids - 1]; ntids is -1
 * if the page is lossy.  False if there are none.  The offsets stay the
 * caller's, until the next page.
 *
 * Nothing is read yet.  A few TIDs will be looked up one by one (their filters
 * say no in most levels); many, or a lossy page, are walked with the cursor.
 */
static bool
bitmap_enter_block(LsmTableScan *scan, BlockNumber blockno, const OffsetNumber *offsets, int ntids)
{
	uint64		first = (uint64) blockno << 16;

	scan->bitmap_block = blockno;
	scan->bitmap_offsets = offsets;
	scan->bitmap_ntids = ntids;
	scan->bitmap_next = 0;
	if (ntids == 0)
		return false;
	scan->bitmap_walk = ntids < 0 || ntids >= BITMAP_WALK_TIDS;
	if (ntids < 0)
		lsm_scan_set_range(scan, first, first | 0xFFFF);
	else
		lsm_scan_set_range(scan, first | offsets[0], first | offsets[ntids - 1]);
	if (scan->bitmap_walk)
		PredicateLockPage(scan->base.rs_rd, blockno, scan->base.rs_snapshot);
	return true;
}

static bool
bitmap_walk_next(LsmTableScan *scan, LsmRow *version, uint64 *packed)
{
	uint64		row;
	LsmSlice	value;

	while (lsm_scan_step(scan, ForwardScanDirection, &row, &value))
	{
		if (scan->bitmap_ntids >= 0)
		{
			OffsetNumber offset = lsm_tid_offset(row);

			/* both ascend */
			while (scan->bitmap_next < scan->bitmap_ntids &&
				   scan->bitmap_offsets[scan->bitmap_next] < offset)
				scan->bitmap_next++;
			if (scan->bitmap_next >= scan->bitmap_ntids)
				break;
			if (scan->bitmap_offsets[scan->bitmap_next] != offset)
				continue;
		}
		if (lsm_scan_visible(scan, scan->base.rs_snapshot, row, value, version, packed))
			return true;
	}
	/* an exhausted range must not start over */
	lsm_scan_set_range(scan, 1, 0);
	return false;
}

static bool
bitmap_probe_next(LsmTableScan *scan, LsmRow *version, uint64 *packed)
{
	if (scan->value.data == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->context);

		initStringInfo(&scan->value);
		MemoryContextSwitchTo(old);
	}
	while (scan->bitmap_next < scan->bitmap_ntids)
	{
		uint64		row = ((uint64) scan->bitmap_block << 16) |
			scan->bitmap_offsets[scan->bitmap_next++];
		bool		found;

		CHECK_FOR_INTERRUPTS();
		if (lsm_fetch_visible(scan->base.rs_rd, scan->tree, row, scan->base.rs_snapshot,
							  &scan->value, version, packed, &found))
			return true;
	}
	return false;
}

/* The next visible row of the page; false: no more. */
static bool
bitmap_block_next(LsmTableScan *scan, TupleTableSlot *slot)
{
	LsmRow		version;
	uint64		packed;
	bool		found;

	if (scan->bitmap_walk)
		found = bitmap_walk_next(scan, &version, &packed);
	else
		found = bitmap_probe_next(scan, &version, &packed);
	if (!found)
		return false;
	lsm_row_store(scan->base.rs_rd, &version, packed, slot);
	pgstat_count_heap_fetch(scan->base.rs_rd);
	return true;
}

#if PG_VERSION_NUM >= 180000
/*
 * The next visible row of the bitmap's pages, of which the executor's iterator
 * hands over one after the other.
 */
bool
lsm_scan_bitmap_next_tuple(TableScanDesc sscan, LSM_BITMAP_TUPLE_PARAMETERS)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;

	while (scan->bitmap_ntids == 0 || !bitmap_block_next(scan, slot))
	{
		TBMIterateResult page;
		int			ntids = -1;

		CHECK_FOR_INTERRUPTS();
		scan->bitmap_ntids = 0;
		if (!tbm_iterate(&scan->base.st.rs_tbmiterator, &page))
			return false;
		if (page.lossy)
			(*lossy_pages)++;
		else
		{
			ntids = tbm_extract_page_tuple(&page, scan->bitmap_room, LSM_TID_OFFSETS);
			if (ntids > LSM_TID_OFFSETS)
				elog(ERROR, "bitmap page %u has %d rows", page.blockno, ntids);
			(*exact_pages)++;
		}
		scan->bitmap_recheck = page.recheck;
		(void) bitmap_enter_block(scan, page.blockno, scan->bitmap_room, ntids);
	}
	*recheck = scan->bitmap_recheck;
	return true;
}
#else
bool
lsm_scan_bitmap_next_block(TableScanDesc sscan, TBMIterateResult *tbmres)
{
	return bitmap_enter_block((LsmTableScan *) sscan, tbmres->blockno, tbmres->offsets,
							  tbmres->ntuples);
}

bool
lsm_scan_bitmap_next_tuple(TableScanDesc sscan, LSM_BITMAP_TUPLE_PARAMETERS)
{
	return bitmap_block_next((LsmTableScan *) sscan, slot);
}
#endif
