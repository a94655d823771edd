#include <cuda_runtime_api.h>

#include <cstdint>
#include <latch>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

constexpr int64_t kBytes = int64_t{8} << 20;

/// Provides two independent streams, and work on the first that ends when the test says so.
class CudaStreamOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&first_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&second_, cudaStreamNonBlocking), cudaSuccess);
  }
  // A failed assertion leaves the work blocked, and the storage's destructor would wait for it.
  void TearDown() override {
    Open();
    cudaDeviceSynchronize();  // after this nothing reads the latch
    if (first_ != nullptr) cudaStreamDestroy(first_);
    cudaStreamDestroy(second_);
    for (const cudaStream_t stream : further_) cudaStreamDestroy(stream);
  }

  void HoldUpFirst() {
    const cudaError_t status = cudaLaunchHostFunc(
        first_, [](void* latch) { static_cast<std::latch*>(latch)->wait(); }, &latch_);
    ASSERT_EQ(status, cudaSuccess);
  }
  void LetFirstRun() {
    Open();
    ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  }
  void Open() {
    if (!latch_.try_wait()) latch_.count_down();
  }

  Storage storage_;
  cudaStream_t first_ = nullptr;
  cudaStream_t second_ = nullptr;
  std::vector<cudaStream_t> further_;
  std::latch latch_{1};
};

TEST_F(CudaStreamOrderTest, ABlockIsReusedAtOnceOnItsStreamAndElsewhereAfterItsWork) {
  const Storage::Handle block = storage_.AllocOnStream(kBytes, Device::Gpu(), first_);
  HoldUpFirst();
  ASSERT_EQ(cudaMemsetAsync(block.dptr, 1, static_cast<size_t>(kBytes), first_), cudaSuccess);
  storage_.FreeOnStream(block, first_);
  const Storage::Handle other = storage_.AllocOnStream(kBytes, Device::Gpu(), second_);
  EXPECT_NE(other.dptr, block.dptr);
  const Storage::Handle same = storage_.AllocOnStream(kBytes, Device::Gpu(), first_);
  EXPECT_EQ(same.dptr, block.dptr);
  storage_.FreeOnStream(same, first_);
  EXPECT_GE(storage_.Stats(Device::Gpu()).pending_bytes, kBytes);
  LetFirstRun();
  const Storage::Handle later = storage_.AllocOnStream(kBytes, Device::Gpu(), second_);
  EXPECT_EQ(later.dptr, block.dptr);
  storage_.FreeOnStream(other, second_);
  storage_.FreeOnStream(later, second_);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaStreamOrderTest, AStreamWithTheHandleOfOneThatIsGoneGetsNoneOfItsBlocks) {
  const Storage::Handle block = storage_.AllocOnStream(kBytes, Device::Gpu(), first_);
  HoldUpFirst();
  ASSERT_EQ(cudaMemsetAsync(block.dptr, 1, static_cast<size_t>(kBytes), first_), cudaSuccess);
  storage_.FreeOnStream(block, first_);
  // The stream's work continues.
  ASSERT_EQ(cudaStreamDestroy(std::exchange(first_, nullptr)), cudaSuccess);
  for (int i = 0; i < 32; ++i) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    further_.push_back(stream);
    const Storage::Handle other = storage_.AllocOnStream(kBytes, Device::Gpu(), stream);
    EXPECT_NE(other.dptr, block.dptr);
    storage_.Free(other);
  }
  Open();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(CudaStreamOrderTest, ReusedMemoryHoldsWhatTheLaterWorkWrote) {
  for (int round = 0; round < 50; ++round) {
    const Storage::Handle block = storage_.AllocOnStream(kBytes, Device::Gpu(), first_);
    ASSERT_EQ(cudaMemsetAsync(block.dptr, round, static_cast<size_t>(kBytes), first_), cudaSuccess);
    unsigned char last = 0;
    const char* const end = static_cast<char*>(block.dptr) + kBytes - 1;
    ASSERT_EQ(cudaMemcpyAsync(&last, end, 1, cudaMemcpyDeviceToHost, first_), cudaSuccess);
    storage_.FreeOnStream(block, first_);
    ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
    EXPECT_EQ(last, round);
  }
  EXPECT_EQ(storage_.Stats(Device::Gpu()).system_allocations, 1);
}

}  // namespace
}  // namespace tessera
