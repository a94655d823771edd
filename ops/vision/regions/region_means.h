#ifndef TESSERA_OPS_VISION_REGIONS_REGION_MEANS_H_
#define TESSERA_OPS_VISION_REGIONS_REGION_MEANS_H_

#include <cstdint>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Weighted means of pixels over the cells of regions, on the CPU. T is float or double.
namespace tessera::ops_internal {

/// The weights of an axis's pixels from `first` on.
template <typename T>
struct CellWeights {
  index_t first = 0;
  std::vector<T> weights{};

  /// Adds to the weight of a pixel, which is at least `first`.
  void Add(index_t pixel, T weight) {
    if (weights.empty()) first = pixel;
    const auto i = static_cast<size_t>(pixel - first);
    if (i >= weights.size()) weights.resize(i + 1, T(0));
    weights[i] += weight;
  }
};

/// A region's rows and columns of cells. A pixel's weight in a cell is that of its row times that
/// of its column.
template <typename T>
struct WeightedRegion {
  index_t sample;  ///< the number of its image, or -1 if it has none
  std::vector<CellWeights<T>> rows, columns;
};

/// The channel that a cell reads: stride * (the output's channel) + of_cell[cell].
struct CellChannels {
  index_t stride = 1;
  std::vector<index_t> of_cell{};
};

/// Writes the cells' sums of weight * pixel, (regions, channels, rows, columns), of images with the
/// shape (samples, channels, height, width); 0 for a region without image.
template <typename T>
void RegionMeans(const std::vector<WeightedRegion<T>>& regions, const CellChannels& channels,
                 const T* images, const TShape& shape, OpReqType req, const TBlob& out);
/// Computes the images' gradient from that of the sums, `g`, with `out_channels` channels.
template <typename T>
void RegionMeansGradient(const std::vector<WeightedRegion<T>>& regions,
                         const CellChannels& channels, const T* g, index_t out_channels,
                         OpReqType req, const TBlob& grad);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_REGIONS_REGION_MEANS_H_
