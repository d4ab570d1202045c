/*-------------------------------------------------------------------------
 *
 * elastic_filter_test.c
 *	  Unit test of src/filter/elastic.c: images, segments, units, and that the
 *	  false positive rate falls with the units on as the theory says.  Prints
 *	  TAP; exit status 1 if a test failed.
 *
 * All data come from fixed seeds.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter_private.h"
#include "tap.h"

static void *
alloc_aligned_or_die(size_t nbytes)
{
	void	   *memory = NULL;

	if (posix_memalign(&memory, 64, nbytes > 0 ? nbytes : 1) != 0)
	{
		printf("Bail out! out of memory\n");
		exit(1);
	}
	return memory;
}

/*
 * Keys in order: shapes with long common prefixes, ties in the first 8 bytes
 * behind them, and lengths from 1 byte up.
 */
typedef struct Key
{
	uint8_t		bytes[48];
	uint32_t	len;
} Key;

static int
compare_bytes(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
	int			c = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

static int
compare_keys(const void *a, const void *b)
{
	const Key  *x = a;
	const Key  *y = b;

	return compare_bytes(x->bytes, x->len, y->bytes, y->len);
}

static void
make_key(Key *key, int shape, uint64_t *seed)
{
	uint64_t	r = random_next(seed);

	memset(key, 0, sizeof(*key));
	switch (shape)
	{
		case 0:					/* 8 random bytes */
			memcpy(key->bytes, &r, 8);
			key->len = 8;
			break;
		case 1:					/* long prefix, few distinct words, then a tail */
			key->len = (uint32_t) snprintf((char *) key->bytes, sizeof(key->bytes),
										   "a common prefix/%08u%" PRIx64,
										   (unsigned) (r % 3), random_next(seed) >> 40);
			break;
		default:				/* of every length, many zeros */
			key->len = 1 + r % 40;
			for (uint32_t i = 0; i < key->len; i++)
				key->bytes[i] = (uint8_t) ((random_next(seed) % 4 == 0) ? random_next(seed) : 0);
			break;
	}
}

typedef struct Built
{
	LsmFilterParams params;
	Key		   *keys;
	uint64_t	nkeys;
	LsmDigest  *digests;
	uint8_t    *fence_bytes;
	uint32_t   *fence_ends;
	uint32_t	nfences;
	uint8_t    *image;
	size_t		bytes;
	LsmFilter	filter;
	LsmElastic	elastic;
} Built;

static bool
build(Built *built, double bits_per_key, uint32_t units, uint32_t unit_bytes,
	  uint64_t nkeys, int shape, uint64_t seed)
{
	uint32_t	segment_keys;
	uint32_t	end = 0;
	uint64_t	n = 0;
	LsmFilterNotes fences;
	LsmDigest  *scratch;
	bool		good;

	built->params = (LsmFilterParams) {.scheme = LSM_FILTER_ELASTIC,
		.bits_per_key = bits_per_key, .units = units, .unit_bytes = unit_bytes};
	segment_keys = lsm_filter_segment_keys(&built->params);
	built->keys = alloc_aligned_or_die(nkeys * sizeof(Key));
	for (uint64_t i = 0; i < nkeys; i++)
		make_key(&built->keys[i], shape, &seed);
	qsort(built->keys, nkeys, sizeof(Key), compare_keys);
	for (uint64_t i = 0; i < nkeys; i++)
		if (n == 0 || compare_keys(&built->keys[n - 1], &built->keys[i]) != 0)
			built->keys[n++] = built->keys[i];
	built->nkeys = n;

	built->digests = alloc_aligned_or_die(n * sizeof(LsmDigest));
	built->fence_bytes = alloc_aligned_or_die(n * 48 / segment_keys + 48);
	built->fence_ends = alloc_aligned_or_die((n / segment_keys + 1) * sizeof(uint32_t));
	built->nfences = 0;
	for (uint64_t i = 0; i < n; i++)
	{
		const Key  *key = &built->keys[i];

		built->digests[i] = lsm_digest_key(key->bytes, key->len);
		if (i > 0 && i % segment_keys == 0)
		{
			const Key  *before = key - 1;
			uint32_t	len = 0;

			/* every second one cut to what tells it from the key before */
			while (len < key->len && len < before->len && key->bytes[len] == before->bytes[len])
				len++;
			len = built->nfences % 2 ? key->len : len + 1;
			memcpy(built->fence_bytes + end, key->bytes, len);
			end += len;
			built->fence_ends[built->nfences++] = end;
		}
	}
	fences = (LsmFilterNotes) {built->fence_bytes, built->fence_ends, built->nfences};
	scratch = alloc_aligned_or_die(segment_keys * sizeof(LsmDigest));
	built->bytes = lsm_filter_image_bytes(&built->params, n, &fences);
	good = built->bytes > 0 && built->bytes % 64 == 0;
	built->image = alloc_aligned_or_die(built->bytes);
	memset(built->image, 0xA5, built->bytes);
	good &= lsm_filter_build(&built->params, built->digests, n, &fences, scratch,
							  built->image, built->bytes - 1) == LSM_FILTER_INVALID;
	good &= lsm_filter_build(&built->params, built->digests, n, &fences, scratch,
							  built->image, built->bytes) == LSM_FILTER_OK;
	free(scratch);
	good &= lsm_filter_open(built->image, built->bytes, true, &built->filter, NULL) == LSM_FILTER_OK;
	good &= lsm_elastic_open(&built->filter, &built->elastic, NULL) == LSM_FILTER_OK;
	return good;
}

static void
release(Built *built)
{
	free(built->keys);
	free(built->digests);
	free(built->fence_bytes);
	free(built->fence_ends);
	free(built->image);
}

static bool
probe_units(const Built *built, uint32_t segment, uint32_t units, LsmDigest digest)
{
	for (uint32_t unit = 0; unit < units; unit++)
	{
		const void *bits = lsm_elastic_unit(&built->elastic, segment, unit, true);

		if (bits == NULL || !lsm_elastic_probe(&built->elastic, segment, unit, bits, digest))
			return false;
	}
	return true;
}

/* Every key is found in its segment by all units; segments are found. */
static void
test_members(int shape, double bits_per_key, uint32_t units, uint32_t unit_bytes, uint64_t nkeys)
{
	Built		built;
	uint64_t	lost = 0;
	uint64_t	misplaced = 0;
	uint32_t	segment_keys;
	uint64_t	seed = 77;
	bool		good = build(&built, bits_per_key, units, unit_bytes, nkeys, shape, 1 + shape);

	segment_keys = lsm_filter_segment_keys(&built.params);
	good &= built.elastic.segments == built.nfences + 1 && built.elastic.units == units;
	good &= lsm_elastic_unit_bytes(&built.elastic, 0) <= unit_bytes;
	for (uint64_t i = 0; i < built.nkeys; i++)
	{
		uint32_t	segment = lsm_elastic_find_segment(&built.elastic, built.keys[i].bytes,
													   built.keys[i].len);

		misplaced += segment != i / segment_keys;
		lost += !probe_units(&built, segment, units, built.digests[i]);
	}
	ok(good && lost == 0 && misplaced == 0,
	   "%" PRIu64 " keys of shape %d, %g bits, %u units of %u bytes: %u segments, all found",
	   built.nkeys, shape, bits_per_key, units, unit_bytes, built.elastic.segments);

	/* other keys: the last segment whose fence is not behind the key */
	misplaced = 0;
	for (int i = 0; i < 20000; i++)
	{
		Key			key;
		uint32_t	wanted = 0;
		size_t		len;
		const uint8_t *fence;

		make_key(&key, i % 3, &seed);
		if (i % 7 == 0)
			key.len = (uint32_t) (random_next(&seed) % (key.len + 1));
		for (uint32_t s = 1; s < built.elastic.segments; s++)
		{
			fence = lsm_elastic_fence(&built.elastic, s, &len);
			if (compare_bytes(fence, len, key.bytes, key.len) <= 0)
				wanted = s;
		}
		misplaced += lsm_elastic_find_segment(&built.elastic, key.bytes, key.len) != wanted;
	}
	ok(misplaced == 0, "segments of 20000 other keys agree with a linear search, shape %d", shape);
	release(&built);
}

/*
 * Separability: i units on err like the product says, and near the standard
 * filter.
 */
static void
test_rates(double bits_per_key, uint32_t units, uint32_t unit_bytes)
{
	Built		built;
	uint64_t	seed = 99;
	bool		good = build(&built, bits_per_key, units, unit_bytes, 300000, 0, 5);
	uint64_t	positives[LSM_ELASTIC_UNITS_MAX + 1] = {0};
	uint64_t	n = 1000 * 1000;
	double		unit_fpr = lsm_elastic_unit_fpr(&built.elastic, 0);

	for (uint64_t i = 0; i < n; i++)
	{
		Key			key;
		uint32_t	segment;
		uint32_t	on = 0;
		LsmDigest	digest;

		make_key(&key, 0, &seed);
		key.bytes[8] = 1;		/* none of the keys has 9 bytes */
		key.len = 9;
		segment = lsm_elastic_find_segment(&built.elastic, key.bytes, key.len);
		digest = lsm_digest_key(key.bytes, key.len);
		while (on < units && lsm_elastic_probe(&built.elastic, segment, on,
											   built.elastic.bits +
											   ((size_t) on * built.elastic.segments + segment) *
											   built.elastic.unit_bytes, digest))
			positives[++on]++;
	}
	for (uint32_t on = 1; on <= units; on++)
	{
		double		expected = pow(unit_fpr, on);
		double		measured = (double) positives[on] / (double) n;
		double		standard = pow(0.61850313780157595, bits_per_key / units * on);
		double		error = 4 * sqrt(expected / (double) n) + 0.03 * expected;

		good &= fabs(measured - expected) < error;
		printf("# %g bits, %u of %u units on: measured %.6f, expected %.6f, standard Bloom %.6f\n",
			   bits_per_key, on, units, measured, expected, standard);
	}
	ok(good, "false positive rate by units on is the product, %g bits in %u units of %u bytes",
	   bits_per_key, units, unit_bytes);
	ok(fabs(lsm_filter_expected_fpr(&built.filter) / pow(unit_fpr, units) - 1) < 0.05,
	   "expected rate of the whole filter is that of all units");
	release(&built);
}

static void
test_arguments(void)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_ELASTIC, .bits_per_key = 10, .units = 6, .unit_bytes = 512};
	bool		good = lsm_filter_segment_keys(&params) == 2457;
	LsmDigest	digest = 1;
	uint8_t		image[4096];
	LsmFilterNotes none = {NULL, NULL, 0};
	uint32_t	end = 1;
	LsmFilterNotes one = {(const uint8_t *) "a", &end, 1};

	good &= lsm_filter_image_bytes(&params, 2457, &none) > 0;
	good &= lsm_filter_image_bytes(&params, 2458, &none) == 0;
	good &= lsm_filter_image_bytes(&params, 2458, &one) > 0;
	good &= lsm_filter_image_bytes(&params, 2457, &one) == 0;
	good &= lsm_filter_image_bytes(&params, 0, &none) > 0;
	params.units = 0;
	good &= lsm_filter_segment_keys(&params) == 0;
	params.units = LSM_ELASTIC_UNITS_MAX + 1;
	good &= lsm_filter_segment_keys(&params) == 0;
	params.units = 6;
	params.unit_bytes = 500;
	good &= lsm_filter_segment_keys(&params) == 0;
	params.unit_bytes = 16384;
	good &= lsm_filter_image_bytes(&params, 1, &none) == 0;
	params.unit_bytes = 512;
	params.bits_per_key = NAN;
	good &= lsm_filter_image_bytes(&params, 1, &none) == 0;
	params.bits_per_key = 10;
	good &= lsm_filter_image_bytes(&params, 1, NULL) == 0;
	good &= lsm_filter_build(&params, &digest, 1, NULL, NULL, image, sizeof(image)) == LSM_FILTER_INVALID;
	params.scheme = LSM_FILTER_BLOCKED;
	good &= lsm_filter_segment_keys(&params) == 0;
	ok(good, "parameters out of range are refused");
}

