/*-------------------------------------------------------------------------
 *
 * group_insert.c
 *	  Index entries of rows that COPY, or an INSERT of many rows, writes
 *	  together.
 *
 * COPY gives up to 1,000 rows to the table in one call, insert_select.c up to
 * 256, and then, row by row, calls the insertion of their index entries.  When
 * the first of these calls comes, the other rows are known
 * (lsm_row_group_get), and the entries that cannot conflict with anything are
 * written together: few log records instead of one per row, and what will be
 * looked at arrives in time. The calls that follow find their work done.
 *
 * All other entries are left to their row's own call: keys that may be in the
 * index already, the second of two equal keys, keys that are too long.  So an
 * error is raised for the same row, and in the same order, as without groups.
 *
 * A key that may be there may have to be waited for: until another transaction
 * has ended. If keys of later rows were inserted before, that transaction
 * could wait for us on one of them, although both insert in the same order.
 * So the group stops at such a key, and goes on with the row behind it when
 * that has its turn.  (Between two unique indexes there is no such order: the
 * keys of one are inserted before those of the other.)
 *
 * Entries are written earlier than they would have been otherwise, by at most
 * a group; in between nothing of the statement looks at the index, and to
 * others the rows are not visible before the transaction has committed.
 *
 * Serializable transactions write row by row: each entry has its own check for
 * conflicts (predicate.c).
 *
 * Locks: those of lsm_write_if_absent().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/tuptable.h"
#include "utils/memutils.h"

#include "index/index.h"

struct LsmGroupInsert
{
	MemoryContext context;		/* of the statement */
	int			n;				/* rows */
	int			room;
	int			next;			/* whose call is expected */
	int			tried;			/* rows before this one had their chance */
	int			backoff;		/* rows to leave alone when none could be
								 * written */
	TupleTableSlot **slots;		/* of COPY; from `next` on they are full */
	ItemPointerData *tids;
	bool	   *done;
};

/* Entries to be written by one call */
typedef struct WriteGroup
{
	int			n;
	int			rows[LSM_MAX_ABSENT];
	LsmEntry	entries[LSM_MAX_ABSENT];
	uint32		bytes;
} WriteGroup;

/* Can the index be filled from slots without evaluating anything? */
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

static LsmGroupInsert *
group_insert_begin(LsmGroupInsert *insert, IndexInfo *info, const LsmRowGroup *rows)
{
	if (insert == NULL)
	{
		insert = MemoryContextAllocZero(info->ii_Context, sizeof(LsmGroupInsert));
		insert->context = info->ii_Context;
	}
	if (insert->room < rows->n)
	{
		if (insert->room > 0)
		{
			pfree(insert->tids);
			pfree(insert->done);
		}
		insert->room = 0;
		insert->tids = MemoryContextAlloc(insert->context, rows->n * sizeof(ItemPointerData));
		insert->done = MemoryContextAlloc(insert->context, rows->n * sizeof(bool));
		insert->room = rows->n;
	}
	for (int i = 0; i < rows->n; i++)
	{
		insert->tids[i] = rows->slots[i]->tts_tid;
		insert->done[i] = false;
	}
	insert->n = rows->n;
	insert->next = insert->tried = 0;
	insert->slots = rows->slots;
	return insert;
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
	if (lsm_append_columns(spec, values, isnull, &key) > LSM_CODE_MAX_RAW_BYTES ||
		key.len > LSM_INDEX_MAX_CODE_BYTES)
		return false;
	lsm_encode_tid(&slot->tts_tid, &key);
	lsm_buffer_init(&value, 8);
	lsm_form_value(spec, values, isnull, &value);

	memset(entry, 0, sizeof(LsmEntry));
	entry->key = lsm_slice(key.data, key.len);
	entry->value = lsm_slice(value.data, value.len);
	entry->probably_new = true;
	*any_null = lsm_any_null(spec, isnull);
	return true;
}

/* Write entries that cannot conflict. */
static void
write_plain(LsmTree *tree, LsmGroupInsert *insert, WriteGroup *group)
{
	LsmWrite	write;

	if (group->n == 0)
		return;
	lsm_write_begin(tree, &write, group->entries, group->n);
	lsm_write_apply(&write);
	for (int i = 0; i < group->n; i++)
		insert->done[group->rows[i]] = true;
	group->n = 0;
	group->bytes = 0;
}

