/*-------------------------------------------------------------------------
 *
 * elastic_inherit.c
 *	  New files take over hotness and units from those that they replace.
 *
 * The paper's rule is the mean of the segments replaced, weighted by overlap.
 * A segment's accesses are taken to be spread evenly over its key range, and
 * keys to be spread evenly between fences as far as their first 8 bytes behind
 * a common prefix tell.  So a segment of a run contributes f * (the part of
 * its range that the new segment covers), which matters where segments of a
 * sparse upper run are ten times as wide as those below; and the mean is taken
 * over the runs, since a lookup asks every run, so that each has seen the
 * accesses that the merged segment will see.  Runs are weighted by the keys
 * they have there: the dense one tells hot from cold more finely.
 *
 * The new segments together get as many units as the old ones had, where they
 * gain most, and if all memory is in use go on as if they were accessed: take
 * units from others for as long as that pays.
 *
 * What a flush writes replaces nothing; its segments take the mean of the
 * files of level 0, which are asked by the same lookups (or of the first level
 * that there is) in the same way.
 *
 * Order: the new files get state before the edit, when no one can open them,
 * with the units that memory allows; after the edit the old ones give theirs
 * back, and the new ones get the rest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "utils/memutils.h"

#include "tree/compaction/output_job.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/elastic/elastic.h"
#include "tree/elastic/elastic_queue.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* Less of a segment covered than this: nothing is known of it. */
#define MIN_COVER		0.05

#define SEGMENTS_PER_LOCK	256

/* A segment of a file that is replaced, on the line of keys. */
typedef struct Source
{
	double		start;
	double		end;
	double		hotness;
	double		keys;
} Source;

typedef struct SourceRun
{
	int			level;
	uint64		run;
	int			nsources;
	int			max_sources;
	int			at;				/* the first one that is not before the
								 * segment looked at */
	Source	   *sources;
} SourceRun;

/* A new file and what it inherits. */
typedef struct Heir
{
	uint64		number;
	uint32		check;
	uint32		segments;
	double	   *hotness;
	uint8	   *units;
	double		unit_fpr;		/* of all segments but the last */
	double		last_unit_fpr;
	int			limit;
} Heir;

typedef struct LsmInheritance
{
	LsmSlice	prefix;			/* that all keys of the new files share */
	int			nruns;
	SourceRun  *runs;
	uint64		old_units;		/* that the sources have */
	bool		replaced;		/* ... and lose */
	int			nheirs;
	Heir	   *heirs;
} LsmInheritance;

/* ======================================================================
 * Filters, mapped for a moment
 * ====================================================================== */

typedef struct Shape
{
	LsmSstBlob	blob;
	LsmElastic	elastic;
} Shape;

/* Nothing depends on the answers, so no checksum is verified. */
static bool
shape_open(uint64 keyspace_id, uint64 number, Shape *shape)
{
	char		path[MAXPGPATH];
	LsmSstError err;
	LsmFilter	filter;

	lsm_keyspace_file_path(keyspace_id, number, true, path);
	if (lsm_sst_map_blob(path, &shape->blob, &err) != LSM_SST_OK)
		return false;
	if (lsm_filter_open(shape->blob.data, shape->blob.bytes, false, &filter, NULL) == LSM_FILTER_OK &&
		lsm_elastic_open(&filter, &shape->elastic, NULL) == LSM_FILTER_OK)
		return true;
	lsm_sst_unmap_blob(&shape->blob);
	return false;
}

static void
shape_close(Shape *shape)
{
	lsm_sst_unmap_blob(&shape->blob);
}

/* ======================================================================
 * The line of keys
 * ====================================================================== */

static double
position(const LsmInheritance *inheritance, LsmSlice key)
{
	LsmSlice	prefix = inheritance->prefix;
	int			c = lsm_bytes_compare(key.data, prefix.data, Min(key.len, prefix.len));

	if (c < 0 || (c == 0 && key.len < prefix.len))
		return 0;
	if (c > 0)
		return 0x1p64;
	return (double) lsm_word(key.data + prefix.len, key.len - prefix.len, 0);
}

