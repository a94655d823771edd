// Drives the fuzz target with mutations of valid files, the same ones at every run.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tessera/io/internal/idx_bytes.h"
#include "tessera/tools/testing/mutations.h"

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

TEST(IdxMutationTest, NoBytesBreakTheParser) {
  testing_internal::RunMutations(LLVMFuzzerTestOneInput, Seeds(),
                                 {0x00, 0x01, 0x7f, 0x80, 0xff, 0x08, 0x1f, 0x8b}, 4000);
}

}  // namespace
}  // namespace tessera
