#include "tessera/tensor/fuse/fuse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"
#include "tessera/tensor/testing/thread_meeting.h"

namespace tessera {
namespace {

using Vector = Tensor<cpu, 1, float>;
using Matrix = Tensor<cpu, 2, float>;
using Cube = Tensor<cpu, 3, float>;

// What shares a pass, and over how many dimensions; 0 is what Fuse refuses to compile.
using ToVector = decltype(Lazy(Vector()) = Vector() + 1);
using ToMatrix = decltype(Lazy(Matrix()) = Matrix() + 1);
using ToCube = decltype(Lazy(Cube()) = Cube() + 1);
using ToNumber = decltype(Lazy(std::declval<float&>()) += sum(Matrix()));
using RowSums = decltype(Lazy(Vector()) = sum<1>(Matrix()));
using ColumnSums = decltype(Lazy(Vector()) = sum<0>(Matrix()));
template <int kAxis>
using CubeSums = decltype(Lazy(Matrix()) = sum<kAxis>(Cube()));
static_assert(expr::PassRank<ToMatrix, ToNumber, RowSums, ColumnSums>() == 2);
static_assert(expr::PassRank<ToVector, ToMatrix>() == 0);
static_assert(expr::PassRank<ToVector, ToNumber>() == 0);
static_assert(expr::PassRank<ToVector, RowSums>() == 1, "the sums are materialized");
static_assert(expr::PassRank<ToCube, CubeSums<0>, CubeSums<2>>() == 3);
static_assert(expr::PassRank<ToCube, CubeSums<0>, CubeSums<1>>() == 0);
static_assert(expr::PassRank<CubeSums<0>, CubeSums<1>>() == 2);

template <typename E>
concept IsLazyTarget = requires(const E& e) {
  Lazy(e);
};
static_assert(IsLazyTarget<Matrix> && IsLazyTarget<TensorView<cpu, 2, float>>);
static_assert(!IsLazyTarget<decltype(Matrix() + 1)>);
enum Weekday { kMonday, kSunday = 6 };
static_assert(IsLazyTarget<float> && !IsLazyTarget<Weekday>);

template <typename To, typename E>
concept TakesLater = requires(const To& to, const E& e) {
  to = e;
};
static_assert(TakesLater<expr::LazyNumber<float>, decltype(sum(Matrix()))>);
static_assert(!TakesLater<expr::LazyNumber<double>, decltype(sum(Matrix()))>);
static_assert(!TakesLater<expr::LazyNumber<float>, decltype(2 * sum(Matrix()))>);
static_assert(TakesLater<expr::LazyTensor<Matrix>, Matrix>);
static_assert(!TakesLater<expr::LazyTensor<Matrix>, Vector>);

template <typename T>
class FuseTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t>;
TYPED_TEST_SUITE(FuseTest, ElementTypes);

TYPED_TEST(FuseTest, EqualsOneAssignmentAfterTheOther) {
  using T = TypeParam;
  for (const Shape<2>& shape : {Shape2(0, 5), Shape2(1, 1), Shape2(3, 5), Shape2(7, 16),
                                Shape2(5, 700), Shape2(1, 40000), Shape2(300, 150)}) {
    for (const index_t padding : {0, 3}) {
      const GuardedLayout layout{.row_padding = padding};
      const index_t n = shape.Size();
      GuardedTensor<2, T> a(shape, RandomValues<T>(n, -4, 4, 1), layout), b(shape),
          x(shape, layout), y(shape), z(shape, RandomValues<T>(n, -4, 4, 3), layout);
      GuardedTensor<2, T> x2(shape), y2(shape), z2(shape, z.values());
      *b = T(2);
      T total = T(1), largest = T(0);
      // y reads what x has just become, and z its own old value.
      Fuse(Lazy(*x) = *a + *b, Lazy(*y) = *x * *a, Lazy(*z) -= *y, Lazy(total) += sum(*x),
           Lazy(largest) = maximum(*z));
      *x2 = *a + *b;
      *y2 = *x2 * *a;
      *z2 -= *y2;
      ExpectSameValues(x.values(), x2.values(), "x");
      ExpectSameValues(y.values(), y2.values(), "y");
      ExpectSameValues(z.values(), z2.values(), "z");
      EXPECT_TRUE(x.GuardsIntact() && y.GuardsIntact() && z.GuardsIntact());
      const T expected_largest = maximum(*z2);
      EXPECT_EQ(static_cast<double>(largest), static_cast<double>(expected_largest));
      double expected = 1, magnitude = 1;
      for (const T value : x2.values()) {
        expected += static_cast<double>(value);
        magnitude += std::abs(static_cast<double>(value));
      }
      if (std::abs(expected) > 60000) continue;  // more than half holds
      EXPECT_NEAR(static_cast<double>(total), expected,
                  static_cast<double>(n + 1) *
                          UnitRoundoff<typename expr::AccumulateIn<T>::type>() * magnitude +
                      2 * UnitRoundoff<T>() * (std::abs(expected) + 1));
    }
  }
}

// Counts the elements that it is asked for.
struct Counted {
  static inline int64_t elements = 0;
  static float Map(float a) {
    ++elements;
    return a;
  }
};

TEST(FuseTest, StatementsShareEqualReductions) {
  GuardedTensor<2, float> a(Shape2(3, 5), RandomValues<float>(15, -1, 1)), x(Shape2(3, 5)),
      y(Shape2(3, 5));
  const auto total = sum(F<Counted>(*a));
  const float expected = total;
  Counted::elements = 0;
  Fuse(Lazy(*x) = *a - total, Lazy(*y) = *a * total);
  EXPECT_EQ(Counted::elements, 15);
  EXPECT_EQ((*x)[2][4], (*a)[2][4] - expected);
  EXPECT_EQ((*y)[2][4], (*a)[2][4] * expected);
}

TEST(FuseTest, WhatCannotShareAPassStillGivesTheSame) {
  const index_t n = 9;
  const std::vector<float> old = RandomValues<float>(n * n, -1, 1);
  GuardedTensor<2, float> a(Shape2(n, n), old), x(Shape2(n, n)), y(Shape2(n, n));
  // y reads the transpose of what x becomes, and then x becomes the transpose of y.
  Fuse(Lazy(*x) = *a * 2, Lazy(*y) = x->T() + 1, Lazy(*x) = y->T());
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j < n; ++j) {
      EXPECT_EQ((*y)[i][j], old[static_cast<size_t>(j * n + i)] * 2 + 1);
      EXPECT_EQ((*x)[i][j], (*y)[j][i]);
    }
  }
  // A sum inside the second expression needs all of the first.
  Fuse(Lazy(*x) = *a + 1, Lazy(*y) = *a - sum(*x));
  const float total = sum(*x);
  for (index_t i = 0; i < n; ++i) EXPECT_EQ((*y)[i][0], (*a)[i][0] - total);
  // In place, and over a mean of the old values.
  Fuse(Lazy(*a) = *a - mean(*a), Lazy(*y) = *a * 2);
  for (index_t i = 0; i < n; ++i) EXPECT_EQ((*y)[i][3], (*a)[i][3] * 2);
  // A shifted destination reads what the first statement writes.
  GuardedTensor<1, float> v(Shape1(8), std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  Fuse(Lazy(v->Slice(1, 8)) = v->Slice(0, 7), Lazy(v->Slice(0, 7)) += v->Slice(1, 8));
  EXPECT_EQ(v.values(), (std::vector<float>{2, 3, 5, 7, 9, 11, 13, 7}));
}

// Notes for each element which statement computes it.
std::vector<int> order;
template <int kStatement>
struct Noted {
  static float Map(float a) {
    order.push_back(kStatement);
    return a;
  }
};

// How often another statement's turn came, and how many elements each computed.
struct Turns {
  index_t changes = 0;
  std::array<index_t, 4> computed{};
};
template <typename Run>
Turns TurnsOf(const Run& run) {
  order.clear();
  tbb::task_arena(1).execute(run);
  Turns turns;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && order[i] != order[i - 1]) ++turns.changes;
    ++turns.computed[static_cast<size_t>(order[i])];
  }
  return turns;
}

