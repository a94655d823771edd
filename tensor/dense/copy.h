#ifndef TESSERA_TENSOR_DENSE_COPY_H_
#define TESSERA_TENSOR_DENSE_COPY_H_

#include "tessera/tensor/dense/dense.h"

namespace tessera {

namespace tensor_internal {

/// Tells which of two memories belongs to the device.
enum class CopyDirection { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// Enqueues a copy of `rows` rows of `row_bytes` bytes on the stream. Only CUDA builds define it.
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

/// Enqueues on `stream` a copy of all elements between tensors of equal shape, and returns. At
/// least one of the tensors is on a GPU. Host memory must stay valid until the stream has made the
/// copy. Throws Error(kInvalidArgument) if the shapes differ, and Error(kFailedPrecondition)
/// without a stream.
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

/// Copies all elements between host tensors of equal shape, and returns when the copy is made. The
/// stream is ignored; it lets code for any device call one function. Throws Error(kInvalidArgument)
/// if the shapes differ.
template <int N, typename T>
void Copy(const Tensor<cpu, N, T>& dst, const Tensor<cpu, N, T>& src, Stream<cpu>* stream) {
  static_cast<void>(stream);
  tensor_internal::RequireSameShape(dst, src);
  expr::Assign<sv::saveto>(dst, expr::F<op::identity>(src));
}

/// Copies all elements between tensors of equal shape on any two devices, and returns when the copy
/// is made. A copy with a GPU on either side runs on that tensor's own stream, or on the
/// destination's if both have one, and waits for it. Throws Error(kInvalidArgument) if the shapes
/// differ.
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
