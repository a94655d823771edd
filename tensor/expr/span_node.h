#ifndef TESSERA_TENSOR_EXPR_SPAN_NODE_H_
#define TESSERA_TENSOR_EXPR_SPAN_NODE_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/functors/real_functors.h"

/// Which nodes are computed in blocks of a row, as span.h does it: costly functions, which have
/// forms over spans, and nodes with loops of their own.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Elements of a block, 4 KiB: buffers of some nested functions stay in the first cache.
template <typename T>
inline constexpr index_t kSpanBlock = index_t{4096} / index_t{sizeof(T)};

/// What nodes may offer for whole rows: see operand.h.
template <typename E, typename T>
concept HasEvalRow = requires(const E& e, index_t i, T* out) {
  e.EvalRow(i, i, i, out);
};

template <typename E>
constexpr bool HoldsSpans();

/// Whether HoldsSpans of any of a tuple of expressions.
template <typename Tuple>
struct AnyHoldsSpans;
template <typename... E>
struct AnyHoldsSpans<std::tuple<E...>> {
  static constexpr bool value = (HoldsSpans<E>() || ...);
};

/// A node that moves elements and computes blocks of them in a loop of its own, for less than they
/// would cost one by one or in packets: it says so, or its loop takes blocks of an operand that
/// holds spans.
template <typename E>
concept ComputesBlocks = HasEvalRow<E, typename E::value_type> &&
    (requires { requires E::kSharesWork; } || AnyHoldsSpans<OperandTupleOf<E>>::value);

/// Whether E is a function with a form over spans.
template <typename E>
struct IsSpan : std::false_type {};
template <typename Op, typename A>
requires requires(const typename A::value_type* in, typename A::value_type* out) {
  Op::Span(in, out, index_t{1}, op::ScaleOrOffset<typename A::value_type>());
}
struct IsSpan<UnaryMapExp<Op, A>> : std::true_type {
  using Function = Op;
};

/// Whether E is a number, which is no place in memory.
template <typename E>
inline constexpr bool kIsNumber = false;
/// As above.
template <typename T>
inline constexpr bool kIsNumber<ScalarExp<T>> = true;

/// Whether E is a function of two operands with a form over spans.
template <typename E>
struct IsSpanOfTwo : std::false_type {};
template <typename Op, typename A, typename B>
requires(A::kRank > 0 || B::kRank > 0) &&
    requires(op::SpanOperand<typename A::value_type> in, typename A::value_type* out) {
  Op::Span(in, in, out, index_t{1});
}
struct IsSpanOfTwo<BinaryMapExp<Op, A, B>> : std::true_type {
  using Function = Op;
  using First = A;
  using Second = B;
};

/// Whether E converts elements of another type, of which a buffer holds more or fewer.
template <typename E>
inline constexpr bool kConverts = false;
/// As above.
template <typename T, typename A>
inline constexpr bool kConverts<TypecastExp<T, A>> = !std::is_same_v<T, typename A::value_type>;

/// Whether such a function, or a node that ComputesBlocks, stands in E where its elements are used
/// in place.
template <typename E>
constexpr bool HoldsSpans() {
  if constexpr (MovesElements<E>()) {
    return ComputesBlocks<E>;
  } else if constexpr (IsSpan<E>::value || IsSpanOfTwo<E>::value) {
    return true;
  } else {
    return AnyHoldsSpans<OperandTupleOf<E>>::value;
  }
}

/// What a function is applied to: another expression, scaled or moved by a number, which the
/// function's kernel does on the way.
template <typename E>
struct SpanInput {
  const E& node;
  op::ScaleOrOffset<typename E::value_type> change = {};
};

/// The input of a function whose operand is e.
template <typename E>
SpanInput<E> SpanInputOf(const E& e) {
  return {e};
}
template <typename A>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const UnaryMapExp<op::negation, A>& e) {
  return {e.a, {.scale = -1}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::mul, A, ScalarExp<T>>& e) {
  return {e.a, {.scale = e.b.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::mul, ScalarExp<T>, A>& e) {
  return {e.b, {.scale = e.a.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::plus, A, ScalarExp<T>>& e) {
  return {e.a, {.offset = e.b.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::plus, ScalarExp<T>, A>& e) {
  return {e.b, {.offset = e.a.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::minus, A, ScalarExp<T>>& e) {
  return {e.a, {.offset = -e.b.value}};
}

/// The node of SpanInputOf, of an IsSpan.
template <typename E>
using SpanNode = std::remove_cvref_t<decltype(SpanInputOf(std::declval<const E&>().a).node)>;

/// Whether a kernel of two operands reads this one where it lies.
template <typename E>
inline constexpr bool kReadInPlace = kIsNumber<E> || kIsTensor<E>;

/// A function whose kernel reads a tensor, or two, or one and a number.
template <typename E>
concept SpanOfTensor = (IsSpan<E>::value && kIsTensor<SpanNode<E>>) ||
                       (IsSpanOfTwo<E>::value && kReadInPlace<typename IsSpanOfTwo<E>::First> &&
                        kReadInPlace<typename IsSpanOfTwo<E>::Second>);

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EXPR_SPAN_NODE_H_
