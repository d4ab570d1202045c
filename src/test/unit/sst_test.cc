// Unit test of src/sst: TAP on standard output, exit status 0 if all is well.
// Usage: sst_test [directory for scratch files]
//        sst_test --bench [directory]      point seeks against SstFileReader

#include "sst/sst.h"

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

namespace {

using Entries = std::map<std::string, std::string>;

int test_count = 0;
int failure_count = 0;
std::string scratch;

[[gnu::format(printf, 2, 3)]] bool Check(bool good, const char* format, ...) {
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

void Note(const LsmSstError& err) { printf("# %s\n", err.message); }

std::string Path(const char* name) { return scratch + "/" + name; }

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

const char* CompressionName(LsmCompression c) {
  return c == LSM_COMPRESSION_NONE  ? "none"
         : c == LSM_COMPRESSION_LZ4 ? "lz4"
                                    : "zstd";
}

const LsmCompression kCompressions[] = {
    LSM_COMPRESSION_NONE, LSM_COMPRESSION_LZ4, LSM_COMPRESSION_ZSTD};

std::string ReadFile(const std::string& path) {
  std::string data;
  FILE* f = fopen(path.c_str(), "rb");
  if (f == nullptr) return data;
  char buffer[65536];
  size_t n;
  while ((n = fread(buffer, 1, sizeof(buffer), f)) > 0) data.append(buffer, n);
  fclose(f);
  return data;
}

void WriteFile(const std::string& path, const char* data, size_t bytes) {
  FILE* f = fopen(path.c_str(), "wb");
  if (f == nullptr || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) {
    printf("Bail out! cannot write %s\n", path.c_str());
    exit(1);
  }
}

// Keys of all shapes: short and dense (prefixes of each other, binary zeros
// and ones), a long common prefix, counters, and a few very long ones.
std::string RandomKey(std::mt19937_64* rng) {
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
  key.assign(reinterpret_cast<const char*>(&number), 1 + (*rng)() % 8);
  return key;
}

std::string RandomValue(std::mt19937_64* rng) {
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

Entries RandomEntries(size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Entries entries;
  entries[""] = "the empty key";
  while (entries.size() < count) {
    std::string key = RandomKey(&rng);
    entries.emplace(std::move(key), RandomValue(&rng));
  }
  return entries;
}

LsmSstStatus WriteEntries(const std::string& path, LsmCompression compression,
                          const Entries& entries, LsmSstProperties* props,
                          LsmSstError* err) {
  LsmSstWriter* writer;
  LsmSstStatus status =
      lsm_sst_writer_open(path.c_str(), compression, &writer, err);
  if (status != LSM_SST_OK) return status;
  for (const auto& entry : entries) {
    status = lsm_sst_writer_add(writer, entry.first.data(), entry.first.size(),
                                entry.second.data(), entry.second.size(), err);
    if (status != LSM_SST_OK) {
      lsm_sst_writer_abandon(writer);
      return status;
    }
  }
  return lsm_sst_writer_finish(writer, props, err);
}

bool At(const LsmSstIter* it, const Entries& entries,
        Entries::const_iterator expected) {
  if (expected == entries.end()) return !lsm_sst_iter_valid(it);
  if (!lsm_sst_iter_valid(it)) return false;
  size_t key_bytes, value_bytes;
  const void* key = lsm_sst_iter_key(it, &key_bytes);
  const void* value = lsm_sst_iter_value(it, &value_bytes);
  return key_bytes == expected->first.size() &&
         memcmp(key, expected->first.data(), key_bytes) == 0 &&
         value_bytes == expected->second.size() &&
         (value_bytes == 0 ||
          memcmp(value, expected->second.data(), value_bytes) == 0);
}

int Threads() {
  DIR* dir = opendir("/proc/self/task");
  int count = 0;
  while (struct dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.') count++;
  closedir(dir);
  return count;
}

int Descriptors() {
  DIR* dir = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(dir) != nullptr) count++;
  closedir(dir);
  return count;
}

// ---- round trip and random positioning ----

std::vector<std::string> KeysOf(const Entries& entries) {
  std::vector<std::string> keys;
  for (const auto& entry : entries) keys.push_back(entry.first);
  return keys;
}

// A key that is there, or near one that is.
std::string ProbeKey(const std::vector<std::string>& keys,
                     std::mt19937_64* rng) {
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

void RandomOperations(LsmSstReader* reader, const Entries& entries, int count,
                      const char* what) {
  std::mt19937_64 rng(7);
  const std::vector<std::string> keys = KeysOf(entries);
  LsmSstError err;
  LsmSstIter* it;
  int bad = 0;
  if (lsm_sst_iter_open(reader, &it, &err) != LSM_SST_OK) bad++;
  Entries::const_iterator where = entries.end();
  for (int i = 0; i < count && bad == 0; i++) {
    LsmSstStatus status = LSM_SST_OK;
    const uint64_t op = rng() % 100;
    if (where == entries.end() || op < 30) {
      const std::string key = ProbeKey(keys, &rng);
      if (rng() % 2 == 0) {
        status = lsm_sst_iter_seek(it, key.data(), key.size(), &err);
        where = entries.lower_bound(key);
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

struct VisitState {
  const Entries* entries;
  Entries::const_iterator at;
  size_t stop_after;
  size_t visited;
  bool good;
};

bool VisitEntry(void* arg, const void* key, size_t key_bytes, const void* value,
                size_t value_bytes) {
  VisitState* state = static_cast<VisitState*>(arg);
  state->visited++;
  if (state->at == state->entries->end() ||
      std::string(static_cast<const char*>(key), key_bytes) !=
          state->at->first ||
      std::string(static_cast<const char*>(value), value_bytes) !=
          state->at->second)
    state->good = false;
  else
    ++state->at;
  return state->visited != state->stop_after;
}

void TestRoundTrip(size_t count, int operations) {
  const Entries entries = RandomEntries(count, 42);
  uint64_t key_bytes = 0, value_bytes = 0;
  for (const auto& entry : entries) {
    key_bytes += entry.first.size();
    value_bytes += entry.second.size();
  }
  for (const LsmCompression compression : kCompressions) {
    const char* name = CompressionName(compression);
    const std::string path = Path("round.sst");
    LsmSstError err;
    LsmSstProperties props, read_props;
    LsmSstStatus status =
        WriteEntries(path, compression, entries, &props, &err);
    if (!Check(status == LSM_SST_OK, "%s: %zu entries written", name,
               entries.size())) {
      Note(err);
      continue;
    }
    struct stat st;
    stat(path.c_str(), &st);
    Check((st.st_mode & 07777) == 0600, "%s: mode 0600", name);
    Check(props.entries == entries.size() && props.raw_key_bytes == key_bytes &&
              props.raw_value_bytes == value_bytes &&
              props.file_bytes == static_cast<uint64_t>(st.st_size) &&
              props.data_bytes < props.file_bytes && props.data_blocks > 1,
          "%s: properties", name);

    LsmSstReader* reader;
    const int descriptors = Descriptors();
    status = lsm_sst_open(path.c_str(), &reader, &err);
    if (!Check(status == LSM_SST_OK, "%s: opened", name)) {
      Note(err);
      continue;
    }
    Check(Descriptors() == descriptors, "%s: no descriptor kept", name);
    Check(memcmp(lsm_sst_properties(reader), &props, sizeof(props)) == 0,
          "%s: properties read again", name);
    Check(lsm_sst_reader_memory(reader) < 10000, "%s: reader holds %zu bytes",
          name, lsm_sst_reader_memory(reader));

    LsmSstIter* it;
    bool good = lsm_sst_iter_open(reader, &it, &err) == LSM_SST_OK;
    good = good && lsm_sst_iter_first(it, &err) == LSM_SST_OK;
    for (auto at = entries.begin(); good; ++at) {
      good = At(it, entries, at);
      if (!lsm_sst_iter_valid(it)) {
        good = at == entries.end();
        break;
      }
      good = good && lsm_sst_iter_next(it, &err) == LSM_SST_OK;
    }
    Check(good, "%s: forward scan", name);
    Check(lsm_sst_blocks_read(reader) == props.data_blocks,
          "%s: each block read once by a scan", name);
    Check(lsm_sst_iter_next(it, &err) == LSM_SST_INVALID,
          "%s: next without an entry is refused", name);
    good = lsm_sst_iter_last(it, &err) == LSM_SST_OK;
    for (auto at = entries.end(); good && at != entries.begin();) {
      good = At(it, entries, --at) && lsm_sst_iter_prev(it, &err) == LSM_SST_OK;
    }
    Check(good && !lsm_sst_iter_valid(it), "%s: backward scan", name);
    lsm_sst_iter_close(it);

    // Still readable when it has no name any more.
    RandomOperations(reader, entries, operations, name);

    VisitState state = {&entries, entries.begin(), 0, 0, true};
    status =
        lsm_sst_verify(path.c_str(), VisitEntry, &state, &read_props, &err);
    if (!Check(status == LSM_SST_OK && state.good &&
                   state.at == entries.end() &&
                   memcmp(&props, &read_props, sizeof(props)) == 0,
               "%s: verify agrees with RocksDB", name))
      Note(err);
    state = {&entries, entries.begin(), 10, 0, true};
    status = lsm_sst_verify(path.c_str(), VisitEntry, &state, nullptr, &err);
    Check(status == LSM_SST_OK && state.good && state.visited == 10,
          "%s: verify stops when told", name);

    const std::string command =
        "sst_dump --file=" + path + " --command=check >/dev/null 2>&1";
    if (system("command -v sst_dump >/dev/null 2>&1") == 0)
      Check(system(command.c_str()) == 0, "%s: sst_dump reads it", name);
    else
      Check(true, "%s: # SKIP no sst_dump", name);

    unlink(path.c_str());
    RandomOperations(reader, entries, 1000, "unlinked");
    lsm_sst_close(reader);
  }
  Check(Threads() == 1, "no thread was started");
}

// Tables of one entry up to a few blocks: every position of every edge.
void TestSmall() {
  bool good = true;
  for (int count = 1; count <= 400 && good; count += count < 40 ? 1 : 45) {
    Entries entries;
    for (int i = 0; i < count; i++) {
      char key[16];
      snprintf(key, sizeof(key), "%06d", i * 2 + 1);
      entries[key] = std::string(static_cast<size_t>(i % 90), 'x');
    }
    LsmSstError err;
    LsmSstReader* reader;
    LsmSstIter* it;
    const std::string path = Path("small.sst");
    good = WriteEntries(path, kCompressions[count % 3], entries, nullptr,
                        &err) == LSM_SST_OK &&
           lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_OK;
    if (!good) break;
    good = lsm_sst_iter_open(reader, &it, &err) == LSM_SST_OK;
    for (int i = 0; i <= count * 2 + 1 && good; i++) {
      char key[16];
      snprintf(key, sizeof(key), "%06d", i);
      auto at = entries.lower_bound(key);
      good = lsm_sst_iter_seek(it, key, 6, &err) == LSM_SST_OK &&
             At(it, entries, at);
      if (good && at != entries.end()) {
        good = lsm_sst_iter_prev(it, &err) == LSM_SST_OK &&
               At(it, entries,
                  at == entries.begin() ? entries.end() : std::prev(at));
      }
      at = entries.upper_bound(key);
      at = at == entries.begin() ? entries.end() : std::prev(at);
      good = good && lsm_sst_iter_seek_last(it, key, 6, &err) == LSM_SST_OK &&
             At(it, entries, at);
      if (good && at != entries.end()) {
        good = lsm_sst_iter_next(it, &err) == LSM_SST_OK &&
               At(it, entries, std::next(at));
      }
    }
    lsm_sst_iter_close(it);
    lsm_sst_close(reader);
    unlink(path.c_str());
  }
  Check(good, "all positions of small files");
}

// Other layouts RocksDB writes: readable, or refused, never misread.
void TestLayouts() {
  const Entries entries = RandomEntries(5000, 5);
  const std::string path = Path("layout.sst");
  enum Expect { kReadable, kRefused };
  struct Layout {
    const char* name;
    Expect expect;
    void (*change)(rocksdb::BlockBasedTableOptions*, rocksdb::Options*);
  };
  using Table = rocksdb::BlockBasedTableOptions;
  const Layout layouts[] = {
      {"format version 2", kReadable,
       [](Table* t, rocksdb::Options*) { t->format_version = 2; }},
      {"format version 3", kReadable,
       [](Table* t, rocksdb::Options*) { t->format_version = 3; }},
      {"format version 4", kReadable,
       [](Table* t, rocksdb::Options*) { t->format_version = 4; }},
      {"16 kB blocks", kReadable,
       [](Table* t, rocksdb::Options*) { t->block_size = 16384; }},
      {"restart interval 1", kReadable,
       [](Table* t, rocksdb::Options*) { t->block_restart_interval = 1; }},
      {"restart interval 100", kReadable,
       [](Table* t, rocksdb::Options*) { t->block_restart_interval = 100; }},
      {"no key delta encoding", kReadable,
       [](Table* t, rocksdb::Options*) { t->use_delta_encoding = false; }},
      {"unshortened index", kReadable,
       [](Table* t, rocksdb::Options*) {
         t->index_shortening = Table::IndexShorteningMode::kNoShortening;
       }},
      {"shortest index", kReadable,
       [](Table* t, rocksdb::Options*) {
         t->index_shortening =
             Table::IndexShorteningMode::kShortenSeparatorsAndSuccessor;
       }},
      {"Bloom filter", kReadable,
       [](Table* t, rocksdb::Options*) {
         t->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
       }},
      {"index restart interval 16", kRefused,
       [](Table* t, rocksdb::Options*) {
         t->index_block_restart_interval = 16;
       }},
      {"CRC32c", kRefused,
       [](Table* t, rocksdb::Options*) { t->checksum = rocksdb::kCRC32c; }},
      {"data block hash index", kRefused,
       [](Table* t, rocksdb::Options*) {
         t->data_block_index_type = Table::kDataBlockBinaryAndHash;
       }},
      {"partitioned index", kRefused,
       [](Table* t, rocksdb::Options*) {
         t->index_type = Table::kTwoLevelIndexSearch;
       }},
      {"index with first keys", kRefused,
       [](Table* t, rocksdb::Options*) {
         t->index_type = Table::kBinarySearchWithFirstKey;
       }},
      {"compressed index", kRefused,
       [](Table* t, rocksdb::Options* o) {
         t->enable_index_compression = true;
         o->compression = rocksdb::kLZ4Compression;
       }},
      {"dictionary", kRefused,
       [](Table*, rocksdb::Options* o) {
         o->compression = rocksdb::kZSTD;
         o->compression_opts.max_dict_bytes = 4096;
       }},
      {"snappy", kRefused,
       [](Table*, rocksdb::Options* o) {
         o->compression = rocksdb::kSnappyCompression;
       }},
      {"reverse comparator", kRefused,
       [](Table*, rocksdb::Options* o) {
         o->comparator = rocksdb::ReverseBytewiseComparator();
       }},
  };
  for (const Layout& layout : layouts) {
    rocksdb::Options options = lsm_sst::SstOptions(rocksdb::kNoCompression);
    Table table = lsm_sst::TableOptions();
    layout.change(&table, &options);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options, nullptr,
                                  false);
    bool good = writer.Open(path).ok();
    if (options.comparator == rocksdb::BytewiseComparator()) {
      for (const auto& entry : entries)
        good = good && writer.Put(entry.first, entry.second).ok();
    } else {
      for (auto at = entries.rbegin(); at != entries.rend(); ++at)
        good = good && writer.Put(at->first, at->second).ok();
    }
    good = good && writer.Finish().ok();
    LsmSstError err;
    VisitState state = {&entries, entries.begin(), 0, 0, true};
    const LsmSstStatus status =
        lsm_sst_verify(path.c_str(), VisitEntry, &state, nullptr, &err);
    if (layout.expect == kReadable) {
      good = good && status == LSM_SST_OK && state.good &&
             state.at == entries.end();
      if (!good) Note(err);
      LsmSstReader* reader;
      if (good && lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_OK) {
        RandomOperations(reader, entries, 3000, layout.name);
        lsm_sst_close(reader);
      }
    } else {
      good = good && status == LSM_SST_UNSUPPORTED;
      if (status != LSM_SST_OK) Note(err);
    }
    Check(good, "%s is %s", layout.name,
          layout.expect == kReadable ? "read" : "refused");
    unlink(path.c_str());
  }

  // Tombstones and merges.
  for (int kind = 0; kind < 3; kind++) {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(),
                                  lsm_sst::SstOptions(rocksdb::kNoCompression),
                                  nullptr, false);
    bool good = writer.Open(path).ok() && writer.Put("a", "1").ok();
    if (kind == 0) good = good && writer.Delete("b").ok();
    if (kind == 1) good = good && writer.Merge("b", "2").ok();
    if (kind == 2) good = good && writer.DeleteRange("b", "c").ok();
    good = good && writer.Finish().ok();
    LsmSstError err;
    LsmSstReader* reader;
    Check(good &&
              lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_UNSUPPORTED,
          "a file with a %s is refused",
          kind == 0   ? "deletion"
          : kind == 1 ? "merge"
                      : "range deletion");
    Note(err);
    unlink(path.c_str());
  }
}

// ---- misuse and missing files ----

void TestErrors() {
  LsmSstError err;
  LsmSstReader* reader;
  const std::string path = Path("error.sst");

  memset(&err, 0, sizeof(err));
  Check(lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_MISSING &&
            err.status == LSM_SST_MISSING && err.sys_errno == ENOENT &&
            strstr(err.message, path.c_str()) != nullptr && reader == nullptr,
        "missing file");
  Note(err);
  Check(lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr, &err) ==
            LSM_SST_MISSING,
        "verify of a missing file");
  Check(lsm_sst_open(scratch.c_str(), &reader, &err) == LSM_SST_IO_ERROR &&
            err.sys_errno == EISDIR,
        "directory as file");
  Note(err);
  WriteFile(path, "", 0);
  Check(lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_CORRUPT,
        "empty file");
  Note(err);
  const std::string noise(100000, 'n');
  WriteFile(path, noise.data(), noise.size());
  Check(lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_CORRUPT,
        "file of something else");
  Note(err);
  unlink(path.c_str());

  LsmSstWriter* writer;
  Check(lsm_sst_writer_open("/nonexistent/x.sst", LSM_COMPRESSION_NONE, &writer,
                            &err) == LSM_SST_MISSING &&
            writer == nullptr,
        "writer in a missing directory");
  Note(err);
  Check(lsm_sst_writer_open(scratch.c_str(), LSM_COMPRESSION_NONE, &writer,
                            &err) == LSM_SST_IO_ERROR,
        "writer over a directory");
  Check(lsm_sst_writer_open(path.c_str(), static_cast<LsmCompression>(99),
                            &writer, &err) == LSM_SST_INVALID &&
            !Exists(path),
        "unknown compression");
  bool good = lsm_sst_writer_open(path.c_str(), LSM_COMPRESSION_NONE, &writer,
                                  &err) == LSM_SST_OK;
  Check(good &&
            lsm_sst_writer_finish(writer, nullptr, &err) == LSM_SST_INVALID &&
            !Exists(path),
        "finish without entries removes the file");
  Note(err);
  good = lsm_sst_writer_open(path.c_str(), LSM_COMPRESSION_NONE, &writer,
                             &err) == LSM_SST_OK &&
         lsm_sst_writer_add(writer, "b", 1, "1", 1, &err) == LSM_SST_OK;
  Check(
      good &&
          lsm_sst_writer_add(writer, "b", 1, "2", 1, &err) == LSM_SST_INVALID &&
          lsm_sst_writer_add(writer, "a", 1, "2", 1, &err) == LSM_SST_INVALID,
      "keys out of order are refused");
  Note(err);
  LsmSstProperties props;
  Check(lsm_sst_writer_add(writer, "c", 1, nullptr, 0, &err) == LSM_SST_OK &&
            lsm_sst_writer_finish(writer, &props, &err) == LSM_SST_OK &&
            props.entries == 2,
        "and the file goes on without them");
  good = lsm_sst_writer_open(path.c_str(), LSM_COMPRESSION_NONE, &writer,
                             &err) == LSM_SST_OK &&
         lsm_sst_writer_add(writer, "b", 1, "1", 1, &err) == LSM_SST_OK;
  lsm_sst_writer_abandon(writer);
  Check(good && !Exists(path), "abandon removes the file");
  lsm_sst_writer_abandon(nullptr);

  Check(lsm_sst_sync_dir(scratch.c_str(), &err) == LSM_SST_OK, "sync_dir");
  Check(lsm_sst_sync_dir("/nonexistent", &err) == LSM_SST_MISSING,
        "sync_dir of a missing directory");

  const std::string blob_path = Path("x.flt");
  LsmSstBlob blob;
  Check(lsm_sst_map_blob(blob_path.c_str(), &blob, &err) == LSM_SST_MISSING &&
            blob.data == nullptr,
        "missing filter file");
  Note(err);
  Check(lsm_sst_write_blob(blob_path.c_str(), noise.data(), noise.size(),
                           &err) == LSM_SST_OK &&
            lsm_sst_write_blob(blob_path.c_str(), "short", 5, &err) ==
                LSM_SST_OK &&
            ReadFile(blob_path) == "short",
        "write_blob truncates");
  Check(lsm_sst_write_blob(blob_path.c_str(), noise.data(), noise.size(),
                           &err) == LSM_SST_OK &&
            lsm_sst_map_blob(blob_path.c_str(), &blob, &err) == LSM_SST_OK &&
            blob.bytes == noise.size() &&
            memcmp(blob.data, noise.data(), noise.size()) == 0 &&
            reinterpret_cast<uintptr_t>(blob.data) % 4096 == 0,
        "map_blob");
  lsm_sst_unmap_blob(&blob);
  Check(blob.data == nullptr, "unmap_blob");
  unlink(blob_path.c_str());
  Check(strncmp(lsm_sst_library_version(), "RocksDB ", 8) == 0, "library is %s",
        lsm_sst_library_version());
}

// ---- damage ----

// Reads everything in a damaged file: walks both ways, seeks, verifies.
// Returns false if any answer was wrong; *failed tells whether any was refused.
bool ReadDamaged(const std::string& path, const Entries& entries,
                 const std::vector<std::string>& keys, std::mt19937_64* rng,
                 bool verify, bool* failed) {
  LsmSstError err;
  LsmSstReader* reader;
  *failed = false;
  err.message[0] = '\0';
  LsmSstStatus status = lsm_sst_open(path.c_str(), &reader, &err);
  if (status != LSM_SST_OK) {
    *failed = true;
    return (status == LSM_SST_CORRUPT || status == LSM_SST_UNSUPPORTED) &&
           strstr(err.message, path.c_str()) != nullptr;
  }
  bool right = true;
  LsmSstIter* it;
  lsm_sst_iter_open(reader, &it, &err);
  status = lsm_sst_iter_first(it, &err);
  auto at = entries.begin();
  while (status == LSM_SST_OK && right) {
    right = At(it, entries, at);
    if (at == entries.end()) break;
    ++at;
    status = lsm_sst_iter_next(it, &err);
  }
  if (status != LSM_SST_OK) {
    *failed = true;
    right = right && !lsm_sst_iter_valid(it) &&
            (status == LSM_SST_CORRUPT || status == LSM_SST_UNSUPPORTED);
  }
  for (int i = 0; i < 8 && right; i++) {
    const std::string key = ProbeKey(keys, rng);
    status = lsm_sst_iter_seek(it, key.data(), key.size(), &err);
    if (status != LSM_SST_OK)
      *failed = true;
    else
      right = At(it, entries, entries.lower_bound(key));
    at = entries.upper_bound(key);
    at = at == entries.begin() ? entries.end() : std::prev(at);
    status = lsm_sst_iter_seek_last(it, key.data(), key.size(), &err);
    if (status != LSM_SST_OK)
      *failed = true;
    else
      right = right && At(it, entries, at);
  }
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  if (verify && right) {
    status = lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr, &err);
    if (status != LSM_SST_OK) *failed = true;
  }
  return right;
}

void TestDamage(int flips) {
  std::mt19937_64 rng(99);
  for (const LsmCompression compression : kCompressions) {
    const char* name = CompressionName(compression);
    Entries entries;
    for (int i = 0; i < 700; i++) {
      std::string key = RandomKey(&rng);
      entries.emplace(key.substr(0, 100),
                      std::string(static_cast<size_t>(rng() % 50), 'v'));
    }
    const std::vector<std::string> keys = KeysOf(entries);
    const std::string path = Path("damage.sst");
    LsmSstError err;
    LsmSstProperties props;
    if (WriteEntries(path, compression, entries, &props, &err) != LSM_SST_OK) {
      Check(false, "%s: %s", name, err.message);
      continue;
    }
    const std::string image = ReadFile(path);
    bool right = true, failed;

    // Truncation: every length near an edge, every 61st elsewhere.
    size_t accepted = 0, lengths = 0;
    for (size_t bytes = 0; bytes < image.size() && right; bytes++) {
      const bool edge =
          bytes < 64 || image.size() - bytes < 600 ||
          (bytes + 64 > props.data_bytes && bytes < props.data_bytes + 64);
      if (!edge && bytes % 61 != 0) continue;
      WriteFile(path, image.data(), bytes);
      right = ReadDamaged(path, entries, keys, &rng, false, &failed);
      if (!failed) accepted++;
      lengths++;
    }
    Check(right && accepted == 0, "%s: %zu truncations are all noticed", name,
          lengths);

    // Bytes missing from, or added to, the middle.
    accepted = 0;
    for (int i = 0; i < 200 && right; i++) {
      std::string damaged = image;
      const size_t where = rng() % props.data_bytes;
      if (i % 2 == 0)
        damaged.erase(where, 1 + rng() % 100);
      else
        damaged.insert(where, 1 + rng() % 100, '\0');
      WriteFile(path, damaged.data(), damaged.size());
      right = ReadDamaged(path, entries, keys, &rng, false, &failed);
      if (!failed) accepted++;
    }
    Check(right && accepted == 0, "%s: shifted contents are noticed", name);

    // Single bits.
    size_t accepted_data = 0, accepted_rest = 0;
    for (int i = 0; i < flips && right; i++) {
      std::string damaged = image;
      // The tail is small and has the most structure: half of the flips.
      const size_t where =
          i % 2 == 0
              ? rng() % props.data_bytes
              : props.data_bytes + rng() % (image.size() - props.data_bytes);
      damaged[where] = static_cast<char>(damaged[where] ^ (1 << (rng() % 8)));
      WriteFile(path, damaged.data(), damaged.size());
      right = ReadDamaged(path, entries, keys, &rng, i % 16 == 0, &failed);
      if (!failed) (where < props.data_bytes ? accepted_data : accepted_rest)++;
    }
    Check(right && accepted_data == 0,
          "%s: %d flipped bits, those in the data all noticed", name, flips);
    // Only the padding of the footer, 40 bytes less two handles, may pass.
    Check(accepted_rest < static_cast<size_t>(flips) / 10,
          "%s: %zu flips in unused bytes passed", name, accepted_rest);

    // Damage with a good checksum: bounds are all that is left.  The values
    // may then be wrong, but nothing may crash.
    for (int i = 0; i < flips / 4; i++) {
      std::string damaged = image;
      for (int n = 0; n < 3; n++) {
        const size_t where = rng() % image.size();
        damaged[where] = static_cast<char>(rng());
      }
      WriteFile(path, damaged.data(), damaged.size());
      LsmSstReader* reader;
      if (lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_OK)
        lsm_sst_close(reader);
    }
    unlink(path.c_str());
  }
}

// Blocks damaged after their checksum was compared: only the bounds are left.
// The mapping is shared, so writing to the file changes what the reader sees.
void TestDamageBehindChecksum(int rounds) {
  std::mt19937_64 rng(5);
  const Entries entries = RandomEntries(2000, 77);
  const std::vector<std::string> keys = KeysOf(entries);
  const std::string path = Path("behind.sst");
  LsmSstError err;
  LsmSstProperties props;
  LsmSstReader* reader;
  LsmSstIter* it;
  if (WriteEntries(path, LSM_COMPRESSION_NONE, entries, &props, &err) !=
          LSM_SST_OK ||
      lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK) {
    Check(false, "%s", err.message);
    return;
  }
  lsm_sst_iter_open(reader, &it, &err);
  lsm_sst_iter_first(it, &err);
  while (lsm_sst_iter_valid(it)) lsm_sst_iter_next(it, &err);
  const std::string image = ReadFile(path);
  const int fd = open(path.c_str(), O_WRONLY);
  int refused = 0;
  for (int i = 0; i < rounds; i++) {
    // Data and index, never the same twice.
    for (int n = 0; n < 50; n++) {
      const char byte = static_cast<char>(rng());
      if (pwrite(fd, &byte, 1, static_cast<off_t>(rng() % image.size())) != 1)
        abort();
    }
    for (int n = 0; n < 40; n++) {
      const std::string key = ProbeKey(keys, &rng);
      LsmSstStatus status =
          n % 2 == 0 ? lsm_sst_iter_seek(it, key.data(), key.size(), &err)
                     : lsm_sst_iter_seek_last(it, key.data(), key.size(), &err);
      for (int step = 0; step < 30 && status == LSM_SST_OK; step++) {
        if (!lsm_sst_iter_valid(it)) break;
        size_t bytes;
        const void* value = lsm_sst_iter_value(it, &bytes);
        std::string copy(static_cast<const char*>(value), bytes);
        status = n % 4 < 2 ? lsm_sst_iter_next(it, &err)
                           : lsm_sst_iter_prev(it, &err);
      }
      if (status != LSM_SST_OK) refused++;
    }
    if (pwrite(fd, image.data(), image.size(), 0) !=
        static_cast<ssize_t>(image.size()))
      abort();
  }
  close(fd);
  Check(true, "damage behind the checksum: %d refused, no crash", refused);
  RandomOperations(reader, entries, 2000, "and undamaged again");
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  unlink(path.c_str());
}

// ---- full disk ----

void TestDiskFull() {
  const std::string dir = Path("full");
  mkdir(dir.c_str(), 0700);
  if (mount("tmpfs", dir.c_str(), "tmpfs", 0, "size=1m") != 0) {
    Check(true, "full disk # SKIP cannot mount: %s", strerror(errno));
    rmdir(dir.c_str());
    return;
  }
  LsmSstError err;
  const std::string path = dir + "/x.sst";
  const std::string value(1000, 'x');
  LsmSstWriter* writer;
  LsmSstStatus status =
      lsm_sst_writer_open(path.c_str(), LSM_COMPRESSION_NONE, &writer, &err);
  Check(status == LSM_SST_OK, "full disk: writer opened");
  int added = 0;
  while (status == LSM_SST_OK && added < 4000) {
    char key[16];
    snprintf(key, sizeof(key), "%08d", added);
    status =
        lsm_sst_writer_add(writer, key, 8, value.data(), value.size(), &err);
    if (status == LSM_SST_OK) added++;
  }
  Check(status == LSM_SST_DISK_FULL && err.sys_errno == ENOSPC && added < 1500,
        "full disk: add fails after %d kB", added);
  Note(err);
  Check(lsm_sst_writer_add(writer, "z", 1, "", 0, &err) == LSM_SST_DISK_FULL,
        "full disk: a failed writer takes no more");
  status = lsm_sst_writer_finish(writer, nullptr, &err);
  Check(status == LSM_SST_DISK_FULL && !Exists(path),
        "full disk: finish fails too and removes the file");
  Note(err);

  // Full only when the last buffer is written.
  const std::string filler = dir + "/filler";
  const std::string most(900 * 1024, 'f');
  Check(lsm_sst_write_blob(filler.c_str(), most.data(), most.size(), &err) ==
            LSM_SST_OK,
        "full disk: blob that fits");
  status =
      lsm_sst_writer_open(path.c_str(), LSM_COMPRESSION_NONE, &writer, &err);
  for (int i = 0; i < 180 && status == LSM_SST_OK; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%08d", i);
    status =
        lsm_sst_writer_add(writer, key, 8, value.data(), value.size(), &err);
  }
  // Depending on the buffer, it is noticed here or at the end.
  LsmSstError finish_err;
  const LsmSstStatus finished =
      lsm_sst_writer_finish(writer, nullptr, &finish_err);
  Check((status == LSM_SST_DISK_FULL || finished == LSM_SST_DISK_FULL) &&
            finished != LSM_SST_OK && !Exists(path),
        "full disk: noticed at the end");
  Note(finish_err);

  const std::string blob = dir + "/x.flt";
  status = lsm_sst_write_blob(blob.c_str(), most.data(), most.size(), &err);
  Check(status == LSM_SST_DISK_FULL && err.sys_errno == ENOSPC && !Exists(blob),
        "full disk: blob");
  Note(err);
  umount(dir.c_str());
  rmdir(dir.c_str());
}

// ---- SIGBUS ----

void PreviousHandler(int) { _exit(42); }

void TestBusError() {
  const Entries entries = RandomEntries(20000, 3);
  const std::vector<std::string> keys = KeysOf(entries);
  std::mt19937_64 rng(11);
  LsmSstError err;
  for (const LsmCompression compression :
       {LSM_COMPRESSION_NONE, LSM_COMPRESSION_LZ4}) {
    const std::string path = Path("bus.sst");
    LsmSstReader* reader;
    LsmSstIter* it;
    if (WriteEntries(path, compression, entries, nullptr, &err) != LSM_SST_OK ||
        lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK ||
        lsm_sst_iter_open(reader, &it, &err) != LSM_SST_OK ||
        lsm_sst_iter_first(it, &err) != LSM_SST_OK) {
      Check(false, "%s", err.message);
      return;
    }
    // Index and all but the first block are gone.
    if (truncate(path.c_str(), 4096) != 0) abort();
    int faults = 0, others = 0;
    for (int i = 0; i < 100; i++) {
      const std::string& key = keys[rng() % keys.size()];
      const LsmSstStatus status =
          i % 2 == 0 ? lsm_sst_iter_seek(it, key.data(), key.size(), &err)
                     : lsm_sst_iter_seek_last(it, key.data(), key.size(), &err);
      if (status == LSM_SST_IO_ERROR && err.sys_errno == EIO &&
          !lsm_sst_iter_valid(it))
        faults++;
      else
        others++;
    }
    Check(faults > 0 && others == 0,
          "%s: truncated under the mapping: %d errors",
          CompressionName(compression), faults);
    Note(err);
    Check(lsm_sst_iter_last(it, &err) == LSM_SST_IO_ERROR,
          "%s: and so does last", CompressionName(compression));
    lsm_sst_iter_close(it);
    lsm_sst_close(reader);
    unlink(path.c_str());
  }

  // While stepping: what was read stays good, then the error.
  const std::string path = Path("bus.sst");
  LsmSstReader* reader;
  LsmSstIter* it;
  WriteEntries(path, LSM_COMPRESSION_NONE, entries, nullptr, &err);
  lsm_sst_open(path.c_str(), &reader, &err);
  lsm_sst_iter_open(reader, &it, &err);
  auto at = entries.lower_bound(keys[keys.size() / 2]);
  lsm_sst_iter_seek(it, at->first.data(), at->first.size(), &err);
  bool good = true;
  LsmSstStatus status = LSM_SST_OK;
  if (truncate(path.c_str(), 8192) != 0) abort();
  int steps = 0;
  while (status == LSM_SST_OK && good) {
    good = At(it, entries, at++);
    steps++;
    status = lsm_sst_iter_next(it, &err);
  }
  Check(good && status == LSM_SST_IO_ERROR, "error at step %d of a scan",
        steps);
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  unlink(path.c_str());

  // A filter file reads as ones where it cannot be read.
  const std::string blob_path = Path("bus.flt");
  const std::string zeros(65536, '\0');
  LsmSstBlob blob;
  lsm_sst_write_blob(blob_path.c_str(), zeros.data(), zeros.size(), &err);
  lsm_sst_map_blob(blob_path.c_str(), &blob, &err);
  if (truncate(blob_path.c_str(), 4096) != 0) abort();
  const uint64_t before = lsm_sst_blob_faults();
  const volatile uint8_t* bytes = static_cast<const uint8_t*>(blob.data);
  good = bytes[0] == 0 && bytes[5000] == 0xff && bytes[65535] == 0xff;
  Check(good && lsm_sst_blob_faults() == before + 2,
        "unreadable pages of a filter file read as ones");
  lsm_sst_unmap_blob(&blob);
  unlink(blob_path.c_str());

  // Somebody else's fault goes to somebody else's handler.
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const std::string other = Path("bus.other");
    WriteFile(other, zeros.data(), zeros.size());
    const int fd = open(other.c_str(), O_RDWR);
    void* map = mmap(nullptr, zeros.size(), PROT_READ, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0) != 0) _exit(1);
    unlink(other.c_str());
    _exit(static_cast<volatile uint8_t*>(map)[100] + 1);
  }
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  Check(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 42,
        "faults elsewhere reach the previous handler");
}

// ---- measurement ----

double Nanoseconds() {
  return static_cast<double>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// The fast decile of many chunks: the machine is shared.
double FastDecile(std::vector<double> chunks) {
  std::sort(chunks.begin(), chunks.end());
  return chunks[chunks.size() / 10];
}

void Bench(int count, size_t key_bytes, size_t value_bytes,
           LsmCompression compression) {
  std::mt19937_64 rng(1);
  Entries entries;
  while (entries.size() < static_cast<size_t>(count)) {
    std::string key(key_bytes, 'k');
    const uint64_t number = __builtin_bswap64(rng());
    memcpy(&key[key_bytes - 8], &number, 8);
    std::string value(value_bytes, 'v');
    for (size_t i = 0; i < value_bytes / 2; i++)
      value[i] = static_cast<char>(rng());
    entries.emplace(std::move(key), std::move(value));
  }
  std::vector<std::string> keys = KeysOf(entries);
  std::shuffle(keys.begin(), keys.end(), rng);
  if (keys.size() > 200000) keys.resize(200000);
  const std::string path = Path("bench.sst");
  LsmSstError err;
  LsmSstProperties props;
  const double write_start = Nanoseconds();
  if (WriteEntries(path, compression, entries, &props, &err) != LSM_SST_OK) {
    printf("# %s\n", err.message);
    return;
  }
  const double write_ns = Nanoseconds() - write_start;

  std::vector<double> opens, ours, theirs, scans;
  LsmSstReader* reader;
  for (int i = 0; i < 200; i++) {
    const double start = Nanoseconds();
    lsm_sst_open(path.c_str(), &reader, &err);
    opens.push_back(Nanoseconds() - start);
    if (i < 199) lsm_sst_close(reader);
  }
  LsmSstIter* it;
  lsm_sst_iter_open(reader, &it, &err);
  rocksdb::SstFileReader rocks(lsm_sst::SstOptions(rocksdb::kNoCompression));
  rocksdb::Options mmap_options = lsm_sst::SstOptions(rocksdb::kNoCompression);
  mmap_options.allow_mmap_reads = true;
  rocksdb::SstFileReader rocks_mmap(mmap_options);
  rocks_mmap.Open(path);
  rocksdb::ReadOptions read_options;
  read_options.verify_checksums = false;
  std::unique_ptr<rocksdb::Iterator> rocks_it(
      rocks_mmap.NewIterator(read_options));

  // Warm: every block was touched once.
  const double scan_start = Nanoseconds();
  lsm_sst_iter_first(it, &err);
  while (lsm_sst_iter_valid(it)) lsm_sst_iter_next(it, &err);
  const double first_scan_ns = Nanoseconds() - scan_start;
  for (int i = 0; i < 5; i++) {
    const double start = Nanoseconds();
    lsm_sst_iter_first(it, &err);
    while (lsm_sst_iter_valid(it)) lsm_sst_iter_next(it, &err);
    scans.push_back(Nanoseconds() - start);
  }
  for (rocks_it->SeekToFirst(); rocks_it->Valid();) rocks_it->Next();

  constexpr size_t kChunk = 2000;
  uint64_t sum = 0;
  for (size_t i = 0; i + kChunk <= keys.size(); i += kChunk) {
    double start = Nanoseconds();
    for (size_t j = i; j < i + kChunk; j++) {
      lsm_sst_iter_seek(it, keys[j].data(), keys[j].size(), &err);
      size_t bytes;
      sum += *static_cast<const uint8_t*>(lsm_sst_iter_value(it, &bytes));
    }
    ours.push_back((Nanoseconds() - start) / kChunk);
    start = Nanoseconds();
    for (size_t j = i; j < i + kChunk; j++) {
      rocks_it->Seek(keys[j]);
      sum += static_cast<uint8_t>(rocks_it->value()[0]);
    }
    theirs.push_back((Nanoseconds() - start) / kChunk);
  }
  printf(
      "# %s, %d entries of %zu + %zu bytes, %.0f MB: found key %.0f ns, "
      "SstFileReader iterator (mmap) %.0f ns; open %.1f us; scan %.0f ns per "
      "entry first, %.0f then; write %.0f MB/s; reader %zu bytes (%llu)\n",
      CompressionName(compression), count, key_bytes, value_bytes,
      static_cast<double>(props.file_bytes) / 1e6, FastDecile(ours),
      FastDecile(theirs), FastDecile(opens) / 1000, first_scan_ns / count,
      FastDecile(scans) / count,
      static_cast<double>(props.raw_key_bytes + props.raw_value_bytes) /
          write_ns * 1000,
      lsm_sst_reader_memory(reader), static_cast<unsigned long long>(sum % 10));
  lsm_sst_iter_close(it);
  rocks_it.reset();
  lsm_sst_close(reader);
  unlink(path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const bool bench = argc > 1 && strcmp(argv[1], "--bench") == 0;
  const int arg = bench ? 2 : 1;
  if (argc > arg) {
    scratch = argv[arg];
  } else {
    char dir[] = "/tmp/lsm_sst_test.XXXXXX";
    if (mkdtemp(dir) == nullptr) {
      printf("Bail out! cannot create a scratch directory\n");
      return 1;
    }
    scratch = dir;
  }

  if (bench) {
    Bench(1000000, 8, 16, LSM_COMPRESSION_NONE);
    Bench(1000000, 8, 100, LSM_COMPRESSION_NONE);
    Bench(1000000, 64, 16, LSM_COMPRESSION_NONE);
    Bench(1000000, 8, 100, LSM_COMPRESSION_LZ4);
    Bench(500000, 8, 100, LSM_COMPRESSION_ZSTD);
  } else {
    // Before the first mapping, so that ours is installed on top of it.
    signal(SIGBUS, PreviousHandler);
    TestErrors();
    TestSmall();
    TestRoundTrip(200000, 300000);
    TestLayouts();
    TestDamage(1500);
    TestDamageBehindChecksum(60);
    TestDiskFull();
    TestBusError();
    printf("1..%d\n", test_count);
  }
  if (argc <= arg) rmdir(scratch.c_str());
  return failure_count == 0 ? 0 : 1;
}
