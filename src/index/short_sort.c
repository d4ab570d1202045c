/*-------------------------------------------------------------------------
 *
 * short_sort.c
 *	  CREATE INDEX: a sort of entries that are a column of at most eight bytes
 *	  and a TID.
 *
 * tuplesort has a pointer for each entry, and goes to memory in the order of
 * the table whenever one is copied out: a cache miss each, which is what a
 * build of random integers consists of.  Here an entry is 16 bytes, sorted
 * where they are by PostgreSQL's lib/sort_template.h.  What does not fit into
 * the memory goes to temporary files, in runs that are merged at the end; so
 * do the runs of other processes.
 *
 *		code	value part of the column's code, a big-endian number
 *		word	block, 32 bits | offset, 16 | marker, 8 | flags, 8
 *
 * Order is that of keys: marker of the code, code, TID.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/binaryheap.h"
#include "miscadmin.h"
#include "storage/buffile.h"

#include "index/build.h"
#include "index/integer_codes.h"

typedef struct ShortEntry
{
	uint64		code;
	uint64		word;
} ShortEntry;

#define MARKER_SHIFT	8
#define MARKER_MASK		(UINT64CONST(0xFF) << MARKER_SHIFT)
#define FLAGS_MASK		UINT64CONST(0xFF)
#define OFFSET_SHIFT	16
#define BLOCK_SHIFT		32

/* A run has at least this many entries, whatever the memory: 256 kB */
#define MIN_RUN_ENTRIES	(16 * 1024)
#define FIRST_ENTRIES	1024

#define READ_ENTRIES	8192	/* of a run at a time: 128 kB */

/* A run that is read */
typedef struct ShortRun
{
	BufFile    *file;
	int			at;
	int			n;
	ShortEntry	entries[READ_ENTRIES];
} ShortRun;

struct LsmShortSort
{
	MemoryContext context;
	int			value_bytes;	/* of the code behind its marker */
	LsmSortRuns runs;
	size_t		max_entries;	/* in memory */
	size_t		nentries;
	size_t		room;
	ShortEntry *entries;

	/* reading */
	size_t		at;				/* in `entries` */
	binaryheap *heap;			/* of ShortRun, or NULL: `entries` are all */
	StringInfoData keys[2];		/* the last two that were read */
	int			current;
};

static inline int
compare_entries(const ShortEntry *a, const ShortEntry *b)
{
	if (unlikely(((a->word ^ b->word) & MARKER_MASK) != 0))
		return (a->word & MARKER_MASK) < (b->word & MARKER_MASK) ? -1 : 1;
	if (a->code != b->code)
		return a->code < b->code ? -1 : 1;
	return a->word < b->word ? -1 : a->word > b->word;
}

#define ST_SORT sort_entries
#define ST_ELEMENT_TYPE ShortEntry
#define ST_COMPARE(a, b) compare_entries(a, b)
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

/* ---- reading runs ---- */

/* False: the run has ended. */
static bool
run_read(ShortRun *run)
{
	run->at = 0;
	run->n = BufFileRead(run->file, run->entries, sizeof(run->entries)) / sizeof(ShortEntry);
	if (run->n > 0)
		return true;
	BufFileClose(run->file);
	return false;
}

static int
compare_runs(Datum a, Datum b, void *arg)
{
	const ShortRun *x = (const ShortRun *) DatumGetPointer(a);
	const ShortRun *y = (const ShortRun *) DatumGetPointer(b);

	/* the first of a heap is the largest */
	return -compare_entries(&x->entries[x->at], &y->entries[y->at]);
}

/* The least entry of the runs is the first of the heap. */
static void
begin_merge(LsmShortSort *sort, List *files)
{
	ListCell   *lc;

	sort->heap = binaryheap_allocate(Max(list_length(files), 1), compare_runs, NULL);
	foreach(lc, files)
	{
		ShortRun   *run = MemoryContextAlloc(sort->context, sizeof(ShortRun));

		run->file = lfirst(lc);
		if (run_read(run))
			binaryheap_add_unordered(sort->heap, PointerGetDatum(run));
		else
			pfree(run);
	}
	binaryheap_build(sort->heap);
	list_free(files);
}

/* False at the end */
static inline bool
next_entry(LsmShortSort *sort, ShortEntry *entry)
{
	ShortRun   *run;

	if (sort->heap == NULL)
	{
		if (sort->at == sort->nentries)
			return false;
		*entry = sort->entries[sort->at++];
		return true;
	}
	if (binaryheap_empty(sort->heap))
		return false;
	run = (ShortRun *) DatumGetPointer(binaryheap_first(sort->heap));
	*entry = run->entries[run->at++];
	if (run->at < run->n || run_read(run))
		binaryheap_replace_first(sort->heap, PointerGetDatum(run));
	else
	{
		(void) binaryheap_remove_first(sort->heap);
		pfree(run);
	}
	return true;
}

/* ---- writing runs ---- */

static void
sort_memory(LsmShortSort *sort)
{
	if (sort->nentries > 1)
		sort_entries(sort->entries, sort->nentries);
}

static void
free_memory(LsmShortSort *sort)
{
	if (sort->entries != NULL)
		pfree(sort->entries);
	sort->entries = NULL;
	sort->room = 0;
}

