/*-------------------------------------------------------------------------
 *
 * keys.h
 *	  The keys of the benches of the tree alone, the same bytes for the product
 *	  (bench_tree.c) and for its peer (rocksdb_peer.cc).  C11 and C++17.
 *
 * Entry i of a data set has key 2 i, absent keys are the odd ones.  A key's
 * first eight bytes are a bijection of its number, so keys are distinct; the
 * rest is a pseudo-random stream, so that no two share a prefix.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_VALUE_BYTES	16	/* of every entry */

/* Finalizer of MurmurHash3: a bijection of 64-bit numbers */
static inline uint64_t
bench_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ (x >> 33);
}

/* Write key `number` of key_bytes (>= 8) to `key`. */
static inline void
bench_key(uint64_t number, int key_bytes, char *key)
{
	uint64_t	word = bench_mix(number);

	for (int at = 0; at < key_bytes; at += 8)
	{
		uint64_t	big_endian = __builtin_bswap64(word);
		int			left = key_bytes - at;

		memcpy(key + at, &big_endian, left < 8 ? left : 8);
		word = bench_mix(word + UINT64_C(0x9e3779b97f4a7c15));
	}
}

/* Keys to look for, and how many of them there are */
typedef struct BenchProbes
{
	char	   *keys;			/* key i begins at byte i * stride */
	int			key_bytes;
	int			stride;			/* key_bytes and a suffix */
	int			n;
	int			present;
} BenchProbes;

/*
 * Fill `probes` with n keys, each followed by the suffix, a fraction alpha of them present, evenly mixed; present ones
 * are drawn from the entries first .. first + range - 1.  False: no memory.
 */
static inline bool
bench_draw(BenchProbes *probes, int key_bytes, const char *suffix, int suffix_bytes, int n,
		   double alpha, uint64_t first, uint64_t range, uint64_t seed)
{
	free(probes->keys);
	probes->stride = key_bytes + suffix_bytes;
	probes->keys = (char *) malloc((size_t) n * probes->stride);
	probes->key_bytes = key_bytes;
	probes->n = n;
	probes->present = 0;
	if (probes->keys == NULL)
		return false;
	for (int i = 0; i < n; i++)
	{
		uint64_t	random = bench_mix(seed * UINT64_C(1000003) + i);
		bool		present = (int) ((i + 1) * alpha) > (int) (i * alpha);
		uint64_t	number = present ? 2 * (first + random % range) : 2 * random + 1;

		char	   *key = probes->keys + (size_t) i * probes->stride;

		probes->present += present;
		bench_key(number, key_bytes, key);
		memcpy(key + key_bytes, suffix, suffix_bytes);
	}
	return true;
}

/*
 * Who looks for a key has just made it, so it lies in the caches, where keys drawn by the ten thousand do not. So they are worked off in
 * portions that have been copied just before, off the clock, and leave room in the second cache for filters.
 */
#define BENCH_PORTION_BYTES	(128 * 1024)
#define BENCH_PORTION_KEYS	32	/* a multiple of this, but for the last portion */

/* The next portion after `done` keys, in a buffer that `portion` keeps; its number of keys.  Out of memory: -1. */
static inline int
bench_portion(const BenchProbes *probes, int done, BenchProbes *portion)
{
	int			most = BENCH_PORTION_BYTES / probes->stride / BENCH_PORTION_KEYS * BENCH_PORTION_KEYS;
	char	   *keys = portion->keys;

	if (most < BENCH_PORTION_KEYS)
		most = BENCH_PORTION_KEYS;
	if (keys == NULL)
		keys = (char *) malloc((size_t) most * probes->stride);
	*portion = *probes;
	portion->keys = keys;
	portion->n = probes->n - done < most ? probes->n - done : most;
	if (keys == NULL)
		return -1;
	memcpy(keys, probes->keys + (size_t) done * probes->stride, (size_t) portion->n * probes->stride);
	return portion->n;
}

/* Nanoseconds of the process's CPU time and of the wall clock */
static inline double
bench_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* Sums of several stretches; zeroed by who owns it */
typedef struct BenchClock
{
	double		cpu_ns;
	double		wall_ns;
} BenchClock;

static inline void
bench_clock_start(BenchClock *clock)
{
	clock->wall_ns -= bench_clock_ns(CLOCK_MONOTONIC);
	clock->cpu_ns -= bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void
bench_clock_stop(BenchClock *clock)
{
	clock->cpu_ns += bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	clock->wall_ns += bench_clock_ns(CLOCK_MONOTONIC);
}

#endif							/* BENCH_KEYS_H */
