/*-------------------------------------------------------------------------
 *
 * constraints.c
 *	  DDL that concerns keys and their indexes.
 *
 *	- CREATE INDEX ... USING lsm means lsm_index.
 *	- Keys of lsm tables are served by lsm_index under lsm.constraint_index = lsm.
 *	- What PostgreSQL 15 supports with btree keys only (foreign keys) is refused
 *	  with the way out, before core reports an internal error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "lsmam.h"

static Oid
relation_am(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			am = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		am = ((Form_pg_class) GETSTRUCT(tuple))->relam;
		ReleaseSysCache(tuple);
	}
	return am;
}

/*
 * A table whose keys lsm_index may serve: of ours, and no partition, for the keys of
 * partitioned tables are btree and a partition's key must match its parent's.
 */
static bool
keys_may_be_lsm(Oid relid)
{
	Oid			am = lsm_table_am_oid();

	return lsm_constraint_index == LSM_CONSTRAINT_LSM &&
		OidIsValid(am) && OidIsValid(relid) && relation_am(relid) == am &&
		!get_rel_relispartition(relid);
}

/* Does lsm_index have a default operator class for keys of this type? */
static bool
type_fits(Oid type, Oid collation)
{
	if (!OidIsValid(type) ||
		!OidIsValid(GetDefaultOpClass(type, lsm_index_am_oid())))
		return false;
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
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
	return type_fits(type, collation);
}

/*
 * Column `name` of the table as it will be after `alter` (may be NULL): the
 * same statement may add the column or change its type.
 */
static bool
column_fits(Oid relid, const char *name, AlterTableStmt *alter)
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

			if (cmd->subtype == AT_AddColumn &&
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
	return type_fits(type, collation);
}

/* A constraint that names another AM's storage parameters keeps btree. */
static bool
options_fit(List *options)
{
	static const char *const ours[] = {
		"filter_scheme", "bits_per_key", "elastic_units", "size_ratio",
		"compression"
	};
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		bool		found = false;

		for (int i = 0; i < lengthof(ours); i++)
			found |= strcmp(def->defname, ours[i]) == 0;
		if (!found)
			return false;
	}
	return true;
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
	if (constraint->indexname != NULL || constraint->access_method != NULL ||
		!options_fit(constraint->options))
		return;

	if (column != NULL)
	{
		if (!column_def_fits(column))
			return;
	}
	else
	{
		foreach(lc, constraint->keys)
			if (!column_fits(relid, strVal(lfirst(lc)), alter))
				return;
	}
	constraint->access_method = pstrdup(LSM_INDEX_AM_NAME);
}

/*
 * The index that transformFkeyCheckAttrs (or transformFkeyGetPrimaryKey) will
 * find for a foreign key that references these columns.
 */
static Oid
referenced_index(Relation rel, List *columns)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	ListCell   *lc2;
	Oid			result = InvalidOid;

	if (columns == NIL)
	{
		list_free(indexes);
		return RelationGetPrimaryKeyIndex(rel);
	}

	foreach(lc, indexes)
	{
		HeapTuple	tuple;
		Form_pg_index form;
		bool		match;

		tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_index) GETSTRUCT(tuple);
		match = form->indisunique && form->indisvalid &&
			form->indnkeyatts == list_length(columns) &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
			heap_attisnull(tuple, Anum_pg_index_indexprs, NULL);
		if (match)
		{
			foreach(lc2, columns)
			{
				AttrNumber	attnum = get_attnum(RelationGetRelid(rel),
												strVal(lfirst(lc2)));
				bool		found = false;

				for (int i = 0; i < form->indnkeyatts; i++)
					found |= form->indkey.values[i] == attnum;
				match &= found;
			}
		}
		ReleaseSysCache(tuple);
		if (match)
		{
			result = lfirst_oid(lc);
			break;
		}
	}
	list_free(indexes);
	return result;
}

/* PostgreSQL 15 insists on btree for the referenced key: say so in time. */
static void
check_foreign_key(Constraint *constraint)
{
	Oid			relid;
	Oid			index;
	Relation	rel;

	if (constraint->contype != CONSTR_FOREIGN || constraint->pktable == NULL)
		return;
	relid = RangeVarGetRelid(constraint->pktable, AccessShareLock, true);
	if (!OidIsValid(relid))
		return;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		return;
	if (rel->rd_rel->relkind == RELKIND_RELATION)
	{
		index = referenced_index(rel, constraint->pk_attrs);
		if (OidIsValid(index) && OidIsValid(lsm_index_am_oid()) &&
			relation_am(index) == lsm_index_am_oid())
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("foreign key cannot reference a key that is served by an lsm index"),
					 errdetail("Index \"%s\" of table \"%s\" uses access method \"%s\"; PostgreSQL supports only btree here.",
							   get_rel_name(index), RelationGetRelationName(rel),
							   LSM_INDEX_AM_NAME),
					 errhint("SET lsm.constraint_index = btree before creating the key.")));
	}
	relation_close(rel, NoLock);
}