TEST(FuseTest, StatementsTakeTurnsWithinOnePass) {
  const index_t n = 60, size = n * n;  // one tile of several stretches
  GuardedTensor<2, float> a(Shape2(n, n), RandomValues<float>(size, -1, 1)), x(Shape2(n, n)),
      y(Shape2(n, n));
  GuardedTensor<1, float> rows(Shape1(n));
  float total = 0;
  // Each stretch of the one row that they are seen as goes through all statements.
  const index_t stretches = (size + expr::kFuseStretch - 1) / expr::kFuseStretch;
  const Turns shared = TurnsOf([&] {
    Fuse(Lazy(*x) = F<Noted<0>>(*a), Lazy(*y) = F<Noted<1>>(*x),
         Lazy(total) = sum(F<Noted<2>>(*y)));
  });
  EXPECT_EQ(shared.changes, 3 * stretches - 1);
  EXPECT_EQ(shared.computed, (std::array<index_t, 4>{size, size, size, 0}));
  EXPECT_EQ(y.values(), a.values());
  // A reduction along rows keeps them apart, and takes part in the pass.
  const Turns along =
      TurnsOf([&] { Fuse(Lazy(*x) = F<Noted<0>>(*a), Lazy(*rows) = sum<1>(F<Noted<1>>(*x))); });
  EXPECT_EQ(along.changes, 2 * n - 1);
  EXPECT_EQ(along.computed, (std::array<index_t, 4>{size, size, 0, 0}));
  // What reads the transpose has to wait for all of it: two passes.
  const Turns apart =
      TurnsOf([&] { Fuse(Lazy(*x) = F<Noted<0>>(*a), Lazy(*y) = F<Noted<1>>(x->T())); });
  EXPECT_EQ(apart.changes, 1);
  EXPECT_EQ(apart.computed, (std::array<index_t, 4>{size, size, 0, 0}));
  // So has the reduction inside a statement for what is written before it.
  const Turns inside = TurnsOf(
      [&] { Fuse(Lazy(*x) = F<Noted<0>>(*a), Lazy(*y) = F<Noted<2>>(*a) - sum(F<Noted<1>>(*x))); });
  EXPECT_EQ(inside.changes, 2);
  EXPECT_EQ(inside.computed, (std::array<index_t, 4>{size, size, size, 0}));
}

