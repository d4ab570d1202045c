/*-------------------------------------------------------------------------
 *
 * point_sources.c
 *	  The sources of a cursor in point mode: memtables and files that may have
 *	  entries of the one key that it is for, and what their filters say.
 *
 * Locking: none.  The caller is inside the epoch the cursor has entered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/control/control.h"
#include "tree/memtable/memtable.h"
#include "tree/read/cursor.h"
#include "tree/read/filecache.h"
#include "tree/read/lookup.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* To be put before the sources that are there, which are older. */
static void
build_memtables(LsmCursor *cursor)
{
	LsmSource	found[1 + LSM_MAX_SEALED];
	int			nfiles = cursor->nsources;
	int			n;

	for (int i = 0; i < cursor->set.n; i++)
	{
		LsmSource  *source = lsm_sources_add(cursor);

		source->memtable = cursor->set.tables[i];
		if (!lsm_source_find_points(cursor, source, i))
			cursor->nsources--;
	}
	n = cursor->nsources - nfiles;
	if (n == 0 || nfiles == 0)
		return;
	memcpy(found, cursor->sources + nfiles, n * sizeof(LsmSource));
	memmove(cursor->sources + n, cursor->sources, nfiles * sizeof(LsmSource));
	memcpy(cursor->sources, found, n * sizeof(LsmSource));
}

/*
 * One source per file whose fences admit the filter key (more than one of
 * a run where many entries share it); prefetch their filters.
 */
static void
build_files(LsmCursor *cursor)
{
	LsmVersion *version = cursor->version;
	LsmKeyWords words = lsm_key_words(cursor->probe.filter_key);
	bool		filters_version = lsm_probe_has_answers(&cursor->probe, version);
	bool		more = false;

	for (int i = 0; i < version->nruns; i++)
	{
		LsmRun	   *run = &version->runs[i];
		int			end;

		if (filters_version && (((cursor->probe.maybe_runs | cursor->probe.unprobed_runs) >> i) & 1) == 0)
			continue;
		for (int at = lsm_run_find_prefix(run, &words, &end); at < end; at++)
		{
			LsmFile    *file = &run->files[at];
			LsmSource  *source;
			LsmOpenFile *open;

			source = lsm_sources_add(cursor);
			source->run = run;
			source->first = source->last = source->at = at;
			open = lsm_file_open(cursor->tree, file);
			lsm_probe_prefetch(&cursor->probe, open);
			more |= open->elastic != NULL;
		}
	}
	for (int i = 0; more && i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (source->run != NULL)
			lsm_probe_prefetch_more(&cursor->probe,
									lsm_file_open(cursor->tree,
												  &source->run->files[source->at]));
	}
}

void
lsm_point_build(LsmCursor *cursor)
{
	/* fetched while the fences are looked at */
	lsm_probe_prefetch_memtables(cursor->tree, &cursor->set, &cursor->probe);
	build_files(cursor);
	build_memtables(cursor);
}

/* Has the source's filter been asked by lsm_tree_multi_lookup()? */
static inline bool
admitted_before(const LsmCursor *cursor, const LsmSource *source)
{
	return lsm_probe_has_answers(&cursor->probe, cursor->version) &&
		((cursor->probe.maybe_runs >> (source->run - cursor->version->runs)) & 1) != 0;
}

void
lsm_point_ask_filters(LsmCursor *cursor, bool forward)
{
	LsmProbeCounts counts = {0};
	int			kept = 0;
	bool		memtable_hit = false;

	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		if (source->memtable != NULL)
		{
			lsm_source_position(cursor, source, forward);
			memtable_hit |= source->valid;
		}
		else
		{
			LsmOpenFile *open = lsm_file_open(cursor->tree,
											  &source->run->files[source->first]);

			if (admitted_before(cursor, source) ||
				lsm_probe_filter(cursor->tree, &cursor->probe, open, &counts))
			{
				lsm_source_position(cursor, source, forward);
				lsm_file_count_blocks(cursor->tree, open);
				lsm_probe_outcome(open, source->valid, &counts);
			}
			if (!source->valid)
				lsm_source_close_file(cursor, source);
		}
		if (source->valid)
		{
			/* the files of those behind are not open yet: a plain move */
			if (kept != i)
			{
				cursor->sources[kept] = *source;
				source->open = NULL;
			}
			kept++;
		}
	}
	cursor->nsources = kept;
	cursor->asked = true;
	if (memtable_hit)
		lsm_count(cursor->tree, LSM_COUNT_MEMTABLE_HITS, 1);
	lsm_probe_counts_add(cursor->tree, &counts);
}
