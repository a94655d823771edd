#ifndef TESSERA_TENSOR_COPY_H_
#define TESSERA_TENSOR_COPY_H_

#include "tessera/tensor/dense.h"

namespace tessera {

namespace tensor_internal {

/// Which of two memories is the device's.
enum class CopyDirection { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// Enqueues a copy of `rows` rows of `row_bytes` on the stream; defined by CUDA builds only.
void CopyRowsCuda(void* dst, int64_t dst_stride_bytes, const void* src, int64_t src_stride_bytes,
                  int64_t row_bytes, int64_t rows, CopyDirection direction, Stream<gpu>* stream);

}  // namespace tensor_internal

/// Copies elements between tensors of equal shape on any two devices. On the CPU the copy is done
/// when the call returns; with a GPU on either side it is enqueued on `stream` (or the GPU tensor's
/// own stream), and host memory must stay valid until the stream gets there.
/// Throws Error(kInvalidArgument) if the shapes differ.
template <typename To, typename From, int N, typename T>
void Copy(const Tensor<To, N, T>& dst, const Tensor<From, N, T>& src,
          Stream<gpu>* stream = nullptr) {
  if (dst.shape_ != src.shape_) {
    throw InvalidArgument("Copy: destination ", dst.shape_, " and source ", src.shape_,
                          " differ in shape");
  }
  if constexpr (To::kDevCPU && From::kDevCPU) {
    static_cast<void>(stream);
    expr::Assign<sv::saveto>(dst, expr::F<op::identity>(src));
  } else {
    using tensor_internal::CopyDirection;
    const CopyDirection direction = From::kDevCPU ? CopyDirection::kHostToDevice
                                    : To::kDevCPU ? CopyDirection::kDeviceToHost
                                                  : CopyDirection::kDeviceToDevice;
    if constexpr (!To::kDevCPU) {
      if (stream == nullptr) stream = dst.stream_;
    }
    if constexpr (!From::kDevCPU) {
      if (stream == nullptr) stream = src.stream_;
    }
    const Shape<2> shape = dst.shape_.FlatTo2D();
    constexpr int64_t kElementBytes = sizeof(T);
    tensor_internal::CopyRowsCuda(dst.dptr_, dst.stride_ * kElementBytes, src.dptr_,
                                  src.stride_ * kElementBytes, shape[1] * kElementBytes, shape[0],
                                  direction, stream);
  }
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_COPY_H_
