/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Rebuilding the memtables of a tree from its log pages: first use after a
 *	  server start or after the tree was evicted.
 *
 * A memtable is a cache of the log pages of its generation.  The loader owns
 * the tree while ctl->state is LOADING: there are no writers, no memtables
 * anyone can see, no flush and no compaction.  It reads the fork twice, first
 * the generation of each page, then the pages generation by generation, oldest
 * first, so that a generation the arena has no room for can be flushed from
 * backend memory, and memory stays bounded by one generation.
 *
 * The newest generation becomes active again, the others are sealed.  That a
 * generation which was sealed before a crash is appended to after it does no
 * harm: nothing of it was published, or its pages would be free.
 *
 * In recovery the loader shares the tree with the startup process: the
 * memtables are in the control block from the start, and redo adds to them
 * (disk/standby.c).  Nothing is flushed then (load_standby.c).
 *
 * Locking: ctl->lock only to change the state; content locks one at a time.
 * The state is put back by lsm_load_abort() after an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/statvfs.h>

#include "access/xlog.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#include "tree/compaction/compaction.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/memtable/memtable.h"
#include "tree/write/load.h"
#include "tree/write/write.h"

/* Generations that can stay in memory: the sealed ones and the active one */
#define LSM_LOAD_KEEP	(LSM_MAX_SEALED + 1)

/* What this backend is loading, for the clean-up after an error */
static struct
{
	LsmTreeShared *ctl;			/* NULL: nothing */
	LsmClaim   *claim;
	bool		standby;		/* the memtables are in ctl, and redo feeds them */
	bool		incomplete;		/* some of the log is lost */
	bool		holds_cancel;	/* a load before was cut off */
	LsmMemtable *kept[LSM_LOAD_KEEP];	/* oldest first */
	int			nkept;
	LsmMemtable *building;
	LsmProgress progress;		/* bytes of log pages */
	int			progress_number;
} loading;

/* Log pages read between two reports of progress */
#define LSM_LOAD_REPORT_PAGES	256

/* ---- state machine ---- */

/*
 * Of a standby that has been promoted: nothing of it is believed.  A fork that
 * was copied or moved, and that the primary had not opened since, had its block
 * without saying so itself.  Whoever finds the block gone opens the fork anew,
 * and writes the fork's metapage first.
 */
static void
lsm_load_forget_standby(LsmTree *tree)
{
	if (lsm_meta_current(tree))
		lsm_control_stop_feeding(tree->ctl, tree->keyspace_id);
	else
		lsm_control_drop_block(tree->ctl, tree->keyspace_id);
}

/*
 * Become the loader.  False: nothing to do any more (someone else has loaded
 * it, or the control block belongs to another tree: the caller looks again).
 */
static bool
lsm_load_acquire(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	bool		mine = false;
	bool		stale = false;
	bool		partial = false;

	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	for (;;)
	{
		bool		wait = false;

		ConditionVariablePrepareToSleep(&ctl->cv);
		LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
		if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id)
		{
			if (ctl->state == LSM_STATE_UNLOADED)
			{
				ctl->state = LSM_STATE_LOADING;
				loading.claim = lsm_claim_take(ctl, LSM_MEMTABLES_BIT);
				loading.ctl = ctl;
				ctl->fed = loading.standby = RecoveryInProgress();
				loading.incomplete = false;
				loading.holds_cancel = ctl->load_cut_off;
				mine = true;
			}
			else
			{
				stale = ctl->state == LSM_STATE_STANDBY && !RecoveryInProgress();
				partial = ctl->state == LSM_STATE_INCOMPLETE && !lsm_ignore_missing_files;
				wait = ctl->state == LSM_STATE_LOADING;
			}
		}
		LWLockRelease(&ctl->lock);
		if (stale)
		{
			lsm_load_forget_standby(tree);
			stale = false;
			continue;
		}
		if (partial)
		{
			lsm_control_stop_feeding(ctl, tree->keyspace_id);
			partial = false;
			continue;
		}
		if (!wait)
			break;

		/* checks for interrupts; the time-out is a safeguard only */
		ConditionVariableTimedSleep(&ctl->cv, 1000, LSM_WAIT_EVENT("LsmLoad"));
	}
	ConditionVariableCancelSleep();
	return mine;
}

