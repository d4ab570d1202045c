/*-------------------------------------------------------------------------
 *
 * elastic.c
 *	  Elastic filters: the table of files with state, asking the units that are
 *	  on, and noting accesses.
 *
 * Asking (lsm_elastic_ask) takes no lock: see elastic.h.  An access, which
 * means a key asked for that the segment does not have, is noted in this
 * backend and given to the queue with many others, by whoever gets the lock without
 * waiting; notes that find no room are lost, as they are but a sample anyway.
 *
 * Files get state when a session first asks them, and then begin with
 * lsm.elastic_initial_units (after a restart: all of them), or when they are
 * published (elastic_inherit.c).  The table has a fixed size; a file that finds no
 * room says "maybe", until there is room: files that nobody has asked for a
 * long time make some.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "tree/elastic.h"
#include "tree/job.h"

#define NOTES_PER_BATCH		256
#define NOTES_MAX			1024
#define NOTES_AT_END		32	/* of a statement, worth a look at the lock */
#define SHRINK_PER_BATCH	4096
#define EVICT_PER_TRY		64
#define EVICT_LIFETIMES		4	/* of silence until a file may be evicted */
#define MIN_EXTENTS			256

typedef struct Note
{
	uint64		serial;
	uint32		file;
	uint32		segment;		/* id */
} Note;

LsmElasticShared *lsm_elastic = NULL;

static Note notes[NOTES_MAX];
static int	nnotes = 0;

/* accesses of segments without state: time passes all the same */
static uint32 unplaced = 0;

/* ======================================================================
 * Shared memory
 * ====================================================================== */

static uint32
elastic_chunk_count(void)
{
	return Max(1, (uint64) lsm_elastic_memory_kb * 1024 / lsm_elastic_unit_size);
}

/* One state of 64 bytes for each 512 bytes of units. */
static uint32
elastic_extent_count(void)
{
	return Max(MIN_EXTENTS, (uint64) lsm_elastic_memory_kb * 1024 / 8 / LSM_ELASTIC_EXTENT_BYTES);
}

static uint32
elastic_bucket_count(void)
{
	uint32		n = 256;

	while (n < elastic_extent_count())
		n *= 2;
	return n;
}

static Size
elastic_load_words(void)
{
	return ((Size) elastic_extent_count() * LSM_ELASTIC_EXTENT_LINES + 63) / 64;
}

/* Bytes of each part, in the order of elastic_shmem_init(). */
static Size
elastic_part_bytes(int part)
{
	Size		nextents = elastic_extent_count();
	Size		nchunks = elastic_chunk_count();

	switch (part)
	{
		case 0:
			return CACHELINEALIGN(sizeof(LsmElasticShared));
		case 1:
			return CACHELINEALIGN(nextents * sizeof(LsmElasticFile));
		case 2:
			return CACHELINEALIGN(elastic_bucket_count() * sizeof(uint32));
		case 3:
			return CACHELINEALIGN(nextents * sizeof(uint32));
		case 4:
			return CACHELINEALIGN(nchunks * sizeof(uint32));
		case 5:
			return CACHELINEALIGN(elastic_load_words() * sizeof(uint64));
		case 6:
			return nextents * LSM_ELASTIC_EXTENT_BYTES;
		case 7:
			return mul_size(nchunks, lsm_elastic_unit_size);
		default:
			return 0;
	}
}

/*
 * Bytes of shared memory: lsm.elastic_memory and about a seventh of it for states.
 */
Size
lsm_elastic_shmem_bytes(void)
{
	Size		bytes = PG_CACHE_LINE_SIZE;

	for (int part = 0; elastic_part_bytes(part) > 0; part++)
		bytes = add_size(bytes, elastic_part_bytes(part));
	return bytes;
}

/*
 * REQUIRES: AddinShmemInitLock held.
 */
