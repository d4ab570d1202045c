/*-------------------------------------------------------------------------
 *
 * swap_index.c
 *	  Replacing an index by one of another access method, in place.
 *
 * The new index is built next to the old one and takes over with PostgreSQL's
 * own index_concurrently_swap(), as in REINDEX CONCURRENTLY: name, constraint
 * (which keeps its OID: views and foreign keys that depend on it stay),
 * comments, statistics, REPLICA IDENTITY, CLUSTER, triggers of deferrable
 * constraints.  What depends on the old index then depends on the new one, and
 * dependencies.c sees to the operator classes that each of them depends on.  Then
 * the old index is dropped.  All in the transaction of the caller.
 *
 * A query of this session that is still running may read the old index: a loop
 * over rows of a table, for example, that makes for each a table that
 * references it.  For such a query the old index keeps its file until the
 * transaction ends, dead to all others, as in DROP INDEX CONCURRENTLY.  What is
 * written from then on is not in it and not visible to the query's snapshot.  A
 * session that writes to the table has opened its indexes once and for all, and
 * would not write to the new one: that is an error.
 *
 * Locks: AccessExclusiveLock on the table, which dropping an index needs, from
 * the beginning and until the transaction ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/genam.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "parser/parse_utilcmd.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"

/* Storage parameters of an index as in WITH (...). */
List *
lsm_index_options_list(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	List	   *result = NIL;
	Datum		options;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		return NIL;
	options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (!isnull)
		result = untransformRelOptions(options);
	ReleaseSysCache(tuple);
	return result;
}

/* Storage parameters that are not lsm_index's */
List *
lsm_other_options(List *options)
{
	static const char *const ours[] = {
		"filter_scheme", "bits_per_key", "elastic_units", "size_ratio",
		"compression", "filter_columns", "filter_allocation", "bottom_filter",
		"bottom_compression"
	};
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		bool		found = false;

		for (int i = 0; i < lengthof(ours); i++)
			found |= strcmp(def->defname, ours[i]) == 0;
		if (!found)
			result = lappend(result, def);
	}
	return result;
}

/*
 * Has lsm_index these storage parameters, with or without effect?  Those that
 * it takes for btree's sake say nothing of what a user wants.
 */
bool
lsm_options_fit(List *options)
{
	ListCell   *lc;

	foreach(lc, lsm_other_options(options))
	{
		const char *name = lfirst_node(DefElem, lc)->defname;

		if (strcmp(name, "fillfactor") != 0 && strcmp(name, "deduplicate_items") != 0)
			return false;
	}
	return true;
}

/* See ddl.h. */
void
lsm_name_btree_classes(IndexStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->indexParams)
	{
		IndexElem  *elem = lfirst_node(IndexElem, lc);
		List	   *name;

		if (elem->opclass == NIL)
			continue;
		name = list_make2(makeString(pstrdup("pg_catalog")), llast(elem->opclass));
		if (OidIsValid(get_opclass_oid(BTREE_AM_OID, name, true)))
			elem->opclass = name;
	}
}

/* CREATE INDEX of a plain index like this one. */
static IndexStmt *
index_statement(Relation table, Relation index, const char *am, List *options)
{
	TupleDesc	desc = RelationGetDescr(table);
	AttrMap    *map = build_attrmap_by_name(desc, desc, false);
	RangeVar   *name = makeRangeVar(get_namespace_name(RelationGetNamespace(table)),
									pstrdup(RelationGetRelationName(table)), -1);
	IndexStmt  *stmt = generateClonedIndexStmt(name, index, map, NULL);

	stmt->accessMethod = pstrdup(am);
	if (strcmp(am, "btree") == 0)
		lsm_name_btree_classes(stmt);
	stmt->options = options;
	stmt->primary = false;
	stmt->isconstraint = false;
	stmt->deferrable = false;
	stmt->initdeferred = false;
	stmt->reset_default_tblspc = true;
	free_attrmap(map);
	return stmt;
}

/* ======================================================================
 * Indexes that queries still read
 * ====================================================================== */

/* An index that goes when the transaction commits */
typedef struct DeadIndex
{
	Oid			index;
	SubTransactionId subid;		/* that has replaced it */
} DeadIndex;

/* In TopTransactionContext */
static List *dead_indexes = NIL;

static bool
is_read(Oid index)
{
	Relation	rel = RelationIdGetRelation(index);
	bool		result = rel != NULL && rel->rd_refcnt > 1;

	if (rel != NULL)
		RelationClose(rel);
	return result;
}

/*
 * Drops those that no query reads any more.  They stay in the list: a
 * subtransaction that has dropped them may be rolled back.
 */
