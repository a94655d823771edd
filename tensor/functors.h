#ifndef TESSERA_TENSOR_FUNCTORS_H_
#define TESSERA_TENSOR_FUNCTORS_H_

#include <cmath>
#include <limits>

#include "tessera/tensor/packet.h"

/// Functors: trivial structs with a static Map for single elements, callable on host and device,
/// and where one exists a static PacketMap over Eigen packets. Any struct with a Map can be used
/// in F<Op>(...); PacketMap only makes it faster.
namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

namespace op {

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
    return pk::pnegate(a);
  }
};

/// The larger operand; NaN if either is NaN. Elements alone: Eigen's pmax differs in NaN.
struct maximum {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a != a ? a : (a > b ? a : b);
  }
};

/// The smaller operand; NaN if either is NaN.
struct minimum {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return a != a ? a : (a < b ? a : b);
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

/// Correctly rounded. Elements alone: Eigen's psqrt for float is an approximation that is wrong for
/// infinities and subnormals.
struct square_root {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    using std::sqrt;
    return static_cast<T>(sqrt(a));
  }
};

struct exp {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    using std::exp;
    return static_cast<T>(exp(a));
  }
};

struct log {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    using std::log;
    return static_cast<T>(log(a));
  }
};

struct tanh {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    using std::tanh;
    return static_cast<T>(tanh(a));
  }
};

/// 1 / (1 + exp(-a))
struct sigmoid {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    using std::exp;
    return static_cast<T>(T(1) / (T(1) + static_cast<T>(exp(static_cast<T>(-a)))));
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
    using std::exp;
    using std::log1p;
    if (a > T(0)) return static_cast<T>(a + static_cast<T>(log1p(exp(static_cast<T>(-a)))));
    return static_cast<T>(log1p(exp(a)));
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
    return a <= T(0) ? static_cast<T>(T(0) - a) : a;
  }
};

}  // namespace op

/// How an assignment combines the destination's old value with the new one.
namespace sv {

struct saveto {
  using OPType = op::right;
};
struct plusto {
  using OPType = op::plus;
};
struct minusto {
  using OPType = op::minus;
};
struct multo {
  using OPType = op::mul;
};
struct divto {
  using OPType = op::div;
};

}  // namespace sv

/// Reducers: a functor with the value that an empty reduction has.
namespace red {

struct sum {
  using OPType = op::plus;
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return T(0);
  }
};
struct maximum {
  using OPType = op::maximum;
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return std::numeric_limits<T>::has_infinity ? T(-std::numeric_limits<T>::infinity())
                                                : std::numeric_limits<T>::lowest();
  }
};
struct minimum {
  using OPType = op::minimum;
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
