/*-------------------------------------------------------------------------
 *
 * verify_team.c
 *	  lsm_verify() by several processes.
 *
 * Twice: all files of all trees; and when what was found in them is known, the
 * comparisons.  Of the latter each index is a complete scan and a walk through
 * its entries, a task for one process each, and the rows of the table, of which
 * each process takes pieces.  The leader does what a worker does, so that
 * nothing depends on how many there are.
 *
 * Workers find the leader's snapshot, its user with its restrictions, and its
 * settings.  What they find wrong they write to temporary files (a shared
 * tuplestore), which the leader reads when all have ended without an error.
 *
 * An index whose functions may not run in workers is compared by the leader
 * alone, outside parallel mode.  They are those of expressions and predicate,
 * the equality operators, and the support functions, of which PostgreSQL looks
 * at none when it plans the build of an index.
 *
 * Locks: workers take those that the leader holds, in its lock group.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_proc_d.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/paths.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/sharedfileset.h"
#include "tcop/tcopprot.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "index/index.h"
#include "sqlfunc/functions.h"
#include "sqlfunc/verify.h"

/* Keys of what is in shared memory */
#define KEY_SHARED			UINT64CONST(0x15A1000000000001)
#define KEY_TASKS			UINT64CONST(0x15A1000000000002)
#define KEY_NOTES			UINT64CONST(0x15A1000000000003)
#define KEY_QUERY			UINT64CONST(0x15A1000000000004)
#define KEY_WAL_USAGE		UINT64CONST(0x15A1000000000005)
#define KEY_BUFFER_USAGE	UINT64CONST(0x15A1000000000006)
#define KEY_SCAN			UINT64CONST(0x15A1000000010000)	/* + task */

/* An index to be compared */
typedef struct IndexTask
{
	Oid			relid;
	int			relation;
} IndexTask;

typedef struct SharedVerify
{
	Oid			table;
	bool		files;			/* tasks are LsmVerifyFile, else IndexTask */
	int			ntasks;
	int			participants;	/* as many as were asked for */
	pg_atomic_uint32 next;
	SharedFileSet fileset;
} SharedVerify;

/* One process's part */
typedef struct Part
{
	SharedVerify *shared;
	shm_toc    *toc;
	const void *tasks;
	LsmVerifyNotes *notes;
	Relation	table;
	Snapshot	snapshot;
} Part;

/* What a team is for */
typedef struct Job
{
	LsmVerify  *verify;
	bool		files;
	const void *tasks;
	Size		tasks_bytes;
	int			ntasks;
} Job;

extern PGDLLEXPORT void lsm_verify_worker(dsm_segment *seg, shm_toc *toc);

/* ---- may workers do it? ---- */

static bool
is_unsafe_function(Oid function, void *context)
{
	return func_parallel(function) != PROPARALLEL_SAFE;
}

static bool
is_unsafe_node(Node *node, void *context)
{
	if (node == NULL)
		return false;

	/* a domain's constraints may be anything */
	if (IsA(node, CoerceToDomain) || IsA(node, NextValueExpr))
		return true;
	if (check_functions_in_node(node, is_unsafe_function, context))
		return true;
	return expression_tree_walker(node, is_unsafe_node, context);
}

static bool
is_parallel_safe_index(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		Oid			family = index->rd_opfamily[i];
		Oid			type = index->rd_opcintype[i];
		Oid			equal = get_opfamily_member(family, type, type, BTEqualStrategyNumber);

		if (is_unsafe_function(get_opcode(equal), NULL))
			return false;
		for (int proc = 1; proc <= LSM_NPROCS; proc++)
		{
			Oid			function = index_getprocid(index, i + 1, proc);

			if (OidIsValid(function) && is_unsafe_function(function, NULL))
				return false;
		}
	}
	return !is_unsafe_node((Node *) lsm_owner_expressions(index), NULL) &&
		!is_unsafe_node((Node *) lsm_owner_predicate(index), NULL);
}

