#include "tessera/tensor/linalg/dot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<decltype(dot(Tensor<cpu, 2, float>(),
                                                        Tensor<cpu, 2, float>().T()))>);

template <typename A, typename B>
concept CanDot = requires(A a, B b) {
  dot(a, b);
};
template <typename A, typename B>
concept CanAssign = requires(A a, B b) {
  a = b;
};
using Matrix = Tensor<cpu, 2, float>;
using Product = decltype(dot(Matrix(), Matrix()));
static_assert(CanDot<Matrix, Matrix> && !CanDot<Matrix, Tensor<cpu, 2, double>>);
static_assert(!CanDot<Matrix, Tensor<gpu, 2, float>> && !CanDot<Matrix, Tensor<cpu, 3, float>>);
using Vector = Tensor<cpu, 1, float>;
static_assert(CanAssign<Vector, decltype(dot(Matrix(), Vector()))>);
static_assert(CanAssign<Vector, decltype(dot(Matrix().T(), Vector()))>);
static_assert(CanAssign<Matrix, decltype(dot(Vector().T(), Vector()))>);
static_assert(!CanDot<Matrix, Tensor<gpu, 1, float>> && !CanDot<Tensor<cpu, 3, float>, Vector>);
template <typename A, typename B>
concept CanScale = requires(A a, B b) {
  a* b;
};
using IntegerProduct = decltype(dot(Tensor<cpu, 2, int32_t>(), Tensor<cpu, 2, int32_t>()));
static_assert(CanScale<int, IntegerProduct> && CanScale<double, Product>);
static_assert(!CanScale<double, IntegerProduct> && !CanScale<IntegerProduct, float>);
static_assert(CanAssign<Matrix, Product> && !CanAssign<Tensor<cpu, 2, double>, Product>);
static_assert(!CanAssign<Tensor<gpu, 2, float>, Product>);
static_assert(!CanAssign<Tensor<cpu, 3, float>, Product>);

struct Extents {
  index_t m, n, k;
};

// Around packets (4, 8), register tiles (12, 16, 24), Eigen's blocking of k (some 250 floats) and
// what runs in parallel (2^21 multiply-adds), with each extent small and large, one, and zero.
const std::vector<Extents> kExtents = {
    {1, 1, 1},    {2, 3, 4},    {3, 4, 5},       {7, 8, 9},      {8, 8, 8},      {9, 7, 8},
    {15, 16, 17}, {17, 15, 16}, {23, 24, 25},    {25, 23, 24},   {47, 49, 48},   {64, 64, 64},
    {1, 33, 17},  {33, 1, 17},  {33, 17, 1},     {1, 1, 100},    {1, 100, 1},    {5, 6, 700},
    {300, 2, 3},  {2, 300, 3},  {130, 129, 131}, {1000, 60, 40}, {60, 1000, 40}, {0, 3, 4},
    {3, 0, 4},    {3, 4, 0},    {0, 0, 0}};

template <typename T>
class DotTest : public testing::Test {
 protected:
  using Accumulator = std::conditional_t<sizeof(T) == 2, float, T>;

  /// |error| <= k eps |a||b| in the type that accumulates (Higham, Accuracy and Stability of
  /// Numerical Algorithms, 2nd ed., section 3.5), eps being twice the unit roundoff, which leaves
  /// room for alpha and the old value; storing rounds once more.
  static double Bound(index_t k, double magnitude, double expected) {
    return (static_cast<double>(k) + 2) * 2 * UnitRoundoff<Accumulator>() * magnitude +
           UnitRoundoff<T>() * std::abs(expected) +
           static_cast<double>(std::numeric_limits<T>::denorm_min());
  }

  /// The product of two matrices and that of their elements' magnitudes, in double.
  struct Sums {
    std::vector<double> product, magnitude;
  };
  static Sums ProductByHand(const Extents& e, bool transpose_a, const std::vector<T>& a,
                            bool transpose_b, const std::vector<T>& b) {
    Sums sums;
    sums.product.resize(static_cast<size_t>(e.m * e.n));
    sums.magnitude.resize(sums.product.size());
    for (index_t i = 0; i < e.m; ++i) {
      for (index_t p = 0; p < e.k; ++p) {
        const auto left =
            static_cast<double>(a[static_cast<size_t>(transpose_a ? p * e.m + i : i * e.k + p)]);
        for (index_t j = 0; j < e.n; ++j) {
          const auto right =
              static_cast<double>(b[static_cast<size_t>(transpose_b ? j * e.k + p : p * e.n + j)]);
          sums.product[static_cast<size_t>(i * e.n + j)] += left * right;
          sums.magnitude[static_cast<size_t>(i * e.n + j)] += std::abs(left * right);
        }
      }
    }
    return sums;
  }

