#ifndef TESSERA_TENSOR_FUNCTORS_FUNCTORS_H_
#define TESSERA_TENSOR_FUNCTORS_FUNCTORS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/tensor/functors/real_functors.h"
#include "tessera/tensor/functors/wide_functor.h"
#include "tessera/tensor/packet/packet_concepts.h"

/// Functors: trivial structs with a static Map for single elements, callable on host and device.
/// Many have a static PacketMap over Eigen packets as well. Any struct with a Map can be used in
/// F<Op>(...). A packet form, called MapPacket or PacketMap, makes a user's functor faster:
///
///     struct Squared : tessera::WideFunctor {
///       TESSERA_HD static float Map(float a) { return a * a; }
///       template <typename P>
///       TESSERA_HD static P MapPacket(const P& a) { return tessera::pk::pmul(a, a); }
///     };
///
/// WideFunctor declares that the packet form uses only the functions of pk in avx2_packet.h. Its
/// loops may then run over AVX2 packets in a build for an older instruction set. StepwiseFunctor
/// declares besides that MapPacket does to each number the operations that Map does to a half_t,
/// each of which rounds. The only constant of such a MapPacket is `pset1<P>(typename
/// pk::unpacket_traits<P>::type(1))`. Its loops over half_t may then run over AVX2 packets too.
///
/// A functor that costs more than arithmetic may declare its cost, so that a second thread joins
/// sooner: `static constexpr index_t kElementCost = 30;` for a call of std::exp, 3 ns; see cost.h.
///
/// This header has arithmetic, comparisons, rounding and the like; real_functors.h has the rest.
/// Both compile without packets: functor_packets.h defines the packet forms, and files that
/// evaluate expressions include it. Sums, differences, products, quotients, squares, negatives and
/// absolute values of integers wrap around. An integer divided by 0 gives 0, and so does an integer
/// modulo 0.
namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

namespace op {

/// The type in which +, - and * of T are computed. It is unsigned for integers: as wide as T, or as
/// int if T is narrower. Functors of integers wrap around, which C++ leaves undefined for signed
/// integers and for those that it promotes to int. The type is T itself for floating-point types.
template <typename T>
using WrapsIn =
    std::conditional_t<!std::is_integral_v<T>, T,
                       std::conditional_t<sizeof(T) <= sizeof(unsigned), unsigned, uint64_t>>;

/// Computes a + b.
struct plus : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(static_cast<WrapsIn<T>>(a) + static_cast<WrapsIn<T>>(b));
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Computes a - b.
struct minus : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(static_cast<WrapsIn<T>>(a) - static_cast<WrapsIn<T>>(b));
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Computes a * b.
struct mul : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>(static_cast<WrapsIn<T>>(a) * static_cast<WrapsIn<T>>(b));
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Computes a / b, cut off towards 0 for integers. An integer divided by 0 gives 0. The least
/// integer divided by -1 gives itself, because its negative does not fit.
struct div : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Processors trap on both of these, or leave the result undefined.
      if (b == T(0)) return T(0);
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return minus::Map(T(0), a);
      }
    }
    return static_cast<T>(a / b);
  }
  template <FloatingPacket P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Computes a modulo b: a - floor(a / b) * b, which has the sign of b, as in Python and NumPy. It
/// is NaN for floating-point values where b is 0 or a is infinite, and 0 for integers where b is 0.
struct mod {
  template <typename T>
  static constexpr index_t ElementCost() {
    return std::is_integral_v<T> ? 1 : kLibraryCost;
  }
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == T(0)) return T(0);
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return T(0);  // the quotient of the least integer would not fit
        const T rest = static_cast<T>(a % b);
        return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
      } else {
        return static_cast<T>(a % b);
      }
    } else {
      const RealOf<T> divisor = ToReal(b), rest = std::fmod(ToReal(a), divisor);
      if (rest == 0) return static_cast<T>(std::copysign(rest, divisor));
      return static_cast<T>((rest < 0) != (divisor < 0) ? rest + divisor : rest);
    }
  }
};

/// Returns the right operand.
struct right : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T, T b) {
    return b;
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P&, const P& b);
};

