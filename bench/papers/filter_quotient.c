/*-------------------------------------------------------------------------
 *
 * filter_quotient.c
 *	  Bench: quotient filter against Bloom filter in RAM by load factor (the
 *	  in-memory experiment of "Don't Thrash: How to Cache your Hash on Flash",
 *	  section 3), and what merging quotient filters costs against building
 *	  them.
 *
 * filter_quotient [quotient bits] [remainder bits]
 *
 * Both filters are sized for the same number of keys (load 0.95 of the
 * quotient filter) at the same rate of false positives.  Keys are inserted one
 * by one, what they need being fetched eight keys ahead; digests are computed
 * beforehand, for both need the same one.  Rates are by CPU time.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter_bench.h"
#include "filter/filter_private.h"
#include "filter/quotient_private.h"

#define PROBES	(1000 * 1000)

static uint64_t sink;

static double
lookups_quotient(const LsmQuotient *filter, const LsmDigest *digests)
{
	double		best = 1e300;

	for (int round = 0; round < 3; round++)
	{
		double		start = cpu_s();

		for (int i = 0; i < PROBES; i++)
			sink += lsm_quotient_lookup(filter, digests[i]);
		start = cpu_s() - start;
		best = start < best ? start : best;
	}
	return PROBES / best / 1e6;
}

static double
lookups_image(const LsmFilter *filter, const LsmDigest *digests)
{
	double		best = 1e300;

	for (int round = 0; round < 3; round++)
	{
		double		start = cpu_s();

		for (int i = 0; i < PROBES; i++)
			sink += lsm_filter_probe(filter, digests[i]);
		start = cpu_s() - start;
		best = start < best ? start : best;
	}
	return PROBES / best / 1e6;
}

static void
bench_load_factors(uint32_t q, uint32_t r)
{
	static const int loads[] = {10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 95};
	uint64_t	slots = UINT64_C(1) << q;
	uint64_t	most = (uint64_t) ((double) slots * 0.95);
	double		bits_per_key = r / log(2);
	LsmFilterParams params = {LSM_FILTER_BLOOM, bits_per_key, 0};
	LsmFilter	bloom;
	LsmQuotient quotient;
	LsmDigest  *absent = alloc_aligned_or_die(PROBES * sizeof(LsmDigest));
	LsmDigest  *present = alloc_aligned_or_die(PROBES * sizeof(LsmDigest));
	LsmDigest  *batch;
	uint8_t    *bits;
	uint64_t	done = 0;
	double		seconds_quotient = 0;
	double		seconds_bloom = 0;

	if (!lsm_filter_plan(&params, most, &bloom) ||
		!lsm_quotient_init(&quotient, q, r, alloc_aligned_or_die(lsm_quotient_size(q, r))))
		exit(1);
	bits = alloc_aligned_or_die(bloom.payload_bytes);
	bloom.bits = bits;
	batch = alloc_aligned_or_die(slots / 5 * sizeof(LsmDigest));
	for (int i = 0; i < PROBES; i++)
		absent[i] = digest_of((UINT64_C(1) << 40) + (uint64_t) i);

	printf("## Quotient filter against Bloom filter in RAM: up to %" PRIu64 " keys, FPR 2^-%u at most;\n"
		   "## quotient %.1f MB (2^%u slots of %u bits), Bloom %.1f MB (k = %u).  Million per second of CPU\n",
		   most, r, (double) lsm_quotient_size(q, r) / 1e6, q, r + 3,
		   (double) bloom.payload_bytes / 1e6, bloom.probes);
	printf("| load | inserts QF | inserts BF | since start QF | since start BF | absent QF | absent BF | present QF | present BF | FPR QF | FPR BF |\n"
		   "|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (size_t l = 0; l < sizeof(loads) / sizeof(loads[0]); l++)
	{
		uint64_t	upto = slots * (uint64_t) loads[l] / 100;
		uint64_t	n = upto - done;
		double		quotient_s;
		double		bloom_s;
		uint64_t	before;
		double		fpr[2];

		for (uint64_t i = 0; i < n; i++)
			batch[i] = digest_of(done + i);
		quotient_s = cpu_s();
		for (uint64_t i = 0; i < n; i++)
		{
			/* as far ahead as the Bloom filter's fill does */
			if (i + 8 < n)
				lsm_quotient_prefetch(&quotient, batch[i + 8]);
			sink += lsm_quotient_insert(&quotient, batch[i]);
		}
		quotient_s = cpu_s() - quotient_s;
		bloom_s = cpu_s();
		lsm_bloom_ops.fill(&bloom, batch, n, bits);
		bloom_s = cpu_s() - bloom_s;
		done = upto;
		seconds_quotient += quotient_s;
		seconds_bloom += bloom_s;
		for (int i = 0; i < PROBES; i++)
			present[i] = digest_of((uint64_t) i * 7919 % done);

		before = sink;
		for (int i = 0; i < PROBES; i++)
			sink += lsm_quotient_lookup(&quotient, absent[i]);
		fpr[0] = (double) (sink - before) / PROBES;
		before = sink;
		for (int i = 0; i < PROBES; i++)
			sink += lsm_filter_probe(&bloom, absent[i]);
		fpr[1] = (double) (sink - before) / PROBES;
		printf("| %d%% | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.2e | %.2e |\n",
			   loads[l], (double) n / quotient_s / 1e6, (double) n / bloom_s / 1e6,
			   (double) done / seconds_quotient / 1e6, (double) done / seconds_bloom / 1e6,
			   lookups_quotient(&quotient, absent), lookups_image(&bloom, absent),
			   lookups_quotient(&quotient, present), lookups_image(&bloom, present),
			   fpr[0], fpr[1]);
		fflush(stdout);
	}
	free(quotient.data);
	free(bits);
	free(batch);
	free(absent);
	free(present);
}

