// lsm_sst_iter_read_batch() and its twin backward against a model: which entries
// they copy, where they put them, where they leave the iterator.

#include "sst_harness.h"

namespace {

// Does the entry lie within what is wanted?
bool Wanted(const std::pair<const std::string, std::string> &entry,
            const std::string &bound, bool prefix, uint8_t first_byte) {
  const std::string &key = entry.first;
  if (!(key < bound || (prefix && key.compare(0, bound.size(), bound) == 0)))
    return false;
  return !entry.second.empty() &&
         static_cast<uint8_t>(entry.second[0]) == first_byte;
}

struct Counts {
  uint64_t copied, within_block, full, no_room, unwanted;
};

// Has the copy the entry's key and value, and the value its place behind the key?
bool IsCopyOf(const LsmSstEntry &copy,
              const std::pair<const std::string, std::string> &entry,
              const LsmSstBatch &take) {
  const std::string &key = entry.first;
  const std::string &value = entry.second;
  const uint32_t behind = copy.key_offset + copy.key_bytes + take.headroom;
  return copy.key_bytes == key.size() && copy.value_bytes == value.size() &&
         copy.value_offset >= behind && copy.value_offset <= behind + 7 &&
         (copy.value_offset + take.aligned) % 8 == 0 &&
         memcmp(take.bytes + copy.key_offset, key.data(), key.size()) == 0 &&
         memcmp(take.bytes + copy.value_offset, value.data(), value.size()) ==
             0;
}

// One call from `where`, which is left at the iterator's entry.  False: wrong.
bool TakeOnce(LsmSstIter *it, const Entries &entries, const std::string &bound,
              Entries::const_iterator *where, std::mt19937_64 *rng,
              Counts *counts) {
  const bool prefix = (*rng)() % 2 == 0;
  const uint8_t first_byte = (*rng)() % 8 == 0 ? 't' : 'v';
  std::vector<LsmSstEntry> copies(1 + (*rng)() % 64);
  std::vector<char> bytes(64 + (*rng)() % 8192);
  // Behind the bound lies anything, or nothing that may be read.
  std::vector<char> readable(bound.begin(), bound.end());
  for (uint64_t i = (*rng)() % (2 * LSM_SST_KEY_SLACK); i > 0; i--)
    readable.push_back(static_cast<char>((*rng)() % 3));
  LsmSstBatch take = {};
  take.bound = readable.data();
  take.bound_bytes = bound.size();
  take.bound_readable = readable.size();
  take.bound_prefix = prefix;
  take.first_byte = first_byte;
  take.entries = copies.data();
  take.max = static_cast<int>(copies.size());
  take.bytes = bytes.data();
  take.used = static_cast<uint32_t>((*rng)() % 32);
  take.capacity = static_cast<uint32_t>(bytes.size());
  take.headroom = (*rng)() % 2 == 0 ? 0 : 56;
  take.aligned = static_cast<uint32_t>((*rng)() % 12);

  const Entries::const_iterator start = *where;
  uint32_t end = take.used;
  bool taken = false;
  LsmSstError err;
  if (lsm_sst_iter_read_batch(it, &take, &taken, &err) != LSM_SST_OK) {
    Note(err);
    return false;
  }
  for (int i = 0; i < take.n; i++, ++*where) {
    const LsmSstEntry &copy = copies[i];
    if (*where == entries.end() || copy.key_offset != end ||
        !Wanted(**where, bound, prefix, first_byte) ||
        !IsCopyOf(copy, **where, take))
      return false;
    end = copy.value_offset + copy.value_bytes;
    if (end > take.capacity) return false;
  }
  if (take.used != end) return false;
  counts->copied += take.n;
  if (taken) {
    if (take.n == 0) return false;
    --*where;
    if (take.n == take.max)
      counts->full++;
    else
      counts->within_block++;
  } else {
    // There must be a reason, or else it would go on.
    if (*where == entries.end()) return false;
    if (!Wanted(**where, bound, prefix, first_byte)) {
      counts->unwanted++;
    } else {
      if (end + (*where)->first.size() + take.headroom + 14 +
              (*where)->second.size() <=
          take.capacity)
        return false;
      counts->no_room++;
    }
    if (take.n == 0 && *where != start) return false;
  }
  return At(it, entries, *where);
}

// The same backward.
bool TakeBackOnce(LsmSstIter *it, const Entries &entries,
                  const std::string &bound, Entries::const_iterator *where,
                  std::mt19937_64 *rng, Counts *counts) {
  const bool prefix = (*rng)() % 2 == 0;
  const uint8_t first_byte = (*rng)() % 8 == 0 ? 't' : 'v';
  std::vector<LsmSstEntry> copies(1 + (*rng)() % 64);
  std::vector<char> bytes(64 + (*rng)() % 8192);
  const std::vector<char> exact(bound.begin(), bound.end());
  LsmSstBatch take = {};
  take.bound = exact.data();
  take.bound_bytes = take.bound_readable = bound.size();
  take.bound_prefix = prefix;
  take.first_byte = first_byte;
  take.entries = copies.data();
  take.max = static_cast<int>(copies.size());
  take.bytes = bytes.data();
  take.used = static_cast<uint32_t>((*rng)() % 32);
  take.capacity = static_cast<uint32_t>(bytes.size());
  take.headroom = (*rng)() % 2 == 0 ? 0 : 56;
  take.aligned = static_cast<uint32_t>((*rng)() % 12);
  const auto wanted = [&](const std::pair<const std::string, std::string> &entry) {
    return (entry.first > bound || (prefix && entry.first == bound)) &&
           !entry.second.empty() &&
           static_cast<uint8_t>(entry.second[0]) == first_byte;
  };

  const uint32_t used = take.used;
  bool taken = false;
  LsmSstError err;
  if (lsm_sst_iter_read_batch_back(it, &take, &taken, &err) != LSM_SST_OK) {
    Note(err);
    return false;
  }
  if (take.used < used || take.used > take.capacity || take.n > take.max)
    return false;
  for (int i = 0; i < take.n; i++) {
    const LsmSstEntry &copy = copies[i];
    if (!wanted(**where) || copy.key_offset < used ||
        copy.value_offset + copy.value_bytes > take.used ||
        !IsCopyOf(copy, **where, take))
      return false;
    const bool last = i + 1 == take.n;
    if (last && taken) break;
    // If it was not taken, there is one more.
    if (*where == entries.begin()) return false;
    --*where;
  }
  counts->copied += take.n;
  if (taken) {
    if (take.n == 0) return false;
    if (take.n == take.max)
      counts->full++;
    else
      counts->within_block++;
  } else if (!wanted(**where)) {
    counts->unwanted++;
  } else {
    // Too little room for what one restart has, before anything was taken.
    if (take.n > 0) return false;
    counts->no_room++;
  }
  return At(it, entries, *where);
}

void TestReadBatchBack(const char *what, const Entries &entries, int calls) {
  for (const LsmCompression compression : kCompressions) {
    const std::string path = Path("back.sst");
    const std::vector<std::string> keys = KeysOf(entries);
    std::mt19937_64 rng(12);
    LsmSstReader *reader;
    LsmSstIter *it;
    LsmSstError err;
    Counts counts = {};
    if (WriteEntries(path, compression, entries, nullptr, &err) != LSM_SST_OK ||
        lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK ||
        lsm_sst_iter_open(reader, &it, &err) != LSM_SST_OK) {
      Check(false, "back, %s, %s: set up", what, CompressionName(compression));
      Note(err);
      continue;
    }
    bool good = true;
    bool valid = false;
    Entries::const_iterator where = entries.end();
    for (int i = 0; i < calls && good; i++) {
      if (!valid || rng() % 50 == 0) {
        const std::string key = ProbeKey(keys, &rng);
        const bool last = rng() % 2 == 0;
        good = (last ? lsm_sst_iter_seek_last(it, key.data(), key.size(), &err)
                     : lsm_sst_iter_seek(it, key.data(), key.size(), &err)) ==
               LSM_SST_OK;
        where = last ? entries.upper_bound(key) : entries.lower_bound(key);
        valid = last ? where != entries.begin() : where != entries.end();
        if (valid && last) --where;
        if (!valid) continue;
      } else if (rng() % 2 == 0) {
        good = lsm_sst_iter_prev(it, &err) == LSM_SST_OK;
        valid = where != entries.begin();
        if (!valid) continue;
        --where;
      } else if (rng() % 8 == 0) {
        good = lsm_sst_iter_next(it, &err) == LSM_SST_OK;
        valid = ++where != entries.end();
        if (!valid) continue;
      }
      Entries::const_iterator behind = where;
      for (uint64_t n = rng() % 100; n > 0 && behind != entries.begin(); n--)
        --behind;
      std::string bound;
      if (behind != entries.begin()) bound = behind->first;
      if (rng() % 8 == 0) bound = "\x01";
      if (rng() % 4 == 0 && !bound.empty()) bound.pop_back();
      good = good && TakeBackOnce(it, entries, bound, &where, &rng, &counts) &&
             At(it, entries, where);
    }
    Check(good, "back, %s, %s: %d calls agree with the model", what,
          CompressionName(compression), calls);
    printf("# copied %lu, within a block %lu, full %lu, no room %lu, "
           "unwanted %lu\n",
           counts.copied, counts.within_block, counts.full, counts.no_room,
           counts.unwanted);
    Check(counts.copied > uint64_t(calls) / 2 && counts.within_block > 0 &&
              counts.full > 0 && counts.no_room > 0 && counts.unwanted > 0,
          "back, %s, %s: all ways to end were seen", what,
          CompressionName(compression));
    lsm_sst_iter_close(it);
    lsm_sst_close(reader);
    unlink(path.c_str());
  }
}

void TestReadBatch(const char *what, const Entries &entries, int calls) {
  for (const LsmCompression compression : kCompressions) {
    const std::string path = Path("take.sst");
    const std::vector<std::string> keys = KeysOf(entries);
    std::mt19937_64 rng(11);
    LsmSstReader *reader;
    LsmSstIter *it;
    LsmSstError err;
    Counts counts = {};
    if (WriteEntries(path, compression, entries, nullptr, &err) != LSM_SST_OK ||
        lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK ||
        lsm_sst_iter_open(reader, &it, &err) != LSM_SST_OK) {
      Check(false, "%s, %s: set up", what, CompressionName(compression));
      Note(err);
      continue;
    }
    bool good = true;
    Entries::const_iterator where = entries.end();
    for (int i = 0; i < calls && good; i++) {
      if (where == entries.end() || rng() % 50 == 0) {
        const std::string key = ProbeKey(keys, &rng);
        good =
            lsm_sst_iter_seek(it, key.data(), key.size(), &err) == LSM_SST_OK;
        where = entries.lower_bound(key);
        if (where == entries.end()) continue;
      } else if (rng() % 2 == 0) {
        good = lsm_sst_iter_next(it, &err) == LSM_SST_OK;
        if (++where == entries.end()) continue;
      }
      // A bound not far from here, or far beyond, or none.
      Entries::const_iterator ahead = where;
      for (uint64_t n = rng() % 100; n > 0 && ahead != entries.end(); n--)
        ++ahead;
      std::string bound;
      if (ahead != entries.end()) bound = ahead->first;
      if (rng() % 8 == 0) bound = std::string(1 + rng() % 3, '\xff');
      if (rng() % 4 == 0 && !bound.empty()) bound.pop_back();
      good = good && TakeOnce(it, entries, bound, &where, &rng, &counts) &&
             At(it, entries, where);
    }
    Check(good, "%s, %s: %d calls agree with the model", what,
          CompressionName(compression), calls);
    Check(counts.copied > uint64_t(calls) && counts.within_block > 0 &&
              counts.full > 0 && counts.no_room > 0 && counts.unwanted > 0,
          "%s, %s: all ways to end were seen", what,
          CompressionName(compression));
    lsm_sst_iter_seek(it, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9, &err);
    if (!lsm_sst_iter_valid(it)) {
      LsmSstBatch take = {};
      bool taken;
      Check(lsm_sst_iter_read_batch(it, &take, &taken, &err) == LSM_SST_INVALID,
            "%s, %s: refused without an entry", what,
            CompressionName(compression));
    }
    lsm_sst_iter_close(it);
    lsm_sst_close(reader);
    unlink(path.c_str());
  }
}

// Keys as those of rows: six bytes that count.
Entries RowEntries(int count) {
  std::mt19937_64 rng(3);
  Entries entries;
  for (int i = 0; i < count; i++) {
    std::string key("\x00\x00\x00\x00\x00\x00", 6);
    for (int byte = 0; byte < 4; byte++)
      key[5 - byte] = static_cast<char>(i >> (8 * byte));
    std::string value(1 + rng() % 90, static_cast<char>('a' + rng() % 26));
    value[0] = rng() % 100 == 0 ? 't' : 'v';
    entries.emplace(std::move(key), std::move(value));
  }
  return entries;
}

}  // namespace

int main(int argc, char **argv) {
  if (!Begin(argc, argv)) return 1;
  const int count = ShortForm() ? 10000 : 100000;
  TestReadBatch("all shapes", RandomEntries(50000, 5), count);
  TestReadBatch("rows", RowEntries(50000), count);
  TestReadBatchBack("all shapes", RandomEntries(50000, 5), count);
  TestReadBatchBack("rows", RowEntries(50000), count);
  return End();
}
