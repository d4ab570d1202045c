/*-------------------------------------------------------------------------
 *
 * worker_latch.c
 *	  Waking the workers, and which of them there are.
 *
 * A PGPROC number per worker, read and written atomically.  A stale one wakes
 * someone who does not mind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "tree/control/control.h"

#define MAX_WORKERS				64

typedef struct WorkerShared
{
	pg_atomic_uint32 procs[MAX_WORKERS];	/* proc number + 1; 0: not running */
} WorkerShared;

static WorkerShared *workers = NULL;
static int	my_worker_no = -1;

Size
lsm_worker_shmem_bytes(void)
{
	return MAXALIGN(sizeof(WorkerShared));
}

/* REQUIRES: AddinShmemInitLock held. */
void
lsm_worker_shmem_init(void)
{
	bool		found;

	workers = ShmemInitStruct("lsmam workers", lsm_worker_shmem_bytes(), &found);
	if (found)
		return;
	for (int i = 0; i < MAX_WORKERS; i++)
		pg_atomic_init_u32(&workers->procs[i], 0);
}

static void
worker_withdraw(int code, Datum arg)
{
	pg_atomic_write_u32(&workers->procs[my_worker_no], 0);
}

/* False: there is no shared memory, which the log says. */
bool
lsm_worker_register_latch(int worker_no)
{
	if (!lsm_control_require(WARNING))
		return false;
	if (worker_no < 0 || worker_no >= MAX_WORKERS)
		return true;			/* comes by once per second anyway */
	my_worker_no = worker_no;
	before_shmem_exit(worker_withdraw, (Datum) 0);
	pg_atomic_write_u32(&workers->procs[worker_no], MyProcNumber + 1);
	pg_memory_barrier();
	return true;
}

void
lsm_worker_wake(void)
{
	for (int i = 0; i < MAX_WORKERS; i++)
	{
		uint32		proc = pg_atomic_read_u32(&workers->procs[i]);

		if (proc != 0 && i != my_worker_no)
			SetLatch(&ProcGlobal->allProcs[proc - 1].procLatch);
	}
}

void
lsm_worker_wake_first(void)
{
	uint32		proc = pg_atomic_read_u32(&workers->procs[0]);

	if (proc != 0)
		SetLatch(&ProcGlobal->allProcs[proc - 1].procLatch);
}

bool
lsm_worker_runs(int worker_no)
{
	return pg_atomic_read_u32(&workers->procs[worker_no]) != 0;
}

bool
lsm_compaction_worker_runs(void)
{
	for (int i = 1; i < Min(1 + lsm_compaction_workers, MAX_WORKERS); i++)
	{
		if (lsm_worker_runs(i))
			return true;
	}
	return false;
}

/* Of this process; -1: it is no worker. */
int
lsm_worker_number(void)
{
	return my_worker_no;
}
