#include "tessera/base/float16.h"

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

using base_internal::ConvertInLoop;

static_assert(sizeof(half_t) == 2 && sizeof(bfloat16_t) == 2);
static_assert(std::is_trivial_v<half_t> && std::is_trivial_v<bfloat16_t>);
static_assert(std::convertible_to<float, half_t> && std::convertible_to<int, half_t>);
static_assert(!std::convertible_to<half_t, bfloat16_t>, "only an assignment rounds it silently");
enum Enumeration : int {};
static_assert(!std::convertible_to<Enumeration, half_t>);
static_assert(std::constructible_from<half_t, Enumeration>);
static_assert(std::same_as<decltype(2.0f * half_t()), half_t>);
static_assert(std::same_as<decltype(half_t() + 1), half_t>);
static_assert(std::same_as<decltype(half_t() / 2.0), half_t>);
static_assert(std::same_as<decltype(bfloat16_t() - bfloat16_t()), bfloat16_t>);
static_assert(std::same_as<decltype(half_t() * bfloat16_t()), float>);
static_assert(std::same_as<decltype(half_t() < 1), bool>);

template <typename T>
class Float16Test : public testing::Test {};
using Formats = testing::Types<half_t, bfloat16_t>;
TYPED_TEST_SUITE(Float16Test, Formats);

/// Eigen's type of the same format: an independent implementation of the conversions.
template <typename T>
struct EigenTypeOf;
template <>
struct EigenTypeOf<half_t> {
  using type = Eigen::half;
};
template <>
struct EigenTypeOf<bfloat16_t> {
  using type = Eigen::bfloat16;
};

/// The encoding of a value by Eigen; of a NaN, whose payload Eigen keeps where it uses F16C, the
/// quiet NaN of its sign.
template <typename T>
uint16_t EncodedByEigen(float value) {
  if (std::isnan(value)) {
    return std::numeric_limits<T>::quiet_NaN().bits() | (std::signbit(value) ? 0x8000 : 0);
  }
  return Eigen::numext::bit_cast<uint16_t>(static_cast<typename EigenTypeOf<T>::type>(value));
}
template <typename T>
float DecodedByEigen(uint16_t bits) {
  return static_cast<float>(Eigen::numext::bit_cast<typename EigenTypeOf<T>::type>(bits));
}

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

TEST(Float16LimitsTest, DecimalDigitsAreThoseOfTheStandardsFormulas) {
  using Half = std::numeric_limits<half_t>;
  EXPECT_EQ(Half::digits10, 3);
  EXPECT_EQ(Half::max_digits10, 5);
  EXPECT_EQ(Half::min_exponent10, -4);
  EXPECT_EQ(Half::max_exponent10, 4);
  using Bfloat = std::numeric_limits<bfloat16_t>;
  EXPECT_EQ(Bfloat::digits10, 2);
  EXPECT_EQ(Bfloat::max_digits10, 4);
  EXPECT_EQ(Bfloat::min_exponent10, std::numeric_limits<float>::min_exponent10);
  EXPECT_EQ(Bfloat::max_exponent10, std::numeric_limits<float>::max_exponent10);
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

template <typename T>
T OneIfPositive(float a) {
  return a > 0 ? 1.0f : 0.0f;
}
/// Numbers are passed as numbers although they convert to T.
template <typename T>
struct Overloads {
  static int BitsOf(T) { return 16; }
  static int BitsOf(float) { return 32; }
};

TYPED_TEST(Float16Test, InitializationTakesAnyNumber) {
  const TypeParam a = 1.0f, b = 0.25, c = 3, d = true, e = int64_t{-2}, f = {0.5f};
  EXPECT_EQ(a, 1.0f);
  EXPECT_EQ(b, 0.25f);
  EXPECT_EQ(c, 3.0f);
  EXPECT_EQ(d, 1.0f);
  EXPECT_EQ(e, -2.0f);
  EXPECT_EQ(f, 0.5f);
  EXPECT_EQ(OneIfPositive<TypeParam>(2), 1.0f);
  const std::vector<TypeParam> several = {1.0f, 2, 0.5};
  EXPECT_EQ(several[2], 0.5f);
  EXPECT_EQ(Overloads<TypeParam>::BitsOf(a), 16);
  EXPECT_EQ(Overloads<TypeParam>::BitsOf(1.0f), 32);
  EXPECT_EQ(Overloads<TypeParam>::BitsOf(1.0), 32);
  EXPECT_EQ(Overloads<TypeParam>::BitsOf(1), 32);
  EXPECT_TRUE(a + 1 == 2 && 2 * a > 1.5 && a < c && a != 0);
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

TYPED_TEST(Float16Test, EveryEncodingDecodesAsInEigen) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const TypeParam number = TypeParam::Binary(static_cast<uint16_t>(i));
    const float expected = DecodedByEigen<TypeParam>(number.bits());
    const float in_loop = ConvertInLoop<float>(number);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(float(number))) << i;
      ASSERT_TRUE(std::isnan(in_loop)) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(float(number)), std::bit_cast<uint32_t>(expected)) << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(in_loop), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

