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
 * TID 7.  Entries: "k=text" is a PUT, "k+text" a VERSION, "k-" a DELETE, "k~text"
 * a PARTIAL, which replaces what follows "/" in the PUT or VERSION below it.
 * "k~!text" is about no VERSION: those right below it go.  "k~*text" is about all
 * that is older: of a VERSION it makes a PUT.  "k+b|+a|=0" is a CHAIN.  "k^b<a" is
 * the DELTA of which "+b" comes with "+a" or "=a" below it.  Versions with an "E" are
 * enough.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TREE_HARNESS_H
#define TREE_HARNESS_H

#define USE_ASSERT_CHECKING 1

#include "memtable_harness.h"

#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "version_harness.h"

/* a pointer that the server sets */
#define pg_popcount32(word)	__builtin_popcount(word)

#include "tree/control/memtable_set.c"
#include "tree/control/gaps.c"
#include "tree/read/merge.c"
#include "tree/read/candidates.c"
#include "tree/read/source.c"
#include "tree/read/cursor_sources.c"
#include "tree/read/pass_gap.c"
#include "tree/read/cursor.c"
#include "tree/read/batch.c"
#include "tree/read/lookup.c"

/* ---- what the rooms below supply ---- */

uint64		lsm_filecache_operation = 0;
int			lsm_second_opinion = 0;
bool		lsm_hash_sharing = true;
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
lsm_opinion_absent(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
				   const LsmProbe *probe, const char *shortcut)
{
}

void
lsm_opinion_value(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
				  LsmSlice key, const LsmFold *fold, LsmOpinionAgain again, void *arg,
				  const char *shortcut)
{
}

/* no stamp is asked for */
void
lsm_stamp_of_set(LsmTree *tree, LsmDigest lock_digest, uint64 set_stamp, LsmStamp *stamp)
{
	abort();
}

void
lsm_key_prefetch(LsmTree *tree, LsmDigest lock_digest)
{
	abort();
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

uint64_t
lsm_sst_blob_faults(void)
{
	return 0;
}

bool
lsm_file_look_for_faults(LsmTree *tree, LsmOpenFile *open)
{
	return false;
}

/* ---- the tree ---- */

#define KEYSPACE	77

/* Of an index: its keys' filters know so many bytes as leading column. */
#define LEADING_BYTES	1

static LsmTreeShared ctl;
static LsmTree tree;

/* see Text above */
static void
merge_part(LsmSlice newer, LsmSlice older, StringInfo out)
{
	const char *slash = older.data[0] != LSM_TAG_PARTIAL ? memchr(older.data, '/', older.len) : NULL;
	char		how = newer.len > 1 ? newer.data[1] : '\0';

	if (older.data[0] == LSM_TAG_PARTIAL || (older.data[0] == LSM_TAG_DELTA && how == '*') ||
		(older.data[0] >= LSM_TAG_VERSION && how == '!'))
	{
		append_bytes(out, newer.data, newer.len);
		return;
	}
	appendStringInfoChar(out, how == '*' ? LSM_TAG_PUT : older.data[0]);
	append_bytes(out, older.data + 1, (slash != NULL ? slash - older.data : older.len) - 1);
	appendStringInfoChar(out, '/');
	append_bytes(out, newer.data + 1, newer.len - 1);
}

static LsmRestored
restore_part(LsmSlice delta, LsmSlice older, StringInfo out)
{
	const char *base = memchr(delta.data, '<', delta.len);
	const char *slash = memchr(delta.data, '/', delta.len);
	uint32		base_bytes = (slash != NULL ? slash : delta.data + delta.len) - base - 1;
	uint32		name_bytes = 1;

	while (name_bytes < older.len && strchr("/<", older.data[name_bytes]) == NULL)
		name_bytes++;
	if (name_bytes - 1 != base_bytes || memcmp(base + 1, older.data + 1, base_bytes) != 0)
		return LSM_RESTORE_OTHER;
	if (older.data[0] == LSM_TAG_DELTA)
		return LSM_RESTORE_NOT;
	appendStringInfoChar(out, LSM_TAG_VERSION);
	append_bytes(out, delta.data + 1, base - delta.data - 1);
	if (slash != NULL)
		append_bytes(out, slash, delta.data + delta.len - slash);
	return LSM_RESTORED;
}

static const LsmKindOps kind_ops = {.merge = merge_part,.restore = restore_part};

LsmDigest
lsm_digest_key(const void *key, size_t bytes)
{
	return digest_of(key, bytes);
}

#include "sst_arrays.h"

/* ---- the list of files ---- */

static uint64 flushed_generation;	/* memtables up to it are in the list */

void
lsm_manifest_read_change(LsmTree *tree, const LsmManifestPlace *since, LsmManifestChange *change)
{
	memset(change, 0, sizeof(*change));
	change->whole = true;
	change->nfiles = nmetas;
	change->files = palloc(Max(nmetas, 1) * sizeof(LsmFileMeta));
	memcpy(change->files, metas, nmetas * sizeof(LsmFileMeta));
	change->removed = palloc(1);
	change->place.version_no = pg_atomic_read_u64(&ctl.files.version_no);
	change->place.files = nmetas;
	change->flushed_generation = flushed_generation;
}

static void
note_version(void)
{
	pg_atomic_fetch_add_u64(&ctl.files.version_no, 1);
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
	int			ndeletes = 0;

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
		ndeletes += entries[i].value.data[0] == LSM_TAG_DELETE;
		Assert(i == 0 || lsm_slice_compare(entries[i - 1].key, entries[i].key) < 0);
	}
	meta->flags = set_fence(entries[0].key, meta->smallest, &meta->smallest_bytes,
							LSM_FILE_SMALLEST_CUT) |
		set_fence(entries[n - 1].key, meta->largest, &meta->largest_bytes, LSM_FILE_LARGEST_CUT);
	if (ndeletes * 4 > n)
		meta->flags |= LSM_FILE_MANY_DELETES;
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
		if (files[i]->open.idle_iter != NULL)
			lsm_sst_iter_close(files[i]->open.idle_iter);
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
	if (ctl.memory.active != NULL)
		lsm_memtable_destroy(ctl.memory.active);
	for (int i = 0; i < ctl.memory.nsealed; i++)
		lsm_memtable_destroy(ctl.memory.sealed[i]);
	memset(&ctl, 0, sizeof(ctl));
	memset(&tree, 0, sizeof(tree));
	ctl.state = LSM_STATE_LOADED;
	ctl.memory.active_generation = 1;
	flushed_generation = 0;
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

	if (ctl.memory.active == NULL)
	{
		lsm_set_change_begin(&ctl);
		ctl.memory.active = lsm_memtable_create(ctl.memory.active_generation, false);
		lsm_set_change_end(&ctl);
	}
	reserved = lsm_memtable_reserve(ctl.memory.active, key.len, value.len);
	lsm_memtable_insert(ctl.memory.active, reserved, pg_atomic_add_fetch_u64(&ctl.seq, 1), key, value,
						digest, false);
	lsm_gaps_written(&tree, &entry, 1);
}

