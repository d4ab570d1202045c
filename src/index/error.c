/*-------------------------------------------------------------------------
 *
 * error.c
 *	  What is said of a key that cannot be.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index/index.h"

void
lsm_code_corrupt(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("malformed key in an lsm_index tree"),
			 errhint("Rebuild the index with REINDEX.")));
}
