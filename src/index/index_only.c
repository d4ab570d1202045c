/*-------------------------------------------------------------------------
 *
 * index_only.c
 *	  Index-only scans: the row of index columns, and whether an entry can
 *	  still be trusted.
 *
 * No lock is held between calls; the metapage is not pinned (lsm_guard_entry).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "storage/predicate.h"
#include "utils/memutils.h"

#include "am/row_notes.h"
#include "index/scan.h"

void
lsm_guard_take_stamp(LsmScan *so)
{
	so->guard_known = false;
	if (so->guard)
		lsm_stamp_take(so->tree, LSM_INDEX_VACUUM_DIGEST, &so->guard_stamp);
}

/*
 * Look at the row itself.  *dead: it is dead to everyone.  An lsm table keeps
 * what it has found for the executor, who will ask for the same row next.
 */
static bool
row_visible(IndexScanDesc scan, ItemPointer entry_tid, bool *dead)
{
	LsmScan    *so = scan->opaque;
	IndexFetchTableData *fetch = scan->xs_heapfetch;
	ItemPointerData tid = *entry_tid;
	bool		call_again = false;
	bool		visible;

	if (so->slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(so->context);

		so->slot = table_slot_create(scan->heapRelation, NULL);
		if (!so->stable_tids)
			so->fetch = table_index_fetch_begin(scan->heapRelation);
		MemoryContextSwitchTo(old);
	}
	if (so->stable_tids)
		((LsmRowFetch *) fetch)->looking = true;
	else
		fetch = so->fetch;
	visible = table_index_fetch_tuple(fetch, &tid, scan->xs_snapshot, so->slot, &call_again,
									  so->stable_tids ? dead : NULL);
	if (so->stable_tids)
		((LsmRowFetch *) fetch)->looking = false;
	ExecClearTuple(so->slot);
	return visible;
}

/*
 * May the entry be given to an index-only scan?  The executor will look at the
 * visibility map and, if the block is all-visible, believe the entry.  But
 * VACUUM may have deleted the entry since we read it, then freed the dead row
 * and marked the block all-visible.  nbtree keeps VACUUM from finishing, by a
 * pin on the leaf page; we must not block anyone between calls.
 *
 * Instead we look first.  If the block is all-visible now and VACUUM has not
 * finished deleting entries since before we read this one, then its row was
 * not among those: it is visible.  Otherwise look at the row itself.  Either
 * way the row is visible to our snapshot and stays so, whatever the executor
 * finds in the map a moment later.
 *
 * What was found of a block of an lsm table holds for its other entries, until
 * the scan is positioned anew: they name rows that all saw then, and that our
 * snapshot goes on to see, for row numbers are not used again.
 *
 * A serializable transaction locks before it looks: who ends a row clears the
 * map before he looks for such locks.
 *
 * *dead: false was returned, and the row is dead to everyone.
 */
bool
lsm_guard_entry(IndexScanDesc scan, ItemPointer tid, bool *dead)
{
	LsmScan    *so = scan->opaque;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	LsmStamp	now;

	*dead = false;
	if (IsolationIsSerializable())
		PredicateLockPage(scan->heapRelation, block, scan->xs_snapshot);
	else if (so->guard_known && so->guard_block == block)
		return true;
	if (VM_ALL_VISIBLE(scan->heapRelation, block, &so->vm_buffer))
	{
		pg_read_barrier();		/* the map before the counter */
		(void) lsm_stamp_peek(so->tree, LSM_INDEX_VACUUM_DIGEST, &now);
		if (now.key_counter == so->guard_stamp.key_counter)
		{
			so->guard_known = so->stable_tids;
			so->guard_block = block;
			return true;
		}
		so->reposition = true;	/* with a new stamp */
	}
	return row_visible(scan, tid, dead);
}

/*
 * The row of a scan whose columns all have values of fixed length, passed by
 * value: such a row is written over the last one, unless it has NULLs.
 */
typedef struct LsmFixedTuple
{
	HeapTuple	tuple;
	int			offsets[INDEX_MAX_KEYS];	/* of the columns, in the data */
} LsmFixedTuple;

static void prepare_strings_tuple(IndexScanDesc scan);

