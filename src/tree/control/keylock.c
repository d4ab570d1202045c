/*-------------------------------------------------------------------------
 *
 * keylock.c
 *	  Short locks on keys, and stamps that tell whether a key may have changed.
 *
 * A fixed number of partitions is shared by all trees; keys that fall into the
 * same partition wait for each other, and a change to one makes the
 * stamps of the others fail, which costs a repetition but no correctness.
 *
 * A stamp is taken without lock, before the key is read.  It holds, under the
 * lock, if since then nobody counted a change of the partition and the tree's
 * set of memtables and files is the same.  A change that its author has
 * applied under the lock but not yet counted when the stamp was taken is
 * counted before the lock can be had, so the stamp fails: never a false
 * "holds".
 *
 * An author who need not check anything changes the key without the lock, and
 * counts the change afterwards (lsm_key_changed).  Such a change may escape a
 * stamp until it is counted.  Why a uniqueness check can do with that:
 * index/unique.c.
 *
 * Locking: the partition lock comes before every other LWLock of src/tree.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "tree/control/control.h"
#include "tree/memtable/keyset.h"
#include "tree/memtable/memtable.h"

#define KEYLOCK_PARTITIONS	4096

/*
 * Two to a cache line, which hardly ever are wanted at the same time: 32 pages
 * of memory in all, of which the TLB keeps more than of four times as many.
 */
typedef union KeyPartition
{
	struct
	{
		LWLock		lock;
		pg_atomic_uint64 counter;	/* changes, under the lock or not */
	}			p;
	char		pad[32];
} KeyPartition;

typedef struct KeylockShared
{
	int			tranche;
	char		pad[PG_CACHE_LINE_SIZE - sizeof(int)];
	KeyPartition partitions[FLEXIBLE_ARRAY_MEMBER];
} KeylockShared;

static KeylockShared *keylocks = NULL;

Size
lsm_keylock_shmem_bytes(void)
{
	return add_size(offsetof(KeylockShared, partitions) + PG_CACHE_LINE_SIZE,
					mul_size(KEYLOCK_PARTITIONS, sizeof(KeyPartition)));
}

/*
 * Create or attach.  REQUIRES: AddinShmemInitLock held.
 */
void
lsm_keylock_shmem_init(void)
{
	bool		found;

	keylocks = (KeylockShared *) ShmemInitStruct("lsmam key locks",
												 lsm_keylock_shmem_bytes(), &found);
	if (!found)
	{
		keylocks->tranche = LWLockNewTrancheId("lsm_key");
		for (int i = 0; i < KEYLOCK_PARTITIONS; i++)
		{
			LWLockInitialize(&keylocks->partitions[i].p.lock, keylocks->tranche);
			pg_atomic_init_u64(&keylocks->partitions[i].p.counter, 0);
		}
	}
}

static inline uint32
keylock_number_in(uint64 keyspace_id, LsmDigest lock_digest)
{
	/* ids are random and digests uniform, but their xor need not be */
	uint64		h = murmurhash32((uint32) (keyspace_id ^ lock_digest)) ^
		(keyspace_id >> 32) ^ (lock_digest >> 32);

	return h % KEYLOCK_PARTITIONS;
}

static inline uint32
keylock_number(const LsmTree *tree, LsmDigest lock_digest)
{
	return keylock_number_in(tree->keyspace_id, lock_digest);
}

static inline KeyPartition *
keylock_partition(const LsmTree *tree, LsmDigest lock_digest)
{
	return &keylocks->partitions[keylock_number(tree, lock_digest)];
}

/*
 * The digest that picks a key's lock.  Not counted as a digest of a lookup: it
 * is computed for writes.
 */
LsmDigest
lsm_lock_digest(LsmSlice filter_key)
{
	return lsm_digest_key(filter_key.data, filter_key.len);
}

/*
 * Take a stamp, before the key is read.  REQUIRES: no lock of src/tree held.
 */
