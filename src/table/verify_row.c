/*-------------------------------------------------------------------------
 *
 * verify_row.c
 *	  lsm_verify: a row version by itself, as contrib/amcheck looks at one of a
 *	  heap.
 *
 * Locks: none, beyond the caller's of the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/toast_internals.h"
#include "access/transam.h"
#include "access/tupmacs.h"

#include "table/versions.h"

/* One of the row's values; NULL or what is wrong (a constant string). */
static const char *
check_element(LsmSlice element)
{
	LsmRow		row;
	const char *problem;

	if (lsm_value_tag(element) == LSM_TAG_DELETE)
		return element.len == 1 ? NULL : "value of a deleted row is too long";
	problem = lsm_row_parse(element, &row);
	if (problem == NULL && row.open && row.span > row.version)
		problem = "more older versions are kept than there can be";
	return problem;
}

/* See row.h. */
char *
lsm_value_check(LsmSlice key, LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element;
	const char *problem = NULL;
	uint64		packed;
	int			n = 0;

	if (key.len != LSM_TID_BYTES)
		return psprintf("key has %u bytes instead of %d", key.len, LSM_TID_BYTES);
	packed = lsm_key_decode(key.data);
	if ((packed & 0xFFFF) < 1 || (packed & 0xFFFF) > LSM_TID_OFFSETS)
		return psprintf("TID (%u,%u) is impossible",
						(BlockNumber) (packed >> 16), (OffsetNumber) packed);
	lsm_chain_begin(&chain, value);
	for (; problem == NULL && lsm_chain_next(&chain, &element); n++)
		problem = check_element(element);
	if (chain.at == NULL || n == (chain.framed ? 1 : 0))
		problem = "chain of versions is malformed";
	if (problem)
		return psprintf("TID (%u,%u): %s",
						(BlockNumber) (packed >> 16), (OffsetNumber) packed, problem);
	return NULL;
}

/* Has there been such a transaction, and is it known what became of it? */
static bool
xid_is_plausible(TransactionId xid)
{
	return !TransactionIdIsNormal(xid) ||
		(TransactionIdPrecedes(xid, XidFromFullTransactionId(ReadNextFullTransactionId())) &&
		 !TransactionIdPrecedes(xid, TransamVariables->oldestXid));
}

static char *
check_xids(const LsmRow *row)
{
	if (!xid_is_plausible(row->xmin))
		return psprintf("xmin %u is impossible", row->xmin);
	if ((row->flags & LSM_ROW_HAS_XMAX) && !xid_is_plausible(row->xmax))
		return psprintf("xmax %u is impossible", row->xmax);
	for (int i = 0; i < row->nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(row, i, &xid, &mode);
		if (!xid_is_plausible(xid))
			return psprintf("transaction id %u of a row lock is impossible", xid);
	}
	return NULL;
}

/* A varlena at `at`; its bytes, or 0 with *problem. */
static uint32
check_varlena(Relation rel, Form_pg_attribute att, const char *at, uint32 left, char **problem)
{
	uint32		header = VARATT_IS_1B_E(at) ? VARHDRSZ_EXTERNAL :
		VARATT_IS_1B(at) ? VARHDRSZ_SHORT : VARHDRSZ;
	uint32		bytes;

	if (left < header ||
		(VARATT_IS_1B_E(at) && VARTAG_EXTERNAL(at) != VARTAG_ONDISK))
	{
		*problem = psprintf("attribute %u has a malformed header", att->attnum);
		return 0;
	}
	bytes = VARSIZE_ANY(at);
	if (bytes < header || bytes > left)
		*problem = psprintf("attribute %u has an impossible length of %u bytes", att->attnum,
							bytes);
	else if (VARATT_IS_1B_E(at))
	{
		struct varatt_external pointer;

		VARATT_EXTERNAL_GET_POINTER(pointer, at);
		if (pointer.va_toastrelid != rel->rd_rel->reltoastrelid)
			*problem = psprintf("attribute %u is said to be in TOAST table %u", att->attnum,
								pointer.va_toastrelid);
		else if (pointer.va_rawsize < VARHDRSZ ||
				 VARATT_EXTERNAL_GET_EXTSIZE(pointer) > pointer.va_rawsize - VARHDRSZ)
			*problem = psprintf("attribute %u has an impossible TOAST pointer", att->attnum);
	}
	else if (VARATT_IS_4B_C(at) &&
			 (bytes < VARHDRSZ_COMPRESSED ||
			  TOAST_COMPRESS_METHOD(at) > TOAST_LZ4_COMPRESSION_ID))
		*problem = psprintf("attribute %u has a malformed header of compressed data", att->attnum);
	return bytes;
}

