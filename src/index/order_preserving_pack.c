/*-------------------------------------------------------------------------
 *
 * order_preserving_pack.c
 *	  Value parts of codes that are longer than LSM_CODE_PLAIN_BYTES are
 *	  packed: repetition is taken out, order and equality stay.
 *
 * btree compresses long keys (index_form_tuple), which it can as it compares
 * values.  We compare bytes.  LZP (C. Bloom, "LZP: a new data compression
 * algorithm", DCC 1996) suits: at a place that the bytes before alone
 * determine, it predicts the bytes to come, and only says how many of them are
 * as predicted.
 *
 *		packed		bytes 0 .. LSM_CODE_PLAIN_BYTES - 1 as they are, then bytes
 *					and runs
 *		place of	the last CONTEXT_BYTES bytes have occurred before, and as many
 *		a run		bytes have passed since the last run (since the start)
 *		predicted	what followed their last occurrence (of those that hash
 *					alike)
 *		run			number of bytes as predicted; 1 to 5 bytes
 *		then		the first byte that is not, as it is
 *
 * Where two values begin to differ they have been packed alike, and the next
 * run of both, if they are within one, begins at the same place with the same
 * prediction.  Say n bytes are as predicted.  If the next is less than
 * predicted, a greater n means a greater value (by then the other one has
 * become less); if it is greater than predicted, a greater n means a lesser
 * value; and all of the former are less than all of the latter.  So the
 * former's numbers are written in increasing order, the latter's inverted,
 * which puts them behind. Both end after the same n: the byte decides.  A code
 * that ends within a run counts as the former: no other code begins with it.
 *
 * A part without repetition may become longer, by one seventh at most.
 * Packing is done before DESC inverts the bytes.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "index/index.h"

/* Values may be as long as values can be: this many bytes without a look. */
#define BYTES_PER_CHECK	(64 * 1024)

#define CONTEXT_BYTES	6
#define HISTORY_BITS	12

/* First byte of a run: the number, or this plus the number's bytes */
#define RUN_LONG		0x70
#define RUN_GREATER		0x80	/* inverted if the first byte has this bit */

typedef struct History
{
	uint32		place[1 << HISTORY_BITS];	/* after the context; 0: none */
	uint32		noted;			/* first place not noted yet */
	uint32		last_run;		/* end of the last run, with the byte after it */
} History;

static History *
history_begin(void)
{
	History    *history = palloc0(sizeof(History));

	history->noted = CONTEXT_BYTES;
	return history;
}

static uint32 *
history_slot(History *history, const uint8 *raw, uint32 place)
{
	uint64		context = 0;

	memcpy(&context, raw + place - CONTEXT_BYTES, CONTEXT_BYTES);
	return &history->place[(context * UINT64CONST(0x9E3779B97F4A7C15)) >> (64 - HISTORY_BITS)];
}

