/*-------------------------------------------------------------------------
 *
 * filter_separability.c
 *	  Separability of filters (ElasticBF): several small filters err as rarely
 *	  as one of the same bits per key in total.
 *
 * Rates of false positives of one standard Bloom filter against n units of an
 * elastic filter, all of them on, from the same digests; and beside them the
 * closed form 0.6185^b, which the paper's rationale is.  One segment is full
 * at LSM_ELASTIC_UNIT_BYTES_MAX; as many are measured as make a million keys.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter_bench.h"

#define NKEYS		UINT64_C(1000000)
#define NPROBES		UINT64_C(4000000)
#define ABSENT		(UINT64_C(1) << 40)

static const uint32_t unit_counts[] = {1, 2, 3, 4, 6, 8};

#define NCOUNTS		(sizeof(unit_counts) / sizeof(unit_counts[0]))

static void
die(const char *what)
{
	fprintf(stderr, "%s failed\n", what);
	exit(1);
}

static double
bloom_rate(double bits_per_key)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_BLOOM, .bits_per_key = bits_per_key};
	size_t		image_bytes = lsm_filter_image_bytes(&params, NKEYS, NULL);
	void	   *image = alloc_aligned_or_die(image_bytes);
	LsmDigest  *digests = alloc_aligned_or_die(NKEYS * sizeof(LsmDigest));
	LsmFilter	filter;
	const char *why;
	uint64_t	positives = 0;

	for (uint64_t i = 0; i < NKEYS; i++)
		digests[i] = digest_of(i);
	if (lsm_filter_build(&params, digests, NKEYS, NULL, NULL, image, image_bytes) != LSM_FILTER_OK ||
		lsm_filter_open(image, image_bytes, true, &filter, &why) != LSM_FILTER_OK)
		die("building a Bloom filter");
	for (uint64_t i = 0; i < NPROBES; i++)
		positives += lsm_filter_probe(&filter, digest_of(ABSENT + i));
	free(digests);
	free(image);
	return (double) positives / (double) NPROBES;
}

/* Absent keys that all units of a full segment with keys from `first` on let pass. */
static uint64_t
segment_positives(const LsmFilterParams *params, uint64_t first, uint64_t nprobes,
				  double *expected)
{
	const LsmFilterNotes none = {NULL, NULL, 0};
	uint32_t	nkeys = lsm_filter_segment_keys(params);
	size_t		image_bytes = lsm_filter_image_bytes(params, nkeys, &none);
	void	   *image = alloc_aligned_or_die(image_bytes);
	LsmDigest  *digests = alloc_aligned_or_die(nkeys * sizeof(LsmDigest));
	LsmDigest  *scratch = alloc_aligned_or_die(nkeys * sizeof(LsmDigest));
	LsmFilter	filter;
	LsmElastic	elastic;
	const char *why;
	uint64_t	positives = 0;

	for (uint32_t i = 0; i < nkeys; i++)
		digests[i] = digest_of(first + i);
	if (lsm_filter_build(params, digests, nkeys, &none, scratch, image, image_bytes) != LSM_FILTER_OK ||
		lsm_filter_open(image, image_bytes, true, &filter, &why) != LSM_FILTER_OK ||
		lsm_elastic_open(&filter, &elastic, &why) != LSM_FILTER_OK)
		die("building an elastic filter");
	*expected = pow(lsm_elastic_unit_fpr(&elastic, 0), params->units);
	for (uint64_t i = 0; i < nprobes; i++)
	{
		LsmDigest	digest = digest_of(ABSENT + first * 64 + i);
		uint32_t	unit = 0;

		while (unit < params->units &&
			   lsm_elastic_probe(&elastic, 0, unit,
								 lsm_elastic_unit(&elastic, 0, unit, false), digest))
			unit++;
		positives += unit == params->units;
	}
	free(scratch);
	free(digests);
	free(image);
	return positives;
}

static void
print_elastic(double bits_per_key, uint32_t units)
{
	LsmFilterParams params = {
		.scheme = LSM_FILTER_ELASTIC, .bits_per_key = bits_per_key,
		.units = units, .unit_bytes = LSM_ELASTIC_UNIT_BYTES_MAX
	};
	uint32_t	segment_keys = lsm_filter_segment_keys(&params);
	uint64_t	nsegments = segment_keys == 0 ? 0 : (NKEYS + segment_keys - 1) / segment_keys;
	uint64_t	positives = 0;
	double		expected = 0;

	if (nsegments == 0 || bits_per_key / units < 1)
	{
		printf(" - |");
		return;
	}
	for (uint64_t i = 0; i < nsegments; i++)
		positives += segment_positives(&params, i * segment_keys, NPROBES / nsegments, &expected);
	printf(" %.3f (%.3f) |", 100.0 * (double) positives / (double) (NPROBES / nsegments * nsegments),
		   100 * expected);
	fflush(stdout);
}

int
main(void)
{
	printf("| bits per key | 0.6185^b | one Bloom filter |");
	for (size_t i = 0; i < NCOUNTS; i++)
		printf(" %u unit%s |", unit_counts[i], unit_counts[i] > 1 ? "s" : "");
	printf("\n|---|---|---|");
	for (size_t i = 0; i < NCOUNTS; i++)
		printf("---|");
	printf("\n");
	for (int bits = 2; bits <= 16; bits += 2)
	{
		printf("| %d | %.3f | %.3f |", bits, 100 * pow(0.61850313780157595, bits),
			   100 * bloom_rate(bits));
		for (size_t i = 0; i < NCOUNTS; i++)
			print_elastic(bits, unit_counts[i]);
		printf("\n");
	}
	return 0;
}
