/*-------------------------------------------------------------------------
 *
 * elastic_facts.c
 *	  What is known of segments and units, for SQL functions.
 *
 * Locking: lsm_elastic->lock, for as long as it takes to copy one file's
 * states.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/elastic/elastic.h"
#include "tree/elastic/elastic_queue.h"
#include "tree/read/elastic_probe.h"

/*
 * Sums over all trees.  Consistent with each other.
 */
void
lsm_elastic_read_stats(LsmElasticStats *stats)
{
	lsm_elastic_hand_over(true);
	LWLockAcquire(&lsm_elastic->lock, LW_SHARED);
	stats->budget_bytes = (uint64) lsm_elastic->queue.budget * lsm_elastic->unit_bytes;
	stats->used_bytes = (uint64) lsm_elastic->loaded * lsm_elastic->unit_bytes;
	stats->taken_bytes = (uint64) lsm_elastic->chunks.taken * lsm_elastic->unit_bytes;
	stats->reserved_bytes = (uint64) lsm_elastic->chunks.n * lsm_elastic->unit_bytes;
	stats->state_bytes = (uint64) lsm_elastic->extents.taken * LSM_ELASTIC_EXTENT_BYTES;
	stats->units_on = lsm_elastic->loaded;
	stats->units_wanted = lsm_elastic->queue.targets;
	stats->segments = lsm_elastic->queue.segments;
	stats->accesses = lsm_elastic->queue.clock;
	stats->promotions = lsm_elastic->queue.promotions;
	stats->demotions = lsm_elastic->queue.demotions;
	stats->loads = lsm_elastic->loads;
	stats->extra_io = lsm_elastic_queue_extra_io(&lsm_elastic->queue);
	LWLockRelease(&lsm_elastic->lock);
}

LsmElasticUse *
lsm_elastic_uses(int *n)
{
	LsmElasticUse *uses = NULL;
	int			max = 0;

	*n = 0;
	for (uint32 i = 0; i < lsm_elastic->nfiles; i++)
	{
		const LsmElasticFile *file = &lsm_elastic->files[i];
		LsmElasticUse use = {0};

		/* most are free; one that comes or goes now is seen the next time */
		if (pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &file->serial)) == 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(&lsm_elastic->lock, LW_SHARED);
		if (pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &file->serial)) != 0)
		{
			LsmElasticWalk walk;

			use.keyspace_id = file->keyspace_id;
			lsm_elastic_walk_begin(&walk, i);
			for (uint32 s = 0; s < file->rates.segments; s++)
				use.bytes += (uint64) lsm_elastic_segment(&lsm_elastic->queue, lsm_elastic_walk_next(&walk))->on *
					lsm_elastic->unit_bytes;
		}
		LWLockRelease(&lsm_elastic->lock);
		if (use.bytes == 0)
			continue;
		if (*n == max)
		{
			max = Max(16, 2 * max);
			uses = uses == NULL ? palloc(max * sizeof(LsmElasticUse)) :
				repalloc(uses, max * sizeof(LsmElasticUse));
		}
		uses[(*n)++] = use;
	}
	return uses;
}

/* Shape of a file's elastic filter; false if it cannot be read (removed). */
static bool
read_shape(LsmTree *tree, uint64 number, LsmSstBlob *blob, LsmElastic *shape)
{
	char		path[MAXPGPATH];
	LsmSstError err;
	LsmFilter	filter;

	lsm_file_path(tree, number, true, path);
	if (lsm_sst_map_blob(path, blob, &err) != LSM_SST_OK)
		return false;
	if (lsm_filter_open(blob->data, blob->bytes, true, &filter, NULL) == LSM_FILTER_OK &&
		lsm_elastic_open(&filter, shape, NULL) == LSM_FILTER_OK)
		return true;
	lsm_sst_unmap_blob(blob);
	return false;
}

static void
fill_segment_infos(LsmTree *tree, const LsmFileInfo *file, const LsmElastic *shape,
				   LsmSegmentInfo *infos)
{
	double		full_fpr = lsm_elastic_unit_fpr(shape, 0);
	double		last_fpr = lsm_elastic_unit_fpr(shape, shape->segments - 1);
	LsmElasticWalk walk;
	uint32		slot;

	LWLockAcquire(&lsm_elastic->lock, LW_SHARED);
	slot = lsm_elastic_find_file(tree->keyspace_id, file->number);
	if (slot != LSM_ELASTIC_NONE)
		lsm_elastic_walk_begin(&walk, slot);
	for (uint32 i = 0; i < shape->segments; i++)
	{
		LsmSegmentInfo *info = &infos[i];
		double		unit_fpr = i + 1 < shape->segments ? full_fpr : last_fpr;

		info->file = file->number;
		info->level = file->level;
		info->segment = i;
		info->keys = lsm_elastic_keys(shape, i);
		info->units = shape->units;
		if (slot != LSM_ELASTIC_NONE && i < walk.file->rates.segments)
		{
			uint32		id = lsm_elastic_walk_next(&walk);

			info->tracked = true;
			info->units_on = lsm_elastic_segment(&lsm_elastic->queue, id)->on;
			info->accesses = lsm_elastic_queue_hotness(&lsm_elastic->queue, id);
			info->measured_fpr = lsm_elastic_queue_measured_rate(&lsm_elastic->queue, id);
		}
		if (info->keys > 0)
			info->bits_per_key = info->units_on *
				(lsm_elastic_unit_bytes(shape, i) * 8.0 / info->keys);
		info->expected_fpr = 1;
		for (int unit = 0; unit < info->units_on; unit++)
			info->expected_fpr *= unit_fpr;
	}
	LWLockRelease(&lsm_elastic->lock);
}

LsmSegmentInfo *
lsm_tree_segments(LsmTree *tree, int *nsegments)
{
	int			nfiles;
	LsmFileInfo *files = lsm_tree_files(tree, &nfiles);
	LsmSegmentInfo *infos = NULL;
	int			n = 0;
	int			max = 0;

	lsm_elastic_hand_over(true);
	for (int i = 0; i < nfiles; i++)
	{
		LsmSstBlob	blob;
		LsmElastic	shape;
		uint32		segments;

		if (!lsm_filter_scheme_has(files[i].filter_scheme, LSM_FILTER_UNITS) ||
			!read_shape(tree, files[i].number, &blob, &shape))
			continue;
		segments = shape.segments;
		if (n + (int64) segments > max)
		{
			max = Max(max * 2, n + (int) segments);
			infos = infos == NULL ?
				palloc_extended(max * sizeof(LsmSegmentInfo), MCXT_ALLOC_HUGE) :
				repalloc_huge(infos, max * sizeof(LsmSegmentInfo));
		}
		memset(infos + n, 0, segments * sizeof(LsmSegmentInfo));
		fill_segment_infos(tree, &files[i], &shape, infos + n);
		lsm_sst_unmap_blob(&blob);
		n += segments;
		CHECK_FOR_INTERRUPTS();
	}
	*nsegments = n;
	return infos != NULL ? infos : palloc0(sizeof(LsmSegmentInfo));
}
