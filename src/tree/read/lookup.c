/*-------------------------------------------------------------------------
 *
 * lookup.c
 *	  Point lookups: the values of one key in memtables and in the files that may
 *	  have it (candidates.c), folded into one, newest first, until that is complete.
 *
 * Runs inside one epoch, lock-free.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"
#include "tree/read/candidates.h"
#include "tree/read/filecache.h"
#include "tree/read/merge.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

/*
 * Ask the memtables before looking for candidate files if at least this many
 * of 256 lookups found their key in memtables (memtable_rate)
 */
#define MEMTABLES_FIRST	96

/* Fold what the memtables have for the key; true if that is complete. */
static pg_attribute_always_inline bool
get_from_memtables(const LsmTree *tree, const LsmMemtableSet *set, LsmSlice key,
				   const LsmProbe *probe, LsmFold *fold)
{
	LsmDigest	digest = lsm_memtable_digest(tree, key, probe->digest);

	for (int i = 0; i < set->n; i++)
	{
		LsmMemNode *node = lsm_memtable_find(set->tables[i], digest, key);

		if (node != NULL && lsm_fold_add_memvalue(fold, lsm_memnode_value(node)))
			return true;
	}
	return false;
}

static inline LsmSlice
iter_key(LsmSstIter *iter)
{
	size_t		len;
	const void *data = lsm_sst_iter_key(iter, &len);

	return lsm_slice(data, (uint32) len);
}

/* Compare two keys that begin with the same `bytes`. */
static inline int
compare_behind(LsmSlice a, LsmSlice b, uint32 bytes)
{
	return lsm_slice_compare(lsm_slice(a.data + bytes, a.len - bytes),
							 lsm_slice(b.data + bytes, b.len - bytes));
}

/*
 * Put the iterator on the key's entry, if there is one.  In an index tree, the
 * seek is for the filter key: mostly, nothing begins with it, and the filter's
 * false positive has cost one seek.  *holds: an entry of the filter key was
 * seen.
 */
static bool
seek_key(LsmSstIter *iter, LsmSlice first, LsmSlice key, bool *holds)
{
	LsmSlice	at;
	LsmSstError err;
	int			c;

	*holds = false;
	lsm_sst_check(lsm_sst_iter_seek_prefix(iter, first.data, first.len, first.len, &err), &err);
	if (!lsm_sst_iter_valid(iter))
		return false;
	at = iter_key(iter);
	*holds = at.len == key.len;
	c = compare_behind(at, key, first.len);
	if (c < 0)
	{
		lsm_sst_check(lsm_sst_iter_seek_prefix(iter, key.data, key.len, key.len, &err), &err);
		if (!lsm_sst_iter_valid(iter))
			return false;
		c = compare_behind(iter_key(iter), key, key.len);
	}
	if (c != 0)
		return false;
	*holds = true;
	return true;
}

/* Look into one file whose filter did not object.  True: fold is complete. */
static bool
get_from_file(LsmCandidates *files, LsmOpenFile *open, LsmFold *fold)
{
	LsmSstError err;
	LsmSstIter *iter = open->idle_iter;
	bool		holds;
	bool		complete = false;

	if (iter == NULL)
	{
		lsm_sst_check(lsm_sst_iter_open(open->reader, &iter, &err), &err);
		open->idle_iter = iter;
	}
	if (seek_key(iter, files->probe->filter_key, files->key, &holds))
	{
		size_t		len;
		const void *data = lsm_sst_iter_value(iter, &len);

		complete = lsm_fold_add(fold, lsm_slice(data, (uint32) len));
	}
	lsm_probe_outcome(open, holds, &files->counts);
	lsm_file_count_blocks(files->tree, open);
	return complete;
}

/* Look into the files that fences and filters leave, newest first. */
static void
get_from_files(LsmCandidates *files, LsmFold *fold)
{
	LsmOpenFile *open;

	while ((open = lsm_candidates_next(files)) != NULL)
	{
		if (get_from_file(files, open, fold))
			return;
	}
}

#ifdef USE_ASSERT_CHECKING
typedef struct GetAgain
{
	const LsmMemtableSet *set;
	LsmCandidates *files;
} GetAgain;

/* LsmOpinionAgain: as lsm_tree_get_until() */
static void
get_again(void *arg, LsmFold *fold)
{
	const LsmMemtableSet *set = ((GetAgain *) arg)->set;
	LsmCandidates *files = ((GetAgain *) arg)->files;
	LsmTree    *tree = files->tree;
	LsmSlice	key = files->key;

	lsm_filecache_begin();
	lsm_candidates_begin(files, tree, files->version, files->probe, key);
	if (!get_from_memtables(tree, set, key, files->probe, fold))
		get_from_files(files, fold);
}

static void
doubt_get(const LsmMemtableSet *set, LsmCandidates *files, const LsmFold *fold)
{
	GetAgain	again = {set, files};

	lsm_opinion_value(files->tree, set, files->version, files->key, fold, get_again, &again,
					  "lsm_tree_get()");
}
#endif

int
lsm_tree_folded(const LsmTree *tree)
{
	return tree->nfolded;
}

bool
lsm_tree_get_until(LsmTree *tree, LsmSlice key, const LsmProbe *probe,
				   const LsmEnough *enough, StringInfo value, LsmStamp *stamp)
{
	LsmMemtableSet set;
	LsmVersion *version;
	LsmCandidates files;
	LsmFold		fold;
	bool		hit;
	bool		found;

	Assert(probe->filter_key.len == lsm_filter_key_bytes(tree->kind, key.len));
	Assert(memcmp(probe->filter_key.data, key.data, probe->filter_key.len) == 0);

	resetStringInfo(value);
	lsm_fold_begin(&fold, tree->ops, value);
	fold.enough = enough;
	if (stamp != NULL)
		lsm_key_prefetch(tree, probe->digest);
	version = lsm_version_enter(tree, &set);
	fold.disordered = version->salvaged;
	lsm_filecache_begin();

	/*
	 * Unless memtables answer mostly, what they need is fetched while the
	 * fences are looked at.
	 */
	lsm_candidates_begin(&files, tree, version, probe, key);
	if (tree->memtable_rate < MEMTABLES_FIRST && !lsm_probe_has_answers(probe, version))
	{
		lsm_probe_prefetch_memtables(tree, &set, probe);
		lsm_candidates_find(&files);
	}
	if (stamp != NULL)
		lsm_stamp_of_set(tree, probe->digest, set.stamp, stamp);
	hit = get_from_memtables(tree, &set, key, probe, &fold);
	tree->memtable_rate += ((hit ? 256 : 0) - tree->memtable_rate) / 16;
	if (hit)
		lsm_count(tree, LSM_COUNT_MEMTABLE_HITS, 1);
	else
	{
		get_from_files(&files, &fold);
		lsm_probe_counts_add(tree, &files.counts);
	}
	found = lsm_fold_end(&fold);
	tree->nfolded = fold.nelements;
	LSM_DOUBT(true, doubt_get(&set, &files, &fold));
	lsm_tree_exit(tree);
	return found;
}
