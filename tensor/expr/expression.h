#ifndef TESSERA_TENSOR_EXPR_EXPRESSION_H_
#define TESSERA_TENSOR_EXPR_EXPRESSION_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/expr/element_group.h"
#include "tessera/tensor/expr/operand.h"
#include "tessera/tensor/functors/functor_packets.h"
#include "tessera/tensor/functors/functors.h"
#include "tessera/tensor/functors/reducers.h"

/// Element-wise expressions (F<Op>(a, b), a + b, tcast<T>(a), scalar<T>(x)) and the transpose
/// a.T(). Their base classes are in operand.h.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns a functor's name for an error message, for example "plus" for tessera::op::plus.
/// `signature` is the compiler's text for a function template with a parameter Op. Returns
/// "expression" if it names no Op.
inline std::string_view NameInSignature(std::string_view signature) {
  constexpr std::string_view kBefore = "Op = ";
  const size_t begin = signature.find(kBefore);
  if (begin == signature.npos) return "expression";
  std::string_view name = signature.substr(begin + kBefore.size());
  name = name.substr(0, name.find_first_of(";],<"));
  const size_t scope = name.rfind(':');
  return scope == name.npos ? name : name.substr(scope + 1);
}
template <typename Op>
std::string_view FunctorName() {
  return NameInSignature(__PRETTY_FUNCTION__);
}

/// Throws Error(kInvalidArgument): the operands of an element-wise function differ in shape. The
/// shapes are passed by value, so that no code takes the address of an operand.
template <typename Op, int N>
[[noreturn, gnu::cold, gnu::noinline]] void ThrowShapesDiffer(Shape<N> a, Shape<N> b) {
  throw InvalidArgument("element-wise ", FunctorName<Op>(), ": the operands' shapes ", a, " and ",
                        b, " differ");
}

/// Throws Error(kInvalidArgument): elements from `lowest` to `highest` cannot hold an integer.
template <typename Op, typename Integer>
[[noreturn, gnu::cold, gnu::noinline]] void ThrowNumberDoesNotFit(Integer number, int64_t lowest,
                                                                  uint64_t highest) {
  throw InvalidArgument("element-wise ", FunctorName<Op>(), ": the number ", number,
                        " does not fit elements from ", lowest, " to ", highest,
                        "; convert the elements with tcast, or the number with scalar");
}

/// Returns a number as an element of type T. Throws Error(kInvalidArgument) for an integer that an
/// integer type T cannot hold; the message names Op, the name of the operation. A floating-point
/// type rounds the number.
template <typename Op, typename T, typename S>
requires(NumberFor<S, T> || std::same_as<S, T>) T NumberAs(S number) {
  if constexpr (std::is_integral_v<T> && !std::same_as<S, T>) {
    // Promoted, neither is a bool, a character or an enumeration, which cannot be compared safely.
    constexpr auto kLowest = +std::numeric_limits<T>::lowest();
    constexpr auto kHighest = +std::numeric_limits<T>::max();
    const auto integer = +number;
    using Wide = std::conditional_t<std::is_signed_v<decltype(+number)>, int64_t, uint64_t>;
    if (std::cmp_less(integer, kLowest) || std::cmp_greater(integer, kHighest)) [[unlikely]]
      ThrowNumberDoesNotFit<Op, Wide>(integer, kLowest, kHighest);
  }
  return static_cast<T>(number);
}

/// A number, in as many copies as fill 16 bytes. Nodes are copied 16 bytes at a time. A 16-byte
/// load waits for a narrower store just before it, and the wait would be half of the time that a
/// small expression takes.
template <typename T>
struct NumberBlock {
  T value;  ///< the number

  explicit NumberBlock(T v) : value(v) {}
};
template <typename T>
requires(std::is_arithmetic_v<T> && sizeof(T) == 4) struct NumberBlock<T> {
  alignas(16) T value;  ///< the number
  T copies[3];          ///< padding, never read

  explicit NumberBlock(T v) : value(v), copies{v, v, v} {}
};
template <typename T>
requires(std::is_arithmetic_v<T> && sizeof(T) == 8) struct NumberBlock<T> {
  alignas(16) T value;  ///< the number
  T copy;               ///< padding, never read

  explicit NumberBlock(T v) : value(v), copy(v) {}
};

/// A number as an expression: every element has the same value.
template <typename T>
struct ScalarExp : NumberBlock<T>, Exp<ScalarExp<T>, T, form::kMapped>, Number<ScalarExp<T>, T, 0> {
  using value_type = T;
  using device_type = void;
  static constexpr int kRank = 0;
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;
  static constexpr bool kHasGroups = true;
  static constexpr bool kHasAvx2Packet = true;
  static constexpr bool kMovesElements = false;
  static constexpr bool kMergesOperands = true;

