/*-------------------------------------------------------------------------
 *
 * compose.c
 *	  What the codes of arrays, ranges, records and types with a support
 *	  function of their own are made of: codes of other types, by their default
 *	  operator classes.
 *
 *		array		of each element PART_VALUE and its code, or PART_NULL; PART_END;
 *					number of dimensions, their sizes, their lower bounds
 *		range		PART_END if empty; else PART_VALUE and the bounds
 *		multirange	the ranges; PART_END
 *		record		as an array's elements, but NULLs at the end are left out, and
 *					PART_LAST ends it
 *		function	what it returns
 *
 * A bound is infinite, or a value and whether it belongs to the range, in the
 * order of range_cmp_bounds().
 *
 * ADD ATTRIBUTE gives NULLs to all values that exist, and does not tell the
 * indexes: with and without NULLs at the end a record has one code.  As a NULL
 * is greater than what is not, so is PART_LAST, which stands for any number of
 * them.  DROP ATTRIBUTE takes values out of the middle; indexes that were built
 * before are known by a digest (rules.c).
 *
 * A collation of libc gives codes that are in order as far as groups.  Of those
 * nothing can be composed that is in order: the bytes of the strings are taken,
 * for equality.  Likewise with enums.
 *
 * Codes are canonical, not the values: they are not decoded, but kept in the
 * entries (LsmColumnSpec.kept, opaque).
 *
 * No locks; types are looked up in the catalogs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_type_d.h"
#include "catalog/pg_proc.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/regproc.h"

#include "index/compose.h"
#include "index/integer_codes.h"

/* On disk. */
enum
{
	PART_END = 0x01,
	PART_VALUE = 0x02,
	PART_NULL = 0x03,
	PART_LAST = 0x04
};

/* Of the bound of a range.  On disk. */
enum
{
	BOUND_BELOW_ALL = 0x01,
	BOUND_FINITE = 0x02,
	BOUND_ABOVE_ALL = 0x03
};

/*
 * The specs of parts that are known already, while a spec is made.  A type of
 * types that each have the one below them twice has 2^depth parts, but few
 * different ones.
 */
typedef struct PartKey
{
	Oid			type;
	Oid			collation;
	Oid			order_proc;
} PartKey;

typedef struct KnownPart
{
	PartKey		key;
	LsmColumnSpec spec;
} KnownPart;

static bool part_spec(Oid type, Oid collation, Oid order_proc, HTAB *known,
					  LsmColumnSpec *spec, Oid *culprit);

static void
put_part(const LsmColumnSpec *spec, Datum value, bool isnull, StringInfo out)
{
	appendStringInfoCharMacro(out, isnull ? PART_NULL : PART_VALUE);
	if (!isnull)
		lsm_put_value(spec, value, out);
}

/* ======================================================================
 * Arrays
 * ====================================================================== */

static void
put_array(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	LsmParts   *parts = spec->parts;
	ArrayType  *array = DatumGetArrayTypeP(value);
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	check_stack_depth();
	if (ARR_ELEMTYPE(array) != parts->element_type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("array has elements of type %s, not %s",
						format_type_be(ARR_ELEMTYPE(array)),
						format_type_be(parts->element_type))));
	deconstruct_array(array, parts->element_type, parts->typlen, parts->typbyval,
					  parts->typalign, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		put_part(parts->element, elements[i], nulls[i], out);
	}
	appendStringInfoCharMacro(out, PART_END);
	appendStringInfoCharMacro(out, ARR_NDIM(array));
	for (int i = 0; i < ARR_NDIM(array); i++)
		put_int32(out, ARR_DIMS(array)[i]);
	for (int i = 0; i < ARR_NDIM(array); i++)
		put_int32(out, ARR_LBOUND(array)[i]);
	pfree(elements);
	pfree(nulls);
	if ((Pointer) array != DatumGetPointer(value))
		pfree(array);
}

/* ======================================================================
 * Ranges
 * ====================================================================== */

/*
 * Behind a value that belongs to the range as its lower bound comes one that
 * does not; with upper bounds it is the other way round.
 */
static void
put_bound(const LsmParts *parts, const RangeBound *bound, StringInfo out)
{
	if (bound->infinite)
	{
		appendStringInfoCharMacro(out, bound->lower ? BOUND_BELOW_ALL : BOUND_ABOVE_ALL);
		return;
	}
	appendStringInfoCharMacro(out, BOUND_FINITE);
	lsm_put_value(parts->element, bound->val, out);
	appendStringInfoCharMacro(out, bound->inclusive == bound->lower ? 0 : 1);
}

