// The choice between "native" and "winograd", and the reasons against "winograd".
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

struct Call {
  TShape data;
  ParameterMap parameters;
  DType dtype = DType::kFloat32;
};

/// Returns the parameters of a layer with a window of 3 x 3 that keeps the plane's size.
ParameterMap Layer(const ParameterMap& changes = {}) {
  ParameterMap parameters = {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "64"}};
  for (const auto& [name, value] : changes) parameters[name] = value;
  return parameters;
}

/// Returns the name of the implementation, or the error if `named` is none for the call.
std::string Chosen(const Call& call, const std::string& named = "") {
  const auto property = OperatorRegistry::Get().Create("Convolution", call.parameters);
  std::vector<TShape> in(property->ListArguments().size()), out(1);
  in[0] = call.data;
  property->InferShape(&in, &out);
  const std::vector<DType> types(in.size(), call.dtype);
  try {
    return property->CreateImplementation(named, Device::Cpu(), in, types)->implementation();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return error.what();
  }
}

TEST(ConvolutionChoiceTest, LayersOfManyChannelsAreWinograds) {
  EXPECT_EQ(Chosen({{1, 64, 56, 56}, Layer()}), "winograd");
  EXPECT_EQ(Chosen({{1, 32, 28, 28}, Layer({{"num_filter", "32"}, {"no_bias", "True"}})}),
            "winograd");
  EXPECT_EQ(Chosen({{8, 512, 7, 7}, Layer({{"num_filter", "512"}, {"pad", "(0, 2)"}})}),
            "winograd");
  EXPECT_EQ(Chosen({{1, 64, 56, 56}, Layer()}, "native"), "native");
}

TEST(ConvolutionChoiceTest, OtherLayersAreNativeAndTheErrorSaysWhy) {
  const TShape data = {1, 64, 56, 56};
  const auto expect_native = [](const Call& call, const std::string& reason) {
    EXPECT_EQ(Chosen(call), "native") << reason;
    const std::string error = Chosen(call, "winograd");
    EXPECT_TRUE(
        error.starts_with("Convolution: implementation \"winograd\", which the attribute "
                          "__implementation__ names, does not support "))
        << error;
    EXPECT_TRUE(error.ends_with(": " + reason)) << error;
  };
  expect_native({data, Layer(), DType::kFloat64}, "data is not float32");
  expect_native({data, Layer(), DType::kFloat16}, "data is not float32");
  expect_native({data, Layer({{"kernel", "(5, 5)"}})}, "the kernel is not 3 x 3");
  expect_native({data, Layer({{"kernel", "(3, 1)"}})}, "the kernel is not 3 x 3");
  expect_native({{1, 64, 900}, Layer({{"kernel", "(3,)"}, {"pad", "(1,)"}})},
                "the kernel is not 3 x 3");
  expect_native({{1, 64, 2, 56, 56}, Layer({{"kernel", "(1, 3, 3)"}, {"pad", "(0, 1, 1)"}})},
                "data has a depth");
  expect_native({data, Layer({{"stride", "(1, 2)"}})}, "the stride is not 1");
  expect_native({data, Layer({{"dilate", "(2, 1)"}})}, "the dilation is not 1");
  expect_native({data, Layer({{"num_group", "2"}})}, "there are several groups of channels");
  expect_native({{1, 31, 56, 56}, Layer()}, "data has fewer than 32 channels");
  expect_native({data, Layer({{"num_filter", "31"}})}, "there are fewer than 32 filters");
  expect_native({{1, 1024, 56, 56}, Layer()}, "data has too many channels for 1 MiB of workspace");
  expect_native(
      {{1, 64, 3, 3}, Layer()},
      "there are too few positions in all images to pay for the transform of the weights");
  expect_native(
      {{0, 64, 56, 56}, Layer()},
      "there are too few positions in all images to pay for the transform of the weights");
}

TEST(ConvolutionChoiceTest, TheFormOfWeightsIsThatOfTheImplementation) {
  const auto property = OperatorRegistry::Get().Create("Convolution", Layer({{"no_bias", "True"}}));
  const std::vector<DType> types(2, DType::kFloat32);
  const auto form_of = [&](const std::string& name, index_t extent, int input) {
    const std::vector<TShape> in = {{1, 64, extent, extent}, {64, 64, 3, 3}};
    return property->CreateImplementation(name, Device::Cpu(), in, types)
        ->InputForm(input, Device::Cpu(), in, types);
  };
  const PreparedForm large = form_of("winograd", 56, 1), small = form_of("winograd", 14, 1);
  const PreparedForm native = form_of("native", 56, 1);
  // 36 and 16 terms, with 16 elements between those of two terms.
  EXPECT_EQ(large.size_bytes, 36 * (64 * 64 + 16) * 4);
  EXPECT_EQ(small.size_bytes, 16 * (64 * 64 + 16) * 4);
  EXPECT_NE(large.name, small.name);
  EXPECT_NE(large.name, native.name);
  EXPECT_EQ(form_of("winograd", 56, 0).size_bytes, 0);
}

}  // namespace
}  // namespace tessera
