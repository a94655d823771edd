#ifndef TESSERA_TENSOR_FUNCTORS_H_
#define TESSERA_TENSOR_FUNCTORS_H_

#include <cmath>
#include <limits>
#include <type_traits>

#include "tessera/tensor/internal/math_spans.h"
#include "tessera/tensor/packet.h"
#include "tessera/tensor/packet_math.h"
#include "tessera/tensor/special_functions.h"

/// Functors: trivial structs with a static Map for single elements, callable on host and device,
/// and where one exists a static PacketMap over Eigen packets. Any struct with a Map can be used
/// in F<Op>(...). A user's functor becomes faster by a packet form, called MapPacket or PacketMap:
///
///     struct Squared {
///       TESSERA_HD static float Map(float a) { return a * a; }
///       template <typename P>
///       TESSERA_HD static P MapPacket(const P& a) { return tessera::pk::pmul(a, a); }
///     };
///
/// Functions of a real number are computed in float for float and the 16-bit types, in double for
/// double and for integers, whose results are cut to whole numbers. Errors are those of the C
/// library (at most 4 ulp), or of packet_math.h where there is a packet form.
namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

namespace op {

/// The type in which a real function of T is computed.
template <typename T>
using RealOf = std::conditional_t<std::is_same_v<T, double> || std::numeric_limits<T>::is_integer,
                                  double, float>;
template <typename T>
TESSERA_HD RealOf<T> ToReal(T a) {
  return static_cast<RealOf<T>>(a);
}

/// Types of which costly functions have a form over spans as well, `Span(in, out, count)`, whose
/// packets are those of the machine rather than those of the build. A build that has fused
/// multiply-add itself uses its own packets.
template <typename T>
concept SpanElement = kUsesSpans &&(std::is_same_v<T, float> || std::is_same_v<T, double>);

struct plus {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(a + b);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return pk::padd(a, b);
  }
};

struct minus {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(a - b);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return pk::psub(a, b);
  }
};

struct mul {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(a * b);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return pk::pmul(a, b);
  }
};

struct div {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(a / b);
  }
  template <DividesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return pk::pdiv(a, b);
  }
};

/// The right operand.
struct right {
  template <typename T>
  TESSERA_HD static T Map(T, T b) {
    return b;
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P&, const P& b) {
    return b;
  }
};

struct identity {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a;
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a) {
    return a;
  }
};

struct negation {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(-a);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a) {
    if constexpr (RealPacket<P>) {
      return pk::pxor(a, packet_math::Set<P>(-0.0));  // 0 - a, which AVX's form is, loses -0
    } else {
      return pk::pnegate(a);
    }
  }
};

/// The larger operand; NaN if either is NaN.
struct maximum {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a != a ? a : (a > b ? a : b);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return pk::pselect(pk::pcmp_eq(a, a), pk::pselect(pk::pcmp_lt(b, a), a, b), a);
  }
};

/// The smaller operand; NaN if either is NaN.
struct minimum {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a != a ? a : (a < b ? a : b);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return pk::pselect(pk::pcmp_eq(a, a), pk::pselect(pk::pcmp_lt(a, b), a, b), a);
  }
};

/// a held between low and high: low where a < low, high where a > high, and NaN where a is NaN.
struct clamp {
  template <typename T>
  TESSERA_HD static T Map(T a, T low, T high) {
    return a < low ? low : (high < a ? high : a);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& low, const P& high) {
    return pk::pselect(pk::pcmp_lt(a, low), low, pk::pselect(pk::pcmp_lt(high, a), high, a));
  }
};

/// a where condition is not 0, else b. NaN is not 0.
struct blend {
  template <typename T>
  TESSERA_HD static T Map(T condition, T a, T b) {
    return condition != T(0) ? a : b;
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& condition, const P& a, const P& b) {
    return pk::pselect(pk::pcmp_eq(condition, pk::pzero(condition)), b, a);
  }
};

/// Packets of 1 where the mask holds, else 0.
template <typename P>
TESSERA_HD P OneWhere(const P& mask) {
  using Scalar = typename pk::unpacket_traits<P>::type;
  return pk::pand(mask, pk::pset1<P>(Scalar(1)));
}

