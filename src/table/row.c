/*-------------------------------------------------------------------------
 *
 * row.c
 *	  The format of a row version's value (see row.h), and heap tuples from
 *	  it.
 *
 * Locks: none.  The parser never reads outside of the value, whatever its
 * bytes: values come from disk.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "storage/itemptr.h"
#include "utils/memutils.h"

#include "table/table.h"

/*
 * Take n bytes from the front of [*p, end) into `to`; false if they are not
 * there.
 */
static inline bool
take(const char **p, const char *end, void *to, size_t n)
{
	if ((size_t) (end - *p) < n)
		return false;
	memcpy(to, *p, n);
	*p += n;
	return true;
}

static inline const char *
parse_xmin(const char **p, const char *end, LsmRow *row)
{
	uint16		which = row->flags & (LSM_ROW_XMIN_FROZEN | LSM_ROW_XMIN_KEPT | LSM_ROW_KILLED);
	TransactionId xid;

	if (unlikely((which & LSM_ROW_XMIN_KEPT) &&
				 which != (LSM_ROW_XMIN_FROZEN | LSM_ROW_XMIN_KEPT)))
		return "header keeps the xmin of a row that is not frozen";
	if (which & LSM_ROW_KILLED)
		return NULL;
	row->xmin = FrozenTransactionId;
	if (which == LSM_ROW_XMIN_FROZEN)
		return NULL;
	if (!take(p, end, &xid, sizeof(xid)))
		return "xmin is cut off";
	if (!TransactionIdIsNormal(xid))
		return "xmin is not a normal transaction id";
	if (which & LSM_ROW_XMIN_KEPT)
		row->frozen_xmin = xid;
	else
		row->xmin = xid;
	return NULL;
}

/* A first version has no number, unless others are said to lie below (salvage). */
static inline const char *
parse_version(const char **p, const char *end, LsmRow *row)
{
	if (!take(p, end, &row->version, sizeof(row->version)))
		return "version is cut off";
	if (row->version == 0 && !row->open)
		return "version is 0";
	if (row->open &&
		(!take(p, end, &row->span, sizeof(row->span)) ||
		 !take(p, end, &row->kept, sizeof(row->kept))))
		return "what is kept of older versions is cut off";
	return NULL;
}

static const char *
parse_lockers(const char **p, const char *end, LsmRow *row)
{
	uint16		n;
	int			i;

	if (!take(p, end, &n, sizeof(n)))
		return "list of row locks is cut off";
	if (n == 0 || n > LSM_MAX_LOCKERS)
		return "list of row locks has an impossible length";
	if ((size_t) (end - *p) < (size_t) n * LSM_LOCKER_BYTES)
		return "list of row locks is cut off";
	row->nlockers = n;
	row->lockers = *p;
	*p += n * LSM_LOCKER_BYTES;
	for (i = 0; i < n; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(row, i, &xid, &mode);
		if (!TransactionIdIsNormal(xid) ||
			(unsigned) mode > (unsigned) LockTupleExclusive)
			return "row lock is malformed";
	}
	return NULL;
}

bool
lsm_delta_parse(const LsmRow *row, LsmDelta *delta)
{
	const char *end = row->body + row->body_bytes;
	const char *p = row->body;
	uint64		prefix;
	uint64		suffix;

	if ((p = lsm_varint_get(p, end, &prefix)) == NULL ||
		(p = lsm_varint_get(p, end, &suffix)) == NULL ||
		end - p < sizeof(uint16) ||
		prefix > LSM_MAX_ENTRY_BYTES || suffix > LSM_MAX_ENTRY_BYTES)
		return false;
	if (delta != NULL)
	{
		delta->prefix = (uint32) prefix;
		delta->suffix = (uint32) suffix;
		memcpy(&delta->check, p, sizeof(uint16));
		p += sizeof(uint16);
		delta->middle = lsm_slice(p, (uint32) (end - p));
	}
	return true;
}