/* `data`, aligned, is where attributes begin. */
static char *
check_attributes(Relation rel, int natts, const uint8 *nulls, const char *data, uint32 bytes)
{
	TupleDesc	desc = RelationGetDescr(rel);
	uint32		at = 0;
	char	   *problem = NULL;

	for (int i = 0; i < natts && problem == NULL; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (nulls != NULL && att_isnull(i, nulls))
			continue;
		at = att->attlen == -1 && at < bytes && data[at] != 0 ? at : att_align_nominal(at, att->attalign);
		if (att->attlen > 0)
			at += att->attlen;
		else if (at >= bytes)
			at = bytes + 1;
		else if (att->attlen == -1)
			at += check_varlena(rel, att, data + at, bytes - at, &problem);
		else
			at += strnlen(data + at, bytes - at) + 1;
		if (problem == NULL && at > bytes)
			problem = psprintf("attribute %u ends behind the row", att->attnum);
	}
	return problem;
}

static char *
check_body(Relation rel, const LsmRow *row)
{
	uint16		word;
	int			natts;
	char	   *copy;
	uint32		before = sizeof(word);
	uint32		bitmap = 0;

	memcpy(&word, row->body, sizeof(word));
	natts = word & LSM_BODY_NATTS_MASK;
	if (natts > RelationGetDescr(rel)->natts)
		return psprintf("row has %d attributes, but the table has %d", natts,
						RelationGetDescr(rel)->natts);
	if (word & LSM_BODY_HASNULL)
		bitmap = BITMAPLEN(natts);
	copy = palloc(MAXALIGN(bitmap) + row->body_bytes + MAXIMUM_ALIGNOF);
	memcpy(copy, row->body + before, bitmap);
	memcpy(copy + MAXALIGN(bitmap), row->body + before + bitmap,
		   row->body_bytes - before - bitmap);
	return check_attributes(rel, natts, bitmap > 0 ? (uint8 *) copy : NULL,
							copy + MAXALIGN(bitmap), row->body_bytes - before - bitmap);
}

/* No version is what the snapshot sees, where each has to see one. */
static bool
is_hidden(Relation rel, uint64 packed, LsmSlice value, Snapshot snapshot)
{
	LsmRow		row;
	uint64		tid;
	TransactionId dead_after;
	HTSV_Result status = lsm_versions_vacuum_horizon(rel, packed, value, &row, &tid,
													 &dead_after);
	bool		updated = row.version > 0;
	bool		seen = lsm_versions_for_snapshot(rel, packed, value, snapshot, &row, &tid);

	switch (status)
	{
		case HEAPTUPLE_DEAD:
			return false;
		case HEAPTUPLE_RECENTLY_DEAD:
			/* dead to all when the bit was set, unless this snapshot sees it */
			return seen;
		case HEAPTUPLE_LIVE:
			return !seen;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			return !updated || !seen;
		default:
			return true;
	}
}

static bool
is_dead(const LsmRow *row)
{
	TransactionId dead_after;

	return lsm_row_vacuum_horizon(row, &dead_after) == HEAPTUPLE_DEAD;
}

/* A version by itself, and that valid ones ascend */
static char *
check_version(Relation rel, const LsmRow *row, uint32 *newer)
{
	char	   *problem = check_xids(row);
	bool		dead = problem != NULL || is_dead(row);

	if (dead || row->partial)
		return problem;
	if (row->delta)
		return psprintf("version %u has lost the one that it differs from", row->version);
	/* whoever was rolled back may have added columns first */
	problem = check_body(rel, row);
	if (problem == NULL && *newer <= row->version)
		problem = psprintf("version %u has the same or a higher number than the one that replaced it",
						   row->version);
	*newer = row->version;
	return problem;
}

char *
lsm_row_check(Relation rel, LsmSlice key, LsmSlice value, Snapshot snapshot, bool *hidden)
{
	char	   *problem = lsm_value_check(key, value);
	uint64		packed;
	LsmChain	chain;
	LsmSlice	element;
	uint32		newer = PG_UINT32_MAX;

	*hidden = false;
	if (problem != NULL)
		return problem;
	packed = lsm_key_decode(key.data);
	lsm_chain_begin(&chain, value);
	while (problem == NULL && lsm_chain_next(&chain, &element))
	{
		LsmRow		row;

		if (lsm_value_tag(element) == LSM_TAG_DELETE)
			break;
		(void) lsm_row_parse(element, &row);
		problem = check_version(rel, &row, &newer);
	}
	if (problem != NULL)
		return psprintf("row (%u,%u): %s", (BlockNumber) (packed >> 16), (OffsetNumber) packed,
						problem);
	value = lsm_chain_rows(value);
	if (value.len > 0)
		*hidden = is_hidden(rel, packed, value, snapshot);
	return NULL;
}
