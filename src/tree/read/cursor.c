/*-------------------------------------------------------------------------
 *
 * cursor.c
 *	  Ordered scans: a merge of memtables and runs, in both directions.
 *
 * Every call enters the epoch and leaves it.  Between calls the cursor keeps
 * its position as a copy of a key, its version pinned (memory only) and its
 * iterators; the latter are used again only if neither the set of memtables
 * nor the version has changed since, which set_stamp and version_no tell under
 * the new epoch.  Otherwise everything is opened anew behind the held key.  So
 * an idle cursor holds back neither memory nor the unlinking of files.
 *
 * Entries inserted into a memtable while a forward scan runs are seen if
 * they come after the position: the successor of the last node passed is
 * read again at every step.  What was there at the seek is never missed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/memtable/memtable.h"
#include "tree/read/cursor.h"
#include "tree/read/filecache.h"
#include "tree/read/lookup.h"
#include "tree/read/merge.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* Entries skipped (deleted ones) before the epoch is left for a moment */
#define SKIPS_PER_EPOCH		1024

/* ======================================================================
 * Building the sources
 * ====================================================================== */

static void
build_range(LsmCursor *cursor)
{
	LsmVersion *version = cursor->version;

	for (int i = 0; i < cursor->set.n; i++)
		lsm_sources_add(cursor)->memtable = cursor->set.tables[i];
	for (int i = 0; i < version->nruns && !cursor->memory_only; i++)
	{
		LsmSource  *source = lsm_sources_add(cursor);

		source->run = &version->runs[i];
		source->last = version->runs[i].nfiles - 1;
	}
	if (cursor->limit_columns > 0)
		lsm_limit_sources(cursor);
}

/*
 * Make the sources stand at the position for a step in the direction.
 * REQUIRES: inside the epoch, set and version current.
 */
static void
cursor_prepare(LsmCursor *cursor, bool forward)
{
	bool		positioned = cursor->positioned && cursor->forward == forward;

	/* if something fails below, the sources' places mean nothing */
	cursor->positioned = false;
	if (!cursor->built)
	{
		bool		asking = cursor->point && !cursor->asked;

		lsm_sources_drop(cursor);
		if (cursor->point)
			lsm_point_build(cursor);
		else
			build_range(cursor);
		cursor->built = true;
		if (asking)
		{
			/* on an error the sources are dropped and built again */
			cursor->built = false;
			lsm_point_ask_filters(cursor, forward);
			cursor->built = true;
			positioned = true;
		}
		else
			positioned = false;
	}

	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (!positioned)
		{
			lsm_source_position(cursor, source, forward);
			if (source->asked)
				lsm_limit_outcome(cursor, source, forward);
		}
		else if (source->consumed)
		{
			lsm_source_advance(cursor, source, forward);
			lsm_source_count_blocks(cursor, source);
		}
		else if (forward && source->memtable != NULL)
			lsm_source_refresh(cursor, source);
	}
	cursor->forward = forward;
	cursor->positioned = true;
}

/*
 * Enter the tree, with set and version current; sources of older ones are
 * dropped.
 */
static void
cursor_enter(LsmCursor *cursor)
{
	LsmTree    *tree = cursor->tree;

	lsm_tree_enter(tree);
	if (likely(cursor->version != NULL && cursor->ctl == tree->ctl &&
			   pg_atomic_read_u64(&tree->ctl->set_stamp) == cursor->set.stamp &&
			   pg_atomic_read_u64(&tree->ctl->version_no) == cursor->version->version_no))
	{
		lsm_filecache_begin();
		return;
	}
	lsm_tree_exit(tree);

	lsm_sources_count_blocks(cursor);
	lsm_sources_drop(cursor);
	if (cursor->version != NULL)
	{
		LsmVersion *version = cursor->version;

		cursor->version = NULL;
		lsm_version_unpin(version);
	}
	cursor->version = lsm_version_pin(lsm_version_enter(tree, &cursor->set));
	cursor->ctl = tree->ctl;
	lsm_filecache_begin();
}

