/*-------------------------------------------------------------------------
 *
 * advise.c
 *	  lsm_advise(): what the measured accesses say about a tree's filters.
 *
 * The measure is the wasted read: a file that was searched for a key that it
 * does not have.  Counted are, per file, the questions about absent keys
 * (negatives and false positives; without a filter, reads in vain).  What
 * another filter would do with the same questions is computed from closed
 * forms: the sum over the files of questions about absent keys * false
 * positive rate of the filter that the file would have.  So the advice holds
 * as long as the accesses stay what they were since pg_stat_lsm_reset().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/am.h"
#include "sqlfunc/functions.h"
#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_advise);

/* Below this many point lookups nothing is said. */
#define ENOUGH_LOOKUPS		1000.0

/*
 * Wasted reads per lookup: beyond MANY more bits are proposed, below FEW less.
 */
#define MANY_WASTED			0.01
#define FEW_WASTED			0.001
#define MAX_BITS_PER_KEY	20.0
#define MIN_BITS_PER_KEY	4.0

/* Savings smaller than this are not worth a rewrite, bytes. */
#define ENOUGH_BYTES		(1024.0 * 1024.0)

/*
 * Hot spots: elastic must promise to cut wasted reads at least to this share.
 */
#define ELASTIC_GAIN		0.6

/* Uniform accesses: leave elastic if blocked wastes at most this share. */
#define ELASTIC_LOSS		0.8

/*
 * Bits by the size of runs must promise to cut wasted reads at least to this
 * share.
 */
#define ALLOCATION_GAIN		0.6

#define NADVISE_COLUMNS		9

/* All that is known of a tree. */
typedef struct Facts
{
	ReturnSetInfo *rsinfo;
	Relation	rel;
	LsmTree    *tree;
	bool		is_table;
	LsmFilterParams params;		/* what new files get */
	LsmFilterAllocation allocation;
	int			units;			/* elastic units of new files */
	LsmFilterInfo *filters;
	int			nfilters;
	LsmSegmentInfo *segments;	/* if new files get elastic filters */
	int			nsegments;
	uint64		counters[LSM_NCOUNTERS];
	double		lookups;
	double		probes;			/* questions to filters, reads where there is
								 * none */
	double		absent;			/* of these, about keys that were not there */
	double		wasted;			/* and the file was read for */
	double		filter_bytes;
	uint64		keys;
	int			rows;			/* put out so far */
	const char *compact;		/* lsm_compact with its schema: who runs the
								 * statement may have others in his path */
} Facts;

/* One row. */
typedef struct Advice
{
	const char *setting;		/* NULL: nothing to do */
	const char *current;
	const char *suggested;
	double		expected_wasted;	/* of all lookups; negative: not known */
	double		expected_bytes; /* negative: not known */
	const char *statement;
	const char *reason;
} Advice;

static void
put_advice(Facts *facts, const Advice *advice)
{
	double		per_1000 = facts->lookups > 0 ? 1000.0 / facts->lookups : 0.0;
	Datum		values[NADVISE_COLUMNS];
	bool		nulls[NADVISE_COLUMNS] = {0};

	values[0] = ObjectIdGetDatum(RelationGetRelid(facts->rel));
	nulls[1] = advice->setting == NULL;
	nulls[2] = advice->current == NULL;
	nulls[3] = advice->suggested == NULL;
	nulls[4] = facts->lookups < ENOUGH_LOOKUPS;
	nulls[5] = nulls[4] || advice->expected_wasted < 0;
	nulls[6] = advice->expected_bytes < 0;
	nulls[7] = advice->statement == NULL;
	if (!nulls[1])
		values[1] = CStringGetTextDatum(advice->setting);
	if (!nulls[2])
		values[2] = CStringGetTextDatum(advice->current);
	if (!nulls[3])
		values[3] = CStringGetTextDatum(advice->suggested);
	values[4] = Float8GetDatum(rint(1000.0 * facts->wasted * per_1000) / 1000.0);
	values[5] = Float8GetDatum(rint(1000.0 * advice->expected_wasted * per_1000) / 1000.0);
	values[6] = Int64GetDatum((int64) (advice->expected_bytes - facts->filter_bytes));
	if (!nulls[7])
		values[7] = CStringGetTextDatum(advice->statement);
	values[8] = CStringGetTextDatum(advice->reason);
	tuplestore_putvalues(facts->rsinfo->setResult, facts->rsinfo->setDesc,
						 values, nulls);
	facts->rows++;
}

