/*-------------------------------------------------------------------------
 *
 * btree_keys.c
 *	  Uses of a unique index that PostgreSQL supports for btree only.
 *
 *	- being referenced by a foreign key: ATAddForeignKeyConstraint (before 18)
 *	- becoming a constraint: transformIndexConstraint
 *	- matching the key of a partitioned table: DefineIndex (before 18);
 *	  partition_keys.c
 *	- telling rows apart: REFRESH MATERIALIZED VIEW CONCURRENTLY (before 18)
 *
 * Before a statement that asks for one of them, an lsm_index is replaced by a
 * btree, with a NOTICE unless the table is new in the transaction.  What will
 * be refused for lack of privileges is left to core: it checks them before it
 * comes to the access method.
 *
 * To rebuild an index is for the table's owner.  Core asks for less where it
 * does not rebuild: REFERENCES for a foreign key, ownership of the parent for
 * a key of a partitioned table.  Then the statement is refused, before
 * anything is locked.
 *
 * Locks: an index is replaced under AccessExclusiveLock on its table, which is
 * taken in place of the lock that core will take there, and when core will:
 * after the table that the statement names, and after tables above it in a tree
 * of partitions.  Whoever has read the table and then writes to it would be in
 * a deadlock with an upgrade.  name_locks.c finds out which lock it is, and
 * alter_order.c what is locked before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"

#define BTREE_NAME			"btree"

#define FOREIGN_KEY_REASON	"PostgreSQL supports foreign keys that reference a btree key only, before version 18."
#define USING_INDEX_REASON	"PostgreSQL makes constraints from btree indexes only."
#define REFRESH_REASON	"PostgreSQL refreshes a materialized view concurrently with the help of a btree key only, before version 18."

static int
compare_unique_indexes(const ListCell *a, const ListCell *b)
{
	Oid			left = ((LsmUniqueIndex *) lfirst(a))->index;
	Oid			right = ((LsmUniqueIndex *) lfirst(b))->index;

	return left < right ? -1 : left > right;
}

/*
 * The unique indexes of a table that use access method `am` (InvalidOid: any),
 * a list of LsmUniqueIndex in the order of their OIDs (RelationGetIndexList).
 * Reads the catalog: the table need not be locked.
 */
List *
lsm_unique_indexes(Oid table, Oid am)
{
	Relation	pg_index = table_open(IndexRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(pg_index, IndexIndrelidIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);
		Oid			its_am;
		LsmUniqueIndex *u;
		bool		isnull;
		oidvector  *oids;

		if (!form->indisunique || !form->indislive)
			continue;
		its_am = lsm_relation_am(form->indexrelid);
		if (OidIsValid(am) && its_am != am)
			continue;
		u = palloc0(sizeof(LsmUniqueIndex));
		u->table = table;
		u->index = form->indexrelid;
		u->am = its_am;
		u->valid = form->indisvalid;
		u->constraint = OidIsValid(get_index_constraint(u->index));
		u->primary = form->indisprimary;
		u->immediate = form->indimmediate;
		u->nulls_not_distinct = form->indnullsnotdistinct;
		u->plain = heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
			heap_attisnull(tuple, Anum_pg_index_indexprs, NULL);
		u->nkeys = form->indnkeyatts;
		u->ncolumns = form->indnatts;
		memcpy(u->keys, form->indkey.values, sizeof(AttrNumber) * u->ncolumns);
		oids = (oidvector *) DatumGetPointer(heap_getattr(tuple, Anum_pg_index_indcollation,
														   RelationGetDescr(pg_index), &isnull));
		memcpy(u->collations, oids->values, sizeof(Oid) * u->nkeys);
		oids = (oidvector *) DatumGetPointer(heap_getattr(tuple, Anum_pg_index_indclass,
														   RelationGetDescr(pg_index), &isnull));
		memcpy(u->classes, oids->values, sizeof(Oid) * u->nkeys);
		result = lappend(result, u);
	}
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);

	/*
	 * the scan returns equal keys by their place in the catalog, which
	 * autovacuum changes
	 */
	list_sort(result, compare_unique_indexes);
	return result;
}

/* See ddl.h. */
void
lsm_rebuild_as(Oid index, const char *am, const char *reason)
{
	List	   *options = lsm_index_options_list(index);
	List	   *others = lsm_other_options(options);
	Relation	table = table_open(IndexGetRelation(index, false),
								   AccessExclusiveLock);

	if (reason != NULL && table->rd_createSubid == InvalidSubTransactionId)
		ereport(NOTICE,
				(errmsg("index \"%s\" of table \"%s\" is rebuilt as %s",
						get_rel_name(index), RelationGetRelationName(table), am),
				 errdetail_internal("%s", reason)));
	table_close(table, NoLock);
	(void) lsm_swap_index(index, am, strcmp(am, BTREE_NAME) == 0 ? others :
						  list_difference_ptr(options, others));
}

