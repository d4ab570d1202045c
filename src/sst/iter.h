// The iterator's state and the decoding of its next entry: shared by iter.cc
// (seeks and steps), load.cc (blocks) and read_batch.cc (many entries at once).

#ifndef LSM_SST_ITER_H
#define LSM_SST_ITER_H

#include <cstdlib>

#include "sst/lz4_part.h"
#include "sst/reader.h"

namespace lsm_sst {

constexpr uint32_t kNoBlock = UINT32_MAX;
constexpr size_t kInlineKeyBytes = 256;
// Buffers larger than this are not kept with an iterator that is closed.
constexpr size_t kKeptBytes = 64 * 1024;

}  // namespace lsm_sst

struct LsmSstIter {
  LsmSstReader* reader;

  // The current block, kNoBlock if none.  Entries are in [base, base +
  // entries_bytes), the restart array follows.
  uint32_t block;
  uint32_t entries_bytes;
  uint32_t restarts;
  bool buffered;  // base is `buffer`, not the mapping
  // Only the beginning of the block is there: entries_bytes is 0, restarts are
  // unknown.  FinishBlock() does the rest.
  bool part;
  bool stepped;  // if not: there was a step since the seek
  bool valid;
  lsm_sst::Lz4Part packed;  // if part
  const uint8_t* base;
  uint64_t block_offset;  // in the file
  uint64_t block_end;     // behind its trailer
  size_t contents_bytes;

  // The current entry, as offsets from base.
  uint32_t entry;
  uint32_t next_entry;
  uint32_t value_offset;
  uint32_t value_bytes;
  const uint8_t* value;

  uint8_t* key;  // with its trailer
  uint32_t key_bytes;
  uint32_t key_capacity;

  // The copy of the block, or of the value if the block was not copied.
  uint8_t* buffer;
  size_t buffer_capacity;

  // The block that was read last, and a page of the file in which it lies.
  uint32_t counted_block;
  uint64_t counted_page;

  uint32_t scanned_blocks;
  uint32_t readahead_bytes;  // asked for last
  uint64_t readahead_end;

  LsmSstIter* next_spare;
  uint8_t inline_key[lsm_sst::kInlineKeyBytes];
};

