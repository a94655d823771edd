#ifndef TESSERA_TENSOR_PACKET_TRIGONOMETRIC_PACKET_MATH_H_
#define TESSERA_TENSOR_PACKET_TRIGONOMETRIC_PACKET_MATH_H_

#include <concepts>

#include "tessera/tensor/packet/packet.h"
#include "tessera/tensor/packet/packet_math.h"

/// Sine, cosine, tangent and their inverses for packets; packet_math.h states their accuracy.
namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

namespace packet_math {

/// Subtracts n part, which is exact, from *r. Returns the rounding error of the subtraction.
template <typename P>
inline P SubtractTurns(const P& n, double part, P* r) {
  const P minus_part = Set<P>(-part);
  const P before = *r;
  *r = MultiplyAddAsRounded(n, minus_part, before);
  return MultiplyAddAsRounded(n, minus_part, AsRounded(P(pk::psub(before, *r))));
}

/// The reduction x = n pi / 2 + r with an integer n and |r| at most a little over pi / 4, for |x|
/// below Constants::kTurnsHighest (after Cody and Waite). The rounding error of r is added at the
/// end if kKeepsLost is true: it is half an ulp, which a tangent of double cannot spare.
template <typename P, bool kKeepsLost = false>
struct ReducedTurn {
  P n;       ///< the number of quarter turns
  P sine;    ///< sin(r)
  P cosine;  ///< cos(r)

  explicit ReducedTurn(const P& x) {
    using C = Constants<ScalarOf<P>>;
    n = ToWhole(P(pk::pmul(x, Set<P>(0.63661977236758134))));
    P r = MultiplyAddAsRounded(n, Set<P>(-C::kQuarterTurn[0]), x);
    const P last = Set<P>(-C::kQuarterTurn[3]);
    if constexpr (kKeepsLost) {
      P lost = SubtractTurns(n, C::kQuarterTurn[1], &r);
      lost = pk::padd(lost, SubtractTurns(n, C::kQuarterTurn[2], &r));
      r = pk::padd(r, MultiplyAdd(n, last, lost));
    } else {
      r = MultiplyAddAsRounded(n, Set<P>(-C::kQuarterTurn[1]), r);
      r = MultiplyAddAsRounded(n, Set<P>(-C::kQuarterTurn[2]), r);
      r = MultiplyAdd(n, last, r);
    }
    const P square = pk::pmul(r, r);
    sine = MultiplyAdd(P(pk::pmul(square, r)), Polynomial(square, C::kSin), r);
    const P less = MultiplyAdd(square, Set<P>(-0.5), Set<P>(1));
    cosine = MultiplyAdd(P(pk::pmul(square, square)), Polynomial(square, C::kCos), less);
  }
};

/// Returns 1 where the integer n is odd, else 0. Sets *half to n / 2 rounded downwards.
template <typename P>
inline P OddPart(const P& n, P* half) {
  *half = ToWhole(MultiplyAddAsRounded(n, Set<P>(0.5), Set<P>(-0.25)));
  return pk::psub(n, P(pk::padd(*half, *half)));
}

/// Returns the sine of n pi / 2 + r, given the sine and cosine of r.
template <typename P>
inline P SineOfTurns(const P& n, const P& sine, const P& cosine) {
  P half, quarter;
  const P odd = OddPart(n, &half);
  const P negative = OddPart(half, &quarter);
  const P magnitude = WhereEqual(odd, P(pk::pzero(n)), sine, cosine);
  return WhereEqual(negative, P(pk::pzero(n)), magnitude, P(pk::pnegate(magnitude)));
}

/// Returns `result`, except that it is scalar(x) in the lanes whose |x| is not below
/// Constants::kTurnsHighest. A number that is in every lane costs one call. The packets are passed
/// by value, since kernels would store all packets for references to them.
template <typename P, typename Scalar>
__attribute__((noinline)) P WithLargeLanes(P x, P result, Scalar scalar) {
  using T = ScalarOf<P>;
  alignas(64) T lanes[pk::unpacket_traits<P>::size], results[pk::unpacket_traits<P>::size];
  pk::pstore(lanes, x);
  pk::pstore(results, result);
  for (int i = 0; i < pk::unpacket_traits<P>::size; ++i) {
    if (__builtin_fabs(lanes[i]) < Constants<T>::kTurnsHighest) continue;
    results[i] = i > 0 && lanes[i] == lanes[0] ? results[0] : scalar(lanes[i]);
  }
  return pk::pload<P>(results);
}

/// Returns function(x), or scalar(x) in the lanes whose |x| is not below Constants::kTurnsHighest.
/// The C library reduces such large numbers. `scalar` calls it as a builtin: a std::sin(float) that
/// is not inlined would be code for this instruction set under a name that other sets have as well.
template <typename P, typename Function, typename Scalar>
inline P InTurns(const P& x, const Function& function, const Scalar& scalar) {
  const P result = function(x);
  if (AllLess(P(pk::pabs(x)), Set<P>(Constants<ScalarOf<P>>::kTurnsHighest))) return result;
  return WithLargeLanes(x, result, scalar);
}

/// Returns the sine of x in radians.
template <RealPacket P>
inline P Sin(const P& x) {
  const auto sine = [](const P& a) {
    const ReducedTurn<P> turn(a);
    return KeepZero(a, SineOfTurns(turn.n, turn.sine, turn.cosine));
  };
  return InTurns(x, sine, [](auto a) {
    if constexpr (std::same_as<decltype(a), float>) {
      return __builtin_sinf(a);
    } else {
      return __builtin_sin(a);
    }
  });
}
/// Returns the cosine of x in radians.
template <RealPacket P>
inline P Cos(const P& x) {
  const auto cosine = [](const P& a) {
    const ReducedTurn<P> turn(a);
    return SineOfTurns(P(pk::padd(turn.n, Set<P>(1))), turn.sine, turn.cosine);
  };
  return InTurns(x, cosine, [](auto a) {
    if constexpr (std::same_as<decltype(a), float>) {
      return __builtin_cosf(a);
    } else {
      return __builtin_cos(a);
    }
  });
}
/// Returns the tangent of x in radians.
template <RealPacket P>
inline P Tan(const P& x) {
  const auto tangent = [](const P& a) {
    const ReducedTurn<P, std::same_as<ScalarOf<P>, double>> turn(a);
    P half;
    const P odd = OddPart(turn.n, &half);
    const P zero = pk::pzero(a);
    const P over = WhereEqual(odd, zero, turn.sine, P(pk::pnegate(turn.cosine)));
    return KeepZero(a, P(pk::pdiv(over, WhereEqual(odd, zero, turn.cosine, turn.sine))));
  };
  return InTurns(x, tangent, [](auto a) {
    if constexpr (std::same_as<decltype(a), float>) {
      return __builtin_tanf(a);
    } else {
      return __builtin_tan(a);
    }
  });
}

/// Returns atan(x). atan|x| is a polynomial up to tan(pi / 8), pi / 4 + atan((|x| - 1) / (|x| + 1))
/// up to tan(3 pi / 8), and pi / 2 + atan(-1 / |x|) beyond. The limits are those of S. L. Moshier's
/// Cephes, atan.c.
template <RealPacket P>
inline P Atan(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const P a = pk::pabs(x);
  const P zero = pk::pzero(x), one = Set<P>(1);
  const P first = Set<P>(0.41421356237309503), second = Set<P>(2.4142135623730949);
  const auto choose = [&](const P& inner, const P& middle, const P& outer) {
    return WhereLess(first, a, WhereLess(second, a, outer, middle), inner);
  };
  const P t =
      pk::pdiv(choose(a, P(pk::psub(a, one)), Set<P>(-1)), choose(one, P(pk::padd(a, one)), a));
  const P square = pk::pmul(t, t);
  const P angle = MultiplyAdd(P(pk::pmul(square, t)), Polynomial(square, C::kAtan), t);
  const P turn = choose(zero, Set<P>(0.78539816339744831), Set<P>(1.5707963267948966));
  return pk::por(P(pk::padd(turn, angle)), SignBit(x));
}

/// The arc sine of s for |x| <= 1. s is |x| up to 1 / 2, and sqrt((1 - |x|) / 2) beyond. The arc
/// sine of the latter is half of pi / 2 - asin|x|.
template <typename P>
struct ReducedArc {
  P inner;  ///< a mask of the lanes where |x| <= 1 / 2
  P angle;  ///< the arc sine of s

