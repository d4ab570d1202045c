/*-------------------------------------------------------------------------
 *
 * modify.c
 *	  Update and delete of row versions.
 *
 * Changing an existing version goes through LsmRowChange (row_change.c).
 *
 * Waits for other transactions follow heapam.c: first the heavyweight tuple
 * lock, which queues the waiters, then the transaction; the tuple lock is kept
 * until the change is made, so that no one overtakes.
 *
 * Serializable transactions: readers lock (SIREAD) before they read, or read once
 * more (fetch.c), writers write before they check.  So one of the two always sees
 * the other; a failing check aborts the transaction, and with it what was written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "storage/procarray.h"
#include "utils/datum.h"
#include "utils/relcache.h"

#include "table/table.h"
#include "tree/visibility_map.h"

/* No such row: it is dead to everyone and its entries have been removed. */
static TM_Result
missing_failure(const LsmRowChange *target, TM_FailureData *tmfd)
{
	tmfd->ctid = target->tid;
	tmfd->xmax = InvalidTransactionId;
	tmfd->cmax = InvalidCommandId;
	return TM_Deleted;
}

/* ---- delete and update ---- */

static void
forbid_parallel(const char *what)
{
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot %s tuples during a parallel operation", what)));
}

/*
 * One round of the wait loop of delete and update: TM_Ok if the change may be
 * made now; TM_BeingModified if the caller must read again (we waited, or the
 * version's successor has just come to nothing) or, without `wait`, give up; else
 * the reason why not.
 */
static TM_Result
check_or_wait(LsmRowChange *target, CommandId cid, LockTupleMode mode, bool wait,
			  XLTW_Oper oper, bool *have_tuple_lock, bool *waited)
{
	TM_Result	result = lsm_row_changeable(&target->row, cid);
	LsmConflict conflict;
	TransactionId xwait;

	*waited = false;
	if (result != TM_Ok && result != TM_BeingModified)
		return result;

	lsm_row_find_conflict(&target->row, mode, &conflict);
	if (result == TM_BeingModified)
		xwait = target->row.xmax;
	else if (TransactionIdIsValid(conflict.xid))
		xwait = conflict.xid;
	else if (likely(lsm_row_change_is_newest(target)))
		return TM_Ok;
	else
	{
		*waited = true;
		return TM_BeingModified;
	}
	if (!wait)
		return TM_BeingModified;

	/*
	 * Who already holds a lock must not queue up behind those who wait for it
	 * to go away.
	 */
	if (!conflict.own)
		(void) lsm_tuplock_acquire(target->rel, &target->tid, mode, LockWaitBlock,
								   have_tuple_lock);
	XactLockTableWait(xwait, target->rel, &target->tid, oper);
	*waited = true;
	return TM_BeingModified;
}

/*
 * The row may be changed as far as others go: may this command, and its
 * crosscheck snapshot?
 */
static TM_Result
check_command(const LsmRowChange *target, TM_Result result, Snapshot crosscheck,
			  const char *what)
{
	if (result == TM_Invisible)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("attempted to %s invisible tuple", what)));
	if (result == TM_Ok && crosscheck != InvalidSnapshot &&
		!lsm_row_visible(&target->row, crosscheck))
		return TM_Updated;
	return result;
}

/* The deletion or update of `target` has been written: what else must go? */
static void
finish_change(LsmRowChange *target, LockTupleMode mode, bool have_tuple_lock)
{
	CheckForSerializableConflictIn(target->rel, &target->tid,
								   ItemPointerGetBlockNumber(&target->tid));
	lsm_tuplock_release(target->rel, &target->tid, mode, have_tuple_lock);
}

/* The row's data never change: whoever is told of them first knows them. */
static LsmSlice
note_deletion(const LsmRowChange *target)
{
	HeapTuple	tuple;
	LsmSlice	note;

	if (likely(!RelationIsLogicallyLogged(target->rel)))
		return lsm_slice(NULL, 0);
	tuple = lsm_row_form_tuple(&target->row, target->packed, RelationGetRelid(target->rel));
	note = lsm_note_change(target->rel, tuple, NULL);
	heap_freetuple(tuple);
	return note;
}

