#ifndef TESSERA_TENSOR_DENSE_REREAD_H_
#define TESSERA_TENSOR_DENSE_REREAD_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"

/// What a node that asks for elements of an expression many times makes of it: it stores what costs
/// more to compute again than to read back. Those whose windows share elements store every
/// function (kRereadsOperand); those that repeat elements, each in a place of its own, what is dear
/// (StoresOperand).
namespace tessera::expr {

template <typename E>
constexpr bool IsWorthStoring();

/// Whether IsWorthStoring of any of a tuple of expressions.
template <typename Tuple>
struct AnyIsWorthStoring;
template <typename... E>
struct AnyIsWorthStoring<std::tuple<E...>> {
  static constexpr bool value = (IsWorthStoring<E>() || ...);
};

/// Whether an element of E is more than one that is read elsewhere in memory: it is a function of
/// others, or such a node's own value.
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

/// Whether a node that reads its operand E many times is computed first, as it must where a part of
/// E is, and therefore has PrepareToReread do it.
template <typename E>
constexpr bool IsPreparedToReread() {
  return IsComputedFirst<E>() || IsWorthStoring<E>();
}

/// Whether a node that repeats elements of its operand E stores it: on the CPU, where these are
/// computed in blocks.
template <typename E>
inline constexpr bool kIsDearToRepeat = HoldsSpans<E>() && !std::is_same_v<DeviceOf<E>, gpu>;

/// Whether a node that reads rows of its operand E stores it: on the CPU, where it is computed in
/// tiles, as a transpose is, of which a row by itself is a column of what is transposed.
template <typename E>
inline constexpr bool kIsReadInTiles = HoldsTiles<E>() && !std::is_same_v<DeviceOf<E>, gpu>;

/// A base of nodes that, if kStores, are computed first to store their operand; these offer
/// ComputeFirst by PrepareStored.
template <bool kStores>
struct StoresOperand {};
template <>
struct StoresOperand<true> {
  static constexpr bool kStoresOperand = true;
  static constexpr bool kComputedFirst = true;
};

inline namespace TESSERA_ISA_NAMESPACE {

/// What is ready for a loop, in a temporary in scratch memory.
/// Throws Error(kResourceExhausted) without memory for it.
template <typename E, typename Device>
auto StoredInScratch(const E& ready, Scratch<Device>* scratch) {
  const auto stored = TemporaryTensor<Device, E::kRank, typename E::value_type>(
      ready.shape(), scratch->stream(), scratch);
  Evaluate<sv::saveto>(stored, ready);
  return stored;
}

/// e ready for a loop, in a temporary if it is worth that; throws as StoredInScratch does.
template <typename E, typename Device>
auto PrepareToReread(const E& e, Scratch<Device>* scratch) {
  const auto ready = Prepare(e, scratch);
  if constexpr (IsWorthStoring<std::remove_cv_t<decltype(ready)>>()) {
    return StoredInScratch(ready, scratch);
  } else {
    return ready;
  }
}

/// The same, in a temporary whatever it is, unless it is a tensor.
template <typename E, typename Device>
auto PrepareStored(const E& e, Scratch<Device>* scratch) {
  const auto ready = Prepare(e, scratch);
  if constexpr (kIsTensor<std::remove_cv_t<decltype(ready)>>) {
    return ready;
  } else {
    return StoredInScratch(ready, scratch);
  }
}

/// PrepareInPlace for a loop over rows: what kIsReadInTiles in a temporary.
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
