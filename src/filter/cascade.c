/*-------------------------------------------------------------------------
 *
 * cascade.c
 *	  Scheme cascade: quotient filters that stay on storage, where one page
 *	  answers a probe (the cascade filter of "Don't Thrash: How to Cache your
 *	  Hash on Flash", 2011, section 2, with the sorted files of a tree in the
 *	  place of its levels).
 *
 * The image is a header, zeroes up to byte 4096, and pages of 4 kB.  A page is
 * a quotient filter of its own over an equal part of the fingerprints: P pages
 * of S slots are one filter of P S quotients, of which page i has those from i
 * S on, and what goes beyond a page's last slot goes around to its first.  So
 * a probe reads one page, and there is no state between pages.
 *
 *		0	8	checksum of the rest of the page: XXH3_64bits
 *		8	4	number of the page
 *		12	2	fingerprints in it
 *		14	2	1: full, see below
 *		16		blocks of 64 slots, S / 64 = floor(4080 / 8 / (3 + r))
 *
 * Pages fill unevenly, as bins do.  Their number is chosen so that a page is
 * full at seven standard deviations above its mean (P = 1e-12): 0.88 of the
 * slots at 10 bits per key.  Should there be more, because someone has picked
 * the keys, the page says maybe to all: right, if slow, and the size of an
 * image does not depend on the digests.  The length of fingerprints follows
 * from bits_per_key as in scheme quotient.
 *
 * A page's checksum is verified whenever it is used by lsm_filter_probe_page()
 * or a merge.  lsm_filter_probe() is for images in memory that were opened
 * with verification.
 *
 * A page does not say to which filter it belongs.  It need not: whoever reads
 * pages has opened the file that it reads them from, has compared that file's
 * header with the list of files, and sees after each read that it still is that
 * file.  A filter that is built again is another file, which takes the name of
 * the former one; neither is written to once it has a name.  While the list
 * does not mean the new one yet, its header is not the one that is looked for,
 * unless the two filters are equal.
 *
 * Immutable once built; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter/quotient_private.h"

#define PAGE_OFF_CHECKSUM	0
#define PAGE_OFF_NUMBER		8
#define PAGE_OFF_COUNT		12
#define PAGE_OFF_FULL		14

/* From the payload to the first page, so that pages are aligned in the file. */
#define CASCADE_PADDING		(LSM_FILTER_PAGE_BYTES - LSM_FILTER_HEADER_BYTES)

/* Standard deviations between mean and capacity. */
#define CASCADE_MARGIN		7.0

#define CASCADE_PAGES_MAX	(UINT64_C(1) << 31)

/* Slots of a page. */
static inline uint64_t
page_slots(uint32_t remainder_bits)
{
	return (LSM_FILTER_PAGE_BYTES - LSM_CASCADE_PAGE_HEADER_BYTES) / 8 /
		(3 + remainder_bits) * 64;
}

static uint32_t
get_number(const uint8_t *from, int nbytes)
{
	uint32_t	value = 0;

	for (int i = 0; i < nbytes; i++)
		value |= (uint32_t) from[i] << (8 * i);
	return value;
}

static void
put_number(uint8_t *to, uint64_t value, int nbytes)
{
	for (int i = 0; i < nbytes; i++)
		to[i] = (uint8_t) (value >> (8 * i));
}

/* ---- pages ---- */

static uint64_t
page_checksum(const uint8_t *page)
{
	return lsm_digest_key(page + PAGE_OFF_NUMBER, LSM_FILTER_PAGE_BYTES - PAGE_OFF_NUMBER);
}

const uint8_t *
lsm_cascade_page(const LsmFilter *filter, uint64_t page_no)
{
	return filter->bits + CASCADE_PADDING + page_no * LSM_FILTER_PAGE_BYTES;
}

void
lsm_cascade_view(const LsmFilter *filter, const uint8_t *page, uint64_t page_no,
				 LsmQuotient *quotient)
{
	quotient->data = (uint8_t *) (uintptr_t) page + LSM_CASCADE_PAGE_HEADER_BYTES;
	quotient->fingerprint_bits = lsm_filter_fingerprint_bits(filter);
	quotient->remainder_bits = lsm_filter_remainder_bits(filter);
	quotient->nslots = page_slots(quotient->remainder_bits);
	quotient->scale = quotient->nslots * filter->nblocks;
	quotient->first = quotient->nslots * page_no;
	quotient->count = 0;
}