static void
put_reason(Facts *facts, const char *reason)
{
	Advice		advice = {.expected_wasted = -1, .expected_bytes = -1, .reason = reason};

	put_advice(facts, &advice);
}

/* ======================================================================
 * What another filter would do
 * ====================================================================== */

static double
file_absent(const LsmFilterInfo *file)
{
	return (double) (file->counts.negatives + file->counts.false_positives);
}

/*
 * The runs that the files make up, with what their filters would be on this
 * average of bits.  run_of[] says for each file which is its.
 */
static LsmFilterRun *
plan_runs(const Facts *facts, LsmFilterScheme scheme, double bits_per_key,
		  LsmFilterAllocation allocation, int *run_of)
{
	LsmFilterRun *runs = palloc0(Max(facts->nfilters, 1) * sizeof(LsmFilterRun));
	int			deepest = 0;
	int			n = 0;

	for (int i = 0; i < facts->nfilters; i++)
		deepest = Max(deepest, facts->filters[i].level);
	for (int i = 0; i < facts->nfilters; i++)
	{
		const LsmFilterInfo *file = &facts->filters[i];

		/* files of a run stand together */
		if (i == 0 || file->level != file[-1].level || file->run != file[-1].run)
			n++;
		run_of[i] = n - 1;
		runs[n - 1].keys += file->keys;
		runs[n - 1].bits_per_key = bits_per_key;
		runs[n - 1].scheme = deepest > 0 && file->level == deepest ?
			lsm_tree_bottom_scheme(facts->tree, scheme) : scheme;
	}
	if (allocation == LSM_ALLOCATION_MONKEY && lsm_filter_scheme_allocates(scheme))
		lsm_filter_allocate(runs, n, bits_per_key);
	return runs;
}

/* Wasted reads if all files had such a filter, bits being allocated like that. */
static double
wasted_allocated(const Facts *facts, LsmFilterScheme scheme, double bits_per_key,
				 LsmFilterAllocation allocation)
{
	int		   *run_of = palloc(Max(facts->nfilters, 1) * sizeof(int));
	LsmFilterRun *runs = plan_runs(facts, scheme, bits_per_key, allocation, run_of);
	double		wasted = 0;

	for (int i = 0; i < facts->nfilters; i++)
	{
		const LsmFilterRun *run = &runs[run_of[i]];
		LsmFilterParams params = {.scheme = run->scheme,.bits_per_key = run->bits_per_key};

		wasted += file_absent(&facts->filters[i]) *
			lsm_filter_planned_fpr(&params, facts->filters[i].keys);
	}
	pfree(runs);
	pfree(run_of);
	return wasted;
}

/* ... as they are now. */
static double
wasted_with(const Facts *facts, LsmFilterScheme scheme, double bits_per_key)
{
	return wasted_allocated(facts, scheme, bits_per_key, facts->allocation);
}

static double
bytes_with(const Facts *facts, double bits_per_key)
{
	return facts->keys * bits_per_key / 8.0;
}

/* A file and how many of its units would be on */
typedef struct Unit
{
	double		absent;
	double		keys;
	double		unit_fpr;
	int			on;
	double		gain;			/* unit_gain() */
} Unit;

/* What one more unit saves per key that it costs memory for. */
static double
unit_gain(const Unit *unit)
{
	if (unit->keys <= 0)
		return 0;
	return unit->absent * pow(unit->unit_fpr, unit->on) * (1.0 - unit->unit_fpr) /
		unit->keys;
}

/*
 * Wasted reads with elastic filters in the memory that blocked ones of these
 * bits take: each next unit where it saves most, which is what ElasticBF's
 * rule (sum of f * r must fall) converges to.  Twice the units in the filter
 * files, so that hot spots can have more than their share.  Files stand for
 * segments: what is uneven within files is not seen.
 */
