/*-------------------------------------------------------------------------
 *
 * tree_harness.h
 *	  A tree in this process's memory, for tests of what reads and compacts one:
 *	  versions, cursors, merges, gaps and plans are the product's, included; its
 *	  memtables, too (memtable_harness.h).  Stand-ins are sorted files, which are
 *	  arrays, their filters, and the list of them.
 *
 * Files are as strict as their contracts allow: what an iterator points to is
 * gone when it moves, blocks are short, and filters say "maybe" to some keys
 * that are not there.
 *
 * Text.  Keys: "{x300}" is 300 times x, "\ff" a byte, and in an index "a.7" has
 * TID 7.  Entries: "k=text" is a PUT, "k-" a DELETE, "k~text" a PARTIAL, which
 * replaces what follows "/" in the PUT below it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TREE_HARNESS_H
#define TREE_HARNESS_H

#define USE_ASSERT_CHECKING 1

#include "memtable_harness.h"

#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "version_harness.h"

#include "tree/control/memtable_set.c"
#include "tree/control/gaps.c"
#include "tree/read/merge.c"
#include "tree/read/source.c"
#include "tree/read/point_sources.c"
#include "tree/read/limit.c"
#include "tree/read/pass_gap.c"
#include "tree/read/cursor.c"
#include "tree/read/batch.c"
#include "tree/read/ahead.c"

/* ---- what the rooms below supply ---- */

uint64		lsm_filecache_operation = 0;
int			lsm_second_opinion = 0;
int			lsm_target_file_size_kb = 1024;

static int64 now_us = INT64CONST(1000000000);

TimestampTz
GetCurrentTimestamp(void)
{
	return now_us;
}

bool
TimestampDifferenceExceeds(TimestampTz start, TimestampTz stop, int msec)
{
	return stop - start >= msec * INT64CONST(1000);
}

/* nobody waits */
static uint32 wait_event_info;
uint32	   *my_wait_event_info = &wait_event_info;

void
pg_usleep(long microsec)
{
	abort();
}

uint32
WaitEventExtensionNew(const char *name)
{
	abort();
}

/* the tree is always loaded, and what is read outside of epochs is found out */
void
lsm_tree_enter(LsmTree *tree)
{
	Assert(!epoch_is_inside);
	epoch_is_inside = true;
}

void
lsm_tree_exit(LsmTree *tree)
{
	Assert(epoch_is_inside);
	epoch_is_inside = false;
}

bool
lsm_opinion_due(void)
{
	return false;
}

void
lsm_opinion_points(LsmCursor *cursor, bool forward, bool asked_now)
{
}

void
lsm_opinion_limit(LsmCursor *cursor)
{
}

void
lsm_opinion_position(LsmCursor *cursor, const LsmSource *source, bool forward)
{
}

void
lsm_opinion_gap(LsmCursor *cursor, LsmSlice low, const LsmGapKey *high)
{
}

static uint64 merged_entries;	/* as cursors count them */

void
lsm_count(LsmTree *tree, LsmCounter counter, uint64 n)
{
}

void
lsm_count_merged(LsmTree *tree, int n)
{
	merged_entries += n;
}

void
lsm_probe_counts_add(LsmTree *tree, const LsmProbeCounts *counts)
{
}

void
lsm_file_count_blocks(LsmTree *tree, LsmOpenFile *open)
{
}

void
lsm_filestats_pend(LsmOpenFile *open)
{
	open->counts_pending = true;
}

void
lsm_sst_report(int elevel, const LsmSstError *err)
{
	elog(ERROR, "%s", err->message);
}

/* no file has an elastic filter, or one that is read page by page */
bool
lsm_elastic_ask(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open, LsmProbeCounts *counts)
{
	abort();
}

void
lsm_elastic_prefetch_leading(const LsmElastic *elastic, LsmDigest digest)
{
	abort();
}

bool
lsm_elastic_ask_leading(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
						LsmProbeCounts *counts)
{
	abort();
}

void
lsm_elastic_note(const LsmOpenFile *open)
{
	abort();
}

