#ifndef MXNET_BASE_H_
#define MXNET_BASE_H_

// Devices, shapes, blobs and parameters, which every program in MXNet's own style has. The headers
// of this folder let operators that were written for MXNet compile unchanged on the CPU and join
// Tessera's registry.

#include <compare>
#include <cstdint>

#include "dmlc/base.h"
#include "dmlc/logging.h"
#include "dmlc/parameter.h"
#include "mshadow/tensor.h"
#include "mxnet/tensor_blob.h"
#include "mxnet/tuple.h"

/// Switches of MXNet's build, which programs test. All code is for the CPU.
#ifndef MXNET_USE_CUDA
#define MXNET_USE_CUDA 0
#endif
#ifndef MXNET_USE_CUDNN
#define MXNET_USE_CUDNN 0
#endif
#ifndef MXNET_USE_MKL2017
#define MXNET_USE_MKL2017 0
#endif
#ifndef MXNET_USE_MKLDNN
#define MXNET_USE_MKLDNN 0
#endif
#ifndef MXNET_USE_NNPACK
#define MXNET_USE_NNPACK 0
#endif
#ifndef MXNET_USE_OPENCV
#define MXNET_USE_OPENCV 0
#endif
#ifndef MXNET_PREDICT_ONLY
#define MXNET_PREDICT_ONLY 0
#endif
#define MXNET_API
#define MXNET_GPU_NOT_ENABLED_ERROR "GPU is not enabled"

namespace mxnet {

using mshadow::cpu;
using mshadow::gpu;
using mshadow::index_t;
/// The type of elements by default.
using real_t = mshadow::default_real_t;

/// A device. Operators are created for the CPU alone.
struct Context {
  /// The kinds of devices, by the numbers in MXNet's files.
  enum DeviceType { kCPU = cpu::kDevMask, kGPU = gpu::kDevMask, kCPUPinned = 3, kCPUShared = 5 };
  DeviceType dev_type = kCPU;  ///< the kind
  int32_t dev_id = 0;          ///< the number among those of its kind

  /// Returns cpu::kDevMask if the host can read the device's memory, else gpu::kDevMask.
  int dev_mask() const { return dev_type == kGPU ? gpu::kDevMask : cpu::kDevMask; }
  int real_dev_id() const { return dev_id; }

  /// Return devices. A negative number is the first one's.
  static Context Create(DeviceType type, int32_t id = -1) { return {type, id < 0 ? 0 : id}; }
  static Context CPU(int32_t id = 0) { return Create(kCPU, id); }
  static Context GPU(int32_t id = -1) { return Create(kGPU, id); }
  static Context CPUPinned(int32_t id = -1) { return Create(kCPUPinned, id); }

  auto operator<=>(const Context&) const = default;
};

/// The device and the stream that a function runs on.
struct RunContext {
  Context ctx;             ///< the device
  void* stream = nullptr;  ///< its stream

  template <typename xpu>
  mshadow::Stream<xpu>* get_stream() const {
    return static_cast<mshadow::Stream<xpu>*>(stream);
  }
  const Context& get_ctx() const { return ctx; }
};

}  // namespace mxnet

#endif  // MXNET_BASE_H_
