// Every function over the whole range of float and double, packets included, against the C library
// in long double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/environment.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/packet/accuracy.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using tensor_internal::HasBinaryPacket;
using tensor_internal::HasUnaryPacket;

using Reference = long double (*)(long double);
using tensor_internal::DigammaReference;
using tensor_internal::GeluReference;
using tensor_internal::GeluSlopeReference;
using tensor_internal::NumbersAroundOne;
using tensor_internal::Ulp;

// TESSERA_TEST_STRESS_FACTOR, by which the random arguments grow in number.
index_t SizeFactor() { return EnvironmentInt("TESSERA_TEST_STRESS_FACTOR", 1, 1, 1000); }

// Numbers of every magnitude and sign (random bits), numbers around 1 and around 0, and special
// ones.
template <typename T>
std::vector<T> Arguments() {
  std::mt19937_64 generator(TestSeed());
  std::vector<T> arguments = SpecialValues<T>();
  for (index_t i = 0; i < 4000 * SizeFactor(); ++i) {
    std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t> bits =
        static_cast<decltype(bits)>(generator());
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    arguments.push_back(value);
  }
  for (const double bound : {0.01, 0.7, 2.0, 12.0, 100.0, 800.0, 8192.0, 1048576.0}) {
    for (const T value :
         RandomValues<T>(1000 * SizeFactor(), -bound, bound, static_cast<uint64_t>(bound * 7))) {
      arguments.push_back(value);
    }
  }
  for (int i = -400; i <= 400; ++i) {
    arguments.push_back(static_cast<T>(i) / 2);
    arguments.push_back(std::nextafter(static_cast<T>(i) / 2, T(1000)));
    arguments.push_back(std::nextafter(static_cast<T>(i) / 2, T(-1000)));
  }
  for (const T value : NumbersAroundOne<T>(4000 * SizeFactor(), generator))
    arguments.push_back(value);
  arguments.push_back(static_cast<T>(1.0001209755903815));  // acosh by sqrt(t * (t + 2)): 3.08 ulp
  // Near odd multiples of pi / 4, where the tangent shows all that reduction lost.
  for (const double a : {0x1.137fdf2ccc461p+19, 993749.36477410374, 736298.99103442742}) {
    arguments.push_back(static_cast<T>(a));
  }
  // Numbers next to multiples of pi / 2, up to where the C library takes over and beyond.
  for (int i = 1; i < 4000000; i = i * 9 / 8 + 1) {
    arguments.push_back(static_cast<T>(1.57079632679489661923132L * i));
    arguments.push_back(static_cast<T>(-1.57079632679489661923132L * i));
  }
  return arguments;
}

// Expects results[i] within `ulps` of the reference at arguments[i], equal infinities, NaN where
// the reference has NaN, and the reference's sign of zero.
template <typename T>
void ExpectAccurate(const char* name, const std::vector<T>& arguments,
                    const std::vector<T>& results, Reference reference, double ulps) {
  double worst = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const long double exact = reference(static_cast<long double>(arguments[i]));
    const T actual = results[i];
    const T rounded = static_cast<T>(exact);
    if (std::isnan(rounded)) {
      ASSERT_TRUE(std::isnan(actual)) << name << "(" << arguments[i] << ") = " << actual;
      continue;
    }
    if (rounded == 0 || std::isinf(rounded) || std::isinf(actual)) {
      // Next to the ends of the range a result within the bound may fall on either side.
      const long double largest = std::numeric_limits<T>::max();
      const bool at_the_end = std::fabs(std::fabs(exact) - largest) < 8 * Ulp<T>(largest) ||
                              std::fabs(exact) < 8 * std::numeric_limits<T>::denorm_min();
      if (exact != 0 && at_the_end) continue;
      ASSERT_EQ(actual, rounded) << name << "(" << arguments[i] << ")";
      ASSERT_EQ(std::signbit(actual), std::signbit(rounded)) << name << "(" << arguments[i] << ")";
      continue;
    }
    const double error =
        static_cast<double>(std::fabs(static_cast<long double>(actual) - exact) / Ulp<T>(exact));
    worst = std::max(worst, error);
    ASSERT_LE(error, ulps) << name << "(" << arguments[i] << ") = " << actual << ", not "
                           << rounded;
  }
  testing::Test::RecordProperty(name, std::to_string(worst));
}

