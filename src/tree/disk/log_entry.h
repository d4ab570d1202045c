/*-------------------------------------------------------------------------
 *
 * log_entry.h
 *	  The format of entries in log pages and in the WAL records of appends.
 *
 * A log page's content is a head and a sequence of entries without padding, up
 * to pd_lower:
 *
 *		key bytes		varint
 *		value bytes		varint, at least 1
 *		sequence number	varint, less that of the entry before in the page (0)
 *		key, value
 *
 * A varint has 7 bits per byte, the lowest first; all bytes but the last have
 * the high bit set.  Sequence numbers of one page ascend.
 *
 * An entry longer than a page begins a page of its own and goes on in the
 * pages chained to it.  These have no head, nor have pages that were written
 * before format version 5.
 *
 * The heads show that a page is lost, or is not as it was written last.  The
 * pages of a generation are a list by `next`, which the metapage begins
 * (LsmLogRoot).  A page that was left because it was full is named by the next
 * one of the same slot, with its checksum.  Whatever makes such a reference
 * true is in one WAL record with it, so no crash leaves one that is not.
 *
 * Locking: none, pure functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LOG_ENTRY_H
#define LSM_LOG_ENTRY_H

#include "port/pg_crc32c.h"
#include "storage/block.h"

#include "tree/tree.h"

typedef struct LsmLogHead
{
	BlockNumber next;			/* the page that was begun after this one, or
								 * Invalid; not in the checksum */
	BlockNumber before;			/* the slot's page before, or Invalid */
	pg_crc32c	before_crc;
	pg_crc32c	crc;			/* lsm_log_crc_begin(), and of the entries */
} LsmLogHead;

/* Of a page, or of a whole entry that is longer than one */
static inline pg_crc32c
lsm_log_crc_add(pg_crc32c crc, const char *entries, Size bytes)
{
	COMP_CRC32C(crc, entries, bytes);
	return crc;
}

/* A page that has come to another place is damaged, too. */
static inline pg_crc32c
lsm_log_crc_begin(uint64 generation, BlockNumber block, const LsmLogHead *head)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	crc = lsm_log_crc_add(crc, (const char *) &generation, sizeof(generation));
	crc = lsm_log_crc_add(crc, (const char *) &block, sizeof(block));
	crc = lsm_log_crc_add(crc, (const char *) &head->before, sizeof(head->before));
	return lsm_log_crc_add(crc, (const char *) &head->before_crc, sizeof(head->before_crc));
}

#define LSM_VARINT_MAX_BYTES	10
/* 2 bytes for the length of a key, 3 for that of a value */
#define LSM_LOG_HEADER_MAX_BYTES	(2 + 3 + LSM_VARINT_MAX_BYTES)

StaticAssertDecl(LSM_MAX_KEY_BYTES < 1 << 14 && LSM_MAX_ENTRY_BYTES < 1 << 21,
				 "LSM_LOG_HEADER_MAX_BYTES is too small");

typedef struct LsmLogHeader
{
	uint32		key_bytes;
	uint32		value_bytes;
	uint64		seq_step;		/* from the entry before */
	uint32		header_bytes;
} LsmLogHeader;

static inline LsmSlice
lsm_log_entry_value(const LsmEntry *entry)
{
	return entry->logged.len > 0 ? entry->logged : entry->value;
}

/* Most bytes that the entry can take. */
static inline uint32
lsm_log_entry_room(const LsmEntry *entry)
{
	return LSM_LOG_HEADER_MAX_BYTES + entry->key.len + lsm_log_entry_value(entry).len;
}

/* Returns the end.  REQUIRES: lsm_log_entry_room() bytes. */
static inline char *
lsm_log_entry_put(char *out, const LsmEntry *entry, uint64 seq_step)
{
	LsmSlice	value = lsm_log_entry_value(entry);

	out = lsm_varint_put(out, entry->key.len);
	out = lsm_varint_put(out, value.len);
	out = lsm_varint_put(out, seq_step);
	memcpy(out, entry->key.data, entry->key.len);
	out += entry->key.len;
	memcpy(out, value.data, value.len);
	return out + value.len;
}

/* False: not a header, or one that does not end before `end`. */
static inline bool
lsm_log_header_get(const char *in, const char *end, LsmLogHeader *header)
{
	const char *p = in;
	uint64		key_bytes;
	uint64		value_bytes;

	if ((p = lsm_varint_get(p, end, &key_bytes)) == NULL ||
		(p = lsm_varint_get(p, end, &value_bytes)) == NULL ||
		(p = lsm_varint_get(p, end, &header->seq_step)) == NULL ||
		key_bytes > LSM_MAX_KEY_BYTES || value_bytes > LSM_MAX_ENTRY_BYTES)
		return false;
	header->key_bytes = (uint32) key_bytes;
	header->value_bytes = (uint32) value_bytes;
	header->header_bytes = p - in;
	return true;
}

static inline uint32
lsm_log_header_total(const LsmLogHeader *header)
{
	return header->header_bytes + header->key_bytes + header->value_bytes;
}

#endif							/* LSM_LOG_ENTRY_H */
