/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  Part of tree.h: the numbers of rows in table trees.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_ROWS_H
#define LSM_TREE_ROWS_H

#ifndef LSM_TREE_H
#error "tree/tree.h includes this header"
#endif

/* ---- row identifiers of table trees ---- */

#define LSM_TID_OFFSETS		291 /* offsets 1..291 are used:
								 * MaxHeapTuplesPerPage */

/* The bits of an offset that these take: the others are the table's to use. */
#define LSM_TID_OFFSET_MASK	0x01FF

/* Block numbers up to MaxBlockNumber: 1.2e12 rows */
#define LSM_MAX_ROWS		((uint64) MaxBlockNumber * LSM_TID_OFFSETS)

/*
 * n successive row numbers (0-based; block = number / 291, offset = 1 + number
 * % 291); returns the first.  Never handed out again once one of them is
 * logged.  REQUIRES: the write has begun.  Numbers are handed out to
 * registered writers only, so that lsm_tree_flush() waits until the rows of
 * all numbers handed out before it are there: what VACUUM does not find
 * afterwards is dead.
 */
extern uint64 lsm_write_allocate_rows(LsmWrite *write, int n);

/* Without a lock: the caller has the tree to itself (rewriting a table). */
extern uint64 lsm_tree_allocate_rows(LsmTree *tree, int n);

/* All row numbers handed out so far are below it. */
extern uint64 lsm_tree_row_limit(LsmTree *tree);

/*
 * How many of the row numbers handed out are of rows that updates have
 * replaced, as far as known: never exact, and forgotten by a restart.  `rows`
 * more are, and not fewer than `at_least` in all; (0, 0) only asks.
 */
extern uint64 lsm_tree_note_replaced(LsmTree *tree, uint64 rows, uint64 at_least);

/* Rows come and go (or not) by now.  True: that was not so before. */
extern bool lsm_tree_note_churn(LsmTree *tree, bool churned);

#endif							/* LSM_TREE_ROWS_H */
