#include "tessera/tensor/nn/window_pool.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/shape/pad.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<decltype(pool<red::sum>(Tensor<cpu, 3>(), 1, 1))>);

struct Case {
  Shape<4> shape;
  PoolGeometry g;
};
// Windows that overlap, touch and leave gaps, of odd and even extents, padded or not.
std::vector<Case> Cases() {
  return {{Shape4(2, 3, 6, 9), {2, 2, 2, 2, 0, 0}}, {Shape4(1, 2, 7, 17), {3, 3, 2, 2, 0, 0}},
          {Shape4(1, 1, 5, 8), {3, 2, 1, 3, 0, 0}}, {Shape4(2, 1, 5, 7), {3, 3, 2, 2, 1, 1}},
          {Shape4(1, 2, 4, 4), {4, 4, 1, 1, 0, 0}}, {Shape4(1, 1, 1, 1), {1, 1, 1, 1, 0, 0}},
          {Shape4(0, 2, 4, 4), {2, 2, 2, 2, 0, 0}}, {Shape4(1, 1, 6, 6), {2, 3, 3, 4, 1, 2}}};
}
Shape<4> PooledShape(const Case& c) {
  return Shape4(c.shape[0], c.shape[1],
                (c.shape[2] + 2 * c.g.pad_y - c.g.kernel_y) / c.g.stride_y + 1,
                (c.shape[3] + 2 * c.g.pad_x - c.g.kernel_x) / c.g.stride_x + 1);
}

// Calls visit(index in the image) for each element under the window at `position`.
template <typename Visit>
void ForEachUnder(const Case& c, const Shape<4>& position, const Visit& visit) {
  for (index_t ky = 0; ky < c.g.kernel_y; ++ky) {
    for (index_t kx = 0; kx < c.g.kernel_x; ++kx) {
      const index_t y = position[2] * c.g.stride_y + ky - c.g.pad_y;
      const index_t x = position[3] * c.g.stride_x + kx - c.g.pad_x;
      if (0 <= y && y < c.shape[2] && 0 <= x && x < c.shape[3]) {
        visit(Shape4(position[0], position[1], y, x));
      }
    }
  }
}

template <typename Red, typename T>
double Pooled(const Case& c, const Sample<4, T>& a, const Shape<4>& position) {
  double result = static_cast<double>(Red::template InitialValue<T>());
  ForEachUnder(c, position, [&](const Shape<4>& at) {
    result = std::is_same_v<Red, red::sum>       ? result + a.at(at)
             : std::is_same_v<Red, red::maximum> ? std::max(result, a.at(at))
                                                 : std::min(result, a.at(at));
  });
  return result;
}

template <typename T>
class WindowPoolTest : public testing::Test {};
TYPED_TEST_SUITE(WindowPoolTest, NodeElementTypes);

template <typename Red, typename T>
void ExpectPooled() {
  for (const Case& c : Cases()) {
    const PoolGeometry& g = c.g;
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<4, T> a(c.shape, layout);
      const auto expected = [&](const Shape<4>& i) { return Pooled<Red>(c, a, i); };
      ExpectElements<4>(
          pool<Red>(*a, g.kernel_y, g.kernel_x, g.stride_y, g.stride_x, g.pad_y, g.pad_x),
          PooledShape(c), expected, "pool");
    }
  }
}

TYPED_TEST(WindowPoolTest, ReducesWindows) {
  using T = TypeParam;
  ExpectPooled<red::maximum, T>();
  if constexpr (std::is_same_v<T, float>) {
    ExpectPooled<red::sum, T>();
    ExpectPooled<red::minimum, T>();
  }
}

