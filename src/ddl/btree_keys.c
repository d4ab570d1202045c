/*-------------------------------------------------------------------------
 *
 * btree_keys.c
 *	  Uses of a unique index that PostgreSQL supports for btree only.
 *
 *	- being referenced by a foreign key: ATAddForeignKeyConstraint (before 18)
 *	- becoming a constraint: transformIndexConstraint
 *	- matching the key of a partitioned table: DefineIndex (before 18)
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
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am_d.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
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
#define PARTITION_REASON \
	(LSM_CORE_TAKES_ANY_KEY ? \
	 "The keys of partitions have the access method of the partitioned table's key." : \
	 "Keys of partitioned tables are supported with btree only.")
#define ATTACH_REASON		"The index of a partition is attached to an index of the same access method only."
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

		if (!form->indisunique || !form->indislive)
			continue;
		its_am = lsm_relation_am(form->indexrelid);
		if (OidIsValid(am) && its_am != am)
			continue;
		u = palloc0(sizeof(LsmUniqueIndex));
		u->index = form->indexrelid;
		u->am = its_am;
		u->valid = form->indisvalid;
		u->primary = form->indisprimary;
		u->immediate = form->indimmediate;
		u->nulls_not_distinct = form->indnullsnotdistinct;
		u->plain = heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
			heap_attisnull(tuple, Anum_pg_index_indexprs, NULL);
		u->nkeys = form->indnkeyatts;
		u->ncolumns = form->indnatts;
		memcpy(u->keys, form->indkey.values, sizeof(AttrNumber) * u->ncolumns);
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

/*
 * Rebuild a unique index with another access method, btree or lsm_index.  The
 * table has been locked by the caller.  `reason` NULL: not worth telling.
 */
static void
rebuild_as(Oid index, const char *am, const char *reason)
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
	rebuild_as(index, BTREE_NAME, reason);
}

/*
 * ERROR unless the user owns the table.  One that is gone is core's to report.
 */
static void
check_owner(Oid table, Oid index, const char *am, const char *reason)
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
		check_owner(table, index, BTREE_NAME, FOREIGN_KEY_REASON);
		return true;
	}
	return false;
}

