#include "tessera/base/error.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ErrorTest, CarriesCodeAndThePiecesInOrder) {
  const Error error = InvalidArgument("dot: k is ", 3, ", expected ", 4.5);
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_STREQ(error.what(), "dot: k is 3, expected 4.5");
}

TEST(ErrorTest, EachBuilderHasItsCode) {
  EXPECT_EQ(NotFound("").code(), Error::kNotFound);
  EXPECT_EQ(FailedPrecondition("").code(), Error::kFailedPrecondition);
  EXPECT_EQ(OutOfRange("").code(), Error::kOutOfRange);
  EXPECT_EQ(DataLoss("").code(), Error::kDataLoss);
  EXPECT_EQ(ResourceExhausted("").code(), Error::kResourceExhausted);
  EXPECT_EQ(Unimplemented("").code(), Error::kUnimplemented);
  EXPECT_EQ(Internal("").code(), Error::kInternal);
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
