#include "tessera/ops/vision/regions/region_means.h"

#include <algorithm>

#include "tessera/ops/elemwise/convert_row.h"
#include "tessera/ops/vision/elements.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

/// Calls visit(pixel, weight) for each pixel of cell k.
template <typename T, typename Visit>
void ForEachPixel(const WeightedRegion<T>& region, size_t k, index_t width, const Visit& visit) {
  if (region.sample < 0) return;
  const CellWeights<T>& rows = region.rows[k / region.columns.size()];
  const CellWeights<T>& columns = region.columns[k % region.columns.size()];
  index_t line = rows.first * width + columns.first;
  for (const T of_row : rows.weights) {
    index_t pixel = line;
    for (const T of_column : columns.weights) visit(pixel++, of_row * of_column);
    line += width;
  }
}

}  // namespace

template <typename T>
void RegionMeans(const std::vector<WeightedRegion<T>>& regions, const CellChannels& channels,
                 const T* images, const TShape& shape, OpReqType req, const TBlob& out) {
  if (req == kNullOp || out.shape_.Size() == 0) return;
  const index_t out_channels = out.shape_[1], plane_size = shape[2] * shape[3];
  const auto cells = static_cast<index_t>(channels.of_cell.size());
  ParallelFor(
      out.shape_[0] * out_channels, StepsPerTask(plane_size + cells),
      [&](index_t begin, index_t end) {
        std::vector<T> line(channels.of_cell.size());
        for (index_t i = begin; i < end; ++i) {
          const auto& region = regions[static_cast<size_t>(i / out_channels)];
          const index_t first =
              std::max<index_t>(region.sample, 0) * shape[1] + i % out_channels * channels.stride;
          for (size_t k = 0; k < line.size(); ++k) {
            const T* const plane = images + (first + channels.of_cell[k]) * plane_size;
            T sum = 0;
            ForEachPixel(region, k, shape[3],
                         [&](index_t pixel, T weight) { sum += weight * plane[pixel]; });
            line[k] = sum;
          }
          StoreRow(line.data(), cells, req == kAddTo, out.type_flag_, ElementAt(out, i * cells));
        }
      });
}

template <typename T>
void RegionMeansGradient(const std::vector<WeightedRegion<T>>& regions,
                         const CellChannels& channels, const T* g, index_t out_channels,
                         OpReqType req, const TBlob& grad) {
  if (req == kNullOp || grad.shape_.Size() == 0) return;
  const TShape& shape = grad.shape_;
  const index_t plane_size = shape[2] * shape[3];
  const size_t cells = channels.of_cell.size();
  ParallelFor(shape[0] * shape[1], StepsPerTask(plane_size), [&](index_t begin, index_t end) {
    std::vector<T> sums(static_cast<size_t>(plane_size));
    for (index_t plane = begin; plane < end; ++plane) {
      std::fill(sums.begin(), sums.end(), T(0));
      const index_t channel = plane % shape[1], out_channel = channel / channels.stride;
      for (size_t r = 0; r < regions.size() && out_channel < out_channels; ++r) {
        if (regions[r].sample != plane / shape[1]) continue;
        const T* const head = g + (static_cast<index_t>(r) * out_channels + out_channel) *
                                      static_cast<index_t>(cells);
        for (size_t k = 0; k < cells; ++k) {
          if (channels.of_cell[k] != channel % channels.stride) continue;
          ForEachPixel(regions[r], k, shape[3], [&](index_t pixel, T weight) {
            sums[static_cast<size_t>(pixel)] += weight * head[k];
          });
        }
      }
      StoreRow(sums.data(), plane_size, req == kAddTo, grad.type_flag_,
               ElementAt(grad, plane * plane_size));
    }
  });
}

#define TESSERA_REGION_MEANS(T)                                                                   \
  template void RegionMeans(const std::vector<WeightedRegion<T>>&, const CellChannels&, const T*, \
                            const TShape&, OpReqType, const TBlob&);                              \
  template void RegionMeansGradient(const std::vector<WeightedRegion<T>>&, const CellChannels&,   \
                                    const T*, index_t, OpReqType, const TBlob&)
TESSERA_REGION_MEANS(float);
TESSERA_REGION_MEANS(double);
#undef TESSERA_REGION_MEANS

}  // namespace tessera::ops_internal
