/*-------------------------------------------------------------------------
 *
 * unique.c
 *	  Inserting into a unique index.
 *
 * What counts as a conflict, whom to wait for and what to report is as in
 * nbtree's _bt_check_unique().  What nbtree gets from the lock on the leaf
 * page (no one inserts the same key between our check and our insertion) we
 * get from a stamp: take it, look for conflicts without any lock, reserve the
 * write, lock the key, and insert if no insertion of this key was counted
 * meanwhile and the tree's files and memtables are the same; else start over.
 *
 * Why no key gets two rows:
 *
 * 1. Whoever inserts an entry into a unique index counts the entry when it can
 *   be found, and before the inserting transaction can end.  An inserter that
 *   has checked counts under the key lock.  An update that keeps the key of
 *   its row checks nothing and counts without the lock (lsm_write_kept_key).
 * 2. We take the stamp, then read the entries, then ask the table about their
 *   rows, then compare the stamp under the lock.  An entry that we have missed
 *   came after the stamp; if it was counted before the comparison, the stamp
 *   fails, and we start over.
 * 3. Else its inserter T has not ended, and does not hold the lock, since we
 *   do: so T is an update that keeps the key of a row R, whose entry is older.
 * 4. T has not ended, so T's deletion of R is at best in progress.  If we have
 *   found R's entry, we have seen a conflict or a reason to wait.  If we have
 *   missed R's entry, too, points 2 to 4 hold for R's entry in place of T's.
 *   (If T has also inserted R, T has counted R's entry: the stamp fails.)
 * 5. Entries are taken away only of rows that are dead to everyone, and stay
 *   where they can be found when files and memtables change, or the stamp
 *   fails: what is gone hides no row.
 *
 * A deferred check (UNIQUE_CHECK_EXISTING) writes nothing and takes no lock.
 * Of two inserters of such an index, the one whose entry came second has found
 * the first one's entry, and checks again at the end of its transaction.  That
 * check may find a row dead whose successor's entry it has missed.  Then the
 * stamp fails, for the reasons above, and the check starts over.
 *
 * Waiting for another transaction happens with nothing held.
 *
 * On a heap table VACUUM may remove an entry that we have read and give its
 * TID to another row before we look at it; that row would be taken for a
 * conflict.  VACUUM bumps a counter of its own before it frees TIDs
 * (LSM_INDEX_VACUUM_DIGEST), which is compared before a conflict is believed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "index/index.h"

/* Dead entries of the key deleted along with an insertion */
#define MAX_TOMBSTONES	16

typedef enum UniqueVerdict
{
	VERDICT_UNIQUE,
	VERDICT_PERHAPS_NOT,		/* UNIQUE_CHECK_PARTIAL: to be checked later */
	VERDICT_WAIT,				/* for `xwait` */
	VERDICT_AGAIN				/* what was read cannot be relied on */
} UniqueVerdict;

typedef struct UniqueCheck
{
	LsmUniqueInsert *insert;
	LsmStamp	vacuum_stamp;
	bool		found_self;
	bool		self_dead;
	TransactionId xwait;
	uint32		speculative_token;
	int			ntombstones;
	int			tombstone_bytes;
	TransactionId tombstones_xid;	/* newest deleter of their rows */
	LsmSlice	tombstones[MAX_TOMBSTONES];
} UniqueCheck;

static void
report_conflict(LsmUniqueInsert *insert)
{
	char	   *key_desc = BuildIndexValueDescription(insert->index, insert->values,
													  insert->isnull);

	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"",
					RelationGetRelationName(insert->index)),
			 key_desc ? errdetail("Key %s already exists.", key_desc) : 0,
			 errtableconstraint(insert->table,
								RelationGetRelationName(insert->index))));
}

static bool
vacuum_interfered(UniqueCheck *check)
{
	LsmStamp	now;

	if (check->insert->stable_tids)
		return false;
	lsm_stamp_take(check->insert->tree, LSM_INDEX_VACUUM_DIGEST, &now);
	return now.key_counter != check->vacuum_stamp.key_counter;
}

static void
remember_dead(UniqueCheck *check, LsmSlice key, TransactionId xid)
{
	char	   *copy;
	LsmUniqueInsert *insert = check->insert;
	StringInfoData value;
	bool		needed;

	if (!insert->stable_tids || check->ntombstones == MAX_TOMBSTONES ||
		insert->key.len + insert->value.len + check->tombstone_bytes + key.len + 1 > LSM_MAX_ENTRY_BYTES)
		return;
	initStringInfo(&value);
	needed = lsm_tombstone_needed(insert->tree, key, &value);
	pfree(value.data);
	if (!needed)
		return;
	copy = palloc(key.len);
	memcpy(copy, key.data, key.len);
	check->tombstones[check->ntombstones++] = lsm_slice(copy, key.len);
	check->tombstone_bytes += key.len + 1;
	if (TransactionIdIsNormal(xid) &&
		(!TransactionIdIsNormal(check->tombstones_xid) ||
		 TransactionIdFollows(xid, check->tombstones_xid)))
		check->tombstones_xid = xid;
}

/*
 * Look at one entry with our key.  Returns VERDICT_UNIQUE if it does not
 * conflict.
 */
