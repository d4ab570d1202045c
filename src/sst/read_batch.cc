// Many entries of a block at once, copied: for scans.

#include <cstring>

#include "sst/iter.h"

using namespace lsm_sst;

namespace {

// Does a key lie within the bound of what is to be taken?
inline bool WithinBound(const uint8_t* key, size_t key_bytes,
                        const LsmSstBatch* take) noexcept {
  const size_t bytes =
      key_bytes < take->bound_bytes ? key_bytes : take->bound_bytes;
  const int c = bytes > 0 ? memcmp(key, take->bound, bytes) : 0;
  if (c != 0) return c < 0;
  return take->bound_prefix || key_bytes < take->bound_bytes;
}

// Where the entries end that are known to lie within the bound, since the key
// of a later restart does; the current entry's own offset if it does not say
// so.
uint32_t EndOfWithin(const LsmSstIter* it, const LsmSstBatch* take) noexcept {
  uint32_t end = it->entry;
  if (take->bound_prefix && take->bound_bytes == 0) return UINT32_MAX;
  for (uint32_t i = it->restarts; i-- > 0;) {
    const uint32_t offset = RestartOffset(it, i);
    uint32_t shared, non_shared, value_bytes;
    if (offset <= it->entry || offset >= it->entries_bytes) break;
    const uint8_t* p = GetEntry(it->base + offset, it->base + it->entries_bytes,
                                &shared, &non_shared, &value_bytes);
    if (p == nullptr || shared != 0 || non_shared < kKeyTrailerBytes) break;
    if (WithinBound(p, non_shared - kKeyTrailerBytes, take)) {
      end = offset;
      break;
    }
  }
  return end;
}

// Where a value of so many bytes goes, and what follows it.
struct Room {
  size_t value_at;
  size_t end;
};

inline Room RoomFor(const LsmSstBatch* take, size_t key_bytes,
                    size_t value_bytes) noexcept {
  const size_t value_at =
      ((take->used + key_bytes + take->headroom + take->aligned + 7) &
       ~size_t{7}) -
      take->aligned;
  return Room{value_at, value_at + value_bytes};
}

// The key is there; the value is copied.
inline void Append(LsmSstBatch* take, const Room& room, size_t key_bytes,
                   const uint8_t* value, size_t value_bytes) noexcept {
  memcpy(take->bytes + room.value_at, value, value_bytes);
  LsmSstEntry* entry = &take->entries[take->n++];
  entry->key_offset = take->used;
  entry->key_bytes = static_cast<uint32_t>(key_bytes);
  entry->value_offset = static_cast<uint32_t>(room.value_at);
  entry->value_bytes = static_cast<uint32_t>(value_bytes);
  take->used = static_cast<uint32_t>(room.end);
}

// Takes entries behind the one just taken.  Their keys are put together where
// they are copied to, from the key before: that of the iterator is left behind,
// and `last` tells what it should be.  Stops at entries that are not wanted or
// in any way unusual, to be looked at in full.
struct Last {
  const uint8_t* key;
  size_t key_bytes;
  const uint8_t* trailer;  // null: the iterator's key is right
};

void TakeBehind(LsmSstIter* it, LsmSstBatch* take, uint32_t within,
                Last* last) noexcept {
  // Copies: in memory, for all the compiler knows, every byte that is copied
  // might change them.
  LsmSstBatch to = *take;
  const uint8_t* base = it->base;
  const uint8_t* limit = base + it->entries_bytes;
  const uint8_t* entry = base + it->entry;
  const uint8_t* value = base + it->value_offset;
  const uint8_t* end = base + it->next_entry;  // of the entry
  uint8_t* bytes = reinterpret_cast<uint8_t*>(to.bytes);
  const uint8_t* last_key = last->key;
  size_t last_key_bytes = last->key_bytes;
  const uint8_t* trailer = last->trailer;
  while (to.n < to.max && end < limit) {
    uint32_t shared, non_shared, value_bytes;
    const uint8_t* p =
        GetEntry(end, limit, &shared, &non_shared, &value_bytes);
    if (p == nullptr || non_shared < kKeyTrailerBytes ||
        shared > last_key_bytes || value_bytes == 0)
      break;
    const size_t own_bytes = non_shared - kKeyTrailerBytes;
    const size_t key_bytes = shared + own_bytes;
    const uint8_t* new_value = p + non_shared;
    const Room room = RoomFor(&to, key_bytes, value_bytes);
    if (p[own_bytes] != kTypeValue || new_value[0] != to.first_byte ||
        room.end > to.capacity || to.used + 8 > to.capacity)
      break;
    uint8_t* key = bytes + to.used;
    if (key_bytes <= 8 && shared < 8) {
      // A row's: in one piece, so that the next can be made of it at once.
      const uint64_t before =
          LoadFixed64(last_key) & ((uint64_t{1} << (8 * shared)) - 1);
      StoreFixed64(key, before | (LoadFixed64(p) << (8 * shared)));
    } else {
      memcpy(key, last_key, shared);
      memcpy(key + shared, p, own_bytes);
    }
    if (end - base >= within && !WithinBound(key, key_bytes, take)) break;
    Append(&to, room, key_bytes, new_value, value_bytes);
    last_key = key;
    last_key_bytes = key_bytes;
    trailer = p + own_bytes;
    entry = end;
    value = new_value;
    end = value + value_bytes;
  }
  take->n = to.n;
  take->used = to.used;
  *last = Last{last_key, last_key_bytes, trailer};
  it->entry = static_cast<uint32_t>(entry - base);
  it->value_offset = static_cast<uint32_t>(value - base);
  it->value_bytes = static_cast<uint32_t>(end - value);
  it->next_entry = static_cast<uint32_t>(end - base);
}

// Makes the last entry taken the iterator's.
bool StandAt(LsmSstIter* it, const Last& last) noexcept {
  if (last.trailer == nullptr) return true;
  const size_t bytes = last.key_bytes + kKeyTrailerBytes;
  if (bytes > it->key_capacity && !GrowKey(it, bytes)) return false;
  memcpy(it->key, last.key, last.key_bytes);
  memcpy(it->key + last.key_bytes, last.trailer, kKeyTrailerBytes);
  it->key_bytes = static_cast<uint32_t>(bytes);
  it->value = it->base + it->value_offset;
  return true;
}

}  // namespace

