// Windows over images, softmax and products: the GPU against the CPU.
#include "gtest/gtest.h"
#include "tessera/tensor/device_agreement.h"

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

TEST(SoftmaxGpuTest, RowsOfAnyWidth) {
  for (const index_t columns : {1, 10, 33, 1000}) {
    ExpectDevicesAgree(1e-6, [&](auto* side) {
      auto x = side->template Numbers<float>(Shape2(19, columns), 1, -30, 30);
      Softmax(x, x);
      return x;
    });
  }
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
