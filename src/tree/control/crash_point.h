/*-------------------------------------------------------------------------
 *
 * crash_point.h
 *	  Crash points and hold points of test builds (-DLSM_TESTING).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CRASH_POINT_H
#define LSM_CRASH_POINT_H


#ifdef LSM_TESTING
/* crash_point.c: GUC lsm.crash_point; kills the process group's postmaster when
 * the name matches. */
extern char *lsm_crash_point_name;
extern void lsm_crash_point_hit(const char *name);
#define LSM_CRASH_POINT(name) lsm_crash_point_hit(name)
#else
#define LSM_CRASH_POINT(name) ((void) 0)
#endif

#endif							/* LSM_CRASH_POINT_H */
