// Reductions and products inside element-wise expressions: computed before the loop, once each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/broadcast.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/guarded_tensor.h"
#include "tessera/tensor/reduce.h"
#include "tessera/tensor/reductions.h"
#include "tessera/tensor/test_values.h"

namespace tessera {
namespace {

class HybridTest : public testing::Test {
 protected:
  static constexpr index_t kRows = 7, kColumns = 13;
  static constexpr size_t kSize = kRows * kColumns;

  GuardedTensor<2, float> a{Shape2(kRows, kColumns), RandomValues<float>(kSize, -1, 1, 1)};
  GuardedTensor<2, float> b{Shape2(kRows, kColumns), RandomValues<float>(kSize, -1, 1, 2),
                            GuardedLayout{.row_padding = 3}};
  GuardedTensor<2, float> r{Shape2(kRows, kColumns), GuardedLayout{.row_padding = 1}};

  static double At(const GuardedTensor<2, float>& t, size_t y, size_t x) {
    return static_cast<double>(t.values()[y * kColumns + x]);
  }
  template <typename Oracle>
  void ExpectResult(const Oracle& oracle, double bound = 1e-5) {
    for (size_t y = 0; y < kRows; ++y) {
      for (size_t x = 0; x < kColumns; ++x) ASSERT_NEAR(At(r, y, x), oracle(y, x), bound);
    }
    EXPECT_TRUE(r.GuardsIntact());
  }
  static double Sum(const GuardedTensor<2, float>& t) {
    double sum = 0;
    for (const float value : t.values()) sum += static_cast<double>(value);
    return sum;
  }
};

TEST_F(HybridTest, NumbersInsideElementwiseExpressions) {
  *r = (*a - sum(*a)) * *b;
  const double total = Sum(a);
  ExpectResult([&](size_t y, size_t x) { return (At(a, y, x) - total) * At(b, y, x); });
  // The covariance, as a number: two levels of reductions.
  const float covariance = mean((*a - mean(*a)) * (*b - mean(*b)));
  double expected = 0;
  for (size_t i = 0; i < kSize; ++i) {
    expected += (static_cast<double>(a.values()[i]) - total / kSize) *
                (static_cast<double>(b.values()[i]) - Sum(b) / kSize);
  }
  EXPECT_NEAR(covariance, expected / kSize, 1e-6);
}

TEST_F(HybridTest, ArithmeticOfReductionsIsANumber) {
  const float average = sum(*a) / static_cast<float>(kSize) + 1;
  EXPECT_NEAR(average, Sum(a) / kSize + 1, 1e-6);
  const float ratio = norm(*a) / max(norm(*b), maximum(*b));
  EXPECT_GT(ratio, 0);
  EXPECT_TRUE(maximum(*a) > minimum(*a));
  EXPECT_FALSE(maximum(*a) < minimum(*a));
  (*r)[0][0] = sum(*a);
  EXPECT_NEAR((*r)[0][0], Sum(a), 1e-5);
}

TEST_F(HybridTest, ReductionsOfTheDestinationUseItsOldValues) {
  *r = F<op::identity>(*a);
  *r -= mean(*r);
  const double average = Sum(a) / kSize;
  ExpectResult([&](size_t y, size_t x) { return At(a, y, x) - average; });
  *r = F<op::identity>(*a);
  *r = *r - maximum<0>(*r).spread();
  for (size_t x = 0; x < kColumns; ++x) {
    double largest = -2;
    for (size_t y = 0; y < kRows; ++y) largest = std::max(largest, At(a, y, x));
    for (size_t y = 0; y < kRows; ++y) ASSERT_NEAR(At(r, y, x), At(a, y, x) - largest, 1e-6);
  }
}

TEST_F(HybridTest, SoftmaxOfEachRow) {
  *r = exp(*a - maximum<1>(*a).spread());
  *r /= sum<1>(*r).spread();
  std::vector<double> norms(kRows, 0.0);
  for (size_t y = 0; y < kRows; ++y) {
    for (size_t x = 0; x < kColumns; ++x) norms[y] += std::exp(At(a, y, x));
  }
  ExpectResult([&](size_t y, size_t x) { return std::exp(At(a, y, x)) / norms[y]; });
}

TEST_F(HybridTest, LayerNormInOneExpression) {
  GuardedTensor<1, float> gamma(Shape1(kColumns), RandomValues<float>(kColumns, 1, 2, 3));
  GuardedTensor<1, float> beta(Shape1(kColumns), RandomValues<float>(kColumns, -1, 1, 4));
  const auto centred = *a - mean<1>(*a).spread();
  *r = centred / spread<1>(sqrt(mean<1>(square(centred)) + 1e-5f), kColumns) *
           repmat(*gamma, kRows) +
       repmat(*beta, kRows);
  ExpectResult([&](size_t y, size_t x) {
    double average = 0, variance = 0;
    for (size_t i = 0; i < kColumns; ++i) average += At(a, y, i) / kColumns;
    for (size_t i = 0; i < kColumns; ++i) {
      variance += (At(a, y, i) - average) * (At(a, y, i) - average) / kColumns;
    }
    return (At(a, y, x) - average) / std::sqrt(variance + 1e-5) *
               static_cast<double>(gamma.values()[x]) +
           static_cast<double>(beta.values()[x]);
  });
}

TEST_F(HybridTest, WholeComputationsAsOperands) {
  // sumall_except_dim is computed as a whole, as products are.
  GuardedTensor<1, float> v(Shape1(kColumns), RandomValues<float>(kColumns, -1, 1, 5));
  GuardedTensor<1, float> out(Shape1(kColumns));
  *out = 1.0f + 0.5f * sum_rows(*a) * *v - sumall_except_dim<1>(*b) / 2;
  for (size_t x = 0; x < kColumns; ++x) {
    double of_a = 0, of_b = 0;
    for (size_t y = 0; y < kRows; ++y) {
      of_a += At(a, y, x);
      of_b += At(b, y, x);
    }
    EXPECT_NEAR(out.values()[x], 1 + 0.5 * of_a * static_cast<double>(v.values()[x]) - of_b / 2,
                1e-5);
  }
  *out = sum_rows(*a - mean(*a));  // and its own operand may hold a reduction
  for (size_t x = 0; x < kColumns; ++x) {
    double expected = 0;
    for (size_t y = 0; y < kRows; ++y) expected += At(a, y, x) - Sum(a) / kSize;
    EXPECT_NEAR(out.values()[x], expected, 1e-5);
  }
  (*a)[3] = 2 * sum_rows(*a);  // the destination is a row of the operand
}

TEST_F(HybridTest, RepetitionAllocatesNothing) {
  const auto step = [&] { *r = *a * sum<0>(*b).spread() + spread<1>(norm<1>(*a), kColumns); };
  step();
  step();
  const int64_t before = tensor_internal::ScratchAllocations();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(tensor_internal::ScratchAllocations(), before);
}

TEST_F(HybridTest, ThreadsDoNotChangeABit) {
  const Shape<2> shape = Shape2(1031, 517);
  GuardedTensor<2, float> x(shape, RandomValues<float>(shape.Size(), -1, 1)), out(shape);
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 8);
  std::vector<float> first;
  for (const int width : {1, 2, 8, 3}) {
    tbb::task_arena arena(width);
    arena.execute([&] {
      *out = (*x - sum<0>(*x).spread()) * norm<1>(*x).spread() + mean(*x) + inner(*x, *x);
    });
    if (first.empty()) first = out.values();
    EXPECT_EQ(out.values(), first) << width;
  }
}

TEST_F(HybridTest, ShapesThatDifferAreRefused) {
  GuardedTensor<1, float> v(Shape1(kRows));
  ExpectError([&] { *v = sum<0>(*a); }, Error::kInvalidArgument, {"(13,)", "(7,)"});
  GuardedTensor<2, float> other(Shape2(kColumns, kRows));
  ExpectError([&] { *r = *a + maximum<1>(*other).spread(); }, Error::kInvalidArgument,
              {"(7,13)", "(13,7)"});
  ExpectError([&] { inner(*a, *other); }, Error::kInvalidArgument, {"inner", "(7,13)", "(13,7)"});
  ExpectError([&] { inner<0>(*a, *other); }, Error::kInvalidArgument, {"inner", "(7,13)"});
  GuardedTensor<1, float> w(Shape1(kColumns));
  ExpectError([&] { dot(*v, *w); }, Error::kInvalidArgument, {"dot", "(7,)", "(13,)"});
}

}  // namespace
}  // namespace tessera