void
lsm_elastic_shmem_init(void)
{
	bool		found;
	char	   *parts[8];
	char	   *memory = ShmemInitStruct("lsmam elastic filters",
										 lsm_elastic_shmem_bytes(), &found);

	memory = (char *) CACHELINEALIGN(memory);
	lsm_elastic = (LsmElasticShared *) memory;
	if (!found)
	{
		for (int part = 0; part < lengthof(parts); part++)
		{
			parts[part] = memory;
			memory += elastic_part_bytes(part);
		}
		memset(lsm_elastic, 0, sizeof(LsmElasticShared));
		lsm_elastic->tranche = LWLockNewTrancheId();
		LWLockInitialize(&lsm_elastic->lock, lsm_elastic->tranche);
		lsm_elastic->unit_bytes = lsm_elastic_unit_size;
		lsm_elastic->nfiles = elastic_extent_count();
		lsm_elastic->nbuckets = elastic_bucket_count();
		lsm_elastic->files = (LsmElasticFile *) parts[1];
		lsm_elastic->buckets = (uint32 *) parts[2];
		lsm_elastic->load_bits = (uint64 *) parts[5];
		lsm_elastic->segments = parts[6];
		lsm_elastic->units = parts[7];
		pg_atomic_init_u64(&lsm_elastic->freed, 0);
		pg_atomic_init_u32(&lsm_elastic->woken, 0);
		lsm_elastic_pool_init(&lsm_elastic->extents, elastic_extent_count(), (uint32 *) parts[3]);
		lsm_elastic_pool_init(&lsm_elastic->chunks, elastic_chunk_count(), (uint32 *) parts[4]);
		lsm_elastic_queue_init(&lsm_elastic->queue, lsm_elastic->segments,
							   lsm_elastic->files, sizeof(LsmElasticFile));
		memset(lsm_elastic->load_bits, 0, elastic_load_words() * sizeof(uint64));
		for (uint32 i = 0; i < lsm_elastic->nbuckets; i++)
			lsm_elastic->buckets[i] = LSM_ELASTIC_NONE;
		for (uint32 i = 0; i < lsm_elastic->nfiles; i++)
		{
			pg_atomic_init_u64(&lsm_elastic->files[i].serial, 0);
			lsm_elastic->files[i].next = i + 1 < lsm_elastic->nfiles ? i + 1 : LSM_ELASTIC_NONE;
		}
		lsm_elastic->free_file = 0;
		lsm_elastic_configure();
	}
	LWLockRegisterTranche(lsm_elastic->tranche, "lsm_elastic");
}

/*
 * Take the settings over.  The worker does it: sessions learn of a change at
 * different times, and must not undo it.  REQUIRES: lock held exclusively, or alone.
 */
void
lsm_elastic_configure(void)
{
	LsmElasticQueue *queue = &lsm_elastic->queue;

	queue->lifetime = lsm_elastic_lifetime;
	queue->ratio = lsm_elastic_ratio;
	queue->on_access = lsm_elastic_policy == LSM_ELASTIC_ON_ACCESS;
	queue->budget = Min(lsm_elastic->chunks.n,
						(uint64) lsm_elastic_memory_kb * 1024 / lsm_elastic->unit_bytes);
}

/* ======================================================================
 * Files with state
 * ====================================================================== */

static uint32 *
elastic_bucket(uint64 keyspace_id, uint64 number)
{
	/* keyspace ids are random */
	uint64		hash = (keyspace_id ^ number) * UINT64CONST(0x9e3779b97f4a7c15);

	return &lsm_elastic->buckets[(hash >> 32) & (lsm_elastic->nbuckets - 1)];
}

uint32
lsm_elastic_find_file(uint64 keyspace_id, uint64 number)
{
	uint32		file = *elastic_bucket(keyspace_id, number);

	while (file != LSM_ELASTIC_NONE &&
		   (lsm_elastic->files[file].keyspace_id != keyspace_id ||
			lsm_elastic->files[file].number != number))
		file = lsm_elastic->files[file].next;
	return file;
}