/* Where the segment begins; `smallest`: of the file. */
static double
segment_start(const LsmInheritance *inheritance, const LsmElastic *shape,
			  uint32 segment, LsmSlice smallest)
{
	size_t		len;
	const void *fence;

	if (segment == 0)
		return position(inheritance, smallest);
	fence = lsm_elastic_fence(shape, segment, &len);
	return position(inheritance, lsm_slice(fence, (uint32) len));
}

static LsmSlice
common_prefix(LsmSlice a, LsmSlice b)
{
	uint32		n = 0;

	while (n < a.len && n < b.len && a.data[n] == b.data[n])
		n++;
	return lsm_slice(a.data, n);
}

/* ======================================================================
 * What is replaced
 * ====================================================================== */

static SourceRun *
source_run(LsmInheritance *inheritance, int level, uint64 run, int max_runs)
{
	SourceRun  *last = inheritance->nruns > 0 ?
		&inheritance->runs[inheritance->nruns - 1] : NULL;

	if (last == NULL || last->level != level || last->run != run)
	{
		if (inheritance->runs == NULL)
			inheritance->runs = palloc0(max_runs * sizeof(SourceRun));
		last = &inheritance->runs[inheritance->nruns++];
		last->level = level;
		last->run = run;
	}
	return last;
}

/* Copy the state of a file's segments. */
static void
add_source_file(LsmInheritance *inheritance, SourceRun *run, uint64 keyspace_id,
				const LsmFile *file, const LsmElastic *shape)
{
	int			n = (int) shape->segments;
	Source	   *sources;
	LsmElasticWalk walk;
	uint32		slot;

	if (run->nsources + n > run->max_sources)
	{
		run->max_sources = Max(run->max_sources * 2, run->nsources + n);
		run->sources = run->sources == NULL ?
			palloc_extended(run->max_sources * sizeof(Source), MCXT_ALLOC_HUGE) :
			repalloc_huge(run->sources, run->max_sources * sizeof(Source));
	}
	sources = run->sources + run->nsources;
	for (int i = 0; i < n; i++)
	{
		sources[i].start = segment_start(inheritance, shape, i, file->smallest);
		sources[i].keys = (double) lsm_elastic_keys(shape, i);
	}
	for (int i = 0; i < n; i++)
		sources[i].end = i + 1 < n ? sources[i + 1].start :
			position(inheritance, file->largest) + 1;

	LWLockAcquire(&lsm_elastic->lock, LW_SHARED);
	slot = lsm_elastic_find_file(keyspace_id, file->number);
	if (slot != LSM_ELASTIC_NONE && lsm_elastic->files[slot].check == shape->check &&
		lsm_elastic->files[slot].rates.segments == shape->segments)
	{
		lsm_elastic_walk_begin(&walk, slot);
		for (int i = 0; i < n; i++)
		{
			uint32		id = lsm_elastic_walk_next(&walk);

			sources[i].hotness = lsm_elastic_queue_hotness(&lsm_elastic->queue, id);
			inheritance->old_units += lsm_elastic_segment(&lsm_elastic->queue, id)->target;
		}
		run->nsources += n;
	}
	LWLockRelease(&lsm_elastic->lock);
}

static bool
is_removed(const LsmEdit *edit, uint64 number)
{
	for (int i = 0; i < edit->nremoved; i++)
	{
		if (edit->removed[i] == number)
			return true;
	}
	return false;
}

static void
gather_sources(LsmInheritance *inheritance, LsmJob *job, const LsmEdit *edit)
{
	LsmVersion *version = job->version;
	int			level = -1;		/* of a flush: only the first level that has
								 * any */

	for (int i = 0; version != NULL && i < version->nfiles; i++)
	{
		LsmFile    *file = lsm_version_file(version, i);
		Shape		shape;

		if (!lsm_filter_scheme_has(file->filter_scheme, LSM_FILTER_UNITS) ||
			(edit->nremoved > 0 && !is_removed(edit, file->number)) ||
			(edit->nremoved == 0 && level >= 0 && level != file->level) ||
			!shape_open(job->keyspace_id, file->number, &shape))
			continue;
		level = file->level;
		add_source_file(inheritance,
						source_run(inheritance, file->level, file->run, version->nruns),
						job->keyspace_id, file, &shape.elastic);
		shape_close(&shape);
	}
}

/* ======================================================================
 * What is inherited
 * ====================================================================== */

