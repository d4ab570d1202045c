// Data blocks and index of a sorted file, see build.h.

#include "sst/build.h"

namespace lsm_sst {

namespace {

// Sequence number 0, type value.
constexpr uint64_t kKeyTrailer = kTypeValue;

// What the index says a block's keys are not larger than: short, not smaller
// than the block's last key, smaller than the next.  Returns its length; the
// first bytes are those of `last` but for the last byte, which is *last_byte.
size_t ShortSeparator(const uint8_t* last, size_t last_bytes,
                      const uint8_t* next, size_t next_bytes,
                      uint8_t* last_byte) noexcept {
  const size_t common = Compare(last, last_bytes, next, next_bytes).common;
  if (last_bytes == 0) return 0;
  *last_byte = last[last_bytes - 1];
  if (common >= last_bytes) return last_bytes;
  size_t at = common;
  if (at + 1 >= next_bytes && last[at] + 1 >= next[at]) {
    // One more here would be the next key: go on behind it.
    do {
      at++;
    } while (at < last_bytes && last[at] == 0xff);
    if (at == last_bytes) return last_bytes;
  }
  *last_byte = static_cast<uint8_t>(last[at] + 1);
  return at + 1;
}

}  // namespace

// Whether the block would be larger with this entry, as RocksDB estimates it.
bool DataBlock::Overflows(size_t bytes, size_t key_bytes,
                          size_t value_bytes) const noexcept {
  const size_t internal_bytes = key_bytes + kKeyTrailerBytes;
  if (since_restart_ >= kRestartInterval) bytes += sizeof(uint32_t);
  return bytes + internal_bytes + value_bytes + sizeof(uint32_t) +
             VarintBytes(internal_bytes) + VarintBytes(value_bytes) >
         block_bytes_;
}

// The key begins with all of the last one: its next bytes may be like the
// last one's trailer.
size_t DataBlock::CommonWithTrailer(const uint8_t* key,
                                    size_t key_bytes) const noexcept {
  uint8_t trailer[kKeyTrailerBytes];
  StoreFixed64(trailer, kKeyTrailer);
  size_t common = last_key_bytes_;
  // It ends within the key: the trailer's first byte is no other's.
  for (size_t i = 0; i < kKeyTrailerBytes && common < key_bytes;
       i++, common++) {
    if (key[common] != trailer[i]) break;
  }
  return common;
}

bool DataBlock::Start(size_t block_bytes) noexcept {
  block_bytes_ = block_bytes;
  nearly_full_ = (block_bytes * 90 + 99) / 100;
  return out_.Reserve(2 * block_bytes) && last_key_.Reserve(256);
}

bool DataBlock::Add(const uint8_t* key, size_t key_bytes, size_t common,
                    const uint8_t* value, size_t value_bytes) noexcept {
  const size_t internal_bytes = key_bytes + kKeyTrailerBytes;
  size_t shared = 0;
  if (since_restart_ >= kRestartInterval) {
    restart_offsets_[restarts_++] = static_cast<uint32_t>(out_.bytes);
    since_restart_ = 0;
  } else {
    shared =
        common < last_key_bytes_ ? common : CommonWithTrailer(key, key_bytes);
  }
  since_restart_++;
  const size_t non_shared = internal_bytes - shared;
  if (!out_.Reserve(3 * kMaxVarintBytes + non_shared + value_bytes))
    return false;

  uint8_t* p = out_.data + out_.bytes;
  if (__builtin_expect((shared | non_shared | value_bytes) < 128, 1)) {
    p[0] = static_cast<uint8_t>(shared);
    p[1] = static_cast<uint8_t>(non_shared);
    p[2] = static_cast<uint8_t>(value_bytes);
    p += 3;
  } else {
    p = StoreVarint(p, shared);
    p = StoreVarint(p, non_shared);
    p = StoreVarint(p, value_bytes);
  }
  memcpy(p, key + shared, key_bytes - shared);
  StoreFixed64(p + key_bytes - shared, kKeyTrailer);
  p += non_shared;
  if (value_bytes > 0) memcpy(p, value, value_bytes);
  out_.bytes = static_cast<size_t>(p + value_bytes - out_.data);

  last_key_.bytes = common;
  if (!last_key_.Reserve(key_bytes - common)) return false;
  memcpy(last_key_.data + common, key + common, key_bytes - common);
  last_key_bytes_ = key_bytes;
  return true;
}

bool DataBlock::Finish() noexcept {
  if (!out_.Reserve((restarts_ + 1) * sizeof(uint32_t))) return false;
  uint8_t* p = out_.data + out_.bytes;
  for (uint32_t i = 0; i < restarts_; i++, p += sizeof(uint32_t))
    StoreFixed32(p, restart_offsets_[i]);
  StoreFixed32(p, restarts_);
  out_.bytes += (restarts_ + 1) * sizeof(uint32_t);
  return true;
}

bool IndexBlock::Add(const uint8_t* last, size_t last_bytes,
                     const uint8_t* next, size_t next_bytes,
                     const BlockHandle& handle) noexcept {
  uint8_t last_byte = 0;
  size_t bytes = last_bytes;
  if (next != nullptr)
    bytes = ShortSeparator(last, last_bytes, next, next_bytes, &last_byte);
  else if (bytes > 0)
    last_byte = last[bytes - 1];

  uint8_t offset[sizeof(uint32_t)];
  StoreFixed32(offset, static_cast<uint32_t>(out_.bytes));
  if (!restarts_.Append(offset, sizeof(offset)) ||
      !out_.Reserve(bytes + 4 * kMaxVarintBytes))
    return false;
  uint8_t* p = out_.data + out_.bytes;
  p = StoreVarint(p, 0);  // shares nothing
  p = StoreVarint(p, bytes);
  if (bytes > 0) {
    memcpy(p, last, bytes - 1);
    p[bytes - 1] = last_byte;
    p += bytes;
  }
  p = StoreVarint(p, handle.offset);
  p = StoreVarint(p, handle.bytes);
  out_.bytes = static_cast<size_t>(p - out_.data);
  return true;
}

bool IndexBlock::Finish() noexcept {
  uint8_t count[sizeof(uint32_t)];
  StoreFixed32(count, static_cast<uint32_t>(blocks()));
  return out_.Append(restarts_.data, restarts_.bytes) &&
         out_.Append(count, sizeof(count));
}

}  // namespace lsm_sst