TM_Result
lsm_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, uint32 options,
				 Snapshot snapshot, Snapshot crosscheck, bool wait,
				 TM_FailureData *tmfd)
{
	TransactionId xid = GetCurrentTransactionId();
	LsmRowChange	target;
	LsmRow		header;
	TM_Result	result;
	bool		have_tuple_lock = false;
	bool		waited;
	bool		written;
	LsmSlice	note = lsm_slice(NULL, 0);

	forbid_parallel("delete");
	lsm_row_change_init(&target, rel, lsm_table_tree(rel), tid);
	for (;;)
	{
		if (!lsm_row_change_read(&target))
		{
			result = missing_failure(&target, tmfd);
			break;
		}
		result = check_or_wait(&target, cid, LockTupleExclusive, wait, XLTW_Delete,
							   &have_tuple_lock, &waited);
		if (waited)
			continue;
		result = check_command(&target, result, crosscheck, "delete");
		if (result != TM_Ok)
		{
			lsm_row_change_failure(&target, result, tmfd);
			break;
		}

		lsm_row_change_header(&target, xid, LockTupleExclusive, &header);
		Assert(!(header.flags & LSM_ROW_HAS_XMAX));
		header.flags |= LSM_ROW_HAS_XMAX | LSM_ROW_KEYS_UPDATED;
		if (options & TABLE_DELETE_CHANGING_PARTITION)
			header.flags |= LSM_ROW_MOVED;
		header.xmax = xid;
		header.cmax = cid;
		if (note.len == 0)
			note = note_deletion(&target);
		written = lsm_row_change_override(&target, &header, note);
		lsm_header_free(&header);
		if (written)
			break;
	}
	lsm_note_free(note);

	if (result != TM_Ok)
	{
		lsm_tuplock_release(rel, &target.tid, LockTupleExclusive, have_tuple_lock);
		lsm_row_change_free(&target);
		return result;
	}

	if (lsm_row_has_external(&target.row))
	{
		HeapTuple	tuple = lsm_row_form_tuple(&target.row, target.packed,
											   RelationGetRelid(rel));

		heap_toast_delete(rel, tuple, false);
		heap_freetuple(tuple);
	}
	finish_change(&target, LockTupleExclusive, have_tuple_lock);
	pgstat_count_heap_delete(rel);
	lsm_row_change_free(&target);
	return TM_Ok;
}

/*
 * Does the update leave all columns of this set as they are, bit by bit?
 *
 * The set is asked for anew for each update, and not kept: indexes come and go
 * beside us.  Who makes one waits for those who do not know it.
 */
static bool
columns_unchanged(Relation rel, IndexAttrBitmapKind set, HeapTuple oldtup, HeapTuple newtup)
{
	Bitmapset  *columns = RelationGetIndexAttrBitmap(rel, set);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	bool		same = true;
	int			i = -1;

	while (same && (i = bms_next_member(columns, i)) >= 0)
	{
		AttrNumber	attnum = i + FirstLowInvalidHeapAttributeNumber;
		Datum		a;
		Datum		b;
		bool		a_isnull;
		bool		b_isnull;

		if (attnum == TableOidAttributeNumber)
			continue;
		if (attnum <= 0)
		{
			same = false;		/* whole row or a system column */
			break;
		}
		a = heap_getattr(oldtup, attnum, tupdesc, &a_isnull);
		b = heap_getattr(newtup, attnum, tupdesc, &b_isnull);
		if (a_isnull != b_isnull)
			same = false;
		else if (!a_isnull)
		{
			Form_pg_attribute att = TupleDescAttr(tupdesc, attnum - 1);

			same = datumIsEqual(a, b, att->attbyval, att->attlen);
		}
	}
	bms_free(columns);
	return same;
}

/*
 * Header of the new version.  Locks on the old version carry over to the new
 * one.  Our own locks have no effect on the new version, but its xmax shows
 * them.  After INSERT ... ON CONFLICT DO UPDATE people tell inserted rows from
 * updated ones by RETURNING xmax = 0.
 */
