#include "tessera/ndarray/memory/device_runtime.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// A device that is host memory after all, whose streams do their work when they are waited for:
/// work that nobody waits for never shows.
class LazyDevice final : public DeviceRuntime {
 public:
  void* AcquireStream(Device) override {
    ++lent;
    return new Work();
  }
  void Wait(void* stream) override {
    auto* const work = static_cast<Work*>(stream);
    for (const auto& piece : *work) piece();
    work->clear();
    if (fail_waits) throw Internal("the device broke");
  }
  void ReleaseStream(void* stream) noexcept override {
    auto* const work = static_cast<Work*>(stream);
    EXPECT_TRUE(work->empty());
    delete work;
    --lent;
  }
  void CopyBytes(void* dst, const void* src, int64_t size_bytes, void* stream) override {
    static_cast<Work*>(stream)->push_back(
        [=] { std::memcpy(dst, src, static_cast<size_t>(size_bytes)); });
  }
  void Fill(const TBlob& dst, const Number& value, void* stream) override {
    static_cast<Work*>(stream)->push_back([=] {
      for (index_t i = 0; i < dst.Size(); ++i) dst.dptr<float>()[i] = value.Element<float>();
    });
  }

  std::atomic<int> lent{0};
  std::atomic<bool> fail_waits{false};

 private:
  using Work = std::vector<std::function<void()>>;
};

class DeviceRuntimeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RegisterDeviceRuntime(DeviceType::kGpu, &device); }
  static void TearDownTestSuite() { NDArray::WaitAll(); }

  /// An array on the device, in memory of the test's.
  static NDArray ArrayThere(std::vector<float>* memory, const TShape& shape, int id = 0) {
    return NDArray(TBlob(memory->data(), shape, DType::kFloat32, Device::Gpu(id)));
  }

  // Never destroyed, like every runtime.
  static LazyDevice& device;
};

LazyDevice& DeviceRuntimeTest::device = *new LazyDevice();

TEST_F(DeviceRuntimeTest, HostWorkHasNoStream) {
  void* seen = &seen;
  RunOnDevice(Device::Cpu(), [&](void* stream) { seen = stream; });
  EXPECT_EQ(seen, nullptr);
  RunOnDevice(Device::CpuPinned(), [&](void* stream) { seen = stream; });
  EXPECT_EQ(seen, nullptr);
}

TEST_F(DeviceRuntimeTest, WaitsForTheWorkAndGivesTheStreamBack) {
  int from = 5;
  int to = 0;
  RunOnDevice(Device::Gpu(), [&](void* stream) {
    ASSERT_NE(stream, nullptr);
    EXPECT_EQ(device.lent, 1);
    RuntimeFor(Device::Gpu()).CopyBytes(&to, &from, sizeof(from), stream);
    EXPECT_EQ(to, 0);
  });
  EXPECT_EQ(to, 5);
  EXPECT_EQ(device.lent, 0);
}

TEST_F(DeviceRuntimeTest, WaitsForTheWorkBeforeAnExceptionGoesOn) {
  int from = 5;
  int to = 0;
  EXPECT_THROW(RunOnDevice(Device::Gpu(),
                           [&](void* stream) {
                             RuntimeFor(Device::Gpu()).CopyBytes(&to, &from, sizeof(from), stream);
                             throw std::runtime_error("after the work was enqueued");
                           }),
               std::runtime_error);
  EXPECT_EQ(to, 5);
  EXPECT_EQ(device.lent, 0);
}

TEST_F(DeviceRuntimeTest, FailedWorkIsAnErrorOfTheCaller) {
  device.fail_waits = true;
  try {
    RunOnDevice(Device::Gpu(), [](void*) {});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInternal);
  }
  device.fail_waits = false;
  EXPECT_EQ(device.lent, 0);
}

TEST_F(DeviceRuntimeTest, ArraysTravelToTheDeviceAndBack) {
  std::vector<float> memory(4), other_memory(4);
  const NDArray host = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {2, 2});
  NDArray there = ArrayThere(&memory, {2, 2});
  CopyFromTo(host, there);
  EXPECT_EQ(there.device(), Device::Gpu());
  EXPECT_THAT(there.ToVector(), ElementsAre(1, 2, 3, 4));
  there.At(0) = 9.0f;
  const NDArray other = ArrayThere(&other_memory, {2, 2}, 1);
  CopyFromTo(there, other);
  EXPECT_THAT(other.Copy(Device::Cpu()).ToVector(), ElementsAre(9, 9, 3, 4));
  const float values[4] = {5, 5, 5, 5};
  there.SyncCopyFromCPU(values, 4);
  EXPECT_THAT(there.ToVector(), Each(5));
  EXPECT_EQ(device.lent, 0);
}

TEST_F(DeviceRuntimeTest, OperatorsRefuseMixedDevices) {
  std::vector<float> memory(2);
  const NDArray host({2});
  const NDArray there = ArrayThere(&memory, {2});
  try {
    host + there;
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rhs lies on gpu(0)"));
  }
}

TEST_F(DeviceRuntimeTest, AFailedWaitSurfacesAtTheArray) {
  std::vector<float> memory(2);
  NDArray there = ArrayThere(&memory, {2});
  device.fail_waits = true;
  there = 1.0f;
  EXPECT_THROW(there.WaitToRead(), Error);
  device.fail_waits = false;
  there = 2.0f;
  EXPECT_THAT(there.ToVector(), Each(2));
}

TEST(DeviceRuntimeAbsentTest, SaysWhichBuildIsNeeded) {
  // A kind of device that no build has.
  const Device device = {static_cast<DeviceType>(7), 0};
  try {
    RuntimeFor(device);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kUnimplemented);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--config=cuda"));
  }
}

}  // namespace
}  // namespace tessera
