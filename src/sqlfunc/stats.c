/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  SQL functions behind pg_stat_lsm and pg_stat_lsm_levels, and
 *	  lsm_elastic_stats().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"

#include "sqlfunc/functions.h"
#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_stat_trees);
PG_FUNCTION_INFO_V1(lsm_tree_stats);
PG_FUNCTION_INFO_V1(lsm_level_stats);
PG_FUNCTION_INFO_V1(pg_stat_lsm_reset);
PG_FUNCTION_INFO_V1(lsm_elastic_stats);

/* Of lsm_stat_trees(): then the counters of version 1.0, in their order */
#define NOLD_IDENTITY	3
#define NOLD_COUNTERS	(LSM_COUNT_STALL_US + 1)
#define NSTAT_COLUMNS	(NOLD_IDENTITY + NOLD_COUNTERS)

/* Of the others: these, and the relation */
#define NIDENTITY		4

StaticAssertDecl(NOLD_COUNTERS == 14, "the columns of lsm_stat_trees() are others");

#define NTREE_COLUMNS	(NIDENTITY + LSM_NCOUNTERS + 2 * LSM_NSTALLS + 5 + 2 * LSM_NDELAYS)

/* Of lsm_level_stats() */
#define NLEVEL_COLUMNS	(NIDENTITY + 12)

static Datum
us_as_ms(uint64 us)
{
	return Float8GetDatum((double) us / 1000.0);
}

/* Trees that there are, or relations' former ones */
typedef struct StatsScan
{
	int			iter;
	bool		former;
	LsmTreeStats *rows;			/* of former ones */
	int			nrows;
} StatsScan;

static void
begin_scan(StatsScan *scan, bool former)
{
	memset(scan, 0, sizeof(StatsScan));
	scan->former = former;
	if (former)
		scan->rows = lsm_stats_former(&scan->nrows);
}

static bool
next_stats(StatsScan *scan, LsmTreeStats *stats)
{
	if (!scan->former)
		return lsm_stats_next(&scan->iter, stats);
	if (scan->iter == scan->nrows)
		return false;
	*stats = scan->rows[scan->iter++];
	return true;
}

/* A tree is known by its fork, former ones are by their relation. */
static void
put_identity(const LsmTreeStats *stats, bool former, Datum *values, bool *nulls)
{
	values[0] = ObjectIdGetDatum(stats->dboid);
	values[1] = ObjectIdGetDatum(stats->spcoid);
	values[2] = ObjectIdGetDatum(stats->relfilenode);
	values[3] = ObjectIdGetDatum(stats->relid);
	nulls[1] = nulls[2] = former;
	nulls[3] = !former;
}

static void
put_counters(const LsmTreeStats *stats, int first, int end, Datum *values)
{
	for (int i = first; i < end; i++)
	{
		uint64		value = stats->counts.counters[i];

		*values++ = i == LSM_COUNT_STALL_US ? us_as_ms(value) : Int64GetDatum((int64) value);
	}
}

