/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  ambulkdelete and amvacuumcleanup.
 *
 * Every entry is asked about: CREATE INDEX CONCURRENTLY collects TIDs through
 * the callback, so none may be left out.  First those in memory, in key order.
 * Condemned ones are deleted in groups while the walk goes on; a deletion of
 * the key just passed does not disturb the cursor.  Entries of lsm tables are
 * forgotten (prune.c), like those that scans find dead: a DELETE would stay in
 * the memtable until the flush, and every scan of the key would walk them all.
 * A hot key gets hundreds from each VACUUM.
 *
 * Then those in sorted files: compaction takes condemned ones out where they
 * are many (purge.c), and where they are few they get a DELETE each.  What is
 * flushed between the two walks is asked about twice.
 *
 * On return every condemned entry is deleted or forgotten, the counter of
 * LSM_INDEX_VACUUM_DIGEST has been bumped, and no scan that may have read such
 * an entry has the interlock block pinned: only then may the caller let TIDs
 * be used again.  Concurrent inserters use TIDs the callback does not know.
 * (What is forgotten while a flush has written it already is back in a file
 * until the next VACUUM: allowed, since TIDs of lsm tables do not come again.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/index.h"
#include "commands/vacuum.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/index.h"

/* Xids that old are no news to any snapshot of a standby that lives. */
#define PRUNED_XID_AGE	((TransactionId) 1 << 27)

typedef struct DeleteGroup
{
	LsmTree    *tree;
	Relation	table;
	bool		stable_tids;
	MemoryContext context;		/* of the keys; reset when written */
	int			n;
	int			bytes;
	LsmEntry	entries[LSM_MAX_WRITE_ENTRIES];
} DeleteGroup;

static void
group_open(DeleteGroup *group, Relation index)
{
	group->tree = lsm_index_open_tree(index);
	group->table = table_open(IndexGetRelation(RelationGetRelid(index), false), NoLock);
	group->n = 0;
	group->bytes = 0;
	group->context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index vacuum",
										   ALLOCSET_DEFAULT_SIZES);
	group->stable_tids = lsm_tids_are_stable(group->table);
}

/*
 * Whose deletions this makes final, the table's VACUUM has logged before it
 * condemned the entries (heap's pruning, src/table/vacuum.c).
 */
static void
group_write(DeleteGroup *group)
{
	LsmWrite	write;
	int			n = 0;

	for (int i = 0; i < group->n; i++)
	{
		if (!group->stable_tids ||
			!lsm_tree_prune(group->tree, group->entries[i].key, InvalidTransactionId))
			group->entries[n++] = group->entries[i];
	}
	if (n > 0)
	{
		lsm_write_begin(group->tree, &write, group->entries, n);
		lsm_write_apply(&write);
	}
	MemoryContextReset(group->context);
	group->n = 0;
	group->bytes = 0;
}

static void
group_add(DeleteGroup *group, LsmSlice key)
{
	int			bytes = key.len + sizeof(lsm_delete_value);
	LsmEntry   *entry;
	char	   *copy;

	if (group->n == lengthof(group->entries) ||
		group->bytes + bytes > LSM_MAX_ENTRY_BYTES)
		group_write(group);
	copy = MemoryContextAlloc(group->context, key.len);
	memcpy(copy, key.data, key.len);
	entry = &group->entries[group->n++];
	memset(entry, 0, sizeof(*entry));
	entry->key = lsm_slice(copy, key.len);
	entry->value = lsm_slice(lsm_delete_value, sizeof(lsm_delete_value));
	group->bytes += bytes;
}

static BlockNumber
tree_pages(LsmTree *tree, LsmTreeSize *size)
{
	uint64		pages;

	lsm_tree_size(tree, size);
	pages = (size->file_bytes + size->memtable_bytes + BLCKSZ - 1) / BLCKSZ;
	return (BlockNumber) Min(pages, (uint64) MaxBlockNumber);
}

/* Until those have ended that hold on to entries; they wait for no one. */
static void
wait_for_scans(Relation index)
{
	Buffer		buffer = ReadBuffer(index, LSM_INTERLOCK_BLOCK);

	LockBufferForCleanup(buffer);
	UnlockReleaseBuffer(buffer);
}

/* ---- walking ---- */

typedef struct BulkDelete
{
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
	DeleteGroup group;
} BulkDelete;

/* LsmPurge.condemned */
static bool
entry_condemned(void *state, LsmSlice key)
{
	BulkDelete *bulk = (BulkDelete *) state;
	ItemPointerData tid;

	vacuum_delay_point(false);
	lsm_decode_tid(key, &tid);
	return bulk->callback(&tid, bulk->callback_state);
}

