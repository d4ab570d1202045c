/*-------------------------------------------------------------------------
 *
 * pass_gap.c
 *	  A cursor that goes forward and meets many deleted entries: it passes gaps
 *	  that are known, and finds out where they are (control/gaps.h).
 *
 * A run is what is skipped between the cursor's place, or the last entry it
 * returned, and the next one.  After the first LSM_SKIPS_PER_GAP entries of a
 * run the cursor goes back to its beginning and reads it again under a watch:
 * the entry at its end is the end of a gap.  The next cursor that is put there
 * starts behind the gap, and from there on under a watch, too, since meanwhile
 * more have been deleted.
 *
 * A cursor that reads less than the whole tree, because filters have answered
 * for a key or its leading columns, knows nothing about other keys.  No filter
 * key and no leading columns' bytes are a prefix of others, so keys between two
 * that begin so do, too.
 *
 * Locking: that of gaps.c, outside the epoch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"

#include "tree/control/control.h"
#include "tree/control/gaps.h"
#include "tree/read/cursor.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"

/* What is known by then is told at once: no watch lasts for long. */
#define SKIPS_PER_WATCH	4096

void
lsm_cursor_pass_gaps(LsmCursor *cursor)
{
	const LsmTree *tree = cursor->tree;

	cursor->passes_gaps = tree->kind == LSM_KIND_INDEX &&
		tree->relpersistence != RELPERSISTENCE_TEMP && !lsm_ignore_missing_files &&
		!RecoveryInProgress();
}

void
lsm_gap_run_begin(LsmCursor *cursor, const LsmSlice *key)
{
	LsmSlice	start = key != NULL ? *key : lsm_slice(cursor->key.data, cursor->key.len);

	cursor->skipped = 1;
	if (!cursor->passes_gaps)
		return;
	if (cursor->run_start.data == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(cursor->cxt);

		initStringInfo(&cursor->run_start);
		MemoryContextSwitchTo(old);
	}
	resetStringInfo(&cursor->run_start);
	lsm_buffer_append(&cursor->run_start, start.data, start.len);
	cursor->run_side = key != NULL ? LSM_AT_KEY : cursor->side;
}

/*
 * The first key that may come next.  REQUIRES: len is less than the buffer's
 * size by one; as any StringInfo's is.
 */
static LsmSlice
next_key(StringInfo key, LsmCursorSide side)
{
	Assert(key->len < key->maxlen);
	if (side == LSM_BEFORE_KEY)
		return lsm_slice(key->data, key->len);
	key->data[key->len] = '\0';
	return lsm_slice(key->data, key->len + 1);
}

/* What all keys begin with of which the cursor knows everything */
static LsmSlice
known_prefix(const LsmCursor *cursor)
{
	if (cursor->point)
		return cursor->probe.filter_key;
	if (cursor->limit_columns > 0)
		return lsm_slice(cursor->limit_key.data, cursor->limit_key.len);
	return lsm_slice("", 0);
}

static void
put_before(LsmCursor *cursor, LsmSlice key)
{
	lsm_cursor_put(cursor, key, LSM_BEFORE_KEY);
	cursor->skipped = 0;
}

/*
 * Sources made before the watch may lack what was written before it, too: those
 * of a point had no entry of its key then, and were left out.
 */
static void
begin_watch(LsmCursor *cursor, LsmSlice low)
{
	/* set since the cursor was opened: files may be missing to it alone */
	if (unlikely(lsm_ignore_missing_files))
		return;
	cursor->watch = lsm_gaps_watch(cursor->tree, low);
	if (cursor->watch != 0)
	{
		lsm_sources_count_blocks(cursor);
		lsm_sources_drop(cursor);
	}
}

static void
pass(LsmCursor *cursor, const LsmGapKey *high)
{
	LsmSlice	key = lsm_slice(high->data, high->len);
	LsmSlice	prefix = known_prefix(cursor);

	if (cursor->point && !lsm_slice_has_prefix(key, prefix))
	{
		/* nothing is left of the point: behind its last possible entry */
		lsm_cursor_put(cursor, prefix, LSM_AFTER_KEY);
		lsm_buffer_append(&cursor->key, "\377\377\377\377\377\377", LSM_TID_BYTES);
		cursor->skipped = 0;
		return;
	}
	if (cursor->watch == 0 && lsm_slice_has_prefix(key, prefix))
		begin_watch(cursor, key);
	put_before(cursor, key);
}

/* Read the run once more, under a watch. */
static void
watch_run(LsmCursor *cursor)
{
	LsmSlice	start = next_key(&cursor->run_start, cursor->run_side);

	if (!lsm_slice_has_prefix(start, known_prefix(cursor)))
		return;
	begin_watch(cursor, start);
	if (cursor->watch != 0)
		put_before(cursor, start);
}

void
lsm_gap_pass(LsmCursor *cursor)
{
	LsmTree    *tree = cursor->tree;
	LsmSlice	here;
	LsmGapKey	high;

	if (cursor->unbounded && cursor->side != LSM_BEFORE_KEY)
		return;
	here = next_key(&cursor->key, cursor->side);
	if (cursor->unbounded)
		here.len = 0;
	if (lsm_gaps_find(tree, here, &high))
	{
		LSM_DOUBT(true, lsm_opinion_gap(cursor, here, &high));
		pass(cursor, &high);
	}
	else if (cursor->sought)
		return;
	else if (cursor->watch == 0)
		watch_run(cursor);
	else if (cursor->skipped >= SKIPS_PER_WATCH && lsm_slice_has_prefix(here, known_prefix(cursor)))
	{
		lsm_gaps_learn(tree, cursor->watch, here);
		cursor->watch = 0;
		begin_watch(cursor, here);
		put_before(cursor, here);
	}
}

void
lsm_gap_run_end(LsmCursor *cursor, const LsmSlice *key)
{
	LsmSlice	high = key != NULL ? *key : next_key(&cursor->key, cursor->side);
	uint64		watch = cursor->watch;

	if (watch == 0)
		return;
	cursor->watch = 0;
	if ((key != NULL || (cursor->skipped > 0 && !cursor->unbounded)) &&
		lsm_slice_has_prefix(high, known_prefix(cursor)))
		lsm_gaps_learn(cursor->tree, watch, high);
	else
		lsm_gaps_unwatch(cursor->tree, watch);
}
