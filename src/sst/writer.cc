// Writing sorted files through rocksdb::SstFileWriter, and filter files.
//
// RocksDB writes through a file system of ours: that gives the file mode 0600,
// keeps the errno of the call that failed (RocksDB's statuses lose it), and
// lets finish() see that the file really was synced.  RocksDB is built with
// exceptions; everything it may throw ends here.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sst/error.h"
#include "sst/rocksdb_compat.h"
#include "sst/sst.h"

namespace lsm_sst {

namespace {

// What the caller may put into one entry; far above what the tree allows, far
// below where RocksDB's 32-bit block sizes end.
constexpr size_t kMaxKeyBytes = size_t{64} << 20;
constexpr size_t kMaxValueBytes = size_t{1} << 30;

int OpenForWriting(const char* path) noexcept {
  int fd;
  do {
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// 0 or an errno.
int WriteAll(int fd, const char* data, size_t bytes) noexcept {
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
  while (fsync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// What went on in the file, outlives RocksDB's file object.
struct FileState {
  int first_errno = 0;  // of the first call that failed
  const char* failed_verb = "write";
  bool synced = false;  // nothing was written since the last fsync
  bool closed = false;
  bool created = false;  // by us: may be removed

  rocksdb::IOStatus Failed(const char* verb, int sys_errno) {
    if (first_errno == 0) {
      first_errno = sys_errno;
      failed_verb = verb;
    }
    return sys_errno == ENOSPC || sys_errno == EDQUOT
               ? rocksdb::IOStatus::NoSpace(verb)
               : rocksdb::IOStatus::IOError(verb);
  }
};

class OutputFile : public rocksdb::FSWritableFile {
 public:
  OutputFile(int fd, FileState* state) : fd_(fd), state_(state) {}
  ~OutputFile() override {
    if (fd_ >= 0) close(fd_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  rocksdb::IOStatus Append(const rocksdb::Slice& data,
                           const rocksdb::IOOptions& /*options*/,
                           rocksdb::IODebugContext* /*dbg*/) override {
    state_->synced = false;
    const int sys_errno = WriteAll(fd_, data.data(), data.size());
    if (sys_errno != 0) return state_->Failed("write", sys_errno);
    file_bytes_ += data.size();
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data,
                           const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& /*info*/,
                           rocksdb::IODebugContext* dbg) override {
    return Append(data, options, dbg);
  }
  rocksdb::IOStatus Flush(const rocksdb::IOOptions& /*options*/,
                          rocksdb::IODebugContext* /*dbg*/) override {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& /*options*/,
                         rocksdb::IODebugContext* /*dbg*/) override {
    const int sys_errno = SyncFd(fd_);
    if (sys_errno != 0) return state_->Failed("fsync", sys_errno);
    state_->synced = true;
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& /*options*/,
                          rocksdb::IODebugContext* /*dbg*/) override {
    if (fd_ < 0) return rocksdb::IOStatus::OK();
    const int fd = fd_;
    fd_ = -1;
    // After EINTR the descriptor is gone on Linux.
    if (close(fd) != 0 && errno != EINTR) return state_->Failed("close", errno);
    state_->closed = true;
    return rocksdb::IOStatus::OK();
  }
  uint64_t GetFileSize(const rocksdb::IOOptions& /*options*/,
                       rocksdb::IODebugContext* /*dbg*/) override {
    return file_bytes_;
  }

 private:
  int fd_;
  FileState* state_;
  uint64_t file_bytes_ = 0;
};

class OutputFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit OutputFileSystem(FileState* state)
      : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()),
        state_(state) {}

  const char* Name() const override { return "LsmOutputFileSystem"; }

  rocksdb::IOStatus NewWritableFile(
      const std::string& path, const rocksdb::FileOptions& /*options*/,
      std::unique_ptr<rocksdb::FSWritableFile>* result,
      rocksdb::IODebugContext* /*dbg*/) override {
    const int fd = OpenForWriting(path.c_str());
    if (fd < 0) return state_->Failed("create", errno);
    state_->created = true;
    OutputFile* file = new (std::nothrow) OutputFile(fd, state_);
    if (file == nullptr) {
      close(fd);
      return state_->Failed("create", ENOMEM);
    }
    result->reset(file);
    return rocksdb::IOStatus::OK();
  }

 private:
  FileState* state_;
};

}  // namespace

}  // namespace lsm_sst

using namespace lsm_sst;

// Members are destroyed in reverse order: the writer first, the file's state
// last.
struct LsmSstWriter {
  explicit LsmSstWriter(const char* file_path) : path(file_path) {}

  FileState file;
  std::string path;
  std::shared_ptr<rocksdb::FileSystem> file_system;
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::SstFileWriter> rocks;
  uint64_t entries = 0;
  bool failed = false;
};

namespace {

// Translates a failure of RocksDB; the errno our file kept says more.
LsmSstStatus FailWriter(LsmSstWriter* writer, const rocksdb::Status& status,
                        LsmSstError* err) {
  writer->failed = true;
  const char* path = writer->path.c_str();
  if (writer->file.first_errno != 0) {
    return FailErrno(err, writer->file.first_errno, writer->file.failed_verb,
                     "sorted file", path);
  }
  LsmSstStatus kind = LSM_SST_IO_ERROR;
  if (status.IsNoSpace()) {
    kind = LSM_SST_DISK_FULL;
  } else if (status.IsInvalidArgument()) {
    kind = LSM_SST_INVALID;
  } else if (status.IsNotSupported()) {
    kind = LSM_SST_UNSUPPORTED;
  } else if (status.IsCorruption()) {
    kind = LSM_SST_CORRUPT;
  } else if (status.IsMemoryLimit()) {
    kind = LSM_SST_NO_MEMORY;
  }
  return Fail(err, kind, 0, "could not write sorted file \"%s\": %s", path,
              status.ToString().c_str());
}

// A writer that failed stays failed, for the reason it failed for if known.
LsmSstStatus FailAgain(const LsmSstWriter* writer, LsmSstError* err) noexcept {
  const char* path = writer->path.c_str();
  if (writer->file.first_errno != 0) {
    return FailErrno(err, writer->file.first_errno, writer->file.failed_verb,
                     "sorted file", path);
  }
  return Fail(err, LSM_SST_INVALID, 0,
              "could not write sorted file \"%s\": an earlier write failed",
              path);
}

// For use in a catch-all: what was thrown is in flight.
LsmSstStatus FailException(LsmSstError* err, const char* path) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return FailMemory(err, "writing sorted file", path);
  } catch (const std::exception& e) {
    return Fail(err, LSM_SST_IO_ERROR, 0,
                "could not write sorted file \"%s\": %s", path, e.what());
  } catch (...) {
    return Fail(err, LSM_SST_IO_ERROR, 0,
                "could not write sorted file \"%s\": unknown exception", path);
  }
}

// Frees the writer, keeping the file or not.
void DestroyWriter(LsmSstWriter* writer, bool keep_file) noexcept {
  const bool remove_file = writer->file.created && !keep_file;
  try {
    // Lets go of the file before it is removed.
    writer->rocks.reset();
  } catch (...) {
  }
  if (remove_file) unlink(writer->path.c_str());
  try {
    delete writer;
  } catch (...) {
  }
}

}  // namespace

LsmSstStatus lsm_sst_writer_open(const char* path, LsmCompression compression,
                                 LsmSstWriter** writer_out, LsmSstError* err) {
  *writer_out = nullptr;
  LsmSstWriter* writer = nullptr;
  LsmSstStatus status;
  try {
    if (compression != LSM_COMPRESSION_NONE &&
        compression != LSM_COMPRESSION_LZ4 &&
        compression != LSM_COMPRESSION_ZSTD) {
      return Fail(err, LSM_SST_INVALID, 0,
                  "invalid compression %d for sorted file \"%s\"",
                  static_cast<int>(compression), path);
    }
    const rocksdb::CompressionType type = ToRocksDb(compression);
    if (!CompressionAvailable(type)) {
      return Fail(err, LSM_SST_UNSUPPORTED, 0,
                  "could not create sorted file \"%s\": %s was built without "
                  "%s compression",
                  path, lsm_sst_library_version(),
                  compression == LSM_COMPRESSION_LZ4 ? "lz4" : "zstd");
    }
    writer = new LsmSstWriter(path);
    writer->file_system = std::make_shared<OutputFileSystem>(&writer->file);
    writer->env = rocksdb::NewCompositeEnv(writer->file_system);
    rocksdb::Options options = SstOptions(type);
    options.env = writer->env.get();
    writer->rocks = std::make_unique<rocksdb::SstFileWriter>(
        rocksdb::EnvOptions(options), options, nullptr /* column_family */,
        false /* invalidate_page_cache */);
    const rocksdb::Status opened = writer->rocks->Open(writer->path);
    if (opened.ok()) {
      *writer_out = writer;
      return LSM_SST_OK;
    }
    status = FailWriter(writer, opened, err);
  } catch (...) {
    status = FailException(err, path);
  }
  if (writer != nullptr) DestroyWriter(writer, false);
  return status;
}

LsmSstStatus lsm_sst_writer_add(LsmSstWriter* writer, const void* key,
                                size_t key_bytes, const void* value,
                                size_t value_bytes, LsmSstError* err) {
  try {
    if (writer->failed) return FailAgain(writer, err);
    if (key_bytes > kMaxKeyBytes || value_bytes > kMaxValueBytes) {
      return Fail(err, LSM_SST_INVALID, 0,
                  "could not add to sorted file \"%s\": an entry with a key "
                  "of %zu bytes and a value of %zu bytes is too large",
                  writer->path.c_str(), key_bytes, value_bytes);
    }
    const rocksdb::Status added = writer->rocks->Put(
        rocksdb::Slice(static_cast<const char*>(key), key_bytes),
        rocksdb::Slice(static_cast<const char*>(value), value_bytes));
    if (!added.ok() && added.IsInvalidArgument() &&
        writer->file.first_errno == 0) {
      // Nothing was added, the file is as good as before.
      return Fail(err, LSM_SST_INVALID, 0,
                  "could not add to sorted file \"%s\": keys are out of order",
                  writer->path.c_str());
    }
    // Older versions do not return the failure of a block's write here.
    if (!added.ok() || writer->file.first_errno != 0)
      return FailWriter(writer, added, err);
    writer->entries++;
    return LSM_SST_OK;
  } catch (...) {
    writer->failed = true;
    return FailException(err, writer->path.c_str());
  }
}

uint64_t lsm_sst_writer_bytes(const LsmSstWriter* writer) {
  try {
    return writer->rocks->FileSize();
  } catch (...) {
    return 0;
  }
}

// Reads the properties back through our own reader, which also proves that
// the tail of the file is what it should be.
static LsmSstStatus ReadBack(const LsmSstWriter* writer,
                             LsmSstProperties* props, LsmSstError* err) {
  LsmSstReader* reader;
  const char* path = writer->path.c_str();
  LsmSstStatus status = lsm_sst_open(path, &reader, err);
  if (status != LSM_SST_OK) return status;
  const LsmSstProperties found = *lsm_sst_properties(reader);
  lsm_sst_close(reader);
  if (found.entries != writer->entries) {
    return Fail(err, LSM_SST_CORRUPT, 0,
                "sorted file \"%s\" is corrupt: it holds %llu entries, %llu "
                "were written",
                path, static_cast<unsigned long long>(found.entries),
                static_cast<unsigned long long>(writer->entries));
  }
  if (props != nullptr) *props = found;
  return LSM_SST_OK;
}

LsmSstStatus lsm_sst_writer_finish(LsmSstWriter* writer,
                                   LsmSstProperties* props, LsmSstError* err) {
  LsmSstStatus status = LSM_SST_OK;
  try {
    if (writer->failed) {
      status = FailAgain(writer, err);
    } else if (writer->entries == 0) {
      status = Fail(err, LSM_SST_INVALID, 0,
                    "could not finish sorted file \"%s\": it has no entries",
                    writer->path.c_str());
    } else {
      const rocksdb::Status finished = writer->rocks->Finish();
      if (!finished.ok() || writer->file.first_errno != 0) {
        status = FailWriter(writer, finished, err);
      } else if (!writer->file.synced || !writer->file.closed) {
        // SstFileWriter syncs and closes; if a version stops doing so, every
        // flush shall fail rather than lose data in the next power cut.
        status = Fail(err, LSM_SST_UNSUPPORTED, 0,
                      "could not finish sorted file \"%s\": %s did not sync it",
                      writer->path.c_str(), lsm_sst_library_version());
      } else {
        status = ReadBack(writer, props, err);
      }
    }
  } catch (...) {
    status = FailException(err, writer->path.c_str());
  }
  DestroyWriter(writer, status == LSM_SST_OK);
  return status;
}

void lsm_sst_writer_abandon(LsmSstWriter* writer) {
  if (writer != nullptr) DestroyWriter(writer, false);
}

LsmSstStatus lsm_sst_write_blob(const char* path, const void* data,
                                size_t bytes, LsmSstError* err) {
  const int fd = OpenForWriting(path);
  if (fd < 0) return FailErrno(err, errno, "create", "filter file", path);
  const char* verb = "write";
  int sys_errno = WriteAll(fd, static_cast<const char*>(data), bytes);
  if (sys_errno == 0) {
    verb = "fsync";
    sys_errno = SyncFd(fd);
  }
  if (close(fd) != 0 && errno != EINTR && sys_errno == 0) {
    verb = "close";
    sys_errno = errno;
  }
  if (sys_errno == 0) return LSM_SST_OK;
  unlink(path);
  return FailErrno(err, sys_errno, verb, "filter file", path);
}

LsmSstStatus lsm_sst_sync_dir(const char* path, LsmSstError* err) {
  int fd;
  do {
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return FailErrno(err, errno, "open", "directory", path);
  int sys_errno = SyncFd(fd);
  // Some file systems cannot sync directories, and need not.
  if (sys_errno == EBADF || sys_errno == EINVAL) sys_errno = 0;
  if (close(fd) != 0 && errno != EINTR && sys_errno == 0) sys_errno = errno;
  if (sys_errno != 0)
    return FailErrno(err, sys_errno, "fsync", "directory", path);
  return LSM_SST_OK;
}

const char* lsm_sst_library_version(void) {
  static char version[64];
  if (version[0] == '\0') {
    try {
      snprintf(version, sizeof(version), "%s", LibraryVersion().c_str());
    } catch (...) {
      return "RocksDB";
    }
  }
  return version;
}