/* As many as for a scan of so many bytes, see compute_parallel_worker() */
static int
count_workers(Relation table, uint64 bytes)
{
	uint64		pages = bytes / BLCKSZ;
	uint64		threshold = Max(min_parallel_table_scan_size, 1);
	int			workers = 0;

	if (IsInParallelMode() || !IsNormalProcessingMode() || RelationUsesLocalBuffers(table) ||
		pages < (uint64) min_parallel_table_scan_size)
		return 0;
	do
	{
		workers++;
		threshold *= 3;
	} while (pages >= threshold && workers < max_parallel_maintenance_workers);
	return Min(workers, max_parallel_maintenance_workers);
}

/* ---- each process's part ---- */

/* False: all tasks are taken. */
static bool
next_task(SharedVerify *shared, int ntasks, int *task)
{
	uint32		next = pg_atomic_fetch_add_u32(&shared->next, 1);

	CHECK_FOR_INTERRUPTS();
	*task = (int) next;
	return next < (uint32) ntasks;
}

static void
take_files(Part *part)
{
	const LsmVerifyFile *files = part->tasks;
	Relation	rel = NULL;
	int			task;

	lsm_verify_progress_files(&part->notes->progress, part->shared->ntasks);
	while (next_task(part->shared, part->shared->ntasks, &task))
	{
		if (rel == NULL || RelationGetRelid(rel) != files[task].relid)
		{
			if (rel != NULL)
				relation_close(rel, AccessShareLock);
			rel = relation_open(files[task].relid, AccessShareLock);
		}
		lsm_verify_one_file(part->notes, &files[task], rel);
		lsm_verify_progress_file(&part->notes->progress, files[task].relid);
	}
	if (rel != NULL)
		relation_close(rel, AccessShareLock);
}

static void
compare_index(Part *part, const IndexTask *task, bool with_scan, bool with_entries,
			  TableScanDesc rows)
{
	Relation	index = index_open(task->relid, AccessShareLock);
	LsmIndexCheck *check;

	check = lsm_index_check_begin(part->notes, task->relation, part->table, index,
								  part->snapshot,
								  maintenance_work_mem / part->shared->participants);
	if (with_scan)
		lsm_index_check_scan(check);
	if (with_entries)
		lsm_index_check_entries(check);
	if (rows != NULL)
		lsm_index_check_rows(check, rows);
	lsm_index_check_end(check);
	index_close(index, AccessShareLock);
}

/* What cannot be divided first; who has finished helps with the rows. */
static void
take_indexes(Part *part)
{
	const IndexTask *indexes = part->tasks;
	int			n = part->shared->ntasks;
	int			task;

	while (next_task(part->shared, 2 * n, &task))
		compare_index(part, &indexes[task / 2], task % 2 == 0, task % 2 != 0, NULL);
	for (int i = 0; i < n; i++)
	{
		ParallelTableScanDesc scan = shm_toc_lookup(part->toc, KEY_SCAN + i, false);

		compare_index(part, &indexes[i], false, false,
					  table_beginscan_parallel(part->table, scan, SO_NONE));
	}
}

static void
take_part(Part *part)
{
	if (part->shared->files)
		take_files(part);
	else
		take_indexes(part);
}

/* The entry point of workers */
void
lsm_verify_worker(dsm_segment *seg, shm_toc *toc)
{
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	LsmVerifyNotes notes = {.context = CurrentMemoryContext};
	Part		part = {.toc = toc, .notes = &notes};

	part.shared = shm_toc_lookup(toc, KEY_SHARED, false);
	part.tasks = shm_toc_lookup(toc, KEY_TASKS, false);
	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);

	SharedFileSetAttach(&part.shared->fileset, seg);
	notes.shared = sts_attach(shm_toc_lookup(toc, KEY_NOTES, false),
							  ParallelWorkerNumber + 1, &part.shared->fileset);
	part.table = table_open(part.shared->table, AccessShareLock);
	part.snapshot = GetActiveSnapshot();
	lsm_verify_progress_begin(&notes.progress, part.shared->table);
	InstrStartParallelQuery();
	take_part(&part);
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);
	sts_end_write(notes.shared);
	lsm_verify_progress_end(&notes.progress);
	table_close(part.table, AccessShareLock);
}

