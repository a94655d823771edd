#ifndef TESSERA_TENSOR_AT_ROW_H_
#define TESSERA_TENSOR_AT_ROW_H_

#include <concepts>
#include <utility>

#include "tessera/tensor/expression.h"
#include "tessera/tensor/span.h"

/// Expressions bound to a row, before the loop over its elements: where a node's elements come from
/// takes divisions, which are the same for all elements of a row.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// `e` for row y alone: the address of a tensor's row, and what nodes offer as AtRow(y). A Store
/// stays as it is, for it compares shapes, and a row has none.
template <typename E>
auto AtRow(const E& e, index_t y) {
  if constexpr (kIsTensor<E>) {
    return BlockExp<typename E::value_type>(e.dptr_ + y * e.stride_);
  } else if constexpr (requires { e.AtRow(y); }) {
    return e.AtRow(y);
  } else if constexpr (
      E::kForm == form::kMoved && requires { E::kMergesOperands; } && !requires { e.Stored(); }) {
    return VisitOperands(
        e, [&e, y](const auto&... operand) { return e.WithOperands(AtRow(operand, y)...); });
  } else {
    return e;
  }
}

/// Whether that is another type. If E moves no elements nothing is compiled to find out.
template <typename E>
concept HasAtRow = (E::kForm == form::kMoved) &&
                   !std::same_as<decltype(AtRow(std::declval<const E&>(), 0)), E>;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_AT_ROW_H_
