/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Writing entries: register and reserve memory (lsm_write_begin), log and
 *	  insert (lsm_write_apply).
 *
 * A writer registers in the active memtable under ctl->lock shared and leaves
 * after its entries are in the memtable.  In between it waits for nothing but
 * LWLocks (key lock, slot, buffers), so a flush that has sealed the memtable
 * under ctl->lock exclusive sees the count of writers reach zero soon.  While
 * a writer is registered, neither its memtable nor the tree's control block
 * may be evicted.
 *
 * lsm_write_begin() does all waiting (loading, flushing, compacting, memory)
 * while it is not registered, with no lock held and outside of any epoch.  If
 * it has registered and finds no memory, it unregisters before it waits.
 *
 * A write registered before a seal goes to the older generation even if it is
 * applied later than a write to the newer one.  Two writes of the same key are
 * kept in order by the stamp: a seal changes set_stamp, so the older write's
 * lsm_stamp_holds() fails and it starts over. Writers that take no stamp must
 * be the only ones that write their key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"

#include "tree/compaction/compaction.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/control/gaps.h"
#include "tree/disk/log_notes.h"
#include "tree/memtable/memtable.h"
#include "tree/read/read.h"
#include "tree/read/version.h"
#include "tree/write/pacing.h"
#include "tree/write/write.h"

/* What a node costs beyond key and value, roughly (for sizing only) */
#define LSM_ENTRY_OVERHEAD		96

/*
 * How long a writer waits for memtable memory that others hold, before it
 * gives up
 */
#define LSM_MEMORY_WAIT_MS		60000

/*
 * A delay (pacing.c) is slept in naps of at most so much.  What is too little
 * for a nap is kept for the next write, what is more than one write should
 * wait is forgiven.
 */
#define LSM_DELAY_NAP_US		1000
#define LSM_DELAY_LEAST_US		200
#define LSM_DELAY_MOST_US		8000

/*
 * The registration of this backend's write in progress.  Kept apart from the
 * LsmWrite, which lies on a stack frame that an error unwinds.
 */
static LsmMemtable *registered_memtable = NULL;

/* What this process has yet to wait for what it has written */
static double delay_owed_us = 0.0;

typedef enum LsmRegisterResult
{
	LSM_REGISTERED,
	LSM_REGISTER_RETRY,			/* control block changed hands: look again */
	LSM_REGISTER_NO_ACTIVE,
	LSM_REGISTER_FULL,			/* generation has reached its size */
	LSM_REGISTER_LEVEL0,		/* too many level 0 runs */
	LSM_REGISTER_DELAY			/* wait a moment first */
} LsmRegisterResult;

typedef struct LsmWriteState
{
	uint64		need;			/* bytes, estimate */
	LsmMemtable *memtable;		/* seen by the last attempt */
	bool		flush_self;		/* no worker can flush the full memtable */
	bool		compacted;		/* lsm_compact_stall was called */
	bool		paid;			/* for what is to be written, by a delay */
	LsmDelay	debt;			/* the reason for it */
	bool		stalled;
	int			tries;			/* for memory */
	instr_time	memory_start;	/* of the first lack of memory */

	/* if stalled */
	LsmStall	reason;			/* at present */
	instr_time	since;			/* it is the reason */
	uint64		stall_us[LSM_NSTALLS];	/* before */
	bool		reasons[LSM_NSTALLS];	/* there were */
} LsmWriteState;

static inline uint64
lsm_memtable_limit(void)
{
	return (uint64) lsm_memtable_size_kb * 1024;
}

/* The time since the last reason was found is that reason's. */
static void
lsm_write_stall_charge(LsmWriteState *state)
{
	instr_time	now;
	instr_time	elapsed;

	INSTR_TIME_SET_CURRENT(now);
	elapsed = now;
	INSTR_TIME_SUBTRACT(elapsed, state->since);
	state->stall_us[state->reason] += INSTR_TIME_GET_MICROSEC(elapsed);
	state->since = now;
}

