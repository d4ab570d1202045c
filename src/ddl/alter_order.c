/*-------------------------------------------------------------------------
 *
 * alter_order.c
 *	  What ALTER TABLE locks, in which order.
 *
 * Keys that a statement needs to have rebuilt are looked at before core
 * executes it, and their tables are locked then.  What core would have locked
 * by the time that it comes to those tables is locked before them, here: in
 * another order the statement would be in deadlocks that heap does not have,
 * and with a lock of another strength in others or in the way.  Core's order,
 * as ATPrepCmd() and the passes of ATRewriteCatalogs() have it:
 *
 *	- the table;
 *	- its children, with the statement's lock, if columns of theirs change, if
 *	  one of their constraints is dropped, and since 18 if one is added.  ONLY
 *	  leaves children a column or a constraint of their own: they are locked,
 *	  and theirs are not;
 *	- tables at the other side of a foreign key that goes or is made anew, with
 *	  AccessExclusiveLock;
 *	- partitions that get an index (DefineIndex), with ShareLock;
 *	- for each foreign key, those of new columns first: the table that it
 *	  references and its partitions with ShareRowExclusiveLock, then partitions
 *	  of the table with the statement's lock.
 *
 * ADD COLUMN and CHECK go down branch by branch and not level by level as we
 * do.  That makes no difference for trees of two levels.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"

/* See ddl.h. */
bool
lsm_column_is_there(Oid relid, const AlterTableStmt *stmt, const AlterTableCmd *cmd)
{
	const char *name = castNode(ColumnDef, cmd->def)->colname;
	ListCell   *lc;

	if (!cmd->missing_ok || get_attnum(relid, name) == InvalidAttrNumber)
		return false;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *other = lfirst_node(AlterTableCmd, lc);

		if (other->subtype == AT_DropColumn && strcmp(other->name, name) == 0)
			return false;
	}
	return true;
}

/* See ddl.h. */
List *
lsm_added_constraints(const AlterTableStmt *stmt, Oid relid)
{
	List	   *of_columns = NIL;
	List	   *of_table = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AddConstraint)
			of_table = lappend(of_table, castNode(Constraint, cmd->def));
		else if (cmd->subtype == AT_AddColumn && !lsm_column_is_there(relid, stmt, cmd))
		{
			foreach(lc2, castNode(ColumnDef, cmd->def)->constraints)
			{
				if (IsA(lfirst(lc2), Constraint))
					of_columns = lappend(of_columns, lfirst(lc2));
			}
		}
	}
	return list_concat(of_columns, of_table);
}

/* ======================================================================
 * Children
 * ====================================================================== */

/* The column's row in pg_attribute; all zero: there is none. */
static FormData_pg_attribute
attribute(Oid relid, const char *column)
{
	HeapTuple	tuple = SearchSysCacheAttName(relid, column);
	FormData_pg_attribute result = {0};

	if (!HeapTupleIsValid(tuple))
		return result;
	memcpy(&result, GETSTRUCT(tuple), ATTRIBUTE_FIXED_PART_SIZE);
	ReleaseSysCache(tuple);
	return result;
}

