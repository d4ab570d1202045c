// Decompression of the beginning of an LZ4 block, see lz4_part.h.
//
// A block is a row of sequences: a token, literals, and a copy of what was
// written before; the last one has literals only.  Both are copied in pieces of
// 16 or 32 bytes, whose end is overwritten by what follows.

#include "sst/lz4_part.h"

#include <cstring>

#include "sst/block.h"

namespace lsm_sst {

namespace {

constexpr size_t kLengthInToken = 15;
constexpr size_t kMinCopy = 4;
constexpr size_t kDistanceBytes = 2;

// The rest of a length that has no room in its token.
inline bool AddLength(const uint8_t** in, const uint8_t* in_end,
                      size_t* bytes) noexcept {
  const uint8_t* p = *in;
  uint8_t more;
  do {
    if (p == in_end) return false;
    more = *p++;
    *bytes += more;
  } while (more == 255);
  *in = p;
  return true;
}

template <size_t kPiece>
inline void CopyPiece(uint8_t* to, const uint8_t* from) noexcept {
  uint8_t piece[kPiece];
  memcpy(piece, from, kPiece);
  memcpy(to, piece, kPiece);
}

// memcpy() in pieces; the last one may be too long, and there is at least one.
template <size_t kPiece>
inline void CopyPieces(uint8_t* to, const uint8_t* from,
                       size_t bytes) noexcept {
  CopyPiece<kPiece>(to, from);
  if (__builtin_expect(bytes <= kPiece, 1)) return;
  for (size_t at = kPiece; at < bytes; at += kPiece)
    CopyPiece<kPiece>(to + at, from + at);
}

// Literals, which are longer than copies.
inline void CopyLiterals(uint8_t* to, const uint8_t* from,
                         size_t bytes) noexcept {
  CopyPiece<16>(to, from);
  CopyPiece<16>(to + 16, from + 16);
  if (__builtin_expect(bytes > 32, 0))
    CopyPieces<16>(to + 32, from + 32, bytes - 32);
}

// A copy of what lies a little before and reaches into itself.
void CopyOverlapping(uint8_t* to, size_t distance, size_t bytes) noexcept {
  const uint8_t* from = to - distance;
  if (distance >= 8)
    CopyPieces<8>(to, from, bytes);
  else if (distance == 1)
    memset(to, *from, bytes);
  else
    for (size_t i = 0; i < bytes; i++) to[i] = from[i];
}

}  // namespace

bool Lz4DecodeTo(Lz4Part* part, size_t wanted) noexcept {
  const uint8_t* in = part->in;
  const uint8_t* const in_end = part->in_end;
  uint8_t* const begin = part->out;
  uint8_t* const end = begin + part->raw_bytes;
  uint8_t* const stop = begin + wanted;
  uint8_t* out = begin + part->bytes;

  while (out < stop) {
    if (__builtin_expect(in == in_end, 0)) return false;
    const uint8_t token = *in++;
    size_t bytes = token >> 4;
    if (bytes == kLengthInToken && !AddLength(&in, in_end, &bytes))
      return false;
    if (__builtin_expect(bytes > static_cast<size_t>(end - out), 0))
      return false;
    const size_t left = static_cast<size_t>(in_end - in);
    if (__builtin_expect(bytes + kDistanceBytes > left, 0)) {
      if (bytes != left) return false;
      CopyLiterals(out, in, bytes);
      out += bytes;
      in += bytes;
      break;
    }
    CopyLiterals(out, in, bytes);
    out += bytes;
    in += bytes;

    const size_t distance = in[0] | size_t{in[1]} << 8;
    in += kDistanceBytes;
    bytes = token & 15;
    if (bytes == kLengthInToken && !AddLength(&in, in_end, &bytes))
      return false;
    bytes += kMinCopy;
    if (__builtin_expect(distance - 1 >= static_cast<size_t>(out - begin) ||
                             bytes > static_cast<size_t>(end - out),
                         0))
      return false;
    if (__builtin_expect(distance >= 16, 1))
      CopyPieces<16>(out, out - distance, bytes);
    else
      CopyOverlapping(out, distance, bytes);
    out += bytes;
  }
  // Both end at the same time.
  if ((in == in_end) != (out == end)) return false;
  part->in = in;
  part->bytes = static_cast<size_t>(out - begin);
  return true;
}

}  // namespace lsm_sst
