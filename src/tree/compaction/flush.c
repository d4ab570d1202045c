/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  Writing a sealed memtable to sorted files of level 0.
 *
 * One flusher per tree: it has claimed the memtables (claim.c); others wait on
 * ctl->cv and look again.  If the flusher fails, a waiter tries itself and
 * meets the error (full disk) on its own.  Generations are flushed in order,
 * oldest first.
 *
 * A worker holds no lock on the relation while it writes, so the tree may be
 * dropped and the memtable retired under it.  Therefore the memtable is read
 * in batches, each in an epoch and after a look whether the memtable is still
 * in the set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"
#include "tree/read/merge.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

#define ENTRIES_PER_BATCH	1000

typedef enum ClaimResult
{
	CLAIM_NOTHING,				/* none is sealed, or the one we waited for
								 * was flushed */
	CLAIM_BUSY,					/* someone else is at it */
	CLAIM_STALE,				/* the tree has to be entered again */
	CLAIM_DONE
} ClaimResult;

/*
 * `generation`: the oldest sealed one when the call began; 0 = not known yet.
 */
static ClaimResult
flush_claim(LsmJob *job, uint64 *generation, LsmMemtable **memtable)
{
	LsmTreeShared *ctl = job->ctl;
	ClaimResult result = CLAIM_DONE;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) != job->keyspace_id ||
		ctl->state != LSM_STATE_LOADED)
		result = CLAIM_STALE;
	else if (ctl->memory.nsealed == 0 ||
			 (*generation != 0 && ctl->memory.sealed[0]->generation > *generation))
		result = CLAIM_NOTHING;
	else
	{
		*generation = ctl->memory.sealed[0]->generation;
		if ((lsm_claimed_levels(ctl) & LSM_MEMTABLES_BIT) != 0)
			result = CLAIM_BUSY;
		else
		{
			job->claim = lsm_claim_take(ctl, LSM_MEMTABLES_BIT);
			*memtable = ctl->memory.sealed[0];
		}
	}
	LWLockRelease(&ctl->lock);
	return result;
}

/* REQUIRES: inside the epoch, if the memtable is shared. */
static bool
still_sealed(LsmJob *job, LsmMemtable *memtable)
{
	LsmTreeShared *ctl = job->ctl;
	bool		result;

	LWLockAcquire(&ctl->lock, LW_SHARED);
	result = pg_atomic_read_u64(&ctl->keyspace_id) == job->keyspace_id &&
		ctl->memory.nsealed > 0 && ctl->memory.sealed[0] == memtable;
	LWLockRelease(&ctl->lock);
	return result;
}

/* Wait for registered writers; false if the memtable went away meanwhile. */
static bool
flush_wait_writers(LsmJob *job, LsmMemtable *memtable)
{
	for (int tries = 0;; tries++)
	{
		bool		gone;
		uint32		writers = 0;

		lsm_epoch_enter();
		gone = !still_sealed(job, memtable);
		if (!gone)
			writers = pg_atomic_read_u32(&memtable->writers);
		lsm_epoch_exit();
		if (gone)
			return false;
		if (writers == 0)
			break;
		CHECK_FOR_INTERRUPTS();
		LSM_NAP(tries < 100 ? 50L : 1000L, "LsmWriters");
	}
	pg_memory_barrier();		/* see what they inserted */
	return true;
}

/*
 * Write the memtable's entries.  False if it went away (worker: the tree was
 * dropped).  `sealed`: it is in the set; else it is the caller's own.
 */
static bool
flush_entries(LsmJob *job, LsmMemtable *memtable, bool sealed)
{
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	StringInfoData scratch;
	LsmMemNode *node = NULL;
	bool		started = false;
	bool		end = false;
	int64		entries = 0;

	initStringInfo(&scratch);
	lsm_job_report_phase(job, LSM_PHASE_WRITING);
	while (!end)
	{
		CHECK_FOR_INTERRUPTS();
		if (sealed)
		{
			lsm_job_pace(job, 0);
			lsm_job_cut(job);
			lsm_epoch_enter();
			if (!still_sealed(job, memtable))
			{
				lsm_epoch_exit();
				MemoryContextSwitchTo(old);
				return false;
			}
		}
		if (!started)
			node = lsm_memtable_first(memtable);
		started = true;
		for (int i = 0; i < ENTRIES_PER_BATCH && node != NULL; i++)
		{
			lsm_job_node(job, node, &scratch);
			node = lsm_memtable_next(memtable, node);
			entries++;
		}
		end = node == NULL;
		if (sealed)
			lsm_epoch_exit();
		lsm_job_report_entries(job, entries);
	}
	MemoryContextSwitchTo(old);
	return true;
}

