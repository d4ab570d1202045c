/*-------------------------------------------------------------------------
 *
 * reads.h
 *	  Part of tree.h: lookups of a key, cursors and batches, second opinions
 *	  about their answers, and keys that cut a range into pieces.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_READS_H
#define LSM_TREE_READS_H

#ifndef LSM_TREE_H
#error "tree/tree.h includes this header"
#endif

/* ---- lookups (candidates.c, lookup.c) ---- */

/*
 * A point lookup's key and its digest, computed once and reused by the
 * memtables and every filter.  With lsm.hash_sharing off every filter asked
 * counts a digest, and all but the first compute it anew.
 */
typedef struct LsmProbe
{
	LsmSlice	filter_key;		/* points to the caller's memory */
	LsmDigest	digest;
	bool		shared;			/* filters use it, too */

	/* what lsm_tree_multi_lookup() has asked already */
	bool		asked;			/* some filter, of whatever version */
	uint64		filters_version;			/* serial of the version; 0: none */
	uint32		maybe_runs;		/* bit i: the filter of run i was asked and does not object */
	uint32		unprobed_runs;		/* bit i: run i is to be asked still */
} LsmProbe;

/*
 * Counts one lookup (and its digest if shared: else filters count theirs).
 * `filter_key`: the TID of a table tree; the encoded columns, without TID, of
 * an index tree.
 */
extern void lsm_probe_begin(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key);

/*
 * The digest for who asks before or between filters, and counts as one of them:
 * without sharing all but the first compute it anew.
 */
extern LsmDigest lsm_probe_take_digest(LsmTree *tree, LsmProbe *probe);

/* Begins a probe whose digest (lsm_lock_digest) the caller has already. */
extern void lsm_probe_begin_hashed(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key,
								   LsmDigest digest);

/* Begins n probes whose filter_key is set. */
extern void lsm_probe_begin_group(LsmTree *tree, LsmProbe *probes, int n);

/*
 * Fetch ahead what a lookup of the key will need of the memtables.  For a
 * caller that has something else to do before that lookup.
 */
extern void lsm_tree_prefetch(LsmTree *tree, LsmSlice filter_key, LsmDigest digest);

/*
 * True: no entry has the filter key; the memtables' digest indexes and the
 * files' filters all say so.  False: an entry may have it.  Then a cursor will
 * tell, and only the filter probes of that cursor are counted.
 */
extern bool lsm_tree_definitely_absent(LsmTree *tree, const LsmProbe *probe);

/* Most keys for lsm_tree_multi_lookup() */
#define LSM_GROUP_KEYS	32

/*
 * Whether n keys are absent, at once: all fences, then all prefetches, then the
 * filters, so that the waits for memory overlap.  absent[i]: key i is surely
 * absent.  For the other keys, the probes keep what the filters have said: a
 * later lookup or cursor asks no filter again as long as the list of files is
 * the same.  What such a lookup reads first is fetched ahead.  Returns how
 * many keys are absent.
 */
extern int	lsm_tree_multi_lookup(LsmTree *tree, LsmProbe *probes, int n, bool *absent);

/*
 * Of a key with VERSIONs, those are wanted that are not older than the newest one
 * of which this is true.  It is asked of VERSIONs alone, newest first, inside the
 * epoch, perhaps more than once of one; it reads the element and writes nothing
 * to a tree.  NULL in place of it: all are wanted.
 */
typedef struct LsmEnough
{
	bool		(*is) (void *arg, LsmSlice element);
	void	   *arg;
} LsmEnough;

struct LsmStamp;

/*
 * Newest complete value of `key`: a PUT, or VERSIONs with what they are newer
 * than, as far as `enough` says (NULL: all), see chain.h.  Replaces the content
 * of `value` (tag byte first).  False: no such key, a deleted one, or a PARTIAL
 * without a row.  *stamp: as by lsm_stamp_take(), before the value is read; NULL:
 * none, as it has to be but in table trees.
 * REQUIRES: probe begun with the key's filter key.
 */
extern bool lsm_tree_get_until(LsmTree *tree, LsmSlice key, const LsmProbe *probe,
							   const LsmEnough *enough, StringInfo value,
							   struct LsmStamp *stamp);

/*
 * How many values the last lookup of this backend had to put together, those that
 * turned out to mean nothing among them; 0 or 1 of a lone one.
 */
extern int	lsm_tree_folded(const LsmTree *tree);

/* The same, of all versions, and without a stamp. */
static inline bool
lsm_tree_get(LsmTree *tree, LsmSlice key, const LsmProbe *probe, StringInfo value)
{
	return lsm_tree_get_until(tree, key, probe, NULL, value, NULL);
}

/* ---- cursors (cursor.c, batch.c) ---- */

typedef struct LsmCursor LsmCursor;

/* Allocated in the current memory context. */
extern LsmCursor *lsm_cursor_open(LsmTree *tree);
extern void lsm_cursor_close(LsmCursor *cursor);

/*
 * Until the next call: the caller wants nothing but entries whose keys begin
 * with `leading`, the bytes of so many leading columns (of
 * LsmTreeOptions.leading), so that others may be left out.  Filters that know
 * leading columns are asked with one digest, which is computed here.  0 columns:
 * all entries, as at the beginning.  To be followed by a seek unless the limit
 * is what it was.
 */
extern void lsm_cursor_limit(LsmCursor *cursor, LsmSlice leading, uint32 columns);

/*
 * Until the next call: which VERSIONs of each key are wanted, as from
 * lsm_tree_get_until().  NULL: all, as at the beginning.  The cursor keeps the
 * pointer.
 */
extern void lsm_cursor_enough(LsmCursor *cursor, const LsmEnough *enough);