/* What redo and we have built so far.  REQUIRES: ctl->lock exclusive. */
static void
lsm_load_take_out(LsmTreeShared *ctl, LsmMemtable **retired, int *nretired)
{
	lsm_set_change_begin(ctl);
	ctl->fed = false;
	for (int i = 0; i < ctl->memory.nsealed; i++)
		retired[(*nretired)++] = ctl->memory.sealed[i];
	if (ctl->memory.active != NULL)
		retired[(*nretired)++] = ctl->memory.active;
	ctl->memory.nsealed = 0;
	ctl->memory.active = NULL;
	lsm_set_change_end(ctl);
}

/*
 * Safe to call at any time outside of locks.  Memtables not yet handed over are
 * known to no one else.
 */
void
lsm_load_abort(void)
{
	LsmTreeShared *ctl = loading.ctl;
	LsmMemtable *retired[LSM_LOAD_KEEP];
	int			nretired = 0;

	if (ctl == NULL)
		return;
	loading.ctl = NULL;
	if (loading.building != NULL)
		lsm_memtable_destroy(loading.building);
	loading.building = NULL;
	while (loading.nkept > 0)
		lsm_memtable_destroy(loading.kept[--loading.nkept]);

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	Assert(ctl->state == LSM_STATE_LOADING);
	if (loading.standby)
		lsm_load_take_out(ctl, retired, &nretired);
	ctl->state = LSM_STATE_UNLOADED;
	ctl->load_cut_off = true;
	lsm_claim_give_up(&loading.claim);
	LWLockRelease(&ctl->lock);
	while (nretired > 0)
	{
		/* the startup process may be adding an entry, outside of any epoch */
		while (pg_atomic_read_u32(&retired[nretired - 1]->writers) > 0)
			LSM_NAP(50L, "LsmWriters");
		lsm_memtable_retire(retired[--nretired]);
	}
	ConditionVariableBroadcast(&ctl->cv);
}

/* As lsm_load_forget_standby(), of a block that we have begun to load. */
static void
lsm_load_give_up(LsmTree *tree)
{
	LsmTreeShared *ctl = loading.ctl;

	lsm_load_abort();
	lsm_control_drop_block(ctl, tree->keyspace_id);
}

/*
 * Hand the memtables over and declare the tree loaded.  If the tree was dropped
 * meanwhile, give up: the caller looks again.
 */
static void
lsm_load_publish(LsmTree *tree)
{
	LsmTreeShared *ctl = loading.ctl;
	int			i;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) != tree->keyspace_id)
	{
		LWLockRelease(&ctl->lock);
		lsm_load_abort();
		return;
	}
	Assert(ctl->state == LSM_STATE_LOADING);
	ctl->load_cut_off = false;
	lsm_set_change_begin(ctl);
	ctl->memory.nsealed = 0;
	ctl->memory.active = NULL;
	for (i = 0; i < loading.nkept; i++)
	{
		if (i == loading.nkept - 1)
			ctl->memory.active = loading.kept[i];
		else
			ctl->memory.sealed[ctl->memory.nsealed++] = loading.kept[i];
	}
	ctl->memory.active_generation = ctl->memory.active != NULL ? ctl->memory.active->generation :
		pg_atomic_read_u64(&ctl->files.flushed_generation) + 1;
	for (i = 0; i < LSM_LOG_SLOTS; i++)
	{
		ctl->log.slots[i].block = InvalidBlockNumber;
		ctl->log.slots[i].generation = 0;
	}
	ctl->state = loading.incomplete ? LSM_STATE_INCOMPLETE : LSM_STATE_LOADED;
	lsm_claim_give_up(&loading.claim);
	lsm_set_change_end(ctl);
	LWLockRelease(&ctl->lock);

	loading.nkept = 0;
	loading.ctl = NULL;
	ConditionVariableBroadcast(&ctl->cv);
}