static void
lsm_write_stall_begin(LsmWriteState *state, LsmStall reason)
{
	if (!state->stalled)
	{
		state->stalled = true;
		memset(state->stall_us, 0, sizeof(state->stall_us));
		memset(state->reasons, 0, sizeof(state->reasons));
		INSTR_TIME_SET_CURRENT(state->since);
	}
	else if (reason != state->reason)
		lsm_write_stall_charge(state);
	state->reason = reason;
	state->reasons[reason] = true;
}

/* Registered. */
static void
lsm_write_stall_end(LsmTree *tree, LsmWriteState *state)
{
	uint64		total = 0;

	lsm_write_stall_charge(state);
	for (int i = 0; i < LSM_NSTALLS; i++)
	{
		if (!state->reasons[i])
			continue;
		lsm_work_count_stall(tree->ctl, (LsmStall) i, state->stall_us[i]);
		total += state->stall_us[i];
	}
	lsm_count(tree, LSM_COUNT_STALL_US, total);
}

/* ---- delays ---- */

/*
 * Add to what this process owes; true if it is time for a nap.  Looks at a few
 * words that seldom change unless there is a debt.  What no worker can work off
 * is none: the writers do it themselves.  REQUIRES: ctl->lock.
 */
static bool
lsm_write_owes(LsmTreeShared *ctl, LsmWriteState *state)
{
	LsmDebt		debt;
	LsmWorkerHelp help;
	double		share;

	if (state->paid)
		return false;
	debt.level0_runs = (int) pg_atomic_read_u32(&ctl->files.level0_runs);
	debt.nsealed = ctl->memory.nsealed;
	debt.free_chunks = lsm_arena_free_chunks();
	debt.total_chunks = lsm_arena_total_chunks();
	debt.pending_memtables = pg_atomic_read_u32(&ctl->files.pending_memtables);
	if (likely(debt.level0_runs < LSM_SOFT_LEVEL0_RUNS && debt.nsealed < LSM_SOFT_SEALED &&
			   debt.free_chunks >= debt.total_chunks / LSM_SOFT_ARENA_PART &&
			   debt.pending_memtables <= LSM_SOFT_MEMTABLES))
	{
		delay_owed_us = 0.0;
		return false;
	}

	help = lsm_worker_help(ctl);
	if (!help.flush)
	{
		debt.nsealed = 0;
		debt.free_chunks = debt.total_chunks;
	}
	if (!help.compact)
	{
		debt.level0_runs = 0;
		debt.pending_memtables = 0;
	}
	debt.fill = ctl->memory.active == NULL ? 0.0 :
		Min((double) pg_atomic_read_u64(&ctl->memory.active->bytes) / lsm_memtable_limit(), 1.0);
	share = lsm_debt_share(&debt, &state->debt);
	delay_owed_us += lsm_debt_us(share, state->need);
	state->paid = true;
	return delay_owed_us >= LSM_DELAY_LEAST_US;
}

/*
 * Nothing is held.  An interrupt ends it within a nap.
 */
static void
lsm_write_delay(LsmTree *tree, LsmWriteState *state)
{
	double		left = Min(delay_owed_us, LSM_DELAY_MOST_US);
	instr_time	start;
	instr_time	now;
	uint64		slept = 0;

	Assert(registered_memtable == NULL);
	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	delay_owed_us = 0.0;
	INSTR_TIME_SET_CURRENT(start);
	while (slept < left)
	{
		CHECK_FOR_INTERRUPTS();
		LSM_NAP((long) Max(Min(left - slept, LSM_DELAY_NAP_US), 1), "LsmWriteDelay");
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		slept = INSTR_TIME_GET_MICROSEC(now);
	}
	lsm_work_count_delay(tree->ctl, state->debt, slept);
}

/* ---- registration ---- */

/*
 * Memory is short, and what a worker would flush it cannot: the writer does it.
 * To leave it to others to evict the memtable would be no help: the next write
 * loads it again.  REQUIRES: ctl->lock.
 */
static bool
lsm_write_frees_memory(LsmTreeShared *ctl)
{
	return lsm_arena_is_short() && !ctl->local &&
		pg_atomic_read_u64(&ctl->memory.active->bytes) > lsm_arena_large_bytes() &&
		!lsm_worker_help(ctl).flush;
}

