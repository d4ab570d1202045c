/*-------------------------------------------------------------------------
 *
 * payload.c
 *	  Values of entries: the tag, then the INCLUDE columns, and strings that the
 *	  key has only the sort keys of.
 *
 *		tag byte | 1 if a null bitmap follows, else 0 | bitmap | column data
 *
 * Column data and bitmap are those of a heap tuple of these columns
 * (heap_fill_tuple), laid out as if at an aligned address.  Nothing is stored
 * out of line; compressed values stay compressed, and long strings of key
 * columns are compressed as btree does it.  Without such columns a value is the
 * tag alone.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/itup.h"
#include "access/toast_internals.h"
#include "utils/rel.h"

#include "index/index.h"

/* Longer ones are compressed: as in index_form_tuple() */
#define LONG_STRING_BYTES	TOAST_INDEX_TARGET

/* A value as it is stored */
static Datum
stored_value(Form_pg_attribute att, Datum value, bool of_key)
{
	if (att->attlen != -1)
		return value;
	if (VARATT_IS_EXTERNAL(DatumGetPointer(value)))
		value = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(value)));
	if (of_key &&
		(att->attstorage == TYPSTORAGE_EXTENDED || att->attstorage == TYPSTORAGE_MAIN) &&
		!VARATT_IS_EXTENDED(DatumGetPointer(value)) &&
		VARSIZE(DatumGetPointer(value)) > LONG_STRING_BYTES)
	{
		Datum		compressed = toast_compress_datum(value, att->attcompression);

		if (DatumGetPointer(compressed) != NULL)
			value = compressed;
	}
	return value;
}

void
lsm_form_value(const LsmKeySpec *spec, Datum *values, bool *isnull, StringInfo out)
{
	int			n = spec->nincluded + spec->nkept;
	Datum		stored[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	uint8		bitmap[(INDEX_MAX_KEYS + 7) / 8] = {0};
	bool		hasnull = false;
	uint16		infomask = 0;
	Size		data_bytes;
	char	   *data;

	resetStringInfo(out);
	appendStringInfoCharMacro(out, LSM_TAG_PUT);
	if (n == 0)
		return;

	for (int i = 0; i < n; i++)
	{
		bool		of_key = i >= spec->nincluded;
		int			column = of_key ? spec->kept[i - spec->nincluded] : spec->nkeys + i;

		nulls[i] = isnull[column];
		hasnull |= nulls[i];
		stored[i] = nulls[i] ? (Datum) 0 :
			stored_value(TupleDescAttr(spec->stored, i), values[column], of_key);
	}

	data_bytes = heap_compute_data_size(spec->stored, stored, nulls);
	data = palloc0(data_bytes);
	heap_fill_tuple(spec->stored, stored, nulls, data, data_bytes,
					&infomask, hasnull ? bitmap : NULL);

	appendStringInfoCharMacro(out, hasnull ? 1 : 0);
	if (hasnull)
		appendBinaryStringInfo(out, (char *) bitmap, BITMAPLEN(n));
	appendBinaryStringInfo(out, data, data_bytes);
	pfree(data);
}

void
lsm_deform_value(const LsmKeySpec *spec, LsmSlice value, Datum *values, bool *isnull)
{
	int			n = spec->nincluded + spec->nkept;
	Datum		stored[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	uint8		bitmap[(INDEX_MAX_KEYS + 7) / 8];
	uint32		start = 2;
	bool		hasnull;
	char	   *data;

	if (n == 0)
		return;
	if (value.len < start)
		lsm_code_corrupt();
	hasnull = value.data[1] != 0;
	if (hasnull)
	{
		start += BITMAPLEN(n);
		if (value.len < start)
			lsm_code_corrupt();
		memcpy(bitmap, value.data + 2, BITMAPLEN(n));
	}

	/* at an aligned address */
	data = palloc(value.len - start + 1);
	memcpy(data, value.data + start, value.len - start);
	index_deform_tuple_internal(spec->stored, stored, nulls, data, bitmap, hasnull);
	for (int i = 0; i < n; i++)
	{
		int			column = i < spec->nincluded ? spec->nkeys + i :
			spec->kept[i - spec->nincluded];

		values[column] = stored[i];
		isnull[column] = nulls[i];
	}
}

void
lsm_check_entry_bytes(Relation index, int key_bytes, int value_bytes)
{
	bool		included = IndexRelationGetNumberOfAttributes(index) >
		IndexRelationGetNumberOfKeyAttributes(index);

	if (key_bytes + value_bytes > LSM_MAX_ENTRY_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index entry of %d bytes exceeds lsm_index maximum %d for index \"%s\"",
						key_bytes + value_bytes, LSM_MAX_ENTRY_BYTES,
						RelationGetRelationName(index)),
				 included ? errhint("Do not INCLUDE columns with large values.") :
				 errhint("Consider a function index of an MD5 hash of the value.")));
}
