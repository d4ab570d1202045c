/*-------------------------------------------------------------------------
 *
 * primary_memory.c
 *	  What a standby knows of the primary's lsm.memtable_memory.
 *
 * Memtables that fit into the primary's memory may not fit into a smaller one,
 * and a standby cannot flush them.  So the primary notes its setting in a file
 * of pg_lsm, which base backups take along, and logs it.  A standby compares
 * when its recovery starts, and when it replays the record.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "storage/fd.h"

#include "tree/disk/disk.h"
#include "tree/disk/wal.h"
#include "tree/tree.h"

#define MEMORY_FILE		LSM_DIR "/primary_memory"

/* Kilobytes; 0: not known. */
static int
read_memory(void)
{
	FILE	   *file = AllocateFile(MEMORY_FILE, "r");
	int			kb = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%d", &kb) != 1 || kb < 0)
		kb = 0;
	FreeFile(file);
	return kb;
}

/* Durably.  False, with a WARNING: that failed. */
static bool
write_memory(int kb)
{
	const char *temporary = MEMORY_FILE ".tmp";
	FILE	   *file = AllocateFile(temporary, "w");
	bool		written;

	if (file != NULL)
	{
		written = fprintf(file, "%d\n", kb) > 0;
		if (FreeFile(file) == 0 && written)
			return durable_rename(temporary, MEMORY_FILE, WARNING) == 0;
	}
	ereport(WARNING,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", temporary)));
	return false;
}

static void
compare_memory(int kb)
{
	if (!ArchiveRecoveryRequested || !EnableHotStandby || kb <= lsm_memtable_memory_kb)
		return;
	ereport(WARNING,
			(errmsg("lsm.memtable_memory is %d kB on this server and %d kB on the primary",
					lsm_memtable_memory_kb, kb),
			 errdetail("Queries that read lsm tables or indexes during recovery may fail for want of memory."),
			 errhint("Set lsm.memtable_memory to no less than on the primary, and restart this server.")));
}

/* See disk.h. */
void
lsm_primary_memory_note(void)
{
	static bool noted = false;
	struct stat st;
	LsmWalMemory record = {0};

	/* no directory: there has never been a tree */
	if (noted || RecoveryInProgress() || stat(LSM_DIR, &st) < 0)
		return;
	noted = true;
	if (read_memory() == lsm_memtable_memory_kb)
		return;
	record.memtable_memory_kb = lsm_memtable_memory_kb;
	if (XLogIsNeeded())
	{
		XLogBeginInsert();
		XLogRegisterData((char *) &record, sizeof(record));
		XLogFlush(XLogInsert(LSM_RMGR_ID, XLOG_LSM_MEMORY));
	}
	(void) write_memory(lsm_memtable_memory_kb);
}

/* See disk.h. */
void
lsm_primary_memory_redo(const LsmWalMemory *record)
{
	struct stat st;

	if (stat(LSM_DIR, &st) < 0 && MakePGDirectory(LSM_DIR) == 0)
		lsm_sync_dir(".");
	if (read_memory() != (int) record->memtable_memory_kb &&
		write_memory(record->memtable_memory_kb))
		compare_memory(record->memtable_memory_kb);
}

/* See disk.h. */
void
lsm_primary_memory_compare(void)
{
	compare_memory(read_memory());
}
