// Records CUDA's events, for reuse of device memory in stream order. Linked in under --config=cuda
// only.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/storage/device/stream_events.h"

namespace tessera {
namespace {

/// Reuses events, because making one costs microseconds and recording it far less.
class CudaStreamEvents final : public StreamEvents {
 public:
  explicit CudaStreamEvents(Device device) : device_(device) {}
  ~CudaStreamEvents() override {
    for (cudaEvent_t event : spare_) cudaEventDestroy(event);
  }

  void* Record(void* stream) override {
    cudaEvent_t event = TakeEvent();
    const cudaError_t status = cudaEventRecord(event, static_cast<cudaStream_t>(stream));
    if (status == cudaSuccess) return event;
    Release(event);
    throw Failed("cudaEventRecord", status);
  }

  uint64_t Identify(void* stream) override {
#if CUDART_VERSION >= 12000
    // A destroyed stream still does its work, while another stream may have the same handle.
    unsigned long long number = 0;
    const cudaError_t status = cudaStreamGetId(static_cast<cudaStream_t>(stream), &number);
    if (status != cudaSuccess) throw Failed("cudaStreamGetId", status);
    return number;
#else
    return StreamEvents::Identify(stream);
#endif
  }

  bool HasHappened(void* event) noexcept override {
    const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event));
    // CUDA remembers "not ready" as its last error although it is no failure.
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess;
  }

  bool Wait(void* event) noexcept override {
    const cudaError_t status = cudaEventSynchronize(static_cast<cudaEvent_t>(event));
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess;
  }

  void Release(void* event) noexcept override {
    // TakeEvent reserved capacity for every event that it made.
    spare_.push_back(static_cast<cudaEvent_t>(event));
  }

 private:
  Error Failed(const char* call, cudaError_t status) const {
    cudaGetLastError();
    return FailedPrecondition("Storage: ", call, " on ", device_, ": ", cudaGetErrorString(status));
  }

  cudaEvent_t TakeEvent() {
    if (!spare_.empty()) {
      cudaEvent_t event = spare_.back();
      spare_.pop_back();
      return event;
    }
    if (spare_.capacity() < made_ + 1) spare_.reserve(2 * made_ + 16);
    // An event belongs to the device that is current when it is made.
    int previous = device_.id;
    cudaGetDevice(&previous);
    cudaEvent_t event = nullptr;
    cudaError_t status = cudaSetDevice(device_.id);
    if (status == cudaSuccess) status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaSetDevice(previous);
    if (status != cudaSuccess) throw Failed("cudaEventCreateWithFlags", status);
    ++made_;
    return event;
  }

  const Device device_;
  std::vector<cudaEvent_t> spare_;
  size_t made_ = 0;
};

[[maybe_unused]] const bool registered =
    RegisterStreamEvents(DeviceType::kGpu, [](Device device) -> std::unique_ptr<StreamEvents> {
      return std::make_unique<CudaStreamEvents>(device);
    });

}  // namespace
}  // namespace tessera