static const char *
parse_delta(const char *p, const char *end, LsmRow *row)
{
	row->body = p;
	row->body_bytes = end - p;
	return lsm_delta_parse(row, NULL) ? NULL : "difference to the version before is malformed";
}

static const char *
parse_body(const char *p, const char *end, LsmRow *row)
{
	uint16		attributes;
	size_t		bytes = sizeof(attributes);

	row->body = p;
	row->body_bytes = end - p;
	if ((size_t) (end - p) < bytes)
		return "row is cut off";
	memcpy(&attributes, p, sizeof(attributes));
	if ((attributes & LSM_BODY_NATTS_MASK) > MaxHeapAttributeNumber)
		return "row has too many attributes";
	if (attributes & LSM_BODY_HASNULL)
		bytes += BITMAPLEN(attributes & LSM_BODY_NATTS_MASK);
	if ((size_t) (end - p) < bytes)
		return "null bitmap is cut off";
	return NULL;
}

/*
 * What a value begins with: which version it is, and who has made it.  *p: what
 * comes behind.
 */
static pg_attribute_always_inline const char *
parse_maker(const char **p, const char *end, LsmRow *row)
{
	uint8		tag;
	const char *problem;

	memset(row, 0, sizeof(LsmRow));
	if (!take(p, end, &tag, 1) || !take(p, end, &row->flags, sizeof(row->flags)))
		return "value is shorter than its header";
	if (tag != LSM_TAG_PUT)
	{
		if (tag != LSM_TAG_PARTIAL && tag != LSM_TAG_VERSION && tag != LSM_TAG_DELTA)
			return "value has an unknown tag";
		row->partial = (tag == LSM_TAG_PARTIAL);
		row->delta = (tag == LSM_TAG_DELTA);
		row->open = !row->partial;
		if (row->open && !(row->flags & LSM_ROW_VERSION))
			return "version has no number";
	}
	if (row->flags & ~LSM_ROW_FLAGS)
		return "header has unknown flags";
	if (!(row->flags & LSM_ROW_HAS_XMAX) && (row->flags & LSM_ROW_XMAX_FLAGS) != 0)
		return "header describes a missing xmax";

	problem = parse_xmin(p, end, row);
	if (problem)
		return problem;
	if (unlikely(row->flags & LSM_ROW_VERSION))
	{
		problem = parse_version(p, end, row);
		if (problem)
			return problem;
	}
	if ((row->flags & LSM_ROW_HAS_CMIN) &&
		!take(p, end, &row->cmin, sizeof(row->cmin)))
		return "cmin is cut off";
	return NULL;
}

const char *
lsm_row_parse_maker(LsmSlice value, LsmRow *row)
{
	const char *p = value.data;

	return parse_maker(&p, value.data + value.len, row);
}

/*
 * lsm_row_parse - decode a value.
 *
 * Returns NULL, or a constant text saying what is wrong.  Contradicting flags
 * are errors too, so that the rest of the room can rely on them.
 */
const char *
lsm_row_parse(LsmSlice value, LsmRow *row)
{
	const char *p = value.data;
	const char *end = value.data + value.len;
	const char *problem = parse_maker(&p, end, row);

	if (problem)
		return problem;
	if (row->flags & LSM_ROW_HAS_XMAX)
	{
		if (!take(&p, end, &row->xmax, sizeof(row->xmax)) ||
			!take(&p, end, &row->cmax, sizeof(row->cmax)))
			return "xmax is cut off";
		if (!TransactionIdIsNormal(row->xmax))
			return "xmax is not a normal transaction id";
	}
	ItemPointerSetInvalid(&row->next);
	if (row->flags & LSM_ROW_HAS_NEXT)
	{
		char		key[LSM_TID_BYTES];

		if (!take(&p, end, key, sizeof(key)))
			return "next TID is cut off";
		lsm_tid_unpack(lsm_key_decode(key), &row->next);
	}
	if ((row->flags & LSM_ROW_SPECULATIVE) &&
		!take(&p, end, &row->token, sizeof(row->token)))
		return "speculative token is cut off";
	if (row->flags & LSM_ROW_HAS_LOCKERS)
	{
		problem = parse_lockers(&p, end, row);
		if (problem)
			return problem;
	}

	if (row->partial)
		return p == end ? NULL : "override is longer than its header";
	if (unlikely(row->delta))
		return parse_delta(p, end, row);
	return parse_body(p, end, row);
}

