#include "tessera/tensor/dense/view.h"

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;
static_assert(std::is_trivially_copyable_v<expr::ViewExp<cpu, 2, float>>);

std::vector<index_t> Indices(const Range& range) {
  std::vector<index_t> indices;
  for (index_t i = range.begin; range.step > 0 ? i < range.end : i > range.end; i += range.step) {
    indices.push_back(i);
  }
  return indices;
}

const std::vector<Range>& Ranges() {  // into nine places
  static const std::vector<Range> ranges = {{0, 9},      {0, 9, 2},  {1, 9, 3},  {2, 7},
                                            {8, -1, -1}, {7, 0, -2}, {3, 3},     {0, 9, 100},
                                            {4, 5},      {5, 9, 3},  {8, 1, -3}, {0, 5}};
  return ranges;
}

TEST(RangeTest, CountsItsIndices) {
  for (const Range& range : Ranges()) {
    EXPECT_EQ(range.count(), static_cast<index_t>(Indices(range).size()));
  }
  EXPECT_EQ(Range(5, 2).count(), 0);
  EXPECT_EQ(Range(2, 5, -1).count(), 0);
  EXPECT_EQ(Range(2, 5, 0).count(), 0);
}

template <typename T>
class ViewTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t, uint8_t>;
TYPED_TEST_SUITE(ViewTest, ElementTypes);

TYPED_TEST(ViewTest, BlocksWithStepsOnBothSides) {
  using T = TypeParam;
  const std::vector<T> from = RandomValues<T>(81, 1, 9, 1), old = RandomValues<T>(81, 1, 9, 2);
  GuardedTensor<2, T> source(Shape2(9, 9), from, GuardedLayout{.row_padding = 2});
  for (const Range& rows : Ranges()) {
    for (const Range& columns : Ranges()) {
      const auto ys = Indices(rows), xs = Indices(columns);
      // Read.
      GuardedTensor<2, T> out(Shape2(rows.count(), columns.count()));
      *out = View(*source, rows, columns) + T(1);
      for (size_t y = 0; y < ys.size(); ++y) {
        for (size_t x = 0; x < xs.size(); ++x) {
          ASSERT_EQ(out.values()[y * xs.size() + x],
                    static_cast<T>(from[static_cast<size_t>(ys[y] * 9 + xs[x])] + T(1)));
        }
      }
      // Write, and combine with the old values.
      GuardedTensor<2, T> target(Shape2(9, 9), old, GuardedLayout{.row_padding = 1});
      View(*target, rows, columns) = View(*source, rows, columns);
      View(*target, rows, columns) += *out;
      std::vector<T> expected = old;
      for (const index_t y : ys) {
        for (const index_t x : xs) {
          const T value = from[static_cast<size_t>(y * 9 + x)];
          expected[static_cast<size_t>(y * 9 + x)] =
              static_cast<T>(value + static_cast<T>(value + T(1)));
        }
      }
      ASSERT_EQ(target.values(), expected);
      ASSERT_TRUE(target.GuardsIntact());
    }
  }
}

TYPED_TEST(ViewTest, RowsAndColumnsAreVectors) {
  using T = TypeParam;
  const std::vector<T> values = RandomValues<T>(5 * 9, 1, 9);
  GuardedTensor<2, T> m(Shape2(5, 9), values, GuardedLayout{.row_padding = 3});
  GuardedTensor<1, T> row(Shape1(9)), column(Shape1(5));
  *row = View(*m, 2, kAll) * T(1);
  *column = View(*m, kAll, 3) * T(1);
  for (index_t x = 0; x < 9; ++x) EXPECT_EQ((*row)[x], (*m)[2][x]);
  for (index_t y = 0; y < 5; ++y) EXPECT_EQ((*column)[y], (*m)[y][3]);
  View(*m, 4, Range(0, 9, 2)) = View(*row, Range(8, -1, -2));
  for (index_t x = 0; x < 9; x += 2) EXPECT_EQ((*m)[4][x], (*row)[8 - x]);
  View(*m, kAll, 0) = *column;
  View(*m, kAll, 1) *= T(2);
  View(*m, Range(0, 4), 8) -= View(*m, Range(0, 4), 8);
  for (index_t y = 0; y < 4; ++y) {
    EXPECT_EQ((*m)[y][0], (*column)[y]);
    EXPECT_EQ((*m)[y][1], static_cast<T>(values[static_cast<size_t>(y * 9 + 1)] * T(2)));
    EXPECT_EQ((*m)[y][8], T(0));
  }
  View(*m, 0, kAll) /= View(*m, 1, kAll) + T(1);
  View(*m, 0, kAll) = 3;
  for (index_t x = 0; x < 9; ++x) EXPECT_EQ((*m)[0][x], T(3));
  EXPECT_TRUE(m.GuardsIntact());
}

TEST(ViewOverlapTest, ReversalAndShiftsInPlace) {
  for (const index_t n : {1, 2, 5, 8, 9, 17, 100000}) {
    const std::vector<float> old = RandomValues<float>(n, -1, 1);
    GuardedTensor<1, float> v(Shape1(n), old);
    View(*v, kAll) = View(*v, Range(n - 1, -1, -1));
    EXPECT_EQ(v.values(), std::vector<float>(old.rbegin(), old.rend()));
    View(*v, Range(n - 1, -1, -1)) = *v * 2;
    for (index_t i = 0; i < n; ++i) ASSERT_EQ((*v)[i], old[static_cast<size_t>(i)] * 2);
    View(*v, Range(1, n)) = View(*v, Range(0, n - 1));
    for (index_t i = 1; i < n; ++i) ASSERT_EQ((*v)[i], old[static_cast<size_t>(i - 1)] * 2);
  }
}

