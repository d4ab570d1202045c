/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  The merge of a cursor, one entry at a time or many.
 *
 * Which source is next is decided by one word of each key (merge.h), behind what
 * keys around here have in common: they are made anew where they do not tell.
 *
 * What comes before the other sources' entries is taken from a file's block in
 * one piece.  Backward it is read forward, from a restart of the block to the
 * present entry, and then turned around.
 *
 * Where few entries in a row come from one run, most of a merge's time would go
 * to what is done anew for each turn: calls, bounds, and branches that cannot be
 * predicted.  So each such run is read ahead, a chunk of entries at a time.  Its
 * source stands on an entry of the chunk; its iterator, on the chunk's last entry
 * or right behind it.  Chunks are copies: nothing in them can change while the
 * source lasts, which goes with the version.
 *
 * Locking: as cursor.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/memtable/memtable.h"
#include "tree/read/cursor.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* Room that a batch backward begins with: a few restarts' entries */
#define BACK_BYTES	(8 * 1024)

static inline LsmSlice
source_value(const LsmSource *source)
{
	LsmMemValue *value;

	if (source->memtable == NULL)
		return lsm_source_file_value(source);
	value = lsm_memnode_value(source->node);
	return lsm_slice(value->data, value->len);
}

static void
batch_append(LsmBatch *batch, LsmSlice key, LsmSlice value)
{
	LsmSstEntry *entry = &batch->entries[batch->n++];
	uint32		at = batch->bytes.len;
	uint32		value_at = TYPEALIGN(8, at + key.len + batch->headroom + batch->aligned) -
		batch->aligned;
	uint32		end = value_at + value.len;

	if (unlikely(end >= (uint32) batch->bytes.maxlen))
		enlargeStringInfo(&batch->bytes, end - at);
	memcpy(batch->bytes.data + at, key.data, key.len);
	memcpy(batch->bytes.data + value_at, value.data, value.len);
	batch->bytes.len = end;
	entry->key_offset = at;
	entry->key_bytes = key.len;
	entry->value_offset = value_at;
	entry->value_bytes = value.len;
}

/* An entry that was read ahead: with what lies between key and value, so that both stay aligned */
static inline void
append_ahead(LsmBatch *batch, const LsmAhead *ahead)
{
	const LsmSstEntry *from = &ahead->entries[ahead->at];
	LsmSstEntry *to = &batch->entries[batch->n++];
	uint32		at = batch->bytes.len + ((from->key_offset - (uint32) batch->bytes.len) & 7);
	uint32		bytes = from->value_offset + from->value_bytes - from->key_offset;

	if (unlikely(at + Max(bytes, LSM_SHORT_BYTES) >= (uint32) batch->bytes.maxlen))
		enlargeStringInfo(&batch->bytes, at + Max(bytes, LSM_SHORT_BYTES) - batch->bytes.len);
	if (bytes <= LSM_SHORT_BYTES)
		memcpy(batch->bytes.data + at, ahead->bytes + from->key_offset, LSM_SHORT_BYTES);
	else
		memcpy(batch->bytes.data + at, ahead->bytes + from->key_offset, bytes);
	batch->bytes.len = at + bytes;
	to->key_offset = at;
	to->key_bytes = from->key_bytes;
	to->value_offset = at + from->value_offset - from->key_offset;
	to->value_bytes = from->value_bytes;
}

/* ---- which source is next ---- */

/* Words begin this many bytes before what keys have in common ends. */
#define WORD_SLACK_BYTES	2

/*
 * Several entries have this word, which is the first: words are made anew, behind
 * what the keys of these have in common.  The words of those that come next will
 * differ then.
 */
static void
make_words(LsmCursor *cursor, uint64 word)
{
	LsmSlice	low = lsm_slice(NULL, 0);
	LsmSlice	high = low;
	uint32		n = 0;

	for (int i = 0; i < cursor->nsources; i++)
	{
		const LsmMergeEntry *entry = &cursor->sources[i].entry;

		if (!entry->valid || entry->word != word)
			continue;
		if (low.data == NULL || lsm_slice_compare(entry->key, low) < 0)
			low = entry->key;
		if (high.data == NULL || lsm_slice_compare(entry->key, high) > 0)
			high = entry->key;
	}
	if (low.data != high.data)
	{
		while (n < Min(low.len, high.len) && n < LSM_COMMON_BYTES && low.data[n] == high.data[n])
			n++;
		n -= Min(n, WORD_SLACK_BYTES);
	}
	if (n <= cursor->common_bytes &&
		lsm_slice_has_prefix(low, lsm_slice(cursor->common, cursor->common_bytes)))
		return;
	cursor->common_bytes = n;
	memcpy(cursor->common, low.data, n);
	lsm_cursor_set_end(cursor, cursor->end);
	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (source->entry.valid)
			source->entry.word = lsm_cursor_word(cursor, source->entry.key);
		if (source->ahead != NULL)
			lsm_ahead_note_common(cursor, source->ahead);
	}
}

