#ifndef TESSERA_TENSOR_PACKET_PACKET_MATH_H_
#define TESSERA_TENSOR_PACKET_PACKET_MATH_H_

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/tensor/packet/half_packet.h"
#include "tessera/tensor/packet/packet.h"

/// Elementary functions of packets of float or double; trigonometric_packet_math.h,
/// power_packet_math.h and gamma_packet_math.h have more of them.
///
/// Eigen 3.4's own functions are not used where they give wrong results at the ends of the range.
/// Its exp never falls below the least normal number. Its log takes subnormal numbers for the least
/// normal number. Its square root of float is an estimate that is wrong for infinities.
///
/// Accuracy over the whole range, subnormal arguments and results included: at most 2 ulp for exp,
/// exp2, log, log2 and cbrt; 3 for expm1, log1p, log10, sin, cos, the arc functions and the
/// hyperbolic functions except tanh; 4 for tan, tanh, sigmoid, softplus, erf and erfc; 5 for gelu,
/// whose derivative is within 6 ulp of the larger of its magnitude and 1/2. The bound is 1 ulp for
/// pow and the gamma functions, which exist for float alone. The square root is correctly rounded.
/// exp2 of an integer is exact, and so are log2, log10 and cbrt if their result is an integer.
/// Infinities, NaN and zeros of either sign give the results of the C functions.
namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {
namespace packet_math {

/// The element type of a packet.
template <typename P>
using ScalarOf = typename pk::unpacket_traits<P>::type;

/// Satisfied if there are packets of integers beside P. A single number, which Eigen uses in place
/// of a packet under nvcc, has none.
template <typename P>
concept HasWholePacket = requires {
  typename pk::unpacket_traits<P>::integer_packet;
};

/// Returns `value` in every lane.
template <typename P>
TESSERA_HD P Set(double value) {
  return pk::pset1<P>(static_cast<ScalarOf<P>>(value));
}

/// Returns x as a value that the compiler takes for unknown. Otherwise it would cancel terms of x
/// against others under flags such as -ffast-math, although their difference is the rounding error
/// that is wanted.
template <typename P>
TESSERA_HD P AsRounded(P x) {
#if !TESSERA_DEVICE_CODE
  EIGEN_OPTIMIZATION_BARRIER(x)
#endif
  return x;
}

/// Returns a b + c. The result is rounded once if the instruction set has fused multiply-add, as
/// all sets with AVX2 have here.
template <typename P>
TESSERA_HD P MultiplyAdd(const P& a, const P& b, const P& c) {
  return pk::pmadd(a, b, c);
}

/// Returns a b + c as a value that the compiler takes for unknown; see AsRounded. A fused
/// multiply-add needs no more, since the compiler does not take one instruction apart.
template <typename P>
TESSERA_HD P MultiplyAddAsRounded(const P& a, const P& b, const P& c) {
#if defined(__FMA__)
  return MultiplyAdd(a, b, c);
#else
  return AsRounded(MultiplyAdd(a, b, c));
#endif
}

/// Returns c[kFirst] + c[kFirst + 1] x + c[kFirst + 2] x^2 + …, given x and x^2. It adds two terms
/// at a time, so that the chain of dependent operations is half as long as term by term (after G.
/// Estrin, Organization of computer systems, 1960).
template <size_t kFirst, typename P, size_t kCount>
TESSERA_HD P PolynomialInPairs(const P& x, const P& square, const double (&c)[kCount]) {
  if constexpr (kFirst + 1 == kCount) {
    return Set<P>(c[kFirst]);
  } else {
    const P pair = MultiplyAdd(Set<P>(c[kFirst + 1]), x, Set<P>(c[kFirst]));
    if constexpr (kFirst + 2 == kCount) {
      return pair;
    } else {
      return MultiplyAdd(PolynomialInPairs<kFirst + 2>(x, square, c), square, pair);
    }
  }
}

/// Returns c[0] + c[1] x + c[2] x^2 + ….
template <typename P, size_t kCount>
TESSERA_HD P Polynomial(const P& x, const double (&c)[kCount]) {
  return PolynomialInPairs<0>(x, P(pk::pmul(x, x)), c);
}

/// Constants for one type. ln 2 is a sum of two numbers, the first with so few bits that its
/// product with any exponent is exact (Cody and Waite, Software Manual for the Elementary
/// Functions, 1980). The polynomials interpolate the functions at Chebyshev nodes; they were
/// computed in 60 digits.
template <typename T>
struct Constants;
template <>
struct Constants<float> {
  /// The two numbers add up to ln 2.
  static constexpr double kLn2High = 0.693359375, kLn2Low = -0.00021219444005469057;
  /// Adding kRounder to a number below 2^22 (double: 2^51) leaves only its integer part.
  static constexpr double kRounder = 12582912.0;
  /// exp(x) is 0 below kExpLowest and infinite above kExpHighest. expm1(x) is -1 to the last bit
  /// below -kOneDisappears.
  static constexpr double kExpLowest = -104, kExpHighest = 89, kOneDisappears = 20;
  /// 2^x is 0 below kExp2Lowest and infinite above kExp2Highest. sinh and cosh are infinite above
  /// kSinhHighest.
  static constexpr double kExp2Lowest = -151, kExp2Highest = 129, kSinhHighest = 90;
  /// The two numbers add up to log10(2); the product of the first with any exponent is exact.
  static constexpr double kLog10Of2High = 0.301025390625, kLog10Of2Low = 4.6050389811952137e-06;
  /// sinh(x) is x to the last bit below kSinhIsX.
  static constexpr double kSinhIsX = 1e-4;
  /// x and x + 1 have the same square root and the same logarithm above kOneIsLost. The square of x
  /// is finite up to it.
  static constexpr double kOneIsLost = 0x1p60;
  /// The numbers add up to pi / 2. The product of each except the last with an integer n is exact
  /// for |x| below kTurnsHighest, where |n| is at most 2 |x| / pi.
  static constexpr double kTurnsHighest = 8192;
  static constexpr double kQuarterTurn[] = {0x1.92p+0, 0x1.fb4p-12, 0x1.444p-24, 0x1.68c234p-39};
  /// kSin and kCos are (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 as functions of r^2,
  /// |r| <= pi / 4, within 3e-11 and 2e-9.
  static constexpr double kSin[] = {-0.16666666663826582, 0.0083333318635607676,
                                    -0.00019840080719912244, 2.7249146796813166e-06};
  static constexpr double kCos[] = {0.041666664644155811, -0.0013888300056586712,
                                    2.45472991724818e-05};
  /// kAtan is (atan(x) / x - 1) / x^2 as a function of x^2, x <= tan(pi / 8), within 2e-8. kAsin is
  /// that of asin, x <= 1 / 2, within 5e-9.
  static constexpr double kAtan[] = {-0.33333331746431514, 0.19999537099824087,
                                     -0.14263838476131002, 0.10742466849090754,
                                     -0.064477410471124039};
  static constexpr double kAsin[] = {0.1666666633654049,   0.075000947611729011,
                                     0.044599319162871138, 0.031101727829067167,
                                     0.017143716819253569, 0.033700726321365132};
  /// tanh(x) is 1 to the last bit above kTanhIsOne.
  static constexpr double kTanhIsOne = 10;
  /// The factor c of Sigmoid.
  static constexpr double kSigmoidFactor = 0x1p-100;
  /// kExp is (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, within 8e-9 / r^2.
  static constexpr double kExp[] = {0.5, 0.16666576305560638, 0.041666553762567636,
                                    0.008363292753030603, 0.0013926325618133463};
  /// kLog is (log((1 + s) / (1 - s)) - 2 s) / s^3 as a function of s^2 <= 0.0298, within 4e-11 /
  /// s^2.
  static constexpr double kLog[] = {0.6666666654988318, 0.40000125594554364, 0.28550396959618013,
                                    0.23341943388714562};
  /// kErf is erf(x) / x - 1 as a function of x^2 <= 1, within 2e-9.
  static constexpr double kErf[] = {
      0.12837916584835095,  -0.37612626666720331,    0.11283594715160218,   -0.026854212010626412,
      0.005189087423433974, -0.00080168642871658695, 7.8758750626854883e-05};
  /// kErfcx is exp(x^2) erfc(x) as a function of (x - 3) / (x + 3) for 1 <= x <= kErfIsOne, within
  /// 4e-9 of its contribution to erf.
  static constexpr double kErfIsOne = 4;
  static constexpr double kErfcx[] = {
      0.17900114450585103,  -0.32623367423291652, 0.24560599224302345,  -0.15009834297159001,
      0.071603503907736048, -0.02507963778089453, 0.0027427490708589713};
  /// kErfc is R in (1 + 2 x) exp(x^2) erfc(x) = Q(c) + t R(t), a polynomial in t = (x - c) / (x +
  /// c), with c = kErfcCentre and Q(c) = kErfcAtCentre. It holds from 0.46 to kErfcIsZero, within
  /// 7e-10.
  static constexpr double kErfcIsZero = 10.2, kErfcCentre = 3, kErfcAtCentre = 1.2530080589270417;
  static constexpr double kErfc[] = {
      -0.13562110663028117,    -0.047562393993754654,  0.12964514592854627,   -0.11927122258543313,
      0.068309236146137833,    -0.023791699107133232,  0.0025129906525673987, 0.0019644826476063332,
      -0.00070232057947021444, -0.00019965353926637746};
  /// kNormalTail is R in (a + c) exp(a^2 / 2) P = Q(c) + t R(t), where P is the standard normal
  /// distribution function at -a: a polynomial in t = (a - c) / (a + c), with c =
  /// kNormalTailCentre and Q(c) = kNormalTailAtCentre. It holds from 0 to kNormalTailIsZero, within
  /// 2e-9 of the left side. a P vanishes beyond.
  static constexpr double kNormalTailIsZero = 15, kNormalTailCentre = 3,
                          kNormalTailAtCentre = 0.72908369071397936;
  static constexpr double kNormalTail[] = {-0.50933198883453912,   0.23001767667416652,
                                           -0.04726276192117602,   -0.010462288966531259,
                                           0.0069699201509127923,  0.0010241573243785498,
                                           -0.0010344765508861835, -0.00024470932079177607,
                                           0.00013332395420363602, 5.5491871716794677e-5};
};
template <>
struct Constants<double> {
  static constexpr double kLn2High = 0.6931471805582987, kLn2Low = 1.6465949582897082e-12;
  static constexpr double kRounder = 6755399441055744.0;
  static constexpr double kExpLowest = -746, kExpHighest = 710, kOneDisappears = 40;
  static constexpr double kExp2Lowest = -1076, kExp2Highest = 1025, kSinhHighest = 711;
  static constexpr double kLog10Of2High = 0.30102999566224752925,
                          kLog10Of2Low = 1.7336659603752854e-12;
  static constexpr double kSinhIsX = 1e-8;
  static constexpr double kOneIsLost = 0x1p500;
  static constexpr double kTurnsHighest = 1048576;
  static constexpr double kQuarterTurn[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                                            0x1.b839a252049c1p-104};
  static constexpr double kSin[] = {-0.16666666666666667,    0.0083333333333333315,
                                    -0.00019841269841265004, 2.7557319219291696e-06,
                                    -2.5052106215978873e-08, 1.6058529011960857e-10,
                                    -7.5865436341019029e-13};
  static constexpr double kCos[] = {0.041666666666666665,   -0.0013888888888887378,
                                    2.4801587298736861e-05, -2.7557317256796041e-07,
                                    2.0876143159909439e-09, -1.1382408754153255e-11};
  // kAtan and kAsin are within 2e-18 and 2e-17.
  static constexpr double kAtan[] = {
      -0.33333333333333333,  0.19999999999999801,  -0.14285714285658822,  0.11111111105057569,
      -0.090909087486352318, 0.07692296234491514,  -0.066664223640332062, 0.058789000323429833,
      -0.052302411507893995, 0.045506220391755361, -0.034545610104858492, 0.016258132064979208};
  static constexpr double kAsin[] = {
      0.16666666666666668,  0.074999999999984243,  0.044642857146373381, 0.030381944137085214,
      0.022372173002005597, 0.017352391265909228,  0.013971235301124539, 0.011478952690257387,
      0.010324318288744112, 0.0054508781877205499, 0.017419357964884857, -0.014881409392818067,
      0.028778442612593041};
  static constexpr double kTanhIsOne = 20;
  static constexpr double kSigmoidFactor = 0x1p-900;
  static constexpr double kExp[] = {0.5,
                                    0.1666666666666667,
                                    0.04166666666666667,
                                    0.008333333333326025,
                                    0.001388888888888367,
                                    0.00019841269875205077,
                                    2.4801587325822283e-05,
                                    2.75572549134867e-06,
                                    2.7557273295539724e-07,
                                    2.5105419192016337e-08,
                                    2.091483135138041e-09};
  static constexpr double kLog[] = {0.666666666666667,   0.3999999999989322,  0.28571428628810996,
                                    0.22222210674238516, 0.18182922513515942, 0.15330617306743305,
                                    0.1463003136412286};
  // kErf and kErfcx are within 2e-19 and 2e-18.
  static constexpr double kErf[] = {
      0.12837916709551257,     -0.37612638903183748,    0.11283791670954879,
      -0.026866170645076793,   0.0052239776248180145,   -0.00085483269808337899,
      0.00012055331111642711,  -1.4925595266831182e-05, 1.6461000484121368e-06,
      -1.6350312701054695e-07, 1.4659775274047436e-08,  -1.1372848856791674e-09,
      5.9571761477489114e-11};
  static constexpr double kErfIsOne = 6;
  static constexpr double kErfcx[] = {
      0.17900115118138995,     -0.32623356004303721,   0.24560380171233487,
      -0.15011593650077899,    0.07166583719747307,    -0.024392499318915005,
      0.0042691363569612253,   0.00070774646669414251, -0.00059706249649245444,
      4.5254345589910084e-05,  6.4062792260460392e-05, -1.2845780030775907e-05,
      -8.0097809390760793e-06, 2.0135111426447428e-06, 1.2755818949624479e-06,
      3.3813551420429038e-09};
  // kErfc is within 4e-18.
  static constexpr double kErfcIsZero = 27.3, kErfcCentre = 4, kErfcAtCentre = 1.2329951186255525;
  static constexpr double kErfc[] = {
      -0.13962111684056255,    0.015379652102619231,   0.068097054254696986,
      -0.10103906603626683,    0.093732834998201312,   -0.06633036581328541,
      0.03716751553974719,     -0.016197734042258581,  0.0050319699601077617,
      -0.00075777342035748613, -0.0001992566205907671, 0.00015062237337314641,
      -2.4399332720758186e-5,  -1.1224409513481581e-5, 5.7094713519505946e-6,
      2.9904264049467313e-7,   -8.2376679108376631e-7, 6.7478643659951818e-8,
      1.0666534303036198e-7,   -1.2393698872721954e-8, -1.0821403186015488e-8};
  // kNormalTail is within 3e-18.
  static constexpr double kNormalTailIsZero = 39, kNormalTailCentre = 7,
                          kNormalTailAtCentre = 0.78250875416756747;
  static constexpr double kNormalTail[] = {
      -0.72432029609162493,   0.62008509937036942,   -0.49011444948827197,   0.35666445160403294,
      -0.2379895358634079,    0.14475817472940623,   -0.07958910052567604,   0.039063543784468754,
      -0.016784381044376845,  0.0061030340474512811, -0.0017508197438374642, 0.00032068374784969685,
      9.5454944604331441e-6,  -3.224424819526222e-5, 1.1091763369337163e-5,  -6.677970475221053e-7,
      -9.3187308134795117e-7, 3.5187463557398822e-7, 1.2836060156220787e-8,  -4.5029310573058249e-8,
      4.7615913430910599e-9,  3.9739767723011186e-9};
};

/// Rounds x to the nearest integer, ties to even. Requires: |x| is below Constants::kRounder / 4.
template <typename P>
TESSERA_HD P ToWhole(const P& x) {
  const P rounder = Set<P>(Constants<ScalarOf<P>>::kRounder);
  return AsRounded(P(pk::psub(AsRounded(P(pk::padd(x, rounder))), rounder)));
}

/// Returns exp(r) - 1 for |r| at most a little over ln(2) / 2.
template <typename P>
TESSERA_HD P Expm1OfSmall(const P& r) {
  return MultiplyAdd(pk::pmul(r, r), Polynomial(r, Constants<ScalarOf<P>>::kExp), r);
}

/// The reduction x = n ln(2) + r with an integer n and |r| at most a little over ln(2) / 2.
template <typename P>
struct ReducedExp {
  P n;        ///< the integer n
  P expm1_r;  ///< exp(r) - 1

  TESSERA_HD explicit ReducedExp(const P& x) {
    using C = Constants<ScalarOf<P>>;
    n = ToWhole(P(pk::pmul(x, Set<P>(1.4426950408889634))));
    const P r = MultiplyAddAsRounded(n, Set<P>(-C::kLn2High), x);
    expm1_r = Expm1OfSmall(MultiplyAdd(n, Set<P>(-C::kLn2Low), r));
  }
};

/// Limits x to [low, high]; lanes of NaN stay NaN.
template <typename P>
TESSERA_HD P Within(const P& x, double low, double high) {
  return pk::pmin(pk::pmax(x, Set<P>(low)), Set<P>(high));
}
/// Returns a where x < y, else b.
template <typename P>
TESSERA_HD P WhereLess(const P& x, const P& y, const P& a, const P& b) {
  return pk::pselect(pk::pcmp_lt(x, y), a, b);
}
/// Returns a where x == y, else b.
template <typename P>
TESSERA_HD P WhereEqual(const P& x, const P& y, const P& a, const P& b) {
  return pk::pselect(pk::pcmp_eq(x, y), a, b);
}
#if defined(EIGEN_VECTORIZE_AVX512)
// AVX-512 compares into a mask register. Eigen turns it into a packet and back; these do not.
TESSERA_HD pk::Packet16f WhereLess(const pk::Packet16f& x, const pk::Packet16f& y,
                                   const pk::Packet16f& a, const pk::Packet16f& b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
TESSERA_HD pk::Packet8d WhereLess(const pk::Packet8d& x, const pk::Packet8d& y,
                                  const pk::Packet8d& a, const pk::Packet8d& b) {
  return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(x, y, _CMP_LT_OQ), b, a);
}
TESSERA_HD pk::Packet16f WhereEqual(const pk::Packet16f& x, const pk::Packet16f& y,
                                    const pk::Packet16f& a, const pk::Packet16f& b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_EQ_OQ), b, a);
}
TESSERA_HD pk::Packet8d WhereEqual(const pk::Packet8d& x, const pk::Packet8d& y,
                                   const pk::Packet8d& a, const pk::Packet8d& b) {
  return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(x, y, _CMP_EQ_OQ), b, a);
}
#endif
/// Returns `result`, except that the result for a zero x, of either sign, is x.
template <typename P>
TESSERA_HD P KeepZero(const P& x, const P& result) {
  return WhereEqual(x, P(pk::pzero(x)), x, result);
}
/// Returns the sign of x as a bit mask: that of -0.0, or no bit.
template <typename P>
TESSERA_HD P SignBit(const P& x) {
  return pk::pand(x, Set<P>(-0.0));
}

