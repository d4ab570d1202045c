/*-------------------------------------------------------------------------
 *
 * version.c
 *	  A backend's copy of the list of sorted files: reading it from the
 *	  manifest, keeping it while ctl->version_no does not change, and finding
 *	  the file of a run that may hold a key.
 *
 * No lock: a version is private to the process.  What makes a lookup safe is
 * the order epoch, memtable set, version_no (lsm_version_enter): the publisher
 * changes version_no before a flushed memtable leaves the set, and unlinks a
 * file only after the epochs that may have seen the old version_no have
 * passed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* The last one given */
static uint64 version_serial = 0;

/* ======================================================================
 * Making a version
 * ====================================================================== */

/* A cut fence stands for a longer key, which comes after the fence itself. */
static int
compare_fences(LsmSlice a, LsmSlice b, uint8 a_flags, uint8 b_flags, uint8 cut)
{
	int			c = lsm_slice_compare(a, b);

	return c != 0 ? c : ((a_flags & cut) != 0) - ((b_flags & cut) != 0);
}

/*
 * Newest data first: level 0 by generation descending, then by level; within a
 * run by fences.  Files whose fences are all equal (and cut) were written by
 * one job, so their numbers are in key order: compaction takes touching
 * files together.
 */
static int
compare_files(const void *a, const void *b)
{
	const LsmFile *x = a;
	const LsmFile *y = b;
	int			c;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->run != y->run)
		return x->run > y->run ? -1 : 1;
	c = compare_fences(x->smallest, y->smallest, x->flags, y->flags,
					   LSM_FILE_SMALLEST_CUT);
	if (c == 0)
		c = compare_fences(x->largest, y->largest, x->flags, y->flags,
						   LSM_FILE_LARGEST_CUT);
	if (c == 0)
		c = (x->number > y->number) - (x->number < y->number);
	return c;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

/* REQUIRES: current context is the version's. */
static void
copy_file(LsmFile *file, const LsmFileMeta *meta)
{
	char	   *fences = palloc(meta->smallest_bytes + meta->largest_bytes + 1);

	if (meta->level >= LSM_MAX_LEVELS ||
		meta->smallest_bytes > LSM_FENCE_BYTES ||
		meta->largest_bytes > LSM_FENCE_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid entry in the file list of an lsm tree: file number " UINT64_FORMAT,
						meta->number)));

	file->number = meta->number;
	file->run = meta->level == 0 ? meta->run : 0;
	file->entries = meta->entries;
	file->file_bytes = meta->file_bytes;
	file->filter_bytes = meta->filter_bytes;
	file->min_xid = meta->min_xid;
	file->level = meta->level;
	file->filter_scheme = meta->filter_scheme;
	file->flags = meta->flags;
	file->sst_check = meta->sst_check;
	file->filter_check = meta->filter_check;
	file->written_as = meta->written_as;
	memcpy(fences, meta->smallest, meta->smallest_bytes);
	memcpy(fences + meta->smallest_bytes, meta->largest, meta->largest_bytes);
	file->smallest = lsm_slice(fences, meta->smallest_bytes);
	file->largest = lsm_slice(fences + meta->smallest_bytes, meta->largest_bytes);
	file->open = NULL;
	file->open_serial = 0;
}

void
lsm_file_meta(const LsmFile *file, LsmFileMeta *meta)
{
	memset(meta, 0, sizeof(LsmFileMeta));
	meta->number = file->number;
	meta->run = file->run;
	meta->entries = file->entries;
	meta->file_bytes = file->file_bytes;
	meta->filter_bytes = file->filter_bytes;
	meta->min_xid = file->min_xid;
	meta->level = file->level;
	meta->filter_scheme = file->filter_scheme;
	meta->flags = file->flags;
	meta->sst_check = file->sst_check;
	meta->filter_check = file->filter_check;
	meta->written_as = file->written_as;
	meta->smallest_bytes = file->smallest.len;
	meta->largest_bytes = file->largest.len;
	memcpy(meta->smallest, file->smallest.data, file->smallest.len);
	memcpy(meta->largest, file->largest.data, file->largest.len);
}

