#ifndef TESSERA_TENSOR_IMPLICIT_DOT_H_
#define TESSERA_TENSOR_IMPLICIT_DOT_H_

#include <algorithm>
#include <array>
#include <tuple>

#include "tessera/tensor/accumulate.h"
#include "tessera/tensor/dense.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// implicit_dot: see the function below.
template <typename A, typename B>
struct ImplicitDotExp : Exp<ImplicitDotExp<A, B>, typename A::value_type> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  using Accumulator = typename AccumulateIn<value_type>::type;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  A a;
  B b;
  index_t inner;
  Shape<2> target;

  ImplicitDotExp(const A& left, const B& right)
      : a(left),
        b(right),
        inner(left.shape()[1]),
        target(Shape2(left.shape()[0], right.shape()[1])) {
    if (right.shape()[0] != inner) {
      throw InvalidArgument("implicit_dot: operands of shape ", left.shape(), " and ",
                            right.shape(), " have no product");
    }
  }

  auto operands() const { return std::tuple<A, B>(a, b); }
  template <typename C, typename D>
  ImplicitDotExp<C, D> WithOperands(const C& left, const D& right) const {
    return {left, right};
  }

  const Shape<2>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    Accumulator sum = Accumulator(0);
    for (index_t k = 0; k < inner; ++k) {
      sum += static_cast<Accumulator>(a.Eval(y, k)) * static_cast<Accumulator>(b.Eval(k, x));
    }
    return static_cast<value_type>(sum);
  }
  bool IsFlat() const { return false; }

  /// Reads b row by row, and each element of a once for a block of columns.
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    constexpr index_t kBlock = 256;
    const ImplicitDotExp local = *this;
    alignas(64) std::array<Accumulator, kBlock> sums;
    for (index_t x = begin; x < end; x += kBlock) {
      const index_t width = std::min(kBlock, end - x);
      std::fill_n(sums.data(), width, Accumulator(0));
      for (index_t k = 0; k < local.inner; ++k) {
        const Accumulator left = static_cast<Accumulator>(local.a.Eval(y, k));
        for (index_t i = 0; i < width; ++i) {
          sums[static_cast<size_t>(i)] += left * static_cast<Accumulator>(local.b.Eval(k, x + i));
        }
      }
      for (index_t i = 0; i < width; ++i) {
        *out++ = static_cast<value_type>(sums[static_cast<size_t>(i)]);
      }
    }
  }
};

/// The product of two matrices of any expressions, computed element by element where it is read:
/// for small or narrow ones, whose product is not worth a temporary. dot is the fast one.
///
/// Terms are added in order; half and bfloat16 add up in float.
/// Throws Error(kInvalidArgument) unless a has as many columns as b has rows.
template <typename A, typename B>
requires MatchingExpressions<A, B> ImplicitDotExp<OperandNode<A>, OperandNode<B>> implicit_dot(
    const A& a, const B& b) {
  static_assert(A::kRank == 2 && B::kRank == 2, "implicit_dot: two matrices");
  return {AsNode(a), AsNode(b)};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::implicit_dot;

}  // namespace tessera

#endif  // TESSERA_TENSOR_IMPLICIT_DOT_H_