/* ---- the leader ---- */

/* Ask for the room that fill_shared() needs. */
static void
estimate_shared(ParallelContext *pcxt, const Job *job)
{
	shm_toc_estimator *estimator = &pcxt->estimator;

	shm_toc_estimate_chunk(estimator, sizeof(SharedVerify));
	shm_toc_estimate_chunk(estimator, job->tasks_bytes);
	shm_toc_estimate_chunk(estimator, sts_estimate(pcxt->nworkers + 1));
	shm_toc_estimate_chunk(estimator, mul_size(sizeof(WalUsage), pcxt->nworkers));
	shm_toc_estimate_chunk(estimator, mul_size(sizeof(BufferUsage), pcxt->nworkers));
	shm_toc_estimate_keys(estimator, 5);
	for (int i = 0; !job->files && i < job->ntasks; i++)
	{
		shm_toc_estimate_chunk(estimator,
							   table_parallelscan_estimate(job->verify->table,
														   job->verify->snapshot));
		shm_toc_estimate_keys(estimator, 1);
	}
	if (debug_query_string == NULL)
		return;
	shm_toc_estimate_chunk(estimator, strlen(debug_query_string) + 1);
	shm_toc_estimate_keys(estimator, 1);
}

static void
fill_scans(ParallelContext *pcxt, const Job *job)
{
	Relation	table = job->verify->table;
	Size		bytes = table_parallelscan_estimate(table, job->verify->snapshot);

	for (int i = 0; i < job->ntasks; i++)
	{
		ParallelTableScanDesc scan = shm_toc_allocate(pcxt->toc, bytes);

		table_parallelscan_initialize(table, scan, job->verify->snapshot);

		/* from the beginning: the first problems are to be the first rows */
		scan->phs_syncscan = false;
		shm_toc_insert(pcxt->toc, KEY_SCAN + i, scan);
	}
}

/* The part of the leader, and room for what workers use */
static void
fill_shared(ParallelContext *pcxt, const Job *job, Part *part,
			SharedTuplestoreAccessor **notes, WalUsage **wal_usage,
			BufferUsage **buffer_usage)
{
	SharedVerify *shared = shm_toc_allocate(pcxt->toc, sizeof(SharedVerify));
	void	   *tasks = shm_toc_allocate(pcxt->toc, job->tasks_bytes);
	SharedTuplestore *store = shm_toc_allocate(pcxt->toc, sts_estimate(pcxt->nworkers + 1));

	memset(shared, 0, sizeof(SharedVerify));
	shared->table = RelationGetRelid(job->verify->table);
	shared->files = job->files;
	shared->ntasks = job->ntasks;
	shared->participants = pcxt->nworkers + 1;
	pg_atomic_init_u32(&shared->next, 0);
	SharedFileSetInit(&shared->fileset, pcxt->seg);
	shm_toc_insert(pcxt->toc, KEY_SHARED, shared);

	memcpy(tasks, job->tasks, job->tasks_bytes);
	shm_toc_insert(pcxt->toc, KEY_TASKS, tasks);
	*notes = sts_initialize(store, pcxt->nworkers + 1, 0, 0, SHARED_TUPLESTORE_SINGLE_PASS,
							&shared->fileset, "lsm_verify");
	shm_toc_insert(pcxt->toc, KEY_NOTES, store);
	if (!job->files)
		fill_scans(pcxt, job);

	*wal_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(WalUsage), pcxt->nworkers));
	shm_toc_insert(pcxt->toc, KEY_WAL_USAGE, *wal_usage);
	*buffer_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(BufferUsage), pcxt->nworkers));
	shm_toc_insert(pcxt->toc, KEY_BUFFER_USAGE, *buffer_usage);
	if (debug_query_string != NULL)
	{
		char	   *query = shm_toc_allocate(pcxt->toc, strlen(debug_query_string) + 1);

		strcpy(query, debug_query_string);
		shm_toc_insert(pcxt->toc, KEY_QUERY, query);
	}
	part->shared = shared;
	part->tasks = tasks;
	part->toc = pcxt->toc;
}

