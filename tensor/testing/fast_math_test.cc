// Built with -ffast-math, as consumers' own flags may have it: the functions keep their accuracy on
// ordinary numbers.
#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"
#include "tessera/tensor/tensor.h"

namespace tessera {
namespace {

TEST(FastMathTest, ExpAndItsKinStayAccurate) {
  constexpr index_t kSize = 4000;
  Tensor<cpu, 1, float> x = NewTensor<cpu>(Shape1(kSize), 0.0f);
  Tensor<cpu, 1, float> y = NewTensor<cpu>(Shape1(kSize), 0.0f);
  for (index_t i = 0; i < kSize; ++i) x[i] = -20.0f + 0.01f * static_cast<float>(i);
  const auto expect = [&](double (*reference)(double), double tolerance) {
    for (index_t i = 0; i < kSize; ++i) {
      const double exact = reference(static_cast<double>(x[i]));
      ASSERT_NEAR(static_cast<double>(y[i]), exact, tolerance * std::abs(exact)) << x[i];
    }
  };
  constexpr double kTolerance = 1e-6;
  y = exp(x);
  expect([](double a) { return std::exp(a); }, kTolerance);
  y = sigmoid(x);
  expect([](double a) { return 1 / (1 + std::exp(-a)); }, kTolerance);
  // As user functors and conditional expressions would: not in a span but packet by packet.
  y = F<op::exp>(x) * 1.0f + 0.0f * x;
  expect([](double a) { return std::exp(a); }, kTolerance);
  FreeSpace(&x);
  FreeSpace(&y);
}

// Numbers beyond those of 16 bits, which a product that a compiler is free to rewrite may lose.
TEST(FastMathTest, LargeNumbersOverflowIn16Bits) {
  constexpr index_t kSize = 100;
  TensorContainer<cpu, 1, float> x(Shape1(kSize));
  TensorContainer<cpu, 1, half_t> y(Shape1(kSize));
  for (index_t i = 0; i < kSize; ++i) x[i] = std::ldexp(65519.0f + 1.0f * (i % 2), i / 2);
  y = tcast<half_t>(x);
  for (index_t i = 0; i < kSize; ++i) {
    EXPECT_EQ(y[i].bits(), i == 0 ? 0x7bff : 0x7c00) << x[i];
    EXPECT_EQ(half_t(x[i]).bits(), y[i].bits()) << x[i];
  }
}

// Each step of an expression of half_t rounds, whatever a compiler may put together.
TEST(FastMathTest, ArithmeticOf16BitsIsThatOfEachNumber) {
  constexpr index_t kFinite = 0x7c00, kSize = 2 * kFinite;
  TensorContainer<cpu, 1, half_t> a(Shape1(kSize)), b(Shape1(kSize)), r(Shape1(kSize));
  for (index_t i = 0; i < kSize; ++i) {
    const index_t magnitude = i % kFinite, sign = i < kFinite ? 0 : 0x8000;
    a[i] = half_t::Binary(static_cast<uint16_t>(magnitude | sign));
    b[i] = half_t::Binary(static_cast<uint16_t>((magnitude * 37 + 11) % kFinite));
  }
  r = a * b + a / b - a;
  for (index_t i = 0; i < kSize; ++i) {
    const half_t x = a[i], y = b[i];
    const half_t product = x * y, quotient = x / y;
    const half_t sum = product + quotient;
    EXPECT_EQ(r[i].bits(), (sum - x).bits()) << x << ", " << y;
  }
}

}  // namespace
}  // namespace tessera
