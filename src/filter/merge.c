/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  A filter's image made from those of other filters, without the keys.
 *
 * No locks, no allocation.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/quotient_private.h"

static bool
merge_source(void *arg, uint64_t *fingerprint)
{
	return lsm_stream_merge_next(arg, fingerprint);
}

/*
 * Plan the output with fingerprints no longer than those of the inputs: as for
 * fewer keys to be merged into than params say, if need be.  False: even
 * without any, n keys need longer ones.
 */
static bool
merge_plan(const LsmFilterParams *params, uint64_t n, const LsmFilter *inputs, int ninputs,
		   LsmFilter *filter)
{
	LsmFilterParams shorter = *params;
	uint32_t	longest = LSM_QUOTIENT_FINGERPRINT_MAX;

	if (!lsm_filter_scheme_has((uint32_t) params->scheme, LSM_FILTER_MERGES))
		return false;
	for (int i = 0; i < ninputs; i++)
	{
		if (!lsm_filter_scheme_has(inputs[i].scheme, LSM_FILTER_MERGES))
			return false;

		/* leading parts would be missing, or be more than n allows for */
		if (inputs[i].leading != params->leading)
			return false;
		if (lsm_filter_fingerprint_bits(&inputs[i]) < longest)
			longest = lsm_filter_fingerprint_bits(&inputs[i]);
	}
	for (;;)
	{
		if (!lsm_filter_plan(&shorter, n, filter))
			return false;
		if (lsm_filter_fingerprint_bits(filter) <= longest)
			return true;
		if (shorter.merge_keys <= n)
			return false;
		shorter.merge_keys /= 2;
	}
}

LsmFilterStatus
lsm_filter_merge(const LsmFilterParams *params, uint64_t n, const LsmFilter *inputs,
				 int ninputs, LsmFilterStream *work, void *image, size_t image_bytes,
				 size_t *used_bytes)
{
	LsmFilter	filter;
	LsmStreamMerge merge;
	uint8_t    *payload = (uint8_t *) image + LSM_FILTER_HEADER_BYTES;
	bool		fits;

	if (!merge_plan(params, n, inputs, ninputs, &filter) ||
		image_bytes < LSM_FILTER_HEADER_BYTES + filter.payload_bytes)
		return LSM_FILTER_INVALID;

	lsm_stream_merge_open(&merge, work, lsm_filter_fingerprint_bits(&filter));
	for (int i = 0; i < ninputs; i++)
	{
		if (!lsm_stream_merge_add_filter(&merge, &inputs[i]))
			return LSM_FILTER_INVALID;
	}
	memset(payload, 0, filter.payload_bytes);
	if (params->scheme == LSM_FILTER_QUOTIENT)
		fits = lsm_quotient_fill_sorted(&filter, merge_source, &merge, payload);
	else
		fits = lsm_cascade_fill_sorted(&filter, merge_source, &merge, payload);
	if (merge.damaged || !fits)
		return LSM_FILTER_CORRUPT;
	lsm_filter_write_header(&filter, image);
	*used_bytes = (size_t) (LSM_FILTER_HEADER_BYTES + filter.payload_bytes);
	return LSM_FILTER_OK;
}