static void
put_range(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	LsmParts   *parts = spec->parts;
	RangeType  *range = DatumGetRangeTypeP(value);
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;

	check_stack_depth();
	range_deserialize(parts->range, range, &lower, &upper, &empty);
	appendStringInfoCharMacro(out, empty ? PART_END : PART_VALUE);
	if (!empty)
	{
		put_bound(parts, &lower, out);
		put_bound(parts, &upper, out);
	}
	if ((Pointer) range != DatumGetPointer(value))
		pfree(range);
}

static void
put_multirange(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	LsmParts   *parts = spec->parts;
	MultirangeType *ranges = DatumGetMultirangeTypeP(value);

	check_stack_depth();
	for (uint32 i = 0; i < ranges->rangeCount; i++)
	{
		RangeBound	lower;
		RangeBound	upper;

		CHECK_FOR_INTERRUPTS();
		multirange_get_bounds(parts->range->rngtype, ranges, i, &lower, &upper);
		appendStringInfoCharMacro(out, PART_VALUE);
		put_bound(parts, &lower, out);
		put_bound(parts, &upper, out);
	}
	appendStringInfoCharMacro(out, PART_END);
	if ((Pointer) ranges != DatumGetPointer(value))
		pfree(ranges);
}

/* ======================================================================
 * Records
 * ====================================================================== */

static HTAB *
known_parts(void)
{
	HASHCTL		ctl = {.keysize = sizeof(PartKey),.entrysize = sizeof(KnownPart),
	.hcxt = CurrentMemoryContext};

	return hash_create("parts of an lsm_index column", 32, &ctl,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * False: *culprit, the type of one of them, has no codes.  `known`: NULL if the
 * record is not part of another one.
 */
static bool
attribute_specs(LsmParts *parts, TupleDesc desc, HTAB *known, Oid *culprit)
{
	uint64		row_type = assign_record_type_identifier(desc->tdtypeid, desc->tdtypmod);
	HTAB	   *own = NULL;
	bool		result = true;
	MemoryContext old;
	LsmColumnSpec *specs;
	MemoryContext context = parts->context;

	if (parts->row_type == row_type && parts->nattributes == desc->natts)
		return true;
	if (known == NULL)
	{
		/* a value of another row type than the one before */
		known = own = known_parts();
		context = AllocSetContextCreate(parts->context, "lsm_index row type",
										ALLOCSET_SMALL_SIZES);
	}
	old = MemoryContextSwitchTo(context);
	specs = palloc0(sizeof(LsmColumnSpec) * Max(desc->natts, 1));
	for (int i = 0; result && i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			result = part_spec(att->atttypid, att->attcollation, InvalidOid, known,
							   &specs[i], culprit);
	}
	MemoryContextSwitchTo(old);
	if (own != NULL)
	{
		MemoryContext unused = result ? parts->row_context : context;

		hash_destroy(own);
		if (unused != NULL)
			MemoryContextDelete(unused);
		if (result)
			parts->row_context = context;
	}
	if (!result)
		return false;
	parts->attributes = specs;
	parts->nattributes = desc->natts;
	parts->row_type = row_type;
	return true;
}

static void
put_record(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	LsmParts   *parts = spec->parts;
	HeapTupleHeader record = DatumGetHeapTupleHeader(value);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(record),
											  HeapTupleHeaderGetTypMod(record));
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(record), .t_data = record};
	Datum	   *values = palloc(sizeof(Datum) * Max(desc->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(desc->natts, 1));
	int			n = desc->natts;
	Oid			culprit;

	check_stack_depth();
	if (!attribute_specs(parts, desc, NULL, &culprit))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("lsm_index cannot encode values of type %s", format_type_be(culprit)),
				 errdetail("Type %s has a column of that type.",
						   format_type_be(desc->tdtypeid)),
				 errhint("Use a btree index.")));
	ItemPointerSetInvalid(&tuple.t_self);
	heap_deform_tuple(&tuple, desc, values, nulls);
	while (n > 0 && (nulls[n - 1] || TupleDescAttr(desc, n - 1)->attisdropped))
		n--;
	for (int i = 0; i < n; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			put_part(&parts->attributes[i], values[i], nulls[i], out);
	appendStringInfoCharMacro(out, PART_LAST);
	ReleaseTupleDesc(desc);
	pfree(values);
	pfree(nulls);
	if ((Pointer) record != DatumGetPointer(value))
		pfree(record);
}

