/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  The filter library: one 64-bit digest per key, and filters that are built
 *	  from digests and probed with a digest.
 *
 * Nothing in this room hashes anything but in lsm_digest_key(): filters take
 * digests as arguments, which is what lets a caller compute the digest once
 * and share it among the filters of all levels ("Reducing Bloom Filter CPU
 * Overhead in LSM-Trees on Modern Storage Devices", section 4).
 *
 * Plain C11 and libxxhash; no PostgreSQL, no allocation by the library: the
 * caller owns every buffer.  All functions are reentrant; a filter that was
 * opened is immutable and may be probed by any number of threads/processes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FILTER_H
#define LSM_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t LsmDigest;

/* ---- digest.c ---- */

/* Stored in every filter image; an image with another id is refused. */
#define LSM_DIGEST_ID_XXH3_64	1

/*
 * XXH3_64bits(key), dispatched at run time to the widest vector unit the CPU
 * has.  The result does not depend on the CPU.
 */
extern LsmDigest lsm_digest_key(const void *key, size_t key_bytes);

/*
 * Name of the instruction set chosen by the run-time dispatch: "avx2", "sse2",
 * ...
 */
extern const char *lsm_digest_isa(void);

/* ---- filter.c ---- */

/*
 * The schemes: a line each, from 0 on.  A new one is a line, and a file that
 * defines its LsmFilterOps, lsm_<name>_ops (filter_private.h).  Numbers are part
 * of the file format; never reuse one.
 */
#define LSM_FILTER_SCHEMES(SCHEME) \
	SCHEME(NONE, none, 0) \
	SCHEME(BLOOM, bloom, 1) \
	SCHEME(BLOCKED, blocked, 2) \
	SCHEME(ELASTIC, elastic, 3) \
	SCHEME(QUOTIENT, quotient, 4) \
	SCHEME(CASCADE, cascade, 5) \
	SCHEME(RIBBON, ribbon, 6)

#define LSM_FILTER_SCHEME_NUMBER(NAME, name, number) LSM_FILTER_##NAME = number,

typedef enum LsmFilterScheme
{
	LSM_FILTER_SCHEMES(LSM_FILTER_SCHEME_NUMBER)
} LsmFilterScheme;

/*
 * What filters of a scheme are like, to those that keep them.  A number that is
 * no scheme has no traits.
 */
typedef enum LsmFilterTrait
{
	LSM_FILTER_EMPTY = 0x01,	/* "maybe" is all they say: need not be opened */
	LSM_FILTER_UNITS = 0x02,	/* segments of units, each of which is in memory
								 * or is not: lsm_elastic_open() */
	LSM_FILTER_PAGES = 0x04,	/* lsm_filter_is_paged() */
	LSM_FILTER_MERGES = 0x08,	/* lsm_filter_merge() */
	LSM_FILTER_ONES_SAY_NO = 0x10	/* where all bits are ones, and none were
									 * written, a key may be denied */
} LsmFilterTrait;

typedef enum LsmFilterStatus
{
	LSM_FILTER_OK = 0,
	LSM_FILTER_CORRUPT,			/* bad magic, length, checksum or parameters */
	LSM_FILTER_UNKNOWN,			/* newer format version, scheme or digest id: the
								 * opened filter answers "maybe" to every probe */
	LSM_FILTER_INVALID,			/* bad argument (bits per key out of range,
								 * buffer too small, scheme not buildable) */
} LsmFilterStatus;

typedef struct LsmFilterParams
{
	LsmFilterScheme scheme;
	double		bits_per_key;	/* 1..64 */

	/*
	 * quotient, cascade: the keys of the largest filter that this one may be
	 * merged into, so that its fingerprints are made long enough (up to four
	 * more bits per key); 0: none.
	 */
	uint64_t	merge_keys;

	/*
	 * How many leading columns of the keys the digests of leading parts stand
	 * for that are among those of the whole keys; 0: there are none.
	 */
	uint32_t	leading;

	/* elastic only */
	uint32_t	units;			/* 1..LSM_ELASTIC_UNITS_MAX per segment */
	uint32_t	unit_bytes;		/* of one unit of a full segment: a power of two,
								 * 64..LSM_ELASTIC_UNIT_BYTES_MAX */
} LsmFilterParams;

#define LSM_FILTER_LEADING_MAX		8

#define LSM_ELASTIC_UNITS_MAX		16
#define LSM_ELASTIC_UNIT_BYTES_MAX	8192

/*
 * A filter opened over an image.  The image must stay mapped and unchanged as
 * long as the filter is in use.  Fields are private to src/filter.
 */
typedef struct LsmFilter
{
	uint32_t	scheme;			/* LsmFilterScheme, or ~0 for "maybe" */
	uint32_t	probes;			/* k; quotient, cascade: bits of a fingerprint +
								 * 256 * bits of a remainder; ribbon: columns +
								 * 256 * share of blocks with one more */
	uint32_t	leading;		/* of LsmFilterParams */
	uint64_t	nkeys;			/* distinct digests it was built from */
	uint64_t	nbits;
	uint64_t	nblocks;		/* cache lines (blocked), slots (quotient),
								 * pages (cascade), blocks of slots (ribbon) */
	uint64_t	wide_block;		/* ribbon: the first with a column more */
	uint32_t	parts;			/* ribbon */
	uint32_t	starts;			/* ribbon: slots of a part where a row may begin */
	void	   *work;			/* memory for building */
	double		bits_per_key;
	uint64_t	merge_keys;		/* of LsmFilterParams, while building */
	const uint8_t *bits;		/* payload within the image */
	uint64_t	payload_bytes;
	uint64_t	checked_bytes;	/* of these, under the image's checksum; 0: all */
} LsmFilter;

/* "none", "bloom", ...; NULL for a number that is no scheme. */
extern const char *lsm_filter_scheme_name(uint32_t scheme);

/* True if it has one of these traits. */
extern bool lsm_filter_scheme_has(uint32_t scheme, unsigned traits);

/* True if filters of the scheme can have digests of leading parts, too. */
extern bool lsm_filter_scheme_leads(uint32_t scheme);

#define LSM_FILTER_HEADER_BYTES 64	/* of an image */

/*
 * Keys of a full segment, for schemes that have segments; 0 for others, and for
 * bad parameters.  A builder notes a fence each time that it has seen this many
 * distinct keys.
 */
extern uint32_t lsm_filter_segment_keys(const LsmFilterParams *params);

/*
 * What a builder notes beside the keys' digests, for schemes with segments.
 *
 * Where segments 1, 2, .. begin (segment 0 has everything before): keys
 * ascending by memcmp, each greater than the last key of the segment before
 * and at most the first of its own.  Fence i is bytes[ends[i - 1] .. ends[i])
 *
 * Digests of leading parts (left in another order).  A leading part has no
 * segment of its own, so they are one small blocked filter beside the
 * directory, which is asked of all segments at once.  It is not elastic.  So it
 * has at most ten bits for each, and none is held if there are more than
 * LSM_ELASTIC_LEADING_FREE and more than one for four keys.
 */
typedef struct LsmFilterNotes
{
	const uint8_t *bytes;
	const uint32_t *ends;
	uint32_t	n;				/* segments - 1 */
	LsmDigest  *leading;
	uint64_t	nleading;
} LsmFilterNotes;

#define LSM_ELASTIC_LEADING_FREE	1024

/*
 * Bytes of the image for nkeys keys (header included); 0 for bad parameters, or a
 * number of fences that does not fit.  `notes` may be NULL for a scheme without
 * segments.
 */
extern size_t lsm_filter_image_bytes(const LsmFilterParams *params, uint64_t nkeys,
									 const LsmFilterNotes *notes);

/*
 * Bytes of memory that building such a filter takes meanwhile; 0: none.  Never
 * more than LSM_FILTER_WORK_MAX.
 */
extern size_t lsm_filter_work_bytes(const LsmFilterParams *params, uint64_t nkeys);

#define LSM_FILTER_WORK_MAX	(1024 * 1024)

/*
 * Build an image from n digests (duplicates allowed, any order; left in
 * another order) into `image`, which has room for lsm_filter_image_bytes() and
 * is aligned to 64 bytes.  Written completely: header, payload, checksum.
 * `work` has lsm_filter_work_bytes(params, n) bytes, aligned for words of 64
 * bits, and may be NULL for none.  With segments: digests in key order, one per
 * distinct key.
 */
extern LsmFilterStatus lsm_filter_build(const LsmFilterParams *params,
										LsmDigest *digests, uint64_t n,
										const LsmFilterNotes *notes, void *work,
										void *image, size_t image_bytes);

/*
 * Open an image.  `verify_checksum` reads the whole image.  On LSM_FILTER_OK
 * and LSM_FILTER_UNKNOWN *filter is usable; otherwise `why` (static string)
 * says what is wrong.
 */
extern LsmFilterStatus lsm_filter_open(const void *image, size_t image_bytes,
									   bool verify_checksum,
									   LsmFilter *filter, const char **why);

/* False: no key with this digest was added.  True: maybe. */
extern bool lsm_filter_probe(const LsmFilter *filter, LsmDigest digest);

/* Prefetch the cache line(s) that lsm_filter_probe() will touch first. */
extern void lsm_filter_prefetch(const LsmFilter *filter, LsmDigest digest);

/* Most digests for the next two */
#define LSM_FILTER_GROUP	32

/* Asks for n digests at once: bit i of the answer is that of digests[i]. */
extern uint32_t lsm_filter_probe_group(const LsmFilter *filter, const LsmDigest *digests,
									   uint32_t n);
extern void lsm_filter_prefetch_group(const LsmFilter *filter, const LsmDigest *digests,
									  uint32_t n);

/*
 * Closed-form false positive rate of this very filter (its m, n, k); 1.0 for
 * none.
 */
extern double lsm_filter_expected_fpr(const LsmFilter *filter);

/* Are these the parameters that the filter was built with? */
extern bool lsm_filter_built_with(const LsmFilter *filter, const LsmFilterParams *params);

/*
 * Closed-form false positive rate that a filter of these parameters over nkeys
 * keys would have; 1.0 for bad parameters.  An elastic filter counts as the
 * blocked one of the bits of all its units, which err alike.
 */
extern double lsm_filter_planned_fpr(const LsmFilterParams *params, uint64_t nkeys);

/* ---- allocate.c: bits per key by the size of runs ---- */

/* A run of sorted files, one filter of which is asked for each key. */
typedef struct LsmFilterRun
{
	uint64_t	keys;			/* whose digests are in its filters */
	LsmFilterScheme scheme;
	double		bits_per_key;	/* out */
} LsmFilterRun;

/* Can filters of the scheme have different bits per key by run? */
extern bool lsm_filter_scheme_allocates(LsmFilterScheme scheme);

/*
 * Sets bits_per_key of all runs, so that false positives are fewest for this
 * many bits per key on the average of all keys.  A run of blocked filters may
 * become one of bloom filters.  REQUIRES: lsm_filter_scheme_allocates() each.
 */
extern void lsm_filter_allocate(LsmFilterRun *runs, int nruns, double bits_per_key);

/* The scheme, or a better one for these bits per key. */
extern LsmFilterScheme lsm_filter_scheme_for_bits(LsmFilterScheme scheme, double bits_per_key,
												  uint64_t nkeys);

/* ---- cascade.c: filters that stay on storage ---- */

#define LSM_FILTER_PAGE_BYTES	4096

/*
 * True for a filter whose image need not be in memory: one page of it answers
 * a probe.  Such a filter is opened over the first LSM_FILTER_HEADER_BYTES of
 * the image (with the size of the whole, without verifying checksums), which
 * need not be kept.
 */
extern bool lsm_filter_is_paged(const LsmFilter *filter);

/* Where in the image the digest's page begins: a multiple of the page size. */
extern uint64_t lsm_filter_page_offset(const LsmFilter *filter, LsmDigest digest);

/*
 * Asks the page read from there.  LSM_FILTER_CORRUPT if it is not what was
 * written, else *maybe is the answer.
 */
extern LsmFilterStatus lsm_filter_probe_page(const LsmFilter *filter, const void *page,
											 LsmDigest digest, bool *maybe);

/* ---- quotient_merge.c ---- */

/* One input of a merge.  Fields are private to src/filter. */
typedef struct LsmFilterStream
{
	uint64_t	fingerprint;	/* the next one */
	uint32_t	cut_bits;		/* not in the output's fingerprints */
	int			heap;			/* not about this input: the heap's i-th element is
								 * in the i-th of these */
	const LsmFilter *paged;		/* cascade */
	uint64_t	page;			/* cascade: the next one */
	const uint8_t *(*read_page) (void *arg, uint64_t page_no);	/* NULL: in memory */
	void	   *read_arg;
	uint64_t	words[12];		/* a quotient filter and a cursor over it */
} LsmFilterStream;

/*
 * Build an image as lsm_filter_build() would from the digests that went into
 * `inputs`, open filters of schemes quotient and cascade, without knowing
 * these: a merge of sorted streams.  n is the number of distinct digests or a
 * higher number; `work` has room for ninputs.  The bytes are those of a filter
 * built from n distinct digests.
 *
 * Where the inputs' fingerprints are shorter than merge_keys asks for, but
 * long enough for n keys, so are the image's, which then has fewer bytes
 * (*used_bytes) than lsm_filter_image_bytes() says.
 *
 * LSM_FILTER_INVALID: the scheme or an input's cannot do that, or an input's
 * fingerprints are too short.  LSM_FILTER_CORRUPT: an input is damaged.
 */
extern LsmFilterStatus lsm_filter_merge(const LsmFilterParams *params, uint64_t n,
										const LsmFilter *inputs, int ninputs,
										LsmFilterStream *work,
										void *image, size_t image_bytes,
										size_t *used_bytes);

/* ---- elastic.c ----
 *
 * An elastic filter consists of segments, runs of keys in key order, and each
 * segment of `units` small filters of which any number, 0..units, may be held in
 * memory and asked.  lsm_filter_open() and lsm_filter_expected_fpr() (all units
 * on) work as for other schemes, but lsm_filter_probe() does not know the segment:
 * it says "maybe".
 */

/*
 * The parts of an open image; fields are private to src/filter but for the
 * first, and the check.
 */
typedef struct LsmElastic
{
	uint32_t	units;			/* per segment */
	uint32_t	segments;
	uint32_t	unit_bytes;		/* that one unit takes, at most */
	uint32_t	segment_keys;	/* keys of all segments but the last */
	uint64_t	nkeys;
	uint32_t	probes;
	uint32_t	full_lines;		/* cache lines of a unit of a full segment */
	uint32_t	last_lines;
	uint32_t	prefix_bytes;
	uint32_t	fence_bytes;
	uint32_t	leading_lines;	/* 0: leading parts are not known */
	uint32_t	leading_probes;
	uint32_t	check;			/* tells this image from others: the header's
								 * digest, which has a checksum of the units'
								 * checksums */
	uint64_t	nleading;
	const uint8_t *leading;
	const uint8_t *words;
	const uint8_t *ends;
	const uint8_t *checksums;
	const uint8_t *fences;
	const uint8_t *bits;		/* of unit 0 of segment 0 */
} LsmElastic;

/* REQUIRES: filter opened over an image of this scheme.  `why` as above. */
extern LsmFilterStatus lsm_elastic_open(const LsmFilter *filter, LsmElastic *elastic,
										const char **why);

/* The segment that has the key if any has. */
extern uint32_t lsm_elastic_find_segment(const LsmElastic *elastic,
										 const void *key, size_t key_bytes);

/* Lower fence of a segment; no bytes for segment 0. */
extern const void *lsm_elastic_fence(const LsmElastic *elastic, uint32_t segment,
									 size_t *fence_bytes);

extern uint64_t lsm_elastic_keys(const LsmElastic *elastic, uint32_t segment);

/* Bytes of each unit of the segment that hold something. */
extern uint32_t lsm_elastic_unit_bytes(const LsmElastic *elastic, uint32_t segment);

/*
 * A unit in the image, lsm_elastic_unit_bytes() long, within one page if
 * unit_bytes <= 4096.  NULL (only with `verify_checksum`): its checksum is
 * wrong.
 */
extern const void *lsm_elastic_unit(const LsmElastic *elastic, uint32_t segment,
									uint32_t unit, bool verify_checksum);

/*
 * Ask unit `unit` of the segment, whose bytes (from the image or a copy of
 * them) are at `bits`, aligned to 32 bytes.  False: no key of the segment has
 * the digest.
 */
extern bool lsm_elastic_probe(const LsmElastic *elastic, uint32_t segment,
							  uint32_t unit, const void *bits, LsmDigest digest);

extern void lsm_elastic_prefetch(const LsmElastic *elastic, uint32_t segment,
								 uint32_t unit, const void *bits, LsmDigest digest);

/* Does the filter know leading parts? */
static inline bool
lsm_elastic_leads(const LsmElastic *elastic)
{
	return elastic->leading_lines > 0;
}

/* False: no key has this leading part.  REQUIRES: lsm_elastic_leads(). */
extern bool lsm_elastic_probe_leading(const LsmElastic *elastic, LsmDigest digest);
extern void lsm_elastic_prefetch_leading(const LsmElastic *elastic, LsmDigest digest);

/* False positive rate of lsm_elastic_probe_leading(). */
extern double lsm_elastic_leading_fpr(const LsmElastic *elastic);

/*
 * False positive rate of one unit of the segment; units are independent: with i
 * of them on, the segment's is this to the power of i.
 */
extern double lsm_elastic_unit_fpr(const LsmElastic *elastic, uint32_t segment);

#endif							/* LSM_FILTER_H */
