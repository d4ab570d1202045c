/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Index scans.
 *
 * A scan is a sequence of walks.  The leading columns that are bound to points
 * (=, = ANY, IS NULL) make the prefix; for each combination of points, in the
 * order of the index, there is one walk over the entries with that prefix and
 * within the bounds of the next column.  If the prefix is the whole key, the
 * walk is a point lookup: its digest is computed once, by lsm_probe_begin, and all
 * memtables and filters use it.
 *
 * The position of a scan is the key of the entry returned last, kept in
 * `current`.  After a change of direction or a restored mark the cursor is
 * positioned anew next to it.
 *
 * No lock or pin of the index is held between calls.  For MVCC snapshots
 * that is safe: a row that gets a TID after VACUUM has freed it is invisible to us.
 * Index-only scans need more (guard_entry).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "index/index.h"

/* Entries of a walk's first batch: many are left after a few */
#define FIRST_BATCH_ENTRIES	4

typedef enum WalkState
{
	SCAN_FRESH,					/* nothing returned yet */
	SCAN_ON_ENTRY,				/* `current` is valid */
	SCAN_PAST_LAST,
	SCAN_BEFORE_FIRST
} WalkState;

/* Where a scan is; what a mark remembers */
typedef struct ScanPosition
{
	WalkState	state;
	int			point[INDEX_MAX_KEYS];	/* of the prefix's columns: the walk */
	StringInfoData current;		/* key of the entry returned last */
} ScanPosition;

typedef struct LsmScan
{
	LsmKeySpec *spec;
	LsmTree    *tree;			/* NULL until the first tuple is asked for */
	LsmCursor  *cursor;
	MemoryContext context;		/* lives as long as the scan */
	MemoryContext key_context;	/* reset by each rescan */
	MemoryContext entry_context;	/* reset for each entry looked at; may be
									 * NULL */
	MemoryContext tuple_context;	/* of xs_hitup; may be NULL */

	bool		prepared;		/* quals are up to date */
	LsmQuals	quals;

	ScanPosition position;
	ScanPosition mark;
	ScanDirection direction;	/* of the cursor */
	bool		reposition;		/* cursor is not at `current` */

	/*
	 * Range walks forward: entries read ahead, of which batch_next .. n - 1
	 * are still to be looked at.  An MVCC snapshot does not care when an
	 * entry is read, as long as its row is looked at later.
	 */
	bool		batched;		/* the snapshot allows it */
	LsmBatch   *batch;			/* NULL until needed */
	int			batch_next;
	int			batch_size;		/* of the next one */
	bool		in_groups;		/* = ANY: points are looked for together, forward */
	LsmPoints  *points;			/* NULL until needed */

	/* the walk's bounds: prefix plus bound of the next column; len 0: none */
	StringInfoData lower;
	StringInfoData upper;
	int			prefix_bytes;
	bool		lower_inclusive;
	bool		upper_inclusive;
	StringInfoData seek;		/* scratch */

	bool		stable_tids;
	LsmKills	kills;
	Buffer		interlock;		/* metapage, pinned to keep VACUUM from
								 * freeing TIDs */

	/* index-only scans of tables whose TIDs are used again */
	bool		guard;
	LsmStamp	guard_stamp;	/* taken before the cursor was positioned */
	Buffer		vm_buffer;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
} LsmScan;

/* ======================================================================
 * Begin, end, rescan
 * ====================================================================== */

IndexScanDesc
lsm_index_begin_scan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "lsm_index scan",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LsmScan    *so = palloc0(sizeof(LsmScan));

	Assert(norderbys == 0);
	so->spec = lsm_key_spec(index);
	so->quals.columns = palloc(sizeof(LsmColumnQuals) * so->spec->nkeys);
	so->context = context;
	so->key_context = AllocSetContextCreate(context, "lsm_index scan keys",
											ALLOCSET_SMALL_SIZES);
	lsm_buffer_init(&so->position.current, 64);
	lsm_buffer_init(&so->mark.current, 64);
	lsm_buffer_init(&so->lower, 64);
	lsm_buffer_init(&so->upper, 64);
	lsm_buffer_init(&so->seek, 64);
	so->kills.context = so->context;
	so->vm_buffer = InvalidBuffer;
	so->interlock = InvalidBuffer;
	MemoryContextSwitchTo(old);
	scan->xs_hitupdesc = RelationGetDescr(index);
	scan->opaque = so;
	return scan;
}

