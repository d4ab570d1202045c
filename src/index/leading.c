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

#include "utils/rel.h"

#include "index/rules.h"

/* A byte of the word: the extent of the value part, and this if it is inverted */
#define LEADING_DESCENDING	0x80

/* ======================================================================
 * Where they end
 * ====================================================================== */

/*
 * A value part that is packed, or none, ends nowhere: what would be an error to
 * others is not one here, as a filter is only worth time.
 */
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
		len = lsm_value_length(leading & (LEADING_DESCENDING - 1), bytes + at,
							   filter_key.len - at, leading & LEADING_DESCENDING ? 0xFF : 0);
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
	LsmStrings	strings = LSM_STRINGS_BYTES;
	uint8		extent = lsm_value_extent(type, strings);

	if (type == LSM_COLUMN_INVALID)
		return 0;
	if (extent == LSM_EXTENT_STRING && !lsm_type_is_composed(type))
	{
		if (!lsm_index_strings(index, column, &strings))
			return 0;
		extent = lsm_value_extent(type, strings);
	}
	if (index->rd_indoption[column] & INDOPTION_DESC)
		extent |= LEADING_DESCENDING;
	return extent;
}

/*
 * Are ranges what the column is asked for, and its values nearly all different?
 * Then leading parts with it would be as many as keys, and serve no scan that
 * has points for the columns before it.
 */
static bool
is_asked_for_ranges(Relation index, int column)
{
	return lsm_type_has(lsm_class_column_type(index->rd_opfamily[column],
											  index->rd_opcintype[column]), LSM_TYPE_RANGES);
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
	if (n > 0 && lsm_index_making_changed(index))
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