/* False: there are enough that wait, or nothing to seal. */
static inline bool
seal(void)
{
	if (ctl.memory.active == NULL || ctl.memory.nsealed == LSM_MAX_SEALED)
		return false;
	lsm_set_change_begin(&ctl);
	ctl.memory.sealed[ctl.memory.nsealed++] = ctl.memory.active;
	ctl.memory.active = NULL;
	ctl.memory.active_generation++;
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

/* The files of the oldest sealed memtable are in the list ... */
static inline void
flush_published(void)
{
	flushed_generation = ctl.memory.sealed[0]->generation;
	note_version();
}

/* ... and it leaves the set. */
static inline void
flush_retired(void)
{
	LsmMemtable *memtable = ctl.memory.sealed[0];

	lsm_set_change_begin(&ctl);
	memmove(ctl.memory.sealed, ctl.memory.sealed + 1, --ctl.memory.nsealed * sizeof(LsmMemtable *));
	lsm_set_change_end(&ctl);
	lsm_memtable_destroy(memtable);
}

/* The oldest sealed memtable becomes a run, of files with so many entries. */
static inline bool
flush(int per_file)
{
	LsmMemtable *memtable = ctl.memory.sealed[0];
	FileEntry  *entries = malloc(per_file * sizeof(FileEntry));
	StringInfoData value;
	int			n = 0;

	if (ctl.memory.nsealed == 0)
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
	flush_published();
	flush_retired();
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

/* "+b|+a|=0", with bars or spaces: the value of these elements */
static const char element_letters[] = "?=-~+[^";

static LsmSlice
element_of(const char *text, uint32 length)
{
	static char room[16][MAX_TEXT_KEY];
	static int	nth = 0;
	char	   *out = room[nth++ % lengthof(room)];

	Assert(length < MAX_TEXT_KEY && strchr("=-~+^", text[0]) != NULL);
	memcpy(out, text, length);
	out[0] = (char) (strchr(element_letters, text[0]) - element_letters);
	return lsm_slice(out, length);
}

static inline void
value_of(const char *text, StringInfo value)
{
	resetStringInfo(value);
	while (*text != '\0')
	{
		uint32		length = strcspn(text, " |");

		lsm_chain_append(value, element_of(text, length));
		text += length;
		text += strspn(text, " |");
	}
}

/* and back */
static inline const char *
text_of(LsmSlice value, char separator)
{
	static char room[4][8192];
	static int	nth = 0;
	char	   *out = room[nth++ % lengthof(room)];
	int			n = 0;
	LsmChain	chain;
	LsmSlice	element;

	*out = '\0';
	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		if (n > 0)
			out[n++] = separator;
		n += sprintf(out + n, "%c%.*s", element_letters[(uint8) element.data[0]],
					 (int) element.len - 1, element.data + 1);
	}
	if (chain.at == NULL)
		strcpy(out + n, n > 0 ? " malformed" : "malformed");
	return out;
}

static inline LsmSlice
slice_of(StringInfo value)
{
	return lsm_slice(value->data, value->len);
}

/* "k=text" and the like */
static inline void
parse_entry(const char *word, LsmSlice *key, LsmSlice *value)
{
	static StringInfoData room;
	int			length = strcspn(word, "=~-+^");

	if (room.data == NULL)
		initStringInfo(&room);
	*key = parse_key(word, length);
	value_of(word + length, &room);
	*value = slice_of(&room);
}

/* LsmEnough */
static int	nasked;

static inline bool
has_e(void *arg, LsmSlice element)
{
	Assert(arg == &nasked && element.data[0] == LSM_TAG_VERSION);
	nasked++;
	return memchr(element.data, 'E', element.len) != NULL;
}

static const LsmEnough enough_e = {has_e, &nasked};

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
	fputs(text_of(value, '|'), out);
}

#endif							/* TREE_HARNESS_H */
