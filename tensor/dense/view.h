#ifndef TESSERA_TENSOR_DENSE_VIEW_H_
#define TESSERA_TENSOR_DENSE_VIEW_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/view_cuda.h"

/// Views of rows, columns and blocks, with steps, on either side of an assignment:
///
///     View(m, 2, kAll) = v;                                // row 2
///     View(m, kAll, 0) += View(m, kAll, 3);                // column 0, by column 3
///     View(m, Range(0, 4), Range(1, 9, 2)) = 0;            // every other column of a block
///     View(v, Range(n - 1, -1, -1)) = v;                   // backwards
namespace tessera {

/// The indices begin, begin + step, and so on: below `end` if step is positive, above it if step is
/// negative.
struct Range {
  index_t begin;  ///< the first index
  index_t end;    ///< the first index that is excluded
  index_t step;   ///< from one index to the next; may be negative

  constexpr Range(index_t first, index_t past, index_t stride = 1)
      : begin(first), end(past), step(stride) {}
  /// Returns the number of indices. It is 0 if step leads away from end, or is 0.
  constexpr index_t count() const {
    if (step == 0 || (step > 0 ? end <= begin : end >= begin)) return 0;
    const auto from = static_cast<uint64_t>(begin), to = static_cast<uint64_t>(end);
    const uint64_t after_first = ((step > 0 ? to - from : from - to) - 1) / stride();
    constexpr uint64_t kMost = std::numeric_limits<index_t>::max();
    return static_cast<index_t>(std::min(after_first, kMost - 1)) + 1;
  }
  /// Returns the distance from one index to the next. It is unsigned because the distance of the
  /// least step exceeds index_t.
  constexpr uint64_t stride() const {
    return step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
  }
};

/// Every index of a dimension.
struct All {};
inline constexpr All kAll;

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of a View's elements. Its rank N is 1 (the 2-D shape then has one row) or 2.
template <typename Device, int N, typename T>
struct ViewExp : Exp<ViewExp<Device, N, T>, T, form::kStored> {
  static_assert(N == 1 || N == 2, "a view has one or two dimensions");
  using value_type = T;
  using device_type = Device;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = kHasPacketsInSteps<T>;
  static constexpr bool kMovesElements = false;

  T* dptr_;  // the element at index 0 of every dimension
  Shape<N> shape_;
  index_t row_step_;     // elements from one row to the next; may be negative
  index_t column_step_;  // elements from one column to the next; may be negative
  Stream<Device>* stream_;

