/*-------------------------------------------------------------------------
 *
 * index_order.c
 *	  Which columns of an index have no order, and the NOTICE about it.
 *
 * Text under a collation of a library whose order is not known (collation.c) has
 * codes that are canonical but not in the order of the values: such a column of
 * an lsm_index serves equality only.  Who asks for one with CREATE INDEX ...
 * USING lsm is told so; it is the one statement in which an access method is
 * chosen by name.  Constraints are chosen by lsm.constraint_index, REINDEX,
 * ALTER TABLE and LIKE copy what was there.
 *
 * And what ALTER TABLE copies may not suit a column's new type: an error.
 *
 * The columns are read from the index that was made: only core knows types and
 * collations of expressions, and the name it has given.  Object access hooks
 * tell which index that was: other sessions may add indexes to the table at
 * the same time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"

/*
 * What the innermost watched statement has made so far; NULL: none is watched
 */
static LsmCreated *watched = NULL;

void
lsm_index_order_note_created(Oid relid)
{
	MemoryContext old;

	if (watched == NULL)
		return;
	old = MemoryContextSwitchTo(watched->context);
	watched->relations = lappend_oid(watched->relations, relid);
	MemoryContextSwitchTo(old);
}

/*
 * Relations that are made from now on go into `created`; returns what to call
 * this with at the end, also after an error.
 */
LsmCreated *
lsm_watch_created(LsmCreated *created)
{
	LsmCreated *before = watched;

	watched = created;
	return before;
}

/*
 * Key columns of the index without an order, counted from 1.  Reads the
 * catalog.
 */
static List *
unordered_columns(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	List	   *result = NIL;
	bool		isnull;
	oidvector  *opclasses;
	oidvector  *collations;

	if (!HeapTupleIsValid(tuple))
		return NIL;
	opclasses = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple,
															  Anum_pg_index_indclass, &isnull));
	collations = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple,
															   Anum_pg_index_indcollation, &isnull));
	for (int i = 0; i < ((Form_pg_index) GETSTRUCT(tuple))->indnkeyatts; i++)
		if (!lsm_opclass_is_ordered(opclasses->values[i],
									get_atttype(index, i + 1), collations->values[i]))
			result = lappend_int(result, i + 1);
	ReleaseSysCache(tuple);
	return result;
}

bool
lsm_index_is_ordered(Oid index)
{
	return unordered_columns(index) == NIL;
}

/* Is it CREATE INDEX ... USING lsm, or lsm_index? */
bool
lsm_index_is_asked_for(Node *stmt)
{
	IndexStmt  *index = (IndexStmt *) stmt;

	/* LIKE makes statements that are transformed */
	return IsA(stmt, IndexStmt) && !index->isconstraint && !index->transformed &&
		index->accessMethod != NULL &&
		(strcmp(index->accessMethod, LSM_TABLE_AM_NAME) == 0 ||
		 strcmp(index->accessMethod, LSM_INDEX_AM_NAME) == 0);
}

/* Quoted name, or expression, of a column of an index that is open */
static char *
column_title(Relation index, int column)
{
	AttrNumber	attnum = index->rd_index->indkey.values[column - 1];
	Datum		expression;

	if (AttributeNumberIsValid(attnum))
		return psprintf("\"%s\"", get_attname(index->rd_index->indrelid, attnum, false));
	expression = DirectFunctionCall3(pg_get_indexdef_ext,
									 ObjectIdGetDatum(RelationGetRelid(index)),
									 Int32GetDatum(column), BoolGetDatum(true));
	return TextDatumGetCString(expression);
}

/* `index` is open. */
static void
notice(Relation index, List *columns)
{
	StringInfoData names;
	bool		strings = true;
	ListCell   *lc;

	initStringInfo(&names);
	foreach(lc, columns)
	{
		int			column = lfirst_int(lc);

		strings &= lsm_class_has_collation(lsm_class_code_type(index->rd_opfamily[column - 1],
																index->rd_opcintype[column - 1]));
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "",
						 column_title(index, column));
	}
	ereport(NOTICE,
			(errmsg_plural("column %s of index \"%s\" supports equality only",
						   "columns %s of index \"%s\" support equality only",
						   list_length(columns),
						   names.data, RelationGetRelationName(index)),
			 strings ?
			 errdetail("lsm_index keeps the order of strings under collations of ICU, of glibc 2.28 or later, "
					   "and those that compare bytes, like \"C\".  A scan of this index returns nothing "
					   "in order, and is not limited by a range of such a column.") :
			 errdetail("lsm_index does not keep the order of enums, and of strings under collations of libc, within other values, "
					   "nor that of types whose codes serve equality.  A scan of this index returns nothing "
					   "in order, and is not limited by a range of such a column."),
			 !strings ? errhint("Use a btree index for order or ranges.") :
			 errhint("Use a btree index for order or ranges, or a collation of ICU or COLLATE \"C\" here "
					 "and in the queries.  For equality and LIKE, text_pattern_ops will do.")));
}

/* After the statement, which has made the relations `created`. */
void
lsm_notice_unordered(IndexStmt *stmt, const LsmCreated *created)
{
	Oid			table = RangeVarGetRelid(stmt->relation, NoLock, true);
	Oid			am = lsm_index_am_oid();
	ListCell   *lc;

	if (!OidIsValid(table) || !OidIsValid(am))
		return;					/* dropped since CREATE INDEX CONCURRENTLY */
	foreach(lc, created->relations)
	{
		Oid			oid = lfirst_oid(lc);
		Relation	index;
		List	   *columns;

		/* not those of partitions, nor what triggers have made */
		if (IndexGetRelation(oid, true) != table || lsm_relation_am(oid) != am)
			continue;
		/* CREATE INDEX CONCURRENTLY has given up its locks */
		index = try_relation_open(oid, AccessShareLock);
		if (index == NULL)
			continue;
		columns = unordered_columns(oid);
		if (columns != NIL)
			notice(index, columns);
		relation_close(index, AccessShareLock);
		break;
	}
}

/*
 * After ALTER TABLE, which has made the relations `created` and has them
 * locked.  When a column's type becomes one whose values need not be rewritten,
 * the new index takes over the file of the old one if their operator classes
 * are the same; no build looks then whether the class suits the new type.
 * ERROR if it does not.
 */
void
lsm_check_altered(const LsmCreated *created)
{
	Oid			am = lsm_index_am_oid();
	ListCell   *lc;

	if (created->relations == NIL || !OidIsValid(am))
		return;
	CommandCounterIncrement();
	foreach(lc, created->relations)
	{
		Oid			oid = lfirst_oid(lc);
		Relation	index;

		if (lsm_relation_am(oid) != am)
			continue;			/* or dropped again */
		index = relation_open(oid, AccessShareLock);
		lsm_check_operator_classes(index);
		lsm_check_collations(index);
		relation_close(index, NoLock);
	}
}
