// Decoding of RocksDB's block-based table format, see block.h.

#include "sst/block.h"

#include <lz4.h>
#include <zstd.h>

extern "C" {
#include "filter/filter.h"
}

namespace lsm_sst {

namespace {

constexpr uint64_t kLegacyBlockBasedMagic = 0xdb4775248b80fb57ull;
constexpr uint64_t kPlainTableMagic = 0x8242229663bf9564ull;
constexpr uint64_t kCuckooTableMagic = 0x926789d0c5f17873ull;

// A block holds at least one entry, and entries are limited to this and a
// little by the writer.
constexpr uint32_t kMaxRawBytes = 0x7fffffffu;

}  // namespace

const uint8_t* GetVarint32Slow(const uint8_t* p, const uint8_t* limit,
                               uint32_t* value) noexcept {
  uint32_t result = 0;
  for (unsigned shift = 0; shift <= 28 && p < limit; shift += 7) {
    const uint32_t byte = *p++;
    if (shift == 28 && byte > 15) return nullptr;
    result |= (byte & 127) << shift;
    if (byte < 128) {
      *value = result;
      return p;
    }
  }
  return nullptr;
}

const uint8_t* GetVarint64(const uint8_t* p, const uint8_t* limit,
                           uint64_t* value) noexcept {
  uint64_t result = 0;
  for (unsigned shift = 0; shift <= 63 && p < limit; shift += 7) {
    const uint64_t byte = *p++;
    if (shift == 63 && byte > 1) return nullptr;
    result |= (byte & 127) << shift;
    if (byte < 128) {
      *value = result;
      return p;
    }
  }
  return nullptr;
}

Verdict ParseFooter(const uint8_t* file, size_t file_bytes,
                    Footer* footer) noexcept {
  if (file_bytes < kFooterBytes) return Corrupt("it is too short");
  const uint8_t* end = file + file_bytes;
  const uint64_t magic = LoadFixed64(end - 8);
  if (magic == kLegacyBlockBasedMagic)
    return Unsupported("its footer is of the legacy form");
  if (magic == kPlainTableMagic || magic == kCuckooTableMagic)
    return Unsupported("it is not a block-based table");
  if (magic != kBlockBasedMagic)
    return Corrupt("the footer is missing or damaged");
  const uint32_t version = LoadFixed32(end - 12);
  if (version < 2 || version > 5)
    return Unsupported("its format version is not 2 to 5");
  const uint8_t* p = end - kFooterBytes;
  if (*p++ != kChecksumXxh3)
    return Unsupported("its checksum type is not XXH3");
  if ((p = GetHandle(p, end - 12, &footer->metaindex)) == nullptr ||
      (p = GetHandle(p, end - 12, &footer->index)) == nullptr)
    return Corrupt("the footer is damaged");
  return kFine;
}

uint32_t BlockChecksum(const uint8_t* contents, size_t bytes,
                       uint8_t type) noexcept {
  const uint32_t hash = static_cast<uint32_t>(lsm_digest_key(contents, bytes));
  // The type byte is mixed in instead of hashed along, so that a writer need
  // not append it to the contents first.
  return hash ^ (type * 0x6b9083d9u);
}

bool BlockChecksumMatches(const uint8_t* file,
                          const BlockHandle& handle) noexcept {
  const uint8_t* contents = file + handle.offset;
  const size_t bytes = static_cast<size_t>(handle.bytes);
  return LoadFixed32(contents + bytes + 1) ==
         BlockChecksum(contents, bytes, contents[bytes]);
}

Verdict CompressedBlockSize(uint8_t type, const uint8_t* contents, size_t bytes,
                            const uint8_t** payload,
                            size_t* raw_bytes) noexcept {
  if (type != kTypeLz4 && type != kTypeZstd)
    return Unsupported("a block has an unknown compression type");
  uint32_t raw;
  const uint8_t* p = GetVarint32(contents, contents + bytes, &raw);
  if (p == nullptr || raw > kMaxRawBytes)
    return Corrupt("a compressed block has a bad size");
  *payload = p;
  *raw_bytes = raw;
  return kFine;
}

Verdict DecompressBlock(uint8_t type, const uint8_t* payload,
                        size_t payload_bytes, uint8_t* out,
                        size_t raw_bytes) noexcept {
  if (type == kTypeLz4) {
    if (payload_bytes > kMaxRawBytes)
      return Corrupt("a compressed block has a bad size");
    const int got = LZ4_decompress_safe(
        reinterpret_cast<const char*>(payload), reinterpret_cast<char*>(out),
        static_cast<int>(payload_bytes), static_cast<int>(raw_bytes));
    if (got < 0 || static_cast<size_t>(got) != raw_bytes)
      return Corrupt("a block could not be decompressed");
    return kFine;
  }
  // About 100 kB, so never one per file.
  static ZSTD_DCtx* context;
  if (context == nullptr && (context = ZSTD_createDCtx()) == nullptr)
    return Verdict{LSM_SST_NO_MEMORY, "out of memory"};
  const size_t got =
      ZSTD_decompressDCtx(context, out, raw_bytes, payload, payload_bytes);
  if (ZSTD_isError(got) || got != raw_bytes)
    return Corrupt("a block could not be decompressed");
  return kFine;
}

Verdict WalkProperties(const uint8_t* contents, size_t bytes,
                       PropertyVisit visit, void* arg) noexcept {
  BlockShape shape;
  const Verdict verdict = ParseBlock(contents, bytes, &shape);
  if (!verdict.ok()) return verdict;

  uint8_t key[512];
  size_t key_bytes = 0;
  const uint8_t* p = contents;
  const uint8_t* limit = contents + shape.entries_bytes;
  while (p < limit) {
    uint32_t shared, non_shared, value_bytes;
    p = GetEntry(p, limit, &shared, &non_shared, &value_bytes);
    if (p == nullptr || shared > key_bytes)
      return Corrupt("a meta block is damaged");
    if (static_cast<size_t>(shared) + non_shared > sizeof(key))
      return Unsupported("a property has a very long name");
    memcpy(key + shared, p, non_shared);
    key_bytes = static_cast<size_t>(shared) + non_shared;
    if (!visit(arg, key, key_bytes, p + non_shared, value_bytes)) break;
    p += static_cast<size_t>(non_shared) + value_bytes;
  }
  return kFine;
}

}  // namespace lsm_sst
