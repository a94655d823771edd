#include "tessera/tensor/testing/guarded_tensor.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

constexpr int64_t kZoneBytes = 64;
constexpr std::byte kPattern{0xA5};

}  // namespace

GuardedMemory::GuardedMemory(int64_t rows, int64_t row_bytes, int64_t stride_bytes,
                             int64_t misalignment_bytes)
    : rows_(row_bytes == 0 ? 0 : rows),
      row_bytes_(row_bytes),
      stride_bytes_(stride_bytes),
      offset_(kZoneBytes + misalignment_bytes),
      memory_(static_cast<size_t>(offset_ + rows * stride_bytes + 2 * kZoneBytes), kPattern) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  offset_ += static_cast<int64_t>(-address % kZoneBytes);
}

/// Calls body(offset of the row, number of the row) for each row.
template <typename Body>
void GuardedMemory::ForEachRow(const Body& body) const {
  for (int64_t row = 0; row < rows_; ++row) body(offset_ + row * stride_bytes_, row);
}

void GuardedMemory::CopyOut(void* to) const {
  ForEachRow([&](int64_t offset, int64_t row) {
    std::memcpy(static_cast<std::byte*>(to) + row * row_bytes_, memory_.data() + offset,
                static_cast<size_t>(row_bytes_));
  });
}

void GuardedMemory::CopyIn(const void* from) {
  ForEachRow([&](int64_t offset, int64_t row) {
    std::memcpy(memory_.data() + offset, static_cast<const std::byte*>(from) + row * row_bytes_,
                static_cast<size_t>(row_bytes_));
  });
}

bool GuardedMemory::Intact() const {
  std::vector<std::byte> copy = memory_;
  ForEachRow(
      [&](int64_t offset, int64_t) { std::fill_n(copy.begin() + offset, row_bytes_, kPattern); });
  return std::all_of(copy.begin(), copy.end(), [](std::byte b) { return b == kPattern; });
}

}  // namespace tessera
