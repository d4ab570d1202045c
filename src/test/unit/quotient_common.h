/*-------------------------------------------------------------------------
 *
 * quotient_common.h
 *	  Shared by quotient_test.c and cascade_test.c: TAP, data, and the tests
 *	  that images of both schemes have to pass.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_QUOTIENT_COMMON_H
#define LSM_QUOTIENT_COMMON_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tap.h"

#include "filter_image.h"

/* From the keys first .. first + n - 1. */
static bool
build_image(Image *image, const LsmFilterParams *params, uint64_t first, uint64_t n)
{
	LsmDigest  *digests = alloc_or_die(n * sizeof(LsmDigest));
	bool		good;

	for (uint64_t i = 0; i < n; i++)
		digests[i] = digest_of(first + i);
	image->bytes = lsm_filter_image_bytes(params, n, NULL);
	image->memory = alloc_or_die(image->bytes);
	memset(image->memory, 0xa5, image->bytes);
	good = lsm_filter_build(params, digests, n, NULL, NULL, image->memory, image->bytes) == LSM_FILTER_OK &&
		lsm_filter_open(image->memory, image->bytes, true, &image->filter, NULL) == LSM_FILTER_OK;
	free(digests);
	return good;
}

/* ---- images: members, rate, size ---- */

static void
check_rate(LsmFilterScheme scheme, double bits_per_key, uint64_t n, uint64_t merge_keys)
{
	LsmFilterParams params = {scheme, bits_per_key, merge_keys};
	Image		image;
	bool		good = build_image(&image, &params, 0, n);
	double		expected = lsm_filter_expected_fpr(&image.filter);
	uint64_t	probes = (uint64_t) ((SHORT_FORM ? 2500 : 10000) / expected);
	uint64_t	positives = 0;
	uint64_t	lost = 0;
	double		bits = (double) image.bytes * 8 / (double) n;
	double		rate;

	if (probes > (SHORT_FORM ? 500 * 1000 : 8 * 1000 * 1000))
		probes = SHORT_FORM ? 500 * 1000 : 8 * 1000 * 1000;
	for (uint64_t i = 0; i < n; i++)
		lost += !lsm_filter_probe(&image.filter, digest_of(i));
	for (uint64_t i = 0; i < probes; i++)
		positives += lsm_filter_probe(&image.filter, digest_of(n + i));
	rate = (double) positives / (double) probes;
	good &= fabs((double) positives - expected * (double) probes) <
		0.05 * expected * (double) probes + 6 * sqrt(expected * (double) probes) + 1;
	/*
	 * no more than asked for, where a filter can do with that; pages lose up
	 * to 4%
	 */
	if (merge_keys == 0 && scheme == LSM_FILTER_QUOTIENT)
		good &= bits <= 1.01 * (bits_per_key < 4.5 ? 4.5 : bits_per_key);
	else if (merge_keys == 0)
		good &= bits - 2.0 * 8 * LSM_FILTER_PAGE_BYTES / (double) n <=
			1.04 * (bits_per_key < 4.5 ? 4.5 : bits_per_key);
	ok(good && lost == 0,
	   "%s, %g bits per key (%.2f), %" PRIu64 " keys, merge %" PRIu64 ", p = %u, r = %u: FPR %.3g, theory %.3g",
	   lsm_filter_scheme_name(scheme), bits_per_key, bits, n, merge_keys,
	   lsm_filter_fingerprint_bits(&image.filter), lsm_filter_remainder_bits(&image.filter),
	   rate, expected);
	free(image.memory);
}

