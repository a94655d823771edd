#ifndef TESSERA_TENSOR_EXPR_OVERLAP_H_
#define TESSERA_TENSOR_EXPR_OVERLAP_H_

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

#include "tessera/tensor/expr/expression.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// The memory of the elements of a tensor or a view: `rows` rows of `columns` elements. Strides are
/// positive. A view that runs backwards along an axis sets that axis's flag and begins at its
/// lowest address.
struct MemoryPlace {
  uintptr_t begin = 0;              ///< the first byte of the lowest element
  index_t rows = 0;                 ///< number of rows
  index_t columns = 0;              ///< elements of each row
  index_t element_bytes = 0;        ///< bytes of each element
  index_t row_stride_bytes = 0;     ///< bytes from one row to the next
  index_t column_stride_bytes = 0;  ///< bytes from one element of a row to the next
  bool rows_backwards = false;      ///< row 0 has the highest address
  bool columns_backwards = false;   ///< column 0 has the highest address

  /// Returns true if the place holds no byte.
  bool empty() const { return rows == 0 || columns == 0; }
  /// Returns the number of bytes from a row's first byte to the end of its last element.
  index_t RowBytes() const { return (columns - 1) * column_stride_bytes + element_bytes; }
  /// Returns the address after the last byte. Requires: the place is not empty.
  uintptr_t end() const {
    return begin + static_cast<uintptr_t>((rows - 1) * row_stride_bytes + RowBytes());
  }

  /// Returns true if equal indices name equal memory in both places. Requires: both have the same
  /// extents.
  bool SameLayout(const MemoryPlace& other) const {
    return begin == other.begin && element_bytes == other.element_bytes &&
           (rows <= 1 || (row_stride_bytes == other.row_stride_bytes &&
                          rows_backwards == other.rows_backwards)) &&
           (columns <= 1 || (column_stride_bytes == other.column_stride_bytes &&
                             columns_backwards == other.columns_backwards));
  }

  /// Returns false if the two places share no byte. The result may be true for two views that
  /// interleave without touching. Blocks of columns of one matrix, and vectors that alternate in
  /// memory, are told apart.
  bool Overlaps(const MemoryPlace& other) const {
    if (empty() || other.empty() || begin >= other.end() || other.begin >= end()) return false;
    const bool by_rows = rows > 1 || other.rows > 1;
    const Runs mine = RunsOf(by_rows), others = other.RunsOf(by_rows);
    const index_t stride = mine.count > 1 ? mine.stride : others.stride;
    if (mine.count > 1 && others.count > 1 && mine.stride != others.stride) return true;
    if (stride <= 0 || mine.bytes > stride || others.bytes > stride) return true;
    // A run of `other` begins `offset` bytes within a run of this place, if the runs are continued
    // without end.
    const auto distance = static_cast<index_t>(other.begin - begin);
    const index_t offset = (distance % stride + stride) % stride;
    return offset < mine.bytes || offset + others.bytes > stride;
  }

 private:
  /// A sequence of `count` runs of `bytes` bytes that begin `stride` bytes apart.
  struct Runs {
    index_t count, stride, bytes;
  };
  /// Returns the rows as runs, or the elements of the only row.
  Runs RunsOf(bool by_rows) const {
    if (by_rows) return {rows, row_stride_bytes, RowBytes()};
    return {columns, column_stride_bytes, element_bytes};
  }
};

}  // namespace TESSERA_ISA_NAMESPACE

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns the memory of a tensor's elements, without the padding between rows.
template <typename Device, int N, typename T>
MemoryPlace PlaceOf(const Tensor<Device, N, T>& tensor) {
  constexpr index_t kElementBytes = sizeof(T);
  const Shape<2> shape = tensor.shape_.FlatTo2D();
  return {.begin = reinterpret_cast<uintptr_t>(tensor.dptr_),
          .rows = shape[0],
          .columns = shape[1],
          .element_bytes = kElementBytes,
          .row_stride_bytes = tensor.stride_ * kElementBytes,
          .column_stride_bytes = kElementBytes};
}

/// kDestination is the number of a destination for RefuseMissingMemory. kNoneIsRefused is a start
/// for the numbers of tensors that may have no memory: all numbers stay negative.
inline constexpr int kDestination = 0;
inline constexpr int kNoneIsRefused = std::numeric_limits<int>::min();

/// Throws Error(kInvalidArgument) for a tensor of this shape without memory, unless it is empty or
/// `number` is negative. `number` is kDestination or the tensor's position in the expression,
/// counted from 1 at the left.
template <int N>
[[gnu::cold, gnu::noinline]] void RefuseMissingMemory(int number, Shape<N> shape) {
  if (number < 0) return;
  for (int i = 0; i < N; ++i) {
    if (shape[i] == 0) return;
  }
  const std::string which = number == kDestination
                                ? "the destination"
                                : "tensor " + std::to_string(number) + " of the expression";
  throw InvalidArgument("evaluation: ", which, ", of shape ", shape,
                        ", has no memory; its dptr_ is null");
}