template <typename T>
class ElementwiseAccuracyTest : public testing::Test {
 protected:
  /// Expects accurate results of function(a) for every argument that `accept` lets through.
  template <typename Function>
  static void Expect(
      const char* name, const Function& function, Reference reference, double ulps,
      bool (*accept)(T) = [](T) { return true; }) {
    const std::vector<T> arguments = Accepted(accept);
    const auto size = static_cast<index_t>(arguments.size());
    GuardedTensor<1, T> in(Shape1(size), arguments), out(Shape1(size));
    *out = function(*in);
    ExpectAccurate(name, arguments, out.values(), reference, ulps);
  }

 private:
  static std::vector<T> Accepted(bool (*accept)(T)) {
    static const std::vector<T> all = Arguments<T>();
    std::vector<T> accepted;
    for (const T a : all) {
      if (accept(a)) accepted.push_back(a);
    }
    return accepted;
  }
};

using RealTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(ElementwiseAccuracyTest, RealTypes);

#define TESSERA_EXPECT(function, reference, ...) \
  TestFixture::Expect(                           \
      #function, [](const auto& a) { return function(a); }, reference, __VA_ARGS__)

TYPED_TEST(ElementwiseAccuracyTest, ExactOnes) {
  using L = long double;
  TESSERA_EXPECT(
      sqrt, [](L a) { return std::sqrt(a); }, 0.5);
  TESSERA_EXPECT(
      sqr, [](L a) { return a * a; }, 0.5);
  TESSERA_EXPECT(
      square, [](L a) { return a * a; }, 0.5);
  TESSERA_EXPECT(
      rcp, [](L a) { return 1 / a; }, 0.5);
  TESSERA_EXPECT(
      floor, [](L a) { return std::floor(a); }, 0);
  TESSERA_EXPECT(
      ceil, [](L a) { return std::ceil(a); }, 0);
  TESSERA_EXPECT(
      round, [](L a) { return std::round(a); }, 0);
  TESSERA_EXPECT(
      trunc, [](L a) { return std::trunc(a); }, 0);
  TESSERA_EXPECT(
      abs, [](L a) { return std::fabs(a); }, 0);
  TESSERA_EXPECT(
      fabs, [](L a) { return std::fabs(a); }, 0);
  TESSERA_EXPECT(
      sign, [](L a) { return a > 0   ? 1
                             : a < 0 ? -1
                                     : a; }, 0);
  TESSERA_EXPECT(
      relu, [](L a) { return a < 0 ? 0 : a; }, 0);
  TESSERA_EXPECT(
      -, [](L a) { return -a; }, 0);
}

TYPED_TEST(ElementwiseAccuracyTest, ExponentialsAndLogarithms) {
  using L = long double;
  TESSERA_EXPECT(
      exp, [](L a) { return std::exp(a); }, 2);
  TESSERA_EXPECT(
      log, [](L a) { return std::log(a); }, 2);
  TESSERA_EXPECT(
      expm1, [](L a) { return std::expm1(a); }, 3);
  TESSERA_EXPECT(
      log1p, [](L a) { return std::log1p(a); }, 3);
  TESSERA_EXPECT(
      exp2, [](L a) { return std::exp2(a); }, 2);
  TESSERA_EXPECT(
      log2, [](L a) { return std::log2(a); }, 2);
  TESSERA_EXPECT(
      log10, [](L a) { return std::log10(a); }, 3);
  TESSERA_EXPECT(
      cbrt, [](L a) { return std::cbrt(a); }, 2);
}

TYPED_TEST(ElementwiseAccuracyTest, LogarithmsAndRootsOfPowersAreWholeNumbers) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  const int lowest = Limits::min_exponent - Limits::digits, highest = Limits::max_exponent;
  for (int i = lowest; i < highest; ++i) {
    EXPECT_EQ(op::exp2::Map(static_cast<T>(i)), std::ldexp(T(1), i)) << i;
    EXPECT_EQ(op::log2::Map(std::ldexp(T(1), i)), static_cast<T>(i));
  }
  for (int i = Limits::min_exponent10; i <= Limits::max_exponent10; ++i) {
    EXPECT_EQ(op::log10::Map(static_cast<T>(std::pow(10.0L, i))), static_cast<T>(i));
  }
  for (int i = -250; i <= 250; ++i) EXPECT_EQ(op::cbrt::Map(static_cast<T>(i * i * i)), i);
}

