/*-------------------------------------------------------------------------
 *
 * former_keys.c
 *	  Keys that ALTER COLUMN ... TYPE makes anew.
 *
 * PostgreSQL makes the new key from the text of the constraint, which does not
 * say lsm_index: it is a btree.  So before the statement the keys are noted,
 * and storage parameters that btree does not have are taken from them; after
 * it they are lsm_index again.  The statement may be about a table and its
 * children, some of which may be foreign tables, or about a type and the tables
 * of it.
 *
 * Locks: AccessExclusiveLock on all these tables, which the statement takes,
 * parents before their children.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "commands/event_trigger.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"

int			lsm_constraint_index = LSM_CONSTRAINT_AUTO;

/* Are indexes that have the column, INCLUDE columns too, made anew? */
bool
lsm_rebuilds_indexes(const AlterTableCmd *cmd)
{
	return cmd->subtype == AT_AlterColumnType || LSM_SETS_EXPRESSION(cmd);
}

/* Is it a column of the index, or one of INCLUDE? */
bool
lsm_index_has_column(const LsmUniqueIndex *u, AttrNumber attnum)
{
	for (int i = 0; i < u->ncolumns; i++)
		if (u->keys[i] == attnum)
			return true;
	return false;
}

static bool
alters_column_of(AlterTableStmt *stmt, Oid relid, const LsmUniqueIndex *u)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (!lsm_rebuilds_indexes(cmd))
			continue;
		if (lsm_index_has_column(u, get_attnum(relid, cmd->name)))
			return true;
	}
	return false;
}

/* As find_typed_table_dependencies(), which is static */
static List *
typed_tables(Oid composite)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_class_reloftype, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_rel_type_id(composite)));
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		result = lappend_oid(result, ((Form_pg_class) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return result;
}

static void
store_options(Oid index, List *options)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(index));
	Datum		values[Natts_pg_class] = {0};
	bool		nulls[Natts_pg_class] = {0};
	bool		replaces[Natts_pg_class] = {0};
	HeapTuple	changed;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", index);
	replaces[Anum_pg_class_reloptions - 1] = true;
	values[Anum_pg_class_reloptions - 1] =
		transformRelOptions((Datum) 0, options, NULL, NULL, false, false);
	nulls[Anum_pg_class_reloptions - 1] = values[Anum_pg_class_reloptions - 1] == (Datum) 0;
	changed = heap_modify_tuple(tuple, RelationGetDescr(pg_class), values, nulls, replaces);
	CatalogTupleUpdate(pg_class, &changed->t_self, changed);
	table_close(pg_class, RowExclusiveLock);
	CommandCounterIncrement();
}

/*
 * Core makes the new key from the text of the constraint, which has the
 * storage parameters and not the access method: btree would refuse ours.
 */
static void
reset_our_options(Oid index, List *options)
{
	AlterTableCmd *cmd = makeNode(AlterTableCmd);
	List	   *ours = list_difference_ptr(options, lsm_other_options(options));
	List	   *names = NIL;
	ListCell   *lc;

	if (ours == NIL)
		return;
	foreach(lc, ours)
	{
		names = lappend(names, makeDefElem(lfirst_node(DefElem, lc)->defname, NULL, -1));
	}
	if (get_rel_relkind(index) == RELKIND_PARTITIONED_INDEX)
	{
		/* there is no statement for this */
		store_options(index, lsm_other_options(options));
		return;
	}
	cmd->subtype = AT_ResetRelOptions;
	cmd->def = (Node *) names;
	cmd->behavior = DROP_RESTRICT;

	/*
	 * No event trigger learns of it: it is no command of its own, and one
	 * around us that runs the function with our statement has none in
	 * progress that it could be part of.
	 */
	EventTriggerInhibitCommandCollection();
	PG_TRY();
	{
		AlterTableInternal(index, list_make1(cmd), false);
	}
	PG_FINALLY();
	{
		EventTriggerUndoInhibitCommandCollection();
	}
	PG_END_TRY();
	CommandCounterIncrement();
}

/*
 * The tables whose columns the statement alters, which get the lock that it
 * takes: the table, which is locked, and its children, or the tables of the
 * type.  NIL: core will refuse it.
 */
static List *
altered_tables(AlterTableStmt *stmt, Oid relid)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		return NIL;
	if (stmt->objtype != OBJECT_TYPE)
		return stmt->relation->inh ? find_all_inheritors(relid, AccessExclusiveLock, NULL) :
			list_make1_oid(relid);
	foreach(lc, typed_tables(relid))
	{
		if (!object_ownercheck(RelationRelationId, lfirst_oid(lc), GetUserId()))
			return NIL;
		result = list_concat_unique_oid(result,
										find_all_inheritors(lfirst_oid(lc), AccessExclusiveLock, NULL));
	}
	return result;
}

