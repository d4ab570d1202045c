// Decompression of the beginning of an LZ4 block, see lz4_part.h.

#include "sst/lz4_part.h"

#include <lz4.h>

namespace lsm_sst {

bool Lz4DecodeTo(Lz4Part* part, size_t wanted) noexcept {
  if (wanted <= part->bytes) return true;
  const char* in = reinterpret_cast<const char*>(part->in);
  char* out = reinterpret_cast<char*>(part->out);
  const int in_bytes = static_cast<int>(part->in_bytes);
  const int raw_bytes = static_cast<int>(part->raw_bytes);
  int got;

  if (part->bytes == 0 && wanted < part->raw_bytes) {
    got = LZ4_decompress_safe_partial(in, out, in_bytes,
                                      static_cast<int>(wanted), raw_bytes);
  } else {
    wanted = part->raw_bytes;
    got = LZ4_decompress_safe(in, out, in_bytes, raw_bytes);
  }
  if (got < 0 || static_cast<size_t>(got) < wanted) return false;
  part->bytes = static_cast<size_t>(got);
  return true;
}

}  // namespace lsm_sst
