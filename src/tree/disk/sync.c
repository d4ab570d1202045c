/*-------------------------------------------------------------------------
 *
 * sync.c
 *	  fsync of our files, as something that pg_stat_activity shows.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "storage/fd.h"

#include "sst/sst.h"
#include "tree/disk/disk.h"

static void
show_sync(bool begins)
{
	if (begins)
		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_SYNC);
	else
		pgstat_report_wait_end();
}

void
lsm_sync_init(void)
{
	lsm_sst_sync_hook = show_sync;
}

int
lsm_file_sync(int fd)
{
	int			result;

	show_sync(true);
	result = pg_fsync(fd);
	show_sync(false);
	return result;
}
