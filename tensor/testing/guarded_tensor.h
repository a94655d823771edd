#ifndef TESSERA_TENSOR_TESTING_GUARDED_TENSOR_H_
#define TESSERA_TENSOR_TESTING_GUARDED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/tensor/dense/dense.h"

namespace tessera {

/// The layout of a test's tensor: the number of padding elements between rows, and the number of
/// elements from a 64-byte boundary to the first element. A misalignment of 1 makes every packet
/// access misaligned.
struct GuardedLayout {
  index_t row_padding = 0;
  index_t misalignment = 0;
};

/// Rows of bytes, surrounded by bytes that hold a pattern. This part of GuardedTensor does not
/// depend on the element type, so it is compiled once.
class GuardedMemory {
 public:
  /// Places the first row `misalignment_bytes` after a 64-byte boundary.
  GuardedMemory(int64_t rows, int64_t row_bytes, int64_t stride_bytes, int64_t misalignment_bytes);

  std::byte* data() { return memory_.data() + offset_; }
  /// Copies the rows to contiguous memory, without the bytes between them.
  void CopyOut(void* to) const;
  void CopyIn(const void* from);
  /// Returns whether all bytes outside the rows hold the pattern.
  bool Intact() const;

 private:
  template <typename Body>
  void ForEachRow(const Body& body) const;

  int64_t rows_;
  int64_t row_bytes_;
  int64_t stride_bytes_;
  int64_t offset_;
  std::vector<std::byte> memory_;
};

/// A tensor for tests. Every byte before, after and between its rows holds a pattern.
/// GuardsIntact() returns whether no evaluation has written outside the rows.
template <int N, typename T>
class GuardedTensor {
 public:
  explicit GuardedTensor(const Shape<N>& shape, GuardedLayout layout = {})
      : GuardedTensor(shape, shape[N - 1] + (N > 1 ? layout.row_padding : 0), layout) {}
  GuardedTensor(const Shape<N>& shape, const std::vector<T>& values, GuardedLayout layout = {})
      : GuardedTensor(shape, layout) {
    Set(values);
  }
  GuardedTensor(const GuardedTensor&) = delete;
  GuardedTensor& operator=(const GuardedTensor&) = delete;

  Tensor<cpu, N, T>& operator*() { return tensor_; }
  Tensor<cpu, N, T>* operator->() { return &tensor_; }

  /// Returns the elements in row-major order, without the padding.
  std::vector<T> values() const {
    std::vector<T> all(static_cast<size_t>(tensor_.shape_.Size()));
    memory_.CopyOut(all.data());
    return all;
  }
  void Set(const std::vector<T>& values) { memory_.CopyIn(values.data()); }

  bool GuardsIntact() const { return memory_.Intact(); }

 private:
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr auto kBytes = static_cast<int64_t>(sizeof(T));

  GuardedTensor(const Shape<N>& shape, index_t stride, GuardedLayout layout)
      : memory_(shape.ProdShape(0, N - 1), shape[N - 1] * kBytes, stride * kBytes,
                layout.misalignment * kBytes),
        tensor_(reinterpret_cast<T*>(memory_.data()), shape, stride, nullptr) {}

  GuardedMemory memory_;
  Tensor<cpu, N, T> tensor_;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_TESTING_GUARDED_TENSOR_H_
