// What the sst_*_test.cc share: checks, scratch files, random
// entries.

#ifndef SST_HARNESS_H
#define SST_HARNESS_H

#include <dirent.h>
#include <fcntl.h>
#include <rocksdb/filter_policy.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sst/rocksdb_compat.h"
#include "sst/sst.h"

namespace {

using Entries = std::map<std::string, std::string>;

int test_count = 0;
int failure_count = 0;
std::string scratch;

[[gnu::format(printf, 2, 3)]] bool Check(bool good, const char *format, ...) {
  char name[256];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof(name), format, args);
  va_end(args);
  printf("%sok %d - %s\n", good ? "" : "not ", ++test_count, name);
  fflush(stdout);
  if (!good) failure_count++;
  return good;
}

// Of make check-quick and of the sanitizers: fewer operations.
[[maybe_unused]] bool ShortForm() {
  return getenv("LSM_UNIT_SHORT") != nullptr;
}

[[maybe_unused]] void Note(const LsmSstError &err) {
  printf("# %s\n", err.message);
}

[[maybe_unused]] std::string Path(const char *name) {
  return scratch + "/" + name;
}

[[maybe_unused]] bool Exists(const std::string &path) {
  return access(path.c_str(), F_OK) == 0;
}

// Permissions of a file; -1: there is none.
[[maybe_unused]] int Mode(const std::string &path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 ? static_cast<int>(st.st_mode & 07777) : -1;
}

[[maybe_unused]] const char *CompressionName(LsmCompression c) {
  return c == LSM_COMPRESSION_NONE  ? "none"
         : c == LSM_COMPRESSION_LZ4 ? "lz4"
                                    : "zstd";
}

const LsmCompression kCompressions[] = {
    LSM_COMPRESSION_NONE, LSM_COMPRESSION_LZ4, LSM_COMPRESSION_ZSTD};

[[maybe_unused]] std::string ReadFile(const std::string &path) {
  std::string data;
  FILE *f = fopen(path.c_str(), "rb");
  if (f == nullptr) return data;
  char buffer[65536];
  size_t n;
  while ((n = fread(buffer, 1, sizeof(buffer), f)) > 0) data.append(buffer, n);
  fclose(f);
  return data;
}

[[maybe_unused]] void WriteFile(const std::string &path, const char *data,
                                size_t bytes) {
  FILE *f = fopen(path.c_str(), "wb");
  if (f == nullptr || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) {
    printf("Bail out! cannot write %s\n", path.c_str());
    exit(1);
  }
}

// Keys of all shapes: short and dense (prefixes of each other, binary zeros
// and ones), a long common prefix, counters, and a few very long ones.
[[maybe_unused]] std::string RandomKey(std::mt19937_64 *rng) {
  std::string key;
  switch ((*rng)() % 8) {
    case 0:
    case 1: {
      // Alphabet that includes the bytes of a key trailer.
      const size_t bytes = (*rng)() % 12;
      for (size_t i = 0; i < bytes; i++)
        key.push_back("\x00\x01\x02\xff"[(*rng)() % 4]);
      return key;
    }
    case 2: {
      key.assign("a fairly long common prefix of many keys/");
      key += std::to_string((*rng)() % 1000000);
      return key;
    }
    case 3: {
      key.assign((*rng)() % 64, 'p');
      if ((*rng)() % 2 == 0) key.push_back(static_cast<char>((*rng)()));
      return key;
    }
    case 4: {
      if ((*rng)() % 200 != 0) break;
      const size_t bytes = 1000 + (*rng)() % 3097;
      key.assign(bytes, static_cast<char>('k' + (*rng)() % 2));
      for (int i = 0; i < 4; i++)
        key[(*rng)() % bytes] = static_cast<char>((*rng)());
      return key;
    }
    default:
      break;
  }
  const uint64_t number = (*rng)();
  key.assign(reinterpret_cast<const char *>(&number), 1 + (*rng)() % 8);
  return key;
}