void
lsm_elastic_walk_begin(LsmElasticWalk *walk, uint32 file)
{
	walk->file = &lsm_elastic->files[file];
	walk->extent = walk->file->first_extent;
	walk->per_extent = LSM_ELASTIC_EXTENT_LINES / walk->file->lines;
	walk->at = 0;
}

uint32
lsm_elastic_walk_next(LsmElasticWalk *walk)
{
	if (walk->at == walk->per_extent)
	{
		walk->extent = lsm_elastic->extents.next[walk->extent];
		walk->at = 0;
	}
	return lsm_elastic_extent_id(walk->extent, walk->at++, walk->file->lines);
}

/* Is a unit of the segment to be loaded? */
static void
set_load_bit(uint32 id, bool wanted)
{
	uint64		bit = UINT64CONST(1) << (id % 64);
	uint64	   *word = &lsm_elastic->load_bits[id / 64];

	if (wanted && (*word & bit) == 0)
	{
		*word |= bit;
		lsm_elastic->nload++;
	}
	else if (!wanted && (*word & bit) != 0)
	{
		*word &= ~bit;
		lsm_elastic->nload--;
	}
}

void
lsm_elastic_follow(uint32 id)
{
	LsmElasticSegment *segment = lsm_elastic_segment(&lsm_elastic->queue, id);

	while (segment->on > segment->target)
	{
		uint8		on = segment->on - 1;

		segment->on = on;
		lsm_elastic_pool_retire(&lsm_elastic->chunks, segment->chunks[on]);
		lsm_elastic->loaded--;
	}
	set_load_bit(id, segment->on < segment->target);
}

void
lsm_elastic_sealed(void)
{
	if (lsm_elastic->chunks.pending.n > 0 || lsm_elastic->extents.pending.n > 0)
	{
		uint64		epoch = lsm_epoch_advance();

		lsm_elastic_pool_seal(&lsm_elastic->chunks, epoch);
		lsm_elastic_pool_seal(&lsm_elastic->extents, epoch);
	}
	(void) lsm_elastic_pool_reclaim(&lsm_elastic->chunks);
	if (lsm_elastic_pool_reclaim(&lsm_elastic->extents) > 0)
		pg_atomic_fetch_add_u64(&lsm_elastic->freed, 1);
	Assert(lsm_elastic->loaded <= lsm_elastic->queue.targets);
	Assert(lsm_elastic->chunks.taken <= lsm_elastic->chunks.n);
}

void
lsm_elastic_drop_file(uint32 file)
{
	LsmElasticFile *slot = &lsm_elastic->files[file];
	uint32	   *link = elastic_bucket(slot->keyspace_id, slot->number);
	LsmElasticWalk walk;
	uint32		extent;

	/* from here on nobody begins to look at the segments */
	pg_atomic_write_u64(&slot->serial, 0);
	pg_memory_barrier();

	lsm_elastic_walk_begin(&walk, file);
	for (uint32 i = 0; i < slot->rates.segments; i++)
	{
		uint32		id = lsm_elastic_walk_next(&walk);
		LsmElasticSegment *segment = lsm_elastic_segment(&lsm_elastic->queue, id);

		for (int unit = 0; unit < segment->on; unit++)
			lsm_elastic_pool_retire(&lsm_elastic->chunks, segment->chunks[unit]);
		lsm_elastic->loaded -= segment->on;
		set_load_bit(id, false);
		lsm_elastic_queue_remove(&lsm_elastic->queue, id);
	}
	for (extent = slot->first_extent; extent != LSM_ELASTIC_NONE;)
	{
		uint32		next = lsm_elastic->extents.next[extent];

		lsm_elastic_pool_retire(&lsm_elastic->extents, extent);
		extent = next;
	}

	while (*link != file)
		link = &lsm_elastic->files[*link].next;
	*link = slot->next;
	slot->next = lsm_elastic->free_file;
	lsm_elastic->free_file = file;
	lsm_elastic_sealed();
}

