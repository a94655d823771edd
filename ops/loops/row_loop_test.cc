#include "tessera/ops/loops/row_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tessera/ops/loops/row_segments.h"

namespace tessera::ops_internal {
namespace {

template <typename T>
class RowLoopTest : public testing::Test {
 protected:
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();

  /// Lengths around a packet, the partial results, and a block of a sum.
  static std::vector<index_t> Lengths() {
    std::vector<index_t> lengths = {2047, 2048, 2049, 2081, 5000};
    for (index_t n = 0; n <= 100; ++n) lengths.push_back(n);
    return lengths;
  }
  static T Largest(const std::vector<T>& row) {
    return LargestOf(row.data(), static_cast<index_t>(row.size()));
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(RowLoopTest, Types);

TYPED_TEST(RowLoopTest, SumsOfIntegersAreExact) {
  using T = TypeParam;
  for (const index_t n : this->Lengths()) {
    std::vector<T> row;
    double sum = 0, squares = 0;
    for (index_t i = 0; i < n; ++i) {
      const index_t element = i * 7 % 23 - 9;
      row.push_back(static_cast<T>(element));
      sum += static_cast<double>(element);
      squares += static_cast<double>(element * element);
    }
    const T* const x = row.data();
    EXPECT_EQ(SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; }), sum) << n;
    const auto both = SumsOf<T>(
        n, [=](index_t i) TESSERA_LOOP_BODY { return x[i] * x[i]; },
        [=](index_t i) TESSERA_LOOP_BODY { return x[i]; });
    EXPECT_EQ(both[0], squares) << n;
    EXPECT_EQ(both[1], sum) << n;
  }
}

TYPED_TEST(RowLoopTest, SegmentsOfARowAreAllThatIsReadAndWritten) {
  using T = TypeParam;
  for (const RowSegments row : {RowSegments{3, 33, 40}, RowSegments{1, 100, 0},
                                RowSegments{4, 1, 7}, RowSegments{2, 0, 5}}) {
    std::vector<T> elements(150, T(1000)), expected(150, T(-1)), out = expected;
    double sum = 0;
    for (index_t s = 0; s < row.count; ++s) {
      for (index_t i = 0; i < row.run; ++i) {
        const auto k = static_cast<size_t>(s * row.stride + i);
        elements[k] = static_cast<T>(k % 19);
        expected[k] = elements[k] + 1;
        sum += static_cast<double>(elements[k]);
      }
    }
    const T* const x = elements.data();
    T* const y = out.data();
    EXPECT_EQ(SumOf<T>(row, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; }), sum);
    ForEach(row, [=](index_t i) TESSERA_LOOP_BODY { y[i] = x[i] + 1; });
    EXPECT_EQ(out, expected);
  }
}

TYPED_TEST(RowLoopTest, SumsKeepInfinityAndNaN) {
  using T = TypeParam;
  for (const T special : {this->kInfinity, -this->kInfinity, std::numeric_limits<T>::quiet_NaN()}) {
    for (size_t place = 0; place < 70; ++place) {
      std::vector<T> row(70, T(1));
      row[place] = special;
      const T* const x = row.data();
      const double sum = SumOf<T>(70, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; });
      if (std::isnan(special)) {
        EXPECT_TRUE(std::isnan(sum));
      } else {
        EXPECT_EQ(sum, static_cast<double>(special));
      }
    }
  }
}

TYPED_TEST(RowLoopTest, LargestIsFoundAtEachPlace) {
  using T = TypeParam;
  for (const size_t n : {1, 7, 8, 31, 32, 33, 63, 64, 65, 71}) {
    for (size_t place = 0; place < n; ++place) {
      std::vector<T> row(n, T(-5));
      row[place] = T(-4);
      EXPECT_EQ(this->Largest(row), T(-4));
      // NaN counts as no element, and -infinity as the smallest.
      row.assign(n, std::numeric_limits<T>::quiet_NaN());
      row[place] = T(-3);
      EXPECT_EQ(this->Largest(row), T(-3));
      row.assign(n, -this->kInfinity);
      row[place] = this->kInfinity;
      EXPECT_EQ(this->Largest(row), this->kInfinity);
    }
    EXPECT_EQ(this->Largest(std::vector<T>(n, -this->kInfinity)), -this->kInfinity);
    EXPECT_EQ(this->Largest(std::vector<T>(n, std::numeric_limits<T>::quiet_NaN())),
              -this->kInfinity);
  }
  EXPECT_EQ(this->Largest({}), -this->kInfinity);
}

}  // namespace
}  // namespace tessera::ops_internal