static void
apply_kills(LsmScan *so)
{
	TransactionId xid;

	if (so->kills.n > 0 && lsm_forget_bound(&xid))
		lsm_kills_apply(&so->kills, so->tree, xid);
}

void
lsm_index_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
				 int norderbys)
{
	LsmScan    *so = scan->opaque;

	apply_kills(so);
	if (keys && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	so->prepared = false;
	if (so->points != NULL)
		so->points->n = 0;
	so->position.state = SCAN_FRESH;
	so->mark.state = SCAN_FRESH;
	if (so->fetch != NULL)
		table_index_fetch_reset(so->fetch);
}

void
lsm_index_end_scan(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	apply_kills(so);
	if (so->cursor != NULL)
		lsm_cursor_close(so->cursor);
	if (BufferIsValid(so->vm_buffer))
		ReleaseBuffer(so->vm_buffer);
	if (BufferIsValid(so->interlock))
		ReleaseBuffer(so->interlock);
	if (so->fetch != NULL)
	{
		table_index_fetch_end(so->fetch);
		ExecDropSingleTupleTableSlot(so->slot);
	}
	MemoryContextDelete(so->context);	/* `so` too */
}

/*
 * Under a snapshot that sees rows as soon as they are there, an entry may
 * lead us to a row that has reused the TID.  Whoever looks at it compares it with the
 * keys once more, unless one of them is IS NULL: ON CONFLICT, which has such keys
 * for NULLS NOT DISTINCT, takes NULL for different from NULL there.  Then the
 * TIDs must not be used again before the scan has ended.
 */
static void
mind_reused_tids(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	bool		null_keys = false;

	if (scan->numberOfKeys == 0 || so->stable_tids || scan->xs_snapshot == NULL ||
		IsMVCCSnapshot(scan->xs_snapshot))
		return;
	for (int i = 0; i < scan->numberOfKeys; i++)
		null_keys |= (scan->keyData[i].sk_flags & SK_SEARCHNULL) != 0;
	if (!null_keys)
		so->quals.recheck = true;
	else if (!BufferIsValid(so->interlock))
		so->interlock = ReadBuffer(scan->indexRelation, LSM_INTERLOCK_BLOCK);
}

/*
 * What is left for the first call after a rescan: runtime keys are known, and
 * whether an index-only scan is wanted.
 */
static void
prepare_scan(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	MemoryContext old;

	pgstat_count_index_scan(scan->indexRelation);
	so->tree = lsm_index_open_tree(scan->indexRelation);
	if (so->cursor == NULL)
	{
		Relation	table = scan->heapRelation;

		old = MemoryContextSwitchTo(so->context);
		so->cursor = lsm_cursor_open(so->tree);
		so->stable_tids = table != NULL && lsm_tids_are_stable(table);
		MemoryContextSwitchTo(old);
	}
	so->guard = scan->xs_want_itup && !so->stable_tids;
	so->batched = scan->xs_snapshot != NULL &&
		scan->xs_snapshot->snapshot_type == SNAPSHOT_MVCC && !IsolationIsSerializable();
	if (scan->xs_want_itup && so->tuple_context == NULL)
		so->tuple_context = AllocSetContextCreate(so->context, "lsm_index tuple",
												  ALLOCSET_SMALL_SIZES);

	MemoryContextReset(so->key_context);
	old = MemoryContextSwitchTo(so->key_context);
	lsm_quals_prepare(&so->quals, so->spec, scan->keyData, scan->numberOfKeys);
	MemoryContextSwitchTo(old);
	if (so->quals.nwalk > 0 && so->entry_context == NULL)
		so->entry_context = AllocSetContextCreate(so->context, "lsm_index entry",
												  ALLOCSET_SMALL_SIZES);

	so->in_groups = so->batched && lsm_points_pay(&so->quals, so->spec);
	if (so->in_groups && so->points == NULL)
	{
		old = MemoryContextSwitchTo(so->context);
		so->points = lsm_points_create();
		MemoryContextSwitchTo(old);
	}

	mind_reused_tids(scan);
	so->prepared = true;
}

/* ======================================================================
 * Walks
 * ====================================================================== */

static LsmSlice
buffer_slice(const StringInfoData *buf)
{
	return lsm_slice(buf->data, buf->len);
}

static void
append_slice(StringInfo buf, LsmSlice s)
{
	appendBinaryStringInfo(buf, s.data, s.len);
}

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
	resetStringInfo(&so->seek);
	append_slice(&so->seek, bound);
	for (i = bound.len - 1; (uint8) so->seek.data[i] == 0xFF; i--)
		Assert(i > 0);			/* the first byte is a marker */
	so->seek.data[i]++;
	return lsm_slice(so->seek.data, i + 1);
}

