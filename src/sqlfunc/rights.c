/*-------------------------------------------------------------------------
 *
 * rights.c
 *	  Who may call our SQL functions for which relation, and as whom they run
 *	  what others have written.  docs/security.md has the whole picture.
 *
 * A function gets the OID of a relation from its caller.  A lock that is
 * waited for is felt by others: everyone queues behind it, and autovacuum
 * gives way.  So kind and rights are looked up in the catalogs first, and only
 * then is the relation locked, as RangeVarGetRelidExtended() does with names.
 * If the catalogs may have changed while we waited, both are looked up again
 * under the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_language_d.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/nodes.h"
#include "optimizer/optimizer.h"
#include "storage/lmgr.h"
#include "storage/sinval.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "sqlfunc/functions.h"

/* ======================================================================
 * Kind and rights
 * ====================================================================== */

/*
 * CREATE INDEX CONCURRENTLY commits an index before it builds it; if the build
 * fails, the fork may have been left without a tree.
 */
bool
lsm_index_has_tree(Relation index)
{
	return index->rd_index->indislive && index->rd_index->indisready;
}

static void
report_wrong_kind(const char *relname, char relkind)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not an lsm table or index", relname),
			 RELKIND_HAS_PARTITIONS(relkind)
			 ? errhint("Name its leaf partitions: pg_partition_tree() has them.") : 0));
}

/*
 * Has the table an index of ours?  Reads the catalog: the table need not be
 * locked.
 */
static bool
has_lsm_index(Oid table)
{
	Relation	pg_index = table_open(IndexRelationId, AccessShareLock);
	Oid			am = lsm_index_am_oid();
	bool		found = false;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(pg_index, IndexIndrelidIndexId, true, NULL, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = lsm_relation_am(((Form_pg_index) GETSTRUCT(tuple))->indexrelid) == am;
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	return found;
}

/*
 * Is it what the function works on?  A partitioned table is not, whatever
 * access method it has for its partitions (since 17).
 */
static bool
kind_fits(Form_pg_class form, LsmRelationKind kind)
{
	if (form->relkind == RELKIND_PARTITIONED_TABLE)
		return false;
	if (OidIsValid(form->relam) &&
		form->relam == (form->relkind == RELKIND_INDEX ? lsm_index_am_oid() : lsm_table_am_oid()))
		return true;
	return kind == LSM_RELATION_TREES &&
		(form->relkind == RELKIND_RELATION || form->relkind == RELKIND_MATVIEW ||
		 form->relkind == RELKIND_TOASTVALUE) &&
		has_lsm_index(form->oid);
}

/* False, too, if the table has just been dropped. */
static bool
may_read_rows(Oid table)
{
	bool		is_missing = false;

	return pg_class_aclcheck_ext(table, GetUserId(), ACL_SELECT, &is_missing) == ACLCHECK_OK;
}

/*
 * As vacuum_is_permitted_for_relation(): the owner of the database, too, and
 * since 17 whoever has the privilege.
 */
static bool
may_maintain(Oid table, Oid owner)
{
	Oid			user = GetUserId();

	return has_privs_of_role(user, owner) || lsm_owns_database(user) ||
		(OidIsValid(table) && lsm_has_maintain(table, user));
}

/*
 * Whoever may read a column, or is here to monitor, can have the lock without
 * us.
 */
static bool
may_see_facts(Oid table, Oid owner)
{
	Oid			user = GetUserId();

	return may_read_rows(table) || may_maintain(table, owner) ||
		pg_attribute_aclcheck_all(table, user, ACL_SELECT, ACLMASK_ANY) == ACLCHECK_OK ||
		has_privs_of_role(user, ROLE_PG_STAT_SCAN_TABLES);
}

/*
 * ERROR unless the user has the right.  `table`: of an index, which has the
 * same owner, else the relation itself; invalid if it was dropped a moment ago,
 * which will be seen under the lock.
 */
static void
check_right(Form_pg_class form, Oid table, LsmRight right)
{
	bool		granted = true;

	switch (right)
	{
		case LSM_RIGHT_MAINTAIN:
			if (!may_maintain(table, form->relowner))
				aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(form->relkind),
							   NameStr(form->relname));
			break;
		case LSM_RIGHT_ROWS:
			granted = !OidIsValid(table) || may_read_rows(table);
			break;
		case LSM_RIGHT_FACTS:
			granted = !OidIsValid(table) || may_see_facts(table, form->relowner);
			break;
	}
	if (!granted)
	{
		char		relkind = get_rel_relkind(table);
		char	   *relname = get_rel_name(table);

		if (relname != NULL)
			aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(relkind), relname);
	}
}

/* Another session's: what it holds is in that one's memory. */
static bool
is_other_temporary(Form_pg_class form)
{
	return form->relpersistence == RELPERSISTENCE_TEMP &&
		!isTempOrTempToastNamespace(form->relnamespace);
}

/*
 * ERROR unless the relation is of the right kind and the user has the right.
 * False: it is not there, or another session's temporary one.  *table is the
 * table of an index, else InvalidOid.  Takes no lock on the relation.
 */
static bool
check_relation(Oid relid, LsmRelationKind kind, LsmRight right, Oid *table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	bool		can_be_opened;

	*table = InvalidOid;
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (!kind_fits(form, kind))
		report_wrong_kind(NameStr(form->relname), form->relkind);
	if (form->relkind == RELKIND_INDEX)
		*table = IndexGetRelation(relid, true);
	check_right(form, form->relkind == RELKIND_INDEX ? *table : relid, right);
	can_be_opened = !is_other_temporary(form);
	ReleaseSysCache(tuple);
	return can_be_opened;
}

static void
report_not_there(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

	if (HeapTupleIsValid(tuple) && is_other_temporary((Form_pg_class) GETSTRUCT(tuple)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("could not open relation with OID %u", relid)));
}