/*
 * Has the record columns like those of the row type, as record_cmp() asks?
 */
static bool
record_fits(const LsmParts *parts, HeapTupleHeader record)
{
	Oid			type = HeapTupleHeaderGetTypeId(record);
	TupleDesc	ours;
	TupleDesc	its;
	int			i = 0;
	int			k = 0;
	bool		fits = true;

	if (type == parts->type)
		return true;
	ours = lookup_rowtype_tupdesc(parts->type, -1);
	its = lookup_rowtype_tupdesc(type, HeapTupleHeaderGetTypMod(record));
	while (fits)
	{
		while (i < ours->natts && TupleDescAttr(ours, i)->attisdropped)
			i++;
		while (k < its->natts && TupleDescAttr(its, k)->attisdropped)
			k++;
		if (i == ours->natts || k == its->natts)
			break;
		fits = TupleDescAttr(ours, i)->atttypid == TupleDescAttr(its, k)->atttypid &&
			TupleDescAttr(ours, i)->attcollation == TupleDescAttr(its, k)->attcollation;
		i++;
		k++;
	}
	fits = fits && i == ours->natts && k == its->natts;
	ReleaseTupleDesc(its);
	ReleaseTupleDesc(ours);
	return fits;
}

/* ======================================================================
 * Specs
 * ====================================================================== */

/* Of one type, whose order is that of the whole */
static bool
element_part(LsmColumnSpec *spec, Oid type, Oid collation, Oid order_proc, HTAB *known,
			 Oid *culprit)
{
	LsmColumnSpec *element = spec->parts->element;
	bool		result = part_spec(type, collation, order_proc, known, element, culprit);

	spec->order = element->order;
	return result;
}

static bool
no_parts(LsmColumnSpec *spec, HTAB *known, Oid *culprit)
{
	return true;
}

static bool
jsonb_parts(LsmColumnSpec *spec, HTAB *known, Oid *culprit)
{
	return element_part(spec, TEXTOID, DEFAULT_COLLATION_OID, InvalidOid, known, culprit);
}

static bool
array_parts(LsmColumnSpec *spec, HTAB *known, Oid *culprit)
{
	LsmParts   *parts = spec->parts;

	parts->element_type = get_element_type(parts->type);
	if (!OidIsValid(parts->element_type))
		return false;
	get_typlenbyvalalign(parts->element_type, &parts->typlen, &parts->typbyval,
						 &parts->typalign);
	return element_part(spec, parts->element_type, spec->collation, InvalidOid, known, culprit);
}

static bool
range_parts(LsmColumnSpec *spec, HTAB *known, Oid *culprit)
{
	LsmParts   *parts = spec->parts;
	bool		multi = spec->type == LSM_COLUMN_MULTIRANGE;
	TypeCacheEntry *range;

	parts->range = lookup_type_cache(parts->type, multi ? TYPECACHE_MULTIRANGE_INFO :
									 TYPECACHE_RANGE_INFO);
	range = multi ? parts->range->rngtype : parts->range;
	if (range == NULL || range->rngelemtype == NULL)
		return false;
	return element_part(spec, range->rngelemtype->type_id, range->rng_collation,
						range->rng_cmp_proc_finfo.fn_oid, known, culprit);
}

static bool
record_parts(LsmColumnSpec *spec, HTAB *known, Oid *culprit)
{
	LsmParts   *parts = spec->parts;
	TupleDesc	desc;
	bool		result;

	if (parts->type == RECORDOID)
		return false;
	desc = lookup_rowtype_tupdesc(parts->type, -1);
	result = attribute_specs(parts, desc, known, culprit);
	ReleaseTupleDesc(desc);
	for (int i = 0; result && i < parts->nattributes; i++)
		if (parts->attributes[i].type != LSM_COLUMN_INVALID &&
			parts->attributes[i].order != LSM_ORDER_CODES)
			spec->order = LSM_ORDER_NONE;
	return result;
}

#define PICK_PARTS(name, oid, put, parts) [LSM_COLUMN_##name] = {put, parts##_parts},