void
lsm_drop_dead_indexes(void)
{
	ListCell   *lc;

	if (dead_indexes == NIL)
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	foreach(lc, dead_indexes)
	{
		ObjectAddress object = {RelationRelationId, ((DeadIndex *) lfirst(lc))->index, 0};

		/* its table may have been dropped since */
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(object.objectId)) &&
			!is_read(object.objectId))
			performDeletion(&object, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	}
	PopActiveSnapshot();
	CommandCounterIncrement();
}

/* Before the commit the portals are closed. */
static void
dead_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		lsm_drop_dead_indexes();
	dead_indexes = NIL;
}

static void
dead_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
					  void *arg)
{
	ListCell   *lc;

	foreach(lc, dead_indexes)
	{
		DeadIndex  *dead = lfirst(lc);

		if (dead->subid != mine)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			dead->subid = parent;
		else if (event == SUBXACT_EVENT_ABORT_SUB)
			dead_indexes = foreach_delete_current(dead_indexes, lc);
	}
}

/*
 * The first time in a process: the tree room's callbacks, which look at the
 * files that a commit removes, are there by now, and callbacks are called in
 * the opposite order.
 */
static void
drop_at_commit(Oid table, Oid index)
{
	static bool registered = false;
	MemoryContext old;
	DeadIndex  *dead;

	if (!registered)
	{
		RegisterXactCallback(dead_xact_callback, NULL);
		RegisterSubXactCallback(dead_subxact_callback, NULL);
		registered = true;
	}
	index_concurrently_set_dead(table, index);
	CommandCounterIncrement();
	/* DROP EXTENSION must not take what the commit needs to drop the index */
	(void) lsm_index_record_classes(index);
	old = MemoryContextSwitchTo(TopTransactionContext);
	dead = palloc(sizeof(DeadIndex));
	dead->index = index;
	dead->subid = GetCurrentSubTransactionId();
	dead_indexes = lappend(dead_indexes, dead);
	MemoryContextSwitchTo(old);
}

/*
 * Has a query of this session the index open, besides us?  ERROR if it may be
 * one that writes: ExecOpenIndices() has RowExclusiveLock until the end of the
 * statement.  (The planner keeps that of an UPDATE or DELETE until the
 * transaction ends.)
 */
static bool
is_in_use(Relation table, Relation index)
{
	if (index->rd_refcnt == 1)
		return false;
	if (CheckRelationLockedByMe(index, RowExclusiveLock, false))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot rebuild index \"%s\" while it is in use by a statement that may write to table \"%s\"",
						RelationGetRelationName(index), RelationGetRelationName(table)),
				 errdetail("Such a statement would not write to the new index."),
				 errhint("Make the first foreign key that references the table before, or its key a btree.")));
	return true;
}

/* ======================================================================
 * Replacing
 * ====================================================================== */

/*
 * Replace `index` by one that uses access method `am` with `options`.
 * Returns the new index.
 *
 * Errors: what CREATE INDEX raises, and is_in_use()'s.  The table itself may be
 * in use, and deferred triggers may be pending: no row moves.
 */
Oid
lsm_swap_index(Oid index, const char *am, List *options)
{
	Oid			table = IndexGetRelation(index, false);
	Relation	table_rel = table_open(table, AccessExclusiveLock);
	Relation	index_rel;
	IndexStmt  *stmt;
	ObjectAddress old = {RelationRelationId, index, 0};
	ObjectAddress new;
	char	   *old_name;
	bool		in_use;

	index_rel = index_open(index, AccessExclusiveLock);
	in_use = is_in_use(table_rel, index_rel);
	stmt = index_statement(table_rel, index_rel, am, options);
	index_close(index_rel, NoLock);

	new = DefineIndex(NULL, table, stmt,
					  InvalidOid,	/* no predefined OID */
					  InvalidOid,	/* no parent index */
					  InvalidOid,	/* no parent constraint */
					  -1,		/* total_parts: unknown */
					  false,	/* is_alter_table */
					  false,	/* check_rights: the index was there */
					  false,	/* check_not_in_use */
					  false,	/* skip_build */
					  true);	/* quiet */
	CommandCounterIncrement();

	old_name = ChooseRelationName(get_rel_name(index), NULL, "old",
								  RelationGetNamespace(table_rel), false);
	index_concurrently_swap(new.objectId, index, old_name);
	CommandCounterIncrement();
	(void) lsm_index_record_classes(new.objectId);

	table_close(table_rel, NoLock);
	if (in_use)
		drop_at_commit(table, index);
	else
	{
		performDeletion(&old, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		CommandCounterIncrement();
	}
	return new.objectId;
}
