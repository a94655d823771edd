#ifndef TESSERA_TENSOR_TESTING_GUARDED_TENSOR_H_
#define TESSERA_TENSOR_TESTING_GUARDED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/tensor/dense/dense.h"

namespace tessera {

/// Where a test's tensor lies: elements between one row and the next, and elements after a 64-byte
/// boundary at which the first one stands, so that 1 makes every packet access misaligned.
struct GuardedLayout {
  index_t row_padding = 0;
  index_t misalignment = 0;
};

/// Rows of bytes among others that hold a pattern. What depends on no type, so that it is compiled
/// once for all of them.
class GuardedMemory {
 public:
  /// The first row lies `misalignment_bytes` after a 64-byte boundary.
  GuardedMemory(int64_t rows, int64_t row_bytes, int64_t stride_bytes, int64_t misalignment_bytes);

  std::byte* data() { return memory_.data() + offset_; }
  /// Copies the rows, one after another without what is between them.
  void CopyOut(void* to) const;
  void CopyIn(const void* from);
  /// Whether the pattern stands everywhere outside the rows.
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

/// A tensor for tests, in memory whose every other byte (before, after and between the rows) holds
/// a pattern: GuardsIntact() says whether an evaluation wrote where it should not have.
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

  /// The elements in row-major order, without the padding.
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