static void
header_of_new_version(const LsmRow *old, TransactionId xid, CommandId cid,
					  bool own_locks, LsmRow *header)
{
	char	   *lockers = NULL;
	int			i;

	lsm_header_of_new_row(header, xid, cid, false);
	header->flags |= LSM_ROW_UPDATED;
	if (old->nlockers > 0)
		lockers = palloc(old->nlockers * LSM_LOCKER_BYTES);
	header->lockers = lockers;
	for (i = 0; i < old->nlockers; i++)
	{
		TransactionId locker;
		LockTupleMode mode;

		lsm_row_locker(old, i, &locker, &mode);
		if (TransactionIdIsCurrentTransactionId(locker) ? !own_locks :
			!TransactionIdIsInProgress(locker))
			continue;
		lsm_locker_put(lockers + header->nlockers * LSM_LOCKER_BYTES, locker, mode);
		header->nlockers++;
	}
}

/*
 * An update is as strong as the strongest lock that its transaction has on the
 * row: who waits for FOR UPDATE must not find, in the end, that it need not have
 * waited, and take the old version (heap: compute_new_xmax_infomask).  A lock
 * of a subtransaction that has ended well counts, too: if it is undone, so is
 * the update.
 */
static bool
locked_for_update(const LsmRow *row)
{
	for (int i = 0; i < row->nlockers; i++)
	{
		TransactionId locker;
		LockTupleMode mode;

		lsm_row_locker(row, i, &locker, &mode);
		if (mode == LockTupleExclusive && TransactionIdIsCurrentTransactionId(locker))
			return true;
	}
	return false;
}

/*
 * Write the new version and the old one's end in one write, so usually in one
 * log record.  The new version goes first: whoever sees the link finds what it
 * points to.
 *
 * *packed: TID of the new version.  It is known when the write has begun; the
 * old version's value is encoded twice, to have its length before that.
 */
static bool
write_update(LsmRowChange *target, HeapTuple stored, TransactionId xid, CommandId cid,
			 bool keys_intact, const LsmRow *new_header, LsmSlice note, uint64 *packed)
{
	LsmRow		old_header;
	LsmHeaderValue old_value;
	StringInfoData new_value;
	LsmEntry	entries[2];
	LsmWrite	write;
	char		key[LSM_TID_BYTES];
	bool		written;

	/*
	 * a stronger lock than the update's stays: FOR UPDATE before a no-key
	 * update
	 */
	lsm_row_change_header(target, xid,
					  keys_intact ? LockTupleNoKeyExclusive : LockTupleExclusive,
					  &old_header);
	Assert(!(old_header.flags & LSM_ROW_HAS_XMAX));
	old_header.flags |= LSM_ROW_HAS_XMAX | LSM_ROW_HAS_NEXT;
	if (!keys_intact || locked_for_update(&target->row))
		old_header.flags |= LSM_ROW_KEYS_UPDATED;
	old_header.xmax = xid;
	old_header.cmax = cid;
	old_header.next = target->tid;

	lsm_header_value_init(&old_value, &old_header);
	lsm_row_value_init(&new_value, new_header, stored);

	memset(entries, 0, sizeof(entries));
	entries[0].key = lsm_slice(key, sizeof(key));
	entries[0].value = lsm_slice(new_value.data, new_value.len);
	entries[0].probably_new = true;
	entries[0].known_new = true;
	entries[0].note = note;
	entries[1].key = lsm_slice(target->key, LSM_TID_BYTES);
	entries[1].value = lsm_slice(old_value.buf.data, old_value.buf.len);
	entries[1].digest = target->lock_digest;
	entries[1].hashed = true;
	entries[1].key_locked = true;
	Assert(2 * LSM_TID_BYTES + new_value.len + old_value.buf.len <= LSM_MAX_ENTRY_BYTES);

	lsm_relation_check_room(target->rel, target->tree, 1);
	lsm_write_begin(target->tree, &write, entries, 2);
	*packed = lsm_number_pack(lsm_write_allocate_rows(&write, 1));
	lsm_key_encode(*packed, key);
	lsm_tid_unpack(*packed, &old_header.next);
	resetStringInfo(&old_value.buf);
	lsm_row_encode(&old_value.buf, &old_header, false);
	Assert(old_value.buf.data == entries[1].value.data &&
		   old_value.buf.len == entries[1].value.len);
	lsm_vm_clear(target->rel, target->tree, ItemPointerGetBlockNumber(&target->tid));
	written = lsm_row_change_apply(target, &write);

	lsm_header_value_free(&old_value);
	pfree(new_value.data);
	lsm_header_free(&old_header);
	return written;
}