/* Let go of files that nobody has asked for a long time. */
static void
evict_idle_files(uint32 want_extents)
{
	uint64		clock = lsm_elastic->queue.clock;
	uint32		got = 0;

	for (int i = 0; i < EVICT_PER_TRY && got < want_extents; i++)
	{
		uint32		oldest = LSM_ELASTIC_NONE;

		for (uint32 file = 0; file < lsm_elastic->nfiles; file++)
		{
			LsmElasticFile *slot = &lsm_elastic->files[file];

			if (pg_atomic_read_u64(&slot->serial) != 0 &&
				clock - slot->last_access > EVICT_LIFETIMES * lsm_elastic->queue.lifetime &&
				(oldest == LSM_ELASTIC_NONE ||
				 slot->last_access < lsm_elastic->files[oldest].last_access))
				oldest = file;
		}
		if (oldest == LSM_ELASTIC_NONE)
			return;
		got += lsm_elastic->files[oldest].rates.segments * lsm_elastic->files[oldest].lines /
			LSM_ELASTIC_EXTENT_LINES + 1;
		lsm_elastic_drop_file(oldest);
	}
}

static uint32
segment_lines(uint32 units)
{
	return (offsetof(LsmElasticSegment, chunks) + units * sizeof(uint32) +
			LSM_ELASTIC_LINE - 1) / LSM_ELASTIC_LINE;
}

static uint32
extents_needed(const LsmElastic *shape)
{
	uint32		per_extent = LSM_ELASTIC_EXTENT_LINES / segment_lines(shape->units);

	return (shape->segments + per_extent - 1) / per_extent;
}

/* A chain of n extents; false if there is no room. */
static bool
take_extents(uint32 n, uint32 *first)
{
	LsmElasticPool *pool = &lsm_elastic->extents;

	*first = LSM_ELASTIC_NONE;
	if (n > pool->n - pool->taken)
	{
		evict_idle_files(n);
		(void) lsm_elastic_pool_reclaim(pool);
		if (n > pool->n - pool->taken)
			return false;
	}
	for (uint32 i = 0; i < n; i++)
	{
		uint32		extent = lsm_elastic_pool_take(pool, pool->n);

		/* while it is in use, the link is ours: walking goes the other way round */
		pool->next[extent] = *first;
		*first = extent;
	}
	return true;
}

uint32
lsm_elastic_add_file(uint64 keyspace_id, uint64 number, const LsmElastic *shape,
					 const double *hotness, const uint8 *units)
{
	uint32	   *bucket = elastic_bucket(keyspace_id, number);
	uint32		file = lsm_elastic->free_file;
	LsmElasticFile *slot;
	LsmElasticWalk walk;
	uint32		first_extent;

	if (shape->unit_bytes > lsm_elastic->unit_bytes || file == LSM_ELASTIC_NONE ||
		!take_extents(extents_needed(shape), &first_extent))
		return LSM_ELASTIC_NONE;

	/* evicting files has changed the list of free ones */
	file = lsm_elastic->free_file;
	slot = &lsm_elastic->files[file];
	lsm_elastic->free_file = slot->next;
	slot->next = *bucket;
	*bucket = file;
	slot->keyspace_id = keyspace_id;
	slot->number = number;
	slot->last_access = lsm_elastic->queue.clock;
	slot->units = shape->units;
	slot->lines = segment_lines(shape->units);
	slot->first_extent = first_extent;
	slot->rates.segments = shape->segments;
	slot->rates.unit_fpr = (float) lsm_elastic_unit_fpr(shape, 0);
	slot->rates.last_unit_fpr = (float) lsm_elastic_unit_fpr(shape, shape->segments - 1);

	lsm_elastic_walk_begin(&walk, file);
	for (uint32 i = 0; i < shape->segments; i++)
	{
		uint32		id = lsm_elastic_walk_next(&walk);
		LsmElasticSegment *segment = lsm_elastic_segment(&lsm_elastic->queue, id);

		segment->file = file;
		segment->number = i;
		segment->limit = (uint8) shape->units;
		segment->flags = 0;
		segment->on = 0;
		lsm_elastic_queue_add(&lsm_elastic->queue, id,
							  hotness != NULL ? hotness[i] : 0,
							  units != NULL ? units[i] : lsm_elastic_initial_units);
		lsm_elastic_follow(id);
	}
	pg_write_barrier();
	pg_atomic_write_u64(&slot->serial, ++lsm_elastic->last_serial);
	return file;
}

