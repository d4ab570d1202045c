/*-------------------------------------------------------------------------
 *
 * constraints.c
 *	  DDL that concerns keys and their indexes.
 *
 *	- CREATE INDEX ... USING lsm means lsm_index.
 *	- Keys of lsm tables are served by lsm_index under lsm.constraint_index =
 *	  lsm, and under "auto" if it keeps their order: a key whose index has none
 *	  would make a table that is read in the order of its key slow, and nobody
 *	  asked for that.
 *	- Statements that need a btree get one: btree_keys.c, partition_keys.c.
 *	- ALTER COLUMN ... TYPE makes a new btree for each key (former_keys.c), ADD
 *	  CONSTRAINT ... USING INDEX wants one: after the statement those that were
 *	  lsm_index become lsm_index again, under the statement's lock, unless
 *	  "auto" and a new type would cost them their order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/binary_upgrade.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"

/* The table's access method after the statement */
static Oid
table_am_after(Oid relid, const AlterTableStmt *stmt)
{
	Oid			am = lsm_relation_am(relid);
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_SetAccessMethod)
			am = get_table_am_oid(cmd->name != NULL ? cmd->name : default_table_access_method, true);
	}
	return am;
}

/*
 * A partition's key must match its parent's, so all tables of the tree decide
 * together: all leaves are of ours.  Where there are none yet, the next one
 * will be of the access method that the partitioned table names, or the
 * default one.
 *
 * A dump is restored in an order of its own, but makes keys when all
 * partitions are there: each key finds the same answer.
 */
bool
lsm_partitions_are_lsm(Oid relid, Oid its_am, Oid am)
{
	List	   *ancestors = get_rel_relispartition(relid) ? get_partition_ancestors(relid) : NIL;
	Oid			root = ancestors != NIL ? llast_oid(ancestors) : relid;
	Oid			root_am = root == relid ? its_am : lsm_relation_am(root);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(root, NoLock, NULL))
	{
		Oid			table = lfirst_oid(lc);

		if (get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE)
			continue;
		if ((table == relid ? its_am : lsm_relation_am(table)) != am)
			return false;
		found = true;
	}
	if (found || OidIsValid(root_am))
		return found || root_am == am;
	return get_table_am_oid(default_table_access_method, true) == am;
}

/*
 * A table, of access method `its_am`, whose keys lsm_index may serve.  Before
 * 18, core matches keys of partitioned tables with the partition key for btree
 * only.
 */
