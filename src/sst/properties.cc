// Properties, metaindex and footer of a sorted file, see build.h.

#include <sys/random.h>

#include <cerrno>

#include "sst/build.h"

namespace lsm_sst {

namespace {

// A block of names in ascending order with a value each, all in one restart.
class NamesBlock {
 public:
  explicit NamesBlock(Buffer* out) : out_(out) {}

  void Bytes(const char* name, const void* value, size_t value_bytes) noexcept {
    const size_t name_bytes = strlen(name);
    size_t shared = 0;
    while (shared < last_bytes_ && last_[shared] == name[shared]) shared++;
    if (!out_->Reserve(3 * kMaxVarintBytes + name_bytes + value_bytes)) {
      good_ = false;
      return;
    }
    uint8_t* p = out_->data + out_->bytes;
    p = StoreVarint(p, shared);
    p = StoreVarint(p, name_bytes - shared);
    p = StoreVarint(p, value_bytes);
    out_->bytes = static_cast<size_t>(p - out_->data);
    if (!out_->Append(name + shared, name_bytes - shared) ||
        !out_->Append(value, value_bytes))
      good_ = false;
    last_ = name;
    last_bytes_ = name_bytes;
  }
  void Text(const char* name, const char* value) noexcept {
    Bytes(name, value, strlen(value));
  }
  void Number(const char* name, uint64_t value) noexcept {
    uint8_t varint[kMaxVarintBytes];
    Bytes(name, varint,
          static_cast<size_t>(StoreVarint(varint, value) - varint));
  }
  void Fixed32(const char* name, uint32_t value) noexcept {
    uint8_t fixed[sizeof(value)];
    StoreFixed32(fixed, value);
    Bytes(name, fixed, sizeof(fixed));
  }
  void Fixed64(const char* name, uint64_t value) noexcept {
    uint8_t fixed[sizeof(value)];
    StoreFixed64(fixed, value);
    Bytes(name, fixed, sizeof(fixed));
  }
  // The restart array: one, at 0.
  bool Finish() noexcept {
    uint8_t restarts[2 * sizeof(uint32_t)];
    StoreFixed32(restarts, 0);
    StoreFixed32(restarts + sizeof(uint32_t), 1);
    return out_->Append(restarts, sizeof(restarts)) && good_;
  }

 private:
  Buffer* out_;
  const char* last_ = "";
  size_t last_bytes_ = 0;
  bool good_ = true;
};

const char* CompressionName(LsmCompression compression) noexcept {
  switch (compression) {
    case LSM_COMPRESSION_LZ4:
      return "LZ4";
    case LSM_COMPRESSION_ZSTD:
      return "ZSTD";
    case LSM_COMPRESSION_NONE:
      break;
  }
  return "NoCompression";
}

}  // namespace

// 20 digits to the base of 36, as RocksDB reads and prints them.
bool DrawSessionId(char* id) noexcept {
  uint64_t words[2];
  ssize_t got;
  do {
    got = getrandom(words, sizeof(words), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(words))) return false;
  for (size_t i = 0; i < kSessionIdBytes; i++) {
    uint64_t* word = &words[i / (kSessionIdBytes / 2)];
    id[i] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[*word % 36];
    *word /= 36;
  }
  return true;
}

bool BuildProperties(const TableFacts& facts, const char* session_id,
                     Buffer* out) noexcept {
  NamesBlock names(out);
  names.Fixed32("rocksdb.block.based.table.index.type", 0);  // binary search
  names.Text("rocksdb.block.based.table.prefix.filtering", "0");
  names.Text("rocksdb.block.based.table.whole.key.filtering", "1");
  names.Number("rocksdb.column.family.id", INT32_MAX);  // unknown
  names.Text("rocksdb.comparator", "leveldb.BytewiseComparator");
  names.Text("rocksdb.compression", CompressionName(facts.compression));
  names.Text("rocksdb.compression_options",
             "window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; "
             "zstd_max_train_bytes=0; enabled=0; max_dict_buffer_bytes=0; "
             "use_zstd_dict_trainer=1; ");
  names.Text("rocksdb.creating.db.identity", "SST Writer");
  names.Bytes("rocksdb.creating.session.identity", session_id, kSessionIdBytes);
  names.Number("rocksdb.creation.time", 0);
  names.Number("rocksdb.data.size", facts.data_bytes);
  names.Number("rocksdb.deleted.keys", 0);
  names.Fixed64("rocksdb.external_sst_file.global_seqno", 0);
  names.Fixed32("rocksdb.external_sst_file.version", 2);
  names.Number("rocksdb.filter.size", 0);
  names.Number("rocksdb.fixed.key.length", 0);
  names.Number("rocksdb.format.version", 0);
  names.Number("rocksdb.index.key.is.user.key", 1);
  names.Number("rocksdb.index.size", facts.index_bytes);
  names.Number("rocksdb.index.value.is.delta.encoded", 1);
  names.Number("rocksdb.merge.operands", 0);
  names.Text("rocksdb.merge.operator", "nullptr");
  names.Number("rocksdb.num.data.blocks", facts.data_blocks);
  names.Number("rocksdb.num.entries", facts.entries);
  names.Number("rocksdb.num.filter_entries", 0);
  names.Number("rocksdb.num.range-deletions", 0);
  names.Number("rocksdb.oldest.key.time", 0);
  names.Number("rocksdb.original.file.number", 1);
  names.Text("rocksdb.prefix.extractor.name", "nullptr");
  names.Text("rocksdb.property.collectors", "[]");
  names.Number("rocksdb.raw.key.size",
               facts.raw_key_bytes + facts.entries * kKeyTrailerBytes);
  names.Number("rocksdb.raw.value.size", facts.raw_value_bytes);
  return names.Finish();
}

bool BuildMetaindex(const BlockHandle& properties, Buffer* out) noexcept {
  uint8_t handle[2 * kMaxVarintBytes];
  uint8_t* p = StoreVarint(handle, properties.offset);
  p = StoreVarint(p, properties.bytes);
  NamesBlock names(out);
  names.Bytes("rocksdb.properties", handle, static_cast<size_t>(p - handle));
  return names.Finish();
}

void BuildFooter(const Footer& footer, uint8_t* out) noexcept {
  memset(out, 0, kFooterBytes);
  uint8_t* p = out;
  *p++ = kChecksumXxh3;
  p = StoreVarint(p, footer.metaindex.offset);
  p = StoreVarint(p, footer.metaindex.bytes);
  p = StoreVarint(p, footer.index.offset);
  StoreVarint(p, footer.index.bytes);
  StoreFixed32(out + kFooterBytes - 12, 5);  // format version
  StoreFixed64(out + kFooterBytes - 8, kBlockBasedMagic);
}

}  // namespace lsm_sst
