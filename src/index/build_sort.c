/*-------------------------------------------------------------------------
 *
 * build_sort.c
 *	  CREATE INDEX: the sort of an index's entries, by one process or several.
 *
 * Entries with short keys have a sort of their own (short_sort.c), all others
 * another (long_sort.c).  Which one it is follows from the index's definition,
 * so all processes of a team take the same.
 *
 * Neither is PostgreSQL's tuplesort, which goes to each entry where it lies, in
 * the order of the table, to compare and to copy it: in a build of random keys
 * the copies alone took a fifth of the time.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index/build.h"

struct LsmBuildSort
{
	LsmShortSort *brief;		/* or NULL, and: */
	LsmLongSort *any;
};

/* See build.h. */
LsmBuildSort *
lsm_build_sort_begin(const LsmKeySpec *spec, int sort_kb, const LsmSortPart *part)
{
	LsmBuildSort *sort = palloc0(sizeof(LsmBuildSort));

	if (lsm_sorts_short(spec))
		sort->brief = lsm_short_sort_begin(spec, sort_kb, part);
	else
		sort->any = lsm_long_sort_begin(sort_kb, part);
	return sort;
}

void
lsm_build_sort_put(LsmBuildSort *sort, LsmSlice key, LsmSlice value, uint8 flags)
{
	if (sort->brief != NULL)
		lsm_short_sort_put(sort->brief, key, flags);
	else
		lsm_long_sort_put(sort->any, key, value, flags);
}

void
lsm_build_sort_perform(LsmBuildSort *sort)
{
	if (sort->brief != NULL)
		lsm_short_sort_perform(sort->brief);
	else
		lsm_long_sort_perform(sort->any);
}

/* See build.h. */
bool
lsm_build_sort_next(LsmBuildSort *sort, LsmItem *entry)
{
	return sort->brief != NULL ? lsm_short_sort_next(sort->brief, entry) :
		lsm_long_sort_next(sort->any, entry);
}

void
lsm_build_sort_end(LsmBuildSort *sort)
{
	if (sort->brief != NULL)
		lsm_short_sort_end(sort->brief);
	else
		lsm_long_sort_end(sort->any);
	pfree(sort);
}
