/*-------------------------------------------------------------------------
 *
 * parallel_build.c
 *	  CREATE INDEX by several processes: a parallel scan of the table.
 *
 * As nbtree does it: each process scans pieces of the table, the leader too,
 * forms entries and sorts them into a run of its own.  The leader merges the
 * runs and writes the sorted files.  So uniqueness, which is decided between
 * neighbours, is decided in one place.
 *
 * The index has its tree before workers start, and its tree stays empty until
 * the leader has merged: workers read of the index no more than its definition
 * and the rules of its keys.  Which rows a worker finds does not depend on what
 * flush and compaction do to the table meanwhile: pieces of the scan are ranges
 * of row identifiers, and each process's view has all rows, wherever they are.
 *
 * Locks: workers take those that the leader holds, in its lock group.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "index/build.h"

/* Keys of what is in shared memory */
#define KEY_SHARED			UINT64CONST(0x15A0000000000001)
#define KEY_RUNS			UINT64CONST(0x15A0000000000002)
#define KEY_QUERY			UINT64CONST(0x15A0000000000003)
#define KEY_WAL_USAGE		UINT64CONST(0x15A0000000000004)
#define KEY_BUFFER_USAGE	UINT64CONST(0x15A0000000000005)

typedef struct SharedBuild
{
	Oid			table;
	Oid			index;
	bool		concurrent;
	int			participants;	/* as many as were asked for */

	slock_t		mutex;			/* for what follows */
	ConditionVariable done;
	int			ndone;
	LsmBuildPart all;
	/* the table's ParallelTableScanDesc follows */
} SharedBuild;

struct LsmBuildTeam
{
	ParallelContext *pcxt;
	SharedBuild *shared;
	LsmSharedRuns *runs;
	Snapshot	snapshot;
	int			participants;	/* as many as there are */
	WalUsage   *wal_usage;
	BufferUsage *buffer_usage;
};

extern PGDLLEXPORT void lsm_index_build_worker(dsm_segment *seg, shm_toc *toc);

static inline ParallelTableScanDesc
shared_scan(SharedBuild *shared)
{
	return (ParallelTableScanDesc) ((char *) shared + BUFFERALIGN(sizeof(SharedBuild)));
}

/* What every process does: a run of sorted entries, and what it has found */
static void
take_part(SharedBuild *shared, LsmSharedRuns *runs, int number, Relation table,
		  Relation index, int sort_kb, bool progress)
{
	LsmSortPart mine = {.runs = runs,.number = number};
	IndexInfo  *info = BuildIndexInfo(index);
	LsmBuildSort *sort;
	LsmBuildPart part;

	info->ii_Concurrent = shared->concurrent;
	sort = lsm_build_sort_begin(lsm_key_spec(index), sort_kb, &mine);
	lsm_build_scan(table, index, info, sort,
				   table_beginscan_parallel(table, shared_scan(shared), SO_NONE), progress, &part);
	lsm_build_sort_perform(sort);

	SpinLockAcquire(&shared->mutex);
	shared->ndone++;
	shared->all.rows += part.rows;
	shared->all.entries += part.entries;
	shared->all.bytes += part.bytes;
	shared->all.broken_hot_chain |= part.broken_hot_chain;
	SpinLockRelease(&shared->mutex);
	ConditionVariableSignal(&shared->done);
	lsm_build_sort_end(sort);
}

/* The entry point of workers */
void
lsm_index_build_worker(dsm_segment *seg, shm_toc *toc)
{
	SharedBuild *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	LsmSharedRuns *runs = shm_toc_lookup(toc, KEY_RUNS, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	LOCKMODE	table_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
	LOCKMODE	index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	table;
	Relation	index;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	table = table_open(shared->table, table_lock);
	index = index_open(shared->index, index_lock);
	lsm_shared_runs_attach(runs, seg);
	InstrStartParallelQuery();
	/* the leader is number 0 */
	take_part(shared, runs, 1 + ParallelWorkerNumber, table, index,
			  maintenance_work_mem / shared->participants, false);
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);
	index_close(index, index_lock);
	table_close(table, table_lock);
}

/* Ask for the room that fill_shared() needs. */
static void
estimate_shared(LsmBuildTeam *team, Relation table)
{
	shm_toc_estimator *estimator = &team->pcxt->estimator;
	int			workers = team->pcxt->nworkers;

	shm_toc_estimate_chunk(estimator,
						   add_size(BUFFERALIGN(sizeof(SharedBuild)),
									table_parallelscan_estimate(table, team->snapshot)));
	shm_toc_estimate_chunk(estimator, lsm_shared_runs_bytes(workers + 1));
	shm_toc_estimate_chunk(estimator, mul_size(sizeof(WalUsage), workers));
	shm_toc_estimate_chunk(estimator, mul_size(sizeof(BufferUsage), workers));
	shm_toc_estimate_keys(estimator, 4);
	if (debug_query_string == NULL)
		return;
	shm_toc_estimate_chunk(estimator, strlen(debug_query_string) + 1);
	shm_toc_estimate_keys(estimator, 1);
}

