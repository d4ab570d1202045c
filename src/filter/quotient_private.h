/*-------------------------------------------------------------------------
 *
 * quotient_private.h
 *	  Slots and fingerprints of quotient filters: for the files of src/filter
 *	  that deal with them, and nobody else.
 *
 * Nothing here leaves the filter's memory whatever that holds: slots are
 * checked by those who compute them from a digest, and every walk is bounded
 * by the number of slots.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_QUOTIENT_PRIVATE_H
#define LSM_QUOTIENT_PRIVATE_H

#include <string.h>

#include "filter/filter_private.h"
#include "filter/quotient.h"
#include "filter/quotient_merge.h"

#define LSM_QUOTIENT_NOWHERE	UINT64_MAX

/*
 * Of LsmFilterOps: 0.9 b - 3 bits of a remainder, 2^-r times the load on the mean
 * (quotient_image.c)
 */
#define LSM_QUOTIENT_LAW	.factor = 10, .slope = 0.9 * LSM_FILTER_LN2

/* The three words of bits in each block. */
typedef enum LsmQuotientBits
{
	LSM_OCCUPIED,				/* a quotient is that of some fingerprint */
	LSM_CONTINUATION,			/* same quotient as in the slot before */
	LSM_SHIFTED					/* not in the slot of its quotient */
} LsmQuotientBits;

/* Ones from bit 0 to bit `last`, 0..63. */
static inline uint64_t
lsm_ones_to(uint32_t last)
{
	return UINT64_MAX >> (63 - last);
}

static inline uint8_t *
lsm_quotient_block(const LsmQuotient *filter, uint64_t block)
{
	return filter->data + block * (3 + filter->remainder_bits) * 8;
}

static inline uint64_t
lsm_quotient_word(const LsmQuotient *filter, uint64_t block, LsmQuotientBits which)
{
	return lsm_load_word(lsm_quotient_block(filter, block) + which * 8);
}

static inline void
lsm_quotient_set_word(LsmQuotient *filter, uint64_t block, LsmQuotientBits which, uint64_t word)
{
	lsm_store_word(lsm_quotient_block(filter, block) + which * 8, word);
}

static inline bool
lsm_quotient_bit(const LsmQuotient *filter, uint64_t slot, LsmQuotientBits which)
{
	return (lsm_quotient_word(filter, slot / 64, which) >> (slot % 64)) & 1;
}

static inline void
lsm_quotient_set_bit(LsmQuotient *filter, uint64_t slot, LsmQuotientBits which, bool value)
{
	uint8_t    *at = lsm_quotient_block(filter, slot / 64) + which * 8;
	uint64_t	mask = UINT64_C(1) << (slot % 64);
	uint64_t	word = lsm_load_word(at);

	lsm_store_word(at, value ? word | mask : word & ~mask);
}

static inline bool
lsm_quotient_slot_empty(const LsmQuotient *filter, uint64_t slot)
{
	return !lsm_quotient_bit(filter, slot, LSM_OCCUPIED) &&
		!lsm_quotient_bit(filter, slot, LSM_CONTINUATION) &&
		!lsm_quotient_bit(filter, slot, LSM_SHIFTED);
}

static inline uint64_t
lsm_quotient_after(const LsmQuotient *filter, uint64_t slot)
{
	return slot + 1 < filter->nslots ? slot + 1 : 0;
}

static inline uint64_t
lsm_quotient_remainder(const LsmQuotient *filter, uint64_t slot)
{
	uint32_t	r = filter->remainder_bits;
	uint32_t	bit = (uint32_t) (slot % 64) * r;
	const uint8_t *at = lsm_quotient_block(filter, slot / 64) + (3 + bit / 64) * 8;
	uint64_t	value = lsm_load_word(at) >> (bit % 64);

	/*
	 * 64 remainders fill r words: what ends in another word ends in the block
	 */
	if (bit % 64 + r > 64)
		value |= lsm_load_word(at + 8) << (64 - bit % 64);
	return value & lsm_ones_to(r - 1);
}

static inline void
lsm_quotient_set_remainder(LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	uint32_t	r = filter->remainder_bits;
	uint32_t	bit = (uint32_t) (slot % 64) * r;
	uint8_t    *at = lsm_quotient_block(filter, slot / 64) + (3 + bit / 64) * 8;
	uint64_t	mask = lsm_ones_to(r - 1);
	uint64_t	word = lsm_load_word(at);

	word = (word & ~(mask << (bit % 64))) | (remainder << (bit % 64));
	lsm_store_word(at, word);
	if (bit % 64 + r > 64)
	{
		word = lsm_load_word(at + 8);
		word = (word & ~(mask >> (64 - bit % 64))) | (remainder >> (64 - bit % 64));
		lsm_store_word(at + 8, word);
	}
}

