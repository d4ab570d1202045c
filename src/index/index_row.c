/*-------------------------------------------------------------------------
 *
 * index_row.c
 *	  The rows of index columns that index-only scans return.
 *
 * A row is mostly written straight over the last one, from the parts of the
 * entry; or its values go to the executor's slot, and what they point to is
 * written there.  Rows with NULLs, and columns of other kinds, are decoded to
 * values first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "utils/memutils.h"

#include "index/integer_codes.h"
#include "index/scan.h"

#define ROW_HEADER	MAXALIGN(SizeofHeapTupleHeader)

typedef enum PartKind
{
	PART_UINT32,				/* passed by value, the code is big-endian */
	PART_UINT64,
	PART_BY_VALUE,				/* others that are */
	PART_AS_IT_IS,				/* the code is the value */
	PART_STRING,				/* of bytes */
	PART_WEIGHTED_STRING		/* behind weights */
} PartKind;

/* A column of the row */
typedef struct Part
{
	PartKind	kind;			/* of key columns */
	int			bytes;			/* -1: a varlena */
	bool		by_value;
	Size		align;			/* less one */
	uint64		flip;			/* bits of an integer's code that differ from
								 * those of the value */
} Part;

struct LsmRowForm
{
	HeapTupleData tuple;
	Size		room;			/* behind the header */
	Part		parts[INDEX_MAX_KEYS];
};

static inline Size
align_part(Size offset, const Part *part)
{
	return (offset + part->align) & ~part->align;
}

/*
 * A string that stands in the code as it is: what follows it; NULL: it has to
 * be decoded.
 */
static inline const char *
plain_string(const char *at, const char *end, bool weighted, LsmSlice *string)
{
	const char *escape;

	if (end - at > LSM_CODE_PLAIN_BYTES)
		end = at + LSM_CODE_PLAIN_BYTES;
	while (weighted)
	{
		escape = memchr(at, LSM_STRING_ESCAPE, end - at);
		if (escape == NULL || end - escape < 2)
			return NULL;
		at = escape + 2;
		weighted = escape[1] != LSM_STRING_END;
	}
	escape = memchr(at, LSM_STRING_ESCAPE, end - at);
	if (escape == NULL || end - escape < 2 || escape[1] != LSM_STRING_END)
		return NULL;
	*string = lsm_slice(at, escape - at);
	return escape + 2;
}

/* What a scan of padding expects before a long header */
static inline Size
pad_varlena(char *data, Size offset)
{
	Size		aligned = INTALIGN(offset);

	memset(data + offset, 0, aligned - offset);
	return aligned;
}

/* As heap_fill_tuple() would; returns where the string ends. */
static inline Size
put_string(char *data, Size offset, LsmSlice string, Datum *value)
{
	if (string.len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		SET_VARSIZE_SHORT(data + offset, string.len + VARHDRSZ_SHORT);
		if (value != NULL)
			*value = PointerGetDatum(data + offset);
		offset += VARHDRSZ_SHORT;
	}
	else
	{
		offset = pad_varlena(data, offset);
		SET_VARSIZE(data + offset, string.len + VARHDRSZ);
		if (value != NULL)
			*value = PointerGetDatum(data + offset);
		offset += VARHDRSZ;
	}
	memcpy(data + offset, string.data, string.len);
	return offset + string.len;
}

/*
 * The INCLUDE columns, as they are stored: in the layout of a row's, but not
 * behind the same columns.  0: there is a NULL.
 */