/* The tree can be read, unless redo has given it up or it was dropped. */
static void
lsm_load_publish_standby(LsmTree *tree)
{
	LsmTreeShared *ctl = loading.ctl;
	bool		ok;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	ok = pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id && ctl->fed;
	if (ok)
	{
		ctl->load_cut_off = false;
		lsm_set_change_begin(ctl);
		ctl->state = LSM_STATE_STANDBY;
		lsm_claim_give_up(&loading.claim);
		lsm_set_change_end(ctl);
	}
	LWLockRelease(&ctl->lock);
	if (!ok)
	{
		lsm_load_abort();
		return;
	}
	loading.ctl = NULL;
	ConditionVariableBroadcast(&ctl->cv);
}

/* ---- counters ---- */

/*
 * Counters from the metapage.  Those of a control block that was loaded before
 * (evicted since) may be ahead of what the log shows: rows that
 * were handed out and not yet logged.  They never go back.
 *
 * False: it is a fork, copied or moved, that the primary has not opened, in a
 * block that was taken on a standby, and this is no standby any more; or it is
 * one, and the primary has opened the fork since its metapage was read.
 */
static bool
lsm_load_counters(LsmTree *tree)
{
	/* once: recovery may end while we look */
	bool		recovery = RecoveryInProgress();
	LsmTreeShared *ctl = tree->ctl;
	LsmMetaPage *meta;
	LsmMetaPage copy;
	Buffer		buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &meta);
	SMgrRelation smgr;
	bool		named;

	copy = *meta;
	named = lsm_meta_names(&copy, tree, recovery);
	if (named)
	{
		/* under the lock: redo of an edit stores newer ones */
		pg_atomic_write_u64(&ctl->files.flushed_generation, copy.flushed_generation);
		pg_atomic_write_u64(&ctl->files.manifest_id, copy.manifest_id);
		pg_atomic_write_u64(&ctl->files.version_no, copy.version_no);
	}
	UnlockReleaseBuffer(buffer);
	if (recovery ? !named : !lsm_meta_is_own(tree, &copy))
		return false;
	if (!named)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation %s has been replaced while it was opened",
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));

	smgr = smgropen(tree->rlocator, tree->backend);
	LWLockAcquire(&ctl->pages.alloc_lock, LW_EXCLUSIVE);
	ctl->pages.nblocks = smgrnblocks(smgr, MAIN_FORKNUM);
	ctl->pages.alloc_cursor = 1;
	ctl->pages.free_pages = (int64) ctl->pages.nblocks - 1;
	LWLockRelease(&ctl->pages.alloc_lock);

	if (pg_atomic_read_u64(&ctl->files.manifest_pending) < copy.manifest_id)
		pg_atomic_write_u64(&ctl->files.manifest_pending, copy.manifest_id);
	lsm_counter_raise(&ctl->seq, Max(copy.seq_limit, 1) - 1);
	lsm_counter_raise(&ctl->row_limit, copy.row_limit);
	if (ctl->kind == LSM_KIND_TABLE && !ctl->local)
		lsm_counter_raise(&ctl->rows.map_blocks, lsm_vm_fork_blocks(smgr));

	/* file numbers are handed out after recovery */
	if (loading.standby)
		return true;

	/*
	 * All below the metapage's next_file may have been handed out, by this
	 * block or a former one; what is left of the block's own range, it keeps.
	 */
	Assert(pg_atomic_read_u64(&ctl->files.file_limit) == 0 ||
		   pg_atomic_read_u64(&ctl->files.file_limit) == copy.next_file);
	if (pg_atomic_read_u64(&ctl->files.file_limit) == 0)
	{
		pg_atomic_write_u64(&ctl->files.next_file, copy.next_file);
		pg_atomic_write_u64(&ctl->files.file_limit, copy.next_file);
	}
	return true;
}

/* ---- progress ---- */

static void
lsm_load_report_begin(LsmTree *tree)
{
	lsm_progress_init(&loading.progress, LSM_PROGRESS_LOAD, tree->rlocator.dbOid, tree->relid);
	loading.progress.phase = LSM_PHASE_READING;
	loading.progress_number = lsm_progress_begin(&loading.progress, false);
}

static void
lsm_load_report(int64 bytes_done)
{
	loading.progress.bytes_done = bytes_done;
	lsm_progress_update(loading.progress_number, &loading.progress);
}

/* ---- memory ---- */

/*
 * One generation into loading.building.  False: the arena has no room; nothing
 * is left of it.
 */
