#ifndef TESSERA_OPS_ELEMWISE_CONVERT_ROW_H_
#define TESSERA_OPS_ELEMWISE_CONVERT_ROW_H_

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera::ops_internal {

/// Read n elements of type `dtype`, `stride` elements apart (0: the same element n times), and
/// convert them: to integers by cutting off towards 0, with values outside the type's range at its
/// ends and NaN as 0.
void LoadRow(const void* data, DType dtype, index_t stride, index_t n, float* out);
void LoadRow(const void* data, DType dtype, index_t stride, index_t n, double* out);
void LoadRow(const void* data, DType dtype, index_t stride, index_t n, int32_t* out);
void LoadRow(const void* data, DType dtype, index_t stride, index_t n, int64_t* out);

/// Convert n contiguous elements to `dtype` and write them to `out`, or add them to what is there.
/// Integers wrap around, sums too; floating-point numbers become integers as in LoadRow, and bool
/// is whether an element is not 0.
void StoreRow(const float* in, index_t n, bool add, DType dtype, void* out);
void StoreRow(const double* in, index_t n, bool add, DType dtype, void* out);
void StoreRow(const int32_t* in, index_t n, bool add, DType dtype, void* out);
void StoreRow(const int64_t* in, index_t n, bool add, DType dtype, void* out);

/// Returns a number as an element of T, converted as LoadRow converts.
template <typename T>
T NumberAs(double number) {
  T result;
  LoadRow(&number, DType::kFloat64, 1, 1, &result);
  return result;
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ELEMWISE_CONVERT_ROW_H_
