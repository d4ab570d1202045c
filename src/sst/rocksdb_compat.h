// Everything that depends on the version of RocksDB (7.8 of Debian 12, 9.x of
// Debian 13) or on how a distribution built it.  The only file of this room
// besides verify.cc that knows RocksDB's headers.

#ifndef LSM_SST_ROCKSDB_COMPAT_H
#define LSM_SST_ROCKSDB_COMPAT_H

#include <rocksdb/comparator.h>
#include <rocksdb/env.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include <memory>
#include <string>

#include "sst/build.h"
#include "sst/sst.h"

#if ROCKSDB_MAJOR < 7 || (ROCKSDB_MAJOR == 7 && ROCKSDB_MINOR < 8)
#error "lsmam needs RocksDB 7.8 or later"
#endif

namespace lsm_sst {

inline rocksdb::CompressionType ToRocksDb(LsmCompression compression) {
  switch (compression) {
    case LSM_COMPRESSION_LZ4:
      return rocksdb::kLZ4Compression;
    case LSM_COMPRESSION_ZSTD:
      return rocksdb::kZSTD;
    case LSM_COMPRESSION_NONE:
      break;
  }
  return rocksdb::kNoCompression;
}

// The one table layout we write (build.h), spelled out: unit tests compare with
// SstFileWriter, and defaults differ between versions (format_version 6 in 9.x
// has another footer).
inline rocksdb::BlockBasedTableOptions TableOptions(
    rocksdb::CompressionType compression) {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = BlockBytes(compression == rocksdb::kLZ4Compression
                                    ? LSM_COMPRESSION_LZ4
                                    : LSM_COMPRESSION_NONE);
  table.block_restart_interval = 16;
  table.index_block_restart_interval = 1;
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  table.index_type = rocksdb::BlockBasedTableOptions::kBinarySearch;
  table.data_block_index_type =
      rocksdb::BlockBasedTableOptions::kDataBlockBinarySearch;
  table.index_shortening =
      rocksdb::BlockBasedTableOptions::IndexShorteningMode::kShortenSeparators;
  // The index is searched in the mapping, so it must stay as it is.
  table.enable_index_compression = false;
  table.block_align = false;
  table.filter_policy = nullptr;
  table.partition_filters = false;
  // An unset cache would be an 8 MB private one.
  table.no_block_cache = true;
  table.block_cache = nullptr;
  return table;
}

// Options for SstFileWriter and SstFileReader: nothing that starts a thread,
// logs, or keeps more than a few hundred kB.
inline rocksdb::Options SstOptions(rocksdb::CompressionType compression) {
  rocksdb::Options options;
  options.comparator = rocksdb::BytewiseComparator();
  options.compression = compression;
  options.compression_per_level.clear();
  options.bottommost_compression = rocksdb::kDisableCompressionOption;
  options.compression_opts.max_dict_bytes = 0;
  options.compression_opts.parallel_threads = 1;
  options.writable_file_max_buffer_size = 256 * 1024;
  // A host name in the properties would make equal files differ.
  options.db_host_id.clear();
  options.table_factory.reset(
      rocksdb::NewBlockBasedTableFactory(TableOptions(compression)));
  return options;
}

inline std::string LibraryVersion() {
  return "RocksDB " + rocksdb::GetRocksVersionAsString(true);
}

}  // namespace lsm_sst

#endif  // LSM_SST_ROCKSDB_COMPAT_H
