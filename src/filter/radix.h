/*-------------------------------------------------------------------------
 *
 * radix.h
 *	  A radix sort in place, from the first byte of a word down (McIlroy,
 *	  Bostic, McIlroy, "Engineering Radix Sort", 1993: American flag sort).
 *
 * To be included once for each kind of elements, with these defined:
 *	RADIX_SORT			name of the function: (elements, n, shift), where the
 *						byte at `shift` and those below it decide; 56 at first
 *	RADIX_ELEMENT		type of an element
 *	RADIX_WORD(e)		its word, 64 bits
 *	RADIX_FEW			up to this many are left to
 *	RADIX_SORT_FEW(elements, n)		which also sorts those of one word
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#define RADIX_BYTE(e)	((int) ((RADIX_WORD(e) >> shift) & 0xff))

static void
RADIX_SORT(RADIX_ELEMENT *elements, uint64_t n, int shift)
{
	uint64_t	next[256];
	uint64_t	end[256] = {0};
	uint64_t	sum = 0;

	if (n <= RADIX_FEW || shift < 0)
	{
		RADIX_SORT_FEW(elements, n);
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		end[RADIX_BYTE(elements[i])]++;
	for (int byte = 0; byte < 256; byte++)
	{
		next[byte] = sum;
		sum += end[byte];
		end[byte] = sum;
	}

	/* what is taken up goes to its place, from where the next is taken up */
	for (int byte = 0; byte < 256; byte++)
	{
		while (next[byte] < end[byte])
		{
			RADIX_ELEMENT element = elements[next[byte]];
			int			home;

			while ((home = RADIX_BYTE(element)) != byte)
			{
				RADIX_ELEMENT taken = elements[next[home]];

				elements[next[home]++] = element;
				element = taken;
			}
			elements[next[byte]++] = element;
		}
	}
	for (int byte = 0; byte < 256; byte++)
	{
		uint64_t	start = byte > 0 ? end[byte - 1] : 0;

		if (end[byte] - start > 1)
			RADIX_SORT(elements + start, end[byte] - start, shift - 8);
	}
}

#undef RADIX_BYTE
#undef RADIX_SORT
#undef RADIX_ELEMENT
#undef RADIX_WORD
#undef RADIX_FEW
#undef RADIX_SORT_FEW
