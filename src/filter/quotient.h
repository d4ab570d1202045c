/*-------------------------------------------------------------------------
 *
 * quotient.h
 *	  The quotient filter as a data structure over the caller's memory: insert,
 *	  lookup, delete, iterate, merge, resize (Bender et al., "Don't Thrash: How
 *	  to Cache your Hash on Flash", 2011, section 2).
 *
 * A fingerprint is the first p bits of a digest, so the fingerprints of one
 * digest at all lengths agree, and the order of fingerprints is that of
 * digests.  A filter with m quotients maps fingerprint f to
 *
 *		quotient	Q = floor(f m / 2^p)
 *		remainder	R = first r bits of the fraction f m / 2^p - Q
 *
 * which is the paper's "q most and r least significant bits" if m = 2^q, and
 * lets a file have as many slots as it needs if not.  It loses nothing as long
 * as 2^(p-r) <= m: fractions of neighbours differ by m / 2^p.
 *
 * Slots come in blocks of 64: a word each of the bits is-occupied,
 * is-continuation and is-shifted, then r words of remainders.  The meaning of
 * the bits is the paper's, but clusters are decoded a word at a time.  The
 * last slot is followed by the first.
 *
 * A filter is a multiset of fingerprints.  It has no false negatives, and a
 * digest that was never inserted is found with probability
 *
 *		1 - (1 - 2^-p)^n  ~  1 - e^(-n / 2^p)  =  1 - e^(-alpha / 2^r)  <=  2^-r
 *
 * for n distinct fingerprints, load alpha = n / m and m = 2^q.
 *
 * No locks, no allocation; one writer or many readers.  Words are
 * little-endian, at any alignment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_QUOTIENT_H
#define LSM_QUOTIENT_H

#include "filter/filter.h"

#define LSM_QUOTIENT_REMAINDER_MAX		32
#define LSM_QUOTIENT_FINGERPRINT_MAX	62

/*
 * A filter, or one page of a cascade filter: then `first` is the quotient of
 * its slot 0, and `scale` the number of quotients of all pages.
 */
typedef struct LsmQuotient
{
	uint8_t    *data;			/* caller's */
	uint64_t	nslots;			/* multiple of 64, one for each quotient */
	uint64_t	scale;
	uint64_t	first;
	uint64_t	count;			/* fingerprints held, with multiplicity */
	uint32_t	fingerprint_bits;
	uint32_t	remainder_bits;
} LsmQuotient;

/* Iterates in the order of fingerprints.  Fields are private. */
typedef struct LsmQuotientCursor
{
	const LsmQuotient *filter;
	uint64_t	slot;
	uint64_t	left;			/* slots not yet seen */
	uint64_t	quotient;
	bool		damaged;
} LsmQuotientCursor;

/* Fills an empty filter with ascending fingerprints.  Fields are private. */
typedef struct LsmQuotientBuilder
{
	LsmQuotient *filter;
	uint64_t	next;			/* slot behind the last one filled */
	uint64_t	quotient;		/* last one */
} LsmQuotientBuilder;

static inline uint64_t
lsm_quotient_bytes(uint64_t nslots, uint32_t remainder_bits)
{
	return nslots / 64 * (3 + remainder_bits) * 8;
}

/* ---- quotient.c ---- */

/*
 * Bytes for 2^quotient_bits slots; 0 for parameters out of range: 6..40
 * quotient bits, 1..32 remainder bits, 62 together.
 */
extern uint64_t lsm_quotient_size(uint32_t quotient_bits, uint32_t remainder_bits);

/*
 * An empty filter in `data`, which has lsm_quotient_size() bytes and is zeroed
 * here.  False for parameters out of range.
 */
extern bool lsm_quotient_init(LsmQuotient *filter, uint32_t quotient_bits,
							  uint32_t remainder_bits, void *data);

/* False: no room (every slot is taken), or the memory is damaged. */
extern bool lsm_quotient_insert(LsmQuotient *filter, LsmDigest digest);
extern bool lsm_quotient_insert_fingerprint(LsmQuotient *filter, uint64_t fingerprint);

/* Removes one of the digest's fingerprint; false if there is none. */
extern bool lsm_quotient_delete(LsmQuotient *filter, LsmDigest digest);

/*
 * False: not inserted, or deleted again.  True: maybe.  Damaged memory may give
 * either answer, but is never left.
 */
extern bool lsm_quotient_lookup(const LsmQuotient *filter, LsmDigest digest);

extern void lsm_quotient_prefetch(const LsmQuotient *filter, LsmDigest digest);

/* 1 - e^(-count / 2^p) */
extern double lsm_quotient_expected_fpr(uint64_t count, uint32_t fingerprint_bits);

/* ---- quotient_stream.c ---- */

extern void lsm_quotient_cursor_open(LsmQuotientCursor *cursor, const LsmQuotient *filter);
/* False at the end, or if the memory is damaged (cursor->damaged). */
extern bool lsm_quotient_cursor_next(LsmQuotientCursor *cursor, uint64_t *fingerprint);

/* REQUIRES: an empty filter. */
extern void lsm_quotient_builder_open(LsmQuotientBuilder *builder, LsmQuotient *filter);
/* REQUIRES: fingerprint >= those before.  False: no room. */
extern bool lsm_quotient_builder_add(LsmQuotientBuilder *builder, uint64_t fingerprint);

/* ---- quotient_merge.c ---- */

/*
 * Adds everything in the ninputs filters to `output`, which is empty, as one
 * sorted stream.  Their fingerprints may be longer than the output's, and are
 * cut then, but not shorter.  `work` has room for ninputs.  False: no room, or
 * too short.
 */
extern bool lsm_quotient_merge(const LsmQuotient *inputs, int ninputs,
							   LsmFilterStream *work, LsmQuotient *output);

/*
 * Copies the filter with one bit moved from the remainder to the quotient, or
 * back (grow = false), into `data` of lsm_quotient_size() bytes of the new
 * geometry.  REQUIRES: made by lsm_quotient_init().  False: out of range, or
 * no room.
 */
extern bool lsm_quotient_resize(const LsmQuotient *filter, bool grow,
								LsmQuotient *output, void *data);

#endif							/* LSM_QUOTIENT_H */
