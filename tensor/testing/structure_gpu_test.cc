// Elements moved to other places: the GPU against the CPU.
#include <cstdint>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"
#include "tessera/tensor/testing/node_example.h"

namespace tessera {
namespace {

/// Expects make(x) to have the same elements on either device; x holds numbers of that shape, first
/// without and then with a gap after each row.
template <int N, typename Make>
void ExpectSame(const Shape<N>& shape, const Make& make) {
  for (const bool padded : {false, true}) {
    ExpectDevicesAgree(0, [&](auto* side) {
      const auto x = side->template Numbers<float>(shape, 1, -1, 1, padded);
      return ValueOf(side, make(x));
    });
  }
}

TEST(StructureGpuTest, ShapesAndAxesInAnotherOrder) {
  ExpectSame(Shape3(3, 4, 10), [](const auto& x) { return reshape(x, Shape2(8, 15)); });
  ExpectSame(Shape2(6, 20), [](const auto& x) { return reshape(x, Shape4(2, 3, 4, 5)); });
  ExpectSame(Shape2(9, 31), [](const auto& x) { return x.T(); });
  ExpectSame(Shape4(2, 3, 4, 5), [](const auto& x) { return swapaxis<0, 1>(x); });
  ExpectSame(Shape4(2, 3, 4, 5), [](const auto& x) { return swapaxis<1, 3>(x); });
  ExpectSame(Shape4(2, 3, 4, 5), [](const auto& x) { return transpose(x, Shape4(2, 0, 3, 1)); });
  ExpectDevicesAgree(0, [](auto* side) {
    const auto indices = ValueOf(side, range<int32_t>(0, 24));
    return ValueOf(side, transpose_indices(indices, Shape3(2, 3, 4), Shape3(2, 0, 1)));
  });
}

// In tiles, whole ones and parts of them; and two transposes that agree, or do not.
TEST(StructureGpuTest, LargeTransposes) {
  ExpectSame(Shape2(130, 65), [](const auto& x) { return x.T() * 2.0f + x.T(); });
  ExpectSame(Shape3(66, 3, 70), [](const auto& x) { return swapaxis<0, 2>(x); });
  ExpectSame(Shape3(9, 20, 33), [](const auto& x) { return transpose(x, Shape3(1, 2, 0)); });
  ExpectSame(Shape2(70, 70), [](const auto& x) { return x.T() - x; });
}

TEST(StructureGpuTest, Parts) {
  ExpectSame(Shape1(100), [](const auto& x) { return slice<0>(x, 3, 90); });
  ExpectSame(Shape3(4, 6, 7), [](const auto& x) { return slice<0>(x, 1, 3); });
  ExpectSame(Shape3(4, 6, 7), [](const auto& x) { return slice<1>(x, 2, 6); });
  ExpectSame(Shape3(4, 6, 7), [](const auto& x) { return slice<2>(x, 1, 6); });
  ExpectSame(Shape3(4, 6, 7), [](const auto& x) {
    return slice(x, Shape3(0, 1, 1), Shape3(4, 6, 7), Shape3(3, 2, 4));
  });
  ExpectSame(Shape4(2, 3, 6, 7), [](const auto& x) { return crop(x, Shape2(3, 4), 2, 1); });
  ExpectSame(Shape4(2, 3, 6, 7), [](const auto& x) { return crop(x, Shape2(5, 2)); });
  for (const int axis : {0, 1, 2}) {
    ExpectSame(Shape3(4, 6, 7), [&](const auto& x) { return flip(x, axis); });
  }
  ExpectSame(Shape3(4, 6, 7), [](const auto& x) { return mirror(x); });
}

TEST(StructureGpuTest, PartsTogether) {
  const Shape<3> shape = Shape3(4, 6, 7);
  ExpectSame(shape, [](const auto& x) { return concat<0>(x, slice<0>(x, 1, 3)); });
  ExpectSame(shape, [](const auto& x) { return concat<1>(slice<1>(x, 4, 6), x); });
  ExpectSame(shape, [](const auto& x) { return concat<2>(x, 2.0f * x); });
}

TEST(StructureGpuTest, Borders) {
  ExpectSame(Shape4(2, 3, 4, 5), [](const auto& x) { return pad(x, 2, 1); });
  ExpectSame(Shape2(4, 5), [](const auto& x) { return pad(x, 3); });
  ExpectSame(Shape4(2, 3, 4, 5), [](const auto& x) { return upsampling_nearest(x, 3); });
}

TEST(StructureGpuTest, NodesOfOnesOwn) {
  for (const index_t n : {1, -1, 100}) {
    ExpectSame(Shape2(6, 31), [&](const auto& x) { return user::roll(x, n); });
    ExpectSame(Shape2(6, 31), [&](const auto& x) { return x - user::roll(2.0f * x, n); });
  }
}

TEST(StructureGpuTest, Repetitions) {
  ExpectSame(Shape1(5), [](const auto& x) { return repmat(x, 9); });
  ExpectSame(Shape1(5), [](const auto& x) { return broadcast<1>(x, Shape4(2, 5, 3, 4)); });
  ExpectSame(Shape1(1), [](const auto& x) { return broadcast_scalar(x, Shape2(3, 4)); });
  for (const int axis : {-1, 0, 1}) {
    ExpectSame(Shape2(3, 9), [&](const auto& x) { return broadcast_with_axis(x, axis, 4); });
  }
  ExpectSame(Shape3(3, 1, 9), [](const auto& x) { return broadcast_keepdim(x, 1, 4); });
  ExpectSame(Shape3(3, 9, 1), [](const auto& x) { return broadcast_keepdim(x, 2, 5); });
  ExpectSame(Shape3(1, 9, 1),
             [](const auto& x) { return broadcast_multi_axes(x, Shape2(0, 2), Shape2(3, 4)); });
  ExpectSame(Shape3(1, 9, 1), [](const auto& x) { return broadcast_to(x, Shape3(3, 9, 4)); });
  ExpectSame(Shape2(3, 9), [](const auto& x) { return spread<1>(x, 4); });
  ExpectSame(Shape2(3, 9), [](const auto& x) { return spread<2>(x + 1.0f, 4); });
}

/// The same of what write(x, y) leaves in x, where both have the shape (4, 6, 7).
template <typename Write>
void ExpectSameAssigned(const Write& write) {
  ExpectDevicesAgree(0, [&](auto* side) {
    auto x = side->template Numbers<float>(Shape3(4, 6, 7), 1);
    const auto y = side->template Numbers<float>(Shape3(4, 6, 7), 2);
    write(x, y);
    return x;
  });
}

TEST(StructureGpuTest, PartsAreAssignedTo) {
  ExpectSameAssigned([](auto& x, const auto& y) { slice<1>(x, 2, 5) = slice<1>(y, 0, 3); });
  ExpectSameAssigned([](auto& x, const auto& y) {
    const Shape<3> begin = Shape3(0, 1, 1), end = Shape3(4, 6, 7), step = Shape3(3, 2, 4);
    slice(x, begin, end, step) += slice(y, begin, end, step);
  });
  ExpectSameAssigned(
      [](auto& x, const auto& y) { crop(x, Shape2(3, 4), 2, 1) *= crop(y, Shape2(3, 4)); });
  ExpectSameAssigned([](auto& x, const auto& y) { flip(x, 0) -= y; });
  // Reads what it writes, at other places.
  ExpectSameAssigned([](auto& x, const auto&) { mirror(x) = flip(x, 1); });
  ExpectSameAssigned([](auto& x, const auto&) { x = user::roll(x, 2); });
  ExpectSameAssigned(
      [](auto& x, const auto& y) { swapaxis<0, 1>(x) = transpose(y, Shape3(1, 0, 2)); });
  ExpectSameAssigned([](auto& x, const auto&) { slice<2>(x, 0, 3) = 0.5f; });
  ExpectDevicesAgree(0, [](auto* side) {
    auto a = side->template Numbers<float>(Shape2(6, 3), 1);
    auto b = side->template Numbers<float>(Shape2(6, 4), 2);
    concat<1>(a, b) += side->template Numbers<float>(Shape2(6, 7), 3);
    return ValueOf(side, concat<1>(b, a));
  });
}

TEST(StructureGpuTest, ViewsOnEitherSide) {
  ExpectDevicesAgree(0, [](auto* side) {
    auto m = side->template Numbers<float>(Shape2(8, 9), 1);
    const auto v = side->template Numbers<float>(Shape1(9), 2);
    View(m, 2, kAll) = v;
    View(m, kAll, 0) += View(m, kAll, 3);
    View(m, Range(0, 4), Range(1, 9, 2)) = 0.5f;
    View(m, 7, Range(8, -1, -1)) = 2.0f * v;
    return m;
  });
}

}  // namespace
}  // namespace tessera
