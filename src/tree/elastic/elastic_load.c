/*-------------------------------------------------------------------------
 *
 * elastic_load.c
 *	  Units come from filter files into memory, in a background worker or in
 *	  whoever has just published files; in a lookup only the first ones of a
 *	  file that it is the first to ask.
 *
 * Three steps: under the lock, take segments that want units and memory for
 * these; without it, read the units and compare their checksums; under the
 * lock again, let them count, if nothing has changed meanwhile.  Memory is
 * taken before it is filled, so that units on and on their way never exceed
 * the budget.
 *
 * A unit whose checksum is wrong is never used: the segment stays with the
 * units before it, which is right if slower, and a warning says so.  Only units
 * of the filter that the state is of are used: one that was built again with
 * other options may have the same shape, and would say no to keys that are
 * there.
 *
 * A file may go while it is read here.  Its state is dropped first
 * (unlink_queue.c), so what was found is of no interest.
 *
 * Nothing here raises an error, so no memory is lost in between.  (A crash point
 * that is told to fail does, in test builds.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/elastic/elastic.h"
#include "tree/elastic/elastic_queue.h"
#include "tree/memtable/memtable.h"

#define TASKS_PER_BATCH		128
#define BATCHES_PER_CALL	256
#define MEMORY_TRIES		20	/* of MEMORY_WAIT_US each, for readers to
								 * leave */
#define MEMORY_WAIT_US		100L

typedef enum LoadResult
{
	LOAD_READ,
	LOAD_DAMAGED,				/* from unit `nread` on */
	LOAD_MISSING,				/* the file, or the filter has made way for
								 * another one */
	LOAD_GONE,					/* the file has no state any more */
	LOAD_LATER					/* memory or file handles were short */
} LoadResult;

typedef struct LoadTask
{
	uint64		keyspace_id;
	uint64		number;
	uint64		serial;
	uint32		check;
	uint32		file;
	uint32		id;
	uint32		segment;
	uint32		first;			/* unit */
	uint32		n;				/* units, and chunks for them */
	uint32		nread;
	LoadResult	result;
	uint32		chunks[LSM_ELASTIC_MAX_UNITS];
} LoadTask;

static LoadTask tasks[TASKS_PER_BATCH];

/* ======================================================================
 * Taking
 * ====================================================================== */

/* False: no memory. */
static bool
take_task(uint32 id, LoadTask *task)
{
	LsmElasticSegment *segment = lsm_elastic_segment(&lsm_elastic->queue, id);
	LsmElasticFile *slot = &lsm_elastic->files[segment->file];

	task->n = 0;
	task->first = segment->on;
	while (task->first + task->n < segment->target)
	{
		uint32		chunk = lsm_elastic_pool_take(&lsm_elastic->chunks,
												  lsm_elastic->queue.budget);

		if (chunk == LSM_ELASTIC_NONE)
			break;
		task->chunks[task->n++] = chunk;
	}
	if (task->n == 0)
		return false;
	segment->flags |= LSM_ELASTIC_LOADING;
	task->keyspace_id = slot->keyspace_id;
	task->number = slot->number;
	task->serial = pg_atomic_read_u64(&slot->serial);
	task->check = slot->check;
	task->file = segment->file;
	task->id = id;
	task->segment = segment->number;
	task->nread = 0;
	return true;
}

/* REQUIRES: lock held exclusively. */
static int
take_tasks(void)
{
	uint32		nwords = (lsm_elastic->extents.n * LSM_ELASTIC_EXTENT_LINES + 63) / 64;
	int			ntasks = 0;

	Assert(LWLockHeldByMeInMode(&lsm_elastic->lock, LW_EXCLUSIVE));
	lsm_elastic_sealed();
	for (uint32 i = 0; i < nwords && ntasks < TASKS_PER_BATCH; i++)
	{
		uint32		at = (lsm_elastic->load_cursor + i) % nwords;
		uint64		word = lsm_elastic->load_bits[at];

		for (; word != 0 && ntasks < TASKS_PER_BATCH; word &= word - 1)
		{
			uint32		id = at * 64 + pg_rightmost_one_pos64(word);

			if (lsm_elastic_segment(&lsm_elastic->queue, id)->flags & LSM_ELASTIC_LOADING)
				continue;
			if (!take_task(id, &tasks[ntasks]))
				return ntasks;
			ntasks++;
		}
		if (word == 0)
			continue;
		lsm_elastic->load_cursor = at;
	}
	return ntasks;
}

