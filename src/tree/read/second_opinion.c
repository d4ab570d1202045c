/*-------------------------------------------------------------------------
 *
 * second_opinion.c
 *	  Answers of shortcuts, derived again from all memtables and all files of a
 *	  version as the slow reader reads them (slow_reader.c).  In builds with
 *	  assertions, one in lsm.second_opinion of the answers that say "not here",
 *	  "dead" or "same" comes here, and a difference ends the server, with the
 *	  name of the shortcut and the key.
 *
 * Why there is no false alarm
 *	- The caller is inside the epoch in which he has taken set and version, and
 *	  has made his answer from these.  Nothing of them goes away meanwhile.
 *	- Files do not change.  One that has been removed from the tree since may be
 *	  unlinked or truncated, if the version is an older one of a job: what cannot
 *	  be read has no opinion.  Nor has a version from which files are missing
 *	  (salvaged).
 *	- A memtable gets new entries at any time.  What the slow reader finds there
 *	  may have come after the answer, or may be half in: in the skiplist, but
 *	  neither in the range nor in the digest index yet.  So a difference counts
 *	  only like this: the slow reader has found a node; then the memtable was
 *	  seen without registered writers (redo registers, too), so that the node's
 *	  insertion is over; then the shortcut was asked again, and said the same as
 *	  before; then the slow reader has found the same node again, which was there
 *	  all the time, for in an epoch no node comes back at the same address.  If
 *	  writers do not end, as one that is held, or the caller himself, there is no
 *	  opinion.  Of values, which change in place, the same is asked: that both
 *	  slow readings have met the same values in memtables.
 *	- lsm_opinion_entry() reads once: what it is asked about is an entry of a row
 *	  that the caller's snapshot sees, or that the caller has just replaced, which
 *	  was there before the call and stays.
 *
 * Locking: none.  The wait for writers (two seconds at most) happens inside the
 * caller's epoch.  A registered writer does not wait for epochs: one that finds
 * no memory unregisters first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/memtable/memtable.h"
#include "tree/read/cursor.h"
#include "tree/read/filecache.h"
#include "tree/read/second_opinion.h"
#include "tree/read/slow_reader.h"
#include "tree/read/version.h"

#ifdef USE_ASSERT_CHECKING

/* Entries of a gap that are looked at */
#define GAP_ENTRIES		1000

/* In a run of more files only one position in this many is doubted */
#define MANY_FILES		64
#define MANY_ONE_IN		16

int			lsm_second_opinion = 0;

bool
lsm_opinion_due(void)
{
	static uint32 answers = 0;

	return lsm_second_opinion > 0 && ++answers % lsm_second_opinion == 0;
}

/* ======================================================================
 * Differences
 * ====================================================================== */

static char *
key_text(LsmSlice key)
{
	StringInfoData text;

	initStringInfo(&text);
	for (uint32 i = 0; i < Min(key.len, 300); i++)
		appendStringInfo(&text, "%02x", (unsigned char) key.data[i]);
	appendStringInfo(&text, " (%u bytes)", key.len);
	return text.data;
}

/* See reads.h. */
void
lsm_opinion_differ(const LsmTree *tree, const char *shortcut, LsmSlice key, const char *what)
{
	ereport(PANIC,
			(errmsg_internal("second opinion: %s is wrong about key %s of relation %u: %s",
							 shortcut, key_text(key), tree->relid, what)));
	pg_unreachable();
}

static void
differ_by_file(const LsmTree *tree, const char *shortcut, LsmSlice key, const LsmFile *file)
{
	lsm_opinion_differ(tree, shortcut, key,
		   psprintf("file " UINT64_FORMAT " of level %d has it", file->number, file->level));
}

static void
files_have_none(const LsmTree *tree, const LsmRun *run, int first, int end, const LsmSlowRange *range,
				const char *shortcut)
{
	for (int at = first; at < end; at++)
	{
		LsmSstIter *iter;

		if (lsm_slow_first_entry(tree, &run->files[at], range, &iter) && iter != NULL)
			differ_by_file(tree, shortcut, lsm_slow_iter_key(iter), &run->files[at]);
	}
}

