/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  The image of a filter, and the dispatch to its scheme.
 *
 * An image is a header of 64 bytes and a payload of whole cache lines, which
 * is therefore as well aligned as the image.  All numbers are little-endian.
 *
 *		 0	 8	magic
 *		 8	 2	format version
 *		10	 2	scheme (LsmFilterScheme)
 *		12	 2	digest id
 *		14	 2	k, probes per key
 *		16	 8	bits per key asked for, IEEE double
 *		24	 8	keys
 *		32	 8	bits
 *		40	 8	payload bytes
 *		48	 8	checksum of the payload: XXH3_64bits
 *		56	 4	how many cache lines of the payload, from its start, that checksum
 *				covers; 0: all.  A scheme whose parts are read one by one gives each
 *				of the others a checksum of its own.
 *		60	 4	checksum of bytes 0..59: low half of XXH3_64bits
 *
 * Magic, version, payload length and both checksums keep their places in all
 * format versions.  So damage is told from novelty: an image with a number we
 * do not know but correct checksums is a newer release's and answers "maybe",
 * which is always right if slow; anything else that does not fit is corrupt.
 *
 * The header's checksum is verified at every open and the payload's on demand.
 * Without it wrong answers are possible, but no probe can leave the payload:
 * that depends on the header alone.
 *
 * No state, no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "filter/filter_private.h"

#define OFF_VERSION				8
#define OFF_SCHEME				10
#define OFF_DIGEST_ID			12
#define OFF_PROBES				14
#define OFF_BITS_PER_KEY		16
#define OFF_NKEYS				24
#define OFF_NBITS				32
#define OFF_PAYLOAD_BYTES		40
#define OFF_PAYLOAD_CHECKSUM	48
#define OFF_CHECKED_LINES		56
#define OFF_HEADER_CHECKSUM		60

/* First byte not ASCII, last ones what a transfer in text mode would change. */
static const uint8_t filter_magic[8] = {0xf1, 'l', 's', 'm', 'f', '\r', '\n', 0x1a};

static const char *const filter_names[] = {
	[LSM_FILTER_NONE] = "none",
	[LSM_FILTER_BLOOM] = "bloom",
	[LSM_FILTER_BLOCKED] = "blocked",
	[LSM_FILTER_ELASTIC] = "elastic",
	[LSM_FILTER_QUOTIENT] = "quotient",
	[LSM_FILTER_CASCADE] = "cascade",
};

#define FILTER_NSCHEMES (sizeof(filter_names) / sizeof(filter_names[0]))

/* ---- scheme none: no payload, every probe "maybe" ---- */

static void
none_plan(LsmFilter *filter)
{
	filter->bits_per_key = 0;
}

static void
none_fill(const LsmFilter *filter, LsmDigest *digests, uint64_t n,
		  uint8_t *bits)
{
	(void) filter;
	(void) digests;
	(void) n;
	(void) bits;
}

static const char *
none_check(LsmFilter *filter)
{
	if (filter->probes != 0 || filter->nbits != 0 || filter->payload_bytes != 0)
		return "filter of scheme none has a payload";
	return NULL;
}

static bool
none_probe(const LsmFilter *filter, LsmDigest digest)
{
	(void) filter;
	(void) digest;
	return true;
}

static void
none_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	(void) filter;
	(void) digest;
}

static double
none_expected_fpr(const LsmFilter *filter)
{
	(void) filter;
	return 1.0;
}

static const LsmFilterOps none_ops = {
	.plan = none_plan,
	.fill = none_fill,
	.check = none_check,
	.probe = none_probe,
	.prefetch = none_prefetch,
	.expected_fpr = none_expected_fpr,
};

/*
 * The schemes of this build.  NULL: numbers given out to schemes that it cannot
 * build, and whose images it opens as "maybe".
 */
static const LsmFilterOps *const filter_ops[FILTER_NSCHEMES] = {
	[LSM_FILTER_NONE] = &none_ops,
	[LSM_FILTER_BLOOM] = &lsm_bloom_ops,
	[LSM_FILTER_BLOCKED] = &lsm_blocked_ops,
	[LSM_FILTER_ELASTIC] = &lsm_elastic_ops,
	[LSM_FILTER_QUOTIENT] = &lsm_quotient_ops,
	[LSM_FILTER_CASCADE] = &lsm_cascade_ops,
};

