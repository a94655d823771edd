#ifndef TESSERA_TENSOR_EXPR_OPERAND_H_
#define TESSERA_TENSOR_EXPR_OPERAND_H_

#include <concepts>
#include <tuple>
#include <type_traits>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"

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
///   EvalPacket<P>(y, x)       elements x, x+1, … of row y as a packet: on the CPU one of Eigen's,
///                             on a GPU an ElementGroup
///   kHasGroups                whether EvalPacket may be called for an ElementGroup; false where
///                             absent. Then also GroupsAreAligned(rows): whether in all memory that
///                             is read each of `rows` rows begins at a multiple of 16 bytes
///   kHasWidePacket            the same for a WidePacket, of half_t too
///   Across()                  optionally, of a node such as a transpose, the RowsAcross whose
///                             elements of one column it reads side by side in memory
///   IsFlat()                  true if Eval(0, i) gives element i of the whole expression in
///                             row-major order, so that the rows may be run as one
///   operands()                the operands, a std::tuple of nodes; absent if there are none
///   VisitOperands(visit)      optionally, visit(operand...) with what operands() copies
///   WithOperands(e...)        the same node over other operands of the same shapes
///   Stored()                  the MemoryPlace that its evaluation writes; absent if none
///   Reads(place)              whether it reads any byte of a MemoryPlace; instead of operands(),
///                             for a node that cannot name them
///   kMovesElements            false if element i depends on the operands' elements i alone; true,
///                             or absent, for a node that reads other places (a.T(), broadcast)
///   kMergesOperands           true for a node without shape of its own: over operands whose last
///                             dimensions are merged it has the same elements, so that rows are
///                             longer; see merge_dimensions.h. Other nodes may offer instead
///   MergeableDimensions()     how many of the last dimensions may be merged into the last one, and
///   MergeDimensions(count)    the node, of the same type, over a shape with `count` of them merged
///   AtRow(y)                  optionally, on the CPU, a node with the elements of row y, whatever
///                             row its Eval is given, that divides nothing to find them; see
///                             at_row.h
///   kIsItsOperands            true where type, shape and operands say what its elements are:
///                             equal ones that are computed first are then computed once
///   kComputedFirst            true for a node that has no elements before ComputeFirst; see
///                             prepare.h
///   kElementCost              what an element costs beside its operands', 0 where absent; or
///   ElementCost()             with them, where that is known at run time only; see cost.h
/// and, for nodes whose index arithmetic is dear, optionally
///   EvalRow(y, begin, end, T* out)  writes elements [begin, end) of row y, on the CPU
///   EvalRows(begin, end, T* data, stride)  writes rows [begin, end) of the whole result, row y at
///                             data + y * stride, on the CPU; false if it has nothing better than
///                             EvalRow to offer, and then wrote nothing
///   EvalTile(begin_y, end_y, begin_x, end_x, T* out, stride)  writes columns [begin_x, end_x) of
///                             rows [begin_y, end_y), row begin_y at out and each other one
///                             `stride` behind the one before, on the CPU; for a node that reads
///                             columns of its operand: larger expressions take tiles of it too; see
///                             tile.h
///   kSharesWork               true where EvalRow does once for many elements what Eval does for
///                             each: larger expressions take blocks of the node by EvalRow too; see
///                             span.h
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
  TESSERA_HD Derived* ptrself() { return static_cast<Derived*>(this); }
};

/// How an expression comes by its elements, in bits: an element-wise node has its operands' too.
namespace form {
inline constexpr int kStored = 0;  ///< it names memory: a tensor, a view
inline constexpr int kMapped = 1;  ///< an element from the operands' elements at the same place
inline constexpr int kMoved = 3;   ///< an element from elements at other places
inline constexpr int kWhole = 7;   ///< all at once, by code of its own; see ComplexExp
}  // namespace form

