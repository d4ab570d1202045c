/*-------------------------------------------------------------------------
 *
 * filter_elastic.c
 *	  ElasticBF's policy against uniform blocked filters of the same memory,
 *	  and against the best that any policy could do: what the server does with
 *	  absent keys (src/filter, src/tree/elastic/elastic_queue.c), without the
 *	  server.
 *
 * Four runs of even keys (90%, 9%, 0.9% and 0.1% of them, as in
 * bench/papers/elastic.sh), lookups of odd ones, each of which asks every run.  Draws
 * as in bench/papers/elastic.sh; each of several draws has its hot keys elsewhere,
 * and is warmed up before it is measured.  States of segments are part of the
 * memory if "states" is 1.
 *
 * Bounds, both for the same number of units, none of them ever moving: the
 * allocation that knows how often each segment is asked, but of the keys only
 * how many pass in the mean; and the one that knows of each key which unit
 * stops it and how often it will be asked (the linear relaxation, so no
 * allocation is better).
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter_bench.h"
#include "tree/elastic/elastic_queue.c"

#define NRUNS	4
#define BATCH	256

static uint64_t nkeys = 499979;
static uint32_t unit_bytes = 512;
static uint32_t units = 12;
static uint64_t lifetime = 20000;
static uint32_t warm = 300000;
static uint32_t measured = 100000;
static uint32_t draws = 5;
static uint32_t line_bytes = 128;	/* of a segment's state */
static bool states;

static uint64_t seed = 1;

static double
random_unit(void)
{
	uint64_t	z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	return (double) (z >> 11) * 0x1p-53;
}

typedef struct Run
{
	uint64_t	n;
	LsmDigest  *digests;
	void	   *image;
	LsmElastic	elastic;
	uint32_t   *ids;			/* of segments */
	uint32_t	first;			/* number of the first segment among those of all runs */
	void	   *blocked_image;
	LsmFilter	blocked;
} Run;

static Run	runs[NRUNS];
static LsmElasticRates rates[NRUNS];
static LsmElasticQueue queue;
static char *memory;
static uint64_t nsegments;

static void
key_of(uint64_t number, uint8_t *key)
{
	for (int i = 0; i < 8; i++)
		key[i] = (uint8_t) (number >> (56 - 8 * i));
}

static LsmDigest
digest_of_key(uint64_t number)
{
	uint8_t		key[8];

	key_of(number, key);
	return lsm_digest_key(key, 8);
}

static int
run_of(uint64_t k)
{
	uint64_t	x = (k * UINT64_C(0x9e3779b97f4a7c15)) >> 40;

	x %= 1000;
	return x < 900 ? 0 : x < 990 ? 1 : x < 999 ? 2 : 3;
}

static void
check(LsmFilterStatus status)
{
	if (status != LSM_FILTER_OK)
	{
		fprintf(stderr, "filter: status %d\n", status);
		exit(1);
	}
}

static void
build_runs(void)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_ELASTIC, .bits_per_key = 2.0 * units,
	.units = units, .unit_bytes = unit_bytes};
	uint32_t	per = lsm_filter_segment_keys(&params);
	uint32_t	id = 0;

	nsegments = 0;
	for (int r = 0; r < NRUNS; r++)
	{
		Run		   *run = &runs[r];
		uint8_t    *bytes = malloc(nkeys * 8 / per + 64);
		uint32_t   *ends = malloc((nkeys / per + 8) * 4);
		LsmFilterNotes fences = {bytes, ends, 0};
		size_t		image_bytes;
		LsmFilter	filter;
		LsmDigest  *scratch = malloc(per * sizeof(LsmDigest));

		run->digests = malloc(nkeys * sizeof(LsmDigest));
		run->n = 0;
		for (uint64_t k = 0; k < nkeys; k++)
		{
			if (run_of(k) != r)
				continue;
			if (run->n > 0 && run->n % per == 0)
			{
				key_of(2 * k, bytes + fences.n * 8);
				ends[fences.n] = (fences.n + 1) * 8;
				fences.n++;
			}
			run->digests[run->n++] = digest_of_key(2 * k);
		}
		image_bytes = lsm_filter_image_bytes(&params, run->n, &fences);
		run->image = alloc_aligned_or_die(image_bytes);
		check(lsm_filter_build(&params, run->digests, run->n, &fences, scratch, run->image, image_bytes));
		check(lsm_filter_open(run->image, image_bytes, false, &filter, NULL));
		check(lsm_elastic_open(&filter, &run->elastic, NULL));
		rates[r] = (LsmElasticRates) {run->elastic.segments,
			(float) lsm_elastic_unit_fpr(&run->elastic, 0),
		(float) lsm_elastic_unit_fpr(&run->elastic, run->elastic.segments - 1)};
		run->ids = malloc(run->elastic.segments * 4);
		run->first = (uint32_t) nsegments;
		for (uint32_t i = 0; i < run->elastic.segments; i++, id += line_bytes / 64)
			run->ids[i] = id;
		nsegments += run->elastic.segments;
		free(bytes);
		free(ends);
		free(scratch);
	}
	memory = alloc_aligned_or_die(nsegments * line_bytes);
}

