/*-------------------------------------------------------------------------
 *
 * find_test.c
 *	  src/tree/read/find.c: which files of a run may hold a key, against brute
 *	  force.  TAP output.
 *
 * A run is made of keys that are cut into files; their fences are cut as jobs
 * cut them.  Each function is asked about keys that are there, parts of them,
 * and keys near them.  What it says must be what the whole fences say, file by
 * file, without words; and no file that has such a key may be left out.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "postgres.h"

#undef printf
#undef vprintf
#undef sprintf
#undef qsort
#include "tap.h"
#include "assertion.h"

#include "utils/memutils.h"

#undef ereport
#define ereport(level, ...) abort()
#undef CurrentMemoryContext
#define CurrentMemoryContext NULL
#define MemoryContextAllocHuge(context, bytes) malloc(bytes)
#include "tree/read/find.c"

#define MAX_KEYS	20000
#define MAX_BYTES	LSM_MAX_KEY_BYTES

static uint64_t state;

static LsmSlice keys[MAX_KEYS];
static int	file_of[MAX_KEYS];
static int	nkeys;
static LsmRun run;
static LsmVersion version;

/* what differs between runs */
typedef struct Shape
{
	int			shared;			/* bytes that all keys begin with */
	int			tail;			/* most bytes of a key behind them */
	int			symbols;		/* values of a byte: 0, 255 and some between */
	int			nkeys;
	int			per_file;		/* most keys of a file */
} Shape;

static uint32
below(uint32 n)
{
	return (uint32) (random_next(&state) % n);
}

static char
symbol(int symbols)
{
	int			s = below(symbols);

	return s == 0 ? 0 : s == 1 ? (char) 0xFF : (char) (0x60 + s);
}

static LsmSlice
make_key(const Shape *shape, int length)
{
	char	   *data = alloc_or_die(length);

	/* the shared bytes are no pattern that a shift would not move */
	for (int i = 0; i < length; i++)
		data[i] = i < shape->shared ? (char) (i * 7 + 1) : symbol(shape->symbols);
	return lsm_slice(data, length);
}

static int
compare_keys(const void *a, const void *b)
{
	return lsm_slice_compare(*(const LsmSlice *) a, *(const LsmSlice *) b);
}

static void
drop_run(void)
{
	for (int i = 0; i < run.nfiles; i++)
	{
		free(unconstify(char *, run.files[i].smallest.data));
		free(unconstify(char *, run.files[i].largest.data));
	}
	free(run.files);
	free(run.smallest_words);
	free(run.largest_words);
	for (int i = 0; i < nkeys; i++)
		free(unconstify(char *, keys[i].data));
}

/* As set_fence() of output_job.c; of the exact size, for sanitizers. */
static LsmSlice
fence(LsmSlice key, uint16 *flags, uint16 cut)
{
	uint32		bytes = Min(key.len, LSM_FENCE_BYTES);
	char	   *data = alloc_or_die(bytes);

	memcpy(data, key.data, bytes);
	if (key.len > LSM_FENCE_BYTES)
		*flags |= cut;
	return lsm_slice(data, bytes);
}

static void
make_run(const Shape *shape)
{
	int			n = 0;

	for (int i = 0; i < shape->nkeys; i++)
		keys[i] = make_key(shape, shape->shared + below(shape->tail + 1));
	qsort(keys, shape->nkeys, sizeof(LsmSlice), compare_keys);
	for (int i = 0; i < shape->nkeys; i++)
	{
		if (n == 0 || lsm_slice_compare(keys[n - 1], keys[i]) < 0)
			keys[n++] = keys[i];
		else
			free(unconstify(char *, keys[i].data));
	}
	nkeys = n;
	memset(&run, 0, sizeof(run));
	run.files = alloc_or_die(nkeys * sizeof(LsmFile));
	for (int i = 0; i < nkeys;)
	{
		int			n_here = 1 + below(shape->per_file);
		int			end = Min(nkeys, i + n_here);
		LsmFile    *file = &run.files[run.nfiles];

		memset(file, 0, sizeof(LsmFile));
		file->smallest = fence(keys[i], &file->flags, LSM_FILE_SMALLEST_CUT);
		file->largest = fence(keys[end - 1], &file->flags, LSM_FILE_LARGEST_CUT);
		while (i < end)
			file_of[i++] = run.nfiles;
		run.nfiles++;
	}
	lsm_run_arrange(&run);
	version.nruns = 1;
	version.runs = &run;
}

