/*-------------------------------------------------------------------------
 *
 * vacuum_team.c
 *	  VACUUM of an lsm table: indexes in several processes.
 *
 * As VACUUM of a heap does it, and with the same settings: by hand only, not by
 * autovacuum; as many processes as there are indexes worth one, the leader
 * among them, up to PARALLEL or max_parallel_maintenance_workers; each takes the
 * next index when it has finished one.  Core's own team wants the TIDs of dead
 * rows.  Those of rows that are gone are not known here, so the set of live ones
 * is shared.
 *
 * Indexes of lsm are taken by anyone.  Of others, those whose method lets core
 * do so; the leader takes the rest first.
 *
 * What others do while VACUUM is at work meets several processes in place of
 * one, each at another index.  Nothing else is shared but costs (for
 * vacuum_cost_delay), results, and the number of the next index.
 *
 * Locks: workers take those that the leader holds, in its lock group.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/paths.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/rel.h"

#include "am/am.h"
#include "table/dead_entries.h"

/* Keys of what is in shared memory */
#define KEY_SHARED			UINT64CONST(0x15AC000000000001)
#define KEY_LIVE			UINT64CONST(0x15AC000000000002)
#define KEY_QUERY			UINT64CONST(0x15AC000000000003)
#define KEY_WAL_USAGE		UINT64CONST(0x15AC000000000004)
#define KEY_BUFFER_USAGE	UINT64CONST(0x15AC000000000005)

/* An index, and what became of it */
typedef struct Task
{
	Oid			relid;
	bool		shared;			/* anyone may take it */
	bool		has_stats;
	IndexBulkDeleteResult stats;
} Task;

typedef struct SharedVacuum
{
	Oid			table;
	TransactionId oldest_xmin;
	uint64		row_limit;
	TransactionId newest_deleter;
	double		rows;
	bool		flush_first;

	pg_atomic_uint32 cost_balance;
	pg_atomic_uint32 active_workers;
	pg_atomic_uint32 next;		/* task */
	int			ntasks;
	Task		tasks[FLEXIBLE_ARRAY_MEMBER];
} SharedVacuum;

extern PGDLLEXPORT void lsm_vacuum_worker(dsm_segment *seg, shm_toc *toc);

static void
do_task(LsmDeadEntries *dead, const SharedVacuum *shared, Task *task, Relation index,
		BufferAccessStrategy strategy)
{
	IndexBulkDeleteResult *stats;

	stats = lsm_delete_dead_entries(dead, index, shared->flush_first, NULL, shared->rows,
									strategy);
	lsm_progress_vacuum_index_done();
	task->has_stats = stats != NULL;
	if (stats != NULL)
		task->stats = *stats;
}

/* The next index that anyone may take; NULL: all are taken. */
static Task *
next_task(SharedVacuum *shared)
{
	for (;;)
	{
		uint32		next = pg_atomic_fetch_add_u32(&shared->next, 1);

		CHECK_FOR_INTERRUPTS();
		if (next >= (uint32) shared->ntasks)
			return NULL;
		if (shared->tasks[next].shared)
			return &shared->tasks[next];
	}
}

/* Costs are of all processes together from here on. */
static void
share_costs(SharedVacuum *shared)
{
	VacuumSharedCostBalance = &shared->cost_balance;
	VacuumActiveNWorkers = &shared->active_workers;
	VacuumCostBalanceLocal = 0;
	pg_atomic_add_fetch_u32(VacuumActiveNWorkers, 1);
}

static void
unshare_costs(void)
{
	pg_atomic_sub_fetch_u32(VacuumActiveNWorkers, 1);
	VacuumSharedCostBalance = NULL;
	VacuumActiveNWorkers = NULL;
}

