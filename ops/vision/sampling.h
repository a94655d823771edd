#ifndef TESSERA_OPS_VISION_SAMPLING_H_
#define TESSERA_OPS_VISION_SAMPLING_H_

#include "tessera/base/shape.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Images sampled by linear interpolation at the points of a grid, and grids of affine maps
/// (Jaderberg et al., Spatial Transformer Networks, 2015), on the CPU. T is float or double.
namespace tessera::ops_internal {

/// The extents of a call: images (batch, channels, height, width), grids (batch, 2, points) with
/// the points' x, then their y, results (batch, channels, points). The corner pixels' centres lie
/// at -1 and 1.
struct SamplingExtents {
  index_t batch = 0;
  index_t channels = 0;
  index_t height = 0;
  index_t width = 0;
  index_t points = 0;

  index_t PlaneSize() const { return height * width; }
};

/// Interpolates between the four pixels around each point; pixels outside of the image are 0.
template <typename T>
void SampleImages(const SamplingExtents& extents, const T* images, const T* grid, OpReqType req,
                  const TBlob& out);
/// Computes the images' gradient from that of the result, `g`.
template <typename T>
void ImageGradient(const SamplingExtents& extents, const T* grid, const T* g, OpReqType req,
                   const TBlob& grad);
/// Computes the grid's gradient, which at a pixel's centre is that of the pixels behind it.
template <typename T>
void GridGradient(const SamplingExtents& extents, const T* images, const T* grid, const T* g,
                  OpReqType req, const TBlob& grad);

/// A grid of height x width points that divide [-1, 1] x [-1, 1] evenly, mapped by a matrix of two
/// rows and three columns, (x, y, 1), for each sample. An axis of one point has no such division:
/// its coordinates are NaN.
struct AffineExtents {
  index_t batch = 0;
  index_t height = 0;
  index_t width = 0;
};

/// Writes (batch, 2, height, width): the points' x and y.
template <typename T>
void AffineGrid(const AffineExtents& extents, const T* matrices, OpReqType req, const TBlob& grid);
/// Computes the gradient of the matrices, (batch, 6), from that of the grid, `g`.
template <typename T>
void MatrixGradient(const AffineExtents& extents, const T* g, OpReqType req, const TBlob& grad);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_SAMPLING_H_