/* A new segment at [start, end): its accesses. */
static double
inherit_segment(LsmInheritance *inheritance, double start, double end)
{
	double		accesses = 0;	/* sum over runs, each weighted by its keys */
	double		keys = 0;
	double		width = Max(end - start, 1);

	for (int i = 0; i < inheritance->nruns; i++)
	{
		SourceRun  *run = &inheritance->runs[i];
		double		run_accesses = 0;
		double		run_keys = 0;
		double		covered = 0;

		while (run->at < run->nsources && run->sources[run->at].end <= start)
			run->at++;
		for (int j = run->at; j < run->nsources && run->sources[j].start < start + width; j++)
		{
			const Source *source = &run->sources[j];
			double		overlap = Min(source->end, start + width) - Max(source->start, start);
			double		part;

			if (overlap <= 0)
				continue;
			part = overlap / Max(source->end - source->start, 1);
			run_accesses += source->hotness * part;
			run_keys += source->keys * part;
			covered += overlap / width;
		}
		if (covered < MIN_COVER)
			continue;
		accesses += run_keys * run_accesses / Min(covered, 1);
		keys += run_keys;
	}
	return keys > 0 ? accesses / keys : 0;
}

static void
inherit_file(LsmInheritance *inheritance, const LsmFileMeta *meta,
			 const LsmElastic *shape, Heir *heir)
{
	LsmSlice	smallest = lsm_slice(meta->smallest, meta->smallest_bytes);
	LsmSlice	largest = lsm_slice(meta->largest, meta->largest_bytes);
	double		start = position(inheritance, smallest);

	heir->number = meta->number;
	heir->check = shape->check;
	heir->segments = shape->segments;
	heir->limit = (int) shape->units;
	heir->unit_fpr = lsm_elastic_unit_fpr(shape, 0);
	heir->last_unit_fpr = lsm_elastic_unit_fpr(shape, shape->segments - 1);
	heir->hotness = palloc_extended(shape->segments * sizeof(double), MCXT_ALLOC_HUGE);
	heir->units = palloc_extended(shape->segments, MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < shape->segments; i++)
	{
		double		end = i + 1 < shape->segments ?
			segment_start(inheritance, shape, i + 1, smallest) :
			position(inheritance, largest) + 1;

		heir->hotness[i] = inherit_segment(inheritance, start, end);
		heir->units[i] = (uint8) lsm_elastic_initial_units;
		start = end;
	}
}

/* The units of the old segments for the new ones, where they gain most. */
static void
share_inherited(LsmInheritance *inheritance)
{
	LsmElasticShare *shares;
	uint64		units;
	uint32		n = 0;
	uint32		at = 0;

	for (int i = 0; i < inheritance->nheirs; i++)
		n += inheritance->heirs[i].segments;
	if (n == 0 || inheritance->nruns == 0)
		return;
	units = inheritance->replaced ? inheritance->old_units :
		(uint64) n * lsm_elastic_initial_units;
	shares = palloc_extended(n * sizeof(LsmElasticShare), MCXT_ALLOC_HUGE);
	for (int i = 0; i < inheritance->nheirs; i++)
	{
		const Heir *heir = &inheritance->heirs[i];

		for (uint32 j = 0; j < heir->segments; j++)
		{
			LsmElasticShare *share = &shares[at++];

			share->hotness = heir->hotness[j] + LSM_ELASTIC_PRIOR;
			share->unit_fpr = (float) (j + 1 < heir->segments ?
									   heir->unit_fpr : heir->last_unit_fpr);
			share->limit = (uint8) heir->limit;
			share->target = 0;
		}
	}
	lsm_elastic_share(shares, n, (uint32) Min(units, UINT32_MAX), 0);
	at = 0;
	for (int i = 0; i < inheritance->nheirs; i++)
	{
		for (uint32 j = 0; j < inheritance->heirs[i].segments; j++)
			inheritance->heirs[i].units[j] = shares[at++].target;
	}
	pfree(shares);
}

static bool
is_new(const LsmEdit *edit, const LsmFileMeta *meta)
{
	return lsm_filter_scheme_has(meta->filter_scheme, LSM_FILTER_UNITS) &&
		!is_removed(edit, meta->number);
}

