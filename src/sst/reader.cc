// Opening sorted files for reading, and the search of their index.
//
// Opening maps the file, checks footer, metaindex, properties and index (their
// checksums, and that the file is of the kind we write), and samples the
// index.  Cost and private memory do not depend on the size of the file but
// for the index: one checksum pass over it, and one bit per data block.

#include "sst/reader.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "filter/filter.h"
}

namespace lsm_sst {

namespace {

// Samples of a file that was just opened: 2 kB.  A file of 64 MB has 16,000
// plain blocks, so that 32 separators remain to be searched in the mapping.
constexpr uint32_t kColdSamples = 512;
// A file from which this many blocks were read is worth one sample per block and
// the block's offset, 8 bytes: 2 MB per GB of plain blocks.  Lookups then leave
// the mapped index alone, which saves them two or three cache misses, one
// waiting for the other: a sixth of a found row's time.  Files with more blocks
// (they are small before they are compressed, and smaller then) get them as far
// as kLargeBytes go in the process; of the others, every second or third
// block's sample has to do, so that none of them needs more than 256 kB.
constexpr uint32_t kHotBlocks = 64;
constexpr uint32_t kHotSamples = 32768;
constexpr size_t kLargeBytes = 1024 * 1024;
// This many of the hot samples between two cold ones are fetched at once.
constexpr uint32_t kFetchedSamples = 64;
// How far from its guessed place a hot sample is looked for.
constexpr uint32_t kGuessedSamples = 8;

// See LsmSstProperties; part of the format of the file list.
constexpr size_t kTailBytes = 4096;

// Hot samples of files with more than kHotSamples blocks, all open files.
size_t large_bytes;

struct Properties {
  LsmSstProperties props;
  uint64_t deletions;
  uint64_t merges;
  uint64_t range_deletions;
  uint64_t index_key_is_user_key;
  uint64_t index_value_is_delta;
  uint32_t index_type;
  bool has_entries, has_data_bytes, has_blocks, has_raw_key, has_raw_value;
  bool has_index_type;
  bool bytewise;
  bool damaged;
};

bool NameIs(const uint8_t* key, size_t key_bytes, const char* name) noexcept {
  return key_bytes == strlen(name) && memcmp(key, name, key_bytes) == 0;
}

bool VisitProperty(void* arg, const uint8_t* key, size_t key_bytes,
                   const uint8_t* value, size_t value_bytes) {
  Properties* p = static_cast<Properties*>(arg);
  const struct {
    const char* name;
    uint64_t* where;
    bool* seen;
  } numbers[] = {
      {"rocksdb.num.entries", &p->props.entries, &p->has_entries},
      {"rocksdb.data.size", &p->props.data_bytes, &p->has_data_bytes},
      {"rocksdb.num.data.blocks", &p->props.data_blocks, &p->has_blocks},
      {"rocksdb.raw.key.size", &p->props.raw_key_bytes, &p->has_raw_key},
      {"rocksdb.raw.value.size", &p->props.raw_value_bytes, &p->has_raw_value},
      {"rocksdb.deleted.keys", &p->deletions, nullptr},
      {"rocksdb.merge.operands", &p->merges, nullptr},
      {"rocksdb.num.range-deletions", &p->range_deletions, nullptr},
      {"rocksdb.index.key.is.user.key", &p->index_key_is_user_key, nullptr},
      {"rocksdb.index.value.is.delta.encoded", &p->index_value_is_delta,
       nullptr},
  };
  for (const auto& number : numbers) {
    if (!NameIs(key, key_bytes, number.name)) continue;
    const uint8_t* end = value + value_bytes;
    if (GetVarint64(value, end, number.where) != end) p->damaged = true;
    if (number.seen != nullptr) *number.seen = true;
    return true;
  }
  if (NameIs(key, key_bytes, "rocksdb.block.based.table.index.type")) {
    if (value_bytes == sizeof(uint32_t)) {
      p->index_type = LoadFixed32(value);
      p->has_index_type = true;
    } else {
      p->damaged = true;
    }
  } else if (NameIs(key, key_bytes, "rocksdb.comparator")) {
    p->bytewise = NameIs(value, value_bytes, "leveldb.BytewiseComparator");
  }
  return true;
}

struct Metaindex {
  BlockHandle properties;
  bool has_properties;
  bool damaged;
  bool range_deletions;
  bool dictionary;
  bool hash_index;
};

bool VisitMetaindex(void* arg, const uint8_t* key, size_t key_bytes,
                    const uint8_t* value, size_t value_bytes) {
  Metaindex* m = static_cast<Metaindex*>(arg);
  if (NameIs(key, key_bytes, "rocksdb.properties")) {
    m->has_properties = true;
    if (GetHandle(value, value + value_bytes, &m->properties) == nullptr)
      m->damaged = true;
  } else if (NameIs(key, key_bytes, "rocksdb.range_del")) {
    m->range_deletions = true;
  } else if (NameIs(key, key_bytes, "rocksdb.compression_dict")) {
    m->dictionary = true;
  } else if (key_bytes >= 17 && memcmp(key, "rocksdb.hashindex", 17) == 0) {
    m->hash_index = true;
  }
  return true;
}

// Metaindex, properties and index: uncompressed, checksum good.
Verdict CheckMetaBlock(const LsmSstReader* reader,
                       const BlockHandle& handle) noexcept {
  if (!HandleFits(handle, reader->map.bytes - kFooterBytes))
    return Corrupt("a meta block lies outside of the file");
  if (!BlockChecksumMatches(reader->map.base, handle))
    return Corrupt("checksum mismatch in a meta block");
  if (reader->map.base[handle.offset + handle.bytes] != 0)
    return Unsupported("a meta block is compressed");
  return kFine;
}

Verdict CheckProperties(const Properties& p) noexcept {
  if (p.damaged || !p.has_entries || !p.has_data_bytes || !p.has_blocks ||
      !p.has_raw_key || !p.has_raw_value || !p.has_index_type)
    return Corrupt("its properties are incomplete");
  if (!p.bytewise) return Unsupported("its comparator is not bytewise");
  if (p.index_type != 0)
    return Unsupported("its index is not a plain binary search index");
  if (p.index_key_is_user_key > 1 || p.index_value_is_delta > 1)
    return Unsupported("its index has an unknown encoding");
  if (p.deletions != 0 || p.merges != 0 || p.range_deletions != 0)
    return Unsupported("it holds deletions or merge operands");
  return kFine;
}

// The samples of every step'th separator; false if the index is damaged.
// REQUIRES: prefix is set.
bool TakeSamples(const LsmSstReader* reader, uint32_t step,
                 uint32_t* samples) noexcept {
  const size_t prefix_bytes = reader->prefix_bytes;
  for (uint32_t i = 0, block = 0; block < reader->blocks; i++, block += step) {
    const uint8_t *key, *after;
    size_t key_bytes;
    if (!IndexKey(reader, block, &key, &key_bytes, &after) ||
        key_bytes < prefix_bytes)
      return false;
    samples[i] = PrefixInteger(key + prefix_bytes, key_bytes - prefix_bytes);
    if (i > 0 && samples[i] < samples[i - 1]) return false;
  }
  return true;
}

// Prefix and samples; see the comment on LsmSstReader.
LsmSstStatus SampleIndex(LsmSstReader* reader, LsmSstError* err) noexcept {
  const uint8_t *first, *last, *after;
  size_t first_bytes, last_bytes;
  if (!IndexKey(reader, 0, &first, &first_bytes, &after) ||
      !IndexKey(reader, reader->blocks - 1, &last, &last_bytes, &after)) {
    return FailBlock(reader, err, Corrupt("the index is damaged"),
                     reader->index_offset);
  }
  size_t shared = 0;
  while (shared < first_bytes && shared < last_bytes &&
         first[shared] == last[shared])
    shared++;

  reader->sample_step = (reader->blocks + kColdSamples - 1) / kColdSamples;
  reader->sample_count =
      (reader->blocks + reader->sample_step - 1) / reader->sample_step;
  const size_t words = (size_t{reader->blocks} + 63) / 64;
  reader->samples =
      static_cast<uint32_t*>(malloc(reader->sample_count * sizeof(uint32_t)));
  reader->prefix = static_cast<uint8_t*>(malloc(shared > 0 ? shared : 1));
  reader->verified = static_cast<uint64_t*>(calloc(words, sizeof(uint64_t)));
  if (reader->samples == nullptr || reader->prefix == nullptr ||
      reader->verified == nullptr)
    return FailMemory(err, "opening sorted file", reader->path);
  memcpy(reader->prefix, first, shared);
  reader->prefix_bytes = shared;
  reader->memory += reader->sample_count * sizeof(uint32_t) + shared +
                    words * sizeof(uint64_t);

  if (!TakeSamples(reader, reader->sample_step, reader->samples)) {
    return FailBlock(reader, err, Corrupt("the index is damaged"),
                     reader->index_offset);
  }
  return LSM_SST_OK;
}

// More samples of a file that has too many blocks for one each.  Not done if
// memory is short, or the index is not as it should be: lookups will say so.
void WarmSamples(LsmSstReader* reader) noexcept {
  const uint32_t step = (reader->blocks + kHotSamples - 1) / kHotSamples;
  const uint32_t count = (reader->blocks + step - 1) / step;
  if (count <= reader->sample_count) return;
  uint32_t* samples = static_cast<uint32_t*>(malloc(count * sizeof(uint32_t)));
  if (samples == nullptr) return;
  reader->warming = samples;  // freed with the reader if a fault cuts us short
  const bool fine = TakeSamples(reader, step, samples);
  reader->warming = nullptr;
  if (!fine) {
    free(samples);
    return;
  }
  reader->memory += (count - reader->sample_count) * sizeof(uint32_t);
  free(reader->samples);
  reader->samples = samples;
  reader->sample_count = count;
  reader->sample_step = step;
}

inline size_t HotBytes(const LsmSstReader* reader) noexcept {
  return (size_t{reader->blocks} + 1) * sizeof(LsmSstHotBlock);
}

inline bool IsLarge(const LsmSstReader* reader) noexcept {
  return reader->blocks > kHotSamples;
}

// One sample and one offset per block.  Not done, for good, if memory is short
// or the index is not as it should be: lookups will say so themselves.
void WarmIndex(LsmSstReader* reader) noexcept {
  reader->index_warmed = true;
  const uint32_t blocks = reader->blocks;
  const size_t bytes = HotBytes(reader);
  if ((IsLarge(reader) && bytes > kLargeBytes - large_bytes) ||
      reader->props.data_bytes > UINT32_MAX) {
    WarmSamples(reader);
    return;
  }
  LsmSstHotBlock* hot = static_cast<LsmSstHotBlock*>(malloc(bytes));
  if (hot == nullptr) return;
  reader->warming = hot;  // freed with the reader if a fault cuts us short

  uint64_t end = 0;
  uint32_t i = 0;
  for (; i < blocks; i++) {
    const uint8_t *key, *after;
    size_t key_bytes;
    BlockHandle handle;
    if (!IndexKey(reader, i, &key, &key_bytes, &after) ||
        key_bytes < reader->prefix_bytes ||
        !IndexHandle(reader, i, &handle).ok() ||
        (i > 0 && handle.offset != end))
      break;
    hot[i].sample = PrefixInteger(key + reader->prefix_bytes,
                                  key_bytes - reader->prefix_bytes);
    if (i > 0 && hot[i].sample < hot[i - 1].sample) break;
    hot[i].offset = static_cast<uint32_t>(handle.offset);
    end = handle.offset + handle.bytes + kBlockTrailerBytes;
  }
  reader->warming = nullptr;
  if (i < blocks) {
    free(hot);
    return;
  }
  hot[blocks] = LsmSstHotBlock{UINT32_MAX, static_cast<uint32_t>(end)};
  reader->memory += bytes;
  reader->hot = hot;
  if (IsLarge(reader)) large_bytes += bytes;
}

// See LsmSstProperties.
uint64_t TailDigest(const LsmSstReader* reader) noexcept {
  const size_t tail_bytes = std::min(reader->map.bytes, kTailBytes);
  return lsm_digest_key(reader->map.base + reader->map.bytes - tail_bytes,
                        tail_bytes);
}

// Everything that reads the mapping.  What it allocates hangs off the reader,
// so that nothing is lost when a fault cuts it short.
LsmSstStatus Load(LsmSstReader* reader, LsmSstError* err) noexcept {
  const uint8_t* file = reader->map.base;
  Footer footer;
  Verdict verdict = ParseFooter(file, reader->map.bytes, &footer);
  if (!verdict.ok()) {
    return FailBlock(reader, err, verdict,
                     reader->map.bytes < kFooterBytes
                         ? 0
                         : reader->map.bytes - kFooterBytes);
  }

  verdict = CheckMetaBlock(reader, footer.metaindex);
  Metaindex meta{};
  if (verdict.ok()) {
    verdict = WalkProperties(file + footer.metaindex.offset,
                             footer.metaindex.bytes, VisitMetaindex, &meta);
  }
  if (verdict.ok()) {
    if (meta.damaged || !meta.has_properties)
      verdict = Corrupt("its properties are missing");
    else if (meta.range_deletions)
      verdict = Unsupported("it holds range deletions");
    else if (meta.dictionary)
      verdict = Unsupported("it uses a compression dictionary");
    else if (meta.hash_index)
      verdict = Unsupported("it has a hash index");
  }
  if (!verdict.ok())
    return FailBlock(reader, err, verdict, footer.metaindex.offset);

  Properties p{};
  verdict = CheckMetaBlock(reader, meta.properties);
  if (verdict.ok()) {
    verdict = WalkProperties(file + meta.properties.offset,
                             meta.properties.bytes, VisitProperty, &p);
  }
  if (verdict.ok()) verdict = CheckProperties(p);
  if (!verdict.ok())
    return FailBlock(reader, err, verdict, meta.properties.offset);

  // The index, and that it has one restart for each block: a file written
  // with another interval would be searched wrongly.
  BlockShape shape;
  verdict = CheckMetaBlock(reader, footer.index);
  if (verdict.ok()) {
    verdict =
        ParseBlock(file + footer.index.offset, footer.index.bytes, &shape);
  }
  if (verdict.ok() && shape.restarts != p.props.data_blocks)
    verdict = Unsupported("its index restart interval is not 1");
  if (verdict.ok() && p.props.data_bytes > reader->map.bytes)
    verdict = Corrupt("its data lie outside of the file");
  if (verdict.ok() &&
      p.props.raw_key_bytes / kKeyTrailerBytes < p.props.entries)
    verdict = Corrupt("its properties contradict each other");
  if (!verdict.ok())
    return FailBlock(reader, err, verdict, footer.index.offset);

  reader->props = p.props;
  reader->props.file_bytes = reader->map.bytes;
  reader->props.tail_digest = TailDigest(reader);
  reader->props.raw_key_bytes -= p.props.entries * kKeyTrailerBytes;
  reader->index = file + footer.index.offset;
  reader->index_offset = footer.index.offset;
  reader->index_entries_bytes = shape.entries_bytes;
  reader->index_restarts = reader->index + shape.entries_bytes;
  reader->blocks = shape.restarts;
  reader->index_key_is_user_key = p.index_key_is_user_key != 0;
  reader->index_value_is_delta = p.index_value_is_delta != 0;
  return SampleIndex(reader, err);
}

// Data blocks are read here and there; iterators ask for more themselves when
// they move in sequence.
void AdviseRandom(const LsmSstReader* reader) noexcept {
  const uint64_t bytes = reader->props.data_bytes & ~uint64_t{page_bytes - 1};
  if (bytes > 0) {
    madvise(const_cast<uint8_t*>(reader->map.base), static_cast<size_t>(bytes),
            MADV_RANDOM);
  }
}

}  // namespace

LsmSstStatus FailBlock(const LsmSstReader* reader, LsmSstError* err,
                       const Verdict& verdict, uint64_t offset) noexcept {
  if (verdict.status == LSM_SST_NO_MEMORY)
    return FailMemory(err, "reading sorted file", reader->path);
  return Fail(err, verdict.status, 0,
              verdict.status == LSM_SST_CORRUPT
                  ? "sorted file \"%s\" is corrupt: %s (block at offset %llu)"
                  : "sorted file \"%s\" cannot be read: %s (block at offset "
                    "%llu)",
              reader->path, verdict.reason,
              static_cast<unsigned long long>(offset));
}

bool IndexKey(const LsmSstReader* reader, uint32_t block, const uint8_t** key,
              size_t* key_bytes, const uint8_t** after) noexcept {
  const uint32_t offset =
      LoadFixed32(reader->index_restarts + size_t{block} * sizeof(uint32_t));
  if (offset >= reader->index_entries_bytes) return false;
  const uint8_t* p = reader->index + offset;
  const uint8_t* limit = reader->index + reader->index_entries_bytes;
  uint32_t shared, non_shared, value_bytes;
  if ((p = GetVarint32(p, limit, &shared)) == nullptr || shared != 0 ||
      (p = GetVarint32(p, limit, &non_shared)) == nullptr)
    return false;
  if (!reader->index_value_is_delta &&
      (p = GetVarint32(p, limit, &value_bytes)) == nullptr)
    return false;
  if (non_shared > static_cast<size_t>(limit - p)) return false;
  *key = p;
  *after = p + non_shared;
  *key_bytes = non_shared;
  if (!reader->index_key_is_user_key) {
    if (non_shared < kKeyTrailerBytes) return false;
    *key_bytes -= kKeyTrailerBytes;
  }
  return true;
}

Verdict IndexHandle(const LsmSstReader* reader, uint32_t block,
                    BlockHandle* handle) noexcept {
  if (reader->hot != nullptr) {
    // Checked by WarmIndex().
    const LsmSstHotBlock* hot = reader->hot + block;
    handle->offset = hot[0].offset;
    handle->bytes = hot[1].offset - hot[0].offset - kBlockTrailerBytes;
    return kFine;
  }
  const uint8_t *key, *after;
  size_t key_bytes;
  // A handle at a restart is stored in full, whatever the encoding.
  if (!IndexKey(reader, block, &key, &key_bytes, &after) ||
      GetHandle(after, reader->index + reader->index_entries_bytes, handle) ==
          nullptr)
    return Corrupt("the index is damaged");
  if (!HandleFits(*handle, reader->props.data_bytes))
    return Corrupt("the index points outside of the data");
  return kFine;
}

namespace {

inline uint32_t SampleOf(uint32_t sample) noexcept { return sample; }
inline uint32_t SampleOf(const LsmSstHotBlock& hot) noexcept {
  return hot.sample;
}

// Number of samples below the integer.
template <typename Sample>
inline uint32_t SamplesBelow(const Sample* samples, uint32_t count,
                             uint32_t wanted) noexcept {
  if (count == 0) return 0;
  const Sample* base = samples;
  while (count > 1) {
    const uint32_t half = count / 2;
    base += (SampleOf(base[half - 1]) < wanted) ? half : 0;
    count -= half;
  }
  return static_cast<uint32_t>(base - samples) +
         (SampleOf(*base) < wanted ? 1 : 0);
}

// Of sorted samples, the first `count`: how many are equal to the integer.
template <typename Sample>
inline uint32_t SamplesTied(const Sample* samples, uint32_t count,
                            uint32_t wanted) noexcept {
  uint32_t low = 0;
  if (count == 0 || SampleOf(samples[0]) != wanted) return 0;
  while (low < count) {
    const uint32_t middle = low + (count - low) / 2;
    if (SampleOf(samples[middle]) == wanted)
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

// Hot samples *low to *high, around where an even spread of keys would have it,
// between which the first one is that is not below the integer.  False if the
// keys are not so even.
inline bool GuessWindow(const LsmSstReader* reader, uint32_t wanted,
                        uint32_t* low, uint32_t* high) noexcept {
  const LsmSstHotBlock* hot = reader->hot;
  const uint32_t last = reader->blocks - 1;
  const uint32_t smallest = hot[0].sample;
  const uint32_t largest = hot[last].sample;
  if (wanted <= smallest || wanted > largest) return false;
  const uint32_t at = static_cast<uint32_t>(uint64_t{wanted - smallest} * last /
                                            (largest - smallest));
  *low = at < kGuessedSamples ? 0 : at - kGuessedSamples;
  *high = last - at < kGuessedSamples ? last : at + kGuessedSamples;
  return hot[*low].sample < wanted && hot[*high].sample >= wanted;
}

// Blocks *low to *high, which may be reader->blocks, are where the first block
// may be whose separator is >= a key with this integer.  Private memory only.
inline void SearchSamples(const LsmSstReader* reader, uint32_t wanted, uint32_t* low,
                          uint32_t* high) noexcept {
  const LsmSstHotBlock* hot = reader->hot;
  if (hot == nullptr || !GuessWindow(reader, wanted, low, high)) {
    const uint32_t* samples = reader->samples;
    const uint32_t count = reader->sample_count;
    const uint32_t below = SamplesBelow(samples, count, wanted);
    const uint32_t tied =
        below + SamplesTied(samples + below, count - below, wanted);
    *low = below == 0 ? 0 : (below - 1) * reader->sample_step + 1;
    *high = tied == count ? reader->blocks : tied * reader->sample_step;
    if (hot == nullptr) return;
    for (uint32_t i = *low; i <= *high && i - *low < kFetchedSamples;
         i += 64 / sizeof(LsmSstHotBlock))
      __builtin_prefetch(hot + i);
  }
  *low += SamplesBelow(hot + *low, *high - *low, wanted);
  *high = *low + SamplesTied(hot + *low, reader->blocks - *low, wanted);
}

}  // namespace

bool SearchIndex(LsmSstReader* reader, const uint8_t* key, size_t key_bytes,
                 uint32_t* block) noexcept {
  if (__builtin_expect(
          !reader->index_warmed && reader->blocks_read >= kHotBlocks, 0))
    WarmIndex(reader);

  // All separators share the prefix; a key that does not is before or behind.
  const size_t prefix_bytes = reader->prefix_bytes;
  if (prefix_bytes > 0) {
    const size_t bytes = key_bytes < prefix_bytes ? key_bytes : prefix_bytes;
    const int c = bytes > 0 ? memcmp(key, reader->prefix, bytes) : 0;
    if (c > 0) {
      *block = reader->blocks;
      return true;
    }
    if (c < 0 || key_bytes < prefix_bytes) {
      *block = 0;
      return true;
    }
  }

  uint32_t low, high;
  SearchSamples(reader,
                PrefixInteger(key + prefix_bytes, key_bytes - prefix_bytes),
                &low, &high);
  // The separators between are side by side: fetch them all at once.
  if (low < high && high - low <= 64) {
    const uint8_t* restarts = reader->index_restarts;
    const uint32_t from = LoadFixed32(restarts + size_t{low} * 4);
    const uint32_t to = high == reader->blocks
                            ? reader->index_entries_bytes
                            : LoadFixed32(restarts + size_t{high} * 4);
    for (uint32_t at = from; at < to && at - from < 2048; at += 64)
      __builtin_prefetch(reader->index + at);
  }
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const uint8_t *separator, *after;
    size_t separator_bytes;
    if (!IndexKey(reader, middle, &separator, &separator_bytes, &after))
      return false;
    if (CompareKeys(separator, separator_bytes, key, key_bytes) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *block = low;
  return true;
}

}  // namespace lsm_sst

using namespace lsm_sst;

LsmSstStatus lsm_sst_open(const char* path, LsmSstReader** reader_out,
                          LsmSstError* err) {
  *reader_out = nullptr;
  const size_t path_bytes = strlen(path) + 1;
  LsmSstReader* reader =
      static_cast<LsmSstReader*>(calloc(1, sizeof(LsmSstReader) + path_bytes));
  if (reader == nullptr) return FailMemory(err, "opening sorted file", path);
  reader->memory = sizeof(LsmSstReader) + path_bytes;
  reader->path = reinterpret_cast<char*>(reader + 1);
  memcpy(reader->path, path, path_bytes);

  LsmSstStatus status = MapFile(path, "sorted file", &reader->map, err);
  if (status == LSM_SST_OK) {
    status = Guarded(reader->map, reader->path, err,
                     [=]() noexcept { return Load(reader, err); });
  }
  // Whoever knows what the file should be can tell another format from damage.
  if (status == LSM_SST_UNSUPPORTED && err != nullptr) {
    const LsmSstStatus read =
        Guarded(reader->map, reader->path, err, [=]() noexcept {
          err->tail_digest = TailDigest(reader);
          return LSM_SST_OK;
        });
    if (read != LSM_SST_OK) status = read;
  }
  if (status != LSM_SST_OK) {
    lsm_sst_close(reader);
    return status;
  }
  AdviseRandom(reader);
  *reader_out = reader;
  return LSM_SST_OK;
}

void lsm_sst_close(LsmSstReader* reader) {
  if (reader == nullptr) return;
  UnmapFile(reader->map);
  if (reader->hot != nullptr && IsLarge(reader))
    large_bytes -= HotBytes(reader);
  free(reader->samples);
  free(reader->hot);
  free(reader->warming);
  free(reader->prefix);
  free(reader->verified);
  free(reader);
}

const LsmSstProperties* lsm_sst_properties(const LsmSstReader* reader) {
  return &reader->props;
}

size_t lsm_sst_reader_memory(const LsmSstReader* reader) {
  return reader->memory;
}

LsmSstStatus lsm_sst_find_block(LsmSstReader* reader, const void* key,
                                size_t key_bytes, uint32_t* block,
                                LsmSstError* err) {
  return Guarded(reader->map, reader->path, err, [=]() noexcept {
    if (!SearchIndex(reader, static_cast<const uint8_t*>(key), key_bytes,
                     block))
      return FailBlock(reader, err, Corrupt("its index is damaged"),
                       reader->index_offset);
    return LSM_SST_OK;
  });
}

LsmSstStatus lsm_sst_separator(LsmSstReader* reader, uint32_t block, void* key,
                               size_t room, size_t* key_bytes,
                               LsmSstError* err) {
  return Guarded(reader->map, reader->path, err, [=]() noexcept {
    const uint8_t *separator, *after;
    size_t bytes;
    if (block >= reader->blocks ||
        !IndexKey(reader, block, &separator, &bytes, &after))
      return FailBlock(reader, err, Corrupt("its index is damaged"),
                       reader->index_offset);
    *key_bytes = std::min(bytes, room);
    memcpy(key, separator, *key_bytes);
    return LSM_SST_OK;
  });
}

void lsm_sst_prefetch(LsmSstReader* reader, const void* key, size_t key_bytes) {
  // Private memory only: the block is guessed, ties are not looked into.
  const uint8_t* bytes = static_cast<const uint8_t*>(key);
  const size_t prefix_bytes = reader->prefix_bytes;
  if (reader->hot == nullptr || key_bytes < prefix_bytes ||
      (prefix_bytes > 0 && memcmp(bytes, reader->prefix, prefix_bytes) != 0))
    return;
  const uint32_t wanted =
      PrefixInteger(bytes + prefix_bytes, key_bytes - prefix_bytes);
  uint32_t block, high;
  SearchSamples(reader, wanted, &block, &high);
  if (block >= reader->blocks) return;
  const LsmSstHotBlock* hot = reader->hot + block;
  const uint8_t* contents = reader->map.base + hot[0].offset;
  const uint8_t* end = reader->map.base + hot[1].offset;
  __builtin_prefetch(end - kBlockTrailerBytes);
  __builtin_prefetch(end - kBlockTrailerBytes - 64);
  // A page that is not needed costs more than the line: its address has to be
  // looked up.  Keys are taken for evenly spread over their block.
  if (reader->plain && block > 0 && hot[0].sample > hot[-1].sample &&
      wanted > hot[-1].sample) {
    const uint64_t part = wanted - hot[-1].sample;
    const uint8_t* guess =
        contents + part * static_cast<uint32_t>(end - contents) /
                       (hot[0].sample - hot[-1].sample);
    for (int i = -256; i <= 64; i += 64) {
      if (guess + i >= contents && guess + i < end)
        __builtin_prefetch(guess + i);
    }
    return;
  }
  __builtin_prefetch(contents);
}

uint64_t lsm_sst_blocks_read(const LsmSstReader* reader) {
  return reader->blocks_read;
}

uint64_t lsm_sst_pages_read(const LsmSstReader* reader) {
  return reader->pages_read;
}
