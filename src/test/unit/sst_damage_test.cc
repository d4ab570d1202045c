// Unit test of src/sst: damaged files, a full disk, SIGBUS.  TAP on standard
// output, exit status 0 if all is well. Usage: sst_damage_test [directory for
// scratch files]

#include "sst_harness.h"
#include "sst/reader.h"

namespace {

// ---- damage ----

// Reads everything in a damaged file: walks both ways, seeks, verifies.
// Returns false if any answer was wrong; *failed tells whether any was refused.
bool ReadDamaged(const std::string &path, const Entries &entries,
                 const std::vector<std::string> &keys, std::mt19937_64 *rng,
                 bool verify, bool *failed) {
  LsmSstError err;
  LsmSstReader *reader;
  *failed = false;
  err.message[0] = '\0';
  LsmSstStatus status = lsm_sst_open(path.c_str(), &reader, &err);
  if (status != LSM_SST_OK) {
    *failed = true;
    return (status == LSM_SST_CORRUPT || status == LSM_SST_UNSUPPORTED) &&
           strstr(err.message, path.c_str()) != nullptr;
  }
  bool right = true;
  LsmSstIter *it;
  lsm_sst_iter_open(reader, &it, &err);
  status = lsm_sst_iter_first(it, &err);
  auto at = entries.begin();
  while (status == LSM_SST_OK && right) {
    right = At(it, entries, at);
    if (at == entries.end()) break;
    ++at;
    status = lsm_sst_iter_next(it, &err);
  }
  if (status != LSM_SST_OK) {
    *failed = true;
    right = right && !lsm_sst_iter_valid(it) &&
            (status == LSM_SST_CORRUPT || status == LSM_SST_UNSUPPORTED);
  }
  for (int i = 0; i < 8 && right; i++) {
    const std::string key = ProbeKey(keys, rng);
    status = lsm_sst_iter_seek(it, key.data(), key.size(), &err);
    if (status != LSM_SST_OK)
      *failed = true;
    else
      right = At(it, entries, entries.lower_bound(key));
    // A point lookup.
    at = entries.find(key);
    if (key.empty()) at = entries.begin();
    status = lsm_sst_iter_seek_prefix(it, key.data(), key.size(), key.size(),
                                      &err);
    if (status != LSM_SST_OK) {
      *failed = true;
    } else if (at != entries.end()) {
      right = right && At(it, entries, at);
    } else if (lsm_sst_iter_valid(it)) {
      at = entries.lower_bound(key);
      right = right && At(it, entries, at) &&
              at->first.compare(0, key.size(), key) == 0;
    }
    at = entries.upper_bound(key);
    at = at == entries.begin() ? entries.end() : std::prev(at);
    status = lsm_sst_iter_seek_last(it, key.data(), key.size(), &err);
    if (status != LSM_SST_OK)
      *failed = true;
    else
      right = right && At(it, entries, at);
  }
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  if (verify && right) {
    status = lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr, &err);
    if (status != LSM_SST_OK) *failed = true;
  }
  return right;
}