static void
set_bounds(LsmScan *so)
{
	LsmQuals   *quals = &so->quals;
	const LsmColumnQuals *next;
	const char	not_null = LSM_CODE_NOT_NULL;

	resetStringInfo(&so->lower);
	resetStringInfo(&so->upper);
	so->lower_inclusive = so->upper_inclusive = true;
	for (int i = 0; i < quals->nprefix; i++)
		append_slice(&so->lower, quals->columns[i].points[so->position.point[i]]);
	append_slice(&so->upper, buffer_slice(&so->lower));
	so->prefix_bytes = so->lower.len;
	if (quals->nprefix == so->spec->nkeys)
		return;

	next = &quals->columns[quals->nprefix];
	if (next->has_lower)
	{
		append_slice(&so->lower, next->lower);
		so->lower_inclusive = next->lower_inclusive;
	}
	else if (next->not_null)
		append_slice(&so->lower, lsm_slice(&not_null, 1));
	if (next->has_upper)
	{
		append_slice(&so->upper, next->upper);
		so->upper_inclusive = next->upper_inclusive;
	}
	else if (next->not_null)
		append_slice(&so->upper, lsm_slice(&not_null, 1));
}

/*
 * Before the cursor reads anything: entries read later than this stamp are
 * to be trusted as long as the counter stands (guard_entry).
 */
static void
take_guard_stamp(LsmScan *so)
{
	if (so->guard)
		lsm_stamp_take(so->tree, LSM_INDEX_VACUUM_DIGEST, &so->guard_stamp);
}

/* The cursor is about to be put elsewhere. */
static inline void
drop_batch(LsmScan *so)
{
	if (so->batch != NULL)
		so->batch->n = 0;
	so->batch_next = 0;
	so->batch_size = FIRST_BATCH_ENTRIES;
}

static void
seek_range(LsmScan *so, ScanDirection direction)
{
	LsmSlice	lower = buffer_slice(&so->lower);
	LsmSlice	upper = buffer_slice(&so->upper);

	if (ScanDirectionIsForward(direction))
	{
		if (lower.len == 0 || so->lower_inclusive)
			lsm_cursor_seek(so->cursor, seek_slice(lower), false, direction);
		else
			lsm_cursor_seek(so->cursor, successor(so, lower), false, direction);
	}
	else
	{
		if (upper.len == 0)
			lsm_cursor_seek(so->cursor, upper, false, direction);
		else if (so->upper_inclusive)
			lsm_cursor_seek(so->cursor, successor(so, upper), true, direction);
		else
			lsm_cursor_seek(so->cursor, seek_slice(upper), true, direction);
	}
}