/*
 * One attempt to register in the active memtable.
 */
static LsmRegisterResult
lsm_write_register(LsmTree *tree, LsmWrite *write, LsmWriteState *state)
{
	LsmTreeShared *ctl;
	LsmMemtable *active;
	LsmRegisterResult result;

	lsm_tree_enter(tree);		/* loads; makes tree->ctl valid */
	ctl = tree->ctl;
	LWLockAcquire(&ctl->lock, LW_SHARED);
	active = ctl->memory.active;
	state->memtable = active;
	if (pg_atomic_read_u64(&ctl->keyspace_id) != tree->keyspace_id ||
		ctl->state != LSM_STATE_LOADED)
		result = LSM_REGISTER_RETRY;
	else if (pg_atomic_read_u32(&ctl->files.level0_runs) >= LSM_L0_STOP_RUNS &&
			 !state->compacted)
		result = LSM_REGISTER_LEVEL0;
	else if (lsm_write_owes(ctl, state))
		result = LSM_REGISTER_DELAY;
	else if (active == NULL)
		result = LSM_REGISTER_NO_ACTIVE;
	else if (!lsm_memtable_vacant(active) &&
			 (pg_atomic_read_u64(&active->bytes) + state->need > lsm_memtable_limit() ||
			  lsm_write_frees_memory(ctl)))
	{
		state->flush_self = !lsm_worker_help(ctl).flush;
		result = LSM_REGISTER_FULL;
	}
	else
	{
		pg_atomic_fetch_add_u32(&active->writers, 1);
		registered_memtable = active;
		write->memtable = active;
		write->generation = active->generation;
		write->active = true;
		result = LSM_REGISTERED;
	}
	LWLockRelease(&ctl->lock);
	lsm_tree_exit(tree);
	return result;
}

static void
lsm_write_unregister(void)
{
	if (registered_memtable != NULL)
	{
		LsmMemtable *memtable = registered_memtable;

		registered_memtable = NULL;
		Assert(pg_atomic_read_u32(&memtable->writers) > 0);
		pg_atomic_fetch_sub_u32(&memtable->writers, 1);
	}
}

/*
 * Give the tree an active memtable if it has none.  False: no memory.
 */
static bool
lsm_write_make_active(LsmTree *tree)
{
	LsmTreeShared *ctl;
	bool		ok = true;

	lsm_tree_enter(tree);
	ctl = tree->ctl;
	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		ctl->state == LSM_STATE_LOADED && ctl->memory.active == NULL)
	{
		LsmMemtable *memtable = lsm_memtable_create(ctl->memory.active_generation, ctl->local);

		if (memtable != NULL)
		{
			lsm_set_change_begin(ctl);
			ctl->memory.active = memtable;
			lsm_set_change_end(ctl);
		}
		else
			ok = false;
	}
	LWLockRelease(&ctl->lock);
	lsm_tree_exit(tree);
	return ok;
}

/*
 * Reserve memory for all entries.  What was reserved before a failure stays
 * unused in the memtable until it is flushed.
 */
static bool
lsm_write_reserve(LsmWrite *write)
{
	return lsm_memtable_reserve_many((LsmMemtable *) write->memtable,
									 write->entries, write->nentries);
}

/* ---- making room ---- */

/*
 * Whoever flushes may be in no database.  Its horizon would take notice of what
 * slots hold of the catalogs.
 */
static void
note_horizon(LsmTree *tree)
{
	if (tree->kind == LSM_KIND_TABLE && tree->rel != NULL)
		lsm_tree_note_horizon(tree, lsm_tree_horizon_now(tree));
}

/*
 * Sizes of levels go by it, and delays of all who write: anybody may have small
 * memtables, but not decide that for others.
 */
static void
note_size(LsmTree *tree)
{
	if (tree->ctl->local || lsm_settings_are_servers("lsm.memtable_size") || superuser())
		pg_atomic_write_u32(&tree->ctl->memory.memtable_kb, lsm_memtable_size_kb);
}

/*
 * The active memtable has reached its size: seal it and see that it is flushed.
 */
