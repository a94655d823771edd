#ifndef TESSERA_TENSOR_PACKET_POWER_PACKET_MATH_H_
#define TESSERA_TENSOR_PACKET_POWER_PACKET_MATH_H_

#include <limits>

#include "tessera/tensor/packet/packet.h"
#include "tessera/tensor/packet/packet_math.h"

/// Powers of packets of float; packet_math.h states their accuracy.
namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

namespace packet_math {

/// Returns a 2^n. Requires: n is an integer between -1000 and 1000, and a and the result are normal
/// numbers.
template <RealPacket P>
inline P ScaleNormal(const P& a, const P& n) {
  return Scale(a, n);
}
#if defined(EIGEN_VECTORIZE_AVX2)
/// Returns a 2^n: the last bits of 1.5 2^52 + 1023 + n become the exponent. Eigen's form multiplies
/// four times.
inline pk::Packet4d ScaleNormal(const pk::Packet4d& a, const pk::Packet4d& n) {
  const pk::Packet4d biased = pk::padd(n, Set<pk::Packet4d>(0x1.8p52 + 1023));
  const __m256i exponent = _mm256_slli_epi64(_mm256_castpd_si256(biased), 52);
  return pk::pmul(a, pk::Packet4d(_mm256_castsi256_pd(exponent)));
}
#endif

/// Splits normal numbers as ReduceLog does. Floats are normal numbers in double.
template <RealPacket P>
inline void ReduceLogOfNormal(const P& x, P* n, P* m) {
  ReduceLog(x, n, m);
}

/// Returns log2(x) of normal numbers as n + log2(m). The latter is a series in s^2 with s = (m - 1)
/// / (m + 1). The relative error is at most 1e-13, which is enough for results that are rounded to
/// float. Powers of 2 give exact results.
template <RealPacket P>
inline P Log2ForFloat(const P& x) {
  // kLog2 is log2((1 + s) / (1 - s)) / s as a function of s^2 <= 0.02944.
  static constexpr double kLog2[] = {2.8853900817778504, 0.9617966941123531, 0.5770779426322548,
                                     0.4122092271136529, 0.3199066703689245, 0.2828870394156083};
  P n, m;
  ReduceLogOfNormal(x, &n, &m);
  const P one = Set<P>(1);
  const P s = pk::pdiv(P(pk::psub(m, one)), P(pk::padd(m, one)));
  return MultiplyAdd(s, Polynomial(P(pk::pmul(s, s)), kLog2), n);
}

/// Returns 2^x with a relative error of at most 2e-12, for results that are rounded to float. The
/// rounding makes a zero or an infinity of results beyond the range of float. Integers x give exact
/// results.
template <RealPacket P>
inline P Exp2ForFloat(const P& x) {
  // kExp2 is (2^r - 1) / r as a function of r, |r| <= 1 / 2.
  static constexpr double kExp2[] = {
      0.6931471805568324,    0.24022650695888503,    0.055504109063258665,   0.00961812913523614,
      0.0013333478473685416, 0.00015403475186530786, 1.5303700711365693e-05, 1.325080551750225e-06};
  const P held = Within(x, -160, 130);
  const P n = ToWhole(held);
  const P r = pk::psub(held, n);
  return ScaleNormal(MultiplyAdd(r, Polynomial(r, kExp2), Set<P>(1)), n);
}

/// Returns x to the power y for floats: 2^(y log2|x|) in double, with the sign and the special
/// values of C's pow. Both are left out if no lane has them, since most powers are those of
/// positive numbers.
template <RealPacket P>
inline P Power(const P& x, const P& y) {
  const P zero = pk::pzero(x), one = Set<P>(1);
  const P infinity = Set<P>(std::numeric_limits<double>::infinity());
  const P nan = Set<P>(std::numeric_limits<double>::quiet_NaN());
  const P magnitude = pk::pabs(x);
  const bool ordinary =
      AllLess(zero, magnitude) && AllLess(magnitude, infinity) && AllLess(P(pk::pabs(y)), infinity);
  const P power = InDouble(magnitude, y, [ordinary]<typename D>(const D& a, D b) {
    D log = Log2ForFloat(a);
    if (!ordinary) {
      log = LogOfOthers(a, log);
      // An infinite b times the logarithm of 1 would be NaN. A finite b beyond the range of float
      // gives the right results.
      b = Within(b, -0x1p200, 0x1p200);
    }
    return Exp2ForFloat(D(pk::pmul(b, log)));
  });
  if (ordinary && AllLess(zero, x)) return power;
  // Infinities are even integers. Negative numbers except -inf have no fractional powers.
  const P half = pk::pmul(y, Set<P>(0.5));
  const P whole = WhereEqual(P(pk::pfloor(half)), half, power, P(pk::por(power, SignBit(x))));
  const P negative = WhereLess(P(pk::pnegate(infinity)), x, nan, power);
  const P fractional = WhereLess(x, zero, negative, power);
  const P value = WhereEqual(P(pk::pfloor(y)), y, whole, fractional);
  if (ordinary) return value;
  return WhereEqual(y, zero, one, WhereEqual(x, one, one, value));
}

}  // namespace packet_math

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_POWER_PACKET_MATH_H_
