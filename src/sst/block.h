// RocksDB's block-based table format, as far as we write it: footer, block
// trailer, prefix-compressed entries.  Pure decoding over bytes in memory;
// nothing here reads outside of the range it is given, whatever the bytes say.
// table.h writes it.
//
// Layout (all integers little endian):
//   file    block* footer
//   block   contents, 1 byte compression type, 4 bytes checksum
//   contents entry* restart_offset[n] n
//   entry   varint shared, varint non_shared, [varint value_bytes],
//           key[shared..], value
// A data block's key is the user key followed by 8 bytes (sequence << 8 |
// type).

#ifndef LSM_SST_BLOCK_H
#define LSM_SST_BLOCK_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sst/sst.h"

namespace lsm_sst {

constexpr size_t kBlockTrailerBytes = 5;
constexpr size_t kFooterBytes = 53;
constexpr size_t kKeyTrailerBytes = 8;
constexpr uint8_t kTypeValue = 1;
constexpr uint64_t kBlockBasedMagic = 0x88e241b785f4cff7ull;
constexpr uint8_t kChecksumXxh3 = 4;

// Compression types of blocks.
constexpr uint8_t kTypePlain = 0;
constexpr uint8_t kTypeLz4 = 4;
constexpr uint8_t kTypeZstd = 7;

// What is wrong with some bytes; status LSM_SST_OK and a null reason if nothing
// is.  Reasons are static strings that complete `... is corrupt: `.
struct Verdict {
  LsmSstStatus status;
  const char* reason;
  bool ok() const { return status == LSM_SST_OK; }
};
constexpr Verdict kFine = {LSM_SST_OK, nullptr};
constexpr Verdict Corrupt(const char* reason) {
  return Verdict{LSM_SST_CORRUPT, reason};
}
constexpr Verdict Unsupported(const char* reason) {
  return Verdict{LSM_SST_UNSUPPORTED, reason};
}

struct BlockHandle {
  uint64_t offset;
  uint64_t bytes;  // contents, without the trailer
};

struct Footer {
  BlockHandle metaindex;
  BlockHandle index;
};

// The contents of a block, decompressed: entries are in [0, entries_bytes), the
// restart array follows.
struct BlockShape {
  uint32_t entries_bytes;
  uint32_t restarts;
};

inline uint32_t LoadFixed32(const uint8_t* p) {
  uint32_t v;
  memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  v = __builtin_bswap32(v);
#endif
  return v;
}

inline uint64_t LoadFixed64(const uint8_t* p) {
  uint64_t v;
  memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  v = __builtin_bswap64(v);
#endif
  return v;
}

inline void StoreFixed64(uint8_t* p, uint64_t v) noexcept {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  v = __builtin_bswap64(v);
#endif
  memcpy(p, &v, sizeof(v));
}

// The first 4 bytes as a big-endian integer, zero-padded: its order is that
// of the byte strings, but for ties.
inline uint32_t PrefixInteger(const uint8_t* p, size_t bytes) noexcept {
  if (bytes >= sizeof(uint32_t)) return __builtin_bswap32(LoadFixed32(p));
  uint32_t v = 0;
  for (size_t i = 0; i < bytes; i++) v |= uint32_t{p[i]} << (24 - 8 * i);
  return v;
}

// How two byte strings begin: how many bytes are equal, and what follows.
struct Likeness {
  size_t common;
  int order;  // of the first compared with the second
};

inline Likeness Compare(const uint8_t* a, size_t a_bytes, const uint8_t* b,
                        size_t b_bytes) noexcept {
  const size_t bytes = a_bytes < b_bytes ? a_bytes : b_bytes;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    // Long keys are mostly equal if they are not different early.
    if (i == 32 && memcmp(a + i, b + i, bytes - i) == 0) {
      i = bytes;
      break;
    }
    const uint64_t x = LoadFixed64(a + i), y = LoadFixed64(b + i);
    if (x != y) {
      const size_t at = i + (__builtin_ctzll(x ^ y) >> 3);
      return Likeness{at, a[at] < b[at] ? -1 : 1};
    }
  }
  for (; i < bytes; i++) {
    if (a[i] != b[i]) return Likeness{i, a[i] < b[i] ? -1 : 1};
  }
  return Likeness{i, a_bytes < b_bytes ? -1 : a_bytes > b_bytes};
}

// Null if the varint runs past `limit` or is longer than its type.
const uint8_t* GetVarint32Slow(const uint8_t* p, const uint8_t* limit,
                               uint32_t* value) noexcept;
const uint8_t* GetVarint64(const uint8_t* p, const uint8_t* limit,
                           uint64_t* value) noexcept;
