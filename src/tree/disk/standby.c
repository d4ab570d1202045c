/*-------------------------------------------------------------------------
 *
 * standby.c
 *	  Trees that are read in recovery: the startup process feeds them.
 *
 * A tree that a session on a standby has opened is loaded from its log pages
 * (load.c), like any other, but its memtables go on growing: redo of an append
 * inserts the entries into the memtable of their generation, redo of an edit
 * drops the memtables of flushed generations.  All trees that nobody has
 * opened stay on pages.
 *
 * Registration.  The loader sets ctl->fed and counts the change before it
 * reads the first page.  Redo changes the page first and looks at the count
 * afterwards.  The page's content lock lies between, so an entry is seen by
 * the loader, or fed, or both: a memtable ignores a sequence number that it
 * has.  The loader inserts by the same function as redo does.
 *
 * A commit is replayed after the entries of its transaction, so a snapshot
 * that sees the transaction finds its entries.
 *
 * The startup process never waits for a reader, but for LWLocks, and raises no
 * error for want of memory: it evicts idle trees, and if that is not enough
 * gives this tree up.  The next reader loads it again, or gets an error.
 *
 * Files that an edit removes are unlinked when the readers' epochs have
 * passed; until then they wait in a queue of the startup process.  What is
 * left there at a crash or at the end of recovery are strays, which the first
 * load after recovery removes.
 *
 * Locking: ctl->lock is taken with no buffer locked.  Memtables are kept by a
 * registered writer against eviction, and against redo of an edit, which waits
 * for nobody, by the loader's epoch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogutils.h"
#include "storage/bufpage.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/log_entry.h"
#include "tree/disk/page.h"
#include "tree/disk/standby.h"
#include "tree/memtable/memtable.h"

/* Chunks to evict for when the arena is full */
#define EVICT_CHUNKS	16

/* For lsm_warn_about_file(): no file has this number */
#define GIVEN_UP		PG_UINT64_MAX

/* ======================================================================
 * Which trees are fed
 * ====================================================================== */

typedef struct FedTree
{
	RelFileLocator rlocator;	/* hash key */
	LsmTreeShared *ctl;
	uint64		keyspace_id;
} FedTree;

/* Of the startup process */
static HTAB *fed_trees = NULL;
static uint64 fed_changes = 0;

static void
collect_fed_trees(void)
{
	HASHCTL		info;
	LsmTreeShared *ctl;

	if (fed_trees != NULL)
		hash_destroy(fed_trees);
	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(RelFileLocator);
	info.entrysize = sizeof(FedTree);
	info.hcxt = TopMemoryContext;
	fed_trees = hash_create("lsmam trees fed by recovery", 64, &info,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		uint64		keyspace_id;
		RelFileLocator rlocator;
		LsmKind		kind;
		char		relpersistence;
		FedTree    *entry;

		if (!lsm_control_identity(ctl, &keyspace_id, &rlocator, &kind, &relpersistence) ||
			!*(volatile bool *) &ctl->fed)
			continue;
		entry = hash_search(fed_trees, &rlocator, HASH_ENTER, NULL);
		entry->ctl = ctl;
		entry->keyspace_id = keyspace_id;
	}
}

/* NULL if the fork's tree is not fed.  For an append: with its page locked. */
static FedTree *
find_fed_tree(const RelFileLocator *rlocator)
{
	uint64		changes = lsm_control_fed_changes();

	if (changes != fed_changes)
	{
		collect_fed_trees();
		fed_changes = changes;
	}
	if (fed_trees == NULL || hash_get_num_entries(fed_trees) == 0)
		return NULL;
	return hash_search(fed_trees, rlocator, HASH_FIND, NULL);
}

/* ======================================================================
 * Entries
 * ====================================================================== */

static bool
may_feed(LsmTreeShared *ctl, uint64 keyspace_id, uint64 generation)
{
	return pg_atomic_read_u64(&ctl->keyspace_id) == keyspace_id && ctl->fed &&
		generation > pg_atomic_read_u64(&ctl->files.flushed_generation);
}

static LsmMemtable *
find_generation(LsmTreeShared *ctl, uint64 generation)
{
	if (ctl->memory.active != NULL && ctl->memory.active->generation == generation)
		return ctl->memory.active;
	for (int i = 0; i < ctl->memory.nsealed; i++)
	{
		if (ctl->memory.sealed[i]->generation == generation)
			return ctl->memory.sealed[i];
	}
	return NULL;
}

