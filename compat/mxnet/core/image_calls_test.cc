#include "tessera/compat/mxnet/core/image_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/operators.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
NDArray ArrayOf(const TShape& shape, DType dtype, const std::vector<T>& elements) {
  NDArray array(shape, Device::Cpu(), dtype);
  array.SyncCopyFromCPU(elements.data(), static_cast<index_t>(elements.size()));
  return array;
}

template <typename T>
std::vector<T> ValuesOf(const NDArray& array) {
  std::vector<T> values(static_cast<size_t>(array.shape().Size()));
  array.SyncCopyToCPU(values.data(), array.shape().Size());
  return values;
}

NDArray Call(const std::string& name, const std::vector<NDArray>& inputs,
             const ParameterMap& parameters = {}) {
  return InvokeImageCall(OperatorOf(OperatorHandleOf(name)), inputs, parameters);
}

std::string MessageOf(const std::string& name, const std::vector<NDArray>& inputs,
                      const ParameterMap& parameters = {}) {
  try {
    Call(name, inputs, parameters);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Two pixels, red and (1, 2, 3), as a PNG file.
std::vector<uint8_t> TwoPixels() {
  const uint8_t pixels[] = {255, 0, 0, 1, 2, 3};
  return EncodePng({1, 2, 3, pixels});
}

TEST(ImageCallsTest, DecodesBytesAndFiles) {
  const std::vector<uint8_t> bytes = TwoPixels();
  const NDArray buffer = ArrayOf({static_cast<index_t>(bytes.size())}, DType::kUint8, bytes);
  const std::string path = testing::TempDir() + "/two_pixels.png";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  for (const std::string prefix : {"_", "_npi_"}) {
    const auto decode = [&](const ParameterMap& parameters) {
      return Call(prefix + "cvimdecode", {buffer}, parameters);
    };
    EXPECT_EQ(decode({}).shape(), TShape({1, 2, 3}));
    EXPECT_THAT(ValuesOf<uint8_t>(decode({})), ElementsAre(255, 0, 0, 1, 2, 3));
    EXPECT_THAT(ValuesOf<uint8_t>(decode({{"to_rgb", "0"}})), ElementsAre(0, 0, 255, 3, 2, 1));
    EXPECT_EQ(decode({{"flag", "0"}}).shape(), TShape({1, 2, 1}));
    const NDArray read = Call(prefix + "cvimread", {}, {{"filename", path}});
    EXPECT_THAT(ValuesOf<uint8_t>(read), ElementsAre(255, 0, 0, 1, 2, 3));
  }
  EXPECT_THAT(MessageOf("_cvimread", {}, {{"filename", "/no/such.png"}}),
              HasSubstr("/no/such.png: there is no such file"));
  EXPECT_THAT(MessageOf("_cvimread", {}, {{"filename", "/"}}), HasSubstr("expected a file"));
  EXPECT_THAT(MessageOf("_cvimdecode", {buffer}, {{"flag", "2"}}), HasSubstr("flag"));
  EXPECT_THAT(MessageOf("_cvimdecode", {buffer.Slice(0, 30)}), HasSubstr("truncated"));
  EXPECT_THAT(MessageOf("_cvimdecode", {}), HasSubstr("0 inputs"));
  EXPECT_THAT(MessageOf("_cvimdecode", {ArrayOf<float>({1}, DType::kFloat32, {1})}),
              HasSubstr("float32"));
}

TEST(ImageCallsTest, ResizesEachType) {
  const auto halved = [](const NDArray& image) {
    return Call("_cvimresize", {image}, {{"w", "2"}, {"h", "1"}, {"interp", "3"}});
  };
  const NDArray levels = halved(ArrayOf<uint8_t>({1, 4, 1}, DType::kUint8, {1, 3, 10, 20}));
  EXPECT_EQ(levels.shape(), TShape({1, 2, 1}));
  EXPECT_THAT(ValuesOf<uint8_t>(levels), ElementsAre(2, 15));
  const NDArray floats = halved(ArrayOf<float>({1, 4, 1}, DType::kFloat32, {1, 2, 10, 20}));
  EXPECT_THAT(ValuesOf<float>(floats), ElementsAre(1.5f, 15.0f));
  const NDArray doubles = halved(ArrayOf<double>({1, 4, 1}, DType::kFloat64, {1, 2, 10, 20}));
  EXPECT_THAT(ValuesOf<double>(doubles), ElementsAre(1.5, 15.0));
  const NDArray matrix = ArrayOf<float>({1, 2}, DType::kFloat32, {1, 2});
  EXPECT_THAT(MessageOf("_cvimresize", {matrix}, {{"w", "2"}, {"h", "1"}}), HasSubstr("(1,2)"));
  EXPECT_THAT(MessageOf("_cvimresize", {levels}, {{"w", "0"}, {"h", "1"}}), HasSubstr("w"));
  EXPECT_THAT(MessageOf("_cvimresize", {levels}, {{"w", "1"}, {"h", "1"}, {"interp", "7"}}),
              HasSubstr("interpolation 7"));
  const NDArray integers = ArrayOf<int32_t>({1, 1, 1}, DType::kInt32, {1});
  EXPECT_THAT(MessageOf("_cvimresize", {integers}, {{"w", "2"}, {"h", "1"}}), HasSubstr("int32"));
}

TEST(ImageCallsTest, AddsBorders) {
  const NDArray image = ArrayOf<uint8_t>({1, 3, 1}, DType::kUint8, {1, 2, 3});
  const auto bordered = [&](ParameterMap parameters) {
    parameters.insert({{"top", "0"}, {"bot", "0"}, {"left", "2"}, {"right", "1"}});
    return ValuesOf<uint8_t>(Call("_cvcopyMakeBorder", {image}, parameters));
  };
  EXPECT_THAT(bordered({{"value", "7"}}), ElementsAre(7, 7, 1, 2, 3, 7));
  EXPECT_THAT(bordered({{"values", "(9, 8)"}}), ElementsAre(9, 9, 1, 2, 3, 9));
  EXPECT_THAT(bordered({{"type", "1"}}), ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(bordered({{"type", "2"}}), ElementsAre(2, 1, 1, 2, 3, 3));
  EXPECT_THAT(bordered({{"type", "3"}}), ElementsAre(2, 3, 1, 2, 3, 1));
  EXPECT_THAT(bordered({{"type", "4"}}), ElementsAre(3, 2, 1, 2, 3, 2));
  EXPECT_THAT(MessageOf("_cvcopyMakeBorder", {image},
                        {{"top", "-1"}, {"bot", "0"}, {"left", "0"}, {"right", "0"}}),
              HasSubstr("top"));
}

}  // namespace
}  // namespace tessera::mxnet