TEST(FuseTest, ReductionsInsideStatementsReadTheirOperandOnce) {
  const index_t rows = 9, columns = 70, size = rows * columns;
  GuardedTensor<2, float> a(Shape2(rows, columns), RandomValues<float>(size, -1, 1)),
      y(Shape2(rows, columns));
  GuardedTensor<1, float> sums(Shape1(rows));
  // The maximum, and then the exponentials with their sums, which the division has to wait for.
  const Turns softmax = TurnsOf([&] {
    Fuse(Lazy(*y) = exp(F<Noted<1>>(*a) - maximum<1>(F<Noted<0>>(*a)).spread()),
         Lazy(*sums) = sum<1>(F<Noted<2>>(*y)));
    *y /= spread<1>(*sums, columns);
  });
  EXPECT_EQ(softmax.computed, (std::array<index_t, 4>{size, size, size, 0}));
  EXPECT_EQ(softmax.changes, 2 * rows);  // 0, and then 1 and 2 in turn for each row
  for (index_t i = 0; i < rows; ++i) {
    float total = 0;
    for (index_t k = 0; k < columns; ++k) total += (*y)[i][k];
    EXPECT_NEAR(total, 1, 1e-5);
  }
}

TEST(FuseTest, TotalsOfChunksAddUpInDoubleAsInASumAlone) {
  constexpr index_t kChunks = 5;
  std::vector<float> values(kChunks * expr::kReduceChunk, 0.0f);
  for (size_t c = 0; c < kChunks; ++c) values[c * expr::kReduceChunk] = 1;
  values[0] = 0x1p25f;  // beside which a float has no room for a 1
  GuardedTensor<1, float> a(Shape1(kChunks * expr::kReduceChunk), values), x(a->shape_);
  float total = 0;
  Fuse(Lazy(*x) = *a * 1, Lazy(total) += sum(*a));
  EXPECT_EQ(total, 0x1p25f + 4);
  EXPECT_EQ(total, sum(*a));
}