static inline Size
put_included(const LsmKeySpec *spec, const LsmRowForm *row, char *data, Size offset,
			 LsmSlice value, Datum *values)
{
	const char *from = value.data + 2;
	Size		bytes = value.len - 2;
	Size		at = 0;

	if (value.len < 2)
		lsm_code_corrupt();
	if (value.data[1] != 0)
		return 0;
	for (int i = 0; i < spec->nincluded; i++)
	{
		const Part *part = &row->parts[spec->nkeys + i];
		Size		len = part->bytes;
		varattrib_4b header;

		if (part->bytes > 0)
		{
			at = align_part(at, part);
			offset = align_part(offset, part);
		}
		else
		{
			if (at < bytes && from[at] == 0)
				at = align_part(at, part);
			if (at >= bytes)
				lsm_code_corrupt();
			if (VARATT_IS_1B(from + at))
				len = VARSIZE_1B(from + at);
			else
			{
				if (bytes - at < VARHDRSZ)
					lsm_code_corrupt();
				memcpy(&header, from + at, VARHDRSZ);
				len = VARSIZE_4B(&header);
				memset(data + offset, 0, part->align);
				offset = align_part(offset, part);
			}
		}
		if (len > bytes || at > bytes - len)
			lsm_code_corrupt();
		memcpy(data + offset, from + at, len);
		if (values != NULL)
			values[i] = fetch_att(data + offset, part->by_value, part->bytes);
		offset += len;
		at += len;
	}
	return offset;
}

/* Room for a row of such an entry */
static inline void
reserve_row(LsmScan *so, Size entry_bytes)
{
	LsmRowForm *row = so->row_form;
	Size		bytes = entry_bytes + 2 * MAXIMUM_ALIGNOF * INDEX_MAX_KEYS;

	if (likely(bytes <= row->room))
		return;
	row->room = Max(bytes, row->room * 2);
	row->tuple.t_data = repalloc(row->tuple.t_data, ROW_HEADER + row->room);
}

/*
 * A key column at `at`: what follows it in the key; NULL: it is NULL, or has to
 * be decoded.  Its value, if that is asked for, need not be in the row.
 */
static pg_attribute_always_inline const char *
put_key_part(const LsmColumnSpec *column, const Part *part, const char *at, const char *end,
			 char *data, Size *offset, Datum *value)
{
	const uint8 *code = (const uint8 *) at + 1;
	LsmSlice	string;
	LsmSlice	whole;
	Datum		decoded;
	bool		isnull;

	if (unlikely(end - at < 2 || *at != LSM_CODE_NOT_NULL))
		return NULL;
	if (part->kind == PART_STRING || part->kind == PART_WEIGHTED_STRING)
	{
		at = plain_string(at + 1, end, part->kind == PART_WEIGHTED_STRING, &string);
		if (at != NULL)
			*offset = put_string(data, *offset, string, value);
		return at;
	}
	if (unlikely(part->kind != PART_BY_VALUE && end - at <= part->bytes))
		lsm_code_corrupt();
	*offset = align_part(*offset, part);
	data += *offset;
	*offset += part->bytes;
	switch (part->kind)
	{
		case PART_UINT32:
			{
				uint32		n = get_uint32(code) ^ (uint32) part->flip;

				if (value != NULL)
					*value = Int32GetDatum((int32) n);	/* as fetch_att() does */
				else
					memcpy(data, &n, sizeof(n));
				break;
			}
		case PART_UINT64:
			{
				uint64		n = get_uint64(code) ^ part->flip;

				if (value != NULL)
					*value = UInt64GetDatum(n);
				else
					memcpy(data, &n, sizeof(n));
				break;
			}
		case PART_AS_IT_IS:
			memcpy(data, code, part->bytes);
			if (value != NULL)
				*value = PointerGetDatum(data);
			break;
		default:
			whole = lsm_slice(at, end - at);
			whole.len = lsm_code_length(column, whole);
			decoded = lsm_decode_column(column, whole, &isnull);
			if (value != NULL)
				*value = decoded;
			else
				store_att_byval(data, decoded, part->bytes);
			return at + whole.len;
	}
	return at + 1 + part->bytes;
}

/*
 * The columns go into the room behind the row's header; or, as values, to
 * `values`, which may point there.  Where they end goes to *end_offset.  False:
 * something has to be decoded.
 */
