#ifndef TESSERA_TENSOR_EXPRESSION_H_
#define TESSERA_TENSOR_EXPRESSION_H_

#include <algorithm>
#include <concepts>
#include <sstream>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/tensor/element_group.h"
#include "tessera/tensor/functors.h"
#include "tessera/tensor/reducers.h"

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
///   EvalPacket<P>(y, x)       elements x, x+1, … of row y as a packet: one of Eigen's on the CPU,
///   an
///                             ElementGroup on a GPU
///   kHasGroups                whether EvalPacket may be called for an ElementGroup; false if
///   absent.
///                             Then also GroupsAreAligned(rows): whether in all memory that is read
///                             each of `rows` rows begins at a multiple of 16 bytes
///   IsFlat()                  true if Eval(0, i) gives element i of the whole expression in
///                             row-major order, so that the rows may be run as one
///   operands()                the operands, a std::tuple of nodes; absent if there are none
///   WithOperands(e...)        the same node over other operands of the same shapes
///   kMovesElements            false if element i depends on the operands' elements i alone; true,
///                             or absent, for a node that reads other places (a.T(), broadcast)
///   kComputedFirst            true for a node that has no elements before ComputeFirst; see
///                             prepare.h
/// and, for nodes whose index arithmetic is dear, optionally
///   EvalRow(y, begin, end, T* out)  writes elements [begin, end) of row y, on the CPU
///   EvalRows(begin, end, T* data, stride)  writes rows [begin, end) of the whole result, row y at
///                             data + y * stride, on the CPU; false if it has nothing better than
///                             EvalRow to offer, and then wrote nothing
namespace tessera {

template <typename Device, int N, typename T>
class Tensor;
template <typename Device>
struct Stream;
template <typename Device>
class Scratch;

namespace expr {

inline namespace TESSERA_ISA_NAMESPACE {
template <typename A>
struct TransposeExp;
}  // namespace TESSERA_ISA_NAMESPACE

/// The base of everything that may be an operand. A function with a common name takes this rather
/// than any E: where a program has an `exp` or a `sum` of its own for tensors, that one fits
/// better, as a class derived from Tensor (a container) is closer to Tensor than to this base.
template <typename Derived>
struct AnyOperand {
  TESSERA_HD const Derived& self() const { return static_cast<const Derived&>(*this); }
};

/// The base of every expression: Derived says what it is.
template <typename Derived>
struct Exp : AnyOperand<Derived> {
  using Node = Derived;
  using AnyOperand<Derived>::self;