/* As version 1.0 has it */
Datum
lsm_stat_trees(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsmTreeStats stats;
	int			iter = 0;

	lsm_tree_require_memory();
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
		put_counters(&stats, 0, NOLD_COUNTERS, &values[NOLD_IDENTITY]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* See functions.h. */
uint64
lsm_elastic_tree_bytes(const LsmElasticUse *uses, int nuses, uint64 keyspace_id)
{
	uint64		bytes = 0;

	for (int i = 0; i < nuses; i++)
	{
		if (uses[i].keyspace_id == keyspace_id)
			bytes += uses[i].bytes;
	}
	return bytes;
}

static void
put_tree(const LsmTreeStats *stats, bool former, uint64 elastic_bytes, Datum *values, bool *nulls)
{
	const LsmTreeCounts *counts = &stats->counts;
	int			i = NIDENTITY + NOLD_COUNTERS;

	put_identity(stats, former, values, nulls);
	put_counters(stats, 0, NOLD_COUNTERS, &values[NIDENTITY]);
	for (int reason = 0; reason < LSM_NSTALLS; reason++)
	{
		values[i++] = Int64GetDatum((int64) counts->stalls[reason]);
		values[i++] = us_as_ms(counts->stall_us[reason]);
	}
	nulls[i] = former;
	values[i++] = Int64GetDatum((int64) stats->memtable_bytes);
	for (int reason = 0; reason < LSM_NDELAYS; reason++)
	{
		values[i++] = Int64GetDatum((int64) counts->delays[reason]);
		values[i++] = us_as_ms(counts->delay_us[reason]);
	}
	if (!stats->known)
		memset(&nulls[i], true, 3 * sizeof(bool));
	values[i++] = Int64GetDatum((int64) (stats->mapped_filter_bytes + elastic_bytes));
	values[i++] = Int32GetDatum((int32) stats->level0_runs);
	values[i++] = Int64GetDatum((int64) stats->pending_bytes);
	nulls[i] = former;
	values[i++] = BoolGetDatum(stats->workers_help);
	put_counters(stats, NOLD_COUNTERS, LSM_NCOUNTERS, &values[i]);
	i += LSM_NCOUNTERS - NOLD_COUNTERS;
	Assert(i == NTREE_COLUMNS);
}

Datum
lsm_tree_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		former = PG_GETARG_BOOL(0);
	int			nuses;
	LsmElasticUse *uses;
	LsmTreeStats stats;
	StatsScan	scan;

	lsm_tree_require_memory();
	uses = lsm_elastic_uses(&nuses);
	lsm_counters_publish();
	InitMaterializedSRF(fcinfo, 0);
	begin_scan(&scan, former);
	while (next_stats(&scan, &stats))
	{
		Datum		values[NTREE_COLUMNS];
		bool		nulls[NTREE_COLUMNS] = {0};

		put_tree(&stats, former,
				 former ? 0 : lsm_elastic_tree_bytes(uses, nuses, stats.keyspace_id), values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static bool
is_level_known(const LsmTreeStats *stats, int level)
{
	if (stats->known && stats->level_files[level] > 0)
		return true;
	for (int i = 0; i < LSM_NWORK; i++)
	{
		if (stats->counts.work[level][i] > 0 || (level == 0 && stats->counts.work[LSM_WORK_FLUSHES][i] > 0))
			return true;
	}
	return false;
}

/* Flushes write to level 0. */
static void
put_level(const LsmTreeStats *stats, bool former, int level, Datum *values, bool *nulls)
{
	const uint64 *work = stats->counts.work[level];
	uint64		flushes[LSM_NWORK] = {0};
	int			i = NIDENTITY;

	if (level == 0)
		memcpy(flushes, stats->counts.work[LSM_WORK_FLUSHES], sizeof(flushes));
	put_identity(stats, former, values, nulls);
	values[i++] = Int32GetDatum(level);
	nulls[i] = nulls[i + 1] = !stats->known;
	values[i++] = Int64GetDatum((int64) stats->level_files[level]);
	values[i++] = Int64GetDatum((int64) stats->level_bytes[level]);
	values[i++] = Int64GetDatum((int64) flushes[LSM_WORK_JOBS]);
	values[i++] = Int64GetDatum((int64) flushes[LSM_WORK_BYTES_OUT]);
	values[i++] = us_as_ms(flushes[LSM_WORK_US]);
	values[i++] = Int64GetDatum((int64) work[LSM_WORK_JOBS]);
	values[i++] = Int64GetDatum((int64) work[LSM_WORK_MOVED]);
	values[i++] = Int64GetDatum((int64) work[LSM_WORK_BYTES_IN]);
	values[i++] = Int64GetDatum((int64) work[LSM_WORK_BYTES_OUT]);
	values[i++] = Int64GetDatum((int64) (work[LSM_WORK_DROPPED] + flushes[LSM_WORK_DROPPED]));
	values[i++] = us_as_ms(work[LSM_WORK_US]);
	Assert(i == NLEVEL_COLUMNS);
}

Datum
lsm_level_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		former = PG_GETARG_BOOL(0);
	LsmTreeStats stats;
	StatsScan	scan;

	lsm_tree_require_memory();
	InitMaterializedSRF(fcinfo, 0);
	begin_scan(&scan, former);
	while (next_stats(&scan, &stats))
	{
		for (int level = 0; level < LSM_MAX_LEVELS; level++)
		{
			Datum		values[NLEVEL_COLUMNS];
			bool		nulls[NLEVEL_COLUMNS] = {0};

			if (!is_level_known(&stats, level))
				continue;
			put_level(&stats, former, level, values, nulls);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}

Datum
pg_stat_lsm_reset(PG_FUNCTION_ARGS)
{
	lsm_tree_require_memory();
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

	lsm_tree_require_memory();
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
