/*-------------------------------------------------------------------------
 *
 * allocate.c
 *	  Bits per key for the runs of a tree, after "Monkey: Optimal Navigable
 *	  Key-Value Store" (Dayan, Athanassoulis, Idreos, SIGMOD 2017), section 4.1.
 *
 * What is least.  A lookup of a key that is nowhere asks one filter of each
 * run, and reads a block in vain for each false positive: the sum of the rates
 * p_i.  Filters take the sum of n_i b_i bits, n_i the keys of run i, which is
 * to be b N: the given average, N the keys of all runs.
 *
 * Assumptions.  All runs are asked equally often, and for keys that are absent
 * (keys that are found end the search on their way down, so the last run is
 * asked less than that).  A filter's rate falls exponentially with its bits,
 *
 *		p = A e^(-beta b),
 *
 * which is so for Bloom filters, A = 1 and beta = (ln 2)^2, and about so for
 * the others (factor and slope of LsmFilterOps).
 *
 * Closed form.  The derivative of the sum of p_i + lambda n_i b_i by each b_i is
 * zero:
 *
 *		beta_i p_i = lambda n_i,	b_i = (ln(A_i beta_i / n_i) - ln lambda) / beta_i
 *
 * Rates are proportional to the sizes of runs: where a key costs the same, a run
 * T times smaller has filters that err T times less, for ln T / (ln 2)^2 bits
 * more, 4.8 for T = 10.  Since bits are to be b N,
 *
 *		ln lambda = (sum of (n_i / beta_i) ln(A_i beta_i / n_i) - b N)
 *					/ sum of n_i / beta_i.
 *
 * A run whose b_i is out of range gets the nearest number that is in range, and
 * the others share what is left: then lambda has no closed form, but the bits
 * fall as it rises, so it is found by bisection.
 *
 * Blocked filters err more the more bits they have, if compared with others of
 * the same size, because lines fill unevenly.  So a run that gets this many
 * bits that its blocked filter would err more than twice as often as a plain
 * one has a plain one: bloom.  These are small runs, whose filters are few
 * lines, and half of the absent keys cost one line of them, too.
 *
 * No state, no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter/filter_private.h"

#define BITS_MIN	1.0
#define BITS_MAX	32.0

/* No run of up to 2^40 keys is in range beyond e to the power of this. */
#define LOG_LAMBDA_MAX	100.0
#define BISECTIONS		64

/* A blocked filter may err so much more often than a plain one. */
#define BLOCKED_ERRS	2.0

bool
lsm_filter_scheme_allocates(LsmFilterScheme scheme)
{
	const LsmFilterOps *ops = lsm_filter_ops_of((uint32_t) scheme);

	return ops != NULL && ops->slope > 0;
}

/* The closed form for one run. */
static double
bits_of_run(const LsmFilterRun *run, double log_lambda)
{
	const LsmFilterOps *ops = lsm_filter_ops_of((uint32_t) run->scheme);
	double		bits;

	if (!lsm_filter_scheme_allocates(run->scheme))
		return BITS_MIN;
	bits = (log(ops->factor * ops->slope / (double) run->keys) - log_lambda) / ops->slope;
	return bits < BITS_MIN ? BITS_MIN : bits > BITS_MAX ? BITS_MAX : bits;
}

/* Bits that all runs take; more for a smaller lambda. */
static double
total_bits(const LsmFilterRun *runs, int nruns, double log_lambda)
{
	double		bits = 0;

	for (int i = 0; i < nruns; i++)
	{
		if (runs[i].keys > 0)
			bits += (double) runs[i].keys * bits_of_run(&runs[i], log_lambda);
	}
	return bits;
}

void
lsm_filter_allocate(LsmFilterRun *runs, int nruns, double bits_per_key)
{
	double		bits = 0;
	double		low = -LOG_LAMBDA_MAX;
	double		high = LOG_LAMBDA_MAX;

	for (int i = 0; i < nruns; i++)
		bits += (double) runs[i].keys * bits_per_key;
	for (int i = 0; i < BISECTIONS; i++)
	{
		double		middle = (low + high) / 2;

		if (total_bits(runs, nruns, middle) > bits)
			low = middle;
		else
			high = middle;
	}
	for (int i = 0; i < nruns; i++)
	{
		runs[i].bits_per_key = runs[i].keys > 0 ? bits_of_run(&runs[i], high) : bits_per_key;
		runs[i].scheme = lsm_filter_scheme_for_bits(runs[i].scheme, runs[i].bits_per_key,
													runs[i].keys);
	}
}

LsmFilterScheme
lsm_filter_scheme_for_bits(LsmFilterScheme scheme, double bits_per_key, uint64_t nkeys)
{
	LsmFilterParams blocked = {.scheme = LSM_FILTER_BLOCKED, .bits_per_key = bits_per_key};
	LsmFilterParams bloom = {.scheme = LSM_FILTER_BLOOM, .bits_per_key = bits_per_key};

	if (scheme == LSM_FILTER_BLOCKED &&
		lsm_filter_planned_fpr(&blocked, nkeys) >
		BLOCKED_ERRS * lsm_filter_planned_fpr(&bloom, nkeys))
		return LSM_FILTER_BLOOM;
	return scheme;
}
