// Reporting of failures: every message names the file it is about.

#ifndef LSM_SST_ERROR_H
#define LSM_SST_ERROR_H

#include "sst/sst.h"

namespace lsm_sst {

// Fills *err (which may be null) and returns `status`.  Never allocates.
[[gnu::cold, gnu::noinline, gnu::format(printf, 4, 5)]] LsmSstStatus Fail(
    LsmSstError* err, LsmSstStatus status, int sys_errno, const char* format,
    ...) noexcept;

// The status a failed system call stands for.
LsmSstStatus StatusOfErrno(int sys_errno) noexcept;

// could not <verb> <kind> "<path>": <strerror>
[[gnu::cold, gnu::noinline]] LsmSstStatus FailErrno(LsmSstError* err,
                                                    int sys_errno,
                                                    const char* verb,
                                                    const char* kind,
                                                    const char* path) noexcept;

// out of memory while <doing> "<path>"
[[gnu::cold, gnu::noinline]] LsmSstStatus FailMemory(LsmSstError* err,
                                                     const char* doing,
                                                     const char* path) noexcept;

}  // namespace lsm_sst

#endif  // LSM_SST_ERROR_H
