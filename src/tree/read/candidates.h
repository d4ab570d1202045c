/*-------------------------------------------------------------------------
 *
 * candidates.h
 *	  The files that may have what a probe asks for (candidates.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CANDIDATES_H
#define LSM_CANDIDATES_H

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

/* elastic_probe.c: for files with an elastic filter */
extern bool lsm_elastic_ask(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
							LsmProbeCounts *counts);
extern bool lsm_elastic_ask_leading(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
									LsmProbeCounts *counts);
extern void lsm_elastic_note(const LsmOpenFile *open);
extern void lsm_elastic_prefetch_segment(const LsmProbe *probe, const LsmOpenFile *open);
extern void lsm_elastic_prefetch_unit(const LsmProbe *probe, const LsmOpenFile *open);

/* Runs whose fences are looked at together */
#define LSM_CANDIDATE_RUNS	32

/* The files of a run that fences leave */
typedef struct LsmCandidate
{
	LsmFile    *file;			/* the next to be asked */
	LsmFile    *end;			/* behind the last one */
	int			run;			/* of the version's */
} LsmCandidate;

typedef struct LsmCandidates
{
	LsmTree    *tree;
	LsmVersion *version;
	const LsmProbe *probe;
	LsmSlice	key;			/* what is asked for, or what all of it begins with */
	uint32		columns;		/* how many leading columns; 0: the filter key, or a key */
	bool		fences_only;	/* filters have been asked before */
	bool		elastic;		/* a filter has something to be fetched once more */
	int			next_run;		/* whose fences are to be looked at */
	int			n;
	int			next;			/* to be asked */
	LsmProbeCounts counts;
	LsmCandidate found[LSM_CANDIDATE_RUNS]; /* newest first */
} LsmCandidates;

/*
 * The version and what `probe` points to must last as long as candidates are
 * asked for; REQUIRES: inside the epoch in which the version was taken.
 */
static inline void
lsm_candidates_begin(LsmCandidates *files, LsmTree *tree, LsmVersion *version,
					 const LsmProbe *probe, LsmSlice key)
{
	files->tree = tree;
	files->version = version;
	files->probe = probe;
	files->key = key;
	files->columns = 0;
	files->fences_only = false;
	files->next_run = files->n = files->next = 0;
	files->elastic = false;
	memset(&files->counts, 0, sizeof(files->counts));
}

/*
 * For a caller that has something else to do before the first of them: look at
 * the fences, and fetch what will be asked.
 */
extern void lsm_candidates_find(LsmCandidates *files);

/* The next file that may have something, newest first; NULL: no other one. */
extern LsmOpenFile *lsm_candidates_next(LsmCandidates *files);

/* Where that one is: its run, and its number there. */
static inline const LsmRun *
lsm_candidates_run(const LsmCandidates *files)
{
	return &files->version->runs[files->found[files->next].run];
}

static inline int
lsm_candidates_at(const LsmCandidates *files)
{
	return files->found[files->next].file - lsm_candidates_run(files)->files - 1;
}

/*
 * The number of the last file of the same run that may have something; what lies
 * between the two has nothing else, and does not come any more.
 */
extern int	lsm_candidates_end_run(LsmCandidates *files);

/* hit_rate is a moving average, of 256: did a lookup find its key in the file? */
static inline void
lsm_probe_learn(LsmOpenFile *open, bool found)
{
	open->hit_rate += ((found ? 256 : 0) - open->hit_rate) / 16;
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

/* Fetch what memtables will be asked with the probe's digest. */
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

/*
 * lsm_tree_definitely_absent() for a caller that is inside the epoch, has taken
 * set and version, and has begun `files` with the probe's filter key, or found them.
 */
extern bool lsm_definitely_absent_in(const LsmMemtableSet *set, LsmCandidates *files);

#endif							/* LSM_CANDIDATES_H */
