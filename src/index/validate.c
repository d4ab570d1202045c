/*-------------------------------------------------------------------------
 *
 * validate.c
 *	  amvalidate: is an operator class one that scans can work with?
 *
 * The rules are btree's: the five comparison operators and the comparison
 * function for each pair of types of the family.  In addition the input type
 * must be one that we can encode, or have a support function that does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type_d.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "index/index.h"

#define ALL_STRATEGIES \
	((1 << BTLessStrategyNumber) | (1 << BTLessEqualStrategyNumber) | \
	 (1 << BTEqualStrategyNumber) | (1 << BTGreaterEqualStrategyNumber) | \
	 (1 << BTGreaterStrategyNumber))

static bool
validate_function(Form_pg_amproc form, const char *family)
{
	if (form->amprocnum == LSM_PROC_COMPARE &&
		check_amproc_signature(form->amproc, INT4OID, true, 2, 2,
							   form->amproclefttype, form->amprocrighttype))
		return true;
	if ((form->amprocnum == LSM_PROC_CODE || form->amprocnum == LSM_PROC_EQUALITY_CODE) &&
		form->amproclefttype == form->amprocrighttype &&
		check_amproc_signature(form->amproc, BYTEAOID, true, 1, 1, form->amproclefttype))
		return true;
	if (form->amprocnum == LSM_PROC_NORMAL_TEXT &&
		form->amproclefttype == form->amprocrighttype &&
		check_amproc_signature(form->amproc, TEXTOID, true, 1, 1, form->amproclefttype) &&
		IsBinaryCoercible(form->amproclefttype, TEXTOID))
		return true;
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method %s contains function %s with wrong signature or support number %d",
					family, "lsm_index", format_procedure(form->amproc),
					form->amprocnum)));
	return false;
}

static bool
validate_operator(Form_pg_amop form, const char *family)
{
	if (form->amopstrategy >= BTLessStrategyNumber &&
		form->amopstrategy <= BTGreaterStrategyNumber &&
		form->amoppurpose == AMOP_SEARCH &&
		!OidIsValid(form->amopsortfamily) &&
		check_amop_signature(form->amopopr, BOOLOID, form->amoplefttype,
							 form->amoprighttype))
		return true;
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method %s contains operator %s with wrong signature, purpose or strategy number %d",
					family, "lsm_index", format_operator(form->amopopr),
					form->amopstrategy)));
	return false;
}

/* Each pair of types of the family has all operators and the function. */
static bool
validate_groups(List *groups, Oid opcintype, const char *family)
{
	bool		result = true;
	bool		found = false;
	List	   *types = NIL;
	ListCell   *lc;

	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		if (group->lefttype == opcintype && group->righttype == opcintype)
			found = true;
		types = list_append_unique_oid(types, group->lefttype);
		types = list_append_unique_oid(types, group->righttype);
		if (group->operatorset != ALL_STRATEGIES ||
			(group->functionset & (1 << LSM_PROC_COMPARE)) == 0)
		{
			ereport(INFO,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator family \"%s\" of access method %s is missing operators or support function 1 for types %s and %s",
							family, "lsm_index", format_type_be(group->lefttype),
							format_type_be(group->righttype))));
			result = false;
		}
	}
	if (!found)
	{
		ereport(INFO,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator family \"%s\" of access method %s has no members for type %s",
						family, "lsm_index", format_type_be(opcintype))));
		result = false;
	}
	if (list_length(groups) != list_length(types) * list_length(types))
	{
		ereport(INFO,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator family \"%s\" of access method %s is missing cross-type members",
						family, "lsm_index")));
		result = false;
	}
	return result;
}

bool
lsm_index_validate(Oid opclass)
{
	bool		result = true;
	HeapTuple	classtup;
	HeapTuple	familytup;
	Form_pg_opclass classform;
	char	   *family;
	CatCList   *functions;
	CatCList   *operators;

	classtup = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	if (!HeapTupleIsValid(classtup))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	classform = (Form_pg_opclass) GETSTRUCT(classtup);
	familytup = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(classform->opcfamily));
	if (!HeapTupleIsValid(familytup))
		elog(ERROR, "cache lookup failed for operator family %u", classform->opcfamily);
	family = NameStr(((Form_pg_opfamily) GETSTRUCT(familytup))->opfname);

	operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(classform->opcfamily));
	functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(classform->opcfamily));
	for (int i = 0; i < functions->n_members; i++)
		result &= validate_function((Form_pg_amproc) GETSTRUCT(&functions->members[i]->tuple),
									family);
	for (int i = 0; i < operators->n_members; i++)
		result &= validate_operator((Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple),
									family);
	result &= validate_groups(identify_opfamily_groups(operators, functions),
							  classform->opcintype, family);

	if (lsm_class_column_type(classform->opcfamily, classform->opcintype) == LSM_COLUMN_INVALID)
	{
		ereport(INFO,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("access method %s cannot encode values of type %s",
						"lsm_index", format_type_be(classform->opcintype))));
		result = false;
	}

	ReleaseCatCacheList(functions);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(familytup);
	ReleaseSysCache(classtup);
	return result;
}
