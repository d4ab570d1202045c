/*-------------------------------------------------------------------------
 *
 * gaps.c
 *	  Gaps: ranges of keys in which an index has no entry, as far as scans have
 *	  found out.
 *
 * Where rows leave at one end of an index, as those of a queue do, a scan that
 * begins there walks over all entries that are dead and all DELETEs of these,
 * until a compaction has brought the two together: ten thousand of them for
 * one row, again for the next.  So a scan that had to skip many remembers where
 * they end, and the next ones begin there.
 *
 * A gap is [low, high): of no key in it the tree, all its memtables and files
 * merged, has an entry.  That is a fact about the tree, whatever snapshot a
 * scan has.  A compaction does not change it.  An eviction and a load bring back
 * nothing but entries of dead rows that had been pruned (prune.c), and so does a
 * flush that had read them before that.  Only a
 * write can end it, and the writer sees to that before anyone can expect to
 * find the entry, which is when the writer goes on after lsm_write_apply():
 *
 *	writer:	entry into the memtable, barrier, has_gaps read; gaps and watch cut
 *	scan:	watch begins, has_gaps set, barrier; sources positioned; keys read;
 *			gap made from the watch
 *
 * Either the scan's sources have the entry, or the writer finds the watch, or,
 * if the scan was over by then, the gap.  A watch keeps the least key written
 * since it began, and the gap ends before that.  In between, a gap may cover
 * an entry whose writer has not come here yet: of a transaction in progress,
 * which no MVCC snapshot sees, or one that others need not see before the
 * writer has gone on to look for them (exclusion constraints insert first and
 * look afterwards).
 *
 * Only scans use gaps.  Whoever must find dead entries, too (VACUUM, which is to
 * delete those of a TID before it is used again), or compares (lsm_verify) does
 * not (lsm_cursor_pass_gaps).  Neither do standbys: redo does not come here.
 *
 * What is known lives in a small table of its own, one slot for all trees whose
 * ids lead there.  A slot is the tree's if it has the tree's id and the tree's
 * has_gaps is set; has_gaps changes under the slot's lock, but for a control
 * block that gets another keyspace, where it is 0.  Then whoever comes first
 * begins with an empty slot.
 *
 * Locking: a slot's lock, a leaf.  It may be taken inside an epoch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "tree/control/gaps.h"

#define GAP_SLOTS	128
#define GAPS_PER_TREE	8

/* Another tree may have a slot that no scan has asked for so long. */
#define SLOT_IDLE_MS	1000

/* A watch that lasts longer is a scan's that failed, or waits for its client. */
#define WATCH_MS	100

/* This many writes without a scan that asks: the gaps are not worth their keep. */
#define WRITES_UNASKED	100000

typedef struct Gap
{
	LsmGapKey	low;
	LsmGapKey	high;
	uint64		used;			/* the slot's clock when it was last */
} Gap;

typedef struct GapSlot
{
	LWLock		lock;

	/* under the lock */
	uint64		keyspace_id;
	TimestampTz asked;
	uint64		clock;
	int			ngaps;
	Gap			gaps[GAPS_PER_TREE];

	/* the watch; never the same twice, 0: there is none */
	uint64		watch;
	uint64		last_watch;
	TimestampTz watch_start;
	LsmGapKey	watch_low;
	bool		written;		/* since then ... */
	LsmGapKey	written_least;	/* ... the least key */

	pg_atomic_uint32 writes;	/* since a scan asked, about */
} GapSlot;

typedef struct GapsShared
{
	int			tranche;
	GapSlot		slots[GAP_SLOTS];
} GapsShared;

static GapsShared *gaps_shared = NULL;

Size
lsm_gaps_shmem_bytes(void)
{
	return sizeof(GapsShared);
}

/* Create or attach.  REQUIRES: AddinShmemInitLock held. */
void
lsm_gaps_shmem_init(void)
{
	bool		found;

	gaps_shared = ShmemInitStruct("lsmam gaps", lsm_gaps_shmem_bytes(), &found);
	if (!found)
	{
		memset(gaps_shared, 0, sizeof(GapsShared));
		gaps_shared->tranche = LWLockNewTrancheId("lsm_gaps");
		for (int i = 0; i < GAP_SLOTS; i++)
		{
			LWLockInitialize(&gaps_shared->slots[i].lock, gaps_shared->tranche);
			pg_atomic_init_u32(&gaps_shared->slots[i].writes, 0);
		}
	}
}

/* ======================================================================
 * Keys and ranges
 * ====================================================================== */

static inline LsmSlice
key_slice(const LsmGapKey *key)
{
	return lsm_slice(key->data, key->len);
}

static inline int
key_compare(const LsmGapKey *a, const LsmGapKey *b)
{
	return lsm_slice_compare(key_slice(a), key_slice(b));
}

/* A key that is cut comes before the whole one: good for the end of a gap. */
static void
key_set_cut(LsmGapKey *key, LsmSlice from)
{
	key->len = Min(from.len, LSM_GAP_KEY_BYTES);
	memcpy(key->data, from.data, key->len);
}

