/*-------------------------------------------------------------------------
 *
 * bloom.c
 *	  The standard Bloom filter: k bits anywhere in the payload per key.
 *
 * Bit p is bit p % 8 of byte p / 8.  The k positions of a digest h come from
 *
 *		x_1 = h,  x_(i+1) = x_i * M mod 2^64,  p_i = floor(x_i * nbits / 2^64)
 *
 * which costs as little as double hashing, x_(i+1) = x_i + d(h), without its
 * weakness.  In double hashing all positions follow from two numbers below
 * nbits, and two digests with close starts and equal or opposite steps
 * share all their bits, which shows in small filters of many bits per key.
 * Taking the step's refinement from low bits, as "enhanced" double hashing
 * does, is no help with a range reduction that looks at high bits only.  Here
 * the vectors (x_1 .. x_k) of two digests differ by the point of a rank-1
 * lattice that belongs to their difference; M is one of the multipliers that
 * keep the short vectors of these lattices long in all dimensions up to 8
 * (Steele and Vigna, "Computationally easy, spectrally good multipliers for
 * congruential pseudorandom number generators", 2022), and the high bits of
 * x_2, x_3, .. depend on all lower bits of h.
 *
 * Immutable once built; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter/filter_private.h"

#define BLOOM_MULTIPLIER	UINT64_C(0xd1342543de82ef95)

/* round(64 ln 2), the most a filter of 64 bits per key asks for. */
#define BLOOM_PROBES_MAX	44

/* Keys whose lines are being fetched while one is set. */
#define BLOOM_FILL_AHEAD	8

static void
bloom_plan(LsmFilter *filter)
{
	uint64_t	nlines = lsm_filter_lines(filter->nkeys, filter->bits_per_key);
	double		probes = floor(filter->bits_per_key * 0.69314718055994530942 + 0.5);

	filter->probes = probes < 1 ? 1 : (uint32_t) probes;
	filter->nbits = nlines * LSM_FILTER_LINE_BITS;
	filter->nblocks = 0;
	filter->payload_bytes = nlines * LSM_FILTER_LINE_BYTES;
}

static void
bloom_fill(const LsmFilter *filter, LsmDigest *digests, uint64_t n,
		   uint8_t *bits)
{
	for (uint64_t i = 0; i < n; i++)
	{
		uint64_t	x = digests[i];

		if (i + BLOOM_FILL_AHEAD < n)
		{
			uint64_t	ahead = digests[i + BLOOM_FILL_AHEAD];

			for (uint32_t j = 0; j < filter->probes; j++)
			{
				__builtin_prefetch(bits + lsm_fast_range(ahead, filter->nbits) / 8, 1);
				ahead *= BLOOM_MULTIPLIER;
			}
		}
		for (uint32_t j = 0; j < filter->probes; j++)
		{
			uint64_t	pos = lsm_fast_range(x, filter->nbits);

			bits[pos / 8] |= (uint8_t) (1 << (pos % 8));
			x *= BLOOM_MULTIPLIER;
		}
	}
}

static const char *
bloom_check(LsmFilter *filter)
{
	if (filter->probes < 1 || filter->probes > BLOOM_PROBES_MAX)
		return "number of probes of a Bloom filter is out of range";
	if (filter->nbits == 0 || filter->nbits > LSM_FILTER_NBITS_MAX ||
		filter->nbits % LSM_FILTER_LINE_BITS != 0)
		return "number of bits of a Bloom filter is out of range";
	if (filter->payload_bytes != filter->nbits / 8)
		return "payload of a Bloom filter does not match its number of bits";
	filter->nblocks = 0;
	return NULL;
}

static bool
bloom_probe(const LsmFilter *filter, LsmDigest digest)
{
	const uint8_t *bits = filter->bits;
	uint64_t	nbits = filter->nbits;
	uint64_t	x = digest;

	for (uint32_t j = filter->probes; j > 0; j--)
	{
		uint64_t	pos = lsm_fast_range(x, nbits);

		if (((bits[pos / 8] >> (pos % 8)) & 1) == 0)
			return false;
		x *= BLOOM_MULTIPLIER;
	}
	return true;
}

/*
 * Half of the absent keys are settled by the first line and three quarters by
 * the first two; fetching all k would cost memory bandwidth for the rest.
 */
static void
bloom_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	__builtin_prefetch(filter->bits + lsm_fast_range(digest, filter->nbits) / 8);
	__builtin_prefetch(filter->bits +
					   lsm_fast_range(digest * BLOOM_MULTIPLIER, filter->nbits) / 8);
}

/*
 * n keys set kn bits drawn at random from m.  A given bit is missed by one draw
 * with probability 1 - 1/m, by all with (1 - 1/m)^(kn) ~ e^(-kn/m); an absent
 * key finds its k bits set with probability (1 - e^(-kn/m))^k.  It is least,
 * 2^-k, where half of the bits are set: k = (m/n) ln 2.
 */
static double
bloom_expected_fpr(const LsmFilter *filter)
{
	double		k = filter->probes;
	double		n = (double) filter->nkeys;
	double		m = (double) filter->nbits;

	return pow(-expm1(-k * n / m), k);
}

/* Half of the bits are set. */
const LsmFilterOps lsm_bloom_ops = {
	.plan = bloom_plan,
	.fill = bloom_fill,
	.check = bloom_check,
	.probe = bloom_probe,
	.prefetch = bloom_prefetch,
	.expected_fpr = bloom_expected_fpr,
	.factor = 1,
	.slope = LSM_FILTER_LN2 * LSM_FILTER_LN2,
};
