/*-------------------------------------------------------------------------
 *
 * sort.c
 *	  Sorts digests where they are.  Digests are uniform, so one or two passes
 *	  of a radix sort leave little to do.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/quotient_private.h"

static void
insertion_sort(LsmDigest *digests, uint64_t n)
{
	for (uint64_t i = 1; i < n; i++)
	{
		LsmDigest	digest = digests[i];
		uint64_t	j = i;

		for (; j > 0 && digests[j - 1] > digest; j--)
			digests[j] = digests[j - 1];
		digests[j] = digest;
	}
}

#define RADIX_SORT				radix_sort
#define RADIX_ELEMENT			LsmDigest
#define RADIX_WORD(e)			(e)
#define RADIX_FEW				32
#define RADIX_SORT_FEW(e, n)	insertion_sort(e, n)
#include "filter/radix.h"

void
lsm_digest_sort(LsmDigest *digests, uint64_t n)
{
	radix_sort(digests, n, 56);
}
