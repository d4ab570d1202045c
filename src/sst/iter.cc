// The iterator: seek and step over the entries of one sorted file.
//
// A seek works on the block where it lies in the mapping and touches only the
// cache lines it needs, and so does one step from there: a point lookup makes
// one to see that there is nothing more.  The second step copies the block into
// the iterator, and so does moving to a neighbour; compressed blocks are
// decompressed there.  So outside of the positioning calls nobody reads the
// mapping: key and value always lie in private memory, and a media error can
// only hit inside Guarded().
//
// The key is copied while scanning: prefix compression runs over user key and
// 8-byte trailer, so that an entry may share bytes of its user key with the
// trailer of the one before.

#include "sst/iter.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

using namespace lsm_sst;

namespace {

// Buffers larger than this are not kept with an iterator that is closed.
constexpr size_t kKeptBytes = 64 * 1024;
constexpr int kMaxSpares = 32;
// Of a restart's entries, so many cache lines are fetched before they are
// looked at.
constexpr uint32_t kFetches = 16;
constexpr uint32_t kLongEntryBytes = 128;
// Stepping through this many blocks in a row is taken for a scan, which then
// asks for so many bytes ahead.  The call costs a short range scan of blocks in
// the page cache a fifth of its time.
constexpr uint32_t kScanBlocks = 16;
constexpr uint64_t kReadaheadBytes = 512 * 1024;

// Iterators that were closed, for the next to be opened: a point lookup then
// allocates nothing.
LsmSstIter* spares;
int spare_count;

// Room for `bytes`; what was in the buffer is gone.
bool ReserveBuffer(LsmSstIter* it, size_t bytes) noexcept {
  if (bytes <= it->buffer_capacity) return true;
  size_t capacity = 8192;
  while (capacity < bytes) capacity *= 2;
  free(it->buffer);
  it->buffer = static_cast<uint8_t*>(malloc(capacity));
  it->buffer_capacity = it->buffer == nullptr ? 0 : capacity;
  return it->buffer != nullptr;
}

inline Verdict GoToRestart(LsmSstIter* it, uint32_t i) noexcept {
  const uint32_t offset = RestartOffset(it, i);
  if (offset >= it->entries_bytes) return Corrupt("a restart is damaged");
  it->next_entry = offset;
  it->key_bytes = 0;
  return kFine;
}

// Makes data block `block` the current one, without a current entry.  The
// iterator may keep pointing into the mapping unless `copy` is set.
// REQUIRES: inside Guarded().
LsmSstStatus LoadBlock(LsmSstIter* it, uint32_t block, bool copy,
                       LsmSstError* err) noexcept {
  LsmSstReader* reader = it->reader;
  it->valid = false;
  if (it->block == block && (it->buffered || !copy)) return LSM_SST_OK;
  ForgetBlock(it);

  BlockHandle handle;
  Verdict verdict = IndexHandle(reader, block, &handle);
  if (!verdict.ok())
    return FailBlock(reader, err, verdict, reader->index_offset);
  it->block_offset = handle.offset;
  reader->blocks_read++;

  const uint8_t* contents = reader->map.base + handle.offset;
  // Its end tells how to read it: restarts, type.  Its beginning is needed if
  // it is compressed.
  __builtin_prefetch(contents + handle.bytes);
  __builtin_prefetch(contents + handle.bytes - 64);
  if (!reader->plain) __builtin_prefetch(contents);
  const uint8_t type = contents[handle.bytes];
  reader->plain = type == kTypePlain;
  uint64_t* verified = &reader->verified[block / 64];
  const uint64_t bit = uint64_t{1} << (block % 64);
  if ((*verified & bit) == 0) {
    if (!BlockChecksumMatches(reader->map.base, handle))
      return FailHere(it, err, Corrupt("checksum mismatch"));
    *verified |= bit;
  }

  if (type != 0) {
    const uint8_t* payload;
    size_t raw_bytes;
    verdict =
        CompressedBlockSize(type, contents, handle.bytes, &payload, &raw_bytes);
    if (!verdict.ok()) return FailHere(it, err, verdict);
    if (!ReserveBuffer(it, raw_bytes))
      return FailMemory(err, "reading sorted file", reader->path);
    verdict = DecompressBlock(type, payload, contents + handle.bytes - payload,
                              it->buffer, raw_bytes);
    if (!verdict.ok()) return FailHere(it, err, verdict);
    it->base = it->buffer;
    it->contents_bytes = raw_bytes;
    it->buffered = true;
  } else if (copy) {
    if (!ReserveBuffer(it, handle.bytes))
      return FailMemory(err, "reading sorted file", reader->path);
    memcpy(it->buffer, contents, handle.bytes);
    it->base = it->buffer;
    it->contents_bytes = handle.bytes;
    it->buffered = true;
  } else {
    it->base = contents;
    it->contents_bytes = handle.bytes;
  }

  BlockShape shape;
  verdict = ParseBlock(it->base, it->contents_bytes, &shape);
  if (!verdict.ok()) {
    it->buffered = false;
    return FailHere(it, err, verdict);
  }
  it->entries_bytes = shape.entries_bytes;
  it->restarts = shape.restarts;
  it->block = block;
  return LSM_SST_OK;
}

// Copies the current block out of the mapping; the current entry stays.
// REQUIRES: inside Guarded(), a current block.
LsmSstStatus BufferBlock(LsmSstIter* it, LsmSstError* err) noexcept {
  if (it->buffered) return LSM_SST_OK;
  if (!ReserveBuffer(it, it->contents_bytes))
    return FailMemory(err, "reading sorted file", it->reader->path);
  memcpy(it->buffer, it->base, it->contents_bytes);
  it->base = it->buffer;
  it->buffered = true;
  return LSM_SST_OK;
}

// The current entry is the answer: bring its value into private memory.
// REQUIRES: inside Guarded() unless the block is buffered.
LsmSstStatus Settle(LsmSstIter* it, LsmSstError* err) noexcept {
  if (!it->buffered) {
    if (!ReserveBuffer(it, it->value_bytes))
      return FailMemory(err, "reading sorted file", it->reader->path);
    if (it->value_bytes > 0)
      memcpy(it->buffer, it->base + it->value_offset, it->value_bytes);
    it->value = it->buffer;
  } else {
    it->value = it->base + it->value_offset;
  }
  it->valid = true;
  return LSM_SST_OK;
}

// Makes the last entry that starts before `offset` the current one.
// REQUIRES: a current block, offset > 0.
Verdict StepBackTo(LsmSstIter* it, uint32_t offset) noexcept {
  uint32_t low = 0;
  uint32_t high = it->restarts - 1;
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (RestartOffset(it, middle) < offset)
      low = middle;
    else
      high = middle - 1;
  }
  Verdict verdict = GoToRestart(it, low);
  if (!verdict.ok()) return verdict;
  // The entries up to the next restart; the first line is there.
  const uint32_t end =
      low + 1 < it->restarts ? RestartOffset(it, low + 1) : it->entries_bytes;
  for (uint32_t at = it->next_entry + 64;
       at < end && at < it->next_entry + kFetches * 64; at += 64)
    __builtin_prefetch(it->base + at);
  if (it->next_entry >= offset) return Corrupt("a restart is damaged");
  do {
    verdict = DecodeNext(it);
    if (!verdict.ok()) return verdict;
  } while (it->next_entry < offset);
  if (it->next_entry != offset) return Corrupt("a restart is damaged");
  return kFine;
}

