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

#include "access/transam.h"
#include "utils/builtins.h"
#include "utils/cash.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/inet.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/varbit.h"
#include "utils/xid8.h"

#include "index/compose.h"
#include "index/integer_codes.h"

#ifndef HAVE_INT128
#error "lsmam needs a 128-bit integer type"
#endif

/* Bytes of the value part; 0: varies */
static const uint8 value_bytes[LSM_COLUMN_FUNCTION + 1] = {
	[LSM_COLUMN_BOOL] = 1,
	[LSM_COLUMN_INT2] = 2,
	[LSM_COLUMN_INT4] = 4,
	[LSM_COLUMN_INT8] = 8,
	[LSM_COLUMN_OID] = 4,
	[LSM_COLUMN_CHAR] = 1,
	[LSM_COLUMN_FLOAT4] = 4,
	[LSM_COLUMN_FLOAT8] = 8,
	[LSM_COLUMN_UUID] = UUID_LEN,
	[LSM_COLUMN_DATE] = 4,
	[LSM_COLUMN_TIME] = 8,
	[LSM_COLUMN_TIMETZ] = 12,
	[LSM_COLUMN_TIMESTAMP] = 8,
	[LSM_COLUMN_TIMESTAMPTZ] = 8,
	[LSM_COLUMN_INTERVAL] = 16,
	[LSM_COLUMN_ENUM] = 4,
	[LSM_COLUMN_MONEY] = 8,
	[LSM_COLUMN_PG_LSN] = 8,
	[LSM_COLUMN_XID8] = 8,
	[LSM_COLUMN_TID] = LSM_TID_BYTES,
	[LSM_COLUMN_MACADDR] = sizeof(macaddr),
	[LSM_COLUMN_MACADDR8] = sizeof(macaddr8)
};

uint8
lsm_value_bytes(LsmColumnType type)
{
	return value_bytes[type];
}

/* ======================================================================
 * Numbers
 * ====================================================================== */

