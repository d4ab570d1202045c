/*-------------------------------------------------------------------------
 *
 * quotient_image.c
 *	  Scheme quotient: the quotient filter as the image of a sorted file's
 *	  filter.
 *
 * What bits_per_key b buys.  Images are built once and never change, so they
 * are filled to a load of 0.9: a slot of r + 3 bits may cost 0.9 b bits,
 *
 *		r = floor(0.9 b) - 3, at least 1 and at most 32,
 *
 * and the n keys get m = n / 0.9 slots (rounded up to blocks, and to the next
 * power of two if that is no larger, for one bit less is needed then).  Below
 * b = 4.5 there is no room for even one bit: such a filter takes 4.5 bits per
 * key all the same. Fingerprints have p = r + floor(log2 m) bits; the rate of
 * false positives is
 *
 *		1 - e^(-n / 2^p)  <=  n / 2^p,  between 0.9 * 2^-r and 1.8 * 2^-r.
 *
 * A merge can shorten fingerprints but not lengthen them.  A filter that is to
 * be merged into larger ones (merge_keys) therefore gets the fingerprints of
 * the larger one, up to four bits more than its own size asks for: one bit per
 * key and doubling, on the filters of a tree that are few and small.
 *
 * Immutable once built; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/quotient_private.h"

#define QUOTIENT_LOAD		0.9
#define QUOTIENT_SPARE_BITS	4

/* Slots for this many keys: whole blocks. */
static uint64_t
slots_for(uint64_t nkeys)
{
	return ((uint64_t) ((double) nkeys / QUOTIENT_LOAD) + 64) / 64 * 64;
}

uint32_t
lsm_fingerprint_bits(uint64_t nkeys, double bits_per_key, uint64_t merge_keys)
{
	double		slot_bits = QUOTIENT_LOAD * bits_per_key + 1e-9;
	uint32_t	r = slot_bits < 4 ? 1 : (uint32_t) slot_bits - 3;
	uint32_t	own = lsm_log2(slots_for(nkeys));
	uint32_t	merged = own;
	uint32_t	bits;

	if (merge_keys > LSM_FILTER_KEYS_MAX)
		merge_keys = LSM_FILTER_KEYS_MAX;
	if (merge_keys > nkeys)
		merged = lsm_log2(slots_for(merge_keys));
	if (merged > own + QUOTIENT_SPARE_BITS)
		merged = own + QUOTIENT_SPARE_BITS;
	if (r > LSM_QUOTIENT_REMAINDER_MAX)
		r = LSM_QUOTIENT_REMAINDER_MAX;
	bits = r + merged;
	if (bits > own + LSM_QUOTIENT_REMAINDER_MAX)
		bits = own + LSM_QUOTIENT_REMAINDER_MAX;
	return bits < LSM_QUOTIENT_FINGERPRINT_MAX ? bits : LSM_QUOTIENT_FINGERPRINT_MAX;
}

/* ---- filling ---- */

bool
lsm_digest_source_next(void *arg, uint64_t *fingerprint)
{
	LsmDigestSource *source = arg;

	if (source->at == source->n)
		return false;
	*fingerprint = lsm_fingerprint_of(source->digests[source->at++], source->fingerprint_bits);
	return true;
}

bool
lsm_quotient_fill_sorted(const LsmFilter *filter, LsmFingerprintNext next, void *arg,
						 uint8_t *bits)
{
	LsmFilter	shape = *filter;
	LsmQuotient quotient;
	LsmQuotientBuilder builder;
	uint64_t	fingerprint;
	uint64_t	last = UINT64_MAX;

	shape.bits = bits;
	lsm_quotient_view(&shape, &quotient);
	lsm_quotient_builder_open(&builder, &quotient);
	while (next(arg, &fingerprint))
	{
		if (fingerprint != last && !lsm_quotient_builder_add(&builder, fingerprint))
			return false;
		last = fingerprint;
	}
	return true;
}