static UniqueVerdict
check_entry(UniqueCheck *check, LsmSlice key, ItemPointer entry_tid)
{
	LsmUniqueInsert *insert = check->insert;
	ItemPointerData tid = *entry_tid;
	SnapshotData dirty;
	bool		all_dead = false;

	InitDirtySnapshot(dirty);
	if (!table_index_fetch_tuple_check(insert->table, &tid, &dirty, &all_dead))
	{
		TransactionId xid;

		if (all_dead && insert->stable_tids &&
			lsm_notes_get_deleter(insert->table, &tid, &xid) &&
			!lsm_tree_prune(insert->tree, key, xid))
			remember_dead(check, key, xid);
		return VERDICT_UNIQUE;
	}
	if (insert->check == UNIQUE_CHECK_PARTIAL)
		return VERDICT_PERHAPS_NOT;

	check->xwait = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
	if (TransactionIdIsValid(check->xwait))
	{
		check->speculative_token = dirty.speculativeToken;
		return VERDICT_WAIT;
	}

	/*
	 * A conflict, unless our own row has been deleted meanwhile: CREATE INDEX
	 * CONCURRENTLY inserts entries of rows that others may delete.
	 */
	tid = *insert->tid;
	if (!table_index_fetch_tuple_check(insert->table, &tid, SnapshotSelf, NULL))
	{
		check->self_dead = true;
		return VERDICT_UNIQUE;
	}
	if (vacuum_interfered(check))
		return VERDICT_AGAIN;

	/*
	 * We will not write, but a serialization failure that the wait for the
	 * other inserter has brought about must not be masked by the violation.
	 */
	lsm_predicate_check(insert->index, insert->spec, lsm_key_columns(insert->key));
	report_conflict(insert);
	return VERDICT_UNIQUE;		/* not reached */
}

static UniqueVerdict
check_unique(UniqueCheck *check, LsmDigest digest)
{
	LsmUniqueInsert *insert = check->insert;
	UniqueVerdict		verdict = VERDICT_UNIQUE;
	LsmProbe	probe;
	LsmCursor  *cursor;
	LsmSlice	key;
	LsmSlice	value;
	ItemPointerData tid;

	check->found_self = false;
	check->self_dead = false;
	check->ntombstones = 0;
	check->tombstone_bytes = 0;
	check->tombstones_xid = InvalidTransactionId;
	if (!insert->stable_tids)
		lsm_stamp_take(insert->tree, LSM_INDEX_VACUUM_DIGEST, &check->vacuum_stamp);

	lsm_probe_begin_hashed(insert->tree, &probe, lsm_key_columns(insert->key), digest);
	if (lsm_tree_definitely_absent(insert->tree, &probe))
		return VERDICT_UNIQUE;
	cursor = lsm_cursor_open(insert->tree);
	lsm_cursor_seek_point(cursor, &probe);
	while (verdict == VERDICT_UNIQUE && !check->self_dead &&
		   lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
	{
		CHECK_FOR_INTERRUPTS();
		lsm_decode_tid(key, &tid);
		if (insert->check == UNIQUE_CHECK_EXISTING &&
			ItemPointerEquals(&tid, insert->tid))
			check->found_self = true;
		else
			verdict = check_entry(check, key, &tid);
	}
	lsm_cursor_close(cursor);
	return verdict;
}

/* True: inserted.  False: someone was faster. */
static bool
try_insert(UniqueCheck *check, LsmDigest lock, const LsmStamp *stamp)
{
	LsmUniqueInsert *insert = check->insert;
	LsmEntry	entries[1 + MAX_TOMBSTONES];
	LsmWrite	write;
	bool		holds;

	memset(entries, 0, sizeof(LsmEntry) * (1 + check->ntombstones));
	entries[0].key = insert->key;
	entries[0].value = insert->value;
	entries[0].digest = lock;
	entries[0].hashed = true;
	entries[0].probably_new = true;
	for (int i = 0; i < check->ntombstones; i++)
	{
		entries[1 + i].key = check->tombstones[i];
		entries[1 + i].value = lsm_slice(lsm_delete_value, sizeof(lsm_delete_value));
	}

	if (check->ntombstones > 0)
		lsm_horizon_log(insert->tree, check->tombstones_xid, false);
	lsm_write_begin(insert->tree, &write, entries, 1 + check->ntombstones);
	lsm_key_lock(insert->tree, lock);
	holds = lsm_stamp_holds(insert->tree, lock, stamp);
	if (holds)
		lsm_write_apply(&write);
	lsm_key_unlock(insert->tree, lock, holds);
	if (!holds)
		lsm_write_cancel(&write);
	return holds;
}

bool
lsm_insert_unique(LsmUniqueInsert *insert)
{
	UniqueCheck check = {.insert = insert};
	LsmDigest	lock = lsm_lock_digest(lsm_key_columns(insert->key));
	LsmStamp	stamp;
	UniqueVerdict		verdict;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		lsm_tree_prefetch(insert->tree, lsm_key_columns(insert->key), lock);
		lsm_stamp_take(insert->tree, lock, &stamp);

		if (insert->check == UNIQUE_CHECK_NO)
			verdict = VERDICT_UNIQUE;
		else
			verdict = check_unique(&check, lock);

		if (verdict == VERDICT_AGAIN)
			continue;
		if (verdict == VERDICT_WAIT)
		{
			if (check.speculative_token)
				SpeculativeInsertionWait(check.xwait, check.speculative_token);
			else
				XactLockTableWait(check.xwait, insert->index, insert->tid,
								  XLTW_InsertIndex);
			continue;
		}
		if (insert->check == UNIQUE_CHECK_EXISTING)
		{
			if (!lsm_stamp_held(insert->tree, lock, &stamp))
				continue;
			if (!check.found_self && !check.self_dead)
				ereport(ERROR,
						(errcode(ERRCODE_INTERNAL_ERROR),
						 errmsg("failed to re-find tuple within index \"%s\"",
								RelationGetRelationName(insert->index)),
						 errhint("This may be because of a non-immutable index expression."),
						 errtableconstraint(insert->table,
											RelationGetRelationName(insert->index))));
			return true;
		}
		if (try_insert(&check, lock, &stamp))
			return verdict == VERDICT_UNIQUE;
	}
}