[[maybe_unused]] std::string RandomValue(std::mt19937_64 *rng) {
  const uint64_t kind = (*rng)() % 4000;
  size_t bytes = (*rng)() % 40;
  if (kind == 0) bytes = 28000;
  if (kind == 1) bytes = 4000 + (*rng)() % 1000;
  if (kind >= 3000) bytes = 0;
  std::string value(bytes, '\0');
  // Half of it repetitive, so that it compresses.
  for (size_t i = 0; i < bytes; i++)
    value[i] = static_cast<char>(i < bytes / 2 ? 'v' : (*rng)());
  return value;
}

[[maybe_unused]] Entries RandomEntries(size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Entries entries;
  entries[""] = "the empty key";
  while (entries.size() < count) {
    std::string key = RandomKey(&rng);
    entries.emplace(std::move(key), RandomValue(&rng));
  }
  return entries;
}

[[maybe_unused]] LsmSstStatus WriteEntries(const std::string &path,
                                           LsmCompression compression,
                                           const Entries &entries,
                                           LsmSstProperties *props,
                                           LsmSstError *err) {
  LsmSstWriter *writer;
  unlink(path.c_str());
  LsmSstStatus status =
      lsm_sst_writer_open(path.c_str(), 0600, compression, &writer, err);
  if (status != LSM_SST_OK) return status;
  for (const auto &entry : entries) {
    status = lsm_sst_writer_add(writer, entry.first.data(), entry.first.size(),
                                entry.second.data(), entry.second.size(), nullptr, err);
    if (status != LSM_SST_OK) {
      lsm_sst_writer_abandon(writer);
      return status;
    }
  }
  return lsm_sst_writer_finish(writer, props, err);
}

[[maybe_unused]] bool At(const LsmSstIter *it, const Entries &entries,
                         Entries::const_iterator expected) {
  if (expected == entries.end()) return !lsm_sst_iter_valid(it);
  if (!lsm_sst_iter_valid(it)) return false;
  size_t key_bytes, value_bytes;
  const void *key = lsm_sst_iter_key(it, &key_bytes);
  const void *value = lsm_sst_iter_value(it, &value_bytes);
  return key_bytes == expected->first.size() &&
         memcmp(key, expected->first.data(), key_bytes) == 0 &&
         value_bytes == expected->second.size() &&
         (value_bytes == 0 ||
          memcmp(value, expected->second.data(), value_bytes) == 0);
}

// Our reader finds these entries, a map's or a list's, and no others.
template <typename Container>
bool HoldsExactly(const std::string &path, const Container &entries) {
  LsmSstReader *reader;
  LsmSstIter *it = nullptr;
  LsmSstError err;
  if (lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK) return false;
  bool good = lsm_sst_iter_open(reader, &it, &err) == LSM_SST_OK &&
              lsm_sst_iter_first(it, &err) == LSM_SST_OK;
  for (const auto &entry : entries) {
    if (!good || !lsm_sst_iter_valid(it)) {
      good = false;
      break;
    }
    size_t key_bytes, value_bytes;
    const void *key = lsm_sst_iter_key(it, &key_bytes);
    const void *value = lsm_sst_iter_value(it, &value_bytes);
    good = entry.first ==
               std::string(static_cast<const char *>(key), key_bytes) &&
           entry.second ==
               std::string(static_cast<const char *>(value), value_bytes) &&
           lsm_sst_iter_next(it, &err) == LSM_SST_OK;
  }
  good = good && !lsm_sst_iter_valid(it);
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  return good;
}

[[maybe_unused]] int Threads() {
  DIR *dir = opendir("/proc/self/task");
  int count = 0;
  while (struct dirent *entry = readdir(dir))
    if (entry->d_name[0] != '.') count++;
  closedir(dir);
  return count;
}

[[maybe_unused]] int Descriptors() {
  DIR *dir = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(dir) != nullptr) count++;
  closedir(dir);
  return count;
}

// ---- random positioning ----

[[maybe_unused]] std::vector<std::string> KeysOf(const Entries &entries) {
  std::vector<std::string> keys;
  for (const auto &entry : entries) keys.push_back(entry.first);
  return keys;
}

