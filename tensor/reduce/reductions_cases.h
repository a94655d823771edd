#ifndef TESSERA_TENSOR_REDUCE_REDUCTIONS_CASES_H_
#define TESSERA_TENSOR_REDUCE_REDUCTIONS_CASES_H_

/// Tests of reductions for every element type. Several files instantiate them, because one would
/// take the compiler too long.
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the value of an expression that is a number. (static_cast would try half's own
// constructors first.)
template <typename T>
T Number(T value) {
  return value;
}

// The exact reductions of a group of elements, in double.
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
  // Returns the error bound of a reduction. Adding n numbers in any order loses at most n roundings
  // of the sum of their magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
  // ed., section 4.2); storing the result loses one more.
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
    if constexpr (N == 1) {
      EXPECT_EQ(static_cast<T>(dot(*x, *x)), product);
    }
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
    GuardedTensor<N - 1, T> sums(rest, out_layout), largest(rest);
    *sums = sum<kAxis>(*x);
    *largest = maximum<kAxis>(*x);
    EXPECT_TRUE(sums.GuardsIntact());
    for (size_t i = 0; i < groups.size(); ++i) {
      Check(sums.values()[i], groups[i].sum, groups[i], groups[i].magnitude, "sum");
      EXPECT_EQ(static_cast<double>(largest.values()[i]), groups[i].maximum);
    }
    // To the loops a higher rank is a matrix too: other reductions need no further ranks.
    if constexpr (N == 2) {
      GuardedTensor<1, T> means(rest), least(rest), norms(rest), products(rest);
      *means = mean<kAxis>(*x);
      *least = minimum<kAxis>(*x);
      *norms = norm<kAxis>(*x);
      *products = inner<kAxis>(*x, *x);
      EXPECT_TRUE(means.GuardsIntact() && norms.GuardsIntact());
      for (size_t i = 0; i < groups.size(); ++i) {
        CheckAll(values, groups[i], sums.values()[i], means.values()[i], largest.values()[i],
                 least.values()[i], norms.values()[i]);
        Check(products.values()[i], groups[i].squares, groups[i], groups[i].squares, "inner");
      }
    }
    // After spread(), every element has the result of its own group.
    GuardedTensor<N, T> all(shape, out_layout);
    *all = maximum<kAxis>(*x).spread();
    const std::vector<T> spread_values = all.values();
    for (index_t i = 0; i < shape.Size(); ++i) {
      ASSERT_EQ(static_cast<double>(spread_values[static_cast<size_t>(i)]),
                groups[group_of(i)].maximum);
    }
  }
};

TYPED_TEST_SUITE_P(ReductionsTest);

TYPED_TEST_P(ReductionsTest, WholeExpressions) {
  for (const index_t extent : {1, 2, 3, 7, 15, 16, 17, 31, 33}) {
    TestFixture::ExpectWhole(Shape1(extent), {.misalignment = 1});
    TestFixture::ExpectWhole(Shape2(3, extent), {.row_padding = 2});
  }
}

TYPED_TEST_P(ReductionsTest, EitherAxisOfMatrices) {
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

TYPED_TEST_P(ReductionsTest, AnyAxisOfHigherRanks) {
  TestFixture::template ExpectAxis<1>(Shape3(3, 4, 9), {.row_padding = 1});
  // One type shows that the axes are told apart.
  if constexpr (std::is_same_v<TypeParam, float>) {
    TestFixture::template ExpectAxis<0>(Shape3(3, 4, 9), {.row_padding = 1});
    TestFixture::template ExpectAxis<2>(Shape3(3, 4, 9), {.row_padding = 1});
    TestFixture::template ExpectAxis<1>(Shape4(2, 3, 2, 5), {});
    TestFixture::template ExpectAxis<2>(Shape4(2, 3, 2, 5), {});
  }
}

REGISTER_TYPED_TEST_SUITE_P(ReductionsTest, WholeExpressions, EitherAxisOfMatrices,
                            AnyAxisOfHigherRanks);

}  // namespace tessera

#endif  // TESSERA_TENSOR_REDUCE_REDUCTIONS_CASES_H_
