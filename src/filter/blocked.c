/*-------------------------------------------------------------------------
 *
 * blocked.c
 *	  The blocked Bloom filter: all bits of a key in one cache line of 512.
 *
 * One memory access per probe, at the price of a few more false positives than
 * bloom.c has for the same memory, because lines fill unevenly (Putze,
 * Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007,
 * section 3).
 *
 * The line is chosen by the high bits of the digest (fast range).  Within the
 * line, which is cut into k lanes of (nearly) 512/k bits, every key has one
 * bit in each lane.  Lane i, counted from 0, covers bits floor(512 i / k) up
 * to floor(512 (i+1) / k), and the bit in it is chosen by the upper 16 bits of
 *
 *		(low 32 bits of the digest) * M^(i+1) mod 2^32
 *
 * scaled to the width of the lane.  So line and bits draw on different halves
 * of the digest: they stay independent until a filter has some 2^32 lines.  M
 * is a multiplier of good lattice structure, see bloom.c for why that matters.
 * Lanes rather than k bits anywhere in the line, because the false positive
 * rate then has an exact form (the lanes are independent, no two probes hit
 * the same bit), and it is no worse.
 *
 * The vector probe does eight lanes at once: the line fits in two AVX2
 * registers, and the 32-bit words that hold the eight bits are picked from
 * them by permutation, not by gathering from memory.  k > 8 takes a second
 * round. Bit p of a line is bit p % 8 of its byte p / 8, the same on every
 * machine.
 *
 * Immutable once built; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter/filter_private.h"

#ifdef LSM_FILTER_X86
#include <immintrin.h>
#endif

#define BLOCKED_PROBES_MAX	LSM_BLOCKED_PROBES_MAX

/* Keys whose lines are being fetched while one is set. */
#define BLOCKED_FILL_AHEAD	16

/* Loads this much rarer than the most frequent one do not count. */
#define BLOCKED_WEIGHT_MIN	1e-20

/* M^1 .. M^16 mod 2^32, M = LSM_BLOCKED_MULTIPLIER */
static const uint32_t blocked_multiplier[BLOCKED_PROBES_MAX] = {
	LSM_BLOCKED_MULTIPLIER, 0x291471e9, 0x449ed6f5, 0xa1178611,
	0x9997c9fd, 0x32ea8679, 0x18138445, 0xbf43cd21,
	0xe989d7cd, 0x51d54409, 0x17bae695, 0x5fd6e531,
	0xf987a29d, 0xd6953a99, 0xd47e4de5, 0x41a3de41
};

/*
 * The lanes for each k.  Lanes from k on, which fill up the vectors, have no
 * bit to ask for.  The three arrays are vectors of 32-bit elements; a k up to 8
 * uses the first halves only, one cache line of L1 and a half.
 */
typedef struct BlockedLanes
{
	uint32_t	start[BLOCKED_PROBES_MAX];
	uint32_t	width[BLOCKED_PROBES_MAX];
	uint32_t	one[BLOCKED_PROBES_MAX];	/* 1, or 0 for a lane that is not
											 * there */
} BlockedLanes;

#define LANE_START(k, i)	((i) < (k) ? LSM_FILTER_LINE_BITS * (i) / (k) : 0)
#define LANE_WIDTH(k, i) \
	((i) < (k) ? LSM_FILTER_LINE_BITS * ((i) + 1) / (k) - LSM_FILTER_LINE_BITS * (i) / (k) : 0)
#define LANE_ONE(k, i)		((i) < (k) ? 1 : 0)
#define LANE_ALL(f, k) { \
	f(k, 0), f(k, 1), f(k, 2), f(k, 3), f(k, 4), f(k, 5), f(k, 6), f(k, 7), \
	f(k, 8), f(k, 9), f(k, 10), f(k, 11), f(k, 12), f(k, 13), f(k, 14), f(k, 15) \
}
#define LANES(k) { LANE_ALL(LANE_START, k), LANE_ALL(LANE_WIDTH, k), LANE_ALL(LANE_ONE, k) }

/* Indexed by k - 1. */
static const BlockedLanes blocked_lanes[BLOCKED_PROBES_MAX] = {
	LANES(1), LANES(2), LANES(3), LANES(4), LANES(5), LANES(6), LANES(7), LANES(8),
	LANES(9), LANES(10), LANES(11), LANES(12), LANES(13), LANES(14), LANES(15), LANES(16)
};

/* Position 0..511 of the key's bit in lane i. */
static inline uint32_t
blocked_position(const BlockedLanes *lanes, LsmDigest digest, uint32_t i)
{
	uint32_t	r = (uint32_t) digest * blocked_multiplier[i];

	return lanes->start[i] + (((r >> 16) * lanes->width[i]) >> 16);
}

/*
 * All k bits are looked at whatever the first ones say: the line is there, and
 * a mispredicted branch costs more than the remaining lanes.
 */
bool
lsm_blocked_probe_portable(const LsmFilter *filter, LsmDigest digest)
{
	const BlockedLanes *lanes = &blocked_lanes[filter->probes - 1];
	const uint8_t *line = lsm_blocked_line(filter, digest);
	uint32_t	all = 1;

	for (uint32_t i = 0; i < filter->probes; i++)
	{
		uint32_t	pos = blocked_position(lanes, digest, i);

		all &= (uint32_t) line[pos / 8] >> (pos % 8);
	}
	return all != 0;
}

