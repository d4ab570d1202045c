/*-------------------------------------------------------------------------
 *
 * hash_sharing.cc
 *	  Tables 1-3 and figures 2-3 of "Reducing Bloom Filter CPU Overhead in
 *	  LSM-Trees on Modern Storage Devices", and what one digest for all
 *levels does to their false positives, over src/filter.
 *
 * usage: hash_sharing [table1|table2|table3|figure2|figure3|levels|overlap]...
 *
 * Hash functions come from libraries: XXH3 and XXH64 from libxxhash,
 *MurmurHash64A from libstdc++ (std::_Hash_bytes), CityHash64 from Abseil,
 *CRC32C from ISA-L, MD5 and SHA-256 from libcrypto.  Times are the least of
 *several runs.
 *
 *-------------------------------------------------------------------------
 */
#include <bits/hash_bytes.h>
#include <fcntl.h>
#include <isa-l.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/hash/internal/city.h"

extern "C" {
#include "filter/filter.h"
}

namespace {

constexpr int kKeys = 10000;      // as in the paper, section 4.1
constexpr int kQueries = 100000;  // of absent keys
constexpr int kBitsPerKey = 10;
constexpr int kProbes = 7;
constexpr int kRuns = 40;

typedef uint64_t (*Hash)(const char *key, size_t bytes);

uint64_t Mix(uint64_t x) {
  // finalizer of MurmurHash3: for digests of 32 bits and numbers
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

uint64_t HashXxh3(const char *key, size_t bytes) {
  return XXH3_64bits(key, bytes);
}
uint64_t HashLsm(const char *key, size_t bytes) {
  return lsm_digest_key(key, bytes);
}
uint64_t HashXxh64(const char *key, size_t bytes) {
  return XXH64(key, bytes, 0);
}
uint64_t HashMurmur(const char *key, size_t bytes) {
  return std::_Hash_bytes(key, bytes, 0xc70f6907);
}
uint64_t HashCity(const char *key, size_t bytes) {
  return absl::hash_internal::CityHash64(key, bytes);
}
uint64_t HashCrc(const char *key, size_t bytes) {
  return Mix(
      crc32_iscsi(reinterpret_cast<unsigned char *>(const_cast<char *>(key)),
                  static_cast<int>(bytes), 0xffffffff));
}
uint64_t HashMd5(const char *key, size_t bytes) {
  uint64_t digest[2];
  MD5(reinterpret_cast<const unsigned char *>(key), bytes,
      reinterpret_cast<unsigned char *>(digest));
  return digest[0];
}
uint64_t HashSha(const char *key, size_t bytes) {
  uint64_t digest[4];
  SHA256(reinterpret_cast<const unsigned char *>(key), bytes,
         reinterpret_cast<unsigned char *>(digest));
  return digest[0];
}

struct Function {
  const char *name;
  Hash hash;
};

const Function kXxh3 = {"XXH3 (lsmam's digest)", HashLsm};
const Function kXxh3Plain = {"XXH3 (libxxhash as packaged)", HashXxh3};
const Function kXxh64 = {"XXH64", HashXxh64};
const Function kMurmur = {"MurmurHash64A", HashMurmur};
const Function kCrc = {"CRC32C", HashCrc};
const Function kCity = {"CityHash64", HashCity};
const Function kMd5 = {"MD5", HashMd5};
const Function kSha = {"SHA-256", HashSha};
const Function kAll[] = {kXxh3,  kXxh3Plain, kCity, kMurmur,
                         kXxh64, kCrc,       kMd5,  kSha};
// seven functions, for a filter that shares nothing
const Hash kSeven[kProbes] = {HashLsm, HashCity, HashMurmur, HashXxh64,
                              HashCrc, HashMd5,  HashSha};

volatile uint64_t sink;

// `count` keys of `bytes` bytes; different for different seeds.
class Keys {
 public:
  Keys(uint64_t seed, int count, size_t bytes)
      : bytes_(bytes), data_(count * bytes) {
    for (int i = 0; i < count; i++) {
      for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = Mix(Mix(seed * 0x9e3779b97f4a7c15ULL + i) +
                            at / 8 * 0x632be59bd9b4e019ULL);
        memcpy(&data_[i * bytes + at], &word, std::min<size_t>(8, bytes - at));
      }
    }
  }
  const char *at(int i) const { return &data_[i * bytes_]; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  std::vector<char> data_;
};

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

// Least of several runs, nanoseconds per operation.
double Time(int operations, const std::function<uint64_t()> &work) {
  double best = 1e30;
  for (int run = 0; run < kRuns; run++) {
    double start = Now();
    sink = work();
    best = std::min(best, Now() - start);
  }
  return best / operations;
}

uint64_t Range(uint64_t x, uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(x) * n) >> 64);
}

