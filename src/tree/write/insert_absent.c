/*-------------------------------------------------------------------------
 *
 * insert_absent.c
 *	  Inserting many keys at once, if they are absent.
 *
 * For one key, the inserter of a unique index takes a stamp, looks for the
 * key, begins the write, locks the key and inserts if the stamp holds.  Here
 * every one of these steps is done for all keys before the next: what a look
 * at the digest index or at a filter will need arrives while the others are
 * prepared, and the entries share log records.
 *
 * Two equal keys of one call would not see each other: the second ends the
 * call.
 *
 * Locking: key locks in the order of their partitions, held from the
 * comparison of the stamps until all entries are in.  Nothing waits under them
 * but for buffers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/memtable/keyset.h"
#include "tree/memtable/memtable.h"
#include "tree/read/candidates.h"
#include "tree/read/cursor.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

/*
 * Rounds before the rest is left to the caller: someone writes the same
 * partitions
 */
#define MAX_ROUNDS	4

#define MET_BITS	1024

/* Keys whose filters are on their way while one is looked at */
#define AHEAD	8

/* Keys of one call that are absent, as far as is known */
typedef struct AbsentKeys
{
	int			n;				/* of the caller's entries, the first so many */
	LsmEntry	entries[LSM_MAX_ABSENT];
	LsmKeySet	keys;
} AbsentKeys;

static bool
has_digest(const LsmKeySet *keys, LsmDigest digest)
{
	for (int i = 0; i < keys->n; i++)
	{
		if (keys->digests[i] == digest)
			return true;
	}
	return false;
}

/* The entries before the first that has the filter key of another one. */
static void
collect(LsmTree *tree, const LsmEntry *entries, int n, AbsentKeys *absent)
{
	LsmKeySet  *keys = &absent->keys;
	LsmSlice	before = lsm_slice(NULL, 0);
	bool		ascending = true;
	uint64		met[MET_BITS / 64] = {0};	/* digests, by some of their bits */

	for (keys->n = 0; keys->n < n; keys->n++)
	{
		LsmSlice	filter_key = lsm_filter_key(tree, entries[keys->n].key);
		LsmDigest	digest = lsm_lock_digest(filter_key);
		uint64	   *word = &met[digest % MET_BITS / 64];
		uint64		bit = UINT64CONST(1) << digest % 64;

		/* as long as each is greater than the one before, all differ */
		ascending = ascending &&
			(keys->n == 0 || lsm_slice_compare(before, filter_key) < 0);
		if (!ascending && (*word & bit) != 0 && has_digest(keys, digest))
			break;
		*word |= bit;
		keys->digests[keys->n] = digest;
		before = filter_key;
	}
	absent->n = keys->n;
}

/*
 * Does everything that is there lie before the first or behind the last of the
 * keys?  So it is with rows that come in the order of their keys, and one look
 * will do for all.  Filter keys of different lengths are not dealt with: what
 * begins with a shorter one may lie between longer ones.
 */
static bool
range_is_vacant(LsmTree *tree, const LsmEntry *entries, int n, const LsmMemtableSet *set,
				LsmVersion *version)
{
	LsmSlice	low = lsm_filter_key(tree, entries[0].key);
	LsmSlice	high = low;

	for (int i = 1; i < n; i++)
	{
		LsmSlice	filter_key = lsm_filter_key(tree, entries[i].key);

		if (filter_key.len != low.len)
			return false;
		if (memcmp(filter_key.data, high.data, low.len) > 0)
			high = filter_key;
		else if (memcmp(filter_key.data, low.data, low.len) < 0)
			low = filter_key;
	}
	for (int t = 0; t < set->n; t++)
	{
		if (lsm_memtable_may_hold_between(set->tables[t], low, high))
			return false;
	}
	if (lsm_version_may_hold_between(version, low, high))
		return false;
	LSM_DOUBT(true, lsm_opinion_vacant(tree, set, version, low, high, "range_is_vacant()"));
	return true;
}