/* Several sources have the first word, or none has an entry. */
static pg_noinline int
pick_by_keys(LsmCursor *cursor, bool forward, uint64 word, bool make)
{
	bool		differ;
	int			nties = lsm_merge_ties(&cursor->sources->entry, sizeof(LsmSource),
									   cursor->nsources, word, forward, cursor->ties, &differ);

	if (make && nties > 0 && (differ || word == PG_UINT64_MAX))
		make_words(cursor, word);
	return nties;
}

/*
 * The next entry's sources go to ties; their number, 0 at the end.  `make`: words
 * that do not tell may be made anew.
 */
static inline int
pick(LsmCursor *cursor, bool forward, bool make)
{
	uint64		word;
	uint64		next;

	if (cursor->nsources == 0)
		return 0;
	cursor->ties[0] = lsm_merge_least(&cursor->sources->entry, sizeof(LsmSource),
									  cursor->nsources, &word, &next);
	return likely(next != word) ? 1 : pick_by_keys(cursor, forward, word, make);
}

/* The first of the other sources, or NULL.  REQUIRES: the source has no ties. */
static LsmSource *
runner_up(LsmCursor *cursor, LsmSource *source, bool forward)
{
	LsmMergeEntry entry = source->entry;
	LsmSource  *next = NULL;

	lsm_source_take_none(source);
	if (pick(cursor, forward, false) > 0)
		next = &cursor->sources[cursor->ties[0]];
	source->entry = entry;
	cursor->ties[0] = source - cursor->sources;
	return next;
}

/* Is the source's entry beyond the last that begins with cursor->end? */
static inline bool
beyond_end(const LsmCursor *cursor, const LsmSource *source, bool forward)
{
	LsmSlice	key = source->entry.key;
	int			c;

	if (likely(source->entry.word < cursor->end_word))
		return false;
	c = lsm_bytes_compare(key.data, cursor->end.data, Min(key.len, cursor->end.len));
	return forward ? c > 0 : c < 0;
}

/*
 * The sources' entries alternate where fewer are taken at a time, and no longer
 * where this many are.
 */
#define FEW_TAKEN 8

/* Where what is to be taken from the source ends. */
static inline void
batch_set_bound(LsmCursor *cursor, LsmSource *source, LsmSstBatch *take)
{
	LsmSource  *next = runner_up(cursor, source, true);
	LsmSlice	bound = cursor->end;

	take->bound_readable = bound.len;
	take->bound_prefix = next == NULL || beyond_end(cursor, next, true);
	if (!take->bound_prefix)
	{
		bound = next->entry.key;
		take->bound_readable = bound.len + (next->memtable == NULL ? LSM_SST_KEY_SLACK : 0);
	}
	if (lsm_file_before(&source->run->files[source->at], bound))
	{
		/* nothing in this file needs to be compared with it */
		take->bound_prefix = true;
		bound.len = 0;
	}
	take->bound = bound.data;
	take->bound_bytes = bound.len;
}

/* Where to: the batch. */
static inline void
batch_set_room(LsmBatch *batch, int max_entries, LsmSstBatch *take)
{
	take->first_byte = LSM_TAG_PUT;
	take->entries = batch->entries;
	take->n = batch->n;
	take->max = max_entries;
	take->bytes = batch->bytes.data;
	take->used = batch->bytes.len;
	take->capacity = Min(batch->bytes.maxlen - 1, LSM_BATCH_BYTES);
	take->headroom = batch->headroom;
	take->aligned = batch->aligned;
}

/*
 * What was taken belongs to the batch.  False: nothing was.  Else the source is
 * at the last entry taken (consumed) or at the first that was not.
 */
