/*-------------------------------------------------------------------------
 *
 * filter_test.c
 *	  Unit test of src/filter.  Prints TAP; exit status 1 if a test failed.
 *
 * filter_test			the tests
 * filter_test --bench	nanoseconds per digest and per probe
 *
 * Links the system's libxxhash as the reference the digests are held against.
 * All data come from fixed seeds: the same run everywhere.
 *
 *-------------------------------------------------------------------------
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "filter/filter_private.h"
#include "tap.h"

#include "filter_image.h"

/* No false negative over this many keys. */
#define MEMBER_KEYS		(SHORT_FORM ? 400 * 1000 : 4 * 1000 * 1000)

/* False positives to see before a rate is compared: error 1 / sqrt(this). */
#define WANTED_FALSE_POSITIVES	(SHORT_FORM ? 2500 : 10000)

/* A filter over the keys first .. first + n - 1. */
static bool
build_image(Image *image, LsmFilterScheme scheme, double bits_per_key,
			uint64_t first, uint64_t n)
{
	LsmFilterParams params = {scheme, bits_per_key};
	LsmDigest  *digests = alloc_or_die(n * sizeof(LsmDigest));
	const char *why;
	bool		good;

	for (uint64_t i = 0; i < n; i++)
		digests[i] = digest_of(first + i);
	image->bytes = lsm_filter_image_bytes(&params, n, NULL);
	image->memory = aligned_alloc(64, image->bytes);
	if (image->memory == NULL)
	{
		printf("Bail out! out of memory\n");
		exit(1);
	}
	memset(image->memory, 0xa5, image->bytes);
	good = lsm_filter_build(&params, digests, n, NULL, NULL, image->memory, image->bytes) == LSM_FILTER_OK &&
		lsm_filter_open(image->memory, image->bytes, true, &image->filter, &why) == LSM_FILTER_OK &&
		why == NULL;
	free(digests);
	return good;
}

/* ---- digest ---- */

static void
test_digest(void)
{
	enum
	{
		LENGTHS = 2049
	};
	uint8_t    *data = alloc_or_die(LENGTHS + 64);
	uint64_t	seed = 1;
	bool		have_avx2 = lsm_cpu_has_avx2() && lsm_digest_long_avx2 != NULL;
	int			wrong = 0;
	int			wrong_baseline = 0;
	int			wrong_avx2 = 0;

	for (size_t i = 0; i < LENGTHS + 64; i++)
		data[i] = (uint8_t) random_next(&seed);
	for (size_t length = 0; length < LENGTHS; length++)
	{
		/* at the end of the allocation, and so at all alignments */
		const uint8_t *key = data + LENGTHS + 64 - length;
		XXH64_hash_t expected = XXH3_64bits(key, length);

		wrong += lsm_digest_key(key, length) != expected;
		wrong_baseline += lsm_digest_long_baseline(key, length) != expected;
		if (have_avx2)
			wrong_avx2 += lsm_digest_long_avx2(key, length) != expected;
	}
	ok(wrong == 0, "digests of 0..2048 bytes are libxxhash's XXH3_64bits (%s)", lsm_digest_isa());
	ok(wrong_baseline == 0, "baseline digests too");
	if (have_avx2)
		ok(wrong_avx2 == 0, "AVX2 digests too");
	else
		ok(true, "AVX2 digests # SKIP no AVX2");
	ok(lsm_digest_key(NULL, 0) == XXH3_64bits("", 0), "digest of nothing");
	free(data);
}

/* ---- schemes and arguments ---- */

static void
test_schemes(void)
{
	static const char *const names[] = {
		"none", "bloom", "blocked", "elastic", "quotient", "cascade", "ribbon"
	};
	bool		good = true;

	for (uint32_t i = 0; i < 7; i++)
		good &= lsm_filter_scheme_name(i) != NULL && strcmp(lsm_filter_scheme_name(i), names[i]) == 0;
	good &= lsm_filter_scheme_name(7) == NULL;
	good &= lsm_filter_scheme_name(UINT32_MAX) == NULL;
	ok(good, "schemes and their names");
}

