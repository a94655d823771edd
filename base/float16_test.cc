#include "tessera/base/float16.h"

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "gtest/gtest.h"

namespace tessera {
namespace {

static_assert(sizeof(half_t) == 2 && sizeof(bfloat16_t) == 2);
static_assert(std::is_trivial_v<half_t> && std::is_trivial_v<bfloat16_t>);
static_assert(!std::convertible_to<float, half_t>, "only an assignment rounds silently");
static_assert(!std::convertible_to<half_t, bfloat16_t>);
static_assert(std::same_as<decltype(2.0f * half_t()), half_t>);
static_assert(std::same_as<decltype(half_t() + 1), half_t>);
static_assert(std::same_as<decltype(half_t() / 2.0), half_t>);
static_assert(std::same_as<decltype(bfloat16_t() - bfloat16_t()), bfloat16_t>);
static_assert(std::same_as<decltype(half_t() * bfloat16_t()), float>);
static_assert(std::same_as<decltype(half_t() < 1), bool>);

template <typename T>
class Float16Test : public testing::Test {};
using Formats = testing::Types<half_t, bfloat16_t>;
/// Eigen's type, whose conversions are the ones to agree with.
template <typename T>
struct FormatOf;
template <typename Format>
struct FormatOf<Float16<Format>> {
  using type = Format;
};
TYPED_TEST_SUITE(Float16Test, Formats);

TYPED_TEST(Float16Test, EveryEncodingSurvivesTheWayThroughFloat) {
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const TypeParam number = TypeParam::Binary(static_cast<uint16_t>(bits));
    const float wide = number;
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(float(TypeParam(wide)))) << bits;
    } else {
      EXPECT_EQ(TypeParam(wide).bits(), bits);
    }
  }
}

TYPED_TEST(Float16Test, RoundsToTheNearestAndTiesToEven) {
  using Limits = std::numeric_limits<TypeParam>;
  const float step = Limits::epsilon();
  EXPECT_EQ(TypeParam(1 + step / 2), 1.0f);
  EXPECT_EQ(TypeParam(1 + 3 * step / 2), 1 + 2 * step);
  EXPECT_EQ(TypeParam(1 + step * 0.5001f), 1 + step);
  EXPECT_EQ(TypeParam(1 + step * 0.4999f), 1.0f);
}

TYPED_TEST(Float16Test, LimitsAreThoseOfTheFormat) {
  using Limits = std::numeric_limits<TypeParam>;
  EXPECT_EQ(float(Limits::epsilon()), std::ldexp(1.0f, 1 - Limits::digits));
  EXPECT_EQ(float(Limits::min()), std::ldexp(1.0f, Limits::min_exponent - 1));
  EXPECT_EQ(float(Limits::max()),
            std::ldexp(1 - std::ldexp(1.0f, -Limits::digits), Limits::max_exponent));
  EXPECT_EQ(float(Limits::lowest()), -float(Limits::max()));
  EXPECT_EQ(float(Limits::denorm_min()), std::ldexp(1.0f, Limits::min_exponent - Limits::digits));
  EXPECT_EQ(float(Limits::round_error()), 0.5f);
  EXPECT_TRUE(std::isinf(float(Limits::infinity())));
  EXPECT_TRUE(std::isnan(float(Limits::quiet_NaN())));
  EXPECT_TRUE(std::isnan(float(Limits::signaling_NaN())));
}

TYPED_TEST(Float16Test, OverflowGivesInfinityOfItsSign) {
  EXPECT_EQ(float(TypeParam(1e39)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(float(TypeParam(-1e39)), -std::numeric_limits<float>::infinity());
}

TYPED_TEST(Float16Test, AssignmentTakesAnyNumber) {
  TypeParam a;
  a = 0.5f;
  EXPECT_EQ(a, 0.5f);
  a = 3;
  EXPECT_EQ(a, 3.0f);
  a = 0.25;
  EXPECT_EQ(a, 0.25f);
  a = bfloat16_t(2.0f);
  EXPECT_EQ(a, 2.0f);
}

TYPED_TEST(Float16Test, ArithmeticRoundsOnceFromFloat) {
  const TypeParam third(1.0f / 3);
  EXPECT_EQ((third + third).bits(), TypeParam(float(third) + float(third)).bits());
  EXPECT_EQ((third * 3).bits(), TypeParam(float(third) * 3).bits());
  EXPECT_EQ((1 - third).bits(), TypeParam(1 - float(third)).bits());
  EXPECT_EQ((third / 7.0).bits(), TypeParam(float(third) / 7).bits());
  EXPECT_EQ(-third, -float(third));
  EXPECT_TRUE(std::signbit(float(-TypeParam(0))));
}

TYPED_TEST(Float16Test, CompoundAssignmentsChainAndTakeAnyNumber) {
  TypeParam a(6);
  ((a += 2) *= 3.0f) -= 4.0;
  EXPECT_EQ(a, 20.0f);
  a /= TypeParam(5);
  EXPECT_EQ(a, 4.0f);
}

TYPED_TEST(Float16Test, VolatileObjectsCanBeReducedInPlace) {
  volatile TypeParam a;
  a = 6.0f;
  const volatile TypeParam b(2.0f);
  a += b;
  a *= b;
  a -= b;
  a /= b;
  EXPECT_EQ(static_cast<float>(a), 7.0f);
  EXPECT_TRUE(a > b);
}

TYPED_TEST(Float16Test, ComparesAsFloatDoes) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  EXPECT_FALSE(nan == nan);
  EXPECT_TRUE(TypeParam(0) == -TypeParam(0));
  EXPECT_TRUE(TypeParam(1) < 2);
  EXPECT_TRUE(1.5 > TypeParam(1));
}

// In vectors as alone: every number of 16 bits; and floats around all of these and halfway between
// them, where rounding decides.
TYPED_TEST(Float16Test, ConvertsInLoopsAsAlone) {
  const auto bits_of = [](float value) { return std::bit_cast<uint32_t>(value); };
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const TypeParam half = TypeParam::Binary(static_cast<uint16_t>(i));
    const float alone = Eigen::numext::bit_cast<typename FormatOf<TypeParam>::type>(half.bits());
    const float in_loop = ConvertInLoop<float>(half);
    ASSERT_TRUE(std::isnan(alone) ? std::isnan(in_loop) : bits_of(in_loop) == bits_of(alone)) << i;
    ASSERT_EQ(bits_of(half), bits_of(alone)) << i;
    for (const uint32_t last : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
      const float number = std::bit_cast<float>(bits_of(alone) + last);
      const uint16_t expected = Eigen::numext::bit_cast<uint16_t>(
          static_cast<typename FormatOf<TypeParam>::type>(number));
      ASSERT_EQ(ConvertInLoop<TypeParam>(number).bits(), expected) << number;
      ASSERT_EQ(TypeParam(number).bits(), expected) << number;
    }
  }
  EXPECT_EQ(ConvertInLoop<TypeParam>(2.5).bits(), TypeParam(2.5f).bits());
  EXPECT_EQ(ConvertInLoop<int32_t>(TypeParam(7.5f)), 7);
  EXPECT_EQ(ConvertInLoop<double>(TypeParam(7.5f)), 7.5);
}

}  // namespace
}  // namespace tessera
