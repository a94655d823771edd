#ifndef TESSERA_TENSOR_EXPR_OVERLAP_H_
#define TESSERA_TENSOR_EXPR_OVERLAP_H_

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

#include "tessera/tensor/expr/expression.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// Where the elements of a tensor or of a view lie: `rows` rows of `columns` elements. Strides are
/// positive; a view that runs backwards along an axis says so and begins at its lowest address.
struct MemoryPlace {
  uintptr_t begin = 0;              ///< the first byte of the lowest element
  index_t rows = 0;                 ///< how many rows
  index_t columns = 0;              ///< elements of each
  index_t element_bytes = 0;        ///< bytes of each
  index_t row_stride_bytes = 0;     ///< bytes from one row to the next
  index_t column_stride_bytes = 0;  ///< bytes from one element of a row to the next
  bool rows_backwards = false;      ///< whether row 0 is the highest in memory
  bool columns_backwards = false;   ///< whether column 0 is

  /// True if it holds no byte.
  bool empty() const { return rows == 0 || columns == 0; }
  /// The byte after a row's last element, counted from the row's first.
  index_t RowBytes() const { return (columns - 1) * column_stride_bytes + element_bytes; }
  /// The address after the last byte; of a place that is not empty.
  uintptr_t end() const {
    return begin + static_cast<uintptr_t>((rows - 1) * row_stride_bytes + RowBytes());
  }

  /// True if equal indices name equal memory; both are supposed to have the same extents.
  bool SameLayout(const MemoryPlace& other) const {
    return begin == other.begin && element_bytes == other.element_bytes &&
           (rows <= 1 || (row_stride_bytes == other.row_stride_bytes &&
                          rows_backwards == other.rows_backwards)) &&
           (columns <= 1 || (column_stride_bytes == other.column_stride_bytes &&
                             columns_backwards == other.columns_backwards));
  }

  /// False if the two share no byte. May be true where two views interleave without touching, but
  /// blocks of columns of one matrix are told apart, and vectors that take turns in memory.
  bool Overlaps(const MemoryPlace& other) const {
    if (empty() || other.empty() || begin >= other.end() || other.begin >= end()) return false;
    const bool by_rows = rows > 1 || other.rows > 1;
    const Runs mine = RunsOf(by_rows), others = other.RunsOf(by_rows);
    const index_t stride = mine.count > 1 ? mine.stride : others.stride;
    if (mine.count > 1 && others.count > 1 && mine.stride != others.stride) return true;
    if (stride <= 0 || mine.bytes > stride || others.bytes > stride) return true;
    // Where a run of `other` begins within a run of this, the runs thought of as going on forever.
    const auto distance = static_cast<index_t>(other.begin - begin);
    const index_t offset = (distance % stride + stride) % stride;
    return offset < mine.bytes || offset + others.bytes > stride;
  }

 private:
  /// `count` runs of `bytes` that begin `stride` bytes apart.
  struct Runs {
    index_t count, stride, bytes;
  };
  /// Rows, or the elements of the only row.
  Runs RunsOf(bool by_rows) const {
    if (by_rows) return {rows, row_stride_bytes, RowBytes()};
    return {columns, column_stride_bytes, element_bytes};
  }
};

}  // namespace TESSERA_ISA_NAMESPACE

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The place of a tensor's elements, the padding between rows not counted in.
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

/// The number of a destination for RefuseMissingMemory, and a number before that of all tensors
/// whose memory may be missing.
inline constexpr int kDestination = 0;
inline constexpr int kNoneIsRefused = std::numeric_limits<int>::min();

/// Throws Error(kInvalidArgument) for a tensor of this shape without memory, unless it is empty:
/// `number` says which of an expression's it is, from the left.
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

/// Throws Error(kInvalidArgument) if a tensor or view that is not empty has no memory.
template <typename E>
void RequireMemoryOf(const E& tensor, int number) {
  if (tensor.dptr_ == nullptr) [[unlikely]]
    RefuseMissingMemory(number, tensor.shape_);
}

/// RequireMemory of a part of an expression, after `tensors` others.
template <typename E>
void CountMemory(const E& e, int& tensors) {
  if constexpr (requires { PlaceOf(e); }) {
    RequireMemoryOf(e, ++tensors);
  } else {
    VisitOperands(e, [&](const auto&... operand) { (CountMemory(operand, tensors), ...); });
  }
}

/// Throws Error(kInvalidArgument) if a tensor or view that is read, before the loop or in it, has
/// no memory.
template <typename... E>
void RequireMemory(const E&... e) {
  int tensors = 0;
  (CountMemory(e, tensors), ...);
}

/// What a walk through an expression goes by.
struct OverlapSearch {
  const MemoryPlace& dst;  ///< what is written
  int tensors = 0;         ///< how many tensors and views have been met, or kNoneIsRefused
};

/// ReadsElsewhere of a part of an expression.
template <bool kMoved, typename E>
bool FindsElsewhere(const E& e, OverlapSearch& search) {
  if constexpr (requires { PlaceOf(e); }) {
    RequireMemoryOf(e, ++search.tensors);
    const MemoryPlace place = PlaceOf(e);
    if (!kMoved && place.SameLayout(search.dst)) return false;
    return place.Overlaps(search.dst);
  } else if constexpr (requires { e.Reads(search.dst); }) {
    return e.Reads(search.dst);
  } else if constexpr (requires { requires E::kComputedFirst; }) {
    return false;
  } else {
    // All of them, so that none without memory is missed.
    return VisitOperands(e, [&](const auto&... operand) {
      bool found = false;
      ((found = FindsElsewhere < kMoved || MovesElements<E>() > (operand, search) || found), ...);
      return found;
    });
  }
}

/// The same of the nodes that most expressions are made of. Written out, since a visitor has three
/// functions more to compile for each node, and so in BlockAhead: together a twelfth of what a long
/// expression takes.
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

/// True if `e`, evaluated element by element into the place `dst`, could read an element after it
/// was written: memory is shared, and not at the same indices. kMoved says whether a node above
/// `e` reads it at other indices than it is asked for. What is computed before the loop reads
/// nothing later. Throws Error(kInvalidArgument) if what the loop reads has no memory.
template <bool kMoved = false, typename E>
bool ReadsElsewhere(const E& e, const MemoryPlace& dst) {
  OverlapSearch search{dst};
  return FindsElsewhere<kMoved>(e, search);
}

/// True if `e` reads any byte of `place`, before the loop or in it; also of a product or reduction
/// that does not name its operands.
template <typename E>
bool ReadsAnywhere(const E& e, const MemoryPlace& place) {
  if constexpr (requires { PlaceOf(e); }) {
    return PlaceOf(e).Overlaps(place);
  } else if constexpr (requires { e.Reads(place); }) {
    return e.Reads(place);
  } else if constexpr (
      requires { requires E::kComputedFirst; } && !requires { e.operands(); }) {
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
