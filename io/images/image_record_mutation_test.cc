// Drives the fuzz target with mutations of valid records and lists, the same ones at every run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/io/image_record.h"
#include "tessera/tools/testing/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Seed(uint8_t choice, std::string_view contents) {
  Bytes seed = {choice};
  seed.insert(seed.end(), contents.begin(), contents.end());
  return seed;
}

TEST(ImageRecordMutationTest, NoBytesBreakTheParsers) {
  Image image;
  image.Resize(9, 12, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i);
  const Bytes png = EncodePng(std::as_const(image).view());
  const std::string two = PackImageRecord(
      {.label = {2, 5, 1, 0.1f, 0.2f, 0.5f, 0.6f, 3, 0.5f, 0.5f, 0.9f, 1}, .id = 7, .file = png});
  const std::string none = PackImageRecord({.label = {4, 6, 1, 2}, .id = 8, .file = png});
  testing_internal::RunMutations(LLVMFuzzerTestOneInput,
                                 {Seed(0, two), Seed(0, none),
                                  Seed(1, "0\t1.5\ta.png\n12\t1\t2\tfolder/b c.jpg\r\n\n3\t-1\t")},
                                 {0x00, 0x01, 0x3f, 0x40, 0x7f, 0x80, 0xff, '\t', '\n'}, 2000);
}

}  // namespace
}  // namespace tessera
