#include "tessera/ops/loops/axes.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/ops/property.h"

namespace tessera::ops_internal {
namespace {

bool Exists(int64_t axis, int rank) { return axis >= -rank && axis < rank; }

}  // namespace

int AxisPosition(int64_t axis, int rank) {
  TESSERA_DCHECK(Exists(axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<int> AxisPosition(std::optional<int64_t> axis, int rank) {
  if (!axis) return std::nullopt;
  return AxisPosition(*axis, rank);
}

std::vector<int> AxisPositions(std::span<const int64_t> axes, int rank) {
  std::vector<int> positions;
  for (const int64_t axis : axes) positions.push_back(AxisPosition(axis, rank));
  return positions;
}

int AxisPosition(const OperatorProperty& property, std::string_view parameter, int64_t axis,
                 int rank) {
  if (!Exists(axis, rank)) {
    throw InvalidArgument(property.TypeString(), ": parameter ", parameter, ": axis ", axis,
                          " is not in [", -rank, ", ", rank, ") for an array of rank ", rank);
  }
  return AxisPosition(axis, rank);
}

int AxisPosition(const OperatorProperty& property, std::string_view parameter, int64_t axis,
                 const TShape& data) {
  if (!Exists(axis, data.ndim())) {
    throw InvalidArgument(property.TypeString(), ": ", parameter, " is ", axis,
                          ", but data has shape ", data, ", which has ", data.ndim(), " axes");
  }
  return AxisPosition(axis, data.ndim());
}

std::vector<int> AxisPositions(const OperatorProperty& property, std::string_view parameter,
                               std::span<const int64_t> axes, int rank) {
  std::vector<int> positions;
  for (const int64_t axis : axes) {
    const int position = AxisPosition(property, parameter, axis, rank);
    if (std::find(positions.begin(), positions.end(), position) != positions.end()) {
      throw InvalidArgument(property.TypeString(), ": parameter ", parameter, ": axis ", axis,
                            " is given twice");
    }
    positions.push_back(position);
  }
  return positions;
}

ReducedAxes FindAxes(std::string_view owner, std::span<const int> axes, bool exclude, int ndim) {
  ReducedAxes reduced{};
  for (const int axis : axes) {
    if (!Exists(axis, ndim)) {
      throw InvalidArgument(owner, ": axis ", axis, " does not exist in an array of rank ", ndim);
    }
    bool& is_reduced = reduced[static_cast<size_t>(AxisPosition(axis, ndim))];
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
