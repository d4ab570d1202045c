/*-------------------------------------------------------------------------
 *
 * lookup.c
 *	  Point lookups: one digest, asked of the memtables' digest indexes and of
 *	  the filters of every run's candidate file.
 *
 * Runs inside one epoch, lock-free.  The order of the steps (all candidates by
 * their fences, prefetch of their filter lines, then the probes) is from the
 * project's own measurements.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "tree/control/control.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"
#include "tree/read/filecache.h"
#include "tree/read/lookup.h"
#include "tree/read/merge.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

/* In place of the number of candidate files (lsm_tree_get_until) */
#define UNKNOWN		(-2)		/* candidates not looked for yet */
#define SIFTED		(-3)		/* the probe has the filters' answers */

/*
 * Ask the memtables before looking for candidate files if at least this many
 * of 256 lookups found their key in memtables (memtable_rate)
 */
#define MEMTABLES_FIRST	96

void
lsm_probe_counts_add(LsmTree *tree, const LsmProbeCounts *counts)
{
	/* what lsm_tree_multi_lookup() has asked has outcomes only */
	if ((counts->probes | counts->true_positives | counts->false_positives) == 0)
		return;
	if (counts->probes > 0)
		lsm_count(tree, LSM_COUNT_FILTER_PROBES, counts->probes);
	if (counts->digests > 0)
		lsm_count(tree, LSM_COUNT_DIGESTS, counts->digests);
	if (counts->negatives > 0)
		lsm_count(tree, LSM_COUNT_FILTER_NEGATIVES, counts->negatives);
	if (counts->true_positives > 0)
		lsm_count(tree, LSM_COUNT_FILTER_TRUE_POSITIVES, counts->true_positives);
	if (counts->false_positives > 0)
		lsm_count(tree, LSM_COUNT_FILTER_FALSE_POSITIVES, counts->false_positives);
	if (counts->unit_probes > 0)
		lsm_count(tree, LSM_COUNT_UNIT_PROBES, counts->unit_probes);
}

void
lsm_probe_begin_hashed(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key, LsmDigest digest)
{
	Assert(digest == lsm_digest_key(filter_key.data, filter_key.len));
	lsm_count(tree, LSM_COUNT_LOOKUPS, 1);
	probe->filter_key = filter_key;
	probe->shared = lsm_hash_sharing;
	probe->asked = false;
	probe->filters_version = 0;
	probe->digest = digest;
	if (probe->shared)
		lsm_count(tree, LSM_COUNT_DIGESTS, 1);
}

void
lsm_probe_begin(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key)
{
	lsm_probe_begin_hashed(tree, probe, filter_key,
						   lsm_digest_key(filter_key.data, filter_key.len));
}

LsmDigest
lsm_probe_first_digest(LsmTree *tree, LsmProbe *probe)
{
	if (!probe->shared)
	{
		lsm_count(tree, LSM_COUNT_DIGESTS, 1);
		probe->asked = true;
	}
	return probe->digest;
}

void
lsm_tree_prefetch(LsmTree *tree, LsmSlice filter_key, LsmDigest digest)
{
	LsmMemtableSet set;

	lsm_tree_enter(tree);
	lsm_set_take(tree->ctl, &set);
	digest = lsm_memtable_digest(tree, filter_key, digest);
	for (int i = 0; i < set.n; i++)
	{
		if (i == 0 || lsm_memtable_may_hold(set.tables[i], filter_key))
			lsm_memtable_prefetch(set.tables[i], digest);
	}
	lsm_tree_exit(tree);
}

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

/*
 * Memtables have something that is not complete.  Is it, where those are left out
 * that are in files, too?
 */
