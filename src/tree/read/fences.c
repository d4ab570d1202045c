/*-------------------------------------------------------------------------
 *
 * fences.c
 *	  Keys that cut a range of the tree into pieces of about the same size, for
 *	  processes that share a scan.
 *
 * A sample of keys, each of which stands for a number of bytes: from
 * memtables a level of the skiplist, from sorted files separators of data
 * blocks, which lie in the file's index, or, of files that are small beside the
 * range, the fence that the list of files has.  No data block is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/memtable/memtable.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* Keys of the sample, about, and of one memtable at most */
#define SAMPLE_KEYS			512
#define MEMTABLE_KEYS		128

typedef struct SampleKey
{
	LsmSlice	key;
	double		bytes;
} SampleKey;

typedef struct Sample
{
	LsmSlice	low;
	LsmSlice	high;
	int			n;
	int			room;
	SampleKey  *keys;
	double		bytes;			/* of all */
	char	   *separator;
} Sample;

static void
add_key(Sample *sample, LsmSlice key, double bytes)
{
	char	   *copy;

	sample->bytes += bytes;
	if (lsm_slice_compare(key, sample->low) <= 0 ||
		(sample->high.len > 0 && lsm_slice_compare(key, sample->high) >= 0))
		return;
	if (sample->n == sample->room)
	{
		sample->room *= 2;
		sample->keys = repalloc_huge(sample->keys, sample->room * sizeof(SampleKey));
	}
	copy = palloc(key.len);
	memcpy(copy, key.data, key.len);
	sample->keys[sample->n].key = lsm_slice(copy, key.len);
	sample->keys[sample->n++].bytes = bytes;
}

static void
sample_memtable(Sample *sample, LsmMemtable *memtable)
{
	LsmMemNode *nodes[MEMTABLE_KEYS];
	uint64		entries = pg_atomic_read_u64(&memtable->entries);
	double		each;
	int			n;

	if (entries == 0)
		return;
	n = lsm_memtable_sample(memtable, sample->low, sample->high, MEMTABLE_KEYS, nodes, &each);
	for (int i = 0; i < n; i++)
		add_key(sample, lsm_memnode_key(nodes[i]),
				each * pg_atomic_read_u64(&memtable->bytes) / entries);
}

static bool
is_inside(const Sample *sample, const LsmFile *file)
{
	return lsm_slice_compare(file->smallest, sample->low) >= 0 &&
		(sample->high.len == 0 || lsm_slice_compare(file->largest, sample->high) < 0);
}

/* About this many keys of the file */
static void
sample_file(Sample *sample, LsmTree *tree, LsmFile *file, int keys)
{
	LsmOpenFile *open;
	LsmSstError err;
	uint32		first = 0;
	uint32		end;
	uint32		step;
	double		block_bytes;

	if (keys <= 1 && is_inside(sample, file))
	{
		add_key(sample, file->largest, file->file_bytes);
		return;
	}
	open = lsm_file_open(tree, file);
	end = lsm_sst_properties(open->reader)->data_blocks;
	block_bytes = (double) file->file_bytes / Max(end, 1);
	if (sample->low.len > 0)
		lsm_sst_check(lsm_sst_find_block(open->reader, sample->low.data, sample->low.len,
										 &first, &err), &err);
	if (sample->high.len > 0)
	{
		uint32		last;

		lsm_sst_check(lsm_sst_find_block(open->reader, sample->high.data,
										 sample->high.len, &last, &err), &err);
		end = Min(end, last + 1);
	}
	step = Max((end - Min(first, end)) / Max(keys, 1), 1);
	for (uint32 block = first; block < end; block += step)
	{
		uint32		n = Min(step, end - block);
		size_t		bytes;

		lsm_sst_check(lsm_sst_separator(open->reader, block + n - 1, sample->separator,
										LSM_MAX_KEY_BYTES, &bytes, &err), &err);
		add_key(sample, lsm_slice(sample->separator, bytes), n * block_bytes);
	}
}

/* The run's files that overlap the range: from the one returned to before *end */
static int
find_files(const Sample *sample, const LsmRun *run, int *end)
{
	*end = sample->high.len == 0 ? run->nfiles : lsm_run_find_last(run, sample->high) + 1;
	return sample->low.len == 0 ? 0 : lsm_run_find(run, sample->low);
}

static void
take_sample(Sample *sample, LsmTree *tree)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	double		bytes = 0;

	lsm_filecache_begin();
	for (int i = 0; i < version->nruns; i++)
	{
		int			end;

		for (int at = find_files(sample, &version->runs[i], &end); at < end; at++)
			bytes += version->runs[i].files[at].file_bytes;
	}
	for (int i = 0; i < version->nruns; i++)
	{
		int			end;

		for (int at = find_files(sample, &version->runs[i], &end); at < end; at++)
		{
			LsmFile    *file = &version->runs[i].files[at];

			sample_file(sample, tree, file,
						(int) (SAMPLE_KEYS * ((double) file->file_bytes / bytes)));
		}
	}
	for (int i = 0; i < set.n; i++)
		sample_memtable(sample, set.tables[i]);
	lsm_tree_exit(tree);
}

static int
compare_keys(const void *a, const void *b)
{
	return lsm_slice_compare(((const SampleKey *) a)->key, ((const SampleKey *) b)->key);
}

int
lsm_tree_fences(LsmTree *tree, LsmSlice low, LsmSlice high, int max_fences,
				uint64 min_bytes, LsmSlice *fences)
{
	Sample		sample = {.low = low, .high = high, .room = SAMPLE_KEYS};
	double		pieces;
	double		passed = 0;
	int			n = 0;

	sample.keys = palloc(sizeof(SampleKey) * sample.room);
	sample.separator = palloc(LSM_MAX_KEY_BYTES);
	take_sample(&sample, tree);
	qsort(sample.keys, sample.n, sizeof(SampleKey), compare_keys);
	pieces = Min(sample.bytes / min_bytes, (double) max_fences + 1);
	for (int i = 0; i < sample.n && n < max_fences; i++)
	{
		passed += sample.keys[i].bytes;
		if (passed < (n + 1) * sample.bytes / pieces ||
			(n > 0 && lsm_slice_compare(fences[n - 1], sample.keys[i].key) == 0))
			continue;
		fences[n++] = sample.keys[i].key;
	}
	return n;
}