static void
test_empty(void)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_ELASTIC, .bits_per_key = 10, .units = 6, .unit_bytes = 512};
	LsmFilterNotes none = {NULL, NULL, 0};
	uint8_t    *image = alloc_aligned_or_die(4096);
	size_t		bytes = lsm_filter_image_bytes(&params, 0, &none);
	LsmDigest	scratch[2457];
	LsmFilter	filter;
	LsmElastic	elastic;
	bool		good = bytes > 0 && bytes <= 4096;

	good &= lsm_filter_build(&params, NULL, 0, &none, scratch, image, bytes) == LSM_FILTER_OK;
	good &= lsm_filter_open(image, bytes, true, &filter, NULL) == LSM_FILTER_OK;
	good &= lsm_elastic_open(&filter, &elastic, NULL) == LSM_FILTER_OK;
	good &= elastic.segments == 1 && lsm_elastic_keys(&elastic, 0) == 0;
	good &= !lsm_elastic_probe(&elastic, 0, 0, lsm_elastic_unit(&elastic, 0, 0, true), 12345);
	good &= lsm_filter_expected_fpr(&filter) == 0;
	good &= lsm_filter_probe(&filter, 12345);
	ok(good, "a filter without keys");
	free(image);
}

/* An image over nkeys keys, with nleading leading parts; NULL: it is not to be had */
static uint8_t *
leading_image(uint64_t nkeys, uint64_t nleading, double bits_per_key, LsmFilter *filter,
			  LsmElastic *elastic, size_t *bytes)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_ELASTIC, .bits_per_key = bits_per_key,
	.leading = 2, .units = 6, .unit_bytes = 512};
	uint32_t	segment_keys = lsm_filter_segment_keys(&params);
	LsmDigest  *digests = alloc_aligned_or_die((nkeys + 1) * sizeof(LsmDigest));
	LsmDigest  *leading = alloc_aligned_or_die((nleading + 1) * sizeof(LsmDigest));
	LsmDigest  *scratch = alloc_aligned_or_die(segment_keys * sizeof(LsmDigest));
	uint8_t    *fences = alloc_aligned_or_die(8 * (nkeys / segment_keys + 1));
	uint32_t   *ends = alloc_aligned_or_die(4 * (nkeys / segment_keys + 1));
	LsmFilterNotes notes = {fences, ends, 0, leading, nleading};
	uint8_t    *image;

	for (uint64_t i = 0; i < nkeys; i++)
	{
		digests[i] = lsm_digest_key(&i, sizeof(i));
		if (i == 0 || i % segment_keys != 0)
			continue;
		for (int j = 0; j < 8; j++)
			fences[8 * notes.n + j] = (uint8_t) (i >> (56 - 8 * j));
		ends[notes.n] = 8 * (notes.n + 1);
		notes.n++;
	}
	for (uint64_t i = 0; i < nleading; i++)
	{
		uint64_t	part = UINT64_C(1000000000000) + i;

		leading[i] = lsm_digest_key(&part, sizeof(part));
	}
	*bytes = lsm_filter_image_bytes(&params, nkeys, &notes);
	image = alloc_aligned_or_die(*bytes);
	memset(image, 0x5A, *bytes);
	if (lsm_filter_build(&params, digests, nkeys, &notes, scratch, image, *bytes) != LSM_FILTER_OK ||
		lsm_filter_open(image, *bytes, true, filter, NULL) != LSM_FILTER_OK ||
		lsm_elastic_open(filter, elastic, NULL) != LSM_FILTER_OK ||
		!lsm_filter_built_with(filter, &params))
	{
		free(image);
		image = NULL;
	}
	free(digests);
	free(leading);
	free(scratch);
	free(fences);
	free(ends);
	return image;
}

