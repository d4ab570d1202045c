/*-------------------------------------------------------------------------
 *
 * merge.h
 *	  Values of one key from several places, newest first, folded into one; and
 *	  the merge of whole files that compaction runs on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MERGE_H
#define LSM_MERGE_H

#include "tree/read/version.h"

/* ---- fold ---- */

typedef struct LsmFold
{
	const LsmKindOps *ops;
	StringInfo	value;			/* result so far, tag first */
	int			tag;			/* LsmTag of it; 0: nothing yet */
	int			last_tag;		/* unless that is PUT or DELETE: of its last
								 * element ... */
	int			last;			/* ... which begins there, in a CHAIN with its
								 * length */
	const LsmEnough *enough;	/* or NULL: of VERSIONs all are wanted */
	bool		complete;
	bool		disordered;		/* values come in any order: all of them count */
	int			nelements;		/* how many were added, but for a lone PUT */
	int			ndeltas;		/* DELTAs in the result that nothing has
								 * restored yet */
} LsmFold;

static inline void
lsm_fold_begin(LsmFold *fold, const LsmKindOps *ops, StringInfo value)
{
	fold->ops = ops;
	fold->value = value;
	fold->tag = 0;
	fold->enough = NULL;
	fold->complete = false;
	fold->disordered = false;
	fold->nelements = 0;
	fold->ndeltas = 0;
}

/* No older value can change the result, or none is wanted. */
static inline bool
lsm_fold_complete(const LsmFold *fold)
{
	return fold->complete;
}

/* lsm_fold_add(), whatever the value is. */
extern bool lsm_fold_add_value(LsmFold *fold, LsmSlice older);

/*
 * Add the next older value.  A PUT or DELETE is the end, a VERSION is so only if
 * it is enough; what is older is strung behind it.  A PARTIAL is completed by what
 * comes next, so none stands before another element.  Over a DELETE it has lost
 * its row: what remains is the DELETE, so that it goes on hiding what is below.
 * A DELTA becomes a VERSION when what it differs from comes; until then no VERSION
 * is enough.  REQUIRES: not complete.  Returns whether it is now.
 */
static inline bool
lsm_fold_add(LsmFold *fold, LsmSlice older)
{
	int			tag = lsm_value_tag(older);

	Assert(!lsm_fold_complete(fold));

	/* nearly all are the first, and the last */
	if (fold->tag != 0 || (tag != LSM_TAG_PUT && tag != LSM_TAG_DELETE) ||
		unlikely(fold->disordered))
		return lsm_fold_add_value(fold, older);
	resetStringInfo(fold->value);
	lsm_buffer_append(fold->value, older.data, older.len);
	fold->tag = tag;
	fold->complete = true;
	return true;
}

/* See lsm_fold_end(); of a VERSION, DELTA or CHAIN, or of values in no order. */
extern bool lsm_fold_end_versions(LsmFold *fold);

/*
 * There is nothing older, for a reader: a PARTIAL at the end of a CHAIN has lost
 * its row and goes, as does a DELETE there.  True: a row is left.  A DELTA that is
 * left has come to nothing, with what it differs from.
 */
static inline bool
lsm_fold_end(LsmFold *fold)
{
	return likely(fold->tag == LSM_TAG_PUT) ||
		(unlikely(fold->tag >= LSM_TAG_VERSION) && lsm_fold_end_versions(fold));
}

/* Adds a memtable's value, and the older ones behind it. */
extern bool lsm_fold_add_memvalue(LsmFold *fold, LsmMemValue *value);

/* ---- which source is next ---- */

/*
 * The present entry of one of the sources of a merge.  Of two, the one with the
 * smaller word comes first; where words are the same, keys are compared.  In
 * random order branches on words would be mispredicted, so all are looked at,
 * without any: for the ten sources or so that there are, this is faster than a
 * tree of losers.
 */
typedef struct LsmMergeEntry
{
	uint64		word;			/* of what has no entry: all ones */
	LsmSlice	key;
	bool		valid;			/* there is one */
} LsmMergeEntry;

/*
 * Which of n entries, `stride` bytes apart, has the smallest word, and the
 * smallest of the others.  REQUIRES: n > 0.
 */
static pg_attribute_always_inline int
lsm_merge_least(const LsmMergeEntry *entries, size_t stride, int n, uint64 *word, uint64 *next)
{
	int			first = 0;

	*word = *next = PG_UINT64_MAX;
	for (int i = 0; i < n; i++)
	{
		uint64		other = ((const LsmMergeEntry *) ((const char *) entries + i * stride))->word;
		uint64		larger = Max(other, *word);

		first = other < *word ? i : first;
		*word = Min(other, *word);
		*next = Min(*next, larger);
	}
	return first;
}

/*
 * Several have that word, or perhaps none has an entry: which of them have the
 * first key, in order.  Returns their number; *differ: others with the word have
 * another key.
 */
extern int	lsm_merge_ties(const LsmMergeEntry *entries, size_t stride, int n, uint64 word,
						   bool forward, int *ties, bool *differ);

/* ---- merge of files, forward ---- */

/* Files with disjoint ranges in key order, to be read one after the other */
typedef struct LsmSequence
{
	int			nfiles;
	LsmFile   **files;
} LsmSequence;

typedef struct LsmMerge LsmMerge;

/*
 * Reads the sequences (newest first) with readers of its own; everything is
 * closed with the current memory context.  The files must not be
 * unlinked meanwhile, or only by the caller.
 */
extern LsmMerge *lsm_merge_open(LsmTree *tree, const LsmSequence *sequences,
								int nsequences);

/*
 * Next key and its folded value (a PARTIAL, or a CHAIN with one at its end, if
 * nothing completes that); good until the next call.
 */
extern bool lsm_merge_next(LsmMerge *merge, LsmSlice *key, LsmSlice *value);

/* Entries of the files that have been left behind. */
extern uint64 lsm_merge_entries(const LsmMerge *merge);

#endif							/* LSM_MERGE_H */
