// Verification of a sorted file: our reader against RocksDB's.
//
// The structure is checked first with our reader alone, which survives any
// bytes; only then does RocksDB's see the file.

#include <cstring>
#include <new>

#include "sst/iter.h"
#include "sst/rocksdb_compat.h"

using namespace lsm_sst;

namespace {

LsmSstStatus FailRocksDb(LsmSstError* err, const char* path,
                         const rocksdb::Status& status) {
  LsmSstStatus kind = LSM_SST_IO_ERROR;
  if (status.IsPathNotFound() || status.IsNotFound())
    kind = LSM_SST_MISSING;
  else if (status.IsCorruption())
    kind = LSM_SST_CORRUPT;
  else if (status.IsNotSupported())
    kind = LSM_SST_UNSUPPORTED;
  else if (status.IsMemoryLimit())
    kind = LSM_SST_NO_MEMORY;
  // It keeps no errno, but says what that means.
  const std::string text = status.ToString();
  int sys_errno = 0;
  for (const int candidate : {EMFILE, ENFILE})
    if (text.find(strerror(candidate)) != std::string::npos)
      sys_errno = candidate;
  return Fail(err, kind, sys_errno,
              "sorted file \"%s\" is rejected by RocksDB: %s", path,
              text.c_str());
}

LsmSstStatus FailEntry(LsmSstError* err, const char* path, uint64_t entry,
                       const char* what) noexcept {
  return Fail(err, LSM_SST_CORRUPT, 0,
              "sorted file \"%s\" is corrupt: %s (entry %llu)", path, what,
              static_cast<unsigned long long>(entry));
}

// The index must list blocks that follow each other without a gap and in
// order of their separators.  REQUIRES: inside Guarded().
LsmSstStatus CheckIndex(const LsmSstReader* reader, LsmSstError* err) noexcept {
  uint64_t expected_offset = 0;
  const uint8_t* before = nullptr;
  size_t before_bytes = 0;
  for (uint32_t block = 0; block < reader->blocks; block++) {
    const uint8_t *key, *after;
    size_t key_bytes;
    BlockHandle handle;
    const Verdict verdict = IndexHandle(reader, block, &handle);
    if (!verdict.ok() || !IndexKey(reader, block, &key, &key_bytes, &after)) {
      return FailBlock(reader, err, Corrupt("the index is damaged"),
                       reader->index_offset);
    }
    if (handle.offset != expected_offset) {
      return FailBlock(reader, err, Corrupt("the index has a gap"),
                       expected_offset);
    }
    if (before != nullptr &&
        CompareKeys(before, before_bytes, key, key_bytes) >= 0) {
      return FailBlock(reader, err, Corrupt("the index is out of order"),
                       handle.offset);
    }
    before = key;
    before_bytes = key_bytes;
    expected_offset = handle.offset + handle.bytes + kBlockTrailerBytes;
  }
  if (expected_offset != reader->props.data_bytes) {
    return FailBlock(reader, err, Corrupt("the index misses blocks"),
                     expected_offset);
  }
  return LSM_SST_OK;
}

// The key must lie where a search of the index looks for it: not behind the
// separator of its block, and behind that of the block before.  REQUIRES:
// CheckIndex() is content; inside Guarded().
bool IsInItsBlock(const LsmSstReader* reader, uint32_t block, const void* key,
                  size_t key_bytes) noexcept {
  const uint8_t* bytes = static_cast<const uint8_t*>(key);
  const uint8_t *separator, *after;
  size_t separator_bytes;
  if (!IndexKey(reader, block, &separator, &separator_bytes, &after) ||
      CompareKeys(bytes, key_bytes, separator, separator_bytes) > 0)
    return false;
  return block == 0 ||
         (IndexKey(reader, block - 1, &separator, &separator_bytes, &after) &&
          CompareKeys(bytes, key_bytes, separator, separator_bytes) > 0);
}

// The restarts of a block, which only seeks and steps back use.
struct RestartWalk {
  uint32_t restarts = 0;  // of the block
  uint32_t next = 0;      // the first one that the walk has not met
};

// Every restart leads to an entry with a whole key, the first one to the first
// entry, in order.  Called for each entry, from the first one on.  REQUIRES:
// inside Guarded().
bool RestartsFit(const LsmSstIter* it, RestartWalk* walk) noexcept {
  if (it->entry == 0) {
    if (walk->next != walk->restarts || RestartOffset(it, 0) != 0) return false;
    walk->restarts = it->restarts;
    walk->next = 0;
  }
  if (walk->next == walk->restarts) return true;
  const uint32_t restart = RestartOffset(it, walk->next);
  if (restart != it->entry) return restart > it->entry;
  walk->next++;
  return it->base[it->entry] == 0;  // nothing is shared
}

// Our reader alone: every block's checksum, the key order, restarts, the counts.
// *ended: goes_on() has said no.
LsmSstStatus CheckAlone(LsmSstReader* reader, LsmSstIter* it,
                        LsmSstGoesOn goes_on, void* arg, bool* ended,
                        LsmSstError* err) {
  LsmSstStatus status = Guarded(reader->map, reader->path, err, [=]() noexcept {
    return CheckIndex(reader, err);
  });
  if (status != LSM_SST_OK) return status;

  std::string before;
  uint64_t entries = 0, key_total = 0, value_total = 0;
  RestartWalk walk;
  status = lsm_sst_iter_first(it, err);
  while (status == LSM_SST_OK && lsm_sst_iter_valid(it)) {
    *ended = goes_on != nullptr && !goes_on(arg);
    if (*ended) return LSM_SST_OK;
    size_t key_bytes, value_bytes;
    const void* key = lsm_sst_iter_key(it, &key_bytes);
    lsm_sst_iter_value(it, &value_bytes);
    if (entries > 0 &&
        CompareKeys(reinterpret_cast<const uint8_t*>(before.data()),
                    before.size(), static_cast<const uint8_t*>(key),
                    key_bytes) >= 0)
      return FailEntry(err, reader->path, entries, "keys are out of order");
    bool found = false, fit = false;
    status = Guarded(reader->map, reader->path, err, [&]() noexcept {
      found = IsInItsBlock(reader, it->block, key, key_bytes);
      fit = RestartsFit(it, &walk);
      return LSM_SST_OK;
    });
    if (status != LSM_SST_OK) return status;
    if (!fit)
      return FailEntry(err, reader->path, entries, "a restart is damaged");
    if (!found)
      return FailEntry(err, reader->path, entries,
                       "the index does not lead to its key");
    before.assign(static_cast<const char*>(key), key_bytes);
    entries++;
    key_total += key_bytes;
    value_total += value_bytes;
    status = lsm_sst_iter_next(it, err);
  }
  if (status != LSM_SST_OK) return status;
  if (walk.next != walk.restarts)
    return FailEntry(err, reader->path, entries, "a restart is damaged");
  if (entries != reader->props.entries ||
      key_total != reader->props.raw_key_bytes ||
      value_total != reader->props.raw_value_bytes) {
    return FailEntry(err, reader->path, entries,
                     "its properties do not match its entries");
  }
  return LSM_SST_OK;
}

bool SameBytes(const rocksdb::Slice& theirs, const void* ours, size_t bytes) {
  return theirs.size() == bytes &&
         (bytes == 0 || memcmp(theirs.data(), ours, bytes) == 0);
}

// Both readers in lockstep.  No VerifyChecksum(): it would read the file once
// more, to its end, for checksums that both have seen by now.
LsmSstStatus CheckAgainstRocksDb(LsmSstReader* reader, LsmSstIter* it,
                                 LsmSstGoesOn goes_on, void* arg,
                                 LsmSstError* err) {
  rocksdb::SstFileReader rocks(SstOptions(rocksdb::kNoCompression));
  rocksdb::Status rocks_status = rocks.Open(reader->path);
  if (!rocks_status.ok()) return FailRocksDb(err, reader->path, rocks_status);

  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  options.total_order_seek = true;
  std::unique_ptr<rocksdb::Iterator> theirs(rocks.NewIterator(options));
  theirs->SeekToFirst();
  LsmSstStatus status = lsm_sst_iter_first(it, err);
  for (uint64_t entry = 0;; entry++) {
    if (status != LSM_SST_OK) return status;
    if (!theirs->status().ok())
      return FailRocksDb(err, reader->path, theirs->status());
    if (theirs->Valid() != lsm_sst_iter_valid(it)) {
      return FailEntry(err, reader->path, entry,
                       "RocksDB's reader finds another number of entries");
    }
    if (!theirs->Valid()) return LSM_SST_OK;
    size_t key_bytes, value_bytes;
    const void* key = lsm_sst_iter_key(it, &key_bytes);
    const void* value = lsm_sst_iter_value(it, &value_bytes);
    if (!SameBytes(theirs->key(), key, key_bytes) ||
        !SameBytes(theirs->value(), value, value_bytes)) {
      return FailEntry(err, reader->path, entry,
                       "RocksDB's reader finds another entry");
    }
    if (goes_on != nullptr && !goes_on(arg)) return LSM_SST_OK;
    status = lsm_sst_iter_next(it, err);
    theirs->Next();
  }
}

}  // namespace

LsmSstStatus lsm_sst_verify(const char* path, LsmSstGoesOn goes_on, void* arg,
                            LsmSstProperties* props, LsmSstError* err) {
  LsmSstReader* reader;
  LsmSstStatus status = lsm_sst_open(path, &reader, err);
  if (status != LSM_SST_OK) return status;
  if (props != nullptr) *props = reader->props;
  LsmSstIter* it = nullptr;
  status = lsm_sst_iter_open(reader, &it, err);
  bool ended = false;
  try {
    if (status == LSM_SST_OK)
      status = CheckAlone(reader, it, goes_on, arg, &ended, err);
    if (status == LSM_SST_OK && !ended)
      status = CheckAgainstRocksDb(reader, it, goes_on, arg, err);
  } catch (const std::bad_alloc&) {
    status = FailMemory(err, "verifying sorted file", path);
  } catch (const std::exception& e) {
    status = Fail(err, LSM_SST_IO_ERROR, 0,
                  "could not verify sorted file \"%s\": %s", path, e.what());
  } catch (...) {
    status =
        Fail(err, LSM_SST_IO_ERROR, 0,
             "could not verify sorted file \"%s\": unknown exception", path);
  }
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  return status;
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
