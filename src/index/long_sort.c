/*-------------------------------------------------------------------------
 *
 * long_sort.c
 *	  CREATE INDEX: a sort of entries of any length.
 *
 * Entries are laid one behind the other into chunks of memory, as they come:
 *
 *		record	LongHeader | key | value
 *
 * What is sorted is an array of pointers to them, each with the 16 bytes of its
 * key that follow those in which all keys of the memory are equal: the marker
 * of the first column, leading zeros of integers, "https://".  So two keys are
 * seldom compared where they lie, which is a cache miss each; and when they are
 * read in order, which is one for each, the next ones are fetched ahead.
 *
 * Bytes behind a key may be compared, but never decide: column codes are
 * prefix-free and the TID after them has a fixed length, so of two different
 * keys neither is a prefix of the other.
 *
 * What does not fit into the memory goes to temporary files, in runs that are
 * merged at the end; so do the runs of other processes.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/binaryheap.h"
#include "miscadmin.h"

#include "index/build.h"
#include "index/integer_codes.h"

typedef struct LongHeader
{
	uint32		key_bytes;
	uint32		value_bytes;
	uint8		flags;
} LongHeader;

/* in a record, which is not aligned */
#define HEADER_BYTES	(offsetof(LongHeader, flags) + sizeof(uint8))

typedef struct LongEntry
{
	uint64		first;			/* bytes of the key behind `shared_bytes` */
	uint64		second;			/* those that follow */
	const char *record;
} LongEntry;

#define ENTRY_KEY_BYTES	(2 * sizeof(uint64))

/* Memory of records.  Behind the last one this many bytes are there, to be read. */
#define CHUNK_BYTES		(1024 * 1024)
#define SLACK_BYTES		ENTRY_KEY_BYTES

typedef struct Chunk
{
	char	   *data;
	size_t		used;
} Chunk;

#define MIN_SORT_KB		1024
#define FETCH_AHEAD		16		/* entries */
#define CACHE_LINE_BYTES	64
#define READ_BYTES		(128 * 1024)	/* of a run at a time */
StaticAssertDecl(HEADER_BYTES + LSM_MAX_ENTRY_BYTES <= READ_BYTES,
				 "what is read of a run at a time must have room for any record");

/* A run that is read */
typedef struct LongRun
{
	BufFile    *file;
	size_t		at;				/* the current record */
	size_t		end;
	LongHeader	header;			/* of the current record */
	char		buffer[READ_BYTES];
} LongRun;

struct LsmLongSort
{
	MemoryContext context;
	LsmSortRuns runs;
	size_t		max_bytes;

	/* memory */
	Chunk	   *chunks;
	int			nchunks;		/* the last one is being filled */
	int			made;			/* chunks with memory */
	int			room;			/* for chunks */
	size_t		record_bytes;	/* of all chunks with records */
	size_t		nentries;
	const char *first_key;
	size_t		shared_bytes;	/* at the beginning of all keys */
	LongEntry  *entries;
	size_t		max_entries;

	/* reading */
	size_t		at;				/* in `entries` */
	binaryheap *heap;			/* of LongRun, or NULL: `entries` are all */
	StringInfoData copies[2];	/* the last two that were read of runs */
	int			current;
};

static inline LongHeader
read_header(const char *record)
{
	LongHeader	header;

	memcpy(&header, record, HEADER_BYTES);
	return header;
}

static inline size_t
record_bytes(const LongHeader *header)
{
	return HEADER_BYTES + header->key_bytes + (size_t) header->value_bytes;
}

static int
compare_keys(const char *a, uint32 a_bytes, const char *b, uint32 b_bytes)
{
	return memcmp(a, b, Min(a_bytes, b_bytes));
}

/* ---- sorting what is in memory ---- */

static int
compare_records(const LongEntry *a, const LongEntry *b, const LsmLongSort *sort)
{
	LongHeader	x = read_header(a->record);
	LongHeader	y = read_header(b->record);
	size_t		done = sort->shared_bytes + ENTRY_KEY_BYTES;

	if (x.key_bytes <= done || y.key_bytes <= done)
		return 0;				/* the same key twice */
	return compare_keys(a->record + HEADER_BYTES + done, x.key_bytes - done,
						b->record + HEADER_BYTES + done, y.key_bytes - done);
}

