/*-------------------------------------------------------------------------
 *
 * row_notes.h
 *	  What a table and its indexes tell each other about rows.
 *
 * PostgreSQL calls a table and its indexes one after the other, for one row,
 * and hands nothing through but the TID.  What the table has found out would
 * have to be looked up again: here it is noted.  Each note has an owner, whose
 * end is the note's, and the questions name the row, so that no note is taken
 * for another row's.  All of them are hints: without them things take longer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_ROW_NOTES_H
#define LSM_ROW_NOTES_H

#include "access/relscan.h"
#include "executor/tuptable.h"

#include "am/am.h"
#include "tree/tree.h"

/* ---- updates that keep their keys (row_notes.c) ---- */

/* The old version of an update */
typedef struct LsmReplaced
{
	ItemPointerData tid;		/* its row's */
	TransactionId xmin;			/* committed; invalid: frozen, or ours */
} LsmReplaced;

/*
 * The table's word: the row that this backend wrote last.  With `replaced`, it
 * is a new version with the same values, bit by bit, in all columns of unique
 * keys (INDEX_ATTR_BITMAP_KEY); NULL: it is none such.  The transaction owns
 * the note.
 */
extern void lsm_notes_set_replaced(Relation table, const ItemPointerData *tid,
								   const LsmReplaced *replaced);

/*
 * The index's question: which version has this new row replaced?  NULL: it is
 * not the row that was written last, or has other keys.  The answer is good
 * until the table writes the next row.
 */
extern const LsmReplaced *lsm_notes_get_replaced(Relation table, const ItemPointerData *tid);

/* ---- who deleted a dead row (row_notes.c) ---- */

/*
 * The table's word: the row is dead to everyone, as it has just told the index
 * (all_dead).  `xid`: who deleted it, or a later one; invalid if no snapshot
 * ever saw the row.  The transaction owns the note.
 */
extern void lsm_notes_set_deleter(Relation table, const ItemPointerData *tid, TransactionId xid);

/*
 * The index's question.  False: another row was noted since, so the entry must
 * stay: nobody can tell standbys who deleted the row.
 */
extern bool lsm_notes_get_deleter(Relation table, const ItemPointerData *tid, TransactionId *xid);

/* ---- rows written together (row_notes.c) ---- */

/*
 * Rows that were given to the table together and whose index entries come
 * next, one by one, in the same order: indexes may write them together with
 * the first.  Who inserts rows like that, as COPY does, keeps the group in its
 * frame and says when it begins and ends; groups nest, and the innermost
 * counts.  The slots are the inserter's, and good until the last of these
 * entries has been inserted.
 */
typedef struct LsmRowGroup
{
	struct LsmRowGroup *outer;
	bool		together;		/* else the entries come one by one */
	RelFileLocator table;
	CommandId	cid;
	int			n;				/* 0: none written yet */
	ItemPointerData first;
	TupleTableSlot **slots;		/* COPY clears each when its index entries
								 * have been inserted */
} LsmRowGroup;

/* Must be paired, also on errors (PG_FINALLY). */
extern void lsm_row_group_begin(LsmRowGroup *group, bool together);
extern void lsm_row_group_end(LsmRowGroup *group);

/* The table's word: it has written these rows, whose slots have their TIDs. */
extern void lsm_row_group_set(Relation table, TupleTableSlot **slots, int n, CommandId cid);

/* The index's question: the group that begins with this row, or NULL. */
extern const LsmRowGroup *lsm_row_group_get(Relation table, const ItemPointerData *tid);

/* ---- rows fetched for an index scan ---- */

/*
 * A scan that has met this many rows in a row which it did not see passes over
 * those of which it is known why.
 */
#define LSM_HIDDEN_ROWS	4

typedef enum LsmLook
{
	LSM_LOOK_NOT,				/* the executor asks */
	LSM_LOOK_VISIBLE,
	LSM_LOOK_COLUMNS
} LsmLook;

/*
 * What an lsm table's IndexFetchTableData begins with.  `seen`: the scan that
 * owns it has fetched the row of seen_tid last, and has found it visible.  (The
 * scan's TID is that of the version, then.)
 * `looking`: the scan asks for itself whether the row is visible, and wants it in
 * the slot or not; the executor may ask for the same row next.
 * `met_hidden`: the snapshot did not see a row that was asked for; so were the
 * last `nhidden` of them.
 */
typedef struct LsmRowFetch
{
	IndexFetchTableData base;
	ItemPointerData seen_tid;
	bool		seen;
	LsmLook		looking;
	bool		met_hidden;
	uint32		nhidden;
} LsmRowFetch;

/*
 * The scan's questions to its fetch.  REQUIRES: that is of an lsm table, or
 * NULL.
 */
static inline void
lsm_row_fetch_forget(IndexFetchTableData *fetch)
{
	if (fetch != NULL)
		((LsmRowFetch *) fetch)->seen = false;
}