/* ======================================================================
 * The merge
 * ====================================================================== */

static inline int
source_compare(const LsmSource *a, const LsmSource *b)
{
	if (a->word != b->word)
		return a->word < b->word ? -1 : 1;
	return lsm_slice_compare(a->key, b->key);
}

static LsmTag
fold_ties(LsmCursor *cursor, int nties)
{
	LsmFold		fold;

	lsm_fold_begin(&fold, cursor->tree->ops, &cursor->value);
	fold.disordered = cursor->version->salvaged;
	for (int i = 0; i < nties; i++)
	{
		LsmSource  *source = &cursor->sources[cursor->ties[i]];

		source->consumed = true;
		if (lsm_fold_complete(&fold))
			continue;
		if (source->memtable != NULL)
			(void) lsm_fold_add_memvalue(&fold, lsm_memnode_value(source->node));
		else
			(void) lsm_fold_add(&fold, lsm_source_file_value(source));
	}
	return fold.tag;
}

typedef enum MergeResult
{
	MERGE_FOUND,
	MERGE_END,
	MERGE_PAUSE					/* much was skipped: leave the epoch, go on */
} MergeResult;

/* The next entry's sources go to ties; their number, 0 at the end. */
static inline int
cursor_pick(LsmCursor *cursor, bool forward)
{
	int			nties = 0;
	LsmSource  *best = NULL;

	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];
		int			c;

		if (!source->valid)
			continue;
		c = best == NULL ? -1 : source_compare(source, best);
		if (best != NULL && !forward)
			c = -c;
		if (c < 0)
		{
			best = source;
			nties = 0;
		}
		if (c <= 0)
			cursor->ties[nties++] = i;
	}
	return nties;
}

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
 * Forward, an entry is skipped: `last` is the last one returned by this call,
 * of n, or NULL.  The position moves over skipped entries, too: no one can tell
 * the difference, and a scan that has to start over starts here.  True: many
 * were skipped, leave the epoch.
 */
static inline bool
skip_entry(LsmCursor *cursor, LsmSlice key, int n, const LsmSlice *last)
{
	if (lsm_cursor_skips_on(cursor, n))
		cursor->skipped++;
	else
		lsm_gap_run_begin(cursor, last);
	cursor->skipped_in = n;
	stand_at(cursor, key);
	return cursor->skipped % (cursor->passes_gaps ? LSM_SKIPS_PER_GAP : SKIPS_PER_EPOCH) == 0;
}

/* REQUIRES: prepared for the direction. */
static MergeResult
cursor_merge(LsmCursor *cursor, bool forward)
{
	for (int skipped = 0; skipped < SKIPS_PER_EPOCH; skipped++)
	{
		int			nties = cursor_pick(cursor, forward);
		LsmSource  *source;
		LsmSlice	key;
		bool		many = false;

		if (nties == 0)
			return MERGE_END;
		key = cursor->sources[cursor->ties[0]].key;
		if (fold_ties(cursor, nties) == LSM_TAG_PUT)
		{
			stand_at(cursor, key);
			cursor->skipped = 0;
			return MERGE_FOUND;
		}
		if (forward)
			many = skip_entry(cursor, key, 0, NULL);
		else
			stand_at(cursor, key);
		for (int i = 0; i < nties; i++)
		{
			source = &cursor->sources[cursor->ties[i]];
			lsm_source_advance(cursor, source, forward);
			lsm_source_count_blocks(cursor, source);
		}
		if (many)
			break;
	}
	return MERGE_PAUSE;
}

static void
end_run(LsmCursor *cursor, bool found, LsmSlice key)
{
	lsm_gap_run_end(cursor, found ? &key : NULL);
}

