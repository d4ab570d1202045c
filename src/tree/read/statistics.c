/*-------------------------------------------------------------------------
 *
 * statistics.c
 *	  Statistics of trees: what this process has counted is published to the
 *	  control blocks at the end of a statement or transaction; what all have
 *	  counted.
 *
 * A parallel worker also adds its counts to a slot of its leader's, so that
 * the leader can tell what its statement has cost.  Slots only grow and nobody
 * resets them: the leader takes differences, and has waited for the end of its
 * workers whenever it looks.
 *
 * Locking: none but atomics; to list trees, the control table lock and each
 * tree's, shared, one after the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "tree/control/control.h"
#include "tree/read/elastic_probe.h"
#include "tree/read/read.h"

/* LsmTotals as an array */
#define TOTALS_WORDS	(sizeof(LsmTotals) / sizeof(uint64))
#define COUNTERS_OFFSET	(offsetof(LsmTotals, counters) / sizeof(uint64))
#define LEVELS_OFFSET	(offsetof(LsmTotals, levels) / sizeof(uint64))

/* what the workers of the process with PGPROC i have counted: TOTALS_WORDS
 * numbers from i * TOTALS_WORDS on */
static pg_atomic_uint64 *leader_slots = NULL;

/* a parallel worker's totals that are in its leader's slot */
static uint64 given_to_leader[TOTALS_WORDS];

Size
lsm_counters_shmem_bytes(void)
{
	return mul_size(mul_size(MaxBackends, TOTALS_WORDS), sizeof(pg_atomic_uint64));
}

/*
 * Create or attach.  REQUIRES: AddinShmemInitLock held.
 */
void
lsm_counters_shmem_init(void)
{
	bool		found;

	leader_slots = ShmemInitStruct("lsmam counters of parallel workers",
								   lsm_counters_shmem_bytes(), &found);
	if (found)
		return;
	for (Size i = 0; i < MaxBackends * TOTALS_WORDS; i++)
		pg_atomic_init_u64(&leader_slots[i], 0);
}

static pg_atomic_uint64 *
leader_slot(const PGPROC *leader)
{
	if (leader_slots == NULL || leader == NULL || GetNumberFromPGProc(leader) >= MaxBackends)
		return NULL;
	return &leader_slots[GetNumberFromPGProc(leader) * TOTALS_WORDS];
}

static void
own_totals(uint64 totals[TOTALS_WORDS])
{
	memcpy(&totals[COUNTERS_OFFSET], lsm_session_counters, sizeof(lsm_session_counters));
	memcpy(&totals[LEVELS_OFFSET], lsm_level_counts, sizeof(lsm_level_counts));
}

static void
give_to_leader(void)
{
	pg_atomic_uint64 *slot = leader_slot(MyProc != NULL ? MyProc->lockGroupLeader : NULL);
	uint64		totals[TOTALS_WORDS];

	if (slot == NULL)
		return;
	lsm_filestats_publish();	/* for the levels' sake */
	own_totals(totals);
	for (int i = 0; i < TOTALS_WORDS; i++)
	{
		if (totals[i] != given_to_leader[i])
			pg_atomic_fetch_add_u64(&slot[i], totals[i] - given_to_leader[i]);
		given_to_leader[i] = totals[i];
	}
}

void
lsm_counters_publish(void)
{
	lsm_elastic_end_statement();
	lsm_counters_publish_trees();
	if (IsParallelWorker())
		give_to_leader();
}

/*
 * Everything this backend has counted, published or not, and its workers.
 */
void
lsm_counters_session(LsmTotals *totals)
{
	uint64	   *words = (uint64 *) totals;
	pg_atomic_uint64 *slot = leader_slot(MyProc);

	lsm_filestats_publish();	/* for the levels' sake */
	own_totals(words);
	if (slot == NULL)
		return;
	for (int i = 0; i < TOTALS_WORDS; i++)
		words[i] += pg_atomic_read_u64(&slot[i]);
}

/* If the block is another tree's by now, of that one. */
static bool
workers_help(LsmTreeShared *ctl)
{
	LsmWorkerHelp help;

	LWLockAcquire(&ctl->lock, LW_SHARED);
	help = lsm_worker_help(ctl);
	LWLockRelease(&ctl->lock);
	return help.flush && help.compact;
}

/*
 * Next tree: first those in shared memory, then (negative *iter) the temporary
 * ones of this backend.
 */
static LsmTreeShared *
stats_next_block(int *iter)
{
	LsmTreeShared *ctl;

	if (*iter >= 0)
	{
		ctl = lsm_control_nth(*iter);
		if (ctl != NULL)
		{
			(*iter)++;
			return ctl;
		}
		*iter = -1;
	}
	ctl = lsm_control_nth_local(-1 - *iter);
	if (ctl != NULL)
		(*iter)--;
	return ctl;
}

/*
 * Statistics of the next tree that has a control block; false at the end.
 * *iter starts at 0.
 */
bool
lsm_stats_next(int *iter, LsmTreeStats *stats)
{
	LsmTreeShared *ctl;

	if (!lsm_control_ready())
		return false;
	while ((ctl = stats_next_block(iter)) != NULL)
	{
		uint64		keyspace_id;
		RelFileLocator rlocator;
		LsmKind		kind;
		char		relpersistence;

		if (!lsm_control_identity(ctl, &keyspace_id, &rlocator, &kind, &relpersistence))
			continue;
		stats->dboid = rlocator.dbOid;
		stats->relfilenode = rlocator.relNumber;
		stats->spcoid = rlocator.spcOid;
		stats->relid = InvalidOid;
		stats->keyspace_id = keyspace_id;
		stats->workers_help = workers_help(ctl);
		if (lsm_work_read(ctl, keyspace_id, stats))
			return true;
	}
	return false;
}

/*
 * The tree's counters, by all sessions as far as they have published.
 */
void
lsm_tree_counters(LsmTree *tree, uint64 counters[LSM_NCOUNTERS])
{
	LsmTreeShared *ctl = tree->ctl;

	lsm_counters_publish();
	memset(counters, 0, LSM_NCOUNTERS * sizeof(uint64));
	if (ctl == NULL || !lsm_control_pin(ctl, tree->keyspace_id))
		return;
	for (int i = 0; i < LSM_NCOUNTERS; i++)
		counters[i] = pg_atomic_read_u64(&ctl->counters[i]);
	lsm_control_unpin(ctl);
}

/*
 * Set the counters of all trees of a database (InvalidOid: of all) to zero.
 */
void
lsm_stats_reset(Oid dboid)
{
	LsmTreeShared *ctl;
	int			iter = 0;

	if (!lsm_control_ready())
		return;

	/* what we have counted so far belongs to the time before */
	lsm_counters_publish();
	lsm_filestats_publish();
	lsm_filestats_reset(dboid);
	lsm_former_forget_database(dboid);
	while ((ctl = stats_next_block(&iter)) != NULL)
	{
		uint64		keyspace_id;
		RelFileLocator rlocator;
		LsmKind		kind;
		char		relpersistence;
		LsmTreeCounts counts;

		if (!lsm_control_identity(ctl, &keyspace_id, &rlocator, &kind, &relpersistence) ||
			(OidIsValid(dboid) && rlocator.dbOid != dboid))
			continue;
		lsm_work_counts(ctl, &counts, true);
	}
}
