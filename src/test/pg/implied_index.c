/*-------------------------------------------------------------------------
 *
 * implied_index.c
 *	  Test module: CREATE INDEX without an access method, or with btree, makes
 *	  an lsm_index.
 *
 * PostgreSQL's own regression tests say CREATE INDEX ... (column); this makes
 * them tests of lsm_index without a changed line of SQL, also where the
 * statement is built by a function.  btree stays
 *	- where lsm_index has no operator class, or storage parameters are btree's;
 *	- for constraints, whose access method lsm.constraint_index chooses;
 *	- before PostgreSQL 18, for unique indexes that it wants to be btree: those
 *	  of partitioned tables and their partitions (DefineIndex), and of
 *	  materialized views (is_usable_unique_index).
 *
 * To be preloaded after lsmam; does nothing in databases without the
 * extension.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_opclass.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_utilcmd.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "compat.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static ProcessUtility_hook_type prev_process_utility = NULL;
static bool implied_index = false;

static bool
element_fits(Oid relid, IndexElem *elem, Oid am)
{
	Oid			type;
	Oid			collation;
	int32		typmod;

	if (elem->opclassopts != NIL)
		return false;
	if (elem->name != NULL)
	{
		AttrNumber	attnum = get_attnum(relid, elem->name);

		if (attnum <= 0)
			return false;
		get_atttypetypmodcoll(relid, attnum, &type, &typmod, &collation);
	}
	else
	{
		type = exprType(elem->expr);
		collation = exprCollation(elem->expr);
	}
	if (elem->collation != NIL)
		collation = get_collation_oid(elem->collation, true);
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		return false;
	if (elem->opclass != NIL)
		return OidIsValid(get_opclass_oid(am, elem->opclass, true));
	return OidIsValid(GetDefaultOpClass(type, am));
}

static bool
index_fits(IndexStmt *stmt, const char *query_string)
{
	Oid			am = get_am_oid("lsm_index", true);
	Oid			relid;
	ListCell   *lc;

	if (!implied_index || !OidIsValid(am) || stmt->isconstraint ||
		stmt->options != NIL || stmt->excludeOpNames != NIL ||
		strcmp(stmt->accessMethod, "btree") != 0)
		return false;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid))
		return false;
	if (!LSM_CORE_TAKES_ANY_KEY &&
		stmt->unique && (get_rel_relkind(relid) != RELKIND_RELATION ||
						 get_rel_relispartition(relid)))
		return false;
	foreach(lc, stmt->indexParams)
	{
		if (lfirst_node(IndexElem, lc)->expr != NULL && !stmt->transformed)
		{
			LOCKMODE	lockmode = stmt->concurrent ?
			ShareUpdateExclusiveLock : ShareLock;

			LockRelationOid(relid, lockmode);
			stmt = transformIndexStmt(relid, copyObject(stmt), query_string);
			break;
		}
	}
	foreach(lc, stmt->indexParams)
		if (!element_fits(relid, lfirst_node(IndexElem, lc), am))
			return false;
	return true;
}

/*
 * Nobody has named lsm_index, so that lsmam shall not say what it cannot
 * order: a statement that is transformed is none of the user's.  One of plain
 * columns has nothing to transform.
 */
static bool
has_plain_columns(IndexStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->indexParams)
		if (lfirst_node(IndexElem, lc)->expr != NULL)
			return false;
	return stmt->whereClause == NULL;
}

static void
implied_index_utility(PlannedStmt *pstmt, const char *query_string,
					  bool read_only_tree, ProcessUtilityContext context,
					  ParamListInfo params, QueryEnvironment *query_env,
					  DestReceiver *dest, QueryCompletion *qc)
{
	if (IsA(pstmt->utilityStmt, IndexStmt) &&
		index_fits((IndexStmt *) pstmt->utilityStmt, query_string))
	{
		IndexStmt  *stmt;

		if (read_only_tree)
			pstmt = copyObject(pstmt);
		stmt = (IndexStmt *) pstmt->utilityStmt;
		stmt->accessMethod = pstrdup("lsm_index");
		stmt->transformed |= has_plain_columns(stmt);
		read_only_tree = false;
	}
	if (prev_process_utility)
		prev_process_utility(pstmt, query_string, read_only_tree, context,
							 params, query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context,
								params, query_env, dest, qc);
}

void
_PG_init(void)
{
	DefineCustomBoolVariable("implied_index.enabled", "CREATE INDEX means lsm_index.",
							 NULL, &implied_index, false, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = implied_index_utility;
}
