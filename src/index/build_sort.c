/*-------------------------------------------------------------------------
 *
 * build_sort.c
 *	  CREATE INDEX: the sort of an index's entries, by one process or several.
 *
 * Entries with short keys have a sort of their own (short_sort.c), all others
 * are items of tuplesort (build_item.c).  Which one it is follows from the
 * index's definition, so all processes of a team take the same.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

#include "index/build.h"

struct LsmBuildSort
{
	LsmShortSort *brief;		/* or NULL, and: */
	Tuplesortstate *items;
	LsmItemForm form;
	StringInfoData item;		/* being put */
	bytea	   *last;			/* the last two that were read, or NULL */
	bytea	   *before_last;
};

/*
 * In shared memory: runs of short keys, or PostgreSQL's Sharedsort behind them.
 */
struct LsmSharedSort
{
	bool		brief;
	LsmShortRuns runs;			/* with room for `participants` */
};

static Sharedsort *
shared_items(LsmSharedSort *shared)
{
	return (Sharedsort *) ((char *) shared +
						   MAXALIGN(offsetof(LsmSharedSort, runs) +
									lsm_short_runs_bytes(shared->runs.participants)));
}

Size
lsm_shared_sort_bytes(int participants)
{
	return add_size(MAXALIGN(offsetof(LsmSharedSort, runs) + lsm_short_runs_bytes(participants)),
					tuplesort_estimate_shared(participants));
}

void
lsm_shared_sort_init(LsmSharedSort *shared, const LsmKeySpec *spec, int participants,
					 dsm_segment *seg)
{
	memset(shared, 0, offsetof(LsmSharedSort, runs) + lsm_short_runs_bytes(participants));
	shared->brief = lsm_sorts_short(spec);
	shared->runs.participants = participants;
	if (shared->brief)
		SharedFileSetInit(&shared->runs.files, seg);
	else
		tuplesort_initialize_shared(shared_items(shared), participants, seg);
}

void
lsm_shared_sort_attach(LsmSharedSort *shared, dsm_segment *seg)
{
	if (shared->brief)
		SharedFileSetAttach(&shared->runs.files, seg);
	else
		tuplesort_attach_shared(shared_items(shared), seg);
}

/* See build.h. */
LsmBuildSort *
lsm_build_sort_begin(const LsmKeySpec *spec, int sort_kb, const LsmSortPart *part)
{
	LsmBuildSort *sort = palloc0(sizeof(LsmBuildSort));
	SortCoordinate coordinate = NULL;
	Oid			less;

	if (lsm_sorts_short(spec))
	{
		Assert(part == NULL || part->shared->brief);
		sort->brief = lsm_short_sort_begin(spec, sort_kb,
										   part != NULL ? &part->shared->runs : NULL,
										   part != NULL ? part->number : -1);
		return sort;
	}
	if (part != NULL)
	{
		coordinate = palloc0(sizeof(SortCoordinateData));
		coordinate->isWorker = part->number >= 0;
		coordinate->nParticipants = part->number >= 0 ? -1 : part->participants;
		coordinate->sharedsort = shared_items(part->shared);
	}
	less = lookup_type_cache(BYTEAOID, TYPECACHE_LT_OPR)->lt_opr;
	sort->items = tuplesort_begin_datum(BYTEAOID, less, InvalidOid, false, sort_kb,
										coordinate, TUPLESORT_NONE);
	lsm_item_form_init(&sort->form, spec);
	initStringInfo(&sort->item);
	return sort;
}

void
lsm_build_sort_put(LsmBuildSort *sort, LsmSlice key, LsmSlice value, uint8 flags)
{
	if (sort->brief != NULL)
	{
		lsm_short_sort_put(sort->brief, key, flags);
		return;
	}
	lsm_item_form(&sort->form, key, value, flags, &sort->item);
	tuplesort_putdatum(sort->items, PointerGetDatum(sort->item.data), false);
}

void
lsm_build_sort_perform(LsmBuildSort *sort)
{
	if (sort->brief != NULL)
		lsm_short_sort_perform(sort->brief);
	else
		tuplesort_performsort(sort->items);
}

/* See build.h. */
bool
lsm_build_sort_next(LsmBuildSort *sort, LsmItem *entry)
{
	Datum		datum;
	bool		isnull;

	if (sort->brief != NULL)
		return lsm_short_sort_next(sort->brief, entry);

	/* tuplesort gives us copies, and what we have put is not toasted */
	if (!tuplesort_getdatum(sort->items, true, true, &datum, &isnull, NULL))
		return false;
	if (sort->before_last != NULL)
		pfree(sort->before_last);
	sort->before_last = sort->last;
	sort->last = (bytea *) DatumGetPointer(datum);
	lsm_item_read(&sort->form, sort->last, entry);
	return true;
}

void
lsm_build_sort_end(LsmBuildSort *sort)
{
	if (sort->brief != NULL)
		lsm_short_sort_end(sort->brief);
	else
		tuplesort_end(sort->items);
	pfree(sort);
}