TYPED_TEST(ElementwiseAccuracyTest, Activations) {
  using L = long double;
  static_assert(HasUnaryPacket<op::gelu, float> && HasUnaryPacket<op::gelu_grad, float>);
  TESSERA_EXPECT(
      tanh, [](L a) { return std::tanh(a); }, 4);
  TESSERA_EXPECT(
      sigmoid, [](L a) { return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)); },
      4);
  TESSERA_EXPECT(
      softplus, [](L a) { return (a < 0 ? 0 : a) + std::log1p(std::exp(-std::fabs(a))); }, 4);
  TESSERA_EXPECT(gelu, GeluReference, 5);
}

// Near its zero at -0.75 the error of the slope is no number of ulp.
TYPED_TEST(ElementwiseAccuracyTest, SlopeOfGelu) {
  using T = TypeParam;
  std::vector<T> arguments = SpecialValues<T>();
  for (const double bound : {0.01, 1.0, 4.0, 16.0, 45.0}) {
    for (const T value :
         RandomValues<T>(2000 * SizeFactor(), -bound, bound, static_cast<uint64_t>(bound * 7))) {
      arguments.push_back(value);
    }
  }
  for (const T a : arguments) {
    const T actual = op::gelu_grad::Map(a);
    const long double exact = GeluSlopeReference(static_cast<long double>(a));
    if (std::isnan(a)) {
      ASSERT_TRUE(std::isnan(actual));
      continue;
    }
    ASSERT_LE(std::fabs(static_cast<long double>(actual) - exact),
              6 * Ulp<T>(std::max(0.5L, std::fabs(exact))))
        << "at " << a;
  }
}

TYPED_TEST(ElementwiseAccuracyTest, Trigonometry) {
  using L = long double;
  TESSERA_EXPECT(
      sin, [](L a) { return std::sin(a); }, 3);
  TESSERA_EXPECT(
      cos, [](L a) { return std::cos(a); }, 3);
  TESSERA_EXPECT(
      tan, [](L a) { return std::tan(a); }, 4);
  TESSERA_EXPECT(
      asin, [](L a) { return std::asin(a); }, 3);
  TESSERA_EXPECT(
      acos, [](L a) { return std::acos(a); }, 3);
  TESSERA_EXPECT(
      atan, [](L a) { return std::atan(a); }, 3);
  TESSERA_EXPECT(
      sinh, [](L a) { return std::sinh(a); }, 3);
  TESSERA_EXPECT(
      cosh, [](L a) { return std::cosh(a); }, 3);
  TESSERA_EXPECT(
      asinh, [](L a) { return std::asinh(a); }, 3);
  TESSERA_EXPECT(
      acosh, [](L a) { return std::acosh(a); }, 3);
  TESSERA_EXPECT(
      atanh, [](L a) { return std::atanh(a); }, 3);
}

TYPED_TEST(ElementwiseAccuracyTest, SpecialFunctions) {
  using L = long double;
  using T = TypeParam;
  TESSERA_EXPECT(
      erf, [](L a) { return std::erf(a); }, 2);
  TESSERA_EXPECT(
      erfc, [](L a) { return std::erfc(a); }, 4);
  static_assert(HasUnaryPacket<op::gamma, float> && HasUnaryPacket<op::lgamma, float> &&
                HasUnaryPacket<op::digamma, float>);
  // Between the poles, and near the zeros of lgamma and digamma, the rounding of the argument alone
  // moves the result by any number of ulp. The C library promises gamma within 10 ulp.
  TESSERA_EXPECT(
      gamma, [](L a) { return std::tgamma(a); }, 10,
      [](T a) { return !(a < 0) || a == std::floor(a); });
  TESSERA_EXPECT(
      lgamma, [](L a) { return std::lgamma(a); }, 8,
      [](T a) {
        const bool whole = a == std::floor(a);  // a zero, a pole or no small number
        return whole || !(a < T(2.5)) || (a > 0 && a < T(0.9));
      });
  TESSERA_EXPECT(digamma, DigammaReference, (std::is_same_v<T, float> ? 1 : 36), [](T a) {
    const bool at_pole = a < 0 && a == std::floor(a);
    return !(a < T(2.5)) || at_pole || (a > T(-0.25) && a <= T(1));
  });
}