void TestDamage(int flips) {
  std::mt19937_64 rng(99);
  for (const LsmCompression compression : kCompressions) {
    const char *name = CompressionName(compression);
    Entries entries;
    for (int i = 0; i < 700; i++) {
      std::string key = RandomKey(&rng);
      entries.emplace(key.substr(0, 100),
                      std::string(static_cast<size_t>(rng() % 50), 'v'));
    }
    const std::vector<std::string> keys = KeysOf(entries);
    const std::string path = Path("damage.sst");
    LsmSstError err;
    LsmSstProperties props;
    if (WriteEntries(path, compression, entries, &props, &err) != LSM_SST_OK) {
      Check(false, "%s: %s", name, err.message);
      continue;
    }
    const std::string image = ReadFile(path);
    bool right = true, failed;

    // Truncation: every length near an edge, every 61st elsewhere.
    size_t accepted = 0, lengths = 0;
    for (size_t bytes = 0; bytes < image.size() && right; bytes++) {
      const bool edge =
          bytes < 64 || image.size() - bytes < 600 ||
          (bytes + 64 > props.data_bytes && bytes < props.data_bytes + 64);
      if (!edge && bytes % 61 != 0) continue;
      WriteFile(path, image.data(), bytes);
      right = ReadDamaged(path, entries, keys, &rng, false, &failed);
      if (!failed) accepted++;
      lengths++;
    }
    Check(right && accepted == 0, "%s: %zu truncations are all noticed", name,
          lengths);

    // Bytes missing from, or added to, the middle.
    accepted = 0;
    for (int i = 0; i < 200 && right; i++) {
      std::string damaged = image;
      const size_t where = rng() % props.data_bytes;
      if (i % 2 == 0)
        damaged.erase(where, 1 + rng() % 100);
      else
        damaged.insert(where, 1 + rng() % 100, '\0');
      WriteFile(path, damaged.data(), damaged.size());
      right = ReadDamaged(path, entries, keys, &rng, false, &failed);
      if (!failed) accepted++;
    }
    Check(right && accepted == 0, "%s: shifted contents are noticed", name);

    // Single bits.
    size_t accepted_data = 0, accepted_rest = 0;
    for (int i = 0; i < flips && right; i++) {
      std::string damaged = image;
      // The tail is small and has the most structure: half of the flips.
      const size_t where =
          i % 2 == 0
              ? rng() % props.data_bytes
              : props.data_bytes + rng() % (image.size() - props.data_bytes);
      damaged[where] = static_cast<char>(damaged[where] ^ (1 << (rng() % 8)));
      WriteFile(path, damaged.data(), damaged.size());
      right = ReadDamaged(path, entries, keys, &rng, i % 16 == 0, &failed);
      if (!failed) (where < props.data_bytes ? accepted_data : accepted_rest)++;
    }
    Check(right && accepted_data == 0,
          "%s: %d flipped bits, those in the data all noticed", name, flips);
    // Only the padding of the footer, 40 bytes less two handles, may pass.
    Check(accepted_rest < static_cast<size_t>(flips) / 10,
          "%s: %zu flips in unused bytes passed", name, accepted_rest);

    // Damage with a good checksum: bounds are all that is left.  The values
    // may then be wrong, but nothing may crash.
    for (int i = 0; i < flips / 4; i++) {
      std::string damaged = image;
      for (int n = 0; n < 3; n++) {
        const size_t where = rng() % image.size();
        damaged[where] = static_cast<char>(rng());
      }
      WriteFile(path, damaged.data(), damaged.size());
      LsmSstReader *reader;
      if (lsm_sst_open(path.c_str(), &reader, &err) == LSM_SST_OK)
        lsm_sst_close(reader);
    }
    unlink(path.c_str());
  }
}

// Some entries at once, whatever they are; copies lie where they say.
LsmSstStatus ReadSome(LsmSstIter *it, bool back, LsmSstError *err) {
  LsmSstEntry copies[64];
  std::vector<char> bytes(4096);
  size_t value_bytes;
  const void *value = lsm_sst_iter_value(it, &value_bytes);
  LsmSstBatch take = {};
  bool taken;
  take.bound = "";
  take.bound_prefix = true;
  take.first_byte = value_bytes > 0 ? *static_cast<const uint8_t *>(value) : 0;
  take.entries = copies;
  take.max = 64;
  take.bytes = bytes.data();
  take.capacity = static_cast<uint32_t>(bytes.size());
  const LsmSstStatus status =
      back ? lsm_sst_iter_read_batch_back(it, &take, &taken, err)
           : lsm_sst_iter_read_batch(it, &take, &taken, err);
  for (int i = 0; i < take.n; i++) {
    if (size_t{copies[i].key_offset} + copies[i].key_bytes > bytes.size() ||
        size_t{copies[i].value_offset} + copies[i].value_bytes > bytes.size())
      abort();
  }
  return status;
}

