/*-------------------------------------------------------------------------
 *
 * ahead.c
 *	  Runs whose entries alternate are read ahead.
 *
 * Where few entries in a row come from one run, most of a merge's time goes to
 * what is done anew for each turn: calls, bounds, and branches that cannot be
 * predicted.  Here each such run copies entries of its block a chunk at a time,
 * and which is next is decided by one word of each key, without branches, as in
 * merge.c.
 *
 * A source that has been read ahead stands on an entry of its chunk; its
 * iterator, on the chunk's last entry or right behind it.  All that is done
 * with sources one entry at a time goes on from there (source.c).  So this
 * merge leaves off wherever anything unusual comes: an entry that is no row, an
 * entry of a memtable, what a file cannot give in one piece.
 *
 * Chunks are copies: nothing in them can change while the source lasts, which
 * goes with the version.
 *
 * Locking: none.  The caller is inside the epoch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/read/cursor.h"
#include "tree/read/version.h"

/* Of a chunk's copies */
#define CHUNK_BYTES		(8 * 1024)

/* Shorter entries are copied as if they had this length: no loop, no branch. */
#define SHORT_BYTES		32

StaticAssertDecl(SHORT_BYTES >= LSM_SST_KEY_SLACK, "keys have readable bytes behind them");

/* A word that begins so many bytes later is worth making all words anew. */
#define WORD_GAIN_BYTES 4

/* More are left to the merge that looks at one entry at a time. */
#define MAX_SOURCES		64

/* Runs from which so many entries come in a row do not alternate. */
#define MANY_IN_A_ROW	8

typedef struct Merge
{
	LsmCursor  *cursor;
	LsmSlice	limit;
	int			max_entries;
	LsmBatch   *batch;
	int			n;				/* sources that are read ahead */
	LsmSource **sources;		/* newest first */
	uint64	   *words;			/* of their present keys */
	bool		stops;			/* before this key of another source */
	LsmSlice	stop;
	uint64		stop_word;
	int			turns;			/* taken by one source after another */
} Merge;

static inline LsmSlice
chunk_key(const LsmAhead *ahead, int i)
{
	return lsm_slice(ahead->bytes + ahead->entries[i].key_offset, ahead->entries[i].key_bytes);
}

static LsmAhead *
chunk_of(LsmCursor *cursor, const LsmSource *source)
{
	int			i = source - cursor->sources;

	if (cursor->max_aheads < cursor->max_sources)
	{
		LsmAhead  **aheads = MemoryContextAllocZero(cursor->cxt,
													cursor->max_sources * sizeof(LsmAhead *));

		if (cursor->aheads != NULL)
		{
			memcpy(aheads, cursor->aheads, cursor->max_aheads * sizeof(LsmAhead *));
			pfree(cursor->aheads);
		}
		cursor->aheads = aheads;
		cursor->max_aheads = cursor->max_sources;
	}
	if (cursor->aheads[i] == NULL)
	{
		LsmAhead   *ahead = MemoryContextAlloc(cursor->cxt, sizeof(LsmAhead));

		ahead->bytes = MemoryContextAlloc(cursor->cxt, CHUNK_BYTES + SHORT_BYTES);
		cursor->aheads[i] = ahead;
	}
	return cursor->aheads[i];
}

/*
 * Copy entries, from the iterator's on.  False: that one cannot be.
 * REQUIRES: the source stands on the iterator's entry.
 */
static bool
read_chunk(Merge *merge, LsmSource *source)
{
	LsmAhead   *ahead = chunk_of(merge->cursor, source);
	LsmSstBatch take = {
		.bound = merge->limit.data,
		.bound_bytes = merge->limit.len,
		.bound_readable = merge->limit.len,
		.bound_prefix = true,
		.first_byte = LSM_TAG_PUT,
		.entries = ahead->entries,
		.max = merge->max_entries,
		.bytes = ahead->bytes,
		.capacity = CHUNK_BYTES,
		.headroom = merge->batch->headroom,
		.aligned = merge->batch->aligned,
	};
	LsmSstError err;

	lsm_sst_check(lsm_sst_iter_read_batch(source->iter, &take, &ahead->taken, &err), &err);
	if (take.n == 0)
		return false;
	ahead->n = take.n;
	ahead->at = 0;
	ahead->words_behind = -1;
	source->ahead = ahead;
	source->key = chunk_key(ahead, 0);
	return true;
}