/*
 * Begin the walk of the points in position.point, at its beginning as seen in
 * the direction.  False: no entry can be in it.
 */
static bool
start_walk(IndexScanDesc scan, ScanDirection direction)
{
	LsmScan    *so = scan->opaque;

	set_bounds(so);
	lsm_predicate_lock(scan->indexRelation, lsm_slice(so->lower.data, so->prefix_bytes),
					   scan->xs_snapshot);
	so->direction = direction;
	so->reposition = false;
	drop_batch(so);
	take_guard_stamp(so);

	if (so->in_groups && ScanDirectionIsForward(direction))
	{
		const LsmProbe *probe = lsm_points_probe(so->points, so->tree, &so->quals,
												 so->position.point);

		if (probe == NULL)
			return false;
		lsm_cursor_seek_point(so->cursor, probe);
	}
	else if (so->quals.nprefix == so->spec->nkeys)
	{
		LsmProbe	probe;

		if (so->lower.len > LSM_INDEX_MAX_CODE_BYTES)
			return false;		/* would have been refused */
		lsm_probe_begin(so->tree, &probe, buffer_slice(&so->lower));
		if (ScanDirectionIsForward(direction))
			lsm_cursor_seek_point(so->cursor, &probe);
		else
			lsm_cursor_seek_point_last(so->cursor, &probe);
	}
	else
		seek_range(so, direction);
	return true;
}

static void
first_walk(LsmScan *so, ScanDirection direction)
{
	for (int i = 0; i < so->quals.nprefix; i++)
		so->position.point[i] = ScanDirectionIsForward(direction) ? 0 :
			so->quals.columns[i].npoints - 1;
}

/* The next combination of points; false: there is none. */
static bool
next_walk(LsmScan *so, ScanDirection direction)
{
	int			step = ScanDirectionIsForward(direction) ? 1 : -1;

	for (int i = so->quals.nprefix - 1; i >= 0; i--)
	{
		int			n = so->quals.columns[i].npoints;
		int			next = so->position.point[i] + step;

		if (next >= 0 && next < n)
		{
			so->position.point[i] = next;
			return true;
		}
		so->position.point[i] = step > 0 ? 0 : n - 1;
	}
	return false;
}

/* Put the cursor right beyond the entry returned last. */
static void
reposition(LsmScan *so, ScanDirection direction)
{
	set_bounds(so);
	so->direction = direction;
	so->reposition = false;
	drop_batch(so);
	take_guard_stamp(so);
	lsm_cursor_seek(so->cursor, buffer_slice(&so->position.current), true, direction);
}

static bool
beyond_walk(LsmScan *so, LsmSlice key, ScanDirection direction)
{
	int			c;

	if (ScanDirectionIsForward(direction))
	{
		if (so->upper.len == 0)
			return false;
		c = lsm_bound_compare(key, buffer_slice(&so->upper));
		return c > 0 || (c == 0 && !so->upper_inclusive);
	}
	if (so->lower.len == 0)
		return false;
	c = lsm_bound_compare(key, buffer_slice(&so->lower));
	return c < 0 || (c == 0 && !so->lower_inclusive);
}

/* ======================================================================
 * Index-only scans
 * ====================================================================== */

static bool
row_visible(IndexScanDesc scan, ItemPointer entry_tid)
{
	LsmScan    *so = scan->opaque;
	ItemPointerData tid = *entry_tid;
	bool		call_again = false;
	bool		visible;

	if (so->fetch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(so->context);

		so->slot = table_slot_create(scan->heapRelation, NULL);
		so->fetch = table_index_fetch_begin(scan->heapRelation);
		MemoryContextSwitchTo(old);
	}
	visible = table_index_fetch_tuple(so->fetch, &tid, scan->xs_snapshot, so->slot,
									  &call_again, NULL);
	ExecClearTuple(so->slot);
	return visible;
}