/* Fetch what next_suspect() will look at.  The lookup is not counted yet. */
static void
announce(LsmTree *tree, const LsmMemtableSet *set, LsmVersion *version, LsmSlice filter_key,
		 LsmDigest digest, LsmProbe *probe, LsmCandidates *files)
{
	*probe = (LsmProbe) {.filter_key = filter_key,.digest = digest,.shared = true};
	lsm_probe_prefetch_memtables(tree, set, probe);
	lsm_filecache_begin();
	lsm_candidates_begin(files, tree, version, probe, filter_key);
	lsm_candidates_find(files);
}

/*
 * The first of the keys, from `from` on, that memtables and filters do not
 * rule out; absent->n: none.
 */
static int
next_suspect(LsmTree *tree, const LsmEntry *entries, const AbsentKeys *absent, int from)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	LsmProbe	probes[AHEAD];
	LsmCandidates files[AHEAD];
	int			announced = from;
	int			at = from;

	if (from == 0 && range_is_vacant(tree, entries, absent->n, &set, version))
	{
		lsm_count(tree, LSM_COUNT_LOOKUPS, absent->n);
		at = absent->n;
	}
	for (; at < absent->n; at++)
	{
		for (; announced < Min(at + AHEAD, absent->n); announced++)
			announce(tree, &set, version, lsm_filter_key(tree, entries[announced].key),
					 absent->keys.digests[announced], &probes[announced % AHEAD],
					 &files[announced % AHEAD]);
		lsm_probe_begin_hashed(tree, &probes[at % AHEAD], lsm_filter_key(tree, entries[at].key),
							   absent->keys.digests[at]);
		lsm_filecache_begin();
		if (!lsm_definitely_absent_in(&set, &files[at % AHEAD]))
			break;
	}
	lsm_tree_exit(tree);
	return at;
}

/* Has any entry the filter key of this one? */
static bool
is_there(LsmTree *tree, const LsmEntry *entry, LsmDigest digest)
{
	LsmCursor  *cursor = lsm_cursor_open(tree);
	LsmProbe	probe;
	LsmSlice	key;
	LsmSlice	value;
	bool		found;

	lsm_probe_begin_hashed(tree, &probe, lsm_filter_key(tree, entry->key), digest);
	lsm_cursor_seek_point(cursor, &probe);
	found = lsm_cursor_step(cursor, ForwardScanDirection, &key, &value);
	lsm_cursor_close(cursor);
	return found;
}

/*
 * Keep those before the first that is there.  Of 64 random keys, filters say
 * of one or two that they may be there, and are wrong: to end with these would
 * leave the others for another call.  REQUIRES: stamps taken before.
 */
static void
look(LsmTree *tree, const LsmEntry *entries, AbsentKeys *absent)
{
	int			kept = 0;

	while (kept < absent->n)
	{
		kept = next_suspect(tree, entries, absent, kept);
		if (kept == absent->n || is_there(tree, &entries[kept], absent->keys.digests[kept]))
			break;
		kept++;
	}
	absent->n = absent->keys.n = kept;
}

/*
 * False: something was written under the locks meanwhile, or the files have
 * changed.
 */
static bool
insert(LsmTree *tree, const LsmEntry *entries, AbsentKeys *absent)
{
	LsmWrite	write;
	bool		holds;

	for (int i = 0; i < absent->n; i++)
	{
		absent->entries[i] = entries[i];
		absent->entries[i].digest = absent->keys.digests[i];
		absent->entries[i].hashed = true;
		absent->entries[i].probably_new = true;
	}
	lsm_write_begin(tree, &write, absent->entries, absent->n);
	holds = lsm_keyset_lock(tree, &absent->keys);
	if (holds)
		lsm_write_apply(&write);
	lsm_keyset_unlock(&absent->keys, holds);
	if (!holds)
		lsm_write_cancel(&write);
	return holds;
}

int
lsm_write_if_absent(LsmTree *tree, const LsmEntry *entries, int n)
{
	AbsentKeys	absent;

	Assert(n <= LSM_MAX_ABSENT);
	for (int round = 0; round < MAX_ROUNDS; round++)
	{
		collect(tree, entries, n, &absent);
		lsm_keyset_take(tree, &absent.keys);
		look(tree, entries, &absent);
		if (absent.n == 0 || insert(tree, entries, &absent))
			return absent.n;
	}
	return 0;
}