/*
 * The file, or with number 0 all files of the keyspace, are no longer part of a
 * tree.  REQUIRES: no LWLock that comes behind lsm_elastic->lock.
 */
void
lsm_elastic_forget(uint64 keyspace_id, uint64 number)
{
	if (lsm_elastic == NULL)
		return;
	Assert(MyProc != NULL);
	LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	if (number != 0)
	{
		uint32		file = lsm_elastic_find_file(keyspace_id, number);

		if (file != LSM_ELASTIC_NONE)
			lsm_elastic_drop_file(file);
	}
	else
	{
		for (uint32 file = 0; file < lsm_elastic->nfiles; file++)
		{
			if (pg_atomic_read_u64(&lsm_elastic->files[file].serial) != 0 &&
				lsm_elastic->files[file].keyspace_id == keyspace_id)
				lsm_elastic_drop_file(file);
		}
	}
	LWLockRelease(&lsm_elastic->lock);
}

/* ======================================================================
 * A backend's view of a file
 * ====================================================================== */

bool
lsm_elastic_view_open(LsmOpenFile *open, const LsmElastic *shape,
					  uint64 keyspace_id, uint64 number)
{
	uint32		nextents = extents_needed(shape);
	LsmElasticView *view;

	view = MemoryContextAllocExtended(TopMemoryContext,
									  offsetof(LsmElasticView, extents) +
									  nextents * sizeof(uint32),
									  MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
	if (view == NULL)
		return false;
	view->shape = *shape;
	view->keyspace_id = keyspace_id;
	view->number = number;
	view->lines = segment_lines(shape->units);
	view->shift = view->lines == 1 ? 4 : 3;
	view->nextents = nextents;
	view->faults = lsm_sst_blob_faults();
	StaticAssertStmt(LSM_ELASTIC_EXTENT_LINES == 16, "shift above");
	StaticAssertStmt(LSM_ELASTIC_MAX_UNITS == LSM_ELASTIC_UNITS_MAX, "two names, one limit");
	open->elastic = view;
	return true;
}

void
lsm_elastic_view_close(LsmOpenFile *open)
{
	if (open->elastic != NULL)
		pfree(open->elastic);
	open->elastic = NULL;
}

/*
 * Learn where the file's segments are, and give them state if they have none.
 * False: there is no room.
 */
static bool
view_attach(LsmElasticView *view)
{
	uint64		clock = *(volatile uint64 *) &lsm_elastic->queue.clock;
	uint64		freed = pg_atomic_read_u64(&lsm_elastic->freed);
	uint32		file;

	view->serial = 0;
	if (view->shape.unit_bytes > lsm_elastic->unit_bytes)
		return false;
	if (view->tried_clock != 0 && view->tried_freed == freed &&
		clock - view->tried_clock < (uint64) lsm_elastic_lifetime)
		return false;

	LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	file = lsm_elastic_find_file(view->keyspace_id, view->number);
	if (file != LSM_ELASTIC_NONE &&
		(lsm_elastic->files[file].rates.segments != view->shape.segments ||
		 lsm_elastic->files[file].units != view->shape.units))
	{
		/* a number that was given out again */
		lsm_elastic_drop_file(file);
		file = LSM_ELASTIC_NONE;
	}
	if (file == LSM_ELASTIC_NONE)
		file = lsm_elastic_add_file(view->keyspace_id, view->number, &view->shape, NULL, NULL);
	if (file != LSM_ELASTIC_NONE)
	{
		uint32		extent = lsm_elastic->files[file].first_extent;

		for (uint32 i = 0; i < view->nextents; i++)
		{
			view->extents[i] = extent;
			extent = lsm_elastic->extents.next[extent];
		}
		view->file = file;
		view->serial = pg_atomic_read_u64(&lsm_elastic->files[file].serial);
	}
	LWLockRelease(&lsm_elastic->lock);
	lsm_elastic_wake();
	view->tried_clock = Max(clock, 1);
	view->tried_freed = freed;
	return view->serial != 0;
}

static inline bool
view_valid(LsmElasticView *view)
{
	if (likely(view->serial != 0 &&
			   pg_atomic_read_u64(&lsm_elastic->files[view->file].serial) == view->serial))
	{
		pg_read_barrier();		/* what the serial stands for is there */
		return true;
	}
	return view_attach(view);
}

static inline uint32
view_segment_id(const LsmElasticView *view, uint32 segment)
{
	return lsm_elastic_extent_id(view->extents[segment >> view->shift],
								 segment & ((1U << view->shift) - 1), view->lines);
}

static inline uint32
view_find_segment(LsmElasticView *view, const LsmProbe *probe)
{
	if (view->operation != lsm_filecache_operation)
	{
		view->segment = lsm_elastic_find_segment(&view->shape, probe->filter_key.data,
												 probe->filter_key.len);
		view->operation = lsm_filecache_operation;
	}
	return view->segment;
}

/* ======================================================================
 * Asking
 * ====================================================================== */

/* Fetch the state of the key's segment. */
void
lsm_elastic_prefetch_segment(const LsmProbe *probe, const LsmOpenFile *open)
{
	LsmElasticView *view = open->elastic;
	uint32		segment = view_find_segment(view, probe);

	if (view->serial != 0)
		__builtin_prefetch(lsm_elastic_segment(&lsm_elastic->queue,
											   view_segment_id(view, segment)));
}

/* Fetch the key's line of the first unit: the segment's state is there now. */
void
lsm_elastic_prefetch_unit(const LsmProbe *probe, const LsmOpenFile *open)
{
	LsmElasticView *view = open->elastic;
	LsmElasticSegment *segment;

	if (!probe->shared || view->operation != lsm_filecache_operation ||
		view->serial == 0 ||
		pg_atomic_read_u64(&lsm_elastic->files[view->file].serial) != view->serial)
		return;
	segment = lsm_elastic_segment(&lsm_elastic->queue, view_segment_id(view, view->segment));
	if (segment->on > 0)
	{
		uint32		chunk = *(volatile uint32 *) &segment->chunks[0];

		lsm_elastic_prefetch(&view->shape, view->segment, 0, lsm_elastic_chunk(chunk),
							 probe->digest);
	}
}

/* The segment was asked for a key that it does not have. */
void
lsm_elastic_note(const LsmOpenFile *open)
{
	LsmElasticView *view = open->elastic;

	if (view->serial == 0)
	{
		if (++unplaced % NOTES_PER_BATCH == 0)
			lsm_elastic_settle(false);
		return;
	}
	if (nnotes == NOTES_MAX)
	{
		/* nobody lets us have the lock: the newer half is as good a sample */
		memmove(notes, notes + NOTES_MAX / 2, NOTES_MAX / 2 * sizeof(Note));
		nnotes = NOTES_MAX / 2;
	}
	notes[nnotes].serial = view->serial;
	notes[nnotes].file = view->file;
	notes[nnotes].segment = view_segment_id(view, view->segment);
	if (++nnotes % NOTES_PER_BATCH == 0)
		lsm_elastic_settle(false);
}

/*
 * A page of some mapped filter could not be read.  It reads as ones, which in a
 * directory would lead to the wrong segment: do without the filter.
 */
static bool
distrust(LsmTree *tree, LsmOpenFile *open)
{
	char		path[MAXPGPATH];

	open->has_filter = false;
	lsm_file_path(tree, open->number, true, path);
	ereport(WARNING,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("could not read filter files: one was truncated or the storage reported an error"),
			 errdetail("This session reads the sorted file of filter file \"%s\" without its filter.",
					   path)));
	return true;
}

