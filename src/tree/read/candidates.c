/*-------------------------------------------------------------------------
 *
 * candidates.c
 *	  One digest per key, and where it is asked: in the digest indexes of the
 *	  memtables, in the filter of each run's file that may have the key, and in
 *	  each unit of an elastic one.
 *
 * All who look for a key, or for keys that begin alike, come here: lookups,
 * point cursors, uniqueness, lists of keys, walks within leading columns.  They
 * come with a probe, which has the digest, and what they have in common is this:
 *
 *	1. lsm_probe_begin: the key is hashed, once.
 *	2. lsm_probe_prefetch_memtables: what the memtables will be asked is fetched.
 *	3. lsm_candidates_find: fences leave a file or so of each run; what its
 *	   filter will be asked is fetched, and its block if lookups mostly find
 *	   their key in it.
 *	4. The memtables are asked.
 *	5. lsm_candidates_next: the filters are asked, newest first.  A file that is
 *	   not ruled out goes to the caller, who looks into it, and comes again if
 *	   that was not all.
 *
 * So the waits for memory of the steps 2 and 3 overlap, for one key and, with
 * lsm_tree_multi_lookup(), for many.  The order is from the project's own
 * measurements.
 *
 * Runs inside one epoch, lock-free.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/memtable/memtable.h"
#include "tree/read/candidates.h"
#include "tree/read/elastic_probe.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

/* From this hit_rate on blocks are fetched before the filter is asked */
#define LIKELY_HIT	80

StaticAssertDecl(LSM_CANDIDATE_RUNS <= 32, "runs have a bit each in a probe");

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

/* ---- 1. the digest ---- */

static inline void
begin_probe(LsmProbe *probe, LsmDigest digest)
{
	probe->digest = digest;
	probe->shared = lsm_hash_sharing;
	probe->asked = false;
	probe->filters_version = 0;
}

