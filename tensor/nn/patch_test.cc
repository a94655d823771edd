#include "tessera/tensor/nn/patch.h"

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<expr::UnpackPatchExp<Tensor<cpu, 3, float>>>);
static_assert(std::is_trivially_copyable_v<expr::PackColExp<Tensor<cpu, 2, float>>>);

struct Case {
  Shape<3> image;
  PatchGeometry g;
};

// Kernels of one element, wider than their stride and narrower, dilated, padded on one or both axes
// by less and more than a kernel, and images as large as the window.
std::vector<Case> Cases() {
  return {
      {Shape3(1, 1, 1), {}},
      {Shape3(3, 7, 9), {}},
      {Shape3(2, 8, 8), {.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1}},
      {Shape3(2, 5, 7), {.kernel_y = 5, .kernel_x = 7}},
      {Shape3(2, 9, 6), {.kernel_y = 2, .kernel_x = 3, .stride_y = 2, .stride_x = 3}},
      {Shape3(2, 9, 8), {.kernel_y = 3, .kernel_x = 2, .stride_y = 2, .stride_x = 3, .pad_x = 1}},
      {Shape3(1, 11, 9),
       {.kernel_y = 3, .kernel_x = 2, .dilate_y = 2, .dilate_x = 3, .pad_y = 2, .pad_x = 1}},
      {Shape3(2, 7, 10),
       {.kernel_y = 2,
        .kernel_x = 3,
        .stride_y = 3,
        .stride_x = 2,
        .dilate_y = 3,
        .dilate_x = 2,
        .pad_y = 1,
        .pad_x = 4}},
      {Shape3(1, 2, 3), {.kernel_y = 2, .kernel_x = 2, .pad_y = 5, .pad_x = 6}},
      {Shape3(2, 3, 21), {.kernel_y = 5, .kernel_x = 5, .pad_y = 2, .pad_x = 2}},
      {Shape3(3, 16, 4), {.kernel_y = 3, .kernel_x = 1, .pad_y = 1}},
      {Shape3(2, 1, 5), {.kernel_y = 9, .kernel_x = 7, .pad_y = 4, .pad_x = 3}},
      {Shape3(2, 9, 8),
       {.kernel_y = 3, .kernel_x = 3, .dilate_y = 2, .dilate_x = 3, .pad_y = 2, .pad_x = 3}},
      {Shape3(1, 30, 70), {.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1}},
      {Shape3(4, 40, 43), {.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1}},
  };
}

// The number of positions of a window, by trying them.
index_t Positions(index_t extent, index_t kernel, index_t stride, index_t dilate, index_t pad) {
  index_t count = 0;
  while (count * stride + (kernel - 1) * dilate < extent + 2 * pad) ++count;
  return count;
}

// Calls visit(row, column, index in the image or -1) for every element of the unpacked matrix.
template <typename Visit>
void ForEachTap(const Case& c, const Visit& visit) {
  const PatchGeometry& g = c.g;
  const index_t out_y = Positions(c.image[1], g.kernel_y, g.stride_y, g.dilate_y, g.pad_y);
  const index_t out_x = Positions(c.image[2], g.kernel_x, g.stride_x, g.dilate_x, g.pad_x);
  for (index_t channel = 0; channel < c.image[0]; ++channel) {
    for (index_t ky = 0; ky < g.kernel_y; ++ky) {
      for (index_t kx = 0; kx < g.kernel_x; ++kx) {
        const index_t row = (channel * g.kernel_y + ky) * g.kernel_x + kx;
        for (index_t oy = 0; oy < out_y; ++oy) {
          for (index_t ox = 0; ox < out_x; ++ox) {
            const index_t iy = oy * g.stride_y + ky * g.dilate_y - g.pad_y;
            const index_t ix = ox * g.stride_x + kx * g.dilate_x - g.pad_x;
            const bool inside = 0 <= iy && iy < c.image[1] && 0 <= ix && ix < c.image[2];
            visit(row, oy * out_x + ox,
                  inside ? (channel * c.image[1] + iy) * c.image[2] + ix : -1);
          }
        }
      }
    }
  }
}

Shape<2> UnpackedShape(const Case& c) {
  const PatchGeometry& g = c.g;
  return Shape2(c.image[0] * g.kernel_y * g.kernel_x,
                Positions(c.image[1], g.kernel_y, g.stride_y, g.dilate_y, g.pad_y) *
                    Positions(c.image[2], g.kernel_x, g.stride_x, g.dilate_x, g.pad_x));
}

template <typename T>
class PatchTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t>;
TYPED_TEST_SUITE(PatchTest, ElementTypes);