/* All leading parts are admitted, others as the closed form says. */
static void
test_leading(uint64_t nkeys, uint64_t nleading, double bits_per_key)
{
	const uint64_t asked = 400000;
	LsmFilter	filter;
	LsmElastic	elastic;
	size_t		bytes;
	uint8_t    *image = leading_image(nkeys, nleading, bits_per_key, &filter, &elastic, &bytes);
	uint64_t	admitted = 0;
	double		expected;
	double		measured;
	bool		good = image != NULL && lsm_elastic_leads(&elastic) && filter.leading == 2;

	for (uint64_t i = 0; good && i < nleading; i++)
	{
		uint64_t	part = UINT64_C(1000000000000) + i;

		good = lsm_elastic_probe_leading(&elastic, lsm_digest_key(&part, sizeof(part)));
	}
	ok(good, "%llu leading parts of %llu keys: all are admitted", (unsigned long long) nleading,
	   (unsigned long long) nkeys);
	for (uint64_t i = 0; good && i < asked; i++)
	{
		uint64_t	part = UINT64_C(2000000000000) + i;

		admitted += lsm_elastic_probe_leading(&elastic, lsm_digest_key(&part, sizeof(part)));
	}
	expected = good ? lsm_elastic_leading_fpr(&elastic) : 2;
	measured = (double) admitted / (double) asked;
	ok(fabs(measured - expected) < 0.1 * expected + 4 * sqrt(expected / (double) asked) + 0.02 / asked,
	   "others: %.5f, expected %.5f", measured, expected);

	/* keys are as before */
	for (uint64_t i = 0; good && i < nkeys; i++)
	{
		uint8_t		key[8];
		uint32_t	segment;

		for (int j = 0; j < 8; j++)
			key[j] = (uint8_t) (i >> (56 - 8 * j));
		segment = lsm_elastic_find_segment(&elastic, key, 8);
		for (uint32_t unit = 0; unit < elastic.units; unit++)
			good &= lsm_elastic_probe(&elastic, segment, unit,
									  lsm_elastic_unit(&elastic, segment, unit, true),
									  lsm_digest_key(&i, sizeof(i)));
	}
	ok(good, "keys are where they were");
	free(image);
}