static void
fill_shared(LsmBuildTeam *team, Relation table, Relation index, bool concurrent)
{
	ParallelContext *pcxt = team->pcxt;
	SharedBuild *shared;

	shared = shm_toc_allocate(pcxt->toc,
							  add_size(BUFFERALIGN(sizeof(SharedBuild)),
									   table_parallelscan_estimate(table, team->snapshot)));
	memset(shared, 0, sizeof(SharedBuild));
	shared->table = RelationGetRelid(table);
	shared->index = RelationGetRelid(index);
	shared->concurrent = concurrent;
	shared->participants = pcxt->nworkers + 1;
	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->done);
	table_parallelscan_initialize(table, shared_scan(shared), team->snapshot);
	shm_toc_insert(pcxt->toc, KEY_SHARED, shared);
	team->shared = shared;

	team->runs = shm_toc_allocate(pcxt->toc, lsm_shared_runs_bytes(pcxt->nworkers + 1));
	lsm_shared_runs_init(team->runs, pcxt->nworkers + 1, pcxt->seg);
	shm_toc_insert(pcxt->toc, KEY_RUNS, team->runs);

	team->wal_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(WalUsage), pcxt->nworkers));
	shm_toc_insert(pcxt->toc, KEY_WAL_USAGE, team->wal_usage);
	team->buffer_usage = shm_toc_allocate(pcxt->toc,
										  mul_size(sizeof(BufferUsage), pcxt->nworkers));
	shm_toc_insert(pcxt->toc, KEY_BUFFER_USAGE, team->buffer_usage);
	if (debug_query_string != NULL)
	{
		char	   *query = shm_toc_allocate(pcxt->toc, strlen(debug_query_string) + 1);

		strcpy(query, debug_query_string);
		shm_toc_insert(pcxt->toc, KEY_QUERY, query);
	}
}

/* Without a word of what workers have used, if none ever ran */
static void
dismiss(LsmBuildTeam *team)
{
	if (IsMVCCSnapshot(team->snapshot))
		UnregisterSnapshot(team->snapshot);
	DestroyParallelContext(team->pcxt);
	ExitParallelMode();
	pfree(team);
}

LsmBuildTeam *
lsm_build_team_begin(Relation table, Relation index, IndexInfo *info, int workers)
{
	LsmBuildTeam *team = palloc0(sizeof(LsmBuildTeam));
	ParallelContext *pcxt;

	EnterParallelMode();
	team->pcxt = pcxt = CreateParallelContext("$libdir/lsmam", "lsm_index_build_worker",
											  workers);
	team->snapshot = SnapshotAny;
	if (info->ii_Concurrent)
		team->snapshot = RegisterSnapshot(GetTransactionSnapshot());
	estimate_shared(team, table);
	InitializeParallelDSM(pcxt);
	if (pcxt->seg == NULL)
	{
		dismiss(team);
		return NULL;
	}
	fill_shared(team, table, index, info->ii_Concurrent);
	LaunchParallelWorkers(pcxt);
	if (pcxt->nworkers_launched == 0)
	{
		WaitForParallelWorkersToFinish(pcxt);
		dismiss(team);
		return NULL;
	}
	team->participants = pcxt->nworkers_launched + 1;
	take_part(team->shared, team->runs, 0, table, index,
			  maintenance_work_mem / team->participants, true);

	/* a worker that has failed to start must not be waited for */
	WaitForParallelWorkersToAttach(pcxt);
	return team;
}

LsmBuildSort *
lsm_build_team_join(LsmBuildTeam *team, const LsmKeySpec *spec, LsmBuildPart *all)
{
	SharedBuild *shared = team->shared;
	LsmSortPart reader = {.runs = team->runs,.number = -1};

	for (;;)
	{
		bool		done;

		SpinLockAcquire(&shared->mutex);
		done = shared->ndone == team->participants;
		*all = shared->all;
		SpinLockRelease(&shared->mutex);
		if (done)
			break;
		ConditionVariableSleep(&shared->done, WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN);
	}
	ConditionVariableCancelSleep();

	return lsm_build_sort_begin(spec, maintenance_work_mem, &reader);
}

void
lsm_build_team_end(LsmBuildTeam *team)
{
	WaitForParallelWorkersToFinish(team->pcxt);
	for (int i = 0; i < team->pcxt->nworkers_launched; i++)
		InstrAccumParallelQuery(&team->buffer_usage[i], &team->wal_usage[i]);
	dismiss(team);
}