/*
 * A new memtable takes its place by generation; false: there are too many,
 * which the log of a primary does not bring about.  REQUIRES: ctl->lock
 * exclusive.
 */
static bool
add_generation(LsmTreeShared *ctl, LsmMemtable *memtable)
{
	int			at;

	if (ctl->memory.active == NULL && ctl->memory.nsealed == 0)
	{
		lsm_set_change_begin(ctl);
		ctl->memory.active = memtable;
		ctl->memory.active_generation = memtable->generation;
		lsm_set_change_end(ctl);
		return true;
	}
	if (ctl->memory.nsealed + (ctl->memory.active != NULL) > LSM_MAX_SEALED)
		return false;
	lsm_set_change_begin(ctl);
	if (ctl->memory.active != NULL && ctl->memory.active->generation < memtable->generation)
	{
		ctl->memory.sealed[ctl->memory.nsealed++] = ctl->memory.active;
		ctl->memory.active = memtable;
		ctl->memory.active_generation = memtable->generation;
	}
	else if (ctl->memory.active == NULL &&
			 ctl->memory.sealed[ctl->memory.nsealed - 1]->generation < memtable->generation)
	{
		ctl->memory.active = memtable;
		ctl->memory.active_generation = memtable->generation;
	}
	else
	{
		for (at = ctl->memory.nsealed; at > 0 && ctl->memory.sealed[at - 1]->generation > memtable->generation; at--)
			ctl->memory.sealed[at] = ctl->memory.sealed[at - 1];
		ctl->memory.sealed[at] = memtable;
		ctl->memory.nsealed++;
	}
	lsm_set_change_end(ctl);
	return true;
}

/*
 * The generation's memtable, with the caller registered as a writer.  NULL:
 * nothing is to be fed, or (*full) there is no memory.
 */
static LsmMemtable *
enter_generation(LsmTreeShared *ctl, uint64 keyspace_id, uint64 generation, bool *full)
{
	*full = false;
	for (;;)
	{
		LsmMemtable *memtable = NULL;
		bool		wanted;
		bool		added = false;

		LWLockAcquire(&ctl->lock, LW_SHARED);
		wanted = may_feed(ctl, keyspace_id, generation);
		if (wanted && (memtable = find_generation(ctl, generation)) != NULL)
			pg_atomic_fetch_add_u32(&memtable->writers, 1);
		LWLockRelease(&ctl->lock);
		if (!wanted || memtable != NULL)
			return memtable;

		memtable = lsm_memtable_create(generation, false);
		if (memtable == NULL)
		{
			*full = true;
			return NULL;
		}
		LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
		if (may_feed(ctl, keyspace_id, generation) && find_generation(ctl, generation) == NULL)
		{
			added = add_generation(ctl, memtable);
			*full = !added;
		}
		LWLockRelease(&ctl->lock);
		if (!added)
			lsm_memtable_destroy(memtable);
		if (*full)
			return NULL;
	}
}

LsmFed
lsm_standby_feed(LsmTreeShared *ctl, uint64 keyspace_id, uint64 generation, uint64 seq,
				 LsmSlice key, LsmSlice value)
{
	static LsmTree shape;		/* says of what kind keys are, no more */
	LsmMemtable *memtable;
	LsmSlice	filter_key;
	void	   *reserved;
	bool		full;

	memtable = enter_generation(ctl, keyspace_id, generation, &full);
	if (memtable == NULL)
		return full ? LSM_FED_FULL : LSM_FED_UNWANTED;
	LSM_CRASH_POINT("standby_feeding");
	reserved = lsm_memtable_reserve(memtable, key.len, value.len);
	if (reserved != NULL)
	{
		shape.kind = ctl->kind;
		filter_key = lsm_filter_key(&shape, key);
		if (ctl->kind == LSM_KIND_TABLE && key.len == LSM_TID_BYTES)
			lsm_counter_raise(&ctl->row_limit, lsm_row_key_limit(key));
		lsm_counter_raise(&ctl->seq, seq);
		lsm_memtable_insert(memtable, reserved, seq, key, value,
							lsm_memtable_digest(&shape, key,
												lsm_digest_key(filter_key.data, filter_key.len)),
							false);
	}
	pg_atomic_fetch_sub_u32(&memtable->writers, 1);
	return reserved != NULL ? LSM_FED : LSM_FED_FULL;
}

