/*-------------------------------------------------------------------------
 *
 * wal_offload.c
 *	  Files to be logged by a worker that has nothing else to do.
 *
 * Compressing a file and inserting it into WAL is a third of what a compaction
 * costs, and needs nothing of it but the file.  So a job that has finished a
 * file and goes on with the next one puts it here, and a worker may take it;
 * most of all the one that flushes, which is idle where the debt of
 * compactions is being worked off.  At its end the job logs itself what nobody
 * has taken, and waits for what is being logged, before its edit: all bytes of
 * a file are in WAL before the edit that adds it.
 *
 * A job that fails forsakes its files, and waits until the worker that is at
 * one has seen that, after a piece at most.  So no piece of a file comes behind
 * the record by which redo removes what was logged (lsm_files_log_removal), or
 * when the keyspace is gone.  A worker that fails says so, and the job does it
 * itself, from the beginning.
 *
 * Locking: a spinlock, for a few words at a time; waiting is for the condition
 * variable, by the job only, which holds no lock then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"

typedef enum HelpState
{
	HELP_FREE,
	HELP_WANTED,
	HELP_TAKEN,
	HELP_ABANDONED,				/* taken, but the job is no more */
	HELP_DONE,
	HELP_FAILED
} HelpState;

typedef struct HelpSlot
{
	HelpState	state;
	uint64		keyspace_id;
	uint64		number;
} HelpSlot;

typedef struct HelpShared
{
	slock_t		mutex;
	pg_atomic_uint32 nwanted;	/* to see without the lock that there is
								 * nothing */
	ConditionVariable cv;		/* some file was logged, or could not be */
	HelpSlot	slots[LSM_HELP_SLOTS];
} HelpShared;

static HelpShared *help = NULL;
static int	helping = -1;		/* this worker is at it */

Size
lsm_wal_offload_shmem_bytes(void)
{
	return MAXALIGN(sizeof(HelpShared));
}

/* REQUIRES: AddinShmemInitLock held. */
void
lsm_wal_offload_shmem_init(void)
{
	bool		found;

	help = ShmemInitStruct("lsmam files to log", lsm_wal_offload_shmem_bytes(), &found);
	if (found)
		return;
	memset(help, 0, sizeof(HelpShared));
	SpinLockInit(&help->mutex);
	pg_atomic_init_u32(&help->nwanted, 0);
	ConditionVariableInit(&help->cv);
}

/* REQUIRES: spinlock. */
static inline void
set_state(int slot, HelpState state)
{
	if (help->slots[slot].state == HELP_WANTED)
		pg_atomic_fetch_sub_u32(&help->nwanted, 1);
	if (state == HELP_WANTED)
		pg_atomic_fetch_add_u32(&help->nwanted, 1);
	help->slots[slot].state = state;
}

static inline HelpState
get_state(int slot)
{
	HelpState	state;

	SpinLockAcquire(&help->mutex);
	state = help->slots[slot].state;
	SpinLockRelease(&help->mutex);
	return state;
}

/* Tests of what happens to a worker that helps: give it the time to come. */
static inline void
help_test_pause(void)
{
#ifdef LSM_TESTING
	if (lsm_crash_point_name != NULL && strncmp(lsm_crash_point_name, "help_", 5) == 0)
		pg_usleep(50000L);
#endif
}

/* ---- jobs ---- */

static bool
is_logged(const LsmJob *job, int at)
{
	return at < job->offload.nlogged && job->offload.logged[at];
}

static void
note_logged(LsmJob *job, int at)
{
	int			n = job->offload.nlogged;

	if (at >= n)
	{
		int			more = Max(at + 1, 2 * n);
		bool	   *logged = MemoryContextAllocZero(job->cxt, more * sizeof(bool));

		if (n > 0)
		{
			memcpy(logged, job->offload.logged, n * sizeof(bool));
			pfree(job->offload.logged);
		}
		job->offload.logged = logged;
		job->offload.nlogged = more;
	}
	job->offload.logged[at] = true;
}

/* Files of the job that were logged need their slots no more. */
static void
free_slots(LsmJob *job)
{
	for (int i = job->offload.nfiles - 1; i >= 0; i--)
	{
		int			slot = job->offload.files[i].slot;

		if (get_state(slot) != HELP_DONE)
			continue;
		note_logged(job, job->offload.files[i].at);
		SpinLockAcquire(&help->mutex);
		set_state(slot, HELP_FREE);
		SpinLockRelease(&help->mutex);
		job->offload.files[i] = job->offload.files[--job->offload.nfiles];
	}
}

/*
 * The job's file and its filter are complete and durable.  Nothing is done if
 * there are many others.
 */
void
lsm_wal_offload_offer(LsmJob *job, int at)
{
	int			slot = 0;

	if (!lsm_file_needs_log(job->tree))
		return;
	free_slots(job);
	SpinLockAcquire(&help->mutex);
	while (slot < LSM_HELP_SLOTS && help->slots[slot].state != HELP_FREE)
		slot++;
	if (slot < LSM_HELP_SLOTS)
	{
		help->slots[slot].keyspace_id = job->keyspace_id;
		help->slots[slot].number = job->output.files[at].number;
		set_state(slot, HELP_WANTED);
	}
	SpinLockRelease(&help->mutex);
	if (slot == LSM_HELP_SLOTS)
		return;
	job->output.logged = true;			/* it may be, from now on */
	job->offload.files[job->offload.nfiles].slot = slot;
	job->offload.files[job->offload.nfiles++].at = at;
	lsm_worker_wake_first();
	help_test_pause();
}

