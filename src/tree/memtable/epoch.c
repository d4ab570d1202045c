/*-------------------------------------------------------------------------
 *
 * epoch.c
 *	  Epochs: readers announce that they look at shared things, reclaimers
 *	  wait until nobody can still see what they unlinked.
 *
 * Epoch-based reclamation (K. Fraser, "Practical lock-freedom", 2004,
 * section 5.2.3), with one announcement slot per PGPROC.
 *
 * Why it is safe.  A reader stores its announcement, passes a full barrier and
 * only then loads shared pointers.  A reclaimer unlinks, passes a full barrier
 * (the atomic add of lsm_epoch_advance) and only then reads the announcements.
 * Hence either the reclaimer sees the announcement, or the reader's loads see
 * the unlinking.  A reader that could see the thing read the global
 * epoch before the advance, so it announced an epoch <= the one the
 * advance returned; a thing unlinked at epoch e is free when all
 * announcements are greater than e.
 *
 * Locking: none; may be called with any lock held, except lsm_epoch_wait().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/wait_event.h"

#include "tree/memtable/memtable.h"

typedef union EpochSlot
{
	pg_atomic_uint64 announced; /* 0 = outside */
	char		pad[PG_CACHE_LINE_SIZE];
} EpochSlot;

typedef struct EpochShared
{
	union
	{
		struct
		{
			pg_atomic_uint64 current;	/* starts at 1 */
			pg_atomic_uint64 safe;	/* a lower bound of what has passed */
		}			s;
		char		pad[PG_CACHE_LINE_SIZE];
	}			u;
	int			nslots;
	EpochSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} EpochShared;

static EpochShared *epochs = NULL;

/* calls of lsm_epoch_enter() without an exit, this process */
static int	epoch_nesting = 0;

static int
epoch_slot_count(void)
{
	/* as many as there are PGPROCs: InitProcGlobal() */
	return MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts;
}

/*
 * Shared memory needed, bytes.  REQUIRES: MaxBackends is known
 * (shmem_request_hook).
 */
Size
lsm_epoch_shmem_bytes(void)
{
	return add_size(offsetof(EpochShared, slots),
					mul_size(epoch_slot_count(), sizeof(EpochSlot)));
}

/*
 * Create or attach.  REQUIRES: AddinShmemInitLock held.
 */
void
lsm_epoch_shmem_init(void)
{
	bool		found;

	epochs = (EpochShared *) ShmemInitStruct("lsmam epochs",
											 lsm_epoch_shmem_bytes(), &found);
	if (found)
		return;

	pg_atomic_init_u64(&epochs->u.s.current, 1);
	pg_atomic_init_u64(&epochs->u.s.safe, 0);
	epochs->nslots = epoch_slot_count();
	for (int i = 0; i < epochs->nslots; i++)
		pg_atomic_init_u64(&epochs->slots[i].announced, 0);
}

static inline pg_atomic_uint64 *
epoch_my_slot(void)
{
	Assert(MyProc != NULL && MyProcNumber < epochs->nslots);
	return &epochs->slots[MyProcNumber].announced;
}

/*
 * Announce the current epoch: what can be reached from shared memory now stays
 * until the matching exit.  Nests.
 */
void
lsm_epoch_enter(void)
{
	pg_atomic_uint64 *slot;
	uint64		epoch;

	if (epoch_nesting++ > 0)
		return;

	slot = epoch_my_slot();
	epoch = pg_atomic_read_u64(&epochs->u.s.current);
	Assert(pg_atomic_read_u64(slot) == 0);
	for (;;)
	{
		uint64		now;

		/* the exchange is the full barrier of the proof above */
		pg_atomic_exchange_u64(slot, epoch);
		LSM_FULL_BARRIER_AFTER_ATOMIC();
		now = pg_atomic_read_u64(&epochs->u.s.current);
		if (now == epoch)
			break;

		/*
		 * Announcing an old epoch would be safe, but hold back reclaimers for
		 * no reason.
		 */
		epoch = now;
	}
}

static void
epoch_leave(void)
{
	/*
	 * A release fence: everything read or written inside happens before the
	 * announcement disappears.
	 */
	pg_write_barrier();
	pg_atomic_write_u64(epoch_my_slot(), 0);
	lsm_memtable_reclaim_local();
}

void
lsm_epoch_exit(void)
{
	Assert(epoch_nesting > 0);
	if (--epoch_nesting == 0)
		epoch_leave();
}

/*
 * After an error, or at process exit: no epoch is announced any more.
 */
void
lsm_epoch_abort(void)
{
	if (epoch_nesting == 0)
		return;
	epoch_nesting = 0;
	if (epochs != NULL && MyProc != NULL)
		epoch_leave();
}

bool
lsm_epoch_inside(void)
{
	return epoch_nesting > 0;
}

/*
 * Start a new epoch and return the one that ended.  REQUIRES: the thing to be
 * freed is unlinked.
 */
uint64
lsm_epoch_advance(void)
{
	return pg_atomic_fetch_add_u64(&epochs->u.s.current, 1);
}

/*
 * The largest epoch e such that whatever was unlinked at or before e is free.
 */
uint64
lsm_epoch_safe(void)
{
	/*
	 * read before the slots: what was unlinked before it is covered by the
	 * scan
	 */
	uint64		oldest = pg_atomic_read_u64(&epochs->u.s.current);
	uint64		known;

	pg_memory_barrier();
	for (int i = 0; i < epochs->nslots; i++)
	{
		uint64		announced = pg_atomic_read_u64(&epochs->slots[i].announced);

		if (announced != 0 && announced < oldest)
			oldest = announced;
	}
	/* readers' last accesses happen before our reuse of the memory */
	pg_memory_barrier();

	known = pg_atomic_read_u64(&epochs->u.s.safe);
	while (known < oldest - 1 &&
		   !pg_atomic_compare_exchange_u64(&epochs->u.s.safe, &known, oldest - 1))
		 /* try again */ ;
	return Max(known, oldest - 1);
}

/*
 * True if nobody can see what was unlinked before lsm_epoch_advance() returned
 * `epoch`.
 */
bool
lsm_epoch_passed(uint64 epoch)
{
	if (epoch <= pg_atomic_read_u64(&epochs->u.s.safe))
	{
		pg_memory_barrier();
		return true;
	}
	return epoch <= lsm_epoch_safe();
}

/*
 * Sleep until `epoch` has passed.  Interruptible.  REQUIRES: not inside an
 * epoch (it would wait for itself), no lock held.
 */
void
lsm_epoch_wait(uint64 epoch)
{
	long		timeout_ms = 1;

	Assert(!lsm_epoch_inside());

	/* announcements last microseconds unless a reader waits for storage */
	for (int i = 0; i < 100; i++)
	{
		if (lsm_epoch_passed(epoch))
			return;
		pg_spin_delay();
	}

	while (!lsm_epoch_passed(epoch))
	{
		CHECK_FOR_INTERRUPTS();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 timeout_ms, LSM_WAIT_EVENT("LsmEpoch"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		timeout_ms = Min(timeout_ms * 2, 20);
	}
}