inline const uint8_t* GetVarint32(const uint8_t* p, const uint8_t* limit,
                                  uint32_t* value) noexcept {
  if (p < limit && *p < 128) {
    *value = *p;
    return p + 1;
  }
  return GetVarint32Slow(p, limit, value);
}

inline const uint8_t* GetHandle(const uint8_t* p, const uint8_t* limit,
                                BlockHandle* handle) noexcept {
  p = GetVarint64(p, limit, &handle->offset);
  if (p == nullptr) return nullptr;
  return GetVarint64(p, limit, &handle->bytes);
}

// Decodes the head of an entry with a value length.  Returns where its key
// bytes start; null unless key and value lie before `limit`.
inline const uint8_t* GetEntry(const uint8_t* p, const uint8_t* limit,
                               uint32_t* shared, uint32_t* non_shared,
                               uint32_t* value_bytes) noexcept {
  // Nearly all: a short key, and a value of less than 16,384 bytes.
  if (limit - p >= 4 && (p[0] | p[1]) < 128 && (p[2] < 128 || p[3] < 128)) {
    *shared = p[0];
    *non_shared = p[1];
    *value_bytes = p[2];
    p += 3;
    if (*value_bytes >= 128) {
      *value_bytes = (*value_bytes & 127) | static_cast<uint32_t>(*p) << 7;
      p++;
    }
  } else {
    if ((p = GetVarint32(p, limit, shared)) == nullptr) return nullptr;
    if ((p = GetVarint32(p, limit, non_shared)) == nullptr) return nullptr;
    if ((p = GetVarint32(p, limit, value_bytes)) == nullptr) return nullptr;
  }
  if (static_cast<uint64_t>(*non_shared) + *value_bytes >
      static_cast<uint64_t>(limit - p))
    return nullptr;
  return p;
}

Verdict ParseFooter(const uint8_t* file, size_t file_bytes,
                    Footer* footer) noexcept;

// True if contents and trailer lie within the first `limit` bytes.
inline bool HandleFits(const BlockHandle& handle, uint64_t limit) noexcept {
  return limit >= kBlockTrailerBytes && handle.bytes <= UINT32_MAX &&
         handle.bytes <= limit - kBlockTrailerBytes &&
         handle.offset <= limit - kBlockTrailerBytes - handle.bytes;
}

// The checksum of a block of this compression type.
uint32_t BlockChecksum(const uint8_t* contents, size_t bytes,
                       uint8_t type) noexcept;

// Compares the stored checksum with one over the block.
// REQUIRES: HandleFits().
bool BlockChecksumMatches(const uint8_t* file,
                          const BlockHandle& handle) noexcept;

// Finds the restart array of decompressed contents.
inline Verdict ParseBlock(const uint8_t* contents, size_t bytes,
                          BlockShape* shape) noexcept {
  if (bytes < sizeof(uint32_t)) return Corrupt("a block is too short");
  const uint32_t restarts = LoadFixed32(contents + bytes - sizeof(uint32_t));
  if ((restarts & 0x80000000u) != 0)
    return Unsupported("a data block has a hash index");
  // Divide, do not multiply: the count may be anything.
  if (restarts == 0 ||
      restarts > (bytes - sizeof(uint32_t)) / sizeof(uint32_t) ||
      bytes > UINT32_MAX)
    return Corrupt("a block has a bad restart count");
  shape->restarts = restarts;
  shape->entries_bytes = static_cast<uint32_t>(
      bytes - (static_cast<size_t>(restarts) + 1) * sizeof(uint32_t));
  if (shape->entries_bytes == 0) return Corrupt("a block is empty");
  return kFine;
}

// Reads the size that the contents of a compressed block will have.
// `payload` is set to where the codec's own data start.
Verdict CompressedBlockSize(uint8_t type, const uint8_t* contents, size_t bytes,
                            const uint8_t** payload,
                            size_t* raw_bytes) noexcept;

// Decompresses exactly `raw_bytes` bytes into `out`.  The zstd context is one
// per process.
Verdict DecompressBlock(uint8_t type, const uint8_t* payload,
                        size_t payload_bytes, uint8_t* out,
                        size_t raw_bytes) noexcept;

// Walks a small block of properties: visit(arg, key, key_bytes, value,
// value_bytes) returns false to stop.
using PropertyVisit = bool (*)(void* arg, const uint8_t* key, size_t key_bytes,
                               const uint8_t* value, size_t value_bytes);
Verdict WalkProperties(const uint8_t* contents, size_t bytes,
                       PropertyVisit visit, void* arg) noexcept;

}  // namespace lsm_sst

#endif  // LSM_SST_BLOCK_H