static void
test_arguments(void)
{
	static const double bad_bits[] = {0, 0.99, 64.01, -1, 1e300};
	LsmFilterParams params = {LSM_FILTER_BLOCKED, 10};
	LsmDigest	digest = digest_of(1);
	uint8_t    *image = alloc_or_die(4096);
	bool		good = true;

	for (size_t i = 0; i < sizeof(bad_bits) / sizeof(bad_bits[0]); i++)
	{
		params.bits_per_key = bad_bits[i];
		good &= lsm_filter_image_bytes(&params, 1, NULL) == 0;
		good &= lsm_filter_build(&params, &digest, 1, NULL, NULL, image, 4096) == LSM_FILTER_INVALID;
	}
	params.bits_per_key = NAN;
	good &= lsm_filter_image_bytes(&params, 1, NULL) == 0;
	params.scheme = LSM_FILTER_NONE;	/* does not use it */
	good &= lsm_filter_image_bytes(&params, 1000, NULL) == 64;
	params.bits_per_key = 10;
	params.scheme = LSM_FILTER_ELASTIC;
	good &= lsm_filter_image_bytes(&params, 1, NULL) == 0;
	params.scheme = (LsmFilterScheme) 99;
	good &= lsm_filter_image_bytes(&params, 1, NULL) == 0;
	ok(good, "parameters out of range are refused");

	params.scheme = LSM_FILTER_BLOCKED;
	good = lsm_filter_image_bytes(&params, UINT64_MAX, NULL) == 0;
	good &= lsm_filter_image_bytes(&params, (UINT64_C(1) << 40) + 1, NULL) == 0;
	good &= lsm_filter_image_bytes(&params, UINT64_C(1) << 30, NULL) == 64 + (UINT64_C(10) << 30) / 8;
	good &= lsm_filter_image_bytes(&params, 1, NULL) == 128;
	good &= lsm_filter_build(&params, &digest, 1, NULL, NULL, image, 127) == LSM_FILTER_INVALID;
	good &= lsm_filter_build(&params, &digest, 1, NULL, NULL, image, 0) == LSM_FILTER_INVALID;
	good &= lsm_filter_build(&params, &digest, 1, NULL, NULL, image, 128) == LSM_FILTER_OK;
	ok(good, "sizes");
	free(image);
}

/* The file format: these numbers change only with the format version. */
static void
test_golden(void)
{
	static const struct
	{
		LsmFilterScheme scheme;
		double		bits_per_key;
		uint64_t	checksum;
	}			golden[] = {
		{LSM_FILTER_NONE, 0, UINT64_C(0xb28e80d1940daf6a)},
		{LSM_FILTER_BLOOM, 10, UINT64_C(0xce0ba602a924290f)},
		{LSM_FILTER_BLOCKED, 10, UINT64_C(0x3cd10bbe0585448d)},
		{LSM_FILTER_BLOCKED, 30, UINT64_C(0x9c03b9ad4ebff1cf)},
	};

	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++)
	{
		Image		image;
		bool		good = build_image(&image, golden[i].scheme, golden[i].bits_per_key, 0, 1000);
		uint64_t	checksum = XXH3_64bits(image.memory, image.bytes);

		ok(good && checksum == golden[i].checksum,
		   "image of %s, %g bits per key, is what it was: %016" PRIx64,
		   lsm_filter_scheme_name(golden[i].scheme), golden[i].bits_per_key, checksum);
		free(image.memory);
	}
}

/* ---- no false negative ---- */

