/*-------------------------------------------------------------------------
 *
 * source.c
 *	  One source of a cursor's merge: a memtable, or the files of a run.
 *
 * A source stands on an entry, or is at its end (not valid).  It knows nothing
 * of the others.  Seeking starts from the cursor's position; stepping from the
 * entry.
 *
 * Locking: none.  The caller is inside the epoch; nodes and iterators mean
 * something only until the set or the version changes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"
#include "tree/read/cursor.h"
#include "tree/read/filecache.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

/* Never fails. */
void
lsm_source_close_file(LsmCursor *cursor, LsmSource *source)
{
	source->ahead = NULL;
	if (source->open == NULL)
		return;
	lsm_file_release_iter(source->open, source->iter);
	source->open = NULL;
	source->iter = NULL;
}

static void
source_use_file(LsmCursor *cursor, LsmSource *source, int at)
{
	LsmOpenFile *open;

	Assert(at >= source->first && at <= source->last);
	if (source->open != NULL && source->at == at)
		return;
	if (source->open != NULL)
		lsm_file_count_blocks(cursor->tree, source->open);
	lsm_source_close_file(cursor, source);
	open = lsm_file_open(cursor->tree, &source->run->files[at]);
	source->iter = lsm_file_acquire_iter(open);
	source->open = open;
	source->at = at;
}

/* The scan range of point mode: 0: in it, 1: to be skipped, -1: beyond it. */
static inline int
clip_key(const LsmCursor *cursor, LsmSlice key)
{
	if (!cursor->point)
		return 0;
	if (!lsm_slice_has_prefix(key, cursor->probe.filter_key))
		return -1;
	if (cursor->tree->kind == LSM_KIND_INDEX)
		return key.len == cursor->probe.filter_key.len + 6 ? 0 : 1;
	return key.len == cursor->probe.filter_key.len ? 0 : -1;
}

/* Searches back end on these levels, one after the other. */
#define BACK_LEVEL_STEP		2
#define BACK_LEVEL_MAX		4

/*
 * The node before the source's, or NULL.  The first one is searched for alone,
 * for a scan often wants no more; then some are found at a time.
 */
static LsmMemNode *
memtable_step_back(LsmCursor *cursor, LsmSource *source)
{
	if (source->at_back == source->nback)
	{
		int			level = source->back_level;

		source->back_level = Min(level + BACK_LEVEL_STEP, BACK_LEVEL_MAX);
		if (level == 0)
			return lsm_memtable_prev(source->memtable, source->node);
		if (cursor->back == NULL)
			cursor->back = MemoryContextAlloc(cursor->cxt, sizeof(LsmMemNode *) *
											  (1 + LSM_MAX_SEALED) * LSM_MEMTABLE_MAX_PREV);
		/* memtables are the first sources */
		Assert(source - cursor->sources <= LSM_MAX_SEALED);
		source->back = cursor->back + (source - cursor->sources) * LSM_MEMTABLE_MAX_PREV;
		source->nback = lsm_memtable_prev_many(source->memtable, source->node, level,
											   source->back, LSM_MEMTABLE_MAX_PREV);
		source->at_back = 0;
		if (source->nback == 0)
			return NULL;
	}
	return source->back[source->at_back++];
}

/* Take the node's entry, passing over what is to be skipped. */
static void
memtable_settle(LsmCursor *cursor, LsmSource *source, bool forward)
{
	lsm_source_take_none(source);
	while (source->node != NULL)
	{
		LsmSlice	key = lsm_memnode_key(source->node);
		int			clip = clip_key(cursor, key);

		if (clip == 0)
		{
			lsm_source_take_key(cursor, source, key);
			return;
		}
		if (clip < 0)
			return;
		if (forward)
		{
			source->before = source->node;
			source->node = lsm_memtable_next(source->memtable, source->node);
		}
		else
			source->node = memtable_step_back(cursor, source);
	}
}

