// Unit test of writing sorted files (src/sst/writer.cc): against
// rocksdb::SstFileWriter, whose files they have to be, byte for byte but for
// who wrote them, and for what LZ4 makes of a block; and read back.
// Usage: sst_write_test [directory for scratch files]
//        sst_write_test --bench [directory]   ns per entry, both writers

#include <rocksdb/table_properties.h>

#include <set>

#include "sst_harness.h"

namespace {

using List = std::vector<std::pair<std::string, std::string>>;

bool WriteReference(const std::string &path, LsmCompression compression,
                    const List &entries) {
  rocksdb::SstFileWriter writer(
      rocksdb::EnvOptions(),
      lsm_sst::SstOptions(lsm_sst::ToRocksDb(compression)), nullptr, false);
  bool good = writer.Open(path).ok();
  for (const auto &entry : entries)
    good = good && writer.Put(entry.first, entry.second).ok();
  return good && writer.Finish().ok();
}

size_t CommonBytes(const std::string &a, const std::string &b) {
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) i++;
  return i;
}

bool WriteOurs(const std::string &path, LsmCompression compression,
               const List &entries, LsmSstProperties *props) {
  LsmSstError err;
  LsmSstWriter *writer;
  LsmSstStatus status =
      lsm_sst_writer_open(path.c_str(), 0600, compression, &writer, &err);
  uint64_t before = 0;
  for (size_t i = 0; i < entries.size() && status == LSM_SST_OK; i++) {
    const std::string &key = entries[i].first, &value = entries[i].second;
    size_t common, last_bytes;
    status = lsm_sst_writer_add(writer, key.data(), key.size(), value.data(),
                                value.size(), &common, &err);
    if (status != LSM_SST_OK) break;
    const void *last = lsm_sst_writer_last_key(writer, &last_bytes);
    if (lsm_sst_writer_bytes(writer) < before || last_bytes != key.size() ||
        memcmp(last, key.data(), last_bytes) != 0 ||
        common != (i == 0 ? 0 : CommonBytes(entries[i - 1].first, key)))
      status = LSM_SST_INVALID;
    before = lsm_sst_writer_bytes(writer);
  }
  if (status == LSM_SST_OK) {
    status = lsm_sst_writer_finish(writer, props, &err);
    if (status == LSM_SST_OK && before > props->data_bytes)
      status = LSM_SST_INVALID;
  }
  if (status != LSM_SST_OK) Note(err);
  return status == LSM_SST_OK;
}

// Where the properties begin: what is before has no room for differences.
size_t DataAndIndexBytes(const LsmSstProperties &props,
                         const rocksdb::TableProperties &theirs) {
  return static_cast<size_t>(props.data_bytes + theirs.index_size);
}

// With the identifier of the session blanked, which is where it is named.
std::string Anonymous(std::string file) {
  const std::string name = "session.identity";
  const size_t at = file.rfind(name);
  if (at != std::string::npos && at + name.size() + 20 < file.size())
    file.replace(at + name.size(), 20, 20, '#');
  return file;
}

// Both checksums cover the identifier.
bool SameButForChecksums(const std::string &a, const std::string &b) {
  if (a.size() != b.size()) return false;
  size_t differ = 0, first = 0, last = 0;
  for (size_t i = 0; i < a.size(); i++) {
    if (a[i] == b[i]) continue;
    if (differ++ == 0) first = i;
    last = i;
  }
  return differ == 0 || last - first < 4;
}

bool SameProperties(const rocksdb::TableProperties &a,
                    const rocksdb::TableProperties &b) {
  return a.raw_key_size == b.raw_key_size &&
         a.raw_value_size == b.raw_value_size &&
         a.num_data_blocks == b.num_data_blocks &&
         a.num_entries == b.num_entries && a.num_deletions == b.num_deletions &&
         a.format_version == b.format_version &&
         a.index_key_is_user_key == b.index_key_is_user_key &&
         a.index_value_is_delta_encoded == b.index_value_is_delta_encoded &&
         a.comparator_name == b.comparator_name &&
         a.compression_name == b.compression_name &&
         a.compression_options == b.compression_options &&
         a.merge_operator_name == b.merge_operator_name &&
         a.prefix_extractor_name == b.prefix_extractor_name &&
         a.property_collectors_names == b.property_collectors_names &&
         a.db_id == b.db_id && a.orig_file_number == b.orig_file_number &&
         a.user_collected_properties == b.user_collected_properties;
}

