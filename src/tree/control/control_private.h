/*-------------------------------------------------------------------------
 *
 * control_private.h
 *	  What the files about control blocks share: control.c (finding and pinning
 *	  them), jobs.c, evict.c (unloading, recycling and dropping them), take.c and
 *	  memtable_set.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CONTROL_PRIVATE_H
#define LSM_CONTROL_PRIVATE_H

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"

#include "tree/control/control.h"

#define CONTROL_MAX_SET		(1 + LSM_MAX_SEALED)
#define CONTROL_NONE		(-1)

/* Candidates looked at together; bounds the work under the table lock. */
#define CONTROL_BATCH		32

/* Trees that were pinned after all but this many others are not noted again. */
#define CONTROL_RECENT		8

typedef struct ControlBlock
{
	LsmTreeShared tree;			/* first */

	pg_atomic_uint32 pins;
	pg_atomic_uint32 jobs;		/* in progress */

	/* under the control table lock, while free */
	uint64		former_id;		/* keyspace whose block it was */
	int			free_next;
	uint64		free_epoch;
	bool		free_busy;		/* somebody was using the memtables */

	/*
	 * set of memtables as of the last eviction, newest first; changes within
	 * a change of the set
	 */
	int			nparted;
	LsmMemtable *parted[CONTROL_MAX_SET];
} ControlBlock;

typedef struct ControlEntry
{
	uint64		keyspace_id;	/* hash key */
	int			index;
} ControlEntry;

typedef struct ControlShared
{
	int			tree_tranche;
	int			alloc_tranche;
	int			slot_tranche;
	int			nblocks;
	pg_atomic_uint32 nused;		/* blocks ever used: the first ones */
	pg_atomic_uint64 drops;
	pg_atomic_uint32 parted;
	pg_atomic_uint64 fed_changes;
	pg_atomic_uint64 lives;		/* given out: no two blocks have had the same */

	/* under the control table lock */
	int			free_first;		/* freed blocks, oldest first */
	int			free_last;
	int			nbusy_free;		/* of these, with free_busy */

	pg_atomic_uint64 clock LSM_LINE_START;	/* part of that of last_used */
	ControlBlock blocks[FLEXIBLE_ARRAY_MEMBER];
} ControlShared;

extern ControlShared *lsm_control;
extern HTAB *lsm_control_hash;
extern LWLock *lsm_control_lock;

/* Memtables to retire once all locks are released */
typedef struct ControlRetirees
{
	int			n;
	LsmMemtable *tables[CONTROL_BATCH * CONTROL_MAX_SET];
} ControlRetirees;

/*
 * The clock of last_used: uses that were noted, and memory that was used up.
 * The latter goes on while one transaction works alone.
 */
static inline uint64
control_now(void)
{
	return pg_atomic_read_u64(&lsm_control->clock) + lsm_arena_taken_chunks();
}

static inline void
control_note_use(LsmTreeShared *ctl)
{
	pg_atomic_write_u64(&ctl->last_used,
						pg_atomic_fetch_add_u64(&lsm_control->clock, 1) + 1 +
						lsm_arena_taken_chunks());
}

static inline int
control_memtable_count(LsmTreeShared *ctl)
{
	return ctl->memory.nsealed + (ctl->memory.active != NULL ? 1 : 0);
}

/*
 * Is a writer registered?  REQUIRES: ctl->lock exclusive (writers register
 * under it); or a free block, where none registers any more, and the control
 * table lock, under which its memtables are taken out.  In recovery a loader
 * does so under ctl->lock: then "yes" may be out of date, and is asked again.
 */
static inline bool
control_has_writers(LsmTreeShared *ctl)
{
	if (ctl->memory.active != NULL && pg_atomic_read_u32(&ctl->memory.active->writers) != 0)
		return true;
	for (int i = 0; i < ctl->memory.nsealed; i++)
	{
		if (pg_atomic_read_u32(&ctl->memory.sealed[i]->writers) != 0)
			return true;
	}
	return false;
}

/*
 * True if nobody is using the memtables by other right than an epoch.
 * REQUIRES: ctl->lock exclusive.
 */
static inline bool
control_memtables_idle(LsmTreeShared *ctl)
{
	bool		claimed = (lsm_claimed_levels(ctl) & LSM_MEMTABLES_BIT) != 0;

	Assert(claimed || ctl->state != LSM_STATE_LOADING);
	return !claimed && !control_has_writers(ctl);
}

static inline void
control_close_slots(LsmTreeShared *ctl)
{
	for (int i = 0; i < LSM_LOG_SLOTS; i++)
	{
		ctl->log.slots[i].block = InvalidBlockNumber;
		ctl->log.slots[i].generation = 0;
	}
}

/* ---- control.c ---- */

/* First use of a block's memory. */
extern void lsm_control_construct(ControlBlock *block);

/* A keyspace's block, or NULL.  Shared ones: REQUIRES the control table lock. */
extern ControlBlock *lsm_control_find_local(uint64 keyspace_id);
extern ControlBlock *lsm_control_find_shared(uint64 keyspace_id);

/* A block more for temporary trees, free. */
extern ControlBlock *lsm_control_add_local(void);

/* ---- jobs.c ---- */

/*
 * A job of a block that was the keyspace's goes on, or a write to one.
 * REQUIRES: control table lock.
 */
extern bool lsm_control_former_busy(uint64 keyspace_id);

/* ---- evict.c ---- */

/* Retire what was taken out.  REQUIRES: no lock held. */
extern void lsm_control_retire(ControlRetirees *retirees);

/* REQUIRES: control table lock exclusive.  Returns the number of chunks. */
extern int	lsm_control_reap(ControlRetirees *retirees);

/* REQUIRES: control table lock exclusive.  Returns the number of blocks. */
extern int	lsm_control_recycle(ControlRetirees *retirees);

#endif							/* LSM_CONTROL_PRIVATE_H */
