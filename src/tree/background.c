/*-------------------------------------------------------------------------
 *
 * background.c
 *	  One round of background work.
 *
 * A worker is attached to no database and may not wait for a relation's lock
 * (publish_lock.c).  A tree whose lock was not to be had, or whose job failed, is
 * left alone for a while; its writers can always flush and compact for
 * themselves.
 *
 * An error ends the round, wherever it comes from, and is caught by worker.c,
 * which asks whose it was (lsm_worker_failed).  What is begun says so before:
 * a tree's job, or a chore for all of them together.  Whoever fails rests,
 * longer each time, so that a file which cannot be read costs its own tree's
 * work and nobody else's.  Amid a step of compaction, flushes of other trees
 * are a subtransaction: their errors do not undo the step.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/clock.h"
#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/elastic/elastic.h"
#include "tree/memtable/memtable.h"

#define RETRY_AFTER_LOCK_MS		500
#define RETRY_AFTER_ERROR_MS	10000
#define RETRY_AFTER_ERRORS_MAX	(5 * 60 * 1000)	/* of the same one in a row */

static TimestampTz
after_ms(int ms)
{
	return TimestampTzPlusMilliseconds(lsm_monotonic_now(), ms);
}

/* ======================================================================
 * Who is to blame for an error
 * ====================================================================== */

/* Something that is done again and again, and may fail. */
typedef struct Attempt
{
	TimestampTz after;			/* not before */
	int			failures;		/* in a row */
	bool		once;			/* each time something else: it need not rest */
	LsmTreeShared *ctl;			/* whose writers have to know that it rests */
	LsmRest		why;
} Attempt;

/* The one in progress */
static Attempt *attempt = NULL;
static char attempt_name[MAXPGPATH];

static void begin_attempt(Attempt *it, const char *format,...) pg_attribute_printf(2, 3);

static void
begin_attempt(Attempt *it, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(attempt_name, sizeof(attempt_name), format, args);
	va_end(args);
	attempt = it;
}

static void
end_attempt(void)
{
	attempt->failures = 0;
	if (attempt->ctl != NULL)
		lsm_worker_rests(attempt->ctl, attempt->why, 0);
	attempt = NULL;
}

/* It has ended by an error.  For how long it rests, in ms. */
static int
attempt_failed(void)
{
	int			ms = RETRY_AFTER_ERROR_MS;

	if (attempt->once)
		return 0;
	for (int i = 0; i < attempt->failures && ms < RETRY_AFTER_ERRORS_MAX; i++)
		ms *= 2;
	ms = Min(ms, RETRY_AFTER_ERRORS_MAX);
	attempt->failures++;
	attempt->after = after_ms(ms);
	if (attempt->ctl != NULL)
		lsm_worker_rests(attempt->ctl, attempt->why, ms);
	return ms;
}

/* See tree.h. */
bool
lsm_worker_failed(MemoryContext context, bool report)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		known = attempt != NULL;

	if (known)
	{
		int			ms = attempt_failed();

		attempt = NULL;
		if (report)
		{
			ErrorData  *error = CopyErrorData();

			FlushErrorState();
			error->elevel = WARNING;
			error->context = psprintf("%s%s%s", error->context != NULL ? error->context : "",
									  error->context != NULL ? "\n" : "", attempt_name);
			if (ms > 0)
				error->context = psprintf("%s; left alone for %d seconds", error->context,
										  ms / 1000);
			ThrowErrorData(error);
		}
	}
	MemoryContextSwitchTo(old);
	return known;
}

/* ======================================================================
 * What this worker remembers of each control block
 * ====================================================================== */

typedef struct TreeNote
{
	uint64		keyspace_id;	/* the note is about */
	uint64		version_no;		/* looked at for compaction, beside ... */
	uint32		claimed_levels; /* ... who compacted these: nothing was due
								 * in the others */
	Attempt		flush;
	Attempt		compact;
	Attempt		room;
} TreeNote;

/*
 * By block; made when first needed, they stay where they are: an attempt
 * points into one.
 */
static TreeNote **notes = NULL;