/* The runs become one of the level. */
static void
merge_runs(LsmShortSort *sort, List *files, int level)
{
	BufFile    *file;
	ShortEntry	entry;
	size_t		n = 0;

	begin_merge(sort, files);
	file = lsm_run_create(&sort->runs, level);
	while (next_entry(sort, &entry))
	{
		BufFileWrite(file, &entry, sizeof(entry));
		if (++n % READ_ENTRIES == 0)
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
write_run(LsmShortSort *sort)
{
	BufFile    *file;
	List	   *files;
	int			level;

	sort_memory(sort);
	file = lsm_run_create(&sort->runs, 0);
	for (size_t i = 0; i < sort->nentries; i += READ_ENTRIES)
	{
		CHECK_FOR_INTERRUPTS();
		BufFileWrite(file, sort->entries + i,
					 Min(READ_ENTRIES, sort->nentries - i) * sizeof(ShortEntry));
	}
	lsm_run_finish(&sort->runs, file);
	sort->nentries = 0;
	while ((files = lsm_runs_due(&sort->runs, &level)) != NIL)
	{
		free_memory(sort);
		merge_runs(sort, files, level);
	}
}

/* ---- putting ---- */

/* See build.h. */
bool
lsm_sorts_short(const LsmKeySpec *spec)
{
	return spec->nkeys == 1 && spec->nincluded == 0 && spec->nkept == 0 &&
		lsm_value_extent(spec->columns[0].type, spec->columns[0].strings) <= sizeof(uint64);
}

/* See build.h. */
LsmShortSort *
lsm_short_sort_begin(const LsmKeySpec *spec, int sort_kb, const LsmSortPart *part)
{
	LsmShortSort *sort = palloc0(sizeof(LsmShortSort));

	Assert(lsm_sorts_short(spec));
	sort->context = CurrentMemoryContext;
	sort->value_bytes = lsm_value_extent(spec->columns[0].type, spec->columns[0].strings);
	lsm_runs_begin(&sort->runs, sort_kb, sizeof(ShortRun), part);
	sort->max_entries = Max((size_t) sort_kb * 1024 / sizeof(ShortEntry), MIN_RUN_ENTRIES);
	initStringInfo(&sort->keys[0]);
	initStringInfo(&sort->keys[1]);
	return sort;
}

static void
make_room(LsmShortSort *sort)
{
	if (sort->room == sort->max_entries)
	{
		write_run(sort);
		if (sort->entries != NULL)
			return;
	}
	if (sort->entries == NULL)
	{
		sort->room = FIRST_ENTRIES;
		sort->entries = MemoryContextAlloc(sort->context, sort->room * sizeof(ShortEntry));
		return;
	}
	sort->room = Min(sort->room * 2, sort->max_entries);
	sort->entries = repalloc_huge(sort->entries, sort->room * sizeof(ShortEntry));
}

/* See build.h. */
void
lsm_short_sort_put(LsmShortSort *sort, LsmSlice key, uint8 flags)
{
	const uint8 *code = (const uint8 *) key.data;
	ShortEntry *entry;
	uint32		block;
	uint16		offset;

	if (sort->nentries == sort->room)
		make_room(sort);
	entry = &sort->entries[sort->nentries++];
	entry->code = 0;
	if (code[0] == LSM_CODE_NOT_NULL)
	{
		Assert(key.len == 1 + sort->value_bytes + LSM_TID_BYTES);
		for (int i = 1; i <= sort->value_bytes; i++)
			entry->code = entry->code << BITS_PER_BYTE | code[i];
	}
	else
		Assert(key.len == 1 + LSM_TID_BYTES);
	lsm_tid_read(key.data + key.len - LSM_TID_BYTES, &block, &offset);
	entry->word = (uint64) block << BLOCK_SHIFT | (uint64) offset << OFFSET_SHIFT |
		(uint64) code[0] << MARKER_SHIFT | flags;
}

/* ---- reading ---- */

/* See build.h. */
void
lsm_short_sort_perform(LsmShortSort *sort)
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

/* See build.h. */
bool
lsm_short_sort_next(LsmShortSort *sort, LsmItem *item)
{
	static const char put = LSM_TAG_PUT;
	StringInfo	key = &sort->keys[sort->current];
	ShortEntry	entry;
	ItemPointerData tid;
	uint8		marker;

	if (!next_entry(sort, &entry))
		return false;
	sort->current ^= 1;
	marker = (uint8) ((entry.word & MARKER_MASK) >> MARKER_SHIFT);
	resetStringInfo(key);
	appendStringInfoCharMacro(key, (char) marker);
	if (marker == LSM_CODE_NOT_NULL)
	{
		uint64		code = pg_hton64(entry.code);

		appendBinaryStringInfo(key, (char *) &code + sizeof(code) - sort->value_bytes,
							   sort->value_bytes);
	}
	ItemPointerSet(&tid, (BlockNumber) (entry.word >> BLOCK_SHIFT),
				   (OffsetNumber) (entry.word >> OFFSET_SHIFT));
	lsm_encode_tid(&tid, key);
	item->key = lsm_slice(key->data, key->len);
	item->value = lsm_slice(&put, 1);
	item->flags = (uint8) (entry.word & FLAGS_MASK);
	return true;
}

/* See build.h.  Files that were not read to their end are closed. */
void
lsm_short_sort_end(LsmShortSort *sort)
{
	while (sort->heap != NULL && !binaryheap_empty(sort->heap))
		BufFileClose(((ShortRun *) DatumGetPointer(binaryheap_remove_first(sort->heap)))->file);
	if (sort->heap != NULL)
		binaryheap_free(sort->heap);
	free_memory(sort);
	pfree(sort->keys[0].data);
	pfree(sort->keys[1].data);
	pfree(sort);
}