const char *
lsm_body_parse(LsmSlice body, LsmRow *row)
{
	memset(row, 0, sizeof(LsmRow));
	return parse_body(body.data, body.data + body.len, row);
}

void
lsm_row_decode(Relation rel, uint64 packed, LsmSlice value, LsmRow *row)
{
	const char *problem = lsm_row_parse(value, row);

	if (likely(problem == NULL))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("row (%u,%u) of table \"%s\" is corrupt: %s",
					(BlockNumber) (packed >> 16), (OffsetNumber) packed,
					RelationGetRelationName(rel), problem),
			 errhint("Run lsm_verify() on the table.")));
}

static inline char *
put(char *p, const void *from, size_t n)
{
	memcpy(p, from, n);
	return p + n;
}

/* Returns the end.  REQUIRES: LSM_ROW_HEADER_BYTES() of room. */
static char *
encode_header(char *p, const LsmRow *row, bool body)
{
	uint8		tag = !body ? LSM_TAG_PARTIAL : !row->open ? LSM_TAG_PUT :
		row->delta ? LSM_TAG_DELTA : LSM_TAG_VERSION;
	uint16		flags = row->flags;

	/* the flags that say what is stored are ours to set */
	flags &= ~(LSM_ROW_HAS_CMIN | LSM_ROW_HAS_LOCKERS | LSM_ROW_XMIN_KEPT | LSM_ROW_VERSION);
	if (row->version != 0 || tag >= LSM_TAG_VERSION)
		flags |= LSM_ROW_VERSION;
	if ((flags & (LSM_ROW_XMIN_FROZEN | LSM_ROW_KILLED)) == LSM_ROW_XMIN_FROZEN &&
		TransactionIdIsValid(row->frozen_xmin))
		flags |= LSM_ROW_XMIN_KEPT;
	if (row->cmin != 0)
		flags |= LSM_ROW_HAS_CMIN;
	if (row->nlockers > 0)
		flags |= LSM_ROW_HAS_LOCKERS;
	Assert((flags & LSM_ROW_HAS_XMAX) || (flags & LSM_ROW_XMAX_FLAGS) == 0);
	Assert(!body || row->open || !row->delta);

	*p++ = (char) tag;
	p = put(p, &flags, sizeof(flags));
	if ((flags & LSM_ROW_XMIN_KEPT) || !(flags & (LSM_ROW_XMIN_FROZEN | LSM_ROW_KILLED)))
	{
		TransactionId xmin = lsm_row_shown_xmin(row);

		Assert(TransactionIdIsNormal(xmin));
		p = put(p, &xmin, sizeof(xmin));
	}
	if (flags & LSM_ROW_VERSION)
		p = put(p, &row->version, sizeof(row->version));
	if (tag >= LSM_TAG_VERSION)
	{
		p = put(p, &row->span, sizeof(row->span));
		p = put(p, &row->kept, sizeof(row->kept));
	}
	if (flags & LSM_ROW_HAS_CMIN)
		p = put(p, &row->cmin, sizeof(row->cmin));
	if (flags & LSM_ROW_HAS_XMAX)
	{
		Assert(TransactionIdIsNormal(row->xmax));
		p = put(p, &row->xmax, sizeof(row->xmax));
		p = put(p, &row->cmax, sizeof(row->cmax));
	}
	if (flags & LSM_ROW_HAS_NEXT)
	{
		lsm_key_encode(lsm_tid_pack(&row->next), p);
		p += LSM_TID_BYTES;
	}
	if (flags & LSM_ROW_SPECULATIVE)
		p = put(p, &row->token, sizeof(row->token));
	if (flags & LSM_ROW_HAS_LOCKERS)
	{
		uint16		n = row->nlockers;

		Assert(row->nlockers <= LSM_MAX_LOCKERS);
		p = put(p, &n, sizeof(n));
		p = put(p, row->lockers, n * LSM_LOCKER_BYTES);
	}
	return p;
}