static void
test_members(LsmFilterScheme scheme, double bits_per_key, uint64_t n)
{
	Image		image;
	bool		good = build_image(&image, scheme, bits_per_key, 7, n);
	uint64_t	lost = 0;
	uint64_t	lost_portable = 0;

	for (uint64_t i = 0; i < n; i++)
	{
		LsmDigest	digest = digest_of(7 + i);

		lsm_filter_prefetch(&image.filter, digest);
		lost += !lsm_filter_probe(&image.filter, digest);
		if (scheme == LSM_FILTER_BLOCKED)
			lost_portable += !lsm_blocked_probe_portable(&image.filter, digest);
	}
	ok(good && lost == 0 && lost_portable == 0,
	   "no false negative of %" PRIu64 " keys, %s, %g bits per key",
	   n, lsm_filter_scheme_name(scheme), bits_per_key);
	free(image.memory);
}

static void
test_duplicates(LsmFilterScheme scheme)
{
	LsmFilterParams params = {scheme, 10};
	LsmDigest	digests[300];
	uint64_t	image[64];
	size_t		bytes = lsm_filter_image_bytes(&params, 300, NULL);
	LsmFilter	filter;
	bool		good = bytes > 0 && bytes <= sizeof(image);

	for (int i = 0; i < 300; i++)
		digests[i] = digest_of((uint64_t) (i * 7919 % 3));
	good &= lsm_filter_build(&params, digests, 300, NULL, NULL, image, bytes) == LSM_FILTER_OK;
	good &= lsm_filter_open(image, bytes, true, &filter, NULL) == LSM_FILTER_OK;
	for (int i = 0; i < 3; i++)
		good &= lsm_filter_probe(&filter, digest_of((uint64_t) i));
	ok(good, "duplicates, %s", lsm_filter_scheme_name(scheme));

	good = lsm_filter_image_bytes(&params, 0, NULL) <= 128;
	bytes = lsm_filter_image_bytes(&params, 0, NULL);
	good &= lsm_filter_build(&params, NULL, 0, NULL, NULL, image, bytes) == LSM_FILTER_OK;
	good &= lsm_filter_open(image, bytes, true, &filter, NULL) == LSM_FILTER_OK;
	good &= lsm_filter_probe(&filter, 0) == (scheme == LSM_FILTER_NONE);
	good &= lsm_filter_probe(&filter, UINT64_MAX) == (scheme == LSM_FILTER_NONE);
	good &= lsm_filter_expected_fpr(&filter) == (scheme == LSM_FILTER_NONE ? 1.0 : 0.0);
	ok(good, "filter of no keys, %s", lsm_filter_scheme_name(scheme));
}

/* ---- false positive rate ---- */

/*
 * Measures over `nfilters` filters of n keys each, which averages the chance of
 * a small filter out, and compares with the mean of what they expect.
 */
static void
test_fpr(LsmFilterScheme scheme, double bits_per_key, uint64_t n, int nfilters)
{
	uint64_t	next_key = 0;
	double		expected = 0;
	uint64_t	probes = 0;
	uint64_t	positives = 0;
	uint64_t	wanted = WANTED_FALSE_POSITIVES / (uint64_t) nfilters;
	uint32_t	k = 0;
	double		ratio;
	bool		good = true;

	for (int f = 0; f < nfilters; f++)
	{
		Image		image;
		uint64_t	nprobes;

		good &= build_image(&image, scheme, bits_per_key, next_key, n);
		next_key += n;
		k = image.filter.probes;
		nprobes = (uint64_t) ((double) wanted / lsm_filter_expected_fpr(&image.filter)) + 1;
		expected += lsm_filter_expected_fpr(&image.filter) * (double) nprobes;
		for (uint64_t i = 0; i < nprobes; i++)
			positives += lsm_filter_probe(&image.filter, digest_of(next_key++));
		probes += nprobes;

		/* the size asked for, up to one line */
		good &= (double) image.filter.nbits >= bits_per_key * (double) n &&
			(double) image.filter.nbits < bits_per_key * (double) n + LSM_FILTER_LINE_BITS;
		free(image.memory);
	}
	ratio = (double) positives / expected;
	ok(good && ratio > 0.9 && ratio < 1.1,
	   "%s, %g bits per key, k = %u, %d x %" PRIu64 " keys: FPR %.3g, theory %.3g, ratio %.3f",
	   lsm_filter_scheme_name(scheme), bits_per_key, k, nfilters, n,
	   (double) positives / (double) probes, expected / (double) probes, ratio);
}

