/*-------------------------------------------------------------------------
 *
 * name_locks.c
 *	  Finding and locking what a statement names, as core will when it comes to
 *	  it.
 *
 * We look at keys before core does.  What is seen without a lock may be another
 * thing by the time that core has its lock: a key made again, tables that have
 * exchanged names.  So the lock that core will take is taken here, in core's
 * order, and what matters is looked at under it.
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

#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "ddl/ddl.h"

static inline LOCKMODE
mode_needed(Oid table, LOCKMODE lockmode, LsmNeedsRebuild needs_rebuild, void *arg)
{
	return needs_rebuild != NULL && needs_rebuild(table, arg) ? AccessExclusiveLock : lockmode;
}

/* See ddl.h. */
bool
lsm_owns_named(const RangeVar *name, Oid relid, void *arg)
{
	RangeVarCallbackOwnsRelation(name, relid, InvalidOid, NULL);
	return true;
}

/*
 * See ddl.h.  As RangeVarGetRelidExtended(), but what is locked is what has
 * been looked at: the name may be another's after the wait, which the user may
 * have no right to lock like that.
 */
Oid
lsm_lock_named(const RangeVar *name, LOCKMODE lockmode, LsmMayLock may_lock,
			   LsmNeedsRebuild needs_rebuild, void *arg)
{
	Oid			relid;

	while (OidIsValid(relid = RangeVarGetRelid(name, NoLock, true)) &&
		   may_lock(name, relid, arg))
	{
		LOCKMODE	mode = mode_needed(relid, lockmode, needs_rebuild, arg);

		LockRelationOid(relid, mode);
		if (RangeVarGetRelid(name, NoLock, true) == relid && may_lock(name, relid, arg) &&
			mode == mode_needed(relid, lockmode, needs_rebuild, arg))
			return relid;
		UnlockRelationOid(relid, mode);
	}
	return InvalidOid;
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

/* See ddl.h. */
List *
lsm_partitions(Oid table)
{
	Relation	rel = table_open(table, NoLock);
	PartitionDesc desc = RelationGetPartitionDesc(rel, true);
	List	   *result = NIL;

	for (int i = 0; i < desc->nparts; i++)
		result = lappend_oid(result, desc->oids[i]);
	table_close(rel, NoLock);
	return result;
}

/* See ddl.h. */
void
lsm_lock_partitions(Oid table, LOCKMODE lockmode)
{
	ListCell   *lc;

	check_stack_depth();
	if (get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, lsm_partitions(table))
	{
		LockRelationOid(lfirst_oid(lc), lockmode);
		lsm_lock_partitions(lfirst_oid(lc), lockmode);
	}
}
