/*-------------------------------------------------------------------------
 *
 * row_opinion.c
 *	  Second opinions about rows, in builds with assertions: what an index says
 *	  of a row without having looked at it, and what a row that was kept is now.
 *	  Rows are read by the slow reader of the tree (second_opinion.c), so that
 *	  nothing that shortcuts keep is used or changed.
 *
 * What is claimed does not change while it is checked: a snapshot that is in
 * use goes on to see, or not to see, what it did, and a row that is dead to
 * everyone stays so.  What may be removed by one horizon may be removed for ever,
 * and a horizon that is computed now may be older than that one (removable.c).
 * So a row that is not dead by the horizon of now has to have a deleter that has
 * committed, and that nobody's snapshot takes for running.  A row that was kept is claimed for as long as its stamp
 * holds; the stamp is compared once more under the key's lock, where every
 * change that the slow reader can have seen has been counted.  There is one
 * exception: who publishes files that have the row in other words (frozen) makes
 * them readable a moment before the set's stamp changes.  So the version must
 * have settled first: then the stamp has changed since it came.
 *
 * Locking: the key's lock, for a moment, if a kept row differs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "utils/snapmgr.h"

#include "table/versions.h"

#ifdef USE_ASSERT_CHECKING

/* All versions of the row.  False: it is unknown whether there are any. */
static bool
slow_row(Relation rel, uint64 row, StringInfo value, bool *found)
{
	char		key[LSM_TID_BYTES];

	lsm_key_encode(row, key);
	return lsm_opinion_read(lsm_table_tree(rel), lsm_slice(key, sizeof(key)), value, found);
}

static void
row_differs(Relation rel, uint64 row, const char *shortcut, const char *what)
{
	char		key[LSM_TID_BYTES];

	lsm_key_encode(row, key);
	lsm_opinion_differ(lsm_table_tree(rel), shortcut, lsm_slice(key, sizeof(key)), what);
}

static bool
row_visible(Relation rel, uint64 row, const StringInfoData *value, Snapshot snapshot)
{
	LsmRow		version;
	uint64		packed;

	return lsm_versions_for_snapshot(rel, row, lsm_slice(value->data, value->len), snapshot,
									 &version, &packed);
}

/* LsmTableOps.doubt_visible */
void
lsm_row_doubt_visible(Relation rel, const ItemPointerData *tid, Snapshot snapshot, bool visible,
					  const char *shortcut)
{
	uint64		row = lsm_tid_pack(tid);
	StringInfoData value;
	bool		found;

	if (snapshot == NULL || !IsMVCCSnapshot(snapshot) || lsm_ignore_missing_files)
		return;
	initStringInfo(&value);
	if (slow_row(rel, row, &value, &found) &&
		(found && row_visible(rel, row, &value, snapshot)) != visible)
		row_differs(rel, row, shortcut,
					visible ? "the snapshot does not see the row" : "the snapshot sees the row");
	pfree(value.data);
}

static bool
dead_to_everyone(Relation rel, uint64 row, LsmSlice value)
{
	TransactionId deleter;
	LsmRow		version;

	if (lsm_versions_vacuum_status(rel, row, value, lsm_tree_horizon(lsm_table_tree(rel)),
								   &version, &deleter) == HEAPTUPLE_DEAD)
		return true;
	if (RelationUsesLocalBuffers(rel) ||
		lsm_versions_vacuum_status(rel, row, value, ReadNextTransactionId(), &version,
								   &deleter) != HEAPTUPLE_DEAD)
		return false;
	lsm_assert_removable(rel->rd_locator.dbOid, deleter);
	return true;
}

/* LsmTableOps.doubt_dead */
void
lsm_row_doubt_dead(Relation rel, const ItemPointerData *tid, const char *shortcut)
{
	uint64		row = lsm_tid_pack(tid);
	StringInfoData value;
	bool		found;

	if (RecoveryInProgress() || lsm_ignore_missing_files)
		return;
	initStringInfo(&value);
	if (slow_row(rel, row, &value, &found) && found &&
		!dead_to_everyone(rel, row, lsm_slice(value.data, value.len)))
		row_differs(rel, row, shortcut, "the row is not dead to everyone");
	pfree(value.data);
}

/* What was kept has the row's newest versions, all or some of them. */
static bool
is_beginning(LsmSlice kept, LsmSlice all)
{
	LsmChain	a;
	LsmChain	b;
	LsmSlice	element;
	LsmSlice	same;

	lsm_chain_begin(&a, kept);
	lsm_chain_begin(&b, all);
	while (lsm_chain_next(&a, &element))
	{
		if (!lsm_chain_next(&b, &same) || lsm_slice_compare(element, same) != 0)
			return false;
	}
	return a.at != NULL;
}

/* The kept value of the row is what is there, as long as the stamp holds. */
void
lsm_row_doubt_kept(LsmTree *tree, uint64 row, LsmDigest digest, const LsmStamp *stamp,
				   LsmSlice kept)
{
	char		key[LSM_TID_BYTES];
	StringInfoData value;
	bool		found;
	bool		holds;

	lsm_key_encode(row, key);
	initStringInfo(&value);
	if (!lsm_opinion_read(tree, lsm_slice(key, sizeof(key)), &value, &found))
		 /* who knows */ ;
	else if (!found || !is_beginning(kept, lsm_slice(value.data, value.len)))
	{
		holds = lsm_opinion_version_settled(tree);
		pg_memory_barrier();
		lsm_key_lock(tree, digest);
		holds = holds && lsm_stamp_holds(tree, digest, stamp);
		lsm_key_unlock(tree, digest, false);
		if (holds)
			lsm_opinion_differ(tree, "lsm_fetch_last_row()", lsm_slice(key, sizeof(key)),
							   found ? "the row has another value" : "there is no row");
	}
	pfree(value.data);
}

#endif							/* USE_ASSERT_CHECKING */