// Blocks damaged after their checksum was compared: only the bounds are left.
// The mapping is shared, so writing to the file changes what the reader sees.
void TestDamageBehindChecksum(LsmCompression compression, int rounds) {
  std::mt19937_64 rng(5);
  const char *name = CompressionName(compression);
  const Entries entries = RandomEntries(2000, 77);
  const std::vector<std::string> keys = KeysOf(entries);
  const std::string path = Path("behind.sst");
  LsmSstError err;
  LsmSstProperties props;
  LsmSstReader *reader;
  LsmSstIter *it;
  if (WriteEntries(path, compression, entries, &props, &err) !=
          LSM_SST_OK ||
      lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK) {
    Check(false, "%s", err.message);
    return;
  }
  lsm_sst_iter_open(reader, &it, &err);
  lsm_sst_iter_first(it, &err);
  while (lsm_sst_iter_valid(it)) lsm_sst_iter_next(it, &err);
  const std::string image = ReadFile(path);
  const int fd = open(path.c_str(), O_WRONLY);
  int refused = 0;
  for (int i = 0; i < rounds; i++) {
    // Data and index, never the same twice.
    for (int n = 0; n < 50; n++) {
      const char byte = static_cast<char>(rng());
      if (pwrite(fd, &byte, 1, static_cast<off_t>(rng() % image.size())) != 1)
        abort();
    }
    for (int n = 0; n < 40; n++) {
      const std::string key = ProbeKey(keys, &rng);
      LsmSstStatus status;
      if (n % 8 == 2)
        // A point lookup: decompresses as much of a block as it needs.
        status = lsm_sst_iter_seek_prefix(it, key.data(), key.size(),
                                          key.size(), &err);
      else if (n % 2 == 0)
        status = lsm_sst_iter_seek(it, key.data(), key.size(), &err);
      else
        status = lsm_sst_iter_seek_last(it, key.data(), key.size(), &err);
      for (int step = 0; step < 30 && status == LSM_SST_OK; step++) {
        if (!lsm_sst_iter_valid(it)) break;
        size_t bytes;
        const void *value = lsm_sst_iter_value(it, &bytes);
        std::string copy(static_cast<const char *>(value), bytes);
        if (step % 3 == 2) {
          status = ReadSome(it, n % 4 >= 2, &err);
          if (status != LSM_SST_OK || !lsm_sst_iter_valid(it)) break;
        }
        status = n % 4 < 2 ? lsm_sst_iter_next(it, &err)
                           : lsm_sst_iter_prev(it, &err);
      }
      if (status != LSM_SST_OK) refused++;
    }
    if (pwrite(fd, image.data(), image.size(), 0) !=
        static_cast<ssize_t>(image.size()))
      abort();
  }
  close(fd);
  Check(refused > 0, "%s: damage behind the checksum: %d refused, no crash",
        name, refused);
  RandomOperations(reader, entries, 2000, "and undamaged again");
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  unlink(path.c_str());
}

// A file of 2,000 entries in blocks that are not compressed, open.
LsmSstReader *OpenPlain(const std::string &path, LsmSstError *err) {
  Entries entries;
  for (int i = 0; i < 2000; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%08d", i);
    entries[key] = std::string(40, 'x');
  }
  LsmSstProperties props;
  LsmSstReader *reader;
  if (WriteEntries(path, LSM_COMPRESSION_NONE, entries, &props, err) ==
          LSM_SST_OK &&
      lsm_sst_open(path.c_str(), &reader, err) == LSM_SST_OK)
    return reader;
  Check(false, "%s", err->message);
  return nullptr;
}

// A separator below the last key of its block, under a checksum that is right:
// a search does not find what is between them.
void TestSeparator() {
  const std::string path = Path("separator.sst");
  LsmSstError err;
  LsmSstReader *reader = OpenPlain(path, &err);
  if (reader == nullptr) return;
  const uint8_t *key, *after;
  size_t key_bytes;
  lsm_sst::Footer footer;
  const bool found = lsm_sst::IndexKey(reader, 3, &key, &key_bytes, &after) &&
                     lsm_sst::ParseFooter(reader->map.base, reader->map.bytes,
                                          &footer)
                         .ok();
  const size_t at = found ? static_cast<size_t>(key - reader->map.base) : 0;
  lsm_sst_close(reader);
  Check(found && lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr,
                                &err) == LSM_SST_OK,
        "a file whose separators are right");
  std::string image = ReadFile(path);
  image[at + key_bytes - 1]--;
  uint8_t *index = reinterpret_cast<uint8_t *>(&image[footer.index.offset]);
  const uint32_t checksum =
      lsm_sst::BlockChecksum(index, footer.index.bytes, 0);
  memcpy(index + footer.index.bytes + 1, &checksum, sizeof(checksum));
  WriteFile(path, image.data(), image.size());
  Check(lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr, &err) ==
                LSM_SST_CORRUPT &&
            strstr(err.message, "does not lead to its key") != nullptr,
        "a wrong separator is reported");
  Note(err);
  unlink(path.c_str());
}

