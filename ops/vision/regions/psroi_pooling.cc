// _contrib_PSROIPooling: means over the cells into which regions of images are divided, each cell
// of a channel of its own (position-sensitive pooling).
//
//   out[r][c][i][j] = the mean of data[sample][(c, i', j')] over the pixels of cell (i, j), 0 if it
//   has none;   d data = each gradient / the number of the cell's pixels, to all of them
//
// Cells are grouped by group_size: i' = i group_size / pooled_size, rounded down. A row of rois is
// (sample, left, top, right, bottom); coordinates are rounded, both corners belong to the region,
// and spatial_scale takes it to the data's pixels. A region is at least 0.1 pixels high and wide. A
// region of a negative sample gives 0; a sample that data does not have throws Error(kOutOfRange).
// rois have no gradient. Shapes: data (samples, channels, height, width) with at least output_dim
// group_size^2 channels, rois (regions, 5), out (regions, output_dim, pooled_size, pooled_size).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU. Dai et al., R-FCN, 2016, section 2.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/regions/position_sensitive.h"
#include "tessera/ops/vision/regions/region_means.h"
#include "tessera/ops/vision/regions/regions.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: regions and registration

struct PsRoiPoolingParameters : PositionSensitiveParameters {
  static void Declare(ParameterSchema<PsRoiPoolingParameters>& schema) {
    DeclareShared(schema);
    schema.Optional<int64_t>("group_size", &PsRoiPoolingParameters::group_size,
                             "rows and columns of cells with channels of their own; 0: all");
    schema.Range(0, 1 << 12);
  }
};

class PsRoiPoolingProperty final : public RegionMeansProperty<PsRoiPoolingParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferPositionSensitive(*this, param_, in_shape, &(*out_shape)[0]);
  }
};

/// Returns the weights of the pixels of each of `count` cells of [begin, end) in `extent` pixels.
template <typename T>
std::vector<CellWeights<T>> WeighCells(T begin, T end, index_t count, index_t extent) {
  const T size = std::max(end - begin, T(0.1)) / static_cast<T>(count);
  // NaN gives no pixels.
  const auto pixel = [extent](T x) {
    return x > 0 ? static_cast<index_t>(std::min(x, static_cast<T>(extent))) : index_t{0};
  };
  std::vector<CellWeights<T>> cells(static_cast<size_t>(count));
  for (index_t i = 0; i < count; ++i) {
    const index_t first = pixel(std::floor(static_cast<T>(i) * size + begin));
    const index_t last = pixel(std::ceil(static_cast<T>(i + 1) * size + begin));
    if (last <= first) continue;
    CellWeights<T>& cell = cells[static_cast<size_t>(i)];
    cell.first = first;
    cell.weights.assign(static_cast<size_t>(last - first), 1 / static_cast<T>(last - first));
  }
  return cells;
}

class PsRoiPoolingOperator final
    : public RegionMeansOperator<PsRoiPoolingOperator, PsRoiPoolingParameters> {
 public:
  using RegionMeansOperator::RegionMeansOperator;

  CellChannels Channels() const { return param_.Channels(); }

  template <typename T>
  GridRegions<T> Locate(std::span<const TBlob> in_data, const TShape& data) const {
    const T scale = static_cast<T>(param_.spatial_scale);
    GridRegions<T> regions;
    for (const Region<T>& r : ReadRegions<T>(in_data[1], data[0], 1)) {
      const auto weigh = [&](T first, T last, index_t extent) {
        return WeighCells<T>(std::round(first) * scale, (std::round(last) + 1) * scale,
                             param_.pooled_size, extent);
      };
      regions.Add(r.sample, weigh(r.top, r.bottom, data[2]), weigh(r.left, r.right, data[3]));
    }
    return regions;
  }
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<PsRoiPoolingProperty, PsRoiPoolingOperator>(
        TESSERA_TABLE_PLACE, "_contrib_PSROIPooling",
        "Means over the cells of regions, each cell of its own channel.");

}  // namespace
}  // namespace tessera
