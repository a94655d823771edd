#ifndef TESSERA_OPS_LOOPS_AXES_H_
#define TESSERA_OPS_LOOPS_AXES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/tshape.h"

namespace tessera {
class OperatorProperty;
}

/// Axes as operators' parameters give them: a negative axis counts from the end. An operator's
/// property checks them; the operator then asks for the positions without the property.
namespace tessera::ops_internal {

/// Returns an axis as a position in [0, rank). Requires: the axis is in [-rank, rank).
int AxisPosition(int64_t axis, int rank);

/// Returns the position of an axis, or none if there is no axis.
std::optional<int> AxisPosition(std::optional<int64_t> axis, int rank);

/// Returns the positions of axes, in their order.
std::vector<int> AxisPositions(std::span<const int64_t> axes, int rank);

/// Returns an axis as a position in [0, rank). Throws Error(kInvalidArgument) that names operator,
/// parameter, axis and rank if it is not in [-rank, rank).
int AxisPosition(const OperatorProperty& property, std::string_view parameter, int64_t axis,
                 int rank);

/// Returns an axis of `data` as a position. Throws Error(kInvalidArgument) that names operator,
/// parameter, axis and shape if data has no such axis.
int AxisPosition(const OperatorProperty& property, std::string_view parameter, int64_t axis,
                 const TShape& data);

/// Returns the positions of axes, in their order. Throws Error(kInvalidArgument) that names
/// operator, parameter and axis if one is not in [-rank, rank) or is given twice.
std::vector<int> AxisPositions(const OperatorProperty& property, std::string_view parameter,
                               std::span<const int64_t> axes, int rank);

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
