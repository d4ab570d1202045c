/*-------------------------------------------------------------------------
 *
 * sst_arrays.h
 *	  Sorted files that are arrays, their iterators and filters, for
 *	  tree_harness.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SST_ARRAYS_H
#define SST_ARRAYS_H

#define MAX_FILES	4096

typedef struct FileEntry
{
	LsmSlice	key;
	LsmSlice	value;
} FileEntry;

struct LsmSstReader
{
	uint64		number;
	int			nentries;
	FileEntry  *entries;
	int			per_block;
	LsmOpenFile open;
	bool		is_open;
};

struct LsmSstIter
{
	LsmSstReader *file;
	int			at;				/* nentries: not valid */
	char	   *copy;			/* of the entry: key, slack, value */
};

static LsmSstReader *files[MAX_FILES];	/* by number */
static uint64 next_number = 1;
static int	open_iterators = 0;
static int	places = 0;			/* where iterators have stood */

static LsmFileMeta metas[MAX_FILES];
static int	nmetas = 0;

static pg_noinline LsmSstStatus
no_error(LsmSstError *err)
{
	err->status = LSM_SST_OK;
	err->message[0] = '\0';
	return LSM_SST_OK;
}

static char *
copy_bytes(const char *data, uint32 bytes)
{
	char	   *copy = malloc(bytes > 0 ? bytes : 1);

	lsm_bytes_copy(copy, data, bytes);
	return copy;
}

static void
iter_stand_at(LsmSstIter *iter, int at)
{
	const FileEntry *entry;
	char	   *copy = NULL;

	places++;
	if (at >= 0 && at < iter->file->nentries)
	{
		entry = &iter->file->entries[at];
		copy = calloc(1, entry->key.len + LSM_SST_KEY_SLACK + entry->value.len);
		memcpy(copy, entry->key.data, entry->key.len);
		memcpy(copy + entry->key.len + LSM_SST_KEY_SLACK, entry->value.data, entry->value.len);
	}
	else
		at = iter->file->nentries;

	/* who has kept a pointer sees something else */
	if (iter->copy != NULL)
	{
		entry = &iter->file->entries[iter->at];
		memset(iter->copy, 0x7f, entry->key.len + LSM_SST_KEY_SLACK + entry->value.len);
		free(iter->copy);
	}
	iter->at = at;
	iter->copy = copy;
}

LsmSstStatus
lsm_sst_iter_open(LsmSstReader *reader, LsmSstIter **iter, LsmSstError *err)
{
	*iter = calloc(1, sizeof(LsmSstIter));
	(*iter)->file = reader;
	(*iter)->at = reader->nentries;
	open_iterators++;
	return no_error(err);
}

void
lsm_sst_iter_close(LsmSstIter *iter)
{
	iter_stand_at(iter, -1);
	free(iter);
	open_iterators--;
}

bool
lsm_sst_iter_valid(const LsmSstIter *iter)
{
	return iter->at < iter->file->nentries;
}

static int
find_entry(const LsmSstReader *file, LsmSlice key)
{
	int			at = 0;

	while (at < file->nentries && lsm_slice_compare(file->entries[at].key, key) < 0)
		at++;
	return at;
}

LsmSstStatus
lsm_sst_iter_seek_prefix(LsmSstIter *iter, const void *key, size_t key_bytes,
						 size_t prefix_bytes, LsmSstError *err)
{
	int			at = find_entry(iter->file, lsm_slice(key, key_bytes));

	/* as the product's: lookups rely on it */
	if (at < iter->file->nentries &&
		!lsm_slice_has_prefix(iter->file->entries[at].key, lsm_slice(key, prefix_bytes)))
		at = -1;
	iter_stand_at(iter, at);
	return no_error(err);
}

LsmSstStatus
lsm_sst_iter_seek_last(LsmSstIter *iter, const void *key, size_t key_bytes, LsmSstError *err)
{
	LsmSlice	wanted = lsm_slice(key, key_bytes);
	int			at = find_entry(iter->file, wanted);

	if (at == iter->file->nentries || lsm_slice_compare(iter->file->entries[at].key, wanted) != 0)
		at--;
	iter_stand_at(iter, at);
	return no_error(err);
}

LsmSstStatus
lsm_sst_iter_first(LsmSstIter *iter, LsmSstError *err)
{
	iter_stand_at(iter, 0);
	return no_error(err);
}

LsmSstStatus
lsm_sst_iter_last(LsmSstIter *iter, LsmSstError *err)
{
	iter_stand_at(iter, iter->file->nentries - 1);
	return no_error(err);
}

LsmSstStatus
lsm_sst_iter_next(LsmSstIter *iter, LsmSstError *err)
{
	Assert(lsm_sst_iter_valid(iter));
	iter_stand_at(iter, iter->at + 1);
	return no_error(err);
}

LsmSstStatus
lsm_sst_iter_prev(LsmSstIter *iter, LsmSstError *err)
{
	Assert(lsm_sst_iter_valid(iter));
	iter_stand_at(iter, iter->at - 1);
	return no_error(err);
}

const void *
lsm_sst_iter_key(const LsmSstIter *iter, size_t *key_bytes)
{
	Assert(lsm_sst_iter_valid(iter));
	*key_bytes = iter->file->entries[iter->at].key.len;
	return iter->copy;
}

const void *
lsm_sst_iter_value(const LsmSstIter *iter, size_t *value_bytes)
{
	Assert(lsm_sst_iter_valid(iter));
	*value_bytes = iter->file->entries[iter->at].value.len;
	return iter->copy + iter->file->entries[iter->at].key.len + LSM_SST_KEY_SLACK;
}

