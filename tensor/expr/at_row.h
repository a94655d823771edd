#ifndef TESSERA_TENSOR_EXPR_AT_ROW_H_
#define TESSERA_TENSOR_EXPR_AT_ROW_H_

#include <concepts>
#include <utility>

#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/packet/packet.h"

/// AtRow binds an expression to one row before the loop over the row's elements. Finding where a
/// node's elements come from takes divisions, which are the same for all elements of a row. AtRow
/// makes them once.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// A node over a row in memory, or over a block of a row in a buffer. Element x of the row is
/// data[x].
template <typename T>
struct BlockExp : Exp<BlockExp<T>, T, form::kStored> {
  using value_type = T;
  static constexpr int kRank = 0;  // rank 0 fits every shape
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;
  static constexpr bool kHasAvx2Packet = true;
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

/// Returns an expression for row y of `e` alone. A tensor becomes its row in memory. A node that
/// has a member AtRow(y) becomes that member's result. An element-wise node over nodes that move
/// elements is rebuilt over its operands' rows. Every other node is returned unchanged. So is a
/// Store, because it compares shapes and a row has none.
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

/// True if AtRow(e, y) has another type than E. AtRow is not instantiated for an E that moves no
/// elements.
template <typename E>
concept HasAtRow = (E::kForm == form::kMoved) &&
                   !std::same_as<decltype(AtRow(std::declval<const E&>(), 0)), E>;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EXPR_AT_ROW_H_
