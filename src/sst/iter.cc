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
// A seek for an entry that begins with the whole key wants one entry, and does
// not know where the restarts are, since they are at the block's end: it
// decompresses an LZ4 block from its beginning as far as that entry probably
// is, and looks at one entry after the other.  Whatever comes then, but for a
// seek elsewhere, begins with decompressing the rest.
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

constexpr int kMaxSpares = 32;
// Of a restart's entries, this many cache lines are fetched before they are
// looked at.
constexpr uint32_t kFetches = 16;
// Behind where an entry probably ends: this part of the block.
constexpr size_t kGuessSlackShare = 16;
// Stepping through this many blocks in a row is taken for a scan, which then
// asks for this many bytes ahead, twice as many each time up to the most.  The
// kernel looks at each of the pages, there or not: the most would cost a short
// range scan of blocks in the page cache more than the blocks themselves.
constexpr uint32_t kScanBlocks = 16;
constexpr uint32_t kLeastReadaheadBytes = 32 * 1024;
constexpr uint32_t kMostReadaheadBytes = 512 * 1024;
// After this many, the next block is fetched from memory, too.
constexpr uint32_t kFetchBlocks = 2;
constexpr uint64_t kMaxFetchBytes = 4096 + 64;
constexpr uint64_t kLineBytes = 64;

// Iterators that were closed, for the next to be opened: a point lookup then
// allocates nothing.
LsmSstIter* spares;
int spare_count;

inline Verdict GoToRestart(LsmSstIter* it, uint32_t i) noexcept {
  const uint32_t offset = RestartOffset(it, i);
  if (offset >= it->entries_bytes) return Corrupt("a restart is damaged");
  it->next_entry = offset;
  it->key_bytes = 0;
  return kFine;
}

