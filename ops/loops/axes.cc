#include "tessera/ops/loops/axes.h"

#include <vector>

#include "tessera/base/error.h"

namespace tessera::ops_internal {

ReducedAxes FindAxes(std::string_view owner, std::span<const int> axes, bool exclude, int ndim) {
  ReducedAxes reduced{};
  for (const int axis : axes) {
    const int position = axis < 0 ? axis + ndim : axis;
    if (position < 0 || position >= ndim) {
      throw InvalidArgument(owner, ": axis ", axis, " does not exist in an array of rank ", ndim);
    }
    bool& is_reduced = reduced[static_cast<size_t>(position)];
    if (is_reduced) throw InvalidArgument(owner, ": axis ", axis, " is listed twice");
    is_reduced = true;
  }
  for (int d = 0; d < ndim; ++d) {
    bool& is_reduced = reduced[static_cast<size_t>(d)];
    if (axes.empty()) {
      is_reduced = true;
    } else if (exclude) {
      is_reduced = !is_reduced;
    }
  }
  return reduced;
}

TShape ReducedShape(const TShape& shape, const ReducedAxes& axes, bool keepdims) {
  if (keepdims) return KeepingAxes(shape, axes);
  std::vector<index_t> extents;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (!axes[static_cast<size_t>(d)]) extents.push_back(shape[d]);
  }
  if (extents.empty()) extents.push_back(1);
  return TShape(std::span<const index_t>(extents));
}

TShape KeepingAxes(const TShape& shape, const ReducedAxes& axes) {
  TShape kept = shape;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (axes[static_cast<size_t>(d)]) kept[d] = 1;
  }
  return kept;
}

}  // namespace tessera::ops_internal
