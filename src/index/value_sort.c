/*-------------------------------------------------------------------------
 *
 * value_sort.c
 *	  The values of a large group in order, as far as they are asked for.
 *
 * A page of ten rows asks for ten values, of which the group may have tens of
 * thousands, and a comparison of strings under libc can take microseconds.  So
 * as long as the values fit into work_mem they are sorted as they are taken:
 * R. Paredes and G. Navarro, "Optimal incremental sorting" (2006).  The array is
 * split at a pivot, its first part at another one, and so on, until the first
 * value stands alone; the pivots that were passed are kept, for they are in
 * their places.  The first k of n values take O(n + k log k) comparisons, all of
 * them as many as quicksort.  Pivots are medians of three that are drawn, so
 * that no order in which values come is a bad one.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"
#include "utils/tuplesort.h"

#include "index/scan.h"

/* This many values are sorted by insertion. */
#define FEW_VALUES	8

/* Of this many values the pivot is looked for with care. */
#define MANY_VALUES	64

/* What a copy takes beside its bytes, about */
#define COPY_OVERHEAD_BYTES	16

struct LsmValueSort
{
	MemoryContext context;		/* everything is in it */
	Oid			type;
	Oid			op;
	Oid			collation;
	int16		typlen;
	bool		typbyval;
	SortSupportData support;

	bool		has_null;		/* the last one */
	Datum	   *values;
	int			n;
	int			capacity;
	Size		bytes;			/* of copies of values */

	/* taking: what is before `next` was taken, what is before `sorted` is sorted */
	int			next;
	int			sorted;
	int		   *pivots;			/* in their places; the last one is the nearest */
	int			npivots;
	int			max_pivots;

	Tuplesortstate *spilled;	/* has all of them, or NULL */
};

LsmValueSort *
lsm_value_sort_begin(MemoryContext parent, Oid type, Oid op, Oid collation)
{
	MemoryContext context = AllocSetContextCreate(parent, "lsm_index values",
												  ALLOCSET_DEFAULT_SIZES);
	LsmValueSort *sort = MemoryContextAllocZero(context, sizeof(LsmValueSort));

	sort->context = context;
	sort->type = type;
	sort->op = op;
	sort->collation = collation;
	get_typlenbyval(type, &sort->typlen, &sort->typbyval);
	sort->support.ssup_cxt = context;
	sort->support.ssup_collation = collation;
	PrepareSortSupportFromOrderingOp(op, &sort->support);
	sort->capacity = 256;
	sort->values = MemoryContextAlloc(context, sizeof(Datum) * sort->capacity);
	return sort;
}

static inline void
swap_values(LsmValueSort *sort, int i, int j)
{
	Datum		value = sort->values[i];

	sort->values[i] = sort->values[j];
	sort->values[j] = value;
}

/* They do not fit into memory. */
static void
spill(LsmValueSort *sort)
{
	MemoryContext old = MemoryContextSwitchTo(sort->context);

	sort->spilled = tuplesort_begin_datum(sort->type, sort->op, sort->collation, false,
										  work_mem, NULL, TUPLESORT_NONE);
	for (int i = 0; i < sort->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		tuplesort_putdatum(sort->spilled, sort->values[i], false);
		if (!sort->typbyval)
			pfree(DatumGetPointer(sort->values[i]));
	}
	pfree(sort->values);
	sort->values = NULL;
	sort->n = 0;
	MemoryContextSwitchTo(old);
}

void
lsm_value_sort_put(LsmValueSort *sort, Datum value, bool isnull)
{
	MemoryContext old;

	if (isnull)
	{
		sort->has_null = true;
		return;
	}
	if (sort->spilled != NULL)
	{
		tuplesort_putdatum(sort->spilled, value, false);
		return;
	}
	if (!sort->typbyval)
		sort->bytes += datumGetSize(value, false, sort->typlen) + COPY_OVERHEAD_BYTES;
	old = MemoryContextSwitchTo(sort->context);
	if (sort->n == sort->capacity)
	{
		sort->capacity *= 2;
		sort->values = repalloc_huge(sort->values, sizeof(Datum) * sort->capacity);
	}
	sort->values[sort->n++] = datumCopy(value, sort->typbyval, sort->typlen);
	MemoryContextSwitchTo(old);
	if (sort->bytes + sizeof(Datum) * sort->capacity > (Size) work_mem * 1024)
		spill(sort);
}