std::shared_ptr<const rocksdb::TableProperties> PropertiesOf(
    const std::string &path, bool *good) {
  rocksdb::SstFileReader reader(lsm_sst::SstOptions(rocksdb::kNoCompression));
  *good = *good && reader.Open(path).ok() && reader.VerifyChecksum().ok();
  return *good ? reader.GetTableProperties() : nullptr;
}

// Our own reader and RocksDB's find the entries.
bool ReadsBack(const std::string &path, const List &entries) {
  LsmSstError err;
  if (lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr, &err) !=
      LSM_SST_OK) {
    Note(err);
    return false;
  }
  return HoldsExactly(path, entries);
}

// One set of entries, written by both.
bool SameFiles(LsmCompression compression, const List &entries,
               std::string *why) {
  const std::string ours = Path("ours.sst"), theirs = Path("theirs.sst");
  LsmSstProperties props;
  bool good = WriteOurs(ours, compression, entries, &props) &&
              WriteReference(theirs, compression, entries);
  if (!good) {
    *why = "not written";
    return false;
  }
  const auto a = PropertiesOf(ours, &good);
  const auto b = PropertiesOf(theirs, &good);
  if (!good) {
    *why = "RocksDB does not read it";
    return false;
  }
  if (!ReadsBack(ours, entries)) {
    *why = "read back differently";
    return false;
  }
  if (a->db_session_id.size() != 20 || a->db_session_id == b->db_session_id) {
    *why = "no identifier of its own";
    return false;
  }
  if (ROCKSDB_MAJOR > 7) {
    unlink(ours.c_str());
    unlink(theirs.c_str());
    return true;
  }
  if (!SameProperties(*a, *b)) {
    *why = "properties differ";
    return false;
  }
  if (compression == LSM_COMPRESSION_LZ4) {
    // Blocks end at the same entries, but are compressed a little differently,
    // and stay plain where that saves less than a quarter.
    if (a->data_size > b->data_size + b->data_size * 77 / 200 + 100) {
      *why = "less compressed";
      return false;
    }
    unlink(ours.c_str());
    unlink(theirs.c_str());
    return true;
  }
  const std::string our_file = ReadFile(ours), their_file = ReadFile(theirs);
  const size_t bytes = DataAndIndexBytes(props, *b);
  if (our_file.compare(0, bytes, their_file, 0, bytes) != 0) {
    *why = "data or index differ";
    return false;
  }
  if (!SameButForChecksums(Anonymous(our_file), Anonymous(their_file))) {
    *why = "the tail differs";
    return false;
  }
  unlink(ours.c_str());
  unlink(theirs.c_str());
  return true;
}

void Compare(const char *what, const std::vector<List> &lists) {
  for (const LsmCompression compression : kCompressions) {
    std::string why;
    size_t i = 0;
    while (i < lists.size() && SameFiles(compression, lists[i], &why)) i++;
    if (i < lists.size()) {
      printf("# set %zu of %zu entries: %s\n", i, lists[i].size(), why.c_str());
    }
    Check(i == lists.size(), "%s, %s: %zu files as SstFileWriter's", what,
          CompressionName(compression), lists.size());
  }
}

List Sorted(const Entries &entries) {
  return List(entries.begin(), entries.end());
}

std::string Bytes(std::mt19937_64 *rng, size_t bytes) {
  std::string s(bytes, '\0');
  for (char &c : s) c = static_cast<char>((*rng)());
  return s;
}

// As an index tree has them: code of a uuid, row, one byte.
List Uuids(size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Entries entries;
  while (entries.size() < count) {
    std::string key = "\x02" + Bytes(&rng, 22);
    key[17] = key[18] = key[21] = '\0';
    entries[key] = rng() % 16 == 0 ? "\x02" : "\x01";
  }
  return Sorted(entries);
}