  static void ExpectSums(const Extents& e, const Sums& sums, const std::vector<T>& old,
                         double old_factor, double factor, const std::vector<T>& actual,
                         const std::string& form) {
    std::vector<double> expected(old.size());
    for (size_t i = 0; i < old.size(); ++i) {
      expected[i] = factor * sums.product[i];
      if (old_factor != 0) expected[i] += old_factor * static_cast<double>(old[i]);
    }
    ExpectWithin<T>(
        actual, expected,
        [&](size_t i) {
          return Bound(e.k, sums.magnitude[i] + std::abs(static_cast<double>(old[i])), expected[i]);
        },
        form + " m=" + std::to_string(e.m) + " n=" + std::to_string(e.n) +
            " k=" + std::to_string(e.k));
  }

  template <bool kTransposeA, bool kTransposeB>
  static void ExpectProducts(const Extents& e, GuardedLayout layout) {
    const Shape<2> a_shape = kTransposeA ? Shape2(e.k, e.m) : Shape2(e.m, e.k);
    const Shape<2> b_shape = kTransposeB ? Shape2(e.n, e.k) : Shape2(e.k, e.n);
    const std::vector<T> a_values = RandomValues<T>(e.m * e.k, -1, 1, 1);
    const std::vector<T> b_values = RandomValues<T>(e.k * e.n, -1, 1, 2);
    const std::vector<T> old = RandomValues<T>(e.m * e.n, -1, 1, 3);
    GuardedTensor<2, T> a(a_shape, a_values, layout);
    GuardedTensor<2, T> b(b_shape, b_values, layout);
    GuardedTensor<2, T> c(Shape2(e.m, e.n), layout);

    const Sums sums = ProductByHand(e, kTransposeA, a_values, kTransposeB, b_values);
    const auto expect = [&](double old_factor, double factor, const char* form) {
      ExpectSums(e, sums, old, old_factor, factor, c.values(),
                 std::string(form) + (kTransposeA ? " A'" : "") + (kTransposeB ? " B'" : ""));
      ASSERT_TRUE(c.GuardsIntact()) << form;
    };
    const auto ab = [&] {
      if constexpr (kTransposeA && kTransposeB) {
        return dot(a->T(), b->T());
      } else if constexpr (kTransposeA) {
        return dot(a->T(), *b);
      } else if constexpr (kTransposeB) {
        return dot(*a, b->T());
      } else {
        return dot(*a, *b);
      }
    }();
    // Memory that is only written may hold anything before.
    c.Set(std::vector<T>(old.size(), std::numeric_limits<T>::quiet_NaN()));
    *c = ab;
    expect(0, 1, "=");
    c.Set(old);
    *c += 0.5f * ab * 4;
    expect(1, 2, "+= 2 *");
    // The forms give one product other factors, whatever is transposed.
    if constexpr (!kTransposeA && !kTransposeB) {
      *c = 0.5f * ab;
      expect(0, 0.5, "= 0.5 *");
      c.Set(old);
      *c += ab;
      expect(1, 1, "+=");
      c.Set(old);
      *c -= ab;
      expect(1, -1, "-=");
    }
  }

  template <bool kTransposeA, bool kTransposeB>
  static void ExpectAllExtents() {
    for (const Extents& e : kExtents) {
      ExpectProducts<kTransposeA, kTransposeB>(e, {});
      if (e.m * e.n * e.k < 1 << 20) {
        ExpectProducts<kTransposeA, kTransposeB>(e, {.row_padding = 3, .misalignment = 1});
      }
    }
  }
};

// Products of both 16-bit types are those of float.
using RealTypes = TestedTypes<float, half_t, double>;
TYPED_TEST_SUITE(DotTest, RealTypes);

TYPED_TEST(DotTest, PlainByPlain) { TestFixture::template ExpectAllExtents<false, false>(); }
TYPED_TEST(DotTest, PlainByTransposed) { TestFixture::template ExpectAllExtents<false, true>(); }
TYPED_TEST(DotTest, TransposedByPlain) { TestFixture::template ExpectAllExtents<true, false>(); }
TYPED_TEST(DotTest, TransposedByTransposed) {
  TestFixture::template ExpectAllExtents<true, true>();
}

