#ifndef TESSERA_OPS_VISION_MOVED_TAPS_H_
#define TESSERA_OPS_VISION_MOVED_TAPS_H_

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/windows/convolution_parameters.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/tensor/device/parallel.h"

/// The loops of convolutions whose taps are moved by offsets, on the CPU.
namespace tessera::ops_internal {

/// The value of a point less than a pixel outside of the image.
enum class TapBorder {
  kClamp,  ///< the edge's value behind the last row or column, 0 before the first
  kZero,   ///< a value between the edge's and 0, by linear interpolation, on every side
};

/// The pixels around a moved tap: (upper, left), (upper, right), (lower, left), (lower, right).
/// T is float or double.
template <typename T>
struct TapPoint {
  index_t pixel[4] = {-1, -1, -1, -1};  ///< of the plane; -1 if it is outside
  T lower = 0, right = 0;               ///< the weights of the lower row and of the right column
  T scale = 1;                          ///< the factor of the value

  T Weight(int k) const { return (k < 2 ? 1 - lower : lower) * (k % 2 == 0 ? 1 - right : right); }
  T Pixel(int k, const T* plane) const { return pixel[k] < 0 ? T(0) : plane[pixel[k]]; }
  /// Returns the value between the pixels, without the factor.
  T Value(const T* plane) const {
    T sum = 0;
    for (int k = 0; k < 4; ++k) sum += Weight(k) * Pixel(k, plane);
    return sum;
  }
  /// Return the value's derivatives by y and by x, without the factor.
  T SlopeY(const T* plane) const {
    return (1 - right) * (Pixel(2, plane) - Pixel(0, plane)) +
           right * (Pixel(3, plane) - Pixel(1, plane));
  }
  T SlopeX(const T* plane) const {
    return (1 - lower) * (Pixel(1, plane) - Pixel(0, plane)) +
           lower * (Pixel(3, plane) - Pixel(2, plane));
  }
};

/// Returns the pixels around (y, x), none of them if the point is outside or NaN.
template <typename T>
TapPoint<T> LocateTap(T y, T x, index_t height, index_t width, TapBorder border) {
  TapPoint<T> point;
  const bool clamp = border == TapBorder::kClamp;
  const auto inside = [clamp](T place, index_t extent) {
    return (clamp ? place >= 0 : place > -1) && place < static_cast<T>(extent);
  };
  if (!inside(y, height) || !inside(x, width)) return point;
  const T floor_y = std::floor(y), floor_x = std::floor(x);
  const index_t top = static_cast<index_t>(floor_y), left = static_cast<index_t>(floor_x);
  point.lower = y - floor_y;
  point.right = x - floor_x;
  for (int k = 0; k < 4; ++k) {
    index_t row = top + k / 2, column = left + k % 2;
    if (clamp) {
      row = std::min(row, height - 1);
      column = std::min(column, width - 1);
    }
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    point.pixel[k] = row * width + column;
  }
  return point;
}

/// The extents of a convolution with moved taps.
struct MovedTapsGeometry {
  /// `data` is (batch, channels, height, width), `out` (batch, filters, its height, its width).
  template <typename Parameters>
  MovedTapsGeometry(std::string_view op, const Parameters& p, const TShape& data, const TShape& out)
      : window(op, p),
        batch(data[0]),
        channels(data[1]),
        height(data[2]),
        width(data[3]),
        filters(p.num_filter),
        groups(p.num_group),
        offset_groups(p.num_deformable_group),
        taps(Volume(window.kernel)),
        out_width(out[3]),
        positions(out[2] * out[3]) {}

  index_t PlaneSize() const { return height * width; }
  index_t Rows() const { return channels * taps; }             // of the columns
  index_t GroupRows() const { return Rows() / groups; }        // of a filter's weights
  index_t GroupFilters() const { return filters / groups; }    // of a group
  index_t OffsetRows() const { return offset_groups * taps; }  // pairs of y and x
  index_t OffsetGroup(index_t channel) const { return channel / (channels / offset_groups); }

  ConvolutionWindow window;
  index_t batch, channels, height, width;
  index_t filters, groups, offset_groups;
  index_t taps, out_width, positions;
};

/// The moved taps of one image, and its columns: the values at them, (channel, tap) x position.
template <typename T>
class MovedTaps {
 public:
  /// `offset` and `scale` are arrays of all images. Without `scale`, which may be null, the factors
  /// are 1.
  MovedTaps(const MovedTapsGeometry& geometry, TapBorder border, const TBlob& offset,
            const TBlob* scale)
      : g_(geometry),
        border_(border),
        offset_(offset),
        points_(static_cast<size_t>(g_.OffsetRows() * g_.positions)) {
    if (scale != nullptr) scale_.emplace(*scale);
  }

  /// Locates the taps of an image. Every other member refers to this image.
  void Move(index_t sample) {
    ParallelFor(g_.OffsetRows(), StepsPerTask(g_.positions, kCost),
                [&](index_t begin, index_t end) {
                  for (index_t row = begin; row < end; ++row) MoveTap(sample, row);
                });
    sample_ = sample;
  }

  /// Computes the columns.
  void Unpack(const T* image, T* columns) const {
    ParallelFor(g_.Rows(), StepsPerTask(g_.positions, kCost), [&](index_t begin, index_t end) {
      for (index_t row = begin; row < end; ++row) {
        const T* const plane = image + row / g_.taps * g_.PlaneSize();
        const TapPoint<T>* const points = Points(row / g_.taps, row % g_.taps);
        T* const to = columns + row * g_.positions;
        for (index_t p = 0; p < g_.positions; ++p) {
          to[p] = points[p].scale * points[p].Value(plane);
        }
      }
    });
  }

