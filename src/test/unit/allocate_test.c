/*-------------------------------------------------------------------------
 *
 * allocate_test.c
 *	  Unit test of bits per key by the size of runs (Monkey).  Prints TAP; exit
 *	  status 1 if a test failed.
 *
 * What is measured is measured on filters that are built and asked.
 *
 *-------------------------------------------------------------------------
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <string.h>

#include "filter/filter_private.h"
#include "tap.h"

#define RUNS_MAX	12

/* 4 + 2 runs in level 0, and two levels; the last one is the largest */
static const uint64_t tree[] = {1, 1, 1, 1, 4, 4, 64, 640};

#define NTREE	((int) (sizeof(tree) / sizeof(tree[0])))

static void
make_runs(LsmFilterRun *runs, LsmFilterScheme upper, LsmFilterScheme bottom, uint64_t unit)
{
	for (int i = 0; i < NTREE; i++)
	{
		runs[i].keys = tree[i] * unit;
		runs[i].scheme = i == NTREE - 1 ? bottom : upper;
		runs[i].bits_per_key = 0;
	}
}

static double
average(const LsmFilterRun *runs, int n)
{
	double		bits = 0;
	double		keys = 0;

	for (int i = 0; i < n; i++)
	{
		bits += (double) runs[i].keys * runs[i].bits_per_key;
		keys += (double) runs[i].keys;
	}
	return bits / keys;
}

static double
planned(const LsmFilterRun *runs, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
	{
		LsmFilterParams params = {.scheme = runs[i].scheme, .bits_per_key = runs[i].bits_per_key};

		sum += lsm_filter_planned_fpr(&params, runs[i].keys);
	}
	return sum;
}

static double
uniform(LsmFilterScheme upper, LsmFilterScheme bottom, double bits)
{
	LsmFilterRun runs[NTREE];

	make_runs(runs, upper, bottom, 10000);
	for (int i = 0; i < NTREE; i++)
		runs[i].bits_per_key = bits;
	return planned(runs, NTREE);
}

/* ---- the closed form ---- */

static void
test_bloom(void)
{
	LsmFilterRun runs[NTREE];
	bool		good;
	double		step = 1 / (log(2) * log(2));

	make_runs(runs, LSM_FILTER_BLOOM, LSM_FILTER_BLOOM, 10000);
	lsm_filter_allocate(runs, NTREE, 10);
	good = fabs(average(runs, NTREE) - 10) < 1e-9;
	for (int i = 0; i < NTREE; i++)
	{
		double		more = log((double) tree[NTREE - 1] / (double) tree[i]) * step;

		good &= runs[i].scheme == LSM_FILTER_BLOOM;
		good &= fabs(runs[i].bits_per_key - runs[NTREE - 1].bits_per_key - more) < 1e-9;
	}
	ok(good, "bloom: rates are as the sizes of runs, %.2f bits in the last one", runs[NTREE - 1].bits_per_key);
}

static void
test_gain(LsmFilterScheme upper, LsmFilterScheme bottom, double bits, double most)
{
	LsmFilterRun runs[NTREE];
	double		even = uniform(upper, upper, bits);
	double		rate;

	make_runs(runs, upper, bottom, 10000);
	lsm_filter_allocate(runs, NTREE, bits);
	rate = planned(runs, NTREE);
	ok(fabs(average(runs, NTREE) - bits) < 1e-9 && rate <= most * even,
	   "%s, last %s, %g bits: %.4f false positives per lookup, %.2f of uniform",
	   lsm_filter_scheme_name(upper), lsm_filter_scheme_name(bottom), bits, rate, rate / even);
}

/*
 * No exchange of bits between two runs is much better: the exponential laws
 * are near enough to the schemes' own closed forms.
 */
