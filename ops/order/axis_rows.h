#ifndef TESSERA_OPS_ORDER_AXIS_ROWS_H_
#define TESSERA_OPS_ORDER_AXIS_ROWS_H_

#include <cstdint>
#include <optional>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"

/// Rows of elements along an axis, for operators that compare them.
namespace tessera::ops_internal {

/// The rows of an array along an axis: element k of row r lies at
/// (r / inner * n + k) * inner + r % inner.
struct AxisRows {
  index_t outer = 1;
  index_t n = 1;      ///< the length of a row
  index_t inner = 1;  ///< the distance of a row's neighbours, in elements

  /// The rows of an array along `axis`; without an axis, one row of all elements.
  static AxisRows Of(const TShape& shape, std::optional<int> axis) {
    if (!axis) return {1, shape.Size(), 1};
    return {shape.ProdShape(0, *axis), shape[*axis], shape.ProdShape(*axis + 1, shape.ndim())};
  }
  index_t NumRows() const { return outer * inner; }
  /// Returns the position of a row's first element.
  index_t First(index_t row) const { return row / inner * n * inner + row % inner; }
  /// Returns rows of another length in the same arrangement.
  AxisRows OfLength(index_t length) const { return {outer, length, inner}; }
};

/// Calls function(T()) with float, double or int64_t: the smallest of them that has all values of
/// `dtype`, so that comparisons are exact.
template <typename Function>
void VisitComparedIn(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool:
      return function(float());
    case DType::kFloat64:
    case DType::kInt32:
      return function(double());
    default:
      return function(int64_t());
  }
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ORDER_AXIS_ROWS_H_