static const struct
{
	void		(*put) (const LsmColumnSpec *spec, Datum value, StringInfo out);
	bool		(*parts) (LsmColumnSpec *spec, HTAB *known, Oid *culprit);
}			composed_types[LSM_NTYPES] = {LSM_COMPOSED_TYPES(PICK_PARTS)};

static bool
composed_spec(Oid family, Oid opcintype, Oid type, Oid collation, HTAB *known,
			  LsmColumnSpec *spec, Oid *culprit)
{
	LsmParts   *parts = palloc0(sizeof(LsmParts));

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	parts->context = CurrentMemoryContext;
	parts->type = getBaseType(type);
	parts->element = palloc0(sizeof(LsmColumnSpec));
	spec->parts = parts;
	spec->opcintype = opcintype;
	spec->type = lsm_class_column_type(family, opcintype);
	spec->collation = collation;
	spec->strings = LSM_STRINGS_BYTES;
	spec->order = LSM_ORDER_CODES;
	spec->kept = spec->opaque = true;
	spec->returnable = true;
	*culprit = parts->type;
	if (spec->type == LSM_COLUMN_FUNCTION)
	{
		lsm_function_spec(spec, family);
		return true;
	}
	if (!lsm_type_is_composed(spec->type))
	{
		*culprit = opcintype;
		return false;
	}
	spec->put = composed_types[spec->type].put;
	return composed_types[spec->type].parts(spec, known, culprit);
}

bool
lsm_compose_make_spec(Oid family, Oid opcintype, Oid type, Oid collation,
					  LsmColumnSpec *spec, Oid *culprit)
{
	return composed_spec(family, opcintype, type, collation, NULL, spec, culprit);
}

static bool
make_part_spec(Oid type, Oid collation, Oid order_proc, HTAB *known,
			   LsmColumnSpec *spec, Oid *culprit)
{
	Oid			base = getBaseType(type);
	Oid			opclass = GetDefaultOpClass(base, lsm_index_am_oid());
	Oid			opcintype;
	Oid			family;
	Oid			compare;
	Oid			code_type;

	*culprit = type;
	if (!OidIsValid(opclass))
		return false;
	opcintype = get_opclass_input_type(opclass);
	family = get_opclass_family(opclass);
	if (!OidIsValid(order_proc))
		order_proc = lookup_type_cache(base, TYPECACHE_CMP_PROC)->cmp_proc;
	compare = get_opfamily_proc(family, opcintype, opcintype, LSM_PROC_COMPARE);
	if (order_proc != compare && !lsm_compares_by_pattern(order_proc))
		return false;

	memset(spec, 0, sizeof(LsmColumnSpec));
	if (lsm_class_column_type(family, opcintype) == LSM_COLUMN_FUNCTION &&
		OidIsValid(collation) && !get_collation_isdeterministic(collation))
		return false;
	if (lsm_type_is_composed(lsm_class_column_type(family, opcintype)))
		return composed_spec(family, opcintype, base, collation, known, spec, culprit);
	spec->opcintype = opcintype;
	code_type = lsm_class_code_type(family, opcintype);
	spec->type = lsm_column_type(code_type);
	if (spec->type == LSM_COLUMN_INVALID)
		return false;
	if (lsm_class_has_normal_text(family, opcintype))
	{
		Oid			function = get_opfamily_proc(family, opcintype, opcintype,
												 LSM_PROC_NORMAL_TEXT);

		lsm_check_normal_text(function, opcintype);
		spec->normal_text = palloc0(sizeof(FmgrInfo));
		fmgr_info(function, spec->normal_text);
	}
	spec->collation = collation;
	spec->strings = lsm_strings_of(code_type, collation, order_proc, LSM_KEY_RULES_CURRENT);
	spec->order = lsm_scalar_order(code_type, collation, order_proc, spec->strings);
	if (spec->order != LSM_ORDER_CODES)
	{
		spec->order = LSM_ORDER_NONE;
		spec->strings = LSM_STRINGS_BYTES;
	}
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation) &&
		spec->strings != LSM_STRINGS_KEY && lsm_class_has_collation(code_type))
		return false;
	if (spec->strings != LSM_STRINGS_BYTES)
		spec->locale = lsm_collation_locale(collation);
	return true;
}

/*
 * How a value is encoded that is part of another one.  `order_proc`: what it is
 * compared by; InvalidOid: by what btree's default operator class says.  Parts
 * that are alike share their LsmParts.
 */