/* The buffer ends where the writer has stopped. */
static inline void
encode_end(StringInfo out, char *end)
{
	out->len = end - out->data;
	Assert(out->len < out->maxlen);
	*end = '\0';
}

void
lsm_row_encode(StringInfo out, const LsmRow *row, bool body)
{
	char	   *p;

	enlargeStringInfo(out, LSM_ROW_HEADER_BYTES(row->nlockers) + (body ? row->body_bytes : 0));
	p = encode_header(out->data + out->len, row, body);
	if (body)
		p = put(p, row->body, row->body_bytes);
	encode_end(out, p);
}

void
lsm_header_value_init(LsmHeaderValue *value, const LsmRow *header)
{
	int			bytes = LSM_ROW_HEADER_BYTES(header->nlockers) + 1;

	value->buf.data = header->nlockers == 0 ? value->bytes : palloc(bytes);
	value->buf.maxlen = bytes;
	resetStringInfo(&value->buf);
	lsm_row_encode(&value->buf, header, false);
}

void
lsm_header_value_free(LsmHeaderValue *value)
{
	if (value->buf.data != value->bytes)
		pfree(value->buf.data);
}

/* Bytes of the tuple's body in our format */
uint32
lsm_tuple_body_bytes(HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;
	uint32		bytes = sizeof(uint16) + (tuple->t_len - header->t_hoff);

	if (header->t_infomask & HEAP_HASNULL)
		bytes += BITMAPLEN(HeapTupleHeaderGetNatts(header));
	return bytes;
}

void
lsm_row_check_size(HeapTuple tuple)
{
	uint32		bytes = lsm_tuple_body_bytes(tuple);

	if (bytes > LSM_ROW_BODY_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						(Size) bytes, (Size) LSM_ROW_BODY_MAX_BYTES),
				 errhint("Use fewer or narrower columns, or types whose values can be stored out of line.")));
}

/*
 * The data is copied as it lies in the tuple, from t_hoff on: t_hoff is
 * MAXALIGNed, so the same bytes are good behind any other MAXALIGNed offset.
 * Returns the end.
 */
static inline char *
encode_body(char *p, HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;
	uint16		attributes = HeapTupleHeaderGetNatts(header);

	Assert(attributes <= LSM_BODY_NATTS_MASK);
	if (header->t_infomask & HEAP_HASNULL)
		attributes |= LSM_BODY_HASNULL;
	if (header->t_infomask & HEAP_HASVARWIDTH)
		attributes |= LSM_BODY_HASVARWIDTH;
	if (header->t_infomask & HEAP_HASEXTERNAL)
		attributes |= LSM_BODY_HASEXTERNAL;
	p = put(p, &attributes, sizeof(attributes));
	if (attributes & LSM_BODY_HASNULL)
		p = put(p, header->t_bits, BITMAPLEN(attributes & LSM_BODY_NATTS_MASK));
	return put(p, (char *) header + header->t_hoff, tuple->t_len - header->t_hoff);
}

/* lsm_row_encode_tuple - append a complete value. */
void
lsm_row_encode_tuple(StringInfo out, const LsmRow *row, HeapTuple tuple)
{
	char	   *p;

	enlargeStringInfo(out, LSM_ROW_HEADER_BYTES(row->nlockers) + lsm_tuple_body_bytes(tuple));
	p = encode_header(out->data + out->len, row, true);
	encode_end(out, encode_body(p, tuple));
}

void
lsm_row_value_init(StringInfo value, const LsmRow *row, HeapTuple tuple)
{
	lsm_buffer_init(value, LSM_ROW_HEADER_BYTES(row->nlockers) + lsm_tuple_body_bytes(tuple) + 1);
	lsm_row_encode_tuple(value, row, tuple);
}

