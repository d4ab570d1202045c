/*-------------------------------------------------------------------------
 *
 * digest_avx2.c
 *	  XXH3_64bits compiled for AVX2, whatever the compiler's flags are.
 *
 * The target pragma is GCC's.  Clang gets the AVX2 code if this file is
 * compiled with -mavx2, and otherwise the baseline; nothing but speed depends
 * on it.  Everything of xxhash.h is static here, so no AVX2 instruction can
 * leak into a function that other files share.
 *
 *-------------------------------------------------------------------------
 */

/* Before the pragma: nothing of these may be compiled for AVX2. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter_private.h"

#if defined(LSM_FILTER_X86) && \
	(defined(__AVX2__) || (defined(__GNUC__) && !defined(__clang__)))

#if !defined(__AVX2__)
#pragma GCC push_options
#pragma GCC target("avx2")
#define LSM_POP_OPTIONS
#endif

#define XXH_INLINE_ALL
#define XXH_VECTOR 2			/* XXH_AVX2, which the header names too late */
#include <xxhash.h>

#if XXH_VECTOR != XXH_AVX2
#error "xxhash.h changed the number of XXH_AVX2"
#endif

static LsmDigest
digest_long_avx2(const void *key, size_t key_bytes)
{
	return XXH3_64bits(key, key_bytes);
}

#ifdef LSM_POP_OPTIONS
#pragma GCC pop_options
#endif

const LsmDigestLong lsm_digest_long_avx2 = digest_long_avx2;

#else

const LsmDigestLong lsm_digest_long_avx2 = NULL;

#endif
