// Decompression of the beginning of an LZ4 block, as much of it as is wanted.
//
// A lookup needs one entry of a block.  The library decompresses a block from
// its beginning to any place, but cannot go on from there, and it is made for
// long blocks: of 2 kB it takes twice as many instructions as this.  Written
// after the description of the format (lz4_Block_format.md); lz4.h writes it.

#ifndef LSM_SST_LZ4_PART_H
#define LSM_SST_LZ4_PART_H

#include <cstddef>
#include <cstdint>

namespace lsm_sst {

// So many bytes behind both ends may be read (in) and overwritten (out).
constexpr size_t kLz4Slack = 32;

// A block that is being decompressed.  Copies refer to what was written
// before, so `out` has to stay as it is.
struct Lz4Part {
  const uint8_t* in;  // what is still to be read
  const uint8_t* in_end;
  uint8_t* out;
  size_t raw_bytes;  // of the whole block
  size_t bytes;      // that are there
};

// Goes on until at least `wanted` bytes are there, or all.  False if the block
// is damaged; nothing is read or written outside of the two ranges and their
// slack in any case.  REQUIRES: wanted <= raw_bytes.
bool Lz4DecodeTo(Lz4Part* part, size_t wanted) noexcept;

}  // namespace lsm_sst

#endif  // LSM_SST_LZ4_PART_H