/*
 * Do the units that are on admit the key?  One digest for all of them, or one
 * for each with lsm.hash_sharing off.  REQUIRES: inside the epoch.
 */
bool
lsm_elastic_ask(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
				LsmProbeCounts *counts)
{
	LsmElasticView *view = open->elastic;
	uint32		number = view_find_segment(view, probe);
	LsmElasticSegment *segment;
	uint32		on;

	Assert(lsm_epoch_inside());
	if (unlikely(lsm_sst_blob_faults() != view->faults))
		return distrust(tree, open);
	if (!view_valid(view))
		return true;
	segment = lsm_elastic_segment(&lsm_elastic->queue, view_segment_id(view, number));
	on = segment->on;
	pg_read_barrier();			/* a unit is there before it counts as on */
	for (uint32 unit = 0; unit < on; unit++)
	{
		uint32		chunk = *(volatile uint32 *) &segment->chunks[unit];
		LsmDigest	digest = probe->shared ? probe->digest :
			lsm_probe_digest(tree, probe->filter_key);

		counts->unit_probes++;
		if (!lsm_elastic_probe(&view->shape, number, unit, lsm_elastic_chunk(chunk), digest))
		{
			lsm_elastic_note(open);
			return false;
		}
	}
	return true;
}

/* ======================================================================
 * Noting
 * ====================================================================== */

