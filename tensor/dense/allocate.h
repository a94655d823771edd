#ifndef TESSERA_TENSOR_DENSE_ALLOCATE_H_
#define TESSERA_TENSOR_DENSE_ALLOCATE_H_

#include <concepts>
#include <limits>
#include <memory>
#include <utility>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/device/size_bytes.h"

namespace tessera {

namespace tensor_internal {

/// 64-byte aligned memory of the device; null for zero bytes. Throws Error(kResourceExhausted). The
/// gpu versions are defined by CUDA builds only.
template <typename Device>
void* AllocateBytes(int64_t size_bytes);
/// Throws Error(kInternal) if CUDA reports a failure; on the CPU nothing.
template <typename Device>
void FreeBytes(void* memory);
template <>
void* AllocateBytes<cpu>(int64_t size_bytes);
template <>
void FreeBytes<cpu>(void* memory);
template <>
void* AllocateBytes<gpu>(int64_t size_bytes);
template <>
void FreeBytes<gpu>(void* memory);

/// Host memory that the device copies from and to without staging; null for zero bytes.
template <typename Device>
void* AllocateHostBytes(int64_t size_bytes);
template <typename Device>
void FreeHostBytes(void* memory);
template <>
inline void* AllocateHostBytes<cpu>(int64_t size_bytes) {
  return AllocateBytes<cpu>(size_bytes);
}
template <>
inline void FreeHostBytes<cpu>(void* memory) {
  FreeBytes<cpu>(memory);
}
template <>
void* AllocateHostBytes<gpu>(int64_t size_bytes);
template <>
void FreeHostBytes<gpu>(void* memory);

/// The distance between rows of `columns` elements: with padding, the next multiple of 64 bytes, so
/// that every row starts on a cache line.
template <typename T>
index_t RowStride(index_t columns, bool pad) {
  constexpr index_t kMultiple = 64 / static_cast<index_t>(sizeof(T));
  // What could not be rounded up is more than any memory has.
  if (!pad || columns > std::numeric_limits<index_t>::max() - kMultiple) return columns;
  return (columns + kMultiple - 1) / kMultiple * kMultiple;
}

}  // namespace tensor_internal

/// Gives `tensor` memory for its shape, whose contents are undefined; rows are padded to 64 bytes
/// if `pad` and if the tensor has more than one row. Give it back with FreeSpace.
///
/// Throws Error(kInvalidArgument) if the size overflows or is negative, Error(kResourceExhausted)
/// if there is no memory; the tensor is then unchanged.
template <typename Device, int N, typename T>
void AllocSpace(Tensor<Device, N, T>* tensor, bool pad = true) {
  const index_t stride = tensor_internal::RowStride<T>(tensor->shape_[N - 1], pad && N > 1);
  void* memory = tensor_internal::AllocateBytes<Device>(
      tensor_internal::SizeBytes<T>(tensor->shape_, stride, "AllocSpace"));
  tensor->dptr_ = static_cast<T*>(memory);
  tensor->stride_ = stride;
}

/// Releases what AllocSpace or NewTensor gave and sets the handle's pointer to null.
///
/// On a GPU throws Error(kInternal) if CUDA reports a failure, which may be that of a kernel
/// before; the pointer is null all the same. A TensorContainer's destructor does not throw.
template <typename Device, int N, typename T>
void FreeSpace(Tensor<Device, N, T>* tensor) {
  tensor_internal::FreeBytes<Device>(std::exchange(tensor->dptr_, nullptr));
}

/// Gives a host tensor contiguous memory for its shape that Device copies from and to at full speed
/// (for gpu, page-locked memory); the contents are undefined. Give it back with
/// FreeHost<Device>(&tensor), which throws as FreeSpace does. Throws as AllocSpace does.
template <typename Device, int N, typename T>
void AllocHost(Tensor<cpu, N, T>* tensor) {
  const index_t stride = tensor->shape_[N - 1];
  tensor->dptr_ = static_cast<T*>(tensor_internal::AllocateHostBytes<Device>(
      tensor_internal::SizeBytes<T>(tensor->shape_, stride, "AllocHost")));
  tensor->stride_ = stride;
}
template <typename Device, int N, typename T>
void FreeHost(Tensor<cpu, N, T>* tensor) {
  tensor_internal::FreeHostBytes<Device>(std::exchange(tensor->dptr_, nullptr));
}

/// A tensor with memory of its own, every element set to `initial`; release it with FreeSpace.
template <typename Device, typename T, int N>
Tensor<Device, N, T> NewTensor(const Shape<N>& shape, T initial, bool pad = true,
                               Stream<Device>* stream = nullptr) {
  Tensor<Device, N, T> tensor(shape);
  tensor.stream_ = stream;
  AllocSpace(&tensor, pad);
  tensor = initial;
  return tensor;
}

namespace expr {
/// The reason why an expression constructs no container, as the type that the compiler names.
struct ConstructWithoutArguments_ThenAssignTheExpression;
}  // namespace expr

/// A tensor that owns its memory: copying copies the data, and assigning an expression takes the
/// expression's shape first. Resizing keeps the memory while the new size fits into it.
///
/// Being one type for all of a program, it has members that are shared by files compiled for
/// different instruction sets (all but the assignment of expressions); see the performance guide.
template <typename Device, int N, typename T = float>
class TensorContainer : public Tensor<Device, N, T> {
 public:
  using Base = Tensor<Device, N, T>;  ///< the handle that it is