/*
 * Write entries that have to be unique.  False: the key of one entry may be in
 * the index already.  That row and those behind it are left to their own
 * calls, and the group is tried again at the row behind it (later, the more
 * often no entry at all could be written: backoff).
 */
static bool
write_unique(LsmTree *tree, LsmGroupInsert *insert, WriteGroup *group)
{
	int			n;
	int			written;

	if (group->n == 0)
		return true;
	n = group->n;
	written = lsm_write_if_absent(tree, group->entries, n);
	for (int i = 0; i < written; i++)
		insert->done[group->rows[i]] = true;
	group->n = 0;
	group->bytes = 0;
	if (written > 0)
		insert->backoff = 0;
	if (written == n)
		return true;
	insert->tried = group->rows[written] + 1 + insert->backoff;
	if (written == 0)
		insert->backoff = Min(2 * insert->backoff + 1, LSM_MAX_ABSENT);
	return false;
}

static inline bool
group_has_room(const WriteGroup *group, const LsmEntry *entry)
{
	return group->n < LSM_MAX_ABSENT &&
		group->bytes + entry->key.len + entry->value.len <= LSM_MAX_ENTRY_BYTES;
}

static inline void
group_add(WriteGroup *group, const LsmEntry *entry, int row)
{
	group->rows[group->n] = row;
	group->entries[group->n++] = *entry;
	group->bytes += entry->key.len + entry->value.len;
}

/* From the row whose call it is on, as far as possible. */
static void
group_insert_write(LsmGroupInsert *insert, Relation index, const LsmKeySpec *spec, IndexInfo *info)
{
	LsmTree    *tree = lsm_index_open_tree(index);
	WriteGroup	plain;
	WriteGroup	unique;
	bool		go_on = true;

	plain.n = unique.n = 0;
	plain.bytes = unique.bytes = 0;
	insert->tried = insert->n;
	for (int i = insert->next; i < insert->n && go_on; i++)
	{
		LsmEntry	entry;
		bool		any_null;

		if (insert->done[i])
			continue;
		if (!form_entry(spec, info, insert->slots[i], &entry, &any_null) ||
			entry.key.len + entry.value.len > LSM_MAX_ENTRY_BYTES)
		{
			/* its own call may wait, too */
			insert->tried = i + 1;
			break;
		}
		if (!spec->unique || (spec->nulls_distinct && any_null))
		{
			if (!group_has_room(&plain, &entry))
				write_plain(tree, insert, &plain);
			group_add(&plain, &entry, i);
		}
		else
		{
			if (!group_has_room(&unique, &entry))
				go_on = write_unique(tree, insert, &unique);
			if (go_on)
				group_add(&unique, &entry, i);
		}
	}
	write_plain(tree, insert, &plain);
	(void) write_unique(tree, insert, &unique);
}

/* The row's place in the insert, or -1.  Calls come in the order of the rows. */
static int
group_insert_place(const LsmGroupInsert *insert, ItemPointer tid)
{
	for (int i = 0; i < insert->n; i++)
	{
		int			at = (insert->next + i) % insert->n;

		if (ItemPointerEquals(&insert->tids[at], tid))
			return at;
	}
	return -1;
}

bool
lsm_group_inserted(LsmGroupInsert **inout, Relation index, Relation table,
				   const LsmKeySpec *spec, ItemPointer tid, IndexUniqueCheck check,
				   IndexInfo *info)
{
	LsmGroupInsert *insert;
	const LsmRowGroup *rows;
	int			at;

	if (check == UNIQUE_CHECK_EXISTING || IsolationIsSerializable())
		return false;
	rows = lsm_row_group_get(table, tid);
	if (rows != NULL && rows->n > 1 && has_plain_columns(info))
		*inout = group_insert_begin(*inout, info, rows);
	insert = *inout;
	if (insert == NULL || insert->n == 0 || (at = group_insert_place(insert, tid)) < 0)
		return false;

	insert->next = at;
	if (at >= insert->tried)
	{
		MemoryContext old;
		MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "lsm_index rows",
												   ALLOCSET_DEFAULT_SIZES);

		old = MemoryContextSwitchTo(work);
		group_insert_write(insert, index, spec, info);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(work);
	}
	insert->next = at + 1;
	if (insert->next == insert->n)
		insert->n = 0;			/* that was the last one */
	return insert->done[at];
}
