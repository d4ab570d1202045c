/*-------------------------------------------------------------------------
 *
 * elastic.c
 *	  Elastic filters: the table of files with state.
 *
 * Files get state when a session first asks them, and then begin with
 * lsm.elastic_initial_units (after a restart: all of them), or when they are
 * published (elastic_inherit.c).  The table has a fixed size; a file that
 * finds no room says "maybe", until there is room: files that nobody has asked
 * for a long time make some.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "tree/elastic/elastic.h"
#include "tree/elastic/elastic_queue.h"
#include "tree/memtable/memtable.h"

#define SHRINK_PER_BATCH	4096
#define EVICT_PER_TRY		64
#define EVICT_LIFETIMES		4	/* of silence until a file may be evicted */
#define MIN_EXTENTS			256

LsmElasticShared *lsm_elastic = NULL;

/* ======================================================================
 * Shared memory
 * ====================================================================== */

/*
 * The setting as it was when the server started: shared memory is made anew
 * after a crash, in the size that was asked for then.
 */
static uint64
elastic_sized_bytes(void)
{
	static int	sized_kb = -1;

	if (sized_kb < 0)
		sized_kb = lsm_elastic_memory_kb;
	return (uint64) sized_kb * 1024;
}

static uint32
elastic_chunk_count(void)
{
	return Min(Max(1, elastic_sized_bytes() / lsm_elastic_unit_size), PG_UINT32_MAX - 1);
}

/* One state of 64 bytes for each 512 bytes of units. */
static uint32
elastic_extent_count(void)
{
	return Max(MIN_EXTENTS, elastic_sized_bytes() / 8 / LSM_ELASTIC_EXTENT_BYTES);
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
 * Bytes of shared memory: lsm.elastic_memory and about a seventh of it for
 * states.
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

	lsm_file_gone_hook = lsm_elastic_forget;
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
		lsm_elastic->tranche = LWLockNewTrancheId("lsm_elastic");
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
}

/*
 * Take the settings over.  The worker does it: sessions learn of a change at
 * different times, and must not undo it.  REQUIRES: lock held exclusively, or
 * alone.
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

		/*
		 * while it is in use, the link is ours: walking goes the other way
		 * round
		 */
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
		!take_extents(lsm_elastic_extents(shape), &first_extent))
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
	slot->check = shape->check;
	slot->units = (uint16) shape->units;
	slot->lines = (uint16) lsm_elastic_segment_lines(shape->units);
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
 * The budget
 * ====================================================================== */

void
lsm_elastic_shrink_to_budget(void)
{
	for (int i = 0; i < SHRINK_PER_BATCH; i++)
	{
		uint32		id = lsm_elastic_queue_shrink(&lsm_elastic->queue);

		if (id == LSM_ELASTIC_NONE)
			break;
		lsm_elastic_follow(id);
	}
}