bool
lsm_cursor_step(LsmCursor *cursor, ScanDirection direction,
				LsmSlice *key, LsmSlice *value)
{
	bool		forward = ScanDirectionIsForward(direction);
	MergeResult result;

	Assert(!ScanDirectionIsNoMovement(direction));

	/* from one end of a point range outwards there is nothing */
	if (cursor->point && !cursor->asked &&
		forward != (cursor->side == LSM_BEFORE_KEY))
		return false;

	if (!forward)
		cursor->skipped = 0;
	for (;;)
	{
		if (forward && lsm_gap_is_due(cursor))
			lsm_gap_pass(cursor);
		cursor->sought = false;
		cursor_enter(cursor);
		cursor_prepare(cursor, forward);
		cursor->positioned = false;
		result = cursor_merge(cursor, forward);
		cursor->positioned = true;
		lsm_tree_exit(cursor->tree);
		if (result != MERGE_PAUSE)
			break;
		CHECK_FOR_INTERRUPTS();
	}
	if (unlikely(cursor->watch != 0))
		end_run(cursor, result == MERGE_FOUND, lsm_slice(cursor->key.data, cursor->key.len));
	if (result == MERGE_END)
	{
		/* behind the last entry: a step back returns it again */
		if (cursor->side == LSM_AT_KEY)
			cursor->side = forward ? LSM_AFTER_KEY : LSM_BEFORE_KEY;
		return false;
	}
	*key = lsm_slice(cursor->key.data, cursor->key.len);
	*value = lsm_slice(cursor->value.data, cursor->value.len);
	return true;
}

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

