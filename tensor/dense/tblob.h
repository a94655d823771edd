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

/// A tensor whose device, rank and element type are known at run time: what operators are called
/// with. A handle to contiguous memory that it does not own. A file that makes a tensor of a blob,
/// or a blob of a tensor, includes "tessera/tensor/tensor.h" too.
class TBlob {
 public:
  void* dptr_ = nullptr;               ///< the first element
  TShape shape_;                       ///< the extents
  DType type_flag_ = DType::kFloat32;  ///< the element type
  Device device_;                      ///< where the memory lies

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

  /// The rank, the extent of one dimension, and the number of elements.
  int ndim() const { return shape_.ndim(); }
  index_t size(int dimension) const { return shape_[dimension]; }
  index_t Size() const { return shape_.Size(); }

  /// The device's kDevMask: cpu::kDevMask where the host can read the memory.
  int dev_mask() const { return device_.dev_mask(); }

  /// True of every blob, as of every tensor that one can be made of.
  bool CheckContiguous() const { return true; }

  /// The memory as T*. Throws Error(kInvalidArgument) if the elements are of another type.
  template <typename T>
  T* dptr() const {
    RequireType(kDTypeOf<T>);
    return static_cast<T*>(dptr_);
  }

  /// The blob as a tensor. Each throws Error(kInvalidArgument) if device, rank, element type or,
  /// for get_with_shape, the number of elements is not the blob's.
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
  /// As N dimensions: leading dimensions are joined into one where there are more, and extents of 1
  /// are put in front where there are fewer.
  template <typename Dev, int N, typename T>
  Tensor<Dev, N, T> FlatToKD(Stream<Dev>* stream = nullptr) const {
    Shape<N> shape;
    const int joined = ndim() - N + 1;  // how many leading dimensions become dimension 0
    for (int i = 0; i < N; ++i) shape[i] = joined + i > 0 ? shape_[joined + i - 1] : 1;
    if (joined > 0) shape[0] = shape_.ProdShape(0, joined);
    return get_with_shape<Dev, N, T>(shape, stream);
  }

  /// The same memory under another shape of the same size.
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
