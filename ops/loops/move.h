#ifndef TESSERA_OPS_LOOPS_MOVE_H_
#define TESSERA_OPS_LOOPS_MOVE_H_

#include <array>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Copies between strided views, on which all operators that move elements stand. A copy knows the
/// size of an element, and its type only where elements are added.
namespace tessera::ops_internal {

/// An N-dimensional arrangement of elements in memory: element (i0, i1, …) lies
/// i0 * strides[0] + i1 * strides[1] + … elements after `data`. A stride may be negative, or 0 in a
/// view that is only read, which then repeats its elements.
struct StridedView {
  /// Twice the rank of arrays, so that each dimension can be split in two.
  static constexpr int kMaxRank = 2 * TShape::kMaxRank;

  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Device device{};
  int num_dims = 0;
  std::array<index_t, kMaxRank> extents{};
  std::array<index_t, kMaxRank> strides{};

  StridedView() = default;
  /// The elements of an array in their order.
  explicit StridedView(const TBlob& blob) : StridedView(blob, blob.shape_) {}
  /// The elements of an array as those of another shape with as many elements.
  StridedView(const TBlob& blob, const TShape& shape);

  /// Appends a dimension.
  void Append(index_t extent, index_t stride);
  /// Splits dimension `axis` in two, whose product is its extent.
  void Split(int axis, index_t outer, index_t inner);
  /// Restricts dimension `axis` to `count` positions from `begin` on, `step` apart.
  void Slice(int axis, index_t begin, index_t step, index_t count);
  /// Returns the view with the dimensions axes[0], axes[1], … of this one.
  template <typename Axes>
  StridedView Permuted(const Axes& axes) const {
    StridedView view = *this;
    view.num_dims = 0;
    for (const auto axis : axes) {
      view.Append(extents[static_cast<size_t>(axis)], strides[static_cast<size_t>(axis)]);
    }
    return view;
  }
};

/// Copies the elements of `from` to `to`, or adds them (kAddTo: integers wrap around, bool is or),
/// in parallel. Does nothing for kNullOp, and nothing for kWriteInplace if both begin at one
/// address, as a copy in another shape may. Requires: extents and element types are equal; apart
/// from that case, the views do not overlap.
void Move(const StridedView& from, const StridedView& to, OpReqType req, const OpContext& context);

/// Copies all elements of an array in their order, whatever the shapes are.
void MoveFlat(const TBlob& from, const TBlob& to, OpReqType req, const OpContext& context);

/// Writes zeros to an array; does nothing for kNullOp and kAddTo.
void MoveZeros(const TBlob& to, OpReqType req, const OpContext& context);

/// One copy: the dimensions of both views with strides in bytes, merged as far as both allow, the
/// output's largest strides first.
struct MoveArguments {
  const char* in = nullptr;
  char* out = nullptr;
  int num_dims = 0;
  index_t element_size = 1;  ///< in bytes: a power of two up to 16
  std::array<index_t, StridedView::kMaxRank> extents{};
  std::array<index_t, StridedView::kMaxRank> in_strides{};
  std::array<index_t, StridedView::kMaxRank> out_strides{};
  DType dtype = DType::kFloat32;  ///< of elements that are added
  bool add = false;
};

/// The code of copies on a GPU, which nvcc's compilation of the driver sets.
struct MoveOnGpu {
  void (*move)(const MoveArguments& arguments, index_t size, Stream<gpu>* stream) = nullptr;
  void (*zero)(void* data, index_t size_bytes, Stream<gpu>* stream) = nullptr;
};
MoveOnGpu& GetMoveOnGpu();

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_MOVE_H_