template <typename Red, typename T>
void ExpectUnpooled() {
  for (const Case& c : Cases()) {
    const PoolGeometry& g = c.g;
    Sample<4, T> a(c.shape, GuardedLayout{.row_padding = 1});
    GuardedTensor<4, T> pooled(PooledShape(c));
    *pooled = pool<Red>(*a, g.kernel_y, g.kernel_x, g.stride_y, g.stride_x, g.pad_y, g.pad_x);
    Sample<4, T> grad(PooledShape(c), GuardedLayout{.row_padding = 2}, 3);
    std::vector<double> sums(static_cast<size_t>(c.shape.Size()));
    const auto flat = [&](const Shape<4>& i) {
      return static_cast<size_t>(((i[0] * c.shape[1] + i[1]) * c.shape[2] + i[2]) * c.shape[3] +
                                 i[3]);
    };
    ForEachIndex(PooledShape(c), [&](const Shape<4>& position) {
      const double result = Pooled<Red>(c, a, position);
      ForEachUnder(c, position, [&](const Shape<4>& at) {
        if (std::is_same_v<Red, red::sum> || a.at(at) == result) {
          sums[flat(at)] += grad.at(position);
        }
      });
    });
    ExpectElements<4>(
        unpool<Red>(*a, *pooled, *grad, g.kernel_y, g.kernel_x, g.stride_y, g.stride_x, g.pad_y,
                    g.pad_x),
        c.shape, [&](const Shape<4>& i) { return sums[flat(i)]; }, "unpool");
  }
}

TYPED_TEST(WindowPoolTest, GradientGoesBackToEveryExtreme) {
  using T = TypeParam;
  ExpectUnpooled<red::maximum, T>();
  if constexpr (std::is_same_v<T, float>) {
    ExpectUnpooled<red::sum, T>();
    ExpectUnpooled<red::minimum, T>();
  }
}

TEST(WindowPoolFormsTest, ShorterFormsMeanTheSame) {
  Sample<4, float> a(Shape4(1, 2, 7, 9));
  Sample<4, float> expected(Shape4(1, 2, 3, 4)), grad(Shape4(1, 2, 3, 4), {}, 1);
  *expected = pool<red::maximum>(*a, 3, 3, 2, 2);
  const std::vector<float> values(expected->dptr_, expected->dptr_ + 24);
  const auto expect = [&](const auto& e) {
    Sample<4, float> out(Shape4(1, 2, 3, 4));
    *out = e;
    ExpectSameValues(std::vector<float>(out->dptr_, out->dptr_ + 24), values);
  };
  expect(pool<red::maximum>(*a, 3, 3, 2));
  expect(pool<red::maximum>(*a, 3, 2));
  expect(pool<red::maximum>(*a, Shape2(3, 4), 3, 3, 2));
  expect(pool<red::maximum>(*a, (*expected)[0][0].shape_, 3, 3, 2, 2));
  // More positions than windows that fit whole: the last ones are cut off.
  Sample<2, float> image(Shape2(4, 4)), cut(Shape2(2, 2));
  *cut = pool<red::sum>(*image, Shape2(2, 2), 3, 3, 2);
  EXPECT_EQ((*cut)[1][1], (*image)[2][2] + (*image)[2][3] + (*image)[3][2] + (*image)[3][3]);
  // The gradient, with the destination one of the operands.
  Sample<4, float> two(a.shape()), three(a.shape());
  *two = unpool<red::maximum>(*a, *expected, *grad, 3, 3, 2, 2);
  *three = unpool<red::maximum>(*a, *expected, *grad, 3, 2);
  *a = unpool<red::maximum>(*a, *expected, *grad, 3, 3, 2);
  const std::vector<float> right(two->dptr_, two->dptr_ + 126);
  ExpectSameValues(std::vector<float>(three->dptr_, three->dptr_ + 126), right);
  ExpectSameValues(std::vector<float>(a->dptr_, a->dptr_ + 126), right);
}