LsmCascadeState
lsm_cascade_page_state(const uint8_t *page, uint64_t page_no)
{
	if (lsm_load_word(page + PAGE_OFF_CHECKSUM) != page_checksum(page) ||
		get_number(page + PAGE_OFF_NUMBER, 4) != page_no)
		return LSM_CASCADE_DAMAGED;
	return get_number(page + PAGE_OFF_FULL, 2) != 0 ? LSM_CASCADE_FULL : LSM_CASCADE_GOOD;
}

/* Which page a fingerprint is in; its digest is, too. */
static inline uint64_t
page_of(const LsmFilter *filter, LsmDigest digest)
{
	uint32_t	p = lsm_filter_fingerprint_bits(filter);

	/* by the fingerprint: bits that it does not have might tip the scales */
	return lsm_fast_range(digest >> (64 - p) << (64 - p), filter->nblocks);
}

static bool
page_contains(const LsmFilter *filter, const uint8_t *page, uint64_t page_no, LsmDigest digest)
{
	LsmQuotient quotient;
	uint64_t	remainder;
	uint64_t	slot;

	if (get_number(page + PAGE_OFF_FULL, 2) != 0)
		return true;
	lsm_cascade_view(filter, page, page_no, &quotient);
	slot = lsm_fingerprint_split(&quotient,
								 lsm_fingerprint_of(digest, quotient.fingerprint_bits),
								 &remainder) - quotient.first;
	return lsm_quotient_contains(&quotient, slot, remainder);
}

/* ---- probing a page ---- */

bool
lsm_filter_is_paged(const LsmFilter *filter)
{
	return filter->scheme == LSM_FILTER_CASCADE;
}

uint64_t
lsm_filter_page_offset(const LsmFilter *filter, LsmDigest digest)
{
	return (page_of(filter, digest) + 1) * LSM_FILTER_PAGE_BYTES;
}

LsmFilterStatus
lsm_filter_probe_page(const LsmFilter *filter, const void *page, LsmDigest digest, bool *maybe)
{
	uint64_t	page_no = page_of(filter, digest);

	*maybe = true;
	if (lsm_cascade_page_state(page, page_no) == LSM_CASCADE_DAMAGED)
		return LSM_FILTER_CORRUPT;
	*maybe = page_contains(filter, page, page_no, digest);
	return LSM_FILTER_OK;
}

/* ---- filling ---- */

static void
page_finish(const LsmFilter *filter, uint8_t *page, uint64_t page_no, uint64_t count)
{
	LsmQuotient quotient;
	bool		full;

	lsm_cascade_view(filter, page, page_no, &quotient);
	full = count > quotient.nslots;
	put_number(page + PAGE_OFF_NUMBER, page_no, 4);
	put_number(page + PAGE_OFF_COUNT, full ? 0xffff : count, 2);
	put_number(page + PAGE_OFF_FULL, full, 2);
	lsm_store_word(page + PAGE_OFF_CHECKSUM, page_checksum(page));
}

bool
lsm_cascade_write_pages(const LsmFilter *filter, LsmFingerprintNext next, void *arg,
						LsmPlacePage place_page, void *place_arg)
{
	uint32_t	p = lsm_filter_fingerprint_bits(filter);
	uint64_t	fingerprint;
	uint64_t	last = 0;
	bool		more = next(arg, &fingerprint);

	for (uint64_t page_no = 0; page_no < filter->nblocks; page_no++)
	{
		uint8_t    *page = place_page(place_arg, page_no);
		LsmQuotient quotient;
		LsmQuotientBuilder builder;
		uint64_t	count = 0;

		lsm_cascade_view(filter, page, page_no, &quotient);
		lsm_quotient_builder_open(&builder, &quotient);
		while (more && lsm_fast_range(fingerprint << (64 - p), filter->nblocks) == page_no)
		{
			if (count == 0 || fingerprint != last)
			{
				/* beyond the last slot nothing is stored, but counted */
				(void) lsm_quotient_builder_add(&builder, fingerprint);
				count++;
			}
			last = fingerprint;
			more = next(arg, &fingerprint);
		}
		page_finish(filter, page, page_no, count);
	}
	return !more;
}

static uint8_t *
place_in_image(void *arg, uint64_t page_no)
{
	return (uint8_t *) arg + page_no * LSM_FILTER_PAGE_BYTES;
}

