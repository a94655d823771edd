// Softmax and its gradients: the GPU against the CPU.
#include <cstdint>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"

namespace tessera {
namespace {

template <typename T>
class SoftmaxTypesGpuTest : public testing::Test {
 protected:
  // Of the type's own rounding.
  static constexpr double kTolerance = sizeof(T) == 8 ? 1e-14 : sizeof(T) == 4 ? 1e-6 : 1e-2;
};
using SoftmaxTypes = testing::Types<float, half_t>;
TYPED_TEST_SUITE(SoftmaxTypesGpuTest, SoftmaxTypes);

TYPED_TEST(SoftmaxTypesGpuTest, VectorsMatricesAndImages) {
  using T = TypeParam;
  const double tolerance = this->kTolerance;
  const auto check = [&](const auto& shape) {
    ExpectDevicesAgree(tolerance, [&](auto* side) {
      const auto x = side->template Numbers<T>(shape, 1, -30, 30);
      auto out = side->template Empty<T>(shape);
      Softmax(out, x);
      return out;
    });
  };
  check(Shape1(100));
  check(Shape2(23, 10));
  check(Shape2(19, 1000));  // several classes for each thread of a block
  check(Shape3(5, 10, 33));
}

constexpr int kIgnored = 3;  // a label

TYPED_TEST(SoftmaxTypesGpuTest, GradientsFromLabels) {
  using T = TypeParam;
  const double tolerance = this->kTolerance;
  const auto check = [&](const auto& shape, const auto& label_shape, const auto& gradient) {
    ExpectDevicesAgree(tolerance, [&](auto* side) {
      const auto probability = side->template Numbers<T>(shape, 1, 0, 1);
      const auto label = side->template Numbers<int32_t>(label_shape, 2, -3, 12);
      auto out = side->template Empty<T>(shape);
      gradient(out, probability, label);
      return out;
    });
  };
  const auto check_shapes = [&](const auto& gradient) {
    check(Shape2(23, 10), Shape1(23), gradient);
    check(Shape3(5, 10, 33), Shape2(5, 33), gradient);
  };
  check_shapes([](auto& out, const auto& p, const auto& label) { SoftmaxGrad(out, p, label); });
  check_shapes(
      [](auto& out, const auto& p, const auto& label) { SoftmaxGrad(out, p, label, kIgnored); });
  check_shapes(
      [](auto& out, const auto& p, const auto& label) { SmoothSoftmaxGrad(out, p, label, 0.1); });
  check_shapes([](auto& out, const auto& p, const auto& label) {
    SmoothSoftmaxGrad(out, p, label, kIgnored, 0.1);
  });
}

}  // namespace
}  // namespace tessera