// A restart that leads nowhere, with a checksum that is right: only who seeks
// or steps back would notice.
void TestRestarts() {
  const std::string path = Path("restarts.sst");
  LsmSstError err;
  LsmSstReader *reader = OpenPlain(path, &err);
  if (reader == nullptr) return;
  const std::string sound = ReadFile(path);
  for (const uint32_t block : {uint32_t{0}, reader->blocks - 1}) {
    lsm_sst::BlockHandle handle;
    lsm_sst::BlockShape shape = {};
    Check(lsm_sst::IndexHandle(reader, block, &handle).ok() &&
              lsm_sst::ParseBlock(reader->map.base + handle.offset,
                                  handle.bytes, &shape)
                  .ok() &&
              shape.restarts > 2,
          "block %u has restarts", block);
    for (uint32_t i = 0; i < shape.restarts; i++) {
      for (const int by : {-1, 1, 1000}) {
        std::string image = sound;
        uint8_t *contents = reinterpret_cast<uint8_t *>(&image[handle.offset]);
        uint8_t *restart = contents + shape.entries_bytes + 4 * i;
        uint32_t value;
        memcpy(&value, restart, sizeof(value));
        value += static_cast<uint32_t>(by);
        memcpy(restart, &value, sizeof(value));
        const uint32_t checksum =
            lsm_sst::BlockChecksum(contents, handle.bytes, 0);
        memcpy(contents + handle.bytes + 1, &checksum, sizeof(checksum));
        WriteFile(path, image.data(), image.size());
        if (lsm_sst_verify(path.c_str(), nullptr, nullptr, nullptr, &err) !=
                LSM_SST_CORRUPT ||
            strstr(err.message, "a restart is damaged") == nullptr)
          Check(false, "block %u, restart %u by %d: %s", block, i, by,
                err.message);
      }
    }
  }
  Note(err);
  lsm_sst_close(reader);
  unlink(path.c_str());
}

// ---- full disk ----

void TestDiskFull() {
  // More than two writes of the writer's
  const std::string dir = Path("full");
  mkdir(dir.c_str(), 0700);
  if (mount("tmpfs", dir.c_str(), "tmpfs", 0, "size=5m") != 0) {
    Check(true, "full disk # SKIP cannot mount: %s", strerror(errno));
    rmdir(dir.c_str());
    return;
  }
  LsmSstError err;
  const std::string path = dir + "/x.sst";
  const std::string value(1000, 'x');
  LsmSstWriter *writer;
  LsmSstStatus status =
      lsm_sst_writer_open(path.c_str(), 0600, LSM_COMPRESSION_NONE, &writer, &err);
  Check(status == LSM_SST_OK, "full disk: writer opened");
  int added = 0;
  while (status == LSM_SST_OK && added < 16000) {
    char key[16];
    snprintf(key, sizeof(key), "%08d", added);
    status =
        lsm_sst_writer_add(writer, key, 8, value.data(), value.size(), nullptr, &err);
    if (status == LSM_SST_OK) added++;
  }
  Check(status == LSM_SST_DISK_FULL && err.sys_errno == ENOSPC && added < 6500,
        "full disk: add fails after %d kB", added);
  Note(err);
  Check(lsm_sst_writer_add(writer, "z", 1, "", 0, nullptr, &err) == LSM_SST_DISK_FULL,
        "full disk: a failed writer takes no more");
  status = lsm_sst_writer_finish(writer, nullptr, &err);
  Check(status == LSM_SST_DISK_FULL && !Exists(path),
        "full disk: finish fails too and removes the file");
  Note(err);

  // Full only when the last buffer is written.
  const std::string filler = dir + "/filler";
  const std::string most((4 * 1024 + 900) * 1024, 'f');
  Check(lsm_sst_write_blob(filler.c_str(), 0600, most.data(), most.size(), &err) ==
            LSM_SST_OK,
        "full disk: blob that fits");
  status =
      lsm_sst_writer_open(path.c_str(), 0600, LSM_COMPRESSION_NONE, &writer, &err);
  for (int i = 0; i < 180 && status == LSM_SST_OK; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%08d", i);
    status =
        lsm_sst_writer_add(writer, key, 8, value.data(), value.size(), nullptr, &err);
  }
  // Depending on the buffer, it is noticed here or at the end.
  LsmSstError finish_err;
  const LsmSstStatus finished =
      lsm_sst_writer_finish(writer, nullptr, &finish_err);
  Check((status == LSM_SST_DISK_FULL || finished == LSM_SST_DISK_FULL) &&
            finished != LSM_SST_OK && !Exists(path),
        "full disk: noticed at the end");
  Note(finish_err);

  const std::string blob = dir + "/x.flt";
  status = lsm_sst_write_blob(blob.c_str(), 0600, most.data(), most.size(), &err);
  Check(status == LSM_SST_DISK_FULL && err.sys_errno == ENOSPC && !Exists(blob),
        "full disk: blob");
  Note(err);
  umount(dir.c_str());
  rmdir(dir.c_str());
}

