#ifndef TESSERA_TENSOR_NN_WINOGRAD_TILES_H_
#define TESSERA_TENSOR_NN_WINOGRAD_TILES_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// The tiles of the results of a 3 x 3 window of stride 1 that moves over one channel's planes. A
/// tile has size x size results, some of which may lie beyond the result's right or lower edge, and
/// depends on (size + 2) x (size + 2) elements of the plane. Tiles are counted along rows, then
/// rows of tiles, then images. Planes and results are stored without gaps.
struct WinogradTiles {
  int64_t size;  ///< 2 or 4
  int64_t height, width;
  int64_t out_height, out_width;  ///< height + 2 * pad_y - 2, width + 2 * pad_x - 2
  int64_t pad_y, pad_x;
  int64_t plane_stride;  ///< elements from an image's plane to that of the next image
  int64_t out_stride;    ///< elements from an image's result to that of the next image
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_NN_WINOGRAD_TILES_H_
