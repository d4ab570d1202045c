/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  SQL functions behind pg_stat_lsm, and lsm_elastic_stats().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"

#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_stat_trees);
PG_FUNCTION_INFO_V1(pg_stat_lsm_reset);
PG_FUNCTION_INFO_V1(lsm_elastic_stats);

/* Then the counters, in their order: that of the function's row type */
#define NIDENTITY		3
#define NSTAT_COLUMNS	(NIDENTITY + LSM_NCOUNTERS)

StaticAssertDecl(LSM_COUNT_STALL_US == LSM_NCOUNTERS - 1 && LSM_NCOUNTERS == 14,
				 "the columns of lsm_stat_trees() are others");

Datum
lsm_stat_trees(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsmTreeStats stats;
	int			iter = 0;

	/* what this session counted in statements before this one */
	lsm_counters_publish();

	InitMaterializedSRF(fcinfo, 0);
	while (lsm_stats_next(&iter, &stats))
	{
		Datum		values[NSTAT_COLUMNS];
		bool		nulls[NSTAT_COLUMNS] = {0};

		values[0] = ObjectIdGetDatum(stats.dboid);
		values[1] = ObjectIdGetDatum(stats.spcoid);
		values[2] = ObjectIdGetDatum(stats.relfilenode);
		for (int i = 0; i < LSM_NCOUNTERS; i++)
		{
			uint64		value = stats.counters[i];

			if (i == LSM_COUNT_STALL_US)
				values[NIDENTITY + i] = Float8GetDatum((double) value / 1000.0);
			else
				values[NIDENTITY + i] = Int64GetDatum((int64) value);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
pg_stat_lsm_reset(PG_FUNCTION_ARGS)
{
	lsm_counters_publish();
	lsm_stats_reset(MyDatabaseId);
	PG_RETURN_VOID();
}

Datum
lsm_elastic_stats(PG_FUNCTION_ARGS)
{
	LsmElasticStats stats;
	TupleDesc	tupdesc;
	Datum		values[13];
	bool		nulls[13] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	lsm_elastic_read_stats(&stats);
	values[0] = Int64GetDatum(stats.budget_bytes);
	values[1] = Int64GetDatum(stats.used_bytes);
	values[2] = Int64GetDatum(stats.taken_bytes);
	values[3] = Int64GetDatum(stats.reserved_bytes);
	values[4] = Int64GetDatum(stats.state_bytes);
	values[5] = Int64GetDatum(stats.units_on);
	values[6] = Int64GetDatum(stats.units_wanted);
	values[7] = Int64GetDatum(stats.segments);
	values[8] = Int64GetDatum(stats.accesses);
	values[9] = Int64GetDatum(stats.promotions);
	values[10] = Int64GetDatum(stats.demotions);
	values[11] = Int64GetDatum(stats.loads);
	values[12] = Float8GetDatum(stats.extra_io);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
