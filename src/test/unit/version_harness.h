/*-------------------------------------------------------------------------
 *
 * version_harness.h
 *	  src/tree/read/version.c and find.c, included, and what they need of other
 *	  rooms: no file is open, none is missing.
 *
 * The includer has server.h, epochs and the list of files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSION_HARNESS_H
#define VERSION_HARNESS_H

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/read/filecache.h"

#undef lsm_relpath
#define lsm_relpath(rlocator, backend, fork) "base/5/1000"

#include "tree/read/find.c"
#include "tree/read/version.c"

bool		lsm_ignore_missing_files = false;

/* as far as schemes are those of manifest_test.c */
bool
lsm_filter_scheme_has(uint32_t scheme, unsigned traits)
{
	unsigned	has = scheme == LSM_FILTER_NONE ? LSM_FILTER_EMPTY :
		scheme == LSM_FILTER_ELASTIC ? LSM_FILTER_UNITS : 0;

	return (has & traits) != 0;
}

bool
RecoveryInProgress(void)
{
	return false;
}

bool
TransactionIdPrecedes(TransactionId a, TransactionId b)
{
	return (int32) (a - b) < 0;
}

bool
LWLockHeldByMeInMode(LWLock *lock, LWLockMode mode)
{
	return true;
}

void
lsm_level_facts_seen(LsmTreeShared *ctl, const LsmVersion *version)
{
}

void
lsm_filecache_forget(uint64 keyspace_id, uint64 number)
{
}

void
lsm_filecache_forget_other(const LsmFile *file, uint64 keyspace_id, bool edited)
{
}

void
lsm_filecache_forget_damaged(uint64 keyspace_id)
{
}

int
lsm_filecache_count(void)
{
	return 0;
}

bool
lsm_filecache_nth(int i, uint64 keyspace_id, uint64 *number)
{
	return false;
}

bool
lsm_salvage_list(LsmTree *tree, LsmFileMeta **files, int *nfiles)
{
	return false;
}

bool
lsm_warn_about_file(uint64 keyspace_id, uint64 number)
{
	return false;
}

#endif							/* VERSION_HARNESS_H */