static bool
keys_may_be_lsm(Oid relid, Oid its_am)
{
	Oid			am = lsm_table_am_oid();

	if (lsm_constraint_index == LSM_CONSTRAINT_BTREE || !OidIsValid(am) || !OidIsValid(relid))
		return false;
	if (!get_rel_relispartition(relid) && get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return its_am == am;
	return LSM_CORE_TAKES_ANY_KEY && lsm_partitions_are_lsm(relid, its_am, am);
}

static inline bool
new_keys_in_order(void)
{
	return lsm_constraint_index == LSM_CONSTRAINT_AUTO;
}

static bool
column_def_fits(ColumnDef *def)
{
	static const char *const serials[] = {
		"smallserial", "serial2", "serial", "serial4", "bigserial", "serial8"
	};
	Type		typtup;
	Oid			type;
	Oid			collation;

	if (def->typeName == NULL)
		return false;
	if (list_length(def->typeName->names) == 1 && !def->typeName->pct_type)
	{
		char	   *name = strVal(linitial(def->typeName->names));

		for (int i = 0; i < lengthof(serials); i++)
			if (strcmp(name, serials[i]) == 0)
				return true;	/* an integer, see transformColumnDefinition */
	}

	typtup = LookupTypeName(NULL, def->typeName, NULL, true);
	if (typtup == NULL)
		return false;			/* core will complain */
	type = typeTypeId(typtup);
	collation = typeTypeCollation(typtup);
	ReleaseSysCache(typtup);
	if (def->collClause != NULL)
		collation = get_collation_oid(def->collClause->collname, true);
	return lsm_type_fits(type, collation, new_keys_in_order());
}

/*
 * Column `name` of the table as it will be after `alter` (may be NULL): the
 * same statement may add the column or change its type.
 */
static bool
column_fits(Oid relid, const char *name, AlterTableStmt *alter, bool in_order)
{
	AttrNumber	attnum;
	Oid			type;
	int32		typmod;
	Oid			collation;
	ListCell   *lc;

	if (alter != NULL)
	{
		foreach(lc, alter->cmds)
		{
			AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

			if (cmd->subtype == AT_AddColumn && !lsm_column_is_there(relid, alter, cmd) &&
				strcmp(castNode(ColumnDef, cmd->def)->colname, name) == 0)
				return column_def_fits(castNode(ColumnDef, cmd->def));
			if (cmd->subtype == AT_AlterColumnType &&
				strcmp(cmd->name, name) == 0)
				return column_def_fits(castNode(ColumnDef, cmd->def));
		}
	}

	attnum = get_attnum(relid, name);
	if (attnum <= 0)
		return false;
	get_atttypetypmodcoll(relid, attnum, &type, &typmod, &collation);
	return lsm_type_fits(type, collation, in_order);
}

/*
 * Keys of partitions with a column whose type the statement changes are btree
 * when the key is made: it would find none of them.
 */
static bool
finds_btree_keys(Oid relid, const AlterTableStmt *alter, const Constraint *constraint)
{
	List	   *columns = list_concat_copy(constraint->keys, constraint->including);
	ListCell   *lc;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return false;
	foreach(lc, alter->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (lsm_rebuilds_indexes(cmd) && list_member(columns, makeString(cmd->name)))
			return true;
	}
	return false;
}

/* Let a PRIMARY KEY or UNIQUE constraint of an ALTER TABLE use lsm_index. */
static void
choose_constraint_am(Oid relid, AlterTableStmt *alter, Constraint *constraint,
					 ColumnDef *column)
{
	ListCell   *lc;

	if (constraint->contype != CONSTR_PRIMARY &&
		constraint->contype != CONSTR_UNIQUE)
		return;

	/* one that names another AM's storage parameters keeps btree */
	if (constraint->indexname != NULL || constraint->access_method != NULL ||
		LSM_WITHOUT_OVERLAPS(constraint) || !lsm_options_fit(constraint->options) ||
		finds_btree_keys(relid, alter, constraint))
		return;

	if (column != NULL)
	{
		if (!column_def_fits(column))
			return;
	}
	else
	{
		foreach(lc, constraint->keys)
		{
			if (!column_fits(relid, strVal(lfirst(lc)), alter, new_keys_in_order()))
				return;
		}
	}
	constraint->access_method = pstrdup(LSM_INDEX_AM_NAME);
}

/*
 * ADD CONSTRAINT ... USING INDEX with an lsm_index.  A list of the LsmFormerKey,
 * or NIL.
 */
static List *
adjust_using_index(Oid relid, bool ours, Constraint *constraint)
{
	Oid			index;
	LsmFormerKey *key;

	if (constraint->indexname == NULL)
		return NIL;
	index = get_relname_relid(constraint->indexname, get_rel_namespace(relid));
	if (!OidIsValid(index))
		return NIL;
	key = palloc(sizeof(LsmFormerKey));
	key->relid = relid;
	key->constraint = constraint->conname ? constraint->conname : constraint->indexname;
	key->options = lsm_index_options_list(index);
	key->ordered = lsm_index_is_ordered(index);
	return lsm_prepare_using_index(relid, index, ours) && ours ? list_make1(key) : NIL;
}

/*
 * A dump names the storage parameters of a key that was an lsm_index.  Where
 * it will be btree, they would be errors.
 */
static void
forget_our_options(Oid relid, Constraint *constraint)
{
	List	   *others;

	if ((constraint->contype != CONSTR_PRIMARY && constraint->contype != CONSTR_UNIQUE) ||
		constraint->access_method != NULL)
		return;
	others = lsm_other_options(constraint->options);
	if (list_length(others) == list_length(constraint->options))
		return;
	ereport(NOTICE,
			(errmsg("storage parameters of lsm_index are ignored for a key of table \"%s\"",
					get_rel_name(relid)),
			 errdetail("The key is built as btree.")));
	constraint->options = others;
}

/* The access method of a key.  Returns a list of LsmFormerKeys. */
static List *
adjust_constraint(Oid relid, bool ours, AlterTableStmt *alter,
				  Constraint *constraint, ColumnDef *column)
{
	if (ours)
		choose_constraint_am(relid, alter, constraint, column);
	forget_our_options(relid, constraint);
	if (constraint->access_method != NULL &&
		strcmp(constraint->access_method, LSM_TABLE_AM_NAME) == 0)
		constraint->access_method = pstrdup(LSM_INDEX_AM_NAME);
	return adjust_using_index(relid, ours, constraint);
}

/*
 * Foreign keys of the table to itself that the statement adds.  Before 18,
 * keys that it adds before those must be btree: lsm_prepare_foreign_keys() sees
 * only keys that exist.
 */
static bool
references_itself(AlterTableStmt *stmt, Oid relid)
{
	ListCell   *lc;

	if (LSM_CORE_TAKES_ANY_KEY)
		return false;
	foreach(lc, lsm_added_constraints(stmt, relid))
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (constraint->contype == CONSTR_FOREIGN && constraint->pktable != NULL &&
			RangeVarGetRelid(constraint->pktable, NoLock, true) == relid)
			return true;
	}
	return false;
}

