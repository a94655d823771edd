#ifndef TESSERA_TENSOR_REDUCE_REDUCE_AXIS_H_
#define TESSERA_TENSOR_REDUCE_REDUCE_AXIS_H_

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/reduce/argmax_columns.h"
#include "tessera/tensor/reduce/reduce_columns.h"
#include "tessera/tensor/reduce/reduce_row.h"
#include "tessera/tensor/reduce/reducer.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of reduce_with_axis and reduce_keepdim.
template <typename Red, bool kIndex, int N, typename E>
struct ReduceWithAxisExp : Exp<ReduceWithAxisExp<Red, kIndex, N, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using Accumulator = AccumulatorOf<Red, value_type>;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kSharesWork = !kIndex;  // an index is found for each result by itself

  E e;
  int axis;
  Shape<N> target;
  bool along_row;      // the operand's last dimension is the one that is reduced
  index_t extent;      // of the dimension
  index_t inner_rows;  // operand rows in one step of the dimension
  index_t piece;       // of the dimension, below its extent where the results are few

  ReduceWithAxisExp(const E& operand, int reduced, const char* operation)
      : e(operand), axis(reduced) {
    constexpr int kOperandRank = E::kRank;
    const Shape<kOperandRank> source = operand.shape();
    if (axis < 0 || axis >= kOperandRank) {
      throw InvalidArgument(operation, ": shape ", source, " has no dimension ", axis);
    }
    if constexpr (N == kOperandRank) {
      target = source;
      target[axis] = 1;
    } else {
      for (int i = 0; i < N; ++i) target[i] = source[i < axis ? i : i + 1];
    }
    along_row = axis == kOperandRank - 1;
    extent = source[axis];
    inner_rows = along_row ? 1 : source.ProdShape(axis + 1, kOperandRank - 1);
    if (along_row) {
      piece = target.Size() < kMaxPieces ? kReduceChunk : extent;
    } else {
      const index_t columns = source[kOperandRank - 1];
      const index_t blocks = (columns + kColumnBlock - 1) / kColumnBlock;
      piece = PieceOfAxis(extent, source.ProdShape(0, axis) * inner_rows * blocks,
                          std::min(columns, kColumnBlock));
    }
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  ReduceWithAxisExp<Red, kIndex, N, A> WithOperands(const A& a) const {
    return {a, axis, kIndex ? "index of an extreme" : "reduction"};
  }

  const Shape<N>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    if constexpr (!kIndex && std::is_same_v<device_type, cpu>) {
      value_type value = value_type();
      EvalRow(y, x, x + 1, &value);  // in its order, for the same bits
      return value;
    } else {
      return OneByOne(y, x);
    }
  }
  bool IsFlat() const { return false; }

  /// Returns how much is read for a result. If the results are one row, which tasks cut, each task
  /// takes enough results that their elements lie together. Few indices are an exception: each goes
  /// by itself.
  index_t ElementCost() const {
    const index_t cost = std::min(extent, kMaxCost) * (1 + CostOf(e));
    if (along_row || target.FlatTo2D()[0] > 1) return cost;
    if (kIndex && target[N - 1] < kMinAvx2Row) return cost;
    return std::min(cost, ElementsPerTask() / (kIndex ? kIndexedColumns : kColumnBlock) - 1);
  }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    if (begin >= end) return;
    if constexpr (!kIndex) {
      if (along_row) {
        const index_t first = FirstRow(y, begin);
        if (piece < extent) {
          for (index_t i = 0; i < end - begin; ++i) {
            out[i] = static_cast<value_type>(ReduceLongRow<Red>(e, first + i, extent));
          }
        } else {
          ReduceEachRow<Red, finish::None>(e, first, end - begin, extent, out);
        }
      } else {
        const RowsToReduce rows{FirstRow(y, begin), inner_rows, extent};
        if (piece < extent) {
          ReduceRowsInPieces<Red>(e, rows, piece, begin, end, out);
        } else {
          ReduceRows<Red>(e, rows, begin, end, out);
        }
      }
    } else {
      if constexpr (HoldsSpans<E>()) {
        if (along_row) {
          IndicesOfRows(FirstRow(y, begin), end - begin, out);
        } else {
          IndicesOfColumns(FirstRow(y, begin), begin, end, out);
        }
      } else {
        index_t x = begin;
        if (!along_row && extent <= kMaxIndexedRows) {
          x = IndexColumns<Red>(e, FirstRow(y, begin), inner_rows, extent, begin, end, out);
        }
        for (; x < end; ++x) out[x - begin] = OneByOne(y, x);
      }
    }
  }

 private:
  /// The result of reducing elements one after another.
  struct Reduced {
    Accumulator result = Red::template InitialValue<Accumulator>();
    index_t index = 0;

    TESSERA_HD void Take(value_type element, index_t k) {
      const Accumulator combined = Red::OPType::Map(result, static_cast<Accumulator>(element));
      // A NaN, once it has won, differs from itself and must not move on.
      if (kIndex && combined != result && result == result) index = k;
      result = combined;
    }
    TESSERA_HD value_type Value() const {
      return kIndex ? static_cast<value_type>(index) : static_cast<value_type>(result);
    }
  };

  /// The elements in their order, in one sum.
  TESSERA_HD value_type OneByOne(index_t y, index_t x) const {
    const index_t row = FirstRow(y, x);
    Reduced reduced;
    for (index_t k = 0; k < extent; ++k) {
      reduced.Take(along_row ? e.Eval(row, k) : e.Eval(row + k * inner_rows, x), k);
    }
    return reduced.Value();
  }

  /// out[i] = the index in row first + i, of an operand that is computed in blocks.
  void IndicesOfRows(index_t first, index_t rows, value_type* out) const {
    value_type block[kIndexedColumns];
    for (index_t i = 0; i < rows; ++i) {
      Reduced reduced;
      for (index_t k = 0; k < extent; k += kIndexedColumns) {
        const index_t count = std::min(kIndexedColumns, extent - k);
        EvaluateSpans(e, first + i, k, count, block);
        for (index_t j = 0; j < count; ++j) reduced.Take(block[j], k + j);
      }
      out[i] = reduced.Value();
    }
  }
  /// out[i] = the index in column begin + i, for columns up to `end`, down rows that begin with
  /// `row`.
  void IndicesOfColumns(index_t row, index_t begin, index_t end, value_type* out) const {
    value_type block[kIndexedColumns];
    for (index_t x = begin; x < end; x += kIndexedColumns) {
      const index_t count = std::min(kIndexedColumns, end - x);
      Reduced reduced[kIndexedColumns];
      for (index_t k = 0; k < extent; ++k) {
        EvaluateSpans(e, row + k * inner_rows, x, count, block);
        for (index_t j = 0; j < count; ++j) reduced[j].Take(block[j], k);
      }
      for (index_t j = 0; j < count; ++j) *out++ = reduced[j].Value();
    }
  }

  /// The operand's first row among those that element (y, x) of the result is reduced from.
  TESSERA_HD index_t FirstRow(index_t y, index_t x) const {
    if (along_row) return y * target[N - 1] + x;
    const index_t outer = y / inner_rows;
    return outer * inner_rows * extent + (y - outer * inner_rows);
  }
};