// Vector times matrix and transposed matrix times vector give the same numbers.
TYPED_TEST(DotTest, VectorsTimesMatricesFromEitherSide) {
  using T = TypeParam;
  for (const index_t k : {0, 1, 3, 8, 33}) {
    for (const index_t n : {1, 4, 7, 40}) {
      const std::vector<T> v = RandomValues<T>(k, -1, 1, 1);
      const std::vector<T> m = RandomValues<T>(k * n, -1, 1, 2);
      GuardedTensor<1, T> vector(Shape1(k), v);
      GuardedTensor<2, T> matrix(Shape2(k, n), m, GuardedLayout{.row_padding = 1});
      GuardedTensor<2, T> transposed(Shape2(n, k), GuardedLayout{.row_padding = 2});
      *transposed = matrix->T();
      GuardedTensor<1, T> out(Shape1(n), std::vector<T>(static_cast<size_t>(n), T(1)));
      std::vector<double> expected(static_cast<size_t>(n));
      for (index_t p = 0; p < k; ++p) {
        for (index_t j = 0; j < n; ++j) {
          expected[static_cast<size_t>(j)] +=
              static_cast<double>(v[static_cast<size_t>(p)]) *
              static_cast<double>(m[static_cast<size_t>(p * n + j)]);
        }
      }
      const auto bound = [&](size_t i) {
        return TestFixture::Bound(k, static_cast<double>(k + 1), expected[i]);
      };
      *out = dot(*vector, *matrix);
      ExpectWithin<T>(out.values(), expected, bound);
      *out = dot(*vector, transposed->T());
      ExpectWithin<T>(out.values(), expected, bound);
      *out = dot(*transposed, *vector);
      ExpectWithin<T>(out.values(), expected, bound);
      *out = dot(matrix->T(), *vector);
      ExpectWithin<T>(out.values(), expected, bound);
      *out = T(1);
      *out += dot(*vector, *matrix);
      for (double& value : expected) value += 1;
      ExpectWithin<T>(out.values(), expected, bound);
      EXPECT_TRUE(out.GuardsIntact());
    }
  }
}

TEST(DotSpecialTest, InfinityAndNanSpreadAsTheArithmeticSays) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  GuardedTensor<2, float> a(Shape2(3, 2), std::vector<float>{inf, 1, nan, 1, 0, 1});
  GuardedTensor<2, float> b(Shape2(2, 2), std::vector<float>{1, 0, 1, 1});
  GuardedTensor<2, float> c(Shape2(3, 2));
  *c = dot(*a, *b);
  ExpectSameValues(c.values(), {inf, nan, nan, nan, 1, 1});
}

TEST(DotSpecialTest, AProductKeptInAVariableStaysValid) {
  GuardedTensor<2, double> a(Shape2(1, 2), std::vector<double>{3, 4});
  GuardedTensor<2, double> c(Shape2(1, 1));
  const auto kept = [&] {
    Tensor<cpu, 2, double> handle = *a;
    return 2 * dot(handle, handle.T());
  }();
  *c = kept;
  EXPECT_EQ(c.values(), std::vector<double>{50});
}

TEST(DotSpecialTest, ResultsOfSubBlocksOfOneMatrixNeedNotOverlap) {
  // Left half times right half of the rows, into columns that neither holds.
  GuardedTensor<2, float> all(Shape2(2, 6), std::vector<float>{1, 2, 1, 0, 9, 9, 3, 4, 0, 1, 9, 9});
  const auto columns = [&](index_t begin, index_t end) {
    return Matrix(all->dptr_ + begin, Shape2(2, end - begin), all->stride_, nullptr);
  };
  columns(4, 6) = dot(columns(0, 2), columns(2, 4));
  EXPECT_EQ(all.values(), (std::vector<float>{1, 2, 1, 0, 1, 2, 3, 4, 0, 1, 3, 4}));
}

