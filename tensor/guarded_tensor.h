#ifndef TESSERA_TENSOR_GUARDED_TENSOR_H_
#define TESSERA_TENSOR_GUARDED_TENSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/tensor/dense.h"

namespace tessera {

/// Where a test's tensor lies: elements between one row and the next, and elements after a 64-byte
/// boundary at which the first one stands, so that 1 makes every packet access misaligned.
struct GuardedLayout {
  index_t row_padding = 0;
  index_t misalignment = 0;
};

/// A tensor for tests, in memory whose every other byte (before, after and between the rows) holds
/// a pattern: GuardsIntact() says whether an evaluation wrote where it should not have.
template <int N, typename T>
class GuardedTensor {
 public:
  explicit GuardedTensor(const Shape<N>& shape, GuardedLayout layout = {})
      : stride_(shape[N - 1] + (N > 1 ? layout.row_padding : 0)),
        offset_(kZoneBytes + layout.misalignment * static_cast<index_t>(sizeof(T))) {
    const index_t rows = shape.ProdShape(0, N - 1);
    const index_t size_bytes = rows * stride_ * static_cast<index_t>(sizeof(T));
    memory_.assign(static_cast<size_t>(offset_ + size_bytes + 2 * kZoneBytes), kPattern);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    offset_ += static_cast<index_t>(-address % kZoneBytes);
    tensor_ =
        Tensor<cpu, N, T>(reinterpret_cast<T*>(memory_.data() + offset_), shape, stride_, nullptr);
  }
  GuardedTensor(const Shape<N>& shape, const std::vector<T>& values, GuardedLayout layout = {})
      : GuardedTensor(shape, layout) {
    Set(values);
  }
  GuardedTensor(const GuardedTensor&) = delete;
  GuardedTensor& operator=(const GuardedTensor&) = delete;

  Tensor<cpu, N, T>& operator*() { return tensor_; }
  Tensor<cpu, N, T>* operator->() { return &tensor_; }

  /// The elements in row-major order, without the padding.
  std::vector<T> values() const {
    std::vector<T> all;
    all.reserve(static_cast<size_t>(tensor_.shape_.Size()));
    ForEachRow([&](T* row, index_t columns) { all.insert(all.end(), row, row + columns); });
    return all;
  }
  void Set(const std::vector<T>& values) {
    const T* next = values.data();
    ForEachRow([&](T* row, index_t columns) {
      std::copy_n(next, columns, row);
      next += columns;
    });
  }

  bool GuardsIntact() const {
    std::vector<std::byte> copy = memory_;
    ForEachRow([&](T* row, index_t columns) {
      const auto begin = reinterpret_cast<std::byte*>(row) - memory_.data();
      std::fill_n(copy.begin() + begin, columns * static_cast<index_t>(sizeof(T)), kPattern);
    });
    return std::all_of(copy.begin(), copy.end(), [](std::byte b) { return b == kPattern; });
  }

 private:
  static constexpr index_t kZoneBytes = 64;
  static constexpr std::byte kPattern{0xA5};

  template <typename Body>
  void ForEachRow(const Body& body) const {
    const Shape<2> shape = tensor_.shape_.FlatTo2D();
    if (shape[1] == 0) return;
    for (index_t y = 0; y < shape[0]; ++y) body(tensor_.dptr_ + y * stride_, shape[1]);
  }

  index_t stride_;
  index_t offset_;
  std::vector<std::byte> memory_;
  Tensor<cpu, N, T> tensor_;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_GUARDED_TENSOR_H_
