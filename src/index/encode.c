/*-------------------------------------------------------------------------
 *
 * encode.c
 *	  Codes of column values, and back.
 *
 *		code = marker byte | value part (inverted if DESC); NULL: marker only
 *
 *	The value part, which order_preserving_pack.c packs if it is very long:
 *
 *	integers, dates, times	big-endian, sign bit flipped
 *	unsigned, uuid			big-endian
 *	floats					IEEE bits; negative: inverted, else sign bit set; NaN: all
 *							ones, the greatest; -0 as 0
 *	strings, bytea			bytes with 00 escaped as 00 FF, then 00 01; bpchar
 *							without trailing blanks, name up to its end;
 *							under ICU's collations the sort key in the same
 *							manner, before them or instead, under libc's the
 *							primary weights before them (LsmStrings)
 *	timetz					UTC time, then zone
 *	interval				the 128-bit number of microseconds it is compared by
 *	enum					OID
 *	numeric					encode_numeric.c
 *	inet					family, network with zeros behind it, its bits, address
 *	bit						two strings: the bytes; how many bits of the last one
 *							are used
 *	others					a string, which compose.c and encode_document.c make
 *
 * Inverting the bytes of a prefix-free code reverses its order and leaves it
 * prefix-free.  No locks; detoasting may read the table's TOAST table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/varbit.h"

#include "index/compose.h"
#include "index/integer_codes.h"

#ifndef HAVE_INT128
#error "lsmam needs a 128-bit integer type"
#endif

#define PICK_EXTENT(name, oid, extent, ...) [LSM_COLUMN_##name] = extent,
#define PICK_STRING(name, ...) [LSM_COLUMN_##name] = LSM_EXTENT_STRING,

static const uint8 extents[LSM_NTYPES] = {
	LSM_SCALAR_TYPES(PICK_EXTENT)
	LSM_COMPOSED_TYPES(PICK_STRING)
	[LSM_COLUMN_FUNCTION] = LSM_EXTENT_STRING
};

uint8
lsm_value_extent(LsmColumnType type, LsmStrings strings)
{
	if (strings == LSM_STRINGS_KEY_AND_BYTES || lsm_strings_are_libc(strings))
		return LSM_EXTENT_TWO_STRINGS;
	return extents[type];
}

/* ======================================================================
 * Numbers
 * ====================================================================== */

#define SIGN_BIT	(UINT64CONST(1) << 63)

/* Of as many bytes as the type has; `flip` is of one of eight. */
static inline void
put_integer(const LsmColumnSpec *spec, Datum value, uint64 flip, StringInfo out)
{
	int			bytes = extents[spec->type];
	uint64		n = pg_hton64(((uint64) value << (64 - 8 * bytes)) ^ flip);

	appendBinaryStringInfo(out, (char *) &n, bytes);
}

static void
put_signed(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	put_integer(spec, value, SIGN_BIT, out);
}

static void
put_unsigned(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	put_integer(spec, value, 0, out);
}

static void
put_bool(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	appendStringInfoCharMacro(out, DatumGetBool(value) ? 1 : 0);
}

static Datum
get_bool(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return BoolGetDatum(bytes[0] != 0);
}

static Datum
get_char(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return CharGetDatum((char) bytes[0]);
}

static Datum
get_int2(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return Int16GetDatum((int16) ((((uint16) bytes[0] << 8) | bytes[1]) ^ 0x8000));
}

static Datum
get_int4(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return Int32GetDatum(get_int32(bytes));
}

static Datum
get_int8(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return Int64GetDatum(get_int64(bytes));
}

static Datum
get_oid(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return ObjectIdGetDatum(get_uint32(bytes));
}

static Datum
get_lsn(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return UInt64GetDatum(get_uint64(bytes));
}

static void
put_float4(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	float4		f = DatumGetFloat4(value);
	uint32		bits;

	if (isnan(f))
		bits = PG_UINT32_MAX;
	else
	{
		if (f == 0)
			f = 0;				/* -0 too */
		memcpy(&bits, &f, sizeof(bits));
		bits = (bits >> 31) ? ~bits : bits | ((uint32) 1 << 31);
	}
	put_uint32(out, bits);
}