/* The entry point of workers */
void
lsm_vacuum_worker(dsm_segment *seg, shm_toc *toc)
{
	SharedVacuum *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_VACUUM);
	LsmDeadEntries dead;
	Relation	table;
	Task	   *task;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	table = table_open(shared->table, ShareUpdateExclusiveLock);
	lsm_dead_entries_init(&dead, table, lsm_table_tree(table), shared->oldest_xmin,
						  shared->row_limit);
	lsm_live_attach(&dead.live, shm_toc_lookup(toc, KEY_LIVE, false));
	lsm_note_deleter(&dead, shared->newest_deleter);

	lsm_vacuum_update_costs();
	VacuumCostBalance = 0;
	share_costs(shared);
	InstrStartParallelQuery();
	while ((task = next_task(shared)) != NULL)
	{
		Relation	index = index_open(task->relid, RowExclusiveLock);

		do_task(&dead, shared, task, index, strategy);
		index_close(index, RowExclusiveLock);
	}
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);
	unshare_costs();
	table_close(table, ShareUpdateExclusiveLock);
	FreeAccessStrategy(strategy);
}

/* ---- the leader ---- */

/* Of an index over so many rows: may workers take it, and is it worth one? */
static bool
is_shared(Relation index, double rows)
{
	double		pages = lsm_relation_is_index(index) ?
		rows * MAXALIGN(sizeof(IndexTupleData) + sizeof(int64)) / BLCKSZ :
		RelationGetNumberOfBlocks(index);

	if (pages < min_parallel_index_scan_size)
		return false;
	return lsm_relation_is_index(index) ||
		((index->rd_indam->amparallelvacuumoptions & VACUUM_OPTION_PARALLEL_BULKDEL) != 0 &&
		 !index->rd_indam->amusemaintenanceworkmem);
}

/* Workers that are wanted beside the leader */
static int
count_workers(const VacuumParams *params, int nindexes, Relation *indexes, double rows)
{
	int			n = -1;			/* the leader */

	/* 19's autovacuum may ask for workers, which would not share its pace */
	if (params->nworkers < 0 || AmAutoVacuumWorkerProcess() ||
		IsInParallelMode() || !IsUnderPostmaster)
		return 0;
	for (int i = 0; i < nindexes; i++)
	{
		if (RelationUsesLocalBuffers(indexes[i]))
			return 0;
		n += is_shared(indexes[i], rows);
	}
	if (params->nworkers > 0)
		n = Min(n, params->nworkers);
	return Max(Min(n, max_parallel_maintenance_workers), 0);
}

static Size
shared_bytes(int nindexes)
{
	return add_size(offsetof(SharedVacuum, tasks), mul_size(nindexes, sizeof(Task)));
}

/* Ask for the room that fill_shared() needs. */
static void
estimate_shared(ParallelContext *pcxt, const LsmDeadEntries *dead, int nindexes)
{
	shm_toc_estimator *estimator = &pcxt->estimator;

	shm_toc_estimate_chunk(estimator, shared_bytes(nindexes));
	shm_toc_estimate_chunk(estimator, lsm_live_flat_bytes(&dead->live));
	shm_toc_estimate_chunk(estimator, mul_size(sizeof(WalUsage), pcxt->nworkers));
	shm_toc_estimate_chunk(estimator, mul_size(sizeof(BufferUsage), pcxt->nworkers));
	shm_toc_estimate_keys(estimator, 4);
	if (debug_query_string == NULL)
		return;
	shm_toc_estimate_chunk(estimator, strlen(debug_query_string) + 1);
	shm_toc_estimate_keys(estimator, 1);
}

static SharedVacuum *
fill_shared(ParallelContext *pcxt, const LsmDeadEntries *dead, int nindexes,
			Relation *indexes, double rows)
{
	SharedVacuum *shared = shm_toc_allocate(pcxt->toc, shared_bytes(nindexes));
	char	   *flat = shm_toc_allocate(pcxt->toc, lsm_live_flat_bytes(&dead->live));

	memset(shared, 0, shared_bytes(nindexes));
	shared->table = RelationGetRelid(dead->table);
	shared->oldest_xmin = dead->oldest_xmin;
	shared->row_limit = dead->row_limit;
	shared->newest_deleter = dead->newest_deleter;
	shared->rows = rows;
	pg_atomic_init_u32(&shared->cost_balance, 0);
	pg_atomic_init_u32(&shared->active_workers, 0);
	pg_atomic_init_u32(&shared->next, 0);
	shared->ntasks = nindexes;
	for (int i = 0; i < nindexes; i++)
	{
		shared->tasks[i].relid = RelationGetRelid(indexes[i]);
		shared->tasks[i].shared = is_shared(indexes[i], rows);
	}
	shm_toc_insert(pcxt->toc, KEY_SHARED, shared);
	lsm_live_flatten(&dead->live, flat);
	shm_toc_insert(pcxt->toc, KEY_LIVE, flat);
	if (debug_query_string != NULL)
	{
		char	   *query = shm_toc_allocate(pcxt->toc, strlen(debug_query_string) + 1);

		strcpy(query, debug_query_string);
		shm_toc_insert(pcxt->toc, KEY_QUERY, query);
	}
	return shared;
}

