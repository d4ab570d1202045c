/*-------------------------------------------------------------------------
 *
 * all_visible.c
 *	  What VACUUM finds out for the visibility map.
 *
 * A block of row identifiers becomes all-visible if each of its 291 rows is
 * visible to all, or no index has an entry that names it:
 *
 * - A block whose rows are all there and visible to all is full.  Nothing has
 *	 to be known of the indexes.
 * - A block with rows that are dead or missing is so only if each index has
 *	 been gone through since, and none of the entries that were deleted can come
 *	 back.  Those of lsm indexes are forgotten in memory (prune.c), so that an
 *	 eviction or a crash brings them back from the log pages.  So the indexes are
 *	 flushed first, when the rows have been read: then all entries of such rows
 *	 are in files or gone, and deleting them takes DELETE entries, which are
 *	 logged.  That is done if enough rows gain by it.
 *
 * "Visible to all" is a row of which each snapshot sees some version: one was
 * made before the horizon, and the newest valid one has not been ended.  What is
 * updated and stays goes on being that.
 *
 * Rows that are ended meanwhile take away the mark of their block
 * (tree/visibility_map.h), rows that are inserted meanwhile have higher
 * numbers.  Numbers that might come again after a crash are left out: those
 * that are neither below the metapage's limit nor below the number of a row
 * that is visible to all.  That row's commit is logged before the bits are, so
 * who finds them finds it, and gives out higher numbers (log_read.c).
 *
 * Locks: none, beyond VACUUM's of the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/visibilitymap.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "table/all_visible.h"
#include "table/versions.h"

/* Bits for this many blocks are kept, with 291 rows each */
#define MAX_BLOCKS			((BlockNumber) 1 << 30)

/*
 * Autovacuum, and who vacuums what has changed a little, goes through the
 * indexes for the sake of the map if this many rows lie in blocks that are not
 * all-visible without that: this part of all rows, and not fewer than this
 */
#define GAP_FRACTION		0.05
#define GAP_ROWS			1000.0

#define BIT_IS_SET(map, block)	((map)[(block) / 8] & (1 << (block) % 8))
#define BIT_SET(map, block)		((map)[(block) / 8] |= (1 << (block) % 8))

void
lsm_all_visible_begin(LsmAllVisible *map, Relation rel, LsmTree *tree, uint64 row_limit)
{
	memset(map, 0, sizeof(*map));
	map->rel = rel;
	map->tree = tree;
	map->vm_buffer = InvalidBuffer;
	if (RelationUsesLocalBuffers(rel))
		return;
	map->nblocks = (BlockNumber) Min(row_limit / LSM_TID_OFFSETS, MAX_BLOCKS);
	if (map->nblocks == 0)
		return;
	lsm_vm_mark(rel, tree, map->nblocks);
	map->usable = true;
}

/* The rows are about to be read. */
void
lsm_all_visible_start(LsmAllVisible *map)
{
	Size		bytes = map->nblocks / 8 + 1;

	if (!map->usable)
		return;
	map->lasting_limit = lsm_tree_logged_row_limit(map->tree);
	map->hidden = MemoryContextAllocExtended(CurrentMemoryContext, bytes,
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	map->full = MemoryContextAllocExtended(CurrentMemoryContext, bytes,
										   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	map->block = InvalidBlockNumber;
}

/* All rows of the block at hand have been noted. */
static void
close_block(LsmAllVisible *map)
{
	if (map->block >= map->nblocks || BIT_IS_SET(map->hidden, map->block))
		return;
	if (map->visible == LSM_TID_OFFSETS)
		BIT_SET(map->full, map->block);
	else if (!VM_ALL_VISIBLE(map->rel, map->block, &map->vm_buffer))
		map->gap_rows += map->visible;
}

/*
 * Do all snapshots see some version of the row, for as long as nobody ends it?
 * *version, which is the newest valid one, becomes that which all of them see, or
 * have to look no further than.
 */
static bool
is_seen_by_all(Relation rel, uint64 packed, LsmSlice value, HTSV_Result status,
			   TransactionId oldest_xmin, LsmRow *version)
{
	LsmVersions versions;
	uint64		tid;

	/* an update of it may be in progress */
	if (status != HEAPTUPLE_LIVE &&
		(status != HEAPTUPLE_INSERT_IN_PROGRESS || version->version == 0))
		return false;
	if (lsm_row_closes(version, oldest_xmin))
		return true;
	if (likely(lsm_value_tag(value) == LSM_TAG_PUT))
		return false;
	lsm_versions_begin(&versions, rel, packed, value);
	while (lsm_versions_next(&versions, false, version, &tid))
	{
		if (lsm_row_closes(version, oldest_xmin))
			return true;
	}
	return false;
}

void
lsm_all_visible_note(LsmAllVisible *map, uint64 packed, LsmSlice value, const LsmRow *newest,
					 HTSV_Result status, TransactionId oldest_xmin)
{
	BlockNumber block = (BlockNumber) (packed >> 16);
	LsmRow		row = *newest;

	if (!map->usable || block >= map->nblocks)
		return;
	if (block != map->block)
	{
		close_block(map);
		map->block = block;
		map->visible = 0;
	}
	if (status == HEAPTUPLE_DEAD)
		return;					/* as if it were not there */
	if (!is_seen_by_all(map->rel, packed, value, status, oldest_xmin, &row))
	{
		BIT_SET(map->hidden, block);
		return;
	}
	map->visible++;
	map->lasting_limit = Max(map->lasting_limit, lsm_tid_number(packed) + 1);
	if (TransactionIdIsNormal(row.xmin) &&
		(!TransactionIdIsNormal(map->newest_xmin) ||
		 TransactionIdFollows(row.xmin, map->newest_xmin)))
		map->newest_xmin = row.xmin;
}

/* See all_visible.h.  `live` rows are alive. */
void
lsm_all_visible_end_rows(LsmAllVisible *map, double live, bool in_memory)
{
	bool		spare = in_memory || AmAutoVacuumWorkerProcess();

	if (!map->usable)
		return;
	if (map->block != InvalidBlockNumber)
		close_block(map);
	map->nblocks = (BlockNumber) Min(map->lasting_limit / LSM_TID_OFFSETS,
									 (uint64) map->nblocks);

	/* VACUUM by hand is to do it all, but for next to nothing */
	map->gaps_pay = spare ? map->gap_rows >= Max(GAP_ROWS, GAP_FRACTION * live) : map->gap_rows > 0;
	if (BufferIsValid(map->vm_buffer))
		ReleaseBuffer(map->vm_buffer);
	map->vm_buffer = InvalidBuffer;
}

bool
lsm_all_visible_wants_indexes(const LsmAllVisible *map)
{
	return map->usable && map->gaps_pay;
}

/*
 * `gone_through`: after lsm_all_visible_wants_indexes() each index was flushed
 * (if it is ours), and then its entries of dead and missing rows were deleted;
 * or there are no indexes.
 */
BlockNumber
lsm_all_visible_finish(LsmAllVisible *map, bool gone_through)
{
	BlockNumber visible = 0;

	if (map->usable)
	{
		uint8	   *wanted = map->full;

		if (gone_through)
		{
			wanted = map->hidden;
			for (Size i = 0; i < map->nblocks / 8 + 1; i++)
				wanted[i] = ~wanted[i];
		}
		lsm_vm_set(map->rel, map->tree, map->nblocks, wanted, map->newest_xmin);
		pfree(map->hidden);
		pfree(map->full);
	}
	if (!RelationUsesLocalBuffers(map->rel))
		visibilitymap_count(map->rel, &visible, NULL);
	return visible;
}