static pg_attribute_always_inline bool
write_columns(LsmScan *so, LsmSlice key, LsmSlice value, Datum *values, Size *end_offset)
{
	const LsmRowForm *row = so->row_form;
	const LsmKeySpec *spec = so->spec;
	LsmSlice	columns = lsm_key_columns(key);
	const char *at = columns.data;
	const char *end = columns.data + columns.len;
	char	   *data;
	Size		offset = 0;

	reserve_row(so, (Size) key.len + value.len);
	data = (char *) row->tuple.t_data + ROW_HEADER;
	for (int i = 0; i < spec->nkeys; i++)
	{
		at = put_key_part(&spec->columns[i], &row->parts[i], at, end, data, &offset,
						  values == NULL ? NULL : &values[i]);
		if (unlikely(at == NULL))
			return false;
	}
	if (spec->nincluded > 0)
	{
		offset = put_included(spec, row, data, offset, value,
							  values == NULL ? NULL : values + spec->nkeys);
		if (offset == 0)
			return false;
	}
	*end_offset = offset;
	return true;
}

bool
lsm_form_values(LsmScan *so, LsmSlice key, LsmSlice value, Datum *values)
{
	Size		end;

	return so->row_form != NULL && write_columns(so, key, value, values, &end);
}

/* False: something has to be decoded. */
static bool
write_row(IndexScanDesc scan, LsmSlice key, LsmSlice value)
{
	LsmScan    *so = scan->opaque;
	LsmRowForm *row = so->row_form;
	Size		offset;

	if (!write_columns(so, key, value, NULL, &offset))
		return false;
	row->tuple.t_len = ROW_HEADER + offset;
	HeapTupleHeaderSetDatumLength(row->tuple.t_data, row->tuple.t_len);
	scan->xs_hitup = &row->tuple;
	return true;
}

/* ======================================================================
 * How columns become parts
 * ====================================================================== */

/* What the table of types says of the value part of its codes */
typedef enum RowPart
{
	ROW_DECODED,
	ROW_SIGNED,					/* an integer, big-endian, the sign bit flipped */
	ROW_UNSIGNED,
	ROW_BYTES,					/* the value's own */
	ROW_STRING
} RowPart;

#define PICK_ROW(name, oid, extent, put, get, convert, row, ...) \
	[LSM_COLUMN_##name] = ROW_##row,

static const uint8 row_parts[LSM_NTYPES] = {LSM_SCALAR_TYPES(PICK_ROW)};

/* False: such a column's values are decoded. */
static bool
prepare_key_part(const LsmColumnSpec *column, Form_pg_attribute att, Part *part)
{
	RowPart		row = row_parts[column->type];

	if (!column->returnable || column->kept)
		return false;
	if (row == ROW_SIGNED || row == ROW_UNSIGNED)
	{
		part->kind = part->bytes == sizeof(uint32) ? PART_UINT32 : PART_UINT64;
		part->flip = row == ROW_SIGNED ? UINT64CONST(1) << (8 * part->bytes - 1) : 0;
		if (column->descending)
			part->flip = ~part->flip;
		return true;
	}
	part->kind = PART_BY_VALUE;
	if (att->attbyval || column->descending)
		return att->attbyval;
	if (row == ROW_BYTES)
	{
		part->kind = PART_AS_IT_IS;
		return true;
	}
	part->kind = column->strings == LSM_STRINGS_BYTES ? PART_STRING : PART_WEIGHTED_STRING;
	return row == ROW_STRING && column->strings != LSM_STRINGS_KEY && att->attlen == -1 &&
		att->attalign == TYPALIGN_INT && att->attstorage != TYPSTORAGE_PLAIN;
}

static bool
prepare_parts(const LsmKeySpec *spec, TupleDesc desc, Part *parts)
{
	if (spec->nkept > 0)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		parts[i].bytes = att->attlen;
		parts[i].by_value = att->attbyval;
		parts[i].align = att_align_nominal(1, att->attalign) - 1;
		if (i >= spec->nkeys ? att->attlen < -1 :
			!prepare_key_part(&spec->columns[i], att, &parts[i]))
			return false;
	}
	return true;
}

