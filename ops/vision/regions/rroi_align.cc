// _contrib_RROIAlign: means over the cells into which rotated regions of images are divided, of
// values between pixels by linear interpolation.
//
//   out[r][c][i][j] = the mean over the points of cell (i, j) of data[sample][c] at (y, x)
//
// A row of rois is (sample, x, y, width, height, angle): the centre, the size and the angle in
// degrees, counterclockwise. spatial_scale takes all but sample and angle to pixels; width and
// height are at least one pixel. A cell has sampling_ratio points along each axis, or one for each
// pixel begun, evenly spaced. Points more than a pixel outside are 0. A region of a negative sample
// gives 0; a sample that data does not have, and a region whose cells would have more than 2^20
// points, throw Error(kOutOfRange). There is no gradient, as in MXNet. Shapes: data
// (samples, channels, height, width), rois (regions, 6), out (regions, channels, pooled_size).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU. Ma et al., Rotation Proposals, 2018.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: registration

struct RRoiAlignParameters {
  TShape pooled_size;
  float spatial_scale = 1;
  int64_t sampling_ratio = -1;

  static void Declare(ParameterSchema<RRoiAlignParameters>& schema) {
    using P = RRoiAlignParameters;
    schema.Required("pooled_size", &P::pooled_size, "(height, width) of a region's output");
    schema.Required("spatial_scale", &P::spatial_scale,
                    "the factor from the regions' coordinates to the data's");
    schema.Range(0, 1);
    schema.Optional("sampling_ratio", &P::sampling_ratio,
                    "points of a cell along an axis; 0 or less: one for each pixel begun");
    schema.Range(-(1 << 16), 1 << 10);
  }
};

class RRoiAlignProperty final : public ParameterizedProperty<RRoiAlignParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "rois"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &rois = (*in_shape)[1], &out = (*out_shape)[0];
    constexpr index_t kUnknown = TShape::kUnknown;
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    MergeShape(*this, "rois", &rois, {kUnknown, 6});
    const TShape& pooled = param_.pooled_size;
    MergeShape(*this, "output", &out, {rois[0], data[1], pooled[0], pooled[1]});
    MergeShape(*this, "rois", &rois, {out[0], 6});
    MergeShape(*this, "data", &data, {kUnknown, out[1], kUnknown, kUnknown});
    return data.known() && rois.known();
  }
  bool HasGradient() const override { return false; }

 private:
  void CheckParameters() override {
    const TShape& pooled = param_.pooled_size;
    bool valid = pooled.ndim() == 2;
    for (const index_t extent : pooled) valid = valid && extent >= 1 && extent <= (1 << 24);
    if (!valid) {
      throw InvalidArgument(TypeString(), ": parameter pooled_size=", pooled,
                            " must be a height and a width of at least 1");
    }
  }
};

/// A pixel and its weight in a cell's mean.
template <typename T>
struct WeightedPixel {
  index_t pixel;
  T weight;
};

/// The two pixels along an axis between which a point lies, and the second's weight.
template <typename T>
struct Neighbours {
  Neighbours(T place, index_t extent) {
    place = std::max(place, T(0));
    first = std::min(static_cast<index_t>(place), extent - 1);
    second = std::min(first + 1, extent - 1);
    rest = first == second ? T(0) : place - static_cast<T>(first);
  }
  index_t first, second;
  T rest;
};

/// A rotated region in the data's pixels.
template <typename T>
class RotatedRegion {
 public:
  /// `row` is a row of rois.
  RotatedRegion(const RRoiAlignParameters& param, const T* row, index_t number)
      : rows_(param.pooled_size[0]), columns_(param.pooled_size[1]) {
    const T scale = static_cast<T>(param.spatial_scale);
    LoadIndices(row, DTypeOf<T>::value, 1, &sample);
    x_ = row[1] * scale;
    y_ = row[2] * scale;
    width_ = std::max(row[3] * scale, T(1));
    height_ = std::max(row[4] * scale, T(1));
    const T angle = static_cast<T>(row[5] * 3.14159265358979323846 / 180);
    cos_ = std::cos(angle);
    sin_ = std::sin(angle);
    const auto points = [&](T length, index_t cells) {
      const T size = length / static_cast<T>(cells);
      return param.sampling_ratio > 0 ? static_cast<T>(param.sampling_ratio) : std::ceil(size);
    };
    const T of_y = points(height_, rows_), of_x = points(width_, columns_);
    if (!(of_y * of_x <= T(1 << 20))) {
      throw OutOfRange("rois[", number, "] of ", height_, " x ", width_, " pixels needs ", of_y,
                       " x ", of_x, " points for a cell, expected at most 2^20");
    }
    points_y_ = static_cast<index_t>(of_y);
    points_x_ = static_cast<index_t>(of_x);
  }