/// 1 where a == b, else 0; 0 where either is NaN.
struct eq {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a == b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return OneWhere(pk::pcmp_eq(a, b));
  }
};

/// 1 where a < b, else 0; 0 where either is NaN.
struct lt {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a < b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return OneWhere(pk::pcmp_lt(a, b));
  }
};

/// 1 where a <= b, else 0; 0 where either is NaN.
struct le {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a <= b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return OneWhere(pk::pcmp_le(a, b));
  }
};

/// 1 where a > b, else 0; 0 where either is NaN.
struct gt {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a > b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return OneWhere(pk::pcmp_lt(b, a));
  }
};

/// 1 where a >= b, else 0; 0 where either is NaN.
struct ge {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a >= b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return OneWhere(pk::pcmp_le(b, a));
  }
};

/// 1 where a != b, else 0; 1 where either is NaN.
struct ne {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a != b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b) {
    return pk::pandnot(pk::pset1<P>(typename pk::unpacket_traits<P>::type(1)), pk::pcmp_eq(a, b));
  }
};

/// a to the power b, as C's pow.
struct power {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(std::pow(ToReal(a), ToReal(b)));
  }
};

struct square {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(a * a);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a) {
    return pk::pmul(a, a);
  }
};
using sqr = square;

/// Correctly rounded.
struct square_root {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::sqrt(ToReal(a)));
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::SquareRoot(a);
  }
};

using sqrt = square_root;

/// 1 / a
struct rcp {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(T(1) / a);
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return pk::pdiv(packet_math::Set<P>(1), a);
  }
};

/// The cube root.
struct cbrt {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::cbrt(ToReal(a)));
  }
};

/// The nearest whole number below or at a.
struct floor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::floor(ToReal(a)));
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Floor(a);
  }
};

/// The nearest whole number above or at a.
struct ceil {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::ceil(ToReal(a)));
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Ceil(a);
  }
};

/// The nearest whole number, of two equally near ones that with the larger magnitude.
struct round {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::round(ToReal(a)));
  }
};

/// The nearest whole number towards 0.
struct trunc {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::trunc(ToReal(a)));
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Trunc(a);
  }
};

/// e to the power a.
struct exp {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<exp>(a);
    } else {
      return static_cast<T>(std::exp(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Exp(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::ExpSpan(in, out, count);
  }
};

/// 2 to the power a.
struct exp2 {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::exp2(ToReal(a)));
  }
};

/// exp(a) - 1, accurate near 0.
struct expm1 {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<expm1>(a);
    } else {
      return static_cast<T>(std::expm1(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Expm1(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::Expm1Span(in, out, count);
  }
};

/// The natural logarithm: -inf for 0, NaN below.
struct log {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<log>(a);
    } else {
      return static_cast<T>(std::log(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Log(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::LogSpan(in, out, count);
  }
};

/// The logarithm to base 10.
struct log10 {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::log10(ToReal(a)));
  }
};

/// The logarithm to base 2.
struct log2 {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::log2(ToReal(a)));
  }
};

/// log(1 + a), accurate near 0.
struct log1p {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<log1p>(a);
    } else {
      return static_cast<T>(std::log1p(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Log1p(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::Log1pSpan(in, out, count);
  }
};

/// The sine of a in radians.
struct sin {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::sin(ToReal(a)));
  }
};

/// The cosine of a in radians.
struct cos {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::cos(ToReal(a)));
  }
};

/// The tangent of a in radians.
struct tan {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::tan(ToReal(a)));
  }
};

/// The arc sine in [-pi/2, pi/2]; NaN where |a| > 1.
struct asin {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::asin(ToReal(a)));
  }
};

/// The arc cosine in [0, pi]; NaN where |a| > 1.
struct acos {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::acos(ToReal(a)));
  }
};

/// The arc tangent in (-pi/2, pi/2).
struct atan {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::atan(ToReal(a)));
  }
};

/// The hyperbolic sine.
struct sinh {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::sinh(ToReal(a)));
  }
};

