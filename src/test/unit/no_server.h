/*-------------------------------------------------------------------------
 *
 * no_server.h
 *	  All there is of a test that needs the server's headers, if it is built
 *	  without them: nothing to test.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NO_SERVER_H
#define NO_SERVER_H

#include <stdio.h>

int
main(void)
{
	printf("1..0 # SKIP no PostgreSQL server headers in the include path\n");
	return 0;
}

#endif							/* NO_SERVER_H */
