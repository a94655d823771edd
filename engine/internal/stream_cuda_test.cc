// The engine's CUDA streams on a real device.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"

namespace tessera {
namespace {

constexpr Device kGpu = Device::Gpu(0);
constexpr size_t kBytes = size_t{1} << 24;  // takes the device a while

void Check(cudaError_t status) {
  if (status != cudaSuccess) throw FailedPrecondition(cudaGetErrorString(status));
}

class CudaStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    Check(cudaMalloc(&memory_, kBytes));
    Check(cudaMallocHost(reinterpret_cast<void**>(&host_), kBytes));
  }
  void TearDown() override {
    engine_->Shutdown();
    cudaFree(memory_);
    cudaFreeHost(host_);
  }
  void PushFill(int value) {
    engine_->PushSync(
        [this, value](RunContext context) {
          Check(cudaMemsetAsync(memory_, value, kBytes, static_cast<cudaStream_t>(context.stream)));
        },
        kGpu, {}, {device_data_}, {.name = "fill"});
  }
  void PushCopyOut() {
    engine_->PushSync(
        [this](RunContext context) {
          Check(cudaMemcpyAsync(host_, memory_, kBytes, cudaMemcpyDeviceToHost,
                                static_cast<cudaStream_t>(context.stream)));
        },
        kGpu, {device_data_}, {host_data_}, {.property = FnProperty::kCopyFromGpu, .name = "copy"});
  }

  std::unique_ptr<Engine> engine_ = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  Variable* device_data_ = engine_->NewVariable("device");
  Variable* host_data_ = engine_->NewVariable("host");
  void* memory_ = nullptr;
  uint8_t* host_ = nullptr;
};

TEST_F(CudaStreamTest, OperationsKeepTheirOrderAcrossStreamsAndOnTheHost) {
  std::vector<int> seen(100, -1);
  for (int i = 0; i < 100; ++i) {
    PushFill(i);
    PushCopyOut();
    engine_->PushSync([this, &seen, i](RunContext) { seen[i] = host_[kBytes - 1]; }, Device::Cpu(),
                      {host_data_}, {});
  }
  engine_->WaitForAll();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST_F(CudaStreamTest, AWaitReturnsWhenTheDeviceIsDone) {
  for (int i = 0; i < 50; ++i) {
    PushFill(i);
    PushCopyOut();
    engine_->WaitForVar(host_data_);
    EXPECT_EQ(host_[kBytes - 1], i);
  }
}

TEST_F(CudaStreamTest, ADeviceThatIsNotThereIsAnErrorAtThePush) {
  EXPECT_THROW(engine_->PushSync([](RunContext) {}, Device::Gpu(1000), {}, {device_data_}), Error);
}

}  // namespace
}  // namespace tessera