// What a search in a block looks for: the first entry that is >= key, or > key
// if beyond is 1.
struct Wanted {
  const uint8_t* key;
  size_t key_bytes;
  int beyond;  // the answer compares >= this
  // The answer counts only if it begins with so many bytes of the key.
  size_t prefix_bytes;
  // From `key` on, so many bytes can be read.
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

enum class Scan {
  kFound,      // the answer is the current entry
  kNone,       // next_entry is the end
  kElsewhere,  // there is an answer, which does not begin with the prefix
  kUnusual     // an entry is damaged, or not as our writer makes them
};

// Fetches where entries begin that are as long as the first one, at `offset`,
// if they are so long that those behind it have not been fetched.
inline void FetchLong(const LsmSstIter* it, uint32_t offset,
                      uint32_t bytes) noexcept {
  if (it->buffered || bytes < kLongEntryBytes) return;
  for (uint32_t i = 1, at = offset + bytes;
       i < kFetches && at < it->entries_bytes; i++, at += bytes)
    __builtin_prefetch(it->base + at);
}

// The answer of DecodeNext() and comparing, entry by entry from next_entry,
// which is a restart.  But keys are not put together: how
// many bytes an entry shares with the one before tells mostly where it stands,
// since it is known how many of these the wanted key has, too.
Scan ScanEntries(LsmSstIter* it, const Wanted& wanted) noexcept {
  const uint8_t* limit = it->base + it->entries_bytes;
  uint32_t at = it->next_entry;
  size_t before_bytes = 0;  // of the entry before, which is no answer
  size_t matched = 0;       // bytes that it has in common with the wanted key
  bool differs = true;      // they are followed by different ones
  while (at < it->entries_bytes) {
    uint32_t shared, non_shared, value_bytes;
    const uint8_t* p =
        GetEntry(it->base + at, limit, &shared, &non_shared, &value_bytes);
    if (__builtin_expect(p == nullptr || shared > before_bytes ||
                             non_shared < kKeyTrailerBytes,
                         0))
      return Scan::kUnusual;
    const size_t own_bytes = non_shared - kKeyTrailerBytes;
    const uint32_t value_offset =
        static_cast<uint32_t>(p - it->base) + non_shared;
    if (before_bytes == 0) FetchLong(it, at, value_offset + value_bytes - at);
    const size_t key_bytes = size_t{shared} + non_shared;
    Likeness likeness{shared, 1};
    if (shared > matched) {
      // As different as the one before, at the same place.
      if (!differs) return Scan::kUnusual;
      before_bytes = key_bytes;
      at = value_offset + value_bytes;
      continue;
    } else if (shared == matched || shared == 0) {
      likeness = CompareOwn(p, own_bytes, wanted, shared);
    } else if (own_bytes == 0 || p[0] <= wanted.key[shared]) {
      // It should be larger than the one before, where that is as the wanted
      // key.
      return Scan::kUnusual;
    }

    if (likeness.order >= wanted.beyond) {
      if (likeness.common < wanted.prefix_bytes) return Scan::kElsewhere;
      if (p[own_bytes] != kTypeValue) return Scan::kUnusual;
      // It has its first bytes in common with the wanted key.
      if (key_bytes > UINT32_MAX / 4) return Scan::kUnusual;
      if (key_bytes > it->key_capacity && !GrowKey(it, key_bytes))
        return Scan::kUnusual;
      CopyShort(it->key, wanted.key, shared);
      CopyShort(it->key + shared, p, non_shared);
      it->key_bytes = static_cast<uint32_t>(key_bytes);
      it->entry = at;
      it->value_offset = value_offset;
      it->value_bytes = value_bytes;
      it->next_entry = value_offset + value_bytes;
      return Scan::kFound;
    }
    matched = likeness.common;
    before_bytes = key_bytes;
    differs =
        matched < wanted.key_bytes && matched < before_bytes - kKeyTrailerBytes;
    at = value_offset + value_bytes;
  }
  it->next_entry = at;
  return Scan::kNone;
}

// Finds the first entry of the current block that is wanted; *found tells
// whether there is one.  If not, next_entry is the end, or *elsewhere is set.
Verdict SearchBlock(LsmSstIter* it, const Wanted& asked, bool* found,
                    bool* elsewhere) noexcept {
  *found = *elsewhere = false;
  Wanted wanted = asked;
  uint8_t padded[kPaddedKeyBytes + sizeof(uint64_t)];
  if (asked.key_bytes <= kPaddedKeyBytes) {
    CopyShort(padded, asked.key, asked.key_bytes);
    StoreFixed64(padded + asked.key_bytes, 0);
    wanted.key = padded;
    wanted.readable_bytes = asked.key_bytes + sizeof(uint64_t);
  }

  // Last restart whose key is before the answer.
  const uint8_t* limit = it->base + it->entries_bytes;
  uint32_t low = 0;
  uint32_t high = it->restarts - 1;
  if (high > 0 && high < 64) {
    // All of them at once: waiting for one after the other costs more.
    for (uint32_t i = 0; i <= high; i++) {
      const uint8_t* entry = it->base + RestartOffset(it, i);
      __builtin_prefetch(entry);
      // Most keys end within so many bytes.
      if (reinterpret_cast<uintptr_t>(entry) % 64 > 40)
        __builtin_prefetch(entry + 24);
    }
  }
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    const uint32_t offset = RestartOffset(it, middle);
    uint32_t shared, non_shared, value_bytes;
    if (offset >= it->entries_bytes) return Corrupt("a restart is damaged");
    const uint8_t* p =
        GetEntry(it->base + offset, limit, &shared, &non_shared, &value_bytes);
    if (p == nullptr || shared != 0 || non_shared < kKeyTrailerBytes)
      return Corrupt("a restart is damaged");
    if (CompareOwn(p, non_shared - kKeyTrailerBytes, wanted, 0).order <
        wanted.beyond)
      low = middle;
    else
      high = middle - 1;
  }

