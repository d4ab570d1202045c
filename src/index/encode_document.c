/*-------------------------------------------------------------------------
 *
 * encode_document.c
 *	  What the codes of oidvector, tsvector and jsonb are made of.
 *
 *		oidvector	number of elements, elements (btoidvectorcmp)
 *		tsvector	bytes of the value, number of lexemes; of each whether it
 *					has positions, the lexeme, number of positions,
 *					positions and weights (silly_cmp_tsvector).  What is less if it is
 *					greater is inverted.
 *		jsonb		the tokens in the order of compareJsonbContainers(): type,
 *					then number of elements or pairs, or the scalar
 *
 * No locks; detoasting may read the table's TOAST table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "tsearch/ts_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "index/compose.h"
#include "index/integer_codes.h"

/*
 * An oidvector is an array that may have become one of another shape by
 * assignment to its elements; what it contains then, its operators do not know.
 */
void
lsm_put_oidvector(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	oidvector  *v = (oidvector *) PG_DETOAST_DATUM(value);

	if (v->ndim != 1 || v->dataoffset != 0 || v->elemtype != OIDOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("array is not a valid oidvector")));
	put_uint32(out, v->dim1);
	for (int i = 0; i < v->dim1; i++)
		put_uint32(out, v->values[i]);
	if ((Pointer) v != DatumGetPointer(value))
		pfree(v);
}

static void
put_uint16_inverted(StringInfo out, uint16 n)
{
	n = pg_hton16(~n);
	appendBinaryStringInfo(out, (char *) &n, sizeof(n));
}

void
lsm_put_tsvector(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	TSVector	v = DatumGetTSVector(value);

	put_uint32(out, VARSIZE(v));
	put_uint32(out, v->size);
	for (int i = 0; i < v->size; i++)
	{
		WordEntry  *entry = ARRPTR(v) + i;

		appendStringInfoCharMacro(out, entry->haspos ? 0 : 1);
		lsm_put_string(out, STRPTR(v) + entry->pos, entry->len);
		if (!entry->haspos)
			continue;
		put_uint16_inverted(out, POSDATALEN(v, entry));
		for (int k = 0; k < POSDATALEN(v, entry); k++)
		{
			WordEntryPos pos = POSDATAPTR(v, entry)[k];

			put_uint16_inverted(out, WEP_GETPOS(pos) << 2 | WEP_GETWEIGHT(pos));
		}
	}
	if ((Pointer) v != DatumGetPointer(value))
		pfree(v);
}

StaticAssertDecl(jbvNull == 0 && jbvString == 1 && jbvNumeric == 2 && jbvBool == 3 &&
				 jbvArray == 0x10 && jbvObject == 0x11,
				 "types of jsonb values are on disk");

/* A scalar, or the beginning of an array or object */
static void
put_jsonb_value(const LsmColumnSpec *strings, const JsonbValue *v, StringInfo out)
{
	appendStringInfoCharMacro(out, v->type);
	switch (v->type)
	{
		case jbvNull:
			break;
		case jbvString:
			lsm_put_text(out, strings, v->val.string.val, v->val.string.len);
			break;
		case jbvNumeric:
			lsm_encode_numeric(NumericGetDatum(v->val.numeric), out);
			break;
		case jbvBool:
			appendStringInfoCharMacro(out, v->val.boolean ? 1 : 0);
			break;
		case jbvArray:
			put_uint32(out, v->val.array.nElems);
			/* a scalar that is alone is kept in an array */
			appendStringInfoCharMacro(out, v->val.array.rawScalar ? 0 : 1);
			break;
		case jbvObject:
			put_uint32(out, v->val.object.nPairs);
			break;
		default:
			elog(ERROR, "unexpected type %d of a jsonb value", (int) v->type);
	}
}

void
lsm_put_jsonb(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	Jsonb	   *jsonb = DatumGetJsonbP(value);
	JsonbIterator *it = JsonbIteratorInit(&jsonb->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (token != WJB_END_ARRAY && token != WJB_END_OBJECT)
			put_jsonb_value(spec->parts->element, &v, out);
	}
	if ((Pointer) jsonb != DatumGetPointer(value))
		pfree(jsonb);
}
