#ifndef MXNET_TENSOR_BLOB_H_
#define MXNET_TENSOR_BLOB_H_

#include <cstddef>
#include <type_traits>

#include "dmlc/logging.h"
#include "mshadow/tensor.h"
#include "mxnet/tuple.h"

namespace mxnet {

/// A tensor whose device, number of dimensions and element type are known at run time. mshadow's
/// class has its tensors: get, get_with_shape, FlatTo1D, FlatTo2D, FlatTo3D, FlatToKD.
class TBlob : public mshadow::TBlob {
 public:
  using mshadow::TBlob::TBlob;
  TBlob() = default;
  /// Constructs a blob of contiguous memory on the device of that number.
  template <typename DType>
  requires(!std::is_void_v<DType>)
      TBlob(DType* dptr, const TShape& shape, int dev_mask, [[maybe_unused]] int dev_id)
      : mshadow::TBlob(dptr, shape, dev_mask) {}
  TBlob(void* dptr, const TShape& shape, int dev_mask, int type_flag, [[maybe_unused]] int dev_id)
      : mshadow::TBlob(dptr, shape, dev_mask, type_flag) {}

  /// Return the device's mask, cpu::kDevMask, and its number.
  int dev_mask() const { return dev_mask_; }
  int dev_id() const { return 0; }
  /// Returns the number of elements, in the type that programs compare it with.
  size_t Size() const { return static_cast<size_t>(shape_.Size()); }

  /// Returns a blob of the same memory with another shape. Throws Error(kInvalidArgument) if the
  /// number of elements differs.
  TBlob reshape(const TShape& shape) const {
    CHECK_EQ(shape.Size(), shape_.Size()) << "shape " << shape_ << " cannot be seen as " << shape;
    TBlob other(*this);
    other.shape_ = shape;
    other.stride_ = shape.ndim() > 0 ? shape.end()[-1] : 1;
    return other;
  }
};

}  // namespace mxnet

#endif  // MXNET_TENSOR_BLOB_H_