/* The fence arrays of a run.  REQUIRES: current context is the version's. */
static void
arrange_run(LsmRun *run)
{
	LsmSlice	first = run->files[0].smallest;
	LsmSlice	last = run->files[run->nfiles - 1].largest;
	uint32		n = 0;

	/* what the outermost fences share, all keys in between share */
	while (n < first.len && n < last.len && first.data[n] == last.data[n])
		n++;
	run->prefix_bytes = n;
	run->prefix = first.data;
	if (n > 0 && n <= sizeof(uint64))
		run->prefix_word = lsm_word(first.data, n, 0) >> (64 - 8 * n);
	run->smallest_words = palloc(run->nfiles * sizeof(uint64));
	run->largest_words = palloc(run->nfiles * sizeof(uint64));
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
	}
}

/* REQUIRES: current context is the version's. */
static void
arrange_runs(LsmVersion *version)
{
	version->runs = palloc0(Max(version->nfiles, 1) * sizeof(LsmRun));
	for (int i = 0; i < version->nfiles;)
	{
		LsmFile    *file = &version->files[i];
		LsmRun	   *run = &version->runs[version->nruns++];

		run->level = file->level;
		run->run = file->run;
		run->files = file;
		while (i < version->nfiles &&
			   version->files[i].level == run->level &&
			   version->files[i].run == run->run)
		{
			version->level_files[run->level]++;
			version->level_bytes[run->level] += version->files[i].file_bytes;
			run->nfiles++;
			i++;
		}
		arrange_run(run);
		if (run->level == 0)
			version->level0_runs++;
		else
			version->levels[run->level] = run;
		version->deepest = run->level;
	}
}

static LsmVersion *
read_version(LsmTree *tree)
{
	MemoryContext cxt;
	MemoryContext old;
	LsmVersion *version;
	LsmFileMeta *metas;
	int			nfiles;
	uint64		version_no;
	bool		lenient = lsm_ignore_missing_files;
	bool		salvaged;

	metas = lsm_manifest_read(tree, &nfiles, &version_no);
	salvaged = lenient && lsm_salvage_list(tree, &metas, &nfiles);

	/* below the current context until it is complete */
	cxt = AllocSetContextCreate(CurrentMemoryContext, "lsm version",
								ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(cxt);
	version = palloc0(sizeof(LsmVersion));
	version->cxt = cxt;
	version->serial = ++version_serial;
	version->refcount = 1;
	version->keyspace_id = tree->keyspace_id;
	version->version_no = version_no;
	version->lenient = lenient;
	version->salvaged = salvaged;
	version->deepest = -1;
	version->nfiles = nfiles;
	version->files = palloc(Max(nfiles, 1) * sizeof(LsmFile));
	version->numbers = palloc(Max(nfiles, 1) * sizeof(uint64));
	for (int i = 0; i < nfiles; i++)
	{
		copy_file(&version->files[i], &metas[i]);
		version->numbers[i] = metas[i].number;
	}
	qsort(version->files, nfiles, sizeof(LsmFile), compare_files);
	qsort(version->numbers, nfiles, sizeof(uint64), compare_numbers);
	arrange_runs(version);
	MemoryContextSwitchTo(old);

	if (metas != NULL)
		pfree(metas);
	MemoryContextSetParent(cxt, TopMemoryContext);
	return version;
}

/* ======================================================================
 * Keeping versions
 * ====================================================================== */

LsmVersion *
lsm_version_pin(LsmVersion *version)
{
	Assert(version->refcount > 0);
	version->refcount++;
	return version;
}

/* Never fails: memory context callbacks call it. */
void
lsm_version_unpin(LsmVersion *version)
{
	Assert(version->refcount > 0);
	if (--version->refcount == 0)
		MemoryContextDelete(version->cxt);
}

bool
lsm_version_has(const LsmVersion *version, uint64 number)
{
	return version->nfiles > 0 &&
		bsearch(&number, version->numbers, version->nfiles, sizeof(uint64),
				compare_numbers) != NULL;
}

void
lsm_version_release(LsmTree *tree)
{
	LsmVersion *version = tree->version;

	if (version == NULL)
		return;
	tree->version = NULL;
	for (int i = 0; i < version->nfiles; i++)
		lsm_filecache_forget(version->keyspace_id, version->numbers[i]);
	lsm_version_unpin(version);
}

LsmVersion *
lsm_version_refresh(LsmTree *tree)
{
	LsmVersion *old = tree->version;
	LsmVersion *version;

	Assert(!lsm_epoch_inside());
	if (old != NULL && old->keyspace_id == tree->keyspace_id &&
		old->lenient == lsm_ignore_missing_files &&
		old->version_no == pg_atomic_read_u64(&tree->ctl->version_no))
		return old;

	version = read_version(tree);
	tree->version = version;
	lsm_level_facts_seen(tree->ctl, version);

	/* files that are gone: let go of their mappings */
	if (old != NULL)
	{
		for (int i = 0; i < old->nfiles; i++)
		{
			if (old->keyspace_id != version->keyspace_id ||
				!lsm_version_has(version, old->numbers[i]))
				lsm_filecache_forget(old->keyspace_id, old->numbers[i]);
		}
		lsm_filecache_forget_damaged(version->keyspace_id);
		lsm_version_unpin(old);
	}
	return version;
}

LsmVersion *
lsm_version_enter(LsmTree *tree, LsmMemtableSet *set)
{
	for (;;)
	{
		LsmVersion *version;

		lsm_tree_enter(tree);
		lsm_set_take(tree->ctl, set);
		LSM_CRASH_POINT("standby_set_taken");
		pg_read_barrier();
		version = tree->version;
		if (likely(version != NULL &&
				   version->version_no == pg_atomic_read_u64(&tree->ctl->version_no) &&
				   version->keyspace_id == tree->keyspace_id &&
				   version->lenient == lsm_ignore_missing_files))
			return version;
		lsm_tree_exit(tree);
		(void) lsm_version_refresh(tree);
	}
}

/* See read.h. */
void
lsm_salvage_forbid(LsmTree *tree, const LsmVersion *version)
{
	if (!version->salvaged)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot write to LSM tree of relation %s, of which files are missing",
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM)),
			 errhint("With lsm.ignore_missing_files the table can only be read. Copy it to another one.")));
}