static void
version_has_none(const LsmTree *tree, const LsmVersion *version, const LsmSlowRange *range,
				 const char *shortcut)
{
	if (version->salvaged)
		return;
	for (int i = 0; i < version->nruns; i++)
		files_have_none(tree, &version->runs[i], 0, version->runs[i].nfiles, range, shortcut);
}

/* ======================================================================
 * Nothing is there
 * ====================================================================== */

void
lsm_opinion_absent(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
				   const LsmProbe *probe, const char *shortcut)
{
	LsmSlowRange		range = lsm_slow_point(probe->filter_key);
	LsmDigest	digest = lsm_memtable_digest(tree, probe->filter_key,
											 lsm_digest_key(probe->filter_key.data,
															probe->filter_key.len));

	for (int i = 0; i < set->n; i++)
	{
		LsmMemtable *memtable = set->tables[i];
		LsmMemNode *node = lsm_slow_first_node(tree, memtable, &range);

		if (node != NULL && lsm_slow_writers_end(memtable) &&
			!lsm_memtable_has_digest(memtable, digest, probe->filter_key) &&
			lsm_slow_still_there(tree, memtable, node))
			lsm_opinion_differ(tree, shortcut, lsm_memnode_key(node), "a memtable has it");
	}
	version_has_none(tree, version, &range, shortcut);
}

void
lsm_opinion_vacant(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
				   LsmSlice low, LsmSlice high, const char *shortcut)
{
	LsmSlowRange		range = {LSM_SLOW_PREFIXES, low, high};

	for (int i = 0; i < set->n; i++)
	{
		LsmMemtable *memtable = set->tables[i];
		LsmMemNode *node = lsm_slow_first_node(tree, memtable, &range);

		if (node != NULL && lsm_slow_writers_end(memtable) &&
			!lsm_memtable_may_hold_between(memtable, low, high) &&
			lsm_slow_still_there(tree, memtable, node))
			lsm_opinion_differ(tree, shortcut, lsm_memnode_key(node), "a memtable has it");
	}
	version_has_none(tree, version, &range, shortcut);
}

void
lsm_opinion_bottom(LsmTree *tree, const LsmRun *const *runs, int n, LsmSlice key)
{
	LsmSlowRange		range = lsm_slow_key(key);

	for (int i = 0; i < n; i++)
		files_have_none(tree, runs[i], 0, runs[i]->nfiles, &range, "job_at_bottom()");
}

/* ======================================================================
 * Values
 * ====================================================================== */

/*
 * Which values of memtables an answer was made of, or may have been: of a node the
 * newest, and a digest of where the older ones are that count
 */
typedef struct Basis
{
	int			n;
	LsmMemValue *newest[1 + LSM_MAX_SEALED];
	uint64		below[1 + LSM_MAX_SEALED];
} Basis;

static void
basis_add(Basis *basis, LsmMemValue *newest)
{
	uint64		below = 0;

	for (LsmMemValue *value = newest; value != NULL;)
	{
		value = lsm_memvalue_older(value);
		below = below * 31 + (uintptr_t) value;
	}
	basis->newest[basis->n] = newest;
	basis->below[basis->n++] = below;
}

/* Add what the files have; false: one of them cannot be read. */
static bool
fold_files(const LsmTree *tree, const LsmVersion *version, const LsmSlowRange *range, LsmFold *fold)
{
	for (int i = 0; i < version->nfiles; i++)
	{
		const LsmFile *file = lsm_version_file(version, i);
		LsmSstIter *iter;
		const void *data;
		size_t		bytes;

		if (!lsm_slow_first_entry(tree, file, range, &iter))
			return false;
		if (iter == NULL)
			continue;
		data = lsm_sst_iter_value(iter, &bytes);
		if (lsm_fold_add(fold, lsm_slice(data, (uint32) bytes)))
			break;
	}
	return true;
}

