// The setting TESSERA_CONVOLUTION, which a process reads once.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

/// Returns the implementation of a layer that "winograd" supports, or the error.
std::string Chosen(const std::string& named = "") {
  const auto property = OperatorRegistry::Get().Create(
      "Convolution",
      {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "64"}, {"no_bias", "True"}});
  const std::vector<TShape> in = {{1, 64, 56, 56}, {64, 64, 3, 3}};
  const std::vector<DType> types(2, DType::kFloat32);
  try {
    return property->CreateImplementation(named, Device::Cpu(), in, types)->implementation();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return error.what();
  }
}

void Set(const char* value) { setenv("TESSERA_CONVOLUTION", value, /*overwrite=*/1); }

TEST(ConvolutionSettingTest, ExactLeavesWinogradOut) {
  Set("Exact");
  EXPECT_EQ(Chosen(), "environment variable TESSERA_CONVOLUTION=\"Exact\": expected fast or exact");
  EXPECT_EQ(Chosen("native"), "native") << "the call names another implementation";
  Set("exact");
  EXPECT_EQ(Chosen(), "native");
  EXPECT_EQ(Chosen("winograd"),
            "Convolution: implementation \"winograd\", which the attribute __implementation__ "
            "names, does not support float32(1,64,56,56), float32(64,64,3,3): the setting "
            "TESSERA_CONVOLUTION is exact");
  Set("fast");
  EXPECT_EQ(Chosen(), "native") << "it is read once";
}

}  // namespace
}  // namespace tessera