static inline bool
gap_covers(const Gap *gap, LsmSlice key)
{
	return lsm_slice_compare(key_slice(&gap->low), key) <= 0 &&
		lsm_slice_compare(key, key_slice(&gap->high)) < 0;
}

/* REQUIRES: the slot's lock, exclusive, for this and what follows. */
static void
gap_remove(GapSlot *slot, int i)
{
	slot->gaps[i] = slot->gaps[--slot->ngaps];
}

/* In place of the one that was used least recently, if there are too many */
static void
gap_add(GapSlot *slot, const Gap *gap)
{
	int			oldest = 0;

	if (key_compare(&gap->low, &gap->high) >= 0)
		return;
	if (slot->ngaps < GAPS_PER_TREE)
	{
		slot->gaps[slot->ngaps++] = *gap;
		return;
	}
	for (int i = 1; i < slot->ngaps; i++)
		if (slot->gaps[i].used < slot->gaps[oldest].used)
			oldest = i;
	slot->gaps[oldest] = *gap;
}

/* Together with those that it touches */
static void
gap_unite(GapSlot *slot, Gap *gap)
{
	for (int i = 0; i < slot->ngaps;)
	{
		Gap		   *other = &slot->gaps[i];

		if (key_compare(&other->low, &gap->high) > 0 ||
			key_compare(&gap->low, &other->high) > 0)
		{
			i++;
			continue;
		}
		if (key_compare(&other->low, &gap->low) < 0)
			gap->low = other->low;
		if (key_compare(&other->high, &gap->high) > 0)
			gap->high = other->high;
		gap_remove(slot, i);
		i = 0;					/* it may touch others now */
	}
	gap_add(slot, gap);
}

/*
 * The key has an entry: what was a gap around it is one before and one behind.
 */
static void
gaps_cut(GapSlot *slot, LsmSlice key)
{
	for (int i = slot->ngaps - 1; i >= 0; i--)
	{
		Gap		   *gap = &slot->gaps[i];
		Gap			behind;

		if (!gap_covers(gap, key))
			continue;
		behind = *gap;
		key_set_cut(&gap->high, key);
		if (key_compare(&gap->low, &gap->high) >= 0)
			gap_remove(slot, i);
		if (key.len < LSM_GAP_KEY_BYTES)
		{
			/* the first key behind this one */
			key_set_cut(&behind.low, key);
			behind.low.data[behind.low.len++] = '\0';
			gap_add(slot, &behind);
		}
		return;					/* they do not overlap */
	}
}

/* ======================================================================
 * Slots
 * ====================================================================== */

static inline GapSlot *
slot_of(const LsmTree *tree)
{
	uint32		hash = murmurhash32((uint32) (tree->keyspace_id ^ (tree->keyspace_id >> 32)));

	return &gaps_shared->slots[hash % GAP_SLOTS];
}

/* Not a block that has become another keyspace's */
static inline bool
block_is(LsmTree *tree)
{
	return pg_atomic_read_u64(&tree->ctl->keyspace_id) == tree->keyspace_id;
}

/* REQUIRES: the slot's lock */
static inline bool
slot_is(const GapSlot *slot, LsmTree *tree)
{
	return slot->keyspace_id == tree->keyspace_id && block_is(tree) &&
		lsm_gaps_any(tree->ctl);
}

static void
slot_clear(GapSlot *slot)
{
	slot->ngaps = 0;
	slot->watch = 0;
	pg_atomic_write_u32(&slot->writes, 0);
}

/* A scan uses a gap, or is about to find one. */
static void
slot_asked(GapSlot *slot, TimestampTz now)
{
	slot->asked = now;
	pg_atomic_write_u32(&slot->writes, 0);
}

/* The gap that the key is in, or NULL.  REQUIRES: the slot's lock. */
static Gap *
find_gap(GapSlot *slot, LsmSlice key)
{
	for (int i = 0; i < slot->ngaps; i++)
		if (gap_covers(&slot->gaps[i], key))
			return &slot->gaps[i];
	return NULL;
}

/*
 * Most scans of an index begin elsewhere: they look with the lock shared, and
 * do not count as asking.
 */
bool
lsm_gaps_find(LsmTree *tree, LsmSlice key, LsmGapKey *high)
{
	GapSlot    *slot = slot_of(tree);
	TimestampTz now;
	Gap		   *gap;

	if (!lsm_gaps_any(tree->ctl))
		return false;
	LWLockAcquire(&slot->lock, LW_SHARED);
	gap = slot_is(slot, tree) ? find_gap(slot, key) : NULL;
	LWLockRelease(&slot->lock);
	if (gap == NULL)
		return false;

	now = GetCurrentTimestamp();
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	gap = slot_is(slot, tree) ? find_gap(slot, key) : NULL;
	if (gap != NULL)
	{
		slot_asked(slot, now);
		gap->used = ++slot->clock;
		*high = gap->high;
	}
	LWLockRelease(&slot->lock);
	return gap != NULL;
}

