/*-------------------------------------------------------------------------
 *
 * filters.c
 *	  lsm_filters(): the filters of a tree, what they cost and what they gain.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "sqlfunc/functions.h"
#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_filters);

#define NFILTER_COLUMNS 17

static Datum
scheme_name(const LsmFilterInfo *filter)
{
	const char *name = lsm_filter_scheme_name(filter->scheme);

	return CStringGetTextDatum(filter->known && name != NULL ? name : "unknown");
}

static void
put_file(ReturnSetInfo *rsinfo, const LsmFilterInfo *filter)
{
	uint64		probes = lsm_filter_counts_probes(&filter->counts);
	uint64		absent = filter->counts.negatives + filter->counts.false_positives;
	Datum		values[NFILTER_COLUMNS];
	bool		nulls[NFILTER_COLUMNS] = {0};

	values[0] = Int32GetDatum(filter->level);
	values[1] = Int64GetDatum((int64) filter->number);
	nulls[2] = true;			/* segment */
	values[3] = scheme_name(filter);
	values[4] = Int64GetDatum((int64) filter->keys);
	values[5] = Float8GetDatum(filter->bits_per_key);
	values[6] = Int64GetDatum((int64) filter->filter_bytes);
	nulls[7] = true;			/* units */
	nulls[8] = true;			/* units_on */
	nulls[9] = true;			/* hotness */
	values[10] = Float8GetDatum(filter->expected_fpr);
	values[11] = Int64GetDatum((int64) probes);
	values[12] = Int64GetDatum((int64) filter->counts.negatives);
	values[13] = Int64GetDatum((int64) filter->counts.true_positives);
	values[14] = Int64GetDatum((int64) filter->counts.false_positives);
	values[15] = Float8GetDatum(absent > 0 ?
								(double) filter->counts.false_positives / absent : 0.0);
	nulls[15] = absent == 0;
	values[16] = Int32GetDatum((int32) filter->leading);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * Questions are counted by file, so those columns are empty but for the rate
 * that the policy measures.
 */
static void
put_segment(ReturnSetInfo *rsinfo, const LsmSegmentInfo *segment)
{
	Datum		values[NFILTER_COLUMNS];
	bool		nulls[NFILTER_COLUMNS] = {0};

	values[0] = Int32GetDatum(segment->level);
	values[1] = Int64GetDatum((int64) segment->file);
	values[2] = Int32GetDatum((int32) segment->segment);
	values[3] = CStringGetTextDatum(lsm_filter_scheme_name(LSM_FILTER_ELASTIC));
	values[4] = Int64GetDatum((int64) segment->keys);
	values[5] = Float8GetDatum(segment->bits_per_key);
	nulls[6] = true;			/* filter_bytes */
	values[7] = Int32GetDatum(segment->units);
	values[8] = Int32GetDatum(segment->units_on);
	values[9] = Float8GetDatum(segment->accesses);
	nulls[9] = !segment->tracked;
	values[10] = Float8GetDatum(segment->expected_fpr);
	for (int i = 11; i < 15; i++)
		nulls[i] = true;
	values[15] = Float8GetDatum(segment->measured_fpr);
	nulls[15] = !segment->tracked || segment->accesses < 1;
	values[16] = Int32GetDatum(0);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* What is expected of the file is what its segments have on, not what it holds. */
static void
expect_of_segments(LsmFilterInfo *filter, const LsmSegmentInfo *segments, int n)
{
	double		keys = 0;
	double		bits = 0;
	double		false_positives = 0;

	for (int i = 0; i < n; i++)
	{
		keys += segments[i].keys;
		bits += segments[i].keys * segments[i].bits_per_key;
		false_positives += segments[i].keys * segments[i].expected_fpr;
	}
	if (keys > 0)
	{
		filter->bits_per_key = bits / keys;
		filter->expected_fpr = false_positives / keys;
	}
}

/*
 * The file's segments among all of the tree's: the first, and their number.
 * *next is where they are looked for first, and where those of the next file
 * will be.  What is expected of the filter becomes what its segments have on.
 */
static int
take_segments(LsmFilterInfo *filter, LsmSegmentInfo *segments, int nsegments,
			  int *next, LsmSegmentInfo **first)
{
	int			begin = *next;
	int			end;

	*first = NULL;
	if (!lsm_filter_scheme_has(filter->scheme, LSM_FILTER_UNITS))
		return 0;
	if (begin == nsegments || segments[begin].file != filter->number)
	{
		/* in the same order, unless the version has changed in between */
		begin = 0;
		while (begin < nsegments && segments[begin].file != filter->number)
			begin++;
	}
	for (end = begin; end < nsegments && segments[end].file == filter->number;)
		end++;
	expect_of_segments(filter, segments + begin, end - begin);
	*first = segments + begin;
	*next = end;
	return end - begin;
}

Datum
lsm_filters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	List	   *not_open;
	LsmFilterInfo *filters;
	int			nfilters;
	LsmSegmentInfo *segments;
	int			nsegments;
	int			next = 0;

	InitMaterializedSRF(fcinfo, 0);
	rel = lsm_relation_open(PG_GETARG_OID(0), LSM_RELATION_TREE, LSM_RIGHT_FACTS,
							AccessShareLock);
	not_open = lsm_relations_not_open(list_make1(rel));
	filters = lsm_tree_filters(lsm_relation_tree(rel), &nfilters);
	segments = lsm_tree_segments(lsm_relation_tree(rel), &nsegments);
	for (int i = 0; i < nfilters; i++)
	{
		LsmSegmentInfo *first;
		int			n;

		CHECK_FOR_INTERRUPTS();
		n = take_segments(&filters[i], segments, nsegments, &next, &first);
		put_file(rsinfo, &filters[i]);
		for (int j = 0; j < n; j++)
			put_segment(rsinfo, &first[j]);
	}
	lsm_relations_let_go(not_open);
	lsm_relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