/// The base of every expression: Derived says what it is. A function for expressions of every kind
/// takes it by this base, `template <typename E, typename T, int kForm> void f(const Exp<E, T,
/// kForm>& e)`, and uses e.self().
template <typename Derived, typename Value, int kFormOfDerived = form::kMoved>
struct Exp : AnyOperand<Derived> {
  using Self = Derived;
  using Node = Derived;
  using value_type = Value;
  static constexpr int kForm = kFormOfDerived;
  // So that `dst = e` and `e + 1` mean the same by this base as by Derived, which has its own.
  static constexpr int kRank = Derived::kRank;
  using AnyOperand<Derived>::self;
  auto shape() const requires(Derived::kRank > 0) { return self().shape(); }

  /// A matrix with rows and columns exchanged; inside dot a flag for the GEMM.
  auto T() const requires(Derived::kRank == 2) {
    return TransposeExp<typename Derived::Node>(AsNode(self()));
  }
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

/// A node, or what stands for one: a class derived from a node (a container), or an expression that
/// is no node itself and makes one, NodeOf<E>, whose self() returns by value.
template <typename E>
concept Expression = (E::kForm != form::kWhole) &&
                     std::derived_from<E, Exp<typename E::Self, typename E::value_type, E::kForm>>;

/// The base of expressions that are computed as a whole (a product, a reduction to a vector) by
/// code of their own. Derived offers
///   value_type, device_type, kRank, shape()   as every node does
///   scale                                     a factor
///   operands()                                where it can name all that it reads, and writes
///                                             nothing but the destination
///   template <typename Saver, typename Dst> void AssignTo(const Dst& dst) const
/// On the right of an assignment AssignTo computes it straight into the destination; inside an
/// expression it is computed into a temporary before the loop.
template <typename Derived, typename Value>
struct Exp<Derived, Value, form::kWhole> : AnyOperand<Derived> {
  using Self = Derived;
  using value_type = Value;
  static constexpr int kForm = form::kWhole;
  static constexpr int kRank = Derived::kRank;
  using AnyOperand<Derived>::self;
  auto shape() const { return self().shape(); }

  template <typename Saver, typename Dst>
  requires requires(const Derived& whole, const Dst& dst) { whole.template AssignTo<Saver>(dst); }
  void AssignTo(const Dst& dst) const { self().template AssignTo<Saver>(dst); }
};
/// mshadow's name for such a base.
template <typename Derived, typename Value>
using ComplexExp = Exp<Derived, Value, form::kWhole>;

/// An expression that is computed as a whole.
template <typename E>
concept ComplexExpression =
    std::derived_from<E, Exp<typename E::Self, typename E::value_type, form::kWhole>>;

/// What may be an operand: a node, or an expression that is computed as a whole.
template <typename E>
concept Operand = Expression<E> ||(ComplexExpression<E>&& requires(const E& e) {
  typename E::value_type;
  typename E::device_type;
  E::kRank;
  e.shape();
});

/// What an expression holds of an operand: the operand itself, or for what only stands for a node
/// that node, so that expressions never own memory.
template <Expression E>
using NodeOf = typename E::Node::Node;

/// What a new value does to the old one; see reducers.h. A program's own `Assign<xpu>(a, b)` for
/// tensors is none of ours.
template <typename S>
concept AnySaver = requires {
  typename S::OPType;
};

/// Numbers that may stand beside an expression, and enumerators that convert to one.
template <typename S>
concept Scalar = std::is_arithmetic_v<S> || std::same_as<S, half_t> ||
    std::same_as<S, bfloat16_t> ||(std::is_enum_v<S>&& std::convertible_to<S, int>);

/// DeviceOf of an expression, for specializations.
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

/// The device whose memory an expression reads; void for one that reads none.
template <typename E>
using DeviceOf = typename DeviceOfExpression<E>::type;
template <typename A, typename B>
using CommonDevice = std::conditional_t<std::is_void_v<DeviceOf<A>>, DeviceOf<B>, DeviceOf<A>>;

/// kIsTensor of a node, for specializations.
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

/// The tuple that OperandsOf returns. It is named and not made: tuples of nodes are most of what a
/// compiler would have to do for an expression.
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

/// visit(operand...) with the operands of a node, in place where the node offers them so: copying a
/// node whose fields have just been written waits for them to reach the cache.
template <typename E, typename Visitor>
decltype(auto) VisitOperands(const E& e, const Visitor& visit) {
  if constexpr (requires { e.VisitOperands(visit); }) {
    return e.VisitOperands(visit);
  } else {
    return std::apply(visit, OperandsOf(e));
  }
}

/// Rows of an expression whose elements of one column lie side by side in memory: `extent` of them,
/// each `step` rows after the one before; 0 if there are none such.
struct RowsAcross {
  index_t extent = 0;  ///< how many
  index_t step = 1;    ///< how far apart