LsmSstStatus lsm_sst_iter_read_batch(LsmSstIter* it, LsmSstBatch* take, bool* taken,
                               LsmSstError* err) {
  *taken = false;
  if (__builtin_expect(!it->valid, 0)) {
    return Fail(err, LSM_SST_INVALID, 0,
                "iterator over sorted file \"%s\" is not at an entry",
                it->reader->path);
  }
  if (!it->buffered || it->part) {
    const LsmSstStatus status = BufferCurrent(it, err);
    if (status != LSM_SST_OK) return status;
  }

  // Private memory only from here on.
  const uint32_t within = EndOfWithin(it, take);
  for (;;) {
    const size_t key_bytes = it->key_bytes - kKeyTrailerBytes;
    // A key that has just been put together is slow to read: mostly not needed.
    if ((it->entry >= within && !WithinBound(it->key, key_bytes, take)) ||
        it->value_bytes == 0 || it->value[0] != take->first_byte)
      return LSM_SST_OK;
    const Room room = RoomFor(take, key_bytes, it->value_bytes);
    if (room.end > take->capacity) return LSM_SST_OK;
    char* key = take->bytes + take->used;
    memcpy(key, it->key, key_bytes);
    Append(take, room, key_bytes, it->value, it->value_bytes);

    Last last = {reinterpret_cast<const uint8_t*>(key), key_bytes, nullptr};
    TakeBehind(it, take, within, &last);
    if (!StandAt(it, last)) {
      ForgetBlock(it);
      return FailMemory(err, "reading sorted file", it->reader->path);
    }
    if (take->n == take->max || it->next_entry >= it->entries_bytes) {
      *taken = true;
      return LSM_SST_OK;
    }
    const Verdict verdict = DecodeNext(it);
    if (__builtin_expect(!verdict.ok(), 0)) {
      ForgetBlock(it);
      return FailHere(it, err, verdict);
    }
    it->value = it->base + it->value_offset;
  }
}
