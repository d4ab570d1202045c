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
#include "access/htup_details.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"

#define PARTITION_REASON \
	(LSM_CORE_TAKES_ANY_KEY ? \
	 "The keys of partitions have the access method of the partitioned table's key." : \
	 "Keys of partitioned tables are supported with btree only.")
#define ATTACH_REASON		"The index of a partition is attached to an index of the same access method only."

/* The operator class of the key column when the index is rebuilt, or InvalidOid */
static Oid
class_after(const LsmUniqueIndex *u, int column, Oid am)
{
	Oid			opclass = u->classes[column];
	Oid			type = get_atttype(u->table, u->keys[column]);
	HeapTuple	tuple;
	char	   *name;

	if (u->am == am)
		return opclass;
	if (GetDefaultOpClass(type, u->am) == opclass)
		return GetDefaultOpClass(type, am);
	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	name = pstrdup(NameStr(((Form_pg_opclass) GETSTRUCT(tuple))->opcname));
	ReleaseSysCache(tuple);
	/* as lsm_name_btree_classes() has it */
	return get_opclass_oid(am, list_make2(makeString("pg_catalog"), makeString(name)), true);
}

static bool
same_class(Oid a, Oid b)
{
	return OidIsValid(a) && OidIsValid(b) && get_opclass_family(a) == get_opclass_family(b);
}

/*
 * Does the index of a partition serve the key, once it has the key's access
 * method?  As CompareIndexInfo(), for plain columns; that of a constraint takes
 * a constraint's only.
 */
static bool
same_key(const LsmUniqueIndex *u, const LsmUniqueIndex *key)
{
	if ((key->constraint && !u->constraint) || !u->plain || !key->plain ||
		u->nkeys != key->nkeys || u->ncolumns != key->ncolumns ||
		u->nulls_not_distinct != key->nulls_not_distinct)
		return false;
	for (int i = 0; i < u->ncolumns; i++)
	{
		if (strcmp(get_attname(u->table, u->keys[i], false),
				   get_attname(key->table, key->keys[i], false)) != 0)
			return false;
		if (i < u->nkeys && (u->collations[i] != key->collations[i] ||
							 !same_class(class_after(u, i, key->am), key->classes[i])))
			return false;
	}
	return true;
}

/*
 * Can it be rebuilt with the key's access method?  A btree that serves no
 * constraint may have any operator class: then core makes an index of its own.
 */
static bool
can_follow(const LsmUniqueIndex *u, Oid am)
{
	if (u->am == am || get_rel_relkind(u->index) != RELKIND_INDEX ||
		get_rel_relispartition(u->index))
		return false;
	if (am == BTREE_AM_OID)
		return u->am == lsm_index_am_oid();
	if (u->am != BTREE_AM_OID || !u->plain || !u->constraint)
		return false;
	for (int i = 0; i < u->nkeys; i++)
	{
		Oid			type;
		int32		typmod;
		Oid			collation;

		get_atttypetypmodcoll(u->table, u->keys[i], &type, &typmod, &collation);
		if (!lsm_type_fits(type, collation, false))
			return false;
	}
	return true;
}

/* An index of a partition and the access method that it is to get */
typedef struct Follower
{
	const LsmUniqueIndex *u;
	Oid			am;
} Follower;

/*
 * The indexes of the table that are to follow keys, a list of Follower.  As in
 * core each key takes the first index that serves it; here one that need not be
 * rebuilt is taken before others.  `missing`: the keys that will have none.
 * `attaching`: the table is not yet a partition.
 */
