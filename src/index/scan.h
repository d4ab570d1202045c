/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  What files share that are about index scans: the state of a scan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_INDEX_SCAN_H
#define LSM_INDEX_SCAN_H

#include "access/relscan.h"
#include "access/tableam.h"
#include "storage/buf.h"
#include "utils/memutils.h"

#include "index/quals.h"

typedef enum WalkState
{
	SCAN_FRESH,					/* nothing returned yet */
	SCAN_ON_ENTRY,				/* `current` is valid */
	SCAN_PAST_LAST,
	SCAN_BEFORE_FIRST
} WalkState;

/* Where a scan is; what a mark remembers */
typedef struct ScanPosition
{
	WalkState	state;
	int			point[INDEX_MAX_KEYS];	/* of the prefix's columns: the walk */
	StringInfoData current;		/* key of the entry returned last */
} ScanPosition;

/* A parallel scan's shared state (parallel_scan.c) */
typedef struct LsmSharedScan LsmSharedScan;

/* What this process has taken of a parallel scan */
typedef struct LsmScanUnit
{
	bool		alone;			/* everything, and has not begun */
	uint64		walks;			/* left, the present one included */
	LsmSlice	low;			/* first key of the walk; len 0: none, the walk's
								 * own bound */
	LsmSlice	high;			/* it ends before keys that begin so */
} LsmScanUnit;

/*
 * Blocks that were all-visible since the guard's stamp was taken: a few words of
 * the visibility map, each where its number leads to.
 */
#define LSM_KNOWN_WORDS		128
#define LSM_BLOCKS_PER_WORD	64

typedef struct LsmKnownBlocks
{
	uint64		walk;			/* of the stamp; another: nothing is known */
	uint64		bits;
	uint32		number;
} LsmKnownBlocks;

/* How rows of index columns are written (index_row.c) */
typedef struct LsmRowForm LsmRowForm;

/*
 * walk.c, of range walks: entries read ahead in `direction`, of which next ..
 * n - 1 are still to be looked at.  An MVCC snapshot does not care when an entry
 * is read, as long as its row is looked at later.
 */
typedef struct ScanAhead
{
	bool		allowed;		/* by the snapshot */
	LsmBatch   *batch;			/* NULL until needed */
	int			next;
	int			size;			/* of the next batch */
	bool		inside;			/* all entries of this one are within the
								 * walk's upper bound */
	bool		plain;			/* and match the quals */
} ScanAhead;

/* The walk's bounds: prefix plus bound of the next column; len 0: none */
typedef struct ScanWalk
{
	StringInfoData lower;
	StringInfoData upper;
	int			prefix_bytes;
	bool		lower_inclusive;
	bool		upper_inclusive;
	LsmSlice	within;			/* its entries begin with this; len 0: wherever
								 * its bounds let them be */
} ScanWalk;

/* skip.c: passing over entries that cannot match */
typedef struct ScanSkip
{
	int			misses;			/* entries in a row that did not, before a skip */
	int			trust;			/* how many seeks follow one that has paid, before
								 * it is seen again ... */
	int			trusted;		/* ... of which these are left */
	StringInfoData missed;		/* key of one of them; data NULL until needed */
	StringInfoData target;		/* where to go on; data NULL until needed */
} ScanSkip;

/*
 * one_row.c: of the rows with one key, the snapshot sees one at most.  When it
 * has been found, the walk is over.  The row directory is asked before a walk
 * begins.
 */
typedef struct ScanOneRow
{
	bool		unique;
	bool		doubted;		/* lsm_index_doubt_unique() */
	bool		plain_columns;	/* index is of columns, and of all rows */
	bool		try_directory;
	bool		from_directory; /* the row returned last */
	bool		pass_row;		/* the walk passes over directory_row, which was
								 * returned before */
	ItemPointerData directory_row;
	LsmProbe	probe;			/* of the walk's key, which lies in walk.lower or in
								 * points; filter_key empty: the walk has begun, or
								 * the probe has not */
	StringInfoData row_code;	/* scratch; data NULL until needed */
} ScanOneRow;

/* present.c: snapshots that see what is there now */
typedef struct ScanPresent
{
	bool		wanted;			/* by the snapshot */
	ItemPointerData *rows;		/* returned by all passes; NULL until needed */
	int			nrows;
	int			nsorted;		/* how many by former passes, sorted */
	int			room;
} ScanPresent;

/* kill.c: dead entries that were met, and whether a TID can be another row's */
typedef struct ScanDead
{
	bool		stable_tids;	/* it cannot: a table of ours */
	LsmTombstones tombstones;
	uint32		nstale;			/* dead entries read before another VACUUM */
	Buffer		interlock;		/* metapage, pinned to keep VACUUM from
								 * freeing TIDs */
} ScanDead;