static void
push_pivot(LsmValueSort *sort, int at)
{
	if (sort->npivots == sort->max_pivots)
	{
		sort->max_pivots = Max(32, sort->max_pivots * 2);
		sort->pivots = sort->pivots == NULL ?
			MemoryContextAlloc(sort->context, sizeof(int) * sort->max_pivots) :
			repalloc(sort->pivots, sizeof(int) * sort->max_pivots);
	}
	sort->pivots[sort->npivots++] = at;
}

void
lsm_value_sort_perform(LsmValueSort *sort)
{
	if (sort->spilled != NULL)
		tuplesort_performsort(sort->spilled);
	else
		push_pivot(sort, sort->n);	/* a place behind all of them */
}

static inline int
compare_values(LsmValueSort *sort, Datum a, Datum b)
{
	return ApplySortComparator(a, false, b, false, &sort->support);
}

/* Sort what is from `first` to before `end`, a few. */
static void
sort_few(LsmValueSort *sort, int first, int end)
{
	for (int i = first + 1; i < end; i++)
	{
		Datum		value = sort->values[i];
		int			j = i;

		for (; j > first && compare_values(sort, sort->values[j - 1], value) > 0; j--)
			sort->values[j] = sort->values[j - 1];
		sort->values[j] = value;
	}
}

static inline int
draw(int first, int end)
{
	return first + (int) (pg_prng_uint64(&pg_global_prng_state) % (end - first));
}

/* A median of three; few values are not worth the comparisons. */
static int
choose_pivot(LsmValueSort *sort, int first, int end)
{
	int			a = draw(first, end);
	int			b = draw(first, end);
	int			c = draw(first, end);
	Datum	   *values = sort->values;

	if (end - first < MANY_VALUES)
		return a;
	if (compare_values(sort, values[a], values[b]) < 0)
	{
		if (compare_values(sort, values[b], values[c]) < 0)
			return b;
		return compare_values(sort, values[a], values[c]) < 0 ? c : a;
	}
	if (compare_values(sort, values[a], values[c]) < 0)
		return a;
	return compare_values(sort, values[b], values[c]) < 0 ? c : b;
}

/*
 * Split what is from `first` to before `end` at one of them; its place.  Values
 * are different, so that it does not matter where equal ones go.
 */
static int
split(LsmValueSort *sort, int first, int end)
{
	int			place = first;
	Datum		pivot;

	swap_values(sort, choose_pivot(sort, first, end), end - 1);
	pivot = sort->values[end - 1];
	for (int i = first; i < end - 1; i++)
	{
		if ((i & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		if (compare_values(sort, sort->values[i], pivot) < 0)
			swap_values(sort, i, place++);
	}
	swap_values(sort, place, end - 1);
	return place;
}

static bool
next_value(LsmValueSort *sort, Datum *value)
{
	bool		isnull;

	if (sort->spilled != NULL)
		return tuplesort_getdatum(sort->spilled, true, true, value, &isnull, NULL);
	if (sort->next == sort->n)
		return false;

	Assert(sort->npivots > 0 && sort->pivots[0] == sort->n);
	while (sort->sorted <= sort->next)
	{
		int			end = sort->pivots[sort->npivots - 1];

		Assert(end >= sort->next);
		if (end == sort->next)
		{
			/* a pivot is sorted itself */
			sort->npivots--;
			sort->sorted = end + 1;
		}
		else if (end - sort->next <= FEW_VALUES)
		{
			sort_few(sort, sort->next, end);
			sort->sorted = end;
		}
		else
			push_pivot(sort, split(sort, sort->next, end));
	}
	*value = sort->values[sort->next++];
	return true;
}

bool
lsm_value_sort_next(LsmValueSort *sort, Datum *value, bool *isnull)
{
	*isnull = false;
	if (next_value(sort, value))
		return true;
	*isnull = sort->has_null;
	sort->has_null = false;
	*value = (Datum) 0;
	return *isnull;
}

void
lsm_value_sort_end(LsmValueSort *sort)
{
	if (sort->spilled != NULL)
		tuplesort_end(sort->spilled);
	MemoryContextDelete(sort->context);
}