// Bits of a plain Bloom filter; positions are the caller's affair.
class Bits {
 public:
  explicit Bits(uint64_t n) : n_(n), words_((n + 63) / 64) {}
  void Set(uint64_t x) {
    uint64_t at = Range(x, n_);
    words_[at / 64] |= 1ULL << (at % 64);
  }
  bool Has(uint64_t x) const {
    uint64_t at = Range(x, n_);
    return (words_[at / 64] >> (at % 64)) & 1;
  }

 private:
  uint64_t n_;
  std::vector<uint64_t> words_;
};

// The paper's bit rotation: g_i(x) = h(x) + i * d, d = h(x) rotated by 17.  64
// bits here.
uint64_t Rotated(uint64_t h, int i) { return h + i * ((h << 17) | (h >> 47)); }

// A filter of src/filter over digests.
class Filter {
 public:
  Filter(LsmFilterScheme scheme, std::vector<LsmDigest> digests,
         double bits_per_key = kBitsPerKey) {
    LsmFilterParams params = {};
    const char *why = nullptr;
    params.scheme = scheme;
    params.bits_per_key = bits_per_key;
    size_t bytes = lsm_filter_image_bytes(&params, digests.size(), nullptr);
    image_ = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (lsm_filter_build(&params, digests.data(), digests.size(), nullptr, nullptr, image_,
                         bytes) != LSM_FILTER_OK ||
        lsm_filter_open(image_, bytes, true, &filter_, &why) != LSM_FILTER_OK) {
      fprintf(stderr, "cannot build a filter of scheme %d\n", scheme);
      exit(1);
    }
  }
  Filter(const Filter &) = delete;
  Filter &operator=(const Filter &) = delete;
  ~Filter() { free(image_); }
  bool Has(LsmDigest digest) const {
    return lsm_filter_probe(&filter_, digest);
  }
  double Expected() const { return lsm_filter_expected_fpr(&filter_); }

 private:
  void *image_;
  LsmFilter filter_;
};

std::vector<LsmDigest> Digests(const Keys &keys, int count, Hash hash) {
  std::vector<LsmDigest> digests(count);
  for (int i = 0; i < count; i++) digests[i] = hash(keys.at(i), keys.bytes());
  return digests;
}

// ---- table 1: hashing against reading ----

double TimeHash(Hash hash, size_t bytes) {
  Keys keys(1, 1000, bytes);
  // short enough to end between two preemptions
  return Time(1000, [&] {
    uint64_t sum = 0;
    for (int i = 0; i < 1000; i++) sum += hash(keys.at(i), bytes);
    return sum;
  });
}

// Random 4 kB pages of a file of 256 MB; direct: past the page cache. Negative:
// no direct I/O.
double TimeReads(bool direct) {
  const char *dir = getenv("TMPDIR");
  std::string path = std::string(dir ? dir : "/tmp") + "/hash_sharing.XXXXXX";
  constexpr int kPages = 65536;
  int fd = mkstemp(&path[0]);
  void *page = aligned_alloc(4096, 4096);
  double result = -1;

  memset(page, 1, 4096);
  for (int i = 0; i < kPages; i++)
    if (write(fd, page, 4096) != 4096) exit(1);
  fsync(fd);
  close(fd);
  fd = open(path.c_str(), O_RDONLY | (direct ? O_DIRECT : 0));
  unlink(path.c_str());
  if (fd >= 0) {
    int n = direct ? 100 : 5000;
    uint64_t x = 1;
    bool failed = false;
    result = Time(n, [&] {
      for (int i = 0; i < n; i++)
        failed |= pread(fd, page, 4096,
                        static_cast<off_t>(Range(x = Mix(x + 1), kPages)) *
                            4096) != 4096;
      return x;
    });
    close(fd);
    if (failed) result = -1;
  }
  free(page);
  return result;
}