static void
test_fpr_all(LsmFilterScheme scheme)
{
	static const double bits[] = {4, 5.5, 6, 8, 10, 12, 14, 16};
	double		last = 1;
	bool		good = true;

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		test_fpr(scheme, bits[i], SHORT_FORM ? 100 * 1000 : 1000 * 1000, 1);
	test_fpr(scheme, 10, SHORT_FORM ? 400 * 1000 : 4 * 1000 * 1000, 1);
	/* small filters, where weak position schemes show */
	test_fpr(scheme, 10, 40, 500);
	test_fpr(scheme, 10, 1000, 100);
	test_fpr(scheme, 14, 200, 100);
	if (!SHORT_FORM)
		test_fpr(scheme, 20, 1000, 50);

	for (int b = 1; b <= 64; b++)
	{
		Image		image;
		LsmFilterParams params = {.scheme = scheme, .bits_per_key = b};

		good &= build_image(&image, scheme, b, 0, 512 * 8);
		good &= lsm_filter_planned_fpr(&params, 512 * 8) ==
			lsm_filter_expected_fpr(&image.filter);
		good &= lsm_filter_built_with(&image.filter, &params);
		params.bits_per_key += 0.5;
		good &= !lsm_filter_built_with(&image.filter, &params);
		good &= lsm_filter_expected_fpr(&image.filter) < last;
		last = lsm_filter_expected_fpr(&image.filter);
		free(image.memory);
	}
	ok(good, "FPR of %s falls from 1 to 64 bits per key, to %.2g", lsm_filter_scheme_name(scheme), last);
}

/* ---- vector and portable probe ---- */

static void
test_vector(void)
{
#ifdef LSM_FILTER_X86
	enum
	{
		LINES = 37
	};
	uint8_t    *bits = alloc_or_die(LINES * 64);
	uint64_t	seed = 2;
	bool		good = true;

	if (!lsm_cpu_has_avx2())
	{
		ok(true, "vector and portable probe # SKIP no AVX2");
		free(bits);
		return;
	}
	for (uint32_t k = 1; k <= 16; k++)
	{
		LsmFilter	filter = {
			.scheme = LSM_FILTER_BLOCKED, .probes = k, .nkeys = 1, .nbits = LINES * 512,
			.nblocks = LINES, .bits_per_key = 10, .bits = bits, .payload_bytes = LINES * 64
		};
		uint64_t	nyes = 0;
		uint64_t	nno = 0;

		/* so dense that about half of the answers are "maybe" */
		memset(bits, 0, LINES * 64);
		for (int pos = 0; pos < LINES * 512; pos++)
			if ((double) (random_next(&seed) >> 11) < pow(0.5, 1.0 / k) * 0x1p53)
				bits[pos / 8] |= (uint8_t) (1 << (pos % 8));
		for (int i = 0; i < 100 * 1000; i++)
		{
			uint64_t	digest = random_next(&seed);
			bool		answer;

			if (i < 64)			/* extremes of range reduction */
				digest = (digest & UINT32_MAX) | (i % 2 ? UINT64_C(0xffffffff00000000) : 0);
			else if (i < 128)
				digest = (digest & UINT64_C(0xffffffff00000000)) | (i % 2 ? UINT32_MAX : 0);
			answer = lsm_blocked_probe_portable(&filter, digest);
			good &= lsm_blocked_probe_avx2(&filter, digest) == answer;
			nyes += answer;
			nno += !answer;
		}
		good &= nyes > 20000 && nno > 20000;
	}
	ok(good, "vector and portable probe agree for k = 1..16");
	free(bits);
#else
	ok(true, "vector and portable probe # SKIP not x86");
#endif
}

/* ---- many digests at once ---- */