/* ---- fingerprints ---- */

/*
 * Quotient (of the whole, not of this page) and remainder of a fingerprint,
 * and back.  floor(x m / 2^64) of the fingerprint's bits x, padded with
 * zeroes, is the quotient, and the low half of the product the fraction,
 * exactly.
 */
static inline uint64_t
lsm_fingerprint_split(const LsmQuotient *filter, uint64_t fingerprint, uint64_t *remainder)
{
	uint64_t	x = fingerprint << (64 - filter->fingerprint_bits);

	*remainder = (x * filter->scale) >> (64 - filter->remainder_bits);
	return lsm_fast_range(x, filter->scale);
}

extern uint64_t lsm_fingerprint_join(const LsmQuotient *filter, uint64_t quotient,
									 uint64_t remainder);

static inline uint64_t
lsm_fingerprint_of(LsmDigest digest, uint32_t fingerprint_bits)
{
	return digest >> (64 - fingerprint_bits);
}

/* floor(log2(n)), n > 0 */
static inline uint32_t
lsm_log2(uint64_t n)
{
	return 63 - (uint32_t) __builtin_clzll(n);
}

/* ---- quotient.c ---- */

/*
 * First slot of the cluster that holds `slot`: the last one up to there that is
 * not shifted.  NOWHERE: there is none, which is damage.
 */
extern uint64_t lsm_quotient_cluster(const LsmQuotient *filter, uint64_t slot);

/* Occupied quotients from slot `from` to slot `to`, both included. */
extern uint64_t lsm_quotient_count_occupied(const LsmQuotient *filter, uint64_t from, uint64_t to);

/*
 * The n-th slot, n >= 1, from `slot` on that is no continuation: where in a
 * cluster the n-th run starts, or the cluster ends.  NOWHERE: not within one
 * round.
 */
extern uint64_t lsm_quotient_run(const LsmQuotient *filter, uint64_t slot, uint64_t n);

/* As lsm_quotient_lookup(), with the slot and remainder of this filter. */
extern bool lsm_quotient_contains(const LsmQuotient *filter, uint64_t slot, uint64_t remainder);

/*
 * What is used where the CPU has no population count, for the unit test: the
 * same answers, and the same bytes.
 */
extern bool lsm_quotient_contains_baseline(const LsmQuotient *filter, uint64_t slot,
										   uint64_t remainder);
extern bool lsm_quotient_insert_baseline(LsmQuotient *filter, uint64_t slot, uint64_t remainder);

/* ---- quotient_image.c ---- */

/*
 * Write the payload from sorted fingerprints, duplicates allowed.  False: more
 * of them than filter->nkeys.
 */
extern bool lsm_quotient_fill_sorted(const LsmFilter *filter, LsmFingerprintNext next,
									 void *arg, uint8_t *bits);
extern bool lsm_cascade_fill_sorted(const LsmFilter *filter, LsmFingerprintNext next,
									void *arg, uint8_t *bits);

/* An LsmFingerprintNext over sorted digests. */
typedef struct LsmDigestSource
{
	const LsmDigest *digests;
	uint64_t	n;
	uint64_t	at;
	uint32_t	fingerprint_bits;
} LsmDigestSource;
extern bool lsm_digest_source_next(void *arg, uint64_t *fingerprint);

/*
 * Length of fingerprints for a number of keys, bits per key and keys to merge
 * into.
 */
extern uint32_t lsm_fingerprint_bits(uint64_t nkeys, double bits_per_key, uint64_t merge_keys);

static inline uint32_t
lsm_filter_fingerprint_bits(const LsmFilter *filter)
{
	return filter->probes & 0xff;
}

static inline uint32_t
lsm_filter_remainder_bits(const LsmFilter *filter)
{
	return filter->probes >> 8;
}

/* The filter in an image's payload. */
extern void lsm_quotient_view(const LsmFilter *filter, LsmQuotient *quotient);

/* ---- cascade.c ---- */

#define LSM_CASCADE_PAGE_HEADER_BYTES	16

/* Page `page_no` at `page`, for lsm_quotient_contains() and cursors. */
extern void lsm_cascade_view(const LsmFilter *filter, const uint8_t *page, uint64_t page_no,
							 LsmQuotient *quotient);
/* Where page_no begins in the image in memory. */
extern const uint8_t *lsm_cascade_page(const LsmFilter *filter, uint64_t page_no);

typedef enum LsmCascadeState
{
	LSM_CASCADE_GOOD,
	LSM_CASCADE_FULL,			/* lost count of its fingerprints: says maybe */
	LSM_CASCADE_DAMAGED
} LsmCascadeState;

extern LsmCascadeState lsm_cascade_page_state(const uint8_t *page, uint64_t page_no);

#endif							/* LSM_QUOTIENT_PRIVATE_H */