/*
 * Position before the first entry >= key (forward) or after the last entry
 * <= key (backward); with `after`, strictly beyond it.  Empty key (len 0):
 * the very first / very last entry.  The next lsm_cursor_step() in
 * either direction returns the entry on that side.  Drops a prefix set before.
 */
extern void lsm_cursor_seek(LsmCursor *cursor, LsmSlice key, bool after,
							ScanDirection direction);

/*
 * Point mode of an index: only entries whose filter key is probe->filter_key,
 * filters consulted with the probe's digest.  Positioned before the first.
 * The probe's key is copied.
 */
extern void lsm_cursor_seek_point(LsmCursor *cursor, const LsmProbe *probe);

/* As seek_point, but positioned after the last entry. */
extern void lsm_cursor_seek_point_last(LsmCursor *cursor, const LsmProbe *probe);

/*
 * A new cursor reads nothing but memtables.  What was in one when the scan
 * began is found there or, once the scan is over, in a sorted file.
 */
extern void lsm_cursor_memory_only(LsmCursor *cursor);

/*
 * From now on the cursor of an index may pass over keys of which it is known
 * that they have no entry.  Not for who must find entries of dead rows, too.
 */
extern void lsm_cursor_pass_gaps(LsmCursor *cursor);

/*
 * Next entry in the direction; false at the end (a later step in the other
 * direction returns the last entry again).  Newest value of each key, merged;
 * DELETEs are skipped, PARTIALs without a row too.  key and value point to the
 * cursor's memory, good until its next call.
 */
extern bool lsm_cursor_step(LsmCursor *cursor, ScanDirection direction,
							LsmSlice *key, LsmSlice *value);

/* Most entries of a batch, and the bytes after which it is full */
#define LSM_BATCH_ENTRIES	64
#define LSM_BATCH_BYTES		(32 * 1024)

/*
 * Entries copied by one call.  The caller owns it and initializes bytes,
 * headroom (bytes left free before each value) and aligned (the byte of each
 * value that lies at a multiple of 8 bytes).
 */
typedef struct LsmBatch
{
	int			n;
	uint32		headroom;
	uint32		aligned;
	StringInfoData bytes;
	LsmSstEntry entries[LSM_BATCH_ENTRIES]; /* offsets into bytes */
} LsmBatch;

static inline void
lsm_batch_entry(const LsmBatch *batch, int i, LsmSlice *key, LsmSlice *value)
{
	*key = lsm_slice(batch->bytes.data + batch->entries[i].key_offset,
					 batch->entries[i].key_bytes);
	*value = lsm_slice(batch->bytes.data + batch->entries[i].value_offset,
					   batch->entries[i].value_bytes);
}

/*
 * Replace the batch's content by copies of the next entries in the direction, at
 * least one and at most max_entries, up to the last that begins with `limit`
 * (empty: without end); false: there is none.  The entries are those at some
 * moment during the call, and the cursor stands at the last of them.  For
 * readers that may take an entry's older state: MVCC snapshots.
 */
extern bool lsm_cursor_fill(LsmCursor *cursor, ScanDirection direction, LsmSlice limit,
							int max_entries, LsmBatch *batch);

/* ---- second opinions (second_opinion.c) ---- */

#ifdef USE_ASSERT_CHECKING

extern int	lsm_second_opinion; /* one in this many answers is derived again */

/* Is the answer one of these? */
extern bool lsm_opinion_due(void);

/* `call` asks for a second opinion, if what it doubts is claimed at all. */
#define LSM_DOUBT(claimed, call) \
	do { if ((claimed) && lsm_opinion_due()) (call); } while (0)

/* The end: `what` is so, and the shortcut has said something else. */
pg_noreturn extern void lsm_opinion_differ(const LsmTree *tree, const char *shortcut, LsmSlice key,
										   const char *what);

/*
 * The slow reader: as lsm_tree_get(), with *found in place of its result; false:
 * something could not be read.  REQUIRES, as those below: outside of epochs.
 */
extern bool lsm_opinion_read(LsmTree *tree, LsmSlice key, StringInfo value, bool *found);

/*
 * False: files of a job may be readable that has not changed the set's stamp
 * yet.  True: the stamp has changed since the version became what it was when
 * this was called.
 */
extern bool lsm_opinion_version_settled(const LsmTree *tree);

/* The tree has an entry of the key. */
extern void lsm_opinion_entry(LsmTree *tree, LsmSlice key, const char *shortcut);

/*
 * Copies of the keys of all entries with the filter key, deleted ones, too, at
 * most `max`: a key may come more than once.  In the current memory context.
 */
extern int	lsm_opinion_keys(LsmTree *tree, LsmSlice filter_key, LsmSlice *keys, int max);

/*
 * The cursor may pass over the entries of rows that are dead to everyone, for
 * they may come back after they were pruned (gaps.c): `doubt` is to be told of
 * those that a gap hides, and knows whether they are such.
 */
extern void lsm_cursor_doubt_gaps(LsmCursor *cursor, void (*doubt) (void *arg, LsmSlice key),
								  void *arg);

#else
#define LSM_DOUBT(claimed, call)	((void) 0)
#endif

/* ---- fences (fences.c) ---- */

/*
 * Keys that cut the tree's entries from `low` up to `high` (empty: from the
 * first, to the last) into pieces of about the same size, each of at least
 * min_bytes as far as that is known: at most max_fences of them, ascending, in
 * the current memory context.  They need not be keys of the tree; who opens the
 * tree later gets others.
 */
extern int	lsm_tree_fences(LsmTree *tree, LsmSlice low, LsmSlice high,
							int max_fences, uint64 min_bytes, LsmSlice *fences);

#endif							/* LSM_TREE_READS_H */