static void
delete_in_memory(BulkDelete *bulk, IndexBulkDeleteResult *stats)
{
	LsmCursor  *cursor = lsm_cursor_open(bulk->group.tree);
	LsmSlice	key;
	LsmSlice	value;

	lsm_cursor_memory_only(cursor);
	lsm_cursor_seek(cursor, lsm_slice(NULL, 0), false, ForwardScanDirection);
	while (lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
	{
		if (entry_condemned(bulk, key))
		{
			group_add(&bulk->group, key);
			stats->tuples_removed++;
		}
		else
			stats->num_index_tuples++;
	}
	lsm_cursor_close(cursor);
	group_write(&bulk->group);
}

static void
delete_in_files(BulkDelete *bulk, IndexBulkDeleteResult *stats)
{
	int			kb = AmAutoVacuumWorkerProcess() && autovacuum_work_mem != -1 ?
		autovacuum_work_mem : maintenance_work_mem;
	LsmTree    *tree = bulk->group.tree;
	StringInfoData value;
	LsmPurge	purge = {
		.condemned = entry_condemned,
		.state = bulk,
		.context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index purge",
										 ALLOCSET_DEFAULT_SIZES),
		.max_bytes = (Size) kb * 1024
	};

	lsm_tree_purge(tree, &purge);
	stats->tuples_removed += purge.ncondemned;
	stats->num_index_tuples += purge.nkept;

	/* those of earlier VACUUMs have their DELETE already */
	initStringInfo(&value);
	for (uint64 i = 0; i < purge.nleft; i++)
	{
		vacuum_delay_point(false);
		if (lsm_tombstone_needed(tree, purge.left[i], &value))
			group_add(&bulk->group, purge.left[i]);
	}
	group_write(&bulk->group);
	pfree(value.data);
	MemoryContextDelete(purge.context);
}

IndexBulkDeleteResult *
lsm_index_bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					  IndexBulkDeleteCallback callback, void *callback_state)
{
	BulkDelete *bulk = palloc(sizeof(BulkDelete));
	LsmTree    *tree;
	LsmTreeSize size;

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	stats->num_index_tuples = 0;
	bulk->callback = callback;
	bulk->callback_state = callback_state;
	group_open(&bulk->group, info->index);
	tree = bulk->group.tree;
	delete_in_memory(bulk, stats);
	delete_in_files(bulk, stats);

	/* readers that relied on entries now deleted must notice, on standbys, too */
	lsm_horizon_log(tree, InvalidTransactionId, true);
	lsm_key_lock(tree, LSM_INDEX_VACUUM_DIGEST);
	lsm_key_unlock(tree, LSM_INDEX_VACUUM_DIGEST, true);
	wait_for_scans(info->index);

	MemoryContextDelete(bulk->group.context);
	table_close(bulk->group.table, NoLock);
	pfree(bulk);
	stats->estimated_count = false;
	stats->num_pages = tree_pages(tree, &size);
	return stats;
}

/* The end of the main fork: who vacuums by hand wants it all. */
static void
truncate_fork(LsmTree *tree)
{
	if (!AmAutoVacuumWorkerProcess() && lsm_fork_wants_flush(tree))
		lsm_tree_flush(tree);
	(void) lsm_fork_truncate(tree, LSM_TRUNCATE_PAGES, false);
}

/* Memtables of an index that is hardly written may stay for ever. */
static void
age_pruned_xid(LsmTree *tree)
{
	TransactionId before = ReadNextTransactionId() - PRUNED_XID_AGE;

	if (TransactionIdIsNormal(before))
		lsm_tree_age_pruned_xid(tree, before);
}

IndexBulkDeleteResult *
lsm_index_vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	LsmTree    *tree;
	LsmTreeSize size;

	if (info->analyze_only)
		return stats;
	tree = lsm_index_open_tree(info->index);

	truncate_fork(tree);
	age_pruned_xid(tree);

	if (stats == NULL)
	{
		stats = palloc0(sizeof(IndexBulkDeleteResult));
		stats->num_pages = tree_pages(tree, &size);
		/* counts a key once per file it is in */
		stats->num_index_tuples = size.file_entries + size.memtable_entries;
		stats->estimated_count = true;
	}
	else
		stats->num_pages = tree_pages(tree, &size);

	/* entries of rows that came after the table was counted */
	if (!info->estimated_count && stats->num_index_tuples > info->num_heap_tuples)
		stats->num_index_tuples = info->num_heap_tuples;
	return stats;
}
