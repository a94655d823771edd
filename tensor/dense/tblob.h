#ifndef TESSERA_TENSOR_DENSE_TBLOB_H_
#define TESSERA_TENSOR_DENSE_TBLOB_H_

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/tensor/device/stream.h"
#include "tessera/tensor/expr/operand.h"

namespace tessera {

/// A tensor whose device, rank and element type are known at run time. Operators take their inputs
/// and outputs as blobs. A blob is a handle to contiguous memory, which it does not own. A file
/// that converts between tensors and blobs also includes "tessera/tensor/tensor.h".
class TBlob {
 public:
  void* dptr_ = nullptr;               ///< the first element
  TShape shape_;                       ///< the extents
  DType type_flag_ = DType::kFloat32;  ///< the element type
  Device device_;                      ///< the device of the memory

  TBlob() = default;
  TBlob(void* dptr, const TShape& shape, DType dtype, Device device)
      : dptr_(dptr), shape_(shape), type_flag_(dtype), device_(device) {}
  template <typename Dev, int N, typename T>
  TBlob(const Tensor<Dev, N, T>& tensor)  // NOLINT: every tensor is a blob
      : dptr_(tensor.dptr_),
        shape_(tensor.shape_),
        type_flag_(kDTypeOf<T>),
        device_(Dev::kDevCPU ? Device::Cpu() : Device::Gpu()) {
    if (!tensor.CheckContiguous()) {
      throw InvalidArgument("TBlob: rows of ", tensor.shape_[N - 1], " elements lie ",
                            tensor.stride_, " apart; only a contiguous tensor can be a blob");
    }
  }

  /// Return the rank, the extent of one dimension, and the number of elements.
  int ndim() const { return shape_.ndim(); }
  index_t size(int dimension) const { return shape_[dimension]; }
  index_t Size() const { return shape_.Size(); }

  /// Returns the device's kDevMask. It is cpu::kDevMask if the host can read the memory.
  int dev_mask() const { return device_.dev_mask(); }

  /// Returns true: every blob is contiguous.
  bool CheckContiguous() const { return true; }

  /// Returns the memory as T*. Throws Error(kInvalidArgument) if the elements have another type.
  template <typename T>
  T* dptr() const {
    RequireType(kDTypeOf<T>);
    return static_cast<T*>(dptr_);
  }

  /// Return the blob as a tensor. Each function throws Error(kInvalidArgument) if the tensor's
  /// device, rank or element type differs from the blob's. get_with_shape also throws if the number
  /// of elements differs.
  template <typename Dev, int N, typename T>
  Tensor<Dev, N, T> get(Stream<Dev>* stream = nullptr) const {
    RequireDevice(Dev::kDevMask);
    return Tensor<Dev, N, T>(dptr<T>(), shape_.get<N>(), stream);
  }
  template <typename Dev, int N, typename T>
  Tensor<Dev, N, T> get_with_shape(const Shape<N>& shape, Stream<Dev>* stream = nullptr) const {
    RequireDevice(Dev::kDevMask);
    RequireSize(shape);
    return Tensor<Dev, N, T>(dptr<T>(), shape, stream);
  }
  template <typename Dev, typename T>
  Tensor<Dev, 1, T> FlatTo1D(Stream<Dev>* stream = nullptr) const {
    return get_with_shape<Dev, 1, T>(Shape1(Size()), stream);
  }
  template <typename Dev, typename T>
  Tensor<Dev, 2, T> FlatTo2D(Stream<Dev>* stream = nullptr) const {
    return get_with_shape<Dev, 2, T>(shape_.FlatTo2D(), stream);
  }
  template <typename Dev, typename T>
  Tensor<Dev, 3, T> FlatTo3D(int axis_begin, int axis_end, Stream<Dev>* stream = nullptr) const {
    return get_with_shape<Dev, 3, T>(shape_.FlatTo3D(axis_begin, axis_end), stream);
  }
  template <typename Dev, typename T>
  Tensor<Dev, 3, T> FlatTo3D(int axis, Stream<Dev>* stream = nullptr) const {
    return FlatTo3D<Dev, T>(axis, axis, stream);
  }
  /// Returns the blob as a tensor of N dimensions. If the blob has more, the leading ones are
  /// joined into one. If it has fewer, extents of 1 are put in front.
  template <typename Dev, int N, typename T>
  Tensor<Dev, N, T> FlatToKD(Stream<Dev>* stream = nullptr) const {
    Shape<N> shape;
    const int joined = ndim() - N + 1;  // leading dimensions that become dimension 0
    for (int i = 0; i < N; ++i) shape[i] = joined + i > 0 ? shape_[joined + i - 1] : 1;
    if (joined > 0) shape[0] = shape_.ProdShape(0, joined);
    return get_with_shape<Dev, N, T>(shape, stream);
  }

  /// Returns a blob of the same memory with another shape. Throws Error(kInvalidArgument) if the
  /// number of elements differs.
  TBlob reshape(const TShape& shape) const {
    RequireSize(shape);
    return TBlob(dptr_, shape, type_flag_, device_);
  }

 private:
  void RequireDevice(int dev_mask) const;
  void RequireType(DType dtype) const;
  void RequireSize(const TShape& shape) const;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_DENSE_TBLOB_H_
