#ifndef TESSERA_TENSOR_DENSE_MATERIALIZE_OPERAND_H_
#define TESSERA_TENSOR_DENSE_MATERIALIZE_OPERAND_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"

/// Materializes operands whose elements a node reads many times. A node materializes an operand if
/// computing it again costs more than reading it back. Nodes whose windows share elements
/// materialize every function (kReusesOperand). Nodes that repeat elements, each at an index of
/// its own, materialize only expensive operands (MaterializesOperand).
namespace tessera::expr {

template <typename E>
constexpr bool IsWorthMaterializing();

/// True if IsWorthMaterializing is true for any of a tuple of expressions.
template <typename Tuple>
struct AnyIsWorthMaterializing;
template <typename... E>
struct AnyIsWorthMaterializing<std::tuple<E...>> {
  static constexpr bool value = (IsWorthMaterializing<E>() || ...);
};

/// Returns true if an element of E is more than an element read elsewhere in memory. It is then a
/// function of other elements, or a value of a node with kReusesOperand.
template <typename E>
constexpr bool IsWorthMaterializing() {
  if constexpr (kIsTensor<E>) {
    return false;
  } else {
    constexpr bool kIsFunction = E::kForm != form::kStored && !MovesElements<E>();
    return kIsFunction || HoldsSpans<E>() || requires { requires E::kReusesOperand; }
    || AnyIsWorthMaterializing<OperandTupleOf<E>>::value;
  }
}

/// Returns true if a node that reads its operand E many times must call MaterializeForReuse before
/// the loop. This is so if a part of E must be materialized, or if E is worth it.
template <typename E>
constexpr bool IsMaterializedForReuse() {
  return NeedsMaterialization<E>() || IsWorthMaterializing<E>();
}

/// True if a node that repeats elements of its operand E materializes E: the elements are computed
/// on the CPU, in blocks.
template <typename E>
inline constexpr bool kIsExpensiveToRepeat = HoldsSpans<E>() && !std::is_same_v<DeviceOf<E>, gpu>;

/// True if a node that reads rows of its operand E materializes E: the elements are computed on the
/// CPU, in tiles. A transpose is such an operand: a row of it by itself is a column of its own
/// operand.
template <typename E>
inline constexpr bool kIsReadInTiles = HoldsTiles<E>() && !std::is_same_v<DeviceOf<E>, gpu>;

/// A base of nodes that materialize their operand before the loop if kStores is true. Such a node
/// implements Materialized by MaterializeWhole.
template <bool kStores>
struct MaterializesOperand {};
template <>
struct MaterializesOperand<true> {
  static constexpr bool kMaterializesOperand = true;
  static constexpr bool kIsMaterialized = true;
};

inline namespace TESSERA_ISA_NAMESPACE {

/// Materializes an expression that is ready for a loop in a temporary in scratch memory. Throws
/// Error(kResourceExhausted) without memory for it.
template <typename E, typename Device>
auto MaterializedInScratch(const E& ready, Scratch<Device>* scratch) {
  const auto stored = TemporaryTensor<Device, E::kRank, typename E::value_type>(
      ready.shape(), scratch->stream(), scratch);
  Evaluate<sv::saveto>(stored, ready);
  return stored;
}

/// Returns e ready for a loop, materialized in a temporary if it is worth that. Throws
/// Error(kResourceExhausted) without memory for the temporary.
template <typename E, typename Device>
auto MaterializeForReuse(const E& e, Scratch<Device>* scratch) {
  const auto ready = Materialize(e, scratch);
  if constexpr (IsWorthMaterializing<std::remove_cv_t<decltype(ready)>>()) {
    return MaterializedInScratch(ready, scratch);
  } else {
    return ready;
  }
}

/// Returns e materialized in a temporary, or e itself if it is a tensor once it is ready for a
/// loop. Throws Error(kResourceExhausted) without memory for the temporary.
template <typename E, typename Device>
auto MaterializeWhole(const E& e, Scratch<Device>* scratch) {
  const auto ready = Materialize(e, scratch);
  if constexpr (kIsTensor<std::remove_cv_t<decltype(ready)>>) {
    return ready;
  } else {
    return MaterializedInScratch(ready, scratch);
  }
}

/// Returns e ready for a loop over rows. An e that kIsReadInTiles is materialized in a temporary.
/// MaterializeInPlace handles any other e.
template <typename E, typename Device>
decltype(auto) MaterializeRows(const E& e, Scratch<Device>* scratch) {
  if constexpr (kIsReadInTiles<E>) {
    return MaterializeWhole(e, scratch);
  } else {
    return MaterializeInPlace(e, scratch);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_DENSE_MATERIALIZE_OPERAND_H_
