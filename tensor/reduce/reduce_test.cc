#include "tessera/tensor/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/reduce/reduce_cuda.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename E>
concept ReducesOnTheHost = requires(E e) {
  ReduceAll<red::sum>(e);
};
static_assert(ReducesOnTheHost<Tensor<cpu, 2, float>>);
// The host cannot read a GPU's memory.
static_assert(!ReducesOnTheHost<Tensor<gpu, 2, float>>);
static_assert(!ReducesOnTheHost<decltype(2.0f * Tensor<gpu, 2, float>())>);

// Sums are carried out in float for the 16-bit types.
template <typename T>
double AccumulatorRoundoff() {
  return UnitRoundoff<typename expr::AccumulateIn<T>::type>();
}

// The sum, the sum of magnitudes and the extremes of a group of elements, in double.
struct Summary {
  double sum = 0, magnitude = 0, maximum = -kInfinity, minimum = kInfinity;
  int64_t count = 0;

  void Add(double value) {
    sum += value;
    magnitude += std::abs(value);
    maximum = std::max(maximum, value);
    minimum = std::min(minimum, value);
    ++count;
  }
  // Adding n numbers in any order loses at most n roundings of the sum of their magnitudes (Higham,
  // Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2); storing it one more.
  template <typename T>
  double SumBound() const {
    return static_cast<double>(count) * AccumulatorRoundoff<T>() * magnitude +
           UnitRoundoff<T>() * std::abs(sum);
  }
};

// One summary for each index of dimension `axis`.
template <typename T, int N>
std::vector<Summary> Summarize(const std::vector<T>& values, const Shape<N>& shape, int axis) {
  std::vector<Summary> groups(static_cast<size_t>(shape[axis]));
  const index_t inner = shape.ProdShape(axis + 1, N);
  for (index_t i = 0; i < shape.Size(); ++i) {
    groups[static_cast<size_t>(i / inner % shape[axis])].Add(
        static_cast<double>(values[static_cast<size_t>(i)]));
  }
  return groups;
}

template <typename T>
class ReduceTest : public testing::Test {
 protected:
  template <int kAxis, int N>
  static void ExpectSums(const Shape<N>& shape, GuardedLayout layout) {
    const std::vector<T> values = RandomValues<T>(shape.Size(), kIsReal<T> ? -1 : 0, 1);
    GuardedTensor<N, T> source(shape, values, layout);
    GuardedTensor<1, T> out(Shape1(shape[kAxis]), GuardedLayout{.misalignment = 1});
    const std::vector<Summary> groups = Summarize(values, shape, kAxis);
    std::vector<double> expected;
    for (const Summary& group : groups) expected.push_back(group.sum);
    const auto bound = [&](size_t i) { return groups[i].template SumBound<T>(); };
    *out = sumall_except_dim<kAxis>(*source);
    ExpectWithin<T>(out.values(), expected, bound, "sum, axis " + std::to_string(kAxis));
    EXPECT_TRUE(out.GuardsIntact());
    if (shape.Size() == 0) return;  // the extremes of nothing are tested below
    *out = reduce_except_dim<kAxis, red::maximum>(*source);
    for (size_t i = 0; i < groups.size(); ++i) expected[i] = groups[i].maximum;
    ExpectWithin<T>(
        out.values(), expected, [](size_t) { return 0; }, "maximum");
    *out = reduce_except_dim<kAxis, red::minimum>(*source);
    for (size_t i = 0; i < groups.size(); ++i) expected[i] = groups[i].minimum;
    ExpectWithin<T>(
        out.values(), expected, [](size_t) { return 0; }, "minimum");
    EXPECT_TRUE(out.GuardsIntact());
  }
  template <int N>
  static void ExpectReduceAll(const Shape<N>& shape, GuardedLayout layout) {
    const std::vector<T> values = RandomValues<T>(shape.Size(), kIsReal<T> ? -1 : 0, 1, 7);
    GuardedTensor<N, T> source(shape, values, layout);
    Summary all;
    for (const T value : values) all.Add(static_cast<double>(value));
    EXPECT_NEAR(static_cast<double>(ReduceAll<red::sum>(*source)), all.sum,
                all.template SumBound<T>());
    if (shape.Size() == 0) return;
    EXPECT_EQ(static_cast<double>(ReduceAll<red::maximum>(*source)), all.maximum);
    EXPECT_EQ(static_cast<double>(ReduceAll<red::minimum>(*source)), all.minimum);
  }
};

