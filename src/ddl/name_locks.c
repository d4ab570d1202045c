/*-------------------------------------------------------------------------
 *
 * name_locks.c
 *	  Finding and locking what a statement names, as core will when it comes to
 *	  it.
 *
 * We look at keys before core does.  What is seen without a lock may be another
 * thing by the time that core has its lock: a key made again, tables that have
 * exchanged names.  So the lock that core will take is taken here, in core's
 * order and by the same function, and what matters is looked at under it.
 *
 * Where a key of the table has to be rebuilt that takes AccessExclusiveLock
 * instead.  Whether it has to is guessed before the wait and seen after it.
 * If the guess was wrong the lock is given back and the other one taken: an
 * upgrade would be a deadlock with who has read the table and now writes to
 * it, and nobody waits for a lock that is stronger than needed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lmgr.h"

#include "ddl/ddl.h"

static inline LOCKMODE
mode_needed(Oid table, LOCKMODE lockmode, LsmNeedsRebuild needs_rebuild, void *arg)
{
	return needs_rebuild != NULL && needs_rebuild(table, arg) ? AccessExclusiveLock : lockmode;
}

/* See ddl.h. */
Oid
lsm_lock_named(const RangeVar *name, LOCKMODE lockmode, RangeVarGetRelidCallback callback,
			   LsmNeedsRebuild needs_rebuild, void *arg)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	while (OidIsValid(relid))
	{
		LOCKMODE	mode = mode_needed(relid, lockmode, needs_rebuild, arg);

		relid = RangeVarGetRelidExtended(name, mode, RVR_MISSING_OK, callback, NULL);
		if (!OidIsValid(relid) || mode == mode_needed(relid, lockmode, needs_rebuild, arg))
			break;
		UnlockRelationOid(relid, mode);
	}
	return relid;
}

/* See ddl.h. */
bool
lsm_lock_table(Oid table, LOCKMODE lockmode, LsmNeedsRebuild needs_rebuild, void *arg)
{
	for (;;)
	{
		bool		needs = needs_rebuild(table, arg);
		LOCKMODE	mode = needs ? AccessExclusiveLock : lockmode;

		LockRelationOid(table, mode);
		if (needs_rebuild(table, arg) == needs)
			return needs;
		if (mode == lockmode && mode == AccessExclusiveLock)
			return !needs;
		UnlockRelationOid(table, mode);
	}
}