/* Half of the keys present; groups of all sizes, at all offsets. */
static void
test_group(LsmFilterScheme scheme, double bits_per_key)
{
	Image		image;
	bool		good = build_image(&image, scheme, bits_per_key, 0, 5000);
	uint64_t	nyes;
	uint64_t	nno;

	good &= group_answers(&image.filter, &nyes, &nno);
	good &= nyes > 20000 && (nno > 20000 || scheme == LSM_FILTER_NONE);
	ok(good, "a group of digests gets each one's answer, %s, %g bits per key",
	   lsm_filter_scheme_name(scheme), bits_per_key);
	free(image.memory);
}

/* ---- damaged images ---- */

/* A copy at an odd address whose end is the end of the allocation. */
static uint8_t *
copy_image(const uint8_t *memory, size_t bytes, uint8_t **allocation)
{
	*allocation = alloc_or_die(bytes + 1);
	memcpy(*allocation + 1, memory, bytes);
	return *allocation + 1;
}

static void
seal_header(uint8_t *image)
{
	uint64_t	checksum = XXH3_64bits(image, 60);

	for (int i = 0; i < 4; i++)
		image[60 + i] = (uint8_t) (checksum >> (8 * i));
}

static bool
is_corrupt(const uint8_t *image, size_t bytes, bool verify)
{
	LsmFilter	filter;
	const char *why = NULL;

	return lsm_filter_open(image, bytes, verify, &filter, &why) == LSM_FILTER_CORRUPT &&
		why != NULL && lsm_filter_probe(&filter, 1);
}

static void
test_damage(LsmFilterScheme scheme)
{
	const char *name = lsm_filter_scheme_name(scheme);
	Image		image;
	uint8_t    *copy;
	uint8_t    *allocation;
	uint64_t	seed = 3;
	bool		good = build_image(&image, scheme, 10, 0, 1000);
	LsmFilter	filter;

	for (size_t bytes = 0; bytes < image.bytes; bytes++)
	{
		copy = copy_image(image.memory, bytes, &allocation);
		good &= is_corrupt(copy, bytes, true) && is_corrupt(copy, bytes, false);
		free(allocation);
	}
	ok(good, "images truncated to every length are rejected, %s", name);

	good = true;
	copy = copy_image(image.memory, image.bytes, &allocation);
	for (int bit = 0; bit < 64 * 8; bit++)
	{
		copy[bit / 8] ^= (uint8_t) (1 << (bit % 8));
		/* the payload's checksum is not checked unless asked for */
		good &= is_corrupt(copy, image.bytes, true) && is_corrupt(copy, image.bytes, false);
		copy[bit / 8] ^= (uint8_t) (1 << (bit % 8));
	}
	for (int byte = 0; byte < 64; byte++)
	{
		copy[byte] = (uint8_t) ~copy[byte];
		good &= is_corrupt(copy, image.bytes, true) && is_corrupt(copy, image.bytes, false);
		copy[byte] = (uint8_t) ~copy[byte];
	}
	good &= lsm_filter_open(copy, image.bytes, true, &filter, NULL) == LSM_FILTER_OK;
	ok(good, "every bit and byte of the header flipped is rejected, %s", name);

	good = true;
	for (int i = 0; i < 2000 && image.bytes > 64; i++)
	{
		uint64_t	r = random_next(&seed);
		size_t		at = 64 + r % (image.bytes - 64);
		uint8_t		flip = (uint8_t) (1 << (r >> 61));

		copy[at] ^= flip;
		good &= is_corrupt(copy, image.bytes, true);
		good &= lsm_filter_open(copy, image.bytes, false, &filter, NULL) == LSM_FILTER_OK;
		for (int j = 0; j < 20; j++)
			(void) lsm_filter_probe(&filter, random_next(&seed));
		copy[at] ^= flip;
	}
	ok(good, "bits of the payload flipped are rejected, %s", name);
	free(allocation);

	/* garbage behind a good image is not part of it */
	allocation = alloc_or_die(image.bytes + 64);
	memset(allocation, 0, image.bytes + 64);
	memcpy(allocation, image.memory, image.bytes);
	ok(is_corrupt(allocation, image.bytes + 64, true) && is_corrupt(allocation, image.bytes + 1, false),
	   "longer images are rejected, %s", name);
	free(allocation);
	free(image.memory);
}