/* index_only.c */
typedef struct ScanIndexOnly
{
	bool		guarded;		/* entries are trusted as long as the stamp holds */
	bool		serializable;	/* the transaction is */
	LsmStamp	stamp;			/* taken before the cursor was positioned */
	uint64		walk;			/* its number, from 1 */
	LsmKnownBlocks *known;		/* NULL until needed */
	Buffer		vm_buffer;
	IndexFetchTableData *fetch; /* of tables that are not ours; NULL until
								 * needed */
	TupleTableSlot *slot;
} ScanIndexOnly;

/* A member for each file that looks after something of a scan. */
typedef struct LsmScan
{
	LsmKeySpec *spec;			/* own_spec */
	LsmTree    *tree;			/* NULL until the first tuple is asked for */
	LsmCursor  *cursor;
	MemoryContext context;		/* lives as long as the scan */
	MemoryContext key_context;	/* of the quals; reset by each rescan */
	MemoryContext entry_context;	/* reset for each entry looked at; may be
									 * NULL */
	MemoryContext tuple_context;	/* of xs_hitup; may be NULL */
	LsmRowForm *row_form;	/* how rows are written from entries; NULL:
									 * they are not */

	bool		prepared;		/* quals are up to date */
	uint64	   *searches;		/* how often the cursor was put somewhere */
	uint64		own_searches;	/* that, if nobody asks */
	LsmQuals	quals;
	LsmLabels	labels;

	ScanPosition position;
	ScanPosition mark;
	LsmSlice	uncopied;		/* len > 0: what position.current should be, in
								 * the batch */
	ScanDirection direction;	/* of the cursor */
	bool		reposition;		/* cursor is not at `current` */

	ScanAhead	ahead;
	bool		in_groups;		/* = ANY: points are looked for together, forward */
	LsmPoints  *points;			/* NULL until needed */

	/*
	 * Entries are to be returned in the order of values, and that of codes is
	 * another one (groups.c).
	 */
	bool		sorts;
	LsmGroups  *groups;			/* NULL until needed */

	LsmSharedScan *shared;		/* NULL: the scan is this process's alone */
	LsmScanUnit unit;

	ScanWalk	walk;
	ScanSkip	skip;
	StringInfoData seek;		/* scratch; data NULL until needed, like the
								 * mark's */

	uint64		leading;		/* lsm_index_leading() */
	uint32		leading_columns;	/* of these */

	ScanOneRow	one_row;
	ScanPresent present;
	ScanDead	dead;
	ScanIndexOnly index_only;

	LsmKeySpec	own_spec;		/* the last, for it ends with its columns */
} LsmScan;

/* ---- scans of what is there now (present.c) ---- */

/* Before a scan begins. */
extern void lsm_present_prepare(IndexScanDesc scan);

/* The row is returned.  REQUIRES: so->present.wanted. */
extern void lsm_present_note(LsmScan *so, const ItemPointerData *tid);

/* Has a former pass returned it? */
extern bool lsm_present_was_returned(const LsmScan *so, const ItemPointerData *tid);

/* The scan is at its end: must it begin once more? */
extern bool lsm_present_again(IndexScanDesc scan);

/* ---- walks (walk.c) ---- */

static inline LsmSlice
lsm_buffer_slice(const StringInfoData *buf)
{
	return lsm_slice(buf->data, buf->len);
}

/* Some buffers are needed by few scans. */
static inline StringInfo
lsm_scan_buffer(LsmScan *so, StringInfo buf)
{
	if (buf->data == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(so->context);

		lsm_buffer_init(buf, 64);
		MemoryContextSwitchTo(old);
	}
	return buf;
}

/* The scan stands at the entry with this key. */
static inline void
lsm_stand_at(LsmScan *so, LsmSlice key)
{
	StringInfo	current = &so->position.current;

	so->uncopied.len = 0;
	if (unlikely(key.len >= (uint32) current->maxlen))
	{
		resetStringInfo(current);
		enlargeStringInfo(current, key.len);
	}
	memcpy(current->data, key.data, key.len);
	current->len = key.len;
}

/* Before position.current is read, or the batch is filled again */
static inline void
lsm_copy_current(LsmScan *so)
{
	if (so->uncopied.len > 0)
		lsm_stand_at(so, so->uncopied);
}

extern void lsm_walk_open_cursor(LsmScan *so);

/* so->cursor is there from now on. */
static inline void
lsm_walk_need_cursor(LsmScan *so)
{
	if (so->cursor == NULL)
		lsm_walk_open_cursor(so);
}