/// Returns a 2^n, rounded once; NaN where a is NaN. Requires: n is an integer between -252 and 254
/// (double: -2099 and 2099), and a 2^(n/2) is a normal number or a itself.
template <RealPacket P>
inline P Scale(const P& a, const P& n) {
  if constexpr (std::same_as<ScalarOf<P>, float> && HasWholePacket<P>) {
    using Whole = typename pk::unpacket_traits<P>::integer_packet;
    const Whole bias = pk::pset1<Whole>(127);
    const Whole exponent = pk::pcast<P, Whole>(n);
    const Whole half = pk::parithmetic_shift_right<1>(exponent);
    const Whole rest = pk::psub(exponent, half);
    const auto power = [&](const Whole& of_two) {
      return pk::preinterpret<P>(pk::plogical_shift_left<23>(Whole(pk::padd(of_two, bias))));
    };
    return pk::pmul(AsRounded(P(pk::pmul(a, P(power(half))))), P(power(rest)));
  } else {
    return pk::pldexp(a, n);
  }
}
#if defined(EIGEN_VECTORIZE_AVX512)
inline pk::Packet16f Scale(const pk::Packet16f& a, const pk::Packet16f& n) {
  return _mm512_scalef_ps(a, n);
}
inline pk::Packet8d Scale(const pk::Packet8d& a, const pk::Packet8d& n) {
  return _mm512_scalef_pd(a, n);
}
#endif