  Verdict verdict = GoToRestart(it, low);
  if (!verdict.ok()) return verdict;
  if (!it->buffered) {
    // The entries up to the next restart; the first line is there.
    const uint32_t end =
        low + 1 < it->restarts ? RestartOffset(it, low + 1) : it->entries_bytes;
    for (uint32_t at = it->next_entry + 64;
         at < end && at < it->next_entry + kFetches * 64; at += 64)
      __builtin_prefetch(it->base + at);
  }
  switch (ScanEntries(it, wanted)) {
    case Scan::kFound:
      *found = true;
      return kFine;
    case Scan::kElsewhere:
      *elsewhere = true;
      return kFine;
    case Scan::kNone:
      return kFine;
    case Scan::kUnusual:
      break;
  }
  while (it->next_entry < it->entries_bytes) {
    verdict = DecodeNext(it);
    if (!verdict.ok()) return verdict;
    const Likeness likeness = Compare(it->key, it->key_bytes - kKeyTrailerBytes,
                                      wanted.key, wanted.key_bytes);
    if (likeness.order >= wanted.beyond) {
      *found = likeness.common >= wanted.prefix_bytes;
      *elsewhere = !*found;
      break;
    }
  }
  return kFine;
}

LsmSstStatus FirstOfBlock(LsmSstIter* it, uint32_t block, bool copy,
                          LsmSstError* err) noexcept {
  const LsmSstStatus status = LoadBlock(it, block, copy, err);
  if (status != LSM_SST_OK) return status;
  it->next_entry = 0;
  it->key_bytes = 0;
  const Verdict verdict = DecodeNext(it);
  if (!verdict.ok()) return FailHere(it, err, verdict);
  return Settle(it, err);
}

