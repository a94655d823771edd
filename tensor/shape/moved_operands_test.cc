// What moves or repeats elements of operands that are computed in blocks (costly functions,
// reductions along an axis) or in tiles (transposes).
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/nn/window_pool.h"
#include "tessera/tensor/reduce/reduce_axis.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/shape/pad.h"
#include "tessera/tensor/shape/reshape.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/shape/transpose.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

/// Expects of what moves or repeats elements of a matrix what it gives over a tensor with them.
template <typename Operand>
void ExpectMovedAsStored(const Operand& operand, const std::string& what) {
  const index_t size = operand.shape().Size();
  GuardedTensor<2, float> stored(operand.shape());
  *stored = operand;
  const auto check = [&](const auto& moves, const std::string& how, auto inside_too) {
    const auto over_stored = moves(*stored);
    constexpr int kRank = std::remove_cvref_t<decltype(over_stored)>::kRank;
    GuardedTensor<kRank, float> expected(over_stored.shape()), out(over_stored.shape());
    *expected = over_stored;
    *out = moves(operand);
    ExpectSameValues(out.values(), expected.values(), how + " of " + what);
    if constexpr (inside_too()) {
      *out += moves(operand) - 1;
      *expected += over_stored - 1;
      ExpectSameValues(out.values(), expected.values(), how + " of " + what + ", as an operand");
    }
    EXPECT_TRUE(out.GuardsIntact()) << how << " of " << what;
  };
  const std::true_type both;
  const std::false_type alone;
  check([](const auto& e) { return flip(e, 1); }, "mirror", both);
  check([](const auto& e) { return swapaxis<1, 0>(e); }, "swapaxis", both);
  check([](const auto& e) { return upsampling_nearest(e, 3); }, "upsampling", alone);
  check([](const auto& e) { return broadcast_with_axis(e, 1, 3); }, "a new dimension", alone);
  check([&](const auto& e) { return broadcast<1>(reshape(e, Shape1(size)), Shape3(2, size, 3)); },
        "broadcast", both);
  check([](const auto& e) { return reduce_with_axis<red::maximum, true>(e, 0); }, "rows' index",
        alone);
  check([](const auto& e) { return reduce_with_axis<red::minimum, true>(e, 1); }, "index in rows",
        both);
}

TEST(MovedOperandsTest, MovingWhatIsComputedInBlocksGivesTheSame) {
  for (const auto& [rows, columns] : {std::pair(1, 1), {5, 9}, {17, 301}, {301, 17}, {3, 1031}}) {
    const std::string what = std::to_string(rows) + "x" + std::to_string(columns);
    Sample<2, float> x(Shape2(rows, columns), GuardedLayout{.row_padding = 1});
    Sample<3, float> y(Shape3(rows, 3, columns), GuardedLayout{.row_padding = 1});
    ExpectMovedAsStored(F<op::tanh>(*x), what + " of a function");
    ExpectMovedAsStored(reduce_with_axis<red::sum, false>(*y, 1), what + " sums across rows");
  }
}

TEST(MovedOperandsTest, WhatMovesIsFirstReadWhereTheDestinationIsAnOperand) {
  const Shape<2> shape = Shape2(17, 17);
  Sample<2, float> x(shape), y(shape);
  const auto check = [&](const auto& moves, const std::string& what) {
    x.Restore();
    *y = moves(*x);
    *x = moves(*x);
    ExpectSameValues(std::vector<float>(x->dptr_, x->dptr_ + shape.Size()),
                     std::vector<float>(y->dptr_, y->dptr_ + shape.Size()), what);
  };
  const auto sums = [](const auto& e) { return reduce_with_axis<red::sum, false>(e, 0); };
  check([&](const auto& e) { return broadcast<1>(sums(e), shape); }, "sums repeated");
  check([&](const auto& e) { return e - broadcast<0>(sums(e), shape); }, "sums subtracted");
  check([&](const auto& e) { return broadcast<1>(F<op::tanh>(e[3]), shape); }, "a row repeated");
  check([&](const auto& e) { return flip(F<op::tanh>(e), 1); }, "functions reversed");
  check([&](const auto& e) { return swapaxis<0, 1>(F<op::tanh>(e)); }, "functions transposed");
}