void
lsm_stamp_take(LsmTree *tree, LsmDigest lock_digest, LsmStamp *stamp)
{
	KeyPartition *partition = keylock_partition(tree, lock_digest);

	Assert(!lsm_key_lock_is_held());
	/* a stamp of an unloaded tree would fail as soon as it is read */
	lsm_tree_enter(tree);
	stamp->set_stamp = lsm_set_stamp_read(tree->ctl);
	lsm_tree_exit(tree);
	stamp->key_counter = pg_atomic_read_u64(&partition->p.counter);

	/* what the caller reads, it reads after the stamp */
	pg_memory_barrier();
}

/* Fetch what stamp and lock will need. */
void
lsm_key_prefetch(LsmTree *tree, LsmDigest lock_digest)
{
	__builtin_prefetch(keylock_partition(tree, lock_digest), 1);
}

/*
 * The handle pins the control block as long as the caller uses the tree.  Should
 * the block be another tree's by now, or this one's not loaded: its set_stamp has
 * changed, or will.
 */
bool
lsm_stamp_peek(LsmTree *tree, LsmDigest lock_digest, LsmStamp *stamp)
{
	stamp->set_stamp = pg_atomic_read_u64(&tree->ctl->memory.set_stamp);
	stamp->key_counter = pg_atomic_read_u64(&keylock_partition(tree, lock_digest)->p.counter);

	/* what the caller reads, it reads after the stamp */
	pg_read_barrier();
	return (stamp->set_stamp & 1) == 0;
}

/*
 * A stamp for who has taken the set of memtables and will now read them.  If
 * that has changed since, the stamp fails.
 */
void
lsm_stamp_of_set(LsmTree *tree, LsmDigest lock_digest, uint64 set_stamp, LsmStamp *stamp)
{
	stamp->set_stamp = set_stamp;
	stamp->key_counter = pg_atomic_read_u64(&keylock_partition(tree, lock_digest)->p.counter);
	pg_read_barrier();
}

/*
 * Nothing that waits for another process but an LWLock or page I/O may be done
 * under a key's lock: readers of the same partition would wait along.
 */
bool
lsm_key_lock_is_held(void)
{
	return LWLockAnyHeldByMe(&keylocks->partitions[0].p.lock, KEYLOCK_PARTITIONS,
							 sizeof(KeyPartition));
}

/* This key's */
bool
lsm_key_is_locked(LsmTree *tree, LsmDigest lock_digest)
{
	return LWLockHeldByMeInMode(&keylock_partition(tree, lock_digest)->p.lock,
								LW_EXCLUSIVE);
}

/*
 * Lock the key's partition.  REQUIRES: outside of epochs, no LWLock of
 * src/tree held.
 */
void
lsm_key_lock(LsmTree *tree, LsmDigest lock_digest)
{
	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	LWLockAcquire(&keylock_partition(tree, lock_digest)->p.lock, LW_EXCLUSIVE);
}

/* False: somebody has it.  REQUIRES: as lsm_key_lock(). */
bool
lsm_key_lock_conditional(LsmTree *tree, LsmDigest lock_digest)
{
	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	return LWLockConditionalAcquire(&keylock_partition(tree, lock_digest)->p.lock, LW_EXCLUSIVE);
}

static inline bool
stamp_is_current(LsmTree *tree, const KeyPartition *partition, const LsmStamp *stamp)
{
	/* a stamp taken is even, so that a change in progress fails it, too */
	return pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &partition->p.counter)) ==
		stamp->key_counter &&
		pg_atomic_read_u64(&tree->ctl->keyspace_id) == tree->keyspace_id &&
		pg_atomic_read_u64(&tree->ctl->memory.set_stamp) == stamp->set_stamp;
}

bool
lsm_stamp_holds(LsmTree *tree, LsmDigest lock_digest, const LsmStamp *stamp)
{
	KeyPartition *partition = keylock_partition(tree, lock_digest);

	Assert(LWLockHeldByMeInMode(&partition->p.lock, LW_EXCLUSIVE));
	return stamp_is_current(tree, partition, stamp);
}

/*
 * As lsm_stamp_holds(), for a caller who will write nothing: all changes that
 * were counted before what the caller has read fail the stamp.  REQUIRES:
 * outside of epochs, no LWLock of src/tree held.
 */