/*
 * May the entry be given to an index-only scan?  The executor will look at the
 * visibility map and, if the page is all-visible, believe the entry.  But
 * VACUUM may have deleted the entry since we read it, then freed the dead
 * row and marked the page all-visible.  nbtree keeps VACUUM from finishing, by a pin
 * on the leaf page; we must not block anyone between calls.
 *
 * Instead we look first.  If the page is all-visible now and VACUUM has not
 * finished deleting entries since before we read this one, then its row was
 * not among the freed ones: it is visible.  Otherwise look at the row itself.
 * Either way the row is visible to our snapshot and stays so, whatever the
 * executor finds in the map a moment later.
 */
static bool
guard_entry(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	LsmStamp	now;

	if (VM_ALL_VISIBLE(scan->heapRelation, ItemPointerGetBlockNumber(tid),
					   &so->vm_buffer))
	{
		pg_read_barrier();		/* the map before the counter */
		lsm_stamp_take(so->tree, LSM_INDEX_VACUUM_DIGEST, &now);
		if (now.key_counter == so->guard_stamp.key_counter)
			return true;
		so->reposition = true;	/* with a new stamp */
	}
	return row_visible(scan, tid);
}

/* Build the row of index columns that an index-only scan returns. */
static void
form_index_tuple(IndexScanDesc scan, LsmSlice key, LsmSlice value)
{
	LsmScan    *so = scan->opaque;
	LsmKeySpec *spec = so->spec;
	LsmSlice	rest = lsm_key_columns(key);
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;

	MemoryContextReset(so->tuple_context);
	old = MemoryContextSwitchTo(so->tuple_context);
	for (int i = 0; i < spec->nkeys; i++)
	{
		LsmSlice	code = {rest.data, lsm_code_length(&spec->columns[i], rest)};

		isnull[i] = true;
		if (spec->columns[i].returnable)
			values[i] = lsm_decode_column(&spec->columns[i], code, &isnull[i]);
		rest.data += code.len;
		rest.len -= code.len;
	}
	lsm_deform_value(spec, value, values + spec->nkeys, isnull + spec->nkeys);
	scan->xs_hitup = heap_form_tuple(scan->xs_hitupdesc, values, isnull);
	MemoryContextSwitchTo(old);
}

bool
lsm_index_can_return(Relation index, int attno)
{
	LsmColumnSpec spec;

	if (attno > IndexRelationGetNumberOfKeyAttributes(index))
		return true;
	lsm_column_spec(index, attno - 1, &spec);
	return spec.returnable;
}

/* ======================================================================
 * Entries
 * ====================================================================== */

static bool
step_batch(LsmScan *so, LsmSlice *key, LsmSlice *value)
{
	LsmBatch   *batch = so->batch;

	if (batch == NULL || so->batch_next >= batch->n)
	{
		if (batch == NULL)
		{
			MemoryContext old = MemoryContextSwitchTo(so->context);

			batch = palloc0(sizeof(LsmBatch));
			lsm_buffer_init(&batch->bytes, 1024);
			so->batch = batch;
			MemoryContextSwitchTo(old);
		}
		so->batch_next = 0;
		if (!lsm_cursor_fill(so->cursor, buffer_slice(&so->upper), so->batch_size, batch))
			return false;
		so->batch_size = Min(so->batch_size * 2, LSM_BATCH_ENTRIES);
	}
	lsm_batch_entry(batch, so->batch_next++, key, value);
	return true;
}

/* The next entry of the tree in the direction. */
static inline bool
step_cursor(LsmScan *so, ScanDirection direction, LsmSlice *key, LsmSlice *value)
{
	if (so->batched && ScanDirectionIsForward(direction) &&
		so->quals.nprefix < so->spec->nkeys)
		return step_batch(so, key, value);
	return lsm_cursor_step(so->cursor, direction, key, value);
}

