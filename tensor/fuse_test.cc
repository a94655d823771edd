#include "tessera/tensor/fuse.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/broadcast.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/guarded_tensor.h"
#include "tessera/tensor/test_values.h"

namespace tessera {
namespace {

template <typename T>
class FuseTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t, double, int32_t>;
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

TEST(FuseTest, ThreadsDoNotChangeABit) {
  const index_t n = 300000;
  GuardedTensor<1, float> a(Shape1(n), RandomValues<float>(n, -1, 1)), b(Shape1(n));
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 8);
  std::vector<float> first;
  for (const int width : {1, 2, 8, 3}) {
    float total = 0, length = 0;
    tbb::task_arena arena(width);
    arena.execute(
        [&] { Fuse(Lazy(*b) = *a * 3, Lazy(total) = sum(*b * *a), Lazy(length) = norm(*b)); });
    if (first.empty()) first = {total, length};
    EXPECT_EQ(first, (std::vector<float>{total, length})) << width;
  }
}

TEST(FuseTest, ShapesThatDifferAreRefusedBeforeAnythingIsWritten) {
  GuardedTensor<1, float> a(Shape1(4), std::vector<float>(4, 1.0f)), b(Shape1(5));
  GuardedTensor<2, float> m(Shape2(2, 2));
  ExpectError([&] { Fuse(Lazy(*a) = *a + 1, Lazy(*b) = *b + 1); },
              absl::StatusCode::kInvalidArgument, {"Fuse", "(4,)", "(5,)"});
  ExpectError([&] { Fuse(Lazy(*a) = *a + 1, Lazy(*m) = *m + 1); },
              absl::StatusCode::kInvalidArgument, {"Fuse", "(4,)", "(2,2)"});
  ExpectError([&] { Fuse(Lazy(*a) = *b); }, absl::StatusCode::kInvalidArgument,
              {"Fuse", "(5,)", "(4,)"});
  EXPECT_EQ(a.values(), std::vector<float>(4, 1.0f));
}

}  // namespace
}  // namespace tessera