static void
quotient_fill(const LsmFilter *filter, LsmDigest *digests, uint64_t n, uint8_t *bits)
{
	LsmDigestSource source = {digests, n, 0, lsm_filter_fingerprint_bits(filter)};

	/* never fails: there are more slots than digests */
	lsm_digest_sort(digests, n);
	(void) lsm_quotient_fill_sorted(filter, lsm_digest_source_next, &source, bits);
}

/* ---- the scheme ---- */

static void
quotient_plan(LsmFilter *filter)
{
	uint32_t	p = lsm_fingerprint_bits(filter->nkeys, filter->bits_per_key,
										 filter->merge_keys);
	uint64_t	slots = slots_for(filter->nkeys);
	uint64_t	power = UINT64_C(2) << lsm_log2(slots);
	uint32_t	r = p - lsm_log2(slots);

	if (r > 1 && lsm_quotient_bytes(power, r - 1) <= lsm_quotient_bytes(slots, r))
	{
		slots = power;
		r--;
	}
	filter->probes = p | r << 8;
	filter->nblocks = slots;
	filter->nbits = slots * (3 + r);
	filter->payload_bytes = (lsm_quotient_bytes(slots, r) + LSM_FILTER_LINE_BYTES - 1) /
		LSM_FILTER_LINE_BYTES * LSM_FILTER_LINE_BYTES;
}

static const char *
quotient_check(LsmFilter *filter)
{
	uint32_t	p = lsm_filter_fingerprint_bits(filter);
	uint32_t	r = lsm_filter_remainder_bits(filter);

	if (r < 1 || r > LSM_QUOTIENT_REMAINDER_MAX || p < r || p > LSM_QUOTIENT_FINGERPRINT_MAX)
		return "fingerprints of a quotient filter are out of range";
	if (filter->nbits == 0 || filter->nbits > LSM_FILTER_NBITS_MAX ||
		filter->nbits % (64 * (3 + r)) != 0)
		return "number of bits of a quotient filter is out of range";
	filter->nblocks = filter->nbits / (3 + r);
	if ((filter->nblocks >> (p - r)) == 0)
		return "remainders of a quotient filter are too short";
	if (filter->payload_bytes % LSM_FILTER_LINE_BYTES != 0 ||
		filter->payload_bytes < filter->nbits / 8 ||
		filter->payload_bytes - filter->nbits / 8 >= LSM_FILTER_LINE_BYTES)
		return "payload of a quotient filter does not match its number of bits";
	return NULL;
}

void
lsm_quotient_view(const LsmFilter *filter, LsmQuotient *quotient)
{
	quotient->data = (uint8_t *) (uintptr_t) filter->bits;
	quotient->nslots = filter->nblocks;
	quotient->scale = filter->nblocks;
	quotient->first = 0;
	quotient->count = 0;
	quotient->fingerprint_bits = lsm_filter_fingerprint_bits(filter);
	quotient->remainder_bits = lsm_filter_remainder_bits(filter);
}

static bool
quotient_probe(const LsmFilter *filter, LsmDigest digest)
{
	LsmQuotient quotient;

	lsm_quotient_view(filter, &quotient);
	return lsm_quotient_lookup(&quotient, digest);
}

static void
quotient_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	LsmQuotient quotient;

	lsm_quotient_view(filter, &quotient);
	lsm_quotient_prefetch(&quotient, digest);
}

/*
 * An absent key's fingerprint is that of one of n keys with probability
 * 1 - (1 - 2^-p)^n.
 */
static double
quotient_expected_fpr(const LsmFilter *filter)
{
	return lsm_quotient_expected_fpr(filter->nkeys, lsm_filter_fingerprint_bits(filter));
}

const LsmFilterOps lsm_quotient_ops = {
	.plan = quotient_plan,
	.fill = quotient_fill,
	.check = quotient_check,
	.probe = quotient_probe,
	.prefetch = quotient_prefetch,
	.expected_fpr = quotient_expected_fpr,
	.traits = LSM_FILTER_MERGES | LSM_FILTER_ONES_SAY_NO,
	LSM_QUOTIENT_LAW,
};
