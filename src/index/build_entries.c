/*-------------------------------------------------------------------------
 *
 * build_entries.c
 *	  CREATE INDEX: the rows of the table as entries in a sort.
 *
 * Entries are sorted as bytea values
 *
 *		key | value | flags, 1 byte | length of key, 2 bytes
 *
 * by bytea's order, memcmp.  What follows the key never decides: column codes
 * are prefix-free and the TID after them has a fixed length, so of two
 * different keys neither is a prefix of the other and memcmp ends within them.
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

#define TRAILER_BYTES	3

typedef struct RowsToSort
{
	LsmKeySpec *spec;
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
	StringInfo	item = &state->item;
	StringInfo	key = &state->key;
	char	   *at;

	lsm_encode_columns(index, spec, values, isnull, key);
	lsm_encode_tid(tid, key);
	lsm_form_value(spec, values, isnull, &state->value);
	lsm_check_entry_bytes(index, key->len, state->value.len);

	resetStringInfo(item);
	enlargeStringInfo(item, VARHDRSZ + key->len + state->value.len + TRAILER_BYTES);
	at = item->data + VARHDRSZ;
	memcpy(at, key->data, key->len);
	at += key->len;
	memcpy(at, state->value.data, state->value.len);
	at += state->value.len;
	at[0] = (alive ? LSM_ITEM_ALIVE : 0) |
		(spec->nulls_distinct && lsm_any_null(spec, isnull) ? LSM_ITEM_EXEMPT : 0);
	at[1] = (char) (key->len >> 8);
	at[2] = (char) key->len;
	SET_VARSIZE(item->data, at + TRAILER_BYTES - item->data);
	tuplesort_putdatum(state->sort, PointerGetDatum(item->data), false);
	state->nentries++;
	state->bytes += key->len + state->value.len;

	MemoryContextSwitchTo(old);
	MemoryContextReset(state->context);
}

void
lsm_build_scan(Relation table, Relation index, IndexInfo *info, Tuplesortstate *sort,
			   TableScanDesc scan, bool progress, LsmBuildPart *part)
{
	RowsToSort	state = {.sort = sort};

	state.spec = lsm_key_spec(index);
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

void
lsm_build_item_read(const bytea *item, LsmBuildItem *entry)
{
	const char *data = VARDATA_ANY(item);
	int			len = VARSIZE_ANY_EXHDR(item) - TRAILER_BYTES;
	const uint8 *trailer = (const uint8 *) data + len;
	int			key_bytes = ((int) trailer[1] << 8) | trailer[2];

	entry->key = lsm_slice(data, key_bytes);
	entry->value = lsm_slice(data + key_bytes, len - key_bytes);
	entry->flags = trailer[0];
}
