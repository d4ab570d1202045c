/*-------------------------------------------------------------------------
 *
 * lookup.h
 *	  Asking filters: shared by point lookups (lookup.c) and point cursors
 *	  (cursor.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LOOKUP_H
#define LSM_LOOKUP_H

#include "tree/control/crash_point.h"
#include "tree/read/filecache.h"

/* Counted locally and added once per call. */
typedef struct LsmProbeCounts
{
	uint32		probes;
	uint32		negatives;
	uint32		true_positives;
	uint32		false_positives;
	uint32		unit_probes;
	uint32		digests;		/* of lookups that do not share theirs */
} LsmProbeCounts;

extern void lsm_probe_counts_add(LsmTree *tree, const LsmProbeCounts *counts);

/*
 * The digest to ask a filter (or a unit of one) with.  Without sharing, every
 * filter but the first has it computed anew, and that is the only difference:
 * what sharing saves can be measured.
 */
static inline LsmDigest
lsm_probe_digest(const LsmProbe *probe, LsmProbeCounts *counts)
{
	if (likely(probe->shared) || (counts->digests++ == 0 && !probe->asked))
		return probe->digest;
	return lsm_digest_key(probe->filter_key.data, probe->filter_key.len);
}

/* Is this what lsm_tree_multi_lookup() has asked? */
static inline bool
lsm_probe_has_answers(const LsmProbe *probe, const LsmVersion *version)
{
	return unlikely(probe->filters_version == version->serial);
}

/* elastic_probe.c: as the functions below, for files with an elastic filter. */
extern bool lsm_elastic_ask(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
							LsmProbeCounts *counts);
extern bool lsm_elastic_ask_leading(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
									LsmProbeCounts *counts);
extern void lsm_elastic_note(const LsmOpenFile *open);
extern void lsm_elastic_prefetch_segment(const LsmProbe *probe, const LsmOpenFile *open);
extern void lsm_elastic_prefetch_unit(const LsmProbe *probe, const LsmOpenFile *open);

/*
 * hit_rate is a moving average, of 256; from here on blocks are fetched early
 */
#define LSM_LIKELY_HIT	80

/* Did a lookup find its key in this file, one of its candidates? */
static inline void
lsm_probe_learn(LsmOpenFile *open, bool found)
{
	open->hit_rate += ((found ? 256 : 0) - open->hit_rate) / 16;
}

/* Does the file's filter (if it has one that can tell) admit the key? */
static inline bool
lsm_probe_filter(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
				 LsmProbeCounts *counts)
{
	LsmDigest	digest;
	bool		maybe;

	if (!open->has_filter)
		return true;
	counts->probes++;
	if (open->elastic != NULL)
	{
		if (lsm_elastic_ask(tree, probe, open, counts))
			return true;
		counts->negatives++;
		lsm_file_counts(open)->negatives++;
		lsm_probe_learn(open, false);
		return false;
	}
	digest = lsm_probe_digest(probe, counts);
	if (unlikely(open->paged))
		maybe = lsm_file_probe_page(tree, open, digest);
	else
		maybe = lsm_filter_probe(&open->filter, digest);
	if (unlikely(open->ones_say_no) && lsm_file_filter_faulted(tree, open))
		return true;
	if (maybe && !LSM_LIE("filter"))
		return true;
	counts->negatives++;
	lsm_file_counts(open)->negatives++;
	lsm_probe_learn(open, false);
	return false;
}

/*
 * The file was read after its filter, if it has one, had said yes.  Reads
 * without a filter are counted by file only: as they tell what a filter would
 * gain.
 */
static inline void
lsm_probe_count_outcome(LsmOpenFile *open, bool found, LsmProbeCounts *counts)
{
	lsm_probe_learn(open, found);
	if (found)
		lsm_file_counts(open)->true_positives++;
	else
		lsm_file_counts(open)->false_positives++;
	if (!open->has_filter)
		return;
	if (found)
		counts->true_positives++;
	else
		counts->false_positives++;
}

/* The same of a key: elastic filters learn from it which segments are hot. */
static inline void
lsm_probe_outcome(LsmOpenFile *open, bool found, LsmProbeCounts *counts)
{
	lsm_probe_count_outcome(open, found, counts);
	if (!found && open->has_filter && open->elastic != NULL)
		lsm_elastic_note(open);
}

static inline void
lsm_probe_prefetch_memtables(LsmTree *tree, const LsmMemtableSet *set, const LsmProbe *probe)
{
	LsmDigest	digest = lsm_memtable_digest(tree, probe->filter_key, probe->digest);

	for (int i = 0; i < set->n; i++)
	{
		if (lsm_memtable_may_hold(set->tables[i], probe->filter_key))
			lsm_memtable_prefetch(set->tables[i], digest);
	}
}

static inline void
lsm_probe_prefetch(const LsmProbe *probe, const LsmOpenFile *open)
{
	if (open->elastic != NULL)
		lsm_elastic_prefetch_segment(probe, open);
	else if (open->has_filter)
		lsm_filter_prefetch(&open->filter, probe->digest);

	/* the filter will probably say yes: do not wait for it */
	if (open->hit_rate >= LSM_LIKELY_HIT)
		lsm_sst_prefetch(open->reader, probe->filter_key.data, probe->filter_key.len);
}

/*
 * Once more, when all filters were prefetched: what is reached through what
 * the first call has fetched.
 */
static inline void
lsm_probe_prefetch_more(const LsmProbe *probe, const LsmOpenFile *open)
{
	if (open->elastic != NULL)
		lsm_elastic_prefetch_unit(probe, open);
}

#define LSM_PROBE_FILES	32		/* looked at together */

/* The files that may hold a probe's filter key; n < 0: too many */
typedef struct LsmProbeFiles
{
	int			n;
	LsmFile    *files[LSM_PROBE_FILES];
} LsmProbeFiles;

/*
 * Find them, and fetch what their filters will be asked.  They are good until
 * the epoch ends.
 */
extern void lsm_absent_prefetch(LsmTree *tree, LsmVersion *version, const LsmProbe *probe,
								LsmProbeFiles *files);

/* `files`: as announced, or NULL */
extern bool lsm_definitely_absent_in(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
						  const LsmProbe *probe, const LsmProbeFiles *files);

#endif							/* LSM_LOOKUP_H */