// A key that is there, or near one that is.
[[maybe_unused]] std::string ProbeKey(const std::vector<std::string> &keys,
                                      std::mt19937_64 *rng) {
  std::string key = keys[(*rng)() % keys.size()];
  switch ((*rng)() % 6) {
    case 0:
      key.push_back(static_cast<char>((*rng)() % 3));
      break;
    case 1:
      if (!key.empty()) key.pop_back();
      break;
    case 2:
      if (!key.empty()) key.back() = static_cast<char>(key.back() + 1);
      break;
    case 3:
      key = RandomKey(rng);
      break;
    default:
      break;
  }
  return key;
}

[[maybe_unused]] void RandomOperations(LsmSstReader *reader,
                                       const Entries &entries, int count,
                                       const char *what) {
  std::mt19937_64 rng(7);
  const std::vector<std::string> keys = KeysOf(entries);
  LsmSstError err;
  LsmSstIter *it;
  int bad = 0;
  if (lsm_sst_iter_open(reader, &it, &err) != LSM_SST_OK) bad++;
  Entries::const_iterator where = entries.end();
  for (int i = 0; i < count && bad == 0; i++) {
    LsmSstStatus status = LSM_SST_OK;
    const uint64_t op = rng() % 100;
    if (where == entries.end() || op < 30) {
      const std::string key = ProbeKey(keys, &rng);
      const uint64_t kind = rng() % 4;
      if (kind == 0) {
        status = lsm_sst_iter_seek(it, key.data(), key.size(), &err);
        where = entries.lower_bound(key);
      } else if (kind == 1) {
        const size_t prefix_bytes =
            rng() % 2 == 0 ? key.size() : rng() % (key.size() + 1);
        status = lsm_sst_iter_seek_prefix(it, key.data(), key.size(),
                                          prefix_bytes, &err);
        where = entries.lower_bound(key);
        if (where != entries.end() &&
            where->first.compare(0, prefix_bytes, key, 0, prefix_bytes) != 0)
          where = entries.end();
      } else {
        status = lsm_sst_iter_seek_last(it, key.data(), key.size(), &err);
        where = entries.upper_bound(key);
        where = where == entries.begin() ? entries.end() : std::prev(where);
      }
    } else if (op == 30) {
      status = lsm_sst_iter_first(it, &err);
      where = entries.begin();
    } else if (op == 31) {
      status = lsm_sst_iter_last(it, &err);
      where = std::prev(entries.end());
    } else if (op < 66) {
      status = lsm_sst_iter_next(it, &err);
      ++where;
    } else {
      status = lsm_sst_iter_prev(it, &err);
      where = where == entries.begin() ? entries.end() : std::prev(where);
    }
    if (status != LSM_SST_OK) {
      Note(err);
      bad++;
    } else if (!At(it, entries, where)) {
      printf("# operation %d (%d) found another entry\n", i,
             static_cast<int>(op));
      bad++;
    }
  }
  lsm_sst_iter_close(it);
  Check(bad == 0, "%s: %d random operations", what, count);
}

// The program was called with --bench: measure instead of testing.
[[maybe_unused]] bool bench = false;
bool own_scratch = false;

// Reads the command line: [--bench] [DIRECTORY].  Scratch files go to the
// directory, or a new one.  False: there is none to be had.
[[maybe_unused]] bool Begin(int argc, char **argv) {
  bench = argc > 1 && strcmp(argv[1], "--bench") == 0;
  const int arg = bench ? 2 : 1;
  if (argc > arg) {
    scratch = argv[arg];
    return true;
  }
  char dir[] = "/tmp/lsm_sst_test.XXXXXX";
  if (mkdtemp(dir) == nullptr) {
    printf("Bail out! cannot create a scratch directory\n");
    return false;
  }
  scratch = dir;
  own_scratch = true;
  return true;
}

// Returns what main() is to return.
[[maybe_unused]] int End() {
  if (!bench) printf("1..%d\n", test_count);
  if (own_scratch) rmdir(scratch.c_str());
  return failure_count == 0 ? 0 : 1;
}

}  // namespace

#endif  // SST_HARNESS_H
