/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  Jobs in progress, for pg_stat_lsm_progress: flushes, compactions, builds,
 *	  loads, lsm_verify().
 *
 * PostgreSQL shows the progress of its own commands only, one per process.  So
 * there is a slot for each process here, with room for a few jobs: a worker's
 * compaction makes way for flushes, which are jobs of their own.
 *
 * A slot is written by its process alone and read by everyone.  No lock: the
 * writer makes the slot's change count odd, writes, and makes it even again,
 * with barriers in between; a reader copies the slot between two equal, even
 * counts.  So a reader never has half of a change, and a writer never waits.
 * It is the protocol of PostgreSQL's own backend status.  Nothing that is
 * written while the count is odd can fail or be interrupted.
 *
 * A job ends with an error, too: that of output_job.c by the job's release,
 * others by the abort of their (sub)transaction.  A process that is killed
 * takes the shared memory with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "tree/control/control.h"
#include "tree/control/progress.h"

/* Of one process at a time */
#define MAX_JOBS		3

typedef struct ProgressSlot
{
	pg_atomic_uint32 changes;	/* odd: being written */
	LsmProgressOwner owner;		/* pid 0: nobody's */
	LsmProgress jobs[MAX_JOBS]; /* command NONE: no job */
} ProgressSlot;

/* by number of the PGPROC */
static ProgressSlot *slots = NULL;

/* this process's, once it has had a job */
static ProgressSlot *my_slot = NULL;

/* who ends the jobs in my_slot */
static struct
{
	bool		ends_itself;
	int			nest_level;
}			my_jobs[MAX_JOBS];

Size
lsm_progress_shmem_bytes(void)
{
	return mul_size(MaxBackends, sizeof(ProgressSlot));
}

/*
 * Create or attach.  REQUIRES: AddinShmemInitLock held.
 */
void
lsm_progress_shmem_init(void)
{
	bool		found;

	slots = ShmemInitStruct("lsmam jobs in progress", lsm_progress_shmem_bytes(), &found);
	if (found)
		return;
	memset(slots, 0, lsm_progress_shmem_bytes());
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_init_u32(&slots[i].changes, 0);
}

/* ---- writing ---- */

static void
change_begin(void)
{
	uint32		changes = pg_atomic_read_u32(&my_slot->changes);

	Assert((changes & 1) == 0);
	pg_atomic_write_u32(&my_slot->changes, changes + 1);
	pg_write_barrier();
}

static void
change_end(void)
{
	pg_write_barrier();
	pg_atomic_write_u32(&my_slot->changes, pg_atomic_read_u32(&my_slot->changes) + 1);
}

/* The slot may be another process's soon. */
static void
progress_at_exit(int code, Datum arg)
{
	change_begin();
	memset(&my_slot->owner, 0, sizeof(my_slot->owner));
	memset(my_slot->jobs, 0, sizeof(my_slot->jobs));
	change_end();
	my_slot = NULL;
}

/* False: this process has none. */
static bool
take_slot(void)
{
	if (my_slot != NULL)
		return true;

	/* the startup process and its like have numbers beyond */
	if (slots == NULL || MyProc == NULL || MyProcNumber >= MaxBackends)
		return false;
	my_slot = &slots[MyProcNumber];
	on_shmem_exit(progress_at_exit, (Datum) 0);
	return true;
}

void
lsm_progress_init(LsmProgress *job, LsmProgressCommand command, Oid dboid, Oid relid)
{
	job->command = command;
	job->phase = LSM_PHASE_STARTING;
	job->dboid = dboid;
	job->relid = relid;
	job->started_at = GetCurrentTimestamp();
	job->level_from = job->level_to = LSM_PROGRESS_UNKNOWN;
	job->files_total = job->files_done = LSM_PROGRESS_UNKNOWN;
	job->entries_total = job->entries_done = LSM_PROGRESS_UNKNOWN;
	job->bytes_total = job->bytes_done = LSM_PROGRESS_UNKNOWN;
	job->files_written = job->bytes_written = LSM_PROGRESS_UNKNOWN;
}

int
lsm_progress_begin(const LsmProgress *job, bool ends_itself)
{
	PGPROC	   *leader = MyProc != NULL && IsParallelWorker() ? MyProc->lockGroupLeader : NULL;
	int			number = 0;

	Assert(job->command != LSM_PROGRESS_NONE);
	if (!take_slot())
		return LSM_PROGRESS_UNKNOWN;
	while (number < MAX_JOBS && my_slot->jobs[number].command != LSM_PROGRESS_NONE)
		number++;
	if (number == MAX_JOBS)
		return LSM_PROGRESS_UNKNOWN;

	my_jobs[number].ends_itself = ends_itself;
	my_jobs[number].nest_level = GetCurrentTransactionNestLevel();
	change_begin();
	my_slot->owner.pid = MyProcPid;
	my_slot->owner.leader_pid = leader != NULL ? leader->pid : 0;
	my_slot->owner.roleid = MyProc->roleId;
	my_slot->jobs[number] = *job;
	change_end();
	return number;
}

void
lsm_progress_update(int number, const LsmProgress *job)
{
	if (number < 0 || my_slot == NULL)
		return;
	Assert(my_slot->jobs[number].command == job->command);
	change_begin();
	my_slot->jobs[number] = *job;
	change_end();
}

void
lsm_progress_end(int number)
{
	if (number < 0 || my_slot == NULL)
		return;
	change_begin();
	my_slot->jobs[number].command = LSM_PROGRESS_NONE;
	change_end();
}

/*
 * The (sub)transaction aborts: its jobs have ended, and with those that have no
 * other owner it is for us to say so.
 */
void
lsm_progress_abort(void)
{
	int			level = GetCurrentTransactionNestLevel();

	for (int i = 0; my_slot != NULL && i < MAX_JOBS; i++)
	{
		if (my_slot->jobs[i].command != LSM_PROGRESS_NONE &&
			!my_jobs[i].ends_itself && my_jobs[i].nest_level >= level)
			lsm_progress_end(i);
	}
}

/* ---- reading ---- */

static void
read_slot(ProgressSlot *slot, LsmProgressOwner *owner, LsmProgress jobs[MAX_JOBS])
{
	for (;;)
	{
		uint32		before = pg_atomic_read_u32(&slot->changes);

		pg_read_barrier();
		*owner = slot->owner;
		memcpy(jobs, slot->jobs, sizeof(slot->jobs));
		pg_read_barrier();
		if ((before & 1) == 0 && pg_atomic_read_u32(&slot->changes) == before)
			return;
		CHECK_FOR_INTERRUPTS();
	}
}

/* See facts.h.  Jobs of one process are as of one moment each. */
bool
lsm_progress_next(int *iter, LsmProgressOwner *owner, LsmProgress *job)
{
	for (; slots != NULL && *iter < MaxBackends * MAX_JOBS; (*iter)++)
	{
		LsmProgress jobs[MAX_JOBS];

		read_slot(&slots[*iter / MAX_JOBS], owner, jobs);
		*job = jobs[*iter % MAX_JOBS];
		if (owner->pid != 0 && job->command != LSM_PROGRESS_NONE)
		{
			(*iter)++;
			return true;
		}
	}
	return false;
}