#ifdef LSM_FILTER_X86

/* Lanes first .. first + 7 of the line in `low` and `high`: all bits set? */
__attribute__((target("avx2"), always_inline))
static inline bool
blocked_eight_lanes(const BlockedLanes *lanes, uint32_t first, __m256i low,
					__m256i high, __m256i digest)
{
	__m256i		mult = _mm256_loadu_si256((const __m256i *) (blocked_multiplier + first));
	__m256i		start = _mm256_loadu_si256((const __m256i *) (lanes->start + first));
	__m256i		width = _mm256_loadu_si256((const __m256i *) (lanes->width + first));
	__m256i		one = _mm256_loadu_si256((const __m256i *) (lanes->one + first));
	__m256i		r = _mm256_srli_epi32(_mm256_mullo_epi32(digest, mult), 16);

	/* 16-bit products: the upper half of each element of r and width is 0 */
	__m256i		pos = _mm256_add_epi32(start, _mm256_mulhi_epu16(r, width));

	/* word pos / 32 of 16: the permutations look at three bits of the index */
	__m256i		word_no = _mm256_srli_epi32(pos, 5);
	__m256i		from_low = _mm256_permutevar8x32_epi32(low, word_no);
	__m256i		from_high = _mm256_permutevar8x32_epi32(high, word_no);

	/* the fourth, bit 8 of pos, moved to the sign, selects the half */
	__m256i		word = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(from_low),
															_mm256_castsi256_ps(from_high),
															_mm256_castsi256_ps(_mm256_slli_epi32(pos, 23))));
	__m256i		bit = _mm256_sllv_epi32(one, _mm256_and_si256(pos, _mm256_set1_epi32(31)));

	return _mm256_testc_si256(word, bit) != 0;
}

__attribute__((target("avx2")))
bool
lsm_blocked_probe_avx2(const LsmFilter *filter, LsmDigest digest)
{
	const BlockedLanes *lanes = &blocked_lanes[filter->probes - 1];
	const uint8_t *line = lsm_blocked_line(filter, digest);
	__m256i		low = _mm256_loadu_si256((const __m256i *) line);
	__m256i		high = _mm256_loadu_si256((const __m256i *) (line + 32));
	__m256i		half = _mm256_set1_epi32((int) (uint32_t) digest);
	bool		all = blocked_eight_lanes(lanes, 0, low, high, half);

	if (filter->probes > 8 && all)
		all = blocked_eight_lanes(lanes, 8, low, high, half);
	return all;
}

/* What all digests of a group have in common stays in registers. */
__attribute__((target("avx2")))
uint32_t
lsm_blocked_probe_group_avx2(const LsmFilter *filter, const LsmDigest *digests, uint32_t n)
{
	const BlockedLanes *lanes = &blocked_lanes[filter->probes - 1];
	bool		two_rounds = filter->probes > 8;
	uint32_t	answer = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		const uint8_t *line = lsm_blocked_line(filter, digests[i]);
		__m256i		low = _mm256_loadu_si256((const __m256i *) line);
		__m256i		high = _mm256_loadu_si256((const __m256i *) (line + 32));
		__m256i		half = _mm256_set1_epi32((int) (uint32_t) digests[i]);
		bool		all = blocked_eight_lanes(lanes, 0, low, high, half);

		if (two_rounds && all)
			all = blocked_eight_lanes(lanes, 8, low, high, half);
		answer |= (uint32_t) all << i;
	}
	return answer;
}

#endif							/* LSM_FILTER_X86 */

void
lsm_blocked_fill(const LsmFilter *filter, LsmDigest *digests, uint64_t n,
				 uint8_t *bits)
{
	const BlockedLanes *lanes = &blocked_lanes[filter->probes - 1];

	for (uint64_t i = 0; i < n; i++)
	{
		uint8_t    *line = bits +
			lsm_fast_range(digests[i], filter->nblocks) * LSM_FILTER_LINE_BYTES;

		if (i + BLOCKED_FILL_AHEAD < n)
			__builtin_prefetch(bits + lsm_fast_range(digests[i + BLOCKED_FILL_AHEAD],
													 filter->nblocks) * LSM_FILTER_LINE_BYTES, 1);
		for (uint32_t j = 0; j < filter->probes; j++)
		{
			uint32_t	pos = blocked_position(lanes, digests[i], j);

			line[pos / 8] |= (uint8_t) (1 << (pos % 8));
		}
	}
}

static void
blocked_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	__builtin_prefetch(lsm_blocked_line(filter, digest));
}

/*
 * False positive rate of a line that holds `load` keys.  A bit of a lane of
 * width w is missed by all of them with probability (1 - 1/w)^load; lanes are
 * independent, and an absent key asks for one bit in each:
 *
 *		f(j) = product over lanes of (1 - (1 - 1/w)^j)
 *
 * Widths differ by one at most: 512 mod k lanes are one bit wider.
 */