static void
put_float8(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	float8		f = DatumGetFloat8(value);
	uint64		bits;

	if (isnan(f))
		bits = PG_UINT64_MAX;
	else
	{
		if (f == 0)
			f = 0;
		memcpy(&bits, &f, sizeof(bits));
		bits = (bits >> 63) ? ~bits : bits | SIGN_BIT;
	}
	put_uint64(out, bits);
}

static Datum
get_float4(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	uint32		bits = get_uint32(bytes);
	float4		f;

	if (bits == PG_UINT32_MAX)
		return Float4GetDatum(get_float4_nan());
	bits = (bits >> 31) ? bits & ~((uint32) 1 << 31) : ~bits;
	memcpy(&f, &bits, sizeof(f));
	return Float4GetDatum(f);
}

static Datum
get_float8(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	uint64		bits = get_uint64(bytes);
	float8		f;

	if (bits == PG_UINT64_MAX)
		return Float8GetDatum(get_float8_nan());
	bits = (bits >> 63) ? bits & ~SIGN_BIT : ~bits;
	memcpy(&f, &bits, sizeof(f));
	return Float8GetDatum(f);
}

static void
put_numeric(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	lsm_encode_numeric(value, out);
}

static Datum
get_numeric(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return lsm_decode_numeric(bytes, len);
}

static void
put_timetz(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	TimeTzADT  *t = DatumGetTimeTzADTP(value);

	put_int64(out, t->time + t->zone * USECS_PER_SEC);
	put_int32(out, t->zone);
}

static Datum
get_timetz(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	TimeTzADT  *t = palloc(sizeof(TimeTzADT));

	t->zone = get_int32(bytes + 8);
	t->time = get_int64(bytes) - t->zone * USECS_PER_SEC;
	return TimeTzADTPGetDatum(t);
}

/* What interval_cmp() compares (timestamp.c, interval_cmp_value). */
static void
put_interval(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	Interval   *interval = DatumGetIntervalP(value);
	int128		span;
	unsigned __int128 bits;

	span = (int128) interval->month * DAYS_PER_MONTH + interval->day;
	span = span * USECS_PER_DAY + interval->time;
	bits = (unsigned __int128) span ^ ((unsigned __int128) 1 << 127);
	put_uint64(out, (uint64) (bits >> 64));
	put_uint64(out, (uint64) bits);
}

/* An interval that compares equal to what was encoded. */
static Datum
get_interval(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	Interval   *interval = palloc(sizeof(Interval));
	unsigned __int128 bits;
	int128		days;

	bits = ((unsigned __int128) get_uint64(bytes) << 64) | get_uint64(bytes + 8);
	bits ^= (unsigned __int128) 1 << 127;
	days = (int128) bits / USECS_PER_DAY;
	interval->time = (int64) ((int128) bits % USECS_PER_DAY);
	interval->month = (int32) Min(Max(days / DAYS_PER_MONTH, (int128) PG_INT32_MIN),
								  (int128) PG_INT32_MAX);
	days -= (int128) interval->month * DAYS_PER_MONTH;
	interval->day = (int32) Min(Max(days, (int128) PG_INT32_MIN), (int128) PG_INT32_MAX);
	days -= interval->day;
	interval->time += (int64) (days * USECS_PER_DAY);
	return IntervalPGetDatum(interval);
}

/* Of a value, which may be no row identifier at all */
static void
put_tid(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	ItemPointer tid = (ItemPointer) DatumGetPointer(value);
	uint16		offset = pg_hton16(ItemPointerGetOffsetNumberNoCheck(tid));

	put_uint32(out, ItemPointerGetBlockNumberNoCheck(tid));
	appendBinaryStringInfo(out, (char *) &offset, sizeof(offset));
}

static Datum
get_tid(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	ItemPointer tid = palloc(sizeof(ItemPointerData));
	uint32		block;
	uint16		offset;

	lsm_tid_read((const char *) bytes, &block, &offset);
	ItemPointerSet(tid, block, offset);
	return PointerGetDatum(tid);
}

/* The value's own bytes */
static void
put_bytes(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	appendBinaryStringInfo(out, DatumGetPointer(value), extents[spec->type]);
}

