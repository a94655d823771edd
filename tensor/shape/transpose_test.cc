#include "tessera/tensor/shape/transpose.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<decltype(swapaxis<1, 0>(Tensor<cpu, 3>()))>);
// Rows that stay whole keep their packets.
static_assert(decltype(swapaxis<1, 0>(Tensor<cpu, 3>()))::kHasPacket);
static_assert(!decltype(swapaxis<2, 0>(Tensor<cpu, 3>()))::kHasPacket);

template <typename T>
class TransposeTest : public testing::Test {};
TYPED_TEST_SUITE(TransposeTest, NodeElementTypes);

// For the loops over tiles, which depend on an element's size.
template <typename T>
class TransposeTilesTest : public testing::Test {};
TYPED_TEST_SUITE(TransposeTilesTest, SizedElementTypes);

// Checks transpose(a, axes) as a value and as a destination.
template <typename T, int N>
void ExpectTransposed(const Shape<N>& shape, const Shape<N>& axes) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape, layout);
    Shape<N> target;
    for (int i = 0; i < N; ++i) target[i] = shape[static_cast<int>(axes[i])];
    const auto expected = [&](const Shape<N>& index) {
      Shape<N> at;
      for (int i = 0; i < N; ++i) at[static_cast<int>(axes[i])] = index[i];
      return a.at(at);
    };
    ExpectElements<N>(transpose(*a, axes), target, expected, "transpose");
    Sample<N, T> b(target, layout, 1);
    transpose(*a, axes) = *b;
    ExpectElements<N>(
        transpose(*a, axes), target, [&](const Shape<N>& i) { return b.at(i); }, "assigned");
  }
}

TYPED_TEST(TransposeTest, AnyOrderOfAxes) {
  using T = TypeParam;
  ExpectTransposed<T>(Shape1(5), Shape1(0));
  ExpectTransposed<T>(Shape2(4, 9), Shape2(1, 0));
  if constexpr (!std::is_same_v<T, float>)
    return ExpectTransposed<T>(Shape3(2, 5, 9), Shape3(2, 0, 1));
  ExpectTransposed<T>(Shape2(0, 9), Shape2(1, 0));
  ExpectTransposed<T>(Shape2(1, 17), Shape2(1, 0));
  ExpectTransposed<T>(Shape2(17, 1), Shape2(0, 1));
  for (const Shape<3>& axes : {Shape3(0, 1, 2), Shape3(0, 2, 1), Shape3(1, 0, 2), Shape3(1, 2, 0),
                               Shape3(2, 0, 1), Shape3(2, 1, 0)}) {
    ExpectTransposed<T>(Shape3(3, 4, 9), axes);
    ExpectTransposed<T>(Shape3(1, 4, 1), axes);
  }
  ExpectTransposed<T>(Shape4(2, 3, 4, 5), Shape4(3, 1, 0, 2));
  ExpectTransposed<T>(Shape5(2, 1, 3, 2, 5), Shape5(1, 4, 0, 3, 2));
}

// Results of several tiles, whose rows lie apart by any number of elements or by 1 KiB of floats,
// that several threads may share.
TYPED_TEST(TransposeTilesTest, LargerThanTiles) {
  using T = TypeParam;
  for (const Shape<2>& shape : {Shape2(37, 150), Shape2(256, 70), Shape2(3, 301), Shape2(301, 3)}) {
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<2, T> a(shape, layout);
      const auto expected = [&](const Shape<2>& i) { return a.at(Shape2(i[1], i[0])); };
      ExpectElements<2>((*a).T(), Shape2(shape[1], shape[0]), expected, ".T()");
    }
  }
  if constexpr (!std::is_same_v<T, float>) {
    ExpectTransposed<T>(Shape3(2, 19, 70), Shape3(0, 2, 1));
  } else {
    for (const Shape<4>& axes :
         {Shape4(0, 1, 3, 2), Shape4(0, 2, 3, 1), Shape4(0, 3, 1, 2), Shape4(3, 2, 1, 0)}) {
      ExpectTransposed<T>(Shape4(2, 3, 19, 70), axes);
      ExpectTransposed<T>(Shape4(2, 66, 17, 18), axes);
    }
    ExpectTransposed<T>(Shape2(300, 401), Shape2(1, 0));
    ExpectTransposed<T>(Shape4(2, 257, 10, 20), Shape4(0, 3, 1, 2));
  }
}

