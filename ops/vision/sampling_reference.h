#ifndef TESSERA_OPS_VISION_SAMPLING_REFERENCE_H_
#define TESSERA_OPS_VISION_SAMPLING_REFERENCE_H_

#include <cmath>

#include "tessera/ops/testing/operator_row.h"

// The references of operators that sample images share these.
namespace tessera::ops_testing {

/// Returns coordinate i of n that divide [-1, 1] evenly.
inline double EvenPlace(index_t i, index_t n) {
  return -1 + 2.0 * static_cast<double>(i) / static_cast<double>(n - 1);
}

/// A pixel near a point, its weight, and the weight's slopes along the grid's x and y.
struct NearPixel {
  index_t i;
  double weight, slope_x, slope_y;
};

/// Calls visit(i_out, i_grid_x, i_grid_y, pixel) for each pixel inside of the images that an
/// element of the output reads.
template <typename Visit>
void ForEachNearPixel(const TShape& data, const Values& grid, const Visit& visit) {
  const index_t points = grid.shape[2] * grid.shape[3];
  const double to_row = static_cast<double>(data[2] - 1) / 2;
  const double to_column = static_cast<double>(data[3] - 1) / 2;
  for (index_t o = 0; o < data[0] * data[1] * points; ++o) {
    const index_t plane = o / points, at_x = 2 * (plane / data[1]) * points + o % points;
    const index_t at_y = at_x + points;
    const double y = (grid[at_y] + 1) * to_row, x = (grid[at_x] + 1) * to_column;
    for (int k = 0; k < 4; ++k) {
      const double row = std::floor(y) + k / 2, column = std::floor(x) + k % 2;
      if (!(row >= 0 && row < static_cast<double>(data[2]))) continue;
      if (!(column >= 0 && column < static_cast<double>(data[3]))) continue;
      // Each corner of a unit square weighs as much as the opposite rectangle.
      const double side_y = k / 2 == 0 ? -1 : 1, side_x = k % 2 == 0 ? -1 : 1;
      const double in_y = 1 - std::abs(y - row), in_x = 1 - std::abs(x - column);
      const index_t i = (plane * data[2] + static_cast<index_t>(row)) * data[3];
      visit(o, at_x, at_y,
            NearPixel{i + static_cast<index_t>(column), in_y * in_x, side_x * in_y * to_column,
                      side_y * in_x * to_row});
    }
  }
}

/// Returns the images read at the points.
inline Values Sampled(const Values& data, const Values& grid) {
  Values out({data.shape[0], data.shape[1], grid.shape[2], grid.shape[3]});
  ForEachNearPixel(data.shape, grid, [&](index_t o, index_t, index_t, const NearPixel& pixel) {
    out[o] += data[pixel.i] * pixel.weight;
  });
  return out;
}

/// Returns the gradients of images and grid.
inline std::vector<Values> SampledGradient(const Values& g, const Values& data,
                                           const Values& grid) {
  std::vector<Values> grad = {Values(data.shape), Values(grid.shape)};
  ForEachNearPixel(data.shape, grid,
                   [&](index_t o, index_t at_x, index_t at_y, const NearPixel& pixel) {
                     grad[0][pixel.i] += g[o] * pixel.weight;
                     grad[1][at_x] += g[o] * data[pixel.i] * pixel.slope_x;
                     grad[1][at_y] += g[o] * data[pixel.i] * pixel.slope_y;
                   });
  return grad;
}

/// Returns the grid (samples, 2, height, width) of matrices (samples, 6).
inline Values AffinePoints(const Values& matrices, index_t height, index_t width) {
  Values grid({matrices.shape[0], 2, height, width});
  for (index_t i = 0; i < grid.size(); ++i) {
    const index_t row = 3 * (i / (height * width));
    grid[i] = matrices[row] * EvenPlace(i % width, width) +
              matrices[row + 1] * EvenPlace(i / width % height, height) + matrices[row + 2];
  }
  return grid;
}

/// Returns the gradient of the matrices from that of the grid.
inline Values AffinePointsGradient(const Values& g) {
  const index_t height = g.shape[2], width = g.shape[3];
  Values grad({g.shape[0], 6});
  for (index_t i = 0; i < g.size(); ++i) {
    const index_t row = 3 * (i / (height * width));
    grad[row] += g[i] * EvenPlace(i % width, width);
    grad[row + 1] += g[i] * EvenPlace(i / width % height, height);
    grad[row + 2] += g[i];
  }
  return grad;
}

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_VISION_SAMPLING_REFERENCE_H_
