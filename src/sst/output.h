// A file that is being written: sorted files through a buffer, filter files in
// one piece.  Knows nothing of what it writes.

#ifndef LSM_SST_OUTPUT_H
#define LSM_SST_OUTPUT_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sst/error.h"

namespace lsm_sst {

// Bytes that grow at their end.
struct Buffer {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  size_t capacity = 0;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { free(data); }

  // Room for this many bytes more; false: no memory.
  bool Reserve(size_t more) noexcept {
    return __builtin_expect(more <= capacity - bytes, 1) || Grow(more);
  }
  bool Append(const void* from, size_t count) noexcept;

 private:
  bool Grow(size_t more) noexcept;
};

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Each returns false if it failed; then Fail() says why.

  // Creates the file with these permissions.  Fails with EEXIST if there is one.
  bool Open(const char* path, int mode) noexcept;
  bool Append(const void* from, size_t count) noexcept;
  // Writes what is buffered, fsyncs and closes.
  bool Finish() noexcept;

  // Bytes appended so far.
  uint64_t bytes() const noexcept { return written_ + buffer_.bytes; }
  // By us: may be removed.
  bool created() const noexcept { return created_; }
  LsmSstStatus Fail(const char* kind, const char* path,
                    LsmSstError* err) const noexcept;

 private:
  bool Failed(const char* verb, int sys_errno) noexcept;
  bool WriteBuffer() noexcept;
  void WriteBack() noexcept;

  int fd_ = -1;
  bool created_ = false;
  Buffer buffer_;
  uint64_t written_ = 0;
  uint64_t written_back_ = 0;
  int sys_errno_ = 0;  // of the call that failed; 0: none did
  const char* failed_verb_ = "write";
};

}  // namespace lsm_sst

#endif  // LSM_SST_OUTPUT_H
