/*-------------------------------------------------------------------------
 *
 * cursor_sources.c
 *	  What a cursor merges: all memtables and runs; or, where it is for one key, or
 *	  for keys within leading columns, those that may have some (candidates.c).
 *
 * Locking: none.  The caller is inside the epoch the cursor has entered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/read/candidates.h"
#include "tree/read/cursor.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

static LsmSource *
add_memtable(LsmCursor *cursor, int i)
{
	LsmSource  *source = lsm_sources_add(cursor);

	source->memtable = cursor->set.tables[i];
	return source;
}

static LsmSource *
add_run_files(LsmCursor *cursor, const LsmRun *run, int first, int last)
{
	LsmSource  *source = lsm_sources_add(cursor);

	source->run = run;
	source->first = source->at = first;
	source->last = last;
	return source;
}

/* ---- one key ---- */

/* Position the last source.  False: it has no entry of the key, and goes. */
static bool
position_last(LsmCursor *cursor, bool forward)
{
	LsmSource  *source = &cursor->sources[cursor->nsources - 1];

	lsm_source_position(cursor, source, forward);
	if (source->entry.valid)
		return true;
	lsm_source_close_file(cursor, source);
	cursor->nsources--;
	return false;
}

/*
 * Memtables whose digest index has entries of the key, and files that may have
 * some.  After a seek filters are asked, and sources are positioned at the end
 * of the key's range where the scan starts.
 */
static void
build_point(LsmCursor *cursor, bool asking, bool forward)
{
	LsmCandidates files;
	LsmOpenFile *open;
	bool		hit = false;

	lsm_candidates_begin(&files, cursor->tree, cursor->version, &cursor->probe,
						 cursor->probe.filter_key);
	files.fences_only = !asking;
	lsm_probe_prefetch_memtables(cursor->tree, &cursor->set, &cursor->probe);
	lsm_candidates_find(&files);
	for (int i = 0; i < cursor->set.n; i++)
	{
		if (!lsm_source_find_points(cursor, add_memtable(cursor, i), i))
			cursor->nsources--;
		else if (asking)
			hit |= position_last(cursor, forward);
	}
	while ((open = lsm_candidates_next(&files)) != NULL)
	{
		int			at = lsm_candidates_at(&files);

		add_run_files(cursor, lsm_candidates_run(&files), at, at);
		if (asking)
			lsm_probe_outcome(open, position_last(cursor, forward), &files.counts);
	}
	if (hit)
		lsm_count(cursor->tree, LSM_COUNT_MEMTABLE_HITS, 1);
	lsm_probe_counts_add(cursor->tree, &files.counts);
}

/* ---- leading columns ---- */

/* Of each run, the files from the first to the last that may have entries. */
static void
add_limited_files(LsmCursor *cursor)
{
	LsmCandidates files;
	uint32		admitted = 0;

	lsm_candidates_begin(&files, cursor->tree, cursor->version, &cursor->limit,
						 cursor->limit.filter_key);
	files.columns = cursor->limit_columns;
	while (lsm_candidates_next(&files) != NULL)
	{
		int			first = lsm_candidates_at(&files);
		LsmSource  *source = add_run_files(cursor, lsm_candidates_run(&files), first,
									   lsm_candidates_end_run(&files));

		source->asked = files.counts.probes - files.counts.negatives > admitted;
		admitted = files.counts.probes - files.counts.negatives;
	}
	lsm_probe_counts_add(cursor->tree, &files.counts);
}

/* Does the source stand where all entries within the limit are before it? */
static bool
began_outside(const LsmCursor *cursor, bool forward)
{
	LsmSlice	key = lsm_slice(cursor->key.data, cursor->key.len);
	int			c;

	if (cursor->unbounded)
		return true;
	c = lsm_slice_compare(key, cursor->limit.filter_key);
	return forward ? c <= 0 : c > 0 && !lsm_slice_has_prefix(key, cursor->limit.filter_key);
}

void
lsm_limit_outcome(LsmCursor *cursor, LsmSource *source, bool forward)
{
	LsmProbeCounts counts = {0};
	bool		found = source->entry.valid &&
		lsm_slice_has_prefix(source->entry.key, cursor->limit.filter_key);

	source->asked = false;
	if (source->open == NULL)
		return;
	if (found || (source->first == source->last && began_outside(cursor, forward)))
	{
		lsm_probe_count_outcome(source->open, found, &counts);
		lsm_probe_counts_add(cursor->tree, &counts);
	}
}

void
lsm_sources_build(LsmCursor *cursor, bool asking, bool forward)
{
	const LsmVersion *version = cursor->version;

	if (cursor->point)
	{
		build_point(cursor, asking, forward);
		LSM_DOUBT(true, lsm_opinion_points(cursor, forward, asking));
		return;
	}
	for (int i = 0; i < cursor->set.n; i++)
		(void) add_memtable(cursor, i);
	if (cursor->limit_columns > 0 && !cursor->memory_only)
	{
		add_limited_files(cursor);
		LSM_DOUBT(true, lsm_opinion_limit(cursor));
		return;
	}
	for (int i = 0; i < version->nruns && !cursor->memory_only; i++)
		(void) add_run_files(cursor, &version->runs[i], 0, version->runs[i].nfiles - 1);
}
