/*-------------------------------------------------------------------------
 *
 * digest.c
 *	  The 64-bit digest of a key: XXH3_64bits with run-time dispatch.
 *
 * XXH3 touches vector registers only for keys longer than 240 bytes.  Shorter
 * ones are hashed by scalar code that is compiled in right here, without a
 * call through a pointer; longer ones go through lsm_digest_long, which starts
 * out as the code for the compiler's baseline (SSE2 on x86-64, NEON on
 * AArch64) and is set to the AVX2 code by a constructor if the CPU has it.
 * The distribution builds libxxhash for the baseline only, which is why we
 * compile its header rather than link the library.
 *
 * No locks: the pointer is written once, before main() or within dlopen().
 *
 *-------------------------------------------------------------------------
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "filter/filter_private.h"

/* Digests are on disk. */
#if XXH_VERSION_NUMBER < 800
#error "XXH3 gives the same digests from xxhash 0.8.0 on only"
#endif

/* Up to here XXH3 is scalar; fixed by its specification. */
#define XXH3_SCALAR_BYTES	240

static LsmDigestLong lsm_digest_long = lsm_digest_long_baseline;

LsmDigest
lsm_digest_key(const void *key, size_t key_bytes)
{
	if (__builtin_expect(key_bytes <= XXH3_SCALAR_BYTES, 1))
		return XXH3_64bits(key, key_bytes);
	return lsm_digest_long(key, key_bytes);
}

const char *
lsm_digest_isa(void)
{
	if (lsm_digest_long != lsm_digest_long_baseline)
		return "avx2";
#if XXH_VECTOR == XXH_AVX512
	return "avx512";
#elif XXH_VECTOR == XXH_AVX2
	return "avx2";
#elif XXH_VECTOR == XXH_SSE2
	return "sse2";
#elif XXH_VECTOR == XXH_NEON
	return "neon";
#elif XXH_VECTOR == XXH_VSX
	return "vsx";
#else
	return "scalar";
#endif
}

LsmDigest
lsm_digest_long_baseline(const void *key, size_t key_bytes)
{
	return XXH3_64bits(key, key_bytes);
}

/*
 * Another constructor that hashes before this one ran gets the baseline code,
 * hence the same digests.
 */
__attribute__((constructor))
static void
lsm_digest_dispatch(void)
{
	if (lsm_digest_long_avx2 != NULL && lsm_cpu_has_avx2())
		lsm_digest_long = lsm_digest_long_avx2;
}
