/*-------------------------------------------------------------------------
 *
 * one_row.c
 *	  Scans for whole keys of a unique index: may they stop at the first row
 *	  that they find, and do they begin with the one that is said to be the
 *	  newest?
 *
 * Locking: none.  What other transactions do is asked of the process array,
 * and only where that is cheaper than to look at more rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/relscan.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/procarray.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "index/scan.h"

/*
 * A snapshot that is older than a row of its own transaction may see another
 * row with that key, too: one whose deletion was committed between the two.
 * It is older in a REPEATABLE READ transaction, and for the second query that a
 * rule makes of one.  Who deleted had ended when we last wrote.  If all that had
 * ended precede the snapshot's xmax, he is one of those that it saw running; if
 * these are running even now, there was none.
 *
 * Few rows cost less to look at than others' transactions.
 */
#define MAY_SEE_TWO_COMMANDS	8
#define MAY_SEE_TWO_RUNNING		16

static bool
snapshot_may_see_two(Snapshot snapshot)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return false;
	if (GetCurrentCommandId(false) < MAY_SEE_TWO_COMMANDS || IsParallelWorker() ||
		snapshot->takenDuringRecovery || snapshot->xcnt > MAY_SEE_TWO_RUNNING ||
		TransactionIdFollowsOrEquals(lsm_last_write_completed_xid, snapshot->xmax))
		return true;
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		if (!TransactionIdIsInProgress(snapshot->xip[i]))
			return true;
	return false;
}

/*
 * Are whole keys of a unique index looked for?  lsm_verify() looks at all
 * entries, and says so by ignore_killed_tuples.
 */
static bool
looks_for_unique_keys(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	if (!so->stable_tids || scan->xs_heapfetch == NULL || !scan->ignore_killed_tuples ||
		!scan->indexRelation->rd_index->indisunique ||
		so->quals.never || so->quals.nprefix != so->spec->nkeys || so->quals.all_labels)
		return false;
	for (int i = 0; i < scan->numberOfKeys; i++)
	{
		if (scan->keyData[i].sk_flags & SK_SEARCHNULL)
			return false;
	}
	return true;
}

/*
 * Is there at most one row for each combination of points that the snapshot
 * sees?  A deferrable constraint is not: before it is checked, its own
 * transaction may see several.  Serializable transactions look at all entries,
 * since those of rows that they do not see tell of conflicts.
 * REQUIRES: looks_for_unique_keys.
 */
static bool
rows_are_unique(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	Form_pg_index form = scan->indexRelation->rd_index;

	if (!so->batched || !form->indimmediate || !form->indisvalid ||
		snapshot_may_see_two(scan->xs_snapshot))
		return false;

	/*
	 * an older snapshot may see duplicates that were deleted before the index
	 * was made
	 */
	return TransactionIdPrecedes(HeapTupleHeaderGetXmin(scan->indexRelation->rd_indextuple->t_data),
								 scan->xs_snapshot->xmin);
}

/*
 * Is the key's newest row tried first?  If there may be others, they come after
 * it; ON CONFLICT asks for one only.
 */
static bool
row_hint_pays(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	return (so->unique ||
			(scan->xs_snapshot != NULL && scan->xs_snapshot->snapshot_type == SNAPSHOT_DIRTY)) &&
		!scan->xs_want_itup && so->quals.nwalk == 0 && so->shared == NULL;
}

#ifdef USE_ASSERT_CHECKING
#define DOUBTED_ENTRIES	1000

/* The row has an entry, and no other row of the key is seen.  See scan.h. */
void
lsm_doubt_one_row(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	LsmSlice   *keys = palloc(DOUBTED_ENTRIES * sizeof(LsmSlice));
	LsmSlice	key;
	int			n;

	lsm_copy_current(so);
	key = lsm_buffer_slice(&so->position.current);
	lsm_opinion_entry(so->tree, key, "lsm_row_hint_get()");
	n = lsm_opinion_keys(so->tree, lsm_key_columns(key), keys, DOUBTED_ENTRIES);
	for (int i = 0; i < n; i++)
	{
		ItemPointerData tid;

		lsm_decode_tid(keys[i], &tid);
		if (!lsm_same_row(&tid, &scan->xs_heaptid))
			lsm_table_doubt_visible(scan->heapRelation, &tid, scan->xs_snapshot, false,
									"lsm_row_was_seen()");
		pfree(unconstify(char *, keys[i].data));
	}
	pfree(keys);
}
#endif

/* See scan.h. */
void
lsm_prepare_one_row(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	bool		unique_keys = looks_for_unique_keys(scan);

	so->unique = unique_keys && rows_are_unique(scan);
	so->try_row_hint = unique_keys && row_hint_pays(scan);
}
