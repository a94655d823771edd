// Windows over images and channels, and products: the GPU against the CPU.
#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"

namespace tessera {
namespace {

TEST(WindowGpuTest, PatchesAndBack) {
  for (const PatchGeometry& g :
       {PatchGeometry{}, PatchGeometry{.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1},
        PatchGeometry{.kernel_y = 2, .kernel_x = 3, .stride_y = 2, .stride_x = 1, .dilate_x = 2}}) {
    ExpectDevicesAgree(0, [&](auto* side) {
      auto image = side->template Numbers<float>(Shape3(3, 9, 8), 1);
      const auto patches = unpack_patch2col(image, g);
      auto columns = side->template Empty<float>(patches.shape());
      columns = patches;
      return columns;
    });
    ExpectDevicesAgree(1e-6, [&](auto* side) {
      auto image = side->template Numbers<float>(Shape3(3, 9, 8), 1);
      const Shape<2> shape = unpack_patch2col(image, g).shape();
      auto columns = side->template Numbers<float>(shape, 2);
      image = pack_col2patch(columns, image.shape_, g);
      return image;
    });
  }
}

TEST(WindowGpuTest, PoolingAndItsGradient) {
  const PoolGeometry g{.kernel_y = 3, .kernel_x = 2, .stride_y = 2, .stride_x = 2};
  constexpr index_t kOutY = 4, kOutX = 4;
  const Shape<4> pooled_shape = Shape4(2, 3, kOutY, kOutX);
  ExpectDevicesAgree(1e-6, [&](auto* side) {
    auto image = side->template Numbers<float>(Shape4(2, 3, 9, 8), 1);
    auto pooled = side->template Empty<float>(pooled_shape);
    pooled = pool<PoolKind::kMax>(image, kOutY, kOutX, g);
    auto grad = side->template Numbers<float>(pooled_shape, 2);
    auto result = side->template Empty<float>(image.shape_);
    result = unpool<PoolKind::kMax>(image, pooled, grad, g);
    return result;
  });
  ExpectDevicesAgree(1e-6, [&](auto* side) {
    auto image = side->template Numbers<float>(Shape4(2, 3, 9, 8), 1);
    auto pooled = side->template Empty<float>(pooled_shape);
    pooled = pool<PoolKind::kAverage>(image, kOutY, kOutX, g);
    return pooled;
  });
}

TEST(WindowGpuTest, ReducersOverImagesOfAnyExpression) {
  ExpectDevicesAgree(1e-6, [](auto* side) {
    const auto x = side->template Numbers<float>(Shape4(2, 3, 7, 8), 1);
    const auto pooled = ValueOf(side, pool<red::maximum>(x, 3, 2, 2, 2));
    const auto grad = side->template Numbers<float>(pooled.shape_, 2);
    return ValueOf(side, unpool<red::maximum>(x, pooled, grad, 3, 2, 2, 2));
  });
  ExpectDevicesAgree(1e-6, [](auto* side) {
    const auto x = side->template Numbers<float>(Shape4(2, 3, 7, 8), 1);
    const auto columns = ValueOf(side, unpack_patch2col(pad(x, 1), 3, 2, 2, 1, 1, 2));
    return ValueOf(side, pack_col2patch(columns, Shape4(2, 3, 9, 10), 3, 2, 2, 1, 1, 2));
  });
}

TEST(WindowGpuTest, NeighbouringChannels) {
  ExpectDevicesAgree(1e-6, [](auto* side) {
    const auto x = side->template Numbers<float>(Shape4(2, 5, 3, 7), 1);
    const auto sums = ValueOf(side, chpool<red::sum>(x, 3));
    return ValueOf(side, ch_unpool<red::sum>(x, sums, sums, 3));
  });
}

template <typename T>
class DotGpuTest : public testing::Test {};
using Types = testing::Types<float, double, half_t, bfloat16_t>;
TYPED_TEST_SUITE(DotGpuTest, Types);

TYPED_TEST(DotGpuTest, EveryTranspositionAccumulated) {
  using T = TypeParam;
  constexpr index_t kM = 33, kN = 20, kK = 50;
  const double tolerance = sizeof(T) == 8 ? 1e-13 : sizeof(T) == 4 ? 1e-5 : 5e-2;
  const auto check = [&](bool left, bool right) {
    ExpectDevicesAgree(tolerance, [&](auto* side) {
      auto a = side->template Numbers<T>(left ? Shape2(kK, kM) : Shape2(kM, kK), 1);
      auto b = side->template Numbers<T>(right ? Shape2(kN, kK) : Shape2(kK, kN), 2);
      auto c = side->template Numbers<T>(Shape2(kM, kN), 3);
      if (left && right) {
        c += T(0.5) * dot(a.T(), b.T());
      } else if (left) {
        c -= dot(a.T(), b);
      } else if (right) {
        c = dot(a, b.T());
      } else {
        c = T(2) * dot(a, b);
      }
      return c;
    });
  };
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) check(left, right);
  }
}

}  // namespace
}  // namespace tessera
