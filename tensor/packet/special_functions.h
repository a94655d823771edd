#ifndef TESSERA_TENSOR_PACKET_SPECIAL_FUNCTIONS_H_
#define TESSERA_TENSOR_PACKET_SPECIAL_FUNCTIONS_H_

#include <cmath>
#include <limits>

#include "tessera/base/host_device.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns the gamma function of x.
TESSERA_HD float Gamma(float x) { return ::tgammaf(x); }
TESSERA_HD double Gamma(double x) { return ::tgamma(x); }

/// Returns log |gamma(x)|. It does not write C's global signgam on the host, which threads would
/// share.
TESSERA_HD float LogGamma(float x) {
#if TESSERA_DEVICE_CODE
  return ::lgammaf(x);
#else
  int sign = 0;
  return ::lgammaf_r(x, &sign);
#endif
}
TESSERA_HD double LogGamma(double x) {
#if TESSERA_DEVICE_CODE
  return ::lgamma(x);
#else
  int sign = 0;
  return ::lgamma_r(x, &sign);
#endif
}

/// Returns x times the standard normal distribution function at x. It is computed in double, since
/// the relative error of erfc grows with the square of its argument.
TESSERA_HD double Gelu(double x) {
  if (x < -40) return -0.0;  // -inf would give -inf times 0
  return 0.5 * x * std::erfc(x * -0.70710678118654752);
}
TESSERA_HD float Gelu(float x) { return static_cast<float>(Gelu(static_cast<double>(x))); }

/// Returns the derivative of Gelu. It is 0 or 1 beyond the bounds to which x is limited.
TESSERA_HD double GeluSlope(double x) {
  const double held = x < -40 ? -40 : x > 40 ? 40 : x;
  return 0.5 * std::erfc(held * -0.70710678118654752) +
         held * 0.39894228040143268 * std::exp(-0.5 * held * held);
}
TESSERA_HD float GeluSlope(float x) {
  return static_cast<float>(GeluSlope(static_cast<double>(x)));
}

/// Returns psi(x) = d log gamma(x) / dx.
///
/// The recurrence psi(x) = psi(x + 1) - 1/x leads to an x of at least 10. The asymptotic series log
/// x - 1/(2x) - sum of B_2k / (2k x^2k) is used there and cut after its seventh term (Abramowitz
/// and Stegun, Handbook of Mathematical Functions, 6.3.5 and 6.3.18). The reflection, psi(x) =
/// psi(1 - x) - pi / tan(pi x) (6.3.7), is used for x below 1/2.
///
/// Error: at most 4e-15 of the larger of |psi(x)| and 1. The effect of rounding x itself near the
/// poles is added for x < 0. The result is NaN at the negative integers and at -inf, -inf at +0,
/// and +inf at -0, as the limits are.
TESSERA_HD double Digamma(double x) {
  if (x == 0) return -1 / x;
  double result = 0;
  if (x < 0.5) {
    // The tangent has period 1 in units of pi, so the nearest integer is subtracted from x,
    // exactly.
    const double centred = x - std::round(x);
    if (x < 0 && centred == 0) return std::numeric_limits<double>::quiet_NaN();
    result = -3.14159265358979323846 / std::tan(3.14159265358979323846 * centred);
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 -
           z * (1.0 / 120 -
                z * (1.0 / 252 -
                     z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return result + (std::log(x) - 0.5 / x - series);
}
TESSERA_HD float Digamma(float x) { return static_cast<float>(Digamma(static_cast<double>(x))); }

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_SPECIAL_FUNCTIONS_H_