static size_t
build_blocked(double bits)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_BLOCKED, .bits_per_key = bits};
	size_t		total = 0;

	for (int r = 0; r < NRUNS; r++)
	{
		size_t		bytes = lsm_filter_image_bytes(&params, runs[r].n, NULL);

		free(runs[r].blocked_image);
		runs[r].blocked_image = alloc_aligned_or_die(bytes);
		check(lsm_filter_build(&params, runs[r].digests, runs[r].n, NULL, NULL, runs[r].blocked_image, bytes));
		check(lsm_filter_open(runs[r].blocked_image, bytes, false, &runs[r].blocked, NULL));
		total += bytes;
	}
	return total;
}

static uint64_t
zipf(double theta)
{
	double		n = (double) nkeys;
	double		u = random_unit();
	double		rank = theta == 0 ? 1 + n * u :
		pow(u * (pow(n + 1, 1 - theta) - 1) + 1, 1 / (1 - theta));

	return rank >= n ? nkeys : (uint64_t) rank;
}

static uint64_t
place(uint64_t rank, bool scattered, uint64_t shift)
{
	return 2 * (((scattered ? rank * 48271 : rank) + shift) % nkeys) + 1;
}

static void
start(uint32_t budget)
{
	lsm_elastic_queue_init(&queue, memory, rates, sizeof(LsmElasticRates));
	queue.budget = budget;
	queue.lifetime = lifetime;
	queue.ratio = 0.2;
	queue.on_access = true;
	for (int r = NRUNS - 1; r >= 0; r--)
	{
		for (uint32_t i = 0; i < runs[r].elastic.segments; i++)
		{
			LsmElasticSegment *segment = lsm_elastic_segment(&queue, runs[r].ids[i]);

			memset(segment, 0, line_bytes);
			segment->file = (uint32_t) r;
			segment->number = i;
			segment->limit = (uint8_t) units;
			lsm_elastic_queue_add(&queue, runs[r].ids[i], 0, 2);
		}
	}
}

typedef struct Counts
{
	uint64_t	blocked;
	uint64_t	elastic;
} Counts;

typedef struct Note
{
	uint32_t	id;
	int			asked;
	int			admitted;
} Note;

/* How many of the first `on` units say maybe, up to one that does not. */
static uint32_t
admitting_units(const Run *run, uint32_t segment, uint32_t on, LsmDigest digest)
{
	uint32_t	unit = 0;

	while (unit < on && lsm_elastic_probe(&run->elastic, segment, unit,
										  lsm_elastic_unit(&run->elastic, segment, unit, false),
										  digest))
		unit++;
	return unit;
}