LsmSstStatus LastOfBlock(LsmSstIter* it, uint32_t block, bool copy,
                         LsmSstError* err) noexcept {
  const LsmSstStatus status = LoadBlock(it, block, copy, err);
  if (status != LSM_SST_OK) return status;
  const Verdict verdict = StepBackTo(it, it->entries_bytes);
  if (!verdict.ok()) return FailHere(it, err, verdict);
  return Settle(it, err);
}

LsmSstStatus Seek(LsmSstIter* it, const Wanted& wanted,
                  LsmSstError* err) noexcept {
  uint32_t block;
  if (!SearchIndex(it->reader, wanted.key, wanted.key_bytes, &block)) {
    return FailBlock(it->reader, err, Corrupt("the index is damaged"),
                     it->reader->index_offset);
  }
  if (block >= it->reader->blocks) {
    it->valid = false;
    return LSM_SST_OK;
  }
  LsmSstStatus status = LoadBlock(it, block, false, err);
  if (status != LSM_SST_OK) return status;
  bool found, elsewhere;
  const Verdict verdict = SearchBlock(it, wanted, &found, &elsewhere);
  if (!verdict.ok()) return FailHere(it, err, verdict);
  if (found) return Settle(it, err);
  // Else the key lies between the last key of this block and its separator.
  if (elsewhere || block + 1 >= it->reader->blocks) return LSM_SST_OK;
  status = FirstOfBlock(it, block + 1, false, err);
  if (status == LSM_SST_OK && wanted.prefix_bytes > 0 &&
      Compare(it->key, it->key_bytes - kKeyTrailerBytes, wanted.key,
              wanted.key_bytes)
              .common < wanted.prefix_bytes)
    it->valid = false;
  return status;
}

