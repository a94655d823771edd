#include "tessera/tensor/functors/functors.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/functors/functor_packets.h"
#include "tessera/tensor/functors/reducers.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

template <typename T>
class FunctorTest : public testing::Test {
 protected:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// Expects Op::Map to be within `roundings` of the oracle, over values where T holds the result.
  template <typename Op, typename Oracle>
  static void ExpectAccurate(const Oracle& oracle, double low, double high, double roundings) {
    for (const T value : RandomValues<T>(1000, low, high)) {
      const double expected = oracle(static_cast<double>(value));
      const double error = std::abs(static_cast<double>(Op::Map(value)) - expected);
      const double subnormal = static_cast<double>(std::numeric_limits<T>::denorm_min());
      ASSERT_LE(error, 2 * roundings * UnitRoundoff<T>() * std::abs(expected) + subnormal)
          << static_cast<double>(value);
    }
  }
  template <typename Op>
  static double At(double value) {
    return static_cast<double>(Op::Map(static_cast<T>(value)));
  }
};

using RealTypes = TestedTypes<float, half_t, double, bfloat16_t>;
TYPED_TEST_SUITE(FunctorTest, RealTypes);

TYPED_TEST(FunctorTest, TranscendentalsAreAccurate) {
  using Test = TestFixture;
  Test::template ExpectAccurate<op::exp>([](double a) { return std::exp(a); }, -9, 9, 2);
  Test::template ExpectAccurate<op::log>([](double a) { return std::log(a); }, 2, 1000, 2);
  Test::template ExpectAccurate<op::tanh>([](double a) { return std::tanh(a); }, -4, 4, 2);
  Test::template ExpectAccurate<op::sigmoid>([](double a) { return 1 / (1 + std::exp(-a)); }, -6, 9,
                                             4);
  Test::template ExpectAccurate<op::softrelu>([](double a) { return std::log1p(std::exp(a)); }, -6,
                                              100, 4);
  Test::template ExpectAccurate<op::softsign>([](double a) { return a / (1 + std::abs(a)); }, -50,
                                              50, 4);
}

TYPED_TEST(FunctorTest, LargeArgumentsSaturate) {
  using Test = TestFixture;
  const double large = static_cast<double>(std::numeric_limits<TypeParam>::max());
  for (const double a : {large, Test::kInfinity}) {
    EXPECT_EQ(Test::template At<op::sigmoid>(a), 1);
    EXPECT_EQ(Test::template At<op::sigmoid>(-a), 0);
    EXPECT_EQ(Test::template At<op::tanh>(a), 1);
    EXPECT_EQ(Test::template At<op::tanh>(-a), -1);
    EXPECT_EQ(Test::template At<op::softrelu>(a), a);
    EXPECT_EQ(Test::template At<op::softrelu>(-a), 0);
    EXPECT_EQ(Test::template At<op::exp>(-a), 0);
    EXPECT_EQ(Test::template At<op::relu>(-a), 0);
  }
}

TYPED_TEST(FunctorTest, NanStaysNan) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto is_nan = [](T value) { return std::isnan(static_cast<double>(value)); };
  EXPECT_TRUE(is_nan(op::relu::Map(nan)));
  EXPECT_TRUE(is_nan(op::sigmoid::Map(nan)));
  EXPECT_TRUE(is_nan(op::tanh::Map(nan)));
  EXPECT_TRUE(is_nan(op::softrelu::Map(nan)));
  EXPECT_TRUE(is_nan(op::softsign::Map(nan)));
  EXPECT_TRUE(is_nan(op::abs::Map(nan)));
  EXPECT_TRUE(is_nan(op::maximum::Map(nan, T(1))) && is_nan(op::maximum::Map(T(1), nan)));
  EXPECT_TRUE(is_nan(op::minimum::Map(nan, T(1))) && is_nan(op::minimum::Map(T(1), nan)));
}

// Processors trap on the first two, and on the remainder of the third.
template <typename T>
void ExpectQuotientsOfAllIntegers() {
  using Limits = std::numeric_limits<T>;
  EXPECT_EQ(op::div::Map(T(7), T(0)), T(0));
  EXPECT_EQ(op::mod::Map(T(7), T(0)), T(0));
  EXPECT_EQ(op::rcp::Map(T(0)), T(0));
  EXPECT_EQ(op::rcp::Map(T(1)), T(1));
  EXPECT_EQ(op::div::Map(Limits::max(), T(2)), T(Limits::max() / 2));
  EXPECT_EQ(op::mod::Map(T(7), T(4)), T(3));
  if constexpr (Limits::is_signed) {
    EXPECT_EQ(op::div::Map(Limits::lowest(), T(-1)), Limits::lowest());
    EXPECT_EQ(op::mod::Map(Limits::lowest(), T(-1)), T(0));
    EXPECT_EQ(op::div::Map(T(7), T(-1)), T(-7));
    EXPECT_EQ(op::div::Map(T(-7), T(2)), T(-3));
    EXPECT_EQ(op::mod::Map(T(-7), T(4)), T(1));
    EXPECT_EQ(op::mod::Map(T(7), T(-4)), T(-1));
    EXPECT_EQ(op::mod::Map(T(-8), T(4)), T(0));
  }
}

TEST(IntegerFunctorTest, EveryQuotientIsDefined) {
  ExpectQuotientsOfAllIntegers<int8_t>();
  ExpectQuotientsOfAllIntegers<uint8_t>();
  ExpectQuotientsOfAllIntegers<int32_t>();
  ExpectQuotientsOfAllIntegers<uint32_t>();
  ExpectQuotientsOfAllIntegers<int64_t>();
  ExpectQuotientsOfAllIntegers<uint64_t>();
}

TEST(ReducerTest, InitialValuesAreNeutral) {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    const std::vector<T> extremes = {std::numeric_limits<T>::lowest(),
                                     std::numeric_limits<T>::max()};
    for (const T value : extremes) {
      EXPECT_TRUE(op::plus::Map(red::sum::InitialValue<T>(), value) == value);
      EXPECT_TRUE(op::maximum::Map(red::maximum::InitialValue<T>(), value) == value);
      EXPECT_TRUE(op::minimum::Map(red::minimum::InitialValue<T>(), value) == value);
    }
  };
  check(float());
  check(double());
  check(half_t());
  check(bfloat16_t());
  check(int32_t());
  check(uint8_t());
  check(int64_t());
}

}  // namespace
}  // namespace tessera