/* ======================================================================
 * Finding files
 * ====================================================================== */

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

/* lsm_run_beyond_prefix(), with what run_word() says. */
static inline bool
beyond_prefix(const LsmRun *run, int at, LsmSlice key, int c, uint64 word)
{
	uint64		smallest = run->smallest_words[at];

	if (c == 0 && smallest != word)
	{
		uint32		rest = key.len - run->prefix_bytes;

		if (smallest < word)
			return false;

		/* greater in the key's own bytes: it does not begin with them */
		if (rest >= sizeof(word) ||
			(rest > 0 && (smallest ^ word) >> (64 - 8 * rest) != 0))
			return true;
	}
	return lsm_file_after(&run->files[at], key) &&
		!lsm_slice_has_prefix(run->files[at].smallest, key);
}

bool
lsm_run_beyond_prefix(const LsmRun *run, int at, LsmSlice key)
{
	uint64		word = 0;
	int			c = run_word(run, key, &word);

	return beyond_prefix(run, at, key, c, word);
}

int
lsm_run_find_prefix(const LsmRun *run, const LsmKeyWords *words, int *end)
{
	LsmSlice	key = words->key;
	uint64		word = 0;
	int			c = run_word_of(run, words, &word);
	int			at = c == 0 ? find_by_word(run, key, word) : c < 0 ? 0 : run->nfiles;

	for (*end = at; *end < run->nfiles; (*end)++)
	{
		/*
		 * what begins with the key has its word: it is not behind a greater key
		 */
		if (*end > at && c == 0 && run->largest_words[*end - 1] > word &&
			!(run->files[*end - 1].flags & LSM_FILE_LARGEST_CUT) &&
			key.len >= run->prefix_bytes + sizeof(word))
			break;
		if (beyond_prefix(run, *end, key, c, word))
			break;
	}
	return at;
}

/*
 * The same for a key of a group, if it is in none of the files, or in one of
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
 * behind them; else the search is made.
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
			greatest = word;
			if (len < run->prefix_bytes + sizeof(word))
				greatest |= ~UINT64CONST(0) >> (8 * (len - run->prefix_bytes));
			if (likely(run->smallest_words[last] < word && greatest < run->largest_words[last]))
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
