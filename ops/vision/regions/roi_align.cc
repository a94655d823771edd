// _contrib_ROIAlign: means over the cells into which regions of images are divided, of values
// between pixels by linear interpolation.
//
//   out[r][c][i][j] = the mean over the points of cell (i, j) of data[sample][c] at (y, x)
//   d data = each gradient times the points' weights / the number of points, to the pixels
//
// A row of rois is (sample, left, top, right, bottom) in coordinates that spatial_scale takes to
// pixels; `aligned` shifts them by half a pixel, and else a region is at least one pixel high and
// wide. A cell has sample_ratio points along each axis, or one for each pixel begun, evenly spaced.
// Points more than a pixel outside are 0. With position_sensitive, cell (i, j) of channel c reads
// channel (c, i, j) of data. A region of a negative sample, or without height or width, gives 0; a
// sample that data does not have throws Error(kOutOfRange). rois have no gradient. Shapes: data
// (samples, channels, height, width), rois (regions, 5), out (regions, channels, pooled_size).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU. He et al., Mask R-CNN, 2017, section 3.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/regions/region_means.h"
#include "tessera/ops/vision/regions/regions.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: regions and registration

struct RoiAlignParameters : RegionParameters {
  int64_t sample_ratio = -1;
  bool position_sensitive = false;
  bool aligned = false;

  static void Declare(ParameterSchema<RoiAlignParameters>& schema) {
    using P = RoiAlignParameters;
    DeclareShared(schema);
    schema.Optional("sample_ratio", &P::sample_ratio,
                    "points of a cell along an axis; 0 or less: one for each pixel begun");
    schema.Range(-(1 << 16), 1 << 16);
    schema.Optional("position_sensitive", &P::position_sensitive,
                    "whether each cell reads a channel of its own");
    schema.Optional("aligned", &P::aligned, "whether coordinates are shifted by half a pixel");
  }
  index_t Size() const { return pooled_size[0] * pooled_size[1]; }
};

class RoiAlignProperty final : public RegionMeansProperty<RoiAlignParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferRegions(*this, param_.pooled_size, param_.position_sensitive ? param_.Size() : 1,
                        in_shape, &(*out_shape)[0]);
  }

 private:
  void CheckParameters() override { param_.Check(TypeString()); }
};

/// Returns the weights of each of `count` cells of [begin, begin + length) in `extent` pixels.
template <typename T>
std::vector<CellWeights<T>> WeighCells(T begin, T length, index_t count, int64_t ratio,
                                       index_t extent) {
  std::vector<CellWeights<T>> cells(static_cast<size_t>(count));
  const T size = length / static_cast<T>(count);
  const T points = ratio > 0 ? static_cast<T>(ratio) : std::ceil(size);
  if (!(size > 0) || !std::isfinite(size) || !std::isfinite(begin) || extent == 0) return cells;
  const T end = static_cast<T>(extent), step = size / points;
  for (index_t cell = 0; cell < count; ++cell) {
    const T start = begin + static_cast<T>(cell) * size;
    // Points before -1 or behind the extent count, but are 0.
    const T first = std::floor((-1 - start) / step) - 1;
    const T last = std::ceil((end - start) / step) + 1;
    const T skipped = std::max(first, T(0)), near = std::min(last, points) - skipped;
    for (index_t i = 0; static_cast<T>(i) < near; ++i) {
      T place = start + (skipped + static_cast<T>(i) + T(0.5)) * step;
      if (!(place >= -1 && place <= end)) continue;
      place = std::max(place, T(0));
      const index_t pixel = std::min(static_cast<index_t>(place), extent - 1);
      const T rest = pixel == extent - 1 ? T(0) : place - static_cast<T>(pixel);
      cells[static_cast<size_t>(cell)].Add(pixel, (1 - rest) / points);
      if (rest > 0) cells[static_cast<size_t>(cell)].Add(pixel + 1, rest / points);
    }
  }
  return cells;
}

class RoiAlignOperator final : public RegionMeansOperator<RoiAlignOperator, RoiAlignParameters> {
 public:
  using RegionMeansOperator::RegionMeansOperator;

  CellChannels Channels() const {
    CellChannels channels;
    channels.of_cell.resize(static_cast<size_t>(param_.Size()), 0);
    if (param_.position_sensitive) {
      channels.stride = param_.Size();
      std::iota(channels.of_cell.begin(), channels.of_cell.end(), index_t{0});
    }
    return channels;
  }

  template <typename T>
  GridRegions<T> Locate(std::span<const TBlob> in_data, const TShape& data) const {
    const TShape& pooled = param_.pooled_size;
    const T shift = param_.aligned ? T(0.5) : T(0);
    const auto length = [this](T from, T to) {
      return param_.aligned ? to - from : std::max(to - from, T(1));
    };
    GridRegions<T> regions;
    for (const Region<T>& r : ReadRegions<T>(in_data[1], data[0], param_.spatial_scale)) {
      regions.Add(r.sample,
                  WeighCells(r.top - shift, length(r.top, r.bottom), pooled[0], param_.sample_ratio,
                             data[2]),
                  WeighCells(r.left - shift, length(r.left, r.right), pooled[1],
                             param_.sample_ratio, data[3]));
    }
    return regions;
  }
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<RoiAlignProperty, RoiAlignOperator>(
    TESSERA_TABLE_PLACE, "_contrib_ROIAlign", "Means over the cells of regions of images.");

}  // namespace
}  // namespace tessera