static void
lsm_write_roll_over(LsmTree *tree, LsmWriteState *state)
{
	note_size(tree);
	note_horizon(tree);
	if (!lsm_tree_seal(tree, state->memtable))
	{
		/* too many are waiting: the worker cannot keep up, or cannot at all */
		lsm_write_stall_begin(state, LSM_STALL_FLUSH);
		(void) lsm_flush_oldest(tree, false);
		return;
	}
	if (!state->flush_self)
	{
		lsm_worker_wake();
		return;
	}
	lsm_write_stall_begin(state, LSM_STALL_FLUSH);
	while (lsm_tree_nsealed(tree) > 0)
		(void) lsm_flush_oldest(tree, false);
}

/*
 * The arena is full.  One call does one step, and the caller tries again.  A
 * step frees memory, or naps while another process is about to free some.  If
 * no memory comes for LSM_MEMORY_WAIT_MS, the writer gets an ERROR.
 */
static void
lsm_write_make_room(LsmTree *tree, LsmWriteState *state)
{
	instr_time	now;
	uint64		own_bytes = 0;
	LsmTreeShared *ctl;

	lsm_write_stall_begin(state, LSM_STALL_MEMORY);
	if (state->tries++ == 0)
		INSTR_TIME_SET_CURRENT(state->memory_start);

	if (lsm_memtable_reclaim() > 0)
		return;

	/* our own tree first, if it holds much: the cost falls on who causes it */
	if (lsm_tree_nsealed(tree) > 0)
	{
		(void) lsm_flush_oldest(tree, false);
		lsm_memtable_reclaim();
		return;
	}
	lsm_tree_enter(tree);
	ctl = tree->ctl;
	LWLockAcquire(&ctl->lock, LW_SHARED);
	state->memtable = NULL;
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id &&
		ctl->state == LSM_STATE_LOADED && ctl->memory.active != NULL)
	{
		state->memtable = ctl->memory.active;
		own_bytes = pg_atomic_read_u64(&ctl->memory.active->bytes);
	}
	LWLockRelease(&ctl->lock);
	lsm_tree_exit(tree);

	if (own_bytes > (uint64) lsm_arena_total_chunks() * LSM_CHUNK_BYTES / 8 ||
		(own_bytes > 2 * LSM_CHUNK_BYTES && state->tries > 2 &&
		 lsm_control_evict(tree->ctl, 1, PG_UINT64_MAX) == 0))
	{
		if (lsm_tree_seal(tree, state->memtable))
			(void) lsm_flush_oldest(tree, false);
		lsm_memtable_reclaim();
		return;
	}

	/* then trees that can be loaded again from their log pages */
	if (lsm_control_evict(tree->ctl,
						  2 + state->need / LSM_CHUNK_BYTES, PG_UINT64_MAX) > 0 &&
		lsm_memtable_reclaim() > 0)
		return;

	/* evicted, but a reader is still at it; or everything is in use */
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, state->memory_start);
	if (INSTR_TIME_GET_MILLISEC(now) > LSM_MEMORY_WAIT_MS)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no memory for a memtable could be had in %d seconds",
						LSM_MEMORY_WAIT_MS / 1000),
				 errhint("Increase lsm.memtable_memory.")));
	CHECK_FOR_INTERRUPTS();
	LSM_NAP(Min(state->tries, 20) * 500L, "LsmMemory");
}

/* ---- the door ---- */

/*
 * Sizes checked; returns an estimate of the memory needed.
 */
