/*-------------------------------------------------------------------------
 *
 * prune.c
 *	  Taking entries that mean nothing any more out of the memtables.
 *
 * A row that is updated ten thousand times between two flushes leaves ten
 * thousand dead versions, and as many index entries of the same key, in the
 * memtable, and every scan of the key walks them.  heap prunes the page it
 * looks at, nbtree marks the entry; we unlink the node.
 *
 * Nothing is logged: the log pages keep the entry, so that it comes back when
 * the memtable is loaded again, as dead as before.  A flush in between simply
 * does not write it.  Replaying that flush takes the entry from the queries of
 * a standby, so its edit record carries the newest transaction id whose
 * deletions were forgotten (pruned_xid), as if the flush had dropped them.
 *
 * An entry of a heap table's index must not come back: VACUUM would not know
 * of it, and its TID could belong to another row by then.  A logged DELETE
 * takes its place first, and then leaves the memtable (lsm_write_apply_deletes).
 * A flush writes the DELETE or nothing, a load finds it in the log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "tree/control/control.h"
#include "tree/disk/page.h"
#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"
#include "tree/read/second_opinion.h"
#include "tree/write/write.h"

static void
raise_xid(pg_atomic_uint32 *newest, TransactionId xid)
{
	uint32		old = pg_atomic_read_u32(newest);

	while (TransactionIdIsNormal(xid) &&
		   (!TransactionIdIsValid(old) || TransactionIdFollows(xid, old)) &&
		   !pg_atomic_compare_exchange_u32(newest, &old, xid))
		 /* try again */ ;
}

/*
 * Before the removal: neither a flush nor a reader that misses the entry must
 * miss the xid.
 */
static void
note_pruned(LsmTreeShared *ctl, LsmMemtable *memtable, TransactionId xid)
{
	raise_xid(&memtable->pruned_xid, xid);
	raise_xid(&ctl->rows.pruned_xid, xid);
}

/*
 * See tree.h.  What was pruned and came back, because the tree was evicted and
 * loaded again, is not missing.  What flushes, compactions and DELETE entries
 * removed is accounted for in records that came before.
 */
TransactionId
lsm_tree_pruned_xid(LsmTree *tree)
{
	TransactionId xid;

	pg_read_barrier();			/* after the entry was missed */
	lsm_tree_enter(tree);
	xid = pg_atomic_read_u32(&tree->ctl->rows.pruned_xid);
	lsm_tree_exit(tree);
	return xid;
}

static void
age_xid(LsmTree *tree, pg_atomic_uint32 *newest, TransactionId before)
{
	uint32		xid = pg_atomic_read_u32(newest);

	if (!TransactionIdIsNormal(xid) || !TransactionIdPrecedes(xid, before))
		return;
	lsm_horizon_log(tree, xid, false);
	(void) pg_atomic_compare_exchange_u32(newest, &xid, InvalidTransactionId);
}

/* See writes.h. */
void
lsm_tree_age_pruned_xid(LsmTree *tree, TransactionId before)
{
	LsmMemtableSet set;

	lsm_tree_enter(tree);
	age_xid(tree, &tree->ctl->rows.pruned_xid, before);
	lsm_set_take(tree->ctl, &set);
	for (int i = 0; i < set.n; i++)
		age_xid(tree, &set.tables[i]->pruned_xid, before);
	lsm_tree_exit(tree);
}

static LsmDigest
entry_digest(LsmTree *tree, LsmSlice key)
{
	LsmSlice	filter_key = lsm_filter_key(tree, key);

	return lsm_memtable_digest(tree, filter_key,
							   lsm_digest_key(filter_key.data, filter_key.len));
}

/*
 * Unlink the key's node if it holds the whole entry: a PUT, or what was written
 * over a PUT in the same memtable (PARTIALs, VERSIONs).  Then nothing older can
 * lie below, because the access methods PUT a key once where TIDs are not used
 * again.  True if the entry was found like that; else it may be in a sorted
 * file and the caller has to write a DELETE, or leave it to compaction.  What
 * newer memtables have of the key stays, and goes on saying that it is dead: a
 * flush that is going on may have taken the node before it left.  A VERSION
 * there is perhaps a DELTA in the log: a reader of that, or one that has had it
 * from there as a standby, needs what it differs from, to say so.  Then nothing
 * goes.
 *
 * REQUIRES: the entry is dead to everyone, for good: no one will write the key
 * again, and a write of the key that comes at the same time may be lost.
 * `xid`: who deleted it, or a later one; invalid if no snapshot ever saw it.
 */
bool
lsm_tree_prune(LsmTree *tree, LsmSlice key, TransactionId xid)
{
	LsmDigest	digest = entry_digest(tree, key);
	LsmMemtableSet set;
	bool		found = false;

	LSM_DOUBT(true, lsm_opinion_whole(tree, key));
	lsm_tree_enter(tree);
	lsm_set_take(tree->ctl, &set);
	for (int i = 0; i < set.n && !found; i++)
	{
		LsmMemNode *node = lsm_memtable_find(set.tables[i], digest, key);

		if (node != NULL && lsm_memnode_is_whole(node))
		{
			note_pruned(tree->ctl, set.tables[i], xid);
			lsm_memtable_remove(set.tables[i], node);
			found = true;
		}
		else if (node != NULL && lsm_memnode_has_version(node))
			break;
	}
	lsm_tree_exit(tree);
	return found;
}

static LsmMemNode *
find_node(const LsmWrite *write, int i)
{
	return lsm_memtable_find((LsmMemtable *) write->memtable,
							 entry_digest(write->tree, write->entries[i].key),
							 write->entries[i].key);
}

/*
 * See write.h.  The writer is registered: the memtable stays, and is not
 * flushed, until the write has been applied.  A flush or an eviction that begins
 * between that and the removal has the DELETE, which does no harm.  So that the
 * memtable stays until the removal, the epoch is announced during the write:
 * that waits for LWLocks and pages, and who waits for epochs holds none.
 *
 * A node whose only values are PUTs hides nothing.  A key is PUT again only
 * after a DELETE: that lies below, in an older memtable or a file, and goes on
 * hiding what it hid; or it was taken out here, when there was nothing below;
 * or it was a value of this very node (had_delete), which then must stay.
 */
void
lsm_write_apply_deletes(LsmWrite *write)
{
	bool		whole[LSM_MAX_WRITE_ENTRIES];
	int			n = write->nentries;

	lsm_epoch_enter();
	for (int i = 0; i < n; i++)
	{
		LsmMemNode *node = find_node(write, i);

		whole[i] = node != NULL && !lsm_memnode_had_delete(node) &&
			lsm_memnode_value(node)->data[0] == LSM_TAG_PUT;
	}
	lsm_write_apply(write);
	for (int i = 0; i < n; i++)
	{
		LsmMemNode *node = whole[i] ? find_node(write, i) : NULL;

		/* there was no room to log the last ones, perhaps */
		if (node != NULL && lsm_memnode_value(node)->data[0] == LSM_TAG_DELETE)
			lsm_memtable_remove((LsmMemtable *) write->memtable, node);
	}
	lsm_epoch_exit();
}
