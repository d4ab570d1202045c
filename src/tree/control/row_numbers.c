/*-------------------------------------------------------------------------
 *
 * row_numbers.c
 *	  Row numbers of table trees: handed out in ascending order, never twice.
 *
 * The counter lives in the control block, which is pinned while a transaction
 * uses the tree.  On disk it is covered by the keys of the logged entries and
 * by the metapage's row_limit; a number that was handed out but never logged
 * is known to no one and may come again after a restart.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"

static uint64
lsm_rows_take(LsmTreeShared *ctl, int n)
{
	uint64		first = pg_atomic_read_u64(&ctl->row_limit);

	Assert(n > 0);
	do
	{
		if (first + n > LSM_MAX_ROWS)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("lsm table has used up its row identifiers"),
					 errhint("Rewrite the table with VACUUM FULL.")));
	} while (!pg_atomic_compare_exchange_u64(&ctl->row_limit, &first, first + n));
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
	replaced = &tree->ctl->rows.replaced;
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
	changed = pg_atomic_read_u32(&tree->ctl->rows.churned) != (uint32) churned &&
		pg_atomic_exchange_u32(&tree->ctl->rows.churned, churned) != (uint32) churned;
	lsm_tree_exit(tree);
	return changed && churned;
}
