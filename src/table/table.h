/*-------------------------------------------------------------------------
 *
 * table.h
 *	  The table access method "lsm": row versions in a tree keyed by TID.
 *
 * A version's value in the tree is a tag, a header (who made it, who ended it,
 * who locks it) and the row in heap tuple layout.  A change of an existing
 * version writes an override: a value tagged PARTIAL with the complete new
 * header and no row.  A value tagged VERSION is a version that others of the
 * same row lie below; versions.h says how they are read.
 *
 * Value format, integers in machine order, TIDs as in keys:
 *
 *	tag			1 byte		LsmTag
 *	flags		2			LSM_ROW_*
 *	xmin		4			unless KILLED, or XMIN_FROZEN without XMIN_KEPT
 *	version		4			if LSM_ROW_VERSION, else 0
 *	span, kept	1 + 2		if the tag is VERSION
 *	cmin		4			if HAS_CMIN, else 0
 *	xmax, cmax	4 + 4		if HAS_XMAX
 *	next TID	6			if HAS_NEXT: where the new version is
 *	token		4			if SPECULATIVE
 *	n, lockers	2 + n * 5	if HAS_LOCKERS: xid and LockTupleMode of each
 *	and, if the tag is PUT or VERSION, the body:
 *	attributes	2			number of attributes, LSM_BODY_*
 *	null bitmap				if LSM_BODY_HASNULL
 *	data					as in a heap tuple, from t_hoff on
 *
 * The tuple's real xmax is only ever an updater or deleter.  Row locks live in
 * the list of lockers: there are no multixacts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TABLE_H
#define LSM_TABLE_H

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "port/pg_bswap.h"
#include "nodes/lockoptions.h"
#include "utils/snapmgr.h"

#include "am/am.h"
#include "am/row_notes.h"
#include "tree/tree.h"

extern PGDLLEXPORT const TableAmRoutine lsm_table_methods;

/* From _PG_init: registers the kind LSM_KIND_TABLE. */
extern void lsm_table_init(void);

/* ---- row format (row.c) ---- */

#define LSM_ROW_XMIN_COMMITTED	0x0001
#define LSM_ROW_XMIN_FROZEN		0x0002	/* committed, in everyone's past */
#define LSM_ROW_XMIN_KEPT		0x0004	/* XMIN_FROZEN, and xmin is stored;
										 * older builds left it out */
#define LSM_ROW_HAS_XMAX		0x0008
#define LSM_ROW_XMAX_COMMITTED	0x0010
#define LSM_ROW_KEYS_UPDATED	0x0020	/* xmax deleted, changed a key
										 * column, or had locked for that */
#define LSM_ROW_HAS_NEXT		0x0040	/* xmax updated */
#define LSM_ROW_MOVED			0x0080	/* xmax moved it to another partition */
#define LSM_ROW_HAS_LOCKERS		0x0100
#define LSM_ROW_SPECULATIVE		0x0200
#define LSM_ROW_KILLED			0x0400	/* super-deleted: dead to everyone;
										 * xmin not stored */
#define LSM_ROW_HAS_CMIN		0x0800
#define LSM_ROW_UPDATED			0x1000	/* made by an UPDATE */
#define LSM_ROW_VERSION			0x2000	/* its number is stored: not the row's
										 * first version */
#define LSM_ROW_STRONG			0x4000	/* the update that made it was as strong
										 * as a change of key columns */
#define LSM_ROW_FLAGS			0x7FFF	/* all of the above */

/* everything that describes xmax */
#define LSM_ROW_XMAX_FLAGS \
	(LSM_ROW_HAS_XMAX | LSM_ROW_XMAX_COMMITTED | LSM_ROW_KEYS_UPDATED | \
	 LSM_ROW_HAS_NEXT | LSM_ROW_MOVED)

#define LSM_BODY_NATTS_MASK		0x07FF
#define LSM_BODY_HASNULL		0x0800
#define LSM_BODY_HASVARWIDTH	0x1000
#define LSM_BODY_HASEXTERNAL	0x2000

#define LSM_LOCKER_BYTES		5
#define LSM_MAX_LOCKERS			800 /* of one row version */

/*
 * Longest header (tag included), and the longest body, bytes: an update's two
 * entries, both with as many lockers as there can be, fit into one write.
 */
#define LSM_ROW_HEADER_BYTES(nlockers) (38 + 2 + (nlockers) * LSM_LOCKER_BYTES)
#define LSM_ROW_BODY_MAX_BYTES \
	(LSM_MAX_ENTRY_BYTES - \
	 2 * (LSM_TID_BYTES + LSM_ROW_HEADER_BYTES(LSM_MAX_LOCKERS)))

