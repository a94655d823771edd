#include "tessera/io/internal/csr_rows.h"

#include <cstddef>

#include "tessera/base/device.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/sparse.h"

namespace tessera::io_internal {

void CsrRows::Clear() {
  elements_.clear();
  columns_.clear();
  ends_ = {0};
}

void CsrRows::Append(std::span<const int64_t> columns, const void* elements) {
  const auto* const bytes = static_cast<const uint8_t*>(elements);
  const size_t size_bytes = columns.size() * static_cast<size_t>(DTypeSizeBytes(dtype_));
  if (size_bytes > 0) elements_.insert(elements_.end(), bytes, bytes + size_bytes);
  columns_.insert(columns_.end(), columns.begin(), columns.end());
  ends_.push_back(static_cast<int64_t>(columns_.size()));
}

NDArray CsrRows::ToArray(index_t width) const {
  const auto list = [](const std::vector<int64_t>& numbers) {
    return ListOf(numbers.data(), static_cast<index_t>(numbers.size()), DType::kInt64);
  };
  const NDArray elements = ListOf(elements_.data(), static_cast<index_t>(columns_.size()), dtype_);
  return sparse::FromCsr(elements, list(ends_), list(columns_),
                         {static_cast<index_t>(ends_.size()) - 1, width});
}

NDArray ListOf(const void* elements, index_t count, DType dtype) {
  NDArray list(TShape{count}, Device::Cpu(), dtype);
  list.SyncCopyFromCPU(elements, count);
  return list;
}

}  // namespace tessera::io_internal
