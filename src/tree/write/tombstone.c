/*-------------------------------------------------------------------------
 *
 * tombstone.c
 *	  Deleting entries that turned out to be dead to everyone, where
 *	  lsm_tree_prune() cannot: they lie in sorted files, or their TIDs are used
 *	  again.
 *
 * Rows of lsm tables, and entries of indexes.  TIDs of lsm tables are never
 * used again, so an entry found dead stays dead and can be deleted at any later
 * time.  An index entry of a heap table could meanwhile belong to a new row:
 * VACUUM deletes the entry, frees the TID, and a row with the same key gets it.
 * So these are deleted only if no VACUUM has finished deleting entries since
 * before they were read.  nbtree, which marks entries, compares the page's LSN.
 *
 * A standby sees the DELETE as soon as it has replayed it, long before the
 * flush: a record with the newest deleter comes before (lsm_horizon_log).
 *
 * It is an optimisation for which a reader should neither wait nor fail:
 * nothing is written when the tree's memtable is filling up (the writers' next
 * entries would have to wait for a flush), in a parallel worker, or in
 * recovery, and only what has room in the pages that the main fork has.  Then
 * the reader asks for room, which a worker makes, for later readers: they would
 * look every dead row up again, thousands for a key that many rows have had.
 * WAL they need, as what heap prunes does.
 *
 * Locking: as lsm_write_begin_optional/apply.  No key lock is needed for the
 * key, for the entry of a dead row is in no one's way.  Where TIDs are used
 * again, that of LSM_INDEX_VACUUM_DIGEST, unless somebody has it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"

#include "tree/control/control.h"
#include "tree/disk/log_entry.h"
#include "tree/memtable/memtable.h"
#include "tree/write/write.h"

const char	lsm_delete_value[1] = {LSM_TAG_DELETE};

#define DELETE_VALUE	lsm_slice(lsm_delete_value, sizeof(lsm_delete_value))

void
lsm_tombstones_add(LsmTombstones *tombstones, LsmSlice key, TransactionId xid)
{
	char	   *copy;

	if (lsm_tombstones_full(tombstones))
		return;
	/* a scan that goes back and forth meets an entry again */
	for (int i = tombstones->n - 1; i >= 0; i--)
		if (lsm_slice_compare(tombstones->keys[i], key) == 0)
			return;
	if (tombstones->n == 0)
		tombstones->xid = InvalidTransactionId;
	if (TransactionIdIsNormal(xid) &&
		(!TransactionIdIsNormal(tombstones->xid) || TransactionIdFollows(xid, tombstones->xid)))
		tombstones->xid = xid;
	if (tombstones->keys == NULL)
		tombstones->keys = MemoryContextAlloc(tombstones->context,
										 sizeof(LsmSlice) * LSM_MAX_TOMBSTONES);
	copy = MemoryContextAlloc(tombstones->context, key.len);
	memcpy(copy, key.data, key.len);
	tombstones->keys[tombstones->n++] = lsm_slice(copy, key.len);
	tombstones->bytes += key.len + sizeof(lsm_delete_value);
}

bool
lsm_tombstones_full(const LsmTombstones *tombstones)
{
	return tombstones->n >= LSM_MAX_TOMBSTONES ||
		tombstones->bytes + LSM_MAX_KEY_BYTES + (int) sizeof(lsm_delete_value) > LSM_MAX_ENTRY_BYTES;
}

static void
free_keys(LsmTombstones *tombstones, int n)
{
	for (int i = 0; i < n; i++)
		pfree(unconstify(char *, tombstones->keys[i].data));
}

void
lsm_tombstones_forget(LsmTombstones *tombstones)
{
	free_keys(tombstones, tombstones->n);
	tombstones->n = 0;
	tombstones->bytes = 0;
}

static bool
may_write(void)
{
	return !RecoveryInProgress() && !IsInParallelMode() && !IsParallelWorker() &&
		!lsm_ignore_missing_files;
}

static uint64
memtable_kb(LsmTree *tree)
{
	LsmMemtableSet set;
	uint64		bytes = 0;

	lsm_tree_enter(tree);
	lsm_set_take(tree->ctl, &set);
	for (int i = 0; i < set.n; i++)
		bytes += pg_atomic_read_u64(&set.tables[i]->bytes);
	lsm_tree_exit(tree);
	return bytes / 1024;
}

