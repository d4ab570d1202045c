/*-------------------------------------------------------------------------
 *
 * cursor.h
 *	  What a cursor consists of: shared by cursor.c (positions, the life cycle),
 *	  batch.c (the merge) and source.c (one memtable or run that takes part).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CURSOR_H
#define LSM_CURSOR_H

#include "tree/control/gaps.h"
#include "tree/read/candidates.h"
#include "tree/read/merge.h"

/* Entries of a source of files that were copied before they are wanted */
typedef struct LsmAhead
{
	int			n;
	int			at;				/* present entry */
	bool		taken;			/* the iterator stands at the last of them; else
								 * at the first behind */
	bool		common;			/* all of them begin as the cursor's words suppose */
	char	   *bytes;
	LsmSstEntry entries[LSM_BATCH_ENTRIES]; /* offsets into bytes */
} LsmAhead;

static inline LsmSlice
lsm_ahead_key(const LsmAhead *ahead, int i)
{
	return lsm_slice(ahead->bytes + ahead->entries[i].key_offset, ahead->entries[i].key_bytes);
}

/* Of a chunk's copies */
#define LSM_AHEAD_BYTES		(8 * 1024)

/* Shorter entries are copied as if they had this length: no loop, no branch. */
#define LSM_SHORT_BYTES		32

StaticAssertDecl(LSM_SHORT_BYTES >= LSM_SST_KEY_SLACK, "keys have readable bytes behind them");

typedef struct LsmSource
{
	LsmMergeEntry entry;		/* present one */
	bool		consumed;		/* folded into the last result */

	/* a memtable ... */
	LsmMemtable *memtable;		/* NULL: a source of files */
	LsmMemNode *node;			/* present entry */
	LsmMemNode *before;			/* forward: last node passed, NULL: none;
								 * equal to node right after an exact seek */
	LsmMemNode **points;		/* all nodes of a point range in order, or
								 * NULL: the memtable's order is asked */
	int			npoints;
	int			at_point;		/* present entry */
	LsmMemNode **back;			/* backward: the next nodes, for this call */
	int			nback;
	int			at_back;
	int			back_level;		/* how high up the next search for them ends */

	/* ... or files first..last of a run */
	const LsmRun *run;
	int			first;
	int			last;
	bool		asked;			/* its filter has admitted the cursor's limit,
								 * and what came of that is not counted yet */
	int			at;				/* file that is open */
	LsmOpenFile *open;			/* NULL: none */
	LsmSstIter *iter;
	bool		alternates;		/* few entries were taken at a time */
	LsmAhead   *ahead;			/* NULL: the present entry is the iterator's */
} LsmSource;

#define LSM_COMMON_BYTES	256

typedef enum LsmCursorSide
{
	LSM_BEFORE_KEY,				/* in the gap before it */
	LSM_AT_KEY,					/* it was the last entry returned */
	LSM_AFTER_KEY				/* in the gap behind it */
} LsmCursorSide;

struct LsmCursor
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	LsmTree    *tree;

	/* what the sources are made of */
	LsmTreeShared *ctl;
	LsmMemtableSet set;
	LsmVersion *version;		/* pinned, or NULL */

	/* position; an unbounded one is BEFORE everything or AFTER everything */
	LsmCursorSide side;
	bool		unbounded;
	StringInfoData key;

	const LsmEnough *enough; /* which VERSIONs are wanted, or NULL */

	bool		memory_only;	/* no files among the sources */

	/*
	 * Forward: entries skipped since the last one returned or the seek, where
	 * that was, and what is being found out about the keys from there on.
	 */
	bool		passes_gaps;	/* and may begin behind them */
	bool		sought;			/* no entry has been read since the seek */
	int			skipped;
	int			skipped_in;		/* how many entries the batch had then */
	LsmCursorSide run_side;
	StringInfoData run_start;	/* data NULL until needed */
	uint64		watch;			/* gaps.h; 0: none */
#ifdef USE_ASSERT_CHECKING
	void		(*doubt_gap) (void *arg, LsmSlice key);
	void	   *doubt_gap_arg;
