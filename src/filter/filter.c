/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  The image of a filter, and the dispatch to its scheme.
 *
 * Magic, version, payload length and both checksums keep their places in all
 * format versions (header.c).  So damage is told from novelty: an image with a
 * number we do not know but correct checksums is a newer release's and answers
 * "maybe", which is always right if slow; anything else that does not fit is
 * corrupt.
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

const LsmFilterOps lsm_none_ops = {
	.plan = none_plan,
	.fill = none_fill,
	.check = none_check,
	.probe = none_probe,
	.prefetch = none_prefetch,
	.expected_fpr = none_expected_fpr,
	.traits = LSM_FILTER_EMPTY,
};

/* ---- the schemes ---- */

#define PICK_NAME(NAME, name, number) [number] = #name,
#define PICK_OPS(NAME, name, number) [number] = &lsm_##name##_ops,

static const char *const filter_names[] = {LSM_FILTER_SCHEMES(PICK_NAME)};
static const LsmFilterOps *const filter_ops[] = {LSM_FILTER_SCHEMES(PICK_OPS)};

#define FILTER_NSCHEMES (sizeof(filter_ops) / sizeof(filter_ops[0]))

static inline const LsmFilterOps *
ops_of(uint32_t scheme)
{
	return scheme < FILTER_NSCHEMES ? filter_ops[scheme] : NULL;
}

const LsmFilterOps *
lsm_filter_ops_of(uint32_t scheme)
{
	return ops_of(scheme);
}

const char *
lsm_filter_scheme_name(uint32_t scheme)
{
	return scheme < FILTER_NSCHEMES ? filter_names[scheme] : NULL;
}

bool
lsm_filter_scheme_has(uint32_t scheme, unsigned traits)
{
	return scheme < FILTER_NSCHEMES && (filter_ops[scheme]->traits & traits) != 0;
}

bool
lsm_filter_scheme_leads(uint32_t scheme)
{
	return scheme < FILTER_NSCHEMES && !lsm_filter_scheme_has(scheme, LSM_FILTER_EMPTY);
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
	const LsmFilterOps *ops = ops_of((uint32_t) params->scheme);

	if (ops == NULL || ops->plan == NULL || nkeys > LSM_FILTER_KEYS_MAX ||
		params->leading > LSM_FILTER_LEADING_MAX)
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
	if (lsm_filter_scheme_leads(params->scheme))
		filter->leading = params->leading;
	ops->plan(filter);
	return filter->payload_bytes <= SIZE_MAX - LSM_FILTER_HEADER_BYTES;
}

uint32_t
lsm_filter_segment_keys(const LsmFilterParams *params)
{
	const LsmFilterOps *ops = ops_of((uint32_t) params->scheme);

	return ops != NULL && ops->segment_keys != NULL ? ops->segment_keys(params) : 0;
}

size_t
lsm_filter_image_bytes(const LsmFilterParams *params, uint64_t nkeys, const LsmFilterNotes *notes)
{
	const LsmFilterOps *ops = ops_of((uint32_t) params->scheme);
	LsmFilter	filter;

	if (ops != NULL && ops->image_bytes != NULL)
		return notes != NULL ? ops->image_bytes(params, nkeys, notes) : 0;
	if (!lsm_filter_plan(params, nkeys, &filter))
		return 0;
	return (size_t) (LSM_FILTER_HEADER_BYTES + filter.payload_bytes);
}

/* Of a filter that was planned. */
static size_t
filter_work_bytes(const LsmFilter *filter)
{
	const LsmFilterOps *ops = ops_of(filter->scheme);

	return ops->work_bytes != NULL ? ops->work_bytes(filter) : 0;
}

size_t
lsm_filter_work_bytes(const LsmFilterParams *params, uint64_t nkeys)
{
	LsmFilter	filter;

	if (lsm_filter_plan(params, nkeys, &filter))
		return filter_work_bytes(&filter);
	return lsm_filter_segment_keys(params) * sizeof(LsmDigest);
}

LsmFilterStatus
lsm_filter_build(const LsmFilterParams *params, LsmDigest *digests, uint64_t n,
				 const LsmFilterNotes *notes, void *work, void *image, size_t image_bytes)
{
	const LsmFilterOps *ops = ops_of((uint32_t) params->scheme);
	LsmFilter	filter;
	uint8_t    *payload = (uint8_t *) image + LSM_FILTER_HEADER_BYTES;

	if (ops != NULL && ops->build != NULL && notes != NULL)
		return ops->build(params, digests, n, notes, work, image, image_bytes);

	if (!lsm_filter_plan(params, n, &filter) ||
		image_bytes < LSM_FILTER_HEADER_BYTES ||
		image_bytes - LSM_FILTER_HEADER_BYTES < filter.payload_bytes ||
		(work == NULL && filter_work_bytes(&filter) > 0))
		return LSM_FILTER_INVALID;

	filter.work = work;
	memset(payload, 0, filter.payload_bytes);
	ops->fill(&filter, digests, n, payload);
	lsm_filter_write_header(&filter, image);
	return LSM_FILTER_OK;
}

/* ---- opening ---- */

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

	reason = lsm_filter_header_scheme(header, &scheme);
	if (reason != NULL)
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, reason, why);
	ops = ops_of(scheme);
	if (ops == NULL)
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, "filter scheme is unknown", why);
	lsm_filter_read_header(header, filter);
	if (filter->leading > (lsm_filter_scheme_leads(scheme) ? LSM_FILTER_LEADING_MAX : 0))
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, "number of leading columns is unknown", why);
	if (filter->checked_bytes != 0 && !ops->checksums_parts)
		return lsm_filter_fail(LSM_FILTER_UNKNOWN, "filter parameter is unknown", why);

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
		return lsm_blocked.probe(filter, digest);
	ops = ops_of(filter->scheme);
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
	ops = ops_of(filter->scheme);
	if (ops != NULL)
		ops->prefetch(filter, digest);
}

uint32_t
lsm_filter_probe_group(const LsmFilter *filter, const LsmDigest *digests, uint32_t n)
{
	const LsmFilterOps *ops = ops_of(filter->scheme);
	uint32_t	answer = 0;

	if (__builtin_expect(filter->scheme == LSM_FILTER_BLOCKED && lsm_blocked.group != NULL, 1))
		return lsm_blocked.group(filter, digests, n);
	if (ops != NULL && ops->probe_group != NULL)
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
	const LsmFilterOps *ops = ops_of(filter->scheme);

	return ops != NULL ? ops->expected_fpr(filter) : 1.0;
}

bool
lsm_filter_built_with(const LsmFilter *filter, const LsmFilterParams *params)
{
	return filter->scheme == (uint32_t) params->scheme &&
		(params->scheme == LSM_FILTER_NONE ||
		 (filter->bits_per_key == params->bits_per_key &&
		  (filter->leading == params->leading || !lsm_filter_scheme_leads(params->scheme))));
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
