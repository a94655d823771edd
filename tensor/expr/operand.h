#ifndef TESSERA_TENSOR_EXPR_OPERAND_H_
#define TESSERA_TENSOR_EXPR_OPERAND_H_

#include <concepts>
#include <tuple>
#include <type_traits>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"

/// Expression nodes. A node is a small trivially copyable value that holds its operands by value.
/// An expression in an `auto` variable therefore stays valid as long as the memory behind its
/// tensors. A node can be passed to a CUDA kernel as it is.
///
/// A node has these members (the evaluators use nothing else):
///   value_type, kRank         the element type; the rank, 0 for a scalar, which fits every shape
///   device_type               the device of the operands' memory; void or absent for any device
///   kHasPacket                true if EvalPacket may be called
///   shape()                   Shape<kRank>
///   Eval(y, x)                the element at flattened row y and column x; with N dimensions, y
///                             counts the first N-1 of them and x is the last
///   EvalPacket<P>(y, x)       elements x, x+1, … of row y as a packet: a packet of Eigen's on the
///                             CPU, an ElementGroup on a GPU
///   kHasGroups                true if EvalPacket may be called for an ElementGroup; false if
///                             absent. The node then has GroupsAreAligned(rows): true if in all
///                             memory that is read each of `rows` rows begins at a multiple of 16
///                             bytes
///   kHasAvx2Packet            true if EvalPacket may be called for an AVX2 packet (Avx2Packet),
///                             also of half_t
///   Across()                  optional, of a node such as a transpose: the RowsAcross whose
///                             elements of one column it reads side by side in memory
///   IsFlat()                  true if Eval(0, i) gives element i of the whole expression in
///                             row-major order, so that all rows may be read as one
///   operands()                the operands, a std::tuple of nodes; absent if there are none
///   VisitOperands(visit)      optional: calls visit(operand...) without copying the operands
///   WithOperands(e...)        the same node over other operands of the same shapes
///   Stored()                  the MemoryPlace that evaluating the node writes; absent if none
///   Reads(place)              true if the node reads any byte of a MemoryPlace; replaces
///                             operands() in a node that cannot name them
///   kMovesElements            false if element i depends only on the operands' elements i; true or
///                             absent for a node that reads other elements (a.T(), broadcast)
///   kMergesOperands           true for a node without shape of its own: it has the same elements
///                             over operands whose last dimensions are merged, so that rows are
///                             longer; see merge_dimensions.h. Other nodes may have the next two
///                             members instead
///   MergeableDimensions()     how many of the last dimensions may be merged into the last one
///   MergeDimensions(count)    the node, of the same type, over a shape with `count` of them merged
///   AtRow(y)                  optional, on the CPU: a node with the elements of row y, whatever
///                             row its Eval is given, which divides nothing to find them; see
///                             at_row.h
///   kIsItsOperands            true if type, shape and operands determine the node's elements:
///                             equal nodes that are materialized are then materialized once
///   kIsMaterialized            true for a node that has no elements before Materialized
///                             materializes it; see materialize.h
///   kElementCost              the cost of an element without its operands', 0 if absent
///   ElementCost()             replaces kElementCost in a node that knows its cost only at run
///                             time: the cost of an element with its operands'; see cost.h
/// Nodes whose index arithmetic is expensive may also have these members:
///   EvalRow(y, begin, end, T* out)  writes elements [begin, end) of row y, on the CPU
///   EvalRows(begin, end, T* data, stride)  writes rows [begin, end) of the whole result, row y at
///                             data + y * stride, on the CPU; returns false and writes nothing if
///                             it is no better than EvalRow
///   EvalTile(begin_y, end_y, begin_x, end_x, T* out, stride)  writes columns [begin_x, end_x) of
///                             rows [begin_y, end_y), on the CPU; row begin_y goes to out and each
///                             other one `stride` behind the one before. A node has it if it reads
///                             columns of its operand: larger expressions take tiles of it too; see
///                             tile.h
///   kSharesWork               true if EvalRow does once for many elements what Eval does for each:
///                             larger expressions then take blocks of the node by EvalRow; see
///                             span.h
namespace tessera {

template <typename Device, int N, typename T>
class Tensor;
template <typename Device>
struct Stream;

namespace tensor_internal {
template <typename Device>
class Scratch;
}  // namespace tensor_internal

namespace expr {

using tensor_internal::Scratch;

inline namespace TESSERA_ISA_NAMESPACE {
template <typename A>
struct TransposeExp;
}  // namespace TESSERA_ISA_NAMESPACE

/// The base of every operand. A function with a common name takes this base rather than any type E.
/// A program may have its own `exp` or `sum` for tensors. Overload resolution then prefers the
/// program's function, because a class derived from Tensor (a container) is closer to Tensor than
/// to this base.
template <typename Derived>
struct AnyOperand {
  TESSERA_HD const Derived& self() const { return static_cast<const Derived&>(*this); }
  TESSERA_HD Derived* ptrself() { return static_cast<Derived*>(this); }
};

/// The form of an expression, in bits: how it obtains its elements. An element-wise node also has
/// the bits of its operands' forms.
namespace form {
inline constexpr int kStored = 0;  ///< names memory: a tensor, a view
inline constexpr int kMapped = 1;  ///< reads the operands' elements at the same index
inline constexpr int kMoved = 3;   ///< reads elements at other indices
inline constexpr int kWhole = 7;   ///< computed as a whole by separate code; see ComplexExp
}  // namespace form

/// The base of every expression; Derived is the type of the node. A function for expressions of
/// every kind takes this base, `template <typename E, typename T, int kForm> void f(const Exp<E, T,
/// kForm>& e)`, and uses e.self().
template <typename Derived, typename Value, int kFormOfDerived = form::kMoved>
struct Exp : AnyOperand<Derived> {
  using Self = Derived;
  using Node = Derived;
  using value_type = Value;
  static constexpr int kForm = kFormOfDerived;
  // The rank is declared here so that `dst = e` and `e + 1` mean the same for this base as for
  // Derived, which has its own.
  static constexpr int kRank = Derived::kRank;
  using AnyOperand<Derived>::self;
  auto shape() const requires(Derived::kRank > 0) { return self().shape(); }

