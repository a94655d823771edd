#ifndef TESSERA_OPS_TESTING_SHAPE_REFERENCE_H_
#define TESSERA_OPS_TESTING_SHAPE_REFERENCE_H_

#include <functional>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

// References of operators that move elements.
namespace tessera::ops_testing {

using Position = std::vector<index_t>;

/// Returns the position of element `index` of an array.
inline Position PositionOf(const TShape& shape, index_t index) {
  Position position(static_cast<size_t>(shape.ndim()));
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    position[static_cast<size_t>(d)] = index % shape[d];
    index /= shape[d];
  }
  return position;
}

/// Returns the index of the element at a position.
inline index_t IndexOf(const TShape& shape, const Position& position) {
  index_t index = 0;
  for (int d = 0; d < shape.ndim(); ++d)
    index = index * shape[d] + position[static_cast<size_t>(d)];
  return index;
}

/// Returns the array of `shape` whose element at each position p is that of `in` at source(p).
inline Values Gather(const Values& in, const TShape& shape,
                     const std::function<Position(const Position&)>& source) {
  Values out(shape);
  for (index_t i = 0; i < out.size(); ++i) {
    out[i] = in[IndexOf(in.shape, source(PositionOf(shape, i)))];
  }
  return out;
}

/// Returns the elements in their order in another shape.
inline Values InShape(Values values, const TShape& shape) {
  values.shape = shape;
  return values;
}

/// Float32, a 16-bit type, and integers of each size.
inline std::vector<DType> MovedDTypes() {
  return {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
          DType::kInt32,   DType::kInt64,   DType::kUint8,   DType::kInt8};
}

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_SHAPE_REFERENCE_H_