/* NULL for LSM_FILTER_SCHEME_MAYBE and all else that is not in this build. */
static inline const LsmFilterOps *
lsm_filter_ops_of(uint32_t scheme)
{
	return scheme < FILTER_NSCHEMES ? filter_ops[scheme] : NULL;
}

/* ---- little-endian numbers ---- */

static void
put_double(uint8_t *to, double value)
{
	uint64_t	image;

	memcpy(&image, &value, sizeof(image));
	put_le(to, image, 8);
}

static double
get_double(const uint8_t *from)
{
	uint64_t	image = get_le(from, 8);
	double		value;

	memcpy(&value, &image, sizeof(value));
	return value;
}

/*
 * Checksums happen to be digests of the bytes.  A new digest id would not
 * change them.
 */
uint64_t
lsm_filter_checksum(const uint8_t *data, size_t data_bytes)
{
	return lsm_digest_key(data, data_bytes);
}

static uint32_t
lsm_filter_header_checksum(const uint8_t *header)
{
	return (uint32_t) lsm_filter_checksum(header, OFF_HEADER_CHECKSUM);
}

/* ---- schemes by name ---- */

const char *
lsm_filter_scheme_name(uint32_t scheme)
{
	return scheme < FILTER_NSCHEMES ? filter_names[scheme] : NULL;
}

bool
lsm_filter_scheme_parse(const char *name, LsmFilterScheme *scheme)
{
	for (uint32_t i = 0; i < FILTER_NSCHEMES; i++)
	{
		if (strcmp(name, filter_names[i]) == 0)
		{
			*scheme = (LsmFilterScheme) i;
			return true;
		}
	}
	return false;
}

bool
lsm_filter_scheme_buildable(LsmFilterScheme scheme)
{
	return lsm_filter_ops_of((uint32_t) scheme) != NULL;
}

/* ---- building ---- */

/*
 * Sets everything in *filter but `bits`.  False if the scheme is not in this
 * build, bits_per_key (for schemes that use it) or nkeys is out of range, or
 * the image would not fit in the address space.
 */
bool
lsm_filter_plan(const LsmFilterParams *params, uint64_t nkeys, LsmFilter *filter)
{
	const LsmFilterOps *ops = lsm_filter_ops_of((uint32_t) params->scheme);

	if (ops == NULL || ops->plan == NULL || nkeys > LSM_FILTER_KEYS_MAX)
		return false;
	/* written so that NaN fails */
	if (params->scheme != LSM_FILTER_NONE &&
		!(params->bits_per_key >= LSM_FILTER_BITS_PER_KEY_MIN &&
		  params->bits_per_key <= LSM_FILTER_BITS_PER_KEY_MAX))
		return false;

	memset(filter, 0, sizeof(*filter));
	filter->scheme = (uint32_t) params->scheme;
	filter->nkeys = nkeys;
	filter->bits_per_key = params->bits_per_key;
	filter->merge_keys = params->merge_keys;
	ops->plan(filter);
	return filter->payload_bytes <= SIZE_MAX - LSM_FILTER_HEADER_BYTES;
}

size_t
lsm_filter_image_bytes(const LsmFilterParams *params, uint64_t nkeys)
{
	LsmFilter	filter;

	if (!lsm_filter_plan(params, nkeys, &filter))
		return 0;
	return (size_t) (LSM_FILTER_HEADER_BYTES + filter.payload_bytes);
}

/* The header of an image whose payload is written. */
void
lsm_filter_write_header(const LsmFilter *filter, uint8_t *header)
{
	const uint8_t *payload = header + LSM_FILTER_HEADER_BYTES;
	uint64_t	checked_bytes = filter->checked_bytes > 0 ? filter->checked_bytes :
		filter->payload_bytes;

	memcpy(header, filter_magic, sizeof(filter_magic));
	put_le(header + OFF_VERSION, LSM_FILTER_FORMAT_VERSION, 2);
	put_le(header + OFF_SCHEME, filter->scheme, 2);
	put_le(header + OFF_DIGEST_ID, LSM_DIGEST_ID_XXH3_64, 2);
	put_le(header + OFF_PROBES, filter->probes, 2);
	put_double(header + OFF_BITS_PER_KEY, filter->bits_per_key);
	put_le(header + OFF_NKEYS, filter->nkeys, 8);
	put_le(header + OFF_NBITS, filter->nbits, 8);
	put_le(header + OFF_PAYLOAD_BYTES, filter->payload_bytes, 8);
	put_le(header + OFF_PAYLOAD_CHECKSUM,
		   lsm_filter_checksum(payload, (size_t) checked_bytes), 8);
	put_le(header + OFF_CHECKED_LINES, filter->checked_bytes / LSM_FILTER_LINE_BYTES, 4);
	put_le(header + OFF_HEADER_CHECKSUM, lsm_filter_header_checksum(header), 4);
}

