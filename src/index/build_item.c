/*-------------------------------------------------------------------------
 *
 * build_item.c
 *	  CREATE INDEX: an entry as a value that a sort orders by its first bytes.
 *
 *		item	key, packed | value | flags, 1 byte | length of the packed key,
 *				2 bytes
 *
 * Items are bytea values, compared by memcmp.  What follows the key never
 * decides: column codes are prefix-free and the TID after them has a fixed
 * length, so of two different keys neither is a prefix of the other, and memcmp
 * ends within them.
 *
 * tuplesort keeps the first eight bytes of a bytea beside its pointer, and goes
 * to the item itself where these are equal, which is a cache miss each.  The
 * code of a bigint is a marker and eight bytes, the first of which are the same
 * in most tables.  So the integers that a key begins with are packed: without
 * their leading bytes, behind a byte that says how many are left.
 *
 *		n >= 0		80 + bytes left | n, big-endian
 *		n < 0		7F - bytes left | ~n, inverted
 *		NULL		01 (first) or FF (last)
 *
 * A greater number has no fewer bytes left than a lesser one, of positive ones,
 * so the order stays; as the first byte tells the length, so does being
 * prefix-free.  DESC inverts all of it but the NULLs'.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "index/build.h"

#define TRAILER_BYTES	3
#define ZERO_BYTES_LEFT	0x80
#define NULL_LAST		0xFF

/*
 * Bytes of the code of an integer type; 0: another type.  *zero: the code of 0,
 * below which negative numbers are.
 */
static int
integer_bytes(LsmColumnType type, uint64 *zero)
{
	int			bytes = 0;

	*zero = 0;
	switch (type)
	{
		case LSM_COLUMN_INT2:
		case LSM_COLUMN_INT4:
		case LSM_COLUMN_INT8:
		case LSM_COLUMN_DATE:
		case LSM_COLUMN_TIME:
		case LSM_COLUMN_TIMESTAMP:
		case LSM_COLUMN_TIMESTAMPTZ:
		case LSM_COLUMN_MONEY:
			bytes = lsm_value_bytes(type);
			*zero = UINT64CONST(1) << (bytes * BITS_PER_BYTE - 1);
			break;
		case LSM_COLUMN_OID:
		case LSM_COLUMN_ENUM:
		case LSM_COLUMN_PG_LSN:
		case LSM_COLUMN_XID8:
			bytes = lsm_value_bytes(type);
			break;
		default:
			break;
	}
	return bytes;
}

void
lsm_item_form_init(LsmItemForm *form, const LsmKeySpec *spec)
{
	form->npacked = 0;
	while (form->npacked < spec->nkeys)
	{
		LsmPackedColumn *column = &form->columns[form->npacked];

		column->bytes = integer_bytes(spec->columns[form->npacked].type, &column->zero);
		if (column->bytes == 0)
			break;
		column->mask = spec->columns[form->npacked].descending ? 0xFF : 0;
		form->npacked++;
	}
	initStringInfo(&form->buffers[0]);
	initStringInfo(&form->buffers[1]);
	form->current = 0;
}

/* ---- packing ---- */

static inline uint64
get_bytes(const uint8 *from, int n, uint8 mask)
{
	uint64		x = 0;

	for (int i = 0; i < n; i++)
		x = x << BITS_PER_BYTE | (from[i] ^ mask);
	return x;
}

static inline void
put_bytes(uint8 *to, uint64 x, int n, uint8 mask)
{
	for (int i = n - 1; i >= 0; i--)
	{
		to[i] = (uint8) x ^ mask;
		x >>= BITS_PER_BYTE;
	}
}

static inline int
bytes_left(uint64 x)
{
	return x == 0 ? 0 : pg_leftmost_one_pos64(x) / BITS_PER_BYTE + 1;
}