static double
wasted_with_elastic(const Facts *facts, double bits_per_key, int units)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_BLOCKED};
	Unit	   *files = palloc0(Max(facts->nfilters, 1) * sizeof(Unit));
	double		unit_bits = Max(bits_per_key / units, 1.0);
	double		budget = Min(bytes_with(facts, bits_per_key),
							 lsm_elastic_memory_kb * 1024.0) * 8.0;
	double		wasted = 0;

	params.bits_per_key = unit_bits;
	for (int i = 0; i < facts->nfilters; i++)
	{
		files[i].absent = file_absent(&facts->filters[i]);
		files[i].keys = (double) facts->filters[i].keys;
		files[i].unit_fpr = lsm_filter_planned_fpr(&params, facts->filters[i].keys);
		files[i].gain = unit_gain(&files[i]);
	}
	for (;;)
	{
		Unit	   *best = NULL;

		/* rounds and files are many in large trees */
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < facts->nfilters; i++)
		{
			if (files[i].on < 2 * units && files[i].keys * unit_bits <= budget &&
				files[i].gain > (best != NULL ? best->gain : 0))
				best = &files[i];
		}
		if (best == NULL)
			break;
		best->on++;
		best->gain = unit_gain(best);
		budget -= best->keys * unit_bits;
	}
	for (int i = 0; i < facts->nfilters; i++)
		wasted += files[i].absent * pow(files[i].unit_fpr, files[i].on);
	pfree(files);
	return wasted;
}

/* ======================================================================
 * Rules
 * ====================================================================== */

static const char *
compact_statement(const Facts *facts, const char *name)
{
	return psprintf("SELECT %s(%s::regclass);", facts->compact, quote_literal_cstr(name));
}

/*
 * The table's lsm indexes keep the filters that they have: the settings of the
 * statement's session would be theirs, too.
 */
static void
keep_indexes(const Facts *facts, StringInfo text)
{
	List	   *indexes = lsm_relation_open_indexes(facts->rel, AccessShareLock);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = (Relation) lfirst(lc);
		LsmFilterParams params = lsm_tree_filter_params(lsm_relation_tree(index));

		appendStringInfo(text, "ALTER INDEX %s SET (filter_scheme = %s, bits_per_key = %s, elastic_units = %d); ",
						 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(index)),
													RelationGetRelationName(index)),
						 lsm_filter_scheme_name(params.scheme),
						 float8out_internal(params.bits_per_key), params.units);
	}
	lsm_relation_close_indexes(indexes, AccessShareLock);
}

/* Statement that gives the tree another filter. */
static const char *
filter_statement(const Facts *facts, LsmFilterScheme scheme, double bits_per_key,
				 int units)
{
	const char *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(facts->rel)),
												  RelationGetRelationName(facts->rel));
	StringInfoData text;
	bool		bits = !lsm_filter_scheme_has(scheme, LSM_FILTER_EMPTY);

	initStringInfo(&text);
	if (facts->is_table)
	{
		/* tables have no options: what the session that writes has set */
		keep_indexes(facts, &text);
		appendStringInfo(&text, "SET lsm.filter_scheme = %s; ",
						 lsm_filter_scheme_name(scheme));
		if (bits)
			appendStringInfo(&text, "SET lsm.bits_per_key = %g; ", bits_per_key);
		if (units > 0)
			appendStringInfo(&text, "SET lsm.elastic_units = %d; ", units);
	}
	else
	{
		appendStringInfo(&text, "ALTER INDEX %s SET (filter_scheme = %s", name,
						 lsm_filter_scheme_name(scheme));
		if (bits)
			appendStringInfo(&text, ", bits_per_key = %g", bits_per_key);
		if (units > 0)
			appendStringInfo(&text, ", elastic_units = %d", units);
		appendStringInfoString(&text, "); ");
	}
	appendStringInfoString(&text, compact_statement(facts, name));
	if (facts->is_table)
	{
		/* what the session writes next is another matter */
		appendStringInfoString(&text, " RESET lsm.filter_scheme;");
		if (bits)
			appendStringInfoString(&text, " RESET lsm.bits_per_key;");
		if (units > 0)
			appendStringInfoString(&text, " RESET lsm.elastic_units;");
	}
	return text.data;
}