static Datum
get_bytes(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	int			n = extents[spec->type];

	return PointerGetDatum(memcpy(palloc(n), bytes, n));
}

static void
put_inet(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	lsm_put_inet(out, value);
}

static Datum
get_inet(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	return lsm_get_inet(bytes);
}

/* ======================================================================
 * Strings
 * ====================================================================== */

void
lsm_put_string(StringInfo out, const char *data, int len)
{
	const char	end[2] = {LSM_STRING_ESCAPE, LSM_STRING_END};
	const char	zero[2] = {LSM_STRING_ESCAPE, (char) LSM_STRING_ESCAPED_ZERO};

	while (len > 0)
	{
		const char *escape = memchr(data, LSM_STRING_ESCAPE, len);
		int			run = escape ? escape - data : len;

		appendBinaryStringInfo(out, data, run);
		if (escape)
		{
			appendBinaryStringInfo(out, zero, 2);
			run++;
		}
		data += run;
		len -= run;
	}
	appendBinaryStringInfo(out, end, 2);
}

void
lsm_put_text(StringInfo out, const LsmColumnSpec *spec, const char *data, int len)
{
	if (lsm_strings_are_libc(spec->strings))
		lsm_collation_put_weights(spec->locale, spec->strings, data, len, out, lsm_put_string);
	else if (spec->strings != LSM_STRINGS_BYTES)
		lsm_collation_put_sort_key(spec->locale, data, len, out, lsm_put_string);
	if (spec->strings != LSM_STRINGS_KEY)
		lsm_put_string(out, data, len);
}

/* Of a varlena, without trailing blanks if `bpchar`. */
static inline void
put_varlena(const LsmColumnSpec *spec, Datum value, bool bpchar, StringInfo out)
{
	struct varlena *v = PG_DETOAST_DATUM_PACKED(value);
	const char *data = VARDATA_ANY(v);
	int			len = VARSIZE_ANY_EXHDR(v);

	if (bpchar)
		len = bpchartruelen(unconstify(char *, data), len);
	lsm_put_text(out, spec, data, len);
	if ((Pointer) v != DatumGetPointer(value))
		pfree(v);
}

static void
put_bytea(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	put_varlena(spec, value, false, out);
}

static void
put_bpchar(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	put_varlena(spec, value, true, out);
}

static void
put_text(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	if (unlikely(spec->normal_text != NULL))
		value = lsm_normal_text(spec, value);
	put_varlena(spec, value, false, out);
}

static void
put_name(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	const char *name = NameStr(*DatumGetName(value));

	lsm_put_text(out, spec, name, strnlen(name, NAMEDATALEN));
}

/*
 * Length of a value part of this many strings, terminators included; 0: it does
 * not end; LSM_VALUE_CORRUPT.
 */
static inline uint32
string_code_length(const uint8 *bytes, uint32 len, uint8 mask, int nstrings)
{
	uint32		i = 0;

	for (;;)
	{
		const uint8 *escape = i < len ? memchr(bytes + i, LSM_STRING_ESCAPE ^ mask, len - i) : NULL;

		if (escape == NULL || escape + 1 >= bytes + len)
			return 0;
		i = escape + 2 - bytes;
		if ((escape[1] ^ mask) == LSM_STRING_END)
		{
			if (--nstrings == 0)
				return i;
		}
		else if ((escape[1] ^ mask) != LSM_STRING_ESCAPED_ZERO)
			return LSM_VALUE_CORRUPT;
	}
}

static inline uint32
value_length(uint8 extent, const uint8 *bytes, uint32 len, uint8 mask)
{
	if (extent < LSM_EXTENT_VARIES)
		return extent;
	len = Min(len, LSM_CODE_PLAIN_BYTES);
	if (len < 1)
		return 0;
	if (extent == LSM_EXTENT_NUMERIC)
		return lsm_numeric_code_length(bytes, len, mask);
	if (extent == LSM_EXTENT_INET)
		return lsm_inet_code_length(bytes, mask);
	return string_code_length(bytes, len, mask, lsm_extent_strings(extent));
}

uint32
lsm_value_length(uint8 extent, const uint8 *bytes, uint32 len, uint8 mask)
{
	return value_length(extent, bytes, len, mask);
}