  TensorContainer() = default;
  /// Empty; `pad` as in set_pad.
  explicit TensorContainer(bool pad) : pad_(pad) {}
  explicit TensorContainer(const Shape<N>& shape) { Resize(shape); }
  TensorContainer(const Shape<N>& shape, T initial, bool pad = false,
                  Stream<Device>* stream = nullptr)
      : pad_(pad) {
    this->stream_ = stream;
    Resize(shape, initial);
  }
  /// An expression is assigned, which gives the container its shape, and does not construct one.
  template <typename E, typename Reason = expr::ConstructWithoutArguments_ThenAssignTheExpression>
  requires(expr::MatchingExpressions<E, Base>&& E::kRank == N &&
           !std::derived_from<E, Base>) explicit TensorContainer(const E& e) = delete;
  TensorContainer(const TensorContainer& other) : Base(), pad_(other.pad_) {
    this->stream_ = other.stream_;
    *this = static_cast<const Base&>(other);
  }
  TensorContainer(TensorContainer&& other) noexcept { Swap(&other); }

  TensorContainer& operator=(const TensorContainer& other) {
    if (this == &other) return *this;
    if (this->stream_ == nullptr) this->stream_ = other.stream_;
    return *this = static_cast<const Base&>(other);
  }
  TensorContainer& operator=(TensorContainer&& other) noexcept {
    Swap(&other);
    return *this;
  }
  /// Evaluates an expression, a product or a reduction, whose shape the container takes first. A
  /// number keeps the shape. If that throws, the shape is the old one, and so are the elements if
  /// the error was found before the evaluation began, as an error of shapes is.
  template <typename E, typename Isa = expr::IsaTag>
  requires expr::AssignableTo<E, Base> TensorContainer& operator=(const E& e) {
    const Base before = *this;
    const int64_t bytes_before = capacity_bytes_;
    Memory retired;  // the old memory, which the expression may read
    if constexpr (requires { e.shape(); }) {
      if constexpr (E::kRank == N) retired = TakeShape(e.shape());
    }
    try {
      expr::Assign<sv::saveto>(static_cast<Base&>(*this), e);
    } catch (...) {
      if (capacity_bytes_ != bytes_before) {
        memory_.swap(retired);
        capacity_bytes_ = bytes_before;
      }
      static_cast<Base&>(*this) = before;
      throw;
    }
    return *this;
  }
  template <typename E>
  requires expr::MismatchedWith<E, Base> expr::MismatchOf<E, Base>
  operator=(const E& e) = delete;

  /// Whether rows are padded to 64 bytes from the next Resize on; they are not by default.
  void set_pad(bool pad) { pad_ = pad; }

  /// Changes the shape. The contents are then undefined, unless shape and padding were the same.
  /// Throws Error(kInvalidArgument) if the size overflows or is negative, Error(kResourceExhausted)
  /// if there is no memory; the container is then unchanged.
  void Resize(const Shape<N>& shape) { TakeShape(shape); }
  void Resize(const Shape<N>& shape, T initial) {
    Resize(shape);
    static_cast<Base&>(*this) = initial;
  }

  /// The tensor that Resize(shape) would leave, without memory where that would take new memory.
  /// Throws Error(kInvalidArgument) if the size overflows or is negative.
  Base AfterResize(const Shape<N>& shape) const {
    Base resized = *this;
    resized.shape_ = shape;
    resized.stride_ = StrideFor(shape);
    const bool fits = SizeBytes(resized) <= capacity_bytes_;
    resized.dptr_ = fits ? static_cast<T*>(memory_.get()) : nullptr;
    return resized;
  }

  /// Gives the memory back; the shape is then all zeros.
  void Release() {
    TensorContainer empty;
    empty.pad_ = pad_;
    empty.stream_ = this->stream_;
    Swap(&empty);
  }

 private:
  struct Free {
    void operator()(void* memory) const noexcept {
      try {
        tensor_internal::FreeBytes<Device>(memory);
      } catch (...) {
        // A destructor must not throw. What failed is a kernel before, which the next checked call
        // reports.
      }
    }
  };
  using Memory = std::unique_ptr<void, Free>;

  /// Resizes and returns the memory that this replaced, if any.
  Memory TakeShape(const Shape<N>& shape) {
    Memory retired;
    if (memory_ != nullptr && shape == this->shape_ && StrideFor(shape) == this->stride_) {
      return retired;
    }
    Base resized = AfterResize(shape);
    const int64_t size_bytes = SizeBytes(resized);
    if (size_bytes > capacity_bytes_) {
      retired.reset(tensor_internal::AllocateBytes<Device>(size_bytes));
      memory_.swap(retired);
      capacity_bytes_ = size_bytes;
      resized.dptr_ = static_cast<T*>(memory_.get());
    }
    static_cast<Base&>(*this) = resized;
    return retired;
  }
  index_t StrideFor(const Shape<N>& shape) const {
    return tensor_internal::RowStride<T>(shape[N - 1], pad_ && N > 1);
  }
  static int64_t SizeBytes(const Base& tensor) {
    return tensor_internal::SizeBytes<T>(tensor.shape_, tensor.stride_, "TensorContainer::Resize");
  }
  void Swap(TensorContainer* other) {
    std::swap(static_cast<Base&>(*this), static_cast<Base&>(*other));
    std::swap(pad_, other->pad_);
    std::swap(memory_, other->memory_);
    std::swap(capacity_bytes_, other->capacity_bytes_);
  }

  bool pad_ = false;
  Memory memory_;
  int64_t capacity_bytes_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_DENSE_ALLOCATE_H_
