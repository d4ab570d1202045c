/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  Within one walk of an index scan: where the cursor is put, and the entries
 *	  that match, in the order of codes.
 *
 * No lock or pin is held between calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "index/scan.h"

/* Entries of a walk's first batch: many are left after a few */
#define FIRST_BATCH_ENTRIES	4

/*
 * Bounds may be longer than any key, which changes nothing about where they
 * lie between keys if they are cut: no key is that long.
 */
static LsmSlice
seek_slice(LsmSlice bound)
{
	return lsm_slice(bound.data, Min(bound.len, LSM_MAX_KEY_BYTES));
}

/* The least key that is greater than all that begin with `bound`. */
static LsmSlice
successor(LsmScan *so, LsmSlice bound)
{
	int			i;

	bound = seek_slice(bound);
	resetStringInfo(lsm_scan_buffer(so, &so->seek));
	lsm_buffer_append(&so->seek, bound.data, bound.len);
	for (i = bound.len - 1; (uint8) so->seek.data[i] == 0xFF; i--)
		Assert(i > 0);			/* the first byte is a marker */
	so->seek.data[i]++;
	return lsm_slice(so->seek.data, i + 1);
}

void
lsm_walk_open_cursor(LsmScan *so)
{
	MemoryContext old = MemoryContextSwitchTo(so->context);

	so->cursor = lsm_cursor_open(so->tree);
	lsm_cursor_pass_gaps(so->cursor);
	MemoryContextSwitchTo(old);
}

void
lsm_walk_drop_batch(LsmScan *so)
{
	if (so->ahead.batch != NULL)
		so->ahead.batch->n = 0;
	so->skip.misses = 0;
	so->ahead.next = 0;
	so->ahead.size = FIRST_BATCH_ENTRIES;
	so->ahead.inside = so->ahead.plain = false;
}

void
lsm_walk_seek(LsmScan *so, LsmSlice prefix, bool beyond, ScanDirection direction)
{
	bool		forward = ScanDirectionIsForward(direction);

	(*so->searches)++;
	lsm_walk_drop_batch(so);
	if (prefix.len > 0 && forward == beyond)
		lsm_cursor_seek(so->cursor, successor(so, prefix), !forward, direction);
	else
		lsm_cursor_seek(so->cursor, seek_slice(prefix), prefix.len > 0 && !forward, direction);
}

static LsmSlice
copy_slice(LsmSlice slice)
{
	char	   *copy = palloc(slice.len + 1);

	lsm_bytes_copy(copy, slice.data, slice.len);
	return lsm_slice(copy, slice.len);
}

void
lsm_walk_ends(LsmScan *so, LsmSlice *low, LsmSlice *high)
{
	LsmSlice	lower = lsm_buffer_slice(&so->walk.lower);
	LsmSlice	upper = lsm_buffer_slice(&so->walk.upper);

	*low = copy_slice(lower.len > 0 && !so->walk.lower_inclusive ? successor(so, lower) :
					  seek_slice(lower));
	*high = copy_slice(upper.len > 0 && so->walk.upper_inclusive ? successor(so, upper) :
					   seek_slice(upper));
}

void
lsm_walk_seek_key(LsmScan *so, LsmSlice key, ScanDirection direction)
{
	(*so->searches)++;
	lsm_walk_drop_batch(so);
	lsm_cursor_seek(so->cursor, key, true, direction);
}

bool
lsm_walk_is_beyond(LsmScan *so, LsmSlice key, ScanDirection direction)
{
	int			c;

	if (ScanDirectionIsForward(direction))
	{
		if (so->walk.upper.len == 0)
			return false;
		c = lsm_bound_compare(key, lsm_buffer_slice(&so->walk.upper));
		return c > 0 || (c == 0 && !so->walk.upper_inclusive);
	}
	if (so->walk.lower.len == 0)
		return false;
	c = lsm_bound_compare(key, lsm_buffer_slice(&so->walk.lower));
	return c < 0 || (c == 0 && !so->walk.lower_inclusive);
}