namespace lsm_sst {

// Room for a key of this many bytes; false: no memory.
bool GrowKey(LsmSstIter* it, size_t bytes) noexcept;

// Room for `bytes`; what was in the buffer is gone.
bool ReserveBuffer(LsmSstIter* it, size_t bytes) noexcept;

// The rest of a block of which a part is there; the current entry stays.
// REQUIRES: inside Guarded(), part.
LsmSstStatus FinishBlock(LsmSstIter* it, LsmSstError* err) noexcept;

// Makes data block `block` the current one, without a current entry.  The
// iterator may keep pointing into the mapping unless `copy` is set.
// REQUIRES: inside Guarded().
LsmSstStatus LoadBlock(LsmSstIter* it, uint32_t block, bool copy,
                       LsmSstError* err) noexcept;

// As LoadBlock(), but nothing of an LZ4 block is decompressed yet if `part` is
// set afterwards.  Who looks for a second entry of the same block will look for
// more.
LsmSstStatus LoadPart(LsmSstIter* it, uint32_t block,
                      LsmSstError* err) noexcept;

// Copies the current block out of the mapping, if it is not; the current entry
// stays.  REQUIRES: valid.
LsmSstStatus BufferCurrent(LsmSstIter* it, LsmSstError* err) noexcept;

inline LsmSstStatus FailHere(const LsmSstIter* it, LsmSstError* err,
                             const Verdict& verdict) noexcept {
  return FailBlock(it->reader, err, verdict, it->block_offset);
}

inline void ForgetBlock(LsmSstIter* it) noexcept {
  it->block = kNoBlock;
  it->buffered = it->part = false;
  it->valid = false;
}

// Decodes the entry at next_entry, which becomes the current one.
// REQUIRES: next_entry < entries_bytes; key holds the entry before, or
// key_bytes is 0 and next_entry is a restart.
[[gnu::always_inline]] inline Verdict DecodeNext(LsmSstIter* it) noexcept {
  const uint8_t* limit = it->base + it->entries_bytes;
  uint32_t shared, non_shared, value_bytes;
  const uint8_t* p = GetEntry(it->base + it->next_entry, limit, &shared,
                              &non_shared, &value_bytes);
  if (__builtin_expect(p == nullptr || shared > it->key_bytes, 0))
    return Corrupt("an entry is damaged");
  const size_t key_bytes = size_t{shared} + non_shared;
  if (__builtin_expect(key_bytes < kKeyTrailerBytes, 0))
    return Corrupt("an entry is damaged");
  if (__builtin_expect(key_bytes > it->key_capacity, 0)) {
    // A block is smaller than 4 GB, so sums of keys within it cannot be large.
    if (key_bytes > UINT32_MAX / 4) return Corrupt("an entry is damaged");
    if (!GrowKey(it, key_bytes)) return Verdict{LSM_SST_NO_MEMORY, ""};
  }
  memcpy(it->key + shared, p, non_shared);
  it->key_bytes = static_cast<uint32_t>(key_bytes);
  // Read where it has not just been written, which would be slow.
  const uint8_t type = non_shared >= kKeyTrailerBytes
                           ? p[non_shared - kKeyTrailerBytes]
                           : it->key[key_bytes - kKeyTrailerBytes];
  if (__builtin_expect(type != kTypeValue, 0))
    return Unsupported("an entry is not a plain value");
  it->entry = it->next_entry;
  it->value_offset = static_cast<uint32_t>(p - it->base) + non_shared;
  it->value_bytes = value_bytes;
  it->next_entry = it->value_offset + value_bytes;
  return kFine;
}

// What a search in a block looks for: the first entry that is >= key, or > key
// if beyond is 1.
struct Wanted {
  const uint8_t* key;
  size_t key_bytes;
  int beyond;  // the answer compares >= this
  // The answer counts only if it begins with this many bytes of the key.
  size_t prefix_bytes;
  // How many bytes can be read from `key` on.
  size_t readable_bytes;
};

// Wanted keys that are not longer are copied to where more can be read.
constexpr size_t kPaddedKeyBytes = 64;

// An entry's bytes after the first `shared`, which it has in common with the
// wanted key, against the wanted key's.  A trailer follows them: 8 bytes can be
// read.
[[gnu::always_inline]] inline Likeness CompareOwn(const uint8_t* own,
                                                  size_t own_bytes,
                                                  const Wanted& wanted,
                                                  uint32_t shared) noexcept {
  const uint8_t* rest = wanted.key + shared;
  const size_t rest_bytes = wanted.key_bytes - shared;
  const size_t bytes = own_bytes < rest_bytes ? own_bytes : rest_bytes;
  if (__builtin_expect(shared + sizeof(uint64_t) <= wanted.readable_bytes, 1)) {
    const uint64_t x = LoadFixed64(own), y = LoadFixed64(rest);
    const size_t common =
        x == y ? sizeof(x) : static_cast<size_t>(__builtin_ctzll(x ^ y)) >> 3;
    if (common < bytes && common < sizeof(x))
      return Likeness{shared + common, own[common] < rest[common] ? -1 : 1};
    if (bytes <= sizeof(x)) {
      return Likeness{shared + bytes,
                      own_bytes < rest_bytes ? -1 : own_bytes > rest_bytes};
    }
  }
  Likeness likeness = Compare(own, own_bytes, rest, rest_bytes);
  likeness.common += shared;
  return likeness;
}

using Padded = uint8_t[kPaddedKeyBytes + sizeof(uint64_t)];

inline Wanted Pad(const Wanted& asked, Padded& padded) noexcept {
  Wanted wanted = asked;
  if (asked.key_bytes <= kPaddedKeyBytes) {
    if (asked.key_bytes > 0) memcpy(padded, asked.key, asked.key_bytes);
    StoreFixed64(padded + asked.key_bytes, 0);
    wanted.key = padded;
    wanted.readable_bytes = asked.key_bytes + sizeof(uint64_t);
  }
  return wanted;
}

inline uint32_t RestartOffset(const LsmSstIter* it, uint32_t i) noexcept {
  return LoadFixed32(it->base + it->entries_bytes + size_t{i} * 4);
}

// The last restart before `offset`, or the first one.
inline uint32_t RestartBefore(const LsmSstIter* it, uint32_t offset) noexcept {
  uint32_t low = 0;
  uint32_t high = it->restarts - 1;
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (RestartOffset(it, middle) < offset)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace lsm_sst

#endif  // LSM_SST_ITER_H