/* The job's use of a slot, or -1. */
static int
find_slot(LsmJob *job, int at)
{
	for (int i = 0; i < job->offload.nfiles; i++)
	{
		if (job->offload.files[i].at == at)
			return job->offload.files[i].slot;
	}
	return -1;
}

/*
 * Is the file the job's own to log?  Not if someone is at it, or has done it;
 * if no one has taken it, no one will.
 */
bool
lsm_wal_offload_reclaim(LsmJob *job, int at)
{
	int			slot = find_slot(job, at);
	bool		mine = true;

	if (slot < 0)
		return !is_logged(job, at);
	SpinLockAcquire(&help->mutex);
	if (help->slots[slot].state == HELP_WANTED)
		set_state(slot, HELP_FAILED);
	else
		mine = false;
	SpinLockRelease(&help->mutex);
	return mine;
}

/*
 * Wait until the file, not the job's own, was logged.  False: that has failed.
 */
bool
lsm_wal_offload_wait(LsmJob *job, int at)
{
	int			slot = find_slot(job, at);
	HelpState	state;

	if (is_logged(job, at))
		return true;
	Assert(slot >= 0);
	ConditionVariablePrepareToSleep(&help->cv);
	while ((state = get_state(slot)) == HELP_TAKEN)
		(void) ConditionVariableTimedSleep(&help->cv, 1000, LSM_WAIT_EVENT("LsmFileLog"));
	ConditionVariableCancelSleep();
	Assert(state == HELP_DONE || state == HELP_FAILED);
	return state == HELP_DONE;
}

/* The job needs no file logged any more.  Never fails. */
void
lsm_wal_offload_end(LsmJob *job)
{
	bool		abandoned[LSM_HELP_SLOTS] = {false};

	if (job->offload.nfiles == 0)
		return;
	SpinLockAcquire(&help->mutex);
	for (int i = 0; i < job->offload.nfiles; i++)
	{
		int			slot = job->offload.files[i].slot;

		abandoned[slot] = help->slots[slot].state == HELP_TAKEN;
		set_state(slot, abandoned[slot] ? HELP_ABANDONED : HELP_FREE);
	}
	SpinLockRelease(&help->mutex);
	job->offload.nfiles = 0;
	for (int slot = 0; slot < LSM_HELP_SLOTS; slot++)
	{
		/*
		 * the worker that is at it looks after each piece: a few milliseconds
		 */
		while (abandoned[slot] && get_state(slot) == HELP_ABANDONED)
			LSM_NAP(1000L, "LsmFileLog");
	}
}

/* ---- workers ---- */

static void
help_end(HelpState state)
{
	int			slot = helping;

	if (slot < 0)
		return;
	helping = -1;
	SpinLockAcquire(&help->mutex);
	set_state(slot, help->slots[slot].state == HELP_ABANDONED ? HELP_FREE : state);
	SpinLockRelease(&help->mutex);
	ConditionVariableBroadcast(&help->cv);
}

static void
help_at_exit(int code, Datum arg)
{
	help_end(HELP_FAILED);
}

/* The file that has waited longest: numbers ascend. */
static bool
help_take(HelpSlot *taken)
{
	int			oldest = -1;

	SpinLockAcquire(&help->mutex);
	for (int i = 0; i < LSM_HELP_SLOTS; i++)
	{
		if (help->slots[i].state == HELP_WANTED &&
			(oldest < 0 || help->slots[i].number < help->slots[oldest].number))
			oldest = i;
	}
	if (oldest >= 0)
	{
		set_state(oldest, HELP_TAKEN);
		*taken = help->slots[oldest];
	}
	SpinLockRelease(&help->mutex);
	helping = oldest;
	return oldest >= 0;
}

static bool
help_is_abandoned(void)
{
	return get_state(helping) == HELP_ABANDONED;
}

/*
 * Log one of the files.  False: there is none.
 */
bool
lsm_wal_offload_run(void)
{
	static bool registered = false;
	HelpSlot	file;

	if (pg_atomic_read_u32(&help->nwanted) == 0)
		return false;
	if (!registered)
		before_shmem_exit(help_at_exit, (Datum) 0);
	registered = true;
	if (!help_take(&file))
		return false;
	PG_TRY();
	{
		bool		done = true;

		LSM_CRASH_POINT("help_logging");
		for (int filter = 0; filter < 2 && done; filter++)
			done = lsm_keyspace_log_file(file.keyspace_id, file.number, filter != 0,
										 help_is_abandoned);
		help_end(done ? HELP_DONE : HELP_FAILED);
	}
	PG_CATCH();
	{
		help_end(HELP_FAILED);
		PG_RE_THROW();
	}
	PG_END_TRY();
	elog(DEBUG1, "logged lsm file " UINT64_FORMAT " for the job that wrote it", file.number);
	return true;
}
