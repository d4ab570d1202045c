/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  Part of tree.h: rows of table trees, and what src/table and src/index tell each
 *	  other about them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_ROWS_H
#define LSM_TREE_ROWS_H

#include "tree/tree.h"

/* ---- row identifiers of table trees ---- */

#define LSM_TID_OFFSETS		291 /* offsets 1..291 are used:
								 * MaxHeapTuplesPerPage */

/*
 * n successive row numbers (0-based; block = number / 291, offset = 1 + number
 * % 291); returns the first.  Never handed out again once one of them is
 * logged.  REQUIRES: the write has begun.  Numbers are handed out to
 * registered writers only, so that lsm_tree_flush() waits until the rows of
 * all numbers handed out before it are there: what VACUUM does not find
 * afterwards is dead.
 */
extern uint64 lsm_write_allocate_rows(LsmWrite *write, int n);

/* The old version of an update */
typedef struct LsmReplaced
{
	ItemPointerData tid;
	TransactionId xmin;			/* committed; invalid: frozen, or ours */
	bool		often;			/* the row is one that is updated often */
} LsmReplaced;

/*
 * What src/table knows and src/index wants to: the row that this backend wrote
 * last, if it is a new version with the same values, bit by bit, in all
 * columns of unique keys (INDEX_ATTR_BITMAP_KEY).  NULL: the last one is none
 * such.
 */
extern void lsm_rows_note_same_keys(Relation table, const ItemPointerData *tid,
									const LsmReplaced *replaced);

/*
 * The version that it has replaced, or NULL: this is not such a row.  Good
 * until the next one is noted.
 */
extern const LsmReplaced *lsm_rows_have_same_keys(Relation table, const ItemPointerData *tid);

/*
 * What src/table knows of rows that an index scan asks for: this fetch, which
 * serves one scan, has found the row of this TID visible.  Anything else takes
 * the note away; `fetch` NULL does no more than that.
 */
struct IndexFetchTableData;
extern void lsm_rows_note_seen(const struct IndexFetchTableData *fetch,
							   const ItemPointerData *tid);
extern bool lsm_rows_seen(const struct IndexFetchTableData *fetch,
						  const ItemPointerData *tid);

/*
 * The row of this TID is dead to everyone, which src/table has just told
 * src/index (all_dead): who deleted it, or a later one; invalid if no snapshot
 * ever saw it.
 */
extern void lsm_rows_note_dead(Relation table, const ItemPointerData *tid, TransactionId xid);

/*
 * What was noted of the row; false if something else was noted since: then
 * lsm_prune_bound() is not too old, either.
 */
extern bool lsm_rows_deleter(Relation table, const ItemPointerData *tid, TransactionId *xid);

/*
 * The rows that COPY (or insert_select.c, which does the same and of which the
 * same holds) has just given to the table together, whose index entries come
 * next, one by one, in the same order.  Indexes may write them together with
 * the first.  The slots are the caller's and good until the last of these
 * entries has been inserted: COPY sees to that, so only what is written by it
 * is noted.
 */
struct TupleTableSlot;
typedef struct LsmRowBatch
{
	RelFileLocator table;
	CommandId	cid;
	int			n;				/* 0: none */
	ItemPointerData first;
	struct TupleTableSlot **slots;	/* of COPY, which clears each when its
									 * index entries have been inserted */
} LsmRowBatch;

/* COPY FROM begins or ends; returns what was the case before. */
extern bool lsm_rows_copy(bool running);
extern void lsm_rows_note_batch(Relation table, struct TupleTableSlot **slots, int n,
								CommandId cid);

/* The batch that begins with this row, or NULL. */
extern const LsmRowBatch *lsm_rows_batch(Relation table, const ItemPointerData *tid);

/*
 * An index that is going to get entries of a table's new rows: it may look at
 * each before the table has written it, to fetch ahead what it will need then.
 */
typedef struct LsmRowListener
{
	void		(*announce) (struct LsmRowListener *listener, struct TupleTableSlot *slot);

	/* private to row_numbers.c */
	dlist_node	node;
	RelFileLocator table;
	TransactionId xid;
	CommandId	cid;
	MemoryContextCallback callback;
} LsmRowListener;

/*
 * As long as the present command runs, and until the context is reset, in
 * which the listener lies.  REQUIRES: the transaction has an xid.
 */
extern void lsm_rows_listen(LsmRowListener *listener, Relation table, MemoryContext context);

/* The row will be written next, most likely. */
extern void lsm_rows_prefetch(Relation table, struct TupleTableSlot *slot);

/* The same for someone who has the tree to himself (rewriting a table). */
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

/* ---- newest rows of keys that are updated often (row_hint_cache.c) ---- */

#define LSM_NEWEST_ROWS		2
#define LSM_NEWEST_DEAD		4

/* A row that is dead to everyone, and who deleted it */
typedef struct LsmDeadRow
{
	ItemPointerData tid;
	TransactionId xid;
} LsmDeadRow;

/*
 * An update of `replaced` has made this row, which has the same key (columns
 * of a unique index, no NULLs).  Returns how many of the key's older rows are
 * known to be dead to everyone: their entries may be forgotten.  They are
 * reported once.  REQUIRES: an lsm table; the entries of both rows have been
 * or will be written to the index.
 */
extern int	lsm_row_hint_note(LsmTree *tree, Relation table, LsmSlice key,
							const LsmReplaced *replaced, const ItemPointerData *tid,
							LsmDeadRow dead[LSM_NEWEST_DEAD]);

/* Take these rows, too, out of the table's memtables. */
extern void lsm_rows_prune(Relation table, const LsmDeadRow *dead, int n);

/* From lsm_table_init(): src/table knows how. */
typedef void (*LsmPruneRows) (Relation table, const LsmDeadRow *dead, int n);
extern void lsm_rows_prune_by(LsmPruneRows forget);

/*
 * TIDs of rows that have the probe's key, newest first; 0: none is known.
 * They may be visible to no one, and there may be others.
 */
extern int	lsm_row_hint_get(LsmTree *tree, const LsmProbe *probe,
						   ItemPointerData tids[LSM_NEWEST_ROWS]);

/* Is it worth asking, before each lookup? */
extern bool lsm_row_hint_worth(LsmTree *tree);

#endif							/* LSM_TREE_ROWS_H */