#endif

	/* point mode: probe.filter_key points to filter_key */
	bool		point;
	bool		asked;			/* filters were asked since the seek */
	LsmProbe	probe;
	StringInfoData filter_key;

	/* limit.filter_key points to limit_key; 0 columns: there is no limit */
	uint32		limit_columns;
	LsmProbe	limit;
	StringInfoData limit_key;

	bool		built;			/* sources fit set, version and mode */
	bool		positioned;		/* ... and stand at the position ... */
	bool		forward;		/* ... in this direction */
	int			nsources;
	int			max_sources;
	LsmSource  *sources;		/* newest first */
	LsmMemNode **points;		/* room for CURSOR_FEW_POINTS of each memtable */
	LsmMemNode **many_points;	/* or, once needed, for as many as there can be */
	LsmMemNode **back;			/* room for each memtable's nodes backward */
	int		   *ties;
	LsmAhead  **aheads;			/* of the sources with the same number; NULL until
								 * needed */
	int			max_aheads;

	/*
	 * What words of entries are behind (lsm_cursor_word): most keys around here
	 * begin with it.
	 */
	uint32		common_bytes;
	char		common[LSM_COMMON_BYTES];
	uint64		flip;			/* all ones backward */
	LsmSlice	end;			/* of this call: what begins with it is the last */
	uint64		end_word;
	StringInfoData value;
	LsmBatch   *one;			/* of a step */
};

/* ---- source.c; all: REQUIRES: inside the epoch the cursor has entered ---- */

/* Most keys are unique, or have a few versions */
#define CURSOR_FEW_POINTS	16

/*
 * Point mode: the entries of the range in the memtable, the nth of the
 * cursor's, if its digest index knows them all.  False: there are none.
 */
extern bool lsm_source_find_points(LsmCursor *cursor, LsmSource *source, int nth);

/* Another one, empty, behind those that there are. */
extern LsmSource *lsm_sources_add(LsmCursor *cursor);

/*
 * All of them go; the next step makes them anew.  Never fails, and needs no
 * epoch.
 */
extern void lsm_sources_drop(LsmCursor *cursor);

/* What the open files have read, before they are given back. */
extern void lsm_sources_count_blocks(LsmCursor *cursor);

/* Gives the iterator back.  Never fails, and needs no epoch. */
extern void lsm_source_close_file(LsmCursor *cursor, LsmSource *source);

/*
 * Stand on the first entry at or behind the cursor's position in the direction.
 */
extern void lsm_source_position(LsmCursor *cursor, LsmSource *source, bool forward);

/* Step past the entry.  Blocks read are left for the caller to count. */
extern void lsm_source_advance(LsmCursor *cursor, LsmSource *source, bool forward);

/* Take the entry to which the caller has moved the iterator. */
extern void lsm_source_take_entry(LsmCursor *cursor, LsmSource *source, bool forward);

/*
 * A memtable, forward only: has something been inserted between the last node
 * passed and the present one?
 */
extern void lsm_source_refresh(LsmCursor *cursor, LsmSource *source);

/*
 * Stand there; the sources are positioned by the next step.  The key may be the
 * cursor's own, shorter or with a byte more.
 */
static inline void
lsm_cursor_put(LsmCursor *cursor, LsmSlice key, LsmCursorSide side)
{
	if (key.data != cursor->key.data)
	{
		resetStringInfo(&cursor->key);
		if (key.len > 0)
			lsm_buffer_append(&cursor->key, key.data, key.len);
	}
	else
	{
		cursor->key.len = key.len;
		enlargeStringInfo(&cursor->key, 1);
	}
	cursor->side = side;
	cursor->unbounded = key.len == 0;
	cursor->positioned = false;
}

/* The value of a source of files */
static inline LsmSlice
lsm_source_file_value(const LsmSource *source)
{
	const LsmAhead *ahead = source->ahead;
	size_t		len;
	const void *data;

	if (ahead != NULL)
		return lsm_slice(ahead->bytes + ahead->entries[ahead->at].value_offset,
						 ahead->entries[ahead->at].value_bytes);
	data = lsm_sst_iter_value(source->iter, &len);
	return lsm_slice(data, (uint32) len);
}

/*
 * Copy entries of a source of files, from its present one on; it stands at the
 * copy then.  False: that one cannot be copied.  Forward only; REQUIRES: nothing
 * has been read ahead.
 */
extern bool lsm_source_read_ahead(LsmCursor *cursor, LsmSource *source, int max_entries,
								  const LsmBatch *batch);

/*
 * The word of a key: of two keys, the one with the smaller word comes first in
 * the cursor's direction, whatever the words are behind.
 */
static inline uint64
lsm_cursor_word(const LsmCursor *cursor, LsmSlice key)
{
	uint32		n = cursor->common_bytes;
	int			c = lsm_bytes_compare(key.data, cursor->common, Min(key.len, n));
	uint64		word = c > 0 ? PG_UINT64_MAX : 0;

	if (likely(c == 0 && key.len >= n))
		word = lsm_word(key.data + n, key.len - n, 0);
	return word ^ cursor->flip;
}

