/*-------------------------------------------------------------------------
 *
 * slow_reader.c
 *	  What a memtable or a file has, without fences, filters, digests or hints:
 *	  for second_opinion.c, in builds with assertions.
 *
 * Memtables are read by their skiplists, files by readers and iterators that
 * nobody else uses: neither counters nor the file cache, hit rates or elastic
 * filters learn of it.  Small sources are walked from one end to the other;
 * large ones are sought in, and walked now and then, the larger the less.  Nodes
 * that were to be linked later are linked by whoever reads in order: with a
 * second opinion for each answer, few nodes of a memtable stay unlinked.
 *
 * What is wrong with a file that cannot be read says who reads it for its
 * content.
 *
 * Locking: none; the caller is inside an epoch, or owns a job's version.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/memtable/memtable.h"
#include "tree/read/filecache.h"
#include "tree/read/slow_reader.h"

#ifdef USE_ASSERT_CHECKING

#define WALK_ENTRIES	200

/* Of larger sources, this many entries are walked for a question on average. */
#define WALK_SHARE		32

#define WRITERS_MS		2000

/* Readers that are kept open */
#define SLOW_FILES		64

/* ======================================================================
 * Ranges
 * ====================================================================== */

int
lsm_slow_place(const LsmTree *tree, const LsmSlowRange *range, LsmSlice key)
{
	switch (range->kind)
	{
		case LSM_SLOW_POINT:
			if (!lsm_slice_has_prefix(key, range->high))
				return -1;
			return lsm_filter_key_bytes(tree->kind, key.len) == range->high.len ? 0 : 1;
		case LSM_SLOW_KEY:
			return lsm_slice_compare(key, range->low) == 0 ? 0 : -1;
		case LSM_SLOW_PREFIXES:
			return memcmp(key.data, range->high.data, Min(key.len, range->high.len)) <= 0 ? 0 : -1;
		case LSM_SLOW_BEFORE:
			return lsm_slice_compare(key, range->high) < 0 ? 0 : -1;
	}
	return -1;
}

/* Is a source with this many entries to be walked? */
static bool
is_walked(uint64 entries)
{
	static uint32 questions = 0;

	return entries <= WALK_ENTRIES || ++questions % (entries / WALK_SHARE) == 0;
}

/* ======================================================================
 * One memtable
 * ====================================================================== */

static LsmMemNode *
node_from(LsmMemtable *memtable, LsmSlice low)
{
	LsmMemNode *node;

	if (!is_walked(pg_atomic_read_u64(&memtable->entries)))
		return lsm_memtable_seek(memtable, low);
	node = lsm_memtable_first(memtable);
	while (node != NULL && lsm_slice_compare(lsm_memnode_key(node), low) < 0)
		node = lsm_memtable_next(memtable, node);
	return node;
}

/*
 * The node, or the first behind it, that is in the range; NULL: none.  A node
 * that was removed is none, though it may be a while until it leaves the list.
 */
static LsmMemNode *
node_in_range(const LsmTree *tree, LsmMemtable *memtable, const LsmSlowRange *range, LsmMemNode *node)
{
	while (node != NULL)
	{
		int			place = lsm_slow_place(tree, range, lsm_memnode_key(node));

		if (place < 0)
			return NULL;
		if (place == 0 && !lsm_memnode_removed(node))
			return node;
		node = lsm_memtable_next(memtable, node);
	}
	return NULL;
}

LsmMemNode *
lsm_slow_first_node(const LsmTree *tree, LsmMemtable *memtable, const LsmSlowRange *range)
{
	return node_in_range(tree, memtable, range, node_from(memtable, range->low));
}

LsmMemNode *
lsm_slow_next_node(const LsmTree *tree, LsmMemtable *memtable, const LsmSlowRange *range, LsmMemNode *node)
{
	return node_in_range(tree, memtable, range, lsm_memtable_next(memtable, node));
}