// A read of one word in a random 4 kB page of 256 MB, each depending on the one
// before.
double TimeMemory() {
  constexpr uint64_t kPages = 65536;
  char *memory =
      static_cast<char *>(mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) return -1;
  // without huge pages a virtual machine spends most of the time on page tables
  madvise(memory, kPages * 4096, MADV_HUGEPAGE);
  memset(memory, 0, kPages * 4096);
  double result =
      Time(50000,
           [&] {
             uint64_t x = 1;
             for (int i = 0; i < 50000; i++)
               x = Mix(x + memory[Range(x, kPages) * 4096 + 64 * (x % 64)] + 1);
             return x;
           }) -
      Time(50000, [&] {
        uint64_t x = 1;
        for (int i = 0; i < 50000; i++) x = Mix(x + 1);
        return x;
      });
  munmap(memory, kPages * 4096);
  return result;
}

void Table1() {
  double memory = TimeMemory();
  auto row = [&](const char *name, double ns) {
    if (ns >= 0) printf("| %s | %.0f ns | %.2g |\n", name, ns, ns / memory);
  };
  printf(
      "\n### Table 1: a read of 4 kB, a hash of a key of 1 kB\n\n| operation | "
      "time | to memory |\n|---|---|---|\n");
  row("4 kB read, direct I/O", TimeReads(true));
  row("4 kB read from the page cache", TimeReads(false));
  row("one word of a random 4 kB page of memory", memory);
  for (const Function &f : kAll)
    row((std::string(f.name) + " of 1 kB").c_str(), TimeHash(f.hash, 1024));
  printf(
      "\n| ns per key of | 8 B | 16 B | 32 B | 64 B | 128 B | 256 B | 512 B | "
      "1 kB |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Function &f : kAll) {
    printf("| %s |", f.name);
    for (size_t bytes = 8; bytes <= 1024; bytes *= 2)
      printf(" %.1f |", TimeHash(f.hash, bytes));
    printf("\n");
  }
}

// ---- table 2: one digest and rotation against k functions ----

// False positives of filters of kKeys keys of 512 bytes, percent; over several
// filters.
constexpr int kFilters = 20;

double RateOfRotation(Hash hash) {
  int64_t positives = 0;
  for (int f = 0; f < kFilters; f++) {
    Keys keys(100 + f, kKeys, 512), absent(900 + f, kQueries / 10, 512);
    Bits bits(kKeys * kBitsPerKey);
    for (int i = 0; i < kKeys; i++) {
      uint64_t h = hash(keys.at(i), 512);
      for (int p = 0; p < kProbes; p++) bits.Set(Rotated(h, p));
    }
    for (int i = 0; i < kQueries / 10; i++) {
      uint64_t h = hash(absent.at(i), 512);
      bool found = true;
      for (int p = 0; p < kProbes && found; p++)
        found = bits.Has(Rotated(h, p));
      positives += found;
    }
  }
  return 100.0 * positives / (kFilters * (kQueries / 10));
}

double RateOfSeven() {
  int64_t positives = 0;
  for (int f = 0; f < kFilters; f++) {
    Keys keys(100 + f, kKeys, 512), absent(900 + f, kQueries / 10, 512);
    Bits bits(kKeys * kBitsPerKey);
    for (int i = 0; i < kKeys; i++)
      for (Hash hash : kSeven) bits.Set(hash(keys.at(i), 512));
    for (int i = 0; i < kQueries / 10; i++) {
      bool found = true;
      for (int p = 0; p < kProbes && found; p++)
        found = bits.Has(kSeven[p](absent.at(i), 512));
      positives += found;
    }
  }
  return 100.0 * positives / (kFilters * (kQueries / 10));
}

double RateOfFilter(LsmFilterScheme scheme, Hash hash, double *expected) {
  int64_t positives = 0;
  for (int f = 0; f < kFilters; f++) {
    Keys keys(100 + f, kKeys, 512), absent(900 + f, kQueries / 10, 512);
    Filter filter(scheme, Digests(keys, kKeys, hash));
    for (int i = 0; i < kQueries / 10; i++)
      positives += filter.Has(hash(absent.at(i), 512));
    *expected = 100 * filter.Expected();
  }
  return 100.0 * positives / (kFilters * (kQueries / 10));
}