TEST(FuseTest, WhatAStoreWritesIsThereForLaterStatements) {
  const index_t n = 70;  // several tiles of several packets
  const std::vector<float> values = RandomValues<float>(n * n, -4, 4, 1);
  GuardedTensor<2, float> a(Shape2(n, n), values), b(Shape2(n, n)), x(Shape2(n, n)),
      y(Shape2(n, n));
  *b = 0.0f;
  Fuse(Lazy(*x) = Store(*b, *a * 2) + *a, Lazy(*y) = b->T());
  for (index_t i = 0; i < n; ++i) {
    for (index_t k = 0; k < n; ++k) {
      ASSERT_EQ((*x)[i][k], 3 * (*a)[i][k]);
      ASSERT_EQ((*y)[i][k], 2 * (*a)[k][i]);
    }
  }
  // Inside a reduction it is written before the pass, and yet after what an earlier statement reads
  // or writes of it.
  *b = 1.0f;
  Fuse(Lazy(*x) = *b * 2, Lazy(*y) = *a - sum(Store(*b, *a * 3)));
  EXPECT_EQ(x.values(), std::vector<float>(n * n, 2.0f));
  EXPECT_EQ((*b)[1][2], 3 * (*a)[1][2]);
  // At its own place it is there in time.
  EXPECT_FALSE(expr::NeedSeparatePasses(Lazy(*x) = Store(*b, *a * 2) + *a, Lazy(*y) = *b * 2));
}

TEST(FuseViewsTest, AreDestinationsAndOperands) {
  using T = float;
  const Shape<2> shape = Shape2(40, 30);
  const std::vector<T> from = RandomValues<T>(shape.Size(), -4, 4, 1);
  const std::vector<T> old = RandomValues<T>(shape.Size(), -4, 4, 2);
  const Range rows(38, 3, -3), columns(1, 30, 2);
  for (const index_t padding : {0, 3}) {
    const GuardedLayout layout{.row_padding = padding};
    GuardedTensor<2, T> a(shape, from, layout), x(shape, old, layout), y(shape, old, layout),
        x2(shape, old), y2(shape, old);
    const auto apart = View(*x, rows, columns), apart2 = View(*x2, rows, columns);
    const auto block = View(*y, Range(0, 12), Range(2, 17));
    T total = T(0);
    // The second reads what the first has just written.
    Fuse(Lazy(apart) = View(*a, rows, columns) + T(1), Lazy(block) -= apart * T(2),
         Lazy(total) += sum(block));
    apart2 = View(*a, rows, columns) + T(1);
    View(*y2, Range(0, 12), Range(2, 17)) -= apart2 * T(2);
    ExpectSameValues(x.values(), x2.values(), "apart");
    ExpectSameValues(y.values(), y2.values(), "block");
    EXPECT_TRUE(x.GuardsIntact() && y.GuardsIntact());
    const T expected = sum(View(*y2, Range(0, 12), Range(2, 17)));
    EXPECT_NEAR(static_cast<double>(total), static_cast<double>(expected),
                1e-3 + 2 * UnitRoundoff<T>() * std::abs(static_cast<double>(expected)));
  }
}

TEST(FuseTest, ViewsOfOneMemory) {
  const index_t n = 9;
  const std::vector<float> old = RandomValues<float>(n, -1, 1);
  GuardedTensor<1, float> v(Shape1(n), old);
  GuardedTensor<2, float> m(Shape2(n, 4), std::vector<float>(n * 4, 0.0f));
  // Columns of one matrix interleave, but no place belongs to two of them.
  Fuse(Lazy(View(*m, kAll, 0)) = *v, Lazy(View(*m, kAll, 2)) = *v * 2,
       Lazy(View(*m, kAll, 3)) -= View(*m, kAll, 2));
  for (index_t i = 0; i < n; ++i) {
    EXPECT_EQ((*m)[i][0], (*v)[i]);
    EXPECT_EQ((*m)[i][1], 0);
    EXPECT_EQ((*m)[i][2], (*v)[i] * 2);
    EXPECT_EQ((*m)[i][3], -(*v)[i] * 2);
  }
  // Backwards in place, and then what has become of it.
  Fuse(Lazy(View(*v, kAll)) = View(*v, Range(n - 1, -1, -1)), Lazy(View(*m, kAll, 1)) = *v + 0);
  for (index_t i = 0; i < n; ++i) {
    EXPECT_EQ((*v)[i], old[static_cast<size_t>(n - 1 - i)]);
    EXPECT_EQ((*m)[i][1], (*v)[i]);
  }
}