static inline void
make_btree(Oid index, const char *reason)
{
	lsm_rebuild_as(index, BTREE_NAME, reason);
}

/* See ddl.h. */
void
lsm_check_may_rebuild(Oid table, Oid index, const char *am, const char *reason)
{
	if (get_rel_relkind(table) == '\0' || object_ownercheck(RelationRelationId, table, GetUserId()))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("must be owner of table \"%s\" to have its index \"%s\" rebuilt as %s",
					get_rel_name(table), get_rel_name(index), am),
			 errdetail_internal("%s", reason),
			 strcmp(am, BTREE_NAME) != 0 ? 0 :
			 get_rel_relkind(table) == RELKIND_MATVIEW ?
			 errhint("The owner can make one: CREATE UNIQUE INDEX ... USING btree.") :
			 errhint("The owner can replace the index beforehand: CREATE UNIQUE INDEX ... USING btree, then ALTER TABLE ... DROP CONSTRAINT ..., ADD CONSTRAINT ... USING INDEX.")));
}

/* ======================================================================
 * Foreign keys, USING INDEX
 * ====================================================================== */

/*
 * Would a foreign key that references these columns (NIL: the primary key) use
 * it?
 */
static bool
serves_reference(Oid table, const LsmUniqueIndex *u, List *columns)
{
	ListCell   *lc;

	if (!u->immediate || !u->valid)
		return false;
	if (columns == NIL)
		return u->primary;
	if (!u->plain || u->nkeys != list_length(columns))
		return false;
	foreach(lc, columns)
	{
		AttrNumber	attnum = get_attnum(table, strVal(lfirst(lc)));
		bool		found = false;

		for (int i = 0; i < u->nkeys; i++)
			found |= u->keys[i] == attnum;
		if (!found)
			return false;
	}
	return true;
}

/* As checkFkeyPermissions. */
static bool
may_reference(Oid table, const LsmUniqueIndex *u)
{
	Oid			user = GetUserId();

	if (pg_class_aclcheck(table, user, ACL_REFERENCES) == ACLCHECK_OK)
		return true;
	for (int i = 0; i < u->nkeys; i++)
		if (pg_attribute_aclcheck(table, u->keys[i], user, ACL_REFERENCES) != ACLCHECK_OK)
			return false;
	return true;
}

/*
 * The lsm_index that core will choose for a foreign key that references the
 * table: the first index that serves, in the order of OIDs.  InvalidOid: it is
 * no lsm_index, or core will refuse the statement.
 */
static Oid
referenced_lsm_key(Oid table, const Constraint *constraint)
{
	ListCell   *lc;

	if (get_rel_relkind(table) != RELKIND_RELATION)
		return InvalidOid;
	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);

		if (!serves_reference(table, u, constraint->pk_attrs))
			continue;
		return u->am == lsm_index_am_oid() && may_reference(table, u) ? u->index : InvalidOid;
	}
	return InvalidOid;
}

/* See ddl.h. */
bool
lsm_references_need_btree(Oid table, void *constraints)
{
	ListCell   *lc;

	foreach(lc, (List *) constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);
		Oid			index;

		if (constraint->contype != CONSTR_FOREIGN || constraint->pktable == NULL ||
			RangeVarGetRelid(constraint->pktable, NoLock, true) != table)
			continue;
		index = referenced_lsm_key(table, constraint);
		if (!OidIsValid(index))
			continue;
		lsm_check_may_rebuild(table, index, BTREE_NAME, FOREIGN_KEY_REASON);
		return true;
	}
	return false;
}

/*
 * Has the table, or partitioned table, a key for the foreign key, and may it be
 * used?  If not, it is not locked: before core refuses the statement it may wait
 * for other locks, and call functions of whoever runs it.
 */
static bool
may_be_referenced(Oid table, const Constraint *constraint)
{
	char		relkind = get_rel_relkind(table);
	ListCell   *lc;

	if ((relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE) ||
		(!allowSystemTableMods && IsCatalogRelationOid(table)))
		return false;
	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		if (serves_reference(table, lfirst(lc), constraint->pk_attrs))
			return may_reference(table, lfirst(lc));
	}
	return false;
}

/* LsmMayLock, for any of the constraints that reference the table */
static bool
some_may_reference(const RangeVar *name, Oid relid, void *constraints)
{
	ListCell   *lc;

	foreach(lc, (List *) constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (constraint->contype == CONSTR_FOREIGN && constraint->pktable != NULL &&
			RangeVarGetRelid(constraint->pktable, NoLock, true) == relid &&
			may_be_referenced(relid, constraint))
			return true;
	}
	return false;
}

/*
 * One of the constraints: the key that core will choose becomes btree.  The
 * btree that takes its place has a larger OID, so that then another one may be
 * the first.
 *
 * All foreign keys of the statement that reference the table have their say in
 * which lock it gets: there is no upgrade.
 */
