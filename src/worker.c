/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  Background workers.  Worker 0 prefers flushes, so that a flush never queues
 *	  behind a long compaction; the others compact.  One without work logs files of others.
 *
 * A worker attaches to no database (a connected one would block DROP DATABASE
 * and CREATE DATABASE ... TEMPLATE), but it is a full backend otherwise.  Each round
 * runs in a transaction of its own: heavyweight locks and resources taken
 * by the round then go away at its end and after an error in the way every
 * backend's do.  The transaction gets no xid and takes no snapshot, so it holds
 * back nobody's xmin.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/ps_status.h"
#include "utils/timestamp.h"

#include "lsmam.h"

#define LSM_WORKER_NAP_MS			1000
#define LSM_WORKER_RESTART_SECONDS	2

/* From _PG_init: before MaxBackends is computed. */
void
lsm_worker_register(void)
{
	int			nworkers = 1 + lsm_compaction_workers;

	for (int i = 0; i < nworkers; i++)
	{
		BackgroundWorker worker;

		memset(&worker, 0, sizeof(worker));
		worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
			BGWORKER_BACKEND_DATABASE_CONNECTION;
		worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
		worker.bgw_restart_time = LSM_WORKER_RESTART_SECONDS;
		strlcpy(worker.bgw_library_name, "lsmam", BGW_MAXLEN);
		strlcpy(worker.bgw_function_name, "lsm_worker_main", BGW_MAXLEN);
		strlcpy(worker.bgw_type, "lsm worker", BGW_MAXLEN);
		if (i == 0)
			strlcpy(worker.bgw_name, "lsm flush worker", BGW_MAXLEN);
		else
			snprintf(worker.bgw_name, BGW_MAXLEN, "lsm compaction worker %d", i);
		worker.bgw_main_arg = Int32GetDatum(i);
		RegisterBackgroundWorker(&worker);
	}
}

/* One round in its own transaction.  Memory of the round is the transaction's. */
static bool
worker_round(int worker_no)
{
	bool		busy;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	busy = lsm_worker_round(worker_no);
	CommitTransactionCommand();
	return busy;
}

static void
worker_recover(MemoryContext context)
{
	/* PG_TRY is not used here, so the error stack is reset by hand */
	error_context_stack = NULL;
	HOLD_INTERRUPTS();

	EmitErrorReport();

	/* locks, buffers, LWLocks, resource owners: everything a backend aborts */
	AbortCurrentTransaction();
	lsm_tree_abort_cleanup();

	/* session-level locks are not the transaction's to release */
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);

	MemoryContextSwitchTo(context);
	FlushErrorState();
	MemoryContextResetAndDeleteChildren(context);

	RESUME_INTERRUPTS();
}

void
lsm_worker_main(Datum main_arg)
{
	int			worker_no = DatumGetInt32(main_arg);
	sigjmp_buf	local_sigjmp_buf;
	MemoryContext context;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	context = AllocSetContextCreate(TopMemoryContext, "lsm worker",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);

	lsm_worker_announce(worker_no);

	if (sigsetjmp(local_sigjmp_buf, 1) != 0)
	{
		worker_recover(context);

		/*
		 * The same error is likely to come again (full disk): do not fill the
		 * server log with it, nor be woken by every writer that wants a
		 * flush.
		 */
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000L,
						 PG_WAIT_EXTENSION);
	}
	PG_exception_stack = &local_sigjmp_buf;

	for (;;)
	{
		bool		busy;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		busy = worker_round(worker_no);
		MemoryContextSwitchTo(context);
		MemoryContextReset(context);
		pgstat_report_stat(false);

		if (!busy)
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 LSM_WORKER_NAP_MS, PG_WAIT_EXTENSION);
	}
}
