/*-------------------------------------------------------------------------
 *
 * keyspec.c
 *	  How the columns of an index are encoded, derived from its operator
 *	  classes, options and collations.
 *
 * No locks; the caller has the index open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xlog.h"
#include "access/tableam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/index.h"

/* LSM_COLUMN_INVALID for a type that has no operator class of ours. */
LsmColumnType
lsm_column_type(Oid opcintype)
{
	switch (opcintype)
	{
		case BOOLOID:
			return LSM_COLUMN_BOOL;
		case INT2OID:
			return LSM_COLUMN_INT2;
		case INT4OID:
			return LSM_COLUMN_INT4;
		case INT8OID:
			return LSM_COLUMN_INT8;
		case OIDOID:
			return LSM_COLUMN_OID;
		case CHAROID:
			return LSM_COLUMN_CHAR;
		case FLOAT4OID:
			return LSM_COLUMN_FLOAT4;
		case FLOAT8OID:
			return LSM_COLUMN_FLOAT8;
		case NUMERICOID:
			return LSM_COLUMN_NUMERIC;
		case TEXTOID:
		case VARCHAROID:
			return LSM_COLUMN_TEXT;
		case BPCHAROID:
			return LSM_COLUMN_BPCHAR;
		case NAMEOID:
			return LSM_COLUMN_NAME;
		case BYTEAOID:
			return LSM_COLUMN_BYTEA;
		case UUIDOID:
			return LSM_COLUMN_UUID;
		case DATEOID:
			return LSM_COLUMN_DATE;
		case TIMEOID:
			return LSM_COLUMN_TIME;
		case TIMETZOID:
			return LSM_COLUMN_TIMETZ;
		case TIMESTAMPOID:
			return LSM_COLUMN_TIMESTAMP;
		case TIMESTAMPTZOID:
			return LSM_COLUMN_TIMESTAMPTZ;
		case INTERVALOID:
			return LSM_COLUMN_INTERVAL;
		case ANYENUMOID:
			return LSM_COLUMN_ENUM;
		default:
			return LSM_COLUMN_INVALID;
	}
}

static bool
type_has_collation(LsmColumnType type)
{
	return type == LSM_COLUMN_TEXT || type == LSM_COLUMN_BPCHAR ||
		type == LSM_COLUMN_NAME;
}

/* The *_pattern_ops classes order by bytes whatever the collation. */
static bool
compares_by_pattern(Oid order_proc)
{
	return order_proc == F_BTTEXT_PATTERN_CMP || order_proc == F_BTBPCHAR_PATTERN_CMP;
}

LsmStrings
lsm_strings_of(Oid opcintype, Oid collation, Oid order_proc, uint32 rules)
{
	if (rules == LSM_KEY_RULES_BYTES || !type_has_collation(lsm_column_type(opcintype)) ||
		compares_by_pattern(order_proc))
		return LSM_STRINGS_BYTES;
	switch (lsm_collation_kind(collation))
	{
		case LSM_COLLATION_ICU:
			return LSM_STRINGS_KEY_AND_BYTES;
		case LSM_COLLATION_ICU_NONDETERMINISTIC:
			return LSM_STRINGS_KEY;
		case LSM_COLLATION_LIBC:
			return rules < LSM_KEY_RULES_LIBC ? LSM_STRINGS_BYTES :
				LSM_STRINGS_PRIMARY_AND_BYTES;
		default:
			return LSM_STRINGS_BYTES;
	}
}

LsmOrder
lsm_column_order(Oid opcintype, Oid collation, Oid order_proc, uint32 rules)
{
	LsmColumnType type = lsm_column_type(opcintype);

	if (type == LSM_COLUMN_ENUM)
		return LSM_ORDER_GROUPS;
	if (!type_has_collation(type) || compares_by_pattern(order_proc))
		return LSM_ORDER_CODES;
	switch (lsm_strings_of(opcintype, collation, order_proc, rules))
	{
		case LSM_STRINGS_KEY_AND_BYTES:
		case LSM_STRINGS_KEY:
			return LSM_ORDER_CODES;
		case LSM_STRINGS_PRIMARY_AND_BYTES:
			return LSM_ORDER_GROUPS;
		default:
			return lsm_collation_kind(collation) == LSM_COLLATION_BYTES ?
				LSM_ORDER_CODES : LSM_ORDER_NONE;
	}
}

static Oid
opclass_order_proc(Oid opclass)
{
	Oid			type = get_opclass_input_type(opclass);

	return get_opfamily_proc(get_opclass_family(opclass), type, type, 1);
}

bool
lsm_opclass_is_ordered(Oid opclass, Oid collation)
{
	return lsm_column_order(get_opclass_input_type(opclass), collation,
							opclass_order_proc(opclass),
							LSM_KEY_RULES_CURRENT) != LSM_ORDER_NONE;
}

/*
 * Under a nondeterministic collation what is equal has one sort key, which an
 * operator class that compares bytes does not ask for.
 */
