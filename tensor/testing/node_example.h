#ifndef TESSERA_TENSOR_TESTING_NODE_EXAMPLE_H_
#define TESSERA_TENSOR_TESTING_NODE_EXAMPLE_H_

#include <algorithm>
#include <tuple>

#include "tessera/tensor/tensor.h"

/// The sample of docs/tensor.md, "A node of your own"; not part of the library. It is in a
/// namespace beside Tessera's, as a program's own nodes are.
namespace user {

using namespace tessera;  // NOLINT

/// roll(x, n): rows moved on by n elements; what leaves one at its end enters at its beginning.
template <typename E>
struct RollExp : expr::Exp<RollExp<E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = expr::DeviceOf<E>;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;  // there is no EvalPacket

  E e;
  index_t columns, n;

  RollExp(const E& operand, index_t shift) : e(operand), columns(e.shape()[kRank - 1]) {
    n = columns == 0 ? 0 : (shift % columns + columns) % columns;
  }
  Shape<kRank> shape() const { return e.shape(); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return e.Eval(y, x < n ? x - n + columns : x - n);
  }
  bool IsFlat() const { return false; }
  std::tuple<E> operands() const { return {e}; }
  template <typename A>
  RollExp<A> WithOperands(const A& a) const {
    return {a, n};
  }

  // The rest is for speed.
  static constexpr bool kSharesWork = true;
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    const index_t middle = std::clamp(n, begin, end);
    expr::EvalSpan(e, y, begin - n + columns, middle - n + columns, out);
    expr::EvalSpan(e, y, middle - n, end - n, out + (middle - begin));
  }
};

template <expr::Operand E>
RollExp<expr::OperandNode<E>> roll(const E& e, index_t n) {
  return {expr::AsNode(e), n};
}

}  // namespace user

#endif  // TESSERA_TENSOR_TESTING_NODE_EXAMPLE_H_