/// Counts what it is asked for.
struct Counted {
  static inline index_t calls = 0;
  template <typename T>
  static T Map(T a) {
    ++calls;
    return a + 1;
  }
};

TEST(MovedOperandsTest, AReductionThatIsRepeatedIsComputedOnce) {
  Sample<3, float> x(Shape3(5, 7, 17));
  const auto calls_of = [](const auto& e) {
    GuardedTensor<std::remove_cvref_t<decltype(e)>::kRank, float> out(e.shape());
    Counted::calls = 0;
    *out = 2.0f * e;
    return Counted::calls;
  };
  const index_t once = x.shape().Size();
  const auto sums = reduce_with_axis<red::sum, false>(F<Counted>(*x), 1);
  const auto sum = reshape(sums, Shape1(5 * 17));
  EXPECT_EQ(calls_of(broadcast<1>(sum, Shape3(2, 5 * 17, 3))), once);
  EXPECT_EQ(calls_of(broadcast<1>(sum, Shape2(3, 5 * 17))), once);
  EXPECT_EQ(calls_of(broadcast_with_axis(sums, 0, 3)), once);
  EXPECT_EQ(calls_of(upsampling_nearest(sums, 3)), once);
  EXPECT_EQ(calls_of(pool<red::sum>(sums, 3, 1)), once);
}

/// Expects of nodes that read rows of a transpose what they give over a tensor with its elements,
/// whole numbers.
template <typename Operand>
void ExpectRowsAsStored(const Operand& operand, const std::string& what) {
  GuardedTensor<2, double> stored(operand.shape());
  *stored = operand;
  const auto check = [&](const auto& reads, const std::string& how) {
    const auto over_stored = reads(*stored);
    constexpr int kRank = std::remove_cvref_t<decltype(over_stored)>::kRank;
    GuardedTensor<kRank, double> expected(over_stored.shape()), out(over_stored.shape());
    *expected = over_stored;
    *out = reads(operand);
    ExpectSameValues(out.values(), expected.values(), how + " of " + what);
    EXPECT_TRUE(out.GuardsIntact()) << how << " of " << what;
  };
  check([&](const auto& e) { return reshape(e, Shape1(stored->shape_.Size())) + 1.0; }, "shape");
  check([](const auto& e) { return pad(e, 1, 2) + 1.0; }, "pad");
  check([](const auto& e) { return sum<0>(e); }, "sums across rows");
  check([](const auto& e) { return sum<1>(e) * 2.0; }, "sums of rows");
  EXPECT_EQ(static_cast<double>(sum(operand)), static_cast<double>(sum(*stored))) << what;
}

TEST(MovedOperandsTest, RowsOfATransposeAreWhatTheyAreInMemory) {
  for (const auto& [rows, columns] : {std::pair(1, 1), {5, 9}, {17, 131}, {131, 17}}) {
    const std::string what = std::to_string(rows) + "x" + std::to_string(columns);
    Sample<2, double> x(Shape2(rows, columns), GuardedLayout{.row_padding = 1});
    Sample<2, double> y(Shape2(columns, rows));
    ExpectRowsAsStored((*x).T(), what + ", transposed");
    ExpectRowsAsStored(*y + swapaxis<0, 1>(*x) * *y, what + ", in an expression");
  }
}

TEST(MovedOperandsTest, ATransposeIsReadBeforeItsMemoryIsWritten) {
  const Shape<2> shape = Shape2(17, 17);
  Sample<2, float> x(shape);
  GuardedTensor<2, float> expected(shape);
  *expected = reshape((*x).T(), shape) - 1;
  *x = reshape((*x).T(), shape) - 1;
  ExpectSameValues(std::vector<float>(x->dptr_, x->dptr_ + shape.Size()), expected.values());
  x.Restore();
  GuardedTensor<1, float> sums(Shape1(17));
  *sums = sum<1>((*x).T());
  (*x)[3] = sum<1>((*x).T());
  ExpectSameValues(std::vector<float>((*x)[3].dptr_, (*x)[3].dptr_ + 17), sums.values());
}

}  // namespace
}  // namespace tessera