/* Every size from 0 on builds, opens, and has its keys. */
static void
check_sizes(LsmFilterScheme scheme)
{
	static const double bits[] = {1, 4, 5, 6.5, 10, 20, 40, 64};
	bool		good = true;

	for (size_t b = 0; b < sizeof(bits) / sizeof(bits[0]); b++)
	{
		for (uint64_t n = 0; n < 3000; n += n < 200 ? 1 : 131)
		{
			LsmFilterParams params = {scheme, bits[b], n % 3 == 0 ? 0 : n << (n % 21)};
			Image		image;

			good &= build_image(&image, &params, 1000 * n, n);
			for (uint64_t i = 0; i < n; i++)
				good &= lsm_filter_probe(&image.filter, digest_of(1000 * n + i));
			good &= n > 0 || (!lsm_filter_probe(&image.filter, 0) &&
							  lsm_filter_expected_fpr(&image.filter) == 0);
			free(image.memory);
		}
	}
	ok(good, "%s: no key lost at any size from 0 to 3000", lsm_filter_scheme_name(scheme));

	good = true;
	for (double b = 1; b <= 64; b += 0.5)
	{
		uint64_t	n = 1;

		for (int i = 0; i < 41 * 8 && n <= UINT64_C(1) << 40; i++, n += n / 9 + 1)
		{
			LsmFilterParams params = {scheme, b, i % 2 == 0 ? 0 : n << (i % 12)};
			LsmFilter	filter;

			good &= lsm_filter_plan(&params, n, &filter);
			good &= (scheme == LSM_FILTER_QUOTIENT ? lsm_quotient_ops : lsm_cascade_ops).check(&filter) == NULL;
		}
	}
	ok(good, "%s: geometry holds up to 2^40 keys", lsm_filter_scheme_name(scheme));
}

static void
check_duplicates(LsmFilterScheme scheme)
{
	LsmFilterParams params = {scheme, 10, 0};
	LsmDigest	digests[300];
	size_t		bytes = lsm_filter_image_bytes(&params, 300, NULL);
	uint8_t    *memory = alloc_or_die(bytes);
	LsmFilter	filter;
	bool		good = true;

	for (int i = 0; i < 300; i++)
		digests[i] = digest_of((uint64_t) (i * 7919 % 3));
	good &= lsm_filter_build(&params, digests, 300, NULL, NULL, memory, bytes) == LSM_FILTER_OK;
	good &= lsm_filter_open(memory, bytes, true, &filter, NULL) == LSM_FILTER_OK;
	for (int i = 0; i < 3; i++)
		good &= lsm_filter_probe(&filter, digest_of((uint64_t) i));
	ok(good, "%s: duplicates", lsm_filter_scheme_name(scheme));
	good = lsm_filter_build(&params, digests, 300, NULL, NULL, memory, bytes - 1) == LSM_FILTER_INVALID;
	ok(good, "%s: a buffer too small is refused", lsm_filter_scheme_name(scheme));
	free(memory);
}

/* ---- images: damage ---- */

static void
seal(uint8_t *image)
{
	uint64_t	checksum = lsm_digest_key(image, 60);

	for (int i = 0; i < 4; i++)
		image[60 + i] = (uint8_t) (checksum >> (8 * i));
}

