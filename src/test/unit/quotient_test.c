/*-------------------------------------------------------------------------
 *
 * quotient_test.c
 *	  Unit test of quotient filters: the data structure against a reference
 *	  multiset, and the images of scheme quotient.  Prints TAP; exit status 1
 *	  if a test failed.
 *
 * All data come from fixed seeds: the same run everywhere.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <math.h>

#include "filter/quotient_merge.h"
#include "filter/quotient_private.h"
#include "quotient_common.h"

/* ---- the data structure against a reference multiset ---- */

/* Counts by fingerprint; domains are small, so that clusters get long. */
typedef struct Model
{
	uint32_t	fingerprint_bits;
	uint64_t	total;
	uint32_t   *counts;
} Model;

static LsmDigest
digest_with(uint64_t fingerprint, uint32_t fingerprint_bits, uint64_t *seed)
{
	return fingerprint << (64 - fingerprint_bits) | random_next(seed) >> fingerprint_bits;
}

/* Contents in order, every lookup, the count. */
static bool
agrees(const LsmQuotient *filter, const Model *model, uint64_t *seed)
{
	LsmQuotientCursor cursor;
	uint64_t	domain = UINT64_C(1) << model->fingerprint_bits;
	uint64_t	fingerprint;
	uint64_t	found = 0;
	bool		good = filter->count == model->total;

	lsm_quotient_cursor_open(&cursor, filter);
	for (uint64_t f = 0; f < domain; f++)
	{
		for (uint32_t i = 0; i < model->counts[f]; i++)
		{
			good &= lsm_quotient_cursor_next(&cursor, &fingerprint) && fingerprint == f;
			found++;
			if (!good)
				return false;
		}
		good &= lsm_quotient_lookup(filter, digest_with(f, model->fingerprint_bits, seed)) ==
			(model->counts[f] > 0);
	}
	good &= !lsm_quotient_cursor_next(&cursor, &fingerprint) && !cursor.damaged;
	return good && found == model->total;
}

/*
 * Inserts and deletes that push the filter to `load` of its slots and back, and
 * towards the fingerprints near `hot`, some of which go around the end.
 */
static void
test_model(uint32_t q, uint32_t r, double load, uint64_t seed)
{
	Model		model = {q + r, 0, NULL};
	uint64_t	domain = UINT64_C(1) << (q + r);
	uint64_t	nslots = UINT64_C(1) << q;
	void	   *data = alloc_or_die(lsm_quotient_size(q, r));
	LsmQuotient filter;
	bool		good = lsm_quotient_init(&filter, q, r, data);
	uint64_t	wanted = (uint64_t) ((double) nslots * load);
	int			steps = SHORT_FORM ? 4000 : 20000;

	model.counts = alloc_or_die(domain * sizeof(uint32_t));
	memset(model.counts, 0, domain * sizeof(uint32_t));
	for (int i = 0; i < steps && good; i++)
	{
		bool		filling = (i / (int) (nslots * 4)) % 2 == 0;
		uint64_t	f = random_next(&seed) % domain;

		/* clusters that go around the end, and equal fingerprints */
		if (random_next(&seed) % 3 == 0)
			f = (domain - 1 - random_next(&seed) % (domain / 16)) % domain;
		if (random_next(&seed) % 8 == 0)
			f &= ~(uint64_t) 7;
		if (random_next(&seed) % 4 < (filling ? 3 : 1))
		{
			bool		room = model.total < nslots;

			if (model.total >= wanted && room)
				continue;
			good &= lsm_quotient_insert(&filter, digest_with(f, q + r, &seed)) == room;
			model.counts[f] += room;
			model.total += room;
		}
		else
		{
			good &= lsm_quotient_delete(&filter, digest_with(f, q + r, &seed)) ==
				(model.counts[f] > 0);
			if (model.counts[f] > 0)
			{
				model.counts[f]--;
				model.total--;
			}
		}
		if (i % 97 == 0)
			good &= agrees(&filter, &model, &seed);
	}
	good &= agrees(&filter, &model, &seed);

	/* until nothing is left, not even a bit */
	for (uint64_t f = 0; f < domain; f++)
	{
		while (good && model.counts[f] > 0)
		{
			good &= lsm_quotient_delete(&filter, digest_with(f, q + r, &seed));
			model.counts[f]--;
		}
	}
	for (uint64_t i = 0; i < lsm_quotient_size(q, r); i++)
		good &= ((uint8_t *) data)[i] == 0;
	ok(good && filter.count == 0, "model: q = %u, r = %u, up to load %g", q, r, load);
	free(model.counts);
	free(data);
}

