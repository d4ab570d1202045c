// Decompression of the beginning of an LZ4 block, as much of it as is wanted.

#ifndef LSM_SST_LZ4_PART_H
#define LSM_SST_LZ4_PART_H

#include <cstddef>
#include <cstdint>

namespace lsm_sst {

// A block of which a part may be decompressed.
struct Lz4Part {
  const uint8_t* in;
  size_t in_bytes;
  uint8_t* out;      // raw_bytes long
  size_t raw_bytes;  // of the whole block
  size_t bytes;      // that are there
};

// Makes sure that at least `wanted` bytes are there.  The library cannot go on
// where it stopped: the second time is for the whole block.  False if the block
// is damaged.  REQUIRES: wanted <= raw_bytes.
bool Lz4DecodeTo(Lz4Part* part, size_t wanted) noexcept;

}  // namespace lsm_sst

#endif  // LSM_SST_LZ4_PART_H
