#include "tessera/ops/loops/row_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::ops_internal {
namespace {

TEST(MovedAverageTest, WhatHasFactorZeroIsNotRead) {
  EXPECT_EQ(MovedAverage(4, 0.75, 8), 5);
  EXPECT_EQ(MovedAverage(NAN, 0, 8), 8);
  EXPECT_EQ(MovedAverage(4, 1, NAN), 4);
}

}  // namespace
}  // namespace tessera::ops_internal