/* Full to the last slot, all of it one cluster. */
static void
test_full(void)
{
	uint64_t	data[64 * 8];
	LsmQuotient filter;
	bool		good = lsm_quotient_size(6, 5) <= sizeof(data) &&
		lsm_quotient_init(&filter, 6, 5, data);

	for (int i = 0; i < 64; i++)
		good &= lsm_quotient_insert(&filter, UINT64_MAX - (uint64_t) (i % 3) * (UINT64_MAX / 700));
	good &= !lsm_quotient_insert(&filter, 1);
	good &= lsm_quotient_lookup(&filter, UINT64_MAX) && !lsm_quotient_lookup(&filter, 0);
	good &= lsm_quotient_delete(&filter, UINT64_MAX);
	good &= lsm_quotient_insert(&filter, 1) && lsm_quotient_lookup(&filter, 1);
	good &= !lsm_quotient_insert(&filter, 1) && filter.count == 64;
	ok(good, "full filter");

	good = lsm_quotient_size(5, 5) == 0 && lsm_quotient_size(41, 5) == 0 &&
		lsm_quotient_size(10, 0) == 0 && lsm_quotient_size(10, 33) == 0 &&
		lsm_quotient_size(40, 23) == 0 && !lsm_quotient_init(&filter, 3, 3, data) &&
		lsm_quotient_size(10, 7) == 1024 * 10 / 8;
	ok(good, "sizes");
}

/* ---- merge and resize ---- */

static bool
same_contents(const LsmQuotient *a, const LsmQuotient *b)
{
	LsmQuotientCursor x;
	LsmQuotientCursor y;
	uint64_t	f = 0;
	uint64_t	g = 0;

	lsm_quotient_cursor_open(&x, a);
	lsm_quotient_cursor_open(&y, b);
	while (lsm_quotient_cursor_next(&x, &f))
	{
		if (!lsm_quotient_cursor_next(&y, &g) || f != g)
			return false;
	}
	return !lsm_quotient_cursor_next(&y, &g) && !x.damaged && !y.damaged &&
		a->count == b->count;
}

static void
test_merge(void)
{
	enum
	{
		INPUTS = 9
	};
	static const uint32_t splits[INPUTS] = {6, 7, 8, 9, 10, 11, 6, 12, 9};
	LsmQuotient inputs[INPUTS];
	LsmFilterStream work[INPUTS];
	LsmQuotient output;
	LsmQuotient reference;
	uint64_t	seed = 6;
	bool		good = true;

	/* the same 20 bits of fingerprint, split in many ways */
	lsm_quotient_init(&output, 13, 7, alloc_or_die(lsm_quotient_size(13, 7)));
	lsm_quotient_init(&reference, 13, 7, alloc_or_die(lsm_quotient_size(13, 7)));
	for (int i = 0; i < INPUTS; i++)
	{
		uint32_t	q = splits[i];
		uint64_t	n = (UINT64_C(1) << q) * (uint64_t) (i % 4) / 4;

		good &= lsm_quotient_init(&inputs[i], q, 20 - q,
								  alloc_or_die(lsm_quotient_size(q, 20 - q)));
		while (n-- > 0)
		{
			LsmDigest	digest = random_next(&seed);

			if (n % 16 == 0)
				digest = UINT64_MAX - digest % (UINT64_C(1) << 50);
			good &= lsm_quotient_insert(&inputs[i], digest);
			good &= lsm_quotient_insert(&reference, digest);
		}
	}
	good &= lsm_quotient_merge(inputs, INPUTS, work, &output);
	ok(good && same_contents(&output, &reference), "merge of %d filters, %" PRIu64 " fingerprints",
	   INPUTS, output.count);
	good = memcmp(output.data, reference.data, lsm_quotient_size(13, 7)) == 0;
	ok(good, "and the same bytes as by inserting");

	/* resize: down to 2 bits of remainder, back again */
	{
		LsmQuotient small = reference;
		LsmQuotient large;

		good = true;
		for (uint32_t q = 14; q <= 18; q++)
		{
			good &= lsm_quotient_resize(&small, true, &large, alloc_or_die(lsm_quotient_size(q, 20 - q)));
			good &= same_contents(&large, &reference) && large.remainder_bits == 20 - q;
			if (small.data != reference.data)
				free(small.data);
			small = large;
		}
		for (uint32_t q = 17; q >= 13; q--)
		{
			good &= lsm_quotient_resize(&small, false, &large, alloc_or_die(lsm_quotient_size(q, 20 - q)));
			good &= same_contents(&large, &reference);
			free(small.data);
			small = large;
		}
		good &= memcmp(small.data, reference.data, lsm_quotient_size(13, 7)) == 0;
		free(small.data);
		ok(good, "resize bit by bit and back");
	}

	/* no room, no bits */
	{
		LsmQuotient tiny;
		uint64_t	data[64];

		lsm_quotient_init(&tiny, 6, 14, data);
		good = !lsm_quotient_merge(inputs, INPUTS, work, &tiny);
		lsm_quotient_init(&tiny, 6, 15, data);
		good &= !lsm_quotient_merge(inputs, INPUTS, work, &tiny);
		good &= !lsm_quotient_resize(&reference, false, &tiny, data);
		ok(good, "merges that cannot be are refused");
	}
	for (int i = 0; i < INPUTS; i++)
		free(inputs[i].data);
	free(output.data);
	free(reference.data);
}