LsmSstStatus SeekLast(LsmSstIter* it, const uint8_t* key, size_t key_bytes,
                      LsmSstError* err) noexcept {
  uint32_t block;
  if (!SearchIndex(it->reader, key, key_bytes, &block)) {
    return FailBlock(it->reader, err, Corrupt("the index is damaged"),
                     it->reader->index_offset);
  }
  if (block >= it->reader->blocks)
    return LastOfBlock(it, it->reader->blocks - 1, false, err);
  const LsmSstStatus status = LoadBlock(it, block, false, err);
  if (status != LSM_SST_OK) return status;
  bool found, elsewhere;
  Verdict verdict = SearchBlock(it, Wanted{key, key_bytes, 1, 0, key_bytes},
                                &found, &elsewhere);
  if (!verdict.ok()) return FailHere(it, err, verdict);
  const uint32_t end = found ? it->entry : it->entries_bytes;
  if (end == 0) {
    // All keys of this block are larger.
    if (block == 0) return LSM_SST_OK;
    return LastOfBlock(it, block - 1, false, err);
  }
  verdict = StepBackTo(it, end);
  if (!verdict.ok()) return FailHere(it, err, verdict);
  return Settle(it, err);
}

// A scan forward: ask the kernel for what comes next, since the mapping was
// declared to be read at random.
void ReadAhead(LsmSstIter* it, uint32_t block) noexcept {
  if (++it->scanned_blocks < kScanBlocks) return;
  const LsmSstReader* reader = it->reader;
  // A little early, so that it arrives in time.
  if (it->block_offset + kReadaheadBytes / 2 < it->readahead_end) return;
  if (block + 1 >= reader->blocks) return;
  uint64_t begin = it->block_offset > it->readahead_end ? it->block_offset
                                                        : it->readahead_end;
  begin &= ~uint64_t{page_bytes - 1};
  uint64_t end = begin + kReadaheadBytes;
  if (end > reader->props.data_bytes) end = reader->props.data_bytes;
  if (begin >= end) return;
  madvise(const_cast<uint8_t*>(reader->map.base) + begin,
          static_cast<size_t>(end - begin), MADV_WILLNEED);
  it->readahead_end = end;
}

// The part of next() that may read the mapping.
LsmSstStatus NextSlow(LsmSstIter* it, LsmSstError* err) noexcept {
  if (it->next_entry < it->entries_bytes) {
    if (it->stepped) {
      const LsmSstStatus status = BufferBlock(it, err);
      if (status != LSM_SST_OK) return status;
    }
    it->stepped = true;
    const Verdict verdict = DecodeNext(it);
    if (!verdict.ok()) return FailHere(it, err, verdict);
    return Settle(it, err);
  }
  if (it->block + 1 >= it->reader->blocks) {
    it->valid = false;
    return LSM_SST_OK;
  }
  ReadAhead(it, it->block);
  return FirstOfBlock(it, it->block + 1, true, err);
}

