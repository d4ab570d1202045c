/*-------------------------------------------------------------------------
 *
 * row_notes.c
 *	  Notes that a table makes for its indexes about the rows it has written.
 *
 * What is known of an update lives as long as the transaction that made it.
 * A group of rows lives in the frame of who inserts it.
 *
 * Locking: none, all of it is this backend's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/row_notes.h"

/* The row that this transaction wrote last */
typedef struct WrittenRow
{
	RelFileLocator table;
	ItemPointerData tid;
	LsmReplaced replaced;
	bool		keeps_keys;
	MemoryContextCallback callback;
} WrittenRow;

static WrittenRow *written = NULL;	/* in TopTransactionContext */

static void
written_forget(void *arg)
{
	written = NULL;
}

static WrittenRow *
written_of_transaction(void)
{
	if (written == NULL)
	{
		WrittenRow *row = MemoryContextAllocZero(TopTransactionContext, sizeof(WrittenRow));

		row->callback.func = written_forget;
		MemoryContextRegisterResetCallback(TopTransactionContext, &row->callback);
		written = row;
	}
	return written;
}

void
lsm_notes_set_replaced(Relation table, const ItemPointerData *tid, const LsmReplaced *replaced)
{
	WrittenRow *row;

	if (replaced == NULL)
	{
		if (written != NULL)
			written->keeps_keys = false;
		return;
	}
	row = written_of_transaction();
	row->table = table->rd_locator;
	row->tid = *tid;
	row->replaced = *replaced;
	row->keeps_keys = true;
}

const LsmReplaced *
lsm_notes_get_replaced(Relation table, const ItemPointerData *tid)
{
	if (written == NULL || !written->keeps_keys ||
		!RelFileLocatorEquals(table->rd_locator, written->table) ||
		!ItemPointerEquals(unconstify(ItemPointerData *, tid), &written->tid))
		return NULL;
	return &written->replaced;
}

/* The innermost, in its inserter's frame */
static LsmRowGroup *group = NULL;

void
lsm_row_group_begin(LsmRowGroup *new_group, bool together)
{
	new_group->outer = group;
	new_group->together = together;
	new_group->n = 0;
	group = new_group;
}

void
lsm_row_group_end(LsmRowGroup *ended)
{
	Assert(group == ended);
	group = ended->outer;

	/* the outer one's rows were written before: nobody asks for them again */
	if (group != NULL)
		group->n = 0;
}

void
lsm_row_group_set(Relation table, TupleTableSlot **slots, int n, CommandId cid)
{
	if (group == NULL || !group->together)
		return;
	group->n = n;
	group->table = table->rd_locator;
	group->cid = cid;
	group->slots = slots;
	if (n > 0)
		group->first = slots[0]->tts_tid;
}

const LsmRowGroup *
lsm_row_group_get(Relation table, const ItemPointerData *tid)
{
	if (group == NULL || group->n == 0 ||
		!RelFileLocatorEquals(table->rd_locator, group->table) ||
		group->cid != GetCurrentCommandId(false) ||
		!ItemPointerEquals(unconstify(ItemPointerData *, tid), &group->first))
		return NULL;
	return group;
}
