#ifndef TESSERA_TENSOR_DENSE_COPY_H_
#define TESSERA_TENSOR_DENSE_COPY_H_

#include "tessera/tensor/dense/dense.h"

namespace tessera {

namespace tensor_internal {

/// Which of two memories is the device's.
enum class CopyDirection { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// Enqueues a copy of `rows` rows of `row_bytes` on the stream; defined by CUDA builds only.
void CopyRowsCuda(void* dst, int64_t dst_stride_bytes, const void* src, int64_t src_stride_bytes,
                  int64_t row_bytes, int64_t rows, CopyDirection direction, Stream<gpu>* stream);

template <typename To, typename From, int N, typename T>
void RequireSameShape(const Tensor<To, N, T>& dst, const Tensor<From, N, T>& src) {
  if (dst.shape_ != src.shape_) {
    throw InvalidArgument("Copy: destination ", dst.shape_, " and source ", src.shape_,
                          " differ in shape");
  }
}

}  // namespace tensor_internal

/// Copies elements between tensors of equal shape, at least one of them on a GPU: enqueues the copy
/// on `stream` and returns. Host memory must stay valid until the stream gets there.
/// Throws Error(kInvalidArgument) if the shapes differ, Error(kFailedPrecondition) without a
/// stream.
template <typename To, typename From, int N, typename T>
requires(!To::kDevCPU || !From::kDevCPU) void Copy(const Tensor<To, N, T>& dst,
                                                   const Tensor<From, N, T>& src,
                                                   Stream<gpu>* stream) {
  using tensor_internal::CopyDirection;
  tensor_internal::RequireSameShape(dst, src);
  const CopyDirection direction = From::kDevCPU ? CopyDirection::kHostToDevice
                                  : To::kDevCPU ? CopyDirection::kDeviceToHost
                                                : CopyDirection::kDeviceToDevice;
  const Shape<2> shape = dst.shape_.FlatTo2D();
  constexpr int64_t kElementBytes = sizeof(T);
  tensor_internal::CopyRowsCuda(dst.dptr_, dst.stride_ * kElementBytes, src.dptr_,
                                src.stride_ * kElementBytes, shape[1] * kElementBytes, shape[0],
                                direction, stream);
}

/// The same between host tensors, done when the call returns. Code that is written for any device
/// may pass the stream that a CPU has, which changes nothing.
template <int N, typename T>
void Copy(const Tensor<cpu, N, T>& dst, const Tensor<cpu, N, T>& src, Stream<cpu>* stream) {
  static_cast<void>(stream);
  tensor_internal::RequireSameShape(dst, src);
  expr::Assign<sv::saveto>(dst, expr::F<op::identity>(src));
}

/// The same between any two devices, done when the call returns: with a GPU on either side it runs
/// on that tensor's own stream (the destination's, if both have one) and waits for it.
template <typename To, typename From, int N, typename T>
void Copy(const Tensor<To, N, T>& dst, const Tensor<From, N, T>& src) {
  if constexpr (To::kDevCPU && From::kDevCPU) {
    Copy(dst, src, static_cast<Stream<cpu>*>(nullptr));
  } else {
    Stream<gpu>* stream = nullptr;
    if constexpr (!From::kDevCPU) stream = src.stream_;
    if constexpr (!To::kDevCPU) stream = dst.stream_ != nullptr ? dst.stream_ : stream;
    if (stream == nullptr) stream = FallbackStream();
    Copy(dst, src, stream);
    if (stream != nullptr) stream->Wait();
  }
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_DENSE_COPY_H_
