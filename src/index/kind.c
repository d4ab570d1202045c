/*-------------------------------------------------------------------------
 *
 * kind.c
 *	  What flush and compaction ask about the entries of an index tree.
 *
 * Entries of an index carry no transaction ids: VACUUM and scans that meet
 * dead rows delete them explicitly.  Called in background workers without a
 * database: no catalog access, no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "index/index.h"

static void
index_merge(LsmSlice newer, LsmSlice older, StringInfo out)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("partial value in an lsm_index tree"),
			 errhint("Rebuild the index with REINDEX.")));
}

static LsmFate
index_fate(LsmFateContext *cx, LsmSlice key, LsmSlice value, StringInfo rewritten)
{
	if (value.len > 0 && value.data[0] == LSM_TAG_DELETE && cx->bottom)
		return LSM_FATE_DROP;
	return LSM_FATE_KEEP;
}

static TransactionId
index_min_xid(LsmSlice value)
{
	return InvalidTransactionId;
}

static char *
index_check(LsmSlice key, LsmSlice value)
{
	const uint8 *tid;

	if (key.len <= LSM_TID_BYTES)
		return psprintf("key of %u bytes has no columns", key.len);
	if (key.len > LSM_INDEX_MAX_CODE_BYTES + LSM_TID_BYTES)
		return psprintf("key of %u bytes is too long", key.len);
	if ((uint8) key.data[0] < LSM_CODE_NULL_FIRST ||
		(uint8) key.data[0] > LSM_CODE_NULL_LAST)
		return psprintf("key begins with byte %02x", (uint8) key.data[0]);
	tid = (const uint8 *) key.data + key.len - LSM_TID_BYTES;
	if (tid[4] == 0 && tid[5] == 0)
		return pstrdup("key ends with an invalid row identifier");
	if (value.len < 1)
		return pstrdup("value has no tag");
	if (value.data[0] == LSM_TAG_DELETE)
		return value.len == 1 ? NULL :
			psprintf("value of a deleted entry has %u bytes", value.len);
	if (value.data[0] != LSM_TAG_PUT)
		return psprintf("value has tag %d", value.data[0]);
	return NULL;
}

const LsmKindOps lsm_index_kind_ops = {
	.puts_stay = true,
	.merge = index_merge,
	.fate = index_fate,
	.min_xid = index_min_xid,
	.leading_bytes = lsm_leading_bytes,
	.check = index_check
};