/* Undo the escapes of a complete string into `out`; returns its length. */
static int
unescape(const uint8 *bytes, uint32 len, char *out)
{
	char	   *p = out;

	if (len < 2)
		lsm_code_corrupt();
	len -= 2;
	while (len > 0)
	{
		const uint8 *escape = memchr(bytes, LSM_STRING_ESCAPE, len);
		uint32		run = escape ? escape + 1 - bytes : len;

		memcpy(p, bytes, run);	/* an escaped zero's first byte is the zero */
		p += run;
		if (escape)
			run++;
		bytes += run;
		len -= Min(run, len);
	}
	return p - out;
}

static Datum
get_string(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	struct varlena *v = palloc(VARHDRSZ + len);

	SET_VARSIZE(v, VARHDRSZ + unescape(bytes, len, VARDATA(v)));
	return PointerGetDatum(v);
}

static Datum
get_name(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	Name		name = palloc0(NAMEDATALEN);

	if (len > NAMEDATALEN - 1 + 2)
		lsm_code_corrupt();
	unescape(bytes, len, NameStr(*name));
	return NameGetDatum(name);
}

/* ======================================================================
 * Bits
 * ====================================================================== */

/* bit_cmp(): the bytes, in the last of which unused bits are 0, then the length */
static void
put_bits(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	VarBit	   *v = DatumGetVarBitP(value);
	char		used = VARBITLEN(v) == 0 ? 1 : (VARBITLEN(v) - 1) % BITS_PER_BYTE + 1;

	lsm_put_string(out, (char *) VARBITS(v), VARBITBYTES(v));
	lsm_put_string(out, &used, 1);
	if ((Pointer) v != DatumGetPointer(value))
		pfree(v);
}

static Datum
get_bits(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	VarBit	   *v = palloc(VARBITHDRSZ + VARHDRSZ + len);
	uint32		first = string_code_length(bytes, len, 0, 1);
	int			nbytes;

	if (first == 0 || first == LSM_VALUE_CORRUPT || len - first != 3)
		lsm_code_corrupt();
	nbytes = unescape(bytes, first, (char *) VARBITS(v));
	SET_VARSIZE(v, VARHDRSZ + VARBITHDRSZ + nbytes);
	VARBITLEN(v) = nbytes == 0 ? 0 : (nbytes - 1) * BITS_PER_BYTE + bytes[first];
	return VarBitPGetDatum(v);
}

/* ======================================================================
 * Columns
 * ====================================================================== */

/* The value part is one string, of what the type's own function makes. */
static void
put_composed(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	StringInfoData raw;

	initStringInfo(&raw);
	spec->put(spec, value, &raw);
	lsm_put_string(out, raw.data, raw.len);
	pfree(raw.data);
}

static void
put_invalid(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	elog(ERROR, "invalid column type");
}

#define PICK_PUT(name, oid, extent, put, ...) [LSM_COLUMN_##name] = put_##put,
#define PUT_COMPOSED(name, ...) [LSM_COLUMN_##name] = put_composed,

void
lsm_put_value(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	static void (*const puts[LSM_NTYPES]) (const LsmColumnSpec *, Datum, StringInfo) = {
		[LSM_COLUMN_INVALID] = put_invalid,
		LSM_SCALAR_TYPES(PICK_PUT)
		LSM_COMPOSED_TYPES(PUT_COMPOSED)
		[LSM_COLUMN_FUNCTION] = put_composed
	};

	puts[spec->type] (spec, value, out);
}

/* Where the string itself begins, behind its sort key */
static uint32
string_start(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	uint32		start;

	if (spec->opaque)
		elog(ERROR, "a code of this kind cannot be decoded");
	if (spec->strings == LSM_STRINGS_BYTES)
		return 0;
	start = string_code_length(bytes, len, 0, 1);
	if (start == 0 || start == LSM_VALUE_CORRUPT)
		lsm_code_corrupt();
	return start;
}

#define PICK_GET(name, oid, extent, put, get, ...) [LSM_COLUMN_##name] = get_##get,

