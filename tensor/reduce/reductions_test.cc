#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reductions_cases.h"

namespace tessera {
namespace {

using RealTypes = testing::Types<float, half_t>;
INSTANTIATE_TYPED_TEST_SUITE_P(Real, ReductionsTest, RealTypes);

using LargeReductionsTest = ReductionsTest<float>;

TEST_F(LargeReductionsTest, RunInParallel) {
  ExpectWhole(Shape1(100000), {.misalignment = 1});
  ExpectWhole(Shape2(300, 700), {.row_padding = 1});
  ExpectAxis<0>(Shape2(5000, 300), {});  // the axis is cut
  ExpectAxis<0>(Shape2(200, 5000), {});  // many blocks of columns
  ExpectAxis<1>(Shape2(3, 50000), {});   // rows are cut
  ExpectAxis<1>(Shape2(3000, 50), {});
  ExpectAxis<1>(Shape3(2, 3000, 20), {});
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

// Rows of 0 and 1, which every type holds, and in each row one 1 fewer than in the row before.
template <typename T>
void ExpectReductionsOfSmallNumbers() {
  const index_t rows = 4, columns = 35;
  const auto memory = std::make_unique<T[]>(static_cast<size_t>(rows * columns));
  const auto results = std::make_unique<T[]>(static_cast<size_t>(rows + columns));
  const Tensor<cpu, 2, T> x(memory.get(), Shape2(rows, columns));
  for (index_t y = 0; y < rows; ++y) {
    for (index_t i = 0; i < columns; ++i) x[y][i] = i < rows - 1 - y ? T(1) : T(0);
  }
  const std::string type(DTypeName(kDTypeOf<T>));
  EXPECT_EQ(+Number<T>(sum(x)), +static_cast<T>(3 + 2 + 1)) << type;
  EXPECT_EQ(+Number<T>(maximum(x)), +T(1)) << type;
  EXPECT_EQ(+Number<T>(minimum(x)), +T(0)) << type;
  EXPECT_EQ(+Number<T>(norm(x)), +static_cast<T>(std::sqrt(6.0))) << type;
  EXPECT_EQ(+Number<T>(inner(x, x)), +static_cast<T>(6)) << type;
  Tensor<cpu, 1, T> of_rows(results.get(), Shape1(rows));
  Tensor<cpu, 1, T> of_columns(results.get() + rows, Shape1(columns));
  of_rows = sum<1>(x);
  of_columns = sum<0>(x);
  for (index_t y = 0; y < rows; ++y) EXPECT_EQ(+of_rows[y], +static_cast<T>(3 - y)) << type << y;
  for (index_t i = 0; i < columns; ++i) {
    EXPECT_EQ(+of_columns[i], +static_cast<T>(i < 3 ? 3 - i : 0)) << type << i;
  }
  of_rows = maximum<1>(x);
  of_columns = minimum<0>(x);
  for (index_t y = 0; y < rows; ++y) EXPECT_EQ(+of_rows[y], +T(y < 3)) << type << y;
  for (index_t i = 0; i < columns; ++i) EXPECT_EQ(+of_columns[i], +T(0)) << type << i;
  of_rows = sumall_except_dim<0>(x);
  of_columns = reduce_except_dim<1, red::maximum>(x);
  for (index_t y = 0; y < rows; ++y) EXPECT_EQ(+of_rows[y], +static_cast<T>(3 - y)) << type << y;
  for (index_t i = 0; i < columns; ++i) EXPECT_EQ(+of_columns[i], +T(i < 3)) << type << i;
}

TEST(ReductionsTest, TruthValuesTakePart) { ExpectReductionsOfSmallNumbers<bool>(); }

TEST(ReductionsTest, StandForNumbersWhereverANumberIsWanted) {
  GuardedTensor<2, float> four(Shape2(2, 2));
  *four = 4.0f;
  const double wide = sum(*four);
  EXPECT_EQ(wide, 16.0);
  EXPECT_EQ(std::sqrt(sum(*four)), 4.0f);
  EXPECT_EQ(static_cast<int>(mean(*four)), 4);
  std::ostringstream text;
  text << sum(*four) / 2.0f;
  EXPECT_EQ(text.str(), "8");
  bool positive = false;
  if (minimum(*four) > 0.0f) positive = true;
  EXPECT_TRUE(positive);

  GuardedTensor<1, half_t> halves(Shape1(3));
  *halves = half_t(0.5f);
  const float as_float = sum(*halves);
  const half_t as_half = sum(*halves);
  EXPECT_EQ(as_float, 1.5f);
  EXPECT_EQ(as_half, 1.5f);
}

TEST(ReductionsTest, ANumberOf16BitsTakesThem) {
  GuardedTensor<1, half_t> a(Shape1(3), std::vector<half_t>{half_t(1), half_t(2), half_t(3.5f)});
  half_t number(0);
  number = sum(*a);
  EXPECT_EQ(number, 6.5f);
  number += 2.0f * maximum(*a);
  EXPECT_EQ(number, 13.5f);
  (*a)[0] = norm(*a * *a) - mean(*a);
  EXPECT_NEAR((*a)[0], 10.76f, 0.02f);
}

TEST(ReductionsTest, ALongSumOfEqualNumbersKeepsItsPrecision) {
  // One after another, 20 million times 0.1 comes out 10 % short of 2 million.
  constexpr index_t kSize = 20000000;
  std::vector<float> memory(kSize, 0.1f);
  const Tensor<cpu, 1, float> x(memory.data(), Shape1(kSize));
  const double exact = kSize * static_cast<double>(0.1f);
  EXPECT_NEAR(static_cast<double>(sum(x)) / exact, 1.0, 2e-6);
}

// Also where it would be computed straight into the destination otherwise.
TEST(ReductionsTest, AReductionMayOverwriteItsOperand) {
  for (const index_t size : {20, 150}) {  // rows one by one, and side by side
    const std::vector<float> values = RandomValues<float>(size * size, -1, 1);
    for (const index_t y : {index_t{0}, index_t{1}, size - 1}) {
      GuardedTensor<2, float> a(Shape2(size, size), values);
      GuardedTensor<1, float> along(Shape1(size)), across(Shape1(size)), nested(Shape1(size));
      *along = sum<1>(*a);
      *across = sum<0>(*a);
      *nested = maximum<1>(*a - sum<1>(*a).spread());
      const auto expect = [&](GuardedTensor<1, float>& expected, const auto& reduction) {
        GuardedTensor<2, float> b(Shape2(size, size), values);
        (*b)[y] = reduction(*b);
        for (index_t x = 0; x < size; ++x) EXPECT_EQ((*b)[y][x], (*expected)[x]) << x;
      };
      expect(along, [](const auto& b) { return sum<1>(b); });
      expect(across, [](const auto& b) { return sum<0>(b); });
      expect(nested, [](const auto& b) { return maximum<1>(b - sum<1>(b).spread()); });
      *along = abs(*along);
      expect(along, [](const auto& b) { return abs(sum<1>(b)); });
    }
  }
}

struct HalfOf {  // it has no packets
  template <typename T>
  static T Map(T a) {
    return static_cast<T>(a / T(2));
  }
};

template <typename T>
class FunctionsOfReductionsTest : public testing::Test {};
using AnyTypes = testing::Types<float, half_t>;
TYPED_TEST_SUITE(FunctionsOfReductionsTest, AnyTypes);

TYPED_TEST(FunctionsOfReductionsTest, HaveTheBitsOfTwoAssignments) {
  using T = TypeParam;
  for (const Shape<2>& shape :
       {Shape2(3, 5), Shape2(41, 37), Shape2(150, 150), Shape2(3, 40000), Shape2(5000, 70)}) {
    GuardedTensor<2, T> x(shape, RandomValues<T>(shape.Size(), 0, 3));
    const auto expect = [&](auto axis, const auto& reduce, const auto& function) {
      const Shape<1> extent = Shape1(shape[1 - axis.value]);
      GuardedTensor<1, T> got(extent), reduced(extent), expected(extent);
      *got = function(reduce(*x));
      *reduced = reduce(*x);
      *expected = function(*reduced);
      EXPECT_EQ(got.values(), expected.values()) << shape << " along axis " << axis.value;
    };
    const auto along = [&](auto axis) {
      constexpr int kAxis = decltype(axis)::value;
      const auto total = [](const auto& e) { return sum<kAxis>(e); };
      const auto average = [](const auto& e) { return mean<kAxis>(e); };
      expect(axis, total, [](const auto& e) { return F<HalfOf>(e); });
      expect(axis, average, [](const auto& e) { return sqrt(e); });
      expect(axis, total, [](const auto& e) { return exp(-e); });
    };
    along(std::integral_constant<int, 0>());
    along(std::integral_constant<int, 1>());
  }
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
