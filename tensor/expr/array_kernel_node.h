#ifndef TESSERA_TENSOR_EXPR_ARRAY_KERNEL_NODE_H_
#define TESSERA_TENSOR_EXPR_ARRAY_KERNEL_NODE_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/functors/real_functors.h"

/// Traits of nodes that are computed in blocks of a row; span.h evaluates them. Such nodes are
/// costly functions with an array kernel, and nodes with loops of their own. An array kernel
/// computes a function for all elements of an array.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The number of elements of a block, which has 4 KiB. Buffers of several nested functions then
/// stay in the first-level cache.
template <typename T>
inline constexpr index_t kSpanBlock = index_t{4096} / index_t{sizeof(T)};

/// True if E can write elements of a row at once; see EvalRow in operand.h.
template <typename E, typename T>
concept HasEvalRow = requires(const E& e, index_t i, T* out) {
  e.EvalRow(i, i, i, out);
};

template <typename E>
constexpr bool HoldsSpans();

/// True if HoldsSpans is true for any of a tuple of expressions.
template <typename Tuple>
struct AnyHoldsSpans;
template <typename... E>
struct AnyHoldsSpans<std::tuple<E...>> {
  static constexpr bool value = (HoldsSpans<E>() || ...);
};

/// True for a node that moves elements and computes blocks of them in a loop of its own. The loop
/// costs less than evaluating the elements one by one or in packets. Either the node says so by
/// kSharesWork, or its loop takes blocks of an operand for which HoldsSpans is true.
template <typename E>
concept ComputesBlocks = HasEvalRow<E, typename E::value_type> &&
    (requires { requires E::kSharesWork; } || AnyHoldsSpans<OperandTupleOf<E>>::value);

/// True if E is a function of one operand with an array kernel.
template <typename E>
struct HasArrayKernel : std::false_type {};
template <typename Op, typename A>
requires requires(const typename A::value_type* in, typename A::value_type* out) {
  Op::ArrayKernel(in, out, index_t{1}, op::ScaleOrOffset<typename A::value_type>());
}
struct HasArrayKernel<UnaryMapExp<Op, A>> : std::true_type {
  using Function = Op;
};

/// True if E is a number, which has no place in memory.
template <typename E>
inline constexpr bool kIsNumber = false;
/// True for ScalarExp, the node of a number.
template <typename T>
inline constexpr bool kIsNumber<ScalarExp<T>> = true;

/// True if E is a function of two operands with an array kernel.
template <typename E>
struct HasArrayKernelOfTwo : std::false_type {};
template <typename Op, typename A, typename B>
requires(A::kRank > 0 || B::kRank > 0) &&
    requires(op::ArrayOperand<typename A::value_type> in, typename A::value_type* out) {
  Op::ArrayKernel(in, in, out, index_t{1});
}
struct HasArrayKernelOfTwo<BinaryMapExp<Op, A, B>> : std::true_type {
  using Function = Op;
  using First = A;
  using Second = B;
};

/// True if E converts elements of another type. A buffer holds more or fewer elements of that type.
template <typename E>
inline constexpr bool kConverts = false;
/// True for TypecastExp, unless the element types are equal.
template <typename T, typename A>
inline constexpr bool kConverts<TypecastExp<T, A>> = !std::is_same_v<T, typename A::value_type>;

/// Returns true if E contains a function with an array kernel, or a node for which ComputesBlocks
/// is true, and uses its elements at their own index.
template <typename E>
constexpr bool HoldsSpans() {
  if constexpr (MovesElements<E>()) {
    return ComputesBlocks<E>;
  } else if constexpr (HasArrayKernel<E>::value || HasArrayKernelOfTwo<E>::value) {
    return true;
  } else {
    return AnyHoldsSpans<OperandTupleOf<E>>::value;
  }
}

/// The input of an array kernel: an expression, and a factor or a summand for each of its elements.
/// The kernel applies the factor or summand as it reads.
template <typename E>
struct ArrayKernelInput {
  const E& node;
  op::ScaleOrOffset<typename E::value_type> change = {};
};

/// The input of an array kernel whose operand is e. A negation, a factor or a summand at the root
/// of e becomes the kernel's change.
template <typename E>
ArrayKernelInput<E> ArrayKernelInputOf(const E& e) {
  return {e};
}
template <typename A>
requires(A::kRank >
         0) ArrayKernelInput<A> ArrayKernelInputOf(const UnaryMapExp<op::negation, A>& e) {
  return {e.a, {.scale = -1}};
}
template <typename A, typename T>
requires(A::kRank > 0)
    ArrayKernelInput<A> ArrayKernelInputOf(const BinaryMapExp<op::mul, A, ScalarExp<T>>& e) {
  return {e.a, {.scale = e.b.value}};
}
template <typename A, typename T>
requires(A::kRank > 0)
    ArrayKernelInput<A> ArrayKernelInputOf(const BinaryMapExp<op::mul, ScalarExp<T>, A>& e) {
  return {e.b, {.scale = e.a.value}};
}
template <typename A, typename T>
requires(A::kRank > 0)
    ArrayKernelInput<A> ArrayKernelInputOf(const BinaryMapExp<op::plus, A, ScalarExp<T>>& e) {
  return {e.a, {.offset = e.b.value}};
}
template <typename A, typename T>
requires(A::kRank > 0)
    ArrayKernelInput<A> ArrayKernelInputOf(const BinaryMapExp<op::plus, ScalarExp<T>, A>& e) {
  return {e.b, {.offset = e.a.value}};
}
template <typename A, typename T>
requires(A::kRank > 0)
    ArrayKernelInput<A> ArrayKernelInputOf(const BinaryMapExp<op::minus, A, ScalarExp<T>>& e) {
  return {e.a, {.offset = -e.b.value}};
}

/// The type of the node in ArrayKernelInputOf's result. Requires: HasArrayKernel<E>.
template <typename E>
using ArrayKernelNode =
    std::remove_cvref_t<decltype(ArrayKernelInputOf(std::declval<const E&>().a).node)>;

/// True if an array kernel of two operands reads an operand E in place.
template <typename E>
inline constexpr bool kReadInPlace = kIsNumber<E> || kIsTensor<E>;

/// True for a function whose array kernel reads a tensor, two tensors, or a tensor and a number.
template <typename E>
concept ArrayKernelOfTensor = (HasArrayKernel<E>::value && kIsTensor<ArrayKernelNode<E>>) ||
                              (HasArrayKernelOfTwo<E>::value &&
                               kReadInPlace<typename HasArrayKernelOfTwo<E>::First> &&
                               kReadInPlace<typename HasArrayKernelOfTwo<E>::Second>);

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EXPR_ARRAY_KERNEL_NODE_H_
