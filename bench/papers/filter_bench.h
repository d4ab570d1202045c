/*-------------------------------------------------------------------------
 *
 * filter_bench.h
 *	  Clock, keys and memory for the stand-alone benches of src/filter.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FILTER_BENCH_H
#define LSM_FILTER_BENCH_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "filter/filter.h"

static inline double
now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* For what does no I/O: other processes of the machine count less. */
static inline double
cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* Digest of the 8-byte key `number`: key i of the load is number i. */
static inline LsmDigest
digest_of(uint64_t number)
{
	return lsm_digest_key(&number, sizeof(number));
}

static inline void *
alloc_aligned_or_die(size_t nbytes)
{
	void	   *memory = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);

	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	memset(memory, 0, nbytes);
	return memory;
}

#endif							/* LSM_FILTER_BENCH_H */
