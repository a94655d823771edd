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

/// Returns 64-byte aligned memory of the device, or null for zero bytes. Throws
/// Error(kResourceExhausted) if there is not enough memory. Only CUDA builds define the gpu
/// versions.
template <typename Device>
void* AllocateBytes(int64_t size_bytes);
/// Frees memory that AllocateBytes returned. Throws Error(kInternal) if CUDA reports a failure; the
/// cpu version never throws.
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

/// Returns host memory that the device copies from and to without staging, or null for zero bytes.
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

/// Returns the distance between rows of `columns` elements. Padding rounds it up to a multiple of
/// 64 bytes, so that every row starts on a cache line.
template <typename T>
index_t RowStride(index_t columns, bool pad) {
  constexpr index_t kMultiple = 64 / static_cast<index_t>(sizeof(T));
  // A count that cannot be rounded up is larger than any memory.
  if (!pad || columns > std::numeric_limits<index_t>::max() - kMultiple) return columns;
  return (columns + kMultiple - 1) / kMultiple * kMultiple;
}

}  // namespace tensor_internal

/// Allocates memory for the tensor's shape. The contents are undefined. If `pad` is true and the
/// tensor has more than one dimension, rows are padded to 64 bytes. FreeSpace frees the memory.
///
/// Throws Error(kInvalidArgument) if the size overflows or is negative, and
/// Error(kResourceExhausted) if there is not enough memory; the tensor is then unchanged.
template <typename Device, int N, typename T>
void AllocSpace(Tensor<Device, N, T>* tensor, bool pad = true) {
  const index_t stride = tensor_internal::RowStride<T>(tensor->shape_[N - 1], pad && N > 1);
  void* memory = tensor_internal::AllocateBytes<Device>(
      tensor_internal::SizeBytes<T>(tensor->shape_, stride, "AllocSpace"));
  tensor->dptr_ = static_cast<T*>(memory);
  tensor->stride_ = stride;
}

/// Frees memory that AllocSpace or NewTensor allocated, and sets the tensor's pointer to null.
///
/// Throws Error(kInternal) on a GPU if CUDA reports a failure, which may be an earlier kernel's;
/// the pointer is null nevertheless. A TensorContainer's destructor does not throw.
template <typename Device, int N, typename T>
void FreeSpace(Tensor<Device, N, T>* tensor) {
  tensor_internal::FreeBytes<Device>(std::exchange(tensor->dptr_, nullptr));
}

/// Allocates contiguous host memory for the tensor's shape, which Device copies from and to at full
/// speed (page-locked memory for gpu). The contents are undefined. FreeHost<Device>(&tensor) frees
/// the memory, and throws as FreeSpace does. Throws as AllocSpace does.
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

/// Returns a tensor with memory of its own and every element set to `initial`. FreeSpace frees the
/// memory.
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
/// States in a compiler's message why an expression cannot construct a container.
struct ConstructWithoutArguments_ThenAssignTheExpression;
}  // namespace expr

/// A tensor that owns its memory. Copying a container copies the elements. Assigning an expression
/// first gives the container the expression's shape. Resizing keeps the memory while the new size
/// fits.
///
/// All translation units share the members of one container type, even if they are compiled for
/// different instruction sets; only the assignment of expressions is separate. The performance
/// guide has details.
template <typename Device, int N, typename T = float>
class TensorContainer : public Tensor<Device, N, T> {
 public:
  using Base = Tensor<Device, N, T>;  ///< the handle that a container is

  TensorContainer() = default;
  /// Constructs an empty container; set_pad explains `pad`.
  explicit TensorContainer(bool pad) : pad_(pad) {}
  explicit TensorContainer(const Shape<N>& shape) { Resize(shape); }
  TensorContainer(const Shape<N>& shape, T initial, bool pad = false,
                  Stream<Device>* stream = nullptr)
      : pad_(pad) {
    this->stream_ = stream;
    Resize(shape, initial);
  }
  /// Converts the initial value as an assignment does: throws Error(kInvalidArgument) for an
  /// integer that integers of type T cannot hold. A floating-point number for integers does not
  /// compile.
  template <expr::NumberFor<T> S>
  requires(!std::same_as<S, T>) TensorContainer(const Shape<N>& shape, S initial, bool pad = false,
                                                Stream<Device>* stream = nullptr)
      : TensorContainer(shape, expr::NumberAs<expr::assignment, T>(initial), pad, stream) {}
  template <expr::LosesFraction<T> S, typename Reason = expr::MismatchOf<S, Base>>
  TensorContainer(const Shape<N>& shape, S initial, bool pad = false,
                  Stream<Device>* stream = nullptr) = delete;
  /// Deleted: an expression is assigned to a container, which then takes the expression's shape.
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
  /// Evaluates an expression, a product or a reduction, after taking its shape. Assigning a number
  /// keeps the shape. If the assignment throws, the container has its old shape. It also has its
  /// old elements if the error was found before the evaluation began, as an error of shapes is.
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

  /// Sets whether rows are padded to 64 bytes from the next Resize on. By default they are not.
  void set_pad(bool pad) { pad_ = pad; }

  /// Changes the shape. The contents are then undefined, unless shape and padding were equal
  /// before. Throws Error(kInvalidArgument) if the size overflows or is negative, and
  /// Error(kResourceExhausted) if there is not enough memory; the container is then unchanged.
  void Resize(const Shape<N>& shape) { TakeShape(shape); }
  void Resize(const Shape<N>& shape, T initial) {
    Resize(shape);
    static_cast<Base&>(*this) = initial;
  }
  /// Converts the initial value as the constructor does.
  template <expr::NumberFor<T> S>
  requires(!std::same_as<S, T>) void Resize(const Shape<N>& shape, S initial) {
    Resize(shape, expr::NumberAs<expr::assignment, T>(initial));
  }
  template <expr::LosesFraction<T> S>
  expr::MismatchOf<S, Base> Resize(const Shape<N>& shape, S initial) = delete;

  /// Returns the tensor that Resize(shape) would produce. Its pointer is null if Resize would
  /// allocate. Throws Error(kInvalidArgument) if the size overflows or is negative.
  Base AfterResize(const Shape<N>& shape) const {
    Base resized = *this;
    resized.shape_ = shape;
    resized.stride_ = StrideFor(shape);
    const bool fits = SizeBytes(resized) <= capacity_bytes_;
    resized.dptr_ = fits ? static_cast<T*>(memory_.get()) : nullptr;
    return resized;
  }

  /// Frees the memory. All extents are then 0.
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
        // A destructor must not throw. The failure belongs to an earlier kernel, and the next
        // checked call reports it.
      }
    }
  };
  using Memory = std::unique_ptr<void, Free>;

  /// Resizes, and returns the memory that new memory has replaced, if any.
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