/*
 * What is not written for want of room is asked about again by the next scan,
 * and by the one after it: the question comes before all that costs more.
 * A DELETE stays in the memtable, but for most of those with TIDs that are used
 * again (lsm_write_apply_deletes): they may use more of it.
 */
static bool
has_room(LsmTree *tree, const LsmTombstones *tombstones, int bytes)
{
	LsmEntry	first = {.key = tombstones->keys[0], .value = DELETE_VALUE};
	uint64		limit_kb = (uint64) lsm_memtable_size_kb;

	limit_kb = tombstones->tids_reused ? limit_kb / 8 * 7 : limit_kb / 2;
	if (lsm_log_has_room(tree, lsm_log_entry_room(&first)) && memtable_kb(tree) < limit_kb)
		return true;
	lsm_log_want_room(tree, bytes);
	return false;
}

/* LsmEnough: one version is as good as all. */
static bool
any_version(void *arg, LsmSlice element)
{
	return true;
}

/*
 * Is there an entry?  What someone else has forgotten or deleted meanwhile
 * needs no DELETE, which would only be in the way of later scans.
 */
bool
lsm_tombstone_needed(LsmTree *tree, LsmSlice key, StringInfo scratch)
{
	const LsmEnough any = {any_version, NULL};
	LsmProbe	probe;

	lsm_probe_begin(tree, &probe, lsm_filter_key(tree, key));
	return lsm_tree_get_until(tree, key, &probe, &any, scratch, NULL);
}

static bool
vacuum_has_been(LsmTree *tree, const LsmTombstones *tombstones)
{
	LsmStamp	now;

	(void) lsm_stamp_peek(tree, LSM_INDEX_VACUUM_DIGEST, &now);
	return now.key_counter != tombstones->vacuums;
}

/*
 * Apply, or cancel if VACUUM has deleted entries since they were read: TIDs may
 * be others' by now.  VACUUM bumps the counter under the same lock, and lets
 * TIDs be used again after that, so whatever is written with such a TID comes
 * after our DELETE.
 */
static void
apply_before_vacuum(LsmWrite *write, const LsmTombstones *tombstones)
{
	LsmTree    *tree = write->tree;

	if (!lsm_key_lock_conditional(tree, LSM_INDEX_VACUUM_DIGEST))
	{
		lsm_write_cancel(write);
		return;
	}
	if (vacuum_has_been(tree, tombstones))
		lsm_write_cancel(write);
	else
	{
		lsm_horizon_log(tree, tombstones->xid, false);
		lsm_write_apply_deletes(write);
	}
	lsm_key_unlock(tree, LSM_INDEX_VACUUM_DIGEST, false);
}

/*
 * Where TIDs are used again: few cost less to look up again than to delete,
 * unless they are long.
 */
static bool
worth_writing(LsmTree *tree, const LsmTombstones *tombstones)
{
	return !tombstones->tids_reused ||
		((tombstones->n >= LSM_MIN_REUSED_TOMBSTONES || lsm_tombstones_full(tombstones)) &&
		 !vacuum_has_been(tree, tombstones));
}

void
lsm_tombstones_write(LsmTombstones *tombstones, LsmTree *tree)
{
	LsmEntry	entries[LSM_MAX_TOMBSTONES];
	LsmWrite	write;
	int			n = tombstones->n;
	int			bytes = tombstones->bytes;
	bool		write_them = n > 0 && worth_writing(tree, tombstones);

	if (n == 0)
		return;
	StaticAssertStmt(LSM_MAX_TOMBSTONES <= LSM_MAX_WRITE_ENTRIES, "tombstones must fit into a write");
	tombstones->n = 0;				/* also if the write fails */
	tombstones->bytes = 0;
	if (write_them && may_write() && has_room(tree, tombstones, bytes))
	{
		StringInfoData value;
		int			nentries = 0;

		initStringInfo(&value);
		memset(entries, 0, sizeof(LsmEntry) * n);
		for (int i = 0; i < n; i++)
		{
			if (!lsm_tombstone_needed(tree, tombstones->keys[i], &value))
				continue;
			entries[nentries].key = tombstones->keys[i];
			entries[nentries++].value = DELETE_VALUE;
		}
		pfree(value.data);
		if (nentries > 0 && lsm_write_begin_optional(tree, &write, entries, nentries))
		{
			if (tombstones->tids_reused)
				apply_before_vacuum(&write, tombstones);
			else
			{
				lsm_horizon_log(tree, tombstones->xid, false);
				lsm_write_apply(&write);
			}
		}
	}
	free_keys(tombstones, n);
}
