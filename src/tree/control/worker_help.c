/*-------------------------------------------------------------------------
 *
 * worker_help.c
 *	  Can a worker flush and compact a tree now?
 *
 * A writer that is faster than the workers is made to wait for them (pacing.c),
 * and leaves it to them to flush what it has sealed.  Where no worker can help,
 * it would wait in vain, and has to do the work itself, at once:
 *	- nobody but the transaction knows the relation yet (relid_confirmed), or it
 *	  is a temporary one;
 *	- this process holds a lock on the relation that keeps workers from
 *	  publishing (publish_lock.c), and goes on holding it until its transaction
 *	  ends;
 *	- the same is due to somebody else's lock, or to one that is waited for: a
 *	  worker has found out;
 *	- the worker's last attempt has ended in an error, and it rests (background.c);
 *	- there is no worker.
 *
 * Locking: the times of rest are hints, atomic.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"

#include "compat.h"
#include "tree/control/clock.h"
#include "tree/control/control.h"

/* See control.h. */
void
lsm_worker_rests(LsmTreeShared *ctl, LsmRest why, int ms)
{
	pg_atomic_uint64 *until = &ctl->jobs.rests[why];

	if (ms > 0)
		pg_atomic_write_u64(until, lsm_monotonic_now() + ms * INT64CONST(1000));
	else if (pg_atomic_read_u64(until) != 0)
		pg_atomic_write_u64(until, 0);
}

static bool
rests(LsmTreeShared *ctl, LsmRest why)
{
	uint64		until = pg_atomic_read_u64(&ctl->jobs.rests[why]);

	return until != 0 && lsm_monotonic_now() < (TimestampTz) until;
}

/* Every mode that conflicts with the one that workers take */
static bool
own_lock_is_in_the_way(const LsmTreeShared *ctl)
{
	LOCKTAG		relation;

	SET_LOCKTAG_RELATION(relation, ctl->rlocator.dbOid, ctl->relid);
	for (LOCKMODE mode = ShareLock; mode <= AccessExclusiveLock; mode++)
	{
		if (LockHeldByMe(&relation, mode, false))
			return true;
	}
	return false;
}

/* See control.h. */
LsmWorkerHelp
lsm_worker_help(LsmTreeShared *ctl)
{
	LsmWorkerHelp help = {false, false};

	if (ctl->local || !ctl->relid_confirmed || rests(ctl, LSM_REST_LOCK) ||
		own_lock_is_in_the_way(ctl))
		return help;
	help.flush = lsm_worker_runs(0) && !rests(ctl, LSM_REST_FLUSH);
	help.compact = (lsm_compaction_worker_runs() || lsm_worker_runs(0)) &&
		!rests(ctl, LSM_REST_COMPACT);
	return help;
}