/* ---- false positive rate of the structure ---- */

static void
test_fpr(uint32_t q, uint32_t r, double load)
{
	LsmQuotient filter;
	uint64_t	n = (uint64_t) ((double) (UINT64_C(1) << q) * load);
	uint64_t	probes = SHORT_FORM ? 400 * 1000 : 4 * 1000 * 1000;
	uint64_t	positives = 0;
	uint64_t	lost = 0;
	double		rate;
	double		expected;
	double		noise;

	lsm_quotient_init(&filter, q, r, alloc_or_die(lsm_quotient_size(q, r)));
	for (uint64_t i = 0; i < n; i++)
		lost += !lsm_quotient_insert(&filter, digest_of(i));
	for (uint64_t i = 0; i < n; i++)
		lost += !lsm_quotient_lookup(&filter, digest_of(i));
	for (uint64_t i = 0; i < probes; i++)
		positives += lsm_quotient_lookup(&filter, digest_of(n + i));
	rate = (double) positives / (double) probes;
	expected = lsm_quotient_expected_fpr(n, q + r);
	noise = 4 / sqrt(expected * (double) probes);
	ok(lost == 0 && rate <= ldexp(1, -(int) r) && fabs(rate / expected - 1) < 0.02 + noise,
	   "q = %u, r = %u, load %g: FPR %.3g <= 2^-r = %.3g, theory %.3g, no key lost",
	   q, r, load, rate, ldexp(1, -(int) r), expected);
	free(filter.data);
}

/* Many keys: insert, find, delete every other one, find the rest. */
static void
test_members(uint32_t q, uint32_t r, uint64_t n)
{
	LsmQuotient filter;
	uint64_t	lost = 0;

	lsm_quotient_init(&filter, q, r, alloc_or_die(lsm_quotient_size(q, r)));
	for (uint64_t i = 0; i < n; i++)
		lost += !lsm_quotient_insert(&filter, digest_of(i));
	for (uint64_t i = 0; i < n; i++)
	{
		lsm_quotient_prefetch(&filter, digest_of(i));
		lost += !lsm_quotient_lookup(&filter, digest_of(i));
	}
	for (uint64_t i = 0; i < n; i += 2)
		lost += !lsm_quotient_delete(&filter, digest_of(i));
	for (uint64_t i = 1; i < n; i += 2)
		lost += !lsm_quotient_lookup(&filter, digest_of(i));
	ok(lost == 0 && filter.count == n / 2,
	   "no false negative of %" PRIu64 " keys, half of them deleted again", n);
	free(filter.data);
}

/* With and without a population count: the same bytes, the same answers. */
static void
test_baseline(void)
{
	enum
	{
		Q = 12,
		R = 7
	};
	uint64_t	bytes = lsm_quotient_size(Q, R);
	LsmQuotient filter;
	LsmQuotient baseline;
	uint64_t	seed = 8;
	bool		good = true;

	lsm_quotient_init(&filter, Q, R, alloc_or_die(bytes));
	lsm_quotient_init(&baseline, Q, R, alloc_or_die(bytes));
	for (int i = 0; i <= 1 << Q; i++)
	{
		LsmDigest	digest = random_next(&seed);
		uint64_t	remainder;
		uint64_t	slot = lsm_fingerprint_split(&baseline, lsm_fingerprint_of(digest, Q + R),
												 &remainder);

		good &= lsm_quotient_insert(&filter, digest) ==
			lsm_quotient_insert_baseline(&baseline, slot, remainder);
	}
	good &= memcmp(filter.data, baseline.data, bytes) == 0;
	lsm_quotient_init(&filter, Q, R, filter.data);
	for (int i = 0; i < (1 << Q) * 9 / 10; i++)
		good &= lsm_quotient_insert(&filter, random_next(&seed));
	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < 100 * 1000; i++)
		{
			uint64_t	slot = random_next(&seed) % filter.nslots;
			uint64_t	remainder = random_next(&seed) % (1 << R);

			good &= lsm_quotient_contains(&filter, slot, remainder) ==
				lsm_quotient_contains_baseline(&filter, slot, remainder);
		}
		/* again over noise */
		for (uint64_t i = 0; i < bytes; i++)
			filter.data[i] = (uint8_t) random_next(&seed);
	}
	ok(good, "code with and without population counts agrees");
	free(filter.data);
	free(baseline.data);
}

