#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/tshape.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<decltype(broadcast_with_axis(Tensor<cpu, 2>(), 0, 1))>);
static_assert(decltype(broadcast_with_axis(Tensor<cpu, 2>(), 0, 1))::kHasPacket);
// What repeats elements has no memory of its own.
static_assert(!std::is_assignable_v<decltype(broadcast_keepdim(Tensor<cpu, 2>(), 0, 1)), float>);

template <typename T>
class StretchTest : public testing::Test {};
TYPED_TEST_SUITE(StretchTest, NodeElementTypes);

TYPED_TEST(StretchTest, ScalarsEverywhere) {
  using T = TypeParam;
  Sample<1, T> a(Shape1(1));
  const auto expected = [&](const auto&) { return a.at(Shape1(0)); };
  ExpectElements<1>(broadcast_scalar(*a, Shape1(9)), Shape1(9), expected, "rank 1");
  ExpectElements<3>(broadcast_scalar(*a, Shape3(2, 3, 9)), Shape3(2, 3, 9), expected, "rank 3");
  ExpectElements<2>(broadcast_scalar(*a * T(1), Shape2(0, 3)), Shape2(0, 3), expected, "empty");
}

template <typename T, int N>
void ExpectInserted(const Shape<N>& shape, index_t size) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape, layout);
    for (int axis = -1; axis < N; ++axis) {
      Shape<N + 1> target;
      for (int i = 0; i <= N; ++i) {
        target[i] = i <= axis ? shape[i] : i == axis + 1 ? size : shape[i == 0 ? 0 : i - 1];
      }
      ExpectElements<N + 1>(
          broadcast_with_axis(*a, axis, size), target,
          [&](const Shape<N + 1>& index) {
            Shape<N> at;
            for (int i = 0; i < N; ++i) at[i] = index[i <= axis ? i : i + 1];
            return a.at(at);
          },
          "axis behind " + std::to_string(axis));
    }
  }
}

TYPED_TEST(StretchTest, NewAxesBehindEachAxis) {
  using T = TypeParam;
  ExpectInserted<T>(Shape2(3, 9), 4);
  if constexpr (std::is_same_v<T, float>) {
    ExpectInserted<T>(Shape1(17), 9);
    ExpectInserted<T>(Shape1(1), 1);
    ExpectInserted<T>(Shape3(2, 3, 9), 4);
    ExpectInserted<T>(Shape2(3, 9), 0);
    ExpectInserted<T>(Shape2(0, 9), 2);
  }
}

// Checks each way to stretch `shape`, whose extents are 1 or those of `target`.
template <typename T, int N>
void ExpectStretched(const Shape<N>& shape, const Shape<N>& target) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape, layout);
    const auto expected = [&](Shape<N> index) {
      for (int i = 0; i < N; ++i) index[i] = shape[i] == 1 ? 0 : index[i];
      return a.at(index);
    };
    ExpectElements<N>(broadcast_to(*a, target), target, expected, "broadcast_to");
    std::vector<index_t> axis_list, size_list;
    for (int i = 0; i < N; ++i) {
      if (shape[i] == target[i]) continue;
      axis_list.push_back(i);
      size_list.push_back(target[i]);
    }
    const TShape axes{std::span<const index_t>(axis_list)};
    const TShape sizes{std::span<const index_t>(size_list)};
    ExpectElements<N>(broadcast_multi_axes(*a, axes, sizes), target, expected, "multi_axes");
    if (axis_list.size() == 1) {
      ExpectElements<N>(broadcast_keepdim(*a, static_cast<int>(axis_list[0]), size_list[0]), target,
                        expected, "keepdim");
    }
  }
}

// An axis of extent 1 runs along its operand or repeats it, whichever its neighbours do.
TEST(StretchExtentTest, AxesOfExtentOneBesideOthers) {
  for (index_t a = 1; a <= 2; ++a) {
    for (index_t b = 1; b <= 3; b += 2) {
      for (index_t c = 1; c <= 5; c += 4) {
        for (index_t size = 1; size <= 4; size += 3) ExpectInserted<float>(Shape3(a, b, c), size);
        for (int repeated = 0; repeated < 8; ++repeated) {
          Shape<3> source = Shape3(a, b, c);
          for (int i = 0; i < 3; ++i) source[i] = (repeated >> i & 1) != 0 ? 1 : source[i];
          ExpectStretched<float>(source, Shape3(a, b, c));
        }
      }
    }
  }
}

TYPED_TEST(StretchTest, ExtentsOfOneAreRepeated) {
  using T = TypeParam;
  ExpectStretched<T>(Shape3(3, 1, 9), Shape3(3, 4, 9));
  if constexpr (std::is_same_v<T, float>) {
    ExpectStretched<T>(Shape1(1), Shape1(9));
    ExpectStretched<T>(Shape2(3, 1), Shape2(3, 17));
    ExpectStretched<T>(Shape2(1, 17), Shape2(3, 17));
    ExpectStretched<T>(Shape3(1, 4, 1), Shape3(3, 4, 9));
    ExpectStretched<T>(Shape4(1, 3, 1, 5), Shape4(2, 3, 4, 5));
    ExpectStretched<T>(Shape4(2, 3, 1, 1), Shape4(2, 3, 4, 5));
    ExpectStretched<T>(Shape2(1, 3), Shape2(0, 3));
  }
}

TEST(StretchErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<2, float> a(Shape2(1, 5));
  GuardedTensor<1, float> v(Shape1(3));
  ExpectError([&] { broadcast_scalar(*v, Shape2(3, 4)); }, kInvalidArgument,
              {"broadcast_scalar", "(3,)"});
  ExpectError([&] { broadcast_with_axis(*a, 2, 4); }, kInvalidArgument,
              {"broadcast_with_axis", "(1,5)", "2"});
  ExpectError([&] { broadcast_keepdim(*a, 1, 4); }, kInvalidArgument,
              {"broadcast_keepdim", "(1,5)", "1"});
  ExpectError([&] { broadcast_to(*a, Shape2(2, 6)); }, kInvalidArgument,
              {"broadcast_to", "(1,5)", "(2,6)"});
  ExpectError([&] { broadcast_multi_axes(*a, Shape1(0), Shape2(1, 2)); }, kInvalidArgument,
              {"broadcast_multi_axes", "1 axes", "2 sizes"});
  ExpectError([&] { broadcast_multi_axes(*a, Shape1(1), Shape1(2)); }, kInvalidArgument,
              {"broadcast_multi_axes", "(1,5)"});
}

}  // namespace
}  // namespace tessera
