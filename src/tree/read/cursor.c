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

/* What the open files have read, before they are given back. */
static void
cursor_count_blocks(LsmCursor *cursor)
{
	for (int i = 0; i < cursor->nsources; i++)
		lsm_source_count_blocks(cursor, &cursor->sources[i]);
}

/* Never fails. */
static void
cursor_drop_sources(LsmCursor *cursor)
{
	for (int i = 0; i < cursor->nsources; i++)
		lsm_source_close_file(cursor, &cursor->sources[i]);
	cursor->nsources = 0;
	cursor->built = false;
	cursor->positioned = false;
}

static LsmSource *
cursor_add_source(LsmCursor *cursor)
{
	LsmSource  *source;

	if (cursor->nsources == cursor->max_sources)
	{
		int			n = Max(8, cursor->max_sources * 2);

		if (cursor->sources == NULL)
		{
			cursor->sources = MemoryContextAlloc(cursor->cxt, n * sizeof(LsmSource));
			cursor->ties = MemoryContextAlloc(cursor->cxt, n * sizeof(int));
		}
		else
		{
			cursor->sources = repalloc(cursor->sources, n * sizeof(LsmSource));
			cursor->ties = repalloc(cursor->ties, n * sizeof(int));
		}
		cursor->max_sources = n;
	}
	source = &cursor->sources[cursor->nsources];
	memset(source, 0, sizeof(LsmSource));
	cursor->nsources++;
	return source;
}

static void
build_range(LsmCursor *cursor)
{
	LsmVersion *version = cursor->version;

	for (int i = 0; i < cursor->set.n; i++)
		cursor_add_source(cursor)->memtable = cursor->set.tables[i];
	for (int i = 0; i < version->nruns && !cursor->memory_only; i++)
	{
		LsmSource  *source = cursor_add_source(cursor);

		source->run = &version->runs[i];
		source->last = version->runs[i].nfiles - 1;
	}
	if (cursor->limit_columns > 0)
		lsm_limit_sources(cursor);
}

/* To be put before the sources that are there, which are older. */
static void
build_point_memtables(LsmCursor *cursor)
{
	LsmSource	found[1 + LSM_MAX_SEALED];
	int			nfiles = cursor->nsources;
	int			n;

	for (int i = 0; i < cursor->set.n; i++)
	{
		LsmSource  *source = cursor_add_source(cursor);

		source->memtable = cursor->set.tables[i];
		if (!lsm_source_find_points(cursor, source, i))
			cursor->nsources--;
	}
	n = cursor->nsources - nfiles;
	if (n == 0 || nfiles == 0)
		return;
	memcpy(found, cursor->sources + nfiles, n * sizeof(LsmSource));
	memmove(cursor->sources + n, cursor->sources, nfiles * sizeof(LsmSource));
	memcpy(cursor->sources, found, n * sizeof(LsmSource));
}

/*
 * One source per file whose fences admit the filter key (more than one of
 * a run where many entries share it); prefetch their filters.
 */
static void
build_point_files(LsmCursor *cursor)
{
	LsmVersion *version = cursor->version;
	LsmKeyWords words = lsm_key_words(cursor->probe.filter_key);
	bool		filters_version = lsm_probe_has_answers(&cursor->probe, version);
	bool		more = false;

	for (int i = 0; i < version->nruns; i++)
	{
		LsmRun	   *run = &version->runs[i];
		int			end;

		if (filters_version && (((cursor->probe.maybe_runs | cursor->probe.unprobed_runs) >> i) & 1) == 0)
			continue;
		for (int at = lsm_run_find_prefix(run, &words, &end); at < end; at++)
		{
			LsmFile    *file = &run->files[at];
			LsmSource  *source;
			LsmOpenFile *open;

			source = cursor_add_source(cursor);
			source->run = run;
			source->first = source->last = source->at = at;
			open = lsm_file_open(cursor->tree, file);
			lsm_probe_prefetch(&cursor->probe, open);
			more |= open->elastic != NULL;
		}
	}
	for (int i = 0; more && i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (source->run != NULL)
			lsm_probe_prefetch_more(&cursor->probe,
									lsm_file_open(cursor->tree,
												  &source->run->files[source->at]));
	}
}

