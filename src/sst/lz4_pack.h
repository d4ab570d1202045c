// Compression into LZ4 blocks that are quick to decompress.

#ifndef LSM_SST_LZ4_PACK_H
#define LSM_SST_LZ4_PACK_H

#include <cstddef>
#include <cstdint>

namespace lsm_sst {

constexpr size_t kLz4PackMaxBytes = UINT16_MAX;

constexpr unsigned kLz4PlaceBits = 12;
// Where a sequence of bytes was seen last, by its hash.
struct Lz4Places {
  uint16_t at[size_t{1} << kLz4PlaceBits];
};

// Compresses `bytes` bytes, at most kLz4PackMaxBytes, into `out`, which has
// room for LZ4_compressBound() of them; what is in `places` does not matter.
// Returns the length.  Any decoder of LZ4 blocks reads it.
//
// Matches of less than 6 bytes are left as they are, unlike by the library: one
// of 4 costs 3 bytes, saves hardly any and makes two sequences of one, and
// decompressing takes its time per sequence.
size_t Lz4Pack(const uint8_t* in, size_t bytes, uint8_t* out,
               Lz4Places* places) noexcept;

}  // namespace lsm_sst

#endif  // LSM_SST_LZ4_PACK_H