LsmSstStatus
lsm_sst_iter_step(LsmSstIter *iter, LsmSstView *view, LsmSstError *err)
{
	lsm_sst_iter_next(iter, err);
	memset(view, 0, sizeof(*view));
	if (lsm_sst_iter_valid(iter))
	{
		view->key = lsm_sst_iter_key(iter, &view->key_bytes);
		view->value = lsm_sst_iter_value(iter, &view->value_bytes);
	}
	return no_error(err);
}

static bool
batch_wants(const LsmSstBatch *take, const FileEntry *entry, bool forward)
{
	LsmSlice	bound = lsm_slice(take->bound, take->bound_bytes);
	int			c = lsm_slice_compare(entry->key, bound);

	if (entry->value.len == 0 || (uint8) entry->value.data[0] != take->first_byte)
		return false;
	if (forward)
		return c < 0 || (take->bound_prefix && lsm_slice_has_prefix(entry->key, bound));
	return c > 0 || (take->bound_prefix && c == 0);
}

/* False: there is no room. */
static bool
batch_put(LsmSstBatch *take, const FileEntry *entry)
{
	uint32		value_at = TYPEALIGN(8, take->used + entry->key.len + take->headroom +
									 take->aligned) - take->aligned;
	LsmSstEntry *to = &take->entries[take->n];

	if (value_at + entry->value.len > take->capacity)
		return false;
	memcpy(take->bytes + take->used, entry->key.data, entry->key.len);
	memcpy(take->bytes + value_at, entry->value.data, entry->value.len);
	to->key_offset = take->used;
	to->key_bytes = entry->key.len;
	to->value_offset = value_at;
	to->value_bytes = entry->value.len;
	take->used = value_at + entry->value.len;
	take->n++;
	return true;
}

static LsmSstStatus
read_batch(LsmSstIter *iter, LsmSstBatch *take, bool *taken, bool forward, LsmSstError *err)
{
	int			step = forward ? 1 : -1;
	int			at = iter->at;
	int			block = at / iter->file->per_block;

	Assert(lsm_sst_iter_valid(iter) && take->n < take->max);
	*taken = false;
	while (batch_wants(take, &iter->file->entries[at], forward) &&
		   batch_put(take, &iter->file->entries[at]))
	{
		int			next = at + step;

		*taken = take->n == take->max || next < 0 || next >= iter->file->nentries ||
			next / iter->file->per_block != block;
		if (*taken)
			break;
		at = next;
	}
	if (at != iter->at)
		iter_stand_at(iter, at);
	return no_error(err);
}

LsmSstStatus
lsm_sst_iter_read_batch(LsmSstIter *iter, LsmSstBatch *take, bool *taken, LsmSstError *err)
{
	return read_batch(iter, take, taken, true, err);
}

LsmSstStatus
lsm_sst_iter_read_batch_back(LsmSstIter *iter, LsmSstBatch *take, bool *taken, LsmSstError *err)
{
	return read_batch(iter, take, taken, false, err);
}

void
lsm_sst_prefetch(LsmSstReader *reader, const void *key, size_t key_bytes)
{
}

void
lsm_sst_close(LsmSstReader *reader)
{
}

LsmSstReader *
lsm_file_open_sorted(LsmTree *tree, const LsmFile *file)
{
	return files[file->number];
}

LsmOpenFile *
lsm_file_open_slow(LsmTree *tree, LsmFile *file)
{
	LsmSstReader *reader = files[file->number];
	LsmOpenFile *open = &reader->open;

	Assert(epoch_is_inside);
	if (!reader->is_open)
	{
		reader->is_open = true;
		open->serial = file->number;
		open->number = file->number;
		open->reader = reader;
		open->has_filter = file->number % 3 != 0;
		open->filter.leading = tree->kind == LSM_KIND_INDEX && file->number % 2 == 0 ? 1 : 0;
	}
	file->open = open;
	file->open_serial = open->serial;
	return open;
}

/* Those that lookups have left in open files do not count. */
static inline int
iterators_left(void)
{
	int			left = open_iterators;

	for (uint64 i = 1; i < next_number; i++)
		left -= files[i] != NULL && files[i]->open.idle_iter != NULL;
	return left;
}

LsmSstIter *
lsm_file_acquire_iter(LsmOpenFile *open)
{
	LsmSstIter *iter;
	LsmSstError err;

	(void) lsm_sst_iter_open(open->reader, &iter, &err);
	return iter;
}

void
lsm_file_release_iter(LsmOpenFile *open, LsmSstIter *iter)
{
	lsm_sst_iter_close(iter);
}

/* One in eight of the digests that the file does not have are "maybe", too. */
bool
lsm_filter_probe(const LsmFilter *filter, LsmDigest digest)
{
	const LsmSstReader *file = (const LsmSstReader *)
		((const char *) filter - offsetof(LsmSstReader, open.filter));

	for (int i = 0; i < file->nentries; i++)
	{
		LsmSlice	key = lsm_filter_key(&tree, file->entries[i].key);

		if (digest_of(key.data, key.len) == digest)
			return true;
		if (filter->leading > 0 && key.len >= LEADING_BYTES &&
			digest_of(key.data, LEADING_BYTES) == digest)
			return true;
	}
	return random_next() % 8 == 0;
}

uint32_t
lsm_filter_probe_group(const LsmFilter *filter, const LsmDigest *digests, uint32_t n)
{
	uint32_t	maybe = 0;

	for (uint32_t i = 0; i < n; i++)
		maybe |= (uint32_t) lsm_filter_probe(filter, digests[i]) << i;
	return maybe;
}

void
lsm_filter_prefetch(const LsmFilter *filter, LsmDigest digest)
{
}

void
lsm_filter_prefetch_group(const LsmFilter *filter, const LsmDigest *digests, uint32_t n)
{
}

#endif							/* SST_ARRAYS_H */