/// The hyperbolic cosine.
struct cosh {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::cosh(ToReal(a)));
  }
};

/// The hyperbolic tangent.
struct tanh {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<tanh>(a);
    } else {
      return static_cast<T>(std::tanh(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Tanh(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::TanhSpan(in, out, count);
  }
};

/// The inverse hyperbolic sine.
struct asinh {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::asinh(ToReal(a)));
  }
};

/// The inverse hyperbolic cosine; NaN where a < 1.
struct acosh {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::acosh(ToReal(a)));
  }
};

/// The inverse hyperbolic tangent; NaN where |a| > 1.
struct atanh {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::atanh(ToReal(a)));
  }
};

/// The error function.
struct erf {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<erf>(a);
    } else {
      return static_cast<T>(std::erf(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Erf(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::ErfSpan(in, out, count);
  }
};

/// 1 - erf(a), accurate for large a.
struct erfc {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::erfc(ToReal(a)));
  }
};

/// The gamma function, (a - 1)! for whole a.
struct gamma {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::tgamma(ToReal(a)));
  }
};

/// The logarithm of the gamma function's magnitude.
struct lgamma {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(LogGamma(ToReal(a)));
  }
};

/// The derivative of lgamma; see Digamma.
struct digamma {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(Digamma(static_cast<double>(a)));
  }
};

/// 1 / (1 + exp(-a))
struct sigmoid {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<sigmoid>(a);
    } else {
      // Of a large negative number exp(-a) would overflow before the result vanishes.
      const RealOf<T> x = ToReal(a);
      const RealOf<T> e = std::exp(x < 0 ? x : -x);
      return static_cast<T>((x < 0 ? e : 1) / (1 + e));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Sigmoid(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::SigmoidSpan(in, out, count);
  }
};

/// max(a, 0); NaN stays NaN.
struct relu {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a < T(0) ? T(0) : a;
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a) {
    return pk::pandnot(a, pk::pcmp_lt(a, pk::pzero(a)));
  }
};

/// 1 where a > 0, else 0: the derivative of relu, from its input or its output.
struct relu_grad {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a > T(0) ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a) {
    using Scalar = typename pk::unpacket_traits<P>::type;
    return pk::pand(pk::pcmp_lt(pk::pzero(a), a), pk::pset1<P>(Scalar(1)));
  }
};

/// log(1 + exp(a)), written so that large |a| neither overflows nor loses everything.
struct softrelu {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (packet_math::kOneLane<T>) {
      return packet_math::OneLane<softrelu>(a);
    } else {
      const RealOf<T> x = ToReal(a);
      return static_cast<T>((x < 0 ? 0 : x) + std::log1p(std::exp(x < 0 ? x : -x)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return packet_math::Softplus(a);
  }
  template <SpanElement T>
  static void Span(const T* in, T* out, index_t count) {
    tensor_internal::SoftplusSpan(in, out, count);
  }
};
using softplus = softrelu;

/// a times the normal distribution's share below a: a (1 + erf(a / sqrt(2))) / 2.
struct gelu {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    // In double, since the relative error of erfc grows with the square of its argument. -inf would
    // be -inf times 0.
    const double x = static_cast<double>(a);
    if (x < -40) return static_cast<T>(-0.0);
    return static_cast<T>(0.5 * x * std::erfc(x * -0.70710678118654752));
  }
};

/// a / (1 + |a|)
struct softsign {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(a / (T(1) + (a < T(0) ? static_cast<T>(-a) : a)));
  }
};

/// |a|; the absolute value of either zero is +0.
struct abs {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::numeric_limits<T>::is_signed) {
      return a <= T(0) ? static_cast<T>(T(0) - a) : a;
    } else {
      return a;
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    return pk::pabs(a);
  }
};
using fabs = abs;

/// -1, 0 or 1 as a's sign; zeros keep theirs, and NaN stays NaN.
struct sign {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::numeric_limits<T>::is_signed) {
      if (a < T(0)) return T(-1);
    }
    return a > T(0) ? T(1) : a;
  }
};

}  // namespace op

