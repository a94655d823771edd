#ifndef TESSERA_TENSOR_EXPR_MERGE_DIMENSIONS_H_
#define TESSERA_TENSOR_EXPR_MERGE_DIMENSIONS_H_

#include <algorithm>
#include <limits>
#include <tuple>
#include <type_traits>

#include "tessera/base/shape.h"
#include "tessera/tensor/expr/expression.h"

/// Merging dimensions views an expression as one with fewer and longer rows. For example, `a *
/// broadcast<1>(v, a.shape_)` over images of 7 x 7 can take each image as one row, because its last
/// two dimensions can be merged.
///
/// The rank stays the same, so that the types do too and loops are compiled once. The merged
/// dimensions before the last one have extent 1.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns true if dimensions of nodes of type E may be merged. MergeableDimensions returns how
/// many.
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

/// Returns how many of the last dimensions may be merged into the last one; at least 1.
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

/// Returns `shape` with its last `count` dimensions merged into the last one.
template <int N>
Shape<N> MergeDimensions(Shape<N> shape, int count) {
  for (int i = N - count; i < N - 1; ++i) {
    shape[N - 1] *= shape[i];
    shape[i] = 1;
  }
  return shape;
}

/// Returns `e` with its last `count` dimensions merged into the last one. Requires: count <=
/// MergeableDimensions(e).
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

/// The number of elements from which a row is long enough. The cost of a row beside its elements is
/// then a few hundredths. A larger number of rows gives threads more to divide among themselves.
inline constexpr index_t kLongRow = 512;

/// True if a loop over E may have to merge dimensions. An E that moves no elements needs no
/// merging: it is flat if its tensors are contiguous, and otherwise nothing can be merged.
template <typename E>
concept MergesShortRows = (E::kRank > 1) && (E::kForm == form::kMoved) && (MergesDimensions<E>());

/// Returns how many of its last dimensions a loop over `e` should merge, at most `most`. `shape` is
/// the shape of `e`. Returns 1 if the rows are long or cannot become longer.
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

/// Returns `e` with short rows merged for a reduction. At most `most` of its last dimensions are
/// merged.
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
