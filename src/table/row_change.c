/*-------------------------------------------------------------------------
 *
 * row_change.c
 *	  One row version about to be changed: updated, deleted, or locked.
 *
 * Read its row under a stamp, decide, begin the write (which may stall or
 * flush), lock the row's key, and apply only if the stamp still holds.  Whoever
 * loses the race reads again.  So nothing waits under a key lock, and no decision
 * is applied to a header that it was not made for.
 *
 * An override is about the newest valid version of the row.  That is another
 * one than the version to be changed if that has a successor; then what is
 * written is a lock, which is the row's, and the successor's maker may run.
 *
 * Locking: the key lock of the row, while the write is applied.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"

#include "table/versions.h"
#include "tree/visibility_map.h"

void
lsm_row_change_init(LsmRowChange *target, Relation rel, LsmTree *tree,
				const ItemPointerData *tid)
{
	target->rel = rel;
	target->tree = tree;
	target->tid = *tid;
	target->packed = lsm_tid_pack(tid);
	target->row_tid = lsm_tid_row(target->packed);
	lsm_key_encode(target->row_tid, target->key);
	target->lock_digest =
		lsm_lock_digest(lsm_slice(target->key, LSM_TID_BYTES));
	lsm_probe_begin_hashed(tree, &target->probe,
						   lsm_slice(target->key, LSM_TID_BYTES),
						   target->lock_digest);
	lsm_buffer_init(&target->value, LSM_FIRST_VALUE_BYTES);
}

void
lsm_row_change_free(LsmRowChange *target)
{
	pfree(target->value.data);
}

/*
 * The version in the value that was read, and the newest one.  A row that has one
 * is told from its successors by the TID alone: whether its maker was rolled back
 * is for lsm_row_changeable() to say.
 */
static bool
decode_version(LsmRowChange *target)
{
	LsmSlice	value = lsm_slice(target->value.data, target->value.len);

	target->newest = &target->row;
	if (likely(lsm_value_tag(value) == LSM_TAG_PUT))
		return lsm_lone_version(target->rel, target->packed, value, &target->row);
	if (!lsm_versions_exact(target->rel, target->packed, value, NULL, &target->row,
							&target->newer))
		return false;
	/* each has its data elsewhere in the value */
	if (target->newer.body != target->row.body)
		target->newest = &target->newer;
	return true;
}

/*
 * The row that was found last may have too few versions: those that its snapshot
 * had to know, some of which may have come to nothing since (versions.h).
 */
bool
lsm_row_change_read(LsmRowChange *target)
{
	LsmExact	exact = {target->packed, NULL};
	LsmEnough	enough = lsm_enough_exact(&exact);
	LsmSlice	last;

	CHECK_FOR_INTERRUPTS();
	target->crowded = false;
	if (lsm_fetch_last_row(target->tree, target->row_tid, target->lock_digest, &target->stamp,
						   &last))
	{
		resetStringInfo(&target->value);
		appendBinaryStringInfo(&target->value, last.data, last.len);
		if (likely(decode_version(target)))
			return true;
	}
	lsm_stamp_take(target->tree, target->lock_digest, &target->stamp);
	if (!lsm_tree_get_until(target->tree, lsm_slice(target->key, LSM_TID_BYTES),
							&target->probe, &enough, &target->value, NULL))
		return false;
	target->crowded = lsm_tree_folded(target->tree) > LSM_ROW_VALUES_MAX;
	return decode_version(target);
}

bool
lsm_row_change_apply(LsmRowChange *target, LsmWrite *write)
{
	bool		holds;

	lsm_key_lock(target->tree, target->lock_digest);
	holds = lsm_stamp_holds(target->tree, target->lock_digest, &target->stamp);
	if (holds)
		lsm_write_apply(write);
	else
		lsm_write_cancel(write);
	lsm_key_unlock(target->tree, target->lock_digest, holds);
	return holds;
}

