/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Index entries of rows that COPY writes together.
 *
 * COPY gives up to 1,000 rows to the table in one call, and then, row by row, calls the
 * insertion of their index entries.  When the first of these calls comes, the other rows are known
 * (lsm_rows_batch), and the entries that cannot conflict with anything are written together:
 * few log records instead of one per row, and what will be looked at arrives in time.
 * The calls that follow find their work done.
 *
 * Whatever is not as simple as that is left to the row's own call: keys that may be there
 * already, the second of two equal ones, keys that are too long.  So errors come with
 * the row, and in the order, in which they would have come otherwise.
 *
 * Entries are written earlier than they would have been otherwise, by at most a batch; in
 * between nothing of the statement looks at the index, and to others the rows are not visible
 * before the transaction has committed.
 *
 * Serializable transactions write row by row: each entry has its own check for conflicts
 * (predicate.c).
 *
 * Locks: those of lsm_write_absent().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/tuptable.h"
#include "utils/memutils.h"

#include "index/index.h"

struct LsmInsertBatch
{
	MemoryContext context;		/* of the statement */
	int			n;				/* rows */
	int			room;
	int			next;			/* whose call is expected */
	ItemPointerData *tids;
	bool	   *done;
};

/* Entries to be written together */
typedef struct EntryGroup
{
	int			n;
	int			rows[LSM_MAX_ABSENT];
	LsmEntry	entries[LSM_MAX_ABSENT];
	uint32		bytes;
} EntryGroup;

/* The index can be filled from slots without evaluating anything. */
static bool
has_plain_columns(IndexInfo *info)
{
	if (info->ii_Expressions != NIL || info->ii_Predicate != NIL ||
		info->ii_ExclusionOps != NULL)
		return false;
	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
	{
		if (info->ii_IndexAttrNumbers[i] <= 0)
			return false;
	}
	return true;
}

static LsmInsertBatch *
batch_begin(LsmInsertBatch *batch, IndexInfo *info, const LsmRowBatch *rows)
{
	if (batch == NULL)
	{
		batch = MemoryContextAllocZero(info->ii_Context, sizeof(LsmInsertBatch));
		batch->context = info->ii_Context;
	}
	if (batch->room < rows->n)
	{
		if (batch->room > 0)
		{
			pfree(batch->tids);
			pfree(batch->done);
		}
		batch->room = 0;
		batch->tids = MemoryContextAlloc(batch->context, rows->n * sizeof(ItemPointerData));
		batch->done = MemoryContextAlloc(batch->context, rows->n * sizeof(bool));
		batch->room = rows->n;
	}
	for (int i = 0; i < rows->n; i++)
	{
		batch->tids[i] = rows->slots[i]->tts_tid;
		batch->done[i] = false;
	}
	batch->n = rows->n;
	batch->next = 0;
	return batch;
}

/*
 * Key and value of the row's entry, palloc'd.  False: too long.  *any_null: as
 * lsm_any_null().
 */
static bool
form_entry(const LsmKeySpec *spec, IndexInfo *info, TupleTableSlot *slot, LsmEntry *entry,
		   bool *any_null)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	StringInfoData key;
	StringInfoData value;

	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
		values[i] = slot_getattr(slot, info->ii_IndexAttrNumbers[i], &isnull[i]);
	lsm_buffer_init(&key, 32);
	for (int i = 0; i < spec->nkeys; i++)
		lsm_encode_column(&spec->columns[i], values[i], isnull[i], &key);
	if (key.len > LSM_INDEX_MAX_CODE_BYTES)
		return false;
	lsm_encode_tid(&slot->tts_tid, &key);
	lsm_buffer_init(&value, 8);
	lsm_form_value(spec, values, isnull, &value);

	memset(entry, 0, sizeof(LsmEntry));
	entry->key = lsm_slice(key.data, key.len);
	entry->value = lsm_slice(value.data, value.len);
	entry->fresh = true;
	*any_null = lsm_any_null(spec, isnull);
	return true;
}

/* Write the group; `unique`: those that are surely absent. */
static void
write_group(LsmTree *tree, LsmInsertBatch *batch, EntryGroup *group, bool unique)
{
	bool		written[LSM_MAX_ABSENT];

	if (group->n == 0)
		return;
	if (unique)
		lsm_write_absent(tree, group->entries, group->n, written);
	else
	{
		LsmWrite	write;

		lsm_write_begin(tree, &write, group->entries, group->n);
		lsm_write_apply(&write);
	}
	for (int i = 0; i < group->n; i++)
		batch->done[group->rows[i]] = unique ? written[i] : true;
	group->n = 0;
	group->bytes = 0;
}

static void
add_to_group(LsmTree *tree, LsmInsertBatch *batch, EntryGroup *group, bool unique,
			 const LsmEntry *entry, int row)
{
	uint32		bytes = entry->key.len + entry->value.len;

	if (group->n == LSM_MAX_ABSENT || group->bytes + bytes > LSM_MAX_ENTRY_BYTES)
		write_group(tree, batch, group, unique);
	group->rows[group->n] = row;
	group->entries[group->n++] = *entry;
	group->bytes += bytes;
}

static void
batch_write(LsmInsertBatch *batch, Relation index, const LsmKeySpec *spec, IndexInfo *info,
			TupleTableSlot **slots)
{
	LsmTree    *tree = lsm_index_open_tree(index);
	EntryGroup	groups[2];		/* of plain entries; of those that have to be
								 * unique */

	groups[0].n = groups[1].n = 0;
	groups[0].bytes = groups[1].bytes = 0;
	for (int i = 0; i < batch->n; i++)
	{
		LsmEntry	entry;
		bool		any_null;
		bool		unique;

		if (!form_entry(spec, info, slots[i], &entry, &any_null) ||
			entry.key.len + entry.value.len > LSM_MAX_ENTRY_BYTES)
			continue;
		unique = spec->unique && !(spec->nulls_distinct && any_null);
		add_to_group(tree, batch, &groups[unique], unique, &entry, i);
	}
	write_group(tree, batch, &groups[0], false);
	write_group(tree, batch, &groups[1], true);
}

/* Has it been written with the batch?  Calls come in the order of the rows. */
static bool
batch_done(LsmInsertBatch *batch, ItemPointer tid)
{
	for (int i = 0; i < batch->n; i++)
	{
		int			at = (batch->next + i) % batch->n;

		if (ItemPointerEquals(&batch->tids[at], tid))
		{
			bool		done = batch->done[at];

			batch->next = at + 1;
			if (batch->next == batch->n)
				batch->n = 0;	/* that was the last one */
			return done;
		}
	}
	return false;
}

bool
lsm_batch_inserted(LsmInsertBatch **batch, Relation index, Relation table,
				   const LsmKeySpec *spec, ItemPointer tid, IndexUniqueCheck check,
				   IndexInfo *info)
{
	const LsmRowBatch *rows;

	if (check == UNIQUE_CHECK_EXISTING || IsolationIsSerializable())
		return false;
	rows = lsm_rows_batch(table, tid);
	if (rows != NULL && rows->n > 1 && has_plain_columns(info))
	{
		MemoryContext old;
		MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "lsm_index batch",
												   ALLOCSET_DEFAULT_SIZES);

		*batch = batch_begin(*batch, info, rows);
		old = MemoryContextSwitchTo(work);
		batch_write(*batch, index, spec, info, rows->slots);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(work);
	}
	return *batch != NULL && (*batch)->n > 0 && batch_done(*batch, tid);
}