/* The first entry of the other sources, or NULL */
static inline LsmSource *
cursor_runner_up(LsmCursor *cursor, const LsmSource *source)
{
	LsmSource *next = NULL;

	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *other = &cursor->sources[i];

		if (other != source && other->valid &&
			(next == NULL || source_compare(other, next) < 0))
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
	LsmSource *next = cursor_runner_up(cursor, source);
	LsmSlice bound = limit;

	take->bound_readable = limit.len;
	take->bound_prefix = next == NULL ||
		(next->word >= limit_word &&
		 memcmp(next->key.data, limit.data, Min(next->key.len, limit.len)) > 0);
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

/*
 * Take from a source of files what comes before the other sources' entries, as
 * far as it lies in the present block and is whole.  False: nothing did.  Else
 * the source is at the last entry taken (consumed) or at the first that was
 * not.
 */
static bool
batch_take(LsmCursor *cursor, LsmSource *source, LsmSlice limit, uint64 limit_word,
		   int max_entries, LsmBatch *batch)
{
	LsmSstBatch take;
	LsmSstError err;
	int before = batch->n;
	bool taken;

	batch_set_bound(cursor, source, limit, limit_word, &take);
	take.first_byte = LSM_TAG_PUT;
	take.entries = batch->entries;
	take.n = batch->n;
	take.max = max_entries;
	take.bytes = batch->bytes.data;
	take.used = batch->bytes.len;
	take.capacity = Min(batch->bytes.maxlen - 1, LSM_BATCH_BYTES);
	take.headroom = batch->headroom;
	take.aligned = batch->aligned;
	lsm_sst_check(lsm_sst_iter_read_batch(source->iter, &take, &taken, &err), &err);
	if (take.n == before)
		return false;
	source->alternates = !taken && take.n - before < FEW_TAKEN;
	batch->n = take.n;
	batch->bytes.len = take.used;
	source->consumed = taken;
	if (!taken)
		lsm_source_take_entry(cursor, source);
	return true;
}

static inline LsmSlice
batch_key(const LsmBatch *batch, int i)
{
	return lsm_slice(batch->bytes.data + batch->entries[i].key_offset,
					 batch->entries[i].key_bytes);
}

/* `behind`: the batch's last entry is the one before. */
static bool
batch_skip(LsmCursor *cursor, LsmSlice key, const LsmBatch *batch, bool behind)
{
	LsmSlice	last = behind ? batch_key(batch, batch->n - 1) : lsm_slice(NULL, 0);

	return skip_entry(cursor, key, batch->n, behind ? &last : NULL);
}

/*
 * The merge of a batch.  Memtables are not looked at again for what was
 * inserted since the call began: the next call does that.
 * REQUIRES: prepared forward.
 */
static MergeResult
cursor_merge_batch(LsmCursor *cursor, LsmSlice limit, int max_entries, LsmBatch *batch)
{
	uint64		limit_word = lsm_word(limit.data, limit.len, 0);
	MergeResult result = MERGE_PAUSE;
	bool		behind = false; /* the position is the batch's last entry */
	bool		many = false;	/* skipped */

	while (!many)
	{
		int			nties = cursor_pick(cursor, true);
		LsmSource  *source;
		LsmSlice	value;
		int			tag;

		result = MERGE_END;
		if (nties == 0)
			break;
		source = &cursor->sources[cursor->ties[0]];
		if (source->word >= limit_word &&
			memcmp(source->key.data, limit.data, Min(source->key.len, limit.len)) > 0)
			break;

		/* the last entry's sources stay: an idle cursor stands at it */
		result = MERGE_FOUND;
		if (source->ahead != NULL || source->alternates)
		{
			int			before = batch->n;

			lsm_ahead_merge(cursor, limit, max_entries, batch);
			if (batch->n > before)
			{
				behind = true;
				if (batch->n >= max_entries || batch->bytes.len >= LSM_BATCH_BYTES)
					break;
				result = MERGE_PAUSE;
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
			result = MERGE_PAUSE;
			continue;
		}

		/* nearly all entries are whole and in one place: copied once */
		value = source_value(source);
		tag = value.len > 0 ? (uint8) value.data[0] : 0;
		if ((likely(tag == LSM_TAG_PUT) || tag == LSM_TAG_DELETE) &&
			likely(nties == 1 || !cursor->version->salvaged))
		{
			for (int i = 0; i < nties; i++)
				cursor->sources[cursor->ties[i]].consumed = true;
		}
		else
		{
			tag = fold_ties(cursor, nties);
			value = lsm_slice(cursor->value.data, cursor->value.len);
		}
		if (tag == LSM_TAG_PUT)
			batch_append(batch, source->key, value);
		else
			many = batch_skip(cursor, source->key, batch, behind);
		behind = tag == LSM_TAG_PUT;
		if (batch->n >= max_entries || batch->bytes.len >= LSM_BATCH_BYTES)
			break;
		for (int i = 0; i < nties; i++)
			lsm_source_advance(cursor, &cursor->sources[cursor->ties[i]], true);
		result = MERGE_PAUSE;
	}
	if (behind)
	{
		stand_at(cursor, batch_key(batch, batch->n - 1));
		cursor->skipped = 0;
	}
	cursor->skipped_in = 0;		/* the next batch begins with none */
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

bool
lsm_cursor_fill(LsmCursor *cursor, LsmSlice limit, int max_entries, LsmBatch *batch)
{
	MergeResult result;

	Assert(!cursor->point);
	Assert(max_entries > 0 && max_entries <= LSM_BATCH_ENTRIES);
	batch->n = 0;
	resetStringInfo(&batch->bytes);
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (lsm_gap_is_due(cursor))
			lsm_gap_pass(cursor);
		cursor->sought = false;
		cursor_enter(cursor);
		cursor_prepare(cursor, true);
		cursor->positioned = false;
		result = cursor_merge_batch(cursor, limit, max_entries, batch);
		cursor->positioned = true;
		lsm_sources_count_blocks(cursor);
		lsm_tree_exit(cursor->tree);
	} while (result == MERGE_PAUSE && batch->n == 0);
	if (batch->n > 0 && merges_runs(cursor))
		lsm_count_merged(cursor->tree, batch->n);
	if (unlikely(cursor->watch != 0))
		end_run(cursor, batch->n > 0, batch->n > 0 ? batch_key(batch, 0) : lsm_slice(NULL, 0));
	return batch->n > 0;
}

/* ======================================================================
 * Life cycle and seeks
 * ====================================================================== */

/* Memory context callback: runs on an error too. */
static void
cursor_release(void *arg)
{
	LsmCursor  *cursor = arg;

	lsm_sources_drop(cursor);
	if (cursor->version != NULL)
		lsm_version_unpin(cursor->version);
	cursor->version = NULL;
}

static void
init_buffer(StringInfo buf, int bytes)
{
	buf->data = palloc(bytes);
	buf->maxlen = bytes;
	resetStringInfo(buf);
}

LsmCursor *
lsm_cursor_open(LsmTree *tree)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "lsm cursor",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	LsmCursor  *cursor = palloc0(sizeof(LsmCursor));

	cursor->cxt = cxt;
	cursor->tree = tree;
	cursor->side = LSM_BEFORE_KEY;
	cursor->unbounded = true;
	init_buffer(&cursor->key, 128);
	init_buffer(&cursor->filter_key, 128);
	init_buffer(&cursor->limit_key, 128);
	init_buffer(&cursor->value, 256);
	cursor->callback.func = cursor_release;
	cursor->callback.arg = cursor;
	MemoryContextRegisterResetCallback(cxt, &cursor->callback);
	MemoryContextSwitchTo(old);
	return cursor;
}

void
lsm_cursor_memory_only(LsmCursor *cursor)
{
	Assert(!cursor->built && !cursor->point);
	cursor->memory_only = true;
}

void
lsm_cursor_close(LsmCursor *cursor)
{
	lsm_sources_count_blocks(cursor);
	MemoryContextDelete(cursor->cxt);
}

void
lsm_cursor_seek(LsmCursor *cursor, LsmSlice key, bool after,
				ScanDirection direction)
{
	bool		forward = ScanDirectionIsForward(direction);
	LsmCursorSide side = forward != after ? LSM_BEFORE_KEY : LSM_AFTER_KEY;

	if (cursor->point)
	{
		cursor->point = false;
		lsm_sources_count_blocks(cursor);
		lsm_sources_drop(cursor);
	}
	if (key.len == 0)
		side = forward ? LSM_BEFORE_KEY : LSM_AFTER_KEY;
	lsm_cursor_put(cursor, key, side);
	cursor->sought = true;
	cursor->skipped = 0;
}

void
lsm_cursor_limit(LsmCursor *cursor, LsmSlice leading, uint32 columns)
{
	if (columns == cursor->limit_columns &&
		(columns == 0 || (leading.len == (uint32) cursor->limit_key.len &&
						  memcmp(leading.data, cursor->limit_key.data, leading.len) == 0)))
		return;
	lsm_sources_count_blocks(cursor);
	lsm_sources_drop(cursor);
	cursor->limit_columns = columns;
	if (columns == 0)
		return;
	resetStringInfo(&cursor->limit_key);
	lsm_buffer_append(&cursor->limit_key, leading.data, leading.len);
	lsm_probe_begin(cursor->tree, &cursor->limit,
					lsm_slice(cursor->limit_key.data, leading.len));
}

static void
seek_point(LsmCursor *cursor, const LsmProbe *probe)
{
	LsmSlice	key = probe->filter_key;

	lsm_sources_count_blocks(cursor);
	lsm_sources_drop(cursor);
	if (key.data != cursor->filter_key.data)
	{
		resetStringInfo(&cursor->filter_key);
		lsm_buffer_append(&cursor->filter_key, key.data, key.len);
	}
	cursor->probe = *probe;
	cursor->probe.filter_key = lsm_slice(cursor->filter_key.data, key.len);
	cursor->point = true;
	cursor->asked = false;
	cursor->sought = false;
	cursor->skipped = 0;
}

void
lsm_cursor_seek_point(LsmCursor *cursor, const LsmProbe *probe)
{
	seek_point(cursor, probe);
	lsm_cursor_put(cursor, cursor->probe.filter_key, LSM_BEFORE_KEY);
}

void
lsm_cursor_seek_point_last(LsmCursor *cursor, const LsmProbe *probe)
{
	seek_point(cursor, probe);
	lsm_cursor_put(cursor, cursor->probe.filter_key, LSM_AFTER_KEY);

	/* the last possible row identifier */
	if (cursor->tree->kind == LSM_KIND_INDEX)
		lsm_buffer_append(&cursor->key, "\377\377\377\377\377\377", 6);
}
