// Writing sorted files: the door's side of it, see build.h for what is in them.
//
// A file is written front to back through a buffer; nothing is read but what is
// read back at the end, through our own reader.

#include <unistd.h>

#include <cerrno>
#include <new>

#include "sst/build.h"
#include "sst/sst.h"

using namespace lsm_sst;

namespace {

// What the caller may put into one entry; far above what the tree allows, far
// below where 32-bit block sizes end.
constexpr size_t kMaxKeyBytes = size_t{64} << 20;
constexpr size_t kMaxValueBytes = size_t{1} << 30;
// Of the index, whose restarts have 32 bits.
constexpr size_t kMaxIndexBytes = size_t{1} << 31;

}  // namespace

struct LsmSstWriter {
  char* path;
  LsmSstStatus failed;  // of the first failure; the file cannot go on
  OutputFile file;
  DataBlock block;
  IndexBlock index;
  Compressor compressor;
  TableFacts facts;
};

namespace {

LsmSstStatus FailOutput(LsmSstWriter* writer, LsmSstError* err) noexcept {
  return writer->failed = writer->file.Fail("sorted file", writer->path, err);
}

LsmSstStatus FailWriterMemory(LsmSstWriter* writer, LsmSstError* err) noexcept {
  return writer->failed = FailMemory(err, "writing sorted file", writer->path);
}

// A writer that failed stays failed, for the reason it failed for.
LsmSstStatus FailAgain(LsmSstWriter* writer, LsmSstError* err) noexcept {
  if (writer->failed == LSM_SST_NO_MEMORY) return FailWriterMemory(writer, err);
  return FailOutput(writer, err);
}

LsmSstStatus WriteBlock(LsmSstWriter* writer, const uint8_t* contents,
                        size_t bytes, uint8_t type, BlockHandle* handle,
                        LsmSstError* err) noexcept {
  *handle = BlockHandle{writer->file.bytes(), bytes};
  uint8_t trailer[kBlockTrailerBytes];
  trailer[0] = type;
  StoreFixed32(trailer + 1, BlockChecksum(contents, bytes, type));
  if (!writer->file.Append(contents, bytes) ||
      !writer->file.Append(trailer, sizeof(trailer)))
    return FailOutput(writer, err);
  return LSM_SST_OK;
}

// The data block is full.  `next`: the key behind it, null if none.
LsmSstStatus FlushBlock(LsmSstWriter* writer, const uint8_t* next,
                        size_t next_bytes, LsmSstError* err) noexcept {
  DataBlock* block = &writer->block;
  Compressor::Result result;
  if (!block->Finish() ||
      !writer->compressor.Compress(block->contents(), block->contents_bytes(),
                                   &result))
    return FailWriterMemory(writer, err);
  BlockHandle handle;
  const LsmSstStatus status = WriteBlock(writer, result.contents, result.bytes,
                                         result.type, &handle, err);
  if (status != LSM_SST_OK) return status;
  block->Clear();
  if (!writer->index.Add(block->last_key(), block->last_key_bytes(), next,
                         next_bytes, handle) ||
      writer->index.contents_bytes() > kMaxIndexBytes)
    return FailWriterMemory(writer, err);
  return LSM_SST_OK;
}

// Index, properties, metaindex, footer.
LsmSstStatus WriteTail(LsmSstWriter* writer, const char* session_id,
                       LsmSstError* err) noexcept {
  TableFacts* facts = &writer->facts;
  Footer footer;
  BlockHandle properties;
  Buffer built;
  facts->data_bytes = writer->file.bytes();
  facts->data_blocks = writer->index.blocks();
  if (!writer->index.Finish()) return FailWriterMemory(writer, err);
  LsmSstStatus status = WriteBlock(writer, writer->index.contents(),
                                   writer->index.contents_bytes(), kTypePlain,
                                   &footer.index, err);
  if (status != LSM_SST_OK) return status;
  facts->index_bytes = footer.index.bytes + kBlockTrailerBytes;

  if (!BuildProperties(*facts, session_id, &built))
    return FailWriterMemory(writer, err);
  status =
      WriteBlock(writer, built.data, built.bytes, kTypePlain, &properties, err);
  if (status != LSM_SST_OK) return status;
  built.bytes = 0;
  if (!BuildMetaindex(properties, &built)) return FailWriterMemory(writer, err);
  status = WriteBlock(writer, built.data, built.bytes, kTypePlain,
                      &footer.metaindex, err);
  if (status != LSM_SST_OK) return status;

  uint8_t bytes[kFooterBytes];
  BuildFooter(footer, bytes);
  if (!writer->file.Append(bytes, sizeof(bytes)))
    return FailOutput(writer, err);
  return LSM_SST_OK;
}

// Reads the properties back through our own reader, which also proves that
// the tail of the file is what it should be.
LsmSstStatus ReadBack(const LsmSstWriter* writer, LsmSstProperties* props,
                      LsmSstError* err) noexcept {
  LsmSstReader* reader;
  const char* path = writer->path;
  LsmSstStatus status = lsm_sst_open(path, &reader, err);
  if (status != LSM_SST_OK) return status;
  const LsmSstProperties found = *lsm_sst_properties(reader);
  lsm_sst_close(reader);
  if (found.entries != writer->facts.entries) {
    return Fail(err, LSM_SST_CORRUPT, 0,
                "sorted file \"%s\" is corrupt: it holds %llu entries, %llu "
                "were written",
                path, static_cast<unsigned long long>(found.entries),
                static_cast<unsigned long long>(writer->facts.entries));
  }
  if (props != nullptr) *props = found;
  return LSM_SST_OK;
}

// Writes what is missing and makes the file durable.
LsmSstStatus FinishFile(LsmSstWriter* writer, LsmSstProperties* props,
                        LsmSstError* err) noexcept {
  if (writer->failed != LSM_SST_OK) return FailAgain(writer, err);
  if (writer->facts.entries == 0) {
    return Fail(err, LSM_SST_INVALID, 0,
                "could not finish sorted file \"%s\": it has no entries",
                writer->path);
  }
  char session_id[kSessionIdBytes];
  if (!DrawSessionId(session_id)) {
    return FailErrno(err, errno, "draw an identifier for", "sorted file",
                     writer->path);
  }
  LsmSstStatus status = FlushBlock(writer, nullptr, 0, err);
  if (status == LSM_SST_OK) status = WriteTail(writer, session_id, err);
  if (status != LSM_SST_OK) return status;
  if (!writer->file.Finish()) return FailOutput(writer, err);
  return ReadBack(writer, props, err);
}

// Frees the writer, keeping the file or not.
void DestroyWriter(LsmSstWriter* writer, bool keep_file) noexcept {
  char* path = writer->path;
  const bool remove_file = writer->file.created() && !keep_file;
  // Lets go of the file before it is removed.
  delete writer;
  if (remove_file) unlink(path);
  free(path);
}

}  // namespace