static inline bool
batch_took(LsmCursor *cursor, LsmSource *source, const LsmSstBatch *take, bool taken,
		   bool forward, LsmBatch *batch)
{
	int			n = take->n - batch->n;

	if (n == 0)
		return false;
	source->alternates = !taken && n < FEW_TAKEN;
	batch->n = take->n;
	batch->bytes.len = take->used;
	source->consumed = taken;
	if (!taken)
		lsm_source_take_entry(cursor, source, forward);
	return true;
}

/*
 * Take from a source of files what comes before the other sources' entries, as
 * far as it lies in the present block and is whole.  False: nothing did.
 */
static bool
batch_take(LsmCursor *cursor, LsmSource *source, int max_entries, LsmBatch *batch)
{
	LsmSstBatch take;
	LsmSstError err;
	bool		taken;

	batch_set_bound(cursor, source, &take);
	batch_set_room(batch, max_entries, &take);
	lsm_sst_check(lsm_sst_iter_read_batch(source->iter, &take, &taken, &err), &err);
	return batch_took(cursor, source, &take, taken, true, batch);
}

/* Backward: what comes behind the other sources' entries, and the end. */
static bool
batch_take_back(LsmCursor *cursor, LsmSource *source, int max_entries, LsmBatch *batch)
{
	LsmSource  *next = runner_up(cursor, source, false);
	LsmSlice	bound = cursor->end;
	LsmSstBatch take = {.bound_prefix = true};
	LsmSstError err;
	bool		taken;

	if (next != NULL && lsm_slice_compare(next->entry.key, bound) >= 0)
	{
		bound = next->entry.key;
		take.bound_prefix = false;
	}
	take.bound = bound.data;
	take.bound_bytes = bound.len;
	if (batch->bytes.maxlen < BACK_BYTES)
		enlargeStringInfo(&batch->bytes, BACK_BYTES);
	batch_set_room(batch, max_entries, &take);
	lsm_sst_check(lsm_sst_iter_read_batch_back(source->iter, &take, &taken, &err), &err);
	return batch_took(cursor, source, &take, taken, false, batch);
}

static inline LsmSlice
batch_key(const LsmBatch *batch, int i)
{
	return lsm_slice(batch->bytes.data + batch->entries[i].key_offset,
					 batch->entries[i].key_bytes);
}

static inline void
consume_ties(LsmCursor *cursor, int nties)
{
	for (int i = 0; i < nties; i++)
		cursor->sources[cursor->ties[i]].consumed = true;
}

/*
 * Is the newest of the versions in a value of the source's all that is wanted, or
 * all that there is?  Then *value becomes it.  A DELTA is neither.
 */
static bool
newest_suffices(const LsmCursor *cursor, const LsmSource *source, int nties, LsmSlice *value)
{
	LsmChain	chain;
	LsmSlice	newest;

	lsm_chain_begin(&chain, *value);
	if (!lsm_chain_next(&chain, &newest) || lsm_value_tag(newest) != LSM_TAG_VERSION)
		return false;
	if (!(cursor->enough != NULL && cursor->enough->is(cursor->enough->arg, newest)) &&
		(nties > 1 || source->memtable != NULL || newest.len < value->len))
		return false;
	*value = newest;
	return true;
}

/* For batch_add(): what is no PUT, and what it is.  False: no row. */
static pg_noinline bool
take_other(LsmCursor *cursor, int nties, LsmSlice *value)
{
	int			tag = lsm_value_tag(*value);

	if ((nties == 1 || !cursor->version->salvaged) &&
		(tag == LSM_TAG_DELETE ||
		 ((tag == LSM_TAG_VERSION || tag == LSM_TAG_CHAIN) &&
		  newest_suffices(cursor, &cursor->sources[cursor->ties[0]], nties, value))))
	{
		consume_ties(cursor, nties);
		tag = lsm_value_tag(*value);
	}
	else
	{
		tag = lsm_cursor_fold(cursor, nties);
		*value = lsm_slice(cursor->value.data, cursor->value.len);
	}
	return lsm_tag_is_row(tag);
}

/*
 * The entry of the first nties sources, which are consumed, goes to the batch if
 * there is a row.  Nearly all are whole and in one place: copied once.
 */
static bool
batch_add(LsmCursor *cursor, int nties, LsmBatch *batch)
{
	const LsmSource *source = &cursor->sources[cursor->ties[0]];
	LsmSlice	value = source_value(source);

	if (likely(lsm_value_tag(value) == LSM_TAG_PUT) &&
		likely(nties == 1 || !cursor->version->salvaged))
		consume_ties(cursor, nties);
	else if (!take_other(cursor, nties, &value))
		return false;
	batch_append(batch, source->entry.key, value);
	return true;
}