static inline int
compare_entries(const LongEntry *a, const LongEntry *b, const LsmLongSort *sort)
{
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	if (a->second != b->second)
		return a->second < b->second ? -1 : 1;
	return compare_records(a, b, sort);
}

#define ST_SORT sort_entries
#define ST_ELEMENT_TYPE LongEntry
#define ST_COMPARE(a, b, sort) compare_entries(a, b, sort)
#define ST_COMPARE_ARG_TYPE const LsmLongSort
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

static void
add_entries(LsmLongSort *sort, const Chunk *chunk)
{
	size_t		at = 0;

	while (at < chunk->used)
	{
		const char *record = chunk->data + at;
		const uint8 *key = (const uint8 *) record + HEADER_BYTES + sort->shared_bytes;
		LongHeader	header = read_header(record);
		LongEntry  *entry = &sort->entries[sort->nentries++];

		entry->first = get_uint64(key);
		entry->second = get_uint64(key + sizeof(uint64));
		entry->record = record;
		at += record_bytes(&header);
	}
	Assert(at == chunk->used);
}

static void
sort_memory(LsmLongSort *sort)
{
	size_t		n = sort->nentries;

	if (n == 0)
		return;
	if (n > sort->max_entries)
	{
		if (sort->entries != NULL)
			pfree(sort->entries);
		sort->entries = MemoryContextAllocHuge(sort->context, n * sizeof(LongEntry));
		sort->max_entries = n;
	}
	sort->nentries = 0;
	for (int i = 0; i < sort->nchunks; i++)
		add_entries(sort, &sort->chunks[i]);
	Assert(sort->nentries == n);
	sort_entries(sort->entries, n, sort);
}

/*
 * The record of entry i; those that follow are fetched into the cache.  The
 * array is in order, the records are not.
 */
static inline const char *
sorted_record(const LsmLongSort *sort, size_t i)
{
	if (i + FETCH_AHEAD < sort->nentries)
	{
		const char *ahead = sort->entries[i + FETCH_AHEAD].record;

		__builtin_prefetch(ahead);
		__builtin_prefetch(ahead + CACHE_LINE_BYTES);
	}
	return sort->entries[i].record;
}

/* ---- reading runs ---- */

/* Have `bytes` from the current record on in the buffer; false: the run ends. */
static bool
run_fill(LongRun *run, size_t bytes)
{
	if (run->end - run->at >= bytes)
		return true;
	memmove(run->buffer, run->buffer + run->at, run->end - run->at);
	run->end -= run->at;
	run->at = 0;
	run->end += BufFileRead(run->file, run->buffer + run->end, READ_BYTES - run->end);
	return run->end >= bytes;
}

/* Read the record that begins at run->at; false: the run has ended. */
static bool
run_read(LongRun *run)
{
	if (run_fill(run, HEADER_BYTES))
	{
		run->header = read_header(run->buffer + run->at);
		if (run_fill(run, record_bytes(&run->header)))
			return true;
	}
	BufFileClose(run->file);
	return false;
}

static int
compare_runs(Datum a, Datum b, void *arg)
{
	const LongRun *x = (const LongRun *) DatumGetPointer(a);
	const LongRun *y = (const LongRun *) DatumGetPointer(b);

	/* the first of a heap is the largest */
	return -compare_keys(x->buffer + x->at + HEADER_BYTES, x->header.key_bytes,
						 y->buffer + y->at + HEADER_BYTES, y->header.key_bytes);
}

/* The least entry of the runs is the first of the heap. */
static void
begin_merge(LsmLongSort *sort, List *files)
{
	ListCell   *lc;

	sort->heap = binaryheap_allocate(Max(list_length(files), 1), compare_runs, NULL);
	foreach(lc, files)
	{
		LongRun   *run = MemoryContextAlloc(sort->context, sizeof(LongRun));

		run->file = lfirst(lc);
		run->at = run->end = 0;
		if (run_read(run))
			binaryheap_add_unordered(sort->heap, PointerGetDatum(run));
		else
			pfree(run);
	}
	binaryheap_build(sort->heap);
	list_free(files);
}

