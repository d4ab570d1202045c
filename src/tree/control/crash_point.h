/*-------------------------------------------------------------------------
 *
 * crash_point.h
 *	  Crash points, hold points and lies of test builds (-DLSM_TESTING).
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

/* Is what follows to be wrong?  So that a test sees who finds out. */
extern bool lsm_crash_point_lies(const char *name);
#define LSM_LIE(name)	unlikely(lsm_crash_point_lies(name))
#else
#define LSM_LIE(name)	false
#define LSM_CRASH_POINT(name) ((void) 0)
#endif

#endif							/* LSM_CRASH_POINT_H */
