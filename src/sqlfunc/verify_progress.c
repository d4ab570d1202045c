/*-------------------------------------------------------------------------
 *
 * verify_progress.c
 *	  The row of lsm_verify() in pg_stat_lsm_progress.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "sqlfunc/verify.h"

/* Rows or entries between two reports */
#define REPORT_ENTRIES	1000

void
lsm_verify_progress_begin(LsmVerifyProgress *progress, Oid relid)
{
	lsm_progress_init(&progress->job, LSM_PROGRESS_VERIFY, MyDatabaseId, relid);
	progress->number = lsm_progress_begin(&progress->job, false);
}

void
lsm_verify_progress_files(LsmVerifyProgress *progress, int files)
{
	progress->job.phase = LSM_PHASE_CHECKING_FILES;
	progress->job.files_total = files;
	progress->job.files_done = 0;
	lsm_progress_update(progress->number, &progress->job);
}

void
lsm_verify_progress_file(LsmVerifyProgress *progress, Oid relid)
{
	progress->job.relid = relid;
	progress->job.files_done++;
	lsm_progress_update(progress->number, &progress->job);
}

void
lsm_verify_progress_index(LsmVerifyProgress *progress, Oid index, LsmProgressPhase phase)
{
	progress->job.phase = phase;
	progress->job.relid = index;
	progress->job.entries_done = 0;
	lsm_progress_update(progress->number, &progress->job);
}

void
lsm_verify_progress_entry(LsmVerifyProgress *progress)
{
	if (++progress->job.entries_done % REPORT_ENTRIES == 0)
		lsm_progress_update(progress->number, &progress->job);
}

void
lsm_verify_progress_end(LsmVerifyProgress *progress)
{
	lsm_progress_end(progress->number);
}