// The oracle is the definition of rounding: between two neighbours everything below the midpoint
// goes down, everything above it up, and the midpoint to the neighbour whose last bit is 0. The
// number after the largest is infinity, whose midpoint lies half a step above.
TYPED_TEST(Float16Test, EveryMidpointSeparatesItsNeighbours) {
  const uint16_t infinity = std::numeric_limits<TypeParam>::infinity().bits();
  const float inf = std::numeric_limits<float>::infinity();
  const auto expect = [](float value, int bits) {
    ASSERT_EQ(TypeParam(value).bits(), bits) << value;
    ASSERT_EQ(TypeParam(-value).bits(), bits | 0x8000) << value;
    ASSERT_EQ(ConvertInLoop<TypeParam>(value).bits(), bits) << value;
    ASSERT_EQ(ConvertInLoop<TypeParam>(-value).bits(), bits | 0x8000) << value;
  };
  for (int low = 0; low < infinity; ++low) {
    const int high = low + 1;
    const double below = float(TypeParam::Binary(static_cast<uint16_t>(low)));
    const double step = high == infinity
                            ? below - float(TypeParam::Binary(static_cast<uint16_t>(low - 1)))
                            : float(TypeParam::Binary(static_cast<uint16_t>(high))) - below;
    const float midpoint = static_cast<float>(below + step / 2);
    ASSERT_EQ(midpoint, below + step / 2) << "a float holds every midpoint";
    expect(static_cast<float>(below), low);
    expect(std::nextafter(midpoint, 0.0f), low);
    expect(midpoint, low % 2 == 0 ? low : high);
    expect(std::nextafter(midpoint, inf), high);
  }
}

// The upper half of a float has its sign, its exponent and the first bits of its fraction. The
// lower halves are those at which one of the two formats rounds, and those of NaNs of every kind.
TYPED_TEST(Float16Test, FloatsOfEveryExponentEncodeAsInEigen) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u,
                                 0x2fffu, 0x3000u, 0x3001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      const uint16_t expected = EncodedByEigen<TypeParam>(value);
      ASSERT_EQ(TypeParam(value).bits(), expected) << std::hex << upper << ' ' << lower;
      ASSERT_EQ(ConvertInLoop<TypeParam>(value).bits(), expected)
          << std::hex << upper << ' ' << lower;
    }
  }
}

TYPED_TEST(Float16Test, RandomFloatsEncodeAsInEigen) {
  std::mt19937 random(1);
  for (int i = 0; i < 1 << 20; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const float value = std::bit_cast<float>(bits);
    const uint16_t expected = EncodedByEigen<TypeParam>(value);
    ASSERT_EQ(TypeParam(value).bits(), expected) << std::hex << bits;
    ASSERT_EQ(ConvertInLoop<TypeParam>(value).bits(), expected) << std::hex << bits;
  }
}

TYPED_TEST(Float16Test, NanBecomesTheQuietNanOfItsSign) {
  const uint16_t quiet = std::numeric_limits<TypeParam>::quiet_NaN().bits();
  for (const uint32_t nan : {0x7f800001u, 0x7fa00000u, 0x7fc00000u, 0x7fffffffu}) {
    EXPECT_EQ(TypeParam(std::bit_cast<float>(nan)).bits(), quiet);
    EXPECT_EQ(TypeParam(std::bit_cast<float>(nan | 0x80000000u)).bits(), quiet | 0x8000);
  }
}

TYPED_TEST(Float16Test, ConvertInLoopTakesAndGivesEveryNumber) {
  EXPECT_EQ(ConvertInLoop<TypeParam>(2.5).bits(), TypeParam(2.5f).bits());
  EXPECT_EQ(ConvertInLoop<int32_t>(TypeParam(7.5f)), 7);
  EXPECT_EQ(ConvertInLoop<double>(TypeParam(7.5f)), 7.5);
}

}  // namespace
}  // namespace tessera