static List *
followers(Oid table, List *keys, bool attaching, List **missing)
{
	List	   *free_indexes = NIL;
	List	   *result = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	*missing = NIL;
	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);

		if (!get_rel_relispartition(u->index) && (u->valid || !attaching))
			free_indexes = lappend(free_indexes, u);
	}
	foreach(lc, keys)
	{
		LsmUniqueIndex *key = lfirst(lc);
		LsmUniqueIndex *found = NULL;

		foreach(lc2, free_indexes)
		{
			LsmUniqueIndex *u = lfirst(lc2);

			if (same_key(u, key) &&
				!(attaching && LSM_ATTACH_COMPARES_CONSTRAINTS &&
				  key->constraint && key->primary != u->primary) &&
				(u->am == key->am || (found == NULL && can_follow(u, key->am))))
				found = u;
			if (found != NULL && found->am == key->am)
				break;
		}
		free_indexes = list_delete_ptr(free_indexes, found);
		if (found == NULL)
			*missing = lappend(*missing, key);
		else if (found->am != key->am)
		{
			Follower   *follower = palloc(sizeof(Follower));

			follower->u = found;
			follower->am = key->am;
			result = lappend(result, follower);
		}
	}
	return result;
}

/*
 * Does match_keys() do something?  `arg`: a list of keys.  ERROR if the user may
 * not have that done.
 */
static bool
keys_differ(Oid table, void *arg)
{
	List	   *missing;
	List	   *list = followers(table, arg, false, &missing);
	Follower   *first;

	if (list == NIL)
		return false;
	first = linitial(list);
	lsm_check_may_rebuild(table, first->u->index, get_am_name(first->am), PARTITION_REASON);
	return true;
}

/*
 * A partition that is partitioned itself has no index that could be rebuilt:
 * all its partitions' would have to be.  Core would say "multiple primary keys".
 */
static void
refuse_other_key(Oid parent, Oid table, List *keys)
{
	ListCell   *lc;
	ListCell   *lc2;

	if (get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, lsm_unique_indexes(table, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);

		foreach(lc2, keys)
		{
			LsmUniqueIndex *key = lfirst(lc2);

			if (!u->primary || !key->primary || u->am == key->am || !same_key(u, key))
				continue;
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot attach table \"%s\" as a partition of table \"%s\" with a primary key of another access method",
							get_rel_name(table), get_rel_name(parent)),
					 errdetail("Table \"%s\" is partitioned itself, and its key \"%s\" is %s in place of %s.",
							   get_rel_name(table), get_rel_name(u->index), get_am_name(u->am),
							   get_am_name(key->am)),
					 errhint("Drop the key of table \"%s\": attaching the table makes it anew.",
							 get_rel_name(table))));
		}
	}
}

/*
 * Indexes of a partition, which is locked, that serve one of the keys get its
 * access method.
 */
static void
match_keys(Oid table, List *keys, bool attaching)
{
	List	   *missing;
	ListCell   *lc;

	foreach(lc, followers(table, keys, attaching, &missing))
	{
		Follower   *follower = lfirst(lc);

		lsm_rebuild_as(follower->u->index, get_am_name(follower->am), PARTITION_REASON);
	}
}

/*
 * Partitions of the table, which is locked, get the lock, and in the order, that
 * DefineIndex() takes.
 */