/* What a version takes of the room that its row has for versions, bytes */
static inline uint32
version_bytes(uint32 body_bytes)
{
	return LSM_ROW_HEADER_BYTES(0) + body_bytes;
}

/*
 * The new version's number.  False: the row has no room for it.
 *
 * A row has room for as many versions as can be told by their TIDs, and for so
 * many bytes that they fit into one value.  Versions that are dead to all do not
 * count: their numbers are used again, and nobody has to keep them.  How many of
 * them there are is not known, but if the replaced version's maker is before the
 * horizon it is all others (versions.c, 5).  That is asked when there is no room
 * otherwise.  Those that came to nothing take none, but all readers pass over
 * them.  A row that has many stays as it is, and what moves from it and is rolled
 * back, too, leaves one override, however often.
 *
 * A number is used again when the version that had it is dead to all.  So nobody
 * has its TID, who could mistake the new version for it: a scan, a cursor, and
 * EvalPlanQual have the snapshot that saw it, triggers that wait have a version
 * that our running transaction made or ended.
 */
static bool
number_version(const LsmRowChange *target, HeapTuple stored, LsmRow *header)
{
	const LsmRow *old = &target->row;
	uint32		bytes = version_bytes(lsm_tuple_body_bytes(stored));
	uint32		span = old->span + 1;
	uint32		kept = old->kept + version_bytes(old->body_bytes);

	if (old->version == PG_UINT32_MAX || target->crowded)
		return false;
	if (span > LSM_VERSION_MASK || kept + bytes > LSM_VERSIONS_MAX_BYTES)
	{
		span = 1;
		kept = version_bytes(old->body_bytes);
		if (kept + bytes > LSM_VERSIONS_MAX_BYTES ||
			(!(old->flags & LSM_ROW_XMIN_FROZEN) && !lsm_xid_removable(target->rel, old->xmin)))
			return false;
	}
	header->open = true;
	header->version = old->version + 1;
	header->span = span;
	header->kept = kept;
	return true;
}

/*
 * The new version stays in its row: it goes on top of those that are there, and
 * ends the one that it replaces by that.
 */
static bool
write_version(LsmRowChange *target, HeapTuple stored, const LsmRow *header, LsmSlice note,
			  uint64 *packed)
{
	StringInfoData value;
	StringInfoData delta;
	LsmEntry	entry;
	LsmWrite	write;
	bool		written;

	Assert(lsm_row_change_is_newest(target));
	lsm_tree_require_format(target->tree);
	lsm_row_value_init(&value, header, stored);
	delta.data = NULL;
	memset(&entry, 0, sizeof(entry));
	entry.key = lsm_slice(target->key, LSM_TID_BYTES);
	entry.value = lsm_slice(value.data, value.len);
	entry.digest = target->lock_digest;
	entry.hashed = true;
	entry.key_locked = true;
	entry.note = note;
	if (RelationNeedsWAL(target->rel) && !RelationIsLogicallyLogged(target->rel))
	{
		uint32		body_bytes = lsm_tuple_body_bytes(stored);
		LsmSlice	body = lsm_slice(value.data + value.len - body_bytes, body_bytes);

		lsm_buffer_init(&delta, LSM_FIRST_VALUE_BYTES);
		if (lsm_delta_encode(&delta, header, body, &target->row))
			entry.logged = lsm_slice(delta.data, delta.len);
	}
	lsm_write_begin(target->tree, &write, &entry, 1);
	written = lsm_row_change_apply(target, &write);
	*packed = lsm_tid_of(target->row_tid, header->version);
	if (delta.data != NULL)
		pfree(delta.data);
	pfree(value.data);
	return written;
}

/*
 * Must the new version go through the toaster?  It also decides about the old
 * version's out-of-line values: they are kept or deleted.
 */