LsmSstStatus Prev(LsmSstIter* it, LsmSstError* err) noexcept {
  const uint32_t entry = it->entry;
  if (entry == 0) {
    if (it->block == 0) {
      it->valid = false;
      return LSM_SST_OK;
    }
    return LastOfBlock(it, it->block - 1, true, err);
  }
  const LsmSstStatus status = BufferBlock(it, err);
  if (status != LSM_SST_OK) return status;
  const Verdict verdict = StepBackTo(it, entry);
  if (!verdict.ok()) return FailHere(it, err, verdict);
  return Settle(it, err);
}

// Runs a positioning call guarded; after a failure there is neither block nor
// entry.
template <typename Body>
inline LsmSstStatus Position(LsmSstIter* it, LsmSstError* err,
                             Body body) noexcept {
  it->valid = false;
  const LsmSstStatus status =
      Guarded(it->reader->map, it->reader->path, err, body);
  if (__builtin_expect(status != LSM_SST_OK, 0)) ForgetBlock(it);
  return status;
}

[[gnu::always_inline]] inline LsmSstStatus Next(LsmSstIter* it,
                                                LsmSstError* err) noexcept {
  if (__builtin_expect(!it->valid, 0)) {
    return Fail(err, LSM_SST_INVALID, 0,
                "iterator over sorted file \"%s\" is not at an entry",
                it->reader->path);
  }
  if (it->buffered && it->next_entry < it->entries_bytes) {
    // Private memory only: no guard.
    const Verdict verdict = DecodeNext(it);
    if (__builtin_expect(verdict.ok(), 1)) {
      it->value = it->base + it->value_offset;
      return LSM_SST_OK;
    }
    ForgetBlock(it);
    return FailHere(it, err, verdict);
  }
  return Position(it, err, [=]() noexcept { return NextSlow(it, err); });
}

void StopScan(LsmSstIter* it) noexcept {
  it->stepped = false;
  it->scanned_blocks = 0;
  it->readahead_end = 0;
}

}  // namespace

namespace lsm_sst {

bool GrowKey(LsmSstIter* it, size_t bytes) noexcept {
  size_t capacity = size_t{it->key_capacity} * 2;
  if (capacity < bytes) capacity = bytes;
  uint8_t* grown = static_cast<uint8_t*>(it->key == it->inline_key
                                             ? malloc(capacity)
                                             : realloc(it->key, capacity));
  if (grown == nullptr) return false;
  if (it->key == it->inline_key) memcpy(grown, it->key, it->key_bytes);
  it->key = grown;
  it->key_capacity = static_cast<uint32_t>(capacity);
  return true;
}

LsmSstStatus BufferCurrent(LsmSstIter* it, LsmSstError* err) noexcept {
  return Position(it, err, [=]() noexcept {
    const LsmSstStatus status = BufferBlock(it, err);
    return status == LSM_SST_OK ? Settle(it, err) : status;
  });
}

}  // namespace lsm_sst

LsmSstStatus lsm_sst_iter_open(LsmSstReader* reader, LsmSstIter** iter,
                               LsmSstError* err) {
  LsmSstIter* it = spares;
  if (it != nullptr) {
    spares = it->next_spare;
    spare_count--;
  } else {
    it = static_cast<LsmSstIter*>(malloc(sizeof(LsmSstIter)));
    *iter = nullptr;
    if (it == nullptr)
      return FailMemory(err, "reading sorted file", reader->path);
    memset(it, 0, offsetof(LsmSstIter, inline_key));
    it->key = it->inline_key;
    it->key_capacity = kInlineKeyBytes;
  }
  it->reader = reader;
  it->key_bytes = 0;
  it->next_spare = nullptr;
  ForgetBlock(it);
  StopScan(it);
  *iter = it;
  return LSM_SST_OK;
}

