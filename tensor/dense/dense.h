#ifndef TESSERA_TENSOR_DENSE_DENSE_H_
#define TESSERA_TENSOR_DENSE_DENSE_H_

#include <concepts>
#include <type_traits>

#include "tessera/tensor/device/stream.h"
#include "tessera/tensor/eval/assign.h"
#include "tessera/tensor/expr/expression.h"

namespace tessera {

/// The distance between rows, as an argument where another overload takes a stream. Passing
/// nullptr, NULL or 0 chooses the overload with a pointer, and so passes no stream.
struct RowStride {
  index_t elements;  ///< from one row to the next

  template <std::integral Integer>
  RowStride(Integer distance)  // NOLINT: every integer is one
      : elements(static_cast<index_t>(distance)) {}
};

/// A handle to an N-dimensional array in a device's memory. The array consists of rows of
/// shape_[N-1] contiguous elements, which begin stride_ elements apart.
///
/// Copying a Tensor copies the handle; both handles then name the same memory, which a Tensor never
/// owns. Assigning an expression or a number evaluates it into that memory: at once on the CPU, in
/// the order of stream_ on a GPU. The destination may also be an operand: `a = a * 2 + b` runs in
/// place. An expression that would read elements which the loop has already written goes through a
/// temporary; `a = a.T()` does. NoAlias(a) = … omits the check for shared memory. `a = b` makes a
/// another handle to b's memory; `a = +b` and Copy(a, b) copy the elements. `m[1] = b` and
/// `m.Slice(0, 2) = b` would only make a temporary such a handle, and do not compile.
///
/// Throws Error(kInvalidArgument) if the expression's shape differs from the tensor's, if the
/// tensor or an operand has elements but no memory (dptr_ is null), or if the elements cannot hold
/// an integer that is assigned to them. Concurrent evaluations are safe unless one writes elements
/// that another reads or writes.
template <typename Device, int N, typename Value = float>
class Tensor : public TRValue<Tensor<Device, N, Value>, Device, N, Value> {
 public:
  /// Describe the tensor as an expression node; see operand.h.
  using value_type = Value;
  using device_type = Device;
  static constexpr int kRank = N;
  static constexpr int kSubdim = N - 1;             ///< the rank of operator[]'s result
  static constexpr bool kDevCPU = Device::kDevCPU;  ///< whether the host may read the memory
  static constexpr bool kHasPacket = tensor_internal::PacketTraits<Value>::kVectorizable;
  static constexpr bool kHasGroups = true;
  static constexpr bool kHasAvx2Packet = true;
  static constexpr bool kMovesElements = false;

  Value* dptr_ = nullptr;             ///< the first element
  Shape<N> shape_{};                  ///< the extents
  index_t stride_ = 0;                ///< elements from one row to the next
  Stream<Device>* stream_ = nullptr;  ///< the stream that evaluations run on; unused on the CPU

  Tensor() = default;
  Tensor(const Tensor&) = default;
  explicit Tensor(const Shape<N>& shape) : shape_(shape), stride_(shape[N - 1]) {}
  Tensor(Value* dptr, const Shape<N>& shape, Stream<Device>* stream = nullptr)
      : dptr_(dptr), shape_(shape), stride_(shape[N - 1]), stream_(stream) {}
  Tensor(Value* dptr, const Shape<N>& shape, index_t stride, Stream<Device>* stream)
      : dptr_(dptr), shape_(shape), stride_(stride), stream_(stream) {}
  /// Constructs a handle without a stream, for programs that were written before streams existed.
  Tensor(Value* dptr, const Shape<N>& shape, RowStride stride)
      : dptr_(dptr), shape_(shape), stride_(stride.elements) {}

  /// Makes the tensor another handle to the memory of `other`.
  Tensor& operator=(const Tensor& other) & = default;
  /// Deleted: a temporary such as m[1] or m.Slice(0, 2) would become a handle to the other tensor,
  /// and no element would change. The result type's name tells what to write.
  expr::RebindingATemporaryChangesNoElement_AssignPlusTheTensorOrUseCopyOrView operator=(
      const Tensor& other) && = delete;

  /// Sets the stream of evaluations that have this handle as their destination.
  void set_stream(Stream<Device>* stream) { stream_ = stream; }

  /// Return all extents, and the extent of one dimension.
  const Shape<N>& shape() const { return shape_; }
  index_t size(int dimension) const { return shape_[dimension]; }

  /// Returns the number of elements in dimensions kBegin to N-1, including padding between rows.
  template <int kBegin>
  index_t MemSize() const {
    index_t elements = stride_;
    for (int i = kBegin; i < N - 1; ++i) elements *= shape_[i];
    return elements;
  }
  /// Returns the number of all elements, including padding between rows.
  index_t MSize() const { return MemSize<0>(); }

  /// Returns whether rows follow each other without padding.
  bool CheckContiguous() const { return shape_[N - 1] == stride_; }

  /// Returns the matrix in which all leading dimensions are one.
  Tensor<Device, 2, Value> FlatTo2D() const {
    return Tensor<Device, 2, Value>(dptr_, shape_.FlatTo2D(), stride_, stream_);
  }

