/*-------------------------------------------------------------------------
 *
 * warned.c
 *	  What this process has warned of: the same file is worth one WARNING, not
 *	  one for each query or each round of the worker.
 *
 * A table of fixed size: among very many damaged files some are named again.
 * Private to the process, no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/timestamp.h"

#include "tree/disk/disk.h"

#define WARNED_FILES	1024
#define WARN_AGAIN_MS	(60 * 60 * 1000)

typedef struct Warned
{
	uint64		keyspace_id;
	uint64		number;
	TimestampTz at;
} Warned;

static Warned warned[WARNED_FILES];

bool
lsm_warn_about_file(uint64 keyspace_id, uint64 number)
{
	uint64		key[2] = {keyspace_id, number};
	uint32		hash = hash_bytes((const unsigned char *) key, sizeof(key));
	Warned	   *it = &warned[hash % WARNED_FILES];
	TimestampTz now = GetCurrentTimestamp();

	if (it->keyspace_id == keyspace_id && it->number == number &&
		!TimestampDifferenceExceeds(it->at, now, WARN_AGAIN_MS))
		return false;
	it->keyspace_id = keyspace_id;
	it->number = number;
	it->at = now;
	return true;
}
