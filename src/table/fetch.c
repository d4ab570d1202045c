/*-------------------------------------------------------------------------
 *
 * fetch.c
 *	  Rows by TID: for index scans, TID scans, triggers, and index AMs that ask
 *	  which of their entries are dead.
 *
 * A TID asked for by an index is a row's: the version is wanted that the snapshot
 * sees, and it is told which one that was.  All others mean the version of that
 * very TID.
 *
 * A row that is in an index but not in the tree is dead to everyone: it is
 * written before its index entries, numbers of rows are never used twice, and a
 * row is only dropped when no one can see it.
 *
 * Serializable transactions take the SIREAD lock of the version that they have
 * found, and read the row again if a change has been counted since before they
 * read it.  Who changes the row writes, counts, and looks for locks, in this order
 * (row_change.c, modify.c).  So either he finds the lock, or what is read after
 * it has his change.
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

#include "table/versions.h"

typedef struct LsmIndexFetch
{
	LsmRowFetch rows;			/* must be first: for the index */
	LsmTree    *tree;			/* good for the transaction, so for the scan */
	StringInfoData value;		/* kept from row to row */
	LsmFetchAhead ahead;

	/* a row that the scan has looked at: `value` has it still */
	bool		looked;
	uint64		looked_at;		/* its TID, packed */
	uint64		looked_version; /* that of the version that is seen */
	Snapshot	looked_for;
	LsmRow		looked_row;

	/* of the row that was fetched last, if others may follow: in `value` (call_again) */
	LsmVersions versions;
} LsmIndexFetch;

#define LAST_ROW_BYTES	2048

/*
 * After LAST_ROWS_IN_VAIN rows that no update has asked for, only one in
 * KEEP_AGAIN is kept: its stamp waits for memory
 */
#define LAST_ROWS_IN_VAIN	64
#define KEEP_AGAIN			16

/*
 * The row that an index scan found last, for the update that mostly follows:
 * the executor asks for the old version once more, by TID, and so do we to
 * change it.  A cache of this backend, of one row, which outlives transactions:
 * it is believed as long as its stamp says that reading again would find the
 * same.  It may lack versions that are older than those which the scan had to
 * know: if the version that is asked for is not in it, nothing is said.  Stamps
 * are of one life of the tree's control block.  Redo, which adds rows to a
 * standby's tree, counts none of them; after a promotion whoever enters the tree
 * first loads it anew, which changes the set's stamp, and the scan that finds the
 * row to be changed has entered it before the kept row is asked for.
 */
typedef struct LastRow
{
	uint64		life;			/* of the tree's control block; 0: none */
	uint64		row;			/* its TID, packed */
	LsmStamp	stamp;			/* taken before the row was read */
	uint32		in_vain;		/* rows since an update asked */
	uint32		bytes;
	char		value[LAST_ROW_BYTES];
} LastRow;

static LastRow last_row;

