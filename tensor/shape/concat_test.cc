#include "tessera/tensor/shape/concat.h"

#include <type_traits>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

using Matrix = Tensor<cpu, 2, float>;
static_assert(std::is_trivially_copyable_v<decltype(concat<1>(Matrix(), Matrix()))>);
static_assert(decltype(concat<0>(Matrix(), Matrix()))::kHasPacket);
static_assert(!std::is_assignable_v<decltype(concat<1>(Matrix(), Matrix() + 1)), float>);

template <typename T>
class ConcatTest : public testing::Test {};
TYPED_TEST_SUITE(ConcatTest, NodeElementTypes);

template <int kAxis, typename T, int N>
void ExpectConcat(const Shape<N>& shape_a, index_t extent_b) {
  Shape<N> shape_b = shape_a;
  shape_b[kAxis] = extent_b;
  Shape<N> target = shape_a;
  target[kAxis] += extent_b;
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape_a, layout), b(shape_b, {}, 1), c(target, layout, 2);
    const auto behind = [&](Shape<N> index) {
      index[kAxis] -= shape_a[kAxis];
      return index;
    };
    ExpectElements<N>(
        concat<kAxis>(*a, *b), target,
        [&](const Shape<N>& i) { return i[kAxis] < shape_a[kAxis] ? a.at(i) : b.at(behind(i)); },
        "concat");
    // As a destination.
    const auto offset = [&](Shape<N> index) {
      index[kAxis] += shape_a[kAxis];
      return index;
    };
    concat<kAxis>(*a, *b) = *c;
    a.Expect([&](const Shape<N>& i) { return c.at(i); }, "first part");
    b.Expect([&](const Shape<N>& i) { return c.at(offset(i)); }, "second part");
    concat<kAxis>(*a, *b) += *c;
    a.Expect([&](const Shape<N>& i) { return 2 * c.at(i); }, "first part");
    b.Expect([&](const Shape<N>& i) { return 2 * c.at(offset(i)); }, "second part");
  }
}

TYPED_TEST(ConcatTest, OfEachAxisOnBothSides) {
  using T = TypeParam;
  ExpectConcat<1, T>(Shape2(3, 5), 17);
  if constexpr (std::is_same_v<T, float>) {
    ExpectConcat<0, T>(Shape1(9), 8);
    ExpectConcat<0, T>(Shape2(3, 9), 2);
    ExpectConcat<1, T>(Shape2(3, 0), 4);
    ExpectConcat<1, T>(Shape2(3, 4), 0);
    ExpectConcat<1, T>(Shape3(2, 3, 9), 2);
    ExpectConcat<2, T>(Shape3(2, 3, 9), 2);
    ExpectConcat<3, T>(Shape5(1, 2, 1, 3, 5), 2);
  }
}

TEST(ConcatNestingTest, ThreePartsOnEitherSide) {
  Sample<2, float> a(Shape2(3, 2)), b(Shape2(3, 9), {}, 1), c(Shape2(3, 1), {}, 2);
  Sample<2, float> all(Shape2(3, 12), {}, 3);
  ExpectElements<2>(
      concat<1>(concat<1>(*a, *b * 2.0f), *c), Shape2(3, 12),
      [&](const Shape<2>& i) {
        if (i[1] < 2) return a.at(i);
        if (i[1] < 11) return 2 * b.at(Shape2(i[0], i[1] - 2));
        return c.at(Shape2(i[0], 0));
      },
      "three parts");
  concat<1>(*a, concat<1>(*b, *c)) = *all;
  a.Expect([&](const Shape<2>& i) { return all.at(i); }, "a");
  b.Expect([&](const Shape<2>& i) { return all.at(Shape2(i[0], i[1] + 2)); }, "b");
  c.Expect([&](const Shape<2>& i) { return all.at(Shape2(i[0], 11)); }, "c");
  slice<1>(concat<1>(*a, *b), 1, 4) = 50.0f;
  a.Expect([&](const Shape<2>& i) { return i[1] == 1 ? 50 : all.at(i); }, "a");
  b.Expect([&](const Shape<2>& i) { return i[1] < 2 ? 50 : all.at(Shape2(i[0], i[1] + 2)); }, "b");
}

TEST(ConcatOverlapTest, ReadsTheOldElements) {
  Sample<2, float> a(Shape2(3, 5)), b(Shape2(3, 5), {}, 1);
  concat<1>(*a, *b) = concat<1>(*b, *a);
  a.Expect([&](const Shape<2>& i) { return b.at(i); }, "a");
  b.Expect([&](const Shape<2>& i) { return a.at(i); }, "b");
}

TEST(ConcatErrorTest, TheOtherDimensionsMustBeEqual) {
  GuardedTensor<2, float> a(Shape2(3, 5)), b(Shape2(4, 5)), c(Shape2(7, 4));
  ExpectError([&] { concat<1>(*a, *b); }, Error::kInvalidArgument, {"concat<1>", "(3,5)", "(4,5)"});
  ExpectError([&] { concat<0>(*a, *b) = *c; }, Error::kInvalidArgument,
              {"assignment", "(7,4)", "(7,5)"});
}

}  // namespace
}  // namespace tessera