static void
memtable_position(LsmCursor *cursor, LsmSource *source, bool forward)
{
	LsmMemtable *memtable = source->memtable;
	LsmSlice	key = lsm_slice(cursor->key.data, cursor->key.len);
	LsmMemNode *node;
	bool		equal;

	source->before = NULL;
	source->node = NULL;
	if (cursor->unbounded)
	{
		if (forward && cursor->side == LSM_BEFORE_KEY)
			source->node = lsm_memtable_first(memtable);
		else if (forward)
			source->before = lsm_memtable_last(memtable);
		else if (cursor->side == LSM_AFTER_KEY)
			source->node = lsm_memtable_last(memtable);
		memtable_settle(cursor, source, forward);
		return;
	}

	node = lsm_memtable_seek_last(memtable, key);
	equal = node != NULL && lsm_slice_compare(lsm_memnode_key(node), key) == 0;
	if (forward)
	{
		source->before = node;
		if (equal && cursor->side == LSM_BEFORE_KEY)
			source->node = node;
		else
		{
			source->node = node == NULL ? lsm_memtable_first(memtable) :
				lsm_memtable_next(source->memtable, node);

			/*
			 * what was inserted since the search may still lie before the
			 * position
			 */
			while (source->node != NULL)
			{
				int			c = lsm_slice_compare(lsm_memnode_key(source->node), key);

				if (c > 0 || (c == 0 && cursor->side == LSM_BEFORE_KEY))
					break;
				source->before = source->node;
				source->node = lsm_memtable_next(memtable, source->node);
			}
		}
	}
	else if (equal && cursor->side != LSM_AFTER_KEY)
		source->node = lsm_memtable_prev(memtable, node);
	else
		source->node = node;
	memtable_settle(cursor, source, forward);
}

/* ---- a memtable's entries of a point range ---- */

/* Where the nth memtable's nodes go. */
static LsmMemNode **
points_room(LsmCursor *cursor, int nth, int nnodes)
{
	LsmMemNode ***room = nnodes <= CURSOR_FEW_POINTS ? &cursor->points : &cursor->many_points;
	int			most = nnodes <= CURSOR_FEW_POINTS ? CURSOR_FEW_POINTS : LSM_MEMTABLE_MAX_SAME;

	Assert(nth <= LSM_MAX_SEALED && nnodes <= most);
	if (*room == NULL)
		*room = MemoryContextAlloc(cursor->cxt, sizeof(LsmMemNode *) * (1 + LSM_MAX_SEALED) * most);
	return *room + nth * most;
}

bool
lsm_source_find_points(LsmCursor *cursor, LsmSource *source, int nth)
{
	const LsmProbe *probe = &cursor->probe;
	LsmMemNode *found[LSM_MEMTABLE_MAX_SAME];
	int			nfound = lsm_memtable_find_all(source->memtable,
											   lsm_memtable_digest(cursor->tree, probe->filter_key,
																   probe->digest),
											   probe->filter_key, found);
	LsmMemNode **points;
	int			n = 0;

	source->points = NULL;
	if (nfound <= 0)
		return nfound < 0;
	points = points_room(cursor, nth, nfound);

	/* the newest ones come first, and have the largest TIDs as a rule */
	while (nfound-- > 0)
	{
		LsmMemNode *node = found[nfound];
		LsmSlice	key = lsm_memnode_key(node);
		int			at = n;
		int			c = -1;

		if (clip_key(cursor, key) != 0)
			continue;
		while (at > 0 && (c = lsm_slice_compare(key, lsm_memnode_key(points[at - 1]))) < 0)
			at--;
		if (at > 0 && c == 0)
			return true;		/* being merged: the skiplist will tell */
		memmove(points + at + 1, points + at, (n - at) * sizeof(LsmMemNode *));
		points[at] = node;
		n++;
	}
	source->points = points;
	source->npoints = n;
	return n > 0;
}

static inline void
points_settle(LsmCursor *cursor, LsmSource *source)
{
	lsm_source_take_none(source);
	if (source->at_point >= 0 && source->at_point < source->npoints)
	{
		source->node = source->points[source->at_point];
		lsm_source_take_key(cursor, source, lsm_memnode_key(source->node));
	}
}

static void
points_position(LsmCursor *cursor, LsmSource *source, bool forward)
{
	LsmSlice	key = lsm_slice(cursor->key.data, cursor->key.len);
	int			at = 0;

	Assert(!cursor->unbounded);
	for (; at < source->npoints; at++)
	{
		int			c = lsm_slice_compare(lsm_memnode_key(source->points[at]), key);

		if (c > 0 || (c == 0 && cursor->side != LSM_AFTER_KEY))
		{
			/*
			 * at the position itself: it was the last one returned, or is next
			 */
			if (c == 0 && forward && cursor->side == LSM_AT_KEY)
				at++;
			break;
		}
	}
	source->at_point = forward ? at : at - 1;
	points_settle(cursor, source);
}

/*
 * Forward only: has something been inserted between the last node passed and
 * the present one?  What is not beyond the position is passed at once.
 */