// One that adds up in itself and two that add up in another type, float and int64_t.
using ElementTypes = TestedTypes<float, half_t, int32_t>;
TYPED_TEST_SUITE(ReduceTest, ElementTypes);

TYPED_TEST(ReduceTest, MatricesReduceToTheirRowsAndColumns) {
  for (const index_t columns : {1, 3, 4, 5, 15, 16, 17, 31, 33, 64, 255, 600, 1023, 1024, 1025}) {
    for (const index_t rows : {1, 2, 4, 5, 7, 8}) {
      for (const index_t padding : {0, 3}) {
        const GuardedLayout layout{.row_padding = padding, .misalignment = padding};
        TestFixture::template ExpectSums<0>(Shape2(rows, columns), layout);
        TestFixture::template ExpectSums<1>(Shape2(rows, columns), layout);
      }
    }
  }
}

TYPED_TEST(ReduceTest, AnyAxisOfHigherRanks) {
  for (const index_t padding : {0, 2}) {
    const GuardedLayout layout{.row_padding = padding};
    const Shape<4> shape = Shape4(2, 3, 5, 19);
    TestFixture::template ExpectSums<1>(shape, layout);
    // To the loops a higher rank is a matrix too, whatever the type.
    if constexpr (std::is_same_v<TypeParam, float>) {
      TestFixture::template ExpectSums<0>(shape, layout);
      TestFixture::template ExpectSums<2>(shape, layout);
      TestFixture::template ExpectSums<3>(shape, layout);
    }
  }
  if constexpr (std::is_same_v<TypeParam, float>) {
    TestFixture::template ExpectSums<0>(Shape1(21), {});
  }
}

TYPED_TEST(ReduceTest, EmptySumsAreZero) {
  TestFixture::template ExpectSums<0>(Shape2(3, 0), {});
  TestFixture::template ExpectSums<1>(Shape2(0, 300), {});
  TestFixture::template ExpectSums<1>(Shape4(2, 0, 5, 1), {});
  TestFixture::template ExpectSums<1>(Shape4(0, 4, 5, 1), {});
  TestFixture::ExpectReduceAll(Shape1(0), {});
  TestFixture::ExpectReduceAll(Shape2(3, 0), {.row_padding = 1});
}

TYPED_TEST(ReduceTest, LargeOnesRunInParallel) {
  TestFixture::template ExpectSums<0>(Shape2(40, 5000), {});
  TestFixture::template ExpectSums<1>(Shape2(40, 5000), {.row_padding = 1});
  TestFixture::template ExpectSums<1>(Shape4(20, 30, 5, 100), {});
  TestFixture::template ExpectSums<1>(Shape2(403, 1100), {.row_padding = 1});  // in pieces
}

TYPED_TEST(ReduceTest, EverythingReducesToOneNumber) {
  for (const index_t extent : {1, 2, 15, 16, 17, 100, 16383, 16384, 16385, 100000}) {
    TestFixture::ExpectReduceAll(Shape1(extent), {.misalignment = 1});
  }
  TestFixture::ExpectReduceAll(Shape2(300, 70), {});
  TestFixture::ExpectReduceAll(Shape2(300, 70), {.row_padding = 1});
  TestFixture::ExpectReduceAll(Shape2(2, 40000), {.row_padding = 1});
  if constexpr (std::is_same_v<TypeParam, float>) {
    TestFixture::ExpectReduceAll(Shape4(2, 3, 4, 5), {.row_padding = 1});
  }
  TestFixture::ExpectReduceAll(Shape2(1200, 1100), {.row_padding = 1});  // more than 64 chunks
}

