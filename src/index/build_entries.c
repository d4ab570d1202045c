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

#include "catalog/pg_type_d.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "index/build.h"

typedef struct RowsToSort
{
	LsmKeySpec *spec;
	LsmItemForm form;
	Tuplesortstate *sort;
	MemoryContext context;		/* reset for each row */
	StringInfoData key;
	StringInfoData value;
	StringInfoData item;
	double		nentries;
	uint64		bytes;
} RowsToSort;

Tuplesortstate *
lsm_build_sort_begin(int sort_kb, SortCoordinate coordinate)
{
	Oid			less = lookup_type_cache(BYTEAOID, TYPECACHE_LT_OPR)->lt_opr;

	return tuplesort_begin_datum(BYTEAOID, less, InvalidOid, false, sort_kb,
								 coordinate, TUPLESORT_NONE);
}

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
	lsm_item_form(&state->form, lsm_slice(key->data, key->len),
				  lsm_slice(value->data, value->len), flags, &state->item);
	tuplesort_putdatum(state->sort, PointerGetDatum(state->item.data), false);
	state->nentries++;
	state->bytes += key->len + value->len;

	MemoryContextSwitchTo(old);
	MemoryContextReset(state->context);
}

void
lsm_build_scan(Relation table, Relation index, IndexInfo *info, Tuplesortstate *sort,
			   TableScanDesc scan, bool progress, LsmBuildPart *part)
{
	RowsToSort	state = {.sort = sort};

	state.spec = lsm_key_spec(index);
	lsm_item_form_init(&state.form, state.spec);
	state.context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index build",
										  ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&state.key);
	initStringInfo(&state.value);
	initStringInfo(&state.item);
	part->rows = table_index_build_scan(table, index, info, true, progress,
										build_callback, &state, scan);
	part->entries = state.nentries;
	part->bytes = state.bytes;
	part->broken_hot_chain = info->ii_BrokenHotChain;
	MemoryContextDelete(state.context);
}
