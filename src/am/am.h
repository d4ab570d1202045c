/*-------------------------------------------------------------------------
 *
 * am.h
 *	  Which relations are ours: above the tree, for all who know of access
 *	  methods.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_AM_H
#define LSM_AM_H

#include "lib/stringinfo.h"
#include "utils/rel.h"

#include "compat.h"
#include "tree/tree.h"

#define LSM_TABLE_AM_NAME	"lsm"
#define LSM_INDEX_AM_NAME	"lsm_index"

/*
 * OIDs of our access methods; InvalidOid if the extension is not in this
 * database
 */
extern Oid	lsm_table_am_oid(void);
extern Oid	lsm_index_am_oid(void);

/* Access method of a relation; InvalidOid if there is none. */
extern Oid	lsm_relation_am(Oid relid);

extern bool lsm_relation_is_table(Relation rel);
extern bool lsm_relation_is_index(Relation rel);

/* ERROR: the table, one of ours, is not repacked while others change it. */
pg_noreturn extern void lsm_report_concurrent_repack(const char *table);

/* True for a table whose TIDs are never used again: one of ours. */
extern bool lsm_tids_are_stable(Relation table);

/*
 * TIDs of lsm tables.  The TID of a version is that of its row, whose offset is
 * at most LSM_TID_OFFSETS, and some bits of the version's number above that (see
 * row_tid.h).  Entries of indexes name rows: these bits are 0, which is the TID of
 * the row's first version, too.  The TIDs of heaps have no such bits.
 */
static inline bool
lsm_is_row_tid(const ItemPointerData *tid)
{
	return (ItemPointerGetOffsetNumberNoCheck(tid) & ~LSM_TID_OFFSET_MASK) == 0;
}

/* The row of a version; `to` may be `from`. */
static inline void
lsm_row_tid(const ItemPointerData *from, ItemPointer to)
{
	*to = *from;
	to->ip_posid &= LSM_TID_OFFSET_MASK;
}

static inline bool
lsm_same_row(const ItemPointerData *a, const ItemPointerData *b)
{
	return ItemPointerGetBlockNumberNoCheck(a) == ItemPointerGetBlockNumberNoCheck(b) &&
		((ItemPointerGetOffsetNumberNoCheck(a) ^ ItemPointerGetOffsetNumberNoCheck(b)) &
		 LSM_TID_OFFSET_MASK) == 0;
}

/*
 * A StringInfo of this many bytes at first, in the current memory context: a
 * usual one has 1 kB, which is more than most keys and rows need.
 */
static inline void
lsm_buffer_init(StringInfo buf, int bytes)
{
	buf->data = (char *) palloc(bytes);
	buf->maxlen = bytes;
	resetStringInfo(buf);
}

/* What this room keeps in shared memory: from the two hooks. */
extern void lsm_am_shmem_request(void);
extern void lsm_am_shmem_init(void);

#endif							/* LSM_AM_H */