/*
 * A decoded value.  `lockers` and `body` point into the value it was decoded
 * from (or, for a header being edited, anywhere).
 */
typedef struct LsmRow
{
	uint16		flags;
	TransactionId xmin;			/* FrozenTransactionId, Invalid if killed */
	TransactionId frozen_xmin;	/* of a frozen row: who made it, or Invalid if
								 * that is not known.  To be shown, and no
								 * more: its clog may be gone, or another
								 * transaction's */
	CommandId	cmin;
	TransactionId xmax;			/* Invalid unless HAS_XMAX */
	CommandId	cmax;
	ItemPointerData next;		/* valid if HAS_NEXT */
	uint16		kept;			/* if open: bytes of older versions that may
								 * still be needed, an upper bound */
	uint32		token;			/* if SPECULATIVE */
	int			nlockers;
	const char *lockers;		/* unaligned: see lsm_row_locker() */
	bool		partial;		/* no body */
	bool		open;			/* tag VERSION: older versions may lie below */
	uint8		span;			/* if open: version, less the oldest one that
								 * may still be needed, an upper bound */
	uint32		version;		/* its number: the one before it has one less */
	const char *body;			/* from the attribute word on */
	uint32		body_bytes;
} LsmRow;

/* The row's maker has committed, and every snapshot sees that. */
static inline void
lsm_row_freeze(LsmRow *row)
{
	Assert(TransactionIdIsNormal(row->xmin));
	row->flags &= ~(LSM_ROW_XMIN_COMMITTED | LSM_ROW_SPECULATIVE);
	row->flags |= LSM_ROW_XMIN_FROZEN;
	row->frozen_xmin = row->xmin;
	row->xmin = FrozenTransactionId;
	row->cmin = 0;
}

/* What the row has in its column xmin, as heap has it */
static inline TransactionId
lsm_row_shown_xmin(const LsmRow *row)
{
	return TransactionIdIsValid(row->frozen_xmin) ? row->frozen_xmin : row->xmin;
}

/*
 * The TID of a version shows so many low bits of its number, above those of the
 * row's offset.  The greatest offset there can be is 65,315: the special ones of
 * PostgreSQL (SpecTokenOffsetNumber, MovedPartitionsOffsetNumber) are no row's.
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

/*
 * Versions of a row that may still be needed have so many bytes in all, at most:
 * one value holds them (LSM_MAX_ENTRY_BYTES).
 */
#define LSM_VERSIONS_MAX_BYTES	(20 * 1024)

/*
 * A row has at most about so many values that a reader passes over until a flush:
 * versions that came to nothing, and overrides.
 */
#define LSM_ROW_VALUES_MAX		32

/* Do updates that change no indexed column stay in their row? */
extern bool lsm_row_versions;

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

static inline void
lsm_row_locker(const LsmRow *row, int i, TransactionId *xid, LockTupleMode *mode)
{
	const char *p = row->lockers + i * LSM_LOCKER_BYTES;

	Assert(i >= 0 && i < row->nlockers);
	memcpy(xid, p, sizeof(TransactionId));
	*mode = (LockTupleMode) p[sizeof(TransactionId)];
}

static inline void
lsm_locker_put(char *p, TransactionId xid, LockTupleMode mode)
{
	memcpy(p, &xid, sizeof(TransactionId));
	p[sizeof(TransactionId)] = (char) mode;
}

static inline bool
lsm_row_has_external(const LsmRow *row)
{
	uint16		attributes;

	memcpy(&attributes, row->body, sizeof(attributes));
	return (attributes & LSM_BODY_HASEXTERNAL) != 0;
}

/* Decode; NULL or what is wrong (a constant string). */
extern const char *lsm_row_parse(LsmSlice value, LsmRow *row);

/* Decode or ERROR (ERRCODE_DATA_CORRUPTED). */
extern void lsm_row_decode(Relation rel, uint64 packed, LsmSlice value, LsmRow *row);

/* See LsmKindOps.check and check_row (verify_row.c). */
extern char *lsm_value_check(LsmSlice key, LsmSlice value);
extern char *lsm_row_check(Relation rel, LsmSlice key, LsmSlice value, Snapshot snapshot,
						   bool *hidden);

/*
 * Append a value: tag, header and, with `body`, the row's body.  The tag is
 * PARTIAL without a body, else VERSION if the row is open, else PUT.
 */
extern void lsm_row_encode(StringInfo out, const LsmRow *row, bool body);

