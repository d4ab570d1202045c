/*-------------------------------------------------------------------------
 *
 * visibility_map.c
 *	  The visibility map of a table tree: setting and clearing of bits, their
 *	  WAL records and redo.
 *
 * Pages and bits are as visibilitymap.c of PostgreSQL has them, which reads
 * them: two bits per block.  The first one is that of PostgreSQL.  The second,
 * there "all frozen", says nothing of freezing here: it is VACUUM's mark, which
 * shows VACUUM at its end what nobody has touched since it began.  No reader
 * looks at it, and nothing relies on it after a crash, so it is not logged.
 * Since PostgreSQL 18, ANALYZE counts these bits, for when autovacuum comes: it
 * takes away what a VACUUM left that was cancelled.
 *
 * Heap clears a bit in the record that changes the row.  Here that is a record
 * of its own, before: a bit too few does no harm.
 *
 * Locks: the map page's content lock, under which nothing else is locked.  Who
 * clears is registered as a writer of the tree, so he must not wait for
 * anything but LWLocks and page I/O; he never extends the map.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/smgr.h"
#include "storage/standby.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/disk/wal.h"
#include "tree/visibility_map.h"

#define MAP_START			MAXALIGN(SizeOfPageHeaderData)
#define MAP_BYTES			((uint32) (BLCKSZ - MAP_START))
#define BLOCKS_PER_BYTE		4
#define BLOCKS_PER_PAGE		(MAP_BYTES * BLOCKS_PER_BYTE)

/* of all four blocks of a byte */
#define VISIBLE_BITS		0x55
#define MARK_BITS			0xAA

StaticAssertDecl(VISIBILITYMAP_ALL_VISIBLE == 0x01 && VISIBILITYMAP_ALL_FROZEN == 0x02,
				 "the map's bits are others than expected");

static inline uint8 *
map_bytes(Page page)
{
	return (uint8 *) page + MAP_START;
}

uint64
lsm_tree_logged_row_limit(LsmTree *tree)
{
	LsmMetaPage *meta;
	Buffer		buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &meta);
	uint64		limit = meta->row_limit;

	UnlockReleaseBuffer(buffer);
	return limit;
}

uint64
lsm_vm_fork_blocks(SMgrRelation smgr)
{
	if (!smgrexists(smgr, VISIBILITYMAP_FORKNUM))
		return 0;
	return (uint64) smgrnblocks(smgr, VISIBILITYMAP_FORKNUM) * BLOCKS_PER_PAGE;
}

/* Writers look at the map for blocks below `nblocks` from now on. */
static void
raise_limit(LsmTree *tree, uint64 nblocks)
{
	lsm_tree_enter(tree);
	lsm_counter_raise(&tree->ctl->rows.map_blocks, nblocks);
	lsm_tree_exit(tree);
}

