#ifndef TESSERA_TENSOR_SHAPE_CONCAT_H_
#define TESSERA_TENSOR_SHAPE_CONCAT_H_

#include <algorithm>
#include <tuple>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/shape/row_map.h"
#include "tessera/tensor/shape/slice.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of the function concat.
template <int kAxis, typename A, typename B>
struct ConcatExp : Exp<ConcatExp<kAxis, A, B>, typename A::value_type>,
                   ReferenceExp<ConcatExp<kAxis, A, B>> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kAlongRow = kAxis == kRank - 1;
  static constexpr bool kHasPacket = !kAlongRow && A::kHasPacket && B::kHasPacket;
  static constexpr bool kMovesElements = true;
  static constexpr bool kIsReference = Referenceable<A> && Referenceable<B>;

  A a;
  B b;
  Shape<kRank> target;
  index_t extent_a;  // of a along the axis
  index_t rows_a;    // rows that one step of the axes before kAxis takes from a, and from b
  index_t rows_b;

  ConcatExp(const A& first, const B& second) : a(first), b(second), target(first.shape()) {
    const Shape<kRank> shape_b = second.shape();
    extent_a = target[kAxis];
    const index_t inner = kAlongRow ? 1 : target.ProdShape(kAxis + 1, kRank - 1);
    rows_a = extent_a * inner;
    rows_b = shape_b[kAxis] * inner;
    target[kAxis] = shape_b[kAxis];
    if (target != shape_b) {
      throw InvalidArgument("concat<", kAxis, ">: the shapes ", first.shape(), " and ", shape_b,
                            " differ in another dimension than ", kAxis);
    }
    target[kAxis] = (CheckedSize(extent_a) + target[kAxis])
                        .ValueOrThrow("concat: the extent of the result along the axis");
    tensor_internal::CountableShape(target, "concat");
  }
  ConcatExp(const ConcatExp&) = default;
  ConcatExp& operator=(const ConcatExp&) & = delete;  // see ReferenceExp
  using ReferenceExp<ConcatExp>::operator=;

  auto operands() const { return std::tuple<A, B>(a, b); }
  template <typename C, typename D>
  ConcatExp<kAxis, C, D> WithOperands(const C& first, const D& second) const {
    return {first, second};
  }

  const Shape<kRank>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    if constexpr (kAlongRow) {
      return x < extent_a ? a.Eval(y, x) : b.Eval(y, x - extent_a);
    } else {
      const Row row(*this, y);
      return row.in_a ? a.Eval(row.y, x) : b.Eval(row.y, x);
    }
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    const Row row(*this, y);
    return row.in_a ? a.template EvalPacket<P>(row.y, x) : b.template EvalPacket<P>(row.y, x);
  }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    if (begin >= end) return;
    if constexpr (kAlongRow) {
      const index_t split = std::clamp(extent_a, begin, end);
      if (begin < split) EvalSpan(a, y, begin, split, out);
      if (split < end) EvalSpan(b, y, split - extent_a, end - extent_a, out + (split - begin));
    } else {
      const Row row(*this, y);
      if (row.in_a) {
        EvalSpan(a, row.y, begin, end, out);
      } else {
        EvalSpan(b, row.y, begin, end, out);
      }
    }
  }

  /// Writes several rows at once if rows are contiguous, in the result and in the operands. The
  /// rows of an operand up to the next change of operand are then copied as one. A row of a small
  /// image takes less time than the overhead of its copy.
  bool EvalRows(index_t begin, index_t end, value_type* data, index_t stride) const
      requires(!kAlongRow) {
    const index_t columns = target[kRank - 1];
    if (stride != columns || !a.IsFlat() || !b.IsFlat()) return false;
    for (index_t y = begin; y < end;) {
      const Row row(*this, y);
      const index_t count = std::min(row.left, end - y);
      const index_t first = row.y * columns, last = (row.y + count) * columns;
      if (row.in_a) {
        EvalSpan(a, 0, first, last, data + y * columns);
      } else {
        EvalSpan(b, 0, first, last, data + y * columns);
      }
      y += count;
    }
    return true;
  }

  // The members of a destination; see reference.h.
  TESSERA_HD value_type* Address(index_t y, index_t x) const requires kIsReference {
    if constexpr (kAlongRow) {
      return x < extent_a ? AddressIn(a, y, x) : AddressIn(b, y, x - extent_a);
    } else {
      const Row row(*this, y);
      return row.in_a ? AddressIn(a, row.y, x) : AddressIn(b, row.y, x);
    }
  }
  value_type* RowAddress(index_t y) const requires kIsReference {
    if constexpr (kAlongRow) {
      return nullptr;
    } else {
      const Row row(*this, y);
      return row.in_a ? RowAddressIn(a, row.y) : RowAddressIn(b, row.y);
    }
  }
  /// Writes each operand by a loop of its own, which needs no decision for each row or element.
  template <typename Saver, typename E>
  void EvaluateParts(const E& e) const requires kIsReference {
    if constexpr (E::kRank == 0) {
      EvaluateInto<Saver>(a, e);
      EvaluateInto<Saver>(b, e);
    } else {
      EvaluateInto<Saver>(a, slice<kAxis>(e, 0, extent_a));
      EvaluateInto<Saver>(b, slice<kAxis>(e, extent_a, target[kAxis]));
    }
  }

 private:
  /// The row of a or of b that is a given row of the result.
  struct Row {
    bool in_a;
    index_t y;
    index_t left;  // rows from here to the next one of the other operand

    TESSERA_HD Row(const ConcatExp& concat, index_t at) {
      const index_t rows = concat.rows_a + concat.rows_b;
      const index_t outer = kAxis == 0 ? 0 : at / rows;
      const index_t row = at - outer * rows;
      in_a = row < concat.rows_a;
      y = in_a ? outer * concat.rows_a + row : outer * concat.rows_b + row - concat.rows_a;
      left = (in_a ? concat.rows_a : rows) - row;
    }
  };
};

/// Concatenates a and b along dimension kAxis. Over tensors, slices and the like the result may
/// also be assigned to: `concat<1>(a, b) = e` gives a and b their parts of e. Throws
/// Error(kInvalidArgument) unless the other dimensions are equal.
template <int kAxis, Operand A, Operand B>
requires MatchingExpressions<A, B> ConcatExp<kAxis, OperandNode<A>, OperandNode<B>> concat(
    const A& a, const B& b) {
  static_assert(0 <= kAxis && kAxis < A::kRank && A::kRank == B::kRank,
                "concat<axis>: two expressions of one rank that have the axis");
  return {AsNode(a), AsNode(b)};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::concat;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_CONCAT_H_
