#ifndef TESSERA_TENSOR_DENSE_REREAD_H_
#define TESSERA_TENSOR_DENSE_REREAD_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"

/// Materializes operands whose elements a node reads many times. A node materializes an operand if
/// computing it again costs more than reading it back. Nodes whose windows share elements
/// materialize every function (kRereadsOperand). Nodes that repeat elements, each at an index of
/// its own, materialize only expensive operands (StoresOperand).
namespace tessera::expr {

template <typename E>
constexpr bool IsWorthStoring();

/// True if IsWorthStoring is true for any of a tuple of expressions.
template <typename Tuple>
struct AnyIsWorthStoring;
template <typename... E>
struct AnyIsWorthStoring<std::tuple<E...>> {
  static constexpr bool value = (IsWorthStoring<E>() || ...);
};

/// Returns true if an element of E is more than an element read elsewhere in memory. It is then a
/// function of other elements, or a value of a node with kRereadsOperand.
template <typename E>
constexpr bool IsWorthStoring() {
  if constexpr (kIsTensor<E>) {
    return false;
  } else {
    constexpr bool kIsFunction = E::kForm != form::kStored && !MovesElements<E>();
    return kIsFunction || HoldsSpans<E>() || requires { requires E::kRereadsOperand; }
    || AnyIsWorthStoring<OperandTupleOf<E>>::value;
  }
}

/// Returns true if a node that reads its operand E many times must call PrepareToReread before the
/// loop. This is so if a part of E must be materialized, or if E is worth it.
template <typename E>
constexpr bool IsPreparedToReread() {
  return IsComputedFirst<E>() || IsWorthStoring<E>();
}

/// True if a node that repeats elements of its operand E materializes E: the elements are computed
/// on the CPU, in blocks.
template <typename E>
inline constexpr bool kIsDearToRepeat = HoldsSpans<E>() && !std::is_same_v<DeviceOf<E>, gpu>;

/// True if a node that reads rows of its operand E materializes E: the elements are computed on the
/// CPU, in tiles. A transpose is such an operand: a row of it by itself is a column of its own
/// operand.
template <typename E>
inline constexpr bool kIsReadInTiles = HoldsTiles<E>() && !std::is_same_v<DeviceOf<E>, gpu>;

/// A base of nodes that materialize their operand before the loop if kStores is true. Such a node
/// implements ComputeFirst by PrepareStored.
template <bool kStores>
struct StoresOperand {};
template <>
struct StoresOperand<true> {
  static constexpr bool kStoresOperand = true;
  static constexpr bool kComputedFirst = true;
};

inline namespace TESSERA_ISA_NAMESPACE {

/// Materializes an expression that is ready for a loop in a temporary in scratch memory. Throws
/// Error(kResourceExhausted) without memory for it.
template <typename E, typename Device>
auto StoredInScratch(const E& ready, Scratch<Device>* scratch) {
  const auto stored = TemporaryTensor<Device, E::kRank, typename E::value_type>(
      ready.shape(), scratch->stream(), scratch);
  Evaluate<sv::saveto>(stored, ready);
  return stored;
}

/// Returns e ready for a loop, materialized in a temporary if it is worth that. Throws
/// Error(kResourceExhausted) without memory for the temporary.
template <typename E, typename Device>
auto PrepareToReread(const E& e, Scratch<Device>* scratch) {
  const auto ready = Prepare(e, scratch);
  if constexpr (IsWorthStoring<std::remove_cv_t<decltype(ready)>>()) {
    return StoredInScratch(ready, scratch);
  } else {
    return ready;
  }
}

/// Returns e materialized in a temporary, or e itself if it is a tensor once it is ready for a
/// loop. Throws Error(kResourceExhausted) without memory for the temporary.
template <typename E, typename Device>
auto PrepareStored(const E& e, Scratch<Device>* scratch) {
  const auto ready = Prepare(e, scratch);
  if constexpr (kIsTensor<std::remove_cv_t<decltype(ready)>>) {
    return ready;
  } else {
    return StoredInScratch(ready, scratch);
  }
}

/// Returns e ready for a loop over rows. An e that kIsReadInTiles is materialized in a temporary.
/// PrepareInPlace prepares any other e.
template <typename E, typename Device>
decltype(auto) PrepareRows(const E& e, Scratch<Device>* scratch) {
  if constexpr (kIsReadInTiles<E>) {
    return PrepareStored(e, scratch);
  } else {
    return PrepareInPlace(e, scratch);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_DENSE_REREAD_H_
