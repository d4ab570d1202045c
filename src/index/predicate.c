/*-------------------------------------------------------------------------
 *
 * predicate.c
 *	  SERIALIZABLE: what a scan has looked for, and whether an insertion is
 *	  part of it.
 *
 * There are no leaf pages whose locks could stand for ranges of keys.  A scan
 * whose leading columns are bound to points locks, as a "page" of the index,
 * the hash of their codes; an insertion looks for the hashes of all leading
 * columns of its key.  Other scans lock the index as a whole.
 *
 * Order: a scan locks before it reads, an insertion looks for locks after it
 * has written.  So if the scan does not see the entry, the insertion sees the
 * lock. (If it does, fetching the row finds the conflict.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "storage/predicate.h"

#include "index/index.h"

/* Any number but InvalidBlockNumber will do. */
static BlockNumber
lock_block(const char *codes, int len)
{
	return hash_bytes((const unsigned char *) codes, len) >> 1;
}

void
lsm_predicate_lock(Relation index, LsmSlice prefix, Snapshot snapshot)
{
	if (!IsolationIsSerializable())
		return;
	if (prefix.len == 0)
		PredicateLockRelation(index, snapshot);
	else
		PredicateLockPage(index, lock_block(prefix.data, prefix.len), snapshot);
}

void
lsm_predicate_check(Relation index, const LsmKeySpec *spec, LsmSlice columns)
{
	uint32		len = 0;

	if (!IsolationIsSerializable())
		return;
	for (int i = 0; i < spec->nkeys; i++)
	{
		len += lsm_code_length(&spec->columns[i],
							   lsm_slice(columns.data + len, columns.len - len));
		CheckForSerializableConflictIn(index, NULL, lock_block(columns.data, len));
	}
}