static void
register_heir(uint64 keyspace_id, const Heir *heir)
{
	Shape		shape;

	if (!shape_open(keyspace_id, heir->number, &shape))
		return;
	LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	(void) lsm_elastic_add_file(keyspace_id, heir->number, &shape.elastic,
								heir->hotness, heir->units);
	LWLockRelease(&lsm_elastic->lock);
	shape_close(&shape);
}

void
lsm_elastic_publish_prepare(LsmJob *job, const LsmEdit *edit)
{
	MemoryContext old;
	LsmInheritance *inheritance;
	const LsmFileMeta *first = NULL;
	const LsmFileMeta *last = NULL;

	/* new files are in key order */
	for (int i = 0; i < edit->nadded; i++)
	{
		if (!is_new(edit, &edit->added[i]))
			continue;
		if (first == NULL)
			first = &edit->added[i];
		last = &edit->added[i];
	}
	if (first == NULL)
		return;

	old = MemoryContextSwitchTo(job->cxt);
	inheritance = palloc0(sizeof(LsmInheritance));
	inheritance->prefix = common_prefix(lsm_slice(first->smallest, first->smallest_bytes),
										lsm_slice(last->largest, last->largest_bytes));
	if (lsm_elastic_inheritance)
		gather_sources(inheritance, job, edit);
	inheritance->replaced = edit->nremoved > 0;
	inheritance->heirs = palloc(edit->nadded * sizeof(Heir));
	for (int i = 0; i < edit->nadded; i++)
	{
		const LsmFileMeta *meta = &edit->added[i];
		Shape		shape;

		if (!is_new(edit, meta) || !shape_open(job->keyspace_id, meta->number, &shape))
			continue;
		inherit_file(inheritance, meta, &shape.elastic,
					 &inheritance->heirs[inheritance->nheirs++]);
		shape_close(&shape);
	}
	share_inherited(inheritance);
	for (int i = 0; i < inheritance->nheirs; i++)
		register_heir(job->keyspace_id, &inheritance->heirs[i]);
	job->inheritance = inheritance;
	MemoryContextSwitchTo(old);
	(void) lsm_elastic_load();
}

/*
 * All memory is in use: what others have and the segment makes better use of.
 */
static void
claim_units(uint32 id)
{
	LsmElasticDecision decision;

	do
	{
		decision = lsm_elastic_queue_claim(&lsm_elastic->queue, id);
		if (decision.demoted != LSM_ELASTIC_NONE)
			lsm_elastic_follow(decision.demoted);
		if (decision.promoted != LSM_ELASTIC_NONE)
			lsm_elastic_follow(decision.promoted);
	} while (decision.promoted != LSM_ELASTIC_NONE);
}

/*
 * The rest of what the heirs were to get; then, with `claim`, what they can
 * get from others.  A few segments at a time, others want the lock, too.
 */
static void
raise_heir(uint64 keyspace_id, const Heir *heir, bool claim)
{
	for (uint32 start = 0; start < heir->segments; start += SEGMENTS_PER_LOCK)
	{
		LsmElasticWalk walk;
		uint32		file;

		LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
		file = lsm_elastic_find_file(keyspace_id, heir->number);
		if (file == LSM_ELASTIC_NONE ||
			lsm_elastic->files[file].check != heir->check ||
			lsm_elastic->files[file].rates.segments != heir->segments)
		{
			LWLockRelease(&lsm_elastic->lock);
			return;
		}
		lsm_elastic_walk_begin(&walk, file);
		for (uint32 i = 0; i < Min(heir->segments, start + SEGMENTS_PER_LOCK); i++)
		{
			uint32		id = lsm_elastic_walk_next(&walk);

			if (i < start)
				continue;
			if (claim)
				claim_units(id);
			else if (lsm_elastic_segment(&lsm_elastic->queue, id)->target < heir->units[i])
			{
				lsm_elastic_queue_set(&lsm_elastic->queue, id, heir->units[i]);
				lsm_elastic_follow(id);
			}
		}
		lsm_elastic_sealed();
		LWLockRelease(&lsm_elastic->lock);
	}
}

/* ======================================================================
 * The policy that moves units at compactions only
 * ====================================================================== */

typedef struct Shares
{
	uint32		n;
	LsmElasticShare *shares;
	uint32	   *ids;
	uint32	   *files;
	uint64	   *serials;
} Shares;