/* Where what comes at `place` has come before; 0: there is no run here. */
static uint32
predict(History *history, const uint8 *raw, uint32 place)
{
	uint32		before;

	for (; history->noted < place; history->noted++)
	{
		if (history->noted % BYTES_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		*history_slot(history, raw, history->noted) = history->noted;
	}
	if (place - history->last_run < CONTEXT_BYTES)
		return 0;
	before = *history_slot(history, raw, place);
	if (before != 0 &&
		memcmp(raw + before - CONTEXT_BYTES, raw + place - CONTEXT_BYTES, CONTEXT_BYTES) != 0)
		return 0;
	return before;
}

/* ======================================================================
 * Runs
 * ====================================================================== */

static void
put_run(StringInfo out, uint32 n, bool greater)
{
	uint8		bytes[1 + sizeof(n)];
	int			len = 0;

	if (n < RUN_LONG)
		bytes[len++] = n;
	else
	{
		int			width = n > 0xFFFFFF ? 4 : n > 0xFFFF ? 3 : n > 0xFF ? 2 : 1;

		bytes[len++] = RUN_LONG + width;
		while (width > 0)
			bytes[len++] = n >> (8 * --width);
	}
	for (int i = 0; greater && i < len; i++)
		bytes[i] = ~bytes[i];
	appendBinaryStringInfo(out, (char *) bytes, len);
}

/* What is left to unpack; bytes are XORed with `mask` (DESC) */
typedef struct Packed
{
	const uint8 *next;
	const uint8 *end;
	uint8		mask;
} Packed;

static uint8
get_byte(Packed *packed)
{
	if (packed->next >= packed->end)
		lsm_code_corrupt();
	return *packed->next++ ^ packed->mask;
}

static uint32
get_run(Packed *packed)
{
	uint8		first = get_byte(packed);
	uint8		invert = first & RUN_GREATER ? 0xFF : 0;
	int			width;
	uint32		n = 0;

	first ^= invert;
	if (first < RUN_LONG)
		return first;
	width = first - RUN_LONG;
	if (width < 1 || width > (int) sizeof(n))
		lsm_code_corrupt();
	while (width-- > 0)
		n = (n << 8) | (get_byte(packed) ^ invert);
	return n;
}

/* ======================================================================
 * Codes
 * ====================================================================== */

void
lsm_pack_code(StringInfo out, int start)
{
	uint32		len = out->len - start;
	uint8	   *raw = palloc(len);
	History    *history = history_begin();
	uint32		i = LSM_CODE_PLAIN_BYTES;

	Assert(len > LSM_CODE_PLAIN_BYTES);
	memcpy(raw, out->data + start, len);
	out->len = start + LSM_CODE_PLAIN_BYTES;
	while (i < len)
	{
		uint32		before = predict(history, raw, i);

		if (before != 0)
		{
			uint32		n = 0;

			while (i + n < len && raw[before + n] == raw[i + n])
			{
				if (++n % BYTES_PER_CHECK == 0)
					CHECK_FOR_INTERRUPTS();
			}
			put_run(out, n, i + n < len && raw[i + n] > raw[before + n]);
			i += n;
			history->last_run = i + 1;
			if (i == len)
				break;
		}
		appendStringInfoCharMacro(out, raw[i]);
		i++;
	}
	out->data[out->len] = '\0';
	pfree(raw);
	pfree(history);
}

/*
 * Is the byte appended last the last one of a code?  *nstrings: how many are
 * still to end; 0: it is a numeric.
 */
static bool
code_ends(const StringInfoData *raw, int *nstrings, bool *escape)
{
	uint8		byte = raw->data[raw->len - 1];

	if (raw->len % BYTES_PER_CHECK == 0)
		CHECK_FOR_INTERRUPTS();
	if (*nstrings == 0)
		return lsm_numeric_code_ends((uint8 *) raw->data, raw->len);
	if (!*escape)
		*escape = byte == LSM_STRING_ESCAPE;
	else if (byte == LSM_STRING_END)
	{
		*escape = false;
		if (*nstrings == 1)
			return true;
		(*nstrings)--;
	}
	else if (byte == LSM_STRING_ESCAPED_ZERO)
		*escape = false;
	else
		lsm_code_corrupt();
	return false;
}

uint32
lsm_unpack_code(const uint8 *bytes, uint32 len, uint8 mask, int nstrings,
				StringInfo raw)
{
	Packed		packed = {bytes, bytes + len, mask};
	History    *history = history_begin();
	bool		escape = false;
	bool		ends = false;

	resetStringInfo(raw);
	while (!ends)
	{
		uint32		before = raw->len < LSM_CODE_PLAIN_BYTES ? 0 :
			predict(history, (uint8 *) raw->data, raw->len);
		uint8		byte;

		if (before != 0)
		{
			uint32		n = get_run(&packed);

			for (; n > 0 && !ends; n--)
			{
				byte = raw->data[before++];
				appendStringInfoCharMacro(raw, byte);
				ends = code_ends(raw, &nstrings, &escape);
			}
			if (n > 0)
				lsm_code_corrupt();
			if (ends)
				break;
			history->last_run = raw->len + 1;
		}
		byte = get_byte(&packed);
		appendStringInfoCharMacro(raw, byte);
		ends = code_ends(raw, &nstrings, &escape);
	}
	pfree(history);
	return packed.next - bytes;
}