/* The batch has no room for another entry. */
static inline bool
full(const LsmBatch *batch, int max_entries)
{
	return batch->n >= max_entries || batch->bytes.len >= LSM_BATCH_BYTES;
}

/* Entries skipped (deleted ones) before the epoch is left for a moment */
#define SKIPS_PER_EPOCH	1024

static inline void
stand_at(LsmCursor *cursor, LsmSlice key)
{
	if (unlikely(key.len >= (uint32) cursor->key.maxlen))
	{
		resetStringInfo(&cursor->key);
		enlargeStringInfo(&cursor->key, key.len);
	}
	memcpy(cursor->key.data, key.data, key.len);
	cursor->key.len = key.len;
	cursor->side = LSM_AT_KEY;
	cursor->unbounded = false;
}

/*
 * Forward, an entry is about to be skipped; `behind`: behind the last one of the
 * batch.  True: many were skipped, leave the epoch.
 */
static bool
note_skip(LsmCursor *cursor, const LsmBatch *batch, bool behind)
{
	LsmSlice	last = behind ? batch_key(batch, batch->n - 1) : lsm_slice(NULL, 0);

	if (cursor->skipped > 0 && cursor->skipped_in == batch->n)
		cursor->skipped++;
	else
		lsm_gap_run_begin(cursor, behind ? &last : NULL);
	cursor->skipped_in = batch->n;
	return cursor->skipped % (cursor->passes_gaps ? LSM_SKIPS_PER_GAP : SKIPS_PER_EPOCH) == 0;
}

/*
 * The first of all entries has been read ahead, and no other source has its word:
 * so on, up to where something else has to be looked at.  False: the batch is full.
 */
static bool
merge_ahead(LsmCursor *cursor, LsmSource *source, int max_entries, LsmBatch *batch, int *turns)
{
	const LsmSource *before = NULL;
	uint64		word;
	uint64		next;

	do
	{
		LsmAhead   *ahead = source->ahead;

		append_ahead(batch, ahead);
		*turns += source != before;
		before = source;
		if (full(batch, max_entries))
		{
			source->consumed = true;
			return false;
		}
		if (unlikely(ahead->at + 1 == ahead->n))
		{
			lsm_source_advance(cursor, source, true);
			return true;
		}
		lsm_source_take_ahead(cursor, source, ahead->at + 1);
		source = &cursor->sources[lsm_merge_least(&cursor->sources->entry, sizeof(LsmSource),
												  cursor->nsources, &word, &next)];
	} while (likely(next != word && word < cursor->end_word) && source->ahead != NULL);
	return true;
}

/*
 * Memtables are not looked at again for what was inserted since the call began:
 * the next call does that.  True: many entries were skipped, and this is not the
 * end.  REQUIRES: prepared for the direction.
 */
static pg_attribute_always_inline bool
merge_sources(LsmCursor *cursor, bool forward, int max_entries, LsmBatch *batch)
{
	bool		behind = false; /* the position is the batch's last entry */
	bool		many = false;	/* skipped */
	int			skipped = 0;	/* backward */
	int			nahead = 0;		/* entries that had been read ahead ... */
	int			turns = 0;		/* ... from one source after another */
	int			nties;

	while (!many && (nties = pick(cursor, forward, true)) > 0)
	{
		LsmSource  *source = &cursor->sources[cursor->ties[0]];

		/* wherever the loop ends, the last entry's sources stay: an idle cursor stands at it */
		if (beyond_end(cursor, source, forward))
			break;
		if (forward && max_entries > 1 && source->alternates && source->ahead == NULL &&
			!cursor->version->salvaged)
			(void) lsm_source_read_ahead(cursor, source, max_entries, batch);
		if (forward && max_entries > 1 && source->ahead != NULL && nties == 1)
		{
			bool		more;

			nahead -= batch->n;
			more = merge_ahead(cursor, source, max_entries, batch, &turns);
			nahead += batch->n;
			behind = true;
			if (!more)
				break;
			continue;
		}
		if (max_entries > 1 && nties == 1 && source->memtable == NULL && source->ahead == NULL &&
			(forward ? batch_take(cursor, source, max_entries, batch) :
			 batch_take_back(cursor, source, max_entries, batch)))
		{
			behind = true;
			if (batch->n >= max_entries)
				break;
			if (source->consumed)
				lsm_source_advance(cursor, source, forward);
			continue;
		}

		if (batch_add(cursor, nties, batch))
			behind = true;
		else
		{
			/*
			 * The position moves over skipped entries, too: no one can tell the
			 * difference, and a scan that has to start over starts here.
			 */
			many = forward ? note_skip(cursor, batch, behind) : ++skipped == SKIPS_PER_EPOCH;
			stand_at(cursor, source->entry.key);
			behind = false;
		}
		if (full(batch, max_entries))
			break;
		for (int i = 0; i < nties; i++)
			lsm_source_advance(cursor, &cursor->sources[cursor->ties[i]], forward);
	}
	if (behind)
	{
		stand_at(cursor, batch_key(batch, batch->n - 1));
		if (forward)
			cursor->skipped = 0;
	}
	cursor->skipped_in = 0;		/* the next batch begins with none */
	for (int i = 0; nahead > 0 && nahead >= Max(turns * FEW_TAKEN, max_entries / 2) &&
		 i < cursor->nsources; i++)
		cursor->sources[i].alternates = false;
	return many;
}

