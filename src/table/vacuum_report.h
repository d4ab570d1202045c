/*-------------------------------------------------------------------------
 *
 * vacuum_report.h
 *	  What VACUUM of an lsm table says when it has finished.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VACUUM_REPORT_H
#define LSM_VACUUM_REPORT_H

#include "access/genam.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "pgstat.h"
#include "utils/pg_rusage.h"
#include "utils/rel.h"

/* When it began, and what had been used until then */
typedef struct LsmVacuumUsage
{
	TimestampTz start;
	PGRUsage	resources;
	WalUsage	wal;
	BufferUsage buffers;
	PgStat_Counter read_us;
	PgStat_Counter write_us;
} LsmVacuumUsage;

/* Rows: what heap calls tuples */
typedef struct LsmVacuumReport
{
	Relation	rel;
	const VacuumParams *params;
	bool		aggressive;
	const LsmVacuumUsage *before;

	int			index_scans;
	double		removed;
	double		remain;
	double		recently_dead;	/* among those that remain */
	BlockNumber blocks;			/* of row identifiers: pg_class.relpages */
	TransactionId oldest_xmin;

	/* those before; and the new ones, invalid: they stay */
	TransactionId former_frozen_xid;
	TransactionId frozen_xid;
	MultiXactId former_min_multi;
	MultiXactId min_multi;

	int			nindexes;
	char	  **index_names;
	IndexBulkDeleteResult **index_stats;	/* NULL: not asked, or nothing said */
	bool		compacted;
	BlockNumber truncated;		/* pages of the main fork */
} LsmVacuumReport;

extern void lsm_vacuum_note_usage(LsmVacuumUsage *usage);

/* To the client, to the log, or to nobody, as heap does. */
extern void lsm_vacuum_report(const LsmVacuumReport *report);

#endif							/* LSM_VACUUM_REPORT_H */