/* Has the source's filter been asked by lsm_tree_multi_lookup()? */
static inline bool
admitted_before(const LsmCursor *cursor, const LsmSource *source)
{
	return lsm_probe_has_answers(&cursor->probe, cursor->version) &&
		((cursor->probe.maybe_runs >> (source->run - cursor->version->runs)) & 1) != 0;
}

/*
 * First build after a seek: ask the filters, position what remains at the end
 * of the range where the scan starts, and drop what has no entry of the key.
 */
static void
ask_point_filters(LsmCursor *cursor, bool forward)
{
	LsmProbeCounts counts = {0};
	int			kept = 0;
	bool		memtable_hit = false;

	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (source->memtable != NULL)
		{
			lsm_source_position(cursor, source, forward);
			memtable_hit |= source->valid;
		}
		else
		{
			LsmOpenFile *open = lsm_file_open(cursor->tree,
											  &source->run->files[source->first]);

			if (admitted_before(cursor, source) ||
				lsm_probe_filter(cursor->tree, &cursor->probe, open, &counts))
			{
				lsm_source_position(cursor, source, forward);
				lsm_file_count_blocks(cursor->tree, open);
				lsm_probe_outcome(open, source->valid, &counts);
			}
			if (!source->valid)
				lsm_source_close_file(cursor, source);
		}
		if (source->valid)
		{
			/* the files of those behind are not open yet: a plain move */
			if (kept != i)
			{
				cursor->sources[kept] = *source;
				source->open = NULL;
			}
			kept++;
		}
	}
	cursor->nsources = kept;
	cursor->asked = true;
	if (memtable_hit)
		lsm_count(cursor->tree, LSM_COUNT_MEMTABLE_HITS, 1);
	lsm_probe_counts_add(cursor->tree, &counts);
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

		cursor_drop_sources(cursor);
		if (cursor->point)
		{
			/* fetched while the fences are looked at */
			lsm_probe_prefetch_memtables(cursor->tree, &cursor->set, &cursor->probe);
			build_point_files(cursor);
			build_point_memtables(cursor);
		}
		else
			build_range(cursor);
		cursor->built = true;
		if (asking)
		{
			/* on an error the sources are dropped and built again */
			cursor->built = false;
			ask_point_filters(cursor, forward);
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

	cursor_count_blocks(cursor);
	cursor_drop_sources(cursor);
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
		{
			size_t		len;
			const void *data = lsm_sst_iter_value(source->iter, &len);

			(void) lsm_fold_add(&fold, lsm_slice(data, (uint32) len));
		}
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

/* REQUIRES: prepared for the direction. */
static MergeResult
cursor_merge(LsmCursor *cursor, bool forward)
{
	for (int skipped = 0; skipped < SKIPS_PER_EPOCH; skipped++)
	{
		int			nties = cursor_pick(cursor, forward);
		LsmSource  *source;

		if (nties == 0)
			return MERGE_END;

		/*
		 * The position moves over skipped entries too: no one can tell the
		 * difference, and a scan that has to start over starts here.
		 */
		stand_at(cursor, cursor->sources[cursor->ties[0]].key);
		if (fold_ties(cursor, nties) == LSM_TAG_PUT)
			return MERGE_FOUND;
		for (int i = 0; i < nties; i++)
		{
			source = &cursor->sources[cursor->ties[i]];
			lsm_source_advance(cursor, source, forward);
			lsm_source_count_blocks(cursor, source);
		}
	}
	return MERGE_PAUSE;
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

	for (;;)
	{
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
	size_t		len;
	const void *data;

	if (source->memtable != NULL)
	{
		LsmMemValue *value = lsm_memnode_value(source->node);

		return lsm_slice(value->data, value->len);
	}
	data = lsm_sst_iter_value(source->iter, &len);
	return lsm_slice(data, (uint32) len);
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

	for (int skipped = 0; skipped < SKIPS_PER_EPOCH;)
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
		if (nties == 1 && source->memtable == NULL &&
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
		if (likely(tag == LSM_TAG_PUT) || tag == LSM_TAG_DELETE)
		{
			for (int i = 0; i < nties; i++)
				cursor->sources[cursor->ties[i]].consumed = true;
			behind = tag == LSM_TAG_PUT;
			if (behind)
				batch_append(batch, source->key, value);
			else
			{
				stand_at(cursor, source->key);
				skipped++;
			}
		}
		else if (fold_ties(cursor, nties) == LSM_TAG_PUT)
		{
			batch_append(batch, source->key,
						 lsm_slice(cursor->value.data, cursor->value.len));
			behind = true;
		}
		else
		{
			stand_at(cursor, source->key);
			behind = false;
			skipped++;
		}
		if (batch->n >= max_entries || batch->bytes.len >= LSM_BATCH_BYTES)
			break;
		for (int i = 0; i < nties; i++)
			lsm_source_advance(cursor, &cursor->sources[cursor->ties[i]], true);
		result = MERGE_PAUSE;
	}
	if (behind)
		stand_at(cursor, lsm_slice(batch->bytes.data + batch->entries[batch->n - 1].key_offset,
								   batch->entries[batch->n - 1].key_bytes));
	return result;
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
		cursor_enter(cursor);
		cursor_prepare(cursor, true);
		cursor->positioned = false;
		result = cursor_merge_batch(cursor, limit, max_entries, batch);
		cursor->positioned = true;
		cursor_count_blocks(cursor);
		lsm_tree_exit(cursor->tree);
	} while (result == MERGE_PAUSE && batch->n == 0);
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

	cursor_drop_sources(cursor);
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
	cursor_count_blocks(cursor);
	MemoryContextDelete(cursor->cxt);
}

static void
set_position(LsmCursor *cursor, LsmSlice key, LsmCursorSide side, bool unbounded)
{
	/* the key may be the one the cursor returned */
	if (key.data != cursor->key.data)
	{
		resetStringInfo(&cursor->key);
		if (key.len > 0)
			lsm_buffer_append(&cursor->key, key.data, key.len);
	}
	else
		cursor->key.len = key.len;
	cursor->side = side;
	cursor->unbounded = unbounded;
	cursor->positioned = false;
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
		cursor_count_blocks(cursor);
		cursor_drop_sources(cursor);
	}
	if (key.len == 0)
		side = forward ? LSM_BEFORE_KEY : LSM_AFTER_KEY;
	set_position(cursor, key, side, key.len == 0);
}