void
lsm_form_prepare(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	LsmKeySpec *spec = so->spec;
	TupleDesc	desc = scan->xs_hitupdesc;
	LsmFixedTuple *fixed;
	Datum		values[INDEX_MAX_KEYS] = {0};
	bool		isnull[INDEX_MAX_KEYS] = {0};
	MemoryContext old;
	int			offset = 0;

	so->tuple_context = AllocSetContextCreate(so->context, "lsm_index tuple",
											  ALLOCSET_SMALL_SIZES);
	if (spec->nkept > 0)
		return;
	if (spec->nincluded > 0)
	{
		prepare_strings_tuple(scan);
		return;
	}
	for (int i = 0; i < spec->nkeys; i++)
		if (!TupleDescAttr(desc, i)->attbyval || !spec->columns[i].returnable)
		{
			prepare_strings_tuple(scan);
			return;
		}

	old = MemoryContextSwitchTo(so->context);
	fixed = palloc(sizeof(LsmFixedTuple));
	fixed->tuple = heap_form_tuple(desc, values, isnull);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < spec->nkeys; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		offset = att_align_nominal(offset, att->attalign);
		fixed->offsets[i] = offset;
		offset += att->attlen;
	}
	Assert(fixed->tuple->t_data->t_hoff + offset == fixed->tuple->t_len);
	so->fixed_tuple = fixed;
}

/* False: the entry has a NULL. */
static inline bool
fill_fixed_tuple(IndexScanDesc scan, LsmSlice rest)
{
	LsmScan    *so = scan->opaque;
	LsmFixedTuple *fixed = so->fixed_tuple;
	char	   *data = (char *) fixed->tuple->t_data + fixed->tuple->t_data->t_hoff;

	for (int i = 0; i < so->spec->nkeys; i++)
	{
		const LsmColumnSpec *column = &so->spec->columns[i];
		LsmSlice	code = {rest.data, lsm_code_length(column, rest)};
		bool		isnull;
		Datum		value = lsm_decode_column(column, code, &isnull);

		if (unlikely(isnull))
			return false;
		store_att_byval(data + fixed->offsets[i], value,
						TupleDescAttr(scan->xs_hitupdesc, i)->attlen);
		rest.data += code.len;
		rest.len -= code.len;
	}
	scan->xs_hitup = fixed->tuple;
	return true;
}

/*
 * The row of a scan that has strings or INCLUDE columns: it is written straight
 * over the last one, unless it has NULLs.
 */
typedef struct LsmStringsTuple
{
	HeapTupleData tuple;
	Size		room;			/* behind the header */
} LsmStringsTuple;

/* A string that stands in the code as it is; false: it has to be decoded. */
static bool
plain_string(const LsmColumnSpec *spec, LsmSlice code, LsmSlice *string)
{
	const char *at = code.data + 1;
	const char *end = code.data + code.len - 2;

	if (code.len - 1 > LSM_CODE_PLAIN_BYTES)
		return false;
	if (spec->strings != LSM_STRINGS_BYTES)
	{
		const char *escape;

		/* weights or sort key come first */
		do
		{
			escape = memchr(at, LSM_STRING_ESCAPE, end - at);
			if (escape == NULL)
				return false;
			at = escape + 2;
		} while (escape[1] != LSM_STRING_END);
	}
	if (end < at || memchr(at, LSM_STRING_ESCAPE, end - at) != NULL)
		return false;
	*string = lsm_slice(at, end - at);
	return true;
}

/* Room for so many bytes more, behind `offset` */
static char *
reserve_bytes(LsmScan *so, Size offset, Size bytes)
{
	LsmStringsTuple *row = so->strings_tuple;
	Size		header = MAXALIGN(SizeofHeapTupleHeader);

	if (offset + bytes > row->room)
	{
		row->room = Max(offset + bytes, row->room * 2);
		row->tuple.t_data = repalloc(row->tuple.t_data, header + row->room);
	}
	return (char *) row->tuple.t_data + header;
}

/* As heap_fill_tuple() would; returns where the string ends. */
static Size
put_string(LsmScan *so, Size offset, LsmSlice string)
{
	Size		aligned = INTALIGN(offset);
	char	   *data = reserve_bytes(so, aligned, string.len + VARHDRSZ);

	if (string.len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		SET_VARSIZE_SHORT(data + offset, string.len + VARHDRSZ_SHORT);
		memcpy(data + offset + VARHDRSZ_SHORT, string.data, string.len);
		return offset + VARHDRSZ_SHORT + string.len;
	}
	memset(data + offset, 0, aligned - offset);
	SET_VARSIZE(data + aligned, string.len + VARHDRSZ);
	memcpy(data + aligned + VARHDRSZ, string.data, string.len);
	return aligned + VARHDRSZ + string.len;
}