bool
lsm_opclass_takes_collation(Oid opclass, Oid collation)
{
	return !OidIsValid(collation) || get_collation_isdeterministic(collation) ||
		lsm_strings_of(get_opclass_input_type(opclass), collation,
					   opclass_order_proc(opclass),
					   LSM_KEY_RULES_CURRENT) == LSM_STRINGS_KEY;
}

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

/* `column` counts from 0.  ERROR for an operator class of someone else's. */
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

/* ---- rules ---- */

static void
warn_of_collations(Relation index)
{
	ereport(WARNING,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" was built with another version of a collation",
					RelationGetRelationName(index)),
			 errdetail("Strings may have been in another order then, or equal to others."),
			 errhint("Rebuild the index with REINDEX.")));
}

uint32
lsm_index_rules(Relation index)
{
	LsmKeyRules *known = index->rd_amcache;
	LsmKeyRules rules;

	if (known != NULL)
		return known->version;

	/* without storage of its own, or none that can be read */
	if (!RELKIND_HAS_STORAGE(index->rd_rel->relkind) || RELATION_IS_OTHER_TEMP(index) ||
		(RecoveryInProgress() && !RelationIsPermanent(index)))
		return LSM_KEY_RULES_CURRENT;
	lsm_tree_key_rules(lsm_index_open_tree(index), &rules);
	if (rules.version > LSM_KEY_RULES_CURRENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" was built by a newer version of lsmam",
						RelationGetRelationName(index)),
				 errhint("Rebuild the index with REINDEX.")));
	known = MemoryContextAlloc(index->rd_indexcxt, sizeof(LsmKeyRules));
	*known = rules;
	index->rd_amcache = known;
	if (lsm_index_collations_changed(index))
		warn_of_collations(index);
	return rules.version;
}

bool
lsm_index_collations_changed(Relation index)
{
	LsmKeyRules *known;

	(void) lsm_index_rules(index);
	known = index->rd_amcache;
	return known != NULL && known->collations != 0 &&
		known->collations != lsm_collations_digest(index, known->version);
}

void
lsm_index_new_rules(Relation index, LsmKeyRules *rules)
{
	if (index->rd_amcache != NULL)
		pfree(index->rd_amcache);
	index->rd_amcache = NULL;
	rules->version = LSM_KEY_RULES_CURRENT;
	rules->collations = lsm_collations_digest(index, rules->version);
}

void
lsm_check_collations(Relation index)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);

	for (int i = 0; i < nkeys; i++)
	{
		Oid			collation = index->rd_indcollation[i];

		if (OidIsValid(collation) && !get_collation_isdeterministic(collation) &&
			lsm_strings_of(index->rd_opcintype[i], collation,
						   index_getprocid(index, i + 1, 1),
						   LSM_KEY_RULES_CURRENT) != LSM_STRINGS_KEY)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("lsm_index does not support nondeterministic collations for operator classes that compare bytes"),
					 errdetail("Column %d of index \"%s\" has collation \"%s\".",
							   i + 1, RelationGetRelationName(index),
							   get_collation_name(collation)),
					 errhint("Use the default operator class, or a deterministic collation for the index column.")));
	}
}

/*
 * Where there is no operator class for a type, PostgreSQL takes one for a type
 * that its values can be read as (citext as text).  If btree has one of its own
 * for it, or takes another one, values that are equal there would be different
 * to us, and a unique index would admit both.
 */
bool
lsm_opclass_is_for_type(Oid opcintype, Oid type)
{
	Oid			btree = GetDefaultOpClass(getBaseType(type), BTREE_AM_OID);

	return OidIsValid(btree) && get_opclass_input_type(btree) == opcintype;
}

/* ERROR if a key column would be compared in another way than btree does. */
void
lsm_check_operator_classes(Relation index)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);

	for (int i = 0; i < nkeys; i++)
	{
		Oid			type = TupleDescAttr(RelationGetDescr(index), i)->atttypid;
		Oid			opcintype = index->rd_opcintype[i];

		if (!lsm_opclass_is_for_type(opcintype, type))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("lsm_index has no operator class for type %s",
							format_type_be(type)),
					 errdetail("Column %d of index \"%s\" would be compared as type %s, which knows other values as equal.",
							   i + 1, RelationGetRelationName(index),
							   format_type_be(opcintype)),
					 errhint("Use a btree index, or an expression that casts the column to type %s.",
							 format_type_be(opcintype))));
	}
}

/*
 * Known by the name of the table's access method, which is part of the
 * contract with the user: this room does not reach into src/table.  The name is
 * looked up once; later the access method is known by its functions.
 */
bool
lsm_tids_are_stable(Relation table)
{
	static const TableAmRoutine *ours = NULL;
	char	   *name;

	if (table->rd_rel->relam == HEAP_TABLE_AM_OID || table->rd_tableam == NULL)
		return false;
	if (likely(table->rd_tableam == ours))
		return true;
	name = get_am_name(table->rd_rel->relam);
	if (name == NULL)
		return false;
	if (strcmp(name, "lsm") == 0)
		ours = table->rd_tableam;
	pfree(name);
	return table->rd_tableam == ours;
}