// ---- SIGBUS ----

void PreviousHandler(int) { _exit(42); }

void TestBusError() {
  const Entries entries = RandomEntries(20000, 3);
  const std::vector<std::string> keys = KeysOf(entries);
  std::mt19937_64 rng(11);
  LsmSstError err;
  for (const LsmCompression compression :
       {LSM_COMPRESSION_NONE, LSM_COMPRESSION_LZ4}) {
    const std::string path = Path("bus.sst");
    LsmSstReader *reader;
    LsmSstIter *it;
    if (WriteEntries(path, compression, entries, nullptr, &err) != LSM_SST_OK ||
        lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK ||
        lsm_sst_iter_open(reader, &it, &err) != LSM_SST_OK ||
        lsm_sst_iter_first(it, &err) != LSM_SST_OK) {
      Check(false, "%s", err.message);
      return;
    }
    // Index and all but the first block are gone.
    if (truncate(path.c_str(), 4096) != 0) abort();
    int faults = 0, others = 0;
    for (int i = 0; i < 100; i++) {
      const std::string &key = keys[rng() % keys.size()];
      const LsmSstStatus status =
          i % 2 == 0 ? lsm_sst_iter_seek(it, key.data(), key.size(), &err)
                     : lsm_sst_iter_seek_last(it, key.data(), key.size(), &err);
      if (status == LSM_SST_IO_ERROR && err.sys_errno == EIO &&
          !lsm_sst_iter_valid(it))
        faults++;
      else
        others++;
    }
    Check(faults > 0 && others == 0,
          "%s: truncated under the mapping: %d errors",
          CompressionName(compression), faults);
    Note(err);
    Check(lsm_sst_iter_last(it, &err) == LSM_SST_IO_ERROR,
          "%s: and so does last", CompressionName(compression));
    lsm_sst_iter_close(it);
    lsm_sst_close(reader);
    unlink(path.c_str());
  }

  // While stepping: what was read stays good, then the error.
  const std::string path = Path("bus.sst");
  LsmSstReader *reader;
  LsmSstIter *it;
  WriteEntries(path, LSM_COMPRESSION_NONE, entries, nullptr, &err);
  lsm_sst_open(path.c_str(), &reader, &err);
  lsm_sst_iter_open(reader, &it, &err);
  auto at = entries.lower_bound(keys[keys.size() / 2]);
  lsm_sst_iter_seek(it, at->first.data(), at->first.size(), &err);
  bool good = true;
  LsmSstStatus status = LSM_SST_OK;
  if (truncate(path.c_str(), 8192) != 0) abort();
  int steps = 0;
  while (status == LSM_SST_OK && good) {
    good = At(it, entries, at++);
    steps++;
    status = lsm_sst_iter_next(it, &err);
  }
  Check(good && status == LSM_SST_IO_ERROR, "error at step %d of a scan",
        steps);
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  unlink(path.c_str());

  // A filter file reads as ones where it cannot be read.
  const std::string blob_path = Path("bus.flt");
  const std::string zeros(65536, '\0');
  LsmSstBlob blob;
  lsm_sst_write_blob(blob_path.c_str(), 0600, zeros.data(), zeros.size(), &err);
  lsm_sst_map_blob(blob_path.c_str(), &blob, &err);
  LsmSstBlob other_blob;
  const std::string other_path = Path("bus_other.flt");
  lsm_sst_write_blob(other_path.c_str(), 0600, zeros.data(), zeros.size(),
                     &err);
  lsm_sst_map_blob(other_path.c_str(), &other_blob, &err);
  if (truncate(blob_path.c_str(), 4096) != 0) abort();
  const uint64_t before = lsm_sst_blob_faults();
  const volatile uint8_t *bytes = static_cast<const uint8_t *>(blob.data);
  good = bytes[0] == 0 && bytes[5000] == 0xff && bytes[65535] == 0xff;
  Check(good && lsm_sst_blob_faults() == before + 2,
        "unreadable pages of a filter file read as ones");
  Check(lsm_sst_blob_faulted(&blob) && !lsm_sst_blob_faulted(&other_blob),
        "it is known of which filter file they are");
  lsm_sst_unmap_blob(&blob);
  lsm_sst_map_blob(other_path.c_str(), &blob, &err);
  Check(!lsm_sst_blob_faulted(&blob), "a new mapping has no faults");
  lsm_sst_unmap_blob(&blob);
  lsm_sst_unmap_blob(&other_blob);
  unlink(blob_path.c_str());
  unlink(other_path.c_str());

  // Somebody else's fault goes to somebody else's handler.
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const std::string other = Path("bus.other");
    WriteFile(other, zeros.data(), zeros.size());
    const int fd = open(other.c_str(), O_RDWR);
    void *map = mmap(nullptr, zeros.size(), PROT_READ, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0) != 0) _exit(1);
    unlink(other.c_str());
    _exit(static_cast<volatile uint8_t *>(map)[100] + 1);
  }
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  Check(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 42,
        "faults elsewhere reach the previous handler");
}
// The only restart of a block, damaged behind the checksum, points to where the
// entry at hand ends: reading backward from there finds none.
void TestRestartAtEnd() {
  const std::string path = Path("restart.sst");
  const Entries entries = {{"k1", "v1"}, {"k2", "v2"}, {"k3", "v3"}};
  LsmSstProperties props;
  LsmSstReader *reader;
  LsmSstIter *it;
  LsmSstError err;
  if (WriteEntries(path, LSM_COMPRESSION_NONE, entries, &props, &err) !=
          LSM_SST_OK ||
      lsm_sst_open(path.c_str(), &reader, &err) != LSM_SST_OK ||
      lsm_sst_iter_open(reader, &it, &err) != LSM_SST_OK) {
    Check(false, "%s", err.message);
    return;
  }
  bool good = lsm_sst_iter_seek(it, "k1", 2, &err) == LSM_SST_OK;
  // Three lengths, the key with its trailer, the value.
  const uint32_t end = 3 + 2 + 8 + 2;
  const off_t restart = static_cast<off_t>(props.data_bytes) - 5 - 8;
  const int fd = open(path.c_str(), O_WRONLY);
  good = good && pwrite(fd, &end, sizeof(end), restart) == sizeof(end);
  close(fd);
  alarm(30);  // it was for ever
  char bytes[1024];
  LsmSstEntry copies[64];
  LsmSstBatch take = {};
  bool taken = true;
  take.bound = "";
  take.bound_prefix = true;
  take.first_byte = 'v';
  take.entries = copies;
  take.max = 64;
  take.bytes = bytes;
  take.capacity = sizeof(bytes);
  good = good &&
         lsm_sst_iter_read_batch_back(it, &take, &taken, &err) == LSM_SST_OK &&
         take.n == 0 && !taken;
  alarm(0);
  Check(good, "a restart that points to where the entry ends");
  lsm_sst_iter_close(it);
  lsm_sst_close(reader);
  unlink(path.c_str());
}

}  // namespace

int main(int argc, char **argv) {
  if (!Begin(argc, argv)) return 1;
  // Before the first mapping, so that ours is installed on top of it.
  signal(SIGBUS, PreviousHandler);
  TestDamage(1500);
  for (const LsmCompression compression :
       {LSM_COMPRESSION_NONE, LSM_COMPRESSION_LZ4})
    TestDamageBehindChecksum(compression, 60);
  TestSeparator();
  TestRestarts();
  TestDiskFull();
  TestBusError();
  TestRestartAtEnd();
  return End();
}