/* REQUIRES: the type is not composed. */
static Datum
get_value(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	static Datum (*const gets[LSM_NTYPES]) (const LsmColumnSpec *, const uint8 *, uint32) = {
		LSM_SCALAR_TYPES(PICK_GET)
	};
	uint32		start = string_start(spec, bytes, len);

	return gets[spec->type] (spec, bytes + start, len - start);
}

static void
invert(char *bytes, int len)
{
	for (int i = 0; i < len; i++)
		bytes[i] = ~bytes[i];
}

/* See index.h. */
Size
lsm_encode_column(const LsmColumnSpec *spec, Datum value, bool isnull,
				  StringInfo out)
{
	int			start;
	Size		raw;

	if (isnull)
	{
		appendStringInfoCharMacro(out, spec->nulls_first ?
								  LSM_CODE_NULL_FIRST : LSM_CODE_NULL_LAST);
		return 0;
	}
	appendStringInfoCharMacro(out, LSM_CODE_NOT_NULL);
	start = out->len;
	lsm_put_value(spec, value, out);
	Assert(extents[spec->type] >= LSM_EXTENT_VARIES || out->len - start == extents[spec->type]);
	raw = out->len - start;
	if (unlikely(raw > LSM_CODE_PLAIN_BYTES))
		lsm_pack_code(out, start);
	if (spec->descending)
		invert(out->data + start, out->len - start);
	return raw;
}

/* Of the code at the start of `rest`, as value_length() */
static inline uint32
value_part_length(const LsmColumnSpec *spec, LsmSlice rest)
{
	return value_length(lsm_value_extent(spec->type, spec->strings),
						(const uint8 *) rest.data + 1, rest.len - 1,
						spec->descending ? 0xFF : 0);
}

/* Undo packing; returns how many bytes were packed. */
static uint32
unpack(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len, StringInfo raw)
{
	return lsm_unpack_code(bytes, len, spec->descending ? 0xFF : 0,
						   lsm_extent_strings(lsm_value_extent(spec->type, spec->strings)), raw);
}

static pg_noinline uint32
packed_part_length(const LsmColumnSpec *spec, LsmSlice rest)
{
	StringInfoData raw;
	uint32		len;

	if (rest.len - 1 <= LSM_CODE_PLAIN_BYTES)
		lsm_code_corrupt();
	initStringInfo(&raw);
	len = unpack(spec, (const uint8 *) rest.data + 1, rest.len - 1, &raw);
	pfree(raw.data);
	return len;
}

/* See index.h. */
uint32
lsm_measure_code(const LsmColumnSpec *spec, LsmSlice rest)
{
	uint32		len;

	if (rest.len < 1)
		lsm_code_corrupt();
	if (rest.data[0] != LSM_CODE_NOT_NULL)
	{
		if (rest.data[0] != LSM_CODE_NULL_FIRST && rest.data[0] != LSM_CODE_NULL_LAST)
			lsm_code_corrupt();
		return 1;
	}
	len = value_part_length(spec, rest);
	if (unlikely(len == 0))
		len = packed_part_length(spec, rest);
	if (len > rest.len - 1)
		lsm_code_corrupt();
	return 1 + len;
}

uint32
lsm_cut_code_length(const LsmColumnSpec *spec, LsmSlice rest)
{
	uint32		len;

	if (rest.len < 1 || rest.data[0] != LSM_CODE_NOT_NULL)
		return rest.len < 1 ? 0 : 1;
	len = value_part_length(spec, rest);
	if (len == LSM_VALUE_CORRUPT)
		lsm_code_corrupt();
	return len == 0 || len > rest.len - 1 ? 0 : 1 + len;
}

/*
 * Enums: NULL or not.  Strings: the primary weights, which are not packed as
 * far as that; those with weights on the last level only are in order, each a
 * group of its own.
 */