void
lsm_body_encode_tuple(StringInfo out, HeapTuple tuple)
{
	enlargeStringInfo(out, lsm_tuple_body_bytes(tuple));
	encode_end(out, encode_body(out->data + out->len, tuple));
}

void
lsm_row_label_tuple(const LsmRow *row, HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;
	uint16		infomask = header->t_infomask & ~HEAP_XACT_MASK;
	uint16		infomask2 = header->t_infomask2 & ~HEAP2_XACT_MASK;
	CommandId	cid = row->cmin;

	HeapTupleHeaderSetXmin(header, lsm_row_shown_xmin(row));
	if (row->flags & LSM_ROW_XMIN_FROZEN)
		infomask |= HEAP_XMIN_FROZEN;
	else if (row->flags & LSM_ROW_KILLED)
		infomask |= HEAP_XMIN_INVALID;
	else if (row->flags & LSM_ROW_XMIN_COMMITTED)
		infomask |= HEAP_XMIN_COMMITTED;
	if (row->flags & LSM_ROW_UPDATED)
		infomask |= HEAP_UPDATED;

	header->t_ctid = tuple->t_self;
	if (row->flags & LSM_ROW_HAS_XMAX)
	{
		HeapTupleHeaderSetXmax(header, row->xmax);
		cid = row->cmax;
		if (row->flags & LSM_ROW_XMAX_COMMITTED)
			infomask |= HEAP_XMAX_COMMITTED;
		if (row->flags & LSM_ROW_KEYS_UPDATED)
			infomask2 |= HEAP_KEYS_UPDATED;
		if (row->flags & LSM_ROW_HAS_NEXT)
			header->t_ctid = row->next;
		else if (row->flags & LSM_ROW_MOVED)
			ItemPointerSetMovedPartitions(&header->t_ctid);
	}
	else if (row->nlockers > 0)
	{
		TransactionId xid;
		LockTupleMode mode;

		/* one of them must do: there is no multixact to show */
		lsm_row_locker(row, row->nlockers - 1, &xid, &mode);
		HeapTupleHeaderSetXmax(header, xid);
		infomask |= HEAP_XMAX_LOCK_ONLY;
		if (mode == LockTupleKeyShare)
			infomask |= HEAP_XMAX_KEYSHR_LOCK;
		else if (mode == LockTupleShare)
			infomask |= HEAP_XMAX_SHR_LOCK;
		else
			infomask |= HEAP_XMAX_EXCL_LOCK;
		if (mode == LockTupleExclusive)
			infomask2 |= HEAP_KEYS_UPDATED;
	}
	else
	{
		HeapTupleHeaderSetXmax(header, InvalidTransactionId);
		infomask |= HEAP_XMAX_INVALID;
	}
	header->t_choice.t_heap.t_field3.t_cid = cid;
	header->t_infomask = infomask;
	header->t_infomask2 = infomask2;
}

/* Bytes of the row's null bitmap, and its attribute word */
static inline uint32
body_bitmap_bytes(const LsmRow *row, uint16 *attributes)
{
	memcpy(attributes, row->body, sizeof(*attributes));
	return (*attributes & LSM_BODY_HASNULL) ? BITMAPLEN(*attributes & LSM_BODY_NATTS_MASK) : 0;
}

uint32
lsm_row_data_offset(const char *value, const LsmRow *row)
{
	uint16		attributes;
	uint32		bitmap_bytes = body_bitmap_bytes(row, &attributes);

	return row->body - value + sizeof(attributes) + bitmap_bytes;
}

uint32
lsm_body_tuple_bytes(const LsmRow *row)
{
	uint16		attributes;
	uint32		bitmap_bytes = body_bitmap_bytes(row, &attributes);

	return MAXALIGN(SizeofHeapTupleHeader + bitmap_bytes) +
		row->body_bytes - sizeof(attributes) - bitmap_bytes;
}

