#ifndef TESSERA_OPS_IMAGE_IMAGE_SHAPE_H_
#define TESSERA_OPS_IMAGE_IMAGE_SHAPE_H_

#include <string_view>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/property.h"

// Shapes of images: (height, width, channels), or (images, height, width, channels) for a batch.
namespace tessera::ops_internal {

/// The dimensions of images, for errors.
inline constexpr std::string_view kImageLayout =
    "(height, width, channels) or (images, height, width, channels)";

/// The extents of a batch of images; an array of rank 3 is a batch of one.
struct ImageExtents {
  /// Requires: a known shape of rank 3 or 4.
  explicit ImageExtents(const TShape& shape)
      : images(shape.ndim() == 4 ? shape[0] : 1),
        height(shape[shape.ndim() - 3]),
        width(shape[shape.ndim() - 2]),
        channels(shape[shape.ndim() - 1]) {}

  index_t images, height, width, channels;
};

/// Gives data and the output one rank. Returns whether it is known. Throws Error(kInvalidArgument)
/// that names operator, shape and `layout`, the expected dimensions, if it is not 3 or 4.
bool MergeImageRanks(const OperatorProperty& property, std::string_view layout, TShape* data,
                     TShape* out);

/// Gives dimension d of data and dimension e of the output one extent. Throws
/// Error(kInvalidArgument) if they contradict each other. Requires: known ranks.
void MergeExtents(const OperatorProperty& property, TShape* data, int d, TShape* out, int e);

/// Infers equal shapes of images and an output, and returns whether they are known. Throws what
/// MergeImageRanks and MergeShape throw.
bool InferImageShape(const OperatorProperty& property, std::vector<TShape>* in_shape,
                     std::vector<TShape>* out_shape);

/// Infers them for images in grey or in red, green and blue. Also throws Error(kInvalidArgument)
/// that names operator and shape if there are other than 1 or 3 channels.
bool InferColorImageShape(const OperatorProperty& property, std::vector<TShape>* in_shape,
                          std::vector<TShape>* out_shape);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_IMAGE_IMAGE_SHAPE_H_