// Keys whose difference is where separators are cut: binary ones next to each
// other, one the beginning of the other, long runs of 0xff.
List Edges(size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Entries entries;
  entries[""] = "";
  while (entries.size() < count) {
    std::string key(rng() % 5, '\xff');
    const size_t more = rng() % 9;
    for (size_t i = 0; i < more; i++)
      key.push_back("\x00\x01\x02\x7f\xfe\xff"[rng() % 6]);
    // Mostly a block of its own.
    entries[key] = std::string(rng() % 4 == 0 ? rng() % 5000 : 3500, 'e');
  }
  return Sorted(entries);
}

// Rows: ascending numbers, values of a few hundred bytes, half of them alike.
List Rows(size_t count, size_t value_bytes, uint64_t seed) {
  std::mt19937_64 rng(seed);
  List rows;
  for (size_t i = 0; i < count; i++) {
    const uint64_t number = __builtin_bswap64(i * (1 + rng() % 3 / 2));
    std::string key(reinterpret_cast<const char *>(&number) + 2, 6);
    if (!rows.empty() && rows.back().first >= key) continue;
    rows.emplace_back(
        key, Bytes(&rng, value_bytes / 2) + std::string(value_bytes / 2, 'r'));
  }
  return rows;
}

// Text of a row's kind: words, numbers, a digest.
List Texts(size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  List rows;
  for (size_t i = 0; i < count; i++) {
    char key[24], value[128];
    snprintf(key, sizeof(key), "%08zu", i);
    const int bytes =
        snprintf(value, sizeof(value), "customer %zu of branch %llu %016llx", i,
                 static_cast<unsigned long long>(rng() % 100),
                 static_cast<unsigned long long>(rng()));
    rows.emplace_back(key, std::string(value, static_cast<size_t>(bytes)));
  }
  return rows;
}

// Blocks are compressed by LZ4 if that saves a quarter, by zstd if an eighth.
void TestSavedShare() {
  for (const int zeros : {5, 18, 35}) {
    std::mt19937_64 rng(zeros);
    List list;
    uint64_t plain_bytes = 0;
    for (uint32_t i = 0; i < 2000; i++) {
      const uint32_t key = __builtin_bswap32(i);
      list.push_back({std::string(reinterpret_cast<const char *>(&key), 4),
                      Bytes(&rng, 100 - zeros) + std::string(zeros, '\0')});
      plain_bytes += 104;
    }
    for (const LsmCompression compression : kCompressions) {
      const std::string path = Path("share.sst");
      LsmSstProperties props;
      const bool good = WriteOurs(path, compression, list, &props);
      const bool packed = compression == LSM_COMPRESSION_LZ4    ? zeros > 25
                          : compression == LSM_COMPRESSION_ZSTD ? zeros > 13
                                                                : false;
      Check(good && (props.data_bytes < plain_bytes) == packed,
            "%d of 100 bytes repeat, %s: %s", zeros,
            CompressionName(compression), packed ? "compressed" : "plain");
      unlink(path.c_str());
    }
  }
}