/* A tuple's header of this many bytes, but for the null bitmap, which stays. */
static inline void
fill_header(HeapTupleHeader header, uint16 attributes, uint32 bitmap_bytes, uint32 hoff)
{
	if (likely(bitmap_bytes == 0))
		memset(header, 0, MAXALIGN(SizeofHeapTupleHeader));
	else
	{
		memset(header, 0, SizeofHeapTupleHeader);
		memset(header->t_bits + bitmap_bytes, 0, hoff - SizeofHeapTupleHeader - bitmap_bytes);
	}
	header->t_hoff = hoff;
	HeapTupleHeaderSetNatts(header, attributes & LSM_BODY_NATTS_MASK);
	header->t_infomask = ((attributes & LSM_BODY_HASNULL) ? HEAP_HASNULL : 0) |
		((attributes & LSM_BODY_HASVARWIDTH) ? HEAP_HASVARWIDTH : 0) |
		((attributes & LSM_BODY_HASEXTERNAL) ? HEAP_HASEXTERNAL : 0);
}

void
lsm_body_fill_tuple(const LsmRow *row, HeapTuple tuple)
{
	uint16		attributes;
	uint32		bitmap_bytes = body_bitmap_bytes(row, &attributes);
	uint32		data_bytes = row->body_bytes - sizeof(attributes) - bitmap_bytes;
	uint32		hoff = MAXALIGN(SizeofHeapTupleHeader + bitmap_bytes);
	HeapTupleHeader header = tuple->t_data;

	tuple->t_len = hoff + data_bytes;
	fill_header(header, attributes, bitmap_bytes, hoff);
	if (bitmap_bytes > 0)
		memcpy(header->t_bits, row->body + sizeof(attributes), bitmap_bytes);
	memcpy((char *) header + hoff, row->body + sizeof(attributes) + bitmap_bytes,
		   data_bytes);
}

/*
 * lsm_row_form_tuple - the row as a heap tuple, in one chunk of the current
 * memory context, so that heap_freetuple() frees it.
 */
HeapTuple
lsm_row_form_tuple(const LsmRow *row, uint64 packed, Oid relid)
{
	HeapTuple	tuple;

	Assert(!row->partial);
	tuple = (HeapTuple) palloc(HEAPTUPLESIZE + lsm_body_tuple_bytes(row));
	lsm_tid_unpack(packed, &tuple->t_self);
	tuple->t_tableOid = relid;
	tuple->t_data = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);
	lsm_body_fill_tuple(row, tuple);
	lsm_row_label_tuple(row, tuple);
	return tuple;
}

/* See row.h. */
bool
lsm_row_parse_plain(LsmSlice value, LsmRow *row)
{
	const uint16 plain = LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN | LSM_ROW_XMIN_KEPT |
		LSM_ROW_UPDATED | LSM_ROW_VERSION | LSM_ROW_STRONG | LSM_ROW_HAS_CMIN;
	const char *p = value.data;
	const char *end = value.data + value.len;

	return parse_maker(&p, end, row) == NULL && !row->partial && !row->delta &&
		!(row->flags & ~plain) && parse_body(p, end, row) == NULL;
}

/*
 * lsm_row_form_in_place - a plain row as a heap tuple, in the memory of its value
 * and the LSM_ROW_HEADROOM bytes before it.
 *
 * The row's data stay where they are if they lie MAXALIGNed, else they go to where
 * it is, before that.
 */
