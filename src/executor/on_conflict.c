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

/* 0: an expression, which has not been simplified yet, and is not compared. */
static AttrNumber
element_column(const InferenceElem *elem)
{
	return IsA(elem->expr, Var) ? ((Var *) elem->expr)->varattno : 0;
}

/*
 * Has the index a column for the element, with its operator class if it names
 * one, or with that one's twin?
 */
static bool
has_element(Relation index, const InferenceElem *elem)
{
	AttrNumber	column = element_column(elem);
	Oid			opclass = elem->inferopclass;

	if (OidIsValid(opclass) && index->rd_rel->relam != BTREE_AM_OID)
	{
		opclass = twin_operator_class(opclass);
		if (!OidIsValid(opclass))
			return false;
	}
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (index->rd_index->indkey.values[i] == column &&
			(!OidIsValid(opclass) ||
			 (index->rd_opfamily[i] == get_opclass_family(opclass) &&
			  index->rd_opcintype[i] == get_opclass_input_type(opclass))))
			return true;
	return false;
}

static bool
is_an_element(AttrNumber column, List *elements)
{
	ListCell   *lc;

	foreach(lc, elements)
		if (element_column(lfirst_node(InferenceElem, lc)) == column)
			return true;
	return false;
}

/* Are the elements what the index is on? */
static bool
is_on_elements(Relation index, List *elements)
{
	ListCell   *lc;

	foreach(lc, elements)
		if (!has_element(index, lfirst_node(InferenceElem, lc)))
			return false;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (!is_an_element(index->rd_index->indkey.values[i], elements))
			return false;
	return true;
}

/* Has the table such a unique index, of this access method? */
static bool
has_index(Relation rel, Oid am, List *elements)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	bool		found = false;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		found |= index->rd_rel->relam == am && index->rd_index->indisunique &&
			is_on_elements(index, elements);
		index_close(index, NoLock);
	}
	list_free(indexes);
	return found;
}

static bool
names_operator_class(List *elements)
{
	ListCell   *lc;

	foreach(lc, elements)
		if (OidIsValid(lfirst_node(InferenceElem, lc)->inferopclass))
			return true;
	return false;
}

/* The elements are those of one index: all of them, or none, get their twins. */
static void
replace_operator_classes(Query *query)
{
	List	   *elements;
	Relation	rel;
	ListCell   *lc;
	bool		replace;

	if (query->commandType != CMD_INSERT || query->onConflict == NULL)
		return;
	elements = query->onConflict->arbiterElems;
	if (!names_operator_class(elements))
		return;
	rel = table_open(rt_fetch(query->resultRelation, query->rtable)->relid, NoLock);
	replace = has_index(rel, lsm_index_am_oid(), elements) &&
		!has_index(rel, BTREE_AM_OID, elements);
	table_close(rel, NoLock);
	if (!replace)
		return;
	foreach(lc, elements)
	{
		InferenceElem *elem = lfirst_node(InferenceElem, lc);

		if (OidIsValid(elem->inferopclass))
			elem->inferopclass = twin_operator_class(elem->inferopclass);
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
