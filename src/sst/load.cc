// Data blocks become an iterator's: found, verified, decompressed.

#include <sys/mman.h>
#include <sys/resource.h>

#include <climits>
#include <cstring>

#include "sst/iter.h"

namespace lsm_sst {

namespace {

// Shorter blocks are decompressed as a whole.
constexpr size_t kPartBytes = 512;

// Of this many blocks in a row, if this many page faults waited for storage, data
// is larger than memory.  A look at the count costs as much as a short lookup.
constexpr uint32_t kBlocksPerLook = 256;
constexpr long kManyFaults = 32;

uint32_t blocks_found;
long faults_before;
bool beyond_memory;

// A block on two pages would be waited for twice: ask for both.  Where pages
// are in memory the call would be most of a lookup.
void FetchPages(const LsmSstIter* it) noexcept {
  if (++blocks_found % kBlocksPerLook == 0) {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    beyond_memory = usage.ru_majflt - faults_before >= kManyFaults;
    faults_before = usage.ru_majflt;
  }
  if (__builtin_expect(!beyond_memory, 1)) return;
  if (it->block_end <= it->readahead_end) return;
  const uint64_t begin = it->block_offset & ~uint64_t{page_bytes - 1};
  if (it->block_end - begin <= page_bytes) return;
  madvise(const_cast<uint8_t*>(it->reader->map.base) + begin,
          static_cast<size_t>(it->block_end - begin), MADV_WILLNEED);
}

// The shape of the decompressed block; it is the current one then.
LsmSstStatus TakeShape(LsmSstIter* it, uint32_t block,
                       LsmSstError* err) noexcept {
  BlockShape shape;
  const Verdict verdict = ParseBlock(it->base, it->contents_bytes, &shape);
  if (!verdict.ok()) {
    it->buffered = false;
    return FailHere(it, err, verdict);
  }
  it->entries_bytes = shape.entries_bytes;
  it->restarts = shape.restarts;
  it->block = block;
  return LSM_SST_OK;
}

// Counts the block and its pages, but for the one that it shares with the
// neighbour that was read before.
void CountBlock(LsmSstIter* it, uint32_t block) noexcept {
  const uint64_t first = it->block_offset / LSM_SST_PAGE_BYTES;
  const uint64_t last = (it->block_end - 1) / LSM_SST_PAGE_BYTES;
  const bool backward = block + 1 == it->counted_block;
  const bool neighbour = backward || block == it->counted_block + 1;
  const uint64_t shared = backward ? last : first;
  it->reader->blocks_read++;
  it->reader->pages_read +=
      last - first + (neighbour && shared == it->counted_page ? 0 : 1);
  it->counted_block = block;
  it->counted_page = backward ? first : last;
}

// Where data block `block` lies; its checksum is right.  There is no current
// block.  REQUIRES: inside Guarded().
LsmSstStatus FindBlock(LsmSstIter* it, uint32_t block, BlockHandle* handle,
                       LsmSstError* err) noexcept {
  LsmSstReader* reader = it->reader;
  ForgetBlock(it);
  const Verdict verdict = IndexHandle(reader, block, handle);
  if (!verdict.ok())
    return FailBlock(reader, err, verdict, reader->index_offset);
  it->block_offset = handle->offset;
  it->block_end = handle->offset + handle->bytes + kBlockTrailerBytes;
  CountBlock(it, block);
  FetchPages(it);

  const uint8_t* contents = reader->map.base + handle->offset;
  // Its end tells how to read it: restarts, type.  Its beginning is needed if
  // it is compressed.
  __builtin_prefetch(contents + handle->bytes);
  __builtin_prefetch(contents + handle->bytes - 64);
  if (!reader->plain) __builtin_prefetch(contents);
  reader->plain = contents[handle->bytes] == kTypePlain;
  uint64_t* verified = &reader->verified[block / 64];
  const uint64_t bit = uint64_t{1} << (block % 64);
  if ((*verified & bit) == 0) {
    if (!BlockChecksumMatches(reader->map.base, *handle))
      return FailHere(it, err, Corrupt("checksum mismatch"));
    *verified |= bit;
  }
  return LSM_SST_OK;
}

// The block's contents, and it becomes the current one.
// REQUIRES: inside Guarded(), FindBlock().
LsmSstStatus ReadBlock(LsmSstIter* it, uint32_t block,
                       const BlockHandle& handle, bool copy,
                       LsmSstError* err) noexcept {
  const LsmSstReader* reader = it->reader;
  const uint8_t* contents = reader->map.base + handle.offset;
  const uint8_t type = contents[handle.bytes];
  if (type != kTypePlain) {
    const uint8_t* payload;
    size_t raw_bytes;
    Verdict verdict =
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
  return TakeShape(it, block, err);
}

}  // namespace

bool ReserveBuffer(LsmSstIter* it, size_t bytes) noexcept {
  if (bytes <= it->buffer_capacity) return true;
  size_t capacity = 8192;
  while (capacity < bytes) capacity *= 2;
  free(it->buffer);
  it->buffer = static_cast<uint8_t*>(malloc(capacity));
  it->buffer_capacity = it->buffer == nullptr ? 0 : capacity;
  return it->buffer != nullptr;
}

LsmSstStatus FinishBlock(LsmSstIter* it, LsmSstError* err) noexcept {
  const uint32_t block = it->block;
  it->part = false;
  if (!Lz4DecodeTo(&it->packed, it->packed.raw_bytes)) {
    ForgetBlock(it);
    return FailHere(it, err, Corrupt("a block could not be decompressed"));
  }
  it->contents_bytes = it->packed.raw_bytes;
  return TakeShape(it, block, err);
}

LsmSstStatus LoadBlock(LsmSstIter* it, uint32_t block, bool copy,
                       LsmSstError* err) noexcept {
  it->valid = false;
  if (it->block == block) {
    if (it->part) return FinishBlock(it, err);
    if (it->buffered || !copy) return LSM_SST_OK;
  }
  BlockHandle handle;
  const LsmSstStatus status = FindBlock(it, block, &handle, err);
  if (status != LSM_SST_OK) return status;
  return ReadBlock(it, block, handle, copy, err);
}

LsmSstStatus LoadPart(LsmSstIter* it, uint32_t block,
                      LsmSstError* err) noexcept {
  const LsmSstReader* reader = it->reader;
  if (it->block == block) return LoadBlock(it, block, false, err);
  it->valid = false;
  BlockHandle handle;
  const LsmSstStatus status = FindBlock(it, block, &handle, err);
  if (status != LSM_SST_OK) return status;

  const uint8_t* contents = reader->map.base + handle.offset;
  const uint8_t* payload;
  size_t raw_bytes;
  if (contents[handle.bytes] != kTypeLz4 ||
      !CompressedBlockSize(kTypeLz4, contents, handle.bytes, &payload,
                           &raw_bytes)
           .ok() ||
      raw_bytes < kPartBytes || raw_bytes > kKeptBytes ||
      contents + handle.bytes - payload > INT_MAX)
    return ReadBlock(it, block, handle, false, err);
  if (!ReserveBuffer(it, raw_bytes))
    return FailMemory(err, "reading sorted file", reader->path);
  it->packed =
      Lz4Part{payload, static_cast<size_t>(contents + handle.bytes - payload),
              it->buffer, raw_bytes, 0};
  it->base = it->buffer;
  it->buffered = it->part = true;
  it->entries_bytes = it->restarts = 0;
  it->block = block;
  return LSM_SST_OK;
}

}  // namespace lsm_sst