  /// Returns a matrix with rows and columns exchanged. Inside dot it becomes a flag of the GEMM.
  auto T() const requires(Derived::kRank == 2) {
    return TransposeExp<typename Derived::Node>(AsNode(self()));
  }
};

/// A second base of nodes that may have no dimensions, such as sum(a) or 2 * sum(a). Such a node
/// converts to the number that it stands for: `float mean = sum(a) / n;`, `if (sum(a) > 0)`. The
/// conversion computes the number at once. On a GPU it waits for the stream of the operands.
template <typename Derived, typename T, int kRank>
struct Number {};
template <typename Derived, typename T>
struct Number<Derived, T, 0> {
  operator T() const {  // NOLINT: implicit on purpose
    return EvaluateNumber(static_cast<const Derived&>(*this));
  }
};
/// The base of nodes with 16-bit floating-point values. Such a node converts to float too, as the
/// values themselves do.
template <typename Derived, typename Format>
struct Number<Derived, Float16<Format>, 0> {
  operator Float16<Format>() const {  // NOLINT: implicit on purpose
    return EvaluateNumber(static_cast<const Derived&>(*this));
  }
  operator float() const {  // NOLINT: implicit on purpose
    return EvaluateNumber(static_cast<const Derived&>(*this));
  }
};

/// True for a node or an expression that stands for one. The latter is a class derived from a node
/// (a container), or an expression that makes a node NodeOf<E>, which its self() returns by value.
template <typename E>
concept Expression = (E::kForm != form::kWhole) &&
                     std::derived_from<E, Exp<typename E::Self, typename E::value_type, E::kForm>>;

/// The base of expressions that are computed as a whole by separate code: a product, a reduction to
/// a vector. Derived has these members:
///   value_type, device_type, kRank, shape()   as every node has them
///   scale                                     a factor
///   operands()                                present if the expression can name all that it
///                                             reads, and writes nothing except the destination
///   template <typename Saver, typename Dst> void AssignTo(const Dst& dst) const
/// On the right of an assignment, AssignTo computes the result straight into the destination.
/// Inside an expression, the result is materialized in a temporary before the loop.
///
/// A WholeEngine may take the place of AssignTo. A class without the members of the first line
/// stands only alone on the right of an assignment.
template <typename Derived, typename Value>
struct Exp<Derived, Value, form::kWhole> : AnyOperand<Derived> {
  using Self = Derived;
  using value_type = Value;
  static constexpr int kForm = form::kWhole;
  static constexpr int kRank = Derived::kRank;
  using AnyOperand<Derived>::self;
  auto shape() const requires requires { typename Derived::device_type; }
  { return self().shape(); }
};
/// mshadow's name for the base of expressions that are computed as a whole.
template <typename Derived, typename Value>
using ComplexExp = Exp<Derived, Value, form::kWhole>;

/// True for an expression that is computed as a whole; see ComplexExp.
template <typename E>
concept ComplexExpression =
    std::derived_from<E, Exp<typename E::Self, typename E::value_type, form::kWhole>>;

/// Computes expressions of form kWhole whose class E has no AssignTo. A specialization has a member
/// `static void Eval(const Dst& dst, const E& e)`, which combines the result with the destination's
/// elements by Saver. mshadow/complex_engine.h calls a program's ExpComplexEngine in this way.
template <typename Saver, typename Dst, typename E>
struct WholeEngine {};

/// True if E has an AssignTo, or a WholeEngine, for destinations of type Dst.
template <typename E, typename Saver, typename Dst>
concept AssignsItself = requires(const E& e, const Dst& dst) {
  e.template AssignTo<Saver>(dst);
};
template <typename E, typename Saver, typename Dst>
concept HasWholeEngine = requires(const E& e, const Dst& dst) {
  WholeEngine<Saver, Dst, E>::Eval(dst, e);
};

/// Computes an expression of form kWhole straight into `dst`.
template <typename Saver, typename Dst, typename E>
void AssignWhole(const Dst& dst, const E& e) {
  if constexpr (AssignsItself<E, Saver, Dst>) {
    e.template AssignTo<Saver>(dst);
  } else {
    WholeEngine<Saver, Dst, E>::Eval(dst, e);
  }
}

/// True for a type that may be an operand: a node, or an expression that is computed as a whole.
template <typename E>
concept Operand = Expression<E> ||(ComplexExpression<E>&& requires(const E& e) {
  typename E::value_type;
  typename E::device_type;
  E::kRank;
  e.shape();
});

/// The type that an expression holds for an operand. It is the operand's own type, or the type of
/// the node that the operand stands for. Expressions therefore never own memory.
template <Expression E>
using NodeOf = typename E::Node::Node;

/// True for a saver, which defines how a new value combines with the old one; see reducers.h. The
/// concept excludes a program's own `Assign<xpu>(a, b)` for tensors.
template <typename S>
concept AnySaver = requires {
  typename S::OPType;
};

/// True for the type of a number that may stand beside an expression, and for an enumeration that
/// converts to one.
template <typename S>
concept Scalar = std::is_arithmetic_v<S> || std::same_as<S, half_t> ||
    std::same_as<S, bfloat16_t> ||(std::is_enum_v<S>&& std::convertible_to<S, int>);

/// True for the type of an integer that may stand beside an expression.
template <typename S>
concept IntegerScalar = Scalar<S> &&(std::is_integral_v<S> || std::is_enum_v<S>);

/// True if a number of type S beside elements of type T would lose its fraction: a floating-point
/// number beside integers. Such expressions and assignments are deleted functions.
template <typename S, typename T>
concept LosesFraction = Scalar<S> && !IntegerScalar<S> && std::is_integral_v<T>;

/// True for the type of a number that may stand beside elements of type T. A number is converted to
/// T. An integer beside integers must fit, which is checked at run time; see NumberAs. Beside
/// floating-point elements any number is rounded to T.
template <typename S, typename T>
concept NumberFor = Scalar<S> && !LosesFraction<S, T>;

/// True for a floating-point number and an expression of integers, in either order.
template <typename A, typename B>
concept FractionBesideIntegers = (Operand<A> && LosesFraction<B, typename A::value_type>) ||
                                 (Operand<B> && LosesFraction<A, typename B::value_type>);

/// Implements DeviceOf by specializations. The type is void for an expression without a device.
template <typename E>
struct DeviceOfExpression {
  using type = void;
};
template <typename E>
requires requires { typename E::device_type; }
struct DeviceOfExpression<E> {
  using type = typename E::device_type;
};
template <typename Derived, typename Value, int kForm>
struct DeviceOfExpression<Exp<Derived, Value, kForm>> : DeviceOfExpression<Derived> {};

/// The device whose memory an expression reads; void for an expression that reads none.
template <typename E>
using DeviceOf = typename DeviceOfExpression<E>::type;
template <typename A, typename B>
using CommonDevice = std::conditional_t<std::is_void_v<DeviceOf<A>>, DeviceOf<B>, DeviceOf<A>>;

/// Implements kIsTensor by specializations.
template <typename E>
struct IsTensorNode : std::false_type {};
template <typename Device, int N, typename T>
struct IsTensorNode<Tensor<Device, N, T>> : std::true_type {};

/// True for a Tensor itself, the node that names a place in memory. False for a class derived from
/// Tensor.
template <typename E>
inline constexpr bool kIsTensor = IsTensorNode<E>::value;

/// Returns false for a node that reads its operands only at the index at which it is evaluated.
template <typename E>
constexpr bool MovesElements() {
  if constexpr (requires { E::kMovesElements; }) {
    return E::kMovesElements;
  } else {
    return true;
  }
}

/// Returns the operands of a node, or an empty tuple if the node names none.
template <typename E>
auto OperandsOf(const E& e) {
  if constexpr (requires { e.operands(); }) {
    return e.operands();
  } else {
    return std::tuple<>();
  }
}

/// The implementation of OperandTupleOf, the type of the tuple that OperandsOf returns. The tuple
/// is named and not made: making tuples of nodes would be most of a compiler's work for an
/// expression.
template <typename E>
struct OperandTuple {
  using type = std::tuple<>;
};
template <typename E>
requires requires { typename std::void_t<decltype(std::declval<const E&>().operands())>; }
struct OperandTuple<E> {
  using type = decltype(std::declval<const E&>().operands());
};
template <typename E>
using OperandTupleOf = typename OperandTuple<E>::type;

/// Calls visit(operand...) with the operands of a node. The operands are not copied if the node has
/// a member VisitOperands. A copy of a node whose fields have just been written would wait for them
/// to reach the cache.
template <typename E, typename Visitor>
decltype(auto) VisitOperands(const E& e, const Visitor& visit) {
  if constexpr (requires { e.VisitOperands(visit); }) {
    return e.VisitOperands(visit);
  } else {
    return std::apply(visit, OperandsOf(e));
  }
}

/// Rows of an expression whose elements of one column lie side by side in memory. There are
/// `extent` such rows, each `step` rows after the one before. extent is 0 if there are none.
struct RowsAcross {
  index_t extent = 0;  ///< number of rows
  index_t step = 1;    ///< distance between two of them, in rows