/// Returns exp(x) as 2^n exp(r). Requires: x is within Constants::kExpLowest and kExpHighest, or
/// NaN.
template <RealPacket P>
inline P ExpWithin(const P& x) {
  const ReducedExp<P> reduced(x);
  return Scale(P(pk::padd(reduced.expm1_r, Set<P>(1))), reduced.n);
}

/// Returns exp(x); NaN passes through all steps.
template <RealPacket P>
inline P Exp(const P& x) {
  using C = Constants<ScalarOf<P>>;
  return ExpWithin(Within(x, C::kExpLowest, C::kExpHighest));
}

/// Returns 2^x as 2^n exp((x - n) ln(2)) with the nearest integer n to x.
template <RealPacket P>
inline P Exp2(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const P held = Within(x, C::kExp2Lowest, C::kExp2Highest);
  const P n = ToWhole(held);
  const P r = pk::pmul(P(pk::psub(held, n)), Set<P>(0.69314718055994531));
  return Scale(P(pk::padd(Expm1OfSmall(r), Set<P>(1))), n);
}

/// Returns (exp(x) - 1) 2^kShift as 2^n ((exp(r) - 1) + (1 - 2^-n)) 2^kShift, which loses no digits
/// of a small x.
template <int kShift, typename P>
inline P ScaledExpm1(const ReducedExp<P>& reduced) {
  const P one = Set<P>(1);
  const P less = AsRounded(P(pk::psub(one, Scale(one, P(pk::pnegate(reduced.n))))));
  // The sum may be small, or a zero, but n is then 0 or -1.
  return Scale(P(pk::padd(reduced.expm1_r, less)), P(pk::padd(reduced.n, Set<P>(kShift))));
}

