/*-------------------------------------------------------------------------
 *
 * keyspec.c
 *	  How the columns of an index are encoded, derived from its operator
 *	  classes (opclass.c), options, collations and rules (rules.c).
 *
 * No locks; the caller has the index open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_index.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "index/index.h"

/*
 * Values that differ but compare equal share a code, which gives back only one
 * of them.
 */
static bool
type_is_returnable(LsmColumnType type)
{
	switch (type)
	{
		case LSM_COLUMN_FLOAT4: /* 0 and -0 */
		case LSM_COLUMN_FLOAT8:
		case LSM_COLUMN_NUMERIC:	/* 1.0 and 1.00 */
		case LSM_COLUMN_BPCHAR: /* trailing blanks */
		case LSM_COLUMN_INTERVAL:	/* 1 month and 30 days */
			return false;
		default:
			return true;
	}
}

void
lsm_column_spec(Relation index, int column, LsmColumnSpec *spec)
{
	int16		option = index->rd_indoption[column];
	Oid			opcintype = index->rd_opcintype[column];
	Oid			collation = index->rd_indcollation[column];
	Oid			order_proc = index_getprocid(index, column + 1, 1);
	uint32		rules = LSM_KEY_RULES_CURRENT;

	spec->type = lsm_column_type(opcintype);
	if (spec->type == LSM_COLUMN_INVALID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("lsm_index cannot encode values of type %s",
						format_type_be(opcintype)),
				 errhint("Use the operator classes that come with lsmam.")));
	spec->descending = (option & INDOPTION_DESC) != 0;
	spec->nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;
	spec->strings = lsm_strings_of(opcintype, collation, order_proc, rules);
	spec->locale = NULL;
	spec->enum_type = spec->type == LSM_COLUMN_ENUM ?
		TupleDescAttr(RelationGetDescr(index), column)->atttypid : InvalidOid;
	if (spec->strings != LSM_STRINGS_BYTES)
	{
		rules = lsm_index_rules(index);
		spec->strings = lsm_strings_of(opcintype, collation, order_proc, rules);
		spec->locale = lsm_collation_locale(collation);
	}
	spec->order = lsm_column_order(opcintype, collation, order_proc, rules);
	spec->collation = collation;
	spec->compare = index_getprocinfo(index, column + 1, 1);
	spec->returnable = type_is_returnable(spec->type);
}

void
lsm_key_spec_fill(Relation index, LsmKeySpec *spec)
{
	TupleDesc	desc = RelationGetDescr(index);

	spec->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	spec->nincluded = IndexRelationGetNumberOfAttributes(index) - spec->nkeys;
	spec->unique = index->rd_index->indisunique;
	spec->nulls_distinct = !index->rd_index->indnullsnotdistinct;
	spec->nkept = 0;
	for (int i = 0; i < spec->nkeys; i++)
	{
		lsm_column_spec(index, i, &spec->columns[i]);
		if (spec->columns[i].strings == LSM_STRINGS_KEY)
			spec->kept[spec->nkept++] = i;
	}
	spec->stored = NULL;
	if (spec->nincluded + spec->nkept > 0)
	{
		spec->stored = CreateTemplateTupleDesc(spec->nincluded + spec->nkept);
		for (int i = 0; i < spec->nincluded; i++)
			TupleDescCopyEntry(spec->stored, i + 1, desc, spec->nkeys + i + 1);
		for (int i = 0; i < spec->nkept; i++)
			TupleDescCopyEntry(spec->stored, spec->nincluded + i + 1, desc,
							   spec->kept[i] + 1);
	}
}

LsmKeySpec *
lsm_key_spec(Relation index)
{
	LsmKeySpec *spec = palloc(sizeof(LsmKeySpec));

	lsm_key_spec_fill(index, spec);
	return spec;
}
