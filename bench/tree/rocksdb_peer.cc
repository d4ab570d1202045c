// What bench_tree.c is compared with: rocksdb::DB::Get over the same entries in
// as many runs of level 0, the same bits per key, no compression, all in the
// block cache, no compaction.
//
// usage: rocksdb_peer DIRECTORY KEY_BYTES ENTRIES_PER_RUN RUNS BITS_PER_KEY
//
// Loads, prints "ready", then serves lines on its standard input:
//   draw N ALPHA FIRST RANGE SEED   keys to look for; prints "drawn"
//   get   prints nanoseconds of CPU and of wall clock per lookup
//   \q    ends, as in psql

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <cstdio>
#include <memory>
#include <string>

#include "keys.h"

namespace {

[[noreturn]] void Fail(const std::string &what) {
  fprintf(stderr, "rocksdb_peer: %s\n", what.c_str());
  exit(1);
}

void Check(const rocksdb::Status &status) {
  if (!status.ok()) Fail(status.ToString());
}

rocksdb::Options DbOptions(double bits_per_key) {
  rocksdb::BlockBasedTableOptions table;
  table.format_version = 5;
  table.block_size = 4096;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(bits_per_key, false));
  table.block_cache = rocksdb::NewLRUCache(size_t{4} << 30);

  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.disable_auto_compactions = true;
  options.level0_slowdown_writes_trigger = 1000;
  options.level0_stop_writes_trigger = 1000;
  options.write_buffer_size = size_t{1} << 30;
  options.max_open_files = -1;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

void Load(rocksdb::DB *db, int key_bytes, int n, int runs) {
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  std::string key(key_bytes, '\0');
  for (int run = 0; run < runs; run++) {
    for (int i = 0; i < n; i++) {
      bench_key(2 * (static_cast<uint64_t>(run) * n + i), key_bytes, &key[0]);
      Check(db->Put(write, key, key.substr(0, 8) + "12345678"));
    }
    Check(db->Flush(rocksdb::FlushOptions()));
  }
  // everything into the block cache
  std::unique_ptr<rocksdb::Iterator> it(
      db->NewIterator(rocksdb::ReadOptions()));
  int64_t entries = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) entries++;
  Check(it->status());
  std::string files;
  db->GetProperty("rocksdb.num-files-at-level0", &files);
  if (entries != static_cast<int64_t>(n) * runs ||
      files != std::to_string(runs))
    Fail(std::to_string(entries) + " entries in " + files + " files");
}

void Get(rocksdb::DB *db, const BenchProbes &probes) {
  const rocksdb::ReadOptions read;
  rocksdb::ColumnFamilyHandle *family = db->DefaultColumnFamily();
  rocksdb::PinnableSlice value;
  BenchProbes portion = {};
  BenchClock clock = {};
  int found = 0;
  for (int done = 0; done < probes.n; done += portion.n) {
    if (bench_portion(&probes, done, &portion) < 0) Fail("out of memory");
    bench_clock_start(&clock);
    for (int i = 0; i < portion.n; i++) {
      const rocksdb::Slice key(
          portion.keys + static_cast<size_t>(i) * portion.stride,
          portion.key_bytes);
      value.Reset();
      found += db->Get(read, family, key, &value).ok();
    }
    bench_clock_stop(&clock);
  }
  free(portion.keys);
  if (found != probes.present)
    Fail("found " + std::to_string(found) + " of " +
         std::to_string(probes.present));
  printf("%.2f %.2f\n", clock.cpu_ns / probes.n, clock.wall_ns / probes.n);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr,
            "usage: rocksdb_peer DIRECTORY KEY_BYTES ENTRIES_PER_RUN RUNS "
            "BITS_PER_KEY\n");
    return 2;
  }
  const int key_bytes = atoi(argv[2]);
  rocksdb::DB *opened = nullptr;
  Check(rocksdb::DB::Open(DbOptions(atof(argv[5])), argv[1], &opened));
  std::unique_ptr<rocksdb::DB> db(opened);
  Load(db.get(), key_bytes, atoi(argv[3]), atoi(argv[4]));
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("ready\n");

  BenchProbes probes = {};
  char line[200];
  while (fgets(line, sizeof(line), stdin) != nullptr) {
    int n;
    double alpha;
    unsigned long long first, range, seed;
    if (sscanf(line, "draw %d %lf %llu %llu %llu", &n, &alpha, &first, &range,
               &seed) == 5) {
      if (!bench_draw(&probes, key_bytes, "", 0, n, alpha, first, range, seed))
        Fail("out of memory");
      printf("drawn\n");
    } else if (strcmp(line, "get\n") == 0) {
      Get(db.get(), probes);
    } else if (strcmp(line, "\\q\n") == 0) {
      break;
    } else {
      Fail(std::string("unknown command: ") + line);
    }
  }
  free(probes.keys);
  return 0;
}