  ViewExp(T* dptr, const Shape<N>& shape, index_t row_step, index_t column_step,
          Stream<Device>* stream)
      : dptr_(dptr),
        shape_(shape),
        row_step_(row_step),
        column_step_(column_step),
        stream_(stream) {}
  const Shape<N>& shape() const { return shape_; }
  TESSERA_HD T Eval(index_t y, index_t x) const { return dptr_[y * row_step_ + x * column_step_]; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return PacketInSteps<P>(dptr_ + y * row_step_ + x * column_step_, column_step_);
  }
  bool IsFlat() const { return N == 1 || shape_[0] == 1; }
};

/// Returns the memory extent of a view, from the lowest address of an element to the highest.
template <typename Device, int N, typename T>
MemoryPlace PlaceOf(const ViewExp<Device, N, T>& view) {
  constexpr index_t kElementBytes = sizeof(T);
  const Shape<2> shape = view.shape_.FlatTo2D();
  const T* lowest = view.dptr_;
  if (shape.Size() > 0) {
    lowest += std::min<index_t>(0, (shape[0] - 1) * view.row_step_) +
              std::min<index_t>(0, (shape[1] - 1) * view.column_step_);
  }
  return {.begin = reinterpret_cast<uintptr_t>(lowest),
          .rows = shape[0],
          .columns = shape[1],
          .element_bytes = kElementBytes,
          .row_stride_bytes = std::abs(view.row_step_) * kElementBytes,
          .column_stride_bytes = std::abs(view.column_step_) * kElementBytes,
          .rows_backwards = view.row_step_ < 0,
          .columns_backwards = view.column_step_ < 0};
}

/// Overloads for views of functions that evaluator_cpu.h has for tensors. Elements that are not
/// adjacent are stored one by one.
template <typename Saver, int N, typename T, typename E>
RowLoop RowLoopInto(const ViewExp<cpu, N, T>& dst, const E& /*e*/) {
  return dst.column_step_ == 1 ? RowLoopOf<Saver, T, E>() : RowLoop::kElements;
}
template <typename Saver, int N, typename T, typename E>
void EvaluateRowInto(const ViewExp<cpu, N, T>& dst, const E& e, index_t y, index_t begin,
                     index_t end) {
  T* const row = dst.dptr_ + y * dst.row_step_;
  if (dst.column_step_ == 1) {
    EvaluateRow<Saver>(row, e, y, begin, end);
    return;
  }
  const E local = e;
  const index_t step = dst.column_step_;
  for (index_t x = begin; x < end; ++x) SaveElement<Saver>(row + x * step, local.Eval(y, x));
}
template <int N, typename T, typename E>
LoopPlan PlanLoop(const ViewExp<cpu, N, T>& dst, const E& e) {
  const Shape<2> shape = dst.shape_.FlatTo2D();
  return {shape[0], shape[1], /*cuts_row=*/shape[0] == 1, CostOf(e)};
}

/// Returns kCached: a view's elements are stored through the cache.
template <typename Saver, int N, typename T, typename E>
Stores StoresInto(const ViewExp<cpu, N, T>& /*dst*/, const E& /*e*/, const LoopPlan& /*plan*/) {
  return Stores::kCached;
}

/// Evaluates an expression into a view. Requires: equal shapes.
template <typename Saver, int N, typename T, typename E>
void Evaluate(const ViewExp<cpu, N, T>& dst, const E& e) {
  const LoopPlan plan = PlanLoop(dst, e);
  const index_t step = plan.cuts_row ? dst.column_step_ : dst.row_step_;
  ParallelForLines(plan.count(), plan.grain(), dst.dptr_, step * static_cast<index_t>(sizeof(T)),
                   [&](index_t begin, index_t end) {
                     if (plan.cuts_row) {
                       EvaluateRowInto<Saver>(dst, e, 0, begin, end);
                     } else {
                       for (index_t y = begin; y < end; ++y)
                         EvaluateRowInto<Saver>(dst, e, y, 0, plan.columns);
                     }
                   });
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

inline namespace TESSERA_ISA_NAMESPACE {

/// Rows, columns or a block of a tensor, named by View(…). Assigning an expression evaluates it
/// into those elements. If the expression reads elements that are written too early, it goes
/// through a temporary. A view is an operand of expressions like a tensor. It is a handle, as a
/// Tensor is.
template <typename Device, int N, typename T>
class TensorView : public expr::ViewExp<Device, N, T> {
 public:
  using Base = expr::ViewExp<Device, N, T>;  ///< the node that a view is
  using Base::Base;

  TensorView(const TensorView&) = default;
  /// Copies elements, as every other assignment to a view does.
  const TensorView& operator=(const TensorView& other) const {
    expr::Assign<sv::saveto>(*this, static_cast<const Base&>(other));
    return *this;
  }

  /// Evaluate an expression, a product, a reduction or a number into the elements, as a Tensor's
  /// assignments do.
  template <expr::AssignableTo<Base> E>
  const TensorView& operator=(const E& e) const {
    expr::Assign<sv::saveto>(*this, e);
    return *this;
  }
  template <expr::AssignableTo<Base> E>
  const TensorView& operator+=(const E& e) const {
    expr::Assign<sv::plusto>(*this, e);
    return *this;
  }
  template <expr::AssignableTo<Base> E>
  const TensorView& operator-=(const E& e) const {
    expr::Assign<sv::minusto>(*this, e);
    return *this;
  }
  template <expr::AssignableTo<Base> E>
  const TensorView& operator*=(const E& e) const {
    expr::Assign<sv::multo>(*this, e);
    return *this;
  }
  template <expr::AssignableTo<Base> E>
  const TensorView& operator/=(const E& e) const {
    expr::Assign<sv::divto>(*this, e);
    return *this;
  }

  template <typename E>
  requires expr::MismatchedWith<E, Base> expr::MismatchOf<E, Base>
  operator=(const E& e) const = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Base> expr::MismatchOf<E, Base>
  operator+=(const E& e) const = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Base> expr::MismatchOf<E, Base>
  operator-=(const E& e) const = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Base> expr::MismatchOf<E, Base>
  operator*=(const E& e) const = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Base> expr::MismatchOf<E, Base>
  operator/=(const E& e) const = delete;
};

}  // namespace TESSERA_ISA_NAMESPACE

namespace tensor_internal {

/// Returns the indices that a range selects from one dimension of `shape`. Throws
/// Error(kInvalidArgument) if the step is 0 or if an index is outside the dimension.
template <int N>
Range CheckedRange(const Range& range, int dimension, const Shape<N>& shape) {
  const index_t count = range.count();
  const index_t extent = shape[dimension];
  const auto last_is_inside = [&] {
    const index_t room = range.step > 0 ? extent - 1 - range.begin : range.begin;
    return static_cast<uint64_t>(count - 1) <= static_cast<uint64_t>(room) / range.stride();
  };
  const bool inside = count == 0 || (0 <= range.begin && range.begin < extent && last_is_inside());
  if (range.step == 0 || !inside) {
    throw InvalidArgument("View: the range from ", range.begin, " to ", range.end, " in steps of ",
                          range.step, " does not fit dimension ", dimension, " of shape ", shape,
                          range.step == 0 ? "; a step cannot be 0" : "");
  }
  // An empty range ignores its begin, which may be outside. A range of one index ignores its step,
  // whose product with a stride could overflow.
  if (count == 0) return {0, 0};
  return count == 1 ? Range(range.begin, range.begin + 1) : range;
}
template <int N>
Range CheckedRange(All, int dimension, const Shape<N>& shape) {
  return Range(0, shape[dimension]);
}
template <int N>
index_t CheckedIndex(index_t index, int dimension, const Shape<N>& shape) {
  if (index < 0 || index >= shape[dimension]) {
    throw InvalidArgument("View: index ", index, " does not lie in dimension ", dimension,
                          " of shape ", shape);
  }
  return index;
}

/// A type that selects several indices of a dimension.
template <typename R>
concept Selection = std::same_as<R, Range> || std::same_as<R, All>;

}  // namespace tensor_internal

inline namespace TESSERA_ISA_NAMESPACE {

/// Returns a view of selected elements of a vector. Throws Error(kInvalidArgument) if an index is
/// outside the vector or a step is 0.
template <typename Device, typename T, tensor_internal::Selection R>
TensorView<Device, 1, T> View(const Tensor<Device, 1, T>& v, R elements) {
  const Range r = tensor_internal::CheckedRange(elements, 0, v.shape_);
  return {v.dptr_ + r.begin, Shape1(r.count()), 0, r.step, v.stream_};
}

/// Returns a view of a block of a matrix: the selected rows and columns. Throws
/// Error(kInvalidArgument) if an index is outside the matrix or a step is 0.
template <typename Device, typename T, tensor_internal::Selection Rows,
          tensor_internal::Selection Columns>
TensorView<Device, 2, T> View(const Tensor<Device, 2, T>& m, Rows rows, Columns columns) {
  const Range r = tensor_internal::CheckedRange(rows, 0, m.shape_);
  const Range c = tensor_internal::CheckedRange(columns, 1, m.shape_);
  return {m.dptr_ + r.begin * m.stride_ + c.begin, Shape2(r.count(), c.count()), r.step * m.stride_,
          c.step, m.stream_};
}

/// Returns a view of selected elements of one row, or of one column, as a vector. Throws
/// Error(kInvalidArgument) if an index is outside the matrix or a step is 0.
template <typename Device, typename T, std::integral Index, tensor_internal::Selection Columns>
TensorView<Device, 1, T> View(const Tensor<Device, 2, T>& m, Index row, Columns columns) {
  const index_t y = tensor_internal::CheckedIndex(row, 0, m.shape_);
  const Range c = tensor_internal::CheckedRange(columns, 1, m.shape_);
  return {m.dptr_ + y * m.stride_ + c.begin, Shape1(c.count()), 0, c.step, m.stream_};
}
template <typename Device, typename T, tensor_internal::Selection Rows, std::integral Index>
TensorView<Device, 1, T> View(const Tensor<Device, 2, T>& m, Rows rows, Index column) {
  const Range r = tensor_internal::CheckedRange(rows, 0, m.shape_);
  const index_t x = tensor_internal::CheckedIndex(column, 1, m.shape_);
  return {m.dptr_ + r.begin * m.stride_ + x, Shape1(r.count()), 0, r.step * m.stride_, m.stream_};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_DENSE_VIEW_H_