TEST(DotErrorTest, ShapesThatDoNotFitAreRefusedAndNothingChanges) {
  GuardedTensor<2, float> a(Shape2(2, 3)), b(Shape2(4, 5));
  GuardedTensor<2, float> c(Shape2(2, 5), std::vector<float>(10, 1.0f));
  GuardedTensor<1, float> v(Shape1(2));
  ExpectError([&] { *c = dot(*a, *b); }, kInvalidArgument,
              {"dot", "(2,3)", "(4,5)", "3 columns against 4 rows"});
  ExpectError([&] { *c = dot(a->T(), *b); }, kInvalidArgument, {"dot", "(2,3) transposed"});
  ExpectError([&] { *c += dot(*a, a->T()); }, kInvalidArgument, {"dot", "(2,5)"});
  ExpectError([&] { *v = dot(*a, *v); }, kInvalidArgument,
              {"dot", "a matrix of shape (2,3)", "(2,)", "3 columns against 2 elements"});
  ExpectError([&] { *v = dot(*v, *b); }, kInvalidArgument,
              {"dot", "(4,5)", "2 columns against 4 rows"});
  EXPECT_EQ(c.values(), std::vector<float>(10, 1.0f));
}

TEST(DotTest, DestinationMayOverlapAnOperand) {
  GuardedTensor<2, float> memory(Shape2(6, 2),
                                 std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3});
  Matrix top = memory->Slice(0, 2), middle = memory->Slice(1, 3), bottom = memory->Slice(4, 6);
  top = dot(top, bottom);  // (1 2; 3 4) (9 1; 2 3)
  EXPECT_EQ(memory.values(), (std::vector<float>{13, 7, 35, 15, 5, 6, 7, 8, 9, 1, 2, 3}));
  middle += 2.0f * dot(bottom, middle);  // (9 1; 2 3) (35 15; 5 6)
  EXPECT_EQ(memory.values(), (std::vector<float>{13, 7, 675, 297, 175, 102, 7, 8, 9, 1, 2, 3}));
  bottom = dot(top, middle);  // operands may overlap each other
  EXPECT_EQ(bottom[0][0], 13.0f * 675 + 7 * 175);
}

TEST(DotTest, IntegersMultiplyExactly) {
  GuardedTensor<2, int32_t> a(Shape2(2, 3), {-2, -1, 0, 1, 2, 3});
  GuardedTensor<2, int32_t> b(Shape2(2, 3), {1, 11, 21, 31, 41, 51});
  GuardedTensor<2, int32_t> c(Shape2(2, 2), {1, 1, 1, 1});
  *c += 2 * dot(*a, b->T());
  EXPECT_EQ(c.values(), (std::vector<int32_t>{1 - 26, 1 - 206, 1 + 172, 1 + 532}));
  *c = dot(*a, b->T());
  EXPECT_EQ(c.values(), (std::vector<int32_t>{-13, -103, 86, 266}));
  EXPECT_TRUE(c.GuardsIntact());
}

// Of narrow and wide integers: results wrap around, and what is taken off is taken off where -1 is
// the type's largest number.
template <typename T>
void ExpectProductsThatWrap() {
  const auto wrapped = [](std::initializer_list<int> numbers) {
    std::vector<T> values;
    for (const int number : numbers) values.push_back(static_cast<T>(number));
    return values;
  };
  GuardedTensor<2, T> a(Shape2(2, 3), wrapped({3, 1, 0, 1, 2, 3}));
  GuardedTensor<2, T> b(Shape2(2, 3), wrapped({1, 11, 21, 31, 41, 51}),
                        GuardedLayout{.row_padding = 2});
  GuardedTensor<2, T> c(Shape2(2, 2), wrapped({1, 2, 3, 4}), GuardedLayout{.row_padding = 1});
  *c -= dot(*a, b->T());  // (14 134; 86 266)
  EXPECT_EQ(c.values(), wrapped({1 - 14, 2 - 134, 3 - 86, 4 - 266}));
  *c -= 2 * dot(*a, b->T());
  EXPECT_EQ(c.values(), wrapped({1 - 3 * 14, 2 - 3 * 134, 3 - 3 * 86, 4 - 3 * 266}));
  *c = 5 - dot(*a, b->T());
  EXPECT_EQ(c.values(), wrapped({5 - 14, 5 - 134, 5 - 86, 5 - 266}));
  c.Set(wrapped({1, 2, 3, 4}));
  *c -= dot(*c, *c);  // (7 10; 15 22)
  EXPECT_EQ(c.values(), wrapped({1 - 7, 2 - 10, 3 - 15, 4 - 22}));
  EXPECT_TRUE(c.GuardsIntact());

  GuardedTensor<1, T> v(Shape1(2), wrapped({2, 1})), row(Shape1(3), wrapped({1, 1, 1}));
  *row -= dot(*v, *a);  // (7 4 3)
  EXPECT_EQ(row.values(), wrapped({-6, -3, -2}));
  GuardedTensor<2, T> none(Shape2(2, 0)), empty(Shape2(0, 2));
  c.Set(wrapped({1, 2, 3, 4}));
  *c -= dot(*none, *empty);
  EXPECT_EQ(c.values(), wrapped({1, 2, 3, 4}));
}

