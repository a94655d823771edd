#ifndef TESSERA_TENSOR_TESTING_TEST_VALUES_H_
#define TESSERA_TENSOR_TESTING_TEST_VALUES_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"

namespace tessera {

/// The types of a typed test suite. Under AddressSanitizer there are only the first two, because
/// the addresses that it checks do not depend on the arithmetic.
#if defined(__SANITIZE_ADDRESS__)
template <typename First, typename Second, typename... Others>
using TestedTypes = testing::Types<First, Second>;
#else
template <typename... All>
using TestedTypes = testing::Types<All...>;
#endif

/// Returns the seed of random tests: TESSERA_TEST_SEED, or else a constant. It is printed once.
inline uint64_t TestSeed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("TESSERA_TEST_SEED");
    const uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 10) : 20240917;
    std::cout << "TESSERA_TEST_SEED=" << value << std::endl;
    return value;
  }();
  return seed;
}

template <typename T>
inline constexpr bool kIsReal =
    std::is_floating_point_v<T> || std::is_same_v<T, half_t> || std::is_same_v<T, bfloat16_t>;

/// Returns `count` values in [low, high], which are integers for integer types. Each `stream` gives
/// other values.
template <typename T>
std::vector<T> RandomValues(int64_t count, double low, double high, uint64_t stream = 0) {
  std::mt19937_64 generator(TestSeed() * 1000003 + stream);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) {
    if constexpr (kIsReal<T>) {
      value = static_cast<T>(std::uniform_real_distribution<double>(low, high)(generator));
    } else {
      value = static_cast<T>(std::uniform_int_distribution<int64_t>(
          static_cast<int64_t>(low), static_cast<int64_t>(high))(generator));
    }
  }
  return values;
}

/// Returns both zeros, both infinities, NaN, the extremes and subnormals, with ordinary numbers
/// between them.
template <typename T>
std::vector<T> SpecialValues() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {T(0), T(1), T(2), T(3), Limits::lowest(), Limits::max()};
  if constexpr (kIsReal<T>) {
    values.insert(values.end(), {T(-0.0f), T(-1.5f), Limits::infinity(), T(-Limits::infinity()),
                                 Limits::quiet_NaN(), Limits::denorm_min(),
                                 T(-Limits::denorm_min()), Limits::min(), T(0.1f), T(-100.0f)});
  }
  return values;
}

/// Returns half the distance between 1 and the next value: the largest relative error of one
/// rounding.
template <typename T>
double UnitRoundoff() {
  if (std::is_same_v<T, float>) return 0x1p-24;
  if (std::is_same_v<T, double>) return 0x1p-53;
  if (std::is_same_v<T, half_t>) return 0x1p-11;
  if (std::is_same_v<T, bfloat16_t>) return 0x1p-8;
  return 0;
}

/// Returns whether two values are equal or both NaN. Zeros are equal only if their signs are.
template <typename T>
bool SameValue(T a, T b) {
  const double x = static_cast<double>(a);
  const double y = static_cast<double>(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return a == b && std::signbit(x) == std::signbit(y);
}

/// Expects SameValue for every element, and names the first that differs.
template <typename T>
void ExpectSameValues(const std::vector<T>& actual, const std::vector<T>& expected,
                      const std::string& what = "") {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(SameValue(actual[i], expected[i]))
        << what << " element " << i << " is " << static_cast<double>(actual[i]) << ", not "
        << static_cast<double>(expected[i]);
  }
}

/// Expects |actual[i] - expected[i]| <= bound(i) for every element.
template <typename T>
void ExpectWithin(const std::vector<T>& actual, const std::vector<double>& expected,
                  const std::function<double(size_t)>& bound, const std::string& what = "") {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    ASSERT_LE(error, bound(i)) << what << " element " << i << " is "
                               << static_cast<double>(actual[i]) << ", not " << expected[i];
  }
}

/// Expects `call` to throw an Error of that code whose message contains every word.
inline void ExpectError(const std::function<void()>& call, absl::StatusCode code,
                        const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), testing::HasSubstr(word));
  }
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_TESTING_TEST_VALUES_H_
