// LZ4 blocks, see lz4_pack.h.
//
// A block is a list of sequences: token (two lengths of 4 bits, 15 goes on in
// bytes that are added up), literals, distance (2 bytes), length of the match
// less 4.  The last one ends with its literals.  The last match begins at least
// 12 bytes before the end, and the last 5 bytes are literals.

#include "sst/lz4_pack.h"

#include <cstring>

#include "sst/block.h"

namespace lsm_sst {

namespace {

constexpr size_t kMinMatch = 6;
constexpr size_t kFormatMinMatch = 4;
constexpr size_t kLastMatchBytes = 12;
constexpr size_t kLastLiterals = 5;
constexpr size_t kLengthInToken = 15;
// After 2^6 places in a row without a match, every second one is looked at,
// after as many more every third one: what cannot be compressed goes by fast.
constexpr unsigned kSkipBits = 6;

// The first kMinMatch bytes: what a match has to share.
inline uint64_t Sequence(uint64_t word) noexcept {
  return word << (64 - 8 * kMinMatch);
}

inline size_t HashOf(uint64_t word) noexcept {
  return static_cast<size_t>((Sequence(word) * 0x9FB21C651E98DF25ull) >>
                             (64 - kLz4PlaceBits));
}

// How many bytes from a on, before `limit`, are those from b on, which lies
// before a.
inline size_t CommonBytes(const uint8_t* a, const uint8_t* b,
                          const uint8_t* limit) noexcept {
  const uint8_t* start = a;
  while (limit - a >= 8) {
    const uint64_t different = LoadFixed64(a) ^ LoadFixed64(b);
    if (different != 0)
      return static_cast<size_t>(a - start) +
             (static_cast<size_t>(__builtin_ctzll(different)) >> 3);
    a += 8;
    b += 8;
  }
  while (a < limit && *a == *b) a++, b++;
  return static_cast<size_t>(a - start);
}

inline uint8_t* StoreLength(uint8_t* out, size_t length) noexcept {
  for (; length >= 255; length -= 255) *out++ = 255;
  *out++ = static_cast<uint8_t>(length);
  return out;
}

// The token, without the length of a match, and the literals.
inline uint8_t* StoreLiterals(uint8_t* out, const uint8_t* from,
                              size_t bytes) noexcept {
  if (bytes < kLengthInToken) {
    *out++ = static_cast<uint8_t>(bytes << 4);
  } else {
    *out++ = kLengthInToken << 4;
    out = StoreLength(out, bytes - kLengthInToken);
  }
  CopyShort(out, from, bytes);
  return out + bytes;
}

inline uint8_t* StoreMatch(uint8_t* token, uint8_t* out, size_t distance,
                           size_t bytes) noexcept {
  *out++ = static_cast<uint8_t>(distance);
  *out++ = static_cast<uint8_t>(distance >> 8);
  const size_t length = bytes - kFormatMinMatch;
  if (length < kLengthInToken) {
    *token = static_cast<uint8_t>(*token | length);
    return out;
  }
  *token |= kLengthInToken;
  return StoreLength(out, length - kLengthInToken);
}

}  // namespace

size_t Lz4Pack(const uint8_t* in, size_t bytes, uint8_t* out,
               Lz4Places* places) noexcept {
  const uint8_t* end = in + bytes;
  const uint8_t* literals = in;  // not written yet
  uint8_t* to = out;
  if (bytes > kLastMatchBytes) {
    // All that is not known is taken for the beginning: it is compared.
    memset(places, 0, sizeof(*places));
    const uint8_t* last_match = end - kLastMatchBytes;
    const uint8_t* limit = end - kLastLiterals;
    unsigned tries = 1u << kSkipBits;
    for (const uint8_t* p = in + 1; p <= last_match;) {
      const uint64_t word = LoadFixed64(p);
      uint16_t* place = &places->at[HashOf(word)];
      const uint8_t* before = in + *place;
      *place = static_cast<uint16_t>(p - in);
      if (Sequence(word ^ LoadFixed64(before)) != 0) {
        p += tries++ >> kSkipBits;
        continue;
      }
      const uint8_t* match_end =
          p + kMinMatch + CommonBytes(p + kMinMatch, before + kMinMatch, limit);
      while (p > literals && before > in && p[-1] == before[-1]) p--, before--;
      uint8_t* token = to;
      to = StoreLiterals(to, literals, static_cast<size_t>(p - literals));
      to = StoreMatch(token, to, static_cast<size_t>(p - before),
                      static_cast<size_t>(match_end - p));
      literals = p = match_end;
      tries = 1u << kSkipBits;
      if (p <= last_match)
        places->at[HashOf(LoadFixed64(p - 2))] =
            static_cast<uint16_t>(p - 2 - in);
    }
  }
  to = StoreLiterals(to, literals, static_cast<size_t>(end - literals));
  return static_cast<size_t>(to - out);
}

}  // namespace lsm_sst
