/*-------------------------------------------------------------------------
 *
 * multi_lookup.c
 *	  Point lookups of many keys at once: which of them no memtable and no
 *	  filter knows, and what the filters have said of the others.
 *
 * Runs inside one epoch, lock-free.  What a lookup of an absent key waits for,
 * lines of filters, is fetched for all keys of the group before the first one
 * is looked at; a file's filter is asked for all of its keys in a row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "tree/control/control.h"
#include "tree/memtable/memtable.h"
#include "tree/read/filecache.h"
#include "tree/read/lookup.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

#define SIFT_RUNS	32			/* with more, keys are looked up one by one */

StaticAssertDecl(LSM_GROUP_KEYS <= LSM_FILTER_GROUP && LSM_GROUP_KEYS <= 32, "keys have a bit each");

/*
 * The keys of a group whose filter in one run is to be asked; those of a file
 * lie side by side.
 */
typedef struct RunGroup
{
	int			n;
	LsmOpenFile *files[LSM_GROUP_KEYS];
	LsmDigest	digests[LSM_GROUP_KEYS];
	uint8		keys[LSM_GROUP_KEYS];
} RunGroup;

void
lsm_probe_begin_group(LsmTree *tree, LsmProbe *probes, int n)
{
	for (int i = 0; i < n; i++)
	{
		LsmProbe   *probe = &probes[i];

		probe->shared = lsm_hash_sharing;
		probe->asked = false;
		probe->filters_version = 0;
		probe->digest = lsm_digest_key(probe->filter_key.data, probe->filter_key.len);
	}
	lsm_count(tree, LSM_COUNT_LOOKUPS, n);
	if (lsm_hash_sharing)
		lsm_count(tree, LSM_COUNT_DIGESTS, n);
}

/* End of the keys from `first` on that have the same file. */
static inline int
same_file(const RunGroup *group, int first)
{
	int			end = first + 1;

	while (end < group->n && group->files[end] == group->files[first])
		end++;
	return end;
}

/*
 * All keys' files in one run, and their filters' lines are prefetched.  A
 * key's entries may be in two files; an elastic filter counts who asks, a
 * paged one reads: these wait for the lookup.
 */
static void
gather_run(LsmTree *tree, LsmRun *run, uint32 bit, const LsmKeyWords *words,
		   LsmProbe *probes, int n, RunGroup *group)
{
	int			at[LSM_GROUP_KEYS];
	int			last = LSM_NO_FILE;
	LsmOpenFile *open = NULL;
	bool		can_ask = false;

	group->n = 0;
	lsm_run_find_group(run, words, n, at);
	for (int i = 0; i < n; i++)
	{
		if (at[i] == LSM_NO_FILE)
			continue;
		if (at[i] >= 0 && at[i] != last)
		{
			last = at[i];
			open = lsm_file_open(tree, &run->files[last]);
			can_ask = open->has_filter && open->elastic == NULL && !open->paged;
		}
		if (at[i] < 0 || !can_ask)
		{
			probes[i].unprobed_runs |= bit;
			continue;
		}
		group->files[group->n] = open;
		group->digests[group->n] = probes[i].digest;
		group->keys[group->n++] = (uint8) i;
	}
	for (int i = 0; i < group->n;)
	{
		int			end = same_file(group, i);

		lsm_filter_prefetch_group(&group->files[i]->filter, group->digests + i, end - i);
		i = end;
	}
}

/*
 * Without sharing every filter but a key's first has the digest computed anew.
 */
static void
digest_anew(const LsmProbe *probes, RunGroup *group)
{
	for (int i = 0; i < group->n; i++)
	{
		const LsmProbe *probe = &probes[group->keys[i]];

		if (probe->asked)
			group->digests[i] = lsm_digest_key(probe->filter_key.data, probe->filter_key.len);
	}
}

