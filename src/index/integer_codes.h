/*-------------------------------------------------------------------------
 *
 * integer_codes.h
 *	  Codes of integers: big-endian, the sign bit flipped.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_INTEGER_CODES_H
#define LSM_INTEGER_CODES_H

#include "lib/stringinfo.h"
#include "port/pg_bswap.h"

static inline void
put_uint32(StringInfo out, uint32 n)
{
	n = pg_hton32(n);
	appendBinaryStringInfo(out, (char *) &n, sizeof(n));
}

static inline void
put_uint64(StringInfo out, uint64 n)
{
	n = pg_hton64(n);
	appendBinaryStringInfo(out, (char *) &n, sizeof(n));
}

static inline void
put_int32(StringInfo out, int32 n)
{
	put_uint32(out, (uint32) n ^ ((uint32) 1 << 31));
}

static inline void
put_int64(StringInfo out, int64 n)
{
	put_uint64(out, (uint64) n ^ (UINT64CONST(1) << 63));
}

static inline uint32
get_uint32(const uint8 *bytes)
{
	uint32		n;

	memcpy(&n, bytes, sizeof(n));
	return pg_ntoh32(n);
}

static inline uint64
get_uint64(const uint8 *bytes)
{
	uint64		n;

	memcpy(&n, bytes, sizeof(n));
	return pg_ntoh64(n);
}

static inline int32
get_int32(const uint8 *bytes)
{
	return (int32) (get_uint32(bytes) ^ ((uint32) 1 << 31));
}

static inline int64
get_int64(const uint8 *bytes)
{
	return (int64) (get_uint64(bytes) ^ (UINT64CONST(1) << 63));
}

#endif							/* LSM_INTEGER_CODES_H */