static bool
lsm_load_generation(LsmTree *tree, LsmLogScan *scan, const LsmLogPageRef *pages, Size npages,
					bool local)
{
	Size		i;

	Assert(loading.building == NULL);
	loading.building = lsm_memtable_create(pages[0].generation, local);
	if (loading.building == NULL)
		return false;
	for (i = 0; i < npages; i++)
	{
		if (!lsm_load_page(tree, loading.building, &pages[i], scan))
		{
			lsm_memtable_destroy(loading.building);
			loading.building = NULL;
			return false;
		}
		if ((i + 1) % LSM_LOAD_REPORT_PAGES == 0)
			lsm_load_report(loading.progress.bytes_done + (int64) LSM_LOAD_REPORT_PAGES * BLCKSZ);
	}
	lsm_log_list_ends(pages, npages, &loading.building->log_first, &loading.building->log_last);
	loading.incomplete |= scan->incomplete;
	return true;
}

/*
 * Once per block, when the log has been read, or is about to be flushed, whose
 * files may have the numbers of strays.  If a page of it is not what it should
 * be, the metapage may be older than its pages (pg_resetwal), and a stray all
 * there is of rows whose pages are used again: then they stay.
 */
static void
lsm_load_remove_strays(LsmTree *tree)
{
	if (!tree->ctl->files.strays_removed && !loading.incomplete)
	{
		lsm_keyspace_remove_strays(tree);
		tree->ctl->files.strays_removed = true;
	}
}

/* What is not all that there was must not look like it. */
static void
lsm_load_flush(LsmTree *tree, LsmMemtable *memtable)
{
	if (loading.incomplete)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no memory for what is left of the log of relation %s",
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM)),
				 errhint("Increase lsm.memtable_memory.")));
	lsm_load_remove_strays(tree);
	lsm_flush_memtable(tree, memtable);
}

/* Flush the oldest generation built so far. */
static void
lsm_load_flush_kept(LsmTree *tree)
{
	LsmMemtable *oldest = loading.kept[0];

	lsm_load_flush(tree, oldest);
	loading.nkept--;
	memmove(&loading.kept[0], &loading.kept[1], loading.nkept * sizeof(loading.kept[0]));
	lsm_memtable_destroy(oldest);
}

/*
 * Can a file be made of the log?  Who only reads goes on with a full disk.  What
 * cannot be asked is found out by the flush.
 */
static bool
lsm_disk_has_room(Size npages)
{
	struct statvfs disk;

	return statvfs(LSM_DIR, &disk) < 0 ||
		(uint64) disk.f_bavail * disk.f_frsize > 4 * npages * BLCKSZ;
}

/*
 * Of which trees may memory be had that were used lately?  They would come back
 * soon and take it from others, and each time a whole log is read: a log that is
 * worth a flush takes it from none.  What must not be flushed, or a worker
 * perhaps cannot (publish_lock.c), takes it from all.
 */
static uint64
lsm_load_evicts(Size npages)
{
	return npages <= LSM_SMALL_BYTES / BLCKSZ || loading.incomplete || lsm_in_worker() ||
		!lsm_disk_has_room(npages) ? PG_UINT64_MAX : 0;
}

/* So often memory is looked for, a millisecond apart, if no file can be made. */
#define LSM_LOAD_PATIENCE	2000

/* Wait until memory for a generation is free.  False: the patience has ended. */
static bool
lsm_load_wait_for_memory(LsmTree *tree, Size npages, int want, int *patience)
{
	while ((*patience)-- > 0)
	{
		CHECK_FOR_INTERRUPTS();
		LSM_NAP(1000L, "LsmMemory");
		(void) lsm_control_evict(tree->ctl, want, lsm_load_evicts(npages));
		lsm_memtable_reclaim();
		if (lsm_arena_free_chunks() >= want)
			return true;
	}
	return false;
}

/*
 * Build one generation, wherever there is room: in the arena; in the arena
 * after idle trees were evicted (with a full disk there is nothing else, and a
 * worker that tries to flush them keeps them for a moment); after the generations before it were flushed;
 * at last in backend memory, and flushed at once.
 */