static bool
part_spec(Oid type, Oid collation, Oid order_proc, HTAB *known, LsmColumnSpec *spec,
		  Oid *culprit)
{
	PartKey		key = {type, collation, order_proc};
	KnownPart  *part = known == NULL ? NULL : hash_search(known, &key, HASH_FIND, NULL);

	if (part != NULL)
	{
		*spec = part->spec;
		return true;
	}
	if (!make_part_spec(type, collation, order_proc, known, spec, culprit))
		return false;
	if (known != NULL)
	{
		part = hash_search(known, &key, HASH_ENTER, NULL);
		part->spec = *spec;
	}
	return true;
}

/* What SQL calls lsm_text_code(): for support functions, the code of a text */
bytea *
lsm_compose_text(Oid collation, const char *data, int len)
{
	LsmColumnSpec spec;
	StringInfoData code;
	Oid			culprit;

	if (!OidIsValid(collation))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_COLLATION),
				 errmsg("could not determine which collation to use for a text's code"),
				 errhint("Use the COLLATE clause to set the collation explicitly.")));
	if (!part_spec(TEXTOID, collation, InvalidOid, NULL, &spec, &culprit) ||
		spec.order != LSM_ORDER_CODES)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("strings have no codes in the order of collation \"%s\"",
						get_collation_name(collation)),
				 errhint("Use a collation of ICU or COLLATE \"C\". For equality alone, support function 12 of an operator class may use COLLATE \"C\".")));
	initStringInfo(&code);
	appendStringInfoSpaces(&code, VARHDRSZ);
	lsm_put_text(&code, &spec, data, len);
	SET_VARSIZE(code.data, code.len);
	return (bytea *) code.data;
}

bool
lsm_compose_fits(const LsmColumnSpec *spec, Datum value)
{
	if (spec->type == LSM_COLUMN_ARRAY)
		return ARR_ELEMTYPE(DatumGetArrayTypeP(value)) == spec->parts->element_type;
	if (spec->type == LSM_COLUMN_RECORD)
		return record_fits(spec->parts, DatumGetHeapTupleHeader(value));
	return true;
}

void
lsm_collations_add(LsmCollations *all, Oid collation, LsmStrings strings, bool by_function)
{
	LsmCollationUse use = {.collation = collation,.strings = strings,.by_function = by_function};

	for (int i = 0; i < all->n; i++)
		if (all->uses[i].collation == collation && all->uses[i].strings == strings &&
			all->uses[i].by_function == by_function)
			return;
	if (all->n == all->room)
	{
		all->room = Max(all->room * 2, 4);
		all->uses = all->n == 0 ? palloc(sizeof(use) * all->room) :
			repalloc(all->uses, sizeof(use) * all->room);
	}
	all->uses[all->n++] = use;
}

/*
 * What a support function calls, nobody knows.  lsm_text_code() has codes under
 * ICU's collations, of which it gets the column's or names one, most likely the
 * database's.
 */
static void
function_collation(LsmCollations *all, Oid collation)
{
	LsmCollationKind kind = lsm_collation_kind(collation);

	if (kind == LSM_COLLATION_ICU)
		lsm_collations_add(all, collation, LSM_STRINGS_KEY_AND_BYTES, true);
	else if (kind == LSM_COLLATION_ICU_NONDETERMINISTIC)
		lsm_collations_add(all, collation, LSM_STRINGS_KEY, true);
}

/* Numbers walks over a spec, which look at parts that are shared once. */
static uint64 last_walk;

uint64
lsm_compose_next_walk(void)
{
	return ++last_walk;
}

/* What is done with a column's spec, and with that of each part of it */
typedef void (*PartVisitor) (const LsmColumnSpec *spec, void *arg);

static void
walk_parts(const LsmColumnSpec *spec, uint64 walk, PartVisitor visit, void *arg)
{
	LsmParts   *parts = spec->parts;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	visit(spec, arg);
	if (parts == NULL || parts->walk == walk)
		return;
	parts->walk = walk;
	walk_parts(parts->element, walk, visit, arg);
	for (int i = 0; i < parts->nattributes; i++)
		walk_parts(&parts->attributes[i], walk, visit, arg);
}