void lsm_sst_iter_close(LsmSstIter* it) {
  if (it == nullptr) return;
  if (it->buffer_capacity > kKeptBytes) {
    free(it->buffer);
    it->buffer = nullptr;
    it->buffer_capacity = 0;
  }
  if (it->key_capacity > kKeptBytes) {
    free(it->key);
    it->key = it->inline_key;
    it->key_capacity = kInlineKeyBytes;
  }
  if (spare_count < kMaxSpares) {
    it->reader = nullptr;
    it->next_spare = spares;
    spares = it;
    spare_count++;
    return;
  }
  if (it->key != it->inline_key) free(it->key);
  free(it->buffer);
  free(it);
}

LsmSstStatus lsm_sst_iter_seek(LsmSstIter* it, const void* key,
                               size_t key_bytes, LsmSstError* err) {
  return lsm_sst_iter_seek_prefix(it, key, key_bytes, 0, err);
}

LsmSstStatus lsm_sst_iter_seek_prefix(LsmSstIter* it, const void* key,
                                      size_t key_bytes, size_t prefix_bytes,
                                      LsmSstError* err) {
  const Wanted wanted = {static_cast<const uint8_t*>(key), key_bytes, 0,
                         prefix_bytes, key_bytes};
  StopScan(it);
  return Position(it, err, [=]() noexcept { return Seek(it, wanted, err); });
}

LsmSstStatus lsm_sst_iter_seek_last(LsmSstIter* it, const void* key,
                                    size_t key_bytes, LsmSstError* err) {
  const uint8_t* bytes = static_cast<const uint8_t*>(key);
  StopScan(it);
  return Position(
      it, err, [=]() noexcept { return SeekLast(it, bytes, key_bytes, err); });
}

LsmSstStatus lsm_sst_iter_first(LsmSstIter* it, LsmSstError* err) {
  StopScan(it);
  return Position(it, err,
                  [=]() noexcept { return FirstOfBlock(it, 0, true, err); });
}

LsmSstStatus lsm_sst_iter_last(LsmSstIter* it, LsmSstError* err) {
  StopScan(it);
  return Position(it, err, [=]() noexcept {
    return LastOfBlock(it, it->reader->blocks - 1, true, err);
  });
}

LsmSstStatus lsm_sst_iter_next(LsmSstIter* it, LsmSstError* err) {
  return Next(it, err);
}

LsmSstStatus lsm_sst_iter_step(LsmSstIter* it, LsmSstView* view,
                               LsmSstError* err) {
  const LsmSstStatus status = Next(it, err);
  if (__builtin_expect(status == LSM_SST_OK && it->valid, 1)) {
    *view = LsmSstView{it->key, it->key_bytes - kKeyTrailerBytes, it->value,
                       it->value_bytes};
  } else {
    view->key = nullptr;
  }
  return status;
}

LsmSstStatus lsm_sst_iter_prev(LsmSstIter* it, LsmSstError* err) {
  if (__builtin_expect(!it->valid, 0)) {
    return Fail(err, LSM_SST_INVALID, 0,
                "iterator over sorted file \"%s\" is not at an entry",
                it->reader->path);
  }
  StopScan(it);
  return Position(it, err, [=]() noexcept { return Prev(it, err); });
}

bool lsm_sst_iter_valid(const LsmSstIter* it) { return it->valid; }

const void* lsm_sst_iter_key(const LsmSstIter* it, size_t* key_bytes) {
  *key_bytes = it->key_bytes - kKeyTrailerBytes;
  return it->key;
}

const void* lsm_sst_iter_value(const LsmSstIter* it, size_t* value_bytes) {
  *value_bytes = it->value_bytes;
  return it->value;
}