/* Have children the constraint, too? */
static bool
is_inherited(Oid relid, const char *name)
{
	Oid			constraint = get_relation_constraint_oid(relid, name, true);
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = !((Form_pg_constraint) GETSTRUCT(tuple))->connoinherit;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Does the constraint make columns NOT NULL that are not?  Children of a table
 * that is not partitioned may have them NULL when their parent has not.
 */
static bool
sets_not_null(Oid relid, const Constraint *constraint)
{
	ListCell   *lc;

	if (constraint->contype != CONSTR_PRIMARY)
		return false;
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return true;
	foreach(lc, constraint->keys)
	{
		if (!attribute(relid, strVal(lfirst(lc))).attnotnull)
			return true;
	}
	return false;
}

/* Are children locked for the command before indexes are made? */
static bool
concerns_children(Oid relid, const AlterTableStmt *stmt, const AlterTableCmd *cmd)
{
	bool		partitioned = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE;

	switch (cmd->subtype)
	{
		case AT_AddColumn:
			return !lsm_column_is_there(relid, stmt, cmd);
		case AT_DropColumn:
			return get_attnum(relid, cmd->name) != InvalidAttrNumber;
		case AT_AddConstraint:
			return LSM_ADD_CONSTRAINT_LOCKS_CHILDREN ||
				sets_not_null(relid, castNode(Constraint, cmd->def));
		case AT_DropConstraint:
			return partitioned || is_inherited(relid, cmd->name);
		case AT_SetNotNull:
			return !partitioned || !attribute(relid, cmd->name).attnotnull;
		case AT_DropIdentity:
			return LSM_PARTITIONS_HAVE_IDENTITY && partitioned &&
				attribute(relid, cmd->name).attidentity != '\0';
		case AT_AlterColumnType:
		case AT_ColumnDefault:
		case AT_DropNotNull:
		case AT_DropExpression:
		case AT_SetStatistics:
		case AT_SetStorage:
			return true;
		default:
			return LSM_SETS_EXPRESSION(cmd);
	}
}

/* ======================================================================
 * Tables at the other side of foreign keys
 * ====================================================================== */

static void
lock_whole(Oid table)
{
	LockRelationOid(table, AccessExclusiveLock);
	if (get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE)
		(void) find_all_inheritors(table, AccessExclusiveLock, NULL);
}

/* Does the command drop the foreign key of its table, or make it anew? */
static bool
replaces_reference(const AlterTableCmd *cmd, AttrNumber attnum, const ForeignKeyCacheInfo *fk)
{
	const char *name;

	if (cmd->subtype == AT_DropConstraint)
	{
		name = get_constraint_name(fk->conoid);
		return name != NULL && strcmp(name, cmd->name) == 0;
	}
	for (int i = 0; i < fk->nkeys; i++)
		if (fk->conkey[i] == attnum)
			return true;
	return false;
}

/* ... foreign keys that reference this key?  A DROP that is not CASCADE fails. */
static bool
replaces_referenced(const AlterTableCmd *cmd, AttrNumber attnum, const LsmUniqueIndex *u)
{
	Oid			constraint = get_index_constraint(u->index);

	if (cmd->subtype == AT_DropConstraint)
		return cmd->behavior == DROP_CASCADE && OidIsValid(constraint) &&
			strcmp(get_constraint_name(constraint), cmd->name) == 0;
	return (cmd->subtype != AT_DropColumn || cmd->behavior == DROP_CASCADE) &&
		lsm_index_has_column(u, attnum);
}

static void
lock_other_sides(Oid relid, const AlterTableCmd *cmd)
{
	AttrNumber	attnum = cmd->subtype == AT_DropConstraint ? InvalidAttrNumber :
		get_attnum(relid, cmd->name);
	Relation	rel = table_open(relid, NoLock);
	List	   *references = copyObject(RelationGetFKeyList(rel));
	ListCell   *lc;
	ListCell   *lc2;

	table_close(rel, NoLock);
	foreach(lc, lsm_unique_indexes(relid, InvalidOid))
	{
		LsmUniqueIndex *u = lfirst(lc);

		if (!replaces_referenced(cmd, attnum, u))
			continue;
		foreach(lc2, get_index_ref_constraints(u->index))
		{
			HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(lfirst_oid(lc2)));
			Oid			other;

			if (!HeapTupleIsValid(tuple))
				continue;
			other = ((Form_pg_constraint) GETSTRUCT(tuple))->conrelid;
			ReleaseSysCache(tuple);
			lock_whole(other);
		}
	}
	foreach(lc, references)
	{
		ForeignKeyCacheInfo *fk = lfirst(lc);

		if (replaces_reference(cmd, attnum, fk))
			lock_whole(fk->confrelid);
	}
}

/* See ddl.h. */
void
lsm_lock_before_constraints(const AlterTableStmt *stmt, Oid relid)
{
	LOCKMODE	lockmode = AlterTableGetLockLevel(stmt->cmds);
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (!concerns_children(relid, stmt, cmd))
			continue;
		if (stmt->relation->inh)
			(void) find_all_inheritors(relid, lockmode, NULL);
		else if (cmd->subtype == AT_DropColumn || cmd->subtype == AT_DropConstraint)
			(void) find_inheritance_children(relid, lockmode);
		else
			continue;
		break;
	}
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_DropConstraint || cmd->subtype == AT_DropColumn)
			lock_other_sides(relid, cmd);
	}
	foreach(lc, stmt->cmds)
	{
		if (lsm_rebuilds_indexes(lfirst(lc)))
			lock_other_sides(relid, lfirst(lc));
	}
}
