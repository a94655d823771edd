#ifndef TESSERA_TENSOR_EXPRESSION_H_
#define TESSERA_TENSOR_EXPRESSION_H_

#include <concepts>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/tensor/functors.h"

/// Expression nodes. A node is a small trivially copyable value that holds its operands by value,
/// so an expression kept in an `auto` variable stays valid for as long as the memory behind its
/// tensors, and can be passed to a CUDA kernel as it is.
///
/// What a node offers (the evaluators use nothing else):
///   value_type, kRank         element type; rank, 0 for a scalar that fits every shape
///   device_type               where the operands' memory lies; void or absent if anywhere
///   kHasPacket                whether EvalPacket may be called
///   shape()                   Shape<kRank>
///   Eval(y, x)                the element at flattened row y and column x; with N dimensions, y
///                             counts the first N-1 of them and x is the last
///   EvalPacket<P>(y, x)       elements x, x+1, … of row y as a packet, on the CPU
///   IsFlat()                  true if Eval(0, i) gives element i of the whole expression in
///                             row-major order, so that the rows may be run as one
/// and, for nodes whose index arithmetic is dear, optionally
///   EvalRow(y, begin, end, T* out)  writes elements [begin, end) of row y, on the CPU.
namespace tessera {

template <typename Device, int N, typename T>
class Tensor;

namespace expr {

/// The base of every expression: Derived says what it is.
template <typename Derived>
struct Exp {
  using Node = Derived;
  TESSERA_HD const Derived& self() const { return static_cast<const Derived&>(*this); }
};

template <typename E>
concept Expression = std::derived_from<E, Exp<typename E::Node>>;

/// What an expression holds of an operand: the operand itself, or for a class derived from a node
/// (a container) that node, so that expressions never own memory.
template <Expression E>
using NodeOf = typename E::Node;

/// Numbers that may stand beside an expression.
template <typename S>
concept Scalar = std::is_arithmetic_v<S> || std::same_as<S, half_t> || std::same_as<S, bfloat16_t>;

template <typename E>
struct DeviceOfExpression {
  using type = void;
};
template <typename E>
requires requires { typename E::device_type; }
struct DeviceOfExpression<E> {
  using type = typename E::device_type;
};

/// The device whose memory an expression reads; void for one that reads none.
template <typename E>
using DeviceOf = typename DeviceOfExpression<E>::type;
template <typename A, typename B>
using CommonDevice = std::conditional_t<std::is_void_v<DeviceOf<A>>, DeviceOf<B>, DeviceOf<A>>;

/// What a compiler names when operands cannot match. Of different element types, convert one with
/// tcast<T>(); of different ranks, bring them to one shape, for example with broadcast<axis>.
template <typename A, typename B>
concept SameElementType = std::same_as<typename A::value_type, typename B::value_type>;
template <typename A, typename B>
concept SameRank = A::kRank == B::kRank || A::kRank == 0 || B::kRank == 0;
template <typename A, typename B>
concept SameDevice = std::is_void_v<DeviceOf<A>> || std::is_void_v<DeviceOf<B>> ||
    std::same_as<DeviceOf<A>, DeviceOf<B>>;
template <typename A, typename B>
concept MatchingExpressions =
    Expression<A> && Expression<B> && SameElementType<A, B> && SameRank<A, B> && SameDevice<A, B>;

inline namespace TESSERA_ISA_NAMESPACE {

/// A scalar as an expression: the same value everywhere.
template <typename T>
struct ScalarExp : Exp<ScalarExp<T>> {
  using value_type = T;
  static constexpr int kRank = 0;
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;

  T value;

  explicit ScalarExp(T v) : value(v) {}
  TESSERA_HD T Eval(index_t, index_t) const { return value; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t, index_t) const {
    return pk::pset1<P>(value);
  }
  bool IsFlat() const { return true; }
};

/// F<Op>(a): Op::Map of each element.
template <typename Op, typename A>
struct UnaryMapExp : Exp<UnaryMapExp<Op, A>> {
  using value_type = typename A::value_type;
  using device_type = DeviceOf<A>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = A::kHasPacket && HasUnaryPacket<Op, value_type>;

  A a;

  explicit UnaryMapExp(const A& operand) : a(operand) {}
  auto shape() const { return a.shape(); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return static_cast<value_type>(Op::Map(a.Eval(y, x)));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return Op::PacketMap(a.template EvalPacket<P>(y, x));
  }
  bool IsFlat() const { return a.IsFlat(); }
};

/// F<Op>(a, b), and a + b and so on: Op::Map of each pair of elements.
template <typename Op, typename A, typename B>
struct BinaryMapExp : Exp<BinaryMapExp<Op, A, B>> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  static constexpr int kRank = A::kRank > B::kRank ? A::kRank : B::kRank;
  static constexpr bool kHasPacket =
      A::kHasPacket && B::kHasPacket && HasBinaryPacket<Op, value_type>;

  A a;
  B b;

  /// Throws Error(kInvalidArgument) if both operands have a shape and the two differ.
  BinaryMapExp(const A& left, const B& right) : a(left), b(right) {
    if constexpr (A::kRank > 0 && B::kRank > 0) {
      if (a.shape() != b.shape()) {
        throw InvalidArgument("element-wise expression: the operands' shapes ", a.shape(), " and ",
                              b.shape(), " differ");
      }
    }
  }
  auto shape() const {
    if constexpr (A::kRank > 0) {
      return a.shape();
    } else {
      return b.shape();
    }
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return static_cast<value_type>(Op::Map(a.Eval(y, x), b.Eval(y, x)));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return Op::PacketMap(a.template EvalPacket<P>(y, x), b.template EvalPacket<P>(y, x));
  }
  bool IsFlat() const { return a.IsFlat() && b.IsFlat(); }
};

/// F<Op>(a, b, c): Op::Map of each triple of elements.
template <typename Op, typename A, typename B, typename C>
struct TernaryMapExp : Exp<TernaryMapExp<Op, A, B, C>> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket =
      A::kHasPacket && B::kHasPacket && C::kHasPacket && HasTernaryPacket<Op, value_type>;