bool
lsm_stamp_held(LsmTree *tree, LsmDigest lock_digest, const LsmStamp *stamp)
{
	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	/* what was read, was read before */
	pg_memory_barrier();
	return stamp_is_current(tree, keylock_partition(tree, lock_digest), stamp);
}

/* An atomic addition: not all who count hold the lock. */
static inline void
partition_changed(KeyPartition *partition)
{
	pg_atomic_fetch_add_u64(&partition->p.counter, 1);
}

/*
 * An entry of the key was inserted without the key's lock.  REQUIRES: it can
 * be found, and the transaction that has inserted it has not ended.
 */
void
lsm_key_changed(LsmTree *tree, LsmDigest lock_digest)
{
	partition_changed(keylock_partition(tree, lock_digest));
}

/* The same in redo, which has no handle. */
void
lsm_key_changed_in(uint64 keyspace_id, LsmDigest lock_digest)
{
	partition_changed(&keylocks->partitions[keylock_number_in(keyspace_id, lock_digest)]);
}

/*
 * `changed`: something was applied under the lock.  After an error the
 * transaction's abort releases the lock.  The first of several records may have
 * been applied then, which no counter tells: its entries are of the transaction
 * that aborts, or say of dead ones that they are dead.
 */
void
lsm_key_unlock(LsmTree *tree, LsmDigest lock_digest, bool changed)
{
	KeyPartition *partition = keylock_partition(tree, lock_digest);

	if (changed)
		partition_changed(partition);
	LWLockRelease(&partition->p.lock);
}

/* ---- many keys at once ---- */

/*
 * Take stamps of keys, before they are read.  REQUIRES: as lsm_stamp_take().
 */
void
lsm_keyset_take(LsmTree *tree, LsmKeySet *set)
{
	Assert(!lsm_key_lock_is_held());
	lsm_tree_enter(tree);
	set->set_stamp = lsm_set_stamp_read(tree->ctl);
	lsm_tree_exit(tree);
	for (int i = 0; i < set->n; i++)
	{
		set->partitions[i] = keylock_number(tree, set->digests[i]);
		set->counters[i] =
			pg_atomic_read_u64(&keylocks->partitions[set->partitions[i]].p.counter);
	}

	/* what the caller reads, it reads after the stamps */
	pg_memory_barrier();
}

/* The keys' partitions, each once, in their order. */
static void
sort_partitions(LsmKeySet *set)
{
	uint64		members[KEYLOCK_PARTITIONS / 64] = {0};
	int			n = 0;

	for (int i = 0; i < set->n; i++)
		members[set->partitions[i] / 64] |= UINT64CONST(1) << set->partitions[i] % 64;
	for (int i = 0; i < KEYLOCK_PARTITIONS / 64; i++)
	{
		for (uint64 left = members[i]; left != 0; left &= left - 1)
			set->locked[n++] = i * 64 + pg_rightmost_one_pos64(left);
	}
	set->nlocked = n;
}

/*
 * Lock the partitions of all keys, in their order, so that two processes that
 * do this do not wait for each other in a circle.  True if all stamps hold.
 * REQUIRES: as lsm_key_lock().
 */
bool
lsm_keyset_lock(LsmTree *tree, LsmKeySet *set)
{
	bool		holds;

	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	sort_partitions(set);
	for (int i = 0; i < set->nlocked; i++)
		LWLockAcquire(&keylocks->partitions[set->locked[i]].p.lock, LW_EXCLUSIVE);

	holds = pg_atomic_read_u64(&tree->ctl->keyspace_id) == tree->keyspace_id &&
		pg_atomic_read_u64(&tree->ctl->memory.set_stamp) == set->set_stamp;
	for (int i = 0; i < set->n && holds; i++)
		holds = pg_atomic_read_u64(&keylocks->partitions[set->partitions[i]].p.counter) ==
			set->counters[i];
	return holds;
}

/* As lsm_key_unlock(), for all of them. */
void
lsm_keyset_unlock(LsmKeySet *set, bool changed)
{
	for (int i = set->nlocked - 1; i >= 0; i--)
	{
		KeyPartition *partition = &keylocks->partitions[set->locked[i]];

		if (changed)
			partition_changed(partition);
		LWLockRelease(&partition->p.lock);
	}
	set->nlocked = 0;
}
