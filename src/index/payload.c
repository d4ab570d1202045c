/*-------------------------------------------------------------------------
 *
 * payload.c
 *	  Values of entries: the tag, then the INCLUDE columns.
 *
 *		tag byte | 1 if a null bitmap follows, else 0 | bitmap | column data
 *
 * Column data and bitmap are those of a heap tuple of the included columns
 * (heap_fill_tuple), laid out as if at an aligned address.  Nothing is stored
 * out of line; compressed values stay compressed.  Without INCLUDE columns a
 * value is the tag alone.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/itup.h"
#include "utils/rel.h"

#include "index/index.h"

void
lsm_form_value(const LsmKeySpec *spec, Datum *values, bool *isnull, StringInfo out)
{
	Datum		included[INDEX_MAX_KEYS];
	bool	   *nulls = isnull + spec->nkeys;
	bits8		bitmap[(INDEX_MAX_KEYS + 7) / 8] = {0};
	bool		hasnull = false;
	uint16		infomask = 0;
	Size		data_bytes;
	char	   *data;

	resetStringInfo(out);
	appendStringInfoCharMacro(out, LSM_TAG_PUT);
	if (spec->nincluded == 0)
		return;

	for (int i = 0; i < spec->nincluded; i++)
	{
		included[i] = values[spec->nkeys + i];
		if (nulls[i])
			hasnull = true;
		else if (TupleDescAttr(spec->included, i)->attlen == -1 &&
				 VARATT_IS_EXTERNAL(DatumGetPointer(included[i])))
			included[i] = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(included[i])));
	}

	data_bytes = heap_compute_data_size(spec->included, included, nulls);
	data = palloc0(data_bytes);
	heap_fill_tuple(spec->included, included, nulls, data, data_bytes,
					&infomask, hasnull ? bitmap : NULL);

	appendStringInfoCharMacro(out, hasnull ? 1 : 0);
	if (hasnull)
		appendBinaryStringInfo(out, (char *) bitmap, BITMAPLEN(spec->nincluded));
	appendBinaryStringInfo(out, data, data_bytes);
	pfree(data);
}

void
lsm_deform_value(const LsmKeySpec *spec, LsmSlice value, Datum *values, bool *isnull)
{
	bits8		bitmap[(INDEX_MAX_KEYS + 7) / 8];
	uint32		start = 2;
	bool		hasnull;
	char	   *data;

	if (spec->nincluded == 0)
		return;
	if (value.len < start)
		lsm_code_corrupt();
	hasnull = value.data[1] != 0;
	if (hasnull)
	{
		start += BITMAPLEN(spec->nincluded);
		if (value.len < start)
			lsm_code_corrupt();
		memcpy(bitmap, value.data + 2, BITMAPLEN(spec->nincluded));
	}

	/* at an aligned address */
	data = palloc(value.len - start + 1);
	memcpy(data, value.data + start, value.len - start);
	index_deform_tuple_internal(spec->included, values, isnull, data, bitmap, hasnull);
}

void
lsm_check_entry_bytes(Relation index, int key_bytes, int value_bytes)
{
	if (key_bytes + value_bytes > LSM_MAX_ENTRY_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index entry of %d bytes exceeds lsm_index maximum %d for index \"%s\"",
						key_bytes + value_bytes, LSM_MAX_ENTRY_BYTES,
						RelationGetRelationName(index)),
				 errhint("Do not INCLUDE columns with large values.")));
}
