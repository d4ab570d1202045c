// Unit test of src/sst: TAP on standard output, exit status 0 if all is well.
// Usage: sst_test [directory for scratch files]
//        sst_test --bench [directory]      point seeks against SstFileReader

#include "sst_harness.h"

namespace {

// ---- round trip ----

// LsmSstGoesOn: so many times more.
bool CountDown(void *arg) {
  size_t *left = static_cast<size_t *>(arg);
  return --*left > 0;
}

void TestRoundTrip(size_t count, int operations) {
  const Entries entries = RandomEntries(count, 42);
  uint64_t key_bytes = 0, value_bytes = 0;
  for (const auto &entry : entries) {
    key_bytes += entry.first.size();
    value_bytes += entry.second.size();
  }
  for (const LsmCompression compression : kCompressions) {
    const char *name = CompressionName(compression);
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

    LsmSstReader *reader;
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

    LsmSstIter *it;
    bool good = lsm_sst_iter_open(reader, &it, &err) == LSM_SST_OK;
    good = good && lsm_sst_iter_first(it, &err) == LSM_SST_OK;
    for (auto at = entries.begin(); good; ++at) {
      good = At(it, entries, at);
      if (!lsm_sst_iter_valid(it)) {
        good = at == entries.end();
        break;
      }
      if (at->first.size() % 3 == 0) {
        good = good && lsm_sst_iter_next(it, &err) == LSM_SST_OK;
        continue;
      }
      LsmSstView view;
      size_t bytes;
      good = good && lsm_sst_iter_step(it, &view, &err) == LSM_SST_OK &&
             (view.key != nullptr) == lsm_sst_iter_valid(it);
      if (good && view.key != nullptr)
        good = view.key == lsm_sst_iter_key(it, &bytes) &&
               view.key_bytes == bytes &&
               view.value == lsm_sst_iter_value(it, &bytes) &&
               view.value_bytes == bytes;
    }
    Check(good, "%s: forward scan", name);
    Check(lsm_sst_blocks_read(reader) == props.data_blocks,
          "%s: each block read once by a scan", name);
    LsmSstView none;
    Check(lsm_sst_iter_next(it, &err) == LSM_SST_INVALID &&
              lsm_sst_iter_step(it, &none, &err) == LSM_SST_INVALID &&
              none.key == nullptr,
          "%s: next without an entry is refused", name);
    good = lsm_sst_iter_last(it, &err) == LSM_SST_OK;
    for (auto at = entries.end(); good && at != entries.begin();) {
      good = At(it, entries, --at) && lsm_sst_iter_prev(it, &err) == LSM_SST_OK;
    }
    Check(good && !lsm_sst_iter_valid(it), "%s: backward scan", name);
    lsm_sst_iter_close(it);

    // Still readable when it has no name any more.
    RandomOperations(reader, entries, operations, name);

    const size_t enough = 3 * entries.size();
    size_t left = enough;
    status = lsm_sst_verify(path.c_str(), CountDown, &left, &read_props, &err);
    if (!Check(status == LSM_SST_OK && enough - left == 2 * entries.size() &&
                   memcmp(&props, &read_props, sizeof(props)) == 0,
               "%s: verify agrees with RocksDB", name))
      Note(err);
    // in the first of its walks, and in the second
    for (const size_t stop : {size_t{10}, entries.size() + 10}) {
      left = stop;
      status = lsm_sst_verify(path.c_str(), CountDown, &left, nullptr, &err);
      Check(status == LSM_SST_OK && left == 0, "%s: verify stops when told",
            name);
    }

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
    LsmSstReader *reader;
    LsmSstIter *it;
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

// A block per entry.  Once a file is read a lot, more of its index is kept:
// one sample per block, or one of several blocks if they are very many.
enum class Spread {
  kEven,
  kUneven,  // no key is where an even spread would have it
  kTies     // keys differ behind what a sample holds
};

void TestManyBlocks(uint64_t count, Spread spread, LsmCompression compression,
                    size_t most_bytes = 300 * 1024) {
  const auto key_of = [spread](uint64_t i) {
    const uint64_t number = spread == Spread::kTies ? (i / 200) << 32 | i % 200
                            : spread == Spread::kUneven ? (i * i) << 20
                                                        : i << 20;
    char bytes[8];
    for (int j = 0; j < 8; j++)
      bytes[j] = static_cast<char>(number >> (56 - 8 * j));
    return std::string(bytes, sizeof(bytes));
  };
  Entries entries;
  for (uint64_t i = 0; i < count; i++)
    entries[key_of(2 * i)] =
        std::string(compression == LSM_COMPRESSION_NONE ? 4200 : 2100,
                    static_cast<char>('a' + i % 7));
  LsmSstError err;
  LsmSstReader *reader;
  LsmSstIter *it;
  LsmSstProperties props;
  const std::string path = Path("blocks.sst");
  if (!Check(WriteEntries(path, compression, entries, &props, &err) ==
                     LSM_SST_OK &&
                 lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_OK &&
                 lsm_sst_iter_open(reader, &it, &err) == LSM_SST_OK &&
                 lsm_sst_properties(reader)->data_blocks == count,
             "a file of %llu blocks", static_cast<unsigned long long>(count)))
    return;
  const size_t cold_bytes = lsm_sst_reader_memory(reader);
  bool good = true;
  for (uint64_t i = 0; i < 2 * count + 2 && good; i += i < 300 ? 1 : 13) {
    const std::string key = key_of(i);
    auto at = entries.lower_bound(key);
    lsm_sst_prefetch(reader, key.data(), key.size());
    good = lsm_sst_iter_seek(it, key.data(), key.size(), &err) == LSM_SST_OK &&
           At(it, entries, at);
    // A point lookup.
    if (at != entries.end() && at->first != key) at = entries.end();
    good = good &&
           lsm_sst_iter_seek_prefix(it, key.data(), key.size(), key.size(),
                                    &err) == LSM_SST_OK &&
           At(it, entries, at);
  }
  Check(good, "its keys and those between, %s",
        spread == Spread::kTies     ? "with ties"
        : spread == Spread::kUneven ? "unevenly spread"
                                    : "without ties");
  const size_t hot_bytes = lsm_sst_reader_memory(reader);
  Check(hot_bytes > cold_bytes && hot_bytes < most_bytes &&
            (most_bytes < count * 8 || hot_bytes > count * 8),
        "it keeps more of its index, but not too much (%zu, %zu bytes)",
        cold_bytes, hot_bytes);
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  unlink(path.c_str());
}

// Large files are searched in one way as long as one of them has taken the
// memory that all of them have for the other.
void TestLargeFiles() {
  constexpr uint64_t kCount = 70000;
  constexpr size_t kHotBytes = kCount * 8;
  Entries entries;
  for (uint64_t i = 0; i < kCount; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%08llu", static_cast<unsigned long long>(i));
    entries[key] = std::string(2100, static_cast<char>('a' + i % 7));
  }
  const std::string path = Path("large.sst");
  LsmSstError err;
  LsmSstReader *readers[2];
  bool good = WriteEntries(path, LSM_COMPRESSION_LZ4, entries, nullptr, &err) ==
              LSM_SST_OK;
  for (int i = 0; i < 2 && good; i++) {
    LsmSstIter *it;
    good = lsm_sst_open(path.c_str(), &readers[i], &err) == LSM_SST_OK &&
           lsm_sst_iter_open(readers[i], &it, &err) == LSM_SST_OK;
    for (auto at = entries.begin(); good && at != entries.end();) {
      good = lsm_sst_iter_seek_prefix(it, at->first.data(), at->first.size(),
                                      at->first.size(), &err) == LSM_SST_OK &&
             At(it, entries, at);
      for (int step = 0; step < 97 && at != entries.end(); step++) ++at;
    }
    if (good) lsm_sst_iter_close(it);
  }
  if (!Check(good, "two readers of a file of %llu blocks",
             static_cast<unsigned long long>(kCount)))
    return;
  Check(lsm_sst_reader_memory(readers[0]) > kHotBytes &&
            lsm_sst_reader_memory(readers[1]) < 300 * 1024,
        "only one of them may keep all of the index (%zu, %zu bytes)",
        lsm_sst_reader_memory(readers[0]), lsm_sst_reader_memory(readers[1]));
  TestManyBlocks(kCount, Spread::kEven, LSM_COMPRESSION_LZ4);
  TestManyBlocks(kCount, Spread::kTies, LSM_COMPRESSION_LZ4);
  for (LsmSstReader *reader : readers) lsm_sst_close(reader);
  unlink(path.c_str());
  TestManyBlocks(kCount, Spread::kEven, LSM_COMPRESSION_LZ4, 600 * 1024);
  TestManyBlocks(kCount, Spread::kTies, LSM_COMPRESSION_LZ4, 600 * 1024);
}

// No two files have the same tail, be their entries the same.
void TestIdentity() {
  const Entries entries = RandomEntries(500, 77);
  uint64_t digests[3] = {};
  for (int i = 0; i < 3; i++) {
    const std::string path = Path("identity.sst");
    LsmSstError err;
    LsmSstReader *reader = nullptr;
    Check(WriteEntries(path, LSM_COMPRESSION_NONE, entries, nullptr, &err) ==
                  LSM_SST_OK &&
              lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_OK,
          "file %d of the same entries", i);
    digests[i] = lsm_sst_properties(reader)->tail_digest;
    lsm_sst_close(reader);
    Check(lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_OK &&
              lsm_sst_properties(reader)->tail_digest == digests[i],
          "its tail has the same digest when it is opened again");
    lsm_sst_close(reader);
    unlink(path.c_str());
  }
  Check(digests[0] != digests[1] && digests[0] != digests[2] &&
            digests[1] != digests[2],
        "tails of different files have different digests");
}

// Other layouts RocksDB writes: readable, or refused, never misread.
void TestLayouts() {
  const Entries entries = RandomEntries(5000, 5);
  const std::string path = Path("layout.sst");
  enum Expect { kReadable, kRefused };
  struct Layout {
    const char *name;
    Expect expect;
    void (*change)(rocksdb::BlockBasedTableOptions *, rocksdb::Options *);
  };
  using Table = rocksdb::BlockBasedTableOptions;
  const Layout layouts[] = {
      {"format version 2", kReadable,
       [](Table *t, rocksdb::Options *) { t->format_version = 2; }},
      {"format version 3", kReadable,
       [](Table *t, rocksdb::Options *) { t->format_version = 3; }},
      {"format version 4", kReadable,
       [](Table *t, rocksdb::Options *) { t->format_version = 4; }},
      {"16 kB blocks", kReadable,
       [](Table *t, rocksdb::Options *) { t->block_size = 16384; }},
      {"restart interval 1", kReadable,
       [](Table *t, rocksdb::Options *) { t->block_restart_interval = 1; }},
      {"restart interval 100", kReadable,
       [](Table *t, rocksdb::Options *) { t->block_restart_interval = 100; }},
      {"no key delta encoding", kReadable,
       [](Table *t, rocksdb::Options *) { t->use_delta_encoding = false; }},
      {"LZ4, restart interval 1", kReadable,
       [](Table *t, rocksdb::Options *o) {
         t->block_restart_interval = 1;
         o->compression = rocksdb::kLZ4Compression;
       }},
      {"LZ4, restart interval 100", kReadable,
       [](Table *t, rocksdb::Options *o) {
         t->block_restart_interval = 100;
         o->compression = rocksdb::kLZ4Compression;
       }},
      {"LZ4, no key delta encoding", kReadable,
       [](Table *t, rocksdb::Options *o) {
         t->use_delta_encoding = false;
         o->compression = rocksdb::kLZ4Compression;
       }},
      {"unshortened index", kReadable,
       [](Table *t, rocksdb::Options *) {
         t->index_shortening = Table::IndexShorteningMode::kNoShortening;
       }},
      {"shortest index", kReadable,
       [](Table *t, rocksdb::Options *) {
         t->index_shortening =
             Table::IndexShorteningMode::kShortenSeparatorsAndSuccessor;
       }},
      {"Bloom filter", kReadable,
       [](Table *t, rocksdb::Options *) {
         t->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
       }},
      {"index restart interval 16", kRefused,
       [](Table *t, rocksdb::Options *) {
         t->index_block_restart_interval = 16;
       }},
      {"CRC32c", kRefused,
       [](Table *t, rocksdb::Options *) { t->checksum = rocksdb::kCRC32c; }},
      {"data block hash index", kRefused,
       [](Table *t, rocksdb::Options *) {
         t->data_block_index_type = Table::kDataBlockBinaryAndHash;
       }},
      {"partitioned index", kRefused,
       [](Table *t, rocksdb::Options *) {
         t->index_type = Table::kTwoLevelIndexSearch;
       }},
      {"index with first keys", kRefused,
       [](Table *t, rocksdb::Options *) {
         t->index_type = Table::kBinarySearchWithFirstKey;
       }},
      {"compressed index", kRefused,
       [](Table *t, rocksdb::Options *o) {
         t->enable_index_compression = true;
         o->compression = rocksdb::kLZ4Compression;
       }},
      {"dictionary", kRefused,
       [](Table *, rocksdb::Options *o) {
         o->compression = rocksdb::kZSTD;
         o->compression_opts.max_dict_bytes = 4096;
       }},
      {"snappy", kRefused,
       [](Table *, rocksdb::Options *o) {
         o->compression = rocksdb::kSnappyCompression;
       }},
      {"reverse comparator", kRefused,
       [](Table *, rocksdb::Options *o) {
         o->comparator = rocksdb::ReverseBytewiseComparator();
       }},
  };
  for (const Layout &layout : layouts) {
    rocksdb::Options options = lsm_sst::SstOptions(rocksdb::kNoCompression);
    Table table = lsm_sst::TableOptions(rocksdb::kNoCompression);
    layout.change(&table, &options);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options, nullptr,
                                  false);
    bool good = writer.Open(path).ok();
    if (options.comparator == rocksdb::BytewiseComparator()) {
      for (const auto &entry : entries)
        good = good && writer.Put(entry.first, entry.second).ok();
    } else {
      for (auto at = entries.rbegin(); at != entries.rend(); ++at)
        good = good && writer.Put(at->first, at->second).ok();
    }
    good = good && writer.Finish().ok();
    LsmSstError err;
    const LsmSstStatus status =
        lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr, &err);
    if (layout.expect == kReadable) {
      good = good && status == LSM_SST_OK && HoldsExactly(path, entries);
      if (!good) Note(err);
      LsmSstReader *reader;
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
    LsmSstReader *reader;
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
  LsmSstReader *reader;
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

  LsmSstWriter *writer;
  Check(lsm_sst_writer_open("/nonexistent/x.sst", 0600, LSM_COMPRESSION_NONE, &writer,
                            &err) == LSM_SST_MISSING &&
            writer == nullptr,
        "writer in a missing directory");
  Note(err);
  Check(lsm_sst_writer_open(scratch.c_str(), 0600, LSM_COMPRESSION_NONE, &writer,
                            &err) == LSM_SST_IO_ERROR,
        "writer over a directory");
  Check(lsm_sst_writer_open(path.c_str(), 0600, static_cast<LsmCompression>(99),
                            &writer, &err) == LSM_SST_INVALID &&
            !Exists(path),
        "unknown compression");
  bool good = lsm_sst_writer_open(path.c_str(), 0600, LSM_COMPRESSION_NONE, &writer,
                                  &err) == LSM_SST_OK;
  Check(good &&
            lsm_sst_writer_finish(writer, nullptr, &err) == LSM_SST_INVALID &&
            !Exists(path),
        "finish without entries removes the file");
  Note(err);
  good = lsm_sst_writer_open(path.c_str(), 0600, LSM_COMPRESSION_NONE, &writer,
                             &err) == LSM_SST_OK &&
         lsm_sst_writer_add(writer, "b", 1, "1", 1, nullptr, &err) == LSM_SST_OK;
  Check(
      good &&
          lsm_sst_writer_add(writer, "b", 1, "2", 1, nullptr, &err) == LSM_SST_INVALID &&
          lsm_sst_writer_add(writer, "a", 1, "2", 1, nullptr, &err) == LSM_SST_INVALID,
      "keys out of order are refused");
  Note(err);
  LsmSstProperties props;
  Check(lsm_sst_writer_add(writer, "c", 1, nullptr, 0, nullptr, &err) == LSM_SST_OK &&
            lsm_sst_writer_finish(writer, &props, &err) == LSM_SST_OK &&
            props.entries == 2,
        "and the file goes on without them");
  Check(Mode(path) == 0600, "sorted file has the mode asked for, %o", Mode(path));
  const std::string before = ReadFile(path);
  Check(lsm_sst_writer_open(path.c_str(), 0600, LSM_COMPRESSION_NONE, &writer, &err) ==
                LSM_SST_IO_ERROR &&
            err.sys_errno == EEXIST && writer == nullptr &&
            ReadFile(path) == before,
        "a file that exists is neither written over nor removed");
  Note(err);
  unlink(path.c_str());
  good = lsm_sst_writer_open(path.c_str(), 0640, LSM_COMPRESSION_NONE, &writer,
                             &err) == LSM_SST_OK &&
         lsm_sst_writer_add(writer, "b", 1, "1", 1, nullptr, &err) == LSM_SST_OK;
  Check(good && Mode(path) == 0640, "sorted file that the group may read");
  lsm_sst_writer_abandon(writer);
  Check(good && !Exists(path), "abandon removes the file");
  lsm_sst_writer_abandon(nullptr);

  const std::string blob_path = Path("x.flt");
  LsmSstBlob blob;
  Check(lsm_sst_map_blob(blob_path.c_str(), &blob, &err) == LSM_SST_MISSING &&
            blob.data == nullptr,
        "missing filter file");
  Note(err);
  Check(lsm_sst_write_blob(blob_path.c_str(), 0600, noise.data(), noise.size(),
                           &err) == LSM_SST_OK &&
            lsm_sst_write_blob(blob_path.c_str(), 0600, "short", 5, &err) ==
                LSM_SST_IO_ERROR &&
            err.sys_errno == EEXIST && Exists(blob_path),
        "write_blob leaves a file that exists alone");
  Check(lsm_sst_map_blob(blob_path.c_str(), &blob, &err) == LSM_SST_OK &&
            blob.bytes == noise.size() &&
            memcmp(blob.data, noise.data(), noise.size()) == 0 &&
            reinterpret_cast<uintptr_t>(blob.data) % 4096 == 0,
        "map_blob");
  lsm_sst_unmap_blob(&blob);
  Check(blob.data == nullptr, "unmap_blob");
  unlink(blob_path.c_str());
  Check(lsm_sst_write_blob(blob_path.c_str(), 0640, "short", 5, &err) ==
                LSM_SST_OK &&
            Mode(blob_path) == 0640,
        "filter file that the group may read");
  unlink(blob_path.c_str());
  Check(strncmp(lsm_sst_library_version(), "RocksDB ", 8) == 0, "library is %s",
        lsm_sst_library_version());
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
  LsmSstReader *reader;
  for (int i = 0; i < 200; i++) {
    const double start = Nanoseconds();
    lsm_sst_open(path.c_str(), &reader, &err);
    opens.push_back(Nanoseconds() - start);
    if (i < 199) lsm_sst_close(reader);
  }
  LsmSstIter *it;
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
      sum += *static_cast<const uint8_t *>(lsm_sst_iter_value(it, &bytes));
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

int main(int argc, char **argv) {
  if (!Begin(argc, argv)) return 1;
  if (bench) {
    Bench(1000000, 8, 16, LSM_COMPRESSION_NONE);
    Bench(1000000, 8, 100, LSM_COMPRESSION_NONE);
    Bench(1000000, 64, 16, LSM_COMPRESSION_NONE);
    Bench(1000000, 8, 100, LSM_COMPRESSION_LZ4);
    Bench(500000, 8, 100, LSM_COMPRESSION_ZSTD);
  } else {
    TestErrors();
    TestSmall();
    TestManyBlocks(20000, Spread::kEven, LSM_COMPRESSION_LZ4);
    TestManyBlocks(20000, Spread::kTies, LSM_COMPRESSION_LZ4);
    TestManyBlocks(20000, Spread::kUneven, LSM_COMPRESSION_LZ4);
    TestManyBlocks(2000, Spread::kEven, LSM_COMPRESSION_NONE);
    TestManyBlocks(2000, Spread::kUneven, LSM_COMPRESSION_NONE);
    if (!ShortForm()) TestLargeFiles();
    TestIdentity();
    TestRoundTrip(200000, ShortForm() ? 30000 : 300000);
    TestLayouts();
  }
  return End();
}