  /// A matrix with rows and columns exchanged; inside dot a flag for the GEMM.
  auto T() const requires(Derived::kRank == 2) { return TransposeExp<Derived>(self()); }
};

/// A second base for nodes that may be without dimensions, such as sum(a) or 2 * sum(a): these
/// convert to the number that they stand for, `float mean = sum(a) / n;`, `if (sum(a) > 0)`. The
/// number is computed at once; on a GPU the conversion waits for the stream of the operands.
template <typename Derived, typename T, int kRank>
struct Number {};
template <typename Derived, typename T>
struct Number<Derived, T, 0> {
  operator T() const {  // NOLINT: a number is what it is
    return EvaluateNumber(static_cast<const Derived&>(*this));
  }
};
/// 16-bit numbers, which convert to float by themselves, do so here too.
template <typename Derived, typename Format>
struct Number<Derived, Float16<Format>, 0> {
  operator Float16<Format>() const {  // NOLINT: as above
    return EvaluateNumber(static_cast<const Derived&>(*this));
  }
  operator float() const {  // NOLINT: as above
    return EvaluateNumber(static_cast<const Derived&>(*this));
  }
};

template <typename E>
concept Expression = std::derived_from<E, Exp<typename E::Node>>;

/// The base of expressions that are computed as a whole (a product, a reduction to a vector) by
/// code of their own. Derived offers
///   value_type, device_type, kRank, shape()   as every node does
///   scale                                     a factor
///   operands()                                where it can, so that Fuse sees what it reads
///   template <typename Saver, typename Dst> void AssignTo(const Dst& dst) const
/// On the right of an assignment AssignTo computes it straight into the destination; inside an
/// expression it is computed into a temporary before the loop.
template <typename Derived>
struct ComplexExp : AnyOperand<Derived> {};

template <typename E>
concept ComplexExpression = std::derived_from<E, ComplexExp<E>>;

/// What may be an operand: a node, or an expression that is computed as a whole.
template <typename E>
concept Operand = Expression<E> ||(ComplexExpression<E>&& requires(const E& e) {
  typename E::value_type;
  typename E::device_type;
  E::kRank;
  e.shape();
});

/// What an expression holds of an operand: the operand itself, or for a class derived from a node
/// (a container) that node, so that expressions never own memory.
template <Expression E>
using NodeOf = typename E::Node;

/// What a new value does to the old one; see reducers.h. A program's own `Assign<xpu>(a, b)` for
/// tensors is none of ours.
template <typename S>
concept AnySaver = requires {
  typename S::OPType;
};

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

template <typename E>
struct IsTensorNode : std::false_type {};
template <typename Device, int N, typename T>
struct IsTensorNode<Tensor<Device, N, T>> : std::true_type {};

/// True for a Tensor itself, the node that owns a place in memory.
template <typename E>
inline constexpr bool kIsTensor = IsTensorNode<E>::value;

/// False for a node that promises to read its operands only at the place that is asked of it.
template <typename E>
constexpr bool MovesElements() {
  if constexpr (requires { E::kMovesElements; }) {
    return E::kMovesElements;
  } else {
    return true;
  }
}

/// The operands of a node, none for one that does not name any.
template <typename E>
auto OperandsOf(const E& e) {
  if constexpr (requires { e.operands(); }) {
    return e.operands();
  } else {
    return std::tuple<>();
  }
}

/// True if EvalPacket gives groups of elements, as a GPU moves them.
template <typename E>
constexpr bool HasGroups() {
  if constexpr (requires { E::kHasGroups; }) {
    return E::kHasGroups;
  } else {
    return false;
  }
}

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
    Operand<A> && Operand<B> && SameElementType<A, B> && SameRank<A, B> && SameDevice<A, B>;

/// Two expressions that cannot stand side by side. For such pairs the operators exist as deleted
/// functions, so that a compiler prints one message, with the reason in the result's type, instead
/// of a list of candidates.
template <typename A, typename B>
concept MismatchedExpressions = Operand<A> && Operand<B> && !MatchingExpressions<A, B>;

struct OperandsHaveDifferentElementTypes_ConvertOneWithTcast;
struct OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape;
struct OperandsLieOnDifferentDevices_CopyOneFirst;
template <typename A, typename B>
using MismatchOf = std::conditional_t<
    !SameElementType<A, B>, OperandsHaveDifferentElementTypes_ConvertOneWithTcast,
    std::conditional_t<!SameRank<A, B>,
                       OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape,
                       OperandsLieOnDifferentDevices_CopyOneFirst>>;

inline namespace TESSERA_ISA_NAMESPACE {

/// A scalar as an expression: the same value everywhere.
template <typename T>
struct ScalarExp : Exp<ScalarExp<T>>, Number<ScalarExp<T>, T, 0> {
  using value_type = T;
  using device_type = void;
  static constexpr int kRank = 0;
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;
  static constexpr bool kHasGroups = true;
  static constexpr bool kMovesElements = false;

  T value;

  explicit ScalarExp(T v) : value(v) {}
  TESSERA_HD T Eval(index_t, index_t) const { return value; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t, index_t) const {
    return SetPacket<P>(value);
  }
  bool IsFlat() const { return true; }
  bool GroupsAreAligned(index_t) const { return true; }
};

/// F<Op>(a): Op::Map of each element.
template <typename Op, typename A>
struct UnaryMapExp : Exp<UnaryMapExp<Op, A>>,
                     Number<UnaryMapExp<Op, A>, typename A::value_type, A::kRank> {
  using value_type = typename A::value_type;
  using device_type = DeviceOf<A>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = A::kHasPacket && HasUnaryPacket<Op, value_type>;
  static constexpr bool kHasGroups = HasGroups<A>();
  static constexpr bool kMovesElements = false;

  A a;

  explicit UnaryMapExp(const A& operand) : a(operand) {}
  auto shape() const { return a.shape(); }
  std::tuple<A> operands() const { return {a}; }
  template <typename NewA>
  auto WithOperands(const NewA& new_a) const {
    return UnaryMapExp<Op, NewA>(new_a);
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return static_cast<value_type>(Op::Map(a.Eval(y, x)));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return MapPackets<Op>(a.template EvalPacket<P>(y, x));
  }
  bool IsFlat() const { return a.IsFlat(); }
  bool GroupsAreAligned(index_t rows) const requires kHasGroups { return a.GroupsAreAligned(rows); }
};

/// F<Op>(a, b), and a + b and so on: Op::Map of each pair of elements.
template <typename Op, typename A, typename B>
struct BinaryMapExp : Exp<BinaryMapExp<Op, A, B>>,
                      Number<BinaryMapExp<Op, A, B>, typename A::value_type,
                             (A::kRank > B::kRank ? A::kRank : B::kRank)> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  static constexpr int kRank = A::kRank > B::kRank ? A::kRank : B::kRank;
  static constexpr bool kHasPacket =
      A::kHasPacket && B::kHasPacket && HasBinaryPacket<Op, value_type>;
  static constexpr bool kHasGroups = HasGroups<A>() && HasGroups<B>();
  static constexpr bool kMovesElements = false;

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
  std::tuple<A, B> operands() const { return {a, b}; }
  template <typename NewA, typename NewB>
  auto WithOperands(const NewA& new_a, const NewB& new_b) const {
    return BinaryMapExp<Op, NewA, NewB>(new_a, new_b);
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return static_cast<value_type>(Op::Map(a.Eval(y, x), b.Eval(y, x)));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return MapPackets<Op>(a.template EvalPacket<P>(y, x), b.template EvalPacket<P>(y, x));
  }
  bool IsFlat() const { return a.IsFlat() && b.IsFlat(); }
  bool GroupsAreAligned(index_t rows) const requires kHasGroups {
    return a.GroupsAreAligned(rows) && b.GroupsAreAligned(rows);
  }
};

/// F<Op>(a, b, c): Op::Map of each triple of elements.
template <typename Op, typename A, typename B, typename C>
struct TernaryMapExp : Exp<TernaryMapExp<Op, A, B, C>>,
                       Number<TernaryMapExp<Op, A, B, C>, typename A::value_type,
                              std::max({A::kRank, B::kRank, C::kRank})> {
  using value_type = typename A::value_type;
  using device_type =
      std::conditional_t<std::is_void_v<CommonDevice<A, B>>, DeviceOf<C>, CommonDevice<A, B>>;
  static constexpr int kRank = std::max({A::kRank, B::kRank, C::kRank});
  static constexpr bool kHasPacket =
      A::kHasPacket && B::kHasPacket && C::kHasPacket && HasTernaryPacket<Op, value_type>;
  static constexpr bool kHasGroups = HasGroups<A>() && HasGroups<B>() && HasGroups<C>();
  static constexpr bool kMovesElements = false;

  A a;
  B b;
  C c;

  /// Throws Error(kInvalidArgument) if two operands have shapes that differ.
  TernaryMapExp(const A& first, const B& second, const C& third) : a(first), b(second), c(third) {
    if constexpr (kRank > 0) {
      const auto fits = [this](const auto& operand) {
        if constexpr (std::decay_t<decltype(operand)>::kRank > 0) {
          return operand.shape() == shape();
        } else {
          return true;
        }
      };
      if (!fits(b) || !fits(c)) {
        std::ostringstream shapes;
        Describe(shapes, a);
        Describe(shapes << ", ", b);
        Describe(shapes << " and ", c);
        throw InvalidArgument("element-wise expression: the operands' shapes ", shapes.str(),
                              " differ");
      }
    }
  }
  auto shape() const {
    if constexpr (A::kRank > 0) {
      return a.shape();
    } else if constexpr (B::kRank > 0) {
      return b.shape();
    } else {
      return c.shape();
    }
  }
  std::tuple<A, B, C> operands() const { return {a, b, c}; }
  template <typename NewA, typename NewB, typename NewC>
  auto WithOperands(const NewA& new_a, const NewB& new_b, const NewC& new_c) const {
    return TernaryMapExp<Op, NewA, NewB, NewC>(new_a, new_b, new_c);
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return static_cast<value_type>(Op::Map(a.Eval(y, x), b.Eval(y, x), c.Eval(y, x)));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return MapPackets<Op>(a.template EvalPacket<P>(y, x), b.template EvalPacket<P>(y, x),
                          c.template EvalPacket<P>(y, x));
  }
  bool IsFlat() const { return a.IsFlat() && b.IsFlat() && c.IsFlat(); }
  bool GroupsAreAligned(index_t rows) const requires kHasGroups {
    return a.GroupsAreAligned(rows) && b.GroupsAreAligned(rows) && c.GroupsAreAligned(rows);
  }

 private:
  template <typename Operand>
  static void Describe(std::ostream& os, const Operand& operand) {
    if constexpr (Operand::kRank > 0) {
      os << operand.shape();
    } else {
      os << "(scalar)";
    }
  }
};

/// tcast<T>(a): each element converted as static_cast does.
template <typename T, typename A>
struct TypecastExp : Exp<TypecastExp<T, A>>, Number<TypecastExp<T, A>, T, A::kRank> {
  using value_type = T;
  using device_type = DeviceOf<A>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = false;

