// Arrays on NVIDIA GPUs: streams, copies and fills through the CUDA runtime.

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/tensor/tensor.h"

namespace tessera {
namespace {

void CheckCuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw Internal("NDArray on gpu: ", call, ": ", cudaGetErrorString(status));
}

/// Streams are kept for reuse and never destroyed. Creating one with its cuBLAS handle takes
/// milliseconds, and at exit the driver may be unloaded before this object.
class CudaRuntime final : public DeviceRuntime {
 public:
  void* AcquireStream(Device device) override {
    RequireDevice(device);
    CheckCuda(cudaSetDevice(device.id), "cudaSetDevice");
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::vector<Stream<gpu>*>& idle = idle_[device.id];
      if (!idle.empty()) {
        // The stream released last is taken, because its cuBLAS workspace is most likely still in
        // the L2 cache.
        Stream<gpu>* const stream = idle.back();
        idle.pop_back();
        return stream;
      }
      // Capacity is reserved for every lent stream, so that ReleaseStream cannot fail.
      idle.reserve(static_cast<size_t>(++made_[device.id]));
    }
    return NewStream<gpu>(device.id);
  }

  void Wait(void* stream) override { static_cast<Stream<gpu>*>(stream)->Wait(); }

  void ReleaseStream(void* stream) noexcept override {
    auto* const released = static_cast<Stream<gpu>*>(stream);
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_[released->dev_id].push_back(released);
  }

  void CopyBytes(void* dst, const void* src, int64_t size_bytes, void* stream) override {
    // The driver distinguishes host memory and each GPU's memory by the addresses.
    CheckCuda(
        cudaMemcpyAsync(dst, src, static_cast<size_t>(size_bytes), cudaMemcpyDefault,
                        static_cast<cudaStream_t>(static_cast<Stream<gpu>*>(stream)->stream_)),
        "cudaMemcpyAsync");
  }

  void Fill(const TBlob& dst, const Number& value, void* stream) override {
    VisitDType(dst.type_flag_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      dst.FlatTo1D<gpu, T>(static_cast<Stream<gpu>*>(stream)) = value.Element<T>();
    });
  }

 private:
  static void RequireDevice(Device device) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
      throw FailedPrecondition("NDArray: ", device,
                               " cannot be used: ", cudaGetErrorString(status));
    }
    if (device.id < 0 || device.id >= count) {
      throw InvalidArgument("NDArray: there is no ", device, "; this machine has ", count,
                            " CUDA device(s)");
    }
  }

  std::mutex mutex_;  // guards idle_ and made_
  std::map<int, std::vector<Stream<gpu>*>> idle_;
  std::map<int, int> made_;
};

[[maybe_unused]] const bool registered = RegisterDeviceRuntime(DeviceType::kGpu, new CudaRuntime());

}  // namespace
}  // namespace tessera
