#include "tessera/base/checked_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace tessera {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(CheckedSizeTest, HoldsWhatFits) {
  EXPECT_EQ((CheckedSize(3) * 4 + 5).value(), 17);
  EXPECT_EQ(CheckedSize(kMax).value(), kMax);
  EXPECT_EQ((CheckedSize(0) * kMax).value(), 0);
}

TEST(CheckedSizeTest, NeverWraps) {
  EXPECT_FALSE((CheckedSize(kMax) + 1).valid());
  EXPECT_FALSE((CheckedSize(kMax / 2 + 1) * 2).valid());
  EXPECT_FALSE((CheckedSize(int64_t{1} << 32) * (int64_t{1} << 32)).valid());
}

TEST(CheckedSizeTest, StaysInvalidOnceItIs) {
  EXPECT_FALSE((CheckedSize(kMax) * 2 * 0).valid());
  EXPECT_FALSE((CheckedSize(-1) * -1).valid());
  EXPECT_FALSE((CheckedSize(5) * -1).valid());
}

TEST(CheckedSizeTest, ThrowsWithTheNameOfWhatIsTooLarge) {
  EXPECT_EQ(CheckedSize(7).ValueOrThrow("rows"), 7);
  try {
    (CheckedSize(kMax) * 3).ValueOrThrow("rows");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("rows"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
