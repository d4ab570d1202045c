/*-------------------------------------------------------------------------
 *
 * filter_private.h
 *	  Shared by the files of src/filter and by its unit test, by nobody else.
 *
 * How to add a scheme: write a file that defines its LsmFilterOps, and enter it
 * in LSM_FILTER_SCHEMES (filter.h).  The image's header, checksums and bounds are
 * dealt with in header.c and filter.c; a scheme only says how large its payload
 * is, fills it, judges a header's geometry, probes, and knows its false positive
 * rate and what it is like (traits).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FILTER_PRIVATE_H
#define LSM_FILTER_PRIVATE_H

#include <string.h>

#include "filter/filter.h"

#if defined(__x86_64__) || defined(__i386__)
#define LSM_FILTER_X86 1
#endif

#define LSM_FILTER_LINE_BYTES	64	/* payloads are whole cache lines */
#define LSM_FILTER_LINE_BITS	512

#define LSM_FILTER_FORMAT_VERSION	1

#define LSM_FILTER_SCHEME_MAYBE UINT32_MAX	/* LsmFilter.scheme of an image we
											 * do not understand */

#define LSM_FILTER_LN2	0.69314718055994530942

#define LSM_FILTER_BITS_PER_KEY_MIN 1.0
#define LSM_FILTER_BITS_PER_KEY_MAX 64.0

/* Keeps nkeys * bits_per_key exact in a double and every size below 2^46. */
#define LSM_FILTER_KEYS_MAX		(UINT64_C(1) << 40)
#define LSM_FILTER_NBITS_MAX	(UINT64_C(1) << 46)

/*
 * What a scheme is.  `filter` carries the parameters both when an image is
 * built (nkeys and bits_per_key set, the rest the scheme's choice) and when one
 * was opened.
 */
typedef struct LsmFilterOps
{
	/*
	 * Chooses probes, nbits, nblocks and payload_bytes (a multiple of
	 * LSM_FILTER_LINE_BYTES, or 0) for filter->nkeys and
	 * filter->bits_per_key, which are in range.  NULL: it has segments.
	 */
	void		(*plan) (LsmFilter *filter);

	/*
	 * Adds n digests, which it may sort, to `bits`, payload_bytes zero bytes.
	 */
	void		(*fill) (const LsmFilter *filter, LsmDigest *digests,
						 uint64_t n, uint8_t *bits);

	/*
	 * Bytes that `fill` needs at filter->work; NULL: none.
	 */
	size_t		(*work_bytes) (const LsmFilter *filter);

	/*
	 * Judges probes, nbits and payload_bytes of an opened header (anything
	 * may be in them) and sets what is derived from them.  Returns NULL, or
	 * what is wrong.  After NULL a probe with any digest stays within
	 * payload_bytes whatever the payload holds.
	 */
	const char *(*check) (LsmFilter *filter);

	bool		(*probe) (const LsmFilter *filter, LsmDigest digest);
	void		(*prefetch) (const LsmFilter *filter, LsmDigest digest);

	/* lsm_filter_probe_group(); NULL: probe them one by one. */
	uint32_t	(*probe_group) (const LsmFilter *filter, const LsmDigest *digests, uint32_t n);
	double		(*expected_fpr) (const LsmFilter *filter);

	/*
	 * Schemes with segments, in place of plan, fill and work_bytes:
	 * lsm_filter_segment_keys() (the work memory is of this many digests),
	 * lsm_filter_image_bytes() and lsm_filter_build().
	 */
	uint32_t	(*segment_keys) (const LsmFilterParams *params);
	size_t		(*image_bytes) (const LsmFilterParams *params, uint64_t nkeys,
								const LsmFilterNotes *notes);
	LsmFilterStatus (*build) (const LsmFilterParams *params, const LsmDigest *digests,
							  uint64_t n, const LsmFilterNotes *notes, LsmDigest *work,
							  void *image, size_t image_bytes);

	/* The header's checksum may cover the start of the payload only. */
	bool		checksums_parts;

	unsigned	traits;			/* LsmFilterTrait */

	/*
	 * For allocate.c, rate = factor * e^(-slope * bits), about; slope 0: bits
	 * are not shared out by run.
	 */
	double		factor;
	double		slope;
} LsmFilterOps;

#define LSM_FILTER_OPS_DECLARED(NAME, name, number) \
	extern const LsmFilterOps lsm_##name##_ops;

LSM_FILTER_SCHEMES(LSM_FILTER_OPS_DECLARED)

/* NULL for LSM_FILTER_SCHEME_MAYBE and all else that is not in this build. */
extern const LsmFilterOps *lsm_filter_ops_of(uint32_t scheme);

/*
 * The constructor in blocked.c replaces the portable probe by the vector ones if
 * the CPU has the unit.  Constant once the library is loaded.
 */
typedef struct LsmBlockedProbes
{
	bool		(*probe) (const LsmFilter *filter, LsmDigest digest);
	uint32_t	(*group) (const LsmFilter *filter, const LsmDigest *digests, uint32_t n);
} LsmBlockedProbes;

extern LsmBlockedProbes lsm_blocked;

/* ---- filter.c, for builders of images that are not made from digests ---- */

/* Sets everything in *filter but `bits`.  False for bad parameters. */
extern bool lsm_filter_plan(const LsmFilterParams *params, uint64_t nkeys, LsmFilter *filter);

/* ---- header.c ---- */

/*
 * What all format versions have in common.  Returns NULL, or what is wrong.
 */
extern const char *lsm_filter_check_envelope(const uint8_t *image, size_t image_bytes,
											 bool verify_checksum);