void
lsm_vm_mark(Relation rel, LsmTree *tree, BlockNumber nblocks)
{
	Buffer		buffer = InvalidBuffer;

	Assert(!RelationUsesLocalBuffers(rel));
	Assert(!RecoveryInProgress());
	for (uint64 first = 0; first < nblocks; first += BLOCKS_PER_PAGE)
	{
		uint32		n = Min(nblocks - first, BLOCKS_PER_PAGE);
		uint8	   *bytes;

		CHECK_FOR_INTERRUPTS();
		visibilitymap_pin(rel, (BlockNumber) first, &buffer);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		bytes = map_bytes(BufferGetPage(buffer));
		for (uint32 i = 0; i < n / BLOCKS_PER_BYTE; i++)
			bytes[i] |= MARK_BITS;
		for (uint32 i = n - n % BLOCKS_PER_BYTE; i < n; i++)
			bytes[i / BLOCKS_PER_BYTE] |= VISIBILITYMAP_ALL_FROZEN << 2 * (i % BLOCKS_PER_BYTE);
		MarkBufferDirtyHint(buffer, false);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	raise_limit(tree, nblocks);
	LSM_CRASH_POINT("map_marked");
}

/* Of blocks 4 i to 4 i + 3 of a page that begins with `first`, those wanted. */
static inline uint8
wanted_bits(const uint8 *wanted, BlockNumber first, uint32 i, BlockNumber nblocks)
{
	uint8		bits = 0;

	for (int j = 0; j < BLOCKS_PER_BYTE; j++)
	{
		uint64		block = (uint64) first + i * BLOCKS_PER_BYTE + j;

		if (block < nblocks && (wanted[block / 8] & (1 << block % 8)))
			bits |= VISIBILITYMAP_ALL_VISIBLE << 2 * j;
	}
	return bits;
}

/*
 * What becomes of a page's bytes: into `after`.  *begin, *end: the bytes that
 * are different but for marks.
 */
static void
decide_page(const uint8 *before, uint8 *after, BlockNumber first, BlockNumber nblocks,
			const uint8 *wanted, uint32 *begin, uint32 *end)
{
	uint32		nbytes = (Min(nblocks - first, BLOCKS_PER_PAGE) + BLOCKS_PER_BYTE - 1) /
		BLOCKS_PER_BYTE;

	*begin = MAP_BYTES;
	*end = 0;
	memcpy(after, before, MAP_BYTES);
	for (uint32 i = 0; i < nbytes; i++)
	{
		uint8		marked = (before[i] & MARK_BITS) >> 1;

		after[i] = before[i] & VISIBLE_BITS;
		if (marked != 0)
			after[i] |= marked & wanted_bits(wanted, first, i, nblocks);
		if (after[i] != (before[i] & VISIBLE_BITS))
		{
			*begin = Min(*begin, i);
			*end = i + 1;
		}
	}
}

/* REQUIRES: critical section, page locked and dirty. */
static void
log_visible(const LsmTree *tree, Buffer buffer, uint32 begin, uint32 end,
			TransactionId newest_xmin)
{
	LsmWalVisible record = {.keyspace_id = tree->keyspace_id};
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0 && begin < end);
	record.newest_xmin = newest_xmin;
	record.first = begin;
	record.bytes = end - begin;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	XLogRegisterBuffer(0, buffer, 0);	/* no hole: bits fill the page */
	XLogRegisterBufData(0, (char *) map_bytes(BufferGetPage(buffer)) + begin, end - begin);
	lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_VISIBLE);
	PageSetLSN(BufferGetPage(buffer), lsn);
}