/* Memory full of noise: walks end, and within it. */
static void
test_noise(void)
{
	uint64_t	seed = 7;
	uint64_t	sum = 0;

	for (int round = 0; round < (SHORT_FORM ? 60 : 400); round++)
	{
		uint32_t	q = 6 + (uint32_t) (random_next(&seed) % 4);
		uint32_t	r = 1 + (uint32_t) (random_next(&seed) % 32);
		uint64_t	bytes = lsm_quotient_size(q, r);
		LsmQuotient filter;
		LsmQuotient output;
		LsmQuotientCursor cursor;
		LsmFilterStream work;
		uint64_t	fingerprint;

		lsm_quotient_init(&filter, q, r, alloc_or_die(bytes));
		for (uint64_t i = 0; i < bytes; i++)
			filter.data[i] = round % 8 == 0 ? 0xff : round % 8 == 1 ? 0x92 :
				(uint8_t) (random_next(&seed) & random_next(&seed) >> round % 3);
		for (int i = 0; i < 300; i++)
		{
			LsmDigest	digest = random_next(&seed);

			sum += lsm_quotient_lookup(&filter, digest);
			lsm_quotient_prefetch(&filter, digest);
		}
		lsm_quotient_cursor_open(&cursor, &filter);
		while (lsm_quotient_cursor_next(&cursor, &fingerprint))
			sum++;
		if (lsm_quotient_init(&output, q + 1, r > 1 ? r - 1 : r, alloc_or_die(bytes * 4)))
			sum += lsm_quotient_merge(&filter, 1, &work, &output);
		for (int i = 0; i < 300; i++)
		{
			filter.count = filter.nslots / 2;
			sum += lsm_quotient_insert(&filter, random_next(&seed));
			sum += lsm_quotient_delete(&filter, random_next(&seed));
		}
		free(filter.data);
		free(output.data);
	}
	ok(sum > 0, "random bytes are walked within bounds");
}

/* An image of the digests of keys 0 .. n - 1, and of as many parts, numbers from 10^9 on. */
static uint8_t *
leading_image(const LsmFilterParams *params, uint64_t n, uint64_t parts, size_t *bytes)
{
	LsmDigest  *digests = alloc_or_die((n + parts) * sizeof(LsmDigest));
	uint8_t    *image;

	for (uint64_t i = 0; i < n + parts; i++)
	{
		uint64_t	key = i < n ? i : 1000000000 + i - n;

		digests[i] = lsm_digest_key(&key, sizeof(key));
	}
	*bytes = lsm_filter_image_bytes(params, n + parts, NULL);
	image = aligned_alloc(64, (*bytes + 63) / 64 * 64);
	if (image == NULL ||
		lsm_filter_build(params, digests, n + parts, NULL, NULL, image, *bytes) != LSM_FILTER_OK)
		abort();
	free(digests);
	return image;
}

/* Whole keys and leading parts in one filter: none denied, and both as rarely in vain as planned. */
static void
test_leading(LsmFilterScheme scheme)
{
	const uint64_t n = 50000;
	const uint64_t parts = 5000;
	LsmFilterParams params = {.scheme = scheme, .bits_per_key = 10, .leading = 3};
	size_t		bytes;
	uint8_t    *image = leading_image(&params, n, parts, &bytes);
	LsmFilter	filter;
	uint64_t	denied = 0;
	uint64_t	wrong = 0;
	double		expected;

	ok(lsm_filter_open(image, bytes, true, &filter, NULL) == LSM_FILTER_OK && filter.leading == 3 &&
	   lsm_filter_built_with(&filter, &params), "%s: the header tells of 3 leading columns",
	   lsm_filter_scheme_name(scheme));
	expected = lsm_filter_expected_fpr(&filter);
	for (uint64_t i = 0; i < n + parts; i++)
	{
		uint64_t	key = i < n ? i : 1000000000 + i - n;
		uint64_t	absent = key + 2000000000;

		denied += !lsm_filter_probe(&filter, lsm_digest_key(&key, sizeof(key)));
		wrong += lsm_filter_probe(&filter, lsm_digest_key(&absent, sizeof(absent)));
	}
	ok(denied == 0, "%s: no key and no leading part is denied", lsm_filter_scheme_name(scheme));
	ok(wrong < 1.3 * expected * (n + parts) + 20, "%s: false positive rate %g, expected %g",
	   lsm_filter_scheme_name(scheme), (double) wrong / (n + parts), expected);
	params.leading = 2;
	ok(!lsm_filter_built_with(&filter, &params), "%s: of another number of columns it is another filter",
	   lsm_filter_scheme_name(scheme));
	params.leading = LSM_FILTER_LEADING_MAX + 1;
	ok(lsm_filter_image_bytes(&params, n, NULL) == 0, "%s: more leading columns than there can be",
	   lsm_filter_scheme_name(scheme));
	free(image);
}

