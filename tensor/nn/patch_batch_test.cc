#include "tessera/tensor/nn/patch_batch.h"

#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/shape/pad.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<decltype(unpack_patch2col(Tensor<cpu, 4>(), 1, 1))>);

struct Case {
  Shape<4> images;
  PatchGeometry g;
};
std::vector<Case> Cases() {
  return {{Shape4(1, 1, 1, 1), {}},
          {Shape4(3, 2, 5, 9), {.kernel_y = 3, .kernel_x = 2}},
          {Shape4(2, 1, 6, 8), {2, 3, 2, 3, 1, 1}},
          {Shape4(2, 3, 7, 9), {3, 2, 1, 1, 2, 3}},
          {Shape4(2, 2, 8, 9), {2, 3, 3, 2, 3, 2}},
          {Shape4(0, 2, 4, 4), {2, 2, 1, 1, 1, 1}},
          {Shape4(1, 2, 20, 21), {3, 3, 1, 1, 1, 1}}};
}
Shape<2> MatrixShape(const Case& c) {
  const auto& g = c.g;
  return Shape2(c.images[1] * g.kernel_y * g.kernel_x,
                c.images[0] * ((c.images[2] - (g.kernel_y - 1) * g.dilate_y - 1) / g.stride_y + 1) *
                    ((c.images[3] - (g.kernel_x - 1) * g.dilate_x - 1) / g.stride_x + 1));
}
// The element of the images that a matrix element was copied from.
Shape<4> Source(const Case& c, const Shape<2>& index) {
  const auto& g = c.g;
  const index_t out_x = (c.images[3] - (g.kernel_x - 1) * g.dilate_x - 1) / g.stride_x + 1;
  const index_t out_y = (c.images[2] - (g.kernel_y - 1) * g.dilate_y - 1) / g.stride_y + 1;
  const index_t kx = index[0] % g.kernel_x;
  const index_t ky = index[0] / g.kernel_x % g.kernel_y;
  const index_t ox = index[1] % out_x;
  const index_t oy = index[1] / out_x % out_y;
  return Shape4(index[1] / out_x / out_y, index[0] / g.kernel_x / g.kernel_y,
                oy * g.stride_y + ky * g.dilate_y, ox * g.stride_x + kx * g.dilate_x);
}

template <typename T>
class PatchBatchTest : public testing::Test {};
TYPED_TEST_SUITE(PatchBatchTest, NodeElementTypes);

TYPED_TEST(PatchBatchTest, UnpackLaysPatchesOutAsColumns) {
  using T = TypeParam;
  for (const Case& c : Cases()) {
    const auto& g = c.g;
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<4, T> images(c.images, layout);
      ExpectElements<2>(
          unpack_patch2col(*images, g.kernel_y, g.kernel_x, g.stride_y, g.stride_x, g.dilate_y,
                           g.dilate_x),
          MatrixShape(c), [&](const Shape<2>& i) { return images.at(Source(c, i)); }, "unpack");
    }
  }
}

TYPED_TEST(PatchBatchTest, PackIsTheTransposeOfUnpack) {
  using T = TypeParam;
  for (const Case& c : Cases()) {
    const auto& g = c.g;
    Sample<2, T> matrix(MatrixShape(c), GuardedLayout{.row_padding = 1});
    std::vector<double> sums(static_cast<size_t>(c.images.Size()));
    const auto flat = [&](const Shape<4>& i) {
      return static_cast<size_t>(((i[0] * c.images[1] + i[1]) * c.images[2] + i[2]) * c.images[3] +
                                 i[3]);
    };
    ForEachIndex(MatrixShape(c),
                 [&](const Shape<2>& i) { sums[flat(Source(c, i))] += matrix.at(i); });
    const auto packed = pack_col2patch(*matrix, c.images, g.kernel_y, g.kernel_x, g.stride_y,
                                       g.stride_x, g.dilate_y, g.dilate_x);
    ExpectElements<4>(
        packed, c.images, [&](const Shape<4>& i) { return sums[flat(i)]; }, "pack");
    // A part of each row, as a crop takes it.
    const index_t width = c.images[3];
    ExpectElements<4>(
        slice<3>(packed, width / 3, width),
        Shape4(c.images[0], c.images[1], c.images[2], width - width / 3),
        [&](const Shape<4>& i) { return sums[flat(Shape4(i[0], i[1], i[2], i[3] + width / 3))]; },
        "part of pack");
  }
}

