// Unit test of src/sst/lz4_part: a part and then all of a block, and with
// damaged input, whose ends are those of memory that was allocated: the
// sanitizer sees what goes beyond.  TAP on standard output.

#include "sst/lz4_part.h"

#include <lz4.h>

#include "sst_harness.h"

namespace {

using lsm_sst::Lz4DecodeTo;
using lsm_sst::Lz4Part;

std::string Contents(std::mt19937_64 *rng) {
  std::string contents;
  const size_t bytes = 1 + (*rng)() % 6000;
  while (contents.size() < bytes) {
    const size_t run = 1 + (*rng)() % ((*rng)() % 8 == 0 ? 700 : 40);
    switch ((*rng)() % 4) {
      case 0:
        contents.append(run, static_cast<char>((*rng)()));
        break;
      case 1:
        for (size_t i = 0; i < run; i++)
          contents.push_back("0123456789abcdef"[(*rng)() % 16]);
        break;
      case 2:
        // Copies, also of what is near.
        for (size_t i = 0, at = (*rng)() % (contents.size() + 1),
                    near = contents.size() -
                           std::min(contents.size(), (*rng)() % 20);
             i < run; i++) {
          const size_t from = (at % 2 == 0 ? at : near) + i;
          contents.push_back(from < contents.size() ? contents[from] : 'x');
        }
        break;
      default:
        for (size_t i = 0; i < run; i++)
          contents.push_back(static_cast<char>((*rng)()));
    }
  }
  return contents;
}

std::string Compress(const std::string &contents) {
  std::string packed(
      static_cast<size_t>(LZ4_compressBound(static_cast<int>(contents.size()))),
      '\0');
  packed.resize(static_cast<size_t>(LZ4_compress_default(
      contents.data(), &packed[0], static_cast<int>(contents.size()),
      static_cast<int>(packed.size()))));
  return packed;
}

// Decodes `wanted` bytes, then all.  False if refused.
bool Decode(const std::string &packed, size_t raw_bytes, size_t wanted,
            std::string *out, bool *sound) {
  std::unique_ptr<uint8_t[]> in(new uint8_t[packed.size()]());
  std::unique_ptr<uint8_t[]> to(new uint8_t[raw_bytes]());
  memcpy(in.get(), packed.data(), packed.size());
  Lz4Part part = {in.get(), packed.size(), to.get(), raw_bytes, 0};
  bool good = Lz4DecodeTo(&part, std::min(wanted, raw_bytes));
  *sound = !good || (part.bytes >= std::min(wanted, raw_bytes) &&
                     part.bytes <= raw_bytes);
  const std::string before(reinterpret_cast<char *>(to.get()), part.bytes);
  good = good && Lz4DecodeTo(&part, raw_bytes);
  out->assign(reinterpret_cast<char *>(to.get()), raw_bytes);
  if (good && out->compare(0, before.size(), before) != 0) *sound = false;
  return good;
}

void TestBlocks(int count) {
  std::mt19937_64 rng(3);
  bool right = true;
  bool sound;
  std::string out;
  for (int i = 0; i < count && right; i++) {
    const std::string contents = Contents(&rng);
    const std::string packed = Compress(contents);
    for (size_t step : {size_t{1}, 1 + rng() % 300, contents.size()})
      right = right && Decode(packed, contents.size(), step, &out, &sound) &&
              sound && out == contents;
    // The end lies elsewhere than the file says.
    for (size_t bytes : {contents.size() - 1, contents.size() + 1})
      right = right && !Decode(packed, bytes, bytes, &out, &sound) && sound;
    // Cut off anywhere.
    right = right &&
            !Decode(packed.substr(0, rng() % packed.size()), contents.size(),
                    1 + rng() % 300, &out, &sound) &&
            sound;
  }
  Check(right, "%d blocks, as a whole, in two steps and cut off", count);
}

void TestDamage(int count) {
  std::mt19937_64 rng(4);
  bool right = true;
  int accepted = 0;
  for (int i = 0; i < count && right; i++) {
    const std::string contents = Contents(&rng);
    std::string packed = Compress(contents);
    for (int flips = 1 + static_cast<int>(rng() % 4); flips > 0; flips--) {
      const size_t at = rng() % packed.size();
      packed[at] = rng() % 2 == 0
                       ? static_cast<char>(packed[at] ^ (1 << rng() % 8))
                       : static_cast<char>(0xff);
    }
    std::string out, theirs(contents.size(), '\0');
    bool sound;
    const bool taken =
        Decode(packed, contents.size(), 1 + rng() % 600, &out, &sound);
    const int got = LZ4_decompress_safe(packed.data(), &theirs[0],
                                        static_cast<int>(packed.size()),
                                        static_cast<int>(theirs.size()));
    right = sound;
    right = right && taken == (got == static_cast<int>(contents.size()));
    if (taken) right = right && out == theirs;
    accepted += taken;
  }
  Check(right && accepted > 0 && accepted < count,
        "%d damaged blocks (%d of them decompressed, as by the library)", count,
        accepted);
}

}  // namespace

int main(int argc, char **argv) {
  if (!Begin(argc, argv)) return 1;
  TestBlocks(3000);
  TestDamage(20000);
  return End();
}