/* ---- what whole fences say ---- */

/* The file's last key, if cut, is greater than all that the fence shows. */
static bool
ends_before(const LsmFile *file, LsmSlice key)
{
	bool		cut = (file->flags & LSM_FILE_LARGEST_CUT) != 0;

	if (cut && key.len >= file->largest.len &&
		memcmp(key.data, file->largest.data, file->largest.len) == 0)
		return false;
	return lsm_slice_compare(file->largest, key) < 0;
}

static bool
begins_behind(const LsmFile *file, LsmSlice key)
{
	return lsm_slice_compare(file->smallest, key) > 0;
}

static bool
begins_behind_prefix(const LsmFile *file, LsmSlice key)
{
	return begins_behind(file, key) &&
		!(file->smallest.len >= key.len &&
		  memcmp(file->smallest.data, key.data, key.len) == 0);
}

static bool
may_begin_with(const LsmFile *file, LsmSlice key)
{
	return !ends_before(file, key) && !begins_behind_prefix(file, key);
}

static bool
starts_with(LsmSlice key, LsmSlice prefix)
{
	return key.len >= prefix.len && memcmp(key.data, prefix.data, prefix.len) == 0;
}

/* ---- one question to all functions ---- */

static long nasked;
static long nwrong;

static void
expect(bool good, const char *what, LsmSlice key)
{
	nasked++;
	if (good)
		return;
	if (nwrong++ < 10)
	{
		printf("# %s: %d files, prefix of %u bytes, a key of %u bytes:", what, run.nfiles,
			   run.prefix_bytes, key.len);
		for (uint32 i = 0; i < Min(key.len, 300); i++)
			printf(" %02x", (unsigned char) key.data[i]);
		printf("\n");
	}
}

/* What lsm_run_find_group() says of a key that these files may have. */
static int
group_answer(int first, int end)
{
	return first == end ? LSM_NO_FILE : first + 1 == end ? first : LSM_SEVERAL_FILES;
}

static void
ask(LsmSlice key)
{
	LsmKeyWords words = lsm_key_words(key);
	int			first = 0;
	int			last = run.nfiles - 1;
	int			first_prefix;
	int			end_prefix;
	int			exact;
	int			at;
	int			end;
	int			group;

	while (first < run.nfiles && ends_before(&run.files[first], key))
		first++;
	while (last >= 0 && begins_behind(&run.files[last], key))
		last--;
	exact = first < run.nfiles && !begins_behind(&run.files[first], key) ? first : -1;
	first_prefix = end_prefix = first;
	while (end_prefix < run.nfiles && may_begin_with(&run.files[end_prefix], key))
		end_prefix++;

	expect(lsm_run_find(&run, key) == first, "lsm_run_find", key);
	expect(lsm_run_find_last(&run, key) == last, "lsm_run_find_last", key);
	expect(lsm_run_find_exact(&run, &words) == exact, "lsm_run_find_exact", key);
	at = lsm_run_find_prefix(&run, &words, &end);
	expect(at == first_prefix && end == end_prefix, "lsm_run_find_prefix", key);
	lsm_run_find_group(&run, &words, 1, &group);
	expect(group == group_answer(first_prefix, end_prefix), "lsm_run_find_group of one", key);
	for (at = Max(first - 1, 0); at < Min(first + 3, run.nfiles); at++)
		expect(lsm_run_beyond_prefix(&run, at, key) == begins_behind_prefix(&run.files[at], key),
			   "lsm_run_beyond_prefix", key);
}

