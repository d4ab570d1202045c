/*-------------------------------------------------------------------------
 *
 * job_report.c
 *	  What others learn of a job: its progress while it goes on, and when it
 *	  has been published its share in the statistics, and a line in the server
 *	  log if it took long.
 *
 * Locking: ctl->lock, shared, to copy a name for the log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/disk/disk.h"

int			lsm_log_compaction_min_duration = 600000;

void
lsm_job_report_begin(LsmJob *job, LsmProgressCommand command, const LsmJobInput *input)
{
	LsmProgress *progress = &job->report.progress;

	Assert(job->report.number == LSM_PROGRESS_UNKNOWN);
	lsm_progress_init(progress, command, job->tree->rlocator.dbOid, job->ctl->relid);
	progress->level_from = input->level;
	progress->level_to = command == LSM_PROGRESS_BUILD ? LSM_PROGRESS_UNKNOWN :
		command == LSM_PROGRESS_REPAIR ? input->level : job->output.level;
	progress->files_total = input->files;
	progress->entries_total = input->entries;
	progress->entries_done = 0;
	progress->bytes_total = input->bytes;
	progress->files_written = 0;
	progress->bytes_written = 0;
	pg_rusage_init(&job->report.usage);
	INSTR_TIME_SET_CURRENT(job->report.begun);
	job->report.wal_usage = pgWalUsage;
	job->report.number = lsm_progress_begin(progress, true);
}

static void
report_update(LsmJob *job)
{
	job->report.progress.files_written = job->output.nfiles;
	job->report.progress.bytes_written = (int64) job->output.bytes;
	if (job->output.writer != NULL)
		job->report.progress.bytes_written += (int64) lsm_sst_writer_bytes(job->output.writer);
	lsm_progress_update(job->report.number, &job->report.progress);
}

void
lsm_job_report_phase(LsmJob *job, LsmProgressPhase phase)
{
	job->report.progress.phase = phase;
	report_update(job);
}

void
lsm_job_report_entries(LsmJob *job, int64 entries_done)
{
	job->report.progress.entries_done = entries_done;
	report_update(job);
}

void
lsm_job_report_end(LsmJob *job)
{
	lsm_progress_end(job->report.number);
	job->report.number = LSM_PROGRESS_UNKNOWN;
}

/* ---- the end of a job that was published ---- */

static uint64
entries_written(const LsmJob *job)
{
	uint64		entries = 0;

	for (int i = 0; i < job->output.nfiles; i++)
		entries += job->output.files[i].entries;
	return entries;
}

/*
 * Name of the job's database, for a message.  A worker is in none, but may look
 * at what all databases share; it must not keep the snapshot for that.
 */
static const char *
database_name(const LsmJob *job)
{
	Oid			dboid = job->tree->rlocator.dbOid;
	char	   *name = get_database_name(dboid);

	if (lsm_in_worker())
		InvalidateCatalogSnapshot();
	return name != NULL ? name : psprintf("%u", dboid);
}

/* Database, schema and relation, as core's messages in the log have them */
static const char *
full_name(const LsmJob *job)
{
	LsmTreeShared *ctl = job->ctl;
	NameData	schema;
	NameData	relation;

	LWLockAcquire(&ctl->lock, LW_SHARED);
	schema = ctl->work.schemaname;
	relation = ctl->work.relname;
	LWLockRelease(&ctl->lock);
	return psprintf("%s.%s.%s", database_name(job), NameStr(schema), NameStr(relation));
}

static double
megabytes(double bytes)
{
	return bytes / (1024 * 1024);
}

static void
log_job(const LsmJob *job, const uint64 work[LSM_NWORK], uint64 written)
{
	const LsmProgress *progress = &job->report.progress;
	bool		flush = job->type == LSM_JOB_FLUSH;
	double		seconds = Max(work[LSM_WORK_US], 1) / 1000000.0;
	double		in = megabytes(work[LSM_WORK_BYTES_IN]);
	double		out = megabytes(work[LSM_WORK_BYTES_OUT]);
	WalUsage	wal = {0};
	StringInfoData text;

	WalUsageAccumDiff(&wal, &pgWalUsage, &job->report.wal_usage);
	initStringInfo(&text);
	if (flush)
		appendStringInfo(&text, "files: %d written\n", job->output.nfiles);
	else
		appendStringInfo(&text, "files: " INT64_FORMAT " read, %d written, " UINT64_FORMAT " moved\n",
						 progress->files_total - (int64) work[LSM_WORK_MOVED], job->output.nfiles,
						 work[LSM_WORK_MOVED]);
	appendStringInfo(&text, "entries: " INT64_FORMAT " read, " UINT64_FORMAT " written, " UINT64_FORMAT " dropped\n",
					 progress->entries_done, written, work[LSM_WORK_DROPPED]);
	appendStringInfo(&text, "data: %.3f MB read, %.3f MB written, %.3f MB/s read, %.3f MB/s written\n",
					 in, out, in / seconds, out / seconds);
	appendStringInfo(&text, "WAL usage: %lld records, %lld full page images, %llu bytes\n",
					 (long long) wal.wal_records, (long long) wal.wal_fpi,
					 (unsigned long long) wal.wal_bytes);
	appendStringInfo(&text, "system usage: %s", pg_rusage_show(&job->report.usage));

	if (flush)
		ereport(LOG,
				(errhidestmt(true), errhidecontext(true),
				 errmsg("flush of %s \"%s\" (OID %u): memtable to level 0\n%s",
						job->ctl->kind == LSM_KIND_INDEX ? "index" : "table",
						full_name(job), progress->relid, text.data)));
	else
		ereport(LOG,
				(errhidestmt(true), errhidecontext(true),
				 errmsg("compaction of %s \"%s\" (OID %u): level %d to level %d\n%s",
						job->ctl->kind == LSM_KIND_INDEX ? "index" : "table",
						full_name(job), progress->relid,
						progress->level_from, progress->level_to, text.data)));
}

/*
 * The job's memory goes with it, so nothing is freed here.
 */
void
lsm_job_report_done(LsmJob *job, int moved)
{
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	const LsmProgress *progress = &job->report.progress;
	uint64		written = entries_written(job);
	uint64		work[LSM_NWORK] = {0};
	instr_time	elapsed;

	Assert(job->published);
	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, job->report.begun);
	work[LSM_WORK_US] = INSTR_TIME_GET_MICROSEC(elapsed);
	work[LSM_WORK_MOVED] = moved;
	if (moved == 0)
	{
		work[LSM_WORK_JOBS] = 1;
		work[LSM_WORK_BYTES_IN] = progress->bytes_total;
		work[LSM_WORK_BYTES_OUT] = job->output.bytes;
		work[LSM_WORK_DROPPED] = progress->entries_done - Min(written, progress->entries_done);
	}
	lsm_work_count_job(job->ctl, job->type == LSM_JOB_FLUSH ? LSM_WORK_FLUSHES : job->output.level, work);

	if (lsm_log_compaction_min_duration >= 0 &&
		work[LSM_WORK_US] / 1000 >= (uint64) lsm_log_compaction_min_duration)
		log_job(job, work, written);
	MemoryContextSwitchTo(old);
}

/* See tree.h. */
uint64
lsm_tree_values_dropped(LsmTree *tree)
{
	return pg_atomic_read_u64(&tree->ctl->work.values_dropped);
}