bool
lsm_cascade_fill_sorted(const LsmFilter *filter, LsmFingerprintNext next, void *arg,
						uint8_t *bits)
{
	return lsm_cascade_write_pages(filter, next, arg, place_in_image, bits + CASCADE_PADDING);
}

static void
cascade_fill(const LsmFilter *filter, LsmDigest *digests, uint64_t n, uint8_t *bits)
{
	LsmDigestSource source = {digests, n, 0, lsm_filter_fingerprint_bits(filter)};

	lsm_digest_sort(digests, n);
	(void) lsm_cascade_fill_sorted(filter, lsm_digest_source_next, &source, bits);
}

/* ---- the scheme ---- */

/* Pages that hold this many keys, by the slots that a page has. */
static uint64_t
pages_for(uint64_t nkeys, uint64_t slots)
{
	/* the mean x with x + margin sqrt(x) = slots */
	double		root = (sqrt(CASCADE_MARGIN * CASCADE_MARGIN + 4.0 * (double) slots) -
						CASCADE_MARGIN) / 2;

	if (nkeys <= slots)
		return 1;
	return (uint64_t) ((double) nkeys / (root * root)) + 1;
}

/*
 * The fewest bits of a remainder that tell fingerprints apart; more of them
 * make for smaller pages, hence more quotients.
 */
static void
cascade_plan(LsmFilter *filter)
{
	uint32_t	p = lsm_fingerprint_bits(filter->nkeys, filter->bits_per_key,
										 filter->merge_keys);
	uint32_t	r;

	for (r = 1; r < LSM_QUOTIENT_REMAINDER_MAX; r++)
	{
		filter->nblocks = pages_for(filter->nkeys, page_slots(r));
		if (p >= r && (filter->nblocks * page_slots(r)) >> (p - r) != 0)
			break;
	}
	filter->nblocks = pages_for(filter->nkeys, page_slots(r));
	while (p > r && (filter->nblocks * page_slots(r)) >> (p - r) == 0)
		p--;
	filter->probes = p | r << 8;
	filter->nbits = filter->nblocks * LSM_FILTER_PAGE_BYTES * 8;
	filter->payload_bytes = CASCADE_PADDING + filter->nblocks * LSM_FILTER_PAGE_BYTES;
}

static const char *
cascade_check(LsmFilter *filter)
{
	uint32_t	p = lsm_filter_fingerprint_bits(filter);
	uint32_t	r = lsm_filter_remainder_bits(filter);

	if (r < 1 || r > LSM_QUOTIENT_REMAINDER_MAX || p < r || p > LSM_QUOTIENT_FINGERPRINT_MAX)
		return "fingerprints of a cascade filter are out of range";
	if (filter->nbits == 0 || filter->nbits % (LSM_FILTER_PAGE_BYTES * 8) != 0 ||
		filter->nbits > CASCADE_PAGES_MAX * LSM_FILTER_PAGE_BYTES * 8)
		return "number of bits of a cascade filter is out of range";
	filter->nblocks = filter->nbits / (LSM_FILTER_PAGE_BYTES * 8);
	if ((filter->nblocks * page_slots(r)) >> (p - r) == 0)
		return "remainders of a cascade filter are too short";
	if (filter->payload_bytes != CASCADE_PADDING + filter->nbits / 8)
		return "payload of a cascade filter does not match its number of pages";
	return NULL;
}

static bool
cascade_probe(const LsmFilter *filter, LsmDigest digest)
{
	uint64_t	page_no = page_of(filter, digest);

	return page_contains(filter, lsm_cascade_page(filter, page_no), page_no, digest);
}

static void
cascade_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	(void) filter;
	(void) digest;
}

/* As for a quotient filter: pages do not matter. */
static double
cascade_expected_fpr(const LsmFilter *filter)
{
	return lsm_quotient_expected_fpr(filter->nkeys, lsm_filter_fingerprint_bits(filter));
}

const LsmFilterOps lsm_cascade_ops = {
	.plan = cascade_plan,
	.fill = cascade_fill,
	.check = cascade_check,
	.probe = cascade_probe,
	.prefetch = cascade_prefetch,
	.expected_fpr = cascade_expected_fpr,
	.traits = LSM_FILTER_PAGES | LSM_FILTER_MERGES | LSM_FILTER_ONES_SAY_NO,
	LSM_QUOTIENT_LAW,
};