/* Add what the memtables have. */
static void
fold_memtables(const LsmTree *tree, const LsmMemtableSet *set, const LsmSlowRange *range,
			   LsmFold *fold, Basis *basis)
{
	memset(basis, 0, sizeof(*basis));
	for (int i = 0; i < set->n && !lsm_fold_complete(fold); i++)
	{
		LsmMemNode *node = lsm_slow_first_node(tree, set->tables[i], range);
		LsmMemValue *newest = node != NULL ? lsm_memnode_value(node) : NULL;

		if (newest == NULL)
			continue;
		basis_add(basis, newest);
		(void) lsm_fold_add_memvalue(fold, newest);
	}
}

/* The key's value, into *fold; false: no opinion. */
static bool
slow_get(LsmTree *tree, const LsmMemtableSet *set, const LsmVersion *version, LsmSlice key,
		 const LsmEnough *enough, LsmFold *fold, StringInfo value, Basis *basis)
{
	LsmSlowRange		range = lsm_slow_key(key);
	bool		known = true;

	resetStringInfo(value);
	lsm_fold_begin(fold, tree->ops, value);
	fold->enough = enough;
	fold_memtables(tree, set, &range, fold, basis);
	if (!lsm_fold_complete(fold))
		known = fold_files(tree, version, &range, fold);
	(void) lsm_fold_end(fold);
	return known;
}

/* A key without an entry has no value, a DELETE, or PARTIALs without a row. */
static bool
same_result(const LsmFold *a, const LsmFold *b)
{
	if (!lsm_tag_is_row(a->tag) || !lsm_tag_is_row(b->tag))
		return lsm_tag_is_row(a->tag) == lsm_tag_is_row(b->tag);
	return a->value->len == b->value->len &&
		memcmp(a->value->data, b->value->data, a->value->len) == 0;
}

static bool
set_settles(const LsmMemtableSet *set)
{
	for (int i = 0; i < set->n; i++)
	{
		if (!lsm_slow_writers_end(set->tables[i]))
			return false;
	}
	return true;
}

void
lsm_opinion_value(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version,
				  LsmSlice key, const LsmFold *fold, LsmOpinionAgain again, void *arg,
				  const char *shortcut)
{
	const LsmEnough *enough = fold->enough;
	StringInfoData values[3];
	LsmFold		slow;
	LsmFold		slow_again;
	LsmFold		fast;
	Basis		basis;
	Basis		before;

	if (version->salvaged)
		return;
	for (int i = 0; i < lengthof(values); i++)
		initStringInfo(&values[i]);
	if (!slow_get(tree, set, version, key, enough, &slow, &values[0], &basis) ||
		same_result(&slow, fold))
		goto agreed;
	for (int i = 0; i < 100; i++)
	{
		if (!set_settles(set) ||
			!slow_get(tree, set, version, key, enough, &slow, &values[0], &before))
			goto agreed;
		resetStringInfo(&values[1]);
		lsm_fold_begin(&fast, tree->ops, &values[1]);
		fast.enough = enough;
		again(arg, &fast);
		(void) lsm_fold_end(&fast);
		if (same_result(&slow, &fast))
			goto agreed;
		if (!slow_get(tree, set, version, key, enough, &slow_again, &values[2], &basis))
			goto agreed;
		if (memcmp(&basis, &before, sizeof(basis)) == 0 && same_result(&slow, &slow_again))
			lsm_opinion_differ(tree, shortcut, key,
				   psprintf("its value has tag %d and %d bytes, and not tag %d and %d bytes",
							slow.tag, values[0].len, fast.tag, values[1].len));
	}
agreed:
	for (int i = 0; i < lengthof(values); i++)
		pfree(values[i].data);
}