static void
match_partitions(Oid parent, List *keys)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, lsm_partitions(parent))
	{
		Oid			table = lfirst_oid(lc);
		List	   *missing;

		if (get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		{
			if (lsm_lock_table(table, ShareLock, keys_differ, keys))
				match_keys(table, keys, false);
			continue;
		}
		LockRelationOid(table, ShareLock);
		(void) followers(table, keys, false, &missing);
		if (missing != NIL)
			match_partitions(table, missing);
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
	List	   *missing;
	ListCell   *lc;

	if (!OidIsValid(relid) || !object_ownercheck(RelationRelationId, relid, GetUserId()) ||
		!object_ownercheck(RelationRelationId, parent, GetUserId()))
		return;
	foreach(lc, lsm_unique_indexes(parent, InvalidOid))
	{
		LsmUniqueIndex *key = lfirst(lc);

		if (key->am == BTREE_AM_OID || key->am == lsm_index_am_oid())
			keys = lappend(keys, key);
	}
	if (keys == NIL)
		return;
	refuse_other_key(parent, relid, keys);

	/* as ATExecAttachPartition does: the default partition first */
	others = get_default_partition_oid(parent);
	if (OidIsValid(others))
		LockRelationOid(others, AccessExclusiveLock);
	relid = lsm_lock_named(partition, AccessExclusiveLock, lsm_owns_named, NULL, NULL);
	if (!OidIsValid(relid))
		return;
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		match_keys(relid, keys, true);
	else
	{
		(void) find_all_inheritors(relid, AccessExclusiveLock, NULL);
		(void) followers(relid, keys, true, &missing);
		match_partitions(relid, missing);
	}
}

/*
 * Appends a column to a key that is to be made; false: there is none of this
 * name yet, and partitions have no key with it.
 */
static bool
add_column(LsmUniqueIndex *key, const char *name, List *collation, List *opclass)
{
	AttrNumber	attnum = name == NULL ? InvalidAttrNumber : get_attnum(key->table, name);
	int			n = key->ncolumns;
	Oid			type;
	int32		typmod;

	if (attnum <= 0 || n == INDEX_MAX_KEYS)
		return false;
	get_atttypetypmodcoll(key->table, attnum, &type, &typmod, &key->collations[n]);
	if (collation != NIL)
		key->collations[n] = get_collation_oid(collation, true);
	key->classes[n] = opclass != NIL ? get_opclass_oid(key->am, opclass, true) :
		GetDefaultOpClass(type, key->am);
	key->keys[n] = attnum;
	key->ncolumns++;
	return true;
}

/*
 * A key of a partitioned table that is to be made.  `am`: what it will be, NULL
 * for btree.  `columns`, `included`: of IndexElem or names (String).  NULL: none
 * that partitions' keys have to match.
 */
LsmUniqueIndex *
lsm_new_parent_key(Oid parent, const char *am, bool constraint, bool nulls_not_distinct,
				   List *columns, List *included)
{
	bool		is_lsm = am != NULL && strcmp(am, LSM_INDEX_AM_NAME) == 0;
	LsmUniqueIndex *key = palloc0(sizeof(LsmUniqueIndex));
	ListCell   *lc;

	if (!is_lsm && am != NULL && strcmp(am, "btree") != 0)
		return NULL;			/* WITHOUT OVERLAPS is for gist */
	key->table = parent;
	key->am = is_lsm ? lsm_index_am_oid() : BTREE_AM_OID;
	key->constraint = constraint;
	key->nulls_not_distinct = nulls_not_distinct;
	key->plain = true;
	key->nkeys = list_length(columns);
	foreach(lc, list_concat_copy(columns, included))
	{
		IndexElem  *elem = lfirst(lc);

		if (IsA(elem, IndexElem) ? !add_column(key, elem->name, elem->collation, elem->opclass) :
			!add_column(key, strVal(elem), NIL, NIL))
			return NULL;
	}
	return key->ncolumns > 0 ? key : NULL;
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
lsm_prepare_parent_index(Oid parent, LOCKMODE lockmode, LsmUniqueIndex *key)
{
	List	   *keys = list_make1(key);
	List	   *tables = list_make1_oid(parent);
	ListCell   *lc;

	if (key == NULL || !may_have_keys(parent))
		return;

	/*
	 * In find_all_inheritors()' order.  The list grows: what is a child of a
	 * table is certain when that is locked.
	 */
	foreach(lc, tables)
	{
		Oid			table = lfirst_oid(lc);

		if (get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		{
			if (lsm_lock_table(table, lockmode, keys_differ, keys))
				match_keys(table, keys, false);
			continue;
		}
		if (table != parent)
			LockRelationOid(table, lockmode);
		tables = list_concat(tables, find_inheritance_children(table, NoLock));
	}
}

/*
 * Before ALTER TABLE adds these keys to a partitioned table, which is locked,
 * as is what the statement locks before it makes them.
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
		return can_follow(u, am);

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
	parent_index = lsm_lock_named(parent, ShareUpdateExclusiveLock, lsm_owns_named,
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