void Table2() {
  double bloom = 0, blocked = 0;
  printf(
      "\n### Table 2: false positives with one digest, keys of 512 B, 10 bits "
      "per key, percent\n\n"
      "| hash function | rotation, k = 7 | lsmam bloom | lsmam blocked "
      "|\n|---|---|---|---|\n");
  for (const Function &f : kAll) {
    double rotation = RateOfRotation(f.hash);
    double measured_bloom = RateOfFilter(LSM_FILTER_BLOOM, f.hash, &bloom);
    double measured_blocked =
        RateOfFilter(LSM_FILTER_BLOCKED, f.hash, &blocked);
    printf("| %s | %.3f | %.3f | %.3f |\n", f.name, rotation, measured_bloom,
           measured_blocked);
  }
  printf("| seven functions | %.3f | | |\n", RateOfSeven());
  printf("| closed form | %.3f | %.3f | %.3f |\n",
         100 * pow(1 - exp(-kProbes / double(kBitsPerKey)), kProbes), bloom,
         blocked);
}

// ---- table 3 and figure 3: ElasticBF, seven units of one probe each ----

struct Units {
  std::vector<Bits> units;
  Units() : units(kProbes, Bits(kKeys * kBitsPerKey / kProbes)) {}
};

double RateOfUnits(const std::function<uint64_t(const char *, int)> &position) {
  int64_t positives = 0;
  for (int f = 0; f < kFilters; f++) {
    Keys keys(100 + f, kKeys, 512), absent(900 + f, kQueries / 10, 512);
    Units u;
    for (int i = 0; i < kKeys; i++)
      for (int p = 0; p < kProbes; p++) u.units[p].Set(position(keys.at(i), p));
    for (int i = 0; i < kQueries / 10; i++) {
      bool found = true;
      for (int p = 0; p < kProbes && found; p++)
        found = u.units[p].Has(position(absent.at(i), p));
      positives += found;
    }
  }
  return 100.0 * positives / (kFilters * (kQueries / 10));
}

void Table3() {
  printf(
      "\n### Table 3: ElasticBF, seven units of one probe, false positives, "
      "percent\n\n"
      "| digests | FPR |\n|---|---|\n");
  for (const Function &f : {kXxh3, kMurmur, kXxh64, kCrc, kCity})
    printf("| %s, rotation | %.3f |\n", f.name,
           RateOfUnits([&](const char *key, int p) {
             return Rotated(f.hash(key, 512), p);
           }));
  for (const Function &f : {kXxh64, kCrc, kCity})
    printf("| %s + MurmurHash64A, double hashing | %.3f |\n", f.name,
           RateOfUnits([&](const char *key, int p) {
             return HashMurmur(key, 512) + p * f.hash(key, 512);
           }));
}

const size_t kSizes[] = {8, 16, 32, 64, 128, 256, 512, 1024};

void HeadOfSizes(const char *title) {
  printf("\n### %s\n\n| ns per query of a key of |", title);
  for (size_t bytes : kSizes) printf(" %zu B |", bytes);
  printf("\n|---|");
  for (size_t bytes : kSizes) printf("%s", bytes ? "---|" : "");
  printf("\n");
}

void Figure3() {
  HeadOfSizes(
      "Figure 3: ElasticBF, time of a query that all seven units are asked "
      "for");
  auto row =
      [&](const std::string &name,
          const std::function<uint64_t(const char *, size_t, const Units &)>
              &query) {
        printf("| %s |", name.c_str());
        for (size_t bytes : kSizes) {
          Keys absent(5, 2000, bytes);
          Units u;
          printf(" %.1f |", Time(2000, [&] {
                   uint64_t sum = 0;
                   for (int i = 0; i < 2000; i++)
                     sum += query(absent.at(i), bytes, u);
                   return sum;
                 }));
        }
        printf("\n");
      };
  auto ask = [](const Units &u, uint64_t h1, uint64_t h2) {
    int found = 0;
    for (int p = 0; p < kProbes; p++) found += u.units[p].Has(h1 + p * h2);
    return static_cast<uint64_t>(found);
  };
  for (const Function &f : {kXxh3, kMurmur})
    row(std::string(f.name) + ", rotation",
        [&](const char *key, size_t bytes, const Units &u) {
          uint64_t h = f.hash(key, bytes);
          return ask(u, h, (h << 17) | (h >> 47));
        });
  for (const Function &f : {kXxh64, kCrc, kCity})
    row(std::string(f.name) + " + MurmurHash64A",
        [&](const char *key, size_t bytes, const Units &u) {
          return ask(u, HashMurmur(key, bytes), f.hash(key, bytes));
        });
  row("seven functions, one per unit",
      [&](const char *key, size_t bytes, const Units &u) {
        int found = 0;
        for (int p = 0; p < kProbes; p++)
          found += u.units[p].Has(kSeven[p](key, bytes));
        return static_cast<uint64_t>(found);
      });
}

