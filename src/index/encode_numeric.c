/*-------------------------------------------------------------------------
 *
 * encode_numeric.c
 *	  Codes of numeric values.
 *
 *		class byte		-Infinity < negative < 0 < positive < Infinity < NaN
 *		weight			of a finite value that is not 0: exponent of its first
 *						digit, base 10000, as uint16 biased by 2^15
 *		digits			base 10000, each + 1, uint16; no zero digits at either end
 *		terminator		uint16 0, less than any digit
 *
 * After the class byte a negative value's bytes are inverted.  The display
 * scale is not encoded: 1.0 and 1.00 are equal.
 *
 * Values are taken apart and put together through numeric_send() and
 * numeric_recv(), whose wire format is stable, as numeric's insides are
 * private to numeric.c.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "utils/fmgrprotos.h"

#include "index/index.h"

/* On disk. */
enum
{
	CLASS_MINUS_INFINITY = 0x01,
	CLASS_NEGATIVE = 0x02,
	CLASS_ZERO = 0x03,
	CLASS_POSITIVE = 0x04,
	CLASS_INFINITY = 0x05,
	CLASS_NAN = 0x06
};

/* Signs and the limit of the scale in the wire format (numeric.c) */
#define WIRE_POSITIVE	0x0000
#define WIRE_NEGATIVE	0x4000
#define WIRE_NAN		0xC000
#define WIRE_INFINITY	0xD000
#define WIRE_MINUS_INFINITY 0xF000
#define WIRE_MAX_SCALE	0x3FFF
#define WIRE_HEADER_BYTES 8

#define DIGITS_PER_WORD	4		/* decimal digits in one of base 10000 */

static uint16
get_uint16(const uint8 *bytes)
{
	return ((uint16) bytes[0] << 8) | bytes[1];
}

static void
put_uint16(StringInfo out, uint16 n)
{
	char		bytes[2] = {(char) (n >> 8), (char) n};

	appendBinaryStringInfo(out, bytes, 2);
}

void
lsm_encode_numeric(Datum value, StringInfo out)
{
	bytea	   *wire = DatumGetByteaP(DirectFunctionCall1(numeric_send, value));
	const uint8 *bytes = (const uint8 *) VARDATA(wire);
	const uint8 *digits = bytes + WIRE_HEADER_BYTES;
	int			ndigits = get_uint16(bytes);
	int			weight = (int16) get_uint16(bytes + 2);
	uint16		sign = get_uint16(bytes + 4);
	uint16		mask;

	Assert(VARSIZE(wire) - VARHDRSZ == WIRE_HEADER_BYTES + 2 * ndigits);

	while (ndigits > 0 && get_uint16(digits) == 0)
	{
		digits += 2;
		ndigits--;
		weight--;
	}
	while (ndigits > 0 && get_uint16(digits + 2 * (ndigits - 1)) == 0)
		ndigits--;

	if (sign == WIRE_NAN)
		appendStringInfoCharMacro(out, CLASS_NAN);
	else if (sign == WIRE_INFINITY)
		appendStringInfoCharMacro(out, CLASS_INFINITY);
	else if (sign == WIRE_MINUS_INFINITY)
		appendStringInfoCharMacro(out, CLASS_MINUS_INFINITY);
	else if (ndigits == 0)
		appendStringInfoCharMacro(out, CLASS_ZERO);
	else
	{
		Assert(weight >= PG_INT16_MIN && weight <= PG_INT16_MAX);
		mask = sign == WIRE_NEGATIVE ? 0xFFFF : 0;
		appendStringInfoCharMacro(out, mask ? CLASS_NEGATIVE : CLASS_POSITIVE);
		put_uint16(out, (uint16) (weight + 0x8000) ^ mask);
		for (int i = 0; i < ndigits; i++)
			put_uint16(out, (uint16) (get_uint16(digits + 2 * i) + 1) ^ mask);
		put_uint16(out, mask);
	}
	pfree(wire);
}

uint32
lsm_numeric_code_length(const uint8 *bytes, uint32 len, uint8 mask)
{
	uint8		class = bytes[0] ^ mask;

	if (class != CLASS_NEGATIVE && class != CLASS_POSITIVE)
		return class < CLASS_MINUS_INFINITY || class > CLASS_NAN ? LSM_VALUE_CORRUPT : 1;
	if (class == CLASS_NEGATIVE)
		mask = ~mask;
	for (uint32 i = 3; i + 2 <= len; i += 2)
		if (bytes[i] == mask && bytes[i + 1] == mask)
			return i + 2;
	return 0;
}

bool
lsm_numeric_code_ends(const uint8 *bytes, uint32 len)
{
	uint8		zero = bytes[0] == CLASS_NEGATIVE ? 0xFF : 0;

	if (bytes[0] != CLASS_NEGATIVE && bytes[0] != CLASS_POSITIVE)
		return true;
	return len >= 5 && len % 2 == 1 && bytes[len - 2] == zero && bytes[len - 1] == zero;
}

/* `bytes`: exactly one code, DESC already undone. */
Datum
lsm_decode_numeric(const uint8 *bytes, uint32 len)
{
	StringInfoData wire;
	Datum		value;
	int			ndigits = 0;
	int			weight = 0;
	uint16		sign = WIRE_POSITIVE;
	uint16		mask = 0;

	switch (bytes[0])
	{
		case CLASS_MINUS_INFINITY:
			sign = WIRE_MINUS_INFINITY;
			break;
		case CLASS_INFINITY:
			sign = WIRE_INFINITY;
			break;
		case CLASS_NAN:
			sign = WIRE_NAN;
			break;
		case CLASS_ZERO:
			break;
		case CLASS_NEGATIVE:
			sign = WIRE_NEGATIVE;
			mask = 0xFFFF;
			pg_fallthrough;
		case CLASS_POSITIVE:
			if (len < 7 || len % 2 == 0)
				lsm_code_corrupt();
			weight = (int) (get_uint16(bytes + 1) ^ mask) - 0x8000;
			ndigits = (len - 5) / 2;
			break;
		default:
			lsm_code_corrupt();
	}

	lsm_buffer_init(&wire, WIRE_HEADER_BYTES + 2 * ndigits + 1);
	put_uint16(&wire, ndigits);
	put_uint16(&wire, (uint16) weight);
	put_uint16(&wire, sign);
	/* the last digit may have zeros beyond the greatest scale: cut there */
	put_uint16(&wire, Min(Max((ndigits - 1 - weight) * DIGITS_PER_WORD, 0),
						  WIRE_MAX_SCALE));
	for (int i = 0; i < ndigits; i++)
		put_uint16(&wire, (uint16) ((get_uint16(bytes + 3 + 2 * i) ^ mask) - 1));

	value = DirectFunctionCall3(numeric_recv, PointerGetDatum(&wire),
								ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	pfree(wire.data);
	return value;
}
