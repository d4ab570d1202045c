/*-------------------------------------------------------------------------
 *
 * fetch.c
 *	  Rows by TID: for index scans, TID scans, triggers, and index AMs that ask
 *	  which of their entries are dead.
 *
 * A TID that is in an index but not in the tree is dead to everyone: the row
 * is written before its index entries, TIDs are never used twice, and a row is
 * only dropped when no one can see it.
 *
 * Locks: index AMs call lsm_index_delete_tuples() (and VACUUM's callback, see
 * vacuum.c) with an index page locked.  Lookups take LWLocks and buffer locks
 * of this table's relation only, and nothing here or below ever locks an index
 * page, so that cannot deadlock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "table/table.h"

typedef struct LsmIndexFetch
{
	LsmRowFetch rows;			/* must be first: for the index */
	LsmTree    *tree;			/* good for the transaction, so for the scan */
	StringInfoData value;		/* kept from row to row */
	LsmFetchAhead ahead;

	/* a row that the scan has looked at: `value` has it still */
	bool		looked;
	uint64		looked_at;		/* packed TID */
	Snapshot	looked_for;
	LsmRow		looked_row;
} LsmIndexFetch;

#define LAST_ROW_BYTES	2048

/*
 * After so many rows that no update has asked for, only one in so many is
 * kept: its stamp waits for memory
 */
#define LAST_ROWS_IN_VAIN	64
#define KEEP_AGAIN			16

/*
 * The row that an index scan found last, for the update that mostly follows:
 * the executor asks for the old version once more, by TID, and so do we to
 * change it.  A cache of this backend, of one row, which outlives transactions:
 * it is believed as long as its stamp says that reading again would find the
 * same.  Stamps are of one life of the tree's control block.  Redo, which adds
 * rows to a standby's tree, counts none of them; after a promotion whoever
 * enters the tree first loads it anew, which changes the set's stamp, and the
 * scan that finds the row to be changed has entered it before the kept row is
 * asked for.
 */
typedef struct LastRow
{
	uint64		life;			/* of the tree's control block; 0: none */
	uint64		packed;
	LsmStamp	stamp;			/* taken before the row was read */
	uint32		in_vain;		/* rows since an update asked */
	uint32		bytes;
	char		value[LAST_ROW_BYTES];
} LastRow;

static LastRow last_row;

static inline void
last_row_keep(LastRow *last, LsmTree *tree, uint64 packed, const LsmStamp *stamp,
			  const StringInfoData *value)
{
	last->life = 0;
	if (value->len > LAST_ROW_BYTES)
		return;
	last->packed = packed;
	last->stamp = *stamp;
	last->bytes = value->len;
	memcpy(last->value, value->data, value->len);
	last->life = lsm_tree_life(tree);
}

static inline bool
last_row_wanted(LastRow *last)
{
	return last->in_vain++ < LAST_ROWS_IN_VAIN || last->in_vain % KEEP_AGAIN == 0;
}

bool
lsm_fetch_last_row(LsmTree *tree, uint64 packed, LsmDigest digest, LsmStamp *stamp, LsmSlice *value)
{
	LastRow    *last = &last_row;

	last->in_vain = 0;
	if (last->packed != packed || last->life == 0 ||
		last->life != lsm_tree_life(tree) ||
		!lsm_stamp_peek(tree, digest, stamp) ||
		stamp->key_counter != last->stamp.key_counter ||
		stamp->set_stamp != last->stamp.set_stamp)
		return false;
	*value = lsm_slice(last->value, last->bytes);
	LSM_DOUBT(true, lsm_row_doubt_kept(tree, packed, digest, stamp, *value));
	return true;
}

/* *stamp: taken before the row was read; NULL: none wanted */
static inline bool
fetch_row(Relation rel, LsmTree *tree, uint64 packed, StringInfo value, LsmRow *row,
		  LsmStamp *stamp)
{
	char		key[LSM_TID_BYTES];
	LsmProbe	probe;

	lsm_key_encode(packed, key);
	lsm_probe_begin(tree, &probe, lsm_slice(key, sizeof(key)));
	if (!lsm_tree_get_stamped(tree, lsm_slice(key, sizeof(key)), &probe, value, stamp))
		return false;
	lsm_row_decode(rel, packed, lsm_slice(value->data, value->len), row);
	return true;
}