TEST(ReduceExpressionTest, OperandsAreAnyExpression) {
  const Shape<2> shape = Shape2(5, 9);
  const std::vector<float> a = RandomValues<float>(shape.Size(), -1, 1, 1);
  const std::vector<float> b = RandomValues<float>(shape.Size(), -1, 1, 2);
  GuardedTensor<2, float> x(shape, a), y(shape, b);
  GuardedTensor<1, float> rows(Shape1(5)), columns(Shape1(9));
  std::vector<float> products;
  for (size_t i = 0; i < a.size(); ++i) products.push_back(a[i] * b[i]);
  *rows = sumall_except_dim<0>(*x * *y);
  *columns = sum_rows(*x * *y);
  const std::vector<Summary> by_row = Summarize(products, shape, 0);
  const std::vector<Summary> by_column = Summarize(products, shape, 1);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(rows.values()[i], by_row[i].sum, by_row[i].SumBound<float>());
  }
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(columns.values()[i], by_column[i].sum, by_column[i].SumBound<float>());
  }
  // Without a packet form, and through a broadcast.
  *columns = sum_rows(F<op::maximum>(*x, 0) * broadcast<1>(*columns, shape) * 0);
  EXPECT_EQ(columns.values(), std::vector<float>(9, 0.0f));
}

// A reducer as programs for mshadow wrote them: it combines in place, through volatile references.
struct ProductInPlace {
  template <typename T>
  static void Reduce(volatile T& dst, T src) {  // NOLINT
    dst = dst * src;
  }
  template <typename T>
  static void SetInitValue(T& initial) {  // NOLINT
    initial = T(1);
  }
};

// Ones, and here and there a half or a two in turn, whose products are exact in any order.
std::vector<float> Factors(const Shape<2>& shape) {
  std::vector<float> values(static_cast<size_t>(shape.Size()), 1.0f);
  float next = 2;
  for (index_t y = 0; y < shape[0]; ++y) {
    for (index_t x = 0; x < shape[1]; ++x) {
      float& value = values[static_cast<size_t>(y * shape[1] + x)];
      if ((13 * y + 7 * x) % 101 == 5) value = next = 1 / next;
      if (x % 17 == 3 && y == shape[0] - 1) value = -value;
    }
  }
  return values;
}

TEST(ReduceExpressionTest, ReducersOfAProgramAreTakenInPieces) {
  // As one task; columns in pieces; blocks of columns; rows of several packets.
  for (const Shape<2>& shape :
       {Shape2(3, 5), Shape2(1, 40), Shape2(403, 1100), Shape2(20000, 3), Shape2(40, 5000)}) {
    const std::vector<float> factors = Factors(shape);
    std::vector<float> rows(static_cast<size_t>(shape[0]), 1.0f);
    std::vector<float> columns(static_cast<size_t>(shape[1]), 1.0f);
    double all = 1;
    for (size_t i = 0; i < factors.size(); ++i) {
      rows[i / columns.size()] *= factors[i];
      columns[i % columns.size()] *= factors[i];
      all *= static_cast<double>(factors[i]);
    }
    for (const index_t padding : {0, 3}) {
      GuardedTensor<2, float> x(shape, factors, GuardedLayout{.row_padding = padding});
      GuardedTensor<1, float> of_rows(Shape1(shape[0])), of_columns(Shape1(shape[1]));
      *of_rows = reduce_except_dim<0, ProductInPlace>(*x);
      ExpectSameValues(of_rows.values(), rows, "rows");
      *of_columns = reduce_except_dim<1, ProductInPlace>(*x);
      ExpectSameValues(of_columns.values(), columns, "columns");
      EXPECT_TRUE(of_rows.GuardsIntact() && of_columns.GuardsIntact());
      // Each chunk of the whole gives a result of its own.
      const float product = ReduceAll<expr::ReducerOf<ProductInPlace>>(*x);
      EXPECT_EQ(product, static_cast<float>(all));
    }
  }
}