/// Reduces dimension `axis`, which the result no longer has; with kIndex, the index of the first
/// element that is the maximum or minimum (of the first NaN, if there is one), as a number of e's
/// type, which holds indices exactly up to 2048 for half and 256 for bfloat16.
///
/// Red is red::sum, red::maximum, red::minimum, or a struct with Reduce and SetInitValue as in
/// mshadow, which must be associative and begin with a value that changes nothing: it combines the
/// results of parts too, which threads share where the results are few. The order of
/// operations depends on the shape alone. half and bfloat16 are reduced in float. Over no elements
/// the result is the reducer's initial value, the index 0. The operand's elements are computed once
/// for each result that needs them. Throws Error(kInvalidArgument) if e has no such dimension.
template <typename Red, bool kIndex, Operand E>
ReduceWithAxisExp<ReducerOf<Red>, kIndex, E::kRank - 1, OperandNode<E>> reduce_with_axis(const E& e,
                                                                                         int axis) {
  static_assert(E::kRank >= 2, "reduce_with_axis needs two dimensions; see also reduce_keepdim");
  return {AsNode(e), axis, "reduce_with_axis"};
}

/// Reduces dimension `axis` as reduce_with_axis does, and keeps the dimension with extent 1.
template <typename Red, bool kIndex, Operand E>
ReduceWithAxisExp<ReducerOf<Red>, kIndex, E::kRank, OperandNode<E>> reduce_keepdim(const E& e,
                                                                                   int axis) {
  return {AsNode(e), axis, "reduce_keepdim"};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::reduce_keepdim;
using expr::reduce_with_axis;

}  // namespace tessera

#endif  // TESSERA_TENSOR_REDUCE_REDUCE_AXIS_H_
