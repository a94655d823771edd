#include "tessera/image/border.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

/// Returns the place in [0, extent) whose pixel place `at` has, which may lie outside; -1 for a
/// constant.
int64_t SourceOf(int64_t at, int64_t extent, BorderType type) {
  if (at >= 0 && at < extent) return at;
  const auto modulo = [](int64_t a, int64_t b) { return (a % b + b) % b; };
  switch (type) {
    case BorderType::kReplicate:
      return std::clamp<int64_t>(at, 0, extent - 1);
    case BorderType::kWrap:
      return modulo(at, extent);
    case BorderType::kReflect: {
      const int64_t in_period = modulo(at, 2 * extent);
      return std::min(in_period, 2 * extent - 1 - in_period);
    }
    case BorderType::kReflect101: {
      const int64_t period = std::max<int64_t>(2 * (extent - 1), 1);
      const int64_t in_period = modulo(at, period);
      return std::min(in_period, period - in_period);
    }
    default:
      return -1;
  }
}

template <typename T>
T ValueOf(double value) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    // NaN becomes 0.
    return static_cast<uint8_t>(std::nearbyint(std::min(std::max(0.0, value), 255.0)));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

template <typename T>
void CopyWithBorder(ImageView<const T> in, int64_t top, int64_t left, BorderType type,
                    std::span<const double> values, ImageView<T> out) {
  image_internal::CheckHasPixels("CopyWithBorder", in.height, in.width, in.channels);
  if (top < 0 || left < 0 || out.height - in.height < top || out.width - in.width < left ||
      out.channels != in.channels) {
    throw InvalidArgument("CopyWithBorder: an image of height ", in.height, ", width ", in.width,
                          " and ", in.channels, " channels is copied to row ", top, ", column ",
                          left, " of one of height ", out.height, ", width ", out.width, " and ",
                          out.channels, " channels; expected one that contains it");
  }
  const int64_t channels = in.channels;
  std::vector<T> constant(static_cast<size_t>(channels), T{0});
  for (size_t c = 0; c < std::min(constant.size(), values.size()); ++c) {
    constant[c] = ValueOf<T>(values[c]);
  }
  std::vector<int64_t> columns;
  for (int64_t x = 0; x < out.width; ++x) columns.push_back(SourceOf(x - left, in.width, type));
  for (int64_t y = 0; y < out.height; ++y) {
    const int64_t source = SourceOf(y - top, in.height, type);
    T* to = out.row(y);
    for (const int64_t column : columns) {
      const bool is_constant = source < 0 || column < 0;
      const T* const pixel = is_constant ? constant.data() : in.row(source) + column * channels;
      to = std::copy_n(pixel, channels, to);
    }
  }
}

template void CopyWithBorder(ImageView<const uint8_t>, int64_t, int64_t, BorderType,
                             std::span<const double>, ImageView<uint8_t>);
template void CopyWithBorder(ImageView<const float>, int64_t, int64_t, BorderType,
                             std::span<const double>, ImageView<float>);
template void CopyWithBorder(ImageView<const double>, int64_t, int64_t, BorderType,
                             std::span<const double>, ImageView<double>);

}  // namespace tessera