TYPED_TEST(FuseTest, ReductionsAlongAxesShareThePass) {
  using T = TypeParam;
  using Accumulator = typename expr::AccumulateIn<T>::type;
  for (const Shape<2>& shape :
       {Shape2(0, 5), Shape2(5, 0), Shape2(1, 1), Shape2(3, 5), Shape2(7, 16), Shape2(5, 700),
        Shape2(1, 40000), Shape2(300, 150), Shape2(20000, 3), Shape2(2, 5000)}) {
    const index_t n = shape.Size();
    GuardedTensor<2, T> a(shape, RandomValues<T>(n, -4, 4, 1), GuardedLayout{.row_padding = 2}),
        x(shape);
    GuardedTensor<1, T> row_sums(Shape1(shape[0])), row_minima(Shape1(shape[0])),
        column_sums(Shape1(shape[1])), maxima(Shape1(shape[1])), row_minima2(Shape1(shape[0])),
        maxima2(Shape1(shape[1]));
    *maxima = T(1);
    *maxima2 = T(1);
    T largest = T(0);
    Fuse(Lazy(*x) = *a + T(1), Lazy(*row_sums) = sum<1>(*x), Lazy(*row_minima) = minimum<1>(*a),
         Lazy(*column_sums) = sum<0>(*x), Lazy(*maxima) += maximum<0>(*x),
         Lazy(largest) = maximum(*x));
    *row_minima2 = minimum<1>(*a);
    *maxima2 += maximum<0>(*a + T(1));
    ExpectSameValues(row_minima.values(), row_minima2.values(), "minima");
    ExpectSameValues(maxima.values(), maxima2.values(), "maxima");
    const T expected_largest = maximum(*x);
    EXPECT_EQ(static_cast<double>(largest), static_cast<double>(expected_largest));
    const std::vector<T> values = x.values();
    const auto expect = [&](const std::vector<T>& sums, bool of_rows) {
      std::vector<double> expected(sums.size()), magnitude(sums.size());
      for (index_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(of_rows ? i / shape[1] : i % shape[1]);
        expected[at] += static_cast<double>(values[static_cast<size_t>(i)]);
        magnitude[at] += std::abs(static_cast<double>(values[static_cast<size_t>(i)]));
      }
      const index_t added = shape[of_rows ? 1 : 0];
      ExpectWithin<T>(sums, expected, [&](size_t i) {
        return static_cast<double>(added) * UnitRoundoff<Accumulator>() * magnitude[i] +
               2 * UnitRoundoff<T>() * (std::abs(expected[i]) + 1);
      });
    };
    expect(row_sums.values(), true);
    expect(column_sums.values(), false);
    EXPECT_TRUE(x.GuardsIntact() && row_sums.GuardsIntact() && row_minima.GuardsIntact() &&
                column_sums.GuardsIntact() && maxima.GuardsIntact());
  }
}

// One number over and over along an axis adds up within the bound of kRowsPerBlock: in pieces of
// the axis, for several lines of a tile, and for several tiles of a line.
TEST(FuseTest, SumsAcrossManyRowsStayAccurate) {
  for (const Shape<3>& shape :
       {Shape3(1, 100001, 3), Shape3(5, 3001, 7), Shape3(16, 300, expr::kTileResults + 2)}) {
    const Shape<2> kept = Shape2(shape[0], shape[2]);
    GuardedTensor<2, float> row(kept, RandomValues<float>(kept.Size(), 0.1, 1));
    GuardedTensor<2, float> sums(kept);
    Fuse(Lazy(*sums) = sum<1>(spread<1>(*row, shape[1])));
    const auto rows = static_cast<double>(shape[1]);
    constexpr double kBlock = expr::kRowsPerBlock;
    const double additions = kBlock + rows / kBlock + expr::kMaxPieces;
    std::vector<double> expected;
    for (const float value : row.values()) expected.push_back(rows * value);
    ExpectWithin<float>(sums.values(), expected,
                        [&](size_t i) { return additions * UnitRoundoff<float>() * expected[i]; });
    EXPECT_TRUE(sums.GuardsIntact());
  }
}

// Small whole numbers, whose sums are exact in any order.
std::vector<float> WholeNumbers(index_t count, uint64_t stream) {
  const std::vector<int32_t> drawn = RandomValues<int32_t>(count, -4, 4, stream);
  return std::vector<float>(drawn.begin(), drawn.end());
}

