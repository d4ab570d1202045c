/*-------------------------------------------------------------------------
 *
 * row_tid.h
 *	  TIDs of rows and of their versions, packed into 48 bits, and the keys of
 *	  table trees.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TABLE_ROW_TID_H
#define LSM_TABLE_ROW_TID_H

#include "storage/itemptr.h"

#include "tree/tree.h"

/*
 * The TID of a version shows this many low bits of its number, above those of
 * the row's offset.  The greatest offset there can be is 65,315: the special
 * ones of PostgreSQL (SpecTokenOffsetNumber, MovedPartitionsOffsetNumber) are
 * no row's.
 */
#ifndef LSM_VERSION_BITS
#define LSM_VERSION_BITS	7
#endif
#define LSM_VERSION_SHIFT	9
#define LSM_VERSION_MASK	((1 << LSM_VERSION_BITS) - 1)

StaticAssertDecl(LSM_TID_OFFSETS <= LSM_TID_OFFSET_MASK &&
				 LSM_TID_OFFSET_MASK == (1 << LSM_VERSION_SHIFT) - 1 &&
				 LSM_VERSION_SHIFT + LSM_VERSION_BITS <= 16,
				 "a version's number does not fit into its TID");

/* TIDs as 48-bit numbers in TID order, and as keys */
static inline uint64
lsm_tid_pack(const ItemPointerData *tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
lsm_tid_unpack(uint64 packed, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (packed >> 16), (OffsetNumber) packed);
}

static inline void
lsm_key_encode(uint64 packed, char *key)
{
	int			i;

	for (i = LSM_TID_BYTES - 1; i >= 0; i--, packed >>= 8)
		key[i] = (char) (packed & 0xFF);
}

static inline uint64
lsm_key_decode(const char *key)
{
	uint32		block;
	uint16		offset;

	lsm_tid_read(key, &block, &offset);
	return ((uint64) block << 16) | offset;
}

/* The row of a version, both as packed TIDs: the key */
static inline uint64
lsm_tid_row(uint64 packed)
{
	return packed & ~(uint64) (0xFFFF & ~LSM_TID_OFFSET_MASK);
}

/* The offset of the row */
static inline OffsetNumber
lsm_tid_offset(uint64 packed)
{
	return (OffsetNumber) (packed & LSM_TID_OFFSET_MASK);
}

/* What the TID shows of the version's number */
static inline uint32
lsm_tid_version(uint64 packed)
{
	return (uint32) (packed & 0xFFFF) >> LSM_VERSION_SHIFT;
}

/* The TID of the row's version of that number */
static inline uint64
lsm_tid_of(uint64 row, uint32 version)
{
	Assert(lsm_tid_version(row) == 0);
	return row | (uint64) (version & LSM_VERSION_MASK) << LSM_VERSION_SHIFT;
}

/* the packed TID of a row number, see lsm_tree_allocate_rows() */
static inline uint64
lsm_number_pack(uint64 number)
{
	return ((number / LSM_TID_OFFSETS) << 16) | (1 + number % LSM_TID_OFFSETS);
}

static inline uint64
lsm_tid_number(uint64 packed)
{
	return (packed >> 16) * LSM_TID_OFFSETS + lsm_tid_offset(packed) - 1;
}

/* TID blocks that rows below `limit` touch */
static inline BlockNumber
lsm_limit_blocks(uint64 limit)
{
	return (BlockNumber) ((limit + LSM_TID_OFFSETS - 1) / LSM_TID_OFFSETS);
}

#endif							/* LSM_TABLE_ROW_TID_H */
