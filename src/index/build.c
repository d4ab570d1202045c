/*-------------------------------------------------------------------------
 *
 * build.c
 *	  CREATE INDEX, REINDEX: scan the table, sort the entries, write sorted
 *	  files.
 *
 * The index and its storage are ours alone (ShareLock on the table and a new
 * relfilenode, or CREATE INDEX CONCURRENTLY, where no one inserts before the
 * build has committed).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/index.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/rel.h"

#include "index/build.h"

/* Phases in pg_stat_progress_create_index; 1 is set by the caller */
#define PHASE_SCAN		2
#define PHASE_SORT		3
#define PHASE_WRITE		4

#define PROGRESS_EVERY	1024	/* entries */

typedef struct BuildState
{
	Relation	table;
	Relation	index;
	LsmKeySpec *spec;
	bool		unique;			/* check it; VACUUM FULL rebuilds without */
	LsmBuildSort *sort;
} BuildState;

char *
lsm_index_build_phase_name(int64 phase)
{
	switch (phase)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case PHASE_SCAN:
			return "scanning table";
		case PHASE_SORT:
			return "sorting entries";
		case PHASE_WRITE:
			return "writing sorted files";
		default:
			return NULL;
	}
}

static void
report_duplicate(BuildState *state, LsmSlice columns, LsmSlice value)
{
	LsmKeySpec *spec = state->spec;
	Datum		values[INDEX_MAX_KEYS] = {0};
	bool		isnull[INDEX_MAX_KEYS] = {0};
	char	   *key_desc;

	for (int i = 0; i < spec->nkeys; i++)
	{
		LsmSlice	code = {columns.data, lsm_code_length(&spec->columns[i], columns)};

		if (!spec->columns[i].kept)
			values[i] = lsm_decode_column(&spec->columns[i], code, &isnull[i]);
		columns.data += code.len;
		columns.len -= code.len;
	}
	lsm_deform_value(spec, value, values, isnull);
	key_desc = BuildIndexValueDescription(state->index, values, isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"",
					RelationGetRelationName(state->index)),
			 key_desc ? errdetail("Key %s is duplicated.", key_desc) :
			 errdetail("Duplicate keys exist."),
			 errtableconstraint(state->table,
								RelationGetRelationName(state->index))));
}

static void
report_order(BuildState *state)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("could not create index \"%s\" in the order of its collations",
					RelationGetRelationName(state->index)),
			 errdetail("The library's strxfrm() contradicts its strcoll()."),
			 errhint("Use a btree index, or a collation of ICU or COLLATE \"C\" here and in the queries.")));
}

/*
 * Write the sorted entries.  For uniqueness the columns of the last live entry
 * are compared: dead ones with the same columns may lie between two live ones,
 * for entries of equal columns are in TID order.
 */
static void
write_entries(BuildState *state, LsmTree *tree, const LsmBuildPart *all)
{
	LsmBuild   *build = lsm_build_begin(tree, all->bytes);
	LsmOrderCheck *order;
	LsmItem		entry;
	LsmSlice	last_key = {0};
	StringInfoData last_alive;
	uint64		done = 0;

	initStringInfo(&last_alive);
	order = lsm_order_check_begin(state->spec);
	while (lsm_build_sort_next(state->sort, &entry))
	{
		LsmSlice	columns = lsm_key_columns(entry.key);

		CHECK_FOR_INTERRUPTS();
		if (state->unique && entry.flags == LSM_ITEM_ALIVE)
		{
			if (lsm_slice_compare(columns, lsm_slice(last_alive.data, last_alive.len)) == 0)
				report_duplicate(state, columns, entry.value);
			resetStringInfo(&last_alive);
			appendBinaryStringInfo(&last_alive, columns.data, columns.len);
		}

		/* a row that was handed to us twice needs one entry */
		if (lsm_slice_compare(entry.key, last_key) != 0)
		{
			lsm_build_add(build, entry.key, entry.value);
			if (order != NULL && !lsm_order_check_next(order, columns))
				report_order(state);
		}
		last_key = entry.key;
		if (++done % PROGRESS_EVERY == 0)
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) done);
	}
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) done);

	/* a temporary file that is too short looks like the end of a run */
	if (done != (uint64) all->entries)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the sort of index \"%s\" has returned " UINT64_FORMAT " of %.0f entries",
						RelationGetRelationName(state->index), done, all->entries)));
	lsm_build_finish(build);
	pfree(last_alive.data);
}

IndexBuildResult *
lsm_index_build(Relation table, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	BuildState	state = {.table = table, .index = index};
	LsmBuildTeam *team = NULL;
	LsmBuildPart all = {0};
	LsmTree    *tree;
	LsmKeyMaking making;
	int			workers;

	lsm_check_operator_classes(index);
	lsm_check_collations(index);
	lsm_index_new_making(index, &making);
	lsm_tree_create(index->rd_locator, index->rd_backend, RelationGetRelid(index),
					index->rd_rel->relpersistence, LSM_KIND_INDEX, &making);
	state.spec = lsm_key_spec(index);
	state.unique = info->ii_Unique;
	tree = lsm_index_open_tree(index);

	/* the planner looks at the table's indexes, of which this is one now */
	workers = lsm_plan_build_workers(table, index, info);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_SCAN);
	if (workers > 0)
		team = lsm_build_team_begin(table, index, info, workers);
	if (team != NULL)
	{
		state.sort = lsm_build_team_join(team, state.spec, &all);
		info->ii_BrokenHotChain |= all.broken_hot_chain;
	}
	else
	{
		state.sort = lsm_build_sort_begin(state.spec, maintenance_work_mem, NULL);
		lsm_build_scan(table, index, info, state.sort, NULL, true, &all);
	}

	/*
	 * Without its collation's locale an index would be one without an order
	 * for good.  With no entry it is built even so, as a btree, for TRUNCATE.
	 */
	if (all.entries > 0)
		lsm_index_require_locales(index);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, (int64) all.entries);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_SORT);
	lsm_build_sort_perform(state.sort);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_WRITE);
	if (all.entries > 0)
		write_entries(&state, tree, &all);
	lsm_build_sort_end(state.sort);
	if (team != NULL)
		lsm_build_team_end(team);

	result->heap_tuples = all.rows;
	result->index_tuples = all.entries;
	return result;
}

void
lsm_index_build_empty(Relation index)
{
	LsmKeyMaking making;

	lsm_index_new_making(index, &making);
	lsm_tree_create_init_fork(index->rd_locator, LSM_KIND_INDEX, &making);
}
