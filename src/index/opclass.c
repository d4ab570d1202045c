/*-------------------------------------------------------------------------
 *
 * opclass.c
 *	  What operator classes mean: the types that have codes, and whether these
 *	  are in order.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "index/index.h"

#define PICK_OID(name, oid, ...) \
		case oid: \
			return LSM_COLUMN_##name;

LsmColumnType
lsm_column_type(Oid opcintype)
{
	switch (opcintype)
	{
			LSM_SCALAR_TYPES(PICK_OID)
			LSM_COMPOSED_TYPES(PICK_OID)
		case VARCHAROID:
			return LSM_COLUMN_TEXT;
		case VARBITOID:
			return LSM_COLUMN_BIT;
		default:
			return LSM_COLUMN_INVALID;
	}
}

#define PICK_TRAITS(name, oid, extent, put, get, convert, row, traits) \
	[LSM_COLUMN_##name] = traits,

bool
lsm_type_has(LsmColumnType type, uint8 trait)
{
	static const uint8 traits_of[LSM_NTYPES] = {LSM_SCALAR_TYPES(PICK_TRAITS)};

	return (traits_of[type] & trait) != 0;
}

/*
 * What a class says of its codes takes eight looks into the system caches, and
 * is asked for each column of each scan: it is kept until a catalog that it was
 * read from changes.
 */
typedef struct ClassFacts
{
	Oid			family;
	Oid			opcintype;
	uint64		stamp;			/* known_stamp then */
	Oid			code_type;
	LsmColumnType column_type;
	int			function;		/* the support function that makes codes, or 0 */
} ClassFacts;

static ClassFacts known[64];
static uint64 known_stamp = 0;	/* 0: nobody has asked yet */

/* btree's support functions have other numbers. */
static bool
family_is_ours(Oid family)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family);
	result = ((Form_pg_opfamily) GETSTRUCT(tuple))->opfmethod == lsm_index_am_oid();
	ReleaseSysCache(tuple);
	return result;
}

static void
read_class(ClassFacts *facts)
{
	Oid			family = facts->family;
	Oid			type = facts->opcintype;

	facts->code_type = type;
	facts->column_type = lsm_column_type(type);
	if (!family_is_ours(family))
		return;
	if (OidIsValid(get_opfamily_proc(family, type, type, LSM_PROC_NORMAL_TEXT)))
	{
		facts->code_type = TEXTOID;
		facts->column_type = LSM_COLUMN_TEXT;
		facts->function = LSM_PROC_NORMAL_TEXT;
		return;
	}
	if (OidIsValid(get_opfamily_proc(family, type, type, LSM_PROC_CODE)))
		facts->function = LSM_PROC_CODE;
	else if (OidIsValid(get_opfamily_proc(family, type, type, LSM_PROC_EQUALITY_CODE)))
		facts->function = LSM_PROC_EQUALITY_CODE;
	if (facts->function != 0)
		facts->column_type = LSM_COLUMN_FUNCTION;
}

static void
forget_classes(Datum arg, int cache, uint32 hash)
{
	known_stamp++;
}

/*
 * What is stored is as old as the stamp that was read before the catalogs
 * were: what changes meanwhile makes it void.
 */
static const ClassFacts *
class_facts(Oid family, Oid opcintype)
{
	ClassFacts *entry = &known[hash_combine(family, opcintype) % lengthof(known)];
	ClassFacts	facts = {.family = family,.opcintype = opcintype};

	if (known_stamp == 0)
	{
		CacheRegisterSyscacheCallback(AMPROCNUM, forget_classes, (Datum) 0);
		CacheRegisterSyscacheCallback(OPFAMILYOID, forget_classes, (Datum) 0);
		CacheRegisterSyscacheCallback(AMNAME, forget_classes, (Datum) 0);
		known_stamp = 1;
	}
	if (entry->family == family && entry->opcintype == opcintype && entry->stamp == known_stamp)
		return entry;
	facts.stamp = known_stamp;
	read_class(&facts);
	*entry = facts;
	return entry;
}

