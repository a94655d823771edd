#ifndef TESSERA_OPS_LOOPS_CONVERT_ROW_H_
#define TESSERA_OPS_LOOPS_CONVERT_ROW_H_

#include <cstdint>
#include <limits>
#include <string>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera::ops_internal {

/// Reads n elements of type `dtype`, `stride` elements apart (0: the same element n times), and
/// converts them: to integers by cutting off towards 0, with values outside the type's range at its
/// ends and NaN as 0. T is float, double, int32_t or int64_t.
template <typename T>
void LoadRow(const void* data, DType dtype, index_t stride, index_t n, T* out);

/// Converts n contiguous elements to `dtype` and writes them to `out`, or adds them to what is
/// there. Integers wrap around, sums too; floating-point numbers become integers as in LoadRow, and
/// bool is whether an element is not 0. T is float, double, int32_t or int64_t.
template <typename T>
void StoreRow(const T* in, index_t n, bool add, DType dtype, void* out);

/// The index that a NaN is. No other floating-point number is converted to it.
inline constexpr int64_t kNanIndex = std::numeric_limits<int64_t>::min() + 1;

/// Reads n contiguous indices as LoadRow does, except that NaN is kNanIndex, which is outside of
/// every range.
void LoadIndices(const void* data, DType dtype, index_t n, int64_t* indices);
/// Returns whether an index that LoadIndices read from an array of that type is NaN.
bool IsNanIndex(int64_t index, DType dtype);
/// Returns an index that LoadIndices read from an array of that type as text for an error.
std::string IndexText(int64_t index, DType dtype);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_CONVERT_ROW_H_