static void
check_damage(LsmFilterScheme scheme)
{
	LsmFilterParams params = {scheme, 10, 0};
	Image		image;
	uint64_t	seed = 11;
	uint64_t	sum = 0;
	bool		good = build_image(&image, &params, 0, 5000);
	LsmFilter	filter;

	for (size_t bytes = 0; bytes < image.bytes; bytes += bytes < 200 ? 1 : 97)
	{
		uint8_t    *copy = alloc_or_die(bytes);

		memcpy(copy, image.memory, bytes);
		good &= lsm_filter_open(copy, bytes, true, &filter, NULL) == LSM_FILTER_CORRUPT;
		good &= lsm_filter_open(copy, bytes, false, &filter, NULL) == LSM_FILTER_CORRUPT;
		good &= lsm_filter_probe(&filter, 1);
		free(copy);
	}
	ok(good, "%s: truncated images are rejected", lsm_filter_scheme_name(scheme));

	good = true;
	for (int i = 0; i < 1000; i++)
	{
		uint64_t	bit = random_next(&seed) % (image.bytes * 8);

		image.memory[bit / 8] ^= (uint8_t) (1 << (bit % 8));
		good &= lsm_filter_open(image.memory, image.bytes, true, &filter, NULL) == LSM_FILTER_CORRUPT;
		image.memory[bit / 8] ^= (uint8_t) (1 << (bit % 8));
	}
	ok(good, "%s: flipped bits are rejected", lsm_filter_scheme_name(scheme));

	/* geometry that lies under a right checksum: rejected, or harmless */
	for (int i = 0; i < 20000; i++)
	{
		static const int fields[] = {14, 15, 24, 32, 33, 34, 35, 40, 41, 42};
		uint8_t		saved[64];

		memcpy(saved, image.memory, 64);
		for (uint64_t j = random_next(&seed) % 3 + 1; j > 0; j--)
			image.memory[fields[random_next(&seed) % 10]] = (uint8_t) random_next(&seed);
		seal(image.memory);
		(void) lsm_filter_open(image.memory, image.bytes, false, &filter, NULL);
		for (int j = 0; j < 20; j++)
			sum += lsm_filter_probe(&filter, random_next(&seed));
		memcpy(image.memory, saved, 64);
	}
	ok(sum > 0, "%s: lying headers stay within bounds", lsm_filter_scheme_name(scheme));

	/* and any payload */
	sum = 0;
	for (int round = 0; round < 200; round++)
	{
		lsm_filter_open(image.memory, image.bytes, false, &filter, NULL);
		for (size_t i = 64; i < image.bytes; i++)
			image.memory[i] = round == 0 ? 0xff : round == 1 ? 0 :
				(uint8_t) (random_next(&seed) & random_next(&seed) >> round % 5);
		for (int j = 0; j < 500; j++)
		{
			LsmDigest	digest = random_next(&seed);

			lsm_filter_prefetch(&filter, digest);
			sum += lsm_filter_probe(&filter, digest);
		}
	}
	ok(sum > 0, "%s: any payload is probed within bounds", lsm_filter_scheme_name(scheme));
	free(image.memory);
}

/* ---- images: merging ---- */

/*
 * Inputs of both schemes with overlapping keys, into `scheme`: the same bytes
 * as by building.
 */