template <int kAxis>
void ExpectFusedAlong(const Shape<3>& shape) {
  const Shape<2> rest = Shape2(shape[kAxis == 0 ? 1 : 0], shape[kAxis == 2 ? 1 : 2]);
  const Shape<2> rows = Shape2(shape[0], shape[1]);
  GuardedTensor<3, float> a(shape, WholeNumbers(shape.Size(), 1), GuardedLayout{.row_padding = 1}),
      x(shape), x2(shape);
  GuardedTensor<2, float> sums(rest, WholeNumbers(rest.Size(), 2), GuardedLayout{.row_padding = 3}),
      largest(rest), along(rows, GuardedLayout{.row_padding = 1});
  GuardedTensor<2, float> sums2(rest, sums.values()), largest2(rest), along2(rows);
  Fuse(Lazy(*x) = *a * 2, Lazy(*sums) -= sum<kAxis>(*x), Lazy(*largest) = maximum<kAxis>(*a),
       Lazy(*along) = sum<2>(*x));
  *x2 = *a * 2;
  *sums2 -= sum<kAxis>(*x2);
  *largest2 = maximum<kAxis>(*a);
  *along2 = sum<2>(*x2);
  ExpectSameValues(x.values(), x2.values(), "x");
  ExpectSameValues(sums.values(), sums2.values(), "sums");
  ExpectSameValues(largest.values(), largest2.values(), "largest");
  ExpectSameValues(along.values(), along2.values(), "along");
  EXPECT_TRUE(sums.GuardsIntact() && largest.GuardsIntact() && along.GuardsIntact());
}

// The last axis takes part in either list of statements.
TEST(FuseTest, ReductionsAlongAnyAxisOfThreeDimensions) {
  for (const Shape<3>& shape :
       {Shape3(1, 1, 1), Shape3(4, 9, 33), Shape3(3, 2, 5000), Shape3(70, 3, 2), Shape3(2, 300, 5),
        Shape3(200, 2, 700), Shape3(2, 400, 300), Shape3(900, 3, 2), Shape3(0, 3, 4),
        Shape3(3, 0, 4), Shape3(3, 4, 0)}) {
    ExpectFusedAlong<0>(shape);
    ExpectFusedAlong<1>(shape);
  }
}

TEST(FuseTest, ReductionsGoIntoViews) {
  GuardedTensor<2, float> a(Shape2(5, 9), WholeNumbers(45, 1)), b(Shape2(5, 9));
  GuardedTensor<2, float> sums(Shape2(9, 4), std::vector<float>(36, 1.0f));
  GuardedTensor<2, float> maxima(Shape2(9, 4), std::vector<float>(36, 1.0f));
  Fuse(Lazy(*b) = *a * 2, Lazy(View(*sums, kAll, 1)) += sum<0>(*b),
       Lazy(View(*maxima, Range(4, -1, -1), 3)) = maximum<1>(View(*a, kAll, Range(8, -1, -1))));
  for (index_t x = 0; x < 9; ++x) {
    float total = 1;
    for (index_t y = 0; y < 5; ++y) total += (*a)[y][x] * 2;
    EXPECT_EQ((*sums)[x][1], total);
    EXPECT_EQ((*sums)[x][0], 1);
  }
  for (index_t y = 0; y < 5; ++y) {
    float largest = -5;
    for (index_t x = 0; x < 9; ++x) largest = std::max(largest, (*a)[y][x]);
    EXPECT_EQ((*maxima)[4 - y][3], largest);
  }
  EXPECT_EQ((*maxima)[5][3], 1);
}