static inline bool
lsm_row_was_seen(IndexFetchTableData *fetch, ItemPointer tid)
{
	LsmRowFetch *rows = (LsmRowFetch *) fetch;

	return rows != NULL && rows->seen && lsm_same_row(&rows->seen_tid, tid);
}

static inline bool
lsm_row_fetch_passes(const IndexFetchTableData *fetch)
{
	return fetch != NULL && unlikely(((const LsmRowFetch *) fetch)->nhidden >= LSM_HIDDEN_ROWS);
}

/* Since this was asked last */
static inline bool
lsm_row_fetch_met_hidden(IndexFetchTableData *fetch)
{
	LsmRowFetch *rows = (LsmRowFetch *) fetch;
	bool		met;

	if (rows == NULL)
		return false;
	met = rows->met_hidden;
	rows->met_hidden = false;
	return met;
}

/*
 * Is it known, without a look at the row, that the snapshot does not see it?
 * Worth the question where lsm_row_fetch_passes().  `ahead`: a row that will be
 * asked for soon; invalid or NULL: none.
 */
extern bool lsm_row_fetch_hides(IndexFetchTableData *fetch, ItemPointer tid, ItemPointer ahead,
								Snapshot snapshot);

/* ---- dead rows (am.c) ---- */

/*
 * Is the row dead to everyone?  Then the table's memtables have it no more, and
 * *xid is who deleted it, or a later one.  REQUIRES: an lsm table.
 */
extern bool lsm_table_prune(Relation table, const ItemPointerData *row, TransactionId *xid);

/* What indexes ask of src/table, which knows how; once, when loaded. */
typedef struct LsmTableOps
{
	bool		(*prune) (Relation table, const ItemPointerData *row, TransactionId *xid);
	bool		(*fetch_hides) (IndexFetchTableData *fetch, ItemPointer tid, ItemPointer ahead,
								Snapshot snapshot);
#ifdef USE_ASSERT_CHECKING
	void		(*doubt_visible) (Relation table, const ItemPointerData *tid, Snapshot snapshot,
								  bool visible, const char *shortcut);
	void		(*doubt_dead) (Relation table, const ItemPointerData *tid, const char *shortcut);
#endif
} LsmTableOps;

#ifdef USE_ASSERT_CHECKING
/*
 * Second opinions: the snapshot, if it is an MVCC one, sees the row, or does
 * not; the row is dead to everyone.  REQUIRES: an lsm table.
 */
extern void lsm_table_doubt_visible(Relation table, const ItemPointerData *tid, Snapshot snapshot,
									bool visible, const char *shortcut);
extern void lsm_table_doubt_dead(Relation table, const ItemPointerData *tid, const char *shortcut);
#endif

extern void lsm_table_register(const LsmTableOps *ops);

/* ---- indexes of a table that is vacuumed (am.c) ---- */

/* Flush the index's tree.  REQUIRES: lsm_relation_is_index(). */
extern void lsm_index_flush(Relation index);

/* What tables ask of src/index; once, when loaded. */
typedef struct LsmIndexOps
{
	void		(*flush) (Relation index);
} LsmIndexOps;

extern void lsm_index_register(const LsmIndexOps *ops);

/* ---- which row has a key (row_directory.c) ---- */

#define LSM_DIRECTORY_ROWS		2	/* of a key */
#define LSM_DIRECTORY_TAG_BITS	22	/* of a digest */

extern int	lsm_row_directory_kb;	/* 0: there is none */
#ifdef LSM_TESTING
extern int	lsm_directory_tag_bits;
#endif

/* Is it worth asking, before each lookup? */
extern bool lsm_row_directory_worth(LsmTree *tree);

/*
 * Rows that may have the key with this digest, those with the highest numbers,
 * highest first; returns how many.  REQUIRES: lsm_row_directory_worth().
 */
extern int	lsm_row_directory_get(LsmTree *tree, LsmDigest digest,
								  ItemPointerData rows[LSM_DIRECTORY_ROWS]);

/* The same, not for a lookup; there may be no directory. */
extern int	lsm_row_directory_peek(LsmTree *tree, LsmDigest digest,
								   ItemPointerData rows[LSM_DIRECTORY_ROWS]);

/*
 * The key with this digest has been found to be the row's, or will be.
 * REQUIRES: an lsm table.
 */
extern void lsm_row_directory_note(LsmTree *tree, LsmDigest digest, const ItemPointerData *row);

/* This row, of those that were got, is dead to everyone. */
extern void lsm_row_directory_forget(LsmTree *tree, LsmDigest digest, const ItemPointerData *row);

extern Size lsm_row_directory_shmem_bytes(void);

/* REQUIRES: AddinShmemInitLock held. */
extern void lsm_row_directory_shmem_init(void);

#endif							/* LSM_ROW_NOTES_H */
