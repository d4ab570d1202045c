// Many entries of a block at once, copied: for scans.

#include <cstring>

#include "sst/iter.h"

using namespace lsm_sst;

namespace {

// Does a key that compares so with the bound belong to what is to be taken?
inline bool WithinBound(const Likeness& likeness,
                        const LsmSstBatch* take) noexcept {
  return likeness.order < 0 ||
         (take->bound_prefix && likeness.common == take->bound_bytes);
}

inline bool Unbounded(const LsmSstBatch* take) noexcept {
  return take->bound_prefix && take->bound_bytes == 0;
}

// Where a value of this many bytes goes, and what follows it.
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
  if (value_bytes == 1)  // an index's, if it includes no columns
    take->bytes[room.value_at] = static_cast<char>(value[0]);
  else
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
  // How many bytes it has in common with the bound, within which it lies.
  size_t matched;
};

// Is an entry within the bound that shares bytes with the last one and goes on
// with its own?  Keys that have just been put together are slow to read: what
// the last one has in common with the bound says most.
inline bool OwnWithin(const uint8_t* own, size_t own_bytes, uint32_t shared,
                      const Wanted& bound, const LsmSstBatch* take,
                      size_t* matched) noexcept {
  // As different as the last one, at the same place; or beginning with a
  // prefix, as that does.
  if (shared > *matched || Unbounded(take)) return true;
  const Likeness likeness = CompareOwn(own, own_bytes, bound, shared);
  *matched = likeness.common;
  return WithinBound(likeness, take);
}

void TakeBehind(LsmSstIter* it, LsmSstBatch* take, const Wanted& bound,
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
  size_t matched = last->matched;
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
    } else if (key_bytes <= 16 && p + 16 <= limit &&
               to.used + 32 <= to.capacity) {
      // A short one: what is copied beyond its end is written over.
      const uint64_t first = LoadFixed64(last_key);
      const uint64_t second = LoadFixed64(last_key + 8);
      StoreFixed64(key, first);
      StoreFixed64(key + 8, second);
      StoreFixed64(key + shared, LoadFixed64(p));
      StoreFixed64(key + shared + 8, LoadFixed64(p + 8));
    } else {
      memcpy(key, last_key, shared);
      memcpy(key + shared, p, own_bytes);
    }
    if (!OwnWithin(p, own_bytes, shared, bound, &to, &matched)) break;
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
  *last = Last{last_key, last_key_bytes, trailer, matched};
  it->entry = static_cast<uint32_t>(entry - base);
  it->value_offset = static_cast<uint32_t>(value - base);
  it->value_bytes = static_cast<uint32_t>(end - value);
  it->next_entry = static_cast<uint32_t>(end - base);
}

// ---- backward ----

// Entries of one restart.  Our writer makes 16; of more, each is stepped to.
constexpr int kMaxInterval = 64;

// An entry of the block, and where its key was copied to.
struct Step {
  uint32_t entry;
  uint32_t value_offset;
  uint32_t next_entry;
  LsmSstEntry copy;
};

struct Interval {
  uint32_t begin;  // of its restart
  int n;
  int unwanted;  // all behind the first of this number are wanted
  Step steps[kMaxInterval];
};

inline bool WithinBoundBack(const uint8_t* key, size_t key_bytes,
                            const LsmSstBatch* take) noexcept {
  if (take->bound_bytes == 0 && take->bound_prefix) return true;
  const Likeness likeness =
      Compare(key, key_bytes, static_cast<const uint8_t*>(take->bound),
              take->bound_bytes);
  return likeness.order > 0 || (likeness.order == 0 && take->bound_prefix);
}

// Copies the entries of a restart that begin before `end`, where one ends.  Of
// *take only the room is used up.  False: there is too little of that, or
// something is in any way unusual.
bool CopyInterval(const LsmSstIter* it, uint32_t end, LsmSstBatch* take,
                  Interval* interval) noexcept {
  LsmSstBatch to = *take;
  uint8_t* bytes = reinterpret_cast<uint8_t*>(to.bytes);
  const uint8_t* last_key = nullptr;
  size_t last_key_bytes = 0;
  uint32_t at = RestartOffset(it, RestartBefore(it, end));
  interval->begin = at;
  interval->n = interval->unwanted = 0;
  while (at < end) {
    uint32_t shared, non_shared, value_bytes;
    const uint8_t* p =
        GetEntry(it->base + at, it->base + end, &shared, &non_shared,
                 &value_bytes);
    if (p == nullptr || non_shared < kKeyTrailerBytes ||
        shared > last_key_bytes || interval->n == kMaxInterval)
      return false;
    const size_t own_bytes = non_shared - kKeyTrailerBytes;
    const size_t key_bytes = shared + own_bytes;
    const Room room = RoomFor(&to, key_bytes, value_bytes);
    if (p[own_bytes] != kTypeValue || room.end > to.capacity) return false;
    uint8_t* key = bytes + to.used;
    if (shared > 0) memcpy(key, last_key, shared);
    memcpy(key + shared, p, own_bytes);
    memcpy(bytes + room.value_at, p + non_shared, value_bytes);
    Step* step = &interval->steps[interval->n++];
    step->entry = at;
    step->value_offset = static_cast<uint32_t>(p - it->base) + non_shared;
    step->next_entry = at = step->value_offset + value_bytes;
    step->copy = LsmSstEntry{to.used, static_cast<uint32_t>(key_bytes),
                             static_cast<uint32_t>(room.value_at), value_bytes};
    to.used = static_cast<uint32_t>(room.end);
    if (value_bytes == 0 || p[non_shared] != to.first_byte ||
        !WithinBoundBack(key, key_bytes, take))
      interval->unwanted = interval->n;
    last_key = key;
    last_key_bytes = key_bytes;
  }
  take->used = to.used;
  // None: the block's first restart is damaged, which a step back will say.
  return at == end && interval->n > 0;
}

