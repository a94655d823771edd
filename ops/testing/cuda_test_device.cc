#include <cuda_runtime.h>

#include "tessera/base/error.h"
#include "tessera/ops/testing/test_device.h"
#include "tessera/tensor/stream.h"

namespace tessera::ops_testing {
namespace {

void Check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Internal(call, ": ", cudaGetErrorString(status));
}

class CudaTestDevice final : public TestDevice {
 public:
  CudaTestDevice() : stream_(NewStream<gpu>()) {}
  ~CudaTestDevice() override { DeleteStream(stream_); }

  Device device() const override { return Device::Gpu(); }
  void* stream() override { return stream_; }
  void* Allocate(int64_t size_bytes) override {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, static_cast<size_t>(size_bytes)), "cudaMalloc");
    return memory;
  }
  void Free(void* memory) override { cudaFree(memory); }
  void Upload(void* to, const void* from, int64_t size_bytes) override {
    Check(cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyHostToDevice),
          "cudaMemcpy to the device");
  }
  void Download(void* to, const void* from, int64_t size_bytes) override {
    stream_->Wait();
    Check(cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToHost),
          "cudaMemcpy from the device");
  }

 private:
  Stream<gpu>* const stream_;
};

}  // namespace

std::unique_ptr<TestDevice> MakeTestDevice() { return std::make_unique<CudaTestDevice>(); }

}  // namespace tessera::ops_testing
