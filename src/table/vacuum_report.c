/*-------------------------------------------------------------------------
 *
 * vacuum_report.c
 *	  What VACUUM of an lsm table says when it has finished: to the client with
 *	  VERBOSE, to the log by log_autovacuum_min_duration.
 *
 * The words are heap's (heap_vacuum_rel), for people and for programs that read
 * logs.  A table has no line pointers, so there is no line about dead ones.  Of
 * pages, heap's line counts blocks of row identifiers, as pg_class.relpages does.
 * Two lines are ours: sorted files, and log pages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "table/vacuum_report.h"

/* See vacuum_report.h. */
void
lsm_vacuum_note_usage(LsmVacuumUsage *usage)
{
	usage->start = GetCurrentTimestamp();
	pg_rusage_init(&usage->resources);
	usage->wal = pgWalUsage;
	usage->buffers = pgBufferUsage;
	usage->read_us = pgStatBlockReadTime;
	usage->write_us = pgStatBlockWriteTime;
}

static bool
is_verbose(const VacuumParams *params)
{
	return (params->options & VACOPT_VERBOSE) != 0;
}

static void
put_title(StringInfo out, const LsmVacuumReport *report)
{
	const char *title = "finished vacuuming";

	if (!is_verbose(report->params))
	{
		if (report->params->is_wraparound)
			title = report->aggressive ? "automatic aggressive vacuum to prevent wraparound of table" :
				"automatic vacuum to prevent wraparound of table";
		else
			title = report->aggressive ? "automatic aggressive vacuum of table" :
				"automatic vacuum of table";
	}
	appendStringInfo(out, "%s \"%s.%s.%s\": index scans: %d\n", title,
					 get_database_name(MyDatabaseId),
					 get_namespace_name(RelationGetNamespace(report->rel)),
					 RelationGetRelationName(report->rel), report->index_scans);
}

static void
put_rows(StringInfo out, const LsmVacuumReport *report)
{
	appendStringInfo(out, "pages: 0 removed, %u remain, %u scanned (100.00%% of total)\n",
					 report->blocks, report->blocks);
	appendStringInfo(out, "tuples: %.0f removed, %.0f remain, %.0f are dead but not yet removable\n",
					 report->removed, report->remain, report->recently_dead);
	appendStringInfo(out, "removable cutoff: %u, which was %d XIDs old when operation ended\n",
					 report->oldest_xmin,
					 (int32) (ReadNextTransactionId() - report->oldest_xmin));
	if (TransactionIdIsValid(report->frozen_xid))
		appendStringInfo(out, "new relfrozenxid: %u, which is %d XIDs ahead of previous value\n",
						 report->frozen_xid,
						 (int32) (report->frozen_xid - report->former_frozen_xid));
	if (MultiXactIdIsValid(report->min_multi))
		appendStringInfo(out, "new relminmxid: %u, which is %d MXIDs ahead of previous value\n",
						 report->min_multi,
						 (int32) (report->min_multi - report->former_min_multi));
}

static void
put_indexes(StringInfo out, const LsmVacuumReport *report)
{
	for (int i = 0; i < report->nindexes; i++)
	{
		const IndexBulkDeleteResult *stats = report->index_stats[i];

		if (stats != NULL)
			appendStringInfo(out, "index \"%s\": pages: %u in total, %u newly deleted, %u currently deleted, %u reusable\n",
							 report->index_names[i], stats->num_pages,
							 stats->pages_newly_deleted, stats->pages_deleted, stats->pages_free);
	}
}

static void
put_usage(StringInfo out, const LsmVacuumUsage *before)
{
	WalUsage	wal = {0};
	BufferUsage buffers = {0};
	long		secs;
	int			usecs;
	double		seconds;
	int64		hits;
	int64		misses;
	int64		dirtied;

	TimestampDifference(before->start, GetCurrentTimestamp(), &secs, &usecs);
	seconds = (double) secs + usecs / 1000000.0;
	WalUsageAccumDiff(&wal, &pgWalUsage, &before->wal);
	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &before->buffers);
	hits = buffers.shared_blks_hit + buffers.local_blks_hit;
	misses = buffers.shared_blks_read + buffers.local_blks_read;
	dirtied = buffers.shared_blks_dirtied + buffers.local_blks_dirtied;

	if (track_io_timing)
		appendStringInfo(out, "I/O timings: read: %.3f ms, write: %.3f ms\n",
						 (double) (pgStatBlockReadTime - before->read_us) / 1000,
						 (double) (pgStatBlockWriteTime - before->write_us) / 1000);
	appendStringInfo(out, "avg read rate: %.3f MB/s, avg write rate: %.3f MB/s\n",
					 seconds > 0 ? (double) BLCKSZ * misses / (1024 * 1024) / seconds : 0,
					 seconds > 0 ? (double) BLCKSZ * dirtied / (1024 * 1024) / seconds : 0);
	appendStringInfo(out, "buffer usage: " INT64_FORMAT " hits, " INT64_FORMAT " misses, " INT64_FORMAT " dirtied\n",
					 hits, misses, dirtied);
	appendStringInfo(out, "WAL usage: %lld records, %lld full page images, %llu bytes\n",
					 (long long) wal.wal_records, (long long) wal.wal_fpi,
					 (unsigned long long) wal.wal_bytes);
	appendStringInfo(out, "system usage: %s", pg_rusage_show(&before->resources));
}

/* See vacuum_report.h. */
void
lsm_vacuum_report(const LsmVacuumReport *report)
{
	const VacuumParams *params = report->params;
	bool		verbose = is_verbose(params);
	StringInfoData out;

	if (!verbose &&
		(!AmAutoVacuumWorkerProcess() || params->log_vacuum_min_duration < 0 ||
		 !TimestampDifferenceExceeds(report->before->start, GetCurrentTimestamp(),
									 params->log_vacuum_min_duration)))
		return;
	initStringInfo(&out);
	put_title(&out, report);
	put_rows(&out, report);
	put_indexes(&out, report);
	appendStringInfo(&out, "files: %s\n", report->compacted ? "compacted" : "nothing to compact");
	appendStringInfo(&out, "log pages: %u given back to the file system\n", report->truncated);
	put_usage(&out, report->before);
	ereport(verbose ? INFO : LOG, (errmsg_internal("%s", out.data)));
	pfree(out.data);
}
