/*-------------------------------------------------------------------------
 *
 * yield.h
 *	  A place where threads of a test let others run.
 *
 * Beside a busy process, the kernel (from 6.6 on) takes all that is left of its
 * slice from a thread that yields: some milliseconds, and tests yield a million
 * times.  But then threads are interrupted everywhere anyhow.  So one that has
 * waited for long in all yields seldom.  Who waits for another thread yields by
 * sched_yield() itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef YIELD_H
#define YIELD_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

#define YIELDS_MAX_NS		UINT64_C(1000000000)
#define YIELDS_SELDOM		256

static inline uint64_t
yield_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void
yield_to_others(void)
{
	static _Thread_local uint64_t waited_ns;
	static _Thread_local uint32_t n;
	uint64_t	before;

	if (waited_ns >= YIELDS_MAX_NS && ++n % YIELDS_SELDOM != 0)
		return;
	before = yield_clock_ns();
	sched_yield();
	waited_ns += yield_clock_ns() - before;
}

#endif							/* YIELD_H */