bool
lsm_slow_still_there(const LsmTree *tree, LsmMemtable *memtable, LsmMemNode *node)
{
	LsmSlowRange		range = lsm_slow_key(lsm_memnode_key(node));

	return lsm_slow_first_node(tree, memtable, &range) == node;
}

bool
lsm_slow_writers_end(LsmMemtable *memtable)
{
	for (int i = 0; i < WRITERS_MS; i++)
	{
		pg_memory_barrier();
		if (pg_atomic_read_u32(&memtable->writers) == 0)
		{
			pg_memory_barrier();
			return true;
		}
		pg_usleep(1000);
	}
	return false;
}

/* ======================================================================
 * One file
 * ====================================================================== */

typedef struct SlowFile
{
	uint64		keyspace_id;	/* 0: free */
	uint64		life;			/* of the tree's block: ids of copies come again */
	uint64		number;
	LsmSstReader *reader;
	LsmSstIter *iter;
} SlowFile;

static SlowFile slow_files[SLOW_FILES];

static void
slow_close(SlowFile *slow)
{
	if (slow->iter != NULL)
		lsm_sst_iter_close(slow->iter);
	if (slow->reader != NULL)
		lsm_sst_close(slow->reader);
	memset(slow, 0, sizeof(*slow));
}

LsmSstIter *
lsm_slow_open(const LsmTree *tree, const LsmFile *file)
{
	static uint32 hand = 0;
	SlowFile   *slow;
	char		path[MAXPGPATH];
	LsmSstError err;

	for (int i = 0; i < SLOW_FILES; i++)
	{
		if (slow_files[i].number == file->number &&
			slow_files[i].keyspace_id == tree->keyspace_id &&
			slow_files[i].life == lsm_tree_life(tree))
			return slow_files[i].iter;
	}
	slow = &slow_files[hand++ % SLOW_FILES];
	slow_close(slow);
	lsm_file_path(tree, file->number, false, path);
	if (lsm_sst_open(path, &slow->reader, &err) != LSM_SST_OK)
		slow->reader = NULL;
	else if (lsm_file_mismatch(file, slow->reader) != NULL ||
			 lsm_sst_iter_open(slow->reader, &slow->iter, &err) != LSM_SST_OK)
		slow->iter = NULL;
	if (slow->iter == NULL)
	{
		slow_close(slow);
		return NULL;
	}
	slow->keyspace_id = tree->keyspace_id;
	slow->life = lsm_tree_life(tree);
	slow->number = file->number;
	return slow->iter;
}

bool
lsm_slow_iter_from(LsmSstIter *iter, const LsmFile *file, LsmSlice low)
{
	LsmSstError err;

	if (!is_walked(file->entries))
		return lsm_sst_iter_seek(iter, low.data, low.len, &err) == LSM_SST_OK;
	if (lsm_sst_iter_first(iter, &err) != LSM_SST_OK)
		return false;
	while (lsm_sst_iter_valid(iter) && lsm_slice_compare(lsm_slow_iter_key(iter), low) < 0)
	{
		if (lsm_sst_iter_next(iter, &err) != LSM_SST_OK)
			return false;
	}
	return true;
}

bool
lsm_slow_first_entry(const LsmTree *tree, const LsmFile *file, const LsmSlowRange *range,
					 LsmSstIter **found)
{
	LsmSstIter *iter = lsm_slow_open(tree, file);
	LsmSstError err;

	*found = NULL;
	if (iter == NULL || !lsm_slow_iter_from(iter, file, range->low))
		return false;
	while (lsm_sst_iter_valid(iter))
	{
		int			place = lsm_slow_place(tree, range, lsm_slow_iter_key(iter));

		if (place == 0)
			*found = iter;
		if (place <= 0)
			return true;
		if (lsm_sst_iter_next(iter, &err) != LSM_SST_OK)
			return false;
	}
	return true;
}

#endif							/* USE_ASSERT_CHECKING */