void
lsm_source_refresh(LsmCursor *cursor, LsmSource *source)
{
	LsmSlice	position = lsm_slice(cursor->key.data, cursor->key.len);
	LsmMemNode *node;

	if (source->points != NULL ||
		(source->before != NULL && source->before == source->node))
		return;
	if (cursor->unbounded && cursor->side == LSM_AFTER_KEY)
		return;
	node = source->before == NULL ? lsm_memtable_first(source->memtable) :
		lsm_memtable_next(source->memtable, source->before);
	if (likely(node == source->node))
		return;
	while (node != NULL && node != source->node && !cursor->unbounded)
	{
		int			c = lsm_slice_compare(lsm_memnode_key(node), position);

		if (c > 0 || (c == 0 && cursor->side == LSM_BEFORE_KEY))
			break;
		source->before = node;
		node = lsm_memtable_next(source->memtable, node);
	}
	source->node = node;
	memtable_settle(cursor, source, true);
}

/*
 * Take the iterator's entry, going on to the neighbouring file at the end of
 * one.
 */
static void
files_settle(LsmCursor *cursor, LsmSource *source, bool forward)
{
	LsmSstError err;

	lsm_source_take_none(source);
	for (;;)
	{
		if (lsm_sst_iter_valid(source->iter))
		{
			size_t		len;
			const void *data = lsm_sst_iter_key(source->iter, &len);
			LsmSlice	key = lsm_slice(data, (uint32) len);
			int			clip = clip_key(cursor, key);

			if (clip == 0)
			{
				lsm_source_take_key(cursor, source, key);
				return;
			}
			if (clip < 0)
				break;
			lsm_sst_check(forward ? lsm_sst_iter_next(source->iter, &err) :
						  lsm_sst_iter_prev(source->iter, &err), &err);
		}
		else
		{
			int			at = source->at + (forward ? 1 : -1);

			if (at < source->first || at > source->last)
				break;
			source_use_file(cursor, source, at);
			lsm_sst_check(forward ? lsm_sst_iter_first(source->iter, &err) :
						  lsm_sst_iter_last(source->iter, &err), &err);
		}
	}
}

/*
 * Seek, beginning in the first file of the direction whose fences admit the
 * key.  Cut fences may admit it to several files, and only the files themselves
 * tell in which one it belongs.
 */
static void
files_seek(LsmCursor *cursor, LsmSource *source, int at, LsmSlice key, bool forward)
{
	const LsmFile *files = source->run->files;
	uint32		prefix_bytes = 0;
	LsmSstError err;

	/*
	 * all that a point scan is for; entries that clip_key() ends it at need
	 * not be read
	 */
	if (cursor->point)
		prefix_bytes = cursor->probe.filter_key.len;
	Assert(prefix_bytes <= key.len);
	for (;;)
	{
		source_use_file(cursor, source, at);
		lsm_sst_check(forward ?
					  lsm_sst_iter_seek_prefix(source->iter, key.data, key.len,
											   prefix_bytes, &err) :
					  lsm_sst_iter_seek_last(source->iter, key.data, key.len, &err),
					  &err);
		if (lsm_sst_iter_valid(source->iter))
			return;
		at += forward ? 1 : -1;
		if (at < source->first || at > source->last ||
			(forward ? lsm_file_after(&files[at], key) :
			 lsm_file_before(&files[at], key)))
			return;				/* its end is the place: files_settle() */
	}
}

static void
files_position(LsmCursor *cursor, LsmSource *source, bool forward)
{
	LsmSlice	key = lsm_slice(cursor->key.data, cursor->key.len);
	LsmSstIter *iter;
	LsmSstError err;
	int			at;

	lsm_source_take_none(source);
	if (cursor->unbounded)
	{
		if (forward != (cursor->side == LSM_BEFORE_KEY))
			return;
		at = forward ? source->first : source->last;
		source_use_file(cursor, source, at);
		lsm_sst_check(forward ? lsm_sst_iter_first(source->iter, &err) :
					  lsm_sst_iter_last(source->iter, &err), &err);
		files_settle(cursor, source, forward);
		return;
	}

	/* fences were looked at when the file became a source */
	if (cursor->point && source->first == source->last)
		at = source->first;
	else if (forward)
		at = Max(lsm_run_find(source->run, key), source->first);
	else
		at = Min(lsm_run_find_last(source->run, key), source->last);
	if (at < source->first || at > source->last)
		return;
	files_seek(cursor, source, at, key, forward);
	iter = source->iter;
	if (lsm_sst_iter_valid(iter) &&
		cursor->side != (forward ? LSM_BEFORE_KEY : LSM_AFTER_KEY))
	{
		size_t		len;
		const void *data = lsm_sst_iter_key(iter, &len);

		if (len == key.len && memcmp(data, key.data, len) == 0)
			lsm_sst_check(forward ? lsm_sst_iter_next(iter, &err) :
						  lsm_sst_iter_prev(iter, &err), &err);
	}
	files_settle(cursor, source, forward);
}