/* What is flushed is in a file, too: only an active memtable can tell. */
void
lsm_opinion_whole(LsmTree *tree, LsmSlice key)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	LsmSlowRange		range = lsm_slow_key(key);
	LsmMemNode *node = NULL;
	StringInfoData value;
	LsmFold		fold;
	Basis		basis;

	initStringInfo(&value);
	pg_read_barrier();
	if (set.n > 0 && set.tables[0] == *(LsmMemtable *volatile *) &tree->ctl->memory.active &&
		pg_atomic_read_u64(&tree->ctl->memory.set_stamp) == set.stamp && !version->salvaged)
		node = lsm_slow_first_node(tree, set.tables[0], &range);
	if (node != NULL && lsm_memnode_is_whole(node))
	{
		set.n--;
		memmove(set.tables, set.tables + 1, set.n * sizeof(LsmMemtable *));
		if (slow_get(tree, &set, version, key, NULL, &fold, &value, &basis) && lsm_tag_is_row(fold.tag))
			lsm_opinion_differ(tree, "lsm_tree_prune()", key, "an older entry lies below the one that goes");
	}
	lsm_tree_exit(tree);
	pfree(value.data);
}

/* See reads.h. */
bool
lsm_opinion_read(LsmTree *tree, LsmSlice key, StringInfo value, bool *found)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	LsmFold		fold;
	Basis		basis;
	bool		known = !version->salvaged &&
		slow_get(tree, &set, version, key, NULL, &fold, value, &basis);

	*found = known && lsm_tag_is_row(fold.tag);
	lsm_tree_exit(tree);
	return known;
}

/* See reads.h. */
bool
lsm_opinion_version_settled(const LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	uint64		version_no = pg_atomic_read_u64(&ctl->files.version_no);

	return version_no == pg_atomic_read_u64(&ctl->files.settled_version);
}

/* See reads.h. */
void
lsm_opinion_entry(LsmTree *tree, LsmSlice key, const char *shortcut)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	StringInfoData value;
	LsmFold		fold;
	Basis		basis;

	initStringInfo(&value);
	if (!version->salvaged &&
		slow_get(tree, &set, version, key, NULL, &fold, &value, &basis) && !lsm_tag_is_row(fold.tag))
		lsm_opinion_differ(tree, shortcut, key, "it has no entry");
	lsm_tree_exit(tree);
	pfree(value.data);
}

/* The keys of the range that were found in memtables and files */
typedef struct Keys
{
	int			n;
	int			max;
	LsmSlice   *keys;
} Keys;

static void
keys_add(Keys *keys, LsmSlice key)
{
	char	   *copy = palloc(key.len);

	memcpy(copy, key.data, key.len);
	keys->keys[keys->n++] = lsm_slice(copy, key.len);
}

static void
keys_of_memtable(const LsmTree *tree, LsmMemtable *memtable, const LsmSlowRange *range, Keys *keys)
{
	LsmMemNode *node = lsm_slow_first_node(tree, memtable, range);

	for (; node != NULL && keys->n < keys->max; node = lsm_slow_next_node(tree, memtable, range, node))
		keys_add(keys, lsm_memnode_key(node));
}

static void
keys_of_file(const LsmTree *tree, const LsmFile *file, const LsmSlowRange *range, Keys *keys)
{
	LsmSstIter *iter;
	LsmSstError err;

	if (!lsm_slow_first_entry(tree, file, range, &iter))
		return;
	while (iter != NULL && lsm_sst_iter_valid(iter) && keys->n < keys->max)
	{
		int			place = lsm_slow_place(tree, range, lsm_slow_iter_key(iter));

		if (place < 0)
			break;
		if (place == 0)
			keys_add(keys, lsm_slow_iter_key(iter));
		if (lsm_sst_iter_next(iter, &err) != LSM_SST_OK)
			break;
	}
}

static void
keys_of_range(const LsmTree *tree, const LsmMemtableSet *set, const LsmVersion *version,
			  const LsmSlowRange *range, Keys *keys)
{
	for (int i = 0; i < set->n; i++)
		keys_of_memtable(tree, set->tables[i], range, keys);
	for (int i = 0; i < version->nfiles; i++)
		keys_of_file(tree, lsm_version_file(version, i), range, keys);
}

/* See reads.h. */
int
lsm_opinion_keys(LsmTree *tree, LsmSlice filter_key, LsmSlice *keys, int max)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	LsmSlowRange		range = lsm_slow_point(filter_key);
	Keys		found = {0, max, keys};

	keys_of_range(tree, &set, version, &range, &found);
	lsm_tree_exit(tree);
	return found.n;
}

