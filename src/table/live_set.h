/*-------------------------------------------------------------------------
 *
 * live_set.h
 *	  The TIDs of an lsm table that must stay in its indexes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LIVE_SET_H
#define LSM_LIVE_SET_H

#include "storage/block.h"

#include "table/table.h"

#define LSM_LIVE_WORDS		((LSM_TID_OFFSETS + 63) / 64)

typedef struct LsmLiveSet
{
	MemoryContext context;
	Size		max_bytes;
	Size		used_bytes;
	uint32	  **chunks;			/* by block / LIVE_CHUNK_BLOCKS, NULL =
								 * none */
	uint64		nchunks;
	uint64	   *words;			/* LSM_LIVE_WORDS per block that has dead TIDs,
								 * too */
	uint32		nbitmaps;
	uint32		max_bitmaps;
	bool		full;			/* there was no room for all */

	/* the block being collected */
	bool		open;
	BlockNumber block;
	int			count;
	uint64		bits[LSM_LIVE_WORDS];
} LsmLiveSet;

/*
 * TIDs below `nblocks` blocks are to be added, in order, then the last block is
 * closed.  The set grows up to maintenance_work_mem.
 */
extern void lsm_live_init(LsmLiveSet *set, BlockNumber nblocks);
extern void lsm_live_add(LsmLiveSet *set, uint64 packed);
extern void lsm_live_close(LsmLiveSet *set);

/* Known to be alive?  If the set is full, false says nothing. */
extern bool lsm_live_contains(const LsmLiveSet *set, uint64 packed);

#endif							/* LSM_LIVE_SET_H */
