/*-------------------------------------------------------------------------
 *
 * kill.c
 *	  Deleting entries whose rows turned out to be dead to everyone.
 *
 * Only for tables whose TIDs are never used again (lsm_tids_are_stable):
 * there an entry found dead stays dead, so it can be deleted at any later time.
 * On a heap table the entry could meanwhile belong to a new row.
 *
 * It is an optimisation for which a reader should neither wait nor fail:
 * nothing is written when the tree's memtable is filling up (the write might have
 * to flush), in a parallel worker, or in recovery.
 *
 * Locking: as lsm_write_begin/apply.  No key lock is needed: the entry of
 * a dead row is in no one's way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"

#include "index/index.h"

const char	lsm_delete_value[1] = {LSM_TAG_DELETE};

void
lsm_kills_add(LsmKills *kills, LsmSlice key)
{
	char	   *copy;

	if (lsm_kills_full(kills))
		return;
	/* a scan that goes back and forth meets an entry again */
	for (int i = kills->n - 1; i >= 0; i--)
		if (lsm_slice_compare(kills->keys[i], key) == 0)
			return;
	if (kills->keys == NULL)
		kills->keys = MemoryContextAlloc(kills->context,
										 sizeof(LsmSlice) * LSM_MAX_KILLS);
	copy = MemoryContextAlloc(kills->context, key.len);
	memcpy(copy, key.data, key.len);
	kills->keys[kills->n++] = lsm_slice(copy, key.len);
	kills->bytes += key.len + sizeof(lsm_delete_value);
}

bool
lsm_kills_full(const LsmKills *kills)
{
	return kills->n >= LSM_MAX_KILLS ||
		kills->bytes + LSM_MAX_KEY_BYTES + (int) sizeof(lsm_delete_value) > LSM_MAX_ENTRY_BYTES;
}

static bool
may_write(LsmTree *tree)
{
	LsmTreeSize size;

	if (RecoveryInProgress() || IsInParallelMode() || IsParallelWorker())
		return false;
	lsm_tree_size(tree, &size);
	return size.memtable_bytes / 1024 < (uint64) lsm_memtable_size_kb / 2;
}

void
lsm_kills_apply(LsmKills *kills, LsmTree *tree)
{
	LsmEntry	entries[LSM_MAX_KILLS];
	LsmWrite	write;
	int			n = kills->n;

	if (n == 0)
		return;
	StaticAssertStmt(LSM_MAX_KILLS <= LSM_MAX_WRITE_ENTRIES, "kills must fit into a write");
	kills->n = 0;				/* also if the write fails */
	kills->bytes = 0;
	if (may_write(tree))
	{
		memset(entries, 0, sizeof(LsmEntry) * n);
		for (int i = 0; i < n; i++)
		{
			entries[i].key = kills->keys[i];
			entries[i].value = lsm_slice(lsm_delete_value, sizeof(lsm_delete_value));
		}
		lsm_write_begin(tree, &write, entries, n);
		lsm_write_apply(&write);
	}
	for (int i = 0; i < n; i++)
		pfree(unconstify(char *, kills->keys[i].data));
}
