#ifndef TESSERA_KVSTORE_ROW_SUM_H_
#define TESSERA_KVSTORE_ROW_SUM_H_

#include <cstdint>
#include <span>

#include "tessera/base/dtype.h"

namespace tessera::kvstore_internal {

/// Adds rows of `size` elements in their order: out[i] = (rows[0][i] + rows[1][i]) + rows[2][i] +
/// ….
///
/// Types: every element type. half and bfloat16 are added in float and rounded once. Integers wrap
/// around. A sum of bools says whether any of them is true.
/// Aliasing: `out` may be one of the rows; any other overlap is an error.
/// Requires: at least one row.
/// Cost: reads each row and writes `out` once, in this thread; no allocation.
void SumRows(std::span<const void* const> rows, void* out, int64_t size, DType dtype);

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_ROW_SUM_H_