/*
 * Which sources are read ahead, and where the others' first entry is.  False:
 * that one comes first, or there are none.
 */
static bool
gather_sources(Merge *merge)
{
	LsmCursor  *cursor = merge->cursor;

	merge->n = 0;
	merge->stops = false;
	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (!source->valid)
			continue;
		if (source->ahead != NULL || (source->alternates && read_chunk(merge, source)))
			merge->sources[merge->n++] = source;
		else if (!merge->stops || lsm_slice_compare(source->key, merge->stop) < 0)
		{
			merge->stops = true;
			merge->stop = source->key;
		}
	}
	return merge->n > 0;
}

static void
make_words(LsmAhead *ahead, int common_bytes)
{
	if (ahead->words_behind == common_bytes)
		return;
	ahead->words_behind = common_bytes;
	for (int i = ahead->at; i < ahead->n; i++)
	{
		LsmSlice	key = chunk_key(ahead, i);

		ahead->words[i] = lsm_word(key.data + common_bytes, key.len - common_bytes, 0);
	}
}

/*
 * Make words to compare.  False: no entry comes before the stop, or one has no
 * place here: beyond the limit of this call.
 */
static bool
prepare_words(Merge *merge)
{
	LsmCursor  *cursor = merge->cursor;
	LsmSlice	low = merge->sources[0]->key;
	LsmSlice	high = low;
	int			common = 0;

	for (int i = 0; i < merge->n; i++)
	{
		const LsmAhead *ahead = merge->sources[i]->ahead;
		LsmSlice	last = chunk_key(ahead, ahead->n - 1);

		if (lsm_slice_compare(merge->sources[i]->key, low) < 0)
			low = merge->sources[i]->key;
		if (lsm_slice_compare(last, high) > 0)
			high = last;
	}
	if ((merge->stops && lsm_slice_compare(merge->stop, low) <= 0) ||
		lsm_bytes_compare(high.data, merge->limit.data, Min(high.len, merge->limit.len)) > 0)
		return false;
	while (common < (int) Min(low.len, high.len) && low.data[common] == high.data[common])
		common++;
	if (common < cursor->words_behind || common >= cursor->words_behind + WORD_GAIN_BYTES)
		cursor->words_behind = common;
	common = cursor->words_behind;
	for (int i = 0; i < merge->n; i++)
	{
		make_words(merge->sources[i]->ahead, common);
		merge->words[i] = merge->sources[i]->ahead->words[merge->sources[i]->ahead->at];
	}

	/* what lies between two keys begins as they do */
	merge->stops = merge->stops && lsm_slice_compare(merge->stop, high) <= 0;
	merge->stop_word = !merge->stops ? PG_UINT64_MAX :
		lsm_word(merge->stop.data + common, merge->stop.len - common, 0);
	return true;
}

/* Copied with what lies between key and value, so that both stay aligned */
static inline void
append_copy(LsmBatch *batch, const LsmAhead *ahead)
{
	const LsmSstEntry *from = &ahead->entries[ahead->at];
	LsmSstEntry *to = &batch->entries[batch->n++];
	uint32		at = batch->bytes.len + ((from->key_offset - (uint32) batch->bytes.len) & 7);
	uint32		bytes = from->value_offset + from->value_bytes - from->key_offset;

	if (unlikely(at + Max(bytes, SHORT_BYTES) >= (uint32) batch->bytes.maxlen))
		enlargeStringInfo(&batch->bytes, at + Max(bytes, SHORT_BYTES) - batch->bytes.len);
	if (bytes <= SHORT_BYTES)
		memcpy(batch->bytes.data + at, ahead->bytes + from->key_offset, SHORT_BYTES);
	else
		memcpy(batch->bytes.data + at, ahead->bytes + from->key_offset, bytes);
	batch->bytes.len = at + bytes;
	to->key_offset = at;
	to->key_bytes = from->key_bytes;
	to->value_offset = at + from->value_offset - from->key_offset;
	to->value_bytes = from->value_bytes;
}

/*
 * Which source has the first of the entries, if several begin with the same
 * word: the newest of those that have the key.
 */