  bool operator==(const RowsAcross&) const = default;
};

/// True if any of a tuple of expressions may read across rows; see MayReadAcross.
template <typename Tuple>
struct AnyMayReadAcross;
/// Returns true if RowsAcrossOf may return rows for an expression of type E.
template <typename E>
constexpr bool MayReadAcross() {
  if constexpr (requires(const E& e) { e.Across(); }) {
    return true;
  } else {
    return !MovesElements<E>() && AnyMayReadAcross<OperandTupleOf<E>>::value;
  }
}
template <typename... E>
struct AnyMayReadAcross<std::tuple<E...>> {
  static constexpr bool value = (MayReadAcross<E>() || ...);
};

/// Returns the rows whose elements of one column lie side by side in all memory that `e` reads.
template <typename E>
RowsAcross RowsAcrossOf(const E& e) {
  if constexpr (!MayReadAcross<E>()) {
    return {};
  } else if constexpr (requires { e.Across(); }) {
    return e.Across();
  } else {
    RowsAcross all;
    bool any = false;
    const auto take = [&]<typename Part>(const Part& operand) {
      if constexpr (Part::kRank > 0) {
        const RowsAcross part = RowsAcrossOf(operand);
        if (!any) {
          all = part;
        } else if (!(part == all)) {
          all = {};
        }
        any = true;
      }
    };
    VisitOperands(e, [&](const auto&... operand) { (take(operand), ...); });
    return all;
  }
}

/// Tag for constructors of nodes: the caller has compared the operands' shapes.
struct EqualShapes {};

/// Returns true if EvalPacket can return an ElementGroup, which a GPU moves as a unit.
template <typename E>
constexpr bool HasGroups() {
  if constexpr (requires { E::kHasGroups; }) {
    return E::kHasGroups;
  } else {
    return false;
  }
}

/// Returns true if EvalPacket can return an AVX2 packet (Avx2Packet).
template <typename E>
constexpr bool HasAvx2Packet() {
  if constexpr (requires { E::kHasAvx2Packet; }) {
    return E::kHasAvx2Packet;
  } else {
    return false;
  }
}

/// Returns true if functor Op has a form for AVX2 packets of T.
template <typename Op, typename T>
constexpr bool HasAvx2PacketOf() {
  if constexpr (std::same_as<T, half_t>) {
    return requires { requires Op::kHasHalfPacket; };
  } else {
    return HasAvx2Packet<Op>();
  }
}

/// The conditions that a compiler names if operands do not match. Operands of different element
/// types can be converted with tcast<T>(). Operands of different ranks must be brought to one
/// shape, for example with broadcast<axis>.
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

/// True for two vectors. Their inner product is the function dot of reductions.h.
template <typename A, typename B>
concept VectorPair = MatchingExpressions<A, B> && A::kRank == 1 && B::kRank == 1;

/// True for two operands that cannot stand side by side: two expressions, or an expression of
/// integers and a floating-point number. The operators are deleted functions for such pairs. A
/// compiler then prints one message, with the reason in the result's type, instead of a list of
/// candidates.
template <typename A, typename B>
concept MismatchedExpressions =
    (Operand<A> && Operand<B> && !MatchingExpressions<A, B>) || FractionBesideIntegers<A, B>;

struct IntegersWouldCutOffAFloatingPointNumber_ConvertThemWithTcastOrItWithScalarOfTheirType;
struct OperandsHaveDifferentElementTypes_ConvertOneWithTcast;
struct OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape;
struct OperandsLieOnDifferentDevices_CopyOneFirst;
/// The reason why two operands cannot stand side by side, as a type that the compiler names.
template <typename A, typename B>
using MismatchOf = std::conditional_t<
    FractionBesideIntegers<A, B>,
    IntegersWouldCutOffAFloatingPointNumber_ConvertThemWithTcastOrItWithScalarOfTheirType,
    std::conditional_t<
        !SameElementType<A, B>, OperandsHaveDifferentElementTypes_ConvertOneWithTcast,
        std::conditional_t<!SameRank<A, B>,
                           OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape,
                           OperandsLieOnDifferentDevices_CopyOneFirst>>>;

/// True for three operands of which two cannot stand side by side. Some operands may be numbers.
template <typename A, typename B, typename C>
concept MismatchedTriple =
    MismatchedExpressions<A, B> || MismatchedExpressions<A, C> || MismatchedExpressions<B, C>;
template <typename A, typename B, typename C>
using MismatchOfThree = std::conditional_t<
    MismatchedExpressions<A, B>, MismatchOf<A, B>,
    std::conditional_t<MismatchedExpressions<A, C>, MismatchOf<A, C>, MismatchOf<B, C>>>;

}  // namespace expr

/// The base of Tensor<Device, N, Value>. Functions take a destination by this base as those of
/// mshadow do: `template <typename Saver, typename R, int N, typename T, typename E, int kForm>
/// void f(TRValue<R, cpu, N, T>* dst, const expr::Exp<E, T, kForm>& e)`. *dst->ptrself() is the
/// tensor.
template <typename Derived, typename Device, int N, typename Value>
struct TRValue : expr::Exp<Derived, Value, expr::form::kStored> {};

}  // namespace tessera

#endif  // TESSERA_TENSOR_EXPR_OPERAND_H_
