/*-------------------------------------------------------------------------
 *
 * all_visible.h
 *	  What VACUUM finds out for the visibility map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_ALL_VISIBLE_H
#define LSM_ALL_VISIBLE_H

#include "storage/buf.h"

#include "table/table.h"
#include "tree/visibility_map.h"

typedef struct LsmAllVisible
{
	Relation	rel;
	LsmTree    *tree;
	bool		usable;			/* not for temporary tables, nor tiny ones */
	BlockNumber nblocks;		/* those looked at; below all are complete */
	uint64		lasting_limit;	/* row numbers below do not come again */
	uint8	   *hidden;			/* a bit per block: has a row that is not
								 * visible to all */
	uint8	   *full;			/* ... has all its rows, visible to all */
	TransactionId newest_xmin;	/* of rows visible to all */
	double		gap_rows;		/* visible rows of blocks that are neither,
								 * and not all-visible yet */
	bool		gaps_pay;
	Buffer		vm_buffer;

	/* the block at hand */
	BlockNumber block;
	int			visible;		/* rows */
} LsmAllVisible;

/*
 * In this order.  Between begin and start the caller flushes the table; start,
 * notes in the order of TIDs (of values read down to a version that closes its
 * row), and end_rows are one walk over all rows below row_limit, which was read
 * before.  in_memory: VACUUM flushes nothing that it need not.
 */
extern void lsm_all_visible_begin(LsmAllVisible *map, Relation rel, LsmTree *tree,
								  uint64 row_limit);
extern void lsm_all_visible_start(LsmAllVisible *map);
extern void lsm_all_visible_note(LsmAllVisible *map, uint64 packed, LsmSlice value,
								 const LsmRow *newest, HTSV_Result status,
								 TransactionId oldest_xmin);
extern void lsm_all_visible_end_rows(LsmAllVisible *map, double live, bool in_memory);

/* Should indexes be gone through, flushed before, for the map's sake? */
extern bool lsm_all_visible_wants_indexes(const LsmAllVisible *map);

/* Sets bits; returns how many blocks are all-visible. */
extern BlockNumber lsm_all_visible_finish(LsmAllVisible *map, bool gone_through);

#endif							/* LSM_ALL_VISIBLE_H */