void
lsm_vm_set(Relation rel, LsmTree *tree, BlockNumber nblocks, const uint8 *wanted,
		   TransactionId newest_xmin)
{
	uint8	   *after = palloc(MAP_BYTES);
	Buffer		buffer = InvalidBuffer;

	Assert(!RelationUsesLocalBuffers(rel));
	LSM_CRASH_POINT("map_decided");
	for (uint64 first = 0; first < nblocks; first += BLOCKS_PER_PAGE)
	{
		uint8	   *bytes;
		uint32		begin;
		uint32		end;

		CHECK_FOR_INTERRUPTS();
		visibilitymap_pin(rel, (BlockNumber) first, &buffer);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		bytes = map_bytes(BufferGetPage(buffer));
		decide_page(bytes, after, (BlockNumber) first, nblocks, wanted, &begin, &end);
		if (begin < end)
		{
			START_CRIT_SECTION();
			memcpy(bytes, after, MAP_BYTES);
			MarkBufferDirty(buffer);
			if (lsm_tree_needs_wal(tree))
				log_visible(tree, buffer, begin, end, newest_xmin);
			END_CRIT_SECTION();
		}
		else if (memcmp(bytes, after, MAP_BYTES) != 0)
		{
			memcpy(bytes, after, MAP_BYTES);
			MarkBufferDirtyHint(buffer, false);
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		LSM_CRASH_POINT("map_set");
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	pfree(after);
}

void
lsm_vm_unmark(Relation rel)
{
	BlockNumber npages = lsm_vm_fork_blocks(RelationGetSmgr(rel)) / BLOCKS_PER_PAGE;
	Buffer		buffer = InvalidBuffer;

	for (BlockNumber page = 0; page < npages; page++)
	{
		uint8	   *bytes;
		bool		marked = false;

		CHECK_FOR_INTERRUPTS();
		visibilitymap_pin(rel, page * BLOCKS_PER_PAGE, &buffer);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		bytes = map_bytes(BufferGetPage(buffer));
		for (uint32 i = 0; i < MAP_BYTES; i++)
		{
			marked |= (bytes[i] & MARK_BITS) != 0;
			bytes[i] &= VISIBLE_BITS;
		}
		if (marked)
			MarkBufferDirtyHint(buffer, false);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
}

/* REQUIRES: page locked. */
static void
clear_block(LsmTree *tree, Buffer buffer, uint32 number)
{
	uint32		i = number / BLOCKS_PER_BYTE;
	int			shift = 2 * (number % BLOCKS_PER_BYTE);
	uint8	   *bytes = map_bytes(BufferGetPage(buffer));
	LsmWalInvisible record = {.keyspace_id = tree->keyspace_id};
	XLogRecPtr	lsn;

	if (!(bytes[i] & (VISIBILITYMAP_VALID_BITS << shift)))
		return;					/* another writer was faster */
	if (!(bytes[i] & (VISIBILITYMAP_ALL_VISIBLE << shift)))
	{
		bytes[i] &= ~(VISIBILITYMAP_VALID_BITS << shift);
		MarkBufferDirtyHint(buffer, false);
		return;
	}
	record.number = number;
	START_CRIT_SECTION();
	bytes[i] &= ~(VISIBILITYMAP_VALID_BITS << shift);
	MarkBufferDirty(buffer);
	if (lsm_tree_needs_wal(tree))
	{
		XLogBeginInsert();
		XLogRegisterData((char *) &record, sizeof(record));
		XLogRegisterBuffer(0, buffer, 0);
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_INVISIBLE);
		PageSetLSN(BufferGetPage(buffer), lsn);
	}
	END_CRIT_SECTION();
}

void
lsm_vm_clear(Relation rel, LsmTree *tree, BlockNumber block)
{
	BlockNumber map_block = block / BLOCKS_PER_PAGE;
	Buffer		buffer = InvalidBuffer;
	SMgrRelation smgr;

	Assert(!lsm_key_lock_is_held());
	if (likely(block >= pg_atomic_read_u64(&tree->ctl->rows.map_blocks)) || LSM_LIE("vm_clear"))
		return;

	/* VACUUM may have extended the fork: its message may still be on its way */
	smgr = RelationGetSmgr(rel);
	if (map_block >= smgr->smgr_cached_nblocks[VISIBILITYMAP_FORKNUM])
		smgr->smgr_cached_nblocks[VISIBILITYMAP_FORKNUM] = InvalidBlockNumber;
	if (visibilitymap_get_status(rel, block, &buffer) != 0)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		clear_block(tree, buffer, block % BLOCKS_PER_PAGE);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		LSM_CRASH_POINT("map_cleared");
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
}

/* ---- redo ---- */

/*
 * The map's page, if there is something to be done; locked.  Its fork is
 * extended without a record.
 */
static Buffer
redo_page(XLogReaderState *record)
{
	Buffer		buffer;

	if (XLogReadBufferForRedoExtended(record, 0, RBM_ZERO_ON_ERROR, false, &buffer) != BLK_NEEDS_REDO)
	{
		if (BufferIsValid(buffer))
			UnlockReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	if (PageIsNew(BufferGetPage(buffer)))
		PageInit(BufferGetPage(buffer), BLCKSZ, 0);
	return buffer;
}

static void
redo_done(XLogReaderState *record, Buffer buffer)
{
	PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
	MarkBufferDirty(buffer);
	UnlockReleaseBuffer(buffer);
}

void
lsm_redo_visible(XLogReaderState *record, const LsmWalVisible *visible)
{
	Buffer		buffer = redo_page(record);
	Size		len;
	char	   *data;

	if (!BufferIsValid(buffer))
		return;
	data = XLogRecGetBlockData(record, 0, &len);
	if (data == NULL || len != visible->bytes || visible->first + len > MAP_BYTES)
		elog(PANIC, "lsm visibility record does not fit its page");
	memcpy(map_bytes(BufferGetPage(buffer)) + visible->first, data, len);
	redo_done(record, buffer);
}

void
lsm_redo_invisible(XLogReaderState *record, const LsmWalInvisible *invisible)
{
	Buffer		buffer = redo_page(record);

	if (!BufferIsValid(buffer))
		return;
	if (invisible->number >= BLOCKS_PER_PAGE)
		elog(PANIC, "lsm visibility record does not fit its page");
	map_bytes(BufferGetPage(buffer))[invisible->number / BLOCKS_PER_BYTE] &=
		~(VISIBILITYMAP_VALID_BITS << 2 * (invisible->number % BLOCKS_PER_BYTE));
	redo_done(record, buffer);
}
