// Read-only mappings of whole files, and what happens when reading one fails.
//
// A page that cannot be read (media error, file truncated under us) raises
// SIGBUS.  Code that reads a mapping of sorted files runs inside Guarded(),
// which turns the signal into a status.  Mappings of filter files are read by
// src/filter without a guard: there the handler puts a page of ones in the
// place of the unreadable page, which in a Bloom filter means "maybe", and
// counts it.  Every other SIGBUS goes to whoever handled it before us.
//
// One guard per process: there are no threads, and guarded sections do not
// nest.  They must hold no object with a destructor and no lock.

#ifndef LSM_SST_MAPPING_H
#define LSM_SST_MAPPING_H

#include <setjmp.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "sst/error.h"
#include "sst/sst.h"

namespace lsm_sst {

struct Mapping {
  const uint8_t* base;
  size_t bytes;
};

// Maps a regular file that is not empty; `kind` is what messages call it.
// Installs the SIGBUS handler at the first call.
LsmSstStatus MapFile(const char* path, const char* kind, Mapping* mapping,
                     LsmSstError* err) noexcept;
void UnmapFile(const Mapping& mapping) noexcept;

// Set by the first MapFile().
extern size_t page_bytes;

struct FaultGuard {
  sigjmp_buf env;
  // The range that faults are expected in; null when disarmed.
  const uint8_t* volatile begin;
  const uint8_t* volatile end;
};
extern FaultGuard fault_guard;

// Runs body() with faults in [base, base + bytes) turned into
// LSM_SST_IO_ERROR.  The signal mask need not be saved: the handler is
// installed with SA_NODEFER and an empty mask, so it does not change it.
template <typename Body>
[[gnu::noinline]] LsmSstStatus Guarded(const Mapping& mapping, const char* path,
                                       LsmSstError* err, Body body) noexcept {
  if (sigsetjmp(fault_guard.env, 0) != 0) {
    // The handler has disarmed the guard.
    return Fail(err, LSM_SST_IO_ERROR, EIO,
                "could not read sorted file \"%s\": the file was truncated or "
                "the storage reported an error",
                path);
  }
  fault_guard.end = mapping.base + mapping.bytes;
  fault_guard.begin = mapping.base;
  // The body's plain loads must stay between arming and disarming.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const LsmSstStatus status = body();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  fault_guard.begin = nullptr;
  return status;
}

}  // namespace lsm_sst

#endif  // LSM_SST_MAPPING_H
