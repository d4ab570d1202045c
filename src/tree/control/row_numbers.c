/*-------------------------------------------------------------------------
 *
 * row_numbers.c
 *	  Row numbers of table trees: handed out in ascending order, never twice.
 *
 * The counter lives in the control block, which is pinned while a transaction
 * uses the tree.  On disk it is covered by the keys of the logged entries and by the
 * metapage's row_limit; a number that was handed out but never logged is known to no
 * one and may come again after a restart.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "tree/control/control.h"

/* Block numbers up to MaxBlockNumber: 1.2e12 rows */
#define LSM_MAX_ROWS	((uint64) MaxBlockNumber * LSM_TID_OFFSETS)

/* lsm_rows_note_same_keys */
static bool same_keys = false;
static RelFileLocator same_keys_table;
static ItemPointerData same_keys_tid;
static LsmReplaced same_keys_replaced;

void
lsm_rows_note_same_keys(Relation table, const ItemPointerData *tid, const LsmReplaced *replaced)
{
	same_keys = tid != NULL;
	if (same_keys)
	{
		same_keys_table = table->rd_locator;
		same_keys_tid = *tid;
		same_keys_replaced = *replaced;
	}
}

const LsmReplaced *
lsm_rows_have_same_keys(Relation table, const ItemPointerData *tid)
{
	if (same_keys && RelFileLocatorEquals(table->rd_locator, same_keys_table) &&
		ItemPointerEquals(unconstify(ItemPointerData *, tid), &same_keys_tid))
		return &same_keys_replaced;
	return NULL;
}

/* lsm_rows_note_seen; the fetch is compared, never looked at */
static const IndexFetchTableData *seen_by = NULL;
static ItemPointerData seen_tid;

void
lsm_rows_note_seen(const IndexFetchTableData *fetch, const ItemPointerData *tid)
{
	seen_by = fetch;
	if (fetch != NULL)
		seen_tid = *tid;
}

bool
lsm_rows_seen(const IndexFetchTableData *fetch, const ItemPointerData *tid)
{
	return fetch != NULL && fetch == seen_by &&
		ItemPointerEquals(unconstify(ItemPointerData *, tid), &seen_tid);
}

/* lsm_rows_note_dead; an invalid TID: nothing */
static RelFileLocator dead_table;
static ItemPointerData dead_tid;
static TransactionId dead_xid;

void
lsm_rows_note_dead(Relation table, const ItemPointerData *tid, TransactionId xid)
{
	dead_table = table->rd_locator;
	dead_tid = *tid;
	dead_xid = xid;
}

bool
lsm_rows_deleter(Relation table, const ItemPointerData *tid, TransactionId *xid)
{
	if (!ItemPointerIsValid(&dead_tid) ||
		!RelFileLocatorEquals(table->rd_locator, dead_table) ||
		!ItemPointerEquals(unconstify(ItemPointerData *, tid), &dead_tid))
		return false;
	*xid = dead_xid;
	return true;
}

static LsmPruneRows prune_rows = NULL;

void
lsm_rows_prune_by(LsmPruneRows forget)
{
	prune_rows = forget;
}

void
lsm_rows_prune(Relation table, const LsmDeadRow *dead, int n)
{
	prune_rows(table, dead, n);
}

/* lsm_rows_note_batch */
static bool copying = false;
static LsmRowBatch batch;

bool
lsm_rows_copy(bool running)
{
	bool		before = copying;

	copying = running;
	batch.n = 0;
	return before;
}

void
lsm_rows_note_batch(Relation table, TupleTableSlot **slots, int n, CommandId cid)
{
	batch.n = copying ? n : 0;
	batch.table = table->rd_locator;
	batch.cid = cid;
	batch.slots = slots;
	if (batch.n > 0)
		batch.first = slots[0]->tts_tid;
}

const LsmRowBatch *
lsm_rows_batch(Relation table, const ItemPointerData *tid)
{
	if (batch.n == 0 || !RelFileLocatorEquals(table->rd_locator, batch.table) ||
		batch.cid != GetCurrentCommandId(false) ||
		!ItemPointerEquals(unconstify(ItemPointerData *, tid), &batch.first))
		return NULL;
	return &batch;
}

static dlist_head listeners = DLIST_STATIC_INIT(listeners);

static void
stop_listening(void *listener)
{
	dlist_delete(&((LsmRowListener *) listener)->node);
}

void
lsm_rows_listen(LsmRowListener *listener, Relation table, MemoryContext context)
{
	listener->table = table->rd_locator;
	listener->xid = GetTopTransactionIdIfAny();
	listener->cid = GetCurrentCommandId(false);
	listener->callback.func = stop_listening;
	listener->callback.arg = listener;
	MemoryContextRegisterResetCallback(context, &listener->callback);
	dlist_push_head(&listeners, &listener->node);
}

void
lsm_rows_prefetch(Relation table, TupleTableSlot *slot)
{
	dlist_iter	iter;

	dlist_foreach(iter, &listeners)
	{
		LsmRowListener *listener = dlist_container(LsmRowListener, node, iter.cur);

		if (RelFileLocatorEquals(listener->table, table->rd_locator) &&
			listener->cid == GetCurrentCommandId(false) &&
			listener->xid == GetTopTransactionIdIfAny())
			listener->announce(listener, slot);
	}
}

static uint64
lsm_rows_take(LsmTreeShared *ctl, int n)
{
	uint64		first;

	Assert(n > 0);
	if (pg_atomic_read_u64(&ctl->row_limit) + n > LSM_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("lsm table has used up its row identifiers"),
				 errhint("Rewrite the table with VACUUM FULL.")));
	first = pg_atomic_fetch_add_u64(&ctl->row_limit, n);
	return first;
}

uint64
lsm_write_allocate_rows(LsmWrite *write, int n)
{
	Assert(write->active);
	return lsm_rows_take(write->tree->ctl, n);
}

uint64
lsm_tree_allocate_rows(LsmTree *tree, int n)
{
	uint64		first;

	lsm_tree_enter(tree);
	first = lsm_rows_take(tree->ctl, n);
	lsm_tree_exit(tree);
	return first;
}

uint64
lsm_tree_row_limit(LsmTree *tree)
{
	uint64		limit;

	lsm_tree_enter(tree);
	limit = pg_atomic_read_u64(&tree->ctl->row_limit);
	lsm_tree_exit(tree);
	return limit;
}

uint64
lsm_tree_note_replaced(LsmTree *tree, uint64 rows, uint64 at_least)
{
	pg_atomic_uint64 *replaced;
	uint64		old;
	uint64		now;

	lsm_tree_enter(tree);
	replaced = &tree->ctl->replaced;
	old = pg_atomic_read_u64(replaced);
	do
		now = Max(old + rows, at_least);
	while (now != old && !pg_atomic_compare_exchange_u64(replaced, &old, now));
	lsm_tree_exit(tree);
	return now;
}

bool
lsm_tree_note_churn(LsmTree *tree, bool churned)
{
	bool		changed;

	lsm_tree_enter(tree);
	changed = pg_atomic_read_u32(&tree->ctl->churned) != (uint32) churned &&
		pg_atomic_exchange_u32(&tree->ctl->churned, churned) != (uint32) churned;
	lsm_tree_exit(tree);
	return changed && churned;
}