static Size
put_by_value(LsmScan *so, Size offset, Form_pg_attribute att, Datum value)
{
	Size		aligned = att_align_nominal(offset, att->attalign);
	char	   *data = reserve_bytes(so, aligned, sizeof(Datum));

	memset(data + offset, 0, aligned - offset);
	store_att_byval(data + aligned, value, att->attlen);
	return aligned + att->attlen;
}

/* The INCLUDE columns, as they are stored; 0: there is a NULL. */
static Size
put_included(IndexScanDesc scan, Size offset, LsmSlice entry_value)
{
	LsmScan    *so = scan->opaque;
	const LsmKeySpec *spec = so->spec;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;

	MemoryContextReset(so->tuple_context);
	old = MemoryContextSwitchTo(so->tuple_context);
	lsm_deform_value(spec, entry_value, values, isnull);
	MemoryContextSwitchTo(old);
	for (int i = spec->nkeys; i < spec->nkeys + spec->nincluded; i++)
	{
		Form_pg_attribute att = TupleDescAttr(scan->xs_hitupdesc, i);

		if (isnull[i])
			return 0;
		if (att->attbyval)
			offset = put_by_value(so, offset, att, values[i]);
		else
		{
			struct varlena *stored = (struct varlena *) DatumGetPointer(values[i]);
			Size		bytes = VARSIZE_ANY(stored);
			Size		aligned = VARATT_IS_SHORT(stored) ? offset :
				att_align_nominal(offset, att->attalign);
			char	   *data = reserve_bytes(so, aligned, bytes);

			memset(data + offset, 0, aligned - offset);
			memcpy(data + aligned, stored, bytes);
			offset = aligned + bytes;
		}
	}
	return offset;
}

/* False: the entry has a NULL, or a string that has to be decoded. */
static bool
fill_strings_tuple(IndexScanDesc scan, LsmSlice rest, LsmSlice entry_value)
{
	LsmScan    *so = scan->opaque;
	LsmStringsTuple *row = so->strings_tuple;
	Size		offset = 0;

	for (int i = 0; i < so->spec->nkeys; i++)
	{
		const LsmColumnSpec *column = &so->spec->columns[i];
		Form_pg_attribute att = TupleDescAttr(scan->xs_hitupdesc, i);
		LsmSlice	code = {rest.data, lsm_code_length(column, rest)};
		LsmSlice	string;
		bool		isnull;

		if (unlikely(code.data[0] != LSM_CODE_NOT_NULL))
			return false;
		if (att->attbyval)
		{
			Datum		value = lsm_decode_column(column, code, &isnull);

			offset = put_by_value(so, offset, att, value);
		}
		else if (plain_string(column, code, &string))
			offset = put_string(so, offset, string);
		else
			return false;
		rest.data += code.len;
		rest.len -= code.len;
	}
	if (so->spec->nincluded > 0)
	{
		offset = put_included(scan, offset, entry_value);
		if (offset == 0)
			return false;
	}
	row->tuple.t_len = MAXALIGN(SizeofHeapTupleHeader) + offset;
	HeapTupleHeaderSetDatumLength(row->tuple.t_data, row->tuple.t_len);
	scan->xs_hitup = &row->tuple;
	return true;
}