/* Has the partitioned table a key for the foreign key, and may it be used? */
static bool
may_reference_partitions(Oid table, const Constraint *constraint)
{
	ListCell   *lc;

	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		if (serves_reference(table, lfirst(lc), constraint->pk_attrs))
			return may_reference(table, lfirst(lc));
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
	Oid			pk = RangeVarGetRelid(constraint->pktable, NoLock, true);
	Oid			index;

	if (!OidIsValid(pk) || (get_rel_relkind(pk) != RELKIND_RELATION &&
							get_rel_relkind(pk) != RELKIND_PARTITIONED_TABLE))
		return;
	pk = lsm_lock_named(constraint->pktable, ShareRowExclusiveLock, NULL,
						lsm_references_need_btree, constraints);
	if (!OidIsValid(pk))
		return;
	while (OidIsValid(index = referenced_lsm_key(pk, constraint)))
	{
		/* GRANT does not wait for us: the user may have got REFERENCES now */
		check_owner(pk, index, BTREE_NAME, FOREIGN_KEY_REASON);
		make_btree(index, FOREIGN_KEY_REASON);
	}
	if (get_rel_relkind(pk) == RELKIND_PARTITIONED_TABLE &&
		may_reference_partitions(pk, constraint))
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
 * Partitions
 * ====================================================================== */

/*
 * Does the index of a partition serve the key?  That of a constraint takes a
 * constraint's only.
 */
static bool
same_key(Oid table, const LsmUniqueIndex *u, const LsmParentKey *key)
{
	ListCell   *lc;
	int			i = 0;

	if (u->primary && key->primary)
		return true;			/* there can only be one */
	if (key->constraint && !OidIsValid(get_index_constraint(u->index)))
		return false;
	if (!u->plain || u->nkeys != list_length(key->columns) ||
		u->nulls_not_distinct != key->nulls_not_distinct)
		return false;
	foreach(lc, key->columns)
	{
		if (strcmp(get_attname(table, u->keys[i++], false), strVal(lfirst(lc))) != 0)
			return false;
	}
	return true;
}

/*
 * Can it be rebuilt with the key's access method?  One that follows another
 * key already is not asked.  A btree that serves no constraint may have any
 * operator class: then core makes an index of its own.
 */
static bool
can_follow(Oid table, const LsmUniqueIndex *u, Oid am)
{
	if (u->am == am || get_rel_relispartition(u->index))
		return false;
	if (am == BTREE_AM_OID)
		return u->am == lsm_index_am_oid();
	if (u->am != BTREE_AM_OID || !u->plain || !OidIsValid(get_index_constraint(u->index)))
		return false;
	for (int i = 0; i < u->nkeys; i++)
	{
		Oid			type;
		int32		typmod;
		Oid			collation;

		get_atttypetypmodcoll(table, u->keys[i], &type, &typmod, &collation);
		if (!lsm_type_fits(type, collation, false))
			return false;
	}
	return true;
}

/* The key that the index serves and is to follow, or NULL. */
static const LsmParentKey *
key_to_follow(Oid table, const LsmUniqueIndex *u, List *keys)
{
	const LsmParentKey *served = NULL;
	ListCell   *lc;

	foreach(lc, keys)
	{
		const LsmParentKey *key = lfirst(lc);

		if (same_key(table, u, key) && can_follow(table, u, key->am))
			served = key;
	}
	return served;
}

/*
 * Does match_keys() do something?  `arg`: a list of LsmParentKey.  ERROR if the
 * user may not have that done.
 */
static bool
keys_differ(Oid table, void *arg)
{
	List	   *keys = arg;
	ListCell   *lc;

	if (get_rel_relkind(table) != RELKIND_RELATION)
		return false;
	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);
		const LsmParentKey *served = key_to_follow(table, u, keys);

		if (served == NULL)
			continue;
		check_owner(table, u->index, get_am_name(served->am), PARTITION_REASON);
		return true;
	}
	return false;
}

/*
 * A partition that is partitioned itself has no index that could be rebuilt:
 * all its partitions' would have to be.  Core would say "multiple primary keys".
 */
static void
refuse_other_key(Oid parent, Oid table, List *keys)
{
	ListCell   *lc;

	if (get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);
		const LsmParentKey *served = key_to_follow(table, u, keys);

		if (served == NULL || !served->primary)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot attach table \"%s\" as a partition of table \"%s\" with a primary key of another access method",
						get_rel_name(table), get_rel_name(parent)),
				 errdetail("Table \"%s\" is partitioned itself, and its key \"%s\" is %s in place of %s.",
						   get_rel_name(table), get_rel_name(u->index), get_am_name(u->am),
						   get_am_name(served->am)),
				 errhint("Drop the key of table \"%s\": attaching the table makes it anew.",
						 get_rel_name(table))));
	}
}

/*
 * Indexes of a partition, which is locked, that serve one of the keys get its
 * access method.
 */
static void
match_keys(Oid table, List *keys)
{
	ListCell   *lc;

	if (get_rel_relkind(table) != RELKIND_RELATION)
		return;
	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);
		const LsmParentKey *served = key_to_follow(table, u, keys);

		if (served != NULL)
			rebuild_as(u->index, get_am_name(served->am), PARTITION_REASON);
	}
}

/*
 * Before ALTER TABLE parent ATTACH PARTITION: core would make new indexes for
 * keys that do not match, and fail if there is a second primary key.  The parent
 * is locked.
 */
