/*-------------------------------------------------------------------------
 *
 * filter_image.h
 *	  For unit tests of filters: keys that are numbers, the image of a filter,
 *	  and what holds for every scheme.
 *
 * Comes after filter/filter_private.h and tap.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FILTER_IMAGE_H
#define LSM_FILTER_IMAGE_H

#include <stdlib.h>
#include <string.h>

/* Digest of the 8-byte key `number`: what filters see in production. */
static LsmDigest
digest_of(uint64_t number)
{
	return lsm_digest_key(&number, sizeof(number));
}

/* A filter and the memory that it lies in, which is to be freed */
typedef struct Image
{
	uint8_t    *memory;
	size_t		bytes;
	LsmFilter	filter;
} Image;

/*
 * Groups of all sizes, of digests of the keys 0 .. 9999, get each one's answer.
 * *nyes, *nno: how many answers there were.
 */
static inline bool
group_answers(const LsmFilter *filter, uint64_t *nyes, uint64_t *nno)
{
	LsmDigest	digests[LSM_FILTER_GROUP];
	bool		good = true;

	*nyes = *nno = 0;
	for (uint32_t i = 0; i < 3000; i++)
	{
		uint32_t	n = i % (LSM_FILTER_GROUP + 1);
		uint32_t	answer;

		for (uint32_t j = 0; j < n; j++)
			digests[j] = digest_of((uint64_t) (i * 31 + j) % 10000);
		lsm_filter_prefetch_group(filter, digests, n);
		answer = lsm_filter_probe_group(filter, digests, n);
		for (uint32_t j = 0; j < n; j++)
		{
			bool		yes = (answer >> j) & 1;

			good &= yes == lsm_filter_probe(filter, digests[j]);
			*nyes += yes;
			*nno += !yes;
		}
		good &= n == LSM_FILTER_GROUP || answer >> n == 0;
	}
	return good;
}

#endif							/* LSM_FILTER_IMAGE_H */