/* The cursor is about to be put elsewhere. */
extern void lsm_walk_drop_batch(LsmScan *so);

/*
 * Put the cursor before the first entry, as seen in the direction, that begins
 * with `prefix`; or, `beyond`, right behind the last one.
 */
extern void lsm_walk_seek(LsmScan *so, LsmSlice prefix, bool beyond,
						  ScanDirection direction);

/* Put the cursor right behind this key. */
extern void lsm_walk_seek_key(LsmScan *so, LsmSlice key, ScanDirection direction);

/* Is the key beyond the walk's end in the direction? */
extern bool lsm_walk_is_beyond(LsmScan *so, LsmSlice key, ScanDirection direction);

/*
 * The walk's bounds as keys: from `low` to before `high` (empty: no bound).
 * Copies in the current memory context.
 */
extern void lsm_walk_ends(LsmScan *so, LsmSlice *low, LsmSlice *high);

/* The walk's next entry, in the order of codes, that matches the quals. */
extern bool lsm_walk_step(LsmScan *so, ScanDirection direction, LsmSlice *key,
						  LsmSlice *value);

/*
 * The walk's next entry is alone in its group, as is seen from the batch's next
 * entries.  REQUIRES: so->ahead.plain.
 */
extern bool lsm_groups_step_alone(LsmGroups *groups, LsmSlice *key, LsmSlice *value);

/*
 * Is the walk's next entry, in the cursor's direction, in a batch whose entries
 * are all in the walk and match?  Then it is taken from there.
 */
static inline bool
lsm_walk_step_plain(LsmScan *so, LsmSlice *key, LsmSlice *value)
{
	if (!so->ahead.plain || so->ahead.next >= so->ahead.batch->n)
		return false;
	if (unlikely(so->sorts))
		return lsm_groups_step_alone(so->groups, key, value);
	lsm_batch_entry(so->ahead.batch, so->ahead.next++, key, value);
	return true;
}

/* ---- the prefix (prefix.c) ---- */

/*
 * Complete the quals: choose the prefix, or take the one of `most` columns that
 * another process has chosen (-1: none has).  What is needed for that lives in
 * the current memory context.
 */
extern void lsm_prefix_prepare(LsmScan *so, int most);

/* ---- skip.c ---- */

/*
 * The walk's last entry, with this key, did not match.  True: it goes on before
 * the first entry, as seen in the direction, that begins with so->skip.target, or,
 * `*beyond`, right behind the last one.
 */
extern bool lsm_walk_missed(LsmScan *so, ScanDirection direction, LsmSlice key,
							bool *beyond);

/* The walk's last entry matched. */
extern void lsm_walk_matched(LsmScan *so);

/* ---- scans by several processes (parallel_scan.c) ---- */

/* NULL: the scan is this process's alone */
extern LsmSharedScan *lsm_shared_scan(IndexScanDesc scan);

/*
 * True: the caller makes the units, once the quals are prepared.  False: they
 * are made, and so->labels are those of the process that has made them.
 */
extern bool lsm_shared_scan_begin(LsmScan *so);

/* Columns of the prefix that the units are made of.  REQUIRES: they are made. */
extern int	lsm_shared_scan_prefix(const LsmScan *so);

/*
 * Are walks split?  Then lsm_shared_scan_add_walk() is called for each, in
 * order, with its bounds set and a cursor; else lsm_shared_scan_add_all().
 */
extern bool lsm_shared_scan_splits(const LsmScan *so);
extern void lsm_shared_scan_add_walk(LsmScan *so);
extern void lsm_shared_scan_add_all(LsmScan *so);
extern void lsm_shared_scan_publish(LsmScan *so);

/*
 * Take the next unit, which is in so->unit then; position.point is its first
 * walk in the direction.  False: there are no more.
 */
extern bool lsm_shared_scan_next(LsmScan *so, ScanDirection direction);

/* ---- values of a large group, in order (value_sort.c) ---- */

typedef struct LsmValueSort LsmValueSort;

/* In the order of the operator, a type's < or >; the caller ends it. */
extern LsmValueSort *lsm_value_sort_begin(MemoryContext parent, Oid type, Oid op,
										  Oid collation);

/* REQUIRES: no two are equal; not yet performed. */
extern void lsm_value_sort_put(LsmValueSort *sort, Datum value, bool isnull);
extern void lsm_value_sort_perform(LsmValueSort *sort);

/* The next one, valid until the end; NULL is the last.  False: there is none. */
extern bool lsm_value_sort_next(LsmValueSort *sort, Datum *value, bool *isnull);
extern void lsm_value_sort_end(LsmValueSort *sort);

