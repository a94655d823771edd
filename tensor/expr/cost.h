#ifndef TESSERA_TENSOR_EXPR_COST_H_
#define TESSERA_TENSOR_EXPR_COST_H_

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "tessera/base/shape.h"
#include "tessera/tensor/expr/operand.h"

/// What an element of an expression costs, in elements of a cheap loop such as `r = a + b`, whose
/// own are counted as one whatever it reads: dearer ones pay for a second thread sooner. Only how
/// many pieces a task takes depends on it; results never do.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// What one call of a functor for elements of T costs beyond arithmetic: what it says of itself, as
/// a constant kElementCost or a function ElementCost<T>(), neither of them negative, else nothing.
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

/// The most that CostOf takes from a type. A task then has 128 elements at least by the default
/// setting, which C functions of 3 ns keep above TBB's quarter of a microsecond, whatever a functor
/// says of itself.
inline constexpr index_t kMaxCostOfType = 255;

/// The most that a node may say at run time; the product of two such costs is a number.
inline constexpr index_t kMaxCost = index_t{1} << 30;

/// Whether a node says at run time what its elements cost.
template <typename E>
concept CountsItsCost = requires(const E& e) {
  e.ElementCost();
};

/// CostOf as far as the type says it: the sum over the tree, and whether it is all.
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

/// What an element of e costs beyond one of a cheap loop, in elements of such a loop.
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