static pg_noinline bool
get_from_unflushed(const LsmTree *tree, const LsmMemtableSet *set, const LsmVersion *version,
				   LsmSlice key, const LsmProbe *probe, LsmFold *fold)
{
	LsmMemtableSet unflushed = *set;

	if (!lsm_set_leave_flushed(&unflushed, version))
		return false;
	lsm_fold_again(fold);
	return get_from_memtables(tree, &unflushed, key, probe, fold);
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
seek_key(LsmTree *tree, const LsmProbe *probe, LsmSstIter *iter, LsmSlice key, bool *holds)
{
	LsmSlice	first = probe->filter_key;
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
get_from_file(LsmTree *tree, LsmOpenFile *open, LsmSlice key,
			  const LsmProbe *probe, LsmFold *fold, LsmProbeCounts *counts)
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
	if (seek_key(tree, probe, iter, key, &holds))
	{
		size_t		len;
		const void *data = lsm_sst_iter_value(iter, &len);

		complete = lsm_fold_add(fold, lsm_slice(data, (uint32) len));
	}
	lsm_probe_outcome(open, holds, counts);
	lsm_file_count_blocks(tree, open);
	return complete;
}

/* Probe what was gathered, newest first. */
static bool
get_from_candidates(LsmTree *tree, LsmOpenFile **candidates, int n,
					LsmSlice key, const LsmProbe *probe, LsmFold *fold,
					LsmProbeCounts *counts)
{
	for (int i = 0; i < n; i++)
		lsm_probe_prefetch_more(probe, candidates[i]);
	for (int i = 0; i < n; i++)
	{
		if (lsm_probe_filter(tree, probe, candidates[i], counts) &&
			get_from_file(tree, candidates[i], key, probe, fold, counts))
			return true;
	}
	return false;
}

/*
 * The files that may hold the key, newest first, their filters prefetched.
 * Returns their number, or -1 if they are too many.
 */
static int
find_candidates(LsmTree *tree, LsmVersion *version, LsmSlice key,
				const LsmProbe *probe, LsmOpenFile **candidates)
{
	LsmKeyWords words = lsm_key_words(key);
	int			n = 0;

	for (int i = 0; i < version->nruns; i++)
	{
		LsmRun	   *run = &version->runs[i];
		int			at = lsm_run_find_exact(run, &words);

		/* more than one file of a run only if a cut fence leaves it open */
		while (at >= 0)
		{
			LsmFile    *file = &run->files[at];

			if (n == LSM_PROBE_FILES)
				return -1;
			candidates[n] = lsm_file_open(tree, file);
			lsm_probe_prefetch(probe, candidates[n++]);
			if (!(file->flags & LSM_FILE_LARGEST_CUT) ||
				++at == run->nfiles ||
				!lsm_file_may_hold(&run->files[at], key))
				break;
		}
	}
	return n;
}

/* The same without a limit to their number, one run after the other. */
static void
get_from_runs(LsmTree *tree, LsmVersion *version, LsmSlice key,
			  const LsmProbe *probe, LsmFold *fold, LsmProbeCounts *counts)
{
	for (int i = 0; i < version->nruns; i++)
	{
		LsmRun	   *run = &version->runs[i];

		for (int at = lsm_run_find(run, key);
			 at < run->nfiles && lsm_file_may_hold(&run->files[at], key); at++)
		{
			LsmOpenFile *open = lsm_file_open(tree, &run->files[at]);

			if (get_from_candidates(tree, &open, 1, key, probe, fold, counts))
				return;
		}
	}
}

/*
 * For a probe with answers of lsm_tree_multi_lookup() about this version: look
 * into the runs whose filters said maybe, and first ask the filters of those
 * runs that lsm_tree_multi_lookup() could not ask.
 */
static void
get_from_answers(LsmTree *tree, LsmVersion *version, LsmSlice key,
				const LsmProbe *probe, LsmFold *fold, LsmProbeCounts *counts)
{
	for (uint32 left = probe->maybe_runs | probe->unprobed_runs; left != 0; left &= left - 1)
	{
		int			i = pg_rightmost_one_pos32(left);
		LsmRun	   *run = &version->runs[i];
		bool		admitted = (probe->maybe_runs >> i) & 1;

		for (int at = lsm_run_find(run, key);
			 at < run->nfiles && lsm_file_may_hold(&run->files[at], key); at++)
		{
			LsmOpenFile *open = lsm_file_open(tree, &run->files[at]);

			if ((admitted || lsm_probe_filter(tree, probe, open, counts)) &&
				get_from_file(tree, open, key, probe, fold, counts))
				return;
		}
	}
}

/* False: too many. */
static bool
find_prefix_files(LsmVersion *version, LsmSlice filter_key, LsmFile **files, int *n)
{
	LsmKeyWords words = lsm_key_words(filter_key);

	*n = 0;
	for (int i = 0; i < version->nruns; i++)
	{
		LsmRun	   *run = &version->runs[i];
		int			end;

		for (int at = lsm_run_find_prefix(run, &words, &end); at < end; at++)
		{
			if (*n == LSM_PROBE_FILES)
				return false;
			files[(*n)++] = &run->files[at];
		}
	}
	return true;
}

void
lsm_absent_prefetch(LsmTree *tree, LsmVersion *version, const LsmProbe *probe,
					LsmProbeFiles *files)
{
	if (!find_prefix_files(version, probe->filter_key, files->files, &files->n))
	{
		files->n = -1;
		return;
	}
	lsm_filecache_begin();
	for (int i = 0; i < files->n; i++)
		lsm_probe_prefetch(probe, lsm_file_open(tree, files->files[i]));
}

/*
 * Do the filters of all files that may hold the filter key say no?  `known`:
 * from lsm_absent_prefetch(), or NULL.
 */
static bool
absent_in_files(LsmTree *tree, LsmVersion *version, const LsmProbe *probe,
				const LsmProbeFiles *known, LsmProbeCounts *counts)
{
	LsmFile    *found[LSM_PROBE_FILES];
	LsmFile    *const *files = found;
	int			n;

	if (known != NULL && known->n < 0)
		return false;
	lsm_filecache_begin();
	if (known != NULL)
	{
		files = known->files;
		n = known->n;
	}
	else
	{
		if (!find_prefix_files(version, probe->filter_key, found, &n))
			return false;
		for (int i = 0; i < n; i++)
			lsm_probe_prefetch(probe, lsm_file_open(tree, files[i]));
	}
	for (int i = 0; i < n; i++)
	{
		if (lsm_probe_filter(tree, probe, lsm_file_open(tree, files[i]), counts))
			return false;
	}
	return true;
}

/*
 * lsm_tree_definitely_absent() for a caller that is inside the epoch and has
 * taken set and version.
 */
bool
lsm_definitely_absent_in(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
			  const LsmProbe *probe, const LsmProbeFiles *files)
{
	LsmDigest	digest = lsm_memtable_digest(tree, probe->filter_key, probe->digest);
	LsmProbeCounts counts = {0};
	bool		absent = true;

	for (int i = 0; i < set->n && absent; i++)
		absent = !lsm_memtable_has_digest(set->tables[i], digest, probe->filter_key);
	if (absent)
		absent = absent_in_files(tree, version, probe, files, &counts);
	if (absent)
		lsm_probe_counts_add(tree, &counts);
	LSM_DOUBT(absent, lsm_opinion_absent(tree, set, version, probe, "lsm_definitely_absent_in()"));
	return absent;
}

bool
lsm_tree_definitely_absent(LsmTree *tree, const LsmProbe *probe)
{
	LsmMemtableSet set;
	LsmVersion *version;
	bool		absent;

	version = lsm_version_enter(tree, &set);
	absent = lsm_definitely_absent_in(tree, &set, version, probe, NULL);
	lsm_tree_exit(tree);
	return absent;
}

#ifdef USE_ASSERT_CHECKING
typedef struct GetAgain
{
	LsmTree    *tree;
	const LsmMemtableSet *set;
	LsmVersion *version;
	LsmSlice	key;
	const LsmProbe *probe;
} GetAgain;

/* LsmOpinionAgain: as lsm_tree_get_until(), for whatever number of files */
static void
get_again(void *arg, LsmFold *fold)
{
	GetAgain   *get = (GetAgain *) arg;
	LsmProbeCounts counts = {0};

	lsm_filecache_begin();
	if (get_from_memtables(get->tree, get->set, get->key, get->probe, fold) ||
		(fold->tag != 0 && get_from_unflushed(get->tree, get->set, get->version, get->key,
											  get->probe, fold)))
		return;
	if (lsm_probe_has_answers(get->probe, get->version))
		get_from_answers(get->tree, get->version, get->key, get->probe, fold, &counts);
	else
		get_from_runs(get->tree, get->version, get->key, get->probe, fold, &counts);
}

static void
doubt_get(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version, LsmSlice key,
		  const LsmProbe *probe, const LsmFold *fold)
{
	GetAgain	again = {tree, set, version, key, probe};

	lsm_opinion_value(tree, set, version, key, fold, get_again, &again, "lsm_tree_get()");
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
	LsmOpenFile *candidates[LSM_PROBE_FILES];
	LsmProbeCounts counts = {0};
	LsmFold		fold;
	int			n = UNKNOWN;
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
	if (lsm_probe_has_answers(probe, version))
		n = SIFTED;
	else if (tree->memtable_rate < MEMTABLES_FIRST)
	{
		lsm_probe_prefetch_memtables(tree, &set, probe);
		n = find_candidates(tree, version, key, probe, candidates);
	}
	if (stamp != NULL)
		lsm_stamp_of_set(tree, probe->digest, set.stamp, stamp);
	hit = get_from_memtables(tree, &set, key, probe, &fold) ||
		(unlikely(fold.tag != 0) &&
		 get_from_unflushed(tree, &set, version, key, probe, &fold));
	tree->memtable_rate += ((hit ? 256 : 0) - tree->memtable_rate) / 16;
	if (hit)
		lsm_count(tree, LSM_COUNT_MEMTABLE_HITS, 1);
	else
	{
		if (n == UNKNOWN)
			n = find_candidates(tree, version, key, probe, candidates);
		if (n == SIFTED)
			get_from_answers(tree, version, key, probe, &fold, &counts);
		else if (n >= 0)
			(void) get_from_candidates(tree, candidates, n, key, probe, &fold, &counts);
		else
			get_from_runs(tree, version, key, probe, &fold, &counts);
		lsm_probe_counts_add(tree, &counts);
	}
	found = lsm_fold_end(&fold);
	tree->nfolded = fold.nelements;
	LSM_DOUBT(true, doubt_get(tree, &set, version, key, probe, &fold));
	lsm_tree_exit(tree);
	return found;
}