static void
check_merge(LsmFilterScheme scheme, uint64_t total, int ninputs, double bits_per_key)
{
	uint64_t	per_input = total / (uint64_t) ninputs;
	Image	   *inputs = alloc_or_die((size_t) ninputs * sizeof(Image));
	LsmFilter  *filters = alloc_or_die((size_t) ninputs * sizeof(LsmFilter));
	LsmFilterStream *work = alloc_or_die((size_t) ninputs * sizeof(LsmFilterStream));
	LsmFilterParams params = {scheme, bits_per_key, total};
	Image		built;
	uint8_t    *merged;
	bool		good = true;
	uint64_t	distinct = 0;
	size_t		used = 0;

	for (int i = 0; i < ninputs; i++)
	{
		LsmFilterParams input = {
			i % 2 == 0 ? LSM_FILTER_QUOTIENT : LSM_FILTER_CASCADE, bits_per_key, total
		};
		uint64_t	n = i % 5 == 4 ? 0 : per_input + per_input / 10;

		/* the last tenth is the next one's, too */
		good &= build_image(&inputs[i], &input, per_input * (uint64_t) i, n);
		filters[i] = inputs[i].filter;
		if (n > 0)
			distinct = per_input * (uint64_t) i + n;
	}
	/* keys of inputs left empty */
	for (int i = 4; i < ninputs; i += 5)
	{
		LsmFilterParams input = {LSM_FILTER_QUOTIENT, bits_per_key, total};

		free(inputs[i].memory);
		good &= build_image(&inputs[i], &input, per_input * (uint64_t) i, per_input);
		filters[i] = inputs[i].filter;
		if (distinct < per_input * (uint64_t) (i + 1))
			distinct = per_input * (uint64_t) (i + 1);
	}

	good &= build_image(&built, &params, 0, distinct);
	merged = alloc_or_die(built.bytes);
	memset(merged, 0x5a, built.bytes);
	good &= lsm_filter_merge(&params, distinct, filters, ninputs, work, merged, built.bytes, &used) == LSM_FILTER_OK;
	good &= used == built.bytes && memcmp(merged, built.memory, used) == 0;
	ok(good, "%s: merge of %d filters, %" PRIu64 " keys: the image that is built from the digests",
	   lsm_filter_scheme_name(scheme), ninputs, distinct);

	/* wishes that the inputs cannot fulfil are cut back to what they can */
	params.merge_keys = total * 1000;
	{
		size_t		room = lsm_filter_image_bytes(&params, distinct, NULL);
		uint8_t    *larger = alloc_or_die(room);
		LsmFilter	filter;

		good = lsm_filter_merge(&params, distinct, filters, ninputs, work, larger, room, &used) == LSM_FILTER_OK &&
			used <= room && lsm_filter_open(larger, used, true, &filter, NULL) == LSM_FILTER_OK;
		for (uint64_t i = 0; i < distinct; i++)
			good &= lsm_filter_probe(&filter, digest_of(i));
		free(larger);
	}
	ok(good, "%s: merge into a filter that is to grow", lsm_filter_scheme_name(scheme));

	/* what cannot be merged */
	params.bits_per_key = 40;
	good = lsm_filter_merge(&params, distinct, filters, ninputs, work, merged, built.bytes, &used) == LSM_FILTER_INVALID;
	params.bits_per_key = bits_per_key;
	params.merge_keys = total;
	good &= lsm_filter_merge(&params, distinct, filters, ninputs, work, merged, built.bytes - 1, &used) == LSM_FILTER_INVALID;
	params.scheme = LSM_FILTER_BLOCKED;
	good &= lsm_filter_merge(&params, distinct, filters, ninputs, work, merged, built.bytes, &used) == LSM_FILTER_INVALID;
	params.scheme = scheme;
	filters[0].scheme = LSM_FILTER_BLOOM;
	good &= lsm_filter_merge(&params, distinct, filters, ninputs, work, merged, built.bytes, &used) == LSM_FILTER_INVALID;
	filters[0].scheme = LSM_FILTER_QUOTIENT;
	if (ninputs > 1)
	{
		/* a damaged page of a cascade filter is noticed, whatever is in it */
		inputs[1].memory[4096 + 1000] ^= 4;
		good &= lsm_filter_merge(&params, distinct, filters, ninputs, work, merged, built.bytes, &used) == LSM_FILTER_CORRUPT;
	}
	ok(good, "%s: merges that cannot be are refused", lsm_filter_scheme_name(scheme));

	for (int i = 0; i < ninputs; i++)
		free(inputs[i].memory);
	free(inputs);
	free(filters);
	free(work);
	free(built.memory);
	free(merged);
}

static void
test_scheme(LsmFilterScheme scheme)
{
	static const double bits[] = {1, 4, 5, 6, 8, 10, 12, 16};

	for (size_t b = 0; b < sizeof(bits) / sizeof(bits[0]); b++)
		check_rate(scheme, bits[b], SHORT_FORM ? 100 * 1000 : 1000 * 1000, 0);
	check_rate(scheme, 10, SHORT_FORM ? 200 * 1000 : 1600 * 1000, 0);
	check_rate(scheme, 10, 200 * 1000, 800 * 1000);
	check_rate(scheme, 10, 2000, UINT64_C(1) << 30);
	check_sizes(scheme);
	check_duplicates(scheme);
	check_damage(scheme);
	check_merge(scheme, SHORT_FORM ? 60 * 1000 : 600 * 1000, 1, 10);
	check_merge(scheme, SHORT_FORM ? 60 * 1000 : 600 * 1000, 7, 10);
	check_merge(scheme, SHORT_FORM ? 60 * 1000 : 600 * 1000, 13, 5);
}

#endif							/* LSM_QUOTIENT_COMMON_H */
