// Drives the fuzz target with mutations of valid files, the same ones at every run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/image/testing/files.h"
#include "tessera/tools/testing/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera {
namespace {

TEST(DecodeMutationTest, NoBytesBreakTheReaders) {
  std::vector<std::vector<uint8_t>> seeds;
  for (const char* const name :
       {"half.jpg", "progressive.jpg", "cmyk.jpg", "gray.jpg", "color.png", "bit.png", "alpha.png",
        "palette.png", "wide.png", "interlaced.png"}) {
    seeds.push_back(image_testing::ReadFile(name));
  }
  testing_internal::RunMutations(LLVMFuzzerTestOneInput, seeds,
                                 {0x00, 0x01, 0x08, 0x10, 0x11, 0x7f, 0x80, 0xff, 0xc0, 0xc2, 0xc4,
                                  0xd0, 0xd8, 0xd9, 0xda, 0xdb, 0xdd, 'I',  'D',  'A',  'T'},
                                 400);
}

}  // namespace
}  // namespace tessera
