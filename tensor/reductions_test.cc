#include "tessera/tensor/reductions.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/guarded_tensor.h"
#include "tessera/tensor/test_values.h"

namespace tessera {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The number that an expression stands for. (static_cast would try half's own constructors first.)
template <typename T>
T Number(T value) {
  return value;
}

// What the reductions of a group of elements are, in double.
struct Summary {
  double sum = 0, magnitude = 0, squares = 0, maximum = -kInfinity, minimum = kInfinity;
  int64_t count = 0;

  void Add(double value) {
    sum += value;
    magnitude += std::abs(value);
    squares += value * value;
    maximum = std::max(maximum, value);
    minimum = std::min(minimum, value);
    ++count;
  }
};

template <typename T>
class ReductionsTest : public testing::Test {
 protected:
  // Adding n numbers in any order loses at most n roundings of the sum of their magnitudes (Higham,
  // Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2); storing it one more.
  static double Bound(const Summary& s, double magnitude, double result) {
    const double roundoff = UnitRoundoff<typename expr::AccumulateIn<T>::type>();
    return static_cast<double>(s.count + 1) * roundoff * magnitude +
           UnitRoundoff<T>() * std::abs(result) + 1e-300;
  }
  static double Whole(double value) { return kIsReal<T> ? value : std::trunc(value); }

  static void Check(T actual, double exact, const Summary& s, double magnitude, const char* what) {
    EXPECT_NEAR(static_cast<double>(actual), exact, Bound(s, magnitude, exact)) << what;
  }

  static void CheckAll(const std::vector<T>& values, const Summary& s, T sum, T mean, T maximum,
                       T minimum, T norm) {
    const double n = static_cast<double>(s.count);
    Check(sum, s.sum, s, s.magnitude, "sum");
    Check(mean, Whole(s.sum / n), s, s.magnitude / n, "mean");
    EXPECT_EQ(static_cast<double>(maximum), s.maximum);
    EXPECT_EQ(static_cast<double>(minimum), s.minimum);
    const double root = std::sqrt(s.squares);
    Check(norm, Whole(root), s, root, "norm");
    EXPECT_FALSE(values.empty());
  }

  template <int N>
  static void ExpectWhole(const Shape<N>& shape, GuardedLayout layout) {
    const std::vector<T> values =
        RandomValues<T>(shape.Size(), kIsReal<T> ? -1 : 0, kIsReal<T> ? 2 : 1);
    GuardedTensor<N, T> x(shape, values, layout);
    Summary s;
    for (const T value : values) s.Add(static_cast<double>(value));
    CheckAll(values, s, sum(*x), mean(*x), maximum(*x), minimum(*x), norm(*x));
    const T product = inner(*x, *x);
    Check(product, s.squares, s, s.squares, "inner");
  }

  template <int kAxis, int N>
  static void ExpectAxis(const Shape<N>& shape, GuardedLayout layout) {
    const std::vector<T> values =
        RandomValues<T>(shape.Size(), kIsReal<T> ? -1 : 0, kIsReal<T> ? 2 : 1, 5);
    GuardedTensor<N, T> x(shape, values, layout);
    const index_t inner_size = shape.ProdShape(kAxis + 1, N);
    const index_t results = shape.Size() / shape[kAxis];
    Shape<N - 1> rest;
    for (int i = 0; i < N - 1; ++i) rest[i] = shape[i < kAxis ? i : i + 1];
    std::vector<Summary> groups(static_cast<size_t>(results));
    const auto group_of = [&](index_t i) {
      return static_cast<size_t>(i / inner_size / shape[kAxis] * inner_size + i % inner_size);
    };
    for (index_t i = 0; i < shape.Size(); ++i) {
      groups[group_of(i)].Add(static_cast<double>(values[static_cast<size_t>(i)]));
    }
    const GuardedLayout out_layout{.row_padding = 1};
    GuardedTensor<N - 1, T> sums(rest, out_layout), means(rest), largest(rest), least(rest),
        norms(rest), products(rest);
    *sums = sum<kAxis>(*x);
    *means = mean<kAxis>(*x);
    *largest = maximum<kAxis>(*x);
    *least = minimum<kAxis>(*x);
    *norms = norm<kAxis>(*x);
    *products = inner<kAxis>(*x, *x);
    EXPECT_TRUE(sums.GuardsIntact() && means.GuardsIntact() && norms.GuardsIntact());
    for (size_t i = 0; i < groups.size(); ++i) {
      CheckAll(values, groups[i], sums.values()[i], means.values()[i], largest.values()[i],
               least.values()[i], norms.values()[i]);
      Check(products.values()[i], groups[i].squares, groups[i], groups[i].squares, "inner");
    }
    // Spread, every element meets the result of its own group.
    GuardedTensor<N, T> all(shape, out_layout);
    *all = maximum<kAxis>(*x).spread();
    const std::vector<T> spread_values = all.values();
    for (index_t i = 0; i < shape.Size(); ++i) {
      ASSERT_EQ(static_cast<double>(spread_values[static_cast<size_t>(i)]),
                groups[group_of(i)].maximum);
    }
  }
};

using ElementTypes = testing::Types<float, double, half_t, bfloat16_t, int32_t, uint8_t, int64_t>;
TYPED_TEST_SUITE(ReductionsTest, ElementTypes);

TYPED_TEST(ReductionsTest, WholeExpressions) {
  for (const index_t extent : {1, 2, 3, 7, 15, 16, 17, 31, 33}) {
    TestFixture::ExpectWhole(Shape1(extent), {.misalignment = 1});
    TestFixture::ExpectWhole(Shape2(3, extent), {.row_padding = 2});
  }
}

TYPED_TEST(ReductionsTest, EitherAxisOfMatrices) {
  for (const index_t columns : {1, 3, 4, 5, 16, 17, 33}) {
    for (const index_t rows : {1, 2, 7}) {
      for (const index_t padding : {0, 3}) {
        const GuardedLayout layout{.row_padding = padding, .misalignment = padding};
        TestFixture::template ExpectAxis<0>(Shape2(rows, columns), layout);
        TestFixture::template ExpectAxis<1>(Shape2(rows, columns), layout);
      }
    }
  }
}

TYPED_TEST(ReductionsTest, AnyAxisOfHigherRanks) {
  TestFixture::template ExpectAxis<0>(Shape3(3, 4, 9), {.row_padding = 1});
  TestFixture::template ExpectAxis<1>(Shape3(3, 4, 9), {.row_padding = 1});
  TestFixture::template ExpectAxis<2>(Shape3(3, 4, 9), {.row_padding = 1});
  TestFixture::template ExpectAxis<1>(Shape4(2, 3, 2, 5), {});
  TestFixture::template ExpectAxis<2>(Shape4(2, 3, 2, 5), {});
}

template <typename T>
class LargeReductionsTest : public ReductionsTest<T> {};
using WideTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(LargeReductionsTest, WideTypes);

TYPED_TEST(LargeReductionsTest, RunInParallel) {
  TestFixture::ExpectWhole(Shape1(100000), {.misalignment = 1});
  TestFixture::ExpectWhole(Shape2(300, 700), {.row_padding = 1});
  TestFixture::template ExpectAxis<0>(Shape2(5000, 300), {});  // the axis is cut
  TestFixture::template ExpectAxis<0>(Shape2(200, 5000), {});  // many blocks of columns
  TestFixture::template ExpectAxis<1>(Shape2(3, 50000), {});   // rows are cut
  TestFixture::template ExpectAxis<1>(Shape2(3000, 50), {});
  TestFixture::template ExpectAxis<1>(Shape3(2, 3000, 20), {});
}

TEST(ReductionsOfNothingTest, AreTheNeutralValues) {
  GuardedTensor<2, float> none(Shape2(0, 5));
  GuardedTensor<2, int32_t> no_integers(Shape2(3, 0));
  const float total = sum(*none), length = norm(*none), product = inner(*none, *none);
  EXPECT_EQ(total, 0);
  EXPECT_EQ(length, 0);
  EXPECT_EQ(product, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(mean(*none))));
  EXPECT_EQ(static_cast<float>(maximum(*none)), -kInfinity);
  EXPECT_EQ(static_cast<float>(minimum(*none)), kInfinity);
  EXPECT_EQ(static_cast<int32_t>(mean(*no_integers)), 0);
  EXPECT_EQ(static_cast<int32_t>(maximum(*no_integers)), std::numeric_limits<int32_t>::lowest());
  GuardedTensor<1, float> columns(Shape1(5));
  *columns = sum<0>(*none);
  EXPECT_EQ(columns.values(), std::vector<float>(5, 0.0f));
  *columns = maximum<0>(*none);
  EXPECT_EQ(columns.values(), std::vector<float>(5, -std::numeric_limits<float>::infinity()));
  GuardedTensor<1, int32_t> rows(Shape1(3));
  *rows = sum<1>(*no_integers);
  EXPECT_EQ(rows.values(), std::vector<int32_t>(3, 0));
  *rows = minimum<1>(*no_integers);
  EXPECT_EQ(rows.values(), std::vector<int32_t>(3, std::numeric_limits<int32_t>::max()));
}

TEST(ReductionsTest, NarrowTypesAddUpInWiderOnes) {
  const index_t n = 4000;
  GuardedTensor<1, half_t> ones(Shape1(n), std::vector<half_t>(n, half_t(30.0f)));
  EXPECT_EQ(static_cast<float>(Number<half_t>(mean(*ones))), 30);  // the sum is beyond half
  EXPECT_EQ(static_cast<float>(Number<half_t>(norm(*ones))),
            static_cast<float>(half_t(std::sqrt(900.0f * n))));
  GuardedTensor<1, uint8_t> bytes(Shape1(n), std::vector<uint8_t>(n, 200));
  EXPECT_EQ(static_cast<uint8_t>(mean(*bytes)), 200);
  EXPECT_EQ(static_cast<uint8_t>(sum(*bytes)), static_cast<uint8_t>(200 * n));
  EXPECT_EQ(static_cast<int32_t>(sum(tcast<int32_t>(*bytes))), 200 * n);
}

TEST(ReductionsTest, NanWins) {
  std::vector<float> values(100, 1.0f);
  values[57] = std::numeric_limits<float>::quiet_NaN();
  GuardedTensor<1, float> x(Shape1(100), values);
  EXPECT_TRUE(std::isnan(static_cast<float>(maximum(*x))));
  EXPECT_TRUE(std::isnan(static_cast<float>(minimum(*x))));
  EXPECT_TRUE(std::isnan(static_cast<float>(sum(*x))));
}

}  // namespace
}  // namespace tessera