static void
lookups(uint32_t n, double theta, bool scattered, uint64_t shift, Counts *counts)
{
	Note	notes[BATCH * NRUNS];

	memset(counts, 0, sizeof(*counts));
	for (uint32_t i = 0; i < n; i += BATCH)
	{
		int			nnotes = 0;

		for (int j = 0; j < BATCH; j++)
		{
			uint64_t	number = place(zipf(theta), scattered, shift);
			LsmDigest	digest = digest_of_key(number);
			uint8_t		key[8];

			key_of(number, key);
			for (int r = 0; r < NRUNS; r++)
			{
				Run		   *run = &runs[r];
				uint32_t	segment = lsm_elastic_find_segment(&run->elastic, key, 8);
				uint32_t	on = lsm_elastic_segment(&queue, run->ids[segment])->target;
				uint32_t	admitted = admitting_units(run, segment, on, digest);

				counts->blocked += lsm_filter_probe(&run->blocked, digest);
				counts->elastic += admitted == on;
				notes[nnotes++] = (Note) {run->ids[segment], (int) on, (int) admitted};
			}
		}
		lsm_elastic_queue_advance(&queue, (uint32_t) nnotes);
		for (int j = 0; j < nnotes; j++)
			(void) lsm_elastic_queue_access(&queue, notes[j].id, notes[j].asked, notes[j].admitted);
	}
}

/* One step down a segment's curve of false positives by units. */
typedef struct Step
{
	double		saved;			/* per unit */
	uint32_t	units;
} Step;

static int
compare_steps(const void *a, const void *b)
{
	double		x = ((const Step *) a)->saved;
	double		y = ((const Step *) b)->saved;

	return (x < y) - (x > y);
}

/*
 * stopped[i]: lookups that unit i stops, stopped[units]: none.  Adds the steps of the
 * lower convex hull of lookups that pass by units on; returns how many.
 */
static uint32_t
hull_steps(const double *stopped, Step *steps)
{
	double		passed[LSM_ELASTIC_MAX_UNITS + 1];
	uint32_t	n = 0;

	passed[units] = stopped[units];
	for (uint32_t i = units; i-- > 0;)
		passed[i] = passed[i + 1] + stopped[i];
	for (uint32_t at = 0; at < units;)
	{
		uint32_t	to = at + 1;

		for (uint32_t i = at + 2; i <= units; i++)
			if ((passed[at] - passed[i]) / (i - at) > (passed[at] - passed[to]) / (to - at))
				to = i;
		steps[n++] = (Step) {(passed[at] - passed[to]) / (to - at), to - at};
		at = to;
	}
	return n;
}

/* False positives per lookup that no allocation can do without. */
static void
bounds(double theta, bool scattered, uint64_t shift, uint32_t budget,
	   double *knows_segments, double *knows_keys)
{
	uint32_t	curve = units + 1;
	double	   *stopped = calloc(nsegments * curve, sizeof(double));
	LsmElasticShare *shares = calloc(nsegments, sizeof(LsmElasticShare));
	Step	   *steps = calloc(nsegments * curve, sizeof(Step));
	double		all = theta == 0 ? (double) nkeys : (pow((double) nkeys + 1, 1 - theta) - 1) / (1 - theta);
	uint32_t	nsteps = 0;
	uint32_t	at = 0;

	*knows_segments = 0;
	*knows_keys = NRUNS;
	for (uint64_t rank = 1; rank <= nkeys; rank++)
	{
		double		f = theta == 0 ? 1 :
			(pow((double) rank + 1, 1 - theta) - pow((double) rank, 1 - theta)) / (1 - theta);
		uint64_t	number = place(rank, scattered, shift);
		LsmDigest	digest = digest_of_key(number);
		uint8_t		key[8];

		key_of(number, key);
		for (int r = 0; r < NRUNS; r++)
		{
			uint32_t	segment = lsm_elastic_find_segment(&runs[r].elastic, key, 8);

			stopped[(runs[r].first + segment) * curve +
					admitting_units(&runs[r], segment, units, digest)] += f / all;
		}
	}
	for (int r = 0; r < NRUNS; r++)
	{
		for (uint32_t i = 0; i < runs[r].elastic.segments; i++, at++)
		{
			double		f = 0;

			for (uint32_t j = 0; j < curve; j++)
				f += stopped[at * curve + j];
			shares[at] = (LsmElasticShare) {f, i + 1 < runs[r].elastic.segments ?
				rates[r].unit_fpr : rates[r].last_unit_fpr, (uint8_t) units, 0};
			nsteps += hull_steps(stopped + at * curve, steps + nsteps);
		}
	}
	lsm_elastic_share(shares, at, budget, 0);
	for (uint32_t i = 0; i < at; i++)
		*knows_segments += shares[i].hotness * rate_of(shares[i].unit_fpr, shares[i].target);
	qsort(steps, nsteps, sizeof(Step), compare_steps);
	for (uint32_t i = 0; i < nsteps && budget > 0; i++)
	{
		uint32_t	n = steps[i].units < budget ? steps[i].units : budget;

		*knows_keys -= n * steps[i].saved;
		budget -= n;
	}
	free(stopped);
	free(shares);
	free(steps);
}