/* See index.h. */
Oid
lsm_class_code_type(Oid family, Oid opcintype)
{
	return class_facts(family, opcintype)->code_type;
}

LsmColumnType
lsm_class_column_type(Oid family, Oid opcintype)
{
	return class_facts(family, opcintype)->column_type;
}

int
lsm_class_function(Oid family, Oid opcintype)
{
	return class_facts(family, opcintype)->function;
}

uint64
lsm_classes_stamp(void)
{
	return known_stamp;
}

bool
lsm_class_has_collation(Oid opcintype)
{
	return lsm_type_has(lsm_column_type(opcintype), LSM_TYPE_COLLATED);
}

/* The *_pattern_ops classes order by bytes whatever the collation. */
bool
lsm_compares_by_pattern(Oid order_proc)
{
	return order_proc == F_BTTEXT_PATTERN_CMP || order_proc == F_BTBPCHAR_PATTERN_CMP;
}

bool
lsm_strings_vary(Oid opcintype, Oid collation, Oid order_proc)
{
	return lsm_class_has_collation(opcintype) && OidIsValid(collation) &&
		!lsm_compares_by_pattern(order_proc) &&
		(!lsm_collation_is_there(collation) || !lsm_collation_is_c(collation));
}

LsmStrings
lsm_strings_of(Oid opcintype, Oid collation, Oid order_proc, uint32 rules)
{
	if (rules == LSM_KEY_RULES_BYTES || !lsm_strings_vary(opcintype, collation, order_proc))
		return LSM_STRINGS_BYTES;
	switch (lsm_collation_kind(collation))
	{
		case LSM_COLLATION_ICU:
			return LSM_STRINGS_KEY_AND_BYTES;
		case LSM_COLLATION_ICU_NONDETERMINISTIC:
			return LSM_STRINGS_KEY;
		case LSM_COLLATION_LIBC:
			return rules < LSM_KEY_RULES_LIBC ? LSM_STRINGS_BYTES :
				rules < LSM_KEY_RULES_WEIGHTS ? LSM_STRINGS_PRIMARY_AND_BYTES :
				LSM_STRINGS_WEIGHTS_AND_BYTES;
		default:
			return LSM_STRINGS_BYTES;
	}
}

LsmOrder
lsm_scalar_order(Oid opcintype, Oid collation, Oid order_proc, LsmStrings strings)
{
	LsmColumnType type = lsm_column_type(opcintype);

	if (type == LSM_COLUMN_ENUM)
		return LSM_ORDER_GROUPS;
	if (!lsm_type_has(type, LSM_TYPE_COLLATED) || lsm_compares_by_pattern(order_proc))
		return LSM_ORDER_CODES;
	switch (strings)
	{
		case LSM_STRINGS_KEY_AND_BYTES:
		case LSM_STRINGS_KEY:
			return LSM_ORDER_CODES;
		case LSM_STRINGS_PRIMARY_AND_BYTES:
		case LSM_STRINGS_WEIGHTS_AND_BYTES:
			return LSM_ORDER_GROUPS;
		default:
			return lsm_collation_kind(collation) == LSM_COLLATION_BYTES ?
				LSM_ORDER_CODES : LSM_ORDER_NONE;
	}
}

/* Does core take the operator for an order? */
static bool
can_sort(Oid family, Oid opcintype, StrategyNumber strategy)
{
	Oid			op = get_opfamily_member(family, opcintype, opcintype, strategy);
	Oid			order_family;
	Oid			order_type;
	CompareType order;

	return OidIsValid(op) && get_ordering_op_properties(op, &order_family, &order_type, &order);
}

LsmOrder
lsm_class_order(Oid family, Oid opcintype, LsmOrder order)
{
	if (order != LSM_ORDER_GROUPS || !lsm_class_has_normal_text(family, opcintype) ||
		(can_sort(family, opcintype, BTLessStrategyNumber) &&
		 can_sort(family, opcintype, BTGreaterStrategyNumber)))
		return order;
	return LSM_ORDER_NONE;
}
