// AddressSanitizer finds what a library does wrong to memory, although the test itself is compiled
// without it.
#include "tessera/tools/sanitizers/planted_overflow.h"

#include <cstdlib>
#include <memory>

#include "gtest/gtest.h"

namespace tessera::sanitizers {
namespace {

constexpr size_t kSize = 16;

// .bazelrc sets the variable for tests with --config=asan and for no others.
bool RunsWithAddressSanitizer() { return std::getenv("ASAN_OPTIONS") != nullptr; }

TEST(PlantedOverflowTest, LibrariesAreWatchedWithTheConfigurationAlone) {
  EXPECT_EQ(LibraryIsWatched(), RunsWithAddressSanitizer());
}

TEST(PlantedOverflowTest, AWriteBehindABlockIsReported) {
  const auto block = std::make_unique<char[]>(kSize);
  SetByte(block.get(), kSize - 1);
  EXPECT_EQ(block[kSize - 1], 1);
  if (RunsWithAddressSanitizer()) {
    EXPECT_DEATH(SetByte(block.get(), kSize), "heap-buffer-overflow");
  }
}

}  // namespace
}  // namespace tessera::sanitizers