static bool
step_batch(LsmScan *so, ScanDirection direction, LsmSlice *key, LsmSlice *value)
{
	LsmBatch   *batch = so->ahead.batch;

	if (batch == NULL || so->ahead.next >= batch->n)
	{
		if (batch == NULL)
		{
			MemoryContext old = MemoryContextSwitchTo(so->context);

			batch = palloc0(sizeof(LsmBatch));
			lsm_buffer_init(&batch->bytes, 1024);
			so->ahead.batch = batch;
			MemoryContextSwitchTo(old);
		}
		so->ahead.next = 0;
		lsm_copy_current(so);
		if (!lsm_cursor_fill(so->cursor, direction,
							 lsm_buffer_slice(ScanDirectionIsForward(direction) ? &so->walk.upper : &so->walk.lower),
							 so->ahead.size, batch))
			return false;
		so->ahead.size = Min(so->ahead.size * 2, LSM_BATCH_ENTRIES);

		/* if the last one is, all are */
		lsm_batch_entry(batch, batch->n - 1, key, value);
		so->ahead.inside = !lsm_walk_is_beyond(so, *key, direction);
		so->ahead.plain = so->ahead.inside && so->quals.nwalk == 0;
	}
	lsm_batch_entry(batch, so->ahead.next++, key, value);
	return true;
}

/*
 * Pass over entries that were read ahead, up to the place in so->skip.target.
 * False: it is behind all of them.
 */
static bool
pass_in_batch(LsmScan *so, ScanDirection direction, bool beyond)
{
	LsmBatch   *batch = so->ahead.batch;
	LsmSlice	place = lsm_buffer_slice(&so->skip.target);
	int			low = so->ahead.next;
	int			high;

	if (batch == NULL || low >= batch->n)
		return false;
	for (high = batch->n; low < high;)
	{
		/* the last one first: mostly it is before the place */
		int			at = high == batch->n ? high - 1 : low + (high - low) / 2;
		LsmSlice	key;
		LsmSlice	value;
		int			c;

		lsm_batch_entry(batch, at, &key, &value);
		c = lsm_bound_compare(key, place);
		if (ScanDirectionIsBackward(direction))
			c = -c;
		if (c > 0 || (c == 0 && !beyond))
			high = at;
		else if (high == batch->n)
			return false;
		else
			low = at + 1;
	}
	/* hardly worth the search for the place */
	if (low - so->ahead.next < FIRST_BATCH_ENTRIES && so->skip.trusted > 0)
		so->skip.trusted--;
	so->ahead.next = low;
	return true;
}

/* The next entry of the tree in the direction. */
static inline bool
step_cursor(LsmScan *so, ScanDirection direction, LsmSlice *key, LsmSlice *value)
{
	if (so->ahead.allowed && so->quals.nprefix < so->spec->nkeys)
		return step_batch(so, direction, key, value);
	return lsm_cursor_step(so->cursor, direction, key, value);
}

bool
lsm_walk_step(LsmScan *so, ScanDirection direction, LsmSlice *key, LsmSlice *value)
{
	for (;;)
	{
		MemoryContext old;
		bool		matches;
		bool		beyond;

		CHECK_FOR_INTERRUPTS();
		if (!step_cursor(so, direction, key, value) ||
			(!so->ahead.inside && lsm_walk_is_beyond(so, *key, direction)) ||
			(so->walk.within.len > 0 && lsm_bound_compare(*key, so->walk.within) != 0))
			return false;
		if (so->quals.nwalk == 0)
			return true;
		old = MemoryContextSwitchTo(so->entry_context);
		matches = lsm_quals_match(&so->quals, so->spec, *key);
		MemoryContextSwitchTo(old);
		MemoryContextReset(so->entry_context);
		if (matches)
		{
			lsm_walk_matched(so);
			return true;
		}
		if (lsm_walk_missed(so, direction, *key, &beyond) &&
			!pass_in_batch(so, direction, beyond))
		{
			if (so->skip.trusted > 0)
				so->skip.trusted--;
			/* entries of a group that were read before are still to come */
			if (!so->sorts)
				lsm_guard_take_stamp(so);
			lsm_walk_seek(so, lsm_buffer_slice(&so->skip.target), beyond, direction);
		}
	}
}