/* Replace the batch's content by the next entries, or by none. */
static pg_attribute_always_inline void
fill(LsmCursor *cursor, bool forward, LsmSlice end, int max_entries, LsmBatch *batch)
{
	bool		many;

	batch->n = 0;
	resetStringInfo(&batch->bytes);
	if (!forward)
		cursor->skipped = 0;
	for (;;)
	{
		if (forward && lsm_gap_is_due(cursor))
			lsm_gap_pass(cursor);
		cursor->sought = false;
		lsm_cursor_enter(cursor);
		lsm_cursor_prepare(cursor, forward);
		lsm_cursor_set_end(cursor, end);
		cursor->positioned = false;
		many = merge_sources(cursor, forward, max_entries, batch);
		cursor->positioned = true;
		lsm_sources_count_blocks(cursor);
		lsm_tree_exit(cursor->tree);
		if (!many || batch->n > 0)
			break;
		CHECK_FOR_INTERRUPTS();
	}
	if (unlikely(cursor->watch != 0))
	{
		LsmSlice	first = batch->n > 0 ? batch_key(batch, 0) : lsm_slice(NULL, 0);

		lsm_gap_run_end(cursor, batch->n > 0 ? &first : NULL);
	}
}

bool
lsm_cursor_step(LsmCursor *cursor, ScanDirection direction, LsmSlice *key, LsmSlice *value)
{
	bool		forward = ScanDirectionIsForward(direction);

	Assert(!ScanDirectionIsNoMovement(direction));

	/* from one end of a point range outwards there is nothing */
	if (cursor->point && !cursor->asked && forward != (cursor->side == LSM_BEFORE_KEY))
		return false;
	fill(cursor, forward, lsm_slice("", 0), 1, cursor->one);
	if (cursor->one->n == 0)
	{
		/* behind the last entry: a step back returns it again */
		if (cursor->side == LSM_AT_KEY)
			cursor->side = forward ? LSM_AFTER_KEY : LSM_BEFORE_KEY;
		return false;
	}
	LSM_CRASH_POINT("entry_found");
	lsm_batch_entry(cursor->one, 0, key, value);
	return true;
}

/* Are there entries of several runs still to come? */
static inline bool
merges_runs(const LsmCursor *cursor)
{
	int			nruns = 0;

	for (int i = 0; i < cursor->nsources; i++)
		nruns += cursor->sources[i].run != NULL && cursor->sources[i].entry.valid;
	return nruns > 1;
}

bool
lsm_cursor_fill(LsmCursor *cursor, ScanDirection direction, LsmSlice limit, int max_entries,
				LsmBatch *batch)
{
	Assert(!cursor->point && !ScanDirectionIsNoMovement(direction));
	Assert(max_entries > 0 && max_entries <= LSM_BATCH_ENTRIES);
	CHECK_FOR_INTERRUPTS();
	if (ScanDirectionIsForward(direction))
		fill(cursor, true, limit, max_entries, batch);
	else
		fill(cursor, false, limit, max_entries, batch);
	if (batch->n > 0 && merges_runs(cursor))
		lsm_count_merged(cursor->tree, batch->n);
	return batch->n > 0;
}
