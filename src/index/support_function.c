/*-------------------------------------------------------------------------
 *
 * support_function.c
 *	  Support functions of operator classes for types that we do not know.
 *
 *		11	makes codes, whose bytes are in the order of the values
 *		12	makes codes, for equality
 *		13	makes a text that stands for all values that are equal to one, its
 *			normal form.  The type can be read as text, and what it compares are
 *			normal forms, as text does.
 *
 * A normal form is a string, with all that strings have: sort keys and weights
 * of collations, and groups of strings that are sorted while they are read.
 * These are decoded from codes and given to the class's own functions, which
 * know them as equal to the values that they were made of.
 *
 * No locks; functions are looked up in the catalogs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "index/compose.h"

static struct varlena *
call(FmgrInfo *function, Oid collation, Datum value)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, function, 1, collation, NULL, NULL);
	fcinfo->args[0].value = value;
	fcinfo->args[0].isnull = false;
	result = FunctionCallInvoke(fcinfo);
	if (fcinfo->isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("support function %s returned NULL",
						format_procedure(function->fn_oid))));
	return PG_DETOAST_DATUM_PACKED(result);
}

static void
put_result(const LsmColumnSpec *spec, Datum value, StringInfo out)
{
	struct varlena *code = call(&spec->parts->function, spec->collation, value);

	appendBinaryStringInfo(out, VARDATA_ANY(code), VARSIZE_ANY_EXHDR(code));
}

/* See compose.h. */
Datum
lsm_normal_text(const LsmColumnSpec *spec, Datum value)
{
	return PointerGetDatum(call(spec->normal_text, spec->collation, value));
}

/* Nobody has looked at it if it was not amvalidate(). */
static void
check_function(Oid function, Oid opcintype, Oid returns)
{
	Oid		   *arguments;
	int			n;

	if (get_func_signature(function, &arguments, &n) != returns || n != 1 ||
		!IsBinaryCoercible(opcintype, arguments[0]))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("support function %s must take one argument of type %s and return type %s",
						format_procedure(function), format_type_be(opcintype),
						format_type_be(returns))));
	pfree(arguments);
	if (func_volatile(function) != PROVOLATILE_IMMUTABLE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("support function %s must be marked IMMUTABLE",
						format_procedure(function))));
}

/* See compose.h. */
void
lsm_check_normal_text(Oid function, Oid opcintype)
{
	check_function(function, opcintype, TEXTOID);
	if (!IsBinaryCoercible(opcintype, TEXTOID))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("support function %s is for types that can be read as text without a change, which type %s cannot",
						format_procedure(function), format_type_be(opcintype))));
}

/*
 * The order that a function gives is that of the type's own collation; under
 * another one its codes serve equality, which is the same under all that are
 * deterministic.
 */
void
lsm_function_spec(LsmColumnSpec *spec, Oid family)
{
	Oid			function = get_opfamily_proc(family, spec->opcintype, spec->opcintype,
											 LSM_PROC_CODE);
	bool		in_order = OidIsValid(function) &&
		spec->collation == get_typcollation(spec->opcintype);

	if (!OidIsValid(function))
		function = get_opfamily_proc(family, spec->opcintype, spec->opcintype,
									 LSM_PROC_EQUALITY_CODE);
	check_function(function, spec->opcintype, BYTEAOID);
	fmgr_info_cxt(function, &spec->parts->function, spec->parts->context);
	spec->parts->function_number = lsm_class_function(family, spec->opcintype);
	spec->put = put_result;
	spec->order = in_order ? LSM_ORDER_CODES : LSM_ORDER_NONE;
}
