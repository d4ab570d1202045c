// Reporting of failures, see error.h.

#include "sst/error.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace lsm_sst {

LsmSstStatus Fail(LsmSstError* err, LsmSstStatus status, int sys_errno,
                  const char* format, ...) noexcept {
  if (err != nullptr) {
    err->status = status;
    err->sys_errno = sys_errno;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
  }
  return status;
}

LsmSstStatus StatusOfErrno(int sys_errno) noexcept {
  switch (sys_errno) {
    case ENOENT:
      return LSM_SST_MISSING;
    case ENOSPC:
    case EDQUOT:
      return LSM_SST_DISK_FULL;
    case ENOMEM:
      return LSM_SST_NO_MEMORY;
    default:
      return LSM_SST_IO_ERROR;
  }
}

LsmSstStatus FailErrno(LsmSstError* err, int sys_errno, const char* verb,
                       const char* kind, const char* path) noexcept {
  char buffer[128];
  // GNU strerror_r: may return a static string instead of filling the buffer.
  const char* reason = strerror_r(sys_errno, buffer, sizeof(buffer));
  return Fail(err, StatusOfErrno(sys_errno), sys_errno,
              "could not %s %s \"%s\": %s", verb, kind, path, reason);
}

LsmSstStatus FailMemory(LsmSstError* err, const char* doing,
                        const char* path) noexcept {
  return Fail(err, LSM_SST_NO_MEMORY, 0, "out of memory while %s \"%s\"", doing,
              path);
}

}  // namespace lsm_sst
