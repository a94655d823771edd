#ifndef TESSERA_TENSOR_REREAD_H_
#define TESSERA_TENSOR_REREAD_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense.h"

/// What a node whose windows share elements of an expression makes of it: it stores what costs more
/// to compute again than to read back.
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
    return E::kForm == form::kMapped || requires { requires E::kRereadsOperand; }
    || AnyIsWorthStoring<OperandTupleOf<E>>::value;
  }
}

/// Whether a node that reads its operand E many times is computed first, as it must where a part of
/// E is, and therefore has PrepareToReread do it.
template <typename E>
constexpr bool IsPreparedToReread() {
  return IsComputedFirst<E>() || IsWorthStoring<E>();
}

inline namespace TESSERA_ISA_NAMESPACE {

/// e ready for a loop, in a temporary in scratch memory if it is worth that.
/// Throws Error(kResourceExhausted) without memory for it.
template <typename E, typename Device>
auto PrepareToReread(const E& e, Scratch<Device>* scratch) {
  const auto ready = Prepare(e, scratch);
  if constexpr (IsWorthStoring<std::remove_cv_t<decltype(ready)>>()) {
    const auto stored = TemporaryTensor<Device, E::kRank, typename E::value_type>(
        e.shape(), scratch->stream(), scratch);
    Evaluate<sv::saveto>(stored, ready);
    return stored;
  } else {
    return ready;
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_REREAD_H_
