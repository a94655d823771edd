// The engine's CUDA streams on a real device.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
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

TEST_F(CudaStreamTest, AScheduleOfCapturableOperationsIsAGraph) {
  int calls = 0;
  const auto schedule = engine_->Record(
      [&] {
        engine_->PushSync(
            [&](RunContext context) {
              ++calls;
              Check(cudaMemsetAsync(memory_, *static_cast<int*>(context.slots[0]), kBytes,
                                    static_cast<cudaStream_t>(context.stream)));
            },
            kGpu, {}, {device_data_}, {.name = "fill", .capturable = true});
        engine_->PushSync([](RunContext) {}, kGpu, {device_data_}, {},
                          {.name = "nothing", .capturable = true});
        engine_->PushSync(
            [&](RunContext context) {
              ++calls;
              Check(cudaMemcpyAsync(host_, memory_, kBytes, cudaMemcpyDeviceToHost,
                                    static_cast<cudaStream_t>(context.stream)));
            },
            kGpu, {device_data_}, {host_data_}, {.name = "copy", .capturable = true});
      },
      {.name = "fill and copy", .slots = 1});
  int value = 0;
  int other = 7;  // beside `value`, for two numbers whose lifetimes do not overlap may share memory
  void* slot = &value;
  for (; value < 60; ++value) {
    host_[kBytes - 1] = 255;
    schedule->Replay({.slots = {&slot, 1}});
    engine_->WaitForVar(host_data_);
    // The slot is the same pointer each time, so what the first call read is done again.
    EXPECT_EQ(host_[kBytes - 1], 0);
  }
  EXPECT_EQ(calls, 2);
  slot = &other;
  schedule->Replay({.slots = {&slot, 1}});
  engine_->WaitForVar(host_data_);
  EXPECT_EQ(host_[kBytes - 1], 7);
  EXPECT_EQ(calls, 4);
}

TEST_F(CudaStreamTest, WhatCannotBeCapturedIsDoneOnTheStream) {
  int calls = 0;
  const auto schedule = engine_->Record([&] {
    engine_->PushSync(
        [&](RunContext context) {
          const auto stream = static_cast<cudaStream_t>(context.stream);
          Check(cudaMemsetAsync(memory_, ++calls, kBytes, stream));
          Check(cudaStreamSynchronize(stream));  // not while it is being captured
        },
        kGpu, {}, {device_data_}, {.capturable = true});
  });
  for (int i = 0; i < 3; ++i) {
    schedule->Replay();
    PushCopyOut();
    engine_->WaitForVar(host_data_);
    EXPECT_EQ(host_[kBytes - 1], calls);
  }
  EXPECT_EQ(calls, 4) << "one attempt to capture it and three replays";
}

TEST_F(CudaStreamTest, ADeviceThatIsNotThereIsAnErrorAtThePush) {
  EXPECT_THROW(engine_->PushSync([](RunContext) {}, Device::Gpu(1000), {}, {device_data_}), Error);
}

/// Ends the process while the device works for the default engine or for a static one.
[[noreturn]] void ExitWithWorkOnTheDevice(bool for_default_engine) {
  static std::unique_ptr<Engine> of_its_own;
  void* memory = nullptr;
  Check(cudaMalloc(&memory, kBytes));
  if (!for_default_engine) of_its_own = Engine::Create({.kind = EngineKind::kThreaded});
  Engine* const engine = for_default_engine ? Engine::Get() : of_its_own.get();
  Variable* const variable = engine->NewVariable();
  for (int i = 0; i < 1000; ++i) {
    engine->PushSync(
        [memory, i](RunContext context) {
          Check(cudaMemsetAsync(memory, i, kBytes, static_cast<cudaStream_t>(context.stream)));
        },
        kGpu, {}, {variable});
    engine->PushSync([](RunContext) {}, Device::Cpu(), {variable}, {});
  }
  std::exit(0);
}

// The engine's end comes before that of CUDA's runtime. Each in a process that is started anew, for
// the child of a fork cannot use CUDA.
TEST(CudaExitDeathTest, AProcessMayExitWithWorkOnTheDevice) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(ExitWithWorkOnTheDevice(true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ExitWithWorkOnTheDevice(false), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tessera