/* Of a header whose envelope is right; NULL, or what is unknown. */
extern const char *lsm_filter_header_scheme(const uint8_t *header, uint32_t *scheme);
/* ... its numbers, and where the payload is. */
extern void lsm_filter_read_header(const uint8_t *header, LsmFilter *filter);
/* Writes the header of an image whose payload is written. */
extern void lsm_filter_write_header(const LsmFilter *filter, uint8_t *image);
/* Checksum of a part that the header's does not cover. */
extern uint64_t lsm_filter_checksum(const uint8_t *data, size_t data_bytes);

/* ---- blocked.c, for schemes made of small blocked filters ---- */

#define LSM_BLOCKED_MULTIPLIER	0xadb4a92d

/* Sets bits (nblocks lines at `bits`, zero before the first) for n digests. */
extern void lsm_blocked_fill(const LsmFilter *filter, LsmDigest *digests,
							 uint64_t n, uint8_t *bits);
extern uint32_t lsm_blocked_probes(uint64_t nkeys, uint64_t nblocks);
extern double lsm_blocked_fpr(uint64_t nkeys, uint64_t nblocks, uint32_t probes);
#define LSM_BLOCKED_PROBES_MAX	16

/* ---- sort.c ---- */

/* Ascending, in place. */
extern void lsm_digest_sort(LsmDigest *digests, uint64_t n);

/* ---- the two probes of blocked.c, which must agree bit for bit ---- */

extern bool lsm_blocked_probe_portable(const LsmFilter *filter, LsmDigest digest);
#ifdef LSM_FILTER_X86
/* REQUIRES: lsm_cpu_has_avx2(). */
extern bool lsm_blocked_probe_avx2(const LsmFilter *filter, LsmDigest digest);
extern uint32_t lsm_blocked_probe_group_avx2(const LsmFilter *filter, const LsmDigest *digests,
											 uint32_t n);
#endif

/* ---- the two long-key digests, which must agree bit for bit ---- */

typedef LsmDigest (*LsmDigestLong) (const void *key, size_t key_bytes);

extern LsmDigest lsm_digest_long_baseline(const void *key, size_t key_bytes);

/*
 * NULL where this build has no AVX2 code; otherwise to be called only if
 * lsm_cpu_has_avx2().
 */
extern const LsmDigestLong lsm_digest_long_avx2;

/* ---- little-endian numbers ---- */

static inline void
put_le(uint8_t *to, uint64_t value, int nbytes)
{
	for (int i = 0; i < nbytes; i++)
		to[i] = (uint8_t) (value >> (8 * i));
}

static inline uint64_t
get_le(const uint8_t *from, int nbytes)
{
	uint64_t	value = 0;

	for (int i = 0; i < nbytes; i++)
		value |= (uint64_t) from[i] << (8 * i);
	return value;
}

/* Of words of 64 bits, at any alignment. */
static inline uint64_t
lsm_load_word(const uint8_t *at)
{
	uint64_t	word;

	memcpy(&word, at, sizeof(word));
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

static inline void
lsm_store_word(uint8_t *at, uint64_t word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	memcpy(at, &word, sizeof(word));
}

/* May be called from a constructor; covers the operating system's support. */
static inline bool
lsm_cpu_has_avx2(void)
{
#ifdef LSM_FILTER_X86
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") != 0;
#else
	return false;
#endif
}

/*
 * floor(x * n / 2^64): maps a uniform 64-bit x to 0..n-1 without a division
 * (Lemire, "Fast Random Integer Generation in an Interval", 2019, section 3).
 * The result depends on the high bits of x; whoever draws a second number from
 * the same digest has to take it from the low bits or remix.
 */
static inline uint64_t
lsm_fast_range(uint64_t x, uint64_t n)
{
#ifdef __SIZEOF_INT128__
	return (uint64_t) (((unsigned __int128) x * n) >> 64);
#else
	uint64_t	x_lo = (uint32_t) x;
	uint64_t	x_hi = x >> 32;
	uint64_t	n_lo = (uint32_t) n;
	uint64_t	n_hi = n >> 32;
	uint64_t	mid1 = x_hi * n_lo + ((x_lo * n_lo) >> 32);
	uint64_t	mid2 = x_lo * n_hi + (uint32_t) mid1;

	return x_hi * n_hi + (mid1 >> 32) + (mid2 >> 32);
#endif
}

/* The line of a blocked filter that knows the key. */
static inline const uint8_t *
lsm_blocked_line(const LsmFilter *filter, LsmDigest digest)
{
	return filter->bits +
		lsm_fast_range(digest, filter->nblocks) * LSM_FILTER_LINE_BYTES;
}

/*
 * Cache lines that hold bits_per_key bits for each of nkeys keys; at least one.
 * REQUIRES: both in range.
 */
static inline uint64_t
lsm_filter_lines(uint64_t nkeys, double bits_per_key)
{
	double		lines = (double) nkeys * bits_per_key / LSM_FILTER_LINE_BITS;
	uint64_t	whole = (uint64_t) lines;

	if ((double) whole < lines)
		whole++;
	return whole > 0 ? whole : 1;
}

/*
 * As the probe of blocked.c does it for one probe: its lane is the whole line.
 */
static inline bool
lsm_blocked_probe_one(const uint8_t *bits, uint32_t nblocks, LsmDigest digest)
{
	const uint8_t *line = bits + lsm_fast_range(digest, nblocks) * LSM_FILTER_LINE_BYTES;
	uint32_t	pos = ((uint32_t) digest * LSM_BLOCKED_MULTIPLIER) >> 23;

	return (line[pos / 8] >> (pos % 8)) & 1;
}

#endif							/* LSM_FILTER_PRIVATE_H */