TEST(ReduceExpressionTest, ReducersOfAProgramSeeHalfAsFloat) {
  const Shape<2> shape = Shape2(403, 1100);
  const std::vector<float> factors = Factors(shape);
  std::vector<half_t> narrow(factors.size());
  std::vector<half_t> expected(static_cast<size_t>(shape[1]), half_t(1));
  for (size_t i = 0; i < factors.size(); ++i) {
    narrow[i] = factors[i];
    expected[i % expected.size()] *= factors[i];
  }
  GuardedTensor<2, half_t> x(shape, narrow);
  GuardedTensor<1, half_t> columns(Shape1(shape[1]));
  *columns = reduce_except_dim<1, ProductInPlace>(*x);
  ExpectSameValues(columns.values(), expected);
}

TEST(ReduceExpressionTest, ResultsAreScaledAndCombined) {
  GuardedTensor<2, float> x(Shape2(2, 3), std::vector<float>{1, 2, 3, 4, 5, 6});
  GuardedTensor<1, float> out(Shape1(2), std::vector<float>{100, 200});
  *out += 0.5f * sumall_except_dim<0>(*x);
  EXPECT_EQ(out.values(), (std::vector<float>{103, 207.5}));
  *out -= sumall_except_dim<0>(*x) * 2;
  EXPECT_EQ(out.values(), (std::vector<float>{91, 177.5}));
  *out *= reduce_except_dim<0, red::maximum>(*x);
  EXPECT_EQ(out.values(), (std::vector<float>{273, 1065}));
  const auto kept = 2 * (0.25f * sum_rows(*x));
  GuardedTensor<1, float> columns(Shape1(3));
  *columns = kept;
  EXPECT_EQ(columns.values(), (std::vector<float>{2.5, 3.5, 4.5}));
}

TEST(ReduceExpressionTest, NanWinsAndInfinitiesCount) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const index_t at : {0, 5, 40, 99}) {
    std::vector<float> values(100, -inf);
    values[static_cast<size_t>(at)] = nan;
    GuardedTensor<1, float> x(Shape1(100), values);
    EXPECT_TRUE(std::isnan(ReduceAll<red::maximum>(*x)));
    EXPECT_TRUE(std::isnan(ReduceAll<red::minimum>(*x)));
    EXPECT_TRUE(std::isnan(ReduceAll<red::sum>(*x)));
  }
  GuardedTensor<1, float> lows(Shape1(100), std::vector<float>(100, -inf));
  EXPECT_EQ(ReduceAll<red::maximum>(*lows), -inf);
  GuardedTensor<1, float> none{Shape1(0)};
  EXPECT_EQ(ReduceAll<red::maximum>(*none), -inf);
  EXPECT_EQ(ReduceAll<red::minimum>(*none), inf);
}

// Many small numbers below each other are added up in blocks, within the bound of kRowsPerBlock.
TEST(ReduceExpressionTest, ColumnSumsOfManyRowsStayAccurate) {
  const Shape<2> shape = Shape2(1500000, 3);
  GuardedTensor<2, float> tall(shape, std::vector<float>(static_cast<size_t>(shape.Size()), 0.1f));
  GuardedTensor<1, float> sums(Shape1(3));
  const double sum = static_cast<double>(0.1f) * static_cast<double>(shape[0]);
  const double piece = static_cast<double>(shape[0] / expr::kMaxPieces + 1);
  constexpr double kBlock = expr::kRowsPerBlock;
  const double additions = kBlock + piece / kBlock + expr::kMaxPieces;
  *sums = sum_rows(*tall);
  for (const float value : sums.values()) {
    EXPECT_NEAR(value, sum, additions * UnitRoundoff<float>() * sum);
  }
}

