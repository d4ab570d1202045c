/*-------------------------------------------------------------------------
 *
 * version.h
 *	  A backend's copy of the list of sorted files, arranged for lookups.
 *
 * A version is immutable (but for the cached open files) and belongs to one
 * process.  tree->version holds one reference; cursors and jobs hold their
 * own, because they look at its arrays between calls.
 *
 * A run that is as it was in the version before is that one's: what a new
 * version costs is what the runs that have changed cost, and the files of a
 * large tree are in its last run or two.  Run bodies count the versions that
 * have them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VERSION_H
#define LSM_VERSION_H

#include "port/pg_bswap.h"

#include "tree/disk/manifest.h"
#include "tree/read/read.h"

struct LsmOpenFile;

typedef struct LsmFile
{
	uint64		number;
	uint64		run;			/* level 0: generation; else 0 */
	uint64		entries;
	uint64		file_bytes;
	uint64		filter_bytes;
	TransactionId min_xid;
	uint8		level;
	uint8		filter_scheme;
	uint16		flags;			/* LSM_FILE_* */
	uint32		sst_check;		/* these as in LsmFileMeta */
	uint32		filter_check;
	uint32		written_as;
	LsmSlice	smallest;		/* fences, perhaps cut (see flags) */
	LsmSlice	largest;

	/* filecache.c: valid while open->serial == open_serial */
	struct LsmOpenFile *open;
	uint64		open_serial;
} LsmFile;

/*
 * Files with disjoint ranges, in key order.  The words are the first 8 bytes
 * of a fence after the prefix that all fences of the run share, as integers.
 */
typedef struct LsmRun
{
	int			level;
	uint64		run;
	int			first;			/* files in the version's runs before this one */
	int			nfiles;
	LsmFile    *files;
	uint64	   *numbers;		/* of the files, ascending */
	uint32	   *number_at;		/* whose they are, index into files */
	uint64		entries;		/* of all files: sums */
	uint64		file_bytes;
	uint64		filter_bytes;
	uint64		mapped_filter_bytes;
	TransactionId min_xid;		/* and the oldest, or invalid */
	bool		many_deletes;	/* a file has LSM_FILE_MANY_DELETES */
	struct LsmRunBody *body;	/* what all this is in (version.c) */
	uint32		prefix_bytes;
	uint64		prefix_word;	/* if 1 to 8 bytes: as an integer */
	const char *prefix;
	uint64	   *smallest_words;
	uint64	   *largest_words;
	bool		words_vague;	/* some word is of a fence cut before its end */
} LsmRun;

struct LsmVersion
{
	MemoryContext cxt;
	int			refcount;
	bool		lenient;		/* made under lsm.ignore_missing_files */
	bool		salvaged;		/* and files are missing: runs are in no order (salvage.c) */
	uint64		serial;			/* no other of this process has it */
	uint64		keyspace_id;
	LsmManifestPlace place;
	uint64		flushed_generation; /* memtables up to it are in the files */
	int			nfiles;
	int			nruns;
	LsmRun	   *runs;			/* newest data first: level 0 by generation
								 * descending, then one run per level */
	int			level0_runs;
	int			deepest;		/* deepest level with files; -1: no files */
	LsmRun	   *levels[LSM_MAX_LEVELS]; /* [0] unused; NULL: empty */
	int			level_files[LSM_MAX_LEVELS];
	uint64		level_bytes[LSM_MAX_LEVELS];	/* of .sst */
};

/*
 * The integer that stands for a fence or key in binary searches: 8 bytes big
 * endian, padded.  A cut upper fence is padded with ones, since keys beyond
 * it may be in the file.
 */
static inline uint64
lsm_word(const char *data, uint32 len, uint8 padding)
{
	uint64		word;

	if (len >= 8)
		memcpy(&word, data, 8);
	else if (len >= 4 && padding == 0)
	{
		/* a TID is one of these: two loads that overlap */
		uint32		first;
		uint32		last;
		int			rest_bits = (len - 4) * 8;

		memcpy(&first, data, 4);
		memcpy(&last, data + len - 4, 4);
		return ((uint64) pg_bswap32(first) << 32) |
			((pg_bswap32(last) & ((UINT64CONST(1) << rest_bits) - 1)) << (32 - rest_bits));
	}
	else
	{
		memset(&word, padding, 8);
		memcpy(&word, data, len);
	}
	return pg_bswap64(word);
}

/*
 * A key, and its first 16 bytes as integers, padded with zeros: made once and
 * compared with the fences of many runs.
 */
