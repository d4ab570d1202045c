/*-------------------------------------------------------------------------
 *
 * trees.c
 *	  lsmam_trees(): the trees that lsm_report() and lsm_advise() are about,
 *	  and what no other function says of them.
 *
 * Rights and locks are those of lsm_filters(): see lsm_relation_open().
 * Relations are opened one after the other, so an error about one leaves those
 * behind it alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "am/am.h"
#include "sqlfunc/functions.h"

PG_FUNCTION_INFO_V1(lsmam_trees);

#define NTREE_COLUMNS	17

typedef struct Trees
{
	ReturnSetInfo *rsinfo;
	List	   *seen;			/* OIDs of those that have been put out */
	LsmElasticUse *uses;
	int			nuses;
} Trees;

/* As SQL has it, with its schema */
static char *
qualified_name(Oid relid)
{
	char	   *namespace = get_namespace_name(get_rel_namespace(relid));
	char	   *name = get_rel_name(relid);

	return namespace != NULL && name != NULL ? quote_qualified_identifier(namespace, name) : "";
}

/* What new files get, what is in memory, what was counted of this very tree */
static void
put_tree(Trees *trees, Relation rel)
{
	LsmTree    *tree = lsm_relation_tree(rel);
	LsmFilterParams params = lsm_tree_filter_params(tree);
	LsmFilterScheme bottom = lsm_tree_bottom_scheme(tree, params.scheme);
	uint64		counters[LSM_NCOUNTERS];
	LsmTreeSize size;
	Datum		values[NTREE_COLUMNS];
	bool		nulls[NTREE_COLUMNS] = {0};

	lsm_tree_counters(tree, counters);
	lsm_tree_size(tree, &size);
	values[0] = ObjectIdGetDatum(RelationGetRelid(rel));
	values[1] = ObjectIdGetDatum(rel->rd_locator.dbOid);
	values[2] = ObjectIdGetDatum(rel->rd_locator.spcOid);
	values[3] = ObjectIdGetDatum(rel->rd_locator.relNumber);
	values[4] = CStringGetTextDatum(qualified_name(RelationGetRelid(rel)));
	values[5] = CharGetDatum(rel->rd_rel->relpersistence);
	nulls[6] = lsm_relation_is_table(rel);
	if (!nulls[6])
		values[6] = CStringGetTextDatum(qualified_name(rel->rd_index->indrelid));
	values[7] = CStringGetTextDatum(lsm_filter_scheme_name(params.scheme));
	values[8] = CStringGetTextDatum(lsm_filter_scheme_name(bottom));
	values[9] = Float8GetDatum(params.bits_per_key);
	values[10] = Int32GetDatum((int32) params.units);
	nulls[11] = !lsm_filter_scheme_allocates(params.scheme);
	values[11] = CStringGetTextDatum(lsm_tree_filter_allocation(tree) == LSM_ALLOCATION_MONKEY ?
									"monkey" : "uniform");
	values[12] = Int64GetDatum((int64) size.memtable_entries);
	values[13] = Int64GetDatum((int64) size.memtable_bytes);
	values[14] = Int64GetDatum((int64) lsm_elastic_tree_bytes(trees->uses, trees->nuses,
														 lsm_tree_keyspace(tree)));
	values[15] = Int64GetDatum((int64) counters[LSM_COUNT_LOOKUPS]);
	values[16] = Int64GetDatum((int64) counters[LSM_COUNT_DIGESTS]);
	tuplestore_putvalues(trees->rsinfo->setResult, trees->rsinfo->setDesc, values, nulls);
}

/* A tree, or a table with its indexes; those that have not been seen */
static void
put_trees(Trees *trees, Oid relid)
{
	Relation	rel = lsm_relation_open(relid, LSM_RELATION_TREES, LSM_RIGHT_FACTS, AccessShareLock);
	List	   *indexes = NIL;
	List	   *found;
	List	   *not_open;
	ListCell   *lc;

	if (!lsm_relation_is_index(rel))
		indexes = lsm_relation_open_indexes(rel, AccessShareLock);
	if (indexes == NIL)
		lsm_relation_check_kind(rel);
	found = lcons(rel, list_copy(indexes));
	not_open = lsm_relations_not_open(found);
	if (!lsm_relation_is_index(rel) && !lsm_relation_is_table(rel))
		found = list_delete_first(found);
	foreach(lc, found)
	{
		Oid			tree = RelationGetRelid((Relation) lfirst(lc));

		if (list_member_oid(trees->seen, tree))
			continue;
		trees->seen = lappend_oid(trees->seen, tree);
		put_tree(trees, (Relation) lfirst(lc));
	}
	lsm_relations_let_go(not_open);
	lsm_relation_close_indexes(indexes, AccessShareLock);
	lsm_relation_close(rel, AccessShareLock);
}

Datum
lsmam_trees(PG_FUNCTION_ARGS)
{
	Trees		trees = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo};
	Datum	   *relids;
	int			nrelids;

	lsm_tree_require_memory();
	InitMaterializedSRF(fcinfo, 0);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
					  &relids, NULL, &nrelids);

	/* what this session counted in statements before this one */
	lsm_counters_publish();
	trees.uses = lsm_elastic_uses(&trees.nuses);
	for (int i = 0; i < nrelids; i++)
	{
		/* one that has been seen does nothing else that would ask */
		CHECK_FOR_INTERRUPTS();
		put_trees(&trees, DatumGetObjectId(relids[i]));
	}
	return (Datum) 0;
}