static uint64
lsm_write_prepare(LsmTree *tree, LsmEntry *entries, int nentries)
{
	uint64		total = 0;
	int			i;

	if (nentries < 1 || nentries > LSM_MAX_WRITE_ENTRIES)
		elog(ERROR, "an lsm write of %d entries", nentries);
	for (i = 0; i < nentries; i++)
	{
		LsmEntry   *entry = &entries[i];

		if (entry->key.len > LSM_MAX_KEY_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("key of %u bytes exceeds the maximum of %d bytes of an lsm tree",
							entry->key.len, LSM_MAX_KEY_BYTES),
					 errhint("Consider indexing a hash of the value, or a prefix of it.")));
		if (entry->key.len + (uint64) entry->value.len > LSM_MAX_ENTRY_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("entry of " UINT64_FORMAT " bytes exceeds the maximum of %d bytes of an lsm tree",
							(uint64) entry->key.len + entry->value.len,
							LSM_MAX_ENTRY_BYTES)));
		Assert(entry->value.len >= 1);
		Assert(tree->kind != LSM_KIND_INDEX || entry->key.len >= LSM_TID_BYTES);

		entry->node = NULL;
		total += entry->key.len + entry->value.len + LSM_ENTRY_OVERHEAD;
	}
	if (nentries > 1 &&
		total - (uint64) nentries * LSM_ENTRY_OVERHEAD > LSM_MAX_ENTRY_BYTES)
		elog(ERROR, "an lsm write of %d entries has more than %d bytes",
			 nentries, LSM_MAX_ENTRY_BYTES);
	return total;
}

/* Neither registered nor reserved. */
static void
write_init(LsmTree *tree, LsmWrite *write, LsmEntry *entries, int nentries, bool optional,
		   LsmWriteState *state)
{
	Size		notes_room = lsm_log_notes_room(entries, nentries);

	Assert(registered_memtable == NULL);
	Assert(!lsm_epoch_inside() && !lsm_key_lock_is_held());
	memset(state, 0, offsetof(LsmWriteState, reason));
	state->need = lsm_write_prepare(tree, entries, nentries);
	write->tree = tree;
	write->entries = entries;
	write->nentries = nentries;
	write->memtable = NULL;
	write->active = false;
	write->optional = optional;
	write->notes = notes_room > 0 ? MemoryContextAllocHuge(CurrentMemoryContext, notes_room) : NULL;
}

/*
 * See tree.h.  The stall rules: docs/write-path.md.
 */
void
lsm_write_begin(LsmTree *tree, LsmWrite *write, LsmEntry *entries, int nentries)
{
	LsmWriteState state;

	if (unlikely(lsm_ignore_missing_files))
		lsm_salvage_forbid(tree, lsm_version_refresh(tree), false);
	write_init(tree, write, entries, nentries, false, &state);

	while (!write->active)
	{
		CHECK_FOR_INTERRUPTS();
		switch (lsm_write_register(tree, write, &state))
		{
			case LSM_REGISTERED:
				if (lsm_write_reserve(write))
					break;
				lsm_write_unregister();
				write->active = false;
				lsm_write_make_room(tree, &state);
				break;
			case LSM_REGISTER_RETRY:
				/* not loaded, or not as a whole */
				lsm_tree_require_files(tree);
				break;
			case LSM_REGISTER_NO_ACTIVE:
				if (!lsm_write_make_active(tree))
					lsm_write_make_room(tree, &state);
				break;
			case LSM_REGISTER_FULL:
				lsm_write_roll_over(tree, &state);
				break;
			case LSM_REGISTER_LEVEL0:

				/*
				 * Once per write: level 0 is bounded by making every writer
				 * pay, but a writer does not wait for ever on a compaction
				 * that makes no headway.
				 */
				state.compacted = true;
				lsm_write_stall_begin(&state, LSM_STALL_LEVEL0);
				lsm_compact_stall(tree);
				break;
			case LSM_REGISTER_DELAY:
				lsm_write_delay(tree, &state);
				break;
		}
	}

	if (unlikely(state.stalled))
		lsm_write_stall_end(tree, &state);
	LSM_CRASH_POINT("write_begun");
}

/*
 * See tree.h.  Memory for a first memtable is taken from what is free in the
 * arena, that of the entries by lsm_log_append(), when it knows how many.
 */
bool
lsm_write_begin_optional(LsmTree *tree, LsmWrite *write, LsmEntry *entries, int nentries)
{
	LsmWriteState state;
	LsmRegisterResult result;

	write_init(tree, write, entries, nentries, true, &state);
	state.paid = true;			/* never waits */

	result = lsm_write_register(tree, write, &state);
	if (result == LSM_REGISTER_NO_ACTIVE && lsm_write_make_active(tree))
		result = lsm_write_register(tree, write, &state);
	return result == LSM_REGISTERED;
}

