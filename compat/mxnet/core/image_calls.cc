#include "tessera/compat/mxnet/core/image_calls.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/image/border.h"
#include "tessera/image/decode.h"
#include "tessera/image/image.h"
#include "tessera/image/resize.h"

namespace tessera::mxnet {
namespace {

struct DecodeParameters {
  int flag = 1;
  bool to_rgb = true;

  static void Declare(ParameterSchema<DecodeParameters>& schema) {
    using P = DecodeParameters;
    schema.Optional("flag", &P::flag, "0 for gray, 1 for color");
    schema.Range(0, 1);
    schema.Optional("to_rgb", &P::to_rgb, "whether red comes first, and not blue");
  }
};

struct ReadParameters {
  std::string filename;
  int flag = 1;
  bool to_rgb = true;

  static void Declare(ParameterSchema<ReadParameters>& schema) {
    using P = ReadParameters;
    schema.Required("filename", &P::filename, "the image file");
    schema.Optional("flag", &P::flag, "0 for gray, 1 for color");
    schema.Range(0, 1);
    schema.Optional("to_rgb", &P::to_rgb, "whether red comes first, and not blue");
  }
};

struct ResizeParameters {
  int w = 0, h = 0;
  int interp = 1;

  static void Declare(ParameterSchema<ResizeParameters>& schema) {
    using P = ResizeParameters;
    schema.Required("w", &P::w, "the width of the result");
    schema.Range(1);
    schema.Required("h", &P::h, "the height of the result");
    schema.Range(1);
    schema.Optional("interp", &P::interp,
                    "0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes");
  }
};

struct BorderParameters {
  int top = 0, bot = 0, left = 0, right = 0;
  int type = 0;
  double value = 0;
  std::vector<float> values;

