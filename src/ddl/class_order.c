/*-------------------------------------------------------------------------
 *
 * class_order.c
 *	  Which operator family ORDER BY goes by.
 *
 * PostgreSQL 18 takes the first family that has the operator and an access
 * method with an order (get_ordering_op_properties()), and the families of one
 * operator come by their OIDs.  With btree's behind ours, an index of btree
 * serves no ORDER BY of that type any more, on no table: so whoever makes such
 * a class is told.  A dump makes families in the order of their names.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_opfamily.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"

/* The family of btree with the operator that has the lowest OID, or InvalidOid */
static Oid
first_btree_family(Oid op)
{
	CatCList   *members = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(op));
	Oid			result = InvalidOid;

	for (int i = 0; i < members->n_members; i++)
	{
		Form_pg_amop member = (Form_pg_amop) GETSTRUCT(&members->members[i]->tuple);

		if (member->amopmethod == BTREE_AM_OID && member->amoppurpose == AMOP_SEARCH &&
			(!OidIsValid(result) || member->amopfamily < result))
			result = member->amopfamily;
	}
	ReleaseSysCacheList(members);
	return result;
}

static char *
family_name(Oid family)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	Form_pg_opfamily form;
	char	   *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family);
	form = (Form_pg_opfamily) GETSTRUCT(tuple);
	result = psprintf("%s.%s", get_namespace_name(form->opfnamespace), NameStr(form->opfname));
	ReleaseSysCache(tuple);
	return result;
}

/* initdb's are in no dump. */
static bool
comes_first(Oid family, Oid btree)
{
	if (!OidIsValid(btree) || family < btree)
		return true;
	return btree >= FirstNormalObjectId &&
		strcmp(family_name(family), family_name(btree)) < 0;
}

/* After CREATE OPERATOR CLASS */
void
lsm_notice_class_order(const CreateOpClassStmt *stmt)
{
	Oid			opclass;
	Oid			family;
	Oid			type;
	Oid			op;

	if (strcmp(stmt->amname, LSM_INDEX_AM_NAME) != 0)
		return;
	CommandCounterIncrement();
	opclass = get_opclass_oid(lsm_index_am_oid(), stmt->opclassname, true);
	if (!OidIsValid(opclass))
		return;
	family = get_opclass_family(opclass);
	type = get_opclass_input_type(opclass);
	op = get_opfamily_member(family, type, type, BTLessStrategyNumber);
	if (!OidIsValid(op) || !comes_first(family, first_btree_family(op)))
		return;
	ereport(NOTICE,
			(errmsg("operator class \"%s\" of lsm_index may keep btree indexes from serving ORDER BY for type %s",
					NameListToString(stmt->opclassname), format_type_be(type)),
			 errdetail("PostgreSQL 18 goes by the operator family that was made first, and a dump makes families in the order of their names."),
			 errhint("Make btree's operator class first, and give it a name that sorts before this one's.")));
}
