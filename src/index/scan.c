/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Index scans.
 *
 * A scan is a sequence of walks.  The leading columns that are bound to points
 * (=, = ANY, IS NULL) make the prefix; for each combination of points, in the
 * order of the index, there is one walk over the entries with that prefix and
 * within the bounds of the next column.  If the prefix is the whole key, the
 * walk is a point lookup: its digest is computed once, by lsm_probe_begin, and
 * all memtables and filters use it.
 *
 * The position of a scan is the key of the entry returned last, kept in
 * `current`.  After a change of direction or a restored mark the cursor is
 * positioned anew next to it.
 *
 * No lock or pin of the index is held between calls.  For MVCC snapshots that
 * is safe: a row that gets a TID after VACUUM has freed it is invisible to us.
 * Index-only scans need more (index_only.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "replication/logicalworker.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "index/scan.h"

/* Of a row that is this many entries away, what is known of it is fetched. */
#define HIDDEN_AHEAD	4

static void make_units(LsmScan *so);

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
	LsmScan    *so = palloc0(offsetof(LsmScan, own_spec) +
							 LSM_KEY_SPEC_BYTES(IndexRelationGetNumberOfKeyAttributes(index)));

	Assert(norderbys == 0);
	so->spec = &so->own_spec;
	lsm_key_spec_fill(index, so->spec);
	so->one_row.plain_columns = lsm_index_is_plain(index);
	so->quals.columns = palloc(sizeof(LsmColumnQuals) * so->spec->nkeys);
	so->context = context;
	so->key_context = AllocSetContextCreate(context, "lsm_index scan keys",
											ALLOCSET_SMALL_SIZES);
	so->labels.context = context;
	so->labels.n = -1;
	lsm_buffer_init(&so->position.current, 64);
	lsm_buffer_init(&so->walk.lower, 64);
	lsm_buffer_init(&so->walk.upper, 64);
	so->dead.tombstones.context = so->context;
	so->index_only.vm_buffer = InvalidBuffer;
	so->dead.interlock = InvalidBuffer;
	MemoryContextSwitchTo(old);
	scan->xs_hitupdesc = RelationGetDescr(index);
	scan->xs_itupdesc = scan->xs_hitupdesc;
	scan->opaque = so;
	return scan;
}

