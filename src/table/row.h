/*-------------------------------------------------------------------------
 *
 * row.h
 *	  Values of rows: their format (row.c), and who sees them (visibility.c).
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
 *	span, kept	1 + 2		if the tag is VERSION or DELTA
 *	cmin		4			if HAS_CMIN, else 0
 *	xmax, cmax	4 + 4		if HAS_XMAX
 *	next TID	6			if HAS_NEXT: where the new version is
 *	token		4			if SPECULATIVE
 *	n, lockers	2 + n * 5	if HAS_LOCKERS: xid and LockTupleMode of each
 *	if the tag is DELTA, the difference to the version before (row_delta.c);
 *	if it is PUT or VERSION, the body:
 *	attributes	2			number of attributes, LSM_BODY_*
 *	null bitmap				if LSM_BODY_HASNULL
 *	data					as in a heap tuple, from t_hoff on
 *
 * The tuple's real xmax is only ever an updater or deleter.  Row locks live in
 * the list of lockers: there are no multixacts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TABLE_ROW_H
#define LSM_TABLE_ROW_H

#include "access/heapam.h"
#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "nodes/lockoptions.h"
#include "utils/snapmgr.h"

#include "table/row_tid.h"
#include "tree/tree.h"

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
	bool		open;			/* tag VERSION or DELTA: older versions may lie
								 * below */
	bool		delta;			/* tag DELTA: `body` is a difference, of which
								 * no tuple can be made */
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
 * Versions of a row that may still be needed have this many bytes in all, at most:
 * one value holds them (LSM_MAX_ENTRY_BYTES).
 */
#define LSM_VERSIONS_MAX_BYTES	(20 * 1024)

/*
 * A row has at most about this many values that a reader passes over until a flush:
 * versions that came to nothing, and overrides.
 */
#define LSM_ROW_VALUES_MAX		32

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

/*
 * The same up to cmin: flags, xmin, version and cmin are set, and not looked at
 * is what follows.
 */
extern const char *lsm_row_parse_maker(LsmSlice value, LsmRow *row);

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

/* ---- differences between versions (row_delta.c) ---- */

/* `body` of a row that is a DELTA */
typedef struct LsmDelta
{
	uint32		prefix;			/* how many bytes of the base's body, ... */
	LsmSlice	middle;			/* ... then these, ... */
	uint32		suffix;			/* ... then the last ones of the base's body */
	uint16		check;			/* of the body that comes of it */
} LsmDelta;

/* `delta` may be NULL.  False: malformed (row.c). */
extern bool lsm_delta_parse(const LsmRow *row, LsmDelta *delta);

/*
 * Append the new version, a value tagged VERSION that ends with `body`, as a DELTA
 * to the version that it replaces.  False: it is better written whole.
 */
extern bool lsm_delta_encode(StringInfo out, const LsmRow *new, LsmSlice body,
							 const LsmRow *base);

/* See LsmKindOps. */
extern LsmRestored lsm_delta_restore(LsmSlice delta, LsmSlice older, StringInfo out);

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

/*
 * Is it a version of which there is nothing to say but who made it: without xmax
 * and locks?  Then decode it; false for others, malformed ones too.
 */
extern bool lsm_row_parse_plain(LsmSlice value, LsmRow *row);

/* Where in the value the row's data begin */
extern uint32 lsm_row_data_offset(const char *value, const LsmRow *row);

/* Free bytes that lsm_row_form_in_place() needs before a value */
#define LSM_ROW_HEADROOM	56
extern HeapTuple lsm_row_form_in_place(char *value, uint32 value_bytes, const LsmRow *row,
									   uint64 packed, Oid relid);

/* The header of a tuple made by lsm_row_form_tuple (lockers are lost). */
extern void lsm_row_from_tuple(HeapTuple tuple, LsmRow *row);

/* Where xmin stands in a value, and the version's number behind it */
#define LSM_ROW_XMIN_OFFSET		3
#define LSM_ROW_VERSION_OFFSET	7

/*
 * A plain row of which a tuple was made in place.  Rows whose values begin with
 * the same bytes, up to the data, get the same header, and the snapshot sees them,
 * too.
 */
typedef struct LsmRowModel
{
	uint32		least_bytes;	/* a value's; PG_UINT32_MAX: there is no model */
	uint32		data_offset;	/* where data begin */
	uint64		start[2];		/* the bytes before */
	uint64		mask[2];		/* ones for these bytes */
	bool		own;			/* the mask leaves out what each row has its own
								 * of: xmin, if all are frozen or precede ... */
	TransactionId before;		/* ... this one, if it is valid, or ... */
	bool		own_version;	/* ... the version's number, span and kept */
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

#endif							/* LSM_TABLE_ROW_H */