/* Groups go from the file of one key to that of the next. */
static void
ask_group(const LsmSlice *group, int n)
{
	LsmKeyWords words[32];
	int			at[32];

	Assert(n <= 32);
	for (int i = 0; i < n; i++)
		words[i] = lsm_key_words(group[i]);
	lsm_run_find_group(&run, words, n, at);
	for (int i = 0; i < n; i++)
	{
		int			first = 0;
		int			end;

		while (first < run.nfiles && ends_before(&run.files[first], group[i]))
			first++;
		for (end = first; end < run.nfiles && may_begin_with(&run.files[end], group[i]);)
			end++;
		expect(at[i] == group_answer(first, end), "lsm_run_find_group", group[i]);
	}
}

/* No file that has a key which begins with it is left out. */
static void
ask_for_present(int i, uint32 prefix_bytes)
{
	LsmSlice	prefix = lsm_slice(keys[i].data, prefix_bytes);
	LsmKeyWords words = lsm_key_words(prefix);
	int			file = file_of[i];
	int			end;
	int			at = lsm_run_find_prefix(&run, &words, &end);
	int			group;

	expect(starts_with(keys[i], prefix), "the test", prefix);
	expect(at <= file && file < end, "lsm_run_find_prefix loses", prefix);
	lsm_run_find_group(&run, &words, 1, &group);
	expect(group == file || group == LSM_SEVERAL_FILES, "lsm_run_find_group loses", prefix);
	expect(lsm_run_find(&run, prefix) <= file, "lsm_run_find loses", prefix);
	expect(!lsm_run_beyond_prefix(&run, file, prefix), "lsm_run_beyond_prefix loses", prefix);
	expect(lsm_version_may_hold_between(&version, prefix, prefix),
		   "lsm_version_may_hold_between loses", prefix);
	if (prefix_bytes == keys[i].len)
	{
		expect(lsm_run_find_last(&run, prefix) >= file, "lsm_run_find_last loses", prefix);
		at = lsm_run_find_exact(&run, &words);
		expect(at >= 0 && at <= file, "lsm_run_find_exact loses", prefix);
		for (; at >= 0 && at < file; at++)
			expect(lsm_file_may_hold(&run.files[at], prefix) &&
				   (run.files[at].flags & LSM_FILE_LARGEST_CUT) != 0,
				   "the way to the file of a key", prefix);
		expect(lsm_file_may_hold(&run.files[file], prefix), "lsm_file_may_hold loses", prefix);
	}
}

static void
ask_between(LsmSlice a, LsmSlice b)
{
	uint32		len = Min(a.len, b.len);
	LsmSlice	low = lsm_slice(a.data, len);
	LsmSlice	high = lsm_slice(b.data, len);
	bool		may = false;

	if (lsm_slice_compare(low, high) > 0)
	{
		low = lsm_slice(b.data, len);
		high = lsm_slice(a.data, len);
	}
	for (int i = 0; i < run.nfiles && !may; i++)
		may = !ends_before(&run.files[i], low) && !begins_behind_prefix(&run.files[i], high);
	expect(lsm_version_may_hold_between(&version, low, high) == may,
		   "lsm_version_may_hold_between", low);
}

/* A key that is there, a part of it, more than it, or with another byte */
static LsmSlice
near_key(const Shape *shape)
{
	LsmSlice	from = keys[below(nkeys)];
	uint32		room = Min(from.len + 12, MAX_BYTES);
	char	   *data = alloc_or_die(room);
	uint32		len = from.len;

	memcpy(data, from.data, from.len);
	if (below(3) == 0)
		len = below(len + 1);
	if (below(3) == 0)
	{
		uint32		more = below(room - len + 1);

		for (uint32 i = 0; i < Min(more, 12); i++)
			data[len++] = symbol(shape->symbols);
	}
	if (len > 0 && below(3) == 0)
		data[len - 1 - below(Min(len, 16))] = symbol(shape->symbols);
	if (len > 0 && below(20) == 0)
		data[below(len)] = symbol(shape->symbols);
	return lsm_slice(data, len);
}

