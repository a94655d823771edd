#include "tessera/tensor/transpose.h"

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "gtest/gtest.h"
#include "tessera/tensor/node_test_util.h"

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

}  // namespace
}  // namespace tessera
