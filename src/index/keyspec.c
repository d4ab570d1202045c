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

#include "index/compose.h"

/*
 * The planner asks before we can tell it that the index is of no use, so types
 * alone decide.  What is composed is kept in the entries.
 */
bool
lsm_index_can_return(Relation index, int attno)
{
	return attno > IndexRelationGetNumberOfKeyAttributes(index) ||
		!lsm_type_has(lsm_class_column_type(index->rd_opfamily[attno - 1],
											index->rd_opcintype[attno - 1]), LSM_TYPE_LOSSY);
}

static void
refuse_type(Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("lsm_index cannot encode values of type %s", format_type_be(type)),
			 errhint("Use the operator classes that come with lsmam, or one with support function 11, 12 or 13.")));
}

static void
composed_column(Relation index, int column, LsmColumnSpec *spec)
{
	Oid			culprit;
	uint32		dropped = 0;

	if (!lsm_compose_spec(index->rd_opfamily[column], index->rd_opcintype[column],
						  TupleDescAttr(RelationGetDescr(index), column)->atttypid,
						  index->rd_indcollation[column], spec, &culprit))
		refuse_type(culprit);
	if (lsm_compose_dropped(spec, &dropped) && lsm_row_types_changed(index))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" has values of row types whose columns have changed",
						RelationGetRelationName(index)),
				 errdetail("Its keys were made while these types had other columns."),
				 errhint("Rebuild the index with REINDEX.")));
}

bool
lsm_columns_have_codes(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		LsmColumnSpec spec = {0};
		Oid			culprit;
		uint32		dropped = 0;

		if (!lsm_type_is_composed(lsm_class_column_type(index->rd_opfamily[i],
														index->rd_opcintype[i])))
			continue;
		if (!lsm_compose_spec(index->rd_opfamily[i], index->rd_opcintype[i],
							  TupleDescAttr(RelationGetDescr(index), i)->atttypid,
							  index->rd_indcollation[i], &spec, &culprit) ||
			(lsm_compose_dropped(&spec, &dropped) && lsm_row_types_changed(index)))
			return false;
	}
	return !lsm_index_making_changed(index);
}

void
lsm_column_spec(Relation index, int column, LsmColumnSpec *spec)
{
	int16		option = index->rd_indoption[column];
	Oid			opcintype = index->rd_opcintype[column];
	Oid			collation = index->rd_indcollation[column];
	Oid			order_proc = index_getprocid(index, column + 1, 1);
	Oid			code_type = lsm_class_code_type(index->rd_opfamily[column], opcintype);
	uint8		extent;

	memset(spec, 0, sizeof(LsmColumnSpec));
	spec->type = lsm_class_column_type(index->rd_opfamily[column], opcintype);
	if (spec->type == LSM_COLUMN_INVALID)
		refuse_type(opcintype);
	spec->opcintype = opcintype;
	spec->descending = (option & INDOPTION_DESC) != 0;
	spec->nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;
	spec->compare = index_getprocinfo(index, column + 1, LSM_PROC_COMPARE);
	if (lsm_type_is_composed(spec->type))
	{
		composed_column(index, column, spec);
		return;
	}
	if (lsm_class_has_normal_text(index->rd_opfamily[column], opcintype))
	{
		spec->normal_text = index_getprocinfo(index, column + 1, LSM_PROC_NORMAL_TEXT);
		lsm_check_normal_text(spec->normal_text->fn_oid, opcintype);
	}
	if (!lsm_index_strings(index, column, &spec->strings))
		lsm_index_newer(index);
	spec->locale = NULL;
	spec->enum_type = spec->type == LSM_COLUMN_ENUM ?
		TupleDescAttr(RelationGetDescr(index), column)->atttypid : InvalidOid;
	if (spec->strings != LSM_STRINGS_BYTES)
		spec->locale = lsm_collation_locale(collation);
	spec->order = lsm_class_order(index->rd_opfamily[column], opcintype,
								  lsm_scalar_order(code_type, collation, order_proc,
												   spec->strings));
	spec->collation = collation;
	spec->opaque = spec->strings == LSM_STRINGS_KEY;
	spec->kept = spec->opaque || spec->normal_text != NULL;
	spec->returnable = !lsm_type_has(spec->type, LSM_TYPE_LOSSY);
	extent = lsm_value_extent(spec->type, spec->strings);
	spec->fixed_bytes = extent < LSM_EXTENT_VARIES ? 1 + extent : 0;
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
	lsm_index_require_making(index);
	for (int i = 0; i < spec->nkeys; i++)
	{
		lsm_column_spec(index, i, &spec->columns[i]);
		if (spec->columns[i].kept)
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
		TupleDescFinalize(spec->stored);
	}
}

LsmKeySpec *
lsm_key_spec(Relation index)
{
	LsmKeySpec *spec = palloc(LSM_KEY_SPEC_BYTES(IndexRelationGetNumberOfKeyAttributes(index)));

	lsm_key_spec_fill(index, spec);
	return spec;
}
