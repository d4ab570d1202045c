/*-------------------------------------------------------------------------
 *
 * forget.c
 *	  Taking entries that mean nothing any more out of the memtables.
 *
 * A row that is updated ten thousand times between two flushes leaves ten
 * thousand dead versions, and as many index entries of the same key, in the
 * memtable, and every scan of the key walks them.  heap prunes the page it
 * looks at, nbtree marks the entry; we unlink the node.
 *
 * Nothing is logged: the log pages keep the entry, so that it
 * comes back when the memtable is loaded again, as dead as before.  A flush in between
 * simply does not write it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/tree_private.h"

/*
 * Unlink the key's node if it holds the whole entry: a PUT, or a PARTIAL over
 * a PUT in the same memtable.  Then nothing older can lie below, because the
 * access methods PUT a key once.  True if the entry was found like that; else it may be in a
 * sorted file and the caller has to write a DELETE, or leave it to compaction.
 *
 * REQUIRES: the entry is dead to everyone, for good: no one will write the
 * key again, and a write of the key that comes at the same time may be lost.
 */
bool
lsm_tree_forget(LsmTree *tree, LsmSlice key)
{
	LsmSlice	filter_key = lsm_filter_key(tree, key);
	LsmDigest	digest = lsm_digest_key(filter_key.data, filter_key.len);
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
			lsm_memtable_remove(set.tables[i], node);
			found = true;
		}
	}
	lsm_tree_exit(tree);
	return found;
}
