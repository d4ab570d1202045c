/*-------------------------------------------------------------------------
 *
 * cascade_test.c
 *	  Unit test of cascade filters: images, and the pages they are probed by.
 *	  Prints TAP; exit status 1 if a test failed.
 *
 * All data come from fixed seeds: the same run everywhere.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <math.h>

#include "filter/quotient_private.h"
#include "quotient_common.h"

/* What a reader does: one page, found from the header alone. */
static LsmFilterStatus
probe_by_page(const LsmFilter *filter, const Image *image, LsmDigest digest, bool *maybe)
{
	uint64_t	offset = lsm_filter_page_offset(filter, digest);
	uint8_t		page[LSM_FILTER_PAGE_BYTES];

	if (offset % LSM_FILTER_PAGE_BYTES != 0 || offset == 0 ||
		offset + LSM_FILTER_PAGE_BYTES > image->bytes)
		return LSM_FILTER_INVALID;
	memcpy(page, image->memory + offset, sizeof(page));
	return lsm_filter_probe_page(filter, page, digest, maybe);
}

/* A filter opened over the header only: the rest is not there to be read. */
static bool
open_header(const Image *image, LsmFilter *filter)
{
	uint8_t    *header = alloc_or_die(LSM_FILTER_HEADER_BYTES);
	bool		good;

	memcpy(header, image->memory, LSM_FILTER_HEADER_BYTES);
	good = lsm_filter_open(header, image->bytes, false, filter, NULL) == LSM_FILTER_OK &&
		lsm_filter_is_paged(filter);
	free(header);
	return good;
}

static void
test_pages(uint64_t n, double bits_per_key)
{
	LsmFilterParams params = {LSM_FILTER_CASCADE, bits_per_key, 0};
	Image		image;
	LsmFilter	filter;
	bool		good = build_image(&image, &params, 0, n) && open_header(&image, &filter);
	uint64_t	lost = 0;
	uint64_t	differ = 0;
	bool		maybe;

	for (uint64_t i = 0; i < n; i++)
		lost += probe_by_page(&filter, &image, digest_of(i), &maybe) != LSM_FILTER_OK || !maybe;
	for (uint64_t i = 0; i < n; i++)
		differ += probe_by_page(&filter, &image, digest_of(n + i), &maybe) != LSM_FILTER_OK ||
			maybe != lsm_filter_probe(&image.filter, digest_of(n + i));
	good &= probe_by_page(&filter, &image, 0, &maybe) == LSM_FILTER_OK;
	good &= probe_by_page(&filter, &image, UINT64_MAX, &maybe) == LSM_FILTER_OK;
	good &= (image.bytes % LSM_FILTER_PAGE_BYTES) == 0;
	ok(good && lost == 0 && differ == 0,
	   "%" PRIu64 " keys, %g bits per key, %" PRIu64 " pages: one page answers, and no key is lost",
	   n, bits_per_key, filter.nblocks);
	free(image.memory);
}