/* Will one of those make a key of the table a btree? */
static bool
rebuilds_own_key(Oid relid, void *stmt)
{
	return !LSM_CORE_TAKES_ANY_KEY &&
		lsm_references_need_btree(relid, lsm_added_constraints(stmt, relid));
}

/*
 * Keys that constraints of the statement need rebuilt.  The access methods of
 * the constraints are chosen.
 */
static void
prepare_constraints(AlterTableStmt *stmt, Oid relid)
{
	List	   *constraints = lsm_added_constraints(stmt, relid);
	bool		partitioned = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE;
	List	   *keys = NIL;
	bool		references = false;
	ListCell   *lc;

	foreach(lc, constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);
		LsmUniqueIndex *key;

		references |= constraint->contype == CONSTR_FOREIGN && !LSM_CORE_TAKES_ANY_KEY;
		if (!partitioned || !stmt->relation->inh || LSM_WITHOUT_OVERLAPS(constraint) ||
			(constraint->contype != CONSTR_PRIMARY && constraint->contype != CONSTR_UNIQUE))
			continue;
		key = lsm_new_parent_key(relid, constraint->access_method, true,
								 constraint->nulls_not_distinct, constraint->keys,
								 constraint->including);
		if (key != NULL)
			keys = lappend(keys, key);
	}
	if (keys == NIL && !references)
		return;
	lsm_lock_before_constraints(stmt, relid);
	lsm_prepare_parent_constraints(relid, keys);
	if (references)
		lsm_prepare_foreign_keys(stmt, relid, constraints);
}

/* ======================================================================
 * Statements
 * ====================================================================== */

/* Is one of them a key, or a foreign key? */
static bool
has_key(List *constraints)
{
	ListCell   *lc;

	foreach(lc, constraints)
	{
		Constraint *constraint = (Constraint *) lfirst(lc);

		if (IsA(constraint, Constraint) &&
			(constraint->contype == CONSTR_PRIMARY || constraint->contype == CONSTR_UNIQUE ||
			 constraint->contype == CONSTR_FOREIGN))
			return true;
	}
	return false;
}

/* Has the statement to do with keys? */
static bool
concerns_keys(AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (lsm_rebuilds_indexes(cmd) || cmd->subtype == AT_AttachPartition ||
			(cmd->subtype == AT_AddConstraint && has_key(list_make1(cmd->def))) ||
			(cmd->subtype == AT_AddColumn && has_key(castNode(ColumnDef, cmd->def)->constraints)))
			return true;
	}
	return false;
}