// ---- figure 2: time of a query of one filter by key size ----

void Figure2() {
  HeadOfSizes("Figure 2: one Bloom filter, time of a query of an absent key");
  auto row =
      [&](const std::string &name,
          const std::function<bool(const Bits &, const char *, size_t)> &query,
          const std::function<void(Bits *, const char *, size_t)> &insert) {
        printf("| %s |", name.c_str());
        for (size_t bytes : kSizes) {
          Keys keys(1, kKeys, bytes), absent(2, 2000, bytes);
          Bits bits(kKeys * kBitsPerKey);
          for (int i = 0; i < kKeys; i++) insert(&bits, keys.at(i), bytes);
          printf(" %.1f |", Time(2000, [&] {
                   uint64_t sum = 0;
                   for (int i = 0; i < 2000; i++)
                     sum += query(bits, absent.at(i), bytes);
                   return sum;
                 }));
        }
        printf("\n");
      };
  // the functions are computed when they are needed: most absent keys end at
  // the second
  row(
      "seven functions, as needed",
      [](const Bits &bits, const char *key, size_t bytes) {
        for (Hash hash : kSeven)
          if (!bits.Has(hash(key, bytes))) return false;
        return true;
      },
      [](Bits *bits, const char *key, size_t bytes) {
        for (Hash hash : kSeven) bits->Set(hash(key, bytes));
      });
  row(
      "seven functions, all",
      [](const Bits &bits, const char *key, size_t bytes) {
        bool found = true;
        for (Hash hash : kSeven) found &= bits.Has(hash(key, bytes));
        return found;
      },
      [](Bits *bits, const char *key, size_t bytes) {
        for (Hash hash : kSeven) bits->Set(hash(key, bytes));
      });
  for (const Function &f : {kMd5, kMurmur, kCity, kXxh3})
    row(
        std::string(f.name) + ", rotation",
        [&](const Bits &bits, const char *key, size_t bytes) {
          uint64_t h = f.hash(key, bytes);
          for (int p = 0; p < kProbes; p++)
            if (!bits.Has(Rotated(h, p))) return false;
          return true;
        },
        [&](Bits *bits, const char *key, size_t bytes) {
          uint64_t h = f.hash(key, bytes);
          for (int p = 0; p < kProbes; p++) bits->Set(Rotated(h, p));
        });
}

// ---- one digest for the filters of all levels ----

constexpr int kLevelKeys = 100000;

void Levels() {
  printf(
      "\n### Levels: blocked filters of %d keys each, all asked for an absent "
      "key, ns per query\n\n"
      "| levels | key | a digest per filter | one digest | saved | hashing's "
      "share, of each |\n|---|---|---|---|---|---|\n",
      kLevelKeys);
  for (int levels : {1, 2, 4, 6, 10, 14}) {
    std::vector<Filter *> filters;
    for (int level = 0; level < levels; level++) {
      Keys keys(50 + level, kLevelKeys, 16);
      filters.push_back(
          new Filter(LSM_FILTER_BLOCKED, Digests(keys, kLevelKeys, HashLsm)));
    }
    for (size_t bytes : {16, 128, 512, 1024}) {
      Keys absent(7, 2000, bytes);
      double unshared = Time(2000, [&] {
        uint64_t sum = 0;
        for (int i = 0; i < 2000; i++)
          for (Filter *filter : filters)
            sum += filter->Has(HashLsm(absent.at(i), bytes));
        return sum;
      });
      double shared = Time(2000, [&] {
        uint64_t sum = 0;
        for (int i = 0; i < 2000; i++) {
          LsmDigest digest = HashLsm(absent.at(i), bytes);
          for (Filter *filter : filters) sum += filter->Has(digest);
        }
        return sum;
      });
      double hash = TimeHash(HashLsm, bytes);
      printf("| %d | %zu B | %.1f | %.1f | %.0f%% | %.0f%%, %.0f%% |\n", levels,
             bytes, unshared, shared, 100 * (1 - shared / unshared),
             std::min(100.0, 100 * hash * levels / unshared),
             std::min(100.0, 100 * hash / shared));
    }
    for (Filter *filter : filters) delete filter;
  }
}