TEST(WindowPoolFormsTest, PaddedImagesAreExpressions) {
  const Case c{Shape4(2, 2, 5, 7), {3, 3, 2, 2, 1, 1}};
  Sample<4, float> a(c.shape);
  Sample<4, float> pooled(PooledShape(c)), grad(PooledShape(c), {}, 2);
  ExpectElements<4>(
      pool<red::sum>(pad(*a, 1, 1), 3, 3, 2, 2) * (1.0f / 8), PooledShape(c),
      [&](const Shape<4>& i) { return Pooled<red::sum>(c, a, i) / 8; }, "average");
  *pooled = pool<red::sum>(pad(*a, 1, 1), 3, 3, 2, 2);
  Sample<4, float> expected(c.shape);
  *expected = unpool<red::sum>(*a, *pooled, *grad, 3, 3, 2, 2, 1, 1);
  const std::vector<float> right(expected->dptr_, expected->dptr_ + c.shape.Size());
  *expected = crop(unpool<red::sum>(pad(*a, 1, 1), *pooled, *grad, 3, 3, 2, 2), Shape2(5, 7), 1, 1);
  ExpectSameValues(std::vector<float>(expected->dptr_, expected->dptr_ + c.shape.Size()), right);
}

// Rows longer than the blocks in which a gradient is computed, whose ends windows go across; each
// element has the bits that it has alone.
TEST(WindowPoolFormsTest, GradientsOfLongRows) {
  const Shape<3> shape = Shape3(2, 7, 700);
  struct Window {
    index_t kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x;
  };
  for (const Window& w : {Window{3, 5, 2, 3, 1, 2}, Window{2, 2, 2, 2, 0, 0},
                          Window{3, 3, 1, 1, 1, 1}, Window{1, 2, 1, 5, 0, 0}}) {
    const auto positions = [](index_t extent, index_t pad, index_t kernel, index_t stride) {
      return (extent + 2 * pad - kernel) / stride + 1;
    };
    const Shape<3> small = Shape3(2, positions(7, w.pad_y, w.kernel_y, w.stride_y),
                                  positions(700, w.pad_x, w.kernel_x, w.stride_x));
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<3, float> data(shape, layout), pooled(small, layout, 1), grad(small, layout, 2),
          got(shape, layout, 3);
      *grad = *grad * 0.1f;  // sums that depend on the order
      const auto check = [&](const auto& e, const char* what) {
        *got = e;
        got.Expect([&](const Shape<3>& i) { return e.Eval(i[0] * shape[1] + i[1], i[2]); }, what);
      };
      check(unpool<red::sum>(*data, *pooled, *grad, w.kernel_y, w.kernel_x, w.stride_y, w.stride_x,
                             w.pad_y, w.pad_x),
            "sum");
      // The results are other numbers than the data's, so that few equal them; those do.
      *pooled = *pooled * 0.0f;
      check(unpool<red::maximum>(*data, *pooled, *grad, w.kernel_y, w.kernel_x, w.stride_y,
                                 w.stride_x, w.pad_y, w.pad_x),
            "maximum");
    }
  }
}

TEST(WindowPoolErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<4, float> a(Shape4(1, 2, 4, 5)), b(Shape4(1, 2, 2, 2)), c(Shape4(1, 1, 2, 2));
  ExpectError([&] { pool<red::sum>(*a, 5, 3, 1); }, kInvalidArgument, {"pool", "5x3", "(1,2,4,5)"});
  ExpectError([&] { pool<red::sum>(*a, 2, 2, 0); }, kInvalidArgument, {"pool", "at least 1"});
  ExpectError([&] { pool<red::sum>(*a, Shape2(-1, 2), 2, 2, 1); }, kInvalidArgument,
              {"pool", "(-1,2)"});
  ExpectError([&] { unpool<red::sum>(*a, *c, *c, 2, 2, 2); }, kInvalidArgument,
              {"unpool", "(1,1,2,2)", "(1,2,4,5)"});
  ExpectError([&] { unpool<red::sum>(*a, *b, *c, 2, 2, 2); }, kInvalidArgument,
              {"unpool", "(1,2,2,2)", "(1,1,2,2)"});
}

}  // namespace
}  // namespace tessera
