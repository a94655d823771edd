#ifndef TESSERA_TENSOR_FUNCTORS_REAL_FUNCTORS_H_
#define TESSERA_TENSOR_FUNCTORS_REAL_FUNCTORS_H_

#include <cmath>
#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/tensor/functors/wide_functor.h"
#include "tessera/tensor/packet/math_array_kernels.h"
#include "tessera/tensor/packet/packet_concepts.h"
#include "tessera/tensor/packet/special_functions.h"

/// Elementary and special functions as functors: exponentials, logarithms, trigonometric functions
/// and functions made of them. real_functor_packets.h defines their packet forms.
///
/// float and the 16-bit types are computed in float. double and integers are computed in double,
/// and results for integers are cut off to integers. Errors are those of the C library (at most 4
/// ulp, for gamma and lgamma more: docs/accuracy.md), or those of packet_math.h for functions that
/// have a packet form. power and the gamma functions have a packet form for float alone, and have
/// none if packets of double have no more than two lanes; the C library computes them then.
/// The floating-point exceptions (fetestexcept) that are raised on the way are not defined: special
/// values may raise some where the C functions raise none, or others.
namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

namespace op {

/// The type in which an elementary or special function of T is computed.
template <typename T>
using RealOf = std::conditional_t<std::is_same_v<T, double> || std::numeric_limits<T>::is_integer,
                                  double, float>;
/// Converts a to RealOf<T>.
template <typename T>
TESSERA_HD RealOf<T> ToReal(T a) {
  return static_cast<RealOf<T>>(a);
}

using tensor_internal::ArrayOperand;
using tensor_internal::PacketElement;
using tensor_internal::PacketTraits;
using tensor_internal::PrefetchList;
using tensor_internal::ScaleOrOffset;

/// Satisfied by types for which expensive functions have an array kernel as well, `ArrayKernel(in,
/// out, count, input, ahead)`. Its packets are those of the machine rather than those of the build.
/// It scales or shifts its input on the way. A function of two operands has `ArrayKernel(a, b, out,
/// count)`, which takes them as they are. A build that has fused multiply-add itself uses its own
/// packets instead.
template <typename T>
concept ArrayKernelElement = tensor_internal::kUsesArrayKernels &&
    (std::is_same_v<T, float> || std::is_same_v<T, double>);

/// Returns true if functions of T have a packet form. Map then computes one lane of it, so that an
/// element alone has the same bits as among others.
template <typename T>
constexpr bool HasLanes() {
  if constexpr (!std::is_same_v<T, float> && !std::is_same_v<T, double>) {
    return false;
  } else if constexpr (ArrayKernelElement<T>) {
    return true;
  } else {
    return PacketTraits<T>::kVectorizable;
  }
}
template <typename T>
inline constexpr bool kInLanes = HasLanes<T>();

/// Computes one element in a packet; in real_functor_packets.h.
template <typename Op, typename T>
T LaneOfPacket(T a);
template <typename Op, typename T>
T LaneOfPacket(T a, T b);

/// Applies Op to one element.
template <typename Op, typename T>
inline T OneLane(T a) {
  if constexpr (ArrayKernelElement<T>) {
    Op::ArrayKernel(&a, &a, index_t{1});
    return a;
  } else {
    return LaneOfPacket<Op>(a);
  }
}
/// Applies Op to one pair of elements.
template <typename Op, typename T>
inline T OneLane(T a, T b) {
  if constexpr (ArrayKernelElement<T>) {
    Op::ArrayKernel(ArrayOperand<T>{&a}, ArrayOperand<T>{&b}, &a, index_t{1});
    return a;
  } else {
    return LaneOfPacket<Op>(a, b);
  }
}

/// The costs of functions beyond arithmetic, in the unit of cost.h, about 0.09 ns of one core.
/// kKernelCost is for functions that have array kernels, as measured with AVX-512
/// (docs/performance.md); lesser instruction sets only raise the cost. kLibraryCost is for the C
/// library's functions, as measured for the fastest.
inline constexpr index_t kKernelCost = 2, kLibraryCost = 32;

/// The base of an expensive functor that has array kernels. The functor offers `OfNumber(a)` of a
/// float or double for the types that have no packets, `OfPacket(a)`, and ArrayKernel.
template <typename Function, index_t kCost = kKernelCost>
struct CostlyFunctor {
  template <typename T>
  static constexpr index_t ElementCost() {
    return kInLanes<T> ? kCost : kLibraryCost;
  }
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (kInLanes<T>) {
      return OneLane<Function>(a);
    } else {
      return static_cast<T>(Function::OfNumber(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// ArrayKernelElement for functions that have array kernels for float alone, which compute in
/// double.
template <typename T>
concept FloatArrayKernelElement = ArrayKernelElement<T> && std::is_same_v<T, float>;

/// Returns true if a function with array kernels for float alone has a packet form for T. A build
/// without array kernels has one only if packets of double have more than two lanes, since fewer
/// gain nothing.
template <typename T>
constexpr bool HasWideLanes() {
  if constexpr (!std::is_same_v<T, float>) {
    return false;
  } else if constexpr (ArrayKernelElement<T>) {
    return true;
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    return PacketTraits<T>::kVectorizable && PacketTraits<Wide>::kSize > 2;
  }
}
template <typename T>
inline constexpr bool kInWideLanes = HasWideLanes<T>();

/// The base of an expensive functor that has array kernels for float alone; otherwise it is like
/// CostlyFunctor.
template <typename Function>
struct CostlyFloatFunctor {
  template <typename T>
  static constexpr index_t ElementCost() {
    return kInWideLanes<T> ? kLibraryCost : 4 * kLibraryCost;
  }
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (kInWideLanes<T>) {
      return OneLane<Function>(a);
    } else {
      return static_cast<T>(Function::OfNumber(ToReal(a)));
    }
  }
  template <RealPacket P>
  requires kInWideLanes<PacketElement<P>> TESSERA_HD static P PacketMap(const P& a);
};

// Macros define the members of these functors, since a template takes no function template.

/// Defines a functor's OfNumber as `expression` of a number a.
#define TESSERA_DEFINE_OF_NUMBER(expression) \
  template <typename Real>                   \
  TESSERA_HD static Real OfNumber(Real a) {  \
    return expression;                       \
  }
/// Declares a functor's OfPacket, the function of packet_math.h called Name, and defines its
/// ArrayKernel for types that satisfy Element.
#define TESSERA_DEFINE_KERNELS(Name, Element)                                              \
  template <typename P>                                                                    \
  TESSERA_HD static P OfPacket(const P& a);                                                \
  template <Element T>                                                                     \
  static void ArrayKernel(const T* in, T* out, index_t count, ScaleOrOffset<T> input = {}, \
                          PrefetchList ahead = {}) {                                       \
    tensor_internal::Name##ArrayKernel(in, out, count, input, ahead);                      \
  }

/// Computes a to the power b, as C's pow does. The result for a signalling NaN and 0, or for 1 and
/// a signalling NaN, is either NaN or 1.
struct power {
  template <typename T>
  static constexpr index_t ElementCost() {
    return kInWideLanes<T> ? kLibraryCost / 2 : kLibraryCost;
  }
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if constexpr (kInWideLanes<T>) {
      return OneLane<power>(a, b);
    } else {
      return static_cast<T>(std::pow(ToReal(a), ToReal(b)));
    }
  }
  template <RealPacket P>
  requires kInWideLanes<PacketElement<P>> TESSERA_HD static P PacketMap(const P& a, const P& b);
  template <FloatArrayKernelElement T>
  static void ArrayKernel(ArrayOperand<T> a, ArrayOperand<T> b, T* out, index_t count) {
    tensor_internal::PowerArrayKernel(a, b, out, count);
  }
};

/// Computes the length of the hypotenuse, sqrt(a * a + b * b), as C's hypot does: without overflow
/// on the way, and infinite where either operand is, even beside NaN.
struct hypot {
  static constexpr index_t kElementCost = kLibraryCost;
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(std::hypot(ToReal(a), ToReal(b)));
  }
};

/// Computes the angle of the point (b, a) from the positive first axis, in [-pi, pi], as C's
/// atan2(a, b) does.
struct atan2 {
  static constexpr index_t kElementCost = kLibraryCost;
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(std::atan2(ToReal(a), ToReal(b)));
  }
};

/// Computes e to the power a.
struct exp : CostlyFunctor<exp, 1> {
  TESSERA_DEFINE_OF_NUMBER(std::exp(a))
  TESSERA_DEFINE_KERNELS(Exp, ArrayKernelElement)
};

/// Computes 2 to the power a.
struct exp2 : CostlyFunctor<exp2, 1> {
  TESSERA_DEFINE_OF_NUMBER(std::exp2(a))
  TESSERA_DEFINE_KERNELS(Exp2, ArrayKernelElement)
};

/// Computes exp(a) - 1, accurate near 0.
struct expm1 : CostlyFunctor<expm1> {
  TESSERA_DEFINE_OF_NUMBER(std::expm1(a))
  TESSERA_DEFINE_KERNELS(Expm1, ArrayKernelElement)
};

/// Computes the natural logarithm, which is -inf for 0 and NaN below.
struct log : CostlyFunctor<log> {
  TESSERA_DEFINE_OF_NUMBER(std::log(a))
  TESSERA_DEFINE_KERNELS(Log, ArrayKernelElement)
};

/// Computes the logarithm to base 10.
struct log10 : CostlyFunctor<log10> {
  TESSERA_DEFINE_OF_NUMBER(std::log10(a))
  TESSERA_DEFINE_KERNELS(Log10, ArrayKernelElement)
};

/// Computes the logarithm to base 2.
struct log2 : CostlyFunctor<log2> {
  TESSERA_DEFINE_OF_NUMBER(std::log2(a))
  TESSERA_DEFINE_KERNELS(Log2, ArrayKernelElement)
};

/// Computes log(1 + a), accurate near 0.
struct log1p : CostlyFunctor<log1p> {
  TESSERA_DEFINE_OF_NUMBER(std::log1p(a))
  TESSERA_DEFINE_KERNELS(Log1p, ArrayKernelElement)
};

/// Computes the sine of a in radians.
struct sin : CostlyFunctor<sin, 4> {
  TESSERA_DEFINE_OF_NUMBER(std::sin(a))
  TESSERA_DEFINE_KERNELS(Sin, ArrayKernelElement)
};

/// Computes the cosine of a in radians.
struct cos : CostlyFunctor<cos, 4> {
  TESSERA_DEFINE_OF_NUMBER(std::cos(a))
  TESSERA_DEFINE_KERNELS(Cos, ArrayKernelElement)
};

/// Computes the tangent of a in radians.
struct tan : CostlyFunctor<tan, 4> {
  TESSERA_DEFINE_OF_NUMBER(std::tan(a))
  TESSERA_DEFINE_KERNELS(Tan, ArrayKernelElement)
};

/// Computes the arc sine in [-pi/2, pi/2]; NaN where |a| > 1.
struct asin : CostlyFunctor<asin> {
  TESSERA_DEFINE_OF_NUMBER(std::asin(a))
  TESSERA_DEFINE_KERNELS(Asin, ArrayKernelElement)
};

/// Computes the arc cosine in [0, pi]; NaN where |a| > 1.
struct acos : CostlyFunctor<acos> {
  TESSERA_DEFINE_OF_NUMBER(std::acos(a))
  TESSERA_DEFINE_KERNELS(Acos, ArrayKernelElement)
};

/// Computes the arc tangent in (-pi/2, pi/2).
struct atan : CostlyFunctor<atan> {
  TESSERA_DEFINE_OF_NUMBER(std::atan(a))
  TESSERA_DEFINE_KERNELS(Atan, ArrayKernelElement)
};

/// Computes the hyperbolic sine.
struct sinh : CostlyFunctor<sinh, 4> {
  TESSERA_DEFINE_OF_NUMBER(std::sinh(a))
  TESSERA_DEFINE_KERNELS(Sinh, ArrayKernelElement)
};

/// Computes the hyperbolic cosine.
struct cosh : CostlyFunctor<cosh> {
  TESSERA_DEFINE_OF_NUMBER(std::cosh(a))
  TESSERA_DEFINE_KERNELS(Cosh, ArrayKernelElement)
};

/// Computes the hyperbolic tangent.
struct tanh : CostlyFunctor<tanh, 4> {
  TESSERA_DEFINE_OF_NUMBER(std::tanh(a))
  TESSERA_DEFINE_KERNELS(Tanh, ArrayKernelElement)
};

/// Computes the inverse hyperbolic sine.
struct asinh : CostlyFunctor<asinh, 8> {
  TESSERA_DEFINE_OF_NUMBER(std::asinh(a))
  TESSERA_DEFINE_KERNELS(Asinh, ArrayKernelElement)
};

/// Computes the inverse hyperbolic cosine; NaN where a < 1.
struct acosh : CostlyFunctor<acosh, 8> {
  TESSERA_DEFINE_OF_NUMBER(std::acosh(a))
  TESSERA_DEFINE_KERNELS(Acosh, ArrayKernelElement)
};

/// Computes the inverse hyperbolic tangent; NaN where |a| > 1.
struct atanh : CostlyFunctor<atanh, 8> {
  TESSERA_DEFINE_OF_NUMBER(std::atanh(a))
  TESSERA_DEFINE_KERNELS(Atanh, ArrayKernelElement)
};

/// Computes the cube root.
struct cbrt : CostlyFunctor<cbrt, 8> {
  TESSERA_DEFINE_OF_NUMBER(std::cbrt(a))
  TESSERA_DEFINE_KERNELS(Cbrt, ArrayKernelElement)
};

/// Computes the error function.
struct erf : CostlyFunctor<erf, 4> {
  TESSERA_DEFINE_OF_NUMBER(std::erf(a))
  TESSERA_DEFINE_KERNELS(Erf, ArrayKernelElement)
};

/// Computes 1 - erf(a), accurate for large a.
struct erfc : CostlyFunctor<erfc, 8> {
  TESSERA_DEFINE_OF_NUMBER(std::erfc(a))
  TESSERA_DEFINE_KERNELS(Erfc, ArrayKernelElement)
};

/// Computes the gamma function, which is (a - 1)! for a positive integer a.
struct gamma : CostlyFloatFunctor<gamma> {
  TESSERA_DEFINE_OF_NUMBER(tensor_internal::Gamma(a))
  TESSERA_DEFINE_KERNELS(Gamma, FloatArrayKernelElement)
};

/// Computes the logarithm of the gamma function's magnitude.
struct lgamma : CostlyFloatFunctor<lgamma> {
  TESSERA_DEFINE_OF_NUMBER(tensor_internal::LogGamma(a))
  TESSERA_DEFINE_KERNELS(LogGamma, FloatArrayKernelElement)
};

/// Computes the derivative of lgamma; see special_functions.h.
struct digamma : CostlyFloatFunctor<digamma> {
  TESSERA_DEFINE_OF_NUMBER(tensor_internal::Digamma(a))
  TESSERA_DEFINE_KERNELS(Digamma, FloatArrayKernelElement)
};

/// Computes 1 / (1 + exp(-a)).
struct sigmoid : CostlyFunctor<sigmoid> {
  template <typename Real>
  TESSERA_HD static Real OfNumber(Real a) {
    // exp(-a) would overflow for a large negative number before the result vanishes.
    const Real e = std::exp(a < 0 ? a : -a);
    return (a < 0 ? e : 1) / (1 + e);
  }
  TESSERA_DEFINE_KERNELS(Sigmoid, ArrayKernelElement)
};

/// Computes log(1 + exp(a)), written so that a large |a| neither overflows nor loses all digits.
struct softrelu : CostlyFunctor<softrelu> {
  template <typename Real>
  TESSERA_HD static Real OfNumber(Real a) {
    return (a < 0 ? 0 : a) + std::log1p(std::exp(a < 0 ? a : -a));
  }
  TESSERA_DEFINE_KERNELS(Softplus, ArrayKernelElement)
};
using softplus = softrelu;

/// Computes a times the standard normal distribution function at a: a (1 + erf(a / sqrt(2))) / 2.
struct gelu : CostlyFunctor<gelu, 8> {
  TESSERA_DEFINE_OF_NUMBER(tensor_internal::Gelu(a))
  TESSERA_DEFINE_KERNELS(Gelu, ArrayKernelElement)
};

/// Computes the derivative of gelu.
struct gelu_grad : CostlyFunctor<gelu_grad, 8> {
  TESSERA_DEFINE_OF_NUMBER(tensor_internal::GeluSlope(a))
  TESSERA_DEFINE_KERNELS(GeluSlope, ArrayKernelElement)
};

#undef TESSERA_DEFINE_OF_NUMBER
#undef TESSERA_DEFINE_KERNELS

/// Computes a / (1 + |a|), which is 0 for integers.
struct softsign : WideFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::is_integral_v<T>) {
      return T(0);
    } else {
      return static_cast<T>(a / (T(1) + (a < T(0) ? static_cast<T>(-a) : a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

}  // namespace op

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_FUNCTORS_REAL_FUNCTORS_H_