// Pairs (x, y) for x to the power y: of any magnitude, with results of any magnitude, with bases
// around 1, negative ones and small whole numbers.
template <typename T>
std::vector<std::pair<T, T>> PowerArguments() {
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 generator(TestSeed());
  const std::vector<T> all = Arguments<T>();
  std::vector<std::pair<T, T>> pairs;
  for (const T a : all) pairs.emplace_back(a, all[generator() % all.size()]);
  std::uniform_real_distribution<double> exponent(Limits::min_exponent - Limits::digits - 1,
                                                  Limits::max_exponent);
  const auto add = [&](T x) {
    const double y = exponent(generator) / std::log2(std::fabs(static_cast<double>(x)));
    pairs.emplace_back(x, static_cast<T>(y));
    pairs.emplace_back(x, static_cast<T>(std::round(y)));
  };
  for (const T a : all) add(a);
  for (const T a : NumbersAroundOne<T>(10000 * SizeFactor(), generator))
    add(generator() % 2 == 0 ? a : -a);
  for (int x = -30; x <= 30; ++x) {
    for (int y = -60; y <= 60; ++y) {
      pairs.emplace_back(static_cast<T>(x), static_cast<T>(y) / 2);
      pairs.emplace_back(static_cast<T>(x) / 4, static_cast<T>(y));
    }
  }
  // Between 0 and the least subnormal number, at both ends of the normal ones, and the largest.
  for (const double end :
       {Limits::min_exponent - Limits::digits - 1.0, Limits::min_exponent - Limits::digits - 0.0,
        Limits::min_exponent - 1.0, Limits::max_exponent - 0.0}) {
    for (const T a : RandomValues<T>(400 * SizeFactor(), 0.01, 30)) {
      const T y = static_cast<T>(end / std::log2(static_cast<double>(a)));
      pairs.emplace_back(a, y);
      pairs.emplace_back(a, std::nextafter(y, T(0)));
    }
  }
  return pairs;
}

TYPED_TEST(ElementwiseAccuracyTest, Powers) {
  using T = TypeParam;
  static_assert(HasBinaryPacket<op::power, float>);
  const std::vector<std::pair<T, T>> pairs = PowerArguments<T>();
  const auto size = static_cast<index_t>(pairs.size());
  GuardedTensor<1, T> x(Shape1(size)), y(Shape1(size)), out(Shape1(size));
  for (index_t i = 0; i < size; ++i) {
    (*x)[i] = pairs[static_cast<size_t>(i)].first;
    (*y)[i] = pairs[static_cast<size_t>(i)].second;
  }
  *out = pow(*x, *y);
  double worst = 0;
  for (index_t i = 0; i < size; ++i) {
    const T a = (*x)[i], b = (*y)[i], actual = (*out)[i];
    const long double exact = std::pow(static_cast<long double>(a), static_cast<long double>(b));
    const T rounded = static_cast<T>(exact);
    SCOPED_TRACE(testing::Message() << "pow(" << a << ", " << b << ")");
    if (std::isnan(rounded)) {
      ASSERT_TRUE(std::isnan(actual)) << actual;
      continue;
    }
    ASSERT_EQ(std::signbit(actual), std::signbit(rounded)) << actual << ", not " << rounded;
    if (std::isinf(rounded) || std::isinf(actual)) {
      // Half a unit beyond the largest number is where infinity begins.
      const long double largest = std::numeric_limits<T>::max();
      const bool at_the_end =
          std::fabs(std::fabs(exact) - largest) < static_cast<long double>(0.51) * Ulp<T>(largest);
      if (!at_the_end) {
        ASSERT_EQ(actual, rounded);
      }
      continue;
    }
    const double error =
        static_cast<double>(std::fabs(static_cast<long double>(actual) - exact) / Ulp<T>(exact));
    worst = std::max(worst, error);
    ASSERT_LE(error, 1) << actual << ", not " << rounded;
  }
  testing::Test::RecordProperty("pow", std::to_string(worst));
}

