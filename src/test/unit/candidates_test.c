/*-------------------------------------------------------------------------
 *
 * candidates_test.c
 *	  src/tree/read/candidates.c: which files and memtables may have a key, against
 *	  a look at all of them.  Random trees of few and of many runs, with long keys
 *	  whose fences are cut; one key, a whole key, many at once, leading columns.
 *	  TAP output.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "tree_harness.h"

#define NVALUES			12
#define LONG_BYTES		(LSM_FENCE_BYTES + 20)

static LsmMemtableSet set;
static LsmVersion *version;
static bool with_files;			/* some probe has met each of these */
static bool with_cut_fences;
static bool with_many_runs;
static bool with_absent;

static uint32
below(uint32 n)
{
	return (uint32) ((random_next() >> 11) % n);
}

/* ---- trees ---- */

/* A filter key: one leading byte, some keys are longer than a fence. */
static LsmSlice
make_filter_key(int leading, int value)
{
	static char keys[64][LONG_BYTES + 8];
	static int	nth = 0;
	char	   *key = keys[nth++ % lengthof(keys)];
	uint32		n = 0;

	key[n++] = (char) ('a' + leading);
	if (leading % 2 == 1)
	{
		memset(key + n, 'x', LONG_BYTES);
		n += LONG_BYTES;
	}
	key[n++] = (char) value;
	return lsm_slice(key, n);
}

static LsmSlice
random_filter_key(void)
{
	return make_filter_key(below(6), below(NVALUES));
}

static LsmSlice
with_tid(LsmSlice filter_key, int tid)
{
	static char key[LONG_BYTES + 16];

	memcpy(key, filter_key.data, filter_key.len);
	memset(key + filter_key.len, 0, LSM_TID_BYTES);
	key[filter_key.len + LSM_TID_BYTES - 1] = (char) tid;
	return lsm_slice(key, filter_key.len + LSM_TID_BYTES);
}

static void
make_tree(int nruns)
{
	init_tree(LSM_KIND_INDEX);
	for (int run = 0; run < nruns; run++)
	{
		for (int n = 1 + below(run % 5 == 0 ? 60 : 6); n > 0; n--)
			write_value(with_tid(random_filter_key(), below(4)), lsm_slice("\001", 1));
		(void) seal();
		(void) flush(1 + below(8));
	}
	for (int memtables = below(3); memtables > 0; memtables--)
	{
		for (int n = below(5); n > 0; n--)
			write_value(with_tid(random_filter_key(), below(4)), lsm_slice("\001", 1));
		(void) seal();
	}
}

/* Has the file, or a memtable, a key that begins with this one? */
static bool
file_has(const LsmFile *file, LsmSlice prefix)
{
	const LsmSstReader *reader = files[file->number];

	for (int i = 0; i < reader->nentries; i++)
	{
		if (lsm_slice_has_prefix(reader->entries[i].key, prefix))
			return true;
	}
	return false;
}

static bool
anything_has(LsmSlice prefix)
{
	for (int i = 0; i < version->nfiles; i++)
	{
		if (file_has(lsm_version_file(version, i), prefix))
			return true;
	}
	for (int i = 0; i < set.n; i++)
	{
		for (LsmMemNode *node = lsm_memtable_first(set.tables[i]); node != NULL;
			 node = lsm_memtable_next(set.tables[i], node))
		{
			if (lsm_slice_has_prefix(lsm_memnode_key(node), prefix))
				return true;
		}
	}
	return false;
}

/* ---- one probe ---- */

/*
 * What lsm_candidates_next() returns is in order, newest run first, and what it
 * passes over has nothing.  Returns how many there were.
 */
static int
walk(LsmCandidates *candidates)
{
	LsmOpenFile *open;
	int			n = 0;
	int			run = 0;
	int			at = 0;			/* not passed yet */

	do
	{
		int			next_run = version->nruns;
		int			next_at = 0;

		open = lsm_candidates_next(candidates);
		if (open != NULL)
		{
			next_run = lsm_candidates_run(candidates) - version->runs;
			next_at = lsm_candidates_at(candidates);
			expect(open->number == version->runs[next_run].files[next_at].number, "which file it is");
			n++;
		}
		expect(next_run > run || (next_run == run && next_at >= at), "the order of files");
		for (; run < next_run; run++, at = 0)
		{
			for (; at < version->runs[run].nfiles; at++)
				expect(!file_has(&version->runs[run].files[at], candidates->key), "a file is missed");
		}
		for (; at < next_at; at++)
			expect(!file_has(&version->runs[run].files[at], candidates->key), "a file is missed");
		at++;
	} while (open != NULL);
	return n;
}

static void
check_key(LsmSlice filter_key, bool whole, bool announced)
{
	LsmSlice	key = whole ? with_tid(filter_key, below(4)) : filter_key;
	LsmCandidates candidates;
	LsmProbe	probe;
	int			n;

	lsm_probe_begin(&tree, &probe, filter_key);
	lsm_candidates_begin(&candidates, &tree, version, &probe, key);
	if (announced)
		lsm_candidates_find(&candidates);
	n = walk(&candidates);
	with_files |= n > 1;
	expect(candidates.counts.probes - candidates.counts.negatives <= n, "counts of filters");

	/* whatever filters say, fences leave as many or more */
	lsm_candidates_begin(&candidates, &tree, version, &probe, key);
	candidates.fences_only = true;
	expect(walk(&candidates) >= n, "fences leave fewer files than filters");
	expect(candidates.counts.probes == 0, "a filter was asked again");
}