/* The images of sorted files: what a probe costs at the same bits per key. */
static void
bench_images(uint64_t n)
{
	static const LsmFilterScheme schemes[] = {
		LSM_FILTER_BLOOM, LSM_FILTER_BLOCKED, LSM_FILTER_QUOTIENT, LSM_FILTER_RIBBON
	};
	LsmDigest  *digests = alloc_aligned_or_die(n * sizeof(LsmDigest));
	LsmDigest  *absent = alloc_aligned_or_die(PROBES * sizeof(LsmDigest));
	void	   *work = alloc_aligned_or_die(LSM_FILTER_WORK_MAX);

	printf("\n## Images of %" PRIu64 " keys, all in RAM\n", n);
	printf("| scheme | asked | bits per key | build ns/key | absent, million/s | present, million/s | FPR |\n|---|---|---|---|---|---|---|\n");
	for (int i = 0; i < PROBES; i++)
		absent[i] = digest_of((UINT64_C(1) << 40) + (uint64_t) i);
	for (double b = 8; b <= 16; b += b < 12 ? 2 : 4)
	{
		for (size_t s = 0; s < sizeof(schemes) / sizeof(schemes[0]); s++)
		{
			LsmFilterParams params = {schemes[s], b, 0};
			size_t		bytes = lsm_filter_image_bytes(&params, n, NULL);
			void	   *image = alloc_aligned_or_die(bytes);
			LsmFilter	filter;
			uint64_t	before;
			double		build;
			double		rate_absent;
			double		rate_present;

			for (uint64_t i = 0; i < n; i++)
				digests[i] = digest_of(i);
			build = cpu_s();
			if (lsm_filter_build(&params, digests, n, NULL, work, image, bytes) != LSM_FILTER_OK)
				exit(1);
			build = cpu_s() - build;
			lsm_filter_open(image, bytes, false, &filter, NULL);
			rate_absent = lookups_image(&filter, absent);
			for (uint64_t i = 0; i < n; i++)
				digests[i] = digest_of(i * 7919 % n);
			rate_present = lookups_image(&filter, digests);
			before = sink;
			for (int i = 0; i < PROBES; i++)
				sink += lsm_filter_probe(&filter, absent[i]);
			printf("| %s | %g | %.2f | %.0f | %.1f | %.1f | %.2e |\n",
				   lsm_filter_scheme_name(schemes[s]), b, (double) bytes * 8 / (double) n,
				   build * 1e9 / (double) n, rate_absent, rate_present,
				   (double) (sink - before) / PROBES);
			fflush(stdout);
			free(image);
		}
	}
	free(digests);
	free(absent);
	free(work);
}