/*
 * Does the statement drop the key of the table that it names?  One of the same
 * name that it adds is another.
 */
static bool
drops_key(AlterTableStmt *stmt, Oid relid, const LsmUniqueIndex *u, const char *constraint)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_DropConstraint && strcmp(cmd->name, constraint) == 0)
			return true;
		if (cmd->subtype == AT_DropColumn && lsm_index_has_column(u, get_attnum(relid, cmd->name)))
			return true;
	}
	return false;
}

/* The key of a partitioned table, which will be btree */
static void
prepare_parent_key(Oid table, const LsmUniqueIndex *u, bool sets_expression)
{
	ereport(NOTICE,
			(errmsg("key \"%s\" of partitioned table \"%s\" is rebuilt as btree",
					get_rel_name(u->index), get_rel_name(table)),
			 errdetail("ALTER COLUMN ... %s makes the keys of partitioned tables anew, as btree.",
					   sets_expression ? "SET EXPRESSION" : "TYPE")));
	reset_our_options(u->index, lsm_index_options_list(u->index));
}

/* The keys of one of the tables that the statement will rebuild. */
static List *
former_keys_of(AlterTableStmt *stmt, Oid relid, Oid table, bool sets_expression)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, lsm_unique_indexes(table, lsm_index_am_oid()))
	{
		LsmUniqueIndex *u = lfirst(lc);
		Oid			constraint = get_index_constraint(u->index);
		LsmFormerKey *key;

		if (!OidIsValid(constraint) || !alters_column_of(stmt, table, u))
			continue;
		if (get_rel_relispartition(u->index))
			continue;			/* it will be as its parent's is */
		if (table == relid && drops_key(stmt, relid, u, get_constraint_name(constraint)))
			continue;
		if (get_rel_relkind(u->index) == RELKIND_PARTITIONED_INDEX)
		{
			prepare_parent_key(table, u, sets_expression);
			continue;
		}
		key = palloc(sizeof(LsmFormerKey));
		key->relid = table;
		key->constraint = get_constraint_name(constraint);
		key->options = lsm_index_options_list(u->index);
		key->ordered = lsm_index_is_ordered(u->index);
		reset_our_options(u->index, key->options);
		result = lappend(result, key);
	}
	return result;
}

/*
 * The keys that the statement about the relation, which is locked, will
 * rebuild.
 */
List *
lsm_former_keys(AlterTableStmt *stmt, Oid relid)
{
	List	   *result = NIL;
	ListCell   *lc;
	bool		alters = false;
	bool		sets_expression = false;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		sets_expression |= LSM_SETS_EXPRESSION(cmd);
		alters |= lsm_rebuilds_indexes(cmd) &&
			(stmt->objtype != OBJECT_TYPE || cmd->behavior == DROP_CASCADE);
	}
	if (!alters)
		return NIL;
	foreach(lc, altered_tables(stmt, relid))
		result = list_concat(result, former_keys_of(stmt, relid, lfirst_oid(lc), sets_expression));
	return result;
}

static bool
attribute_fits(Oid relid, AttrNumber attnum, bool in_order)
{
	Oid			type;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(relid, attnum, &type, &typmod, &collation);
	return lsm_type_fits(type, collation, in_order);
}

/*
 * A key that had no order was wanted like that, and is lsm_index again in any
 * case.
 */
void
lsm_restore_key(const LsmFormerKey *key)
{
	bool		in_order = key->ordered && lsm_constraint_index != LSM_CONSTRAINT_LSM;
	Oid			constraint = get_relation_constraint_oid(key->relid, key->constraint, true);
	Oid			index = OidIsValid(constraint) ? get_constraint_index(constraint) : InvalidOid;
	ListCell   *lc;

	if (!OidIsValid(index))
		return;					/* dropped */
	if (lsm_relation_am(index) == lsm_index_am_oid())
	{
		/* core has found another table by the name: only we touched this one */
		store_options(index, key->options);
		return;
	}
	if (!LSM_CORE_TAKES_ANY_KEY && get_index_ref_constraints(index) != NIL)
		return;					/* referenced by a foreign key */
	foreach(lc, lsm_unique_indexes(key->relid, BTREE_AM_OID))
	{
		LsmUniqueIndex *u = lfirst(lc);

		if (u->index != index)
			continue;
		for (int i = 0; i < u->nkeys; i++)
			if (!attribute_fits(key->relid, u->keys[i], in_order))
				return;
		(void) lsm_swap_index(index, LSM_INDEX_AM_NAME, key->options);
	}
}
