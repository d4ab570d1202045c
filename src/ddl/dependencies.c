/*-------------------------------------------------------------------------
 *
 * dependencies.c
 *	  What the catalog says that an index depends on.
 *
 * index_concurrently_swap() exchanges the rows of pg_depend of two indexes,
 * which is right if they have the same operator classes.  One of another access
 * method has others: the rows would name those of the index that is dropped.
 * Then an operator class, or the whole extension, could be dropped under an
 * index that needs it, and could not be where only a btree is left.
 *
 * All other rows are the same for both access methods: collations, columns,
 * expressions, the constraint, the parent's index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"

/*
 * Operator classes of the index with this row of pg_index, but for those that
 * can never be dropped: pg_depend does not mention them.
 */
static List *
classes_used(HeapTuple index)
{
	bool		isnull;
	oidvector  *classes = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, index,
																		Anum_pg_index_indclass, &isnull));
	List	   *result = NIL;

	for (int i = 0; i < ((Form_pg_index) GETSTRUCT(index))->indnkeyatts; i++)
		if (!IsPinnedObject(OperatorClassRelationId, classes->values[i]))
			result = list_append_unique_oid(result, classes->values[i]);
	return result;
}

/* Operator classes that the index depends on by pg_depend */
static List *
classes_recorded(Oid index)
{
	Relation	pg_depend = table_open(DependRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(index));
	scan = systable_beginscan(pg_depend, DependDependerIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->refclassid == OperatorClassRelationId && form->deptype == DEPENDENCY_NORMAL)
			result = lappend_oid(result, form->refobjid);
	}
	systable_endscan(scan);
	table_close(pg_depend, AccessShareLock);
	return result;
}

static bool
same_classes(const List *used, const List *recorded)
{
	return list_length(used) == list_length(recorded) &&
		list_difference_oid(used, recorded) == NIL;
}

/*
 * Lets the index depend on its own operator classes and no others.  True if
 * something was amiss.  REQUIRES: ShareUpdateExclusiveLock on its table.
 */
bool
lsm_index_record_classes(Oid index)
{
	ObjectAddress depender = {RelationRelationId, index, 0};
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	ObjectAddresses *classes;
	List	   *used;
	ListCell   *lc;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	used = classes_used(tuple);
	ReleaseSysCache(tuple);
	if (same_classes(used, classes_recorded(index)))
		return false;
	(void) deleteDependencyRecordsForClass(RelationRelationId, index,
										   OperatorClassRelationId, DEPENDENCY_NORMAL);
	classes = new_object_addresses();
	foreach(lc, used)
	{
		ObjectAddress class = {OperatorClassRelationId, lfirst_oid(lc), 0};

		add_exact_object_address(&class, classes);
	}
	record_object_address_dependencies(&depender, classes, DEPENDENCY_NORMAL);
	free_object_addresses(classes);
	CommandCounterIncrement();
	return true;
}

/*
 * Indexes whose rows are amiss, of the access methods that take each other's
 * place
 */
static List *
indexes_amiss(void)
{
	Oid			ours = lsm_index_am_oid();
	Relation	pg_index = table_open(IndexRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(pg_index, InvalidOid, false, NULL, 0, NULL);
	List	   *result = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			index = ((Form_pg_index) GETSTRUCT(tuple))->indexrelid;
		Oid			am;

		if (index < FirstNormalObjectId)
			continue;			/* initdb's */
		am = lsm_relation_am(index);
		if ((am == BTREE_AM_OID || am == ours) &&
			!same_classes(classes_used(tuple), classes_recorded(index)))
			result = lappend_oid(result, index);
	}
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	return result;
}

/*
 * Repairs what versions have left that did not do so when they replaced an
 * index.  Returns the indexes.
 *
 * Locks: ShareUpdateExclusiveLock on the tables of those, until the transaction
 * ends.
 */
List *
lsm_repair_index_dependencies(void)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, indexes_amiss())
	{
		Oid			index = lfirst_oid(lc);
		Oid			table = IndexGetRelation(index, true);

		if (!OidIsValid(table))
			continue;			/* dropped */
		LockRelationOid(table, ShareUpdateExclusiveLock);
		if (IndexGetRelation(index, true) != table)
			UnlockRelationOid(table, ShareUpdateExclusiveLock);
		else if (lsm_index_record_classes(index))
			result = lappend_oid(result, index);
	}
	return result;
}