/// Returns exp(x) - 1.
template <RealPacket P>
inline P Expm1(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const ReducedExp<P> reduced(Within(x, -2 * C::kOneDisappears, C::kExpHighest));
  return KeepZero(x, ScaledExpm1<0>(reduced));
}

/// Returns sinh(x). sinh|x| is t + t / (2 t + 1) with t = (exp|x| - 1) / 2, as in Sun's fdlibm,
/// e_sinh.c.
template <RealPacket P>
inline P Sinh(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const P a = pk::pabs(x);
  const P t = ScaledExpm1<-1>(ReducedExp<P>(Within(a, 0, C::kSinhHighest)));
  const P one = Set<P>(1);
  const P rest = pk::pdiv(t, P(pk::padd(P(pk::padd(t, t)), one)));
  // The rest is NaN for an infinite t, and negligible for a large one.
  const P magnitude = pk::padd(t, WhereLess(t, Set<P>(1e30), rest, P(pk::pzero(x))));
  return pk::por(WhereLess(a, Set<P>(C::kSinhIsX), a, magnitude), SignBit(x));
}

/// Returns cosh(x) = h + 1 / (4 h) with h = exp|x| / 2.
template <RealPacket P>
inline P Cosh(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const ReducedExp<P> reduced(Within(P(pk::pabs(x)), 0, C::kSinhHighest));
  const P one = Set<P>(1);
  const P h = Scale(P(pk::padd(reduced.expm1_r, one)), P(pk::psub(reduced.n, one)));
  return pk::padd(h, P(pk::pdiv(Set<P>(0.25), h)));
}

/// Splits x = 2^exponent (2 mantissa), with a mantissa in [1/2, 1), into 2^n m with m between
/// sqrt(1/2) and sqrt(2).
template <typename P>
TESSERA_HD void CentreLog(const P& mantissa, const P& exponent, P* n, P* m) {
  const P root_half = Set<P>(0.7071067811865476);
  *n = WhereLess(mantissa, root_half, exponent, P(pk::padd(exponent, Set<P>(1))));
  *m = WhereLess(mantissa, root_half, P(pk::padd(mantissa, mantissa)), mantissa);
}