typedef struct LsmKeyWords
{
	LsmSlice	key;
	uint64		first;
	uint64		second;
} LsmKeyWords;

static inline LsmKeyWords
lsm_key_words(LsmSlice key)
{
	LsmKeyWords words = {.key = key, .first = lsm_word(key.data, key.len, 0)};

	if (key.len > sizeof(uint64))
		words.second = lsm_word(key.data + sizeof(uint64), key.len - sizeof(uint64), 0);
	return words;
}

static inline bool
lsm_slice_has_prefix(LsmSlice slice, LsmSlice prefix)
{
	return slice.len >= prefix.len &&
		lsm_bytes_compare(slice.data, prefix.data, prefix.len) == 0;
}

/* All keys of the file precede `key`. */
static inline bool
lsm_file_before(const LsmFile *file, LsmSlice key)
{
	if (lsm_slice_compare(file->largest, key) >= 0)
		return false;
	return !((file->flags & LSM_FILE_LARGEST_CUT) &&
			 lsm_slice_has_prefix(key, file->largest));
}

/*
 * All keys of the file follow `key` (a cut lower fence is still a lower bound).
 */
static inline bool
lsm_file_after(const LsmFile *file, LsmSlice key)
{
	return lsm_slice_compare(file->smallest, key) > 0;
}

static inline bool
lsm_file_may_hold(const LsmFile *file, LsmSlice key)
{
	return !lsm_file_after(file, key) && !lsm_file_before(file, key);
}

/*
 * What the functions below need to know of the run's files.  REQUIRES: current
 * context is the run's.  ERROR if the files are out of order.
 */
extern void lsm_run_arrange(LsmRun *run);

/* Index of the first file that is not entirely before `key`; nfiles if none. */
extern int	lsm_run_find(const LsmRun *run, LsmSlice key);

/*
 * Are all keys of the file greater than `key`, and than all that begin with it?
 */
extern bool lsm_run_beyond_prefix(const LsmRun *run, int at, LsmSlice key);

/*
 * The files that may have keys that begin with `key`: from the index returned
 * to before *end.
 */
extern int	lsm_run_find_prefix(const LsmRun *run, const LsmKeyWords *words, int *end);

#define LSM_NO_FILE			(-1)
#define LSM_SEVERAL_FILES	(-2)

/*
 * at[i]: the one file that may have keys that begin with keys[i]; or one of
 * the above.  Keys in order take least time.
 */
extern void lsm_run_find_group(const LsmRun *run, const LsmKeyWords *keys, int n, int *at);

/* Index of the last file that is not entirely after `key`; -1 if none. */
extern int	lsm_run_find_last(const LsmRun *run, LsmSlice key);

/* As lsm_run_find(), but -1 if that file is entirely after `key`. */
extern int	lsm_run_find_exact(const LsmRun *run, const LsmKeyWords *words);

/*
 * False: no file holds a key that begins with one from `low` to `high`, which
 * are equally long.
 */
extern bool lsm_version_may_hold_between(const LsmVersion *version, LsmSlice low, LsmSlice high);

/*
 * Enter the tree and take its memtables and its current version, in this
 * order, reloading the version (outside the epoch) if it is stale.  The version
 * stays valid until lsm_tree_exit(); pin it to keep it longer.  What it has in
 * files is not in the set.
 */
extern LsmVersion *lsm_version_enter(LsmTree *tree, LsmMemtableSet *set);

/* The version as of now, read if the cached one is stale.  REQUIRES: outside
 * the epoch; ctl->files.version_no is set (state LOADING suffices). */
extern LsmVersion *lsm_version_refresh(LsmTree *tree);
extern LsmVersion *lsm_version_pin(LsmVersion *version);
extern void lsm_version_unpin(LsmVersion *version);

/* NULL: it has no such file. */
extern LsmFile *lsm_version_find_file(const LsmVersion *version, uint64 number);

static inline bool
lsm_version_has(const LsmVersion *version, uint64 number)
{
	return lsm_version_find_file(version, number) != NULL;
}

/* The i-th file, run by run. */
extern LsmFile *lsm_version_file(const LsmVersion *version, int i);

/* Index of the first number greater than `number`; nfiles if there is none. */
extern int	lsm_run_number_after(const LsmRun *run, uint64 number);

/* level_facts.c */
extern void lsm_level_facts_set(LsmTreeShared *ctl, const LsmVersion *version,
								uint64 pending_bytes);
extern void lsm_level_facts_seen(LsmTreeShared *ctl, const LsmVersion *version);

extern void lsm_file_meta(const LsmFile *file, LsmFileMeta *meta);

#endif							/* LSM_VERSION_H */