/* Tables follow the settings of whoever writes the file. */
static const char *
reason_text(const Facts *facts, const char *reason)
{
	if (!facts->is_table)
		return reason;
	return psprintf("%s Set it in postgresql.conf, too: files of tables follow the settings of the process that writes them, as do those of indexes without storage parameters of their own.",
					reason);
}

static const char *
describe(LsmFilterScheme scheme, double bits_per_key)
{
	if (lsm_filter_scheme_has(scheme, LSM_FILTER_EMPTY))
		return lsm_filter_scheme_name(scheme);
	return psprintf("%s, %g bits per key", lsm_filter_scheme_name(scheme), bits_per_key);
}

static void
put_change(Facts *facts, const char *setting, LsmFilterScheme scheme,
		   double bits_per_key, int units, double expected_wasted,
		   double expected_bytes, const char *reason)
{
	Advice		advice;

	advice.setting = setting;
	advice.current = describe(facts->params.scheme, facts->params.bits_per_key);
	advice.suggested = describe(scheme, bits_per_key);
	advice.expected_wasted = expected_wasted;
	advice.expected_bytes = expected_bytes;
	advice.statement = filter_statement(facts, scheme, bits_per_key, units);
	advice.reason = reason_text(facts, reason);
	put_advice(facts, &advice);
}

/*
 * Files whose filters are not what the settings ask for: no advice is true
 * before.
 */
static bool
advise_stale(Facts *facts)
{
	const char *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(facts->rel)),
												  RelationGetRelationName(facts->rel));
	Advice		advice = {0};
	int			stale = 0;

	for (int i = 0; i < facts->nfilters; i++)
		stale += !facts->filters[i].current;
	if (stale == 0)
		return false;
	advice.setting = "filter_scheme";
	advice.current = psprintf("%d of %d files have another", stale, facts->nfilters);
	advice.suggested = describe(facts->params.scheme, facts->params.bits_per_key);
	advice.expected_wasted = facts->lookups < ENOUGH_LOOKUPS ? -1 :
		wasted_with(facts, facts->params.scheme, facts->params.bits_per_key);
	advice.expected_bytes = lsm_filter_scheme_has(facts->params.scheme, LSM_FILTER_EMPTY) ? 0 :
		bytes_with(facts, facts->params.bits_per_key);
	advice.statement = compact_statement(facts, name);
	advice.reason = "Files get the filter that is set when they are written; these are older than the setting.";
	put_advice(facts, &advice);
	return true;
}

/* More hashing than one digest per lookup? */
static void
advise_sharing(Facts *facts)
{
	double		digests = (double) facts->counters[LSM_COUNT_DIGESTS];
	Advice		advice = {0};

	if (digests < 1.1 * facts->lookups)
		return;
	advice.setting = "lsm.hash_sharing";
	advice.current = "off";
	advice.suggested = "on";
	advice.expected_wasted = facts->wasted;
	advice.expected_bytes = facts->filter_bytes;
	advice.statement = "SET lsm.hash_sharing = on;";
	advice.reason = psprintf("%.1f digests were computed per point lookup where one is enough; the longer the keys, the more that costs.",
							 digests / facts->lookups);
	put_advice(facts, &advice);
}

/*
 * Nothing is gained by filters that (nearly) always say maybe, and rightly so.
 */
static bool
advise_none(Facts *facts)
{
	if (lsm_filter_scheme_has(facts->params.scheme, LSM_FILTER_EMPTY) ||
		facts->absent > MANY_WASTED * facts->lookups ||
		facts->filter_bytes < ENOUGH_BYTES)
		return false;
	put_change(facts, "filter_scheme", LSM_FILTER_NONE, 0, 0, facts->absent, 0,
			   psprintf("%.4g%% of the filter probes find the key: the filters save %.3g reads per 1000 lookups.",
						100.0 * (facts->probes - facts->absent) / facts->probes,
						1000.0 * (facts->absent - facts->wasted) / facts->lookups));
	return true;
}