// Copies the current block out of the mapping; the current entry stays.
// REQUIRES: inside Guarded(), a current block.
LsmSstStatus BufferBlock(LsmSstIter* it, LsmSstError* err) noexcept {
  if (it->part) return FinishBlock(it, err);
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
  const uint32_t low = RestartBefore(it, offset);
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

enum class Scan {
  kFound,      // the answer is the current entry
  kNone,       // next_entry is the end
  kElsewhere,  // there is an answer, which does not begin with the prefix
  kUnusual     // an entry is damaged, or not as our writer makes them
};

// The answer of DecodeNext() and comparing, entry by entry from next_entry,
// which is a restart.  But keys are not put together: how many bytes an entry
// shares with the one before tells mostly where it stands, since it is known
// how many of these the wanted key has, too.
// Looks at entries that end within the first `scanned_bytes` of the block; if
// it is not whole, kNone means that the next one does not.
[[gnu::always_inline]] inline Scan ScanEntries(LsmSstIter* it,
                                               const Wanted& wanted,
                                               size_t scanned_bytes) noexcept {
  const uint8_t* limit = it->base + scanned_bytes;
  uint32_t at = it->next_entry;
  size_t before_bytes = 0;  // of the entry before, which is no answer
  size_t matched = 0;       // bytes that it has in common with the wanted key
  bool differs = true;      // they are followed by different ones
  while (at < scanned_bytes) {
    uint32_t shared, non_shared, value_bytes;
    const uint8_t* p =
        GetEntry(it->base + at, limit, &shared, &non_shared, &value_bytes);
    if (p == nullptr && it->part) break;
    if (__builtin_expect(p == nullptr || shared > before_bytes ||
                             non_shared < kKeyTrailerBytes,
                         0))
      return Scan::kUnusual;
    const size_t own_bytes = non_shared - kKeyTrailerBytes;
    const uint32_t value_offset =
        static_cast<uint32_t>(p - it->base) + non_shared;
    const size_t key_bytes = size_t{shared} + non_shared;
    Likeness likeness{shared, 1};
    if (shared > matched) {
      // As different as the one before, at the same place.
      if (!differs) return Scan::kUnusual;
      before_bytes = key_bytes;
      at = value_offset + value_bytes;
      continue;
    } else if (shared == matched && own_bytes > 0 &&
               shared < wanted.key_bytes && p[0] < wanted.key[shared]) {
      // The most frequent case of the next one.
      differs = true;
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
      memcpy(it->key, wanted.key, shared);
      memcpy(it->key + shared, p, non_shared);
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

// Where the wanted entry ends, if keys are evenly spread over their block; the
// block's end if nothing is known.
inline size_t GuessEnd(const LsmSstIter* it, const Wanted& asked) noexcept {
  const LsmSstReader* reader = it->reader;
  const size_t bytes = it->packed.raw_bytes;
  if (reader->hot == nullptr || it->block == 0 ||
      asked.key_bytes < reader->prefix_bytes)
    return bytes;
  const LsmSstHotBlock* hot = reader->hot + it->block;
  const uint32_t wanted = PrefixInteger(asked.key + reader->prefix_bytes,
                                        asked.key_bytes - reader->prefix_bytes);
  if (wanted <= hot[-1].sample || wanted > hot[0].sample) return bytes;
  return static_cast<size_t>(uint64_t{bytes} * (wanted - hot[-1].sample) /
                             (hot[0].sample - hot[-1].sample)) +
         bytes / kGuessSlackShare;
}

// Looks for the entry that begins with the wanted key in the part of the block
// that probably has it; *found tells whether it is there.  False: not to be
// told this way.
bool SearchPart(LsmSstIter* it, const Wanted& asked, bool* found) noexcept {
  Lz4Part* packed = &it->packed;
  // No restart array is longer than what is left of the block then: entries
  // have at least 11 bytes, restarts 4, and there are no more than entries.
  const size_t most = packed->raw_bytes - packed->raw_bytes / 15 * 4 - 12;
  const size_t end = GuessEnd(it, asked);
  if (end > most || !Lz4DecodeTo(packed, end)) return false;
  Padded padded;
  it->next_entry = 0;
  const Scan scan = ScanEntries(it, Pad(asked, padded),
                                packed->bytes < most ? packed->bytes : most);
  *found = scan == Scan::kFound;
  return *found || scan == Scan::kElsewhere;
}

// Finds the first entry of the current block that is wanted; *found tells
// whether there is one.  If not, next_entry is the end, or *elsewhere is set.
// REQUIRES: the block is whole.
Verdict SearchBlock(LsmSstIter* it, const Wanted& asked, bool* found,
                    bool* elsewhere) noexcept {
  *found = *elsewhere = false;
  Padded padded;
  const Wanted wanted = Pad(asked, padded);

  // Last restart whose key is before the answer.
  const uint8_t* limit = it->base + it->entries_bytes;
  uint32_t low = 0;
  uint32_t high = it->restarts - 1;
  if (high > 0 && high < 64) {
    // All of them at once: waiting for one after the other costs more.
    for (uint32_t i = 0; i <= high; i++) {
      const uint8_t* entry = it->base + RestartOffset(it, i);
      __builtin_prefetch(entry);
      // Most keys end within these bytes.
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
  switch (ScanEntries(it, wanted, it->entries_bytes)) {
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
  bool found, elsewhere;
  const bool one =
      wanted.prefix_bytes == wanted.key_bytes && wanted.prefix_bytes > 0;
  LsmSstStatus status =
      one ? LoadPart(it, block, err) : LoadBlock(it, block, false, err);
  if (status != LSM_SST_OK) return status;
  if (it->part) {
    if (SearchPart(it, wanted, &found))
      return found ? Settle(it, err) : LSM_SST_OK;
    status = FinishBlock(it, err);
    if (status != LSM_SST_OK) return status;
  }
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
  if (it->block_offset + it->readahead_bytes / 2 < it->readahead_end) return;
  if (block + 1 >= reader->blocks) return;
  uint64_t begin = it->block_offset > it->readahead_end ? it->block_offset
                                                        : it->readahead_end;
  begin &= ~uint64_t{page_bytes - 1};
  if (it->readahead_bytes < kMostReadaheadBytes)
    it->readahead_bytes = it->readahead_bytes == 0 ? kLeastReadaheadBytes
                                                   : it->readahead_bytes * 2;
  uint64_t end = begin + it->readahead_bytes;
  if (end > reader->props.data_bytes) end = reader->props.data_bytes;
  if (begin >= end) return;
  madvise(const_cast<uint8_t*>(reader->map.base) + begin,
          static_cast<size_t>(end - begin), MADV_WILLNEED);
  it->readahead_end = end;
}

// A scan forward, too: the next block is on its way while this one's entries
// are taken.  It is about as long as this one.  (GCC takes a call for nothing
// that only prefetches, and leaves it out: it has to be inlined before.)
[[gnu::always_inline]] inline void FetchNextBlock(
    const LsmSstIter* it) noexcept {
  if (it->scanned_blocks < kFetchBlocks) return;
  const uint8_t* base = it->reader->map.base;
  uint64_t bytes = it->block_end - it->block_offset;
  if (bytes > kMaxFetchBytes) bytes = kMaxFetchBytes;
  const uint64_t end = it->block_end + bytes;
  if (end > it->reader->map.bytes) return;
  for (uint64_t at = it->block_end; at < end; at += kLineBytes)
    __builtin_prefetch(base + at);
}

// The part of next() that may read the mapping.
LsmSstStatus NextSlow(LsmSstIter* it, LsmSstError* err) noexcept {
  if (it->part) {
    const LsmSstStatus status = FinishBlock(it, err);
    if (status != LSM_SST_OK) return status;
  }
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
  const LsmSstStatus status = FirstOfBlock(it, it->block + 1, true, err);
  if (status == LSM_SST_OK) FetchNextBlock(it);
  return status;
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
  it->readahead_bytes = 0;
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
  it->counted_block = kNoBlock;
  it->counted_page = UINT64_MAX;
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
  // Keys are unique, so the entry of this very key is the answer.  It is there
  // already where a row is read, locked, and read again to be changed.
  if (it->valid && it->key_bytes == key_bytes + kKeyTrailerBytes &&
      memcmp(it->key, key, key_bytes) == 0)
    return LSM_SST_OK;
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