static int
first_of_ties(const Merge *merge, uint64 word)
{
	int			first = -1;

	for (int i = 0; i < merge->n; i++)
	{
		if (merge->words[i] == word &&
			(first < 0 || lsm_slice_compare(merge->sources[i]->key,
											merge->sources[first]->key) < 0))
			first = i;
	}
	return first;
}

/* Step the source.  False: its chunk is at the end. */
static inline bool
step(Merge *merge, int i)
{
	LsmSource  *source = merge->sources[i];
	LsmAhead   *ahead = source->ahead;

	if (unlikely(ahead->at + 1 == ahead->n))
	{
		source->consumed = true;
		return false;
	}
	ahead->at++;
	source->key = chunk_key(ahead, ahead->at);
	merge->words[i] = ahead->words[ahead->at];
	return true;
}

/* Older entries of the same key are passed.  False: a chunk is at the end. */
static bool
pass_older(Merge *merge, LsmSlice key, uint64 word, int first)
{
	bool		more = true;

	for (int i = first + 1; i < merge->n; i++)
	{
		if (merge->words[i] == word && lsm_slice_compare(merge->sources[i]->key, key) == 0)
			more &= step(merge, i);
	}
	return more;
}

/*
 * Append entries up to the stop, the end of the batch or that of a chunk.
 * False: not up to the end of a chunk.
 */
static bool
merge_chunks(Merge *merge)
{
	LsmBatch   *batch = merge->batch;
	int			before = -1;

	for (;;)
	{
		uint64		word = merge->words[0];
		uint64		next_word = PG_UINT64_MAX;	/* of the other sources */
		int			first = 0;
		bool		more = true;

		for (int i = 1; i < merge->n; i++)
		{
			uint64		other = merge->words[i];
			uint64		larger = Max(other, word);

			first = other < word ? i : first;
			word = Min(other, word);
			next_word = Min(next_word, larger);
		}
		if (unlikely(next_word == word))
			first = first_of_ties(merge, word);
		if (unlikely(word >= merge->stop_word) && merge->stops &&
			lsm_slice_compare(merge->sources[first]->key, merge->stop) >= 0)
			return false;
		merge->turns += first != before;
		before = first;
		if (unlikely(next_word == word))
			more = pass_older(merge, merge->sources[first]->key, word, first);
		append_copy(batch, merge->sources[first]->ahead);
		more &= step(merge, first);
		if (batch->n >= merge->max_entries || batch->bytes.len >= LSM_BATCH_BYTES)
			return false;
		if (!more)
			return true;
	}
}

/* Step sources whose chunks are at the end. */
static void
leave_chunks(Merge *merge)
{
	for (int i = 0; i < merge->n; i++)
	{
		LsmSource  *source = merge->sources[i];

		if (source->consumed)
			lsm_source_advance(merge->cursor, source, true);
	}
}

/* Sources are to be as those that have not been read ahead. */
static void
make_source_words(Merge *merge)
{
	for (int i = 0; i < merge->n; i++)
	{
		LsmSource  *source = merge->sources[i];

		if (source->valid)
			source->word = lsm_word(source->key.data, source->key.len, 0);
	}
}

void
lsm_ahead_merge(LsmCursor *cursor, LsmSlice limit, int max_entries, LsmBatch *batch)
{
	LsmSource  *sources[MAX_SOURCES];
	uint64		words[MAX_SOURCES];
	Merge		merge = {
		.cursor = cursor,
		.limit = limit,
		.max_entries = max_entries,
		.batch = batch,
		.sources = sources,
		.words = words,
	};
	int			before = batch->n;

	/* what is there twice is in no order then, and has to be settled */
	if (cursor->nsources > MAX_SOURCES || unlikely(cursor->version->salvaged))
		return;
	while (gather_sources(&merge) && prepare_words(&merge))
	{
		bool		more = merge_chunks(&merge);

		make_source_words(&merge);
		if (!more)
			break;
		leave_chunks(&merge);
	}
	if (batch->n - before < merge.turns * MANY_IN_A_ROW || batch->n - before < max_entries / 2)
		return;
	for (int i = 0; i < cursor->nsources; i++)
		cursor->sources[i].alternates = false;
}