void
lsm_elastic_prefetch_segment(const LsmProbe *probe, const LsmOpenFile *open)
{
	abort();
}

void
lsm_elastic_prefetch_unit(const LsmProbe *probe, const LsmOpenFile *open)
{
	abort();
}

bool
lsm_file_probe_page(LsmTree *tree, LsmOpenFile *open, LsmDigest digest)
{
	abort();
}

bool
lsm_file_filter_faulted(LsmTree *tree, LsmOpenFile *open)
{
	abort();
}

/* ---- the tree ---- */

#define KEYSPACE	77

/* Of an index: its keys' filters know so many bytes as leading column. */
#define LEADING_BYTES	1

static LsmTreeShared ctl;
static LsmTree tree;

static void
settle_part(LsmSlice newer, LsmSlice older, StringInfo out)
{
	const char *slash = older.data[0] == LSM_TAG_PUT ? memchr(older.data, '/', older.len) : NULL;

	if (older.data[0] == LSM_TAG_PUT)
	{
		append_bytes(out, older.data, slash != NULL ? slash - older.data : older.len);
		appendStringInfoChar(out, '/');
		append_bytes(out, newer.data + 1, newer.len - 1);
	}
	else
		append_bytes(out, newer.data, newer.len);
}

static const LsmKindOps kind_ops = {.merge = settle_part};

void
lsm_probe_begin(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key)
{
	memset(probe, 0, sizeof(*probe));
	probe->filter_key = filter_key;
	probe->digest = digest_of(filter_key.data, filter_key.len);
	probe->shared = true;
}

LsmDigest
lsm_digest_key(const void *key, size_t bytes)
{
	return digest_of(key, bytes);
}

