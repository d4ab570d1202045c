/*-------------------------------------------------------------------------
 *
 * on_conflict.c
 *	  INSERT ... ON CONFLICT on tables with unique indexes of lsm_index, in the
 *	  planner.
 *
 * The planner looks for the indexes that ON CONFLICT (columns) means.  An
 * operator class named there has been looked up in btree by the parser
 * (resolve_unique_index_expr), so no lsm_index would have it: it is replaced by
 * its twin in lsm_index.
 *
 * PostgreSQL 18's executor asks the access method which operator is its
 * equality.  What older ones need is in on_conflict_indexes.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_opclass.h"
#include "parser/parsetree.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "executor/hooks.h"

/*
 * The operator class of lsm_index with this one's name and type; InvalidOid:
 * none.
 */
static Oid
twin_operator_class(Oid opclass)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Form_pg_opclass form;
	CatCList   *list;
	Oid			twin = InvalidOid;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	list = SearchSysCacheList2(CLAAMNAMENSP, ObjectIdGetDatum(lsm_index_am_oid()),
							   NameGetDatum(&form->opcname));
	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_opclass other = (Form_pg_opclass) GETSTRUCT(&list->members[i]->tuple);

		if (other->opcintype == form->opcintype)
			twin = other->oid;
	}
	ReleaseSysCacheList(list);
	ReleaseSysCache(tuple);
	return twin;
}

/*
 * Has the table a unique index of this access method with the element, and
 * with the operator class in that place?  Which expression stands in an index
 * is not compared, as the element has not been simplified yet.
 */
static bool
has_element(Relation rel, Oid am, const InferenceElem *elem, Oid opclass)
{
	Oid			family = get_opclass_family(opclass);
	Oid			type = get_opclass_input_type(opclass);
	AttrNumber	attnum = IsA(elem->expr, Var) ? ((Var *) elem->expr)->varattno : 0;
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	bool		found = false;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_rel->relam == am && index->rd_index->indisunique)
			for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
				found |= index->rd_index->indkey.values[i] == attnum &&
					index->rd_opfamily[i] == family && index->rd_opcintype[i] == type;
		index_close(index, NoLock);
	}
	list_free(indexes);
	return found;
}

static void
replace_operator_classes(Query *query)
{
	Relation	rel;
	ListCell   *lc;

	if (query->commandType != CMD_INSERT || query->onConflict == NULL)
		return;
	foreach(lc, query->onConflict->arbiterElems)
	{
		InferenceElem *elem = lfirst_node(InferenceElem, lc);
		Oid			twin;

		if (!OidIsValid(elem->inferopclass))
			continue;
		twin = twin_operator_class(elem->inferopclass);
		if (!OidIsValid(twin))
			continue;
		rel = table_open(rt_fetch(query->resultRelation, query->rtable)->relid, NoLock);
		if (has_element(rel, lsm_index_am_oid(), elem, twin) &&
			!has_element(rel, BTREE_AM_OID, elem, elem->inferopclass))
			elem->inferopclass = twin;
		table_close(rel, NoLock);
	}
}

/*
 * Before planning: operator classes in the ON CONFLICTs of the statement become
 * those of the indexes there are.  The table has been locked for the statement.
 */
void
lsm_on_conflict_plan(Query *query)
{
	ListCell   *lc;

	if ((query->commandType != CMD_INSERT && !query->hasModifyingCTE) ||
		!OidIsValid(lsm_index_am_oid()))
		return;
	replace_operator_classes(query);
	foreach(lc, query->cteList)
	{
		Node	   *cte = lfirst_node(CommonTableExpr, lc)->ctequery;

		if (IsA(cte, Query))
			replace_operator_classes((Query *) cte);
	}
}