/* Of one file, from segment *from on.  REQUIRES: lock held exclusively. */
static int
take_tasks_of_file(uint32 file, uint32 *from)
{
	LsmElasticWalk walk;
	int			ntasks = 0;

	Assert(LWLockHeldByMeInMode(&lsm_elastic->lock, LW_EXCLUSIVE));
	lsm_elastic_walk_begin(&walk, file);
	for (uint32 i = 0; i < walk.file->rates.segments && ntasks < TASKS_PER_BATCH; i++)
	{
		uint32		id = lsm_elastic_walk_next(&walk);
		LsmElasticSegment *segment = lsm_elastic_segment(&lsm_elastic->queue, id);

		if (i < *from)
			continue;
		*from = i + 1;
		if (segment->on >= segment->target || (segment->flags & LSM_ELASTIC_LOADING))
			continue;
		if (!take_task(id, &tasks[ntasks]))
			break;
		ntasks++;
	}
	return ntasks;
}

/* ======================================================================
 * Reading
 * ====================================================================== */

static int
compare_tasks(const void *a, const void *b)
{
	const LoadTask *x = a;
	const LoadTask *y = b;

	if (x->keyspace_id != y->keyspace_id)
		return x->keyspace_id < y->keyspace_id ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->segment > y->segment) - (x->segment < y->segment);
}

static void
read_task(const LsmElastic *shape, LoadTask *task)
{
	task->result = LOAD_DAMAGED;
	if (task->segment >= shape->segments || task->first + task->n > shape->units)
		return;
	while (task->nread < task->n)
	{
		const void *bits = lsm_elastic_unit(shape, task->segment, task->first + task->nread, true);

		if (bits == NULL)
			return;
		memcpy(lsm_elastic_chunk(task->chunks[task->nread]), bits,
			   lsm_elastic_unit_bytes(shape, task->segment));
		task->nread++;
	}
	task->result = LOAD_READ;
}

/* The tasks of one file. */
static void
read_file(LoadTask *first, int n)
{
	char		path[MAXPGPATH];
	LsmSstBlob	blob;
	LsmSstError err;
	LsmFilter	filter;
	LsmElastic	shape;
	LoadResult	otherwise = LOAD_DAMAGED;
	bool		good = false;

	lsm_keyspace_file_path(first->keyspace_id, first->number, true, path);
	if (lsm_sst_map_blob(path, &blob, &err) == LSM_SST_OK)
	{
		good = lsm_filter_open(blob.data, blob.bytes, true, &filter, NULL) == LSM_FILTER_OK &&
			lsm_elastic_open(&filter, &shape, NULL) == LSM_FILTER_OK;
		if (good && shape.check != first->check)
			otherwise = LOAD_MISSING;
		good = good && otherwise == LOAD_DAMAGED && shape.unit_bytes <= lsm_elastic->unit_bytes;
	}
	else
	{
		blob.data = NULL;
		if (err.status == LSM_SST_MISSING)
			otherwise = LOAD_MISSING;
		else if (lsm_sst_lacks_resources(&err))
			otherwise = LOAD_LATER;
	}
	for (int i = 0; i < n; i++)
	{
		first[i].result = otherwise;
		if (good)
			read_task(&shape, &first[i]);
	}
	if (blob.data != NULL)
		lsm_sst_unmap_blob(&blob);
}

static void
read_tasks(int ntasks)
{
	int			first = 0;

	qsort(tasks, ntasks, sizeof(LoadTask), compare_tasks);
	for (int i = 1; i <= ntasks; i++)
	{
		if (i < ntasks && tasks[i].keyspace_id == tasks[first].keyspace_id &&
			tasks[i].number == tasks[first].number)
			continue;
		read_file(&tasks[first], i - first);
		first = i;
	}
}

/* ======================================================================
 * Letting them count
 * ====================================================================== */

