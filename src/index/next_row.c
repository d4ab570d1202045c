/*-------------------------------------------------------------------------
 *
 * next_row.c
 *	  Rows of index-only scans for the executor's slot.
 *
 * What lsm_index_get_tuple() does with an entry that is at hand, matches, and is
 * in a block that is all-visible.  An entry that may not be taken is left where
 * it is: it is the next one that lsm_index_get_tuple() finds.
 *
 * No lock is held between calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"

#include "index/scan.h"

/* See index.h. */
bool
lsm_index_next_row(IndexScanDesc scan, ScanDirection direction, Datum *values)
{
	LsmScan    *so = scan->opaque;
	ItemPointerData tid;
	LsmSlice	key;
	LsmSlice	value;

	if (!so->prepared || !so->index_only.guarded || so->position.state != SCAN_ON_ENTRY ||
		so->reposition || so->quals.recheck || so->direction != direction ||
		!lsm_walk_step_plain(so, &key, &value))
		return false;
	Assert(!scan->kill_prior_tuple);
	lsm_decode_tid(key, &tid);
	if (!lsm_guard_block(scan, ItemPointerGetBlockNumber(&tid)) ||
		!lsm_form_values(so, key, value, values))
	{
		so->ahead.next--;
		return false;
	}
	lsm_doubt_bit(scan, &tid);
	so->uncopied = key;
	scan->xs_heaptid = tid;
	pgstat_count_index_tuples(scan->indexRelation, 1);
	return true;
}