static bool
update_needs_toast(Relation rel, HeapTuple oldtup, HeapTuple newtup)
{
	if (rel->rd_rel->relkind != RELKIND_RELATION &&
		rel->rd_rel->relkind != RELKIND_MATVIEW)
		return false;
	return HeapTupleHasExternal(oldtup) || HeapTupleHasExternal(newtup) ||
		newtup->t_len > TOAST_TUPLE_THRESHOLD;
}

/* An update on its way */
typedef struct LsmUpdate
{
	LsmRowChange	target;
	TransactionId xid;
	CommandId	cid;
	LockTupleMode mode;			/* strength of the change */
	HeapTuple	newtup;			/* the caller's */
	HeapTuple	oldtup;			/* NULL until read */
	HeapTuple	stored;			/* newtup, or a toasted copy */
	bool		keys_intact;
	bool		entries_intact; /* no index needs an entry for the new version */
	bool		summaries_intact;	/* nor to be told of it */
	bool		must_toast;
	bool		row_locked;		/* by lock_and_toast() */
	bool		own_locks;		/* our transaction held locks before */
	bool		stays;			/* in its row */
	LsmRow		header;			/* of the new version; lsm_header_free() it */
	LsmSlice	note;			/* for logical decoding; lsm_note_free() it */
	uint64		packed;			/* its TID */
} LsmUpdate;

/*
 * What follows from the old version's data, which never changes: once is
 * enough.
 */
static void
compare_versions(LsmUpdate *update)
{
	Relation	rel = update->target.rel;

	update->oldtup = lsm_row_form_tuple(&update->target.row, update->target.packed,
										RelationGetRelid(rel));
	update->keys_intact = columns_unchanged(rel, INDEX_ATTR_BITMAP_KEY,
											update->oldtup, update->newtup);
	update->entries_intact = update->keys_intact &&
		columns_unchanged(rel, INDEX_ATTR_BITMAP_HOT_BLOCKING, update->oldtup, update->newtup);
	update->summaries_intact = update->entries_intact &&
		columns_unchanged(rel, INDEX_ATTR_BITMAP_SUMMARIZED, update->oldtup, update->newtup);
	update->mode = update->keys_intact ? LockTupleNoKeyExclusive : LockTupleExclusive;
	update->must_toast = update_needs_toast(rel, update->oldtup, update->newtup);
}

/*
 * Lock the old version for us by an entry of its own, then run the toaster: it
 * writes the new values and deletes the old ones, which cannot be taken back
 * if someone else turns out to have been faster.
 *
 * If the race for the lock is lost, nothing has happened (row_locked stays
 * false).
 */
static void
lock_and_toast(LsmUpdate *update)
{
	LsmRowChange  *target = &update->target;
	LsmConflict before;
	LsmRow		header;

	lsm_row_find_conflict(&target->row, update->mode, &before);
	update->own_locks = before.own;
	if (before.own_enough)
		update->row_locked = true;	/* if that lock goes, so does this update */
	else
	{
		lsm_row_change_header(target, InvalidTransactionId, update->mode, &header);
		lsm_header_add_locker(&header, update->xid, update->mode);
		update->row_locked = lsm_row_change_override(target, &header, lsm_slice(NULL, 0));
		lsm_header_free(&header);
		if (!update->row_locked)
			return;
	}
	update->stored = heap_toast_insert_or_update(target->rel, update->newtup,
												 update->oldtup, 0);
	lsm_row_check_size(update->stored);
}

/* No one is in the way.  False: read the old version again. */
static bool
try_update(LsmUpdate *update)
{
	if (update->must_toast && !update->row_locked)
	{
		lock_and_toast(update);
		return false;			/* the header has changed */
	}
	if (!update->row_locked)
		lsm_row_check_size(update->stored);
	header_of_new_version(&update->target.row, update->xid, update->cid,
						  update->own_locks, &update->header);
	if (update->note.len == 0)
		update->note = lsm_note_change(update->target.rel, update->oldtup, update->newtup);
	update->stays = update->entries_intact &&
		number_version(&update->target, update->stored, &update->header);
	if (update->stays && locked_for_update(&update->target.row))
		update->header.flags |= LSM_ROW_STRONG;
	if (update->stays ?
		write_version(&update->target, update->stored, &update->header, update->note,
					  &update->packed) :
		write_update(&update->target, update->stored, update->xid, update->cid,
					 update->keys_intact, &update->header, update->note, &update->packed))
		return true;
	lsm_header_free(&update->header);
	return false;
}

