#ifndef TESSERA_TENSOR_PACKET_GAMMA_PACKET_MATH_H_
#define TESSERA_TENSOR_PACKET_GAMMA_PACKET_MATH_H_

#include <limits>

#include "tessera/tensor/packet/packet.h"
#include "tessera/tensor/packet/packet_math.h"
#include "tessera/tensor/packet/trigonometric_packet_math.h"

/// The gamma function and related functions for packets of float; packet_math.h states their
/// accuracy.
namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

namespace packet_math {

/// The argument reduction that the gamma function and related functions share. Its numbers are
/// doubles that were floats. y is 1 - x where x < 1/2, for the reflection formula, and x elsewhere.
/// w is y + 6, from where the asymptotic series hold (Abramowitz and Stegun, Handbook of
/// Mathematical Functions, 6.1.17, 6.3.7, 6.1.41).
template <typename P>
struct ReducedGamma {
  P reflected;  ///< a mask of the lanes where x < 1/2
  P w;          ///< y + 6
  P held;       ///< y, limited so that t^3 is finite
  P t;          ///< y (y + 5); (y + 1) (y + 4) is t + 4, and (y + 2) (y + 3) is t + 6
  P n;          ///< the nearest integer to x where x < 1/2
  P sine;       ///< sin(pi (x - n)) where x < 1/2, a zero for integers alone; else 1
  P cosine;     ///< cos(pi (x - n)) where x < 1/2