/* If all columns are such: text, or passed by value, or kept as they are */
static void
prepare_strings_tuple(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	TupleDesc	desc = scan->xs_hitupdesc;
	LsmStringsTuple *row;
	MemoryContext old;

	for (int i = 0; i < so->spec->nkeys; i++)
	{
		const LsmColumnSpec *column = &so->spec->columns[i];
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!column->returnable || column->kept ||
			(!att->attbyval &&
			 (column->type != LSM_COLUMN_TEXT || column->descending ||
			  column->strings == LSM_STRINGS_KEY || att->attlen != -1 ||
			  att->attalign != TYPALIGN_INT || att->attstorage == TYPSTORAGE_PLAIN)))
			return;
	}
	for (int i = so->spec->nkeys; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attbyval && TupleDescAttr(desc, i)->attlen != -1)
			return;
	old = MemoryContextSwitchTo(so->context);
	row = palloc0(sizeof(LsmStringsTuple));
	row->room = 128;
	row->tuple.t_data = palloc0(MAXALIGN(SizeofHeapTupleHeader) + row->room);
	row->tuple.t_tableOid = InvalidOid;
	ItemPointerSetInvalid(&row->tuple.t_self);
	ItemPointerSetInvalid(&row->tuple.t_data->t_ctid);
	HeapTupleHeaderSetTypeId(row->tuple.t_data, desc->tdtypeid);
	HeapTupleHeaderSetTypMod(row->tuple.t_data, desc->tdtypmod);
	HeapTupleHeaderSetNatts(row->tuple.t_data, desc->natts);
	row->tuple.t_data->t_infomask = HEAP_HASVARWIDTH;
	row->tuple.t_data->t_hoff = MAXALIGN(SizeofHeapTupleHeader);
	so->strings_tuple = row;
	MemoryContextSwitchTo(old);
}

static void
form_row(IndexScanDesc scan, LsmSlice key, LsmSlice value)
{
	LsmScan    *so = scan->opaque;
	LsmKeySpec *spec = so->spec;
	LsmSlice	rest = lsm_key_columns(key);
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;

	if (so->fixed_tuple != NULL && fill_fixed_tuple(scan, rest))
		return;
	if (so->strings_tuple != NULL && fill_strings_tuple(scan, rest, value))
		return;
	MemoryContextReset(so->tuple_context);
	old = MemoryContextSwitchTo(so->tuple_context);
	for (int i = 0; i < spec->nkeys; i++)
	{
		LsmSlice	code = {rest.data, lsm_code_length(&spec->columns[i], rest)};

		isnull[i] = true;
		if (spec->columns[i].returnable && !spec->columns[i].kept)
			values[i] = lsm_decode_column(&spec->columns[i], code, &isnull[i]);
		rest.data += code.len;
		rest.len -= code.len;
	}
	lsm_deform_value(spec, value, values, isnull);
	scan->xs_hitup = heap_form_tuple(scan->xs_hitupdesc, values, isnull);
	MemoryContextSwitchTo(old);
}

/* An index tuple has no room for more than this and its header. */
#define INDEX_TUPLE_VALUE_BYTES		4096

/*
 * The planner looks for the least and greatest value of the first column, and
 * takes it from an IndexTuple only; since PostgreSQL 18 it asks us, too.
 * NULL if the value does not fit into one.
 */
static IndexTuple
form_planner_tuple(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;
	TupleDesc	desc = scan->xs_itupdesc;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;
	IndexTuple	tuple;

	if ((so->fixed_tuple != NULL && scan->xs_hitup == so->fixed_tuple->tuple) ||
		(so->strings_tuple != NULL && scan->xs_hitup == &so->strings_tuple->tuple))
		MemoryContextReset(so->tuple_context);
	memset(isnull, true, sizeof(isnull));
	values[0] = heap_getattr(scan->xs_hitup, 1, scan->xs_hitupdesc, &isnull[0]);
	if (!isnull[0] && TupleDescAttr(desc, 0)->attlen == -1 &&
		VARSIZE_ANY(DatumGetPointer(values[0])) > INDEX_TUPLE_VALUE_BYTES)
		return NULL;
	old = MemoryContextSwitchTo(so->tuple_context);
	tuple = index_form_tuple(desc, values, isnull);
	MemoryContextSwitchTo(old);
	return tuple;
}

/* See scan.h. */
bool
lsm_form_index_tuple(IndexScanDesc scan, LsmSlice key, LsmSlice value)
{
	form_row(scan, key, value);
	if (likely(scan->xs_snapshot->snapshot_type != SNAPSHOT_NON_VACUUMABLE))
		return true;
	scan->xs_itup = form_planner_tuple(scan);
	return scan->xs_itup != NULL;
}

bool
lsm_index_can_return(Relation index, int attno)
{
	LsmColumnSpec spec;

	if (attno > IndexRelationGetNumberOfKeyAttributes(index))
		return true;

	/* those are kept; the planner asks before we can tell it that types changed */
	if (lsm_type_is_composed(lsm_class_column_type(index->rd_opfamily[attno - 1],
												   index->rd_opcintype[attno - 1])))
		return true;
	lsm_column_spec(index, attno - 1, &spec);
	return spec.returnable;
}
