#include "tessera/tensor/expr/merge_dimensions.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/shape/reshape.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

using expr::DimensionsToMerge;
using expr::MergeableDimensions;
using expr::MergeDimensions;
using expr::MergesShortRows;

/// A functor of three operands.
struct Clip {
  static float Map(float a, float low, float high) { return std::min(std::max(a, low), high); }
};

using Image = Tensor<cpu, 4>;

// Where nothing is repeated rows are merged as one, if at all, and nothing here is compiled.
static_assert(!MergesShortRows<decltype(Image() + Image() * 2.0f)>);
static_assert(MergesShortRows<decltype(Image() + broadcast<1>(Tensor<cpu, 1>(), Shape<4>()))>);
static_assert(!MergesShortRows<decltype(Image() + reshape(Tensor<cpu, 1>(), Shape<4>()))>);

TEST(MergeDimensionsTest, WhichDimensionsMayBeMerged) {
  const Shape<4> shape = Shape4(2, 3, 5, 7);
  Sample<4, float> a(shape), padded(shape, GuardedLayout{.row_padding = 3});
  Sample<4, float> channel(Shape4(1, 3, 1, 1)), mask(Shape4(2, 1, 5, 7)), row(Shape4(1, 1, 1, 7));
  Sample<4, float> padded_mask(Shape4(2, 1, 5, 7), GuardedLayout{.row_padding = 1}),
      one(Shape4(1, 1, 1, 1));
  Sample<3, float> image(Shape3(2, 5, 7));
  Sample<1, float> v0(Shape1(2)), v1(Shape1(3)), v2(Shape1(5)), v3(Shape1(7)), scalar(Shape1(1));

  EXPECT_EQ(MergeableDimensions(*a), 4);
  EXPECT_EQ(MergeableDimensions(*padded), 1);
  EXPECT_EQ(MergeableDimensions(broadcast<0>(*v0, shape)), 3);
  EXPECT_EQ(MergeableDimensions(broadcast<1>(*v1, shape)), 2);
  EXPECT_EQ(MergeableDimensions(broadcast<2>(*v2, shape)), 1);
  EXPECT_EQ(MergeableDimensions(broadcast<3>(*v3, shape)), 1);
  EXPECT_EQ(MergeableDimensions(broadcast_to(*channel, shape)), 2);
  EXPECT_EQ(MergeableDimensions(broadcast_to(*mask, shape)), 2);
  EXPECT_EQ(MergeableDimensions(broadcast_to(*padded_mask, shape)), 1);
  EXPECT_EQ(MergeableDimensions(broadcast_to(*row, shape)), 1);
  EXPECT_EQ(MergeableDimensions(broadcast_to(*one, shape)), 4);
  EXPECT_EQ(MergeableDimensions(broadcast_scalar(*scalar, shape)), 4);
  EXPECT_EQ(MergeableDimensions(broadcast_with_axis(*image, -1, 3)), 3);
  EXPECT_EQ(MergeableDimensions(broadcast_with_axis(*image, 0, 3)), 2);
  EXPECT_EQ(MergeableDimensions(broadcast_with_axis(*image, 1, 3)), 1);
  EXPECT_EQ(MergeableDimensions(broadcast_with_axis(*image, 2, 3)), 1);

  const auto affine = *a * broadcast<0>(*v0, shape) + 1.0f;
  EXPECT_EQ(MergeableDimensions(affine), 3);
  EXPECT_EQ(MergeableDimensions(F<Clip>(affine, 0.0f, broadcast<1>(*v1, shape))), 2);
  EXPECT_EQ(MergeableDimensions(tcast<int32_t>(affine)), 3);
  EXPECT_EQ(MergeableDimensions(affine + *padded), 1);
  EXPECT_EQ(MergeableDimensions(Store(*padded, affine)), 1);
}

TEST(MergeDimensionsTest, OnlyShortRowsInContiguousMemory) {
  Sample<1, float> v(Shape1(3));
  const auto merged = [&v](const Shape<4>& shape) {
    return DimensionsToMerge(shape, broadcast<0>(*v, shape), 4);
  };
  EXPECT_EQ(merged(Shape4(3, 30, 7, 7)), 3);
  EXPECT_EQ(merged(Shape4(3, 3, 30, 30)), 2) << "rows are then long enough";
  EXPECT_EQ(merged(Shape4(3, 3, 3, 1000)), 1);
  EXPECT_EQ(merged(Shape4(3, 1, 1, 7)), 1) << "rows would not become longer";
  EXPECT_EQ(merged(Shape4(3, 0, 5, 7)), 1);
  EXPECT_EQ(merged(Shape4(3, 5, 7, 0)), 1);
  Sample<4, float> padded(Shape4(3, 3, 5, 7), GuardedLayout{.row_padding = 1});
  EXPECT_EQ(DimensionsToMerge(padded.shape(), broadcast<0>(*v, padded.shape()),
                              MergeableDimensions(*padded)),
            1);
}

template <typename T>
class MergedRowsTest : public testing::Test {};
TYPED_TEST_SUITE(MergedRowsTest, NodeElementTypes);

