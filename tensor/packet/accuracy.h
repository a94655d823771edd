#ifndef TESSERA_TENSOR_PACKET_ACCURACY_H_
#define TESSERA_TENSOR_PACKET_ACCURACY_H_

#include <cmath>
#include <limits>
#include <random>
#include <vector>

/// Helpers that the tests and the table of the functions' errors share.
namespace tessera::tensor_internal {

/// Returns the distance between neighbouring values of T around `value`.
template <typename T>
long double Ulp(long double value) {
  using Limits = std::numeric_limits<T>;
  const long double magnitude = std::fabs(value);
  if (magnitude < static_cast<long double>(Limits::min())) return Limits::denorm_min();
  int exponent;
  std::frexp(magnitude, &exponent);
  return std::ldexp(1.0L, exponent - Limits::digits);
}

/// Returns `count` pairs of numbers on both sides of 1. Their distances from 1 are equally frequent
/// for each power of 2, down to the last. The number 1 is a zero or an end of many functions, and
/// few random numbers lie near it.
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

/// Returns x times the standard normal distribution function at x.
inline long double GeluReference(long double x) {
  if (std::isinf(x) && x < 0) return -0.0L;
  return x / 2 * std::erfc(-x * std::sqrt(0.5L));
}

/// Returns the derivative of GeluReference.
inline long double GeluSlopeReference(long double x) {
  if (std::isinf(x)) return x < 0 ? 0 : 1;
  const long double root_of_two_pi = 2.50662827463100050241576528481104525L;
  return std::erfc(-x * std::sqrt(0.5L)) / 2 + x * std::exp(-x * x / 2) / root_of_two_pi;
}

/// Returns the derivative of log gamma(x). The recurrence raises x to at least 40, where five terms
/// of the series give all digits of a long double.
inline long double DigammaReference(long double x) {
  if (x == 0) return -1 / x;
  if (x < 0) {
    // The distance to the integer below would round to 1 for a tiny x, so the nearest is taken.
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
