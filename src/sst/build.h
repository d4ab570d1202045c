// What a sorted file is built of: data blocks, index, properties.  The
// counterpart of block.h, which reads them; the layout stands there.
//
// Files are those that rocksdb::SstFileWriter writes with the options of
// rocksdb_compat.h, byte for byte but for the identifier of who wrote them
// (RocksDB 7.8; later versions add properties), and for what LZ4 makes of
// blocks (compress.cc).  sst_write_test.cc compares them.

#ifndef LSM_SST_BUILD_H
#define LSM_SST_BUILD_H

#include "sst/block.h"
#include "sst/output.h"

namespace lsm_sst {

// How large data blocks become, before compression.  A lookup decompresses all
// of a block.  LZ4 loses little by smaller ones; zstd is for those who want
// small files.
constexpr size_t kMaxBlockBytes = 4096;
constexpr size_t BlockBytes(LsmCompression compression) {
  return compression == LSM_COMPRESSION_LZ4 ? 2048 : kMaxBlockBytes;
}
constexpr uint32_t kRestartInterval = 16;
// An entry has at least 4 bytes.
constexpr uint32_t kMaxRestarts = kMaxBlockBytes / 4 / kRestartInterval + 2;

inline void StoreFixed32(uint8_t* p, uint32_t v) noexcept {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  v = __builtin_bswap32(v);
#endif
  memcpy(p, &v, sizeof(v));
}

constexpr size_t kMaxVarintBytes = 10;

// Returns where it ends.
inline uint8_t* StoreVarint(uint8_t* p, uint64_t v) noexcept {
  while (v >= 128) {
    *p++ = static_cast<uint8_t>(v | 128);
    v >>= 7;
  }
  *p++ = static_cast<uint8_t>(v);
  return p;
}

inline size_t VarintBytes(uint64_t v) noexcept {
  size_t bytes = 1;
  for (; v >= 128; v >>= 7) bytes++;
  return bytes;
}

// The data block that is being built.
class DataBlock {
 public:
  // `block_bytes`: at most kMaxBlockBytes.  False: no memory.
  bool Start(size_t block_bytes) noexcept;

  bool empty() const noexcept { return out_.bytes == 0; }
  // The last key added, also when the block is empty again.
  const uint8_t* last_key() const noexcept { return last_key_.data; }
  size_t last_key_bytes() const noexcept { return last_key_bytes_; }

  // Would this entry make it too large?  REQUIRES: not empty.
  bool Full(size_t key_bytes, size_t value_bytes) const noexcept {
    const size_t bytes = RawBytes();
    if (__builtin_expect(bytes <= nearly_full_, 1)) return false;
    return bytes >= block_bytes_ || Overflows(bytes, key_bytes, value_bytes);
  }

  // `common`: how many bytes the key has in common with the last one; 0 for the
  // first of a file.  REQUIRES: larger than the last one.  False: no memory.
  bool Add(const uint8_t* key, size_t key_bytes, size_t common,
           const uint8_t* value, size_t value_bytes) noexcept;

  // Appends the restart array: the contents of the block.
  bool Finish() noexcept;
  const uint8_t* contents() const noexcept { return out_.data; }
  size_t contents_bytes() const noexcept { return out_.bytes; }
  void Clear() noexcept {
    out_.bytes = 0;
    restarts_ = 0;
    since_restart_ = kRestartInterval;
  }

 private:
  size_t RawBytes() const noexcept {
    return out_.bytes + (size_t{restarts_} + 1) * sizeof(uint32_t);
  }
  bool Overflows(size_t bytes, size_t key_bytes,
                 size_t value_bytes) const noexcept;
  size_t CommonWithTrailer(const uint8_t* key, size_t key_bytes) const noexcept;

  size_t block_bytes_ = kMaxBlockBytes;
  // A block of this many bytes ends before an entry that would not fit.
  size_t nearly_full_ = kMaxBlockBytes;
  Buffer out_;
  uint32_t restarts_ = 0;
  uint32_t since_restart_ = kRestartInterval;
  uint32_t restart_offsets_[kMaxRestarts];
  Buffer last_key_;
  size_t last_key_bytes_ = 0;
};

// The index: one entry per data block, each a restart.
class IndexBlock {
 public:
  // `last`: the block's last key.  `next`: the key after it, null if none.
  // False: no memory.
  bool Add(const uint8_t* last, size_t last_bytes, const uint8_t* next,
           size_t next_bytes, const BlockHandle& handle) noexcept;
  bool Finish() noexcept;

  const uint8_t* contents() const noexcept { return out_.data; }
  size_t contents_bytes() const noexcept { return out_.bytes; }
  uint64_t blocks() const noexcept {
    return restarts_.bytes / sizeof(uint32_t);
  }

 private:
  Buffer out_;
  Buffer restarts_;
};

// What is written behind data and index.
struct TableFacts {
  LsmCompression compression;
  uint64_t entries;
  uint64_t raw_key_bytes;  // without trailers
  uint64_t raw_value_bytes;
  uint64_t data_blocks;
  uint64_t data_bytes;
  uint64_t index_bytes;
};

constexpr size_t kSessionIdBytes = 20;

// False: there is no source of random bits (errno).
bool DrawSessionId(char* id) noexcept;

// False: no memory.
bool BuildProperties(const TableFacts& facts, const char* session_id,
                     Buffer* out) noexcept;
bool BuildMetaindex(const BlockHandle& properties, Buffer* out) noexcept;
void BuildFooter(const Footer& footer, uint8_t* out) noexcept;

// Compresses blocks.
class Compressor {
 public:
  Compressor() = default;
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  ~Compressor();

  // False: no memory.
  bool Start(LsmCompression compression) noexcept;

  // What to write for these contents, with its type: themselves if they do not
  // compress well.  Good until the next call.
  struct Result {
    const uint8_t* contents;
    size_t bytes;
    uint8_t type;
  };
  bool Compress(const uint8_t* contents, size_t bytes, Result* result) noexcept;

 private:
  LsmCompression compression_ = LSM_COMPRESSION_NONE;
  void* context_ = nullptr;
  Buffer out_;
};

}  // namespace lsm_sst

#endif  // LSM_SST_BUILD_H