  explicit ReducedGamma(const P& x) {
    const P half = Set<P>(0.5), one = Set<P>(1);
    reflected = pk::pcmp_lt(x, half);
    const P y = pk::pselect(reflected, P(pk::psub(one, x)), x);
    w = pk::padd(y, Set<P>(6));
    held = pk::pmin(y, Set<P>(1e30));
    t = pk::pmul(held, P(pk::padd(held, Set<P>(5))));
    n = pk::pzero(x);
    sine = cosine = one;
    if (AllLess(half, x)) return;
    // Floats beyond these bounds are integers, and so are the bounds that replace them.
    const P near = Within(x, -0x1p30, 0x1p30);
    n = ToWhole(near);
    const P angle = pk::pmul(P(pk::psub(near, n)), Set<P>(3.1415926535897931));
    const ReducedTurn<P> turn(angle);
    const P value = KeepZero(angle, SineOfTurns(turn.n, turn.sine, turn.cosine));
    sine = pk::pselect(reflected, value, one);
    cosine = SineOfTurns(P(pk::padd(turn.n, one)), turn.sine, turn.cosine);
  }
  /// Returns y (y + 1) … (y + 5).
  P Product() const {
    return pk::pmul(P(pk::pmul(t, P(pk::padd(t, Set<P>(4))))), P(pk::padd(t, Set<P>(6))));
  }
  /// Returns log gamma(w) by Stirling's series (6.1.41) up to w^-15. The error is at most 3e-15
  /// plus rounding, so small that the difference that remains near the zeros of log gamma(x) is
  /// accurate enough for a float.
  P LogGammaOfW() const {
    static constexpr double kStirling[] = {1.0 / 12,    -1.0 / 360,      1.0 / 1260,
                                           -1.0 / 1680, 1.0 / 1188,      -691.0 / 360360,
                                           1.0 / 156,   -3617.0 / 122400};
    const P z = pk::pdiv(Set<P>(1), w);
    const P series = pk::pmul(z, Polynomial(P(pk::pmul(z, z)), kStirling));
    // 0.91… is log(2 pi) / 2. This form subtracts no infinity from another.
    const P main = pk::pmul(P(pk::psub(w, Set<P>(0.5))), P(pk::psub(Log(w), Set<P>(1))));
    return pk::padd(main, P(pk::padd(series, Set<P>(0.91893853320467274 - 0.5))));
  }
};

/// Returns psi(x), the derivative of log gamma(x), for floats. psi(y) is psi(w) - sum of 1 / (y +
/// k) up to k = 5, with psi(w) by the series of special_functions.h. The reflection psi(1 - x) - pi
/// / tan(pi x) gives psi(x) where x < 1/2.
template <RealPacket P>
inline P Digamma(const P& x) {
  return InDouble(x, []<typename D>(const D& a) {
    static constexpr double kSeries[] = {-1.0 / 12,  1.0 / 120,       -1.0 / 252, 1.0 / 240,
                                         -1.0 / 132, 691.0 / 32760.0, -1.0 / 12,  3617.0 / 8160};
    const ReducedGamma<D> r(a);
    // Each pair of fractions has a numerator of 2 y + 5.
    const D over = MultiplyAdd(MultiplyAdd(r.t, Set<D>(3), Set<D>(20)), r.t, Set<D>(24));
    const D sum =
        pk::pdiv(D(pk::pmul(MultiplyAdd(r.held, Set<D>(2), Set<D>(5)), over)), r.Product());
    const D z = pk::pdiv(Set<D>(1), r.w);
    const D square = pk::pmul(z, z);
    const D rest = MultiplyAdd(square, Polynomial(square, kSeries), D(pk::pmul(z, Set<D>(-0.5))));
    const D psi = pk::padd(Log(r.w), D(pk::psub(rest, sum)));
    const D cotangent = pk::pdiv(D(pk::pmul(r.cosine, Set<D>(-3.1415926535897931))), r.sine);
    const D value = pk::pselect(r.reflected, D(pk::padd(psi, cotangent)), psi);
    const D zero = pk::pzero(a);
    const D nan = Set<D>(std::numeric_limits<double>::quiet_NaN());
    return WhereEqual(r.sine, zero, WhereLess(a, zero, nan, value), value);
  });
}

/// Returns log|gamma(x)| for floats. gamma(y) is gamma(w) / (y (y + 1) … (y + 5)). |gamma(x)| is pi
/// / (|sin(pi x)| gamma(1 - x)) where x < 1/2.
template <RealPacket P>
inline P LogGamma(const P& x) {
  return InDouble(x, []<typename D>(const D& a) {
    const ReducedGamma<D> r(a);
    D argument = r.Product();
    if (!AllLess(Set<D>(0.5), a)) {
      const D over_sine =
          pk::pdiv(D(pk::pmul(argument, Set<D>(3.1415926535897931))), D(pk::pabs(r.sine)));
      argument = pk::pselect(r.reflected, over_sine, argument);
    }
    const D log = Log(argument);
    const D of_w = r.LogGammaOfW();
    const D value = pk::pselect(r.reflected, D(pk::psub(log, of_w)), D(pk::psub(of_w, log)));
    const D infinity = Set<D>(std::numeric_limits<double>::infinity());
    const D finite = WhereEqual(D(pk::pabs(a)), infinity, infinity, value);
    // Rounding would lose the two zeros that floats have, at 1 and 2.
    const D zero = pk::pzero(a);
    return WhereEqual(a, Set<D>(1), zero, WhereEqual(a, Set<D>(2), zero, finite));
  });
}

/// Returns gamma(x) for floats, by the formulas of LogGamma.
template <RealPacket P>
inline P Gamma(const P& x) {
  return InDouble(x, []<typename D>(const D& a) {
    // Results above 100 are infinite. Results below -1000 are zeros, except at integers.
    const ReducedGamma<D> r(Within(a, -1e30, 100));
    const D product = r.Product();
    const D of_w = Exp(r.LogGammaOfW());
    D value = pk::pdiv(of_w, product);
    const D zero = pk::pzero(a);
    if (!AllLess(Set<D>(0.5), a)) {
      D half;
      const D odd = OddPart(r.n, &half);
      const D sine = WhereEqual(odd, zero, r.sine, D(pk::pnegate(r.sine)));
      const D reflected =
          pk::pdiv(D(pk::pmul(product, Set<D>(3.1415926535897931))), D(pk::pmul(sine, of_w)));
      const D nan = Set<D>(std::numeric_limits<double>::quiet_NaN());
      const D pole = WhereLess(a, zero, nan, reflected);
      value = pk::pselect(r.reflected, WhereEqual(r.sine, zero, pole, reflected), value);
    }
    const D infinity = Set<D>(std::numeric_limits<double>::infinity());
    return WhereEqual(a, infinity, infinity, value);
  });
}

}  // namespace packet_math

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_GAMMA_PACKET_MATH_H_