// Makes an entry that was copied the iterator's.  False: no memory, and nothing
// has changed.
bool StandAtStep(LsmSstIter* it, const Step& step,
                 const LsmSstBatch* take) noexcept {
  const size_t key_bytes = step.copy.key_bytes;
  const size_t with_trailer = key_bytes + kKeyTrailerBytes;
  if (with_trailer > it->key_capacity && !GrowKey(it, with_trailer))
    return false;
  memcpy(it->key, take->bytes + step.copy.key_offset, key_bytes);
  memcpy(it->key + key_bytes,
         it->base + step.value_offset - kKeyTrailerBytes, kKeyTrailerBytes);
  it->key_bytes = static_cast<uint32_t>(with_trailer);
  it->entry = step.entry;
  it->next_entry = step.next_entry;
  it->value_offset = step.value_offset;
  it->value_bytes = step.copy.value_bytes;
  it->value = it->base + step.value_offset;
  return true;
}

// The current entry's block, in private memory.
LsmSstStatus Begin(LsmSstIter* it, LsmSstError* err) noexcept {
  if (__builtin_expect(!it->valid, 0)) {
    return Fail(err, LSM_SST_INVALID, 0,
                "iterator over sorted file \"%s\" is not at an entry",
                it->reader->path);
  }
  return !it->buffered || it->part ? BufferCurrent(it, err) : LSM_SST_OK;
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
  const LsmSstStatus status = Begin(it, err);
  if (status != LSM_SST_OK) return status;

  // Private memory only from here on.
  const Wanted bound{static_cast<const uint8_t*>(take->bound),
                     take->bound_bytes, 0, 0, take->bound_readable};
  for (;;) {
    const size_t key_bytes = it->key_bytes - kKeyTrailerBytes;
    // All keys begin with an empty prefix: a key that has just been put
    // together need not be looked at.
    Likeness likeness{0, 0};
    if (!Unbounded(take)) likeness = CompareOwn(it->key, key_bytes, bound, 0);
    if (!WithinBound(likeness, take) || it->value_bytes == 0 ||
        it->value[0] != take->first_byte)
      return LSM_SST_OK;
    const Room room = RoomFor(take, key_bytes, it->value_bytes);
    if (room.end > take->capacity) return LSM_SST_OK;
    char* key = take->bytes + take->used;
    memcpy(key, it->key, key_bytes);
    Append(take, room, key_bytes, it->value, it->value_bytes);

    Last last = {reinterpret_cast<const uint8_t*>(key), key_bytes, nullptr,
                 likeness.common};
    TakeBehind(it, take, bound, &last);
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

LsmSstStatus lsm_sst_iter_read_batch_back(LsmSstIter* it, LsmSstBatch* take,
                                          bool* taken, LsmSstError* err) {
  *taken = false;
  const LsmSstStatus status = Begin(it, err);
  if (status != LSM_SST_OK) return status;

  // Private memory only from here on.
  if (it->value_bytes == 0 || it->value[0] != take->first_byte)
    return LSM_SST_OK;
  Interval interval;
  uint32_t end = it->next_entry;
  while (end > 0 && take->n < take->max &&
         CopyInterval(it, end, take, &interval)) {
    int low = interval.n - (take->max - take->n);
    if (low < interval.unwanted) low = interval.unwanted;
    for (int i = interval.n - 1; i >= low; i--)
      take->entries[take->n++] = interval.steps[i].copy;
    // At the last one taken, or at the one that is not wanted.
    const bool stopped = take->n < take->max && interval.unwanted > 0;
    if (low < interval.n || stopped) {
      *taken = !stopped;
      if (!StandAtStep(it, interval.steps[stopped ? low - 1 : low], take)) {
        ForgetBlock(it);
        return FailMemory(err, "reading sorted file", it->reader->path);
      }
    }
    if (stopped) break;
    end = low > 0 ? 0 : interval.begin;
  }
  return LSM_SST_OK;
}