/* No filter, and reads in vain. */
static bool
advise_some(Facts *facts)
{
	double		bits_per_key = facts->params.bits_per_key > 0 ?
		facts->params.bits_per_key : lsm_bits_per_key;

	if (!lsm_filter_scheme_has(facts->params.scheme, LSM_FILTER_EMPTY))
		return false;
	if (facts->absent <= MANY_WASTED * facts->lookups)
		put_reason(facts, "No filter is needed: nearly all files that are read have the key.");
	else
		put_change(facts, "filter_scheme", LSM_FILTER_BLOCKED, bits_per_key, 0,
				   wasted_with(facts, LSM_FILTER_BLOCKED, bits_per_key),
				   bytes_with(facts, bits_per_key),
				   psprintf("%.3g of 1000 lookups' reads are of files that do not have the key, and there is no filter.",
							1000.0 * facts->wasted / facts->lookups));
	return true;
}

/*
 * Filters larger than what memory can be expected to cache: leave them on
 * storage.
 */
static bool
advise_cascade(Facts *facts)
{
	double		cache = effective_cache_size * (double) BLCKSZ;
	double		bits_per_key = facts->params.bits_per_key;

	if (lsm_filter_scheme_has(facts->params.scheme, LSM_FILTER_PAGES) ||
		facts->filter_bytes < cache / 2)
		return false;
	put_change(facts, "filter_scheme", LSM_FILTER_CASCADE, bits_per_key, 0,
			   wasted_with(facts, LSM_FILTER_CASCADE, bits_per_key),
			   bytes_with(facts, bits_per_key),
			   "The filters take more than half of effective_cache_size; cascade reads one page of them per file and keeps nothing in memory.");
	return true;
}

/* Units that elastic filters in the place of the present ones would have on. */
static int
elastic_units(const Facts *facts)
{
	return Max(Min(Min(facts->units, LSM_ELASTIC_UNITS_MAX / 2), (int) facts->params.bits_per_key), 1);
}

/* Accesses concentrate on few files: give their filters the memory. */
static bool
advise_elastic(Facts *facts)
{
	double		bits_per_key = facts->params.bits_per_key;
	double		uniform = wasted_with(facts, LSM_FILTER_BLOCKED, bits_per_key);
	int			units = elastic_units(facts);
	double		elastic = wasted_with_elastic(facts, bits_per_key, units);

	if (lsm_filter_scheme_has(facts->params.scheme, LSM_FILTER_UNITS) ||
		facts->wasted <= FEW_WASTED * facts->lookups || elastic > ELASTIC_GAIN * uniform)
		return false;
	put_change(facts, "filter_scheme", LSM_FILTER_ELASTIC,
			   Min(2 * bits_per_key, 64.0), 2 * units, elastic,
			   bytes_with(facts, bits_per_key),
			   psprintf("Accesses concentrate on few files. Their filters would get the memory that cold ones give up, within %.3g MB of lsm.elastic_memory.",
						Min(bytes_with(facts, bits_per_key) / (1024.0 * 1024.0),
							lsm_elastic_memory_kb / 1024.0)));
	return true;
}

/*
 * Elastic filters: would uniform ones of the same memory do as well?  Is
 * memory short?
 */
