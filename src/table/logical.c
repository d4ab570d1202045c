/*-------------------------------------------------------------------------
 *
 * logical.c
 *	  Logical decoding of rows: notes for the WAL records of changes, and
 *	  changes from entries that were logged with notes.
 *
 * A change of a row is decoded if one of its entries has a note:
 *
 *		change					entry				note
 *
 *		insertion				the row				INSERT
 *		update					the new version		UPDATE, old row
 *		deletion				the override		DELETE, old row
 *		speculative insertion	the row				SPECULATIVE
 *		its completion			the override		CONFIRM or ABORT
 *
 * So an update, which writes the override of the old version, too, is one
 * change, and row locks are none.  A note is a byte (LsmChange and flags), and
 * the old row, as the replica identity wants it, in the format of a row's body
 * (row.h).  Nothing of a new row is in the note: its entry has all of it.
 *
 * What is decoded is what heapam.c logs and core's decode.c makes of it: the
 * same changes with the same rows, in the same order.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "utils/datum.h"
#include "utils/relcache.h"

#include "table/table.h"

/* The first byte of a note, in WAL records */
#define NOTE_CHANGE_MASK	0x0F	/* LsmChange */
#define NOTE_OLD_ROW		0x10	/* the old row follows */
#define NOTE_MORE_ROWS		0x20	/* the same call has inserted more rows:
									 * out-of-line values were logged before
									 * the first of them */
#define NOTE_FLAGS			(NOTE_CHANGE_MASK | NOTE_OLD_ROW | NOTE_MORE_ROWS)

/* ======================================================================
 * Notes
 * ====================================================================== */

static const char first_bytes[] = {
	0,
	LSM_CHANGE_INSERT,
	LSM_CHANGE_UPDATE,
	LSM_CHANGE_DELETE,
	LSM_CHANGE_SPECULATIVE,
	LSM_CHANGE_CONFIRM,
	LSM_CHANGE_ABORT
};

/* A note without an old row.  It lives for ever. */
LsmSlice
lsm_note_plain(Relation rel, LsmChange change)
{
	Assert(first_bytes[change] == (char) change);
	if (likely(!RelationIsLogicallyLogged(rel)))
		return lsm_slice(NULL, 0);
	return lsm_slice(&first_bytes[change], 1);
}

/* Of an inserted row, behind which its call inserts others */
LsmSlice
lsm_note_insert_more(Relation rel)
{
	static const char more = LSM_CHANGE_INSERT | NOTE_MORE_ROWS;

	if (likely(!RelationIsLogicallyLogged(rel)))
		return lsm_slice(NULL, 0);
	return lsm_slice(&more, 1);
}

/*
 * Does the update change a column of the replica identity, bit by bit, or is
 * one stored out of line?  Then subscribers need the old key.
 */
static bool
old_key_required(Relation rel, HeapTuple oldtup, HeapTuple newtup)
{
	Bitmapset  *columns = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	TupleDesc	desc = RelationGetDescr(rel);
	bool		required = false;
	int			i = -1;

	while (!required && (i = bms_next_member(columns, i)) >= 0)
	{
		AttrNumber	attnum = i + FirstLowInvalidHeapAttributeNumber;
		Form_pg_attribute att;
		Datum		old_value;
		Datum		new_value;
		bool		old_isnull;
		bool		new_isnull;

		if (attnum <= 0)
		{
			required = true;	/* no index has one; to be safe */
			break;
		}
		att = TupleDescAttr(desc, attnum - 1);
		old_value = heap_getattr(oldtup, attnum, desc, &old_isnull);
		new_value = heap_getattr(newtup, attnum, desc, &new_isnull);
		if (old_isnull != new_isnull)
			required = true;
		else if (!old_isnull)
			required = !datumIsEqual(old_value, new_value, att->attbyval, att->attlen) ||
				(att->attlen == -1 && VARATT_IS_EXTERNAL(DatumGetPointer(old_value)));
	}
	bms_free(columns);
	return required;
}

/*
 * The old row as the replica identity wants it, with all values inline; NULL if
 * nothing of it is wanted.  It may be `tuple` itself.
 */
static HeapTuple
extract_identity(Relation rel, HeapTuple tuple, HeapTuple newtup)
{
	TupleDesc	desc = RelationGetDescr(rel);
	char		identity = rel->rd_rel->relreplident;
	Bitmapset  *columns;
	HeapTuple	key;
	Datum	   *values;
	bool	   *isnull;

	if (identity == REPLICA_IDENTITY_NOTHING)
		return NULL;
	if (identity == REPLICA_IDENTITY_FULL)
		return HeapTupleHasExternal(tuple) ? toast_flatten_tuple(tuple, desc) : tuple;
	if (newtup != NULL && !old_key_required(rel, tuple, newtup))
		return NULL;
	columns = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	if (bms_is_empty(columns))
		return NULL;

	values = palloc(desc->natts * sizeof(Datum));
	isnull = palloc(desc->natts * sizeof(bool));
	heap_deform_tuple(tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
	{
		if (!bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, columns))
			isnull[i] = true;
	}
	key = heap_form_tuple(desc, values, isnull);
	if (HeapTupleHasExternal(key))
	{
		HeapTuple	flat = toast_flatten_tuple(key, desc);

		heap_freetuple(key);
		key = flat;
	}
	pfree(values);
	pfree(isnull);
	bms_free(columns);
	return key;
}