void
lsm_prepare_attach(Oid parent, RangeVar *partition)
{
	Oid			relid = RangeVarGetRelid(partition, NoLock, true);
	Oid			others = InvalidOid;
	List	   *keys = NIL;
	ListCell   *lc;

	if (!OidIsValid(relid) || !object_ownercheck(RelationRelationId, relid, GetUserId()) ||
		!object_ownercheck(RelationRelationId, parent, GetUserId()))
		return;
	foreach(lc, lsm_unique_indexes(parent, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);
		LsmParentKey  *key = palloc0(sizeof(LsmParentKey));

		if (u->am != BTREE_AM_OID && u->am != lsm_index_am_oid())
			continue;
		key->am = u->am;
		key->constraint = OidIsValid(get_index_constraint(u->index));
		key->primary = u->primary;
		key->nulls_not_distinct = u->nulls_not_distinct;
		for (int i = 0; u->plain && i < u->nkeys; i++)
			key->columns = lappend(key->columns,
								   makeString(get_attname(parent, u->keys[i], false)));
		keys = lappend(keys, key);
	}
	if (keys == NIL)
		return;
	refuse_other_key(parent, relid, keys);
	if (get_rel_relkind(relid) != RELKIND_RELATION)
		return;

	/* as ATExecAttachPartition does: the default partition first */
	others = get_default_partition_oid(parent);
	if (OidIsValid(others))
		LockRelationOid(others, AccessExclusiveLock);
	relid = lsm_lock_named(partition, AccessExclusiveLock, RangeVarCallbackOwnsRelation, NULL, NULL);
	if (OidIsValid(relid))
		match_keys(relid, keys);
}

/*
 * A key of a partitioned table that is to be made on these columns (names; NIL:
 * not only plain columns).  `am`: what it will be, NULL for btree.  NULL: none
 * that partitions' keys have to match.
 */
LsmParentKey *
lsm_parent_key(const char *am, bool constraint, bool primary, bool nulls_not_distinct,
			   List *columns)
{
	bool		is_lsm = am != NULL && strcmp(am, LSM_INDEX_AM_NAME) == 0;
	LsmParentKey *key;

	if (!is_lsm && am != NULL && strcmp(am, BTREE_NAME) != 0)
		return NULL;			/* WITHOUT OVERLAPS is for gist */
	key = palloc(sizeof(LsmParentKey));
	key->am = is_lsm ? lsm_index_am_oid() : BTREE_AM_OID;
	key->constraint = constraint;
	key->primary = primary;
	key->nulls_not_distinct = nulls_not_distinct;
	key->columns = columns;
	return key;
}

static bool
may_have_keys(Oid parent)
{
	return get_rel_relkind(parent) == RELKIND_PARTITIONED_TABLE &&
		object_ownercheck(RelationRelationId, parent, GetUserId());
}

/*
 * Before CREATE UNIQUE INDEX of a partitioned table, which is locked with
 * `lockmode`, and its partitions.
 */
void
lsm_prepare_parent_index(Oid parent, LOCKMODE lockmode, LsmParentKey *key)
{
	List	   *keys = list_make1(key);
	List	   *tables = list_make1_oid(parent);
	ListCell   *lc;

	if (key == NULL || !may_have_keys(parent))
		return;

	/*
	 * In find_all_inheritors()' order.  The list grows: who is a child of a
	 * table is certain when that is locked.
	 */
	foreach(lc, tables)
	{
		Oid			table = lfirst_oid(lc);

		if (get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		{
			if (lsm_lock_table(table, lockmode, keys_differ, keys))
				match_keys(table, keys);
			continue;
		}
		if (table != parent)
			LockRelationOid(table, lockmode);
		tables = list_concat(tables, find_inheritance_children(table, NoLock));
	}
}

/* Has the partitioned table indexes that can be attached to all these keys? */
static bool
has_keys(Oid table, List *keys)
{
	List	   *indexes = lsm_unique_indexes(table, InvalidOid);
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, keys)
	{
		const LsmParentKey *key = lfirst(lc);
		bool		found = false;

		foreach(lc2, indexes)
		{
			LsmUniqueIndex *u = lfirst(lc2);

			found |= u->am == key->am && !get_rel_relispartition(u->index) &&
				same_key(table, u, key);
		}
		if (!found)
			return false;
	}
	return true;
}