/// Throws Error(kInvalidArgument) if a tensor or view has elements but no memory. The message names
/// it by `number`; see RefuseMissingMemory.
template <typename E>
void RequireMemoryOf(const E& tensor, int number) {
  if (tensor.dptr_ == nullptr) [[unlikely]]
    RefuseMissingMemory(number, tensor.shape_);
}

/// Calls RequireMemoryOf for each tensor and view of a part of an expression. `tensors` counts them
/// from the left.
template <typename E>
void CountMemory(const E& e, int& tensors) {
  if constexpr (requires { PlaceOf(e); }) {
    RequireMemoryOf(e, ++tensors);
  } else {
    VisitOperands(e, [&](const auto&... operand) { (CountMemory(operand, tensors), ...); });
  }
}

/// Throws Error(kInvalidArgument) if a tensor or view that is read, before the loop or in it, has
/// elements but no memory.
template <typename... E>
void RequireMemory(const E&... e) {
  int tensors = 0;
  (CountMemory(e, tensors), ...);
}

/// The state of a walk through an expression by FindsElsewhere.
struct OverlapSearch {
  const MemoryPlace& dst;  ///< the memory that is written
  int tensors = 0;         ///< tensors and views met so far, from 0 or kNoneIsRefused on
};

/// Implements ReadsElsewhere for a part of an expression. kMoved is true if a node above `e` reads
/// it at other indices than its own.
template <bool kMoved, typename E>
bool FindsElsewhere(const E& e, OverlapSearch& search) {
  if constexpr (requires { PlaceOf(e); }) {
    RequireMemoryOf(e, ++search.tensors);
    const MemoryPlace place = PlaceOf(e);
    if (!kMoved && place.SameLayout(search.dst)) return false;
    return place.Overlaps(search.dst);
  } else if constexpr (requires { e.Reads(search.dst); }) {
    return e.Reads(search.dst);
  } else if constexpr (requires { requires E::kIsMaterialized; }) {
    return false;
  } else {
    // Visits all operands, so that none without memory is missed.
    return VisitOperands(e, [&](const auto&... operand) {
      bool found = false;
      ((found = FindsElsewhere < kMoved || MovesElements<E>() > (operand, search) || found), ...);
      return found;
    });
  }
}

/// Overloads of FindsElsewhere for the nodes that most expressions are made of. They are written
/// out because a visitor adds three functions to compile for each node. Such overloads here and in
/// BlockPrefetch together save a twelfth of the time to compile a long expression.
template <bool kMoved, typename Op, typename A, typename B>
bool FindsElsewhere(const BinaryMapExp<Op, A, B>& e, OverlapSearch& search);
template <bool kMoved, typename Op, typename A>
bool FindsElsewhere(const UnaryMapExp<Op, A>& e, OverlapSearch& search) {
  return FindsElsewhere<kMoved>(e.a, search);
}
template <bool kMoved, typename Op, typename A, typename B>
bool FindsElsewhere(const BinaryMapExp<Op, A, B>& e, OverlapSearch& search) {
  const bool found = FindsElsewhere<kMoved>(e.a, search);
  return FindsElsewhere<kMoved>(e.b, search) || found;
}

/// Returns true if `e`, evaluated element by element into the place `dst`, could read an element
/// after it was written: memory is shared, and not at the same indices. kMoved is true if a node
/// above `e` reads it at other indices than its own. Operands that are materialized before the loop
/// read nothing later. Throws Error(kInvalidArgument) if a tensor that the loop reads has elements
/// but no memory.
template <bool kMoved = false, typename E>
bool ReadsElsewhere(const E& e, const MemoryPlace& dst) {
  OverlapSearch search{dst};
  return FindsElsewhere<kMoved>(e, search);
}

/// Returns true if `e` reads any byte of `place`, before the loop or in it. The result is also true
/// for a product or reduction that does not name its operands.
template <typename E>
bool ReadsAnywhere(const E& e, const MemoryPlace& place) {
  if constexpr (requires { PlaceOf(e); }) {
    return PlaceOf(e).Overlaps(place);
  } else if constexpr (requires { e.Reads(place); }) {
    return e.Reads(place);
  } else if constexpr (
      requires { requires E::kIsMaterialized; } && !requires { e.operands(); }) {
    return true;
  } else {
    return VisitOperands(
        e, [&](const auto&... operand) { return (ReadsAnywhere(operand, place) || ...); });
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr
}  // namespace tessera

#endif  // TESSERA_TENSOR_EXPR_OVERLAP_H_
