/*-------------------------------------------------------------------------
 *
 * dead_entries.h
 *	  Which entries of an lsm table's indexes VACUUM may delete, and having it
 *	  done, by several processes where there are several indexes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_DEAD_ENTRIES_H
#define LSM_DEAD_ENTRIES_H

#include "access/genam.h"
#include "commands/vacuum.h"

#include "table/live_set.h"

typedef struct LsmDeadEntries
{
	Relation	table;
	LsmTree    *tree;
	TransactionId oldest_xmin;
	uint64		row_limit;
	LsmLiveSet	live;
	StringInfoData value;		/* of rows looked up */

	/* of rows found dead, and what the log says of them so far */
	TransactionId newest_deleter;
	TransactionId logged_deleter;
	bool		deleters_logged;	/* of all rows that are not in `live` */
} LsmDeadEntries;

/* The rows' TIDs are the caller's to collect, up to row_limit. */
extern void lsm_dead_entries_init(LsmDeadEntries *dead, Relation table, LsmTree *tree,
								  TransactionId oldest_xmin, uint64 row_limit);

/* A row that is dead, and not to be added to the live ones, was deleted by xid. */
extern void lsm_note_deleter(LsmDeadEntries *dead, TransactionId xid);

/*
 * What an index's VACUUM is told.  Both steps, deletion and cleanup, have it
 * from here.  `rows`: there are in the table, or about so many (`estimated`).
 */
extern IndexVacuumInfo lsm_vacuum_info(Relation table, Relation index, double rows,
									   bool estimated, BufferAccessStrategy strategy);

/* Have an index delete entries of rows that are dead or gone; result as its. */
extern IndexBulkDeleteResult *lsm_delete_dead_entries(LsmDeadEntries *dead, Relation index,
													  bool flush_first,
													  IndexBulkDeleteResult *stats,
													  double rows,
													  BufferAccessStrategy strategy);

#endif							/* LSM_DEAD_ENTRIES_H */