/// Returns a.
struct identity : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a;
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Computes -a; the negative of 0.0 is -0.0.
struct negation : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(-static_cast<WrapsIn<T>>(a));
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Returns the larger operand; NaN if either is NaN.
struct maximum : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    const bool is_nan = a != a, is_larger = a > b;  // both, without a branch
    return is_nan | is_larger ? a : b;
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Returns the smaller operand; NaN if either is NaN.
struct minimum : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    const bool is_nan = a != a, is_smaller = a < b;
    return is_nan | is_smaller ? a : b;
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Limits a to [low, high]: low where a < low, high where a > high, and NaN where a is NaN.
struct clamp : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T low, T high) {
    const bool below = a < low, above = high < a;
    const T held = above ? high : a;
    return below ? low : held;
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& low, const P& high);
};

/// Returns a where condition is not 0, else b. NaN is not 0.
struct blend : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T condition, T a, T b) {
    return condition != T(0) ? a : b;
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& condition, const P& a, const P& b);
};

/// Returns 1 where a == b, else 0. The result is 0 where either is NaN.
struct eq : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a == b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Returns 1 where a < b, else 0. The result is 0 where either is NaN.
struct lt : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a < b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Returns 1 where a <= b, else 0. The result is 0 where either is NaN.
struct le : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a <= b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Returns 1 where a > b, else 0. The result is 0 where either is NaN.
struct gt : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a > b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Returns 1 where a >= b, else 0. The result is 0 where either is NaN.
struct ge : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a >= b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Returns 1 where a != b, else 0. The result is 1 where either is NaN.
struct ne : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a != b ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Combines the bits of two integers by "and". For floating-point values it returns 1 where neither
/// operand is 0, else 0, which combines comparisons. NaN is not 0.
struct bit_and : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(a & b);
    } else {
      const bool has_a = a != T(0), has_b = b != T(0);
      return has_a & has_b ? T(1) : T(0);
    }
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Combines the bits of two integers by "or". For floating-point values it returns 1 where an
/// operand is not 0, else 0, which combines comparisons. NaN is not 0.
struct bit_or : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(a | b);
    } else {
      const bool has_a = a != T(0), has_b = b != T(0);
      return has_a | has_b ? T(1) : T(0);
    }
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a, const P& b);
};

/// Computes a * a.
struct square : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return mul::Map(a, a);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a);
};
/// mshadow's name for square.
using sqr = square;

/// Computes the square root, correctly rounded.
struct square_root : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(std::sqrt(ToReal(a)));
  }
  template <FloatingPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// mshadow's name for square_root.
using sqrt = square_root;

/// Computes 1 / a, which is 0 for the integer 0.
struct rcp : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return div::Map(T(1), a);
  }
  template <FloatingPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Rounds down to an integer.
struct floor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::is_integral_v<T>) {
      return a;
    } else {
      return static_cast<T>(std::floor(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Rounds up to an integer.
struct ceil {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::is_integral_v<T>) {
      return a;
    } else {
      return static_cast<T>(std::ceil(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Rounds to the nearest integer, ties to the one with the larger magnitude.
struct round {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::is_integral_v<T>) {
      return a;
    } else {
      return static_cast<T>(std::round(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Rounds to an integer towards 0.
struct trunc {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::is_integral_v<T>) {
      return a;
    } else {
      return static_cast<T>(std::trunc(ToReal(a)));
    }
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Computes max(a, 0); NaN stays NaN.
struct relu : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a < T(0) ? T(0) : a;
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Returns 1 where a > 0, else 0. This is the derivative of relu, from its input or its output.
struct relu_grad : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a > T(0) ? T(1) : T(0);
  }
  template <ComparesPackets P>
  TESSERA_HD static P PacketMap(const P& a);
};

/// Computes |a|. The absolute value of either zero is +0. The absolute value of the least integer
/// is that integer.
struct abs : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::numeric_limits<T>::is_signed) {
      return a <= T(0) ? minus::Map(T(0), a) : a;
    } else {
      return a;
    }
  }
  template <FloatingPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};
/// C has the name `fabs` for `abs` of a floating-point value.
using fabs = abs;

/// Returns -1, 0 or 1 for the sign of a. Zeros keep their sign, and NaN stays NaN.
struct sign : StepwiseFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    if constexpr (std::numeric_limits<T>::is_signed) {
      if (a < T(0)) return T(-1);
    }
    return a > T(0) ? T(1) : a;
  }
  template <FloatingPacket P>
  TESSERA_HD static P PacketMap(const P& a);
};

}  // namespace op

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_FUNCTORS_FUNCTORS_H_
