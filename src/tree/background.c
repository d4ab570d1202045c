/*-------------------------------------------------------------------------
 *
 * background.c
 *	  One round of background work, and waking the workers.
 *
 * A worker is attached to no database and may not wait for a relation's lock
 * (publish.c).  A tree whose lock was not to be had, or whose job failed, is left
 * alone for a while; its writers can always flush and compact for
 * themselves.
 *
 * The latches: a PGPROC number per worker, read and written atomically.  A
 * stale one wakes someone who does not mind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "tree/job.h"

#define MAX_WORKERS				64
#define RETRY_AFTER_LOCK_MS		500
#define RETRY_AFTER_ERROR_MS	10000

typedef struct WorkerShared
{
	pg_atomic_uint32 procs[MAX_WORKERS];	/* pgprocno + 1; 0: not running */
} WorkerShared;

static WorkerShared *workers = NULL;
static int	my_worker_no = -1;

/* ======================================================================
 * Latches
 * ====================================================================== */

Size
lsm_worker_shmem_bytes(void)
{
	return MAXALIGN(sizeof(WorkerShared));
}

/* REQUIRES: AddinShmemInitLock held. */
void
lsm_worker_shmem_init(void)
{
	bool		found;

	lsm_publish_register();
	workers = ShmemInitStruct("lsmam workers", lsm_worker_shmem_bytes(), &found);
	if (found)
		return;
	for (int i = 0; i < MAX_WORKERS; i++)
		pg_atomic_init_u32(&workers->procs[i], 0);
}

static void
worker_withdraw(int code, Datum arg)
{
	pg_atomic_write_u32(&workers->procs[my_worker_no], 0);
}

void
lsm_worker_announce(int worker_no)
{
	if (worker_no < 0 || worker_no >= MAX_WORKERS)
		return;					/* comes by once per second anyway */
	my_worker_no = worker_no;
	before_shmem_exit(worker_withdraw, (Datum) 0);
	pg_atomic_write_u32(&workers->procs[worker_no], MyProc->pgprocno + 1);
	pg_memory_barrier();
}

void
lsm_worker_wake(void)
{
	for (int i = 0; i < MAX_WORKERS; i++)
	{
		uint32		proc = pg_atomic_read_u32(&workers->procs[i]);

		if (proc != 0 && i != my_worker_no)
			SetLatch(&ProcGlobal->allProcs[proc - 1].procLatch);
	}
}

void
lsm_worker_wake_first(void)
{
	uint32		proc = pg_atomic_read_u32(&workers->procs[0]);

	if (proc != 0)
		SetLatch(&ProcGlobal->allProcs[proc - 1].procLatch);
}

/* ======================================================================
 * What this worker remembers of each control block
 * ====================================================================== */

typedef struct TreeNote
{
	uint64		keyspace_id;	/* the note is about */
	uint64		version_no;		/* looked at for compaction */
	TimestampTz flush_after;	/* not before */
	TimestampTz compact_after;
} TreeNote;

static TreeNote *notes = NULL;
static int	nnotes = 0;

static TreeNote *
tree_note(int i, uint64 keyspace_id)
{
	TreeNote   *note;

	if (i >= nnotes)
	{
		int			n = Max(64, (i + 1) * 2);

		if (notes == NULL)
			notes = MemoryContextAlloc(TopMemoryContext, n * sizeof(TreeNote));
		else
			notes = repalloc(notes, n * sizeof(TreeNote));
		memset(&notes[nnotes], 0, (n - nnotes) * sizeof(TreeNote));
		nnotes = n;
	}
	note = &notes[i];
	if (note->keyspace_id != keyspace_id)
	{
		memset(note, 0, sizeof(TreeNote));
		note->keyspace_id = keyspace_id;
	}
	return note;
}

/* What a look at the control block tells, taken under its lock. */
typedef struct TreeGlance
{
	uint64		keyspace_id;
	uint64		version_no;
	uint64		active_bytes;
	LsmMemtable *active;
	int			nsealed;
	bool		flushing;
	bool		compacting;
	bool		compaction_due;
} TreeGlance;

/* False: nothing a worker can do for it. */
static bool
tree_glance(LsmTreeShared *ctl, TreeGlance *glance)
{
	bool		usable;

	glance->keyspace_id = pg_atomic_read_u64(&ctl->keyspace_id);
	if (glance->keyspace_id == 0 || ctl->local)
		return false;

	LWLockAcquire(&ctl->lock, LW_SHARED);
	usable = pg_atomic_read_u64(&ctl->keyspace_id) == glance->keyspace_id &&
		ctl->relid_confirmed && ctl->state == LSM_STATE_LOADED;
	glance->nsealed = ctl->nsealed;
	glance->active = usable ? ctl->active : NULL;
	glance->active_bytes = glance->active != NULL ?
		pg_atomic_read_u64(&ctl->active->bytes) : 0;
	glance->flushing = ctl->flush_pid != 0;
	glance->compacting = ctl->compact_pid != 0;
	LWLockRelease(&ctl->lock);
	glance->version_no = pg_atomic_read_u64(&ctl->version_no);
	glance->compaction_due = pg_atomic_read_u32(&ctl->compaction_due) != 0;
	return usable;
}

static TimestampTz
after_ms(int ms)
{
	return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);
}

/* ======================================================================
 * Flushes
 * ====================================================================== */

