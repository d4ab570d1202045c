/*-------------------------------------------------------------------------
 *
 * one_row.c
 *	  Scans for whole keys of a unique index: may they stop at the first row
 *	  that they find, and do they ask the row directory before the index?
 *
 * What the directory says is a hint (row_directory.c).  The row is looked at: if
 * the snapshot sees it, and the columns of the index are those of the key, it is
 * the row that the index would lead to.  It has an entry, since all rows that a
 * snapshot sees have one in an index that it may use; and there is no other, or
 * the scan would not stop at the first one.  That does not hold of partial indexes,
 * which are not asked for: the planner takes what their predicate says for granted.
 * Indexes of expressions are not, either: what they cost is not known.
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
 * A snapshot may see two rows with one key if it is older than a row that its
 * own transaction has written, as in REPEATABLE READ, or for the second query
 * that a rule makes of one:
 *
 *	we		take the snapshot			it sees row 1
 *	other	DELETE row 1, COMMIT		the snapshot sees row 1 still
 *	we		INSERT row 2, same key		the snapshot sees row 2, too: it is ours
 *
 * The other transaction had ended when we wrote row 2, or the key would have
 * been refused.  lsm_last_write_completed_xid says what had ended by then.  So
 * there was no such transaction if
 *	- whatever had ended by then is older than the snapshot's xmax: then the
 *	  other one is among those that the snapshot lists as running, and
 *	- all of these are running even now.
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

/* See index.h. */
void
lsm_index_doubt_unique(IndexScanDesc scan)
{
	((LsmScan *) scan->opaque)->one_row.doubted = true;
}

/* Are whole keys of a unique index looked for? */
static bool
looks_for_unique_keys(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	if (!so->dead.stable_tids || scan->xs_heapfetch == NULL || so->one_row.doubted ||
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

	if (!so->ahead.allowed || !form->indimmediate || !form->indisvalid ||
		snapshot_may_see_two(scan->xs_snapshot))
		return false;

	/*
	 * an older snapshot may see duplicates that were deleted before the index
	 * was made
	 */
	return TransactionIdPrecedes(HeapTupleHeaderGetXmin(scan->indexRelation->rd_indextuple->t_data),
								 scan->xs_snapshot->xmin);
}

/* See scan.h. */
bool
lsm_index_is_plain(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (index->rd_index->indkey.values[i] <= 0)
			return false;
	return heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);
}

/*
 * Is the row directory asked?  REQUIRES: so->one_row.unique is set.  ON CONFLICT and
 * subscribers, who see what is there now, want one row only: if there may be
 * others, they come after it.
 */
static bool
directory_serves(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	return (so->one_row.unique || so->present.wanted) && so->one_row.plain_columns && !scan->xs_want_itup &&
		so->quals.nwalk == 0 && !so->quals.recheck && so->shared == NULL;
}

/* Are the columns in the slot those of the key?  That has no NULLs. */
static bool
slot_has_key(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	const int16 *columns = scan->indexRelation->rd_index->indkey.values;
	StringInfo	code = lsm_scan_buffer(so, &so->one_row.row_code);
	MemoryContext old;
	bool		has;

	if (so->entry_context == NULL)
		so->entry_context = AllocSetContextCreate(so->context, "lsm_index entry",
												  ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(so->entry_context);
	resetStringInfo(code);
	has = true;
	for (int i = 0; i < so->spec->nkeys && has; i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(so->index_only.slot, columns[i], &isnull);

		has = !isnull;
		if (has)
			(void) lsm_encode_column(&so->spec->columns[i], value, isnull, code);
	}
	has = has && lsm_slice_compare(lsm_buffer_slice(code), lsm_buffer_slice(&so->walk.lower)) == 0;
	MemoryContextSwitchTo(old);
	MemoryContextReset(so->entry_context);
	return has;
}

/*
 * See scan.h.  A row that is not seen is none that the scan has met (present.c): what
 * has replaced it meanwhile is found by the walk, which begins after this.
 */
bool
lsm_directory_find(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	LsmRowFetch *fetch = (LsmRowFetch *) scan->xs_heapfetch;
	bool		met_hidden = fetch->met_hidden;
	ItemPointerData rows[LSM_DIRECTORY_ROWS];
	LsmDigest	digest = lsm_probe_take_digest(so->tree, &so->one_row.probe);
	int			n = lsm_row_directory_get(so->tree, digest, rows);

	for (int i = 0; i < n; i++)
	{
		bool		dead;
		bool		has;

		if (!lsm_look_at_row(scan, &rows[i], LSM_LOOK_COLUMNS, &dead))
		{
			fetch->met_hidden = met_hidden;
			if (dead)
				lsm_row_directory_forget(so->tree, so->one_row.probe.digest, &rows[i]);
			continue;
		}
		has = slot_has_key(scan);
		ExecClearTuple(so->index_only.slot);
		lsm_count(so->tree, has ? LSM_COUNT_DIRECTORY_HITS : LSM_COUNT_DIRECTORY_MISLED, 1);
		if (has)
		{
			*tid = rows[i];
			return true;
		}
	}
	return false;
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
	lsm_opinion_entry(so->tree, key, "lsm_row_directory_get()");
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

	so->one_row.unique = unique_keys && rows_are_unique(scan);
	so->one_row.try_directory = unique_keys && directory_serves(scan);
}