bool
lsm_row_change_override(LsmRowChange *target, const LsmRow *header, LsmSlice note)
{
	LsmHeaderValue value;
	LsmEntry	entry;
	LsmWrite	write;
	bool		written;

	lsm_header_value_init(&value, header);
	memset(&entry, 0, sizeof(entry));
	entry.key = lsm_slice(target->key, LSM_TID_BYTES);
	entry.value = lsm_slice(value.buf.data, value.buf.len);
	entry.digest = target->lock_digest;
	entry.hashed = true;
	entry.key_locked = true;
	entry.note = note;
	lsm_write_begin(target->tree, &write, &entry, 1);
	if (header->flags & (LSM_ROW_HAS_XMAX | LSM_ROW_KILLED))
		lsm_vm_clear(target->rel, target->tree, ItemPointerGetBlockNumber(&target->tid));
	written = lsm_row_change_apply(target, &write);
	lsm_header_value_free(&value);
	return written;
}

/*
 * The header that a change of the row begins with, that of its newest version:
 * finished transactions are replaced by hint flags.  LSM_ROW_XMIN_COMMITTED may be
 * written because the WAL record of this header follows xmin's commit record:
 * if this header survives a crash, so does the commit.
 */
void
lsm_row_change_header(const LsmRowChange *target, TransactionId xid, LockTupleMode mode,
				  LsmRow *header)
{
	const LsmRow *row = target->newest;
	char	   *lockers;
	int			i;

	*header = *row;
	header->partial = true;
	header->body = NULL;
	header->body_bytes = 0;

	if (!(row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN |
						LSM_ROW_KILLED)) &&
		!lsm_xid_running(row->xmin) && TransactionIdDidCommit(row->xmin))
	{
		header->flags |= LSM_ROW_XMIN_COMMITTED;
		header->cmin = 0;
	}

	if ((header->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_KILLED)) == LSM_ROW_XMIN_COMMITTED &&
		lsm_tree_freezes(target->tree, header->xmin))
		lsm_row_freeze(header);

	if ((row->flags & LSM_ROW_HAS_XMAX) && !(row->flags & LSM_ROW_XMAX_COMMITTED) &&
		!lsm_xid_running(row->xmax))
	{
		if (TransactionIdDidCommit(row->xmax))
			header->flags |= LSM_ROW_XMAX_COMMITTED;
		else
		{
			header->flags &= ~LSM_ROW_XMAX_FLAGS;
			header->xmax = InvalidTransactionId;
			ItemPointerSetInvalid(&header->next);
		}
	}

	lockers = row->nlockers > 0 ? palloc(row->nlockers * LSM_LOCKER_BYTES) : NULL;
	header->lockers = lockers;
	header->nlockers = 0;
	for (i = 0; i < row->nlockers; i++)
	{
		TransactionId locker;
		LockTupleMode held;

		lsm_row_locker(row, i, &locker, &held);
		if ((locker == xid && held <= mode) || !lsm_xid_running(locker))
			continue;
		lsm_locker_put(lockers + header->nlockers * LSM_LOCKER_BYTES, locker, held);
		header->nlockers++;
	}
}

void
lsm_header_free(LsmRow *header)
{
	if (header->lockers)
		pfree(unconstify(char *, header->lockers));
	header->lockers = NULL;
	header->nlockers = 0;
}

void
lsm_row_change_failure(const LsmRowChange *target, TM_Result result, TM_FailureData *tmfd)
{
	const LsmRow *row = &target->row;

	tmfd->ctid = target->tid;
	if (row->flags & LSM_ROW_HAS_NEXT)
		tmfd->ctid = row->next;
	else if (row->flags & LSM_ROW_MOVED)
		ItemPointerSetMovedPartitions(&tmfd->ctid);
	tmfd->xmax = row->xmax;
	tmfd->cmax = result == TM_SelfModified ? row->cmax : InvalidCommandId;
}
