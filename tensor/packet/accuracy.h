#ifndef TESSERA_TENSOR_PACKET_ACCURACY_H_
#define TESSERA_TENSOR_PACKET_ACCURACY_H_

#include <cmath>
#include <limits>
#include <random>
#include <vector>

/// What the tests and the table of the functions' errors share.
namespace tessera::tensor_internal {

/// The distance of neighbouring numbers of T around `value`.
template <typename T>
long double Ulp(long double value) {
  using Limits = std::numeric_limits<T>;
  const long double magnitude = std::fabs(value);
  if (magnitude < static_cast<long double>(Limits::min())) return Limits::denorm_min();
  int exponent;
  std::frexp(magnitude, &exponent);
  return std::ldexp(1.0L, exponent - Limits::digits);
}

/// `count` pairs of numbers on both sides of 1, as many for each power of 2 of their distance from
/// it, down to the last: 1 is a zero or an end of many functions, and of random numbers few lie
/// near it.
template <typename T>
std::vector<T> NumbersAroundOne(int count, std::mt19937_64& generator) {
  std::uniform_real_distribution<double> exponent(-std::numeric_limits<T>::digits, 0);
  std::vector<T> numbers;
  for (int i = 0; i < count; ++i) {
    const double distance = std::exp2(exponent(generator));
    numbers.push_back(static_cast<T>(1 + distance));
    numbers.push_back(static_cast<T>(1 - distance));
  }
  return numbers;
}

/// x times the normal distribution's share below x.
inline long double GeluReference(long double x) {
  if (std::isinf(x) && x < 0) return -0.0L;
  return x / 2 * std::erfc(-x * std::sqrt(0.5L));
}

/// The derivative of log gamma(x) by the recurrence up to 40, where five terms of its series give
/// all digits of a long double.
inline long double DigammaReference(long double x) {
  if (x == 0) return -1 / x;
  if (x < 0) {
    // Of tiny x the distance to the whole number below would be 1.
    const long double past_whole = x - std::round(x);
    if (past_whole == 0 || std::isinf(x)) return std::numeric_limits<long double>::quiet_NaN();
    const long double pi = 3.14159265358979323846264338327950288L;
    return DigammaReference(1 - x) - pi / std::tan(pi * past_whole);
  }
  long double result = 0;
  for (; x < 40; x += 1) result -= 1 / x;
  const long double z = 1 / (x * x);
  return result + std::log(x) - 1 / (2 * x) -
         z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z / 132))));
}

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_ACCURACY_H_