  static void Declare(ParameterSchema<BorderParameters>& schema) {
    using P = BorderParameters;
    schema.Required("top", &P::top, "rows above the image");
    schema.Range(0);
    schema.Required("bot", &P::bot, "rows below it");
    schema.Range(0);
    schema.Required("left", &P::left, "columns to its left");
    schema.Range(0);
    schema.Required("right", &P::right, "columns to its right");
    schema.Range(0);
    schema.Optional("type", &P::type,
                    "0 constant, 1 replicate, 2 reflect, 3 wrap, 4 reflect without the border");
    schema.Range(0, 4);
    schema.Optional("value", &P::value, "of all channels, for type 0");
    schema.Optional("values", &P::values, "of each channel, for type 0");
  }
};

/// Returns an array of those elements.
template <typename T>
NDArray ArrayOf(const TShape& shape, DType dtype, const std::vector<T>& elements) {
  NDArray array(shape, Device::Cpu(), dtype);
  array.SyncCopyFromCPU(elements.data(), static_cast<index_t>(elements.size()));
  return array;
}

NDArray Decode(std::span<const uint8_t> file, std::string_view name, int flag, bool to_rgb) {
  Image image;
  DecodeImage(
      file, name,
      {.channels = flag == 0 ? 1 : 3, .order = to_rgb ? ColorOrder::kRgb : ColorOrder::kBgr},
      &image);
  return ArrayOf({image.height, image.width, image.channels}, DType::kUint8, image.pixels);
}

std::vector<uint8_t> ReadWholeFile(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) throw NotFound(path, ": there is no such file");
  if (!std::filesystem::is_regular_file(path, failed)) {
    throw InvalidArgument(path, ": is a folder or a device, expected a file");
  }
  const auto size_bytes = std::filesystem::file_size(path, failed);
  std::ifstream file(path, std::ios::binary);
  if (failed || !file.is_open()) throw FailedPrecondition(path, ": the file cannot be opened");
  std::vector<uint8_t> bytes(static_cast<size_t>(size_bytes));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

/// Returns the only input on the host, after a wait for its elements.
NDArray OnlyInput(const ApiOperator& op, std::span<const NDArray> inputs) {
  if (inputs.size() != 1 || inputs[0].is_none()) {
    throw InvalidArgument(op.name, ": ", inputs.size(), " inputs are given, expected one array");
  }
  const NDArray input =
      inputs[0].device().type == DeviceType::kCpu ? inputs[0] : inputs[0].Copy(Device::Cpu());
  input.WaitToRead();
  return input;
}

NDArray DecodeInput(const ApiOperator& op, std::span<const NDArray> inputs,
                    const DecodeParameters& param) {
  const NDArray input = OnlyInput(op, inputs);
  if (input.dtype() != DType::kUint8 || input.shape().ndim() != 1) {
    throw InvalidArgument(op.name, ": buf has element type ", input.dtype(), " and shape ",
                          input.shape(), ", expected the bytes of a file: uint8, one dimension");
  }
  const std::span<const uint8_t> file(static_cast<const uint8_t*>(input.data().dptr_),
                                      static_cast<size_t>(input.shape().Size()));
  return Decode(file, op.name, param.flag, param.to_rgb);
}

/// Returns the pixels of an array of shape (height, width, channels).
template <typename T>
ImageView<const T> ViewOf(const NDArray& array) {
  const TShape& shape = array.shape();
  return {shape[0], shape[1], shape[2], static_cast<const T*>(array.data().dptr_)};
}

/// Returns change(T{}), where T is the element type of an image.
template <typename Change>
NDArray VisitImage(const ApiOperator& op, const NDArray& image, const Change& change) {
  if (image.shape().ndim() != 3) {
    throw InvalidArgument(op.name, ": src has shape ", image.shape(),
                          ", expected (height, width, channels)");
  }
  switch (image.dtype()) {
    case DType::kUint8:
      return change(uint8_t{});
    case DType::kFloat32:
      return change(float{});
    case DType::kFloat64:
      return change(double{});
    default:
      throw InvalidArgument(op.name, ": src has element type ", image.dtype(),
                            ", expected uint8, float32 or float64");
  }
}

/// Returns room for an image. Throws Error(kInvalidArgument) if its size does not fit in 63 bits.
template <typename T>
std::vector<T> PixelsOf(const TShape& shape) {
  const CheckedSize size = CheckedSize(shape[0]) * shape[1] * shape[2] * int64_t{sizeof(T)};
  return std::vector<T>(static_cast<size_t>(size.ValueOrThrow("the image's bytes")) / sizeof(T));
}

NDArray Resize(const ApiOperator& op, const NDArray& image, const ResizeParameters& param) {
  return VisitImage(op, image, [&](auto one) {
    using T = decltype(one);
    const ImageView<const T> in = ViewOf<T>(image);
    const ImageSize size = {param.h, param.w};
    const Interpolation interpolation =
        ChooseInterpolation(op.name, param.interp, {in.height, in.width}, size, 0);
    const TShape shape = {size.height, size.width, in.channels};
    std::vector<T> pixels = PixelsOf<T>(shape);
    ResizeImage<T>(in, {size.height, size.width, in.channels, pixels.data()}, interpolation);
    return ArrayOf(shape, image.dtype(), pixels);
  });
}

NDArray AddBorder(const ApiOperator& op, const NDArray& image, const BorderParameters& param) {
  return VisitImage(op, image, [&](auto one) {
    using T = decltype(one);
    const ImageView<const T> in = ViewOf<T>(image);
    const TShape shape = {in.height + param.top + param.bot, in.width + param.left + param.right,
                          in.channels};
    std::vector<T> pixels = PixelsOf<T>(shape);
    std::vector<double> values(param.values.begin(), param.values.end());
    if (values.empty()) values.assign(static_cast<size_t>(in.channels), param.value);
    CopyWithBorder<T>(in, param.top, param.left, static_cast<BorderType>(param.type), values,
                      {shape[0], shape[1], shape[2], pixels.data()});
    return ArrayOf(shape, image.dtype(), pixels);
  });
}

template <typename Parameters>
Parameters Parse(const ApiOperator& op, const ParameterMap& parameters) {
  return ParameterSchema<Parameters>::Get().Parse(op.name, parameters);
}

}  // namespace

NDArray InvokeImageCall(const ApiOperator& op, std::span<const NDArray> inputs,
                        const ParameterMap& parameters) {
  const std::string_view name = op.name;
  if (name.ends_with("cvimread")) {
    const auto param = Parse<ReadParameters>(op, parameters);
    return Decode(ReadWholeFile(param.filename), param.filename, param.flag, param.to_rgb);
  }
  if (name.ends_with("cvimdecode")) {
    return DecodeInput(op, inputs, Parse<DecodeParameters>(op, parameters));
  }
  if (name.ends_with("cvimresize")) {
    return Resize(op, OnlyInput(op, inputs), Parse<ResizeParameters>(op, parameters));
  }
  return AddBorder(op, OnlyInput(op, inputs), Parse<BorderParameters>(op, parameters));
}

}  // namespace tessera::mxnet