/* How many bytes the tuple's body has in our format */
extern uint32 lsm_tuple_body_bytes(HeapTuple tuple);

/* Append a complete value whose body is the heap tuple's. */
extern void lsm_row_encode_tuple(StringInfo out, const LsmRow *row, HeapTuple tuple);

/* The same in a StringInfo that is made for it, and is as long as it takes. */
extern void lsm_row_value_init(StringInfo value, const LsmRow *row, HeapTuple tuple);

/* Of a StringInfo for values of rows, most of which are shorter */
#define LSM_FIRST_VALUE_BYTES	200

/*
 * A header's value, without body.  If it has no lockers, as hardly any has, it
 * lies in the caller's frame.
 */
typedef struct LsmHeaderValue
{
	StringInfoData buf;
	char		bytes[LSM_ROW_HEADER_BYTES(0) + 1];
} LsmHeaderValue;

/* The caller frees it.  It stays where it is if a header as long is put there. */
extern void lsm_header_value_init(LsmHeaderValue *value, const LsmRow *header);
extern void lsm_header_value_free(LsmHeaderValue *value);

/* Append the heap tuple's body. */
extern void lsm_body_encode_tuple(StringInfo out, HeapTuple tuple);

/* Decode nothing but a body; NULL or what is wrong (a constant string). */
extern const char *lsm_body_parse(LsmSlice body, LsmRow *row);

/* Length (t_len) of a heap tuple with the row's body */
extern uint32 lsm_body_tuple_bytes(const LsmRow *row);

/*
 * Write t_len and the tuple at t_data, which has room for it, from the row's
 * body, without system columns.
 */
extern void lsm_body_fill_tuple(const LsmRow *row, HeapTuple tuple);

/* ERROR if the tuple's body is too long for an entry. */
extern void lsm_row_check_size(HeapTuple tuple);

/* The row as one palloc'd heap tuple with system columns. */
extern HeapTuple lsm_row_form_tuple(const LsmRow *row, uint64 packed, Oid relid);

/* Write the system columns of `tuple`, whose t_self is set, from a header. */
extern void lsm_row_label_tuple(const LsmRow *row, HeapTuple tuple);
extern void lsm_row_store(Relation rel, const LsmRow *row, uint64 packed,
						  TupleTableSlot *slot);

/* Free bytes that lsm_row_form_in_place() needs before a value */
#define LSM_ROW_HEADROOM	56
extern HeapTuple lsm_row_form_in_place(char *value, uint32 value_bytes, uint64 packed,
									   Oid relid, Snapshot snapshot,
									   TransactionId visible_xmin, uint32 *data_offset);

/* The header of a tuple made by lsm_row_form_tuple (lockers are lost). */
extern void lsm_row_from_tuple(HeapTuple tuple, LsmRow *row);

/* Where xmin stands in a value */
#define LSM_ROW_XMIN_OFFSET		3

/*
 * A row of which lsm_row_form_in_place() has made a tuple.  Rows whose values
 * begin with the same bytes, up to the data, get the same header, and the
 * snapshot sees them, too.
 */
typedef struct LsmRowModel
{
	uint32		data_offset;	/* where data begin; 0: there is no model */
	uint64		start[2];		/* the bytes before */
	uint64		mask[2];		/* ones for these bytes */
	bool		own_xmin;		/* each row has its own, which the mask leaves
								 * out: all are frozen */
	HeapTupleHeaderData header;
} LsmRowModel;

/* ---- visibility (visibility.c) ---- */

extern bool lsm_row_visible(const LsmRow *row, Snapshot snapshot);

/* What became of the transaction that made the version */
typedef enum LsmMaker
{
	LSM_MAKER_OURS,				/* current transaction, version not known
								 * committed */
	LSM_MAKER_RUNNING,
	LSM_MAKER_COMMITTED,
	LSM_MAKER_DEAD				/* rolled back, or the version was killed */
} LsmMaker;

extern LsmMaker lsm_row_maker(const LsmRow *row);

/*
 * Does the MVCC snapshot see the version, or what came after it?  Then it sees
 * nothing that is older.
 */
extern bool lsm_row_made_for(const LsmRow *row, Snapshot snapshot);

/*
 * May the command `curcid` of this transaction change the row?  Row locks are
 * not looked at.  TM_BeingModified: xmax is another running transaction.
 */
extern TM_Result lsm_row_changeable(const LsmRow *row, CommandId curcid);

extern HTSV_Result lsm_row_vacuum_status(const LsmRow *row, TransactionId oldest_xmin);
extern HTSV_Result lsm_row_vacuum_horizon(const LsmRow *row, TransactionId *dead_after);
extern TransactionId lsm_row_deleter(const LsmRow *row);
extern bool lsm_row_surely_dead(const LsmRow *row, Relation table);