/* ---- sorted files ---- */

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

	/* such an entry is as good as none: now one, now the other */
	if (at < iter->file->nentries && random_next() % 2 == 0 &&
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

void
lsm_filter_prefetch(const LsmFilter *filter, LsmDigest digest)
{
}

/* ---- the list of files ---- */

void
lsm_manifest_read_change(LsmTree *tree, const LsmManifestPlace *since, LsmManifestChange *change)
{
	memset(change, 0, sizeof(*change));
	change->whole = true;
	change->nfiles = nmetas;
	change->files = palloc(Max(nmetas, 1) * sizeof(LsmFileMeta));
	memcpy(change->files, metas, nmetas * sizeof(LsmFileMeta));
	change->removed = palloc(1);
	change->place.version_no = pg_atomic_read_u64(&ctl.version_no);
	change->place.files = nmetas;
}

static void
note_version(void)
{
	pg_atomic_fetch_add_u64(&ctl.version_no, 1);
}

static uint16
set_fence(LsmSlice key, char *fence, uint16 *bytes, uint16 cut)
{
	*bytes = Min(key.len, LSM_FENCE_BYTES);
	memcpy(fence, key.data, *bytes);
	return key.len > LSM_FENCE_BYTES ? cut : 0;
}

/* A file of these entries, whose memory it takes over, becomes part of the list. */
static LsmFileMeta *
add_file(int level, uint64 run, const FileEntry *entries, int n)
{
	LsmSstReader *file = calloc(1, sizeof(LsmSstReader));
	LsmFileMeta *meta = &metas[nmetas++];

	Assert(n > 0 && nmetas < MAX_FILES && next_number < MAX_FILES);
	file->number = next_number++;
	file->nentries = n;
	file->entries = (FileEntry *) copy_bytes((const char *) entries, n * sizeof(FileEntry));
	file->per_block = 1 + file->number % 5;
	files[file->number] = file;
	memset(meta, 0, sizeof(*meta));
	meta->number = file->number;
	meta->level = level;
	meta->run = level == 0 ? run : 0;
	meta->entries = n;
	for (int i = 0; i < n; i++)
	{
		meta->file_bytes += entries[i].key.len + entries[i].value.len;
		Assert(i == 0 || lsm_slice_compare(entries[i - 1].key, entries[i].key) < 0);
	}
	meta->flags = set_fence(entries[0].key, meta->smallest, &meta->smallest_bytes,
							LSM_FILE_SMALLEST_CUT) |
		set_fence(entries[n - 1].key, meta->largest, &meta->largest_bytes, LSM_FILE_LARGEST_CUT);
	return meta;
}

static int
meta_of(uint64 number)
{
	for (int i = 0; i < nmetas; i++)
	{
		if (metas[i].number == number)
			return i;
	}
	abort();
}

/* From the list; the file stays for who has it open. */
static inline void
remove_file(uint64 number)
{
	int			at = meta_of(number);

	metas[at] = metas[--nmetas];
}

/* ---- memtables ---- */

static inline void
init_tree(LsmKind kind)
{
	static bool first = true;

	if (first)
		lsm_gaps_shmem_init();
	first = false;
	if (tree.version != NULL)
		lsm_version_release(&tree);
	for (uint64 i = 1; i < next_number; i++)
	{
		if (files[i] == NULL)
			continue;
		for (int j = 0; j < files[i]->nentries; j++)
		{
			free(unconstify(char *, files[i]->entries[j].key.data));
			free(unconstify(char *, files[i]->entries[j].value.data));
		}
		free(files[i]->entries);
		free(files[i]);
		files[i] = NULL;
	}
	nmetas = 0;
	next_number = 1;
	if (ctl.active != NULL)
		lsm_memtable_destroy(ctl.active);
	for (int i = 0; i < ctl.nsealed; i++)
		lsm_memtable_destroy(ctl.sealed[i]);
	memset(&ctl, 0, sizeof(ctl));
	memset(&tree, 0, sizeof(tree));
	ctl.state = LSM_STATE_LOADED;
	ctl.active_generation = 1;
	ctl.keyspace_id.value = KEYSPACE;
	ctl.kind = kind;
	tree.kind = kind;
	tree.keyspace_id = KEYSPACE;
	tree.relpersistence = RELPERSISTENCE_PERMANENT;
	tree.ctl = &ctl;
	tree.ops = &kind_ops;
	note_version();
}

static inline void
write_value(LsmSlice key, LsmSlice value)
{
	LsmSlice	filter_key = lsm_filter_key(&tree, key);
	LsmDigest	digest = lsm_memtable_digest(&tree, filter_key,
											 digest_of(filter_key.data, filter_key.len));
	LsmEntry	entry = {.key = key,.value = value};
	void	   *reserved;

	if (ctl.active == NULL)
	{
		lsm_set_change_begin(&ctl);
		ctl.active = lsm_memtable_create(ctl.active_generation, false);
		lsm_set_change_end(&ctl);
	}
	reserved = lsm_memtable_reserve(ctl.active, key.len, value.len);
	lsm_memtable_insert(ctl.active, reserved, pg_atomic_add_fetch_u64(&ctl.seq, 1), key, value,
						digest, false);
	lsm_gaps_written(&tree, &entry, 1);
}

/* False: there are enough that wait, or nothing to seal. */
static inline bool
seal(void)
{
	if (ctl.active == NULL || ctl.nsealed == LSM_MAX_SEALED)
		return false;
	lsm_set_change_begin(&ctl);
	ctl.sealed[ctl.nsealed++] = ctl.active;
	ctl.active = NULL;
	ctl.active_generation++;
	lsm_set_change_end(&ctl);
	return true;
}

static FileEntry
copy_entry(LsmSlice key, LsmSlice value)
{
	FileEntry	entry = {
		lsm_slice(copy_bytes(key.data, key.len), key.len),
		lsm_slice(copy_bytes(value.data, value.len), value.len)
	};

	return entry;
}

/* The oldest sealed memtable becomes a run, of files with so many entries. */
static inline bool
flush(int per_file)
{
	LsmMemtable *memtable = ctl.sealed[0];
	FileEntry  *entries = malloc(per_file * sizeof(FileEntry));
	StringInfoData value;
	int			n = 0;

	if (ctl.nsealed == 0)
	{
		free(entries);
		return false;
	}
	initStringInfo(&value);
	for (LsmMemNode *node = lsm_memtable_first(memtable); node != NULL;
		 node = lsm_memtable_next(memtable, node))
	{
		LsmFold		fold;

		lsm_fold_begin(&fold, &kind_ops, &value);
		(void) lsm_fold_add_memvalue(&fold, lsm_memnode_value(node));
		entries[n++] = copy_entry(lsm_memnode_key(node), lsm_slice(value.data, value.len));
		if (n == per_file)
		{
			add_file(0, memtable->generation, entries, n);
			n = 0;
		}
	}
	if (n > 0)
		add_file(0, memtable->generation, entries, n);
	lsm_set_change_begin(&ctl);
	note_version();
	memmove(ctl.sealed, ctl.sealed + 1, --ctl.nsealed * sizeof(LsmMemtable *));
	lsm_set_change_end(&ctl);
	lsm_memtable_destroy(memtable);
	pfree(value.data);
	free(entries);
	return true;
}

/* ---- text ---- */

#define MAX_TEXT_KEY	1024

static LsmSlice
parse_key(const char *text, int length)
{
	static char keys[4][MAX_TEXT_KEY];
	static int	nth = 0;
	char	   *key = keys[nth++ % 4];
	uint32		n = 0;

	for (const char *at = text; at < text + length; at++)
	{
		if (*at == '{')
		{
			char	   *end;
			long		times = strtol(at + 2, &end, 10);

			memset(key + n, at[1], times);
			n += times;
			at = end;
		}
		else if (*at == '\\')
		{
			char		hex[3] = {at[1], at[2], 0};

			key[n++] = (char) strtol(hex, NULL, 16);
			at += 2;
		}
		else if (*at == '.' && tree.kind == LSM_KIND_INDEX)
		{
			uint64		tid = pg_bswap64(strtoull(at + 1, NULL, 10));

			memcpy(key + n, (char *) &tid + 2, LSM_TID_BYTES);
			n += LSM_TID_BYTES;
			break;
		}
		else
			key[n++] = *at;
	}
	return lsm_slice(key, n);
}

static inline LsmSlice
parse_key_word(const char *word)
{
	return parse_key(word, strlen(word));
}

/* "k=text" and the like */
static inline void
parse_entry(const char *word, LsmSlice *key, LsmSlice *value)
{
	static char values[MAX_TEXT_KEY];
	int			length = strcspn(word, "=~-");
	char		kind = word[length];

	*key = parse_key(word, length);
	values[0] = kind == '=' ? LSM_TAG_PUT : kind == '~' ? LSM_TAG_PARTIAL : LSM_TAG_DELETE;
	strcpy(values + 1, word + length + (kind != '\0'));
	*value = lsm_slice(values, 1 + strlen(values + 1));
}

static void
print_key(FILE *out, LsmSlice key)
{
	uint32		bytes = tree.kind == LSM_KIND_INDEX && key.len >= LSM_TID_BYTES ?
		key.len - LSM_TID_BYTES : key.len;

	for (uint32 i = 0; i < bytes;)
	{
		uint32		same = 1;
		uint8		byte = (uint8) key.data[i];

		while (i + same < bytes && key.data[i + same] == key.data[i])
			same++;
		if (same < 8)
			same = 1;
		if (byte < ' ' || byte > '~')
			fprintf(out, "\\%02x", byte);
		else if (same > 1)
			fprintf(out, "{%c%u}", byte, same);
		else
			fputc(byte, out);
		i += byte < ' ' || byte > '~' ? 1 : same;
	}
	if (bytes < key.len)
	{
		uint64		tid = 0;

		memcpy((char *) &tid + 2, key.data + bytes, LSM_TID_BYTES);
		fprintf(out, ".%llu", (unsigned long long) pg_bswap64(tid));
	}
}

static inline void
print_entry(FILE *out, LsmSlice key, LsmSlice value)
{
	print_key(out, key);
	fprintf(out, "%s%.*s", value.data[0] == LSM_TAG_PUT ? "=" :
			value.data[0] == LSM_TAG_PARTIAL ? "~" : "-",
			(int) value.len - 1, value.data + 1);
}

#endif							/* TREE_HARNESS_H */