static void
test_leading_limits(void)
{
	LsmFilter	filter;
	LsmElastic	elastic;
	size_t		bytes;
	size_t		without;
	uint8_t    *image = leading_image(20000, 5001, 10, &filter, &elastic, &without);
	bool		good = image != NULL && !lsm_elastic_leads(&elastic) && filter.leading == 2;

	free(image);
	image = leading_image(20000, 5000, 10, &filter, &elastic, &bytes);
	good &= image != NULL && lsm_elastic_leads(&elastic) && bytes > without &&
		bytes <= without + 5000 * 10 / 8 + 512 + 128;
	free(image);
	image = leading_image(1024, 1024, 10, &filter, &elastic, &bytes);
	good &= image != NULL && lsm_elastic_leads(&elastic);
	free(image);
	image = leading_image(3000, 1025, 10, &filter, &elastic, &bytes);
	good &= image != NULL && !lsm_elastic_leads(&elastic);
	free(image);
	ok(good, "more than one leading part for four keys, and many, are not held");

	image = leading_image(20000, 500, 10, &filter, &elastic, &bytes);
	good = image != NULL;
	if (good)
		image[elastic.leading - image] ^= 1;
	good &= lsm_filter_open(image, bytes, true, &filter, NULL) == LSM_FILTER_CORRUPT;
	ok(good, "damage to them is found when the image is opened");
	free(image);
}

