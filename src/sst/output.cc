// Files that are written, see output.h; filter files; fsync of directories.

#include "sst/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sst/sst.h"

void (*lsm_sst_sync_hook)(bool begins) = nullptr;

namespace lsm_sst {

namespace {

// A write is what one huge page maps, and begins where one may: Linux (ext4 from
// 6.16, XFS from 6.6) then keeps it in the page cache as one folio, which a
// process that maps the file enters by one fault and finds by one entry of the TLB.
constexpr size_t kOutputBufferBytes = 2 * 1024 * 1024;
// The kernel is asked to write back so much at a time while the file grows:
// fsync would wait for all of it.
constexpr uint64_t kWriteBackBytes = kOutputBufferBytes;

// What is there already is somebody's: it is never written over.
int OpenForWriting(const char* path, int mode) noexcept {
  int fd;
  do {
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
              static_cast<mode_t>(mode));
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// 0 or an errno.
int WriteAll(int fd, const uint8_t* data, size_t bytes) noexcept {
  while (bytes > 0) {
    const ssize_t written = write(fd, data, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    // A write of nothing is how some file systems say that they are full.
    if (written == 0) return ENOSPC;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

int SyncFd(int fd) noexcept {
  int result;
  if (lsm_sst_sync_hook != nullptr) lsm_sst_sync_hook(true);
  do {
    result = fsync(fd) == 0 ? 0 : errno;
  } while (result == EINTR);
  if (lsm_sst_sync_hook != nullptr) lsm_sst_sync_hook(false);
  return result;
}

// After EINTR the descriptor is gone on Linux.
int CloseFd(int fd) noexcept {
  return close(fd) != 0 && errno != EINTR ? errno : 0;
}

}  // namespace

bool Buffer::Grow(size_t more) noexcept {
  size_t wanted = capacity * 2;
  if (wanted < bytes + more) wanted = bytes + more;
  uint8_t* grown = static_cast<uint8_t*>(realloc(data, wanted));
  if (grown == nullptr) return false;
  data = grown;
  capacity = wanted;
  return true;
}

bool Buffer::Append(const void* from, size_t count) noexcept {
  if (!Reserve(count)) return false;
  if (count > 0) memcpy(data + bytes, from, count);
  bytes += count;
  return true;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

bool OutputFile::Failed(const char* verb, int sys_errno) noexcept {
  if (sys_errno_ == 0) {
    sys_errno_ = sys_errno;
    failed_verb_ = verb;
  }
  return false;
}

LsmSstStatus OutputFile::Fail(const char* kind, const char* path,
                              LsmSstError* err) const noexcept {
  return FailErrno(err, sys_errno_, failed_verb_, kind, path);
}

bool OutputFile::Open(const char* path, int mode) noexcept {
  if (!buffer_.Reserve(kOutputBufferBytes)) return Failed("create", ENOMEM);
  fd_ = OpenForWriting(path, mode);
  if (fd_ < 0) return Failed("create", errno);
  created_ = true;
  return true;
}

bool OutputFile::WriteBuffer() noexcept {
  const int sys_errno = WriteAll(fd_, buffer_.data, buffer_.bytes);
  if (sys_errno != 0) return Failed("write", sys_errno);
  written_ += buffer_.bytes;
  buffer_.bytes = 0;
  WriteBack();
  return true;
}

// Waits for nothing; what goes wrong is fsync's to report.
void OutputFile::WriteBack() noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
  if (written_ - written_back_ < kWriteBackBytes) return;
  (void)!sync_file_range(fd_, static_cast<off64_t>(written_back_),
                         static_cast<off64_t>(written_ - written_back_),
                         SYNC_FILE_RANGE_WRITE);
  written_back_ = written_;
#endif
}

bool OutputFile::Append(const void* from, size_t count) noexcept {
  if (sys_errno_ != 0) return false;
  const uint8_t* data = static_cast<const uint8_t*>(from);
  if (count > buffer_.capacity - buffer_.bytes) {
    // Fill the buffer, so that writes are of whole pages.
    const size_t head = buffer_.capacity - buffer_.bytes;
    memcpy(buffer_.data + buffer_.bytes, data, head);
    buffer_.bytes += head;
    data += head;
    count -= head;
    if (!WriteBuffer()) return false;
    const size_t direct = count - count % buffer_.capacity;
    if (direct > 0) {
      const int sys_errno = WriteAll(fd_, data, direct);
      if (sys_errno != 0) return Failed("write", sys_errno);
      written_ += direct;
      data += direct;
      count -= direct;
    }
  }
  if (count > 0) memcpy(buffer_.data + buffer_.bytes, data, count);
  buffer_.bytes += count;
  return true;
}

bool OutputFile::Finish() noexcept {
  if (sys_errno_ != 0 || !WriteBuffer()) return false;
  int sys_errno = SyncFd(fd_);
  if (sys_errno != 0) return Failed("fsync", sys_errno);
  sys_errno = CloseFd(fd_);
  fd_ = -1;
  return sys_errno == 0 || Failed("close", sys_errno);
}

}  // namespace lsm_sst

using namespace lsm_sst;

LsmSstStatus lsm_sst_write_blob(const char* path, int mode, const void* data,
                                size_t bytes, LsmSstError* err) {
  const int fd = OpenForWriting(path, mode);
  if (fd < 0) return FailErrno(err, errno, "create", "filter file", path);
  const char* verb = "write";
  int sys_errno = WriteAll(fd, static_cast<const uint8_t*>(data), bytes);
  if (sys_errno == 0) {
    verb = "fsync";
    sys_errno = SyncFd(fd);
  }
  const int close_errno = CloseFd(fd);
  if (close_errno != 0 && sys_errno == 0) {
    verb = "close";
    sys_errno = close_errno;
  }
  if (sys_errno == 0) return LSM_SST_OK;
  unlink(path);
  return FailErrno(err, sys_errno, verb, "filter file", path);
}