/* Headers with a right checksum and wrong contents. */
static void
test_hostile(LsmFilterScheme scheme)
{
	static const struct
	{
		int			at;
		int			bytes;
		uint64_t	value;
		LsmFilterStatus status;
	}			changes[] = {
		{8, 2, 0, LSM_FILTER_UNKNOWN},	/* version */
		{8, 2, 2, LSM_FILTER_UNKNOWN},
		{8, 2, 0x0100, LSM_FILTER_UNKNOWN},
		{10, 2, LSM_FILTER_ELASTIC, LSM_FILTER_CORRUPT},	/* scheme */
		{10, 2, 7, LSM_FILTER_UNKNOWN},
		{10, 2, 0xffff, LSM_FILTER_UNKNOWN},
		{12, 2, 2, LSM_FILTER_UNKNOWN}, /* digest id */
		{56, 4, 1, LSM_FILTER_UNKNOWN}, /* checked lines */
		{14, 2, 0, LSM_FILTER_CORRUPT}, /* probes */
		{14, 2, 45, LSM_FILTER_CORRUPT},
		{14, 2, 0xffff, LSM_FILTER_CORRUPT},
		{16, 8, 0, LSM_FILTER_CORRUPT}, /* bits per key */
		{16, 8, UINT64_C(0x7ff8000000000000), LSM_FILTER_CORRUPT},
		{16, 8, UINT64_MAX, LSM_FILTER_CORRUPT},
		{24, 8, UINT64_MAX, LSM_FILTER_CORRUPT},	/* keys */
		{32, 8, 0, LSM_FILTER_CORRUPT}, /* bits */
		{32, 8, 512, LSM_FILTER_CORRUPT},
		{32, 8, UINT64_MAX, LSM_FILTER_CORRUPT},
		{32, 8, UINT64_MAX - 511, LSM_FILTER_CORRUPT},
		{32, 8, UINT64_C(1) << 40, LSM_FILTER_CORRUPT},
		{40, 8, 0, LSM_FILTER_CORRUPT}, /* payload bytes */
		{40, 8, UINT64_MAX, LSM_FILTER_CORRUPT},
		{40, 8, UINT64_MAX - 63, LSM_FILTER_CORRUPT},
		{10, 2, LSM_FILTER_NONE, LSM_FILTER_CORRUPT},
	};
	Image		image;
	bool		good = build_image(&image, scheme, 10, 0, 1000);

	for (size_t c = 0; c < sizeof(changes) / sizeof(changes[0]); c++)
	{
		uint8_t    *allocation;
		uint8_t    *copy = copy_image(image.memory, image.bytes, &allocation);
		LsmFilter	filter;
		const char *why = NULL;
		LsmFilterStatus status;

		for (int i = 0; i < changes[c].bytes; i++)
			copy[changes[c].at + i] = (uint8_t) (changes[c].value >> (8 * i));
		seal_header(copy);
		status = lsm_filter_open(copy, image.bytes, false, &filter, &why);
		if (status != changes[c].status || why == NULL)
		{
			printf("# change %zu: status %d, %s\n", c, (int) status, why ? why : "no reason");
			good = false;
		}
		for (uint64_t i = 0; i < 100; i++)
		{
			lsm_filter_prefetch(&filter, digest_of(i << 40));
			good &= lsm_filter_probe(&filter, digest_of(i << 40));
		}
		good &= lsm_filter_expected_fpr(&filter) == 1.0;
		free(allocation);
	}
	ok(good, "headers that lie are rejected, unknown ones say maybe, %s", lsm_filter_scheme_name(scheme));

	/* no payload at all behind an intact header of an empty one */
	{
		uint8_t    *allocation;
		uint8_t    *copy = copy_image(image.memory, 64, &allocation);

		memset(copy + 32, 0, 16);
		seal_header(copy);
		ok(is_corrupt(copy, 64, false), "header without payload is rejected, %s", lsm_filter_scheme_name(scheme));
		free(allocation);
	}
	free(image.memory);
}