static void
check_absent(LsmSlice filter_key)
{
	LsmCandidates candidates;
	LsmProbe	probe;

	lsm_probe_begin(&tree, &probe, filter_key);
	lsm_candidates_begin(&candidates, &tree, version, &probe, filter_key);
	if (!lsm_definitely_absent_in(&set, &candidates))
		return;
	with_absent = true;
	expect(!anything_has(filter_key), "a key is not absent");
}

/* Of each run that has something, the files from the first to the last that have. */
static void
check_leading(LsmSlice leading)
{
	LsmCandidates candidates;
	LsmProbe	probe;
	int			run = 0;

	lsm_probe_begin(&tree, &probe, leading);
	lsm_candidates_begin(&candidates, &tree, version, &probe, leading);
	candidates.columns = 1;
	while (lsm_candidates_next(&candidates) != NULL)
	{
		const LsmRun *found = lsm_candidates_run(&candidates);
		int			first = lsm_candidates_at(&candidates);
		int			last = lsm_candidates_end_run(&candidates);

		expect(found - version->runs >= run, "a run comes twice");
		expect(first <= last && last < found->nfiles, "files of a run");
		for (; run <= found - version->runs; run++)
		{
			const LsmRun *each = &version->runs[run];

			for (int at = 0; at < each->nfiles; at++)
				expect((each == found && first <= at && at <= last) ||
					   !file_has(&each->files[at], leading), "a file with a leading part is missed");
		}
	}
	for (; run < version->nruns; run++)
	{
		for (int at = 0; at < version->runs[run].nfiles; at++)
			expect(!file_has(&version->runs[run].files[at], leading),
				   "a run with a leading part is missed");
	}
}

/* ---- many probes ---- */

static void
check_group(void)
{
	LsmProbe	probes[LSM_GROUP_KEYS];
	bool		absent[LSM_GROUP_KEYS];
	int			n = 0;
	int			nabsent = 0;
	int			said;

	/* in order, as the caller has them */
	for (int i = 0; i < 6 * NVALUES && n < LSM_GROUP_KEYS; i++)
	{
		if (below(3) > 0)
			probes[n++].filter_key = make_filter_key(i / NVALUES, i % NVALUES);
	}
	lsm_probe_begin_group(&tree, probes, n);
	lsm_tree_exit(&tree);
	said = lsm_tree_multi_lookup(&tree, probes, n, absent);
	expect(lsm_version_enter(&tree, &set) == version, "the version stays");
	for (int i = 0; i < n; i++)
	{
		LsmCandidates candidates;
		int			passed;

		nabsent += absent[i];
		if (absent[i])
			expect(!anything_has(probes[i].filter_key), "a key of a group is not absent");

		/* later, what filters have said is not asked again */
		lsm_candidates_begin(&candidates, &tree, version, &probes[i], probes[i].filter_key);
		passed = walk(&candidates);
		if (!lsm_probe_has_answers(&probes[i], version))
			expect(version->nruns > LSM_CANDIDATE_RUNS && !absent[i], "a group has no answers");
		else
			expect(passed == 0 || !absent[i], "an absent key has candidates");
		if (lsm_probe_has_answers(&probes[i], version) && probes[i].unprobed_runs == 0)
			expect(candidates.counts.probes == 0, "a filter was asked after its group");
	}
	expect(said == nabsent, "how many of a group are absent");
}

static void
check_tree(int nruns)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "test", ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(context);

	make_tree(nruns);
	version = lsm_version_pin(lsm_version_enter(&tree, &set));
	with_many_runs |= version->nruns > LSM_CANDIDATE_RUNS;
	for (int i = 0; i < version->nfiles; i++)
		with_cut_fences |= (lsm_version_file(version, i)->flags & LSM_FILE_LARGEST_CUT) != 0;
	for (int i = 0; i < 40 && wrong == NULL; i++)
	{
		lsm_filecache_begin();
		check_key(random_filter_key(), i % 2 == 0, i % 4 < 2);
		check_absent(random_filter_key());
		check_leading(lsm_slice(random_filter_key().data, LEADING_BYTES));
	}
	for (int i = 0; i < 5 && wrong == NULL; i++)
		check_group();
	lsm_tree_exit(&tree);
	lsm_version_unpin(version);
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(context);
}

int
main(void)
{
	uint64		seed = test_seed();
	int			rounds = getenv("LSM_UNIT_SHORT") != NULL ? 30 : 200;

	yield_rate = 1000000000;
	random_state = seed;
	for (int i = 0; i < rounds && wrong == NULL; i++)
		check_tree(i % 10 == 9 ? LSM_CANDIDATE_RUNS + below(20) : below(8));
	ok(wrong == NULL, "files that have what is asked for are candidates");
	if (wrong != NULL)
		printf("# %s; LSM_SEED=%llu repeats it\n", wrong, (unsigned long long) seed);
	ok(with_files && with_cut_fences && with_many_runs && with_absent, "there were all kinds of them");
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
