/*-------------------------------------------------------------------------
 *
 * opclass.c
 *	  What operator classes mean: the types that have codes, whether their codes
 *	  are in order, and which classes may be used for a key column.
 *
 * No locks; the caller has the index open and locked, if there is one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "index/index.h"

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