/* ---- bench ---- */

static double
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

typedef bool (*ProbeFn) (const LsmFilter *filter, LsmDigest digest);

/*
 * Fastest of five rounds, ns per probe.  `dependent`: each probe has to wait
 * for the answer of the last, so it is a latency.
 */
static double
bench_probe(ProbeFn probe, const LsmFilter *filter, const LsmDigest *digests,
			size_t n, bool dependent, uint64_t *positives)
{
	double		best = 1e300;

	for (int round = 0; round < 5; round++)
	{
		double		start = now_ns();
		uint64_t	yes = 0;

		/*
		 * two loops: one would be compiled without a branch, always dependent
		 */
		if (dependent)
			for (size_t i = 0; i < n; i++)
				yes += probe(filter, digests[i] + (yes & 1));
		else
			for (size_t i = 0; i < n; i++)
				yes += probe(filter, digests[i]);
		start = (now_ns() - start) / (double) n;
		best = start < best ? start : best;
		*positives += yes;
	}
	return best;
}

/*
 * A point lookup's share: one digest against `nfilters` filters, all lines
 * fetched before the first probe.  Ns per lookup.
 */
static double
bench_lookup(const LsmFilter *filters, int nfilters, const LsmDigest *digests,
			 size_t n, bool prefetch, uint64_t *positives)
{
	double		best = 1e300;

	for (int round = 0; round < 5; round++)
	{
		double		start = now_ns();
		uint64_t	yes = 0;

		for (size_t i = 0; i < n; i++)
		{
			LsmDigest	digest = digests[i] + (yes & 1);	/* one after the other */

			if (prefetch)
				for (int f = 0; f < nfilters; f++)
					lsm_filter_prefetch(&filters[f], digest);
			for (int f = 0; f < nfilters; f++)
				yes += lsm_filter_probe(&filters[f], digest);
		}
		start = (now_ns() - start) / (double) n;
		best = start < best ? start : best;
		*positives += yes;
	}
	return best;
}