static TreeNote *
tree_note(int i, uint64 keyspace_id)
{
	TreeNote   *note;

	if (notes == NULL)
		notes = MemoryContextAllocZero(TopMemoryContext, lsm_max_trees * sizeof(TreeNote *));
	if (notes[i] == NULL)
		notes[i] = MemoryContextAllocZero(TopMemoryContext, sizeof(TreeNote));
	note = notes[i];
	if (note->keyspace_id != keyspace_id)
	{
		memset(note, 0, sizeof(TreeNote));
		note->keyspace_id = keyspace_id;
		note->flush.ctl = note->compact.ctl = lsm_control_nth(i);
		note->flush.why = LSM_REST_FLUSH;
		note->compact.why = LSM_REST_COMPACT;
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
	uint32		claimed_levels; /* being compacted, or planned for */
	uint32		compaction_due; /* the score in percent */
	uint32		wanted_log_bytes;
} TreeGlance;

/* False: nothing a worker can do for it. */
static bool
tree_glance(LsmTreeShared *ctl, TreeGlance *glance)
{
	bool		usable;
	uint32		claimed;

	glance->keyspace_id = pg_atomic_read_u64(&ctl->keyspace_id);
	if (glance->keyspace_id == 0 || ctl->local)
		return false;

	LWLockAcquire(&ctl->lock, LW_SHARED);
	usable = pg_atomic_read_u64(&ctl->keyspace_id) == glance->keyspace_id &&
		ctl->relid_confirmed && ctl->state == LSM_STATE_LOADED;
	glance->nsealed = ctl->memory.nsealed;
	glance->active = usable ? ctl->memory.active : NULL;
	glance->active_bytes = glance->active != NULL ?
		pg_atomic_read_u64(&ctl->memory.active->bytes) : 0;
	claimed = lsm_claimed_levels(ctl);
	LWLockRelease(&ctl->lock);
	glance->flushing = (claimed & LSM_MEMTABLES_BIT) != 0;
	glance->claimed_levels = claimed & LSM_ALL_LEVELS;
	glance->version_no = pg_atomic_read_u64(&ctl->files.version_no);
	glance->compaction_due = pg_atomic_read_u32(&ctl->files.compaction_due);
	glance->wanted_log_bytes = pg_atomic_read_u32(&ctl->log.wanted_log_bytes);
	return usable;
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

	begin_attempt(&note->flush, "while flushing LSM tree \"%s\"", tree->dir);
	done = lsm_flush_oldest(tree, true);
	end_attempt();
	note->flush.after = done ? 0 : after_ms(RETRY_AFTER_LOCK_MS);
	return done;
}

/*
 * The tree of which most memtables wait: its writers are the next to stop.
 * NULL: nothing is sealed, or nothing that can be flushed now.
 */
static LsmTreeShared *
find_sealed(TreeNote **note, int *ntrees)
{
	TimestampTz now = lsm_monotonic_now();
	LsmTreeShared *neediest = NULL;
	int			most = 0;

	*ntrees = 0;
	for (int i = 0;; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		TreeGlance	glance;
		TreeNote   *its;

		if (ctl == NULL)
			break;
		if (!tree_glance(ctl, &glance) || glance.nsealed == 0 || glance.flushing)
			continue;
		its = tree_note(i, glance.keyspace_id);
		if (its->flush.after > now)
			continue;
		++*ntrees;
		if (glance.nsealed > most)
		{
			most = glance.nsealed;
			neediest = ctl;
			*note = its;
		}
	}
	return neediest;
}

/*
 * Flush what is sealed, as many memtables as there were trees that had one:
 * writers may seal more all the time, and there is other work.
 */
static bool
flush_sealed(void)
{
	TreeNote   *note;
	LsmTreeShared *ctl;
	int			ntrees;
	bool		did = false;

	ctl = find_sealed(&note, &ntrees);
	for (int left = ntrees; ctl != NULL && left > 0; left--)
	{
		did |= flush_tree(ctl, note);
		CHECK_FOR_INTERRUPTS();
		ctl = find_sealed(&note, &ntrees);
	}
	return did;
}

/*
 * The tree with the largest active memtable that may be flushed now and has more
 * than this many bytes; NULL: there is none.
 */
static LsmTreeShared *
find_largest(uint64 bytes, TreeGlance *found, TreeNote **note)
{
	TimestampTz now = lsm_monotonic_now();
	LsmTreeShared *largest = NULL;

	for (int i = 0;; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		TreeGlance	glance;

		if (ctl == NULL)
			return largest;
		if (!tree_glance(ctl, &glance) || glance.active == NULL ||
			glance.nsealed == LSM_MAX_SEALED || glance.active_bytes <= bytes ||
			tree_note(i, glance.keyspace_id)->flush.after > now)
			continue;
		largest = ctl;
		bytes = glance.active_bytes;
		*found = glance;
		*note = tree_note(i, glance.keyspace_id);
	}
}

static bool
flush_active(LsmTreeShared *ctl, const TreeGlance *glance, TreeNote *note)
{
	LsmTree    *tree = lsm_tree_attach(ctl);
	bool		sealed = false;

	/* leave alone what cannot be flushed now */
	note->flush.after = after_ms(RETRY_AFTER_LOCK_MS);
	if (tree == NULL || tree->keyspace_id != note->keyspace_id)
		return false;
	begin_attempt(&note->flush, "while flushing LSM tree \"%s\"", tree->dir);
	if (lsm_publish_lock(tree))
	{
		sealed = lsm_tree_seal(tree, glance->active);
		lsm_publish_unlock(tree);
	}
	attempt = NULL;				/* the flush itself has yet to succeed */
	return sealed && flush_tree(ctl, note);
}

/* The largest one above this size that can be flushed now, if any */
static bool
flush_largest(uint64 bytes)
{
	LsmTreeShared *largest;
	TreeGlance	glance;
	TreeNote   *note;

	while ((largest = find_largest(bytes, &glance, &note)) != NULL)
	{
		if (flush_active(largest, &glance, note))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/*
 * The arena is nearly full.  Large memtables are flushed, as far as a worker
 * can.  Then those go that nobody has used lately, whatever they hold: their
 * log pages remain.  What is in use would come back with its next row, and take
 * the memory from the next one: that is flushed, too, but for very small ones.
 * What is in use and no worker can flush is left alone: its writers flush it
 * (write.c).
 */
static bool
relieve_arena(void)
{
	int			want = lsm_arena_total_chunks() / 10;

	if (!lsm_arena_is_short())
		return false;
	if (lsm_memtable_reclaim() > 0 && !lsm_arena_is_short())
		return true;
	return flush_largest(lsm_arena_large_bytes()) ||
		lsm_control_evict(NULL, want, 0) > 0 ||
		flush_largest(LSM_SMALL_BYTES) ||
		lsm_control_evict(NULL, want, LSM_SMALL_BYTES) > 0;
}

/* ======================================================================
 * Room for what need not be written
 * ====================================================================== */

/* So much refused makes a flush worth while, before the memtable is full */
#define FLUSH_WANTED_BYTES	(64 * 1024)

/*
 * What is added to a fork at a time, at most; and what is added though less is
 * asked for, of a fork that is not small, so that the next scans need not ask
 */
#define ROOM_PAGES_MAX		256
#define ROOM_PAGES_AHEAD	16

static uint32
room_pages(const LsmTree *tree, uint32 wanted_bytes)
{
	uint32		pages = wanted_bytes / LSM_PAGE_BYTES + 1;

	pages = Max(pages, Min(tree->ctl->pages.nblocks / 4, ROOM_PAGES_AHEAD));
	return Min(pages, ROOM_PAGES_MAX);
}

/*
 * Scans want to write DELETE entries (tombstone.c).  What they lack is room in
 * the memtable, or in the log's pages, and a flush makes both, where much is in
 * memory and much is wanted.  Else the fork has to grow, if it has no free
 * pages: a scan that finds no room has looked its dead rows up in vain, and so
 * will the next one.  Where it has some, or the memtable is half full, it is the
 * memtable that refuses: what is wanted adds up until a flush is worth while.
 */
static void
make_room(LsmTree *tree, TreeNote *note, const TreeGlance *glance)
{
	double		base_bytes = lsm_tree_base_bytes(tree);
	bool		large = glance->active_bytes >= base_bytes / 4;
	bool		flush = large && glance->wanted_log_bytes >= FLUSH_WANTED_BYTES;

	if (large && !flush &&
		(glance->active_bytes >= base_bytes / 2 || tree->ctl->pages.free_pages > 0))
		return;
	if (!lsm_publish_lock(tree))
	{
		note->room.after = after_ms(RETRY_AFTER_LOCK_MS);
		return;
	}
	pg_atomic_write_u32(&tree->ctl->log.wanted_log_bytes, 0);
	if (flush)
		(void) lsm_tree_seal(tree, glance->active);
	else
		lsm_page_add_free(tree, room_pages(tree, glance->wanted_log_bytes));
	lsm_publish_unlock(tree);
}

/* For all trees that ask.  What is sealed here, the caller flushes. */
static void
make_rooms(void)
{
	TimestampTz now = 0;

	for (int i = 0;; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		TreeGlance	glance;
		TreeNote   *note;
		LsmTree    *tree;

		if (ctl == NULL)
			break;
		if (pg_atomic_read_u32(&ctl->log.wanted_log_bytes) == 0 ||
			!tree_glance(ctl, &glance) || glance.nsealed > 0)
			continue;
		if (now == 0)
			now = lsm_monotonic_now();
		note = tree_note(i, glance.keyspace_id);
		if (note->room.after > now)
			continue;
		tree = lsm_tree_attach(ctl);
		if (tree == NULL || tree->keyspace_id != glance.keyspace_id)
			continue;
		begin_attempt(&note->room, "while making room in the log of LSM tree \"%s\"", tree->dir);
		make_room(tree, note, &glance);
		end_attempt();
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Between the output files of a worker's compaction (lsm_compact_pause_hook).
 * An error of a flush is the flushed tree's, and ends its subtransaction: with
 * it go what the flush has locked, opened and claimed, and not what the step
 * has.
 */
static void
worker_pause(void)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	Attempt    *volatile outer = attempt;
	char		outer_name[MAXPGPATH];
	TreeNote   *note;
	int			ntrees;

	/* with more than one worker, number 0 does nothing but flush */
	if (lsm_worker_number() != 0 || find_sealed(&note, &ntrees) == NULL)
		return;
	strlcpy(outer_name, attempt_name, sizeof(outer_name));
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		(void) flush_sealed();
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		/* a request to end is nobody's failure */
		if (ShutdownRequestPending || !lsm_worker_failed(context, true))
		{
			MemoryContextSwitchTo(context);
			error = CopyErrorData();
			FlushErrorState();
			RollbackAndReleaseCurrentSubTransaction();
			ReThrowError(error);
		}
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (outer != NULL)
		begin_attempt(outer, "%s", outer_name);
}

/* ======================================================================
 * Compactions
 * ====================================================================== */

static bool
compact_tree(LsmTreeShared *ctl, TreeNote *note, const TreeGlance *glance)
{
	LsmTree    *tree = lsm_tree_attach(ctl);
	TreeGlance	after;
	LsmCompactResult result;

	if (tree == NULL || tree->keyspace_id != note->keyspace_id)
		return false;
	begin_attempt(&note->compact, "while compacting LSM tree \"%s\"", tree->dir);
	result = lsm_compact_once(tree, true);
	end_attempt();
	note->compact.after = 0;
	if (result == LSM_COMPACT_DONE)
		return true;

	if (result == LSM_COMPACT_NOTHING)
	{
		note->version_no = glance->version_no;
		note->claimed_levels = glance->claimed_levels;

		/* it says so if something is due all the same */
		if (glance->claimed_levels == 0 && pg_atomic_read_u32(&ctl->files.compaction_due) != 0)
			note->compact.after = after_ms(RETRY_AFTER_LOCK_MS);
	}
	else if (tree_glance(ctl, &after) && after.claimed_levels == LSM_ALL_LEVELS)
	{
		/* look again when that has changed */
		note->version_no = after.version_no;
		note->claimed_levels = after.claimed_levels;
	}
	else
		note->compact.after = after_ms(RETRY_AFTER_LOCK_MS);
	return false;
}

/*
 * May a step be due that this worker could make?  Beside a step that another
 * makes, only if compaction_due says so; and not again before something
 * changes.
 */
static bool
worth_a_try(const TreeNote *note, const TreeGlance *glance, TimestampTz now)
{
	bool		same = note->version_no == glance->version_no &&
		note->claimed_levels == glance->claimed_levels;

	if (note->compact.after > now || glance->claimed_levels == LSM_ALL_LEVELS)
		return false;
	if (glance->claimed_levels != 0)
		return glance->compaction_due != 0 && !same;
	return glance->compaction_due != 0 || !same;
}

/*
 * Trees with this score, in percent, go first: eight runs in level 0, or a
 * level of twice its size.
 */
#define URGENT_SCORE	200

/*
 * One step for this tree, if there is anything to do and it may be tried.
 * `beside`: though others compact it.
 */
static bool
compact_nth(int i, bool beside, TimestampTz now)
{
	LsmTreeShared *ctl = lsm_control_nth(i);
	TreeGlance	glance;
	TreeNote   *note;

	if (!tree_glance(ctl, &glance) || (glance.claimed_levels != 0 && !beside))
		return false;
	note = tree_note(i, glance.keyspace_id);
	return worth_a_try(note, &glance, now) && compact_tree(ctl, note, &glance);
}

/*
 * The tree that needs it most, of those that are urgent, and not known to be at
 * rest; -1: none.
 */
static int
find_urgent(int n, bool beside, TimestampTz now)
{
	uint32		most = URGENT_SCORE - 1;
	int			urgent = -1;

	for (int i = 0; i < n; i++)
	{
		LsmTreeShared *ctl = lsm_control_nth(i);
		uint32		score = pg_atomic_read_u32(&ctl->files.compaction_due);
		TreeGlance	glance;

		if (score > most && tree_glance(ctl, &glance) &&
			(glance.claimed_levels == 0 || beside) &&
			worth_a_try(tree_note(i, glance.keyspace_id), &glance, now))
		{
			most = score;
			urgent = i;
		}
	}
	return urgent;
}

/*
 * One step for one tree: the one that needs it most, or taking turns.  A tree may
 * need it most for hours, so every second step is the next one's in turn.
 */
static bool
compact_one(int n, bool beside)
{
	static int	next = 0;
	static bool urgent_had_it = false;
	TimestampTz now = lsm_monotonic_now();
	int			urgent = urgent_had_it ? -1 : find_urgent(n, beside, now);

	urgent_had_it = urgent >= 0 && compact_nth(urgent, beside, now);
	if (urgent_had_it)
		return true;
	for (int i = 0; i < n; i++)
	{
		int			at = (next + i) % n;

		if (compact_nth(at, beside, now))
		{
			next = at + 1;
			return true;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/*
 * Trees that nobody compacts come first: how much a tree needs it says its most
 * urgent step, and that is most likely the one which is being made.
 */
static bool
compact_next(void)
{
	int			n = 0;

	while (lsm_control_nth(n) != NULL)
		n++;
	return compact_one(n, false) || compact_one(n, true);
}

/* ======================================================================
 * The round
 * ====================================================================== */

static bool units_loaded;
static bool file_logged;
static bool file_unshared;

/* What is done for all trees together, in the order of a round */
static void
drain_unlinked(void)
{
	lsm_unlink_drain(false);
}

static void
load_units(void)
{
	units_loaded = lsm_elastic_round();
}

static void
help_logging(void)
{
	file_logged = lsm_wal_offload_run();
}

static void
unshare_file(void)
{
	file_unshared = lsm_unshare_one_file();
}

typedef struct Chore
{
	void		(*work) (void);
	const char *name;
	Attempt		attempt;
} Chore;

static Chore unlinking = {drain_unlinked, "while removing files"};
static Chore dropping = {lsm_drop_keyspaces, "while removing dropped LSM trees"};
static Chore noting = {lsm_primary_memory_note, "while noting settings for standbys"};
static Chore sweeping = {lsm_sweep_orphans, "while looking for orphaned LSM trees"};
static Chore loading = {load_units, "while loading filters"};
static Chore unsharing = {unshare_file, "while parting files that LSM trees share"};
static Chore logging = {help_logging, "while logging a file for another process", {.once = true}};

static void
do_chore(Chore *chore)
{
	if (chore->attempt.failures > 0 && chore->attempt.after > lsm_monotonic_now())
		return;
	begin_attempt(&chore->attempt, "%s", chore->name);
	chore->work();
	end_attempt();
}

bool
lsm_worker_round(int worker_no)
{
	bool		did = false;
	bool		compacts;

	if (!lsm_control_ready())
		return false;

	lsm_compact_pause_hook = worker_pause;
	lsm_rate_note_server();
	units_loaded = file_logged = file_unshared = false;
	do_chore(&unlinking);
	if (worker_no == 0)
	{
		/*
		 * first: a flush may fail for lack of the room that the sweep gives
		 * back
		 */
		do_chore(&noting);
		do_chore(&dropping);
		do_chore(&sweeping);
		make_rooms();
		did |= flush_sealed();
		did |= relieve_arena();
		do_chore(&loading);
	}
	/* there may be none but number 0, and not by the setting alone */
	compacts = worker_no > 0 || !lsm_compaction_worker_runs();
	if (worker_no == 1 || (worker_no == 0 && compacts))
		do_chore(&unsharing);
	if (!did && compacts)
		did |= compact_next();
	if (!did)
	{
		do_chore(&logging);
		did = file_logged;
	}

	(void) lsm_memtable_reclaim();
	lsm_counters_publish();

	/* units that come and go all the time must not keep us from compacting */
	return did || units_loaded || file_unshared;
}
