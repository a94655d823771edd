#ifndef TESSERA_OPS_LOOPS_AXES_H_
#define TESSERA_OPS_LOOPS_AXES_H_

#include <array>
#include <span>
#include <string_view>

#include "tessera/base/tshape.h"

namespace tessera::ops_internal {

/// The axes of a reduction: reduced[i] tells whether axis i is.
using ReducedAxes = std::array<bool, TShape::kMaxRank>;

/// Returns the axes that a reduction over `axes` of an array of rank `ndim` reduces: those listed,
/// counted from the end where negative, or with `exclude` all others; all if there are none. Throws
/// Error(kInvalidArgument) that begins with `owner` for an axis that does not exist or is listed
/// twice.
ReducedAxes FindAxes(std::string_view owner, std::span<const int> axes, bool exclude, int ndim);

/// Returns the shape of a reduction's result: without the reduced axes, or with extents of 1 there
/// if keepdims. A result without axes has shape (1), as in MXNet.
TShape ReducedShape(const TShape& shape, const ReducedAxes& axes, bool keepdims);

/// Returns `shape` with extents of 1 at the reduced axes.
TShape KeepingAxes(const TShape& shape, const ReducedAxes& axes);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_AXES_H_
