/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Row numbers of table trees: handed out in ascending order, never twice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/tree_private.h"

uint64
lsm_write_allocate_rows(LsmWrite *write, int n)
{
	Assert(write->active && n > 0);
	return pg_atomic_fetch_add_u64(&write->tree->ctl->row_limit, n);
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
lsm_tree_allocate_rows(LsmTree *tree, int n)
{
	uint64		first;

	lsm_tree_enter(tree);
	first = pg_atomic_fetch_add_u64(&tree->ctl->row_limit, n);
	lsm_tree_exit(tree);
	return first;
}