/* Is this xid a live locker: ours or another running transaction's? */
extern bool lsm_xid_running(TransactionId xid);

extern void lsm_check_conflict_out(Relation rel, const LsmRow *row, bool visible,
								   Snapshot snapshot);

/* The table's tree.  See lsm_tree_open. */
static inline LsmTree *
lsm_table_tree(Relation rel)
{
	return lsm_tree_open(rel, LSM_KIND_TABLE, NULL);
}

/* ---- logical decoding (logical.c) ---- */

/* What happens to a row.  In WAL records. */
typedef enum LsmChange
{
	LSM_CHANGE_INSERT = 1,
	LSM_CHANGE_UPDATE = 2,
	LSM_CHANGE_DELETE = 3,
	LSM_CHANGE_SPECULATIVE = 4, /* insertion that waits for its completion */
	LSM_CHANGE_CONFIRM = 5,
	LSM_CHANGE_ABORT = 6
} LsmChange;

/* Notes (LsmEntry.note) of changes; empty if the table is not decoded. */
extern LsmSlice lsm_note_plain(Relation rel, LsmChange change);
extern LsmSlice lsm_note_insert_more(Relation rel);
extern LsmSlice lsm_note_change(Relation rel, HeapTuple oldtup, HeapTuple newtup);
extern void lsm_note_free(LsmSlice note);

extern void lsm_row_decode_change(struct LogicalDecodingContext *ctx,
								  struct XLogRecordBuffer *buf,
								  const RelFileLocator *relation, LsmSlice value,
								  LsmSlice note);
extern bool lsm_row_is_changed(LsmSlice value, TransactionId xid);

/* ---- rows of subscribers (replica_key.c) ---- */

extern void lsm_prepare_replica_key(Relation rel);

/* ---- one row version about to be changed (row_change.c) ---- */

/*
 * The protocol for changing an existing version: read it under a stamp, decide
 * (waiting if need be), begin the write, then apply it under the key's lock
 * only if the stamp still holds; else read again.
 */
typedef struct LsmRowChange
{
	Relation	rel;
	LsmTree    *tree;
	ItemPointerData tid;		/* the version's */
	uint64		packed;			/* the same */
	uint64		row_tid;		/* the row's, packed */
	char		key[LSM_TID_BYTES];
	LsmDigest	lock_digest;
	LsmProbe	probe;
	LsmStamp	stamp;
	StringInfoData value;
	LsmRow		row;			/* the version */
	const LsmRow *newest;		/* the newest valid one: `row` or `newer` */
	bool		crowded;		/* many values were passed over to find it */
	LsmRow		newer;
} LsmRowChange;

extern void lsm_row_change_init(LsmRowChange *target, Relation rel, LsmTree *tree,
							const ItemPointerData *tid);

/* False: no such version, or it was rolled back.  Else target->row is decoded. */
extern bool lsm_row_change_read(LsmRowChange *target);

/*
 * Apply a begun write.  False: someone was faster, it was cancelled; read
 * again.
 */
extern bool lsm_row_change_apply(LsmRowChange *target, LsmWrite *write);

/*
 * Had the version no successor when it was read?  If the successor that it had
 * came to nothing meanwhile (TM_Ok), read again: the change is written on top.
 */
static inline bool
lsm_row_change_is_newest(const LsmRowChange *target)
{
	return target->newest == &target->row;
}

/*
 * Begin and apply the write of one override with this header.  `note`: for
 * logical decoding; empty for all but changes of the row itself.
 */
extern bool lsm_row_change_override(LsmRowChange *target, const LsmRow *header,
									LsmSlice note);
extern void lsm_row_change_free(LsmRowChange *target);

/*
 * Header to start a change from, of the row's newest version: an xmax that came
 * to nothing is gone, finished lockers too.  With `xid` valid, its locks up to
 * `mode` as well: its xmax will stand for them.  The list of lockers is palloc'd
 * (NULL if empty): lsm_header_free() when done.
 */
extern void lsm_row_change_header(const LsmRowChange *target, TransactionId xid,
							  LockTupleMode mode, LsmRow *header);
extern void lsm_header_free(LsmRow *header);
extern void lsm_row_change_failure(const LsmRowChange *target, TM_Result result,
							   TM_FailureData *tmfd);

/* ---- updates and deletions (modify.c) ---- */

extern TM_Result lsm_tuple_delete(Relation rel, ItemPointer tid, CommandId cid,
								  Snapshot snapshot, Snapshot crosscheck, bool wait,
								  TM_FailureData *tmfd, bool changing_partition);