  using NumberBlock<T>::value;

  explicit ScalarExp(T v) : NumberBlock<T>(v) {}
  TESSERA_HD T Eval(index_t, index_t) const { return value; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t, index_t) const {
    return SetPacket<P>(value);
  }
  bool IsFlat() const { return true; }
  bool GroupsAreAligned(index_t) const { return true; }
};

/// The node of F<Op>(a), which applies Op::Map to each element.
template <typename Op, typename A>
struct UnaryMapExp : Exp<UnaryMapExp<Op, A>, typename A::value_type, A::kForm | form::kMapped>,
                     Number<UnaryMapExp<Op, A>, typename A::value_type, A::kRank> {
  using value_type = typename A::value_type;
  using device_type = DeviceOf<A>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = A::kHasPacket && HasUnaryPacket<Op, value_type>;
  static constexpr bool kHasGroups = HasGroups<A>();
  static constexpr bool kHasAvx2Packet = HasAvx2PacketOf<Op, value_type>() && HasAvx2Packet<A>();
  static constexpr bool kMovesElements = false;
  static constexpr bool kMergesOperands = true;
  static constexpr bool kIsItsOperands = true;
  static constexpr index_t kElementCost = FunctorCost<Op, value_type>();

  A a;

  explicit UnaryMapExp(const A& operand) : a(operand) {}
  auto shape() const { return a.shape(); }
  std::tuple<A> operands() const { return {a}; }
  template <typename Visitor>
  decltype(auto) VisitOperands(const Visitor& visit) const {
    return visit(a);
  }
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
  /// Computes the node straight into dst; see MaterializesInto. The member exists if the operand
  /// is materialized before the loop and can apply Op to its results.
  template <typename Dst, typename ScratchMemory>
  void ComputeInto(const Dst& dst, ScratchMemory* scratch) const requires requires {
    a.template ComputeInto<Op>(dst, scratch);
  }
  { a.template ComputeInto<Op>(dst, scratch); }
};