/*
 * The table that a statement names gets the lock that the statement takes,
 * before anything is looked at, and before another table is locked: children,
 * or one that is referenced.  Rights first, as core does.  Returns the table,
 * InvalidOid: it is core's to complain.
 */
static Oid
lock_table(RangeVar *name, LOCKMODE lockmode, LsmNeedsRebuild needs_rebuild, void *stmt)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);
	char		relkind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';

	if ((relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE &&
		 relkind != RELKIND_FOREIGN_TABLE && relkind != RELKIND_COMPOSITE_TYPE) ||
		!object_ownercheck(RelationRelationId, relid, GetUserId()))
		return InvalidOid;
	return lsm_lock_named(name, lockmode, lsm_owns_named, needs_rebuild, stmt);
}

/*
 * Statements of pg_upgrade make what the old cluster had, whatever settings and
 * the table's access method would make of it: a file of its own kind will take
 * the place of each index.
 */
static void
restore_access_methods(AlterTableStmt *stmt, Oid relid)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AddConstraint && has_key(list_make1(cmd->def)) &&
			lsm_upgrade_is_key(relid, binary_upgrade_next_index_pg_class_oid))
			castNode(Constraint, cmd->def)->access_method = pstrdup(LSM_INDEX_AM_NAME);
	}
}

/* Returns the LsmFormerKeys. */
static List *
adjust_alter_table(AlterTableStmt *stmt)
{
	Oid			relid;
	bool		ours;
	List	   *former = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	if ((stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_INDEX &&
		 stmt->objtype != OBJECT_FOREIGN_TABLE && stmt->objtype != OBJECT_TYPE) ||
		!OidIsValid(lsm_index_am_oid()))
		return NIL;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid))
		return NIL;
	if (lsm_upgrade_has_list())
	{
		restore_access_methods(stmt, relid);
		return NIL;
	}
	if (stmt->objtype == OBJECT_INDEX)
	{
		foreach(lc, stmt->cmds)
		{
			AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

			if (cmd->subtype == AT_AttachPartition)
				lsm_prepare_attach_index(stmt->relation, castNode(PartitionCmd, cmd->def)->name);
		}
		return NIL;
	}
	if (!concerns_keys(stmt))
		return NIL;
	relid = lock_table(stmt->relation, AlterTableGetLockLevel(stmt->cmds), rebuilds_own_key, stmt);
	if (!OidIsValid(relid))
		return NIL;
	ours = keys_may_be_lsm(relid, table_am_after(relid, stmt)) &&
		!references_itself(stmt, relid);

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AddConstraint)
			former = list_concat(former,
								 adjust_constraint(relid, ours, stmt,
												   castNode(Constraint, cmd->def),
												   NULL));
		else if (cmd->subtype == AT_AddColumn && !lsm_column_is_there(relid, stmt, cmd))
		{
			ColumnDef  *def = castNode(ColumnDef, cmd->def);

			foreach(lc2, def->constraints)
			{
				if (IsA(lfirst(lc2), Constraint))
					(void) adjust_constraint(relid, ours, stmt, lfirst(lc2), def);
			}
		}
		else if (cmd->subtype == AT_AttachPartition)
			lsm_prepare_attach(relid, castNode(PartitionCmd, cmd->def)->name);
	}
	prepare_constraints(stmt, relid);
	return list_concat(former, lsm_former_keys(stmt, relid));
}

/*
 * A unique index of a partitioned table, which is locked: its partitions' keys
 * are to match it.
 */
static void
prepare_unique_index(IndexStmt *stmt, Oid relid, LOCKMODE lockmode)
{
	if (stmt->relation->inh && stmt->whereClause == NULL)
		lsm_prepare_parent_index(relid, lockmode,
								 lsm_new_parent_key(relid, stmt->accessMethod, stmt->isconstraint,
													stmt->nulls_not_distinct, stmt->indexParams,
													stmt->indexIncludingParams));
}