static void
measure(double bits, double theta, bool scattered, size_t bytes)
{
	double		change = 0;
	double		square = 0;
	double		blocked = 0;
	double		elastic = 0;
	double		segments = 0;
	double		keys = 0;
	uint32_t	budget;

	if (states)
		bytes = bytes > nsegments * line_bytes ? bytes - nsegments * line_bytes : 0;
	budget = (uint32_t) (bytes / unit_bytes);
	for (uint32_t draw = 0; draw < draws; draw++)
	{
		uint64_t	shift = draw * 102947 % nkeys;
		Counts		counts;
		double		x;
		double		knows_segments;
		double		knows_keys;

		seed = draw + 1;
		start(budget);
		lookups(warm, theta, scattered, shift, &counts);
		lookups(measured, theta, scattered, shift, &counts);
		x = (double) counts.elastic / (double) counts.blocked - 1;
		change += x;
		square += x * x;
		blocked += (double) counts.blocked;
		elastic += (double) counts.elastic;
		bounds(theta, scattered, shift, budget, &knows_segments, &knows_keys);
		segments += knows_segments * measured;
		keys += knows_keys * measured;
	}
	change /= draws;
	square = sqrt(fmax(0, square / draws - change * change));
	printf("| %g | %s%s", bits, theta == 0 ? "uniform" : "Zipf", theta == 0 ? "" : " ");
	if (theta != 0)
		printf("%.2f, %s", theta, scattered ? "scattered" : "range");
	printf(" | %.2f | %.2f | %.0f%% | %.0f%% +- %.0f | %.0f%% | %.0f%% |\n",
		   1000 * blocked / draws / measured, 1000 * elastic / draws / measured,
		   100 * (elastic / blocked - 1), 100 * change, 100 * square,
		   100 * (segments / blocked - 1), 100 * (keys / blocked - 1));
	fflush(stdout);
}

static const struct
{
	const char *name;
	uint32_t   *value;
}			numbers[] =
{
	{"unit", &unit_bytes}, {"units", &units}, {"state", &line_bytes}, {"draws", &draws},
	{"warm", &warm}, {"measured", &measured},
};

int
main(int argc, char **argv)
{
	const char *bits_list = "2 4 6 8 10";

	for (int i = 1; i + 1 < argc; i += 2)
	{
		for (size_t j = 0; j < sizeof(numbers) / sizeof(numbers[0]); j++)
			if (strcmp(argv[i], numbers[j].name) == 0)
				*numbers[j].value = (uint32_t) atoi(argv[i + 1]);
		if (strcmp(argv[i], "keys") == 0)
			nkeys = (uint64_t) atoll(argv[i + 1]);
		if (strcmp(argv[i], "states") == 0)
			states = atoi(argv[i + 1]) != 0;
		if (strcmp(argv[i], "bits") == 0)
			bits_list = argv[i + 1];
	}
	line_bytes = (line_bytes + 63) / 64 * 64;
	build_runs();
	printf("# %" PRIu64 " keys, %" PRIu64 " segments of %u keys, states %s; %u draws of %u lookups after %u\n",
		   nkeys, nsegments, runs[0].elastic.segment_keys, states ? "counted" : "not counted",
		   draws, measured, warm);
	printf("| bits | access | blocked, per 1,000 lookups | elastic | change | mean of draws | bound: knows segments | bound: knows keys |\n"
		   "|---|---|---|---|---|---|---|---|\n");
	while (*bits_list != '\0')
	{
		char	   *end;
		double		bits = strtod(bits_list, &end);
		size_t		bytes;

		if (end == bits_list)
			break;
		bits_list = end;
		bytes = build_blocked(bits);
		measure(bits, 0, true, bytes);
		measure(bits, 0.99, true, bytes);
		measure(bits, 1.1, true, bytes);
		measure(bits, 1.2, true, bytes);
		measure(bits, 0.99, false, bytes);
	}
	return 0;
}
