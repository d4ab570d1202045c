/*-------------------------------------------------------------------------
 *
 * build_entries.c
 *	  CREATE INDEX: the rows of the table as entries in a sort.
 *
 * No locks of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/build.h"

typedef struct RowsToSort
{
	LsmKeySpec *spec;
	LsmBuildSort *sort;
	MemoryContext context;		/* reset for each row */
	StringInfoData key;
	StringInfoData value;
	double		nentries;
	uint64		bytes;
} RowsToSort;

static void
build_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull,
			   bool alive, void *arg)
{
	RowsToSort  *state = arg;
	LsmKeySpec *spec = state->spec;
	MemoryContext old = MemoryContextSwitchTo(state->context);
	StringInfo	key = &state->key;
	StringInfo	value = &state->value;
	uint8		flags = alive ? LSM_ITEM_ALIVE : 0;

	lsm_encode_columns(index, spec, values, isnull, key);
	lsm_encode_tid(tid, key);
	lsm_form_value(spec, values, isnull, value);
	lsm_check_entry_bytes(index, key->len, value->len);
	if (spec->nulls_distinct && lsm_any_null(spec, isnull))
		flags |= LSM_ITEM_EXEMPT;
	state->nentries++;
	state->bytes += key->len + value->len;
	MemoryContextSwitchTo(old);
	lsm_build_sort_put(state->sort, lsm_slice(key->data, key->len),
					   lsm_slice(value->data, value->len), flags);
	MemoryContextReset(state->context);
}

void
lsm_build_scan(Relation table, Relation index, IndexInfo *info, LsmBuildSort *sort,
			   TableScanDesc scan, bool progress, LsmBuildPart *part)
{
	RowsToSort	state = {.sort = sort};

	state.spec = lsm_key_spec(index);
	state.context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index build",
										  ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&state.key);
	initStringInfo(&state.value);
	part->rows = table_index_build_scan(table, index, info, true, progress,
										build_callback, &state, scan);
	part->entries = state.nentries;
	part->bytes = state.bytes;
	part->broken_hot_chain = info->ii_BrokenHotChain;
	MemoryContextDelete(state.context);
}