TYPED_TEST(PatchTest, UnpackLaysTapsOutAsRows) {
  using T = TypeParam;
  int number = 0;
  for (const Case& c : Cases()) {
    const std::vector<T> values = RandomValues<T>(c.image.Size(), 1, 50);
    const Shape<2> shape = UnpackedShape(c);
    for (const index_t padding : {0, 3}) {
      GuardedTensor<3, T> image(c.image, values, GuardedLayout{.row_padding = padding});
      GuardedTensor<2, T> column(shape, GuardedLayout{.row_padding = padding});
      ASSERT_EQ(unpack_patch2col(*image, c.g).shape(), shape);
      *column = unpack_patch2col(*image, c.g);
      std::vector<T> expected(static_cast<size_t>(shape.Size()));
      ForEachTap(c, [&](index_t row, index_t x, index_t from) {
        expected[static_cast<size_t>(row * shape[1] + x)] =
            from < 0 ? T(0) : values[static_cast<size_t>(from)];
      });
      ExpectSameValues(column.values(), expected, "case " + std::to_string(number));
      EXPECT_TRUE(column.GuardsIntact());
      // Element by element, as inside a larger expression.
      *column = unpack_patch2col(*image, c.g) * T(1);
      ExpectSameValues(column.values(), expected, "case " + std::to_string(number));
    }
    ++number;
  }
}

TYPED_TEST(PatchTest, PackIsTheTransposeOfUnpack) {
  using T = TypeParam;
  int number = 0;
  for (const Case& c : Cases()) {
    const Shape<2> shape = UnpackedShape(c);
    // Small whole numbers, whose sums every type holds exactly.
    std::vector<T> values;
    for (const int32_t value : RandomValues<int32_t>(shape.Size(), -9, 9)) {
      values.push_back(static_cast<T>(value));
    }
    std::vector<double> sums(static_cast<size_t>(c.image.Size()));
    ForEachTap(c, [&](index_t row, index_t x, index_t to) {
      if (to < 0) return;
      sums[static_cast<size_t>(to)] +=
          static_cast<double>(values[static_cast<size_t>(row * shape[1] + x)]);
    });
    std::vector<T> expected;
    for (const double sum : sums) expected.push_back(static_cast<T>(sum));
    for (const index_t padding : {0, 3}) {
      GuardedTensor<2, T> column(shape, values, GuardedLayout{.row_padding = padding});
      GuardedTensor<3, T> image(c.image, GuardedLayout{.row_padding = padding});
      *image = pack_col2patch(*column, c.image, c.g);
      ExpectSameValues(image.values(), expected, "case " + std::to_string(number));
      EXPECT_TRUE(image.GuardsIntact());
      *image = T(0);
      *image += pack_col2patch(*column, c.image, c.g);
      ExpectSameValues(image.values(), expected, "case " + std::to_string(number));
    }
    ++number;
  }
}

TEST(PatchGeometryTest, PositionsAreThoseThatFit) {
  for (index_t extent = 0; extent < 9; ++extent) {
    for (index_t kernel = 1; kernel < 5; ++kernel) {
      for (index_t stride = 1; stride < 4; ++stride) {
        for (index_t dilate = 1; dilate < 4; ++dilate) {
          const PatchGeometry g{.kernel_y = kernel,
                                .kernel_x = kernel,
                                .stride_y = stride,
                                .stride_x = stride,
                                .dilate_y = dilate,
                                .dilate_x = dilate,
                                .pad_x = 2};
          EXPECT_EQ(g.OutputY(extent), Positions(extent, kernel, stride, dilate, 0));
          EXPECT_EQ(g.OutputX(extent), Positions(extent, kernel, stride, dilate, 2));
        }
      }
    }
  }
}

TEST(PatchErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<3, float> image(Shape3(2, 4, 4));
  GuardedTensor<2, float> column(Shape2(18, 4));
  const PatchGeometry fits{.kernel_y = 3, .kernel_x = 3};
  ExpectError([&] { unpack_patch2col(*image, {.kernel_y = 5, .kernel_x = 3}); }, kInvalidArgument,
              {"unpack_patch2col", "5x3", "(2,4,4)"});
  ExpectError([&] { pack_col2patch(*column, Shape3(2, 5, 4), fits); }, kInvalidArgument,
              {"pack_col2patch", "(18,4)", "(2,5,4)", "(18,6)"});
  for (const PatchGeometry& g :
       {PatchGeometry{.kernel_y = 0}, PatchGeometry{.stride_x = 0}, PatchGeometry{.stride_y = -1},
        PatchGeometry{.dilate_y = 0}, PatchGeometry{.pad_x = -1}}) {
    ExpectError([&] { unpack_patch2col(*image, g); }, kInvalidArgument,
                {"unpack_patch2col", "at least"});
    ExpectError([&] { pack_col2patch(*column, Shape3(2, 4, 4), g); }, kInvalidArgument,
                {"pack_col2patch", "at least"});
  }
}

}  // namespace
}  // namespace tessera