static void
put_float4(StringInfo out, float4 f)
{
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
put_float8(StringInfo out, float8 f)
{
	uint64		bits;

	if (isnan(f))
		bits = PG_UINT64_MAX;
	else
	{
		if (f == 0)
			f = 0;
		memcpy(&bits, &f, sizeof(bits));
		bits = (bits >> 63) ? ~bits : bits | (UINT64CONST(1) << 63);
	}
	put_uint64(out, bits);
}

static float4
get_float4(const uint8 *bytes)
{
	uint32		bits = get_uint32(bytes);
	float4		f;

	if (bits == PG_UINT32_MAX)
		return get_float4_nan();
	bits = (bits >> 31) ? bits & ~((uint32) 1 << 31) : ~bits;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static float8
get_float8(const uint8 *bytes)
{
	uint64		bits = get_uint64(bytes);
	float8		f;

	if (bits == PG_UINT64_MAX)
		return get_float8_nan();
	bits = (bits >> 63) ? bits & ~(UINT64CONST(1) << 63) : ~bits;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* What interval_cmp() compares (timestamp.c, interval_cmp_value). */
static void
put_interval(StringInfo out, const Interval *interval)
{
	int128		span;
	unsigned __int128 bits;

	span = (int128) interval->month * DAYS_PER_MONTH + interval->day;
	span = span * USECS_PER_DAY + interval->time;
	bits = (unsigned __int128) span ^ ((unsigned __int128) 1 << 127);
	put_uint64(out, (uint64) (bits >> 64));
	put_uint64(out, (uint64) bits);
}

/* An interval that compares equal to what was encoded. */
static Interval *
get_interval(const uint8 *bytes)
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
	return interval;
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

static void
put_varlena(StringInfo out, const LsmColumnSpec *spec, Datum value)
{
	struct varlena *v = PG_DETOAST_DATUM_PACKED(value);
	const char *data = VARDATA_ANY(v);
	int			len = VARSIZE_ANY_EXHDR(v);

	if (spec->type == LSM_COLUMN_BPCHAR)
		len = bpchartruelen(unconstify(char *, data), len);
	lsm_put_text(out, spec, data, len);
	if ((Pointer) v != DatumGetPointer(value))
		pfree(v);
}

/* How many strings a value part consists of; 0: it is another kind of value. */
static inline int
code_strings(const LsmColumnSpec *spec)
{
	if (spec->type == LSM_COLUMN_NUMERIC)
		return 0;
	if (spec->type == LSM_COLUMN_BIT)
		return 2;
	return spec->strings == LSM_STRINGS_KEY_AND_BYTES ||
		lsm_strings_are_libc(spec->strings) ? 2 : 1;
}

/*
 * Length of a value part of so many strings, terminators included; 0: it does
 * not end.
 */
static uint32
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
			lsm_code_corrupt();
	}
}

/* Undo the escapes of a complete string into `out`; returns its length. */
static int
get_string(const uint8 *bytes, uint32 len, char *out)
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
get_varlena(const uint8 *bytes, uint32 len)
{
	struct varlena *v = palloc(VARHDRSZ + len);

	SET_VARSIZE(v, VARHDRSZ + get_string(bytes, len, VARDATA(v)));
	return PointerGetDatum(v);
}

/* Of a value, which may be no row identifier at all */
static void
put_tid(ItemPointer tid, StringInfo out)
{
	uint16		offset = pg_hton16(ItemPointerGetOffsetNumberNoCheck(tid));

	put_uint32(out, ItemPointerGetBlockNumberNoCheck(tid));
	appendBinaryStringInfo(out, (char *) &offset, sizeof(offset));
}

/* ======================================================================
 * Bits
 * ====================================================================== */

/* bit_cmp(): the bytes, in the last of which unused bits are 0, then the length */
static void
put_bits(StringInfo out, Datum value)
{
	VarBit	   *v = DatumGetVarBitP(value);
	char		used = VARBITLEN(v) == 0 ? 1 : (VARBITLEN(v) - 1) % BITS_PER_BYTE + 1;

	lsm_put_string(out, (char *) VARBITS(v), VARBITBYTES(v));
	lsm_put_string(out, &used, 1);
	if ((Pointer) v != DatumGetPointer(value))
		pfree(v);
}

static Datum
get_bits(const uint8 *bytes, uint32 len)
{
	VarBit	   *v = palloc(VARBITHDRSZ + VARHDRSZ + len);
	uint32		first = string_code_length(bytes, len, 0, 1);
	int			nbytes;

	if (first == 0 || len - first != 3)
		lsm_code_corrupt();
	nbytes = get_string(bytes, first, (char *) VARBITS(v));
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

void
lsm_put_value(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	switch (spec->type)
	{
		case LSM_COLUMN_BOOL:
			appendStringInfoCharMacro(out, DatumGetBool(value) ? 1 : 0);
			break;
		case LSM_COLUMN_INT2:
			{
				uint16		n = pg_hton16((uint16) DatumGetInt16(value) ^ 0x8000);

				appendBinaryStringInfo(out, (char *) &n, sizeof(n));
				break;
			}
		case LSM_COLUMN_INT4:
			put_int32(out, DatumGetInt32(value));
			break;
		case LSM_COLUMN_INT8:
			put_int64(out, DatumGetInt64(value));
			break;
		case LSM_COLUMN_OID:
		case LSM_COLUMN_ENUM:
			put_uint32(out, DatumGetObjectId(value));
			break;
		case LSM_COLUMN_CHAR:
			appendStringInfoCharMacro(out, DatumGetChar(value));
			break;
		case LSM_COLUMN_FLOAT4:
			put_float4(out, DatumGetFloat4(value));
			break;
		case LSM_COLUMN_FLOAT8:
			put_float8(out, DatumGetFloat8(value));
			break;
		case LSM_COLUMN_NUMERIC:
			lsm_encode_numeric(value, out);
			break;
		case LSM_COLUMN_TEXT:
			put_varlena(out, spec, unlikely(spec->normal_text != NULL) ?
						lsm_normal_text(spec, value) : value);
			break;
		case LSM_COLUMN_BPCHAR:
		case LSM_COLUMN_BYTEA:
			put_varlena(out, spec, value);
			break;
		case LSM_COLUMN_NAME:
			lsm_put_text(out, spec, NameStr(*DatumGetName(value)),
					 strnlen(NameStr(*DatumGetName(value)), NAMEDATALEN));
			break;
		case LSM_COLUMN_UUID:
			appendBinaryStringInfo(out, (char *) DatumGetUUIDP(value)->data, UUID_LEN);
			break;
		case LSM_COLUMN_DATE:
			put_int32(out, DatumGetDateADT(value));
			break;
		case LSM_COLUMN_TIME:
			put_int64(out, DatumGetTimeADT(value));
			break;
		case LSM_COLUMN_TIMETZ:
			{
				TimeTzADT  *t = DatumGetTimeTzADTP(value);

				put_int64(out, t->time + t->zone * USECS_PER_SEC);
				put_int32(out, t->zone);
				break;
			}
		case LSM_COLUMN_TIMESTAMP:
		case LSM_COLUMN_TIMESTAMPTZ:
			put_int64(out, DatumGetTimestamp(value));
			break;
		case LSM_COLUMN_INTERVAL:
			put_interval(out, DatumGetIntervalP(value));
			break;
		case LSM_COLUMN_MONEY:
			put_int64(out, DatumGetCash(value));
			break;
		case LSM_COLUMN_PG_LSN:
			put_uint64(out, DatumGetLSN(value));
			break;
		case LSM_COLUMN_XID8:
			put_uint64(out, U64FromFullTransactionId(DatumGetFullTransactionId(value)));
			break;
		case LSM_COLUMN_TID:
			put_tid((ItemPointer) DatumGetPointer(value), out);
			break;
		case LSM_COLUMN_MACADDR:
			appendBinaryStringInfo(out, DatumGetPointer(value), sizeof(macaddr));
			break;
		case LSM_COLUMN_MACADDR8:
			appendBinaryStringInfo(out, DatumGetPointer(value), sizeof(macaddr8));
			break;
		case LSM_COLUMN_INET:
			lsm_put_inet(out, value);
			break;
		case LSM_COLUMN_BIT:
			put_bits(out, value);
			break;
		case LSM_COLUMN_OIDVECTOR:
		case LSM_COLUMN_TSVECTOR:
		case LSM_COLUMN_JSONB:
		case LSM_COLUMN_ARRAY:
		case LSM_COLUMN_RANGE:
		case LSM_COLUMN_MULTIRANGE:
		case LSM_COLUMN_RECORD:
		case LSM_COLUMN_FUNCTION:
			put_composed(spec, value, out);
			break;
		case LSM_COLUMN_INVALID:
			elog(ERROR, "invalid column type");
	}
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
	if (start == 0)
		lsm_code_corrupt();
	return start;
}

static Datum
get_value(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len)
{
	uint32		start = string_start(spec, bytes, len);

	bytes += start;
	len -= start;
	switch (spec->type)
	{
		case LSM_COLUMN_BOOL:
			return BoolGetDatum(bytes[0] != 0);
		case LSM_COLUMN_INT2:
			return Int16GetDatum((int16) ((((uint16) bytes[0] << 8) | bytes[1]) ^ 0x8000));
		case LSM_COLUMN_INT4:
			return Int32GetDatum(get_int32(bytes));
		case LSM_COLUMN_INT8:
			return Int64GetDatum(get_int64(bytes));
		case LSM_COLUMN_OID:
		case LSM_COLUMN_ENUM:
			return ObjectIdGetDatum(get_uint32(bytes));
		case LSM_COLUMN_CHAR:
			return CharGetDatum((char) bytes[0]);
		case LSM_COLUMN_FLOAT4:
			return Float4GetDatum(get_float4(bytes));
		case LSM_COLUMN_FLOAT8:
			return Float8GetDatum(get_float8(bytes));
		case LSM_COLUMN_NUMERIC:
			return lsm_decode_numeric(bytes, len);
		case LSM_COLUMN_TEXT:
		case LSM_COLUMN_BPCHAR:
		case LSM_COLUMN_BYTEA:
			return get_varlena(bytes, len);
		case LSM_COLUMN_NAME:
			{
				Name		name = palloc0(NAMEDATALEN);

				if (len > NAMEDATALEN - 1 + 2)
					lsm_code_corrupt();
				get_string(bytes, len, NameStr(*name));
				return NameGetDatum(name);
			}
		case LSM_COLUMN_UUID:
			{
				pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

				memcpy(uuid->data, bytes, UUID_LEN);
				return UUIDPGetDatum(uuid);
			}
		case LSM_COLUMN_DATE:
			return DateADTGetDatum(get_int32(bytes));
		case LSM_COLUMN_TIME:
			return TimeADTGetDatum(get_int64(bytes));
		case LSM_COLUMN_TIMETZ:
			{
				TimeTzADT  *t = palloc(sizeof(TimeTzADT));

				t->zone = get_int32(bytes + 8);
				t->time = get_int64(bytes) - t->zone * USECS_PER_SEC;
				return TimeTzADTPGetDatum(t);
			}
		case LSM_COLUMN_TIMESTAMP:
		case LSM_COLUMN_TIMESTAMPTZ:
			return TimestampGetDatum(get_int64(bytes));
		case LSM_COLUMN_INTERVAL:
			return IntervalPGetDatum(get_interval(bytes));
		case LSM_COLUMN_MONEY:
			return CashGetDatum(get_int64(bytes));
		case LSM_COLUMN_PG_LSN:
			return LSNGetDatum(get_uint64(bytes));
		case LSM_COLUMN_XID8:
			return FullTransactionIdGetDatum(FullTransactionIdFromU64(get_uint64(bytes)));
		case LSM_COLUMN_TID:
			{
				ItemPointer tid = palloc(sizeof(ItemPointerData));
				uint32		block;
				uint16		offset;

				lsm_tid_read((const char *) bytes, &block, &offset);
				ItemPointerSet(tid, block, offset);
				return PointerGetDatum(tid);
			}
		case LSM_COLUMN_MACADDR:
			return PointerGetDatum(memcpy(palloc(sizeof(macaddr)), bytes, sizeof(macaddr)));
		case LSM_COLUMN_MACADDR8:
			return PointerGetDatum(memcpy(palloc(sizeof(macaddr8)), bytes, sizeof(macaddr8)));
		case LSM_COLUMN_INET:
			return lsm_get_inet(bytes);
		case LSM_COLUMN_BIT:
			return get_bits(bytes, len);
		case LSM_COLUMN_OIDVECTOR:
		case LSM_COLUMN_TSVECTOR:
		case LSM_COLUMN_JSONB:
		case LSM_COLUMN_ARRAY:
		case LSM_COLUMN_RANGE:
		case LSM_COLUMN_MULTIRANGE:
		case LSM_COLUMN_RECORD:
		case LSM_COLUMN_FUNCTION:
		case LSM_COLUMN_INVALID:
			break;
	}
	elog(ERROR, "invalid column type");
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
	Assert(value_bytes[spec->type] == 0 || out->len - start == value_bytes[spec->type]);
	raw = out->len - start;
	if (unlikely(raw > LSM_CODE_PLAIN_BYTES))
		lsm_pack_code(out, start);
	if (spec->descending)
		invert(out->data + start, out->len - start);
	return raw;
}

/*
 * Length of a value part of a type with values of any length, if it is not
 * packed; 0: it does not end.
 */
static uint32
plain_part_length(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len, uint8 mask)
{
	int			nstrings = code_strings(spec);

	if (len < 1)
		return 0;
	if (spec->type == LSM_COLUMN_INET)
		return lsm_inet_code_length(bytes, len, mask);
	return nstrings == 0 ? lsm_numeric_code_length(bytes, len, mask) :
		string_code_length(bytes, len, mask, nstrings);
}

static uint32
value_part_length(const LsmColumnSpec *spec, const uint8 *bytes, uint32 len, uint8 mask)
{
	uint32		plain = Min(len, LSM_CODE_PLAIN_BYTES);
	uint32		found = plain_part_length(spec, bytes, plain, mask);
	StringInfoData raw;

	if (likely(found > 0))
		return found;
	if (len == plain)
		lsm_code_corrupt();
	initStringInfo(&raw);
	found = lsm_unpack_code(bytes, len, mask, code_strings(spec), &raw);
	pfree(raw.data);
	return found;
}

uint32
lsm_code_length(const LsmColumnSpec *spec, LsmSlice rest)
{
	const uint8 *bytes = (const uint8 *) rest.data;
	uint32		len;

	if (rest.len < 1)
		lsm_code_corrupt();
	if (bytes[0] != LSM_CODE_NOT_NULL)
	{
		if (bytes[0] != LSM_CODE_NULL_FIRST && bytes[0] != LSM_CODE_NULL_LAST)
			lsm_code_corrupt();
		return 1;
	}
	len = value_bytes[spec->type];
	if (len == 0)
		len = value_part_length(spec, bytes + 1, rest.len - 1,
								spec->descending ? 0xFF : 0);
	if (1 + len > rest.len)
		lsm_code_corrupt();
	return 1 + len;
}

uint32
lsm_cut_code_length(const LsmColumnSpec *spec, LsmSlice rest)
{
	uint32		len;

	if (rest.len < 1 || rest.data[0] != LSM_CODE_NOT_NULL)
		return rest.len < 1 ? 0 : 1;
	len = value_bytes[spec->type];
	if (len == 0)
		len = plain_part_length(spec, (const uint8 *) rest.data + 1, rest.len - 1,
								spec->descending ? 0xFF : 0);
	return len == 0 || 1 + len > rest.len ? 0 : 1 + len;
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
		(void) lsm_unpack_code(bytes, len, spec->descending ? 0xFF : 0,
							   code_strings(spec), &raw);
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
