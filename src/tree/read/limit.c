/*-------------------------------------------------------------------------
 *
 * limit.c
 *	  Cursors whose walk is within one leading part of keys: what filters know
 *	  of leading parts spares such a cursor runs that have no entry in it.
 *
 * One digest for the walk, asked of the filters of all runs.  A file whose
 * filter knows no leading parts, or those of another number of columns, may
 * have entries, and is read.
 *
 * Locking: none; the caller is inside the epoch the cursor has entered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/read/cursor.h"
#include "tree/read/elastic_probe.h"
#include "tree/read/filecache.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

static inline bool
knows_limit(const LsmCursor *cursor, const LsmOpenFile *open)
{
	return open->has_filter && open->filter.leading == cursor->limit_columns &&
		(open->elastic == NULL || lsm_elastic_leads(&open->elastic->shape));
}

static void
prefetch_filter(const LsmCursor *cursor, const LsmOpenFile *open)
{
	if (open->elastic != NULL)
		lsm_elastic_prefetch_leading(&open->elastic->shape, cursor->limit.digest);
	else
		lsm_filter_prefetch(&open->filter, cursor->limit.digest);
}

static bool
ask_filter(LsmCursor *cursor, LsmOpenFile *open, LsmProbeCounts *counts)
{
	if (open->elastic != NULL)
		return lsm_elastic_ask_leading(cursor->tree, &cursor->limit, open, counts);
	return lsm_probe_filter(cursor->tree, &cursor->limit, open, counts);
}

static LsmOpenFile *
open_file(LsmCursor *cursor, const LsmSource *source, int at)
{
	return lsm_file_open(cursor->tree, &source->run->files[at]);
}

/* False: the file has no entry within the limit. */
static bool
file_admits(LsmCursor *cursor, LsmSource *source, int at, LsmProbeCounts *counts)
{
	LsmOpenFile *open = open_file(cursor, source, at);

	if (!knows_limit(cursor, open))
		return true;
	if (!ask_filter(cursor, open, counts))
		return false;
	source->asked = true;
	return true;
}

/*
 * Narrow the source to its files that may have entries within the limit; false:
 * there are none.  Files between two that have some have nothing else.
 */
static bool
narrow_source(LsmCursor *cursor, LsmSource *source, LsmProbeCounts *counts)
{
	while (source->first <= source->last &&
		   !file_admits(cursor, source, source->first, counts))
		source->first++;
	while (source->first < source->last &&
		   !file_admits(cursor, source, source->last, counts))
		source->last--;
	return source->first <= source->last;
}

void
lsm_limit_sources(LsmCursor *cursor)
{
	LsmKeyWords words = lsm_key_words(cursor->limit.filter_key);
	LsmProbeCounts counts = {0};
	int			kept = 0;

	/* what fences leave; all filters are fetched before one is waited for */
	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];
		LsmOpenFile *open;
		int			end;

		Assert(source->open == NULL);
		if (source->memtable != NULL)
			continue;
		source->first = lsm_run_find_prefix(source->run, &words, &end);
		source->last = end - 1;
		if (source->first > source->last)
			continue;
		open = open_file(cursor, source, source->first);
		if (knows_limit(cursor, open))
			prefetch_filter(cursor, open);
	}
	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (source->memtable != NULL || narrow_source(cursor, source, &counts))
			cursor->sources[kept++] = *source;
	}
	cursor->nsources = kept;
	lsm_probe_counts_add(cursor->tree, &counts);
	LSM_DOUBT(true, lsm_opinion_limit(cursor));
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
	bool		found = source->valid &&
		lsm_slice_has_prefix(source->key, cursor->limit.filter_key);

	source->asked = false;
	if (source->open == NULL)
		return;
	if (found || (source->first == source->last && began_outside(cursor, forward)))
	{
		lsm_probe_count_outcome(source->open, found, &counts);
		lsm_probe_counts_add(cursor->tree, &counts);
	}
}
