/*-------------------------------------------------------------------------
 *
 * row_notes.c
 *	  Notes that a table makes for its indexes about rows.
 *
 * What is known of single rows lives as long as the transaction that noted it.
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

/* A row of a table */
typedef struct RowName
{
	RelFileLocator table;
	ItemPointerData tid;		/* invalid: no row */
} RowName;

static inline RowName
row_name(Relation table, const ItemPointerData *tid)
{
	return (RowName) {table->rd_locator, *tid};
}

static inline bool
row_is(RowName *row, Relation table, const ItemPointerData *tid)
{
	return ItemPointerIsValid(&row->tid) &&
		RelFileLocatorEquals(table->rd_locator, row->table) &&
		ItemPointerEquals(unconstify(ItemPointerData *, tid), &row->tid);
}

/* What a transaction notes */
typedef struct RowNotes
{
	RowName		written;		/* the row written last, if it keeps its keys */
	LsmReplaced replaced;
	RowName		dead;			/* the row last found dead to everyone */
	TransactionId deleter;
	MemoryContextCallback callback;
} RowNotes;

static RowNotes *notes = NULL;	/* in TopTransactionContext */

static void
notes_forget(void *arg)
{
	notes = NULL;
}

static RowNotes *
notes_of_transaction(void)
{
	if (notes == NULL)
	{
		RowNotes   *made = MemoryContextAllocZero(TopTransactionContext, sizeof(RowNotes));

		made->callback.func = notes_forget;
		MemoryContextRegisterResetCallback(TopTransactionContext, &made->callback);
		notes = made;
	}
	return notes;
}

void
lsm_notes_set_replaced(Relation table, const ItemPointerData *tid, const LsmReplaced *replaced)
{
	if (replaced != NULL)
	{
		notes_of_transaction()->written = row_name(table, tid);
		notes->replaced = *replaced;
	}
	else if (notes != NULL)
		ItemPointerSetInvalid(&notes->written.tid);
}

const LsmReplaced *
lsm_notes_get_replaced(Relation table, const ItemPointerData *tid)
{
	return notes != NULL && row_is(&notes->written, table, tid) ? &notes->replaced : NULL;
}

void
lsm_notes_set_deleter(Relation table, const ItemPointerData *tid, TransactionId xid)
{
	notes_of_transaction()->dead = row_name(table, tid);
	notes->deleter = xid;
}

bool
lsm_notes_get_deleter(Relation table, const ItemPointerData *tid, TransactionId *xid)
{
	if (notes == NULL || !row_is(&notes->dead, table, tid))
		return false;
	*xid = notes->deleter;
	return true;
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
