/*-------------------------------------------------------------------------
 *
 * ribbon_test.c
 *	  Unit test of scheme ribbon.  Prints TAP; exit status 1 if a test failed.
 *
 * All data come from fixed seeds: the same run everywhere.
 *
 *-------------------------------------------------------------------------
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "filter/filter_private.h"
#include "tap.h"

#include "filter_image.h"

#define MANY_KEYS	(SHORT_FORM ? 200 * 1000 : 4 * 1000 * 1000)

/* Of these digests, which are left in another order.  Free image->memory. */
static bool
build(Image *image, double bits_per_key, LsmDigest *digests, uint64_t n)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_RIBBON, .bits_per_key = bits_per_key};
	size_t		work_bytes = lsm_filter_work_bytes(&params, n);
	void	   *work = alloc_or_die(work_bytes);
	const char *why;
	bool		good = work_bytes > 0 && work_bytes <= LSM_FILTER_WORK_MAX;

	image->bytes = lsm_filter_image_bytes(&params, n, NULL);
	image->memory = alloc_or_die(image->bytes);
	memset(image->memory, 0xa5, image->bytes);
	memset(work, 0xa5, work_bytes);
	good &= lsm_filter_build(&params, digests, n, NULL, work, image->memory, image->bytes) == LSM_FILTER_OK;
	good &= lsm_filter_open(image->memory, image->bytes, true, &image->filter, &why) == LSM_FILTER_OK;
	free(work);
	return good;
}

/* Of the keys first .. first + n - 1 */
static bool
build_keys(Image *image, double bits_per_key, uint64_t first, uint64_t n)
{
	LsmDigest  *digests = alloc_or_die(n * sizeof(LsmDigest));
	bool		good;

	for (uint64_t i = 0; i < n; i++)
		digests[i] = digest_of(first + i);
	good = build(image, bits_per_key, digests, n);
	free(digests);
	return good;
}

static uint64_t
count_lost(const LsmFilter *filter, uint64_t first, uint64_t n)
{
	uint64_t	lost = 0;

	for (uint64_t i = 0; i < n; i++)
	{
		LsmDigest	digest = digest_of(first + i);

		lsm_filter_prefetch(filter, digest);
		lost += !lsm_filter_probe(filter, digest);
	}
	return lost;
}

/* The file format: these numbers change only with the format version. */
static void
test_golden(void)
{
	static const struct
	{
		double		bits_per_key;
		uint64_t	n;
		uint64_t	checksum;
	}			golden[] = {
		{7, 1000, UINT64_C(0x7725a2d57443b21a)},
		{10.3, 70000, UINT64_C(0x65c61dea631fda10)},
	};

	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++)
	{
		Image		image;
		bool		good = build_keys(&image, golden[i].bits_per_key, 0, golden[i].n);
		uint64_t	checksum = XXH3_64bits(image.memory, image.bytes);

		ok(good && checksum == golden[i].checksum,
		   "image of %" PRIu64 " keys, %g bits per key, is what it was: %016" PRIx64,
		   golden[i].n, golden[i].bits_per_key, checksum);
		free(image.memory);
	}
}

/*
 * No false negative, the size that was asked for, and the rate of the closed
 * form: over `filters` of n keys, whose chance averages out.
 */
static void
test_rate(double bits_per_key, uint64_t n, int filters, double tolerance)
{
	double		expected = 0;
	double		positives = 0;
	double		wanted = (SHORT_FORM ? 2500.0 : 10000.0) / filters;
	uint64_t	lost = 0;
	uint64_t	next = 0;
	double		bits = 0;
	bool		good = true;

	for (int i = 0; i < filters; i++)
	{
		Image		image;
		double		fpr;
		uint64_t	probes;

		good &= build_keys(&image, bits_per_key, next, n);
		lost += count_lost(&image.filter, next, n);
		next += n;
		fpr = lsm_filter_expected_fpr(&image.filter);
		probes = (uint64_t) (wanted / fpr) + 1;
		if (probes > 20 * 1000 * 1000)
			probes = 20 * 1000 * 1000;
		expected += fpr * (double) probes;
		for (uint64_t j = 0; j < probes; j++)
			positives += lsm_filter_probe(&image.filter, digest_of(next++));
		bits += (double) (image.bytes - LSM_FILTER_HEADER_BYTES) * 8 / (double) n / filters;
		free(image.memory);
	}

	/* not larger than asked for, unless there are few keys */
	good &= n < 20000 || (bits < bits_per_key * 1.001 + 1024.0 / (double) n &&
						  bits > bits_per_key * 0.99);
	ok(good && lost == 0 && fabs(positives / expected - 1) <= tolerance + 4 / sqrt(expected),
	   "%g bits per key (%.2f), %d x %" PRIu64 " keys: %" PRIu64 " lost, FPR %.3f of theory",
	   bits_per_key, bits, filters, n, lost, positives / expected);
}