extern TM_Result lsm_tuple_update(Relation rel, ItemPointer otid,
								  TupleTableSlot *slot, CommandId cid,
								  Snapshot snapshot, Snapshot crosscheck, bool wait,
								  TM_FailureData *tmfd, LockTupleMode *lockmode,
								  TU_UpdateIndexes *update_indexes);

/* ---- new rows (insert.c) ---- */

extern void lsm_header_of_new_row(LsmRow *header, TransactionId xid, CommandId cid,
								  bool frozen);
extern void lsm_label_tuple(Relation rel, HeapTuple tuple, TupleTableSlot *slot,
							const LsmRow *header, uint64 packed);

extern void lsm_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
							 int options, BulkInsertState bistate);
extern void lsm_tuple_insert_speculative(Relation rel, TupleTableSlot *slot,
										 CommandId cid, int options,
										 BulkInsertState bistate, uint32 token);
extern void lsm_tuple_complete_speculative(Relation rel, TupleTableSlot *slot,
										   uint32 token, bool succeeded);
extern void lsm_multi_insert(Relation rel, TupleTableSlot **slots, int nslots,
							 CommandId cid, int options, BulkInsertState bistate);

/* ---- row locks (lock.c) ---- */

/* What a change of strength `mode` must wait for */
typedef struct LsmConflict
{
	TransactionId xid;			/* a running conflicting locker, or invalid */
	bool		own;			/* our transaction is among the lockers */
	bool		own_enough;		/* ... with a lock at least as strong */
} LsmConflict;

extern void lsm_row_find_conflict(const LsmRow *row, LockTupleMode mode,
								  LsmConflict *conflict);
extern bool lsm_lock_modes_conflict(LockTupleMode a, LockTupleMode b);

/* The strength of the lock that xmax amounts to. */
extern LockTupleMode lsm_row_xmax_mode(const LsmRow *row);

/*
 * The heavyweight lock that queues those who wait for a row.  False: policy is
 * skip.
 */
extern bool lsm_tuplock_acquire(Relation rel, ItemPointer tid, LockTupleMode mode,
								LockWaitPolicy policy, bool *held);
extern void lsm_tuplock_release(Relation rel, ItemPointer tid, LockTupleMode mode,
								bool held);

/* Add (or strengthen) the current transaction's lock in a settled header. */
extern void lsm_header_add_locker(LsmRow *header, TransactionId xid,
								  LockTupleMode mode);

extern TM_Result lsm_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
								TupleTableSlot *slot, CommandId cid,
								LockTupleMode mode, LockWaitPolicy wait_policy,
								uint8 flags, TM_FailureData *tmfd);

/* ---- rows read ahead (readahead.c) ---- */

typedef struct LsmAhead
{
	LsmBatch   *batch;			/* NULL until needed */
	int			next;			/* first entry still to be used */
	int			size;			/* of the next batch, entries */
	TransactionId visible_xmin; /* its rows are visible to the snapshot; or
								 * Invalid */
	LsmRowModel model;			/* for the snapshot */
	LsmEnough	enough;			/* the versions that the snapshot wants */
	StringInfoData again;		/* a row that was read once more */
} LsmAhead;

/* May rows be read ahead for this snapshot, in this transaction? */
extern bool lsm_snapshot_reads_ahead(Snapshot snapshot);

/* Forget what was read; the next batch is a small one. */
extern void lsm_ahead_reset(LsmAhead *ahead);
extern void lsm_ahead_free(LsmAhead *ahead);

/* Memory comes from `context`. */
extern bool lsm_ahead_fill(LsmAhead *ahead, LsmCursor *cursor, uint64 high,
						   MemoryContext context);

typedef enum LsmAheadResult
{
	LSM_AHEAD_STORED,			/* the slot has the row */
	LSM_AHEAD_HIDDEN,			/* the snapshot does not see it; *value is it,
								 * or empty, if it is gone */
	LSM_AHEAD_MALFORMED,		/* the key is no TID */
	LSM_AHEAD_END				/* for scan.c: there is none */
} LsmAheadResult;

/* The next row, which stays the next one: the version that the snapshot sees. */
extern LsmAheadResult lsm_ahead_store(LsmAhead *ahead, Relation rel, Snapshot snapshot,
									  TupleTableSlot *slot, LsmSlice *value,
									  LsmRow *version);

static inline bool
lsm_ahead_empty(const LsmAhead *ahead)
{
	return ahead->batch == NULL || ahead->next >= ahead->batch->n;
}

