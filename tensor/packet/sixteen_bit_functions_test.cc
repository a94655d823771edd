// Every function of half, and some of each kind of bfloat16, at each of their 65,536 values: the
// result is that of float, whose accuracy elementwise_accuracy_test holds against a reference,
// rounded once.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr index_t kValues = 1 << 16;

template <typename T>
class SixteenBitFunctionsTest : public testing::Test {
 protected:
  SixteenBitFunctionsTest() {
    for (index_t i = 0; i < kValues; ++i) {
      T value = std::bit_cast<T>(static_cast<uint16_t>(i));
      // Quiet: C libraries and kernels differ about powers of signalling NaN.
      if (std::isnan(static_cast<float>(value))) value = std::numeric_limits<T>::quiet_NaN();
      (*arguments)[i] = value;
      (*wide)[i] = static_cast<float>((*arguments)[i]);
    }
  }

  template <typename Function>
  void Expect(const char* name, const Function& function) {
    GuardedTensor<1, T> results(Shape1(kValues));
    GuardedTensor<1, float> expected(Shape1(kValues));
    *results = function(*arguments);
    *expected = function(*wide);
    ExpectRounded(name, *results, *expected);
  }

  GuardedTensor<1, T> arguments{Shape1(kValues)};
  GuardedTensor<1, float> wide{Shape1(kValues)};

 private:
  void ExpectRounded(const char* name, const Tensor<cpu, 1, T>& results,
                     const Tensor<cpu, 1, float>& expected) {
    for (index_t i = 0; i < kValues; ++i) {
      const float exact = expected[i];
      const T result = results[i];
      // The two may come from an element's code and a packet's, whose float results, of errors up
      // to 16 ulp each, may fall on either side of the middle between two values of T.
      constexpr float kSlack = 32 * 0x1p-24f;
      const bool agrees = std::isnan(exact)
                              ? std::isnan(static_cast<float>(result))
                              : SameValue(result, static_cast<T>(exact)) ||
                                    SameValue(result, static_cast<T>(exact * (1 + kSlack))) ||
                                    SameValue(result, static_cast<T>(exact * (1 - kSlack)));
      ASSERT_TRUE(agrees) << name << "(" << (*wide)[i] << ") = " << static_cast<float>(result)
                          << ", not " << exact;
    }
  }
};

using SixteenBitTypes = testing::Types<half_t, bfloat16_t>;
TYPED_TEST_SUITE(SixteenBitFunctionsTest, SixteenBitTypes);

#define TESSERA_EXPECT(function) this->Expect(#function, [](const auto& a) { return function(a); })

TYPED_TEST(SixteenBitFunctionsTest, AreThoseOfFloatRoundedOnce) {
  TESSERA_EXPECT(-);
  TESSERA_EXPECT(abs);
  TESSERA_EXPECT(cbrt);
  TESSERA_EXPECT(ceil);
  TESSERA_EXPECT(digamma);
  TESSERA_EXPECT(erf);
  TESSERA_EXPECT(exp);
  TESSERA_EXPECT(floor);
  TESSERA_EXPECT(gelu);
  TESSERA_EXPECT(log);
  TESSERA_EXPECT(rcp);
  TESSERA_EXPECT(relu);
  TESSERA_EXPECT(sigmoid);
  TESSERA_EXPECT(sign);
  TESSERA_EXPECT(sin);
  TESSERA_EXPECT(sqrt);
  TESSERA_EXPECT(tanh);
  // The types differ in how they become float; after that each function is float's.
  if constexpr (std::is_same_v<TypeParam, half_t>) {
    TESSERA_EXPECT(acos);
    TESSERA_EXPECT(acosh);
    TESSERA_EXPECT(asin);
    TESSERA_EXPECT(asinh);
    TESSERA_EXPECT(atan);
    TESSERA_EXPECT(atanh);
    TESSERA_EXPECT(cos);
    TESSERA_EXPECT(cosh);
    TESSERA_EXPECT(erfc);
    TESSERA_EXPECT(exp2);
    TESSERA_EXPECT(expm1);
    TESSERA_EXPECT(fabs);
    TESSERA_EXPECT(gamma);
    TESSERA_EXPECT(lgamma);
    TESSERA_EXPECT(log10);
    TESSERA_EXPECT(log1p);
    TESSERA_EXPECT(log2);
    TESSERA_EXPECT(round);
    TESSERA_EXPECT(sinh);
    TESSERA_EXPECT(softplus);
    TESSERA_EXPECT(sqr);
    TESSERA_EXPECT(square);
    TESSERA_EXPECT(tan);
    TESSERA_EXPECT(trunc);
  }
}

TYPED_TEST(SixteenBitFunctionsTest, OfTwoAndThreeOperandsToo) {
  for (const float b : {-2.0f, -0.5f, 0.0f, 0.25f, 1.0f, 7.0f}) {
    this->Expect("+", [b](const auto& a) { return a + b; });
    this->Expect("*", [b](const auto& a) { return a * b; });
    this->Expect("pow", [b](const auto& a) { return pow(a, b); });
    this->Expect("max", [b](const auto& a) { return max(a, b); });
    this->Expect("min", [b](const auto& a) { return min(a, b); });
    this->Expect("clamp", [b](const auto& a) { return clamp(a, b - 1, b); });
    this->Expect("blend", [b](const auto& a) { return blend(a > b, a, b); });
  }
}

TEST(RoundingTest, WholeNumbersStayAsTheyAre) {
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;  // no double is this number
  GuardedTensor<1, int64_t> a(Shape1(2), std::vector<int64_t>{kLarge, -kLarge}), out(Shape1(2));
  *out = floor(*a) + ceil(*a) + round(*a) + trunc(*a);
  EXPECT_EQ(out.values(), (std::vector<int64_t>{4 * kLarge, -4 * kLarge}));
}

}  // namespace
}  // namespace tessera