/// Splits a positive finite x into 2^n m with an integer n and m between sqrt(1/2) and sqrt(2).
template <RealPacket P>
inline void ReduceLog(const P& x, P* n, P* m) {
  if constexpr (std::same_as<ScalarOf<P>, float> && HasWholePacket<P>) {
    using Whole = typename pk::unpacket_traits<P>::integer_packet;
    // Subnormal numbers are multiplied by 2^23 first.
    const P least = Set<P>(std::numeric_limits<float>::min());
    const P normal = WhereLess(x, least, P(pk::pmul(x, Set<P>(8388608))), x);
    const P offset = WhereLess(x, least, Set<P>(-23), P(pk::pzero(x)));
    const Whole bits = pk::preinterpret<Whole>(normal);
    const Whole root_half = pk::pset1<Whole>(0x3f3504f3);  // the bits of sqrt(1/2)
    const Whole exponent = pk::parithmetic_shift_right<23>(Whole(pk::psub(bits, root_half)));
    *n = pk::padd(P(pk::pcast<Whole, P>(exponent)), offset);
    *m = pk::preinterpret<P>(Whole(pk::psub(bits, Whole(pk::plogical_shift_left<23>(exponent)))));
  } else {
    P exponent;
    const P mantissa = pk::pfrexp(x, exponent);  // in [1/2, 1)
    CentreLog(mantissa, P(pk::psub(exponent, Set<P>(1))), n, m);
  }
}

#if defined(EIGEN_VECTORIZE_AVX2)
/// Splits a positive normal number x into 2^n m with an integer n and m between sqrt(1/2) and
/// sqrt(2).
inline void ReduceLogOfNormal(const pk::Packet4d& x, pk::Packet4d* n, pk::Packet4d* m) {
  using P = pk::Packet4d;
  // The bias makes the exponent 1024 larger, so that the shift needs no sign.
  constexpr int64_t kBias = int64_t{1024} << 52, kRootHalf = 0x3fe6a09e667f3bcd;
  const __m256i bits = _mm256_castpd_si256(x);
  const __m256i biased = _mm256_add_epi64(bits, _mm256_set1_epi64x(kBias - kRootHalf));
  const __m256i exponent = _mm256_srli_epi64(biased, 52);
  // The bits of 2^52, combined with an integer below 2^52, are those of their sum.
  const __m256i sum = _mm256_or_si256(exponent, _mm256_castpd_si256(Set<P>(0x1p52)));
  *n = pk::psub(P(_mm256_castsi256_pd(sum)), Set<P>(0x1p52 + 1024));
  const __m256i unbiased =
      _mm256_sub_epi64(_mm256_slli_epi64(exponent, 52), _mm256_set1_epi64x(kBias));
  *m = _mm256_castsi256_pd(_mm256_sub_epi64(bits, unbiased));
}
/// Splits a positive finite x into 2^n m. Eigen's pfrexp of such packets moves integers through
/// memory.
inline void ReduceLog(const pk::Packet4d& x, pk::Packet4d* n, pk::Packet4d* m) {
  using P = pk::Packet4d;
  const P least = Set<P>(std::numeric_limits<double>::min());
  const P normal = WhereLess(x, least, P(pk::pmul(x, Set<P>(0x1p52))), x);
  const P offset = WhereLess(x, least, Set<P>(-52), P(pk::pzero(x)));
  ReduceLogOfNormal(normal, n, m);
  *n = pk::padd(*n, offset);
}
#endif

/// Returns `value` where x is a positive finite number. Elsewhere it returns x where x is NaN or
/// +inf, -inf where x is 0, and NaN where x is less.
template <RealPacket P>
inline P LogOfOthers(const P& x, const P& value) {
  const P zero = pk::pzero(x);
  const P infinity = Set<P>(std::numeric_limits<double>::infinity());
  const P nan_below = WhereLess(x, zero, Set<P>(-std::numeric_limits<double>::quiet_NaN()), x);
  const P ordinary = pk::pand(pk::pcmp_lt(zero, x), pk::pcmp_lt(x, infinity));
  return pk::pselect(ordinary, value, WhereEqual(x, zero, P(pk::pnegate(infinity)), nan_below));
}

#if defined(EIGEN_VECTORIZE_AVX512)
inline void ReduceLog(const pk::Packet16f& x, pk::Packet16f* n, pk::Packet16f* m) {
  const pk::Packet16f exponent = _mm512_getexp_ps(x);
  CentreLog(pk::Packet16f(_mm512_getmant_ps(x, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_src)), exponent, n,
            m);
}
inline void ReduceLog(const pk::Packet8d& x, pk::Packet8d* n, pk::Packet8d* m) {
  const pk::Packet8d exponent = _mm512_getexp_pd(x);
  CentreLog(pk::Packet8d(_mm512_getmant_pd(x, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_src)), exponent, n,
            m);
}

/// The table of the fixupimm instruction for LogOfOthers. Its hexadecimal digits, from the last,
/// are for quiet NaN, signalling NaN, 0, 1, -inf, +inf, negative and positive numbers. Digit 0
/// leaves the value, 1 gives x, 2 x made quiet, 3 NaN, 4 -inf, 5 +inf.
inline constexpr int kLogOfOthers = 0x03530421;
inline pk::Packet16f LogOfOthers(const pk::Packet16f& x, const pk::Packet16f& value) {
  return _mm512_fixupimm_ps(value, x, _mm512_set1_epi32(kLogOfOthers), 0);
}
inline pk::Packet8d LogOfOthers(const pk::Packet8d& x, const pk::Packet8d& value) {
  return _mm512_fixupimm_pd(value, x, _mm512_set1_epi64(kLogOfOthers), 0);
}
#endif

/// The reduction x = 2^n (1 + f) with f between sqrt(1/2) - 1 and sqrt(2) - 1. log(1 + f) is f - s
/// (f - s^2 R(s^2)) with s = f / (2 + f) (W. J. Cody's rational form as in Sun's fdlibm, e_log.c,
/// with R by interpolation here).
template <typename P>
struct ReducedLog {
  P n, f;  ///< n and f of the reduction
  P less;  ///< f - log(1 + f)

  explicit ReducedLog(const P& x) {
    P m;
    ReduceLog(x, &n, &m);
    f = pk::psub(m, Set<P>(1));
    const P s = pk::pdiv(f, pk::padd(Set<P>(2), f));
    const P z = pk::pmul(s, s);
    const P r = pk::pmul(z, Polynomial(z, Constants<ScalarOf<P>>::kLog));
    less = pk::pmul(s, pk::psub(f, r));
  }
};

/// Returns log(x) = n ln(2) + log(1 + f).
template <RealPacket P>
inline P Log(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const ReducedLog<P> reduced(x);
  const P low = pk::psub(reduced.less, pk::pmul(reduced.n, Set<P>(C::kLn2Low)));
  const P value = pk::padd(pk::pmul(reduced.n, Set<P>(C::kLn2High)), pk::psub(reduced.f, low));
  return LogOfOthers(x, value);
}