/* The first run of the heap goes on behind its record. */
static void
advance(LsmLongSort *sort)
{
	LongRun    *run = (LongRun *) DatumGetPointer(binaryheap_first(sort->heap));

	run->at += record_bytes(&run->header);
	if (run_read(run))
		binaryheap_replace_first(sort->heap, PointerGetDatum(run));
	else
	{
		(void) binaryheap_remove_first(sort->heap);
		pfree(run);
	}
}

/* ---- writing runs ---- */

static void
free_memory(LsmLongSort *sort)
{
	for (int i = 0; i < sort->made; i++)
		pfree(sort->chunks[i].data);
	sort->made = sort->nchunks = 0;
	if (sort->entries != NULL)
		pfree(sort->entries);
	sort->entries = NULL;
	sort->max_entries = 0;
}

/* The runs become one of the level. */
static void
merge_runs(LsmLongSort *sort, List *files, int level)
{
	BufFile    *file;
	size_t		n = 0;

	begin_merge(sort, files);
	file = lsm_run_create(&sort->runs, level);
	while (!binaryheap_empty(sort->heap))
	{
		LongRun    *run = (LongRun *) DatumGetPointer(binaryheap_first(sort->heap));

		BufFileWrite(file, run->buffer + run->at, record_bytes(&run->header));
		advance(sort);
		if (++n % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
	}
	lsm_run_finish(&sort->runs, file);
	binaryheap_free(sort->heap);
	sort->heap = NULL;
}

/*
 * Sort what is in memory, and write it as a run.  If runs are merged then, they
 * take the place of the memory.
 */
static void
write_run(LsmLongSort *sort)
{
	BufFile    *file;
	List	   *files;
	int			level;

	sort_memory(sort);
	file = lsm_run_create(&sort->runs, 0);
	for (size_t i = 0; i < sort->nentries; i++)
	{
		const char *record = sorted_record(sort, i);
		LongHeader	header = read_header(record);

		BufFileWrite(file, (void *) record, record_bytes(&header));
		if (i % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
	}
	lsm_run_finish(&sort->runs, file);
	sort->nentries = 0;
	sort->nchunks = 0;
	sort->record_bytes = 0;
	while ((files = lsm_runs_due(&sort->runs, &level)) != NIL)
	{
		free_memory(sort);
		merge_runs(sort, files, level);
	}
}

/* ---- putting ---- */

/* See build.h. */
LsmLongSort *
lsm_long_sort_begin(int sort_kb, const LsmSortPart *part)
{
	LsmLongSort *sort = palloc0(sizeof(LsmLongSort));

	sort->context = CurrentMemoryContext;
	lsm_runs_begin(&sort->runs, sort_kb, sizeof(LongRun), part);
	sort->max_bytes = (size_t) Max(sort_kb, MIN_SORT_KB) * 1024;
	initStringInfo(&sort->copies[0]);
	initStringInfo(&sort->copies[1]);
	return sort;
}

/* An empty chunk, behind the others: a new one, or one of a run written before. */
static Chunk *
next_chunk(LsmLongSort *sort)
{
	Chunk	   *chunk;

	if (sort->nchunks == sort->room)
	{
		MemoryContext old = MemoryContextSwitchTo(sort->context);

		sort->room = Max(sort->room * 2, 64);
		sort->chunks = sort->chunks == NULL ? palloc(sort->room * sizeof(Chunk)) :
			repalloc(sort->chunks, sort->room * sizeof(Chunk));
		MemoryContextSwitchTo(old);
	}
	chunk = &sort->chunks[sort->nchunks];
	if (sort->nchunks == sort->made)
	{
		chunk->data = MemoryContextAlloc(sort->context, CHUNK_BYTES + SLACK_BYTES);
		memset(chunk->data + CHUNK_BYTES, 0, SLACK_BYTES);
		sort->made++;
	}
	chunk->used = 0;
	sort->nchunks++;
	return chunk;
}

static inline void
share_bytes(LsmLongSort *sort, LsmSlice key)
{
	size_t		n = Min(sort->shared_bytes, key.len);

	if (likely(n == sort->shared_bytes && memcmp(sort->first_key, key.data, n) == 0))
		return;
	for (size_t i = 0; i < n; i++)
	{
		if (sort->first_key[i] != key.data[i])
			n = i;
	}
	sort->shared_bytes = n;
}

/* See build.h. */
void
lsm_long_sort_put(LsmLongSort *sort, LsmSlice key, LsmSlice value, uint8 flags)
{
	LongHeader	header = {.key_bytes = key.len,.value_bytes = value.len,.flags = flags};
	size_t		bytes = record_bytes(&header);
	Chunk	   *chunk = sort->nchunks > 0 ? &sort->chunks[sort->nchunks - 1] : NULL;
	char	   *record;

	if (sort->nentries > 0 && sort->record_bytes + bytes +
		(sort->nentries + 1) * sizeof(LongEntry) > sort->max_bytes)
	{
		write_run(sort);
		chunk = NULL;
	}
	if (chunk == NULL || chunk->used + bytes > CHUNK_BYTES)
		chunk = next_chunk(sort);
	record = chunk->data + chunk->used;
	memcpy(record, &header, HEADER_BYTES);
	memcpy(record + HEADER_BYTES, key.data, key.len);
	memcpy(record + HEADER_BYTES + key.len, value.data, value.len);
	chunk->used += bytes;
	sort->record_bytes += bytes;
	if (sort->nentries++ == 0)
	{
		sort->first_key = record + HEADER_BYTES;
		sort->shared_bytes = key.len;
	}
	else
		share_bytes(sort, key);
}

/* ---- reading ---- */

/* See build.h. */
void
lsm_long_sort_perform(LsmLongSort *sort)
{
	List	   *files;
	int			level;

	if (sort->runs.shared == NULL && sort->runs.runs == NIL)
	{
		sort_memory(sort);
		return;
	}
	if (sort->runs.shared == NULL || sort->runs.participant >= 0)
		write_run(sort);
	free_memory(sort);
	if (sort->runs.shared != NULL && sort->runs.participant >= 0)
		return;

	while (files = lsm_runs_read(&sort->runs, &level), level >= 0)
		merge_runs(sort, files, level);
	begin_merge(sort, files);
}

static void
give_record(const char *record, const LongHeader *header, LsmItem *item)
{
	item->key = lsm_slice(record + HEADER_BYTES, header->key_bytes);
	item->value = lsm_slice(record + HEADER_BYTES + header->key_bytes, header->value_bytes);
	item->flags = header->flags;
}

/* See build.h. */
bool
lsm_long_sort_next(LsmLongSort *sort, LsmItem *item)
{
	LongHeader	header;
	const LongRun *run;
	StringInfo	copy;

	if (sort->heap == NULL)
	{
		const char *record;

		if (sort->at == sort->nentries)
			return false;
		record = sorted_record(sort, sort->at++);
		header = read_header(record);
		give_record(record, &header, item);
		return true;
	}
	if (binaryheap_empty(sort->heap))
		return false;
	run = (const LongRun *) DatumGetPointer(binaryheap_first(sort->heap));
	header = run->header;
	sort->current ^= 1;
	copy = &sort->copies[sort->current];
	resetStringInfo(copy);
	appendBinaryStringInfo(copy, run->buffer + run->at, record_bytes(&header));
	give_record(copy->data, &header, item);
	advance(sort);
	return true;
}

/* See build.h.  Files that were not read to their end are closed. */
void
lsm_long_sort_end(LsmLongSort *sort)
{
	while (sort->heap != NULL && !binaryheap_empty(sort->heap))
		BufFileClose(((LongRun *) DatumGetPointer(binaryheap_remove_first(sort->heap)))->file);
	if (sort->heap != NULL)
		binaryheap_free(sort->heap);
	free_memory(sort);
	if (sort->chunks != NULL)
		pfree(sort->chunks);
	pfree(sort->copies[0].data);
	pfree(sort->copies[1].data);
	pfree(sort);
}
