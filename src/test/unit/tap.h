/*-------------------------------------------------------------------------
 *
 * tap.h
 *	  What the unit tests of the filters share: TAP output, memory, random
 *	  numbers.
 *
 * Each program is one process and one thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TEST_TAP_H
#define LSM_TEST_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* of make check-quick and of the sanitizers: fewer keys, lookups and repetitions */
#define SHORT_FORM (getenv("LSM_UNIT_SHORT") != NULL)

static int	ntests = 0;
static int	nfailed = 0;

static inline void
ok(bool good, const char *fmt,...)
{
	va_list		args;

	printf("%sok %d - ", good ? "" : "not ", ++ntests);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	if (!good)
		nfailed++;
}

static inline void *
alloc_or_die(size_t nbytes)
{
	/* the exact size, so that ASan sees a step beyond the end */
	void	   *memory = malloc(nbytes > 0 ? nbytes : 1);

	if (memory == NULL)
	{
		printf("Bail out! out of memory\n");
		exit(1);
	}
	return memory;
}

/* splitmix64, for data that are not keys */
static inline uint64_t
random_next(uint64_t *state)
{
	uint64_t	z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

#endif							/* LSM_TEST_TAP_H */