void
lsm_cursor_limit(LsmCursor *cursor, LsmSlice leading, uint32 columns)
{
	if (columns == cursor->limit_columns &&
		(columns == 0 || (leading.len == (uint32) cursor->limit_key.len &&
						  memcmp(leading.data, cursor->limit_key.data, leading.len) == 0)))
		return;
	cursor_count_blocks(cursor);
	cursor_drop_sources(cursor);
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

	cursor_count_blocks(cursor);
	cursor_drop_sources(cursor);
	if (key.data != cursor->filter_key.data)
	{
		resetStringInfo(&cursor->filter_key);
		lsm_buffer_append(&cursor->filter_key, key.data, key.len);
	}
	cursor->probe = *probe;
	cursor->probe.filter_key = lsm_slice(cursor->filter_key.data, key.len);
	cursor->point = true;
	cursor->asked = false;
}

void
lsm_cursor_seek_point(LsmCursor *cursor, const LsmProbe *probe)
{
	seek_point(cursor, probe);
	set_position(cursor, cursor->probe.filter_key, LSM_BEFORE_KEY, false);
}

void
lsm_cursor_seek_point_last(LsmCursor *cursor, const LsmProbe *probe)
{
	seek_point(cursor, probe);
	set_position(cursor, cursor->probe.filter_key, LSM_AFTER_KEY, false);

	/* the last possible row identifier */
	if (cursor->tree->kind == LSM_KIND_INDEX)
		lsm_buffer_append(&cursor->key, "\377\377\377\377\377\377", 6);
}