  /// Returns the pixels of cell k, some of them several times.
  std::vector<WeightedPixel<T>> Pixels(index_t k, index_t height, index_t width) const {
    std::vector<WeightedPixel<T>> pixels;
    const T share = 1 / static_cast<T>(points_y_ * points_x_);
    for (index_t i = 0; i < points_y_; ++i) {
      const T v = Offset(height_, k / columns_, rows_, i, points_y_);
      for (index_t j = 0; j < points_x_; ++j) {
        const T u = Offset(width_, k % columns_, columns_, j, points_x_);
        const T x = u * cos_ + v * sin_ + x_, y = v * cos_ - u * sin_ + y_;
        // NaN is outside.
        const bool inside = y >= -1 && y <= static_cast<T>(height) && x >= -1 &&
                            x <= static_cast<T>(width) && height > 0 && width > 0;
        if (!inside) continue;
        const Neighbours<T> row(y, height), column(x, width);
        const T upper = share * (1 - row.rest), lower = share * row.rest;
        pixels.push_back({row.first * width + column.first, upper * (1 - column.rest)});
        pixels.push_back({row.first * width + column.second, upper * column.rest});
        pixels.push_back({row.second * width + column.first, lower * (1 - column.rest)});
        pixels.push_back({row.second * width + column.second, lower * column.rest});
      }
    }
    return pixels;
  }

  index_t sample;

 private:
  /// Returns a point's distance from the centre along an axis of the region.
  static T Offset(T length, index_t cell, index_t cells, index_t point, index_t points) {
    const T size = length / static_cast<T>(cells);
    return -length / 2 + static_cast<T>(cell) * size +
           (static_cast<T>(point) + T(0.5)) * size / static_cast<T>(points);
  }

  index_t rows_, columns_;
  T x_, y_, width_, height_, cos_, sin_;
  index_t points_y_, points_x_;
};

class RRoiAlignOperator final : public Operator {
 public:
  explicit RRoiAlignOperator(const RRoiAlignParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const TShape& shape = in_data[0].shape_;
      const Elements<T> images(in_data[0]), rois(in_data[1]);
      std::vector<RotatedRegion<T>> regions;
      for (index_t r = 0; r < in_data[1].shape_[0]; ++r) {
        regions.emplace_back(param_, rois.data() + 6 * r, r);
        if (regions.back().sample >= shape[0]) {
          throw OutOfRange("rois[", r, "] is of sample ", regions.back().sample, ", but data has ",
                           shape[0]);
        }
      }
      const index_t cells = param_.pooled_size[0] * param_.pooled_size[1];
      const auto tasks = static_cast<index_t>(regions.size()) * cells;
      ParallelFor(tasks, StepsPerTask(shape[1], kCost), [&](index_t begin, index_t end) {
        for (index_t i = begin; i < end; ++i) {
          Average(regions[static_cast<size_t>(i / cells)], i % cells, images.data(), shape,
                  req[0] == kAddTo, i / cells * shape[1] * cells + i % cells, cells, out_data[0]);
        }
      });
    });
  }

 private:
  static constexpr index_t kCost = 16;

  /// Writes the means of a cell in all channels, from element `at` on, `stride` apart.
  template <typename T>
  static void Average(const RotatedRegion<T>& region, index_t k, const T* images,
                      const TShape& shape, bool add, index_t at, index_t stride, const TBlob& out) {
    std::vector<WeightedPixel<T>> pixels;
    if (region.sample >= 0) pixels = region.Pixels(k, shape[2], shape[3]);
    const index_t plane_size = shape[2] * shape[3];
    for (index_t c = 0; c < shape[1]; ++c) {
      const T* const plane =
          images + (std::max<index_t>(region.sample, 0) * shape[1] + c) * plane_size;
      T sum = 0;
      for (const WeightedPixel<T>& p : pixels) sum += p.weight * plane[p.pixel];
      StoreRow(&sum, 1, add, out.type_flag_, ElementAt(out, at + c * stride));
    }
  }

  const RRoiAlignParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<RRoiAlignProperty, RRoiAlignOperator>(
        TESSERA_TABLE_PLACE, "_contrib_RROIAlign",
        "Means over the cells of rotated regions of images.");

}  // namespace
}  // namespace tessera