  explicit ReducedArc(const P& x) {
    const P a = pk::pabs(x);
    const P half = Set<P>(0.5);
    inner = pk::pcmp_le(a, half);
    const P rest = pk::pmul(half, P(pk::psub(Set<P>(1), a)));
    const P square = pk::pselect(inner, P(pk::pmul(a, a)), rest);
    const P s = pk::pselect(inner, a, SquareRoot(rest));
    angle =
        MultiplyAdd(P(pk::pmul(square, s)), Polynomial(square, Constants<ScalarOf<P>>::kAsin), s);
  }
};

/// Returns the arc sine; NaN where |x| > 1.
template <RealPacket P>
inline P Asin(const P& x) {
  const ReducedArc<P> arc(x);
  const P outer = pk::psub(Set<P>(1.5707963267948966), P(pk::padd(arc.angle, arc.angle)));
  return pk::por(P(pk::pselect(arc.inner, arc.angle, outer)), SignBit(x));
}
/// Returns the arc cosine; NaN where |x| > 1.
template <RealPacket P>
inline P Acos(const P& x) {
  const ReducedArc<P> arc(x);
  const P zero = pk::pzero(x);
  const P twice = pk::padd(arc.angle, arc.angle);
  const P outer = WhereLess(x, zero, P(pk::psub(Set<P>(3.1415926535897931), twice)), twice);
  const P angle = pk::por(arc.angle, SignBit(x));
  return pk::pselect(arc.inner, P(pk::psub(Set<P>(1.5707963267948966), angle)), outer);
}

}  // namespace packet_math

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_TRIGONOMETRIC_PACKET_MATH_H_
