/*-------------------------------------------------------------------------
 *
 * slow_reader.h
 *	  What a memtable or a file has, without anything that makes it fast: for
 *	  second_opinion.c, in builds with assertions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SLOW_READER_H
#define LSM_SLOW_READER_H

#include "tree/read/version.h"

typedef enum LsmSlowKind
{
	LSM_SLOW_POINT,				/* filter key `high`, from `low` on */
	LSM_SLOW_KEY,				/* the key `low` */
	LSM_SLOW_PREFIXES,			/* from `low` to the last that begins with `high` */
	LSM_SLOW_BEFORE				/* from `low` to before `high` */
} LsmSlowKind;

typedef struct LsmSlowRange
{
	LsmSlowKind kind;
	LsmSlice	low;
	LsmSlice	high;
} LsmSlowRange;

static inline LsmSlowRange
lsm_slow_point(LsmSlice filter_key)
{
	return (LsmSlowRange) {LSM_SLOW_POINT, filter_key, filter_key};
}

static inline LsmSlowRange
lsm_slow_key(LsmSlice key)
{
	return (LsmSlowRange) {LSM_SLOW_KEY, key, key};
}

/*
 * 0: the key is in the range; 1: to be passed over; -1: beyond it.  REQUIRES:
 * not before it.
 */
extern int	lsm_slow_place(const LsmTree *tree, const LsmSlowRange *range, LsmSlice key);

/* The first node in the range, and the next one; NULL: none. */
extern LsmMemNode *lsm_slow_first_node(const LsmTree *tree, LsmMemtable *memtable,
									   const LsmSlowRange *range);
extern LsmMemNode *lsm_slow_next_node(const LsmTree *tree, LsmMemtable *memtable,
									  const LsmSlowRange *range, LsmMemNode *node);

/* Is this the key's node still? */
extern bool lsm_slow_still_there(const LsmTree *tree, LsmMemtable *memtable, LsmMemNode *node);

/*
 * Whatever was in the memtable when the call began is there for all who look.
 * False: who knows.
 */
extern bool lsm_slow_writers_end(LsmMemtable *memtable);

/*
 * An iterator of the slow reader's own, good until the next call for another
 * file; NULL: the file cannot be read.
 */
extern LsmSstIter *lsm_slow_open(const LsmTree *tree, const LsmFile *file);

/* Put the iterator at the first key that is not less.  False: unreadable. */
extern bool lsm_slow_iter_from(LsmSstIter *iter, const LsmFile *file, LsmSlice low);

/*
 * *found: the iterator, or NULL, if the file has nothing in the range.  False:
 * unreadable.
 */
extern bool lsm_slow_first_entry(const LsmTree *tree, const LsmFile *file,
								 const LsmSlowRange *range, LsmSstIter **found);

static inline LsmSlice
lsm_slow_iter_key(LsmSstIter *iter)
{
	size_t		bytes;
	const void *data = lsm_sst_iter_key(iter, &bytes);

	return lsm_slice(data, (uint32) bytes);
}

#endif							/* LSM_SLOW_READER_H */