bool
lsm_fetch_row(Relation rel, LsmTree *tree, uint64 packed, StringInfo value,
			  LsmRow *row)
{
	return fetch_row(rel, tree, packed, value, row, NULL);
}

static inline bool
fetch_visible(Relation rel, LsmTree *tree, uint64 packed, Snapshot snapshot,
			  StringInfo value, LsmRow *row, bool *found, LsmStamp *stamp)
{
	ItemPointerData tid;
	bool		visible;

	/* before the row is read: see modify.c */
	lsm_tid_unpack(packed, &tid);
	PredicateLockTID(rel, &tid, snapshot, InvalidTransactionId);

	*found = fetch_row(rel, tree, packed, value, row, stamp);
	if (!*found)
		return false;
	visible = lsm_row_visible(row, snapshot);
	lsm_check_conflict_out(rel, row, visible, snapshot);
	return visible;
}

bool
lsm_fetch_visible(Relation rel, LsmTree *tree, uint64 packed, Snapshot snapshot,
				  StringInfo value, LsmRow *row, bool *found)
{
	return fetch_visible(rel, tree, packed, snapshot, value, row, found, NULL);
}

/*
 * If no one can see the row any more, take it out of the memtables (heap:
 * heap_page_prune_opt).  Not in recovery: what is dead to everyone is the
 * primary's to say.
 */
LsmPruned
lsm_row_prune(Relation rel, LsmTree *tree, uint64 packed, const LsmRow *row)
{
	char		key[LSM_TID_BYTES];

	if (RecoveryInProgress() ||
		!lsm_row_surely_dead(row, rel))
		return LSM_PRUNE_NOT_YET;
	lsm_key_encode(packed, key);

	if (lsm_tree_prune(tree, lsm_slice(key, sizeof(key)), lsm_row_deleter(row)))
		return LSM_PRUNE_DONE;
	return LSM_PRUNE_IN_FILE;
}

void
lsm_table_prune_rows(Relation rel, const LsmDeadRow *dead, int n)
{
	LsmTree    *tree = lsm_table_tree(rel);

	for (int i = 0; i < n; i++)
	{
		char		key[LSM_TID_BYTES];

		lsm_key_encode(lsm_tid_pack(&dead[i].tid), key);
		(void) lsm_tree_prune(tree, lsm_slice(key, sizeof(key)), dead[i].xid);
	}
}

IndexFetchTableData *
lsm_table_fetch_begin(Relation rel)
{
	LsmIndexFetch *fetch = palloc0(sizeof(LsmIndexFetch));

	fetch->rows.base.rel = rel;
	fetch->tree = lsm_table_tree(rel);
	lsm_buffer_init(&fetch->value, LSM_FIRST_VALUE_BYTES);
	return &fetch->rows.base;
}

void
lsm_table_fetch_reset(IndexFetchTableData *data)
{
	/* nothing is held between calls but copies, which stay good */
}

void
lsm_table_fetch_end(IndexFetchTableData *data)
{
	LsmIndexFetch *fetch = (LsmIndexFetch *) data;

	lsm_fetch_ahead_free(&fetch->ahead);
	pfree(fetch->value.data);
	pfree(fetch);
}

/* Once: has the scan just looked at this row, and found it visible? */
static inline bool
was_looked_at(LsmIndexFetch *fetch, uint64 packed, Snapshot snapshot)
{
	bool		looked = fetch->looked;

	fetch->looked = false;
	return looked && fetch->looked_at == packed && fetch->looked_for == snapshot;
}

static inline void
note_look(LsmIndexFetch *fetch, uint64 packed, Snapshot snapshot, const LsmRow *row)
{
	fetch->looked = fetch->rows.looking;
	fetch->looked_at = packed;
	fetch->looked_for = snapshot;
	fetch->looked_row = *row;
}

static inline void
note_seen(LsmIndexFetch *fetch, ItemPointer tid)
{
	fetch->rows.nhidden = 0;
	fetch->rows.seen_tid = *tid;
	fetch->rows.seen = true;
}

