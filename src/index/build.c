/*-------------------------------------------------------------------------
 *
 * build.c
 *	  CREATE INDEX, REINDEX: scan the table, sort the entries, write sorted
 *	  files.
 *
 * Entries are sorted as bytea values
 *
 *		key | value | flags, 1 byte | length of key, 2 bytes
 *
 * by bytea's order, memcmp.  What follows the key never decides: column codes
 * are prefix-free and the TID after them has a fixed length, so of two
 * different keys neither is a prefix of the other and memcmp ends within them.
 *
 * The index and its storage are ours alone (ShareLock on the table and a new
 * relfilenode, or CREATE INDEX CONCURRENTLY, where no one inserts before the
 * build has committed).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_type_d.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "index/index.h"

/* Phases in pg_stat_progress_create_index; 1 is set by the caller */
#define PHASE_SCAN		2
#define PHASE_SORT		3
#define PHASE_WRITE		4

#define ITEM_ALIVE		0x01	/* not a row that is dead but still visible to
								 * some */
#define ITEM_EXEMPT		0x02	/* has NULLs that are distinct */
#define TRAILER_BYTES	3

#define PROGRESS_EVERY	1024	/* entries */

typedef struct BuildState
{
	Relation	table;
	Relation	index;
	LsmKeySpec *spec;
	bool		unique;			/* check it; VACUUM FULL rebuilds without */
	Tuplesortstate *sort;
	MemoryContext context;		/* reset for each row */
	StringInfoData item;
	StringInfoData value;
	double		nentries;
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
build_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull,
			   bool alive, void *arg)
{
	BuildState *state = arg;
	LsmKeySpec *spec = state->spec;
	MemoryContext old = MemoryContextSwitchTo(state->context);
	StringInfo	item = &state->item;
	int			key_bytes;
	char		trailer[TRAILER_BYTES];
	bytea	   *datum;

	lsm_encode_columns(index, spec, values, isnull, item);
	lsm_encode_tid(tid, item);
	key_bytes = item->len;
	lsm_form_value(spec, values, isnull, &state->value);
	lsm_check_entry_bytes(index, key_bytes, state->value.len);

	trailer[0] = (alive ? ITEM_ALIVE : 0) |
		(spec->nulls_distinct && lsm_any_null(spec, isnull) ? ITEM_EXEMPT : 0);
	trailer[1] = (char) (key_bytes >> 8);
	trailer[2] = (char) key_bytes;
	appendBinaryStringInfo(item, state->value.data, state->value.len);
	appendBinaryStringInfo(item, trailer, TRAILER_BYTES);

	datum = palloc(VARHDRSZ + item->len);
	SET_VARSIZE(datum, VARHDRSZ + item->len);
	memcpy(VARDATA(datum), item->data, item->len);
	tuplesort_putdatum(state->sort, PointerGetDatum(datum), false);
	state->nentries++;

	MemoryContextSwitchTo(old);
	MemoryContextReset(state->context);
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
write_entries(BuildState *state, LsmTree *tree)
{
	LsmBuild   *build = lsm_build_begin(tree);
	LsmOrderCheck *order;
	StringInfoData last_key;
	StringInfoData last_alive;
	Datum		datum;
	bool		isnull;
	double		done = 0;

	initStringInfo(&last_key);
	initStringInfo(&last_alive);
	order = lsm_order_check_begin(state->spec);
	while (tuplesort_getdatum(state->sort, true, true, &datum, &isnull, NULL))
	{
		bytea	   *item = DatumGetByteaPP(datum);
		const char *data = VARDATA_ANY(item);
		int			len = VARSIZE_ANY_EXHDR(item) - TRAILER_BYTES;
		const uint8 *trailer = (const uint8 *) data + len;
		int			key_bytes = ((int) trailer[1] << 8) | trailer[2];
		LsmSlice	key = lsm_slice(data, key_bytes);
		LsmSlice	columns = lsm_key_columns(key);

		CHECK_FOR_INTERRUPTS();
		if (state->unique && trailer[0] == ITEM_ALIVE)
		{
			if (lsm_slice_compare(columns, lsm_slice(last_alive.data, last_alive.len)) == 0)
				report_duplicate(state, columns,
								 lsm_slice(data + key_bytes, len - key_bytes));
			resetStringInfo(&last_alive);
			appendBinaryStringInfo(&last_alive, columns.data, columns.len);
		}

		/* a row that was handed to us twice needs one entry */
		if (lsm_slice_compare(key, lsm_slice(last_key.data, last_key.len)) != 0)
		{
			lsm_build_add(build, key, lsm_slice(data + key_bytes, len - key_bytes));
			if (order != NULL && !lsm_order_check_next(order, columns))
				report_order(state);
		}
		resetStringInfo(&last_key);
		appendBinaryStringInfo(&last_key, key.data, key.len);

		/* tuplesort gave us a copy */
		if ((Pointer) item != DatumGetPointer(datum))
			pfree(item);
		pfree(DatumGetPointer(datum));
		if (fmod(++done, PROGRESS_EVERY) == 0)
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) done);
	}
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) done);
	lsm_build_finish(build);
	pfree(last_key.data);
	pfree(last_alive.data);
}

IndexBuildResult *
lsm_index_build(Relation table, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	BuildState	state = {.table = table, .index = index};
	LsmTree    *tree;
	Oid			less = lookup_type_cache(BYTEAOID, TYPECACHE_LT_OPR)->lt_opr;
	LsmKeyRules rules;

	lsm_check_operator_classes(index);
	lsm_check_collations(index);
	lsm_index_new_rules(index, &rules);
	lsm_tree_create(index->rd_locator, index->rd_backend, RelationGetRelid(index),
					index->rd_rel->relpersistence, LSM_KIND_INDEX, &rules);
	state.spec = lsm_key_spec(index);
	state.unique = info->ii_Unique;
	tree = lsm_index_open_tree(index);

	state.context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index build",
										  ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&state.item);
	initStringInfo(&state.value);
	state.sort = tuplesort_begin_datum(BYTEAOID, less, InvalidOid, false,
									   maintenance_work_mem, NULL, TUPLESORT_NONE);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_SCAN);
	result->heap_tuples = table_index_build_scan(table, index, info, true, true,
												 build_callback, &state, NULL);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL,
								 (int64) state.nentries);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_SORT);
	tuplesort_performsort(state.sort);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_WRITE);
	if (state.nentries > 0)
		write_entries(&state, tree);
	tuplesort_end(state.sort);

	result->index_tuples = state.nentries;
	MemoryContextDelete(state.context);
	return result;
}

void
lsm_index_build_empty(Relation index)
{
	LsmKeyRules rules;

	lsm_index_new_rules(index, &rules);
	lsm_tree_create_init_fork(index->rd_locator, LSM_KIND_INDEX, &rules);
}