void
lsm_index_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
				 int norderbys)
{
	LsmScan    *so = scan->opaque;

	lsm_write_killed(so);
	if (keys && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	so->prepared = false;
	memset(&so->unit, 0, sizeof(LsmScanUnit));
	if (so->groups != NULL)
		lsm_groups_reset(so->groups);
	so->one_row.from_directory = false;
	so->one_row.probe.filter_key.len = 0;
	if (so->points != NULL)
		so->points->n = 0;
	so->position.state = so->mark.state = SCAN_FRESH;
	so->uncopied.len = 0;
	so->ahead.plain = false;
	if (so->index_only.fetch != NULL)
		table_index_fetch_reset(so->index_only.fetch);
}

void
lsm_index_end_scan(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	lsm_write_killed(so);
	if (so->groups != NULL)
		lsm_groups_reset(so->groups);
	if (so->cursor != NULL)
		lsm_cursor_close(so->cursor);
	if (BufferIsValid(so->index_only.vm_buffer))
		ReleaseBuffer(so->index_only.vm_buffer);
	if (BufferIsValid(so->dead.interlock))
		ReleaseBuffer(so->dead.interlock);
	if (so->index_only.fetch != NULL)
		table_index_fetch_end(so->index_only.fetch);
	if (so->index_only.slot != NULL)
		ExecDropSingleTupleTableSlot(so->index_only.slot);
	MemoryContextDelete(so->context);	/* `so` too */
}

/*
 * Under a snapshot that sees rows as soon as they are there, an entry may lead
 * us to a row that has reused the TID.  Whoever looks at it compares it with
 * the keys once more, unless one of them is IS NULL: ON CONFLICT, which has
 * such keys for NULLS NOT DISTINCT, takes NULL for different from NULL there.
 * Then the TIDs must not be used again before the scan has ended.  Neither must
 * they when a subscriber looks for a row to update or delete: it believes the
 * index.
 */
static void
mind_reused_tids(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	bool		null_keys = false;

	if (scan->numberOfKeys == 0 || so->dead.stable_tids || scan->xs_snapshot == NULL ||
		IsMVCCSnapshot(scan->xs_snapshot))
		return;
	for (int i = 0; i < scan->numberOfKeys; i++)
		null_keys |= (scan->keyData[i].sk_flags & SK_SEARCHNULL) != 0;
	if (!null_keys && !IsLogicalWorker())
		so->quals.recheck = true;
	else if (!BufferIsValid(so->dead.interlock))
		so->dead.interlock = ReadBuffer(scan->indexRelation, LSM_INTERLOCK_BLOCK);
}

static bool
has_groups(const LsmKeySpec *spec)
{
	for (int i = 0; i < spec->nkeys; i++)
		if (spec->columns[i].order == LSM_ORDER_GROUPS)
			return true;
	return false;
}

/*
 * What is left for the first call after a rescan: runtime keys are known, and
 * whether an index-only scan is wanted.
 */
static void
prepare_scan(IndexScanDesc scan, bool in_order)
{
	LsmScan    *so = scan->opaque;
	MemoryContext old;
	bool		makes_units = false;

	pgstat_count_index_scan(scan->indexRelation);
	so->searches = lsm_index_searches(scan, &so->own_searches);
	so->tree = lsm_index_open_tree(scan->indexRelation);
	so->leading = lsm_index_leading(scan->indexRelation);
	so->leading_columns = lsm_leading_columns(so->leading);
	so->dead.stable_tids = scan->heapRelation != NULL && lsm_tids_are_stable(scan->heapRelation);
	/* where a column ends the planner asks with a limit, and looks at rows itself */
	so->index_only.guarded = scan->xs_want_itup &&
		(scan->xs_snapshot == NULL || scan->xs_snapshot->snapshot_type != SNAPSHOT_NON_VACUUMABLE);
	so->index_only.serializable = IsolationIsSerializable();
	so->ahead.allowed = scan->xs_snapshot != NULL &&
		scan->xs_snapshot->snapshot_type == SNAPSHOT_MVCC && !so->index_only.serializable;
	if (scan->xs_want_itup && so->tuple_context == NULL)
		lsm_form_prepare(scan);

	so->shared = lsm_shared_scan(scan);
	if (so->shared != NULL)
		makes_units = lsm_shared_scan_begin(so);
	so->quals.labels = in_order && scan->xs_snapshot != NULL &&
		IsMVCCSnapshot(scan->xs_snapshot) ? &so->labels : NULL;
	MemoryContextReset(so->key_context);
	old = MemoryContextSwitchTo(so->key_context);
	lsm_quals_prepare(&so->quals, so->spec, scan->keyData, scan->numberOfKeys);
	lsm_prefix_prepare(so, so->shared == NULL || makes_units ? -1 : lsm_shared_scan_prefix(so));
	MemoryContextSwitchTo(old);
	if (so->quals.nwalk > 0 && so->entry_context == NULL)
		so->entry_context = AllocSetContextCreate(so->context, "lsm_index entry",
												  ALLOCSET_SMALL_SIZES);

	so->in_groups = so->ahead.allowed && lsm_points_pay(&so->quals, so->spec);
	if (so->in_groups && so->points == NULL)
	{
		old = MemoryContextSwitchTo(so->context);
		so->points = lsm_points_create();
		MemoryContextSwitchTo(old);
	}

	so->sorts = so->quals.labels != NULL && has_groups(so->spec);
	if (so->sorts && so->groups == NULL)
		so->groups = lsm_groups_create(so, scan->indexRelation);
	so->sorts = so->sorts && lsm_groups_prepare(so->groups);

	lsm_present_prepare(scan);
	lsm_prepare_one_row(scan);
	mind_reused_tids(scan);
	if (makes_units)
		make_units(so);
	so->prepared = true;
}

/* ======================================================================
 * Walks
 * ====================================================================== */

static void
append_slice(StringInfo buf, LsmSlice s)
{
	lsm_buffer_append(buf, s.data, s.len);
}

/* The bound of a row comparison, if there is one, against the column's own */
static void
narrow(LsmSlice *bound, bool *inclusive, bool is_lower, LsmSlice row, bool row_inclusive)
{
	if (row.len == 0 || (bound->len > 0 && !lsm_bound_is_narrower(is_lower, row, row_inclusive,
																  *bound, *inclusive)))
		return;
	*bound = row;
	*inclusive = row_inclusive;
}

/* What the bound has behind the code, if it begins with that, or nothing */
static LsmSlice
behind(LsmSlice bound, LsmSlice code)
{
	if (bound.len < code.len || lsm_bound_compare(bound, code) != 0)
		return lsm_slice(NULL, 0);
	return lsm_slice(bound.data + code.len, bound.len - code.len);
}

/*
 * The prefix ends with the first member of a row comparison: it goes on with
 * the others.
 */
static void
narrow_to_row(LsmScan *so, LsmSlice *lower, LsmSlice *upper)
{
	const LsmQuals *quals = &so->quals;
	int			last = quals->nprefix - 1;
	LsmSlice	value;

	if (last < 0)
		return;
	value = quals->columns[last].points[so->position.point[last]];
	if (quals->row_column == last)
	{
		narrow(lower, &so->walk.lower_inclusive, true, behind(quals->row_lower, value),
			   quals->row_lower_inclusive);
		narrow(upper, &so->walk.upper_inclusive, false, behind(quals->row_upper, value),
			   quals->row_upper_inclusive);
	}
	if (!lsm_has_row_ends(quals, last))
		return;
	if (quals->row_group_lower.value.len > 0 &&
		lsm_slice_compare(quals->row_group_lower.value, value) == 0)
		narrow(lower, &so->walk.lower_inclusive, true, quals->row_group_lower.rest,
			   quals->row_group_lower.inclusive);
	if (quals->row_group_upper.value.len > 0 &&
		lsm_slice_compare(quals->row_group_upper.value, value) == 0)
		narrow(upper, &so->walk.upper_inclusive, false, quals->row_group_upper.rest,
			   quals->row_group_upper.inclusive);
}

static void
set_bounds(LsmScan *so)
{
	LsmQuals   *quals = &so->quals;
	const LsmColumnQuals *next;
	const char	not_null = LSM_CODE_NOT_NULL;
	LsmSlice	lower = {0};
	LsmSlice	upper = {0};

	resetStringInfo(&so->walk.lower);
	resetStringInfo(&so->walk.upper);
	so->walk.lower_inclusive = so->walk.upper_inclusive = true;
	for (int i = 0; i < quals->nprefix; i++)
		append_slice(&so->walk.lower, quals->columns[i].points[so->position.point[i]]);
	append_slice(&so->walk.upper, lsm_buffer_slice(&so->walk.lower));
	so->walk.prefix_bytes = so->walk.lower.len;
	if (quals->nprefix == so->spec->nkeys)
		return;

	next = &quals->columns[quals->nprefix];
	if (next->has_lower)
	{
		lower = next->lower;
		so->walk.lower_inclusive = next->lower_inclusive;
	}
	else if (next->not_null)
		lower = lsm_slice(&not_null, 1);
	if (next->has_upper)
	{
		upper = next->upper;
		so->walk.upper_inclusive = next->upper_inclusive;
	}
	else if (next->not_null)
		upper = lsm_slice(&not_null, 1);
	if (quals->row_column == quals->nprefix)
	{
		narrow(&lower, &so->walk.lower_inclusive, true, quals->row_lower,
			   quals->row_lower_inclusive);
		narrow(&upper, &so->walk.upper_inclusive, false, quals->row_upper,
			   quals->row_upper_inclusive);
	}
	narrow_to_row(so, &lower, &upper);
	append_slice(&so->walk.lower, lower);
	append_slice(&so->walk.upper, upper);
}

/*
 * Entries of the walk begin with its prefix: filters that know the leading
 * columns in it are asked.  A whole key is a point lookup's.  REQUIRES: bounds
 * set, and not narrowed.
 */
static void
limit_cursor(LsmScan *so)
{
	uint32		bytes = 0;

	if (so->leading != 0 && so->quals.nprefix < so->spec->nkeys &&
		so->quals.nprefix >= (int) so->leading_columns)
		bytes = lsm_leading_bytes(so->leading, lsm_slice(so->walk.lower.data, so->walk.prefix_bytes));
	lsm_cursor_limit(so->cursor, lsm_slice(so->walk.lower.data, bytes),
					 bytes > 0 ? so->leading_columns : 0);
}

static void
seek_range(LsmScan *so, ScanDirection direction)
{
	if (ScanDirectionIsForward(direction))
		lsm_walk_seek(so, lsm_buffer_slice(&so->walk.lower), !so->walk.lower_inclusive, direction);
	else
		lsm_walk_seek(so, lsm_buffer_slice(&so->walk.upper), !so->walk.upper_inclusive, direction);
}

/* Only the piece of the walk that this process has taken */
static void
narrow_to_unit(LsmScan *so)
{
	if (so->unit.low.len > 0)
	{
		resetStringInfo(&so->walk.lower);
		append_slice(&so->walk.lower, so->unit.low);
		so->walk.lower_inclusive = true;
	}
	if (so->unit.high.len > 0)
	{
		resetStringInfo(&so->walk.upper);
		append_slice(&so->walk.upper, so->unit.high);
		so->walk.upper_inclusive = false;
	}
}

/*
 * The probe of the whole key in the walk's bounds; a list's keys are looked for
 * together.  False: no entry can have it.
 */
static bool
begin_probe(LsmScan *so, ScanDirection direction)
{
	LsmSlice	key = lsm_buffer_slice(&so->walk.lower);

	if (so->in_groups && ScanDirectionIsForward(direction))
	{
		const LsmProbe *probe = lsm_points_probe(so->points, so->tree, &so->quals,
												 so->position.point);

		(*so->searches)++;
		if (probe == NULL)
			return false;
		Assert(lsm_slice_compare(probe->filter_key, key) == 0);
		so->one_row.probe = *probe;
		return true;
	}
	if (key.len > LSM_INDEX_MAX_CODE_BYTES)
		return false;			/* would have been refused */
	(*so->searches)++;
	lsm_probe_begin(so->tree, &so->one_row.probe, key);
	return true;
}

/*
 * Begin the walk of the points in position.point, at its beginning as seen in
 * the direction.  False: no entry can be in it.
 */
static bool
start_walk(IndexScanDesc scan, ScanDirection direction)
{
	LsmScan    *so = scan->opaque;

	lsm_walk_need_cursor(so);
#ifdef USE_ASSERT_CHECKING
	lsm_cursor_doubt_gaps(so->cursor, lsm_doubt_gap, scan);
#endif
	/* the directory was asked for this key, with these bounds */
	if (so->one_row.probe.filter_key.len == 0)
		set_bounds(so);
	limit_cursor(so);
	narrow_to_unit(so);
	/* a label may be added before this transaction ends */
	lsm_predicate_lock(scan->indexRelation,
					   lsm_slice(so->walk.lower.data, so->quals.all_labels ? 0 : so->walk.prefix_bytes),
					   scan->xs_snapshot);
	so->direction = direction;
	so->reposition = false;
	lsm_walk_drop_batch(so);
	lsm_guard_take_stamp(so);
	if (so->sorts)
		lsm_groups_reset(so->groups);

	if (so->quals.nprefix == so->spec->nkeys)
	{
		if (so->one_row.probe.filter_key.len == 0 && !begin_probe(so, direction))
			return false;
		if (ScanDirectionIsForward(direction))
			lsm_cursor_seek_point(so->cursor, &so->one_row.probe);
		else
			lsm_cursor_seek_point_last(so->cursor, &so->one_row.probe);
		so->one_row.probe.filter_key.len = 0;
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

/* The next walk that is for this process; false: there is none. */
static bool
next_own_walk(LsmScan *so, ScanDirection direction)
{
	if (so->shared == NULL)
		return next_walk(so, direction);
	if (so->unit.walks > 1)
	{
		so->unit.walks--;
		return next_walk(so, direction);
	}
	return lsm_shared_scan_next(so, direction);
}

/* The units of a parallel scan, whose first process this is */
static void
make_units(LsmScan *so)
{
	if (so->quals.never)
		;						/* there are none */
	else if (!lsm_shared_scan_splits(so))
		lsm_shared_scan_add_all(so);
	else
	{
		lsm_walk_need_cursor(so);
		lsm_cursor_limit(so->cursor, lsm_slice(NULL, 0), 0);
		first_walk(so, ForwardScanDirection);
		do
		{
			set_bounds(so);
			lsm_shared_scan_add_walk(so);
		} while (next_walk(so, ForwardScanDirection));
	}
	lsm_shared_scan_publish(so);
}

/* Go on right beyond the entry returned last. */
static void
reposition(LsmScan *so, ScanDirection direction)
{
	lsm_walk_need_cursor(so);
	set_bounds(so);
	limit_cursor(so);
	narrow_to_unit(so);
	so->direction = direction;
	so->reposition = false;
	lsm_copy_current(so);
	lsm_guard_take_stamp(so);
	if (so->sorts)
		lsm_groups_restart(so->groups, lsm_buffer_slice(&so->position.current), direction);
	else
		lsm_walk_seek_key(so, lsm_buffer_slice(&so->position.current), direction);
}

/* ======================================================================
 * Entries
 * ====================================================================== */

/*
 * An entry to be passed over: the snapshot does not see its row.  Those that
 * come after it are probably alike.
 */
static inline bool
is_hidden(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	ItemPointerData ahead;
	LsmSlice	key;
	LsmSlice	value;

	if (!so->dead.stable_tids || !lsm_row_fetch_passes(scan->xs_heapfetch))
		return false;
	ItemPointerSetInvalid(&ahead);
	if (so->ahead.batch != NULL && so->ahead.next + HIDDEN_AHEAD < so->ahead.batch->n)
	{
		lsm_batch_entry(so->ahead.batch, so->ahead.next + HIDDEN_AHEAD, &key, &value);
		lsm_decode_tid(key, &ahead);
	}
	return lsm_row_fetch_hides(scan->xs_heapfetch, tid, &ahead, scan->xs_snapshot);
}

/*
 * What step_walk() does, as long as entries are at hand that need no look.
 */
static bool
step_plain(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	LsmSlice	key;
	LsmSlice	value;
	bool		dead;

	while (!so->reposition && lsm_walk_step_plain(so, &key, &value))
	{
		lsm_decode_tid(key, tid);
		if (is_hidden(scan, tid))
			continue;
		so->uncopied = key;
		if (!so->index_only.guarded || lsm_guard_knows(so, ItemPointerGetBlockNumber(tid)) ||
			lsm_guard_entry(scan, tid, &dead))
		{
			if (so->index_only.guarded)
				lsm_doubt_bit(scan, tid);
			/* the planner's scans, which may stop here, are not batched */
			if (scan->xs_want_itup)
				(void) lsm_form_index_tuple(scan, key, value);
			return true;
		}
		if (dead)
			lsm_kill_entry(scan, tid);
	}
	return false;
}

/* Next matching entry of the walk; its key goes to position.current. */
static bool
step_walk(IndexScanDesc scan, ScanDirection direction, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	LsmSlice	key;
	LsmSlice	value;
	bool		dead;

	for (;;)
	{
		bool		found;

		if (so->reposition || so->direction != direction)
			reposition(so, direction);
		if (so->sorts)
			found = lsm_groups_step(so->groups, direction, &key, &value);
		else
			found = lsm_walk_step(so, direction, &key, &value);
		if (!found)
			return false;

		lsm_decode_tid(key, tid);
		if ((so->one_row.pass_row && ItemPointerEquals(tid, &so->one_row.directory_row)) ||
			lsm_present_was_returned(so, tid) || is_hidden(scan, tid))
			continue;
		lsm_stand_at(so, key);
		if (scan->xs_want_itup && !lsm_form_index_tuple(scan, key, value))
			return false;
		if (!so->index_only.guarded || lsm_guard_entry(scan, tid, &dead))
			return true;
		if (dead)
			lsm_kill_entry(scan, tid);
	}
}

/*
 * The row of the walk's key, without a walk.  False: the walk has to begin.
 * REQUIRES: the bounds are set, the probe has begun.
 */
static bool
find_in_directory(IndexScanDesc scan, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;

	if (!lsm_directory_find(scan, tid) || lsm_present_was_returned(so, tid))
		return false;
	lsm_stand_at(so, lsm_buffer_slice(&so->walk.lower));
	lsm_encode_tid(tid, &so->position.current);
	so->one_row.probe.filter_key.len = 0;
	so->reposition = true;
	return true;
}

/*
 * Begin the walk of the points in position.point.  True: the row directory has its
 * row, *tid.  Else *walking: entries may be in it.
 */
static bool
begin_walk(IndexScanDesc scan, ScanDirection direction, ItemPointer tid, bool *walking)
{
	LsmScan    *so = scan->opaque;

	so->one_row.pass_row = false;
	so->one_row.from_directory = false;
	if (so->one_row.try_directory && lsm_row_directory_worth(so->tree))
	{
		set_bounds(so);
		*walking = begin_probe(so, direction);
		if (!*walking)
			return false;
		so->one_row.from_directory = find_in_directory(scan, tid);
	}
	if (so->one_row.from_directory)
	{
		so->position.state = SCAN_ON_ENTRY;
		so->one_row.directory_row = *tid;
	}
	else
		*walking = start_walk(scan, direction);
	return so->one_row.from_directory;
}

/* The walk's next entry; the directory hears of it. */
static bool
step_key(IndexScanDesc scan, ScanDirection direction, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;

	if (!step_walk(scan, direction, tid))
		return false;
	so->position.state = SCAN_ON_ENTRY;
	if (so->one_row.try_directory)
		lsm_row_directory_note(so->tree, so->one_row.probe.digest, tid);
	return true;
}

/* The snapshot sees no other row of the walk's key than the one returned last. */
static inline bool
walk_is_over(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	return so->one_row.unique &&
		(so->one_row.from_directory ||
		 (so->dead.stable_tids && lsm_row_was_seen(scan->xs_heapfetch, &scan->xs_heaptid)));
}

/* Next matching entry of the scan. */
static bool
step_scan(IndexScanDesc scan, ScanDirection direction, ItemPointer tid)
{
	LsmScan    *so = scan->opaque;
	bool		forward = ScanDirectionIsForward(direction);
	bool		walking = true;

	Assert(!ScanDirectionIsNoMovement(direction));
	if (so->position.state == SCAN_ON_ENTRY && so->direction == direction &&
		step_plain(scan, tid))
		return true;
	if (so->quals.never || so->position.state == (forward ? SCAN_PAST_LAST : SCAN_BEFORE_FIRST))
		return false;
	if (so->position.state != SCAN_ON_ENTRY)
	{
		if (so->shared == NULL)
			first_walk(so, direction);
		else if (!lsm_shared_scan_next(so, direction))
		{
			so->position.state = forward ? SCAN_PAST_LAST : SCAN_BEFORE_FIRST;
			return false;
		}
		if (begin_walk(scan, direction, tid, &walking))
			return true;
	}
	else if (walk_is_over(scan))
	{
		LSM_DOUBT(true, lsm_doubt_one_row(scan));
		walking = false;
	}
	else if (so->one_row.from_directory)
	{
		so->one_row.from_directory = false;
		so->one_row.pass_row = true;
		walking = start_walk(scan, direction);
	}
	for (;;)
	{
		if (walking && step_key(scan, direction, tid))
			return true;
		CHECK_FOR_INTERRUPTS();
		if (next_own_walk(so, direction))
		{
			if (begin_walk(scan, direction, tid, &walking))
				return true;
		}
		else if (lsm_present_again(scan))
		{
			first_walk(so, direction);
			walking = start_walk(scan, direction);
		}
		else
		{
			so->position.state = forward ? SCAN_PAST_LAST : SCAN_BEFORE_FIRST;
			return false;
		}
	}
}

bool
lsm_index_get_tuple(IndexScanDesc scan, ScanDirection direction)
{
	LsmScan    *so = scan->opaque;
	bool		found;

	if (!so->prepared)
		prepare_scan(scan, true);
	if (scan->kill_prior_tuple && so->position.state == SCAN_ON_ENTRY)
		lsm_kill_entry(scan, &scan->xs_heaptid);
	scan->xs_recheck = so->quals.recheck;
	found = step_scan(scan, direction, &scan->xs_heaptid);
	if (found && so->present.wanted)
		lsm_present_note(so, &scan->xs_heaptid);
	if (so->one_row.unique && so->dead.stable_tids)
		lsm_row_fetch_forget(scan->xs_heapfetch);
	return found;
}

/*
 * Is there a row comparison whose first column is in order as far as groups?
 * Which entries it wants only a walk in order knows: value by value, or label
 * by label.
 */
static bool
rows_want_order(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	for (int i = 0; i < scan->numberOfKeys; i++)
	{
		ScanKey		key = &scan->keyData[i];

		if (lsm_key_is_row(key) &&
			so->spec->columns[key->sk_attno - 1].order == LSM_ORDER_GROUPS)
			return true;
	}
	return false;
}

int64
lsm_index_get_bitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	LsmScan    *so = scan->opaque;
	ItemPointerData tids[64];
	int			n = 0;
	int64		total = 0;

	if (!so->prepared)
		prepare_scan(scan, rows_want_order(scan));
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
	append_slice(&to->current, lsm_buffer_slice(&from->current));
}

void
lsm_index_mark_position(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	(void) lsm_scan_buffer(so, &so->mark.current);
	lsm_copy_current(so);
	copy_position(&so->mark, &so->position);
}

void
lsm_index_restore_position(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	/* the unit of the mark would be wanted back */
	if (so->shared != NULL)
		elog(ERROR, "a parallel scan of an lsm index cannot go back to a mark");
	copy_position(&so->position, &so->mark);
	so->uncopied.len = 0;
	so->one_row.from_directory = so->one_row.pass_row = false;
	if (so->one_row.unique)				/* the row seen last is not the mark's */
		lsm_row_fetch_forget(scan->xs_heapfetch);
	so->reposition = true;
}
