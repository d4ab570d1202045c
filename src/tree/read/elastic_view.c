/*-------------------------------------------------------------------------
 *
 * elastic_view.c
 *	  A backend's view of an open file with an elastic filter: where the states of
 *	  its segments are.
 *
 * A process that gives a file state also loads its first units: a lookup has
 * just opened the file then, and other schemes read all of their filter there.
 *
 * Locking: lsm_elastic->lock, to find the file or to give it state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/elastic/elastic.h"
#include "tree/elastic/elastic_queue.h"
#include "tree/read/elastic_probe.h"
#include "tree/read/filecache.h"

bool
lsm_elastic_view_open(LsmOpenFile *open, const LsmElastic *shape,
					  uint64 keyspace_id, uint64 number)
{
	uint32		nextents = lsm_elastic_extents(shape);
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
	view->lines = lsm_elastic_segment_lines(shape->units);
	view->shift = view->lines == 1 ? 4 : 3;
	view->nextents = nextents;
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

bool
lsm_elastic_view_attach(LsmElasticView *view)
{
	uint64		clock = *(volatile uint64 *) &lsm_elastic->queue.clock;
	uint64		freed = pg_atomic_read_u64(&lsm_elastic->freed);
	bool		added = false;
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
		(lsm_elastic->files[file].check != view->shape.check ||
		 lsm_elastic->files[file].rates.segments != view->shape.segments ||
		 lsm_elastic->files[file].units != view->shape.units))
	{
		/* of another filter: it was built again, perhaps with other options */
		lsm_elastic_drop_file(file);
		file = LSM_ELASTIC_NONE;
	}
	if (file == LSM_ELASTIC_NONE)
	{
		file = lsm_elastic_add_file(view->keyspace_id, view->number, &view->shape, NULL, NULL);
		added = file != LSM_ELASTIC_NONE;
	}
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
	if (added)
		lsm_elastic_load_file(file, view->serial, &view->shape);
	lsm_elastic_wake();
	view->tried_clock = Max(clock, 1);
	view->tried_freed = freed;
	return view->serial != 0;
}