TEST(PatchBatchFormsTest, ShorterFormsMeanTheSame) {
  Sample<3, float> image(Shape3(2, 9, 9));
  Sample<2, float> matrix(Shape2(18, 16));
  const auto expect = [](const auto& a, const auto& b) {
    using E = std::decay_t<decltype(a)>;
    ASSERT_EQ(a.shape(), b.shape());
    Sample<E::kRank, float> x(a.shape()), y(a.shape());
    *x = a;
    *y = b;
    const auto values = [](auto& t) {
      return std::vector<float>(t->dptr_, t->dptr_ + t->shape_.Size());
    };
    ExpectSameValues(values(x), values(y));
  };
  expect(unpack_patch2col(*image, 3, 2), unpack_patch2col(*image, 3, 3, 2, 2, 1, 1));
  expect(unpack_patch2col(*image, 3, 3, 2), unpack_patch2col(*image, 3, 3, 2, 2, 1, 1));
  expect(unpack_patch2col(*image, 3, 3, 1, 2), unpack_patch2col(*image, 3, 3, 1, 1, 2, 2));
  expect(unpack_patch2col(*image, 3, 3, 2),
         unpack_patch2col(*image, {.kernel_y = 3, .kernel_x = 3, .stride_y = 2, .stride_x = 2}));
  const Shape<3> shape = image.shape();
  expect(pack_col2patch(*matrix, shape, 3, 2), pack_col2patch(*matrix, shape, 3, 3, 2, 2, 1, 1));
  expect(pack_col2patch(*matrix, shape, 3, 3, 2), pack_col2patch(*matrix, shape, 3, 3, 2, 2, 1, 1));
  Sample<2, float> dilated(Shape2(18, 25));
  expect(pack_col2patch(*dilated, shape, 3, 3, 1, 2),
         pack_col2patch(*dilated, shape, 3, 3, 1, 1, 2, 2));
}

// As a padded convolution uses the two: over expressions, and cropped again.
TEST(PatchBatchFormsTest, PaddedImages) {
  Sample<4, float> images(Shape4(2, 3, 5, 6));
  const Case padded{Shape4(2, 3, 7, 8), {3, 3, 1, 1, 1, 1}};
  const auto inside = [](const Shape<4>& i) {
    return 1 <= i[2] && i[2] <= 5 && 1 <= i[3] && i[3] <= 6;
  };
  ExpectElements<2>(
      unpack_patch2col(pad(*images, 1), 3, 3, 1), MatrixShape(padded),
      [&](const Shape<2>& index) {
        const Shape<4> i = Source(padded, index);
        return inside(i) ? images.at(Shape4(i[0], i[1], i[2] - 1, i[3] - 1)) : 0.0;
      },
      "padded");
  Sample<2, float> matrix(MatrixShape(padded));
  Sample<4, float> out(Shape4(2, 3, 5, 6));
  *out = crop(pack_col2patch(*matrix, padded.images, 3, 3, 1), (*out)[0][0].shape_);
  double sum = 0;
  ForEachIndex(MatrixShape(padded), [&](const Shape<2>& i) {
    if (Source(padded, i) == Shape4(1, 2, 3, 4)) sum += matrix.at(i);
  });
  EXPECT_EQ((*out)[1][2][2][3], sum);
}

TEST(PatchBatchErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<4, float> images(Shape4(2, 3, 4, 5));
  GuardedTensor<2, float> matrix(Shape2(12, 24));
  ExpectError([&] { unpack_patch2col(*images, 5, 2, 1); }, kInvalidArgument,
              {"unpack_patch2col", "5x2", "(2,3,4,5)"});
  ExpectError([&] { unpack_patch2col(*images, 2, 2, 0); }, kInvalidArgument,
              {"unpack_patch2col", "at least"});
  ExpectError([&] { pack_col2patch(*matrix, Shape4(2, 3, 4, 6), 2, 2, 1); }, kInvalidArgument,
              {"pack_col2patch", "(12,24)", "(2,3,4,6)", "(12,30)"});
}

}  // namespace
}  // namespace tessera
