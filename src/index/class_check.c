/*-------------------------------------------------------------------------
 *
 * class_check.c
 *	  Which operator classes may be used for a column, and what they give it.
 *
 * No locks; the caller has the index open and locked, if there is one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am_d.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/compose.h"

static Oid
opclass_order_proc(Oid opclass)
{
	Oid			type = get_opclass_input_type(opclass);

	return get_opfamily_proc(get_opclass_family(opclass), type, type, 1);
}

/* The composed type of a column, whose codes are made of others */
static bool
class_is_composed(Oid family, Oid opcintype)
{
	return lsm_type_is_composed(lsm_class_column_type(family, opcintype));
}

/* False: *culprit has no codes. */
static bool
composed_order(Oid family, Oid opcintype, Oid type, Oid collation, LsmOrder *order,
			   Oid *culprit)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index types",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LsmColumnSpec spec = {0};
	bool		result = lsm_compose_spec(family, opcintype, type, collation, &spec, culprit);

	*order = spec.order;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return result;
}

bool
lsm_opclass_is_ordered(Oid opclass, Oid type, Oid collation)
{
	Oid			opcintype = get_opclass_input_type(opclass);
	LsmOrder	order;
	Oid			culprit;
	Oid			code_type;
	Oid			order_proc;

	if (class_is_composed(get_opclass_family(opclass), opcintype))
		return composed_order(get_opclass_family(opclass), opcintype, type, collation,
							  &order, &culprit) && order != LSM_ORDER_NONE;
	code_type = lsm_class_code_type(get_opclass_family(opclass), opcintype);
	order_proc = opclass_order_proc(opclass);
	return lsm_class_order(get_opclass_family(opclass), opcintype,
						   lsm_scalar_order(code_type, collation, order_proc,
											lsm_strings_of(code_type, collation, order_proc,
														   LSM_KEY_RULES_CURRENT))) !=
		LSM_ORDER_NONE;
}

/* Have the type, and all types that it consists of, codes? */
static bool
class_has_codes(Oid family, Oid opcintype, Oid type, Oid collation)
{
	LsmOrder	order;
	Oid			culprit;

	return lsm_class_column_type(family, opcintype) != LSM_COLUMN_INVALID &&
		(!class_is_composed(family, opcintype) ||
		 composed_order(family, opcintype, type, collation, &order, &culprit));
}

/*
 * Under a nondeterministic collation what is equal has one sort key, which an
 * operator class that compares bytes does not ask for.  Of composed types each
 * part is asked, but a support function is not.
 */
static bool
class_takes_collation(Oid family, Oid opcintype, Oid collation, Oid order_proc)
{
	LsmColumnType type;

	if (!OidIsValid(collation) || get_collation_isdeterministic(collation))
		return true;
	type = lsm_class_column_type(family, opcintype);
	if (lsm_type_is_composed(type))
		return type != LSM_COLUMN_FUNCTION;
	return lsm_strings_of(lsm_class_code_type(family, opcintype), collation, order_proc,
						  LSM_KEY_RULES_CURRENT) == LSM_STRINGS_KEY;
}

void
lsm_check_collations(Relation index)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);

	for (int i = 0; i < nkeys; i++)
	{
		Oid			collation = index->rd_indcollation[i];

		if (!class_takes_collation(index->rd_opfamily[i], index->rd_opcintype[i], collation,
								   index_getprocid(index, i + 1, LSM_PROC_COMPARE)))
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
static bool
class_is_for_type(Oid opcintype, Oid type)
{
	Oid			btree;

	if (getBaseType(type) == opcintype)
		return true;
	btree = GetDefaultOpClass(getBaseType(type), BTREE_AM_OID);
	return OidIsValid(btree) && get_opclass_input_type(btree) == opcintype;
}

/* ERROR if what the column consists of will not do. */
static void
check_composed(Relation index, int column)
{
	Oid			type = TupleDescAttr(RelationGetDescr(index), column)->atttypid;
	LsmOrder	order;
	Oid			culprit;

	if (!composed_order(index->rd_opfamily[column], index->rd_opcintype[column], type,
						index->rd_indcollation[column], &order, &culprit))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("lsm_index cannot encode values of type %s", format_type_be(type)),
				 culprit == type ? 0 :
				 errdetail("They contain values of type %s, which has no default operator class for lsm_index that compares as btree's does.",
						   format_type_be(culprit)),
				 errhint("Use a btree index.")));
}

/*
 * Our codes are in the order of our own classes.  Does someone's class for the
 * type compare otherwise, and has no function for codes?
 */
static bool
compares_otherwise(Oid family, Oid opcintype, Oid compare)
{
	Oid			opclass = GetDefaultOpClass(opcintype, lsm_index_am_oid());

	return lsm_class_column_type(family, opcintype) != LSM_COLUMN_FUNCTION &&
		!lsm_class_has_normal_text(family, opcintype) &&
		!lsm_compares_by_pattern(compare) &&
		(!OidIsValid(opclass) || opclass_order_proc(opclass) != compare);
}

static void
check_compare(Relation index, int column)
{
	Oid			opcintype = index->rd_opcintype[column];

	if (compares_otherwise(index->rd_opfamily[column], opcintype,
						   index_getprocid(index, column + 1, LSM_PROC_COMPARE)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("lsm_index cannot encode values of type %s in the order of another operator class than its own",
						format_type_be(opcintype)),
				 errhint("Use the operator classes that come with lsmam, or one with support function 11, 12 or 13.")));
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

		if (!class_is_for_type(opcintype, type))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("lsm_index has no operator class for type %s",
							format_type_be(type)),
					 errdetail("Column %d of index \"%s\" would be compared as type %s, which knows other values as equal.",
							   i + 1, RelationGetRelationName(index),
							   format_type_be(opcintype)),
					 errhint("Use a btree index, or an expression that casts the column to type %s.",
							 format_type_be(opcintype))));
		if (class_is_composed(index->rd_opfamily[i], opcintype))
			check_composed(index, i);
		if (lsm_class_column_type(index->rd_opfamily[i], opcintype) != LSM_COLUMN_INVALID)
			check_compare(index, i);
	}
}

bool
lsm_opclass_fits(Oid opclass, Oid type, Oid collation, bool in_order)
{
	Oid			family = get_opclass_family(opclass);
	Oid			opcintype = get_opclass_input_type(opclass);
	Oid			compare = opclass_order_proc(opclass);

	return class_is_for_type(opcintype, type) &&
		class_takes_collation(family, opcintype, collation, compare) &&
		class_has_codes(family, opcintype, type, collation) &&
		!compares_otherwise(family, opcintype, compare) &&
		(!in_order || lsm_opclass_is_ordered(opclass, type, collation));
}

bool
lsm_type_fits(Oid type, Oid collation, bool in_order)
{
	Oid			opclass;

	if (!OidIsValid(type))
		return false;
	opclass = GetDefaultOpClass(type, lsm_index_am_oid());
	return OidIsValid(opclass) && lsm_opclass_fits(opclass, type, collation, in_order);
}
