#ifndef TESSERA_TENSOR_EXPR_AT_ROW_H_
#define TESSERA_TENSOR_EXPR_AT_ROW_H_

#include <concepts>
#include <utility>

#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/packet/packet.h"

/// Expressions bound to a row, before the loop over its elements: where a node's elements come from
/// takes divisions, which are the same for all elements of a row.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// A row that lies in memory, or a block of one in a buffer; element x of the row is data[x].
template <typename T>
struct BlockExp : Exp<BlockExp<T>, T, form::kStored> {
  using value_type = T;
  static constexpr int kRank = 0;  // fits every shape
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;
  static constexpr bool kHasWidePacket = true;
  static constexpr bool kMovesElements = false;

  const T* data;

  explicit BlockExp(const T* row) : data(row) {}
  TESSERA_HD T Eval(index_t, index_t x) const { return data[x]; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t, index_t x) const {
    return pk::ploadu<P>(data + x);
  }
  bool IsFlat() const { return true; }
};

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

#endif  // TESSERA_TENSOR_EXPR_AT_ROW_H_
