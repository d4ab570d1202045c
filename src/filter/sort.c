/*-------------------------------------------------------------------------
 *
 * sort.c
 *	  Sorts digests where they are: a radix sort from the first byte down
 *	  (McIlroy, Bostic, McIlroy, "Engineering Radix Sort", 1993: American flag
 *	  sort).  Digests are uniform, so one or two passes leave little to do.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/quotient_private.h"

/* Up to so many are sorted by insertion. */
#define INSERTION_MAX	32

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

/* By the byte at `shift` and all below it. */
static void
radix_sort(LsmDigest *digests, uint64_t n, int shift)
{
	uint64_t	next[256];
	uint64_t	end[256];
	uint64_t	sum = 0;

	memset(end, 0, sizeof(end));
	for (uint64_t i = 0; i < n; i++)
		end[(digests[i] >> shift) & 0xff]++;
	for (int byte = 0; byte < 256; byte++)
	{
		next[byte] = sum;
		sum += end[byte];
		end[byte] = sum;
	}

	/* each digest taken up goes to its place, whose digest is taken up next */
	for (int byte = 0; byte < 256; byte++)
	{
		while (next[byte] < end[byte])
		{
			LsmDigest	digest = digests[next[byte]];
			int			home = (int) ((digest >> shift) & 0xff);

			while (home != byte)
			{
				LsmDigest	taken = digests[next[home]];

				digests[next[home]++] = digest;
				digest = taken;
				home = (int) ((digest >> shift) & 0xff);
			}
			digests[next[byte]++] = digest;
		}
	}
	if (shift == 0)
		return;
	for (int byte = 0; byte < 256; byte++)
	{
		uint64_t	start = byte > 0 ? end[byte - 1] : 0;

		if (end[byte] - start > INSERTION_MAX)
			radix_sort(digests + start, end[byte] - start, shift - 8);
		else
			insertion_sort(digests + start, end[byte] - start);
	}
}

void
lsm_digest_sort(LsmDigest *digests, uint64_t n)
{
	if (n > INSERTION_MAX)
		radix_sort(digests, n, 56);
	else if (n > 1)
		insertion_sort(digests, n);
}
