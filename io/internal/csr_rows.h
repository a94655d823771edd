#ifndef TESSERA_IO_INTERNAL_CSR_ROWS_H_
#define TESSERA_IO_INTERNAL_CSR_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::io_internal {

/// The rows of a csr array that is being made, in host memory.
class CsrRows {
 public:
  explicit CsrRows(DType dtype) : dtype_(dtype) {}

  /// Removes all rows.
  void Clear();
  /// Appends a row: its columns, which rise, and as many elements of the type.
  void Append(std::span<const int64_t> columns, const void* elements);
  /// Returns a new csr array of these rows, whose columns are below `width`.
  NDArray ToArray(index_t width) const;

 private:
  const DType dtype_;
  std::vector<uint8_t> elements_;
  std::vector<int64_t> columns_;
  std::vector<int64_t> ends_ = {0};
};

/// Returns a new array of one axis with these elements.
NDArray ListOf(const void* elements, index_t count, DType dtype);

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_INTERNAL_CSR_ROWS_H_