uint32
lsm_code_group(const LsmColumnSpec *spec, LsmSlice rest)
{
	uint32		plain = Min(rest.len - 1, LSM_CODE_PLAIN_BYTES);
	const uint8 *value = (const uint8 *) rest.data + 1;
	uint8		mask = spec->descending ? 0xFF : 0;
	uint32		bytes;

	Assert(spec->order == LSM_ORDER_GROUPS && rest.len >= 1);
	if (rest.data[0] != LSM_CODE_NOT_NULL || !lsm_strings_are_libc(spec->strings))
		return 1;
	if (plain > 1 && (value[0] ^ mask) == LSM_WEIGHTS_SEPARATOR &&
		(value[1] ^ mask) == LSM_WEIGHTS_SEPARATOR)
		return lsm_code_length(spec, rest);
	bytes = string_code_length(value, plain, mask, 1);
	if (bytes == LSM_VALUE_CORRUPT)
		lsm_code_corrupt();
	return 1 + (bytes > 0 ? bytes : plain);
}

int
lsm_code_compare(const LsmColumnSpec *spec, LsmSlice a, LsmSlice b)
{
	int			c = lsm_slice_compare(a, b);
	bool		isnull;
	Datum		x;
	Datum		y;

	if (c == 0 || spec->order == LSM_ORDER_CODES ||
		a.data[0] != LSM_CODE_NOT_NULL || b.data[0] != LSM_CODE_NOT_NULL)
		return c;
	x = lsm_decode_column(spec, a, &isnull);
	y = lsm_decode_column(spec, b, &isnull);
	c = DatumGetInt32(FunctionCall2Coll(spec->compare, spec->collation, x, y));
	return spec->descending ? -c : c;
}

/*
 * Undo packing, as only value parts that are longer than this are packed, and
 * DESC.
 */
static Datum
decode_transformed(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	StringInfoData raw;
	Datum		value;

	initStringInfo(&raw);
	if (len > LSM_CODE_PLAIN_BYTES)
		(void) unpack(spec, bytes, len, &raw);
	else
	{
		appendBinaryStringInfo(&raw, (const char *) bytes, len);
		invert(raw.data, raw.len);
	}
	value = get_value(spec, (const uint8 *) raw.data, raw.len);
	pfree(raw.data);
	return value;
}

Datum
lsm_decode_column(const LsmColumnSpec *spec, LsmSlice code, bool *isnull)
{
	Assert(code.len >= 1);
	*isnull = code.data[0] != LSM_CODE_NOT_NULL;
	if (*isnull)
		return (Datum) 0;
	if (spec->descending || code.len - 1 > LSM_CODE_PLAIN_BYTES)
		return decode_transformed(spec, (const uint8 *) code.data + 1, code.len - 1);
	return get_value(spec, (const uint8 *) code.data + 1, code.len - 1);
}

void
lsm_encode_tid(ItemPointer tid, StringInfo out)
{
	uint16		offset = pg_hton16(ItemPointerGetOffsetNumber(tid));

	Assert(lsm_is_row_tid(tid));
	put_uint32(out, ItemPointerGetBlockNumber(tid));
	appendBinaryStringInfo(out, (char *) &offset, sizeof(offset));
}

Size
lsm_append_columns(const LsmKeySpec *spec, const Datum *values, const bool *isnull,
				   StringInfo out)
{
	Size		raw = 0;

	for (int i = 0; i < spec->nkeys; i++)
	{
		Size		bytes = lsm_encode_column(&spec->columns[i], values[i], isnull[i], out);

		raw = Max(raw, bytes);
	}
	return raw;
}

void
lsm_encode_columns(Relation index, const LsmKeySpec *spec, const Datum *values,
				   const bool *isnull, StringInfo out)
{
	Size		raw;

	resetStringInfo(out);
	raw = lsm_append_columns(spec, values, isnull, out);
	if (raw > LSM_CODE_MAX_RAW_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index column size %zu exceeds lsm_index maximum %d for index \"%s\"",
						raw, LSM_CODE_MAX_RAW_BYTES, RelationGetRelationName(index)),
				 errhint("Consider a function index of an MD5 hash of the value.")));
	if (out->len > LSM_INDEX_MAX_CODE_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index row size %zu exceeds lsm_index maximum %d for index \"%s\"",
						(Size) out->len, LSM_INDEX_MAX_CODE_BYTES,
						RelationGetRelationName(index)),
				 errhint("Consider a function index of an MD5 hash of the value.")));
}

bool
lsm_any_null(const LsmKeySpec *spec, const bool *isnull)
{
	for (int i = 0; i < spec->nkeys; i++)
		if (isnull[i])
			return true;
	return false;
}