/// The node of F<Op>(a, b) and of operators such as a + b, which applies Op::Map to each pair of
/// elements.
template <typename Op, typename A, typename B>
struct BinaryMapExp
    : Exp<BinaryMapExp<Op, A, B>, typename A::value_type, A::kForm | B::kForm | form::kMapped>,
      Number<BinaryMapExp<Op, A, B>, typename A::value_type,
             (A::kRank > B::kRank ? A::kRank : B::kRank)> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  static constexpr int kRank = A::kRank > B::kRank ? A::kRank : B::kRank;
  static constexpr bool kHasPacket =
      A::kHasPacket && B::kHasPacket && HasBinaryPacket<Op, value_type>;
  static constexpr bool kHasGroups = HasGroups<A>() && HasGroups<B>();
  static constexpr bool kHasAvx2Packet =
      HasAvx2PacketOf<Op, value_type>() && HasAvx2Packet<A>() && HasAvx2Packet<B>();
  static constexpr bool kMovesElements = false;
  static constexpr bool kMergesOperands = true;
  static constexpr bool kIsItsOperands = true;
  static constexpr index_t kElementCost = FunctorCost<Op, value_type>();

  A a;
  B b;

  /// Throws Error(kInvalidArgument) if both operands have a shape and the shapes differ.
  BinaryMapExp(const A& left, const B& right) : a(left), b(right) {
    if constexpr (A::kRank > 0 && B::kRank > 0) {
      if (left.shape() != right.shape()) ThrowShapesDiffer<Op>(left.shape(), right.shape());
    }
  }
  BinaryMapExp(EqualShapes, const A& left, const B& right) : a(left), b(right) {}
  auto shape() const {
    if constexpr (A::kRank > 0) {
      return a.shape();
    } else {
      return b.shape();
    }
  }
  std::tuple<A, B> operands() const { return {a, b}; }
  template <typename Visitor>
  decltype(auto) VisitOperands(const Visitor& visit) const {
    return visit(a, b);
  }
  template <typename NewA, typename NewB>
  auto WithOperands(const NewA& new_a, const NewB& new_b) const {
    return BinaryMapExp<Op, NewA, NewB>(EqualShapes(), new_a, new_b);
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

/// The node of F<Op>(a, b, c), which applies Op::Map to each triple of elements.
template <typename Op, typename A, typename B, typename C>
struct TernaryMapExp : Exp<TernaryMapExp<Op, A, B, C>, typename A::value_type,
                           A::kForm | B::kForm | C::kForm | form::kMapped>,
                       Number<TernaryMapExp<Op, A, B, C>, typename A::value_type,
                              std::max({A::kRank, B::kRank, C::kRank})> {
  using value_type = typename A::value_type;
  using device_type =
      std::conditional_t<std::is_void_v<CommonDevice<A, B>>, DeviceOf<C>, CommonDevice<A, B>>;
  static constexpr int kRank = std::max({A::kRank, B::kRank, C::kRank});
  static constexpr bool kHasPacket =
      A::kHasPacket && B::kHasPacket && C::kHasPacket && HasTernaryPacket<Op, value_type>;
  static constexpr bool kHasGroups = HasGroups<A>() && HasGroups<B>() && HasGroups<C>();
  static constexpr bool kHasAvx2Packet = HasAvx2PacketOf<Op, value_type>() && HasAvx2Packet<A>() &&
                                         HasAvx2Packet<B>() && HasAvx2Packet<C>();
  static constexpr bool kMovesElements = false;
  static constexpr bool kMergesOperands = true;
  static constexpr bool kIsItsOperands = true;
  static constexpr index_t kElementCost = FunctorCost<Op, value_type>();

  A a;
  B b;
  C c;

  /// Throws Error(kInvalidArgument) if two operands have different shapes.
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
        throw InvalidArgument("element-wise ", FunctorName<Op>(), ": the operands' shapes ",
                              shapes.str(), " differ");
      }
    }
  }
  TernaryMapExp(EqualShapes, const A& first, const B& second, const C& third)
      : a(first), b(second), c(third) {}
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
  template <typename Visitor>
  decltype(auto) VisitOperands(const Visitor& visit) const {
    return visit(a, b, c);
  }
  template <typename NewA, typename NewB, typename NewC>
  auto WithOperands(const NewA& new_a, const NewB& new_b, const NewC& new_c) const {
    return TernaryMapExp<Op, NewA, NewB, NewC>(EqualShapes(), new_a, new_b, new_c);
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

/// The node of tcast<T>(a), which converts each element as static_cast does.
template <typename T, typename A>
struct TypecastExp : Exp<TypecastExp<T, A>, T, A::kForm | form::kMapped>,
                     Number<TypecastExp<T, A>, T, A::kRank> {
  using value_type = T;
  using device_type = DeviceOf<A>;
  using From = typename A::value_type;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = false;
  // AVX2 packets of half_t and of float have equally many elements, so that one converts to the
  // other.
  static constexpr bool kHasAvx2Packet =
      HasAvx2Packet<A>() && ((std::is_same_v<T, half_t> && std::is_same_v<From, float>) ||
                             (std::is_same_v<T, float> && std::is_same_v<From, half_t>));
  static constexpr bool kMovesElements = false;
  static constexpr bool kMergesOperands = true;
  static constexpr bool kIsItsOperands = true;

  A a;

  explicit TypecastExp(const A& operand) : a(operand) {}
  auto shape() const { return a.shape(); }
  std::tuple<A> operands() const { return {a}; }
  template <typename NewA>
  auto WithOperands(const NewA& new_a) const {
    return TypecastExp<T, NewA>(new_a);
  }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    return base_internal::ConvertInLoop<T>(a.Eval(y, x));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const requires kHasAvx2Packet {
    return ConvertPacket<T>(a.template EvalPacket<Avx2Packet<From>>(y, x));
  }
  bool IsFlat() const { return a.IsFlat(); }
};

// Writes a part of e transposed to `out`; defined in tile.h.
template <typename E>
void EvalTransposed(const E& e, index_t row, index_t step, index_t column, index_t rows,
                    index_t columns, typename E::value_type* out, index_t stride);

/// The node of a.T(): a matrix with rows and columns exchanged, or a vector as a matrix of one
/// column. Inside dot it becomes a flag of the GEMM.
template <typename A>
struct TransposeExp : Exp<TransposeExp<A>, typename A::value_type> {
  using value_type = typename A::value_type;
  using device_type = DeviceOf<A>;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kIsItsOperands = true;

  A a;

  explicit TransposeExp(const A& operand) : a(operand) {}
  Shape<2> shape() const {
    if constexpr (A::kRank == 1) {
      return Shape2(a.shape()[0], 1);
    } else {
      return Shape2(a.shape()[1], a.shape()[0]);
    }
  }
  std::tuple<A> operands() const { return {a}; }
  template <typename NewA>
  auto WithOperands(const NewA& new_a) const {
    return TransposeExp<NewA>(new_a);
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const { return a.Eval(x, y); }
  bool IsFlat() const { return false; }
  RowsAcross Across() const requires(!MovesElements<A>()) { return {a.shape()[A::kRank - 1], 1}; }
  const A& T() const { return a; }

  void EvalTile(index_t begin_y, index_t end_y, index_t begin_x, index_t end_x, value_type* out,
                index_t stride) const {
    EvalTransposed(a, begin_x, 1, begin_y, end_y - begin_y, end_x - begin_x, out, stride);
  }
};

// Returns a contiguous tensor in scratch memory; defined in materialize.h.
template <typename Device, int N, typename T>
Tensor<Device, N, T> TemporaryTensor(const Shape<N>& shape, Stream<Device>* stream,
                                     Scratch<Device>* scratch);

/// A product or a reduction as an operand. It has no elements until Materialize materializes it and
/// puts the temporary in its place.
template <ComplexExpression C>
struct WholeExp : Exp<WholeExp<C>, typename C::value_type> {
  using value_type = typename C::value_type;
  using device_type = typename C::device_type;
  static constexpr int kRank = C::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kIsMaterialized = true;

  C whole;

  explicit WholeExp(const C& complex) : whole(complex) {}
  auto shape() const { return whole.shape(); }
  auto operands() const requires requires(const C& c) { c.operands(); }
  { return whole.operands(); }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    const auto temporary =
        TemporaryTensor<Device, kRank, value_type>(shape(), scratch->stream(), scratch);
    AssignWhole<sv::saveto>(temporary, whole);
    return temporary;
  }
};

/// Returns the node of an operand. An operand that only stands for a node gives that node. A
/// product or reduction gives a WholeExp.
template <Expression E>
decltype(auto) AsNode(const E& e) {
  if constexpr (std::is_same_v<typename E::Node, NodeOf<E>>) {
    return e.self();
  } else {
    return e.self().self();
  }
}
template <ComplexExpression E>
WholeExp<typename E::Self> AsNode(const E& e) {
  return WholeExp<typename E::Self>(e.self());
}
template <Operand E>
using OperandNode = std::remove_cvref_t<decltype(AsNode(std::declval<const E&>()))>;

/// Returns a number as an expression without dimensions, of type T or of the number's own type, to
/// which static_cast converts it. `ints * scalar<int>(2.9)` is ints * 2. Requires: an integer type
/// can hold the number without its fraction.
template <typename T = void, Scalar S>
auto scalar(S number) {
  using Element = std::conditional_t<std::is_void_v<T>, S, T>;
  return ScalarExp<Element>(static_cast<Element>(number));
}

/// Returns a number beside an operand of type E as an operand; see NumberAs.
template <typename Op, typename E, NumberFor<typename E::value_type> S>
ScalarExp<typename E::value_type> NumberBeside(S number) {
  using T = typename E::value_type;
  return ScalarExp<T>(NumberAs<Op, T>(number));
}

/// Applies a user's functor: `struct op { static float Map(float a) {…} }; dst = F<op>(src);`.
/// Numbers among the operands are converted to the element type of the other operands. Throws
/// Error(kInvalidArgument) for an integer that elements of an integer type cannot hold. A
/// floating-point number beside integers does not compile.
template <typename Op, Operand A>
UnaryMapExp<Op, OperandNode<A>> F(const A& a) {
  return UnaryMapExp<Op, OperandNode<A>>(AsNode(a));
}
template <typename Op, typename A, typename B>
requires MatchingExpressions<A, B> BinaryMapExp<Op, OperandNode<A>, OperandNode<B>> F(const A& a,
                                                                                      const B& b) {
  return {AsNode(a), AsNode(b)};
}
template <typename Op, Operand A, NumberFor<typename A::value_type> S>
auto F(const A& a, S b) {
  const auto number = NumberBeside<Op, A>(b);
  return BinaryMapExp<Op, OperandNode<A>, ScalarExp<typename A::value_type>>(AsNode(a), number);
}
template <typename Op, Scalar S, Operand B>
requires NumberFor<S, typename B::value_type>
auto F(S a, const B& b) {
  const auto number = NumberBeside<Op, B>(a);
  return BinaryMapExp<Op, ScalarExp<typename B::value_type>, OperandNode<B>>(number, AsNode(b));
}
template <typename Op, typename A, typename B, typename C>
requires MatchingExpressions<A, B> && MatchingExpressions<A, C> && MatchingExpressions<B, C>
    TernaryMapExp<Op, OperandNode<A>, OperandNode<B>, OperandNode<C>> F(const A& a, const B& b,
                                                                        const C& c) {
  return {AsNode(a), AsNode(b), AsNode(c)};
}
/// Applies a functor of three operands, of which the last is a number.
template <typename Op, typename A, typename B, Scalar S>
requires(MatchingExpressions<A, B>&& NumberFor<S, typename A::value_type>) auto F(const A& a,
                                                                                  const B& b, S c) {
  return F<Op>(a, b, NumberBeside<Op, A>(c));
}
/// Applies a functor of three operands, of which the second is a number.
template <typename Op, typename A, Scalar S, typename C>
requires(MatchingExpressions<A, C>&& NumberFor<S, typename A::value_type>) auto F(const A& a, S b,
                                                                                  const C& c) {
  return F<Op>(a, NumberBeside<Op, A>(b), c);
}
/// Applies a functor of three operands, of which the last two are numbers.
template <typename Op, Operand A, NumberFor<typename A::value_type> S2,
          NumberFor<typename A::value_type> S3>
auto F(const A& a, S2 b, S3 c) {
  return F<Op>(a, NumberBeside<Op, A>(b), NumberBeside<Op, A>(c));
}

/// Converts each element to T as static_cast does.
template <typename T, Operand A>
TypecastExp<T, OperandNode<A>> tcast(const A& a) {
  return TypecastExp<T, OperandNode<A>>(AsNode(a));
}

/// True if A and B may be the operands of element-wise arithmetic. They are two matching
/// expressions, or an expression and a number. A number is converted to the expression's element
/// type; see NumberFor. Two expressions must have equal shapes, which is checked at run time.
template <typename A, typename B>
concept ElementwiseOperands = MatchingExpressions<A, B> ||
                              (Operand<A>&& NumberFor<B, typename A::value_type>) ||
                              (Operand<B> && NumberFor<A, typename B::value_type>);

/// True if one of A and B is a number and the other one a product or reduction. Multiplication then
/// puts the number into the scale of the product or reduction.
template <typename A, typename B>
concept ScaledComplex = (ComplexExpression<A> && Scalar<B>) || (Scalar<A> && ComplexExpression<B>);

/// Computes element by element. Throws Error(kInvalidArgument) if the operands' shapes differ, or
/// if an integer does not fit the elements beside it; see F.
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
/// Combines the bits of integers. For floating-point elements the result is 1 or 0: whether both
/// operands, or at least one, are not 0. Both operands are computed for every element, unlike those
/// of && and ||.
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator&(const A& a, const B& b) { return F<op::bit_and>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator|(const A& a, const B& b) { return F<op::bit_or>(a, b); }
/// Changes the sign of each element.
template <Operand A>
auto operator-(const A& a) {
  return F<op::negation>(a);
}
/// Returns each element unchanged. `b = +a` copies the elements of a tensor a, where `b = a` makes
/// b another handle to them.
template <Operand A>
auto operator+(const A& a) {
  if constexpr (ComplexExpression<A>) {
    return typename A::Self(a.self());
  } else {
    return F<op::identity>(a);
  }
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
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator&(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator|(const A& a, const B& b) = delete;
template <typename Op, typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B> F(const A& a, const B& b)
= delete;
template <typename Op, typename A, typename B, typename C>
requires MismatchedTriple<A, B, C> MismatchOfThree<A, B, C> F(const A& a, const B& b, const C& c)
= delete;

/// Printing a tensor is a deleted function, because a tensor has no printed form. The name of the
/// result type says so. Overload resolution prefers a program's own operator<< for its tensors.
struct TensorsAndExpressionsHaveNoPrintedForm_WriteTheirElements;
template <typename E>
requires(E::kRank > 0) TensorsAndExpressionsHaveNoPrintedForm_WriteTheirElements operator<<(
    std::ostream& os, const AnyOperand<E>& e) = delete;

/// Multiplies a product or reduction by a number, which becomes part of its scale. The
/// multiplication costs nothing of its own.
template <Scalar S, ComplexExpression E>
requires NumberFor<S, typename E::value_type>
typename E::Self operator*(S scale, const E& e) {
  typename E::Self scaled = e.self();
  scaled.scale = op::mul::Map(scaled.scale, NumberAs<op::mul, decltype(scaled.scale)>(scale));
  return scaled;
}
template <ComplexExpression E, NumberFor<typename E::value_type> S>
typename E::Self operator*(const E& e, S scale) {
  return scale * e;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Expression;
using expr::F;
using expr::scalar;
using expr::tcast;

}  // namespace tessera

#endif  // TESSERA_TENSOR_EXPR_EXPRESSION_H_