// So are those of many short parts, of one long row, and of elements that come one by one.
TEST(ReduceExpressionTest, SumsOfManyPartsStayAccurate) {
  constexpr index_t kCount = index_t{1} << 21;
  constexpr double kElement = static_cast<double>(0.1f);
  GuardedTensor<1, float> x(Shape1(2 * kCount),
                            std::vector<float>(static_cast<size_t>(2 * kCount), 0.1f));
  GuardedTensor<1, float> sums(Shape1(2));
  // Of 512 elements, and of what was put aside in a chunk.
  const double bound = (512 + 2 * 32) * UnitRoundoff<float>();
  *sums = sumall_except_dim<1>(Tensor<cpu, 3, float>((*x).dptr_, Shape3(kCount / 2, 2, 2)));
  for (const float value : sums.values()) EXPECT_NEAR(value / (kElement * kCount), 1, bound);
  *sums = sumall_except_dim<0>(Tensor<cpu, 2, float>((*x).dptr_, Shape2(2, kCount)));
  for (const float value : sums.values()) EXPECT_NEAR(value / (kElement * kCount), 1, bound);
  // No packets of powers.
  const auto powers = F<op::power>(*x, 1.0f);
  const double sum = static_cast<double>(ReduceAll<red::sum>(powers));
  EXPECT_NEAR(sum / (kElement * 2 * kCount), 1, bound);
}

TEST(ReduceExpressionTest, ShapesThatDoNotFitAreRefused) {
  GuardedTensor<2, float> x(Shape2(2, 3));
  GuardedTensor<1, float> out(Shape1(2), std::vector<float>{7, 8});
  ExpectError([&] { *out = sum_rows(*x); }, kInvalidArgument, {"reduction", "(2,3)", "(2,)"});
  EXPECT_EQ(out.values(), (std::vector<float>{7, 8}));
}

template <typename A, typename B>
concept CanAssign = requires(A a, B b) {
  a = b;
};
using Sums = decltype(sum_rows(Tensor<cpu, 2, float>()));
static_assert(CanAssign<Tensor<cpu, 1, float>, Sums>);
static_assert(!CanAssign<Tensor<cpu, 2, float>, Sums>);
static_assert(!CanAssign<Tensor<cpu, 1, double>, Sums>);
static_assert(!CanAssign<Tensor<gpu, 1, float>, Sums>);

TEST(ReductionPiecesTest, CoverEveryElementOnceAndEndByThemselves) {
  using expr::ReductionPieces;
  constexpr index_t kExtents[] = {0, 1, 3, 63, 64, 129, 4096, 40001, 1 << 20, index_t{1} << 33};
  for (const index_t group : {1, 4, 16}) {
    for (const index_t results : {0, 1, 3, 1000, 1 << 20}) {
      for (const index_t extent : kExtents) {
        const auto along = ReductionPieces::AlongRows(results, extent, group);
        EXPECT_EQ(along.size % group, 0);
        const auto across = ReductionPieces::AcrossRows(1, extent, results, group);
        for (const auto& pieces : {along, across}) {
          ASSERT_GE(pieces.count, 1);
          EXPECT_GE(pieces.size * pieces.count, extent);
          if (pieces.count == 1) continue;
          EXPECT_LT(pieces.size * (pieces.count - 1), extent) << "an empty piece";
          EXPECT_LE(pieces.count, extent / 32) << "the next pass has little less to do";
        }
      }
    }
  }
  // What fills a GPU is left whole.
  EXPECT_EQ(ReductionPieces::AlongRows(1 << 14, 1 << 14, 4).count, 1);
  EXPECT_GT(ReductionPieces::AlongRows(1, 1 << 20, 4).count, 1);
  EXPECT_EQ(ReductionPieces::AcrossRows(1, 1 << 14, 1 << 20, 4).count, 1);
  EXPECT_GT(ReductionPieces::AcrossRows(1, 1 << 14, 1 << 14, 4).count, 1);
}

}  // namespace
}  // namespace tessera
