/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  The merge of a cursor, many entries at a time.
 *
 * What comes before the other sources' entries is taken from a file's block in
 * one piece.  Backward it is read forward, from a restart of the block to the
 * present entry, and then turned around.
 *
 * Locking: as cursor.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "tree/control/control.h"
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

/* The first entry of the other sources as seen in the direction, or NULL */
static inline LsmSource *
cursor_runner_up(LsmCursor *cursor, const LsmSource *source, bool forward)
{
	LsmSource  *next = NULL;

	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *other = &cursor->sources[i];

		if (other != source && other->valid &&
			(next == NULL || (lsm_source_compare(other, next) < 0) == forward))
			next = other;
	}
	return next;
}

/*
 * The sources' entries alternate where so few were taken at a time: fences are
 * not worth a look.
 */
#define FEW_TAKEN 8

/* Where what is to be taken from the source ends. */
static inline void
batch_set_bound(LsmCursor *cursor, const LsmSource *source, LsmSlice limit, uint64 limit_word,
				LsmSstBatch *take)
{
	LsmSource *next = cursor_runner_up(cursor, source, true);
	LsmSlice bound = limit;

	take->bound_readable = limit.len;
	take->bound_prefix = next == NULL ||
		(next->word >= limit_word &&
		 lsm_bytes_compare(next->key.data, limit.data, Min(next->key.len, limit.len)) > 0);
	if (!take->bound_prefix)
	{
		bound = next->key;
		take->bound_readable = bound.len + (next->memtable == NULL ? LSM_SST_KEY_SLACK : 0);
	}
	if (!source->alternates && lsm_file_before(&source->run->files[source->at], bound))
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
batch_take(LsmCursor *cursor, LsmSource *source, LsmSlice limit, uint64 limit_word,
		   int max_entries, LsmBatch *batch)
{
	LsmSstBatch take;
	LsmSstError err;
	bool		taken;

	batch_set_bound(cursor, source, limit, limit_word, &take);
	batch_set_room(batch, max_entries, &take);
	lsm_sst_check(lsm_sst_iter_read_batch(source->iter, &take, &taken, &err), &err);
	return batch_took(cursor, source, &take, taken, true, batch);
}

/* Backward: what comes behind the other sources' entries, and the limit. */
static bool
batch_take_back(LsmCursor *cursor, LsmSource *source, LsmSlice limit, int max_entries,
				LsmBatch *batch)
{
	LsmSource  *next = cursor_runner_up(cursor, source, false);
	LsmSstBatch take = {.bound = limit.data,.bound_bytes = limit.len,.bound_prefix = true};
	LsmSstError err;
	bool		taken;

	if (next != NULL && lsm_slice_compare(next->key, limit) >= 0)
	{
		take.bound = next->key.data;
		take.bound_bytes = next->key.len;
		take.bound_prefix = false;
	}
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
	batch_append(batch, source->key, value);
	return true;
}

/* `behind`: the batch's last entry is the one before. */
static bool
batch_skip(LsmCursor *cursor, LsmSlice key, const LsmBatch *batch, bool behind)
{
	LsmSlice	last = behind ? batch_key(batch, batch->n - 1) : lsm_slice(NULL, 0);

	return lsm_cursor_skip(cursor, key, batch->n, behind ? &last : NULL);
}

/*
 * The merge of a batch.  Memtables are not looked at again for what was
 * inserted since the call began: the next call does that.
 * REQUIRES: prepared forward.
 */
static LsmMergeResult
merge_forward(LsmCursor *cursor, LsmSlice limit, int max_entries, LsmBatch *batch)
{
	uint64		limit_word = lsm_word(limit.data, limit.len, 0);
	LsmMergeResult result = LSM_MERGE_PAUSE;
	bool		behind = false; /* the position is the batch's last entry */
	bool		many = false;	/* skipped */

	while (!many)
	{
		int			nties = lsm_cursor_pick(cursor, true);
		LsmSource  *source;

		result = LSM_MERGE_END;
		if (nties == 0)
			break;
		source = &cursor->sources[cursor->ties[0]];
		if (source->word >= limit_word &&
			lsm_bytes_compare(source->key.data, limit.data, Min(source->key.len, limit.len)) > 0)
			break;

		/* the last entry's sources stay: an idle cursor stands at it */
		result = LSM_MERGE_FOUND;
		if (source->ahead != NULL || source->alternates)
		{
			int			before = batch->n;

			lsm_ahead_merge(cursor, limit, max_entries, batch);
			if (batch->n > before)
			{
				behind = true;
				if (batch->n >= max_entries || batch->bytes.len >= LSM_BATCH_BYTES)
					break;
				result = LSM_MERGE_PAUSE;
				continue;
			}
		}
		if (nties == 1 && source->memtable == NULL && source->ahead == NULL &&
			batch_take(cursor, source, limit, limit_word, max_entries, batch))
		{
			behind = true;
			if (batch->n >= max_entries)
				break;
			if (source->consumed)
				lsm_source_advance(cursor, source, true);
			result = LSM_MERGE_PAUSE;
			continue;
		}

		if (batch_add(cursor, nties, batch))
			behind = true;
		else
		{
			many = batch_skip(cursor, source->key, batch, behind);
			behind = false;
		}
		if (batch->n >= max_entries || batch->bytes.len >= LSM_BATCH_BYTES)
			break;
		for (int i = 0; i < nties; i++)
			lsm_source_advance(cursor, &cursor->sources[cursor->ties[i]], true);
		result = LSM_MERGE_PAUSE;
	}
	if (behind)
	{
		lsm_cursor_stand_at(cursor, batch_key(batch, batch->n - 1));
		cursor->skipped = 0;
	}
	cursor->skipped_in = 0;		/* the next batch begins with none */
	return result;
}

/* The same backward.  REQUIRES: prepared backward. */
static LsmMergeResult
merge_backward(LsmCursor *cursor, LsmSlice limit, int max_entries, LsmBatch *batch)
{
	LsmMergeResult result = LSM_MERGE_PAUSE;
	bool		behind = false; /* the position is the batch's last entry */
	int			skipped = 0;

	while (skipped < LSM_SKIPS_PER_EPOCH)
	{
		int			nties = lsm_cursor_pick(cursor, false);
		LsmSource  *source;

		result = LSM_MERGE_END;
		if (nties == 0)
			break;
		source = &cursor->sources[cursor->ties[0]];
		if (lsm_bytes_compare(source->key.data, limit.data, Min(source->key.len, limit.len)) < 0)
			break;

		result = LSM_MERGE_FOUND;
		if (nties == 1 && source->memtable == NULL &&
			batch_take_back(cursor, source, limit, max_entries, batch))
		{
			behind = true;
			if (batch->n >= max_entries)
				break;
			if (source->consumed)
				lsm_source_advance(cursor, source, false);
			result = LSM_MERGE_PAUSE;
			continue;
		}
		behind = batch_add(cursor, nties, batch);
		if (!behind)
		{
			lsm_cursor_stand_at(cursor, source->key);
			skipped++;
		}
		if (batch->n >= max_entries || batch->bytes.len >= LSM_BATCH_BYTES)
			break;
		for (int i = 0; i < nties; i++)
			lsm_source_advance(cursor, &cursor->sources[cursor->ties[i]], false);
		result = LSM_MERGE_PAUSE;
	}
	if (behind)
		lsm_cursor_stand_at(cursor, batch_key(batch, batch->n - 1));
	return result;
}

/* Are there entries of several runs still to come? */
static inline bool
merges_runs(const LsmCursor *cursor)
{
	int			nruns = 0;

	for (int i = 0; i < cursor->nsources; i++)
		nruns += cursor->sources[i].run != NULL && cursor->sources[i].valid;
	return nruns > 1;
}

static LsmMergeResult
fill(LsmCursor *cursor, bool forward, LsmSlice limit, int max_entries, LsmBatch *batch)
{
	LsmMergeResult result;

	lsm_cursor_enter(cursor);
	lsm_cursor_prepare(cursor, forward);
	cursor->positioned = false;
	if (forward)
		result = merge_forward(cursor, limit, max_entries, batch);
	else
		result = merge_backward(cursor, limit, max_entries, batch);
	cursor->positioned = true;
	lsm_sources_count_blocks(cursor);
	lsm_tree_exit(cursor->tree);
	return result;
}

bool
lsm_cursor_fill(LsmCursor *cursor, ScanDirection direction, LsmSlice limit, int max_entries,
				LsmBatch *batch)
{
	bool		forward = ScanDirectionIsForward(direction);
	LsmMergeResult result;

	Assert(!cursor->point && !ScanDirectionIsNoMovement(direction));
	Assert(max_entries > 0 && max_entries <= LSM_BATCH_ENTRIES);
	batch->n = 0;
	resetStringInfo(&batch->bytes);
	if (!forward)
		cursor->skipped = 0;
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (forward && lsm_gap_is_due(cursor))
			lsm_gap_pass(cursor);
		cursor->sought = false;
		result = fill(cursor, forward, limit, max_entries, batch);
	} while (result == LSM_MERGE_PAUSE && batch->n == 0);
	if (batch->n > 0 && merges_runs(cursor))
		lsm_count_merged(cursor->tree, batch->n);
	if (unlikely(cursor->watch != 0))
	{
		LsmSlice	first = batch->n > 0 ? batch_key(batch, 0) : lsm_slice(NULL, 0);

		lsm_gap_run_end(cursor, batch->n > 0 ? &first : NULL);
	}
	return batch->n > 0;
}