/* Ask a file for the keys first .. end - 1 of its run. */
static void
ask_file(LsmTree *tree, LsmProbe *probes, uint32 bit, const RunGroup *group, int first, int end,
		 LsmProbeCounts *counts)
{
	LsmOpenFile *open = group->files[first];
	uint32		n = end - first;
	uint32		maybe = 0;
	uint32		negatives;

	if (likely(open->has_filter))
		maybe = lsm_filter_probe_group(&open->filter, group->digests + first, n);
	if (unlikely(open->ones_say_no) &&
		(!open->has_filter || lsm_file_filter_faulted(tree, open)))
	{
		for (int i = first; i < end; i++)
			probes[group->keys[i]].unprobed_runs |= bit;
		return;
	}
	negatives = n - pg_popcount32(maybe);
	counts->probes += n;
	counts->negatives += negatives;
	lsm_file_counts(open)->negatives += negatives;
	for (; negatives > 0 && open->hit_rate >= 16; negatives--)
		lsm_probe_learn(open, false);
	for (; maybe != 0; maybe &= maybe - 1)
	{
		LsmProbe   *probe = &probes[group->keys[first + pg_rightmost_one_pos32(maybe)]];

		probe->maybe_runs |= bit;
		lsm_sst_prefetch(open->reader, probe->filter_key.data, probe->filter_key.len);
	}
}

static void
ask_run(LsmTree *tree, LsmProbe *probes, uint32 bit, RunGroup *group, LsmProbeCounts *counts)
{
	if (unlikely(!probes[0].shared))
	{
		digest_anew(probes, group);
		counts->digests += group->n;
	}
	for (int i = 0; i < group->n;)
	{
		int			end = same_file(group, i);

		ask_file(tree, probes, bit, group, i, end, counts);
		i = end;
	}
	for (int i = 0; i < group->n; i++)
		probes[group->keys[i]].asked = true;
}

static void
prefetch_memtables(LsmTree *tree, const LsmMemtableSet *set, const LsmProbe *probes, int n)
{
	for (int i = 0; set->n > 0 && i < n; i++)
		lsm_probe_prefetch_memtables(tree, set, &probes[i]);
}

/* Bit i: some key in a memtable has the digest of probes[i]. */
static uint32
ask_memtables(LsmTree *tree, const LsmMemtableSet *set, const LsmProbe *probes, int n)
{
	uint32		known = 0;

	for (int t = 0; t < set->n; t++)
	{
		for (int i = 0; i < n; i++)
		{
			LsmSlice	key = probes[i].filter_key;
			LsmDigest	digest = lsm_memtable_digest(tree, key, probes[i].digest);

			if (lsm_memtable_has_digest(set->tables[t], digest, key))
				known |= UINT32_C(1) << i;
		}
	}
	return known;
}

/* All runs: probes learn what is asked, and what is not. */
static void
ask_files(LsmTree *tree, LsmVersion *version, LsmProbe *probes, int n)
{
	LsmKeyWords words[LSM_GROUP_KEYS];
	RunGroup	groups[SIFT_RUNS];
	LsmProbeCounts counts = {0};

	for (int i = 0; i < n; i++)
	{
		words[i] = lsm_key_words(probes[i].filter_key);
		probes[i].maybe_runs = probes[i].unprobed_runs = 0;
	}
	for (int i = 0; i < version->nruns; i++)
		gather_run(tree, &version->runs[i], UINT32_C(1) << i, words, probes, n, &groups[i]);
	for (int i = 0; i < version->nruns; i++)
		ask_run(tree, probes, UINT32_C(1) << i, &groups[i], &counts);
	for (int i = 0; i < n; i++)
		probes[i].filters_version = version->serial;
	lsm_probe_counts_add(tree, &counts);
}

int
lsm_tree_multi_lookup(LsmTree *tree, LsmProbe *probes, int n, bool *absent)
{
	LsmMemtableSet set;
	LsmVersion *version;
	uint32		known;
	int			nabsent = 0;

	Assert(n > 0 && n <= LSM_GROUP_KEYS);
	version = lsm_version_enter(tree, &set);
	lsm_filecache_begin();
	if (version->nruns > SIFT_RUNS)
	{
		lsm_tree_exit(tree);
		memset(absent, 0, n * sizeof(bool));
		return 0;
	}
	prefetch_memtables(tree, &set, probes, n);
	ask_files(tree, version, probes, n);
	known = ask_memtables(tree, &set, probes, n);
	for (int i = 0; i < n; i++)
	{
		absent[i] = (probes[i].maybe_runs | probes[i].unprobed_runs) == 0 && ((known >> i) & 1) == 0;
		nabsent += absent[i];
		LSM_DOUBT(absent[i], lsm_opinion_absent(tree, &set, version, &probes[i],
												"lsm_tree_multi_lookup()"));
	}
	lsm_tree_exit(tree);
	return nabsent;
}
