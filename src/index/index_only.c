/*-------------------------------------------------------------------------
 *
 * index_only.c
 *	  Index-only scans: the row of index columns, and whether an entry can
 *	  still be trusted.
 *
 * No lock is held between calls; the metapage is not pinned (lsm_guard_entry).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/visibilitymap.h"
#include "executor/tuptable.h"
#include "utils/memutils.h"

#include "index/scan.h"

void
lsm_guard_take_stamp(LsmScan *so)
{
	if (so->guard)
		lsm_stamp_take(so->tree, LSM_INDEX_VACUUM_DIGEST, &so->guard_stamp);
}

static bool
row_visible(IndexScanDesc scan, ItemPointer entry_tid)
{
	LsmScan    *so = scan->opaque;
	ItemPointerData tid = *entry_tid;
	bool		call_again = false;
	bool		visible;

	if (so->fetch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(so->context);

		so->slot = table_slot_create(scan->heapRelation, NULL);
		so->fetch = table_index_fetch_begin(scan->heapRelation);
		MemoryContextSwitchTo(old);
	}
	visible = table_index_fetch_tuple(so->fetch, &tid, scan->xs_snapshot, so->slot,
									  &call_again, NULL);
	ExecClearTuple(so->slot);
	return visible;
}

/*
 * May the entry be given to an index-only scan?  The executor will look at the
 * visibility map and, if the page is all-visible, believe the entry.  But
 * VACUUM may have deleted the entry since we read it, then freed the dead row
 * and marked the page all-visible.  nbtree keeps VACUUM from finishing, by a
 * pin on the leaf page; we must not block anyone between calls.
 *
 * Instead we look first.  If the page is all-visible now and VACUUM has not
 * finished deleting entries since before we read this one, then its row was
 * not among the freed ones: it is visible.  Otherwise look at the row itself.
 * Either way the row is visible to our snapshot and stays so, whatever the
 * executor finds in the map a moment later.
 */
bool
lsm_guard_entry(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	LsmStamp	now;

	if (VM_ALL_VISIBLE(scan->heapRelation, ItemPointerGetBlockNumber(tid),
					   &so->vm_buffer))
	{
		pg_read_barrier();		/* the map before the counter */
		lsm_stamp_take(so->tree, LSM_INDEX_VACUUM_DIGEST, &now);
		if (now.key_counter == so->guard_stamp.key_counter)
			return true;
		so->reposition = true;	/* with a new stamp */
	}
	return row_visible(scan, tid);
}

void
lsm_form_index_tuple(IndexScanDesc scan, LsmSlice key, LsmSlice value)
{
	LsmScan    *so = scan->opaque;
	LsmKeySpec *spec = so->spec;
	LsmSlice	rest = lsm_key_columns(key);
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;

	MemoryContextReset(so->tuple_context);
	old = MemoryContextSwitchTo(so->tuple_context);
	for (int i = 0; i < spec->nkeys; i++)
	{
		LsmSlice	code = {rest.data, lsm_code_length(&spec->columns[i], rest)};

		isnull[i] = true;
		if (spec->columns[i].returnable && spec->columns[i].strings != LSM_STRINGS_KEY)
			values[i] = lsm_decode_column(&spec->columns[i], code, &isnull[i]);
		rest.data += code.len;
		rest.len -= code.len;
	}
	lsm_deform_value(spec, value, values, isnull);
	scan->xs_hitup = heap_form_tuple(scan->xs_hitupdesc, values, isnull);
	MemoryContextSwitchTo(old);
}

bool
lsm_index_can_return(Relation index, int attno)
{
	LsmColumnSpec spec;

	if (attno > IndexRelationGetNumberOfKeyAttributes(index))
		return true;
	lsm_column_spec(index, attno - 1, &spec);
	return spec.returnable;
}