/* Tell who wants to know: statistics and, if there will be new entries, indexes. */
static TU_UpdateIndexes
note_update(const LsmUpdate *update)
{
	const LsmRowChange *target = &update->target;
	Relation	rel = target->rel;
	LsmReplaced replaced;

	if (update->stays)
	{
		pgstat_count_heap_update(rel, true, false);

		/* the version replaced is not for VACUUM to find: flushes drop it */
		pgstat_update_heap_dead_tuples(rel, 1);
		return update->summaries_intact ? TU_None : TU_Summarizing;
	}

	/* indexes know the row by it */
	lsm_row_tid(&target->tid, &replaced.tid);
	replaced.xmin = (target->row.flags & LSM_ROW_XMIN_FROZEN) ||
		TransactionIdIsCurrentTransactionId(target->row.xmin) ?
		InvalidTransactionId : target->row.xmin;
	lsm_notes_set_replaced(rel, &update->newtup->t_self,
						   update->keys_intact ? &replaced : NULL);
	lsm_relation_note_update(rel, target->tree, update->packed);
	pgstat_count_heap_update(rel, false, false);
	return TU_All;
}

/* The update did not come about. */
static void
report_failure(LsmUpdate *update, TM_Result result, TM_FailureData *tmfd)
{
	if (update->row_locked)
		elog(ERROR, "row (%u,%u) of table \"%s\" changed under our row lock",
			 ItemPointerGetBlockNumberNoCheck(&update->target.tid),
			 ItemPointerGetOffsetNumberNoCheck(&update->target.tid),
			 RelationGetRelationName(update->target.rel));
	lsm_row_change_failure(&update->target, result, tmfd);
}

/*
 * lsm_tuple_update - replace a row version.
 *
 * otid may point into the slot.  *lockmode: the strength of the change, also
 * when it fails.
 */
TM_Result
lsm_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
				 uint32 options, Snapshot snapshot, Snapshot crosscheck, bool wait,
				 TM_FailureData *tmfd, LockTupleMode *lockmode,
				 TU_UpdateIndexes *update_indexes)
{
	bool		should_free = true;
	LsmUpdate	update = {
		.xid = GetCurrentTransactionId(),
		.cid = cid,
		.mode = LockTupleExclusive,
		.own_locks = true
	};
	TM_Result	result;
	bool		have_tuple_lock = false;
	bool		waited;

	forbid_parallel("update");
	*update_indexes = TU_None;
	update.newtup = update.stored = ExecFetchSlotHeapTuple(slot, true, &should_free);
	slot->tts_tableOid = RelationGetRelid(rel);
	update.newtup->t_tableOid = slot->tts_tableOid;
	lsm_row_change_init(&update.target, rel, lsm_table_tree(rel), otid);

	for (;;)
	{
		if (!lsm_row_change_read(&update.target))
		{
			result = missing_failure(&update.target, tmfd);
			break;
		}
		if (update.oldtup == NULL)
			compare_versions(&update);
		result = check_or_wait(&update.target, cid, update.mode, wait, XLTW_Update,
							   &have_tuple_lock, &waited);
		if (waited)
			continue;
		result = check_command(&update.target, result, crosscheck, "update");
		if (result != TM_Ok)
		{
			report_failure(&update, result, tmfd);
			break;
		}
		if (try_update(&update))
			break;
	}

	*lockmode = update.mode;
	if (result != TM_Ok)
		lsm_tuplock_release(rel, &update.target.tid, update.mode, have_tuple_lock);
	else
	{
		lsm_label_tuple(rel, update.newtup, slot, &update.header, update.packed);
		lsm_header_free(&update.header);
		finish_change(&update.target, update.mode, have_tuple_lock);
		*update_indexes = note_update(&update);
	}

	lsm_row_change_free(&update.target);
	lsm_note_free(update.note);
	if (update.oldtup)
		heap_freetuple(update.oldtup);
	if (update.stored != update.newtup)
		heap_freetuple(update.stored);
	if (should_free)
		pfree(update.newtup);
	return result;
}