static void
want_room_for_rest(LsmWrite *write, int first)
{
	uint32		bytes = 0;

	for (int i = first; i < write->nentries; i++)
		bytes += lsm_log_entry_room(&write->entries[i]);
	lsm_log_want_room(write->tree, bytes);
}

TransactionId lsm_last_write_completed_xid = InvalidTransactionId;

void
lsm_write_apply(LsmWrite *write)
{
	LsmTreeShared *ctl = write->tree->ctl;
	int			i;

	if (!write->optional)
		lsm_last_write_completed_xid = XidFromFullTransactionId(TransamVariables->latestCompletedXid);

	Assert(write->active && registered_memtable == write->memtable);
	Assert(pg_atomic_read_u64(&ctl->keyspace_id) == write->tree->keyspace_id);

	if (!ctl->local)
		lsm_log_prefetch(write->tree);
	for (i = 0; i < write->nentries; i++)
	{
		LsmEntry   *entry = &write->entries[i];
		LsmSlice	filter_key = lsm_filter_key(write->tree, entry->key);

		if (!entry->hashed)
			entry->digest = lsm_digest_key(filter_key.data, filter_key.len);
		Assert(entry->digest == lsm_digest_key(filter_key.data, filter_key.len));
		Assert(!entry->key_locked || lsm_key_is_locked(write->tree, entry->digest));
		entry->digest = lsm_memtable_digest(write->tree, entry->key, entry->digest);
		entry->hashed = false;
		/* it arrives while the log record is made */
		if (entry->probably_new)
			lsm_memtable_prefetch_newest((LsmMemtable *) write->memtable, entry->digest);
		else
			lsm_memtable_prefetch((LsmMemtable *) write->memtable, entry->digest);
	}

	if (ctl->local)
	{
		uint64		seq;

		if (write->optional)
			(void) lsm_write_reserve(write);	/* of backend memory: cannot fail */
		seq = pg_atomic_fetch_add_u64(&ctl->seq, write->nentries) + 1;

		lsm_memtable_insert_many((LsmMemtable *) write->memtable, write->entries,
								 write->nentries, seq);
		/* no gaps: local trees have none */
	}
	else
	{
		int			n;
		int			pages = 0;

		for (i = 0; i < write->nentries; i += n)
		{
			n = lsm_log_append(write, i);
			if (n == 0)
			{
				want_room_for_rest(write, i);
				break;			/* optional, and no room */
			}
			lsm_gaps_written(write->tree, &write->entries[i], n);
			pages++;
		}
		/* log pages are read past the relation cache, which would count them */
		if (!write->optional && write->tree->rel != NULL)
			lsm_pgstat_count_buffer_hits(write->tree->rel, pages);
	}
	lsm_write_cancel(write);
}

/* Ends the write; what is reserved and unused stays so until the flush. */
void
lsm_write_cancel(LsmWrite *write)
{
	Assert(!write->active || registered_memtable == write->memtable);
	if (write->active)
	{
		write->active = false;
		lsm_write_unregister();
	}
	if (write->notes != NULL)
		pfree(write->notes);
	write->notes = NULL;
}

void
lsm_write_abort(void)
{
	lsm_write_unregister();
	lsm_load_abort();
}

static void
write_entry(LsmTree *tree, LsmEntry *entry)
{
	LsmWrite	write;

	entry->probably_new = true;
	lsm_write_begin(tree, &write, entry, 1);
	lsm_write_apply(&write);
}

void
lsm_write_one(LsmTree *tree, LsmSlice key, LsmSlice value)
{
	LsmEntry	entry = {.key = key, .value = value};

	write_entry(tree, &entry);
}

void
lsm_write_kept_key(LsmTree *tree, LsmSlice key, LsmSlice value)
{
	LsmEntry	entry = {.key = key, .value = value, .known_new = true};

	Assert(tree->kind == LSM_KIND_INDEX);
	write_entry(tree, &entry);

	/* the digest of an index tree's entry is that of its key's lock */
	lsm_key_changed(tree, entry.digest);
}