LsmFilterStatus
lsm_filter_build(const LsmFilterParams *params, LsmDigest *digests,
				 uint64_t n, void *image, size_t image_bytes)
{
	LsmFilter	filter;
	uint8_t    *payload = (uint8_t *) image + LSM_FILTER_HEADER_BYTES;

	if (!lsm_filter_plan(params, n, &filter) ||
		image_bytes < LSM_FILTER_HEADER_BYTES ||
		image_bytes - LSM_FILTER_HEADER_BYTES < filter.payload_bytes)
		return LSM_FILTER_INVALID;

	memset(payload, 0, filter.payload_bytes);
	lsm_filter_ops_of(filter.scheme)->fill(&filter, digests, n, payload);
	lsm_filter_write_header(&filter, image);
	return LSM_FILTER_OK;
}

/* ---- opening ---- */

/*
 * Checks what all format versions have in common.  Returns NULL, or what is
 * wrong.
 */
static const char *
lsm_filter_check_envelope(const uint8_t *image, size_t image_bytes,
						  bool verify_checksum)
{
	uint64_t	payload_bytes;
	uint64_t	checked_bytes;

	if (image_bytes < LSM_FILTER_HEADER_BYTES)
		return "image is shorter than its header";
	if (memcmp(image, filter_magic, sizeof(filter_magic)) != 0)
		return "magic number is wrong";
	if (get_le(image + OFF_HEADER_CHECKSUM, 4) != lsm_filter_header_checksum(image))
		return "checksum of the header is wrong";

	payload_bytes = get_le(image + OFF_PAYLOAD_BYTES, 8);
	if (payload_bytes > image_bytes - LSM_FILTER_HEADER_BYTES)
		return "image is truncated";
	if (payload_bytes < image_bytes - LSM_FILTER_HEADER_BYTES)
		return "image is longer than its header says";

	checked_bytes = get_le(image + OFF_CHECKED_LINES, 4) * LSM_FILTER_LINE_BYTES;
	if (checked_bytes == 0)
		checked_bytes = payload_bytes;
	if (checked_bytes > payload_bytes)
		return "checksum covers more than the payload";
	if (verify_checksum &&
		get_le(image + OFF_PAYLOAD_CHECKSUM, 8) !=
		lsm_filter_checksum(image + LSM_FILTER_HEADER_BYTES, (size_t) checked_bytes))
		return "checksum of the payload is wrong";
	return NULL;
}

static LsmFilterStatus
lsm_filter_fail(LsmFilterStatus status, const char *reason, const char **why)
{
	if (why != NULL)
		*why = reason;
	return status;
}