/* Each page vouches for itself and its place. */
static void
test_page_damage(void)
{
	LsmFilterParams params = {LSM_FILTER_CASCADE, 10, 0};
	Image		image;
	LsmFilter	filter;
	bool		good = build_image(&image, &params, 0, 20000) && open_header(&image, &filter);
	uint64_t	seed = 21;
	uint64_t	sum = 0;
	bool		maybe;

	for (int i = 0; i < 20000; i++)
	{
		LsmDigest	digest = random_next(&seed);
		uint64_t	at = lsm_filter_page_offset(&filter, digest) +
			random_next(&seed) % LSM_FILTER_PAGE_BYTES;
		uint8_t		flip = (uint8_t) (1 << (random_next(&seed) % 8));

		image.memory[at] ^= flip;
		good &= probe_by_page(&filter, &image, digest, &maybe) == LSM_FILTER_CORRUPT && maybe;
		image.memory[at] ^= flip;
		good &= probe_by_page(&filter, &image, digest, &maybe) == LSM_FILTER_OK;
	}
	ok(good && filter.nblocks >= 4, "a flipped bit anywhere in a page is noticed");

	good = lsm_filter_probe_page(&filter, image.memory + 2 * LSM_FILTER_PAGE_BYTES, 0, &maybe) ==
		LSM_FILTER_CORRUPT && maybe;
	ok(good, "a page in the place of another is noticed");

	{
		uint8_t		page[LSM_FILTER_PAGE_BYTES];

		memset(page, 0xff, sizeof(page));
		good = lsm_filter_probe_page(&filter, page, 1, &maybe) == LSM_FILTER_CORRUPT && maybe;
		memset(page, 0, sizeof(page));
		good &= lsm_filter_probe_page(&filter, page, 1, &maybe) == LSM_FILTER_CORRUPT && maybe;
		ok(good, "pages of ones and of zeroes are noticed");

		/* noise under a right checksum */
		for (int round = 0; round < 500; round++)
		{
			uint64_t	checksum;

			for (size_t i = 0; i < sizeof(page); i++)
				page[i] = (uint8_t) (random_next(&seed) | random_next(&seed) >> round % 4);
			memset(page + 8, 0, 8);
			checksum = lsm_digest_key(page + 8, sizeof(page) - 8);
			for (int i = 0; i < 8; i++)
				page[i] = (uint8_t) (checksum >> (8 * i));
			for (int i = 0; i < 100; i++)
				sum += lsm_filter_probe_page(&filter, page, random_next(&seed) >> 8, &maybe) == LSM_FILTER_OK && maybe;
		}
		ok(sum > 0, "noise in a page is probed within bounds");
	}
	free(image.memory);
}

/* Keys that someone has picked, all for one page. */
static void
test_full_page(void)
{
	enum
	{
		N = 100000
	};
	LsmFilterParams params = {LSM_FILTER_CASCADE, 10, 0};
	LsmDigest  *digests = alloc_or_die(N * sizeof(LsmDigest));
	size_t		bytes = lsm_filter_image_bytes(&params, N, NULL);
	uint8_t    *memory = alloc_or_die(bytes);
	LsmFilter	filter;
	LsmFilterStream work;
	uint64_t	seed = 22;
	bool		good;

	for (int i = 0; i < N; i++)
	{
		digests[i] = random_next(&seed);
		if (i >= N / 2)
			digests[i] = (digests[i] >> 8) | UINT64_C(0x7700000000000000);
	}
	good = lsm_filter_build(&params, digests, N, NULL, NULL, memory, bytes) == LSM_FILTER_OK &&
		lsm_filter_open(memory, bytes, true, &filter, NULL) == LSM_FILTER_OK;
	for (int i = 0; i < N; i++)
		good &= lsm_filter_probe(&filter, digests[i]);
	good &= lsm_filter_probe(&filter, UINT64_C(0x77abcdef01234567));
	ok(good, "a page with too many keys says maybe, and loses none");

	/* it cannot be read back */
	{
		uint8_t    *merged = alloc_or_die(bytes);
		size_t		used;

		good = lsm_filter_merge(&params, N, &filter, 1, &work, merged, bytes, &used) == LSM_FILTER_CORRUPT;
		ok(good, "and cannot be merged");
		free(merged);
	}
	free(digests);
	free(memory);
}

int
main(void)
{
	static const uint64_t sizes[] = {1, 100, 3000, 4000, 10000, 100 * 1000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		test_pages(sizes[i], 10);
	test_pages(SHORT_FORM ? 200 * 1000 : 2000 * 1000, 10);
	test_pages(100 * 1000, 1);
	test_pages(100 * 1000, 64);
	test_page_damage();
	test_full_page();
	test_scheme(LSM_FILTER_CASCADE);

	printf("1..%d\n", ntests);
	if (nfailed > 0)
		printf("# %d of %d tests failed\n", nfailed, ntests);
	return nfailed > 0 ? 1 : 0;
}