static void
bench(void)
{
	static const uint64_t sizes[] = {20 * 1000, 200 * 1000, 100 * 1000 * 1000};
	static const double bits[] = {10, 16};
	enum
	{
		PROBES = 1000 * 1000
	};
	LsmDigest  *digests = alloc_or_die(PROBES * sizeof(LsmDigest));
	uint8_t    *data = alloc_or_die(4096 + 64);
	uint64_t	sink = 0;

	memset(data, 7, 4096 + 64);
	printf("digest, %s:", lsm_digest_isa());
	for (size_t length = 8; length <= 4096; length *= 2)
	{
		double		best = 1e300;

		for (int round = 0; round < 5; round++)
		{
			double		start = now_ns();

			for (int i = 0; i < 200 * 1000; i++)
				sink += lsm_digest_key(data + (i & 31), length);
			start = (now_ns() - start) / 200e3;
			best = start < best ? start : best;
		}
		printf(" %zu B %.1f ns", length, best);
	}
	printf("\n");

	for (int i = 0; i < PROBES; i++)
		digests[i] = digest_of(UINT64_C(1) << 40 | (uint64_t) i);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
	{
		for (size_t b = 0; b < sizeof(bits) / sizeof(bits[0]); b++)
		{
			for (int scheme = LSM_FILTER_BLOOM; scheme <= LSM_FILTER_BLOCKED; scheme++)
			{
				Image		image;
				double		start = now_ns();

				build_image(&image, (LsmFilterScheme) scheme, bits[b], 0, sizes[s]);
				start = now_ns() - start;
				printf("%s %g bits, k = %u, %.1f MB (built in %.1f ns/key with digests and checksums): "
					   "absent %.1f ns, dependent %.1f ns",
					   lsm_filter_scheme_name((uint32_t) scheme), bits[b], image.filter.probes,
					   (double) image.bytes / 1e6, start / (double) sizes[s],
					   bench_probe(lsm_filter_probe, &image.filter, digests, PROBES, false, &sink),
					   bench_probe(lsm_filter_probe, &image.filter, digests, PROBES, true, &sink));
				if (scheme == LSM_FILTER_BLOCKED)
					printf("; portable %.1f ns, dependent %.1f ns",
						   bench_probe(lsm_blocked_probe_portable, &image.filter, digests, PROBES, false, &sink),
						   bench_probe(lsm_blocked_probe_portable, &image.filter, digests, PROBES, true, &sink));
				printf("\n");
				fflush(stdout);
				free(image.memory);
			}
		}
	}
	for (int scheme = LSM_FILTER_BLOOM; scheme <= LSM_FILTER_BLOCKED; scheme++)
	{
		for (uint64_t n = 20 * 1000; n <= 20 * 1000 * 1000; n *= 1000)
		{
			Image		images[6];
			LsmFilter	filters[6];

			for (int f = 0; f < 6; f++)
			{
				build_image(&images[f], (LsmFilterScheme) scheme, 10, (uint64_t) f << 32, n);
				filters[f] = images[f].filter;
			}
			printf("lookup in 6 %s filters of %.1f MB: %.1f ns, with prefetch %.1f ns\n",
				   lsm_filter_scheme_name((uint32_t) scheme), (double) images[0].bytes / 1e6,
				   bench_lookup(filters, 6, digests, PROBES, false, &sink),
				   bench_lookup(filters, 6, digests, PROBES, true, &sink));
			fflush(stdout);
			for (int f = 0; f < 6; f++)
				free(images[f].memory);
		}
	}
	printf("# %" PRIu64 "\n", sink);
	free(digests);
	free(data);
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--bench") == 0)
	{
		bench();
		return 0;
	}

	test_digest();
	test_schemes();
	test_arguments();
	test_golden();
	test_members(LSM_FILTER_NONE, 10, MEMBER_KEYS);
	test_members(LSM_FILTER_BLOOM, 10, MEMBER_KEYS);
	test_members(LSM_FILTER_BLOCKED, 10, MEMBER_KEYS);
	test_members(LSM_FILTER_BLOOM, 1, MEMBER_KEYS / 4);
	test_members(LSM_FILTER_BLOCKED, 1, MEMBER_KEYS / 4);
	test_members(LSM_FILTER_BLOOM, 30.7, MEMBER_KEYS / 4);
	test_members(LSM_FILTER_BLOCKED, 30.7, MEMBER_KEYS / 4);
	for (int scheme = LSM_FILTER_NONE; scheme <= LSM_FILTER_BLOCKED; scheme++)
		test_duplicates((LsmFilterScheme) scheme);
	test_fpr_all(LSM_FILTER_BLOOM);
	test_fpr_all(LSM_FILTER_BLOCKED);
	test_vector();
	test_group(LSM_FILTER_NONE, 10);
	test_group(LSM_FILTER_BLOOM, 10);
	test_group(LSM_FILTER_BLOCKED, 10);
	test_group(LSM_FILTER_BLOCKED, 30.7);
	test_group(LSM_FILTER_QUOTIENT, 10);
	for (int scheme = LSM_FILTER_NONE; scheme <= LSM_FILTER_BLOCKED; scheme++)
		test_damage((LsmFilterScheme) scheme);
	test_hostile(LSM_FILTER_BLOOM);
	test_hostile(LSM_FILTER_BLOCKED);

	printf("1..%d\n", ntests);
	if (nfailed > 0)
		printf("# %d of %d tests failed\n", nfailed, ntests);
	return nfailed > 0 ? 1 : 0;
}
