/*-------------------------------------------------------------------------
 *
 * advise.c
 *	  lsmam_filter_plan(): what other filters would do with the questions that
 *	  were counted, for lsm_advise().
 *
 * The closed forms of the filters' rates are C, and so is the allocation of
 * bits to runs.  What is advised for which numbers is SQL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "sqlfunc/functions.h"

PG_FUNCTION_INFO_V1(lsm_advise);
PG_FUNCTION_INFO_V1(lsmam_filter_plan);

/* Of version 1.0, whose objects a database has until it is updated */
Datum
lsm_advise(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("lsm_advise() of version 1.0 of the extension is not there any more"),
			 errhint("Run ALTER EXTENSION lsmam UPDATE.")));
}

static LsmFilterScheme
scheme_of(const char *name)
{
	for (uint32 scheme = 0; lsm_filter_scheme_name(scheme) != NULL; scheme++)
	{
		if (strcmp(lsm_filter_scheme_name(scheme), name) == 0)
			return (LsmFilterScheme) scheme;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no filter scheme \"%s\"", name)));
}

/*
 * The runs that the files make up, with what their filters would be on this
 * average of bits.  run_of[] says for each file which is its.
 */
static LsmFilterRun *
plan_runs(LsmTree *tree, const LsmFilterInfo *files, int nfiles, LsmFilterScheme scheme,
		  double bits_per_key, LsmFilterAllocation allocation, int *run_of)
{
	LsmFilterRun *runs = palloc0(Max(nfiles, 1) * sizeof(LsmFilterRun));
	int			deepest = 0;
	int			n = 0;

	for (int i = 0; i < nfiles; i++)
		deepest = Max(deepest, files[i].level);
	for (int i = 0; i < nfiles; i++)
	{
		/* files of a run stand together */
		if (i == 0 || files[i].level != files[i - 1].level || files[i].run != files[i - 1].run)
			n++;
		run_of[i] = n - 1;
		runs[n - 1].keys += files[i].keys;
		runs[n - 1].bits_per_key = bits_per_key;
		runs[n - 1].scheme = deepest > 0 && files[i].level == deepest ?
			lsm_tree_bottom_scheme(tree, scheme) : scheme;
	}
	if (allocation == LSM_ALLOCATION_MONKEY && lsm_filter_scheme_allocates(scheme))
		lsm_filter_allocate(runs, n, bits_per_key);
	return runs;
}

/* lsm_advise() has fewer than half as many. */
#define MAX_CANDIDATES	100

/* What is asked, and what the tree has */
typedef struct FilterPlan
{
	LsmTree    *tree;
	int			n;				/* of candidates */
	Datum	   *schemes;
	Datum	   *bits_per_key;
	int			monkey;			/* the one that has that allocation, from 0 */
	LsmFilterInfo *files;
	int			nfiles;
	Datum	   *rates;			/* n for each file */
} FilterPlan;

/* The rates that filters of candidate `c` would have, bits being allocated as it says */
static void
plan_rates(FilterPlan *plan, int c)
{
	LsmFilterAllocation allocation = c == plan->monkey ? LSM_ALLOCATION_MONKEY :
		lsm_tree_filter_allocation(plan->tree);
	int		   *run_of = palloc(Max(plan->nfiles, 1) * sizeof(int));
	LsmFilterRun *runs = plan_runs(plan->tree, plan->files, plan->nfiles,
								   scheme_of(TextDatumGetCString(plan->schemes[c])),
								   DatumGetFloat8(plan->bits_per_key[c]), allocation, run_of);

	for (int i = 0; i < plan->nfiles; i++)
	{
		const LsmFilterRun *run = &runs[run_of[i]];
		LsmFilterParams params = {.scheme = run->scheme,.bits_per_key = run->bits_per_key};

		CHECK_FOR_INTERRUPTS();
		plan->rates[(Size) i * plan->n + c] =
			Float8GetDatum(lsm_filter_planned_fpr(&params, plan->files[i].keys));
	}
	pfree(runs);
	pfree(run_of);
}

static void
put_plan(ReturnSetInfo *rsinfo, FilterPlan *plan)
{
	plan->files = lsm_tree_filters(plan->tree, &plan->nfiles);
	plan->rates = palloc_extended(Max((Size) plan->nfiles * plan->n, 1) * sizeof(Datum),
								  MCXT_ALLOC_HUGE);
	for (int c = 0; c < plan->n; c++)
		plan_rates(plan, c);
	for (int i = 0; i < plan->nfiles; i++)
	{
		const LsmFilterInfo *file = &plan->files[i];
		Datum		values[5];
		bool		nulls[5] = {0};

		values[0] = Int64GetDatum((int64) file->number);
		values[1] = BoolGetDatum(file->current);
		values[2] = Float8GetDatum((double) file->keys);
		values[3] = Float8GetDatum((double) (file->counts.negatives + file->counts.false_positives));
		values[4] = PointerGetDatum(construct_array(&plan->rates[(Size) i * plan->n], plan->n,
													FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
													TYPALIGN_DOUBLE));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

Datum
lsmam_filter_plan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FilterPlan	plan = {.monkey = PG_GETARG_INT32(3) - 1};
	Relation	rel;
	List	   *not_open;
	int			nbits;

	InitMaterializedSRF(fcinfo, 0);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT,
					  &plan.schemes, NULL, &plan.n);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &plan.bits_per_key, NULL, &nbits);
	plan.n = Min(plan.n, nbits);
	if (plan.n > MAX_CANDIDATES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("more than %d kinds of filters are asked about", MAX_CANDIDATES)));
	rel = lsm_relation_open(PG_GETARG_OID(0), LSM_RELATION_TREE, LSM_RIGHT_FACTS,
							AccessShareLock);
	not_open = lsm_relations_not_open(list_make1(rel));
	plan.tree = lsm_relation_tree(rel);
	put_plan(rsinfo, &plan);
	lsm_relations_let_go(not_open);
	lsm_relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
