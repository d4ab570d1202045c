/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  Deadlines of background work, which nobody is told.
 *
 * Whoever sets the server's clock back must not stop that work until the clock
 * is where it was.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CLOCK_H
#define LSM_CLOCK_H

#include <time.h>

#include "datatype/timestamp.h"

/* In microseconds; the same for all processes of the machine. */
static inline TimestampTz
lsm_monotonic_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (TimestampTz) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

#endif							/* LSM_CLOCK_H */
