#ifndef TESSERA_TENSOR_LINALG_IMPLICIT_DOT_H_
#define TESSERA_TENSOR_LINALG_IMPLICIT_DOT_H_

#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/functors/accumulate.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The expression node of implicit_dot.
template <typename A, typename B>
struct ImplicitDotExp : Exp<ImplicitDotExp<A, B>, typename A::value_type> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  using Accumulator = typename AccumulateIn<value_type>::type;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kSharesWork = true;

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

  /// Evaluates elements [begin, end) of row y. It computes each element of a once for a block of
  /// columns, and goes down b's rows with the sums of a few columns in registers. Fewer columns are
  /// faster one by one if an element of a costs nothing, since the next sum need not wait for the
  /// last.
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    const ImplicitDotExp local = *this;
    std::array<Accumulator, kBlock> sums;
    std::array<value_type, kBlock> row;
    for (index_t x = begin; x < end; x += kBlock) {
      const index_t width = std::min(kBlock, end - x);
      std::fill_n(sums.data(), width, Accumulator(0));
      index_t done = 0;
      for (index_t k = 0; k < local.inner && (kOneByOne || width >= 4); k += kBlock) {
        const index_t depth = std::min(kBlock, local.inner - k);
        EvaluateRow<sv::saveto>(row.data() - k, local.a, y, k, k + depth);
        done = 0;
        const auto add = [&]<typename P, size_t... i>(std::index_sequence<i...> packets) {
          constexpr index_t kWidth = index_t{sizeof...(i)} * pk::unpacket_traits<P>::size;
          for (; done + kWidth <= width; done += kWidth) {
            local.template AddTerms<P>(row.data(), k, depth, x + done, sums.data() + done, packets);
          }
        };
        if constexpr (kTakesPackets) {
          using P = typename PacketTraits<value_type>::type;
          add.template operator()<P>(std::make_index_sequence<4>());
          add.template operator()<P>(std::make_index_sequence<2>());
          add.template operator()<P>(std::make_index_sequence<1>());
        }
        add.template operator()<Accumulator>(std::make_index_sequence<4>());
        if constexpr (kOneByOne)
          add.template operator()<Accumulator>(std::make_index_sequence<1>());
      }
      for (index_t i = 0; i < width; ++i) {
        *out++ =
            i < done ? static_cast<value_type>(sums[static_cast<size_t>(i)]) : local.Eval(y, x + i);
      }
    }
  }

 private:
  static constexpr bool kTakesPackets = B::kHasPacket && PacketTraits<value_type>::kVectorizable &&
                                        std::is_same_v<value_type, Accumulator>;
  /// True if single columns also read the elements of a that have been computed.
  static constexpr bool kOneByOne = HoldsSpans<A>();
  /// The columns, and the elements of a's row, that are taken at a time.
  static constexpr index_t kBlock = 256;

  /// Adds terms to the sums of the packets from column x on. The terms are the products of `row`,
  /// `depth` elements of a, and b from row k on. A packet may be a single number.
  template <typename P, size_t... i>
  void AddTerms(const value_type* row, index_t k, index_t depth, index_t x, Accumulator* sums,
                std::index_sequence<i...> /*packets*/) const {
    constexpr size_t kSize = pk::unpacket_traits<P>::size;
    P all[] = {pk::ploadu<P>(sums + i * kSize)...};
    for (index_t j = 0; j < depth; ++j) {
      const P left = pk::pset1<P>(static_cast<Accumulator>(row[j]));
      const auto right = [&](index_t column) {
        if constexpr (kSize == 1) {
          return static_cast<P>(b.Eval(k + j, column));
        } else {
          return b.template EvalPacket<P>(k + j, column);
        }
      };
      ((all[i] = pk::padd(all[i], pk::pmul(left, right(x + static_cast<index_t>(i * kSize))))),
       ...);
    }
    (pk::pstoreu(sums + i * kSize, all[i]), ...);
  }
};

/// Returns the product of two matrices, which may be any expressions. It is computed where it is
/// read, without a temporary of its size, and is for small or narrow matrices; dot is the fast
/// product.
///
/// Terms are added in order; half and bfloat16 accumulate in float. Throws Error(kInvalidArgument)
/// unless a has as many columns as b has rows.
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

#endif  // TESSERA_TENSOR_LINALG_IMPLICIT_DOT_H_