/* As the startup process does it: without fail. */
static void
feed_or_give_up(LsmTreeShared *ctl, uint64 keyspace_id, uint64 generation, uint64 seq,
				LsmSlice key, LsmSlice value)
{
	LsmFed		fed = lsm_standby_feed(ctl, keyspace_id, generation, seq, key, value);

	if (fed != LSM_FED_FULL)
		return;
	(void) lsm_control_evict(ctl, EVICT_CHUNKS, PG_UINT64_MAX);
	(void) lsm_memtable_reclaim();
	fed = lsm_standby_feed(ctl, keyspace_id, generation, seq, key, value);
	if (fed != LSM_FED_FULL)
		return;
	if (lsm_warn_about_file(keyspace_id, GIVEN_UP))
		ereport(WARNING,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no memory is left for entries of relation %s, which queries read during recovery",
						lsm_relpath(ctl->rlocator, INVALID_PROC_NUMBER, MAIN_FORKNUM)),
				 errdetail("The tree is unloaded; the next query that needs the tree loads it again."),
				 errhint("Increase lsm.memtable_memory on this server: it should be no less than the primary's.")));
	lsm_control_stop_feeding(ctl, keyspace_id);
}

/* ======================================================================
 * Called by redo
 * ====================================================================== */

/*
 * Of the page's entries before `offset`, the last one's sequence number.
 */
static bool
seq_before(Page page, uint16 offset, uint64 *seq)
{
	const char *at = lsm_page_entries(page);
	const char *end = (char *) page + offset;

	*seq = 0;
	while (at < end)
	{
		LsmLogHeader header;

		if (!lsm_log_header_get(at, end, &header))
			return false;
		*seq += header.seq_step;
		at += lsm_log_header_total(&header);
	}
	return at == end || offset == LSM_PAGE_START;	/* the head comes, too */
}

/* See standby.h. */
bool
lsm_standby_note_append(LsmStandbyAppend *append, const RelFileLocator *rlocator, Page page,
						uint16 offset)
{
	FedTree    *fed;

	append->ctl = NULL;
	if (!InHotStandby || (fed = find_fed_tree(rlocator)) == NULL)
		return false;
	append->ctl = fed->ctl;
	append->keyspace_id = fed->keyspace_id;
	append->generation = lsm_page_opaque(page)->owner;
	append->corrupt = !seq_before(page, offset, &append->seq);
	return true;
}

/* See standby.h. */
void
lsm_standby_append(LsmStandbyAppend *append, const char *data, uint32 bytes)
{
	const char *end = data + bytes;
	uint64		seq = append->seq;

	if (append->ctl == NULL)
		return;
	while (!append->corrupt && data < end)
	{
		LsmLogHeader header;
		LsmSlice	key;
		LsmSlice	value;

		if (!lsm_log_header_get(data, end, &header) ||
			lsm_log_header_total(&header) > end - data ||
			header.key_bytes == 0 || header.value_bytes == 0)
		{
			append->corrupt = true;
			break;
		}
		seq += header.seq_step;
		key = lsm_slice(data + header.header_bytes, header.key_bytes);
		value = lsm_slice(key.data + key.len, header.value_bytes);
		feed_or_give_up(append->ctl, append->keyspace_id, append->generation, seq, key, value);
		data += lsm_log_header_total(&header);
	}

	/* whoever loads the tree says what is wrong with the page */
	if (append->corrupt)
		lsm_control_stop_feeding(append->ctl, append->keyspace_id);
}

/* See standby.h. */
void
lsm_standby_keyspace(const RelFileLocator *rlocator, uint64 keyspace_id)
{
	LsmTreeShared *ctl;

	for (int i = 0; InHotStandby && (ctl = lsm_control_nth(i)) != NULL; i++)
	{
		uint64		id;
		RelFileLocator its;
		LsmKind		kind;
		char		relpersistence;

		/* fed or not: a block that was evicted, sessions still know */
		if (ctl->rlocator.relNumber == rlocator->relNumber &&
			lsm_control_identity(ctl, &id, &its, &kind, &relpersistence) &&
			RelFileLocatorEquals(its, *rlocator) && id != keyspace_id)
			lsm_control_drop(id);
	}
}

