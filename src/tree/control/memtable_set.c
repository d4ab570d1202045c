/*-------------------------------------------------------------------------
 *
 * memtable_set.c
 *	  The readers' view of a tree's set of memtables.
 *
 * Eviction and readers.  A reader that found the tree loaded may take the set
 * of memtables only after the tree was evicted.  Its epoch protects the
 * memtables but they are no longer in the set, so an eviction leaves a copy of
 * the last set in the block ("parted"), which lsm_set_take() uses while the
 * state is not LOADED.  Readers that enter later see the state and load the
 * tree first.
 *
 * Locking: none; a stamp in the block, which who changes the set makes odd
 * meanwhile, under ctl->lock (lsm_set_change_begin).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "tree/control/control.h"
#include "tree/control/control_private.h"
#include "tree/memtable/memtable.h"

/*
 * An even reading of the set's stamp.  Who changes the set holds ctl->lock and
 * does a few stores, so this spins; after a while it sleeps, interruptibly.
 * REQUIRES: ctl->lock not held by us exclusively within a change.
 */
uint64
lsm_set_stamp_read(LsmTreeShared *ctl)
{
	for (int spins = 0;; spins++)
	{
		uint64		stamp = pg_atomic_read_u64(&ctl->memory.set_stamp);

		if ((stamp & 1) == 0)
		{
			pg_read_barrier();
			return stamp;
		}
		if (spins < 1000)
			pg_spin_delay();
		else
		{
			CHECK_FOR_INTERRUPTS();
			LSM_NAP(100L, "LsmMemtables");
		}
	}
}

/*
 * The tree's memtables at one moment, newest first.  REQUIRES: inside an epoch
 * (which keeps them), and the tree was loaded when it was entered.
 */
void
lsm_set_take(LsmTreeShared *ctl, LsmMemtableSet *set)
{
	ControlBlock *block = (ControlBlock *) ctl;

	Assert(lsm_epoch_inside());
	for (;;)
	{
		int			n = 0;

		set->stamp = lsm_set_stamp_read(ctl);
		if (lsm_state_is_loaded(*(volatile LsmTreeState *) &ctl->state))
		{
			LsmMemtable *active = *(LsmMemtable *volatile *) &ctl->memory.active;
			int			nsealed = *(volatile int *) &ctl->memory.nsealed;

			if (active != NULL)
				set->tables[n++] = active;
			for (int i = Min(nsealed, LSM_MAX_SEALED) - 1; i >= 0; i--)
				set->tables[n++] = *(LsmMemtable *volatile *) &ctl->memory.sealed[i];
		}
		else
		{
			n = *(volatile int *) &block->nparted;
			n = Min(n, CONTROL_MAX_SET);
			for (int i = 0; i < n; i++)
				set->tables[i] = *(LsmMemtable *volatile *) &block->parted[i];
		}
		set->n = n;

		pg_read_barrier();
		if (pg_atomic_read_u64(&ctl->memory.set_stamp) == set->stamp)
			return;
	}
}