static inline uint64
lsm_ahead_key(const LsmAhead *ahead, int i)
{
	return lsm_key_decode(ahead->batch->bytes.data + ahead->batch->entries[i].key_offset);
}

/* Of an index scan; starts as zeros */
typedef struct LsmFetchAhead
{
	LsmAhead	ahead;
	LsmCursor  *cursor;			/* NULL until needed */
	uint64		last;			/* row of the last fetch */
	int			run;			/* fetches of neighbours in a row; negative:
								 * so many to come before that counts again */
	int			hits;			/* uses of the batch */

	/* the snapshot the batch is good for */
	Snapshot	snapshot;
	CommandId	curcid;
	TransactionId xmin;
	TransactionId xmax;
} LsmFetchAhead;

extern bool lsm_fetch_from_ahead(LsmFetchAhead *fetch, Relation rel, LsmTree *tree,
								 uint64 row, Snapshot snapshot, MemoryContext context,
								 TupleTableSlot *slot);
extern void lsm_fetch_ahead_free(LsmFetchAhead *fetch);

/* ---- scans (scan.c, bitmap_scan.c, sample.c) ---- */

typedef struct LsmTableScan
{
	TableScanDescData base;		/* must be first */
	MemoryContext context;		/* of the scan's own memory */
	LsmTree    *tree;			/* good for the transaction, so for the scan */
	LsmCursor  *cursor;			/* NULL until needed */
	bool		batched;		/* read ahead in batches when going forward */
	uint64		row_limit;		/* row numbers at or above came after the
								 * start */
	BlockNumber nblocks;		/* TID blocks below row_limit */
	bool		met_hidden;		/* a row that a snapshot of the present did not
								 * see */

	/* what is being walked: rows, inclusive */
	uint64		low;
	uint64		high;
	bool		positioned;		/* cursor is inside the range */
	BlockNumber block;			/* of the last row, for progress */

	/* rows from start_block on come first, those before in a second round */
	BlockNumber start_block;
	bool		in_second;
	bool		synchronized;	/* tell others where we are */
	BlockNumber told_block;		/* what we have told last */

	LsmAhead	ahead;			/* if batched */
	LsmTombstones	tombstones;			/* if batched: dead rows in sorted files */

	/* a snapshot that may see several versions of a row: those still to come */
	bool		in_row;
	struct LsmVersions *versions;

	/* TID range scan: the first and the last TID, packed */
	uint64		first_tid;
	uint64		last_tid;

	/* bitmap scan: the block at hand */
	StringInfoData value;
	BlockNumber bitmap_block;
	const OffsetNumber *bitmap_offsets;
	int			bitmap_ntids;	/* -1: all of the block's */
	int			bitmap_next;
	bool		bitmap_walk;	/* walk the range, else fetch one by one */
	bool		bitmap_recheck; /* since 18: the executor is to recheck */
	OffsetNumber bitmap_room[LSM_TID_OFFSETS];	/* since 18 */

	/* TABLESAMPLE and ANALYZE: the block at hand */
	BlockNumber sample_block;	/* InvalidBlockNumber before the first */
	MemoryContext sample_context;
	HeapTuple  *sample_rows;	/* visible rows by offset - 1 */
	double		sample_scale;	/* ANALYZE: blocks that a sample stands for */
} LsmTableScan;

/*
 * Blocks that ANALYZE may be told of.  It prefetches the blocks of its sample
 * from the main fork, where a block beyond the first segment may be an error.
 */
#define LSM_ANALYZE_MAX_BLOCKS	((BlockNumber) RELSEG_SIZE)

extern TableScanDesc lsm_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
									struct ScanKeyData *key,
									ParallelTableScanDesc pscan, uint32 flags);
extern void lsm_scan_end(TableScanDesc sscan);
extern void lsm_scan_rescan(TableScanDesc sscan, struct ScanKeyData *key,
							bool set_params, bool allow_strat, bool allow_sync,
							bool allow_pagemode);

extern bool lsm_scan_getnextslot(TableScanDesc sscan, ScanDirection direction,
								 TupleTableSlot *slot);
extern void lsm_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid,
								  ItemPointer maxtid);
extern bool lsm_scan_getnextslot_tidrange(TableScanDesc sscan,
										  ScanDirection direction,
										  TupleTableSlot *slot);
extern Size lsm_parallelscan_estimate(Relation rel);
extern Size lsm_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan);
extern void lsm_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan);
extern BlockNumber lsm_scan_total_blocks(LsmTableScan *scan);
extern BlockNumber lsm_scan_blocks_done(LsmTableScan *scan);