static void
ask_much(const Shape *shape, int n)
{
	LsmSlice	group[32];
	int			ngroup = 0;

	ask(lsm_slice("", 0));
	for (int i = 0; i < n; i++)
	{
		int			present = below(nkeys);
		LsmSlice	key = below(3) == 0 ?
			make_key(shape, below(shape->shared + shape->tail + 1)) : near_key(shape);

		ask_for_present(present, keys[present].len);
		ask_for_present(present, below(keys[present].len + 1));
		ask_for_present(present, keys[present].len - Min(keys[present].len, 6));
		ask(key);
		ask(keys[present]);
		ask_between(key, keys[present]);
		group[ngroup++] = key;
		if (ngroup == 32)
		{
			if (below(2) == 0)
				qsort(group, ngroup, sizeof(LsmSlice), compare_keys);
			ask_group(group, ngroup);
			while (ngroup > 0)
				free(unconstify(char *, group[--ngroup].data));
		}
	}
	while (ngroup > 0)
		free(unconstify(char *, group[--ngroup].data));
}

static void
test_shape(const char *what, Shape shape, int runs, int questions)
{
	nasked = nwrong = 0;
	for (int i = 0; i < runs; i++)
	{
		make_run(&shape);
		ask_much(&shape, questions);
		drop_run();
	}
	ok(nwrong == 0 && nasked > 0, "%s, %d bytes shared: %ld of %ld answers wrong", what,
	   shape.shared, nwrong, nasked);
}

/* Words against bytes */
static void
test_words(void)
{
	bool		good = true;

	for (int i = 0; i < 20000; i++)
	{
		uint32		len = below(12);
		uint8		padding = below(2) == 0 ? 0 : 0xFF;
		char	   *data = alloc_or_die(len);
		uint64		word = 0;

		for (uint32 j = 0; j < len; j++)
			data[j] = (char) below(256);
		for (uint32 j = 0; j < 8; j++)
			word = word << 8 | (j < len ? (uint8) data[j] : padding);
		good = good && lsm_word(data, len, padding) == word;
		free(data);
	}
	ok(good, "the word of 0 to 11 bytes, padded");
}

int
main(void)
{
	const char *seed = getenv("LSM_SEED");
	int			factor = SHORT_FORM ? 1 : 8;

	state = seed != NULL ? strtoull(seed, NULL, 10) : 20261128;
	printf("# LSM_SEED=%llu\n", (unsigned long long) state);
	test_words();
	test_shape("short keys", (Shape) {0, 9, 3, 60, 4}, 40 * factor, 100);
	test_shape("all bytes alike or not", (Shape) {0, 20, 2, 60, 4}, 40 * factor, 100);
	for (int shared = 1; shared <= 17; shared++)
		test_shape("short prefix", (Shape) {shared, 12, 4, 60, 4}, 5 * factor, 100);
	for (int shared = 236; shared <= 260; shared++)
		test_shape("prefix as long as a fence", (Shape) {shared, 12, 3, 60, 4}, 20 * factor, 100);
	test_shape("fences cut anywhere", (Shape) {250, 400, 3, 60, 4}, 10 * factor, 100);
	test_shape("largest keys", (Shape) {300, MAX_BYTES - 300, 2, 20, 4}, 2, 100);
	test_shape("one file", (Shape) {3, 9, 4, 20, 100}, 20 * factor, 100);
	test_shape("one file, cut", (Shape) {252, 9, 4, 20, 100}, 20 * factor, 100);
	test_shape("one key", (Shape) {2, 12, 4, 1, 1}, 40 * factor, 20);
	test_shape("thousands of files", (Shape) {5, 9, 20, 15000, 4}, 1, 300);
	test_shape("thousands of files, cut", (Shape) {250, 20, 8, 15000, 4}, 1, 300);
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