  A a;

  explicit TypecastExp(const A& operand) : a(operand) {}
  auto shape() const { return a.shape(); }
  std::tuple<A> operands() const { return {a}; }
  template <typename NewA>
  auto WithOperands(const NewA& new_a) const {
    return TypecastExp<T, NewA>(new_a);
  }
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
  static constexpr bool kMovesElements = true;

  A a;

  explicit TransposeExp(const A& operand) : a(operand) {}
  Shape<2> shape() const { return Shape2(a.shape()[1], a.shape()[0]); }
  std::tuple<A> operands() const { return {a}; }
  template <typename NewA>
  auto WithOperands(const NewA& new_a) const {
    return TransposeExp<NewA>(new_a);
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const { return a.Eval(x, y); }
  bool IsFlat() const { return false; }
  const A& T() const { return a; }
};

// In prepare.h.
template <typename Device, int N, typename T>
Tensor<Device, N, T> TemporaryTensor(const Shape<N>& shape, Stream<Device>* stream,
                                     Scratch<Device>* scratch);

/// A product or a reduction as an operand. It has no elements yet: Prepare puts the temporary that
/// holds them in its place.
template <ComplexExpression C>
struct WholeExp : Exp<WholeExp<C>> {
  using value_type = typename C::value_type;
  using device_type = typename C::device_type;
  static constexpr int kRank = C::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kComputedFirst = true;