TEST(TransposeInExpressionsTest, WithWhateverStandsBesideThem) {
  const Shape<2> shape = Shape2(41, 133);
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, float> a(shape, layout), b(Shape2(133, 41), layout, 1), r(shape, layout, 2);
    Sample<2, double> wide(shape, layout, 3);
    const auto at_b = [&](const Shape<2>& i) { return b.at(Shape2(i[1], i[0])); };
    *r = (*a + (*b).T()) * *a - swapaxis<1, 0>(*b * 2.0f);
    r.Expect([&](const Shape<2>& i) { return (a.at(i) + at_b(i)) * a.at(i) - 2 * at_b(i); },
             "several");
    *r = *a * 1.0f;
    *r -= (*b).T() * 3.0f;
    r.Expect([&](const Shape<2>& i) { return a.at(i) - 3 * at_b(i); }, "subtracted");
    *r = *a * 1.0f;
    *r *= (*b).T();
    r.Expect([&](const Shape<2>& i) { return a.at(i) * at_b(i); }, "multiplied");
    *r = tcast<float>(*wide * tcast<double>((*b).T()));
    r.Expect([&](const Shape<2>& i) { return wide.at(i) * at_b(i); }, "converted");
    *r = expr::F<op::exp>((*b).T());
    r.Expect([&](const Shape<2>& i) { return std::exp(at_b(i)); }, "inside a function", 1e-6);
    *r = expr::F<op::exp>(*b).T() + *a;
    r.Expect([&](const Shape<2>& i) { return std::exp(at_b(i)) + a.at(i); }, "of a function", 1e-5);
  }
}

TEST(TransposeInExpressionsTest, OfTheDestination) {
  Sample<2, float> a(Shape2(70, 70)), b(Shape2(70, 70), {}, 1);
  *a = *b + (*a).T() + *a;
  a.Expect([&](const Shape<2>& i) { return a.at(i) + a.at(Shape2(i[1], i[0])) + b.at(i); }, "");
}

template <int kA, int kB, typename T, int N>
void ExpectSwapped(const Shape<N>& shape) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape, layout);
    Shape<N> target = shape;
    std::swap(target[kA], target[kB]);
    const auto expected = [&](Shape<N> index) {
      std::swap(index[kA], index[kB]);
      return a.at(index);
    };
    ExpectElements<N>(swapaxis<kA, kB>(*a), target, expected, "swapaxis<>");
    ExpectElements<N>(swapaxis(*a, kB, kA), target, expected, "swapaxis()");
  }
}

TYPED_TEST(TransposeTest, TwoAxesExchanged) {
  using T = TypeParam;
  ExpectSwapped<1, 0, T>(Shape4(3, 2, 4, 9));
  if constexpr (std::is_same_v<T, float>) {
    ExpectSwapped<1, 0, T>(Shape2(3, 17));
    ExpectSwapped<2, 1, T>(Shape4(3, 2, 4, 9));
    ExpectSwapped<3, 1, T>(Shape4(3, 2, 4, 9));
    ExpectSwapped<0, 2, T>(Shape3(3, 2, 1));
  }
}

TEST(TransposeIndicesTest, FollowEveryElement) {
  const Shape<3> shape = Shape3(2, 3, 4);
  const Shape<3> axes = Shape3(2, 0, 1);
  Sample<3, int32_t> a(shape);
  Sample<3, int32_t> transposed(Shape3(4, 2, 3));
  *transposed = transpose(*a, axes);
  GuardedTensor<1, int32_t> indices(Shape1(24)), moved(Shape1(24));
  for (int i = 0; i < 24; ++i) (*indices)[i] = 23 - i;
  *moved = transpose_indices(*indices, shape, axes);
  for (int i = 0; i < 24; ++i) {
    EXPECT_EQ(transposed->dptr_[(*moved)[i]], a->dptr_[(*indices)[i]]) << i;
  }
}

TEST(TransposeErrorTest, AxesMustBeAPermutation) {
  GuardedTensor<3, float> a(Shape3(2, 3, 4));
  ExpectError([&] { transpose(*a, Shape3(0, 1, 1)); }, kInvalidArgument,
              {"transpose", "(0,1,1)", "(2,3,4)"});
  ExpectError([&] { transpose(*a, Shape3(0, 1, 3)); }, kInvalidArgument, {"transpose", "(0,1,3)"});
  ExpectError([&] { swapaxis(*a, 0, 3); }, kInvalidArgument, {"swapaxis", "3"});
  ExpectError([&] { transpose_indices(*a, Shape2(2, 3), Shape2(0, 0)); }, kInvalidArgument,
              {"transpose", "(0,0)"});
}

