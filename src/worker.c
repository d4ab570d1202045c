/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  Background workers.  Worker 0 prefers flushes, so that a flush never
 *	  queues behind a long compaction; the others compact.  One without work
 *	  logs files of others.
 *
 * A worker attaches to no database (a connected one would block DROP DATABASE
 * and CREATE DATABASE ... TEMPLATE), but it is a full backend otherwise.  Each
 * round runs in a transaction of its own: heavyweight locks and resources
 * taken by the round then go away at its end and after an error in the way
 * every backend's do.  The transaction gets no xid and takes no snapshot, so
 * it holds back nobody's xmin.
 *
 * An error ends the round.  If the round knows whose it was (one tree's job,
 * one chore: background.c), that one rests for a while, the error is a WARNING
 * in the server log, and the next round goes on with everything else at once.
 *
 * SIGTERM comes as a request to cancel: a job in progress ends by an error,
 * cleans up after itself, and the worker leaves without a word, as core's
 * launchers do.  The exit code is 1, by which the postmaster starts the worker
 * again if it was not the server's end that was asked for
 * (pg_terminate_backend).
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
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "lsmam.h"
#include "tree/tree.h"

#define LSM_WORKER_NAP_MS			1000
#define LSM_WORKER_RESTART_SECONDS	2

/*
 * Core says of a worker for which there is no room that there are too many
 * workers, and not what that means.
 */
static void
warn_of_missing_workers(int wanted)
{
	int			n = lsm_bgworkers_registered("lsmam");

	if (n < wanted)
		ereport(WARNING,
				(errmsg("%d of %d background workers of lsmam could not be registered",
						wanted - n, wanted),
				 errdetail("Sessions that write to lsm tables and indexes do the work of those that are missing."),
				 errhint("Increase max_worker_processes.")));
}

/* From _PG_init: before MaxBackends is computed. */
void
lsm_worker_register(void)
{
	int			nworkers = 1 + lsm_compaction_workers;

	/* forks and sorted files are not together yet */
	if (IsBinaryUpgrade)
		return;

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
		if (i == 0)
		{
			strlcpy(worker.bgw_name, "lsm flush worker", BGW_MAXLEN);
			strlcpy(worker.bgw_type, "lsm flush worker", BGW_MAXLEN);
		}
		else
		{
			snprintf(worker.bgw_name, BGW_MAXLEN, "lsm compaction worker %d", i);
			strlcpy(worker.bgw_type, "lsm compaction worker", BGW_MAXLEN);
		}
		worker.bgw_main_arg = Int32GetDatum(i);
		RegisterBackgroundWorker(&worker);
	}
	warn_of_missing_workers(nworkers);
}

/*
 * A snapshot, to be dropped at once.  TransactionIdIsInProgress() says "no" of
 * whatever is before RecentXmin, which is that of the process's last snapshot.
 * A worker that took none for 2^31 transaction ids (or none at all: RecentXmin
 * begins with 3) would hear it of transactions that run, and forget their rows
 * as those of aborted ones.  To keep the snapshot would hold back horizons, and
 * what default_transaction_isolation may ask for keeps it.
 */
static void
refresh_recent_xmin(void)
{
	XactIsoLevel = XACT_READ_COMMITTED;
	PushActiveSnapshot(GetTransactionSnapshot());
	PopActiveSnapshot();
}

/*
 * One round in its own transaction.  Memory of the round is the transaction's.
 */
static bool
worker_round(int worker_no)
{
	bool		busy;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	refresh_recent_xmin();
	busy = lsm_worker_round(worker_no);
	CommitTransactionCommand();
	return busy;
}

/*
 * How long the worker sleeps after an error that nobody is to blame for, in
 * turns
 */
#define LSM_WORKER_REST_MS			1000
#define LSM_WORKER_REST_TURN_MS		50

/*
 * SIGTERM.  CHECK_FOR_INTERRUPTS() raises an error wherever the job is, and
 * the main loop ends instead of reporting it.
 */
static void
worker_shutdown_requested(SIGNAL_ARGS)
{
	int			save_errno = errno;

	ShutdownRequestPending = true;
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/* False: nobody knows what the error was about. */
static bool
worker_recover(MemoryContext context)
{
	bool		known;

	/* PG_TRY is not used here, so the error stack is reset by hand */
	error_context_stack = NULL;
	HOLD_INTERRUPTS();

	/* that of a request to end is its doing, or of no interest any more */
	known = lsm_worker_failed(context, !ShutdownRequestPending);
	if (!known && !ShutdownRequestPending)
		EmitErrorReport();

	/* locks, buffers, LWLocks, resource owners: everything a backend aborts */
	AbortCurrentTransaction();
	lsm_tree_abort_cleanup();

	/* session-level locks are not the transaction's to release */
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);

	MemoryContextSwitchTo(context);
	FlushErrorState();
	MemoryContextReset(context);

	RESUME_INTERRUPTS();
	return known;
}

static void
worker_exit_if_requested(void)
{
	if (ShutdownRequestPending)
	{
		elog(DEBUG1, "%s shutting down", MyBgworkerEntry->bgw_name);
		proc_exit(1);
	}
}

/*
 * The same error is likely to come again (full disk): do not fill the server
 * log with it, nor be woken by every writer that wants a flush.
 */
static void
worker_rest(void)
{
	for (int ms = 0; ms < LSM_WORKER_REST_MS; ms += LSM_WORKER_REST_TURN_MS)
	{
		worker_exit_if_requested();
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LSM_WORKER_REST_TURN_MS, LSM_WAIT_EVENT("LsmWorkerPause"));
	}
}

/*
 * What is meant for sessions in postgresql.conf must not end a long job, which
 * is one transaction.  Autovacuum does the same.
 */
static void
worker_disable_timeouts(void)
{
	static const char *const timeouts[] = {
		"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout",
		"idle_session_timeout", "transaction_timeout"
	};

	for (int i = 0; i < lengthof(timeouts); i++)
	{
		/* the last one is new in 17 */
		if (GetConfigOption(timeouts[i], true, false) != NULL)
			SetConfigOption(timeouts[i], "0", PGC_SUSET, PGC_S_OVERRIDE);
	}
}

void
lsm_worker_main(Datum main_arg)
{
	int			worker_no = DatumGetInt32(main_arg);
	sigjmp_buf	local_sigjmp_buf;
	MemoryContext context;

	/* not a request to cancel yet: there is nobody to catch the error */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	worker_disable_timeouts();

	context = AllocSetContextCreate(TopMemoryContext, "lsm worker",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);

	/* it would not come to be by another start */
	if (!lsm_worker_register_latch(worker_no))
		proc_exit(0);

	if (sigsetjmp(local_sigjmp_buf, 1) != 0)
	{
		bool		known = worker_recover(context);

		worker_exit_if_requested();
		if (!known)
			worker_rest();
	}
	PG_exception_stack = &local_sigjmp_buf;
	pqsignal(SIGTERM, worker_shutdown_requested);

	for (;;)
	{
		bool		busy;

		ResetLatch(MyLatch);
		worker_exit_if_requested();
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
							 LSM_WORKER_NAP_MS, LSM_WAIT_EVENT("LsmWorkerMain"));
	}
}