static void
test_optimum(LsmFilterScheme upper, LsmFilterScheme bottom, double bits)
{
	LsmFilterRun runs[NTREE];
	double		rate;
	double		best;
	bool		better = true;

	make_runs(runs, upper, bottom, 10000);
	lsm_filter_allocate(runs, NTREE, bits);
	best = rate = planned(runs, NTREE);
	while (better)
	{
		better = false;
		for (int i = 0; i < NTREE; i++)
		{
			for (int j = 0; j < NTREE; j++)
			{
				LsmFilterRun tried[NTREE];
				double		moved;

				memcpy(tried, runs, sizeof(runs));
				tried[i].bits_per_key -= 0.2;
				tried[j].bits_per_key += 0.2 * (double) tried[i].keys / (double) tried[j].keys;
				if (i == j || tried[i].bits_per_key < 1 || tried[j].bits_per_key > 32)
					continue;
				moved = planned(tried, NTREE);
				if (moved < best * 0.999)
				{
					memcpy(runs, tried, sizeof(runs));
					best = moved;
					better = true;
				}
			}
		}
	}
	ok(rate <= 1.12 * best, "%s, last %s, %g bits: %.3f of what exchanges of bits can reach",
	   lsm_filter_scheme_name(upper), lsm_filter_scheme_name(bottom), bits, rate / best);
}

/* ---- edges ---- */

static void
test_edges(void)
{
	static const LsmFilterScheme schemes[] = {
		LSM_FILTER_BLOOM, LSM_FILTER_BLOCKED, LSM_FILTER_QUOTIENT, LSM_FILTER_CASCADE, LSM_FILTER_RIBBON
	};
	LsmFilterRun runs[RUNS_MAX];
	uint64_t	seed = 5;
	bool		good = true;

	for (int i = 0; i < (SHORT_FORM ? 200 : 2000); i++)
	{
		int			n = 1 + (int) (random_next(&seed) % RUNS_MAX);
		double		bits = 1 + (double) (random_next(&seed) % 310) / 10;
		uint64_t	keys = 0;

		for (int j = 0; j < n; j++)
		{
			runs[j].keys = random_next(&seed) >> (24 + random_next(&seed) % 40);
			runs[j].scheme = schemes[random_next(&seed) % 5];
			keys += runs[j].keys;
		}
		lsm_filter_allocate(runs, n, bits);
		for (int j = 0; j < n; j++)
			good &= runs[j].bits_per_key >= 1 && runs[j].bits_per_key <= 32;
		if (keys > 0)
			good &= fabs(average(runs, n) / bits - 1) < 1e-6;
	}
	ok(good, "any runs: the average is met, and no run is out of range");

	runs[0] = (LsmFilterRun) {1000, LSM_FILTER_BLOCKED, 0};
	lsm_filter_allocate(runs, 1, 40);
	good = runs[0].bits_per_key == 32 && runs[0].scheme == LSM_FILTER_BLOOM;
	runs[0].scheme = LSM_FILTER_BLOCKED;
	lsm_filter_allocate(runs, 1, 10);
	good &= fabs(runs[0].bits_per_key - 10) < 1e-9 && runs[0].scheme == LSM_FILTER_BLOCKED;
	lsm_filter_allocate(runs, 0, 10);
	runs[0].keys = 0;
	lsm_filter_allocate(runs, 1, 10);
	good &= runs[0].bits_per_key == 10;
	ok(good, "one run, and none");

	ok(!lsm_filter_scheme_allocates(LSM_FILTER_NONE) && !lsm_filter_scheme_allocates(LSM_FILTER_ELASTIC) &&
	   lsm_filter_scheme_allocates(LSM_FILTER_RIBBON), "schemes");
	good = lsm_filter_scheme_for_bits(LSM_FILTER_BLOCKED, 10, 1000000) == LSM_FILTER_BLOCKED;
	good &= lsm_filter_scheme_for_bits(LSM_FILTER_BLOCKED, 24, 1000000) == LSM_FILTER_BLOOM;
	good &= lsm_filter_scheme_for_bits(LSM_FILTER_RIBBON, 24, 1000000) == LSM_FILTER_RIBBON;
	ok(good, "blocked filters of many bits are bloom filters");
}

/* ---- measured ---- */