/* The leader's part: what only it may do, then as everyone */
static void
lead(LsmDeadEntries *dead, SharedVacuum *shared, Relation *indexes,
	 BufferAccessStrategy strategy)
{
	Task	   *task;

	for (int i = 0; i < shared->ntasks; i++)
	{
		if (!shared->tasks[i].shared)
			do_task(dead, shared, &shared->tasks[i], indexes[i], strategy);
	}
	while ((task = next_task(shared)) != NULL)
		do_task(dead, shared, task, indexes[task - shared->tasks], strategy);
}

/* See dead_entries.h. */
bool
lsm_vacuum_team(LsmDeadEntries *dead, int nindexes, Relation *indexes, bool flush_first,
				IndexBulkDeleteResult **stats, double rows, const VacuumParams *params,
				BufferAccessStrategy strategy)
{
	int			workers = count_workers(params, nindexes, indexes, rows);
	ParallelContext *pcxt;
	SharedVacuum *shared;
	WalUsage   *wal_usage;
	BufferUsage *buffer_usage;

	if (workers == 0)
		return false;
	EnterParallelMode();
	pcxt = CreateParallelContext("lsmam", "lsm_vacuum_worker", workers);
	estimate_shared(pcxt, dead, nindexes);
	InitializeParallelDSM(pcxt);
	if (pcxt->nworkers == 0 || pcxt->seg == NULL)
	{
		DestroyParallelContext(pcxt);
		ExitParallelMode();
		return false;
	}
	shared = fill_shared(pcxt, dead, nindexes, indexes, rows);
	shared->flush_first = flush_first;
	wal_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(WalUsage), pcxt->nworkers));
	shm_toc_insert(pcxt->toc, KEY_WAL_USAGE, wal_usage);
	buffer_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(BufferUsage), pcxt->nworkers));
	shm_toc_insert(pcxt->toc, KEY_BUFFER_USAGE, buffer_usage);

	/* what the leader owes goes on as everyone's */
	pg_atomic_write_u32(&shared->cost_balance, VacuumCostBalance);
	VacuumCostBalance = 0;
	LaunchParallelWorkers(pcxt);
	ereport((params->options & VACOPT_VERBOSE) != 0 ? INFO : DEBUG2,
			(errmsg(ngettext("launched %d parallel vacuum worker for index vacuuming (planned: %d)",
							 "launched %d parallel vacuum workers for index vacuuming (planned: %d)",
							 pcxt->nworkers_launched),
					pcxt->nworkers_launched, workers)));
	share_costs(shared);
	PG_TRY();
	{
		lead(dead, shared, indexes, strategy);
	}
	PG_FINALLY();
	{
		unshare_costs();
	}
	PG_END_TRY();
	WaitForParallelWorkersToFinish(pcxt);
	for (int i = 0; i < pcxt->nworkers_launched; i++)
		InstrAccumParallelQuery(&buffer_usage[i], &wal_usage[i]);
	VacuumCostBalance = pg_atomic_read_u32(&shared->cost_balance);
	for (int i = 0; i < nindexes; i++)
	{
		if (!shared->tasks[i].has_stats)
			continue;
		stats[i] = palloc(sizeof(IndexBulkDeleteResult));
		*stats[i] = shared->tasks[i].stats;
	}
	DestroyParallelContext(pcxt);
	ExitParallelMode();
	return true;
}