uint64
lsm_gaps_watch(LsmTree *tree, LsmSlice low)
{
	GapSlot    *slot = slot_of(tree);
	TimestampTz now = GetCurrentTimestamp();
	uint64		watch = 0;

	Assert(!tree->ctl->local);
	if (low.len > LSM_GAP_KEY_BYTES)
		return 0;
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (!slot_is(slot, tree) && block_is(tree) &&
		(slot->keyspace_id == tree->keyspace_id ||
		 TimestampDifferenceExceeds(slot->asked, now, SLOT_IDLE_MS)))
	{
		slot_clear(slot);
		slot->keyspace_id = tree->keyspace_id;
		pg_atomic_write_u32(&tree->ctl->has_gaps, 1);
	}
	if (slot_is(slot, tree) &&
		(slot->watch == 0 || TimestampDifferenceExceeds(slot->watch_start, now, WATCH_MS)))
	{
		slot_asked(slot, now);
		watch = slot->watch = ++slot->last_watch;
		slot->watch_start = now;
		key_set_cut(&slot->watch_low, low);
		slot->written = false;
	}
	LWLockRelease(&slot->lock);

	/* sources are positioned after this */
	pg_memory_barrier();
	return watch;
}

/* Its slot, locked and without the watch; NULL: it has come to nothing. */
static GapSlot *
end_watch(LsmTree *tree, uint64 watch)
{
	GapSlot    *slot = slot_of(tree);

	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (slot_is(slot, tree) && slot->watch == watch)
	{
		slot->watch = 0;
		return slot;
	}
	LWLockRelease(&slot->lock);
	return NULL;
}

void
lsm_gaps_learn(LsmTree *tree, uint64 watch, LsmSlice high)
{
	GapSlot    *slot = end_watch(tree, watch);
	Gap			gap;

	if (slot == NULL)
		return;
	gap.low = slot->watch_low;
	key_set_cut(&gap.high, high);
	if (slot->written && key_compare(&slot->written_least, &gap.high) < 0)
		gap.high = slot->written_least;
	gap.used = ++slot->clock;
	if (key_compare(&gap.low, &gap.high) < 0)
		gap_unite(slot, &gap);
	LWLockRelease(&slot->lock);
}

void
lsm_gaps_unwatch(LsmTree *tree, uint64 watch)
{
	GapSlot    *slot = end_watch(tree, watch);

	if (slot != NULL)
		LWLockRelease(&slot->lock);
}

void
lsm_gaps_forget(LsmTree *tree)
{
	GapSlot    *slot = slot_of(tree);

	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (slot_is(slot, tree))
		slot_clear(slot);
	pg_atomic_write_u32(&tree->ctl->has_gaps, 0);
	LWLockRelease(&slot->lock);
}

/* ======================================================================
 * Writers
 * ====================================================================== */

static bool
concerns_watch(const GapSlot *slot, LsmSlice key)
{
	return slot->watch != 0 && lsm_slice_compare(key_slice(&slot->watch_low), key) <= 0 &&
		(!slot->written || lsm_slice_compare(key, key_slice(&slot->written_least)) < 0);
}

/* A DELETE leaves a gap a gap. */
static inline bool
entry_counts(const LsmEntry *entry)
{
	return entry->value.data[0] != LSM_TAG_DELETE;
}

static bool
concerns(GapSlot *slot, const LsmEntry *entries, int n)
{
	for (int i = 0; i < n; i++)
		if (entry_counts(&entries[i]) &&
			(concerns_watch(slot, entries[i].key) || find_gap(slot, entries[i].key) != NULL))
			return true;
	return false;
}

/* REQUIRES: the slot's lock, exclusive. */
static void
note_entries(GapSlot *slot, const LsmEntry *entries, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (!entry_counts(&entries[i]))
			continue;
		if (concerns_watch(slot, entries[i].key))
		{
			key_set_cut(&slot->written_least, entries[i].key);
			slot->written = true;
		}
		gaps_cut(slot, entries[i].key);
	}
}

/*
 * Most writes concern nothing and look with the lock shared.  What they have
 * seen then may not be so any more, so those that do concern something look
 * again.  The slot may have become another tree's: then there is nothing to
 * cut.
 */
void
lsm_gaps_note(LsmTree *tree, const LsmEntry *entries, int n)
{
	GapSlot    *slot = slot_of(tree);
	bool		mine;
	bool		does;

	LWLockAcquire(&slot->lock, LW_SHARED);
	mine = slot_is(slot, tree) &&
		pg_atomic_fetch_add_u32(&slot->writes, 1) < WRITES_UNASKED;
	does = mine && concerns(slot, entries, n);
	LWLockRelease(&slot->lock);
	if (mine && !does)
		return;

	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (!slot_is(slot, tree))
		pg_atomic_write_u32(&tree->ctl->has_gaps, 0);
	else if (pg_atomic_read_u32(&slot->writes) >= WRITES_UNASKED)
	{
		slot_clear(slot);
		pg_atomic_write_u32(&tree->ctl->has_gaps, 0);
	}
	else
		note_entries(slot, entries, n);
	LWLockRelease(&slot->lock);
}
