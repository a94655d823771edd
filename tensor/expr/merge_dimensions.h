#ifndef TESSERA_TENSOR_EXPR_MERGE_DIMENSIONS_H_
#define TESSERA_TENSOR_EXPR_MERGE_DIMENSIONS_H_

#include <algorithm>
#include <limits>
#include <tuple>
#include <type_traits>

#include "tessera/base/shape.h"
#include "tessera/tensor/expr/expression.h"

/// Expressions over fewer and longer rows: of `a * broadcast<1>(v, a.shape_)` over images of 7 x 7
/// a row is all of an image, as the last two dimensions can be seen as one.
///
/// The rank stays, so that types do, and loops are compiled once: the merged dimensions before the
/// last have extent 1.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Whether nodes of type E may be seen over merged dimensions; which ones, MergeableDimensions
/// says.
template <typename E>
constexpr bool MergesDimensions() {
  if constexpr (requires { E::kMergesOperands; }) {
    return []<typename... Operand>(std::type_identity<std::tuple<Operand...>>) {
      return (MergesDimensions<Operand>() && ...);
    }(std::type_identity<OperandTupleOf<E>>());
  } else {
    return kIsTensor<E> || requires(const E& e) { e.MergeDimensions(2); };
  }
}

/// How many of the last dimensions may be merged into the last one; at least one.
template <typename E>
int MergeableDimensions(const E& e) {
  if constexpr (kIsTensor<E>) {
    return e.CheckContiguous() ? E::kRank : 1;
  } else if constexpr (requires { E::kMergesOperands; }) {
    constexpr int kAll = std::numeric_limits<int>::max();  // a number fits every shape
    return VisitOperands(e, [](const auto&... operand) {
      return std::min({kAll, MergeableDimensions(operand)...});
    });
  } else {
    return e.MergeableDimensions();
  }
}

/// A shape whose last `count` dimensions are merged into the last one.
template <int N>
Shape<N> MergeDimensions(Shape<N> shape, int count) {
  for (int i = N - count; i < N - 1; ++i) {
    shape[N - 1] *= shape[i];
    shape[i] = 1;
  }
  return shape;
}

/// An expression over such a shape; `count` is at most MergeableDimensions(e).
template <typename E>
E MergeDimensions(const E& e, int count) {
  if constexpr (kIsTensor<E>) {
    E merged = e;
    merged.shape_ = MergeDimensions(e.shape_, count);
    merged.stride_ = merged.shape_[E::kRank - 1];
    return merged;
  } else if constexpr (requires { e.MergeDimensions(count); }) {
    return e.MergeDimensions(count);
  } else if constexpr (std::is_same_v<OperandTupleOf<E>, std::tuple<>>) {
    return e;
  } else {
    return VisitOperands(e, [&e, count](const auto&... operand) {
      return e.WithOperands(MergeDimensions(operand, count)...);
    });
  }
}

/// Elements from which a row is long enough: what a row takes beside its elements is then a few
/// hundredths, and more rows are more that threads can divide.
inline constexpr index_t kLongRow = 512;

/// Whether a loop over E may have to merge dimensions. If E moves no elements it is flat where its
/// tensors are contiguous, and if they are not there is nothing to merge.
template <typename E>
concept MergesShortRows = (E::kRank > 1) && (E::kForm == form::kMoved) && (MergesDimensions<E>());

/// How many of its last dimensions a loop over `e`, of this shape, should merge, at most `most`; 1
/// where its rows are long or cannot become longer.
template <int N, typename E>
requires MergesShortRows<E>
int DimensionsToMerge(const Shape<N>& shape, const E& e, int most) {
  index_t columns = shape[N - 1];
  if (columns >= kLongRow) return 1;
  const int mergeable = std::min(most, MergeableDimensions(e));
  int count = 1;
  while (count < mergeable && columns < kLongRow) columns *= shape[N - ++count];
  return columns > shape[N - 1] ? count : 1;
}

/// `e` as a reduction should go over it, at most `most` of its last dimensions merged.
template <typename E>
decltype(auto) MergeShortRows(const E& e, [[maybe_unused]] int most) {
  if constexpr (MergesShortRows<E>) {
    const int count = DimensionsToMerge(e.shape(), e, most);
    return count > 1 ? E(MergeDimensions(e, count)) : e;
  } else {
    return (e);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EXPR_MERGE_DIMENSIONS_H_
