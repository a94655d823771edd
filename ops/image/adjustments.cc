#include "tessera/ops/image/adjustments.h"

#include <algorithm>
#include <cmath>

#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

constexpr index_t kBlock = 512;  // pixels

/// Calls body(channels of the pixels, number of pixels) for the pixels [first, first + count) of an
/// array, block by block.
template <typename T, typename Body>
void ForEachBlock(const TBlob& in, index_t first, index_t count, index_t channels,
                  const Body& body) {
  T block[3 * kBlock];
  for (index_t done = 0; done < count; done += kBlock) {
    const index_t n = std::min(kBlock, count - done);
    RowReader<T>(in).Copy((first + done) * channels, n * channels, block);
    body(block, n, first + done);
  }
}

/// Writes pixels to `out` as change(T* pixels, number of pixels) changes them.
template <typename T, typename Change>
void ChangePixels(const TBlob& in, index_t first, index_t count, index_t channels,
                  const Change& change, const TBlob& out) {
  ForEachBlock<T>(in, first, count, channels, [&](T* pixels, index_t n, index_t begin) {
    change(pixels, n);
    RowWriter<T>(out, kWriteTo).Write(begin * channels, n * channels, pixels);
  });
}

/// Calls visit(T(), first pixel, number of pixels, channels) for each image, in parallel.
template <typename Visit>
void ForEachImage(const TBlob& images, const Visit& visit) {
  if (images.shape_.Size() == 0) return;
  const ImageExtents extents(images.shape_);
  const index_t pixels = extents.height * extents.width;
  constexpr index_t kCost = 8;
  VisitComputedIn(ComputedInReal(images.type_flag_), [&](auto one) {
    ParallelFor(extents.images, StepsPerTask(pixels * extents.channels, kCost),
                [&](index_t begin, index_t end) {
                  for (index_t i = begin; i < end; ++i) {
                    visit(one, i * pixels, pixels, extents.channels);
                  }
                });
  });
}

template <typename T>
T Grey(const T* pixel) {
  return T(0.299) * pixel[0] + T(0.587) * pixel[1] + T(0.114) * pixel[2];
}

/// Returns the mean of the pixels' grey.
template <typename T>
T MeanGrey(const TBlob& in, index_t first, index_t count, index_t channels) {
  double sum = 0;
  ForEachBlock<T>(in, first, count, channels, [&](const T* pixels, index_t n, index_t) {
    for (index_t i = 0; i < n; ++i) {
      sum += static_cast<double>(channels == 1 ? pixels[i] : Grey(pixels + 3 * i));
    }
  });
  return static_cast<T>(sum / static_cast<double>(count));
}

/// Returns how much of a channel a hue has, from 0 to 1; the hue counts sixths of a turn from the
/// channel's own.
template <typename T>
T ShareOfChannel(T hue) {
  const T sixths = hue - 6 * std::floor(hue / 6);
  return std::clamp<T>(std::abs(sixths - 3) - 1, 0, 1);
}

template <typename T>
void TurnPixel(T* pixel, T turn) {
  const T red = pixel[0], green = pixel[1], blue = pixel[2];
  const T high = std::max({red, green, blue}), low = std::min({red, green, blue});
  const T range = high - low;
  if (!(range > 0)) return;
  T hue = turn;
  if (high == red) {
    hue += (green - blue) / range;
  } else if (high == green) {
    hue += 2 + (blue - red) / range;
  } else {
    hue += 4 + (red - green) / range;
  }
  pixel[0] = low + range * ShareOfChannel(hue);
  pixel[1] = low + range * ShareOfChannel(hue - 2);
  pixel[2] = low + range * ShareOfChannel(hue - 4);
}

}  // namespace

void ScaleBrightness(const TBlob& in, double factor, const TBlob& out) {
  ForEachImage(in, [&](auto one, index_t first, index_t count, index_t channels) {
    using T = decltype(one);
    const T scale = static_cast<T>(factor);
    const auto change = [=](T* pixels, index_t n) {
      for (index_t i = 0; i < n * channels; ++i) pixels[i] *= scale;
    };
    ChangePixels<T>(in, first, count, channels, change, out);
  });
}

void ScaleContrast(const TBlob& in, double factor, const TBlob& out) {
  ForEachImage(in, [&](auto one, index_t first, index_t count, index_t channels) {
    using T = decltype(one);
    const T scale = static_cast<T>(factor);
    const T offset = (1 - scale) * MeanGrey<T>(in, first, count, channels);
    const auto change = [=](T* pixels, index_t n) {
      for (index_t i = 0; i < n * channels; ++i) pixels[i] = pixels[i] * scale + offset;
    };
    ChangePixels<T>(in, first, count, channels, change, out);
  });
}

void ScaleSaturation(const TBlob& in, double factor, const TBlob& out) {
  ForEachImage(in, [&](auto one, index_t first, index_t count, index_t channels) {
    using T = decltype(one);
    const T scale = static_cast<T>(factor);
    const auto change = [=](T* pixels, index_t n) {
      if (channels == 1) return;
      for (index_t i = 0; i < n; ++i) {
        T* const pixel = pixels + 3 * i;
        const T offset = (1 - scale) * Grey(pixel);
        for (const int c : {0, 1, 2}) pixel[c] = pixel[c] * scale + offset;
      }
    };
    ChangePixels<T>(in, first, count, channels, change, out);
  });
}

void TurnHue(const TBlob& in, double turns, const TBlob& out) {
  const double sixths = 6 * (turns - std::floor(turns));
  ForEachImage(in, [&](auto one, index_t first, index_t count, index_t channels) {
    using T = decltype(one);
    const auto change = [=](T* pixels, index_t n) {
      if (channels == 1) return;
      for (index_t i = 0; i < n; ++i) TurnPixel(pixels + 3 * i, static_cast<T>(sixths));
    };
    ChangePixels<T>(in, first, count, channels, change, out);
  });
}

void AddLighting(const TBlob& in, const std::array<double, 3>& alpha, const TBlob& out) {
  constexpr double kEigenvalues[] = {55.46, 4.794, 1.148};
  constexpr double kEigenvectors[3][3] = {
      {-0.5675, -0.5808, -0.5836}, {0.7192, -0.0045, -0.6948}, {0.4009, -0.8140, 0.4203}};
  std::array<double, 3> sum = {};
  for (size_t k = 0; k < 3; ++k) {
    for (size_t c = 0; c < 3; ++c) sum[c] += alpha[k] * kEigenvalues[k] * kEigenvectors[k][c];
  }
  ForEachImage(in, [&](auto one, index_t first, index_t count, index_t channels) {
    using T = decltype(one);
    const T light[] = {static_cast<T>(sum[0]), static_cast<T>(sum[1]), static_cast<T>(sum[2])};
    const auto change = [=](T* pixels, index_t n) {
      if (channels == 1) return;
      for (index_t i = 0; i < n; ++i) {
        for (const int c : {0, 1, 2}) pixels[3 * i + c] += light[c];
      }
    };
    ChangePixels<T>(in, first, count, channels, change, out);
  });
}

}  // namespace tessera::ops_internal