/*
 * Damage to the directory is found at open, damage to a unit when it is read.
 */
static void
test_damage(void)
{
	Built		built;
	bool		good = build(&built, 10, 6, 64, 3000, 1, 3);
	size_t		units_at = (size_t) (built.elastic.bits - built.image);
	uint64_t	seed = 4;
	LsmFilter	filter;
	LsmElastic	elastic;
	uint8_t    *copy;
	const char *why;

	good &= units_at % 64 == 0 && built.elastic.segments > 5;
	for (size_t at = 0; at < units_at; at++)
	{
		built.image[at] ^= (uint8_t) (1 << (at % 8));
		why = NULL;
		good &= lsm_filter_open(built.image, built.bytes, true, &filter, &why) == LSM_FILTER_CORRUPT;
		good &= why != NULL;
		built.image[at] ^= (uint8_t) (1 << (at % 8));
	}
	ok(good, "a bit flipped anywhere before the units is found when the image is opened");

	good = true;
	for (uint32_t segment = 0; segment < built.elastic.segments; segment++)
	{
		for (uint32_t unit = 0; unit < 6; unit++)
		{
			uint8_t    *bits = (uint8_t *) lsm_elastic_unit(&built.elastic, segment, unit, true);
			uint32_t	at = (uint32_t) (random_next(&seed) %
										 lsm_elastic_unit_bytes(&built.elastic, segment));

			if (bits == NULL)
			{
				good = false;
				continue;
			}
			bits[at] ^= 0x10;
			good &= lsm_filter_open(built.image, built.bytes, true, &filter, NULL) == LSM_FILTER_OK;
			good &= lsm_elastic_unit(&built.elastic, segment, unit, true) == NULL;
			good &= lsm_elastic_unit(&built.elastic, segment, (unit + 1) % 6, true) != NULL;
			bits[at] ^= 0x10;
		}
	}
	ok(good, "a bit flipped in a unit is found when the unit is read");

	/*
	 * never out of bounds (ASan looks), whatever an unverified directory says
	 */
	copy = alloc_aligned_or_die(built.bytes);
	good = true;
	for (int i = 0; i < 20000; i++)
	{
		memcpy(copy, built.image, built.bytes);
		for (int flips = 0; flips < 3; flips++)
			copy[64 + random_next(&seed) % (units_at - 64)] = (uint8_t) random_next(&seed);
		if (lsm_filter_open(copy, built.bytes, false, &filter, NULL) != LSM_FILTER_OK ||
			lsm_elastic_open(&filter, &elastic, NULL) != LSM_FILTER_OK)
			continue;
		for (int j = 0; j < 5; j++)
		{
			Key			key;
			uint32_t	segment;

			make_key(&key, j % 3, &seed);
			segment = lsm_elastic_find_segment(&elastic, key.bytes, key.len);
			good &= segment < elastic.segments;
			for (uint32_t unit = 0; unit < elastic.units; unit++)
			{
				(void) lsm_elastic_unit(&elastic, segment, unit, true);
				(void) lsm_elastic_probe(&elastic, segment, unit,
										 elastic.bits + ((size_t) unit * elastic.segments + segment) *
										 elastic.unit_bytes, random_next(&seed));
			}
		}
	}
	ok(good, "a damaged directory that is not verified leads to no access outside");
	free(copy);
	release(&built);
}

int
main(void)
{
	test_arguments();
	test_empty();
	test_leading(20000, 500, 10);
	test_leading(60000, 15000, 24);
	test_leading(60000, 15000, 6);
	test_leading(2000, 1, 10);
	test_leading(0, 0, 10);
	test_leading_limits();
	test_members(0, 10, 6, 512, 100000);
	test_members(0, 12, 3, 4096, 200000);
	test_members(1, 8, 4, 256, 50000);
	test_members(2, 10, 6, 64, 30000);
	test_members(0, 64, 16, 64, 3000);
	test_members(0, 1, 16, 512, 100000);
	test_members(0, 10, 6, 512, 100);
	test_members(0, 10, 1, 512, 409);
	test_rates(10, 6, 512);
	test_rates(12, 3, 512);
	test_rates(16, 4, 1024);
	test_rates(24, 6, 512);
	test_rates(8, 8, 256);
	test_damage();
	printf("1..%d\n", ntests);
	return nfailed > 0;
}