static void
prepare_foreign_key(Constraint *constraint, List *constraints)
{
	Oid			pk = lsm_lock_named(constraint->pktable, ShareRowExclusiveLock,
									some_may_reference, lsm_references_need_btree,
									constraints);
	Oid			index;

	if (!OidIsValid(pk) || !may_be_referenced(pk, constraint))
		return;
	while (OidIsValid(index = referenced_lsm_key(pk, constraint)))
	{
		/* GRANT does not wait for us: the user may have got REFERENCES now */
		lsm_check_may_rebuild(pk, index, BTREE_NAME, FOREIGN_KEY_REASON);
		make_btree(index, FOREIGN_KEY_REASON);
	}
	if (get_rel_relkind(pk) == RELKIND_PARTITIONED_TABLE)
		lsm_lock_partitions(pk, ShareRowExclusiveLock);
}

/*
 * Before the foreign keys of the statement about `relid`, which is locked, are
 * added.  `constraints`: all that it adds (lsm_added_constraints).
 */
void
lsm_prepare_foreign_keys(const AlterTableStmt *stmt, Oid relid, List *constraints)
{
	LOCKMODE	lockmode = AlterTableGetLockLevel(stmt->cmds);
	ListCell   *lc;

	/* core adds identity columns in the same pass, and before them */
	foreach(lc, stmt->cmds)
	{
		if (LSM_PARTITIONS_HAVE_IDENTITY && lfirst_node(AlterTableCmd, lc)->subtype == AT_AddIdentity &&
			get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
			(void) find_all_inheritors(relid, lockmode, NULL);
	}
	foreach(lc, constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		/* CHECK constraints are added among them, to children, too */
		if (constraint->contype == CONSTR_CHECK && !constraint->is_no_inherit &&
			stmt->relation->inh)
			(void) find_all_inheritors(relid, lockmode, NULL);
		if (constraint->contype != CONSTR_FOREIGN || constraint->pktable == NULL)
			continue;
		prepare_foreign_key(constraint, constraints);
		lsm_lock_partitions(relid, lockmode);
	}
}

/*
 * Before ALTER TABLE ... ADD CONSTRAINT ... USING INDEX of the table, which is
 * locked.  `for_now`: the caller will make it lsm_index again.  True if the
 * index has been replaced.
 */
bool
lsm_prepare_using_index(Oid relid, Oid index, bool for_now)
{
	ListCell   *lc;

	if (lsm_relation_am(index) != lsm_index_am_oid() ||
		!object_ownercheck(RelationRelationId, relid, GetUserId()))
		return false;
	foreach(lc, lsm_unique_indexes(relid, lsm_index_am_oid()))
	{
		LsmUniqueIndex *u = lfirst(lc);

		if (u->index != index || !u->plain || !u->valid)
			continue;
		make_btree(index, for_now ? NULL : USING_INDEX_REASON);
		return true;
	}
	return false;
}

/* ======================================================================
 * Materialized views
 * ====================================================================== */

/* As is_usable_unique_index, except for the access method. */
static bool
tells_rows_apart(const LsmUniqueIndex *u)
{
	return u->valid && u->immediate && u->plain;
}

/*
 * The lsm_index that tells rows of the view apart, if there is one and no btree
 * does.
 */
static Oid
refresh_lsm_key(Oid view)
{
	Oid			result = InvalidOid;
	ListCell   *lc;

	if (get_rel_relkind(view) != RELKIND_MATVIEW)
		return InvalidOid;
	foreach(lc, lsm_unique_indexes(view, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);

		if (!tells_rows_apart(u))
			continue;
		if (u->am == BTREE_AM_OID)
			return InvalidOid;
		if (u->am == lsm_index_am_oid() && !OidIsValid(result))
			result = u->index;
	}
	return result;
}

static bool
refresh_needs_btree(Oid view, void *arg)
{
	return OidIsValid(refresh_lsm_key(view));
}

/*
 * Before REFRESH MATERIALIZED VIEW CONCURRENTLY, which wants one such index:
 * if none is btree, one becomes it.
 */
void
lsm_prepare_refresh(RefreshMatViewStmt *stmt)
{
	Oid			relid;
	Oid			index;

	if (LSM_CORE_TAKES_ANY_KEY || !stmt->concurrent || stmt->skipData)
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_MATVIEW)
		return;
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
	{
		/* core would say that there is no unique index */
		index = refresh_lsm_key(relid);
		if (OidIsValid(index) && lsm_has_maintain(relid, GetUserId()))
			lsm_check_may_rebuild(relid, index, BTREE_NAME, REFRESH_REASON);
		return;
	}
	relid = lsm_lock_named(stmt->relation, ExclusiveLock, lsm_owns_named,
						   refresh_needs_btree, NULL);
	if (OidIsValid(relid) && OidIsValid(index = refresh_lsm_key(relid)))
		make_btree(index, REFRESH_REASON);
}