static bool
flush_tree(LsmTreeShared *ctl, TreeNote *note)
{
	LsmTree    *tree = lsm_tree_attach(ctl);
	bool		done;

	if (tree == NULL || tree->keyspace_id != note->keyspace_id)
		return false;

	/* stands if it fails */
	note->flush_after = after_ms(RETRY_AFTER_ERROR_MS);
	done = lsm_flush_oldest(tree, true);
	note->flush_after = done ? 0 : after_ms(RETRY_AFTER_LOCK_MS);
	return done;
}

/* Flush whatever is sealed. */
static bool
flush_sealed(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		did = false;

	for (int i = 0;; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		TreeGlance	glance;
		TreeNote   *note;

		if (ctl == NULL)
			break;
		if (!tree_glance(ctl, &glance) || glance.nsealed == 0 || glance.flushing)
			continue;
		note = tree_note(i, glance.keyspace_id);
		if (note->flush_after > now)
			continue;
		did |= flush_tree(ctl, note);
		CHECK_FOR_INTERRUPTS();
	}
	return did;
}

/*
 * The arena is nearly full: flush the largest memtable, or, if all are
 * small, have idle ones evicted (their log pages remain).
 */
static bool
relieve_arena(void)
{
	int			total = lsm_arena_total_chunks();
	TimestampTz now = GetCurrentTimestamp();
	LsmTreeShared *largest = NULL;
	TreeGlance	found = {0};
	TreeNote   *note = NULL;
	LsmTree    *tree;
	bool		sealed;

	if (total == 0 || lsm_arena_free_chunks() >= total / 10)
		return false;
	if (lsm_memtable_reclaim() > 0 && lsm_arena_free_chunks() >= total / 10)
		return true;

	for (int i = 0;; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		TreeGlance	glance;

		if (ctl == NULL)
			break;
		if (!tree_glance(ctl, &glance) || glance.active == NULL ||
			glance.nsealed == LSM_MAX_SEALED ||
			glance.active_bytes <= found.active_bytes ||
			tree_note(i, glance.keyspace_id)->flush_after > now)
			continue;
		largest = ctl;
		found = glance;
		note = tree_note(i, glance.keyspace_id);
	}
	if (largest == NULL ||
		found.active_bytes < (uint64) total * LSM_CHUNK_BYTES / 64)
		return lsm_control_evict(NULL, total / 10) > 0;

	tree = lsm_tree_attach(largest);
	if (tree == NULL || tree->keyspace_id != note->keyspace_id)
		return false;
	note->flush_after = after_ms(RETRY_AFTER_LOCK_MS);

	/* leave alone what cannot be flushed now */
	if (!lsm_publish_lock(tree))
		return false;
	sealed = lsm_tree_seal(tree, found.active);
	lsm_publish_unlock(tree);
	return sealed && flush_tree(largest, note);
}

/* Called between the output files of a compaction. */
void
lsm_worker_yield(void)
{
	/* with more than one worker, number 0 does nothing but flush */
	if (lsm_in_worker() && my_worker_no == 0)
		(void) flush_sealed();
}

/* ======================================================================
 * Compactions
 * ====================================================================== */

static bool
compact_tree(LsmTreeShared *ctl, TreeNote *note, const TreeGlance *glance)
{
	LsmTree    *tree = lsm_tree_attach(ctl);
	bool		done;

	if (tree == NULL || tree->keyspace_id != note->keyspace_id)
		return false;
	note->compact_after = after_ms(RETRY_AFTER_ERROR_MS);
	done = lsm_compact_once(tree, true);
	note->compact_after = 0;
	if (done)
		return true;

	/* nothing due after all, or no lock: it says so if it is still due */
	if (pg_atomic_read_u32(&ctl->compaction_due) != 0)
		note->compact_after = after_ms(RETRY_AFTER_LOCK_MS);
	else
		note->version_no = glance->version_no;
	return false;
}

/* One step for one tree, taking turns. */
static bool
compact_next(void)
{
	static int	next = 0;
	TimestampTz now = GetCurrentTimestamp();
	int			n = 0;

	while (lsm_control_nth(n) != NULL)
		n++;
	for (int i = 0; i < n; i++)
	{
		int			at = (next + i) % n;
		LsmTreeShared *ctl = lsm_control_nth(at);
		TreeGlance	glance;
		TreeNote   *note;

		if (!tree_glance(ctl, &glance) || glance.compacting)
			continue;
		note = tree_note(at, glance.keyspace_id);
		if (note->compact_after > now ||
			(!glance.compaction_due && note->version_no == glance.version_no))
			continue;
		next = at + 1;
		if (compact_tree(ctl, note, &glance))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/* ======================================================================
 * The round
 * ====================================================================== */

bool
lsm_worker_round(int worker_no)
{
	bool		did = false;
	bool		loaded = false;

	if (!lsm_control_ready())
		return false;

	lsm_unlink_drain(false);
	if (worker_no == 0)
	{
		/*
		 * first: a flush may fail for lack of the room that the sweep gives
		 * back
		 */
		lsm_drop_keyspaces();
		lsm_sweep_orphans();
		did |= flush_sealed();
		did |= relieve_arena();
		loaded = lsm_elastic_round();
	}
	if (!did && (worker_no > 0 || lsm_compaction_workers == 0))
		did |= compact_next();
	if (!did)
		did = lsm_loghelp_do();

	(void) lsm_memtable_reclaim();
	lsm_counters_publish();

	/* units that come and go all the time must not keep us from compacting */
	return did || loaded;
}