static void
match_partitions(Oid parent, List *keys)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, lsm_partitions(parent))
	{
		Oid			table = lfirst_oid(lc);

		if (get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		{
			if (lsm_lock_table(table, ShareLock, keys_differ, keys))
				match_keys(table, keys);
			continue;
		}
		LockRelationOid(table, ShareLock);
		if (!has_keys(table, keys))
			match_partitions(table, keys);
	}
}

/*
 * Before ALTER TABLE adds these keys (LsmParentKey) to a partitioned table,
 * which is locked.  Partitions get the lock, and in the order, that
 * DefineIndex() takes; what the statement locks before that is locked.
 */
void
lsm_prepare_parent_constraints(Oid parent, List *keys)
{
	if (keys != NIL && may_have_keys(parent))
		match_partitions(parent, keys);
}

static const LsmUniqueIndex *
find_unique_index(Oid table, Oid index)
{
	ListCell   *lc;

	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		if (((LsmUniqueIndex *) lfirst(lc))->index == index)
			return lfirst(lc);
	}
	return NULL;
}

/*
 * Can the index of a partition be attached only when it has the access method
 * `am`, and be rebuilt like that?
 */
static bool
index_differs(Oid table, Oid index, Oid am)
{
	const LsmUniqueIndex *u;

	if (get_rel_relkind(table) != RELKIND_RELATION || lsm_relation_am(index) == am ||
		get_rel_relispartition(index))
		return false;
	u = find_unique_index(table, index);
	if (u != NULL)
		return can_follow(table, u, am);

	/* a btree of any operator classes may have no equal */
	return am == BTREE_AM_OID && lsm_relation_am(index) == lsm_index_am_oid();
}

static inline bool
owns(Oid relid)
{
	return OidIsValid(relid) && object_ownercheck(RelationRelationId, relid, GetUserId());
}

/*
 * Before ALTER INDEX parent ATTACH PARTITION.  As core does, parents are locked
 * first, and the partition before its index.
 */
void
lsm_prepare_attach_index(RangeVar *parent, RangeVar *partition)
{
	Oid			parent_index = RangeVarGetRelid(parent, NoLock, true);
	Oid			am = lsm_relation_am(parent_index);
	Oid			index = RangeVarGetRelid(partition, NoLock, true);

	if ((am != BTREE_AM_OID && am != lsm_index_am_oid()) ||
		get_rel_relkind(parent_index) != RELKIND_PARTITIONED_INDEX ||
		!owns(index) || !owns(parent_index))
		return;
	parent_index = lsm_lock_named(parent, ShareUpdateExclusiveLock, RangeVarCallbackOwnsRelation,
								  NULL, NULL);
	if (!OidIsValid(parent_index) ||
		get_rel_relkind(parent_index) != RELKIND_PARTITIONED_INDEX)
		return;					/* the name is another's by now */
	am = lsm_relation_am(parent_index);
	LockRelationOid(IndexGetRelation(parent_index, false), AccessShareLock);
	while (OidIsValid(index = RangeVarGetRelid(partition, NoLock, true)))
	{
		Oid			table = IndexGetRelation(index, true);
		LOCKMODE	lockmode;
		bool		differs;

		/* none, or another's: core will say so */
		if (!owns(table))
			return;
		differs = index_differs(table, index, am);
		lockmode = differs ? AccessExclusiveLock : AccessShareLock;
		LockRelationOid(table, lockmode);
		if (RangeVarGetRelid(partition, NoLock, true) == index &&
			owns(table) && index_differs(table, index, am) == differs)
		{
			if (differs)
				rebuild_as(index, get_am_name(am), find_unique_index(table, index) != NULL ?
						   PARTITION_REASON : ATTACH_REASON);
			return;
		}
		UnlockRelationOid(table, lockmode);
	}
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
			check_owner(relid, index, BTREE_NAME, REFRESH_REASON);
		return;
	}
	relid = lsm_lock_named(stmt->relation, ExclusiveLock, RangeVarCallbackOwnsRelation,
						   refresh_needs_btree, NULL);
	if (OidIsValid(relid) && OidIsValid(index = refresh_lsm_key(relid)))
		make_btree(index, REFRESH_REASON);
}
