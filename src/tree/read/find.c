/*-------------------------------------------------------------------------
 *
 * find.c
 *	  The files of a run that may hold a key, or keys that begin alike.
 *
 * A fence's word says where the file's first or last key lies, except where
 * the fence is cut before the word ends.  Such a word is a bound from outside
 * only (zeros below the first key, ones above the last): it tells what the file
 * does not have.  That a key lies between the file's first and last key, so
 * that no other file has it, such a word does not tell (words_vague).
 *
 * No lock: a version is private to the process, and does not change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* Is the fence cut where its word behind `prefix_bytes` goes on? */
static inline bool
ends_in_word(LsmSlice fence, bool cut, uint32 prefix_bytes)
{
	return cut && fence.len - prefix_bytes < sizeof(uint64);
}

void
lsm_run_arrange(LsmRun *run)
{
	LsmSlice	first = run->files[0].smallest;
	LsmSlice	last = run->files[run->nfiles - 1].largest;
	Size		bytes = run->nfiles * sizeof(uint64);
	uint32		n = 0;

	/* what the outermost fences share, all keys in between share */
	while (n < first.len && n < last.len && first.data[n] == last.data[n])
		n++;
	run->prefix_bytes = n;
	run->prefix = first.data;
	if (n > 0 && n <= sizeof(uint64))
		run->prefix_word = lsm_word(first.data, n, 0) >> (64 - 8 * n);
	run->smallest_words = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
	run->largest_words = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
	for (int i = 0; i < run->nfiles; i++)
	{
		LsmFile    *file = &run->files[i];
		bool		cut = (file->flags & LSM_FILE_LARGEST_CUT) != 0;

		/*
		 * A fence shorter than the prefix cannot be between the outermost
		 * ones; a damaged list must not make us read beyond it.
		 */
		if (file->smallest.len < n || file->largest.len < n)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("file list of an lsm tree is out of order: file number " UINT64_FORMAT,
							file->number)));
		run->smallest_words[i] = lsm_word(file->smallest.data + n,
										  file->smallest.len - n, 0);
		run->largest_words[i] = lsm_word(file->largest.data + n,
										 file->largest.len - n, cut ? 0xFF : 0);
		run->words_vague |=
			ends_in_word(file->smallest, file->flags & LSM_FILE_SMALLEST_CUT, n) ||
			ends_in_word(file->largest, file->flags & LSM_FILE_LARGEST_CUT, n);
	}
}

/*
 * The key's place relative to the run's common prefix: negative: before all
 * files; positive: after all; 0: *word is the key's integer.
 */
static inline int
run_word(const LsmRun *run, LsmSlice key, uint64 *word)
{
	if (run->prefix_bytes > 0)
	{
		int			c = memcmp(key.data, run->prefix,
							   Min(key.len, run->prefix_bytes));

		if (c != 0)
			return c;
		if (key.len < run->prefix_bytes)
			return -1;
	}
	*word = lsm_word(key.data + run->prefix_bytes, key.len - run->prefix_bytes, 0);
	return 0;
}

/* run_word() of a key whose words are known. */
static inline int
run_word_of(const LsmRun *run, const LsmKeyWords *words, uint64 *word)
{
	uint32		n = run->prefix_bytes;
	uint64		head;

	if (n == 0)
	{
		*word = words->first;
		return 0;
	}
	if (unlikely(n > sizeof(uint64)))
		return run_word(run, words->key, word);
	head = words->first >> (64 - 8 * n);
	if (head != run->prefix_word)
		return head < run->prefix_word ? -1 : 1;
	if (words->key.len < n)
		return -1;
	*word = n == sizeof(uint64) ? words->second :
		(words->first << (8 * n)) | (words->second >> (64 - 8 * n));
	return 0;
}

/*
 * Among files whose fences' integers equal the key's, from `low` on: by the
 * whole fences.
 */