/* False: there is no shared memory for a team, and nothing was done. */
static bool
work_as_team(const Job *job, int workers)
{
	LsmVerify  *verify = job->verify;
	Part		part = {.notes = &verify->notes, .table = verify->table};
	ParallelContext *pcxt;
	SharedTuplestoreAccessor *notes;
	WalUsage   *wal_usage;
	BufferUsage *buffer_usage;
	bool		done;

	EnterParallelMode();
	pcxt = CreateParallelContext("$libdir/lsmam", "lsm_verify_worker", workers);
	estimate_shared(pcxt, job);
	InitializeParallelDSM(pcxt);
	done = pcxt->seg != NULL;
	if (done)
	{
		fill_shared(pcxt, job, &part, &notes, &wal_usage, &buffer_usage);
		LaunchParallelWorkers(pcxt);
		part.snapshot = verify->snapshot;
		take_part(&part);
		WaitForParallelWorkersToFinish(pcxt);
		for (int i = 0; i < pcxt->nworkers_launched; i++)
			InstrAccumParallelQuery(&buffer_usage[i], &wal_usage[i]);
		lsm_verify_take_notes(&verify->notes, notes);
	}
	DestroyParallelContext(pcxt);
	ExitParallelMode();
	return done;
}

void
lsm_verify_files(LsmVerify *verify)
{
	Job			job = {verify, true, verify->files, verify->nfiles * sizeof(LsmVerifyFile),
	verify->nfiles};
	int			workers = Min(count_workers(verify->table, verify->file_bytes),
							  verify->nfiles - 1);
	LsmVerifyFile *file = verify->files;

	if (workers > 0 && work_as_team(&job, workers))
		return;
	lsm_verify_progress_files(&verify->notes.progress, verify->nfiles);
	for (; file < verify->files + verify->nfiles; file++)
	{
		Relation	rel = relation_open(file->relid, NoLock);

		CHECK_FOR_INTERRUPTS();
		lsm_verify_one_file(&verify->notes, file, rel);
		lsm_verify_progress_file(&verify->notes.progress, file->relid);
		relation_close(rel, NoLock);
	}
}

void
lsm_verify_indexes(LsmVerify *verify)
{
	IndexTask  *safe = palloc(Max(verify->nindexes, 1) * sizeof(IndexTask));
	Job			job = {verify, false, safe};
	SharedVerify alone = {.participants = 1};
	Part		part = {.shared = &alone, .notes = &verify->notes, .table = verify->table,
	.snapshot = verify->snapshot};
	int			workers;

	/* of a table that cannot be read, not even the size is to be had */
	if (verify->nindexes == 0)
		return;
	workers = count_workers(verify->table,
							(uint64) RelationGetNumberOfBlocks(verify->table) * BLCKSZ);
	for (int i = 0; workers > 0 && i < verify->nindexes; i++)
	{
		Relation	index = list_nth(verify->relations, verify->indexes[i]);

		if (is_parallel_safe_index(index))
			safe[job.ntasks++] = (IndexTask)
			{
				RelationGetRelid(index), verify->indexes[i]
			};
	}
	job.tasks_bytes = job.ntasks * sizeof(IndexTask);
	if (job.ntasks > 0 && !work_as_team(&job, workers))
		job.ntasks = 0;

	/* the others, or all of them */
	for (int i = 0, done = 0; i < verify->nindexes; i++)
	{
		IndexTask	task = {0, verify->indexes[i]};

		if (done < job.ntasks && safe[done].relation == task.relation)
		{
			done++;
			continue;
		}
		task.relid = RelationGetRelid((Relation) list_nth(verify->relations, task.relation));
		compare_index(&part, &task, true, true,
					  table_beginscan_strat(verify->table, verify->snapshot, 0, NULL, true, false));
	}
	pfree(safe);
}