/// Returns log(x) / log(2), exact for powers of 2.
template <RealPacket P>
inline P Log2(const P& x) {
  const ReducedLog<P> reduced(x);
  const P log_m = pk::psub(reduced.f, reduced.less);
  return LogOfOthers(x, MultiplyAdd(log_m, Set<P>(1.4426950408889634), reduced.n));
}

/// Returns log(x) / log(10).
template <RealPacket P>
inline P Log10(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const ReducedLog<P> reduced(x);
  const P log_m = pk::psub(reduced.f, reduced.less);
  const P low = MultiplyAdd(log_m, Set<P>(0.43429448190325183),
                            P(pk::pmul(reduced.n, Set<P>(C::kLog10Of2Low))));
  return LogOfOthers(x, MultiplyAdd(reduced.n, Set<P>(C::kLog10Of2High), low));
}

/// Returns log(1 + x). If u is the rounded 1 + x, the term ((1 + x) - u) / u, added to log(u),
/// makes up for the rounding.
template <RealPacket P>
inline P Log1p(const P& x) {
  const P one = Set<P>(1);
  const P u = AsRounded(P(pk::padd(one, x)));
  const P log_u = Log(u);
  const P rounded_x = AsRounded(P(pk::psub(u, one)));
  const P corrected = pk::padd(log_u, pk::pdiv(pk::psub(x, rounded_x), u));
  // The result is log(u) for 0 and less, +inf and NaN.
  const P infinity = Set<P>(std::numeric_limits<double>::infinity());
  const P finite = WhereLess(u, infinity, corrected, log_u);
  return KeepZero(x, WhereLess(P(pk::pzero(x)), u, finite, log_u));
}

/// Returns the square root, correctly rounded, by the processor's own instruction. Eigen uses the
/// instruction for some packets and an estimate for others, depending on its settings.
template <typename P>
TESSERA_HD P SquareRoot(const P& x) {
  return pk::psqrt(x);
}
#if defined(EIGEN_VECTORIZE_SSE)
TESSERA_HD pk::Packet4f SquareRoot(const pk::Packet4f& x) { return _mm_sqrt_ps(x); }
TESSERA_HD pk::Packet2d SquareRoot(const pk::Packet2d& x) { return _mm_sqrt_pd(x); }
#endif
#if defined(EIGEN_VECTORIZE_AVX)
TESSERA_HD pk::Packet8f SquareRoot(const pk::Packet8f& x) { return _mm256_sqrt_ps(x); }
TESSERA_HD pk::Packet4d SquareRoot(const pk::Packet4d& x) { return _mm256_sqrt_pd(x); }
#endif
#if defined(EIGEN_VECTORIZE_AVX512)
TESSERA_HD pk::Packet16f SquareRoot(const pk::Packet16f& x) { return _mm512_sqrt_ps(x); }
TESSERA_HD pk::Packet8d SquareRoot(const pk::Packet8d& x) { return _mm512_sqrt_pd(x); }
#endif

/// Returns log1p(small) where x is less than Constants::kOneIsLost, and log(2 x) beyond. This is
/// the form of the inverse hyperbolic functions.
template <RealPacket P>
inline P Log1pOrLogOfTwice(const P& x, const P& small) {
  const P limit = Set<P>(Constants<ScalarOf<P>>::kOneIsLost);
  const P log = Log1p(WhereLess(x, limit, small, x));
  return pk::padd(log, WhereLess(x, limit, P(pk::pzero(x)), Set<P>(0.69314718055994531)));
}

/// Returns asinh(x). asinh|x| is log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))). This form and those of
/// acosh and atanh are from Sun's fdlibm, s_asinh.c and so on.
template <RealPacket P>
inline P Asinh(const P& x) {
  const P a = pk::pabs(x);
  const P one = Set<P>(1);
  const P square = pk::pmul(a, a);
  const P root = SquareRoot(P(pk::padd(square, one)));
  const P small = pk::padd(a, P(pk::pdiv(square, P(pk::padd(one, root)))));
  return pk::por(Log1pOrLogOfTwice(a, small), SignBit(x));
}

/// Returns acosh(x) = log1p(t + sqrt(2 t + t^2)) with t = x - 1. The result near 1 is hardly larger
/// than the root. The exact term 2 t and a small t^2 bring less rounding error to the root than t
/// (t + 2).
template <RealPacket P>
inline P Acosh(const P& x) {
  const P one = Set<P>(1);
  const P t = pk::psub(x, one);
  const P small = pk::padd(t, SquareRoot(P(MultiplyAdd(t, t, P(pk::padd(t, t))))));
  const P nan = Set<P>(std::numeric_limits<double>::quiet_NaN());
  return WhereLess(x, one, nan, Log1pOrLogOfTwice(x, small));
}

/// Returns atanh(x). atanh|x| is log1p(2 |x| / (1 - |x|)) / 2.
template <RealPacket P>
inline P Atanh(const P& x) {
  const P a = pk::pabs(x);
  const P twice = Log1p(P(pk::pdiv(P(pk::padd(a, a)), P(pk::psub(Set<P>(1), a)))));
  return pk::por(P(pk::pmul(twice, Set<P>(0.5))), SignBit(x));
}

/// Returns tanh(x). tanh|x| is t / (t + 2) with t = expm1(2|x|).
template <RealPacket P>
inline P Tanh(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const P a = pk::pmin(P(pk::pabs(x)), Set<P>(C::kTanhIsOne));
  const P t = Expm1(P(pk::padd(a, a)));
  const P magnitude = pk::pdiv(t, pk::padd(t, Set<P>(2)));
  return pk::por(magnitude, SignBit(x));
}

/// Returns 1 / (1 + exp(-x)) as c / (c + c exp(-x)). c is a power of 2, so small that the sum is
/// finite for every x whose result is not 0.
template <RealPacket P>
inline P Sigmoid(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const ReducedExp<P> reduced(P(-Within(x, C::kExpLowest, -C::kExpLowest)));
  const P c = Set<P>(C::kSigmoidFactor);
  // c exp(-x) is power + power expm1_r. The terms that need only `power` are ready before the rest.
  const P power = Scale(c, reduced.n);
  return pk::pdiv(c, MultiplyAdd(power, reduced.expm1_r, P(pk::padd(c, power))));
}

/// Returns log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)).
template <RealPacket P>
inline P Softplus(const P& x) {
  const P e = Exp(P(pk::pnegate(pk::pabs(x))));
  const P zero = pk::pzero(x);
  return pk::padd(WhereLess(x, zero, zero, x), Log1p(e));
}

