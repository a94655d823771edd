#include "tessera/base/device.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tessera/base/error.h"

namespace tessera {
namespace {

TEST(DeviceTest, PrintsAndParsesToTheSame) {
  for (const Device device :
       {Device::Cpu(), Device::Cpu(3), Device::Gpu(1), Device::CpuPinned(2), Device::CpuShared()}) {
    EXPECT_EQ(Device::Parse(device.ToString()), device) << device;
  }
  EXPECT_EQ(Device::Parse("cpu"), Device::Cpu());
  EXPECT_EQ(Device::Parse("gpu"), Device::Gpu(0));
}

TEST(DeviceTest, MalformedTextIsAnErrorThatQuotesIt) {
  for (const char* text :
       {"", "tpu", "cpu(", "cpu(x)", "cpu(-1)", "cpu(1)x", "gpu()", "cpu 1", "cpu(99999999999)"}) {
    try {
      Device::Parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("\"" + std::string(text) + "\""), std::string::npos);
    }
  }
}

TEST(DeviceTest, HostMemoryOfEveryKindHasTheCpuMask) {
  EXPECT_EQ(Device::Cpu().dev_mask(), cpu::kDevMask);
  EXPECT_EQ(Device::CpuPinned().dev_mask(), cpu::kDevMask);
  EXPECT_EQ(Device::CpuShared().dev_mask(), cpu::kDevMask);
  EXPECT_EQ(Device::Gpu().dev_mask(), gpu::kDevMask);
}

TEST(DeviceTest, HashTellsDevicesApart) {
  const std::hash<Device> hash;
  EXPECT_EQ(hash(Device::Gpu(1)), hash(Device::Gpu(1)));
  EXPECT_NE(hash(Device::Gpu(1)), hash(Device::Gpu(2)));
  EXPECT_NE(hash(Device::Gpu(1)), hash(Device::Cpu(1)));
}

}  // namespace
}  // namespace tessera
