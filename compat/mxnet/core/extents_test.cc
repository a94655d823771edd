#include "tessera/compat/mxnet/core/extents.h"

#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/arrays.h"

namespace tessera::mxnet {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();

/// Expects an error of a code that names the function, the number and the limit.
template <typename Call>
void ExpectError(absl::StatusCode code, const char* number, const char* limit, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error about " << number;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("MXFunction: "), HasSubstr(number), HasSubstr(limit)));
  }
}

TEST(ExtentsTest, ATypeHoldsItsLimit) {
  EXPECT_THAT(ExtentsForClient<int>("MXFunction", TShape{2, kMaxInt}), ElementsAre(2, kMaxInt));
  EXPECT_THAT(ExtentsForClient<uint32_t>("MXFunction", TShape{kMaxInt + 1, kMaxUint32}),
              ElementsAre(kMaxInt + 1, kMaxUint32));
  EXPECT_THAT(ExtentsForClient<int64_t>("MXFunction", TShape{kMaxUint32 + 4}),
              ElementsAre(kMaxUint32 + 4));
  EXPECT_EQ(NumberForClient<int>("MXFunction", "pad", kMaxInt), kMaxInt);
}

TEST(ExtentsTest, NumbersAboveTheLimitAreErrors) {
  ExpectError(Error::kOutOfRange, "extent 2147483648", "2147483647", [] {
    ExtentsForClient<int>("MXFunction", TShape{2, kMaxInt + 1});
  });
  ExpectError(Error::kOutOfRange, "extent 4294967299", "2147483647",
              [] { ExtentsForClient<int>("MXFunction", TShape{kMaxUint32 + 4}); });
  ExpectError(Error::kOutOfRange, "extent 4294967296", "4294967295",
              [] { ExtentsForClient<uint32_t>("MXFunction", TShape{kMaxUint32 + 1}); });
  ExpectError(Error::kOutOfRange, "pad 2147483648", "2147483647",
              [] { NumberForClient<int>("MXFunction", "pad", kMaxInt + 1); });
}

TEST(ExtentsTest, NumbersThatWrapInTheClientAreErrors) {
  const auto extent = static_cast<int>(static_cast<uint32_t>(kMaxInt + 1));
  ExpectError(Error::kInvalidArgument, "-2147483648", "2147483647",
              [&] { ShapeFromApi("MXFunction", &extent, 1); });
  const auto unsigned_extent = static_cast<uint32_t>(extent);
  EXPECT_EQ(ShapeFromApi("MXFunction", &unsigned_extent, 1), TShape{kMaxInt + 1});
  const uint32_t offsets[] = {1, 0};
  ExpectError(Error::kInvalidArgument, "from 1 to 0", "0 to ",
              [&] { ShapeFromApi("MXFunction", &extent, offsets, 0); });
}

TEST(ExtentsTest, UnknownExtentsAreWrittenInTheThreadsManner) {
  const int legacy[] = {2, 0}, numpy[] = {2, TShape::kUnknown};
  const TShape unknown{2, TShape::kUnknown};
  EXPECT_EQ(ShapeFromApi("MXFunction", legacy, 2), unknown);
  EXPECT_THAT(ExtentsForClient<int>("MXFunction", unknown), ElementsAre(2, 0));
  EXPECT_THAT(ExtentsForClient<int>("MXFunction", TShape()), IsEmpty());
  SetNumpyShapeOfThread(true);
  EXPECT_EQ(ShapeFromApi("MXFunction", numpy, 2), unknown);
  EXPECT_EQ(ShapeFromApi("MXFunction", legacy, 2), (TShape{2, 0}));
  EXPECT_THAT(ExtentsForClient<int64_t>("MXFunction", unknown), ElementsAre(2, -1));
  SetNumpyShapeOfThread(false);
}

}  // namespace
}  // namespace tessera::mxnet
