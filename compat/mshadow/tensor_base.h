#ifndef MSHADOW_TENSOR_BASE_H_
#define MSHADOW_TENSOR_BASE_H_

// Tensors, memory, copies and streams. The tensors are Tessera's. base.h explains why `mshadow` is
// a namespace of its own.

#include <cstring>
#include <type_traits>

#include "mshadow/base.h"
#include "mshadow/expression.h"
#include "tessera/tensor/tensor.h"

namespace mshadow {

using tessera::AllocHost;
using tessera::AllocSpace;
using tessera::Copy;
using tessera::DeleteStream;
using tessera::FreeHost;
using tessera::FreeSpace;
using tessera::NewStream;
using tessera::NewTensor;
using tessera::SetDevice;
using tessera::Shape;
using tessera::Shape1;
using tessera::Shape2;
using tessera::Shape3;
using tessera::Shape4;
using tessera::Shape5;
using tessera::Stream;
using tessera::Tensor;
using tessera::TRValue;

/// Selects the device on which this thread allocates; a negative number keeps the current one. On a
/// GPU it also provides a stream for tensors without one, which programs from before streams
/// create. Each call needs a ShutdownTensorEngine.
template <typename Device>
inline void InitTensorEngine(int device_id = 0) {
  if (device_id >= 0) SetDevice<Device>(device_id);
  if constexpr (!Device::kDevCPU) {
    if (tessera::FallbackStream() == nullptr) {
      tessera::SetFallbackStream(NewStream<gpu>(device_id < 0 ? 0 : device_id));
    }
  }
}
/// Waits for the stream that InitTensorEngine created, and deletes it.
template <typename Device>
inline void ShutdownTensorEngine() {
  if constexpr (!Device::kDevCPU) {
    Stream<gpu>* const stream = tessera::FallbackStream();
    if (stream == nullptr) return;
    tessera::SetFallbackStream(nullptr);
    stream->Wait();
    DeleteStream(stream);
  }
}

/// Call the functions with a device argument, for programs that were written before it existed. The
/// device is a GPU if the program is compiled for one.
inline void InitTensorEngine(int device_id = 0) {
  InitTensorEngine<std::conditional_t<MSHADOW_USE_CUDA != 0, gpu, cpu>>(device_id);
}
inline void ShutdownTensorEngine() {
  ShutdownTensorEngine<std::conditional_t<MSHADOW_USE_CUDA != 0, gpu, cpu>>();
}

/// Returns a stream on the device of that number, or on the current one if it is negative. A GPU's
/// stream always has a cuBLAS handle and never one of cuDNN.
template <typename Device>
inline Stream<Device>* NewStream(bool create_blas_handle, bool create_dnn_handle, int dev_id = 0) {
  static_cast<void>(create_blas_handle);
  static_cast<void>(create_dnn_handle);
  return NewStream<Device>(dev_id < 0 ? 0 : dev_id);
}

/// Call AllocSpace and FreeSpace with a reference, which programs of early 2014 pass.
template <typename Device, int dim, typename DType>
inline void AllocSpace(Tensor<Device, dim, DType>& tensor, bool pad = MSHADOW_ALLOC_PAD) {
  AllocSpace(&tensor, pad);
}
template <typename Device, int dim, typename DType>
inline void FreeSpace(Tensor<Device, dim, DType>& tensor) {
  FreeSpace(&tensor);
}
/// Return a tensor on the CPU (C) or on a GPU (G), as functions of early 2014. FreeSpace frees it.
template <int dim>
inline Tensor<cpu, dim, real_t> NewCTensor(const Shape<dim>& shape, real_t initial) {
  return NewTensor<cpu>(shape, initial);
}
template <int dim>
inline Tensor<gpu, dim, real_t> NewGTensor(const Shape<dim>& shape, real_t initial) {
  return NewTensor<gpu>(shape, initial);
}

/// Returns the shape of an image tensor in another layout. Throws Error(kInvalidArgument) unless
/// both layouts have dim dimensions.
template <int dim>
inline Shape<dim> ConvertLayout(const Shape<dim>& shape, int from, int to) {
  static_assert(3 <= dim && dim <= 5, "layouts exist for three, four and five dimensions");
  // Returns a layout's dimensions by name: number, channel, depth, height, width.
  const auto names = [](int layout) -> const char* {
    constexpr const char* k3[] = {"NCW", "NWC", "CWN"};
    constexpr const char* k4[] = {"NCHW", "NHWC", "CHWN"};
    constexpr const char* k5[] = {"NCDHW", "NDHWC", "CDHWN"};
    constexpr int kFirst = dim == 4 ? kNCHW : dim == 3 ? kNCW : kNCDHW;
    if (layout < kFirst || layout >= kFirst + 3) {
      throw tessera::InvalidArgument("ConvertLayout: layout ", layout, " is not one of ", dim,
                                     " dimensions");
    }
    return (dim == 4 ? k4 : dim == 3 ? k3 : k5)[layout - kFirst];
  };
  const char* const source = names(from);
  const char* const target = names(to);
  Shape<dim> converted;
  for (int i = 0; i < dim; ++i) converted[i] = shape[std::strchr(source, target[i]) - source];
  return converted;
}

}  // namespace mshadow

#endif  // MSHADOW_TENSOR_BASE_H_
