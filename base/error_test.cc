#include "tessera/base/error.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ErrorTest, CarriesCodeAndThePiecesInOrder) {
  const Error error = InvalidArgument("dot: k is ", 3, ", expected ", 4.5);
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_STREQ(error.what(), "dot: k is 3, expected 4.5");
}

TEST(ErrorTest, EachBuilderHasItsCode) {
  EXPECT_EQ(NotFound("").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FailedPrecondition("").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OutOfRange("").code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(DataLoss("").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ResourceExhausted("").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Unimplemented("").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Internal("").code(), absl::StatusCode::kInternal);
}

TEST(ErrorTest, IsAStandardException) {
  try {
    throw NotFound("no such thing");
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "no such thing");
  }
}

}  // namespace
}  // namespace tessera