TEST(DotTest, NarrowAndWideIntegersWrapAround) {
  ExpectProductsThatWrap<uint8_t>();
  ExpectProductsThatWrap<uint64_t>();
}

TEST(DotTest, StandsInsideAnExpression) {
  GuardedTensor<2, float> a(Shape2(2, 3), std::vector<float>{1, 2, 3, 4, 5, 6});
  GuardedTensor<2, float> b(Shape2(3, 2), std::vector<float>{1, 0, 0, 1, 1, 1});
  GuardedTensor<2, float> c(Shape2(2, 2), std::vector<float>{2, 2, 2, 2});
  *c = 1.0f + dot(*a, *b);
  EXPECT_EQ(c.values(), (std::vector<float>{5, 6, 11, 12}));
  *c *= dot(*a, *b);
  EXPECT_EQ(c.values(), (std::vector<float>{20, 30, 110, 132}));
  *c = (dot(*a, *b) - *c) * 0.5f;
  EXPECT_EQ(c.values(), (std::vector<float>{-8, -12.5, -50, -60.5}));
}

TEST(DotTest, OperandsMayBeExpressions) {
  GuardedTensor<2, float> a(Shape2(2, 3), std::vector<float>{1, 2, 3, 4, 5, 6});
  GuardedTensor<2, float> b(Shape2(3, 2), std::vector<float>{1, 0, 0, 1, 1, 1});
  GuardedTensor<1, float> v(Shape1(2), std::vector<float>{1, 2});
  GuardedTensor<1, float> row(Shape1(3));
  GuardedTensor<2, float> c(Shape2(2, 2));
  *c = dot(*a + *a, *b - 1.0f);
  EXPECT_EQ(c.values(), (std::vector<float>{-4, -2, -10, -8}));
  GuardedTensor<2, float> d(Shape2(2, 2), std::vector<float>{0, 1, 1, 0});
  *c = dot(dot(*a, *b), *d);  // (4 5; 10 11) with its columns exchanged
  EXPECT_EQ(c.values(), (std::vector<float>{5, 4, 11, 10}));
  *row = dot(*v * 2.0f, *a);
  EXPECT_EQ(row.values(), (std::vector<float>{18, 24, 30}));
  *row = dot(a->T() + 0.0f, *v + *v);
  EXPECT_EQ(row.values(), (std::vector<float>{18, 24, 30}));
  *row = 1.0f + dot(2.0f * dot(*b, *d), *v);  // (0 2; 2 0; 2 2) (1 2)
  EXPECT_EQ(row.values(), (std::vector<float>{5, 3, 7}));
  *v += 0.5f * dot(*d, *v);  // the destination is an operand
  EXPECT_EQ(v.values(), (std::vector<float>{2, 2.5}));
}

TEST(DotTest, AColumnTimesARowIsTheirOuterProduct) {
  for (const index_t m : {0, 1, 5, 17}) {
    for (const index_t n : {0, 1, 3, 33}) {
      const std::vector<float> u = RandomValues<float>(m, -1, 1), v = RandomValues<float>(n, -1, 1);
      GuardedTensor<1, float> left(Shape1(m), u), right(Shape1(n), v);
      GuardedTensor<2, float> out(Shape2(m, n), GuardedLayout{.row_padding = 2});
      *out = 1.0f;
      *out += dot(left->T(), *right);
      for (index_t y = 0; y < m; ++y) {
        for (index_t x = 0; x < n; ++x) {
          const auto product = u[static_cast<size_t>(y)] * v[static_cast<size_t>(x)];
          EXPECT_FLOAT_EQ((*out)[y][x], 1.0f + product) << m << " " << n;
        }
      }
      EXPECT_TRUE(out.GuardsIntact());
    }
  }
}

}  // namespace
}  // namespace tessera
