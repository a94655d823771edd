#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

TEST(CudaMemoryTest, DeviceMemoryHoldsWhatIsCopiedToIt) {
  Storage storage;
  const Storage::Handle device = storage.Alloc(3 * kMegabyte, Device::Gpu());
  const Storage::Handle pinned = storage.Alloc(3 * kMegabyte, Device::CpuPinned());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device.dptr) % 64, 0u);
  auto* bytes = static_cast<unsigned char*>(pinned.dptr);
  for (int64_t i = 0; i < pinned.size_bytes; ++i) bytes[i] = static_cast<unsigned char>(i % 251);
  const auto size = static_cast<size_t>(device.size_bytes);
  ASSERT_EQ(cudaMemcpy(device.dptr, pinned.dptr, size, cudaMemcpyHostToDevice), cudaSuccess);
  std::memset(pinned.dptr, 0, size);
  ASSERT_EQ(cudaMemcpy(pinned.dptr, device.dptr, size, cudaMemcpyDeviceToHost), cudaSuccess);
  int64_t wrong = 0;
  for (int64_t i = 0; i < pinned.size_bytes; ++i) wrong += bytes[i] != i % 251;
  EXPECT_EQ(wrong, 0);
  storage.Free(device);
  storage.Free(pinned);
}

TEST(CudaMemoryTest, PinnedMemoryIsKnownToCuda) {
  Storage storage;
  const Storage::Handle pinned = storage.Alloc(1000, Device::CpuPinned());
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned.dptr), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  storage.Free(pinned);
}

TEST(CudaMemoryTest, ReleaseAllReachesTheDriver) {
  Storage storage;
  storage.Free(storage.Alloc(64 * kMegabyte, Device::Gpu()));
  size_t free_before = 0;
  size_t free_after = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  storage.ReleaseAll(Device::Gpu());
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(storage.Stats(Device::Gpu()).reserved_bytes, 0);
  EXPECT_GE(free_after, free_before);
}

TEST(CudaMemoryTest, MoreThanTheDeviceHasIsAnErrorThatLeavesCudaUsable) {
  Storage storage;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  try {
    storage.Alloc(static_cast<int64_t>(total_bytes) * 2, Device::Gpu());
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kResourceExhausted);
    EXPECT_THAT(error.what(), testing::HasSubstr("gpu(0)"));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  storage.Free(storage.Alloc(kMegabyte, Device::Gpu()));
}

TEST(CudaMemoryTest, ADeviceThatIsNotThereIsNamed) {
  Storage storage;
  try {
    storage.Alloc(1, Device::Gpu(63));
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), testing::HasSubstr("gpu(63)"));
  }
}

}  // namespace
}  // namespace tessera
