/*-------------------------------------------------------------------------
 *
 * level_facts.c
 *	  What the list of files amounts to, for everyone to see: sizes of levels
 *	  and of filters, in the control block.
 *
 * A process that has changed the list says so (publish.c).  In recovery nobody
 * does but redo, which knows no lists: there, who reads a new list (version.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"

#include "tree/control/control.h"
#include "tree/read/version.h"

/* REQUIRES: ctl->lock exclusive, the version is the current one. */
void
lsm_level_facts_set(LsmTreeShared *ctl, const LsmVersion *version, uint64 pending_bytes)
{
	LsmTreeWork *work = &ctl->work;

	Assert(LWLockHeldByMeInMode(&ctl->lock, LW_EXCLUSIVE));
	work->known = true;
	work->mapped_filter_bytes = 0;
	work->pending_bytes = pending_bytes;
	for (int i = 0; i < LSM_MAX_LEVELS; i++)
	{
		work->level_files[i] = version->level_files[i];
		work->level_bytes[i] = version->level_bytes[i];
	}
	for (int i = 0; i < version->nruns; i++)
		work->mapped_filter_bytes += version->runs[i].mapped_filter_bytes;
}

/*
 * This process has read a list of files.  The lock is not waited for: the
 * numbers are for people to look at, and the next reader of a list will bring
 * newer ones.
 */
void
lsm_level_facts_seen(LsmTreeShared *ctl, const LsmVersion *version)
{
	if (!RecoveryInProgress() || version->salvaged ||
		!LWLockConditionalAcquire(&ctl->lock, LW_EXCLUSIVE))
		return;
	if (pg_atomic_read_u64(&ctl->keyspace_id) == version->keyspace_id &&
		pg_atomic_read_u64(&ctl->files.version_no) == version->place.version_no)
	{
		lsm_level_facts_set(ctl, version, 0);
		pg_atomic_write_u32(&ctl->files.level0_runs, version->level0_runs);
	}
	LWLockRelease(&ctl->lock);
}
