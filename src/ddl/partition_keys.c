/*-------------------------------------------------------------------------
 *
 * partition_keys.c
 *	  Keys of partitions match the key of the partitioned table.
 *
 * An index of a partition is attached to one of the partitioned table only if
 * both have the same access method, and before 18 keys of partitioned tables
 * are btree.  Before core looks for indexes to attach, those that serve a key
 * of the partitioned table and have the other access method are rebuilt.
 *
 * Rights and locks: btree_keys.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"

#define PARTITION_REASON \
	(LSM_CORE_TAKES_ANY_KEY ? \
	 "The keys of partitions have the access method of the partitioned table's key." : \
	 "Keys of partitioned tables are supported with btree only.")
#define ATTACH_REASON		"The index of a partition is attached to an index of the same access method only."

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
		lsm_check_may_rebuild(table, u->index, get_am_name(served->am), PARTITION_REASON);
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
			lsm_rebuild_as(u->index, get_am_name(served->am), PARTITION_REASON);
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

	if (!is_lsm && am != NULL && strcmp(am, "btree") != 0)
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
				lsm_rebuild_as(index, get_am_name(am), find_unique_index(table, index) != NULL ?
						   PARTITION_REASON : ATTACH_REASON);
			return;
		}
		UnlockRelationOid(table, lockmode);
	}
}