static void
test_rates(void)
{
	static const double bits[] = {1, 2.5, 4, 7, 8.5, 10, 12};

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		test_rate(bits[i], SHORT_FORM ? 100 * 1000 : 1000 * 1000, 1, 0.05);
	test_rate(7, MANY_KEYS, 1, 0.05);
	/* no row depends on others by chance here: the rate would be many times larger */
	if (!SHORT_FORM)
		test_rate(20, 1000 * 1000, 1, 0.3);
	test_rate(10, 40, 100, 0.1);
	test_rate(10, 97, 100, 0.1);
	test_rate(7, 1000, 100, 0.1);
	test_rate(7, 65000, SHORT_FORM ? 2 : 10, 0.05);
}

/* Every size from 0 on builds, opens, and has its keys. */
static void
test_sizes(void)
{
	static const double bits[] = {1, 4, 6.5, 10, 33.3, 64};
	bool		good = true;

	for (size_t b = 0; b < sizeof(bits) / sizeof(bits[0]); b++)
	{
		for (uint64_t n = 0; n < 5000; n += n < 300 ? 1 : 131)
		{
			Image		image;

			good &= build_keys(&image, bits[b], 1000 * n, n);
			good &= count_lost(&image.filter, 1000 * n, n) == 0;
			good &= n > 0 || (!lsm_filter_probe(&image.filter, 0) &&
							  lsm_filter_expected_fpr(&image.filter) == 0);
			free(image.memory);
		}
	}
	ok(good, "no key lost at any size from 0 to 5000");

	/* around the ends of parts, which are of 65536 slots */
	good = true;
	for (uint64_t n = 60000; n < 68000; n += SHORT_FORM ? 2500 : 250)
	{
		Image		image;

		good &= build_keys(&image, 5, n, n) && count_lost(&image.filter, n, n) == 0;
		free(image.memory);
	}
	ok(good, "no key lost where one part becomes two");

	good = true;
	for (double b = 1; b <= 64; b += 0.5)
	{
		uint64_t	n = 1;

		for (int i = 0; i < 41 * 8 && n <= UINT64_C(1) << 40; i++, n += n / 9 + 1)
		{
			LsmFilterParams params = {.scheme = LSM_FILTER_RIBBON, .bits_per_key = b};
			LsmFilter	filter;

			good &= lsm_filter_plan(&params, n, &filter);
			good &= lsm_ribbon_ops.check(&filter) == NULL;
			good &= lsm_ribbon_ops.work_bytes(&filter) <= LSM_FILTER_WORK_MAX;
		}
	}
	ok(good, "geometry holds up to 2^40 keys");
}

/* ---- digests that are not random ---- */

static void
check_digests(const char *what, const LsmDigest *digests, uint64_t n)
{
	LsmDigest  *copy = alloc_or_die(n * sizeof(LsmDigest));
	Image		image;
	uint64_t	lost = 0;
	bool		good;

	memcpy(copy, digests, n * sizeof(LsmDigest));
	good = build(&image, 8, copy, n);
	for (uint64_t i = 0; i < n; i++)
		lost += !lsm_filter_probe(&image.filter, digests[i]);
	ok(good && lost == 0, "no key lost: %s", what);
	free(copy);
	free(image.memory);
}