/* Inputs with the same leading parts: once in the output, which is not made of other inputs. */
static void
test_merge_leading(LsmFilterScheme scheme)
{
	const uint64_t n = 30000;
	const uint64_t parts = 6000;
	LsmFilterParams params = {.scheme = scheme, .bits_per_key = 10, .merge_keys = 4 * n, .leading = 1};
	uint8_t    *images[4];
	LsmFilter	inputs[4];
	LsmFilterStream work[4];
	LsmFilter	output;
	size_t		room;
	size_t		used = 0;
	uint8_t    *image;
	bool		same;

	for (int i = 0; i < 4; i++)
	{
		size_t		bytes;

		images[i] = leading_image(&params, n, parts, &bytes);
		if (lsm_filter_open(images[i], bytes, true, &inputs[i], NULL) != LSM_FILTER_OK)
			abort();
	}
	params.merge_keys = 0;
	room = lsm_filter_image_bytes(&params, n + parts, NULL);
	image = aligned_alloc(64, (room + 63) / 64 * 64);
	same = lsm_filter_merge(&params, n + parts, inputs, 4, work, image, room, &used) == LSM_FILTER_OK &&
		lsm_filter_open(image, used, true, &output, NULL) == LSM_FILTER_OK && output.leading == 1;
	for (uint64_t i = 0; same && i < n + parts; i++)
	{
		uint64_t	key = i < n ? i : 1000000000 + i - n;

		same = lsm_filter_probe(&output, lsm_digest_key(&key, sizeof(key)));
	}
	ok(same, "%s: four inputs of the same leading parts become one filter of their size",
	   lsm_filter_scheme_name(scheme));
	params.leading = 2;
	ok(lsm_filter_merge(&params, n + parts, inputs, 4, work, image, room, &used) == LSM_FILTER_INVALID,
	   "%s: inputs of another number of leading columns are refused", lsm_filter_scheme_name(scheme));
	for (int i = 0; i < 4; i++)
		free(images[i]);
	free(image);
}

int
main(void)
{
	test_model(6, 3, 0.5, 1);
	test_model(6, 3, 1.0, 2);
	test_model(6, 1, 1.0, 3);
	test_model(7, 5, 0.95, 4);
	test_model(8, 4, 0.75, 5);
	test_model(8, 2, 1.0, 6);
	test_model(9, 3, 0.9, 7);
	test_full();
	test_merge();
	for (int scheme = LSM_FILTER_BLOOM; scheme <= LSM_FILTER_CASCADE; scheme++)
	{
		if (scheme != LSM_FILTER_ELASTIC)	/* built in its own way */
			test_leading((LsmFilterScheme) scheme);
	}
	test_merge_leading(LSM_FILTER_QUOTIENT);
	test_merge_leading(LSM_FILTER_CASCADE);
	for (uint32_t r = 1; r <= 14; r += r < 4 ? 1 : 5)
		test_fpr(SHORT_FORM ? 14 : 18, r, 0.9);
	test_fpr(SHORT_FORM ? 14 : 18, 6, 0.5);
	test_fpr(SHORT_FORM ? 14 : 18, 6, 0.25);
	test_fpr(SHORT_FORM ? 12 : 16, 4, 1.0);
	test_members(SHORT_FORM ? 19 : 21, 8, SHORT_FORM ? 400 * 1000 : 1900 * 1000);
	test_baseline();
	test_noise();
	test_scheme(LSM_FILTER_QUOTIENT);

	printf("1..%d\n", ntests);
	if (nfailed > 0)
		printf("# %d of %d tests failed\n", nfailed, ntests);
	return nfailed > 0 ? 1 : 0;
}