  A a;
  B b;
  C c;

  TernaryMapExp(const A& first, const B& second, const C& third) : a(first), b(second), c(third) {
    if (a.shape() != b.shape() || a.shape() != c.shape()) {
      throw InvalidArgument("element-wise expression: the operands' shapes ", a.shape(), ", ",
                            b.shape(), " and ", c.shape(), " differ");
    }
  }
  auto shape() const { return a.shape(); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return static_cast<value_type>(Op::Map(a.Eval(y, x), b.Eval(y, x), c.Eval(y, x)));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return Op::PacketMap(a.template EvalPacket<P>(y, x), b.template EvalPacket<P>(y, x),
                         c.template EvalPacket<P>(y, x));
  }
  bool IsFlat() const { return a.IsFlat() && b.IsFlat() && c.IsFlat(); }
};

/// tcast<T>(a): each element converted as static_cast does.
template <typename T, typename A>
struct TypecastExp : Exp<TypecastExp<T, A>> {
  using value_type = T;
  using device_type = DeviceOf<A>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = false;

  A a;

  explicit TypecastExp(const A& operand) : a(operand) {}
  auto shape() const { return a.shape(); }
  TESSERA_HD T Eval(index_t y, index_t x) const { return static_cast<T>(a.Eval(y, x)); }
  bool IsFlat() const { return a.IsFlat(); }
};

/// a.T(): a matrix with rows and columns exchanged; inside dot, a flag for the GEMM.
template <typename A>
struct TransposeExp : Exp<TransposeExp<A>> {
  using value_type = typename A::value_type;
  using device_type = DeviceOf<A>;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;

  A a;

  explicit TransposeExp(const A& operand) : a(operand) {}
  Shape<2> shape() const { return Shape2(a.shape()[1], a.shape()[0]); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const { return a.Eval(x, y); }
  bool IsFlat() const { return false; }
  const A& T() const { return a; }
};

/// Applies a user's functor: `struct op { static float Map(float a) {…} }; dst = F<op>(src);`.
template <typename Op, Expression A>
UnaryMapExp<Op, NodeOf<A>> F(const A& a) {
  return UnaryMapExp<Op, NodeOf<A>>(a.self());
}
template <typename Op, typename A, typename B>
requires MatchingExpressions<A, B> BinaryMapExp<Op, NodeOf<A>, NodeOf<B>> F(const A& a,
                                                                            const B& b) {
  return {a.self(), b.self()};
}
template <typename Op, Expression A, Scalar S>
auto F(const A& a, S b) {
  using T = typename A::value_type;
  return BinaryMapExp<Op, NodeOf<A>, ScalarExp<T>>(a.self(), ScalarExp<T>(static_cast<T>(b)));
}
template <typename Op, Scalar S, Expression B>
auto F(S a, const B& b) {
  using T = typename B::value_type;
  return BinaryMapExp<Op, ScalarExp<T>, NodeOf<B>>(ScalarExp<T>(static_cast<T>(a)), b.self());
}
template <typename Op, typename A, typename B, typename C>
requires MatchingExpressions<A, B> && MatchingExpressions<A, C>
    TernaryMapExp<Op, NodeOf<A>, NodeOf<B>, NodeOf<C>> F(const A& a, const B& b, const C& c) {
  return {a.self(), b.self(), c.self()};
}

template <typename T, Expression A>
TypecastExp<T, NodeOf<A>> tcast(const A& a) {
  return TypecastExp<T, NodeOf<A>>(a.self());
}

/// Element-wise arithmetic. The operands have equal shapes and element types, or one is a number,
/// which is converted to the other's element type.
template <typename A, typename B>
concept ElementwiseOperands = MatchingExpressions<A, B> ||(Expression<A>&& Scalar<B>) ||
                              (Scalar<A> && Expression<B>);

template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator+(const A& a, const B& b) { return F<op::plus>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator-(const A& a, const B& b) { return F<op::minus>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator*(const A& a, const B& b) { return F<op::mul>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator/(const A& a, const B& b) { return F<op::div>(a, b); }
template <Expression A>
auto operator-(const A& a) {
  return F<op::negation>(a);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Expression;
using expr::F;
using expr::tcast;

}  // namespace tessera

#endif  // TESSERA_TENSOR_EXPRESSION_H_