static inline void
last_row_keep(LastRow *last, LsmTree *tree, uint64 row, const LsmStamp *stamp,
			  const StringInfoData *value)
{
	last->life = 0;
	if (value->len > LAST_ROW_BYTES)
		return;
	last->row = row;
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
lsm_fetch_last_row(LsmTree *tree, uint64 row, LsmDigest digest, LsmStamp *stamp, LsmSlice *value)
{
	LastRow    *last = &last_row;

	last->in_vain = 0;
	if (last->row != row || last->life == 0 ||
		last->life != lsm_tree_life(tree) ||
		!lsm_stamp_peek(tree, digest, stamp) ||
		stamp->key_counter != last->stamp.key_counter ||
		stamp->set_stamp != last->stamp.set_stamp)
		return false;
	*value = lsm_slice(last->value, last->bytes);
	LSM_DOUBT(true, lsm_row_doubt_kept(tree, row, digest, stamp, *value));
	return true;
}

/*
 * Read the row's versions, those that are wanted.  *stamp: taken before the row
 * was read; NULL: none wanted.
 */
static inline bool
read_row(LsmTree *tree, uint64 row, const LsmEnough *enough, StringInfo value, LsmStamp *stamp)
{
	char		key[LSM_TID_BYTES];
	LsmProbe	probe;

	lsm_key_encode(row, key);
	lsm_probe_begin(tree, &probe, lsm_slice(key, sizeof(key)));
	return lsm_tree_get_until(tree, lsm_slice(key, sizeof(key)), &probe, enough, value, stamp);
}

static inline LsmSlice
buffer_slice(const StringInfoData *value)
{
	return lsm_slice(value->data, value->len);
}

bool
lsm_fetch_row(Relation rel, LsmTree *tree, uint64 packed, StringInfo value,
			  LsmRow *version)
{
	LsmExact	exact = {packed, NULL};
	LsmEnough	enough = lsm_enough_exact(&exact);
	LsmSlice	slice;

	if (!read_row(tree, lsm_tid_row(packed), &enough, value, NULL))
		return false;
	slice = buffer_slice(value);
	if (lsm_value_tag(slice) == LSM_TAG_PUT)
		return lsm_lone_version(rel, packed, slice, version);
	return lsm_versions_exact(rel, packed, slice, NULL, version, NULL);
}

bool
lsm_fetch_newest(LsmTree *tree, uint64 row, StringInfo value)
{
	LsmEnough	enough = lsm_enough_newest();

	return read_row(tree, row, &enough, value, NULL);
}

bool
lsm_fetch_versions(LsmTree *tree, uint64 row, StringInfo value)
{
	return read_row(tree, row, NULL, value, NULL);
}

/*
 * lsm_check_row_conflict_out - a serializable transaction has read the row: of
 * the version that it sees, or of all valid ones, if it sees none, is whoever has
 * made or ended it in conflict with us?
 */
void
lsm_check_row_conflict_out(Relation rel, uint64 row, LsmSlice value, const LsmRow *seen,
						   bool visible, Snapshot snapshot)
{
	LsmVersions versions;
	LsmRow		version;
	uint64		packed;

	if (likely(visible || lsm_value_tag(value) == LSM_TAG_PUT))
	{
		lsm_check_conflict_out(rel, seen, visible, snapshot);
		return;
	}
	if (!CheckForSerializableConflictOutNeeded(rel, snapshot))
		return;
	lsm_versions_begin(&versions, rel, row, value);
	while (lsm_versions_next(&versions, false, &version, &packed))
		lsm_check_conflict_out(rel, &version, false, snapshot);
}

/*
 * fetch_visible() for serializable transactions.  A version that the snapshot
 * does not see needs no lock: what comes after it is not seen either.
 */
static pg_noinline bool
fetch_serializable(Relation rel, LsmTree *tree, uint64 row, Snapshot snapshot,
				   StringInfo value, LsmRow *version, uint64 *packed, bool *found,
				   LsmStamp *stamp)
{
	LsmEnough	enough = lsm_enough_for_snapshot(snapshot);
	char		key[LSM_TID_BYTES];
	LsmDigest	digest;
	LsmStamp	own_stamp;
	bool		visible;

	if (stamp == NULL)
		stamp = &own_stamp;
	*found = read_row(tree, row, &enough, value, stamp);
	if (!*found)
		return false;
	visible = lsm_versions_for_snapshot(rel, row, buffer_slice(value), snapshot, version,
										packed);
	if (visible)
	{
		ItemPointerData tid;

		lsm_tid_unpack(*packed, &tid);
		PredicateLockTID(rel, &tid, snapshot, InvalidTransactionId);
		lsm_key_encode(row, key);
		digest = lsm_lock_digest(lsm_slice(key, sizeof(key)));
		if (!lsm_stamp_held(tree, digest, stamp))
		{
			*found = read_row(tree, row, &enough, value, stamp);
			if (!*found)
				return false;
			visible = lsm_versions_for_snapshot(rel, row, buffer_slice(value), snapshot,
												version, packed);
		}
	}
	lsm_check_row_conflict_out(rel, row, buffer_slice(value), version, visible, snapshot);
	return visible;
}

static inline bool
fetch_visible(Relation rel, LsmTree *tree, uint64 row, Snapshot snapshot,
			  StringInfo value, LsmRow *version, uint64 *packed, bool *found, LsmStamp *stamp)
{
	LsmEnough	enough = lsm_enough_for_snapshot(snapshot);

	if (unlikely(IsolationIsSerializable() && IsMVCCSnapshot(snapshot)))
		return fetch_serializable(rel, tree, row, snapshot, value, version, packed, found,
								  stamp);
	*found = read_row(tree, row, snapshot->snapshot_type == SNAPSHOT_ANY ? NULL : &enough,
					  value, stamp);
	return *found &&
		lsm_versions_for_snapshot(rel, row, buffer_slice(value), snapshot, version, packed);
}

bool
lsm_fetch_visible(Relation rel, LsmTree *tree, uint64 row, Snapshot snapshot,
				  StringInfo value, LsmRow *version, uint64 *packed, bool *found)
{
	return fetch_visible(rel, tree, row, snapshot, value, version, packed, found, NULL);
}

/* As lsm_versions_exact() */
static inline bool
exact_visible(Relation rel, uint64 packed, LsmSlice value, Snapshot snapshot, LsmRow *version)
{
	if (likely(lsm_value_tag(value) == LSM_TAG_PUT))
		return lsm_lone_version(rel, packed, value, version) &&
			lsm_row_visible(version, snapshot);
	return lsm_versions_exact(rel, packed, value, snapshot, version, NULL);
}

/*
 * The version at the TID, if the snapshot sees it.  Which one that is, is known
 * before it is read, so it is locked first.
 */
static bool
fetch_exact(Relation rel, LsmTree *tree, uint64 packed, Snapshot snapshot,
			StringInfo value, LsmRow *version)
{
	LsmExact	exact = {packed, snapshot};
	LsmEnough	enough = lsm_enough_exact(&exact);
	ItemPointerData tid;
	LsmSlice	slice;
	bool		visible;

	lsm_tid_unpack(packed, &tid);
	PredicateLockTID(rel, &tid, snapshot, InvalidTransactionId);

	if (!read_row(tree, lsm_tid_row(packed), &enough, value, NULL))
		return false;
	slice = buffer_slice(value);
	visible = exact_visible(rel, packed, slice, snapshot, version);
	if (visible || lsm_value_tag(slice) == LSM_TAG_PUT ||
		lsm_versions_exact(rel, packed, slice, NULL, version, NULL))
		lsm_check_conflict_out(rel, version, visible, snapshot);
	return visible;
}

/*
 * If no one can see the row any more, take it out of the memtables (heap:
 * heap_page_prune_opt).  Not in recovery: what is dead to everyone is the
 * primary's to say.
 */
LsmPruned
lsm_row_prune(Relation rel, LsmTree *tree, uint64 row, LsmSlice value, TransactionId *deleter)
{
	char		key[LSM_TID_BYTES];

	if (RecoveryInProgress() ||
		!lsm_versions_surely_dead(rel, row, value, deleter))
		return LSM_PRUNE_NOT_YET;
	lsm_key_encode(row, key);

	if (lsm_tree_prune(tree, lsm_slice(key, sizeof(key)), *deleter))
		return LSM_PRUNE_DONE;
	return LSM_PRUNE_IN_FILE;
}

/*
 * See table.h.  A number of which there is no row may be one that comes into being
 * right now, if the hint was another table's: that is no row of the caller's key.
 */
bool
lsm_table_prune_row(Relation rel, const ItemPointerData *tid, TransactionId *xid)
{
	LsmTree    *tree = lsm_table_tree(rel);
	uint64		row = lsm_tid_pack(tid);
	StringInfoData value;
	bool		dead = true;

	if (lsm_ignore_missing_files)
		return false;
	initStringInfo(&value);
	if (!lsm_fetch_newest(tree, row, &value))
		*xid = lsm_tree_pruned_xid(tree);
	else
	{
		dead = lsm_row_prune(rel, tree, row, buffer_slice(&value), xid) != LSM_PRUNE_NOT_YET;
		LSM_DOUBT(dead, lsm_row_doubt_dead(rel, tid, "lsm_table_prune()"));
	}
	pfree(value.data);
	return dead;
}

IndexFetchTableData *
lsm_table_fetch_begin(Relation rel, uint32 flags)
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
was_looked_at(LsmIndexFetch *fetch, uint64 row, Snapshot snapshot)
{
	bool		looked = fetch->looked;

	fetch->looked = false;
	return looked && fetch->looked_at == row && fetch->looked_for == snapshot;
}

static inline void
note_look(LsmIndexFetch *fetch, uint64 row, Snapshot snapshot, const LsmRow *version,
		  uint64 packed)
{
	fetch->looked = fetch->rows.looking != LSM_LOOK_NOT;
	fetch->looked_at = row;
	fetch->looked_for = snapshot;
	fetch->looked_version = packed;
	fetch->looked_row = *version;
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

/*
 * A snapshot that may see several versions of a row has been shown one: does it
 * want the next older one, too?  Those that SnapshotAny sees are all there are.
 * SnapshotSelf sees one at most, a dirty one two, the older of which ends where
 * the newer one begins.
 */
static inline bool
may_see_more(Snapshot snapshot, LsmSlice value)
{
	return unlikely(lsm_value_tag(value) != LSM_TAG_PUT) && !IsMVCCSnapshot(snapshot) &&
		snapshot->snapshot_type != SNAPSHOT_SELF;
}

/*
 * The next version of the row that the snapshot sees, newest first.  All are taken
 * from what was read once: when a row is read again, flushes may have dropped some
 * that came to nothing, and numbers do not tell where one has been, for of these
 * they are no order.
 */
static bool
next_seen(LsmIndexFetch *fetch, Snapshot snapshot, LsmRow *version, uint64 *packed)
{
	bool		any = snapshot->snapshot_type == SNAPSHOT_ANY;

	while (lsm_versions_next(&fetch->versions, any, version, packed))
	{
		if (lsm_row_visible(version, snapshot))
			return true;
	}
	return false;
}

static bool
first_seen(LsmIndexFetch *fetch, uint64 row, Snapshot snapshot, LsmRow *version, uint64 *packed)
{
	lsm_versions_begin(&fetch->versions, fetch->rows.base.rel, row,
					   buffer_slice(&fetch->value));
	return next_seen(fetch, snapshot, version, packed);
}

/* The scan does not see the row.  Is it dead to everyone? */
static bool
note_hidden(LsmIndexFetch *fetch, ItemPointer tid, bool found)
{
	Relation	rel = fetch->rows.base.rel;
	TransactionId deleter;

	/* it may be in a file that is missing, and will come back with it */
	if (lsm_ignore_missing_files)
		return false;
	if (!found)
		deleter = lsm_tree_pruned_xid(fetch->tree);
	else if (lsm_row_prune(rel, fetch->tree, lsm_tid_pack(tid), buffer_slice(&fetch->value),
						   &deleter) == LSM_PRUNE_NOT_YET)
		return false;
	lsm_notes_set_deleter(rel, tid, deleter);
	return true;
}

/*
 * lsm_table_fetch_tuple - the version of the row that the snapshot sees.
 *
 * *tid becomes that version's TID, and stays the row's if there is none.
 */
bool
lsm_table_fetch_tuple(IndexFetchTableData *data, ItemPointer tid, Snapshot snapshot,
					  TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	LsmIndexFetch *fetch = (LsmIndexFetch *) data;
	Relation	rel = fetch->rows.base.rel;
	uint64		row = lsm_tid_pack(tid);
	uint64		packed;
	LsmRow		version;
	LsmStamp	stamp;
	bool		wanted;
	bool		found;
	bool		visible;
	bool		several;

	fetch->rows.seen = false;
	if (all_dead)
		*all_dead = false;
	if (lsm_reads_dead_heap_row(snapshot))
		return false;
	if (unlikely(*call_again))
	{
		*call_again = next_seen(fetch, snapshot, &version, &packed);
		if (*call_again)
		{
			lsm_tid_unpack(packed, tid);
			lsm_row_store(rel, &version, packed, slot);
		}
		return *call_again;
	}
	Assert(lsm_is_row_tid(tid));
	if (lsm_row_fetch_passes(data) && lsm_table_fetch_hides(data, tid, NULL, snapshot))
		return false;
	if (was_looked_at(fetch, row, snapshot))
	{
		lsm_row_store(rel, &fetch->looked_row, fetch->looked_version, slot);
		lsm_tid_unpack(fetch->looked_version, tid);
		note_seen(fetch, tid);
		return true;
	}
	if (lsm_fetch_from_ahead(&fetch->ahead, rel, fetch->tree, row, snapshot,
							 GetMemoryChunkContext(fetch), slot))
	{
		*tid = slot->tts_tid;
		note_seen(fetch, tid);
		return true;
	}
	wanted = last_row_wanted(&last_row);
	visible = fetch_visible(rel, fetch->tree, row, snapshot, &fetch->value, &version, &packed,
							&found, wanted ? &stamp : NULL);
	several = visible && may_see_more(snapshot, buffer_slice(&fetch->value));
	if (visible && (!several || first_seen(fetch, row, snapshot, &version, &packed)))
	{
		if (wanted && lsm_tree_folded(fetch->tree) <= LSM_ROW_VALUES_MAX)
			last_row_keep(&last_row, fetch->tree, row, &stamp, &fetch->value);
		lsm_tid_unpack(packed, tid);
		note_seen(fetch, tid);
		if (!several)
			note_look(fetch, row, snapshot, &version, packed);
		if (fetch->rows.looking != LSM_LOOK_VISIBLE)
			lsm_row_store(rel, &version, packed, slot);
		*call_again = several;
		return true;
	}
	fetch->rows.met_hidden = true;
	if (lsm_row_fetch_passes(data) && found && lsm_snapshot_reads_ahead(snapshot))
		lsm_ended_note(fetch->tree, row, &version, snapshot);
	fetch->rows.nhidden++;
	if (all_dead)
		*all_dead = note_hidden(fetch, tid, found);
	return false;
}

/*
 * lsm_tuple_fetch_row_version - the version at the TID, if the snapshot sees it.
 *
 * SnapshotAny is that of triggers, which want a version that their own
 * transaction has made or ended.
 */
bool
lsm_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
							TupleTableSlot *slot)
{
	uint64		packed = lsm_tid_pack(tid);
	LsmTree    *tree = lsm_table_tree(rel);
	StringInfoData value;
	LsmRow		version;
	bool		visible;

	if (snapshot->snapshot_type == SNAPSHOT_ANY)
	{
		uint64		row = lsm_tid_row(packed);
		char		key[LSM_TID_BYTES];
		LsmStamp	stamp;
		LsmSlice	last;

		lsm_key_encode(row, key);
		if (lsm_fetch_last_row(tree, row, lsm_lock_digest(lsm_slice(key, sizeof(key))), &stamp,
							   &last) &&
			exact_visible(rel, packed, last, snapshot, &version))
		{
			lsm_row_store(rel, &version, packed, slot);
			return true;
		}
	}

	initStringInfo(&value);
	visible = fetch_exact(rel, tree, packed, snapshot, &value, &version);
	if (visible)
		lsm_row_store(rel, &version, packed, slot);
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
 * lsm_tuple_get_latest_tid - the last version of the row, or of a row that it was
 * moved to, that the scan's snapshot sees; *tid stays as it is if it sees none.
 *
 * An index-only scan has the TID of the row: all of its versions are looked at.
 */
void
lsm_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid)
{
	Relation	rel = sscan->rs_rd;
	LsmTree    *tree = ((LsmTableScan *) sscan)->tree;
	uint64		row = lsm_tid_row(lsm_tid_pack(tid));
	TransactionId prior_xmax = InvalidTransactionId;
	StringInfoData value;

	initStringInfo(&value);
	for (;;)
	{
		LsmRow		version;
		uint64		packed;
		bool		found;
		bool		visible;

		CHECK_FOR_INTERRUPTS();
		visible = lsm_fetch_visible(rel, tree, row, sscan->rs_snapshot, &value, &version,
									&packed, &found);
		if (!found ||
			(TransactionIdIsValid(prior_xmax) && version.version == 0 &&
			 version.xmin != prior_xmax))
			break;
		if (visible)
			lsm_tid_unpack(packed, tid);
		if ((version.flags & LSM_ROW_HAS_NEXT) && lsm_tid_row(lsm_tid_pack(&version.next)) == row &&
			!lsm_versions_newest(rel, row, buffer_slice(&value), &version, &packed))
			break;

		/* no successor, or one that came to nothing */
		if (!(version.flags & LSM_ROW_HAS_NEXT))
			break;
		if (!(version.flags & LSM_ROW_XMAX_COMMITTED) &&
			!lsm_xid_running(version.xmax) && !TransactionIdDidCommit(version.xmax))
			break;
		row = lsm_tid_row(lsm_tid_pack(&version.next));
		prior_xmax = version.xmax;
	}
	pfree(value.data);
}

/* The slot's header is a copy from when it was read: look again. */
bool
lsm_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	uint64		packed = lsm_tid_pack(&slot->tts_tid);
	LsmExact	exact = {packed, snapshot};
	LsmEnough	enough = lsm_enough_exact(&exact);
	StringInfoData value;
	LsmRow		version;
	bool		visible;

	initStringInfo(&value);
	visible = read_row(lsm_table_tree(rel), lsm_tid_row(packed), &enough, &value, NULL) &&
		exact_visible(rel, packed, buffer_slice(&value), snapshot, &version);
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

/* Check one entry; returns whether it can go: with all versions of its row. */
static bool
check_entry(Relation rel, LsmTree *tree, TM_IndexDeleteOp *delstate, int i,
			StringInfo value, TransactionId *newest)
{
	TM_IndexDelete *entry = &delstate->deltids[i];
	TM_IndexStatus *status = &delstate->status[entry->id];
	uint64		row = lsm_tid_pack(&entry->tid);
	TransactionId deleter;

	if (!lsm_fetch_newest(tree, row, value))
	{
		status->knowndeletable = true;
		advance_removed_xid(lsm_tree_pruned_xid(tree), newest);
	}
	else if (lsm_versions_surely_dead(rel, row, buffer_slice(value), &deleter) ||
			 status->knowndeletable)
	{
		status->knowndeletable = true;
		advance_removed_xid(deleter, newest);
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
