/*-------------------------------------------------------------------------
 *
 * former.c
 *	  What a relation's former trees have counted.
 *
 * A control block counts for one tree.  TRUNCATE, VACUUM FULL, CLUSTER, REINDEX,
 * SET TABLESPACE and rewrites by ALTER TABLE give the relation another tree, whose
 * block begins with zero; and a block may be recycled.  PostgreSQL's statistics
 * are the relation's all the time.  So what a block has counted is kept here, by
 * the relation's OID: when the transaction that replaces the fork is about to
 * commit (publish_lock.c), and when a block is freed.  What is kept is taken out
 * of the block.  So the sum of both is right whatever becomes of the transaction,
 * and nothing is counted twice.
 *
 * There is room for as many relations as for trees.  Then what was kept first is
 * forgotten.  Who drops a relation removes its entry, if the block is there by
 * which it is known, and not on a standby: others stay until then.
 *
 * Locking: the control table lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "tree/control/control.h"
#include "tree/control/control_private.h"

#define COUNTS_WORDS	(sizeof(LsmTreeCounts) / sizeof(uint64))

typedef struct FormerKey
{
	Oid			dboid;
	Oid			relid;
} FormerKey;

typedef struct FormerEntry
{
	FormerKey	key;
	TimestampTz kept_at;
	LsmTreeCounts counts;
} FormerEntry;

static HTAB *former = NULL;

Size
lsm_former_shmem_bytes(void)
{
	return hash_estimate_size(lsm_max_trees, sizeof(FormerEntry));
}

/* REQUIRES: AddinShmemInitLock held. */
void
lsm_former_shmem_init(void)
{
	HASHCTL		info;

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(FormerKey);
	info.entrysize = sizeof(FormerEntry);
	former = ShmemInitHash("lsmam counters of former trees", lsm_max_trees, &info,
						   HASH_ELEM | HASH_BLOBS);
}

/* Many at once: those of the first eighth of the time. */
static void
forget_oldest(void)
{
	HASH_SEQ_STATUS status;
	FormerEntry *entry;
	TimestampTz oldest = PG_INT64_MAX;
	TimestampTz newest = 0;

	hash_seq_init(&status, former);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		oldest = Min(oldest, entry->kept_at);
		newest = Max(newest, entry->kept_at);
	}
	hash_seq_init(&status, former);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->kept_at <= oldest + (newest - oldest) / 8)
			(void) hash_search(former, &entry->key, HASH_REMOVE, NULL);
	}
}

static bool
is_nothing(const LsmTreeCounts *counts)
{
	const uint64 *words = (const uint64 *) counts;

	for (int i = 0; i < COUNTS_WORDS; i++)
	{
		if (words[i] != 0)
			return false;
	}
	return true;
}

/* See control.h.  Fails for nobody: transactions that end come here. */
void
lsm_former_keep(LsmTreeShared *ctl)
{
	FormerKey	key = {ctl->rlocator.dbOid, ctl->relid};
	LsmTreeCounts counts;
	FormerEntry *entry;
	bool		found;

	Assert(LWLockHeldByMeInMode(lsm_control_lock, LW_EXCLUSIVE) && !ctl->local);
	if (!OidIsValid(key.relid))
		return;
	lsm_work_counts(ctl, &counts, true);
	if (is_nothing(&counts))
		return;
	if (hash_get_num_entries(former) >= lsm_max_trees &&
		hash_search(former, &key, HASH_FIND, NULL) == NULL)
		forget_oldest();
	entry = hash_search(former, &key, HASH_ENTER_NULL, &found);
	if (entry == NULL)
		return;
	if (!found)
		memset(&entry->counts, 0, sizeof(entry->counts));
	for (int i = 0; i < COUNTS_WORDS; i++)
		((uint64 *) &entry->counts)[i] += ((uint64 *) &counts)[i];
	entry->kept_at = GetCurrentTimestamp();
}

/* See control.h. */
void
lsm_former_keep_of_fork(LsmTreeShared *ctl, RelFileLocator rlocator)
{
	LWLockAcquire(lsm_control_lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) != 0 &&
		RelFileLocatorEquals(ctl->rlocator, rlocator))
		lsm_former_keep(ctl);
	LWLockRelease(lsm_control_lock);
}

/* See control.h. */
void
lsm_former_forget(Oid dboid, Oid relid)
{
	FormerKey	key = {dboid, relid};

	LWLockAcquire(lsm_control_lock, LW_EXCLUSIVE);
	(void) hash_search(former, &key, HASH_REMOVE, NULL);
	LWLockRelease(lsm_control_lock);
}

/* See control.h. */
void
lsm_former_forget_database(Oid dboid)
{
	HASH_SEQ_STATUS status;
	FormerEntry *entry;

	LWLockAcquire(lsm_control_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, former);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (!OidIsValid(dboid) || entry->key.dboid == dboid)
			(void) hash_search(former, &entry->key, HASH_REMOVE, NULL);
	}
	LWLockRelease(lsm_control_lock);
}

/* See facts.h. */
LsmTreeStats *
lsm_stats_former(int *n)
{
	HASH_SEQ_STATUS status;
	FormerEntry *entry;
	LsmTreeStats *result;
	int			room;

	*n = 0;
	if (!lsm_control_ready())
		return NULL;

	/* nothing is allocated under the lock */
	LWLockAcquire(lsm_control_lock, LW_SHARED);
	room = (int) hash_get_num_entries(former);
	LWLockRelease(lsm_control_lock);
	result = palloc0(mul_size(Max(room, 1), sizeof(LsmTreeStats)));

	LWLockAcquire(lsm_control_lock, LW_SHARED);
	hash_seq_init(&status, former);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (*n == room)
		{
			hash_seq_term(&status);
			break;
		}
		result[*n].dboid = entry->key.dboid;
		result[*n].relid = entry->key.relid;
		result[*n].counts = entry->counts;
		(*n)++;
	}
	LWLockRelease(lsm_control_lock);
	return result;
}