static void
test_digests(void)
{
	enum
	{
		N = 100 * 1000
	};
	LsmDigest  *digests = alloc_or_die(N * sizeof(LsmDigest));

	for (uint64_t i = 0; i < N; i++)
		digests[i] = digest_of(1);
	check_digests("one digest, many times", digests, N);
	for (uint64_t i = 0; i < N; i++)
		digests[i] = digest_of(i / 2);
	check_digests("each digest twice", digests, N);
	for (uint64_t i = 0; i < N; i++)
		digests[i] = i;
	check_digests("0, 1, 2, .., which all start in the first slot", digests, N);
	for (uint64_t i = 0; i < N; i++)
		digests[i] = UINT64_MAX - i;
	check_digests("all start in the last slot", digests, N);
	for (uint64_t i = 0; i < N; i++)
		digests[i] = digest_of(i) >> 10 | UINT64_C(1) << 63;
	check_digests("all in a thousandth of the slots", digests, N);
	free(digests);
}

static void
test_order(void)
{
	enum
	{
		N = 30 * 1000
	};
	LsmDigest  *digests = alloc_or_die(N * sizeof(LsmDigest));
	Image		up;
	Image		down;
	bool		good;

	for (uint64_t i = 0; i < N; i++)
		digests[i] = digest_of(i);
	good = build(&up, 9, digests, N);
	for (uint64_t i = 0; i < N; i++)
		digests[i] = digest_of(N - 1 - i);
	good &= build(&down, 9, digests, N);
	ok(good && up.bytes == down.bytes && memcmp(up.memory, down.memory, up.bytes) == 0,
	   "the same keys in another order make the same bytes");
	free(digests);
	free(up.memory);
	free(down.memory);
}

/* ---- arguments, groups ---- */

static void
test_arguments(void)
{
	LsmFilterParams params = {.scheme = LSM_FILTER_RIBBON, .bits_per_key = 10};
	LsmFilterParams other = {.scheme = LSM_FILTER_BLOCKED, .bits_per_key = 10};
	LsmDigest	digests[100];
	uint8_t    *image = alloc_or_die(4096);
	void	   *work = alloc_or_die(lsm_filter_work_bytes(&params, 100));
	size_t		bytes = lsm_filter_image_bytes(&params, 100, NULL);
	bool		good = bytes > 0 && bytes <= 4096;

	for (uint64_t i = 0; i < 100; i++)
		digests[i] = digest_of(i);
	good &= lsm_filter_work_bytes(&other, 100) == 0;
	good &= lsm_filter_build(&params, digests, 100, NULL, NULL, image, bytes) == LSM_FILTER_INVALID;
	good &= lsm_filter_build(&params, digests, 100, NULL, work, image, bytes - 1) == LSM_FILTER_INVALID;
	good &= lsm_filter_build(&params, digests, 100, NULL, work, image, bytes) == LSM_FILTER_OK;
	params.bits_per_key = 65;
	good &= lsm_filter_work_bytes(&params, 100) == 0;
	good &= lsm_filter_build(&params, digests, 100, NULL, work, image, 4096) == LSM_FILTER_INVALID;
	params.bits_per_key = 64;
	good &= lsm_filter_scheme_leads(LSM_FILTER_RIBBON);
	ok(good, "arguments");
	free(image);
	free(work);
}

/* Half of the keys present; groups of all sizes. */
static void
test_group(void)
{
	Image		image;
	bool		good = build_keys(&image, 9, 0, 5000);
	uint64_t	nyes;
	uint64_t	nno;

	good &= group_answers(&image.filter, &nyes, &nno);
	ok(good && nyes > 20000, "a group of digests gets each one's answer");
	free(image.memory);
}

/* ---- memory ---- */

/*
 * Bits per key at which the scheme errs as often as blocked filters of 10 bits
 * do.
 */