/// Returns the error function: x + x P(x^2) up to 1, and 1 - exp(-x^2) Q((x - 3) / (x + 3)) beyond.
/// Q is the scaled complementary error function, which is smooth (the substitution is that of M. M.
/// Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, 1981).
template <RealPacket P>
inline P Erf(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const P one = Set<P>(1);
  const P a = pk::pmin(P(pk::pabs(x)), Set<P>(C::kErfIsOne));
  const P square = pk::pmul(a, a);
  const P inner = MultiplyAdd(a, Polynomial(square, C::kErf), a);
  const P three = Set<P>(3);
  const P t = pk::pdiv(P(pk::psub(a, three)), P(pk::padd(a, three)));
  const P outer =
      pk::psub(one, P(pk::pmul(ExpWithin(P(pk::pnegate(square))), Polynomial(t, C::kErfcx))));
  return pk::por(WhereLess(a, one, inner, outer), SignBit(x));
}

/// Returns 1 - erf(x). It is computed as such up to 0.47, and as exp(-x^2) (Q(c) + t R(t)) / (1 + 2
/// x) with t = (x - c) / (x + c) beyond (the form of Shepherd and Laframboise as well). It is 2
/// minus that of |x| for x < -0.47. exp(-x^2) is exp(-h^2) exp(-(|x| - h) (|x| + h)), as in Sun's
/// fdlibm, s_erf.c, where h is near |x| and has so few bits that h^2 is exact.
template <RealPacket P>
inline P Erfc(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const P a = pk::pmin(P(pk::pabs(x)), Set<P>(C::kErfcIsZero));
  const P one = Set<P>(1);
  const P square = pk::pmul(x, x);
  const P inner = pk::psub(one, MultiplyAdd(x, Polynomial(square, C::kErf), x));
  const P h = pk::pmul(ToWhole(P(pk::pmul(a, Set<P>(128)))), Set<P>(1.0 / 128));
  const ReducedExp<P> reduced(P(pk::pnegate(P(pk::pmul(h, h)))));
  const P rest = Expm1OfSmall(P(pk::pmul(P(pk::psub(h, a)), P(pk::padd(a, h)))));
  const P centre = Set<P>(C::kErfcCentre);
  const P t = pk::pdiv(P(pk::psub(a, centre)), P(pk::padd(a, centre)));
  const P numerator = MultiplyAdd(t, Polynomial(t, C::kErfc), Set<P>(C::kErfcAtCentre));
  const P twice = pk::padd(a, a);
  const P denominator = AsRounded(P(pk::padd(one, twice)));
  const P q = pk::pdiv(numerator, denominator);
  // `lost` is the rounding error of the denominator times q. 0.8 times `lost` is the error relative
  // to the denominator, since the numerator is nearly 1.25.
  const P lost = pk::pmul(P(pk::psub(one, AsRounded(P(pk::psub(denominator, twice))))), q);
  const P less = MultiplyAdd(lost, Set<P>(-0.8), MultiplyAdd(reduced.expm1_r, rest, rest));
  const P outer = Scale(MultiplyAdd(q, P(pk::padd(less, reduced.expm1_r)), q), reduced.n);
  const P zero = pk::pzero(x);
  return WhereLess(a, Set<P>(0.47), inner,
                   WhereLess(x, zero, P(pk::psub(Set<P>(2), outer)), outer));
}

/// The standard normal distribution function at -a for a = |x|, where a is limited to
/// Constants::kNormalTailIsZero: 2^n (1 + less) ratio, with exp(-a^2 / 2) = 2^n (1 + less). The
/// scaled function `ratio` is that of Erfc, in a form with one division: (Q(c) + t R(t)) / (a + c).
/// The exponent is split as in Erfc, too, but a^2 / 2 is not rounded on the way to erfc's argument.
template <typename P>
struct NormalTail {
  P a;
  P ratio;
  P less;
  P n;

  explicit NormalTail(const P& x) {
    using C = Constants<ScalarOf<P>>;
    a = pk::pmin(P(pk::pabs(x)), Set<P>(C::kNormalTailIsZero));
    const P centre = Set<P>(C::kNormalTailCentre);
    const P sum = AsRounded(P(pk::padd(a, centre)));
    const P inverse = pk::pdiv(Set<P>(1), sum);
    const P t = pk::pmul(P(pk::psub(a, centre)), inverse);
    ratio = pk::pmul(MultiplyAdd(t, Polynomial(t, C::kNormalTail), Set<P>(C::kNormalTailAtCentre)),
                     inverse);
    const P h = pk::pmul(ToWhole(P(pk::pmul(a, Set<P>(128)))), Set<P>(1.0 / 128));
    const P minus_half = Set<P>(-0.5);
    const ReducedExp<P> reduced(P(pk::pmul(P(pk::pmul(h, h)), minus_half)));
    const P rest =
        Expm1OfSmall(P(pk::pmul(P(pk::psub(a, h)), P(pk::pmul(P(pk::padd(a, h)), minus_half)))));
    // The rounding error of the sum, relative to the sum, is subtracted.
    const P lost = pk::psub(a, AsRounded(P(pk::psub(sum, centre))));
    const P of_rest = MultiplyAdd(reduced.expm1_r, rest, rest);
    less = pk::padd(MultiplyAdd(lost, P(pk::pnegate(inverse)), of_rest), reduced.expm1_r);
    n = reduced.n;
  }
};

/// Returns x times the standard normal distribution function at x (D. Hendrycks and K. Gimpel,
/// Gaussian error linear units, 2016): x (1 + erf(x / sqrt(2))) / 2 up to |x| = 0.66, and max(x, 0)
/// minus |x| times the function at -|x| beyond.
template <RealPacket P>
inline P Gelu(const P& x) {
  using C = Constants<ScalarOf<P>>;
  const P one = Set<P>(1);
  const P z = pk::pmul(x, Set<P>(0.70710678118654752));
  const P erf = MultiplyAdd(z, Polynomial(P(pk::pmul(z, z)), C::kErf), z);
  const P inner = pk::pmul(P(pk::pmul(x, Set<P>(0.5))), P(pk::padd(one, erf)));
  const NormalTail<P> tail(x);
  const P weighted = pk::pmul(tail.a, tail.ratio);
  const P less = Scale(MultiplyAdd(weighted, tail.less, weighted), tail.n);
  // A result that vanishes for a negative x is -0.
  const P outer = pk::psub(WhereLess(x, P(pk::pzero(x)), Set<P>(-0.0), x), less);
  return WhereLess(tail.a, Set<P>(0.66), inner, outer);
}

