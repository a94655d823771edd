#include "tessera/tools/testing/mutations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <random>

namespace tessera::testing_internal {
namespace {

using Bytes = std::vector<uint8_t>;

/// Changes some bytes, most often in the header, and now and then the length.
void Mutate(const Bytes& telling, std::mt19937* random, Bytes* bytes) {
  const auto below = [random](size_t bound) { return (*random)() % std::max<size_t>(bound, 1); };
  for (size_t changes = 1 + below(4); changes > 0 && !bytes->empty(); --changes) {
    const size_t range = below(2) == 0 ? std::min<size_t>(bytes->size(), 20) : bytes->size();
    uint8_t& byte = (*bytes)[below(range)];
    byte = below(2) == 0 ? telling[below(telling.size())] : static_cast<uint8_t>((*random)());
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

}  // namespace

void RunMutations(FuzzTarget target, const std::vector<Bytes>& valid, const Bytes& telling,
                  int count) {
  const char* given = std::getenv("TESSERA_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atol(given)) : 20240601u;
  testing::Test::RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const Bytes& file : valid) {
    target(file.data(), file.size());
    for (int i = 0; i < count; ++i) {
      Bytes bytes = file;
      Mutate(telling, &random, &bytes);
      target(bytes.data(), bytes.size());
    }
  }
}

}  // namespace tessera::testing_internal