static void
test_memory(void)
{
	LsmFilterParams blocked = {.scheme = LSM_FILTER_BLOCKED, .bits_per_key = 10};
	LsmFilterParams ribbon = {.scheme = LSM_FILTER_RIBBON, .bits_per_key = 10};
	uint64_t	n = 1000 * 1000;
	double		rate = lsm_filter_planned_fpr(&blocked, n);
	double		last = 1;
	bool		falls = true;

	while (lsm_filter_planned_fpr(&ribbon, n) < rate)
		ribbon.bits_per_key -= 0.01;
	ribbon.bits_per_key += 0.01;
	ok((double) lsm_filter_image_bytes(&ribbon, n, NULL) <=
	   0.72 * (double) lsm_filter_image_bytes(&blocked, n, NULL),
	   "%.2f bits per key err as often as 10 of blocked: %.4f", ribbon.bits_per_key, rate);
	for (int b = 1; b <= 64; b++)
	{
		ribbon.bits_per_key = b;
		rate = lsm_filter_planned_fpr(&ribbon, n);
		falls &= rate < last;
		last = rate;
	}
	ok(falls, "FPR falls from 1 to 64 bits per key, to %.2g", last);
}

/* ---- damaged images ---- */

static void
seal_header(uint8_t *image)
{
	put_le(image + 60, XXH3_64bits(image, 60) & UINT32_MAX, 4);
}

static void
test_damage(void)
{
	Image		image;
	uint64_t	seed = 3;
	bool		good = build_keys(&image, 10, 0, 3000);
	uint64_t	opened = 0;
	LsmFilter	filter;

	for (int i = 0; i < 2000; i++)
	{
		uint64_t	r = random_next(&seed);
		size_t		at = 64 + r % (image.bytes - 64);

		image.memory[at] ^= (uint8_t) (1 << (r >> 61));
		good &= lsm_filter_open(image.memory, image.bytes, true, &filter, NULL) == LSM_FILTER_CORRUPT;
		good &= lsm_filter_open(image.memory, image.bytes, false, &filter, NULL) == LSM_FILTER_OK;
		for (int j = 0; j < 20; j++)
			(void) lsm_filter_probe(&filter, random_next(&seed));
		image.memory[at] ^= (uint8_t) (1 << (r >> 61));
	}
	ok(good, "bits of the payload flipped are rejected, and no probe leaves it");

	/* numbers of the header that lie: refused, or of the size of the payload */
	for (int i = 0; i < 200 * 1000; i++)
	{
		uint8_t		header[LSM_FILTER_HEADER_BYTES];
		uint64_t	r = random_next(&seed);
		static const int at[] = {14, 15, 24, 32, 33, 34, 40, 41};

		memcpy(header, image.memory, sizeof(header));
		image.memory[at[r % 8]] = (uint8_t) (r >> 8);
		if (r & 0x10000)
			image.memory[at[(r >> 20) % 8]] = (uint8_t) (r >> 32);
		if (r & 0x20000)
			put_le(image.memory + 32, 128 * (1 + (r >> 40) % 100), 8);
		seal_header(image.memory);
		if (lsm_filter_open(image.memory, image.bytes, false, &filter, NULL) == LSM_FILTER_OK)
		{
			double		fpr = lsm_filter_expected_fpr(&filter);

			opened++;
			good &= fpr >= 0 && fpr <= 1;
			for (int j = 0; j < 20; j++)
				(void) lsm_filter_probe(&filter, random_next(&seed));
			(void) lsm_filter_probe(&filter, 0);
			(void) lsm_filter_probe(&filter, UINT64_MAX);
		}
		memcpy(image.memory, header, sizeof(header));
	}
	ok(good && opened > 100, "headers that lie: %" PRIu64 " were believed, and no probe left the payload", opened);
	good = lsm_filter_open(image.memory, image.bytes, true, &filter, NULL) == LSM_FILTER_OK;
	put_le(image.memory + 14, 65, 2);
	seal_header(image.memory);
	good &= lsm_filter_open(image.memory, image.bytes, false, &filter, NULL) == LSM_FILTER_CORRUPT;
	ok(good, "65 columns are refused");
	free(image.memory);
}

int
main(void)
{
	test_golden();
	test_rates();
	test_sizes();
	test_digests();
	test_order();
	test_arguments();
	test_group();
	test_memory();
	test_damage();
	printf("1..%d\n", ntests);
	return nfailed > 0;
}
