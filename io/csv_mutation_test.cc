// Drives the fuzz target with mutations of valid files, the same ones at every run.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/io/internal/idx_bytes.h"
#include "tessera/tools/testing/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera {
namespace {

using io_internal::Bytes;

/// Returns contents after the byte by which the target chooses the type: 0 float32, 1 int32, 2
/// int64, and 3 more for each number of a row after the first.
Bytes Seed(uint8_t choice, const Bytes& contents) {
  Bytes seed = {choice};
  seed.insert(seed.end(), contents.begin(), contents.end());
  return seed;
}

TEST(CsvMutationTest, NoBytesBreakTheReader) {
  constexpr std::string_view kFloats = "1,-2.5e3, nan\r\n\r\n+4\t,inf,6,\n";
  constexpr std::string_view kIntegers =
      "\xef\xbb\xbf"
      "12,-7\n3.0,2147483647\n";
  const Bytes floats(kFloats.begin(), kFloats.end());
  const Bytes integers(kIntegers.begin(), kIntegers.end());
  const std::vector<Bytes> seeds = {Seed(6, floats), Seed(4, integers), Seed(5, integers),
                                    Seed(6, io_internal::Gzip(floats)), Seed(0, {})};
  testing_internal::RunMutations(LLVMFuzzerTestOneInput, seeds,
                                 {0, ',', '\n', '\r', '.', '-', '+', 'e', '9', ' ', 0xff}, 4000);
}

}  // namespace
}  // namespace tessera