bool
lsm_table_fetch_hides(IndexFetchTableData *data, ItemPointer tid, ItemPointer ahead,
					  Snapshot snapshot)
{
	LsmIndexFetch *fetch = (LsmIndexFetch *) data;

	if (ahead != NULL && ItemPointerIsValid(ahead))
		lsm_ended_prefetch(fetch->tree, lsm_tid_pack(ahead));
	if (!lsm_snapshot_reads_ahead(snapshot) ||
		!lsm_ended_hides(fetch->rows.base.rel, fetch->tree, lsm_tid_pack(tid), snapshot))
		return false;
	LSM_DOUBT(true, lsm_row_doubt_visible(fetch->rows.base.rel, tid, snapshot, false,
										  "lsm_ended_hides()"));
	fetch->rows.met_hidden = true;
	return true;
}

bool
lsm_table_fetch_tuple(IndexFetchTableData *data, ItemPointer tid, Snapshot snapshot,
					  TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	LsmIndexFetch *fetch = (LsmIndexFetch *) data;
	Relation	rel = fetch->rows.base.rel;
	uint64		packed = lsm_tid_pack(tid);
	LsmRow		row;
	LsmStamp	stamp;
	bool		wanted;
	bool		found;

	fetch->rows.seen = false;
	*call_again = false;		/* every version has a TID of its own */
	if (all_dead)
		*all_dead = false;
	if (lsm_row_fetch_passes(data) && lsm_table_fetch_hides(data, tid, NULL, snapshot))
		return false;
	if (was_looked_at(fetch, packed, snapshot))
	{
		note_seen(fetch, tid);
		lsm_row_store(rel, &fetch->looked_row, packed, slot);
		return true;
	}
	if (lsm_fetch_from_ahead(&fetch->ahead, rel, fetch->tree, packed, snapshot,
							 GetMemoryChunkContext(fetch), slot))
	{
		note_seen(fetch, tid);
		return true;
	}
	wanted = last_row_wanted(&last_row);
	if (fetch_visible(rel, fetch->tree, packed, snapshot, &fetch->value, &row,
					  &found, wanted ? &stamp : NULL))
	{
		if (wanted)
			last_row_keep(&last_row, fetch->tree, packed, &stamp, &fetch->value);
		note_seen(fetch, tid);
		note_look(fetch, packed, snapshot, &row);
		if (!fetch->rows.looking)
			lsm_row_store(rel, &row, packed, slot);
		return true;
	}
	fetch->rows.met_hidden = true;
	if (lsm_row_fetch_passes(data) && found && lsm_snapshot_reads_ahead(snapshot))
		lsm_ended_note(fetch->tree, packed, &row, snapshot);
	fetch->rows.nhidden++;
	if (all_dead)
	{
		/* it may be in a file that is missing, and will come back with it */
		*all_dead = !lsm_ignore_missing_files;
		if (found && *all_dead)
			*all_dead = lsm_row_prune(rel, fetch->tree, packed, &row) != LSM_PRUNE_NOT_YET;
		if (*all_dead)
			lsm_notes_set_deleter(rel, tid, found ? lsm_row_deleter(&row) :
							   lsm_tree_pruned_xid(fetch->tree));
	}
	return false;
}

bool
lsm_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
							TupleTableSlot *slot)
{
	uint64		packed = lsm_tid_pack(tid);
	LsmTree    *tree = lsm_table_tree(rel);
	StringInfoData value;
	LsmRow		row;
	bool		found;
	bool		visible;

	if (snapshot->snapshot_type == SNAPSHOT_ANY)
	{
		char		key[LSM_TID_BYTES];
		LsmStamp	stamp;
		LsmSlice	last;

		lsm_key_encode(packed, key);
		if (lsm_fetch_last_row(tree, packed, lsm_lock_digest(lsm_slice(key, sizeof(key))), &stamp,
							   &last))
		{
			lsm_row_decode(rel, packed, last, &row);
			lsm_row_store(rel, &row, packed, slot);
			return true;
		}
	}

	initStringInfo(&value);
	visible = lsm_fetch_visible(rel, tree, packed, snapshot, &value, &row, &found);
	if (visible)
		lsm_row_store(rel, &row, packed, slot);
	pfree(value.data);
	return visible;
}

bool
lsm_tuple_tid_valid(TableScanDesc sscan, ItemPointer tid)
{
	LsmTableScan *scan = (LsmTableScan *) sscan;

	return ItemPointerIsValid(tid) && ItemPointerGetBlockNumber(tid) < scan->nblocks;
}

