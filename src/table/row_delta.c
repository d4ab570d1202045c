/*-------------------------------------------------------------------------
 *
 * row_delta.c
 *	  Versions that are logged as a difference to the version before.
 *
 * An update that stays in its row mostly changes a few bytes of it.  Its memtable
 * gets the whole version, its log page and WAL record a DELTA: the header, and
 * what lies between the bytes that both versions begin and end with.  So whoever
 * reads the log back, after a crash or an eviction or on a standby, has DELTAs in
 * memtables, until they are flushed.  A flush writes them as they are if what
 * they differ from lies in a file, and a compaction meets both.
 *
 * Whoever strings values together makes VERSIONs of DELTAs (tree/read/merge.c),
 * before anybody looks at a row.  What that rests on:
 *
 * 1. The base of version n is the newest valid version when n was written, whose
 *	  number is n - 1.  What lies between the two, newer than the base, had come to
 *	  nothing, and was written over the base or over what came to nothing itself:
 *	  its numbers are n or higher (versions.c, 4).  So the base is the first
 *	  value below n that has the number n - 1.
 * 2. The base is there as long as n is and did not come to nothing.  Nothing drops
 *	  the newest valid version of what is older than n (versions.c, 5) but an
 *	  override which says that the row is dead; if that is older than n, n could
 *	  not have been written, and if it is newer, it is about n or a later version,
 *	  and goes with n.  In particular, n closes nothing until it is whole, and
 *	  while a memtable has n, nothing is pruned that an older one has
 *	  (tree/write/prune.c).  That goes for an n that is whole there, too: it is a
 *	  DELTA for who reads the log back.
 * 3. The bytes of a version's body never change.  A check of the body that comes
 *	  of a DELTA finds out if 1. or 2. does not hold.
 * 4. If n came to nothing, its base may have, too, and be gone.  Then n stays a
 *	  DELTA, whose header says all that is wanted.
 *
 * A base may be a DELTA in turn, so that few versions of a row which is updated
 * often are logged whole.  Each eighth is, so that no reader needs many.
 *
 * With logical decoding versions are logged whole: it reads them from the WAL.
 *
 * Locks: none, pure functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table/table.h"

/* Each version of such a number is logged whole. */
#define WHOLE_EVERY		8

/*
 * What a difference has to save, bytes.  A test build logs all that are shorter.
 */
#ifdef LSM_TESTING
#define SAVES_AT_LEAST	1
#elif !defined(SAVES_AT_LEAST)
#define SAVES_AT_LEAST	16
#endif

/* A difference of this many bytes is put together without an allocation. */
#define FEW_BYTES		64

static uint16
body_check(const char *body, uint32 bytes)
{
	return (uint16) lsm_digest_key(body, bytes);
}

static inline uint64
load_word(const char *at)
{
	uint64		word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* How many bytes both begin with: words, and then bytes */
static uint32
common_prefix(const char *a, const char *b, uint32 max)
{
	uint32		n = 0;

	while (n + sizeof(uint64) <= max && load_word(a + n) == load_word(b + n))
		n += sizeof(uint64);
	while (n < max && a[n] == b[n])
		n++;
	return n;
}

/* How many bytes both end with: `a`, `b` are the ends. */
static uint32
common_suffix(const char *a, const char *b, uint32 max)
{
	uint32		n = 0;

	while (n + sizeof(uint64) <= max &&
		   load_word(a - n - sizeof(uint64)) == load_word(b - n - sizeof(uint64)))
		n += sizeof(uint64);
	while (n < max && a[-1 - (int) n] == b[-1 - (int) n])
		n++;
	return n;
}

bool
lsm_delta_encode(StringInfo out, const LsmRow *new, LsmSlice body, const LsmRow *base)
{
	uint32		max = Min(body.len, base->body_bytes);
	uint32		prefix;
	uint32		suffix;
	uint32		middle;
	uint16		check;
	char		few[FEW_BYTES];
	char	   *room = few;
	uint32		bytes;
	char	   *p;
	LsmRow		row;

	Assert(!base->partial && !base->delta && new->version == base->version + 1);
	if (new->version % WHOLE_EVERY == 0)
		return false;
	prefix = common_prefix(body.data, base->body, max);
	suffix = common_suffix(body.data + body.len, base->body + base->body_bytes, max - prefix);
	middle = body.len - prefix - suffix;
	bytes = lsm_varint_bytes(prefix) + lsm_varint_bytes(suffix) + sizeof(check) + middle;
	if (bytes + SAVES_AT_LEAST > body.len)
		return false;

	if (unlikely(bytes > sizeof(few)))
		room = palloc(bytes);
	p = lsm_varint_put(room, prefix);
	p = lsm_varint_put(p, suffix);
	check = body_check(body.data, body.len);
	memcpy(p, &check, sizeof(check));
	p += sizeof(check);
	memcpy(p, body.data + prefix, middle);
	row = *new;
	row.delta = true;
	row.body = room;
	row.body_bytes = bytes;
	lsm_row_encode(out, &row, true);
	if (room != few)
		pfree(room);
	return true;
}

LsmRestored
lsm_delta_restore(LsmSlice value, LsmSlice older, StringInfo out)
{
	LsmRow		row;
	LsmRow		base;
	LsmDelta	delta;
	char	   *body;
	uint32		bytes;
	LsmRestored result = LSM_RESTORE_NOT;

	if (lsm_row_parse(value, &row) != NULL || !lsm_delta_parse(&row, &delta) ||
		lsm_row_parse(older, &base) != NULL)
		return LSM_RESTORE_NOT; /* decoding it will say so */
	if (base.version + 1 != row.version)
		return LSM_RESTORE_OTHER;
	if (base.delta || delta.prefix + delta.suffix > base.body_bytes)
		return LSM_RESTORE_NOT;

	bytes = delta.prefix + delta.middle.len + delta.suffix;
	body = palloc(bytes);
	memcpy(body, base.body, delta.prefix);
	memcpy(body + delta.prefix, delta.middle.data, delta.middle.len);
	memcpy(body + delta.prefix + delta.middle.len,
		   base.body + base.body_bytes - delta.suffix, delta.suffix);
	if (body_check(body, bytes) == delta.check)
	{
		row.delta = false;
		row.body = body;
		row.body_bytes = bytes;
		lsm_row_encode(out, &row, true);
		result = LSM_RESTORED;
	}
	pfree(body);
	return result;
}