/* Next matching entry of the walk; its key goes to position.current. */
static bool
step_walk(IndexScanDesc scan, ScanDirection direction, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	LsmSlice	key;
	LsmSlice	value;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (so->reposition || so->direction != direction)
			reposition(so, direction);
		if (!step_cursor(so, direction, &key, &value) ||
			beyond_walk(so, key, direction))
			return false;

		if (so->quals.nwalk > 0)
		{
			MemoryContext old = MemoryContextSwitchTo(so->entry_context);
			bool		matches = lsm_quals_match(&so->quals, so->spec, key);

			MemoryContextSwitchTo(old);
			MemoryContextReset(so->entry_context);
			if (!matches)
				continue;
		}

		lsm_decode_tid(key, tid);
		resetStringInfo(&so->position.current);
		append_slice(&so->position.current, key);
		if (scan->xs_want_itup)
			form_index_tuple(scan, key, value);
		if (!so->guard || guard_entry(scan, tid))
			return true;
	}
}

/* Next matching entry of the scan. */
static bool
step_scan(IndexScanDesc scan, ScanDirection direction, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	bool		forward = ScanDirectionIsForward(direction);
	bool		walking = true;

	Assert(!ScanDirectionIsNoMovement(direction));
	if (so->quals.never || so->position.state == (forward ? SCAN_PAST_LAST : SCAN_BEFORE_FIRST))
		return false;
	if (so->position.state != SCAN_ON_ENTRY)
	{
		first_walk(so, direction);
		walking = start_walk(scan, direction);
	}
	for (;;)
	{
		if (walking && step_walk(scan, direction, tid))
		{
			so->position.state = SCAN_ON_ENTRY;
			return true;
		}
		CHECK_FOR_INTERRUPTS();
		if (!next_walk(so, direction))
		{
			so->position.state = forward ? SCAN_PAST_LAST : SCAN_BEFORE_FIRST;
			return false;
		}
		walking = start_walk(scan, direction);
	}
}

/*
 * The executor found the row of the entry returned last dead to everyone.  A mark
 * may be on it; that is only a key.
 */
static void
note_killed(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	TransactionId xid;

	if (!so->stable_tids || scan->xactStartedInRecovery ||
		so->position.state != SCAN_ON_ENTRY)
		return;
	if (lsm_forget_bound(&xid) &&
		lsm_tree_forget(so->tree, buffer_slice(&so->position.current), xid))
		return;
	lsm_kills_add(&so->kills, buffer_slice(&so->position.current));
	if (lsm_kills_full(&so->kills))
		apply_kills(so);
}

bool
lsm_index_get_tuple(IndexScanDesc scan, ScanDirection direction)
{
	LsmScan    *so = scan->opaque;

	if (!so->prepared)
		prepare_scan(scan);
	if (scan->kill_prior_tuple)
		note_killed(scan);
	scan->xs_recheck = so->quals.recheck;
	return step_scan(scan, direction, &scan->xs_heaptid);
}

int64
lsm_index_get_bitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	LsmScan    *so = scan->opaque;
	ItemPointerData tids[64];
	int			n = 0;
	int64		total = 0;

	if (!so->prepared)
		prepare_scan(scan);
	while (step_scan(scan, ForwardScanDirection, &tids[n]))
	{
		total++;
		if (++n == lengthof(tids))
		{
			tbm_add_tuples(tbm, tids, n, so->quals.recheck);
			n = 0;
		}
	}
	if (n > 0)
		tbm_add_tuples(tbm, tids, n, so->quals.recheck);
	return total;
}

/* ======================================================================
 * Marks
 * ====================================================================== */

static void
copy_position(ScanPosition *to, const ScanPosition *from)
{
	to->state = from->state;
	memcpy(to->point, from->point, sizeof(to->point));
	resetStringInfo(&to->current);
	append_slice(&to->current, buffer_slice(&from->current));
}

void
lsm_index_mark_position(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	copy_position(&so->mark, &so->position);
}

void
lsm_index_restore_position(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	copy_position(&so->position, &so->mark);
	so->reposition = true;
}