/* Is the key, for good, in a gap and in the tree? */
static bool
gap_hides(LsmTree *tree, const LsmMemtableSet *set, const LsmVersion *version, LsmSlice key,
		  StringInfo value)
{
	LsmGapKey	behind;
	LsmFold		fold;
	Basis		basis;

	return slow_get(tree, set, version, key, NULL, &fold, value, &basis) &&
		lsm_tag_is_row(fold.tag) && set_settles(set) &&
		lsm_gaps_find(tree, key, &behind) &&
		slow_get(tree, set, version, key, NULL, &fold, value, &basis) &&
		lsm_tag_is_row(fold.tag);
}

/* See reads.h. */
void
lsm_cursor_doubt_gaps(LsmCursor *cursor, void (*doubt) (void *arg, LsmSlice key), void *arg)
{
	cursor->doubt_gap = doubt;
	cursor->doubt_gap_arg = arg;
}

void
lsm_opinion_gap(LsmCursor *cursor, LsmSlice low, const LsmGapKey *high)
{
	LsmTree    *tree = cursor->tree;
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	LsmSlowRange range = {LSM_SLOW_BEFORE, low, lsm_slice(high->data, high->len)};
	Keys		keys = {0, GAP_ENTRIES, palloc(GAP_ENTRIES * sizeof(LsmSlice))};
	StringInfoData value;
	int			nhidden = 0;

	initStringInfo(&value);
	keys_of_range(tree, &set, version, &range, &keys);
	for (int i = 0; i < keys.n; i++)
	{
		if (!version->salvaged && gap_hides(tree, &set, version, keys.keys[i], &value))
			keys.keys[nhidden++] = keys.keys[i];
		else
			pfree(unconstify(char *, keys.keys[i].data));
	}
	lsm_tree_exit(tree);
	for (int i = 0; i < nhidden; i++)
	{
		if (cursor->doubt_gap == NULL)
			lsm_opinion_differ(tree, "lsm_gaps_find()", keys.keys[i], "it has an entry");
		cursor->doubt_gap(cursor->doubt_gap_arg, keys.keys[i]);
		pfree(unconstify(char *, keys.keys[i].data));
	}
	pfree(keys.keys);
	pfree(value.data);
}

/* ======================================================================
 * Cursors
 * ====================================================================== */

static const LsmSource *
source_of_memtable(const LsmCursor *cursor, const LsmMemtable *memtable)
{
	for (int i = 0; i < cursor->nsources; i++)
	{
		if (cursor->sources[i].memtable == memtable)
			return &cursor->sources[i];
	}
	return NULL;
}

static const LsmSource *
source_of_file(const LsmCursor *cursor, const LsmRun *run, int at)
{
	for (int i = 0; i < cursor->nsources; i++)
	{
		const LsmSource *source = &cursor->sources[i];

		if (source->memtable == NULL && source->run == run &&
			source->first <= at && at <= source->last)
			return source;
	}
	return NULL;
}

static bool
has_key(LsmMemNode **nodes, int n, LsmSlice key)
{
	for (int i = 0; i < n; i++)
	{
		if (lsm_slice_compare(lsm_memnode_key(nodes[i]), key) == 0)
			return true;
	}
	return false;
}

/* Does the digest index leave the node out once more? */
static bool
left_out_again(const LsmCursor *cursor, LsmMemtable *memtable, LsmMemNode *node)
{
	LsmMemNode *found[LSM_MEMTABLE_MAX_SAME];
	const LsmProbe *probe = &cursor->probe;
	int			n;

	if (!lsm_slow_writers_end(memtable))
		return false;
	n = lsm_memtable_find_all(memtable,
							  lsm_memtable_digest(cursor->tree, probe->filter_key, probe->digest),
							  probe->filter_key, found);
	return n >= 0 && !has_key(found, n, lsm_memnode_key(node)) &&
		lsm_slow_still_there(cursor->tree, memtable, node);
}

