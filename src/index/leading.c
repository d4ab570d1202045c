/*-------------------------------------------------------------------------
 *
 * leading.c
 *	  The leading columns that filters know beside the whole key: which they
 *	  are, and where they end in a key.
 *
 * Flushes and compactions run in workers that see no catalog.  So whoever
 * opens an index leaves in shared memory, as one word (LsmTreeOptions.leading),
 * what a code of each of these columns looks like.  The code of a column is no
 * prefix of another one, and equal values have equal codes: so entries whose
 * leading columns are equal begin with the same bytes, and no others do.
 *
 * No locks; the caller has the index open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/inet.h"
#include "utils/rel.h"

#include "index/rules.h"

/* A byte of the word: the size of the value part, or one of these */
#define LEADING_NUMERIC		0x40
#define LEADING_STRING		0x41
#define LEADING_TWO_STRINGS	0x42
#define LEADING_INET		0x43
#define LEADING_DESCENDING	0x80	/* value part inverted */

/* ======================================================================
 * Where they end
 * ====================================================================== */

/* Length of a value part of so many strings; 0: it does not end here. */
static uint32
strings_bytes(const uint8 *bytes, uint32 len, uint8 mask, int nstrings)
{
	uint32		i = 0;

	for (;;)
	{
		const uint8 *escape = i < len ? memchr(bytes + i, LSM_STRING_ESCAPE ^ mask, len - i) : NULL;

		if (escape == NULL || escape + 1 >= bytes + len)
			return 0;
		i = escape + 2 - bytes;
		if ((escape[1] ^ mask) == LSM_STRING_END && --nstrings == 0)
			return i;
	}
}

/*
 * Length of a value part; 0: it is packed, or is none.  What would be an error
 * to others is not one here: a filter is only worth time.
 */
static uint32
value_part_bytes(uint8 how, const uint8 *bytes, uint32 len)
{
	uint8		mask = how & LEADING_DESCENDING ? 0xFF : 0;
	uint32		plain = Min(len, LSM_CODE_PLAIN_BYTES);

	how &= ~LEADING_DESCENDING;
	switch (how)
	{
		case LEADING_NUMERIC:
			return lsm_numeric_code_bytes(bytes, plain, mask);
		case LEADING_STRING:
			return strings_bytes(bytes, plain, mask, 1);
		case LEADING_TWO_STRINGS:
			return strings_bytes(bytes, plain, mask, 2);
		case LEADING_INET:
			return len > 0 ? lsm_inet_code_length(bytes, len, mask) : 0;
		default:
			return how;
	}
}

uint32
lsm_leading_bytes(uint64 leading, LsmSlice filter_key)
{
	const uint8 *bytes = (const uint8 *) filter_key.data;
	uint32		at = 0;

	for (; leading != 0; leading >>= 8)
	{
		uint32		len;

		if (at >= filter_key.len)
			return 0;
		if (bytes[at++] != LSM_CODE_NOT_NULL)
			continue;
		len = value_part_bytes((uint8) leading, bytes + at, filter_key.len - at);
		if (len == 0 || len > filter_key.len - at)
			return 0;
		at += len;
	}
	return at;
}

/* ======================================================================
 * Which they are
 * ====================================================================== */

/* The word's byte of a column; 0: not a column for filters. */
static uint8
leading_byte(Relation index, int column)
{
	Oid			opcintype = index->rd_opcintype[column];
	LsmColumnType type = lsm_class_column_type(index->rd_opfamily[column], opcintype);
	LsmStrings	strings;
	uint8		how;

	if (type == LSM_COLUMN_INVALID)
		return 0;
	how = lsm_value_bytes(type);
	if (type == LSM_COLUMN_NUMERIC)
		how = LEADING_NUMERIC;
	else if (type == LSM_COLUMN_INET)
		how = LEADING_INET;
	else if (type == LSM_COLUMN_BIT)
		how = LEADING_TWO_STRINGS;
	else if (lsm_type_is_composed(type))
		how = LEADING_STRING;
	else if (how == 0)
	{
		if (!lsm_index_strings(index, column, &strings))
			return 0;
		how = strings == LSM_STRINGS_KEY_AND_BYTES || lsm_strings_are_libc(strings) ?
			LEADING_TWO_STRINGS : LEADING_STRING;
	}
	if (index->rd_indoption[column] & INDOPTION_DESC)
		how |= LEADING_DESCENDING;
	return how;
}

/*
 * Are ranges what the column is asked for, and its values nearly all different?
 * Then leading parts with it would be as many as keys, and serve no scan that
 * has points for the columns before it.
 */
static bool
is_asked_for_ranges(Relation index, int column)
{
	switch (lsm_class_column_type(index->rd_opfamily[column], index->rd_opcintype[column]))
	{
		case LSM_COLUMN_TIMESTAMP:
		case LSM_COLUMN_TIMESTAMPTZ:
		case LSM_COLUMN_TIME:
		case LSM_COLUMN_TIMETZ:
		case LSM_COLUMN_INTERVAL:
		case LSM_COLUMN_FLOAT4:
		case LSM_COLUMN_FLOAT8:
			return true;
		default:
			return false;
	}
}

uint64
lsm_leading_word(Relation index, int filter_columns)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	int			n = filter_columns < 0 ? nkeys - 1 : Min(filter_columns, nkeys - 1);
	uint64		leading = 0;

	n = Min(n, LSM_FILTER_LEADING_MAX);

	/*
	 * The layout of an old index would be a guess now, and filters outlive
	 * its being refused.
	 */
	if (n > 0 && lsm_index_collations_changed(index))
		return 0;
	for (int i = 0; i < n && (filter_columns >= 0 || !is_asked_for_ranges(index, i)); i++)
	{
		uint8		how = leading_byte(index, i);

		/* fewer columns than asked for */
		if (how == 0)
			break;
		leading |= (uint64) how << (8 * i);
	}
	return leading;
}

uint64
lsm_leading_known(Relation index, int filter_columns)
{
	LsmIndexCache *cache = index->rd_amcache;

	if (cache == NULL || !cache->has_leading)
	{
		uint64		leading = lsm_leading_word(index, filter_columns);

		/* reading the catalogs may have emptied the cache */
		cache = lsm_index_cache(index);
		cache->leading = leading;
		cache->has_leading = true;
	}
	return cache->leading;
}