  /// Computes the image's gradient from that of the columns.
  void ImageGradient(const T* columns, OpReqType req, const TBlob& grad) const {
    if (req == kNullOp) return;
    ParallelFor(g_.channels, StepsPerTask(g_.taps * g_.positions, kCost),
                [&](index_t begin, index_t end) {
                  std::vector<T> plane(static_cast<size_t>(g_.PlaneSize()));
                  for (index_t c = begin; c < end; ++c) {
                    std::fill(plane.begin(), plane.end(), T(0));
                    AddChannel(columns, c, plane.data());
                    RowWriter<T>(grad, req).Write((sample_ * g_.channels + c) * g_.PlaneSize(),
                                                  g_.PlaneSize(), plane.data());
                  }
                });
  }

  /// Computes the offsets' gradient from the image and the columns' gradient.
  void OffsetGradient(const T* image, const T* columns, OpReqType req, const TBlob& grad) const {
    SumOverChannels(image, columns, req, grad, 2,
                    [this](const TapPoint<T>& point, const T* plane, T g, T* sum) {
                      sum[0] += g * point.scale * point.SlopeY(plane);
                      sum[g_.positions] += g * point.scale * point.SlopeX(plane);
                    });
  }
  /// Computes the factors' gradient from the image and the columns' gradient.
  void ScaleGradient(const T* image, const T* columns, OpReqType req, const TBlob& grad) const {
    SumOverChannels(image, columns, req, grad, 1,
                    [](const TapPoint<T>& point, const T* plane, T g, T* sum) {
                      *sum += g * point.Value(plane);
                    });
  }

 private:
  static constexpr index_t kCost = 8;

  /// Returns the points of a channel's tap.
  const TapPoint<T>* Points(index_t channel, index_t tap) const {
    return points_.data() + (g_.OffsetGroup(channel) * g_.taps + tap) * g_.positions;
  }

  void MoveTap(index_t sample, index_t row) {
    const ConvolutionWindow& w = g_.window;
    const index_t tap = row % g_.taps;
    const index_t tap_y = tap / w.kernel[2] * w.dilate[1] - w.pad[1];
    const index_t tap_x = tap % w.kernel[2] * w.dilate[2] - w.pad[2];
    const index_t first = (sample * g_.OffsetRows() + row) * g_.positions;
    const T* const of_y = offset_.data() + 2 * first;
    const T* const of_x = of_y + g_.positions;
    TapPoint<T>* const points = points_.data() + row * g_.positions;
    for (index_t p = 0; p < g_.positions; ++p) {
      const T y = static_cast<T>(p / g_.out_width * w.stride[1] + tap_y) + of_y[p];
      const T x = static_cast<T>(p % g_.out_width * w.stride[2] + tap_x) + of_x[p];
      points[p] = LocateTap(y, x, g_.height, g_.width, border_);
      if (scale_) points[p].scale = scale_->data()[first + p];
    }
  }

  void AddChannel(const T* columns, index_t c, T* plane) const {
    for (index_t tap = 0; tap < g_.taps; ++tap) {
      const TapPoint<T>* const points = Points(c, tap);
      const T* const from = columns + (c * g_.taps + tap) * g_.positions;
      for (index_t p = 0; p < g_.positions; ++p) {
        const T g = points[p].scale * from[p];
        for (int k = 0; k < 4; ++k) {
          if (points[p].pixel[k] >= 0) plane[points[p].pixel[k]] += points[p].Weight(k) * g;
        }
      }
    }
  }

  /// Writes `width` sums for each tap and position: calls add(point, plane, the gradient of the
  /// column's element, the first sum) for each channel.
  template <typename Add>
  void SumOverChannels(const T* image, const T* columns, OpReqType req, const TBlob& grad,
                       index_t width, const Add& add) const {
    if (req == kNullOp) return;
    const index_t channels = g_.channels / g_.offset_groups, size = width * g_.positions;
    ParallelFor(g_.OffsetRows(), StepsPerTask(channels * g_.positions, kCost),
                [&](index_t begin, index_t end) {
                  std::vector<T> sums(static_cast<size_t>(size));
                  for (index_t row = begin; row < end; ++row) {
                    std::fill(sums.begin(), sums.end(), T(0));
                    const index_t first = row / g_.taps * channels;
                    const TapPoint<T>* const points = points_.data() + row * g_.positions;
                    for (index_t c = first; c < first + channels; ++c) {
                      const T* const plane = image + c * g_.PlaneSize();
                      const T* const from = columns + (c * g_.taps + row % g_.taps) * g_.positions;
                      for (index_t p = 0; p < g_.positions; ++p) {
                        add(points[p], plane, from[p], sums.data() + p);
                      }
                    }
                    RowWriter<T>(grad, req).Write((sample_ * g_.OffsetRows() + row) * size, size,
                                                  sums.data());
                  }
                });
  }

  const MovedTapsGeometry& g_;
  const TapBorder border_;
  const Elements<T> offset_;
  std::optional<Elements<T>> scale_;
  index_t sample_ = 0;
  std::vector<TapPoint<T>> points_;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_MOVED_TAPS_H_