void
lsm_opinion_points(LsmCursor *cursor, bool forward, bool asked_now)
{
	const LsmTree *tree = cursor->tree;
	const LsmVersion *version = cursor->version;
	LsmSlowRange		range = lsm_slow_point(cursor->probe.filter_key);

	/* a gap may have moved the place where filters are asked */
	if (forward && asked_now)
		range.low = lsm_slice(cursor->key.data, cursor->key.len);
	for (int i = 0; i < cursor->set.n; i++)
	{
		LsmMemtable *memtable = cursor->set.tables[i];
		const LsmSource *source = source_of_memtable(cursor, memtable);
		LsmMemNode *node;

		if (source != NULL && source->points == NULL)
			continue;
		for (node = lsm_slow_first_node(tree, memtable, &range); node != NULL;
			 node = lsm_slow_next_node(tree, memtable, &range, node))
		{
			if (source != NULL && has_key(source->points, source->npoints, lsm_memnode_key(node)))
				continue;
			if (left_out_again(cursor, memtable, node))
				lsm_opinion_differ(tree, "lsm_source_find_points()", lsm_memnode_key(node),
					   "a memtable has it");
		}
	}
	for (int i = 0; i < version->nruns && !version->salvaged; i++)
	{
		for (int at = 0; at < version->runs[i].nfiles; at++)
		{
			if (source_of_file(cursor, &version->runs[i], at) == NULL)
				files_have_none(tree, &version->runs[i], at, at + 1, &range,
								"build_point()");
		}
	}
}

void
lsm_opinion_limit(LsmCursor *cursor)
{
	LsmSlice	limit = cursor->limit.filter_key;
	const LsmVersion *version = cursor->version;
	LsmSlowRange		range = {LSM_SLOW_PREFIXES, limit, limit};

	for (int i = 0; i < version->nruns && !cursor->memory_only && !version->salvaged; i++)
	{
		for (int at = 0; at < version->runs[i].nfiles; at++)
		{
			if (source_of_file(cursor, &version->runs[i], at) == NULL)
				files_have_none(cursor->tree, &version->runs[i], at, at + 1, &range,
								"add_limited_files()");
		}
	}
}

/* What comes next to the cursor's place in the file; false: nothing. */
static bool
next_in_file(const LsmCursor *cursor, const LsmFile *file, bool forward, LsmSlice *key)
{
	LsmSstIter *iter = lsm_slow_open(cursor->tree, file);
	LsmSlice	place = lsm_slice(cursor->key.data, cursor->key.len);
	LsmSstError err;
	bool		itself = cursor->side == (forward ? LSM_BEFORE_KEY : LSM_AFTER_KEY);

	if (iter == NULL)
		return false;
	if (forward ? !lsm_slow_iter_from(iter, file, place) :
		lsm_sst_iter_seek_last(iter, place.data, place.len, &err) != LSM_SST_OK)
		return false;
	if (!itself && lsm_sst_iter_valid(iter) && lsm_slice_compare(lsm_slow_iter_key(iter), place) == 0 &&
		(forward ? lsm_sst_iter_next(iter, &err) : lsm_sst_iter_prev(iter, &err)) != LSM_SST_OK)
		return false;
	if (!lsm_sst_iter_valid(iter))
		return false;
	*key = lsm_slow_iter_key(iter);
	return true;
}

void
lsm_opinion_position(LsmCursor *cursor, const LsmSource *source, bool forward)
{
	static uint32 questions = 0;
	LsmSlice	key;

	if (cursor->point || cursor->unbounded || cursor->version->salvaged ||
		(source->last - source->first > MANY_FILES && ++questions % MANY_ONE_IN != 0))
		return;
	for (int at = source->first; at <= source->last; at++)
	{
		int			c;

		if (!next_in_file(cursor, &source->run->files[at], forward, &key))
			continue;
		c = source->entry.valid ? lsm_slice_compare(key, source->entry.key) : 0;
		if (!source->entry.valid || (forward ? c < 0 : c > 0))
			differ_by_file(cursor->tree, "files_position()", key, &source->run->files[at]);
	}
}

#endif							/* USE_ASSERT_CHECKING */