static void
advise_for_elastic(Facts *facts)
{
	LsmElasticStats stats;
	uint64		suggested;
	double		bits = 0;
	double		keys = 0;
	Advice		advice = {0};

	for (int i = 0; i < facts->nsegments; i++)
	{
		keys += facts->segments[i].keys;
		bits += facts->segments[i].keys * facts->segments[i].bits_per_key;
	}
	lsm_elastic_read_stats(&stats);

	/*
	 * with memory left, units come as segments are asked: measured is what
	 * was before that
	 */
	if (facts->wasted <= FEW_WASTED * facts->lookups ||
		stats.used_bytes < stats.budget_bytes * 0.9)
		return;
	bits = keys > 0 ? floor(bits / keys) : 0;
	if (bits >= MIN_BITS_PER_KEY &&
		wasted_with(facts, LSM_FILTER_BLOCKED, bits) < ELASTIC_LOSS * facts->wasted)
	{
		put_change(facts, "filter_scheme", LSM_FILTER_BLOCKED, bits, 0,
				   wasted_with(facts, LSM_FILTER_BLOCKED, bits), bytes_with(facts, bits),
				   "Filters that are all the same would waste less with the memory that the units take now: accesses have no hot spots that stay.");
		return;
	}
	if (facts->wasted <= MANY_WASTED * facts->lookups)
		return;
	suggested = 2 * stats.budget_bytes;
	if (stats.budget_bytes < stats.reserved_bytes)
		suggested = Min(suggested, stats.reserved_bytes);
	advice.setting = "lsm.elastic_memory";
	advice.current = psprintf("%d kB", lsm_elastic_memory_kb);
	advice.suggested = psprintf("%d kB", (int) Min(suggested / 1024, INT_MAX / 2));
	advice.expected_wasted = -1;
	advice.expected_bytes = -1;
	advice.statement = psprintf("ALTER SYSTEM SET lsm.elastic_memory = '%s';", advice.suggested);
	if (suggested <= stats.reserved_bytes)
		advice.reason = "The budget is used up, and false positives are many. The server has reserved as much when it started: reloading the configuration will do.";
	else
		advice.reason = "The budget is used up, and false positives are many. All that was reserved at the start of the server is in use, so that the setting takes effect at the next start.";
	put_advice(facts, &advice);
}

/*
 * Several runs of different size, and all filters alike.  Elastic filters would
 * have the memory in small runs, too, but cost lookups time: they have to
 * promise much more.
 */
static bool
advise_allocation(Facts *facts)
{
	LsmFilterScheme scheme = facts->params.scheme;
	double		bits_per_key = facts->params.bits_per_key;
	double		uniform;
	double		monkey;
	Advice		advice = {0};
	const char *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(facts->rel)),
												  RelationGetRelationName(facts->rel));

	if (facts->allocation != LSM_ALLOCATION_UNIFORM || !lsm_filter_scheme_allocates(scheme) ||
		facts->wasted <= FEW_WASTED * facts->lookups)
		return false;
	uniform = wasted_with(facts, scheme, bits_per_key);
	monkey = wasted_allocated(facts, scheme, bits_per_key, LSM_ALLOCATION_MONKEY);
	if (monkey > ALLOCATION_GAIN * uniform ||
		wasted_with_elastic(facts, bits_per_key, elastic_units(facts)) < monkey / 2)
		return false;
	advice.setting = "filter_allocation";
	advice.current = "uniform";
	advice.suggested = "monkey";
	advice.expected_wasted = monkey;
	advice.expected_bytes = bytes_with(facts, bits_per_key);
	advice.statement = facts->is_table ? "SET lsm.filter_allocation = monkey;" :
		psprintf("ALTER INDEX %s SET (filter_allocation = monkey);", name);
	advice.reason = reason_text(facts, "Small runs would get more bits per key and the largest one less, in the same memory: files get theirs when they are written.");
	put_advice(facts, &advice);
	return true;
}

/* The same filter, larger or smaller. */
static bool
advise_bits(Facts *facts)
{
	LsmFilterScheme scheme = facts->params.scheme;
	double		now = facts->params.bits_per_key;
	double		bits_per_key = now;
	const char *reason;

	if (facts->wasted > MANY_WASTED * facts->lookups)
	{
		while (bits_per_key + 2 <= MAX_BITS_PER_KEY &&
			   wasted_with(facts, scheme, bits_per_key) > MANY_WASTED * facts->lookups / 2)
			bits_per_key += 2;
		reason = psprintf("%.3g reads of 1000 lookups are false positives.",
						  1000.0 * facts->wasted / facts->lookups);
	}
	else
	{
		while (bits_per_key - 2 >= MIN_BITS_PER_KEY &&
			   wasted_with(facts, scheme, bits_per_key - 2) < FEW_WASTED * facts->lookups)
			bits_per_key -= 2;
		if (bytes_with(facts, now) - bytes_with(facts, bits_per_key) < ENOUGH_BYTES)
			return false;
		reason = "False positives would stay below one of 1000 lookups with smaller filters.";
	}
	if (bits_per_key == now)
		return false;
	put_change(facts, "bits_per_key", scheme, bits_per_key, 0,
			   wasted_with(facts, scheme, bits_per_key),
			   bytes_with(facts, bits_per_key), reason);
	return true;
}