void TestSameFiles() {
  std::vector<List> lists;
  for (size_t i = 1; i <= 40; i++) lists.push_back(Uuids(i, i));
  for (size_t i = 100; i < 200; i++) lists.push_back(Uuids(i, i));
  lists.push_back(Uuids(ShortForm() ? 5000 : 30000, 1));
  Compare("uuids", lists);

  lists.clear();
  for (uint64_t seed = 1; seed <= 30; seed++)
    lists.push_back(Sorted(RandomEntries(1 + seed * seed * 3, seed)));
  lists.push_back(Sorted(RandomEntries(ShortForm() ? 5000 : 50000, 99)));
  Compare("keys of all shapes", lists);

  lists.clear();
  for (uint64_t seed = 1; seed <= 30; seed++)
    lists.push_back(Edges(2 + seed * 10, seed));
  Compare("edges of blocks", lists);

  lists.clear();
  for (const size_t bytes : {0, 1, 100, 119, 120, 121, 122, 126, 127, 128, 129,
                             1000, 3600, 3700, 4000, 4064, 4096, 8000, 16383,
                             16384}) {
    lists.push_back(Rows(1, bytes, bytes));
    lists.push_back(Rows(300, bytes, bytes));
  }
  Compare("rows of all sizes", lists);

  // Through the buffer of the file, and past it.
  lists.clear();
  std::mt19937_64 rng(5);
  for (const size_t bytes :
       {size_t{255} << 10, size_t{256} << 10, size_t{1} << 20, size_t{5000000}})
    lists.push_back({{"a", "small"},
                     {"b", Bytes(&rng, bytes)},
                     {"c", ""},
                     {"d", std::string(bytes, 'd')},
                     {std::string(bytes, 'e'), "long key"},
                     {std::string(bytes, 'e') + "e", Bytes(&rng, 300000)}});
  Compare("large entries", lists);
}

// Every file has an identifier of its own, also if processes that were forked
// write them.
void TestIdentifiers() {
  const List entries = Uuids(10, 3);
  std::set<std::string> seen;
  bool good = true;
  for (int i = 0; i < 50 && good; i++) {
    const std::string path = Path("id.sst");
    LsmSstProperties props;
    const pid_t child = i % 2 == 0 ? fork() : 0;
    if (i % 2 == 0 && child == 0)
      _exit(WriteOurs(path, LSM_COMPRESSION_NONE, entries, &props) ? 0 : 1);
    if (i % 2 == 0) {
      int status;
      good = waitpid(child, &status, 0) == child && status == 0;
    } else {
      good = WriteOurs(path, LSM_COMPRESSION_NONE, entries, &props);
    }
    const auto properties = PropertiesOf(path, &good);
    if (!good) break;
    const std::string &id = properties->db_session_id;
    good = id.size() == 20 &&
           id.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
               std::string::npos &&
           seen.insert(id).second;
    unlink(path.c_str());
  }
  Check(good && seen.size() == 50, "50 files have 50 identifiers");
}

// ---- measurement ----

double CpuNanoseconds() {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 +
         static_cast<double>(now.tv_nsec);
}

void Bench(const char *what, LsmCompression compression, const List &entries) {
  const std::string path = Path("bench.sst");
  double ours = 1e18, theirs = 1e18;
  LsmSstProperties our_props, their_props;
  memset(&our_props, 0, sizeof(our_props));
  memset(&their_props, 0, sizeof(their_props));
  for (int round = 0; round < 7; round++) {
    LsmSstError err;
    double start = CpuNanoseconds();
    WriteOurs(path, compression, entries, &our_props);
    ours = std::min(ours, CpuNanoseconds() - start);
    start = CpuNanoseconds();
    WriteReference(path, compression, entries);
    theirs = std::min(theirs, CpuNanoseconds() - start);
    lsm_sst_verify(path.c_str(), nullptr, nullptr, &their_props, &err);
  }
  unlink(path.c_str());
  const double n = static_cast<double>(entries.size());
  printf(
      "# %s, %s: %.0f ns of CPU and %.1f bytes per entry, SstFileWriter %.0f "
      "ns and %.1f bytes\n",
      what, CompressionName(compression), ours / n,
      static_cast<double>(our_props.file_bytes) / n, theirs / n,
      static_cast<double>(their_props.file_bytes) / n);
}

}  // namespace

int main(int argc, char **argv) {
  if (!Begin(argc, argv)) return 1;
  if (bench) {
    Bench("uuids", LSM_COMPRESSION_NONE, Uuids(500000, 1));
    for (const LsmCompression compression : kCompressions)
      Bench("texts", compression, Texts(200000, 3));
    for (const LsmCompression compression : kCompressions)
      Bench("rows of 100 bytes", compression, Rows(200000, 100, 2));
  } else {
    TestSavedShare();
    TestSameFiles();
    TestIdentifiers();
  }
  return End();
}