/*
 * Do the same keys fool the filters of several levels when these share a
 * digest? Compared: keys that fool both of two levels, measured and as the
 * product of the rates says; and the mean over six levels, shared against a
 * digest per level.
 */
void Overlap() {
  constexpr int kLevels = 6;
  constexpr int kAsked = 500000;
  printf(
      "\n### Overlap: false positives of %d levels, 10 bits per key, %d absent "
      "keys\n\n"
      "| scheme | FPR, a digest per level | FPR, one digest | closed form | "
      "fooled by both of two levels | as independent |\n"
      "|---|---|---|---|---|---|\n",
      kLevels, kAsked);
  for (LsmFilterScheme scheme : {LSM_FILTER_BLOOM, LSM_FILTER_BLOCKED}) {
    std::vector<Filter *> shared, separate;
    int64_t fooled_shared = 0, fooled_separate = 0, both = 0;
    double expected = 0, pairs = 0;
    for (int level = 0; level < kLevels; level++) {
      std::vector<LsmDigest> one, own;
      // levels grow by 2 from 20,000 keys
      for (int i = 0; i < 20000 << level; i++) {
        uint64_t key[2] = {static_cast<uint64_t>(level),
                           static_cast<uint64_t>(i)};
        one.push_back(HashLsm(reinterpret_cast<char *>(key), sizeof(key)));
        own.push_back(XXH3_64bits_withSeed(key, sizeof(key), 1000 + level));
      }
      shared.push_back(new Filter(scheme, one));
      separate.push_back(new Filter(scheme, own));
      expected += shared.back()->Expected() / kLevels;
    }
    for (int a = 0; a < kLevels; a++)
      for (int b = 0; b < a; b++)
        pairs += shared[a]->Expected() * shared[b]->Expected() * kAsked;
    for (int i = 0; i < kAsked; i++) {
      uint64_t key[2] = {99, static_cast<uint64_t>(i)};
      LsmDigest digest = HashLsm(reinterpret_cast<char *>(key), sizeof(key));
      int fooled = 0;
      for (int level = 0; level < kLevels; level++) {
        fooled += shared[level]->Has(digest);
        fooled_separate += separate[level]->Has(
            XXH3_64bits_withSeed(key, sizeof(key), 1000 + level));
      }
      fooled_shared += fooled;
      both += fooled * (fooled - 1) / 2;
    }
    printf("| %s | %.3f%% | %.3f%% | %.3f%% | %lld | %.0f |\n",
           lsm_filter_scheme_name(scheme),
           100.0 * fooled_separate / kAsked / kLevels,
           100.0 * fooled_shared / kAsked / kLevels, 100 * expected,
           static_cast<long long>(both), pairs);
    for (Filter *filter : shared) delete filter;
    for (Filter *filter : separate) delete filter;
  }
}

}  // namespace

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*run)();
  } parts[] = {{"table1", Table1},   {"table2", Table2},   {"table3", Table3},
               {"figure2", Figure2}, {"figure3", Figure3}, {"levels", Levels},
               {"overlap", Overlap}};
  int known = 0;

  for (const auto &part : parts) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; i++) {
      if (strcmp(argv[i], part.name) == 0) {
        wanted = true;
        known++;
      }
    }
    if (wanted) part.run();
    fflush(stdout);
  }
  if (known != argc - 1) {
    fprintf(
        stderr,
        "usage: %s [table1|table2|table3|figure2|figure3|levels|overlap]...\n",
        argv[0]);
    return 2;
  }
  return 0;
}
