// Drives the fuzz target with mutations of valid files, the same ones at every run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/io/internal/idx_bytes.h"
#include "tessera/tools/testing/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera {
namespace {

using io_internal::Bytes;

/// Returns contents after the byte that gives the length of a row.
Bytes Seed(uint8_t row_size, std::string_view contents) {
  Bytes seed = {row_size};
  seed.insert(seed.end(), contents.begin(), contents.end());
  return seed;
}

TEST(LibSvmMutationTest, NoBytesBreakTheReader) {
  const std::vector<Bytes> seeds = {Seed(3, "1 0:0.5 2:-1.2e3 # text\n\r\n-2\n3 1:inf\t2:nan"),
                                    Seed(4, "# text\n1 3:1 3:2\r2 0:7\n"), Seed(0, "1\n2\n"),
                                    Seed(4, "1 3:1 0:2 2:3 0:4\n2 1:1 0:1\n")};
  testing_internal::RunMutations(LLVMFuzzerTestOneInput, seeds,
                                 {0, ':', '\n', '\r', '#', '-', '+', 'e', '9', ' ', 0xff}, 4000);
}

}  // namespace
}  // namespace tessera