void
lsm_form_prepare(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	TupleDesc	desc = scan->xs_hitupdesc;
	Part		parts[INDEX_MAX_KEYS] = {0};
	LsmRowForm *row;
	MemoryContext old;

	so->tuple_context = AllocSetContextCreate(so->context, "lsm_index tuple",
											  ALLOCSET_SMALL_SIZES);
	if (!prepare_parts(so->spec, desc, parts))
		return;
	old = MemoryContextSwitchTo(so->context);
	row = palloc0(sizeof(LsmRowForm));
	memcpy(row->parts, parts, sizeof(parts));
	row->room = 2 * MAXIMUM_ALIGNOF * INDEX_MAX_KEYS + 256;
	row->tuple.t_data = palloc0(ROW_HEADER + row->room);
	row->tuple.t_tableOid = InvalidOid;
	ItemPointerSetInvalid(&row->tuple.t_self);
	ItemPointerSetInvalid(&row->tuple.t_data->t_ctid);
	HeapTupleHeaderSetTypeId(row->tuple.t_data, desc->tdtypeid);
	HeapTupleHeaderSetTypMod(row->tuple.t_data, desc->tdtypmod);
	HeapTupleHeaderSetNatts(row->tuple.t_data, desc->natts);
	row->tuple.t_data->t_infomask = HEAP_HASVARWIDTH;
	row->tuple.t_data->t_hoff = ROW_HEADER;
	so->row_form = row;
	MemoryContextSwitchTo(old);
}

/* ======================================================================
 * Rows
 * ====================================================================== */

static void
form_row(IndexScanDesc scan, LsmSlice key, LsmSlice value)
{
	LsmScan    *so = scan->opaque;
	LsmKeySpec *spec = so->spec;
	LsmSlice	rest = lsm_key_columns(key);
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;

	if (likely(so->row_form != NULL) && write_row(scan, key, value))
		return;
	MemoryContextReset(so->tuple_context);
	old = MemoryContextSwitchTo(so->tuple_context);
	for (int i = 0; i < spec->nkeys; i++)
	{
		LsmSlice	code = {rest.data, lsm_code_length(&spec->columns[i], rest)};

		isnull[i] = true;
		if (spec->columns[i].returnable && !spec->columns[i].kept)
			values[i] = lsm_decode_column(&spec->columns[i], code, &isnull[i]);
		rest.data += code.len;
		rest.len -= code.len;
	}
	lsm_deform_value(spec, value, values, isnull);
	scan->xs_hitup = heap_form_tuple(scan->xs_hitupdesc, values, isnull);
	MemoryContextSwitchTo(old);
}

/* An index tuple has no room for more than this and its header. */
#define INDEX_TUPLE_VALUE_BYTES		4096

/*
 * The planner looks for the least and greatest value of the first column, and
 * takes it from an IndexTuple only; since PostgreSQL 18 it asks us, too.
 * NULL if the value does not fit into one.
 */
static IndexTuple
form_planner_tuple(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	TupleDesc	desc = scan->xs_itupdesc;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;
	IndexTuple	tuple;

	if (so->row_form != NULL && scan->xs_hitup == &so->row_form->tuple)
		MemoryContextReset(so->tuple_context);
	memset(isnull, true, sizeof(isnull));
	values[0] = heap_getattr(scan->xs_hitup, 1, scan->xs_hitupdesc, &isnull[0]);
	if (!isnull[0] && TupleDescAttr(desc, 0)->attlen == -1 &&
		VARSIZE_ANY(DatumGetPointer(values[0])) > INDEX_TUPLE_VALUE_BYTES)
		return NULL;
	old = MemoryContextSwitchTo(so->tuple_context);
	tuple = index_form_tuple(desc, values, isnull);
	MemoryContextSwitchTo(old);
	return tuple;
}

/* See scan.h. */
bool
lsm_form_index_tuple(IndexScanDesc scan, LsmSlice key, LsmSlice value)
{
	form_row(scan, key, value);
	if (likely(scan->xs_snapshot->snapshot_type != SNAPSHOT_NON_VACUUMABLE))
		return true;
	scan->xs_itup = form_planner_tuple(scan);
	return scan->xs_itup != NULL;
}