static inline void
lsm_source_take_key(const LsmCursor *cursor, LsmSource *source, LsmSlice key)
{
	source->entry.valid = true;
	source->entry.key = key;
	source->entry.word = lsm_cursor_word(cursor, key);
}

static inline void
lsm_source_take_none(LsmSource *source)
{
	source->entry.valid = false;
	source->entry.word = PG_UINT64_MAX;
}

/*
 * Where this call ends: what begins with `end` is the last; empty: nowhere.  Smaller
 * words are within it.
 */
static inline void
lsm_cursor_set_end(LsmCursor *cursor, LsmSlice end)
{
	cursor->end = end;
	cursor->end_word = lsm_slice_has_prefix(lsm_slice(cursor->common, cursor->common_bytes), end) ?
		PG_UINT64_MAX : lsm_cursor_word(cursor, end);
}

static inline void
lsm_ahead_note_common(const LsmCursor *cursor, LsmAhead *ahead)
{
	LsmSlice	common = lsm_slice(cursor->common, cursor->common_bytes);

	/* what lies between two keys begins as they do */
	ahead->common = lsm_slice_has_prefix(lsm_ahead_key(ahead, 0), common) &&
		lsm_slice_has_prefix(lsm_ahead_key(ahead, ahead->n - 1), common);
}

/* Stand on that one of the entries that were read ahead. */
static inline void
lsm_source_take_ahead(const LsmCursor *cursor, LsmSource *source, int at)
{
	LsmAhead   *ahead = source->ahead;
	uint32		n = cursor->common_bytes;

	ahead->at = at;
	source->entry.key = lsm_ahead_key(ahead, at);
	source->entry.word = unlikely(!ahead->common) ? lsm_cursor_word(cursor, source->entry.key) :
		lsm_word(source->entry.key.data + n, source->entry.key.len - n, 0);
}

/* ---- pass_gap.c; forward only ---- */

/* Entries skipped in a row before a gap is looked for, and then again */
#define LSM_SKIPS_PER_GAP	64

/*
 * The entries to be skipped begin behind the cursor's position, or behind the
 * key, if there is one.
 */
extern void lsm_gap_run_begin(LsmCursor *cursor, const LsmSlice *key);

/*
 * The cursor was just put somewhere, or has skipped many entries: put it behind
 * the gap that it is in, if that is known, or else see that it becomes known.
 * REQUIRES: outside the epoch.
 */
extern void lsm_gap_pass(LsmCursor *cursor);

/*
 * The run of skipped entries has ended before the key; at the end of the tree
 * or of what is wanted, key NULL.  REQUIRES: outside the epoch.
 */
extern void lsm_gap_run_end(LsmCursor *cursor, const LsmSlice *key);

/* Is it time for lsm_gap_pass()? */
static inline bool
lsm_gap_is_due(const LsmCursor *cursor)
{
	return cursor->passes_gaps &&
		(cursor->sought ? !cursor->point && lsm_gaps_any(cursor->tree->ctl) :
		 cursor->skipped >= LSM_SKIPS_PER_GAP && cursor->skipped % LSM_SKIPS_PER_GAP == 0);
}

/* ---- cursor.c ---- */

/*
 * Enter the tree, with set and version current; sources of older ones are
 * dropped.
 */
extern void lsm_cursor_enter(LsmCursor *cursor);

/*
 * Make the sources stand at the position for a step in the direction.
 * REQUIRES: inside the epoch, set and version current.
 */
extern void lsm_cursor_prepare(LsmCursor *cursor, bool forward);

/*
 * Fold the values of the first nties of cursor->ties into cursor->value, up to
 * lsm_fold_end(); the sources are consumed.
 */
extern LsmTag lsm_cursor_fold(LsmCursor *cursor, int nties);

/* ---- cursor_sources.c ---- */

/*
 * What may have entries of the point, or within the limit, or all.  `asking`,
 * which the first build for a point is: filters are asked, and sources are
 * positioned.
 */
extern void lsm_sources_build(LsmCursor *cursor, bool asking, bool forward);

/* The source was positioned after its filter had admitted the limit. */
extern void lsm_limit_outcome(LsmCursor *cursor, LsmSource *source, bool forward);

/* What the open file has read. */
static inline void
lsm_source_count_blocks(LsmCursor *cursor, LsmSource *source)
{
	if (source->open != NULL)
		lsm_file_count_blocks(cursor->tree, source->open);
}

#endif							/* LSM_CURSOR_H */
