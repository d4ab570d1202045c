/*-------------------------------------------------------------------------
 *
 * work.c
 *	  What the control block knows of flushes, compactions and stalls.
 *
 * Counted when a job has ended or a stalled writer goes on, so straight into
 * the control block.  Whoever counts has the block pinned.
 *
 * Locking: counters are atomics, and each is right by itself: a reader may see
 * a job's bytes before its time.  The rest is under ctl->lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"

void
lsm_work_init(LsmTreeWork *work)
{
	for (int i = 0; i < LSM_NSTALLS; i++)
	{
		pg_atomic_init_u64(&work->stalls[i], 0);
		pg_atomic_init_u64(&work->stall_us[i], 0);
	}
	for (int i = 0; i < LSM_NDELAYS; i++)
	{
		pg_atomic_init_u64(&work->delays[i], 0);
		pg_atomic_init_u64(&work->delay_us[i], 0);
	}
	for (int row = 0; row < LSM_WORK_ROWS; row++)
	{
		for (int i = 0; i < LSM_NWORK; i++)
			pg_atomic_init_u64(&work->jobs[row][i], 0);
	}
	pg_atomic_init_u64(&work->values_dropped, 0);
}

void
lsm_work_count_job(LsmTreeShared *ctl, int row, const uint64 work[LSM_NWORK])
{
	Assert(row >= 0 && row < LSM_WORK_ROWS);
	for (int i = 0; i < LSM_NWORK; i++)
	{
		if (work[i] != 0)
			pg_atomic_fetch_add_u64(&ctl->work.jobs[row][i], work[i]);
	}
}

void
lsm_work_count_stall(LsmTreeShared *ctl, LsmStall reason, uint64 us)
{
	pg_atomic_fetch_add_u64(&ctl->work.stalls[reason], 1);
	pg_atomic_fetch_add_u64(&ctl->work.stall_us[reason], us);
}

void
lsm_work_count_delay(LsmTreeShared *ctl, LsmDelay reason, uint64 us)
{
	pg_atomic_fetch_add_u64(&ctl->work.delays[reason], 1);
	pg_atomic_fetch_add_u64(&ctl->work.delay_us[reason], us);
}

/* See control.h. */
uint64
lsm_memtables_bytes(LsmTreeShared *ctl)
{
	uint64		bytes = 0;

	if (ctl->memory.active != NULL)
		bytes += pg_atomic_read_u64(&ctl->memory.active->bytes);
	for (int i = 0; i < ctl->memory.nsealed; i++)
		bytes += pg_atomic_read_u64(&ctl->memory.sealed[i]->bytes);
	return bytes;
}

static inline uint64
read_count(pg_atomic_uint64 *count, bool take)
{
	return take ? pg_atomic_exchange_u64(count, 0) : pg_atomic_read_u64(count);
}

/* See control.h. */
void
lsm_work_counts(LsmTreeShared *ctl, LsmTreeCounts *counts, bool take)
{
	LsmTreeWork *work = &ctl->work;

	for (int i = 0; i < LSM_NCOUNTERS; i++)
		counts->counters[i] = read_count(&ctl->counters[i], take);
	for (int i = 0; i < LSM_NSTALLS; i++)
	{
		counts->stalls[i] = read_count(&work->stalls[i], take);
		counts->stall_us[i] = read_count(&work->stall_us[i], take);
	}
	for (int i = 0; i < LSM_NDELAYS; i++)
	{
		counts->delays[i] = read_count(&work->delays[i], take);
		counts->delay_us[i] = read_count(&work->delay_us[i], take);
	}
	for (int row = 0; row < LSM_WORK_ROWS; row++)
	{
		for (int i = 0; i < LSM_NWORK; i++)
			counts->work[row][i] = read_count(&work->jobs[row][i], take);
	}
}

/*
 * Memtables that are in the set stay as long as the lock is held: they leave
 * the set under the exclusive lock, and are retired later.
 */
bool
lsm_work_read(LsmTreeShared *ctl, uint64 keyspace_id, LsmTreeStats *stats)
{
	const LsmTreeWork *work = &ctl->work;
	bool		current;

	lsm_work_counts(ctl, &stats->counts, false);
	LWLockAcquire(&ctl->lock, LW_SHARED);
	current = pg_atomic_read_u64(&ctl->keyspace_id) == keyspace_id;
	if (current)
	{
		stats->known = work->known;
		memcpy(stats->level_files, work->level_files, sizeof(stats->level_files));
		memcpy(stats->level_bytes, work->level_bytes, sizeof(stats->level_bytes));
		stats->mapped_filter_bytes = work->mapped_filter_bytes;
		stats->pending_bytes = work->pending_bytes;
		stats->level0_runs = pg_atomic_read_u32(&ctl->files.level0_runs);
		stats->memtable_bytes = lsm_memtables_bytes(ctl);
	}
	LWLockRelease(&ctl->lock);
	return current;
}