/* See functions.h. */
Relation
lsm_relation_try_open(Oid relid, LsmRelationKind kind, LsmRight right, LOCKMODE lockmode)
{
	uint64		seen = SharedInvalidMessageCounter;
	Oid			table;
	Oid			table_now;

	if (!check_relation(relid, kind, right, &table))
		return NULL;

	/* the table of an index first, as everyone does */
	if (OidIsValid(table))
		LockRelationOid(table, lockmode);
	LockRelationOid(relid, lockmode);

	/*
	 * While we waited it may have been dropped, or been given to someone
	 * else; even the OID may have been given to another relation.
	 */
	if (seen != SharedInvalidMessageCounter &&
		(!check_relation(relid, kind, right, &table_now) || table_now != table))
	{
		UnlockRelationOid(relid, lockmode);
		if (OidIsValid(table))
			UnlockRelationOid(table, lockmode);
		return NULL;
	}
	return relation_open(relid, NoLock);
}

/* See functions.h. */
Relation
lsm_relation_open(Oid relid, LsmRelationKind kind, LsmRight right, LOCKMODE lockmode)
{
	Relation	rel = lsm_relation_try_open(relid, kind, right, lockmode);

	if (rel == NULL)
		report_not_there(relid);
	if (lsm_relation_is_index(rel) && !lsm_index_has_tree(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" has not been built", RelationGetRelationName(rel)),
				 errhint("Use REINDEX INDEX or DROP INDEX.")));
	return rel;
}

/* See functions.h. */
void
lsm_relation_close(Relation rel, LOCKMODE lockmode)
{
	Oid			table = rel->rd_rel->relkind == RELKIND_INDEX ?
		rel->rd_index->indrelid : InvalidOid;

	relation_close(rel, lockmode);
	if (OidIsValid(table))
		UnlockRelationOid(table, lockmode);
}

/* See functions.h. */
void
lsm_relation_check_kind(Relation rel)
{
	if (!lsm_relation_is_index(rel) && !lsm_relation_is_table(rel))
		report_wrong_kind(RelationGetRelationName(rel), rel->rd_rel->relkind);
}

/* See functions.h. */
bool
lsm_relation_may_show_keys(Relation rel)
{
	Oid			table = rel->rd_rel->relkind == RELKIND_INDEX ?
		rel->rd_index->indrelid : RelationGetRelid(rel);

	return may_read_rows(table) &&
		check_enable_rls(table, InvalidOid, true) != RLS_ENABLED;
}

/* ======================================================================
 * User code
 * ====================================================================== */

/* See functions.h. */
bool
lsm_may_become_owner(Relation table)
{
	return has_privs_of_role(GetUserId(), table->rd_rel->relowner);
}

/* See functions.h. */
void
lsm_become_owner(Relation table, LsmFormerUser *former)
{
	GetUserIdAndSecContext(&former->userid, &former->sec_context);
	SetUserIdAndSecContext(table->rd_rel->relowner,
						   former->sec_context | SECURITY_RESTRICTED_OPERATION);
	former->guc_level = NewGUCNestLevel();
	RestrictSearchPath();
}

/*
 * Expressions or predicate of an index, as the catalog has them or simplified;
 * NULL: it has none.
 */
static Node *
read_expressions(Relation index, AttrNumber column, bool simplified)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(RelationGetRelid(index)));
	Node	   *result = NULL;
	bool		isnull;
	Datum		string;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", RelationGetRelid(index));
	string = SysCacheGetAttr(INDEXRELID, tuple, column, &isnull);
	if (!isnull)
		result = stringToNode(TextDatumGetCString(string));
	if (simplified)
		result = eval_const_expressions(NULL, result);
	ReleaseSysCache(tuple);
	return result;
}

/* See functions.h. */
List *
lsm_owner_expressions(Relation index)
{
	List	   *result = (List *) read_expressions(index, Anum_pg_index_indexprs, true);

	fix_opfuncids((Node *) result);
	return result;
}

/* See functions.h. */
List *
lsm_owner_predicate(Relation index)
{
	Node	   *qual = read_expressions(index, Anum_pg_index_indpred, true);
	List	   *result;

	if (qual == NULL)
		return NIL;
	result = make_ands_implicit(canonicalize_qual((Expr *) qual, false));
	fix_opfuncids((Node *) result);
	return result;
}

/*
 * Only functions that come with the server do what is known of them: those of
 * extensions in C may call input functions of types that they are given, and a
 * domain's constraints with these.
 */
static bool
is_foreign_function(Oid function, void *context)
{
	return function >= FirstGenbkiObjectId ||
		object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE) != ACLCHECK_OK;
}

static bool
has_foreign_code(Node *node, void *context)
{
	if (node == NULL)
		return false;
	/*
	 * A domain's constraints may be anything, and JSON_VALUE() may return one;
	 * JSON_ARRAY() and its like call casts to json.
	 */
	if (IsA(node, CoerceToDomain) || LSM_IS_JSON_EXPR(node) || LSM_IS_JSON_CONSTRUCTOR(node))
		return true;
	if (check_functions_in_node(node, is_foreign_function, context))
		return true;
	return expression_tree_walker(node, has_foreign_code, context);
}

/* See functions.h. */
bool
lsm_index_has_foreign_code(Relation index)
{
	return has_foreign_code(read_expressions(index, Anum_pg_index_indexprs, false), NULL) ||
		has_foreign_code(read_expressions(index, Anum_pg_index_indpred, false), NULL);
}

/* See functions.h. */
void
lsm_become_caller(const LsmFormerUser *former)
{
	AtEOXact_GUC(false, former->guc_level);
	SetUserIdAndSecContext(former->userid, former->sec_context);
}
