/*-------------------------------------------------------------------------
 *
 * assertion.h
 *	  What Assert() of the server's headers calls, for tests that include them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ASSERTION_H
#define ASSERTION_H

void
#if PG_VERSION_NUM < 160000
ExceptionalCondition(const char *condition, const char *type,
					 const char *file, int line)
#else
ExceptionalCondition(const char *condition, const char *file, int line)
#endif
{
	printf("Bail out! assertion failed: %s (%s:%d)\n", condition, file, line);
	abort();
}

#endif							/* ASSERTION_H */