TYPED_TEST(MergedRowsTest, HaveTheSameElements) {
  using T = TypeParam;
  for (const Shape<4>& shape : {Shape4(2, 3, 5, 7), Shape4(3, 2, 4, 33), Shape4(2, 1, 1, 3),
                                Shape4(1, 5, 3, 1), Shape4(2, 2, 31, 29), Shape4(2, 3, 0, 7)}) {
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<4, T> a(shape, layout);
      Sample<4, T> mask(Shape4(shape[0], 1, shape[2], shape[3]), layout, 1);
      Sample<4, T> channel(Shape4(1, shape[1], 1, 1), layout, 2);
      Sample<3, T> images(Shape3(shape[1], shape[2], shape[3]), layout, 3);
      Sample<1, T> batch(Shape1(shape[0]), layout, 4), one(Shape1(1), layout, 5);
      const auto expect = [&](const auto& e, const std::function<double(const Shape<4>&)>& value,
                              const char* what) { ExpectElements<4>(e, shape, value, what); };
      expect(
          *a + broadcast<0>(*batch, shape),
          [&](const auto& i) { return a.at(i) + batch.at(Shape1(i[0])); }, "broadcast");
      expect(
          *a + broadcast_to(*mask, shape),
          [&](const auto& i) { return a.at(i) + mask.at(Shape4(i[0], 0, i[2], i[3])); }, "mask");
      expect(
          broadcast_to(*channel + T(1), shape) + *a,
          [&](const auto& i) { return channel.at(Shape4(0, i[1], 0, 0)) + 1 + a.at(i); },
          "channel");
      expect(
          *a + broadcast_with_axis(*images, -1, shape[0]),
          [&](const auto& i) { return a.at(i) + images.at(Shape3(i[1], i[2], i[3])); }, "new axis");
      expect(
          *a + broadcast_scalar(*one, shape),
          [&](const auto& i) { return a.at(i) + one.at(Shape1(0)); }, "scalar");
    }
  }
}

TEST(MergedRowsTest, OfEveryElementWiseNode) {
  const Shape<4> shape = Shape4(3, 4, 5, 7);
  Sample<4, float> a(shape);
  Sample<1, float> v(Shape1(4));
  const auto channel = broadcast<1>(*v, shape);
  ExpectElements<4>(
      tcast<float>(tcast<int32_t>(F<Clip>(-*a, channel, 5.0f))), shape,
      [&](const auto& i) { return std::min(std::max(-a.at(i), v.at(Shape1(i[1]))), 5.0); }, "clip");
  // A store goes where it would without merging.
  Sample<4, float> stored(shape), out(shape);
  *out = *a * Store(*stored, *a + channel);
  stored.Expect([&](const auto& i) { return a.at(i) + v.at(Shape1(i[1])); }, "stored");
  out.Expect([&](const auto& i) { return a.at(i) * (a.at(i) + v.at(Shape1(i[1]))); }, "out");
}

// Reductions go over merged rows too.
TEST(MergedRowsTest, OfReductions) {
  for (const Shape<4>& shape : {Shape4(3, 4, 5, 7), Shape4(2, 5, 1, 3), Shape4(3, 2, 40, 30)}) {
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<4, double> a(shape, layout);
      Sample<1, double> v(Shape1(shape[1]), layout, 1), w(Shape1(shape[0]), layout, 2);
      const auto centered = *a - broadcast<1>(*v, shape);
      std::vector<double> of_channel(static_cast<size_t>(shape[1]), 0);
      double total = 0;
      for (index_t n = 0; n < shape[0]; ++n) {
        for (index_t c = 0; c < shape[1]; ++c) {
          for (index_t i = 0; i < shape[2] * shape[3]; ++i) {
            const Shape<4> at = Shape4(n, c, i / shape[3], i % shape[3]);
            const double value = a.at(at) - v.at(Shape1(c));  // whole numbers: sums are exact
            of_channel[static_cast<size_t>(c)] += value * value;
            total += value * value * w.at(Shape1(n));
          }
        }
      }
      Sample<1, double> sums(Shape1(shape[1]));
      *sums = sumall_except_dim<1>(square(centered));
      sums.Expect([&](const Shape<1>& c) { return of_channel[static_cast<size_t>(c[0])]; },
                  "sumall_except_dim");
      const double number = sum(square(centered) * broadcast<0>(*w, shape));
      EXPECT_EQ(number, total) << shape;
    }
  }
}

// The destination may be an operand in its own place, and goes through a temporary in others.
TEST(MergedRowsTest, MayBeTheDestination) {
  const Shape<3> shape = Shape3(3, 5, 7);
  Sample<3, float> a(shape);
  const auto expected = [&](const Shape<3>& i) { return a.at(i) + a.at(Shape3(i[0], 0, 0)); };
  const Tensor<cpu, 3> first(a->dptr_, Shape3(3, 1, 1), 35);
  *a = *a + broadcast_to(first, shape);
  a.Expect(expected, "stretched");
  a.Restore();
  *a += broadcast_to(first, shape);
  a.Expect(expected, "added");
}

}  // namespace
}  // namespace tessera