LsmSstStatus lsm_sst_writer_open(const char* path, int mode,
                                 LsmCompression compression,
                                 LsmSstWriter** writer_out, LsmSstError* err) {
  *writer_out = nullptr;
  if (compression != LSM_COMPRESSION_NONE &&
      compression != LSM_COMPRESSION_LZ4 &&
      compression != LSM_COMPRESSION_ZSTD) {
    return Fail(err, LSM_SST_INVALID, 0,
                "invalid compression %d for sorted file \"%s\"",
                static_cast<int>(compression), path);
  }
  LsmSstWriter* writer = new (std::nothrow) LsmSstWriter();
  if (writer == nullptr) return FailMemory(err, "writing sorted file", path);
  writer->path = strdup(path);
  writer->facts.compression = compression;
  LsmSstStatus status = LSM_SST_OK;
  if (writer->path == nullptr ||
      !writer->block.Start(BlockBytes(compression)) ||
      !writer->compressor.Start(compression))
    status = FailMemory(err, "writing sorted file", path);
  else if (!writer->file.Open(path, mode))
    status = FailOutput(writer, err);
  if (status != LSM_SST_OK) {
    DestroyWriter(writer, false);
    return status;
  }
  *writer_out = writer;
  return LSM_SST_OK;
}

LsmSstStatus lsm_sst_writer_add(LsmSstWriter* writer, const void* key_data,
                                size_t key_bytes, const void* value,
                                size_t value_bytes, size_t* common_bytes,
                                LsmSstError* err) {
  const uint8_t* key = static_cast<const uint8_t*>(key_data);
  DataBlock* block = &writer->block;
  if (__builtin_expect(writer->failed != LSM_SST_OK, 0))
    return FailAgain(writer, err);
  if (__builtin_expect(key_bytes > kMaxKeyBytes || value_bytes > kMaxValueBytes,
                       0)) {
    return Fail(err, LSM_SST_INVALID, 0,
                "could not add to sorted file \"%s\": an entry with a key "
                "of %zu bytes and a value of %zu bytes is too large",
                writer->path, key_bytes, value_bytes);
  }
  size_t common = 0;
  if (__builtin_expect(writer->facts.entries > 0, 1)) {
    const Likeness likeness =
        Compare(block->last_key(), block->last_key_bytes(), key, key_bytes);
    if (__builtin_expect(likeness.order >= 0, 0)) {
      // Nothing was added, the file is as good as before.
      return Fail(err, LSM_SST_INVALID, 0,
                  "could not add to sorted file \"%s\": keys are out of order",
                  writer->path);
    }
    common = likeness.common;
    if (block->Full(key_bytes, value_bytes)) {
      const LsmSstStatus status = FlushBlock(writer, key, key_bytes, err);
      if (status != LSM_SST_OK) return status;
    }
  }
  if (__builtin_expect(
          !block->Add(key, key_bytes, common,
                      static_cast<const uint8_t*>(value), value_bytes),
          0))
    return FailWriterMemory(writer, err);
  if (common_bytes != nullptr) *common_bytes = common;
  writer->facts.entries++;
  writer->facts.raw_key_bytes += key_bytes;
  writer->facts.raw_value_bytes += value_bytes;
  return LSM_SST_OK;
}

const void* lsm_sst_writer_last_key(const LsmSstWriter* writer,
                                    size_t* key_bytes) {
  *key_bytes = writer->block.last_key_bytes();
  return writer->block.last_key();
}

uint64_t lsm_sst_writer_bytes(const LsmSstWriter* writer) {
  return writer->file.bytes();
}

LsmSstStatus lsm_sst_writer_finish(LsmSstWriter* writer,
                                   LsmSstProperties* props, LsmSstError* err) {
  const LsmSstStatus status = FinishFile(writer, props, err);
  DestroyWriter(writer, status == LSM_SST_OK);
  return status;
}

void lsm_sst_writer_abandon(LsmSstWriter* writer) {
  if (writer != nullptr) DestroyWriter(writer, false);
}