/* False positives per lookup of `lookups` absent keys in filters of these runs. */
static double
measure(const LsmFilterRun *runs, uint64_t lookups, double *bytes)
{
	void	   *work = alloc_or_die(LSM_FILTER_WORK_MAX);
	uint64_t	positives = 0;
	uint64_t	next = 0;

	*bytes = 0;
	for (int i = 0; i < NTREE; i++)
	{
		LsmFilterParams params = {.scheme = runs[i].scheme, .bits_per_key = runs[i].bits_per_key};
		LsmDigest  *digests = alloc_or_die(runs[i].keys * sizeof(LsmDigest));
		size_t		size = lsm_filter_image_bytes(&params, runs[i].keys, NULL);
		uint8_t    *image = aligned_alloc(64, (size + 63) / 64 * 64);
		LsmFilter	filter;

		for (uint64_t j = 0; j < runs[i].keys; j++, next++)
			digests[j] = lsm_digest_key(&next, sizeof(next));
		if (image == NULL ||
			lsm_filter_build(&params, digests, runs[i].keys, NULL, work, image, size) != LSM_FILTER_OK ||
			lsm_filter_open(image, size, true, &filter, NULL) != LSM_FILTER_OK)
			exit(1);
		for (uint64_t j = 0; j < lookups; j++)
		{
			uint64_t	absent = (UINT64_C(1) << 40) + j;

			positives += lsm_filter_probe(&filter, lsm_digest_key(&absent, sizeof(absent)));
		}
		*bytes += (double) size;
		free(digests);
		free(image);
	}
	free(work);
	return (double) positives / (double) lookups;
}

static void
test_measured(LsmFilterScheme upper, LsmFilterScheme bottom, double most)
{
	uint64_t	lookups = SHORT_FORM ? 40 * 1000 : 400 * 1000;
	LsmFilterRun runs[NTREE];
	double		even;
	double		even_bytes;
	double		rate;
	double		bytes;
	double		theory;

	make_runs(runs, upper, upper, SHORT_FORM ? 200 : 2000);
	for (int i = 0; i < NTREE; i++)
		runs[i].bits_per_key = 10;
	even = measure(runs, lookups, &even_bytes);
	make_runs(runs, upper, bottom, SHORT_FORM ? 200 : 2000);
	lsm_filter_allocate(runs, NTREE, 10);
	rate = measure(runs, lookups, &bytes);
	theory = planned(runs, NTREE);
	ok(rate <= most * even && bytes <= 1.01 * even_bytes + 2048 &&
	   fabs(rate - theory) < 0.1 * theory + 4 * sqrt(theory / (double) lookups),
	   "built, %s, last %s: %.4f false positives per lookup, %.4f in theory; %.3f of uniform in %.3f of its memory",
	   lsm_filter_scheme_name(upper), lsm_filter_scheme_name(bottom), rate, theory, rate / even,
	   bytes / even_bytes);
}

int
main(void)
{
	test_bloom();
	for (double bits = 6; bits <= 14; bits += 4)
	{
		test_gain(LSM_FILTER_BLOOM, LSM_FILTER_BLOOM, bits, 0.3);
		test_gain(LSM_FILTER_BLOCKED, LSM_FILTER_BLOCKED, bits, 0.3);
		test_gain(LSM_FILTER_QUOTIENT, LSM_FILTER_QUOTIENT, bits, 0.4);
		test_gain(LSM_FILTER_RIBBON, LSM_FILTER_RIBBON, bits, 0.3);
		test_gain(LSM_FILTER_BLOCKED, LSM_FILTER_RIBBON, bits, 0.15);
	}
	test_optimum(LSM_FILTER_BLOOM, LSM_FILTER_BLOOM, 10);
	test_optimum(LSM_FILTER_RIBBON, LSM_FILTER_RIBBON, 10);
	test_edges();
	test_measured(LSM_FILTER_BLOOM, LSM_FILTER_BLOOM, 0.3);
	test_measured(LSM_FILTER_BLOCKED, LSM_FILTER_BLOCKED, 0.3);
	test_measured(LSM_FILTER_BLOCKED, LSM_FILTER_RIBBON, 0.1);
	printf("1..%d\n", ntests);
	return nfailed > 0;
}