/*
 * The note of an update, or of a deletion (newtup is NULL).  `oldtup` is the row
 * as it is stored, newtup the new one before its values go out of line.  To be
 * freed with lsm_note_free().  May read out-of-line values.
 */
LsmSlice
lsm_note_change(Relation rel, HeapTuple oldtup, HeapTuple newtup)
{
	LsmChange	change = newtup != NULL ? LSM_CHANGE_UPDATE : LSM_CHANGE_DELETE;
	StringInfoData note;
	HeapTuple	identity;

	if (likely(!RelationIsLogicallyLogged(rel)))
		return lsm_slice(NULL, 0);
	identity = extract_identity(rel, oldtup, newtup);
	if (identity == NULL)
		return lsm_note_plain(rel, change);
	initStringInfo(&note);
	appendStringInfoChar(&note, (char) (change | NOTE_OLD_ROW));
	lsm_body_encode_tuple(&note, identity);
	if (identity != oldtup)
		heap_freetuple(identity);
	return lsm_slice(note.data, note.len);
}

void
lsm_note_free(LsmSlice note)
{
	if (note.len > 1)
		pfree(unconstify(char *, note.data));
}

/* ======================================================================
 * Changes
 * ====================================================================== */

static void
malformed(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("WAL record of a row of an lsm table is malformed: %s", problem)));
}

/* A tuple for the change, in the memory of the reorder buffer */
static void
put_tuple(ReorderBuffer *rb, ReorderBufferChange *change, bool old, const LsmRow *row)
{
	HeapTuple	tuple = lsm_change_alloc_tuple(rb, change, old, lsm_body_tuple_bytes(row));

	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	lsm_body_fill_tuple(row, tuple);
}

static ReorderBufferChangeType
action(LsmChange change)
{
	switch (change)
	{
		case LSM_CHANGE_INSERT:
			return REORDER_BUFFER_CHANGE_INSERT;
		case LSM_CHANGE_UPDATE:
			return REORDER_BUFFER_CHANGE_UPDATE;
		case LSM_CHANGE_DELETE:
			return REORDER_BUFFER_CHANGE_DELETE;
		case LSM_CHANGE_SPECULATIVE:
			return REORDER_BUFFER_CHANGE_INTERNAL_SPEC_INSERT;
		case LSM_CHANGE_CONFIRM:
			return REORDER_BUFFER_CHANGE_INTERNAL_SPEC_CONFIRM;
		case LSM_CHANGE_ABORT:
			return REORDER_BUFFER_CHANGE_INTERNAL_SPEC_ABORT;
	}
	malformed("change is unknown");
	return REORDER_BUFFER_CHANGE_INSERT;	/* keep compiler quiet */
}

/* See LsmKindOps. */
void
lsm_row_decode_change(LogicalDecodingContext *ctx, XLogRecordBuffer *buf,
					  const RelFileLocator *relation, LsmSlice value, LsmSlice note)
{
	uint8		flags = (uint8) note.data[0];
	LsmChange	kind = (LsmChange) (flags & NOTE_CHANGE_MASK);
	ReorderBufferChangeType type = action(kind);
	ReorderBufferChange *change;
	const char *problem;
	LsmRow		row;
	LsmRow		old;

	if (flags & ~NOTE_FLAGS)
		malformed("flags are unknown");
	problem = lsm_row_parse(value, &row);
	if (problem == NULL && (flags & NOTE_OLD_ROW))
		problem = lsm_body_parse(lsm_slice(note.data + 1, note.len - 1), &old);
	if (problem == NULL && row.delta)
		problem = "version is not whole";
	if (problem == NULL && row.partial != (kind == LSM_CHANGE_DELETE ||
										   kind == LSM_CHANGE_CONFIRM ||
										   kind == LSM_CHANGE_ABORT))
		problem = "change does not fit the entry";
	if (problem != NULL)
		malformed(problem);

	change = ReorderBufferAllocChange(ctx->reorder);
	change->action = type;
	change->origin_id = XLogRecGetOrigin(buf->record);
	lsm_change_set_relation(change, relation);
	change->data.tp.clear_toast_afterwards = (flags & NOTE_MORE_ROWS) == 0;
	if (!row.partial)
		put_tuple(ctx->reorder, change, false, &row);
	if (flags & NOTE_OLD_ROW)
		put_tuple(ctx->reorder, change, true, &old);
	ReorderBufferQueueChange(ctx->reorder, XLogRecGetXid(buf->record), buf->origptr,
							 change, false);
}

/* See LsmKindOps. */
bool
lsm_row_is_changed(LsmSlice value, TransactionId xid)
{
	LsmRow		row;

	if (lsm_row_parse(value, &row) != NULL || (row.flags & LSM_ROW_KILLED))
		return false;
	if (!row.partial)
		return true;			/* inserted, or made by an update */
	return (row.flags & (LSM_ROW_HAS_XMAX | LSM_ROW_HAS_NEXT)) == LSM_ROW_HAS_XMAX &&
		row.xmax == xid;
}