  bool operator==(const RowsAcross&) const = default;
};

/// Whether any of a tuple of expressions may read across rows.
template <typename Tuple>
struct AnyMayReadAcross;
/// Whether RowsAcrossOf an expression may be anything but none.
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

/// The rows whose elements of one column lie side by side in all memory that `e` reads.
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

/// Says of operands that their shapes have been compared.
struct EqualShapes {};

/// True if EvalPacket gives groups of elements, as a GPU moves them.
template <typename E>
constexpr bool HasGroups() {
  if constexpr (requires { E::kHasGroups; }) {
    return E::kHasGroups;
  } else {
    return false;
  }
}

/// True if EvalPacket gives wide packets.
template <typename E>
constexpr bool HasWidePacket() {
  if constexpr (requires { E::kHasWidePacket; }) {
    return E::kHasWidePacket;
  } else {
    return false;
  }
}

/// True if functor Op has a form over wide packets of T.
template <typename Op, typename T>
constexpr bool HasWidePacketOf() {
  if constexpr (std::same_as<T, half_t>) {
    return requires { requires Op::kHasHalfPacket; };
  } else {
    return HasWidePacket<Op>();
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

/// Two vectors, of which reductions.h has the inner product under the name of dot.
template <typename A, typename B>
concept VectorPair = MatchingExpressions<A, B> && A::kRank == 1 && B::kRank == 1;

/// Two expressions that cannot stand side by side. For such pairs the operators exist as deleted
/// functions, so that a compiler prints one message, with the reason in the result's type, instead
/// of a list of candidates.
template <typename A, typename B>
concept MismatchedExpressions = Operand<A> && Operand<B> && !MatchingExpressions<A, B>;

struct OperandsHaveDifferentElementTypes_ConvertOneWithTcast;
struct OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape;
struct OperandsLieOnDifferentDevices_CopyOneFirst;
/// The reason why two expressions cannot stand side by side, as the type that the compiler names.
template <typename A, typename B>
using MismatchOf = std::conditional_t<
    !SameElementType<A, B>, OperandsHaveDifferentElementTypes_ConvertOneWithTcast,
    std::conditional_t<!SameRank<A, B>,
                       OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape,
                       OperandsLieOnDifferentDevices_CopyOneFirst>>;

/// The same for three, some of which may be numbers.
template <typename A, typename B, typename C>
concept MismatchedTriple =
    MismatchedExpressions<A, B> || MismatchedExpressions<A, C> || MismatchedExpressions<B, C>;
template <typename A, typename B, typename C>
using MismatchOfThree = std::conditional_t<
    MismatchedExpressions<A, B>, MismatchOf<A, B>,
    std::conditional_t<MismatchedExpressions<A, C>, MismatchOf<A, C>, MismatchOf<B, C>>>;

}  // namespace expr

/// The base of what owns a place in memory, a Tensor<Device, N, Value>, by which functions take a
/// destination as those of mshadow do: `template <typename Saver, typename R, int N, typename T,
/// typename E, int kForm> void f(TRValue<R, cpu, N, T>* dst, const expr::Exp<E, T, kForm>& e)`.
/// There *dst->ptrself() is the tensor.
template <typename Derived, typename Device, int N, typename Value>
struct TRValue : expr::Exp<Derived, Value, expr::form::kStored> {};

}  // namespace tessera

#endif  // TESSERA_TENSOR_EXPR_OPERAND_H_