using expr::AsNode;
using expr::MayReadAcross;
using expr::RowsAcross;
using expr::RowsAcrossOf;

TEST(RowsAcrossTest, TransposesThatMoveTheLastAxisNameItsRows) {
  const Tensor<cpu, 2> a(nullptr, Shape2(4, 9));
  const Tensor<cpu, 3> b(nullptr, Shape3(3, 4, 9));
  const Tensor<cpu, 4> c(nullptr, Shape4(2, 3, 4, 9));
  EXPECT_EQ(RowsAcrossOf(AsNode(a.T())), (RowsAcross{9, 1}));
  EXPECT_EQ(RowsAcrossOf(transpose(a, Shape2(1, 0))), (RowsAcross{9, 1}));
  EXPECT_EQ((RowsAcrossOf(swapaxis<2, 1>(b))), (RowsAcross{9, 1}));
  EXPECT_EQ((RowsAcrossOf(swapaxis<2, 0>(b))), (RowsAcross{9, 4}));
  EXPECT_EQ(RowsAcrossOf(transpose(c, Shape4(0, 3, 1, 2))), (RowsAcross{9, 3}));
  EXPECT_EQ(RowsAcrossOf(transpose(c, Shape4(3, 2, 1, 0))), (RowsAcross{9, 12}));
  // Known to keep the last axis only when it runs.
  EXPECT_TRUE(MayReadAcross<decltype(transpose(b, Shape3(1, 0, 2)))>());
  EXPECT_EQ(RowsAcrossOf(transpose(b, Shape3(1, 0, 2))).extent, 0);
  EXPECT_FALSE(MayReadAcross<decltype(swapaxis<0, 1>(b))>());
  EXPECT_FALSE((MayReadAcross<Tensor<cpu, 2>>()));
}

// The destination's rows are the expression's, so that every element of a row is read at the same
// place of its column in each of the rows: that step's worth of memory is one element.
TEST(RowsAcrossTest, TheirElementsOfAColumnLieSideBySide) {
  Sample<4, float> c(Shape4(2, 3, 4, 9), GuardedLayout{.row_padding = 3});
  for (const Shape<4>& axes : {Shape4(0, 3, 1, 2), Shape4(3, 2, 1, 0), Shape4(1, 3, 0, 2),
                               Shape4(2, 0, 3, 1), Shape4(0, 1, 3, 2)}) {
    const auto e = transpose(*c, axes);
    const RowsAcross across = RowsAcrossOf(e);
    ASSERT_EQ(across.extent, 9);
    const index_t rows = e.shape().FlatTo2D()[0], columns = e.shape()[3];
    for (index_t y = 0; y + across.step < rows; ++y) {
      if (y / across.step % across.extent == across.extent - 1) continue;
      for (index_t x = 0; x < columns; ++x) {
        const auto from = e.map(y), next = e.map(y + across.step);
        ASSERT_EQ(next.y + x * next.step_y, from.y + x * from.step_y) << axes << y;
        ASSERT_EQ(next.x0 + x * next.step_x, from.x0 + x * from.step_x + 1) << axes << y;
      }
    }
  }
}

TEST(RowsAcrossTest, OperandsMustAgree) {
  const Tensor<cpu, 2> a(nullptr, Shape2(5, 5)), b(nullptr, Shape2(5, 5));
  const Tensor<cpu, 3> c(nullptr, Shape3(4, 4, 4));
  const RowsAcross none;
  EXPECT_EQ(RowsAcrossOf(a.T() * 2.0f + b.T()), (RowsAcross{5, 1}));
  EXPECT_EQ(RowsAcrossOf(a.T() + b), none);
  EXPECT_EQ(RowsAcrossOf(b - a.T()), none);
  EXPECT_EQ(RowsAcrossOf(transpose(c, Shape3(2, 1, 0)) + transpose(c, Shape3(0, 2, 1))), none);
  // Of what moves elements itself no memory is known.
  const auto twice = AsNode(AsNode(a.T()).T() + swapaxis<0, 1>(b).T());
  EXPECT_FALSE(MayReadAcross<std::remove_const_t<decltype(twice)>>());
}

}  // namespace
}  // namespace tessera
