// Mappings of sorted and filter files and the SIGBUS handler, see mapping.h.

#include "sst/mapping.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace lsm_sst {

FaultGuard fault_guard;
size_t page_bytes;

namespace {

// Mappings of filter files, so that the handler knows its own.  Only changed
// by code that reads no mapping, hence never while the handler walks it; the
// handler itself only notes the fault.  A mapping keeps its slot; free slots
// have no bytes, and are chained.
struct BlobRange {
  uint8_t* base;
  size_t bytes;
  size_t next_free;
  volatile bool faulted;
};
constexpr size_t kNoSlot = SIZE_MAX;
BlobRange* blobs;
size_t blob_count;  // slots that are or were in use
size_t free_slot = kNoSlot;
size_t blob_capacity;
volatile uint64_t blob_faults;

struct sigaction previous_action;
bool handler_installed;

// True if the faulting page belongs to a filter file and now reads as ones.
// mmap() and memset() are not on POSIX's list of async-signal-safe functions,
// but the signal is synchronous: it interrupted a load from the mapping.
bool ReplaceBlobPage(uint8_t* address) noexcept {
  for (size_t i = 0; i < blob_count; i++) {
    if (address < blobs[i].base || address >= blobs[i].base + blobs[i].bytes)
      continue;
    uint8_t* page = reinterpret_cast<uint8_t*>(
        reinterpret_cast<uintptr_t>(address) & ~(page_bytes - 1));
    void* fresh = mmap(page, page_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (fresh == MAP_FAILED) return false;
    memset(fresh, 0xff, page_bytes);
    mprotect(fresh, page_bytes, PROT_READ);
    blobs[i].faulted = true;
    blob_faults = blob_faults + 1;
    return true;
  }
  return false;
}

extern "C" void HandleBusError(int signal_number, siginfo_t* info,
                               void* context) {
  const int saved_errno = errno;
  uint8_t* address = static_cast<uint8_t*>(info->si_addr);
  // Only the kernel's own reports carry an address (kill() does not).
  if (info->si_code > 0) {
    const uint8_t* begin = fault_guard.begin;
    if (begin != nullptr && address >= begin && address < fault_guard.end) {
      fault_guard.begin = nullptr;
      siglongjmp(fault_guard.env, 1);
    }
    if (ReplaceBlobPage(address)) {
      errno = saved_errno;
      return;
    }
  }

  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL &&
             previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal_number);
  } else if (previous_action.sa_handler == SIG_DFL || info->si_code > 0) {
    // Let the default action dump core, at the faulting instruction if there
    // is one.  A fault cannot be ignored.
    signal(SIGBUS, SIG_DFL);
    if (info->si_code <= 0) raise(SIGBUS);
  }
  errno = saved_errno;
}

void InstallHandler() noexcept {
  if (handler_installed) return;
  page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = HandleBusError;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigemptyset(&action.sa_mask);
  // Can only fail for a bad argument.
  if (sigaction(SIGBUS, &action, &previous_action) == 0)
    handler_installed = true;
}

}  // namespace

LsmSstStatus MapFile(const char* path, const char* kind, Mapping* mapping,
                     LsmSstError* err) noexcept {
  InstallHandler();

  int fd;
  do {
    fd = open(path, O_RDONLY | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return FailErrno(err, errno, "open", kind, path);

  struct stat st;
  if (fstat(fd, &st) != 0) {
    const int saved_errno = errno;
    close(fd);
    return FailErrno(err, saved_errno, "stat", kind, path);
  }
  if (!S_ISREG(st.st_mode)) {
    close(fd);
    return FailErrno(err, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "open", kind,
                     path);
  }
  if (st.st_size == 0) {
    close(fd);
    return Fail(err, LSM_SST_CORRUPT, 0, "%s \"%s\" is corrupt: it is empty",
                kind, path);
  }

  void* base = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ,
                    MAP_SHARED, fd, 0);
  const int saved_errno = errno;
  close(fd);
  if (base == MAP_FAILED) return FailErrno(err, saved_errno, "map", kind, path);

  mapping->base = static_cast<const uint8_t*>(base);
  mapping->bytes = static_cast<size_t>(st.st_size);
  return LSM_SST_OK;
}

void UnmapFile(const Mapping& mapping) noexcept {
  if (mapping.base != nullptr)
    munmap(const_cast<uint8_t*>(mapping.base), mapping.bytes);
}

}  // namespace lsm_sst

using namespace lsm_sst;

LsmSstStatus lsm_sst_map_blob(const char* path, LsmSstBlob* blob,
                              LsmSstError* err) {
  blob->data = nullptr;
  blob->bytes = 0;

  if (free_slot == kNoSlot && blob_count == blob_capacity) {
    const size_t capacity = blob_capacity == 0 ? 64 : blob_capacity * 2;
    void* grown = realloc(blobs, capacity * sizeof(BlobRange));
    if (grown == nullptr) return FailMemory(err, "mapping", path);
    blobs = static_cast<BlobRange*>(grown);
    blob_capacity = capacity;
  }

  Mapping mapping;
  const LsmSstStatus status = MapFile(path, "filter file", &mapping, err);
  if (status != LSM_SST_OK) return status;
  const size_t slot = free_slot != kNoSlot ? free_slot : blob_count++;
  if (slot == free_slot) free_slot = blobs[slot].next_free;
  blobs[slot].base = const_cast<uint8_t*>(mapping.base);
  blobs[slot].bytes = mapping.bytes;
  blobs[slot].faulted = false;
  blob->slot = slot;
  blob->data = mapping.base;
  blob->bytes = mapping.bytes;
  return LSM_SST_OK;
}

void lsm_sst_unmap_blob(LsmSstBlob* blob) {
  if (blob == nullptr || blob->data == nullptr) return;
  blobs[blob->slot].base = nullptr;
  blobs[blob->slot].bytes = 0;
  blobs[blob->slot].next_free = free_slot;
  free_slot = blob->slot;
  munmap(const_cast<void*>(blob->data), blob->bytes);
  blob->data = nullptr;
  blob->bytes = 0;
}

uint64_t lsm_sst_blob_faults(void) { return blob_faults; }

bool lsm_sst_blob_faulted(const LsmSstBlob* blob) {
  return blob->data != nullptr && blobs[blob->slot].faulted;
}