  C whole;

  explicit WholeExp(const C& complex) : whole(complex) {}
  auto shape() const { return whole.shape(); }
  auto operands() const requires requires(const C& c) { c.operands(); }
  { return whole.operands(); }
  template <typename Device>
  auto ComputeFirst(Scratch<Device>* scratch) const {
    const auto temporary =
        TemporaryTensor<Device, kRank, value_type>(shape(), scratch->stream(), scratch);
    whole.template AssignTo<sv::saveto>(temporary);
    return temporary;
  }
};

/// The node that stands for an operand.
template <Expression E>
const NodeOf<E>& AsNode(const E& e) {
  return e.self();
}
template <ComplexExpression E>
WholeExp<E> AsNode(const E& e) {
  return WholeExp<E>(e);
}
template <Operand E>
using OperandNode = std::remove_cvref_t<decltype(AsNode(std::declval<const E&>()))>;

/// Applies a user's functor: `struct op { static float Map(float a) {…} }; dst = F<op>(src);`.
/// Where numbers stand among the operands, they are converted to the element type of the others.
template <typename Op, Operand A>
UnaryMapExp<Op, OperandNode<A>> F(const A& a) {
  return UnaryMapExp<Op, OperandNode<A>>(AsNode(a));
}
template <typename Op, typename A, typename B>
requires MatchingExpressions<A, B> BinaryMapExp<Op, OperandNode<A>, OperandNode<B>> F(const A& a,
                                                                                      const B& b) {
  return {AsNode(a), AsNode(b)};
}
template <typename Op, Operand A, Scalar S>
auto F(const A& a, S b) {
  using T = typename A::value_type;
  return BinaryMapExp<Op, OperandNode<A>, ScalarExp<T>>(AsNode(a), ScalarExp<T>(static_cast<T>(b)));
}
template <typename Op, Scalar S, Operand B>
auto F(S a, const B& b) {
  using T = typename B::value_type;
  return BinaryMapExp<Op, ScalarExp<T>, OperandNode<B>>(ScalarExp<T>(static_cast<T>(a)), AsNode(b));
}
template <typename Op, typename A, typename B, typename C>
requires MatchingExpressions<A, B> && MatchingExpressions<A, C> && SameRank<B, C>
    TernaryMapExp<Op, OperandNode<A>, OperandNode<B>, OperandNode<C>> F(const A& a, const B& b,
                                                                        const C& c) {
  return {AsNode(a), AsNode(b), AsNode(c)};
}
template <typename Op, typename A, typename B, Scalar S>
requires MatchingExpressions<A, B>
auto F(const A& a, const B& b, S c) {
  return F<Op>(a, b, ScalarExp<typename A::value_type>(static_cast<typename A::value_type>(c)));
}
template <typename Op, typename A, Scalar S, typename C>
requires MatchingExpressions<A, C>
auto F(const A& a, S b, const C& c) {
  return F<Op>(a, ScalarExp<typename A::value_type>(static_cast<typename A::value_type>(b)), c);
}
template <typename Op, Operand A, Scalar S2, Scalar S3>
auto F(const A& a, S2 b, S3 c) {
  using T = typename A::value_type;
  return F<Op>(a, ScalarExp<T>(static_cast<T>(b)), ScalarExp<T>(static_cast<T>(c)));
}

template <typename T, Operand A>
TypecastExp<T, OperandNode<A>> tcast(const A& a) {
  return TypecastExp<T, OperandNode<A>>(AsNode(a));
}

/// Element-wise arithmetic. The operands have equal shapes and element types, or one is a number,
/// which is converted to the other's element type.
template <typename A, typename B>
concept ElementwiseOperands = MatchingExpressions<A, B> ||(Operand<A>&& Scalar<B>) ||
                              (Scalar<A> && Operand<B>);

/// A number times a product or reduction, which takes the factor up into its scale.
template <typename A, typename B>
concept ScaledComplex = (ComplexExpression<A> && Scalar<B>) || (Scalar<A> && ComplexExpression<B>);

template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator+(const A& a, const B& b) { return F<op::plus>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator-(const A& a, const B& b) { return F<op::minus>(a, b); }
template <typename A, typename B>
requires(ElementwiseOperands<A, B> && !ScaledComplex<A, B>) auto operator*(const A& a, const B& b) {
  return F<op::mul>(a, b);
}
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator/(const A& a, const B& b) { return F<op::div>(a, b); }
template <Operand A>
auto operator-(const A& a) {
  return F<op::negation>(a);
}

template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator+(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator-(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator*(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator/(const A& a, const B& b) = delete;
template <typename Op, typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B> F(const A& a, const B& b)
= delete;

template <Scalar S, ComplexExpression E>
E operator*(S scale, E e) {
  e.scale *= static_cast<decltype(e.scale)>(scale);
  return e;
}
template <ComplexExpression E, Scalar S>
E operator*(E e, S scale) {
  return scale * e;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Expression;
using expr::F;
using expr::tcast;

}  // namespace tessera

#endif  // TESSERA_TENSOR_EXPRESSION_H_