static double
blocked_line_fpr(double load, uint32_t k)
{
	double		width = (double) (LSM_FILTER_LINE_BITS / k);
	double		nwide = (double) (LSM_FILTER_LINE_BITS % k);
	double		fpr = pow(-expm1(load * log1p(-1.0 / width)), k - nwide);

	if (nwide > 0)
		fpr *= pow(-expm1(load * log1p(-1.0 / (width + 1))), nwide);
	return fpr;
}

/*
 * An absent key falls in each line with equal probability, and the number of
 * keys in a line is binomial, n draws of probability 1/B (Poisson of mean n/B
 * when there are many lines):
 *
 *		FPR = sum over j of P(load = j) f(j)
 *
 * Summed from the mode outwards by the ratio of neighbouring probabilities,
 * which needs no factorials, until the probabilities vanish.
 */
double
lsm_blocked_fpr(uint64_t nkeys, uint64_t nblocks, uint32_t k)
{
	double		n = (double) nkeys;
	double		odds = (double) nblocks - 1;	/* (1 - 1/B) / (1/B) */
	double		mode = floor(n / (double) nblocks);
	double		weights = 0;
	double		sum = 0;
	double		weight;

	if (nkeys == 0)
		return 0;
	if (nblocks == 1)
		return blocked_line_fpr(n, k);

	weight = 1;
	for (double j = mode; j <= n && weight > BLOCKED_WEIGHT_MIN; j++)
	{
		weights += weight;
		sum += weight * blocked_line_fpr(j, k);
		weight *= (n - j) / ((j + 1) * odds);
	}
	weight = 1;
	for (double j = mode; j > 0 && weight > BLOCKED_WEIGHT_MIN;)
	{
		weight *= j * odds / (n - j + 1);
		j--;
		weights += weight;
		sum += weight * blocked_line_fpr(j, k);
	}
	return sum / weights;
}

/*
 * The k with the least false positive rate for the load the lines will really
 * have; the rate falls and then rises with k.  Going on from k = 8 costs a
 * second round of the vector probe, so it has to gain a tenth.
 */
uint32_t
lsm_blocked_probes(uint64_t nkeys, uint64_t nblocks)
{
	uint32_t	best = 1;
	double		best_fpr = lsm_blocked_fpr(nkeys, nblocks, 1);
	double		one_round_fpr = best_fpr;

	for (uint32_t k = 2; k <= BLOCKED_PROBES_MAX; k++)
	{
		double		fpr = lsm_blocked_fpr(nkeys, nblocks, k);

		if (fpr >= best_fpr)
			break;
		best = k;
		best_fpr = fpr;
		if (k <= 8)
			one_round_fpr = fpr;
	}
	return best > 8 && best_fpr > 0.9 * one_round_fpr ? 8 : best;
}

static void
blocked_plan(LsmFilter *filter)
{
	filter->nblocks = lsm_filter_lines(filter->nkeys, filter->bits_per_key);
	filter->nbits = filter->nblocks * LSM_FILTER_LINE_BITS;
	filter->payload_bytes = filter->nblocks * LSM_FILTER_LINE_BYTES;
	filter->probes = lsm_blocked_probes(filter->nkeys, filter->nblocks);
}

static const char *
blocked_check(LsmFilter *filter)
{
	if (filter->probes < 1 || filter->probes > BLOCKED_PROBES_MAX)
		return "number of probes of a blocked filter is out of range";
	if (filter->nbits == 0 || filter->nbits > LSM_FILTER_NBITS_MAX ||
		filter->nbits % LSM_FILTER_LINE_BITS != 0)
		return "number of bits of a blocked filter is out of range";
	if (filter->payload_bytes != filter->nbits / 8)
		return "payload of a blocked filter does not match its number of bits";
	filter->nblocks = filter->nbits / LSM_FILTER_LINE_BITS;
	return NULL;
}

static double
blocked_expected_fpr(const LsmFilter *filter)
{
	return lsm_blocked_fpr(filter->nkeys, filter->nblocks, filter->probes);
}

LsmBlockedProbes lsm_blocked = {.probe = lsm_blocked_probe_portable};

static bool
blocked_probe(const LsmFilter *filter, LsmDigest digest)
{
	return lsm_blocked.probe(filter, digest);
}

/* The law is that of bloom, but for a factor, up to where it is not used any more. */
const LsmFilterOps lsm_blocked_ops = {
	.plan = blocked_plan,
	.fill = lsm_blocked_fill,
	.check = blocked_check,
	.probe = blocked_probe,
	.prefetch = blocked_prefetch,
	.expected_fpr = blocked_expected_fpr,
	.factor = 1.3,
	.slope = LSM_FILTER_LN2 * LSM_FILTER_LN2,
};

/* A probe before this ran takes the portable code, with the same answer. */
__attribute__((constructor))
static void
lsm_blocked_dispatch(void)
{
#ifdef LSM_FILTER_X86
	if (lsm_cpu_has_avx2())
	{
		lsm_blocked.probe = lsm_blocked_probe_avx2;
		lsm_blocked.group = lsm_blocked_probe_group_avx2;
	}
#endif
}