/* REQUIRES: lock held. */
static void
copy_shares(Shares *all, uint32 max)
{
	LsmElasticQueue *queue = &lsm_elastic->queue;

	Assert(LWLockHeldByMe(&lsm_elastic->lock));
	for (int i = 0; i <= LSM_ELASTIC_MAX_UNITS; i++)
	{
		for (uint32 id = queue->lists[i].head; id != LSM_ELASTIC_NONE && all->n < max;
			 id = lsm_elastic_segment(queue, id)->next)
		{
			LsmElasticSegment *segment = lsm_elastic_segment(queue, id);
			LsmElasticShare *share = &all->shares[all->n];

			share->hotness = lsm_elastic_queue_hotness(queue, id) + LSM_ELASTIC_PRIOR;
			share->unit_fpr = (float) lsm_elastic_queue_rate(queue, id, 1);
			share->limit = segment->limit;
			share->target = segment->target;
			all->ids[all->n] = id;
			all->files[all->n] = segment->file;
			all->serials[all->n] = pg_atomic_read_u64(&lsm_elastic->files[segment->file].serial);
			all->n++;
		}
	}
}

/* Set the targets: first those that fall, then those that grow. */
static void
apply_shares(const Shares *all, bool growing)
{
	for (uint32 i = 0; i < all->n; i++)
	{
		uint32		id = all->ids[i];
		int			target;

		if (pg_atomic_read_u64(&lsm_elastic->files[all->files[i]].serial) != all->serials[i])
			continue;
		target = lsm_elastic_segment(&lsm_elastic->queue, id)->target;
		if (growing ? all->shares[i].target <= target : all->shares[i].target >= target)
			continue;
		lsm_elastic_queue_set(&lsm_elastic->queue, id, all->shares[i].target);
		lsm_elastic_follow(id);
	}
}

/* Redistribute the units of all segments of all trees. */
static void
share_out(void)
{
	Shares		all = {0};
	uint32		max = *(volatile uint32 *) &lsm_elastic->queue.segments;

	all.shares = palloc_extended(Max(max, 1) * sizeof(LsmElasticShare), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	all.ids = palloc_extended(Max(max, 1) * sizeof(uint32), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	all.files = palloc_extended(Max(max, 1) * sizeof(uint32), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	all.serials = palloc_extended(Max(max, 1) * sizeof(uint64), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (all.shares != NULL && all.ids != NULL && all.files != NULL && all.serials != NULL)
	{
		uint32		budget;
		double		ratio;

		LWLockAcquire(&lsm_elastic->lock, LW_SHARED);
		copy_shares(&all, max);
		budget = lsm_elastic->queue.budget;
		ratio = lsm_elastic->queue.ratio;
		LWLockRelease(&lsm_elastic->lock);

		lsm_elastic_share(all.shares, all.n, budget, ratio);

		LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
		apply_shares(&all, false);
		apply_shares(&all, true);
		lsm_elastic_sealed();
		LWLockRelease(&lsm_elastic->lock);
	}
}

void
lsm_elastic_publish_finish(LsmJob *job, const LsmEdit *edit)
{
	LsmInheritance *inheritance = job->inheritance;
	MemoryContext old;

	for (int i = 0; i < edit->nremoved; i++)
	{
		bool		moved = false;

		for (int j = 0; j < edit->nadded && !moved; j++)
			moved = edit->added[j].number == edit->removed[i];
		if (!moved)
			lsm_elastic_forget(job->keyspace_id, edit->removed[i]);
	}
	if (inheritance == NULL)
		return;

	for (int i = 0; i < inheritance->nheirs; i++)
		raise_heir(job->keyspace_id, &inheritance->heirs[i], false);
	if (lsm_elastic_policy == LSM_ELASTIC_ON_ACCESS && inheritance->nruns > 0)
	{
		for (int i = 0; i < inheritance->nheirs; i++)
			raise_heir(job->keyspace_id, &inheritance->heirs[i], true);
	}

	old = MemoryContextSwitchTo(job->cxt);
	if (lsm_elastic_policy == LSM_ELASTIC_ON_COMPACTION)
		share_out();
	MemoryContextSwitchTo(old);
	(void) lsm_elastic_load();
}