  /// Returns the vector of all elements. Throws Error(kFailedPrecondition) if there is padding
  /// between rows.
  Tensor<Device, 1, Value> FlatTo1D() const {
    if (!CheckContiguous()) {
      throw FailedPrecondition("Tensor::FlatTo1D: rows of ", shape_[N - 1], " elements lie ",
                               stride_, " apart; the tensor must be contiguous");
    }
    return Tensor<Device, 1, Value>(dptr_, shape_.FlatTo1D(), stream_);
  }

  /// Returns sub-tensor i of the first dimension. If N is 1, returns a reference to element i,
  /// which must be in host memory. Requires: 0 <= i < shape_[0]; only builds without NDEBUG check
  /// that.
  decltype(auto) operator[](index_t i) const {
    TESSERA_DCHECK(i >= 0 && i < shape_[0]);
    if constexpr (N == 1) {
      return static_cast<Value&>(dptr_[i]);
    } else {
      // A vector has no padding after it.
      const index_t stride = N == 2 ? shape_[N - 1] : stride_;
      return Tensor<Device, N - 1, Value>(dptr_ + i * MemSize<1>(), shape_.SubShape(), stride,
                                          stream_);
    }
  }

  /// Returns sub-tensors [begin, end) of the first dimension, which share the memory. Throws
  /// Error(kInvalidArgument) if the range is not within the dimension.
  Tensor Slice(index_t begin, index_t end) const {
    if (begin < 0 || end < begin || end > shape_[0]) {
      throw InvalidArgument("Tensor::Slice: [", begin, ", ", end,
                            ") does not lie in dimension 0 of shape ", shape_);
    }
    Tensor slice = *this;
    slice.shape_[0] = end - begin;
    if constexpr (N == 1) {
      slice.dptr_ += begin;
      slice.stride_ = end - begin;
    } else {
      slice.dptr_ += begin * MemSize<1>();
    }
    return slice;
  }

  /// Returns the transposed matrix as an expression. A vector becomes a matrix of one column.
  auto T() const requires(N == 1 || N == 2) { return expr::TransposeExp<Tensor>(*this); }

  /// Returns a left side of an assignment that omits the check for shared memory; see NoAlias.
  auto noalias() const { return expr::NoAlias(*this); }

  /// Make the tensor an expression node; see operand.h.
  TESSERA_HD Value Eval(index_t y, index_t x) const { return dptr_[y * stride_ + x]; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return tensor_internal::LoadPacket<P>(dptr_ + y * stride_ + x);
  }
  bool IsFlat() const { return CheckContiguous(); }
  bool GroupsAreAligned(index_t rows) const {
    return tensor_internal::RowsAreAligned(dptr_, rows, stride_);
  }

  // The evaluators' namespace is a template argument here, so that translation units compiled for
  // different instruction sets do not share a body. Assigning an object of a class derived from
  // Tensor, such as a container, copies the handle.
  /// Evaluate an expression, or a number for every element: dst = e, dst = dst + e and so on.
  template <typename E, typename Isa = expr::IsaTag>
  requires(expr::AssignableTo<E, Tensor> && !std::derived_from<E, Tensor>) Tensor& operator=(
      const E& e) {
    expr::Assign<sv::saveto>(*this, e);
    return *this;
  }
  template <typename E, typename Isa = expr::IsaTag>
  requires expr::AssignableTo<E, Tensor> Tensor& operator+=(const E& e) {
    expr::Assign<sv::plusto>(*this, e);
    return *this;
  }
  template <typename E, typename Isa = expr::IsaTag>
  requires expr::AssignableTo<E, Tensor> Tensor& operator-=(const E& e) {
    expr::Assign<sv::minusto>(*this, e);
    return *this;
  }
  template <typename E, typename Isa = expr::IsaTag>
  requires expr::AssignableTo<E, Tensor> Tensor& operator*=(const E& e) {
    expr::Assign<sv::multo>(*this, e);
    return *this;
  }
  template <typename E, typename Isa = expr::IsaTag>
  requires expr::AssignableTo<E, Tensor> Tensor& operator/=(const E& e) {
    expr::Assign<sv::divto>(*this, e);
    return *this;
  }

  /// mshadow's name for `dst = e`, which classes that a program derives from Tensor call. A tensor
  /// on the right is copied by element.
  template <typename E, typename Isa = expr::IsaTag>
  requires expr::AssignableTo<E, Tensor> Tensor& __assign(const E& e) {  // NOLINT: mshadow's name
    expr::Assign<sv::saveto>(*this, e);
    return *this;
  }

  /// Deleted; its return type tells why a const tensor cannot be assigned to.
  template <typename E>
  requires(expr::AssignableTo<E, Tensor> &&
           !std::derived_from<E, Tensor>) expr::AConstTensorCannotBeAssignedTo_CopyTheHandle
  operator=(const E& e) const = delete;

  template <typename E>
  requires expr::MismatchedWith<E, Tensor> expr::MismatchOf<E, Tensor>
  operator=(const E& e) = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Tensor> expr::MismatchOf<E, Tensor>
  operator+=(const E& e) = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Tensor> expr::MismatchOf<E, Tensor>
  operator-=(const E& e) = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Tensor> expr::MismatchOf<E, Tensor>
  operator*=(const E& e) = delete;
  template <typename E>
  requires expr::MismatchedWith<E, Tensor> expr::MismatchOf<E, Tensor>
  operator/=(const E& e) = delete;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_DENSE_DENSE_H_
