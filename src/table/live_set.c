/*-------------------------------------------------------------------------
 *
 * live_set.c
 *	  The TIDs of an lsm table that must stay in its indexes.
 *
 * VACUUM collects them in the order of the rows, and index entries are looked
 * up in any order.  Most blocks of row numbers are alive as a whole, or gone:
 * those take a word.  Blocks with both take a bitmap, 40 bytes for 291 rows.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "utils/memutils.h"

#include "table/live_set.h"

#define LIVE_CHUNK_BLOCKS	1024

/*
 * What a chunk says of one block; larger numbers are 2 + an index into `words`
 */
#define LIVE_NONE			0
#define LIVE_ALL			1

void
lsm_live_init(LsmLiveSet *set, BlockNumber nblocks)
{
	int			kb = (AmAutoVacuumWorkerProcess() && autovacuum_work_mem != -1) ?
		autovacuum_work_mem : maintenance_work_mem;

	memset(set, 0, sizeof(LsmLiveSet));
	set->context = AllocSetContextCreate(CurrentMemoryContext, "lsm vacuum live TIDs",
										 ALLOCSET_DEFAULT_SIZES);
	set->max_bytes = (Size) kb * 1024;
	set->nchunks = nblocks / LIVE_CHUNK_BLOCKS + 1;
	set->chunks = MemoryContextAllocExtended(set->context,
											 set->nchunks * sizeof(uint32 *),
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	set->used_bytes = set->nchunks * sizeof(uint32 *);
}

/* Index of a new bitmap holding the open block's bits; false: no room. */
static bool
live_add_bitmap(LsmLiveSet *set, uint32 *entry)
{
	if (set->nbitmaps == set->max_bitmaps)
	{
		uint32		n = Max(set->max_bitmaps * 2, 1024);
		Size		bytes = (Size) n * LSM_LIVE_WORDS * sizeof(uint64);

		/* while it grows, both copies exist */
		if (n >= PG_UINT32_MAX / 2 || set->used_bytes + bytes > set->max_bytes)
			return false;
		if (set->words == NULL)
			set->words = MemoryContextAllocHuge(set->context, bytes);
		else
			set->words = repalloc_huge(set->words, bytes);
		set->used_bytes += bytes -
			(Size) set->max_bitmaps * LSM_LIVE_WORDS * sizeof(uint64);
		set->max_bitmaps = n;
	}
	memcpy(set->words + (Size) set->nbitmaps * LSM_LIVE_WORDS, set->bits, sizeof(set->bits));
	*entry = 2 + set->nbitmaps++;
	return true;
}

/* What was collected of the open block is filed. */
void
lsm_live_close(LsmLiveSet *set)
{
	uint32	  **chunk;
	uint32		entry = LIVE_ALL;

	if (!set->open)
		return;
	set->open = false;
	if (set->count == 0 || set->full)
		return;
	chunk = &set->chunks[set->block / LIVE_CHUNK_BLOCKS];
	if (*chunk == NULL)
	{
		Size		bytes = LIVE_CHUNK_BLOCKS * sizeof(uint32);

		if (set->used_bytes + bytes > set->max_bytes)
		{
			set->full = true;
			return;
		}
		*chunk = MemoryContextAllocZero(set->context, bytes);
		set->used_bytes += bytes;
	}
	if (set->count < LSM_TID_OFFSETS && !live_add_bitmap(set, &entry))
	{
		set->full = true;
		return;
	}
	(*chunk)[set->block % LIVE_CHUNK_BLOCKS] = entry;
}

void
lsm_live_add(LsmLiveSet *set, uint64 packed)
{
	BlockNumber block = (BlockNumber) (packed >> 16);
	int			bit = (int) (packed & 0xFFFF) - 1;

	if (bit < 0 || bit >= LSM_TID_OFFSETS)
		return;
	if (!set->open || set->block != block)
	{
		lsm_live_close(set);
		set->open = true;
		set->block = block;
		set->count = 0;
		memset(set->bits, 0, sizeof(set->bits));
	}
	set->bits[bit / 64] |= UINT64CONST(1) << (bit % 64);
	set->count++;
}

bool
lsm_live_contains(const LsmLiveSet *set, uint64 packed)
{
	BlockNumber block = (BlockNumber) (packed >> 16);
	int			bit = (int) (packed & 0xFFFF) - 1;
	uint32	   *chunk;
	uint32		entry;

	if (bit < 0 || bit >= LSM_TID_OFFSETS || block / LIVE_CHUNK_BLOCKS >= set->nchunks)
		return false;
	chunk = set->chunks[block / LIVE_CHUNK_BLOCKS];
	if (chunk == NULL)
		return false;
	entry = chunk[block % LIVE_CHUNK_BLOCKS];
	if (entry == LIVE_NONE)
		return false;
	if (entry == LIVE_ALL)
		return true;
	return (set->words[(Size) (entry - 2) * LSM_LIVE_WORDS + bit / 64] >> (bit % 64)) & 1;
}