/// Returns the derivative of Gelu: the standard normal distribution function at x plus x times its
/// density.
template <RealPacket P>
inline P GeluSlope(const P& x) {
  const NormalTail<P> tail(x);
  // 0.39… is 1 / sqrt(2 pi).
  const P scaled = MultiplyAdd(tail.a, Set<P>(-0.39894228040143268), tail.ratio);
  const P slope = Scale(MultiplyAdd(scaled, tail.less, scaled), tail.n);
  return WhereLess(x, P(pk::pzero(x)), slope, P(pk::psub(Set<P>(1), slope)));
}

/// True if packets of double have more than two lanes. Functions computed in double in packets of
/// two are slower than the C library.
inline constexpr bool kManyWideLanes = pk::packet_traits<double>::size > 2;

/// LowerInDouble and UpperInDouble convert the halves of a packet of floats to double. InFloat
/// rounds them to one packet of floats. They exist only if kManyWideLanes is true.
#if defined(EIGEN_VECTORIZE_AVX)
inline pk::Packet4d LowerInDouble(const pk::Packet8f& x) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
inline pk::Packet4d UpperInDouble(const pk::Packet8f& x) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}
inline pk::Packet8f InFloat(const pk::Packet4d& lower, const pk::Packet4d& upper) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(lower)),
                              _mm256_cvtpd_ps(upper), 1);
}
#endif
#if defined(EIGEN_VECTORIZE_AVX512)
inline pk::Packet8d LowerInDouble(const pk::Packet16f& x) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}
inline pk::Packet8d UpperInDouble(const pk::Packet16f& x) {
  return _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
}
inline pk::Packet16f InFloat(const pk::Packet8d& lower, const pk::Packet8d& upper) {
  return _mm512_castpd_ps(
      _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(lower))),
                         _mm256_castps_pd(_mm512_cvtpd_ps(upper)), 1));
}
#endif

/// Returns function(x) or function(x, y) of floats, computed in packets of double and rounded at
/// the end. It is for functions that lose more digits on the way than float can spare. The called
/// functions are inlined, since passing packets through memory took nearly a third of lgamma's
/// time.
#if defined(EIGEN_VECTORIZE_AVX)
template <typename P, typename Function>
__attribute__((flatten)) inline P InDouble(const P& x, const Function& function) {
  const auto lower = function(LowerInDouble(x));
  const auto upper = function(UpperInDouble(x));
  return InFloat(lower, upper);
}
template <typename P, typename Function>
__attribute__((flatten)) inline P InDouble(const P& x, const P& y, const Function& function) {
  const auto lower = function(LowerInDouble(x), LowerInDouble(y));
  const auto upper = function(UpperInDouble(x), UpperInDouble(y));
  return InFloat(lower, upper);
}
#endif

/// Rounds to an integer towards zero.
template <RealPacket P>
inline P Trunc(const P& x) {
  return pk::por(pk::pfloor(pk::pabs(x)), SignBit(x));
}

/// Rounds down to an integer. A negative number keeps its sign, down to -0; Eigen forgets it on
/// processors that have no instruction for rounding.
template <RealPacket P>
inline P Floor(const P& x) {
  return pk::por(pk::pfloor(x), SignBit(x));
}
/// Rounds up to an integer. A negative number keeps its sign, down to -0.
template <RealPacket P>
inline P Ceil(const P& x) {
  return pk::por(pk::pceil(x), SignBit(x));
}

/// Rounds to the nearest integer, ties to the one with the larger magnitude. The summand is the
/// number before 1/2: 1/2 itself would round that number up to 1, a known error of floor(x + 1/2).
template <RealPacket P>
inline P Round(const P& x) {
  const P before_half = Set<P>(0.5 - std::numeric_limits<ScalarOf<P>>::epsilon() / 4);
  return pk::por(pk::pfloor(P(pk::padd(pk::pabs(x), before_half))), SignBit(x));
}

/// Returns whether x < y in every lane.
template <typename P>
inline bool AllLess(const P& x, const P& y) {
  const P others = pk::pandnot(Set<P>(1), pk::pcmp_lt(x, y));
  return pk::predux(others) == ScalarOf<P>(0);
}
#if defined(EIGEN_VECTORIZE_SSE)
inline bool AllLess(const pk::Packet4f& x, const pk::Packet4f& y) {
  return _mm_movemask_ps(_mm_cmplt_ps(x, y)) == 0xf;
}
inline bool AllLess(const pk::Packet2d& x, const pk::Packet2d& y) {
  return _mm_movemask_pd(_mm_cmplt_pd(x, y)) == 0x3;
}
#endif
#if defined(EIGEN_VECTORIZE_AVX)
inline bool AllLess(const pk::Packet8f& x, const pk::Packet8f& y) {
  return _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ)) == 0xff;
}
inline bool AllLess(const pk::Packet4d& x, const pk::Packet4d& y) {
  return _mm256_movemask_pd(_mm256_cmp_pd(x, y, _CMP_LT_OQ)) == 0xf;
}
#endif
#if defined(EIGEN_VECTORIZE_AVX512)
inline bool AllLess(const pk::Packet16f& x, const pk::Packet16f& y) {
  return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ) == 0xffff;
}
inline bool AllLess(const pk::Packet8d& x, const pk::Packet8d& y) {
  return _mm512_cmp_pd_mask(x, y, _CMP_LT_OQ) == 0xff;
}
#endif

/// Returns the cube root: 2^(log2|x| / 3), and a step of Newton's method for y^3 = |x|.
template <RealPacket P>
inline P Cbrt(const P& x) {
  const P a = pk::pabs(x);
  const P third = Set<P>(1.0 / 3);
  const P y = Exp2(P(pk::pmul(Log2(a), third)));
  const P over = pk::psub(y, P(pk::pdiv(a, P(pk::pmul(y, y)))));
  const P root = pk::psub(y, P(pk::pmul(over, third)));
  const P infinity = Set<P>(std::numeric_limits<double>::infinity());
  return KeepZero(x, P(pk::por(WhereEqual(a, infinity, a, root), SignBit(x))));
}

}  // namespace packet_math
}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_PACKET_MATH_H_
