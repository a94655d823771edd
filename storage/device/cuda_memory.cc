// Allocates CUDA device memory and pinned host memory. Linked in under --config=cuda only.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/storage/device/system_allocator.h"

namespace tessera {
namespace {

/// Returns whether the call succeeded, false if the device is out of memory. Throws Error for any
/// other failure, which freeing memory cannot cure. Clears the runtime's sticky last error, so that
/// it does not surface at an unrelated call.
bool Allocated(cudaError_t status, const char* call, Device device) {
  if (status == cudaSuccess) return true;
  cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) return false;
  throw FailedPrecondition("Storage: ", call, " on ", device, ": ", cudaGetErrorString(status));
}

/// Makes a device current until the destructor.
class CurrentDevice {
 public:
  explicit CurrentDevice(int id) {
    if (cudaGetDevice(&previous_) != cudaSuccess) previous_ = id;
    status_ = cudaSetDevice(id);
  }
  ~CurrentDevice() { cudaSetDevice(previous_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  cudaError_t status() const { return status_; }

 private:
  int previous_ = 0;
  cudaError_t status_ = cudaSuccess;
};

/// Throws Error(kInvalidArgument) if the machine does not have the device.
void CheckDevice(Device device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    throw FailedPrecondition("Storage: no memory for ", device,
                             ": CUDA finds no device: ", cudaGetErrorString(status));
  }
  if (device.id >= count) {
    throw InvalidArgument("Storage: no memory for ", device, ": this machine has ", count,
                          " CUDA devices");
  }
}

class CudaMemory final : public SystemAllocator {
 public:
  explicit CudaMemory(Device device) : device_(device) { CheckDevice(device); }

  void* Allocate(int64_t size_bytes) override {
    const CurrentDevice current(device_.id);
    void* ptr = nullptr;
    if (!Allocated(current.status(), "cudaSetDevice", device_)) return nullptr;
    // cudaMalloc aligns to at least 256 bytes.
    const cudaError_t status = cudaMalloc(&ptr, static_cast<size_t>(size_bytes));
    return Allocated(status, "cudaMalloc", device_) ? ptr : nullptr;
  }

  void Release(void* ptr, int64_t) noexcept override {
    // cudaFree waits for the device's work, so that no kernel loses memory which it still uses. At
    // the end of the process the runtime may already be gone, and the memory with it.
    const CurrentDevice current(device_.id);
    cudaFree(ptr);
  }

  bool host_accessible() const override { return false; }
  // CUDA does not work in the child of a process that has used it.
  bool copied_by_fork() const override { return false; }

 private:
  const Device device_;
};

class PinnedMemory final : public SystemAllocator {
 public:
  explicit PinnedMemory(Device device) : device_(device) { CheckDevice(device); }

  void* Allocate(int64_t size_bytes) override {
    // Portable memory is pinned for every device, so the current device does not matter. The
    // runtime allocates whole pages.
    void* ptr = nullptr;
    const cudaError_t status =
        cudaHostAlloc(&ptr, static_cast<size_t>(size_bytes), cudaHostAllocPortable);
    return Allocated(status, "cudaHostAlloc", device_) ? ptr : nullptr;
  }

  void Release(void* ptr, int64_t) noexcept override { cudaFreeHost(ptr); }

  // AddressSanitizer does not see the devices' accesses. The host's are ordinary ones.
  bool host_accessible() const override { return true; }
  bool copied_by_fork() const override { return false; }

 private:
  const Device device_;
};

[[maybe_unused]] const bool registered_memory = RegisterSystemAllocator(
    DeviceType::kGpu, [](Device device) -> std::unique_ptr<SystemAllocator> {
      return std::make_unique<CudaMemory>(device);
    });

[[maybe_unused]] const bool registered_pinned = RegisterSystemAllocator(
    DeviceType::kCpuPinned, [](Device device) -> std::unique_ptr<SystemAllocator> {
      return std::make_unique<PinnedMemory>(device);
    });

}  // namespace
}  // namespace tessera
