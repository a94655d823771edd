#include "tessera/base/testing/errors.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera::base_testing {
namespace {

void Throw() { throw InvalidArgument("extent 3, expected 4"); }

TEST(ErrorsTest, AnErrorIsReturned) {
  EXPECT_EQ(ErrorOf(Throw).code(), Error::kInvalidArgument);
  EXPECT_EQ(MessageOf(Throw), "extent 3, expected 4");
  ExpectError(Error::kInvalidArgument, "expected 4", Throw);
}

TEST(ErrorsTest, WhatIsNotExpectedFails) {
  EXPECT_NONFATAL_FAILURE(ErrorOf([] {}), "no error");
  EXPECT_NONFATAL_FAILURE(MessageOf([] {}), "no error");
  EXPECT_NONFATAL_FAILURE(ExpectError(Error::kDataLoss, "expected 4", Throw), "extent 3");
  EXPECT_NONFATAL_FAILURE(ExpectError(Error::kInvalidArgument, "expected 5", Throw), "expected 5");
}

}  // namespace
}  // namespace tessera::base_testing