/* Before 18, DefineIndex matches with the partition key for btree only. */
static void
unique_index_of_partitions(IndexStmt *stmt)
{
	if (LSM_CORE_TAKES_ANY_KEY || stmt->accessMethod == NULL || stmt->excludeOpNames != NIL ||
		strcmp(stmt->accessMethod, LSM_INDEX_AM_NAME) != 0)
		return;
	ereport(NOTICE,
			(errmsg("unique index of partitioned table \"%s\" is built as btree",
					stmt->relation->relname),
			 errdetail("Keys of partitioned tables are supported with btree only.")));
	stmt->accessMethod = pstrdup("btree");
	lsm_name_btree_classes(stmt);
	stmt->options = lsm_other_options(stmt->options);
}

/* A unique index, perhaps of a partitioned table */
static void
adjust_unique_index(IndexStmt *stmt)
{
	LOCKMODE	lockmode = stmt->concurrent ? ShareUpdateExclusiveLock : ShareLock;
	Oid			relid = lock_table(stmt->relation, lockmode, NULL, NULL);

	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	unique_index_of_partitions(stmt);
	prepare_unique_index(stmt, relid, lockmode);
}

static void
adjust_index_stmt(IndexStmt *stmt)
{
	Oid			relid;
	ListCell   *lc;

	if (!OidIsValid(lsm_index_am_oid()))
		return;

	/* pg_am.amname is unique: the name "lsm" is the table AM's */
	if (stmt->accessMethod != NULL &&
		strcmp(stmt->accessMethod, LSM_TABLE_AM_NAME) == 0)
		stmt->accessMethod = pstrdup(LSM_INDEX_AM_NAME);
	/* a constraint names an access method if LIKE has copied it */
	if (stmt->unique)
		adjust_unique_index(stmt);

	/*
	 * A constraint of CREATE TABLE comes here as a subcommand.  The table
	 * exists by now.
	 */
	if (!stmt->isconstraint || stmt->excludeOpNames != NIL || OidIsValid(stmt->indexOid) ||
		stmt->accessMethod == NULL ||
		strcmp(stmt->accessMethod, "btree") != 0 ||
		!lsm_options_fit(stmt->options))
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!keys_may_be_lsm(relid, lsm_relation_am(relid)))
		return;
	foreach(lc, stmt->indexParams)
	{
		IndexElem  *elem = lfirst_node(IndexElem, lc);

		if (elem->name == NULL || elem->opclass != NIL ||
			!column_fits(relid, elem->name, NULL, new_keys_in_order()))
			return;
	}
	stmt->accessMethod = pstrdup(LSM_INDEX_AM_NAME);
}

static inline bool
drops(Node *stmt)
{
	return IsA(stmt, DropStmt) || IsA(stmt, DropOwnedStmt);
}

/* Does the statement concern us?  It is changed by lsm_constraints_before(). */
bool
lsm_constraints_concern(Node *stmt)
{
	return IsA(stmt, IndexStmt) || IsA(stmt, AlterTableStmt) ||
		IsA(stmt, RefreshMatViewStmt) || drops(stmt);
}

/*
 * Before a utility statement is executed.  `stmt` may be changed, and indexes
 * may be replaced.  The result is for lsm_constraints_after().
 */
List *
lsm_constraints_before(Node *stmt)
{
	if (XactReadOnly)
		return NIL;				/* core will refuse it, on standbys, too */
	if (IsA(stmt, AlterTableStmt) || drops(stmt))
		lsm_drop_dead_indexes();
	if (IsA(stmt, AlterTableStmt))
		return adjust_alter_table((AlterTableStmt *) stmt);
	if (IsA(stmt, IndexStmt))
		adjust_index_stmt((IndexStmt *) stmt);
	else if (IsA(stmt, RefreshMatViewStmt) && OidIsValid(lsm_index_am_oid()))
		lsm_prepare_refresh((RefreshMatViewStmt *) stmt);
	return NIL;
}

/* After it: keys that the statement has rebuilt are lsm_index again. */
void
lsm_constraints_after(List *former_keys)
{
	ListCell   *lc;

	if (former_keys == NIL)
		return;
	CommandCounterIncrement();
	foreach(lc, former_keys)
	{
		lsm_restore_key(lfirst(lc));
	}
}
