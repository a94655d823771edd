#ifndef TESSERA_TENSOR_EXPR_COST_H_
#define TESSERA_TENSOR_EXPR_COST_H_

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "tessera/base/shape.h"
#include "tessera/tensor/expr/operand.h"

/// CostOf estimates the cost of an element of an expression. The unit is one element of a cheap
/// loop such as `r = a + b`, which counts as one whatever it reads. A second thread pays off sooner
/// for expensive elements. The cost decides only how many elements a task takes. Results never
/// depend on it.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns the cost of one call of functor Op for an element of T, beyond plain arithmetic. A
/// functor states its cost as a function ElementCost<T>() or as a constant kElementCost. Neither
/// may be negative. The cost is 0 if the functor states none.
template <typename Op, typename T>
constexpr index_t FunctorCost() {
  if constexpr (requires { Op::template ElementCost<T>(); }) {
    static_assert(Op::template ElementCost<T>() >= 0, "ElementCost must not be negative");
    return Op::template ElementCost<T>();
  } else if constexpr (requires { Op::kElementCost; }) {
    static_assert(Op::kElementCost >= 0, "kElementCost must not be negative");
    return Op::kElementCost;
  } else {
    return 0;
  }
}

/// The largest cost that CostOf takes from a type. By the default setting a task then has at least
/// 128 elements. C functions of 3 ns keep such a task above a quarter of a microsecond, the least
/// for a TBB task, whatever cost a functor states.
inline constexpr index_t kMaxCostOfType = 255;

/// The largest cost that a node may state at run time. The product of two such costs fits index_t.
inline constexpr index_t kMaxCost = index_t{1} << 30;

/// True if a node states the cost of its elements at run time.
template <typename E>
concept CountsItsCost = requires(const E& e) {
  e.ElementCost();
};

/// The part of CostOf that a type states. `value` is the sum over the expression tree. `is_all` is
/// true if no node states a cost at run time.
template <typename E>
struct TypeCost;
template <typename... Operand>
struct TypeCost<std::tuple<Operand...>> {
  static constexpr index_t value = (index_t{0} + ... + TypeCost<Operand>::value);
  static constexpr bool is_all = (TypeCost<Operand>::is_all && ...);
};
template <typename E>
struct TypeCost {
  static constexpr index_t OfNode() {
    if constexpr (requires { E::kElementCost; }) {
      static_assert(E::kElementCost >= 0, "kElementCost must not be negative");
      return E::kElementCost;
    } else {
      return 0;
    }
  }
  static constexpr index_t value = OfNode() + TypeCost<OperandTupleOf<E>>::value;
  static constexpr bool is_all = !CountsItsCost<E> && TypeCost<OperandTupleOf<E>>::is_all;
};

/// Returns the cost of an element of e beyond an element of a cheap loop, in elements of such a
/// loop.
template <typename E>
index_t CostOf(const E& e) {
  if constexpr (CountsItsCost<E>) {
    return std::clamp<index_t>(e.ElementCost(), 0, kMaxCost);
  } else if constexpr (TypeCost<E>::is_all) {
    return std::min(kMaxCostOfType, TypeCost<E>::value);
  } else {
    return std::min(kMaxCostOfType, TypeCost<E>::OfNode()) +
           VisitOperands(
               e, [](const auto&... operand) { return (index_t{0} + ... + CostOf(operand)); });
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EXPR_COST_H_