static bool
flush_publish(LsmJob *job, uint64 generation, LsmMemtable *flushed)
{
	LsmEdit		edit = {0};

	edit.nadded = job->output.nfiles;
	edit.added = job->output.files;
	edit.flushed_generation = generation;
	if (!lsm_publish(job, &edit, flushed))
		return false;
	lsm_count(job->tree, LSM_COUNT_FLUSHES, 1);
	lsm_count(job->tree, LSM_COUNT_BYTES_FLUSHED, job->output.bytes);
	lsm_job_report_done(job, 0);
	return true;
}

/*
 * The work begins.  REQUIRES: the memtable stays (the relation is locked, or it
 * is ours).
 */
static void
flush_report_begin(LsmJob *job, LsmMemtable *memtable)
{
	uint64		removed = pg_atomic_read_u64(&memtable->removed);
	uint64		entries = pg_atomic_read_u64(&memtable->entries);
	LsmJobInput input = {.level = LSM_PROGRESS_UNKNOWN,.files = LSM_PROGRESS_UNKNOWN};

	/* an entry may be removed before its maker has counted it */
	input.entries = entries - Min(entries, removed);
	input.bytes = pg_atomic_read_u64(&memtable->bytes);
	lsm_job_report_begin(job, LSM_PROGRESS_FLUSH, &input);
}

/* The memtable is ours to flush.  False: not possible now. */
static bool
flush_claimed(LsmJob *job, LsmMemtable *memtable, uint64 generation)
{
	LsmTree    *tree = job->tree;

	LSM_CRASH_POINT("flush_started");

	/* before the work, to see whether publishing will be possible */
	if (!lsm_publish_lock(tree))
		return false;

	lsm_owner_restore(tree->keyspace_id, tree->rlocator, tree->backend);
	lsm_job_set_version(job, lsm_version_refresh(tree));
	lsm_job_set_below(job, 0);
	lsm_job_reserve(job, pg_atomic_read_u64(&memtable->bytes));
	flush_report_begin(job, memtable);
	lsm_publish_unlock(tree);

	lsm_job_report_phase(job, LSM_PHASE_WAITING_WRITERS);
	if (!flush_wait_writers(job, memtable) ||
		!flush_entries(job, memtable, true))
		return false;
	lsm_job_finish(job);
	return flush_publish(job, generation, memtable);
}

/* Temporary trees have no worker to compact them. */
static void
flush_compact_local(LsmTree *tree)
{
	if (!tree->ctl->local)
		return;
	while (pg_atomic_read_u32(&tree->ctl->files.compaction_due) != 0 &&
		   lsm_compact_once(tree, false) == LSM_COMPACT_DONE)
		CHECK_FOR_INTERRUPTS();
}