static void
lsm_load_place(LsmTree *tree, LsmLogScan *scan, const LsmLogPageRef *pages, Size npages)
{
	int			want = 1 + npages / (LSM_CHUNK_BYTES / BLCKSZ);
	int			tries;
	int			patience = LSM_LOAD_PATIENCE;

	if (loading.nkept == LSM_LOAD_KEEP)
		lsm_load_flush_kept(tree);

	for (tries = 0; tries < 3 && want <= lsm_arena_total_chunks(); tries++)
	{
		if (lsm_load_generation(tree, scan, pages, npages, false))
		{
			loading.kept[loading.nkept++] = loading.building;
			loading.building = NULL;
			return;
		}
		if (tries == 0)
		{
			if (lsm_control_evict(tree->ctl, want, lsm_load_evicts(npages)) > 0)
				LSM_NAP(1000L, "LsmEpoch");
			lsm_memtable_reclaim();
		}
		else if (loading.nkept == 0 && !lsm_disk_has_room(npages) &&
				 lsm_load_wait_for_memory(tree, npages, want, &patience))
			tries = -1;
		else
		{
			if (loading.nkept == 0)
				break;
			while (loading.nkept > 0)
				lsm_load_flush_kept(tree);
		}
	}

	/* generations flush in order */
	while (loading.nkept > 0)
		lsm_load_flush_kept(tree);
	if (!lsm_load_generation(tree, scan, pages, npages, true))
		elog(ERROR, "could not build a memtable in backend memory");
	lsm_load_flush(tree, loading.building);
	lsm_memtable_destroy(loading.building);
	loading.building = NULL;
}

/* ---- the load ---- */

static void
lsm_load_fed(LsmTree *tree)
{
	LSM_CRASH_POINT("standby_load_counters");
	lsm_load_standby(tree);
	LSM_CRASH_POINT("standby_load_read");
	lsm_load_publish_standby(tree);
	LSM_CRASH_POINT("standby_load_published");
}

static void
lsm_load_logged(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	LsmLogScan	scan = {.lenient = lsm_ignore_missing_files && tree->kind == LSM_KIND_TABLE};

	if (!ctl->local)
	{
		initStringInfo(&scan.spanning);
		scan.strategy = GetAccessStrategy(BAS_BULKREAD);
		lsm_load_scan(tree, ctl->pages.nblocks, &scan);
		lsm_log_check_lists(tree, &scan);
		loading.incomplete = scan.incomplete;
		loading.progress.bytes_total = (int64) scan.npages * BLCKSZ;
		lsm_load_report(0);
		for (Size first = 0; first < scan.npages;)
		{
			Size		end = first + 1;

			while (end < scan.npages &&
				   scan.pages[end].generation == scan.pages[first].generation)
				end++;
			lsm_load_place(tree, &scan, &scan.pages[first], end - first);
			first = end;
			lsm_load_report((int64) first * BLCKSZ);
		}
		lsm_load_remove_strays(tree);
	}
	lsm_load_publish(tree);
}

/*
 * See write.h.  ERRORs: corrupt pages (DATA_CORRUPTED), and what a flush
 * raises when the arena is too small for the log.
 */
void
lsm_tree_load(LsmTree *tree)
{
	MemoryContext context;
	MemoryContext old;

	Assert(!lsm_epoch_inside());
	Assert(loading.ctl == NULL);
	if (!lsm_load_acquire(tree))
		return;

	/*
	 * A load begins at the beginning.  If all sessions had less time for a
	 * statement than it takes, the tree could be read by none: who comes after
	 * one that was cancelled is cancelled when the tree is there.
	 */
	if (loading.holds_cancel)
		HOLD_CANCEL_INTERRUPTS();
	lsm_load_report_begin(tree);
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm load",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	if (loading.standby)
	{
		LSM_CRASH_POINT("standby_load_begun");
		lsm_control_count_fed();	/* a full barrier */
		LSM_CRASH_POINT("standby_load_registered");
	}
	if (!lsm_load_counters(tree))
		lsm_load_give_up(tree);
	else if (loading.standby)
		lsm_load_fed(tree);
	else
		lsm_load_logged(tree);
	lsm_progress_end(loading.progress_number);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (loading.holds_cancel)
		RESUME_CANCEL_INTERRUPTS();
	CHECK_FOR_INTERRUPTS();
}