void
lsm_source_position(LsmCursor *cursor, LsmSource *source, bool forward)
{
	source->consumed = false;
	source->ahead = NULL;
	if (source->points != NULL)
		points_position(cursor, source, forward);
	else if (source->memtable != NULL)
		memtable_position(cursor, source, forward);
	else
	{
		files_position(cursor, source, forward);
		lsm_source_count_blocks(cursor, source);
		LSM_DOUBT(!cursor->point, lsm_opinion_position(cursor, source, forward));
	}
}

void
lsm_source_take_entry(LsmCursor *cursor, LsmSource *source, bool forward)
{
	Assert(source->ahead == NULL);
	source->consumed = false;
	files_settle(cursor, source, forward);
}

static LsmAhead *
ahead_of(LsmCursor *cursor, const LsmSource *source)
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
		cursor->aheads[i] = MemoryContextAlloc(cursor->cxt, sizeof(LsmAhead));
		cursor->aheads[i]->bytes = MemoryContextAlloc(cursor->cxt,
													  LSM_AHEAD_BYTES + LSM_SHORT_BYTES);
	}
	return cursor->aheads[i];
}

bool
lsm_source_read_ahead(LsmCursor *cursor, LsmSource *source, int max_entries,
					  const LsmBatch *batch)
{
	LsmAhead   *ahead = ahead_of(cursor, source);
	LsmSstBatch take = {
		.bound = cursor->end.data,
		.bound_bytes = cursor->end.len,
		.bound_readable = cursor->end.len,
		.bound_prefix = true,
		.first_byte = LSM_TAG_PUT,
		.entries = ahead->entries,
		.max = max_entries,
		.bytes = ahead->bytes,
		.capacity = LSM_AHEAD_BYTES,
		.headroom = batch->headroom,
		.aligned = batch->aligned,
	};
	LsmSstError err;

	lsm_sst_check(lsm_sst_iter_read_batch(source->iter, &take, &ahead->taken, &err), &err);
	if (take.n == 0)
		return false;
	ahead->n = take.n;
	source->ahead = ahead;
	lsm_ahead_note_common(cursor, ahead);
	lsm_source_take_ahead(cursor, source, 0);
	return true;
}

/* Of entries read ahead; behind the last of them the iterator is asked again. */
static void
step_ahead(LsmCursor *cursor, LsmSource *source)
{
	LsmAhead   *ahead = source->ahead;
	LsmSstError err;

	if (ahead->at + 1 < ahead->n)
	{
		lsm_source_take_ahead(cursor, source, ahead->at + 1);
		return;
	}
	source->ahead = NULL;
	if (ahead->taken)
		lsm_sst_check(lsm_sst_iter_next(source->iter, &err), &err);
	files_settle(cursor, source, true);
}

/* Step past the entry.  Blocks read are left for the caller to count. */
void
lsm_source_advance(LsmCursor *cursor, LsmSource *source, bool forward)
{
	LsmSstError err;

	source->consumed = false;
	if (source->points != NULL)
	{
		source->at_point += forward ? 1 : -1;
		points_settle(cursor, source);
	}
	else if (source->ahead != NULL)
	{
		Assert(forward);
		step_ahead(cursor, source);
	}
	else if (source->memtable == NULL)
	{
		lsm_sst_check(forward ? lsm_sst_iter_next(source->iter, &err) :
					  lsm_sst_iter_prev(source->iter, &err), &err);
		files_settle(cursor, source, forward);
	}
	else
	{
		if (forward)
		{
			source->before = source->node;
			source->node = lsm_memtable_next(source->memtable, source->node);
		}
		else
			source->node = memtable_step_back(cursor, source);
		memtable_settle(cursor, source, forward);
	}
}

/* ---- all of a cursor's ---- */

LsmSource *
lsm_sources_add(LsmCursor *cursor)
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
	lsm_source_take_none(source);
	cursor->nsources++;
	return source;
}

void
lsm_sources_count_blocks(LsmCursor *cursor)
{
	for (int i = 0; i < cursor->nsources; i++)
		lsm_source_count_blocks(cursor, &cursor->sources[i]);
}

void
lsm_sources_drop(LsmCursor *cursor)
{
	for (int i = 0; i < cursor->nsources; i++)
		lsm_source_close_file(cursor, &cursor->sources[i]);
	cursor->nsources = 0;
	cursor->built = false;
	cursor->positioned = false;
}
