#include "tessera/ops/loops/row_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera::ops_internal {
namespace {

TEST(MovedAverageTest, WhatHasFactorZeroIsNotRead) {
  EXPECT_EQ(MovedAverage(4, 0.75, 8), 5);
  EXPECT_EQ(MovedAverage(NAN, 0, 8), 8);
  EXPECT_EQ(MovedAverage(4, 1, NAN), 4);
}

/// Returns the length of a row of 20 elements 3 and 20 elements 4, times `unit`: 22.36 units.
template <typename T>
double Length(T unit, double summand) {
  std::vector<T> row(20, 3 * unit);
  row.resize(40, 4 * unit);
  const T* const x = row.data();
  const auto element = [=](index_t i, auto one)
                           TESSERA_LOOP_BODY { return static_cast<decltype(one)>(x[i]); };
  return static_cast<double>(std::sqrt(SumOfSquares<T>(40, summand, element)));
}

TEST(SumOfSquaresTest, IsComputedInAWiderTypeWhereSquaresOverflowOrUnderflow) {
  for (const float unit : {1.0f, 1e30f, 1e-30f, 1e-40f}) {
    EXPECT_NEAR(Length(unit, 0) / double{unit} / std::sqrt(500.0), 1, 1e-7);
  }
  for (const double unit : {1.0, 1e200, 1e-200, 1e-300}) {
    EXPECT_NEAR(Length(unit, 0) / unit / std::sqrt(500.0), 1, 1e-15);
  }
  EXPECT_TRUE(std::isnan(Length(std::nanf(""), 0)));
  // Squares that are lost beside a larger summand are not computed again.
  EXPECT_EQ(Length(1e-30f, 1), 0);
}

TEST(RowStatisticsTest, AreFiniteWhereSumsAndSquaresOverflow) {
  const std::vector<float> x = {3e38f, 1e38f, 3e38f, 1e38f};
  const RowStatistics<float> s(x.data(), 4, 0);
  EXPECT_FLOAT_EQ(s.mean, 2e38f);
  EXPECT_NEAR(s.std / 1e38, 1, 1e-6);
  EXPECT_FLOAT_EQ(s.inverse * 1e38f, 1);
}

}  // namespace
}  // namespace tessera::ops_internal