static int
find_among_equal(const LsmRun *run, LsmSlice key, uint64 word, int low)
{
	int			high = run->nfiles;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (run->largest_words[middle] == word &&
			lsm_file_before(&run->files[middle], key))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * As lsm_run_find() for a key that is neither before nor after all, `word` of
 * it.
 */
static inline int
find_by_word(const LsmRun *run, LsmSlice key, uint64 word)
{
	const uint64 *base = run->largest_words;
	int			count = run->nfiles;
	int			low;

	/* first file whose integer is not smaller; no branch to be mispredicted */
	while (count > 1)
	{
		int			half = count / 2;

		base += base[half - 1] < word ? half : 0;
		count -= half;
	}
	low = (int) (base - run->largest_words) + (*base < word ? 1 : 0);
	if (LSM_LIE("fence") && low < run->nfiles)
		return low + 1;
	if (low == run->nfiles || likely(run->largest_words[low] != word))
		return low;
	return find_among_equal(run, key, word, low);
}

int
lsm_run_find(const LsmRun *run, LsmSlice key)
{
	uint64		word = 0;
	int			c = run_word(run, key, &word);

	if (c != 0)
		return c < 0 ? 0 : run->nfiles;
	return find_by_word(run, key, word);
}

/* The greatest integer of a key that begins with this one, whose integer is `word` */
static inline uint64
greatest_word(const LsmRun *run, LsmSlice key, uint64 word)
{
	uint32		bytes = key.len - run->prefix_bytes;

	return bytes >= sizeof(word) ? word : word | ~UINT64CONST(0) >> (8 * bytes);
}

/* lsm_run_beyond_prefix() for a key that is neither before nor after all files. */
static inline bool
beyond_words(const LsmRun *run, int at, LsmSlice key, uint64 word, uint64 greatest)
{
	uint64		smallest = run->smallest_words[at];

	if (likely(smallest < word || smallest > greatest))
		return smallest > greatest;
	return lsm_file_after(&run->files[at], key) &&
		!lsm_slice_has_prefix(run->files[at].smallest, key);
}

bool
lsm_run_beyond_prefix(const LsmRun *run, int at, LsmSlice key)
{
	uint64		word = 0;

	if (run_word(run, key, &word) == 0)
		return beyond_words(run, at, key, word, greatest_word(run, key, word));
	return lsm_file_after(&run->files[at], key) &&
		!lsm_slice_has_prefix(run->files[at].smallest, key);
}

int
lsm_run_find_prefix(const LsmRun *run, const LsmKeyWords *words, int *end)
{
	LsmSlice	key = words->key;
	uint64		word = 0;
	int			c = run_word_of(run, words, &word);
	int			at;

	if (likely(c == 0))
	{
		uint64		greatest = greatest_word(run, key, word);

		at = *end = find_by_word(run, key, word);
		while (*end < run->nfiles && !beyond_words(run, *end, key, word, greatest))
			(*end)++;
		return at;
	}

	/* what all files begin with, begins with the key, or none */
	at = c < 0 ? 0 : run->nfiles;
	*end = c < 0 && lsm_slice_has_prefix(run->files[0].smallest, key) ? run->nfiles : at;
	return at;
}

/*
 * Of a key of a group, if it is in none of the files, or in one of
 * them only.
 */
static int
find_one(const LsmRun *run, const LsmKeyWords *words)
{
	int			end;
	int			at = lsm_run_find_prefix(run, words, &end);

	return at == end ? LSM_NO_FILE : at + 1 == end ? at : LSM_SEVERAL_FILES;
}

/*
 * A key's own bytes stand for a range of integers.  Mostly that range lies
 * between the fences of the file of the key before, or before all files, or
 * behind them; else the search is made.  Between the fences of one file lies
 * what follows its first key and precedes its last one: vague words do not say.
 */
void
lsm_run_find_group(const LsmRun *run, const LsmKeyWords *keys, int n, int *at)
{
	int			last = 0;
	uint64		first_word = run->smallest_words[0];
	uint64		last_word = run->largest_words[run->nfiles - 1];

	for (int i = 0; i < n; i++)
	{
		uint32		len = keys[i].key.len;
		uint64		word = 0;
		uint64		greatest;
		int			c = run_word_of(run, &keys[i], &word);

		if (likely(c == 0))
		{
			greatest = greatest_word(run, keys[i].key, word);
			if (likely((!run->words_vague || LSM_LIE("vague_words")) && run->smallest_words[last] < word &&
					   greatest < run->largest_words[last]))
				at[i] = last;
			else if (greatest < first_word || word > last_word)
				at[i] = LSM_NO_FILE;
			else
			{
				at[i] = find_one(run, &keys[i]);
				if (at[i] >= 0)
					last = at[i];
			}
		}
		else if (len >= run->prefix_bytes)
			at[i] = LSM_NO_FILE;
		else
			at[i] = find_one(run, &keys[i]);
	}
}

bool
lsm_version_may_hold_between(const LsmVersion *version, LsmSlice low, LsmSlice high)
{
	Assert(low.len == high.len);
	for (int i = 0; i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];
		int			at = lsm_run_find(run, low);

		if (at < run->nfiles && !lsm_run_beyond_prefix(run, at, high))
			return true;
	}
	return false;
}

int
lsm_run_find_last(const LsmRun *run, LsmSlice key)
{
	uint64		word = 0;
	int			c = run_word(run, key, &word);
	int			low = 0;
	int			high = run->nfiles;

	if (c < 0)
		return -1;
	if (c > 0)
		return run->nfiles - 1;

	/* number of files whose lower fence is <= key */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (run->smallest_words[middle] < word ||
			(run->smallest_words[middle] == word &&
			 !lsm_file_after(&run->files[middle], key)))
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

int
lsm_run_find_exact(const LsmRun *run, const LsmKeyWords *words)
{
	LsmSlice	key = words->key;
	uint64		word = 0;
	int			at;

	if (run_word_of(run, words, &word) != 0)
		return -1;
	at = find_by_word(run, key, word);
	if (at == run->nfiles || run->smallest_words[at] > word ||
		(run->smallest_words[at] == word && lsm_file_after(&run->files[at], key)))
		return -1;
	return at;
}
