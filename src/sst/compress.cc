// Compression of data blocks, see build.h.

#include <lz4.h>
#include <zstd.h>

#include "sst/build.h"

namespace lsm_sst {

namespace {

constexpr int kZstdLevel = 3;
constexpr int kLz4Acceleration = 1;
// A block is compressed if that saves such a share of it.  What LZ4 makes little
// smaller has many short matches, and takes longest to decompress: a quarter of
// a lookup's time for less than a quarter of the bytes is a bad bargain.  zstd
// is for those who want small files; RocksDB's share is an eighth, too.
constexpr size_t kLz4SavedShare = 4;
constexpr size_t kZstdSavedShare = 8;

}  // namespace

Compressor::~Compressor() {
  if (compression_ == LSM_COMPRESSION_LZ4)
    free(context_);
  else if (compression_ == LSM_COMPRESSION_ZSTD)
    ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(context_));
}

bool Compressor::Start(LsmCompression compression) noexcept {
  compression_ = compression;
  switch (compression) {
    case LSM_COMPRESSION_LZ4:
      context_ = malloc(static_cast<size_t>(LZ4_sizeofState()));
      break;
    case LSM_COMPRESSION_ZSTD:
      context_ = ZSTD_createCCtx();
      break;
    case LSM_COMPRESSION_NONE:
      return true;
  }
  return context_ != nullptr;
}

bool Compressor::Compress(const uint8_t* contents, size_t bytes,
                          Result* result) noexcept {
  *result = Result{contents, bytes, kTypePlain};
  // RocksDB, too, leaves larger ones as they are.
  if (compression_ == LSM_COMPRESSION_NONE || bytes > LZ4_MAX_INPUT_SIZE)
    return true;
  const bool lz4 = compression_ == LSM_COMPRESSION_LZ4;
  const size_t bound =
      lz4 ? static_cast<size_t>(LZ4_compressBound(static_cast<int>(bytes)))
          : ZSTD_compressBound(bytes);
  out_.bytes = 0;
  if (!out_.Reserve(kMaxVarintBytes + bound)) return false;
  uint8_t* p = StoreVarint(out_.data, bytes);
  size_t compressed;
  if (lz4) {
    // Half of the time of what RocksDB calls, LZ4_compress_fast_continue(): its
    // table is made for blocks of less than 64 kB.
    compressed = static_cast<size_t>(LZ4_compress_fast_extState(
        context_, reinterpret_cast<const char*>(contents),
        reinterpret_cast<char*>(p), static_cast<int>(bytes),
        static_cast<int>(bound), kLz4Acceleration));
    if (compressed == 0) return true;
  } else {
    compressed = ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(context_), p, bound,
                                   contents, bytes, kZstdLevel);
    if (ZSTD_isError(compressed)) return true;
  }
  compressed += static_cast<size_t>(p - out_.data);
  if (compressed < bytes - bytes / (lz4 ? kLz4SavedShare : kZstdSavedShare))
    *result = Result{out_.data, compressed, lz4 ? kTypeLz4 : kTypeZstd};
  return true;
}

}  // namespace lsm_sst
