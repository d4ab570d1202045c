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
#include "utils/builtins.h"

#include "functions.h"
#include "lsmam.h"

PG_FUNCTION_INFO_V1(lsm_filters);

#define NFILTER_COLUMNS 16

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
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
lsm_filters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	LsmFilterInfo *filters;
	int			nfilters;

	InitMaterializedSRF(fcinfo, 0);
	rel = lsm_relation_open_tree(PG_GETARG_OID(0));
	filters = lsm_tree_filters(lsm_relation_tree(rel), &nfilters);
	for (int i = 0; i < nfilters; i++)
		put_file(rsinfo, &filters[i]);
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