/* ---- groups (groups.c) ---- */

extern LsmGroups *lsm_groups_create(LsmScan *so, Relation index);

/* What the groups of the scan are, after its quals were prepared; false: none. */
extern bool lsm_groups_prepare(LsmGroups *groups);

/* A walk begins, the cursor is at its beginning; or the scan is over. */
extern void lsm_groups_reset(LsmGroups *groups);

/* The walk's next entry that matches, in the order of values. */
extern bool lsm_groups_step(LsmGroups *groups, ScanDirection direction, LsmSlice *key,
							LsmSlice *value);

/* Go on behind this entry, or where it has been. */
extern void lsm_groups_restart(LsmGroups *groups, LsmSlice key, ScanDirection direction);

/* ---- kill.c ---- */

/*
 * The row of the entry in position.current is dead to everyone.  A mark may be
 * on it; that is only a key.
 */
extern void lsm_kill_entry(IndexScanDesc scan, ItemPointer tid);

/* Delete what has been collected. */
extern void lsm_write_killed(LsmScan *so);

/* ---- one_row.c ---- */

/*
 * Set so->one_row.unique (each combination of points has one row at most that the
 * snapshot sees) and so->one_row.try_directory.  REQUIRES: quals prepared.
 */
extern void lsm_prepare_one_row(IndexScanDesc scan);

/* Is the index one of columns, none of them an expression, and of all rows? */
extern bool lsm_index_is_plain(Relation index);

/*
 * The row of the key in so->walk.lower, if the directory knows it and the snapshot
 * sees it.  REQUIRES: so->one_row.try_directory, so->one_row.probe is of this key.
 */
extern bool lsm_directory_find(IndexScanDesc scan, ItemPointer tid);

#ifdef USE_ASSERT_CHECKING
/* A gap hides the entry: its row is dead to everyone.  `arg`: the scan. */
extern void lsm_doubt_gap(void *arg, LsmSlice key);

/* The scan ends with the row that it has returned last. */
extern void lsm_doubt_one_row(IndexScanDesc scan);
#endif

/* ---- index-only scans (index_only.c, index_row.c) ---- */

/*
 * Before the cursor reads anything: entries read later than this stamp are
 * to be trusted as long as the counter stands (lsm_guard_entry).
 */
extern void lsm_guard_take_stamp(LsmScan *so);
extern bool lsm_guard_block(IndexScanDesc scan, BlockNumber block);

/*
 * Does the snapshot see the row?  It is in so->index_only.slot then, if `look` wants its
 * columns and the table is ours; the executor, who asks for the same row next, gets
 * what has been found, unless there are several versions for him.  *dead, unless NULL: it is dead to everyone.
 */
extern bool lsm_look_at_row(IndexScanDesc scan, ItemPointer tid, LsmLook look, bool *dead);
extern bool lsm_guard_entry(IndexScanDesc scan, ItemPointer tid, bool *dead);

static inline bool
lsm_guard_knows(const LsmScan *so, BlockNumber block)
{
	const LsmKnownBlocks *word;

	if (so->index_only.known == NULL || so->index_only.serializable)
		return false;
	word = &so->index_only.known[(block / LSM_BLOCKS_PER_WORD) % LSM_KNOWN_WORDS];
	return word->number == block / LSM_BLOCKS_PER_WORD && word->walk == so->index_only.walk &&
		((word->bits >> (block % LSM_BLOCKS_PER_WORD)) & 1) != 0;
}

/* The row of an entry that is believed without a look is one that is seen. */
static inline void
lsm_doubt_bit(IndexScanDesc scan, ItemPointer tid)
{
	LSM_DOUBT(((LsmScan *) scan->opaque)->dead.stable_tids,
			  lsm_table_doubt_visible(scan->heapRelation, tid, scan->xs_snapshot, true,
									  "lsm_guard_block()"));
}

/*
 * Build the row of index columns that an index-only scan returns: prepare
 * first.  False: it is the planner's scan for the least or greatest value, and
 * the value is longer than it can take.
 */
extern void lsm_form_prepare(IndexScanDesc scan);
extern bool lsm_form_index_tuple(IndexScanDesc scan, LsmSlice key, LsmSlice value);

/*
 * The same columns as values, none of which is NULL; what they point to is good
 * until the next row.  False: lsm_form_index_tuple() has to be asked.
 */
extern bool lsm_form_values(LsmScan *so, LsmSlice key, LsmSlice value, Datum *values);

#endif							/* LSM_INDEX_SCAN_H */
