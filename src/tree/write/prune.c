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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "storage/proc.h"

#include "tree/control/control.h"
#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"
#include "tree/write/write.h"

/* Before the removal: a flush that misses the entry must not miss the xid. */
void
lsm_memtable_note_pruned(LsmMemtable *memtable, TransactionId xid)
{
	uint32		newest = pg_atomic_read_u32(&memtable->pruned_xid);

	while (TransactionIdIsNormal(xid) &&
		   (!TransactionIdIsValid(newest) || TransactionIdFollows(xid, newest)) &&
		   !pg_atomic_compare_exchange_u32(&memtable->pruned_xid, &newest, xid))
		 /* try again */ ;
}

/*
 * See tree.h.  A row that is dead to everyone now, or was when a scan of this
 * database pruned it, was deleted before the oldest transaction that our
 * snapshot sees running: what is removable at any time precedes the xmin of
 * every snapshot that there is, the pruner's included, and later ones do not
 * go back behind that.  Rows that a flush or compaction dropped are accounted
 * for in an edit record already.
 */
bool
lsm_prune_bound(TransactionId *xid)
{
	*xid = MyProc->xmin;
	if (!TransactionIdIsNormal(*xid))
		return false;
	TransactionIdRetreat(*xid);
	return true;
}

/*
 * Unlink the key's node if it holds the whole entry: a PUT, or a PARTIAL over
 * a PUT in the same memtable.  Then nothing older can lie below, because the
 * access methods PUT a key once.  True if the entry was found like that; else
 * it may be in a sorted file and the caller has to write a DELETE, or leave it
 * to compaction.
 *
 * REQUIRES: the entry is dead to everyone, for good: no one will write the key
 * again, and a write of the key that comes at the same time may be lost.
 * `xid`: who deleted it, or a later one; invalid if no snapshot ever saw it.
 */
bool
lsm_tree_prune(LsmTree *tree, LsmSlice key, TransactionId xid)
{
	LsmSlice	filter_key = lsm_filter_key(tree, key);
	LsmDigest	digest =
		lsm_memtable_digest(tree, filter_key,
							lsm_digest_key(filter_key.data, filter_key.len));
	LsmMemtableSet set;
	bool		found = false;

	lsm_tree_enter(tree);
	lsm_set_take(tree->ctl, &set);
	for (int i = 0; i < set.n && !found; i++)
	{
		LsmMemNode *node = lsm_memtable_find(set.tables[i], digest, key);
		LsmMemValue *value;

		if (node == NULL)
			continue;
		value = lsm_memnode_value(node);
		if (value->data[0] == LSM_TAG_PARTIAL)
		{
			/* read once: it may be replaced by a newer one meanwhile */
			value = *(LsmMemValue *volatile *) &value->base;
			pg_read_barrier();
		}
		if (value != NULL && value->data[0] == LSM_TAG_PUT)
		{
			lsm_memtable_note_pruned(set.tables[i], xid);
			lsm_memtable_remove(set.tables[i], node);
			found = true;
		}
	}
	lsm_tree_exit(tree);
	return found;
}
