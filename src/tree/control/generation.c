/*-------------------------------------------------------------------------
 *
 * generation.c
 *	  The active memtable is sealed: its generation ends, another one begins.
 *
 * A generation is what one memtable holds, and the log pages of that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/memtable/memtable.h"

/*
 * See control.h.  An empty memtable stays active although writers may be
 * registered in it: they are newer than whatever the caller wants on disk.  A
 * memtable without entries can be sealed when cancelled writes have filled it
 * up (rare): the flush of such a one publishes no file.
 */
bool
lsm_tree_seal(LsmTree *tree, LsmMemtable *expected)
{
	LsmTreeShared *ctl;
	bool		ok = true;

	lsm_tree_enter(tree);
	ctl = tree->ctl;
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		ctl->state == LSM_STATE_LOADED &&
		ctl->memory.active != NULL &&
		(expected == NULL || ctl->memory.active == expected) &&
		!lsm_memtable_vacant(ctl->memory.active))
	{
		if (ctl->memory.nsealed < LSM_MAX_SEALED)
		{
			lsm_set_change_begin(ctl);
			ctl->memory.sealed[ctl->memory.nsealed++] = ctl->memory.active;
			ctl->memory.active = NULL;
			ctl->memory.active_generation++;
			lsm_set_change_end(ctl);
		}
		else
			ok = false;
	}
	LWLockRelease(&ctl->lock);
	lsm_tree_exit(tree);
	LSM_CRASH_POINT("seal_done");
	return ok;
}

int
lsm_tree_nsealed(LsmTree *tree)
{
	LsmTreeShared *ctl;
	int			n = 0;

	lsm_tree_enter(tree);
	ctl = tree->ctl;
	LWLockAcquire(&ctl->lock, LW_SHARED);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		ctl->state == LSM_STATE_LOADED)
		n = ctl->memory.nsealed;
	LWLockRelease(&ctl->lock);
	lsm_tree_exit(tree);
	return n;
}