/// How an assignment combines the destination's old value with the new one.
namespace sv {

/// Save(a, b) is the assignment of one element, for programs that write loops of their own.
template <typename Op>
struct Saver {
  using OPType = Op;
  template <typename T>
  TESSERA_HD static void Save(T& a, std::type_identity_t<T> b) {
    a = Op::Map(a, b);
  }
};

/// AlphaBLAS and BetaBLAS are the factors with which a GEMM does the same to its result.
struct saveto : Saver<op::right> {
  static constexpr float AlphaBLAS() { return 1; }
  static constexpr float BetaBLAS() { return 0; }
};
struct plusto : Saver<op::plus> {
  static constexpr float AlphaBLAS() { return 1; }
  static constexpr float BetaBLAS() { return 1; }
};
struct minusto : Saver<op::minus> {
  static constexpr float AlphaBLAS() { return -1; }
  static constexpr float BetaBLAS() { return 1; }
};
struct multo : Saver<op::mul> {};
struct divto : Saver<op::div> {};

}  // namespace sv

/// Reducers: a functor with the value that an empty reduction has, and how much of a result's
/// gradient each element takes.
namespace red {

/// The forms in which mshadow's programs use a reducer by hand; T may be volatile. The residual of
/// the longer forms, by which mshadow's later sums kept what rounding lost, stays 0: sums here are
/// made of short parts instead.
template <typename Red>
struct InPlaceForms {
  template <typename T>
  using Value = std::remove_volatile_t<T>;

  template <typename T, typename S>
  TESSERA_HD static void Reduce(T& dst, const S& src) {
    dst = Red::OPType::Map(Value<T>(Loaded(dst)), static_cast<Value<T>>(Loaded(src)));
  }
  template <typename T, typename S, typename R>
  TESSERA_HD static void Reduce(T& dst, const S& src, R& /*residual*/) {
    Reduce(dst, src);
  }
  template <typename T>
  TESSERA_HD static void Merge(T& dst, T& src) {
    Reduce(dst, src);
  }
  template <typename T>
  TESSERA_HD static void Merge(T& dst, T& /*residual*/, T& src, T& /*src_residual*/) {
    Reduce(dst, src);
  }
  template <typename T>
  TESSERA_HD static void Finalize(T& /*dst*/) {}
  template <typename T>
  TESSERA_HD static void Finalize(T& /*dst*/, T& /*residual*/) {}
  template <typename T>
  TESSERA_HD static void SetInitValue(T& value) {
    value = Red::template InitialValue<Value<T>>();
  }
  template <typename T>
  TESSERA_HD static void SetInitValue(T& value, T& residual) {
    SetInitValue(value);
    residual = Value<T>(0);
  }

 private:
  /// A volatile object's value; a class has no copy constructor for one.
  template <typename T>
  TESSERA_HD static std::remove_cv_t<T> Loaded(T& object) {
    if constexpr (std::is_class_v<T>) {
      return static_cast<std::remove_cv_t<T>>(static_cast<float>(object));
    } else {
      return object;
    }
  }
};

struct sum : InPlaceForms<sum> {
  using OPType = op::plus;
  template <typename T>
  TESSERA_HD static T PartialGrad(T, T) {
    return T(1);
  }
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return T(0);
  }
};
struct maximum : InPlaceForms<maximum> {
  using OPType = op::maximum;
  /// Every element that is the result takes the whole gradient.
  template <typename T>
  TESSERA_HD static T PartialGrad(T result, T element) {
    return result == element ? T(1) : T(0);
  }
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return std::numeric_limits<T>::has_infinity ? T(-std::numeric_limits<T>::infinity())
                                                : std::numeric_limits<T>::lowest();
  }
};
struct minimum : InPlaceForms<minimum> {
  using OPType = op::minimum;
  /// Every element that is the result takes the whole gradient.
  template <typename T>
  TESSERA_HD static T PartialGrad(T result, T element) {
    return result == element ? T(1) : T(0);
  }
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return std::numeric_limits<T>::has_infinity ? T(std::numeric_limits<T>::infinity())
                                                : std::numeric_limits<T>::max();
  }
};

}  // namespace red

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_FUNCTORS_H_