TEST(FuseTest, ResultsOfReductionsAreThereForLaterStatements) {
  const index_t rows = 7, columns = 13;
  GuardedTensor<2, float> a(Shape2(rows, columns), RandomValues<float>(rows * columns, -1, 1)),
      x(Shape2(rows, columns)), y(Shape2(rows, columns));
  GuardedTensor<1, float> s(Shape1(rows)), t(Shape1(rows)), v(Shape1(rows));
  // Softmax: the last statement reads the sums, so that there are several passes.
  Fuse(Lazy(*x) = exp(*a), Lazy(*s) = sum<1>(*x), Lazy(*y) = *x / spread<1>(*s, columns));
  *t = sum<1>(*y);
  for (index_t i = 0; i < rows; ++i) EXPECT_NEAR((*t)[i], 1, 1e-6);
  // Of the results' own shape: the sums are materialized.
  Fuse(Lazy(*t) = sum<1>(*x), Lazy(*v) = *t * 2);
  for (index_t i = 0; i < rows; ++i) EXPECT_EQ((*v)[i], (*t)[i] * 2);
  // Nothing but reductions, of different shapes.
  GuardedTensor<2, float> wide(Shape2(rows, 3), std::vector<float>(rows * 3, 2.0f));
  Fuse(Lazy(*t) = sum<1>(*wide), Lazy(*v) = maximum<1>(*y));
  for (index_t i = 0; i < rows; ++i) EXPECT_EQ((*t)[i], 6);
  *s = maximum<1>(*y);
  EXPECT_EQ(v.values(), s.values());
  // A number that is an element of what another statement reads.
  const float total = sum(*wide);
  Fuse(Lazy((*wide)[0][0]) += sum(*wide), Lazy(*t) = maximum<1>(*wide));
  EXPECT_EQ((*wide)[0][0], total + 2);
  EXPECT_EQ((*t)[0], total + 2);
}

// A task's work for one thread of cheap elements is shared out where a statement holds dear ones.
TEST(FuseTest, DearElementsAreSharedOut) {
  GuardedTensor<2, float> a(Shape2(2, expr::kReduceChunk)), b(a->shape_);
  GuardedTensor<1, float> columns(Shape1(expr::kReduceChunk));
  using Dear = ThreadMeeting<8>;
  float total = 0;
  EXPECT_TRUE(Dear::In([&] { Fuse(Lazy(*b) = *a + 1, Lazy(total) = sum(F<Dear>(*a))); }));
  EXPECT_TRUE(Dear::In([&] { Fuse(Lazy(*b) = F<Dear>(*a), Lazy(*columns) = sum<0>(*b)); }));
}

TEST(FuseTest, ThreadsDoNotChangeABitOfReductionsAlongAxes) {
  const Shape<2> shape = Shape2(5001, 517);  // pieces of more rows than a block
  GuardedTensor<2, float> a(shape, RandomValues<float>(shape.Size(), -1, 1)), b(shape);
  GuardedTensor<1, float> rows(Shape1(shape[0])), columns(Shape1(shape[1]));
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 8);
  std::vector<float> first;
  for (const int width : {1, 2, 8, 3}) {
    float total = 0;
    tbb::task_arena arena(width);
    arena.execute([&] {
      Fuse(Lazy(*b) = *a * 3, Lazy(*rows) = sum<1>(*b), Lazy(*columns) = norm<0>(*b),
           Lazy(total) = sum(*b * *a));
    });
    std::vector<float> all = rows.values();
    const std::vector<float> of_columns = columns.values();
    all.insert(all.end(), of_columns.begin(), of_columns.end());
    all.push_back(total);
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << width;
  }
}

TEST(FuseTest, ShapesThatDifferAreRefusedBeforeAnythingIsWritten) {
  GuardedTensor<1, float> a(Shape1(4), std::vector<float>(4, 1.0f)), b(Shape1(5));
  GuardedTensor<2, float> m(Shape2(4, 2)), n(Shape2(4, 3));
  ExpectError([&] { Fuse(Lazy(*a) = *a + 1, Lazy(*b) = *b + 1); }, Error::kInvalidArgument,
              {"Fuse", "(4,)", "(5,)"});
  ExpectError([&] { Fuse(Lazy(*a) = sum<1>(*m), Lazy(*n) = *n + 1); }, Error::kInvalidArgument,
              {"Fuse", "(4,2)", "(4,3)"});
  ExpectError([&] { Fuse(Lazy(*b) = sum<1>(*m), Lazy(*m) = *m + 1); }, Error::kInvalidArgument,
              {"Fuse", "(4,)", "(5,)"});
  ExpectError([&] { Fuse(Lazy(*a) = *b); }, Error::kInvalidArgument, {"Fuse", "(5,)", "(4,)"});
  EXPECT_EQ(a.values(), std::vector<float>(4, 1.0f));
}

}  // namespace
}  // namespace tessera