static void
bench_merge(uint64_t total, int ninputs)
{
	LsmFilterParams params = {LSM_FILTER_QUOTIENT, 10, total};
	LsmFilterStream *work = alloc_aligned_or_die((size_t) ninputs * sizeof(LsmFilterStream));
	LsmFilter  *inputs = alloc_aligned_or_die((size_t) ninputs * sizeof(LsmFilter));
	LsmDigest  *digests = alloc_aligned_or_die(total * sizeof(LsmDigest));
	uint64_t	each = total / (uint64_t) ninputs;
	size_t		bytes = lsm_filter_image_bytes(&params, each * (uint64_t) ninputs, NULL);
	void	   *image = alloc_aligned_or_die(bytes);
	size_t		used;
	double		hash;
	double		build;
	double		merge;

	for (int i = 0; i < ninputs; i++)
	{
		size_t		input_bytes = lsm_filter_image_bytes(&params, each, NULL);
		void	   *memory = alloc_aligned_or_die(input_bytes);

		for (uint64_t j = 0; j < each; j++)
			digests[j] = digest_of((uint64_t) i * each + j);
		lsm_filter_build(&params, digests, each, NULL, NULL, memory, input_bytes);
		lsm_filter_open(memory, input_bytes, false, &inputs[i], NULL);
	}
	merge = cpu_s();
	if (lsm_filter_merge(&params, each * (uint64_t) ninputs, inputs, ninputs, work,
						 image, bytes, &used) != LSM_FILTER_OK)
		exit(1);
	merge = cpu_s() - merge;
	hash = cpu_s();
	for (uint64_t j = 0; j < each * (uint64_t) ninputs; j++)
		digests[j] = digest_of(j);
	hash = cpu_s() - hash;
	build = cpu_s();
	lsm_filter_build(&params, digests, each * (uint64_t) ninputs, NULL, NULL, image, bytes);
	build = cpu_s() - build;
	printf("| %d | %" PRIu64 " | %.0f | %.0f | %.0f |\n", ninputs, total,
		   merge * 1e9 / (double) total, build * 1e9 / (double) total, hash * 1e9 / (double) total);
	fflush(stdout);
	for (int i = 0; i < ninputs; i++)
		free((uint8_t *) (uintptr_t) inputs[i].bits - LSM_FILTER_HEADER_BYTES);
	free(work);
	free(inputs);
	free(digests);
	free(image);
}

int
main(int argc, char **argv)
{
	uint32_t	q = argc > 1 ? (uint32_t) atoi(argv[1]) : 24;
	uint32_t	r = argc > 2 ? (uint32_t) atoi(argv[2]) : 9;

	if (lsm_quotient_size(q, r) == 0 || q < 20)
	{
		fprintf(stderr, "usage: filter_quotient [quotient bits, from 20] [remainder bits]\n");
		return 2;
	}
	bench_load_factors(q, r);
	bench_images(4000 * 1000);
	printf("\n## One image from several: merge of sorted streams against sort of the digests, ns per key\n");
	printf("| inputs | keys | merge | build | hashing 8-byte keys, before a build |\n|---|---|---|---|---|\n");
	for (int ninputs = 2; ninputs <= 16; ninputs *= 2)
		bench_merge(4000 * 1000, ninputs);
	return sink == 42 ? 3 : 0;
}