LsmFilterStatus
lsm_filter_open(const void *image, size_t image_bytes, bool verify_checksum,
				LsmFilter *filter, const char **why)
{
	const uint8_t *header = image;
	const LsmFilterOps *ops;
	const char *reason;
	uint32_t	scheme;

	/* whatever happens, a caller that probes all the same loses no key */
	memset(filter, 0, sizeof(*filter));
	filter->scheme = LSM_FILTER_SCHEME_MAYBE;
	if (why != NULL)
		*why = NULL;

	reason = lsm_filter_check_envelope(header, image_bytes, verify_checksum);
	if (reason != NULL)
		return lsm_filter_fail(LSM_FILTER_CORRUPT, reason, why);

	if (get_le(header + OFF_VERSION, 2) != LSM_FILTER_FORMAT_VERSION)
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, "format version is unknown", why);
	if (get_le(header + OFF_DIGEST_ID, 2) != LSM_DIGEST_ID_XXH3_64)
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, "digest function is unknown", why);
	scheme = (uint32_t) get_le(header + OFF_SCHEME, 2);
	ops = lsm_filter_ops_of(scheme);
	if (ops == NULL)
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, "filter scheme is unknown", why);
	filter->checked_bytes = get_le(header + OFF_CHECKED_LINES, 4) * LSM_FILTER_LINE_BYTES;
	if (filter->checked_bytes != 0 && !ops->checksums_parts)
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, "filter parameter is unknown", why);

	filter->probes = (uint32_t) get_le(header + OFF_PROBES, 2);
	filter->nkeys = get_le(header + OFF_NKEYS, 8);
	filter->nbits = get_le(header + OFF_NBITS, 8);
	filter->bits_per_key = get_double(header + OFF_BITS_PER_KEY);
	filter->payload_bytes = get_le(header + OFF_PAYLOAD_BYTES, 8);
	filter->bits = header + LSM_FILTER_HEADER_BYTES;

	if (filter->nkeys > LSM_FILTER_KEYS_MAX)
		return lsm_filter_fail(LSM_FILTER_CORRUPT, "number of keys is out of range", why);
	if (scheme != LSM_FILTER_NONE &&
		!(filter->bits_per_key >= LSM_FILTER_BITS_PER_KEY_MIN &&
		  filter->bits_per_key <= LSM_FILTER_BITS_PER_KEY_MAX))
		return lsm_filter_fail(LSM_FILTER_CORRUPT, "bits per key are out of range", why);
	reason = ops->check(filter);
	if (reason != NULL)
		return lsm_filter_fail(LSM_FILTER_CORRUPT, reason, why);

	filter->scheme = scheme;
	return LSM_FILTER_OK;
}

/* ---- using ---- */

bool
lsm_filter_probe(const LsmFilter *filter, LsmDigest digest)
{
	const LsmFilterOps *ops;

	if (__builtin_expect(filter->scheme == LSM_FILTER_BLOCKED, 1))
		return lsm_blocked_ops.probe(filter, digest);
	ops = lsm_filter_ops_of(filter->scheme);
	if (__builtin_expect(ops == NULL, 0))
		return true;
	return ops->probe(filter, digest);
}

void
lsm_filter_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	const LsmFilterOps *ops;

	if (__builtin_expect(filter->scheme == LSM_FILTER_BLOCKED, 1))
	{
		/*
		 * what its own function does: asked of every run, before anything else
		 */
		__builtin_prefetch(lsm_blocked_line(filter, digest));
		return;
	}
	ops = lsm_filter_ops_of(filter->scheme);
	if (ops != NULL)
		ops->prefetch(filter, digest);
}

uint32_t
lsm_filter_probe_group(const LsmFilter *filter, const LsmDigest *digests, uint32_t n)
{
	const LsmFilterOps *ops = lsm_filter_ops_of(filter->scheme);
	uint32_t	answer = 0;

	if (__builtin_expect(ops != NULL && ops->probe_group != NULL, 1))
		return ops->probe_group(filter, digests, n);
	for (uint32_t i = 0; i < n; i++)
		answer |= (uint32_t) (ops == NULL || ops->probe(filter, digests[i])) << i;
	return answer;
}

void
lsm_filter_prefetch_group(const LsmFilter *filter, const LsmDigest *digests, uint32_t n)
{
	if (__builtin_expect(filter->scheme == LSM_FILTER_BLOCKED, 1))
	{
		for (uint32_t i = 0; i < n; i++)
			__builtin_prefetch(lsm_blocked_line(filter, digests[i]));
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		lsm_filter_prefetch(filter, digests[i]);
}

double
lsm_filter_expected_fpr(const LsmFilter *filter)
{
	const LsmFilterOps *ops = lsm_filter_ops_of(filter->scheme);

	return ops != NULL ? ops->expected_fpr(filter) : 1.0;
}

bool
lsm_filter_built_with(const LsmFilter *filter, const LsmFilterParams *params)
{
	return filter->scheme == (uint32_t) params->scheme &&
		(params->scheme == LSM_FILTER_NONE ||
		 filter->bits_per_key == params->bits_per_key);
}

double
lsm_filter_planned_fpr(const LsmFilterParams *params, uint64_t nkeys)
{
	LsmFilterParams plain = *params;
	LsmFilter	filter;

	if (plain.scheme == LSM_FILTER_ELASTIC)
		plain.scheme = LSM_FILTER_BLOCKED;
	if (!lsm_filter_plan(&plain, nkeys, &filter))
		return 1.0;
	return lsm_filter_expected_fpr(&filter);
}