static void
advise(Facts *facts)
{
	if (facts->nfilters == 0)
		put_reason(facts, "All rows are in memory: there are no sorted files to filter.");
	else if (facts->lookups < ENOUGH_LOOKUPS)
	{
		if (!advise_stale(facts))
			put_reason(facts, psprintf("Too little data: %.0f point lookups were counted, %.0f are needed.",
									   facts->lookups, ENOUGH_LOOKUPS));
	}
	else
	{
		advise_sharing(facts);
		if (advise_stale(facts))
			return;
		if (facts->probes == 0)
			put_reason(facts, "Filters were hardly asked: lookups ended in memory, or key ranges excluded the files.");
		else if (!advise_some(facts) && !advise_none(facts))
		{
			if (lsm_filter_scheme_has(facts->params.scheme, LSM_FILTER_UNITS))
				advise_for_elastic(facts);
			else if (!advise_cascade(facts) && !advise_allocation(facts) &&
					 !advise_elastic(facts))
				(void) advise_bits(facts);
		}
		if (facts->rows == 0)
			put_reason(facts, psprintf("Nothing would help much: %.3g reads of 1000 lookups are false positives.",
									   1000.0 * facts->wasted / facts->lookups));
	}
}

static void
advise_tree(ReturnSetInfo *rsinfo, Relation rel, const char *compact)
{
	LsmTree    *tree = lsm_relation_tree(rel);
	Facts	   *facts = palloc0(sizeof(Facts));

	facts->rsinfo = rsinfo;
	facts->rel = rel;
	facts->compact = compact;
	facts->is_table = lsm_relation_is_table(rel);
	facts->tree = tree;
	facts->params = lsm_tree_filter_params(tree);
	facts->allocation = lsm_tree_filter_allocation(tree);
	facts->units = facts->params.units;
	if (lsm_filter_scheme_has(facts->params.scheme, LSM_FILTER_UNITS))
		facts->segments = lsm_tree_segments(tree, &facts->nsegments);
	facts->filters = lsm_tree_filters(tree, &facts->nfilters);
	lsm_tree_counters(tree, facts->counters);
	facts->lookups = (double) facts->counters[LSM_COUNT_LOOKUPS];
	for (int i = 0; i < facts->nfilters; i++)
	{
		const LsmFilterInfo *filter = &facts->filters[i];

		facts->probes += (double) lsm_filter_counts_probes(&filter->counts);
		facts->absent += file_absent(filter);
		facts->wasted += (double) filter->counts.false_positives;
		facts->filter_bytes += (double) filter->filter_bytes;
		facts->keys += filter->keys;
	}
	advise(facts);
}

Datum
lsm_advise(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	List	   *indexes = NIL;
	List	   *not_open;
	ListCell   *lc;
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	const char *compact = quote_qualified_identifier(get_namespace_name(schema), "lsm_compact");

	InitMaterializedSRF(fcinfo, 0);
	rel = lsm_relation_open(PG_GETARG_OID(0), LSM_RELATION_TREES, LSM_RIGHT_FACTS,
							AccessShareLock);
	if (rel->rd_rel->relkind != RELKIND_INDEX)
		indexes = lsm_relation_open_indexes(rel, AccessShareLock);
	not_open = lsm_relations_not_open(lcons(rel, list_copy(indexes)));
	if (indexes == NIL || lsm_relation_is_table(rel))
	{
		lsm_relation_check_kind(rel);
		advise_tree(rsinfo, rel, compact);
	}
	foreach(lc, indexes)
	{
		advise_tree(rsinfo, (Relation) lfirst(lc), compact);
	}
	lsm_relations_let_go(not_open);
	lsm_relation_close_indexes(indexes, AccessShareLock);
	lsm_relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