static void
visit_collation(const LsmColumnSpec *spec, void *arg)
{
	LsmCollations *all = arg;

	if (spec->strings != LSM_STRINGS_BYTES)
		lsm_collations_add(all, spec->collation, spec->strings, false);
	if (spec->type == LSM_COLUMN_FUNCTION)
	{
		function_collation(all, spec->collation);
		function_collation(all, DEFAULT_COLLATION_OID);
	}
}

void
lsm_compose_collations(const LsmColumnSpec *spec, LsmCollations *all)
{
	walk_parts(spec, ++last_walk, visit_collation, all);
}

static void
visit_function(const LsmColumnSpec *spec, void *arg)
{
	List	  **all = arg;
	int			number = spec->normal_text != NULL ? LSM_PROC_NORMAL_TEXT : 0;

	if (spec->type == LSM_COLUMN_FUNCTION)
		number = spec->parts->function_number;
	if (number != 0)
		*all = list_append_unique_int(*all, (int) hash_combine(spec->opcintype, number));
}

List *
lsm_compose_functions(const LsmColumnSpec *spec)
{
	List	   *all = NIL;

	walk_parts(spec, ++last_walk, visit_function, &all);
	return all;
}

static void
visit_row_type(const LsmColumnSpec *spec, void *arg)
{
	List	  **all = arg;

	if (spec->type == LSM_COLUMN_RECORD)
		*all = list_append_unique_oid(*all, get_typ_typrelid(spec->parts->type));
}

List *
lsm_compose_row_types(const LsmColumnSpec *spec)
{
	List	   *all = NIL;

	walk_parts(spec, ++last_walk, visit_row_type, &all);
	return all;
}

/*
 * Of the row type whose values the column has, alone or in arrays.  Of a row type
 * in another one there is nothing to know: core adds no column with a value to
 * what a table's column has.
 */
static const LsmParts *
row_parts(const LsmColumnSpec *spec)
{
	for (; spec->parts != NULL; spec = spec->parts->element)
		if (spec->type == LSM_COLUMN_RECORD)
			return spec->parts;
	return NULL;
}

int
lsm_compose_row_columns(const LsmColumnSpec *spec)
{
	const LsmParts *parts = row_parts(spec);

	return parts == NULL ? 0 : parts->nattributes;
}

bool
lsm_compose_row_has_grown(const LsmColumnSpec *spec, int columns)
{
	const LsmParts *parts = row_parts(spec);
	TupleDesc	desc;
	bool		result = false;

	if (parts == NULL)
		return false;
	desc = lookup_rowtype_tupdesc(parts->type, -1);
	for (int i = columns; i < desc->natts; i++)
		result |= TupleDescAttr(desc, i)->atthasmissing;
	ReleaseTupleDesc(desc);
	return result;
}

/*
 * With as many columns in all, a sum that counts those of shared parts each
 * time says nothing in 16 bits.
 */
#define MANY_COLUMNS	(UINT64CONST(1) << 16)

/*
 * Into the parts: a sum, so that one more is always noticed.  Parts that are
 * shared count each time, as in the metapages of indexes that were built before
 * parts were shared; in *once they count once.
 */
static void
walk_dropped(LsmParts *parts, uint64 walk, uint32 *once)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (parts->walk == walk)
		return;
	parts->dropped = 0;
	parts->columns = parts->nattributes;
	for (int i = -1; i < parts->nattributes; i++)
	{
		const LsmColumnSpec *spec = i < 0 ? parts->element : &parts->attributes[i];

		if (i >= 0 && spec->type == LSM_COLUMN_INVALID)
		{
			uint32		column = hash_combine(parts->type, i + 1) % PG_UINT16_MAX + 1;

			parts->dropped += column;
			*once += column;
		}
		else if (spec->parts != NULL)
		{
			walk_dropped(spec->parts, walk, once);
			parts->dropped += spec->parts->dropped;
			parts->columns = Min(parts->columns + spec->parts->columns, MANY_COLUMNS);
		}
	}
	parts->walk = walk;
}

bool
lsm_compose_dropped(const LsmColumnSpec *spec, uint32 *digest)
{
	bool		found = false;
	uint32		once = 0;

	if (spec->parts == NULL)
		return false;
	walk_dropped(spec->parts, ++last_walk, &once);
	*digest += spec->parts->columns < MANY_COLUMNS ? spec->parts->dropped : once;
	for (; spec->parts != NULL && !found; spec = spec->parts->element)
		found = spec->type == LSM_COLUMN_RECORD;
	return found;
}
