// Reductions and products inside element-wise expressions: materialized before the loop, once each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

// Counts the elements that it is asked for.
struct Counted {
  static inline int64_t elements = 0;
  static float Map(float a) {
    ++elements;
    return a;
  }
};

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
  // How often the elements of a were read through Counted.
  template <typename Evaluate>
  static double CountedPasses(const Evaluate& evaluate) {
    Counted::elements = 0;
    evaluate();
    return static_cast<double>(Counted::elements) / static_cast<double>(kSize);
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

TEST_F(HybridTest, SoftmaxInOneExpressionLooksForTheMaximumOnce) {
  const auto x = F<Counted>(*a);
  const auto shifted = *a - maximum(x);
  EXPECT_EQ(CountedPasses([&] { *r = exp(shifted) / sum(exp(shifted)); }), 1);
  double norm = 0;
  for (const float value : a.values()) norm += std::exp(static_cast<double>(value));
  ExpectResult([&](size_t y, size_t i) { return std::exp(At(a, y, i)) / norm; });
  const auto of_rows = *a - maximum<1>(x).spread();
  EXPECT_EQ(CountedPasses([&] { *r = exp(of_rows) / sum<1>(exp(of_rows)).spread(); }), 1);
  std::vector<double> norms(kRows, 0.0);
  for (size_t y = 0; y < kRows; ++y) {
    for (size_t i = 0; i < kColumns; ++i) norms[y] += std::exp(At(a, y, i));
  }
  ExpectResult([&](size_t y, size_t i) { return std::exp(At(a, y, i)) / norms[y]; });
}

TEST_F(HybridTest, EqualReductionsOfOneEvaluationAreOne) {
  const auto x = F<Counted>(*a);
  EXPECT_EQ(CountedPasses([&] { *r = *b * sum(x) + sum(x) * sum(x); }), 1);
  EXPECT_EQ(CountedPasses([&] {
              *r = spread<1>(sqrt(sum<1>(x * x) + 1.0f), kColumns) /
                   spread<1>(sqrt(sum<1>(x * x) + 1.0f), kColumns);
            }),
            2);  // x * x reads twice
  EXPECT_EQ(CountedPasses([&] {
              *r = sum(x.T()) * *a / sum(x.T()) + sum(tcast<float>(x)) - sum(tcast<float>(x));
            }),
            2);
  float number = 0;
  EXPECT_EQ(CountedPasses([&] { number = sum(x) / (1 + abs(sum(x))); }), 1);
  EXPECT_NEAR(number, Sum(a) / (1 + std::abs(Sum(a))), 1e-5);
  // Nothing is kept for the next one.
  EXPECT_EQ(CountedPasses([&] {
              *r = *b + sum(x);
              *r += *b + sum(x);
            }),
            2);
}

TEST_F(HybridTest, ReductionsThatDifferAreComputedEach) {
  const auto x = F<Counted>(*a);
  EXPECT_EQ(CountedPasses([&] { *r = *b * sum(x) + maximum(x) + mean(x); }), 3);
  EXPECT_EQ(CountedPasses([&] { *r = *b + sum(x * 2.0f) - sum(x * 3.0f); }), 2);
  EXPECT_EQ(CountedPasses([&] { *r = sum<0>(x).spread() - sum<1>(x).spread(); }), 2);
  const float nan = std::nanf("");
  EXPECT_TRUE(SameNode(expr::ScalarExp<float>(nan), expr::ScalarExp<float>(nan)));
  EXPECT_FALSE(SameNode(expr::ScalarExp<float>(0.0f), expr::ScalarExp<float>(-0.0f)));
  // Of one type, over other memory, another part of it, or other steps.
  *r = 0.0f * *a + (sum(*a) - sum(*r * 0.0f + *b));
  ExpectResult([&](size_t, size_t) { return Sum(a) - Sum(b); }, 1e-4);
  const auto sum_of = [&](Range columns) { return sum(View(*a, kAll, columns)); };
  const float near = sum_of(Range(0, 4)), apart = sum_of(Range(0, 8, 2)),
              back = sum_of(Range(3, 7));
  *r = *b - *b + 4 * sum_of(Range(0, 4)) + 2 * sum_of(Range(0, 8, 2)) + sum_of(Range(3, 7));
  ExpectResult([&](size_t, size_t) { return 4 * near + 2 * apart + back; }, 1e-4);
  const auto row = [&](index_t y) {
    return spread<0>(sum<0>(View(*a, Range(y, y + 2), kAll)), kRows);
  };
  *r = row(0) * 2 - row(3);
  ExpectResult([&](size_t, size_t i) {
    return 2 * (At(a, 0, i) + At(a, 1, i)) - At(a, 3, i) - At(a, 4, i);
  });
}

TEST_F(HybridTest, ReductionsOverOtherShapesAreComputedEach) {
  const auto row = View(*a, 2, kAll);
  *r = 0.0f * *a + (sum(spread<0>(row, 3)) - sum(spread<0>(row, 5)));
  double sum_of_row = 0;
  for (size_t x = 0; x < kColumns; ++x) sum_of_row += At(a, 2, x);
  ExpectResult([&](size_t, size_t) { return -2 * sum_of_row; });
  *r = 0.0f * *a + (sum(broadcast<1>((*a)[2], Shape2(3, kColumns))) -
                    sum(broadcast<1>((*a)[2], Shape2(5, kColumns))));
  ExpectResult([&](size_t, size_t) { return -2 * sum_of_row; });
}

TEST_F(HybridTest, WhatAStoreWritesIsReducedAgain) {
  const double old = Sum(b);
  *r = *a * 0.0f + (sum(*b) + 2 * sum(Store(*b, *a * 2.0f)) + 4 * sum(*b));
  ExpectResult([&](size_t, size_t) { return old + 12 * Sum(a); }, 1e-4);
  // Of two equal ones that store, each reads what the one before has stored.
  *b = *a * 1.0f;
  *r = *a * 0.0f + (sum(Store(*b, *b + 1.0f)) + sum(Store(*b, *b + 1.0f)));
  ExpectResult([&](size_t, size_t) { return 2 * Sum(a) + 3 * static_cast<double>(kSize); }, 1e-4);
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
