#ifndef TESSERA_TENSOR_NN_PATCH_PLANES_H_
#define TESSERA_TENSOR_NN_PATCH_PLANES_H_

#include "tessera/base/shape.h"

namespace tessera::tensor_internal {

/// A window that moves by single steps over planes of height x width and has as many positions as a
/// plane has elements ("same" padding). One tap's row of the unpacked matrix is then a plane
/// shifted by a constant, with zeros where the tap is outside.
struct PlaneWindow {
  index_t height, width;
  index_t kernel_y, kernel_x;
  index_t dilate_y, dilate_x;
  index_t pad_y, pad_x;
};

/// Returns whether UnpackPlanes and PackPlanes support the window on this machine. They need an
/// instruction set with masks and planes of up to a few thousand elements, whose rows are too short
/// to be copied one by one.
bool MovesPlanes(const PlaneWindow& window);

/// Writes rows [begin, end) of unpack_patch2col's result; row i begins at out + i * stride.
/// Requires: no padding between the planes' rows.
void UnpackPlanes(const PlaneWindow& window, const float* planes, index_t begin, index_t end,
                  float* out, index_t stride);

/// Writes planes [begin, end) of pack_col2patch's result from the whole matrix, adding taps in row
/// order.
void PackPlanes(const PlaneWindow& window, const float* columns, index_t stride, index_t begin,
                index_t end, float* planes);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_NN_PATCH_PLANES_H_