/* See standby.h.  Locking: as lsm_manifest_edit(). */
LsmTreeShared *
lsm_standby_edit(const LsmMetaPage *meta)
{
	LsmTreeShared *ctl;

	if (!InHotStandby)
		return NULL;
	/* whoever looks for a block to be used again may have had it in his hands */
	do
	{
		ctl = lsm_control_find(meta->keyspace_id);
		if (ctl == NULL)
			return NULL;
	} while (!lsm_control_pin(ctl, meta->keyspace_id));
	lsm_counter_raise(&ctl->row_limit, meta->row_limit);
	if (meta->seq_limit > 0)
		lsm_counter_raise(&ctl->seq, meta->seq_limit - 1);
	pg_atomic_write_u64(&ctl->files.manifest_id, meta->manifest_id);
	pg_atomic_write_u64(&ctl->files.flushed_generation, meta->flushed_generation);
	pg_atomic_write_u64(&ctl->files.version_no, meta->version_no);
	return ctl;
}

/* See standby.h. */
void
lsm_standby_drop_flushed(LsmTreeShared *ctl, uint64 keyspace_id)
{
	LsmMemtable *dropped[1 + LSM_MAX_SEALED];
	int			ndropped = 0;
	uint64		flushed = pg_atomic_read_u64(&ctl->files.flushed_generation);

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == keyspace_id && ctl->fed)
	{
		int			kept = 0;

		lsm_set_change_begin(ctl);
		for (int i = 0; i < ctl->memory.nsealed; i++)
		{
			if (ctl->memory.sealed[i]->generation <= flushed)
				dropped[ndropped++] = ctl->memory.sealed[i];
			else
				ctl->memory.sealed[kept++] = ctl->memory.sealed[i];
		}
		ctl->memory.nsealed = kept;
		if (ctl->memory.active != NULL && ctl->memory.active->generation <= flushed)
		{
			dropped[ndropped++] = ctl->memory.active;
			ctl->memory.active = NULL;
		}
		lsm_set_change_end(ctl);
	}
	LWLockRelease(&ctl->lock);
	lsm_control_unpin(ctl);
	for (int i = 0; i < ndropped; i++)
		lsm_memtable_retire(dropped[i]);
}

/* ======================================================================
 * Unlinking
 * ====================================================================== */

typedef struct Unlinked
{
	uint64		keyspace_id;
	uint64		number;
	uint64		epoch;
} Unlinked;

static Unlinked *unlink_queue = NULL;
static int	unlink_queued = 0;
static int	unlink_max = 0;

void
lsm_standby_unlink(uint64 keyspace_id, uint64 number)
{
	if (!InHotStandby)
	{
		lsm_keyspace_unlink_file(keyspace_id, number);
		return;
	}
	if (unlink_queued == unlink_max)
	{
		unlink_max = Max(64, unlink_max * 2);
		if (unlink_queue == NULL)
			unlink_queue = MemoryContextAlloc(TopMemoryContext, unlink_max * sizeof(Unlinked));
		else
			unlink_queue = repalloc(unlink_queue, unlink_max * sizeof(Unlinked));
	}
	unlink_queue[unlink_queued].keyspace_id = keyspace_id;
	unlink_queue[unlink_queued].number = number;
	unlink_queue[unlink_queued].epoch = lsm_epoch_advance();
	unlink_queued++;
}

/* See standby.h. */
void
lsm_standby_unlink_forget(uint64 keyspace_id)
{
	int			kept = 0;

	for (int i = 0; i < unlink_queued; i++)
	{
		if (unlink_queue[i].keyspace_id != keyspace_id)
			unlink_queue[kept++] = unlink_queue[i];
	}
	unlink_queued = kept;
}

void
lsm_standby_unlink_drain(void)
{
	int			kept = 0;

	for (int i = 0; i < unlink_queued; i++)
	{
		if (lsm_epoch_passed(unlink_queue[i].epoch))
			lsm_keyspace_unlink_file(unlink_queue[i].keyspace_id, unlink_queue[i].number);
		else
			unlink_queue[kept++] = unlink_queue[i];
	}
	unlink_queued = kept;
}