void
lsm_probe_begin_hashed(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key, LsmDigest digest)
{
	Assert(digest == lsm_digest_key(filter_key.data, filter_key.len));
	probe->filter_key = filter_key;
	begin_probe(probe, digest);
	lsm_count(tree, LSM_COUNT_LOOKUPS, 1);
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
lsm_probe_take_digest(LsmTree *tree, LsmProbe *probe)
{
	LsmProbeCounts counts = {0};
	LsmDigest	digest = lsm_probe_digest(probe, &counts);

	if (counts.digests > 0)
	{
		lsm_count(tree, LSM_COUNT_DIGESTS, counts.digests);
		probe->asked = true;
	}
	return digest;
}

void
lsm_probe_begin_group(LsmTree *tree, LsmProbe *probes, int n)
{
	for (int i = 0; i < n; i++)
		begin_probe(&probes[i], lsm_digest_key(probes[i].filter_key.data,
											   probes[i].filter_key.len));
	lsm_count(tree, LSM_COUNT_LOOKUPS, n);
	if (lsm_hash_sharing)
		lsm_count(tree, LSM_COUNT_DIGESTS, n);
}

/* ---- 2. and 4. memtables ---- */

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

/* Does a key of some memtable have the digest? */
static inline bool
memtables_know(LsmTree *tree, const LsmMemtableSet *set, const LsmProbe *probe)
{
	LsmDigest	digest = lsm_memtable_digest(tree, probe->filter_key, probe->digest);

	for (int i = 0; i < set->n; i++)
	{
		if (lsm_memtable_has_digest(set->tables[i], digest, probe->filter_key))
			return true;
	}
	return false;
}

/* ---- 3. fences, and what filters will be asked ---- */

/* Can the file's filter tell of such keys? */
static inline bool
filter_knows(const LsmCandidates *files, const LsmOpenFile *open)
{
	return open->has_filter &&
		(likely(files->columns == 0) ||
		 (open->filter.leading == files->columns &&
		  (open->elastic == NULL || lsm_elastic_leads(&open->elastic->shape))));
}

static inline void
prefetch(LsmCandidates *files, const LsmOpenFile *open)
{
	const LsmProbe *probe = files->probe;

	if (!filter_knows(files, open))
		 /* it is read */ ;
	else if (likely(open->elastic == NULL))
		lsm_filter_prefetch(&open->filter, probe->digest);
	else if (files->columns > 0)
		lsm_elastic_prefetch_leading(&open->elastic->shape, probe->digest);
	else
	{
		lsm_elastic_prefetch_segment(probe, open);
		files->elastic = true;
	}

	/* the filter will probably say yes: do not wait for it */
	if (open->hit_rate >= LIKELY_HIT && files->columns == 0)
		lsm_sst_prefetch(open->reader, probe->filter_key.data, probe->filter_key.len);
}

/*
 * The files of a run that fences leave, from the one returned to before *end.  More
 * than one has a key only if a cut fence leaves it open; but many may have keys
 * that begin with it.
 */
static pg_attribute_always_inline int
find_files(const LsmRun *run, const LsmKeyWords *words, bool whole_key, int *end)
{
	int			at;

	if (!whole_key)
		return lsm_run_find_prefix(run, words, end);
	at = lsm_run_find_exact(run, words);
	*end = at < 0 ? at : at + 1;
	while (*end > 0 && unlikely((run->files[*end - 1].flags & LSM_FILE_LARGEST_CUT) != 0) &&
		   *end < run->nfiles && lsm_file_may_hold(&run->files[*end], words->key))
		(*end)++;
	return at;
}

/* Runs of which lsm_tree_multi_lookup() has not found that they have nothing */
static inline uint32
runs_left(const LsmProbe *probe, const LsmVersion *version)
{
	return lsm_probe_has_answers(probe, version) ? probe->maybe_runs | probe->unprobed_runs :
		~UINT32_C(0);
}

static pg_attribute_always_inline void
find(LsmCandidates *files, bool whole_key)
{
	const LsmVersion *version = files->version;
	LsmKeyWords words = lsm_key_words(files->key);
	uint32		left = runs_left(files->probe, version);
	LsmCandidate *candidate = files->found;
	LsmCandidate *full = files->found + LSM_CANDIDATE_RUNS;
	int			i = files->next_run;

	for (; i < version->nruns && candidate < full; i++)
	{
		LsmRun	   *run = &version->runs[i];
		int			at;
		int			end;

		if (unlikely(((left >> (i % 32)) & 1) == 0))
			continue;
		at = find_files(run, &words, whole_key, &end);
		if (at == end)
			continue;
		candidate->file = run->files + at;
		candidate->end = run->files + end;
		candidate->run = i;
		prefetch(files, lsm_file_open(files->tree, candidate->file));
		candidate++;
	}
	files->next_run = i;
	files->next = 0;
	files->n = candidate - files->found;
}

void
lsm_candidates_find(LsmCandidates *files)
{
	if (lsm_filter_key_bytes(files->tree->kind, files->key.len) == files->probe->filter_key.len)
		find(files, true);
	else
		find(files, false);
}

/* ---- 5. filters ---- */

/* Does the filter, if it can tell, admit what the probe is for? */
static pg_attribute_always_inline bool
ask_filter(LsmCandidates *files, LsmOpenFile *open)
{
	const LsmProbe *probe = files->probe;
	LsmProbeCounts *counts = &files->counts;
	LsmDigest	digest;
	bool		maybe;

	if (!filter_knows(files, open))
		return true;
	counts->probes++;
	if (unlikely(open->elastic != NULL))
		maybe = files->columns > 0 ? lsm_elastic_ask_leading(files->tree, probe, open, counts) :
			lsm_elastic_ask(files->tree, probe, open, counts);
	else
	{
		digest = lsm_probe_digest(probe, counts);
		if (unlikely(open->paged))
			maybe = lsm_file_probe_page(files->tree, open, digest);
		else
			maybe = lsm_filter_probe(&open->filter, digest);
		/* what cannot be read says "maybe", to most filters */
		if ((maybe || unlikely(open->ones_say_no)) && !open->paged &&
			lsm_file_filter_faulted(files->tree, open))
			return true;
	}
	if (maybe && !LSM_LIE("filter"))
		return true;
	counts->negatives++;
	lsm_file_counts(open)->negatives++;
	lsm_probe_learn(open, false);
	return false;
}

/* What is reached through what the first prefetch has brought. */
static pg_noinline void
prefetch_units(LsmCandidates *files)
{
	for (int i = files->next; i < files->n; i++)
	{
		LsmOpenFile *open = lsm_file_open(files->tree, files->found[i].file);

		if (open->elastic != NULL)
			lsm_elastic_prefetch_unit(files->probe, open);
	}
	files->elastic = false;
}

/* Has lsm_tree_multi_lookup() found that the run's filter does not object? */
static inline bool
admitted(const LsmCandidates *files, int run)
{
	return lsm_probe_has_answers(files->probe, files->version) &&
		((files->probe->maybe_runs >> run) & 1) != 0;
}

LsmOpenFile *
lsm_candidates_next(LsmCandidates *files)
{
	for (;; files->next++)
	{
		LsmCandidate *candidate;

		if (files->next == files->n)
		{
			if (files->next_run < files->version->nruns)
				lsm_candidates_find(files);
			if (files->next == files->n)
				return NULL;
		}
		if (unlikely(files->elastic))
			prefetch_units(files);
		candidate = &files->found[files->next];
		while (candidate->file < candidate->end)
		{
			LsmOpenFile *open = lsm_file_open(files->tree, candidate->file++);

			if (files->fences_only || admitted(files, candidate->run) || ask_filter(files, open))
				return open;
		}
	}
}

int
lsm_candidates_end_run(LsmCandidates *files)
{
	LsmCandidate *candidate = &files->found[files->next];

	while (candidate->file < candidate->end &&
		   !ask_filter(files, lsm_file_open(files->tree, candidate->end - 1)))
		candidate->end--;
	candidate->file = candidate->end;
	return lsm_candidates_at(files);
}

/* ======================================================================
 * Nothing is there
 * ====================================================================== */

bool
lsm_definitely_absent_in(const LsmMemtableSet *set, LsmCandidates *files)
{
	bool		absent = !memtables_know(files->tree, set, files->probe) &&
		lsm_candidates_next(files) == NULL;

	/* else a cursor asks, and counts */
	if (absent)
		lsm_probe_counts_add(files->tree, &files->counts);
	LSM_DOUBT(absent, lsm_opinion_absent(files->tree, set, files->version, files->probe,
										 "lsm_definitely_absent_in()"));
	return absent;
}

bool
lsm_tree_definitely_absent(LsmTree *tree, const LsmProbe *probe)
{
	LsmMemtableSet set;
	LsmCandidates files;
	LsmVersion *version = lsm_version_enter(tree, &set);
	bool		absent;

	lsm_filecache_begin();
	lsm_candidates_begin(&files, tree, version, probe, probe->filter_key);
	absent = lsm_definitely_absent_in(&set, &files);
	lsm_tree_exit(tree);
	return absent;
}

/* ======================================================================
 * Many keys at once
 * ====================================================================== */

/* The keys of a group, and which file of each run they are to be asked of */
typedef struct KeyGroup
{
	LsmTree    *tree;
	LsmVersion *version;
	LsmProbe   *probes;
	int			n;
	LsmDigest	digests[LSM_GROUP_KEYS];
	int			at[LSM_CANDIDATE_RUNS][LSM_GROUP_KEYS];
	LsmProbeCounts counts;
} KeyGroup;

StaticAssertDecl(LSM_GROUP_KEYS <= LSM_FILTER_GROUP, "keys have a bit each in an answer");

/* The filter of a file is asked for keys first .. end - 1, which learn what it says. */
static void
ask_for_keys(KeyGroup *group, LsmOpenFile *open, uint32 bit, int first, int end)
{
	LsmProbe   *probes = group->probes;
	uint32		maybe;
	int			negatives;

	/* without sharing every filter but a key's first has its digest computed anew */
	for (int i = first; i < end && unlikely(!probes[i].shared); i++)
	{
		if (probes[i].asked)
			group->digests[i] = lsm_digest_key(probes[i].filter_key.data,
											   probes[i].filter_key.len);
		probes[i].asked = true;
		group->counts.digests++;
	}
	maybe = lsm_filter_probe_group(&open->filter, group->digests + first, end - first);
	if ((maybe != 0 || unlikely(open->ones_say_no)) &&
		lsm_file_filter_faulted(group->tree, open))
		maybe = PG_UINT32_MAX >> (32 - (end - first));
	negatives = end - first - pg_popcount32(maybe);
	group->counts.probes += end - first;
	group->counts.negatives += negatives;
	lsm_file_counts(open)->negatives += negatives;
	for (; negatives > 0 && open->hit_rate >= 16; negatives--)
		lsm_probe_learn(open, false);
	for (; maybe != 0; maybe &= maybe - 1)
	{
		LsmProbe   *probe = &probes[first + pg_rightmost_one_pos32(maybe)];

		probe->maybe_runs |= bit;
		lsm_sst_prefetch(open->reader, probe->filter_key.data, probe->filter_key.len);
	}
}

/*
 * What all filters of a run will be asked is fetched, or they are asked.  A
 * key's entries may be in two files; an elastic filter counts who asks, a paged
 * one reads: these wait for the lookup.
 */
static void
ask_run(KeyGroup *group, int run, bool ask)
{
	const int  *at = group->at[run];
	uint32		bit = UINT32_C(1) << run;
	int			end;

	for (int i = 0; i < group->n; i = end)
	{
		LsmOpenFile *open = NULL;

		for (end = i + 1; end < group->n && at[end] == at[i];)
			end++;
		if (at[i] == LSM_NO_FILE)
			continue;
		if (at[i] >= 0)
			open = lsm_file_open(group->tree, &group->version->runs[run].files[at[i]]);
		if (open != NULL && open->has_filter && open->elastic == NULL && !open->paged)
		{
			if (ask)
				ask_for_keys(group, open, bit, i, end);
			else
				lsm_filter_prefetch_group(&open->filter, group->digests + i, end - i);
			continue;
		}
		for (int key = i; key < end; key++)
			group->probes[key].unprobed_runs |= bit;
	}
}

/* All runs: probes learn what is asked, and what is not. */
static void
ask_files(KeyGroup *group)
{
	const LsmVersion *version = group->version;
	LsmKeyWords words[LSM_GROUP_KEYS];

	memset(&group->counts, 0, sizeof(group->counts));
	for (int i = 0; i < group->n; i++)
	{
		LsmProbe   *probe = &group->probes[i];

		words[i] = lsm_key_words(probe->filter_key);
		group->digests[i] = probe->digest;
		probe->maybe_runs = probe->unprobed_runs = 0;
	}
	for (int run = 0; run < version->nruns; run++)
	{
		lsm_run_find_group(&version->runs[run], words, group->n, group->at[run]);
		ask_run(group, run, false);
	}
	for (int run = 0; run < version->nruns; run++)
		ask_run(group, run, true);
	/* not before all have been asked: of those that an error left out nothing is known */
	for (int i = 0; i < group->n; i++)
		group->probes[i].filters_version = version->serial;
	lsm_probe_counts_add(group->tree, &group->counts);
}

int
lsm_tree_multi_lookup(LsmTree *tree, LsmProbe *probes, int n, bool *absent)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	KeyGroup	group;
	int			nabsent = 0;

	Assert(n > 0 && n <= LSM_GROUP_KEYS);
	lsm_filecache_begin();
	if (version->nruns > LSM_CANDIDATE_RUNS)
	{
		lsm_tree_exit(tree);
		memset(absent, 0, n * sizeof(bool));
		return 0;				/* they are looked up one by one */
	}
	for (int i = 0; i < n; i++)
		lsm_probe_prefetch_memtables(tree, &set, &probes[i]);
	group.tree = tree;
	group.version = version;
	group.probes = probes;
	group.n = n;
	ask_files(&group);
	for (int i = 0; i < n; i++)
	{
		absent[i] = (probes[i].maybe_runs | probes[i].unprobed_runs) == 0 &&
			!memtables_know(tree, &set, &probes[i]);
		nabsent += absent[i];
		LSM_DOUBT(absent[i], lsm_opinion_absent(tree, &set, version, &probes[i],
												"lsm_tree_multi_lookup()"));
	}
	lsm_tree_exit(tree);
	return nabsent;
}