bool
lsm_flush_oldest(LsmTree *tree, bool conditional)
{
	uint64		generation = 0;

	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	for (;;)
	{
		LsmMemtable *memtable = NULL;
		LsmJob	   *job;
		ClaimResult claim;
		bool		done = false;

		/* level 0; the run is known once a memtable is claimed */
		ConditionVariablePrepareToSleep(&tree->ctl->cv);
		job = lsm_job_begin(tree, LSM_JOB_FLUSH, 0, 0);
		claim = flush_claim(job, &generation, &memtable);
		if (claim != CLAIM_BUSY || conditional)
			ConditionVariableCancelSleep();
		if (claim == CLAIM_DONE)
		{
			job->output.run = generation;
			done = flush_claimed(job, memtable, generation);
		}
		lsm_job_end(job);

		switch (claim)
		{
			case CLAIM_NOTHING:
				return true;
			case CLAIM_DONE:
				if (done)
				{
					flush_compact_local(tree);
					return true;
				}
				if (conditional)
					return false;
				break;
			case CLAIM_BUSY:
				if (conditional)
					return false;
				(void) ConditionVariableTimedSleep(&tree->ctl->cv, 1000,
												   LSM_WAIT_EVENT("LsmFlush"));
				ConditionVariableCancelSleep();
				break;
			case CLAIM_STALE:
				if (conditional)
					return false;

				/*
				 * evicted or being loaded: then nothing is sealed, or it is
				 * again
				 */
				lsm_tree_enter(tree);
				lsm_tree_exit(tree);
				lsm_tree_require_files(tree);
				break;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * For the loader: see compaction.h.  No set contains the memtable, and no one
 * else writes to the tree.
 */
void
lsm_flush_memtable(LsmTree *tree, LsmMemtable *memtable)
{
	LsmJob	   *job;

	Assert(!lsm_epoch_inside());
	Assert(pg_atomic_read_u32(&memtable->writers) == 0);
	job = lsm_job_begin(tree, LSM_JOB_FLUSH, 0, memtable->generation);
	LSM_CRASH_POINT("flush_started");
	lsm_job_set_version(job, lsm_version_refresh(tree));
	lsm_job_set_below(job, 0);
	flush_report_begin(job, memtable);
	(void) flush_entries(job, memtable, false);
	lsm_job_finish(job);
	if (!flush_publish(job, memtable->generation, NULL))
		elog(ERROR, "could not lock the relation of an lsm tree for a flush");
	lsm_job_end(job);
}

void
lsm_tree_flush_start(LsmTree *tree)
{
	(void) lsm_tree_seal(tree, NULL);
	lsm_worker_wake();
}

void
lsm_tree_flush_idle(LsmTree *tree)
{
	/* others may seal more all the time */
	for (int i = 0; i < LSM_MAX_SEALED && lsm_tree_nsealed(tree) > 0; i++)
	{
		if (!lsm_flush_oldest(tree, true))
			return;
	}
}

/* A write takes microseconds, but for one that waits for its turn. */
#define SETTLE_TRIES	20
#define SETTLE_NAP_US	100

/* See tree.h. */
bool
lsm_tree_writers_left(LsmTree *tree)
{
	for (int tries = 0; tries < SETTLE_TRIES; tries++)
	{
		LsmMemtableSet set;
		uint32		writers = 0;

		lsm_tree_enter(tree);
		lsm_set_take(tree->ctl, &set);
		for (int i = 0; i < set.n; i++)
			writers += pg_atomic_read_u32(&set.tables[i]->writers);
		lsm_tree_exit(tree);
		if (writers == 0)
		{
			pg_memory_barrier();	/* see what they inserted */
			return true;
		}
		CHECK_FOR_INTERRUPTS();
		LSM_NAP(SETTLE_NAP_US, "LsmWriters");
	}
	return false;
}

void
lsm_tree_flush(LsmTree *tree)
{
	uint64		last;

	/* everything up to here; what is written meanwhile is not our business */
	lsm_tree_enter(tree);
	LWLockAcquire(&tree->ctl->lock, LW_SHARED);
	last = tree->ctl->memory.active_generation;
	LWLockRelease(&tree->ctl->lock);
	lsm_tree_exit(tree);

	for (;;)
	{
		LsmTreeShared *ctl;
		LsmMemtable *active = NULL;
		bool		sealed;
		bool		coming = false;

		CHECK_FOR_INTERRUPTS();
		lsm_tree_enter(tree);
		ctl = tree->ctl;
		LWLockAcquire(&ctl->lock, LW_SHARED);
		if (ctl->memory.active != NULL && ctl->memory.active->generation <= last)
		{
			if (pg_atomic_read_u64(&ctl->memory.active->entries) > 0)
				active = ctl->memory.active;
			else
				coming = pg_atomic_read_u32(&ctl->memory.active->writers) > 0;
		}
		sealed = ctl->memory.nsealed > 0 && ctl->memory.sealed[0]->generation <= last;
		LWLockRelease(&ctl->lock);
		lsm_tree_exit(tree);

		if (coming)
		{
			/*
			 * row numbers may have been handed out; registered writers never
			 * wait
			 */
			LSM_NAP(100L, "LsmWriters");
			continue;
		}
		if (active == NULL && !sealed)
			return;
		if (active != NULL)
			(void) lsm_tree_seal(tree, active); /* false: the flush makes room */
		(void) lsm_flush_oldest(tree, false);
	}
}
