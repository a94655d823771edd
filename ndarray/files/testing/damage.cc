#include "tessera/ndarray/files/testing/damage.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera::ndarray_internal {

void DamageEverywhere(const std::string& file, int step,
                      const std::function<void(const std::string&)>& use) {
  for (size_t size = 0; size < file.size(); ++size) use(file.substr(0, size));
  for (size_t at = 0; at < file.size(); ++at) {
    for (int value = 0; value < 256; value += step) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(value);
      use(damaged);
    }
  }
}

void DamageAtRandom(std::span<const std::string> files, std::span<const uint64_t> numbers,
                    int rounds, const std::function<void(const std::string&)>& use) {
  const char* const given = std::getenv("TESSERA_TEST_SEED");
  const uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  std::printf("TESSERA_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = files[random() % files.size()];
    for (uint64_t n = 1 + random() % 4; n > 0 && !damaged.empty(); --n) {
      const size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        case 2:
          damaged.insert(at, damaged.substr(random() % damaged.size(), 1 + random() % 16));
          break;
        default: {
          const uint64_t value = numbers[random() % numbers.size()];
          const size_t size = std::min<size_t>(random() % 2 == 0 ? 4 : 8, damaged.size() - at);
          std::memcpy(damaged.data() + at, &value, size);
        }
      }
    }
    use(damaged);
  }
}

void Fuzz(const std::string& bytes) {
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

}  // namespace tessera::ndarray_internal
