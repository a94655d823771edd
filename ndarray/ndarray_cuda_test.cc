#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/dlpack.h"
#include "tessera/ndarray/dlpack_abi.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr Device kGpu = Device::Gpu();

NDArray OnGpu(const std::vector<float>& values) {
  return ndarray_testing::Vector(values).Copy(kGpu);
}

TEST(NDArrayCudaTest, TravelsToTheDeviceAndBack) {
  const NDArray there = OnGpu({1, 2, 3});
  EXPECT_EQ(there.device(), kGpu);
  EXPECT_THAT(there.ToVector(), ElementsAre(1, 2, 3));
  EXPECT_THAT(there.Copy(kGpu).Copy(Device::Cpu()).ToVector(), ElementsAre(1, 2, 3));
}

TEST(NDArrayCudaTest, SetsEveryElementOfEveryType) {
  for (int flag = 0; flag <= static_cast<int>(DType::kBFloat16); ++flag) {
    const auto dtype = static_cast<DType>(flag);
    NDArray array({5}, kGpu, dtype);
    array = 1.0f;
    array.Slice(1, 2) = 0.0f;
    EXPECT_THAT(array.ToVector(), ElementsAre(1, 0, 1, 1, 1)) << dtype;
  }
}

TEST(NDArrayCudaTest, ComputesElementByElementAndInPlace) {
  NDArray a = OnGpu({1, 2, 3});
  const NDArray b = OnGpu({4, 8, 5});
  EXPECT_THAT((a + b).ToVector(), ElementsAre(5, 10, 8));
  EXPECT_THAT((b * 0.5f).ToVector(), ElementsAre(2, 4, 2.5));
  a *= b;
  a -= 1.0f;
  EXPECT_THAT(a.ToVector(), ElementsAre(3, 15, 14));
}

TEST(NDArrayCudaTest, RunsABoundOperator) {
  const auto property =
      OperatorRegistry::Get().Create("sgd_mom_update", {{"lr", "0.5"}, {"momentum", "0.5"}});
  const NDArray weight = OnGpu({1, 2});
  const NDArray mom = OnGpu({0, 0});
  const BoundOperator step(*property, {weight, OnGpu({2, 4}), mom}, {weight});
  for (int i = 0; i < 2; ++i) step.Run();
  EXPECT_THAT(mom.ToVector(), ElementsAre(-1.5, -3));
  EXPECT_THAT(weight.ToVector(), ElementsAre(-1.5, -3));
}

TEST(NDArrayCudaTest, ThreadsUseTheDeviceTogether) {
  NDArray array({1 << 12}, kGpu);
  array = 0.0f;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([mine = array]() mutable {
      for (int i = 0; i < 50; ++i) mine += 1.0f;
      EXPECT_THAT((mine * 0.0f).ToVector(), Each(0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(array.ToVector(), Each(200));
}

TEST(NDArrayCudaTest, IsSavedAsAHostArray) {
  const std::string path = ::testing::TempDir() + "/gpu.params";
  SaveNDArrays(path, {{"a", OnGpu({1, 2})}});
  const NDArray loaded = LoadNDArrays(path).at("a");
  EXPECT_EQ(loaded.device(), Device::Cpu());
  EXPECT_THAT(loaded.ToVector(), ElementsAre(1, 2));
}

TEST(NDArrayCudaTest, GoesToAnotherLibraryAndBackWithoutACopy) {
  const NDArray array = OnGpu({1, 2, 3});
  DLManagedTensorVersioned* const managed = ToDLPack(array);
  EXPECT_EQ(managed->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 0);
  const NDArray back = FromDLPack(managed);
  EXPECT_EQ(back.device(), kGpu);
  EXPECT_EQ(back.data().dptr_, array.data().dptr_);
  EXPECT_THAT((back * 2.0f).ToVector(), ElementsAre(2, 4, 6));
}

TEST(NDArrayCudaTest, RefusesDevicesThatAreNotThere) {
  EXPECT_THROW(NDArray({2}, Device::Gpu(4096)), Error);
}

}  // namespace
}  // namespace tessera