/*
 * Next row of the range, whatever its visibility; false at the end.  *value: its
 * versions, those that the scan's snapshot wants; SnapshotAny: all, no snapshot:
 * the newest valid one and those that are newer.  It is the scan's memory, good
 * until the next call.
 */
extern bool lsm_scan_step(LsmTableScan *scan, ScanDirection direction,
						  uint64 *row, LsmSlice *value);

/*
 * The version of that row which the snapshot sees, with serializable bookkeeping;
 * *packed: its TID.  False: there is none.
 */
extern bool lsm_scan_visible(LsmTableScan *scan, Snapshot snapshot, uint64 row, LsmSlice value,
							 LsmRow *version, uint64 *packed);

/* Walk the TIDs low .. high from now on. */
extern void lsm_scan_set_range(LsmTableScan *scan, uint64 low, uint64 high);

extern bool lsm_scan_bitmap_next_block(TableScanDesc sscan,
									   struct TBMIterateResult *tbmres);
extern bool lsm_scan_bitmap_next_tuple(TableScanDesc sscan,
									   LSM_BITMAP_TUPLE_PARAMETERS);
extern bool lsm_scan_sample_next_block(TableScanDesc sscan,
									   struct SampleScanState *scanstate);
extern bool lsm_scan_sample_next_tuple(TableScanDesc sscan,
									   struct SampleScanState *scanstate,
									   TupleTableSlot *slot);
extern bool lsm_scan_analyze_next_block(TableScanDesc sscan,
										LSM_ANALYZE_BLOCK_PARAMETERS);
extern bool lsm_scan_analyze_next_tuple(TableScanDesc sscan,
										TransactionId OldestXmin,
										double *liverows, double *deadrows,
										TupleTableSlot *slot);

/* ---- rows by TID (fetch.c) ---- */

/*
 * The value of the row that an index scan of this backend found visible last,
 * if that is this one and it has not changed since; good until the next row is
 * found.  `digest`: of its key.
 */
extern bool lsm_fetch_last_row(LsmTree *tree, uint64 row, LsmDigest digest, LsmStamp *stamp,
							   LsmSlice *value);

/*
 * Read the version at a TID, as the row has it: the newest one of that number
 * that was not rolled back.  False: there is none, or the row is dead to all.
 * (Who made a row's only version is not asked.)
 */
extern bool lsm_fetch_row(Relation rel, LsmTree *tree, uint64 packed,
						  StringInfo value, LsmRow *version);

/*
 * Read what says whether the row is dead: see lsm_versions_vacuum_horizon().
 * False: no such row.
 */
extern bool lsm_fetch_newest(LsmTree *tree, uint64 row, StringInfo value);

/* Read all versions of the row.  False: no such row. */
extern bool lsm_fetch_versions(LsmTree *tree, uint64 row, StringInfo value);

typedef enum LsmPruned
{
	LSM_PRUNE_NOT_YET,			/* someone may still see the row */
	LSM_PRUNE_DONE,				/* no one, and the memtables have lost it */
	LSM_PRUNE_IN_FILE			/* no one, but it would have to be deleted */
} LsmPruned;

/* `value`: as lsm_fetch_newest() has it.  *deleter: unless NOT_YET. */
extern LsmPruned lsm_row_prune(Relation rel, LsmTree *tree, uint64 row, LsmSlice value,
							   TransactionId *deleter);

/* Rows that are known to be dead to everyone: see lsm_table_prune(). */
extern void lsm_table_prune_rows(Relation rel, const LsmDeadRow *dead, int n);

#ifdef USE_ASSERT_CHECKING
/* row_opinion.c */
extern void lsm_row_doubt_visible(Relation rel, const ItemPointerData *tid, Snapshot snapshot,
								  bool visible, const char *shortcut);
extern void lsm_row_doubt_dead(Relation rel, const ItemPointerData *tid, const char *shortcut);
extern void lsm_row_doubt_kept(LsmTree *tree, uint64 row, LsmDigest digest,
							   const LsmStamp *stamp, LsmSlice kept);
#endif

/*
 * The version of the row that the snapshot sees, with serializable bookkeeping;
 * *packed: its TID; *found: the row exists.  False: as
 * lsm_versions_for_snapshot().
 */
extern bool lsm_fetch_visible(Relation rel, LsmTree *tree, uint64 row,
							  Snapshot snapshot, StringInfo value, LsmRow *version,
							  uint64 *packed, bool *found);
extern void lsm_check_row_conflict_out(Relation rel, uint64 row, LsmSlice value,
									   const LsmRow *seen, bool visible, Snapshot snapshot);