HeapTuple
lsm_row_form_in_place(char *value, uint32 value_bytes, const LsmRow *row, uint64 packed,
					  Oid relid)
{
	uint16		attributes;
	uint32		bitmap_bytes;
	uint32		hoff;
	char	   *data;
	char	   *to;
	HeapTuple	tuple;
	HeapTupleHeader header;

	bitmap_bytes = body_bitmap_bytes(row, &attributes);
	data = value + lsm_row_data_offset(value, row);
	to = (char *) TYPEALIGN_DOWN(MAXIMUM_ALIGNOF, data);

	hoff = MAXALIGN(SizeofHeapTupleHeader + bitmap_bytes);
	header = (HeapTupleHeader) (to - hoff);
	tuple = (HeapTuple) ((char *) header - HEAPTUPLESIZE);
	Assert((char *) tuple >= value - LSM_ROW_HEADROOM);
	memmove(header->t_bits, data - bitmap_bytes, bitmap_bytes);
	fill_header(header, attributes, bitmap_bytes, hoff);
	if (unlikely(to != data))
		memmove(to, data, value + value_bytes - data);
	tuple->t_len = hoff + (value + value_bytes - data);
	lsm_tid_unpack(packed, &tuple->t_self);
	tuple->t_tableOid = relid;
	tuple->t_data = header;
	lsm_row_label_tuple(row, tuple);
	return tuple;
}

/*
 * lsm_row_store - put the row into a slot, which owns the copy.
 *
 * Owning it costs one allocation per row, and in exchange a slot stays good
 * while the scan that filled it moves on.
 */
void
lsm_row_store(Relation rel, const LsmRow *row, uint64 packed, TupleTableSlot *slot)
{
	HeapTuple	tuple;
	MemoryContext old;

	/* give the memory of the last row back first: it is used again at once */
	ExecClearTuple(slot);
	old = MemoryContextSwitchTo(slot->tts_mcxt);
	tuple = lsm_row_form_tuple(row, packed, RelationGetRelid(rel));
	MemoryContextSwitchTo(old);

	if (likely(TTS_IS_HEAPTUPLE(slot)))
		ExecStoreHeapTuple(tuple, slot, true);
	else
		ExecForceStoreHeapTuple(tuple, slot, true); /* frees the tuple */
	lsm_tid_unpack(packed, &slot->tts_tid);
	slot->tts_tableOid = RelationGetRelid(rel);
}

/*
 * lsm_row_from_tuple - the header that lsm_row_label_tuple() wrote.
 *
 * The heap format has one command id: it is cmax if there is an xmax.  Callers
 * must not need the other one.
 */
void
lsm_row_from_tuple(HeapTuple tuple, LsmRow *row)
{
	HeapTupleHeader header = tuple->t_data;
	CommandId	cid = HeapTupleHeaderGetRawCommandId(header);

	memset(row, 0, sizeof(LsmRow));
	row->xmin = HeapTupleHeaderGetXmin(header);
	if (HeapTupleHeaderXminFrozen(header))
	{
		row->flags |= LSM_ROW_XMIN_FROZEN;
		if (TransactionIdIsNormal(HeapTupleHeaderGetRawXmin(header)))
			row->frozen_xmin = HeapTupleHeaderGetRawXmin(header);
	}
	else if (!TransactionIdIsValid(row->xmin))
		row->flags |= LSM_ROW_KILLED;
	else if (HeapTupleHeaderXminCommitted(header))
		row->flags |= LSM_ROW_XMIN_COMMITTED;
	if (header->t_infomask & HEAP_UPDATED)
		row->flags |= LSM_ROW_UPDATED;

	ItemPointerSetInvalid(&row->next);
	if ((header->t_infomask & HEAP_XMAX_INVALID) ||
		HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
	{
		row->cmin = cid;
		return;
	}
	row->flags |= LSM_ROW_HAS_XMAX;
	row->xmax = HeapTupleHeaderGetRawXmax(header);
	row->cmax = cid;
	if (header->t_infomask & HEAP_XMAX_COMMITTED)
		row->flags |= LSM_ROW_XMAX_COMMITTED;
	if (header->t_infomask2 & HEAP_KEYS_UPDATED)
		row->flags |= LSM_ROW_KEYS_UPDATED;
	if (HeapTupleHeaderIndicatesMovedPartitions(header))
		row->flags |= LSM_ROW_MOVED;
	else if (!ItemPointerEquals(&header->t_ctid, &tuple->t_self))
	{
		row->flags |= LSM_ROW_HAS_NEXT;
		row->next = header->t_ctid;
	}
}