void
lsm_elastic_wake(void)
{
	if (*(volatile uint32 *) &lsm_elastic->nload > 0 &&
		pg_atomic_read_u32(&lsm_elastic->woken) == 0 &&
		pg_atomic_exchange_u32(&lsm_elastic->woken, 1) == 0)
		lsm_worker_wake_first();
}

static void
shrink_to_budget(void)
{
	for (int i = 0; i < SHRINK_PER_BATCH; i++)
	{
		uint32		id = lsm_elastic_queue_shrink(&lsm_elastic->queue);

		if (id == LSM_ELASTIC_NONE)
			break;
		lsm_elastic_follow(id);
	}
}

static void
settle_note(const Note *note)
{
	LsmElasticFile *slot = &lsm_elastic->files[note->file];
	LsmElasticDecision decision;

	if (pg_atomic_read_u64(&slot->serial) != note->serial)
		return;
	slot->last_access = lsm_elastic->queue.clock;
	decision = lsm_elastic_queue_access(&lsm_elastic->queue, note->segment);
	if (decision.demoted != LSM_ELASTIC_NONE)
		lsm_elastic_follow(decision.demoted);
	if (decision.promoted != LSM_ELASTIC_NONE)
		lsm_elastic_follow(decision.promoted);
}

void
lsm_elastic_settle(bool wait)
{
	if (nnotes + unplaced == 0 || lsm_elastic == NULL)
		return;
	if (wait)
		LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	else if (!LWLockConditionalAcquire(&lsm_elastic->lock, LW_EXCLUSIVE))
		return;
	lsm_elastic_queue_advance(&lsm_elastic->queue, nnotes + unplaced);
	shrink_to_budget();
	for (int i = 0; i < nnotes; i++)
		settle_note(&notes[i]);
	lsm_elastic_sealed();
	LWLockRelease(&lsm_elastic->lock);
	nnotes = 0;
	unplaced = 0;
	lsm_elastic_wake();
}

/* The end of a statement. */
void
lsm_elastic_end_statement(void)
{
	if (nnotes + unplaced >= NOTES_AT_END)
		lsm_elastic_settle(false);
}

bool
lsm_elastic_round(void)
{
	LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	lsm_elastic_configure();
	shrink_to_budget();
	lsm_elastic_sealed();
	LWLockRelease(&lsm_elastic->lock);
	return lsm_elastic_load();
}