static void
adjust_constraint(Oid relid, bool ours, AlterTableStmt *alter,
				  Constraint *constraint, ColumnDef *column)
{
	check_foreign_key(constraint);
	if (ours)
		choose_constraint_am(relid, alter, constraint, column);
	if (constraint->access_method != NULL &&
		strcmp(constraint->access_method, LSM_TABLE_AM_NAME) == 0)
		constraint->access_method = pstrdup(LSM_INDEX_AM_NAME);
}

/*
 * Does the statement add a foreign key of the table to itself?  Keys that it adds
 * before that must be btree: check_foreign_key() sees those only that exist.
 */
static bool
references_itself(AlterTableStmt *stmt, Oid relid)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		List	   *constraints = NIL;

		if (cmd->subtype == AT_AddConstraint)
			constraints = list_make1(cmd->def);
		else if (cmd->subtype == AT_AddColumn)
			constraints = castNode(ColumnDef, cmd->def)->constraints;
		foreach(lc2, constraints)
		{
			Constraint *constraint = (Constraint *) lfirst(lc2);

			if (IsA(constraint, Constraint) &&
				constraint->contype == CONSTR_FOREIGN &&
				constraint->pktable != NULL &&
				RangeVarGetRelid(constraint->pktable, NoLock, true) == relid)
				return true;
		}
	}
	return false;
}

static Oid
primary_key_index(Oid relid)
{
	Oid			constraint;

	(void) get_primary_key_attnos(relid, true, &constraint);
	return OidIsValid(constraint) ? get_constraint_index(constraint) : InvalidOid;
}

/*
 * Core would give the partition a second primary key, like the parent's, and
 * say that there must not be two.
 */
static void
check_attach(Oid parent, const PartitionCmd *cmd)
{
	Oid			relid = RangeVarGetRelid(cmd->name, NoLock, true);
	Oid			index;

	if (!OidIsValid(relid) || !OidIsValid(primary_key_index(parent)))
		return;
	index = primary_key_index(relid);
	if (!OidIsValid(index) || relation_am(index) != lsm_index_am_oid())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot attach table \"%s\" whose primary key is served by an lsm index",
					get_rel_name(relid)),
			 errdetail("Index \"%s\" uses access method \"%s\"; keys of partitioned tables use btree.",
					   get_rel_name(index), LSM_INDEX_AM_NAME),
			 errhint("Drop the table's primary key: ATTACH PARTITION makes a new one. "
					 "Or SET lsm.constraint_index = btree before creating the key.")));
}

static void
adjust_alter_table(AlterTableStmt *stmt)
{
	Oid			relid;
	bool		ours;
	ListCell   *lc;
	ListCell   *lc2;

	if (stmt->objtype != OBJECT_TABLE || !OidIsValid(lsm_index_am_oid()))
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid))
		return;
	ours = keys_may_be_lsm(relid) && !references_itself(stmt, relid);

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AddConstraint)
			adjust_constraint(relid, ours, stmt,
							  castNode(Constraint, cmd->def), NULL);
		else if (cmd->subtype == AT_AddColumn)
		{
			ColumnDef  *def = castNode(ColumnDef, cmd->def);

			foreach(lc2, def->constraints)
				if (IsA(lfirst(lc2), Constraint))
					adjust_constraint(relid, ours, stmt, lfirst(lc2), def);
		}
		else if (cmd->subtype == AT_AttachPartition)
			check_attach(relid, castNode(PartitionCmd, cmd->def));
	}
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
	{
		stmt->accessMethod = pstrdup(LSM_INDEX_AM_NAME);
		return;
	}

	/*
	 * A constraint of CREATE TABLE comes here as a subcommand.  The table
	 * exists by now.
	 */
	if (!stmt->isconstraint || stmt->excludeOpNames != NIL || OidIsValid(stmt->indexOid) ||
		stmt->accessMethod == NULL ||
		strcmp(stmt->accessMethod, "btree") != 0 ||
		!options_fit(stmt->options))
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!keys_may_be_lsm(relid))
		return;
	foreach(lc, stmt->indexParams)
	{
		IndexElem  *elem = lfirst_node(IndexElem, lc);

		if (elem->name == NULL || elem->opclass != NIL ||
			!column_fits(relid, elem->name, NULL))
			return;
	}
	stmt->accessMethod = pstrdup(LSM_INDEX_AM_NAME);
}

/* Does the statement concern us?  It is changed by lsm_constraints_before(). */
bool
lsm_constraints_concern(Node *stmt)
{
	return IsA(stmt, IndexStmt) || IsA(stmt, AlterTableStmt);
}

/* Before a utility statement is executed.  `stmt` may be changed. */
void
lsm_constraints_before(Node *stmt)
{
	if (IsA(stmt, IndexStmt))
		adjust_index_stmt((IndexStmt *) stmt);
	else
		adjust_alter_table((AlterTableStmt *) stmt);
}
