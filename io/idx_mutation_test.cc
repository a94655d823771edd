// Drives the fuzz target with mutations of valid files, the same ones at every run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "tessera/io/internal/idx_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera {
namespace {

using io_internal::Bytes;

std::vector<Bytes> Seeds() {
  Bytes elements(192);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<uint8_t>(i * 7);
  std::vector<Bytes> seeds = {
      io_internal::IdxBytes(0x08, {3, 8, 8}, elements),
      io_internal::IdxBytes(0x0b, {96}, elements),
      io_internal::IdxBytes(0x0c, {6, 8}, elements),
      io_internal::IdxBytes(0x0e, {24}, elements),
      io_internal::IdxBytes(0x08, {0}, {}),
  };
  const size_t plain = seeds.size();
  for (size_t i = 0; i < plain; ++i) seeds.push_back(io_internal::Gzip(seeds[i]));
  return seeds;
}

/// Changes some bytes, most often in the header, and now and then the length.
void Mutate(std::mt19937* random, Bytes* bytes) {
  const auto below = [random](size_t bound) { return (*random)() % std::max<size_t>(bound, 1); };
  constexpr uint8_t kTelling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x08, 0x1f, 0x8b};
  for (size_t changes = 1 + below(4); changes > 0 && !bytes->empty(); --changes) {
    const size_t range = below(2) == 0 ? std::min<size_t>(bytes->size(), 20) : bytes->size();
    uint8_t& byte = (*bytes)[below(range)];
    byte = below(2) == 0 ? kTelling[below(std::size(kTelling))] : static_cast<uint8_t>((*random)());
  }
  switch (below(6)) {
    case 0:
      bytes->resize(below(bytes->size() + 1));
      break;
    case 1:
      bytes->resize(bytes->size() + below(40), 0x5a);
      break;
    default:
      break;
  }
}

TEST(IdxMutationTest, NoBytesBreakTheParser) {
  const char* given = std::getenv("TESSERA_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atol(given)) : 20240601u;
  RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const Bytes& valid : Seeds()) {
    LLVMFuzzerTestOneInput(valid.data(), valid.size());
    for (int i = 0; i < 4000; ++i) {
      Bytes bytes = valid;
      Mutate(&random, &bytes);
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
}

}  // namespace
}  // namespace tessera