/*
 * lsm_tuple_get_latest_tid - the last version in the chain that the scan's
 * snapshot sees; *tid stays as it is if it sees none.
 */
void
lsm_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid)
{
	Relation	rel = sscan->rs_rd;
	ItemPointerData current = *tid;
	TransactionId prior_xmax = InvalidTransactionId;
	StringInfoData value;

	initStringInfo(&value);
	for (;;)
	{
		LsmRow		row;
		bool		found;
		bool		visible;

		CHECK_FOR_INTERRUPTS();
		visible = lsm_fetch_visible(rel, ((LsmTableScan *) sscan)->tree,
									lsm_tid_pack(&current), sscan->rs_snapshot,
									&value, &row, &found);
		if (!found ||
			(TransactionIdIsValid(prior_xmax) && row.xmin != prior_xmax))
			break;
		if (visible)
			*tid = current;

		/* no successor, or one that came to nothing */
		if (!(row.flags & LSM_ROW_HAS_NEXT))
			break;
		if (!(row.flags & LSM_ROW_XMAX_COMMITTED) &&
			!lsm_xid_running(row.xmax) && !TransactionIdDidCommit(row.xmax))
			break;
		current = row.next;
		prior_xmax = row.xmax;
	}
	pfree(value.data);
}

/* The slot's header is a copy from when it was read: look again. */
bool
lsm_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	StringInfoData value;
	LsmRow		row;
	bool		visible;

	initStringInfo(&value);
	visible = lsm_fetch_row(rel, lsm_table_tree(rel), lsm_tid_pack(&slot->tts_tid),
							&value, &row) &&
		lsm_row_visible(&row, snapshot);
	pfree(value.data);
	return visible;
}

/* ---- index entries to be deleted ---- */

/* The newest xid that a standby may still see in a removed row */
static void
advance_removed_xid(TransactionId xid, TransactionId *newest)
{
	if (TransactionIdIsNormal(xid) && TransactionIdFollows(xid, *newest))
		*newest = xid;
}

/* Check one entry; returns whether it can go. */
static bool
check_entry(Relation rel, LsmTree *tree, TM_IndexDeleteOp *delstate, int i,
			StringInfo value, TransactionId *newest)
{
	TM_IndexDelete *entry = &delstate->deltids[i];
	TM_IndexStatus *status = &delstate->status[entry->id];
	LsmRow		row;

	if (!lsm_fetch_row(rel, tree, lsm_tid_pack(&entry->tid), value, &row))
	{
		status->knowndeletable = true;
		advance_removed_xid(lsm_tree_pruned_xid(tree), newest);
	}
	else if (status->knowndeletable || lsm_row_surely_dead(&row, rel))
	{
		status->knowndeletable = true;
		advance_removed_xid(lsm_row_deleter(&row), newest);
	}
	return status->knowndeletable;
}

/*
 * lsm_index_delete_tuples - which of these index entries are dead?
 *
 * Every entry costs a lookup, so bottom-up deletion looks at the
 * promising ones first and stops when enough space has been found.
 * Returns the conflict horizon for standbys.
 */
TransactionId
lsm_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	LsmTree    *tree = lsm_table_tree(rel);
	TransactionId newest = InvalidTransactionId;
	StringInfoData value;
	int			freed = 0;
	int			kept = 0;
	int			i;

	initStringInfo(&value);
	if (!delstate->bottomup)
	{
		for (i = 0; i < delstate->ndeltids; i++)
			check_entry(rel, tree, delstate, i, &value, &newest);
		pfree(value.data);
		return newest;
	}

	for (i = 0; i < delstate->ndeltids && freed < delstate->bottomupfreespace; i++)
	{
		TM_IndexStatus *status = &delstate->status[delstate->deltids[i].id];

		Assert(!status->knowndeletable);
		if (status->promising &&
			check_entry(rel, tree, delstate, i, &value, &newest))
			freed += status->freespace;
	}

	/* the caller takes an empty array as "nothing", and only that */
	for (i = 0; i < delstate->ndeltids; i++)
	{
		if (delstate->status[delstate->deltids[i].id].knowndeletable)
			delstate->deltids[kept++] = delstate->deltids[i];
	}
	delstate->ndeltids = kept;
	pfree(value.data);
	return newest;
}