/* REQUIRES: lock held exclusively. */
static void
settle_task(LoadTask *task)
{
	LsmElasticSegment *segment = lsm_elastic_segment(&lsm_elastic->queue, task->id);
	bool		alive = pg_atomic_read_u64(&lsm_elastic->files[task->file].serial) == task->serial;

	Assert(LWLockHeldByMeInMode(&lsm_elastic->lock, LW_EXCLUSIVE));
	if (alive)
		segment->flags &= ~LSM_ELASTIC_LOADING;
	for (uint32 i = 0; i < task->n; i++)
	{
		uint32		unit = task->first + i;

		if (alive && i < task->nread && segment->on == unit && segment->target > unit)
		{
			segment->chunks[unit] = task->chunks[i];
			pg_write_barrier();
			segment->on = (uint8) (unit + 1);
			lsm_elastic->loaded++;
			lsm_elastic->loads++;
		}
		else
			lsm_elastic_pool_give(&lsm_elastic->chunks, task->chunks[i]);
	}
	if (!alive)
	{
		task->result = LOAD_GONE;
		return;
	}
	if (task->result == LOAD_MISSING)
	{
		/*
		 * removed or built again, and a reader that had an old version gave
		 * it state again
		 */
		lsm_elastic_drop_file(task->file);
		return;
	}
	if (task->result == LOAD_DAMAGED && segment->on <= task->first + task->nread)
		lsm_elastic_queue_limit(&lsm_elastic->queue, task->id, task->first + task->nread);
	lsm_elastic_follow(task->id);
}

static void
warn_damaged(int ntasks)
{
	for (int i = 0; i < ntasks; i++)
	{
		char		path[MAXPGPATH];

		if (tasks[i].result != LOAD_DAMAGED)
			continue;
		if (!lsm_warn_about_file(tasks[i].keyspace_id, tasks[i].number))
			continue;
		lsm_keyspace_file_path(tasks[i].keyspace_id, tasks[i].number, true, path);
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("filter file \"%s\" is corrupt", path),
				 errdetail("Unit %u of segment %u cannot be read; the segment does without it until the filter has been built again.",
						   tasks[i].first + tasks[i].nread, tasks[i].segment),
				 RecoveryInProgress() ? 0 : errhint("lsm_compact() builds it again.")));
	}
}

/* False: nothing could be read now. */
static bool
settle_tasks(int ntasks)
{
	bool		any = false;

	LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ntasks; i++)
	{
		settle_task(&tasks[i]);
		any |= tasks[i].result != LOAD_LATER;
	}
	lsm_elastic_sealed();
	LWLockRelease(&lsm_elastic->lock);
	warn_damaged(ntasks);
	return any;
}

/*
 * Load what is wanted; true if anything was.  REQUIRES: outside the epoch, no
 * LWLock.
 */
bool
lsm_elastic_load(void)
{
	bool		did = false;
	int			tries = 0;

	Assert(!lsm_epoch_inside());
	pg_atomic_write_u32(&lsm_elastic->woken, 0);
	pg_memory_barrier();
	for (int i = 0; i < BATCHES_PER_CALL; i++)
	{
		int			ntasks;

		if (*(volatile uint32 *) &lsm_elastic->nload == 0)
			break;
		LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
		ntasks = take_tasks();
		LWLockRelease(&lsm_elastic->lock);
		if (ntasks == 0)
		{
			/* memory that readers may still look at comes free in a moment */
			if (!lsm_elastic_pool_waiting(&lsm_elastic->chunks) || ++tries > MEMORY_TRIES)
				break;
			LSM_NAP(MEMORY_WAIT_US, "LsmMemory");
			continue;
		}
		LSM_CRASH_POINT("elastic_units_taken");
		read_tasks(ntasks);
		if (!settle_tasks(ntasks))
			break;				/* the worker comes by again */
		did = true;
	}
	return did;
}

void
lsm_elastic_wake(void)
{
	if (*(volatile uint32 *) &lsm_elastic->nload > 0 &&
		pg_atomic_read_u32(&lsm_elastic->woken) == 0 &&
		pg_atomic_exchange_u32(&lsm_elastic->woken, 1) == 0)
		lsm_worker_wake_first();
}

void
lsm_elastic_load_file(uint32 file, uint64 serial, const LsmElastic *shape)
{
	uint32		from = 0;

	for (;;)
	{
		int			ntasks = 0;

		LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
		if (pg_atomic_read_u64(&lsm_elastic->files[file].serial) == serial)
			ntasks = take_tasks_of_file(file, &from);
		LWLockRelease(&lsm_elastic->lock);
		if (ntasks == 0)
			return;
		for (int i = 0; i < ntasks; i++)
			read_task(shape, &tasks[i]);
		(void) settle_tasks(ntasks);
	}
}

bool
lsm_elastic_round(void)
{
	LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	lsm_elastic_configure();
	lsm_elastic_shrink_to_budget();
	lsm_elastic_sealed();
	LWLockRelease(&lsm_elastic->lock);
	return lsm_elastic_load();
}
