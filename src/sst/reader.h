// The opened sorted file: footer, properties and the search of its index.
// Shared by reader.cc (open), iter.cc (iterator) and verify.cc.

#ifndef LSM_SST_READER_H
#define LSM_SST_READER_H

#include "sst/block.h"
#include "sst/error.h"
#include "sst/mapping.h"
#include "sst/sst.h"

// The index block is used where it is, in the mapping.  Private memory holds
// only a sample of it: the first 4 bytes, behind the prefix that all keys of
// the index share, of every sample_step'th separator, as integers.  Files that
// are read a lot get a sample of every separator, beside the block's offset:
// what a search looks at last then lies in few cache lines, fetched at once.
struct LsmSstHotBlock {
  uint32_t sample;
  uint32_t offset;  // of the block, in the file
};

struct LsmSstReader {
  lsm_sst::Mapping map;
  char* path;

  // Index block: one entry per data block and restart.
  const uint8_t* index;
  const uint8_t* index_restarts;
  uint32_t index_entries_bytes;
  uint32_t blocks;
  uint64_t index_offset;  // in the file, for messages
  bool index_key_is_user_key;
  bool index_value_is_delta;

  uint32_t* samples;
  LsmSstHotBlock* hot;  // blocks, and where the last one ends; may be null
  void* warming;        // becomes hot, or samples
  bool index_warmed;
  uint32_t sample_count;
  uint32_t sample_step;
  uint8_t* prefix;
  size_t prefix_bytes;

  bool plain;  // the block read last was not compressed

  // One bit per data block: its checksum was compared since the file was
  // opened.
  uint64_t* verified;

  LsmSstProperties props;
  uint64_t blocks_read;
  uint64_t pages_read;  // of the file, as lsm_sst_pages_read() has it
  size_t memory;
};

namespace lsm_sst {

// An index entry that is not what it should be.
[[gnu::cold]] LsmSstStatus FailBlock(const LsmSstReader* reader,
                                     LsmSstError* err, const Verdict& verdict,
                                     uint64_t offset) noexcept;

// Separator of data block `block`: at or after every key of the block, before
// every key of the next.  False if the entry is malformed.
bool IndexKey(const LsmSstReader* reader, uint32_t block, const uint8_t** key,
              size_t* key_bytes, const uint8_t** after) noexcept;

// Where data block `block` is.
Verdict IndexHandle(const LsmSstReader* reader, uint32_t block,
                    BlockHandle* handle) noexcept;

// First block whose separator is >= key; reader->blocks if there is none.
// False if the index is malformed.  REQUIRES: inside Guarded().
bool SearchIndex(LsmSstReader* reader, const uint8_t* key, size_t key_bytes,
                 uint32_t* block) noexcept;

// Compares two byte strings in memcmp order, the shorter first.
inline int CompareKeys(const uint8_t* a, size_t a_bytes, const uint8_t* b,
                       size_t b_bytes) noexcept {
  const size_t bytes = a_bytes < b_bytes ? a_bytes : b_bytes;
  if (bytes > 0) {
    const int c = memcmp(a, b, bytes);
    if (c != 0) return c;
  }
  return a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

}  // namespace lsm_sst

#endif  // LSM_SST_READER_H
