#ifndef TESSERA_TENSOR_NN_DEPTHWISE_WINDOW_H_
#define TESSERA_TENSOR_NN_DEPTHWISE_WINDOW_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// A window of kernel x kernel taps that moves in steps of `stride` over a plane of height x width,
/// to out_height x out_width positions. At position (y, x), tap (ky, kx) lies on the plane's
/// element (y * stride + ky - pad_y, x * stride + kx - pad_x), which is 0 outside the plane.
struct DepthwiseWindow {
  int64_t kernel;  ///< 3 or 5
  int64_t stride;  ///< 1 or 2
  int64_t height, width;
  int64_t out_height, out_width;
  int64_t pad_y, pad_x;
};

/// A group of a convolution: each of `filters` results is a sum over all of `channels` planes.
struct GroupExtents {
  int64_t channels;  ///< 1 to 16
  int64_t filters;
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_NN_DEPTHWISE_WINDOW_H_