/* Pack the code at *from; both pointers go behind it. */
static inline void
pack_column(const LsmPackedColumn *column, const uint8 **from, uint8 **to)
{
	const uint8 *code = *from;
	uint8	   *out = *to;
	uint64		x;
	uint64		left;
	int			n;
	bool		negative;

	if (code[0] != LSM_CODE_NOT_NULL)
	{
		out[0] = code[0] == LSM_CODE_NULL_LAST ? NULL_LAST : code[0];
		*from = code + 1;
		*to = out + 1;
		return;
	}
	x = get_bytes(code + 1, column->bytes, column->mask);
	negative = x < column->zero;
	left = negative ? column->zero - 1 - x : x - column->zero;
	n = bytes_left(left);
	out[0] = (negative ? ZERO_BYTES_LEFT - 1 - n : ZERO_BYTES_LEFT + n) ^ column->mask;
	put_bytes(out + 1, left, n, negative ? column->mask ^ 0xFF : column->mask);
	*from = code + 1 + column->bytes;
	*to = out + 1 + n;
}

/* The opposite */
static inline void
unpack_column(const LsmPackedColumn *column, const uint8 **from, uint8 **to)
{
	const uint8 *packed = *from;
	uint8	   *code = *to;
	uint8		first;
	uint64		left;
	int			n;
	bool		negative;

	if (packed[0] == LSM_CODE_NULL_FIRST || packed[0] == NULL_LAST)
	{
		code[0] = packed[0] == NULL_LAST ? LSM_CODE_NULL_LAST : packed[0];
		*from = packed + 1;
		*to = code + 1;
		return;
	}
	first = packed[0] ^ column->mask;
	negative = first < ZERO_BYTES_LEFT;
	n = negative ? ZERO_BYTES_LEFT - 1 - first : first - ZERO_BYTES_LEFT;
	Assert(n <= column->bytes);
	left = get_bytes(packed + 1, n, negative ? column->mask ^ 0xFF : column->mask);
	code[0] = LSM_CODE_NOT_NULL;
	put_bytes(code + 1, negative ? column->zero - 1 - left : column->zero + left,
			  column->bytes, column->mask);
	*from = packed + 1 + n;
	*to = code + 1 + column->bytes;
}

/* ---- items ---- */

void
lsm_item_form(const LsmItemForm *form, LsmSlice key, LsmSlice value, uint8 flags,
			  StringInfo item)
{
	const uint8 *from = (const uint8 *) key.data;
	const uint8 *end = from + key.len;
	uint8	   *begin;
	uint8	   *to;
	uint32		key_bytes;

	resetStringInfo(item);
	/* a packed code has at most the bytes of the code */
	enlargeStringInfo(item, VARHDRSZ + key.len + value.len + TRAILER_BYTES);
	begin = to = (uint8 *) item->data + VARHDRSZ;
	for (int i = 0; i < form->npacked; i++)
		pack_column(&form->columns[i], &from, &to);
	memcpy(to, from, end - from);
	to += end - from;
	key_bytes = to - begin;
	memcpy(to, value.data, value.len);
	to += value.len;
	to[0] = flags;
	to[1] = (uint8) (key_bytes >> 8);
	to[2] = (uint8) key_bytes;
	SET_VARSIZE(item->data, (char *) to + TRAILER_BYTES - item->data);
}

void
lsm_item_read(LsmItemForm *form, const bytea *item, LsmItem *entry)
{
	const uint8 *data = (const uint8 *) VARDATA_ANY(item);
	const uint8 *trailer = data + VARSIZE_ANY_EXHDR(item) - TRAILER_BYTES;
	const uint8 *key_end = data + ((trailer[1] << 8) | trailer[2]);
	StringInfo	buffer = &form->buffers[form->current];
	const uint8 *from = data;
	uint8	   *to;

	entry->value = lsm_slice((const char *) key_end, trailer - key_end);
	entry->flags = trailer[0];
	if (form->npacked == 0)
	{
		entry->key = lsm_slice((const char *) data, key_end - data);
		return;
	}
	form->current ^= 1;
	resetStringInfo(buffer);
	enlargeStringInfo(buffer, key_end - data + form->npacked * (int) sizeof(uint64));
	to = (uint8 *) buffer->data;
	for (int i = 0; i < form->npacked; i++)
		unpack_column(&form->columns[i], &from, &to);
	memcpy(to, from, key_end - from);
	to += key_end - from;
	entry->key = lsm_slice(buffer->data, (char *) to - buffer->data);
}