TEST(ViewOverlapTest, EqualViewsRunInPlace) {
  GuardedTensor<2, float> m(Shape2(9, 9), RandomValues<float>(81, -1, 1));
  const auto view = View(*m, Range(8, -1, -2), Range(0, 9, 2));
  EXPECT_FALSE(expr::ReadsElsewhere(view * 2, expr::PlaceOf(view)));
  EXPECT_TRUE(
      expr::ReadsElsewhere(View(*m, Range(0, 9, 2), Range(0, 9, 2)) * 2, expr::PlaceOf(view)));
  const std::vector<float> old = m.values();
  view += view * 2;
  EXPECT_EQ((*m)[8][2], old[8 * 9 + 2] + old[8 * 9 + 2] * 2);
  EXPECT_EQ((*m)[7][2], old[7 * 9 + 2]);
}

TEST(ViewTest, TakesReductionsAndSums) {
  const std::vector<float> values = RandomValues<float>(5 * 9, -1, 1);
  GuardedTensor<2, float> m(Shape2(5, 9), values);
  GuardedTensor<2, float> out(Shape2(9, 5), std::vector<float>(45, 0.0f));
  View(*out, kAll, 1) = sum_rows(*m);
  View(*out, kAll, 2) = sum<0>(*m);
  View(*out, kAll, 3) = View(*m, 2, kAll) - mean(View(*m, 2, kAll));
  for (size_t x = 0; x < 9; ++x) {
    double expected = 0;
    for (size_t y = 0; y < 5; ++y) expected += static_cast<double>(values[y * 9 + x]);
    EXPECT_NEAR(out.values()[x * 5 + 1], expected, 1e-6);
    EXPECT_NEAR(out.values()[x * 5 + 2], expected, 1e-6);
    EXPECT_EQ(out.values()[x * 5], 0);
  }
  const float whole = sum(View(*out, kAll, 3));
  EXPECT_NEAR(whole, 0, 1e-6);
}

TEST(ViewTest, StepsMayBeOfAnySize) {
  constexpr index_t kMost = std::numeric_limits<index_t>::max();
  constexpr index_t kLeast = std::numeric_limits<index_t>::min();
  static_assert(Range(1, 4, 3).count() == 1 && Range(1, 5, 3).count() == 2);
  static_assert(Range(4, 1, -3).count() == 1 && Range(4, 0, -3).count() == 2);
  static_assert(Range(1, 4, kMost).count() == 1 && Range(3, -1, kLeast).count() == 1);
  static_assert(Range(4, 4, kMost).count() == 0 && Range(3, 3, kLeast).count() == 0);
  // Distances beyond index_t.
  static_assert(Range(5, kLeast, kLeast).count() == 2 && Range(kLeast, kMost, kMost).count() == 3);
  static_assert(Range(kLeast, kMost).count() == kMost && Range(kMost, kLeast, -1).count() == kMost);
  GuardedTensor<1, float> v(Shape1(4), std::vector<float>{1, 2, 3, 4});
  for (const Range& range : {Range(3, kLeast, kLeast), Range(0, kMost), Range(3, kLeast, -2),
                             Range(kMost, kLeast, -1), Range(kLeast, kMost, kMost)}) {
    ExpectError([&] { View(*v, range); }, kInvalidArgument, {"View", "range"});
  }
  View(*v, Range(1, 4, kMost)) = 7;
  View(*v, Range(3, -1, kLeast)) += 1;
  EXPECT_EQ(v.values(), (std::vector<float>{1, 7, 3, 5}));
  GuardedTensor<1, float> one(Shape1(1), std::vector<float>{9});
  View(*v, Range(0, 4, kMost)) = *one;
  GuardedTensor<2, float> m(Shape2(2, 2), std::vector<float>{1, 2, 3, 4});
  View(*m, Range(1, 2, kMost), kAll) = 0;
  EXPECT_EQ(v.values()[0], 9);
  EXPECT_EQ(m.values(), (std::vector<float>{1, 2, 0, 0}));
}

TEST(ViewTest, IndicesOutsideAreRefused) {
  GuardedTensor<2, float> m(Shape2(5, 9));
  GuardedTensor<1, float> v(Shape1(4));
  ExpectError([&] { View(*m, 5, kAll); }, kInvalidArgument, {"View", "5", "(5,9)"});
  ExpectError([&] { View(*m, kAll, -1); }, kInvalidArgument, {"View", "-1", "(5,9)"});
  ExpectError([&] { View(*m, Range(0, 6), kAll); }, kInvalidArgument, {"0 to 6", "(5,9)"});
  ExpectError([&] { View(*m, kAll, Range(9, 0, -1)); }, kInvalidArgument, {"dimension 1"});
  ExpectError([&] { View(*v, Range(0, 2, 0)); }, kInvalidArgument, {"step", "(4,)"});
  ExpectError([&] { View(*v, kAll) = View(*m, 0, kAll); }, kInvalidArgument, {"(9,)", "(4,)"});
}

}  // namespace
}  // namespace tessera