TYPED_TEST(ElementwiseAccuracyTest, PowersOfSpecialNumbersAreThoseOfC) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  std::vector<T> special = SpecialValues<T>();
  for (const T a :
       {T(0.5), T(1), T(1.5), T(2), T(3), T(4), T(5), T(1001), T(1 / Limits::epsilon()),
        T(1 / Limits::epsilon() - 1), T(2 / Limits::epsilon() - 1), Limits::max(), Limits::min(),
        Limits::infinity(), std::nextafter(T(1), T(0)), std::nextafter(T(1), T(2))}) {
    special.push_back(a);
    special.push_back(-a);
    special.push_back(-std::nextafter(a, T(0)));
  }
  const auto count = static_cast<index_t>(special.size());
  GuardedTensor<1, T> x(Shape1(count), special), out(Shape1(count));
  const auto expect = [](T a, T b, T actual) {
    const T expected = std::pow(a, b);
    SCOPED_TRACE(testing::Message() << "pow(" << a << ", " << b << ") = " << actual);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual));
      return;
    }
    ASSERT_EQ(std::signbit(actual), std::signbit(expected));
    if (expected == 0 || std::isinf(expected) || std::fabs(a) == 1 || b == 0) {
      ASSERT_EQ(actual, expected);
    } else {  // a power as others
      ASSERT_LE(std::fabs(static_cast<long double>(actual) - static_cast<long double>(expected)),
                Ulp<T>(expected));
    }
  };
  for (const T b : special) {
    *out = pow(*x, b);
    for (index_t i = 0; i < count; ++i) expect((*x)[i], b, (*out)[i]);
    *out = pow(b, *x);
    for (index_t i = 0; i < count; ++i) expect(b, (*x)[i], (*out)[i]);
    GuardedTensor<1, T> y(Shape1(count));
    *y = b;
    *out = pow(*x, *y);
    for (index_t i = 0; i < count; ++i) expect((*x)[i], b, (*out)[i]);
    for (index_t i = 0; i < count; ++i) expect((*x)[i], b, op::power::Map((*x)[i], b));
  }
}

// Where lgamma and digamma pass through zero their errors are no number of ulp.
TYPED_TEST(ElementwiseAccuracyTest, GammaAndItsKinBelowZeroAndNearTheirZeros) {
  using T = TypeParam;
  const long double absolute = std::is_same_v<T, float> ? 1e-6L : 1e-14L;
  std::vector<T> arguments = RandomValues<T>(4000 * SizeFactor(), -30, 3);
  for (const double zero : {1.0, 2.0, 1.4616321449683623, -0.50408300826445541, -2.4570247382208006,
                            -3.1435808883499800}) {
    for (const T offset : RandomValues<T>(100 * SizeFactor(), -1e-3, 1e-3)) {
      arguments.push_back(static_cast<T>(zero) + offset);
    }
  }
  for (const T a : arguments) {
    if (a <= 0 && a == std::round(a)) continue;
    const auto expect = [a](T actual, long double exact, double ulps, long double or_within) {
      EXPECT_LE(std::fabs(actual - exact),
                std::max(static_cast<long double>(ulps) * Ulp<T>(exact), or_within))
          << a;
    };
    expect(op::gamma::Map(a), std::tgamma(static_cast<long double>(a)), 16, 0);
    expect(op::lgamma::Map(a), std::lgamma(static_cast<long double>(a)), 16, absolute);
    if constexpr (std::is_same_v<T, float>) {
      expect(op::digamma::Map(a), DigammaReference(a), 16, absolute);
    }
  }
}

TYPED_TEST(ElementwiseAccuracyTest, DigammaNearItsZeroAndBelowZero) {
  using T = TypeParam;
  for (const T a : RandomValues<T>(1000 * SizeFactor(), -20, 3)) {
    const long double distance = std::fabs(a - std::round(a));
    if (a < 0 && distance < 0.01L) continue;
    const long double exact = DigammaReference(a);
    EXPECT_LE(std::fabs(op::digamma::Map(a) - exact),
              2 * Ulp<T>(std::max(1.0L, std::fabs(exact))) + 1e-13L)
        << a;
  }
  EXPECT_NEAR(op::digamma::Map(1.0), -0.57721566490153286, 1e-15);
  EXPECT_TRUE(std::isnan(op::digamma::Map(T(-3))));
  // The distance of such numbers to -1 is 1.
  EXPECT_EQ(op::digamma::Map(T(-0x1p-60)), T(0x1p60));
}

}  // namespace
}  // namespace tessera