extern struct IndexFetchTableData *lsm_table_fetch_begin(Relation rel);
extern void lsm_table_fetch_reset(struct IndexFetchTableData *data);
extern void lsm_table_fetch_end(struct IndexFetchTableData *data);
extern bool lsm_table_fetch_tuple(struct IndexFetchTableData *data, ItemPointer tid,
								  Snapshot snapshot, TupleTableSlot *slot,
								  bool *call_again, bool *all_dead);

/* See lsm_row_fetch_hides(). */
extern bool lsm_table_fetch_hides(struct IndexFetchTableData *data, ItemPointer tid,
								  ItemPointer ahead, Snapshot snapshot);
extern bool lsm_tuple_fetch_row_version(Relation rel, ItemPointer tid,
										Snapshot snapshot, TupleTableSlot *slot);
extern bool lsm_tuple_tid_valid(TableScanDesc sscan, ItemPointer tid);
extern void lsm_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid);
extern bool lsm_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot,
										 Snapshot snapshot);
extern TransactionId lsm_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate);

/* ---- rows that have been ended (ended_rows.c) ---- */

extern void lsm_ended_note(LsmTree *tree, uint64 row, const LsmRow *newest, Snapshot snapshot);
extern void lsm_ended_prefetch(LsmTree *tree, uint64 row);
extern bool lsm_ended_hides(Relation rel, LsmTree *tree, uint64 row, Snapshot snapshot);

/* ---- row numbers of a moved table (moved_rows.c) ---- */

/*
 * ERROR if a table that SET TABLESPACE moved in this transaction has no room
 * for n more rows.
 */
extern void lsm_relation_check_room(Relation rel, LsmTree *tree, int n);

/*
 * SET TABLESPACE: row numbers that the copy may use in this transaction, and
 * the original (`tree`, already copied) never.
 */
extern void lsm_reserve_moved_rows(Relation rel, LsmTree *tree, const RelFileLocator *copy);

/* ---- code that takes the table for heap (caller.c) ---- */

extern bool lsm_main_fork_is_read(Relation rel);
extern void lsm_refuse_pglogical(Relation rel);

/* ---- the table as a whole (relation.c, vacuum.c, rewrite.c, build.c) ---- */

extern void lsm_table_limit_horizons(Relation rel, TransactionId *OldestXmin,
									 TransactionId *FreezeLimit);
extern void lsm_relation_vacuum(Relation rel, struct VacuumParams *params,
								BufferAccessStrategy bstrategy);

extern void lsm_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator,
											 char persistence,
											 TransactionId *freezeXid,
											 MultiXactId *minmulti);
extern void lsm_relation_nontransactional_truncate(Relation rel);
extern void lsm_relation_copy_data(Relation rel, const RelFileLocator *newrlocator);

extern void lsm_relation_copy_for_cluster(Relation OldTable, Relation NewTable,
										  Relation OldIndex, bool use_sort,
										  TransactionId OldestXmin,
										  TransactionId *xid_cutoff,
										  MultiXactId *multi_cutoff,
										  double *num_tuples,
										  double *tups_vacuumed,
										  double *tups_recently_dead);
extern uint64 lsm_table_size(Relation rel, ForkNumber forkNumber);

/*
 * ANALYZE is about to choose among the blocks of a table, of whose TIDs there
 * are so many blocks: returns how many it is told of (sample.c).
 */
extern BlockNumber lsm_analyze_tell_blocks(Relation rel, BlockNumber nblocks);
extern bool lsm_relation_needs_toast_table(Relation rel);
extern Oid	lsm_relation_toast_am(Relation rel);
extern void lsm_relation_estimate_size(Relation rel, int32 *attr_widths,
									   BlockNumber *pages, double *tuples,
									   double *allvisfrac);
extern void lsm_relation_note_update(Relation rel, LsmTree *tree, uint64 packed);

extern double lsm_index_build_range_scan(Relation table_rel, Relation index_rel,
										 struct IndexInfo *index_info,
										 bool allow_sync, bool anyvisible,
										 bool progress, BlockNumber start_blockno,
										 BlockNumber numblocks,
										 IndexBuildCallback callback,
										 void *callback_state, TableScanDesc sscan);
extern void lsm_index_validate_scan(Relation table_rel, Relation index_rel,
									struct IndexInfo *index_info,
									Snapshot snapshot,
									struct ValidateIndexState *state);

/* ---- what flush and compaction ask (kind.c) ---- */

extern const LsmKindOps lsm_table_kind_ops;

#endif							/* LSM_TABLE_H */
